"""Groups of workers on this machine."""

from __future__ import annotations

import abc
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, TextIO

from ..utils.logging import get_logger
from . import _guard
from ._logs import DefaultLogsSpecs, LogsDest, LogsSpecs, Std, to_map
from .errors import ProcessFailure, record
from .redirects import redirect_stderr, redirect_stdout
from .subprocess_handler import SubprocessHandler, get_subprocess_handler
from .tail_log import TailLog

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "get_std_cm",
    "to_map",
]

logger = get_logger(__name__)

_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
# A process that the kernel cannot end, for example while it waits for a broken disk, is left after this many seconds.
_AFTER_KILL = 30


class SignalException(Exception):
    """The agent has received a signal that ends it.

    Args:
        msg: the text.
        sigval: the signal.
    """

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


class _Deferral:
    """Signals that wait until all workers are known. An exception between two starts would forget a worker."""

    is_active = False
    pending: int | None = None


def _raise_signal(signum: int, frame: FrameType | None) -> None:
    if _Deferral.is_active:
        _Deferral.pending = signum
        return
    received = signal.Signals(signum)
    raise SignalException(f"Process {os.getpid()} got signal: {received}", received)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Deferral.is_active, _Deferral.pending = True, None
    try:
        yield
    finally:
        _Deferral.is_active = False
    if _Deferral.pending is not None:
        _raise_signal(_Deferral.pending, None)


def _handle_signals() -> None:
    """Let the signals that `TORCHELASTIC_SIGNALS_TO_HANDLE` names raise `SignalException`."""
    if threading.current_thread() is not threading.main_thread():
        logger.warning(
            "Failed to register signal handlers since torchelastic is running on a child thread. "
            "This could lead to orphaned worker processes if the torchrun is terminated."
        )
        return
    for name in os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", _SIGNALS).split(","):
        try:
            signal.signal(getattr(signal, name.strip()), _raise_signal)
        except (AttributeError, TypeError, ValueError, OSError):  # No signal, or one that cannot be handled.
            logger.warning("Failed to register signal handler for %s", name, exc_info=True)
        else:
            logger.info("Registered signal handler for %s", name)


def _check_ranks(d: dict[int, Any], nprocs: int, what: str) -> None:
    if set(d) != set(range(nprocs)):
        raise RuntimeError(f"{what}, local rank mapping mismatch, expected: {set(range(nprocs))}, actual: {set(d)}")


def get_std_cm(std_rd: str, redirect_fn: Callable[[str], AbstractContextManager[None]]) -> AbstractContextManager[None]:
    """Return a context manager that redirects a stream to a file, or does nothing without a path.

    Args:
        std_rd: path of the file, or an empty text.
        redirect_fn: `redirect_stdout` or `redirect_stderr`.
    """
    return redirect_fn(std_rd) if std_rd else nullcontext()


class _Guard:
    """A process that kills the workers if this process ends without ending them."""

    def __init__(self) -> None:
        # Without `site` and variables: nothing of the program's can change it.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", _guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # A line that could not be written must not be written again at the end.
            bufsize=0,
            start_new_session=True,
        )

    def _write(self, line):
        stream = self._process.stdin
        if stream is None or stream.closed:
            return
        try:
            stream.write(f"{line}\n".encode())
        except BrokenPipeError:
            logger.warning("the guard process has ended: workers may outlive this process if it is killed")

    def watch(self, pid: int) -> None:
        """Add a worker."""
        self._write(pid)

    def forget(self, pid: int) -> None:
        """Remove a worker that has ended: its number may become another process's."""
        self._write(-pid)

    def stop(self) -> None:
        """End the guard: the workers have ended."""
        self._write("done")
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


