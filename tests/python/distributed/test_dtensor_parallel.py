"""Attention and losses that are divided over ranks, and sharded tensors as objects: pickles, chunks, outside ranks."""

import copy
import io
import pickle
import re

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.distributed import checkpoint as dcp, tensor
from pytpu.distributed.device_mesh import DeviceMesh, init_device_mesh
from pytpu.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from pytpu.distributed.tensor.experimental import context_parallel, implicit_replication
from pytpu.distributed.tensor.experimental._attention import (
    _context_parallel_shard,
    _HeadTailLoadBalancer,
    context_parallel_unshard,
    set_rotate_method,
)
from pytpu.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInputOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from pytpu.distributed.tensor.parallel.input_reshard import input_reshard
from pytpu.distributed.tensor.placement_types import _StridedShard


def numbers(*sizes, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*sizes)


def attend(device, is_causal):
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    whole = [numbers(2, 3, 8 * mesh.size(), 4, seed=i) for i in range(3)]
    weights = numbers(2, 3, 8 * mesh.size(), 4, seed=3)
    leaves = [x.clone().requires_grad_() for x in whole]
    expected = nn.functional.scaled_dot_product_attention(*leaves, is_causal=is_causal)
    (expected * weights).sum().backward()
    parts = [x.to(device).requires_grad_() for x in whole]
    own = weights.to(device)
    with context_parallel(mesh, buffers=[*parts, own], buffer_seq_dims=[2] * 4, no_restore_buffers={own}):
        assert parts[0].shape == (2, 3, 8, 4)
        leaves_of_rank = [x.detach().clone().requires_grad_() for x in parts]
        y = nn.functional.scaled_dot_product_attention(*leaves_of_rank, is_causal=is_causal)
        (y * own).sum().backward()
        results = [y, *(x.grad for x in leaves_of_rank)]
        results = context_parallel_unshard(mesh, results, [2] * 4)
    for got, want in zip(results, [expected, *(x.grad for x in leaves)], strict=True):
        torch.testing.assert_close(got.cpu(), want.detach(), rtol=1e-4, atol=1e-5)
    assert own.shape == (2, 3, 8, 4)
    return all(torch.equal(x.detach().cpu(), y) for x, y in zip(parts, whole))


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_a_divided_sequence_gives_the_whole(pool, is_causal):
    assert all(pool.run(attend, "cpu", is_causal))


def test_attention_of_a_divided_sequence_on_tpu(pools):
    assert all(pools(2).run(attend, "tpu", True))


def divide_sequences():
    mesh = init_device_mesh("cpu", (2,))
    x, y = torch.arange(8.0), torch.arange(6.0)
    with context_parallel(mesh, buffers=[x, y], buffer_seq_dims=[0, 0]):
        seen = x.tolist(), y.tolist()
    errors = []
    for arguments in [
        {"buffers": [x], "buffer_seq_dims": [0, 1]},
        {"buffers": [x], "buffer_seq_dims": [0], "no_restore_buffers": {y}},
        {"buffers": [torch.ones(5)], "buffer_seq_dims": [0]},
    ]:
        with pytest.raises(ValueError, match=".") as error, context_parallel(mesh, **arguments):
            pass
        errors.append(str(error.value))
    with pytest.raises(NotImplementedError, match="Context Parallel does not support using x for kv shards rotation"):
        set_rotate_method("x")
    with context_parallel(mesh), pytest.raises(NotImplementedError, match="attn_mask"):
        nn.functional.scaled_dot_product_attention(*torch.ones(3, 1, 2, 2), torch.ones(2, 2))
    balancer = _HeadTailLoadBalancer(8, 2, "cpu")
    (part,) = _context_parallel_shard(mesh, [x], [0], balancer)
    assert torch.equal(x.index_select(0, balancer._generate_indices()[0]).chunk(2)[dist.get_rank()], part)
    assert torch.equal(context_parallel_unshard(mesh, [part], [0], balancer)[0], x)
    return seen, errors


def test_ranks_have_an_early_and_a_late_chunk(pools):
    (first, errors), (second, _) = pools(2).run(divide_sequences)
    assert first == ([0, 1, 6, 7], [0, 1, 2]) and second == ([2, 3, 4, 5], [3, 4, 5])
    assert errors == [
        "`seq_dims` must have the same number of elements as `buffers`.",
        "`no_restore_buffers` must be a subset of `buffers`.",
        "buffers: dimension 0 of size 5, must be a multiple of 2",
    ]


