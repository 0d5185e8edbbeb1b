"""The older name of ``torch.ao.quantization``."""

from ..ao.quantization import *  # noqa: F403
from ..ao.quantization import __getattr__ as __getattr__
