//! Normalisations: over the last dimensions (layer, root mean square, group) and over the batch (batch, instance).
//!
//! The forward ops give their statistics as further outputs, and the fused gradients read them. Under a recording tape,
//! that is in double backward, the gradients' expansions compute the statistics from `x` again, so that nothing is lost.

use crate::op::{F64, Fused, Grads, KernelFn, LowerFn, Outs, Prim, Saves, VjpFn};
use crate::ops::activation::{compute_dtype, expect_float, narrowed, widened};
use crate::ops::kernel_call::{self, KernelCall};
use crate::ops::reduce::sum_mask;
use crate::schema::{Args, Ret, Row, Sample, SampleArg, Scope, Tier, ints, n, positive, t};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch, inplace, samples, state};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::norm as kernels;
use torchtpu_kernels::{View, ViewMut};

/// A result that nobody asked for: no elements.
fn unwanted(like: &Meta) -> Meta {
    like.with_dims(Dims::filled(0, 1))
}

fn nothing(like: &Tensor) -> Result<Tensor> {
    Tensor::zeros_like_meta(&unwanted(like.meta()))
}

/// `x` with its last dimensions as a bit mask, and how many elements they hold.
fn last(dims: &Dims, count: usize) -> (u64, usize) {
    let rank = dims.len();
    let mask = ((1u64 << count) - 1) << (rank - count);
    (mask, dims[rank - count..].iter().product())
}

/// Mean over a bit mask of dimensions, which stay as ones.
fn mean_of(x: &Tensor, mask: u64, count: usize) -> Result<Tensor> {
    let kept = x.dims().iter().enumerate().map(|(i, &n)| if mask >> i & 1 == 0 { n } else { 1 }).collect();
    sum_mask(x, mask)?.reshape_dims(kept)?.div_scalar(count as f64)
}

// ------------------------------------------------------------------------------------------------ layer norm

/// `y = (x - mean) / sqrt(var + eps) * w + b` over the last dimensions; without the mean with `rms`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[.., shape]` | floating point |
/// | w, b | `shape`, each if the attribute says so | as x |
/// | y | as x | as x |
/// | mean, rstd | `[.., 1, 1]` | that of arithmetic: `f32` for 16-bit floats |
///
/// C1: x ends in `shape`, which is not empty. C2: w and b have it. The variance is the biased one. With `rms`, `mean` has no
/// elements. Saves x, w and the statistics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LayerNorm {
    /// Sizes that a row has.
    pub shape: Dims,
    /// Added to the variance.
    pub eps: F64,
    /// Root mean square: no mean is taken off.
    pub rms: bool,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias; not with `rms`.
    pub bias: bool,
}

/// Gradients of [`LayerNorm`] for x, w and b, from `g, x, mean, rstd[, w]`; those that are not wanted have no elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LayerNormBackward {
    /// What it is the gradient of.
    pub of: LayerNorm,
    /// Bits 0, 1, 2: whether the gradient of x, w, b is wanted.
    pub wanted: u8,
}

impl LayerNorm {
    fn weight<'a>(&self, x: &[&'a Tensor]) -> Option<&'a Tensor> {
        self.weight.then(|| x[1])
    }
    fn bias<'a>(&self, x: &[&'a Tensor]) -> Option<&'a Tensor> {
        self.bias.then(|| x[1 + self.weight as usize])
    }
    /// `(x - mean, rstd, mean)`.
    fn statistics(&self, x: &Tensor) -> Result<(Tensor, Tensor, Option<Tensor>)> {
        let (mask, count) = last(x.dims(), self.shape.len());
        let (d, mean) = if self.rms {
            (x.clone(), None)
        } else {
            let m = mean_of(x, mask, count)?;
            (x.sub(&m)?, Some(m))
        };
        let rstd = mean_of(&d.square()?, mask, count)?.add_scalar(self.eps.get())?.rsqrt()?;
        Ok((d, rstd, mean))
    }
    /// Writes `y, mean, rstd` from `x[, w][, b]`.
    pub(super) fn run(&self, x: &[View<'_>], [y, mean, rstd]: [&mut ViewMut<'_>; 3]) {
        let (x, parameters) = x.split_first().expect("an input");
        let (len, eps) = (self.shape.numel(), self.eps.get());
        let w = parameters.first().filter(|_| self.weight);
        if self.rms {
            kernels::rms_norm(x, len, w, eps, y, rstd);
        } else {
            kernels::layer_norm(x, len, w, parameters.last().filter(|_| self.bias), eps, y, mean, rstd);
        }
    }
}

impl LayerNormBackward {
    /// Writes the gradients of x, w and b that are wanted, from `g, x, mean, rstd[, w]`.
    pub(super) fn run(&self, x: &[View<'_>], [gx, gw, gb]: [&mut ViewMut<'_>; 3]) {
        let [g, x, mean, rstd, w @ ..] = x else { unreachable!("four operands and perhaps a weight") };
        let wanted = |i: u8| self.wanted >> i & 1 != 0;
        let (gx, gw, gb) = (wanted(0).then_some(gx), wanted(1).then_some(gw), wanted(2).then_some(gb));
        let len = self.of.shape.numel();
        if self.of.rms {
            kernels::rms_norm_backward(g, x, len, rstd, w.first(), gx, gw);
        } else {
            kernels::layer_norm_backward(g, x, len, mean, rstd, w.first(), gx, gw, gb);
        }
    }
}

