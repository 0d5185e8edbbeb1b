"""``torch.export.dynamic_shapes``: which sizes of the inputs may change."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytpu as torch

from .. import _expressions
from .._dynamo.exc import UserError, UserErrorType
from .._expressions import int_oo
from ..utils import _pytree as pytree

__all__ = [
    "AdditionalInputs",
    "Constraint",
    "Dim",
    "ShapesCollection",
    "dims",
    "refine_dynamic_shapes_from_suggested_fixes",
]


class _DimHintType(enum.Enum):
    """What is known of a size without a name."""

    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()


@dataclasses.dataclass
class _DimHint:
    """A size without a name: `Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`."""

    type: _DimHintType
    min: int | None = None
    max: int | None = None

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:
        """Return the hint with a range.

        Raises:
            AssertionError: The range is empty, or the size is static.
        """
        if self.type is _DimHintType.STATIC:
            raise AssertionError("Dim.STATIC cannot have a range")
        if (min is not None and min < 0) or (max is not None and max < 0):
            raise AssertionError(f"min and max must be non-negative, got min={min}, max={max}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return _DimHint(self.type, min, max)

    def __repr__(self) -> str:
        parts = [self.type.name]
        parts += [f"min={self.min}"] if self.min is not None else []
        parts += [f"max={self.max}"] if self.max is not None else []
        return f"DimHint({', '.join(parts)})"


class Dim:
    """A size that may change, with a name.

    Sizes with the same `Dim` are equal in all calls. ``2 * dim + 1`` is a size that follows from another.
    `Dim.DYNAMIC` and `Dim.AUTO` are sizes without a name: the first must not be fixed by the program, the second may.
    `Dim.STATIC` is a fixed size.

    Args:
        name: the name: an identifier.
        min: the least size. ``None`` is 0.
        max: the greatest size. ``None`` has no bound.

    Raises:
        AssertionError: If the name is no identifier, or the range has not two sizes.

    Example:
        >>> import pytpu as torch
        >>> batch = torch.export.Dim("batch", max=64)
        >>> batch, 2 * batch + 1
        (Dim('batch', min=0, max=64), 2*batch + 1)
    """

    AUTO = _DimHint(_DimHintType.AUTO)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    STATIC = _DimHint(_DimHintType.STATIC)

    __name__: str
    min: Any
    max: Any

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low, high = 0 if min is None else min, int_oo if max is None else max
        if not high > low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__, self.min, self.max = name, low, high

    def __add__(self, other: int) -> Dim:
        return self._derived(1, self._checked("add", "to", other))

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self._derived(1, -self._checked("subtract", "from", other))

    def __rsub__(self, other: int) -> Dim:
        raise NotImplementedError(
            f"Attempted to negate {self.__name__}. (Only increasing linear operations with integer coefficients are "
            "supported.)"
        )

    def __mul__(self, other: int) -> Dim:
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. (Only "
                "increasing linear operations with integer coefficients are supported.)"
            )
        return self._derived(other, 0)

    __rmul__ = __mul__

    def _checked(self, verb: str, word: str, other: Any) -> int:
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to {verb} {other} {word} {self.__name__}, where an integer was expected. (Only increasing "
                "linear operations with integer coefficients are supported.)"
            )
        return other

    def _derived(self, factor: int, offset: int) -> Dim:
        return _DerivedDim(self, factor, offset)

    def __repr__(self) -> str:
        least = None if self.min == 2 else self.min
        most = None if self.max == int_oo else self.max
        parts = [f"min={least}"] if least is not None else []
        parts += [f"max={most}"] if most is not None else []
        return f"Dim({', '.join([repr(self.__name__), *parts])})"


class _DerivedDim(Dim):
    """``factor * root + offset`` for a `Dim` with a name."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        self.root, self.factor, self.offset = root, factor, offset
        self.__name__ = str(_expressions.symbol(root.__name__) * factor + offset)

    def fn(self, value: Any) -> Any:
        """Return the size for a size of the root."""
        return self.factor * value + self.offset

    @property
    def min(self) -> Any:  # type: ignore[override]
        """The least size."""
        found = self.fn(self.root.min)
        if found < 0:
            raise AssertionError(
                f"Expected derived min value of {self.__name__} to be >= 0. Please specify an appropriate min value "
                f"for {self.root.__name__} (currently {self.root.min})."
            )
        return found

    @property
    def max(self) -> Any:  # type: ignore[override]
        """The greatest size."""
        return int_oo if self.root.max == int_oo else self.fn(self.root.max)

    def _derived(self, factor: int, offset: int) -> Dim:
        return _DerivedDim(self.root, self.factor * factor, self.offset * factor + offset)

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return a `Dim` for each name, all with the same range."""
    return tuple(Dim(name, min=min, max=max) for name in names)


@dataclasses.dataclass
class Constraint:
    """The range of one dimension of a tensor.

    Attributes:
        t_id: the identity of the tensor.
        dim: the dimension.
        min: the least size.
        max: the greatest size.
    """

    t_id: int
    dim: int
    min: int = 0
    max: float = int_oo


class _IntWrapper:
    """An int with an identity, for `ShapesCollection`."""

    def __init__(self, val: int) -> None:
        self.val = val


# ---- arguments by name


def _signature(f: Any) -> inspect.Signature:
    return inspect.signature(f.forward if isinstance(f, torch.nn.Module) else f)


def combine_args(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of a call by the names of parameters."""
    bound = _signature(f).bind(*args, **(kwargs or {}))
    return dict(bound.arguments)


