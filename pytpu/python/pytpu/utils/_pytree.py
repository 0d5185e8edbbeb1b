"""``torch.utils._pytree``: trees of tuples, lists, dicts and registered classes, which can be flattened and rebuilt.

This module is private in PyTorch, but libraries register their output classes with it.
"""

import dataclasses
import json
from collections import defaultdict, deque, namedtuple
from typing import Any

from ._pytree_nodes import (
    _MAPPINGS,
    BUILTIN_TYPES as BUILTIN_TYPES,
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    GetAttrKey,
    MappingKey as MappingKey,
    NodeDef,
    SequenceKey as SequenceKey,
    _defaultdict_flatten as _defaultdict_flatten,
    _defaultdict_unflatten as _defaultdict_unflatten,
    _deque_flatten as _deque_flatten,
    _deque_unflatten as _deque_unflatten,
    _dict_flatten as _dict_flatten,
    _dict_flatten_with_keys as _dict_flatten_with_keys,
    _dict_unflatten as _dict_unflatten,
    _list_flatten as _list_flatten,
    _list_flatten_with_keys,
    _list_unflatten as _list_unflatten,
    _namedtuple_flatten as _namedtuple_flatten,
    _namedtuple_unflatten as _namedtuple_unflatten,
    _ordereddict_unflatten as _ordereddict_unflatten,
    _register_serialized,
    _SerializeNodeDef as _SerializeNodeDef,
    _tuple_flatten,
    _tuple_unflatten as _tuple_unflatten,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
)

__all__ = [
    "Context",
    "LeafSpec",
    "PyTree",
    "PyTreeSpec",
    "TreeSpec",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
]

PyTree = Any
Context = Any
KeyPath = tuple

# PyTorch defines them here, so pickles name them here.
for _item in (
    *(NodeDef, SequenceKey, MappingKey, GetAttrKey, _SerializeNodeDef),
    *(is_namedtuple, is_namedtuple_class, is_namedtuple_instance),
    *(is_structseq, is_structseq_class, is_structseq_instance),
):
    _item.__module__ = __name__


def register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
):
    """Register a class whose instances are nodes of trees.

    ``flatten_fn(obj)`` returns a list of children and a context. ``unflatten_fn(children, context)`` is its inverse.

    Raises:
        ValueError: the class is a node already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _register_serialized(cls, serialized_type_name, to_dumpable_context, from_dumpable_context)
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    to_str_fn=None,
    maybe_from_str_fn=None,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
):
    """Register a class, as ``register_pytree_node`` does under its old name."""
    register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _register_namedtuple(cls, *, serialized_type_name):
    """Give a class of named tuples a name in written specs."""
    _register_serialized(cls, serialized_type_name)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Register a dataclass. Its children are the fields that are not ``None``.

    Args:
        cls: the class.
        field_names: the fields that are children. ``None`` are all that ``__init__`` takes.
        drop_field_names: fields that are left out.
        serialized_type_name: the name of the class in written specs.

    Raises:
        ValueError: If the class is no dataclass, or a field is none of it.

    Example:
        >>> from dataclasses import dataclass
        >>> from torch.utils import _pytree as pytree
        >>> @dataclass
        ... class Point:
        ...     x: int
        ...     y: int
        >>> pytree.register_dataclass(Point)
        >>> pytree.tree_map(lambda v: v + 1, Point(1, 2))
        Point(x=2, y=3)
    """
    if not dataclasses.is_dataclass(cls) or not isinstance(cls, type):
        raise ValueError(f"register_dataclass() can only be used with dataclasses, got {cls}")
    known = [field.name for field in dataclasses.fields(cls) if field.init]
    names = known if field_names is None else list(field_names)
    names = [name for name in names if name not in set(drop_field_names or ())]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"field_names of {cls} include {unknown}, which are no fields that __init__ takes")

    def flatten(obj):
        values = {name: getattr(obj, name) for name in names}
        there = [name for name in names if values[name] is not None]
        return [values[name] for name in there], [there, [name for name in names if values[name] is None]]

    def unflatten(values, context):
        there, absent = context
        return cls(**dict(zip(there, values)), **dict.fromkeys(absent))

    def flatten_with_keys(obj):
        values, context = flatten(obj)
        return [(GetAttrKey(name), value) for name, value in zip(context[0], values)], context

    register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


def register_constant(cls):
    """Register a class whose instances are nodes without leaves. Its instances must be hashable.

    Raises:
        TypeError: If instances of the class cannot be compared or hashed by their contents.
    """
    if cls.__eq__ is object.__eq__:
        raise TypeError(
            f"register_constant(cls) expects `cls` to have a non-default `__eq__` implementation, got {cls}"
        )
    if cls.__hash__ is None:
        raise TypeError(f"register_constant(cls) expects `cls` to have a `__hash__` implementation, got {cls}")
    register_pytree_node(cls, lambda x: ([], x), lambda _, x: x)


