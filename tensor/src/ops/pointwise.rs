//! Element-wise ops: `Unary{kind}`, `Binary{kind}`, `Compare{kind}`, `Select`.
//!
//! One op with a kind, since shape rule, kernel loop and lowering are shared. Operands broadcast inside the op; both
//! have the same dtype there, because the functions below promote first (and promotion is a recorded `Cast`).

use super::analytic;
use super::math_lower::{self, Trig};
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values, broadcast_dims, same_device};
use crate::schema::{Args, Operand, Ret, Row, Tier, index, mask, n, positive, t, unit};
use crate::{DType, DeviceKind, Dims, Error, ErrorKind, Meta, Result, Scalar, Tensor};
use crate::{default_complex, default_dtype, dispatch, graph, inplace, samples, scalar};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::View;
use torchtpu_kernels::pointwise as kernels;
pub use torchtpu_kernels::pointwise::{BinaryKind, CompareKind, UnaryKind};
use torchtpu_kernels::special;
use torchtpu_stablehlo::{Direction, ElementType, Platform};

/// Turns a kernel's error into ours.
pub(crate) fn kernel_error(e: torchtpu_kernels::KernelError) -> Error {
    use torchtpu_kernels::KernelError as K;
    match e {
        K::IndexOutOfRange(m) => Error::index(m),
        K::ZeroDivision => Error::runtime("ZeroDivisionError"),
        K::OutOfMemory { bytes } => Error::new(
            ErrorKind::OutOfMemory,
            format!("DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes"),
        ),
        K::Other(m) if m.contains("not implemented for") => Error::not_implemented(m),
        K::Other(m) => Error::runtime(m),
    }
}

/// Strides that make `x` look as if it had the sizes `out`.
#[inline]
pub(crate) fn broadcast_strides(x: &Tensor, out: &Dims) -> Dims {
    let (d, s) = (x.dims(), x.strides());
    let mut r = Dims::filled(0, out.len());
    let shift = out.len() - d.len();
    for i in 0..d.len() {
        if d[i] == out[shift + i] {
            r[shift + i] = s[i];
        }
    }
    r
}

// ------------------------------------------------------------------------------------------------ one operand

/// `y = f(x)` for each element. Predicates give `bool`; everything else keeps the dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unary(pub UnaryKind);

fn is_predicate(k: UnaryKind) -> bool {
    k.is_predicate()
}

/// Refuses complex numbers where PyTorch does, in its words.
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
    Err(super::complex::unsupported(&name, d))
}

/// Kinds that keep integers as they are.
fn keeps_integers(k: UnaryKind) -> bool {
    use UnaryKind::*;
    matches!(k, Neg | Abs | Sign | Square | Floor | Ceil | Round | Trunc | Relu | BitwiseNot) || is_predicate(k)
}

impl Op for Unary {
    const NAME: &'static str = "unary";
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
            (UnaryKind::Neg, DType::Bool) => Err(Error::runtime(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
            )),
            (UnaryKind::BitwiseNot, d) if d.is_float() => {
                Err(Error::not_implemented(format!("\"bitwise_not_cpu\" not implemented for '{}'", d.scalar_type())))
            }
            _ => Ok(*m),
        }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    #[inline]
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::unary(self.0, &x[0].view(), &mut y[0].view_mut()).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
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

fn lower_unary(kind: UnaryKind, f: &mut Func, x: &Value, out: DType) -> Value {
    use UnaryKind::*;
    let e = x.element();
    let half = matches!(e, ElementType::F16 | ElementType::BF16);
    if let Some(y) = math_lower::unary(kind, f, x) {
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
        Sign => "stablehlo.sign",
        Exp => "stablehlo.exponential",
        Expm1 => "stablehlo.exponential_minus_one",
        Log => "stablehlo.log",
        Log1p => "stablehlo.log_plus_one",
        Sqrt => "stablehlo.sqrt",
        // XLA:CPU takes ten times longer for `rsqrt`.
        Rsqrt if f.platform() == Platform::Cpu && matches!(e, ElementType::F32 | ElementType::F64) => {
            let (one, root) = (f.splat(1.0, x.ty()), f.unary("stablehlo.sqrt", x));
            return f.binary("stablehlo.divide", &one, &root);
        }
        Rsqrt => "stablehlo.rsqrt",
        Sin => return math_lower::trig(Trig::Sin, f, x),
        Cos => return math_lower::trig(Trig::Cos, f, x),
        Tan => return math_lower::trig(Trig::Tan, f, x),
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
        Conj if e.is_complex() => return super::complex::lower_conj(f, x),
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
            Sgn => super::complex::sgn_vjp(s.x(0), g).map(Some),
            Angle => super::complex::angle_vjp(s.x(0), g).map(Some),
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
        Digamma => mul(g, &crate::ops::special::polygamma(1, s.x(0))?)?,
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

/// Applies a unary op; integers become the default floating-point dtype where the result is not an integer.
pub fn unary(kind: UnaryKind, x: &Tensor) -> Result<Tensor> {
    if kind == UnaryKind::Square && x.dtype() == DType::Bool {
        return dispatch::call(Prim::Unary(Unary(kind)), &[&x.to_dtype(DType::I64)?]); // a power
    }
    if has_no_derivative(kind) && x.requires_grad() {
        return unary(kind, &x.detach());
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
        super::complex::refuse(x, ErrorKind::Runtime, "In-place abs is not supported for complex tensors.")?;
    }
    if dispatch::call_into(&Prim::Unary(Unary(kind)), &[x], x)? {
        return Ok(());
    }
    inplace::apply(x, |x| unary(kind, x))
}

// ------------------------------------------------------------------------------------------------ two operands

/// `y = f(a, b)` for each element, broadcast. Both operands have the same dtype; logical kinds give `bool`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Binary(pub BinaryKind);

fn is_bitwise(k: BinaryKind) -> bool {
    use BinaryKind::*;
    matches!(k, BitwiseAnd | BitwiseOr | BitwiseXor | LeftShift | RightShift)
}
/// Kinds whose result is floating point whatever the operands are.
fn is_float_only(k: BinaryKind) -> bool {
    use BinaryKind::*;
    matches!(k, Div | Atan2 | Hypot | LogAddExp | NextAfter | Copysign | Zeta) || polynomial(k).is_some()
}

/// The family of orthogonal polynomials that a kind is.
#[inline]
fn polynomial(k: BinaryKind) -> Option<special::PolynomialKind> {
    use special::PolynomialKind as P;
    macro_rules! families {
        ($($name:ident)*) => { match k { $(BinaryKind::$name => Some(P::$name),)* _ => None } };
    }
    families! {
        ChebyshevT ChebyshevU ChebyshevV ChebyshevW ShiftedChebyshevT ShiftedChebyshevU ShiftedChebyshevV ShiftedChebyshevW HermiteH HermiteHe Laguerre Legendre
    }
}

/// As [`SpecialUnary`], of two operands.
struct SpecialBinary(BinaryKind);

impl analytic::OfTwo for SpecialBinary {
    fn of<T: special::Analytic>(self, a: &T, b: &T) -> T {
        match (self.0, polynomial(self.0)) {
            (BinaryKind::Igamma, _) => special::igamma(a, b),
            (BinaryKind::Igammac, _) => special::igammac(a, b),
            (BinaryKind::Zeta, _) => special::zeta(a, b),
            (_, Some(p)) => special::orthogonal(p, a, b),
            (kind, None) => unreachable!("{} is no special function", kind.name()),
        }
    }
}

/// Refuses complex numbers where PyTorch does, in its words.
#[cold]
fn check_complex_pair(k: BinaryKind, d: DType) -> Result<()> {
    use BinaryKind::*;
    let name = match k {
        Add | Sub | Mul | Div | Pow | LogicalAnd | LogicalOr | LogicalXor => return Ok(()),
        Maximum | Minimum | Fmax | Fmin => {
            return Err(Error::type_error(format!("{} not implemented for complex tensors.", k.name())));
        }
        FloorDivide => "div_floor_cpu".into(),
        LeftShift => "lshift_cpu".into(),
        RightShift => "rshift_cpu".into(),
        _ => format!("{}_cpu", k.name()),
    };
    Err(super::complex::unsupported(&name, d))
}

impl Op for Binary {
    const NAME: &'static str = "binary";
    fn label(&self) -> &'static str {
        self.0.name()
    }
    #[inline]
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (a, b) = (x[0], x[1]);
        let dims = broadcast_dims(a.dims(), b.dims())?;
        let device = same_device(x)?;
        if a.dtype().is_complex() {
            check_complex_pair(self.0, a.dtype())?;
        }
        let dtype = self.0.result(a.dtype());
        if self.0 == BinaryKind::Sub && dtype == DType::Bool {
            return Err(Error::runtime(
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.",
            ));
        }
        let refused = match self.0 {
            BinaryKind::Gcd | BinaryKind::Lcm => dtype.is_float() || dtype == DType::Bool,
            BinaryKind::Igamma | BinaryKind::Igammac => !dtype.is_float(),
            kind => is_bitwise(kind) && dtype.is_float(),
        };
        if refused {
            return Err(Error::not_implemented(format!(
                "\"{}_cpu\" not implemented for '{}'",
                self.0.name(),
                dtype.scalar_type()
            )));
        }
        Ok(Meta { dims, dtype, device })
    }
    fn takes_complex(&self) -> bool {
        true
    }
    #[inline]
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (a, b, out) = (x[0], x[1], &y[0]);
        if a.dims() == b.dims() {
            return kernels::binary(self.0, &a.view(), &b.view(), &mut out.view_mut()).map_err(kernel_error);
        }
        let (sa, sb) = (broadcast_strides(a, out.dims()), broadcast_strides(b, out.dims()));
        kernels::binary(self.0, &a.view_as(out.dims(), &sa), &b.view_as(out.dims(), &sb), &mut out.view_mut())
            .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let a = f.broadcast_to(&x[0], &y[0].dims);
        let b = f.broadcast_to(&x[1], &y[0].dims);
        smallvec![lower_binary(self.0, f, &a, &b)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let (ga, gb) = binary_vjp(self.0, s, g)?;
        let to = |d: Option<Tensor>, i: usize| d.map(|d| d.sum_to(&s.meta(i).dims)).transpose();
        Ok(smallvec![to(ga, 0)?, to(gb, 1)?])
    }
    #[inline]
    fn saves(&self, needs: u64) -> Saves {
        use BinaryKind::*;
        let (a, b) = (needs & 1 != 0, needs & 2 != 0);
        match self.0 {
            Add | Sub | Complex => Saves::NONE,
            Mul => Saves::inputs((b as u64) | ((a as u64) * 0b10)),
            Div => Saves::inputs(if b { 0b11 } else { 0b10 }),
            Pow => Saves::both(0b11, b as u64),
            FloorDivide | NextAfter | Gcd | Lcm => Saves::NONE,
            Remainder | Fmod => Saves::inputs(if b { 0b11 } else { 0 }),
            _ => Saves::inputs(0b11),
        }
    }
}

