"""Flat names of nested state dicts: keys and indices, joined by dots."""

from __future__ import annotations

from typing import Any

from . import _version
from ._traverse import OBJ_PATH, set_element, traverse_state_dict, traverse_state_dict_v_2_3
from .metadata import STATE_DICT_TYPE

FLATTEN_MAPPING = dict[str, OBJ_PATH]


def flatten_state_dict(state_dict: STATE_DICT_TYPE) -> tuple[STATE_DICT_TYPE, FLATTEN_MAPPING]:
    """Return the values of a nested state dict by flat names, and the path of each flat name.

    Raises:
        ValueError: If two values have the same flat name.
    """
    flattened: STATE_DICT_TYPE = {}
    mappings: FLATTEN_MAPPING = {}

    def add(path: OBJ_PATH, value: Any) -> None:
        name = ".".join(map(str, path))
        if name in flattened:
            raise ValueError(f"duplicated flatten key {name}")
        flattened[name] = value
        mappings[name] = path

    traverse = traverse_state_dict_v_2_3 if _version._derived_version == "2_3" else traverse_state_dict
    traverse(state_dict, add)
    return flattened, mappings


def unflatten_state_dict(state_dict: STATE_DICT_TYPE, mapping: FLATTEN_MAPPING) -> STATE_DICT_TYPE:
    """Return the nested state dict for what `flatten_state_dict` returned."""
    nested: STATE_DICT_TYPE = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
