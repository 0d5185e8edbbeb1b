"""Random numbers of sharded tensors."""

from __future__ import annotations

from ... import manual_seed as _manual_seed
from ..device_mesh import DeviceMesh

__all__ = ["is_rng_supported_mesh", "manual_seed"]


def is_rng_supported_mesh(device_mesh: DeviceMesh) -> bool:
    """Return `True`: random numbers of a mesh do not depend on the type of its devices."""
    return True


def manual_seed(seed: int, device_mesh: DeviceMesh) -> None:
    """Seed all generators of this rank, those of meshes too. All ranks of the mesh give the same `seed`.

    Args:
        seed: the seed.
        device_mesh: the mesh.

    Raises:
        RuntimeError: if this rank is not in the mesh.
    """
    if device_mesh.get_coordinate() is None:
        raise RuntimeError("manual_seed requires the current rank to be a part of the device mesh")
    _manual_seed(seed)