fn lower_binary(kind: BinaryKind, f: &mut Func, a: &Value, b: &Value) -> Value {
    use BinaryKind::*;
    let e = a.element();
    let bool_ = e == ElementType::Pred;
    if let Some(y) = math_lower::binary(kind, f, a, b) {
        return y;
    }
    let name = match kind {
        Add if bool_ => "stablehlo.or",
        Mul if bool_ => "stablehlo.and",
        Add => "stablehlo.add",
        Sub => "stablehlo.subtract",
        Mul => "stablehlo.multiply",
        Div => "stablehlo.divide",
        Maximum => "stablehlo.maximum",
        Minimum => "stablehlo.minimum",
        Atan2 => "stablehlo.atan2",
        NextAfter => "chlo.next_after",
        Complex => "stablehlo.complex",
        BitwiseAnd => "stablehlo.and",
        BitwiseOr => "stablehlo.or",
        BitwiseXor => "stablehlo.xor",
        LeftShift => "stablehlo.shift_left",
        RightShift if e.is_unsigned() => "stablehlo.shift_right_logical",
        RightShift => "stablehlo.shift_right_arithmetic",
        Pow if e.is_float() => "stablehlo.power",
        Pow => {
            // Negative exponents of integers give what C gives: 1 and -1 stay themselves, the rest becomes zero.
            return f.binary("stablehlo.power", a, b);
        }
        LogicalAnd | LogicalOr | LogicalXor => {
            let (a, b) = (f.convert(a, ElementType::Pred), f.convert(b, ElementType::Pred));
            let name = match kind {
                LogicalAnd => "stablehlo.and",
                LogicalOr => "stablehlo.or",
                _ => "stablehlo.xor",
            };
            return f.binary(name, &a, &b);
        }
        Fmax | Fmin => {
            if !e.is_float() {
                return f.binary(if kind == Fmax { "stablehlo.maximum" } else { "stablehlo.minimum" }, a, b);
            }
            let (na, nb) = (f.compare(Direction::Ne, a, a), f.compare(Direction::Ne, b, b));
            let m = f.binary(if kind == Fmax { "stablehlo.maximum" } else { "stablehlo.minimum" }, a, b);
            let m = f.select(&nb, a, &m);
            return f.select(&na, b, &m);
        }
        Fmod => "stablehlo.remainder",
        Gcd => return lower_gcd(f, a, b),
        Lcm => {
            let g = lower_gcd(f, a, b);
            let (zero, one) = (f.splat_i64(0, a.ty()), f.splat_i64(1, a.ty()));
            let none = f.compare(Direction::Eq, &g, &zero);
            let safe = f.select(&none, &one, &g);
            let y = f.binary("stablehlo.divide", a, &safe);
            let y = f.binary("stablehlo.multiply", &y, b);
            return lower_unary(UnaryKind::Abs, f, &y, DType::I64);
        }
        Igamma | Igammac | Zeta | ChebyshevT | ChebyshevU | ChebyshevV | ChebyshevW | ShiftedChebyshevT
        | ShiftedChebyshevU | ShiftedChebyshevV | ShiftedChebyshevW | HermiteH | HermiteHe | Laguerre | Legendre => {
            return analytic::binary(f, SpecialBinary(kind), a, b);
        }
        Remainder => {
            let zero = if e.is_float() { f.splat(0.0, a.ty()) } else { f.splat_i64(0, a.ty()) };
            let r = f.binary("stablehlo.remainder", a, b);
            let nonzero = f.compare(Direction::Ne, &r, &zero);
            let (nr, nb) = (f.compare(Direction::Lt, &r, &zero), f.compare(Direction::Lt, b, &zero));
            let differ = f.binary("stablehlo.xor", &nr, &nb);
            let fix = f.binary("stablehlo.and", &nonzero, &differ);
            let shifted = f.binary("stablehlo.add", &r, b);
            return f.select(&fix, &shifted, &r);
        }
        FloorDivide if e.is_float() => {
            // As the kernel: from the remainder, so that the quotient is exact.
            let r = f.binary("stablehlo.remainder", a, b);
            let zero = f.splat(0.0, a.ty());
            let d = f.binary("stablehlo.subtract", a, &r);
            let q = f.binary("stablehlo.divide", &d, b);
            let nonzero = f.compare(Direction::Ne, &r, &zero);
            let (nr, nb) = (f.compare(Direction::Lt, &r, &zero), f.compare(Direction::Lt, b, &zero));
            let differ = f.binary("stablehlo.xor", &nr, &nb);
            let fix = f.binary("stablehlo.and", &nonzero, &differ);
            let one = f.splat(1.0, a.ty());
            let less = f.binary("stablehlo.subtract", &q, &one);
            let q = f.select(&fix, &less, &q);
            let q = f.unary("stablehlo.round_nearest_even", &q);
            let plain = f.binary("stablehlo.divide", a, b);
            let by_zero = f.compare(Direction::Eq, b, &zero);
            return f.select(&by_zero, &plain, &q);
        }
        FloorDivide => {
            let q = f.binary("stablehlo.divide", a, b);
            let r = f.binary("stablehlo.remainder", a, b);
            let zero = f.splat_i64(0, a.ty());
            let nonzero = f.compare(Direction::Ne, &r, &zero);
            let (na, nb) = (f.compare(Direction::Lt, a, &zero), f.compare(Direction::Lt, b, &zero));
            let differ = f.binary("stablehlo.xor", &na, &nb);
            let fix = f.binary("stablehlo.and", &nonzero, &differ);
            let one = f.splat_i64(1, a.ty());
            let less = f.binary("stablehlo.subtract", &q, &one);
            return f.select(&fix, &less, &q);
        }
        Hypot => {
            let (aa, bb) = (f.unary("stablehlo.abs", a), f.unary("stablehlo.abs", b));
            let hi = f.binary("stablehlo.maximum", &aa, &bb);
            let lo = f.binary("stablehlo.minimum", &aa, &bb);
            let r = f.binary("stablehlo.divide", &lo, &hi);
            let r2 = f.binary("stablehlo.multiply", &r, &r);
            let one = f.splat(1.0, a.ty());
            let s = f.binary("stablehlo.add", &r2, &one);
            let s = f.unary("stablehlo.sqrt", &s);
            let y = f.binary("stablehlo.multiply", &hi, &s);
            let zero = f.splat(0.0, a.ty());
            let none = f.compare(Direction::Eq, &hi, &zero);
            let inf = f.splat(f64::INFINITY, a.ty());
            let infinite = f.compare(Direction::Eq, &hi, &inf);
            let y = f.select(&infinite, &inf, &y);
            return f.select(&none, &zero, &y);
        }
        LogAddExp => {
            let top = f.binary("stablehlo.maximum", a, b);
            let gap = f.binary("stablehlo.subtract", a, b);
            let gap = f.unary("stablehlo.abs", &gap);
            let gap = f.unary("stablehlo.negate", &gap);
            let small = f.unary("stablehlo.exponential", &gap);
            let rest = lower_unary(UnaryKind::Log1p, f, &small, DType::F32);
            let y = f.binary("stablehlo.add", &top, &rest);
            // The difference of equal infinities is none.
            let size = f.unary("stablehlo.abs", a);
            let infinity = f.splat(f64::INFINITY, a.ty());
            let (equal, infinite) = (f.compare(Direction::Eq, a, b), f.compare(Direction::Eq, &size, &infinity));
            let equal = f.binary("stablehlo.and", &equal, &infinite);
            return f.select(&equal, a, &y);
        }
        Copysign => {
            let magnitude = f.unary("stablehlo.abs", a);
            // The sign bit, not a comparison, tells -0.0 from 0.0.
            let int = match e {
                ElementType::F64 => ElementType::S64,
                ElementType::F32 => ElementType::S32,
                _ => ElementType::S16,
            };
            let bits = f.bitcast_convert(b, int);
            let zero = f.splat_i64(0, bits.ty());
            let negative = f.compare(Direction::Lt, &bits, &zero);
            let minus = f.unary("stablehlo.negate", &magnitude);
            return f.select(&negative, &minus, &magnitude);
        }
    };
    f.binary(name, a, b)
}

