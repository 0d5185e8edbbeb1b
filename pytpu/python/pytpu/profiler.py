"""Times of steps and of blocks of `record_function`, as in `torch.profiler`. Of single ops, collectives are listed."""

from __future__ import annotations

import enum
import json
import os
import socket
import time
import warnings

from ._functions.settings import _once
from .autograd.profiler import Collector, EventList, record_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .tpu.profiler import TpuProfilerConfig


class ProfilerActivity(enum.Enum):
    """Kinds of activity that a profiler can watch. This profiler always watches the host."""

    CPU = enum.auto()
    XPU = enum.auto()
    MTIA = enum.auto()
    CUDA = enum.auto()
    HPU = enum.auto()
    PrivateUse1 = enum.auto()
    TPU = PrivateUse1


class ProfilerAction(enum.Enum):
    """Actions of a profiler in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """Return the kinds of activity that are watched: the host."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a function that gives each step its action, for the `schedule` of a profiler.

    After `skip_first` steps come cycles: `wait` steps of nothing, `warmup` steps that are not kept, and `active` steps
    that are recorded.

    Args:
        wait: Number of steps of nothing at the beginning of a cycle.
        warmup: Number of steps that are not kept.
        active: Number of steps that are recorded. At least 1.
        repeat: Number of cycles. `0` is no limit.
        skip_first: Number of steps of nothing before the first cycle.
        skip_first_wait: If not `0`, the first cycle does not wait.

    Raises:
        AssertionError: If a number is out of its range.

    Example:
        >>> import pytpu as torch
        >>> action = torch.profiler.schedule(wait=1, warmup=1, active=2)
        >>> [action(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    def action(step):
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first - (wait if skip_first_wait else 0)
        cycle, step = divmod(step, wait + warmup + active)
        if step < wait or 0 < repeat <= cycle:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < wait + warmup + active - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return a function for `on_trace_ready` that writes each trace to a file.

    Args:
        dir_name: Folder of the files. It is made if it does not exist.
        worker_name: Beginning of the names. `None` is the name of the host and the number of the process.
        use_gzip: If `True`, compress the files.
    """

    def write(prof):
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{ending}"))

    return write


class profile:
    """List the blocks of `record_function` that run within, in all threads.

    With a `schedule`, only steps that are to be recorded are listed, and `step` begins the next step.

    Args:
        activities: Accepted for compatibility. The host is watched.
        schedule: Function that gives each step number a `ProfilerAction`, for example the result of `schedule`.
        on_trace_ready: Function of the profiler, called at the end of each cycle.
        record_shapes: Accepted for compatibility.
        profile_memory: Accepted for compatibility.
        with_stack: Accepted for compatibility.
        with_flops: Accepted for compatibility.
        with_modules: Accepted for compatibility.
        experimental_config: Accepted for compatibility.
        execution_trace_observer: Accepted for compatibility.
        acc_events: If `True`, keep the events of earlier cycles.
        use_cuda: Accepted for compatibility.
        custom_trace_id_callback: Accepted for compatibility.

    Raises:
        TypeError: If an activity is not a `ProfilerActivity`.
        AssertionError: If `activities` is empty.

    Example:
        >>> import pytpu as torch
        >>> with torch.profiler.profile() as prof:
        ...     with torch.profiler.record_function("forward"):
        ...         y = torch.ones(3) * 2
        >>> [event.key for event in prof.key_averages()]
        ['forward']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: TpuProfilerConfig | None = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self.activities = set(supported_activities() if activities is None else activities)
        for activity in self.activities:
            if not isinstance(activity, ProfilerActivity):
                raise TypeError(f"Expected ProfilerActivity or dict, got {type(activity)}")
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        given = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "with_modules": with_modules,
            "experimental_config": experimental_config,
        }
        idle = [name for name, value in given.items() if value]
        if idle:
            _once(
                f"torch.profiler.profile: {', '.join(idle)} {'has' if len(idle) == 1 else 'have'} no effect: the "
                "profiler lists blocks of record_function, and traces neither single ops nor the device."
            )
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.acc_events = acc_events
        self.step_num = 0
        self.current_action = self._action()
        self._collector = self._step = None
        self._is_recording = False
        self._kept = EventList()
        self._metadata: dict[str, Any] = {}

    def _action(self):
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Start the profiler."""
        self._go_on(None, self.current_action)
        self._begin_step()

    def step(self) -> None:
        """Begin the next step."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        self._go_on(before, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """Stop the profiler."""
        self._end_step()
        self._go_on(self.current_action, None)

    def _begin_step(self):
        if self.schedule is not None:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self):
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _go_on(self, before, now):
        if now is not None:
            is_odd = before is ProfilerAction.WARMUP and now is ProfilerAction.NONE
            if is_odd or before is ProfilerAction.RECORD and now not in _RECORDS:
                warnings.warn(f"Incorrect schedule: {before.name} followed by {now.name}", stacklevel=4)
        if before in _RECORDS and (now not in _RECORDS or before is ProfilerAction.RECORD_AND_SAVE):
            if self._collector is None:
                raise AssertionError("Profiler must be initialized before stopping trace")
            if self._is_recording:
                self._collector.stop()
                self._is_recording = False
            if self.on_trace_ready is not None and (now is None or before is ProfilerAction.RECORD_AND_SAVE):
                self.on_trace_ready(self)
        if now in _RECORDS and not self._is_recording:
            if self._collector is not None and self.acc_events:
                self._kept += self._collector.events
            self._collector = Collector()
            self._collector.start()
            self._is_recording = True

    def _events(self, purpose):
        if self._collector is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}")
        return EventList([*self._kept, *self._collector.events])

    def events(self) -> EventList:
        """Return the events of all blocks that ran.

        Raises:
            AssertionError: If no step has been recorded.
        """
        return self._events("accessing events")

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Return the sums of the events of each name.

        Args:
            args: Accepted for compatibility. They are about single ops, which are not listed.
            kwargs: Accepted for compatibility.

        Raises:
            AssertionError: If no step has been recorded.
        """
        return self._events("getting key averages").key_averages()

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace file for `chrome://tracing` and Perfetto.

        Args:
            path: Name of the file. It is compressed if the name ends with `.gz`.

        Raises:
            AssertionError: If no step has been recorded.
        """
        self._events("exporting chrome trace").export_chrome_trace(path, self._metadata)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON text, to the trace."""
        self._metadata[key] = json.loads(value)


__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class DeviceType(enum.Enum):
    """Kinds of devices in profiles, with PyTorch's numbers."""

    CPU, CUDA, MKLDNN, OPENGL, OPENCL, IDEEP, HIP, FPGA, MAIA, XLA, Vulkan, Metal, XPU, MPS, Meta, HPU, VE = range(17)
    Lazy, IPU, MTIA, PrivateUse1 = range(17, 21)


def kineto_available() -> bool:
    """Always return `False`: this build has no Kineto."""
    return False
