"""`torch.distributed.tensor.experimental._attention`: attention of sequences that are divided over ranks.

The sequence has two chunks for each rank. Rank `i` of `n` has the chunks `i` and `2 n - 1 - i`, so that all
ranks have as many pairs of a query and an earlier key. Keys and values are gathered, and queries stay where they are.
"""

from __future__ import annotations

import dataclasses

from .... import Tensor, arange, cat, nn, tensor
from ....overrides import TorchFunctionMode
from ..._functional_collectives import all_gather_single
from ...device_mesh import DeviceMesh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Any

    from .... import device as _device

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


@dataclasses.dataclass
class _Options:
    """Options of all contexts.

    Args:
        enable_load_balance: whether a rank has an early and a late chunk of a sequence instead of one chunk.
        rotate_method: how keys and values are exchanged.
    """

    enable_load_balance: bool = True
    rotate_method: str = "allgather"


_cp_options = _Options()


def set_rotate_method(rotate_method: str) -> None:
    """Set how keys and values are exchanged. Both ways gather them in one collective.

    Args:
        rotate_method: `"allgather"` or `"alltoall"`.

    Raises:
        NotImplementedError: for another method.
    """
    if rotate_method not in ("allgather", "alltoall"):
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    _cp_options.rotate_method = rotate_method


class _LoadBalancer:
    """An order of the places of a sequence, in which each rank has an equal part."""

    def _generate_indices(self, restore: bool = False) -> Tensor:
        raise NotImplementedError


class _HeadTailLoadBalancer(_LoadBalancer):
    """Rank `i` of `n` has the chunks `i` and `2 n - 1 - i` of `2 n`.

    Args:
        seq_length: the length of the sequence.
        world_size: the number of ranks.
        device: the device of the indices.

    Raises:
        ValueError: if the length is no multiple of two chunks for each rank.
    """

    def __init__(self, seq_length: int, world_size: int, device: str | _device) -> None:
        if seq_length % (2 * world_size):
            raise ValueError(f"seq_length: {seq_length}, must be a multiple of {2 * world_size}")
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False) -> Tensor:
        """Return the places in the order of ranks, or with `restore` the inverse, `(1, n)`."""
        order = _order(self.seq_length, self.world_size)
        if restore:
            order = sorted(range(len(order)), key=order.__getitem__)
        return tensor([order], device=self.device)


def _order(length: int, ranks: int) -> list[int]:
    """Return the places of a sequence in the order of ranks."""
    if not _cp_options.enable_load_balance or length % (2 * ranks):
        return list(range(length))
    size = length // (2 * ranks)
    chunks = [chunk for rank in range(ranks) for chunk in (rank, 2 * ranks - 1 - rank)]
    return [place for chunk in chunks for place in range(chunk * size, (chunk + 1) * size)]


def _own(x: Tensor, mesh: DeviceMesh, dim: int, order: Sequence[int]) -> Tensor:
    """Return the places of a dimension that this rank has."""
    size, ranks = x.size(dim), mesh.size()
    if size % ranks:
        raise ValueError(f"buffers: dimension {dim} of size {size}, must be a multiple of {ranks}")
    part, rank = size // ranks, mesh.get_local_rank()
    return x.index_select(dim, tensor(order[rank * part : (rank + 1) * part], device=x.device))


def _whole(x: Tensor, mesh: DeviceMesh, dim: int, order: Sequence[int]) -> Tensor:
    """Return a dimension in its order, from the parts of all ranks. It is differentiable."""
    gathered = all_gather_single(x, dim % x.ndim, mesh.get_group())
    if list(order) == sorted(order):
        return gathered
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return gathered.index_select(dim, tensor(inverse, device=x.device))


def _context_parallel_shard(
    mesh: DeviceMesh, buffers: Any, seq_dims: Any, load_balancer: _LoadBalancer | None = None
) -> list[Tensor]:
    """Return the parts of this rank of tensors with a dimension of the sequence.

    Without a `load_balancer`, a rank has one chunk.
    """
    if isinstance(buffers, dict):
        buffers, seq_dims = list(buffers.values()), [seq_dims[key] for key in buffers]
    parts = []
    for x, dim in zip(buffers, seq_dims, strict=True):
        order = list(range(x.size(dim))) if load_balancer is None else load_balancer._generate_indices()[0].tolist()
        parts.append(_own(x, mesh, dim, order))
    return parts


