"""Tensors of `bool` whose memory holds other bytes than 0 and 1, which views of other dtypes and NumPy may write.

Each function gives what it gives for `True` in their place. Values are those of PyTorch.
"""

import numpy as np
import pytest

import pytpu as torch

TRUTH = [True, False, True, True]


def odd(device="cpu"):
    """Return TRUTH, as the bytes 4, 0, 3 and 254."""
    x = torch.zeros(4, dtype=torch.bool, device=device)
    x.view(torch.uint8).copy_(torch.tensor([4, 0, 3, 254], dtype=torch.uint8, device=device))
    return x


FUNCTIONS = {
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.reshape(2, 2).sum(0),
    "prod": lambda x: x[[0, 2, 3]].prod(),
    "any": lambda x: x[:2].any(),
    "all": lambda x: x[[0, 2, 3]].all(),
    "amax": lambda x: x.amax(0),
    "amin": lambda x: x.amin(0),
    "max": lambda x: x.max(0)[0],
    "count_nonzero": lambda x: x.count_nonzero(),
    "nonzero": lambda x: x.nonzero().flatten(),
    "float": lambda x: x.float(),
    "half": lambda x: x.half(),
    "int8": lambda x: x.to(torch.int8),
    "int64": lambda x: x.long(),
    "complex": lambda x: x.to(torch.complex64),
    "not": lambda x: ~x,
    "logical_not": lambda x: x.logical_not(),
    "and": lambda x: x & torch.ones_like(x),
    "or": lambda x: (x | torch.zeros_like(x)).view(torch.int8),
    "xor": lambda x: x ^ torch.ones_like(x),
    "add": lambda x: x + torch.zeros_like(x),
    "add of a number": lambda x: x + 1,
    "mul": lambda x: (x * x).view(torch.int8),
    "mul of a number": lambda x: x * 2.5,
    "mul of floats": lambda x: x * torch.tensor([1.5, 2.0, 2.5, 3.0], device=x.device),
    "eq": lambda x: x == torch.ones_like(x),
    "ne": lambda x: x != x.flip(0),
    "lt": lambda x: x < torch.ones_like(x),
    "eq of a number": lambda x: x == True,  # noqa: E712
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "where": lambda x: torch.where(x, 1, 2),
    "masked_fill": lambda x: torch.zeros(4, device=x.device).masked_fill(x, 1),
    "masked_select": lambda x: torch.arange(4, device=x.device)[x],
    "index_put": lambda x: torch.zeros(4, device=x.device).index_put_((x,), torch.ones((), device=x.device)),
    "masked_scatter": lambda x: torch.zeros(4, device=x.device).masked_scatter(x, torch.arange(4.0, device=x.device)),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x[[0, 2, 3, 1]].cumprod(0),
    "cummax": lambda x: x.cummax(0)[0],
    "logcumsumexp": lambda x: x.float().logcumsumexp(0),
    "sort": lambda x: x.sort()[0],
    "unique": lambda x: x.unique(),
    "mode": lambda x: x.mode()[0],
    "clone": lambda x: x.clone().view(torch.int8),
    "contiguous": lambda x: x.reshape(2, 2).t().contiguous().view(torch.int8),
    "index": lambda x: x[torch.tensor([0, 2], device=x.device)].sum(),
    "index_select": lambda x: x.index_select(0, torch.tensor([0, 3], device=x.device)).float(),
    "gather": lambda x: x.gather(0, torch.tensor([0, 3], device=x.device)).sum(),
    "scatter": lambda x: torch.zeros_like(x).scatter(0, torch.arange(4, device=x.device), x).sum(),
    "index_add": lambda x: torch.zeros_like(x).index_add(0, torch.tensor([0, 0, 1, 2], device=x.device), x).sum(),
    "cat": lambda x: torch.cat([x, x]).sum(),
    "stack": lambda x: torch.stack([x, x]).sum(0),
    "flip": lambda x: x.flip(0).sum(),
    "roll": lambda x: x.roll(1).sum(),
    "tril": lambda x: x.reshape(2, 2).tril().sum(),
    "repeat": lambda x: x.repeat(2).sum(),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 1)).sum(),
    "diff": lambda x: x.diff(),
    "equal": lambda x: torch.equal(x, torch.tensor(TRUTH, device=x.device)),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "truth": lambda x: bool(x[3]),
    "index of a number": lambda x: torch.arange(2, device=x.device)[x[0]].shape,
    "repr": repr,
    "out": lambda x: torch.add(x, x, out=torch.empty(4, device=x.device)),
    "in place": lambda x: torch.ones(4, device=x.device).mul_(x),
    "copy": lambda x: torch.empty(4, dtype=torch.int32, device=x.device).copy_(x),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(
        torch.ones(1, 1, 2, 2, device=x.device),
        torch.eye(2, device=x.device)[None, None],
        torch.eye(2, device=x.device)[None, None],
        x.reshape(2, 2),
    ),
    "to cpu and back": lambda x: x.to("cpu").to("tpu").sum(),
}


def plain(y):
    return y.tolist() if isinstance(y, torch.Tensor) else y


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_every_byte_but_zero_is_true(name, device):
    x = odd(device)
    got = plain(FUNCTIONS[name](x))
    assert got == plain(FUNCTIONS[name](torch.tensor(TRUTH, device=device)))


def test_the_bytes_stay_until_they_are_written():
    x = odd()
    assert x.sum() == 3 and x.view(torch.uint8).tolist() == [4, 0, 3, 254]
    x |= torch.zeros_like(x)
    assert x.view(torch.uint8).tolist() == [1, 0, 1, 1]


def test_bytes_are_viewed_as_bool():
    x = torch.tensor([0, 2, 255], dtype=torch.uint8)
    y = x.view(torch.bool)
    assert y.tolist() == [False, True, True] and y.data_ptr() == x.data_ptr()
    y[0] = True
    y.logical_not_()
    assert x.tolist() == [0, 0, 0]


def test_bytes_of_numpy():
    a = np.array([4, 0, 3, 254], dtype=np.uint8)
    x = torch.from_numpy(a.view(np.bool_))
    assert x.tolist() == TRUTH and x.sum() == 3 and x.to("tpu").sum() == 3
    a[1] = 9
    assert x.all()


def test_large_tensors_of_odd_bytes():
    # Large enough for all threads, and for the copy in squares.
    x = torch.zeros(300, 400, dtype=torch.bool)
    x.view(torch.uint8).copy_(torch.arange(300 * 400).reshape(300, 400) % 256)
    want = torch.arange(300 * 400).reshape(300, 400) % 256 != 0
    assert torch.equal(x, want) and x.sum() == want.sum()
    assert torch.equal(x.t().contiguous().view(torch.uint8), want.t().to(torch.uint8))
    assert torch.equal(x.sum(0), want.sum(0)) and torch.equal(x ^ want, torch.zeros_like(want))