def lose():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x, target, weight = numbers(6, 10), torch.randint(0, 10, (6,)), numbers(10, seed=2).abs()
    found = {}
    for reduction in ("mean", "sum", "none"):
        leaf = x.clone().requires_grad_()
        expected = nn.functional.cross_entropy(leaf, target, weight, reduction=reduction)
        expected.sum().backward()
        for name, rows in (("classes", Replicate()), ("both", Shard(0))):
            logits = distribute_tensor(x, mesh, [rows, Shard(1)]).requires_grad_()
            labels = target if rows == Replicate() else distribute_tensor(target, mesh, [rows, Replicate()])
            before = torch._C._sharded_counts()
            with loss_parallel():
                loss = nn.functional.cross_entropy(logits, labels, weight, reduction=reduction)
            after = torch._C._sharded_counts()
            assert after["without_rule"] == before["without_rule"]
            # The logits are not gathered.
            assert after["bytes"] - before["bytes"] < 6 * 10 * 4
            found[reduction, name] = [str(p) for p in loss.placements]
            torch.testing.assert_close(loss.full_tensor(), expected.detach())
            loss.sum().backward()
            assert logits.grad.placements == (rows, Shard(1))
            torch.testing.assert_close(logits.grad.full_tensor(), leaf.grad)
    for placements in ([Shard(0), Replicate()], [Shard(1), Shard(1)]):
        with loss_parallel(), pytest.raises(ValueError, match="exactly one mesh dim"):
            nn.functional.cross_entropy(distribute_tensor(x, mesh, placements), target)
    return found


def test_losses_of_sharded_classes_do_not_gather_them(pools):
    found = pools(4).run(lose)[0]
    assert all(placements[1] == "R" for placements in found.values())
    assert found["none", "both"] == ["S(0)", "R"] and found["sum", "both"] == ["P(sum)", "R"]


def replicate():
    mesh = init_device_mesh("cpu", (2,))
    x, y = numbers(4, 3), numbers(4, 3, seed=1)
    sharded = distribute_tensor(x, mesh, [Shard(0)])
    with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
        sharded + y
    with implicit_replication():
        z, w = sharded + y, torch.cat([y, sharded])
    torch.testing.assert_close(z.full_tensor(), x + y)
    torch.testing.assert_close(w.full_tensor(), torch.cat([y, x]))
    return str(z.placements[0])


def test_plain_tensors_are_replicated_where_that_is_asked(pools):
    assert pools(2).run(replicate) == ["S(0)"] * 2


def combine_with_one_element(device):
    mesh = init_device_mesh(device, (2,))
    x = numbers(4, 3).to(device)
    number, row = torch.tensor(2.0, device=device), torch.tensor([3.0], device=device)
    calls = [
        lambda x: x * number,
        lambda x: number - x,
        lambda x: torch.where(x > number, x, number),
        lambda x: torch.clamp(x, min=number),
        lambda x: torch.addcmul(x, x, number),
        lambda x: x.clone().div_(number),
        lambda x: x.sum() / number,
        lambda x: torch._foreach_mul([x, x], number)[1],
    ]
    for i, call in enumerate(calls):
        sharded = distribute_tensor(x, mesh, [Shard(0)])
        torch.testing.assert_close(call(sharded).full_tensor(), call(x), msg=str(i))
    sharded = distribute_tensor(x, mesh, [Shard(0)])
    with pytest.warns(UserWarning, match="we are implicitly creating a replicated DTensor for it"):
        assert torch.equal((sharded + row).full_tensor(), x + row)
    number.requires_grad_()
    (sharded * number).square().sum().backward()
    torch.testing.assert_close(number.grad, 4 * x.square().sum())
    assert type(number.grad) is torch.Tensor
    with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
        sharded + torch.ones(3, device=device)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_plain_tensors_of_one_element_are_replicated(pools, device):
    pools(2).run(combine_with_one_element, device)


