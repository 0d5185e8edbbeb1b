"""Data parallel training between processes, compared with one process that has the whole batch."""

import copy
import io
import json
import warnings

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.distributed._composable import replicate
from pytpu.distributed.algorithms import ddp_comm_hooks
from pytpu.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook as local_sgd,
    powerSGD_hook,
    quantization_hooks,
)
from pytpu.distributed.algorithms.join import Join, Joinable, JoinHook
from pytpu.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from pytpu.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from pytpu.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from pytpu.nn.parallel import DistributedDataParallel
from pytpu.utils.checkpoint import checkpoint

#: Samples of a step on all ranks.
BATCH = 16


class Block(nn.Module):
    """A block of a small transformer."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf"), device=x.device).triu(1)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A transformer whose last layer has the weight of its first."""

    def __init__(self, symbols=11, width=16):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.blocks = nn.Sequential(Block(width))
        self.head = nn.Linear(width, symbols, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.blocks(self.embedding(x))).flatten(0, 1)


def make(kind):
    """Return a model and its data: inputs and labels of a step."""
    torch.manual_seed(0)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10)), (BATCH, 64)
    if kind == "convolutions":
        layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(6 * 16, 10))
        return nn.SyncBatchNorm.convert_sync_batchnorm(model), (BATCH, 1, 8, 8)
    return Gpt(), (BATCH, 6)


def batch(kind, shape, step):
    generator = torch.Generator().manual_seed(100 + step)
    if kind == "gpt":
        text = torch.randint(0, 11, (shape[0], shape[1] + 1), generator=generator)
        return text[:, :-1], text[:, 1:]
    return torch.randn(shape, generator=generator), torch.randint(0, 10, (shape[0],), generator=generator)


def train(kind, device="cpu", steps=20, is_parallel=True, **options):
    """Train a model on this rank's part of each batch. Return the losses of all ranks and the parameters."""
    rank, size = (dist.get_rank(), dist.get_world_size()) if is_parallel else (0, 1)
    model, shape = make(kind)
    model.to(device)
    if is_parallel:
        model = DistributedDataParallel(model, **options)
    # With a rate of 0.05 the transformer diverges, and roundings grow tenfold in a few steps.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = (part.chunk(size)[rank].to(device) for part in batch(kind, shape, step))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y.reshape(-1))
        loss.backward()
        optimizer.step()
        mean = loss.detach().cpu()
        if is_parallel:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    inner = model.module if is_parallel else model
    return losses, [p.detach().cpu() for p in inner.parameters()]