impl Fused for LayerNorm {
    const NAME: &'static str = "layer_norm";
    const OUTS: usize = 3;
    const DIFFERENTIABLE: u64 = 1;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let views: SmallVec<[View<'_>; 3]> = x.iter().map(|t| t.view()).collect();
        o.run(&views, [&mut y[0].view_mut(), &mut y[1].view_mut(), &mut y[2].view_mut()]);
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| KernelCall::LayerNorm(*o).lower(f, x, y));
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let bias_at = 1 + o.weight as usize;
        let wanted =
            s.needs(0) as u8 | ((o.weight && s.needs(1)) as u8) << 1 | ((o.bias && s.needs(bias_at)) as u8) << 2;
        let op = Prim::LayerNormBackward(Box::new(LayerNormBackward { of: *o, wanted }));
        let mut x = vec![g, s.x(0), s.y(1), s.y(2)];
        if o.weight {
            x.push(s.x(1));
        }
        let d = dispatch::call_n(op, &x)?;
        let pick = |i: usize| (wanted >> i & 1 != 0).then(|| d[i].clone());
        let mut grads: Grads = smallvec![pick(0)];
        if o.weight {
            grads.push(pick(1));
        }
        if o.bias {
            grads.push(pick(2));
        }
        Ok(grads)
    });
    fn label(&self) -> &'static str {
        if self.rms { "rms_norm" } else { "layer_norm" }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("LayerNormKernelImpl", x[0])?;
        check_ends_in(x[0], &self.shape)?; // C1
        for (t, name) in [(self.weight(x), "weight"), (self.bias(x), "bias")] {
            let Some(t) = t else { continue };
            if *t.dims() != self.shape {
                return Err(Error::runtime(format!(
                    "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {} and normalized_shape = {}",
                    t.dims(),
                    self.shape
                ))); // C2
            }
            if t.dtype() != x[0].dtype() {
                return Err(Error::runtime(format!(
                    "expected scalar type {} but found {}",
                    x[0].dtype().scalar_type(),
                    t.dtype().scalar_type()
                )));
            }
        }
        Ok(Meta { device: crate::op::same_device(x)?, ..*x[0].meta() })
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, i: usize) -> Meta {
        let m = first.with_dtype(compute_dtype(first.dtype));
        if i == 1 && self.rms {
            return unwanted(&m);
        }
        let mut dims = first.dims;
        let rank = dims.len();
        dims[rank - self.shape.len()..].fill(1);
        m.with_dims(dims)
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        kernel_call::is_called(x[0].numel())
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let v = widened(x[0])?;
        let (d, rstd, mean) = self.statistics(&v)?;
        let mut y = d.mul(&rstd)?;
        if let Some(w) = self.weight(x) {
            y = y.mul(&widened(w)?)?;
        }
        if let Some(b) = self.bias(x) {
            y = y.add(&widened(b)?)?;
        }
        let mean = match mean {
            Some(m) => m,
            None => nothing(&v)?,
        };
        Ok(smallvec![narrowed(y, x[0].dtype())?, mean, rstd])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(0b01 | (self.weight as u64) << 1, 0b110)
    }
}

/// Requires that the sizes of `x` end in `shape`.
fn check_ends_in(x: &Tensor, shape: &Dims) -> Result<()> {
    if shape.is_empty() {
        return Err(Error::runtime(format!(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = {shape}"
        )));
    }
    if !x.dims().ends_with(shape) {
        let list: String = shape.iter().map(|n| format!(", {n}")).collect();
        return Err(Error::runtime(format!(
            "Given normalized_shape={shape}, expected input with shape [*{list}], but got input of size{}",
            x.dims()
        )));
    }
    Ok(())
}

impl Fused for LayerNormBackward {
    const NAME: &'static str = "layer_norm_backward";
    const OUTS: usize = 3;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let views: SmallVec<[View<'_>; 5]> = x.iter().map(|t| t.view()).collect();
        o.run(&views, [&mut y[0].view_mut(), &mut y[1].view_mut(), &mut y[2].view_mut()]);
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| KernelCall::LayerNormBackward(*o).lower(f, x, y));
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(if self.wanted & 1 != 0 { *x[1].meta() } else { unwanted(x[1].meta()) })
    }
    fn infer_extra(&self, x: &[&Tensor], _: &Meta, i: usize) -> Meta {
        let m = x[1].meta();
        if self.wanted >> i & 1 != 0 { m.with_dims(self.of.shape) } else { unwanted(m) }
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        kernel_call::is_called(x[1].numel())
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let dtype = x[1].dtype();
        let (g, v) = (widened(x[0])?, widened(x[1])?);
        let (d, rstd) = if state::grad_enabled() {
            let (d, rstd, _) = self.of.statistics(&v)?;
            (d, rstd)
        } else {
            (if self.of.rms { v.clone() } else { v.sub(x[2])? }, x[3].clone())
        };
        let h = d.mul(&rstd)?;
        let (mask, count) = last(v.dims(), self.of.shape.len());
        let lead = ((1u64 << v.dims().len()) - 1) & !mask;
        let mut out: Outs = smallvec![];
        out.push(if self.wanted & 1 != 0 {
            let gw = match x.get(4) {
                Some(w) => g.mul(&widened(w)?)?,
                None => g.clone(),
            };
            let along = h.mul(&mean_of(&gw.mul(&h)?, mask, count)?)?;
            let centred = if self.of.rms { gw } else { gw.sub(&mean_of(&gw, mask, count)?)? };
            narrowed(centred.sub(&along)?.mul(&rstd)?, dtype)?
        } else {
            nothing(x[1])?
        });
        out.push(if self.wanted & 2 != 0 { narrowed(sum_mask(&g.mul(&h)?, lead)?, dtype)? } else { nothing(x[1])? });
        out.push(if self.wanted & 4 != 0 { narrowed(sum_mask(&g, lead)?, dtype)? } else { nothing(x[1])? });
        Ok(out)
    }
}

