"""Conversions of sizes, and names of state dicts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


def _ntuple(n, name="parse"):
    def parse(x):
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t, n):
    """Return the elements in reverse order, each `n` times, as `pad` takes paddings."""
    return tuple(chain.from_iterable(repeat(x, n) for x in reversed(t)))


def _list_with_default(out_size, defaults):
    """Return `out_size` with each `None` replaced by the size at the same place from the end of `defaults`."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix from the names in a state dict, in place.

    The names in its metadata change too.

    Args:
        state_dict: State dict, as `Module.state_dict` returns it.
        prefix: Text to remove from the names that begin with it.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.modules.utils import consume_prefix_in_state_dict_if_present
        >>> state = {"module.weight": torch.ones(1), "step": torch.ones(1)}
        >>> consume_prefix_in_state_dict_if_present(state, "module.")
        >>> sorted(state)
        ['step', 'weight']
    """
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[name.removeprefix(prefix)] = state_dict.pop(name)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for name in list(metadata):
            # The name of the module itself has no dot at its end.
            if name and name == prefix.rstrip("."):
                metadata[""] = metadata.pop(name)
            elif name.startswith(prefix):
                metadata[name.removeprefix(prefix)] = metadata.pop(name)
