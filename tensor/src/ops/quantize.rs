//! Fake quantisation: values are rounded to those of a quantised tensor, and gradients ignore the rounding.

use crate::graph::{BackwardFn, with_backward};
use crate::op::{Grads, normalize_dim};
use crate::ops::pointwise::{select, select_scalar};
use crate::policy::{Policies, Policy};
use crate::schema::{Ret, Row, Sample, Scope, Tier, n, positive, t};
use crate::types::compute::{expect_float, narrowed};
use crate::{DType, Dims, Error, Result, Scalar, Tensor, state};
use smallvec::smallvec;

/// The gradient of a fake quantisation: that of the result, if the input was within the range, else zero.
struct StraightThrough {
    name: &'static str,
    within: Tensor,
}

impl BackwardFn for StraightThrough {
    fn name(&self) -> String {
        self.name.to_string()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let Some(g) = &g[0] else { return Ok(smallvec![None]) };
        Ok(smallvec![Some(select_scalar(&self.within.logical_not()?, 0.0, g)?)])
    }
}

fn check_range(low: i64, high: i64) -> Result<()> {
    if low > high {
        return Err(Error::runtime("`quant_min` should be less than or         equal to `quant_max`."));
    }
    Ok(())
}

/// `(clamp(round(x / scale) + zero, low, high) - zero) * scale`, computed in `f32` unless `x` is `f64`. `scale` and
/// `zero` broadcast. With `late` the zero point is added before rounding and need not be whole. NaN becomes the lower
/// end.
fn quantized(
    name: &'static str,
    x: &Tensor,
    scale: &Tensor,
    zero: &Tensor,
    [low, high]: [i64; 2],
    late: bool,
) -> Result<Tensor> {
    expect_float("fake_quantize_tensor_cachemask_kernel_type_handling", x)?;
    let (y, within) = state::no_grad(|| -> Result<(Tensor, Tensor)> {
        let wide = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        // Scales are rounded to `f32`, and inputs are multiplied by their inverses.
        let scale = scale.to_dtype(DType::F32)?;
        let inverse = scale.reciprocal()?.to_dtype(wide)?;
        let (scale, zero) = (scale.to_dtype(wide)?, zero.to_dtype(wide)?);
        let v = x.detach().to_dtype(wide)?.mul(&inverse)?;
        let q = if late { v.add(&zero)?.round()? } else { v.round()?.add(&zero)? };
        let number = |v: i64| Tensor::number(Scalar::Float(v as f64), wide);
        let (above, below) = (q.ge_scalar(low as f64)?, q.le_scalar(high as f64)?);
        let held = select(&above, &select(&below, &q, &number(high)?)?, &number(low)?)?;
        let y = narrowed(held.sub(&zero)?.mul(&scale)?, x.dtype())?;
        Ok((y, above.logical_and(&below)?))
    })?;
    if !(state::grad_enabled() && x.requires_grad()) {
        return Ok(y);
    }
    with_backward(&y, &[x], Box::new(StraightThrough { name, within }))
}

/// `torch.fake_quantize_per_tensor_affine`: one scale and one zero point, numbers or tensors.
fn per_tensor(name: &'static str, x: &Tensor, scale: &Tensor, zero: &Tensor, range: [i64; 2]) -> Result<Tensor> {
    check_range(range[0], range[1])?;
    if scale.numel() != 1 || zero.numel() != 1 {
        return Err(Error::runtime("scale and zero-point must have one element"));
    }
    let one = |v: &Tensor| v.detach().reshape_dims(Dims::EMPTY)?.to_device(x.place());
    quantized(name, x, &one(scale)?, &one(zero)?, range, false)
}

