"""``torch.linalg`` against NumPy and against the defining equations of decompositions, on both devices."""

import math
import warnings

import numpy as np
import pytest

import pytpu as torch
from pytpu.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(11)


DTYPES = [torch.float64, torch.complex128]


def matrix(*sizes, dtype=torch.float64, device="cpu"):
    x = RNG.standard_normal(sizes)
    if dtype.is_complex:
        x = x + 1j * RNG.standard_normal(sizes)
    return torch.from_numpy(x).to(device, dtype)


def definite(n, *batch, dtype=torch.float64, device="cpu"):
    a = matrix(*batch, n, n, dtype=dtype)
    return (a @ a.mH + torch.eye(n, dtype=dtype)).to(device)


def eye(n):
    return np.eye(n)


@pytest.fixture(params=DTYPES, ids=["real", "complex"])
def dtype(request):
    return request.param


def test_cholesky(device, dtype, close):
    a = definite(4, 2, dtype=dtype, device=device)
    low = torch.linalg.cholesky(a)
    close(low @ low.mH, a.cpu(), 1e-10, 1e-10)
    close(low, np.linalg.cholesky(a.cpu().numpy()), 1e-9, 1e-9)
    high = torch.linalg.cholesky(a, upper=True)
    close(high.mH @ high, a.cpu(), 1e-10, 1e-10)
    b = matrix(4, 2, dtype=dtype, device=device)
    for factor, upper in ((low, False), (high, True)):
        close(a @ torch.cholesky_solve(b, factor, upper), np.broadcast_to(b.cpu().numpy(), (2, 4, 2)), 1e-9, 1e-9)
        close(a @ torch.cholesky_inverse(factor, upper), np.broadcast_to(eye(4), (2, 4, 4)), 1e-9, 1e-9)


def test_cholesky_reports_the_minor_that_is_not_positive(device):
    a = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, -1.0, 1.0]))]).to(device)
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 1\): .*leading minor of order 2"):
        torch.linalg.cholesky(a)
    _, info = torch.linalg.cholesky_ex(a)
    assert info.tolist() == [0, 2] and info.dtype == torch.int32


@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (3, 5), (2, 4, 4), (0, 3), (3, 0)])
def test_lu(sizes, device, dtype, close):
    a = matrix(*sizes, dtype=dtype, device=device)
    p, low, high = torch.linalg.lu(a)
    close(p @ low @ high, a.cpu(), 1e-10, 1e-10)
    packed, pivots = torch.linalg.lu_factor(a)
    assert pivots.dtype == torch.int32 and pivots.shape[-1] == min(sizes[-2:])
    for got, want in zip(torch.lu_unpack(packed, pivots), (p, low, high)):
        close(got, want.cpu(), 1e-12, 1e-12)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(left, adjoint, device, dtype, close):
    a = matrix(2, 4, 4, dtype=dtype, device=device)
    b = matrix(*((4, 3) if left else (3, 4)), dtype=dtype, device=device)
    x = torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=left, adjoint=adjoint)
    m = a.mH if adjoint else a
    close(m @ x if left else x @ m, b.cpu().expand(2, *b.shape), 1e-9, 1e-9)


def test_pivots_out_of_range_are_refused(device):
    packed, pivots = torch.linalg.lu_factor(torch.eye(3, device=device))
    with pytest.raises(RuntimeError, match="must all be smaller or equal to LU.size"):
        torch.linalg.lu_solve(packed, pivots + 1, torch.ones(3, 1, device=device))
    with pytest.raises(RuntimeError, match="must all be greater or equal to 1"):
        torch.linalg.lu_solve(packed, pivots - 1, torch.ones(3, 1, device=device))
    with pytest.raises(RuntimeError, match="must be between 1 and LU.size"):
        torch.lu_unpack(packed, pivots + 1)
    with pytest.raises(RuntimeError, match=r"\|pivot\| <= LD.size"):
        torch.linalg.ldl_solve(packed, pivots + 1, torch.ones(3, 1, device=device))


