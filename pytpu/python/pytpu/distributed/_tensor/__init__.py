"""The older name of ``torch.distributed.tensor``."""

from ..tensor import *  # noqa: F403
from ..tensor import DTensor as DTensor
