"""Samplers and iterators of jobs whose size changes."""

from .cycling_iterator import CyclingIterator
from .elastic_distributed_sampler import ElasticDistributedSampler