def test_deprecated_lu(close):
    a = matrix(3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        packed, pivots = torch.lu(a)
        *same, info = a.lu(get_infos=True)
        out = (torch.empty(0, dtype=a.dtype), torch.empty(0, dtype=torch.int32))
        torch.lu(a, out=out)
    want = torch.linalg.lu_factor(a)
    for got in ((packed, pivots), same, out):
        close(got[0], want[0])
        assert got[1].tolist() == want[1].tolist()
    assert info.item() == 0


@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (3, 5), (2, 5, 3), (3, 0)])
def test_qr(sizes, device, dtype, close):
    a = matrix(*sizes, dtype=dtype, device=device)
    m, n = sizes[-2:]
    for mode, columns in (("reduced", min(m, n)), ("complete", m)):
        q, r = torch.linalg.qr(a, mode)
        assert q.shape == (*sizes[:-1], columns) and r.shape == (*sizes[:-2], columns, n)
        close(q @ r, a.cpu(), 1e-10, 1e-10)
        close(q.mH @ q, np.broadcast_to(eye(columns), (*sizes[:-2], columns, columns)), 1e-10, 1e-10)
        close(r, r.triu().cpu(), 0, 0)
    q, r = torch.linalg.qr(a, "r")
    assert q.shape == (0,)
    close(r, torch.linalg.qr(a).R.cpu(), 1e-12, 1e-12)


def test_reflectors(device, dtype, close):
    a = matrix(5, 3, dtype=dtype, device=device)
    packed, tau = torch.geqrf(a)
    q, r = torch.linalg.qr(a)
    close(torch.linalg.householder_product(packed, tau), q.cpu(), 1e-10, 1e-10)
    close(torch.orgqr(packed, tau), q.cpu(), 1e-10, 1e-10)
    full = torch.linalg.qr(a, "complete").Q
    b = matrix(5, 2, dtype=dtype, device=device)
    close(torch.ormqr(packed, tau, b), (full @ b).cpu(), 1e-10, 1e-10)
    close(torch.ormqr(packed, tau, b, transpose=True), (full.mH @ b).cpu(), 1e-10, 1e-10)
    close(torch.ormqr(packed, tau, b.mH, left=False), (b.mH @ full).cpu(), 1e-10, 1e-10)


def test_eigenvalues_of_hermitian_matrices(device, dtype, close):
    a = definite(5, 2, dtype=dtype, device=device)
    values, vectors = torch.linalg.eigh(a)
    close(a @ vectors, (vectors * values.unsqueeze(-2)).cpu(), 1e-9, 1e-9)
    close(values, np.linalg.eigvalsh(a.cpu().numpy()), 1e-9, 1e-9)
    for triangle, part in (("L", a.tril()), ("U", a.triu())):
        close(torch.linalg.eigvalsh(part, triangle), values.cpu(), 1e-9, 1e-9)
    with pytest.raises(RuntimeError, match="Expected UPLO argument to be 'L' or 'U', but got x"):
        torch.linalg.eigh(a, "x")


def test_eigenvalues(device, dtype, close):
    a = matrix(2, 5, 5, dtype=dtype, device=device)
    values, vectors = torch.linalg.eig(a)
    assert values.dtype == torch.complex128
    close(a.to(values.dtype) @ vectors, (vectors * values.unsqueeze(-2)).cpu(), 1e-9, 1e-9)
    lengths = torch.linalg.vector_norm(vectors, dim=-2)
    close(lengths, np.ones((2, 5)), 1e-9, 1e-9)
    close(torch.linalg.eigvals(a).sum(-1), np.trace(a.cpu().numpy(), axis1=-2, axis2=-1), 1e-9, 1e-9)


@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (3, 5), (2, 5, 3), (0, 3)])
def test_singular_values(sizes, device, dtype, close):
    a = matrix(*sizes, dtype=dtype, device=device)
    m, n = sizes[-2:]
    for full in (False, True):
        u, s, vh = torch.linalg.svd(a, full_matrices=full)
        k = min(m, n)
        assert u.shape[-1] == (m if full else k) and vh.shape[-2] == (n if full else k) and s.dtype == torch.float64
        close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a.cpu(), 1e-10, 1e-10)
        close(u.mH @ u, np.broadcast_to(eye(u.shape[-1]), (*sizes[:-2], u.shape[-1], u.shape[-1])), 1e-10, 1e-10)
    close(torch.linalg.svdvals(a), s.cpu(), 1e-10, 1e-10)
    u, s, v = torch.svd(a)
    close((u * s.unsqueeze(-2)) @ v.mH, a.cpu(), 1e-10, 1e-10)


