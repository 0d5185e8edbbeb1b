//! `Unary{kind}`: functions of one operand.

use super::arithmetic::{arith, binary};
use super::kernel_error;
use super::select::select_scalar;
use crate::axes::Axes;
use crate::lower::analytic;
use crate::lower::kernel_call::KernelCall;
use crate::lower::math::{self, Trig};
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::policy::{Policies, Policy};
use crate::schema::{Operand, OutDType, Ret, Row, Tier, index, messages, n, positive, t, unit};
use crate::{DType, Error, ErrorKind, Meta, Result, Scalar, Tensor, default_dtype, dispatch, inplace, samples};
use smallvec::smallvec;
use torchtpu_kernels::pointwise::{BinaryKind, UnaryKind};
use torchtpu_kernels::{pointwise as kernels, special};
use torchtpu_stablehlo::{Direction, ElementType};

/// `y = f(x)` for each element. Predicates give `bool`; everything else keeps the dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unary(pub UnaryKind);

fn is_predicate(k: UnaryKind) -> bool {
    k.is_predicate()
}

/// Refuse complex numbers where PyTorch does, in its words.
#[cold]
fn check_complex(k: UnaryKind, d: DType) -> Result<()> {
    use UnaryKind::*;
    let said = |m: &str| Err(Error::not_implemented(m));
    let name = match k {
        Sign => {
            return said(
                "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.",
            );
        }
        Floor => return said("floor is not supported for complex inputs"),
        Ceil => return said("ceil is not supported for complex inputs"),
        Trunc => return said("trunc is not supported for complex inputs"),
        Relu => return said("clamp is not supported for complex types"),
        Erf | Erfc | Erfinv | Lgamma | Round => format!("{}_vml_cpu", k.name()),
        Digamma => "digamma".into(),
        I0 => "i0_vml_cpu".into(),
        k if is_special(k) => format!("{}_cpu", k.name()),
        Frac | BitwiseNot => format!("{}_cpu", k.name()),
        _ => return Ok(()),
    };
    Err(crate::ops::complex::unsupported(&name, d))
}

/// Kinds that keep integers as they are.
fn keeps_integers(k: UnaryKind) -> bool {
    use UnaryKind::*;
    matches!(k, Neg | Abs | Sign | Square | Floor | Ceil | Round | Trunc | Relu | BitwiseNot) || is_predicate(k)
}

impl Op for Unary {
    const NAME: &'static str = "unary";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    fn label(&self) -> &'static str {
        self.0.name()
    }
    #[inline]
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let m = x[0].meta();
        if m.dtype.is_complex() {
            check_complex(self.0, m.dtype)?;
            return Ok(m.with_dtype(self.0.result(m.dtype)));
        }
        if is_predicate(self.0) {
            return Ok(m.with_dtype(DType::Bool));
        }
        match (self.0, m.dtype) {
            (UnaryKind::Abs, DType::Bool) => Err(crate::ops::complex::unsupported("abs_cpu", m.dtype)),
            (UnaryKind::Neg, DType::Bool) => Err(Error::not_implemented(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, \
                use the `~` or `logical_not()` operator instead.",
            )),
            (UnaryKind::BitwiseNot, d) if d.is_float() => {
                Err(Error::not_implemented(format!("\"bitwise_not_cpu\" not implemented for '{}'", d.scalar_type())))
            }
            _ => Ok(*m),
        }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // Conjugates are linear over the real numbers.
        let is_linear = matches!(self.0, UnaryKind::Neg | UnaryKind::Conj);
        Axes::elementwise(x, y).linear(if is_linear { &[0b1] } else { &[] })
    }
    fn takes_complex(&self) -> bool {
        true
    }
    #[inline]
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::unary(self.0, &x[0].view(), &mut y[0].view_mut()).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        if math::is_called(self.0, f, &x[0]) {
            return KernelCall::Angle(self.0).lower(f, x, y);
        }
        smallvec![lower_unary(self.0, f, &x[0], y[0].dtype)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![unary_vjp(self.0, s, g)?])
    }
    fn saves(&self, _needs: u64) -> Saves {
        use UnaryKind::*;
        match self.0 {
            Exp | Exp2 | Expm1 | Sqrt | Rsqrt | Reciprocal | Tanh | Sigmoid | Relu | Tan | Erfinv | Ndtri => {
                Saves::outputs(1)
            }
            I0e | I1 | I1e | ModifiedBesselI1 | BesselJ1 | BesselY1 | ModifiedBesselK1 | Erfcx => Saves::both(1, 1),
            Neg | Sign | Floor | Ceil | Round | Trunc | Frac | LogicalNot | BitwiseNot | IsNan | IsInf | IsFinite
            | Conj => Saves::NONE,
            _ => Saves::inputs(1),
        }
    }
}

