//! `torch.linalg`: products and norms, decompositions of matrices, and functions that solve with them.
//!
//! Every function accepts one matrix or a batch: the last two dimensions are rows and columns. Decompositions run on
//! the host. On `tpu`, the matrix is fetched and the factors are sent back, but solving with a triangle is part of the
//! program. Gradients are products and solutions, recorded like other ops.

pub(super) mod cholesky;
pub(super) mod cond;
pub(super) mod determinant;
pub(super) mod eig;
pub(super) mod eigh;
pub(super) mod inverse;
pub(super) mod ldl;
pub(super) mod lstsq;
pub(super) mod lu;
pub(super) mod matrix_exp;
pub(super) mod norm;
pub(super) mod pinv;
pub(super) mod polar;
pub(super) mod products;
pub(super) mod qr;
pub(super) mod rank;
pub(super) mod solve;
pub(super) mod sqrth;
pub(super) mod svd;
pub(super) mod tensor;
pub(super) mod triangular;

pub use cholesky::{Cholesky, CholeskySolve};
pub use determinant::{Det, Slogdet};
pub use eig::Eig;
pub use eigh::Eigh;
pub use inverse::Inverse;
pub use ldl::{LdlFactor, LdlSolve};
pub use lu::{LuFactor, Permutation};
pub use matrix_exp::MatrixExp;
pub use norm::vector_norm;
pub use pinv::Pinv;
pub use qr::{Geqrf, Qr};
pub use solve::Solve;
pub use svd::Svd;
pub use triangular::SolveTriangular;

use crate::op::{Outs, Prim, Saved, broadcast_dims};
use crate::schema::{Fill, Ret, Sample, SampleArg};
use crate::{DType, Device, Dims, Error, Meta, Result, Scalar, Tensor, dispatch};
use torchtpu_kernels::memory;

/// Run `body` with `$t` as the type of the elements.
macro_rules! with_number {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            crate::DType::F32 => {
                type $t = f32;
                $body
            }
            crate::DType::F64 => {
                type $t = f64;
                $body
            }
            crate::DType::C64 => {
                type $t = torchtpu_kernels::c64;
                $body
            }
            _ => {
                type $t = torchtpu_kernels::c128;
                $body
            }
        }
    };
}
use with_number;

/// Rows and columns of the matrices.
fn matrix_size(x: &Meta) -> (usize, usize) {
    let r = x.dims.len();
    (x.dims[r - 2], x.dims[r - 1])
}

/// Sizes of the batch, then the given ones.
fn batch_and(x: &Dims, rest: &[usize]) -> Dims {
    let mut dims = x[..x.len() - 2].to_vec();
    dims.extend(rest);
    Dims::new(&dims)
}

/// Number of matrices.
fn count(x: &Dims) -> usize {
    x[..x.len() - 2].iter().product()
}

/// Matrix `i` in a slice of matrices with `size` elements.
fn part<T>(of: &[T], i: usize, size: usize) -> &[T] {
    &of[i * size..][..size]
}

/// [`part`] for writing.
fn part_mut<T>(of: &mut [T], i: usize, size: usize) -> &mut [T] {
    &mut of[i * size..][..size]
}

fn elements<T: torchtpu_kernels::Element>(x: &Tensor) -> Vec<T> {
    let x = x.contiguous().expect("a copy on the host");
    memory::copied(x.view().as_slice::<T>().expect("contiguous"))
}

fn write<T: torchtpu_kernels::Element>(y: &Tensor, from: &[T]) {
    y.view_mut().as_slice_mut::<T>().expect("contiguous").copy_from_slice(from);
}

/// A matrix on the host. Matrices of a planned device are identities, which every decomposition accepts.
fn fetched(x: &Tensor) -> Result<Tensor> {
    let (host, planned) = crate::backend::fetch(x)?;
    if planned.is_none() || !x.dtype().is_inexact() || x.dims().len() < 2 {
        return Ok(host);
    }
    let [.., rows, columns] = x.dims()[..] else { return Ok(host) };
    identity(rows, columns, &host)?.expand_dims(host.dims())?.contiguous()
}

