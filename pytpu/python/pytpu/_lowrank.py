"""Decompositions with only a few vectors: `torch.svd_lowrank` and `torch.pca_lowrank`."""

from __future__ import annotations

from . import _C, linalg
from .overrides import handle_torch_function, has_torch_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


def _orthonormal(x):
    return linalg.qr(x).Q


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `U`, `S`, `V` of a matrix of about rank `q`, or of `A - M`.

    Random projections and `niter` power iterations are used: algorithm 5.1 of Halko et al., 2009. `A` is `(*, m, n)`.
    The results are `(*, m, q)`, `(*, q)`, `(*, n, q)`.
    """
    if has_torch_function((A, M)):
        return handle_torch_function(svd_lowrank, (A, M), A, q=q, niter=niter, M=M)
    q = 6 if q is None else q
    *_, m, n = A.shape
    if M is not None:
        M = M.broadcast_to(A.size())
        A = A - M
    niter = 2 if niter is None else niter
    basis = _orthonormal(A @ _C._ops.randn((n, q), dtype=A.dtype, device=A.device))
    for _ in range(niter):
        basis = _orthonormal(A @ _orthonormal(A.mH @ basis))
    U, S, Vh = linalg.svd(basis.mH @ A, full_matrices=False)
    return basis @ U, S, Vh.mH


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return principal components of a matrix whose rows are samples.

    This is its `svd_lowrank`, with centered columns unless `center` is false.
    """
    if has_torch_function((A,)):
        return handle_torch_function(pca_lowrank, (A,), A, q=q, center=center, niter=niter)
    *_, m, n = A.shape
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter=niter)
