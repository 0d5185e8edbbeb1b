"""Page-locked memory, which is not needed here."""


def pin_memory(data, device=None):
    """Return the data with its tensors pinned: the same ones."""
    return data
