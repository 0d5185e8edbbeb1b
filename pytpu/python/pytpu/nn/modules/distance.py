"""`CosineSimilarity` and `PairwiseDistance`, under PyTorch's name for the module."""

from .shape import CosineSimilarity, PairwiseDistance

__all__ = ["CosineSimilarity", "PairwiseDistance"]
