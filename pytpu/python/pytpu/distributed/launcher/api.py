"""Start an agent from a program instead of the command line."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from ..elastic import events
from ..elastic.agent.server.api import WorkerSpec
from ..elastic.agent.server.health_check_server import HealthCheckServer
from ..elastic.agent.server.local_elastic_agent import LocalElasticAgent
from ..elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, SignalException
from ..elastic.multiprocessing.errors import ChildFailedError
from ..elastic.rendezvous import RendezvousHandler, RendezvousParameters, registry as rdzv_registry
from ..elastic.rendezvous.utils import parse_rendezvous_endpoint
from ..elastic.utils.logging import get_logger

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

logger = get_logger(__name__)

_RENDEZVOUS_SECONDS = 900
# Settings that `WorkerSpec` has too.
_OF_WORKERS = (
    "max_restarts",
    "monitor_interval",
    "local_addr",
    "event_log_handler",
    "duplicate_stdout_filters",
    "duplicate_stderr_filters",
    "virtual_local_rank",
)


@dataclass
class LaunchConfig:
    """Settings of an agent and its workers.

    Args:
        min_nodes: lowest number of nodes.
        max_nodes: highest number of nodes.
        nproc_per_node: number of workers of each node.
        logs_specs: the plan for the output. `None` shows it on the console.
        run_id: name of the job. An empty text takes a random one.
        role: name of the role of the workers.
        rdzv_endpoint: `host:port` of the store of the rendezvous.
        rdzv_backend: `c10d` or `static`. PyTorch's default, `etcd`, is not part of this package.
        rdzv_configs: settings of the rendezvous. `timeout` is 900 seconds by default.
        rdzv_timeout: older name of `rdzv_configs["timeout"]`.
        max_restarts: how often the workers are started again after a failure.
        monitor_interval: seconds between two looks at waiting nodes. A worker that ends is noticed at once on Linux.
        start_method: `spawn`, `fork` or `forkserver`, for functions.
        log_line_prefix_template: beginning of lines on the console, with `${role_name}`, `${rank}`,
            `${local_rank}` and `${hostname}`.
        metrics_cfg: accepted and not used: `torch.distributed.elastic.metrics.configure` sets handlers.
        local_addr: address of this node.
        event_log_handler: name of the handler of events.
        numa_options: must be `None`: workers are not bound to processors.
        signals_to_handle: names of signals that the agent passes on to the workers.
        duplicate_stdout_filters: texts. Lines of the output with one of them go to a file of all workers too.
        duplicate_stderr_filters: the same for the errors.
        virtual_local_rank: whether each worker sees one GPU, with local rank 0.
        shutdown_timeout: seconds from a signal to the workers until they are killed. `None` takes the environment
            variable `TORCH_ELASTIC_SHUTDOWN_TIMEOUT`, or 30.

    Raises:
        ValueError: if `shutdown_timeout` is negative.
        NotImplementedError: if `numa_options` is given.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: None = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.numa_options is not None:
            raise NotImplementedError("LaunchConfig: numa_options: workers are not bound to processors")
        timeout = self.rdzv_configs.get("timeout", _RENDEZVOUS_SECONDS)
        self.rdzv_configs = {**self.rdzv_configs, "timeout": timeout if self.rdzv_timeout == -1 else self.rdzv_timeout}
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 30))
        elif self.shutdown_timeout < 0:
            raise ValueError(f"shutdown_timeout must be non-negative, got {self.shutdown_timeout}")


class elastic_launch:
    """Run workers: a call starts an agent and waits for it.

    Args:
        config: the settings.
        entrypoint: a function, or a command. The arguments of the call are theirs.
        health_check_server: a server that has been started. It is stopped with the agent.

    Returns:
        The values that the functions of this node returned, by global rank.

    Raises:
        ChildFailedError: if the workers failed too often.
        SignalException: if the agent gets a signal.

    Example:
        >>> from pytpu.distributed.launcher.api import LaunchConfig, elastic_launch
        >>> config = LaunchConfig(1, 1, nproc_per_node=2, rdzv_backend="c10d", rdzv_endpoint="localhost:0")
        >>> elastic_launch(config, "true")()
        {0: None, 1: None}
    """

    def __init__(
        self,
        config: LaunchConfig,
        entrypoint: Callable[..., Any] | str | None,
        health_check_server: HealthCheckServer | None = None,
    ) -> None:
        self._job = (config, entrypoint)
        self._health = health_check_server

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(*self._job, list(args), self._health)