def context_parallel_unshard(
    mesh: DeviceMesh, buffers: list[Tensor], seq_dims: list[int], load_balancer: _LoadBalancer | None = None
) -> list[Tensor]:
    """Return whole tensors from the parts of all ranks.

    Args:
        mesh: the mesh of one dimension.
        buffers: the parts of this rank.
        seq_dims: the dimension of the sequence of each.
        load_balancer: the order that they were sharded in. The default is that of `context_parallel`.
    """
    whole = []
    for x, dim in zip(buffers, seq_dims, strict=True):
        if load_balancer is None:
            order = _order(x.size(dim) * mesh.size(), mesh.size())
        else:
            order = load_balancer._generate_indices()[0].tolist()
        whole.append(_whole(x.detach(), mesh, dim, order))
    return whole


class context_parallel(TorchFunctionMode):
    """A context manager in which sequences are divided over the ranks of a mesh.

    `buffers` become the parts of this rank, and `torch.nn.functional.scaled_dot_product_attention` takes the parts of
    queries, keys and values. It gathers keys and values. All other functions see the parts.

    Args:
        mesh: the mesh of one dimension.
        buffers: tensors with a dimension of the sequence, such as the batch, the labels and positional encodings.
        buffer_seq_dims: that dimension of each.
        no_restore_buffers: those that stay parts after the block.

    Raises:
        ValueError: if there is another number of `buffer_seq_dims`, `no_restore_buffers` has others, or a sequence
            cannot be divided evenly.
    """

    def __init__(
        self,
        mesh: DeviceMesh,
        *,
        buffers: list[Tensor] | None = None,
        buffer_seq_dims: list[int] | None = None,
        no_restore_buffers: set[Tensor] | None = None,
    ) -> None:
        self._mesh, self._buffers, self._dims = mesh, buffers or [], buffer_seq_dims or []
        self._kept = {id(x) for x in no_restore_buffers or ()}
        self._before: list[tuple[Tensor, Tensor]] = []
        if len(self._buffers) != len(self._dims):
            raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
        if not self._kept <= {id(x) for x in self._buffers}:
            raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")

    def __enter__(self) -> context_parallel:
        parts = []
        for x, dim in zip(self._buffers, self._dims):
            parts.append(_own(x.detach(), self._mesh, dim, _order(x.size(dim), self._mesh.size())))
        for x, part in zip(self._buffers, parts):
            if id(x) not in self._kept:
                self._before.append((x, x.data))
            x.data = part
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        while self._before:
            x, whole = self._before.pop()
            x.data = whole

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function. Attention gathers keys and values."""
        if getattr(func, "__name__", "") != "scaled_dot_product_attention":
            return func(*args, **(kwargs or {}))
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        return self._attention(**dict(zip(names, args)), **(kwargs or {}))

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Tensor:
        if attn_mask is not None:
            raise NotImplementedError("scaled_dot_product_attention with attn_mask in context_parallel")
        mesh, part = self._mesh, query.size(-2)
        order = _order(key.size(-2) * mesh.size(), mesh.size())
        key, value = (_whole(x, mesh, -2, order) for x in (key, value))
        attention = nn.functional.scaled_dot_product_attention
        if not is_causal:
            return attention(query, key, value, dropout_p=dropout_p, **options)
        start = mesh.get_local_rank() * part
        own = order[start : start + part]
        if query.device.type != "cpu":
            # All ranks have the same program.
            mask = tensor(own, device=query.device)[:, None] >= arange(key.size(-2), device=query.device)
            return attention(query, key, value, mask, dropout_p=dropout_p, **options)
        results, at = [], 0
        while at < part:
            # Places that follow each other see no key after the last of them.
            end = next((i for i in range(at + 1, part) if own[i] != own[i - 1] + 1), part)
            seen = own[end - 1] + 1
            mask = tensor(own[at:end])[:, None] >= arange(seen)
            rows = query.narrow(-2, at, end - at)
            results.append(
                attention(
                    rows, key.narrow(-2, 0, seen), value.narrow(-2, 0, seen), mask, dropout_p=dropout_p, **options
                )
            )
            at = end
        return results[0] if len(results) == 1 else cat(results, -2)
