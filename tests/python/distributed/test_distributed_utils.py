"""Functions on nested tensors, on modules of several ranks, and on small parts of groups."""

import collections
import dataclasses

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu.distributed import _functional_collectives as functional, distributed_c10d as c10d, utils
from pytpu.distributed._state_dict_utils import _check_state_dict_similarity
from pytpu.distributed.optim.zero_redundancy_optimizer import _broadcast_object

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Record:
    x: object
    name: str = "record"


def test_functions_reach_nested_tensors():
    one = torch.ones(2)
    nested = {"list": [one, (one, 3)], "pair": Pair(one, "text"), "record": Record(one), "set": {4}}
    doubled = utils._apply_to_tensors(lambda x: x * 2, nested)
    assert doubled["list"][1][0].tolist() == [2, 2] and doubled["list"][1][1] == 3
    assert type(doubled["pair"]) is Pair and doubled["pair"].a.tolist() == [2, 2]
    assert doubled["record"].x.tolist() == [2, 2] and doubled["record"].name == "record" and doubled["set"] == {4}
    args, kwargs = utils._cast_forward_inputs(torch.float64, one, torch.tensor([1]), x=one)
    assert args[0].dtype is torch.float64 and args[1].dtype is torch.int64 and kwargs["x"].dtype is torch.float64
    assert utils._cast_forward_inputs(None, one)[0][0] is one
    moved, named = utils._to_kwargs((one,), None, torch.device("cpu"), False)
    assert moved[0][0].tolist() == [1, 1] and named == ({},)


def test_arguments_are_packed_and_unpacked():
    flat, keys = utils._pack_kwargs(1, 2, a=3, b=4)
    assert (flat, keys) == ((1, 2, 3, 4), ("a", "b"))
    assert utils._unpack_kwargs(flat, keys) == ((1, 2), {"a": 3, "b": 4})
    with pytest.raises(AssertionError, match="too many keys"):
        utils._unpack_kwargs((1,), ("a", "b"))


def test_prefixes_of_keys_are_replaced():
    state = {"a.x": 1, "b.x": 2}
    utils._replace_by_prefix(state, "a.", "c.")
    assert state == {"b.x": 2, "c.x": 1}
    with pytest.raises(ValueError, match="must be distinct"):
        utils._replace_by_prefix(state, "a.", "a.")


def test_state_dicts_are_compared_by_their_structure():
    first = {"x": torch.ones(2), "nested": {"list": [1, torch.ones(1)]}, "n": 1}
    same = {"x": torch.zeros(2), "nested": {"list": [2, torch.zeros(1)]}, "n": 5}
    assert _check_state_dict_similarity(first, same)
    for other in ({"x": torch.zeros(3)}, {"x": torch.zeros(2).double()}, {"n": "1"}, {"nested": {"list": [1]}}):
        assert not _check_state_dict_similarity(first, same | other)
    assert not _check_state_dict_similarity(first, {"x": torch.zeros(2)})


def synchronise():
    """Return what ranks have after they copied a module and an object, and whether other shapes are found."""
    rank, world = dist.get_rank(), dist.group.WORLD
    module = torch.nn.BatchNorm1d(2)
    for tensor in (module.weight.data, module.bias.data, module.running_mean):
        tensor.fill_(rank)
    utils._sync_module_states(module, world, 2**20, 1, ["bias"])
    utils._verify_param_shape_across_processes(world, list(module.parameters()))
    with pytest.raises(RuntimeError, match="appears not to match sizes"):
        utils._verify_param_shape_across_processes(world, [torch.ones(2 + rank)])
    sent = _broadcast_object({"x": torch.full((1,), float(rank))}, 1)
    return [t[0].item() for t in (module.weight, module.bias, module.running_mean)], sent["x"].item()


def test_modules_and_objects_are_copied(pools):
    assert pools(2).run(synchronise) == [([1, 0, 1], 1), ([1, 1, 1], 1)]


def gather_several():
    """Return the results of collectives on several tensors of each rank."""
    rank, world = dist.get_rank(), dist.group.WORLD
    inputs = [torch.tensor([2 * rank + i]) for i in range(2)]
    outputs = [[torch.zeros(1, dtype=torch.int64) for _ in range(4)] for _ in range(2)]
    world.allgather(outputs, inputs).wait()
    with pytest.raises(RuntimeError, match="invalid output tensor list"):
        world.allgather([outputs[0][:3]] * 2, inputs)
    part = torch.empty(rank + 1)
    dist.reduce_scatter(part, [torch.ones(1), torch.full((2,), 2.0)])
    return [[int(x) for x in row] for row in outputs], part.tolist()


def test_several_tensors_and_uneven_parts(pools):
    rows = [[0, 1, 2, 3]] * 2
    assert pools(2).run(gather_several) == [(rows, [2]), (rows, [4, 4])]


def make_tagged():
    """Return whether groups are found by their tags."""
    made = [c10d._new_group_with_tag([0, 1], pg_tag=tag) for tag in ("a", "a", "b", None, None)]
    found = [c10d._find_pg_by_ranks_and_tag(*functional._expand_group(group)[:2]) for group in made]
    return (
        made[0] is made[1],
        len({id(group) for group in made}),
        [a is b for a, b in zip(made, found, strict=True)],
        functional._expand_group([[0], [1]], "t"),
        c10d._get_pg_config(made[0])["ranks"],
    )


def test_groups_of_a_tag_are_made_once(pools):
    want = (True, 4, [True] * 5, ("t", [0, 1], 1), [0, 1])
    assert pools(2).run(make_tagged) == [want] * 2
    with pytest.raises(ValueError, match="group sizes must be identical"):
        functional._expand_group([[0], [1, 2]])
