"""The operators `torch.ops._c10d_functional`: collectives that take the name of a group, and return new tensors."""

from __future__ import annotations

from .._absent import absent_function
from . import _functional_collectives as _collectives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import Tensor

#: Operators return plain tensors.
_plain = _collectives.wait_tensor

__all__ = [
    "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "broadcast",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]


#: Operators of `torch.ops.c10d`, as names only: tools count collectives by them.
IN_PLACE = {
    name: absent_function(f"torch.ops.c10d.{name}", "call the functions of torch.distributed")
    for name in (
        "_allgather_base_",
        "_reduce_scatter_base_",
        "allgather_",
        "allgather_coalesced_",
        "allgather_into_tensor_coalesced_",
        "allreduce_",
        "allreduce_coalesced_",
        "alltoall_",
        "alltoall_base_",
        "broadcast_",
        "gather_",
        "reduce_",
        "reduce_scatter_",
        "reduce_scatter_tensor_coalesced_",
        "scatter_",
    )
}


def all_gather_into_tensor(input: Tensor, group_size: int, group_name: str) -> Tensor:
    """Return the tensors of all ranks, joined along the first dimension."""
    return _plain(_collectives.all_gather_single(input, 0, group_name))


def all_gather_into_tensor_coalesced(inputs: list[Tensor], group_size: int, group_name: str) -> list[Tensor]:
    """Return `all_gather_into_tensor` of each tensor of a list."""
    return [_plain(each) for each in _collectives.all_gather_into_tensor_coalesced(inputs, group_name)]


def all_reduce_coalesced(inputs: list[Tensor], reduce_op: str, group_name: str) -> list[Tensor]:
    """Return `all_reduce` of each tensor of a list."""
    return [_plain(each) for each in _collectives.all_reduce_coalesced(inputs, reduce_op, group_name)]


def reduce_scatter_tensor_coalesced(
    inputs: list[Tensor], reduce_op: str, group_size: int, group_name: str
) -> list[Tensor]:
    """Return `reduce_scatter_tensor` of each tensor of a list."""
    dims = [0] * len(inputs)
    return [_plain(each) for each in _collectives.reduce_scatter_tensor_coalesced(inputs, reduce_op, dims, group_name)]


def all_reduce(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    """Return the reduction of the tensors of all ranks."""
    return _plain(_collectives.all_reduce(input, reduce_op, group_name))


def all_to_all_single(
    input: Tensor, output_split_sizes: list[int], input_split_sizes: list[int], group_name: str
) -> Tensor:
    """Return the parts that all ranks have for this one. Sizes count rows."""
    return _collectives.wait_tensor(
        _collectives.all_to_all_single(input, output_split_sizes, input_split_sizes, group_name)
    )


def broadcast(input: Tensor, src: int, group_name: str) -> Tensor:
    """Return the tensor of one rank."""
    return _plain(_collectives.broadcast(input, src, group_name))


def reduce_scatter_tensor(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    """Return the part of this rank of the reduction. The parts are equal chunks of the first dimension."""
    return _plain(_collectives.reduce_scatter_single(input, reduce_op, 0, group_name))


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor, when its value is there."""
    return _collectives.wait_tensor(tensor)
