"""``torch.distributed.tensor``: classes that libraries ask about; nothing is an instance of them, and none can be made."""

__all__ = ["DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor"]


def _refuse(*args, **kwargs):
    raise RuntimeError("torch.distributed is not available: training in several processes is not there yet")


class DTensor:
    """A tensor spread over processes: raises ``RuntimeError`` when it is made."""

    __init__ = from_local = _refuse


class DeviceMesh:
    """Devices of several processes: raises ``RuntimeError`` when it is made."""

    __init__ = _refuse


class Placement:
    """How a tensor is spread."""

    __init__ = _refuse


class Partial(Placement):
    """As summands."""


class Replicate(Placement):
    """As copies."""


class Shard(Placement):
    """As pieces."""


distribute_module = distribute_tensor = _refuse