def _is_spec(value: Any) -> bool:
    """Return whether this is the specification of one leaf."""
    if value is None or isinstance(value, (Dim, _DimHint, str)) or type(value) is int:
        return True
    if isinstance(value, dict):
        return bool(value) and all(type(key) is int for key in value)
    if isinstance(value, (list, tuple)):
        return all(v is None or type(v) is int or isinstance(v, (Dim, _DimHint)) for v in value)
    return False


class ShapesCollection:
    """Specifications of tensors by the tensors themselves, for arguments with a deep tree.

    Example:
        >>> import pytpu as torch
        >>> x, y = torch.zeros(2, 3), torch.zeros(2)
        >>> shapes = torch.export.ShapesCollection()
        >>> shapes[y] = {0: torch.export.Dim("n")}
        >>> shapes.dynamic_shapes(lambda pair: pair[0], (( x, y),))
        {'pair': (None, {0: Dim('n', min=0)})}
    """

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}
        # The tensors must stay, so that no other gets their identity.
        self._kept: list[Any] = []

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, (torch.Tensor, _IntWrapper)):
            raise AssertionError(f"Cannot assign shape to non-tensor or non-_IntWrapper type {type(t)}")
        known = self._shapes.setdefault(id(t), shape)
        self._kept.append(t)
        if known is not shape and known != shape:
            raise AssertionError(f"Shapes assigned to input do not match: expected {known}, got {shape}")

    def __getitem__(self, t: Any) -> Any:
        self._kept.append(t)
        return self._shapes.setdefault(id(t), {})

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """Return the specifications as a tree.

        Args:
            m: the module or function.
            args: its arguments.
            kwargs: its arguments by keyword.

        Raises:
            ValueError: A tensor is none of the arguments.
        """
        found: set[int] = set()

        def shape_of(leaf: Any) -> Any:
            if id(leaf) not in self._shapes:
                return None
            found.add(id(leaf))
            return self._shapes[id(leaf)]

        made = pytree.tree_map(shape_of, combine_args(m, args, kwargs))
        if found != set(self._shapes):
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when "
                "passing them as args? Maybe such tensors are contained in classes that were not registered with "
                "pytree?"
            )
        return made


