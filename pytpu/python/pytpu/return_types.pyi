"""Types of `torch.return_types`: the named tuples that functions return."""

from typing import Final, final

from _typeshed import structseq

from pytpu import Tensor

# From the op table, by `make generated`.
@final
class _lu_with_info(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("LU", "pivots", "info")
    @property
    def LU(self) -> Tensor: ...
    @property
    def pivots(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class aminmax(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("min", "max")
    @property
    def min(self) -> Tensor: ...
    @property
    def max(self) -> Tensor: ...

@final
class aminmax_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("min", "max")
    @property
    def min(self) -> Tensor: ...
    @property
    def max(self) -> Tensor: ...

@final
class cummax(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class cummax_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class cummin(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class cummin_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class frexp(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("mantissa", "exponent")
    @property
    def mantissa(self) -> Tensor: ...
    @property
    def exponent(self) -> Tensor: ...

@final
class frexp_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("mantissa", "exponent")
    @property
    def mantissa(self) -> Tensor: ...
    @property
    def exponent(self) -> Tensor: ...

@final
class geqrf(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("a", "tau")
    @property
    def a(self) -> Tensor: ...
    @property
    def tau(self) -> Tensor: ...

@final
class geqrf_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("a", "tau")
    @property
    def a(self) -> Tensor: ...
    @property
    def tau(self) -> Tensor: ...

@final
class histogram(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("hist", "bin_edges")
    @property
    def hist(self) -> Tensor: ...
    @property
    def bin_edges(self) -> Tensor: ...

@final
class histogram_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("hist", "bin_edges")
    @property
    def hist(self) -> Tensor: ...
    @property
    def bin_edges(self) -> Tensor: ...

@final
class kthvalue(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class kthvalue_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class linalg_cholesky_ex(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("L", "info")
    @property
    def L(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_cholesky_ex_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("L", "info")
    @property
    def L(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_eig(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("eigenvalues", "eigenvectors")
    @property
    def eigenvalues(self) -> Tensor: ...
    @property
    def eigenvectors(self) -> Tensor: ...

@final
class linalg_eig_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("eigenvalues", "eigenvectors")
    @property
    def eigenvalues(self) -> Tensor: ...
    @property
    def eigenvectors(self) -> Tensor: ...

@final
class linalg_eigh(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("eigenvalues", "eigenvectors")
    @property
    def eigenvalues(self) -> Tensor: ...
    @property
    def eigenvectors(self) -> Tensor: ...

@final
class linalg_eigh_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("eigenvalues", "eigenvectors")
    @property
    def eigenvalues(self) -> Tensor: ...
    @property
    def eigenvectors(self) -> Tensor: ...

@final
class linalg_inv_ex(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("inverse", "info")
    @property
    def inverse(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_inv_ex_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("inverse", "info")
    @property
    def inverse(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_ldl_factor(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("LD", "pivots")
    @property
    def LD(self) -> Tensor: ...
    @property
    def pivots(self) -> Tensor: ...

@final
class linalg_ldl_factor_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("LD", "pivots")
    @property
    def LD(self) -> Tensor: ...
    @property
    def pivots(self) -> Tensor: ...

@final
class linalg_ldl_factor_ex(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("LD", "pivots", "info")
    @property
    def LD(self) -> Tensor: ...
    @property
    def pivots(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_ldl_factor_ex_out(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("LD", "pivots", "info")
    @property
    def LD(self) -> Tensor: ...
    @property
    def pivots(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_lstsq(structseq[Tensor], tuple[Tensor, Tensor, Tensor, Tensor]):
    __match_args__: Final = ("solution", "residuals", "rank", "singular_values")
    @property
    def solution(self) -> Tensor: ...
    @property
    def residuals(self) -> Tensor: ...
    @property
    def rank(self) -> Tensor: ...
    @property
    def singular_values(self) -> Tensor: ...

@final
class linalg_lstsq_out(structseq[Tensor], tuple[Tensor, Tensor, Tensor, Tensor]):
    __match_args__: Final = ("solution", "residuals", "rank", "singular_values")
    @property
    def solution(self) -> Tensor: ...
    @property
    def residuals(self) -> Tensor: ...
    @property
    def rank(self) -> Tensor: ...
    @property
    def singular_values(self) -> Tensor: ...

@final
class linalg_lu(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("P", "L", "U")
    @property
    def P(self) -> Tensor: ...
    @property
    def L(self) -> Tensor: ...
    @property
    def U(self) -> Tensor: ...

@final
class linalg_lu_out(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("P", "L", "U")
    @property
    def P(self) -> Tensor: ...
    @property
    def L(self) -> Tensor: ...
    @property
    def U(self) -> Tensor: ...

@final
class linalg_lu_factor(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("LU", "pivots")
    @property
    def LU(self) -> Tensor: ...
    @property
    def pivots(self) -> Tensor: ...

@final
class linalg_lu_factor_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("LU", "pivots")
    @property
    def LU(self) -> Tensor: ...
    @property
    def pivots(self) -> Tensor: ...

@final
class linalg_lu_factor_ex(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("LU", "pivots", "info")
    @property
    def LU(self) -> Tensor: ...
    @property
    def pivots(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_lu_factor_ex_out(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("LU", "pivots", "info")
    @property
    def LU(self) -> Tensor: ...
    @property
    def pivots(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_polar(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("U", "H")
    @property
    def U(self) -> Tensor: ...
    @property
    def H(self) -> Tensor: ...

@final
class linalg_polar_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("U", "H")
    @property
    def U(self) -> Tensor: ...
    @property
    def H(self) -> Tensor: ...

@final
class linalg_qr(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("Q", "R")
    @property
    def Q(self) -> Tensor: ...
    @property
    def R(self) -> Tensor: ...

@final
class linalg_qr_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("Q", "R")
    @property
    def Q(self) -> Tensor: ...
    @property
    def R(self) -> Tensor: ...

@final
class linalg_slogdet(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("sign", "logabsdet")
    @property
    def sign(self) -> Tensor: ...
    @property
    def logabsdet(self) -> Tensor: ...

@final
class linalg_slogdet_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("sign", "logabsdet")
    @property
    def sign(self) -> Tensor: ...
    @property
    def logabsdet(self) -> Tensor: ...

@final
class linalg_solve_ex(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("result", "info")
    @property
    def result(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_solve_ex_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("result", "info")
    @property
    def result(self) -> Tensor: ...
    @property
    def info(self) -> Tensor: ...

@final
class linalg_svd(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("U", "S", "Vh")
    @property
    def U(self) -> Tensor: ...
    @property
    def S(self) -> Tensor: ...
    @property
    def Vh(self) -> Tensor: ...

@final
class linalg_svd_out(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("U", "S", "Vh")
    @property
    def U(self) -> Tensor: ...
    @property
    def S(self) -> Tensor: ...
    @property
    def Vh(self) -> Tensor: ...

@final
class lu_unpack(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("P", "L", "U")
    @property
    def P(self) -> Tensor: ...
    @property
    def L(self) -> Tensor: ...
    @property
    def U(self) -> Tensor: ...

@final
class lu_unpack_out(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("P", "L", "U")
    @property
    def P(self) -> Tensor: ...
    @property
    def L(self) -> Tensor: ...
    @property
    def U(self) -> Tensor: ...

@final
class max(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class max_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class median(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class median_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class min(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class min_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class mode(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class mode_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class nanmedian(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class nanmedian_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class slogdet(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("sign", "logabsdet")
    @property
    def sign(self) -> Tensor: ...
    @property
    def logabsdet(self) -> Tensor: ...

@final
class slogdet_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("sign", "logabsdet")
    @property
    def sign(self) -> Tensor: ...
    @property
    def logabsdet(self) -> Tensor: ...

@final
class sort(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class sort_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class svd(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("U", "S", "V")
    @property
    def U(self) -> Tensor: ...
    @property
    def S(self) -> Tensor: ...
    @property
    def V(self) -> Tensor: ...

@final
class svd_out(structseq[Tensor], tuple[Tensor, Tensor, Tensor]):
    __match_args__: Final = ("U", "S", "V")
    @property
    def U(self) -> Tensor: ...
    @property
    def S(self) -> Tensor: ...
    @property
    def V(self) -> Tensor: ...

@final
class topk(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class topk_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("values", "indices")
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...

@final
class triangular_solve(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("solution", "cloned_coefficient")
    @property
    def solution(self) -> Tensor: ...
    @property
    def cloned_coefficient(self) -> Tensor: ...

@final
class triangular_solve_out(structseq[Tensor], tuple[Tensor, Tensor]):
    __match_args__: Final = ("solution", "cloned_coefficient")
    @property
    def solution(self) -> Tensor: ...
    @property
    def cloned_coefficient(self) -> Tensor: ...

# End of what is from the op table.
