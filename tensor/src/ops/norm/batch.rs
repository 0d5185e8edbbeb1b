//! Normalisation over the batch: batch norm, and instance norm, a batch norm of each sample.

use super::{mean_of, nothing, per_channel, unwanted};
use crate::axes::{Axes, Combine, all_whole, list, names};
use crate::op::{F64, Func, Fused, Grads, KernelFn, LowerFn, Outs, Prim, Saves, Value, VjpFn, all_dims};
use crate::ops::reduce::sum_mask;
use crate::schema::{Args, Ret, Sample, SampleArg, positive, t};
use crate::types::compute::{compute_dtype, expect_float, narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Tensor, backend, dispatch, inplace, state};
use smallvec::smallvec;
use torchtpu_kernels::norm as kernels;
use torchtpu_kernels::{View, ViewMut};
use torchtpu_stablehlo::{ElementType, ReduceKind};

/// `y = (x - mean[c]) / sqrt(var[c] + eps) * w[c] + b[c]`, with statistics of the batch or given ones.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n, c, ..]` | floating point |
/// | mean, var | `[c]`, inputs unless `train` | that of arithmetic |
/// | w, b | `[c]`, each if the attribute says so | as x |
/// | y | as x | as x |
/// | mean, invstd, var | `[c]`, outputs when `train`, else without elements | that of arithmetic |
///
/// The variance is the biased one. Accelerators compute that of `bfloat16` in one pass as `mean(x^2) - mean(x)^2` in
/// `float32`, where squares are exact. This loses less than the rounding of x to 8 bits did. Saves x, w and the
/// statistics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchNorm {
    /// Whether the statistics are those of the batch.
    pub train: bool,
    /// The number that is added to the variance.
    pub eps: F64,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
}

/// Gradients of [`BatchNorm`] for x, w and b, from `g, x, mean, invstd[, w]`. Unwanted gradients have no elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchNormBackward {
    /// The op whose gradient this is.
    pub of: BatchNorm,
    /// Bits 0, 1, 2: whether the gradients of x, w and b are wanted.
    pub wanted: u8,
}

/// All dimensions but the channels, and the number of elements of a channel.
fn around_channels(dims: &Dims) -> (u64, usize) {
    (all_dims(dims.len()) & !2, dims.numel() / dims[1].max(1))
}

/// The dimensions of `x: [n, c, ..]`, all but the channels whole unless `are_split`, and those of parameters with one
/// number for each channel. Parameters of other sizes are whole.
fn channels_text(x: &Meta, parameters: &[Meta], are_split: bool) -> (String, String) {
    let are_lists = parameters.iter().all(|p| p.dims.len() == 1);
    let space = x.dims.len() - 2;
    let (n, space) = if are_split { ("n", list("s", space)) } else { ("_", all_whole(space)) };
    let text = |p: &Meta| if are_lists { "c".into() } else { all_whole(p.dims.len()) };
    let parameters = parameters.iter().map(text).collect::<Vec<_>>().join(", ");
    (format!("{n} {} {space}", if are_lists { "c" } else { "_" }), parameters)
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

/// A batch norm or its gradient within a program for an accelerator.
struct Channels<'a> {
    x: &'a Value,
    /// Element type of the arithmetic.
    e: ElementType,
    /// All dimensions but the channels.
    around: Vec<usize>,
    /// Number of elements of a channel.
    count: f64,
}

