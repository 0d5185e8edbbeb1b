"""Modules that hold other modules or parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, islice

import pytpu as torch
from pytpu.nn.parameter import Parameter

from .module import Module, _addindent

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, NoReturn, overload

    from typing_extensions import Self


class Container(Module):
    """Hold modules given by keyword. Kept for old scripts.

    Args:
        **kwargs: Submodules by name.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Container(act=torch.nn.ReLU()).act
        ReLU()
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for key, value in kwargs.items():
            self.add_module(key, value)


def _position(length, idx):
    idx = operator.index(idx)
    if not -length <= idx < length:
        raise IndexError(f"index {idx} is out of range")
    return idx % length


class Sequential(Module):
    """Call modules one after the other, each with the result of the one before.

    Args:
        *args: Modules, or one `OrderedDict` of modules by name.

    Shape:
        Input of the first module; output of the last module.

    Example:
        >>> import pytpu as torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> net(torch.randn(3, 4)).shape
        torch.Size([3, 2])
        >>> net[1]
        ReLU()
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self, *args: Module) -> None: ...

        @overload
        def __init__(self, arg: OrderedDict[str, Module], /) -> None: ...

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for key, module in args[0].items():
                self.add_module(key, module)
        else:
            for idx, module in enumerate(args):
                self.add_module(str(idx), module)

    def _key_at(self, idx):
        return next(islice(self._modules, _position(len(self), idx), None))

    def _renumber(self, modules):
        self._modules.clear()
        for idx, module in enumerate(modules):
            self.add_module(str(idx), module)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, idx: slice) -> Sequential: ...

        @overload
        def __getitem__(self, idx: int) -> Module: ...

    def __getitem__(self, idx: slice | int) -> Sequential | Module:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key_at(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._key_at(idx), module)

    def __delitem__(self, idx: slice | int) -> None:
        keys = list(self._modules)[idx] if isinstance(idx, slice) else [self._key_at(idx)]
        for key in keys:
            delattr(self, key)
        self._renumber(list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __add__(self, other: Iterable[Module]) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {str(type(other))} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Iterable[Module]) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {str(type(other))} is given."
            )
        return self.extend(other)

    def __mul__(self, other: int) -> Sequential:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return Sequential(*(module for _ in range(other) for module in self))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return self.extend([module for _ in range(other - 1) for module in list(self)])

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def pop(self, key: int | slice) -> Module:
        """Remove a module and return it.

        Args:
            key: Position, or a slice.

        Returns:
            The module, or a container of them for a slice.

        Raises:
            IndexError: The position is out of range.
        """
        module = self[key]
        del self[key]
        return module

    def append(self, module: Module) -> Self:
        """Add a module at the end.

        Args:
            module: Module to add.

        Returns:
            This container.
        """
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before a position.

        Args:
            index: Position, between `-len(self)` and `len(self)`.
            module: Module to add.

        Returns:
            This container.

        Raises:
            AssertionError: `module` is not a module.
            IndexError: The position is out of range.

        Example:
            >>> import pytpu as torch
            >>> net = torch.nn.Sequential(torch.nn.ReLU())
            >>> net.insert(0, torch.nn.Tanh())[0]
            Tanh()
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self._modules)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index if index >= 0 else index + n, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end.

        Args:
            sequential: Modules to add.

        Returns:
            This container.
        """
        for module in list(sequential):
            self.append(module)
        return self

    def forward(self, input: Any) -> Any:
        """Return the result of the last module. The first one takes `input`."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(Module):
    """Hold modules in a list.

    It has no `forward`: the owner calls the modules.

    Args:
        modules: Modules to start with.

    Example:
        >>> import pytpu as torch
        >>> layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
        >>> x = torch.randn(2, 4)
        >>> for layer in layers:
        ...     x = layer(x)
        >>> x.shape, len(layers)
        (torch.Size([2, 4]), 3)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _abs_string_index(self, idx):
        return str(_position(len(self), idx))

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, idx: slice) -> ModuleList: ...

        @overload
        def __getitem__(self, idx: int) -> Module: ...

    def __getitem__(self, idx: int | slice) -> Module | ModuleList:
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[self._abs_string_index(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._abs_string_index(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        modules = list(self._modules.values())
        del modules[idx if isinstance(idx, slice) else _position(len(self), idx)]
        self._modules = {str(i): m for i, m in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        combined = ModuleList()
        for i, module in enumerate(chain(self, other)):
            combined.add_module(str(i), module)
        return combined

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def __repr__(self) -> str:
        # Show runs of equal entries once, with their range and count.
        reprs = [repr(item) for item in self]
        if not reprs:
            return self._get_name() + "()"
        blocks: list[list[Any]] = []
        for i, text in enumerate(reprs):
            if blocks and blocks[-1][2] == text:
                blocks[-1][1] = i
            else:
                blocks.append([i, i, text])
        lines = [self._get_name() + "("]
        for first, last, text in blocks:
            label = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append("  " + _addindent(label + text, 2))
        return "\n".join(lines) + "\n)"

    def insert(self, index: int, module: Module) -> None:
        """Add a module before a position.

        Args:
            index: Position, as `list.insert` takes it.
            module: Module to add.
        """
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules.clear()
        for i, m in enumerate(modules):
            self.add_module(str(i), m)

    def append(self, module: Module) -> Self:
        """Add a module at the end.

        Args:
            module: Module to add.

        Returns:
            This container.
        """
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Remove a module and return it.

        Args:
            key: Position, or a slice.

        Returns:
            The module, or a container of them for a slice.

        Raises:
            IndexError: The position is out of range.
        """
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end.

        Args:
            modules: Modules to add.

        Returns:
            This container.

        Raises:
            TypeError: `modules` cannot be iterated over.
        """
        if not isinstance(modules, Iterable):
            raise TypeError("ModuleList.extend should be called with an iterable, but got " + type(modules).__name__)
        offset = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(offset + i), module)
        return self


def _pairs(owner, container):
    """Check the argument of `update`, and yield its pairs of key and value."""
    if not isinstance(container, Iterable):
        raise TypeError(
            f"{owner}.update should be called with an iterable of key/value pairs, but got " + type(container).__name__
        )
    if isinstance(container, (Mapping, ModuleDict, ParameterDict)):
        yield from container.items()
        return
    for j, m in enumerate(container):
        if not isinstance(m, Iterable):
            raise TypeError(f"{owner} update sequence element #{j} should be Iterable; is {type(m).__name__}")
        m = list(m)
        if len(m) != 2:
            raise ValueError(f"{owner} update sequence element #{j} has length {len(m)}; 2 is required")
        yield m


class ModuleDict(Module):
    """Hold modules in a dictionary, in the order of insertion.

    Args:
        modules: Modules by name: a mapping, or pairs.

    Example:
        >>> import pytpu as torch
        >>> acts = torch.nn.ModuleDict({"relu": torch.nn.ReLU(), "tanh": torch.nn.Tanh()})
        >>> acts["relu"](torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | ModuleDict | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all entries."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove an entry and return its module.

        Args:
            key: Name of the entry.

        Returns:
            The module.

        Raises:
            KeyError: There is no such entry.
        """
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """Return the names, in the order of insertion."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """Return pairs of name and module, in the order of insertion."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """Return the modules, in the order of insertion."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | ModuleDict) -> None:
        """Add entries, in place of those of the same name.

        Args:
            modules: Modules by name: a mapping, or pairs.

        Raises:
            TypeError: `modules` or a pair cannot be iterated over.
            ValueError: A pair has other than two elements.
        """
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _parameter_line(key, value, name=torch.typename):
    if not isinstance(value, torch.Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.size())
    device = f" ({value.device})" if value.device.type == "tpu" else ""
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    value = value.data if isinstance(value, Parameter) else value
    return f"  ({key}): {kind} containing: [{name(value)} of size {size}{device}]"


class ParameterList(Module):
    """Hold parameters in a list.

    A tensor that is put in becomes a `Parameter`. Other values stay as they are.

    Args:
        values: Values to start with.

    Example:
        >>> import pytpu as torch
        >>> weights = torch.nn.ParameterList([torch.ones(2), torch.zeros(3)])
        >>> len(weights), weights[0].requires_grad
        (2, True)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, idx: slice) -> Self: ...

        @overload
        def __getitem__(self, idx: int) -> Any: ...

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            picked = type(self)()
            for i in range(*idx.indices(len(self))):
                picked.append(self[i])
            return picked
        return getattr(self, str(_position(len(self), idx)))

    def __setitem__(self, idx: int, param: Any) -> None:
        if isinstance(param, torch.Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, str(_position(len(self), idx)), param)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def append(self, value: Any) -> Self:
        """Add a value at the end.

        Args:
            value: Value to add.

        Returns:
            This container.
        """
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end.

        Args:
            values: Values to add.

        Returns:
            This container.

        Raises:
            TypeError: `values` is a tensor or cannot be iterated over.
        """
        if not isinstance(values, Iterable) or isinstance(values, torch.Tensor):
            raise TypeError("ParameterList.extend should be called with an iterable, but got " + type(values).__name__)
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return one line for each value for the repr."""
        return "\n".join(_parameter_line(k, p, lambda t: t.dtype) for k, p in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Hold parameters in a dictionary, in the order of insertion.

    A tensor that is put in becomes a `Parameter`. Other values stay as they are.

    Args:
        parameters: Values by name: a mapping, or pairs.

    Example:
        >>> import pytpu as torch
        >>> weights = torch.nn.ParameterDict({"left": torch.ones(2), "right": torch.zeros(3)})
        >>> weights["left"].requires_grad, list(weights)
        (True, ['left', 'right'])
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | ParameterDict | None = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _attribute(key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is "
                f"not a string (type is '{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        if isinstance(value, torch.Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        name = self._attribute(key)
        self._keys[key] = None
        setattr(self, name, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return a new `ParameterDict` with the same values."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any | None = None) -> Any:
        """Return the value of a name, after adding it where there is none.

        Args:
            key: Name.
            default: Value to add.

        Returns:
            The value.
        """
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove an entry and return its value.

        Args:
            key: Name of the entry.

        Returns:
            The value.

        Raises:
            AttributeError: There is no such entry.
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last entry and return it.

        Returns:
            The pair of name and value.

        Raises:
            KeyError: There are no entries.
        """
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any | None = None) -> Any:
        """Return the value of a name, or a default.

        Args:
            key: Name.
            default: Result where there is no such entry.

        Returns:
            The value.
        """
        return self[key] if key in self else default

    @staticmethod
    def fromkeys(keys: Iterable[str], default: Any | None = None) -> ParameterDict:
        """Return a new `ParameterDict` with one value for all names.

        Args:
            keys: Names.
            default: The value.

        Returns:
            The new container.
        """
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """Return the names, in the order of insertion."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Yield pairs of name and value, in the order of insertion."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Yield the values, in the order of insertion."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | ParameterDict) -> None:
        """Add entries, in place of those of the same name.

        Entries of a mapping other than `OrderedDict` and `ParameterDict` are added in the order of their names.

        Args:
            parameters: Values by name: a mapping, or pairs.

        Raises:
            TypeError: `parameters` or a pair cannot be iterated over.
            ValueError: A pair has other than two elements.
        """
        entries = list(_pairs("ParameterDict", parameters))
        # As in PyTorch, the entries of a plain mapping are sorted by name.
        if isinstance(parameters, Mapping) and not isinstance(parameters, (OrderedDict, ParameterDict)):
            entries.sort()
        for key, value in entries:
            self[key] = value

    def extra_repr(self) -> str:
        """Return one line for each value for the repr."""
        return "\n".join(_parameter_line(k, p) for k, p in self.items())

    def __call__(self, input: Any) -> NoReturn:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self