pub(super) fn lower_unary(kind: UnaryKind, f: &mut Func, x: &Value, out: DType) -> Value {
    use UnaryKind::*;
    let e = x.element();
    let half = matches!(e, ElementType::F16 | ElementType::BF16);
    if let Some(y) = math::unary(kind, f, x) {
        return y;
    }
    let name = match kind {
        Neg => "stablehlo.negate",
        Abs if e == ElementType::Pred || e.is_unsigned() => return x.clone(),
        Abs => "stablehlo.abs",
        Sign if e == ElementType::Pred => return x.clone(),
        Sign if e.is_unsigned() => {
            let zero = f.splat_i64(0, x.ty());
            let positive = f.compare(Direction::Ne, x, &zero);
            return f.convert(&positive, e);
        }
        Sign if e.is_float() => {
            // That of NaN is zero, as in PyTorch.
            let is_nan = f.compare(Direction::Ne, x, x);
            let (zero, sign) = (f.splat(0.0, x.ty()), f.unary("stablehlo.sign", x));
            return f.select(&is_nan, &zero, &sign);
        }
        Sign => "stablehlo.sign",
        Exp => "stablehlo.exponential",
        Expm1 => "stablehlo.exponential_minus_one",
        Log => "stablehlo.log",
        Log1p => "stablehlo.log_plus_one",
        Sqrt => "stablehlo.sqrt",
        // XLA:CPU takes ten times longer for `rsqrt`.
        Rsqrt if f.platform().is_cpu() && matches!(e, ElementType::F32 | ElementType::F64) => {
            let (one, root) = (f.splat(1.0, x.ty()), f.unary("stablehlo.sqrt", x));
            return f.binary("stablehlo.divide", &one, &root);
        }
        Rsqrt => "stablehlo.rsqrt",
        Sin => return math::trig(Trig::Sin, f, x),
        Cos => return math::trig(Trig::Cos, f, x),
        Tan => return math::trig(Trig::Tan, f, x),
        Tanh => "stablehlo.tanh",
        Sigmoid => "stablehlo.logistic",
        Floor | Ceil | Round | Trunc if !e.is_float() => return x.clone(),
        Floor => "stablehlo.floor",
        Ceil => "stablehlo.ceil",
        Round => "stablehlo.round_nearest_even",
        BitwiseNot => "stablehlo.not",
        Asin => "chlo.asin",
        Acos => "chlo.acos",
        Atan => "chlo.atan",
        Sinh => "chlo.sinh",
        Cosh => "chlo.cosh",
        Asinh => "chlo.asinh",
        Acosh => "chlo.acosh",
        Atanh => "chlo.atanh",
        Erf => "chlo.erf",
        Erfc => "chlo.erfc",
        Erfinv => "chlo.erf_inv",
        Lgamma => "chlo.lgamma",
        Sgn => "stablehlo.sign",
        Conj if e.is_complex() => return crate::ops::complex::lower_conj(f, x),
        Conj => return x.clone(),
        Angle if e.is_complex() => {
            let (re, im) = (f.unary("stablehlo.real", x), f.unary("stablehlo.imag", x));
            return f.binary("stablehlo.atan2", &im, &re);
        }
        Angle => {
            let (zero, pi) = (f.splat(0.0, x.ty()), f.splat(std::f64::consts::PI, x.ty()));
            let (negative, number) = (f.compare(Direction::Lt, x, &zero), f.compare(Direction::Eq, x, x));
            let y = f.select(&negative, &pi, &zero);
            return f.select(&number, &y, x);
        }
        Digamma => {
            let y = f.unary("chlo.digamma", x);
            // At the pole at zero the sign of the zero tells the side.
            let (zero, one) = (f.splat(0.0, x.ty()), f.splat(-1.0, x.ty()));
            let pole = f.compare(Direction::Eq, x, &zero);
            let side = f.binary("stablehlo.divide", &one, x);
            return f.select(&pole, &side, &y);
        }
        kind if is_special(kind) => return analytic::unary(f, SpecialUnary(kind), x),
        Square => return f.binary(if e == ElementType::Pred { "stablehlo.and" } else { "stablehlo.multiply" }, x, x),
        Reciprocal => {
            let one = f.splat(1.0, x.ty());
            return f.binary("stablehlo.divide", &one, x);
        }
        Relu => {
            let zero = if e.is_float() { f.splat(0.0, x.ty()) } else { f.splat_i64(0, x.ty()) };
            return f.binary("stablehlo.maximum", x, &zero);
        }
        Exp2 | Log2 | Log10 => {
            let wide = if half { f.convert(x, ElementType::F32) } else { x.clone() };
            let y = match kind {
                Exp2 => {
                    let c = f.splat(std::f64::consts::LN_2, wide.ty());
                    let z = f.binary("stablehlo.multiply", &wide, &c);
                    f.unary("stablehlo.exponential", &z)
                }
                _ => {
                    let c =
                        f.splat(if kind == Log2 { std::f64::consts::LN_2 } else { std::f64::consts::LN_10 }, wide.ty());
                    let z = f.unary("stablehlo.log", &wide);
                    f.binary("stablehlo.divide", &z, &c)
                }
            };
            return f.convert(&y, e);
        }
        Trunc | Frac => {
            let down = f.unary("stablehlo.floor", x);
            let up = f.unary("stablehlo.ceil", x);
            let zero = f.splat(0.0, x.ty());
            let negative = f.compare(Direction::Lt, x, &zero);
            let whole = f.select(&negative, &up, &down);
            return if kind == Trunc { whole } else { f.binary("stablehlo.subtract", x, &whole) };
        }
        LogicalNot => {
            let truth = f.convert(x, ElementType::Pred);
            return f.unary("stablehlo.not", &truth);
        }
        IsNan | IsInf | IsFinite => {
            debug_assert_eq!(out, DType::Bool);
            if e.is_complex() {
                let (re, im) = (f.unary("stablehlo.real", x), f.unary("stablehlo.imag", x));
                let (a, b) = (lower_unary(kind, f, &re, out), lower_unary(kind, f, &im, out));
                return f.binary(if kind == IsFinite { "stablehlo.and" } else { "stablehlo.or" }, &a, &b);
            }
            if !e.is_float() {
                return f.splat_i64((kind == IsFinite) as i64, &x.ty().with_element(ElementType::Pred));
            }
            return match kind {
                IsNan => f.compare(Direction::Ne, x, x),
                IsFinite => f.is_finite(x),
                _ => {
                    let a = f.unary("stablehlo.abs", x);
                    let inf = f.splat(f64::INFINITY, x.ty());
                    f.compare(Direction::Eq, &a, &inf)
                }
            };
        }
        kind => unreachable!("{} is a special function", kind.name()),
    };
    f.unary(name, x)
}

/// The special functions, which are written once for kernels and programs.
struct SpecialUnary(UnaryKind);

