"""Numbers that agents measure. By default they are dropped; `configure` sets a handler."""

from __future__ import annotations

from .api import (
    ConsoleMetricHandler,
    MetricData,
    MetricHandler,
    MetricsConfig,
    MetricStream,
    NullMetricHandler,
    configure,
    get_elapsed_time_ms,
    getStream,
    prof,
    profile,
    publish_metric,
    put_metric,
)


def initialize_metrics(cfg: MetricsConfig | None = None) -> None:
    """Do nothing: handlers are set by `configure`."""
