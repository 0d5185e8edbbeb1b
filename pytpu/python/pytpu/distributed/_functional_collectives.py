"""Collectives that return new tensors, and have gradients. They work on devices `cpu` and `tpu`.

The gradient of a sum over ranks is the sum of the gradients of all ranks, so every rank must go backward. Reductions
other than `"sum"` and `"avg"` have no gradient.

`group` is a `ProcessGroup`, its name, a list of global ranks, a `DeviceMesh` with one dimension, or a tuple of a
`DeviceMesh` and a dimension.
"""

from __future__ import annotations

import warnings

from .. import _C, Tensor, cat, empty_like
from ._groups import _get_group_tag, _resolve_process_group, get_group_rank, get_process_group_ranks
from ._methods import _reduction
from ._process_group import ProcessGroup
from ._reduce_op import RedOpType, ReduceOp
from ._watching import one_collective
from .distributed_c10d import _find_pg_by_ranks_and_tag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex

    from .._C import _TensorGroup

    RANK_TYPES = Any


class AsyncCollectiveTensor(Tensor):
    """A result of a collective.

    Its value is waited for where it is read, so `wait` is never needed. New tensors made from it are plain.
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def wait(self) -> Tensor:
        """Return this tensor as a plain tensor."""
        return _as(Tensor, self)

    trigger_wait = wait

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"AsyncCollectiveTensor({self.wait()})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return self.wait().__reduce_ex__(protocol)


def _as(cls: type[Tensor], tensor: Tensor) -> Tensor:
    """Return a tensor as an object of another class. It is a view only if it has a history."""
    return tensor.as_subclass(cls) if tensor.requires_grad else cls._make_subclass(cls, tensor)


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return `tensor` as a plain tensor. A read waits for its value."""
    return tensor.wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor


def wait_tensors(tensors: list[Tensor]) -> list[Tensor]:
    """Return `tensors` as plain tensors. A read waits for their values."""
    return [wait_tensor(tensor) for tensor in tensors]


def _resolve_group(group: RANK_TYPES, tag: str = "") -> ProcessGroup:
    """Return the process group that `group` means."""
    if isinstance(group, ProcessGroup):
        return group
    if isinstance(group, str):
        return _resolve_process_group(group)
    if isinstance(group, list):
        warnings.warn(
            "The combination of ranks + tag as process group identifier has been deprecated. Please switch to using "
            "ProcessGroup, DeviceMesh, or group name instead.",
            FutureWarning,
            stacklevel=3,
        )
        found = _find_pg_by_ranks_and_tag(tag, group)
        if found is None:
            raise ValueError(f"no process group has the ranks {group}")
        return found
    mesh, dim = group if isinstance(group, tuple) and len(group) == 2 else (group, None)
    if isinstance(group, tuple) and not (dim is not None and hasattr(mesh, "get_group") and isinstance(dim, int)):
        raise ValueError(
            f"Invalid tuple for group must be (DeviceMesh, int). Instead got {tuple(type(part) for part in group)}"
        )
    if not hasattr(mesh, "get_group"):
        raise ValueError(f"Unsupported group type: {type(group)}, {group}")
    if dim is None and mesh.ndim != 1:
        raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
    return mesh.get_group(dim or 0)


def _resolve_group_name(group: RANK_TYPES, tag: str = "") -> str:
    """Return the name of the process group that `group` means."""
    return _resolve_group(group, tag).group_name


def _expand_group(group: Any, tag: str = "") -> tuple[str, list[int], int]:
    """Return the tag of a group, its global ranks, and the number of ranks of each of its groups.

    Args:
        group: as for the collectives, or a list of lists of ranks, all of the same length.
        tag: a tag that replaces the group's, unless it is empty.
    """
    if isinstance(group, list):
        rows = group if group and isinstance(group[0], list) else [group]
        if any(len(row) != len(rows[0]) for row in rows):
            raise ValueError("group sizes must be identical")
        return tag, [rank for row in rows for rank in row], len(rows[0])
    resolved = _resolve_group(group)
    ranks = get_process_group_ranks(resolved)
    return tag or _get_group_tag(resolved), ranks, len(ranks)


def _tensors(group: RANK_TYPES, tag: str) -> tuple[ProcessGroup, _TensorGroup]:
    resolved = _resolve_group(group, tag)
    return resolved, resolved._tensor_group()


def _reduce_op(op: str | ReduceOp | RedOpType, tensor: Tensor) -> tuple[int, Tensor]:
    """Return the number of a reduction, and the tensor to reduce."""
    if isinstance(op, str):
        try:
            op = RedOpType[op.upper()]
        except KeyError:
            raise ValueError(f"Unsupported reduce operation: {op}") from None
    code, (reduced,) = _reduction(op, [tensor])
    return code, reduced


def broadcast(self: Tensor, src: int, group: RANK_TYPES, tag: str = "") -> Tensor:
    """Return `self` of a rank, on all ranks.

    Args:
        self: a tensor of the same shape on all ranks.
        src: the global rank that has the value.
        group: the ranks.
        tag: ignored, unless `group` is a list of ranks.
    """
    if self.is_meta:
        return empty_like(self)
    resolved, tensors = _tensors(group, tag)
    return _as(AsyncCollectiveTensor, tensors.broadcast(self, get_group_rank(resolved, src)))