def write_to_plain():
    mesh = init_device_mesh("cpu", (2,))
    x, y = numbers(4, 3), numbers(4, 3, seed=1)
    sharded, expected = distribute_tensor(x, mesh, [Shard(0)]), x + y
    with implicit_replication():
        assert y.add_(sharded) is y
    torch.testing.assert_close(y, expected)
    for foreach in (False, True):
        leaves = [numbers(4, 3, seed=2), numbers(5, seed=3)]
        plain = [nn.Parameter(each.clone()) for each in leaves]
        mixed = [nn.Parameter(distribute_tensor(leaves[0], mesh, [Shard(0)])), nn.Parameter(leaves[1].clone())]
        optimizers = [torch.optim.Adam(each, lr=0.1, foreach=foreach) for each in (plain, mixed)]
        for step in range(3):
            for parameter, other in zip(plain, mixed):
                parameter.grad = numbers(*parameter.shape, seed=step)
                is_sharded = isinstance(other, DTensor)
                other.grad = distribute_tensor(parameter.grad, mesh, [Shard(0)]) if is_sharded else parameter.grad
            with implicit_replication():
                for optimizer in optimizers:
                    optimizer.step()
        assert not isinstance(mixed[1], DTensor)
        torch.testing.assert_close(mixed[0].full_tensor(), plain[0].detach())
        torch.testing.assert_close(mixed[1], plain[1])


def test_writes_reach_plain_tensors_that_are_replicated(pools):
    pools(2).run(write_to_plain)


def gradients_of_leaves():
    mesh = init_device_mesh("cpu", (2,))
    found = {}
    for name, x, w in (
        ("rows", Shard(0), Shard(0)),
        ("columns", Replicate(), Shard(0)),
        ("pending", Shard(0), Replicate()),
        ("contracted", Shard(1), Shard(1)),
    ):
        leaf = nn.Parameter(distribute_tensor(numbers(6, 4), mesh, [w]))
        for _ in range(2):
            y = nn.functional.linear(distribute_tensor(numbers(8, 4, seed=1), mesh, [x]), leaf)
            y.square().sum().backward()
        plain = numbers(6, 4).requires_grad_()
        (2 * nn.functional.linear(numbers(8, 4, seed=1), plain).square().sum()).backward()
        torch.testing.assert_close(leaf.grad.full_tensor(), plain.grad, rtol=1e-4, atol=1e-4)
        found[name] = str(leaf.grad.placements[0])
    return found


def test_gradients_are_sharded_as_their_parameters(pools):
    expected = {"rows": "S(0)", "columns": "S(0)", "pending": "P(sum)", "contracted": "S(1)"}
    assert pools(2).run(gradients_of_leaves) == [expected] * 2


def copies():
    mesh = init_device_mesh("cpu", (2,))
    whole = numbers(5, 4)
    for placement in (Shard(0), Replicate(), _StridedShard(0, split_factor=2)):
        x = distribute_tensor(whole, mesh, [Replicate()]).redistribute(placements=[placement])
        parameter = nn.Parameter(x)
        file = io.BytesIO()
        torch.save({"x": x, "parameter": parameter}, file)
        file.seek(0)
        loaded = torch.load(file)
        copied = [pickle.loads(pickle.dumps(x)), copy.deepcopy(x), loaded["x"]]
        copied += [pickle.loads(pickle.dumps(parameter)), copy.deepcopy(parameter), loaded["parameter"]]
        for i, y in enumerate(copied):
            assert isinstance(y, DTensor) and y.placements == (placement,) and y.device_mesh == mesh
            assert isinstance(y, nn.Parameter) == (i > 2) and y.requires_grad == (i > 2)
            assert y.shape == whole.shape and torch.equal(y.full_tensor(), whole)
            with torch.no_grad():
                y.zero_()
        assert torch.equal(x.full_tensor(), whole)
    layer = copy.deepcopy(nn.ParameterList([parameter]))[0]
    return isinstance(layer, DTensor) and isinstance(layer, nn.Parameter)


def test_sharded_tensors_are_copied_and_pickled(pools):
    assert all(pools(2).run(copies))


def chunks(folder):
    mesh, rank = init_device_mesh("cpu", (2,)), dist.get_rank()
    whole = numbers(7, 4)
    x = distribute_tensor(whole, mesh).redistribute(placements=[_StridedShard(0, split_factor=2)])
    found = [(tuple(c.offsets), tuple(c.sizes)) for c in x.__create_chunk_list__()]
    for (start, _), (size, _) in found:
        index = dcp.metadata.MetadataIndex("x", torch.Size([start, 0]))
        assert torch.equal(x.__get_tensor_shard__(index), whole[start : start + size])
    with pytest.raises(ValueError, match="Could not find shard at"):
        x.__get_tensor_shard__(dcp.metadata.MetadataIndex("x", torch.Size([1, 0])))
    with pytest.raises(ValueError, match="redistribute it first"):
        x.redistribute(placements=[Partial()]).__create_chunk_list__()
    dcp.save({"x": x, "rows": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id=folder)
    state = {"x": distribute_tensor(torch.zeros(7, 4), mesh, [Shard(1)]), "rows": torch.zeros(7, 4)}
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["x"].full_tensor(), whole) and torch.equal(state["rows"], whole)
    state = {"x": x.redistribute(placements=[_StridedShard(0, split_factor=3)]).detach().clone()}
    with torch.no_grad():
        state["x"].zero_()
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["x"].full_tensor(), whole)
    return rank, found


