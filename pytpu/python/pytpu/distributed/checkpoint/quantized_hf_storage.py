"""``torch.distributed.checkpoint.quantized_hf_storage``: a reader of quantized tensors."""

from ..._absent import absent_class

__all__ = ["QuantizedHuggingFaceStorageReader"]

QuantizedHuggingFaceStorageReader = absent_class(
    "torch.distributed.checkpoint.quantized_hf_storage.QuantizedHuggingFaceStorageReader",
    "quantized tensors are not implemented",
)
