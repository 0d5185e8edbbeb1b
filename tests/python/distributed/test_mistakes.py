"""Programs with mistakes: each rank that is left gets an exception that says what is wrong."""

import datetime
import json
import os
import pathlib
import pickle
import signal
import sys
import threading
import time

import pytest

import pytpu as torch
import pytpu.distributed as dist

HERE = pathlib.Path(__file__).name


def other_shapes():
    dist.all_reduce(torch.ones(6 if dist.get_rank() == 1 else 4))


def other_dtypes():
    dist.all_reduce(torch.ones(4, dtype=torch.int32 if dist.get_rank() == 1 else torch.float32))


def other_collectives():
    x = torch.ones(4)
    dist.broadcast(x, 0) if dist.get_rank() == 1 else dist.all_reduce(x)


def other_reductions():
    dist.all_reduce(torch.ones(4), dist.ReduceOp.MAX if dist.get_rank() == 1 else dist.ReduceOp.SUM)


def other_roots():
    dist.broadcast(torch.ones(4), 1 if dist.get_rank() == 1 else 0)
    # Rank 2 gets its value from one of the roots, and learns of the mistake in its next call.
    dist.barrier()


def one_collective_more():
    if dist.get_rank() == 1:
        dist.barrier()
    dist.all_reduce(torch.ones(4))
    dist.barrier()


def other_groups():
    dist.new_group([0, 1] if dist.get_rank() == 1 else [0, 2])


