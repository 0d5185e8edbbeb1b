"""Where time goes, as in `torch.profiler`: steps, and blocks of `record_function`. Single ops are not listed."""

import enum
import json
import os
import socket
import time
import warnings

from .autograd.profiler import Collector, EventList, record_function


class ProfilerActivity(enum.Enum):
    """What may be watched; here it is always what the host does."""

    CPU = enum.auto()
    XPU = enum.auto()
    MTIA = enum.auto()
    CUDA = enum.auto()
    HPU = enum.auto()
    PrivateUse1 = enum.auto()
    TPU = PrivateUse1


class ProfilerAction(enum.Enum):
    """What is done in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities():
    """What is watched."""
    return {ProfilerActivity.CPU}


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function that gives steps their actions: `skip_first` steps of nothing, then cycles of `wait`, `warmup` and `active` ones.

    There are `repeat` cycles, or no end where it is 0. The first does not wait if `skip_first_wait`.
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


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """A function for `on_trace_ready` that writes each trace to a file in a folder."""

    def write(prof):
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{ending}"))

    return write


class profile:
    """Lists the blocks of `record_function` that run inside of it, in all threads.

    With a `schedule` it lists those of the steps that are to be recorded, and the steps, which `step` divides; `on_trace_ready` is
    called with the profiler at the end of each cycle. `acc_events` keeps what earlier cycles had. Options about ops have no effect.
    """

    def __init__(
        self,
        *,
        activities=None,
        schedule=None,
        on_trace_ready=None,
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        with_flops=False,
        with_modules=False,
        experimental_config=None,
        execution_trace_observer=None,
        acc_events=False,
        use_cuda=None,
        custom_trace_id_callback=None,
    ):
        self.activities = set(supported_activities() if activities is None else activities)
        for activity in self.activities:
            if not isinstance(activity, ProfilerActivity):
                raise TypeError(f"Expected ProfilerActivity or dict, got {type(activity)}")
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.acc_events = acc_events
        self.step_num = 0
        self.current_action = self._action()
        self._collector = self._step = None
        self._is_recording = False
        self._kept = EventList()
        self._metadata = {}

    def _action(self):
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Begins."""
        self._go_on(None, self.current_action)
        self._begin_step()

    def step(self):
        """Begins the next step."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        self._go_on(before, self.current_action)
        self._begin_step()

    def stop(self):
        """Ends."""
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

    def events(self):
        """The blocks that ran."""
        return self._events("accessing events")

    def key_averages(self, *args, **kwargs):
        """The sums of events of one name. Arguments are about ops, which are not listed."""
        return self._events("getting key averages").key_averages()

    def export_chrome_trace(self, path):
        """Writes a file for `chrome://tracing` and Perfetto; compressed if its name ends with `.gz`."""
        self._events("exporting chrome trace").export_chrome_trace(path, self._metadata)

    def add_metadata(self, key, value):
        """Writes a text into the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key, value):
        """Writes a value, given as JSON, into the trace."""
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


def kineto_available():
    """Whether PyTorch's tracer of devices is there: no, the profiler here is its own."""
    return False
