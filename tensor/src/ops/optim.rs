//! Optimiser steps.
//!
//! On `cpu` a step is one kernel that writes parameter and state in place. On `tpu` it is a fused op, whose results are
//! assigned. Its numbers are operands, so that another learning rate or step count compiles nothing.

use crate::axes::Axes;
use crate::backend::SharedNumbers;
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, Operand, message, misfit};
use crate::op::{Facts, Func, Fused, KernelFn, LowerFn, Outs, Prim, Value, Values};
use crate::ops::pointwise::kernel_error;
use crate::schema::{Args, Ret, Row, Sample, SampleArg, Scope, Tier, n};
use crate::types::compute::{compute_dtype, expect_float, narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, inplace, state};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::pointwise as kernels;
use torchtpu_kernels::{KernelError, View, ViewMut};

/// One step of Adam or AdamW: `m' = b1 m + c1 g`, `v' = b2 v + c2 g^2`, `p' = p - decay p - step m' / (sqrt(v') / root
/// + eps)`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | p, g, m, v | the same | floating point, the same |
/// | decay, b1, c1, b2, c2, eps, step, root | 0-d | that of arithmetic |
/// | p', m', v' | as p | as p |
///
/// `decay` is `lr * weight_decay` of AdamW; without `decoupled` it is `weight_decay`, added to the gradient instead.
/// `step` is `lr / (1 - beta1^t)`, `root` the root of `1 - beta2^t`, `c1` and `c2` are `1 - b1` and `1 - b2`, rounded
/// once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AdamW {
    /// AdamW: decay shrinks the parameter instead of being added to the gradient.
    pub decoupled: bool,
    /// Whether there is a weight decay. Without it the program does not read `decay`.
    pub decays: bool,
    /// Whether to ascend.
    pub maximize: bool,
}

/// One step of SGD: `b' = momentum b + keep g`, `p' = p - lr b'`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | p, g, b | the same; b only with `momentum` | floating point, the same |
/// | lr, decay, momentum, keep | 0-d | that of arithmetic |
/// | p', b' | as p; b' without elements unless `momentum` | as p |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sgd {
    /// Whether there is a buffer.
    pub momentum: bool,
    /// Whether there is a weight decay. Without it the program does not read `decay`, so that the gradient of a table
    /// of embeddings stays a scatter.
    pub decays: bool,
    /// Whether to use Nesterov's momentum.
    pub nesterov: bool,
    /// Whether to ascend.
    pub maximize: bool,
    /// Whether the buffer is still unset; it becomes the gradient.
    pub first: bool,
}

/// Refuse tensors of different descriptions.
fn agree(x: &[&Tensor]) -> Result<Meta> {
    expect_float("optimizer_step", x[0])?;
    for t in &x[1..] {
        if t.meta() != x[0].meta() {
            return Err(Error::runtime(format!(
                "params, grads and state must have the same dtype, device and size, but got {} of {} and {} of {}",
                x[0].dims(),
                x[0].dtype().scalar_type(),
                t.dims(),
                t.dtype().scalar_type()
            )));
        }
    }
    Ok(*x[0].meta())
}

/// Value of an operand that is a number.
fn number(x: &Tensor) -> Result<f64> {
    let bits =
        x.scalar_bits().ok_or_else(|| Error::runtime("a number of an optimiser step must be a 0-d cpu tensor"))?;
    Ok(Scalar::from_bits(bits, x.dtype()).to_f64())
}

/// Arithmetic on values in StableHLO, for step formulas.
struct Formula<'a>(&'a mut Func);