def grads_of(model):
    return [None if p.grad is None else p.grad.detach().clone() for p in model.parameters()]


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def close(a, b, tolerance=1e-5):
    return all(torch.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("kind", ["mlp", "convolutions", "gpt"])
def test_training_is_that_of_one_process(pool, kind, device):
    expected, _ = train(kind, device, is_parallel=False)
    first, again = pool.run(train, kind, device), pool.run(train, kind, device)
    for losses, parameters in first:
        assert losses == pytest.approx(expected, rel=3e-6)
        assert losses == first[0][0]
        assert same(parameters, first[0][1])
    assert [r[0] for r in again] == [r[0] for r in first]
    assert same(again[0][1], first[0][1])


def with_options():
    plain = train("gpt", steps=4)
    for options in (
        {"bucket_cap_mb": 0.001},
        {"gradient_as_bucket_view": True},
        {"gradient_as_bucket_view": True, "find_unused_parameters": True},
        {"find_unused_parameters": True},
        {"static_graph": True},
    ):
        found = train("gpt", steps=4, **options)
        assert found[0] == pytest.approx(plain[0], rel=1e-6), options
        assert close(found[1], plain[1], 1e-6), options


def test_options_do_not_change_results(pool):
    pool.run(with_options)


def in_place():
    rank, size = dist.get_rank(), dist.get_world_size()
    wrapped, shape = make("mlp")
    wrapped = DistributedDataParallel(wrapped)
    model, _ = make("mlp")
    with torch.no_grad():
        # The first forward copies the parameters of rank 0.
        model[0].weight.add_(rank)
    assert replicate(model) is model and type(model) is nn.Sequential and replicate.state(model) is not None
    x, y = (part.chunk(size)[rank] for part in batch("mlp", shape, 0))
    for each in (wrapped, model):
        nn.functional.cross_entropy(each(x), y).backward()
    assert same(grads_of(wrapped), grads_of(model))
    assert list(model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    with pytest.raises(AssertionError, match="can only be applied to a module once"):
        replicate(model)
    other, _ = make("mlp")
    replicate(other, ignored_modules=[other[2]])
    nn.functional.cross_entropy(other(x), y).backward()
    assert torch.equal(other[0].bias.grad, model[0].bias.grad)
    own, _ = make("mlp")
    nn.functional.cross_entropy(own(x), y).backward()
    assert torch.equal(other[2].bias.grad, own[2].bias.grad)
    with torch.no_grad():
        model(x)


def test_a_module_can_be_replicated_in_place(pool):
    pool.run(in_place)


def reductions():
    """Return the numbers of the reductions that this process has begun. The recorder forgets the oldest."""
    entries = json.loads(torch._C._flight_recorder_json())["entries"]
    return {entry["record_id"] for entry in entries if "all_reduce" in entry["profiling_name"]}


def overlap():
    # The last weight fills the first bucket.
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 600), nn.Linear(600, 600))
    parallel = DistributedDataParallel(model)
    seen = []

    def watch(module, inputs, output):
        output.register_hook(lambda g: seen.append(reductions()))

    model[0].register_forward_hook(watch)
    results = []
    for _ in range(2):
        loss = parallel(torch.randn(2, 8)).sum()
        before = reductions()
        loss.backward()
        assert len(parallel.reducer.buckets()) == 2
        results.append((len(seen.pop() - before), len(reductions() - before)))
    return results


def test_the_first_reduction_starts_before_backward_ends(pool):
    # The hook runs before the gradients of the first layer are computed.
    assert pool.run(overlap) == [[(1, 2), (1, 2)]] * pool.size


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, which):
        return {"out": [(self.a if which == "a" else self.b)(x)]}


def unused(find):
    torch.manual_seed(0)
    model = DistributedDataParallel(Branches(), find_unused_parameters=find)
    rank = dist.get_rank()
    for _ in range(3):
        model.zero_grad()
        out = model(torch.ones(2, 3), "a" if rank == 0 else "b")["out"][0]
        out.sum().backward()
    return grads_of(model)


def test_unused_parameters_are_found(pool):
    size = pool.size
    for grads in pool.run(unused, True):
        a, b, c = grads[:2], grads[2:4], grads[4:]
        assert torch.equal(a[0], torch.full((3, 3), 2 / size))
        assert torch.equal(b[1], torch.full((3,), 2 * (size - 1) / size))
        assert c == [None, None]


def test_unexpected_unused_parameters_raise(pools):
    for rank, error in enumerate(pools(2).errors(unused, False)):
        assert error.kind is RuntimeError
        assert "Expected to have finished reduction in the prior iteration" in error.text
        indices = "2 3 4 5" if rank == 0 else "0 1 4 5"
        assert f"Parameter indices which did not receive grad for rank {rank}: {indices}" in error.text
        assert "c.weight" in error.text