fn shape_of(normalized_shape: &[i64]) -> Result<Dims> {
    let v: Vec<usize> = normalized_shape
        .iter()
        .map(|&n| {
            usize::try_from(n)
                .map_err(|_| Error::runtime(format!("normalized_shape has a negative size: {normalized_shape:?}")))
        })
        .collect::<Result<_>>()?;
    Dims::try_new(&v)
}

/// A weight or bias in the dtype of the data; 16-bit data may come with `f32` parameters.
fn parameter(x: &Tensor, p: Option<&Tensor>) -> Result<Option<Tensor>> {
    match p {
        Some(p) if p.dtype() == DType::F32 && compute_dtype(x.dtype()) == DType::F32 => {
            narrowed(p.clone(), x.dtype()).map(Some)
        }
        p => Ok(p.cloned()),
    }
}

fn row_norm(x: &Tensor, shape: Dims, w: Option<&Tensor>, b: Option<&Tensor>, eps: f64, rms: bool) -> Result<Outs> {
    check_ends_in(x, &shape)?;
    let (w, b) = (parameter(x, w)?, parameter(x, b)?);
    debug_assert!(!rms || b.is_none(), "rms_norm has no bias");
    let op = LayerNorm { shape, eps: F64::new(eps), rms, weight: w.is_some(), bias: b.is_some() };
    let mut inputs = vec![x];
    inputs.extend(w.iter().chain(&b));
    dispatch::call_n(Prim::LayerNorm(Box::new(op)), &inputs)
}

/// `torch.nn.functional.layer_norm`.
///
/// # Errors
/// `Runtime` when the input does not end in the normalised shape or parameters do not have it.
pub fn layer_norm(
    x: &Tensor,
    normalized_shape: &[i64],
    w: Option<&Tensor>,
    b: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    Ok(row_norm(x, shape_of(normalized_shape)?, w, b, eps, false)?.swap_remove(0))
}

/// `torch.nn.functional.rms_norm`; without `eps`, the smallest step of the dtype at one.
///
/// # Errors
/// As [`layer_norm`].
pub fn rms_norm(x: &Tensor, normalized_shape: &[i64], w: Option<&Tensor>, eps: Option<f64>) -> Result<Tensor> {
    let step = match x.dtype() {
        DType::F16 => 9.765_625e-4,
        DType::BF16 => 7.812_5e-3,
        DType::F64 => f64::EPSILON,
        _ => f32::EPSILON as f64,
    };
    let eps = eps.unwrap_or(step);
    if x.dtype().is_complex() {
        let dims: Vec<i64> = (1..=normalized_shape.len() as i64).map(|d| -d).collect();
        let y = x.mul(&x.square()?.mean_dim(&dims, true)?.add_scalar(eps)?.rsqrt()?)?;
        return w.map_or(Ok(y.clone()), |w| y.mul(w));
    }
    Ok(row_norm(x, shape_of(normalized_shape)?, w, None, eps, true)?.swap_remove(0))
}

/// A vector of one number a channel, shaped to broadcast over `[n, c, ..]`.
fn per_channel(p: &Tensor, rank: usize) -> Result<Tensor> {
    let mut d = Dims::filled(1, rank);
    d[1] = p.numel();
    p.reshape_dims(d)
}

/// `torch.nn.functional.group_norm`.
///
/// # Errors
/// `Runtime` when groups do not divide the channels or parameters are no vectors of one number a channel.
pub fn group_norm(x: &Tensor, groups: i64, w: Option<&Tensor>, b: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    Ok(group_norm_with_statistics(x, groups, w, b, eps)?.0)
}

