"""The agent whose workers are processes of this machine."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
import uuid
from collections.abc import Callable
from string import Template
from typing import Any, cast

from ...multiprocessing import LogsSpecs, PContext, start_processes
from ...timer import FileTimerRequest, FileTimerServer
from ...utils import macros
from ...utils.logging import get_logger
from .api import RunResult, SimpleElasticAgent, Worker, WorkerGroup, WorkerSpec, WorkerState
from .health_check_server import HealthCheckServer, create_healthcheck_server

__all__ = [
    "TORCHELASTIC_ENABLE_FILE_TIMER",
    "TORCHELASTIC_HEALTH_CHECK_PORT",
    "TORCHELASTIC_TIMER_FILE",
    "LocalElasticAgent",
]

logger = get_logger(__name__)

TORCHELASTIC_ENABLE_FILE_TIMER = "TORCHELASTIC_ENABLE_FILE_TIMER"
TORCHELASTIC_HEALTH_CHECK_PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"
TORCHELASTIC_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"

_HEALTH_CHECK_SECONDS = 60
# AMD's variable comes first: its libraries read the other one too.
_VISIBLE = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


class LocalElasticAgent(SimpleElasticAgent):
    """An agent whose workers are processes of this machine.

    Args:
        spec: what to run.
        logs_specs: the plan for the output.
        start_method: `spawn`, `fork` or `forkserver`, for functions.
        exit_barrier_timeout: seconds to wait for the other agents after the workers of this node have succeeded.
        log_line_prefix_template: beginning of lines on the console, with `${role_name}`, `${rank}`,
            `${local_rank}` and `${hostname}`.
        shutdown_timeout: seconds from a signal to the workers until they are killed.
        health_check_server: a server that has been started. It is stopped with the agent.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        logs_specs: LogsSpecs,
        start_method: str = "spawn",
        exit_barrier_timeout: float = 300,
        log_line_prefix_template: str | None = None,
        shutdown_timeout: int = 30,
        health_check_server: HealthCheckServer | None = None,
    ) -> None:
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout)
        self._logs_specs = logs_specs
        self._start_method = start_method
        self._line_prefix = Template(log_line_prefix_template) if log_line_prefix_template else None
        self._health = health_check_server
        self._timers: FileTimerServer | None = None
        self._processes: PContext | None = None

    def _watch_timers(self) -> str:
        """Start the server of timers. Return the path of its pipe, or an empty text if nobody asks for timers."""
        if os.environ.get(TORCHELASTIC_ENABLE_FILE_TIMER) != "1":
            return ""
        path = os.environ.get(TORCHELASTIC_TIMER_FILE)
        if path is None:
            path = os.path.join(tempfile.gettempdir(), f"watchdog_timer_{uuid.uuid4()}")
        run_id = self._worker_group.spec.rdzv_handler.get_run_id()
        self._timers = FileTimerServer(path, run_id, max_interval=0.1, log_event=self._report_timer)
        self._timers.start()
        return path

    def _report_timer(self, name: str, request: FileTimerRequest | None) -> None:
        fields = ("worker_pid", "scope_id", "expiration_time", "signal") if request is not None else ()
        details = {field: str(getattr(request, field)) for field in fields}
        self._reports.send("RUNNING", name=name, details={"watchdog_event": name, **details})

    def _last_sign_of_life(self) -> int:
        if self._timers is None or self._is_in_barrier:
            return int(time.time())
        return self._timers.get_last_progress_time()

    def _serve_health(self) -> None:
        port = os.environ.get(TORCHELASTIC_HEALTH_CHECK_PORT)
        if port is None or self._health is not None:
            return
        if not port.isdigit():
            logger.warning("%s=%s is no number: no health check server", TORCHELASTIC_HEALTH_CHECK_PORT, port)
            return
        self._health = create_healthcheck_server(self._last_sign_of_life, int(port), _HEALTH_CHECK_SECONDS)
        self._health.start()

    def _environment(self, worker: Worker) -> dict[str, str]:
        """Return the variables of a worker."""
        group = self._worker_group
        spec = group.spec
        handler = spec.rdzv_handler
        values: dict[str, Any] = {
            "RANK": worker.global_rank,
            "WORLD_SIZE": worker.world_size,
            "LOCAL_RANK": worker.local_rank,
            "LOCAL_WORLD_SIZE": spec.local_world_size,
            "GROUP_RANK": group.group_rank,
            "GROUP_WORLD_SIZE": group.group_world_size,
            "ROLE_NAME": spec.role,
            "ROLE_RANK": worker.role_rank,
            "ROLE_WORLD_SIZE": worker.role_world_size,
            "MASTER_ADDR": group.master_addr,
            "MASTER_PORT": group.master_port,
            "TORCHELASTIC_RUN_ID": handler.get_run_id(),
            "TORCHELASTIC_RESTART_COUNT": group.restarts,
            "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
            "TORCHELASTIC_USE_AGENT_STORE": handler.use_agent_store,
            # The workers of a new store need no prefix for the keys of an attempt.
            "PYTPU_STORE_IS_NEW": int(getattr(handler, "has_new_store", False)),
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        }
        if spec.virtual_local_rank:
            values.update(_only_gpu(worker.local_rank), LOCAL_RANK=0)
        return {name: str(value) for name, value in values.items()}

    def _line_prefixes(self) -> dict[int, str] | None:
        if self._line_prefix is None:
            return None
        names = {"role_name": self._worker_group.spec.role, "hostname": socket.gethostname()}
        return {
            worker.local_rank: self._line_prefix.safe_substitute(
                names, rank=worker.global_rank, local_rank=worker.local_rank
            )
            for worker in self._worker_group.workers
        }

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        spec = worker_group.spec
        envs = {worker.local_rank: self._environment(worker) for worker in worker_group.workers}
        pipe = self._watch_timers()
        if pipe:
            for env in envs.values():
                env[TORCHELASTIC_TIMER_FILE] = pipe
        self._serve_health()
        self._processes = start_processes(
            spec.role,
            # `WorkerSpec` refuses `None`.
            cast(Callable[..., Any] | str, spec.entrypoint),
            {rank: tuple(macros.substitute(list(spec.args), str(rank))) for rank in envs},
            envs,
            self._logs_specs,
            self._line_prefixes(),
            self._start_method,
            spec.numa_options,
            spec.duplicate_stdout_filters,
            spec.duplicate_stderr_filters,
        )
        self._processes.shutdown_timeout = self._shutdown_seconds
        return self._processes.pids()

    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        self._shutdown(timeout=self._shutdown_seconds)

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        if self._timers is not None:
            self._timers.stop()
        if self._health is not None:
            self._health.stop()
        self._timers = self._health = None
        if self._processes is not None:
            self._processes.close(death_sig, timeout)

    def _pause(self, seconds: float) -> None:
        if self._processes is not None:
            self._processes.pause(seconds)

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result = self._processes.wait(0) if self._processes is not None else None
        if result is None:
            return RunResult(WorkerState.HEALTHY)
        state = WorkerState.FAILED if result.is_failed() else WorkerState.SUCCEEDED
        ranks = {worker.local_rank: worker.global_rank for worker in worker_group.workers}

        def by_global_rank(found: dict[int, Any]) -> dict[int, Any]:
            # The order stays: of failures within one second, the summary takes the first one as the cause.
            return {ranks[local_rank]: value for local_rank, value in found.items()}

        return RunResult(state, by_global_rank(result.return_values), by_global_rank(result.failures))


def _only_gpu(local_rank: int) -> dict[str, str]:
    """Return the variables that show one GPU to a worker."""
    visible = {name: os.environ[name] for name in _VISIBLE if os.environ.get(name)}
    if not visible:
        return {"CUDA_VISIBLE_DEVICES": str(local_rank)}
    name, gpus = next(iter(visible.items()))
    numbers = gpus.split(",")
    if local_rank >= len(numbers):
        raise ValueError(f"local_rank {local_rank} exceeds available GPUs in {name}={gpus}")
    gpu = numbers[local_rank].strip()
    return {"CUDA_VISIBLE_DEVICES": gpu, **dict.fromkeys(visible, gpu)}