impl Formula<'_> {
    fn mul(&mut self, a: &Value, b: &Value) -> Value {
        self.0.binary("stablehlo.multiply", a, b)
    }
    fn add(&mut self, a: &Value, b: &Value) -> Value {
        self.0.binary("stablehlo.add", a, b)
    }
    fn sub(&mut self, a: &Value, b: &Value) -> Value {
        self.0.binary("stablehlo.subtract", a, b)
    }
    fn div(&mut self, a: &Value, b: &Value) -> Value {
        self.0.binary("stablehlo.divide", a, b)
    }
    /// An operand in the dtype that the step computes in, and in the shape of the parameter.
    fn wide(&mut self, x: &Value, meta: &Meta) -> Value {
        let v = self.0.convert(x, crate::meta::element_type(compute_dtype(meta.dtype)));
        self.0.broadcast_to(&v, &meta.dims)
    }
    fn narrow(&mut self, x: &Value, meta: &Meta) -> Value {
        self.0.convert(x, crate::meta::element_type(meta.dtype))
    }
}

impl AdamW {
    /// The step for its kernel, from the 0-d operands in their order.
    pub(crate) fn step(&self, numbers: [f64; 8]) -> kernels::AdamW {
        let [decay, _, c1, _, c2, eps, step, root] = numbers;
        let weight_decay = match (self.decoupled, step == 0.0) {
            (false, _) => decay,
            (true, true) => 0.0,
            (true, false) => decay / step,
        };
        kernels::AdamW {
            lr: step,
            beta1: 1.0 - c1,
            beta2: 1.0 - c2,
            eps,
            weight_decay,
            decoupled: self.decoupled,
            maximize: self.maximize,
            bias1: 1.0,
            bias2_sqrt: root,
        }
    }
}

impl Sgd {
    /// Write `p` and, with momentum, `b`, from their old values in `from`, or in place. `numbers` are the 0-d operands
    /// in their order.
    pub(crate) fn run(
        &self,
        p: &mut ViewMut<'_>,
        g: &View<'_>,
        b: &mut ViewMut<'_>,
        from: [Option<&View<'_>>; 2],
        [lr, weight_decay, momentum, keep]: [f64; 4],
    ) -> std::result::Result<(), KernelError> {
        let spec = kernels::Sgd {
            lr,
            weight_decay,
            momentum: if self.momentum { momentum } else { 0.0 },
            dampening: 1.0 - keep,
            nesterov: self.nesterov,
            maximize: self.maximize,
            first: self.first,
        };
        kernels::sgd_step(p, g, self.momentum.then_some(b), from, &spec)
    }
}

/// The layout of operand `i` of a call.
fn step_layout(i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
    // A result has taken the memory of this operand, so there is nothing to read.
    if x[i].bytes.is_empty() { (Dims::filled(0, 1), Dims::filled(1, 1)) } else { (x[i].sizes, x[i].strides) }
}

/// The value of an array of one element, of the dtype that the step computes in.
fn value_of(x: &View<'_>) -> f64 {
    match (x.as_slice::<f32>(), x.as_slice::<f64>()) {
        (Some(&[v]), _) => v.into(),
        (_, Some(&[v])) => v,
        _ => unreachable!("numbers of a step are f32 or f64"),
    }
}

fields! {
    AdamW { decoupled, decays, maximize };
    Sgd { momentum, decays, nesterov, maximize, first };
}

impl KernelCall for AdamW {
    fn name() -> &'static str {
        "adamw"
    }
    fn arity(&self) -> (usize, usize) {
        (12, 3)
    }
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(0, 0), (1, 2), (2, 3)]
    }
    fn layout(&self, i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
        step_layout(i, x)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([p0, g, m0, v0, numbers @ ..], [p, m, v]) = (x, y) else { return Err(misfit(self)) };
        let numbers: SmallVec<[f64; 8]> = numbers.iter().map(value_of).collect();
        let step = self.step(numbers.as_slice().try_into().expect("eight numbers"));
        // If an operand has no elements, the result at its position has taken its memory, as `in_place` declares.
        let from = [p0, m0, v0].map(|old| Some(old).filter(|old| old.numel() > 0));
        kernels::adamw_step(p, g, m, v, from, &step).map_err(message)
    }
}

