//! Calls of `Binary`: promotion, shortcuts for small tensors, `alpha`, and rounding modes.

use super::binary::{Binary, rules};
use super::power::Power;
use super::promotion::{as_tensor, result_type};
use super::small_divisor::SmallDivisor;
use crate::formula::{linear, steps};
use crate::op::Prim;
use crate::policy::{Policies, Policy};
use crate::schema::{Args, Deprecated, Numbers, Operand, Ret, Row, Tier, n, positive, t};
use crate::{DType, Error, Held, Result, Scalar, Tensor, default_dtype, dispatch, graph, inplace, samples};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::pointwise::BinaryKind;
use torchtpu_kernels::{View, bf16, f16, pointwise as kernels};

/// Apply a binary op to two tensors, after promotion.
#[inline]
pub fn binary(kind: BinaryKind, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let same = a.dtype() == b.dtype() && !a.is_wrapped_number() && !b.is_wrapped_number();
    if same && a.dtype().is_float() {
        return match fast_path(kind, a, b) {
            Some(y) => y,
            None => dispatch::call(Prim::Binary(Binary(kind)), &[a, b]),
        };
    }
    if same && !rules(kind).is_float_only() {
        let tied = check_divisor(kind, a, b)?;
        return dispatch::call(Prim::Binary(Binary(kind)), &[a, tied.as_ref().unwrap_or(b)]);
    }
    arith(kind, Operand::Tensor(a), Operand::Tensor(b))
}

/// A shortcut for the commonest call: arithmetic on two contiguous floating-point tensors of equal sizes on one device,
/// small ones on `cpu`. The result of `infer` would then be the description of `a`. `None` for anything else.
#[inline(always)]
fn fast_path(kind: BinaryKind, a: &Tensor, b: &Tensor) -> Option<Result<Tensor>> {
    use BinaryKind::*;
    if !matches!(kind, Add | Sub | Mul | Div | Maximum | Minimum)
        || a.dims() != b.dims()
        || !b.is_contiguous()
        || b.place() != a.place()
        || dispatch::is_unusual()
    {
        return None;
    }
    let record = graph::may_need_grad(&[a, b]);
    let y = match a.place().held() {
        Held::Memory => {
            let (y, n) = (a.empty_twin()?, [a.numel()]);
            kernels::binary(kind, &a.view_flat(&n), &b.view_flat(&n), &mut y.view_flat_mut(&n)).ok()?;
            y
        }
        Held::Handle if !record && a.is_plain() => {
            return Some(dispatch::record_twin(&Prim::Binary(Binary(kind)), a, b));
        }
        _ => return None,
    };
    if record && let Err(e) = graph::record(Prim::Binary(Binary(kind)), &[a, b], std::slice::from_ref(&y)) {
        return Some(Err(e));
    }
    Some(Ok(y))
}

