//! The functions of `torch.linalg` that decompose, solve or invert.

use super::factor::{Parts, permutation, product_of_reflectors, reflectors, rows_back, rows_to, with_ones};
use super::{
    Cholesky, CholeskySolve, Det, Eig, Eigh, Geqrf, Inverse, LdlFactor, LdlSolve, LuFactor, MatrixExp, Pinv, Qr,
    Slogdet, Solve, SolveTriangular, Svd, adjoint, expand_batch, expect_inexact, expect_matrices, expect_square,
    failure, identity, matrix_size, times_columns,
};
use crate::op::{Outs, Prim, broadcast_dims, normalize_dim};
use crate::ops::indexing::{tril, triu};
use crate::ops::pointwise;
use crate::schema::{Fill, Ret, Row, Sample, SampleArg, Scope, Tier, ints, n, t};
use crate::{DType, DeviceKind, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, samples};

type Pair = (Tensor, Tensor);

fn two(mut y: Outs) -> Pair {
    let second = y.swap_remove(1);
    (y.swap_remove(0), second)
}

fn tuple(y: impl IntoIterator<Item = Tensor>) -> Result<Ret> {
    Ok(Ret::Tuple(y.into_iter().collect()))
}

fn expect_square_inexact(name: &str, x: &Tensor) -> Result<()> {
    expect_square(name, x, "A")?;
    expect_inexact(name, x)
}

/// Raises where a code says that a matrix failed. A meta tensor has no codes.
fn check(info: &Tensor, error: impl FnOnce(String, i64) -> Error) -> Result<()> {
    if info.device().kind == DeviceKind::Meta {
        return Ok(());
    }
    match failure(info)? {
        None => Ok(()),
        Some((head, code)) => Err(error(head, code)),
    }
}

/// Both with the batch that theirs broadcast to.
fn same_batch(a: &Tensor, b: &Tensor) -> Result<Pair> {
    let batch = |x: &Tensor| Dims::new(&x.dims()[..x.dims().len() - 2]);
    let both = broadcast_dims(&batch(a), &batch(b))?;
    Ok((expand_batch(a, &both)?, expand_batch(b, &both)?))
}

// ------------------------------------------------------------------------------------------------ Cholesky

fn cholesky_ex(name: &str, x: &Tensor, upper: bool, checked: bool) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    let of = if upper { adjoint(x)? } else { x.clone() };
    let (l, info) = two(dispatch::call_n(Prim::Cholesky(Cholesky), &[&of])?);
    if checked {
        check(&info, |head, code| {
            Error::linalg(format!(
                "{name}: {head}The factorization could not be completed because the input is not positive-definite \
                (the leading minor of order {code} is not positive-definite)."
            ))
        })?;
    }
    Ok((if upper { adjoint(&l)? } else { l }, info))
}

/// `x` of `a x = b`, from the Cholesky factor of `a`.
fn cholesky_solve(b: &Tensor, l: &Tensor, upper: bool) -> Result<Tensor> {
    for (name, x) in [("b", b), ("u", l)] {
        if x.dims().len() < 2 {
            return Err(Error::runtime(format!(
                "{name} should have at least 2 dimensions, but has {} dimensions instead",
                x.dims().len()
            )));
        }
    }
    let ((m, n), (rows, columns)) = (matrix_size(l.meta()), matrix_size(b.meta()));
    if m != n {
        return Err(Error::runtime(format!("A must be batches of square matrices, but they are {m} by {n} matrices")));
    }
    if n != rows {
        return Err(Error::runtime(format!(
            "Incompatible matrix sizes for cholesky_solve: each A matrix is {m} by {n} but each b matrix is {rows} by \
            {columns}"
        )));
    }
    let (b, l) = same_batch(b, l)?;
    dispatch::call(Prim::CholeskySolve(CholeskySolve { upper }), &[&b, &l])
}

fn cholesky_inverse(l: &Tensor, upper: bool) -> Result<Tensor> {
    expect_square("cholesky_inverse", l, "A")?;
    let (n, _) = matrix_size(l.meta());
    cholesky_solve(&identity(n, n, l)?.expand_dims(l.dims())?, l, upper)
}

// ------------------------------------------------------------------------------------------------ triangles with
// pivots

fn lu_factor_ex(name: &str, x: &Tensor, pivot: bool) -> Result<Outs> {
    expect_matrices(name, x, "A")?;
    expect_inexact(name, x)?;
    if !pivot {
        return Err(Error::runtime(format!("{name}: LU without pivoting is not implemented on the CPU")));
    }
    dispatch::call_n(Prim::LuFactor(LuFactor), &[x])
}

fn lu_factor(x: &Tensor, pivot: bool, checked: bool) -> Result<Outs> {
    let y = lu_factor_ex("linalg.lu_factor", x, pivot)?;
    if checked {
        check(&y[2], |head, code| {
            Error::runtime(format!(
                "torch.linalg.lu_factor: {head}U[{code},{code}] is zero and using it on lu_solve would result in a \
                division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) \
                or linalg.lu_factor_ex(A, pivot)"
            ))
        })?;
    }
    Ok(y)
}

/// The permutation as a matrix.
fn permutation_matrix(pivots: &Tensor, rows: usize, like: &Tensor) -> Result<Tensor> {
    let order = permutation(pivots, rows, false)?;
    let row = crate::ops::indexing::count_up(rows, order.device())?.unsqueeze(-1)?;
    row.eq(&order.unsqueeze(-2)?)?.to_dtype(like.dtype())
}

fn lower_part(lu: &Tensor) -> Result<Tensor> {
    let (m, n) = matrix_size(lu.meta());
    let few = m.min(n);
    let l = tril(&lu.narrow(-1, 0, few as i64)?, -1)?;
    if m == few { with_ones(&l) } else { l.add(&identity(m, few, lu)?) }
}

fn upper_part(lu: &Tensor) -> Result<Tensor> {
    let (m, n) = matrix_size(lu.meta());
    triu(&lu.narrow(-2, 0, m.min(n) as i64)?, 0)
}

fn lu(x: &Tensor, pivot: bool) -> Result<Ret> {
    let y = lu_factor_ex("linalg.lu", x, pivot)?;
    let (m, _) = matrix_size(x.meta());
    tuple([permutation_matrix(&y[1], m, x)?, lower_part(&y[0])?, upper_part(&y[0])?])
}

fn lu_unpack(lu: &Tensor, pivots: &Tensor, data: bool, places: bool) -> Result<Ret> {
    expect_matrices("torch.lu_unpack", lu, "LU_data")?;
    let (m, _) = matrix_size(lu.meta());
    if places && pivots.dtype() != DType::I32 {
        return Err(Error::runtime(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this \
            function is intended to be used with the output produced by torch.linalg.lu_factor",
        ));
    }
    let none = || Tensor::zeros(&[0], lu.dtype(), lu.device());
    let p = if places { permutation_matrix(pivots, m, lu)? } else { none()? };
    let (l, u) = if data { (lower_part(lu)?, upper_part(lu)?) } else { (none()?, none()?) };
    tuple([p, l, u])
}

/// `x` of `a x = b`, or `x a = b`, or with `a^H`, from the triangles and pivots of `a`.
pub(super) fn lu_solve(lu: &Tensor, pivots: &Tensor, b: &Tensor, left: bool, adjoined: bool) -> Result<Tensor> {
    const NAME: &str = "linalg.lu_solve";
    expect_square(NAME, lu, "LU")?;
    expect_matrices(NAME, b, "B")?;
    expect_inexact(NAME, lu)?;
    if pivots.dtype() != DType::I32 {
        return Err(Error::runtime(format!("{NAME}: pivots should be a Tensor of scalar type torch.int32")));
    }
    if lu.dtype() != b.dtype() {
        return Err(different_dtypes(NAME, "LU", "B", lu, b));
    }
    let r = lu.dims().len();
    if lu.dims()[..r - 1] != pivots.dims()[..] {
        return Err(Error::runtime(format!(
            "{NAME}: Number of pivots per batch should be same as the dimension of the matrix"
        )));
    }
    expect_fit(NAME, lu, b, left)?;
    if !left {
        return adjoint(&lu_solve(lu, pivots, &adjoint(b)?, true, !adjoined)?);
    }
    let (n, _) = matrix_size(lu.meta());
    let (wide, b) = same_batch(lu, b)?;
    let mut order = wide.dims().to_vec();
    order.pop();
    let order = permutation(pivots, n, true)?.expand_dims(&Dims::new(&order))?;
    let (unit, plain) = (SolveTriangular { upper: false, unit: true }, SolveTriangular { upper: true, unit: false });
    if adjoined {
        let back = adjoint(&wide)?;
        let y = SolveTriangular { upper: false, unit: false }.call(&back, &b)?;
        let y = SolveTriangular { upper: true, unit: true }.call(&back, &y)?;
        return rows_back(&y, &order);
    }
    plain.call(&wide, &unit.call(&wide, &rows_to(&b, &order)?)?)
}

