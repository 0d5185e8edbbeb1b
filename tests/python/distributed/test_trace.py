"""Collectives of tensors on device ``tpu``, between processes."""

import datetime
import io
import pickle

import pytest

import pytpu as torch
import pytpu.distributed as dist
import pytpu.distributed._functional_collectives as funcol
import pytpu.distributed.nn.functional as dist_nn


def of_rank(rank, *shape, device="tpu"):
    """Return the value of a rank: small whole numbers, whose sums are exact."""
    size = torch.Size(shape).numel()
    return (torch.arange(size, dtype=torch.float32).reshape(shape) + 10 * rank).to(device)


def of_all(*shape):
    return [of_rank(rank, *shape, device="cpu") for rank in range(dist.get_world_size())]


def same(x, y):
    assert x.device.type == "tpu" and torch.equal(x.cpu(), y), (x, y)


def collectives():
    """Call every collective on device ``tpu``, and compare with one process."""
    rank, size = dist.get_rank(), dist.get_world_size()
    last = size - 1
    values = of_all(size, 3)
    x = of_rank(rank, size, 3)
    dist.all_reduce(x)
    same(x, sum(values))
    x = of_rank(rank, size, 3)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    same(x, sum(values) / size)
    # A view: its base has the result too.
    base = of_rank(rank, size, 3)
    dist.all_reduce(base[1], op=dist.ReduceOp.MAX)
    same(base[1], values[last][1])
    same(base[0], values[rank][0])
    x = of_rank(rank, size, 3)
    dist.broadcast(x, src=last)
    same(x, values[last])
    x = of_rank(rank, size, 3)
    dist.reduce(x, dst=last)
    same(x, sum(values) if rank == last else values[rank])
    parts = [torch.empty(size, 3, device="tpu") for _ in range(size)]
    dist.all_gather(parts, of_rank(rank, size, 3))
    for part, value in zip(parts, values, strict=True):
        same(part, value)
    whole = torch.empty(size * size, 3, device="tpu")
    dist.all_gather_into_tensor(whole, of_rank(rank, size, 3))
    same(whole, torch.cat(values))
    parts = [torch.empty(size, 3, device="tpu") for _ in range(size)] if rank == last else None
    dist.gather(of_rank(rank, size, 3), parts, dst=last)
    if rank == last:
        for part, value in zip(parts, values, strict=True):
            same(part, value)
    part = torch.empty(3, device="tpu")
    dist.scatter(part, list(of_rank(rank, size, 3)) if rank == last else None, src=last)
    same(part, values[last][rank])
    part = torch.empty(3, device="tpu")
    dist.reduce_scatter(part, list(of_rank(rank, size, 3)))
    same(part, sum(values)[rank])
    dist.reduce_scatter_tensor(part, of_rank(rank, size * 3))
    same(part, sum(of_all(size * 3))[3 * rank :][:3])
    parts = [torch.empty(3, device="tpu") for _ in range(size)]
    dist.all_to_all(parts, list(of_rank(rank, size, 3)))
    for part, value in zip(parts, values, strict=True):
        same(part, value[rank])
    x = torch.empty(size, 3, device="tpu")
    dist.all_to_all_single(x, of_rank(rank, size, 3))
    same(x, torch.stack([value[rank] for value in values]))
    dist.barrier()
    return True


