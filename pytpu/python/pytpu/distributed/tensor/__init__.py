"""``torch.distributed.tensor``: classes that libraries ask about. They have no instances, and none can be made."""

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
]

from ..device_mesh import DeviceMesh as DeviceMesh, init_device_mesh as init_device_mesh


def _refuse(*args, **kwargs):
    raise RuntimeError("torch.distributed is not available: training in several processes is not implemented yet")


class DTensor:
    """A tensor that is spread over processes. Making one raises ``RuntimeError``."""

    __init__ = from_local = _refuse


class Placement:
    """A way to spread a tensor over processes."""

    __init__ = _refuse


class Partial(Placement):
    """As summands."""


class Replicate(Placement):
    """As copies."""


class Shard(Placement):
    """As pieces."""


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Raise ``RuntimeError``."""
    _refuse()


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """Raise ``RuntimeError``."""
    _refuse()
