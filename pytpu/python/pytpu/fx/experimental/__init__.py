"""``torch.fx.experimental``: passes and tracers that PyTorch may change."""
