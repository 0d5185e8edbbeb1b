"""Integer division by zero must raise, and never end the process."""

import os
import subprocess
import sys
import textwrap

import pytest

import pytpu as torch


@pytest.mark.parametrize(
    "divide",
    [
        lambda i, z: i // z,
        lambda i, z: i % z,
        lambda i, z: torch.fmod(i, z),
        lambda i, z: i // 0,
        lambda i, z: i % 0,
        lambda i, z: i.clone().remainder_(z),
        lambda i, z: i.div(z, rounding_mode="trunc"),
    ],
)
def test_integer_division_by_zero_is_an_error(device, divide):
    i, z = torch.tensor([5, 6], device=device), torch.tensor([2, 0], device=device)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(i, z).tolist()
    assert (i // 4).tolist() == [1, 1]
    assert (i[:0] // 0).tolist() == []


# Compilers find out that these are 0, and compute the division before the program runs.
ZEROS = {
    "difference": lambda x: x - x,
    "product": lambda x: x * 0,
    "and": lambda x: x & 0,
    "xor": lambda x: x ^ x,
    "zeros": lambda x: torch.zeros_like(x),
    "new": lambda x: torch.zeros(6, dtype=x.dtype, device=x.device),
    "iotas": lambda x: (torch.arange(6, device=x.device) - torch.arange(6, device=x.device)).to(x.dtype),
    "indices": lambda x: torch.zeros(6, 1, device=x.device).cummax(1)[1].view(6).to(x.dtype),
    "clamp": lambda x: x.clamp(0, 0),
    "minimum": lambda x: torch.minimum(x * 0, (x * 0 + 3)),
    "where": lambda x: torch.where(x == x, torch.zeros_like(x), x),
    "remainder": lambda x: x % 1,
    "shift": lambda x: x >> 6 >> 6,
    "one of many": lambda x: x - x.select(0, 3),
}
DIVISIONS = {
    "//": lambda a, z: a // z,
    "%": lambda a, z: a % z,
    "fmod": torch.fmod,
    "trunc": lambda a, z: torch.div(a, z, rounding_mode="trunc"),
    "//=": lambda a, z: a.clone().floor_divide_(z),
    "out": lambda a, z: torch.remainder(a, z, out=torch.empty_like(a)),
    "number": lambda a, z: 7 // z,
}


def check_divisions(device, zeros, divisions, dtype):
    for zero in zeros.values():
        for divide in divisions.values():
            for itself in (False, True):
                x = torch.arange(1, 7, dtype=dtype, device=device)
                z = zero(x)
                with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                    divide(z if itself else x, z).tolist()
    x = torch.arange(6, dtype=dtype, device=device)
    assert (x // (x - x + 2)).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("division", DIVISIONS)
def test_divisors_that_compilers_know_to_be_zero(device, division):
    check_divisions(device, ZEROS, {division: DIVISIONS[division]}, torch.int64)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_divisors_of_all_dtypes(device, dtype):
    zeros = {name: ZEROS[name] for name in ("difference", "zeros", "one of many")}
    check_divisions(device, zeros, {name: DIVISIONS[name] for name in ("//", "%", "fmod")}, dtype)


@pytest.mark.parametrize("switch", ["TORCHTPU_INTERPRET=always", "TORCHTPU_PIECES=always", "TORCHTPU_INTERPRET=0"])
def test_the_process_lives_on_every_path(switch):
    name, _, value = switch.partition("=")
    program = """
        import pytpu as torch
        for mode in ("fused", "strict"):
            with torch.tpu.set_eager_mode(mode):
                for make in (lambda x: x - x, lambda x: x[:, None].cummax(1)[1][:, 0], torch.zeros_like):
                    for divide in (torch.floor_divide, torch.remainder, torch.fmod):
                        z = make(torch.arange(6, device="tpu"))
                        try:
                            divide(z, z).tolist()
                        except RuntimeError as error:
                            assert "ZeroDivisionError" in str(error)
                        else:
                            raise AssertionError("no error")
    """
    env = os.environ | {"TORCHTPU_CACHE": "0", name: value}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)


def test_the_smallest_integer_divided_by_minus_one_wraps_around(device):
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        least = torch.iinfo(dtype).min
        # As operands, and as values that compilers know.
        x, y = torch.full((3,), least, dtype=dtype, device=device), torch.tensor([-1] * 3, dtype=dtype, device=device)
        for d in (y, torch.full((3,), -1, dtype=dtype, device=device), y | -1):
            assert (x // d).tolist() == [least] * 3 and (x % d).tolist() == [0] * 3
            assert torch.fmod(x, d).tolist() == [0] * 3
            assert torch.div(x, d, rounding_mode="trunc").tolist() == [least] * 3


def test_greatest_divisors_and_least_multiples_of_zero_are_zero(device):
    x = torch.arange(6, device=device)
    z = x - x
    assert torch.gcd(z, z).tolist() == [0] * 6 and torch.lcm(z, z).tolist() == [0] * 6
    assert torch.gcd(x, z).tolist() == x.tolist() and torch.lcm(x, z).tolist() == [0] * 6