/// [`fast_path`] with a number. It is copied into a small buffer, which costs less than a loop with a stride of zero.
#[inline(always)]
fn twin_of_number(kind: BinaryKind, a: &Tensor, s: Scalar) -> Option<Tensor> {
    use BinaryKind::*;
    if !matches!(kind, Add | Sub | Mul | Div)
        || !a.place().in_memory()
        || a.numel() > 32
        || dispatch::is_unusual()
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

/// Apply a binary op to tensors or numbers, after promotion.
pub fn arith(kind: BinaryKind, a: Operand<'_>, b: Operand<'_>) -> Result<Tensor> {
    if let (Operand::Tensor(x), Operand::Tensor(y)) = (a, b)
        && x.dtype() == y.dtype()
        && x.dtype().is_float()
        && !x.is_wrapped_number()
        && !y.is_wrapped_number()
    {
        return binary(kind, x, y);
    }
    if kind == BinaryKind::Sub {
        check_subtraction(a, b)?;
    }
    let mut dtype = result_type(a, b);
    let rules = rules(kind);
    if rules.is_float_only() && !dtype.is_inexact() {
        rules.check_integers(kind, dtype)?;
        dtype = default_dtype();
    }
    if dtype.is_complex()
        && let Some(f) = rules.of_complex()
    {
        return f(&as_tensor(a, dtype)?, &as_tensor(b, dtype)?);
    }
    if kind == BinaryKind::Pow
        && dtype.is_int()
        && let Operand::Scalar(Scalar::Int(p)) = b
        && p < 0
    {
        return Err(Error::runtime("Integers to negative integer powers are not allowed."));
    }
    if kind == BinaryKind::Pow
        && let Operand::Scalar(p @ Scalar::Unsigned(_)) = b
    {
        // An exponent does not wrap around.
        crate::ops::creation::check_range(p, dtype)?;
    }
    if kind == BinaryKind::Pow
        && let Operand::Tensor(x) = a
        && let Some(op) = Power::by(b, dtype)
    {
        return dispatch::call(Prim::Power(op), &[&as_tensor(Operand::Tensor(x), dtype)?]);
    }
    match (a, b) {
        // Powers of truth values do not exist. These two exponents need none.
        (Operand::Tensor(a), Operand::Scalar(Scalar::Bool(p))) if kind == BinaryKind::Pow && dtype == DType::Bool => {
            if p {
                a.copy()
            } else {
                Tensor::ones(a.dims(), dtype, a.place())
            }
        }
        (Operand::Tensor(a), Operand::Scalar(s)) if a.dtype() == dtype => {
            if let Some(y) = twin_of_number(kind, a, s) {
                return Ok(y);
            }
            if let Some(op) = SmallDivisor::of(kind, a, s) {
                return dispatch::call(Prim::SmallDivisor(op), &[a, &Tensor::number(s, dtype)?]);
            }
            dispatch::call(Prim::Binary(Binary(kind)), &[a, &number_beside(kind, a, s)?])
        }
        _ if is_narrow(dtype) && keeps_number(kind, a, b) => narrow_with_number(kind, a, b, dtype),
        (Operand::Scalar(s), Operand::Tensor(x))
            if kind == BinaryKind::Div && x.dtype() == dtype && graph::may_need_grad(&[x]) =>
        {
            number_by(s, x)
        }
        _ => {
            let (a, b) = (as_tensor(a, dtype)?, as_tensor(b, dtype)?);
            let tied = check_divisor(kind, &a, &b)?;
            dispatch::call(Prim::Binary(Binary(kind)), &[&a, tied.as_ref().unwrap_or(&b)])
        }
    }
}

/// Return `s / x` with the history of `s * (1 / x)`, as in PyTorch: backward reads neither `x` nor the result, so both
/// may be written.
fn number_by(s: Scalar, x: &Tensor) -> Result<Tensor> {
    let forward = || {
        let number = as_tensor(Operand::Scalar(s), x.dtype())?;
        dispatch::call(Prim::Binary(Binary(BinaryKind::Div)), &[&number, &x.detach()])
    };
    let conjugate = match s {
        Scalar::Complex(re, im) => Scalar::Complex(re, -im),
        real => real,
    };
    linear("MulBackward0", &[&x.reciprocal()?], forward, move |g, _, _| {
        Ok(smallvec![Some(arith(BinaryKind::Mul, Operand::Tensor(g), Operand::Scalar(conjugate))?)])
    })
}

fn is_narrow(dtype: DType) -> bool {
    dtype.is_half()
}

/// Whether an operand is one number at hand, without a gradient.
fn is_number(x: Operand<'_>) -> bool {
    match x {
        Operand::Scalar(_) => true,
        Operand::Tensor(t) => {
            t.is_wrapped_number() || t.dims().is_empty() && t.place().in_memory() && !graph::may_need_grad(&[t])
        }
    }
}

/// Whether a number stays in the dtype of the computation. This is so for products and quotients of 16-bit floats.
/// Sums, powers and comparisons round it first, as PyTorch's do.
fn keeps_number(kind: BinaryKind, a: Operand<'_>, b: Operand<'_>) -> bool {
    match kind {
        BinaryKind::Mul => {
            is_number(b) || matches!(a, Operand::Scalar(_)) || matches!(a, Operand::Tensor(t) if t.is_wrapped_number())
        }
        BinaryKind::Div => is_number(b) || matches!(a, Operand::Scalar(_)),
        BinaryKind::FloorDivide => is_number(b),
        _ => false,
    }
}

/// The number for an operation with `a`: of its dtype, or wider if [`keeps_number`], or if it is the exponent of a
/// power, whose gradient reads it. If the number is at hand when the kernel is chosen (on `cpu`) and rounding does not
/// change it, the narrow one gives the same result.
#[inline]
fn number_beside(kind: BinaryKind, a: &Tensor, s: Scalar) -> Result<Tensor> {
    let dtype = a.dtype();
    let is_kept = kind == BinaryKind::Pow || keeps_number(kind, Operand::Tensor(a), Operand::Scalar(s));
    if is_narrow(dtype) && is_kept {
        let wide = Tensor::number(s, DType::F32)?;
        return if a.place().in_memory() { Ok(narrowed(&wide, dtype)?.unwrap_or(wide)) } else { Ok(wide) };
    }
    let b = Tensor::number(s, dtype)?;
    Ok(check_divisor(kind, a, &b)?.unwrap_or(b))
}

/// A number of `f32` in a 16-bit dtype, if rounding does not change it.
pub(super) fn narrowed(x: &Tensor, dtype: DType) -> Result<Option<Tensor>> {
    let v = x.as_slice::<f32>().map_or(f32::NAN, |v| v[0]);
    let rounded = match dtype {
        DType::F16 => f16::from_f32(v).to_f32(),
        _ => bf16::from_f32(v).to_f32(),
    };
    if rounded != v {
        return Ok(None);
    }
    Tensor::number(Scalar::Float(v as f64), dtype).map(Some)
}

/// [`arith`] for the operations of [`keeps_number`].
fn narrow_with_number(kind: BinaryKind, a: Operand<'_>, b: Operand<'_>, dtype: DType) -> Result<Tensor> {
    let wide = |x: Operand<'_>| -> Result<Tensor> {
        match x {
            Operand::Tensor(t) if t.dtype() != dtype => t.to_dtype(DType::F32),
            Operand::Tensor(t) => Ok(t.clone()),
            Operand::Scalar(s) => Tensor::number(s, DType::F32),
        }
    };
    match (a, b) {
        // The reciprocal is rounded in between, as in PyTorch.
        (Operand::Scalar(_), Operand::Tensor(b)) if kind == BinaryKind::Div => {
            let y = as_tensor(Operand::Tensor(b), dtype)?.reciprocal()?;
            arith(BinaryKind::Mul, Operand::Tensor(&y), a)
        }
        (a, Operand::Tensor(b)) if kind == BinaryKind::Mul && is_number(a) && b.dtype() == dtype => {
            dispatch::call(Prim::Binary(Binary(kind)), &[b, &wide(a)?])
        }
        _ => dispatch::call(Prim::Binary(Binary(kind)), &[&as_tensor(a, dtype)?, &wide(b)?]),
    }
}

