"""Timers that end a worker which is stuck. A worker sets one with `expires`, and another process watches it.

Requests go through a queue of `multiprocessing` (`LocalTimerServer`) or through a named pipe (`FileTimerServer`). The
agent has such a pipe if `TORCHELASTIC_ENABLE_FILE_TIMER` is 1.
"""

from __future__ import annotations

import abc
import json
import os
import select
import signal as signals
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty
from typing import Any

from .utils.logging import get_logger

__all__ = [
    "FileTimerClient",
    "FileTimerRequest",
    "FileTimerServer",
    "LocalTimerClient",
    "LocalTimerServer",
    "TimerClient",
    "TimerRequest",
    "configure",
    "expires",
]

logger = get_logger(__name__)

# A server waits at most so many seconds for requests, so that `stop` need not wait longer.
_LONGEST_WAIT = 1.0
_RELEASED = -1.0
# The version of PyTorch's requests: its clients may use this server, and clients of this module its server.
_VERSION = 1


@dataclass(frozen=True)
class TimerRequest:
    """A timer that a process sets or releases.

    Args:
        worker_id: the process.
        scope_id: name of the block of code.
        expiration_time: time in seconds since 1970. A negative number releases the timer.
    """

    worker_id: int
    scope_id: str
    expiration_time: float


@dataclass(frozen=True)
class FileTimerRequest(TimerRequest):
    """A timer with the signal that ends the process.

    Args:
        worker_id: the process.
        scope_id: name of the block of code.
        expiration_time: time in seconds since 1970. A negative number releases the timer.
        signal: the signal. With 0 the timer is only reported.
    """

    signal: int = 0

    @property
    def worker_pid(self) -> int:
        """The process."""
        return self.worker_id

    def to_json(self) -> str:
        """Return the request as a line of the pipe of `FileTimerServer`, without the end of the line."""
        return json.dumps(
            {
                "version": _VERSION,
                "pid": self.worker_id,
                "scope_id": self.scope_id,
                "expiration_time": self.expiration_time,
                "signal": int(self.signal),
            }
        )


class TimerClient(abc.ABC):
    """What a worker uses to set timers."""

    @abc.abstractmethod
    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Set a timer.

        Args:
            scope_id: name of the block of code.
            expiration_time: time in seconds since 1970.
        """

    @abc.abstractmethod
    def release(self, scope_id: str) -> None:
        """Release a timer."""


def _send_signal(pid: int, number: int) -> bool:
    """Send a signal. Return whether the process is there and may be sent signals."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        logger.warning("process %s may not be sent signals: its timers are dropped", pid)
        return False
    return True


class _Server(abc.ABC):
    """A thread that receives requests and looks for timers that have expired."""

    def __init__(self, max_interval: float, daemon: bool) -> None:
        self._wait_seconds = min(max_interval, _LONGEST_WAIT)
        self._daemon = daemon
        self._timers: dict[tuple[int, str], TimerRequest] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @abc.abstractmethod
    def _receive(self) -> list[Any]:
        """Return the requests that are there. Wait for the first one."""

    @abc.abstractmethod
    def _expire(self, timers: dict[int, list[Any]]) -> None:
        """Handle timers that have expired: those of each process, the first one first."""

    def _look(self) -> None:
        for request in self._receive():
            key = (request.worker_id, request.scope_id)
            self._timers.pop(key, None)
            if request.expiration_time >= 0:
                self._timers[key] = request
        now = time.time()
        expired: dict[int, list[TimerRequest]] = {}
        for timer in sorted(self._timers.values(), key=lambda timer: timer.expiration_time):
            if timer.expiration_time <= now:
                expired.setdefault(timer.worker_id, []).append(timer)
        # The number of a process that has ended may become another one's, so its timers are forgotten.
        gone = {pid for pid, _ in self._timers if not _send_signal(pid, 0)} | expired.keys()
        self._timers = {key: timer for key, timer in self._timers.items() if key[0] not in gone}
        self._expire(expired)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._look()

    def start(self) -> None:
        """Start the thread."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="timers", daemon=self._daemon)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


class LocalTimerClient(TimerClient):
    """Set timers for this process.

    Args:
        mp_queue: the queue of the server.
    """

    def __init__(self, mp_queue: Any) -> None:
        self._queue = mp_queue

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Set a timer.

        Args:
            scope_id: name of the block of code.
            expiration_time: time in seconds since 1970.
        """
        self._queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id: str) -> None:
        """Release a timer."""
        self.acquire(scope_id, _RELEASED)


class LocalTimerServer(_Server):
    """Kill processes of this machine whose timers have expired.

    Args:
        mp_queue: the queue that workers write to.
        max_interval: seconds between two looks, at most 1.
        daemon: whether the process may end while the thread runs.
    """

    def __init__(self, mp_queue: Any, max_interval: float = 60, daemon: bool = True) -> None:
        super().__init__(max_interval, daemon)
        self._queue = mp_queue

    def _receive(self):
        requests = []
        try:
            requests.append(self._queue.get(timeout=self._wait_seconds))
            while True:
                requests.append(self._queue.get_nowait())
        except Empty:
            return requests

    def _expire(self, timers):
        for pid, (first, *_) in timers.items():
            logger.info("killing process %s: timer %s has expired", pid, first.scope_id)
            _send_signal(pid, signals.SIGKILL)


