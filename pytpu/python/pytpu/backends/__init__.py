"""Switches of backends. Those of libraries that are not here can be set, and change nothing."""

from . import cpu, cuda, cudnn, mha, mkl, mkldnn, mps, nnpack, openmp, opt_einsum
