"""`torch._subclasses.meta_utils`: a question that tensordict asks."""


def is_sparse_any(t):
    """Return whether a tensor is sparse."""
    return t.is_sparse or t.is_sparse_csr


def is_sparse_compressed(t):
    """Return `False`: there are no compressed sparse tensors."""
    return False
