"""Processes, as in Python's `multiprocessing`, and `spawn`.

A tensor in shared memory (`Tensor.share_memory_`, `Module.share_memory`) is the same for all processes that get it: by
a fork, as an argument of a new process, or through a queue or a pipe. Other tensors are copied. PyTorch moves their
memory to shared memory instead.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
import multiprocessing.connection as _connection
import os as _os
import signal as _signal
import sys as _sys
import threading as _threading
import time as _time
import traceback as _traceback
import warnings as _warnings
from multiprocessing import *  # noqa: F403

from . import _sharing
from ._C import Tensor as _Tensor
from ._parent_death import signal_at_parent_death as _signal_at_parent_death
from .nn.parameter import Parameter as _Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
]


for _kind in (_Tensor, _Parameter):
    _sharing.register(_kind)
del _kind


# Seconds from SIGTERM to SIGKILL.
_GRACE_SECONDS = 30


class ProcessException(Exception):
    """A process of `spawn` failed.

    Attributes:
        msg: Description of the failure.
        error_index: Number of the process.
        error_pid: Identifier of the process.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process of `spawn` raised an exception."""


class ProcessExitedException(ProcessException):
    """A process of `spawn` ended by a signal, or with an exit code that is not 0.

    Attributes:
        exit_code: The exit code.
        signal_name: Name of the signal, or `None`.
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _interrupt_at_parent_death():
    _connection.wait([_multiprocessing.parent_process().sentinel])
    _os.kill(_os.getpid(), _signal.SIGINT)


def _run(fn, i, args, errors, parent):
    if parent is None:
        # The system knows the fork server as the parent of this process. It ends later than the process that uses it.
        _threading.Thread(target=_interrupt_at_parent_death, daemon=True).start()
    else:
        _signal_at_parent_death(parent)
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        # The end of the parent gives this too. Then nobody reads the message.
        if _multiprocessing.parent_process().is_alive():
            _send(errors)
            _sys.exit(128 + _signal.SIGINT)
    except Exception as error:
        _send(errors)
        groups = _sys.modules.get("pytpu.distributed._groups")
        if groups is not None:
            groups._tell_exception(error, error.__traceback__)
        _sys.exit(1)


def _send(errors):
    try:
        errors.send(_traceback.format_exc())
    except BrokenPipeError:  # The parent does not read any more.
        pass


class ProcessContext:
    """The processes that `spawn` started."""

    def __init__(self, processes: Sequence[Any], errors: Sequence[Any]) -> None:
        self.processes = processes
        self._left = {process.sentinel: index for index, process in enumerate(processes)}
        self._listening = {receiver: index for index, receiver in enumerate(errors)}
        self._texts: dict[int, str] = {}

    def pids(self) -> list[int]:
        """Return the identifiers of the processes."""
        return [process.pid for process in self.processes]

    def _hear(self, receivers):
        for receiver in list(receivers):
            index = self._listening.pop(receiver)
            try:
                self._texts[index] = receiver.recv()
            except (EOFError, OSError):  # It ended without a message.
                pass
            receiver.close()

    def _read_messages(self):
        """Read the messages that are there, and return them by the number of the process."""
        if self._listening:
            self._hear(_connection.wait(list(self._listening), timeout=0))
        return self._texts

    def _join_all(self, seconds):
        """Wait until all processes end, at most some seconds. Their messages are read, so that they can end."""
        end = _time.monotonic() + seconds
        left = [process for process in self.processes if process.is_alive()]
        while left:
            sentinels = [process.sentinel for process in left]
            ready = _connection.wait([*sentinels, *self._listening], timeout=max(end - _time.monotonic(), 0))
            if not ready:
                return
            self._hear(receiver for receiver in ready if receiver in self._listening)
            left = [process for process in left if process.is_alive()]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one of the processes ends.

        Args:
            timeout: Seconds to wait. `None` waits without a limit.
            grace_period: Seconds that the others have to end by themselves after a failure, and again to end after
                they have been terminated. `None` terminates them at once, and kills them after 30 seconds.

        Returns:
            Whether all processes have ended.

        Raises:
            ProcessException: If a process failed. The others are ended first.
        """
        if not self._left:
            return True
        failed = None
        end = None if timeout is None else _time.monotonic() + timeout
        ready: list[Any] = []
        while not any(sentinel in self._left for sentinel in ready):
            seconds = None if end is None else max(end - _time.monotonic(), 0)
            ready = _connection.wait([*self._left, *self._listening], timeout=seconds)
            if not ready:
                return False
            # A process ends when its message has been received.
            self._hear(receiver for receiver in ready if receiver in self._listening)
        for sentinel in ready:
            if sentinel not in self._left:
                continue
            index = self._left.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            return not self._left
        if grace_period is not None:
            self._join_all(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._join_all(_GRACE_SECONDS if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
        self._hear([receiver for receiver, index in self._listening.items() if index == failed])
        process = self.processes[failed]
        if failed in self._texts:
            text = f"\n\n-- Process {failed} terminated with the following error:\n{self._texts[failed]}"
            raise ProcessRaisedException(text, failed, process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = _signal.Signals(-code).name
            except ValueError:  # A real-time signal.
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(
                f"process {failed} terminated with signal {name}", failed, process.pid, code, name
            )
        raise ProcessExitedException(f"process {failed} terminated with exit code {code}", failed, process.pid, code)


class SpawnContext(ProcessContext):
    """The older name of `ProcessContext`."""

    def __init__(self, processes: Sequence[Any], errors: Sequence[Any]) -> None:
        _warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, errors)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start processes that call `fn(i, *args)`, where `i` is the number of the process.

    Args:
        fn: Function to call. With `start_method="spawn"` it must be importable.
        args: Further arguments.
        nprocs: Number of processes.
        join: If `True`, wait for all of them.
        daemon: Whether the processes end with this one.
        start_method: `"spawn"`, `"fork"` or `"forkserver"`.

    Returns:
        `None` after waiting, otherwise the `ProcessContext`.

    Raises:
        ProcessRaisedException: If a process raised an exception. It has the traceback.
        ProcessExitedException: If a process ended in another way.
    """
    context: Any = _multiprocessing.get_context(start_method)
    processes, errors = [], []
    parent = None if start_method == "forkserver" else _os.getpid()
    for i in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, i, args, sender, parent), daemon=daemon)
        process.start()
        sender.close()
        processes.append(process)
        errors.append(receiver)
    running = ProcessContext(processes, errors)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start new processes that call `fn(i, *args)`, where `i` is the number of the process.

    Args:
        fn: Function to call. It must be importable.
        args: Further arguments.
        nprocs: Number of processes.
        join: If `True`, wait for all of them.
        daemon: Whether the processes end with this one.
        start_method: Only `"spawn"` is used. `start_processes` has the others.

    Returns:
        `None` after waiting, otherwise the `ProcessContext`.

    Raises:
        ProcessRaisedException: If a process raised an exception. It has the traceback.
        ProcessExitedException: If a process ended in another way.
    """
    if start_method != "spawn":
        _warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method use:"
            "\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")


def get_all_sharing_strategies() -> set[str]:
    """Return the names of the ways to share memory. There is one: processes hand over file descriptors."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """Return the name of the way to share memory."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept the name of a way to share memory. It changes nothing.

    Args:
        new_strategy: `"file_descriptor"` or `"file_system"`.

    Raises:
        AssertionError: If the name is unknown.
    """
    if new_strategy not in ("file_descriptor", "file_system"):
        raise AssertionError(f"unknown sharing strategy {new_strategy!r}")
