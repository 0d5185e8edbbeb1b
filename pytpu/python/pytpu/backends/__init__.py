"""Switches of backends. Those of libraries that are not here can be set, and change nothing."""

import contextlib

from . import _precision, cpu, cuda, cudnn, mha, mkl, mkldnn, mps, nnpack, openmp, opt_einsum, tpu
from ._absent import check_booleans


def flags_frozen():
    """Return whether flags can be set by context managers only: never."""
    return False


@contextlib.contextmanager
def __allow_nonbracketed_mutation():
    """Let flags be set inside, as they can be everywhere."""
    yield


check_booleans(__name__, {"fp32_precision": _precision.attribute("generic", "all")})