def asynchronous_mistake():
    work = dist.all_reduce(torch.ones(6 if dist.get_rank() == 1 else 4), async_op=True)
    future = work.get_future()
    with pytest.raises(dist.DistBackendError):
        future.wait()
    assert work.is_completed() and not work.is_success()
    assert isinstance(work.exception(), dist.DistBackendError)
    work.wait()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (other_shapes, ["TensorShape=[4]", "TensorShape=[6]", "OpType=ALLREDUCE"]),
        (other_dtypes, ["TensorDtypes=Float", "TensorDtypes=Int"]),
        (other_collectives, ["OpType=ALLREDUCE", "OpType=BROADCAST"]),
        (other_reductions, ["ReduceOp=SUM", "ReduceOp=MAX"]),
        (other_roots, ["Root=0", "Root=1"]),
        (one_collective_more, ["OpType=BARRIER"]),
        (other_groups, ["Ranks=[0, 1]", "Ranks=[0, 2]"]),
        (asynchronous_mistake, ["TensorShape=[4]", "TensorShape=[6]"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_ranks_in_different_calls_are_told(fresh, program, words):
    errors = fresh().errors(program)
    for rank, error in enumerate(errors):
        assert error.kind is dist.DistBackendError, error
        assert "Detected mismatch between collectives on ranks" in error.text, error
        assert f"Rank {rank}" in error.text, error
        for word in words:
            assert word in error.text, (word, error)
        assert f"{HERE}:" in error.text, error


def leave_one_out(path):
    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = path
    dist.barrier()
    if dist.get_rank() == 1:
        # The other ranks wait for this one for 1 s. What they sent it may be there.
        time.sleep(3)
        dist.all_reduce(torch.ones(4))
        dist.barrier()
    dist.all_reduce(torch.ones(4))


def test_a_missing_rank_is_named_after_the_timeout(fresh, tmp_path):
    errors = fresh(timeout=1).errors(leave_one_out, str(tmp_path / "trace"))
    assert errors[1].kind is dist.DistBackendError
    for rank in (0, 2):
        assert errors[rank].kind is dist.DistBackendError
        for word in ["all_reduce: Timed out waiting 1000 ms for rank", "TensorShape=[4]", HERE, "rank 1: barrier"]:
            assert word in errors[rank].text, (word, errors[rank])
    dumps = [json.loads(path.read_text()) for path in tmp_path.iterdir() if path.suffix != ".tmp"]
    last = [dump["entries"][-1] for dump in dumps]
    assert any(entry["profiling_name"] == "gloo:all_reduce" and entry["state"] != "completed" for entry in last)


def broken_stays_broken():
    for _ in range(2):
        try:
            dist.all_reduce(torch.ones(6 if dist.get_rank() == 1 else 4))
        except dist.DistBackendError as error:
            last = error
    raise last


def test_a_broken_group_refuses_later_calls(fresh):
    for error in fresh().errors(broken_stays_broken):
        assert "The process group 0 is broken, because an earlier call failed" in error.text


def sum_forever():
    while True:
        dist.all_reduce(torch.ones(4))


def test_a_killed_process_is_named(fresh):
    pool = fresh()
    pid = pool.ranks[1].process.pid
    timer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
    timer.start()
    try:
        # Rank 1 runs the same program until it is killed, and does not answer.
        pool.ranks[1].pipe.send_bytes(pickle.dumps(("sum_forever", ())))
        errors = pool.errors(sum_forever, ranks=[0, 2])
        for error in errors:
            assert error.kind is dist.DistBackendError
            assert f"Rank 1 (pid {pid} on" in error.text and "has died" in error.text, error
    finally:
        timer.cancel()
        pool.close()


def leave():
    if dist.get_rank() == 1:
        dist.destroy_process_group()
        return
    dist.all_reduce(torch.ones(4))


def test_a_rank_that_has_left_is_named(fresh):
    errors = fresh().run(leave, may_raise=True)
    for rank in (0, 2):
        assert errors[rank].kind is dist.DistBackendError
        assert "Rank 1 has left the group" in errors[rank].text


def abort():
    if dist.get_rank() == 1:
        dist.distributed_c10d._abort_process_group()
        return
    dist.all_reduce(torch.ones(4))


def test_an_aborted_group_ends_the_calls_of_other_ranks(fresh):
    errors = fresh().run(abort, may_raise=True)
    for rank in (0, 2):
        assert errors[rank].kind is dist.DistBackendError
        assert "was aborted" in errors[rank].text


def interrupted():
    if dist.get_rank() == 1:
        # Rank 0 waits for this rank, until it is interrupted.
        time.sleep(1)
    if dist.get_rank() == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            dist.all_reduce(torch.ones(4))
        except KeyboardInterrupt:
            return "interrupted"
    dist.all_reduce(torch.ones(4))
    # What rank 0 sent before may be enough for the sum.
    dist.barrier()
    return None


def test_an_interrupt_ends_a_wait(fresh):
    results = fresh().run(interrupted, may_raise=True)
    assert results[0] == "interrupted"
    assert results[1].kind is results[2].kind is dist.DistBackendError


def interrupted_behind_another():
    if dist.get_rank() != 0:
        return None
    work = dist.all_reduce(torch.ones(4), async_op=True)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        dist.all_reduce(torch.ones(4))
    except KeyboardInterrupt:
        with pytest.raises(dist.DistBackendError):
            work.wait()
        return "interrupted"
    return None


def test_an_interrupt_ends_the_wait_for_an_earlier_collective(fresh):
    assert fresh().run(interrupted_behind_another)[0] == "interrupted"


def monitored(wait_all_ranks):
    limit = datetime.timedelta(milliseconds=300)
    if dist.get_rank() != 0:
        return
    dist.monitored_barrier(timeout=limit, wait_all_ranks=wait_all_ranks)


@pytest.mark.parametrize("wait_all_ranks", [False, True])
def test_a_monitored_barrier_names_the_missing_ranks(fresh, wait_all_ranks):
    results = fresh().run(monitored, wait_all_ranks, may_raise=True)
    names = "Ranks 1, 2" if wait_all_ranks else "Rank 1"
    assert f"[Rank 0]: {names} failed to pass monitoredBarrier in 300 ms" in results[0].text


def without_time():
    if dist.get_rank() == 0:
        dist.monitored_barrier(timeout=datetime.timedelta(0))


def test_a_monitored_barrier_without_time_fails_on_rank_0(fresh):
    results = fresh().run(without_time, may_raise=True)
    assert "Rank 0 timed out in monitoredBarrier after 0 ms" in results[0].text and results[1:] == [None, None]


def use_other_group():
    """An error in one group leaves another as it is."""
    other = dist.new_group()
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(6 if dist.get_rank() == 1 else 4))
    x = torch.ones(2)
    dist.all_reduce(x, group=other)
    return x.tolist()


def test_another_group_stays_usable(fresh):
    assert fresh().run(use_other_group) == [[3.0, 3.0]] * 3


def wrong_arguments():
    size, rank = dist.get_world_size(), dist.get_rank()
    x = torch.ones(3)
    engine = "ProcessGroupGloo::"
    for call, kind, text in [
        (lambda: dist.all_reduce([x]), TypeError, "Expected parameter `tensor` of type torch.Tensor"),
        (lambda: dist.all_gather(x, x), TypeError, r"Expected parameter `tensor_list` of type List\[torch.Tensor\]"),
        (lambda: dist.all_gather([x], x), RuntimeError, f"{engine}allgather: invalid output tensor list at index 0"),
        (
            lambda: dist.all_gather([torch.ones(4)] * size, x),
            RuntimeError,
            r"allgather: invalid tensor size at index 0 \(expected \(3\), got \(4\)\)",
        ),
        (
            lambda: dist.all_gather([torch.ones(3, dtype=torch.int64)] * size, x),
            ValueError,
            "Invalid usage of tensors with different dtypes",
        ),
        (lambda: dist.all_gather_into_tensor(torch.ones(4), x), ValueError, "output tensor size must be equal to"),
        (lambda: dist.broadcast(x), ValueError, "Must specify global_rank or group_rank"),
        (lambda: dist.broadcast(x, 0, group_src=0), ValueError, "Can't specify both group_rank and global_rank"),
        (lambda: dist.broadcast(x, size), RuntimeError, f"{engine}broadcast: invalid root rank: {size}"),
        (lambda: dist.reduce(x, -1), RuntimeError, f"{engine}reduce: invalid root rank: -1"),
        (lambda: dist.reduce_scatter(x, [x]), RuntimeError, "invalid input tensor list size, must be world size"),
        (lambda: dist.reduce_scatter_tensor(x, torch.ones(4)), ValueError, "input tensor must be the same size as"),
        (
            lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), dist.ReduceOp.MAX),
            ValueError,
            "all_reduce does not support RedOpType.MAX on complex tensors",
        ),
        (
            lambda: dist.all_reduce(x, dist.ReduceOp.BAND),
            ValueError,
            "Cannot use ReduceOp.BAND with non-integral dtype",
        ),
        (lambda: dist.all_reduce(x.expand(2, 3)), RuntimeError, "more than one element of the written-to tensor"),
        (lambda: dist.all_reduce(x.to("meta")), RuntimeError, "No backend type associated with device type meta"),
        (
            lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size), [1], None),
            RuntimeError,
            "Number of tensor splits not equal to group size",
        ),
        (
            lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size), [2] * size, None),
            RuntimeError,
            "Split sizes doesn't match total dim 0 size",
        ),
        (
            lambda: dist.all_to_all_single(torch.ones(size + 1), torch.ones(size), None, None),
            RuntimeError,
            "Tensor's dim 0 does not divide equally across group size",
        ),
        (lambda: dist.set_timeout(3), TypeError, "Expected timeout argument to be of type datetime.timedelta, got 3"),
        (lambda: dist.new_group([0, 0]), ValueError, r"ranks list must not contain duplicate entries, got \[0, 0\]"),
        (lambda: dist.new_group([size]), ValueError, f"Rank {size} is out of range. Valid ranks are 0 to {size - 1}"),
        (lambda: dist.new_group(list(range(size + 1))), ValueError, "should be less or equal to the world size"),
        (lambda: dist.new_subgroups(size + 1), ValueError, "must not exceed the world size"),
        (lambda: dist.new_subgroups_by_enumeration([]), ValueError, "cannot be empty"),
        (lambda: dist.new_subgroups_by_enumeration([[0], [0]]), ValueError, "Rank 0 has appeared in both subgroup"),
        (lambda: dist.split_group(split_ranks=[]), ValueError, "split_ranks cannot be None or empty"),
        (lambda: dist.split_group(split_ranks=[[0, 0]]), ValueError, "the split group cannot have duplicate ranks"),
        (lambda: dist.init_process_group(), ValueError, "trying to initialize the default process group twice!"),
    ]:
        with pytest.raises(kind, match=text):
            call()
    if rank == 0:
        for call in (lambda: dist.gather(x), lambda: dist.scatter(x)):
            with pytest.raises(ValueError, match="must be specified on"):
                call()
    else:
        for call in (lambda: dist.gather(x, [x] * size), lambda: dist.scatter(x, [x] * size)):
            with pytest.raises(ValueError, match="must NOT be specified on non-"):
                call()
    # None of these was sent, so the ranks are still at the same collective.
    dist.all_reduce(x)
    assert x.tolist() == [size] * 3


