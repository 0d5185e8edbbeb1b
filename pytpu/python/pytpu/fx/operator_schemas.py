"""`torch.fx.operator_schemas`: parameters of operators, and calls in one form."""

from __future__ import annotations

import functools
import inspect
import numbers
import re
import types
import typing
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytpu as torch

from ._compatibility import compatibility

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]

_Parameter = inspect.Parameter


@compatibility(is_backward_compatible=False)
class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _OpSchema:
    """The schema of an overload: its text, and whether it writes to an operand."""

    def __init__(self, text: str) -> None:
        head = text.partition("(")[0]
        self.name, _, self.overload_name = head.partition(".")
        self.text, self.is_mutable = text, "!" in text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


# Types of schemas. Dtypes, layouts and memory formats are integers in them.
_TYPES: dict[str, Any] = {
    "Tensor": torch.Tensor,
    "int": int,
    "SymInt": int,
    "float": float,
    "bool": bool,
    "str": str,
    "complex": complex,
    "Scalar": numbers.Number,
    "ScalarType": int,
    "Layout": int,
    "MemoryFormat": int,
    "Device": torch.device,
}


def _python_type(kind: str) -> Any:
    if kind.endswith("?"):
        return typing.Optional[_python_type(kind[:-1])]  # noqa: UP045
    if kind.endswith("]"):
        return typing.List[_python_type(kind[: kind.rindex("[")])]  # type: ignore[misc]  # noqa: UP006
    return _TYPES.get(kind, Any)


@functools.cache
def _signature(text: str) -> inspect.Signature:
    """Return the parameters in a schema. The operand `self` is named `input`, as in Python."""
    from .._operators.schema import _Schema

    # Schemas name this default of losses, whose type is a number.
    parsed = _Schema(text[text.index("(") :].replace("=Mean", "=1"))
    parameters: list[_Parameter] = []
    for argument in parsed.arguments:
        default = argument.default
        width = re.search(r"\[(\d+)\]", argument.type)
        if width and isinstance(default, (int, float)):
            default = [default] * int(width.group(1))
        kind: Any = _Parameter.KEYWORD_ONLY if argument.keyword_only else _Parameter.POSITIONAL_OR_KEYWORD
        name = "input" if argument.name == "self" else argument.name
        if name == "from":
            # A parameter cannot have the name of a keyword, unless it is only positional, and then so are those before.
            kind = _Parameter.POSITIONAL_ONLY
            parameters = [p.replace(kind=kind) for p in parameters]
        parameters.append(_Parameter(name, kind, default=default, annotation=_python_type(argument.type)))
    returns = [_python_type(part.split(" ")[0].partition("(")[0]) for part in parsed.returns]
    return inspect.Signature(
        parameters,
        return_annotation=None if not returns else returns[0] if len(returns) == 1 else tuple[tuple(returns)],  # type: ignore[misc]
    )


def _schemas_of(op: Callable[..., Any]) -> list[_OpSchema] | None:
    """Return the schemas of an operator, or `None` for any other function."""
    ops = torch._ops
    if isinstance(op, (ops.OpOverload, ops.OpOverloadPacket)):
        packet: Any = op if isinstance(op, ops.OpOverloadPacket) else op.overloadpacket
        space, _, name = packet._qualified_op_name.partition("::")
        if space == "aten":
            texts = [f"aten::{text}" for text in torch._C._schemas(name)]
        else:
            made = torch.library._REGISTRY.get(packet._qualified_op_name)
            texts = [] if made is None else [f"{packet._qualified_op_name}{made.schema.text}"]
        if isinstance(op, ops.OpOverload):
            head = op.name()
            texts = [text for text in texts if text.partition("(")[0] == head] or texts
        return [_OpSchema(text) for text in texts]
    name = getattr(op, "__name__", None)
    if not isinstance(op, types.BuiltinFunctionType) or name is None or not _is_op(op, name):
        return None
    texts = torch._C._schemas(name)
    return [_OpSchema(f"aten::{text}") for text in texts] or None


def _is_op(op: Any, name: str) -> bool:
    spaces = (torch, torch.nn.functional, torch.linalg, torch.fft, torch.special)
    return any(
        getattr(space, name.partition("_")[2] if prefix else name, None) is op for space in spaces for prefix in (0, 1)
    )


