"""A mode for functions under ``torch.vmap``, which libraries import before they know whether they need it."""


class TransformGetItemToIndex:
    """Lets indices be batched tensors in a block: there is no ``vmap`` here, and entering the block says so."""

    def __enter__(self):
        raise NotImplementedError("torch.vmap is not supported, nor modes for functions that it runs")

    def __exit__(self, *error):
        return None
