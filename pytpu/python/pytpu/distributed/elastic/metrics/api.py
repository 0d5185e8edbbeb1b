"""Handlers of metrics, and functions that send to them."""

from __future__ import annotations

import abc
import time
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "MetricsConfig",
    "NullMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]


class MetricData(NamedTuple):
    """A measured number."""

    timestamp: float
    group_name: str
    name: str
    value: int


class MetricsConfig:
    """Settings of metrics.

    Args:
        params: names and values.
    """

    __slots__ = ["params"]

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = params if params is not None else {}


class MetricHandler(abc.ABC):
    """A receiver of metrics."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Receive a number."""


class ConsoleMetricHandler(MetricHandler):
    """A handler that prints."""

    def emit(self, metric_data: MetricData) -> None:
        """Print the number."""
        print(f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}")


class NullMetricHandler(MetricHandler):
    """A handler that drops everything."""

    def emit(self, metric_data: MetricData) -> None:
        """Do nothing."""


class MetricStream:
    """Metrics of one group.

    Args:
        group_name: name of the group.
        handler: the receiver.
    """

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name = group_name
        self.handler = handler

    def add_value(self, metric_name: str, metric_value: int) -> None:
        """Send a number with the current time."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_handlers: dict[str, MetricHandler] = {}
_default_handler: MetricHandler = NullMetricHandler()


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Set the handler of a group.

    Args:
        handler: the receiver.
        group: name of the group. `None` means all groups that have no handler.
    """
    global _default_handler
    if group is None:
        _default_handler = handler
    else:
        _handlers[group] = handler


def getStream(group: str) -> MetricStream:
    """Return the stream of a group."""
    return MetricStream(group, _handlers.get(group, _default_handler))


def put_metric(metric_name: str, metric_value: int, metric_group: str = "torchelastic") -> None:
    """Send a number.

    Args:
        metric_name: name of the metric.
        metric_value: the number.
        metric_group: name of the group.
    """
    getStream(metric_group).add_value(metric_name, metric_value)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Return the milliseconds since ``start_time_in_seconds``, a value of ``time.time()``."""
    return int((time.time() - start_time_in_seconds) * 1000)


def _get_metric_name(fn: Callable[..., Any]) -> str:
    """Return the qualified name, or the module and the name of a function that is not in a class."""
    if "." in fn.__qualname__ or not fn.__module__:
        return fn.__qualname__
    return f"{fn.__module__.rpartition('.')[2]}.{fn.__qualname__}"


def _measured(fn, name, group):
    @wraps(fn)
    def call(*args, **kwargs):
        begin = time.time()
        outcome = "failure"
        try:
            result = fn(*args, **kwargs)
            outcome = "success"
            return result
        finally:
            put_metric(f"{name}.{outcome}", 1, group)
            put_metric(f"{name}.duration.ms", get_elapsed_time_ms(begin), group)

    return call


def prof(fn: Callable[..., Any] | None = None, group: str = "torchelastic") -> Callable[..., Any]:
    """Send the duration of each call of a function, and whether the call succeeded. This is a decorator.

    Args:
        fn: the function.
        group: name of the group.
    """
    if fn is None:
        return lambda fn: prof(fn, group)
    return _measured(fn, _get_metric_name(fn), group)


def profile(group: str = "torchelastic") -> Callable[..., Any]:
    """Do as `prof`, with the function's own name. Deprecated."""
    warnings.warn("Deprecated, use `@prof` instead", FutureWarning, stacklevel=2)
    return lambda fn: _measured(fn, fn.__name__, group)


def publish_metric(metric_group: str, metric_name: str, metric_value: int) -> None:
    """Do as `put_metric`. Deprecated."""
    warnings.warn(
        "Deprecated, use `put_metric(metric_group)(metric_name, metric_value)` instead", FutureWarning, stacklevel=2
    )
    put_metric(metric_name, metric_value, metric_group)
