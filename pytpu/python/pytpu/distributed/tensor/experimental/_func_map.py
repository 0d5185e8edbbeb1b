"""Functions of the parts of sharded tensors."""

from __future__ import annotations

import functools

from .... import Tensor
from ...device_mesh import DeviceMesh
from .._api import DTensor
from ..placement_types import Placement

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
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
    """Return a function of sharded tensors that calls ``func`` on their parts.

    If no argument is sharded, it calls ``func`` on the arguments.

    Args:
        func: a function of plain tensors. Without it, return a decorator.
        out_placements: the placements of the result, or a tuple of the placements of each result. ``None`` stands for a
            result that is no tensor.
        in_placements: the placements that each argument must have, ``None`` for arguments that are no sharded tensors.
        in_grad_placements: the placements that the gradient of each argument has.
        device_mesh: the mesh of plain arguments. The default is that of the sharded arguments.
        redistribute_inputs: whether arguments with other placements are redistributed.

    Raises:
        ValueError: if an argument has other placements, or there is another number of results.
        AssertionError: if there is another number of arguments than ``in_placements``.
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
        if in_placements is not None and len(in_placements) != len(args):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the input args length {len(args)}!"
            )
        mesh = device_mesh
        parts: list[Any] = []
        is_sharded = any(isinstance(x, DTensor) for x in args)
        for i, x in enumerate(args):
            wanted = None if in_placements is None else in_placements[i]
            if isinstance(x, DTensor):
                mesh = x.device_mesh if mesh is None else mesh
                if wanted is not None and x.placements != tuple(wanted):
                    if not redistribute_inputs:
                        raise ValueError(
                            f"arg {x} in local_map has a mismatched placements: {x.placements} vs {tuple(wanted)}. "
                            "If redistribute_inputs is wanted, set redistribute_inputs=True to local_map."
                        )
                    x = x.redistribute(placements=wanted)
                gradient = None if in_grad_placements is None else in_grad_placements[i]
                x = x.to_local(grad_placements=gradient)
            parts.append(x)
        results = function(*parts, **keywords)
        if not is_sharded:
            return results
        many = isinstance(results, tuple)
        each = results if many else (results,)
        placements = out_placements if many and isinstance(out_placements, tuple) else (out_placements,)
        if len(placements) != len(each):
            raise ValueError(f"local_map: {len(each)} results, and out_placements for {len(placements)}")
        whole = [
            DTensor.from_local(x, mesh, placed) if isinstance(x, Tensor) and placed is not None else x
            for x, placed in zip(each, placements)
        ]
        return tuple(whole) if many else whole[0]

    return call
