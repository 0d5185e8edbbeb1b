"""`torch.fx.passes.infra`: passes in order, and partitions."""

from . import pass_manager
