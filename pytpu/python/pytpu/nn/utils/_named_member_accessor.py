"""`torch.nn.utils._named_member_accessor`: parameters and buffers of a module by their dotted names."""

from __future__ import annotations

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_MISSING: Any = object()


def _check(module, name):
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')


def set_tensor(module: torch.nn.Module, name: str, tensor: Any) -> None:
    """Set a parameter, a buffer or an attribute of a module, as it is: no new `Parameter` is made.

    Args:
        module: The module.
        name: Name of the tensor, without dots.
        tensor: The tensor, or `None`.
    """
    _check(module, name)
    if not isinstance(tensor, torch.Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
    for table in tables:
        if name in table:
            table[name] = tensor
            return
    setattr(module, name, tensor)


def swap_tensor(module: torch.nn.Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Set a tensor of a module, and return the old one.

    Args:
        module: The module.
        name: Name of the tensor, without dots.
        tensor: The tensor, or `None`.
        allow_missing: Whether the module may have no such tensor yet.

    Raises:
        AttributeError: If there is none, and `allow_missing` is false.
    """
    _check(module, name)
    if tensor is not _MISSING and not isinstance(tensor, torch.Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
    for table in tables:
        if name in table:
            old = table[name]
            if tensor is _MISSING:
                del table[name]
            else:
                table[name] = tensor
            return old
    old = getattr(module, name, _MISSING)
    if old is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if old is not _MISSING and not isinstance(old, torch.Tensor) and old is not None:
        raise TypeError(f"attribute `{name}`: {old} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif old is not _MISSING:
        delattr(module, name)
    return old


def swap_submodule(module: torch.nn.Module, name: str, submodule: torch.nn.Module) -> torch.nn.Module:
    """Set a submodule, and return the old one.

    Args:
        module: The module.
        name: Name of the submodule, without dots.
        submodule: The new one.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if not isinstance(submodule, torch.nn.Module):
        raise TypeError(f"{submodule} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError('submodule name can\'t contain "."')
    if name == "":
        raise KeyError('submodule name can\'t be empty string ""')
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    old = module._modules[name]
    if not isinstance(old, torch.nn.Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return old


class NamedMemberAccessor:
    """Tensors and submodules of a module by their dotted names.

    Args:
        module: The module.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.memo: dict[str, torch.nn.Module] = {}

    def get_submodule(self, name: str) -> torch.nn.Module:
        """Return the submodule of a dotted name. The empty name is the module itself."""
        if not name:
            return self.module
        if name in self.memo:
            return self.memo[name]
        prefix, _, last = name.rpartition(".")
        above = self.get_submodule(prefix)
        found = getattr(above, last, _MISSING)
        if found is _MISSING:
            raise AttributeError(f"{above._get_name()} has no attribute `{last}`")
        if not isinstance(found, torch.nn.Module):
            raise TypeError(f"submodule `{name}`: {found} is not an instance of torch.nn.Module")
        self.memo[name] = found
        return found

    def swap_submodule(self, path: str, value: torch.nn.Module) -> torch.nn.Module:
        """Set the submodule of a dotted name, and return the old one."""
        prefix, _, last = path.rpartition(".")
        return swap_submodule(self.get_submodule(prefix), last, value)

    def _place(self, name):
        prefix, _, last = name.rpartition(".")
        return self.get_submodule(prefix), last

    def get_tensor(self, name: str) -> Any:
        """Return the tensor of a dotted name."""
        module, last = self._place(name)
        tensor = getattr(module, last, _MISSING)
        if tensor is _MISSING:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if not isinstance(tensor, torch.Tensor) and tensor is not None:
            raise TypeError(f"{tensor} is not an instance of torch.Tensor")
        return tensor

    def set_tensor(self, name: str, value: torch.Tensor | None) -> None:
        """Set the tensor of a dotted name."""
        module, last = self._place(name)
        set_tensor(module, last, value)

    def del_tensor(self, name: str) -> None:
        """Delete the tensor of a dotted name."""
        module, last = self._place(name)
        swap_tensor(module, last, _MISSING)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Set the tensor of a dotted name, and return the old one."""
        module, last = self._place(name)
        return swap_tensor(module, last, value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """Return the tensors of dotted names, in a list."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Set the tensors of dotted names."""
        names, values = self._pairs(names, values)
        for name, value in zip(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Set the tensors of a dict."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Delete the tensors of dotted names."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        """Set the tensors of dotted names, and return the old ones in a list."""
        names, values = self._pairs(names, values)
        return [self.swap_tensor(name, value, allow_missing) for name, value in zip(names, values)]

    def swap_tensors_dict(self, named_tensors: dict[str, Any], allow_missing: bool = False) -> Any:
        """Set the tensors of a dict. Return the old ones, and the names that were missing."""
        old, missing = {}, []
        try:
            for name, value in named_tensors.items():
                try:
                    found = self.swap_tensor(name, value, allow_missing=True)
                except AttributeError:
                    found = _MISSING
                if found is _MISSING:
                    missing.append(name)
                old[name] = found
        except Exception:
            for name, value in old.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise
        if missing and not allow_missing:
            for name, value in old.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        return old, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the names of the module that are missing in `keys`, and those of `keys` that it does not have."""
        keys = set(keys)
        there = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(there - keys), sorted(keys - there)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterable[tuple[str, torch.Tensor]]:
        """Yield names and parameters."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterable[tuple[str, torch.Tensor]]:
        """Yield names and buffers."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterable[tuple[str, torch.Tensor]]:
        """Yield names and tensors: parameters, then buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Any]]:
        """Yield names and submodules."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)

    @staticmethod
    def _pairs(names, values):
        names, values = list(names), list(values)
        if len(names) != len(values):
            raise AssertionError(
                f"names and values must have the same length, got {len(names)} names and {len(values)} values"
            )
        return names, values