def works():
    """Check what asynchronous calls return."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x = of_rank(rank, 4)
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    assert work.wait(datetime.timedelta(seconds=5))
    (result,) = work.get_future().wait()
    assert result is x
    same(x, sum(of_all(4)))
    # In-place results have no history, as in PyTorch.
    y = of_rank(rank, 4).requires_grad_()
    z = y * 2
    dist.all_reduce(z.detach())
    z.sum().backward()
    same(y.grad, torch.full((4,), 2.0))
    return size


def messages():
    """Send tensors of device ``tpu`` around."""
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    x, y = of_rank(rank, 2, 2) * 2, torch.empty(2, 2, device="tpu")
    work = dist.isend(x, after)
    assert dist.recv(y, before) == before
    work.wait()
    same(y, of_rank(before, 2, 2, device="cpu") * 2)
    y = torch.zeros(2, 2, device="tpu")
    received = dist.irecv(y, before, tag=3)
    dist.send(x + 1, after, tag=3)
    received.wait()
    same(y, of_rank(before, 2, 2, device="cpu") * 2 + 1)
    return True


def gradients(device):
    """Check gradients of functional collectives against those of one process."""
    rank, size = dist.get_rank(), dist.get_world_size()
    world = dist.group.WORLD
    x = of_rank(rank, size, 2, device=device).requires_grad_()
    values = of_all(size, 2)
    y = funcol.all_reduce(x, "sum", world)
    (y * (rank + 1)).sum().backward()
    assert torch.equal(y.cpu().detach(), sum(values))
    weight = size * (size + 1) / 2
    assert torch.equal(x.grad.cpu(), torch.full((size, 2), weight)), x.grad
    x.grad = None
    y = funcol.all_gather_single(x, 1, world)
    assert torch.equal(y.cpu().detach(), torch.cat(values, 1))
    (y * (rank + 1)).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((size, 2), weight))
    x.grad = None
    y = funcol.wait_tensor(funcol.reduce_scatter_single(x, "avg", 0, world))
    assert torch.equal(y.cpu().detach(), (sum(values) / size)[rank : rank + 1])
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((size, 2), 1 / size))
    x.grad = None
    y = funcol.all_to_all_single(x, None, None, world)
    assert torch.equal(y.cpu().detach(), torch.stack([value[rank] for value in values]))
    y.square().sum().backward()
    assert torch.equal(x.grad.cpu(), 2 * x.cpu().detach())
    x.grad = None
    y = funcol.broadcast(x, size - 1, world)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((size, 2), float(size if rank == size - 1 else 0)))
    y = funcol.permute_tensor(x.detach(), [(r + 1) % size for r in range(size)], world)
    assert torch.equal(y.cpu(), values[(rank - 1) % size].reshape(-1))
    x.grad = None
    (dist_nn.all_reduce(x) * 3).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((size, 2), 3.0 * size))
    x.grad = None
    parts = dist_nn.all_gather(x)
    assert all(torch.equal(part.cpu().detach(), value) for part, value in zip(parts, values, strict=True))
    sum(part.sum() for part in parts).backward()
    assert torch.equal(x.grad.cpu(), torch.full((size, 2), float(size)))
    x.grad = None
    parts = dist_nn.gather(x, dst=0)
    sum((i + 1) * part.sum() for i, part in enumerate(parts)).backward()
    assert torch.equal(x.grad.cpu(), torch.full((size, 2), float(rank + 1)))
    x.grad = None
    y = dist_nn.scatter(list(x), src=0)
    y.sum().backward()
    assert torch.equal(y.cpu().detach(), values[0][rank])
    assert torch.equal(x.grad.cpu(), torch.full((size, 2), float(rank == 0)))
    return True


def training(device):
    """Train with averaged gradients, and return the losses."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x = torch.randn(4 * dist.get_world_size(), 4)
    y = x.sum(1, keepdim=True)
    own = slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = (model(x[own].to(device)) - y[own].to(device)).square().mean()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


def alone():
    """Call a collective that the other rank does not call, and return what a read raises."""
    if dist.get_rank() != 0:
        return None
    x = torch.ones(3, device="tpu")
    dist.all_reduce(x)
    with pytest.raises(dist.DistBackendError) as error:
        x.tolist()
    return str(error.value)


def test_results_are_those_of_one_process(pool):
    assert all(pool.run(collectives))


def test_works_are_done_at_once(pool):
    assert set(pool.run(works)) == {pool.size}


def test_messages_go_through_the_host(pool):
    assert all(pool.run(messages))


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_functional_collectives_have_gradients(pool, device):
    assert all(pool.run(gradients, device))


def results(device):
    """Check what functional collectives return, and what becomes of it."""
    world = dist.group.WORLD
    x = of_rank(dist.get_rank(), 4, device=device)
    y, total = funcol.all_reduce(x, "sum", world), sum(of_all(4)).to(device)
    assert type(y) is funcol.AsyncCollectiveTensor and str(y) == f"AsyncCollectiveTensor({total})"
    assert [type(plain) for plain in (y.wait(), y + 1, y[0], y.detach(), funcol.wait_tensor(y))] == [torch.Tensor] * 5
    assert torch.equal(y.wait(), total) and torch.equal(y + x, total + x) and y.tolist() == total.tolist()
    file = io.BytesIO()
    torch.save(y, file)
    file.seek(0)
    for copy in (pickle.loads(pickle.dumps(y)), torch.load(file)):
        assert type(copy) is torch.Tensor and torch.equal(copy, total)
    assert type(torch.ops._c10d_functional.all_reduce(x, "sum", world.group_name)) is torch.Tensor
    y.add_(1)
    assert torch.equal(y.wait(), total + 1)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_results_of_functional_collectives_can_be_waited_for(pool, device):
    pool.run(results, device)


def test_training_is_that_of_cpu(pool):
    ranks = pool.run(training, "tpu")
    assert all(losses == ranks[0] for losses in ranks)
    assert ranks[0] == pytest.approx(pool.run(training, "cpu")[0], rel=1e-4)
    assert ranks[0][-1] < ranks[0][0]


def test_a_missing_rank_is_reported_where_the_result_is_read(fresh):
    text, *_ = fresh(timeout=2).run(alone)
    assert "all_reduce: Timed out waiting 2000 ms for rank" in text
    assert "test_trace.py:" in text
