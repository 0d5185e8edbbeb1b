"""A mode for functions under ``torch.vmap``, which libraries import before they know whether they need it."""


class TransformGetItemToIndex:
    """A context manager of indices that are batched tensors. Entering it raises an error: there is no ``vmap`` here."""

    def __enter__(self):
        raise NotImplementedError("torch.vmap is not supported, nor modes for functions that it runs")

    def __exit__(self, *error):
        return None
