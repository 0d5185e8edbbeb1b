"""Collectives with gradients, in the form of `torch.distributed` functions.

The gradient of a rank is that of the sum of the losses of all ranks, so every rank must go backward.
`torch.distributed._functional_collectives` has the same in the form of functions of a tensor.
"""

from __future__ import annotations

from ... import Tensor, cat, stack
from .._groups import _group_or_default_group, get_group_rank
from .._methods import _reduction
from .._process_group import ProcessGroup
from .._reduce_op import RedOpType, ReduceOp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._C import _TensorGroup


def _tensors(group: ProcessGroup | None) -> tuple[ProcessGroup, _TensorGroup]:
    resolved = _group_or_default_group(group)
    return resolved, resolved._tensor_group()


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Tensor:
    """Return `tensor` of the global rank `src`, on all ranks of `group`."""
    resolved, tensors = _tensors(group)
    return tensors.broadcast(tensor, get_group_rank(resolved, src))


def gather(tensor: Tensor, dst: int = 0, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """Return `tensor` of each rank of `group`, on the global rank `dst`. The other ranks get zeros."""
    resolved, tensors = _tensors(group)
    root, size, row = get_group_rank(resolved, dst), resolved.size(), tensor.reshape(-1)
    sent = [row.numel() if to == root else 0 for to in range(size)]
    received = [row.numel() if resolved.rank() == root else 0] * size
    gathered = tensors.all_to_all(row, sent, received)
    if resolved.rank() == root:
        return tuple(part.reshape(tensor.shape) for part in gathered.chunk(size))
    # The zeros depend on the result, so that every rank goes backward.
    return tuple(tensor.new_zeros(tensor.shape) + gathered.sum() for _ in range(size))


def scatter(tensors: list[Tensor], src: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """Return this rank's tensor of the list `tensors` of the global rank `src`.

    The other ranks pass tensors of the same shapes.
    """
    resolved, handle = _tensors(group)
    root, size, part = get_group_rank(resolved, src), resolved.size(), tensors[0].numel()
    row = cat([tensor.reshape(-1) for tensor in tensors])
    is_root = resolved.rank() == root
    sent = [part if is_root else 0] * size
    received = [part if source == root else 0 for source in range(size)]
    return handle.all_to_all(row if is_root else row[:0], sent, received).reshape(tensors[resolved.rank()].shape)


def reduce(
    tensor: Tensor, dst: int, op: ReduceOp | RedOpType = ReduceOp.SUM, group: ProcessGroup | None = None
) -> Tensor:
    """Return `tensor` of all ranks, combined, on the global rank `dst`. The other ranks get zeros."""
    resolved, tensors = _tensors(group)
    code, (reduced,) = _reduction(op, [tensor])
    return tensors.reduce(reduced, code, get_group_rank(resolved, dst))


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: ReduceOp | RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
) -> Tensor:
    """Combine the tensors of `input_list` of all ranks. Return this rank's tensor, of the shape of `output`."""
    code, reduced = _reduction(op, input_list)
    return _tensors(group)[1].reduce_scatter(stack(reduced), code).reshape(output.shape)


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """Return `tensor` of each rank, on all ranks."""
    return _tensors(group)[1].all_gather(tensor.unsqueeze(0)).unbind(0)


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """Return `input_tensor` of each rank as one tensor of the shape of `output_tensor`."""
    return _tensors(group)[1].all_gather(input_tensor.unsqueeze(0)).reshape(output_tensor.shape)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: ProcessGroup | None = None
) -> tuple[Tensor, ...]:
    """Send `input_tensor_list[i]` to rank `i`.

    Return the tensors from all ranks, of the shapes of `output_tensor_list`.
    """
    sent = [tensor.numel() for tensor in input_tensor_list]
    received = [tensor.numel() for tensor in output_tensor_list]
    row = _tensors(group)[1].all_to_all(cat([x.reshape(-1) for x in input_tensor_list]), sent, received)
    return tuple(
        part.reshape(output.shape) for part, output in zip(row.split(received), output_tensor_list, strict=True)
    )


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: ProcessGroup | None = None,
) -> Tensor:
    """Send rows of `input` to each rank.

    Return the rows from all ranks, in the shape of `output`. Without split sizes, rows are divided equally.
    """
    resolved, tensors = _tensors(group)
    size = resolved.size()
    sent = input_split_sizes or [input.shape[0] // size] * size
    received = output_split_sizes or [output.shape[0] // size] * size
    return tensors.all_to_all(input, sent, received).reshape(output.shape)


def all_reduce(tensor: Tensor, op: ReduceOp | RedOpType = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """Return `tensor` of all ranks, combined, on all ranks."""
    code, (reduced,) = _reduction(op, [tensor])
    return _tensors(group)[1].all_reduce(reduced, code)
