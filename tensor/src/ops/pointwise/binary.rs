//! `Binary{kind}`: functions of two operands, as a node. `arithmetic` calls it.

use super::arithmetic::{arith, arith_, binary, narrowed};
use super::compare::compare;
use super::select::{select, select_scalar};
use super::special_binary::{SpecialBinary, polynomial};
use super::unary::lower_unary;
use super::{broadcast_strides, kernel_error};
use crate::axes::Axes;
use crate::lower::{analytic, math};
use crate::op::{Facts, Func, Grads, Op, Saved, Saves, Value, Values, broadcast_dims, same_device};
use crate::policy::{Policies, Policy};
use crate::schema::{Numbers, Operand, Ret, Row, Tier, index, mask, n, positive, t};
use crate::types::compute::{narrowed as narrowed_to, widened as wide};
use crate::{DType, Error, Meta, Result, Scalar, Tensor, samples};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::pointwise::{BinaryKind, CompareKind, UnaryKind};
use torchtpu_kernels::{pointwise as kernels, widened};
use torchtpu_stablehlo::{Direction, ElementType};

/// `y = f(a, b)` for each element, broadcast. Both operands have the same dtype, with one exception: a number beside a
/// tensor of 16-bit floats may be `float32`. Their product or quotient is computed in `float32` and rounded once. The
/// exponent of a power is rounded first, as in PyTorch, and only the gradient reads all of its digits. Logical kinds
/// give `bool`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Binary(pub BinaryKind);

/// The function that replaces a power with the exponent `b` in PyTorch. Unlike powers, roots of negative infinity are
/// NaN.
fn as_root(b: &Tensor) -> Option<UnaryKind> {
    let exponent = match b.dtype() {
        DType::F32 => b.as_slice::<f32>()?[0] as f64,
        DType::F64 => b.as_slice::<f64>()?[0],
        _ => return None,
    };
    match exponent {
        0.5 => Some(UnaryKind::Sqrt),
        -0.5 => Some(UnaryKind::Rsqrt),
        _ => None,
    }
}

/// The exponent of a power, if it is a real number that is at hand.
fn exponent(p: &Tensor) -> Option<f64> {
    if !p.is_wrapped_number() || !p.place().in_memory() {
        return None;
    }
    match p.dtype() {
        DType::F32 => Some(f64::from(p.as_slice::<f32>()?[0])),
        DType::F64 => Some(p.as_slice::<f64>()?[0]),
        _ => None,
    }
}

fn is_bitwise(k: BinaryKind) -> bool {
    use BinaryKind::*;
    matches!(k, BitwiseAnd | BitwiseOr | BitwiseXor | LeftShift | RightShift)
}

/// Whether the result is floating point for all dtypes of the operands.
pub(super) fn is_float_only(k: BinaryKind) -> bool {
    use BinaryKind::*;
    matches!(k, Div | Atan2 | Hypot | LogAddExp | NextAfter | Copysign | Zeta) || polynomial(k).is_some()
}

/// Refuse complex numbers if PyTorch does, in its words.
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
    Err(crate::ops::complex::unsupported(&name, d))
}

