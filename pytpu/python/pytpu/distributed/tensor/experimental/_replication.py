"""Plain tensors beside sharded ones."""

from __future__ import annotations

from .... import Tensor
from ....overrides import TorchFunctionMode
from .._api import DTensor
from ..placement_types import Replicate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...device_mesh import DeviceMesh

__all__ = ["implicit_replication"]


def _mesh(value: Any) -> DeviceMesh | None:
    """Return the mesh of a sharded tensor in a value."""
    if isinstance(value, DTensor):
        return value.device_mesh
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return next((mesh for mesh in map(_mesh, values) if mesh is not None), None)


def _replicate(value: Any, mesh: DeviceMesh, replicas: list[tuple[Tensor, DTensor, int]]) -> Any:
    """Return the value with sharded tensors for plain ones. Add each pair to `replicas`, with the version."""
    if isinstance(value, DTensor):
        return value
    if isinstance(value, Tensor):
        replica = DTensor.from_local(value, mesh, [Replicate()] * mesh.ndim)
        replicas.append((value, replica, replica._version))
        return replica
    if isinstance(value, dict):
        return {key: _replicate(each, mesh, replicas) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_replicate(each, mesh, replicas) for each in value)
    return value


class implicit_replication(TorchFunctionMode):
    """A context manager in which plain tensors may stand beside sharded ones. Every rank has the same elements."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function with sharded tensors for plain ones, if there is a sharded tensor."""
        mesh, replicas = _mesh([args, kwargs or {}]), list[tuple[Tensor, DTensor, int]]()
        if mesh is not None:
            args, kwargs = _replicate(args, mesh, replicas), _replicate(kwargs or {}, mesh, replicas)
        result = func(*args, **(kwargs or {}))
        for plain, replica, version in replicas:
            if replica._version != version:
                plain.copy_(replica.to_local())
            if result is replica:
                result = plain
        return result
