"""Errors of workers: their files, the summary of the agent, and functions as workers."""

import json
import os
import pickle
import signal
import subprocess

import pytest

import pytpu as torch
from pytpu.distributed.elastic.multiprocessing import (
    DefaultLogsSpecs,
    MultiprocessContext,
    SignalException,
    Std,
    SubprocessContext,
    start_processes,
    to_map,
)
from pytpu.distributed.elastic.multiprocessing.api import _Guard
from pytpu.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ErrorHandler,
    ProcessFailure,
    get_error_handler,
    record,
)
from pytpu.distributed.elastic.multiprocessing.subprocess_handler import get_subprocess_handler
from pytpu.distributed.elastic.rendezvous import registry
from pytpu.distributed.launcher.api import LaunchConfig, elastic_launch

LIMIT = 60


@pytest.fixture
def error_file(tmp_path, monkeypatch):
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    return path


@pytest.fixture
def signals():
    """Give the signals back that starting processes takes."""
    names = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    before = {name: signal.getsignal(name) for name in names}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


def test_record_writes_the_exception(error_file):
    @record
    def main(x):
        raise ValueError(f"bad {x}")

    with pytest.raises(ValueError, match="bad 3"):
        main(3)
    assert main.__name__ == "main"
    message = json.loads(error_file.read_text())["message"]
    assert message["message"] == "ValueError: bad 3" and int(message["extraInfo"]["timestamp"]) > 0
    assert message["extraInfo"]["py_callstack"].startswith("Traceback (most recent call last):\n")


def test_record_without_an_exception_or_a_file_writes_nothing(error_file, monkeypatch):
    assert record(lambda: 3)() == 3
    assert record(lambda: exit(0))() is None
    with pytest.raises(SystemExit):
        record(lambda: exit(4))()
    assert not error_file.exists()
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE")
    with pytest.raises(ZeroDivisionError):
        record(lambda: 1 / 0)()


def test_record_takes_a_handler_of_the_program():
    seen = []

    class Handler(ErrorHandler):
        def set_entrypoint_fn_name(self, fn_name):
            seen.append(fn_name)

        def initialize(self):
            seen.append("begin")

        def record_exception(self, e):
            seen.append(repr(e))

        def record_success(self):
            seen.append("success")

    def work(fails):
        if fails:
            raise KeyError("x")

    call = record(work, Handler())
    call(False)
    with pytest.raises(KeyError):
        call(True)
    name = work.__qualname__
    assert seen == [name, "begin", "success", name, "begin", "KeyError('x')"]


def test_record_copies_the_error_of_a_worker_with_its_exit_code(tmp_path, error_file):
    worker_file = tmp_path / "worker.json"
    details = {"py_callstack": "Traceback: here", "timestamp": "5"}
    worker_file.write_text(json.dumps({"message": {"message": "ValueError: bad", "extraInfo": details}}))

    @record
    def agent():
        raise ChildFailedError("train.py", {0: ProcessFailure(0, 77, -11, str(worker_file))})

    error_file.write_text("a part of a file")
    with pytest.raises(ChildFailedError, match="Traceback: here"):
        agent()
    copied = json.loads(error_file.read_text())["message"]
    assert copied == {"message": "ValueError: bad", "extraInfo": details, "errorCode": -11}


def test_failures_are_described(tmp_path):
    absent = str(tmp_path / "absent")
    failure = ProcessFailure(1, 77, -signal.SIGSEGV, absent)
    assert failure.message == "Signal 11 (SIGSEGV) received by PID 77" and failure.signal_name() == "SIGSEGV"
    assert failure.error_file == "<N/A>" and failure.error_file_data == {"message": "<NONE>"}
    # A real-time signal has no name everywhere.
    assert ProcessFailure(1, 77, -50, absent).signal_name() == "<N/A>"
    failure = ProcessFailure(1, 77, 3, absent)
    assert failure.message.startswith("To enable traceback see") and failure.signal_name() == "<N/A>"
    assert failure.error_file_data["errorTraits"]["category"] == "system_terminated_error"
    path = tmp_path / "text.json"
    path.write_text('{"message": "a text", "timestamp": "12"}')
    failure = ProcessFailure(1, 77, 3, str(path))
    assert (failure.message, failure.timestamp) == ("a text", 12)
    path.write_text('{"other": 1}')
    with pytest.raises(KeyError):
        ProcessFailure(1, 77, 3, str(path))


def test_the_first_failure_is_the_root_cause(tmp_path):
    failures = {}
    for rank, second in ((0, 20), (1, 10), (2, 30)):
        path = tmp_path / f"{rank}.json"
        path.write_text(json.dumps({"message": f"text of {rank}", "timestamp": second}))
        failures[rank] = ProcessFailure(rank, 100 + rank, 1, str(path))
    error = ChildFailedError("train.py", failures)
    assert error.get_first_failure() == (1, failures[1])
    others, root = str(error).split("Root Cause (first observed failure):")
    assert "text of 0" in others and "text of 2" in others and "text of 1" not in others
    assert root.startswith("\n[1]:\n") and "text of 1" in root
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    with pytest.raises(AssertionError):
        ChildFailedError("train.py", {})