impl KernelCall for Sgd {
    fn name() -> &'static str {
        "sgd"
    }
    fn arity(&self) -> (usize, usize) {
        (6 + usize::from(self.momentum), 2)
    }
    fn in_place(&self) -> &'static [(usize, usize)] {
        if self.momentum { &[(0, 0), (1, 2)] } else { &[(0, 0)] }
    }
    fn layout(&self, i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
        step_layout(i, x)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([p0, g, rest @ ..], [p, b]) = (x, y) else { return Err(misfit(self)) };
        let (b0, numbers) = rest.split_at(usize::from(self.momentum));
        let numbers: SmallVec<[f64; 4]> = numbers.iter().map(value_of).collect();
        let numbers = numbers.as_slice().try_into().expect("four numbers");
        // If an operand has no elements, the result at its position has taken its memory, as `in_place` declares.
        let from = [Some(p0), b0.first()].map(|old| old.filter(|old| old.numel() > 0));
        self.run(p, g, b, from, numbers).map_err(message)
    }
}

impl Fused for AdamW {
    const NAME: &'static str = "adamw_step";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    const OUTS: usize = 3;
    const DIFFERENTIABLE: u64 = 0;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let x: Vec<Tensor> = x.iter().map(|t| t.contiguous()).collect::<Result<_>>()?;
        let from = [x[0].view(), x[2].view(), x[3].view()];
        let mut numbers = [0.0; 8];
        for (value, t) in numbers.iter_mut().zip(&x[4..]) {
            *value = number(t)?;
        }
        let spec = o.step(numbers);
        let [mut p, mut m, mut v] = [y[0].view_mut(), y[1].view_mut(), y[2].view_mut()];
        kernels::adamw_step(&mut p, &x[1].view(), &mut m, &mut v, from.each_ref().map(Some), &spec)
            .map_err(kernel_error)
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| {
        let meta = &y[0];
        if kernel_call::is_profitable(f, meta.ty().element, meta.dims.numel()) {
            return o.call_kernel(f, x, y);
        }
        let mut f = Formula(f);
        let w: Vec<Value> = x.iter().map(|v| f.wide(v, meta)).collect();
        let [p, g, m, v, decay, b1, c1, b2, c2, eps, step, root] = &w[..] else { unreachable!("twelve operands") };
        let mut g = if o.maximize { f.0.unary("stablehlo.negate", g) } else { g.clone() };
        let mut p = p.clone();
        if o.decays {
            let decayed = f.mul(&p, decay);
            if o.decoupled {
                p = f.sub(&p, &decayed);
            } else {
                g = f.add(&g, &decayed);
            }
        }
        let (mb, mg) = (f.mul(m, b1), f.mul(&g, c1));
        let m = f.add(&mb, &mg);
        let g2 = f.mul(&g, &g);
        let (vb, vg) = (f.mul(v, b2), f.mul(&g2, c2));
        let v = f.add(&vb, &vg);
        let rms = f.0.unary("stablehlo.sqrt", &v);
        let rms = f.div(&rms, root);
        let below = f.add(&rms, eps);
        let above = f.mul(&m, step);
        let change = f.div(&above, &below);
        let p = f.sub(&p, &change);
        smallvec![f.narrow(&p, meta), f.narrow(&m, meta), f.narrow(&v, meta)]
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        agree(&x[..4])
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        *first
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let dtype = x[0].dtype();
        let w: Vec<Tensor> = x[..4].iter().map(|t| widened(t)).collect::<Result<_>>()?;
        let g = if self.maximize { w[1].neg()? } else { w[1].clone() };
        let (p, g) = match (self.decays, self.decoupled) {
            (false, _) => (w[0].clone(), g),
            (true, true) => (w[0].sub(&w[0].mul(x[4])?)?, g),
            (true, false) => (w[0].clone(), g.add(&w[0].mul(x[4])?)?),
        };
        let m = w[2].mul(x[5])?.add(&g.mul(x[6])?)?;
        let v = w[3].mul(x[7])?.add(&g.square()?.mul(x[8])?)?;
        let change = m.mul(x[10])?.div(&v.sqrt()?.div(x[11])?.add(x[9])?)?;
        Ok(smallvec![narrowed(p.sub(&change)?, dtype)?, narrowed(m, dtype)?, narrowed(v, dtype)?])
    }
}

