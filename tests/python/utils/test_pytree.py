"""Flatten and unflatten trees of containers."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import pytpu as torch
from pytpu.utils import _pytree as pytree

Pair = namedtuple("Pair", "a b")
TREES = [
    ({"a": [1, 2], "b": (3, {"c": 4})}, [1, 2, 3, 4], ["['a'][0]", "['a'][1]", "['b'][0]", "['b'][1]['c']"]),
    (5, [5], [""]),
    (None, [None], [""]),
    ([], [], []),
    (Pair(1, [2]), [1, 2], [".a", ".b[0]"]),
    (OrderedDict(a=1, b=[2]), [1, 2], ["['a']", "['b'][0]"]),
    (defaultdict(list, a=1), [1], ["['a']"]),
    (deque([1, 2], 3), [1, 2], ["[0]", "[1]"]),
]


@pytest.mark.parametrize(("tree", "leaves", "paths"), TREES)
def test_trees_survive_a_round_trip(tree, leaves, paths):
    found, spec = pytree.tree_flatten(tree)
    assert found == leaves
    assert spec.num_leaves == len(leaves)
    again = pytree.tree_unflatten(found, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)] == paths
    assert [pytree.key_get(tree, path) for path, _ in pytree.tree_leaves_with_path(tree)] == leaves


def test_specs_compare_and_print():
    spec = pytree.tree_structure({"a": [1, 2], "b": (3,)})
    assert spec == pytree.tree_structure({"a": [5, 6], "b": (7,)})
    assert spec != pytree.tree_structure({"a": [5, 6], "b": [7]})
    assert (
        repr(spec) == "TreeSpec(dict, ['a', 'b'], [TreeSpec(list, None, [*,\n    *]),\n  TreeSpec(tuple, None, [*])])"
    )
    assert (spec.num_nodes, spec.num_children, spec.is_leaf()) == (6, 2, False)


def test_maps():
    assert pytree.tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"b": [10], "a": 20}) == {"a": 21, "b": [12]}
    assert pytree.tree_map_only(int, lambda x: x + 1, [1, "a"]) == [2, "a"]
    assert pytree.tree_map_only(lambda x: x == 1, lambda x: x + 1, [1, 3]) == [2, 3]
    assert pytree.tree_all(bool, [1, [2]])
    assert not pytree.tree_any_only(int, bool, ["a", 0])
    assert pytree.tree_leaves([1, [2, 3]], is_leaf=lambda x: x == [2, 3]) == [1, [2, 3]]
    kept = pytree.tree_map(torch.neg, torch.ones(2).max(0))
    assert type(kept).__name__ == "max"
    assert kept.values.item() == -1


@pytest.mark.parametrize(
    ("tree", "other", "message"),
    [
        ([1, 2], [1], "Node arity mismatch; expected 2, but got 1."),
        ([1], (1,), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
        ({"a": 1}, {"b": 1}, "Node keys mismatch; missing key(s): {'a'}; extra key(s): {'b'}."),
    ],
)
def test_shapes_must_agree(tree, other, message):
    with pytest.raises(ValueError) as error:
        pytree.tree_map(lambda x, y: x, tree, other)
    assert str(error.value) == message
    with pytest.raises(ValueError, match="`leaves` has length 1 but the spec refers to a pytree that holds 2 items"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))


def test_classes_can_be_registered():
    class Box:
        def __init__(self, value):
            self.value = value

    pytree.register_pytree_node(Box, lambda box: ([box.value], None), lambda children, _: Box(*children))
    try:
        assert pytree.tree_map(lambda x: x + 1, [Box(1)])[0].value == 2
        with pytest.raises(ValueError, match="already registered as pytree node"):
            pytree.register_pytree_node(Box, None, None)
    finally:
        pytree._deregister_pytree_node(Box)
    assert len(pytree.tree_leaves([Box(1)])) == 1
