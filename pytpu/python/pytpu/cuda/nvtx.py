"""NVTX, which is absent: marks raise errors, as in PyTorch without CUDA."""

from contextlib import contextmanager

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(*args):
    """Raise `RuntimeError`."""
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


range_pop = range_start = range_end = mark = range_push


@contextmanager
def range(msg, *args, **kwargs):
    """Raise `RuntimeError` when entered."""
    range_push(msg)
    yield
