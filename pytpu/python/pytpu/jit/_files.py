"""Archives of TorchScript: `torch.jit.load` and `torch.jit.save`."""

from __future__ import annotations

import contextlib
import os
import pickle
from typing import Any

import pytpu as torch

from .. import _C, _archive, _file_globals, _file_places, _weights_only
from . import _text
from ._modules import RecursiveScriptModule, ScriptModule

#: Archives with a larger version have operators that are not known.
_NEWEST = 10


class _Reader:
    """Reads the objects of one archive."""

    def __init__(self, archive: _archive.Archive, map_location: Any) -> None:
        self.archive = archive
        self.place = _file_places.placement(map_location)
        self.constants: list[Any] = []
        # Methods are read when they are called, when the file may be closed.
        self.files = {
            name.removeprefix("code/"): archive.read(name)
            for name in archive.names()
            if name.startswith("code/") and name.endswith(".py")
        }
        self.program = _text.Program(self._code, self.constants)
        self.program.files = self.files
        self._kinds: dict[str, Any] = {}

    def _code(self, path: str) -> str | None:
        try:
            return self.files[path].decode() if path in self.files else None
        except UnicodeDecodeError:
            raise _text.ScriptError(f"the code {path} of the archive is no text") from None

    def _read(self, folder: str) -> Any:
        def read(key: str, dtype: torch.dtype, count: int) -> torch.Tensor:
            name = f"{folder}/{key}"
            size = self.archive.size(name)
            if size != count * dtype.itemsize:
                raise RuntimeError(f"record {name} has {size} bytes, and {count} elements of {dtype} were expected")
            if size >= 1 << 20 and self.archive.can_read_into(name):
                flat = _C._ops.empty([count], dtype=dtype)
                self.archive.read_into(name, _archive.memory_of(flat))
                return flat
            return _C._from_bytes(self.archive.read(name), dtype)

        return read

    def _allowed(self, name: str) -> Any:
        if name.startswith("__torch__."):
            if name not in self._kinds:
                self._kinds[name] = _kind(self.program.find(name), self.program)
            return self._kinds[name]
        if name in _TYPED:
            return _TYPED[name]
        return _file_globals.find_allowed(name)

    @staticmethod
    def _build(machine: Any, instance: Any, state: Any) -> None:
        if isinstance(instance, RecursiveScriptModule) and machine.is_pushed(instance.__dict__["_kind"]):
            if not isinstance(state, dict):
                raise _weights_only.Refused("the state of a module must be a dict")
            instance._set_state(state)
        elif isinstance(instance, _text.ScriptedObject):
            cls = instance._class
            if "__setstate__" in cls.methods:
                cls.methods["__setstate__"](instance, state)
            elif isinstance(state, dict):
                instance._attributes.update(state)
            else:
                raise _weights_only.Refused("the state of an object must be a dict")
        else:
            _file_globals.build(machine, instance, state)

    def pickle(self, name: str) -> Any:
        """Return the object of a pickle, such as `data`."""
        storages = _file_places.Storages(self._read(name), self.place)
        machine = _weights_only.Machine(
            self.archive.read(f"{name}.pkl"),
            self._allowed,
            storages.load,
            self._build,
            _file_globals.bounded_calls,
            "utf-8",
        )
        try:
            found = machine.run()
        except _weights_only.Refused as error:
            raise _file_globals.refusal(error) from None
        storages.finish()
        return found


def _kind(cls: Any, program: _text.Program) -> Any:
    """Return a class whose `__new__` makes the instances of a class of the archive."""
    if not isinstance(cls, _text.ScriptedClass):
        raise _weights_only.Refused(f"{cls.qualified} is a function, not a class")
    if cls.kind == "Module":

        def new_module(kind: Any, *args: Any) -> RecursiveScriptModule:
            made = RecursiveScriptModule(cls, program)
            made.__dict__["_kind"] = kind
            return made

        return type(cls.name, (), {"__new__": new_module})
    if cls.kind == "NamedTuple":
        return _text._constructor(cls)
    if cls.kind == "Enum":
        return lambda value: value

    def new_object(kind: Any, *args: Any) -> _text.ScriptedObject:
        return _text.ScriptedObject(cls)

    return type(cls.name, (), {"__new__": new_object})


def _typed_list(values: Any) -> Any:
    return list(values)


def _untag(value: Any, tag: str) -> Any:
    """Return a value without the name of its type."""
    return value


_TYPED = {
    **{f"torch.jit._pickle.build_{name}list": _typed_list for name in ("int", "double", "bool", "tensor")},
    "torch.jit._pickle.restore_type_tag": _untag,
    "torch.jit._pickle.build_tensor_from_id": _untag,
}


def load(
    f: Any,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> RecursiveScriptModule:
    """Read a module that `torch.jit.save` of PyTorch or of this package wrote.

    The code of the file runs operators of tensors, and functions of numbers, texts and lists. It cannot reach Python.

    Args:
        f: a path, or an object with `read`, `seek` and `tell`.
        map_location: where the tensors go. `None` is the device that they came from.
        _extra_files: a dict that gets the texts of the file by name.
        _restore_shapes: Accepted for compatibility.

    Raises:
        RuntimeError: If the file is damaged, or has what is not supported.
        ValueError: If the path does not exist or is a folder.
    """
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {os.fspath(f)} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {os.fspath(f)} is a directory")
    with open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
        archive = _archive.opened_archive(file)
        if "constants.pkl" not in archive or "data.pkl" not in archive:
            raise RuntimeError(
                "PytorchStreamReader failed locating file constants.pkl: file not found. The file is no archive of "
                "TorchScript: use torch.load for one of torch.save, and torch.export.load for a program"
            )
        if "byteorder" in archive and archive.read("byteorder") != b"little":
            raise RuntimeError("the archive was written on a machine with another byte order")
        reader = _Reader(archive, map_location)
        try:
            reader.constants.extend(reader.pickle("constants"))
            module = reader.pickle("data")
        except (pickle.UnpicklingError, EOFError, TypeError, KeyError) as error:
            raise RuntimeError(f"the archive cannot be read: {error}") from error
        except RecursionError:
            raise RuntimeError("the archive is nested too deep") from None
        if not isinstance(module, RecursiveScriptModule):
            raise RuntimeError("the archive has no module")
        for name in list(_extra_files or ()):
            key = f"extra/{name}"
            if _extra_files is not None and key in archive:
                _extra_files[name] = archive.read(key)
    return module


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a traced module, or one that `load` read, into a file that PyTorch reads too.

    Args:
        m: the module.
        f: a path, or an object with `write`.
        _extra_files: texts or bytes by name, which the file holds too.

    Raises:
        NotImplementedError: If the module is none of TorchScript.
    """
    if not isinstance(m, ScriptModule):
        raise NotImplementedError(
            "torch.jit.save: only modules of torch.jit.trace and torch.jit.load are written: torch.jit.script gives "
            "modules back as they are. Save a state_dict with torch.save, or a program with torch.export.save"
        )
    from ._writer import write

    write(m, f, _extra_files or {})
