//! Normalisation over the last dimensions: layer norm and root mean square.

use super::{last, mean_of, nothing, unwanted};
use crate::axes::{Axes, Combine, all_whole};
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, misfit};
use crate::op::{F64, Facts, Fused, Grads, KernelFn, LowerFn, Outs, Prim, Saved, Saves, VjpFn, all_dims};
use crate::ops::reduce::sum_mask;
use crate::policy::{Policies, Policy};
use crate::types::compute::{compute_dtype, expect_float, narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch, state};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::norm as kernels;
use torchtpu_kernels::{View, ViewMut};

/// `y = (x - mean) / sqrt(var + eps) * w + b` over the last dimensions; with `rms`, without the mean.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[.., shape]` | floating point |
/// | w, b | `shape`, each if the attribute says so | as x, or `f32` for 16-bit floats |
/// | y | as x | as x |
/// | mean, rstd | `[.., 1, 1]` | that of arithmetic: `f32` for 16-bit floats |
///
/// C1: x ends in `shape`, which is not empty. C2: w and b have this shape. The variance is the biased one. With `rms`,
/// `mean` has no elements. Saves x, w and the statistics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LayerNorm {
    /// Sizes of a row.
    pub shape: Dims,
    /// The number that is added to the variance.
    pub eps: F64,
    /// Whether to use the root mean square, without subtracting the mean.
    pub rms: bool,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias; never with `rms`.
    pub bias: bool,
}

/// Gradients of [`LayerNorm`] for x, w and b, from `g, x, mean, rstd[, w]`. Unwanted gradients have no elements. Those
/// of w and b have the dtype of arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LayerNormBackward {
    /// The op whose gradient this is.
    pub of: LayerNorm,
    /// Bits 0, 1, 2: whether the gradients of x, w and b are wanted.
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
    /// The part of the gradient of x that comes from the gradients of the mean and of the inverse deviation.
    fn statistics_vjp(&self, s: &Saved<'_>) -> Result<Tensor> {
        let v = widened(s.x(0))?;
        let (_, count) = last(v.dims(), self.shape.len());
        // Compute the square root again, so that this can be differentiated too.
        let (d, rstd, _) = self.statistics(&v)?;
        let mut gx = Tensor::zeros_like_meta(v.meta())?;
        if let Some(g) = s.g(1).filter(|_| !self.rms) {
            gx = gx.add(&widened(g)?.div_scalar(count as f64)?)?;
        }
        if let Some(g) = s.g(2) {
            let cube = rstd.square()?.mul(&rstd)?;
            gx = gx.sub(&widened(g)?.mul(&cube)?.div_scalar(count as f64)?.mul(&d)?)?;
        }
        narrowed(gx, s.x(0).dtype())
    }
    /// Write `y, mean, rstd` from `x[, w][, b]`.
    pub(crate) fn run(&self, x: &[View<'_>], [y, mean, rstd]: [&mut ViewMut<'_>; 3]) {
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
    /// Write the wanted gradients of x, w and b, from `g, x, mean, rstd[, w]`.
    pub(crate) fn run(&self, x: &[View<'_>], [gx, gw, gb]: [&mut ViewMut<'_>; 3]) {
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

fields! {
    LayerNorm { shape, eps, rms, weight, bias };
    LayerNormBackward { of, wanted };
}

impl KernelCall for LayerNorm {
    fn name() -> &'static str {
        "layer_norm"
    }
    fn arity(&self) -> (usize, usize) {
        (1 + usize::from(self.weight) + usize::from(self.bias), 3)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let [y, mean, rstd] = y else { return Err(misfit(self)) };
        self.run(x, [y, mean, rstd]);
        Ok(())
    }
}

impl KernelCall for LayerNormBackward {
    fn name() -> &'static str {
        "layer_norm_backward"
    }
    fn arity(&self) -> (usize, usize) {
        (4 + usize::from(self.of.weight), 3)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let [gx, gw, gb] = y else { return Err(misfit(self)) };
        self.run(x, [gx, gw, gb]);
        Ok(())
    }
}

