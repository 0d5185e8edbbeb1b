"""`torch.fx._pytree`: trees of arguments taken apart by a known form."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any, TypeAlias

from ..utils._pytree import PyTree, TreeSpec, tree_flatten

FlattenFnSpec: TypeAlias = Callable[[PyTree, TreeSpec], list[Any]]
FlattenFnExactMatchSpec: TypeAlias = Callable[[PyTree, TreeSpec], bool]
# Older names.
FlattenFuncSpec, FlattenFuncExactMatchSpec = FlattenFnSpec, FlattenFnExactMatchSpec

# For each class, the function that returns the children of a value. It leaves out children that its spec does not
# name.
SUPPORTED_NODES: dict[type[Any], FlattenFnSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type[Any], FlattenFnExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type[Any],
    flatten_fn_spec: FlattenFnSpec,
    flatten_fn_exact_match_spec: FlattenFnExactMatchSpec | None = None,
) -> None:
    """Register a class whose instances can be taken apart.

    Args:
        cls: The class.
        flatten_fn_spec: `flatten_fn_spec(tree, spec)` returns the children.
        flatten_fn_exact_match_spec: `flatten_fn_exact_match_spec(tree, spec)` says whether there are no others.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: type[Any]) -> None:
    del SUPPORTED_NODES[cls], SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[Any]:
    """Return the leaves of a tree at the places of the leaves of a spec.

    Raises:
        RuntimeError: The tree has another form, and its class is not registered.
    """
    if spec.is_leaf():
        return [pytree]
    if spec.type in SUPPORTED_NODES:
        children = SUPPORTED_NODES[spec.type](pytree, spec)
        return [leaf for child, form in zip(children, spec.children()) for leaf in tree_flatten_spec(child, form)]
    leaves, real_spec = tree_flatten(pytree)
    if spec != real_spec:
        raise RuntimeError(f"Real spec {real_spec} of object {pytree} is different from expected spec {spec}.")
    return leaves


def _items(tree: Any, spec: TreeSpec) -> list[Any]:
    return [tree[i] for i in range(spec.num_children)]


def _is_exact(tree: Any, spec: TreeSpec) -> bool:
    return len(tree) == spec.num_children


register_pytree_flatten_spec(dict, lambda tree, spec: [tree[key] for key in spec.context], _is_exact)
for _cls in (list, tuple, namedtuple):
    register_pytree_flatten_spec(_cls, _items, _is_exact)  # type: ignore[arg-type]
