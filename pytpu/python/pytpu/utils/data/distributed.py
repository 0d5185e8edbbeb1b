"""The sampler of a process among several, under PyTorch's older name for its module."""

from .sampler import DistributedSampler  # noqa: F401
