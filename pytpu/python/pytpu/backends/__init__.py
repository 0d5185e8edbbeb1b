"""Switches of backends. Switches of absent libraries can be set, and change nothing."""

import contextlib

from . import _precision, cpu, cuda, cudnn, mha, mkl, mkldnn, mps, nnpack, openmp, opt_einsum, tpu
from ._absent import check_booleans


def flags_frozen():
    """Return whether only context managers can set flags, which is never so."""
    return False


@contextlib.contextmanager
def __allow_nonbracketed_mutation():
    """Context manager in which flags can be set, as they can be everywhere."""
    yield


check_booleans(__name__, {"fp32_precision": _precision.attribute("generic", "all")})
