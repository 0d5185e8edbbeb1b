//! Element-wise functions that blend tensors: `lerp`, `addcmul` and `addcdiv`.

use crate::ops::ok;
use crate::ops::pointwise::{result_type, result_type_of, where_};
use crate::policy::{Policies, Policy};
use crate::schema::{Deprecated, Operand, Row, Tier, n, positive, t, unit};
use crate::types::compute::{compute_dtype, expect_float, narrowed};
use crate::{DType, Error, Result, Scalar, Tensor, samples};

/// `x + weight * (end - x)`, computed from the nearer end.
fn lerp(x: &Tensor, end: &Tensor, weight: Operand<'_>) -> Result<Tensor> {
    let y = lerp_in_steps(x, end, weight)?;
    match weight {
        Operand::Tensor(w) => y.in_order_of(&[x, end, w]),
        Operand::Scalar(_) => y.in_order_of(&[x, end]),
    }
}

fn lerp_in_steps(x: &Tensor, end: &Tensor, weight: Operand<'_>) -> Result<Tensor> {
    if x.dtype() != end.dtype() {
        return Err(Error::runtime(format!(
            "expected dtype {} for `end` but got dtype {}",
            x.dtype().c_name(),
            end.dtype().c_name()
        )));
    }
    if !x.dtype().is_complex() {
        expect_float("lerp_cpu", x)?;
    }
    if x.dtype().is_half() && !matches!(weight, Operand::Tensor(w) if w.dtype() != x.dtype()) {
        // Round once, at the end.
        let wide = |t: &Tensor| t.to_dtype(DType::F32);
        let held;
        let weight = match weight {
            Operand::Tensor(w) => {
                held = wide(w)?;
                Operand::Tensor(&held)
            }
            number => number,
        };
        return lerp(&wide(x)?, &wide(end)?, weight)?.to_dtype(x.dtype());
    }
    let d = end.sub(x)?;
    match weight {
        Operand::Scalar(w) => {
            let (re, im) = w.to_complex();
            if w.is_complex() && !x.dtype().is_complex() {
                return Err(Error::runtime("value cannot be converted to type double without overflow"));
            }
            if re.hypot(im) < 0.5 {
                return x.add(&d.mul_scalar(w)?);
            }
            let rest = if w.is_complex() { Scalar::Complex(1.0 - re, -im) } else { Scalar::Float(1.0 - re) };
            end.sub(&d.mul_scalar(rest)?)
        }
        Operand::Tensor(w) => {
            if w.dtype() != x.dtype() {
                return Err(Error::runtime(format!(
                    "expected dtype {} for `weight` but got dtype {}",
                    x.dtype().c_name(),
                    w.dtype().c_name()
                )));
            }
            let near = x.add(&d.mul(w)?)?;
            let far = end.sub(&d.mul(&w.neg()?.add_scalar(1.0)?)?)?;
            where_(&w.abs()?.lt_scalar(0.5)?, Operand::Tensor(&near), Operand::Tensor(&far))
        }
    }
}

/// `x + value * a * b`, or `x + value * a / b`.
fn add_product(x: &Tensor, a: &Tensor, b: &Tensor, value: Scalar, divide: bool) -> Result<Tensor> {
    if divide && !a.dtype().is_inexact() && !b.dtype().is_inexact() {
        return Err(Error::runtime(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a \
            true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * \
            torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / \
            tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * \
            tensor1 / tensor2), for all dtypes.",
        ));
    }
    let common = result_type_of(&[x, a, b].map(Operand::Tensor));
    let mut value = value;
    if !divide && !common.is_inexact() {
        if common == DType::Bool {
            return Err(crate::ops::complex::unsupported("addcmul_cpu_out", common));
        }
        // Integers stay integers, and the factor loses its fraction.
        crate::ops::creation::check_range(value, common)?;
        value = Scalar::Int(value.to_i64());
    }
    if common.is_half() || common.is_float() && [x, a, b].iter().any(|t| t.dtype().is_half()) {
        // Round once, at the end.
        let wide = |t: &Tensor| t.to_dtype(compute_dtype(common));
        return narrowed(add_product(&wide(x)?, &wide(a)?, &wide(b)?, value, divide)?, common);
    }
    // Scale before the product, which may overflow, as PyTorch does.
    let dtype = result_type(Operand::Tensor(a), Operand::Tensor(b));
    let scaled;
    let (a, value) = if dtype.is_inexact() && value.to_complex() != (1.0, 0.0) {
        scaled = a.to_dtype(dtype)?.mul_scalar(value)?;
        (&scaled, Scalar::Int(1))
    } else {
        (a, value)
    };
    let z = if divide { a.div(b)? } else { a.mul(b)? };
    x.add(&if value.to_complex() == (1.0, 0.0) { z } else { z.mul_scalar(value)? })
}

/// Rows of the functions that blend.
pub const ROWS: &[Row] = &[
    Row::new(
        "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
        Tier::Composed,
        |a| ok(lerp(a.tensor(0)?, a.tensor(1)?, a.operand(2)?)?),
        samples!([t(&[2, 3]), positive(&[3]), n(0.3)], [t(&[2, 3]), positive(&[3]), n(0.8)]),
    )
    .doc(
        "Return `input + weight * (end - input)`, the point between `input` and `end`. The operands broadcast; \
         `weight` is a number or a tensor. Tensors must have the same floating-point or complex dtype. `weight` 1 \
         gives exactly `end`.",
    )
    .inplace(),
    Row::new(
        "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
        Tier::Composed,
        |a| ok(lerp(a.tensor(0)?, a.tensor(1)?, a.operand(2)?)?),
        samples!([t(&[2, 3]), positive(&[3]), unit(&[2, 3])]),
    )
    .inplace(),
    Row::new(
        "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
        Tier::Composed,
        |a| ok(add_product(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, false)?),
        samples!([t(&[2, 3]), t(&[2, 1]), positive(&[3]), n(0.5)]),
    )
    .doc(
        "Return `input + value * tensor1 * tensor2`, element by element. The three tensors broadcast and are \
         promoted to a common dtype. 16-bit floats are rounded once, at the end.",
    )
    .inplace()
    .deprecated(Deprecated::AfterFirst("value"))
    .autocast(Policies::accelerator(Policy::Widest)),
    Row::new(
        "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
        Tier::Composed,
        |a| ok(add_product(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, true)?),
        samples!([t(&[2, 3]), t(&[2, 1]), positive(&[3]), n(0.5)]),
    )
    .doc(
        "Return `input + value * tensor1 / tensor2`, element by element. The three tensors broadcast and are \
         promoted to a common dtype. 16-bit floats are rounded once, at the end. If both `tensor1` and `tensor2` are \
         integers, `RuntimeError` is raised.",
    )
    .inplace()
    .deprecated(Deprecated::AfterFirst("value"))
    .autocast(Policies::accelerator(Policy::Widest)),
];