fn different_dtypes(name: &str, a: &str, b: &str, x: &Tensor, y: &Tensor) -> Error {
    Error::runtime(format!(
        "{name}: Expected {a} and {b} to have the same dtype, but found {a} of type {} and {b} of type {} instead",
        x.dtype().scalar_type(),
        y.dtype().scalar_type()
    ))
}

fn expect_fit(name: &str, a: &Tensor, b: &Tensor, left: bool) -> Result<()> {
    let ((m, n), (rows, columns)) = (matrix_size(a.meta()), matrix_size(b.meta()));
    if if left { m == rows } else { n == columns } {
        return Ok(());
    }
    let equation = if left { "AX = B" } else { "XA = B" };
    Err(Error::runtime(format!(
        "{name}: Incompatible shapes of A and B for the equation {equation} ({m}x{n} and {rows}x{columns})"
    )))
}

// ------------------------------------------------------------------------------------------------ systems of equations

fn solve_triangular(a: &Tensor, b: &Tensor, upper: bool, left: bool, unit: bool) -> Result<Tensor> {
    const NAME: &str = "linalg.solve_triangular";
    expect_square(NAME, a, "A")?;
    expect_matrices(NAME, b, "B")?;
    if a.dtype() != b.dtype() {
        return Err(different_dtypes(NAME, "A", "B", a, b));
    }
    expect_fit(NAME, a, b, left)?;
    let (a, b) = same_batch(a, b)?;
    if left {
        return SolveTriangular { upper, unit }.call(&a, &b);
    }
    let y = SolveTriangular { upper: !upper, unit }.call(&a.transpose(-2, -1)?, &b.transpose(-2, -1)?)?;
    y.transpose(-2, -1)
}

/// Whether `b` holds a vector for each matrix of `a`.
fn is_vector(a: &Tensor, b: &Tensor) -> bool {
    let r = a.dims().len();
    b.dims().len() == 1 || (b.dims().len() + 1 == r && b.dims()[..] == a.dims()[..r - 1])
}

fn solve_ex(name: &str, a: &Tensor, b: &Tensor, left: bool) -> Result<Pair> {
    expect_square(name, a, "A")?;
    expect_inexact(name, a)?;
    if a.dtype() != b.dtype() {
        return Err(different_dtypes(name, "A", "B", a, b));
    }
    let vector = is_vector(a, b);
    if vector && !left {
        return Err(Error::runtime(format!(
            "{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case {name} is \
            equivalent to B / A.squeeze(-1)"
        )));
    }
    let columns = if vector { b.unsqueeze(-1)? } else { b.clone() };
    expect_matrices(name, &columns, "B")?;
    expect_fit(name, a, &columns, left)?;
    let (a, columns) = same_batch(a, &columns)?;
    let (a, columns) = if left { (a, columns) } else { (a.transpose(-2, -1)?, columns.transpose(-2, -1)?) };
    let (x, info) = two(dispatch::call_n(Prim::Solve(Solve), &[&a, &columns])?);
    let x = if left { x } else { x.transpose(-2, -1)? };
    Ok((if vector { x.squeeze(-1)? } else { x }, info))
}

fn check_solved(info: &Tensor) -> Result<()> {
    check(info, |head, _| {
        Error::linalg(format!("torch.linalg.solve: {head}The solver failed because the input matrix is singular."))
    })
}

fn solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    let (x, info) = solve_ex("linalg.solve", a, b, left)?;
    check_solved(&info)?;
    Ok(x)
}

fn inv_ex(name: &str, x: &Tensor, checked: bool) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    let (y, info) = two(dispatch::call_n(Prim::Inverse(Inverse), &[x])?);
    if checked {
        check(&info, |head, code| {
            Error::linalg(format!(
                "linalg.inv: {head}The diagonal element {code} is zero, the inversion could not be completed because \
                the input matrix is singular."
            ))
        })?;
    }
    Ok((y, info))
}

/// The inverse of each matrix.
pub(super) fn inv(name: &str, x: &Tensor) -> Result<Tensor> {
    Ok(inv_ex(name, x, true)?.0)
}

fn triangular_solve(b: &Tensor, a: &Tensor, upper: bool, transpose: bool, unit: bool) -> Result<Ret> {
    for (name, x) in [("b", b), ("A", a)] {
        if x.dims().len() < 2 {
            return Err(Error::runtime(format!(
                "torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {} dimensions \
                instead",
                x.dims().len()
            )));
        }
    }
    let ((m, n), (rows, _)) = (matrix_size(a.meta()), matrix_size(b.meta()));
    if m != n || n != rows {
        return Err(Error::runtime(format!(
            "Incompatible matrix sizes for triangular_solve: each A matrix is {m} by {n} but each b matrix is {rows} \
            by {}",
            matrix_size(b.meta()).1
        )));
    }
    let (a, b) = same_batch(a, b)?;
    let x = match transpose {
        false => SolveTriangular { upper, unit }.call(&a, &b)?,
        true => SolveTriangular { upper: !upper, unit }.call(&a.transpose(-2, -1)?, &b)?,
    };
    tuple([x, a.copy()?])
}

fn ldl_factor(x: &Tensor, hermitian: bool) -> Result<Outs> {
    const NAME: &str = "torch.linalg.ldl_factor_ex";
    expect_square(NAME, x, "A")?;
    expect_inexact(NAME, x)?;
    dispatch::call_n(Prim::LdlFactor(LdlFactor { hermitian: hermitian && x.dtype().is_complex() }), &[x])
}

fn ldl_solve(ld: &Tensor, pivots: &Tensor, b: &Tensor, hermitian: bool) -> Result<Tensor> {
    const NAME: &str = "torch.linalg.ldl_solve";
    expect_square(NAME, ld, "LD")?;
    if b.dims().len() < 2 {
        return Err(Error::runtime(format!(
            "{NAME}: Expected B to have at least 2 dimensions, but it has {} dimensions instead",
            b.dims().len()
        )));
    }
    if pivots.dtype().is_inexact() || pivots.dtype() == DType::Bool {
        return Err(Error::runtime(format!(
            "{NAME}: Expected pivots to be integers. Got {}",
            pivots.dtype().scalar_type()
        )));
    }
    if ld.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "ldl_solve: Expected LD and B to have the same dtype, but found LD of type {} and B of type {} instead",
            ld.dtype().scalar_type(),
            b.dtype().scalar_type()
        )));
    }
    let r = ld.dims().len();
    if ld.dims()[..r - 1] != pivots.dims()[..] {
        return Err(Error::runtime(format!(
            "{NAME}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} instead",
            pivots.dims()
        )));
    }
    expect_fit(NAME, ld, b, true)?;
    let (ld, b) = same_batch(ld, b)?;
    let mut order = ld.dims().to_vec();
    order.pop();
    let pivots = pivots.to_dtype(DType::I32)?.expand_dims(&Dims::new(&order))?;
    let hermitian = hermitian && ld.dtype().is_complex();
    dispatch::call(Prim::LdlSolve(LdlSolve { hermitian }), &[&ld, &pivots, &b])
}

// ------------------------------------------------------------------------------------------------ determinants

fn det(name: &str, x: &Tensor) -> Result<Tensor> {
    expect_square_inexact(name, x)?;
    dispatch::call(Prim::Det(Det), &[x])
}

fn slogdet(name: &str, x: &Tensor) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    Ok(two(dispatch::call_n(Prim::Slogdet(Slogdet), &[x])?))
}

fn logdet(x: &Tensor) -> Result<Tensor> {
    let (sign, log) = slogdet("logdet", x)?;
    if x.dtype().is_complex() {
        return sign.log()?.add(&log);
    }
    let nan = Tensor::number(Scalar::Float(f64::NAN), x.dtype())?;
    pointwise::select(&sign.eq_scalar(-1.0)?, &nan, &log)
}

// ------------------------------------------------------------------------------------------------ orthogonal factors

fn qr(x: &Tensor, mode: &str) -> Result<Pair> {
    expect_matrices("linalg.qr", x, "A")?;
    expect_inexact("linalg.qr", x)?;
    let parts = match mode {
        "reduced" => Parts::Reduced,
        "complete" => Parts::Complete,
        "r" => Parts::R,
        other => {
            return Err(Error::runtime(format!(
                "qr received unrecognized mode '{other}' but expected one of 'reduced' (default), 'r', or 'complete'"
            )));
        }
    };
    Ok(two(dispatch::call_n(Prim::Qr(Qr { parts }), &[x])?))
}