impl Fused for Sgd {
    const NAME: &'static str = "sgd_step";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 0;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let count = 2 + o.momentum as usize;
        let arrays: Vec<Tensor> = x[..count].iter().map(|t| t.contiguous()).collect::<Result<_>>()?;
        let mut numbers = [0.0; 4];
        for (value, t) in numbers.iter_mut().zip(&x[count..]) {
            *value = number(t)?;
        }
        let [old, buffer] = [Some(&arrays[0]), arrays.get(2)].map(|t| t.map(Tensor::view));
        let [mut p, mut b] = [y[0].view_mut(), y[1].view_mut()];
        o.run(&mut p, &arrays[1].view(), &mut b, [old.as_ref(), buffer.as_ref()], numbers).map_err(kernel_error)
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| {
        let meta = &y[0];
        if kernel_call::is_profitable(f, meta.ty().element, meta.dims.numel()) {
            return o.call_kernel(f, x, y);
        }
        let mut f = Formula(f);
        let w: Vec<Value> = x.iter().map(|v| f.wide(v, meta)).collect();
        let at = 2 + o.momentum as usize;
        let (p, lr, decay, momentum, keep) = (&w[0], &w[at], &w[at + 1], &w[at + 2], &w[at + 3]);
        let mut g = if o.maximize { f.0.unary("stablehlo.negate", &w[1]) } else { w[1].clone() };
        if o.decays {
            let decayed = f.mul(p, decay);
            g = f.add(&g, &decayed);
        }
        let mut out: Values = smallvec![];
        if o.momentum {
            let b = if o.first {
                g.clone()
            } else {
                let (old, new) = (f.mul(&w[2], momentum), f.mul(&g, keep));
                f.add(&old, &new)
            };
            g = if o.nesterov {
                let ahead = f.mul(&b, momentum);
                f.add(&g, &ahead)
            } else {
                b.clone()
            };
            out.push(f.narrow(&b, meta));
        } else {
            out.push(f.0.splat(0.0, &y[1].ty()));
        }
        let change = f.mul(&g, lr);
        let p = f.sub(p, &change);
        out.insert(0, f.narrow(&p, meta));
        out
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        agree(&x[..2 + self.momentum as usize])
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        if self.momentum { *first } else { first.with_dims(Dims::filled(0, 1)) }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let dtype = x[0].dtype();
        let at = 2 + self.momentum as usize;
        let (lr, decay, momentum, keep) = (x[at], x[at + 1], x[at + 2], x[at + 3]);
        let p = widened(x[0])?;
        let g = widened(x[1])?;
        let mut g = if self.maximize { g.neg()? } else { g };
        if self.decays {
            g = g.add(&p.mul(decay)?)?;
        }
        let buffer = if self.momentum {
            let b = if self.first { g.clone() } else { widened(x[2])?.mul(momentum)?.add(&g.mul(keep)?)? };
            g = if self.nesterov { g.add(&b.mul(momentum)?)? } else { b.clone() };
            narrowed(b, dtype)?
        } else {
            Tensor::zeros_like_meta(&x[0].meta().with_dims(Dims::filled(0, 1)))?
        };
        Ok(smallvec![narrowed(p.sub(&g.mul(lr)?)?, dtype)?, buffer])
    }
}

/// Whether a kernel may write all of these tensors directly: they are on `cpu` and have the same layout without gaps.
fn in_place(x: &[&Tensor]) -> bool {
    x.iter().all(|t| t.place().in_memory() && t.is_contiguous() && t.meta() == x[0].meta())
}

/// Numbers of Adam and AdamW.
#[derive(Clone, Copy, Debug)]
pub struct AdamArgs {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squares.
    pub beta2: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Added to the root.
    pub eps: f64,
    /// Whether to divide by the largest mean of squares so far.
    pub amsgrad: bool,
    /// Whether to ascend.
    pub maximize: bool,
    /// Whether this is AdamW instead of Adam.
    pub decoupled: bool,
}

