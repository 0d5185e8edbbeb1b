"""In-place ops that change some elements write these alone, on tensors of all layouts."""

import pytest

import pytpu as torch

ROWS, COLUMNS = 6, 4
AT = [4, 1, 4]


def at(device):
    return torch.tensor(AT, device=device)


def grid(device):
    return torch.tensor([[row] * COLUMNS for row in AT], device=device)


def source(dtype, device):
    return (torch.arange(len(AT) * COLUMNS, device=device).view(len(AT), COLUMNS) % 5 - 1).to(dtype)


def mask(device):
    return torch.arange(ROWS * COLUMNS, device=device).view(ROWS, COLUMNS) % 3 == 0


def rows_of(mask):
    return mask[:, 0]


# Name, and a call that takes the form with or without underscore.
WRITES = {
    "index_copy": lambda x, form, s: form("index_copy")(0, at(x.device)[:2], s[:2]),
    "index_add": lambda x, form, s: form("index_add")(0, at(x.device), s),
    "index_add_alpha": lambda x, form, s: form("index_add")(0, at(x.device), s, alpha=2),
    "index_add_columns": lambda x, form, s: form("index_add")(
        1, at(x.device)[1:2], s[:2].reshape(-1)[:ROWS].view(-1, 1)
    ),
    "index_fill": lambda x, form, s: form("index_fill")(0, at(x.device) - ROWS, 1),
    "index_reduce_amax": lambda x, form, s: form("index_reduce")(0, at(x.device), s, "amax"),
    "index_reduce_mean": lambda x, form, s: form("index_reduce")(0, at(x.device), s, "mean", include_self=False),
    "index_put": lambda x, form, s: form("index_put")((at(x.device)[:2],), s[:2]),
    "index_put_number": lambda x, form, s: form("index_put")((at(x.device),), s[0, 0]),
    "index_put_columns": lambda x, form, s: form("index_put")((None, at(x.device)[1:2]), s[0, 0]),
    "index_put_points": lambda x, form, s: form("index_put")((at(x.device), at(x.device) % 3 - 1), s[:, 0], True),
    "index_put_mask": lambda x, form, s: form("index_put")((mask(x.device),), s[0, 0]),
    "index_put_mask_rows": lambda x, form, s: form("index_put")((rows_of(mask(x.device)),), s[0]),
    "index_put_mask_add": lambda x, form, s: form("index_put")((mask(x.device),), s[0, 1], True),
    "scatter": lambda x, form, s: form("scatter")(0, grid(x.device)[:2], s[:2]),
    "scatter_number": lambda x, form, s: form("scatter")(0, grid(x.device), 1),
    "scatter_add": lambda x, form, s: form("scatter_add")(0, grid(x.device), s),
    "scatter_columns": lambda x, form, s: form("scatter_add")(1, grid(x.device) % COLUMNS, s),
    "scatter_prod": lambda x, form, s: form("scatter_reduce")(0, grid(x.device), s, "prod"),
    "scatter_mean": lambda x, form, s: form("scatter_reduce")(0, grid(x.device), s, "mean"),
    "put": lambda x, form, s: form("put")(at(x.device) - 2, s[:, 0], True),
    "masked_fill": lambda x, form, s: form("masked_fill")(mask(x.device), 1),
    "masked_scatter": lambda x, form, s: form("masked_scatter")(mask(x.device), s),
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8, torch.complex64]
UNORDERED = {"index_reduce_amax"}


def values(dtype, device):
    return (torch.arange(ROWS * COLUMNS, device=device).view(ROWS, COLUMNS) % 7 - 2).to(dtype)


def whole(x):
    return x.clone(), lambda base: base


def transposed(x):
    return x.t().contiguous().t(), lambda base: base


def with_gaps(x):
    base = torch.cat([x, x], 1)
    return base, lambda base: base[:, 1 : COLUMNS + 1]


def every_second_row(x):
    base = torch.cat([x, x, x])
    return base, lambda base: base[1 : 2 * ROWS + 1 : 2]


