//! Powers with exponents that need no logarithm.

use super::{broadcast_strides, kernel_error, lower_unary, select_scalar};
use crate::axes::Axes;
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::schema::Operand;
use crate::types::compute::{narrowed, widened};
use crate::{DType, Error, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::pointwise::{self as kernels, BinaryKind, UnaryKind};
use torchtpu_stablehlo::{Direction, ElementType};

/// `y = x^p` for each element, for an exponent `p` that is part of the program.
///
/// Other exponents are operands of [`Binary`](crate::ops::pointwise::Binary), so that a changing exponent compiles
/// nothing. A compiler does not see the number then, and has to compute a logarithm.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | any | floating point, or an integer if `p` is 0, 1, 2 or 3 |
/// | y | that of `x` | that of `x` |
///
/// 16-bit floats are computed in `float32` and rounded once. The root of negative infinity is NaN, as in PyTorch,
/// except in `float16`, where the root is the general power: infinite there, and without the sign of zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Power {
    /// Twice the exponent.
    halves: i8,
}

/// The exponents that PyTorch computes without a logarithm, doubled.
const PUBLIC: [i8; 8] = [-4, -2, -1, 0, 1, 2, 4, 6];
/// Those that their gradients need beside them.
const OF_GRADIENTS: [i8; 2] = [-6, -3];

impl Power {
    /// The op for the exponent `p` and operands of a dtype, if there is one.
    fn new(p: f64, dtype: DType, known: &[i8]) -> Option<Power> {
        let halves = 2.0 * p;
        if halves.abs() > 6.0 || halves.fract() != 0.0 || dtype.is_complex() || dtype == DType::Bool {
            return None;
        }
        let halves = halves as i8;
        let holds = known.contains(&halves) && (dtype.is_float() || (halves >= 0 && halves % 2 == 0));
        holds.then_some(Power { halves })
    }
    /// The op for an exponent that is a number at hand.
    #[inline]
    pub(super) fn by(exponent: Operand<'_>, dtype: DType) -> Option<Power> {
        let p = match exponent {
            Operand::Scalar(s) if !s.is_complex() => s.to_f64(),
            Operand::Tensor(t) if t.is_wrapped_number() && !t.dtype().is_complex() => {
                Scalar::from_bits(t.scalar_bits()?, t.dtype()).to_f64()
            }
            _ => return None,
        };
        Power::new(p, dtype, &PUBLIC)
    }
    pub(crate) fn exponent(self) -> f64 {
        f64::from(self.halves) / 2.0
    }
}

/// `x^p` of a floating-point tensor, within the gradient of a power.
fn lower_power(x: &Tensor, p: f64) -> Result<Tensor> {
    let known = [&PUBLIC[..], &OF_GRADIENTS].concat();
    match Power::new(p, x.dtype(), &known) {
        Some(Power { halves: 2 }) => Ok(x.clone()),
        Some(op) => dispatch::call(Prim::Power(op), &[x]),
        None => x.pow_scalar(p),
    }
}

/// `x` for a root that is to give what a power gives: `inf` at negative infinity, and no sign of zero.
fn rooted(x: &Tensor) -> Result<Tensor> {
    let x = select_scalar(&x.eq_scalar(0.0)?, 0.0, x)?;
    select_scalar(&x.eq_scalar(f64::NEG_INFINITY)?, f64::INFINITY, &x)
}

/// `x * x`, within a kernel.
fn square(x: &Tensor) -> Result<Tensor> {
    let y = Tensor::empty(x.meta())?;
    kernels::unary(UnaryKind::Square, &x.view(), &mut y.view_mut()).map_err(kernel_error)?;
    Ok(y)
}

impl Power {
    /// Write the powers by the general kernel, which widens 16-bit floats.
    fn general(self, x: &Tensor, y: &Tensor) -> Result<()> {
        let p =
            if x.dtype().is_int() { Scalar::Int(i64::from(self.halves / 2)) } else { Scalar::Float(self.exponent()) };
        let (p, dims) = (Tensor::number(p, x.dtype())?, x.dims());
        let strides = broadcast_strides(&p, dims);
        let p = p.view_as(dims, &strides);
        kernels::binary(BinaryKind::Pow, &x.view(), &p, &mut y.view_mut()).map_err(kernel_error)
    }
}

