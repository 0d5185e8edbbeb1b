"""Collectives on tensors.

Each function checks its arguments and passes them to a method of the group. `_methods._on_device` chooses the
engine of the tensor's device.
"""

from __future__ import annotations

import contextlib
import datetime
import threading
import warnings

from .. import Tensor, device as _device, view_as_real
from .._C import Work, _flight_recorder_json
from . import _groups
from ._groups import (
    _check_valid_timeout,
    _group_or_default_group,
    _member,
    get_global_rank,
    get_group_rank,
)
from ._methods import _on_device
from ._options import AllreduceCoalescedOptions, ReduceScatterOptions
from ._process_group import ProcessGroup
from ._reduce_op import RedOpType, ReduceOp, supports_complex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..futures import Future


# Arguments of collectives


def _check_single_tensor(param: object, param_name: str) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{param_name}` of type torch.Tensor\n"
            f"             but got {type(param)} instead."
        )


def _check_tensor_list(param: object, param_name: str) -> None:
    start = f"Invalid function argument. Expected parameter `{param_name}` of type List[torch.Tensor]\n"
    if not isinstance(param, list):
        raise TypeError(f"{start}             but got {type(param)} instead.")
    if not all(isinstance(tensor, Tensor) for tensor in param):
        kinds = [type(tensor) for tensor in param]
        raise TypeError(f"{start}             but got {type(param)} with elements of type {kinds}.")


def _ensure_all_tensors_same_dtype(*tensors: Tensor | list[Tensor]) -> None:
    last = None
    for given in tensors:
        for tensor in given if isinstance(given, list) else [given]:
            kind = tensor.dtype.to_real() if tensor.dtype.is_complex else tensor.dtype
            if last is not None and kind is not last:
                raise ValueError(f"Invalid usage of tensors with different dtypesFound {last} and  {tensor.dtype}")
            last = kind


def _as_real_if_mixed(tensors: list[Tensor]) -> list[Tensor]:
    """Return `tensors`, or views of real numbers if some of them are complex and others are not."""
    if len({tensor.dtype for tensor in tensors}) <= 1:
        return tensors
    return [view_as_real(tensor) if tensor.is_complex() else tensor for tensor in tensors]


def _canonicalize_group_rank(
    group: ProcessGroup,
    global_rank: int | None = None,
    group_rank: int | None = None,
    return_global: bool = False,
) -> int:
    """Return the rank in the group, or the global one, of a rank that is given as one of both."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return get_global_rank(group, group_rank) if return_global else group_rank
    if global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return global_rank if return_global else get_group_rank(group, global_rank)


def _check_not_self_rank(group: ProcessGroup, rank: int, rank_type: str) -> None:
    if group.rank() == rank:
        raise ValueError(
            f"Invalid {rank_type} rank: {rank_type} rank should not be the same as the rank of the current process."
        )


# Collectives


def all_reduce(
    tensor: Tensor,
    op: ReduceOp | RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the tensors of all ranks, in place, on all ranks.

    Args:
        tensor: the value of this rank, which the result replaces. Shape and dtype are the same on all ranks.
        op: a `ReduceOp`.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.

    Raises:
        DistBackendError: if another rank is in another call, comes too late, or is gone.

    Example:
        >>> import pytpu as torch
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0])
        >>> dist.all_reduce(x)
        >>> x
        tensor([1., 2.])
        >>> dist.destroy_process_group()
    """
    _check_single_tensor(tensor, "tensor")
    pg = _member(group, "all_reduce")
    if pg is None:
        return None
    if tensor.is_complex() and not supports_complex(op):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    if _groups._world.pg_coalesce_state and _hold(pg, all_reduce, tensor, None, op):
        return _HeldWork() if async_op else None
    tensors = [tensor]
    return pg._all_reduce(tensors, op, (async_op, None, tensors))


def all_reduce_coalesced(
    tensors: list[Tensor],
    op: ReduceOp | RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Future | None:
    """Combine each of several tensors of one dtype with those of the other ranks, in place.

    Returns:
        A `torch.futures.Future` if `async_op`, else `None`.
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    _check_tensor_list(tensors, "tensor")
    _ensure_all_tensors_same_dtype(tensors)
    pg = _member(group, "all_reduce_coalesced")
    if pg is None:
        return None
    if any(tensor.is_complex() for tensor in tensors) and not supports_complex(op):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    work = pg._all_reduce(_as_real_if_mixed(tensors), op, (async_op, None, tensors))
    return work.get_future() if work is not None else None


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy the tensor of one rank to all ranks, in place.

    Args:
        tensor: the value of rank `src`, and the place of the result on the others.
        src: the global rank of the source. Or `group_src`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.
        group_src: the rank of the source in `group`.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    pg = _member(group, "broadcast")
    if pg is None:
        return None
    root = _canonicalize_group_rank(pg, src, group_src)
    _check_single_tensor(tensor, "tensor")
    pg._check_root("broadcast", root)
    return _on_device(pg, tensor).broadcast([tensor], root, (async_op, None, [tensor]))


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp | RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combine the tensors of all ranks, in place, on rank `dst`. The tensors of the other ranks stay as they are.

    Args:
        tensor: the value of this rank.
        dst: the global rank that gets the result. Or `group_dst`, its rank in `group`.
        op: a `ReduceOp`.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.
        group_dst: the rank in `group` that gets the result.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    pg = _member(group, "reduce")
    if pg is None:
        return None
    root = _canonicalize_group_rank(pg, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    pg._check_root("reduce", root)
    return pg._reduce([tensor], root, op, (async_op, None, [tensor]))


def all_gather(
    tensor_list: list[Tensor],
    tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Gather the tensors of all ranks in a list, on all ranks.

    Args:
        tensor_list: a tensor for each rank, which the results are written to.
        tensor: the value of this rank. Shape and dtype are the same on all ranks.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    _check_tensor_list(tensor_list, "tensor_list")
    _check_single_tensor(tensor, "tensor")
    _ensure_all_tensors_same_dtype(tensor_list, tensor)
    pg = _member(group, "all_gather")
    if pg is None:
        return None
    *outputs, value = _as_real_if_mixed([*tensor_list, tensor])
    return pg._all_gather(outputs, value, (async_op, None, tensor_list))


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Future | None:
    """Gather each of several tensors of one dtype. `output_tensor_lists[i]` gets those of rank `i`.

    Returns:
        A `torch.futures.Future` if `async_op`, else `None`.
    """
    pg = _member(group, "all_gather_coalesced")
    if pg is None:
        return None
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for outputs in output_tensor_lists:
        _check_tensor_list(outputs, "output_tensor_lists")
        _ensure_all_tensors_same_dtype(outputs)
    outputs = [_as_real_if_mixed(tensors) for tensors in output_tensor_lists]
    work = pg.allgather_coalesced(outputs, _as_real_if_mixed(input_tensor_list))
    if async_op:
        return work.get_future()
    work.wait()
    return None


def all_gather_single(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Gather the tensors of all ranks in one tensor, on all ranks.

    Args:
        output_tensor: the result, one after the other: concatenated or stacked along dimension 0.
        input_tensor: the value of this rank, `(...)`. Shape and dtype are the same on all ranks.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    _check_single_tensor(input_tensor, "input_tensor")
    _check_single_tensor(output_tensor, "output_tensor")
    pg = _member(group, "all_gather_single")
    if pg is None:
        return None
    if _groups._world.pg_coalesce_state and _hold(pg, all_gather_single, input_tensor, output_tensor, None):
        return _HeldWork() if async_op else None
    return pg._all_gather_single(output_tensor, input_tensor, (async_op, None, [output_tensor]))


def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """The same as `all_gather_single`."""
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def _all_gather_base(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """The old name of `all_gather_single`."""
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Gather the tensors of all ranks in a list, on one rank.

    Args:
        tensor: the value of this rank. Shape and dtype are the same on all ranks.
        gather_list: on rank `dst` a tensor for each rank, which the results are written to. `None` on the others.
        dst: the global rank that gets the result, 0 by default. Or `group_dst`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.
        group_dst: the rank in `group` that gets the result.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    _check_single_tensor(tensor, "tensor")
    gather_list = gather_list or []
    _check_tensor_list(gather_list, "gather_list")
    _ensure_all_tensors_same_dtype(tensor, gather_list)
    pg = _member(group, "gather")
    if pg is None:
        return None
    root = _canonicalize_group_rank(pg, 0 if dst is None and group_dst is None else dst, group_dst)
    _check_output_list(pg, root, gather_list)
    return pg._gather(gather_list, tensor, root, (async_op, None, gather_list))


def _check_output_list(pg: ProcessGroup, root: int, outputs: list[Any] | None) -> None:
    if root == pg.rank():
        if not outputs:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    elif outputs:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")


def gather_single(
    tensor: Tensor,
    gather_tensor: Tensor | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Gather the tensors of all ranks in one tensor, on one rank.

    Args:
        tensor: the value of this rank. Shape and dtype are the same on all ranks.
        gather_tensor: on rank `dst` the result, one after the other. `None` on the others.
        dst: the global rank that gets the result, 0 by default. Or `group_dst`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.
        group_dst: the rank in `group` that gets the result.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    _check_single_tensor(tensor, "tensor")
    pg = _member(group, "gather_single")
    if pg is None:
        return None
    root = _canonicalize_group_rank(pg, 0 if dst is None and group_dst is None else dst, group_dst)
    if root == pg.rank():
        if gather_tensor is None:
            raise ValueError("gather_tensor must be specified on the destination rank")
        _check_single_tensor(gather_tensor, "gather_tensor")
        _ensure_all_tensors_same_dtype(tensor, gather_tensor)
    return pg._gather_single(gather_tensor, tensor, root, (async_op, None, [gather_tensor]))


def gather_into_tensor(
    tensor: Tensor,
    gather_tensor: Tensor | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The same as `gather_single`."""
    return gather_single(tensor, gather_tensor, dst, group, async_op, group_dst)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Hand each rank a tensor of one rank's list.

    Args:
        tensor: the place of the result.
        scatter_list: on rank `src` a tensor for each rank. `None` on the others.
        src: the global rank of the source, 0 by default. Or `group_src`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.
        group_src: the rank of the source in `group`.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    _check_single_tensor(tensor, "tensor")
    scatter_list = scatter_list or []
    _check_tensor_list(scatter_list, "scatter_list")
    _ensure_all_tensors_same_dtype(tensor, scatter_list)
    pg = _member(group, "scatter")
    if pg is None:
        return None
    root = _canonicalize_group_rank(pg, 0 if src is None and group_src is None else src, group_src)
    if root == pg.rank():
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    return pg._scatter(tensor, scatter_list, root, (async_op, None, [tensor]))


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: ReduceOp | RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the lists of all ranks, and hand each rank its tensor of the result.

    Args:
        output: the place of the result.
        input_list: a tensor for each rank. Shapes and dtypes are those of `output`.
        op: a `ReduceOp`.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    _check_single_tensor(output, "output")
    _check_tensor_list(input_list, "input_list")
    _ensure_all_tensors_same_dtype(output, input_list)
    pg = _member(group, "reduce_scatter")
    if pg is None:
        return None
    return pg._reduce_scatter(output, input_list, op, (async_op, None, [output]))


def reduce_scatter_single(
    output: Tensor,
    input: Tensor,
    op: ReduceOp | RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the tensors of all ranks, and hand each rank its part of the result.

    Args:
        output: the place of the result.
        input: the parts for the ranks, one after the other: concatenated or stacked along dimension 0.
        op: a `ReduceOp`.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    pg = _member(group, "reduce_scatter_single")
    if pg is None:
        return None
    if _groups._world.pg_coalesce_state and _hold(pg, reduce_scatter_single, input, output, op):
        return _HeldWork() if async_op else None
    return pg._reduce_scatter_single(output, input, op, (async_op, None, [output]))


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp | RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """The same as `reduce_scatter_single`."""
    return reduce_scatter_single(output, input, op, group, async_op)


def _reduce_scatter_base(
    output: Tensor,
    input: Tensor,
    op: ReduceOp | RedOpType = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """The old name of `reduce_scatter_single`."""
    return reduce_scatter_single(output, input, op, group, async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send the tensor `input_tensor_list[i]` to rank `i`, and receive `output_tensor_list[i]` from it.

    Shapes may differ. The element counts of a pair of ranks agree.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    pg = _member(group, "all_to_all")
    if pg is None:
        return None
    _check_tensor_list(output_tensor_list, "output_tensor_list")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(output_tensor_list, input_tensor_list)
    return pg._all_to_all(output_tensor_list, input_tensor_list, (async_op, None, output_tensor_list))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send rows of `input` to each rank, and receive rows of `output` from each.

    Args:
        output: the place of the result.
        input: rows along dimension 0, those for rank 0 first.
        output_split_sizes: rows from each rank. `None` divides `output` equally.
        input_split_sizes: rows for each rank. `None` divides `input` equally.
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return before the result is there.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    pg = _member(group, "all_to_all_single")
    if pg is None:
        return None
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    _ensure_all_tensors_same_dtype(output, input)
    call = (async_op, None, [output])
    return pg._all_to_all_single(output, input, output_split_sizes, input_split_sizes, call)


def barrier(
    group: ProcessGroup | None = None,
    async_op: bool = False,
    device_ids: list[int] | None = None,
    timeout: datetime.timedelta | None = None,
) -> Work | None:
    """Wait until all ranks are here.

    Args:
        group: the ranks. The default is the group of all ranks.
        async_op: whether to return at once.
        device_ids: accepted, and not used: the ranks meet on their hosts.
        timeout: the limit of this call. The default is that of the group.

    Returns:
        A `Work` if `async_op`, else `None`. Also `None` if this rank is not in `group`.
    """
    pg = _member(group, "barrier")
    if pg is None:
        return None
    if timeout is not None:
        _check_valid_timeout(timeout)
    return pg._engine.barrier((async_op, timeout, []))


def monitored_barrier(
    group: ProcessGroup | None = None,
    timeout: datetime.timedelta | float | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Wait until all ranks are here. Each rank's error names the ranks that are missing.

    Args:
        group: the ranks. The default is the group of all ranks.
        timeout: the limit of this call. The default is that of the group.
        wait_all_ranks: whether to name all missing ranks, or the first one.

    Raises:
        DistBackendError: if ranks are missing after `timeout`. The group stays usable.
    """
    pg = _member(group, "monitored_barrier")
    if pg is None:
        return
    if isinstance(timeout, float):
        warnings.warn(
            "Please specify timeout arg as a timedelta. "
            f"Converting current value of {timeout} assuming it represents seconds",
            stacklevel=2,
        )
        timeout = datetime.timedelta(seconds=timeout)
    if timeout is not None:
        _check_valid_timeout(timeout)
    pg.monitored_barrier(timeout, wait_all_ranks)


# Collectives that run together


class _CollOp:
    """A collective that a `_coalescing_manager` holds back."""

    def __init__(self, op, tensor, output, reduction):
        self.op, self.tensor, self.output, self.reduction = op, tensor, output, reduction


class _HeldWork(Work):
    """What a collective returns that is held back. The manager has the work."""

    def wait(self, timeout=None):
        """Raise `ValueError`."""
        raise ValueError("Illegal to call wait on IllegalWork object")

    result = synchronize = is_success = exception = source_rank = wait


def _hold(pg: ProcessGroup, op: Callable[..., Any], tensor: Tensor, output: Tensor | None, reduction: Any) -> bool:
    """Hold a collective back, if the group is within a `_coalescing_manager`."""
    held = _groups._world.pg_coalesce_state.get(pg)
    if held is None:
        return False
    held.append(_CollOp(op, tensor, output, reduction))
    return True


class _CoalescingManager:
    """The works of a `_coalescing_manager`."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        """Add a work."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all works."""
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(
    group: ProcessGroup | None = None, device: _device | None = None, async_ops: bool = False
) -> Iterator[_CoalescingManager]:
    """Hold collectives of a group back, and run them together at the end of the block. All are of one kind."""
    pg = _group_or_default_group(group)
    if _groups._world.pg_coalesce_state.setdefault(pg, []):
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    manager = _CoalescingManager()
    try:
        yield manager
    except BaseException:
        _groups._world.pg_coalesce_state.pop(pg, None)
        raise
    held = _groups._world.pg_coalesce_state.pop(pg)
    if not held:
        return
    names = {each.op.__name__ for each in held}
    if len(names) > 1:
        text = "Coalescing manager requires all collectives to be the same type, but got mixed types"
        raise RuntimeError(f"{text}: {names}")
    tensors, outputs = [each.tensor for each in held], [each.output for each in held]
    if held[0].op is all_reduce:
        work = pg.allreduce_coalesced(tensors, AllreduceCoalescedOptions(reduceOp=held[0].reduction))
    elif held[0].op is all_gather_single:
        work = pg.all_gather_single_coalesced(outputs, tensors)
    else:
        options = ReduceScatterOptions(reduceOp=held[0].reduction)
        work = pg.reduce_scatter_single_coalesced(outputs, tensors, options)
    if async_ops:
        manager.append(work)
    else:
        work.wait()


#: The name that `record_comm` has set.
_profiled = threading.local()


@contextlib.contextmanager
def record_comm(name: str) -> Iterator[None]:
    """Name the collectives of a block in a profile."""
    from ..profiler import record_function

    before = _get_comm_profiling_name()
    _profiled.name = name
    try:
        with record_function(name):
            yield
    finally:
        _profiled.name = before


def _get_comm_profiling_name() -> str:
    """Return the name of the innermost `record_comm` of this thread, or an empty text."""
    return getattr(_profiled, "name", "")


def _dump_fr_trace() -> str:
    """Return the last collectives of this process as JSON, with the names of PyTorch's flight recorder."""
    return _flight_recorder_json()