def accumulate():
    torch.manual_seed(1)
    model = nn.Linear(4, 2)
    alone = copy.deepcopy(model)
    rank, size = dist.get_rank(), dist.get_world_size()
    data = torch.randn(2, size, 3, 4)
    for views in (False, True):
        model.zero_grad()
        parallel = DistributedDataParallel(model, gradient_as_bucket_view=views)
        for _ in range(2):
            parallel.zero_grad()
            with parallel.no_sync():
                parallel(data[0, rank]).square().sum().backward()
            local = copy.deepcopy(grads_of(model))
            parallel(data[1, rank]).square().sum().backward()
            alone.zero_grad()
            alone(data[0, rank]).square().sum().backward()
            assert close(local, grads_of(alone))
            alone.zero_grad()
            (alone(data.view(-1, 4)).square().sum() / size).backward()
            assert close(grads_of(model), grads_of(alone))
        # Gradients that are zeros instead of `None` are replaced, too.
        parallel.zero_grad(set_to_none=False)
        parallel(data[0, rank]).square().sum().backward()
        alone.zero_grad()
        (alone(data[0].view(-1, 4)).square().sum() / size).backward()
        assert close(grads_of(model), grads_of(alone))


def test_gradients_accumulate_without_synchronisation(pool):
    pool.run(accumulate)


def synchronise_late():
    torch.manual_seed(1)
    model = nn.Linear(4, 2)
    alone = copy.deepcopy(model)
    rank, size = dist.get_rank(), dist.get_world_size()
    data = torch.randn(2, size, 3, 4)
    parallel = DistributedDataParallel(model)
    for _ in range(2):
        parallel.zero_grad()
        with parallel.no_sync():
            losses = [parallel(part[rank]).square().sum() for part in data]
            losses[0].backward()
        # accelerate does this for the last of several backward passes whose forward passes were in `no_sync`.
        parallel.reducer.prepare_for_backward([])
        losses[1].backward()
        alone.zero_grad()
        (alone(data.view(-1, 4)).square().sum() / size).backward()
        assert close(grads_of(model), grads_of(alone))


def test_a_backward_pass_synchronises_although_its_forward_pass_did_not(pool):
    pool.run(synchronise_late)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared, self.last, self.never = nn.Linear(3, 3), nn.Linear(3, 1), nn.Linear(2, 2)

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.shared, x, use_reentrant=True)
        return self.last(x)


def reuse(is_static):
    torch.manual_seed(2)
    model = Twice()
    alone = copy.deepcopy(model)
    if not is_static:
        del model.never
    parallel = DistributedDataParallel(model, static_graph=is_static)
    size = dist.get_world_size()
    data = torch.randn(3, size, 2, 3)
    for x in data:
        parallel.zero_grad()
        parallel(x[dist.get_rank()].requires_grad_()).sum().backward()
        alone.zero_grad()
        (alone(x.reshape(-1, 3).requires_grad_()).sum() / size).backward()
        found, expected = grads_of(model), grads_of(alone)
        assert close(found[:4], expected[:4])
        assert found[4:] == expected[4:] == [None, None]


def test_static_graphs_may_use_parameters_twice(pool):
    pool.run(reuse, True)


def test_parameters_that_are_ready_twice_raise(pools):
    for error in pools(2).errors(reuse, False):
        assert "Expected to mark a variable ready only once" in error.text
        assert "with name shared." in error.text


def uneven(divide, views):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    alone = copy.deepcopy(model)
    rank, size = dist.get_rank(), dist.get_world_size()
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=views)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    steps = 2 + rank
    with parallel.join(divide_by_initial_world_size=divide):
        for step in range(steps):
            torch.manual_seed(100 * rank + step)
            optimizer.zero_grad()
            parallel(torch.randn(5, 4)).square().mean().backward()
            optimizer.step()
    # One process that knows the data of all ranks.
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(2 + size - 1):
        active = [r for r in range(size) if step < 2 + r]
        optimizer.zero_grad()
        for r in active:
            torch.manual_seed(100 * r + step)
            loss = copy.deepcopy(alone.state_dict())
            (alone(torch.randn(5, 4)).square().mean() / (size if divide else len(active))).backward()
            if r != active[-1]:
                # The statistics are those of the last active rank.
                alone.load_state_dict(loss)
        optimizer.step()
    assert close(list(parallel.module.state_dict().values())[:2], list(alone.state_dict().values())[:2])
    return [p.detach() for p in parallel.parameters()]


