"""Names of values in generated code."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from typing import Any, NamedTuple

import pytpu as torch

from ..utils import _pytree as pytree
from . import _pytree as fx_pytree


class _CustomBuiltin(NamedTuple):
    """A name that all generated code can use: the statement that makes it, and its value."""

    import_str: str
    obj: Any


_custom_builtins: dict[str, _CustomBuiltin] = {}


# Names that values cannot have, and the only objects that can.
_illegal_names: dict[str, Any] = {**{word: object() for word in keyword.kwlist}, **vars(builtins)}


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)
    _illegal_names[name] = obj


_register_custom_builtin("inf", "from math import inf", math.inf)


_register_custom_builtin("nan", "from math import nan", math.nan)


_register_custom_builtin("NoneType", "NoneType = type(None)", type(None))


_register_custom_builtin("torch", "import torch", torch)


_register_custom_builtin("device", "from torch import device", torch.device)


_register_custom_builtin("fx_pytree", "import torch.fx._pytree as fx_pytree", fx_pytree)


_register_custom_builtin("pytree", "import torch.utils._pytree as pytree", pytree)


_hump = re.compile(r"(?<=[a-z])([A-Z])")


_illegal_char_regex = re.compile("[^0-9a-zA-Z_]+")


# A name, and the number at its end.
_name_regex = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")


# Modules of this package, as `pytpu` or as `torch`. Those of the compiler are left out.
_own_module = re.compile(r"^(?:torch|pytpu)(?:\.(?!_dynamo\.|_inductor\.)[^.]+)*$")


def _snake_case(s: str) -> str:
    """Return a name in lower case: `pascalCase` becomes `pascal_case`."""
    return _hump.sub(r"_\1", s).lower()


def _is_magic(x: str) -> bool:
    return x.startswith("__") and x.endswith("__")


def _is_from_torch(obj: Any) -> bool:
    """Return whether code reads an object by its dotted name within `torch`."""
    module = getattr(obj, "__module__", None)
    if module is not None:
        return _own_module.match(module) is not None
    name = getattr(obj, "__name__", None)
    if name is None or name == "torch":
        return False
    return any(getattr(guess, name, None) is obj for guess in (torch, torch.nn.functional))


class _Namespace:
    """Unique names. An object has one of them, and no name hides a builtin."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        # The highest number that a base name has got.
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any | None) -> str:
        """Return a new name, or the name that the object has already.

        Args:
            candidate: The wish. Characters that identifiers do not have become `_`, and a number is appended if the
                name is in use.
            obj: The object that gets the name, or `None`.
        """
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        parts = _name_regex.match(candidate)
        if parts is None:
            candidate = _illegal_char_regex.sub("_", candidate) or "_unnamed"
            if candidate[0].isdigit():
                candidate = f"_{candidate}"
            parts = _name_regex.match(candidate)
            assert parts is not None
        base, digits = parts.groups()
        if digits is not None and candidate not in self._used_names:
            number = int(digits)
        else:
            number = self._base_count.get(base, 0)
            if _illegal_names.get(candidate, obj) is not obj:
                number += 1
                candidate = f"{base}_{number}"
        while candidate in self._used_names:
            number += 1
            candidate = f"{base}_{number}"
        self._used_names.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Give a name to an object that has none."""
        if self._obj_to_name.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")

    def _rename_object(self, obj: Any, name: str) -> None:
        if obj not in self._obj_to_name:
            raise AssertionError(f"Object {obj} is not in _obj_to_name")
        self._obj_to_name[obj] = name
        self._used_names.add(name)