def test_the_modules_of_errors_have_the_names_of_pytorch():
    from pytpu.distributed.elastic.multiprocessing.errors import error_handler, handlers

    assert error_handler.ErrorHandler is ErrorHandler and handlers.get_error_handler is get_error_handler
    assert torch.distributed.elastic.multiprocessing.api.Std is Std


def test_streams_as_texts():
    assert Std.from_str("3") == Std.ALL and Std.from_str("0:3,12:1") == {0: Std.ALL, 12: Std.OUT}
    for text in ("4", "a", "0:4", "0:1,", ""):
        with pytest.raises(ValueError, match="does not match"):
            Std.from_str(text)
    assert to_map(Std.ERR, 2) == {0: Std.ERR, 1: Std.ERR}
    assert to_map({1: Std.OUT}, 2) == {0: Std.NONE, 1: Std.OUT}


def test_log_folders(tmp_path):
    with pytest.raises(NotADirectoryError, match="is a file"):
        (tmp_path / "file").touch()
        DefaultLogsSpecs(str(tmp_path / "file"))
    nowhere = DefaultLogsSpecs(os.devnull, tee=Std.ALL, local_ranks_filter={0})
    envs = {0: {}, 1: {}}
    dest = nowhere.reify(envs)
    assert dest.stdouts == {0: "", 1: os.devnull} and envs[1] == {"TORCHELASTIC_ERROR_FILE": ""}
    specs = DefaultLogsSpecs(str(tmp_path / "new"), tee=Std.OUT)
    first = specs.reify({0: {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "0"}})
    second = specs.reify({0: {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "1"}})
    assert first.tee_stdouts == first.stdouts and first.stdouts[0].endswith("/attempt_0/0/stdout.log")
    assert second.error_files[0] == first.error_files[0].replace("attempt_0", "attempt_1")
    assert specs == DefaultLogsSpecs(str(tmp_path / "new"), tee=Std.OUT) != nowhere


def _double(x):
    # `print` writes to an object of pytest's in a forked process.
    os.write(1, f"worker {os.environ['RANK']}\n".encode())
    # Longer than the buffer of a pipe.
    return x * 100_000


def _fail_second(x):
    if os.environ["RANK"] == "1":
        raise KeyError("broken")
    signal.pause()


def _end_by_signal():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("start_method", ["spawn", "fork", "forkserver"])
def test_functions_return_values(tmp_path, signals, start_method):
    specs = DefaultLogsSpecs(str(tmp_path), redirects=Std.OUT)
    envs = {rank: {"RANK": str(rank)} for rank in range(2)}
    context = start_processes("work", _double, {0: ("a",), 1: ("b",)}, envs, specs, start_method=start_method)
    assert isinstance(context, MultiprocessContext) and len(context.pids()) == 2
    result = context.wait(LIMIT)
    assert not result.is_failed() and result.return_values == {0: "a" * 100_000, 1: "b" * 100_000}
    assert [open(result.stdouts[rank]).read() for rank in range(2)] == ["worker 0\n", "worker 1\n"]


def test_a_function_that_fails_ends_the_others(tmp_path, signals):
    envs = {rank: {"RANK": str(rank)} for rank in range(2)}
    context = start_processes("work", _fail_second, {0: ("a",), 1: ("b",)}, envs, DefaultLogsSpecs(str(tmp_path)))
    result = context.wait(LIMIT)
    assert result.is_failed() and list(result.failures) == [1]
    assert result.failures[1].message["message"] == "KeyError: 'broken'" and result.failures[1].exitcode == 1
    for pid in context.pids().values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_commands_run_until_they_are_closed(tmp_path, signals):
    specs = DefaultLogsSpecs(str(tmp_path))
    context = start_processes("work", "sleep", {0: (600,), 1: (600,)}, {0: {}, 1: {}}, specs)
    assert isinstance(context, SubprocessContext)
    assert context.wait(0) is None and context.wait(timeout=0.05, period=0.01) is None
    context.close(signal.SIGKILL)
    assert [handler.proc.returncode for handler in context.subprocess_handlers.values()] == [-9, -9]
    result = context.wait(LIMIT)
    assert {rank: failure.exitcode for rank, failure in result.failures.items()} == {0: -9, 1: -9}


def test_wrong_groups_of_workers_are_refused(tmp_path, signals):
    specs = DefaultLogsSpecs(str(tmp_path))
    with pytest.raises(RuntimeError, match="local rank mapping mismatch"):
        start_processes("work", "true", {0: (), 2: ()}, {0: {}, 2: {}}, specs)
    with pytest.raises(NotImplementedError, match="numa_options"):
        start_processes("work", "true", {0: ()}, {0: {}}, specs, numa_options=object())
    with pytest.raises(FileNotFoundError):
        start_processes("work", "/absent/program", {0: ()}, {0: {}}, specs)


