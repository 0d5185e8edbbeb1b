"""Calls below autograd: who answers them, and by which name.

The extension offers three kinds of calls while a mode is on, or once a tensor has a class with `__torch_dispatch__`:
those of rows of the op table (`answer_row`), of ops that Rust calls by itself (`answer_op`), and of Python's operators
(`answer_operator`). Each becomes a call of an overload `torch.ops.aten.X.Y` with PyTorch's arguments: lists for
sizes, no defaults at the end. An operator that PyTorch composes of others is composed here
(`_compositions.py`), or else by the library itself, whose parts are offered one by one.
"""

from __future__ import annotations

import functools
import operator
import threading
import typing
from collections.abc import Callable, Iterator, Sequence

from . import _C, _schema, ops
from ._composite import COMPOSITE

#: Operators whose tensors may be numbers in PyTorch's Python functions, so that the overload is that of tensors.
_NUMBERS_AS_TENSORS = frozenset(
    f"{name}{end}"
    for name in "add sub mul div divide multiply subtract true_divide floor_divide _conj".split()
    for end in ("", "_")
)
#: Overloads of a number in place of a tensor: that of the row, and that with a number in the second and first place.
_WITH_NUMBER = {
    "Tensor": ("Scalar", "Scalar_Tensor"),
    "default": ("Scalar", "Scalar_Tensor"),
    "Tensor_Tensor": ("Tensor_Scalar", "Scalar"),
    "Tensor_mode": ("Scalar_mode", "Scalar_mode"),
}


class Row:
    """A row of the op table as an aten overload."""

    def __init__(self, name: str, in_place: bool) -> None:
        head, _, overload = name.partition(".")
        self.name = f"{head}_" if in_place else head
        packet = getattr(ops.aten, self.name)
        found = _schema._OTHER_NAMES.get(self.name, {}).get(overload or "default", overload or "default")
        self.packet = packet
        self.overload = getattr(packet, found)
        self.schema = self.overload._schema
        #: The schema of the row itself, whose names the call uses.
        self.parameters = [(a, a.name) for a in self.schema.arguments]

    @property
    def full_name(self) -> str:
        return self.overload.name().removeprefix("aten::")


@functools.cache
def _row(name: str, in_place: bool) -> Row:
    return Row(name, in_place)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, _C.Tensor)


def _arrange(value: typing.Any, argument: _schema.Argument) -> typing.Any:
    """Return an argument in the form in which modes get it: lists for sizes and lists of tensors."""
    kind = argument._written
    if "[" in kind and value is not None:
        if isinstance(value, (list, tuple)):
            return [*value]
        if not isinstance(value, str) and argument.N is not None:
            return [value] * argument.N
        if kind.startswith(("int[", "SymInt[")):
            return [value]
    return value


_ALIASES = {"input": "self", "axis": "dim", "keepdims": "keepdim", "x": "self"}


