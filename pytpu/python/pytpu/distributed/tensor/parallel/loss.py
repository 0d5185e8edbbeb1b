"""`torch.distributed.tensor.parallel.loss`: losses of logits that are sharded by classes."""

from __future__ import annotations

from ....overrides import TorchFunctionMode
from .._api import DTensor
from ..placement_types import Replicate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["loss_parallel"]


class loss_parallel(TorchFunctionMode):
    """A context manager in which `torch.nn.functional.cross_entropy` takes plain targets beside sharded logits.

    Each rank has the logits of some classes, and exchanges the maxima and sums of rows, not the logits. The loss is
    replicated along the mesh dimension that divides the classes. The backward pass may run outside of the block.

    Raises:
        ValueError: if not exactly one mesh dimension divides the classes.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributed.tensor import Shard, distribute_tensor
        >>> from pytpu.distributed.tensor.parallel import loss_parallel
        >>> store = torch.distributed.HashStore()
        >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> logits = distribute_tensor(torch.zeros(2, 4), mesh, [Shard(1)])
        >>> with loss_parallel():
        ...     loss = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 3]))
        >>> round(loss.item(), 4)
        1.3863
        >>> torch.distributed.destroy_process_group()
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function, and convert the operands and the result of a loss."""
        names = ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
        given = dict(zip(names, args)) | (kwargs or {})
        logits = given.get("input")
        if getattr(func, "__name__", "") != "cross_entropy" or not isinstance(logits, DTensor):
            return func(*args, **(kwargs or {}))
        mesh, class_dim = logits.device_mesh, 1 if logits.ndim > 1 else 0
        divided = sum(placement.is_shard(class_dim) for placement in logits.placements)
        if divided != 1:
            raise ValueError(
                f"loss_parallel() requires exactly one mesh dim to shard tensor dimension {class_dim}, "
                f"but got placements {logits.placements} with {divided} such mesh dim(s)."
            )
        for name in ("target", "weight"):
            x = given.get(name)
            if x is not None and not isinstance(x, DTensor):
                given[name] = DTensor.from_local(x, mesh, [Replicate()] * mesh.ndim)
        loss = func(**given)
        placements = [
            Replicate() if before.is_shard(class_dim) else now
            for before, now in zip(logits.placements, loss.placements)
        ]
        return loss.redistribute(placements=placements)
