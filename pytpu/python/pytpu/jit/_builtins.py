"""The functions that code of TorchScript calls: operators of aten, and functions of numbers, texts and lists."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytpu as torch

from .. import _schema

#: Dtypes, layouts and memory formats by the numbers that code has for them.
DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
    None,
    torch.complex64,
    torch.complex128,
    torch.bool,
    None,
    None,
    None,
    torch.bfloat16,
]
MEMORY_FORMATS = [torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d]

#: Names of values.
NAMES = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf), "nanj": complex(0, math.nan)}


def number(value: Any, kind: str = "number") -> Any:
    """Return a number for a number or a tensor with one element."""
    if isinstance(value, torch.Tensor):
        value = value.item()
    if value is None or kind == "number":
        return value
    return {"int": int, "float": float, "bool": bool, "complex": complex}[kind](value)


def dtype_of(value: Any) -> Any:
    """Return a dtype for its number."""
    if type(value) is int:
        found = DTYPES[value] if 0 <= value < len(DTYPES) else None
        if found is None:
            raise RuntimeError(f"the dtype with the number {value} is not supported")
        return found
    return value


# ---- operators of aten


def _fits(value: Any, written: str) -> bool:
    """Return whether a value can be an argument of a type of a schema."""
    if written.endswith("?"):
        return value is None or _fits(value, written[:-1])
    if written.endswith("]"):
        inner, _, size = written[:-1].rpartition("[")
        if isinstance(value, (list, tuple)):
            return all(_fits(item, inner) for item in value)
        return bool(size) and inner in ("int", "SymInt", "float", "bool") and _fits(value, inner)
    if written == "Tensor":
        return isinstance(value, torch.Tensor)
    if isinstance(value, torch.Tensor):
        # A number may come as a tensor with one element.
        return written in ("Scalar", "int", "SymInt", "float") and value.numel() == 1 and not value.requires_grad
    if written == "Scalar":
        return isinstance(value, (int, float, complex))
    if written in ("int", "SymInt"):
        return type(value) is int or isinstance(value, (torch.dtype, torch.layout, torch.memory_format))
    if written == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if written == "bool":
        return isinstance(value, bool)
    if written == "str":
        return isinstance(value, str)
    if written == "ScalarType":
        return type(value) is int or isinstance(value, torch.dtype)
    if written in ("Layout", "MemoryFormat"):
        return type(value) is int or isinstance(value, (torch.layout, torch.memory_format))
    if written == "Device":
        return isinstance(value, (torch.device, str))
    return written == "Generator" and isinstance(value, torch.Generator)


def _convert(value: Any, written: str) -> Any:
    """Return a value in the form that the operators here take."""
    base = written.rstrip("?")
    if value is None:
        return None
    if base == "ScalarType":
        return dtype_of(value)
    if base == "MemoryFormat" and type(value) is int:
        return MEMORY_FORMATS[value]
    if base == "Layout" and type(value) is int:
        return torch.strided
    if isinstance(value, torch.Tensor) and base in ("Scalar", "int", "SymInt", "float"):
        return value.item()
    return value


class Operator:
    """An operator of aten, whose overload follows from the arguments.

    Args:
        name: its name.
        packet: the operator.
    """

    def __init__(self, name: str, packet: Any) -> None:
        self.name, self._packet = name, packet
        self._overloads = [
            (overload, _schema.FunctionSchema(f"aten::{text}").arguments)
            for overload, text in packet._texts.items()
            if not overload.endswith("out")
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for overload, arguments in self._overloads:
            bound = self._bind(arguments, args, kwargs)
            if bound is not None:
                result = getattr(self._packet, overload)(*bound[0], **bound[1])
                return list(result) if type(result) is torch.Size else result
        if not self._overloads:
            return self._packet(*args, **kwargs)
        raise RuntimeError(
            f"Arguments for call are not valid: aten::{self.name} has no overload for "
            f"{[type(arg).__name__ for arg in args]} and {sorted(kwargs)}"
        )

    @staticmethod
    def _bind(arguments: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        positional = [argument for argument in arguments if not argument.kwarg_only]
        if len(args) > len(positional):
            return None
        values, named = [], {}
        for argument, value in zip(positional, args):
            if not _fits(value, argument._written):
                return None
            values.append(_convert(value, argument._written))
        known = {argument.name: argument for argument in arguments}
        for name, value in kwargs.items():
            argument = known.get(name)
            if argument is None or argument in positional[: len(args)] or not _fits(value, argument._written):
                return None
            named[name] = _convert(value, argument._written)
        for argument in arguments[len(args) :]:
            if (
                not argument.has_default_value()
                and argument.name not in named
                and argument not in positional[: len(args)]
            ):
                return None
        # A device, layout or pinned memory of nothing is the default.
        return values, {name: v for name, v in named.items() if v is not None or name not in ("layout", "pin_memory")}


_operators: dict[str, Callable[..., Any]] = {}


def _aten(name: str) -> Callable[..., Any] | None:
    try:
        packet = getattr(torch.ops.aten, name)
    except AttributeError:
        return None
    if not getattr(packet, "_texts", None):
        # A method of tensors that is no operator.
        return None
    return Operator(name, packet)


def _unknown(dotted: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Unknown builtin op: {dotted}")

    return refuse


def _has_tensor(values: Any) -> bool:
    return any(
        isinstance(v, torch.Tensor)
        or (isinstance(v, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in v))
        for v in values
    )


def find(dotted: str) -> Callable[..., Any]:
    """Return the function of a dotted name, such as `torch.add` or `ops.prim.device`.

    One that is not known raises `RuntimeError` when it is called.
    """
    if dotted in _operators:
        return _operators[dotted]
    plain = FUNCTIONS.get(dotted)
    name = dotted.rpartition(".")[2]
    aten = None
    parts = dotted.split(".")
    if dotted.startswith("torch.") and len(parts) == 2:
        aten = _aten(name)
    elif dotted.startswith("ops.aten.") and len(parts) == 3:
        aten = _aten(name)
        plain = plain or FUNCTIONS.get(f"torch.{name}")
    elif dotted.startswith("ops.") and len(parts) == 3 and parts[1] not in ("prim", "aten") and name.isidentifier():
        # An operator of `torch.library`.
        try:
            aten = getattr(getattr(torch.ops, parts[1]), name)
        except AttributeError:
            aten = None
    found: Callable[..., Any]
    if aten is None and plain is None:
        # Code that does not run may name what is not there.
        return _unknown(dotted)
    if aten is None or plain is None or name in _ALWAYS_PLAIN:
        found = plain if plain is not None else aten  # type: ignore[assignment]
    else:
        own, other = aten, plain

        def found(*args: Any, **kwargs: Any) -> Any:
            return own(*args, **kwargs) if _has_tensor((*args, *kwargs.values())) else other(*args, **kwargs)

    _operators[dotted] = found
    return found


# ---- functions of other values


def get_item(value: Any, index: Any) -> Any:
    """Return an item of a list, tuple, dict or text."""
    if isinstance(value, (list, tuple, str)):
        if not -len(value) <= index < len(value):
            raise IndexError("list index out of range")
        return value[index]
    if isinstance(value, dict):
        return value[index]
    return torch.ops.aten.select(value, 0, index)


def _div(x: Any, y: Any) -> Any:
    return x / y


def _remainder(x: Any, y: Any) -> Any:
    return x % y


def _raise(text: Any = "", kind: Any = None) -> Any:
    name = str(kind).rpartition(".")[2] if kind else ""
    cls = {"ValueError": ValueError, "RuntimeError": RuntimeError, "NotImplementedError": NotImplementedError}
    raise cls.get(name, torch.jit.Error)(text)


def _format(text: str, *values: Any) -> str:
    parts = text.split("{}")
    if len(parts) - 1 > len(values):
        raise RuntimeError("Too few arguments for format string")
    return parts[0] + "".join(str(value) + part for value, part in zip(values, parts[1:]))


def _list(value: Any) -> list[Any]:
    return list(value)


def _tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> torch.Tensor:
    return torch.tensor(data, dtype=dtype_of(dtype), device=device, requires_grad=requires_grad)


def _number_to_tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)


def _slice(value: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return value[slice(start, end, step)]


def _device(kind: str, index: int | None = None) -> torch.device:
    return torch.device(kind) if index is None else torch.device(kind, index)


def _unwrap(value: Any) -> Any:
    if value is None:
        raise RuntimeError("Unwrapping null optional")
    return value


def _set_item(owner: Any, key: Any, value: Any) -> Any:
    owner[key] = value
    return owner


def _warn(text: str, stacklevel: int = 2) -> None:
    warnings.warn(str(text), stacklevel=2)


def _is_instance(value: Any, *kinds: Any) -> bool:
    raise RuntimeError("isinstance is not supported in code of archives")


def _max(*values: Any) -> Any:
    return max(values[0]) if len(values) == 1 else max(values)


def _min(*values: Any) -> Any:
    return min(values[0]) if len(values) == 1 else min(values)


def _range(*bounds: int) -> range:
    return range(*bounds)


def _broadcasting_list(value: Any, *more: Any) -> Any:
    return value


def _fork(function: Any, *args: Any) -> Any:
    return torch.jit.fork(function, *args)


class _NoGradient:
    """The object that `torch.no_grad()` is in code."""


def _dtype_number(tensor: torch.Tensor) -> int:
    return DTYPES.index(tensor.dtype)


def _size(value: torch.Tensor, dim: int | None = None) -> Any:
    return list(value.shape) if dim is None else value.size(dim)


_BINARY: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _div,
    "floordiv": operator.floordiv,
    "remainder": _remainder,
    "pow": operator.pow,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__lshift__": operator.lshift,
    "__rshift__": operator.rshift,
    "fmod": math.fmod,
    "atan2": math.atan2,
    "gcd": math.gcd,
    "mathremainder": math.remainder,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": operator.neg,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "log1p": math.log1p,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "degrees": math.degrees,
    "radians": math.radians,
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"torch.{name}": function for name, function in (_BINARY | _UNARY).items()},
    "torch.__is__": lambda x, y: x is y,
    "torch.__isnot__": lambda x, y: x is not y,
    "torch.__not__": lambda x: not bool(x),
    "torch.__contains__": lambda values, item: item in values,
    "torch.__getitem__": get_item,
    "torch.__derive_index": lambda index, start, step: start + index * step,
    "torch.__range_length": lambda low, high, step: len(range(low, high, step)),
    "torch._set_item": _set_item,
    "torch.Bool": lambda x: number(x, "bool"),
    "torch.Int": lambda x: number(x, "int"),
    "torch.Float": lambda x: number(x, "float"),
    "torch.append": lambda values, item: values.append(item) or values,
    "torch.extend": lambda values, others: values.extend(others),
    "torch.insert": lambda values, at, item: values.insert(at, item),
    "torch.pop": lambda values, *at: values.pop(*at),
    "torch.clear": lambda values: values.clear(),
    "torch.reverse": lambda values: values.reverse(),
    "torch.sort": lambda values, reverse=False: values.sort(reverse=reverse),
    "torch.sorted": sorted,
    "torch.copy": lambda values: values.copy(),
    "torch.len": len,
    "torch.list": _list,
    "torch.dict": dict,
    "torch.keys": lambda values: list(values.keys()),
    "torch.values": lambda values: list(values.values()),
    "torch.items": lambda values: list(values.items()),
    "torch.get": lambda values, key, default=None: values.get(key, default),
    "torch.update": lambda values, others: values.update(others),
    "torch.setdefault": lambda values, key, default: values.setdefault(key, default),
    "torch.Delete": lambda values, key: values.__delitem__(key),
    "torch.format": _format,
    "torch.str": str,
    "torch.join": lambda text, parts: text.join(parts),
    "torch.split": lambda text, *rest: text.split(*rest),
    "torch.strip": lambda text, *rest: text.strip(*rest),
    "torch.lower": lambda text: text.lower(),
    "torch.upper": lambda text: text.upper(),
    "torch.startswith": lambda text, start: text.startswith(start),
    "torch.endswith": lambda text, end: text.endswith(end),
    "torch.replace": lambda text, old, new, most=-1: text.replace(old, new, most),
    "torch.find": lambda text, part, *rest: text.find(part, *rest),
    "torch.count": lambda values, item, *rest: values.count(item, *rest),
    "torch.index": lambda values, item, *rest: values.index(item, *rest),
    "torch.ord": ord,
    "torch.chr": chr,
    "torch.hash": hash,
    "torch.bin": bin,
    "torch.hex": hex,
    "torch.slice": _slice,
    "torch.tensor": _tensor,
    "torch.as_tensor": lambda data, dtype=None, device=None: torch.as_tensor(
        data, dtype=dtype_of(dtype), device=device
    ),
    "torch.device": _device,
    "torch.warn": _warn,
    "torch.max": _max,
    "torch.min": _min,
    "torch.sum": sum,
    "torch.any": any,
    "torch.all": all,
    "torch.size": _size,
    "torch.dim": lambda tensor: tensor.dim(),
    "torch.is_autocast_enabled": lambda *device: torch.is_autocast_enabled(*device),
    "torch.is_autocast_cpu_enabled": lambda: torch.is_autocast_enabled("cpu"),
    "torch.is_grad_enabled": torch.is_grad_enabled,
    "torch.set_grad_enabled": torch._C._set_grad_enabled,
    "torch.wait": lambda future: future.wait(),
    "torch.percentFormat": lambda text, *values: text % values,
    "torch.is_scripting": lambda: True,
    "torch.manual_seed": torch.manual_seed,
    "torch.broadcast_tensors": lambda tensors: list(torch.broadcast_tensors(*tensors)),
    "ops.prim.NumToTensor": _number_to_tensor,
    "ops.prim.RaiseException": _raise,
    "ops.prim.abs": abs,
    "ops.prim.data": lambda tensor: tensor.data,
    "ops.prim.device": lambda tensor: tensor.device,
    "ops.prim.dtype": _dtype_number,
    "ops.prim.index": lambda device: device.index,
    "ops.prim.type": lambda device: device.type,
    "ops.prim.is_cuda": lambda tensor: tensor.is_cuda,
    "ops.prim.is_nested": lambda tensor: False,
    "ops.prim.isinstance": _is_instance,
    "ops.prim.layout": lambda tensor: 0,
    "ops.prim.max": _max,
    "ops.prim.min": _min,
    "ops.prim.rangelist": lambda n: list(range(n)),
    "ops.prim.requires_grad": lambda tensor: tensor.requires_grad,
    "ops.prim.shape": lambda tensor: list(tensor.shape),
    "ops.prim.tolist": lambda tensor, *rest: tensor.tolist(),
    "ops.prim.unchecked_unwrap_optional": _unwrap,
    "unwrap_optional": _unwrap,
    "int": lambda x: number(x, "int"),
    "float": lambda x: float(x) if isinstance(x, str) else number(x, "float"),
    "bool": lambda x: number(x, "bool"),
    "complex": lambda *x: complex(*map(number, x)),
    "str": str,
    "len": len,
    "range": _range,
    "list": _list,
    "getattr": lambda owner, name: _attribute(owner, name),
    "fork": _fork,
    "ops.aten.wait": lambda future: future.wait(),
    "torch._get_tracing_state": lambda: False,
}
#: Functions of containers, whose items may be tensors.
_ALWAYS_PLAIN = frozenset(
    """__is__ __isnot__ append extend insert pop clear reverse len list dict keys items get update setdefault Delete
    format str __getitem__ __contains__ _set_item tensor as_tensor size dim Bool Int Float wait
    broadcast_tensors""".split()
)


def _attribute(owner: Any, name: str) -> Any:
    from ._text import get_attribute

    return get_attribute(owner, name)


def method(owner: Any, name: str) -> Callable[..., Any]:
    """Return a method of a list, dict, text or tensor.

    Raises:
        RuntimeError: TorchScript has no such method.
    """
    function = find(f"torch.{name}")
    return lambda *args, **kwargs: function(owner, *args, **kwargs)
