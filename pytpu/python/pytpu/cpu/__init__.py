"""``torch.cpu``: the host as a device."""

from . import amp as amp

__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]


def is_available():
    """Whether there is a host: always."""
    return True


def device_count():
    """Number of hosts: one."""
    return 1


def current_device():
    """Its name."""
    return "cpu"


def synchronize(device=None):
    """Nothing to wait for: what the host computes, it has computed."""
