//! The dtypes that ops accept and compute in, and their names in messages.

use crate::{DType, Error, Result, Tensor};
pub(crate) use torchtpu_kernels::compute_dtype;

/// `x` in the dtype in which arithmetic on it is done: 16-bit floats widen to `f32`.
pub(crate) fn widened(x: &Tensor) -> Result<Tensor> {
    let d = compute_dtype(x.dtype());
    if d == x.dtype() { Ok(x.clone()) } else { x.to_dtype(d) }
}

/// `y` in a given dtype.
pub(crate) fn narrowed(y: Tensor, d: DType) -> Result<Tensor> {
    if y.dtype() == d { Ok(y) } else { y.to_dtype(d) }
}

/// The error of ops that do not support complex numbers, with PyTorch's name of the kernel.
pub(crate) fn unsupported(name: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{name}\" not implemented for '{}'", dtype.scalar_type()))
}

/// Refuse an input that is not floating point.
pub(crate) fn expect_float(name: &str, x: &Tensor) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    Err(unsupported(name, x.dtype()))
}
