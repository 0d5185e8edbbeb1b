"""A class that accelerate asks datasets for."""

from ....._absent import absent_class
from ..datapipe import IterDataPipe

ShufflerIterDataPipe = absent_class(
    "torch.utils.data.datapipes.iter.combinatorics.ShufflerIterDataPipe",
    "data pipes other than the base classes are in the package torchdata",
    IterDataPipe,
)