/// Run an op on the host, and bring the results back.
fn on_host(op: Prim, x: &[&Tensor]) -> Result<Outs> {
    let place = x[0].place();
    let host: Vec<Tensor> = x.iter().map(|t| fetched(t)).collect::<Result<_>>()?;
    let y = dispatch::call_n(op, &host.iter().collect::<Vec<_>>())?;
    y.iter().map(|y| y.to_device(place)).collect()
}

/// Refuse tensors that are not batches of matrices.
fn expect_matrices(name: &str, x: &Tensor, argument: &str) -> Result<()> {
    if x.dims().len() < 2 {
        return Err(Error::runtime(format!("{name}: The input tensor {argument} must have at least 2 dimensions.")));
    }
    Ok(())
}

fn expect_square(name: &str, x: &Tensor, argument: &str) -> Result<()> {
    expect_matrices(name, x, argument)?;
    let (rows, columns) = matrix_size(x.meta());
    if rows != columns {
        return Err(Error::runtime(format!(
            "{name}: {argument} must be batches of square matrices, but they are {rows} by {columns} matrices"
        )));
    }
    Ok(())
}

fn expect_inexact(name: &str, x: &Tensor) -> Result<()> {
    match x.dtype() {
        DType::F16 | DType::BF16 => Err(Error::not_implemented(format!(
            "{name}: Low precision dtypes not supported. Got {}",
            x.dtype().scalar_type()
        ))),
        d if d.is_inexact() => Ok(()),
        d => Err(Error::not_implemented(format!(
            "{name}: Expected a floating point or complex tensor as input. Got {}",
            d.scalar_type()
        ))),
    }
}

/// The conjugate transpose of each matrix.
fn adjoint(x: &Tensor) -> Result<Tensor> {
    x.transpose(-2, -1)?.conj()
}

/// An `n` by `m` matrix with ones on its diagonal.
fn identity(n: usize, m: usize, like: &Tensor) -> Result<Tensor> {
    Tensor::eye(n as i64, m as i64, like.dtype(), like.place())
}

/// `x` with its columns multiplied by `by`.
fn times_columns(x: &Tensor, by: &Tensor) -> Result<Tensor> {
    x.mul(&by.unsqueeze(-2)?)
}

/// `x` with the diagonals of its matrices replaced.
fn with_diagonal(x: &Tensor, by: &Tensor) -> Result<Tensor> {
    let n = x.dims()[x.dims().len() - 1];
    let on = super::indexing::count_up(n, x.place())?;
    let on = on.unsqueeze(1)?.eq(&on)?;
    super::pointwise::select(&on, &by.unsqueeze(-1)?.to_dtype(x.dtype())?, x)
}

/// A tensor broadcast to the batch of another.
fn expand_batch(x: &Tensor, batch: &[usize]) -> Result<Tensor> {
    let mut dims = batch.to_vec();
    dims.extend(&x.dims()[x.dims().len() - 2..]);
    x.expand_dims(&Dims::new(&dims))
}

/// The head of an error message for the first failure, with its batch number, and its code.
fn failure(info: &Tensor) -> Result<Option<(String, i64)>> {
    let info_on_host = info.detach().to_device(Device::CPU)?;
    let codes = elements::<i32>(&info_on_host);
    Ok(codes.iter().position(|&c| c != 0).map(|i| {
        let head = if info.dims().is_empty() { String::new() } else { format!("(Batch element {i}): ") };
        (head, codes[i].into())
    }))
}

type Pair = (Tensor, Tensor);

fn two(mut y: Outs) -> Pair {
    let second = y.swap_remove(1);
    (y.swap_remove(0), second)
}

fn tuple(y: impl IntoIterator<Item = Tensor>) -> Result<Ret> {
    Ok(Ret::Tuple(y.into_iter().collect()))
}

