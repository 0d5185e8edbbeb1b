"""A loop whose values grow in each turn compiles a fixed number of programs."""

import os

import numpy as np
import pytest

import pytpu as torch


@pytest.fixture(autouse=True)
def compiled():
    torch.tpu.clear_cache()


def generate(model, ids, turns, device):
    """Greedy decoding as libraries write it: ids, mask and positions grow by one element at each turn."""
    ids = torch.tensor(ids, device=device)
    mask = torch.ones_like(ids)
    positions = mask.cumsum(-1) - 1
    compilations = []
    for _ in range(turns):
        last, at = ids[:, -1:], positions[:, -1:]
        scores = model[last[:, 0]] + at * 0.01 + (torch.arange(40, device=device) <= at).sum() * 0.001
        best = scores.argmax(-1, keepdim=True)
        ids = torch.cat([ids, best], dim=-1)
        mask = torch.cat([mask, mask.new_ones((mask.shape[0], 1))], dim=-1)
        positions = torch.cat([positions, positions[:, -1:] + 1], dim=-1)
        done = bool((best == -1).all())
        compilations.append(torch.tpu.metrics()["compilations"])
        assert not done
    assert mask.sum().item() == mask.numel() and positions[0].tolist() == list(range(ids.shape[1]))
    return ids.tolist(), compilations


def test_the_number_of_programs_of_an_appending_loop_does_not_depend_on_its_length():
    model = np.random.default_rng(0).standard_normal((50, 50)).astype(np.float32)
    want, _ = generate(torch.tensor(model), [[3, 1, 4], [1, 5, 9]], 24, "cpu")
    on_tpu = torch.tensor(model, device="tpu")
    got, compilations = generate(on_tpu, [[3, 1, 4], [1, 5, 9]], 24, "tpu")
    assert got == want
    assert compilations[-1] == compilations[2], compilations
    assert compilations[-1] - compilations[0] <= 4, compilations
    before = torch.tpu.metrics()["compilations"]
    again, _ = generate(on_tpu, [[2, 7, 1], [8, 2, 8]], 24, "tpu")
    assert again == generate(torch.tensor(model), [[2, 7, 1], [8, 2, 8]], 24, "cpu")[0]
    # The last sums have the same size as the sums of the first prompt, which are compiled.
    assert torch.tpu.metrics()["compilations"] == before


def test_beams_are_reordered_while_they_grow(device):
    rng = np.random.default_rng(1)
    beams = torch.tensor([[1, 2], [3, 4], [5, 6]], device=device)
    want = np.array([[1, 2], [3, 4], [5, 6]])
    before = None
    for turn in range(12):
        order, token = rng.integers(0, 3, 3), rng.integers(0, 9, 3)
        scores = torch.tensor(token, device=device).float()
        beams = torch.cat([beams[torch.tensor(order, device=device)], (scores + 0.25).round().long()[:, None]], dim=1)
        want = np.concatenate([want[order], token[:, None]], 1)
        assert beams.tolist() == want.tolist()
        if turn == 2:
            before = torch.tpu.metrics()["compilations"]
    assert torch.tpu.metrics()["compilations"] == before


def test_sums_over_growing_tensors_are_right(device):
    ids = torch.tensor([3], device=device)
    weights = torch.linspace(0, 1, 16, device=device)
    total = 0.0
    for _ in range(8):
        ids = torch.cat([ids, ids[-1:] * 3 % 16])
        # Float tensors grow here too, so the program is compiled, and it must be right.
        total += weights[ids].sum().item() + (ids > 3).sum().item()
    want, sums = [3], 0.0
    for _ in range(8):
        want.append(want[-1] * 3 % 16)
        sums += sum(w / 15 for w in want) + sum(w > 3 for w in want)
    assert ids.tolist() == want
    assert abs(total - sums) < 1e-4


@pytest.mark.skipif(
    not torch.tpu.aot.is_available() and os.environ.get("CI") != "true", reason="libtpu is not installed"
)
def test_a_planned_loop_compiles_as_many_programs():
    with torch.tpu.plan("v5e:2x2") as plan:
        ids, mask = torch.ones(1, 4, dtype=torch.long, device="tpu"), torch.ones(1, 4, dtype=torch.long, device="tpu")
        table = torch.ones(16, 16, device="tpu")
        counts = []
        for _ in range(6):
            best = (table[ids[:, -1]] * mask[:, -1:]).argmax(-1, keepdim=True)
            ids = torch.cat([ids, best], dim=-1)
            mask = torch.cat([mask, mask.new_ones((1, 1))], dim=-1)
            torch.tpu.synchronize()
            counts.append(len(plan.programs))
    assert ids.shape == (1, 10)
    assert counts[-1] == counts[1], counts