def test_ldl(device, dtype, close):
    half = matrix(2, 5, 5, dtype=dtype, device=device)
    for hermitian, a in ((False, half + half.mT), (True, half + half.mH)):
        b = matrix(2, 5, 2, dtype=dtype, device=device)
        packed, pivots = torch.linalg.ldl_factor(a, hermitian=hermitian)
        close(a @ torch.linalg.ldl_solve(packed, pivots, b, hermitian=hermitian), b.cpu(), 1e-8, 1e-8)


@pytest.mark.parametrize(
    "a, b", [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((2, 3, 3), (3, 2)), ((2, 3, 3), (2, 3, 4))]
)
def test_solve(a, b, device, dtype, close):
    a, b = matrix(*a, dtype=dtype, device=device), matrix(*b, dtype=dtype, device=device)
    x = torch.linalg.solve(a, b)
    is_vector = b.dim() == 1 or b.shape == a.shape[:-1]
    got = (a @ x.unsqueeze(-1)).squeeze(-1) if is_vector else a @ x
    close(got, b.cpu().expand(got.shape), 1e-9, 1e-9)


def test_solve_from_the_right(device, close):
    a, b = matrix(3, 3, device=device), matrix(2, 3, device=device)
    close(torch.linalg.solve(a, b, left=False) @ a, b.cpu(), 1e-9, 1e-9)


def test_inverse_and_determinant(device, dtype, close):
    a = matrix(2, 4, 4, dtype=dtype, device=device)
    host = a.cpu().numpy()
    close(torch.linalg.inv(a), np.linalg.inv(host), 1e-8, 1e-8)
    close(torch.linalg.det(a), np.linalg.det(host), 1e-9, 1e-9)
    sign, log = torch.linalg.slogdet(a)
    want = np.linalg.slogdet(host)
    close(sign, want[0], 1e-9, 1e-9)
    close(log, want[1], 1e-9, 1e-9)
    assert torch.logdet(torch.diag(torch.tensor([-1.0, 2.0]))).isnan()


def test_singular_matrices(device):
    a = torch.zeros(2, 2, device=device)
    with pytest.raises(
        torch.linalg.LinAlgError, match="The diagonal element 1 is zero, the inversion could not be completed"
    ):
        torch.linalg.inv(a)
    with pytest.raises(torch._C._LinAlgError, match="The solver failed because the input matrix is singular"):
        torch.linalg.solve(a, torch.ones(2, device=device))
    assert torch.linalg.inv_ex(a).info.item() == 1
    assert torch.linalg.det(a).item() == 0
    sign, log = torch.linalg.slogdet(a)
    assert sign.item() == 0 and log.item() == -float("inf")
    assert torch.linalg.cond(a, "fro").isinf() and torch.linalg.cond(a).isnan()


def test_pseudoinverse(device, dtype, close):
    a = matrix(2, 5, 3, dtype=dtype, device=device)
    close(torch.linalg.pinv(a), np.linalg.pinv(a.cpu().numpy()), 1e-9, 1e-9)
    low = a[..., :1] @ a[..., :1].mH
    for hermitian in (False, True):
        p = torch.linalg.pinv(low, hermitian=hermitian)
        close(low @ p @ low, low.cpu(), 1e-9, 1e-9)
    assert torch.linalg.matrix_rank(a).tolist() == [3, 3]
    assert torch.linalg.matrix_rank(low, hermitian=True).tolist() == [1, 1]


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("sizes", [(5, 3), (3, 3), (3, 5)])
def test_least_squares(driver, sizes, device, close):
    a, b = matrix(*sizes, device=device), matrix(sizes[0], 2, device=device)
    x, residuals, rank, values = torch.linalg.lstsq(a, b, driver=driver)
    want = np.linalg.lstsq(a.cpu().numpy(), b.cpu().numpy(), rcond=None)
    close(x, want[0], 1e-9, 1e-9)
    if sizes[0] > sizes[1] and driver in ("gels", "gelsd", "gelss"):
        close(residuals, want[1], 1e-9, 1e-9)
    else:
        assert residuals.shape == (0,)
    assert rank.tolist() == ([] if driver == "gels" else 3)
    if driver in ("gelsd", "gelss"):
        close(values, want[3], 1e-9, 1e-9)