/// `torch.fake_quantize_per_channel_affine`: a scale and a zero point for each index of a dimension.
fn per_channel(x: &Tensor, scale: &Tensor, zero: &Tensor, axis: i64, range: [i64; 2]) -> Result<Tensor> {
    if !matches!(scale.dtype(), DType::F32 | DType::BF16) {
        return Err(Error::runtime(format!("Scale must be Float or BFloat16, found {}", scale.dtype().scalar_type())));
    }
    if !matches!(zero.dtype(), DType::I32 | DType::F32 | DType::F16) {
        return Err(Error::runtime(format!(
            "Zero-point must be Int32, Float or Half, found {}",
            zero.dtype().scalar_type()
        )));
    }
    if scale.dims().len() != 1 || zero.dims().len() != 1 {
        return Err(Error::runtime("scale and zero-point should be 1-D tensors"));
    }
    if scale.numel() != zero.numel() {
        return Err(Error::runtime("scale and zero-point need to have the same dimensions"));
    }
    let axis = normalize_dim(axis, x.dims().len())?;
    if x.dims().get(axis) != Some(&scale.numel()) {
        return Err(Error::runtime("dimensions of scale and zero-point are not consistent with input tensor"));
    }
    check_range(range[0], range[1])?;
    if zero.place().in_memory()
        && zero.to_dtype(DType::F64)?.to_vec::<f64>()?.iter().any(|v| *v < range[0] as f64 || *v > range[1] as f64)
    {
        return Err(Error::runtime("`zero_point` must be between `quant_min` and `quant_max`."));
    }
    let dims = Dims::filled(1, x.dims().len()).with(axis, scale.numel());
    let along = |v: &Tensor| v.detach().reshape_dims(dims);
    let late = zero.dtype().is_float();
    quantized("FakeQuantizePerChannelAffineCachemaskBackward0", x, &along(scale)?, &along(zero)?, range, late)
}

/// Rows of the family. Their gradients are not slopes of the values, so they are not compared with differences.
pub const ROWS: &[Row] = &[
    Row::new(
        "fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, \
        int quant_max) -> Tensor",
        Tier::Composed,
        |a| {
            let name = "FakeQuantizePerTensorAffineCachemaskTensorQparamsBackward0";
            Ok(Ret::Tensor(per_tensor(name, a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, [a.int(3)?, a.int(4)?])?))
        },
        || vec![Sample::new(vec![t(&[3, 4]), positive(&[]), t(&[]), n(-8), n(7)]).no_gradient()],
    )
    .doc(
        "Return `(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale` in the dtype \
         of `input`. `scale` and `zero_point` are numbers, or tensors of one element. `input` is floating point, and \
         the arithmetic is that of `float32`, or of `float64` for such an input. The gradient passes unchanged where \
         the rounded value lies in the range, and is zero elsewhere. NaN becomes the lower end of the range.",
    )
    .no_out()
    .scope(Scope::Function),
    Row::new(
        "fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> \
        Tensor",
        Tier::Composed,
        |a| {
            let (zero, low, high) = (a.int(2)?, a.int(3)?, a.int(4)?);
            check_range(low, high)?;
            if zero < low || zero > high {
                return Err(Error::runtime("`zero_point` must be between `quant_min` and `quant_max`."));
            }
            let scale = Tensor::number(Scalar::Float(a.float(1)?), DType::F32)?;
            let zero = Tensor::number(Scalar::Int(zero), DType::I64)?;
            let name = "FakeQuantizePerTensorAffineCachemaskBackward0";
            Ok(Ret::Tensor(per_tensor(name, a.tensor(0)?, &scale, &zero, [low, high])?))
        },
        || vec![Sample::new(vec![t(&[3, 4]), n(0.1), n(2), n(-8), n(7)]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full))
    .no_out()
    .scope(Scope::Function),
    Row::new(
        "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int \
        quant_max) -> Tensor",
        Tier::Composed,
        |a| {
            let range = [a.int(4)?, a.int(5)?];
            Ok(Ret::Tensor(per_channel(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.int(3)?, range)?))
        },
        || vec![Sample::new(vec![t(&[3, 4]), positive(&[3]), t(&[3]), n(0), n(-8), n(7)]).no_gradient()],
    )
    .doc(
        "Return `input` rounded as by `torch.fake_quantize_per_tensor_affine`, with a `scale` and a `zero_point` for \
         each place along `axis`. Both are vectors of `input.shape[axis]` elements: `scale` `float32` or `bfloat16`, \
         `zero_point` `int32`, `float32` or `float16`. A zero point that is a float is added before rounding. On \
         `cpu`, a zero point outside `[quant_min, quant_max]` raises `RuntimeError`.",
    )
    .no_out()
    .scope(Scope::Function),
];