@compatibility(is_backward_compatible=False)
def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """Return the parameters of the overloads of an operator: a list of `inspect.Signature`.

    Args:
        op: An operator, such as `torch.add` or `torch.ops.aten.add.Tensor`.
        return_schemas: Return a pair, whose second item is the list of schemas.

    Returns:
        `None`, or a pair of `None`, for any other function.
    """
    if op is torch.nonzero:
        tensor = _Parameter("self", _Parameter.POSITIONAL_OR_KEYWORD, annotation=torch.Tensor)
        as_tuple = _Parameter("as_tuple", _Parameter.KEYWORD_ONLY, annotation=bool)
        made = [inspect.Signature([tensor]), inspect.Signature([tensor, as_tuple])]
        return (made, None) if return_schemas else None
    schemas = _schemas_of(op)
    signatures = None if schemas is None else [_signature(schema.text) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


def _binds(signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


@compatibility(is_backward_compatible=False)
def check_for_mutable_operation(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise `RuntimeError` if a call is one of an operator that writes to its operands, also by `out`."""
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    if not signatures or not schemas:
        return
    plain = {key: value for key, value in kwargs.items() if key != "out"}
    matches = [schema for signature, schema in zip(signatures, schemas) if _binds(signature, args, plain)]
    if len(matches) != 1:
        return
    schema = matches[0].text
    if "out" in kwargs and "Tensor(a!) out" not in schema:
        # Overloads that write into `out` are not listed: their schema follows from that of the function.
        head, rest = schema.split("(", 1)
        given, returned = rest.rsplit(") -> ", 1)
        star = "" if "*, " in given else "*, "
        schema = (
            f"{head.split('.')[0]}.out({given}, {star}Tensor(a!) out) -> {returned.replace('Tensor', 'Tensor(a!)')}"
        )
    if "!" in schema:
        raise RuntimeError(
            f"Tried to trace mutable operation {schema}. FX only supports functional code, so operations that mutate "
            "operands in-place (e.g. via `out` arguments) are not supported"
        )


@compatibility(is_backward_compatible=False)
def create_type_hint(x: Any) -> Any:
    """Return the annotation of a list or tuple of classes: `list[T]` or `tuple[T, ...]`.

    `T` is the class of which all are subclasses, or `Any`. Any other value is returned as it is.
    """
    if not isinstance(x, (list, tuple)):
        return x
    try:
        base = x[0] if x else Any
        for item in x:
            if not issubclass(item, base):
                base = item if issubclass(base, item) else Any
            if base is Any:
                break
        return list[base] if isinstance(x, list) else tuple[base, ...]  # type: ignore[valid-type]
    except Exception:
        warnings.warn(f"We were not able to successfully create type hint from the type {x}", stacklevel=2)
    return x


@compatibility(is_backward_compatible=False)
def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Return whether an argument of one type can be given for a parameter of another type."""
    if signature_type is argument_type:
        return True
    origin = getattr(signature_type, "__origin__", signature_type)
    if origin is typing.Union and signature_type != argument_type:
        return any(type_matches(part, argument_type) for part in typing.get_args(signature_type))
    if origin is list:
        return _list_matches(signature_type, argument_type)
    if signature_type is int and argument_type is torch.dtype:
        return True
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    return (
        inspect.isclass(argument_type) and inspect.isclass(signature_type) and issubclass(argument_type, signature_type)
    )


def _list_matches(signature_type: Any, argument_type: Any) -> bool:
    item = typing.get_args(signature_type)[0]
    if item is int and argument_type is int:
        return True  # One number stands for all.
    if not inspect.isclass(item):
        warnings.warn(
            f"Does not support nested parametric types, got {signature_type}. Please file a bug.", stacklevel=3
        )
        return False
    given = typing.get_args(argument_type)
    if typing.get_origin(argument_type) is list:
        return issubclass(given[0], item)
    if typing.get_origin(argument_type) is tuple:
        return given == ((),) or all(part is ... or issubclass(part, item) for part in given)
    return False


@compatibility(is_backward_compatible=False)
def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call by the parameters of the function, with defaults filled in.

    Args:
        target: The function.
        args: Positional arguments.
        kwargs: Keyword arguments.
        arg_types: Types of the positional arguments, to choose between overloads.
        kwarg_types: Types of the keyword arguments.
        normalize_to_only_use_kwargs: Return all arguments by keyword.

    Returns:
        The arguments, or `None` if the function has parameters such as `*args`, or if they are not known.

    Raises:
        RuntimeError: Several overloads fit, and no types are given.
    """
    kwargs = kwargs or {}
    ops = torch._ops
    kinds = (types.BuiltinFunctionType, ops.OpOverload, ops.OpOverloadPacket)
    if not isinstance(target, kinds) and hasattr(target, "_op"):
        target = target._op
    if not isinstance(target, kinds):
        if not callable(target):
            raise AssertionError(f"target_for_analysis must be callable, got {type(target)}")
        signature = inspect.signature(inspect.unwrap(target))
        return _normalize(signature, args, kwargs, normalize_to_only_use_kwargs)
    signatures = get_signature_for_torch_op(target) or []
    matches = [signature for signature in signatures if _binds(signature, args, kwargs)]
    if len(matches) == 1:
        return _normalize(matches[0], args, kwargs, normalize_to_only_use_kwargs)
    if not matches:
        return None
    if arg_types is None and kwarg_types is None:
        raise RuntimeError(
            f"Tried to normalize arguments to {torch.typename(target)} but the schema match was ambiguous! Please "
            "provide argument types to the normalize_arguments() call. Available schemas:\n"
            + "\n".join(str(signature) for signature in matches)
        )
    for signature in signatures:
        try:
            bound = signature.bind(*(arg_types or ()), **(kwarg_types or {}))
        except TypeError:
            continue
        if all(type_matches(signature.parameters[key].annotation, given) for key, given in bound.arguments.items()):
            return _normalize(signature, args, kwargs, normalize_to_only_use_kwargs)
    return None


@compatibility(is_backward_compatible=False)
def normalize_module(
    root: torch.nn.Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call by the parameters of the `forward` of a module of `torch.nn`.

    Args:
        root: The module whose hierarchy has the target.
        target: The path of the module.
        args: Positional arguments.
        kwargs: Keyword arguments.
        normalize_to_only_use_kwargs: Return all arguments by keyword.

    Returns:
        The arguments, or `None` for any other module.

    Raises:
        RuntimeError: There is no module at the path.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if getattr(torch.nn, type(module).__name__, None) is not type(module):
        return None
    signature = inspect.signature(inspect.unwrap(module.forward))
    return _normalize(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _normalize(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_kwargs: bool
) -> ArgsKwargsPair | None:
    names = list(signature.parameters)
    supported = (_Parameter.POSITIONAL_OR_KEYWORD, _Parameter.KEYWORD_ONLY)
    # Random fills have a parameter named `from`, which cannot be given by keyword.
    if names != ["input", "from", "to", "generator"]:
        if any(p.kind not in supported for p in signature.parameters.values()):
            return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    count = 0 if only_kwargs else len(args)
    return ArgsKwargsPair(
        tuple(bound.arguments[name] for name in names[:count]), {name: bound.arguments[name] for name in names[count:]}
    )