class AdditionalInputs:
    """Further arguments of the program. Sizes that differ between them are `Dim.DYNAMIC`."""

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any] | None]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Add arguments of a call."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """Return the specifications as a tree.

        Raises:
            ValueError: Other values than sizes differ.
        """
        calls = [combine_args(m, a, k) for a, k in [(args, kwargs), *self._examples]]
        leaves, spec = pytree.tree_flatten(calls[0])
        others = [spec.flatten_up_to(call) for call in calls[1:]]

        def merged(values: tuple[Any, ...]) -> Any:
            first = values[0]
            if any(type(v) is not type(first) for v in values):
                raise ValueError(
                    "The following inputs were found to have differing types, so they cannot be marked as dynamic: "
                    f"{values}."
                )
            if isinstance(first, torch.Tensor):
                columns = list(zip(*(v.shape for v in values)))
                return tuple(None if len(set(column)) == 1 else Dim.DYNAMIC for column in columns)
            if any(v != first for v in values):
                if type(first) is int:
                    return Dim.DYNAMIC
                raise ValueError(
                    "The following inputs were found to have differing values, but they cannot be marked as dynamic: "
                    f"{values}."
                )
            return None

        return spec.unflatten([merged(values) for values in zip(leaves, *others)])

    def verify(self, ep: Any) -> None:
        """Check that the program accepts all arguments.

        Raises:
            RuntimeError: It does not.
        """
        for args, kwargs in self._examples:
            ep._check_inputs(args, kwargs or {})


# ---- specifications of a call


def _invalid(text: str) -> UserError:
    return UserError(UserErrorType.INVALID_INPUT, text, case_name="dynamic_shapes_validation")


def spec_of_leaves(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any) -> list[Any]:
    """Return the specification of each leaf of the arguments, in the order of the leaves of ``(args, kwargs)``.

    Args:
        f: the module.
        args: its arguments.
        kwargs: its arguments by keyword.
        dynamic_shapes: a dict by names of parameters, a list or tuple in their order, or ``None``.

    Raises:
        UserError: It does not fit the arguments.
    """
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(f, tuple(args), dict(kwargs or {}))
    combined = combine_args(f, args, kwargs)
    count = len(pytree.tree_leaves((tuple(args), dict(kwargs or {}))))
    if not dynamic_shapes:
        return [None] * count
    names = list(combined)
    parameters = _signature(f).parameters
    if isinstance(dynamic_shapes, (list, tuple)):
        if len(dynamic_shapes) != len(combined):
            raise _invalid(
                f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` has "
                f"{len(combined)} elements, but `dynamic_shapes` has {len(dynamic_shapes)} elements"
            )
        by_name = dict(zip(names, dynamic_shapes))
    else:
        by_name = dict(dynamic_shapes)
        variadic = next((n for n, p in parameters.items() if p.kind is p.VAR_KEYWORD), None)
        if variadic in combined and variadic not in by_name:
            # Keywords of `**kwargs` may be given by their own names.
            own = combined[variadic]
            by_name = {
                **{n: s for n, s in by_name.items() if n not in own},
                variadic: {n: by_name.get(n) for n in own},
            }
        if set(by_name) != set(names):
            given = list(by_name)
            raise _invalid(
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {names} of "
                f"`inputs`, but here they are {given}. Alternatively, you could also ignore arg names entirely and "
                "specify `dynamic_shapes` as a list/tuple matching `inputs`."
            )
    leaves: list[Any] = []
    for name, value in combined.items():
        _collect(value, by_name[name], f"`dynamic_shapes['{name}']`", leaves)
    # The leaves by parameters may have another order than those of the call.
    _, tree = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
    places = tree.unflatten([_Place(i) for i in range(tree.num_leaves)])
    ordered: list[Any] = [None] * count
    for place, spec in zip(pytree.tree_leaves(combine_args(f, *places)), leaves):
        ordered[place.index] = spec
    return ordered


class _Place:
    """The position of a leaf."""

    def __init__(self, index: int) -> None:
        self.index = index


def _collect(value: Any, spec: Any, where: str, leaves: list[Any]) -> None:
    """Append the specification of each leaf of a value."""
    if pytree.tree_is_leaf(value):
        leaves.append(_checked_leaf(value, spec, where))
        return
    if spec is None:
        leaves.extend([None] * len(pytree.tree_leaves(value)))
        return
    node = pytree.SUPPORTED_NODES[pytree._get_node_type(value)]
    children = list(node.flatten_fn(value)[0])
    if isinstance(value, dict):
        if not isinstance(spec, dict) or set(spec) != set(value):
            given = list(spec) if isinstance(spec, dict) else type(spec)
            raise _invalid(
                f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` has keys "
                f"{list(value)}, but {where} has {given}"
            )
        specs = [spec[key] for key in value]
    else:
        if isinstance(spec, dict) and not all(type(key) is int for key in spec):
            specs = list(spec.values())
        elif isinstance(spec, (list, tuple)):
            specs = list(spec)
        else:
            spec_children = pytree.SUPPORTED_NODES.get(pytree._get_node_type(spec))
            specs = list(spec_children.flatten_fn(spec)[0]) if spec_children is not None else [spec]
        if len(specs) != len(children):
            raise _invalid(
                f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` has "
                f"{len(children)} elements at {where}, but `dynamic_shapes` has {len(specs)} elements"
            )
    for i, (child, child_spec) in enumerate(zip(children, specs)):
        key = list(value)[i] if isinstance(value, dict) else i
        _collect(child, child_spec, f"{where[:-1]}[{key!r}]`", leaves)


def _checked_leaf(value: Any, spec: Any, where: str) -> Any:
    if not isinstance(value, torch.Tensor):
        if spec is None or type(value) is int:
            return spec
        raise _invalid(
            f"Cannot associate shape {spec} specified at {where} to non-tensor type {type(value)} (expected None)"
        )
    if spec is None:
        return None
    if isinstance(spec, dict):
        for dim, size in spec.items():
            if type(dim) is not int:
                raise _invalid(f"Unexpected dimension {dim!r} of a tensor at {where}: it must be an int")
            if not -value.dim() <= dim < value.dim():
                raise IndexError("list assignment index out of range")
            _checked_size(size, f"{where[:-1]}[{dim}]`")
        return {dim % value.dim(): size for dim, size in spec.items() if size is not None}
    if isinstance(spec, (list, tuple)):
        if len(spec) != value.dim():
            raise _invalid(
                f"Expected dynamic shape spec {spec} specified at {where} to have the same length as the actual tensor "
                f"shape {value.shape} (expected {value.dim()}, but got {len(spec)} instead)"
            )
        for dim, size in enumerate(spec):
            _checked_size(size, f"{where[:-1]}[{dim}]`")
        return {dim: size for dim, size in enumerate(spec) if size is not None}
    raise _invalid(
        f"Unexpected input tensor shape {spec} specified at {where} (expected either a list/tuple of dimensions, or a "
        "dict mapping indices to dimensions, where each dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or "
        "Dim.DYNAMIC)"
    )


def _checked_size(size: Any, where: str) -> None:
    if size is not None and type(size) is not int and not isinstance(size, (Dim, _DimHint)):
        raise _invalid(
            f"Unexpected dimension mapped to index in input tensor shape {size} specified at {where} (expected None, "
            f"an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC, but got {size!r} instead)"
        )


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes: Any) -> Any:
    """Return specifications with the fixes that the text of an error suggests, such as ``b = Dim('b', max=5)``.

    Args:
        msg: the text of the error.
        dynamic_shapes: the specifications, a dict, tuple or list.
    """
    import re

    fixes: dict[str, Any] = {}
    made: dict[str, Dim] = {}
    for line in msg.partition("Suggested fixes:")[2].splitlines():
        found = re.fullmatch(r"\s*(\w+) = (.+?)\s*", line)
        if found is None:
            continue
        name, text = found.groups()
        number = re.fullmatch(r"\d+", text)
        dim = re.fullmatch(r"Dim\('(\w+)'(?:, min=(\d+))?(?:, max=(\w+))?\)", text)
        derived = re.fullmatch(r"(?:(\d+)\*)?(\w+)(?: ([+-]) (\d+))?", text)
        if number:
            fixes[name] = int(text)
        elif dim:
            most = None if dim[3] in (None, "oo", "int_oo") else int(dim[3])
            fixes[name] = made[dim[1]] = Dim(dim[1], min=int(dim[2]) if dim[2] else None, max=most)
        elif derived:
            root = made.setdefault(derived[2], Dim(derived[2]))
            offset = int(derived[4] or 0) * (-1 if derived[3] == "-" else 1)
            fixes[name] = root * int(derived[1] or 1) + offset if (derived[1] or offset) else root

    def fixed(size: Any) -> Any:
        if isinstance(size, _DerivedDim):
            root = fixes.get(size.root.__name__, size.root)
            return fixes.get(size.__name__, size.fn(root) if type(root) is int else root * size.factor + size.offset)
        if isinstance(size, Dim):
            return fixes.get(size.__name__, size)
        return size

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(walk(item) for item in value)
        return fixed(value)

    return walk(dynamic_shapes)


def bounds(size: Any) -> tuple[Any, Any]:
    """Return the least and greatest value of a specification."""
    low = 0 if getattr(size, "min", None) is None else size.min
    high = math.inf if getattr(size, "max", None) is None else size.max
    return low, high