/// Refuse a number that is zero in integer division on a device. Return any other divisor tied to the error, which the
/// op must read instead of `b`. Return `None` if nothing is to be checked: on `cpu` the kernel does it.
#[inline]
fn check_divisor(kind: BinaryKind, a: &Tensor, b: &Tensor) -> Result<Option<Tensor>> {
    if !matches!(kind, BinaryKind::FloorDivide | BinaryKind::Remainder | BinaryKind::Fmod)
        || !b.dtype().is_int()
        || (!a.place().has_handle() && !b.place().has_handle())
        || a.numel() == 0
        || b.numel() == 0
    {
        return Ok(None);
    }
    let is_number = |t: &Tensor| t.dims().is_empty() && t.place().in_memory();
    if !is_number(a) && !is_number(b) {
        crate::op::check_same_device(a, b)?;
    }
    if b.place().is_abstract() {
        return Ok(None);
    }
    let error = Error::runtime("ZeroDivisionError");
    if b.place().in_memory() {
        return if matches!(b.item()?, Scalar::Int(0)) { Err(error) } else { Ok(None) };
    }
    crate::state::no_grad(|| crate::ops::indexing::defer(&b.eq_scalar(0)?, error)?.tied(b)).map(Some)
}

/// The in-place form for a tensor that overlaps itself.
#[cold]
fn arith_in_order(kind: BinaryKind, a: &Tensor, b: Operand<'_>) -> Result<()> {
    let y = crate::state::no_grad(|| arith(kind, Operand::Tensor(&a.detach()), b))?;
    dispatch::check_same_dims(a, y.dims())?;
    match b {
        Operand::Tensor(t) if !t.dims().is_empty() => {
            inplace::check_apart(a, t)?;
            crate::overlap::update(a, &[t], |x, t| arith(kind, Operand::Tensor(x), Operand::Tensor(&t[0])))
        }
        _ => crate::overlap::update(a, &[], |x, _| arith(kind, Operand::Tensor(x), b)),
    }
}

