"""Write `overlapping.json`, which `ops/test_overlapping_views.py` compares with. Run it with PyTorch.

A case is a view `u` of a vector `b` that reaches some elements through several indices, and a write to it.
"""

import json
import math
import pathlib
import random

import torch

VIEWS = [
    "b.unfold(0, 3, 1)",
    "b.unfold(0, 3, 1).t()",
    "b.unfold(0, 4, 2)",
    "b[1:].as_strided((3, 3), (1, 1), 1)",
    "b.as_strided((3, 2), (1, 2))",
    "b.as_strided((2, 3), (2, 1), 1)",
    "b.as_strided((2, 2, 2), (1, 2, 2))",
    "b[:8].view(2, 4).unfold(1, 3, 1)[1]",
]
WRITES = [
    "u.copy_(a(*u.shape))",
    "u.copy_(a(*u.shape[::-1]).permute(*range(u.dim())[::-1]))",
    "u.fill_(7)",
    "u.zero_()",
    "u.mul_(10)",
    "u.mul_(a(*u.shape))",
    "u.sub_(a(u.shape[-1]))",
    "u.div_(4)",
    "u.neg_()",
    "u.square_()",
    "u.addcmul_(a(*u.shape), a(u.shape[-1]), value=0.5)",
    "u.lerp_(a(*u.shape), 0.5)",
    "u.clamp_(1.5, 3.5)",
    "u.logical_not_()",
    "torch._foreach_mul_([u], 2.0)",
    "torch.add(a(*u.shape), 1, out=u)",
    "torch.mul(a(*u.shape), a(u.shape[-1]), out=u)",
    "u[..., 1, 1] = 7",
    "u[0] = 9",
    "u[0] = a(*u.shape[1:])",
    "u.select(0, 1).mul_(10)",
    "u[..., 1].zero_()",
    "u[...] = a(*u.shape)",
    "u[1:] = a(*u[1:].shape)",
    "u.transpose(0, 1)[1].fill_(3)",
    "u[0].copy_(u[1])",
    "u.detach()[1].fill_(4)",
    "u.data[1, 1] = 4",
    "u.view(torch.int32)[1, 1].fill_(4)",
    "u.diagonal().copy_(a(*u.diagonal().shape))",
    "u.index_put_((i(0, 1, 1), i(1, 1, 0)), a(3, *u.shape[2:]))",
    "u.index_put_((i(0, 1, 1), i(1, 1, 0)), a(3, *u.shape[2:]), accumulate=True)",
    "u[i(0, 1), i(1, 1)] = 7.0",
    "u[i(1, 0)] = a(2, *u.shape[1:])",
    "u[u > 2] = 50.0",
    "u[i(*range(len(u))) > 0] = 6.0",
    "u.masked_fill_(u > 2, 50.0)",
    "u.masked_scatter_(u > 2, a(*u.shape))",
    "u.scatter_(0, i(*[1] * u[:1].numel()).view(u[:1].shape), 5.0)",
    "u.scatter_(0, i(*[1] * u[:1].numel()).view(u[:1].shape), a(*u[:1].shape))",
    "u.scatter_add_(0, i(*[1] * u[:2].numel()).view(u[:2].shape), a(*u.shape))",
    "u.index_fill_(0, i(1, -1), 3.0)",
    "u.index_copy_(0, i(1, 0), a(2, *u.shape[1:]))",
    "u.index_add_(0, i(1, 0), a(2, *u.shape[1:]), alpha=2)",
    "u.put_(i(1, 3, -1), a(3))",
    "u.put_(i(1, 3, 1), a(3), accumulate=True)",
    # The operand is the view itself, so it changes from element to element.
    "u.add_(u)",
    "u.sub_(u)",
    "u.mul_(u)",
    "u.add_(1).div_(u)",
    "u.atan2_(u)",
    "u.hypot_(u)",
    "u.eq_(u)",
    "u.lerp_(u, 0.5)",
    "u.addcmul_(u, u)",
]


def result(view, write):
    b = torch.arange(9.0)
    names = {
        "torch": torch,
        "b": b,
        "a": lambda *shape: (torch.arange(float(math.prod(shape))) + 100).reshape(shape),
        "i": lambda *values: torch.tensor(values),
    }
    names["u"] = eval(view, names)
    try:
        exec(write, names)
    except (RuntimeError, IndexError) as error:
        return type(error).__name__
    return b.tolist()


def main():
    cases = [[view, write, result(view, write)] for view in VIEWS for write in WRITES]
    # Windows of any strides, of which many repeat elements in several ways.
    draw = random.Random(0)
    for _ in range(120):
        sizes = [draw.randint(1, 3) for _ in range(draw.randint(1, 3))]
        strides = [draw.choice([1, 1, 2, 3]) for _ in sizes]
        offset = draw.randint(0, 1)
        if offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) > 8:
            continue
        view = f"b.as_strided({tuple(sizes)}, {tuple(strides)}, {offset})"
        write = draw.choice([w for w in WRITES[:17] if "view" not in w])
        cases.append([view, write, result(view, write)])
    lines = ",\n".join(json.dumps(case) for case in cases)
    pathlib.Path(__file__).with_name("overlapping.json").write_text(f"[\n{lines}\n]\n")


main()
