"""Sharded tensors of several processes, compared with the same computation in one process."""

import copy

import numpy as np
import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.distributed import tensor as dtensor
from pytpu.distributed.device_mesh import init_device_mesh
from pytpu.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from pytpu.distributed.tensor._collective_utils import mesh_broadcast, mesh_scatter, pad_tensor, unpad_tensor
from pytpu.distributed.tensor._utils import compute_local_shape_and_global_offset
from pytpu.distributed.tensor.experimental import local_map
from pytpu.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from pytpu.distributed.tensor.placement_types import _StridedShard


def line():
    return init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))


def numbers(*sizes, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*sizes)


def along_a_dimension():
    size, rank = dist.get_world_size(), dist.get_rank()
    mesh = init_device_mesh("cpu", (2, size // 2))
    x = torch.full((3,), float(rank))
    mesh_broadcast(x, mesh, mesh_dim=0)
    assert x.tolist() == [rank % (size // 2)] * 3
    work = mesh_broadcast(x.fill_(rank), mesh, mesh_dim=0, async_op=True, group_src=1)
    work.wait()
    assert x.tolist() == [rank % (size // 2) + size // 2] * 3
    columns = numbers(3, 2).t().split(1)  # not contiguous
    mesh_scatter(x := torch.empty(1, 3), list(columns), mesh, mesh_dim=0)
    assert x.tolist() == columns[mesh.get_local_rank(0)].tolist()


def test_collectives_along_a_dimension_of_a_mesh(pool):
    pool.run(along_a_dimension)


def test_padding_is_zeros_at_the_end():
    x = torch.ones(2, 3)
    padded = pad_tensor(x, 1, 2)
    assert padded.tolist() == [[1, 1, 1, 0, 0]] * 2 and pad_tensor(x, 0, 0) is x
    assert unpad_tensor(padded, 1, 2).tolist() == x.tolist() and unpad_tensor(x, 0, 0) is x


def redistribute_all():
    mesh, whole = line(), numbers(5, 7)
    kinds = [Replicate(), Shard(0), Shard(1), Shard(-1), Partial(), _StridedShard(0, split_factor=2)]
    for source in kinds:
        for target in kinds:
            x = distribute_tensor(whole, mesh).redistribute(placements=[source])
            y = x.redistribute(placements=[target])
            torch.testing.assert_close(y.full_tensor(), whole)
            sizes, _ = compute_local_shape_and_global_offset(whole.shape, mesh, y.placements)
            assert tuple(y.to_local().shape) == tuple(sizes)
    x = distribute_tensor(whole, mesh, [Shard(0)])
    expected = whole.chunk(mesh.size())
    rank = dist.get_rank()
    torch.testing.assert_close(x.to_local(), expected[rank] if rank < len(expected) else whole[:0])
    return [x.placements == (Shard(0),), tuple(x.shape), x.device.type, type(x).__name__, x.device_mesh == mesh]


def test_redistribution_keeps_the_value(pool):
    assert pool.run(redistribute_all) == [[True, (5, 7), "cpu", "DTensor", True]] * pool.size


def infer_placements():
    mesh = line()
    place = lambda x, p: distribute_tensor(x, mesh, [p])
    a, b = numbers(8, 12), numbers(12, 4, seed=1)
    results = {
        "rows": place(a, Shard(0)) @ place(b, Replicate()),
        "columns": place(a, Replicate()) @ place(b, Shard(1)),
        "contracted": place(a, Shard(1)) @ place(b, Shard(0)),
        "added": place(a, Shard(0)) + place(a, Replicate()),
        "sum": place(a, Shard(0)).sum(0),
        "max": place(a, Shard(0)).amax(0),
        "transposed": place(a, Shard(0)).t(),
        "viewed": place(a, Shard(1)).view(-1),
        "scaled": (place(a, Shard(1)) @ place(b, Shard(0))) * 2,
    }
    expected = [a @ b, a @ b, a @ b, a + a, a.sum(0), a.amax(0), a.t(), a.view(-1), (a @ b) * 2]
    for (name, x), want in zip(results.items(), expected):
        torch.testing.assert_close(x.full_tensor(), want, msg=name)
    return {name: str(x.placements[0]) for name, x in results.items()}


def test_placements_follow_from_the_op(pool):
    expected = {
        "rows": "S(0)",
        "columns": "S(1)",
        "contracted": "P(sum)",
        "added": "S(0)",
        "sum": "P(sum)",
        "max": "P(max)",
        "transposed": "S(1)",
        "viewed": "_S(0, 8)",
        "scaled": "P(sum)",
    }
    assert pool.run(infer_placements) == [expected] * pool.size


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.first = nn.Linear(6, 16)
        self.second = nn.Linear(16, 5)

    def forward(self, x):
        return self.second(torch.tanh(self.first(self.norm(x))))


def train(model, x, y, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train_sharded():
    mesh = line()
    torch.manual_seed(3)
    model = Net()
    x, y = numbers(8, 6), numbers(8, 5, seed=1)
    reference = copy.deepcopy(model)
    expected = train(reference, x, y)

    def shard(name, module, mesh):
        for key, parameter in list(module.named_parameters(recurse=False)):
            module.register_parameter(key, nn.Parameter(distribute_tensor(parameter.detach(), mesh, [Shard(0)])))

    plans = {
        "data": (lambda model: distribute_module(model, mesh), [Shard(0)]),
        "parameters": (lambda model: distribute_module(model, mesh, shard), [Shard(0)]),
    }
    for name, (plan, placements) in plans.items():
        sharded = plan(copy.deepcopy(model))
        got = train(sharded, distribute_tensor(x, mesh, placements), distribute_tensor(y, mesh, placements))
        torch.testing.assert_close(torch.tensor(got), torch.tensor(expected), msg=name)
        for p, q in zip(sharded.parameters(), reference.parameters()):
            assert isinstance(p, DTensor) and isinstance(p, nn.Parameter)
            torch.testing.assert_close(p.full_tensor(), q.detach(), msg=name, rtol=1e-4, atol=1e-5)
            assert p.placements == ((Shard(0),) if name == "parameters" else (Replicate(),))
    styles = {"norm": SequenceParallel(sequence_dim=0), "first": ColwiseParallel(), "second": RowwiseParallel()}
    parallel = parallelize_module(copy.deepcopy(model), mesh, styles)
    assert parallel.first.weight.placements == (Shard(0),) and parallel.second.weight.placements == (Shard(1),)
    assert parallel.second.bias.placements == (Replicate(),)
    rank, count = dist.get_rank(), mesh.size()
    got = train(parallel, x.chunk(count)[rank], y)
    torch.testing.assert_close(torch.tensor(got), torch.tensor(expected))


def test_training_equals_that_of_one_process(pool):
    pool.run(train_sharded)


def differentiate():
    mesh, whole = line(), numbers(6, 4)
    local = whole.chunk(mesh.size())[dist.get_rank()].clone().requires_grad_()
    x = DTensor.from_local(local, mesh, [Shard(0)], shape=whole.shape, stride=whole.stride())
    (x * x).sum().full_tensor().backward()
    torch.testing.assert_close(local.grad, 2 * local.detach())
    x = distribute_tensor(whole, mesh, [Shard(1)]).requires_grad_()
    y = x.redistribute(placements=[Shard(0)]).to_local()
    (y * y).sum().backward()
    assert x.grad.placements == (Shard(1),)
    torch.testing.assert_close(x.grad.full_tensor(), 2 * whole)
    # Each rank has the whole tensor, and the gradients of the ranks are summed. With `Partial`, a rank gets its own.
    for placements, factor in (None, mesh.size()), ([Partial()], 1), ([Replicate()], mesh.size()):
        local = torch.ones(2, 3, requires_grad=True)
        x = DTensor.from_local(local, mesh, [Replicate()], grad_placements=placements)
        x.backward(DTensor.from_local(torch.ones(2, 3), mesh, [Partial()]))
        assert local.grad.tolist() == [[factor] * 3] * 2


def test_parts_are_differentiable(pools):
    pools(2).run(differentiate)


def map_parts():
    mesh, whole = line(), numbers(8, 4)
    x = distribute_tensor(whole, mesh, [Shard(1)]).requires_grad_()

    @local_map(out_placements=[Partial()], in_placements=([Shard(0)],), redistribute_inputs=True)
    def total(part):
        return (part * part).sum()

    y = total(x)
    torch.testing.assert_close(y.full_tensor(), (whole * whole).sum())
    y.full_tensor().backward()
    torch.testing.assert_close(x.grad.full_tensor(), 2 * whole)
    torch.testing.assert_close(total(whole), (whole * whole).sum())
    strict = local_map(lambda part: part, out_placements=[Shard(0)], in_placements=([Shard(0)],))
    with pytest.raises(ValueError, match="mismatched placements"):
        strict(x)

    # A tuple has the placements of each result, also if there is one. Lists are taken apart.
    @local_map(out_placements=([Partial()],), in_placements=([Shard(1)], None))
    def scaled_total(pair, factor):
        return (pair * factor).sum()

    assert scaled_total(x, 3).placements == (Partial(),)
    torch.testing.assert_close(scaled_total(x, 3).full_tensor(), 3 * whole.sum())

    @local_map(out_placements=([Shard(1)], None, (Replicate(),)), in_placements=([Shard(1)], [Shard(1)]))
    def many(pair):
        return {"sum": pair[0] + pair[1], "rest": [len(pair), torch.ones(())]}

    found = many([x, x])
    torch.testing.assert_close(found["sum"].full_tensor(), 2 * whole)
    assert found["rest"][0] == 2 and found["rest"][1].placements == (Replicate(),)
    with pytest.raises(ValueError, match="local_map: 3 results, and out_placements for 1"):
        local_map(many.__wrapped__, out_placements=[Shard(1)])([x, x])
    with pytest.raises(TypeError, match=r"placements: expects a placement for each mesh dimension, but got \(Partial"):
        DTensor.from_local(torch.ones(2), mesh, [(Partial(),)])
    return str(y.placements[0])


def test_functions_of_parts(pools):
    assert pools(2).run(map_parts) == ["P(sum)"] * 2


def write_in_place():
    mesh, whole = line(), numbers(6, 5)
    x = distribute_tensor(whole, mesh, [Shard(0)])
    expected = whole.clone()
    x.mul_(2), expected.mul_(2)
    x[1:3].add_(1), expected[1:3].add_(1)
    x[:, 0] = 7
    expected[:, 0] = 7
    x.copy_(x + 1), expected.copy_(expected + 1)
    torch.testing.assert_close(x.full_tensor(), expected)
    kept = x.placements
    x.normal_()
    rows = [row.tolist() for row in x.full_tensor()]
    return kept == x.placements == (Shard(0),), rows


def test_writes_keep_the_placements(pool):
    results = pool.run(write_in_place)
    assert all(is_kept for is_kept, _ in results)
    assert all(rows == results[0][1] for _, rows in results)


def make_factories():
    mesh = line()
    with mesh:
        z = dtensor.zeros(5, 3, placements=[Shard(0)])
        o = dtensor.ones((5, 3), dtype=torch.int64)
        f = dtensor.full((2, 2), 3.5)
    torch.manual_seed(dist.get_rank())
    a = dtensor.rand(7, 3, device_mesh=mesh, placements=[Shard(0)])
    b = dtensor.randn(7, 3, device_mesh=mesh, placements=[Shard(1)])
    texts = [repr(f) == f"DTensor(local_tensor={f.to_local()}, device_mesh={mesh}, placements=(Replicate(),))"]
    return (
        [z.full_tensor().sum().item(), tuple(z.shape), o.full_tensor().tolist(), f.full_tensor().tolist()],
        [a.placements == (Shard(0),), b.placements == (Shard(1),), bool((a.full_tensor() < 1).all())],
        texts,
    )


def make_like():
    mesh, whole = line(), numbers(4, 6)
    x = distribute_tensor(whole, mesh, [Shard(1)])
    makers = [
        lambda size: x.new_zeros(size),
        lambda size: x.new_ones(size),
        lambda size: x.new_empty(size),
        lambda size: x.new_full(size, 2.5),
        lambda size: x.new_empty_strided(size, (1, size[0])),
    ]
    for make in makers:
        # Only the sizes of `x` itself can be divided as `x` is.
        assert make((4, 6)).placements == (Shard(1),) and make((4, 6)).to_local().shape == x.to_local().shape
        assert make((6, 4)).placements == (Replicate(),)
    assert x.new_full((4, 6), 2.5).full_tensor().tolist() == [[2.5] * 6] * 4
    assert x.new_zeros((4, 6), device="meta").is_meta
    strided = x.new_empty_strided((4, 6), (1, 4), dtype=torch.float64)
    assert strided.stride() == (1, 4) and strided.dtype == torch.float64


def test_new_tensors_of_the_same_sizes_are_sharded_alike(pools):
    pools(2).run(make_like)


def test_factories_make_sharded_tensors(pools):
    expected = (
        [0.0, (5, 3), [[1] * 3] * 5, [[3.5] * 2] * 2],
        [True, True, True],
        [True],
    )
    assert pools(2).run(make_factories) == [expected] * 2


def convert_by_older_functions():
    mesh = line()
    with pytest.warns(FutureWarning, match="Deprecating (input|output)_fn that takes two arguments") as warned:
        module = distribute_module(
            nn.Linear(4, 3),
            mesh,
            input_fn=lambda inputs, mesh: DTensor.from_local(inputs[0], mesh, [Shard(0)]),
            output_fn=lambda output, mesh: output.to_local(),
        )
    assert len(warned) == 2 and all(each.filename == __file__ for each in warned)
    return type(module(numbers(2, 4))) is torch.Tensor


def test_functions_without_the_module_are_accepted(pools):
    assert pools(2).run(convert_by_older_functions) == [True] * 2


def make_from_specs():
    mesh = line()
    x = DTensor.from_local(numbers(2, 3), mesh, [Shard(0)])
    y = DTensor(x.to_local(), x._spec, requires_grad=True)
    assert y.is_leaf and y.requires_grad and y.shape == x.shape and y.placements == x.placements
    assert torch.equal(y.full_tensor(), x.full_tensor())
    with pytest.warns(UserWarning, match="To construct DTensor from torch.Tensor"):
        assert not DTensor(numbers(2, 3).requires_grad_(), x._spec, requires_grad=False).requires_grad


def test_a_description_and_a_part_make_a_sharded_tensor(pools):
    pools(2).run(make_from_specs)


def make_mistakes():
    mesh, whole = line(), numbers(4, 4)
    x = distribute_tensor(whole, mesh, [Shard(0)])
    mapped = local_map(torch.add, out_placements=[Shard(0)], in_placements=([Shard(0)],), device_mesh=mesh)
    cases = [
        (RuntimeError, "got mixed torch.Tensor and DTensor", lambda: x + whole),
        (RuntimeError, "placements is needed for redistribute", lambda: x.redistribute()),
        (ValueError, "must have the same length as `device_mesh.ndim`", lambda: distribute_tensor(whole, mesh, [])),
        (RuntimeError, "greater than or equal to tensor ndim", lambda: distribute_tensor(whole, mesh, [Shard(2)])),
        (RuntimeError, "unsupported placements", lambda: distribute_tensor(whole, mesh, [Partial()])),
        (ValueError, "to a different placements", lambda: distribute_tensor(x, mesh, [Shard(1)])),
        (RuntimeError, "only accepts torch.Tensor", lambda: DTensor.from_local([1.0], mesh)),
        (RuntimeError, "only accepts torch.Tensor", lambda: DTensor.from_local(x, mesh, [Shard(0)])),
        (TypeError, "integer", lambda: Shard("rows")),
        (AssertionError, "length 1 does not match the number of input args 2", lambda: mapped(x, x)),
        (RuntimeError, "both shape and stride", lambda: DTensor.from_local(whole, mesh, shape=(4, 4))),
        (RuntimeError, "found non-leaf", lambda: distribute_tensor(whole.requires_grad_() * 2, mesh)),
        (RuntimeError, "make a DTensor with", lambda: DTensor(whole)),
        (RuntimeError, "not supported for tensor subclasses", lambda: x.numpy()),
        (RuntimeError, "not supported for tensor subclasses", lambda: np.asarray(x)),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()


def test_mistakes_raise_pytorchs_errors(pools):
    pools(2).run(make_mistakes)


def compare_parts():
    mesh, is_first = init_device_mesh("cpu", (2, 2)), dist.get_rank() == 0
    parts = [
        torch.ones(3, 4, dtype=torch.float64 if is_first else torch.float32),
        torch.ones(3, 4, requires_grad=is_first),
        torch.ones(4, 3).t() if is_first else torch.ones(3, 4),
        torch.ones(2 if is_first else 3, 4),
    ]
    for part in parts:
        for placements in ([Shard(0), Replicate()], [Replicate(), Replicate()]):
            with pytest.raises(ValueError, match="Inconsistent tensor metadata"):
                DTensor.from_local(part, mesh, placements, run_check=True)
    x = DTensor.from_local(torch.full((2,), dist.get_rank()), mesh, [Shard(0), Replicate()], run_check=True)
    return x.full_tensor().tolist()


def test_parts_are_compared_where_that_is_asked(pools):
    assert pools(4).run(compare_parts) == [[0, 0, 2, 2]] * 4


def test_placements_are_values():
    assert Shard(0) == Shard(0) != Shard(1) and Partial() != Partial("avg")
    assert hash(Replicate()) == hash(Replicate())
    assert [repr(p) for p in (Shard(0), Replicate(), Partial())] == ["Shard(dim=0)", "Replicate()", "Partial(sum)"]
    assert Shard(1).is_shard(1) and not Shard(1).is_shard(0) and Partial().is_partial("sum")
    assert not _StridedShard(0, split_factor=2).is_shard()
    assert [Shard.local_shard_size_and_offset(5, 4, i) for i in range(4)] == [(2, 0), (2, 2), (1, 4), (0, 5)]
    parts, pads = Shard(0)._split_tensor(torch.arange(5), 4)
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3], [4, 0], [0, 0]] and pads == [0, 0, 1, 2]
    parts, _ = _StridedShard(0, split_factor=2)._split_tensor(torch.arange(8), 2, with_padding=False)
    assert [part.tolist() for part in parts] == [[0, 1, 4, 5], [2, 3, 6, 7]]


def test_older_names_of_modules_are_there():
    import importlib

    old, new = (importlib.import_module(f"pytpu.distributed.{name}") for name in ("_tensor.device_mesh", "device_mesh"))
    assert old.init_device_mesh is new.init_device_mesh and old.DeviceMesh is new.DeviceMesh
    assert importlib.import_module("pytpu.distributed._tensor.placement_types").Shard is Shard
