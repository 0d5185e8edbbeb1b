"""Writes to memory that operands share: some are refused, the others compute from the old values."""

import pytest

import pytpu as torch

SHARED = "some elements of the input tensor and the written-to tensor refer to a single memory location"


REPEATED = "more than one element of the written-to tensor refers to a single memory location"


def numbers(device, n=12):
    return torch.arange(float(n), device=device)


def test_a_row_can_be_set_to_one_of_its_elements(device):
    a = numbers(device, 6).view(2, 3)
    a[1] = a[1][0]
    assert a[1].tolist() == [3, 3, 3]


def test_a_copy_of_an_expanded_element_reads_first(device):
    a = numbers(device, 4)
    a.copy_(a[2].expand(4))
    assert a.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    "write",
    [
        lambda w: w[1:].add_(w[:-1]),
        lambda w: w[1:].copy_(w[:-1]),
        lambda w: w.__setitem__(slice(1, None), w[:-1]),
        lambda w: w[1:].lerp_(w[:-1], 0.5),
        lambda w: w[1:].addcmul_(w[:-1], w[:-1]),
        lambda w: w.view(3, 4).t().copy_(w.view(4, 3)),
        lambda w: w[:4].copy_(w[2]),
        lambda w: torch.add(w[:4], w[4:8], out=w[2:6]),
        lambda w: torch.addcmul(w[:3], w[6:9], w[9:], out=w[1:4]),
        lambda w: torch.exp(w[:4], out=w[1:5]),
        lambda w: torch.cumsum(w[:4], 0, out=w[1:5]),
        lambda w: torch.sort(w[:4], out=(w[1:5], torch.empty(0, dtype=torch.int64, device=w.device))),
    ],
)
def test_a_write_over_other_elements_of_an_operand_is_refused(device, write):
    with pytest.raises(RuntimeError, match=SHARED):
        write(numbers(device))


@pytest.mark.parametrize(
    "write",
    [
        lambda w, i: w.index_add_(0, i, w),
        lambda w, i: w.index_copy_(0, i, w),
        lambda w, i: w.scatter_(0, i, w),
        lambda w, i: w.scatter_add_(0, i, w),
        lambda w, i: w.put_(i, w),
        lambda w, i: w.index_put_((i,), w),
        lambda w, i: i.index_add_(0, i, i.clone()),
        lambda w, i: i.index_fill_(0, i, 0),
        lambda w, i: i.index_put_((i,), i.clone()),
        lambda w, i: torch.cat([w[:1], w[1:]], out=w),
        lambda w, i: torch.gather(w, 0, i, out=w),
        lambda w, i: torch.index_select(w, 0, i, out=w),
    ],
)
def test_a_write_by_index_over_an_operand_is_refused(device, write):
    with pytest.raises(RuntimeError, match=SHARED):
        write(numbers(device, 3), torch.tensor([2, 1, 0], device=device))


def test_an_operand_elsewhere_in_the_storage_is_no_overlap(device):
    w = numbers(device)
    torch.cat([w[:2], w[4:6]], out=w[6:10])
    assert w[6:10].tolist() == [0, 1, 4, 5]
    torch.add(w[:2], w[2:4], out=w[10:])
    assert w[10:].tolist() == [2, 4]
    w[::2].add_(w[1::2])
    assert w[:4].tolist() == [1, 1, 5, 3]


def test_a_function_can_write_over_its_operand(device):
    y = torch.tensor([3.0, 1.0, 2.0], device=device)
    at = torch.empty(0, dtype=torch.int64, device=device)
    torch.sort(y, out=(y, at))
    assert y.tolist() == [1, 2, 3] and at.tolist() == [1, 2, 0]
    torch.add(y, 1, out=y)
    assert y.tolist() == [2, 3, 4]


def test_expanded_tensors_are_not_written(device):
    x = torch.ones(1, device=device).expand(4)
    for write in (lambda: x.add_(1), lambda: x.copy_(numbers(device, 4)), lambda: torch.exp(numbers(device, 4), out=x)):
        with pytest.raises(RuntimeError, match=REPEATED):
            write()


def test_filling_parts_of_an_expanded_tensor_warns(device):
    at = torch.tensor([1], device=device)
    x = torch.ones(1, device=device).expand(6)
    with pytest.warns(UserWarning, match="Use of index_fill_ on expanded tensors is deprecated"):
        x.index_fill_(0, at, 2.0)
    assert x.tolist() == [2] * 6
    with pytest.warns(UserWarning, match="Use of index_put_ on expanded tensors is deprecated"):
        x.index_put_((at,), torch.full((1,), 3.0, device=device))
    assert x.tolist() == [3] * 6
    y = torch.ones(3, 1, device=device).expand(3, 2)
    mask = torch.tensor([[True, False], [False, False], [False, True]], device=device)
    with pytest.warns(UserWarning, match="Use of masked_fill_ on expanded tensors is deprecated"):
        y.masked_fill_(mask, 0.0)
    assert y.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_threshold_in_place_of_an_expanded_tensor(device):
    x = torch.tensor([[0.2, 0.7]], device=device).expand(3, 2)
    torch.nn.functional.threshold(x, 0.5, 9.0, inplace=True)
    assert all(row == pytest.approx([9.0, 0.7]) for row in x.tolist())


OVERLAPPING = [
    lambda x, i: x[1:].add_(x[:-1]),
    lambda x, i: x[1:].sub_(x[:-1], alpha=2),
    lambda x, i: x[1:].copy_(x[:-1]),
    lambda x, i: x.mul_(x[2]),
    lambda x, i: x[:4].view(2, 2).add_(x[:4].view(2, 2).t()),
    lambda x, i: x[1:].lerp_(x[:-1], 0.5),
    lambda x, i: x[1:].clamp_(x[:-1]),
    lambda x, i: x[1:].eq_(x[:-1]),
    lambda x, i: x[1:].scatter_(0, i, x[:2]),
    lambda x, i: x.add_(x.detach()[0]),
    lambda x, i: x.__setitem__(slice(1, None), x[:-1]),
]


@pytest.mark.parametrize("write", OVERLAPPING)
def test_writes_that_overlap_an_operand_are_refused(device, write):
    x = torch.arange(6.0, device=device)
    with pytest.raises(
        RuntimeError, match="unsupported operation: some elements of the input tensor and the written-to tensor"
    ):
        write(x, torch.tensor([0, 1], device=device))
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_writes_to_equal_or_disjoint_elements_are_allowed(device):
    x = torch.arange(6.0, device=device)
    x.add_(x)
    x[:3].add_(x[3:])
    x[::2].add_(x[1::2])
    assert x.tolist() == [16, 10, 20, 6, 18, 10]
    x[1:].sub_(x[0])
    x[1:].fill_(x[3])
    assert x.tolist() == [16, -10, -10, -10, -10, -10]
    y = torch.ones(1, 4, 2, device=device)
    y[:, 3] += 1
    assert y[0, 3].tolist() == [2, 2]


def test_a_number_may_be_written_to_repeated_elements(device):
    x = torch.ones(3, device=device)
    x.expand(2, 3)[:] = 5
    assert x.tolist() == [5, 5, 5]
    for write in (
        lambda e: e.add_(1),
        lambda e: e.copy_(torch.ones(2, 3, device=device)),
        lambda e: e.__setitem__(slice(None), x),
    ):
        with pytest.raises(
            RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
        ):
            write(x.expand(2, 3))
