"""``torch.fx.passes.dialect.common``: passes of all graphs of operators."""
