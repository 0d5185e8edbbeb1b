"""`torch.distributed._composable_state`: the state that a function such as `fully_shard` keeps for a module."""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..nn import Module


class _State:
    """A base class of such states."""


_module_states: weakref.WeakKeyDictionary[Module, weakref.ref[_State]] = weakref.WeakKeyDictionary()


def _insert_module_state(module: Module, state: _State) -> None:
    """Make `state` that of a module, which has none yet."""
    if module in _module_states:
        raise AssertionError(f"Inserting {state} more than once.")
    _module_states[module] = weakref.ref(state)


def _get_module_state(module: Module) -> _State | None:
    """Return the state of a module, or `None`. A module may be its own state."""
    if isinstance(module, _State):
        return module
    found = _module_states.get(module)
    return None if found is None else found()
