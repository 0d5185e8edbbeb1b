"""What an agent does: a rendezvous, workers with ranks, restarts, and the end together with the other agents."""

from __future__ import annotations

import abc
import enum
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from ..... import _C
from ...events import Event
from ...metrics import prof
from ...multiprocessing import ProcessFailure, SignalException
from ...rendezvous import RendezvousError, RendezvousGracefulExitError, RendezvousHandler
from ...utils.logging import get_logger
from . import ranks
from .reports import Reports

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
# The same for agents of PyTorch, which do not say that they have passed.
_LINGER_FOR_PYTORCH_SECONDS = 1.0
# Seconds between two looks whether the job has failed.
_LOOK_SECONDS = 1.0


@dataclass
class WorkerSpec:
    """What to run on each node.

    Args:
        role: name of the role of the workers.
        local_world_size: number of workers of a node.
        rdzv_handler: this node in the rendezvous.
        fn: older name of `entrypoint`.
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
            return self.entrypoint.rpartition("/")[2]
        return getattr(self.entrypoint, "__qualname__", repr(self.entrypoint))


@dataclass(eq=False)
class Worker:
    """A worker.

    Args:
        local_rank: rank among the workers of the node.
        global_rank: rank among all workers. It may change at a restart.
        role_rank: rank among the workers of the same role.
        world_size: number of all workers.
        role_world_size: number of workers of the same role.

    Attributes:
        id: the process.
    """

    local_rank: int
    global_rank: int = -1
    role_rank: int = -1
    world_size: int = -1
    role_world_size: int = -1
    id: Any = field(default=None, init=False)


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


@dataclass(eq=False)
class WorkerGroup:
    """The workers of a node.

    Args:
        spec: what they run.

    Attributes:
        workers: the workers.
        state: their state.
        restarts: how often they were started again after a failure.
        store: store of the agents.
        group_rank: rank of the node.
        group_world_size: number of nodes.
        master_addr: host of the store of the workers.
        master_port: port of the store of the workers.
    """

    spec: WorkerSpec
    workers: list[Worker] = field(init=False)
    state: WorkerState = field(default=WorkerState.INIT, init=False)
    restarts: int = field(default=0, init=False)
    store: Any = field(default=None, init=False)
    group_rank: int | None = field(default=None, init=False)
    group_world_size: int | None = field(default=None, init=False)
    master_addr: str | None = field(default=None, init=False)
    master_port: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.workers = [Worker(i) for i in range(self.spec.local_world_size)]


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
        self._reports = Reports(self._worker_group)
        self._barrier_seconds = exit_barrier_timeout
        self._shutdown_seconds = shutdown_timeout
        # The workers of this node have ended, and the agent waits for those of other nodes.
        self._is_in_barrier = False

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

    @prof
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the workers until they have succeeded, or failed too often.

        Args:
            role: not used: the agent has one role.

        Raises:
            SignalException: if the agent gets a signal. The workers get it too.
        """
        last_signal = signal.SIGTERM
        try:
            result = self._supervise()
            self._reports.result(result)
        except RendezvousGracefulExitError as error:
            logger.info("the job has ended without this node: %s", error)
            result = RunResult(WorkerState.SUCCEEDED)
        except Exception as error:
            if isinstance(error, SignalException):
                logger.warning("Received %s death signal, shutting down workers", error.sigval)
                last_signal = error.sigval
            raise
        finally:
            self._shutdown(last_signal, timeout=self._shutdown_seconds)
        return result

    def get_event_succeeded(self) -> Event:
        """Return the event that the agent has done its work, even if the workers failed."""
        return self._reports.event("SUCCEEDED")

    def get_event_failed(self) -> Event:
        """Return the event that the agent failed, with the exception that is handled now."""
        return self._reports.event("FAILED", raw_error=traceback.format_exc())

    def _supervise(self) -> RunResult:
        """Start workers until one round of them has succeeded, or no restart is left."""
        group = self._worker_group
        spec = group.spec
        self._begin_round()
        while True:
            self._pause(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            self._reports.look()
            if result.state == WorkerState.SUCCEEDED:
                self._wait_for_other_nodes()
                return result
            if result.state == WorkerState.HEALTHY:
                # A new node is no failure: it does not count as a restart.
                waiting = spec.rdzv_handler.num_nodes_waiting()
                if waiting == 0:
                    continue
                logger.info("[%s] %s nodes wait: the workers are restarted with them", spec.role, waiting)
            elif result.state not in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                raise RuntimeError(f"[{spec.role}] Worker group in {result.state.name} state")
            elif group.restarts < spec.max_restarts:
                group.restarts += 1
                logger.info("[%s] workers failed, restart %s of %s", spec.role, group.restarts, spec.max_restarts)
            else:
                self._stop_workers(group)
                group.state = WorkerState.FAILED
                return replace(result, state=WorkerState.FAILED)
            self._stop_workers(group)
            group.state = WorkerState.STOPPED
            self._begin_round()

    def _begin_round(self) -> None:
        """Meet the other agents, and start the workers with their ranks."""
        group = self._worker_group
        spec = group.spec
        with self._reports.duration("RENDEZVOUS"):
            info = spec.rdzv_handler.next_rendezvous()
        group.store, group.group_rank, group.group_world_size = info.store, info.rank, info.world_size
        address = info.bootstrap_store_info
        group.master_addr = spec.master_addr or address.master_addr
        group.master_port = spec.master_port or address.master_port
        with self._reports.duration("ASSIGN_WORKER_RANKS"):
            own = ranks.agree(info.store, info.rank, info.world_size, spec.role, spec.local_world_size)
        group.workers = [
            Worker(i, own.first + i, own.role_first + i, own.world_size, own.role_world_size)
            for i in range(spec.local_world_size)
        ]
        logger.info("[%s] node %s of %s, ranks from %s", spec.role, info.rank, info.world_size, own.first)
        processes = self._start_workers(group)
        group.state = WorkerState.HEALTHY
        for worker in group.workers:
            worker.id = processes[worker.local_rank]
            self._reports.worker(worker, "START")

    def _wait_for_other_nodes(self) -> None:
        """Wait until the workers of all nodes have succeeded. A node that ends early may run the store of others."""
        if self._worker_group.group_world_size == 1:
            return
        self._is_in_barrier = True
        key = "torchelastic/agent/terminal_state"
        store, nodes = self._worker_group.store, self._worker_group.group_world_size or 1
        try:
            store.add(f"{key}/of_pytpu", 1)
            if not self._await_all(key, nodes, self._barrier_seconds):
                logger.warning("the workers of this node have ended, but not those of the other nodes")
                return
            # This agent may serve the store. It stays until the other agents have seen the end of the job.
            agents = store.add(f"{key}/of_pytpu", 0)
            self._await_all(f"{key}/seen", agents, _LINGER_SECONDS)
            if agents < nodes:
                time.sleep(_LINGER_FOR_PYTORCH_SECONDS)
        except (RuntimeError, RendezvousError) as error:
            # The workers of this node have succeeded. What the other nodes do does not change that.
            logger.info("could not wait for the other nodes: %s", error)
        finally:
            self._is_in_barrier = False

    def _await_all(self, key: str, agents: int, timeout: float) -> bool:
        """Count this agent, and return whether all were counted in time. A job that failed ends the wait.

        PyTorch's agents use the same keys.
        """
        store = self._worker_group.store
        last = f"{key}/last_member"
        if store.add(f"{key}/num_members", 1) == agents:
            store.set(last, "1")
        end = time.monotonic() + timeout
        while (seconds := min(end - time.monotonic(), _LOOK_SECONDS)) > 0:
            try:
                store.wait([last], timedelta(seconds=seconds))
                return True
            except _C._DistStoreError:
                if self._worker_group.spec.rdzv_handler.is_closed():
                    return False
        return False