/// The in-place form.
pub fn arith_(kind: BinaryKind, a: &Tensor, b: Operand<'_>) -> Result<()> {
    inplace::check_writable(a)?;
    if kind == BinaryKind::Sub {
        check_subtraction(Operand::Tensor(a), b)?;
    }
    if crate::overlap::is_written_in_order(a) && !a.place().is_abstract() {
        return arith_in_order(kind, a, b);
    }
    let dtype = result_type(Operand::Tensor(a), b);
    if kind == BinaryKind::Pow
        && dtype == a.dtype()
        && let Some(op) = Power::by(b, dtype)
        && dispatch::call_into(&Prim::Power(op), &[a], a)?
    {
        return Ok(());
    }
    let is_divided = matches!(b, Operand::Scalar(s) if SmallDivisor::of(kind, a, s).is_some());
    if dtype == a.dtype() && (dtype.is_inexact() || !rules(kind).is_float_only()) && !is_divided {
        let number;
        let b = match b {
            Operand::Tensor(b) if b.dtype() == dtype => Some(b),
            Operand::Scalar(s) => {
                number = number_beside(kind, a, s)?;
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
    if let Operand::Tensor(b) = b {
        inplace::check_apart(a, b)?;
    }
    inplace::apply(a, |x| arith(kind, Operand::Tensor(x), b))
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident $scalar:ident $inplace:ident = $kind:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            pub fn $name(&self, other: &Tensor) -> Result<Tensor> { binary(BinaryKind::$kind, self, other) }
            /// The same for a number.
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
    /// The larger one; NaN if one of them is.
    maximum maximum_scalar maximum_ = Maximum;
    /// The smaller one; NaN if one of them is.
    minimum minimum_scalar minimum_ = Minimum;
    /// `a - b * floor(a / b)`.
    remainder remainder_scalar remainder_ = Remainder;
    /// `floor(a / b)`.
    floor_divide floor_divide_scalar floor_divide_ = FloorDivide;
    /// Whether both are true.
    logical_and logical_and_scalar logical_and_ = LogicalAnd;
    /// Whether at least one is true.
    logical_or logical_or_scalar logical_or_ = LogicalOr;
    /// Whether exactly one is true.
    logical_xor logical_xor_scalar logical_xor_ = LogicalXor;
}

/// Refuse differences of truth values, as PyTorch does before promotion.
///
/// # Errors
/// `NotImplemented` if an operand is `bool`.
pub fn check_subtraction(a: Operand<'_>, b: Operand<'_>) -> Result<()> {
    let is_bool = |x: Operand<'_>| match x {
        Operand::Tensor(t) => t.dtype() == DType::Bool,
        Operand::Scalar(s) => matches!(s, Scalar::Bool(_)),
    };
    let text = match (is_bool(a), is_bool(b)) {
        (false, false) => return Ok(()),
        (true, true) => "with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.",
        _ => {
            "with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` \
            operator instead."
        }
    };
    Err(Error::not_implemented(format!("Subtraction, the `-` operator, {text}")))
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
        Operand::Tensor(b) if is_narrow(dtype) => {
            // The factor is rounded first, and the result once, at the end.
            let wide = |x: Operand<'_>| as_tensor(x, dtype)?.to_dtype(DType::F32);
            let scaled = wide(Operand::Tensor(b))?.mul(&wide(Operand::Scalar(alpha))?)?;
            return arith(kind, Operand::Tensor(&wide(a)?), Operand::Tensor(&scaled))?.to_dtype(dtype);
        }
        // The product has the dtype of the result: the product of an integer and a fraction is not truncated.
        Operand::Tensor(b) => {
            arith(BinaryKind::Mul, Operand::Tensor(&b.to_dtype(dtype)?), Operand::Scalar(alpha))?.to_dtype(dtype)?
        }
    };
    arith(kind, a, Operand::Tensor(&b))
}

fn check_alpha(dtype: DType, alpha: Scalar) -> Result<()> {
    match alpha {
        Scalar::Bool(_) if dtype != DType::Bool => {
            Err(Error::runtime("Boolean alpha only supported for Boolean results."))
        }
        Scalar::Complex(..) if !dtype.is_complex() => Err(Error::runtime(if dtype.is_float() {
            "For non-complex input tensors, argument alpha must not be a complex number."
        } else {
            "For integral input tensors, argument alpha must not be a floating point number."
        })),
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
        if let Operand::Tensor(y) = a.operand(1)? {
            inplace::check_apart(x, y)?;
        }
        inplace::apply(x, |x| add_alpha(kind, Operand::Tensor(x), a.operand(1)?, alpha))?;
    }
    Ok(Ret::Tensor(x.clone()))
}

fn div_mode(a: Operand<'_>, b: Operand<'_>, mode: Option<&str>) -> Result<Tensor> {
    match mode {
        None => arith(BinaryKind::Div, a, b),
        Some("floor") => arith(BinaryKind::FloorDivide, a, b),
        Some("trunc") => {
            let dtype = result_type(a, b);
            if is_narrow(dtype)
                && is_number(b)
                && let Operand::Tensor(x) = a
            {
                // Round once, at the end.
                let wide = || arith(BinaryKind::Div, Operand::Tensor(&x.to_dtype(DType::F32)?), b)?.trunc();
                return steps("DivBackward0", &[x], || wide()?.to_dtype(dtype));
            }
            if dtype.is_float() {
                let tensor = |o| if let Operand::Tensor(x) = o { Some(x) } else { None };
                let x: SmallVec<[&Tensor; 2]> = [a, b].into_iter().filter_map(tensor).collect();
                return steps("DivBackward0", &x, || arith(BinaryKind::Div, a, b)?.trunc());
            }
            if dtype == DType::Bool {
                return Err(crate::ops::complex::unsupported("div_trunc_cpu", dtype));
            }
            // Exact for integers: subtract the remainder first.
            let a = &as_tensor(a, dtype)?;
            let a = Operand::Tensor(a);
            let r = arith(BinaryKind::Fmod, a, b)?;
            let whole = arith(BinaryKind::Sub, a, Operand::Tensor(&r))?;
            arith(BinaryKind::FloorDivide, Operand::Tensor(&whole), b)
        }
        Some(other) => Err(Error::runtime(format!(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
        ))),
    }
}

/// Rows of arithmetic with more than two operands, or with a number first.
pub const ARITHMETIC_ROWS: &[Row] = &[
    Row::new(
        "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        Tier::Prim,
        |a| Ok(add_alpha(BinaryKind::Add, a.operand(0)?, a.operand(1)?, a.scalar(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 1]), t(&[3])], [t(&[2, 3]), n(2)], [t(&[2, 3]), t(&[]), n(0.5)]),
    )
    .doc(
        "Return `input + alpha * other`, element by element. The operands broadcast and are promoted to a common \
         dtype; each may be a number. Integers wrap around, and the sum of two `bool` is their logical or. `alpha` \
         must be an integer where the result is one.",
    )
    .inplace_by(|a| add_alpha_(BinaryKind::Add, a))
    .numbers(Numbers::Both)
    .deprecated(Deprecated::AfterFirst("alpha")),
    Row::new(
        "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        Tier::Prim,
        |a| Ok(add_alpha(BinaryKind::Sub, a.operand(0)?, a.operand(1)?, a.scalar(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 1]), t(&[3])], [t(&[2, 3]), t(&[3]), n(2)]),
    )
    .doc(
        "Return `input - alpha * other`, element by element. The operands broadcast and are promoted to a common \
         dtype; each may be a number. Integers wrap around. `bool` operands are refused, use `torch.logical_xor`. \
         `alpha` must be an integer where the result is one.",
    )
    .inplace_by(|a| add_alpha_(BinaryKind::Sub, a))
    .numbers(Numbers::Both)
    .deprecated(Deprecated::AfterFirst("alpha")),
    Row::new(
        "subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        Tier::Prim,
        |a| Ok(add_alpha(BinaryKind::Sub, a.operand(0)?, a.operand(1)?, a.scalar(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[2, 3])]),
    )
    .doc("Alias of `torch.sub`.")
    .inplace_by(|a| add_alpha_(BinaryKind::Sub, a))
    .numbers(Numbers::Both),
    Row::new(
        "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        Tier::Prim,
        |a| Ok(add_alpha(BinaryKind::Sub, a.operand(1)?, a.operand(0)?, a.scalar(2)?)?.into()),
        samples!([t(&[2, 3]), t(&[3])], [t(&[2, 3]), n(2)]),
    )
    .doc(
        "Return `other - alpha * input`, element by element. The operands broadcast and are promoted to a common \
         dtype; `other` may be a number. `bool` operands are refused.",
    )
    .numbers(Numbers::Second),
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
    .inplace()
    .numbers(Numbers::Both),
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
    .inplace()
    .numbers(Numbers::Both),
    Row::new(
        "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
        Tier::Prim,
        |a| {
            let (base, exponent) = (a.operand(0)?, a.operand(1)?);
            if let (Operand::Scalar(x), Operand::Scalar(y)) = (base, exponent) {
                return Err(Error::type_error(format!(
                    "pow() received an invalid combination of arguments - got ({}, {}), but expected one of:\n \
                    * (Tensor input, Tensor exponent, *, Tensor out = None)\n \
                    * (Number self, Tensor exponent, *, Tensor out = None)\n \
                    * (Tensor input, Number exponent, *, Tensor out = None)\n",
                    x.python_type(),
                    y.python_type()
                )));
            }
            Ok(arith(BinaryKind::Pow, base, exponent)?.into())
        },
        samples!([n(2.5), t(&[2, 3])]),
    )
    .scope(crate::schema::Scope::Function)
    .numbers(Numbers::One)
    .autocast(Policies::accelerator(Policy::Full)),
];