@pytest.mark.parametrize("divide", [True, False])
@pytest.mark.parametrize("views", [True, False])
def test_ranks_may_have_uneven_inputs(pool, divide, views):
    results = pool.run(uneven, divide, views)
    assert all(same(result, results[0]) for result in results)


def throw():
    model = DistributedDataParallel(nn.Linear(2, 1))
    with model.join(throw_on_early_termination=True):
        for _ in range(1 + dist.get_rank()):
            model(torch.ones(1, 2)).sum().backward()


def test_joined_ranks_may_raise(pools):
    first, second = pools(2).errors(throw)
    assert first.text == "Rank 0 exhausted all inputs."
    assert second.text == "Detected at least one rank that exhausted inputs. Throwing across all ranks."


class Counter(Joinable):
    """Sums ones of all ranks that have data."""

    def __init__(self):
        super().__init__()
        self.counts, self.last = [], None

    def count(self):
        Join.notify_join_context(self)
        ones = torch.ones(1)
        dist.all_reduce(ones)
        self.counts.append(int(ones))

    def join_hook(self, **kwargs):
        counter = self

        class Hook(JoinHook):
            def main_hook(self):
                dist.all_reduce(torch.zeros(1))

            def post_hook(self, is_last_joiner):
                counter.last = is_last_joiner

        return Hook()

    @property
    def join_device(self):
        return torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD


def count_steps():
    counter = Counter()
    with Join([counter]):
        for _ in range(1 + dist.get_rank()):
            counter.count()
    return counter.counts, counter.last


def test_own_objects_can_join(pool):
    for rank, (counts, last) in enumerate(pool.run(count_steps)):
        assert counts == [pool.size - step for step in range(rank + 1)]
        assert last == (rank == pool.size - 1)


def hooked(register, steps=3):
    torch.manual_seed(4)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 4)))
    register(model)
    generator = torch.Generator().manual_seed(dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 40, generator=generator)).square().mean().backward()
        grads = grads_of(model)
        optimizer.step()
    return grads


def with_hooks():
    plain = hooked(lambda model: None)

    def by(hook, state=None):
        return hooked(lambda model: model.register_comm_hook(state, hook))

    assert close(by(default_hooks.allreduce_hook), plain, 1e-6)
    assert close(by(default_hooks.fp16_compress_hook), plain, 2e-3)
    assert close(by(default_hooks.bf16_compress_hook), plain, 2e-2)
    assert close(by(default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)), plain, 2e-3)
    assert close(by(quantization_hooks.quantization_pertensor_hook), plain, 2e-2)
    assert close(by(quantization_hooks.quantization_perchannel_hook), plain, 2e-2)
    named = ddp_comm_hooks.DDPCommHookType.FP16_COMPRESS
    assert close(hooked(lambda model: ddp_comm_hooks.register_ddp_comm_hook(named, model)), plain, 2e-3)
    kind = dist.BuiltinCommHookType.ALLREDUCE
    assert close(hooked(lambda model: model._register_builtin_comm_hook(kind)), plain, 1e-6)
    # Matrices of full rank are exact, and the first steps average as they are.
    for batched in (False, True):
        state = powerSGD_hook.PowerSGDState(None, 60, start_powerSGD_iter=2, min_compression_rate=0.1)
        hook = powerSGD_hook.batched_powerSGD_hook if batched else powerSGD_hook.powerSGD_hook
        assert close(by(hook, state), plain, 1e-3)
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.1)
    return plain, by(powerSGD_hook.powerSGD_hook, state), by(debugging_hooks.noop_hook), state.iter