/// The result, and mean and inverse deviation of each group of each sample.
fn group_norm_with_statistics(
    x: &Tensor,
    groups: i64,
    w: Option<&Tensor>,
    b: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let d = *x.dims();
    if d.len() < 2 {
        return Err(Error::runtime(format!(
            "Expected at least 2 dimensions for input tensor but received {}",
            d.len()
        )));
    }
    if groups <= 0 {
        return Err(Error::runtime(format!("Expected num groups to be greater than 0, got {groups}")));
    }
    if !d[1].is_multiple_of(groups as usize) {
        return Err(Error::runtime(format!(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {d} and num_groups={groups}"
        )));
    }
    for (p, name) in [(w, "weight"), (b, "bias")] {
        if let Some(p) = p.filter(|p| p.dims().len() != 1 || p.numel() != d[1]) {
            return Err(Error::runtime(format!(
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {} and input of shape {d}",
                p.dims()
            )));
        }
    }
    if d[1] == 0 {
        return Err(Error::runtime(format!("Expected number of channels to be greater than 0, got {}", d[1])));
    }
    let rows = d[0] * groups as usize;
    if x.numel() == 0 {
        // Nothing to normalise; the parameters still get gradients.
        let y = w.map_or_else(|| Ok(x.clone()), |w| x.mul(&per_channel(w, d.len())?))?;
        let y = b.map_or_else(|| Ok(y.clone()), |b| y.add(&per_channel(b, d.len())?))?.to_dtype(x.dtype())?;
        let none = Tensor::zeros(&[d[0], groups as usize], compute_dtype(x.dtype()), x.device())?;
        return Ok((y, none.clone(), none));
    }
    // The parameters apply to what is not yet rounded.
    let row = x.numel() / rows;
    let (w, b) = (parameter(x, w)?, parameter(x, b)?);
    let v = if w.is_some() || b.is_some() { widened(x)? } else { x.clone() };
    let flat = v.reshape_dims(Dims::new(&[rows, row]))?;
    let normed = row_norm(&flat, Dims::new(&[row]), None, None, eps, false)?;
    let mut y = normed[0].reshape_dims(d)?;
    if let Some(w) = w {
        y = y.mul(&per_channel(&w.to_dtype(v.dtype())?, d.len())?)?;
    }
    if let Some(b) = b {
        y = y.add(&per_channel(&b.to_dtype(v.dtype())?, d.len())?)?;
    }
    let y = narrowed(y, x.dtype())?;
    let each = Dims::new(&[d[0], groups as usize]);
    Ok((y, normed[1].reshape_dims(each)?, normed[2].reshape_dims(each)?))
}

/// `torch.native_group_norm`, whose sizes are given apart.
fn native_group_norm(a: &Args<'_>) -> Result<Ret> {
    let (x, w) = (a.tensor(0)?, a.opt_tensor(1)?);
    let [n, c, rest] = [a.int(3)?, a.int(4)?, a.int(5)?];
    if n.checked_mul(c).and_then(|v| v.checked_mul(rest)) != Some(x.numel() as i64) {
        return Err(Error::runtime(format!(
            "Expected X.numel() == N * C * HxW, but got {} and {n} * {c} * {rest}",
            x.numel()
        )));
    }
    let flat = x.reshape(&[n, c, rest])?;
    let (groups, eps) = (a.int(6)?, a.float(7)?);
    let (y, mut mean, mut rstd) = group_norm_with_statistics(&flat, groups, w, a.opt_tensor(2)?, eps)?;
    if state::grad_enabled() && x.requires_grad() && x.numel() > 0 {
        // Those of the fused op carry no gradient.
        let each = widened(x)?.reshape(&[n, groups, c / groups * rest])?;
        let (var, average) = super::reduce::var_mean(&each, Some(&[2]), 0.0, false)?;
        (mean, rstd) = (average, var.add_scalar(eps)?.rsqrt()?);
    }
    // The parameters have no part in them, yet a gradient, which is zero.
    for p in [w, a.opt_tensor(2)?, (x.numel() == 0).then_some(x)].into_iter().flatten().filter(|p| p.requires_grad()) {
        let number = p.sum()?;
        (mean, rstd) =
            (super::pointwise::independent_of(&number, mean)?, super::pointwise::independent_of(&number, rstd)?);
    }
    // Statistics come in the parameters' dtype.
    let stats = w.unwrap_or(x).dtype();
    Ok((y.reshape_dims(*x.dims())?, mean.to_dtype(stats)?, rstd.to_dtype(stats)?).into())
}

// ------------------------------------------------------------------------------------------------ batch norm

/// `y = (x - mean[c]) / sqrt(var[c] + eps) * w[c] + b[c]`, with the batch's own statistics or with given ones.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n, c, ..]` | floating point |
/// | mean, var | `[c]`, inputs unless `train` | that of arithmetic |
/// | w, b | `[c]`, each if the attribute says so | as x |
/// | y | as x | as x |
/// | mean, invstd, var | `[c]`, outputs when `train`, else without elements | that of arithmetic |
///
/// The variance is the biased one. Saves x, w and the statistics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchNorm {
    /// The batch's own statistics.
    pub train: bool,
    /// Added to the variance.
    pub eps: F64,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
}

/// Gradients of [`BatchNorm`] for x, w and b, from `g, x, mean, invstd[, w]`; those that are not wanted have no elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchNormBackward {
    /// What it is the gradient of.
    pub of: BatchNorm,
    /// Bits 0, 1, 2: whether the gradient of x, w, b is wanted.
    pub wanted: u8,
}

/// All dimensions but the channels, and how many elements a channel has.
fn around_channels(dims: &Dims) -> (u64, usize) {
    (((1u64 << dims.len()) - 1) & !2, dims.numel() / dims[1].max(1))
}

impl BatchNorm {
    fn first_parameter(&self) -> usize {
        if self.train { 1 } else { 3 }
    }
    fn weight<'a>(&self, x: &[&'a Tensor]) -> Option<&'a Tensor> {
        self.weight.then(|| x[self.first_parameter()])
    }
    fn bias<'a>(&self, x: &[&'a Tensor]) -> Option<&'a Tensor> {
        self.bias.then(|| x[self.first_parameter() + self.weight as usize])
    }
    /// Mean and biased variance of each channel, shaped to broadcast.
    fn batch_statistics(x: &Tensor) -> Result<(Tensor, Tensor)> {
        let (mask, count) = around_channels(x.dims());
        let mean = mean_of(x, mask, count)?;
        let var = mean_of(&x.sub(&mean)?.square()?, mask, count)?;
        Ok((mean, var))
    }
}