impl analytic::OfOne for SpecialUnary {
    fn of<T: special::Analytic>(self, x: &T) -> T {
        use UnaryKind as K;
        match self.0 {
            K::I0 => special::i0(x),
            K::I0e => special::i0e(x),
            K::I1 => special::i1(x),
            K::I1e => special::i1e(x),
            K::ModifiedBesselI0 => special::i0(x),
            K::ModifiedBesselI1 => special::i1(x),
            K::ModifiedBesselK0 => special::k0(x),
            K::ModifiedBesselK1 => special::k1(x),
            K::ScaledModifiedBesselK0 => special::k0e(x),
            K::ScaledModifiedBesselK1 => special::k1e(x),
            K::BesselJ0 => special::j0(x),
            K::BesselJ1 => special::j1(x),
            K::BesselY0 => special::y0(x),
            K::BesselY1 => special::y1(x),
            K::SphericalBesselJ0 => special::spherical_j0(x),
            K::AiryAi => special::airy_ai(x),
            K::Erfcx => special::erfcx(x),
            K::LogNdtr => special::log_ndtr(x),
            K::Ndtri => special::ndtri(x),
            kind => unreachable!("{} is no special function", kind.name()),
        }
    }
}

fn is_special(k: UnaryKind) -> bool {
    use UnaryKind::*;
    matches!(
        k,
        I0 | I0e
            | I1
            | I1e
            | ModifiedBesselI0
            | ModifiedBesselI1
            | ModifiedBesselK0
            | ModifiedBesselK1
            | ScaledModifiedBesselK0
            | ScaledModifiedBesselK1
            | BesselJ0
            | BesselJ1
            | BesselY0
            | BesselY1
            | SphericalBesselJ0
            | AiryAi
            | Erfcx
            | LogNdtr
            | Ndtri
    )
}

/// Special functions for which PyTorch has no derivative: their results need no gradient.
fn has_no_derivative(k: UnaryKind) -> bool {
    use UnaryKind::*;
    matches!(k, SphericalBesselJ0 | AiryAi | ScaledModifiedBesselK0 | ScaledModifiedBesselK1)
}

fn unary_vjp(kind: UnaryKind, s: &Saved<'_>, g: &Tensor) -> Result<Option<Tensor>> {
    use UnaryKind::*;
    if s.meta(0).dtype.is_complex() {
        // g conj(f'(z)); for holomorphic functions that is f' of the conjugate, so formulas are given conjugates.
        let conj = |t: Option<&Option<Tensor>>| t.and_then(Option::as_ref).map(Tensor::conj).transpose();
        return match kind {
            Abs => Ok(Some(s.x(0).sgn()?.mul(g)?)),
            Sgn => crate::ops::complex::sgn_vjp(s.x(0), g).map(Some),
            Angle => crate::ops::complex::angle_vjp(s.x(0), g).map(Some),
            _ => {
                let (x, y) = ([conj(s.x.first())?], [conj(s.y.first())?]);
                holomorphic_vjp(kind, &Saved { x: &x, y: &y, ..*s }, g)
            }
        };
    }
    holomorphic_vjp(kind, s, g)
}

