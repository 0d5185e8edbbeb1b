"""``torch.tpu.profiler``: the options that torch_tpu's profiler takes."""

import os

_KEYS = (
    "check_experimental_options",
    "device_tracer_level",
    "host_tracer_level",
    "python_tracer_level",
    "run_dir",
    "worker_rank",
)


class TpuProfilerConfig:
    """Options for ``torch.profiler.profile(experimental_config=...)``.

    They are checked and kept. The profiler here records the calls of the host; it traces no device, so no level changes it.

    Args:
        host_tracer_level, device_tracer_level, python_tracer_level: how much to trace.
        run_dir: folder of the trace.
        worker_rank: text for the name of the trace's file.
        experimental_options: further options by name.
        check_experimental_options: whether unknown names among these are errors.

    Raises:
        TypeError: `worker_rank` is no text.
        ValueError: a name or text has ":" or ",", or a name of `experimental_options` is one of the arguments.
    """

    def __init__(
        self, *, host_tracer_level=2, device_tracer_level=1, python_tracer_level=0, run_dir=None, worker_rank=None,
        experimental_options=None, check_experimental_options=True,
    ):  # fmt: skip
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
