"""The old place of ``torch.distributed._shard.sharding_spec``."""

from ._shard.sharding_spec import *  # noqa: F403
from ._shard.sharding_spec import __all__  # noqa: F401