def test_functions_of_matrices(device, dtype, close):
    a = matrix(3, 3, dtype=dtype, device=device)
    values, vectors = np.linalg.eig(a.cpu().numpy())
    close(torch.linalg.matrix_exp(a), (vectors * np.exp(values)) @ np.linalg.inv(vectors), 1e-8, 1e-8)
    b = definite(4, dtype=dtype, device=device)
    root = torch.linalg.matrix_sqrth(b)
    close(root @ root, b.cpu(), 1e-9, 1e-9)
    u, h = torch.linalg.polar(a)
    close(u @ h, a.cpu(), 1e-9, 1e-9)
    close(torch.linalg.matrix_power(b, -2) @ b @ b, eye(4), 1e-8, 1e-8)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")])
def test_matrix_norms(order, device, close):
    a = matrix(3, 4, device=device)
    close(torch.linalg.matrix_norm(a, order), np.linalg.norm(a.cpu().numpy(), order), 1e-9, 1e-9)
    b = matrix(3, 3, device=device)
    close(torch.linalg.cond(b, order), np.linalg.cond(b.cpu().numpy(), order), 1e-8, 1e-8)


def test_low_rank(device, close):
    a = matrix(9, 3, device=device) @ matrix(3, 7, device=device)
    u, s, v = torch.svd_lowrank(a, q=4)
    close((u * s) @ v.mH, a.cpu(), 1e-8, 1e-8)
    u, s, v = torch.svd_lowrank(a, q=4, M=a.mean(-2, keepdim=True))
    p, q, r = torch.pca_lowrank(a, q=4)
    close(q, s.cpu(), 1e-8, 1e-8)
    close((p * q) @ r.mH, (a - a.mean(-2, keepdim=True)).cpu(), 1e-8, 1e-8)
    with pytest.raises(ValueError, match=r"q\(=8\) must be non-negative integer and not greater than min\(m, n\)=7"):
        torch.pca_lowrank(a, q=8)


@pytest.mark.parametrize("name", ["inv", "det", "eigh", "eig", "cholesky", "matrix_exp", "eigvals"])
def test_matrices_have_to_be_square(name, device):
    with pytest.raises(RuntimeError, match="must be batches of square matrices, but they are 2 by 3 matrices"):
        getattr(torch.linalg, name)(torch.ones(2, 3, device=device))
    with pytest.raises(RuntimeError, match="must have at least 2 dimensions"):
        getattr(torch.linalg, name)(torch.ones(3, device=device))


def test_dtypes_without_decompositions_are_refused(device):
    with pytest.raises(RuntimeError, match="Low precision dtypes not supported. Got Half"):
        torch.linalg.inv(torch.eye(2, dtype=torch.float16, device=device))
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor as input. Got Long"):
        torch.linalg.svd(torch.eye(2, dtype=torch.int64, device=device))


def test_decompositions_of_nan_and_infinity(device):
    a = torch.full((2, 2), float("nan"), device=device)
    with pytest.raises(torch.linalg.LinAlgError, match="non-finite values"):
        torch.linalg.svd(a)
    assert torch.linalg.inv(a).isnan().all()
    assert torch.linalg.det(a).isnan()


@pytest.mark.parametrize("name", ["cholesky", "qr", "symeig", "eig", "lstsq", "solve", "matrix_rank"])
def test_removed_functions_name_their_replacements(name):
    with pytest.raises(RuntimeError, match=r"(?s)deprecated since version 1.9 and is now removed.*torch\.linalg\."):
        getattr(torch, name)(torch.eye(2))
    if name != "matrix_rank":
        with pytest.raises(RuntimeError, match=r"torch\.linalg\."):
            getattr(torch.eye(2), name)()