def all_reduce(self: Tensor, reduceOp: str | ReduceOp, group: RANK_TYPES, tag: str = "") -> Tensor:
    """Return `self` of all ranks, combined, on all ranks.

    Args:
        self: a tensor of the same shape on all ranks.
        reduceOp: a `ReduceOp`, or its name such as `"sum"`.
        group: the ranks.
        tag: ignored, unless `group` is a list of ranks.
    """
    if self.is_meta:
        return empty_like(self)
    code, reduced = _reduce_op(reduceOp, self)
    return _as(AsyncCollectiveTensor, _tensors(group, tag)[1].all_reduce(reduced, code))


def all_reduce_coalesced(
    self: list[Tensor], reduceOp: str | ReduceOp, group: RANK_TYPES, tag: str = ""
) -> list[Tensor]:
    """Return `all_reduce` of each tensor of a list."""
    with one_collective("all_reduce_coalesced"):
        return [all_reduce(tensor, reduceOp, group, tag) for tensor in self]


def all_gather_single(self: Tensor, gather_dim: int, group: RANK_TYPES, tag: str = "") -> Tensor:
    """Return `self` of all ranks, concatenated along `gather_dim`, on all ranks.

    Args:
        self: a tensor of the same shape on all ranks.
        gather_dim: the dimension.
        group: the ranks.
        tag: ignored, unless `group` is a list of ranks.
    """
    resolved, tensors = _tensors(group, tag)
    gathered = tensors.all_gather(self)
    if gather_dim < 0:
        gather_dim += self.dim()
    if gather_dim != 0:
        gathered = cat(gathered.chunk(resolved.size(), 0), gather_dim)
    return _as(AsyncCollectiveTensor, gathered)


def reduce_scatter_single(
    self: Tensor, reduceOp: str | ReduceOp, scatter_dim: int, group: RANK_TYPES, tag: str = ""
) -> Tensor:
    """Combine `self` of all ranks. Return this rank's part of `scatter_dim`.

    Args:
        self: a tensor of the same shape on all ranks.
        reduceOp: a `ReduceOp`, or its name such as `"sum"`.
        scatter_dim: the dimension. Its size is a multiple of the number of ranks.
        group: the ranks.
        tag: ignored, unless `group` is a list of ranks.
    """
    resolved, tensors = _tensors(group, tag)
    size = resolved.size()
    if self.size(scatter_dim) % size != 0:
        raise AssertionError(f"input dimension 0 ({self.size(0)} must be a multiple of group_size {size})")
    if scatter_dim != 0:
        self = cat(self.chunk(size, scatter_dim), 0)
    code, reduced = _reduce_op(reduceOp, self)
    return _as(AsyncCollectiveTensor, tensors.reduce_scatter(reduced, code))


def all_gather_into_tensor_coalesced(self: list[Tensor], group: RANK_TYPES, tag: str = "") -> list[Tensor]:
    """Return `all_gather_single` along dimension 0 of each tensor of a list."""
    with one_collective("all_gather_into_tensor_coalesced"):
        return [all_gather_single(tensor, 0, group, tag) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: list[Tensor], reduceOp: str | ReduceOp, scatter_dim: list[int], group: RANK_TYPES, tag: str = ""
) -> list[Tensor]:
    """Return `reduce_scatter_single` of each tensor of a list, along its dimension of `scatter_dim`."""
    with one_collective("reduce_scatter_tensor_coalesced"):
        return [
            reduce_scatter_single(tensor, reduceOp, dim, group, tag)
            for tensor, dim in zip(inputs, scatter_dim, strict=True)
        ]


def all_to_all_single(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: RANK_TYPES,
    tag: str = "",
) -> Tensor:
    """Send rows of `self` to each rank, and return the rows from all ranks.

    Args:
        self: a tensor whose rows are sent.
        output_split_sizes: the number of rows from each rank. `None` means equal parts.
        input_split_sizes: the number of rows for each rank. `None` means equal parts.
        group: the ranks.
        tag: ignored, unless `group` is a list of ranks.
    """
    resolved, tensors = _tensors(group, tag)
    if output_split_sizes is None or input_split_sizes is None:
        if output_split_sizes is not None or input_split_sizes is not None:
            raise AssertionError(
                "output_split_sizes and input_split_sizes must either be specified together or both set to None"
            )
        output_split_sizes = input_split_sizes = [self.shape[0] // resolved.size()] * resolved.size()
    received = tensors.all_to_all(self, input_split_sizes, output_split_sizes)
    return _as(AsyncCollectiveTensor, received)


def permute_tensor(self: Tensor, src_dst: list[int], group: RANK_TYPES, tag: str = "") -> Tensor:
    """Send `self` from rank `i` to rank `src_dst[i]`, and return the elements that arrive, in one dimension.

    Args:
        self: a tensor of the same shape on all ranks.
        src_dst: the target of each rank.
        group: the ranks.
        tag: ignored, unless `group` is a list of ranks.
    """
    with one_collective("all_to_all_single"):
        received = _tensors(group, tag)[1].permute(self.reshape(-1), list(enumerate(src_dst)))
    return _as(AsyncCollectiveTensor, received)


all_gather_tensor = all_gather_tensor_autograd = all_gather_single_autograd = all_gather_single
reduce_scatter_tensor = reduce_scatter_tensor_autograd = reduce_scatter_single_autograd = reduce_scatter_single
all_to_all_single_autograd = all_to_all_single
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
