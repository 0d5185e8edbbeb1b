"""Aliases of conjugated and negated tensors keep the bit through every view."""

import copy

import pytest

import pytpu as torch

SOURCES = {
    "H": lambda z: z.H,
    "conj": lambda z: z.conj(),
    "imag of conj": lambda z: z.conj().imag,
    "neg": lambda z: torch._neg_view(z),
    "neg of conj": lambda z: torch._neg_view(z.conj()),
    "rows": lambda z: z.H[:2],
}
ALIASES = {
    "none": lambda v: v,
    "detach": lambda v: v.detach(),
    "twice": lambda v: v.detach().detach(),
    "data": lambda v: v.data,
    "leaf": lambda v: v.detach().requires_grad_(),
    "Parameter": lambda v: torch.nn.Parameter(v),
    "copy": lambda v: copy.copy(v),
    "assigned": lambda v: _assigned(v),
}
VIEWS = {
    "diagonal": lambda v: v.diagonal(),
    "diag": lambda v: v.diag(),
    "trace": lambda v: v.trace(),
    "as_strided": lambda v: v.as_strided((2,), (1,)),
    "unfold": lambda v: v.unfold(1, 2, 1),
    "t": lambda v: v.t(),
    "select": lambda v: v[0],
    "column": lambda v: v[:, 1:],
    "movedim": lambda v: v.movedim(0, 1),
    "reshape": lambda v: v.reshape(-1),
    "real": lambda v: v.real,
}


def _assigned(v):
    x = torch.zeros(1, dtype=v.dtype, device=v.device)
    x.data = v
    return x


def _values(x):
    return x.detach().resolve_conj().resolve_neg().clone().tolist()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("alias", ALIASES)
def test_pairs_of_views_of_an_alias(device, source, alias):
    z = torch.tensor([[1 + 2j, 3j, 4], [2, 1j, 5 - 1j], [6j, 7, 8 + 2j]], device=device)
    lazy = SOURCES[source](z)
    plain = SOURCES[source](z).resolve_conj().resolve_neg().clone(memory_format=torch.preserve_format)
    for first, one in VIEWS.items():
        if first == "trace":
            assert _values(ALIASES[alias](lazy)[:2, :2].trace()) == _values(plain[:2, :2].trace())
            continue
        got, want = one(ALIASES[alias](lazy)), one(plain)
        # The window of `as_strided` is on memory, which `plain` may have in another order.
        if first != "as_strided" or lazy.stride() == plain.stride():
            assert _values(got) == _values(want), first
        for second, two in VIEWS.items():
            if want.dim() == 2 and second not in ("as_strided", "trace"):
                assert _values(two(got)) == _values(two(want)), (first, second)


@pytest.mark.parametrize("alias", ["detach", "Parameter", "data"])
def test_writes_through_views_of_an_alias(device, alias):
    for source in ("conj", "neg", "imag of conj"):
        z = torch.tensor([[1 + 2j, 3j], [2, 1j]], device=device)
        with torch.no_grad():
            ALIASES[alias](SOURCES[source](z)).diagonal().fill_(7)
            assert _values(SOURCES[source](z).diagonal()) == [7, 7]


def test_the_gradient_of_det_of_a_conjugated_parameter(device):
    z = torch.tensor([[1 + 2j, 3j], [2, 1j]], device=device)
    p, q = torch.nn.Parameter(z.H), torch.nn.Parameter(z.H.resolve_conj())
    for x in (p, q):
        torch.linalg.det(x).abs().backward()
    assert torch.allclose(p.grad, q.grad)


def test_stft_of_a_detached_conjugate(device):
    x = torch.arange(16.0, device=device) * (1 + 2j)
    window = torch.ones(4, device=device)
    made = [
        torch.stft(v, 4, return_complex=True, window=window, onesided=False)
        for v in (x.conj().detach(), x.conj().resolve_conj())
    ]
    assert torch.allclose(*made)