impl<'a> Channels<'a> {
    fn new(x: &'a Value) -> Channels<'a> {
        let e = x.element().widened();
        let count = x.ty().numel() / x.shape()[1];
        Channels { x, e, around: (0..x.rank()).filter(|&d| d != 1).collect(), count: count as f64 }
    }
    fn sum(&self, f: &mut Func, x: &Value) -> Value {
        f.reduce(x, ReduceKind::Add, &self.around)
    }
    /// The mean of each channel, from its sum.
    fn mean(&self, f: &mut Func, sum: &Value) -> Value {
        let count = f.splat(self.count, sum.ty());
        f.binary("stablehlo.divide", sum, &count)
    }
    /// Broadcast a number for each channel to its elements.
    fn spread(&self, f: &mut Func, x: &Value) -> Value {
        let x = f.convert(x, self.e);
        f.broadcast_in_dim(&x, self.x.shape(), &[1])
    }
    /// Reshape a parameter with one number for each channel to broadcast over x.
    fn parameter(&self, f: &mut Func, x: &Value) -> Value {
        let x = f.convert(x, self.e);
        f.reshape(&x, &[self.x.shape()[1]])
    }
}

impl Fused for BatchNorm {
    const NAME: &'static str = "batch_norm";
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
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
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| {
        let c = Channels::new(&x[0]);
        let v = f.convert(&x[0], c.e);
        let sum = c.sum(f, &v);
        let mean = c.mean(f, &sum);
        let spread = c.spread(f, &mean);
        let centred = f.binary("stablehlo.subtract", &v, &spread);
        let var = if x[0].element() == ElementType::BF16 {
            let squares = f.binary("stablehlo.multiply", &v, &v);
            let squares = c.sum(f, &squares);
            let squares = c.mean(f, &squares);
            let square = f.binary("stablehlo.multiply", &mean, &mean);
            let var = f.binary("stablehlo.subtract", &squares, &square);
            let zero = f.splat(0.0, var.ty());
            f.binary("stablehlo.maximum", &var, &zero)
        } else {
            let squares = f.binary("stablehlo.multiply", &centred, &centred);
            let squares = c.sum(f, &squares);
            c.mean(f, &squares)
        };
        let eps = f.splat(o.eps.get(), var.ty());
        let sum = f.binary("stablehlo.add", &var, &eps);
        let invstd = f.unary("stablehlo.rsqrt", &sum);
        let mut factor = invstd.clone();
        if o.weight {
            let w = c.parameter(f, &x[1]);
            factor = f.binary("stablehlo.multiply", &factor, &w);
        }
        let factor = c.spread(f, &factor);
        let mut out = f.binary("stablehlo.multiply", &centred, &factor);
        if o.bias {
            let b = c.parameter(f, &x[1 + usize::from(o.weight)]);
            let b = c.spread(f, &b);
            out = f.binary("stablehlo.add", &out, &b);
        }
        smallvec![f.convert(&out, crate::meta::element_type(y[0].dtype)), mean, invstd, var]
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
            given = widened(s.x(2))?.add_scalar(o.eps.get())?.rsqrt()?;
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
        let parameter = |i: usize, at: usize| pick(i).map(|g| narrowed(g, s.meta(at).dtype)).transpose();
        if o.weight {
            grads.push(parameter(1, p)?);
        }
        if o.bias {
            grads.push(parameter(2, p + usize::from(o.weight))?);
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
        Ok(Meta { place: crate::op::same_device(x)?, ..*x[0].meta() })
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        let m = first.with_dtype(compute_dtype(first.dtype));
        if self.train { m.with_dims(Dims::new(&[first.dims[1]])) } else { unwanted(&m) }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // The statistics of a batch depend on all of it.
        let (text, parameters) = channels_text(&x[0], &x[1..], !self.train);
        let axes = Axes::parse(&format!("{text}, {parameters} -> {text}, c, c, c"), x, y);
        let bias = if self.bias { 1 << (x.len() - 1) } else { 0 };
        match (self.train, self.weight) {
            (true, _) => axes,
            (false, true) => axes.linear(&[0b0011 | bias, 0b1000 | bias]),
            (false, false) => axes.linear(&[0b0011 | bias]),
        }
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        self.train && x[0].numel() > 0 && backend::profile(x[0].place()).lowers_batch_norm
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
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
    const OUTS: usize = 3;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let views: Vec<View<'_>> = x.iter().map(|t| t.view()).collect();
        let wanted = |i: usize| -> Option<ViewMut<'_>> { (o.wanted >> i & 1 != 0).then(|| y[i].view_mut()) };
        if x[1].numel() == 0 {
            // Statistics of an empty batch are NaN, but no result depends on them.
            y.iter()
                .for_each(|y| torchtpu_kernels::copy::fill(&mut y.view_mut(), torchtpu_kernels::copy::Scalar::Int(0)));
            return Ok(());
        }
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
    // Two sums are enough for all three gradients: that of `g w` is `w` times that of `g`.
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| {
        let c = Channels::new(&x[1]);
        let (g, v) = (f.convert(&x[0], c.e), f.convert(&x[1], c.e));
        let (mean, invstd) = (c.parameter(f, &x[2]), c.parameter(f, &x[3]));
        let [mean, spread_invstd] = [&mean, &invstd].map(|t| c.spread(f, t));
        let h = f.binary("stablehlo.subtract", &v, &mean);
        let h = f.binary("stablehlo.multiply", &h, &spread_invstd);
        let gh = f.binary("stablehlo.multiply", &g, &h);
        let (gw, gb) = (c.sum(f, &gh), c.sum(f, &g));
        let mut gx = g.clone();
        if o.of.train {
            let (mean_gh, mean_g) = (c.mean(f, &gw), c.mean(f, &gb));
            let [mean_gh, mean_g] = [mean_gh, mean_g].map(|t| c.spread(f, &t));
            let along = f.binary("stablehlo.multiply", &h, &mean_gh);
            gx = f.binary("stablehlo.subtract", &gx, &mean_g);
            gx = f.binary("stablehlo.subtract", &gx, &along);
        }
        let mut factor = invstd;
        if let Some(w) = x.get(4) {
            let w = c.parameter(f, w);
            factor = f.binary("stablehlo.multiply", &factor, &w);
        }
        let factor = c.spread(f, &factor);
        gx = f.binary("stablehlo.multiply", &gx, &factor);
        let mut out = smallvec![];
        for (i, gradient) in [gx, gw, gb].into_iter().enumerate() {
            let ty = y[i].ty();
            out.push(if o.wanted >> i & 1 != 0 { f.convert(&gradient, ty.element) } else { f.splat(0.0, &ty) });
        }
        out
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(if self.wanted & 1 != 0 { *x[1].meta() } else { unwanted(x[1].meta()) })
    }
    fn infer_extra(&self, x: &[&Tensor], _: &Meta, i: usize) -> Meta {
        let m = x[1].meta().with_dtype(compute_dtype(x[1].dtype()));
        if self.wanted >> i & 1 != 0 { m.with_dims(Dims::new(&[m.dims[1]])) } else { unwanted(&m) }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // With the statistics of a batch, each gradient of `x` depends on sums over the whole batch.
        let (text, parameters) = channels_text(&x[1], &x[2..], !self.of.train);
        let mut axes = Axes::parse(&format!("{text}, {text}, {parameters} -> {text}, c, c"), x, y);
        for name in std::iter::once("n".to_string()).chain(names("s", x[1].dims.len() - 2)) {
            axes = axes.reduces(&name, Combine::Sum);
        }
        axes.linear(&[0b1])
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        x[1].numel() > 0 && backend::profile(x[1].place()).lowers_batch_norm
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
        out.push(if self.wanted & 2 != 0 { sum_mask(&g.mul(&h)?, mask)? } else { nothing(&v)? });
        out.push(if self.wanted & 4 != 0 { sum_mask(&g, mask)? } else { nothing(&v)? });
        Ok(out)
    }
}

/// Running mean and variance, moved a step towards those of the batch.
fn update_running(running: Option<&Tensor>, batch: &Tensor, momentum: f64, factor: f64) -> Result<()> {
    let Some(r) = running else { return Ok(()) };
    state::no_grad(|| {
        let batch = narrowed(batch.clone(), compute_dtype(r.dtype()))?;
        let step = batch.mul_scalar(momentum * factor)?;
        let moved = narrowed(widened(r)?.mul_scalar(1.0 - momentum)?.add(&step)?, r.dtype())?;
        backend::updating(|| inplace::assign(r, &moved))
    })
}

/// Arguments of [`batch_norm`] beside the input.
pub struct BatchNormArgs<'a> {
    /// Weight, one number for each channel.
    pub weight: Option<&'a Tensor>,
    /// Bias, one number for each channel.
    pub bias: Option<&'a Tensor>,
    /// Running mean; written when training.
    pub running_mean: Option<&'a Tensor>,
    /// Running unbiased variance; written when training.
    pub running_var: Option<&'a Tensor>,
    /// Whether to use the batch's statistics.
    pub training: bool,
    /// The step of running statistics.
    pub momentum: f64,
    /// The number that is added to the variance.
    pub eps: f64,
}

/// `torch.nn.functional.batch_norm`: the result, and mean and inverse deviation of the batch in training.
///
/// # Errors
/// `Value` for a channel with one element in training; `Runtime` when sizes do not fit or running statistics are
/// missing.
pub fn batch_norm(x: &Tensor, p: &BatchNormArgs<'_>) -> Result<(Tensor, Tensor, Tensor)> {
    let d = *x.dims();
    if d.len() == 1 && d[0] != 0 {
        return Err(Error::index("Dimension out of range (expected to be in range of [-1, 0], but got 1)"));
    }
    if d[..] == [0] {
        let none = Tensor::zeros(&[0], x.dtype(), x.place())?;
        return Ok((x.clone(), none.clone(), none));
    }
    let (w, b) = (p.weight, p.bias);
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
    inputs.extend(w.into_iter().chain(b));
    let y = dispatch::call_n(Prim::BatchNorm(op), &inputs)?;
    if p.training && x.numel() > 0 {
        let count = (x.numel() / d[1].max(1)) as f64;
        update_running(p.running_mean, &y[1], p.momentum, 1.0)?;
        update_running(p.running_var, &y[3], p.momentum, count / (count - 1.0))?;
    }
    Ok((y[0].clone(), y[1].clone(), y[2].clone()))
}

/// `torch.nn.functional.instance_norm`: batch normalisation of each sample on its own.
pub(super) fn instance_norm(x: &Tensor, p: &BatchNormArgs<'_>) -> Result<Tensor> {
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
    if x.numel() == 0 {
        return x.copy();
    }
    let mut folded = d;
    folded.set(0, 1);
    folded.set(1, d[0] * d[1]);
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
        // Each sample has updated its own copy. The channel keeps their average.
        for (running, copies) in [(p.running_mean, rm), (p.running_var, rv)] {
            if let (Some(r), Some(c)) = (running, copies) {
                state::no_grad(|| {
                    let mean = c.reshape_dims(Dims::new(&[d[0], d[1]]))?.mean_dim(&[0], false)?;
                    backend::updating(|| inplace::assign(r, &mean))
                })?;
            }
        }
    }
    Ok(y)
}

pub(super) fn batch_args<'a>(a: &Args<'a>) -> Result<BatchNormArgs<'a>> {
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

