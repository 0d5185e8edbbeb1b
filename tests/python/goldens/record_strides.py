"""Writes `strides.json`: strides of element-wise results and copies of random permuted, sliced and expanded operands,
as PyTorch chooses them.

Run it with PyTorch: `python record_strides.py`. `tensor/test_strides.py` makes the same operands with `operand`, and
compares.
"""

import json
import pathlib
import random


def layout(rng, sizes):
    """Return a random layout for these sizes: the order of dimensions, steps between elements, expanded dimensions."""
    order = list(range(len(sizes)))
    kind = rng.choice(["plain", "permuted", "permuted", "sliced", "expanded", "channels_last"])
    if kind == "channels_last" and len(sizes) == 4:
        order = [0, 2, 3, 1]
    elif kind != "plain":
        rng.shuffle(order)
    steps = [rng.choice([1, 1, 2]) if kind == "sliced" else 1 for _ in sizes]
    once = [kind == "expanded" and rng.random() < 0.3 for _ in sizes]
    return {"sizes": sizes, "order": order, "steps": steps, "once": once}


def operand(torch, how, device="cpu"):
    """Return a tensor of ones with this layout."""
    sizes, order, steps, once = how["sizes"], how["order"], how["steps"], how["once"]
    x = torch.ones([1 if once[d] else sizes[d] * steps[d] for d in order], device=device)
    x = x.permute([order.index(d) for d in range(len(order))])
    return x[tuple(slice(None, None, s) for s in steps)].expand(sizes)


def calls(torch, x, y, z):
    """Return the results whose strides are compared."""
    return {
        "exp": x.exp(),
        "clone": x.clone(),
        "empty_like": torch.empty_like(x),
        "double": x.double(),
        "number": x * 2.0,
        "add": x + y,
        "lt": y < x,
        "where": torch.where(x > 0, x, y),
        "gelu": torch.nn.functional.gelu(x),
    }


def case(rng):
    sizes = [rng.choice([1, 2, 3, 4]) for _ in range(rng.choice([1, 2, 3, 4, 4, 5]))]
    other = sizes
    if rng.random() < 0.5:
        other = [n if rng.random() < 0.6 else 1 for n in sizes[rng.randrange(len(sizes)) :]]
    return [layout(rng, s) for s in (sizes, other, sizes)]


if __name__ == "__main__":
    import torch

    rng, recorded = random.Random(0), []
    for _ in range(250):
        how = case(rng)
        operands = [operand(torch, h) for h in how]
        recorded.append({"operands": how, "strides": {k: list(v.stride()) for k, v in calls(torch, *operands).items()}})
    (pathlib.Path(__file__).parent / "strides.json").write_text(
        json.dumps(recorded, separators=(",", ":")).replace('{"operands"', '\n{"operands"') + "\n"
    )
