"""Start workers, which are calls of a function or commands, and wait for them.

If one worker fails, the others are ended. Each worker may write its exception to a file, see
`torch.distributed.elastic.multiprocessing.errors`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .api import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    MultiprocessContext,
    PContext,
    RunProcsResult,
    SignalException,
    Std,
    SubprocessContext,
    get_std_cm,
    to_map,
)
from .errors import ProcessFailure

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "ProcessFailure",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "start_processes",
    "to_map",
]


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]],
    logs_specs: LogsSpecs,
    log_line_prefixes: dict[int, str] | None = None,
    start_method: str = "spawn",
    numa_options: None = None,
    duplicate_stdout_filters: list[str] | None = None,
    duplicate_stderr_filters: list[str] | None = None,
) -> PContext:
    """Start one worker for each local rank.

    Args:
        name: what the workers do, such as `trainer`.
        entrypoint: a function, or a command.
        args: arguments by local rank.
        envs: variables of the environment by local rank.
        logs_specs: the plan for the output.
        log_line_prefixes: beginnings of lines on the console by local rank. The default is `[{name}{rank}]:`.
        start_method: `spawn`, `fork` or `forkserver`, for functions.
        numa_options: must be `None`: workers are not bound to processors.
        duplicate_stdout_filters: texts. Lines of the output with one of them go to `filtered_stdout.log` too.
        duplicate_stderr_filters: texts. Lines of the errors with one of them go to `filtered_stderr.log` too.

    Returns:
        The running workers.

    Raises:
        RuntimeError: if `args` and `envs` are not for the same local ranks.
    """
    if numa_options is not None:
        raise NotImplementedError("start_processes: numa_options: workers are not bound to processors")
    console = (log_line_prefixes, None, duplicate_stdout_filters, duplicate_stderr_filters)
    context: PContext
    if isinstance(entrypoint, str):
        context = SubprocessContext(name, entrypoint, args, envs, logs_specs, *console)
    else:
        context = MultiprocessContext(name, entrypoint, args, envs, start_method, logs_specs, *console)
    try:
        context.start()
    except Exception:
        context.close()
        raise
    return context