/// The settings of one of aten's batch normalisations, at given positions of the arguments.
pub(super) fn legit_args<'a>(
    a: &Args<'a>,
    running: bool,
    training: bool,
    momentum: usize,
) -> Result<BatchNormArgs<'a>> {
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

/// The result and the batch's statistics in the parameters' dtype. Outside of training the statistics have no elements.
pub(super) fn with_statistics(x: &Tensor, p: &BatchNormArgs<'_>) -> Result<Vec<Tensor>> {
    let (y, mean, invstd) = batch_norm(x, p)?;
    let stats = p.weight.unwrap_or(x).dtype();
    Ok(vec![y, mean.to_dtype(stats)?, invstd.to_dtype(stats)?])
}

/// The same with new running statistics as further results. The given ones are not changed.
pub(super) fn functional(x: &Tensor, p: &BatchNormArgs<'_>, reserve: bool) -> Result<Ret> {
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

/// The data that a backend saves for its gradient: none here.
fn reserved(x: &Tensor) -> Result<Tensor> {
    Tensor::zeros(&[0], DType::U8, x.place())
}

pub(super) fn legit(a: &Args<'_>) -> Result<Ret> {
    Ok(Ret::Tuple(with_statistics(a.tensor(0)?, &legit_args(a, true, a.bool(5)?, 6)?)?))
}

pub(super) fn no_stats(a: &Args<'_>) -> Result<Ret> {
    Ok(Ret::Tuple(with_statistics(a.tensor(0)?, &legit_args(a, false, a.bool(3)?, 4)?)?))
}

pub(super) fn with_reserve(a: &Args<'_>, training: bool) -> Result<Ret> {
    let mut y = with_statistics(a.tensor(0)?, &legit_args(a, true, training, 5)?)?;
    y.push(reserved(a.tensor(0)?)?);
    Ok(Ret::Tuple(y))
}

/// Samples with running statistics. The arguments after them are given.
pub(super) fn batch_samples(rest: &[SampleArg], running: bool) -> Vec<Sample> {
    let mut args = vec![t(&[3, 2, 2]), positive(&[2]), t(&[2])];
    if running {
        args.extend([t(&[2]), positive(&[2])]);
    }
    args.extend_from_slice(rest);
    vec![Sample::new(args).no_gradient()]
}
