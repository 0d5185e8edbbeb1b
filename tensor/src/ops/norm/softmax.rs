//! Softmax and its logarithm along one dimension.

use crate::axes::Axes;
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, misfit};
use crate::op::{Facts, Fused, KernelFn, LowerFn, Outs, Prim, Saves, VjpFn, normalize_dim};
use crate::policy::{Policies, Policy};
use crate::schema::{Args, DTypeWithOut, Ret, Row, Sample, SampleArg, Scope, Tier, messages, n, t};
use crate::types::compute::{expect_float, narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch, samples};
use smallvec::smallvec;
use torchtpu_kernels::softmax as kernels;
use torchtpu_kernels::{View, ViewMut};

/// `exp(x) / sum(exp(x))` along a dimension, or its logarithm.
///
/// The operand has any shape and a floating-point dtype; 16-bit floats are computed in `f32`. The largest element is
/// subtracted first, so that nothing overflows. A row of only `-inf` gives NaN, as the formula does. A 0-d tensor is a
/// row of one element. Saves only the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Softmax {
    /// Whether to return the logarithm.
    pub log: bool,
    /// The dimension.
    pub dim: usize,
}

/// Gradient of [`Softmax`] from the output's gradient and the output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SoftmaxBackward {
    /// Whether the output is the logarithm.
    pub log: bool,
    /// The dimension.
    pub dim: usize,
}

/// `x` with at least one dimension.
fn row(x: &Tensor) -> Result<Tensor> {
    if x.dims().is_empty() { x.view_dims(Dims::filled(1, 1)) } else { Ok(x.clone()) }
}

impl Softmax {
    /// Write the result `y` for `x`.
    pub(crate) fn run(&self, x: &View<'_>, y: &mut ViewMut<'_>) {
        if self.log {
            kernels::log_softmax(x, self.dim, y);
        } else {
            kernels::softmax(x, self.dim, y);
        }
    }
}

impl SoftmaxBackward {
    /// Write the input's gradient for `g`, the output's gradient, and `y`, the output.
    pub(crate) fn run(&self, g: &View<'_>, y: &View<'_>, gx: &mut ViewMut<'_>) {
        if self.log {
            kernels::log_softmax_backward(g, y, self.dim, gx);
        } else {
            kernels::softmax_backward(g, y, self.dim, gx);
        }
    }
}

fields! {
    Softmax { log, dim };
    SoftmaxBackward { log, dim };
}

impl KernelCall for Softmax {
    fn name() -> &'static str {
        "softmax"
    }
    fn arity(&self) -> (usize, usize) {
        (1, 1)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        match (x, y) {
            ([x], [y]) if self.dim < x.sizes().len() => self.run(x, y),
            _ => return Err(misfit(self)),
        }
        Ok(())
    }
}

impl KernelCall for SoftmaxBackward {
    fn name() -> &'static str {
        "softmax_backward"
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        match (x, y) {
            ([g, v], [gx]) if self.dim < v.sizes().len() => self.run(g, v, gx),
            _ => return Err(misfit(self)),
        }
        Ok(())
    }
}

impl Fused for Softmax {
    const NAME: &'static str = "softmax";
    const FACTS: Facts = Facts { autocast: Policies::accelerator(Policy::Full), ..Facts::NONE };
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        o.run(&x[0].view(), &mut y[0].view_mut());
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| o.call_kernel(f, x, y));
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let op = SoftmaxBackward { log: o.log, dim: o.dim };
        Ok(smallvec![Some(dispatch::call(Prim::SoftmaxBackward(op), &[g, s.y(0)])?)])
    });
    fn label(&self) -> &'static str {
        if self.log { "log_softmax" } else { "softmax" }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float(if self.log { "log_softmax_lastdim_kernel_impl" } else { "softmax_lastdim_kernel_impl" }, x[0])?;
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(1 << self.dim, x, y)
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        kernel_call::is_called(x[0].numel())
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        if x[0].numel() == 0 {
            return Ok(smallvec![x[0].exp()?]);
        }
        let dim = [self.dim as i64];
        let v = row(&widened(x[0])?)?;
        let shifted = v.sub(&v.detach().amax(&dim, true)?)?;
        let e = shifted.exp()?;
        let sum = e.sum_dim(&dim, true)?;
        let y = if self.log { shifted.sub(&sum.log()?)? } else { e.div(&sum)? };
        Ok(smallvec![narrowed(y.reshape_dims(*x[0].dims())?, x[0].dtype())?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(1)
    }
}

impl Fused for SoftmaxBackward {
    const NAME: &'static str = "softmax_backward";
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        o.run(&x[0].view(), &x[1].view(), &mut y[0].view_mut());
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| o.call_kernel(f, x, y));
    fn label(&self) -> &'static str {
        if self.log { "log_softmax_backward" } else { "softmax_backward" }
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if x[0].meta() != x[1].meta() {
            return Err(Error::runtime(format!(
                "expected a gradient of shape {}, but got {}",
                x[1].dims(),
                x[0].dims()
            )));
        }
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(1 << self.dim, x, y).linear(&[0b01])
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        kernel_call::is_called(x[0].numel())
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let dim = [self.dim as i64];
        let (g, y) = (row(&widened(x[0])?)?, row(&widened(x[1])?)?);
        let gx = if self.log {
            g.sub(&y.exp()?.mul(&g.sum_dim(&dim, true)?)?)?
        } else {
            y.mul(&g.sub(&g.mul(&y)?.sum_dim(&dim, true)?)?)?
        };
        Ok(smallvec![narrowed(gx.reshape_dims(*x[0].dims())?, x[0].dtype())?])
    }
}

