"""Switches of cuDNN, which is absent."""

from . import _precision
from ._absent import check_booleans, during, is_available, linked, setter  # noqa: F401

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
conv = linked(fp32_precision=_precision.attribute("cuda", "conv"))({})
rnn = linked(fp32_precision=_precision.attribute("cuda", "rnn"))({})
_set = setter(__name__, ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32"))
check_booleans(
    __name__,
    {
        "allow_tf32": property(
            lambda _: _precision.cudnn_allows_tf32(), lambda _, allowed: _precision.allow_cudnn_tf32(allowed)
        ),
        "fp32_precision": _precision.attribute("cuda", "all"),
    },
    enabled="set_enabled_cudnn",
    benchmark="set_benchmark_cudnn",
    deterministic="set_deterministic_cudnn",
    allow_tf32="set_allow_tf32_cublas",
)


def set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None):
    """Set the values that are given, and return the old ones."""
    return _set(_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)


def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True):
    """Context manager that sets all flags. A flag that is not given is off."""
    return during(set_flags, enabled, benchmark, benchmark_limit, deterministic, allow_tf32)


def version():
    """There is none."""
    return None


def is_acceptable(tensor):
    """Return `False`: cuDNN is not available."""
    return False
