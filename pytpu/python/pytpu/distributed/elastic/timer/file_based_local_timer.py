"""Timers over a named pipe. The agent makes the pipe if ``TORCHELASTIC_ENABLE_FILE_TIMER`` is 1."""

from __future__ import annotations

import json
import os
import select
import signal as _signal
import threading
import time
from collections.abc import Callable

from ..utils.logging import get_logger
from .api import TimerClient, TimerRequest

__all__ = ["FileTimerClient", "FileTimerRequest", "FileTimerServer"]

logger = get_logger(__name__)

# A write of at most this many bytes is not mixed with the writes of other processes.
_ATOMIC = select.PIPE_BUF


class FileTimerRequest(TimerRequest):
    """A timer that a process sets or releases.

    Args:
        worker_pid: the process.
        scope_id: name of the block of code.
        expiration_time: time in seconds since 1970. A negative number releases the timer.
        signal: the signal that ends the process. With 0 the timer is only reported.
    """

    __slots__ = ["signal", "version"]

    def __init__(self, worker_pid: int, scope_id: str, expiration_time: float, signal: int = 0) -> None:
        super().__init__(worker_pid, scope_id, expiration_time)
        self.version = 1
        self.signal = signal

    @property
    def worker_pid(self) -> int:
        """The process."""
        return self.worker_id

    def _key(self):
        return (*super()._key(), self.version, self.signal)

    def to_json(self) -> str:
        """Return the request as a line of JSON, without the end of the line."""
        return json.dumps(
            {
                "version": self.version,
                "pid": self.worker_pid,
                "scope_id": self.scope_id,
                "expiration_time": self.expiration_time,
                "signal": self.signal,
            }
        )


class FileTimerClient(TimerClient):
    """Set timers for this process.

    Args:
        file_path: path of the server's pipe.
        signal: the signal that ends this process when a timer expires.
    """

    def __init__(self, file_path: str, signal: int = _signal.SIGKILL) -> None:
        self._file_path = file_path
        self.signal = signal

    def _send_request(self, request: FileTimerRequest) -> None:
        line = f"{request.to_json()}\n".encode()
        if len(line) > _ATOMIC:
            raise RuntimeError(
                f"FileTimerClient: the request has {len(line)} bytes, it may have {_ATOMIC}. note: shorten scope_id"
            )
        try:
            # Without a server, opening a pipe for writing would wait.
            file = os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise BrokenPipeError(
                "Could not send the FileTimerRequest because FileTimerServer is not available."
            ) from error
        try:
            os.set_blocking(file, True)
            os.write(file, line)
        finally:
            os.close(file)

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Set a timer.

        Args:
            scope_id: name of the block of code.
            expiration_time: time in seconds since 1970.
        """
        self._send_request(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def release(self, scope_id: str) -> None:
        """Release a timer."""
        self._send_request(FileTimerRequest(os.getpid(), scope_id, -1, 0))


class FileTimerServer:
    """A thread that ends processes of this machine whose timers have expired, and then this process.

    Args:
        file_path: path of the pipe, which is made.
        run_id: name of the job.
        max_interval: seconds between two looks.
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
        self._file_path = file_path
        self._run_id = run_id
        self._max_interval = max_interval
        self._daemon = daemon
        self._log_event = log_event if log_event is not None else lambda name, request: None
        self._timers: dict[tuple[int, str], FileTimerRequest] = {}
        self._last_progress_time = int(time.time())
        self._stop = threading.Event()
        self._watchdog_thread: threading.Thread | None = None
        if os.path.exists(file_path):
            os.remove(file_path)
        os.mkfifo(file_path)
        # Reading and writing: the pipe then has no end while no worker has it open.
        self._pipe = os.open(file_path, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""

    def start(self) -> None:
        """Start the thread."""
        self._watchdog_thread = threading.Thread(target=self._watchdog_loop, daemon=self._daemon)
        self._watchdog_thread.start()
        self._log_event("watchdog started", None)

    def stop(self) -> None:
        """Stop the thread and remove the pipe."""
        self._stop.set()
        if self._watchdog_thread is not None:
            self._watchdog_thread.join()
            self._watchdog_thread = None
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if os.path.exists(self._file_path):
            os.remove(self._file_path)
        self._log_event("watchdog stopped", None)

    def _watchdog_loop(self) -> None:
        while not self._stop.is_set():
            self._run_watchdog()
            self._last_progress_time = int(time.time())

    def _run_watchdog(self) -> None:
        self.register_timers(self._get_requests())
        reaped = set()
        is_killed = 0
        for pid, timers in self.get_expired_timers(time.time()).items():
            reaped.add(pid)
            for timer in sorted(timers, key=lambda timer: timer.expiration_time):
                self._log_event("timer expired", timer)
                if timer.signal > 0:
                    if self._reap_worker(pid, timer.signal):
                        self._log_event("kill worker process", timer)
                        is_killed = timer.signal
                    break
        self.clear_timers(reaped)
        if is_killed:
            logger.info("ending the agent %s, because timers of its workers have expired", os.getpid())
            self._reap_worker(os.getpid(), is_killed)

    def _get_requests(self) -> list[FileTimerRequest]:
        """Wait for requests, at most ``max_interval`` seconds, and return those that are there."""
        select.select([self._pipe], [], [], min(self._max_interval, 1))
        try:
            self._rest += os.read(self._pipe, 1 << 16)
        except BlockingIOError:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        requests = []
        for line in lines:
            fields = json.loads(line)
            names = ("pid", "scope_id", "expiration_time", "signal")
            requests.append(FileTimerRequest(*(fields[name] for name in names)))
        return requests

    def register_timers(self, timer_requests: list[FileTimerRequest]) -> None:
        """Set and release timers."""
        for request in timer_requests:
            key = (request.worker_pid, request.scope_id)
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_pids: set[int]) -> None:
        """Remove all timers of some processes, and of processes that have ended."""
        for key in list(self._timers):
            if key[0] in worker_pids or not self.is_process_running(key[0]):
                del self._timers[key]

    def get_expired_timers(self, deadline: float) -> dict[int, list[FileTimerRequest]]:
        """Return the timers that expire at ``deadline`` or before, by process."""
        expired: dict[int, list[FileTimerRequest]] = {}
        for timer in self._timers.values():
            if timer.expiration_time <= deadline:
                expired.setdefault(timer.worker_pid, []).append(timer)
        return expired

    @staticmethod
    def is_process_running(pid: int) -> bool:
        """Return whether a process exists."""
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return True

    def _reap_worker(self, worker_pid: int, signal: int) -> bool:
        try:
            os.kill(worker_pid, signal)
        except ProcessLookupError:
            logger.info("process %s has ended already", worker_pid)
        except PermissionError:
            logger.exception("cannot end process %s", worker_pid)
            return False
        return True

    def get_last_progress_time(self) -> int:
        """Return the time of the thread's last look, in seconds since 1970."""
        return self._last_progress_time
