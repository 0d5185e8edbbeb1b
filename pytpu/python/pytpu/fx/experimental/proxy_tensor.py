"""``torch.fx.experimental.proxy_tensor``: names of PyTorch's tracer of operators, which is not there."""

from ..._absent import absent_function


def get_proxy_mode():
    """Return ``None``: no trace of operators is made."""
    return None


make_fx = absent_function(
    "torch.fx.experimental.proxy_tensor.make_fx",
    "graphs of operators are not made here. torch.fx.symbolic_trace makes graphs of modules and functions",
)
