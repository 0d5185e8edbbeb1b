"""The agent whose workers are processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
import time
import uuid
from string import Template
from typing import Any

from ... import events, timer
from ...metrics import prof
from ...multiprocessing import LogsSpecs, PContext, start_processes
from ...utils import macros
from ...utils.logging import get_logger
from .api import RunResult, SimpleElasticAgent, WorkerGroup, WorkerSpec, WorkerState
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


class LocalElasticAgent(SimpleElasticAgent):
    """An agent whose workers are processes of this machine.

    Args:
        spec: what to run.
        logs_specs: the plan for the output.
        start_method: ``spawn``, ``fork`` or ``forkserver``, for functions.
        exit_barrier_timeout: seconds to wait for the other agents after the workers of this node have succeeded.
        log_line_prefix_template: beginning of lines on the console, with ``${role_name}``, ``${rank}``,
            ``${local_rank}`` and ``${hostname}``.
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
        self._start_method = start_method
        self._pcontext: PContext | None = None
        self._log_line_prefix_template = log_line_prefix_template
        self._worker_watchdog: timer.FileTimerServer | None = None
        self._logs_specs = logs_specs
        self._health_check_server = health_check_server

    def _setup_local_watchdog(self, envs: dict[int, dict[str, str]]) -> None:
        """Start the server of timers, if the environment asks for it, and tell the workers the path of its pipe."""
        if os.environ.get(TORCHELASTIC_ENABLE_FILE_TIMER) != "1":
            return
        path = os.environ.get(TORCHELASTIC_TIMER_FILE)
        if path is None:
            path = os.path.join(tempfile.gettempdir(), f"watchdog_timer_{uuid.uuid4()}")
        self._worker_watchdog = timer.FileTimerServer(
            path, envs[0]["TORCHELASTIC_RUN_ID"], max_interval=0.1, log_event=self._log_watchdog_event
        )
        self._worker_watchdog.start()
        for env in envs.values():
            env[TORCHELASTIC_TIMER_FILE] = path

    def _log_watchdog_event(self, name: str, request: timer.FileTimerRequest | None) -> None:
        details = {"watchdog_event": name}
        if request is not None:
            details["worker_pid"] = str(request.worker_pid)
            details["scope_id"] = request.scope_id
            details["expiration_time"] = str(request.expiration_time)
            details["signal"] = str(request.signal)
        event = self._construct_event("RUNNING", events.EventSource.AGENT)
        event.name = name
        event.metadata["metadata"] = json.dumps(details)
        events.record(event, self._worker_group.spec.event_log_handler)

    def _get_alive_time(self) -> int:
        if self._worker_watchdog is None or self._in_exit_barrier:
            return int(time.time())
        return self._worker_watchdog.get_last_progress_time()

    def _setup_healthcheck(self) -> None:
        port = os.environ.get(TORCHELASTIC_HEALTH_CHECK_PORT)
        if port is None or self._health_check_server is not None:
            return
        if not port.isdigit():
            logger.warning("%s=%s is no number: no health check server", TORCHELASTIC_HEALTH_CHECK_PORT, port)
            return
        self._health_check_server = create_healthcheck_server(
            self._get_alive_time, port=int(port), timeout=_HEALTH_CHECK_SECONDS
        )
        self._health_check_server.start()

    def _environment(self, worker, group):
        spec = group.spec
        env = {
            "RANK": str(worker.global_rank),
            "GROUP_RANK": str(group.group_rank),
            "ROLE_RANK": str(worker.role_rank),
            "ROLE_NAME": spec.role,
            "LOCAL_WORLD_SIZE": str(spec.local_world_size),
            "WORLD_SIZE": str(worker.world_size),
            "GROUP_WORLD_SIZE": str(group.group_world_size),
            "ROLE_WORLD_SIZE": str(worker.role_world_size),
            "MASTER_ADDR": str(group.master_addr),
            "MASTER_PORT": str(group.master_port),
            "TORCHELASTIC_RESTART_COUNT": str(self._restart_count()),
            "TORCHELASTIC_MAX_RESTARTS": str(spec.max_restarts),
            "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(),
            "TORCHELASTIC_USE_AGENT_STORE": str(spec.rdzv_handler.use_agent_store),
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        }
        # The workers then need no prefix for the keys of an attempt.
        env["PYTPU_STORE_IS_NEW"] = "1" if getattr(spec.rdzv_handler, "has_new_store", False) else "0"
        self._set_local_rank_env(env, worker.local_rank, spec)
        return env

    def _set_local_rank_env(self, env: dict[str, str], local_rank: int, spec: WorkerSpec) -> None:
        if not spec.virtual_local_rank:
            env["LOCAL_RANK"] = str(local_rank)
            return
        env["LOCAL_RANK"] = "0"
        names = [name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if os.environ.get(name)]
        gpu = str(local_rank)
        if names:
            gpus = os.environ[names[0]].split(",")
            if local_rank >= len(gpus):
                raise ValueError(f"local_rank {local_rank} exceeds available GPUs in {names[0]}={os.environ[names[0]]}")
            gpu = gpus[local_rank].strip()
        env["CUDA_VISIBLE_DEVICES"] = gpu
        if "HIP_VISIBLE_DEVICES" in names:
            env["HIP_VISIBLE_DEVICES"] = gpu

    def _prefixes(self, group):
        if not self._log_line_prefix_template:
            return None
        template = Template(self._log_line_prefix_template)
        host = socket.gethostname()
        return {
            worker.local_rank: template.safe_substitute(
                role_name=group.spec.role, rank=worker.global_rank, local_rank=worker.local_rank, hostname=host
            )
            for worker in group.workers
        }

    @prof
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        spec = worker_group.spec
        if spec.entrypoint is None:
            raise AssertionError("entrypoint is missing")
        envs = {worker.local_rank: self._environment(worker, worker_group) for worker in worker_group.workers}
        args = {rank: tuple(macros.substitute(list(spec.args), str(rank))) for rank in envs}
        self._setup_local_watchdog(envs)
        self._setup_healthcheck()
        self._pcontext = start_processes(
            name=spec.role,
            entrypoint=spec.entrypoint,
            args=args,
            envs=envs,
            logs_specs=self._logs_specs,
            log_line_prefixes=self._prefixes(worker_group),
            start_method=self._start_method,
            numa_options=spec.numa_options,
            duplicate_stdout_filters=spec.duplicate_stdout_filters,
            duplicate_stderr_filters=spec.duplicate_stderr_filters,
        )
        self._pcontext.shutdown_timeout = self._shutdown_timeout
        return dict(self._pcontext.pids())

    @prof
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        self._shutdown(timeout=self._shutdown_timeout)

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        if self._worker_watchdog is not None:
            self._worker_watchdog.stop()
            self._worker_watchdog = None
        if self._health_check_server is not None:
            self._health_check_server.stop()
            self._health_check_server = None
        if self._pcontext is not None:
            self._pcontext.close(death_sig, timeout)

    def _pause(self, seconds: float) -> None:
        if self._pcontext is None:
            super()._pause(seconds)
        else:
            self._pcontext.pause(seconds)

    @prof
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        if self._pcontext is None:
            raise AssertionError("the workers have not been started")
        result = self._pcontext.wait(0)
        if result is None:
            return RunResult(WorkerState.HEALTHY)
        ranks = {worker.local_rank: worker.global_rank for worker in worker_group.workers}
        if result.is_failed():
            failures = {ranks[local_rank]: failure for local_rank, failure in result.failures.items()}
            return RunResult(WorkerState.FAILED, failures=failures)
        values = {ranks[local_rank]: value for local_rank, value in result.return_values.items()}
        return RunResult(WorkerState.SUCCEEDED, return_values=values)
