"""``torch.fx.passes.dialect``: passes of one kind of graphs."""
