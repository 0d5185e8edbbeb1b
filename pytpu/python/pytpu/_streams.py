"""`torch.Stream` and `torch.Event`. Each device has one queue, and computes in its order.

A stream is a name for that queue. Programs may make several streams and choose among them, but their work does not
overlap, so every order that a program needs is kept. On `cpu`, an op has ended when its call returns.
"""

from __future__ import annotations

import itertools
import threading
import time

from . import _C


def _device(device):
    if device is None:
        return _C.device("tpu") if _C._tpu_is_available() else _C.device("cpu")
    if isinstance(device, int):
        return _C.device("tpu", device)
    return _C.device(device)


def _index(device):
    if device.index is not None:
        return device.index
    return 0 if device.type == "cpu" else _C._tpu_current_device()


_ids = itertools.count(1)
# The streams that this thread has chosen, by device type.
_chosen = threading.local()


class Stream:
    """A stream of a device. All streams of a device are one queue.

    As a context manager it is the current stream of its device until the end of the block.

    Args:
        device: a device, its name or its index; the accelerator if it is not given.
        priority: accepted, without an effect.
        stream_id: the number of a stream that was made before. A new stream has a new one; 0 is the default stream.
        device_index, device_type: the device of the stream `stream_id`, as its attributes of these names say it.
    """

    def __init__(
        self,
        device: _C.device | str | int | None = None,
        *,
        priority: int = 0,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
    ) -> None:
        if device is None and device_type is not None:
            device = (
                _C.device("cpu")
                if device_type == 0
                else _C.device("tpu" if device_index is None else f"tpu:{device_index}")
            )
        self.device = _device(device)
        self.device_index = _index(self.device)
        self.device_type = 0 if self.device.type == "cpu" else 1
        self.priority = priority
        if stream_id is None:
            stream_id = 0 if self.device.type == "cpu" else next(_ids)
        self.stream_id = stream_id

    def synchronize(self) -> None:
        """Wait until the device has finished all of its work."""
        if self.device.type == "tpu":
            _C._tpu_synchronize()

    def query(self) -> bool:
        """Return whether the device has finished all of its work, without waiting. Recorded ops are launched."""
        return self.device.type != "tpu" or _C._tpu_record_event(False).is_ready()

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, which is new if none is given, and return it."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Make later work wait for an event.

        The queue already has this order. For an event of another device the host waits.
        """
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Make later work wait for the present work of another stream.

        For a stream of another device the host waits.
        """
        if stream.device.type != self.device.type:
            stream.synchronize()

    def native_handle(self):
        """Return 0: a stream here has no handle."""
        return 0

    def __enter__(self) -> Stream:
        before = current_stream(self.device)
        self.__dict__.setdefault("_before", []).append(before)
        set_stream(self)
        return self

    def __exit__(self, *error: object) -> None:
        set_stream(self._before.pop())
        return None

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.device.type, self.stream_id) == (other.device.type, other.stream_id)

    def __hash__(self):
        return hash((self.device.type, self.stream_id))

    def __repr__(self):
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id={self.stream_id}"
        )


class Event:
    """A point in the queue of a device.

    On `tpu`, `record` launches the recorded ops of this thread. The event is completed when all programs that were
    launched before have ended. Its time is the end of the last one, or the time of `record` if none was running.

    Args:
        device: a device, its name or its index; the accelerator if it is not given.
        enable_timing: whether `elapsed_time` may be asked.
        blocking, interprocess: accepted, without an effect.

    Example:
        >>> import pytpu as torch
        >>> x = torch.ones(2, 2)
        >>> start, end = torch.Event(enable_timing=True), torch.Event(enable_timing=True)
        >>> start.record()
        >>> y = x @ x
        >>> end.record()
        >>> end.synchronize()
        >>> milliseconds = start.elapsed_time(end)
    """

    def __init__(
        self,
        device: _C.device | str | int | None = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _device(device)
        self._timed = enable_timing
        # The point: one of the engine's on `tpu`, seconds on `cpu`.
        self._point = None
        self.event_id = 0

    def record(self, stream: Stream | None = None) -> None:
        """Mark this point of the queue. An event can be recorded again, and the last time counts.

        Raises:
            RuntimeError: `stream` belongs to another kind of device.
        """
        if stream is not None and stream.device.type != self.device.type:
            raise RuntimeError(
                f"Event device type {self.device.type.upper()} does not match recording stream's device type "
                f"{stream.device.type.upper()}."
            )
        self._point = _C._tpu_record_event(self._timed) if self.device.type == "tpu" else time.perf_counter()
        self.event_id += 1

    def synchronize(self):
        """Wait until the event is completed. Return at once if it was never recorded.

        Raises:
            RuntimeError: a program before it failed.
        """
        if self._point is not None and self.device.type == "tpu":
            self._point.wait()

    def query(self):
        """Return whether the event is completed, without waiting. An event that was never recorded is completed."""
        return self._point is None or self.device.type != "tpu" or self._point.is_ready()

    def wait(self, stream: Stream | None = None) -> None:
        """Make later work in `stream` wait for this point. The default is the current stream.

        A stream of the event's device needs nothing: the queue is in order. For a stream of another device the host
        waits.
        """
        if stream is not None and stream.device.type != self.device.type:
            self.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between this event and a later one.

        Raises:
            ValueError: one of them has no timing, or was not recorded.
            RuntimeError: one of them is not completed, or they belong to different devices.
        """
        if not self._timed or not end_event._timed:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._point is None or end_event._point is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if self.device.type != end_event.device.type:
            raise RuntimeError(
                f"Event device type {self.device.type.upper()} does not match other's device type "
                f"{end_event.device.type.upper()}."
            )
        if not self.query() or not end_event.query():
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        if self.device.type == "tpu":
            return self._point.milliseconds_until(end_event._point)
        return (end_event._point - self._point) * 1e3

    def ipc_handle(self):
        """Raise `NotImplementedError`: events cannot be sent to other processes."""
        raise NotImplementedError("torch.Event.ipc_handle: events cannot be sent to other processes")

    def __repr__(self):
        return (
            f"torch.Event device_type={self.device.type}, device_index={_index(self.device)}, "
            f"event_flag={int(self._timed)}, event_id={self.event_id}"
        )


def default_stream(device: _C.device | str | int | None = None) -> Stream:
    """Return the default stream of a device."""
    return Stream(device, stream_id=0)


def current_stream(device: _C.device | str | int | None = None) -> Stream:
    """Return the stream of a device that this thread has chosen."""
    device = _device(device)
    return getattr(_chosen, device.type, None) or default_stream(device)


def set_stream(stream: Stream) -> None:
    """Choose the current stream of its device for this thread."""
    if not isinstance(stream, Stream):
        raise TypeError(f"expected a torch.Stream, but got {type(stream).__name__}")
    setattr(_chosen, stream.device.type, stream)
