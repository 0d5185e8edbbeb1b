"""Orders of contraction: `torch.einsum` of three or more operands asks the package opt_einsum, where it is installed.

As in PyTorch, values that are assigned to `enabled` and `strategy` are not checked, and those of `set_flags` are.
"""

import functools
import importlib.util
from contextlib import contextmanager


@functools.lru_cache
def is_available() -> bool:
    """Return whether the package opt_einsum is installed."""
    return importlib.util.find_spec("opt_einsum") is not None


def get_opt_einsum():
    """Return the package opt_einsum, or `None` where it is not installed. The first call imports it."""
    if not is_available():
        return None
    import opt_einsum

    return opt_einsum


#: Whether `torch.einsum` asks the package for an order.
enabled = is_available()
#: How the package looks for an order. `None` where it is not installed.
strategy = "auto" if is_available() else None


def order(equation, operands):
    """Return the flat list of pairs in whose order `torch.einsum` contracts, or `None` for left to right."""
    if not (enabled and is_available()):
        return None
    shapes = [tuple(x.shape) for x in operands]
    try:
        pairs, _ = get_opt_einsum().contract_path(equation, *shapes, shapes=True, optimize=strategy)
    except (ValueError, KeyError):
        # A wrong equation. `torch.einsum` refuses it in PyTorch's words.
        return None
    return [place for pair in pairs for place in pair]


def _check(_enabled, _strategy):
    """Refuse switches that would have no effect."""
    if _enabled and not is_available():
        raise ValueError(
            f"opt_einsum is not available, so setting `enabled` to {_enabled} will not reap the benefits of "
            "calculating an optimal path for einsum. torch.einsum will fall back to contracting from left to "
            "right. To enable this optimal path calculation, please install opt-einsum."
        )
    if _strategy is None:
        return
    if not is_available():
        raise ValueError(
            f"opt_einsum is not available, so setting `strategy` to {_strategy} will not be meaningful. torch.einsum "
            "will bypass path calculation and simply contract from left to right. Please install opt_einsum or unset "
            "`strategy`."
        )
    if not (enabled if _enabled is None else _enabled):
        raise ValueError(
            f"opt_einsum is not enabled, so setting a `strategy` to {_strategy} will not be meaningful. torch.einsum "
            "will bypass path calculation and simply contract from left to right. Please set `enabled` to `True` as "
            "well or unset `strategy`."
        )
    if _strategy not in ("auto", "greedy", "optimal"):
        raise ValueError(f"`strategy` must be one of the following: [auto, greedy, optimal] but is {_strategy}")


def set_flags(_enabled=None, _strategy=None):
    """Set the switches that are not `None`, and return the old values.

    Raises:
        ValueError: For a value that would have no effect. Nothing is set then.
    """
    global enabled, strategy
    _check(_enabled, _strategy)
    before = (enabled, strategy)
    if _enabled is not None:
        enabled = _enabled
    if _strategy is not None:
        strategy = _strategy
    return before


@contextmanager
def flags(enabled=None, strategy=None):
    """Context manager that sets the switches."""
    before = set_flags(enabled, strategy)
    try:
        yield
    finally:
        # Unchecked: the old strategy may have no effect with the old `enabled`.
        globals().update(enabled=before[0], strategy=before[1])
