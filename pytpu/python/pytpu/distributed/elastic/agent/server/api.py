"""What an agent does: a rendezvous, workers with ranks, restarts, and the end together with the other agents."""

from __future__ import annotations

import abc
import enum
import json
import os
import signal
import socket
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ..... import _C
from ...events import Event, EventSource, record
from ...metrics import prof, put_metric
from ...multiprocessing import ProcessFailure, SignalException
from ...rendezvous import RendezvousError, RendezvousGracefulExitError, RendezvousHandler
from ...utils.logging import get_logger

__all__ = [
    "ElasticAgent",
    "RunResult",
    "SimpleElasticAgent",
    "Worker",
    "WorkerGroup",
    "WorkerSpec",
    "WorkerState",
]

logger = get_logger(__name__)

DEFAULT_ROLE = "default"

# How long an agent that has passed the exit barrier waits for others, which may need the store it runs.
_LINGER_SECONDS = 5.0
# Seconds between two looks whether the job has failed.
_LOOK_SECONDS = 1.0


@dataclass
class WorkerSpec:
    """What to run on each node.

    Args:
        role: name of the role of the workers.
        local_world_size: number of workers of a node.
        rdzv_handler: this node in the rendezvous.
        fn: older name of ``entrypoint``.
        entrypoint: a function, or a command.
        args: arguments of each worker.
        max_restarts: how often the workers are started again after a failure.
        monitor_interval: seconds between two looks at the workers and at waiting nodes.
        master_port: port of the store of the workers. `None` takes the one of the rendezvous.
        master_addr: host of the store of the workers. `None` takes the one of the rendezvous.
        local_addr: address of this node.
        event_log_handler: name of the handler of events.
        numa_options: must be `None`: workers are not bound to processors.
        duplicate_stdout_filters: texts. Lines of the output with one of them go to a file of all workers too.
        duplicate_stderr_filters: the same for the errors.
        virtual_local_rank: whether each worker sees one GPU, with local rank 0.
    """

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler
    fn: Callable[..., Any] | None = None
    entrypoint: Callable[..., Any] | str | None = None
    args: tuple[Any, ...] = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: None = None
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False

    def __post_init__(self) -> None:
        if self.local_world_size <= 0:
            raise AssertionError(f"local_world_size must be > 0, got {self.local_world_size}")
        if self.monitor_interval <= 0:
            raise AssertionError(f"monitor_interval must be > 0, got {self.monitor_interval}")
        if self.fn:
            warnings.warn(
                "WorkerSpec.fn will be deprecated, please use WorkerSpec.entrypoint instead",
                DeprecationWarning,
                stacklevel=3,
            )
            self.entrypoint = self.fn
        if not self.entrypoint:
            raise AssertionError("entrypoint is missing")

    def get_entrypoint_name(self) -> str:
        """Return the qualified name of the function, or the last part of the command's path."""
        if isinstance(self.entrypoint, str):
            return os.path.basename(self.entrypoint)
        return getattr(self.entrypoint, "__qualname__", repr(self.entrypoint))


class Worker:
    """A worker.

    Args:
        local_rank: rank among the workers of the node.
        global_rank: rank among all workers. It may change at a restart.
        role_rank: rank among the workers of the same role.
        world_size: number of all workers.
        role_world_size: number of workers of the same role.
    """

    __slots__ = ["global_rank", "id", "local_rank", "role_rank", "role_world_size", "world_size"]

    def __init__(
        self,
        local_rank: int,
        global_rank: int = -1,
        role_rank: int = -1,
        world_size: int = -1,
        role_world_size: int = -1,
    ) -> None:
        # The process.
        self.id: Any = None
        self.local_rank = local_rank
        self.global_rank = global_rank
        self.role_rank = role_rank
        self.world_size = world_size
        self.role_world_size = role_world_size

    def __str__(self) -> str:
        return (
            f"local_rank={self.local_rank},global_rank={self.global_rank},role_rank={self.role_rank},"
            f"world_size={self.world_size},role_world_size={self.role_world_size}"
        )

    __repr__ = __str__


