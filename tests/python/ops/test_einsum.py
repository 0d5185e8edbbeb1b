"""`einsum` against NumPy."""

import numpy as np
import pytest

import pytpu as torch

RNG = np.random.default_rng(7)


def array(*sizes):
    return RNG.standard_normal(sizes).astype(np.float32)


EQUATIONS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("ii->", [(4, 4)]),
    ("ii->i", [(4, 4)]),
    ("iji->ij", [(3, 2, 3)]),
    ("i,j->ji", [(2,), (3,)]),
    ("...ij,...jk->...ik", [(2, 5, 3, 4), (5, 4, 2)]),
    ("i...->...", [(3, 2, 2)]),
    ("ij,ij,jk->k", [(2, 3), (2, 3), (3, 4)]),
    ("abc,cd,db->a", [(2, 3, 4), (4, 5), (5, 3)]),
    (" i j , j -> i ", [(2, 3), (3,)]),
]


@pytest.mark.parametrize("equation, sizes", EQUATIONS, ids=[e for e, _ in EQUATIONS])
def test_einsum_equals_numpys(equation, sizes, device, close):
    a = [array(*s) for s in sizes]
    got = torch.einsum(equation, *[torch.from_numpy(x).to(device) for x in a])
    close(got, np.einsum(equation.replace(" ", ""), *a), rtol=1e-4, atol=1e-5)


def test_einsum_broadcasts_dimensions_of_one_element(device, close):
    a, b = array(2, 1), array(3, 4)
    got = torch.einsum("ij,jk->ik", torch.from_numpy(a).to(device), torch.from_numpy(b).to(device))
    close(got, a * b.sum(0), rtol=1e-4, atol=1e-5)


def test_einsum_takes_lists_of_subscripts(close):
    a, b = array(2, 3), array(3, 4)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    close(torch.einsum(x, [0, 1], y, [1, 2], [0, 2]), a @ b, atol=1e-5)
    close(torch.einsum(x, [0, 1], y, [1, 2]), a @ b, atol=1e-5)
    close(torch.einsum(x, [..., 1], y, [1, 2], [2, ...]), (a @ b).T, atol=1e-5)
    close(torch.einsum("ij,jk->ik", [x, y]), a @ b, atol=1e-5)


@pytest.mark.parametrize(
    "equation, sizes, text",
    [
        ("ij->i", [(2,)], r"the number of subscripts in the equation \(2\) does not match"),
        ("i,j->ij", [(2,)], "fewer operands were provided"),
        ("i->i", [(2,), (2,)], "more operands were provided"),
        ("ii->i", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("i->ii", [(2,)], "output subscript i appears more than once"),
        ("i->j", [(2,)], "output subscript j does not appear"),
        ("i1->i", [(2, 2)], "invalid subscript given at index 1"),
        (".i->i", [(2,)], "is not part of any ellipsis"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "has size 4 for operand 1 which does not broadcast"),
    ],
)
def test_einsum_refuses_wrong_equations_and_sizes(equation, sizes, text):
    with pytest.raises(RuntimeError, match=text):
        torch.einsum(equation, *[torch.ones(s) for s in sizes])


def test_einsum_gradient_is_the_transposed_product(device, close):
    a, b = array(2, 3), array(3, 4)
    x = torch.from_numpy(a).to(device).requires_grad_()
    torch.einsum("ij,jk->ik", x, torch.from_numpy(b).to(device)).sum().backward()
    close(x.grad, np.broadcast_to(b.sum(1), a.shape), rtol=1e-4)
