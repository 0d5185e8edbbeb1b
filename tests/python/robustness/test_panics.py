"""A panic in Rust becomes a RuntimeError in Python, and the process can go on.

``pytpu._C._panics`` makes the next op panic. Entries that run no op are tested through stand-ins, which panic behind
the same conversion of errors.
"""

import gc
import subprocess
import sys

import pytest
from patience import HANG_SECONDS

import pytpu as torch

# An armed panic stays with its process, so this runs in a new one.
_RUN = """
import sys
import pytpu as torch
panics = torch._C._panics

def ones(*sizes):
    return torch.ones(*sizes)

x, y, m = ones(3), ones(3), ones(2, 2)
leaf = torch.ones(3, requires_grad=True)
result, nonleaf = leaf.exp(), leaf * 1
c = torch.ones(2, dtype=torch.complex64)
flag, index = x > 0, torch.tensor([0, 1])

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

with_hook = torch.ones(3, requires_grad=True)
with_hook.register_hook(lambda g: g * 2)
passed = with_hook * 1
doubled = Doubled.apply(leaf)
ENTRIES = {
    "function": lambda: torch.exp(x),
    "function with keywords": lambda: torch.sum(input=m, dim=0),
    "function with out": lambda: torch.exp(x, out=y),
    "function of a list": lambda: torch.cat([x, y]),
    "method": lambda: x.exp(),
    "method in place": lambda: nonleaf.exp_(),
    "method written by hand": lambda: x.to(torch.float64),
    "number slot": lambda: x + y,
    "reflected slot": lambda: 2 ** x,
    "in-place slot": lambda: nonleaf.__iadd__(y),
    "unary slot": lambda: -x,
    "comparison": lambda: x < y,
    "item": lambda: m[0],
    "item by a tensor": lambda: x[flag],
    "item set": lambda: m.__setitem__(0, 5.0),
    "iteration": lambda: next(iter(m)),
    "getter": lambda: m.T,
    "getter of a part": lambda: c.imag,
    "setter": lambda: setattr(c, "real", 3.0),
    "function served by PyO3": lambda: torch.as_tensor(x, dtype=torch.float64),
    "backward": lambda: torch._C._backward((result,), (x,), None, False, None),
    "hook": lambda: torch._C._backward((passed,), (y,), None, False, None),
    "user function": lambda: torch._C._backward((doubled,), (y,), None, False, None),
    "repr": lambda: repr(m),
}
"""

_ENTRIES = [
    "function",
    "function with keywords",
    "function with out",
    "function of a list",
    "method",
    "method in place",
    "method written by hand",
    "number slot",
    "reflected slot",
    "in-place slot",
    "unary slot",
    "comparison",
    "item",
    "item by a tensor",
    "item set",
    "iteration",
    "getter",
    "getter of a part",
    "setter",
    "function served by PyO3",
    "backward",
    "hook",
    "user function",
    "repr",
]


def _python(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS, **options)


def test_a_panic_in_any_entry_is_a_runtime_error():
    code = (
        _RUN
        + f"""
for name in {_ENTRIES!r}:
    panics.arm(True)
    try:
        ENTRIES[name]()
    except Exception as e:
        assert type(e) is RuntimeError and str(e).startswith("internal error, please report it: "), (name, type(e), e)
    else:
        raise AssertionError(name + " did not panic")
    assert not panics.is_armed(), name
    assert (torch.ones(3) + 1).tolist() == [2.0] * 3, name
print("all", len({_ENTRIES!r}))
"""
    )
    done = _python(code)
    assert done.stdout.split() == ["all", str(len(_ENTRIES))], done.stdout + done.stderr


@pytest.mark.parametrize("entry", ["new", "method", "getter", "setter", "slot"])
def test_a_panic_in_a_class_is_a_runtime_error(entry, capfd):
    Panicking = torch._C._panics.Panicking
    quiet = Panicking("not now")
    call = {
        "new": lambda: Panicking("new"),
        "method": quiet.method,
        "getter": lambda: quiet.value,
        "setter": lambda: setattr(quiet, "value", 1),
        "slot": lambda: repr(quiet),
    }[entry]
    with pytest.raises(RuntimeError, match="internal error, please report it: .*was told to") as caught:
        call()
    assert type(caught.value) is RuntimeError


@pytest.mark.parametrize("what", ["tensor", "object"])
def test_a_panic_while_something_is_dropped_goes_to_the_unraisable_hook(what, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda u: seen.append(u.exc_value))
    thing = torch._C._panics.tensor() if what == "tensor" else torch._C._panics.Panicking("drop")
    del thing
    gc.collect()
    assert [type(e) for e in seen] == [RuntimeError]
    assert "internal error, please report it: a drop was told to" in str(seen[0])
    assert (torch.ones(3) + 1).tolist() == [2.0] * 3


def test_a_drop_that_panics_keeps_the_exception_that_is_being_raised(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda u: None)

    def fails():
        thing = torch._C._panics.tensor()
        raise KeyError(thing.numel())

    with pytest.raises(KeyError):
        fails()


def test_want_of_memory_in_a_kernel_is_an_out_of_memory_error():
    with pytest.raises(torch.OutOfMemoryError, match="tried to allocate 12345 bytes"):
        torch._C._panics.give_up(12345)


@pytest.mark.filterwarnings("ignore")
def test_no_function_panics_for_tensors_without_dimensions():
    x, i = torch.tensor(2.0), torch.tensor(1)
    calls = [(x, d) for d in (0, -1, 1, [0], [0, 0])] + [
        (x, 0, 0),
        (x, 0, i),
        (x, 0, i, x),
        (x, [0], [0]),
        (x, 0, 1, 1),
    ]
    calls += [(x, x, d) for d in (0, [0], [0, 0])] + [([x], 0), ([x, x], 0), (x, None, 0), (x, None, [0]), (x,), (x, x)]
    panics = []
    for name in sorted(dir(torch._C._ops)):
        function = getattr(torch._C._ops, name)
        if name.startswith("__") or not callable(function):
            continue
        for args in calls:
            try:
                function(*args)
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
                if "please report it" in str(error):
                    panics.append(f"{name}{args}: {error}")
    assert not panics


def test_shifts_without_dimensions_are_index_errors(device):
    for shift in (torch.fft.fftshift, torch.fft.ifftshift):
        for dim in (0, -1, [0]):
            with pytest.raises(IndexError, match="tensor has no dimensions"):
                shift(torch.tensor(1.0, device=device), dim)
    assert torch.linalg.tensorsolve(torch.tensor(1.0), torch.tensor(2.0), dims=[0]).item() == 2
