"""``torch.fx.experimental``: what libraries ask of PyTorch's tracers. Nothing is traced here."""