def _deregister_pytree_node(cls):
    """Undo ``register_pytree_node``."""
    del SUPPORTED_NODES[cls]
    known = SUPPORTED_SERIALIZED_TYPES.pop(cls, None)
    if known is not None:
        SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(known.serialized_type_name, None)


def _get_node_type(tree):
    cls = type(tree)
    if cls not in SUPPORTED_NODES and isinstance(tree, tuple):
        if is_namedtuple_class(cls):
            return namedtuple
        if cls.__module__ == "torch.return_types" and is_structseq_class(cls):
            _register_pytree_node(
                cls, _tuple_flatten, lambda values, _: cls(values), flatten_with_keys_fn=_list_flatten_with_keys
            )
    return cls


def _node_of(tree, is_leaf=None):
    """Return the functions for a node, or ``None`` for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    return SUPPORTED_NODES.get(_get_node_type(tree))


def tree_is_leaf(tree, is_leaf=None):
    """Return whether this is no node."""
    return _node_of(tree, is_leaf) is None


class TreeSpec:
    """The form of a tree without its leaves."""

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type, context, children_specs):
        self.type = type
        self._context = context
        self._children = list(children_specs)
        self.num_children = len(self._children)
        if type is None:
            self.num_nodes = self.num_leaves = 1
        else:
            self.num_nodes = 1 + sum(c.num_nodes for c in self._children)
            self.num_leaves = sum(c.num_leaves for c in self._children)

    @property
    def context(self):
        return self._context

    @property
    def children_specs(self):
        return self._children

    def children(self):
        """The specs of the children."""
        return list(self._children)

    def child(self, index):
        """The spec of one child."""
        return self._children[index]

    def is_leaf(self):
        """Return whether the tree is one leaf."""
        return self.type is None

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.type is other.type and self._context == other._context and self._children == other._children

    def __hash__(self):
        if self.type in _MAPPINGS:
            context = tuple(self._context[1] if self.type is defaultdict else self._context)
        else:
            context = self._context
        try:
            shown = hash(context)
        except TypeError:
            shown = 0
        return hash((self.type, shown, tuple(self._children)))

    def __repr__(self, indent=0):
        if self.type is None:
            return "*"
        inner = indent + 2
        children = "".join(
            ("," + "\n" + " " * inner if i else "") + child.__repr__(inner) for i, child in enumerate(self._children)
        )
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def unflatten(self, leaves):
        """Return the tree of this form with these leaves.

        Raises:
            ValueError: their number is another.
        """
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves):
        if self.type is None:
            return next(leaves)
        return SUPPORTED_NODES[self.type].unflatten_fn([c._build(leaves) for c in self._children], self._context)

    def flatten_up_to(self, tree):
        """Return the subtrees of a tree at the leaves of this spec.

        Raises:
            ValueError: the tree has another shape above them.
        """
        found = []
        self._collect(tree, found)
        return found

    def _collect(self, tree, found):
        if self.type is None:
            found.append(tree)
            return
        cls = _get_node_type(tree)
        both_mappings = cls in _MAPPINGS and self.type in _MAPPINGS
        if cls is not self.type and not both_mappings:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {cls!r}.")
        if both_mappings:
            keys = self._context[1] if self.type is defaultdict else self._context
            if len(tree) != self.num_children:
                raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(tree)}.")
            if set(tree) != set(keys):
                missing, extra = set(keys).difference(tree), set(tree).difference(keys)
                message = "".join(
                    f"; {what} key(s): {keys}" for what, keys in (("missing", missing), ("extra", extra)) if keys
                )
                raise ValueError(f"Node keys mismatch{message}.")
            children = [tree[key] for key in keys]
        else:
            children, context = SUPPORTED_NODES[cls].flatten_fn(tree)
            children = list(children)
            if len(children) != self.num_children:
                raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
            if context != self._context and cls is not deque:
                raise ValueError(f"Node context mismatch for custom node type {cls!r}.")
        for spec, child in zip(self._children, children):
            spec._collect(child, found)


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None, None, [])


_LEAF = LeafSpec()


def _flatten(tree, leaves, is_leaf):
    node = _node_of(tree, is_leaf)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_flatten(c, leaves, is_leaf) for c in children])


def tree_flatten(tree, is_leaf=None):
    """Return the leaves of a tree, and its spec."""
    leaves = []
    return leaves, _flatten(tree, leaves, is_leaf)


def tree_unflatten(leaves, treespec):
    """The inverse of ``tree_flatten``.

    Raises:
        TypeError: the second argument is no spec.
        ValueError: the spec has another number of leaves.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_iter(tree, is_leaf=None):
    """The leaves of a tree, one by one."""
    node = _node_of(tree, is_leaf)
    if node is None:
        yield tree
    else:
        for child in node.flatten_fn(tree)[0]:
            yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf=None):
    """The leaves of a tree."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    """The spec of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args, **kwargs):
    """The leaves of a call's arguments."""
    return tree_leaves((args, kwargs))