/// State of one parameter of Adam.
pub struct AdamState<'a> {
    /// Mean of gradients.
    pub exp_avg: &'a Tensor,
    /// Mean of squares.
    pub exp_avg_sq: &'a Tensor,
    /// Largest mean of squares; for `amsgrad`.
    pub max_exp_avg_sq: Option<&'a Tensor>,
    /// Number of this step, counted from one.
    pub step: &'a Tensor,
}

/// Corrections for the first steps: `1 - beta1^t`, and the root of `1 - beta2^t`.
enum Bias {
    /// They are known on the host.
    Numbers(f64, f64),
    /// They are known only on the device, where the step count is.
    Tensors(Tensor, Tensor),
}

/// The corrections at a step count. The caller has counted the step, as PyTorch's optimisers do.
fn corrections(step: &Tensor, dtype: DType, a: &AdamArgs) -> Result<Bias> {
    if let Some(bits) = step.scalar_bits() {
        let t = Scalar::from_bits(bits, step.dtype()).to_f64();
        return Ok(Bias::Numbers(1.0 - a.beta1.powf(t), (1.0 - a.beta2.powf(t)).sqrt()));
    }
    // The count is `float32`, and the corrections of `float64` parameters need its dtype.
    let step = narrowed(step.clone(), compute_dtype(dtype))?;
    // `1 - beta^t` without cancellation.
    let one_less = |beta: f64| step.mul_scalar(beta.ln())?.expm1()?.neg();
    Ok(Bias::Tensors(one_less(a.beta1)?, one_less(a.beta2)?.sqrt()?))
}

/// Run one step of Adam or AdamW on one parameter, and write the parameter and its state.
///
/// # Errors
/// `Runtime` when sizes, dtypes or devices differ, or a tensor may not be written.
pub fn adam(p: &Tensor, g: &Tensor, s: &AdamState<'_>, a: &AdamArgs) -> Result<()> {
    adam_with(p, g, s, a, None)
}

/// [`adam`] with numbers that are shared with other parameters.
fn adam_with(p: &Tensor, g: &Tensor, s: &AdamState<'_>, a: &AdamArgs, shared: Option<&SharedNumbers>) -> Result<()> {
    state::no_grad(|| {
        let (m, v) = (s.exp_avg, s.exp_avg_sq);
        agree(&[p, g, m, v])?;
        let bias = corrections(s.step, p.dtype(), a)?;
        if let (Bias::Numbers(bias1, bias2_sqrt), false, true) = (&bias, a.amsgrad, in_place(&[p, m, v])) {
            let g = g.contiguous()?;
            let spec = kernels::AdamW {
                lr: a.lr,
                beta1: a.beta1,
                beta2: a.beta2,
                eps: a.eps,
                weight_decay: a.weight_decay,
                decoupled: a.decoupled,
                maximize: a.maximize,
                bias1: *bias1,
                bias2_sqrt: *bias2_sqrt,
            };
            let (mut to, mut mean, mut square) = (p.view_mut(), m.view_mut(), v.view_mut());
            kernels::adamw_step(&mut to, &g.view(), &mut mean, &mut square, [None; 3], &spec).map_err(kernel_error)?;
            [p, m, v].iter().for_each(|t| t.bump_version());
            return Ok(());
        }
        let dtype = compute_dtype(p.dtype());
        // Numbers are shared by their place. Corrections for different steps are not shared, even if they are equal.
        let number_for = |place: u32, key: f64, v: f64| -> Result<Tensor> {
            let make = || Tensor::number(Scalar::Float(v), dtype);
            shared.map_or_else(make, |s| s.get(place, key, dtype, make))
        };
        let number = |place: u32, v: f64| number_for(place, 0.0, v);
        let decay = number(0, if a.decoupled { a.lr * a.weight_decay } else { a.weight_decay })?;
        let (step, root) = match bias {
            Bias::Numbers(b1, b2) => {
                let t = s.step.scalar_bits().map_or(0.0, |bits| Scalar::from_bits(bits, s.step.dtype()).to_f64());
                (number_for(1, t, a.lr / b1)?, number_for(2, t, b2)?)
            }
            Bias::Tensors(b1, b2) => {
                let b1 = narrowed(b1.reshape_dims(Dims::EMPTY)?, dtype)?;
                let lr = Tensor::number(Scalar::Float(a.lr), dtype)?.to_device(p.place())?;
                (lr.div(&b1)?, narrowed(b2.reshape_dims(Dims::EMPTY)?, dtype)?)
            }
        };
        let rest = [
            number(3, a.beta1)?,
            number(4, 1.0 - a.beta1)?,
            number(5, a.beta2)?,
            number(6, 1.0 - a.beta2)?,
            number(7, a.eps)?,
        ];
        if a.amsgrad {
            return amsgrad(p, g, s, a, &decay, &rest, &step, &root);
        }
        let mut x = vec![p, g, m, v, &decay];
        x.extend(&rest);
        x.extend([&step, &root]);
        let op = AdamW { decoupled: a.decoupled, decays: a.weight_decay != 0.0, maximize: a.maximize };
        let y = dispatch::call_n(Prim::AdamW(op), &x)?;
        [p, m, v].iter().zip(&y).try_for_each(|(old, new)| inplace::assign(old, new))
    })
}