impl Fused for LayerNorm {
    const NAME: &'static str = "layer_norm";
    const FACTS: Facts = Facts { autocast: Policies::accelerator(Policy::Full), ..Facts::NONE };
    const OUTS: usize = 3;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let views: SmallVec<[View<'_>; 3]> = x.iter().map(|t| t.view()).collect();
        o.run(&views, [&mut y[0].view_mut(), &mut y[1].view_mut(), &mut y[2].view_mut()]);
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| o.call_kernel(f, x, y));
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
        let mut gx = pick(0);
        if let (Some(g), true) = (&gx, s.g(1).is_some() || s.g(2).is_some()) {
            gx = Some(g.add(&o.statistics_vjp(s)?)?);
        }
        let mut grads: Grads = smallvec![gx];
        let parameter = |i: usize, at: usize| pick(i).map(|g| narrowed(g, s.meta(at).dtype)).transpose();
        if o.weight {
            grads.push(parameter(1, 1)?);
        }
        if o.bias {
            grads.push(parameter(2, bias_at)?);
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
                    "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {} and \
                    normalized_shape = {}",
                    t.dims(),
                    self.shape
                ))); // C2
            }
            if t.dtype() != x[0].dtype() && t.dtype() != compute_dtype(x[0].dtype()) {
                return Err(Error::runtime(format!(
                    "expected scalar type {} but found {}",
                    x[0].dtype().scalar_type(),
                    t.dtype().scalar_type()
                )));
            }
        }
        Ok(Meta { place: crate::op::same_device(x)?, ..*x[0].meta() })
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, i: usize) -> Meta {
        let m = first.with_dtype(compute_dtype(first.dtype));
        if i == 1 && self.rms {
            return unwanted(&m);
        }
        let mut dims = first.dims;
        let rank = dims.len();
        dims.edit(|d| d[rank - self.shape.len()..].fill(1));
        m.with_dims(dims)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let row = all_whole(self.shape.len());
        Axes::parse(&format!("... {row}, {row}, {row} -> ... {row}"), x, y)
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

/// Refuse an `x` whose sizes do not end in `shape`.
fn check_ends_in(x: &Tensor, shape: &Dims) -> Result<()> {
    if shape.is_empty() {
        return Err(Error::runtime(format!(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got \
            normalized_shape = {shape}"
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
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| o.call_kernel(f, x, y));
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(if self.wanted & 1 != 0 { *x[1].meta() } else { unwanted(x[1].meta()) })
    }
    fn infer_extra(&self, x: &[&Tensor], _: &Meta, i: usize) -> Meta {
        let m = x[1].meta().with_dtype(compute_dtype(x[1].dtype()));
        if self.wanted >> i & 1 != 0 { m.with_dims(self.of.shape) } else { unwanted(&m) }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // The gradients of the parameters are sums over all rows.
        let row = all_whole(self.of.shape.len());
        let text = format!("... {row}, ... {row}, ... {row}, ... {row}, {row} -> ... {row}, {row}, {row}");
        Axes::parse(&text, x, y).reduces("...", Combine::Sum).linear(&[0b1])
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
        let lead = all_dims(v.dims().len()) & !mask;
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
        out.push(if self.wanted & 2 != 0 { sum_mask(&g.mul(&h)?, lead)? } else { nothing(&v)? });
        out.push(if self.wanted & 4 != 0 { sum_mask(&g, lead)? } else { nothing(&v)? });
        Ok(out)
    }
}

pub(super) fn shape_of(normalized_shape: &[i64]) -> Result<Dims> {
    let v: Vec<usize> = normalized_shape
        .iter()
        .map(|&n| {
            usize::try_from(n)
                .map_err(|_| Error::runtime(format!("normalized_shape has a negative size: {normalized_shape:?}")))
        })
        .collect::<Result<_>>()?;
    Dims::try_new(&v)
}

pub(super) fn row_norm(
    x: &Tensor,
    shape: Dims,
    w: Option<&Tensor>,
    b: Option<&Tensor>,
    eps: f64,
    rms: bool,
) -> Result<Outs> {
    check_ends_in(x, &shape)?;
    debug_assert!(!rms || b.is_none(), "rms_norm has no bias");
    let op = LayerNorm { shape, eps: F64::new(eps), rms, weight: w.is_some(), bias: b.is_some() };
    let mut inputs = vec![x];
    inputs.extend(w.into_iter().chain(b));
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

/// `torch.nn.functional.rms_norm`. The default of `eps` is the machine epsilon of the dtype to compute in.
///
/// # Errors
/// The errors of [`layer_norm`].
pub fn rms_norm(x: &Tensor, normalized_shape: &[i64], w: Option<&Tensor>, eps: Option<f64>) -> Result<Tensor> {
    // PyTorch computes 16-bit floats in `float32`, whose epsilon it takes.
    let eps = eps.unwrap_or(match x.dtype() {
        DType::F64 | DType::C128 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    });
    if x.dtype().is_complex() {
        let dims: Vec<i64> = (1..=normalized_shape.len() as i64).map(|d| -d).collect();
        let y = x.mul(&x.square()?.mean_dim(&dims, true)?.add_scalar(eps)?.rsqrt()?)?;
        return w.map_or(Ok(y.clone()), |w| y.mul(w));
    }
    match w {
        Some(w) if w.dtype() != x.dtype() => {
            rms_norm(x, normalized_shape, None, Some(eps))?.mul(w)?.to_dtype(x.dtype())
        }
        _ => Ok(row_norm(x, shape_of(normalized_shape)?, w, None, eps, true)?.swap_remove(0)),
    }
}