/// Gradients of real functions, and of complex ones whose saved values are conjugated already.
fn holomorphic_vjp(kind: UnaryKind, s: &Saved<'_>, g: &Tensor) -> Result<Option<Tensor>> {
    use UnaryKind::*;
    let c = |v: f64| Operand::Scalar(Scalar::Float(v));
    let mul = |a: &Tensor, b: &Tensor| binary(BinaryKind::Mul, a, b);
    // `a*x + b`, which many formulas end in.
    let affine = |x: &Tensor, a: f64, b: f64| -> Result<Tensor> {
        let y = if a == 1.0 { x.clone() } else { arith(BinaryKind::Mul, Operand::Tensor(x), c(a))? };
        arith(BinaryKind::Add, Operand::Tensor(&y), c(b))
    };
    let scaled = |x: &Tensor, a: f64| arith(BinaryKind::Mul, Operand::Tensor(x), c(a));
    Ok(Some(match kind {
        Neg => g.neg()?,
        Sign | Floor | Ceil | Round | Trunc => Tensor::zeros_like_meta(g.meta())?,
        Frac => g.clone(),
        LogicalNot | BitwiseNot | IsNan | IsInf | IsFinite => return Ok(None),
        Abs => mul(g, &s.x(0).sign()?)?,
        Exp => mul(g, s.y(0))?,
        Exp2 => scaled(&mul(g, s.y(0))?, std::f64::consts::LN_2)?,
        Expm1 => mul(g, &affine(s.y(0), 1.0, 1.0)?)?,
        Log => binary(BinaryKind::Div, g, s.x(0))?,
        Log2 => binary(BinaryKind::Div, g, &scaled(s.x(0), std::f64::consts::LN_2)?)?,
        Log10 => binary(BinaryKind::Div, g, &scaled(s.x(0), std::f64::consts::LN_10)?)?,
        Log1p => binary(BinaryKind::Div, g, &affine(s.x(0), 1.0, 1.0)?)?,
        Sqrt => binary(BinaryKind::Div, g, &scaled(s.y(0), 2.0)?)?,
        Rsqrt => {
            let y = s.y(0);
            mul(&scaled(g, -0.5)?, &mul(y, &y.square()?)?)?
        }
        Reciprocal => mul(&g.neg()?, &s.y(0).square()?)?,
        Square => mul(g, &scaled(s.x(0), 2.0)?)?,
        Sin => mul(g, &s.x(0).cos()?)?,
        Cos => mul(g, &s.x(0).sin()?)?.neg()?,
        Tan => mul(g, &affine(&s.y(0).square()?, 1.0, 1.0)?)?,
        Asin => mul(g, &affine(&s.x(0).square()?, -1.0, 1.0)?.rsqrt()?)?,
        Acos => mul(g, &affine(&s.x(0).square()?, -1.0, 1.0)?.rsqrt()?)?.neg()?,
        Atan => binary(BinaryKind::Div, g, &affine(&s.x(0).square()?, 1.0, 1.0)?)?,
        Sinh => mul(g, &s.x(0).cosh()?)?,
        Cosh => mul(g, &s.x(0).sinh()?)?,
        Tanh => mul(g, &affine(&s.y(0).square()?, -1.0, 1.0)?)?,
        Asinh => mul(g, &affine(&s.x(0).square()?, 1.0, 1.0)?.rsqrt()?)?,
        Acosh => mul(g, &affine(&s.x(0).square()?, 1.0, -1.0)?.rsqrt()?)?,
        Atanh => binary(BinaryKind::Div, g, &affine(&s.x(0).square()?, -1.0, 1.0)?)?,
        Sigmoid => mul(g, &mul(s.y(0), &affine(s.y(0), -1.0, 1.0)?)?)?,
        Erf => scaled(&mul(g, &s.x(0).square()?.neg()?.exp()?)?, std::f64::consts::FRAC_2_SQRT_PI)?,
        Erfc => scaled(&mul(g, &s.x(0).square()?.neg()?.exp()?)?, -std::f64::consts::FRAC_2_SQRT_PI)?,
        Erfinv => scaled(&mul(g, &s.y(0).square()?.exp()?)?, 1.0 / std::f64::consts::FRAC_2_SQRT_PI)?,
        Lgamma => mul(g, &s.x(0).digamma()?)?,
        Digamma => mul(g, &crate::ops::pointwise::special::polygamma(1, s.x(0))?)?,
        Relu => crate::ops::activation::threshold_backward(g, s.y(0))?,
        Conj => g.conj_physical()?,
        Sgn | Angle => Tensor::zeros_like_meta(g.meta())?,
        I0 => mul(g, &unary(I1, s.x(0))?)?,
        ModifiedBesselI0 => mul(g, &unary(ModifiedBesselI1, s.x(0))?)?,
        I0e => mul(g, &unary(I1e, s.x(0))?.sub(&mul(&s.x(0).sign()?, s.y(0))?)?)?,
        I1 | ModifiedBesselI1 => mul(g, &unary(I0, s.x(0))?.sub(&over_argument(s)?)?)?,
        I1e => {
            let slope = unary(I0e, s.x(0))?.sub(&mul(s.y(0), &s.x(0).sign()?)?)?;
            mul(g, &slope.sub(&over_argument(s)?)?)?
        }
        BesselJ0 => mul(g, &unary(BesselJ1, s.x(0))?)?.neg()?,
        BesselJ1 => mul(g, &unary(BesselJ0, s.x(0))?.sub(&over_argument(s)?)?)?,
        BesselY0 => mul(g, &unary(BesselY1, s.x(0))?)?.neg()?,
        BesselY1 => mul(g, &unary(BesselY0, s.x(0))?.sub(&binary(BinaryKind::Div, s.y(0), s.x(0))?)?)?,
        ModifiedBesselK0 => mul(g, &unary(ModifiedBesselK1, s.x(0))?)?.neg()?,
        ModifiedBesselK1 => {
            let slope = unary(ModifiedBesselK0, s.x(0))?.add(&binary(BinaryKind::Div, s.y(0), s.x(0))?)?;
            mul(g, &slope)?.neg()?
        }
        Erfcx => mul(g, &affine(&mul(s.x(0), s.y(0))?, 2.0, -std::f64::consts::FRAC_2_SQRT_PI)?)?,
        LogNdtr => {
            let tail = unary(Erfcx, &scaled(s.x(0), -std::f64::consts::FRAC_1_SQRT_2)?)?;
            let root = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
            binary(BinaryKind::Div, &scaled(g, root)?, &tail)?
        }
        Ndtri => {
            let bell = scaled(&s.y(0).square()?, 0.5)?.exp()?;
            scaled(&mul(g, &bell)?, (2.0 * std::f64::consts::PI).sqrt())?
        }
        SphericalBesselJ0 | AiryAi | ScaledModifiedBesselK0 | ScaledModifiedBesselK1 => return Ok(None),
    }))
}

/// `y / x` of functions that are odd with slope one half at zero.
fn over_argument(s: &Saved<'_>) -> Result<Tensor> {
    let (x, y) = (s.x(0), s.y(0));
    let zero = x.eq_scalar(0.0)?;
    let safe = select_scalar(&zero, 1.0, x)?;
    select_scalar(&zero, 0.5, &binary(BinaryKind::Div, y, &safe)?)
}

/// Apply a unary op; integers become the default floating-point dtype where the result is not an integer.
pub fn unary(kind: UnaryKind, x: &Tensor) -> Result<Tensor> {
    if kind == UnaryKind::Square && x.dtype() == DType::Bool {
        return dispatch::call(Prim::Unary(Unary(kind)), &[&x.to_dtype(DType::I64)?]); // a power
    }
    if has_no_derivative(kind) && x.requires_grad() {
        return unary(kind, &x.detach());
    }
    if kind == UnaryKind::Frac && !x.dtype().is_float() {
        return Err(crate::ops::complex::unsupported("frac_cpu", x.dtype()));
    }
    if !keeps_integers(kind) && !x.dtype().is_inexact() {
        return dispatch::call(Prim::Unary(Unary(kind)), &[&x.to_dtype(default_dtype())?]);
    }
    dispatch::call(Prim::Unary(Unary(kind)), &[x])
}

/// The in-place form.
pub fn unary_(kind: UnaryKind, x: &Tensor) -> Result<()> {
    inplace::check_writable(x)?;
    if kind == UnaryKind::Abs {
        crate::ops::complex::refuse(x, ErrorKind::Runtime, "In-place abs is not supported for complex tensors.")?;
    }
    if !x.dtype().is_inexact() && !keeps_integers(kind) && kind != UnaryKind::Frac {
        return Err(Error::runtime(format!(
            "result type {} can't be cast to the desired output type {}",
            default_dtype().scalar_type(),
            x.dtype().scalar_type()
        )));
    }
    if dispatch::call_into(&Prim::Unary(Unary(kind)), &[x], x)? {
        return Ok(());
    }
    inplace::apply(x, |x| unary(kind, x))
}

