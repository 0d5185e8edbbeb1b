"""Switches of backends. Those of libraries that are not here can be set, and change nothing."""

from . import _precision, cpu, cuda, cudnn, mha, mkl, mkldnn, mps, nnpack, openmp, opt_einsum
from ._absent import check_booleans

check_booleans(__name__, {"fp32_precision": _precision.attribute("generic", "all")})