def test_communication_hooks(pool):
    results = pool.run(with_hooks)
    for plain, thin, own, steps in results:
        assert same(plain, results[0][0])
        assert same(thin, results[0][1])
        assert steps == 3
        # A gradient of rank 1 is not the mean of all ranks.
        assert torch.linalg.matrix_rank(thin[0]) == 1
        assert not close(own, plain)


def failing_hook():
    def hook(state, bucket):
        raise KeyError("no")

    hooked(lambda model: model.register_comm_hook(None, hook))


def test_errors_of_hooks_are_raised(pools):
    assert [error.kind for error in pools(2).errors(failing_hook)] == [KeyError, KeyError]


def in_bucket():
    seen = []

    def hook(state, bucket):
        seen.append((bucket.index(), bucket.is_last(), [tuple(g.shape) for g in bucket.gradients()]))
        assert [tuple(p.shape) for p in bucket.parameters()] == seen[-1][2]
        assert all(isinstance(p, nn.Parameter) for p in bucket.parameters())
        return default_hooks.allreduce_hook(None, bucket)

    hooked(lambda model: model.register_comm_hook(None, hook), 1)
    return seen


def test_hooks_see_buckets(pools):
    for seen in pools(2).run(in_bucket):
        assert seen == [(0, True, [(4,), (4, 40), (40,), (40, 40)])]


def normalize(rows):
    torch.manual_seed(5)
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [rows[r % len(rows)] for r in range(size)]
    for affine in (True, False):
        for momentum in (0.1, None):
            layer = nn.SyncBatchNorm(3, affine=affine, momentum=momentum)
            alone = nn.BatchNorm1d(3, affine=affine, momentum=momentum)
            for _ in range(2):
                data, weights = torch.randn(sum(parts), 3, 4) + 2, torch.randn(sum(parts), 3, 4)
                x = data.split(parts)[rank].clone().requires_grad_()
                whole = data.clone().requires_grad_()
                y, expected = layer(x), alone(whole)
                (y * weights.split(parts)[rank]).sum().backward()
                (expected * weights).sum().backward()
                assert close([y], [expected.split(parts)[rank]])
                assert close([x.grad], [whole.grad.split(parts)[rank]])
                assert close([layer.running_mean, layer.running_var], [alone.running_mean, alone.running_var])
                for p, q in zip(layer.parameters(), alone.parameters(), strict=True):
                    dist.all_reduce(p.grad)
                    assert close([p.grad], [q.grad], 1e-4)
                    p.grad = q.grad = None
            layer.eval()
            alone.eval()
            assert close([layer(x)], [alone(x)])


@pytest.mark.parametrize("rows", [[4], [5, 2], [3, 0]])
def test_batch_normalization_over_ranks(pool, rows):
    pool.run(normalize, rows)