fn geqrf(x: &Tensor) -> Result<Pair> {
    expect_matrices("torch.geqrf", x, "input")?;
    expect_inexact("torch.geqrf", x)?;
    Ok(two(dispatch::call_n(Prim::Geqrf(Geqrf), &[x])?))
}

/// Refuses reflectors that do not fit their factors.
fn expect_reflectors(name: &str, a: &Tensor, tau: &Tensor) -> Result<()> {
    let fail = |why: &str| Err(Error::runtime(format!("{name}: {why}")));
    if a.dims().len() < 2 {
        return fail("input must have at least 2 dimensions.");
    }
    if tau.dims().len() + 1 != a.dims().len() {
        return Err(Error::runtime(format!(
            "{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and input.ndim \
            is equal to {}",
            tau.dims().len(),
            a.dims().len()
        )));
    }
    let batch = a.dims().len() - 2;
    if a.dims()[..batch] != tau.dims()[..batch] {
        return Err(Error::runtime(format!(
            "{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}",
            Dims::new(&tau.dims()[..batch])
        )));
    }
    if a.dtype() != tau.dtype() {
        return Err(Error::runtime(format!(
            "{name}: tau dtype {} does not match input dtype {}",
            tau.dtype().scalar_type(),
            a.dtype().scalar_type()
        )));
    }
    Ok(())
}

fn householder_product(a: &Tensor, tau: &Tensor) -> Result<Tensor> {
    const NAME: &str = "torch.linalg.householder_product";
    expect_reflectors(NAME, a, tau)?;
    let ((m, n), k) = (matrix_size(a.meta()), tau.dims()[tau.dims().len() - 1]);
    if m < n {
        return Err(Error::runtime(format!(
            "{NAME}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )));
    }
    if n < k {
        return Err(Error::runtime(format!("{NAME}: input.shape[-1] must be greater than or equal to tau.shape[-1]")));
    }
    product_of_reflectors(a, tau, n)
}

fn ormqr(a: &Tensor, tau: &Tensor, c: &Tensor, left: bool, transposed: bool) -> Result<Tensor> {
    const NAME: &str = "torch.ormqr";
    if a.dims().len() < 2 || c.dims().len() < 2 {
        let which = if a.dims().len() < 2 { "input" } else { "other" };
        return Err(Error::runtime(format!("{NAME}: {which} must have at least 2 dimensions.")));
    }
    let ((m, _), k) = (matrix_size(a.meta()), tau.dims().last().copied().unwrap_or(0));
    let (rows, columns) = matrix_size(c.meta());
    let (side, place) = if left { (rows, "-2") } else { (columns, "-1") };
    if side < k {
        return Err(Error::runtime(format!(
            "{NAME}: other.shape[{place}] must be greater than or equal to tau.shape[-1]"
        )));
    }
    if side != m {
        return Err(Error::runtime(format!("{NAME}: other.shape[{place}] must be equal to input.shape[-2]")));
    }
    expect_reflectors(NAME, a, tau)?;
    if a.dtype() != c.dtype() {
        return Err(Error::runtime(format!(
            "{NAME}: Expected input and other to have the same dtype, but input has dtype {} and other has dtype {}",
            a.dtype().scalar_type(),
            c.dtype().scalar_type()
        )));
    }
    let (v, t) = reflectors(a, tau)?;
    let (vh, t) = (adjoint(&v)?, if transposed { adjoint(&t)? } else { t });
    match left {
        true => c.sub(&v.matmul(&t.matmul(&vh.matmul(c)?)?)?),
        false => c.sub(&c.matmul(&v)?.matmul(&t)?.matmul(&vh)?),
    }
}

// ------------------------------------------------------------------------------------------------ eigenvalues and
// singular values

fn eigh(name: &str, x: &Tensor, triangle: &str, vectors: bool) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    let upper = match triangle {
        "L" | "l" => false,
        "U" | "u" => true,
        other => {
            return Err(Error::runtime(format!("Expected UPLO argument to be 'L' or 'U', but got {other}")));
        }
    };
    Ok(two(dispatch::call_n(Prim::Eigh(Eigh { upper, vectors: vectors || wants_gradient(x) }), &[x])?))
}

fn wants_gradient(x: &Tensor) -> bool {
    crate::state::grad_enabled() && x.requires_grad()
}

fn eig(name: &str, x: &Tensor, vectors: bool) -> Result<Pair> {
    expect_square_inexact(name, x)?;
    Ok(two(dispatch::call_n(Prim::Eig(Eig { vectors: vectors || wants_gradient(x) }), &[x])?))
}

fn svd(x: &Tensor, full: bool, vectors: bool, driver: Option<&str>) -> Result<Outs> {
    expect_matrices("linalg.svd", x, "A")?;
    expect_inexact("linalg.svd", x)?;
    if driver.is_some() {
        return Err(Error::runtime(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.",
        ));
    }
    dispatch::call_n(Prim::Svd(Svd { full, vectors }), &[x])
}

/// Singular values, from the greatest.
pub(super) fn svdvals(x: &Tensor) -> Result<Tensor> {
    Ok(svd(x, false, wants_gradient(x), None)?.swap_remove(1))
}

/// `torch.svd`: with `V` instead of its conjugate transpose.
fn old_svd(x: &Tensor, some: bool, vectors: bool) -> Result<Ret> {
    if !vectors {
        let (m, n) = if x.dims().len() < 2 { (0, 0) } else { matrix_size(x.meta()) };
        let s = svdvals(x)?;
        let none = |n: usize| Tensor::zeros_like_meta(&x.meta().with_dims(super::batch_and(x.dims(), &[n, n])));
        return tuple([none(m)?, s, none(n)?]);
    }
    let y = svd(x, !some, true, None)?;
    tuple([y[0].clone(), y[1].clone(), adjoint(&y[2])?])
}

/// What counts as zero: absolute, and relative to the greatest singular value.
fn tolerances(x: &Tensor, atol: Option<Tensor>, rtol: Option<Tensor>) -> Result<Pair> {
    let real = x.dtype().to_real();
    let meta = |dims: Dims| Meta { dims, dtype: real, device: x.device() };
    let zero = || Tensor::full_meta(&meta(Dims::EMPTY), Scalar::Int(0));
    let (m, n) = matrix_size(x.meta());
    let epsilon = if real == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() } * m.max(n) as f64;
    let common = || Tensor::full_meta(&meta(Dims::EMPTY), Scalar::Float(epsilon));
    let rtol = match (&atol, rtol) {
        (_, Some(rtol)) => rtol.to_dtype(real)?,
        (None, None) => common()?,
        (Some(atol), None) => pointwise::select(&atol.gt_scalar(0.0)?, &zero()?, &common()?)?,
    };
    Ok((atol.map_or_else(zero, |t| t.to_dtype(real))?, rtol))
}

fn number(x: &Tensor, v: Option<f64>) -> Result<Option<Tensor>> {
    let meta = Meta { dims: Dims::EMPTY, dtype: x.dtype().to_real(), device: x.device() };
    v.map(|v| Tensor::full_meta(&meta, Scalar::Float(v))).transpose()
}

fn pinv(name: &str, x: &Tensor, atol: Option<Tensor>, rtol: Option<Tensor>, hermitian: bool) -> Result<Tensor> {
    expect_matrices(name, x, "A")?;
    expect_inexact(name, x)?;
    if hermitian {
        expect_square(name, x, "A")?;
    }
    if x.numel() == 0 {
        return adjoint(x)?.neg();
    }
    let (atol, rtol) = tolerances(x, atol, rtol)?;
    dispatch::call(Prim::Pinv(Pinv { hermitian }), &[x, &atol, &rtol])
}

fn matrix_rank(x: &Tensor, atol: Option<Tensor>, rtol: Option<Tensor>, hermitian: bool) -> Result<Tensor> {
    const NAME: &str = "torch.linalg.matrix_rank";
    expect_matrices(NAME, x, "input")?;
    for (which, v) in [("atol", &atol), ("rtol", &rtol)] {
        if let Some(v) = v.as_ref().filter(|v| v.dtype().is_complex()) {
            return Err(Error::runtime(format!(
                "{NAME}: {which} tensor of complex type is not supported. Got {}",
                v.dtype().scalar_type()
            )));
        }
    }
    crate::no_grad(|| {
        let values = match hermitian {
            true => eigh("linalg.eigvalsh", x, "L", false)?.0.abs()?,
            false => svdvals(x)?,
        };
        if x.numel() == 0 {
            let dims = super::batch_and(x.dims(), &[]);
            return Tensor::zeros_like_meta(&x.meta().with_dims(dims).with_dtype(DType::I64));
        }
        let (atol, rtol) = tolerances(x, atol, rtol)?;
        let least = atol.maximum(&rtol.mul(&values.amax(&[-1], false)?)?)?.unsqueeze(-1)?;
        values.gt(&least)?.to_dtype(DType::I64)?.sum_dim(&[-1], false)
    })
}

/// The number by which errors grow in solutions: a norm of each matrix times that of its inverse.
fn cond(x: &Tensor, order: Option<super::products::Order<'_>>) -> Result<Tensor> {
    use super::products::Order;
    if x.dims().len() < 2 {
        return Err(Error::runtime("linalg.cond: The input tensor must have at least 2 dimensions."));
    }
    let shown = match order {
        None => "None".to_string(),
        Some(Order::Number(p)) => p.to_string(),
        Some(Order::Name(s)) => s.to_string(),
    };
    let invalid = || Error::value(format!("linalg.cond got an invalid norm type: {shown}"));
    let dims = super::batch_and(x.dims(), &[]);
    match order {
        Some(Order::Number(p)) if ![1.0, 2.0, f64::INFINITY].contains(&p.abs()) => return Err(invalid()),
        Some(Order::Name(s)) if s != "fro" && s != "nuc" => return Err(invalid()),
        _ => {}
    }
    if x.numel() == 0 {
        let y = Tensor::zeros_like_meta(&x.meta().with_dims(dims).with_dtype(x.dtype().to_real()))?;
        return pointwise::independent_of(x, y);
    }
    let by_values = match &order {
        None => Some(false),
        Some(Order::Number(p)) if p.abs() == 2.0 => Some(*p < 0.0),
        _ => None,
    };
    if let Some(turned) = by_values {
        let s = svdvals(x)?;
        let count = s.dims()[s.dims().len() - 1] as i64;
        let (first, last) = (s.select(-1, 0)?, s.select(-1, count - 1)?);
        return if turned { last.div(&first) } else { first.div(&last) };
    }
    expect_square(&format!("linalg.cond(ord={shown})"), x, "A")?;
    let (inverse, info) = inv_ex("linalg.cond", x, false)?;
    // No norm of what is not finite can be asked for by singular values; its place is taken below.
    let singular = info.ne_scalar(0)?;
    let inverse = pointwise::select_scalar(&singular.unsqueeze(-1)?.unsqueeze(-1)?, 0.0, &inverse)?;
    let order = order.expect("given");
    let norm = |x: &Tensor| super::products::matrix_norm(x, order, &[-2, -1], false, None);
    let y = norm(x)?.mul(&norm(&inverse)?)?;
    let infinite = Tensor::number(Scalar::Float(f64::INFINITY), y.dtype())?;
    pointwise::select(&singular, &infinite, &y)
}

/// Least squares: `x` with the least `|a x - b|`, of those with the least `|x|`.
fn lstsq(a: &Tensor, b: &Tensor, rcond: Option<f64>, driver: Option<&str>) -> Result<Ret> {
    const NAME: &str = "torch.linalg.lstsq";
    if a.dims().len() < 2 {
        return Err(Error::runtime(format!("{NAME}: input must have at least 2 dimensions.")));
    }
    if b.dims().is_empty() {
        return Err(Error::runtime(format!("{NAME}: other must have at least 1 dimension.")));
    }
    let vector = is_vector(a, b);
    let columns = if vector { b.unsqueeze(-1)? } else { b.clone() };
    let (m, n) = matrix_size(a.meta());
    if columns.dims().len() < 2 || columns.dims()[columns.dims().len() - 2] != m {
        let place = if vector { "-1" } else { "-2" };
        return Err(Error::runtime(format!("{NAME}: input.size(-2) should match other.size({place})")));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "{NAME}: Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}",
            a.dtype().scalar_type(),
            b.dtype().scalar_type()
        )));
    }
    let driver = driver.unwrap_or("gelsy");
    if !["gels", "gelsy", "gelsd", "gelss"].contains(&driver) {
        return Err(Error::runtime(format!("{NAME}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")));
    }
    if !a.dtype().is_inexact() || a.dtype().is_half() {
        return Err(Error::runtime("This function doesn't handle types other than float and double"));
    }
    let (a, columns) = same_batch(a, &columns)?;
    let real = a.dtype().to_real();
    let epsilon = if real == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() };
    let rcond = rcond.unwrap_or(epsilon * m.max(n) as f64);
    let batch = super::batch_and(a.dims(), &[]);
    let empty = |dtype: DType| Tensor::zeros(&[0], dtype, a.device());
    // Full rank is taken for granted by `gels`.
    let cut = if driver == "gels" { 0.0 } else { rcond };
    let x = pinv("linalg.pinv", &a, number(&a, Some(0.0))?, number(&a, Some(cut))?, false)?.matmul(&columns)?;
    let (rank, values) = crate::no_grad(|| {
        let values = svdvals(&a)?;
        let rank = match driver == "gels" || a.numel() == 0 {
            true => Tensor::full_meta(&a.meta().with_dims(batch).with_dtype(DType::I64), Scalar::Int(m.min(n) as i64))?,
            false => {
                let least = values.amax(&[-1], true)?.mul_scalar(rcond)?;
                values.gt(&least)?.to_dtype(DType::I64)?.sum_dim(&[-1], false)?
            }
        };
        Ok::<_, Error>((rank, values))
    })?;
    let all_full = || -> Result<bool> {
        if driver == "gels" || a.device().kind == DeviceKind::Meta || rank.numel() == 0 {
            return Ok(true);
        }
        let least = crate::no_grad(|| rank.reshape(&[-1])?.amin(&[0], false))?;
        Ok(least.item()?.to_i64() == n as i64)
    };
    let residuals = match m > n && driver != "gelsy" && all_full()? {
        true => {
            let over = a.matmul(&x)?.sub(&columns)?.abs()?;
            over.mul(&over)?.sum_dim(&[-2], false)?
        }
        // Made of the solution, as the others.
        false => x.reshape(&[-1])?.narrow(0, 0, 0)?.abs()?,
    };
    let x = if vector { x.squeeze(-1)? } else { x };
    let rank = if driver == "gels" { empty(DType::I64)? } else { rank };
    let values = if driver == "gels" || driver == "gelsy" { empty(real)? } else { values };
    tuple([x, residuals, rank, values])
}

