"""`torch.tpu.profiler`: the options that torch_tpu's profiler takes."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_KEYS = (
    "check_experimental_options",
    "device_tracer_level",
    "host_tracer_level",
    "python_tracer_level",
    "run_dir",
    "worker_rank",
)


class TpuProfilerConfig:
    """Options for `torch.profiler.profile(experimental_config=...)`, as torch_tpu has them.

    They are checked and kept, and have no effect: the profiler records calls of the host, and traces no device.

    Args:
        host_tracer_level: How much of the host to trace.
        device_tracer_level: How much of the device to trace.
        python_tracer_level: How much of Python to trace.
        run_dir: Folder of the trace.
        worker_rank: Text for the name of the trace file.
        experimental_options: Further options by name.
        check_experimental_options: Whether unknown names of options are errors.

    Raises:
        TypeError: If `worker_rank` is not a text.
        ValueError: If a name or text has ":" or ",", or a name in `experimental_options` is that of another argument.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.tpu.profiler import TpuProfilerConfig
        >>> TpuProfilerConfig(worker_rank="0").worker_rank
        '0'
    """

    def __init__(
        self,
        *,
        host_tracer_level: int = 2,
        device_tracer_level: int = 1,
        python_tracer_level: int = 0,
        run_dir: str | os.PathLike[str] | None = None,
        worker_rank: str | None = None,
        experimental_options: dict[str, Any] | None = None,
        check_experimental_options: bool = True,
    ) -> None:
        if worker_rank is not None:
            if not isinstance(worker_rank, str):
                raise TypeError(f"worker_rank must be a string, got {type(worker_rank)}")
            if ":" in worker_rank or "," in worker_rank:
                raise ValueError(f"worker_rank string cannot contain ':' or ',': {worker_rank!r}")
        for key in experimental_options or {}:
            if key in _KEYS:
                raise ValueError(f"Experimental option key cannot clash with stable option: {key!r}")
            if ":" in key or "," in key:
                raise ValueError(f"Experimental option keys cannot contain ':' or ',': {key!r}")
        self.host_tracer_level, self.device_tracer_level = host_tracer_level, device_tracer_level
        self.python_tracer_level, self.worker_rank = python_tracer_level, worker_rank
        self.run_dir = None if run_dir is None else os.fspath(run_dir)
        self.experimental_options = dict(experimental_options or {})
        self.check_experimental_options = check_experimental_options