def redundancy(optimizer_class, options):
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3), nn.Linear(3, 1))
    alone = copy.deepcopy(model)
    groups = lambda m: [{"params": m[:2].parameters()}, {"params": m[2].parameters(), "lr": 0.03}]
    zero = ZeroRedundancyOptimizer(groups(model), optimizer_class, lr=0.1, **options)
    plain = optimizer_class(groups(alone), lr=0.1, **options)
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 2) for o in (zero, plain)]

    def steps(zero):
        for _ in range(3):
            x = torch.randn(4, 5)
            for m, o in ((model, zero), (alone, plain)):
                o.zero_grad()
                m(x).square().mean().backward()
                o.step()
            for scheduler in schedulers:
                scheduler.step()
        assert close(model.parameters(), alone.parameters(), 1e-6)

    steps(zero)
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError, match="has not been consolidated"):
            zero.state_dict()
    zero.consolidate_state_dict()
    saved = [zero.state_dict() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(saved)
    expected = plain.state_dict()
    assert saved[0]["state"].keys() == expected["state"].keys()
    for number, state in expected["state"].items():
        for name, value in state.items():
            found = saved[0]["state"][number][name]
            assert found is value is None or close([torch.as_tensor(found)], [torch.as_tensor(value)])
    assert [g["params"] for g in saved[0]["param_groups"]] == [g["params"] for g in expected["param_groups"]]
    own = sum(p.numel() for group in zero.optim.param_groups for p in group["params"])
    # A new optimizer goes on with the state.
    again = ZeroRedundancyOptimizer(groups(model), optimizer_class, lr=0.1, **options)
    again.load_state_dict(saved[0])
    schedulers[0].optimizer = again
    steps(again)
    return own


def test_optimizer_state_is_divided(pool):
    for optimizer_class, options in ((torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {})):
        parts = pool.run(redundancy, optimizer_class, options)
        assert sum(parts) == 5 * 7 + 7 + 7 * 3 + 3 + 3 + 1


def wrong_parameters():
    for params, error, words in (
        ([], ValueError, "ZeroRedundancyOptimizer got an empty parameter list"),
        (torch.ones(1), TypeError, "`params` argument should be an iterable of Tensors, but got torch.FloatTensor"),
        (1, TypeError, "`params` argument should be an iterable of Tensors or dicts, but got int"),
        ([1], TypeError, "`params` argument should be an iterable of Tensors or dicts"),
    ):
        with pytest.raises(error) as caught:
            ZeroRedundancyOptimizer(params, torch.optim.SGD, lr=0.1)
        assert str(caught.value) == words


def test_wrong_parameters_of_a_divided_optimizer_are_refused(pool):
    pool.run(wrong_parameters)


def average():
    rank, size = dist.get_rank(), dist.get_world_size()

    def run(averager):
        p = nn.Parameter(torch.zeros(3))
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD([p], lr=1.0), averager)
        values = []
        for _ in range(4):
            optimizer.zero_grad()
            (p * (rank + 1)).sum().backward()
            optimizer.step()
            values.append(p[0].item())
        again = PostLocalSGDOptimizer(torch.optim.SGD([p], lr=1.0), PeriodicModelAverager(1))
        again.load_state_dict(optimizer.state_dict())
        assert again.averager.step == 4
        state = optimizer.state_dict()
        del state["step"]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again.load_state_dict(state)
        assert again.averager.step == 0
        assert "does not contain a step counter" in str(caught[0].message)
        return values

    mean = (size + 1) / 2
    own = rank + 1
    assert run(PeriodicModelAverager(2, warmup_steps=1)) == [-own, -2 * mean, -2 * mean - own, -4 * mean]
    if size == 4:
        pair = 1.5 if rank < 2 else 3.5
        averager = HierarchicalModelAverager({1: 2, 2: 4})
        assert run(averager) == [-mean, -mean - pair, -3 * mean, -3 * mean - pair]


def test_parameters_are_averaged_now_and_then(pool):
    pool.run(average)


def local_gradients():
    subgroups, _ = dist.new_subgroups(2)
    state = local_sgd.PostLocalSGDState(None, subgroups, 2)
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    model.register_comm_hook(state, local_sgd.post_localSGD_hook)
    grads = []
    for _ in range(3):
        model.zero_grad()
        (model(torch.ones(1, 1)) * (dist.get_rank() + 1)).sum().backward()
        grads.append(model.module.weight.grad.item())
    return grads


def test_gradients_are_averaged_in_subgroups(pools):
    results = pools(4).run(local_gradients)
    assert results == [[2.5, 2.5, 1.5], [2.5, 2.5, 1.5], [2.5, 2.5, 3.5], [2.5, 2.5, 3.5]]


def differ(kind):
    rank = dist.get_rank()
    if kind == "shapes":
        DistributedDataParallel(nn.Linear(2 + rank, 3))
    else:
        DistributedDataParallel(nn.Linear(2, 3, bias=rank == 0))


def test_unequal_models_are_refused(pools):
    for error in pools(2).errors(differ, "shapes"):
        assert "params[0]" in error.text
        assert "appears not to match sizes" in error.text
    for error in pools(2).errors(differ, "numbers"):
        assert "DDP expects same model across all ranks" in error.text


