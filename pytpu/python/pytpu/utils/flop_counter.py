"""``torch.utils.flop_counter``: a name that libraries import; operations of a block are not counted here yet."""

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """Raises ``NotImplementedError`` when it is made."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        raise NotImplementedError("counting floating-point operations is not supported")
