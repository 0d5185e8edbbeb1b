"""Streams and events of device ``tpu``, with the arguments of ``torch.cuda.Stream`` and ``torch.cuda.Event``."""

from .. import _streams


class Stream(_streams.Stream):
    """A stream of device ``tpu``. All streams of a device are one queue; see ``torch.Stream``.

    Args:
        device: the device, its name or its index; ``tpu`` if it is not given.
        priority: accepted, without an effect.
        options: see ``torch.Stream``.
    """

    def __init__(self, device=None, priority=0, **options):
        super().__init__("tpu" if device is None else device, priority=priority, **options)

    def record_event(self, event=None):
        """Record an event, or a new one, and return it."""
        return super().record_event(Event() if event is None else event)


class Event(_streams.Event):
    """A point in the queue of device ``tpu``; see ``torch.Event``.

    Args:
        enable_timing: whether ``elapsed_time`` may be asked.
        blocking, interprocess, external: accepted, without an effect.
        device: the device; ``tpu`` if it is not given.
    """

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False, device=None):
        super().__init__("tpu" if device is None else device, enable_timing=enable_timing)