/// Adam that divides by the largest mean of squares so far.
#[allow(clippy::too_many_arguments)] // the numbers of one step, made once by the caller
fn amsgrad(
    p: &Tensor,
    g: &Tensor,
    s: &AdamState<'_>,
    a: &AdamArgs,
    decay: &Tensor,
    rest: &[Tensor; 5],
    step: &Tensor,
    root: &Tensor,
) -> Result<()> {
    let largest = s.max_exp_avg_sq.ok_or_else(|| Error::runtime("amsgrad needs max_exp_avg_sqs"))?;
    let [b1, c1, b2, c2, eps] = rest;
    let dtype = p.dtype();
    let (w, g) = (widened(p)?, widened(g)?);
    let g = if a.maximize { g.neg()? } else { g };
    let decayed = w.mul(decay)?;
    let (w, g) = if a.decoupled { (w.sub(&decayed)?, g) } else { (w, g.add(&decayed)?) };
    let m = widened(s.exp_avg)?.mul(b1)?.add(&g.mul(c1)?)?;
    let v = widened(s.exp_avg_sq)?.mul(b2)?.add(&g.square()?.mul(c2)?)?;
    let top = widened(largest)?.maximum(&v)?;
    let w = w.sub(&m.mul(step)?.div(&top.sqrt()?.div(root)?.add(eps)?)?)?;
    for (old, new) in [(p, w), (s.exp_avg, m), (s.exp_avg_sq, v), (largest, top)] {
        inplace::assign(old, &narrowed(new, dtype)?)?;
    }
    Ok(())
}

/// Numbers of SGD.
#[derive(Clone, Copy, Debug)]
pub struct SgdArgs {
    /// Weight decay.
    pub weight_decay: f64,
    /// Momentum.
    pub momentum: f64,
    /// Learning rate.
    pub lr: f64,
    /// The part of a new gradient that the buffer leaves out.
    pub dampening: f64,
    /// Whether to use Nesterov's momentum.
    pub nesterov: bool,
    /// Whether to ascend.
    pub maximize: bool,
    /// Whether the buffer is still unset.
    pub first: bool,
}

/// Run one step of SGD on one parameter, and write the parameter and the buffer.
///
/// # Errors
/// The errors of [`adam`].
pub fn sgd(p: &Tensor, g: &Tensor, buffer: Option<&Tensor>, a: &SgdArgs) -> Result<()> {
    sgd_with(p, g, buffer, a, None)
}