def test_wrong_arguments_are_refused_and_leave_the_group_usable(pool):
    pool.run(wrong_arguments)


def uncaught():
    if dist.get_rank() == 1:
        try:
            raise ValueError("the batch is empty")
        except ValueError as error:
            sys.excepthook(ValueError, error, error.__traceback__)
        return
    dist.all_reduce(torch.ones(4))


def test_an_uncaught_exception_is_told_to_other_ranks(fresh):
    errors = fresh().run(uncaught, may_raise=True)
    for rank in (0, 2):
        assert errors[rank].kind is dist.DistBackendError
        assert "ValueError: the batch is empty" in errors[rank].text
        assert "test_mistakes.py:" in errors[rank].text


def equal_numbers_of_elements(device):
    rank = dist.get_rank()
    shape = [(4,), (2, 2), (1, 4, 1)][rank]
    x = torch.ones(shape, device=device)
    dist.all_reduce(x)
    dist.broadcast(x, 1)
    dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True).wait()
    out = torch.empty(3 * 4, device=device)
    dist.all_gather_into_tensor(out, x.view(-1) if rank == 0 else x.reshape(4))
    assert x.shape == shape and x.sum().item() == 12
    assert out.tolist() == [3.0] * 12


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_shapes_of_equally_many_elements_may_meet(fresh, device):
    fresh().run(equal_numbers_of_elements, device)


