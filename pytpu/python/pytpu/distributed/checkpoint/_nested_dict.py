"""Flat names of nested state dicts: keys and indices, joined by dots."""

from __future__ import annotations

from typing import Any

from ._traverse import OBJ_PATH, set_element, traverse_by_old_rules, traverse_state_dict
from .metadata import STATE_DICT_TYPE

FLATTEN_MAPPING = dict[str, OBJ_PATH]


def flatten_state_dict(
    state_dict: STATE_DICT_TYPE, has_old_rules: bool = False
) -> tuple[STATE_DICT_TYPE, FLATTEN_MAPPING]:
    """Return the values of a nested state dict by flat names, and the path of each flat name.

    Args:
        state_dict: The nested state dict.
        has_old_rules: Whether dicts without tensors are single values, as in PyTorch 2.3.

    Raises:
        ValueError: If two values have the same flat name.
    """
    found: list[tuple[OBJ_PATH, Any]] = []
    walk = traverse_by_old_rules if has_old_rules else traverse_state_dict
    walk(state_dict, lambda path, value: found.append((path, value)))
    values: STATE_DICT_TYPE = {}
    paths: FLATTEN_MAPPING = {}
    for path, value in found:
        name = ".".join(str(key) for key in path)
        if name in values:
            raise ValueError(f"duplicated flatten key {name}")
        values[name], paths[name] = value, path
    return values, paths


def unflatten_state_dict(state_dict: STATE_DICT_TYPE, mapping: FLATTEN_MAPPING) -> STATE_DICT_TYPE:
    """Return the nested state dict for what `flatten_state_dict` returned."""
    nested: STATE_DICT_TYPE = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
