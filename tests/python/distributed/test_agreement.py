"""Programs that differ between ranks, on device ``tpu``, without and with ranks that agree before each launch."""

import pytest
from rank_pool import RankPool

import pytpu as torch
import pytpu.distributed as dist
from pytpu.utils.data import DataLoader, TensorDataset

COUNTERS = "programs_fused", "programs_split", "cuts_adopted"


@pytest.fixture(scope="module", params=["never", "always"])
def ranks(request):
    """Return two ranks, and whether they agree."""
    pool = RankPool(2, __name__, {"TORCHTPU_AGREEMENT": request.param}).start()
    yield pool, request.param == "always"
    pool.close()


def training(reads, keeps=False):
    """Train for 12 steps, and return the losses that this rank reads, the last parameters, and the counters."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.arange(32, dtype=torch.float32).reshape(8, 4).div(32).add(dist.get_rank()).to("tpu")
    losses, kept = [], []
    torch.tpu.synchronize()
    torch.tpu.reset_metrics()
    for _ in range(12):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if reads and dist.get_rank() == 0:
            losses.append(loss.item())
        if keeps and dist.get_rank() == 0:
            kept.append(loss.detach())
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        optimizer.step()
    torch.tpu.synchronize()
    metrics = torch.tpu.metrics()
    parameters = [parameter.cpu().tolist() for parameter in model.parameters()]
    return losses or [value.item() for value in kept], parameters, [metrics[name] for name in COUNTERS]


def loading():
    """Train with batches of forked workers, and return the sum of all batches of both ranks."""
    data = TensorDataset(torch.arange(24, dtype=torch.float32).reshape(12, 2) + dist.get_rank())
    total = torch.zeros(2, device="tpu")
    for _ in range(2):
        for (batch,) in DataLoader(data, batch_size=4, num_workers=2):
            rows = batch.to("tpu").sum(0)
            dist.all_reduce(rows)
            total += rows
    dist.barrier()
    return total.tolist()


def test_undisturbed_steps_are_launched_whole(ranks):
    pool, agrees = ranks
    (_, first, counts), (_, second, _) = pool.run(training, False)
    assert first == second
    fused, split, adopted = counts
    assert (split, adopted) == (0, 0)
    assert (fused >= 12) == agrees


def test_a_rank_may_read_its_loss_in_each_step(ranks):
    pool, agrees = ranks
    plain = pool.run(training, False)
    reading = pool.run(training, True)
    assert len(reading[0][0]) == 12 and reading[0][0][-1] < reading[0][0][0]
    # The cut changes how the compiler fuses, so sums may differ in their last bits.
    for own, other in zip(reading, plain, strict=True):
        for parameter, expected in zip(own[1], other[1], strict=True):
            torch.testing.assert_close(torch.tensor(parameter), torch.tensor(expected))
    for _, _, (fused, split, adopted) in reading:
        assert (split > 0, adopted > 0, fused > 0) == (agrees, agrees, agrees)
        assert split <= 8


def test_a_rank_may_keep_values_that_others_drop(ranks):
    pool, _ = ranks
    kept, other = pool.run(training, False, True)
    assert len(kept[0]) == 12
    assert kept[1] == other[1]


def test_workers_of_a_data_loader_do_not_disturb_the_group(ranks):
    pool, _ = ranks
    # Twice the sum of both columns over both ranks.
    expected = [2 * sum(2 * row + column + rank for row in range(12) for rank in range(2)) for column in range(2)]
    assert pool.run(loading) == [expected, expected]