fn no_derivative(function: &str, argument: &str) -> Error {
    Error::not_implemented(format!("the derivative for '{function}: {argument}' is not implemented."))
}

/// Euclid's algorithm for all elements at once, until the last has ended.
fn lower_gcd(f: &mut Func, a: &Value, b: &Value) -> Value {
    let a = lower_unary(UnaryKind::Abs, f, a, DType::I64);
    let b = lower_unary(UnaryKind::Abs, f, b, DType::I64);
    let all: Vec<usize> = (0..a.rank()).collect();
    let y = f.while_loop(
        &[a, b],
        |f, s| {
            let zero = f.splat_i64(0, s[0].ty());
            let live = f.compare(Direction::Ne, &s[0], &zero);
            f.reduce(&live, torchtpu_stablehlo::ReduceKind::Or, &all)
        },
        |f, s| {
            let (zero, one) = (f.splat_i64(0, s[0].ty()), f.splat_i64(1, s[0].ty()));
            let done = f.compare(Direction::Eq, &s[0], &zero);
            let divisor = f.select(&done, &one, &s[0]);
            let r = f.binary("stablehlo.remainder", &s[1], &divisor);
            vec![f.select(&done, &zero, &r), f.select(&done, &s[1], &s[0])]
        },
    );
    y[1].clone()
}

fn binary_vjp(kind: BinaryKind, s: &Saved<'_>, g: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
    use BinaryKind::*;
    let (na, nb) = (s.needs(0), s.needs(1));
    let when = |c: bool, d: &dyn Fn() -> Result<Tensor>| if c { d().map(Some) } else { Ok(None) };
    let mul = |a: &Tensor, b: &Tensor| binary(Mul, a, b);
    let div = |a: &Tensor, b: &Tensor| binary(Div, a, b);
    let zero = || Operand::Scalar(Scalar::Float(0.0));
    let conjugated;
    let saved;
    // As for functions of one operand: formulas are given conjugates.
    let s = if s.meta(0).dtype.is_complex() {
        let conj = |t: &Option<Tensor>| t.as_ref().map(Tensor::conj).transpose();
        type Values = SmallVec<[Option<Tensor>; 2]>;
        conjugated =
            (s.x.iter().map(conj).collect::<Result<Values>>()?, s.y.iter().map(conj).collect::<Result<Values>>()?);
        saved = Saved { x: &conjugated.0, y: &conjugated.1, ..*s };
        &saved
    } else {
        s
    };
    Ok(match kind {
        Complex => (when(na, &|| g.real())?, when(nb, &|| g.imag())?),
        Add => (when(na, &|| Ok(g.clone()))?, when(nb, &|| Ok(g.clone()))?),
        Sub => (when(na, &|| Ok(g.clone()))?, when(nb, &|| g.neg())?),
        Mul => (when(na, &|| mul(g, s.x(1)))?, when(nb, &|| mul(g, s.x(0)))?),
        Div => (when(na, &|| div(g, s.x(1)))?, when(nb, &|| div(&mul(&g.neg()?, s.x(0))?, &s.x(1).square()?))?),
        Pow => (
            when(na, &|| {
                let (x, p) = (s.x(0), s.x(1));
                let less = arith(Sub, Operand::Tensor(p), Operand::Scalar(Scalar::Int(1)))?;
                let d = mul(&mul(g, p)?, &binary(Pow, x, &less)?)?;
                // x^0 is constant, also at x = 0 where the formula divides by zero.
                let flat = compare(CompareKind::Eq, Operand::Tensor(p), zero())?;
                select_scalar(&flat, 0.0, &d)
            })?,
            when(nb, &|| {
                let (x, p) = (s.x(0), s.x(1));
                let d = mul(&mul(g, s.y(0))?, &x.log()?)?;
                let still = compare(CompareKind::Eq, Operand::Tensor(x), zero())?;
                let mut rising = compare(CompareKind::Ge, Operand::Tensor(&p.real()?), zero())?;
                if p.dtype().is_complex() {
                    let real = compare(CompareKind::Eq, Operand::Tensor(&p.imag()?), zero())?;
                    rising = binary(LogicalAnd, &rising, &real)?;
                }
                select_scalar(&binary(LogicalAnd, &still, &rising)?, 0.0, &d)
            })?,
        ),
        Maximum | Minimum | Fmax | Fmin => {
            let (a, b) = (s.x(0), s.x(1));
            let dir = if matches!(kind, Maximum | Fmax) { CompareKind::Gt } else { CompareKind::Lt };
            // Ties share the gradient.
            let half = arith(Mul, Operand::Tensor(g), Operand::Scalar(Scalar::Float(0.5)))?;
            let tie = compare(CompareKind::Eq, Operand::Tensor(a), Operand::Tensor(b))?;
            let part = |wins: &Tensor| -> Result<Tensor> {
                let d = select(wins, g, &Tensor::zeros_like_meta(g.meta())?)?;
                select(&tie, &half, &d)
            };
            (
                when(na, &|| part(&compare(dir, Operand::Tensor(a), Operand::Tensor(b))?))?,
                when(nb, &|| part(&compare(dir, Operand::Tensor(b), Operand::Tensor(a))?))?,
            )
        }
        Remainder => {
            (when(na, &|| Ok(g.clone()))?, when(nb, &|| mul(g, &binary(FloorDivide, s.x(0), s.x(1))?)?.neg())?)
        }
        Fmod => (when(na, &|| Ok(g.clone()))?, when(nb, &|| mul(g, &div(s.x(0), s.x(1))?.trunc()?)?.neg())?),
        FloorDivide => {
            (when(na, &|| Tensor::zeros_like_meta(g.meta()))?, when(nb, &|| Tensor::zeros_like_meta(g.meta()))?)
        }
        Atan2 => {
            let r2 = binary(Add, &s.x(0).square()?, &s.x(1).square()?)?;
            (when(na, &|| div(&mul(g, s.x(1))?, &r2))?, when(nb, &|| div(&mul(g, s.x(0))?, &r2)?.neg())?)
        }
        LogAddExp => {
            let gap = || binary(Sub, s.x(0), s.x(1));
            (when(na, &|| mul(g, &gap()?.sigmoid()?))?, when(nb, &|| mul(g, &gap()?.neg()?.sigmoid()?))?)
        }
        Hypot => {
            let y = binary(Hypot, s.x(0), s.x(1))?;
            (when(na, &|| mul(g, &div(s.x(0), &y)?))?, when(nb, &|| mul(g, &div(s.x(1), &y)?))?)
        }
        Copysign => (
            when(na, &|| {
                let flipped = binary(Copysign, s.x(0), s.x(1))?;
                let same = compare(CompareKind::Eq, Operand::Tensor(&flipped), Operand::Tensor(s.x(0)))?;
                let d = select(&same, g, &g.neg()?)?;
                let at_zero = compare(CompareKind::Eq, Operand::Tensor(s.x(0)), zero())?;
                select_scalar(&at_zero, 0.0, &d)
            })?,
            when(nb, &|| Tensor::zeros_like_meta(g.meta()))?,
        ),
        NextAfter => (when(na, &|| Ok(g.clone()))?, when(nb, &|| Tensor::zeros_like_meta(g.meta()))?),
        Igamma | Igammac => {
            if na {
                return Err(no_derivative(kind.name(), "input"));
            }
            let (a, x) = (s.x(0), s.x(1));
            // The density of the gamma distribution.
            let less = arith(Sub, Operand::Tensor(a), Operand::Scalar(Scalar::Int(1)))?;
            let density = mul(&less, &x.log()?)?.sub(x)?.sub(&a.lgamma()?)?.exp()?;
            let d = mul(g, &density)?;
            (None, when(nb, &|| if kind == Igamma { Ok(d.clone()) } else { d.neg() })?)
        }
        Zeta => {
            if na {
                return Err(no_derivative("zeta", "input"));
            }
            let next = arith(Add, Operand::Tensor(s.x(0)), Operand::Scalar(Scalar::Int(1)))?;
            (None, when(nb, &|| mul(&mul(g, &s.x(0).neg()?)?, &binary(Zeta, &next, s.x(1))?))?)
        }
        BitwiseAnd | BitwiseOr | BitwiseXor | LeftShift | RightShift | LogicalAnd | LogicalOr | LogicalXor | Gcd
        | Lcm | ChebyshevT | ChebyshevU | ChebyshevV | ChebyshevW | ShiftedChebyshevT | ShiftedChebyshevU
        | ShiftedChebyshevV | ShiftedChebyshevW | HermiteH | HermiteHe | Laguerre | Legendre => (None, None),
    })
}

