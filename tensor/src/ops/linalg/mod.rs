//! `torch.linalg`: products and norms, decompositions of matrices, and what is solved with them.
//!
//! Every function takes one matrix or a batch of them: the last two dimensions are rows and columns. Decompositions run
//! on the host, on `tpu` too, where the matrix is fetched for it and the factors are sent back; solving with a triangle
//! is part of the program there. Gradients are products and solutions of their own, recorded as any op.

mod factor;
mod products;
mod rows;
mod solve;

pub use factor::{Cholesky, Eig, Eigh, Geqrf, LdlFactor, LdlSolve, LuFactor, MatrixExp, Permutation, Pinv, Qr, Svd};
pub use products::{ROWS as PRODUCT_ROWS, vector_norm};
pub use rows::ROWS;
pub use solve::{CholeskySolve, Det, Inverse, Slogdet, Solve, SolveTriangular};

use crate::op::{Outs, Prim};
use crate::{DType, Device, Dims, Error, Meta, Result, Tensor, dispatch};
use torchtpu_kernels::memory;

/// Runs `body` with `$t` as the type of the elements.
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

/// Sizes of the batch, then those given.
fn batch_and(x: &Dims, rest: &[usize]) -> Dims {
    let mut dims = x[..x.len() - 2].to_vec();
    dims.extend(rest);
    Dims::new(&dims)
}

/// Number of matrices.
fn count(x: &Dims) -> usize {
    x[..x.len() - 2].iter().product()
}

/// Matrix `i` of those in a slice, each with so many elements.
fn part<T>(of: &[T], i: usize, size: usize) -> &[T] {
    &of[i * size..][..size]
}

/// As [`part`], to be written.
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

/// Runs an op where its kernel is, and brings the results back.
fn on_host(op: Prim, x: &[&Tensor]) -> Result<Outs> {
    let device = x[0].device();
    let host: Vec<Tensor> = x.iter().map(|t| t.detach().to_device(Device::CPU)).collect::<Result<_>>()?;
    let y = dispatch::call_n(op, &host.iter().collect::<Vec<_>>())?;
    y.iter().map(|y| y.to_device(device)).collect()
}

/// Refuses what is not a batch of matrices of a dtype that has decompositions.
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

/// Ones on the diagonals of `n` by `m` elements.
fn identity(n: usize, m: usize, like: &Tensor) -> Result<Tensor> {
    Tensor::eye(n as i64, m as i64, like.dtype(), like.device())
}

/// `x` with its columns multiplied.
fn times_columns(x: &Tensor, by: &Tensor) -> Result<Tensor> {
    x.mul(&by.unsqueeze(-2)?)
}

/// `x` with the diagonals of its matrices replaced.
fn with_diagonal(x: &Tensor, by: &Tensor) -> Result<Tensor> {
    let n = x.dims()[x.dims().len() - 1];
    let on = super::indexing::count_up(n, x.device())?;
    let on = on.unsqueeze(1)?.eq(&on)?;
    super::pointwise::select(&on, &by.unsqueeze(-1)?.to_dtype(x.dtype())?, x)
}

/// A tensor broadcast to the batch of another.
fn expand_batch(x: &Tensor, batch: &[usize]) -> Result<Tensor> {
    let mut dims = batch.to_vec();
    dims.extend(&x.dims()[x.dims().len() - 2..]);
    x.expand_dims(&Dims::new(&dims))
}

/// The batch number of the first failure and its code, as the head of a message.
fn failure(info: &Tensor) -> Result<Option<(String, i64)>> {
    let info_on_host = info.detach().to_device(Device::CPU)?;
    let codes = elements::<i32>(&info_on_host);
    Ok(codes.iter().position(|&c| c != 0).map(|i| {
        let head = if info.dims().is_empty() { String::new() } else { format!("(Batch element {i}): ") };
        (head, codes[i].into())
    }))
}
