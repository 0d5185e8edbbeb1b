"""Values and errors that ranks share, and the log of failing collectives."""

import logging

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu.distributed.c10d_logger import _c10d_logger, _exception_logger, _time_logger
from pytpu.distributed.checkpoint.api import CheckpointException
from pytpu.distributed.checkpoint.utils import _DistWrapper
from pytpu.distributed.collective_utils import all_gather, all_gather_object_enforce_type, broadcast


def fail():
    raise ValueError("no value")


def test_one_process_needs_no_group():
    assert broadcast(lambda: 3) == 3 and broadcast(4) == 4 and all_gather(lambda: 5) == [5]
    with pytest.raises(RuntimeError, match="Rank 0 failed: stage read: exception no value") as raised:
        broadcast(fail, stage_name="read")
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(RuntimeError, match="all_gather failed for stage read with exception no value"):
        all_gather(fail, stage_name="read")
    with pytest.raises(RuntimeError, match="Rank 0 failed"):
        broadcast(3, success=False)


def share():
    """Return what all ranks have after each function."""
    rank, world, called = dist.get_rank(), dist.group.WORLD, []
    value = broadcast(lambda: called.append(rank) or f"of {rank}", rank=1, pg=world)
    with pytest.raises(RuntimeError, match="Rank 1 failed: exception no value"):
        broadcast(fail, rank=1, pg=world)
    with pytest.raises(RuntimeError, match="all_gather failed with exception no value"):
        all_gather(lambda: fail() if rank else 1, pg=world)
    with pytest.raises(TypeError, match="Object type at index 1"):
        all_gather_object_enforce_type(world, [None, None], rank or "text")
    return value, called, all_gather(lambda: rank, pg=world)


def test_ranks_share_values_and_errors(pools):
    assert pools(2).run(share) == [("of 1", [], [0, 1]), ("of 1", [1], [0, 1])]


def exchange():
    """Return what all ranks have after each method."""
    rank = dist.get_rank()
    team = _DistWrapper(dist.group.WORLD, True, 1)
    with pytest.raises(CheckpointException, match="no value"):
        team.all_gather("read", lambda: fail() if rank == 0 else 1)
    team.barrier()
    return (
        team.is_coordinator,
        team.broadcast_object(rank if rank == 1 else None),
        team.gather_object(rank),
        team.all_gather_object(rank),
        team.scatter_object(["a", "b"] if rank == 1 else None),
        team.all_reduce("add", lambda: rank + 1, sum),
        team.reduce_scatter("divide", lambda: rank, lambda all: [x * 10 for x in all]),
        team.broadcast("name", lambda: f"of {rank}"),
    )


def test_objects_and_results_are_exchanged(pools):
    assert pools(2).run(exchange) == [
        (False, 1, None, [0, 1], "a", 3, 0, "of 1"),
        (True, 1, [0, 1], [0, 1], "b", 3, 10, "of 1"),
    ]


def test_one_process_exchanges_with_itself():
    team = _DistWrapper(None, False, 0)
    assert team.is_coordinator and team.get_rank() == 0 and team.get_world_size() == 1
    assert team.broadcast_object(1) == 1 and team.gather_object(1) == [1] and team.scatter_object([2]) == 2
    assert team.all_reduce("add", lambda: 2, sum) == 2
    team.barrier()


def test_failing_functions_are_logged(caplog):
    assert any(isinstance(handler, logging.NullHandler) for handler in _c10d_logger.handlers)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with caplog.at_level(logging.DEBUG, logger=_c10d_logger.name):
            with pytest.raises(RuntimeError, match="invalid root rank"):
                _exception_logger(dist.broadcast)(torch.ones(1), 5)
            assert _time_logger(len)([1, 2]) == 2
    finally:
        dist.destroy_process_group()
    failed, timed = [record.msg for record in caplog.records]
    assert failed["func_name"] == "broadcast" and "invalid root rank" in failed["error"]
    assert failed["world_size"] == "1" and failed["backend"] == "gloo"
    assert timed["func_name"] == "len" and int(timed["time_spent"]) >= 0