def test_a_group_without_workers_succeeds(tmp_path, signals):
    for entrypoint in ("true", _end_by_signal):
        result = start_processes("work", entrypoint, {}, {}, DefaultLogsSpecs(str(tmp_path))).wait(LIMIT)
        assert not result.is_failed() and result.return_values == {}


def test_the_guard_kills_the_workers_that_are_left():
    guard = _Guard()
    ended, left = (subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2))
    try:
        guard.watch(ended.pid)
        guard.watch(left.pid)
        guard.forget(ended.pid)
        # The end of the pipe is the end of the agent.
        guard._process.stdin.close()
        assert left.wait(LIMIT) == -signal.SIGKILL and guard._process.wait(LIMIT) == 0
        assert ended.poll() is None
        # A guard that has ended is noticed.
        guard.stop()
        guard = _Guard()
        guard._process.kill()
        guard._process.wait()
        guard.watch(ended.pid)
        guard.stop()
    finally:
        for process in (ended, left):
            process.kill()
            process.wait()


def test_a_debugging_server_is_refused(monkeypatch, tmp_path):
    from pytpu.distributed.elastic.control_plane import worker_main

    with worker_main():
        pass
    monkeypatch.setenv("TORCH_WORKER_SERVER_SOCKET", str(tmp_path / "socket"))
    with pytest.raises(NotImplementedError, match="there is no debugging server"):
        with worker_main():
            pass


def test_signals_raise_in_the_agent(tmp_path, signals):
    context = start_processes("work", "sleep", {0: (600,)}, {0: {}}, DefaultLogsSpecs(str(tmp_path)))
    try:
        with pytest.raises(SignalException, match=rf"Process {os.getpid()} got signal: 15") as error:
            os.kill(os.getpid(), signal.SIGTERM)
            context.wait(LIMIT)
        assert error.value.sigval == signal.SIGTERM
    finally:
        context.close()


def test_signals_wait_until_all_workers_are_known(tmp_path, signals, monkeypatch):
    started = []

    def interrupted(*arguments):
        started.append(get_subprocess_handler(*arguments))
        os.kill(os.getpid(), signal.SIGTERM)
        return started[-1]

    monkeypatch.setattr(torch.distributed.elastic.multiprocessing.api, "get_subprocess_handler", interrupted)
    specs = DefaultLogsSpecs(str(tmp_path))
    with pytest.raises(SignalException, match="got signal: 15"):
        start_processes("work", "sleep", {0: (600,), 1: (600,)}, {0: {}, 1: {}}, specs)
    assert [handler.proc.wait(LIMIT) for handler in started] == [-signal.SIGTERM] * 2


def config(tmp_path, **settings):
    settings = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "max_restarts": 0, **settings}
    return LaunchConfig(1, 1, 2, run_id="job", logs_specs=DefaultLogsSpecs(str(tmp_path)), **settings)


def test_elastic_launch_returns_values_by_rank(tmp_path, signals):
    assert elastic_launch(config(tmp_path), _double)("x") == {0: "x" * 100_000, 1: "x" * 100_000}


def test_elastic_launch_raises_the_failures(tmp_path, signals):
    with pytest.raises(ChildFailedError, match="_fail_second FAILED") as error:
        elastic_launch(config(tmp_path), _fail_second)("x")
    assert error.value.get_first_failure()[1].message["message"] == "KeyError: 'broken'"
    with pytest.raises(ChildFailedError, match=r"Signal 9 \(SIGKILL\) received by PID"):
        elastic_launch(config(tmp_path), _end_by_signal)()


def test_the_end_of_a_rendezvous_does_not_hide_the_failures(tmp_path, signals, monkeypatch):
    ends = []

    def find(parameters):
        handler = registry_function(parameters)

        def shutdown():
            ends.append(handler)
            raise RuntimeError("the store is gone")

        monkeypatch.setattr(handler, "shutdown", shutdown)
        return handler

    registry_function = registry.get_rendezvous_handler
    monkeypatch.setattr(registry, "get_rendezvous_handler", find)
    with pytest.raises(ChildFailedError, match="_fail_second FAILED"):
        elastic_launch(config(tmp_path), _fail_second)("x")
    assert len(ends) == 1


def test_the_default_rendezvous_of_pytorch_is_refused_by_name(tmp_path):
    with pytest.raises(NotImplementedError, match="'etcd' is not part of this package. note: use --rdzv-backend=c10d"):
        elastic_launch(LaunchConfig(1, 1, 1, logs_specs=DefaultLogsSpecs(str(tmp_path))), "true")()
