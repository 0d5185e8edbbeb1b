"""Numbers that agents measure. By default they are dropped; `configure` sets a handler."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "NullMetricHandler",
    "configure",
    "prof",
    "put_metric",
]

_GROUP = "torchelastic"


class MetricData(NamedTuple):
    """A measured number."""

    timestamp: float
    group_name: str
    name: str
    value: int


class MetricHandler(abc.ABC):
    """A receiver of metrics."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Receive a number."""


class ConsoleMetricHandler(MetricHandler):
    """A handler that prints."""

    def emit(self, metric_data: MetricData) -> None:
        """Print the number."""
        timestamp, group, name, value = metric_data
        print(f"[{timestamp}][{group}]: {name}={value}")


class NullMetricHandler(MetricHandler):
    """A handler that drops everything."""

    def emit(self, metric_data: MetricData) -> None:
        """Do nothing."""


# `None` has the handler of the groups that have none of their own.
_handlers: dict[str | None, MetricHandler] = {None: NullMetricHandler()}


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Set the handler of a group.

    Args:
        handler: the receiver.
        group: name of the group. `None` means all groups that have no handler.
    """
    _handlers[group] = handler


def put_metric(metric_name: str, metric_value: int, metric_group: str = _GROUP) -> None:
    """Send a number with the current time.

    Args:
        metric_name: name of the metric.
        metric_value: the number.
        metric_group: name of the group.
    """
    handler = _handlers.get(metric_group, _handlers[None])
    handler.emit(MetricData(time.time(), metric_group, metric_name, metric_value))


@contextmanager
def _measure(name: str, group: str) -> Iterator[None]:
    """Send the duration of a `with` block, and whether it raised."""
    begin = time.perf_counter()
    outcome = "failure"
    try:
        yield
        outcome = "success"
    finally:
        put_metric(f"{name}.{outcome}", 1, group)
        put_metric(f"{name}.duration.ms", int(1000 * (time.perf_counter() - begin)), group)


def prof(fn: Callable[..., Any] | None = None, group: str = _GROUP) -> Callable[..., Any]:
    """Send the duration of each call of a function, and whether the call succeeded. This is a decorator.

    Args:
        fn: the function.
        group: name of the group.
    """
    if fn is None:
        return lambda fn: prof(fn, group)
    name = fn.__qualname__
    if "." not in name:
        # A function outside of a class is named with its module.
        name = f"{fn.__module__.rpartition('.')[2]}.{name}"

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _measure(name, group):
            return fn(*args, **kwargs)

    return call
