"""`torch.distributed.algorithms`: names around training in several processes."""

from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