impl Fused for BatchNorm {
    const NAME: &'static str = "batch_norm";
    const OUTS: usize = 4;
    const DIFFERENTIABLE: u64 = 1;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (w, b) = (o.weight(x).map(Tensor::view), o.bias(x).map(Tensor::view));
        let (v, mut out, eps) = (x[0].view(), y[0].view_mut(), o.eps.get());
        if o.train {
            let (mut mean, mut invstd, mut var) = (y[1].view_mut(), y[2].view_mut(), y[3].view_mut());
            kernels::batch_norm_train(&v, w.as_ref(), b.as_ref(), eps, &mut out, &mut mean, &mut invstd, &mut var);
        } else {
            kernels::batch_norm_eval(&v, &x[1].view(), &x[2].view(), w.as_ref(), b.as_ref(), eps, &mut out);
        }
        Ok(())
    });
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let p = o.first_parameter();
        let bias_at = p + o.weight as usize;
        let wanted =
            s.needs(0) as u8 | ((o.weight && s.needs(p)) as u8) << 1 | ((o.bias && s.needs(bias_at)) as u8) << 2;
        let given;
        let (mean, invstd) = if o.train {
            (s.y(1), s.y(2))
        } else {
            given = s.x(2).add_scalar(o.eps.get())?.rsqrt()?;
            (s.x(1), &given)
        };
        let mut x = vec![g, s.x(0), mean, invstd];
        if o.weight {
            x.push(s.x(p));
        }
        let d = dispatch::call_n(Prim::BatchNormBackward(BatchNormBackward { of: *o, wanted }), &x)?;
        let pick = |i: usize| (wanted >> i & 1 != 0).then(|| d[i].clone());
        let mut grads: Grads = smallvec![pick(0)];
        if !o.train {
            grads.extend([None, None]); // running statistics are constants
        }
        if o.weight {
            grads.push(pick(1));
        }
        if o.bias {
            grads.push(pick(2));
        }
        Ok(grads)
    });
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("batch_norm", x[0])?;
        let d = x[0].dims();
        if d.len() < 2 {
            return Err(Error::runtime(format!("Expected 2D or more input, but got input of size: {d}")));
        }
        let given = if self.train { [None, None] } else { [Some(x[1]), Some(x[2])] };
        let named =
            [(given[0], "running_mean"), (given[1], "running_var"), (self.weight(x), "weight"), (self.bias(x), "bias")];
        for (t, name) in named {
            let Some(t) = t else { continue };
            if t.numel() != d[1] {
                return Err(Error::runtime(format!("{name} should contain {} elements not {}", d[1], t.numel())));
            }
        }
        Ok(Meta { device: crate::op::same_device(x)?, ..*x[0].meta() })
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        let m = first.with_dtype(compute_dtype(first.dtype));
        if self.train { m.with_dims(Dims::new(&[first.dims[1]])) } else { unwanted(&m) }
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let v = widened(x[0])?;
        let rank = v.dims().len();
        let (mean, var) = if self.train {
            BatchNorm::batch_statistics(&v)?
        } else {
            let of = |t: &Tensor| narrowed(per_channel(&t.detach(), rank)?, v.dtype());
            (of(x[1])?, of(x[2])?)
        };
        let invstd = var.add_scalar(self.eps.get())?.rsqrt()?;
        let mut y = v.sub(&mean)?.mul(&invstd)?;
        if let Some(w) = self.weight(x) {
            y = y.mul(&per_channel(&widened(w)?, rank)?)?;
        }
        if let Some(b) = self.bias(x) {
            y = y.add(&per_channel(&widened(b)?, rank)?)?;
        }
        let y = narrowed(y, x[0].dtype())?;
        if !self.train {
            return Ok(smallvec![y, nothing(&v)?, nothing(&v)?, nothing(&v)?]);
        }
        let flat = |t: &Tensor| t.reshape_dims(Dims::new(&[v.dims()[1]]));
        Ok(smallvec![y, flat(&mean)?, flat(&invstd)?, flat(&var)?])
    }
    fn saves(&self, _: u64) -> Saves {
        let weight = (self.weight as u64) << self.first_parameter();
        if self.train { Saves::both(1 | weight, 0b110) } else { Saves::inputs(0b111 | weight) }
    }
}

