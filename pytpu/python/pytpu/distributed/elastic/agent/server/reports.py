"""Events and metrics of an agent."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...events import Event, EventSource, record
from ...metrics import put_metric
from ...multiprocessing import ProcessFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .api import RunResult, Worker, WorkerGroup


class Reports:
    """What an agent reports about its workers.

    Args:
        group: the workers.
    """

    def __init__(self, group: WorkerGroup) -> None:
        self._group = group
        self._begin = time.monotonic()

    def send(self, state: str, name: str = "", details: dict[str, Any] | None = None, **values: Any) -> None:
        """Send what `event` returns."""
        record(self.event(state, name, details, **values), self._group.spec.event_log_handler)

    def event(self, state: str, name: str = "", details: dict[str, Any] | None = None, **values: Any) -> Event:
        """Return an event about the agent.

        Args:
            state: the state of the agent.
            name: name of the event. The default contains the state.
            details: values of the key `metadata`. The default describes the group.
            **values: other values of the event.
        """
        group, spec = self._group, self._group.spec
        if details is None:
            details = self._details()
        handler = spec.rdzv_handler
        metadata = {
            "run_id": handler.get_run_id(),
            "global_rank": None,
            "group_rank": group.group_rank,
            "worker_id": None,
            "role": spec.role,
            "hostname": socket.getfqdn(),
            "state": state,
            "total_run_time": int(time.monotonic() - self._begin),
            "rdzv_backend": handler.get_backend(),
            "raw_error": None,
            "metadata": json.dumps(details),
            "agent_restarts": group.restarts,
            "duration_ms": None,
        }
        source = EventSource.AGENT if values.get("worker_id") is None else EventSource.WORKER
        return Event(name or f"torchelastic.worker.status.{state}", source, metadata={**metadata, **values})

    def _details(self) -> dict[str, Any]:
        return {
            "group_world_size": self._group.group_world_size,
            "entry_point": self._group.spec.get_entrypoint_name(),
        }

    @contextmanager
    def duration(self, state: str) -> Iterator[None]:
        """Send an event with the duration of a `with` block."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.send(state, duration_ms=(time.perf_counter() - begin) * 1000)

    def worker(self, worker: Worker, state: str, failure: ProcessFailure | None = None) -> None:
        """Send an event about a worker."""
        # Lists of one element, as PyTorch's events have them.
        details = {
            **self._details(),
            "local_rank": [worker.local_rank],
            "role_rank": [worker.role_rank],
            "role_world_size": [worker.role_world_size],
            "exit_code": [failure.exitcode if failure else None],
            "worker_pid": [failure.pid if failure else None],
        }
        error = json.dumps(failure.error_file_data) if failure else None
        rank = worker.global_rank
        self.send(state, details=details, global_rank=rank, worker_id=str(worker.id), raw_error=error)

    def look(self) -> None:
        """Send the metrics of one look at the workers."""
        group = self._group
        prefix = f"workers.{group.spec.role}"
        put_metric(f"{prefix}.remaining_restarts", group.spec.max_restarts - group.restarts)
        put_metric(f"{prefix}.{group.state.name.lower()}", 1)

    def result(self, result: RunResult) -> None:
        """Send events and metrics of a job that has ended."""
        group = self._group
        is_failed = result.is_failed()
        for worker in group.workers:
            failure = result.failures.get(worker.global_rank)
            # The agent ends the workers beside one that failed.
            state = "TERMINATED" if is_failed and failure is None else result.state.value
            self.worker(worker, state, failure)
        prefix = f"workers.{group.spec.role}"
        put_metric(f"{prefix}.run_total", 1)
        for outcome in ("success", "failed"):
            for retries in ("with_retries", "no_retries"):
                is_this = (outcome == "failed") == is_failed and (retries == "with_retries") == (group.restarts > 0)
                put_metric(f"{prefix}.run_{outcome}_{retries}", int(is_this))
        # The percentage of attempts that failed.
        attempts = group.spec.max_restarts + 1
        put_metric(f"{prefix}.flakiness", 100 if is_failed else 100 * group.restarts // attempts)
