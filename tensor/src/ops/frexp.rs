//! `frexp`: a number as a fraction and a power of two.

use super::pointwise::kernel_error;
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::schema::{Row, Sample, Tier, t};
use crate::{DType, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_stablehlo::{Direction, ElementType};

/// `x = mantissa * 2^exponent` with a mantissa of size 1/2 up to 1; zero, infinities and NaN have exponent 0.
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
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        torchtpu_kernels::pointwise::frexp(&x[0].view(), &mut y[0].view_mut(), &mut y[1].view_mut())
            .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let narrow = x[0].element();
        let double = narrow == ElementType::F64;
        let x = f.convert(&x[0], if double { narrow } else { ElementType::F32 });
        let (int, shift, bias, least) = if double {
            (ElementType::S64, 52, 1022, f64::MIN_POSITIVE)
        } else {
            (ElementType::S32, 23, 126, f64::from(f32::MIN_POSITIVE))
        };
        let field = ((if double { 0x7ff } else { 0xff }) as i64) << shift;
        // Numbers below the normal ones are made normal first.
        const UP: i32 = 64;
        let size = f.unary("stablehlo.abs", &x);
        let (low, zero) = (f.splat(least, x.ty()), f.splat(0.0, x.ty()));
        let tiny = f.compare(Direction::Lt, &size, &low);
        let factor = f.splat(2f64.powi(UP), x.ty());
        let raised = f.binary("stablehlo.multiply", &x, &factor);
        let normal = f.select(&tiny, &raised, &x);
        let bits = f.bitcast_convert(&normal, int);
        let number = |f: &mut Func, v: i64| f.splat_i64(v, bits.ty());
        let (mask, by, base, up, none) =
            (number(f, field), number(f, shift), number(f, bias), number(f, UP.into()), number(f, 0));
        let e = f.binary("stablehlo.and", &bits, &mask);
        let e = f.binary("stablehlo.shift_right_logical", &e, &by);
        let e = f.binary("stablehlo.subtract", &e, &base);
        let less = f.select(&tiny, &up, &none);
        let e = f.binary("stablehlo.subtract", &e, &less);
        let (rest, half) = (number(f, !field), number(f, bias << shift));
        let m = f.binary("stablehlo.and", &bits, &rest);
        let m = f.binary("stablehlo.or", &m, &half);
        let m = f.bitcast_convert(&m, x.element());
        let finite = f.is_finite(&x);
        let nonzero = f.compare(Direction::Ne, &x, &zero);
        let plain = f.binary("stablehlo.and", &finite, &nonzero);
        let (m, e) = (f.select(&plain, &m, &x), f.select(&plain, &e, &none));
        smallvec![f.convert(&m, narrow), f.convert(&e, ElementType::S32)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let power = s.y(1).neg()?.to_dtype(g.dtype())?.exp2()?;
        Ok(smallvec![Some(g.mul(&power)?)])
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
.fields(&["mantissa", "exponent"])];