impl Fused for BatchNormBackward {
    const NAME: &'static str = "batch_norm_backward";
    const OUTS: usize = 3;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let views: Vec<View<'_>> = x.iter().map(|t| t.view()).collect();
        let wanted = |i: usize| -> Option<ViewMut<'_>> { (o.wanted >> i & 1 != 0).then(|| y[i].view_mut()) };
        let (mut gx, mut gw, mut gb) = (wanted(0), wanted(1), wanted(2));
        kernels::batch_norm_backward(
            &views[0],
            &views[1],
            &views[2],
            &views[3],
            views.get(4),
            o.of.train,
            gx.as_mut(),
            gw.as_mut(),
            gb.as_mut(),
        );
        Ok(())
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(if self.wanted & 1 != 0 { *x[1].meta() } else { unwanted(x[1].meta()) })
    }
    fn infer_extra(&self, x: &[&Tensor], _: &Meta, i: usize) -> Meta {
        let m = x[1].meta();
        if self.wanted >> i & 1 != 0 { m.with_dims(Dims::new(&[m.dims[1]])) } else { unwanted(m) }
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let dtype = x[1].dtype();
        let (g, v) = (widened(x[0])?, widened(x[1])?);
        let rank = v.dims().len();
        let (mask, count) = around_channels(v.dims());
        let (mean, invstd) = if self.of.train && state::grad_enabled() {
            let (mean, var) = BatchNorm::batch_statistics(&v)?;
            (mean, var.add_scalar(self.of.eps.get())?.rsqrt()?)
        } else {
            let of = |t: &Tensor| narrowed(per_channel(t, rank)?, v.dtype());
            (of(x[2])?, of(x[3])?)
        };
        let h = v.sub(&mean)?.mul(&invstd)?;
        let mut out: Outs = smallvec![];
        out.push(if self.wanted & 1 != 0 {
            let gw = match x.get(4) {
                Some(w) => g.mul(&per_channel(&widened(w)?, rank)?)?,
                None => g.clone(),
            };
            let inner = if self.of.train {
                gw.sub(&mean_of(&gw, mask, count)?)?.sub(&h.mul(&mean_of(&gw.mul(&h)?, mask, count)?)?)?
            } else {
                gw
            };
            narrowed(inner.mul(&invstd)?, dtype)?
        } else {
            nothing(x[1])?
        });
        out.push(if self.wanted & 2 != 0 { narrowed(sum_mask(&g.mul(&h)?, mask)?, dtype)? } else { nothing(x[1])? });
        out.push(if self.wanted & 4 != 0 { narrowed(sum_mask(&g, mask)?, dtype)? } else { nothing(x[1])? });
        Ok(out)
    }
}

/// Running mean and variance, moved a step towards the batch's.
fn update_running(running: Option<&Tensor>, batch: &Tensor, momentum: f64, factor: f64) -> Result<()> {
    let Some(r) = running else { return Ok(()) };
    state::no_grad(|| {
        let batch = narrowed(batch.clone(), compute_dtype(r.dtype()))?;
        let step = batch.mul_scalar(momentum * factor)?;
        inplace::assign(r, &narrowed(widened(r)?.mul_scalar(1.0 - momentum)?.add(&step)?, r.dtype())?)
    })
}

/// Parameters of [`batch_norm`] beside the input.
pub struct BatchNormArgs<'a> {
    /// Weight, one number a channel.
    pub weight: Option<&'a Tensor>,
    /// Bias, one number a channel.
    pub bias: Option<&'a Tensor>,
    /// Running mean; written when training.
    pub running_mean: Option<&'a Tensor>,
    /// Running unbiased variance; written when training.
    pub running_var: Option<&'a Tensor>,
    /// Use the batch's statistics.
    pub training: bool,
    /// How far running statistics move.
    pub momentum: f64,
    /// Added to the variance.
    pub eps: f64,
}

/// `torch.nn.functional.batch_norm`: the result, and mean and inverse deviation of the batch when training.
///
/// # Errors
/// `Value` for a channel of one element when training; `Runtime` when sizes do not fit or running statistics are missing.
pub fn batch_norm(x: &Tensor, p: &BatchNormArgs<'_>) -> Result<(Tensor, Tensor, Tensor)> {
    let d = *x.dims();
    let (w, b) = (parameter(x, p.weight)?, parameter(x, p.bias)?);
    let op = BatchNorm { train: p.training, eps: F64::new(p.eps), weight: w.is_some(), bias: b.is_some() };
    let mut inputs = vec![x];
    if p.training {
        if d.len() >= 2 && x.numel() / d[1].max(1) == 1 {
            return Err(Error::value(format!(
                "Expected more than 1 value per channel when training, got input size {d}"
            )));
        }
        for (r, name) in [(p.running_mean, "running_mean"), (p.running_var, "running_var")] {
            if let Some(r) = r.filter(|r| d.len() >= 2 && r.numel() != d[1]) {
                return Err(Error::runtime(format!("{name} should contain {} elements not {}", d[1], r.numel())));
            }
        }
    } else {
        for (r, name) in [(p.running_mean, "running_mean"), (p.running_var, "running_var")] {
            inputs.push(r.ok_or_else(|| Error::runtime(format!("{name} must be defined in evaluation mode")))?);
        }
    }
    inputs.extend(w.iter().chain(&b));
    let y = dispatch::call_n(Prim::BatchNorm(op), &inputs)?;
    if p.training {
        let count = (x.numel() / d[1].max(1)) as f64;
        update_running(p.running_mean, &y[1], p.momentum, 1.0)?;
        update_running(p.running_var, &y[3], p.momentum, count / (count - 1.0))?;
    }
    Ok((y[0].clone(), y[1].clone(), y[2].clone()))
}

