"""``torch.distributed.fsdp.fully_sharded_data_parallel``: the names of ``torch.distributed.fsdp``."""

from . import *  # noqa: F403
from . import FullyShardedDataParallel as FullyShardedDataParallel
