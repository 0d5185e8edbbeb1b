"""Timers over a queue of `multiprocessing`."""

from __future__ import annotations

import os
import signal
import time
from queue import Empty
from typing import Any

from ..utils.logging import get_logger
from .api import RequestQueue, TimerClient, TimerRequest, TimerServer

__all__ = ["LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue"]

logger = get_logger(__name__)


class LocalTimerClient(TimerClient):
    """Set timers for this process.

    Args:
        mp_queue: the queue of the server.
    """

    def __init__(self, mp_queue: Any) -> None:
        self._mp_queue = mp_queue

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Set a timer.

        Args:
            scope_id: name of the block of code.
            expiration_time: time in seconds since 1970.
        """
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id: str) -> None:
        """Release a timer."""
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, -1))


class MultiprocessingRequestQueue(RequestQueue):
    """The requests of a queue of `multiprocessing`.

    Args:
        mp_queue: the queue.
    """

    def __init__(self, mp_queue: Any) -> None:
        self._mp_queue = mp_queue

    def size(self) -> int:
        """Return the number of requests that `get` can return now."""
        return self._mp_queue.qsize()

    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """Return up to ``size`` requests. Wait for them at most ``timeout`` seconds."""
        requests: list[TimerRequest] = []
        end = time.monotonic() + timeout
        while len(requests) < size:
            try:
                requests.append(self._mp_queue.get(timeout=max(end - time.monotonic(), 0)))
            except Empty:
                break
        return requests


class LocalTimerServer(TimerServer):
    """Kill processes of this machine whose timers have expired.

    Args:
        mp_queue: the queue that workers write to.
        max_interval: seconds between two looks.
        daemon: whether the process may end while the thread runs.
    """

    def __init__(self, mp_queue: Any, max_interval: float = 60, daemon: bool = True) -> None:
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers: dict[tuple[Any, str], TimerRequest] = {}

    def register_timers(self, timer_requests: list[TimerRequest]) -> None:
        """Set and release timers."""
        for request in timer_requests:
            key = (request.worker_id, request.scope_id)
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_ids: set[int]) -> None:
        """Remove all timers of some processes."""
        self._timers = {key: timer for key, timer in self._timers.items() if key[0] not in worker_ids}

    def get_expired_timers(self, deadline: float) -> dict[Any, list[TimerRequest]]:
        """Return the timers that expire at ``deadline`` or before, by process."""
        expired: dict[Any, list[TimerRequest]] = {}
        for timer in self._timers.values():
            if timer.expiration_time <= deadline:
                expired.setdefault(timer.worker_id, []).append(timer)
        return expired

    def _reap_worker(self, worker_id: int) -> bool:
        try:
            os.kill(worker_id, signal.SIGKILL)
        except ProcessLookupError:
            logger.info("process %s has ended already", worker_id)
        except PermissionError:
            logger.exception("cannot end process %s", worker_id)
            return False
        return True