fn pair_of(y: Pair) -> Result<Ret> {
    tuple([y.0, y.1])
}

fn expect_square_inexact(name: &str, x: &Tensor) -> Result<()> {
    expect_square(name, x, "A")?;
    expect_inexact(name, x)
}

fn expect_float(name: &str, x: &Tensor) -> Result<()> {
    if x.dtype().is_inexact() {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type()
    )))
}

/// Raise an error if a code reports a failure. A meta tensor has no codes, and those of a foreign one belong to its
/// class.
fn check(info: &Tensor, error: impl FnOnce(String, i64) -> Error) -> Result<()> {
    if info.place().is_abstract() || crate::foreign::is_foreign(info) {
        return Ok(());
    }
    match failure(info)? {
        None => Ok(()),
        Some((head, code)) => Err(error(head, code)),
    }
}

/// Both tensors, expanded to their broadcast batch.
fn same_batch(a: &Tensor, b: &Tensor) -> Result<Pair> {
    let batch = |x: &Tensor| Dims::new(&x.dims()[..x.dims().len() - 2]);
    let both = broadcast_dims(&batch(a), &batch(b))?;
    Ok((expand_batch(a, &both)?, expand_batch(b, &both)?))
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

fn batch_codes(x: &[&Tensor], first: &Meta) -> Meta {
    first.with_dims(batch_and(x[0].dims(), &[])).with_dtype(DType::I32)
}

/// The gradient of output `i`; zeros if none has reached it.
fn gradient(s: &Saved<'_>, i: usize) -> Result<Tensor> {
    s.g(i).map_or_else(|| Tensor::zeros_like_meta(s.out(i)), |g| Ok(g.clone()))
}

fn no_gradient(name: &str) -> Error {
    Error::not_implemented(format!("the derivative for '{name}' is not implemented."))
}

/// `x + x^H`.
fn with_adjoint(x: &Tensor) -> Result<Tensor> {
    x.add(&adjoint(x)?)
}

/// `x` divided by the differences `b[j] - a[i]` of values, zero on the diagonal.
fn over_differences(x: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let differences = b.unsqueeze(-2)?.sub(&a.unsqueeze(-1)?)?;
    let ones = Tensor::full_meta(&a.meta().with_dims(*a.dims()), Scalar::Int(1))?;
    let quotient = x.div(&with_diagonal(&differences, &ones)?)?;
    with_diagonal(&quotient, &Tensor::zeros_like_meta(a.meta())?)
}

/// Refuse a loss that depends on the phase of vectors, which is arbitrary. The diagonal of `V^H gV` must be real.
fn expect_no_phase(name: &str, what: &str, diagonal: &Tensor) -> Result<()> {
    if !diagonal.dtype().is_complex() || diagonal.place().is_abstract() {
        return Ok(());
    }
    let is_real = crate::no_grad(|| {
        let (im, size) = (diagonal.imag()?.abs()?, diagonal.abs()?);
        let over = im.gt(&size.mul_scalar(1e-2)?.add_scalar(1e-2)?)?;
        Ok(over.to_dtype(DType::I64)?.sum()?.item()?.to_i64() == 0)
    })?;
    if is_real {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}: The {what} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss \
        function depends on this quantity, so it is ill-defined."
    )))
}

/// The error for iterations that do not converge.
fn not_converged(name: &str, batched: bool, i: usize, why: &str) -> Error {
    let head = if batched { format!("(Batch element {i}): ") } else { String::new() };
    Error::linalg(format!("{name}: {head}The algorithm failed to converge because {why}"))
}

fn wants_gradient(x: &Tensor) -> bool {
    crate::state::grad_enabled() && x.requires_grad()
}

fn definite(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Definite)
}

/// A sample for each dtype with decompositions.
fn any(args: Vec<SampleArg>) -> Sample {
    Sample::new(args).dtypes(&[DType::F64, DType::C64, DType::C128])
}

const EIGEN: &[&str] = &["eigenvalues", "eigenvectors"];
