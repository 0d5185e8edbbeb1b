"""``torch.sparse.semi_structured``: names that libraries import."""

from . import (
    SparseSemiStructuredTensor as SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT as SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS as SparseSemiStructuredTensorCUTLASS,
)