/// The dtype in which two operands meet: tensors with dimensions decide, then 0-d tensors, then numbers, each only when
/// its category is higher (`torch.result_type`).
#[inline]
pub fn result_type(a: Operand<'_>, b: Operand<'_>) -> DType {
    if let (Operand::Tensor(x), Operand::Tensor(y)) = (a, b)
        && x.dtype() == y.dtype()
        && !x.is_wrapped_number()
        && !y.is_wrapped_number()
    {
        return x.dtype();
    }
    result_type_of(&[a, b])
}

/// [`result_type`] of any number of operands.
pub fn result_type_of(xs: &[Operand<'_>]) -> DType {
    // By rank: 0 numbers, 1 tensors without dimensions, 2 tensors with dimensions.
    let mut best: [Option<DType>; 3] = [None; 3];
    for x in xs {
        let (rank, d) = match x {
            Operand::Scalar(s) => (0, s.dtype()),
            Operand::Tensor(t) if t.is_wrapped_number() => {
                let d = t.dtype();
                (
                    0,
                    if d.is_complex() {
                        default_complex()
                    } else if d.is_float() {
                        default_dtype()
                    } else {
                        d
                    },
                )
            }
            Operand::Tensor(t) => (if t.dims().is_empty() { 1 } else { 2 }, t.dtype()),
        };
        best[rank] = Some(best[rank].map_or(d, |e| scalar::promote_types(e, d)));
    }
    let mut result: Option<DType> = None;
    for &d in best.iter().flatten() {
        result = Some(result.map_or(d, |r| outranked(d, r)));
    }
    result.unwrap_or(DType::F32)
}

/// The dtype `high` of tensors that rank above operands of dtype `low`: it changes only where its category is lower. A
/// floating-point type meeting a complex one keeps its precision.
fn outranked(high: DType, low: DType) -> DType {
    match (scalar::category(high), scalar::category(low)) {
        (2, 3) => high.to_complex().unwrap_or(high),
        (h, l) if l > h => scalar::promote_types(high, low),
        _ => high,
    }
}

/// An operand as a tensor of the given dtype; a number becomes a 0-d tensor that stands for it.
#[inline]
pub(crate) fn as_tensor(x: Operand<'_>, dtype: DType) -> Result<Tensor> {
    match x {
        Operand::Tensor(t) if t.dtype() == dtype => Ok(t.clone()),
        Operand::Tensor(t) => t.to_dtype(dtype),
        Operand::Scalar(s) => Tensor::number(s, dtype),
    }
}

/// Applies a binary op to two tensors, after promotion.
#[inline]
pub fn binary(kind: BinaryKind, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let same = a.dtype() == b.dtype() && !a.is_wrapped_number() && !b.is_wrapped_number();
    if same && a.dtype().is_float() {
        return match twins(kind, a, b) {
            Some(y) => y,
            None => dispatch::call(Prim::Binary(Binary(kind)), &[a, b]),
        };
    }
    if same && !is_float_only(kind) {
        return dispatch::call(Prim::Binary(Binary(kind)), &[a, b]);
    }
    arith(kind, Operand::Tensor(a), Operand::Tensor(b))
}

/// The shortest way for the commonest call: arithmetic on two contiguous floating-point tensors of equal sizes on one
/// device, small ones on `cpu`. There, what `infer` would find is what `a` is. `None` for anything else.
#[inline(always)]
fn twins(kind: BinaryKind, a: &Tensor, b: &Tensor) -> Option<Result<Tensor>> {
    use BinaryKind::*;
    if !matches!(kind, Add | Sub | Mul | Div | Maximum | Minimum)
        || a.dims() != b.dims()
        || !b.is_contiguous()
        || b.device() != a.device()
        || dispatch::is_observed()
    {
        return None;
    }
    let record = graph::may_need_grad(&[a, b]);
    let y = match a.device().kind {
        DeviceKind::Cpu => {
            let (y, n) = (a.empty_twin()?, [a.numel()]);
            kernels::binary(kind, &a.view_flat(&n), &b.view_flat(&n), &mut y.view_flat_mut(&n)).ok()?;
            y
        }
        DeviceKind::Tpu if !record && a.is_contiguous() => {
            return Some(dispatch::record_twin(&Prim::Binary(Binary(kind)), a, b));
        }
        _ => return None,
    };
    if record && let Err(e) = graph::record(Prim::Binary(Binary(kind)), &[a, b], std::slice::from_ref(&y)) {
        return Some(Err(e));
    }
    Some(Ok(y))
}

/// [`twins`] with a number: it is spread over a small buffer, which costs less than a loop with a stride of zero.
#[inline(always)]
fn twin_of_number(kind: BinaryKind, a: &Tensor, s: Scalar) -> Option<Tensor> {
    use BinaryKind::*;
    if !matches!(kind, Add | Sub | Mul | Div)
        || a.device().kind != DeviceKind::Cpu
        || a.numel() > 32
        || dispatch::is_observed()
        || graph::may_need_grad(&[a])
    {
        return None;
    }
    let n = [a.numel()];
    let run = |b: &View<'_>| -> Option<Tensor> {
        let y = a.empty_twin()?;
        kernels::binary(kind, &a.view_flat(&n), b, &mut y.view_flat_mut(&n)).ok()?;
        Some(y)
    };
    match a.dtype() {
        DType::F32 => run(&View::of_slice(&[s.to_f64() as f32; 32], &n, &[1])),
        DType::F64 => run(&View::of_slice(&[s.to_f64(); 32], &n, &[1])),
        _ => None,
    }
}

