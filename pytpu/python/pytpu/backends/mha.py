"""The fast path of ``nn.TransformerEncoder``: layers here are computed in one way, which the switch leaves alone."""

_is_fastpath_enabled = True


def get_fastpath_enabled():
    """Return the setting, which is `True` at first."""
    return _is_fastpath_enabled


def set_fastpath_enabled(value):
    """Notes it."""
    global _is_fastpath_enabled
    _is_fastpath_enabled = value