impl Op for Binary {
    const NAME: &'static str = "binary";
    const FACTS: Facts = Facts { updates_in_place: true, is_binary: true, ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    fn label(&self) -> &'static str {
        self.0.name()
    }
    #[inline]
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (a, b) = (x[0], x[1]);
        let dims = broadcast_dims(a.dims(), b.dims())?;
        let place = same_device(x)?;
        if a.dtype().is_complex() {
            check_complex_pair(self.0, a.dtype())?;
        }
        let dtype = self.0.result(a.dtype());
        if self.0 == BinaryKind::Sub && dtype == DType::Bool {
            return Err(Error::not_implemented(
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` \
                operator instead.",
            ));
        }
        let refused = match self.0 {
            BinaryKind::Gcd | BinaryKind::Lcm => dtype.is_float() || dtype == DType::Bool,
            BinaryKind::Igamma | BinaryKind::Igammac => !dtype.is_float(),
            BinaryKind::Fmod | BinaryKind::Remainder | BinaryKind::FloorDivide | BinaryKind::Pow => {
                dtype == DType::Bool
            }
            BinaryKind::LeftShift | BinaryKind::RightShift => dtype.is_float() || dtype == DType::Bool,
            BinaryKind::GammaSlope => !matches!(dtype, DType::F32 | DType::F64),
            BinaryKind::Zeta => dtype.is_half(),
            kind => is_bitwise(kind) && dtype.is_float(),
        };
        if refused {
            let name = match self.0 {
                BinaryKind::LeftShift => "lshift",
                BinaryKind::RightShift => "rshift",
                BinaryKind::FloorDivide => "div_floor",
                BinaryKind::Zeta => "zeta",
                BinaryKind::Pow => return Err(crate::ops::complex::unsupported("pow", dtype)),
                kind => kind.name(),
            };
            return Err(crate::ops::complex::unsupported(&format!("{name}_cpu"), dtype));
        }
        Ok(Meta { dims, dtype, place })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(match self.0 {
            BinaryKind::Add | BinaryKind::Sub | BinaryKind::Complex => &[0b11],
            BinaryKind::Mul => &[0b01, 0b10],
            BinaryKind::Div => &[0b01],
            _ => &[],
        })
    }
    fn takes_complex(&self) -> bool {
        true
    }
    #[inline]
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (a, b, out) = (x[0], x[1], &y[0]);
        if a.dtype() != b.dtype() && self.0 == BinaryKind::Pow {
            return self.kernel(&[a, &b.to_dtype(a.dtype())?], y);
        }
        if a.dtype() != b.dtype() {
            return match narrowed(b, a.dtype())? {
                Some(b) => self.kernel(&[a, &b], y),
                None => {
                    let by = b.as_slice::<f32>().map_or(f32::NAN, |v| v[0]);
                    widened::with_number(self.0, &a.view(), by, &mut out.view_mut()).map_err(kernel_error)
                }
            };
        }
        if self.0 == BinaryKind::Pow
            && b.is_wrapped_number()
            && let Some(root) = as_root(b)
        {
            return kernels::unary(root, &a.view(), &mut out.view_mut()).map_err(kernel_error);
        }
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
        if a.element() != b.element() && self.0 == BinaryKind::Pow {
            let b = f.convert(&b, a.element());
            return smallvec![lower_binary(self.0, f, &a, &b)];
        }
        if a.element() != b.element() {
            let wide = f.convert(&a, b.element());
            let y = lower_binary(self.0, f, &wide, &b);
            return smallvec![f.convert(&y, a.element())];
        }
        smallvec![lower_binary(self.0, f, &a, &b)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let rule = |s: &Saved<'_>, g: &Tensor| -> Result<Grads> {
            let (ga, gb) = binary_vjp(self.0, s, g)?;
            let to = |d: Option<Tensor>, i: usize| d.map(|d| d.sum_to(&s.meta(i).dims)).transpose();
            Ok(smallvec![to(ga, 0)?, to(gb, 1)?])
        };
        use BinaryKind::*;
        let is_summed = |i: usize| s.needs(i) && s.meta(i).dims != *g.dims();
        let rounds_once = match self.0 {
            Add | Sub | Complex | Maximum | Minimum | Fmax | Fmin | Copysign | NextAfter => true,
            Mul => !is_summed(0) && !is_summed(1),
            Div => !is_summed(0) && !s.needs(1),
            _ => false,
        };
        if rounds_once { rule(s, g) } else { s.widely(g, rule) }
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
            FloorDivide | Gcd | Lcm => Saves::NONE,
            NextAfter => Saves::inputs(if a { 0b11 } else { 0 }),
            Remainder | Fmod => Saves::inputs(if b { 0b11 } else { 0 }),
            Copysign => Saves::both(a as u64, a as u64),
            _ => Saves::inputs(0b11),
        }
    }
}

/// A quotient of complex numbers. Compilers square the divisor's parts, so very large and very small divisors are first
/// scaled near one, by powers of two.
fn complex_quotient(f: &mut Func, a: &Value, b: &Value) -> Value {
    let (re, im) = (f.unary("stablehlo.real", b), f.unary("stablehlo.imag", b));
    let (re, im) = (f.unary("stablehlo.abs", &re), f.unary("stablehlo.abs", &im));
    let size = f.binary("stablehlo.maximum", &re, &im);
    let exponent = if b.element() == ElementType::C64 { 64 } else { 512 };
    let (large, small) = (2f64.powi(exponent - 4), 2f64.powi(4 - exponent));
    let [one, grown, shrunk, large, small] =
        [1.0, 2f64.powi(exponent), 2f64.powi(-exponent - 2), large, small].map(|v| f.splat(v, size.ty()));
    let (is_large, is_small) = (f.compare(Direction::Gt, &size, &large), f.compare(Direction::Lt, &size, &small));
    let factor = f.select(&is_small, &grown, &one);
    let factor = f.select(&is_large, &shrunk, &factor);
    let mut scaled = |z: &Value| {
        let (re, im) = (f.unary("stablehlo.real", z), f.unary("stablehlo.imag", z));
        let (re, im) = (f.binary("stablehlo.multiply", &re, &factor), f.binary("stablehlo.multiply", &im, &factor));
        f.binary("stablehlo.complex", &re, &im)
    };
    let (a, b) = (scaled(a), scaled(b));
    f.binary("stablehlo.divide", &a, &b)
}

fn lower_binary(kind: BinaryKind, f: &mut Func, a: &Value, b: &Value) -> Value {
    use BinaryKind::*;
    let e = a.element();
    let bool_ = e == ElementType::Pred;
    if let Some(y) = math::binary(kind, f, a, b) {
        return y;
    }
    if kind == Div && e.is_complex() {
        return complex_quotient(f, a, b);
    }
    if kind == Div && e == ElementType::F16 {
        // XLA makes `a / (b c)` of `a / b / c`. The product leaves the range of `float16` already for divisors of 256.
        let (a, b) = (f.convert(a, ElementType::F32), f.convert(b, ElementType::F32));
        let y = f.binary("stablehlo.divide", &a, &b);
        return f.convert(&y, e);
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
        Pow if e.is_integer() => return integer_power(f, a, b),
        Pow => {
            // Zero to a power with a positive real part is zero; the infinite logarithm would make it NaN.
            let y = f.binary("stablehlo.power", a, b);
            let (zero, re) = (f.splat(0.0, a.ty()), f.unary("stablehlo.real", b));
            let re_zero = f.splat(0.0, re.ty());
            let (none, grows) = (f.compare(Direction::Eq, a, &zero), f.compare(Direction::Gt, &re, &re_zero));
            let is_zero = f.binary("stablehlo.and", &none, &grows);
            return f.select(&is_zero, &zero, &y);
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
            let y = f.binary("stablehlo.divide", a, &g);
            let y = f.binary("stablehlo.multiply", &y, b);
            return lower_unary(UnaryKind::Abs, f, &y);
        }
        Igamma | Igammac | Zeta | ChebyshevT | ChebyshevU | ChebyshevV | ChebyshevW | ShiftedChebyshevT
        | ShiftedChebyshevU | ShiftedChebyshevV | ShiftedChebyshevW | HermiteH | HermiteHe | Laguerre | Legendre => {
            return analytic::binary(f, SpecialBinary(kind), a, b);
        }
        GammaSlope => {
            // These sums cancel.
            let (a, b) = (f.convert(a, ElementType::F64), f.convert(b, ElementType::F64));
            let y = analytic::binary(f, SpecialBinary(kind), &a, &b);
            return f.convert(&y, e);
        }
        Remainder => {
            let safe = if e.is_integer() { f.nonzero(b) } else { b.clone() };
            let b = &safe;
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
            // As in the kernel, compute from the remainder, so that the quotient is exact.
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
            let b = &f.nonzero(b);
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
            // An infinity beside NaN too.
            let inf = f.splat(f64::INFINITY, a.ty());
            let (of_a, of_b) = (f.compare(Direction::Eq, &aa, &inf), f.compare(Direction::Eq, &bb, &inf));
            let infinite = f.binary("stablehlo.or", &of_a, &of_b);
            let y = f.select(&infinite, &inf, &y);
            return f.select(&none, &zero, &y);
        }
        LogAddExp => {
            let top = f.binary("stablehlo.maximum", a, b);
            let gap = f.binary("stablehlo.subtract", a, b);
            let gap = f.unary("stablehlo.abs", &gap);
            let gap = f.unary("stablehlo.negate", &gap);
            let small = f.unary("stablehlo.exponential", &gap);
            let rest = lower_unary(UnaryKind::Log1p, f, &small);
            let y = f.binary("stablehlo.add", &top, &rest);
            // Equal infinities have no difference.
            let size = f.unary("stablehlo.abs", a);
            let infinity = f.splat(f64::INFINITY, a.ty());
            let (equal, infinite) = (f.compare(Direction::Eq, a, b), f.compare(Direction::Eq, &size, &infinity));
            let equal = f.binary("stablehlo.and", &equal, &infinite);
            return f.select(&equal, a, &y);
        }
        Copysign => {
            let magnitude = f.unary("stablehlo.abs", a);
            // The sign bit, unlike a comparison, distinguishes -0.0 from 0.0.
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

/// Powers of integers, which wrap around, by squaring until no exponent has a bit left. `stablehlo.power` reads only
/// the lowest `log2(bits)` bits of an exponent. Negative exponents give C's results: 1 and -1 stay the same except for
/// the sign, all others become zero.
fn integer_power(f: &mut Func, a: &Value, b: &Value) -> Value {
    let all: Vec<usize> = (0..a.rank()).collect();
    let splat = |f: &mut Func, n: i64| f.splat_i64(n, a.ty());
    let odd = |f: &mut Func, b: &Value| {
        let (zero, one) = (f.splat_i64(0, b.ty()), f.splat_i64(1, b.ty()));
        let bit = f.binary("stablehlo.and", b, &one);
        f.compare(Direction::Ne, &bit, &zero)
    };
    let one = splat(f, 1);
    let y = f.while_loop(
        &[one, a.clone(), b.clone()],
        |f, s| {
            let zero = splat(f, 0);
            let live = f.compare(Direction::Gt, &s[2], &zero);
            f.reduce(&live, torchtpu_stablehlo::ReduceKind::Or, &all)
        },
        |f, s| {
            let one = splat(f, 1);
            let more = f.binary("stablehlo.multiply", &s[0], &s[1]);
            let takes = odd(f, &s[2]);
            let y = f.select(&takes, &more, &s[0]);
            let square = f.binary("stablehlo.multiply", &s[1], &s[1]);
            vec![y, square, f.binary("stablehlo.shift_right_logical", &s[2], &one)]
        },
    );
    if a.element().is_unsigned() {
        return y[0].clone();
    }
    let (zero, one, minus) = (splat(f, 0), splat(f, 1), splat(f, -1));
    let (is_one, is_minus) = (f.compare(Direction::Eq, a, &one), f.compare(Direction::Eq, a, &minus));
    let takes = odd(f, b);
    let turned = f.select(&takes, &minus, &one);
    let inverse = f.select(&is_minus, &turned, &zero);
    let inverse = f.select(&is_one, &one, &inverse);
    let negative = f.compare(Direction::Lt, b, &zero);
    f.select(&negative, &inverse, &y[0])
}

/// Euclid's algorithm for all elements at once, until the last one has ended.
fn lower_gcd(f: &mut Func, a: &Value, b: &Value) -> Value {
    let a = lower_unary(UnaryKind::Abs, f, a);
    let b = lower_unary(UnaryKind::Abs, f, b);
    let all: Vec<usize> = (0..a.rank()).collect();
    let y = f.while_loop(
        &[a, b],
        |f, s| {
            let zero = f.splat_i64(0, s[0].ty());
            let live = f.compare(Direction::Ne, &s[0], &zero);
            f.reduce(&live, torchtpu_stablehlo::ReduceKind::Or, &all)
        },
        |f, s| {
            let zero = f.splat_i64(0, s[0].ty());
            let done = f.compare(Direction::Eq, &s[0], &zero);
            let r = f.binary("stablehlo.remainder", &s[1], &s[0]);
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
    // As for functions of one operand, the formulas get conjugates.
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
        // The square of `b` would overflow or vanish. A compiler makes one of `a / b / b`, and none of a product.
        Div => (
            when(na, &|| div(g, s.x(1)))?,
            when(nb, &|| {
                let (a, b) = (s.x(0), s.x(1));
                let ratio = div(a, b)?;
                let slope = if b.place().has_handle() { mul(&ratio, &b.reciprocal()?)? } else { div(&ratio, b)? };
                mul(&g.neg()?, &slope)
            })?,
        ),
        Pow => (
            when(na, &|| {
                let (x, p) = (s.x(0), s.x(1));
                if let Some(p) = exponent(p) {
                    let g = &g.mul_scalar(p)?;
                    return match p {
                        0.0 => Tensor::zeros_like_meta(g.meta()),
                        2.0 => mul(g, x),
                        _ => mul(g, &x.pow_scalar(p - 1.0)?),
                    };
                }
                let less = arith(Sub, Operand::Tensor(p), Operand::Scalar(Scalar::Int(1)))?;
                // x^0 is constant, also at x = 0, where the formula divides by zero. The second derivative uses the
                // base too.
                let flat = compare(CompareKind::Eq, Operand::Tensor(p), zero())?;
                let d = mul(&mul(g, p)?, &binary(Pow, &select_scalar(&flat, 1.0, x)?, &less)?)?;
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
            let (dir, opposite) = match kind {
                Maximum | Fmax => (CompareKind::Gt, CompareKind::Lt),
                _ => (CompareKind::Lt, CompareKind::Gt),
            };
            // Ties share the gradient. If one operand is NaN, both get all of it; with `fmax` and `fmin` only the
            // number does, or the first of two NaN.
            let half = arith(Mul, Operand::Tensor(g), Operand::Scalar(Scalar::Float(0.5)))?;
            let tie = compare(CompareKind::Eq, Operand::Tensor(a), Operand::Tensor(b))?;
            let part = |x: &Tensor, y: &Tensor, is_first: bool| -> Result<Tensor> {
                let zeros = Tensor::zeros_like_meta(g.meta())?;
                let versus = |dir| compare(dir, Operand::Tensor(x), Operand::Tensor(y));
                let d = if matches!(kind, Maximum | Minimum) {
                    select(&versus(opposite)?, &zeros, g)?
                } else {
                    let alone = if is_first {
                        y.isnan()?
                    } else {
                        binary(LogicalAnd, &y.isnan()?, &x.isnan()?.logical_not()?)?
                    };
                    select(&binary(LogicalOr, &versus(dir)?, &alone)?, g, &zeros)?
                };
                select(&tie, &half, &d)
            };
            (when(na, &|| part(a, b, true))?, when(nb, &|| part(b, a, false))?)
        }
        Remainder => {
            (when(na, &|| Ok(g.clone()))?, when(nb, &|| mul(g, &binary(FloorDivide, s.x(0), s.x(1))?)?.neg())?)
        }
        Fmod => {
            // The quotient is piecewise constant, also where the division has an infinite slope.
            let whole = || div(&s.x(0).detach(), &s.x(1).detach())?.trunc();
            (when(na, &|| Ok(g.clone()))?, when(nb, &|| mul(g, &whole()?)?.neg())?)
        }
        FloorDivide => {
            (when(na, &|| Tensor::zeros_like_meta(g.meta()))?, when(nb, &|| Tensor::zeros_like_meta(g.meta()))?)
        }
        Atan2 => {
            // The squares of 16-bit floats may overflow.
            let (y, x) = (wide(s.x(0))?, wide(s.x(1))?);
            let r2 = binary(Add, &y.square()?, &x.square()?)?;
            // At the origin there is no angle, and the gradient is zero.
            let origin = compare(CompareKind::Eq, Operand::Tensor(&r2), zero())?;
            let (g, r2) = (wide(g)?, select_scalar(&origin, 1.0, &r2)?);
            let part = |a: &Tensor| narrowed_to(div(&mul(&g, a)?, &r2)?, s.x(0).dtype());
            (when(na, &|| part(&x))?, when(nb, &|| part(&y)?.neg())?)
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
                let same = compare(CompareKind::Eq, Operand::Tensor(s.y(0)), Operand::Tensor(s.x(0)))?;
                let d = select(&same, g, &g.neg()?)?;
                let at_zero = compare(CompareKind::Eq, Operand::Tensor(s.x(0)), zero())?;
                select_scalar(&at_zero, 0.0, &d)
            })?,
            when(nb, &|| Tensor::zeros_like_meta(g.meta()))?,
        ),
        NextAfter => {
            // Between equal numbers the result is the second one, which is a constant.
            let stays = || -> Result<Tensor> {
                let equal = compare(CompareKind::Eq, Operand::Tensor(s.x(0)), Operand::Tensor(s.x(1)))?;
                select_scalar(&equal, 0.0, g)
            };
            (when(na, &stays)?, when(nb, &|| Tensor::zeros_like_meta(g.meta()))?)
        }
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
        GammaSlope => {
            return Err(Error::not_implemented("the derivative for '_standard_gamma_grad' is not implemented."));
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

macro_rules! binary_rows {
    ($($schema:literal $kind:ident $samples:expr $(, $column:ident($($value:expr),*))*;)*) => {
        /// Rows of the ops with two operands, a tensor and a tensor or number.
        pub const BINARY_ROWS: &[Row] = &[$(
            Row::new($schema, Tier::Prim, |a| Ok(arith(BinaryKind::$kind, a.operand(0)?, a.operand(1)?)?.into()),
                $samples)
                .inplace_by(|a| {
                    let x = a.tensor(0)?;
                    arith_(BinaryKind::$kind, x, a.operand(1)?)?;
                    Ok(Ret::Tensor(x.clone()))
                })
                $(.$column($($value),*))*,
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
    // The gradient for the first operand is not implemented, as in PyTorch.
    vec![crate::schema::Sample::new(vec![positive(&[2, 3]), positive(&[3])]).no_gradient().dtypes(&[DType::F64])]
}

fn two_masks() -> Vec<crate::schema::Sample> {
    vec![
        crate::schema::Sample::new(vec![mask(&[2, 3]), mask(&[3])]).no_gradient(),
        crate::schema::Sample::new(vec![t(&[2, 3]), t(&[2, 1])]).no_gradient(),
    ]
}

binary_rows! {
    "mul.Tensor(Tensor self, Tensor other) -> Tensor" Mul samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 1]), t(&[3])],
        [t(&[2, 3]), n(2.5)]),
        doc("Return `input * other`, element by element. The operands broadcast and are promoted to a common dtype; \
             each may be a number. Integers wrap around, and the product of two `bool` is their logical and."),
        numbers(Numbers::Both);
    "multiply.Tensor(Tensor self, Tensor other) -> Tensor" Mul samples!([t(&[2, 3]), t(&[2, 3])]),
        doc("Alias of `torch.mul`."),
        numbers(Numbers::Both);
    "div.Tensor(Tensor self, Tensor other) -> Tensor" Div samples!([t(&[2, 3]), positive(&[2, 3])],
        [t(&[2, 1]), positive(&[3])], [t(&[2, 3]), n(2)]),
        doc("Return `input / other`, element by element. The operands broadcast and are promoted to a common dtype; \
             each may be a number. Without `rounding_mode`, integers are divided in the default floating-point \
             dtype, and a division by zero gives an infinity or NaN. `rounding_mode='trunc'` rounds towards zero and \
             `'floor'` rounds down; both keep integers, and raise `RuntimeError` for an integer division by zero."),
        numbers(Numbers::Both);
    "divide.Tensor(Tensor self, Tensor other) -> Tensor" Div samples!([t(&[2, 3]), positive(&[2, 3])]),
        doc("Alias of `torch.div`."),
        numbers(Numbers::Both);
    "true_divide.Tensor(Tensor self, Tensor other) -> Tensor" Div samples!([t(&[2, 3]), positive(&[2, 3])]),
        doc("Alias of `torch.div` without `rounding_mode`."),
        numbers(Numbers::Both);
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor" Pow samples!([positive(&[2, 3]), t(&[3])],
        [positive(&[2, 3]), n(2.5)], [t(&[2, 3]), n(3)], [positive(&[2, 3]), n(-0.5)]),
        doc("Return `input ** exponent`, element by element. The operands broadcast and are promoted to a common \
             dtype; one of them may be a number. Integers wrap around, and a negative integer as the number \
             `exponent` of an integer tensor raises `RuntimeError`. A negative base with a fractional exponent gives \
             NaN. `x ** 0` is 1, also where `x` is zero."),
        numbers(Numbers::One), autocast(Policies::accelerator(Policy::Full));
    "maximum(Tensor self, Tensor other) -> Tensor" Maximum samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 3]), t(&[3])]),
        doc("Return the greater of `input` and `other`, element by element. The operands broadcast and are promoted \
             to a common dtype. The result is NaN where one of them is NaN; `torch.fmax` prefers the number. Equal \
             elements share the gradient by halves. Complex tensors are refused.");
    "minimum(Tensor self, Tensor other) -> Tensor" Minimum samples!([t(&[2, 3]), t(&[2, 3])]),
        doc("Return the smaller of `input` and `other`, element by element. The operands broadcast and are promoted \
             to a common dtype. The result is NaN where one of them is NaN; `torch.fmin` prefers the number. Equal \
             elements share the gradient by halves. Complex tensors are refused.");
    "fmax(Tensor self, Tensor other) -> Tensor" Fmax samples!([t(&[2, 3]), t(&[3])]),
        doc("Return the greater of `input` and `other`, element by element, or the number where the other one is \
             NaN. The operands broadcast and are promoted to a common dtype. The result is NaN only where both are. \
             Complex tensors are refused.");
    "fmin(Tensor self, Tensor other) -> Tensor" Fmin samples!([t(&[2, 3]), t(&[3])]),
        doc("Return the smaller of `input` and `other`, element by element, or the number where the other one is \
             NaN. The operands broadcast and are promoted to a common dtype. The result is NaN only where both are. \
             Complex tensors are refused.");
    "remainder.Tensor(Tensor self, Tensor other) -> Tensor" Remainder samples!([t(&[2, 3]), n(0.7)],
        [t(&[2, 3]), positive(&[2, 3])]),
        doc("Return the remainder `input - other * floor(input / other)`, which has the sign of `other`, as \
             Python's `%`. The operands broadcast and are promoted to a common dtype; one of them may be a number. \
             Zero as a divisor gives NaN for floats and `RuntimeError` for integers. `bool` and complex tensors are \
             refused."),
        numbers(Numbers::One);
    "fmod.Tensor(Tensor self, Tensor other) -> Tensor" Fmod samples!([t(&[2, 3]), n(0.7)],
        [t(&[2, 3]), positive(&[2, 3])]),
        doc("Return the remainder `input - other * trunc(input / other)`, which has the sign of `input`, as C's \
             `fmod`. The operands broadcast and are promoted to a common dtype; `other` may be a number. Zero as a \
             divisor gives NaN for floats and `RuntimeError` for integers. `bool` and complex tensors are refused."),
        numbers(Numbers::Second);
    "floor_divide(Tensor self, Tensor other) -> Tensor" FloorDivide ||
        vec![crate::schema::Sample::new(vec![t(&[2, 3]), positive(&[3])]).no_gradient(),
            crate::schema::Sample::new(vec![index(&[2, 3], 9), n(2)]).no_gradient()],
        doc("Return `floor(input / other)`, element by element. The operands broadcast and are promoted to a common \
             dtype, which the result keeps; each may be a number. An integer division by zero raises `RuntimeError`; \
             for floats the result is then that of `input / other`. `bool` and complex tensors are refused."),
        numbers(Numbers::Both);
    "atan2(Tensor self, Tensor other) -> Tensor" Atan2 samples!([t(&[2, 3]), positive(&[2, 3])]),
        doc("Return the angle in radians from the positive x axis to the point `(other, input)`: `input` is y and \
             `other` is x. Results lie in `[-pi, pi]`. The operands broadcast; integers are computed in the default \
             floating-point dtype. Complex tensors are refused."),
        autocast(Policies::accelerator(Policy::Widest));
    "hypot(Tensor self, Tensor other) -> Tensor" Hypot samples!([t(&[2, 3]), positive(&[3])]),
        doc("Return `sqrt(input^2 + other^2)`, element by element, without overflow of the squares. The operands \
             broadcast and are promoted to a common dtype. Only floating-point dtypes are allowed.");
    "nextafter(Tensor self, Tensor other) -> Tensor" NextAfter ||
        vec![crate::schema::Sample::new(vec![t(&[2, 3]), t(&[3])]).no_gradient()],
        doc("Return the floating-point number next to `input` in the direction of `other`, element by element. The \
             operands broadcast. Only floating-point dtypes are allowed. The gradient passes to `input` unchanged.");
    "copysign.Tensor(Tensor self, Tensor other) -> Tensor" Copysign samples!([t(&[2, 3]), t(&[3])]),
        doc("Return numbers with the absolute value of `input` and the sign of `other`, element by element. The \
             sign of `-0.0` counts. The operands broadcast, `other` may be a number, and integers are computed in \
             the default floating-point dtype."),
        numbers(Numbers::Second);
    "arctan2(Tensor self, Tensor other) -> Tensor" Atan2 samples!([t(&[2, 3]), positive(&[2, 3])]),
        doc("Alias of `torch.atan2`."),
        autocast(Policies::accelerator(Policy::Widest));
    "gcd(Tensor self, Tensor other) -> Tensor" Gcd two_integer_tensors,
        doc("Return the greatest common divisor of `input` and `other`, element by element. It is not negative, and \
             `gcd(0, 0)` is 0. The operands broadcast; only integers are allowed."),
        in_place_function();
    "lcm(Tensor self, Tensor other) -> Tensor" Lcm two_integer_tensors,
        doc("Return the least common multiple of `input` and `other`, element by element. It is not negative, and 0 \
             where one of the two is 0. The operands broadcast; only integers are allowed."),
        in_place_function();
    "igamma(Tensor self, Tensor other) -> Tensor" Igamma incomplete_gammas,
        doc("Return the regularised lower incomplete gamma function `P(a, x) = 1 / gamma(a) * integral of t^(a-1) \
             e^-t from 0 to x`, where `a` is `input` and `x` is `other`. The operands broadcast; only floating-point \
             dtypes are allowed. There is no derivative with respect to `input`."),
        aliases(&["special_gammainc"]);
    "igammac(Tensor self, Tensor other) -> Tensor" Igammac incomplete_gammas,
        doc("Return the regularised upper incomplete gamma function `Q(a, x) = 1 - P(a, x)`, where `a` is `input`, \
             `x` is `other`, and `P` is `torch.igamma`. The operands broadcast; only floating-point dtypes are \
             allowed. There is no derivative with respect to `input`."),
        aliases(&["special_gammaincc"]);
    "bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor" BitwiseAnd two_integers,
        doc("Return the bits that are set in both `input` and `other`, element by element. For `bool` it is the \
             logical and. The operands broadcast and are promoted to a common dtype; one of them may be a number. \
             Floating-point and complex tensors are refused."),
        numbers(Numbers::One);
    "bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor" BitwiseOr two_integers,
        doc("Return the bits that are set in `input`, in `other` or in both, element by element. For `bool` it is \
             the logical or. The operands broadcast and are promoted to a common dtype; one of them may be a number. \
             Floating-point and complex tensors are refused."),
        numbers(Numbers::One);
    "bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor" BitwiseXor two_integers,
        doc("Return the bits in which `input` and `other` differ, element by element. For `bool` it is the logical \
             exclusive or. The operands broadcast and are promoted to a common dtype; one of them may be a number. \
             Floating-point and complex tensors are refused."),
        numbers(Numbers::One);
    "bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor" LeftShift two_integers,
        doc("Return `input` with its bits moved left by `other` places, which is `input * 2^other` without the bits \
             that do not fit. Shifts that are negative or at least the number of bits give 0. The operands \
             broadcast; one of them may be a number. Only integers are allowed."),
        numbers(Numbers::One);
    "bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor" RightShift two_integers,
        doc("Return `input` with its bits moved right by `other` places, which is `floor(input / 2^other)`. Signed \
             integers keep their sign. Shifts that are negative or at least the number of bits move all bits out. \
             The operands broadcast; one of them may be a number. Only integers are allowed."),
        numbers(Numbers::One);
    "logical_and(Tensor self, Tensor other) -> Tensor" LogicalAnd two_masks,
        doc("Return `True` where both `input` and `other` are nonzero, as `bool`. The operands broadcast; NaN \
             counts as true. The in-place form writes 0 or 1 in the dtype of the tensor.");
    "logical_or(Tensor self, Tensor other) -> Tensor" LogicalOr two_masks,
        doc("Return `True` where `input` or `other` is nonzero, as `bool`. The operands broadcast; NaN counts as \
             true. The in-place form writes 0 or 1 in the dtype of the tensor.");
    "logical_xor(Tensor self, Tensor other) -> Tensor" LogicalXor two_masks,
        doc("Return `True` where exactly one of `input` and `other` is nonzero, as `bool`. The operands broadcast; \
             NaN counts as true. The in-place form writes 0 or 1 in the dtype of the tensor.");
}
