"""The classes whose instances are nodes of trees: how they come apart, and what written specs call them."""

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

from .._size import Size


class NodeDef(NamedTuple):
    """The functions that take nodes of one class apart and put them together."""

    type: type
    flatten_fn: Callable
    unflatten_fn: Callable
    flatten_with_keys_fn: Callable | None


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The place in a sequence."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The key in a mapping."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The name of an attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def is_namedtuple(obj):
    """Return whether this is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_class(cls):
    """Return whether this is a class of named tuples."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(type(f) is str for f in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj):
    """Return whether this is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_structseq(obj):
    """Return whether this is a tuple with names that C functions return, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls):
    """Return whether this is a class of such tuples."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, f"n_{what}fields", None), int) for what in ("", "sequence_", "unnamed_"))
    )


def is_structseq_instance(obj):
    """Return whether this is such a tuple."""
    return is_structseq_class(type(obj))


def _sequence_keys(children):
    return [(SequenceKey(i), child) for i, child in enumerate(children)]


def _mapping_keys(mapping):
    return [(MappingKey(key), child) for key, child in mapping.items()]


def _list_flatten(d):
    return d, None


def _list_unflatten(values, context):
    return list(values)


def _tuple_flatten(d):
    return list(d), None


def _tuple_unflatten(values, context):
    return tuple(values)


def _dict_flatten(d):
    return list(d.values()), list(d)


def _dict_unflatten(values, context):
    return dict(zip(context, values))


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values))


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_unflatten(values, context):
    return defaultdict(context[0], zip(context[1], values))


def _deque_flatten(d):
    return list(d), d.maxlen


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


def _namedtuple_flatten(d):
    return list(d), type(d)


def _namedtuple_unflatten(values, context):
    return context(*values)


def _namedtuple_flatten_with_keys(d):
    return [(GetAttrKey(name), child) for name, child in zip(d._fields, d)], type(d)


SUPPORTED_NODES = {}


_MAPPINGS = (dict, OrderedDict, defaultdict)


def _dict_flatten_with_keys(d):
    return _mapping_keys(d), list(d)


def _defaultdict_flatten_with_keys(d):
    return _mapping_keys(d), _defaultdict_flatten(d)[1]


def _list_flatten_with_keys(d):
    return _sequence_keys(d), None


def _size_unflatten(values, context):
    # The values may be anything while a tree is mapped.
    values = list(values)
    return Size(values) if all(isinstance(v, int) for v in values) else tuple(values)


for _node in (
    NodeDef(list, _list_flatten, _list_unflatten, _list_flatten_with_keys),
    NodeDef(tuple, _tuple_flatten, _tuple_unflatten, _list_flatten_with_keys),
    NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    NodeDef(OrderedDict, _dict_flatten, _ordereddict_unflatten, _dict_flatten_with_keys),
    NodeDef(defaultdict, _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys),
    NodeDef(deque, _deque_flatten, _deque_unflatten, lambda d: (_sequence_keys(d), d.maxlen)),
    NodeDef(namedtuple, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys),
    NodeDef(Size, _tuple_flatten, _size_unflatten, _list_flatten_with_keys),
):
    SUPPORTED_NODES[_node.type] = _node


BUILTIN_TYPES = frozenset(SUPPORTED_NODES)


class _SerializeNodeDef(NamedTuple):
    """The name of a class in written specs, and the functions that write its context and read it."""

    typ: type
    serialized_type_name: str
    to_dumpable_context: Callable | None
    from_dumpable_context: Callable | None


NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


SUPPORTED_SERIALIZED_TYPES = {}


SERIALIZED_TYPE_TO_PYTHON_TYPE = {}


def _register_serialized(cls, name, to_dumpable_context=None, from_dumpable_context=None):
    if (to_dumpable_context is None) is not (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    name = NO_SERIALIZED_TYPE_NAME_FOUND if name is None else name
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _namedtuple_serialize(context):
    known = SUPPORTED_SERIALIZED_TYPES.get(context)
    if known is None:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a "
            "serialized_type_name. Please register using `_register_namedtuple`."
        )
    return known.serialized_type_name


def _namedtuple_deserialize(name):
    if name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {name} because we couldn't find a serialized name."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[name]


_FACTORIES = {cls.__name__: cls for cls in (int, float, str, bool, list, dict, tuple, set)}


def _defaultdict_serialize(context):
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_deserialize(context):
    # A spec may come from a file, so that it names no other functions than these.
    name = context["default_factory_name"]
    if context["default_factory_module"] != "builtins" or name not in _FACTORIES:
        raise NotImplementedError(f"a defaultdict of {context['default_factory_module']}.{name} is not read from files")
    return [_FACTORIES[name], context["dict_context"]]


_register_serialized(tuple, "builtins.tuple")
_register_serialized(list, "builtins.list")
_register_serialized(dict, "builtins.dict")
_register_serialized(namedtuple, "collections.namedtuple", _namedtuple_serialize, _namedtuple_deserialize)
_register_serialized(OrderedDict, "collections.OrderedDict")
_register_serialized(defaultdict, "collections.defaultdict", _defaultdict_serialize, _defaultdict_deserialize)
_register_serialized(deque, "collections.deque")
_register_serialized(Size, "torch.Size")
