//! `frexp`: split a number into a fraction and a power of two.

use crate::axes::Axes;
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::ops::pointwise::kernel_error;
use crate::schema::{Row, Sample, Tier, t};
use crate::{DType, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_stablehlo::{Direction, ElementType};

/// `x = mantissa * 2^exponent`, where the mantissa's magnitude is from 1/2 up to 1. Zero, infinities and NaN have
/// exponent 0.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | any | floating point (C1) |
/// | mantissa | that of `x` | that of `x` |
/// | exponent | that of `x` | `int32` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Frexp;

impl Op for Frexp {
    const NAME: &'static str = "frexp";
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if !x[0].dtype().is_float() {
            return Err(Error::runtime("torch.frexp() only supports floating-point dtypes")); // C1
        }
        Ok(*x[0].meta())
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dtype(DType::I32)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        torchtpu_kernels::pointwise::frexp(&x[0].view(), &mut y[0].view_mut(), &mut y[1].view_mut())
            .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let narrow = x[0].element();
        let double = narrow == ElementType::F64;
        let x = f.convert(&x[0], if double { narrow } else { ElementType::F32 });
        let (int, shift, bias, field, sign, least): (_, i64, i64, i64, i64, i64) = if double {
            (ElementType::S64, 52, 1022, 0x7ff << 52, i64::MIN, 1074)
        } else {
            (ElementType::S32, 23, 126, 0xff << 23, i32::MIN.into(), 149)
        };
        // Work on the bits, since arithmetic may flush subnormal numbers to zero. A subnormal number is a multiple of
        // the smallest one; as a whole number it is normal.
        let bits = f.bitcast_convert(&x, int);
        let ty = bits.ty().clone();
        let and = |f: &mut Func, v: &Value, mask: i64| {
            let mask = f.splat_i64(mask, &ty);
            f.binary("stablehlo.and", v, &mask)
        };
        let zero = f.splat_i64(0, &ty);
        let (power, minus) = (and(f, &bits, field), and(f, &bits, sign));
        let size = and(f, &bits, !sign);
        let tiny = f.compare(Direction::Eq, &power, &zero);
        let whole = f.convert(&size, x.element());
        let whole = f.bitcast_convert(&whole, int);
        let normal = f.select(&tiny, &whole, &size);
        let (by, base, less) = (f.splat_i64(shift, &ty), f.splat_i64(bias, &ty), f.splat_i64(least, &ty));
        let e = and(f, &normal, field);
        let e = f.binary("stablehlo.shift_right_logical", &e, &by);
        let e = f.binary("stablehlo.subtract", &e, &base);
        let less = f.select(&tiny, &less, &zero);
        let e = f.binary("stablehlo.subtract", &e, &less);
        let half = f.splat_i64(bias << shift, &ty);
        let m = and(f, &normal, !field);
        let m = f.binary("stablehlo.or", &m, &half);
        let m = f.binary("stablehlo.or", &m, &minus);
        let m = f.bitcast_convert(&m, x.element());
        let all = f.splat_i64(field, &ty);
        let infinite = f.compare(Direction::Eq, &power, &all);
        let nothing = f.compare(Direction::Eq, &size, &zero);
        let odd = f.binary("stablehlo.or", &infinite, &nothing);
        let (m, e) = (f.select(&odd, &x, &m), f.select(&odd, &zero, &e));
        smallvec![f.convert(&m, narrow), f.convert(&e, ElementType::S32)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let power = s.y(1).to_dtype(g.dtype())?.exp2()?;
        Ok(smallvec![Some(g.div(&power)?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b10)
    }
}

/// The row of `frexp`.
pub const ROWS: &[Row] = &[Row::new(
    "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    Tier::Prim,
    |a| {
        let mut y = dispatch::call_n(Prim::Frexp(Frexp), &[a.tensor(0)?])?;
        let (exponent, mantissa) = (y.pop().expect("two outputs"), y.pop().expect("two outputs"));
        Ok((mantissa, exponent).into())
    },
    || vec![Sample::new(vec![t(&[2, 3])]).dtypes(&[DType::F64, DType::BF16, DType::F16])],
)
.doc(
    "Return `(mantissa, exponent)` with `input = mantissa * 2^exponent` and `1/2 <= |mantissa| < 1`. `mantissa` has \
     the dtype of `input`, `exponent` is `int32`. Zero, infinities and NaN stay as they are, with exponent 0. Only \
     floating-point dtypes are allowed.",
)
.fields(&["mantissa", "exponent"])];