@dataclass
class RunProcsResult:
    """The result of a group of workers, by local rank.

    Args:
        return_values: values that functions returned.
        failures: workers that failed.
        stdouts: files with the output, or empty texts.
        stderrs: files with the errors, or empty texts.
    """

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Return whether a worker failed."""
        return len(self.failures) > 0


def _contains(needles: list[str], line: str) -> bool:
    return any(needle in line for needle in needles)


class PContext(abc.ABC):
    """A group of workers. It is not PyTorch's `torch.multiprocessing.ProcessContext`.

    Args:
        name: what the workers do.
        entrypoint: a function, or a command.
        args: arguments by local rank.
        envs: variables of the environment by local rank.
        logs_specs: the plan for the output.
        log_line_prefixes: beginnings of lines on the console by local rank.
        duplicate_stdout_filters: texts. Lines of the output with one of them go to a file of all workers too.
        duplicate_stderr_filters: the same for the errors.

    Attributes:
        shutdown_timeout: seconds from `SIGTERM` to `SIGKILL` for the other workers after a failure.
    """

    shutdown_timeout = 30

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        self.name = name
        self.nprocs = len(args)
        _check_ranks(args, self.nprocs, "args")
        _check_ranks(envs, self.nprocs, "envs")
        dest = logs_specs.reify(envs)
        _check_ranks(dest.stdouts, self.nprocs, "stdouts")
        _check_ranks(dest.stderrs, self.nprocs, "stderrs")
        self.entrypoint = entrypoint
        self.args = args
        self.envs = envs
        self.stdouts = dest.stdouts
        self.stderrs = dest.stderrs
        self.error_files = dest.error_files
        self._tail_logs = []
        self._filtered: list[TextIO] = []
        for logs, console, path, needles in (
            (dest.tee_stdouts, sys.stdout, dest.filtered_stdout, duplicate_stdout_filters),
            (dest.tee_stderrs, sys.stderr, dest.filtered_stderr, duplicate_stderr_filters),
        ):
            self._tail_logs.append(TailLog(name, logs, console, log_line_prefixes))
            if needles:
                file = open(path, "w", errors="replace", buffering=1)
                self._filtered.append(file)
                has_needle = partial(_contains, needles)
                self._tail_logs.append(TailLog(name, logs, file, log_line_prefixes, log_line_filter=has_needle))
        self._guard: _Guard | None = None

    def _result(self, values: dict[int, Any], failures: dict[int, ProcessFailure]) -> RunProcsResult:
        return RunProcsResult(values, failures, self.stdouts, self.stderrs)

    def start(self) -> None:
        """Start the workers. In the main thread, signals raise `SignalException` from now on."""
        _handle_signals()
        with _deferred_signals():
            self._guard = _Guard()
            self._start(self._guard)
        for tail_log in self._tail_logs:
            tail_log.start()

    @abc.abstractmethod
    def _start(self, guard: _Guard) -> None:
        """Start the workers, and tell the guard of each."""

    @abc.abstractmethod
    def _poll(self) -> RunProcsResult | None:
        """Return the result if all workers have succeeded or one has failed, otherwise `None`."""

    @abc.abstractmethod
    def _events(self) -> Iterable[int]:
        """Return files that can be read when a worker has ended. There are none where the system has no such files."""

    @abc.abstractmethod
    def pids(self) -> dict[int, int]:
        """Return the processes of the workers by local rank."""

    @abc.abstractmethod
    def _is_alive(self, rank: int) -> bool:
        """Return whether a worker is running."""

    @abc.abstractmethod
    def _send(self, rank: int, sig: signal.Signals) -> None:
        """Send a signal to a worker that may have ended."""

    @abc.abstractmethod
    def _join(self, rank: int, timeout: float) -> None:
        """Wait until a worker ends, at most `timeout` seconds."""

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Wait until all workers have succeeded or one has failed. In the second case the others are ended.

        Args:
            timeout: seconds to wait. A negative number waits for ever, 0 only looks.
            period: seconds between two looks. A worker that ends is noticed at once on Linux.

        Returns:
            The result, or `None` if workers are still running.
        """
        end = time.monotonic() + timeout if timeout >= 0 else float("inf")
        while True:
            result = self._poll()
            left = end - time.monotonic()
            if result is not None or left <= 0:
                return result
            self.pause(min(period, left))

    def pause(self, seconds: float) -> None:
        """Wait until a worker ends, at most for some seconds.

        Args:
            seconds: the longest time.
        """
        events = list(self._events())
        if not events:
            time.sleep(seconds)
            return
        poll = select.poll()
        for event in events:
            poll.register(event, select.POLLIN)
        poll.poll(max(seconds, 0) * 1000)

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """End all workers and release files.

        Args:
            death_sig: the signal. `None` means `SIGTERM`.
            timeout: seconds until workers that are still there are killed.
        """
        self._end_workers(death_sig or signal.SIGTERM, timeout)
        for tail_log in self._tail_logs:
            tail_log.stop()
        for file in self._filtered:
            file.close()
        if self._guard is not None:
            self._guard.stop()
            self._guard = None

    def _end_workers(self, death_sig, timeout):
        alive = [rank for rank in self.pids() if self._is_alive(rank)]
        for rank in alive:
            logger.warning("Sending process %s closing signal %s", self.pids()[rank], death_sig.name)
            self._send(rank, death_sig)
        end = time.monotonic() + timeout
        for rank in alive:
            self._join(rank, max(end - time.monotonic(), 0))
        alive = [rank for rank in alive if self._is_alive(rank)]
        for rank in alive:
            pid = self.pids()[rank]
            logger.warning("Unable to shutdown process %s via %s, forcefully exiting via SIGKILL", pid, death_sig.name)
            self._send(rank, signal.SIGKILL)
        end = time.monotonic() + _AFTER_KILL
        for rank in alive:
            self._join(rank, max(end - time.monotonic(), 0))
            if self._is_alive(rank):
                logger.error("process %s is still there %s s after SIGKILL", self.pids()[rank], _AFTER_KILL)