class WorkerState(str, enum.Enum):
    """The state of the workers of a node. They change it together."""

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state: WorkerState) -> bool:
        """Return whether workers in a state have processes."""
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The workers of a node.

    Args:
        spec: what they run.
    """

    __slots__ = [
        "group_rank",
        "group_world_size",
        "master_addr",
        "master_port",
        "spec",
        "state",
        "store",
        "workers",
    ]

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.workers = [Worker(local_rank=i) for i in range(spec.local_world_size)]
        self.store: Any = None
        self.group_rank: int | None = None
        self.group_world_size: int | None = None
        self.master_addr: str | None = None
        self.master_port: int | None = None
        self.state = WorkerState.INIT


@dataclass
class RunResult:
    """The result of an agent.

    Args:
        state: the last state of the workers.
        return_values: values that functions returned, by global rank.
        failures: workers that failed, by global rank.
    """

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Return whether the job failed."""
        return self.state == WorkerState.FAILED


class ElasticAgent(abc.ABC):
    """An agent."""

    @abc.abstractmethod
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the workers until they have succeeded, or failed too often."""

    @abc.abstractmethod
    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """Return the workers of this node."""


class SimpleElasticAgent(ElasticAgent):
    """An agent with workers of one role. Classes that inherit from it start and stop processes.

    Args:
        spec: what to run.
        exit_barrier_timeout: seconds to wait for the other agents after the workers of this node have succeeded.
        shutdown_timeout: seconds from a signal to the workers until they are killed.
    """

    def __init__(self, spec: WorkerSpec, exit_barrier_timeout: float = 300, shutdown_timeout: int = 30) -> None:
        self._worker_group = WorkerGroup(spec)
        self._remaining_restarts = spec.max_restarts
        self._store: Any = None
        self._exit_barrier_timeout = exit_barrier_timeout
        self._shutdown_timeout = shutdown_timeout
        self._total_execution_time = 0
        self._in_exit_barrier = False

    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """Return the workers of this node."""
        return self._worker_group

    @abc.abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start the workers, and return their processes by local rank."""

    @abc.abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        """Stop the workers that are running."""

    @abc.abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """Return the state of the workers."""

    @abc.abstractmethod
    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        """Stop the workers and release resources."""

    def _pause(self, seconds: float) -> None:
        """Wait. Classes that can do it return when a worker ends."""
        time.sleep(seconds)

    def _restart_count(self) -> int:
        return self._worker_group.spec.max_restarts - self._remaining_restarts

    @prof
    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        """Wait for the other agents, and give ranks to the workers."""
        spec = worker_group.spec
        with self.record_duration("RENDEZVOUS"):
            info = spec.rdzv_handler.next_rendezvous()
        self._store = info.store
        with self.record_duration("ASSIGN_WORKER_RANKS"):
            worker_group.workers = self._assign_worker_ranks(info.store, info.rank, info.world_size, spec)
        worker_group.store = info.store
        worker_group.group_rank = info.rank
        worker_group.group_world_size = info.world_size
        worker_group.master_addr = spec.master_addr or info.bootstrap_store_info.master_addr
        worker_group.master_port = spec.master_port or info.bootstrap_store_info.master_port
        logger.info(
            "[%s] rendezvous complete: restart %s, store at %s:%s, node %s of %s, global ranks %s",
            spec.role,
            self._restart_count(),
            worker_group.master_addr,
            worker_group.master_port,
            info.rank,
            info.world_size,
            [worker.global_rank for worker in worker_group.workers],
        )

    @prof
    def _assign_worker_ranks(
        self, store: _C.Store, group_rank: int, group_world_size: int, spec: WorkerSpec
    ) -> list[Worker]:
        """Return the workers of this node with their ranks.

        Nodes may have different roles and numbers of workers: node 0 adds them up. If the environment variable
        ``TORCH_ELASTIC_WORKER_IDENTICAL`` is 1, all nodes are equal, and no message is needed.
        """
        n = spec.local_world_size
        if os.environ.get("TORCH_ELASTIC_WORKER_IDENTICAL", "0") == "1":
            first = role_first = group_rank * n
            world_size = role_world_size = group_world_size * n
        else:
            store.set(f"torchelastic/role_info/{group_rank}", json.dumps([spec.role, n]))
            if group_rank == 0:
                self._add_up_ranks(store, group_world_size)
            assigned = store.get(f"torchelastic/assigned_ranks/{group_rank}")
            first, world_size, role_first, role_world_size = json.loads(assigned)
        return [Worker(i, first + i, role_first + i, world_size, role_world_size) for i in range(n)]

    @staticmethod
    def _add_up_ranks(store: Any, group_world_size: int) -> None:
        found = store.multi_get([f"torchelastic/role_info/{i}" for i in range(group_world_size)])
        nodes = [json.loads(text) for text in found]
        sizes: dict[str, int] = defaultdict(int)
        for role, n in nodes:
            sizes[role] += n
        first = 0
        role_first: dict[str, int] = defaultdict(int)
        values = []
        for role, n in nodes:
            values.append(json.dumps([first, sum(sizes.values()), role_first[role], sizes[role]]))
            first += n
            role_first[role] += n
        store.multi_set([f"torchelastic/assigned_ranks/{i}" for i in range(group_world_size)], values)

    @prof
    def _initialize_workers(self, worker_group: WorkerGroup) -> None:
        """Wait for the other agents, and start the workers."""
        self._rendezvous(worker_group)
        spec = worker_group.spec
        for local_rank, process in self._start_workers(worker_group).items():
            worker = worker_group.workers[local_rank]
            worker.id = process
            record(self._construct_event("START", EventSource.WORKER, worker), spec.event_log_handler)
        worker_group.state = WorkerState.HEALTHY

    @prof
    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        """Stop the workers, and start new ones."""
        self._stop_workers(worker_group)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    @prof
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the workers until they have succeeded, or failed too often.

        Args:
            role: not used: the agent has one role.

        Raises:
            SignalException: if the agent gets a signal. The workers get it too.
        """
        begin = time.monotonic()
        death_sig = signal.SIGTERM
        try:
            result = self._invoke_run(role)
            self._total_execution_time = int(time.monotonic() - begin)
            self._record_metrics(result)
            self._record_worker_events(result)
            return result
        except RendezvousGracefulExitError as error:
            logger.info("the job has ended without this node: %s", error)
            return RunResult(WorkerState.SUCCEEDED)
        except SignalException as error:
            logger.warning("Received %s death signal, shutting down workers", error.sigval)
            death_sig = error.sigval
            raise
        finally:
            self._shutdown(death_sig, timeout=self._shutdown_timeout)
            self._total_execution_time = int(time.monotonic() - begin)

    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        group = self._worker_group
        spec = group.spec
        role = spec.role
        self._initialize_workers(group)
        while True:
            if group.state == WorkerState.INIT:
                raise AssertionError("the workers have not been started")
            self._pause(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            put_metric(f"workers.{role}.remaining_restarts", self._remaining_restarts)
            put_metric(f"workers.{role}.{result.state.name.lower()}", 1)
            if result.state == WorkerState.SUCCEEDED:
                self._exit_barrier()
                return result
            if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                if self._remaining_restarts == 0:
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    return result
                logger.info(
                    "[%s] workers %s, %s of %s restarts left",
                    role,
                    result.state.name,
                    self._remaining_restarts,
                    spec.max_restarts,
                )
                self._remaining_restarts -= 1
                self._restart_workers(group)
            elif result.state == WorkerState.HEALTHY:
                # A new node is no failure: it does not count as a restart.
                waiting = spec.rdzv_handler.num_nodes_waiting()
                if waiting > 0:
                    logger.info("[%s] %s nodes wait: the workers are restarted with them", role, waiting)
                    self._restart_workers(group)
            else:
                raise RuntimeError(f"[{role}] Worker group in {result.state.name} state")

    def _exit_barrier(self) -> None:
        """Wait until the workers of all nodes have succeeded. A node that ends early may run the store of others."""
        world_size = self._worker_group.group_world_size or 1
        if world_size == 1 or self._store is None:
            return
        self._in_exit_barrier = True
        key = "torchelastic/agent/terminal_state"
        try:
            # When all agents have passed the first barrier, nobody needs the store any more.
            if self._await_others(f"{key}/ended", world_size, self._exit_barrier_timeout):
                self._await_others(f"{key}/seen", world_size, _LINGER_SECONDS)
            else:
                logger.warning("the workers of this node have ended, but not those of the other nodes")
        except (RuntimeError, RendezvousError) as error:
            # The workers of this node have succeeded. What the other nodes do does not change that.
            logger.info("error in the exit barrier: %s", error)
        finally:
            self._in_exit_barrier = False

    def _await_others(self, key, world_size, timeout):
        """Count this agent, and return whether all agents were counted in time. A job that failed ends the wait."""
        if self._store.add(key, 1) == world_size:
            self._store.set(f"{key}/all", "1")
        end = time.monotonic() + timeout
        while True:
            seconds = min(end - time.monotonic(), _LOOK_SECONDS)
            if seconds <= 0:
                return False
            try:
                self._store.wait([f"{key}/all"], timedelta(seconds=seconds))
                return True
            except _C._DistStoreError:
                if self._worker_group.spec.rdzv_handler.is_closed():
                    return False

    def get_event_failed(self) -> Event:
        """Return an event: the agent failed with the current exception."""
        return self._construct_event("FAILED", EventSource.AGENT, raw_error=traceback.format_exc())

    def get_event_succeeded(self) -> Event:
        """Return an event: the agent has done its work."""
        return self._construct_event("SUCCEEDED", EventSource.AGENT)

    def _record_worker_events(self, result: RunResult) -> None:
        for worker in self._worker_group.workers:
            failure = result.failures.get(worker.global_rank)
            event = self._construct_event(
                self._get_worker_state(worker, result),
                EventSource.WORKER,
                worker,
                raw_error=json.dumps(failure.error_file_data) if failure else None,
                exit_code=failure.exitcode if failure else None,
                worker_pid=failure.pid if failure else None,
            )
            record(event, self._worker_group.spec.event_log_handler)

    def _get_worker_state(self, worker: Worker, result: RunResult) -> str:
        failure = result.failures.get(worker.global_rank)
        if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED) and not failure:
            return "TERMINATED"
        if failure or worker.global_rank in result.return_values:
            return result.state.value
        raise ValueError(f"Unknown worker: {worker.global_rank}")

    @contextmanager
    def record_duration(self, state: str) -> Iterator[None]:
        """Send an event with the duration of a ``with`` block.

        Args:
            state: name of the event.
        """
        begin = time.perf_counter()
        try:
            yield
        finally:
            milliseconds = (time.perf_counter() - begin) * 1000
            event = self._construct_event(state, EventSource.AGENT, duration_ms=milliseconds)
            record(event, self._worker_group.spec.event_log_handler)

    def _construct_event(
        self,
        state: str,
        source: EventSource,
        worker: Worker | None = None,
        raw_error: str | None = None,
        duration_ms: float | None = None,
        exit_code: int | None = None,
        worker_pid: int | None = None,
    ) -> Event:
        group = self._worker_group
        spec = group.spec
        details: dict[str, Any] = {
            "group_world_size": group.group_world_size,
            "entry_point": spec.get_entrypoint_name(),
        }
        if worker is not None:
            # Lists of one element, as PyTorch's events have them.
            details["local_rank"] = [worker.local_rank]
            details["role_rank"] = [worker.role_rank]
            details["role_world_size"] = [worker.role_world_size]
            details["exit_code"] = [exit_code]
            details["worker_pid"] = [worker_pid]
        metadata = {
            "run_id": spec.rdzv_handler.get_run_id(),
            "global_rank": worker.global_rank if worker is not None else None,
            "group_rank": group.group_rank,
            "worker_id": str(worker.id) if worker is not None else None,
            "role": spec.role,
            "hostname": socket.getfqdn(),
            "state": state,
            "total_run_time": self._total_execution_time,
            "rdzv_backend": spec.rdzv_handler.get_backend(),
            "raw_error": raw_error,
            "metadata": json.dumps(details),
            "agent_restarts": self._restart_count(),
            "duration_ms": duration_ms,
        }
        return Event(f"torchelastic.worker.status.{state}", source, metadata=metadata)

    def _record_metrics(self, group_results: RunResult) -> None:
        role = self._worker_group.spec.role
        outcome = "failed" if group_results.is_failed() else "success"
        retries = "with_retries" if self._restart_count() > 0 else "no_retries"
        put_metric(f"workers.{role}.run_total", 1)
        for name in ("success", "failed"):
            for kind in ("with_retries", "no_retries"):
                put_metric(f"workers.{role}.run_{name}_{kind}", int((name, kind) == (outcome, retries)))
        most = self._worker_group.spec.max_restarts + 1
        flakiness = 100 if group_results.is_failed() else 100 - 100 * (self._remaining_restarts + 1) / most
        put_metric(f"workers.{role}.flakiness", int(flakiness))