/// Applies a binary op to tensors or numbers, after promotion.
pub fn arith(kind: BinaryKind, a: Operand<'_>, b: Operand<'_>) -> Result<Tensor> {
    if let (Operand::Tensor(x), Operand::Tensor(y)) = (a, b)
        && x.dtype() == y.dtype()
        && x.dtype().is_float()
        && !x.is_wrapped_number()
        && !y.is_wrapped_number()
    {
        return binary(kind, x, y);
    }
    let mut dtype = result_type(a, b);
    if is_float_only(kind) && !dtype.is_inexact() {
        dtype = default_dtype();
    }
    if kind == BinaryKind::Pow
        && dtype.is_int()
        && let Operand::Scalar(Scalar::Int(p)) = b
        && p < 0
    {
        return Err(Error::runtime("Integers to negative integer powers are not allowed."));
    }
    match (a, b) {
        (Operand::Tensor(a), Operand::Scalar(s)) if a.dtype() == dtype => {
            if let Some(y) = twin_of_number(kind, a, s) {
                return Ok(y);
            }
            dispatch::call(Prim::Binary(Binary(kind)), &[a, &Tensor::number(s, dtype)?])
        }
        _ => dispatch::call(Prim::Binary(Binary(kind)), &[&as_tensor(a, dtype)?, &as_tensor(b, dtype)?]),
    }
}

/// The in-place form.
pub fn arith_(kind: BinaryKind, a: &Tensor, b: Operand<'_>) -> Result<()> {
    inplace::check_writable(a)?;
    let dtype = result_type(Operand::Tensor(a), b);
    if dtype == a.dtype() && (dtype.is_inexact() || !is_float_only(kind)) {
        let number;
        let b = match b {
            Operand::Tensor(b) if b.dtype() == dtype => Some(b),
            Operand::Scalar(s) => {
                number = Tensor::number(s, dtype)?;
                Some(&number)
            }
            _ => None,
        };
        if let Some(b) = b
            && dispatch::call_into(&Prim::Binary(Binary(kind)), &[a, b], a)?
        {
            return Ok(());
        }
    }
    inplace::apply(a, |x| arith(kind, Operand::Tensor(x), b))
}

// ------------------------------------------------------------------------------------------------ comparisons

/// `y = a < b` and its kin, broadcast; gives `bool`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Compare(pub CompareKind);

impl Op for Compare {
    const NAME: &'static str = "compare";
    const DIFFERENTIABLE: u64 = 0;
    fn label(&self) -> &'static str {
        self.0.name()
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if x[0].dtype().is_complex() && !matches!(self.0, CompareKind::Eq | CompareKind::Ne) {
            return Err(super::complex::unsupported(&format!("{}_cpu", self.0.name()), x[0].dtype()));
        }
        Ok(Meta { dims: broadcast_dims(x[0].dims(), x[1].dims())?, dtype: DType::Bool, device: same_device(x)? })
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let out = &y[0];
        let (sa, sb) = (broadcast_strides(x[0], out.dims()), broadcast_strides(x[1], out.dims()));
        kernels::compare(self.0, &x[0].view_as(out.dims(), &sa), &x[1].view_as(out.dims(), &sb), &mut out.view_mut())
            .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let (a, b) = (f.broadcast_to(&x[0], &y[0].dims), f.broadcast_to(&x[1], &y[0].dims));
        let dir = match self.0 {
            CompareKind::Eq => Direction::Eq,
            CompareKind::Ne => Direction::Ne,
            CompareKind::Lt => Direction::Lt,
            CompareKind::Le => Direction::Le,
            CompareKind::Gt => Direction::Gt,
            CompareKind::Ge => Direction::Ge,
        };
        smallvec![f.compare(dir, &a, &b)]
    }
    fn vjp(&self, _: &Saved<'_>, _: &Tensor) -> Result<Grads> {
        Ok(smallvec![None, None]) // piecewise constant
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Compares tensors or numbers, after promotion.
pub fn compare(kind: CompareKind, a: Operand<'_>, b: Operand<'_>) -> Result<Tensor> {
    let dtype = result_type(a, b);
    dispatch::call(Prim::Compare(Compare(kind)), &[&as_tensor(a, dtype)?, &as_tensor(b, dtype)?])
}

// ------------------------------------------------------------------------------------------------ choice

/// `y = cond ? a : b`, broadcast; `cond` is `bool`, `a` and `b` have the same dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Select;

impl Op for Select {
    const NAME: &'static str = "where";
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if x[0].dtype() != DType::Bool {
            return Err(Error::runtime(format!(
                "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
                x[0].dtype().scalar_type()
            )));
        }
        let dims = broadcast_dims(&broadcast_dims(x[0].dims(), x[1].dims())?, x[2].dims())?;
        Ok(Meta { dims, dtype: x[1].dtype(), device: same_device(x)? })
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let out = &y[0];
        let s = [0, 1, 2].map(|i| broadcast_strides(x[i], out.dims()));
        let v = [0, 1, 2].map(|i| x[i].view_as(out.dims(), &s[i]));
        kernels::select(&v[0], &v[1], &v[2], &mut out.view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let v = [0, 1, 2].map(|i| f.broadcast_to(&x[i], &y[0].dims));
        smallvec![f.select(&v[0], &v[1], &v[2])]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let cond = s.x(0);
        let zero = Tensor::number(Scalar::Float(0.0), g.dtype())?;
        let part = |i: usize| -> Result<Option<Tensor>> {
            if !s.needs(i) {
                return Ok(None);
            }
            let d = if i == 1 { select(cond, g, &zero)? } else { select(cond, &zero, g)? };
            Ok(Some(d.sum_to(&s.meta(i).dims)?))
        };
        Ok(smallvec![None, part(1)?, part(2)?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b001)
    }
}

/// Chooses between two tensors of the same dtype.
pub fn select(cond: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::Select(Select), &[cond, a, b])
}

/// Chooses a number where `cond` holds.
pub fn select_scalar(cond: &Tensor, value: f64, x: &Tensor) -> Result<Tensor> {
    select(cond, &Tensor::number(Scalar::Float(value), x.dtype())?, x)
}

/// `y` with the gradient zero, rather than none, to what it was made from.
pub fn independent_of(x: &Tensor, y: Tensor) -> Result<Tensor> {
    if !y.dtype().is_inexact() || !graph::may_need_grad(&[x]) {
        return Ok(y);
    }
    let never = Meta { dims: Dims::EMPTY, dtype: DType::Bool, device: y.device() };
    select(&Tensor::full_meta(&never, Scalar::Bool(false))?, &x.to_dtype(y.dtype())?, &y)
}

/// `torch.where`: chooses between tensors or numbers, after promotion.
pub fn where_(cond: &Tensor, a: Operand<'_>, b: Operand<'_>) -> Result<Tensor> {
    let dtype = result_type(a, b);
    select(cond, &as_tensor(a, dtype)?, &as_tensor(b, dtype)?)
}

// ------------------------------------------------------------------------------------------------ the public functions

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

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident $scalar:ident $inplace:ident = $kind:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            pub fn $name(&self, other: &Tensor) -> Result<Tensor> { binary(BinaryKind::$kind, self, other) }
            /// With a number.
            pub fn $scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
                arith(BinaryKind::$kind, Operand::Tensor(self), Operand::Scalar(other.into()))
            }
            /// The in-place form.
            pub fn $inplace(&self, other: &Tensor) -> Result<&Tensor> {
                arith_(BinaryKind::$kind, self, Operand::Tensor(other)).map(|()| self)
            }
        )*}
    };
}

