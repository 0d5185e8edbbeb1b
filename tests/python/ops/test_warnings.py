"""Warnings: PyTorch's messages, and how often each is given."""

import subprocess
import sys
import warnings

import pytpu as torch
from pytpu.nn import functional as F


def _warnings(f):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f()
    return [str(w.message) for w in seen]


def test_warnings_equal_pytorchs(device):
    x = torch.ones(3, device=device).requires_grad_()
    y = x * 2
    (text,) = _warnings(lambda: y.grad)
    assert text.startswith("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed.")
    assert _warnings(lambda: x.grad) == []
    y.retain_grad()
    assert _warnings(lambda: y.grad) == []
    for made in (torch.tensor, x.new_tensor):
        (text,) = _warnings(lambda: made(x))
        assert text.startswith(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone()"
        )
    with torch.no_grad():
        assert _warnings(lambda: x.detach().new_tensor([1.0])) == []
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8, device=device)
    assert _warnings(lambda: x.detach()[mask]) == [
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
    ]
    for name in ("std", "var", "std_mean", "var_mean"):
        (text,) = _warnings(lambda: getattr(torch, name)(x.detach()[:1]))
        assert text.startswith(f"{name}(): degrees of freedom is <= 0.")
        assert _warnings(lambda: getattr(torch, name)(x.detach())) == []
    assert _warnings(lambda: F.upsample(x.detach()[None, None], scale_factor=2)) == [
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead."
    ]
    (text,) = _warnings(lambda: torch.range(0, 3, device=device))
    assert text.startswith("torch.range is deprecated")
    # A list that holds lists is read as a tuple, with a warning each time.
    for _ in range(2):
        (text,) = _warnings(lambda: x.detach()[[[0, 1]]])
        assert text.startswith("Using a non-tuple sequence for multidimensional indexing is deprecated")
    assert _warnings(lambda: x.detach()[[0, 1]]) == []


ONCE = """
import warnings, numpy, pytpu as torch
x = torch.ones(1, requires_grad=True)
for f in (
    torch.no_grad()(lambda: float(x)),
    lambda: float(x * 2),
    lambda: torch.ones(3).T,
    lambda: torch.meshgrid(torch.ones(2), torch.ones(2)),
    lambda: torch.tensor([numpy.zeros(2), numpy.zeros(2)]),
    lambda: (x * x).sum().backward(create_graph=True),
    lambda: torch.from_numpy(numpy.frombuffer(b"abcd", dtype=numpy.uint8)),
    lambda: torch.nn.functional.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 2), padding="same"),
    lambda: torch.nn.functional.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 3), padding="same"),
):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f(), f()
    print(*(str(w.message).splitlines()[0][:40] for w in seen), sep="|")
"""


def test_some_warnings_are_given_once():
    run = subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.splitlines() == [
        "",
        "Converting a tensor with requires_grad=T",
        "The use of `x.T` on tensors of dimension",
        "torch.meshgrid: in an upcoming release, ",
        "Creating a tensor from a list of numpy.n",
        "Using backward() with create_graph=True ",
        "The given NumPy array is not writable, a",
        "Using padding='same' with even kernel le",
        "",
    ]


def test_short_transforms_without_a_window_warn():
    import subprocess
    import sys

    program = "import pytpu as torch; torch.stft(torch.ones(16), 8, return_complex=True)"
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert "A window was not provided." in text
