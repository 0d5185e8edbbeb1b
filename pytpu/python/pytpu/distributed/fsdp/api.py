"""``torch.distributed.fsdp.api``: the names of ``torch.distributed.fsdp``."""

from . import *  # noqa: F403
