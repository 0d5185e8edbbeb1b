"""``torch.fx.interpreter``: names of what runs graphs."""

from . import Interpreter as Interpreter
from . import Transformer as Transformer