def _bind(row: Row, args: Sequence[typing.Any], kwargs: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Return the arguments of a call by the names of the schema."""
    arguments = row.schema.arguments
    positional = [a for a in arguments if not a.kwarg_only]
    values: dict[str, typing.Any] = {}
    given = list(args)
    for i, argument in enumerate(positional):
        if not given:
            break
        is_last_list = "[" in argument._written and argument._written.startswith(("int[", "SymInt["))
        if is_last_list and len(given) > 1 and all(isinstance(v, int) for v in given) and i == len(positional) - 1:
            values[argument.name], given = given, []
        elif is_last_list and i <= 1 and len(given) > len(positional) - i:
            values[argument.name], given = given, []
        else:
            values[argument.name] = given.pop(0)
    names = {a.name for a in arguments}
    for name, value in kwargs.items():
        values[name if name in names else _ALIASES.get(name, name)] = value
    return values


def _overload(row: Row, values: dict[str, typing.Any]) -> ops.OpOverload:
    """Return the overload of a call: the row's, that with a number, or that with `out=`."""
    found = row.overload
    name = found._overloadname
    if values.get("out") is not None:
        return row.packet._with_out(name)
    if name in _WITH_NUMBER and row.name not in _NUMBERS_AS_TENSORS:
        arguments = row.schema.arguments
        if len(arguments) > 1 and arguments[1]._written == "Tensor" and _is_number(values.get(arguments[1].name)):
            second = _WITH_NUMBER[name][0]
            return getattr(row.packet, second) if second in row.packet.overloads() else found
        if _is_number(values.get(arguments[0].name)):
            first = _WITH_NUMBER[name][1]
            return getattr(row.packet, first) if first in row.packet.overloads() else found
    return found


def _normal(
    schema: _schema.FunctionSchema, values: dict[str, typing.Any]
) -> tuple[tuple[typing.Any, ...], dict[str, typing.Any]]:
    """Return the arguments of a call in the order of its schema, without defaults at the end."""
    args: list[typing.Any] = []
    kwargs: dict[str, typing.Any] = {}
    known = set()
    for argument in schema.arguments:
        known.add(argument.name)
        given = argument.name in values
        value = _arrange(values[argument.name], argument) if given else argument.default_value
        if argument.kwarg_only:
            if given and not _equals_default(value, argument):
                kwargs[argument.name] = value
        else:
            args.append(value)
    positional = [a for a in schema.arguments if not a.kwarg_only]
    while (
        args and positional[len(args) - 1].has_default_value() and _equals_default(args[-1], positional[len(args) - 1])
    ):
        args.pop()
    for name, value in values.items():
        if name not in known and name != "requires_grad" and value is not None:
            kwargs[name] = value
    return tuple(args), kwargs


def _equals_default(value: typing.Any, argument: _schema.Argument) -> bool:
    default = argument.default_value
    if isinstance(value, _C.Tensor) or not argument.has_default_value():
        return False
    return (
        type(value) is type(default)
        and value == default
        or (_is_number(value) and _is_number(default) and not isinstance(value, bool) and value == default)
    )


def _operands(args: Sequence[typing.Any], kwargs: dict[str, typing.Any]) -> Iterator[typing.Any]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _classes(args: Sequence[typing.Any], kwargs: dict[str, typing.Any]) -> list[type]:
    """Return the classes of tensors of a call that answer calls: subclasses first, then by position."""
    found: list[type] = []
    for value in _operands(args, kwargs):
        kind = type(value)
        if kind is _C.Tensor or not isinstance(value, _C.Tensor) or kind in found:
            continue
        if kind.__torch_dispatch__ is _C.Tensor.__torch_dispatch__:
            continue
        at = next((i for i, other in enumerate(found) if issubclass(kind, other)), len(found))
        found.insert(at, kind)
    return found


#: The answers of modes and classes to single operators, which `torch.library.register_torch_dispatch` set.
_REGISTERED: dict[tuple[str, type], Callable[..., typing.Any]] = {}


def register(name: str, kind: type, answer: Callable[..., typing.Any]) -> None:
    """Set the answer of a mode's class, or of a class of tensors, to the calls of an operator such as `aten::add`."""
    _REGISTERED[name, kind] = answer


def _answer_of(who: typing.Any, kind: type, func: typing.Any) -> Callable[..., typing.Any]:
    """Return the answer of a mode or a class to an operator: the registered one, or its `__torch_dispatch__`."""
    own = _REGISTERED.get((func.overloadpacket._qualified_op_name, kind)) if _REGISTERED else None
    return who.__torch_dispatch__ if own is None else functools.partial(own, who)


def offer(func: typing.Any, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> typing.Any:
    """Call the innermost mode, and then the classes of the operands, until one does not return `NotImplemented`."""
    classes = _classes(args, kwargs)
    mode = _C._pop_torch_dispatch_mode()
    if mode is not None:
        try:
            result = _answer_of(mode, type(mode), func)(func, tuple(classes), args, kwargs)
        finally:
            _C._push_torch_dispatch_mode(mode)
        if result is not NotImplemented:
            return result
    for kind in classes:
        result = _answer_of(kind, kind, func)(func, tuple(classes), args, kwargs)
        if result is not NotImplemented:
            return result
    lines = [f"\n\n  - mode object {mode}"] if mode is not None else []
    lines += [f"\n\n  - tensor subclass {kind}" for kind in classes]
    raise TypeError(
        f"Multiple dispatch failed for 'torch.ops.{func}'; all __torch_dispatch__ handlers returned NotImplemented:"
        f"{''.join(lines)}\n\nFor more information, try re-running with TORCH_LOGS=not_implemented"
    )


def is_offered(args: Sequence[typing.Any], kwargs: dict[str, typing.Any]) -> bool:
    """Whether a mode or a class gets a call with these arguments."""
    if _C._set_torch_dispatch_disabled(False):
        _C._set_torch_dispatch_disabled(True)
        return False
    return bool(_C._torch_dispatch_modes()) or any(_C._is_foreign(v) for v in _operands(args, kwargs))


#: Rows that change what autograd knows, and compute nothing.
_ABOVE = frozenset({"requires_grad_"})
#: Kernels that `torch.library` put in the place of aten's: by the name of the overload, then by dispatch key.
_OVERRIDES: dict[str, dict[str, Callable[..., typing.Any]]] = {}
#: Overloads whose kernel of `_OVERRIDES` runs in this thread: its own calls reach the library.
_RUNNING = threading.local()
_KEYS = {"cpu": "CPU", "meta": "Meta", "tpu": "PrivateUse1"}


def override(name: str, key: str, kernel: Callable[..., typing.Any]) -> None:
    """Put a kernel in the place of that of an overload, such as `add.Tensor`, for a dispatch key."""
    if not _OVERRIDES:
        _C._set_dispatch_overridden(True)
    _OVERRIDES.setdefault(name, {})[key] = kernel


def restore(name: str, key: str) -> None:
    """Undo `override`."""
    kernels = _OVERRIDES.get(name, {})
    kernels.pop(key, None)
    if not kernels:
        _OVERRIDES.pop(name, None)
    if not _OVERRIDES:
        _C._set_dispatch_overridden(False)


def _override_of(name: str, args: Sequence[typing.Any], kwargs: dict[str, typing.Any]) -> typing.Any:
    """Return the kernel that takes the place of that of an overload, or `None`."""
    kernels = _OVERRIDES.get(name)
    if kernels is None or name in getattr(_RUNNING, "names", ()):
        return None
    device = next((v.device for v in _operands(args, kwargs) if isinstance(v, _C.Tensor)), kwargs.get("device"))
    kind = getattr(device, "type", None) or str(device or _C.get_default_device()).partition(":")[0]
    own = _KEYS.get(kind, "CPU")
    for key in (f"Autograd{own}", "Autograd", own, kind, "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
        if key in kernels:
            return functools.partial(_run_override, name, kernels[key])
    return None


def _run_override(name: str, kernel: Callable[..., typing.Any], *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
    before = getattr(_RUNNING, "names", ())
    _RUNNING.names = (*before, name)
    try:
        return kernel(*args, **kwargs)
    finally:
        _RUNNING.names = before


def answer_row(
    name: str, in_place: bool, stage: str, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]
) -> typing.Any:
    """Answer the call of a row. `NotImplemented` leaves it to the library, whose parts are offered then.

    Stage `composition` asks for the parts of a composition only, `operator` only for the call by its own name.
    """
    from . import _compositions

    row = _row(name, in_place)
    if row.name in _ABOVE:
        return NotImplemented
    values = _bind(row, args, kwargs)
    func = _overload(row, values)
    full = func.name().removeprefix("aten::")
    if _OVERRIDES and stage != "operator" and not _C._torch_dispatch_modes():
        kernel = _override_of(full, args, kwargs)
        if kernel is not None:
            positional, named = _normal(func._schema if values.get("out") is None else row.schema, values)
            return kernel(*positional, **named)
    if not is_offered(args, kwargs):
        return NotImplemented
    if stage != "operator" and full in COMPOSITE and getattr(_innermost(), "keeps_compositions", False):
        positional, named = _normal(func._schema if values.get("out") is None else row.schema, values)
        return offer(func, positional, _with_device(row, positional, named))
    composed = _compositions.TABLE.get(full)
    if composed is not None and stage != "operator" and values.get("out") is None:
        positional, named = _normal(row.schema, values)
        result = composed(*positional, **named)
        if result is not NotImplemented:
            return result
    if stage == "operator" and full in _compositions.OPERATORS:
        positional, named = _normal(row.schema, values)
        name, arguments = _compositions.OPERATORS[full](*positional, **named)
        return offer(getattr(ops.aten, name).default, arguments, {})
    # A mode gets the parts that the library composes; a class gets the call.
    if stage == "composition" or stage == "call" and full in COMPOSITE and _C._torch_dispatch_modes():
        return NotImplemented
    arguments, named = _normal(func._schema if values.get("out") is None else row.schema, values)
    return offer(func, arguments, _with_device(row, arguments, named))


def _innermost() -> typing.Any:
    """Return the innermost mode of this thread, or `None`."""
    modes = _C._torch_dispatch_modes()
    return modes[-1] if modes else None


def _with_device(row: Row, arguments: Sequence[typing.Any], named: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Add the arguments that PyTorch gives operators that make tensors."""
    if any(a.name == "pin_memory" for a in row.schema.arguments):
        if not any(isinstance(v, _C.Tensor) for v in arguments):
            named.setdefault("device", _C.get_default_device())
        named.setdefault("pin_memory", False)
    return named


def answer_op(op: typing.Any, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> typing.Any:
    """Answer the call of an op: the name of an overload, or an op that no aten operator computes."""
    if not isinstance(op, str):
        return offer(_prim(op, len(args)), args, kwargs)
    name, _, overload = op.partition(".")
    if name == "reshape":
        from ._compositions import reshape

        return reshape(*args)
    return offer(getattr(getattr(ops.aten, name), overload), args, kwargs)


def _prim(op: typing.Any, count: int) -> typing.Any:
    packet = ops.OpOverloadPacket("prims", op.name, op)
    operands = ", ".join(f"Tensor x{i}" for i in range(count))
    packet._texts = {"default": f"{op.name}({operands}) -> Tensor"}
    return ops.OpOverload(packet, "default")


# ---- Python's operators


def _swap(function: Callable[..., typing.Any]) -> Callable[..., typing.Any]:
    return lambda a, b: function(b, a)


def _is_operand(value: object) -> bool:
    return isinstance(value, _C.Tensor) or _is_number(value)


_NAMES = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    "pow": "pow", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "matmul": "matmul",
}  # fmt: skip


@functools.cache
def _operators() -> dict[str, Callable[..., typing.Any]]:
    from ._indexing import getitem, setitem

    table: dict[str, Callable[..., typing.Any]] = {}
    for name, own in _NAMES.items():
        function = getattr(_C._ops, own)
        table[f"__{name}__"] = _check(function)
        table[f"__r{name}__"] = _check(_swap(function))
        in_place = getattr(_C.Tensor, f"{own}_", None)
        if in_place is not None:
            table[f"__i{name}__"] = _check(in_place)
    table["__radd__"] = table["__add__"]
    table["__rmul__"] = table["__mul__"]
    table["__rsub__"] = _check(_C._ops.rsub)
    table["__rtruediv__"] = _check(lambda a, b: _C._ops.mul(_C._ops.reciprocal(a), b))
    table["__neg__"] = _C._ops.neg
    table["__abs__"] = _C._ops.abs
    table["__invert__"] = _C._ops.bitwise_not
    table["__pos__"] = lambda a: a
    table["__getitem__"] = getitem
    table["__setitem__"] = setitem
    table["tensor"] = lambda a: ops.aten.lift_fresh.default(a)
    table["number"] = lambda a: ops.aten._local_scalar_dense.default(a)
    for name, kind in (("__bool__", bool), ("__int__", int), ("__float__", float), ("__complex__", complex)):
        table[name] = functools.partial(_convert, kind)
    table["__index__"] = lambda a: operator.index(a.item())
    table["__len__"] = lambda a: a.shape[0]
    table["__contains__"] = lambda a, value: bool((a == value).any())
    return table


def _convert(kind: type, a: typing.Any) -> typing.Any:
    return kind(a.item())


def _check(function: Callable[..., typing.Any]) -> Callable[..., typing.Any]:
    def call(a: typing.Any, b: typing.Any) -> typing.Any:
        if not (_is_operand(a) and _is_operand(b)):
            return NotImplemented
        try:
            return function(a, b)
        except TypeError:
            return NotImplemented  # as in PyTorch: the other operand is asked

    return call


def answer_operator(name: str, args: tuple[typing.Any, ...]) -> typing.Any:
    """Answer an operator, an index, or the reading of an element."""
    return _operators()[name](*args)


def wrapper(
    cls: type, size: typing.Any, strides: typing.Any, dtype: typing.Any, device: typing.Any, requires_grad: bool
) -> typing.Any:
    """Return an object of a class with `__torch_dispatch__` without elements."""
    return _C._wrapper_subclass(
        cls, [*map(int, size)], None if strides is None else [*map(int, strides)], dtype, device, requires_grad
    )


_C._set_dispatch_answers(answer_row, answer_op, answer_operator)
