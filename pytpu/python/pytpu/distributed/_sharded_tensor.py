"""The old place of ``torch.distributed._shard.sharded_tensor``."""

from ._shard.sharded_tensor import *  # noqa: F403
from ._shard.sharded_tensor import __all__  # noqa: F401
