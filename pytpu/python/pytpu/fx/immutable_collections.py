"""`torch.fx.immutable_collections`: lists and dictionaries that refuse changes.

Arguments of nodes consist of them. A change in place would bypass the lists of users that nodes keep.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from ..utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")

_REMEDY = (
    "If you are attempting to modify the kwargs or args of a torch.fx.Node object,\n"
    "instead create a new copy of it and assign the copy to the node:\n\n"
    "    new_args = ...  # copy and mutate args\n"
    "    node.args = new_args"
)


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_REMEDY}")


class immutable_list(list[_T]):
    """A list that raises `TypeError` when it is changed. It can be hashed if its items can."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self),)


class immutable_dict(dict[_K, _V]):
    """A dictionary that raises `TypeError` when it is changed. It can be hashed if its values can."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self.items()),)


for _name in "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort".split():
    setattr(immutable_list, _name, _refuse)
for _name in "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update".split():
    setattr(immutable_dict, _name, _refuse)

_pytree.register_pytree_node(
    immutable_list,
    _pytree._list_flatten,
    lambda values, context: immutable_list(values),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=_pytree._list_flatten_with_keys,
)
_pytree.register_pytree_node(
    immutable_dict,
    _pytree._dict_flatten,
    lambda values, context: immutable_dict(zip(context, values)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=_pytree._dict_flatten_with_keys,
)