// ------------------------------------------------------------------------------------------------ functions of
// matrices

fn matrix_exp(x: &Tensor) -> Result<Tensor> {
    expect_square("linalg.matrix_exp", x, "A")?;
    if x.dtype().is_half() {
        return matrix_exp(&x.to_dtype(DType::F32)?)?.to_dtype(x.dtype());
    }
    expect_inexact("linalg.matrix_exp", x)?;
    dispatch::call(Prim::MatrixExp(MatrixExp), &[x])
}

fn matrix_sqrth(x: &Tensor) -> Result<Tensor> {
    let (w, v) = eigh("linalg.matrix_sqrth", x, "L", true)?;
    let root = w.relu()?.sqrt()?.to_dtype(v.dtype())?;
    times_columns(&v, &root)?.matmul(&adjoint(&v)?)
}

fn polar(x: &Tensor) -> Result<Pair> {
    expect_matrices("linalg.polar", x, "A")?;
    expect_inexact("linalg.polar", x)?;
    let (m, n) = matrix_size(x.meta());
    if m < n {
        return Err(Error::runtime(format!(
            "linalg.polar: input must have at least as many rows as columns, but got {m} by {n} matrices"
        )));
    }
    let y = svd(x, false, true, None)?;
    let v = adjoint(&y[2])?;
    let h = times_columns(&v, &y[1].to_dtype(v.dtype())?)?.matmul(&y[2])?;
    Ok((y[0].matmul(&y[2])?, h))
}

fn product(dims: &[usize]) -> i64 {
    dims.iter().product::<usize>() as i64
}

fn tensorinv(x: &Tensor, ind: i64) -> Result<Tensor> {
    if ind <= 0 {
        return Err(Error::runtime("Expected a strictly positive integer for 'ind'"));
    }
    let at = (ind as usize).min(x.dims().len());
    let (rows, columns) = (product(&x.dims()[..at]), product(&x.dims()[at..]));
    if rows != columns {
        return Err(Error::runtime(format!(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got \
            {columns} != {rows}"
        )));
    }
    let sizes: Vec<i64> = x.dims()[at..].iter().chain(&x.dims()[..at]).map(|&n| n as i64).collect();
    inv("linalg.inv", &x.reshape(&[rows, columns])?)?.reshape(&sizes)
}

