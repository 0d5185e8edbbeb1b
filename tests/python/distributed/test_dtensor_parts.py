"""The part of a sharded tensor that `to_local` returns: its identity, its strides, and what it sees."""

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.distributed.fsdp import fully_shard
from pytpu.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

DEVICES = pytest.mark.parametrize("device", ["cpu", "tpu"])


def part_is_itself(device):
    mesh = dist.init_device_mesh(device, (2,))
    d = distribute_tensor(torch.arange(8.0).view(4, 2), mesh, [Shard(0)])
    with torch.no_grad():
        assert d.to_local() is d.to_local() is d._local_tensor
        assert d.t().to_local().shape == (2, 2)
    assert d.to_local() is not d._local_tensor
    d.requires_grad_()
    part = d.to_local()
    assert part.requires_grad and not part.is_leaf
    with torch.inference_mode():
        assert not d.to_local().requires_grad
    y = part.mul(3).sum()
    y.backward()
    assert d.grad.placements == (Shard(0),) and d.grad.to_local().tolist() == [[3, 3], [3, 3]]


@DEVICES
def test_the_part_is_one_tensor_without_recording(pools, device):
    pools(2).run(part_is_itself, device)


def part_sees_writes(device):
    mesh = dist.init_device_mesh(device, (2,))
    rank = dist.get_rank()
    d = distribute_tensor(torch.arange(8.0).view(4, 2), mesh, [Shard(0)])
    part = d.to_local()
    d.add_(1)
    own = torch.arange(8.0).view(4, 2)[2 * rank : 2 * rank + 2] + 1
    assert torch.equal(part.cpu(), own)
    d.copy_(distribute_tensor(torch.ones(4, 2), mesh, [Replicate()]))
    assert d.placements == (Shard(0),) and torch.equal(part.cpu(), torch.ones(2, 2))
    d[0].fill_(5)
    assert part.tolist() == ([[5, 5], [1, 1]] if rank == 0 else [[1, 1], [1, 1]])
    part.zero_()
    assert d.full_tensor().sum().item() == 0
    # The part of a view lies in that of its base.
    view = d.t().to_local()
    d.fill_(2)
    assert view.tolist() == part.tolist() == [[2, 2], [2, 2]]
    # Saved values are checked, as for other tensors.
    w = torch.ones(2, 2, device=device, requires_grad=True)
    loss = (part * w).sum()
    d.mul_(2)
    try:
        loss.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("a saved part was written")


@DEVICES
def test_the_part_sees_what_is_written(pools, device):
    pools(2).run(part_sees_writes, device)


def strides_of_whole(device):
    mesh = dist.init_device_mesh(device, (2,))
    local = torch.arange(64.0, device=device).view(2, 4, 8).permute(1, 2, 0)
    for placement, strides, sizes in (
        (Shard(0), (8, 1, 64), (8, 8, 2)),
        (Shard(1), (16, 1, 64), (4, 16, 2)),
        (Shard(2), (8, 1, 32), (4, 8, 4)),
        (Replicate(), (8, 1, 32), (4, 8, 2)),
        (Partial(), (8, 1, 32), (4, 8, 2)),
    ):
        d = DTensor.from_local(local, mesh, [placement])
        assert (d.shape, d.stride()) == (torch.Size(sizes), strides), placement
        assert d._spec.tensor_meta.stride == strides
        assert torch.equal(d.to_local(), local) and d.to_local().stride() == local.stride()
        ranks = 1 if placement in (Replicate(), Partial()) else 2
        whole = local if ranks == 1 else torch.cat([local, local], placement.dim)
        whole = whole * 2 if placement == Partial() else whole
        assert torch.equal(d.full_tensor(), whole)
        assert torch.equal((d.contiguous() + 1).full_tensor(), whole + 1)
        assert torch.equal(d.permute(2, 0, 1).view(-1).full_tensor(), whole.permute(2, 0, 1).contiguous().view(-1))
    given = DTensor.from_local(local, mesh, [Shard(1)], shape=(4, 16, 2), stride=(16, 1, 64))
    assert given.stride() == (16, 1, 64)
    # An expanded part leaves gaps.
    expanded = DTensor.from_local(torch.ones(1, 2, device=device).expand(3, 2), mesh, [Shard(0)])
    assert expanded.stride() == (2, 1)


@DEVICES
def test_the_strides_of_the_whole_follow_from_the_part(pools, device):
    pools(2).run(strides_of_whole, device)


def load_states(device):
    mesh = dist.init_device_mesh(device, (2,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)).to(device)
    fully_shard(model, mesh=mesh)
    parts = {name: p.to_local() for name, p in model.named_parameters()}
    places = {name: part.data_ptr() for name, part in parts.items()} if device == "cpu" else {}
    state = {name: (value + 1).detach() for name, value in model.state_dict().items()}
    model.load_state_dict(state)
    for name, p in model.named_parameters():
        with torch.no_grad():
            assert torch.equal(parts[name], state[name].to_local())
            if places:
                assert p.to_local().data_ptr() == places[name]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(3, 4, device=device)).sum().backward()
    optimizer.step()
    for name, p in model.named_parameters():
        assert torch.equal(p.to_local(), parts[name]), name
        if places:
            assert p.to_local().data_ptr() == places[name]


@DEVICES
def test_a_loaded_state_keeps_the_address_of_the_parts(pools, device):
    pools(2).run(load_states, device)