/// `torch.nn.functional.instance_norm`: batch normalisation of each sample on its own.
fn instance_norm(x: &Tensor, p: &BatchNormArgs<'_>) -> Result<Tensor> {
    let d = *x.dims();
    if d.len() < 3 {
        return Err(Error::runtime(format!("Expected 3D or more input to instance_norm, but got input of size: {d}")));
    }
    let repeated = |t: Option<&Tensor>| -> Result<Option<Tensor>> {
        let Some(t) = t else { return Ok(None) };
        if t.numel() != d[1] {
            return Err(Error::runtime(format!("Expected a parameter of {} elements, but got {}", d[1], t.numel())));
        }
        Ok(Some(
            t.reshape_dims(Dims::new(&[1, d[1]]))?
                .expand_dims(&Dims::new(&[d[0], d[1]]))?
                .reshape_dims(Dims::new(&[d[0] * d[1]]))?,
        ))
    };
    if p.training && d[2..].iter().product::<usize>() == 1 {
        return Err(Error::value(format!("Expected more than 1 spatial element when training, got input size {d}")));
    }
    let mut folded = d;
    folded[0] = 1;
    folded[1] = d[0] * d[1];
    let (w, b) = (repeated(p.weight)?, repeated(p.bias)?);
    let (rm, rv) = (repeated(p.running_mean)?, repeated(p.running_var)?);
    let inner = BatchNormArgs {
        weight: w.as_ref(),
        bias: b.as_ref(),
        running_mean: rm.as_ref(),
        running_var: rv.as_ref(),
        ..*p
    };
    let flat = x.reshape_dims(folded)?;
    let y = batch_norm(&flat, &inner)?.0.reshape_dims(d)?;
    if p.training {
        // Each sample moved its own copy; the average of the copies is what the channel keeps.
        for (running, copies) in [(p.running_mean, rm), (p.running_var, rv)] {
            if let (Some(r), Some(c)) = (running, copies) {
                state::no_grad(|| {
                    inplace::assign(r, &c.reshape_dims(Dims::new(&[d[0], d[1]]))?.mean_dim(&[0], false)?)
                })?;
            }
        }
    }
    Ok(y)
}

fn batch_args<'a>(a: &Args<'a>) -> Result<BatchNormArgs<'a>> {
    Ok(BatchNormArgs {
        weight: a.opt_tensor(1)?,
        bias: a.opt_tensor(2)?,
        running_mean: a.opt_tensor(3)?,
        running_var: a.opt_tensor(4)?,
        training: a.bool(5)?,
        momentum: a.float(6)?,
        eps: a.float(7)?,
    })
}

/// Settings of one of aten's batch normalisations, given where their parameters stand.
fn legit_args<'a>(a: &Args<'a>, running: bool, training: bool, momentum: usize) -> Result<BatchNormArgs<'a>> {
    Ok(BatchNormArgs {
        weight: a.opt_tensor(1)?,
        bias: a.opt_tensor(2)?,
        running_mean: if running { a.opt_tensor(3)? } else { None },
        running_var: if running { a.opt_tensor(4)? } else { None },
        training,
        momentum: a.float(momentum)?,
        eps: a.float(momentum + 1)?,
    })
}

/// The result and the batch's statistics in the parameters' dtype; without training those have no elements.
fn with_statistics(x: &Tensor, p: &BatchNormArgs<'_>) -> Result<Vec<Tensor>> {
    let (y, mean, invstd) = batch_norm(x, p)?;
    let stats = p.weight.unwrap_or(x).dtype();
    Ok(vec![y, mean.to_dtype(stats)?, invstd.to_dtype(stats)?])
}

/// The same with new running statistics as further results; those that were given stay.
fn functional(x: &Tensor, p: &BatchNormArgs<'_>, reserve: bool) -> Result<Ret> {
    let copy = |r: Option<&Tensor>| r.map(|r| r.detach().copy()).transpose();
    let (mean, var) = (copy(p.running_mean)?, copy(p.running_var)?);
    let moved = BatchNormArgs { running_mean: mean.as_ref(), running_var: var.as_ref(), ..*p };
    let mut y = with_statistics(x, &moved)?;
    if reserve {
        y.push(reserved(x)?);
    }
    y.extend(mean.into_iter().chain(var));
    Ok(Ret::Tuple(y))
}

/// What a backend keeps for its gradient; here nothing.
fn reserved(x: &Tensor) -> Result<Tensor> {
    Tensor::zeros(&[0], DType::U8, x.device())
}

fn legit(a: &Args<'_>) -> Result<Ret> {
    Ok(Ret::Tuple(with_statistics(a.tensor(0)?, &legit_args(a, true, a.bool(5)?, 6)?)?))
}

fn no_stats(a: &Args<'_>) -> Result<Ret> {
    Ok(Ret::Tuple(with_statistics(a.tensor(0)?, &legit_args(a, false, a.bool(3)?, 4)?)?))
}

fn with_reserve(a: &Args<'_>, training: bool) -> Result<Ret> {
    let mut y = with_statistics(a.tensor(0)?, &legit_args(a, true, training, 5)?)?;
    y.push(reserved(a.tensor(0)?)?);
    Ok(Ret::Tuple(y))
}

/// Samples with running statistics; what follows them is given.
fn batch_samples(rest: &[SampleArg], running: bool) -> Vec<Sample> {
    let mut args = vec![t(&[3, 2, 2]), positive(&[2]), t(&[2])];
    if running {
        args.extend([t(&[2]), positive(&[2])]);
    }
    args.extend_from_slice(rest);
    vec![Sample::new(args).no_gradient()]
}

fn none() -> SampleArg {
    SampleArg::Default
}

