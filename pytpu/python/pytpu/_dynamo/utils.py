"""``torch._dynamo.utils``: the names that libraries use. This package does not trace Python code."""

import collections


def is_compile_supported(device_type):
    """Return whether ``torch.compile`` may be used on a device: always."""
    return True


def is_dynamo_supported():
    """Return ``True``: ``torch.compile`` may be used."""
    return True


#: Counts that the tracer would keep.
counters = collections.defaultdict(collections.Counter)


_warned: set[str] = set()


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Give a warning, unless this process has already given one with the same text."""
    import warnings

    if msg not in _warned:
        _warned.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)
