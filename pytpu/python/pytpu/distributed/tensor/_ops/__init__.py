"""``torch.distributed.tensor._ops``: a name of the package that `_view_ops` is in."""
