"""Meshes that follow the links between chips."""

from __future__ import annotations

from .. import _C, tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


def ranks_on_torus(mesh_shape: Sequence[int]) -> Tensor:
    """Return the ranks of a `DeviceMesh` whose dimensions follow the links between the chips of the machine.

    The coordinates of the chips decide. If the dimensions of the machine can be shared out, so that the ones of each
    mesh dimension multiply to its size, a mesh dimension has whole rings of links. Otherwise the mesh is filled row by
    row. Where a plugin reports no coordinates, as on GPUs and XLA:CPU, ranks are in their order.

    Args:
        mesh_shape: the size of each mesh dimension. Their product is the number of ranks.

    Returns:
        An `int64` tensor of this shape on device `cpu`, the same on all ranks.

    Raises:
        ValueError: if the mesh does not have as many places as there are ranks, and without a process group.

    Example:
        >>> import pytpu as torch
        >>> import pytpu.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.tpu.ranks_on_torus((1, 1))
        tensor([[0]])
        >>> dist.destroy_process_group()
    """
    from ..distributed import get_world_size

    shape = list(mesh_shape)
    return tensor(_C._ranks_on_torus(shape, get_world_size())).reshape(shape)
