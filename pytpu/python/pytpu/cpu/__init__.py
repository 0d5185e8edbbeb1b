"""``torch.cpu``: the host as a device."""

from . import amp as amp

__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]


def is_available():
    """Return whether there is a host: always."""
    return True


def device_count():
    """Number of hosts: one."""
    return 1


def current_device():
    """Its name."""
    return "cpu"


def synchronize(device=None):
    """Do nothing: the host has no work that is not finished."""
