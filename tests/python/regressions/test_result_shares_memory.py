"""Results once shared memory with their inputs."""

import pytpu as torch
from pytpu.nn import functional as F


def test_slice_scatter_gives_memory_of_its_own(device):
    x, part = torch.arange(4.0, device=device), torch.ones(4, device=device)
    torch.slice_scatter(x, x[:0], 0, 1, 1).add_(5)
    torch.slice_scatter(x, part, 0).add_(5)
    assert x.tolist() == [0, 1, 2, 3] and part.tolist() == [1, 1, 1, 1]
    assert torch.slice_scatter(x, part.double()[:2], 0, 1, 3).tolist() == [0, 1, 1, 3]


def test_results_never_share_memory_with_inputs(device):
    number, pair = torch.tensor(3.0, device=device), torch.tensor([[1.0, 2.0]], device=device)
    makes = {
        "sum": lambda: (number, number.sum()),
        "sum of no dimension": lambda: (number, number.sum((), keepdim=True)),
        "max": lambda: (number, number.max()),
        "max along": lambda: (number, number.max(0)[0]),
        "min": lambda: (number, number.min()),
        "amax": lambda: (number, number.amax()),
        "prod": lambda: (number, number.prod()),
        "mean": lambda: (number, number.mean()),
        "pad": lambda: (pair, F.pad(pair, (0, 0))),
        "pad by reflection": lambda: (pair, F.pad(pair, (0, 0), mode="reflect")),
        "ZeroPad1d": lambda: (pair, torch.nn.ZeroPad1d(0)(pair)),
        "repeat_interleave": lambda: (pair, pair.repeat_interleave(1, 0)),
        "clamp": lambda: (pair, pair.clamp(max=float("inf"))),
    }
    for name, make in makes.items():
        x, y = make()
        before = x.tolist()
        y += 1
        assert x.tolist() == before, name
    loss = torch.tensor([1.0, 2.0], device=device, requires_grad=True).sum()
    total = loss.sum()
    total += 1
    assert loss.item() == 3 and total.item() == 4
    total.backward()