/// [`sgd`] with numbers that are shared with other parameters.
fn sgd_with(
    p: &Tensor,
    g: &Tensor,
    buffer: Option<&Tensor>,
    a: &SgdArgs,
    shared: Option<&SharedNumbers>,
) -> Result<()> {
    state::no_grad(|| {
        let buffer = buffer.filter(|_| a.momentum != 0.0);
        let mut x = vec![p, g];
        x.extend(buffer);
        agree(&x)?;
        if in_place(&[p]) && buffer.is_none_or(|b| in_place(&[b])) {
            let g = g.contiguous()?;
            let spec = kernels::Sgd {
                lr: a.lr,
                momentum: if buffer.is_some() { a.momentum } else { 0.0 },
                dampening: a.dampening,
                weight_decay: a.weight_decay,
                nesterov: a.nesterov,
                maximize: a.maximize,
                first: a.first,
            };
            let mut b = buffer.map(|b| b.view_mut());
            kernels::sgd_step(&mut p.view_mut(), &g.view(), b.as_mut(), [None; 2], &spec).map_err(kernel_error)?;
            p.bump_version();
            buffer.iter().for_each(|b| b.bump_version());
            return Ok(());
        }
        let dtype = compute_dtype(p.dtype());
        let numbers: Vec<Tensor> = [a.lr, a.weight_decay, a.momentum, 1.0 - a.dampening]
            .iter()
            .zip(0..)
            .map(|(&v, place)| {
                let make = || Tensor::number(Scalar::Float(v), dtype);
                shared.map_or_else(make, |s| s.get(place, 0.0, dtype, make))
            })
            .collect::<Result<_>>()?;
        x.extend(&numbers);
        let op = Sgd {
            momentum: buffer.is_some(),
            decays: a.weight_decay != 0.0,
            nesterov: a.nesterov,
            maximize: a.maximize,
            first: a.first,
        };
        let y = dispatch::call_n(Prim::Sgd(op), &x)?;
        inplace::assign(p, &y[0])?;
        buffer.map_or(Ok(()), |b| inplace::assign(b, &y[1]))
    })
}

/// Refuse arguments of mixed-precision training.
fn no_scaling(a: &Args<'_>, from: usize) -> Result<()> {
    if a.opt_tensor(from)?.is_some() || a.opt_tensor(from + 1)?.is_some() {
        return Err(Error::not_implemented("grad_scale and found_inf are not supported; unscale the gradients first"));
    }
    Ok(())
}

/// Refuse lists of different lengths.
fn same_length(lists: &[(&str, usize)]) -> Result<()> {
    for (name, len) in &lists[1..] {
        if *len != lists[0].1 {
            return Err(Error::runtime(format!(
                "Tensor lists must have the same number of tensors, got {} and {len} ({name})",
                lists[0].1
            )));
        }
    }
    Ok(())
}

fn fused_adam(a: &Args<'_>, decoupled: bool) -> Result<Ret> {
    no_scaling(a, 13)?;
    let (p, g, m, v) = (a.tensors(0)?, a.tensors(1)?, a.tensors(2)?, a.tensors(3)?);
    let (top, steps) = (a.tensors(4)?, a.tensors(5)?);
    let args = AdamArgs {
        lr: a.float(6)?,
        beta1: a.float(7)?,
        beta2: a.float(8)?,
        weight_decay: a.float(9)?,
        eps: a.float(10)?,
        amsgrad: a.bool(11)?,
        maximize: a.bool(12)?,
        decoupled,
    };
    let lengths = [
        ("self", p.len()),
        ("grads", g.len()),
        ("exp_avgs", m.len()),
        ("exp_avg_sqs", v.len()),
        ("state_steps", steps.len()),
    ];
    same_length(&lengths)?;
    if args.amsgrad {
        same_length(&[lengths[0], ("max_exp_avg_sqs", top.len())])?;
    }
    let shared = SharedNumbers::begin();
    for i in 0..p.len() {
        let s = AdamState { exp_avg: m[i], exp_avg_sq: v[i], max_exp_avg_sq: top.get(i).copied(), step: steps[i] };
        adam_with(p[i], g[i], &s, &args, Some(&shared))?;
    }
    Ok(Ret::None)
}

