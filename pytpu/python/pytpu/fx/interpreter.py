"""``torch.fx.interpreter``: names of what runs graphs."""

from . import Interpreter as Interpreter, Transformer as Transformer