GRADIENTS = {
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mH + torch.eye(3, dtype=a.dtype)),
    "cholesky_solve": lambda a: torch.cholesky_solve(a, torch.linalg.cholesky(a @ a.mH + torch.eye(3, dtype=a.dtype))),
    "cholesky_inverse": lambda a: torch.cholesky_inverse(torch.linalg.cholesky(a @ a.mH + torch.eye(3, dtype=a.dtype))),
    "lu": lambda a: torch.linalg.lu(a)[1:],
    "qr": lambda a: torch.linalg.qr(a),
    "eigh": lambda a: torch.linalg.eigvalsh(a + a.mH),
    "projector": lambda a: (lambda v: v[..., :1] @ v[..., :1].mH)(torch.linalg.eigh(a + a.mH)[1]),
    "svdvals": torch.linalg.svdvals,
    "svd": lambda a: (lambda u, s, vh: (u * s**2) @ vh)(*torch.linalg.svd(a)),
    "eigvals": lambda a: torch.linalg.eigvals(a).abs().sort()[0],
    "inv": torch.linalg.inv,
    "det": torch.linalg.det,
    "slogdet": lambda a: torch.linalg.slogdet(a)[1],
    "pinv": lambda a: torch.linalg.pinv(a[:, :2]),
    "matrix_exp": torch.linalg.matrix_exp,
    "lstsq": lambda a: torch.linalg.lstsq(a[:, :2], a).solution,
    "nuclear_norm": lambda a: torch.linalg.matrix_norm(a, "nuc"),
    "solve": lambda a: torch.linalg.solve(a, a.mH),
    "solve_triangular": lambda a: torch.linalg.solve_triangular(a, a.mH, upper=True),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, dtype):
    a = (matrix(3, 3, dtype=dtype) + 2 * torch.eye(3, dtype=dtype)).requires_grad_()
    assert gradcheck(GRADIENTS[name], a)
    assert gradgradcheck(GRADIENTS[name], a)


@pytest.mark.parametrize("name", ["inv", "solve_triangular", "qr", "svd", "cholesky"])
def test_gradients_on_tpu_are_those_on_cpu(name, close):
    a = matrix(3, 3) + 2 * torch.eye(3, dtype=torch.float64)
    found = []
    for device in ("cpu", "tpu"):
        x = a.to(device, copy=True).requires_grad_()
        y = GRADIENTS[name](x) if name != "cholesky" else torch.linalg.cholesky(x @ x.mH)
        sum(part.sum() for part in (y if isinstance(y, tuple) else (y,))).backward()
        found.append(x.grad.cpu())
    close(found[1], found[0], 1e-9, 1e-9)


def test_an_undefined_gradient_is_refused():
    a = matrix(2, 3, dtype=torch.complex128).requires_grad_()
    u, _, _ = torch.linalg.svd(a, full_matrices=False)
    with pytest.raises(RuntimeError, match="specified up to multiplication by"):
        u.real.sum().backward()


def test_results_have_names(device):
    a = torch.eye(3, device=device)
    assert torch.linalg.qr(a).Q.shape == (3, 3)
    assert torch.linalg.svd(a).Vh.shape == (3, 3)
    assert torch.linalg.eigh(a).eigenvalues.tolist() == [1, 1, 1]
    assert torch.linalg.slogdet(a).logabsdet.item() == 0


def test_results_are_written_to_out(close):
    a = matrix(3, 3)
    q, r = torch.empty(0, dtype=a.dtype), torch.empty(0, dtype=a.dtype)
    torch.linalg.qr(a, out=(q, r))
    close(q @ r, a)
    inverse = torch.empty(3, 3, dtype=a.dtype)
    assert torch.linalg.inv(a, out=inverse) is inverse
    close(inverse @ a, eye(3), 1e-9, 1e-9)


def test_an_empty_window_of_a_parameter():
    x = torch.zeros(0, 2, 2, requires_grad=True)
    assert x.diagonal(0, -2, -1).shape == (0, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.complex128])
