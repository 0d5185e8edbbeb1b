"""Functions of the parts of sharded tensors."""

from __future__ import annotations

import functools

from .... import Tensor
from ....utils._pytree import tree_flatten, tree_unflatten
from ...device_mesh import DeviceMesh
from .._api import DTensor
from ..placement_types import Placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["local_map"]


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: Sequence[Sequence[Placement] | None] | None = None,
    in_grad_placements: Sequence[Sequence[Placement] | None] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """Return a function of sharded tensors that calls `func` on their parts.

    If no argument is sharded, it calls `func` on the arguments.

    Args:
        func: a function of plain tensors. Without it, return a decorator.
        out_placements: the placements of the result, or a tuple of the placements of each result. Results in lists and
            dictionaries count one by one. `None` stands for a result that is no tensor.
        in_placements: the placements that each argument must have, `None` for arguments that are no sharded tensors.
            Arguments in lists and dictionaries count one by one.
        in_grad_placements: the placements that the gradient of each argument has.
        device_mesh: the mesh of plain arguments. The default is that of the sharded arguments.
        redistribute_inputs: whether arguments with other placements are redistributed.

    Raises:
        ValueError: if an argument has other placements, or there is another number of results.
        AssertionError: if there is another number of arguments than `in_placements`.
    """
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )
    function = func

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        leaves, structure = tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(leaves):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(leaves)}!"
            )
        mesh = device_mesh
        is_sharded = False
        for i, x in enumerate(leaves):
            if not isinstance(x, DTensor):
                continue
            is_sharded = True
            mesh = x.device_mesh if mesh is None else mesh
            wanted = None if in_placements is None else in_placements[i]
            if wanted is not None and x.placements != tuple(wanted):
                if not redistribute_inputs:
                    raise ValueError(
                        f"arg {x} in local_map has a mismatched placements: {x.placements} vs {tuple(wanted)}. "
                        "If redistribute_inputs is wanted, set redistribute_inputs=True to local_map."
                    )
                x = x.redistribute(placements=wanted)
            gradient = None if in_grad_placements is None else in_grad_placements[i]
            leaves[i] = x.to_local(grad_placements=gradient)
        results = function(*tree_unflatten(leaves, structure), **keywords)
        if not is_sharded:
            return results
        leaves, structure = tree_flatten(results)
        is_one = not isinstance(out_placements, tuple) or any(isinstance(p, Placement) for p in out_placements)
        placements = (out_placements,) if is_one else out_placements
        if len(placements) != len(leaves):
            raise ValueError(f"local_map: {len(leaves)} results, and out_placements for {len(placements)}")
        for i, (x, placed) in enumerate(zip(leaves, placements)):
            if isinstance(x, Tensor) and placed is not None:
                leaves[i] = DTensor.from_local(x, mesh, placed)
        return tree_unflatten(leaves, structure)

    return call
