"""`torch.distributed.tensor.parallel.api`: shard the submodules of a module by a plan."""

from __future__ import annotations

import fnmatch
import warnings

from .... import nn
from ...device_mesh import DeviceMesh, _mesh_resources
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: nn.Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> nn.Module:
    """Shard a module over a mesh of one dimension, and return it.

    Args:
        module: the module.
        device_mesh: the mesh. The default is the innermost one that is active.
        parallelize_plan: a style for the module, or styles by names of submodules. A name such as `"layers.*.w1"` may
            have `*` and `?` in it. The empty name is that of the module itself.
        src_data_rank: the rank whose parameters count. `None` lets each rank take its part of its own.

    Raises:
        TypeError: if the plan is none.
    """
    mesh = _mesh_resources.get_current_mesh() if device_mesh is None else device_mesh
    if parallelize_plan is None:
        warnings.warn("No parallelize_plan is provided and auto-parallel is not supported.", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        if not path:
            parallelize_module(module, mesh, style, src_data_rank=src_data_rank)
            continue
        first, *rest = path.split(".")
        children = [child for name, child in module.named_children() if fnmatch.fnmatch(name, first)]
        if not children:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching token '{first}' in module "
                f"{module}, skipping this plan entry.",
                stacklevel=2,
            )
        for child in children:
            plan = {".".join(rest): style} if rest else style
            parallelize_module(child, mesh, plan, src_data_rank=src_data_rank)
    return module
