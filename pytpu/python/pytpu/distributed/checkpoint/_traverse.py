"""Walks over nested state dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytpu as torch

from ._pieces import pieces_of
from .metadata import STATE_DICT_TYPE

PATH_ITEM = str | int
OBJ_PATH = tuple[PATH_ITEM, ...]
STATE_DICT_ITEM = object

__all__ = ["get_element", "print_tensor", "set_element", "traverse_state_dict"]


def _is_tensor(value: object) -> bool:
    return pieces_of(value) is not None


def traverse_state_dict(
    state_dict: STATE_DICT_TYPE,
    visitor: Callable[[OBJ_PATH, Any], None],
    keep_traversing: Callable[[Any], bool] = _is_tensor,
) -> None:
    """Call `visitor(path, value)` for each value of a nested state dict.

    Mappings are always entered. A list is entered if it holds a mapping or a value for which `keep_traversing` is true,
    at any depth. Other lists are values.
    """

    def is_value(x: Any) -> bool:
        if isinstance(x, Mapping):
            return False
        if not isinstance(x, list):
            return True
        return not any(keep_traversing(e) or (isinstance(e, (Mapping, list)) and not is_value(e)) for e in x)

    _walk(state_dict, visitor, is_value)


def traverse_by_old_rules(
    state_dict: STATE_DICT_TYPE,
    visitor: Callable[[OBJ_PATH, Any], None],
    keep_traversing: Callable[[Any], bool] = _is_tensor,
) -> None:
    """Walk as PyTorch 2.3 did: mappings, too, are entered only if they hold a tensor at some depth."""

    def is_value(x: Any) -> bool:
        if not isinstance(x, (Mapping, list)):
            return True
        entries = x.values() if isinstance(x, Mapping) else x
        return not any(keep_traversing(e) or (isinstance(e, (Mapping, list)) and not is_value(e)) for e in entries)

    _walk(state_dict, visitor, is_value)


def _walk(
    state_dict: STATE_DICT_TYPE, visitor: Callable[[OBJ_PATH, Any], None], is_value: Callable[[Any], bool]
) -> None:
    def visit(path: OBJ_PATH, x: Any) -> None:
        if is_value(x):
            visitor(path, x)
            return
        pairs = ((str(k), v) for k, v in x.items()) if isinstance(x, Mapping) else enumerate(x)
        for key, item in pairs:
            visit((*path, key), item)

    for key, value in state_dict.items():
        visit((str(key),), value)


def set_element(root_dict: STATE_DICT_TYPE, path: OBJ_PATH, value: object) -> None:
    """Set a value of a nested state dict. Dicts and lists on the way are made where they are missing.

    Args:
        root_dict: The state dict.
        path: A string for each dict and an int for each list on the way.
        value: The value.
    """

    def put(container: Any, key: PATH_ITEM, item: object) -> None:
        if isinstance(key, int) and not isinstance(container, Mapping):
            container.extend([None] * (key + 1 - len(container)))
        container[key] = item

    container: Any = root_dict
    for key, following in zip(path, path[1:], strict=False):
        if isinstance(key, int) and not isinstance(container, Mapping):
            is_missing = len(container) <= key or container[key] is None
        else:
            is_missing = key not in container
        if is_missing:
            put(container, key, {} if isinstance(following, str) else [])
        container = container[key]
    put(container, path[-1], value)


def get_element(root_dict: STATE_DICT_TYPE, path: OBJ_PATH, default_value: Any = None) -> Any:
    """Return a value of a nested state dict, or `default_value` if there is none at this path."""
    value: Any = root_dict
    for key in path:
        kind: Any = list if isinstance(key, int) else Mapping
        if not isinstance(value, kind):
            return default_value
        try:
            value = value[key]
        except (KeyError, IndexError):
            return default_value
    return value


def print_tensor(path: OBJ_PATH, value: object, print_fun: Callable[[str], None] = print) -> None:
    """Print the size of a tensor, or the type of another value, with its path."""
    if isinstance(value, torch.Tensor):
        print_fun(f"{path} Tensor size: {value.size()}")
    else:
        print_fun(f"{path} Type: {type(value)}")
