"""``torch.Stream`` and ``torch.Event``. A device computes in the order of the calls here: there is one stream on each.

On ``cpu`` ops have ended when their call returns. On ``tpu`` an event that is recorded launches what was recorded before it.
"""

import time

from . import _C


def _device(device):
    if device is None:
        return _C.device("tpu") if _C._tpu_is_available() else _C.device("cpu")
    if isinstance(device, int):
        return _C.device("tpu", device)
    return _C.device(device)


class Stream:
    """The stream of a device.

    Args:
        device: a device, its name or its index; the accelerator if it is not given.
        priority: accepted, without an effect.
    """

    def __init__(self, device=None, *, priority=0, stream_id=0, device_index=None, device_type=None):
        self.device = _device(device)
        self.device_index = self.device.index or 0
        self.device_type = 0 if self.device.type == "cpu" else 1
        self.stream_id = 0

    def synchronize(self):
        """Wait until the device has done everything that it was given."""
        if self.device.type == "tpu":
            _C._tpu_synchronize()

    def query(self):
        """Return whether the device has done everything. Waits for it on ``tpu``."""
        self.synchronize()
        return True

    def record_event(self, event=None):
        """Record an event and return it."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        """Have what follows wait for an event. Streams are in order, so nothing is to be done."""

    def wait_stream(self, stream):
        """Have what follows wait for another stream: for one of another device the host waits."""
        if stream.device != self.device:
            stream.synchronize()

    def native_handle(self):
        """Return 0: a stream here has no handle."""
        return 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def __eq__(self, other):
        return isinstance(other, Stream) and self.device.type == other.device.type

    def __hash__(self):
        return hash(self.device.type)

    def __repr__(self):
        return f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id=0"


class Event:
    """A point in the stream of a device.

    Args:
        device: a device, its name or its index; the accelerator if it is not given.
        enable_timing: whether ``elapsed_time`` may be asked. Then ``record`` waits for the device, so that its time is exact.
        blocking, interprocess: accepted, without an effect.

    Example:
        >>> start, end = torch.Event(enable_timing=True), torch.Event(enable_timing=True)
        >>> start.record(); y = x @ x; end.record()
        >>> milliseconds = start.elapsed_time(end)
    """

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self.device = _device(device)
        self._timed, self._time = enable_timing, None
        self.event_id = 0

    def record(self, stream=None):
        """Mark this point of the stream."""
        if self.device.type == "tpu":
            _C._tpu_synchronize() if self._timed else _C._tpu_mark_step()
        self._time = time.perf_counter()

    def synchronize(self):
        """Wait until the device has come to this point."""
        if self.device.type == "tpu" and self._time is not None and not self._timed:
            _C._tpu_synchronize()

    def query(self):
        """Return whether the device has come to this point. Waits for it on ``tpu``."""
        self.synchronize()
        return True

    def wait(self, stream=None):
        """Have what follows in a stream wait for this point. Streams are in order, so nothing is to be done."""

    def elapsed_time(self, end_event):
        """Return the milliseconds between this event and a later one."""
        if not self._timed or not end_event._timed:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or end_event._time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._time - self._time) * 1e3

    def __repr__(self):
        return f"torch.Event device_type={self.device.type}, device_index={self.device.index or 0}, event_flag={int(self._timed)}"


def current_stream(device=None):
    """Return the stream of a device, the only one that it has."""
    return Stream(device)


def set_stream(stream):
    """Choose a stream: each device has only one, so nothing is to be done."""