def _get_entrypoint_name(entrypoint: Callable[..., Any] | str | None, args: list[Any]) -> str:
    """Return the name of the function, or of the program. The program of `python -u script.py` is `script.py`."""
    if entrypoint == sys.executable:
        programs = [arg for arg in args if not str(arg).startswith("-")]
        return programs[0] if programs else ""
    return entrypoint if isinstance(entrypoint, str) else getattr(entrypoint, "__name__", "")


def _fixed_address(config: LaunchConfig) -> tuple[str | None, int | None]:
    """Return the address of the store of the workers, if the command line fixes it."""
    if config.rdzv_backend != "static":
        return None, None
    if not config.rdzv_endpoint.strip():
        raise ValueError("Endpoint is missing in endpoint. Try to add --master-addr and --master-port")
    host, port = parse_rendezvous_endpoint(config.rdzv_endpoint, default_port=-1)
    if port < 0:
        raise ValueError(f"port is missing in endpoint: {config.rdzv_endpoint}. Try to specify --master-port")
    return host, port


@contextmanager
def _take_part(handler: RendezvousHandler) -> Iterator[None]:
    """End the part of this node in a rendezvous. A signal ends this node alone, everything else ends the job."""
    end: Callable[[], object] = handler.shutdown
    try:
        yield
    except SignalException:
        end = getattr(handler, "leave", lambda: None)
        raise
    finally:
        try:
            end()
        except Exception:  # The result of the workers is known, and must be returned.
            logger.exception("error in the end of the rendezvous")


def launch_agent(
    config: LaunchConfig,
    entrypoint: Callable[..., Any] | str | None,
    args: list[Any],
    health_check_server: HealthCheckServer | None = None,
) -> dict[int, Any]:
    """Run an agent and its workers.

    Args:
        config: the settings.
        entrypoint: a function, or a command.
        args: its arguments.
        health_check_server: a server that has been started. It is stopped with the agent.

    Returns:
        The values that the functions of this node returned, by global rank.

    Raises:
        ChildFailedError: if the workers failed too often.
        SignalException: if the agent gets a signal.
    """
    if not config.run_id:
        config.run_id = uuid.uuid4().hex
        logger.warning("config has no run_id, generated a random run_id: %s", config.run_id)
    master_addr, master_port = _fixed_address(config)
    handler = rdzv_registry.get_rendezvous_handler(
        RendezvousParameters(
            config.rdzv_backend,
            config.rdzv_endpoint,
            config.run_id,
            config.min_nodes,
            config.max_nodes,
            config.local_addr,
            **config.rdzv_configs,
        )
    )
    # Workers that start workers handle the same signals.
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = config.signals_to_handle
    spec = WorkerSpec(
        config.role,
        config.nproc_per_node,
        handler,
        entrypoint=entrypoint,
        args=tuple(args),
        master_addr=master_addr,
        master_port=master_port,
        **{name: getattr(config, name) for name in _OF_WORKERS},
    )
    agent = LocalElasticAgent(
        spec,
        # `LaunchConfig` has replaced `None`.
        cast(LogsSpecs, config.logs_specs),
        config.start_method,
        log_line_prefix_template=config.log_line_prefix_template,
        shutdown_timeout=cast(int, config.shutdown_timeout),
        health_check_server=health_check_server,
    )
    try:
        with _take_part(handler):
            result = agent.run()
    except Exception:
        events.record(agent.get_event_failed(), config.event_log_handler)
        raise
    events.record(agent.get_event_succeeded(), config.event_log_handler)
    if result.is_failed():
        raise ChildFailedError(_get_entrypoint_name(entrypoint, args), result.failures)
    return result.return_values