binary_methods! {
    /// `a + b`.
    add add_scalar add_ = Add;
    /// `a - b`.
    sub sub_scalar sub_ = Sub;
    /// `a * b`.
    mul mul_scalar mul_ = Mul;
    /// `a / b`, always floating point.
    div div_scalar div_ = Div;
    /// `a ^ b`.
    pow pow_scalar pow_ = Pow;
    /// The larger one; NaN wins.
    maximum maximum_scalar maximum_ = Maximum;
    /// The smaller one; NaN wins.
    minimum minimum_scalar minimum_ = Minimum;
    /// `a - b * floor(a / b)`.
    remainder remainder_scalar remainder_ = Remainder;
    /// `floor(a / b)`.
    floor_divide floor_divide_scalar floor_divide_ = FloorDivide;
    /// Whether both are true.
    logical_and logical_and_scalar logical_and_ = LogicalAnd;
    /// Whether one is true.
    logical_or logical_or_scalar logical_or_ = LogicalOr;
    /// Whether they differ in truth.
    logical_xor logical_xor_scalar logical_xor_ = LogicalXor;
}

macro_rules! compare_methods {
    ($($(#[$doc:meta])* $name:ident $scalar:ident = $kind:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            pub fn $name(&self, other: &Tensor) -> Result<Tensor> {
                compare(CompareKind::$kind, Operand::Tensor(self), Operand::Tensor(other))
            }
            /// With a number.
            pub fn $scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
                compare(CompareKind::$kind, Operand::Tensor(self), Operand::Scalar(other.into()))
            }
        )*}
    };
}

compare_methods! {
    /// `a == b`, element by element.
    eq eq_scalar = Eq;
    /// `a != b`, element by element.
    ne ne_scalar = Ne;
    /// `a < b`, element by element.
    lt lt_scalar = Lt;
    /// `a <= b`, element by element.
    le le_scalar = Le;
    /// `a > b`, element by element.
    gt gt_scalar = Gt;
    /// `a >= b`, element by element.
    ge ge_scalar = Ge;
}

/// `a + alpha * b`.
fn add_alpha(kind: BinaryKind, a: Operand<'_>, b: Operand<'_>, alpha: Scalar) -> Result<Tensor> {
    if alpha == Scalar::Int(1) || alpha == Scalar::Float(1.0) {
        return arith(kind, a, b);
    }
    let dtype = result_type(a, b);
    check_alpha(dtype, alpha)?;
    let b = match b {
        Operand::Scalar(s) => {
            return arith(
                kind,
                a,
                Operand::Scalar(match (s, alpha) {
                    (Scalar::Int(x), Scalar::Int(y)) => Scalar::Int(x.wrapping_mul(y)),
                    (x, y) if x.is_complex() || y.is_complex() => {
                        let ((a, b), (c, d)) = (x.to_complex(), y.to_complex());
                        Scalar::Complex(a * c - b * d, a * d + b * c)
                    }
                    _ => Scalar::Float(s.to_f64() * alpha.to_f64()),
                }),
            );
        }
        Operand::Tensor(b) => arith(BinaryKind::Mul, Operand::Tensor(b), Operand::Scalar(alpha))?,
    };
    arith(kind, a, Operand::Tensor(&b))
}

fn check_alpha(dtype: DType, alpha: Scalar) -> Result<()> {
    match alpha {
        Scalar::Bool(_) if dtype != DType::Bool => {
            Err(Error::runtime("Boolean alpha only supported for Boolean results."))
        }
        Scalar::Complex(..) if !dtype.is_complex() => {
            Err(Error::runtime("For non-complex input tensors, argument alpha must not be a complex number."))
        }
        Scalar::Float(_) if !dtype.is_inexact() => {
            Err(Error::runtime("For integral input tensors, argument alpha must not be a floating point number."))
        }
        _ => Ok(()),
    }
}

fn add_alpha_(kind: BinaryKind, a: &Args<'_>) -> Result<Ret> {
    let x = a.tensor(0)?;
    let alpha = a.scalar(2)?;
    if alpha == Scalar::Int(1) {
        arith_(kind, x, a.operand(1)?)?;
    } else {
        inplace::apply(x, |x| add_alpha(kind, Operand::Tensor(x), a.operand(1)?, alpha))?;
    }
    Ok(Ret::Tensor(x.clone()))
}

const INTS: &[DType] = &[DType::I64, DType::I32, DType::U8];
const ALL: &[DType] = &[DType::F64, DType::BF16, DType::I64, DType::I32, DType::U8, DType::Bool];

macro_rules! unary_rows {
    ($($name:literal $kind:ident $samples:expr;)*) => {
        /// Rows of the ops with one operand.
        pub const UNARY_ROWS: &[Row] = &[$(
            Row::new(concat!($name, "(Tensor self) -> Tensor"), Tier::Prim, |a| Ok(unary(UnaryKind::$kind, a.tensor(0)?)?.into()), $samples)
                .inplace_by(|a| {
                    let x = a.tensor(0)?;
                    unary_(UnaryKind::$kind, x)?;
                    Ok(Ret::Tensor(x.clone()))
                }),
        )*];
    };
}

unary_rows! {
    "neg" Neg samples!([t(&[2, 3])]);
    "negative" Neg samples!([t(&[2, 3])]);
    "abs" Abs samples!([t(&[2, 3])], [t(&[0, 3])]);
    "absolute" Abs samples!([t(&[2, 3])]);
    "sign" Sign || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(INTS)];
    "exp" Exp samples!([t(&[2, 3])], [t(&[])]);
    "exp2" Exp2 samples!([t(&[2, 3])]);
    "expm1" Expm1 samples!([t(&[2, 3])]);
    "log" Log samples!([positive(&[2, 3])]);
    "log2" Log2 samples!([positive(&[2, 3])]);
    "log10" Log10 samples!([positive(&[2, 3])]);
    "log1p" Log1p samples!([positive(&[2, 3])]);
    "sqrt" Sqrt samples!([positive(&[2, 3])]);
    "rsqrt" Rsqrt samples!([positive(&[2, 3])]);
    "reciprocal" Reciprocal samples!([positive(&[2, 3])]);
    "square" Square samples!([t(&[2, 3])]);
    "sin" Sin samples!([t(&[2, 3])]);
    "cos" Cos samples!([t(&[2, 3])]);
    "tan" Tan samples!([unit(&[2, 3])]);
    "asin" Asin samples!([unit(&[2, 3])]);
    "acos" Acos samples!([unit(&[2, 3])]);
    "atan" Atan samples!([t(&[2, 3])]);
    "sinh" Sinh samples!([t(&[2, 3])]);
    "cosh" Cosh samples!([t(&[2, 3])]);
    "tanh" Tanh samples!([t(&[2, 3])]);
    "asinh" Asinh samples!([t(&[2, 3])]);
    "acosh" Acosh || vec![crate::schema::Sample::new(vec![positive(&[2, 3])]).no_gradient()];
    "atanh" Atanh samples!([unit(&[2, 3])]);
    "arcsin" Asin samples!([unit(&[2, 3])]);
    "arccos" Acos samples!([unit(&[2, 3])]);
    "arctan" Atan samples!([t(&[2, 3])]);
    "arcsinh" Asinh samples!([t(&[2, 3])]);
    "arccosh" Acosh || vec![crate::schema::Sample::new(vec![positive(&[2, 3])]).no_gradient()];
    "arctanh" Atanh samples!([unit(&[2, 3])]);
    "sigmoid" Sigmoid samples!([t(&[2, 3])]);
    "erf" Erf samples!([t(&[2, 3])]);
    "erfc" Erfc samples!([t(&[2, 3])]);
    "erfinv" Erfinv samples!([unit(&[2, 3])]);
    "lgamma" Lgamma samples!([positive(&[2, 3])]);
    "digamma" Digamma || vec![crate::schema::Sample::new(vec![positive(&[2, 3])]).no_gradient()];
    "floor" Floor || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(INTS)];
    "ceil" Ceil || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(INTS)];
    "round" Round || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient()];
    "trunc" Trunc || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient()];
    "fix" Trunc || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient()];
    "frac" Frac samples!([t(&[2, 3])]);
    "relu" Relu samples!([t(&[2, 3])]);
    "logical_not" LogicalNot || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)];
    "bitwise_not" BitwiseNot || vec![crate::schema::Sample::new(vec![index(&[2, 3], 9)]).no_gradient()];
    "i0" I0 samples!([t(&[2, 3])]);
    "isnan" IsNan || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)];
    "isinf" IsInf || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)];
    "isfinite" IsFinite || vec![crate::schema::Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)];
}

