"""``torch.ao.nn``: quantized modules are not part of this package."""