class FileTimerClient(TimerClient):
    """Set timers for this process.

    Args:
        file_path: path of the server's pipe.
        signal: the signal that ends this process when a timer expires.
    """

    def __init__(self, file_path: str, signal: int = signals.SIGKILL) -> None:
        self._path = file_path
        self.signal = signal

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Set a timer.

        Args:
            scope_id: name of the block of code.
            expiration_time: time in seconds since 1970.

        Raises:
            BrokenPipeError: if there is no server.
            RuntimeError: if `scope_id` is too long.
        """
        self._send(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def _send(self, request: FileTimerRequest) -> None:
        line = request.to_json().encode() + b"\n"
        # A longer line could be mixed with the lines of other processes.
        if len(line) > select.PIPE_BUF:
            raise RuntimeError(
                f"FileTimerClient: the request has {len(line)} bytes, it may have {select.PIPE_BUF}. "
                "note: shorten scope_id"
            )
        try:
            # Without a server, opening a pipe for writing would wait.
            pipe = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise BrokenPipeError(
                "Could not send the FileTimerRequest because FileTimerServer is not available."
            ) from error
        with open(pipe, "wb", buffering=0) as file:
            os.set_blocking(pipe, True)
            file.write(line)

    def release(self, scope_id: str) -> None:
        """Release a timer."""
        self._send(FileTimerRequest(os.getpid(), scope_id, _RELEASED))


def _request(line: bytes) -> FileTimerRequest:
    fields = json.loads(line)
    if fields.pop("version") != _VERSION:
        raise RuntimeError(f"FileTimerServer: a request has another version than {_VERSION}: {line!r}")
    return FileTimerRequest(fields.pop("pid"), **fields)


class FileTimerServer(_Server):
    """A thread that ends processes of this machine whose timers have expired, and then this process.

    Args:
        file_path: path of the pipe, which is made.
        run_id: name of the job.
        max_interval: seconds between two looks, at most 1.
        daemon: whether the process may end while the thread runs.
        log_event: a function that gets the name of an event and the request, or `None`.
    """

    def __init__(
        self,
        file_path: str,
        run_id: str,
        max_interval: float = 10,
        daemon: bool = True,
        log_event: Callable[[str, FileTimerRequest | None], None] | None = None,
    ) -> None:
        super().__init__(max_interval, daemon)
        self._path = file_path
        self._report = log_event or (lambda name, request: None)
        self._last_look = time.time()
        self._remove_pipe()
        os.mkfifo(file_path)
        # Reading and writing: the pipe then has no end while no worker has it open.
        self._pipe = open(os.open(file_path, os.O_RDWR | os.O_NONBLOCK), "rb+", buffering=0)
        self._part = b""

    def _remove_pipe(self) -> None:
        try:
            os.remove(self._path)
        except FileNotFoundError:
            pass

    def start(self) -> None:
        """Start the thread."""
        super().start()
        self._report("watchdog started", None)

    def stop(self) -> None:
        """Stop the thread and remove the pipe."""
        super().stop()
        self._pipe.close()
        self._remove_pipe()
        self._report("watchdog stopped", None)

    def _receive(self):
        self._last_look = time.time()
        select.select([self._pipe], [], [], self._wait_seconds)
        # Without data, `read` returns `None`.
        *lines, self._part = (self._part + (self._pipe.read(1 << 16) or b"")).split(b"\n")
        return [_request(line) for line in lines]

    def _expire(self, timers):
        number = 0
        for pid, own in timers.items():
            for timer in own:
                self._report("timer expired", timer)
                if timer.signal > 0:
                    self._report("kill worker process", timer)
                    number = timer.signal
                    _send_signal(pid, number)
                    break
        if number:
            logger.info("ending the agent %s, because timers of its workers have expired", os.getpid())
            _send_signal(os.getpid(), number)

    def get_last_progress_time(self) -> int:
        """Return the time of the thread's last look, in seconds since 1970."""
        return int(self._last_look)


_clients: list[TimerClient] = []


def configure(timer_client: TimerClient) -> None:
    """Set the client that `expires` uses.

    Args:
        timer_client: the client.
    """
    _clients[:] = [timer_client]


@contextmanager
def expires(after: float, scope: str | None = None, client: TimerClient | None = None) -> Iterator[None]:
    """Let the worker be ended if a `with` block takes too long.

    Args:
        after: seconds.
        scope: name of the block. The default is its file and line.
        client: the client. The default is the one that `configure` has set.

    Raises:
        RuntimeError: if there is no client.
    """
    if client is None and not _clients:
        raise RuntimeError("Configure timer client before using countdown timers.")
    used = client or _clients[0]
    if scope is None:
        # The frame above is `contextlib`'s.
        block = sys._getframe(2)
        scope = f"{block.f_code.co_filename}#{block.f_lineno}"
    used.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        used.release(scope)
