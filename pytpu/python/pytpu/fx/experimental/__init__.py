"""``torch.fx.experimental``: names that libraries use of PyTorch's tracers. Nothing is traced here."""
