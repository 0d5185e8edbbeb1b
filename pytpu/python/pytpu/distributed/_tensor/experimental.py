"""The older name of ``torch.distributed.tensor.experimental``."""

from ..tensor.experimental import *  # noqa: F403
