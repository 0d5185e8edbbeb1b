"""``torch.ao``: names of quantization."""
