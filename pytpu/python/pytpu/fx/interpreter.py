"""``torch.fx.interpreter``: names of classes that run graphs."""

from . import Interpreter as Interpreter, Transformer as Transformer