def set_detail(is_on):
    dist.set_debug_level(dist.DebugLevel.DETAIL if is_on else dist.DebugLevel.OFF)


def mismatch_at_the_call(shapes):
    shape = shapes[dist.get_rank()]
    dist.group.WORLD.allreduce([torch.ones(3)]).wait()
    x = torch.ones(shape)
    try:
        dist.group.WORLD.allreduce([x])
    finally:
        set_detail(False)


@pytest.mark.parametrize("shapes", [((4,), (6,), (4,)), ((4,), (2, 2), (4,))])
def test_a_mismatch_is_raised_at_the_call_in_detail(fresh, shapes):
    pool = fresh()
    pool.run(set_detail, True)
    for error in pool.errors(mismatch_at_the_call, shapes):
        assert error.kind is dist.DistBackendError
        assert "Detected mismatch between collectives on ranks" in error.text
        assert f"TensorShape={list(shapes[1])}" in error.text


def compare_by_a_wrapper(name):
    rank = dist.get_rank()
    store = dist.distributed_c10d._get_default_store()
    group = dist.distributed_c10d._create_process_group_wrapper(dist.group.WORLD, name, store, rank, 3)
    x = torch.ones(4)
    group.allreduce([x]).wait()
    assert x.tolist() == [3.0] * 4 and (group.rank(), group.size()) == (rank, 3)
    outputs = [torch.empty(2) for _ in range(3)]
    group.allgather([outputs], [torch.full((2,), float(rank))]).wait()
    assert [each[0].item() for each in outputs] == [0, 1, 2]
    group.barrier().wait()
    group.broadcast([torch.ones(6 if rank == 1 else 5)])


def test_a_wrapped_group_compares_calls(fresh):
    for error in fresh().errors(compare_by_a_wrapper, "compared"):
        assert error.kind is dist.DistBackendError
        assert "OpType=BROADCAST" in error.text and "TensorShape=[[6]]" in error.text, error


def count_keys():
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    counts = []
    for _ in range(4):
        group = dist.new_group()
        dist.all_reduce(torch.ones(4), group=group)
        dist.all_reduce(torch.ones(4, device="tpu"), group=group)
        dist.destroy_process_group(group)
        dist.barrier()
        dist.barrier()
        counts.append(store.num_keys())
    return counts


def test_a_group_that_is_left_leaves_few_keys(fresh):
    counts = fresh().run(count_keys)[0]
    assert counts[-1] - counts[0] <= 2 * 3, counts
