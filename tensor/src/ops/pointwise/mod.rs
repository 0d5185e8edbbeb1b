//! Element-wise ops: `Unary{kind}`, `Binary{kind}`, `Compare{kind}`, `Select`.
//!
//! Each is one op with a kind, since shape rule, kernel loop and lowering are shared. Operands broadcast inside the op.
//! They have the same dtype, because the functions of `arithmetic` promote first (and promotion is a recorded `Cast`).
//! Only a number in a product or quotient with 16-bit floats stays wider.

mod arithmetic;
mod binary;
pub mod clip;
mod close;
mod compare;
mod frexp;
pub mod lerp;
mod power;
mod promotion;
mod select;
mod small_divisor;
pub mod special;
mod special_binary;
mod unary;

pub use arithmetic::{ARITHMETIC_ROWS, arith, arith_, binary, check_subtraction};
pub use binary::{BINARY_ROWS, Binary};
pub use clip::ROWS as CLIP_ROWS;
pub use close::{ROWS as CLOSE_ROWS, Tolerance};
pub use compare::{COMPARE_ROWS, Compare, compare};
pub use frexp::{Frexp, ROWS as FREXP_ROWS};
pub use lerp::ROWS as LERP_ROWS;
pub use power::Power;
pub(crate) use promotion::as_tensor;
pub use promotion::{result_type, result_type_of};
pub(crate) use select::safe_sqrt;
pub use select::{SELECT_ROWS, Select, independent_of, select, select_scalar, where_};
pub use small_divisor::SmallDivisor;
pub use special::ROWS as SPECIAL_ROWS;
pub use special_binary::SPECIAL_BINARY_ROWS;
pub use torchtpu_kernels::pointwise::{BinaryKind, CompareKind, UnaryKind};
use unary::lower_unary;
pub use unary::{ROUND_ROWS, SPECIAL_I0_ROWS, SPECIAL_UNARY_ROWS, UNARY_ALIAS_ROWS, UNARY_ROWS, Unary, unary, unary_};

use crate::{Dims, Error, Tensor};

/// Convert a kernel's error to an [`Error`].
pub(crate) fn kernel_error(e: torchtpu_kernels::KernelError) -> Error {
    Error::of_kernel(e)
}

/// Strides that make `x` look as if it had the sizes `out`.
#[inline]
pub(crate) fn broadcast_strides(x: &Tensor, out: &Dims) -> Dims {
    let (d, s) = (x.dims(), x.strides());
    let mut r = Dims::filled(0, out.len());
    let shift = out.len() - d.len();
    r.edit(|r| {
        for i in 0..d.len() {
            if d[i] == out[shift + i] {
                r[shift + i] = s[i];
            }
        }
    });
    r
}
