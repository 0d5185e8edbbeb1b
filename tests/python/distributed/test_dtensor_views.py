"""Views of sharded tensors: their collectives run at the call, and questions about them need no other rank."""

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu.distributed.tensor import Replicate, Shard, distribute_tensor
from pytpu.distributed.tensor.debug import CommDebugMode

DEVICES = pytest.mark.parametrize("device", ["cpu", "tpu"])
#: Views of a tensor of sizes (8, 16) by their names.
VIEWS = {
    "slice": lambda d: d[:, 8:],
    "slice with a step": lambda d: d[1::2, ::3],
    "index": lambda d: d[2, 3:5],
    "ellipsis": lambda d: d[..., None, 4],
    "narrow": lambda d: d.narrow(1, 2, 5),
    "select": lambda d: d.select(1, 3),
    "split": lambda d: d.split(8, 1)[1],
    "split by sizes": lambda d: d.split([3, 5], 0)[1],
    "chunk": lambda d: d.chunk(3, 1)[0],
    "tensor_split": lambda d: d.tensor_split([5], 1)[1],
    "hsplit": lambda d: torch.hsplit(d, 2)[0],
    "unbind": lambda d: d.unbind(1)[5],
    "iteration": lambda d: list(d)[6],
    "t": lambda d: d.t(),
    "permute": lambda d: d.permute(1, 0),
    "view": lambda d: d.view(2, 4, 16),
    "view across": lambda d: d.view(-1),
    "flatten and view": lambda d: d.flatten().view(16, 8),
    "unflatten": lambda d: d.unflatten(1, (2, 8)),
    "unsqueeze": lambda d: d.unsqueeze(1),
    "expand": lambda d: d[:, None].expand(8, 3, 16),
    "diagonal": lambda d: d.diagonal(1),
    "unfold": lambda d: d.unfold(1, 4, 3),
    "as_strided": lambda d: d.as_strided((4, 4), (2, 1), 3),
    "view of a view": lambda d: d[:, 2:].t()[4:, 1:3],
    "detach": lambda d: d[:, 8:].detach(),
    "view as real": lambda d: torch.view_as_real(torch.complex(d, d))[:, 3],
    "conjugate": lambda d: torch.complex(d, d).conj()[:, 4:],
    "bits": lambda d: d.view(torch.int32)[:, 4:],
}
#: Views whose base is a new tensor.
ON_COPIES = {"view as real", "conjugate"}
#: What one rank may ask alone. `to_local` and `repr` show this rank's part.
QUESTIONS = {
    "placements": lambda v: v.placements,
    "shape": lambda v: (v.shape, v.size(), v.dim(), v.numel(), len(v)),
    "stride": lambda v: (v.stride(), v.is_contiguous(), v.storage_offset()),
    "dtype": lambda v: (v.dtype, v.device, v.layout, v.element_size(), v.nbytes, v.is_complex()),
    "device_mesh": lambda v: v.device_mesh,
    "_spec": lambda v: (v._spec, v._spec.shard_order),
    "history": lambda v: (v.requires_grad, v.is_leaf, v.grad_fn, v._version, v._is_view(), v._base is None),
}
PARTS = {"to_local": lambda v: v.to_local(), "_local_tensor": lambda v: v._local_tensor, "repr": lambda v: repr(v)}


def sharded(device, placement, requires_grad=False):
    mesh = dist.init_device_mesh(device, (2,))
    whole = torch.arange(128.0).view(8, 16)
    return distribute_tensor(whole, mesh, [placement]).requires_grad_(requires_grad)