fn special_samples(fill: fn(&[usize]) -> crate::schema::SampleArg, gradient: bool) -> Vec<crate::schema::Sample> {
    let s = crate::schema::Sample::new(vec![fill(&[2, 3])]).dtypes(&[DType::F64, DType::I64]);
    vec![if gradient { s } else { s.no_gradient() }]
}

macro_rules! special_rows {
    ($($name:literal $kind:ident $fill:ident $gradient:literal;)*) => {
        /// Rows of the special functions of one operand.
        pub const SPECIAL_UNARY_ROWS: &[Row] = &[$(
            Row::new(concat!("special_", $name, "(Tensor self) -> Tensor"), Tier::Prim, |a| Ok(unary(UnaryKind::$kind, a.tensor(0)?)?.into()), || special_samples($fill, $gradient))
                .scope(crate::schema::Scope::Nn),
        )*];
    };
}

special_rows! {
    "i0" I0 t true;
    "i0e" I0e t true;
    "i1" I1 t true;
    "i1e" I1e t true;
    "modified_bessel_i0" ModifiedBesselI0 t true;
    "modified_bessel_i1" ModifiedBesselI1 t true;
    "modified_bessel_k0" ModifiedBesselK0 positive true;
    "modified_bessel_k1" ModifiedBesselK1 positive true;
    "scaled_modified_bessel_k0" ScaledModifiedBesselK0 positive false;
    "scaled_modified_bessel_k1" ScaledModifiedBesselK1 positive false;
    "bessel_j0" BesselJ0 t true;
    "bessel_j1" BesselJ1 t true;
    "bessel_y0" BesselY0 positive true;
    "bessel_y1" BesselY1 positive true;
    "spherical_bessel_j0" SphericalBesselJ0 t false;
    "airy_ai" AiryAi t false;
    "erfcx" Erfcx t true;
    "log_ndtr" LogNdtr t true;
    "ndtri" Ndtri fraction true;
}

/// Numbers within (0, 1): `ndtri` of integers is infinite or none, which is compared too.
fn fraction(dims: &[usize]) -> crate::schema::SampleArg {
    crate::schema::SampleArg::Tensor(dims.to_vec(), crate::schema::Fill::Fraction)
}

macro_rules! special_binary_rows {
    ($($name:literal $kind:ident;)*) => {
        /// Rows of the orthogonal polynomials and the zeta function.
        pub const SPECIAL_BINARY_ROWS: &[Row] = &[$(
            Row::new($name, Tier::Prim, |a| Ok(special_binary(BinaryKind::$kind, a.operand(0)?, a.operand(1)?)?.into()), || polynomial_samples(BinaryKind::$kind))
                .scope(crate::schema::Scope::Nn),
        )*];
    };
}

special_binary_rows! {
    "special_zeta(Tensor self, Tensor other) -> Tensor" Zeta;
    "special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor" ChebyshevT;
    "special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor" ChebyshevU;
    "special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor" ChebyshevV;
    "special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor" ChebyshevW;
    "special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor" ShiftedChebyshevT;
    "special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor" ShiftedChebyshevU;
    "special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor" ShiftedChebyshevV;
    "special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor" ShiftedChebyshevW;
    "special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor" HermiteH;
    "special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor" HermiteHe;
    "special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor" Laguerre;
    "special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor" Legendre;
}

/// Gradients reach only the zeta function's second operand.
fn special_binary(kind: BinaryKind, a: Operand<'_>, b: Operand<'_>) -> Result<Tensor> {
    if polynomial(kind).is_some() {
        let detached = |x: Operand<'_>| if let Operand::Tensor(t) = x { Some(t.detach()) } else { None };
        let (da, db) = (detached(a), detached(b));
        return arith(kind, da.as_ref().map_or(a, Operand::Tensor), db.as_ref().map_or(b, Operand::Tensor));
    }
    arith(kind, a, b)
}

fn polynomial_samples(kind: BinaryKind) -> Vec<crate::schema::Sample> {
    use crate::schema::Sample;
    if kind == BinaryKind::Zeta {
        return vec![Sample::new(vec![n(2.5), positive(&[2, 3])]), Sample::new(vec![n(3), t(&[2, 3])])];
    }
    vec![
        Sample::new(vec![t(&[2, 3]), index(&[2, 3], 7)]).no_gradient().dtypes(&[DType::F64]),
        Sample::new(vec![unit(&[4]), n(11)]).no_gradient().dtypes(&[DType::F64]),
        Sample::new(vec![t(&[4]), t(&[4])]).no_gradient(),
    ]
}

macro_rules! binary_rows {
    ($($schema:literal $kind:ident $samples:expr;)*) => {
        /// Rows of the ops with two operands, a tensor and a tensor or number.
        pub const BINARY_ROWS: &[Row] = &[$(
            Row::new($schema, Tier::Prim, |a| Ok(arith(BinaryKind::$kind, a.operand(0)?, a.operand(1)?)?.into()), $samples)
                .inplace_by(|a| {
                    let x = a.tensor(0)?;
                    arith_(BinaryKind::$kind, x, a.operand(1)?)?;
                    Ok(Ret::Tensor(x.clone()))
                }),
        )*];
    };
}

fn two_integers() -> Vec<crate::schema::Sample> {
    vec![
        crate::schema::Sample::new(vec![index(&[2, 3], 9), index(&[3], 5)]).no_gradient(),
        crate::schema::Sample::new(vec![index(&[2, 3], 9), n(3)]).no_gradient(),
    ]
}
fn two_integer_tensors() -> Vec<crate::schema::Sample> {
    vec![crate::schema::Sample::new(vec![index(&[2, 3], 9), index(&[3], 7)]).no_gradient()]
}
fn incomplete_gammas() -> Vec<crate::schema::Sample> {
    // The gradient to the first operand is not implemented, as in PyTorch.
    vec![crate::schema::Sample::new(vec![positive(&[2, 3]), positive(&[3])]).no_gradient().dtypes(&[DType::F64])]
}
fn two_masks() -> Vec<crate::schema::Sample> {
    vec![
        crate::schema::Sample::new(vec![mask(&[2, 3]), mask(&[3])]).no_gradient(),
        crate::schema::Sample::new(vec![t(&[2, 3]), t(&[2, 1])]).no_gradient(),
    ]
}