/// Rows of the normalisations.
pub const ROWS: &[Row] = &[
    Row::new("layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor", Tier::Fused, |a| Ok(layer_norm(a.tensor(0)?, a.ints(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?, a.float(4)?)?.into()), samples!([t(&[3, 4]), ints(&[4]), positive(&[4]), t(&[4])], [t(&[2, 3, 4]), ints(&[3, 4])], [t(&[3, 4]), ints(&[4]), positive(&[4])], [t(&[3, 4]), ints(&[4]), none(), t(&[4])])).scope(Scope::Function),
    Row::new("native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)", Tier::Fused, |a| {
        let y = row_norm(a.tensor(0)?, shape_of(a.ints(1)?)?, a.opt_tensor(2)?, a.opt_tensor(3)?, a.float(4)?, false)?;
        // Statistics come in the parameters' dtype.
        let stats = a.opt_tensor(2)?.unwrap_or(a.tensor(0)?).dtype();
        let y = y.into_iter().enumerate().map(|(i, y)| if i == 0 { Ok(y) } else { y.to_dtype(stats) });
        Ok(Ret::Tuple(y.collect::<Result<_>>()?))
    }, || vec![Sample::new(vec![t(&[3, 4]), ints(&[4]), positive(&[4]), t(&[4]), n(1e-5)]).no_gradient()]).scope(Scope::Function),
    Row::new("rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", Tier::Fused, |a| Ok(rms_norm(a.tensor(0)?, a.ints(1)?, a.opt_tensor(2)?, a.opt_float(3)?)?.into()), samples!([t(&[3, 4]), ints(&[4]), positive(&[4]), n(1e-6)], [t(&[2, 3, 4]), ints(&[3, 4])])).scope(Scope::Function),
    Row::new("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor", Tier::Composed, |a| Ok(group_norm(a.tensor(0)?, a.int(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?, a.float(4)?)?.into()), samples!([t(&[2, 4, 3]), n(2), positive(&[4]), t(&[4])], [t(&[2, 4, 2, 2]), n(4)])).scope(Scope::Function),
    Row::new("batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor", Tier::Fused, |a| Ok(batch_norm(a.tensor(0)?, &batch_args(a)?)?.0.into()), samples!([t(&[3, 2, 2]), positive(&[2]), t(&[2]), none(), none(), n(true), n(0.1), n(1e-5), n(false)], [t(&[3, 2]), none(), none(), none(), none(), n(true), n(0.1), n(1e-5), n(false)])).scope(Scope::Function),
    Row::new("native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", Tier::Fused, |a| {
        let (y, m, s) = batch_norm(a.tensor(0)?, &batch_args(a)?)?;
        let stats = a.opt_tensor(1)?.unwrap_or(a.tensor(0)?).dtype();
        Ok((y, m.to_dtype(stats)?, s.to_dtype(stats)?).into())
    }, || vec![
        Sample::new(vec![t(&[3, 2, 2]), positive(&[2]), t(&[2]), t(&[2]), positive(&[2]), n(false), n(0.1), n(1e-5)]).no_gradient(),
        Sample::new(vec![t(&[3, 2, 2]), none(), t(&[2]), none(), none(), n(true), n(0.1), n(1e-5)]).no_gradient(),
    ]).scope(Scope::Function),
    Row::new("instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor", Tier::Composed, |a| Ok(instance_norm(a.tensor(0)?, &batch_args(a)?)?.into()), samples!([t(&[2, 2, 3]), positive(&[2]), t(&[2]), none(), none(), n(true), n(0.1), n(1e-5), n(false)])).scope(Scope::Function),
    Row::new("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)", Tier::Composed, native_group_norm, || vec![Sample::new(vec![t(&[2, 4, 3]), positive(&[4]), t(&[4]), n(2), n(4), n(3), n(2), n(1e-5)])]).scope(Scope::Function),
    Row::new("_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", Tier::Fused, legit, || batch_samples(&[n(false), n(0.1), n(1e-5)], true)).scope(Scope::Function),
    Row::new("_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", Tier::Fused, no_stats, || batch_samples(&[n(true), n(0.1), n(1e-5)], false)).scope(Scope::Function),
    Row::new("_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)", Tier::Fused, |a| Ok(Ret::Tuple(with_statistics(a.tensor(0)?, &legit_args(a, true, false, 5)?)?)), || batch_samples(&[n(0.1), n(1e-5)], true)).scope(Scope::Function),
    Row::new("_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)", Tier::Fused, |a| functional(a.tensor(0)?, &legit_args(a, true, a.bool(5)?, 6)?, false), || batch_samples(&[n(true), n(0.1), n(1e-5)], true)).no_out().scope(Scope::Aten),
    Row::new("_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)", Tier::Fused, |a| with_reserve(a, true), || batch_samples(&[n(0.1), n(1e-5)], true)).scope(Scope::Aten),
    Row::new("_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)", Tier::Fused, |a| functional(a.tensor(0)?, &legit_args(a, true, true, 5)?, true), || batch_samples(&[n(0.1), n(1e-5)], true)).no_out().scope(Scope::Aten),
    Row::new("_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)", Tier::Fused, |a| with_reserve(a, a.opt_tensor(3)?.is_none()), || batch_samples(&[n(0.1), n(1e-5)], true)).scope(Scope::Aten),
];
