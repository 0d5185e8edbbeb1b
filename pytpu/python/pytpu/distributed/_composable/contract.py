"""`contract`: a decorator of functions that change modules in place."""

from __future__ import annotations

import functools

from ...nn import Module
from .._composable_state import _State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

#: Attributes of modules: the states of such functions by the functions, and what was applied by their names.
STATE_KEY = "__composable_api_state_key"
REGISTRY_KEY = "__composable_api_registry_key"


class RegistryItem:
    """A mark that a function was applied to a module."""


def _roots(modules: Sequence[Module]) -> list[Module]:
    """Return the modules that no other one of them contains."""
    given = list(dict.fromkeys(modules))
    below = {id(each) for module in given for each in module.modules() if each is not module}
    return [module for module in given if id(module) not in below]


def _as_list(given: Module | Sequence[Module]) -> list[Module]:
    return [given] if isinstance(given, Module) else _roots(given)


def _names(module: Module) -> dict[str, list[str]]:
    return {
        "Checking parameters: ": [name for name, _ in module.named_parameters()],
        "Checking buffers: ": [name for name, _ in module.named_buffers()],
        "Checking modules: ": [name for name, _ in module.named_modules()],
    }


def _check_names(before: dict[str, list[str]], after: dict[str, list[str]]) -> None:
    for kind, old in before.items():
        new = after[kind]
        if old == new:
            continue
        lost, added = set(old) - set(new), set(new) - set(old)
        if lost or added:
            raise RuntimeError(
                f"{kind}Composable distributed API implementations cannot modify FQNs.\n"
                f"FQNs only in original: {lost}\nFQNs only in new: {added}"
            )
        raise RuntimeError(
            f"{kind}Composable distributed API implementations cannot modify the order of FQNs.\n"
            f"Original FQNs: {old}\nNew FQNs: {new}"
        )


def contract(state_cls: type[_State] = _State) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator of a function that changes a module in place, such as `fully_shard`.

    The first argument of the function is a module, or a sequence of modules. It can be applied to a module once, and
    must keep the names of parameters, buffers and modules. It may return other modules, or `None`.

    The function gets a method `state(module)`, which returns the state of a module, or `None`. Modules that are
    passed together share one.

    Args:
        state_cls: the class of states. It is called without arguments.

    Example::

        @contract()
        def feature(module):
            feature.state(module).is_on = True
            return module
    """

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def wrapper(module: Module | Sequence[Module], *args: Any, **kwargs: Any) -> Any:
            modules, state, item = _as_list(module), state_cls(), RegistryItem()
            for each in modules:
                states = each.__dict__.setdefault(STATE_KEY, {})
                registry = each.__dict__.setdefault(REGISTRY_KEY, {})
                if function in states or function.__name__ in registry:
                    raise AssertionError(
                        "Each distinct composable distributed API can only be applied to a module once. "
                        f"{function.__name__} has already been applied to the following module:\n{each}"
                    )
                states[function], registry[function.__name__] = state, item
            before = [_names(each) for each in modules]
            updated = function(module, *args, **kwargs)
            updated = module if updated is None else updated
            after = [_names(each) for each in _as_list(updated)]
            if len(before) != len(after):
                raise AssertionError(
                    f"{function.__name__} should return the same number of modules as input modules"
                    f"Inputs: {len(before)} modules\nOutputs: {len(after)} modules"
                )
            for old, new in zip(before, after):
                _check_names(old, new)
            return updated

        def state(module: Module) -> _State | None:
            found: _State | None = module.__dict__.setdefault(STATE_KEY, {}).get(function)
            return found

        applied: Any = wrapper
        applied.state = state
        return applied

    return decorate


def _get_registry(module: Module) -> dict[str, RegistryItem] | None:
    """Return what was applied to a module, by the names of the functions; `None` if nothing was."""
    return getattr(module, REGISTRY_KEY, None)