fn tensorsolve(a: &Tensor, b: &Tensor, dims: Option<&[i64]>) -> Result<Tensor> {
    let r = a.dims().len();
    let mut moved = a.clone();
    if let Some(dims) = dims {
        let from: Vec<usize> = dims.iter().map(|&d| normalize_dim(d, r)).collect::<Result<_>>()?;
        let to: Vec<i64> = (r - from.len()..r).map(|d| d as i64).collect();
        moved = a.movedim(&from.iter().map(|&d| d as i64).collect::<Vec<_>>(), &to)?;
    }
    let at = b.dims().len().min(r);
    let (rows, columns) = (product(&moved.dims()[..at]), product(&moved.dims()[at..]));
    if rows != columns {
        return Err(Error::runtime(format!(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), \
            but got {columns} != {rows}"
        )));
    }
    let sizes: Vec<i64> = moved.dims()[at..].iter().map(|&n| n as i64).collect();
    solve(&moved.reshape(&[rows, columns])?, &b.reshape(&[-1])?, true)?.reshape(&sizes)
}

// ------------------------------------------------------------------------------------------------ rows

fn definite(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Definite)
}

/// With complex numbers too.
/// A sample for each dtype that has decompositions.
fn any(args: Vec<SampleArg>) -> Sample {
    Sample::new(args).dtypes(&[DType::F64, DType::C64, DType::C128])
}

fn pair_of(y: Pair) -> Result<Ret> {
    tuple([y.0, y.1])
}

const EIGEN: &[&str] = &["eigenvalues", "eigenvectors"];

