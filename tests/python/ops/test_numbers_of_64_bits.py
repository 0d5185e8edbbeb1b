"""Python integers from 2**63 to 2**64 - 1 beside tensors. PyTorch's results are recorded here."""

import pytest

import pytpu as torch

TOP, ALL = 2**63, 2**64 - 1

# With an `int64` tensor they wrap around.
WRAPPED = {
    "t & n": (lambda t, n: t & n, [0, 0], [5, 1]),
    "n & t": (lambda t, n: n & t, [0, 0], [5, 1]),
    "t | n": (lambda t, n: t | n, [-9223372036854775803, -9223372036854775807], [-1, -1]),
    "t ^ n": (lambda t, n: t ^ n, [-9223372036854775803, -9223372036854775807], [-6, -2]),
    "t + n": (lambda t, n: t + n, [-9223372036854775803, -9223372036854775807], [4, 0]),
    "n - t": (lambda t, n: n - t, [9223372036854775803, 9223372036854775807], [-6, -2]),
    "t * n": (lambda t, n: t * n, [-9223372036854775808, -9223372036854775808], [-5, -1]),
    "t % n": (lambda t, n: t % n, [-9223372036854775803, -9223372036854775807], [0, 0]),
    "n % t": (lambda t, n: n % t, [2, 0], [4, 0]),
    "t // n": (lambda t, n: t // n, [-1, -1], [-5, -1]),
    "fmod": (lambda t, n: torch.fmod(t, n), [5, 1], [0, 0]),
    "t < n": (lambda t, n: t < n, [False, False], [False, False]),
    "t == n": (lambda t, n: t == n, [False, False], [False, False]),
    "n ** t": (lambda t, n: n**t, [0, -9223372036854775808], [-1, -1]),
    "clamp(max)": (lambda t, n: t.clamp(max=n), [5, 1], [5, 1]),
    "add_": (lambda t, n: t.clone().add_(n), [-9223372036854775803, -9223372036854775807], [4, 0]),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_integers_wrap_around(device, name):
    f, at_top, at_all = WRAPPED[name]
    t = torch.tensor([5, 1], device=device)
    assert f(t, TOP).tolist() == at_top
    assert f(t, ALL).tolist() == at_all


FLOATS = {
    "f < n": (lambda f, n: f < n, [True, True]),
    "f + n": (lambda f, n: f + n, [2.0**63, 2.0**63]),
    "f / n": (lambda f, n: f / n, [5 / 2**63, 2.0**-63]),
    "n / f": (lambda f, n: n / f, [1.8446744348587459e18, 9.223372036854776e18]),
    "f % n": (lambda f, n: f % n, [5, 1]),
    "clamp(max)": (lambda f, n: f.clamp(max=n), [5, 1]),
    "clamp(min)": (lambda f, n: f.clamp(min=n), [2.0**63, 2.0**63]),
    "where": (lambda f, n: torch.where(f > 2, f, n), [5, 2.0**63]),
    "fill_": (lambda f, n: f.clone().fill_(n), [2.0**63, 2.0**63]),
    "masked_fill": (lambda f, n: f.masked_fill(f > 2, n), [2.0**63, 1]),
    "index_fill": (lambda f, n: f.index_fill(0, torch.tensor([0], device=f.device), n), [2.0**63, 1]),
    "full_like": (lambda f, n: torch.full_like(f, n), [2.0**63, 2.0**63]),
    "full": (lambda f, n: torch.full((2,), n, dtype=f.dtype, device=f.device), [2.0**63, 2.0**63]),
    "alpha": (lambda f, n: torch.add(f, f, alpha=n), [5 * 2.0**63, 2.0**63]),
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_take_the_value(device, name):
    f, want = FLOATS[name]
    assert f(torch.tensor([5.0, 1.0], device=device), TOP).tolist() == want


def test_a_quotient_of_integers_takes_the_value(device):
    t = torch.tensor([5, 1], device=device)
    assert (t / TOP).tolist() == [5 / 2**63, 2.0**-63]


REFUSED = {
    "fill_": lambda t, n: t.fill_(n),
    "masked_fill": lambda t, n: t.masked_fill(t > 2, n),
    "where": lambda t, n: torch.where(t > 2, t, n),
    "full": lambda t, n: torch.full((2,), n, dtype=t.dtype, device=t.device),
    "scatter": lambda t, n: t.scatter(0, torch.tensor([0], device=t.device), n),
    "pow": lambda t, n: t**n,
}


@pytest.mark.parametrize("name", REFUSED)
def test_integers_are_not_filled_with_numbers_that_they_cannot_hold(device, name):
    with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without overflow"):
        REFUSED[name](torch.tensor([5, 1], device=device), TOP)


def test_a_lower_bound_above_all_integers_is_refused():
    with pytest.raises(RuntimeError, match="Clamp min value 9.22337e.18 is outside the representable range of Long"):
        torch.tensor([5]).clamp(min=TOP)


def test_larger_integers_are_refused():
    t = torch.tensor([5])
    for f in (lambda: t + 2**64, lambda: t < 2**64, lambda: t.float() * 2**64, lambda: t - (2**63 + 2**64)):
        with pytest.raises(OverflowError, match="int too big to convert"):
            f()
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        torch.tensor([TOP])