/// `torch.softmax` and `torch.log_softmax`.
///
/// # Errors
/// `Index` for a wrong dimension, `Runtime` for a dtype that is not floating point.
pub fn softmax(x: &Tensor, dim: i64, dtype: Option<DType>, log: bool) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    if x.numel() == 0 && dtype.is_none() && !x.dtype().is_float() {
        // As in PyTorch, an empty tensor may have a dtype without a kernel.
        return x.copy();
    }
    match dtype {
        Some(d) if d != x.dtype() => dispatch::call(Prim::Softmax(Softmax { log, dim }), &[&x.to_dtype(d)?]),
        _ => dispatch::call(Prim::Softmax(Softmax { log, dim }), &[x]),
    }
}

impl Tensor {
    /// `exp(x) / sum(exp(x))` along a dimension.
    ///
    /// # Errors
    /// `Index` for a wrong dimension, `Runtime` for a dtype that is not floating point.
    pub fn softmax(&self, dim: i64) -> Result<Tensor> {
        softmax(self, dim, None, false)
    }
    /// Logarithm of [`Tensor::softmax`].
    ///
    /// # Errors
    /// The errors of [`Tensor::softmax`].
    pub fn log_softmax(&self, dim: i64) -> Result<Tensor> {
        softmax(self, dim, None, true)
    }
}

fn along() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[2, 5]), n(1)]).dtypes(&[DType::F64, DType::BF16, DType::F16]),
        Sample::new(vec![t(&[2, 3, 4]), n(-2)]),
        Sample::new(vec![SampleArg::Transposed(vec![3, 4], crate::schema::Fill::Normal), n(0)]),
        Sample::new(vec![t(&[]), n(0)]),
        Sample::new(vec![t(&[0, 3]), n(1)]),
    ]
}

/// Rows of the softmax family.
pub const ROWS: &[Row] = &[
    Row::new(
        "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        Tier::Fused,
        |a| Ok(softmax(a.tensor(0)?, a.int(1)?, a.opt_dtype(2)?, false)?.into()),
        along,
    )
    .doc(
        "Return `exp(input) / sum(exp(input))` along `dim`. The largest element is subtracted first, so nothing \
         overflows. `input` is cast to `dtype` first, if that is given; integers without it raise \
         `NotImplementedError`. Elements of `-inf` give 0, but a slice of `-inf` alone gives NaN.",
    )
    .dtype_with_out(DTypeWithOut::MustMatch(messages::expected_out))
    .aliases(&["special_softmax"])
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        Tier::Fused,
        |a| Ok(softmax(a.tensor(0)?, a.int(1)?, a.opt_dtype(2)?, true)?.into()),
        along,
    )
    .doc(
        "Return the logarithm of the softmax of `input` along `dim`: `input - log(sum(exp(input)))`. It is exact \
         where the softmax itself would be rounded to 0. `input` is cast to `dtype` first, if that is given; integers \
         without it raise `NotImplementedError`.",
    )
    .dtype_with_out(DTypeWithOut::MustMatch(messages::expected_out))
    .aliases(&["special_log_softmax"])
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "softmin(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        Tier::Composed,
        |a| Ok(softmax(&a.tensor(0)?.neg()?, a.int(1)?, a.opt_dtype(2)?, false)?.into()),
        samples!([t(&[2, 5]), n(1)]),
    )
    .doc(
        "Return the softmax of `-input` along `dim`, whose largest elements belong to the smallest ones of `input`. \
         The negation is cast to `dtype`, if that is given.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            let dim = a.int(1)?;
            if x.numel() == 0 {
                return Ok(softmax(x, dim, a.opt_dtype(2)?, false)?.into());
            }
            // A row without a seen element has weights of zero, and no gradient.
            let hidden = x.eq_scalar(f64::NEG_INFINITY)?;
            let hidden = crate::ops::reduce::reduce(crate::ops::reduce::ReduceKind::All, &hidden, Some(&[dim]), true)?;
            let seen = crate::ops::pointwise::select_scalar(&hidden, 0.0, x)?;
            let y = softmax(&seen, dim, a.opt_dtype(2)?, false)?;
            Ok(crate::ops::pointwise::select_scalar(&hidden, 0.0, &y)?.into())
        },
        along,
    )
    .doc("Return the softmax of `input` along `dim`, with zeros where a slice is `-inf` alone.")
    .scope(Scope::Aten),
    Row::new(
        "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        Tier::Fused,
        |a| backward(a, false),
        backward_samples,
    )
    .doc(
        "Return the gradient of `torch.softmax` along `dim`, `output * (grad_output - sum(grad_output * output))`, in \
         the dtype `input_dtype`.",
    )
    .scope(Scope::Aten),
    Row::new(
        "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        Tier::Fused,
        |a| backward(a, true),
        backward_samples,
    )
    .doc(
        "Return the gradient of `torch.log_softmax` along `dim`, `grad_output - exp(output) * sum(grad_output)`, in \
         the dtype `input_dtype`.",
    )
    .scope(Scope::Aten),
];

fn backward(a: &Args<'_>, log: bool) -> Result<Ret> {
    let (g, y) = (a.tensor(0)?, a.tensor(1)?);
    let dim = normalize_dim(a.int(2)?, g.dims().len())?;
    let gx = dispatch::call(Prim::SoftmaxBackward(SoftmaxBackward { log, dim }), &[g, y])?;
    Ok(gx.to_dtype(a.opt_dtype(3)?.unwrap_or(g.dtype()))?.into())
}

fn backward_samples() -> Vec<Sample> {
    vec![Sample::new(vec![t(&[2, 5]), t(&[2, 5]), n(1), SampleArg::DType(DType::F32)]).no_gradient()]
}