def ask_alone(names, device, dim):
    for name in names:
        view = VIEWS[name]
        for requires_grad in (False, True):
            d = sharded(device, Shard(dim), requires_grad)
            v = view(d)
            for question, ask in (QUESTIONS | PARTS).items():
                if dist.get_rank() == 0:
                    ask(v)
                same = torch.ones(3)
                dist.all_reduce(same)
                assert same.tolist() == [2, 2, 2], (name, question)
        # The base is written, so the values of the view have changed.
        e = d.detach()
        v = view(e)
        before = v.placements
        e.add_(1)
        for question, ask in QUESTIONS.items():
            if dist.get_rank() == 1:
                ask(v)
            dist.all_reduce(torch.ones(5))
            assert v.placements == before, (name, question)
        whole = torch.arange(128.0).view(8, 16)
        written = whole if name in ON_COPIES else whole + 1
        assert torch.equal(v.full_tensor().cpu(), view(written)), name


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(("device", "dim"), [("cpu", 0), ("cpu", 1), ("tpu", 1)])
def test_one_rank_may_ask_about_a_view(pools, device, dim, part):
    pools(2).run(ask_alone, list(VIEWS)[part::4], device, dim)


def ask_about_results(device):
    results = {
        "product": lambda d: d @ d.t(),
        "sum": lambda d: d.sum(1),
        "softmax": lambda d: d.softmax(1),
        "cat": lambda d: torch.cat([d, d], 1),
        "flip": lambda d: d.flip(1),
        "zeros": lambda d: torch.zeros_like(d)[:, 3:],
        "pending sum": lambda d: (d @ d.t())[2:5],
        "redistributed": lambda d: d.redistribute(placements=[Replicate()])[:, 5:],
    }
    for name, result in results.items():
        v = result(sharded(device, Shard(1)))
        for question, ask in (QUESTIONS | PARTS).items():
            if dist.get_rank() == 0:
                ask(v)
            same = torch.ones(3)
            dist.all_reduce(same)
            assert same.tolist() == [2, 2, 2], (name, question)


@DEVICES
def test_one_rank_may_ask_about_a_result(pools, device):
    pools(2).run(ask_about_results, device)


def count_at_the_call(device):
    counts = {}
    for name, view in VIEWS.items():
        d = sharded(device, Shard(1))
        with CommDebugMode() as mode:
            v = view(d)
        after = CommDebugMode()
        with after:
            v.placements, v.to_local(), v.detach().to_local(), repr(v)
        counts[name] = mode.get_total_counts()
        assert after.get_total_counts() == 0, name
    return counts


@DEVICES
def test_a_view_communicates_at_the_call(pools, device):
    counts = pools(2).run(count_at_the_call, device)[0]
    once = ["slice", "narrow", "select", "split", "chunk", "tensor_split", "hsplit", "unbind", "as_strided", "diagonal"]
    assert {name: counts[name] for name in once} == dict.fromkeys(once, 1)
    never = ["split by sizes", "iteration", "t", "permute", "view", "unsqueeze", "expand"]
    assert {name: counts[name] for name in never} == dict.fromkeys(never, 0)


def write_and_read_alone(device):
    d = sharded(device, Shard(1))
    whole = torch.arange(128.0).view(8, 16)
    v, w = d[:, 6:9], whole[:, 6:9]
    for step in (lambda v: v.mul_(2), lambda v: v.fill_(3), lambda v: v.copy_(v + 1)):
        step(v)
        step(w)
        if dist.get_rank() == 1:
            assert torch.equal(v.to_local().cpu(), w)
        dist.barrier()
        assert torch.equal(d.full_tensor().cpu(), whole)
    d[:, 3:8] = 7
    whole[:, 3:8] = 7
    assert torch.equal(d.full_tensor().cpu(), whole)
    assert torch.equal(v.full_tensor().cpu(), w)


@DEVICES
def test_a_written_view_can_be_read_by_one_rank(pools, device):
    pools(2).run(write_and_read_alone, device)


def drop_on_one_rank(device):
    d = sharded(device, Shard(1), requires_grad=True)
    v = d[:, 8:]
    if dist.get_rank() == 0:
        del v
    dist.barrier()
    loss = (d * 2).split(4, 1)[1].sum() + d.unbind(1)[3].sum()
    loss.backward()
    expected = torch.zeros(8, 16)
    expected[:, 4:8] = 2
    expected[:, 3] = 1
    assert d.grad.placements == (Shard(1),)
    assert torch.equal(d.grad.full_tensor().cpu(), expected)


@DEVICES
def test_one_rank_may_drop_a_view(pools, device):
    pools(2).run(drop_on_one_rank, device)
