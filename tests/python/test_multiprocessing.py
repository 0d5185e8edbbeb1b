"""`torch.multiprocessing`: shared memory and errors of processes."""

import os
import pickle
import signal
import sys
import time

import pytest

import pytpu as torch
from pytpu import nn


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_forked_processes_write_to_shared_memory():
    import pytpu.multiprocessing as mp

    model = nn.Linear(3, 2).to(torch.float64)
    half = torch.zeros(2, 2, dtype=torch.bfloat16).t()
    assert not half.is_shared() and half.share_memory_() is half
    weight = model.weight
    assert model.share_memory() is model and model.weight is weight and weight.is_shared() and half.is_shared()
    before = weight.detach().clone()

    def work():
        with torch.no_grad():
            model.weight.add_(1)
            half[0, 1] = 3

    process = mp.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert torch.equal(weight, before + 1) and half.tolist() == [[0, 3], [0, 0]]
    with torch.no_grad():
        weight.zero_()
    assert weight.sum().item() == 0 and weight.requires_grad and weight.is_leaf


def _add(i, value):
    if value + i == 4:
        raise KeyError("four")
    if value + i == 9:
        os._exit(7)


def _fail_at_length(i):
    raise ValueError("x" * 200_000)


def test_errors_of_spawned_processes_reach_the_parent():
    import pytpu.multiprocessing as mp

    assert mp.spawn(_add, args=(0,), nprocs=2) is None
    with pytest.raises(mp.ProcessRaisedException, match=r"(?s)-- Process 1 terminated .*KeyError: 'four'") as e:
        mp.spawn(_add, args=(3,), nprocs=2)
    assert e.value.error_index == 1
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 7"):
        mp.spawn(_add, args=(9,), nprocs=1)
    # An error message may be longer than a pipe's buffer.
    with pytest.raises(mp.ProcessRaisedException) as e:
        mp.spawn(_fail_at_length, nprocs=1)
    assert len(str(e.value)) > 200_000


def _wait_or_fail(i, how):
    if i == 0:
        {"exit": lambda: os._exit(3), "signal": lambda: os.kill(os.getpid(), signal.SIGKILL), "raise": _fail}[how]()
    signal.pause()


def _fail():
    raise ValueError("first process")


def _stubborn(i, ready, go):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready.put(i)
    if i == 0:
        go.get()  # Until the other one ignores the signal too.
        os._exit(5)
    signal.pause()


def _put(i, queue):
    queue.put(i)


def _start_children(i, queue, method):
    import pytpu.multiprocessing as mp

    context = mp.start_processes(_say_and_wait, (queue,), nprocs=2, join=False, start_method=method)
    queue.put(("children", context.pids()))
    signal.pause()


def _say_and_wait(i, queue):
    queue.put(("ready", i))
    signal.pause()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_that_fails_ends_the_others(method):
    import pytpu.multiprocessing as mp

    words = {"exit": "process 0 terminated with exit code 3", "signal": "process 0 terminated with signal SIGKILL"}
    for how in ("exit", "signal", "raise"):
        context = mp.start_processes(_wait_or_fail, (how,), nprocs=2, join=False, start_method=method)
        with pytest.raises(mp.ProcessException) as error:
            while not context.join():
                pass
        assert error.value.error_index == 0 and error.value.error_pid == context.pids()[0]
        assert not any(process.is_alive() for process in context.processes)
        if how == "raise":
            assert str(error.value).startswith("\n\n-- Process 0 terminated with the following error:\nTraceback")
            assert str(error.value).endswith("\nValueError: first process\n")
        else:
            assert str(error.value) == words[how]
            assert error.value.exit_code == {"exit": 3, "signal": -signal.SIGKILL}[how]
            assert error.value.signal_name == {"exit": None, "signal": "SIGKILL"}[how]
        copy = pickle.loads(pickle.dumps(error.value))
        assert type(copy) is type(error.value) and vars(copy) == vars(error.value)


def test_processes_can_run_beside_the_parent():
    import pytpu.multiprocessing as mp

    queue = mp.get_context("spawn").SimpleQueue()
    context = mp.spawn(_put, (queue,), nprocs=2, join=False, daemon=True)
    assert isinstance(context, mp.ProcessContext) and all(process.daemon for process in context.processes)
    assert sorted([queue.get(), queue.get()]) == [0, 1]
    # Each call waits for the end of a process.
    context.join()
    context.join()
    assert context.join() is True
    context = mp.start_processes(_say_and_wait, (queue,), join=False)
    assert context.join(timeout=0.01) is False
    os.kill(context.pids()[0], signal.SIGTERM)
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with signal SIGTERM"):
        while not context.join():
            pass


def test_processes_that_ignore_the_signal_are_killed_after_the_grace_period():
    import pytpu.multiprocessing as mp

    # Process 0 would take the word of process 1 from a queue that they share.
    ready, go = (mp.get_context("spawn").Queue() for _ in range(2))
    context = mp.spawn(_stubborn, (ready, go), nprocs=2, join=False)
    assert {ready.get(timeout=60), ready.get(timeout=60)} == {0, 1}
    go.put("go")
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 5"):
        while not context.join(grace_period=0.1):
            pass
    assert context.processes[1].exitcode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_end_with_their_parent(method):
    import pytpu.multiprocessing as mp

    queue = mp.get_context("spawn").Queue()
    context = mp.spawn(_start_children, (queue, method), join=False)
    got = [queue.get(timeout=60) for _ in range(3)]
    (pids,) = (value for kind, value in got if kind == "children")
    os.kill(context.pids()[0], signal.SIGKILL)
    with pytest.raises(mp.ProcessExitedException, match="SIGKILL"):
        while not context.join():
            pass
    end = time.monotonic() + 60
    while any(_is_running(pid) for pid in pids):
        assert time.monotonic() < end, "the processes are still there"
        time.sleep(0.02)


def _is_running(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_older_ways_of_spawn_warn():
    import pytpu.multiprocessing as mp

    with pytest.warns(FutureWarning, match=r"only supports start_method=spawn \(got: fork\)"):
        mp.spawn(_add, args=(0,), start_method="fork")
    with pytest.warns(UserWarning, match="SpawnContext is renamed to ProcessContext"):
        assert mp.SpawnContext([], []).join()