def test_a_hermitian_matrix_without_elements_has_no_eigenvalues(device, dtype):
    values, vectors = torch.linalg.eigh(torch.zeros(0, 0, dtype=dtype, device=device))
    assert values.shape == (0,) and vectors.shape == (0, 0)


def array(*sizes):
    return RNG.standard_normal(sizes).astype(np.float32)


def test_matrix_powers(device, close):
    a = array(2, 3, 3)
    x = torch.from_numpy(a).to(device)
    for p in (0, 1, 2, 5):
        close(torch.linalg.matrix_power(x, p), np.linalg.matrix_power(a, p), rtol=1e-3, atol=1e-3)
    close(torch.linalg.matrix_power(x, -2), np.linalg.matrix_power(a.astype(np.float64), -2), rtol=1e-2, atol=1e-2)


def test_negative_power_of_a_singular_matrix_is_an_error():
    with pytest.raises(RuntimeError, match="singular"):
        torch.linalg.matrix_power(torch.ones(2, 2), -1)


def test_multi_dot_takes_vectors_at_its_ends(close):
    a, b, c = array(3), array(3, 4), array(4)
    got = torch.linalg.multi_dot([torch.from_numpy(x) for x in (a, b, c)])
    close(got, a @ b @ c, rtol=1e-4, atol=1e-5)


def test_norms_of_matrices(device, close):
    a = array(2, 3, 4)
    x = torch.from_numpy(a).to(device)
    for order in (1, -1, math.inf, -math.inf, "fro"):
        want = [np.linalg.norm(m, order) for m in a]
        close(torch.linalg.matrix_norm(x, order), want, rtol=1e-5)
    close(torch.linalg.norm(x, dim=(0, 2), ord="fro"), np.sqrt((a**2).sum((0, 2))), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("beta, alpha", [(1, 1), (1.3, 0.7), (0, 2), (2, 0)])
def test_blended_products_of_16_bit_floats_are_rounded_once(device, dtype, beta, alpha):
    """As in PyTorch, the product and the summands are not rounded before the sum."""
    dtype = getattr(torch, dtype)
    torch.manual_seed(3)

    def numbers(*shape):
        return torch.randn(shape).to(dtype)

    x, row, a, b, v = numbers(40, 30), numbers(30), numbers(40, 50), numbers(50, 30), numbers(50)
    xs, many, others = numbers(2, 40, 30), numbers(2, 40, 50), numbers(2, 50, 30)
    cases = [
        (torch.addmm, x, a, b, lambda a, b: a @ b),
        (torch.addmm, row, a, b, lambda a, b: a @ b),
        (torch.baddbmm, xs, many, others, lambda a, b: a @ b),
        (torch.addbmm, x, many, others, lambda a, b: (a @ b).sum(0)),
        (torch.addmv, numbers(40), a, v, lambda a, b: a @ b),
    ]
    for op, x, a, b, product in cases:
        exact = beta * x.double() + alpha * product(a.double(), b.double())
        got = op(x.to(device), a.to(device), b.to(device), beta=beta, alpha=alpha).cpu()
        assert got.dtype == dtype
        # A sum in another order is rarely rounded the other way.
        assert (got != exact.float().to(dtype)).float().mean() < 0.02, op.__name__
        leaves = [t.detach().to(device).requires_grad_() for t in (x, a, b)]
        op(*leaves, beta=beta, alpha=alpha).sum().backward()
        wide = [t.double().requires_grad_() for t in (x, a, b)]
        op(*wide, beta=beta, alpha=alpha).sum().backward()
        for leaf, want in zip(leaves, wide):
            assert leaf.grad.dtype == dtype
            error = (leaf.grad.cpu().double() - want.grad).abs().max()
            assert error <= 0.02 * (1 + want.grad.abs().max()), op.__name__


def test_condition_of_a_singular_matrix_is_infinite(device):
    a = torch.tensor([[1.0, 0], [0, 0]], device=device)
    assert [torch.linalg.cond(a, p).item() for p in ("nuc", "fro", 1, 2)] == [float("inf")] * 4
    assert abs(torch.linalg.cond(torch.diag(torch.tensor([1.0, 4])), "nuc").item() - 6.25) < 1e-5