/// Rows of decompositions and what they solve.
pub const ROWS: &[Row] = &[
    Row::new(
        "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
        Tier::Composed,
        |a| Ok(cholesky_ex("linalg.cholesky", a.tensor(0)?, a.bool(1)?, true)?.0.into()),
        || vec![any(vec![definite(&[2, 3, 3])]).no_gradient(), any(vec![definite(&[3, 3]), n(true)]).no_gradient()],
    )
    .doc(
        "Return the lower triangular `L` with `input = L @ L^H`, for each matrix of `input` `(..., n, n)`, `float32`, \
         `float64` or complex. With `upper`, return `U` with `input = U^H @ U`. Only the triangle of that side is \
         read. A matrix that is not positive definite raises `torch.linalg.LinAlgError`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
        Tier::Composed,
        |a| pair_of(cholesky_ex("linalg.cholesky", a.tensor(0)?, a.bool(1)?, a.bool(2)?)?),
        || vec![any(vec![definite(&[3, 3])]).no_gradient()],
    )
    .doc(
        "Return the result of `torch.linalg.cholesky` as `L`, and `info`, `int32`: 0 for each matrix, or the order of \
         its first leading minor that is not positive. A failure raises `torch.linalg.LinAlgError` with \
         `check_errors` only.",
    )
    .scope(Scope::Nn)
    .fields(&["L", "info"]),
    Row::new(
        "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
        Tier::Composed,
        |a| Ok(cholesky_solve(a.tensor(0)?, a.tensor(1)?, a.bool(2)?)?.into()),
        || {
            vec![
                any(vec![t(&[3, 2]), definite(&[2, 3, 3])]).no_gradient(),
                any(vec![t(&[3, 2]), definite(&[3, 3]), n(true)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return `x` with `A @ x = input`, for `input` `(..., n, k)` and the Cholesky factor `input2` `(..., n, n)` of \
         `A`: `A = input2 @ input2^H`, or `A = input2^H @ input2` with `upper`. Only the triangle is read. Batches \
         broadcast.",
    ),
    Row::new(
        "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
        Tier::Composed,
        |a| Ok(cholesky_inverse(a.tensor(0)?, a.bool(1)?)?.into()),
        || vec![any(vec![definite(&[3, 3])]).no_gradient(), any(vec![definite(&[3, 3]), n(true)]).no_gradient()],
    )
    .doc(
        "Return the inverse of each matrix whose Cholesky factor `input` `(..., n, n)` holds, as a lower triangle, or \
         an upper one with `upper`.",
    ),
    Row::new(
        "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
        Tier::Composed,
        |a| tuple(lu_factor(a.tensor(0)?, a.bool(1)?, true)?.into_iter().take(2)),
        || vec![any(vec![t(&[2, 3, 3])]), any(vec![t(&[2, 4])]), any(vec![t(&[4, 2])])],
    )
    .doc(
        "Return the factors of `A = P @ L @ U` in one tensor `LU` `(..., m, n)`, and `pivots` `(..., min(m, n))`, \
         `int32`. `L` lies below the diagonal, without its ones. `pivots[i]` is the row, counted from 1, that row `i` \
         changed places with. `A` is `float32`, `float64` or complex. A zero on the diagonal of `U`, and \
         `pivot=False`, raise `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .fields(&["LU", "pivots"]),
    Row::new(
        "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, \
        Tensor info)",
        Tier::Composed,
        |a| tuple(lu_factor(a.tensor(0)?, a.bool(1)?, a.bool(2)?)?),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc(
        "Return the results of `torch.linalg.lu_factor`, and `info`, `int32`: 0 for each matrix, or the number, from \
         1, of its first pivot that is zero. Such a pivot raises `RuntimeError` with `check_errors` only.",
    )
    .scope(Scope::Nn)
    .fields(&["LU", "pivots", "info"]),
    Row::new(
        "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor \
        info)",
        Tier::Composed,
        |a| tuple(lu_factor(a.tensor(0)?, a.bool(1)?, a.bool(2)?)?),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc("Return the results of `torch.linalg.lu_factor_ex`, where `check_errors` is True unless given.")
    .scope(Scope::Function)
    .no_out()
    .fields(&["LU", "pivots", "info"]),
    Row::new(
        "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
        Tier::Composed,
        |a| lu(a.tensor(0)?, a.bool(1)?),
        || vec![any(vec![t(&[2, 3, 3])]), any(vec![t(&[4, 2])])],
    )
    .doc(
        "Return `P` `(..., m, m)`, `L` `(..., m, k)` and `U` `(..., k, n)` with `A = P @ L @ U` and `k = min(m, n)`, \
         for each matrix of `A`, `float32`, `float64` or complex. `P` permutes rows, `L` has ones on its diagonal. A \
         singular matrix is no error, and `pivot=False` raises `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .fields(&["P", "L", "U"]),
    Row::new(
        "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor \
        P, Tensor L, Tensor U)",
        Tier::Composed,
        |a| lu_unpack(a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?),
        || {
            vec![
                any(vec![t(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots)]),
                any(vec![t(&[2, 3]), SampleArg::Tensor(vec![2], Fill::Pivots), n(true), n(false)]),
            ]
        },
    )
    .doc(
        "Return `P`, `L` and `U` as `torch.linalg.lu` does, from the `LU` and `pivots` of `torch.linalg.lu_factor`. \
         Without `unpack_data`, `L` and `U` have no elements, and without `unpack_pivots` `P` has none. The pivots \
         must be `int32`.",
    )
    .scope(Scope::Function)
    .fields(&["P", "L", "U"]),
    Row::new(
        "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
        Tier::Composed,
        |a| Ok(lu_solve(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.bool(3)?, a.bool(4)?)?.into()),
        || {
            vec![
                any(vec![definite(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots), t(&[3, 2])]),
                any(vec![definite(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots), t(&[2, 3]), n(false), n(true)]),
            ]
        },
    )
    .doc(
        "Return `x` with `A @ x = B`, from the `LU` `(..., n, n)` and `pivots` of `torch.linalg.lu_factor`, for `B` \
         `(..., n, k)`. With `left=False`, solve `x @ A = B`, for `B` `(..., k, n)`. With `adjoint`, `A^H` takes the \
         place of `A`. Batches broadcast, and `B` has the dtype of `LU`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
        Tier::Composed,
        |a| Ok(lu_solve(a.tensor(1)?, a.tensor(2)?, a.tensor(0)?, true, false)?.into()),
        || vec![any(vec![t(&[3, 2]), definite(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots)])],
    )
    .doc("Return `torch.linalg.lu_solve(LU_data, LU_pivots, input)`: `x` with `A @ x = input`."),
    Row::new(
        "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) \
        -> Tensor",
        Tier::Composed,
        |a| Ok(solve_triangular(a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?, a.bool(4)?)?.into()),
        || {
            vec![
                any(vec![definite(&[2, 3, 3]), t(&[3, 2]), n(true)]),
                any(vec![definite(&[3, 3]), t(&[2, 3]), n(false), n(false), n(true)]),
            ]
        },
    )
    .doc(
        "Return `x` with `input @ x = B`, for triangular matrices `input` `(..., n, n)`, `float32`, `float64` or \
         complex, and `B` `(..., n, k)` of one dtype. With `left=False`, solve `x @ input = B`, for `B` `(..., k, \
         n)`. Only the triangle that `upper` names is read, and with `unitriangular` its diagonal counts as ones. \
         Batches broadcast. A zero on the diagonal is not reported.",
    )
    .scope(Scope::Nn),
    Row::new(
        "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) \
        -> (Tensor solution, Tensor cloned_coefficient)",
        Tier::Composed,
        |a| triangular_solve(a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?, a.bool(4)?),
        || vec![any(vec![t(&[3, 2]), definite(&[3, 3])]), any(vec![t(&[3, 2]), definite(&[3, 3]), n(false), n(true)])],
    )
    .doc(
        "Return `solution`, with `A @ solution = input` for triangular matrices `A` `(..., n, n)`, and a copy of `A`. \
         With `transpose`, `A^T` takes the place of `A`. Only the triangle that `upper` names is read, and with \
         `unitriangular` its diagonal counts as ones. `torch.linalg.solve_triangular` is the newer form.",
    )
    .fields(&["solution", "cloned_coefficient"]),
    Row::new(
        "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
        Tier::Composed,
        |a| Ok(solve(a.tensor(0)?, a.tensor(1)?, a.bool(2)?)?.into()),
        || {
            vec![
                any(vec![t(&[2, 3, 3]), t(&[3, 2])]),
                any(vec![t(&[3, 3]), t(&[3])]),
                any(vec![t(&[3, 3]), t(&[2, 3]), n(false)]),
            ]
        },
    )
    .doc(
        "Return `x` with `A @ x = B`, for each matrix of `A` `(..., n, n)`, `float32`, `float64` or complex, and `B` \
         of one dtype. `B` is `(..., n, k)`. It holds one vector for each matrix if it is `(n,)`, or has the shape of \
         `A` without the last dimension. With `left=False`, solve `x @ A = B`, for `B` `(..., k, n)`. Batches \
         broadcast, and a singular matrix raises `torch.linalg.LinAlgError`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, \
        Tensor info)",
        Tier::Composed,
        |a| {
            let y = solve_ex("linalg.solve", a.tensor(0)?, a.tensor(1)?, a.bool(2)?)?;
            if a.bool(3)? {
                check_solved(&y.1)?;
            }
            pair_of(y)
        },
        || vec![any(vec![t(&[3, 3]), t(&[3, 2])])],
    )
    .doc(
        "Return the result of `torch.linalg.solve`, and `info`, `int32`: 0 for each matrix, or the number, from 1, of \
         a pivot that is zero. A singular matrix raises `torch.linalg.LinAlgError` with `check_errors` only.",
    )
    .scope(Scope::Nn)
    .fields(&["result", "info"]),
    Row::new(
        "linalg_inv(Tensor A) -> Tensor",
        Tier::Composed,
        |a| Ok(inv("linalg.inv", a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[2, 3, 3])])],
    )
    .doc(
        "Return the inverse of each matrix of `A` `(..., n, n)`, `float32`, `float64` or complex. A singular matrix \
         raises `torch.linalg.LinAlgError`. To multiply with an inverse, `torch.linalg.solve` is faster and more \
         exact.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
        Tier::Composed,
        |a| pair_of(inv_ex("linalg.inv", a.tensor(0)?, a.bool(1)?)?),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc(
        "Return the result of `torch.linalg.inv` as `inverse`, and `info`, `int32`: 0 for each matrix, or the number, \
         from 1, of a pivot that is zero. A singular matrix raises `torch.linalg.LinAlgError` with `check_errors` \
         only.",
    )
    .scope(Scope::Nn)
    .fields(&["inverse", "info"]),
    Row::new(
        "inverse(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(inv("linalg.inv", a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc("Alias of `torch.linalg.inv`."),
    Row::new(
        "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
        Tier::Composed,
        |a| {
            let y = ldl_factor(a.tensor(0)?, a.bool(1)?)?;
            check(&y[2], |head, code| {
                Error::linalg(format!("torch.linalg.ldl_factor: {head}D[{code},{code}] is zero"))
            })?;
            tuple(y.into_iter().take(2))
        },
        || vec![any(vec![t(&[2, 4, 4])]).no_gradient()],
    )
    .doc(
        "Return the factors of `input = L @ D @ L^T` in one tensor `LD` `(..., n, n)`, and `pivots` `(..., n)`, \
         `int32`, as LAPACK has them. `input` is symmetric, `float32`, `float64` or complex, and its lower triangle \
         is read. With `hermitian`, `L^H` takes the place of `L^T`. A block of `D` that is zero raises \
         `torch.linalg.LinAlgError`. There is no gradient.",
    )
    .scope(Scope::Nn)
    .fields(&["LD", "pivots"]),
    Row::new(
        "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, \
        Tensor pivots, Tensor info)",
        Tier::Composed,
        |a| {
            let y = ldl_factor(a.tensor(0)?, a.bool(1)?)?;
            if a.bool(2)? {
                check(&y[2], |head, code| {
                    Error::linalg(format!("torch.linalg.ldl_factor_ex: {head}D[{code},{code}] is zero"))
                })?;
            }
            tuple(y)
        },
        || vec![any(vec![t(&[4, 4]), n(true)]).no_gradient()],
    )
    .doc(
        "Return the results of `torch.linalg.ldl_factor`, and `info`, `int32`: 0 for each matrix, or the number, from \
         1, of its first block of `D` that is zero. Such a block raises `torch.linalg.LinAlgError` with \
         `check_errors` only.",
    )
    .scope(Scope::Nn)
    .fields(&["LD", "pivots", "info"]),
    Row::new(
        "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| Ok(ldl_solve(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.bool(3)?)?.into()),
        || vec![any(vec![definite(&[3, 3]), SampleArg::Tensor(vec![3], Fill::Pivots), t(&[3, 2])]).no_gradient()],
    )
    .doc(
        "Return `x` with `A @ x = B`, from the `LD` `(..., n, n)` and `pivots` that `torch.linalg.ldl_factor` made of \
         `A`, for `B` `(..., n, k)`. `hermitian` must be as it was there. Batches of `LD` and `B` broadcast. There is \
         no gradient.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_det(Tensor A) -> Tensor",
        Tier::Composed,
        |a| Ok(det("linalg.det", a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[2, 3, 3])]), any(vec![t(&[4, 4])])],
    )
    .doc(
        "Return the determinant of each matrix of `A` `(..., n, n)`, `float32`, `float64` or complex, with the shape \
         of the batch. A singular matrix gives 0.",
    )
    .scope(Scope::Nn),
    Row::new(
        "det(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(det("linalg.det", a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc("Alias of `torch.linalg.det`.")
    .no_out(),
    Row::new(
        "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
        Tier::Composed,
        |a| pair_of(slogdet("linalg.slogdet", a.tensor(0)?)?),
        || vec![any(vec![t(&[2, 3, 3])])],
    )
    .doc(
        "Return the `sign` of the determinant of each matrix of `A` `(..., n, n)`, `float32`, `float64` or complex, \
         and `logabsdet`, the logarithm of its magnitude. A singular matrix gives 0 and `-inf`. The sign of a complex \
         determinant has magnitude 1, and `logabsdet` is real.",
    )
    .scope(Scope::Nn)
    .fields(&["sign", "logabsdet"]),
    Row::new(
        "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
        Tier::Composed,
        |a| pair_of(slogdet("linalg.slogdet", a.tensor(0)?)?),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc("Alias of `torch.linalg.slogdet`.")
    .fields(&["sign", "logabsdet"]),
    Row::new(
        "logdet(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(logdet(a.tensor(0)?)?.into()),
        || vec![Sample::new(vec![definite(&[3, 3])])],
    )
    .doc(
        "Return the logarithm of the determinant of each matrix of `input` `(..., n, n)`. A singular matrix gives \
         `-inf`, a negative determinant NaN. Complex matrices give the complex logarithm.",
    )
    .no_out(),
    Row::new(
        "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
        Tier::Composed,
        |a| pair_of(qr(a.tensor(0)?, a.str(1)?)?),
        || {
            vec![
                any(vec![t(&[2, 3, 3])]),
                any(vec![t(&[4, 2])]),
                Sample::new(vec![t(&[2, 4])]),
                any(vec![t(&[4, 2]), SampleArg::Str("complete")]).no_gradient(),
                any(vec![t(&[4, 2]), SampleArg::Str("r")]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return `Q`, with orthonormal columns, and upper triangular `R`, with `A = Q @ R`, for each matrix of `A` \
         `(..., m, n)`, `float32`, `float64` or complex. `mode=\"reduced\"` gives `Q` `(..., m, k)` and `R` `(..., k, \
         n)` with `k = min(m, n)`. `mode=\"complete\"` gives `(..., m, m)` and `(..., m, n)`, and `mode=\"r\"` a `Q` \
         of no elements. There is no gradient for `\"r\"`, nor for `\"complete\"` where `m > n`.",
    )
    .scope(Scope::Nn)
    .fields(&["Q", "R"]),
    Row::new(
        "geqrf(Tensor self) -> (Tensor a, Tensor tau)",
        Tier::Composed,
        |a| pair_of(geqrf(a.tensor(0)?)?),
        || vec![any(vec![t(&[4, 3])]).no_gradient()],
    )
    .doc(
        "Return the QR decomposition of each matrix of `input` `(..., m, n)` as LAPACK keeps it. `a` holds `R` and, \
         below its diagonal, the vectors of the reflectors, and `tau` `(..., min(m, n))` their factors. \
         `torch.linalg.householder_product` makes `Q` of them. There is no gradient.",
    )
    .fields(&["a", "tau"]),
    Row::new(
        "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
        Tier::Composed,
        |a| Ok(householder_product(a.tensor(0)?, a.tensor(1)?)?.into()),
        || vec![any(vec![t(&[2, 4, 3]), t(&[2, 2])])],
    )
    .doc(
        "Return the first `n` columns of the product of `k` Householder reflectors `1 - tau[i] * v @ v^H`. The \
         vectors `v` are the columns of `input` `(..., m, n)` below the diagonal, with a leading one, and `tau` is \
         `(..., k)` with `k <= n <= m`. Both operands have one dtype.",
    )
    .scope(Scope::Nn),
    Row::new(
        "orgqr(Tensor self, Tensor input2) -> Tensor",
        Tier::Composed,
        |a| Ok(householder_product(a.tensor(0)?, a.tensor(1)?)?.into()),
        || vec![any(vec![t(&[4, 3]), t(&[3])])],
    )
    .doc("Alias of `torch.linalg.householder_product`, where `tau` is called `input2`."),
    Row::new(
        "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
        Tier::Composed,
        |a| Ok(ormqr(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.bool(3)?, a.bool(4)?)?.into()),
        || {
            vec![
                any(vec![t(&[4, 3]), t(&[3]), t(&[4, 2])]),
                any(vec![t(&[4, 3]), t(&[3]), t(&[2, 4]), n(false), n(true)]),
            ]
        },
    )
    .doc(
        "Return `Q @ input3`, where `Q` `(m, m)` is the product of the reflectors that `input` and `tau=input2` hold \
         as `torch.geqrf` returns them. With `left=False`, return `input3 @ Q`. With `transpose`, `Q^H` takes the \
         place of `Q`. All three operands have one dtype.",
    ),
    Row::new(
        "linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
        Tier::Composed,
        |a| pair_of(eigh("linalg.eigh", a.tensor(0)?, a.str(1)?, true)?),
        || {
            vec![
                any(vec![definite(&[2, 3, 3])]).no_gradient(),
                any(vec![definite(&[3, 3]), SampleArg::Str("U")]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the real `eigenvalues` `(..., n)`, in ascending order, and the orthonormal `eigenvectors` `(..., n, \
         n)`, as columns, of symmetric or Hermitian matrices `input` `(..., n, n)`, `float32`, `float64` or complex. \
         Only the triangle `UPLO`, `\"L\"` or `\"U\"`, is read. Eigenvectors are determined up to a factor of \
         magnitude 1; a loss that depends on the phase of complex ones raises `RuntimeError` in backward.",
    )
    .scope(Scope::Nn)
    .fields(EIGEN),
    Row::new(
        "linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor",
        Tier::Composed,
        |a| Ok(eigh("linalg.eigvalsh", a.tensor(0)?, a.str(1)?, false)?.0.into()),
        || vec![any(vec![definite(&[3, 3])]).no_gradient()],
    )
    .doc(
        "Return the eigenvalues `(..., n)`, real and in ascending order, of symmetric or Hermitian matrices `input` \
         `(..., n, n)`. Only the triangle `UPLO`, `\"L\"` or `\"U\"`, is read.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
        Tier::Composed,
        |a| pair_of(eig("linalg.eig", a.tensor(0)?, true)?),
        || vec![any(vec![t(&[3, 3])]).no_gradient()],
    )
    .doc(
        "Return the `eigenvalues` `(..., n)` and the `eigenvectors` `(..., n, n)`, as columns of length 1, of square \
         matrices `input` `(..., n, n)`, `float32`, `float64` or complex. Both results are complex, and the order is \
         not defined. An input with infinities or NaN raises `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .fields(EIGEN),
    Row::new(
        "linalg_eigvals(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(eig("linalg.eigvals", a.tensor(0)?, false)?.0.into()),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc("Return the complex eigenvalues `(..., n)` of square matrices `input` `(..., n, n)`, in no defined order.")
    .scope(Scope::Nn),
    Row::new(
        "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
        Tier::Composed,
        |a| tuple(svd(a.tensor(0)?, a.bool(1)?, true, a.opt_str(2)?)?),
        || {
            vec![
                Sample::new(vec![t(&[2, 3, 3])]),
                any(vec![t(&[4, 3]), n(false)]).no_gradient(),
                Sample::new(vec![t(&[3, 4]), n(false)]),
            ]
        },
    )
    .doc(
        "Return `U`, `S` and `Vh` with `A = U @ diag(S) @ Vh`, for each matrix of `A` `(..., m, n)`, `float32`, \
         `float64` or complex. The singular values `S` `(..., min(m, n))` are real, in descending order. `U` is \
         `(..., m, m)` and `Vh` `(..., n, n)`, or, with `full_matrices=False`, both have `min(m, n)` vectors. A \
         `driver` raises `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .fields(&["U", "S", "Vh"]),
    Row::new(
        "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
        Tier::Composed,
        |a| {
            if a.opt_str(1)?.is_some() {
                svd(a.tensor(0)?, false, false, a.opt_str(1)?)?;
            }
            Ok(svdvals(a.tensor(0)?)?.into())
        },
        || vec![any(vec![t(&[2, 3, 4])])],
    )
    .doc(
        "Return the singular values `(..., min(m, n))` of each matrix of `A` `(..., m, n)`, real and in descending \
         order.",
    )
    .scope(Scope::Nn),
    Row::new(
        "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
        Tier::Composed,
        |a| old_svd(a.tensor(0)?, a.bool(1)?, a.bool(2)?),
        || vec![Sample::new(vec![t(&[4, 3])]), any(vec![t(&[4, 3]), n(true), n(false)]).no_gradient()],
    )
    .doc(
        "Return `U`, `S` and `V` with `input = U @ diag(S) @ V^H`. Unlike `torch.linalg.svd` it returns `V`, not its \
         conjugate transpose, and with `some`, the default, only `min(m, n)` vectors of each. With \
         `compute_uv=False`, `U` and `V` are zeros.",
    )
    .fields(&["U", "S", "V"]),
    Row::new(
        "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) \
        -> Tensor",
        Tier::Composed,
        |a| {
            Ok(pinv("linalg.pinv", a.tensor(0)?, a.opt_tensor(1)?.cloned(), a.opt_tensor(2)?.cloned(), a.bool(3)?)?
                .into())
        },
        || {
            vec![
                any(vec![t(&[2, 3, 4])]),
                any(vec![t(&[4, 3])]),
                any(vec![definite(&[3, 3]), SampleArg::Default, SampleArg::Default, n(true)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the pseudoinverse `(..., n, m)` of each matrix of `input` `(..., m, n)`, `float32`, `float64` or \
         complex. Singular values up to `max(atol, rtol * s)` count as zero, where `s` is the largest one. `atol` is \
         0 unless given. `rtol` is `max(m, n)` times the epsilon of the dtype unless given, or 0 where `atol` is \
         positive. With `hermitian`, the matrices are symmetric or Hermitian, and eigenvalues are used.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> \
        Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(pinv("linalg.pinv", x, number(x, a.opt_float(1)?)?, number(x, a.opt_float(2)?)?, a.bool(3)?)?.into())
        },
        || vec![any(vec![t(&[3, 4]), n(0.1), n(0.0)])],
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(pinv("linalg.pinv", x, number(x, Some(0.0))?, number(x, Some(a.float(1)?))?, a.bool(2)?)?.into())
        },
        || vec![any(vec![t(&[3, 4]), n(1e-4)])],
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(pinv("linalg.pinv", x, number(x, Some(0.0))?, Some(a.tensor(1)?.clone()), a.bool(2)?)?.into())
        },
        || vec![any(vec![t(&[3, 4]), SampleArg::Tensor(vec![], Fill::Unit)]).no_gradient()],
    )
    .scope(Scope::Nn),
    Row::new(
        "pinverse(Tensor self, float rcond=1e-15) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(pinv("linalg.pinv", x, number(x, Some(0.0))?, number(x, Some(a.float(1)?))?, false)?.into())
        },
        || vec![any(vec![t(&[3, 4])])],
    )
    .doc(
        "Return the pseudoinverse of each matrix of `input`. It is `torch.linalg.pinv` with `atol=0` and \
         `rtol=rcond`.",
    )
    .no_out(),
    Row::new(
        "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool \
        hermitian=False) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_rank(a.tensor(0)?, a.opt_tensor(1)?.cloned(), a.opt_tensor(2)?.cloned(), a.bool(3)?)?.into()),
        || vec![any(vec![t(&[2, 3, 4])]).no_gradient()],
    )
    .doc(
        "Return the number of singular values of each matrix of `input` `(..., m, n)` that are larger than `max(atol, \
         rtol * s)`, as `int64`. `s` is the largest one, and the defaults of the tolerances are those of \
         `torch.linalg.pinv`. `tol` is `atol` with `rtol=0`. With `hermitian`, the magnitudes of eigenvalues are \
         counted.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool \
        hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(matrix_rank(x, number(x, a.opt_float(1)?)?, number(x, a.opt_float(2)?)?, a.bool(3)?)?.into())
        },
        || vec![any(vec![t(&[3, 4]), n(1.0)]).no_gradient()],
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(matrix_rank(x, number(x, Some(a.float(1)?))?, number(x, Some(0.0))?, a.bool(2)?)?.into())
        },
        || vec![any(vec![definite(&[3, 3]), n(1.0), n(true)]).no_gradient()],
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(matrix_rank(x, Some(a.tensor(1)?.clone()), number(x, Some(0.0))?, a.bool(2)?)?.into())
        },
        || vec![Sample::new(vec![t(&[3, 4]), SampleArg::Tensor(vec![], Fill::Positive)]).no_gradient()],
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
        Tier::Composed,
        |a| Ok(cond(a.tensor(0)?, a.opt_float(1)?.map(super::products::Order::Number))?.into()),
        || vec![any(vec![t(&[2, 3, 4])]), any(vec![t(&[3, 3]), n(1)])],
    )
    .doc(
        "Return the condition number of each matrix of `input` `(..., m, n)`. For `p` of None or 2 it is the largest \
         singular value divided by the smallest, for -2 the reverse. For `\"fro\"`, `\"nuc\"`, 1, -1, `inf` and \
         `-inf` it is the norm of that order times that of the inverse, for square matrices. A singular matrix gives \
         `inf`, and 0 for -2.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_cond.p_str(Tensor self, str p) -> Tensor",
        Tier::Composed,
        |a| Ok(cond(a.tensor(0)?, Some(super::products::Order::Name(a.str(1)?)))?.into()),
        || vec![any(vec![t(&[3, 3]), SampleArg::Str("fro")])],
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor \
        residuals, Tensor rank, Tensor singular_values)",
        Tier::Composed,
        |a| lstsq(a.tensor(0)?, a.tensor(1)?, a.opt_float(2)?, a.opt_str(3)?),
        || {
            vec![
                any(vec![t(&[4, 3]), t(&[4, 2])]),
                Sample::new(vec![t(&[4, 3]), t(&[4, 2]), SampleArg::Default, SampleArg::Str("gelsd")]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the `solution` `(..., n, k)` with the least `|input @ x - b|`, and of those with the least `|x|`, for \
         `input` `(..., m, n)` and `b` `(..., m, k)` of one dtype. `driver` is `\"gelsy\"` (the default), `\"gels\"`, \
         which takes full rank for granted, `\"gelsd\"` or `\"gelss\"`. Singular values up to `rcond` times the \
         largest count as zero. `residuals` holds the squared errors of each column, if `m > n`, all ranks are full \
         and the driver is not `\"gelsy\"`. `rank` and `singular_values` are empty where the driver has none.",
    )
    .scope(Scope::Nn)
    .fields(&["solution", "residuals", "rank", "singular_values"]),
    Row::new(
        "linalg_matrix_exp(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_exp(a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[2, 3, 3])])],
    )
    .doc(
        "Return the exponential of each matrix of `input` `(..., n, n)`: the sum of `A^k / k!`. It is computed in \
         double precision. `float16` and `bfloat16` are allowed.",
    )
    .scope(Scope::Nn)
    .no_out(),
    Row::new(
        "matrix_exp(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_exp(a.tensor(0)?)?.into()),
        || vec![any(vec![t(&[3, 3])])],
    )
    .doc("Alias of `torch.linalg.matrix_exp`.")
    .no_out(),
    Row::new(
        "linalg_matrix_sqrth(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(matrix_sqrth(a.tensor(0)?)?.into()),
        || vec![any(vec![definite(&[3, 3])]).no_gradient()],
    )
    .doc(
        "Return the square root of each positive semidefinite, symmetric or Hermitian matrix of `input` `(..., n, \
         n)`. It is `V @ diag(sqrt(w)) @ V^H` for eigenvalues `w` and eigenvectors `V`. Negative eigenvalues count as \
         zero. The lower triangle is read.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_polar(Tensor A) -> (Tensor U, Tensor H)",
        Tier::Composed,
        |a| pair_of(polar(a.tensor(0)?)?),
        || vec![any(vec![t(&[4, 3])])],
    )
    .doc(
        "Return `U`, with orthonormal columns, and positive semidefinite `H` `(..., n, n)`, with `A = U @ H`, for \
         each matrix of `A` `(..., m, n)`. Fewer rows than columns raise `RuntimeError`.",
    )
    .scope(Scope::Nn)
    .fields(&["U", "H"]),
    Row::new(
        "linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
        Tier::Composed,
        |a| Ok(tensorinv(a.tensor(0)?, a.int(1)?)?.into()),
        samples!([t(&[2, 2, 4])], [t(&[4, 2, 2]), n(1)]),
    )
    .doc(
        "Return the inverse of `input` as a linear map of tensors: its first `ind` dimensions are the rows of a \
         matrix, the others its columns. The products of both sizes agree. The result has shape `input.shape[ind:] + \
         input.shape[:ind]`. A singular map raises `torch.linalg.LinAlgError`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
        Tier::Composed,
        |a| Ok(tensorsolve(a.tensor(0)?, a.tensor(1)?, a.opt_ints(2)?)?.into()),
        samples!([t(&[2, 2, 4]), t(&[2, 2])], [t(&[4, 2, 2]), t(&[2, 2]), ints(&[0])]),
    )
    .doc(
        "Return `x` with `tensordot(input, x, x.ndim) = other`. The leading dimensions of `input`, as many as `other` \
         has, are the rows of a matrix, the others its columns. Their products agree, and `x` has the shape of the \
         others. `dims` are moved to the end of `input` first.",
    )
    .scope(Scope::Nn),
    Row::new(
        "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
        Tier::Composed,
        |a| {
            Ok(super::products::matrix_norm(
                a.tensor(0)?,
                super::products::Order::Name("nuc"),
                &[-2, -1],
                a.bool(1)?,
                None,
            )?
            .into())
        },
        samples!([t(&[3, 4])]),
    )
    .doc(
        "Return the sum of the singular values of the matrices that the last two dimensions of `input`, or `dim`, \
         hold. It is `torch.linalg.matrix_norm` with `ord=\"nuc\"`.",
    )
    .scope(Scope::Function),
    Row::new(
        "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
        Tier::Composed,
        |a| {
            Ok(super::products::matrix_norm(
                a.tensor(0)?,
                super::products::Order::Name("nuc"),
                a.ints(1)?,
                a.bool(2)?,
                None,
            )?
            .into())
        },
        samples!([t(&[3, 2, 4]), ints(&[0, 2])]),
    )
    .scope(Scope::Function),
];
