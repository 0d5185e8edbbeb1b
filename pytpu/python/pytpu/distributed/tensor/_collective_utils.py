"""Collectives along a dimension of a mesh, and padding of uneven shards to equal sizes."""

from __future__ import annotations

from ... import Tensor, cat
from .. import distributed_c10d as c10d

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..device_mesh import DeviceMesh
    from ..distributed_c10d import Work


def mesh_broadcast(
    tensor: Tensor, mesh: DeviceMesh, mesh_dim: int = 0, async_op: bool = False, *, group_src: int = 0
) -> Work | None:
    """Copy a tensor in place to the ranks along a dimension of a mesh.

    Args:
        tensor: what is sent, and what is overwritten on the other ranks.
        mesh: the mesh.
        mesh_dim: the dimension. Each line of ranks along it has a source of its own.
        async_op: whether to return before it is done.
        group_src: the place of the source in its line.

    Returns:
        The pending work, if `async_op` is set.
    """
    group = mesh.get_group(mesh_dim)
    return c10d.broadcast(tensor, group=group, async_op=async_op, group_src=group_src)


def mesh_scatter(
    output: Tensor,
    scatter_list: list[Tensor],
    mesh: DeviceMesh,
    mesh_dim: int = 0,
    async_op: bool = False,
    *,
    group_src: int = 0,
) -> Work | None:
    """Give each rank along a dimension of a mesh one tensor of a list.

    Args:
        output: the tensor that is overwritten with this rank's one.
        scatter_list: a tensor for each place along the dimension, all of one shape. Only that of the source is read.
        mesh: the mesh.
        mesh_dim: the dimension. Each line of ranks along it has a source of its own.
        async_op: whether to return before it is done.
        group_src: the place of the source in its line.

    Returns:
        The pending work, if `async_op` is set.
    """
    group = mesh.get_group(mesh_dim)
    is_source = c10d.get_rank(group) == group_src
    tensors = [tensor.contiguous() for tensor in scatter_list] if is_source else None
    return c10d.scatter(output, tensors, group=group, async_op=async_op, group_src=group_src)


def pad_tensor(tensor: Tensor, pad_dim: int, pad_size: int) -> Tensor:
    """Return `tensor` with `pad_size` zeros at the end of dimension `pad_dim`."""
    if pad_size == 0:
        return tensor
    sizes = list(tensor.shape)
    sizes[pad_dim] = pad_size
    return cat([tensor, tensor.new_zeros(sizes)], pad_dim)


def unpad_tensor(tensor: Tensor, pad_dim: int, pad_size: int) -> Tensor:
    """Return a view of `tensor` without the last `pad_size` places of dimension `pad_dim`."""
    if pad_size == 0:
        return tensor
    return tensor.narrow(pad_dim, 0, tensor.size(pad_dim) - pad_size)
