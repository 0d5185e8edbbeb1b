"""``torch.fx.experimental.proxy_tensor``: nothing is traced here."""

from ..._absent import absent_function


def get_proxy_mode():
    """Return ``None``: no trace is being made."""
    return None


make_fx = absent_function("torch.fx.experimental.proxy_tensor.make_fx", "graphs of Python code are not made here")