def tree_map(func, tree, *rests, is_leaf=None):
    """Return the tree of the results of a function for each leaf and the values at its position in other trees.

    Raises:
        ValueError: a further tree has another shape.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(r) for r in rests)))


def tree_map_(func, tree, *rests, is_leaf=None):
    """Call a function for each leaf, and return the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for args in zip(leaves, *(spec.flatten_up_to(r) for r in rests)):
        func(*args)
    return tree


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """Return a value for each leaf of `treespec`, or ``None`` where `tree` has another form.

    A leaf of `tree` stands for all leaves at its place.
    """
    if is_leaf is not None and is_leaf(tree) or tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf():
        return None
    if _get_node_type(tree) != treespec.type:
        return None
    children, context = SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)
    below = treespec.children()
    if len(children) != len(below) or context != treespec.context:
        return None
    found = []
    for child, spec in zip(children, below):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found


def _predicate(types):
    return types if callable(types) and not isinstance(types, type) else lambda x: isinstance(x, types)


def map_only(type_or_types_or_pred, /):
    """Decorate a function for leaves of some classes. Other leaves stay as they are."""
    wanted = _predicate(type_or_types_or_pred)
    return lambda func: lambda x: func(x) if wanted(x) else x


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """Call ``tree_map`` for the leaves of some classes, or those for which a function returns true."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """Call ``tree_map_`` for the leaves of some classes, or those for which a function returns true."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Return whether a condition holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Return whether a condition holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    """Return whether a condition holds for every leaf of some classes."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    """Return whether a condition holds for some leaf of some classes."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _paths(tree, path, is_leaf):
    node = _node_of(tree, is_leaf)
    if node is None:
        yield path, tree
        return
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a flatten_with_keys_fn argument "
            "to register_pytree_node."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _paths(child, (*path, key), is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    """Return pairs of a path of keys and its leaf."""
    return list(_paths(tree, (), is_leaf))


def tree_flatten_with_path(tree, is_leaf=None):
    """Return the pairs of ``tree_leaves_with_path``, and the spec."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """Call ``tree_map`` with a function whose first argument is the path of the leaf."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [p for p, _ in found], [x for _, x in found]
    return spec.unflatten(map(func, paths, leaves, *(spec.flatten_up_to(r) for r in rests)))


def keystr(kp):
    """Return a path of keys as Python code."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """Return the value at a path of keys."""
    for key in kp:
        obj = key.get(obj)
    return obj


_PROTOCOL = 1


def treespec_dumps(treespec, protocol=None):
    """Return a spec as a text of JSON.

    Args:
        treespec: the spec.
        protocol: the version of the format: 1.

    Raises:
        NotImplementedError: If a class has no name for it.
        TypeError: If the context of a class is no JSON.
        ValueError: If there is no such version.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of TreeSpec but got item of type {type(treespec)}.")
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[_PROTOCOL]}")
    return json.dumps([_PROTOCOL, _dumped(treespec)])


def _dumped(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    known = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if known is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if known.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your _register_pytree_node call "
            "with a `serialized_type_name` kwarg."
        )
    if known.to_dumpable_context is not None:
        context = known.to_dumpable_context(spec._context)
    else:
        try:
            context = json.dumps(spec._context)
        except TypeError:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
                "using _register_pytree_node."
            ) from None
    children = [_dumped(child) for child in spec._children]
    return {"type": known.serialized_type_name, "context": context, "children_spec": children}


def treespec_loads(serialized):
    """Return the spec that ``treespec_dumps`` wrote.

    Raises:
        NotImplementedError: If a class in it is not registered.
        ValueError: If the text is none of it.
    """
    protocol, written = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[_PROTOCOL]}")
    return _loaded(written)


def _loaded(written):
    name, context = written["type"], written["context"]
    if name is None:
        return _LEAF
    cls = SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
    if cls is None or name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Deserializing {name} in pytree failed because the serialized type is not registered in this process. If "
            "this type is defined in another package, import that package before loading this artifact so its pytree "
            "registrations run. If you control the type, register it with `torch.utils._pytree.register_pytree_node("
            "..., serialized_type_name=...)` or `torch.export.register_dataclass(..., serialized_type_name=...)` "
            f"before deserializing. The `serialized_type_name` must match {name!r}."
        )
    known = SUPPORTED_SERIALIZED_TYPES[cls]
    if known.from_dumpable_context is not None:
        context = known.from_dumpable_context(context)
    else:
        context = json.loads(context)
    return TreeSpec(cls, context, [_loaded(child) for child in written["children_spec"]])
