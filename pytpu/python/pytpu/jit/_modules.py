"""Modules of TorchScript: those of archives, and traced ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytpu as torch

from ._text import ScriptedClass, ScriptedFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._text import Program


class ScriptModule(torch.nn.Module):
    """A module whose code is TorchScript. `torch.jit.load` and `torch.jit.trace` make some.

    `torch.jit.script` returns modules unchanged.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if type(self) is ScriptModule:
            raise NotImplementedError("modules are not compiled to TorchScript")
        super().__init__()

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Write the module into a file. See `torch.jit.save`."""
        from ._files import save

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None, **kwargs: Any) -> bytes:
        """Return the bytes of the file that `save` writes."""
        import io

        buffer = io.BytesIO()
        self.save(buffer, _extra_files)
        return buffer.getvalue()


class RecursiveScriptModule(ScriptModule):
    """A module of an archive.

    Args:
        cls: its class in the archive.
        program: the code of the archive.
    """

    def __init__(self, cls: ScriptedClass, program: Program) -> None:
        super().__init__()
        self.__dict__["_scripted"] = cls
        self.__dict__["_program"] = program
        for name, value in cls.values.items():
            if not name.startswith("_"):
                self.__dict__[name] = value({})
        for name in cls.methods:
            if hasattr(torch.nn.Module, name) and name != "forward" and not name.startswith("_"):
                # A method of the archive with the name of one of all modules.
                self.__dict__[name] = self._scripted_method(name)

    @property
    def original_name(self) -> str:
        """The name of the class that the module had."""
        return self.__dict__["_scripted"].name

    @property
    def code(self) -> str:
        """The code of `forward`."""
        return self._scripted_function("forward").code

    def _set_state(self, state: dict[str, Any]) -> None:
        """Set parameters, buffers, modules and other attributes."""
        cls: ScriptedClass = self.__dict__["_scripted"]
        parameters, buffers = set(cls.lists["__parameters__"]), set(cls.lists["__buffers__"])
        for name, value in state.items():
            if not isinstance(name, str) or name.startswith("__"):
                raise RuntimeError(f"{str(name)[:80]!r} is no name of an attribute")
            if name == "training":
                self.training = bool(value)
            elif isinstance(value, torch.nn.Module):
                self._modules[name] = value
            elif isinstance(value, torch.Tensor) and name in parameters:
                self._parameters[name] = torch.nn.Parameter(value.detach(), requires_grad=value.requires_grad)
            elif value is None and name in parameters:
                self._parameters[name] = None
            elif name in buffers:
                self._buffers[name] = value
            elif name in ("_is_full_backward_hook", "_parameters", "_buffers", "_modules", "_scripted", "_program"):
                continue
            else:
                self.__dict__[name] = value

    def _scripted_function(self, name: str) -> ScriptedFunction:
        cls: ScriptedClass = self.__dict__["_scripted"]
        if name not in cls.methods:
            raise AttributeError(f"'{cls.name}' object has no attribute or method '{name}'")
        return cls.methods[name]

    def _scripted_method(self, name: str) -> Callable[..., Any]:
        if name == "forward":
            return self.__call__
        function = self._scripted_function(name)
        return lambda *args, **kwargs: function(self, *args, **kwargs)

    def _scripted_attribute(self, name: str) -> Any:
        """Return what code reads: an attribute of the archive's class."""
        cls: ScriptedClass = self.__dict__["_scripted"]
        if name != "training" and name not in cls.types and name not in cls.values:
            raise AttributeError(f"'{cls.name}' object has no attribute or method '{name}'")
        return getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        cls = self.__dict__.get("_scripted")
        if cls is not None and name in cls.methods:
            return self._scripted_method(name)
        return super().__getattr__(name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the code."""
        return self._scripted_function("forward")(self, *args, **kwargs)

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        """Return the name of the class that the module had."""
        return f"original_name={self.original_name}"

    def __deepcopy__(self, memo: dict[int, Any]) -> RecursiveScriptModule:
        import copy

        made = type(self)(self.__dict__["_scripted"], self.__dict__["_program"])
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            if name not in ("_scripted", "_program", "_kind") and name not in self.__dict__["_scripted"].methods:
                made.__dict__[name] = copy.deepcopy(value, memo)
        return made


TracedModule = TopLevelTracedModule = RecursiveScriptModule