fn fused_sgd(a: &Args<'_>) -> Result<Ret> {
    no_scaling(a, 10)?;
    let (p, g, b) = (a.tensors(0)?, a.tensors(1)?, a.tensors(2)?);
    same_length(&[("self", p.len()), ("grads", g.len())])?;
    let args = SgdArgs {
        weight_decay: a.float(3)?,
        momentum: a.float(4)?,
        lr: a.float(5)?,
        dampening: a.float(6)?,
        nesterov: a.bool(7)?,
        maximize: a.bool(8)?,
        first: a.bool(9)?,
    };
    if args.momentum != 0.0 {
        same_length(&[("self", p.len()), ("momentum_buffer_list", b.len())])?;
    }
    let shared = SharedNumbers::begin();
    for i in 0..p.len() {
        sgd_with(p[i], g[i], b.get(i).copied(), &args, Some(&shared))?;
    }
    Ok(Ret::None)
}

const DIMS: [usize; 2] = [2, 3];

fn list(fill: crate::schema::Fill) -> SampleArg {
    SampleArg::Tensors(vec![DIMS.to_vec(), vec![4]], fill)
}

fn adam_samples() -> Vec<Sample> {
    use crate::schema::Fill::{Normal, Positive};
    let of = |amsgrad: bool, maximize: bool| {
        let top = if amsgrad { list(Positive) } else { SampleArg::Tensors(vec![], Positive) };
        Sample::new(vec![
            list(Normal),
            list(Normal),
            list(Normal),
            list(Positive),
            top,
            SampleArg::Tensors(vec![vec![], vec![]], Positive),
            n(1e-2),
            n(0.9),
            n(0.999),
            n(0.01),
            n(1e-8),
            n(amsgrad),
            n(maximize),
        ])
        .no_gradient()
        .dtypes(&[DType::F64, DType::BF16])
    };
    vec![of(false, false), of(true, true)]
}

fn sgd_samples() -> Vec<Sample> {
    use crate::schema::Fill::Normal;
    let of = |momentum: f64, nesterov: bool, first: bool| {
        let buffers = if momentum != 0.0 { list(Normal) } else { SampleArg::Tensors(vec![], Normal) };
        Sample::new(vec![
            list(Normal),
            list(Normal),
            buffers,
            n(0.01),
            n(momentum),
            n(0.1),
            n(0.0),
            n(nesterov),
            n(false),
            n(first),
        ])
        .no_gradient()
        .dtypes(&[DType::F64, DType::BF16])
    };
    vec![of(0.0, false, false), of(0.9, true, false), of(0.9, false, true)]
}

/// Rows of the optimiser steps.
pub const ROWS: &[Row] = &[
    Row::new(
        "_fused_adamw_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, \
        Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, \
        float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        Tier::Fused,
        |a| fused_adam(a, true),
        adam_samples,
    )
    .doc(
        "Apply one step of AdamW to each tensor of `input` in place, from `grads` and the state lists: `param *= 1 - \
         lr * weight_decay`, then the step of `torch._fused_adam_` without weight decay.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, \
        Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, \
        float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        Tier::Fused,
        |a| fused_adam(a, false),
        adam_samples,
    )
    .doc(
        "Apply one step of Adam to each tensor of `input` and to the state lists in place: `param -= lr / (1 - \
         beta1^t) * exp_avg / (sqrt(exp_avg_sq / (1 - beta2^t)) + eps)`. The caller has counted up the steps `t` in \
         `state_steps`.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_fused_sgd_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float \
        weight_decay, float momentum, float lr, float dampening, bool nesterov, bool maximize, bool is_first_step, \
        Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
        Tier::Fused,
        fused_sgd,
        sgd_samples,
    )
    .doc(
        "Apply one step of SGD to each tensor of `input` in place, from `grads`, and update the buffers in \
         `momentum_buffer_list` where `momentum` is not 0.",
    )
    .scope(Scope::Function)
    .no_out(),
];
