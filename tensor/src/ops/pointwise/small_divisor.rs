//! Division of `int64` by a small number, for accelerators.

use super::{broadcast_strides, kernel_error};
use crate::axes::Axes;
use crate::op::{Func, Grads, Op, Saved, Saves, Value, Values};
use crate::{DType, Error, Meta, Result, Scalar, Tensor, backend};
use smallvec::smallvec;
use torchtpu_kernels::pointwise::{self as kernels, BinaryKind};
use torchtpu_stablehlo::{Direction, ElementType};

/// The quotient or the remainder of `x` by a number from 1 to 65,535, rounded down.
///
/// TPUs have no division of 64-bit integers, and compilers make a loop over the bits of it. A divisor of 16 bits needs
/// three divisions of 32-bit integers. The divisor is an operand, and only its size is part of the program.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | any | `int64` |
/// | d | 0-d | `int64` |
/// | y | that of `x` | `int64` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SmallDivisor {
    /// Whether the result is the remainder.
    pub remainder: bool,
}

impl SmallDivisor {
    /// The op for `x` and a number, if it is the better form on the device of `x`.
    #[inline]
    pub(super) fn of(kind: BinaryKind, x: &Tensor, number: Scalar) -> Option<SmallDivisor> {
        let remainder = match kind {
            BinaryKind::Remainder => true,
            BinaryKind::FloorDivide => false,
            _ => return None,
        };
        let fits = x.dtype() == DType::I64 && matches!(number, Scalar::Int(1..=0xffff));
        (fits && !backend::profile(x.place()).has_int64).then_some(SmallDivisor { remainder })
    }
    fn kind(self) -> BinaryKind {
        if self.remainder { BinaryKind::Remainder } else { BinaryKind::FloorDivide }
    }
}

impl Op for SmallDivisor {
    const NAME: &'static str = "small_divisor";
    const DIFFERENTIABLE: u64 = 0;
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    fn label(&self) -> &'static str {
        self.kind().name()
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if x[0].dtype() != DType::I64 || x[1].dtype() != DType::I64 || !x[1].dims().is_empty() {
            return Err(Error::runtime("small_divisor: expected int64 and a number"));
        }
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let dims = x[0].dims();
        let strides = broadcast_strides(x[1], dims);
        let d = x[1].view_as(dims, &strides);
        kernels::binary(self.kind(), &x[0].view(), &d, &mut y[0].view_mut()).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let (x, d, dims) = (&x[0], &x[1], &y[0].dims);
        let splat = |f: &mut Func, n: i64, like: &Value| f.splat_i64(n, like.ty());
        // `x` is `high * 2^32 + low`, and `high` has the sign.
        let by = splat(f, 32, x);
        let high = f.binary("stablehlo.shift_right_arithmetic", x, &by);
        let (high, low) = (f.convert(&high, ElementType::S32), f.convert(x, ElementType::U32));
        let (signed, d) = (f.convert(d, ElementType::S32), f.convert(d, ElementType::U32));
        let (signed, d) = (f.broadcast_to(&signed, dims), f.broadcast_to(&d, dims));
        // The high part, rounded down, so that the rest is not negative.
        let q = f.binary("stablehlo.divide", &high, &signed);
        let product = f.binary("stablehlo.multiply", &q, &signed);
        let rest = f.binary("stablehlo.subtract", &high, &product);
        let (zero, one) = (splat(f, 0, &rest), splat(f, 1, &rest));
        let is_negative = f.compare(Direction::Lt, &rest, &zero);
        let (more, less) = (f.binary("stablehlo.add", &rest, &signed), f.binary("stablehlo.subtract", &q, &one));
        let rest = f.select(&is_negative, &more, &rest);
        let top = f.select(&is_negative, &less, &q);
        // Long division with digits of 16 bits. The rest is below `d`, so 16 more bits fit in 32.
        let rest = f.convert(&rest, ElementType::U32);
        let (half, mask) = (splat(f, 16, &low), splat(f, 0xffff, &low));
        let digits = [f.binary("stablehlo.shift_right_logical", &low, &half), f.binary("stablehlo.and", &low, &mask)];
        let mut rest = rest;
        let mut quotient = splat(f, 0, &low);
        for digit in digits {
            let shifted = f.binary("stablehlo.shift_left", &rest, &half);
            let now = f.binary("stablehlo.or", &shifted, &digit);
            let q = f.binary("stablehlo.divide", &now, &d);
            let product = f.binary("stablehlo.multiply", &q, &d);
            rest = f.binary("stablehlo.subtract", &now, &product);
            let earlier = f.binary("stablehlo.shift_left", &quotient, &half);
            quotient = f.binary("stablehlo.or", &earlier, &q);
        }
        if self.remainder {
            return smallvec![f.convert(&rest, ElementType::S64)];
        }
        let top = f.convert(&top, ElementType::S64);
        let top = f.binary("stablehlo.shift_left", &top, &by);
        let quotient = f.convert(&quotient, ElementType::S64);
        smallvec![f.binary("stablehlo.or", &top, &quotient)]
    }
    fn vjp(&self, _: &Saved<'_>, _: &Tensor) -> Result<Grads> {
        Ok(smallvec![None, None]) // integers
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}
