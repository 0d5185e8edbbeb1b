"""`torch.sparse`: names that libraries import. Sparse tensors are not there yet, see `Tensor.to_sparse`."""

from .._absent import absent_class

_WHY = "sparse tensors are not there. Use dense tensors. See docs/not-there.md#sparse-tensors"
SparseSemiStructuredTensor = absent_class("torch.sparse.SparseSemiStructuredTensor", _WHY)
SparseSemiStructuredTensorCUTLASS = absent_class(
    "torch.sparse.SparseSemiStructuredTensorCUTLASS", _WHY, SparseSemiStructuredTensor
)
SparseSemiStructuredTensorCUSPARSELT = absent_class(
    "torch.sparse.SparseSemiStructuredTensorCUSPARSELT", _WHY, SparseSemiStructuredTensor
)