def test_parts_with_gaps_are_saved_as_several_chunks(pools, tmp_path):
    first, second = pools(2).run(chunks, str(tmp_path))
    assert first == (0, [((0, 0), (2, 4)), ((4, 0), (2, 4))])
    assert second == (1, [((2, 0), (2, 4)), ((6, 0), (1, 4))])


def move():
    mesh = init_device_mesh("cpu", (2,))
    for placement in (Shard(0), Shard(1), Replicate()):
        on_meta = distribute_tensor(torch.empty(6, 4, device="meta"), mesh, [placement])
        made = torch.empty_like(on_meta, device="cpu")
        assert on_meta.is_meta and not made.is_meta and made.device_mesh == mesh
        assert made.placements == torch.zeros_like(made).placements == (placement,)
        nn.init.constant_(made, 1.5)
        assert made.placements == (placement,)
        sharded = distribute_tensor(torch.ones(6, 4), mesh, [placement])
        assert torch.equal((made + sharded).full_tensor(), torch.full((6, 4), 2.5))
        # Writes to the part are writes to the tensor, also if it had no memory yet.
        fresh = torch.zeros_like(made)
        fresh.to_local().fill_(3)
        assert torch.equal(fresh.full_tensor(), torch.full((6, 4), 3.0))
    model = nn.Sequential(nn.Linear(4, 6, device="meta"), nn.Linear(6, 4, device="meta"))
    model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()}).to_empty(device="cpu")
    assert [str(p.placements[0]) for p in model.parameters()] == ["S(0)", "S(0)", "S(1)", "R"]
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.5)
    x = numbers(3, 4)
    hidden = 0.5 * x.sum(1, keepdim=True) + 0.5
    torch.testing.assert_close(model(x).detach(), (3 * hidden + 0.5).expand(3, 4))
    model(x).square().sum().backward()
    assert all(isinstance(p.grad, DTensor) for p in model.parameters())
    tpu = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    moved = tpu.to("tpu")
    assert moved.device.type == "tpu" and moved.placements == (Shard(0),)
    # If the process has a mesh of these ranks on device tpu, it is that one.
    assert torch.equal(moved.device_mesh.mesh, mesh.mesh)
    (moved * 2).sum().full_tensor().cpu().backward()
    assert torch.equal(tpu.grad.full_tensor(), torch.full((3, 4), 2.0))
    return True


def test_sharded_tensors_move_between_devices(pools):
    assert all(pools(2).run(move))


def windows():
    mesh, whole = init_device_mesh("cpu", (2,)), numbers(6, 8)
    for placement in (Shard(0), Shard(1), Replicate()):
        x = distribute_tensor(whole, mesh, [placement])
        for f in (lambda t: t.unfold(1, 2, 2), lambda t: t.diagonal(), lambda t: t.as_strided((3, 2), (16, 2), 1)):
            torch.testing.assert_close(f(x).full_tensor(), f(whole))
        # The part is a view of another tensor.
        start = 3 * dist.get_rank()
        y = DTensor.from_local(whole[start : start + 3], mesh, [Shard(0)])
        torch.testing.assert_close(y.unfold(1, 2, 2).full_tensor(), whole.unfold(1, 2, 2))
    return True


def test_windows_are_on_the_elements_of_the_part(pools):
    assert all(pools(2).run(windows))


def space():
    mesh = init_device_mesh("cpu", (2,))
    x = tensor.linspace(0, 1, 5, device_mesh=mesh, placements=[Shard(0)])
    y = tensor.logspace(0, 2, 3, requires_grad=True, device_mesh=mesh, placements=[Replicate()])
    assert torch.equal(x.full_tensor(), torch.linspace(0, 1, 5)) and x.placements == (Shard(0),)
    assert torch.equal(y.full_tensor(), torch.tensor([1.0, 10, 100])) and y.requires_grad
    return x.to_local().numel()