@pytest.mark.parametrize("layout", [whole, transposed, with_gaps, every_second_row], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", WRITES)
def test_in_place_equals_out_of_place(name, layout, device):
    # Device "tpu" compiles each of them.
    for dtype in DTYPES if device == "cpu" else DTYPES[:1]:
        if dtype.is_complex and name in UNORDERED:
            continue
        base, view = layout(values(dtype, device))
        x, old = view(base), base.clone()
        s = source(dtype, device)
        expected = WRITES[name](x, lambda f: getattr(x.clone(), f), s)
        before, pointer = x._version, x.data_ptr()
        result = WRITES[name](x, lambda f: getattr(x, f + "_"), s)
        assert result is x and x._version == before + 1 and (device == "tpu" or x.data_ptr() == pointer)
        assert torch.equal(x, expected), (name, dtype)
        # The rest of the base keeps its values.
        view(old).copy_(expected)
        assert torch.equal(base, old), (name, dtype)


SUMS = {
    "index_add": lambda x, i, s: x.index_add_(0, i, s),
    "index_put": lambda x, i, s: x.index_put_((i,), s, accumulate=True),
    "scatter_add": lambda x, i, s: x.scatter_add_(0, i.view(-1, 1).expand(-1, COLUMNS), s),
    "put": lambda x, i, s: x.put_(i.view(-1, 1) * COLUMNS + torch.arange(COLUMNS, device=x.device), s, True),
}


@pytest.mark.parametrize("rows", [ROWS, 400])
@pytest.mark.parametrize("layout", [whole, transposed, with_gaps], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_16_bit_floats_round_once(name, layout, rows, device):
    # A sum that is rounded after each one stays at the first number, because ones lie below half of its unit.
    for dtype, start in ((torch.bfloat16, 256.0), (torch.float16, 2048.0)):
        base, view = layout(torch.full((rows, COLUMNS), start, dtype=dtype, device=device))
        x, pointer = view(base), base.data_ptr()
        SUMS[name](x, torch.tensor([4, 1, 4, 4, 4], device=device), torch.ones(5, COLUMNS, dtype=dtype, device=device))
        expected = torch.full((rows, COLUMNS), start)
        expected[4] += 4
        assert torch.equal(x.cpu().float(), expected), (name, dtype)
        assert device == "tpu" or base.data_ptr() == pointer


@pytest.mark.parametrize("name", WRITES)
def test_gradients_in_place_equal_those_out_of_place(name, device):
    grads = []
    for in_place in (False, True):
        x0 = values(torch.float64, device).mul(1.5).requires_grad_()
        s0 = (source(torch.float64, device) + 0.25).requires_grad_()
        x, s = x0 * 2, s0 * 3
        base = x
        if in_place:
            x = x[:]  # a view, whose write becomes part of the history of its base
            WRITES[name](x, lambda f: getattr(x, f + "_"), s)
        else:
            base = WRITES[name](x, lambda f: getattr(x, f), s)
        weights = torch.arange(1.0, ROWS * COLUMNS + 1, device=device, dtype=torch.float64).view(ROWS, COLUMNS)
        (base * weights).sum().backward()
        grads.append((x0.grad, s0.grad))
    for a, b in zip(*grads, strict=True):
        assert (a is None and b is None) or torch.equal(a, b), name


@pytest.mark.parametrize("name", WRITES)
def test_backward_notices_the_write(name, device):
    x = values(torch.float64, device).requires_grad_() * 1.0
    y = x.sin()
    with torch.no_grad():
        WRITES[name](x, lambda f: getattr(x, f + "_"), source(torch.float64, device))
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda x, i: x.index_copy_(0, i, torch.ones(3, COLUMNS)),
        lambda x, i: x.index_add_(0, i, torch.ones(3, COLUMNS)),
        lambda x, i: x.index_fill_(0, i, 1.0),
        lambda x, i: x.index_put_((i,), torch.ones(COLUMNS)),
        lambda x, i: x.index_reduce_(0, i, torch.ones(3, COLUMNS), "amax"),
        lambda x, i: x.scatter_(0, i.view(3, 1), torch.ones(3, 1)),
        lambda x, i: x.scatter_reduce_(0, i.view(3, 1), torch.ones(3, 1), "mean"),
        lambda x, i: x.put_(i * 8, torch.ones(3)),
        lambda x, i: x.t()[:, :2].put_(i * 8, torch.ones(3)),
        lambda x, i: x.masked_scatter_(x < 99, torch.ones(3)),
    ],
)
def test_an_error_leaves_the_tensor_as_it_was(write):
    x = values(torch.float32, "cpu")
    old = x.clone()
    with pytest.raises((IndexError, RuntimeError)):
        write(x, torch.tensor([0, 1, ROWS]))
    assert torch.equal(x, old)


def test_operands_in_the_memory_of_the_tensor():
    # PyTorch finds no overlap with a tensor that has gaps. The old values are read, as out of place.
    base = torch.arange(12.0).view(3, 4)
    x = base[:, :2]
    expected = x.clone().index_copy(0, torch.tensor([0, 1]), x[1:].clone())
    assert torch.equal(x.index_copy_(0, torch.tensor([0, 1]), x[1:]), expected)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        base.index_add_(0, torch.tensor([0]), base[1:2])


def test_conjugated_and_negated_views_are_written_through():
    x = torch.tensor([1 + 2j, 3 - 1j, 2j])
    x.conj().index_copy_(0, torch.tensor([1]), torch.tensor([5 + 5j]))
    assert x.tolist() == [1 + 2j, 5 - 5j, 2j]
    y = torch.tensor([1 + 2j, 3 - 1j])
    y.conj().imag.index_fill_(0, torch.tensor([0]), 7.0)
    assert y.tolist() == [1 - 7j, 3 - 1j]


def test_a_mask_that_is_larger_than_the_tensor_is_refused():
    x = torch.arange(2.0)
    for write in (lambda m: x.masked_fill_(m, 9.0), lambda m: x.masked_scatter_(m, torch.ones(4))):
        with pytest.raises(RuntimeError):
            write(torch.ones(2, 2, dtype=torch.bool))
        assert x.tolist() == [0, 1]


def test_windows_that_overlap_keep_every_write():
    x = torch.zeros(7)
    x.unfold(0, 3, 2).index_fill_(0, torch.tensor([1]), 4.0)
    assert x.tolist() == [0, 0, 4, 4, 4, 0, 0]
    # The sum of a 16-bit float in two windows is rounded once, too.
    x = torch.full((5,), 256.0, dtype=torch.bfloat16)
    x.unfold(0, 3, 2).index_add_(0, torch.tensor([0, 1]), torch.ones(2, 3, dtype=torch.bfloat16))
    assert x.tolist() == [256, 256, 258, 256, 256]


def test_large_zeros_are_zero_after_other_tensors():
    for _ in range(3):
        x = torch.zeros(3, 1 << 19)
        assert not x.any()
        x.fill_(1.0)
        del x
    assert torch.zeros(1 << 20, dtype=torch.complex64).sum() == 0
    assert str(torch.full((1 << 20,), -0.0)[0]) == "tensor(-0.)"
