"""`torch._logging`: levels of PyTorch's loggers."""

from ._internal import (
    getArtifactLogger as getArtifactLogger,
    set_logs as set_logs,
    trace_structured as trace_structured,
)