/// Round to a number of decimal places; negative ones are places before the point.
fn round_to(x: &Tensor, decimals: i64) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return if decimals == 0 {
            x.copy()
        } else {
            Err(Error::not_implemented(format!("\"round_cpu\" not implemented for '{}'", x.dtype().scalar_type())))
        };
    }
    let half = matches!(x.dtype(), DType::F16 | DType::BF16);
    let wide = if half { x.to_dtype(DType::F32)? } else { x.clone() };
    let ten = Scalar::Float(10f64.powi(decimals.unsigned_abs().min(400) as i32));
    let y = if decimals < 0 {
        wide.div_scalar(ten)?.round()?.mul_scalar(ten)?
    } else {
        wide.mul_scalar(ten)?.round()?.div_scalar(ten)?
    };
    y.to_dtype(x.dtype())
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident $inplace:ident = $kind:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            pub fn $name(&self) -> Result<Tensor> { unary(UnaryKind::$kind, self) }
            /// The in-place form.
            pub fn $inplace(&self) -> Result<&Tensor> { unary_(UnaryKind::$kind, self).map(|()| self) }
        )*}
    };
}

unary_methods! {
    /// `-x`.
    neg neg_ = Neg;
    /// `|x|`.
    abs abs_ = Abs;
    /// -1, 0 or 1.
    sign sign_ = Sign;
    /// `e^x`.
    exp exp_ = Exp;
    /// `2^x`.
    exp2 exp2_ = Exp2;
    /// `e^x - 1`, exact near zero.
    expm1 expm1_ = Expm1;
    /// Natural logarithm.
    log log_ = Log;
    /// Logarithm to base 2.
    log2 log2_ = Log2;
    /// Logarithm to base 10.
    log10 log10_ = Log10;
    /// `log(1 + x)`, exact near zero.
    log1p log1p_ = Log1p;
    /// Square root.
    sqrt sqrt_ = Sqrt;
    /// `1 / sqrt(x)`.
    rsqrt rsqrt_ = Rsqrt;
    /// `1 / x`.
    reciprocal reciprocal_ = Reciprocal;
    /// `x * x`.
    square square_ = Square;
    /// Sine.
    sin sin_ = Sin;
    /// Cosine.
    cos cos_ = Cos;
    /// Tangent.
    tan tan_ = Tan;
    /// Inverse sine.
    asin asin_ = Asin;
    /// Inverse cosine.
    acos acos_ = Acos;
    /// Inverse tangent.
    atan atan_ = Atan;
    /// Hyperbolic sine.
    sinh sinh_ = Sinh;
    /// Hyperbolic cosine.
    cosh cosh_ = Cosh;
    /// Hyperbolic tangent.
    tanh tanh_ = Tanh;
    /// Inverse hyperbolic sine.
    asinh asinh_ = Asinh;
    /// Inverse hyperbolic cosine.
    acosh acosh_ = Acosh;
    /// Inverse hyperbolic tangent.
    atanh atanh_ = Atanh;
    /// `1 / (1 + e^-x)`.
    sigmoid sigmoid_ = Sigmoid;
    /// Error function.
    erf erf_ = Erf;
    /// `1 - erf(x)`.
    erfc erfc_ = Erfc;
    /// Inverse of the error function.
    erfinv erfinv_ = Erfinv;
    /// Logarithm of the absolute value of the gamma function.
    lgamma lgamma_ = Lgamma;
    /// Logarithmic derivative of the gamma function.
    digamma digamma_ = Digamma;
    /// Largest integer not above.
    floor floor_ = Floor;
    /// Smallest integer not below.
    ceil ceil_ = Ceil;
    /// Nearest integer, ties to even.
    round round_ = Round;
    /// Nearest integer towards zero.
    trunc trunc_ = Trunc;
    /// `x - trunc(x)`.
    frac frac_ = Frac;
    /// `max(x, 0)`.
    relu relu_ = Relu;
    /// `x == 0`.
    logical_not logical_not_ = LogicalNot;
    /// Complement of the bits; negation of `bool`.
    bitwise_not bitwise_not_ = BitwiseNot;
    /// Whether not a number.
    isnan isnan_ = IsNan;
    /// Whether infinite.
    isinf isinf_ = IsInf;
    /// Whether neither infinite nor not a number.
    isfinite isfinite_ = IsFinite;
}

const INTS: &[DType] = &[DType::I64, DType::I32, DType::U8];
const ALL: &[DType] = &[DType::F64, DType::BF16, DType::I64, DType::I32, DType::U8, DType::Bool];

macro_rules! unary_rows {
    ($($name:literal $kind:ident $samples:expr $(, $column:ident($($value:expr),*))*;)*) => {
        /// Rows of the ops with one operand.
        pub const UNARY_ROWS: &[Row] = &[$(
            Row::new(concat!($name, "(Tensor self) -> Tensor"), Tier::Prim, |a|
                Ok(unary(UnaryKind::$kind, a.tensor(0)?)?.into()), $samples)
                .inplace_by(|a| {
                    let x = a.tensor(0)?;
                    unary_(UnaryKind::$kind, x)?;
                    Ok(Ret::Tensor(x.clone()))
                })
                .in_place_function()
                $(.$column($($value),*))*,
        )*];
    };
}

