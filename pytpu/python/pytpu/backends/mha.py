"""The fast path of `nn.TransformerEncoder`. The switch has no effect: layers have only one implementation here."""

_is_fastpath_enabled = True


def get_fastpath_enabled():
    """Return the setting, which is `True` at first."""
    return _is_fastpath_enabled


def set_fastpath_enabled(value):
    """Notes it."""
    global _is_fastpath_enabled
    _is_fastpath_enabled = value