def _end_children(pid: int) -> None:
    """Kill what is left of the session of a worker that failed: it may hold devices and ports that others need."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # Nothing is left.
        pass


def _call_in_worker(local_rank, fn, args, envs, stdouts, stderrs, results):
    """Call the function of a worker in its process."""
    # A session of its own, as commands have: see `SubprocessHandler`.
    os.setsid()
    os.environ.update(envs[local_rank])
    with get_std_cm(stdouts[local_rank], redirect_stdout), get_std_cm(stderrs[local_rank], redirect_stderr):
        value = record(fn)(*args[local_rank])
    results[local_rank].put(value)


class MultiprocessContext(PContext):
    """Workers that are calls of a function.

    Args:
        name: what the workers do.
        entrypoint: the function.
        args: arguments by local rank.
        envs: variables of the environment by local rank.
        start_method: `spawn`, `fork` or `forkserver`.
        logs_specs: the plan for the output.
        log_line_prefixes: beginnings of lines on the console by local rank.
        numa_options: must be `None`.
        duplicate_stdout_filters: texts. Lines of the output with one of them go to a file of all workers too.
        duplicate_stderr_filters: the same for the errors.
    """

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any],
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        start_method: str,
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        numa_options: None = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        from .... import multiprocessing

        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        self.start_method = start_method
        context = multiprocessing.get_context(start_method)
        self._queues: dict[int, Any] = {rank: context.SimpleQueue() for rank in range(self.nprocs)}
        self._values: dict[int, Any] = {}
        self._group: multiprocessing.ProcessContext | None = None
        self._watched: set[int] = set()

    def _start(self, guard):
        from .... import multiprocessing

        if self._group is not None:
            raise ValueError("The process context already initialized. Most likely the start method got called twice.")
        self._group = multiprocessing.start_processes(
            _call_in_worker,
            (self.entrypoint, self.args, self.envs, self.stdouts, self.stderrs, self._queues),
            self.nprocs,
            join=False,
            start_method=self.start_method,
        )
        for pid in self._group.pids():
            guard.watch(pid)
            self._watched.add(pid)

    def _forget_ended(self):
        for process in self._group.processes:
            if process.pid in self._watched and not process.is_alive():
                self._watched.discard(process.pid)
                if self._guard is not None:
                    self._guard.forget(process.pid)

    def _take_values(self):
        # A worker with a long value ends when the value has been read.
        for rank, queue in self._queues.items():
            if rank not in self._values and not queue.empty():
                self._values[rank] = queue.get()

    def _poll(self):
        if self._group is None:
            raise RuntimeError("MultiprocessContext.wait: the workers have not been started. note: call start first")
        self._take_values()
        # A worker with a long message ends when the message has been read.
        self._group._read_messages()
        self._forget_ended()
        codes = [process.exitcode for process in self._group.processes]
        failed = next((rank for rank, code in enumerate(codes) if code), None)
        if failed is not None:
            return self._failure(failed)
        if None in codes:
            return None
        self._take_values()
        _check_ranks(self._values, self.nprocs, "return_value queue")
        self.close()
        return self._result(self._values, {})

    def _failure(self, rank):
        """End the other workers, and return the result."""
        process = self._group.processes[rank]
        self._end_workers(signal.SIGTERM, self.shutdown_timeout)
        for each in self._group.processes:
            if each.exitcode:
                _end_children(each.pid)
        logger.error(
            "failed (exitcode: %s) local_rank: %s (pid: %s) of fn: %s (start_method: %s)\n%s",
            process.exitcode,
            rank,
            process.pid,
            getattr(self.entrypoint, "__qualname__", self.entrypoint),
            self.start_method,
            self._group._read_messages().get(rank, ""),
        )
        self.close()
        failure = ProcessFailure(rank, process.pid, process.exitcode, self.error_files[rank])
        return self._result({}, {rank: failure})

    def _events(self):
        if self._group is None:
            return
        for rank, process in enumerate(self._group.processes):
            if process.is_alive():
                yield process.sentinel
            if rank not in self._values:
                yield self._queues[rank]._reader.fileno()

    def pids(self) -> dict[int, int]:
        """Return the processes of the workers by local rank."""
        return dict(enumerate(self._group.pids())) if self._group is not None else {}

    def _is_alive(self, rank):
        return self._group.processes[rank].is_alive()

    def _send(self, rank, sig):
        pid = self._group.processes[rank].pid
        for kill in (os.killpg, os.kill):
            try:
                return kill(pid, sig)
            except ProcessLookupError:  # It has no session yet, or has ended.
                continue

    def _join(self, rank, timeout):
        self._group.processes[rank].join(timeout)


class SubprocessContext(PContext):
    """Workers that are commands.

    Args:
        name: what the workers do.
        entrypoint: the command.
        args: arguments by local rank.
        envs: variables of the environment by local rank.
        logs_specs: the plan for the output.
        log_line_prefixes: beginnings of lines on the console by local rank.
        numa_options: must be `None`.
        duplicate_stdout_filters: texts. Lines of the output with one of them go to a file of all workers too.
        duplicate_stderr_filters: the same for the errors.
    """

    def __init__(
        self,
        name: str,
        entrypoint: str,
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        numa_options: None = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        self.subprocess_handlers: dict[int, SubprocessHandler] = {}
        self._running = set(range(self.nprocs))
        self._failures: dict[int, ProcessFailure] = {}
        # Files that can be read when the process has ended.
        self._pidfds: dict[int, int] = {}

    def _start(self, guard):
        if self.subprocess_handlers:
            raise ValueError(
                "The subprocess handlers already initialized. Most likely the start method got called twice."
            )
        for rank in range(self.nprocs):
            handler = get_subprocess_handler(
                self.entrypoint, self.args[rank], self.envs[rank], self.stdouts[rank], self.stderrs[rank], rank
            )
            self.subprocess_handlers[rank] = handler
            guard.watch(handler.proc.pid)
            if hasattr(os, "pidfd_open"):
                self._pidfds[rank] = os.pidfd_open(handler.proc.pid)

    def _collect(self):
        """Take the exit codes of workers that have ended."""
        for rank in sorted(self._running):
            process = self.subprocess_handlers[rank].proc
            code = process.poll()
            if code is None:
                continue
            self._running.discard(rank)
            if self._guard is not None:
                self._guard.forget(process.pid)
            if rank in self._pidfds:
                os.close(self._pidfds.pop(rank))
            if code != 0:
                _end_children(process.pid)
                self._failures[rank] = ProcessFailure(rank, process.pid, code, self.error_files[rank])

    def _poll(self):
        self._collect()
        if self._running and not self._failures:
            return None
        self.close(timeout=self.shutdown_timeout)
        # The workers that the agent has ended are failures too: the summary shows them.
        self._collect()
        if not self._failures:
            # Commands return nothing.
            return self._result(dict.fromkeys(self.args), {})
        first = min(self._failures.values(), key=lambda failure: failure.timestamp)
        logger.error(
            "failed (exitcode: %s) local_rank: %s (pid: %s) of binary: %s",
            first.exitcode,
            first.local_rank,
            first.pid,
            self.entrypoint,
        )
        return self._result({}, self._failures)

    def _events(self):
        return self._pidfds.values()

    def pids(self) -> dict[int, int]:
        """Return the processes of the workers by local rank."""
        return {rank: handler.proc.pid for rank, handler in self.subprocess_handlers.items()}

    def _is_alive(self, rank):
        return self.subprocess_handlers[rank].proc.poll() is None

    def _send(self, rank, sig):
        self.subprocess_handlers[rank].close(sig)

    def _join(self, rank, timeout):
        try:
            self.subprocess_handlers[rank].proc.wait(timeout)
        except subprocess.TimeoutExpired:
            pass

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """End all workers and release files.

        Args:
            death_sig: the signal. `None` means `SIGTERM`.
            timeout: seconds until workers that are still there are killed.
        """
        super().close(death_sig, timeout)
        for rank in list(self._pidfds):
            os.close(self._pidfds.pop(rank))
