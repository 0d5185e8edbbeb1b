"""Modules that hold other modules or parameters."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, islice

import pytpu as torch
from pytpu.nn.parameter import Parameter

from .module import Module, _addindent


class Container(Module):
    """Modules given by keyword; kept for old scripts."""

    def __init__(self, **kwargs):
        super().__init__()
        for key, value in kwargs.items():
            self.add_module(key, value)


def _position(length, idx):
    idx = operator.index(idx)
    if not -length <= idx < length:
        raise IndexError(f"index {idx} is out of range")
    return idx % length


class Sequential(Module):
    """Calls its modules one after the other, each on what the one before returned."""

    def __init__(self, *args):
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

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key_at(idx)]

    def __setitem__(self, idx, module):
        setattr(self, self._key_at(idx), module)

    def __delitem__(self, idx):
        keys = list(self._modules)[idx] if isinstance(idx, slice) else [self._key_at(idx)]
        for key in keys:
            delattr(self, key)
        self._renumber(list(self._modules.values()))

    def __len__(self):
        return len(self._modules)

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {str(type(other))} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {str(type(other))} is given."
            )
        return self.extend(other)

    def __mul__(self, other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return Sequential(*(module for _ in range(other) for module in self))

    __rmul__ = __mul__

    def __imul__(self, other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return self.extend([module for _ in range(other - 1) for module in list(self)])

    def __dir__(self):
        return [key for key in super().__dir__() if not key.isdigit()]

    def __iter__(self):
        return iter(self._modules.values())

    def pop(self, key):
        """Removes and returns a module."""
        module = self[key]
        del self[key]
        return module

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        """Adds a module before `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self._modules)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index if index >= 0 else index + n, module)
        self._renumber(modules)
        return self

    def extend(self, sequential):
        """Adds modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(Module):
    """A list of modules."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def _abs_string_index(self, idx):
        return str(_position(len(self), idx))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[self._abs_string_index(idx)]

    def __setitem__(self, idx, module):
        setattr(self, self._abs_string_index(idx), module)

    def __delitem__(self, idx):
        modules = list(self._modules.values())
        del modules[idx if isinstance(idx, slice) else _position(len(self), idx)]
        self._modules = {str(i): m for i, m in enumerate(modules)}

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        combined = ModuleList()
        for i, module in enumerate(chain(self, other)):
            combined.add_module(str(i), module)
        return combined

    def __dir__(self):
        return [key for key in super().__dir__() if not key.isdigit()]

    def __repr__(self):
        # Runs of equal entries are shown once, with their range and count.
        reprs = [repr(item) for item in self]
        if not reprs:
            return self._get_name() + "()"
        blocks = []
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

    def insert(self, index, module):
        """Adds a module before `index`."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules.clear()
        for i, m in enumerate(modules):
            self.add_module(str(i), m)

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Removes and returns a module."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules):
        """Adds modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError("ModuleList.extend should be called with an iterable, but got " + type(modules).__name__)
        offset = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(offset + i), module)
        return self


def _pairs(owner, container):
    """Checks the argument of `update` and yields its (key, value) pairs."""
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
    """A dictionary of modules."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Removes all entries."""
        self._modules.clear()

    def pop(self, key):
        """Removes and returns an entry."""
        return self._modules.pop(key)

    def keys(self):
        """The keys, in order of insertion."""
        return self._modules.keys()

    def items(self):
        """(key, module) pairs, in order of insertion."""
        return self._modules.items()

    def values(self):
        """The modules, in order of insertion."""
        return self._modules.values()

    def update(self, modules):
        """Adds the entries of a mapping or of an iterable of pairs."""
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
    """A list of parameters; tensors that are put in become parameters, other values are kept as they are."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            picked = type(self)()
            for i in range(*idx.indices(len(self))):
                picked.append(self[i])
            return picked
        return getattr(self, str(_position(len(self), idx)))

    def __setitem__(self, idx, param):
        if isinstance(param, torch.Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, str(_position(len(self), idx)), param)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def __dir__(self):
        return [key for key in super().__dir__() if not key.isdigit()]

    def append(self, value):
        """Adds a value at the end."""
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values):
        """Adds values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, torch.Tensor):
            raise TypeError("ParameterList.extend should be called with an iterable, but got " + type(values).__name__)
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(_parameter_line(k, p, lambda t: t.dtype) for k, p in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters; tensors that are put in become parameters, other values are kept as they are."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
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

    def __getitem__(self, key):
        return getattr(self, self._attribute(key))

    def __setitem__(self, key, value):
        if isinstance(value, torch.Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        name = self._attribute(key)
        self._keys[key] = None
        setattr(self, name, value)

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key):
        return key in self._keys

    def copy(self):
        """A shallow copy."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key, default=None):
        """The value of `key`, set to `default` first if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Removes all entries."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        """Removes and returns an entry."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Removes and returns the last entry."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key, default=None):
        """The value of `key`, or `default`."""
        return self[key] if key in self else default

    @staticmethod
    def fromkeys(keys, default=None):
        """A dictionary with `default` under every key."""
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        """The keys, in order of insertion."""
        return self._keys.keys()

    def items(self):
        """(key, value) pairs, in order of insertion."""
        return ((key, self[key]) for key in self._keys)

    def values(self):
        """The values, in order of insertion."""
        return (self[key] for key in self._keys)

    def update(self, parameters):
        """Adds the entries of a mapping or of an iterable of pairs."""
        entries = list(_pairs("ParameterDict", parameters))
        # A plain mapping has no order of its own to keep.
        if isinstance(parameters, Mapping) and not isinstance(parameters, (OrderedDict, ParameterDict)):
            entries.sort()
        for key, value in entries:
            self[key] = value

    def extra_repr(self):
        return "\n".join(_parameter_line(k, p) for k, p in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other):
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other):
        self.update(other)
        return self