def test_factories_of_spaced_numbers(pools):
    assert pools(2).run(space) == [3, 2]


def compute_outside():
    mesh, rank = DeviceMesh("cpu", [0, 2]), dist.get_rank()
    whole, leaf = numbers(4, 6), numbers(3, 6, seed=1)
    x = distribute_tensor(whole, mesh, [Shard(0)])
    w = nn.Parameter(distribute_tensor(leaf, mesh, [Shard(0)]))
    loss = nn.functional.linear(x, w).square().mean()
    loss.backward()
    torch.optim.SGD([w], lr=0.1).step()
    assert tuple(x.shape) == (4, 6) and w.grad.placements == (Shard(0),)
    if rank not in (0, 2):
        assert x.to_local().numel() == 0 and x.__create_chunk_list__() == []
        assert loss.to_local().tolist() == 0.0
        with pytest.raises(RuntimeError, match="not in the mesh"):
            loss.item()
        return None
    return loss.item(), x.to_local().shape[0]


def test_ranks_outside_of_the_mesh_make_the_same_calls(pools):
    first, second, third, fourth = pools(4).run(compute_outside)
    assert second is None and fourth is None
    expected = nn.functional.linear(numbers(4, 6), numbers(3, 6, seed=1)).square().mean().item()
    assert first == third == (pytest.approx(expected), 2)


def divide_saved():
    mesh, x = init_device_mesh("cpu", (dist.get_world_size(),)), numbers(5, 6)
    sent = {}
    for dim in (None, 0, -1):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
        expected = copy.deepcopy(model)
        expected(x).square().sum().backward()
        parallelize_module(model, mesh, {"0": ColwiseParallel(use_local_output=False), "2": RowwiseParallel()})
        assert input_reshard(model, mesh, dim) is model
        loss = model(distribute_tensor(x, mesh, [Replicate()])).square().sum()
        before = torch._C._sharded_counts()["bytes"]
        loss.backward()
        sent[dim] = torch._C._sharded_counts()["bytes"] - before
        for ours, want in zip(model.parameters(), expected.parameters()):
            torch.testing.assert_close(ours.grad.full_tensor(), want.grad)
    return sent


def test_saved_tensors_are_divided_until_backward(pools):
    # Only the input of the first layer is whole on each rank. Its parts are gathered in backward.
    gathered = 5 * 6 * 4 // 2
    assert pools(2).run(divide_saved) == [{None: 0, 0: gathered, -1: gathered}] * 2


def plan_modules():
    mesh = init_device_mesh("cpu", (2,))
    linear = parallelize_module(nn.Linear(4, 6), mesh, {"": ColwiseParallel()})
    layers = nn.ModuleDict({"first": nn.Sequential(nn.Linear(4, 6))})
    parallelize_module(layers, mesh, {"f*.0": RowwiseParallel()})
    token = re.escape("key '7' could not be resolved: no submodule matching token '7' in module Sequential(")
    with pytest.warns(UserWarning, match=token):
        parallelize_module(layers, mesh, {"first.7": RowwiseParallel()})
    return [str(each.placements[0]) for each in (linear.weight, layers["first"][0].weight)]


def test_plans_name_modules(pools):
    assert pools(2).run(plan_modules) == [["S(0)", "S(1)"]] * 2


class Unchanged(ParallelStyle):
    def _apply(self, module, device_mesh):
        return module


def test_texts_of_styles_show_their_arguments():
    row = "RowwiseParallel(input_layouts=(Shard(dim=-1),), output_layouts=(Replicate(),), use_local_output=True)"
    assert repr(RowwiseParallel()) == row
    assert repr(SequenceParallel(sequence_dim=0)) == "SequenceParallel(sequence_dim=0, use_local_output=False)"
    both = PrepareModuleInputOutput(
        input_layouts=Shard(0),
        desired_input_layouts=Replicate(),
        output_layouts=Replicate(),
        desired_output_layouts=Shard(1),
    )
    assert repr(both) == (
        "PrepareModuleInputOutput(input_layouts=(Shard(dim=0),), desired_input_layouts=(Replicate(),), "
        "input_kwarg_layouts={}, desired_input_kwarg_layouts={}, use_local_input=False, "
        "output_layouts=(Replicate(),), desired_output_layouts=(Shard(dim=1),), use_local_output=True)"
    )
    assert "Unchanged object" in repr(Unchanged())
