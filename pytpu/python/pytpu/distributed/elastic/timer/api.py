"""Timers of workers, and the thread that watches them."""

from __future__ import annotations

import abc
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..utils.logging import get_logger

__all__ = ["RequestQueue", "TimerClient", "TimerRequest", "TimerServer", "configure", "expires"]

logger = get_logger(__name__)


class TimerRequest:
    """A timer that a worker sets or releases.

    Args:
        worker_id: the worker.
        scope_id: name of the block of code.
        expiration_time: time in seconds since 1970. A negative number releases the timer.
    """

    __slots__ = ["expiration_time", "scope_id", "worker_id"]

    def __init__(self, worker_id: Any, scope_id: str, expiration_time: float) -> None:
        self.worker_id = worker_id
        self.scope_id = scope_id
        self.expiration_time = expiration_time

    def _key(self):
        return (self.worker_id, self.scope_id, self.expiration_time)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimerRequest) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


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


class RequestQueue(abc.ABC):
    """A queue of requests."""

    @abc.abstractmethod
    def size(self) -> int:
        """Return the number of requests that `get` can return now."""

    @abc.abstractmethod
    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """Return up to ``size`` requests. Wait for them at most ``timeout`` seconds."""


class TimerServer(abc.ABC):
    """A thread that ends workers whose timers have expired.

    Args:
        request_queue: the queue that workers write to.
        max_interval: seconds between two looks.
        daemon: whether the process may end while the thread runs.
    """

    def __init__(self, request_queue: RequestQueue, max_interval: float, daemon: bool = True) -> None:
        self._request_queue = request_queue
        self._max_interval = max_interval
        self._daemon = daemon
        self._watchdog_thread: threading.Thread | None = None
        self._stop_signaled = False

    @abc.abstractmethod
    def register_timers(self, timer_requests: list[TimerRequest]) -> None:
        """Set and release timers."""

    @abc.abstractmethod
    def clear_timers(self, worker_ids: set[Any]) -> None:
        """Remove all timers of some workers."""

    @abc.abstractmethod
    def get_expired_timers(self, deadline: float) -> dict[Any, list[TimerRequest]]:
        """Return the timers that expire at ``deadline`` or before, by worker."""

    @abc.abstractmethod
    def _reap_worker(self, worker_id: Any) -> bool:
        """End a worker. Return whether that succeeded."""

    def _reap_worker_no_throw(self, worker_id: Any) -> bool:
        try:
            return self._reap_worker(worker_id)
        except Exception:  # Of a program's own class. The thread goes on with the other workers.
            logger.exception("cannot end worker %s: its timers are removed", worker_id)
            return True

    def _watchdog_loop(self) -> None:
        while not self._stop_signaled:
            try:
                self._run_watchdog()
            except Exception:  # Of a program's own class. The thread must go on.
                logger.exception("error in the thread that watches timers")

    def _run_watchdog(self) -> None:
        self.register_timers(self._request_queue.get(max(1, self._request_queue.size()), self._max_interval))
        reaped = set()
        for worker_id, timers in self.get_expired_timers(time.time()).items():
            logger.info("ending worker %s. Expired timers: %s", worker_id, [timer.scope_id for timer in timers])
            if self._reap_worker_no_throw(worker_id):
                reaped.add(worker_id)
            else:
                logger.error("cannot end worker %s now", worker_id)
        self.clear_timers(reaped)

    def start(self) -> None:
        """Start the thread."""
        self._stop_signaled = False
        self._watchdog_thread = threading.Thread(target=self._watchdog_loop, daemon=self._daemon)
        self._watchdog_thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop_signaled = True
        if self._watchdog_thread is not None:
            self._watchdog_thread.join(self._max_interval)
            self._watchdog_thread = None


_timer_client: TimerClient | None = None


def configure(timer_client: TimerClient) -> None:
    """Set the client that `expires` uses.

    Args:
        timer_client: the client.
    """
    global _timer_client
    _timer_client = timer_client


@contextmanager
def expires(after: float, scope: str | None = None, client: TimerClient | None = None) -> Iterator[None]:
    """Let the worker be ended if a ``with`` block takes too long.

    Args:
        after: seconds.
        scope: name of the block. The default is its file and line.
        client: the client. The default is the one that `configure` has set.

    Raises:
        RuntimeError: if there is no client.
    """
    if client is None:
        if _timer_client is None:
            raise RuntimeError("Configure timer client before using countdown timers.")
        client = _timer_client
    if scope is None:
        # The frame above is `contextlib`'s.
        caller = sys._getframe(2)
        scope = f"{caller.f_code.co_filename}#{caller.f_lineno}"
    client.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        client.release(scope)