def wrapping():
    torch.manual_seed(dist.get_rank())
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    model[2].bias.requires_grad_(False)
    parallel = DistributedDataParallel(model)
    values = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    shared = values.clone()
    dist.broadcast(shared, 0)
    assert torch.equal(values, shared)
    assert all(name.startswith("module.") for name in parallel.state_dict())
    other = copy.deepcopy(parallel)
    file = io.BytesIO()
    torch.save(parallel, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    x = torch.randn(3, 2)
    for one in (parallel, other, loaded):
        one.train()
        one(x).sum().backward()
    for one in (other, loaded):
        assert same([g for g in grads_of(one) if g is not None], [g for g in grads_of(parallel) if g is not None])
    assert parallel.module[2].bias.grad is None
    parallel.eval()
    with torch.no_grad():
        parallel(x)
    data = parallel._get_ddp_logging_data()
    assert (data["world_size"], data["rank"]) == (dist.get_world_size(), dist.get_rank())
    # Statistics of rank 0 are those of all ranks in the next step.
    model[1].running_mean.fill_(dist.get_rank() + 1.0)
    model[1].eval()
    parallel(x)
    assert model[1].running_mean.tolist() == [1.0, 1.0]


def test_models_are_wrapped(pool):
    pool.run(wrapping)


def ignoring():
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["0.weight"])
    nn.init.ones_(model[0].weight)
    nn.init.ones_(model[1].weight)
    parallel = DistributedDataParallel(model)
    (parallel(torch.ones(1, 1)) * (dist.get_rank() + 1)).sum().backward()
    return model[0].weight.grad.item(), model[1].weight.grad.item()


def test_parameters_can_be_ignored(pools):
    assert pools(2).run(ignoring) == [(1.0, 1.5), (2.0, 1.5)]


def test_a_process_group_is_needed():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedDataParallel(nn.Linear(1, 1))


def test_wrong_hooks_and_late_settings_are_refused():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = DistributedDataParallel(torch.nn.Linear(2, 2))

        def of_numbers(state, bucket: int):
            return torch.futures.Future()

        def to_numbers(state, bucket: dist.GradBucket) -> int:
            return 1

        def typed(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            return dist.all_reduce(bucket.buffer(), async_op=True).get_future()

        with pytest.raises(ValueError, match="bucket annotation should be dist.GradBucket"):
            model.register_comm_hook(None, of_numbers)
        assert model._get_ddp_logging_data()["has_error"] == 1
        with pytest.raises(ValueError, match="return annotation should be torch.futures.Future"):
            model.register_comm_hook(None, to_numbers)
        assert "return annotation" in model._get_ddp_logging_data()["error"]
        model.register_comm_hook(None, typed)
        with pytest.raises(RuntimeError, match="can only be called once"):
            model.register_comm_hook(None, typed)
        model = DistributedDataParallel(torch.nn.Linear(2, 2))
        model.register_comm_hook(None, lambda state, bucket: 1)
        with pytest.raises(RuntimeError, match="must return a torch.futures.Future object, but got int"):
            model(torch.ones(1, 2)).sum().backward()
        model = DistributedDataParallel(torch.nn.Linear(2, 2))
        model(torch.ones(1, 2)).sum().backward()
        with pytest.raises(RuntimeError, match="should be called before training loop starts"):
            model._set_static_graph()
        facts = model._get_ddp_logging_data()
        assert "before training loop" in facts["error"] and facts["dtypes"] == "float" and facts["has_sync_bn"] == 0
    finally:
        dist.destroy_process_group()


def test_environment_is_printed(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    torch.nn.parallel.distributed._dump_DDP_relevant_env_vars()
    assert {"env:RANK=3", "env:MASTER_ADDR=N/A"} <= set(capsys.readouterr().out.splitlines())