binary_rows! {
    "mul.Tensor(Tensor self, Tensor other) -> Tensor" Mul samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 1]), t(&[3])], [t(&[2, 3]), n(2.5)]);
    "multiply.Tensor(Tensor self, Tensor other) -> Tensor" Mul samples!([t(&[2, 3]), t(&[2, 3])]);
    "div.Tensor(Tensor self, Tensor other) -> Tensor" Div samples!([t(&[2, 3]), positive(&[2, 3])], [t(&[2, 1]), positive(&[3])], [t(&[2, 3]), n(2)]);
    "divide.Tensor(Tensor self, Tensor other) -> Tensor" Div samples!([t(&[2, 3]), positive(&[2, 3])]);
    "true_divide.Tensor(Tensor self, Tensor other) -> Tensor" Div samples!([t(&[2, 3]), positive(&[2, 3])]);
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor" Pow samples!([positive(&[2, 3]), t(&[3])], [positive(&[2, 3]), n(2.5)], [t(&[2, 3]), n(3)]);
    "maximum(Tensor self, Tensor other) -> Tensor" Maximum samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 3]), t(&[3])]);
    "minimum(Tensor self, Tensor other) -> Tensor" Minimum samples!([t(&[2, 3]), t(&[2, 3])]);
    "fmax(Tensor self, Tensor other) -> Tensor" Fmax samples!([t(&[2, 3]), t(&[3])]);
    "fmin(Tensor self, Tensor other) -> Tensor" Fmin samples!([t(&[2, 3]), t(&[3])]);
    "remainder.Tensor(Tensor self, Tensor other) -> Tensor" Remainder samples!([t(&[2, 3]), n(0.7)], [t(&[2, 3]), positive(&[2, 3])]);
    "fmod.Tensor(Tensor self, Tensor other) -> Tensor" Fmod samples!([t(&[2, 3]), n(0.7)], [t(&[2, 3]), positive(&[2, 3])]);
    "floor_divide(Tensor self, Tensor other) -> Tensor" FloorDivide || vec![crate::schema::Sample::new(vec![t(&[2, 3]), positive(&[3])]).no_gradient(), crate::schema::Sample::new(vec![index(&[2, 3], 9), n(2)]).no_gradient()];
    "atan2(Tensor self, Tensor other) -> Tensor" Atan2 samples!([t(&[2, 3]), positive(&[2, 3])]);
    "hypot(Tensor self, Tensor other) -> Tensor" Hypot samples!([t(&[2, 3]), positive(&[3])]);
    "nextafter(Tensor self, Tensor other) -> Tensor" NextAfter || vec![crate::schema::Sample::new(vec![t(&[2, 3]), t(&[3])]).no_gradient()];
    "copysign.Tensor(Tensor self, Tensor other) -> Tensor" Copysign samples!([t(&[2, 3]), t(&[3])]);
    "arctan2(Tensor self, Tensor other) -> Tensor" Atan2 samples!([t(&[2, 3]), positive(&[2, 3])]);
    "gcd(Tensor self, Tensor other) -> Tensor" Gcd two_integer_tensors;
    "lcm(Tensor self, Tensor other) -> Tensor" Lcm two_integer_tensors;
    "igamma(Tensor self, Tensor other) -> Tensor" Igamma incomplete_gammas;
    "igammac(Tensor self, Tensor other) -> Tensor" Igammac incomplete_gammas;
    "bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor" BitwiseAnd two_integers;
    "bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor" BitwiseOr two_integers;
    "bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor" BitwiseXor two_integers;
    "bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor" LeftShift two_integers;
    "bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor" RightShift two_integers;
    "logical_and(Tensor self, Tensor other) -> Tensor" LogicalAnd two_masks;
    "logical_or(Tensor self, Tensor other) -> Tensor" LogicalOr two_masks;
    "logical_xor(Tensor self, Tensor other) -> Tensor" LogicalXor two_masks;
}

macro_rules! compare_rows {
    ($($schema:literal $kind:ident;)*) => {
        /// Rows of the comparisons.
        pub const COMPARE_ROWS: &[Row] = &[$(
            Row::new($schema, Tier::Prim, |a| Ok(compare(CompareKind::$kind, a.operand(0)?, a.operand(1)?)?.into()), || vec![
                crate::schema::Sample::new(vec![t(&[2, 3]), t(&[3])]).no_gradient(),
                crate::schema::Sample::new(vec![t(&[2, 3]), n(0.5)]).no_gradient(),
                crate::schema::Sample::new(vec![index(&[2, 3], 4), n(2)]).no_gradient(),
            ])
            .inplace(),
        )*];
    };
}

compare_rows! {
    "eq.Tensor(Tensor self, Tensor other) -> Tensor" Eq;
    "ne.Tensor(Tensor self, Tensor other) -> Tensor" Ne;
    "lt.Tensor(Tensor self, Tensor other) -> Tensor" Lt;
    "le.Tensor(Tensor self, Tensor other) -> Tensor" Le;
    "gt.Tensor(Tensor self, Tensor other) -> Tensor" Gt;
    "ge.Tensor(Tensor self, Tensor other) -> Tensor" Ge;
    "not_equal.Tensor(Tensor self, Tensor other) -> Tensor" Ne;
    "less.Tensor(Tensor self, Tensor other) -> Tensor" Lt;
    "less_equal.Tensor(Tensor self, Tensor other) -> Tensor" Le;
    "greater.Tensor(Tensor self, Tensor other) -> Tensor" Gt;
    "greater_equal.Tensor(Tensor self, Tensor other) -> Tensor" Ge;
}

/// Rows of the remaining element-wise ops.
pub const ROWS: &[Row] = &[
    Row::new(
        "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        Tier::Prim,
        |a| Ok(add_alpha(BinaryKind::Add, a.operand(0)?, a.operand(1)?, a.scalar(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 1]), t(&[3])], [t(&[2, 3]), n(2)], [t(&[2, 3]), t(&[]), n(0.5)]),
    )
    .inplace_by(|a| add_alpha_(BinaryKind::Add, a)),
    Row::new(
        "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        Tier::Prim,
        |a| Ok(add_alpha(BinaryKind::Sub, a.operand(0)?, a.operand(1)?, a.scalar(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 1]), t(&[3])], [t(&[2, 3]), t(&[3]), n(2)]),
    )
    .inplace_by(|a| add_alpha_(BinaryKind::Sub, a)),
    Row::new(
        "subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        Tier::Prim,
        |a| Ok(add_alpha(BinaryKind::Sub, a.operand(0)?, a.operand(1)?, a.scalar(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[2, 3])]),
    )
    .inplace_by(|a| add_alpha_(BinaryKind::Sub, a)),
    Row::new(
        "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        Tier::Prim,
        |a| Ok(add_alpha(BinaryKind::Sub, a.operand(1)?, a.operand(0)?, a.scalar(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[3])], [t(&[2, 3]), n(2)]),
    ),
    Row::new(
        "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
        Tier::Composed,
        |a| Ok(div_mode(a.operand(0)?, a.operand(1)?, a.opt_str(2)?)?.into()),
        || {
            vec![
                crate::schema::Sample::new(vec![t(&[2, 3]), positive(&[3]), crate::schema::SampleArg::Str("trunc")])
                    .no_gradient(),
            ]
        },
    )
    .inplace(),
    Row::new(
        "divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
        Tier::Composed,
        |a| Ok(div_mode(a.operand(0)?, a.operand(1)?, a.opt_str(2)?)?.into()),
        || {
            vec![
                crate::schema::Sample::new(vec![t(&[2, 3]), positive(&[3]), crate::schema::SampleArg::Str("floor")])
                    .no_gradient(),
            ]
        },
    )
    .inplace(),
    Row::new(
        "round.decimals(Tensor self, *, int decimals) -> Tensor",
        Tier::Composed,
        |a| Ok(round_to(a.tensor(0)?, a.int(1)?)?.into()),
        || vec![crate::schema::Sample::new(vec![t(&[2, 3]), n(2)]).no_gradient()],
    )
    .inplace(),
    Row::new(
        "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
        Tier::Prim,
        |a| Ok(arith(BinaryKind::Pow, a.operand(0)?, a.operand(1)?)?.into()),
        samples!([n(2.5), t(&[2, 3])]),
    )
    .scope(crate::schema::Scope::Function),
    Row::new(
        "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
        Tier::Prim,
        |a| Ok(where_(a.tensor(0)?, a.operand(1)?, a.operand(2)?)?.into()),
        samples!([mask(&[2, 3]), t(&[2, 3]), t(&[3])], [mask(&[3]), t(&[2, 3]), n(0.5)], [mask(&[2, 1]), n(1), n(2)]),
    )
    .scope(crate::schema::Scope::Function),
];

/// Rounds to a number of decimal places; negative ones are places before the point.
fn round_to(x: &Tensor, decimals: i64) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return if decimals == 0 {
            x.copy()
        } else {
            Err(Error::runtime(format!("\"round_cpu\" not implemented for '{}'", x.dtype().scalar_type())))
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

fn div_mode(a: Operand<'_>, b: Operand<'_>, mode: Option<&str>) -> Result<Tensor> {
    match mode {
        None => arith(BinaryKind::Div, a, b),
        Some("floor") => arith(BinaryKind::FloorDivide, a, b),
        Some("trunc") => {
            let dtype = result_type(a, b);
            if dtype.is_float() {
                return arith(BinaryKind::Div, a, b)?.trunc();
            }
            // Exact for integers: take the remainder off first.
            let r = arith(BinaryKind::Fmod, a, b)?;
            let whole = arith(BinaryKind::Sub, a, Operand::Tensor(&r))?;
            arith(BinaryKind::FloorDivide, Operand::Tensor(&whole), b)
        }
        Some(other) => Err(Error::runtime(format!(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
        ))),
    }
}
