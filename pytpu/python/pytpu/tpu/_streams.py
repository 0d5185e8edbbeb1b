"""Streams and events of device `tpu`, with the arguments of `torch.cuda.Stream` and `torch.cuda.Event`."""

from __future__ import annotations

from .. import _streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytpu import device as Device


class Stream(_streams.Stream):
    """A stream of device `tpu`. All streams of a device share one queue. See `torch.Stream`.

    Args:
        device: Device, or its name or index. `None` is `tpu`.
        priority: Accepted for compatibility.
        options: Further arguments of `torch.Stream`.
    """

    def __init__(self, device: Device | str | int | None = None, priority: int = 0, **options: Any) -> None:
        super().__init__("tpu" if device is None else device, priority=priority, **options)

    def record_event(self, event: Any = None) -> Any:
        """Record an event in the stream, and return it.

        Args:
            event: The event. `None` makes a new one.
        """
        return super().record_event(Event() if event is None else event)


class Event(_streams.Event):
    """A point in the queue of device `tpu`. See `torch.Event`.

    Args:
        enable_timing: If `True`, `elapsed_time` can be used.
        blocking: Accepted for compatibility.
        interprocess: Accepted for compatibility.
        external: Accepted for compatibility.
        device: Device, or its name or index. `None` is `tpu`.
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
        device: Device | str | int | None = None,
    ) -> None:
        super().__init__("tpu" if device is None else device, enable_timing=enable_timing)