unary_rows! {
    "neg" Neg samples!([t(&[2, 3])]),
        doc("Return `-input`. Unsigned integers wrap around. `bool` tensors are refused, use `~` or \
             `torch.logical_not`."),
        out_dtype(OutDType::OfInput(messages::found));
    "negative" Neg samples!([t(&[2, 3])]),
        doc("Alias of `torch.neg`."),
        out_dtype(OutDType::OfInput(messages::found));
    "abs" Abs samples!([t(&[2, 3])], [t(&[0, 3])]),
        doc("Return the absolute value of each element of `input`. For complex numbers it is the modulus `sqrt(re^2 \
             + im^2)`, with a real dtype. `bool` tensors are refused, and so is the in-place form of complex \
             tensors."),
        out_dtype(OutDType::OfRealInput(messages::found));
    "absolute" Abs samples!([t(&[2, 3])]),
        doc("Alias of `torch.abs`. The in-place form `absolute_` is a method only."),
        out_dtype(OutDType::OfRealInput(messages::found)), in_place_method();
    "sign" Sign || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(INTS)],
        doc("Return `-1`, `0` or `1` for each element of `input`, in its dtype. NaN gives 0. Complex tensors are \
             refused, use `torch.sgn`. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found)), in_place_method();
    "exp" Exp samples!([t(&[2, 3])], [t(&[])]),
        doc("Return `e^input` for each element. Integers and `bool` are computed in the default floating-point \
             dtype. Complex numbers are allowed."),
        autocast(Policies::accelerator(Policy::Full));
    "exp2" Exp2 samples!([t(&[2, 3])]),
        doc("Return `2^input` for each element. Integers and `bool` are computed in the default floating-point \
             dtype."),
        aliases(&["special_exp2"]);
    "expm1" Expm1 samples!([t(&[2, 3])]),
        doc("Return `e^input - 1` for each element, exact near zero, where `torch.exp(input) - 1` loses its digits. \
             Integers and `bool` are computed in the default floating-point dtype."),
        aliases(&["special_expm1"]), autocast(Policies::accelerator(Policy::Full));
    "log" Log samples!([positive(&[2, 3])]),
        doc("Return the natural logarithm of each element of `input`. Zero gives `-inf` and negative real numbers \
             give NaN. Integers and `bool` are computed in the default floating-point dtype. For complex numbers it \
             is the principal value."),
        autocast(Policies::accelerator(Policy::Full));
    "log2" Log2 samples!([positive(&[2, 3])]),
        doc("Return the logarithm to base 2 of each element of `input`. Zero gives `-inf` and negative real numbers \
             give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    "log10" Log10 samples!([positive(&[2, 3])]),
        doc("Return the logarithm to base 10 of each element of `input`. Zero gives `-inf` and negative real \
             numbers give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    "log1p" Log1p samples!([positive(&[2, 3])]),
        doc("Return `log(1 + input)` for each element, exact near zero. `-1` gives `-inf` and smaller real numbers \
             give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        aliases(&["special_log1p"]), autocast(Policies::accelerator(Policy::Full));
    "sqrt" Sqrt samples!([positive(&[2, 3])]),
        doc("Return the square root of each element of `input`. Negative real numbers give NaN; complex numbers \
             have a root with a real part that is not negative. Integers and `bool` are computed in the default \
             floating-point dtype.");
    "rsqrt" Rsqrt samples!([positive(&[2, 3])]),
        doc("Return `1 / sqrt(input)` for each element. Zero gives `inf` and negative real numbers give NaN. \
             Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    "reciprocal" Reciprocal samples!([positive(&[2, 3])]),
        doc("Return `1 / input` for each element. Zero gives an infinity. Integers and `bool` are computed in the \
             default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    "square" Square samples!([t(&[2, 3])]),
        doc("Return `input * input` for each element, in its dtype. Integers wrap around. `bool` gives `int64`.");
    "sin" Sin samples!([t(&[2, 3])]),
        doc("Return the sine of each element of `input`, in radians. Infinities give NaN. Integers and `bool` are \
             computed in the default floating-point dtype.");
    "cos" Cos samples!([t(&[2, 3])]),
        doc("Return the cosine of each element of `input`, in radians. Infinities give NaN. Integers and `bool` are \
             computed in the default floating-point dtype.");
    "tan" Tan samples!([unit(&[2, 3])]),
        doc("Return the tangent of each element of `input`, in radians. Infinities give NaN. Integers and `bool` \
             are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    "asin" Asin samples!([unit(&[2, 3])]),
        doc("Return the inverse sine of each element of `input`, in radians from `-pi/2` to `pi/2`. Real numbers \
             outside of `[-1, 1]` give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    "acos" Acos samples!([unit(&[2, 3])]),
        doc("Return the inverse cosine of each element of `input`, in radians from `0` to `pi`. Real numbers \
             outside of `[-1, 1]` give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    "atan" Atan samples!([t(&[2, 3])]),
        doc("Return the inverse tangent of each element of `input`, in radians from `-pi/2` to `pi/2`. For the \
             angle of a point use `torch.atan2`. Integers and `bool` are computed in the default floating-point \
             dtype.");
    "sinh" Sinh samples!([t(&[2, 3])]),
        doc("Return the hyperbolic sine `(e^x - e^-x) / 2` of each element `x` of `input`. Integers and `bool` are \
             computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    "cosh" Cosh samples!([t(&[2, 3])]),
        doc("Return the hyperbolic cosine `(e^x + e^-x) / 2` of each element `x` of `input`. Integers and `bool` \
             are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    "tanh" Tanh samples!([t(&[2, 3])]),
        doc("Return the hyperbolic tangent of each element of `input`; real results lie in `[-1, 1]`. Integers and \
             `bool` are computed in the default floating-point dtype.");
    "asinh" Asinh samples!([t(&[2, 3])]),
        doc("Return the inverse hyperbolic sine of each element of `input`. Integers and `bool` are computed in the \
             default floating-point dtype.");
    "acosh" Acosh || vec![crate::schema::Sample::new(vec![positive(&[2, 3])]).no_gradient()],
        doc("Return the inverse hyperbolic cosine of each element of `input`. Real numbers below 1 give NaN. \
             Integers and `bool` are computed in the default floating-point dtype.");
    "atanh" Atanh samples!([unit(&[2, 3])]),
        doc("Return the inverse hyperbolic tangent of each element of `input`. `-1` and `1` give infinities, and \
             real numbers beyond them give NaN. Integers and `bool` are computed in the default floating-point \
             dtype.");
    "arcsin" Asin samples!([unit(&[2, 3])]),
        doc("Alias of `torch.asin`."),
        autocast(Policies::accelerator(Policy::Full));
    "arccos" Acos samples!([unit(&[2, 3])]),
        doc("Alias of `torch.acos`."),
        autocast(Policies::accelerator(Policy::Full));
    "arctan" Atan samples!([t(&[2, 3])]),
        doc("Alias of `torch.atan`.");
    "arcsinh" Asinh samples!([t(&[2, 3])]),
        doc("Alias of `torch.asinh`.");
    "arccosh" Acosh || vec![crate::schema::Sample::new(vec![positive(&[2, 3])]).no_gradient()],
        doc("Alias of `torch.acosh`.");
    "arctanh" Atanh samples!([unit(&[2, 3])]),
        doc("Alias of `torch.atanh`.");
    "sigmoid" Sigmoid samples!([t(&[2, 3])]),
        doc("Return the logistic function `1 / (1 + e^-input)` of each element. Integers and `bool` are computed in \
             the default floating-point dtype. `torch.special.expit` is the same function."),
        aliases(&["special_expit"]);
    "erf" Erf samples!([t(&[2, 3])]),
        doc("Return the error function `2 / sqrt(pi) * integral of e^(-t^2) from 0 to x` of each element `x` of \
             `input`. Integers and `bool` are computed in the default floating-point dtype. Complex tensors are \
             refused."),
        aliases(&["special_erf"]);
    "erfc" Erfc samples!([t(&[2, 3])]),
        doc("Return `1 - erf(input)` for each element, exact also where `erf` is close to 1. Integers and `bool` \
             are computed in the default floating-point dtype. Complex tensors are refused."),
        aliases(&["special_erfc"]);
    "erfinv" Erfinv samples!([unit(&[2, 3])]),
        doc("Return the number `y` with `erf(y) = x` for each element `x` of `input`. `-1` and `1` give infinities, \
             and numbers beyond them give NaN. Integers and `bool` are computed in the default floating-point dtype. \
             The in-place form `erfinv_` is a method only."),
        aliases(&["special_erfinv"]), autocast(Policies::accelerator(Policy::Full)), in_place_method();
    "lgamma" Lgamma samples!([positive(&[2, 3])]),
        doc("Return the natural logarithm of the absolute value of the gamma function of each element of `input`. \
             Zero and negative whole numbers give `inf`. Integers and `bool` are computed in the default \
             floating-point dtype. The in-place form `lgamma_` is a method only."),
        aliases(&["special_gammaln"]), in_place_method();
    "digamma" Digamma || vec![crate::schema::Sample::new(vec![positive(&[2, 3])]).no_gradient()],
        doc("Return the derivative of the logarithm of the gamma function at each element of `input`. `0.0` gives \
             `-inf` and `-0.0` gives `inf`. Integers and `bool` are computed in the default floating-point dtype. \
             The in-place form `digamma_` is a method only."),
        aliases(&["special_digamma", "special_psi"]), in_place_method();
    "floor" Floor || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(INTS)],
        doc("Return the largest whole number that is not above each element of `input`, in its dtype. Integers stay \
             as they are. Complex tensors are refused. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found));
    "ceil" Ceil || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(INTS)],
        doc("Return the smallest whole number that is not below each element of `input`, in its dtype. Integers \
             stay as they are. Complex tensors are refused. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found));
    "round" Round || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient()],
        doc("Return the whole number nearest to each element of `input`, in its dtype; halves go to the even \
             neighbour. `decimals` keeps that many places after the point, or with a negative number rounds to tens, \
             hundreds and so on. Integers allow only `decimals=0`. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found)), aliases(&["special_round"]);
    "trunc" Trunc || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient()],
        doc("Return each element of `input` without the digits after the point, in its dtype. Integers stay as they \
             are. Complex tensors are refused. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found));
    "fix" Trunc || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient()],
        doc("Alias of `torch.trunc`."),
        out_dtype(OutDType::OfInput(messages::found));
    "frac" Frac samples!([t(&[2, 3])]),
        doc("Return `input - trunc(input)` for each element, which has the sign of `input`. Only floating-point \
             dtypes are allowed. The gradient passes unchanged."),
        out_dtype(OutDType::OfInput(messages::found));
    "relu" Relu samples!([t(&[2, 3])]),
        doc("Return `max(input, 0)` for each element, in its dtype. NaN stays NaN. Complex tensors are refused. The \
             gradient at zero is zero.");
    "logical_not" LogicalNot || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)],
        doc("Return `True` where an element of `input` is zero, as `bool`. NaN counts as true. The in-place form \
             `logical_not_` is a method only and writes 0 or 1 in the dtype of the tensor."),
        in_place_method();
    "bitwise_not" BitwiseNot || vec![crate::schema::Sample::new(vec![index(&[2, 3], 9)]).no_gradient()],
        doc("Return the complement of the bits of each integer of `input`, which is `-1 - input` for signed dtypes. \
             For `bool` it is the logical negation. Floating-point and complex tensors are refused. The in-place \
             form `bitwise_not_` is a method only."),
        out_dtype(OutDType::OfInput(messages::found)), in_place_method();
    "i0" I0 samples!([t(&[2, 3])]),
        doc("Return the modified Bessel function of the first kind of order 0 of each element of `input`. Integers \
             and `bool` are computed in the default floating-point dtype. Complex tensors are refused.");
    "isnan" IsNan || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)],
        doc("Return `True` where an element of `input` is NaN, as `bool`. A complex number is NaN if one of its \
             parts is. Integers and `bool` are never NaN."),
        in_place_method();
    "isinf" IsInf || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)],
        doc("Return `True` where an element of `input` is `inf` or `-inf`, as `bool`. A complex number is infinite \
             if one of its parts is. Integers and `bool` are never infinite."),
        in_place_method();
    "isfinite" IsFinite || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)],
        doc("Return `True` where an element of `input` is neither infinite nor NaN, as `bool`. A complex number is \
             finite if both of its parts are. Integers and `bool` are always finite."),
        in_place_method();
}

fn special_samples(fill: fn(&[usize]) -> crate::schema::SampleArg, gradient: bool) -> Vec<crate::schema::Sample> {
    let s = crate::schema::Sample::new(vec![fill(&[2, 3])]).dtypes(&[DType::F64, DType::I64]);
    vec![if gradient { s } else { s.no_gradient() }]
}

macro_rules! special_rows {
    ($($name:literal $kind:ident $fill:ident $gradient:literal $doc:literal;)*) => {
        /// Rows of the special functions of one operand.
        pub const SPECIAL_UNARY_ROWS: &[Row] = &[$(
            Row::new(concat!("special_", $name, "(Tensor self) -> Tensor"), Tier::Prim, |a|
                Ok(unary(UnaryKind::$kind, a.tensor(0)?)?.into()), || special_samples($fill, $gradient))
                .doc($doc)
                .scope(crate::schema::Scope::Nn),
        )*];
    };
}

special_rows! {
    "i0" I0 t true
        "Return the modified Bessel function of the first kind of order 0 of each element of `input`, as `torch.i0` \
         does. It has no in-place form.";
    "i0e" I0e t true
        "Return `e^-|x| * I0(x)` for each element `x` of `input`, where `I0` is the modified Bessel function of the \
         first kind of order 0. It does not overflow for large `x`. Integers and `bool` are computed in the default \
         floating-point dtype.";
    "i1" I1 t true
        "Return the modified Bessel function of the first kind of order 1 of each element of `input`. Integers and \
         `bool` are computed in the default floating-point dtype.";
    "i1e" I1e t true
        "Return `e^-|x| * I1(x)` for each element `x` of `input`, where `I1` is the modified Bessel function of the \
         first kind of order 1. It does not overflow for large `x`. Integers and `bool` are computed in the default \
         floating-point dtype.";
    "modified_bessel_i0" ModifiedBesselI0 t true
        "Return the modified Bessel function of the first kind `I0` of each element of `input`, the same as \
         `torch.special.i0`.";
    "modified_bessel_i1" ModifiedBesselI1 t true
        "Return the modified Bessel function of the first kind `I1` of each element of `input`, the same as \
         `torch.special.i1`.";
    "modified_bessel_k0" ModifiedBesselK0 positive true
        "Return the modified Bessel function of the second kind of order 0 of each element of `input`. Zero gives \
         `inf` and negative numbers give NaN. Integers and `bool` are computed in the default floating-point dtype.";
    "modified_bessel_k1" ModifiedBesselK1 positive true
        "Return the modified Bessel function of the second kind of order 1 of each element of `input`. Zero gives \
         `inf` and negative numbers give NaN. Integers and `bool` are computed in the default floating-point dtype.";
    "scaled_modified_bessel_k0" ScaledModifiedBesselK0 positive false
        "Return `e^x * K0(x)` for each element `x` of `input`, where `K0` is the modified Bessel function of the \
         second kind of order 0. Zero gives `inf` and negative numbers give NaN. The result has no gradient.";
    "scaled_modified_bessel_k1" ScaledModifiedBesselK1 positive false
        "Return `e^x * K1(x)` for each element `x` of `input`, where `K1` is the modified Bessel function of the \
         second kind of order 1. Zero gives `inf` and negative numbers give NaN. The result has no gradient.";
    "bessel_j0" BesselJ0 t true
        "Return the Bessel function of the first kind of order 0 of each element of `input`. Integers and `bool` \
         are computed in the default floating-point dtype.";
    "bessel_j1" BesselJ1 t true
        "Return the Bessel function of the first kind of order 1 of each element of `input`. Integers and `bool` \
         are computed in the default floating-point dtype.";
    "bessel_y0" BesselY0 positive true
        "Return the Bessel function of the second kind of order 0 of each element of `input`. Zero gives `-inf` and \
         negative numbers give NaN. Integers and `bool` are computed in the default floating-point dtype.";
    "bessel_y1" BesselY1 positive true
        "Return the Bessel function of the second kind of order 1 of each element of `input`. Zero gives `-inf` and \
         negative numbers give NaN. Integers and `bool` are computed in the default floating-point dtype.";
    "spherical_bessel_j0" SphericalBesselJ0 t false
        "Return the spherical Bessel function of the first kind of order 0, `sin(x) / x`, of each element `x` of \
         `input`. Zero gives 1. The result has no gradient.";
    "airy_ai" AiryAi t false
        "Return the Airy function `Ai` of each element of `input`. Integers and `bool` are computed in the default \
         floating-point dtype. The result has no gradient.";
    "erfcx" Erfcx t true
        "Return the scaled complementary error function `e^(x^2) * erfc(x)` of each element `x` of `input`. It does \
         not underflow for large `x`. Integers and `bool` are computed in the default floating-point dtype.";
    "log_ndtr" LogNdtr t true
        "Return the natural logarithm of the area under the standard normal density from `-inf` to each element of \
         `input`. It stays exact where `torch.special.ndtr` is close to zero. Integers and `bool` are computed in \
         the default floating-point dtype.";
    "ndtri" Ndtri fraction true
        "Return the number `y` with `ndtr(y) = p` for each element `p` of `input`: the quantile of the standard \
         normal distribution. `0` gives `-inf`, `1` gives `inf`, and numbers beyond them give NaN. Integers and \
         `bool` are computed in the default floating-point dtype.";
}

/// Numbers within (0, 1): `ndtri` of integers is infinite or none, which is compared too.
fn fraction(dims: &[usize]) -> crate::schema::SampleArg {
    crate::schema::SampleArg::Tensor(dims.to_vec(), crate::schema::Fill::Fraction)
}

/// Rounding to decimal places.
pub const ROUND_ROWS: &[Row] = &[Row::new(
    "round.decimals(Tensor self, *, int decimals) -> Tensor",
    Tier::Composed,
    |a| Ok(round_to(a.tensor(0)?, a.int(1)?)?.into()),
    || vec![crate::schema::Sample::new(vec![t(&[2, 3]), n(2)]).no_gradient()],
)
.inplace()
.out_dtype(OutDType::OfInput(messages::found))
.aliases(&["special_round"])
.in_place_function()];