impl Op for Power {
    const NAME: &'static str = "pow";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    #[inline]
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let m = *x[0].meta();
        if Power::new(self.exponent(), m.dtype, &[self.halves]).is_none() {
            return Err(Error::not_implemented(format!("\"pow\" not implemented for '{}'", m.dtype.scalar_type())));
        }
        Ok(m)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(if self.halves == 2 { &[0b1] } else { &[] })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let x = x[0];
        let of = |kind, x: &Tensor| kernels::unary(kind, &x.view(), &mut y[0].view_mut()).map_err(kernel_error);
        let is_single = matches!(x.dtype(), DType::F32 | DType::F64) || x.dtype().is_int();
        match self.halves {
            -1 | 1 if x.dtype() == DType::F16 => self.general(x, &y[0]),
            -2 => of(UnaryKind::Reciprocal, x),
            -1 => of(UnaryKind::Rsqrt, x),
            1 => of(UnaryKind::Sqrt, x),
            4 => of(UnaryKind::Square, x),
            -4 if is_single => of(UnaryKind::Reciprocal, &square(x)?),
            6 if is_single => {
                let square = square(x)?;
                kernels::binary(BinaryKind::Mul, &square.view(), &x.view(), &mut y[0].view_mut()).map_err(kernel_error)
            }
            // The general kernel is exact here.
            _ => self.general(x, &y[0]),
        }
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let narrow = x[0].element();
        let wide = if narrow.is_half() { ElementType::F32 } else { narrow };
        let mut x = f.convert(&x[0], wide);
        if narrow == ElementType::F16 && self.halves % 2 != 0 {
            // As `rooted`.
            let [zero, inf, below] = [0.0, f64::INFINITY, f64::NEG_INFINITY].map(|v| f.splat(v, x.ty()));
            let (at_zero, infinite) = (f.compare(Direction::Eq, &x, &zero), f.compare(Direction::Eq, &x, &below));
            x = f.select(&at_zero, &zero, &x);
            x = f.select(&infinite, &inf, &x);
        }
        let x = &x;
        let square = |f: &mut Func| f.binary("stablehlo.multiply", x, x);
        let cube = |f: &mut Func| {
            let y = square(f);
            f.binary("stablehlo.multiply", &y, x)
        };
        let y = match self.halves {
            0 if wide.is_integer() => f.splat_i64(1, x.ty()),
            0 => f.splat(1.0, x.ty()),
            1 => lower_unary(UnaryKind::Sqrt, f, x),
            2 => x.clone(),
            4 => square(f),
            6 => cube(f),
            -1 => lower_unary(UnaryKind::Rsqrt, f, x),
            -2 => lower_unary(UnaryKind::Reciprocal, f, x),
            -3 => {
                let y = lower_unary(UnaryKind::Rsqrt, f, x);
                f.binary("stablehlo.divide", &y, x)
            }
            -4 => {
                let y = square(f);
                lower_unary(UnaryKind::Reciprocal, f, &y)
            }
            -6 => {
                let y = cube(f);
                lower_unary(UnaryKind::Reciprocal, f, &y)
            }
            other => unreachable!("no op has the exponent {other} / 2"),
        };
        smallvec![f.convert(&y, narrow)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let p = self.exponent();
        let gx = match self.halves {
            // x^0 is constant, also at x = 0.
            0 => Tensor::zeros_like_meta(g.meta())?,
            2 => g.clone(),
            _ => {
                // 16-bit floats are rounded once, at the end.
                let x = widened(s.x(0))?;
                let x = if s.meta(0).dtype == DType::F16 && self.halves % 2 != 0 { rooted(&x)? } else { x };
                let slope = lower_power(&x, p - 1.0)?.mul_scalar(p)?;
                narrowed(widened(g)?.mul(&slope)?, g.dtype())?
            }
        };
        Ok(smallvec![Some(gx)])
    }
    fn saves(&self, _: u64) -> Saves {
        if matches!(self.halves, 0 | 2) { Saves::NONE } else { Saves::inputs(1) }
    }
}
