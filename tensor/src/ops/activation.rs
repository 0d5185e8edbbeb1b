//! Activations.
//!
//! GELU, SiLU and the gradient of ReLU are fused, because they run as one pass on `cpu`. The others are compositions,
//! written so that a branch that is not taken never puts a NaN into the gradient.

mod gelu;

pub use gelu::{Gelu, GeluBackward, gelu};

use crate::axes::Axes;
use crate::formula::by_formula;
use crate::op::{Fused, KernelFn, LowerFn, Outs, Prim, Saves, VjpFn, normalize_dim};
use crate::ops::indexing::masked_scatter;
use crate::ops::ok;
use crate::ops::pointwise::clip::clamp_scalars;
use crate::ops::pointwise::{kernel_error, select, select_scalar, where_};
use crate::ops::random::{Distribution, sample};
use crate::policy::{Policies, Policy};
use crate::random::Generator;
use crate::schema::{Operand, OutDType, Row, Sample, SampleArg, Scope, Tier, messages, n, t, widely};
use crate::types::compute::{compute_dtype, expect_float, narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, graph, samples};
use smallvec::smallvec;
use torchtpu_kernels::pointwise as kernels;
use torchtpu_stablehlo::Direction;

// ------------------------------------------------------------------------------------------------ ReLU's gradient

/// `g` where `y > 0`, else zero: the gradient of ReLU, from its input or its output.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | g | any | floating point |
/// | y | as g | as g |
///
/// If `y` is NaN, `g` passes, as in PyTorch. Only `y` is saved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThresholdBackward;

impl Fused for ThresholdBackward {
    const NAME: &'static str = "threshold_backward";
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        kernels::threshold_backward(&x[0].view(), &x[1].view(), 0.0, &mut y[0].view_mut()).map_err(kernel_error)
    });
    const LOWER: Option<LowerFn<Self>> = Some(|_, f, x, _| {
        let zero = f.splat(0.0, x[0].ty());
        let off = f.compare(Direction::Le, &x[1], &zero);
        smallvec![f.select(&off, &zero, &x[0])]
    });
    const VJP: Option<VjpFn<Self>> =
        Some(|_, s, g| Ok(smallvec![if s.needs(0) { Some(threshold_backward(g, s.x(1))?) } else { None }, None]));
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("threshold_backward", x[0])?;
        same_as(x[0], x[1])
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b01])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        Ok(smallvec![select_scalar(&x[1].le_scalar(0.0)?, 0.0, x[0])?])
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::inputs((needs & 1) << 1)
    }
}

/// Description of `g`, which must agree with that of `x`.
fn same_as(g: &Tensor, x: &Tensor) -> Result<Meta> {
    if g.meta() != x.meta() {
        return Err(Error::runtime(format!(
            "expected a gradient of shape {} and type {}, but got {} and {}",
            x.dims(),
            x.dtype().scalar_type(),
            g.dims(),
            g.dtype().scalar_type()
        )));
    }
    Ok(*g.meta())
}

/// `g` where `y > 0`, else zero.
///
/// # Errors
/// `Runtime` when the two differ in shape, dtype or device.
pub fn threshold_backward(g: &Tensor, y: &Tensor) -> Result<Tensor> {
    if !g.dtype().is_inexact() {
        return select_scalar(&y.le_scalar(0i64)?, 0.0, g);
    }
    dispatch::call(Prim::ThresholdBackward(ThresholdBackward), &[g, y])
}

// ------------------------------------------------------------------------------------------------ SiLU

/// `x * sigmoid(x)`.
///
/// The operand has any shape and a floating-point dtype; 16-bit floats are computed in `f32`. Saves `x`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Silu;

/// Gradient of [`Silu`] from the output's gradient and `x`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SiluBackward;

impl Fused for Silu {
    const NAME: &'static str = "silu";
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    const KERNEL: Option<KernelFn<Self>> =
        Some(|_, x, y| kernels::silu(&x[0].view(), &mut y[0].view_mut()).map_err(kernel_error));
    const VJP: Option<VjpFn<Self>> =
        Some(|_, s, g| Ok(smallvec![Some(dispatch::call(Prim::SiluBackward(SiluBackward), &[g, s.x(0)])?)]));
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("silu_cpu", x[0])?;
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let v = widened(x[0])?;
        Ok(smallvec![narrowed(v.mul(&v.sigmoid()?)?, x[0].dtype())?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(1)
    }
}

impl Fused for SiluBackward {
    const NAME: &'static str = "silu_backward";
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    const KERNEL: Option<KernelFn<Self>> =
        Some(|_, x, y| kernels::silu_backward(&x[0].view(), &x[1].view(), &mut y[0].view_mut()).map_err(kernel_error));
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("silu_backward_cpu", x[0])?;
        same_as(x[0], x[1])
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b01])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (g, v) = (widened(x[0])?, widened(x[1])?);
        let s = v.sigmoid()?;
        let slope = s.mul(&v.mul(&s.neg()?.add_scalar(1.0)?)?.add_scalar(1.0)?)?;
        Ok(smallvec![narrowed(g.mul(&slope)?, x[0].dtype())?])
    }
}

/// [`clamp_scalars`], but the gradient is also zero for elements equal to a bound.
fn hardtanh(x: &Tensor, low: f64, high: f64) -> Result<Tensor> {
    if !x.dtype().is_float() || !graph::may_need_grad(&[x]) {
        return clamp_scalars(x, Some(low), Some(high));
    }
    let y = select_scalar(&x.le_scalar(low)?, low, x)?;
    select_scalar(&x.ge_scalar(high)?, high, &y)
}

// ------------------------------------------------------------------------------------------------ the others

fn choose(cond: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    where_(cond, Operand::Tensor(a), Operand::Tensor(b))
}

/// `scale * x` above zero, `alpha * scale * (exp(x * input_scale) - 1)` below.
fn elu(x: &Tensor, alpha: f64, scale: f64, input_scale: f64) -> Result<Tensor> {
    expect_float("elu_cpu", x)?;
    let forward = || -> Result<Tensor> {
        let wide = widened(x)?;
        let positive = wide.gt_scalar(0.0)?;
        let below =
            select_scalar(&positive, 0.0, &wide)?.mul_scalar(input_scale)?.expm1()?.mul_scalar(alpha * scale)?;
        let above = if scale == 1.0 { wide } else { wide.mul_scalar(scale)? };
        narrowed(select(&positive, &above, &below)?, x.dtype())
    };
    by_formula("EluBackward0", &[x], forward, move |x, g, _| {
        // The exponential is computed itself, since far below zero the result is a constant after rounding. At zero
        // the second derivative is zero.
        let wide = widened(&x[0])?;
        let below = select_scalar(&wide.lt_scalar(0.0)?.logical_not()?, 0.0, &wide)?.mul_scalar(input_scale)?.exp()?;
        let scale = Tensor::number(Scalar::Float(scale), wide.dtype())?;
        let slope = below.mul_scalar(alpha * input_scale)?.mul(&scale)?;
        let slope = select(&wide.le_scalar(0.0)?, &slope, &scale)?;
        Ok(smallvec![Some(narrowed(widened(g)?.mul(&slope)?, x[0].dtype())?)])
    })
}

/// The in-place form of a row of `elu` or `leaky_relu`. It refuses a backward with a negative slope below zero: PyTorch
/// finds the side of an input from the result, and with such a slope two inputs give the same result.
fn steep_in_place(
    x: &Tensor,
    slope: f64,
    names: [&'static str; 2],
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<crate::schema::Ret> {
    let [node, shown] = names;
    crate::inplace::apply(x, |v| {
        let y = f(v)?;
        if slope >= 0.0 || !y.requires_grad() {
            return Ok(y);
        }
        let mut why = format!(
            "In-place {shown} backward calculation is triggered with a negative slope which is not supported. This is \
            caused by calling in-place forward function with a negative slope, please call out-of-place version \
            instead."
        );
        if shown == "leakyReLu" {
            why.push_str(
                " File an issue at https://github.com/pytorch/pytorch if you do require supporting in-place \
                leakRelu backward calculation with negative slope",
            );
        }
        graph::refuse_backward(&y, &[&y], node, why)
    })?;
    ok(x.clone())
}

fn leaky_relu(x: &Tensor, slope: f64) -> Result<Tensor> {
    expect_float("leaky_relu_cpu", x)?;
    choose(&x.gt_scalar(0.0)?, x, &x.mul_scalar(slope)?)
}

/// `x` above zero. Below it, `x` times a slope that is drawn for each element, or times the mean slope outside of
/// training.
fn rrelu(x: &Tensor, lower: f64, upper: f64, training: bool, generator: Option<&Generator>) -> Result<Tensor> {
    if !(lower.is_finite() && upper.is_finite()) {
        return Err(Error::runtime(format!("rrelu: lower and upper must be finite, got {lower} and {upper}")));
    }
    if lower > upper {
        return Err(Error::runtime("Lower bound should be less than or equal to the upper bound"));
    }
    expect_float(if training { "rrelu_with_noise_out_cpu" } else { "leaky_relu_cpu" }, x)?;
    if !training {
        return leaky_relu(x, (lower + upper) / 2.0);
    }
    // The bounds are rounded to the dtype in which arithmetic on the data is done.
    let [lower, upper] = [lower, upper].map(|v| if x.dtype() == DType::F64 { v } else { f64::from(v as f32) });
    let draws = Distribution::Uniform(lower, upper);
    let below = x.detach().le_scalar(0.0)?;
    let slopes = if x.place().in_memory() {
        // This is PyTorch's stream: a draw in double precision for each element that needs one, in order.
        let count = below.to_dtype(DType::I64)?.sum()?.item()?.to_i64() as usize;
        let drawn = sample(draws, &Meta::new(&[count], DType::F64, x.place()), generator)?.to_dtype(x.dtype())?;
        masked_scatter(&Tensor::full_meta(x.meta(), Scalar::Float(1.0))?, &below, &drawn)?
    } else {
        select_scalar(&below.logical_not()?, 1.0, &sample(draws, x.meta(), generator)?)?
    };
    x.mul(&slopes)
}

/// `log(1 + exp(beta x)) / beta`, and `x` if `beta x` is above the threshold.
pub(crate) fn softplus(x: &Tensor, beta: f64, threshold: f64) -> Result<Tensor> {
    expect_float("softplus_cpu", x)?;
    if compute_dtype(x.dtype()) != x.dtype() {
        return narrowed(softplus(&widened(x)?, beta, threshold)?, x.dtype());
    }
    let z = if beta == 1.0 { x.clone() } else { x.mul_scalar(beta)? };
    let soft = clamp_scalars(&z, None, Some(threshold))?.exp()?.log1p()?;
    let soft = if beta == 1.0 { soft } else { soft.div_scalar(beta)? };
    choose(&z.gt_scalar(threshold)?, x, &soft)
}

/// `log(sigmoid(x))`, exact for large negative numbers.
pub(crate) fn log_sigmoid(x: &Tensor) -> Result<Tensor> {
    expect_float("log_sigmoid_cpu", x)?;
    let forward = || -> Result<Tensor> {
        let wide = widened(x)?;
        narrowed(wide.minimum_scalar(0.0)?.sub(&wide.abs()?.neg()?.exp()?.log1p()?)?, x.dtype())
    };
    by_formula("LogSigmoidBackward0", &[x], forward, |x, g, _| {
        Ok(smallvec![Some(narrowed(widened(g)?.mul(&widened(&x[0])?.neg()?.sigmoid()?)?, x[0].dtype())?)])
    })
}

/// Whether `-3 < x < 3`, between the flat parts of the hard activations. NaN is not.
fn is_between(x: &Tensor) -> Result<Tensor> {
    x.gt_scalar(-3.0)?.logical_and(&x.lt_scalar(3.0)?)
}

fn hardsigmoid(x: &Tensor) -> Result<Tensor> {
    expect_float("hardsigmoid_cpu", x)?;
    let forward = || narrowed(hardtanh(&widened(x)?.add_scalar(3.0)?, 0.0, 6.0)?.div_scalar(6.0)?, x.dtype());
    by_formula("HardsigmoidBackward0", &[x], forward, |x, g, _| {
        let flat = is_between(&widened(&x[0])?)?.logical_not()?;
        Ok(smallvec![Some(select_scalar(&flat, 0.0, &g.div_scalar(6.0)?)?)])
    })
}

fn hardswish(x: &Tensor) -> Result<Tensor> {
    expect_float("hardswish_cpu", x)?;
    let forward = || -> Result<Tensor> {
        let wide = widened(x)?;
        narrowed(wide.mul(&hardtanh(&wide.add_scalar(3.0)?, 0.0, 6.0)?)?.div_scalar(6.0)?, x.dtype())
    };
    by_formula("HardswishBackward0", &[x], forward, |x, g, _| {
        let wide = widened(&x[0])?;
        let (low, curved) = (wide.le_scalar(-3.0)?, is_between(&wide)?);
        // At 1.5 the slope of the curve is that of the straight part.
        let slope = select_scalar(&curved.logical_not()?, 1.5, &wide)?.div_scalar(3.0)?.add_scalar(0.5)?;
        let slope = select_scalar(&low, 0.0, &slope)?;
        Ok(smallvec![Some(narrowed(widened(g)?.mul(&slope)?, x[0].dtype())?)])
    })
}

fn softshrink(x: &Tensor, lambda: f64) -> Result<Tensor> {
    expect_float("softshrink_check", x)?;
    let most = match x.dtype() {
        DType::F16 => 65504.0,
        DType::BF16 => 3.389_531_389_251_535_5e38,
        DType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    };
    if !(0.0..=most).contains(&lambda) {
        let (most, lambda) = (crate::scalar::general(most), crate::scalar::general(lambda));
        let dtype = x.dtype().scalar_type();
        return Err(Error::runtime(format!(
            "lambda must be in range [0, {most}] for input dtype {dtype}, but found {lambda}"
        )));
    }
    // Subtract the elements within the band, which makes them zero. NaN stays NaN.
    let forward = || x.sub(&clamp_scalars(x, Some(-lambda), Some(lambda))?);
    by_formula("SoftshrinkBackward0", &[x], forward, move |x, g, _| {
        Ok(smallvec![Some(select_scalar(&x[0].detach().abs()?.le_scalar(lambda)?, 0.0, g)?)])
    })
}

fn hardshrink(x: &Tensor, lambda: f64) -> Result<Tensor> {
    expect_float("hardshrink_cpu", x)?;
    select_scalar(&x.abs()?.le_scalar(lambda)?, 0.0, x)
}

fn threshold(x: &Tensor, threshold: Scalar, value: Scalar) -> Result<Tensor> {
    crate::ops::creation::check_range(value, x.dtype())?;
    let value = Tensor::number(value, x.dtype())?;
    // 16-bit floats are compared with the threshold itself, not with its rounded value.
    let low = match x.dtype() {
        DType::F16 | DType::BF16 => x.to_dtype(DType::F32)?.le_scalar(threshold)?,
        _ => x.le_scalar(threshold)?,
    };
    select(&low, &value, x)
}

/// `x` above zero, `weight * x` below, with one weight or one for each channel.
fn prelu(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    if weight.dtype() != x.dtype() {
        return Err(Error::runtime(format!(
            "prelu: Type promoting not supported. Got {} and {}",
            x.dtype().scalar_type(),
            weight.dtype().scalar_type()
        )));
    }
    expect_float("prelu_cpu", x)?;
    if weight.dims().len() > 1 {
        return Err(Error::runtime(format!(
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
            weight.dims().len()
        )));
    }
    let w = if weight.numel() == 1 {
        weight.reshape_dims(Dims::EMPTY)?
    } else {
        let channels = if x.dims().len() > 1 { x.dims()[1] } else { 1 };
        if x.dims().is_empty() {
            return Err(Error::runtime("Not allow zero-dim input tensor."));
        }
        if weight.numel() != channels {
            return Err(Error::runtime(format!(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = \
                {channels}.",
                weight.numel()
            )));
        }
        weight.reshape_dims(Dims::filled(1, x.dims().len()).with(1, channels))?
    };
    by_formula(
        "PreluKernelBackward0",
        &[x, &w],
        || choose(&x.gt_scalar(0.0)?, x, &x.mul(&w)?),
        |x, g, needs| {
            let (x, w) = (&x[0], &x[1]);
            // From zero on the two do not depend on each other. Branches that are not taken get no infinite number.
            let from_zero = x.ge_scalar(0.0)?;
            let of_x = || -> Result<Tensor> {
                let one = Tensor::number(Scalar::Float(1.0), w.dtype())?;
                let slope = choose(&x.gt_scalar(0.0)?, &one, &choose(&from_zero, &w.detach(), w)?)?;
                g.mul(&slope)
            };
            let of_w = || g.mul(&select_scalar(&from_zero, 0.0, x)?);
            Ok(smallvec![
                if needs & 1 != 0 { Some(of_x()?) } else { None },
                if needs & 2 != 0 { Some(of_w()?) } else { None }
            ])
        },
    )
}

/// `x / (1 + |x|)`. The gradient, one over the square of the divisor, is a product: the square would leave the range,
/// and the difference of two quotients would cancel.
fn softsign(x: &Tensor) -> Result<Tensor> {
    let divisor = |x: &Tensor| x.abs()?.add_scalar(1i64);
    if !x.dtype().is_float() {
        return x.div(&divisor(x)?);
    }
    let forward = || -> Result<Tensor> {
        let v = widened(x)?;
        narrowed(v.div(&divisor(&v)?)?, x.dtype())
    };
    by_formula("SoftsignBackward0", &[x], forward, move |x, g, _| {
        let r = divisor(&x[0])?.reciprocal()?;
        Ok(smallvec![Some(g.mul(&r)?.mul(&r)?)])
    })
}

fn glu(x: &Tensor, dim: i64) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return Err(crate::ops::complex::unsupported("glu_cpu", x.dtype()));
    }
    if x.dims().is_empty() {
        return Err(Error::runtime("glu does not support 0-dimensional tensors"));
    }
    expect_float("glu_cpu", x)?;
    let d = normalize_dim(dim, x.dims().len())?;
    let size = x.dims()[d] as i64;
    if size % 2 != 0 {
        return Err(Error::runtime(format!("Halving dimension must be even, but dimension {d} is size {size}")));
    }
    let half = size / 2;
    let (a, b) = (x.narrow(d as i64, 0, half)?, x.narrow(d as i64, half, half)?);
    narrowed(widened(&a)?.mul(&widened(&b)?.sigmoid()?)?, x.dtype())
}

const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

const FLOATS: &[DType] = &[DType::F64, DType::BF16, DType::F16];

fn plain() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[2, 3])]).dtypes(FLOATS),
        Sample::new(vec![t(&[0, 3])]),
        Sample::new(vec![SampleArg::Transposed(vec![3, 4], crate::schema::Fill::Normal)]),
    ]
}

/// Rows of the activations.
pub const ROWS: &[Row] = &[
    Row::new(
        "gelu(Tensor self, *, str approximate='none') -> Tensor",
        Tier::Fused,
        |a| ok(gelu(a.tensor(0)?, a.str(1)?)?),
        || {
            let mut s = plain();
            s.push(Sample::new(vec![t(&[2, 3]), SampleArg::Str("tanh")]).dtypes(FLOATS));
            s
        },
    )
    .doc(
        "Return `x * Phi(x)` for each element `x` of `input`, where `Phi` is the distribution function of the \
         standard normal distribution. `approximate='tanh'` computes `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 \
         * x^3)))` instead. Only floating-point dtypes are allowed; 16-bit floats are computed in `float32`.",
    )
    .inplace()
    .scope(Scope::Nn),
    Row::new(
        "silu(Tensor self) -> Tensor",
        Tier::Fused,
        |a| {
            let x = a.tensor(0)?;
            ok(if x.dtype().is_complex() { x.mul(&x.sigmoid()?)? } else { dispatch::call(Prim::Silu(Silu), &[x])? })
        },
        plain,
    )
    .doc(
        "Return `x * sigmoid(x)` for each element `x` of `input`. Floating-point and complex dtypes are allowed; \
         16-bit floats are computed in `float32`.",
    )
    .inplace()
    .scope(Scope::Nn),
    Row::new("relu6(Tensor self) -> Tensor", Tier::Composed, |a| ok(hardtanh(a.tensor(0)?, 0.0, 6.0)?), plain)
        .doc(
            "Return `min(max(input, 0), 6)` for each element. The gradient is 1 strictly between 0 and 6, and 0 \
         elsewhere.",
        )
        .inplace()
        .scope(Scope::Nn),
    Row::new(
        "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
        Tier::Composed,
        |a| {
            if a.float(1)? > a.float(2)? {
                return Err(Error::runtime("min_val cannot be greater than max_val"));
            }
            ok(hardtanh(a.tensor(0)?, a.float(1)?, a.float(2)?)?)
        },
        samples!([t(&[2, 3])], [t(&[2, 3]), n(-0.5), n(0.7)]),
    )
    .doc(
        "Return `input` clamped to `[min_val, max_val]`. The gradient is 1 strictly between the bounds, and 0 \
         elsewhere. `min_val` above `max_val` raises an error.",
    )
    .inplace()
    .scope(Scope::Nn),
    Row::new(
        "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
        Tier::Composed,
        |a| ok(leaky_relu(a.tensor(0)?, a.float(1)?)?),
        samples!([t(&[2, 3])], [t(&[2, 3]), n(0.2)]),
    )
    .doc(
        "Return `input` where it is positive, and `negative_slope * input` elsewhere. Only floating-point dtypes \
         are allowed. The in-place form with a negative slope refuses backward.",
    )
    .inplace_by(|a| {
        let slope = a.float(1)?;
        steep_in_place(a.tensor(0)?, slope, ["LeakyReluBackward0", "leakyReLu"], |x| leaky_relu(x, slope))
    })
    .scope(Scope::Nn),
    Row::new(
        "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? \
        generator=None) -> Tensor",
        Tier::Composed,
        |a| ok(rrelu(a.tensor(0)?, a.float(1)?, a.float(2)?, a.bool(3)?, a.opt_generator(4)?)?),
        samples!([t(&[2, 3])], [t(&[2, 3]), n(0.1), n(0.5)]),
    )
    .doc(
        "Return `input` where it is positive, and `slope * input` elsewhere. With `training`, the slope is drawn \
         for each such element from the uniform distribution between `lower` and `upper`; otherwise it is their \
         mean. Only floating-point dtypes are allowed.",
    )
    .inplace_by(|a| {
        let (lower, upper, training) = (a.float(1)?, a.float(2)?, a.bool(3)?);
        let slope = if training { lower } else { (lower + upper) / 2.0 };
        let generator = a.opt_generator(4)?;
        steep_in_place(a.tensor(0)?, slope, ["LeakyReluBackward0", "leakyReLu"], |x| {
            rrelu(x, lower, upper, training, generator)
        })
    })
    .no_out()
    .scope(Scope::Function)
    .in_place_function(),
    Row::new(
        "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
        Tier::Composed,
        |a| ok(elu(a.tensor(0)?, a.float(1)?, a.float(2)?, a.float(3)?)?),
        samples!([t(&[2, 3])], [t(&[2, 3]), n(0.7)]),
    )
    .doc(
        "Return `scale * x` for each positive element `x` of `input`, and `alpha * scale * (e^(input_scale * x) - \
         1)` for the others. Only floating-point dtypes are allowed. The in-place form with a negative `alpha` \
         refuses backward.",
    )
    .inplace_by(|a| {
        let alpha = a.float(1)?;
        steep_in_place(a.tensor(0)?, alpha, ["EluBackward0", "elu"], |x| elu(x, alpha, a.float(2)?, a.float(3)?))
    })
    .scope(Scope::Nn),
    Row::new(
        "selu(Tensor self) -> Tensor",
        Tier::Composed,
        |a| ok(elu(a.tensor(0)?, SELU_ALPHA, SELU_SCALE, 1.0)?),
        plain,
    )
    .doc(
        "Return `scale * x` for each positive element `x` of `input`, and `scale * alpha * (e^x - 1)` for the \
         others, where `alpha` is 1.6732632423543772 and `scale` is 1.0507009873554805. Only floating-point dtypes \
         are allowed.",
    )
    .inplace()
    .scope(Scope::Function)
    .in_place_function(),
    Row::new(
        "celu(Tensor self, Scalar alpha=1.0) -> Tensor",
        Tier::Composed,
        |a| {
            let alpha = a.float(1)?;
            if alpha == 0.0 {
                return Err(Error::runtime("ZeroDivisionError: alpha cannot be 0 for CELU"));
            }
            ok(elu(a.tensor(0)?, alpha, 1.0, 1.0 / alpha)?)
        },
        samples!([t(&[2, 3])], [t(&[2, 3]), n(0.7)]),
    )
    .doc(
        "Return each positive element `x` of `input` as it is, and `alpha * (e^(x / alpha) - 1)` for the others. \
         `alpha` must not be 0. Only floating-point dtypes are allowed.",
    )
    .inplace_by(|a| {
        let alpha = a.float(1)?;
        if alpha == 0.0 {
            return Err(Error::runtime("ZeroDivisionError: alpha cannot be 0 for CELU"));
        }
        steep_in_place(a.tensor(0)?, alpha, ["EluBackward0", "elu"], |x| elu(x, alpha, 1.0, 1.0 / alpha))
    })
    .scope(Scope::Function)
    .in_place_function(),
    Row::new(
        "mish(Tensor self) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            expect_float("mish_cpu", x)?;
            let wide = widened(x)?;
            ok(narrowed(wide.mul(&softplus(&wide, 1.0, 20.0)?.tanh()?)?, x.dtype())?)
        },
        plain,
    )
    .doc(
        "Return `x * tanh(log(1 + e^x))` for each element `x` of `input`. Only floating-point dtypes are allowed; \
         16-bit floats are computed in `float32`.",
    )
    .inplace()
    .scope(Scope::Nn),
    Row::new(
        "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
        Tier::Composed,
        |a| ok(softplus(a.tensor(0)?, a.float(1)?, a.float(2)?)?),
        samples!([t(&[2, 3])], [t(&[2, 3]), n(2), n(1)]),
    )
    .doc(
        "Return `log(1 + e^(beta * x)) / beta` for each element `x` of `input`. Where `beta * x` is above \
         `threshold`, the result is `x` itself. Only floating-point dtypes are allowed.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new("hardsigmoid(Tensor self) -> Tensor", Tier::Composed, |a| ok(hardsigmoid(a.tensor(0)?)?), plain)
        .doc(
            "Return `min(max(x + 3, 0), 6) / 6` for each element `x` of `input`. Only floating-point dtypes are \
         allowed; 16-bit floats are computed in `float32`.",
        )
        .inplace()
        .scope(Scope::Nn),
    Row::new("hardswish(Tensor self) -> Tensor", Tier::Composed, |a| ok(hardswish(a.tensor(0)?)?), plain)
        .doc(
            "Return `x * min(max(x + 3, 0), 6) / 6` for each element `x` of `input`. Only floating-point dtypes are \
         allowed; 16-bit floats are computed in `float32`.",
        )
        .inplace()
        .scope(Scope::Nn),
    Row::new("log_sigmoid(Tensor self) -> Tensor", Tier::Composed, |a| ok(log_sigmoid(a.tensor(0)?)?), plain)
        .doc(
            "Return `log(1 / (1 + e^-x))` for each element `x` of `input`, exact also for large negative numbers. Only \
         floating-point dtypes are allowed.",
        )
        .scope(Scope::Nn),
    Row::new("softsign(Tensor self) -> Tensor", Tier::Composed, |a| ok(softsign(a.tensor(0)?)?), plain)
        .doc("Return `x / (1 + |x|)` for each element `x` of `input`.")
        .scope(Scope::Nn),
    Row::new(
        "tanhshrink(Tensor self) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| ok(a.tensor(0)?.sub(&a.tensor(0)?.tanh()?)?)),
        plain,
    )
    .doc("Return `x - tanh(x)` for each element `x` of `input`.")
    .scope(Scope::Nn),
    Row::new(
        "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
        Tier::Composed,
        |a| ok(softshrink(a.tensor(0)?, a.float(1)?)?),
        samples!([t(&[2, 3])], [t(&[2, 3]), n(0.3)]),
    )
    .doc(
        "Return each element of `input` moved towards zero by `lambd`, and 0 where it lies within `[-lambd, \
         lambd]`. `lambd` must not be negative. Only floating-point dtypes are allowed.",
    )
    .scope(Scope::Nn),
    Row::new(
        "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
        Tier::Composed,
        |a| ok(hardshrink(a.tensor(0)?, a.float(1)?)?),
        samples!([t(&[2, 3])], [t(&[2, 3]), n(0.3)]),
    )
    .doc(
        "Return `input` where its absolute value is above `lambd`, and 0 elsewhere. Only floating-point dtypes are \
         allowed.",
    )
    .out_dtype(OutDType::OfInput(messages::found)),
    Row::new(
        "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
        Tier::Composed,
        |a| ok(threshold(a.tensor(0)?, a.scalar(1)?, a.scalar(2)?)?),
        samples!([t(&[2, 3]), n(0.1), n(20)]),
    )
    .doc("Return `input` where it is above `threshold`, and `value` elsewhere. NaN stays NaN.")
    .inplace()
    .writes_repeated(crate::inplace::write_same)
    .scope(Scope::Function)
    .in_place_function(),
    Row::new(
        "prelu(Tensor self, Tensor weight) -> Tensor",
        Tier::Composed,
        |a| ok(prelu(a.tensor(0)?, a.tensor(1)?)?),
        samples!([t(&[2, 3, 2]), t(&[3])], [t(&[2, 3]), t(&[1])]),
    )
    .doc(
        "Return `input` where it is positive, and `weight * input` elsewhere. `weight` has one element, or one for \
         each channel of an `input` of shape `(n, c, ...)`. Both must have the same floating-point dtype.",
    )
    .autocast(Policies::both(Policy::Lower)),
    Row::new(
        "glu(Tensor self, int dim=-1) -> Tensor",
        Tier::Composed,
        |a| ok(glu(a.tensor(0)?, a.int(1)?)?),
        samples!([t(&[2, 4])], [t(&[4, 3]), n(0)]),
    )
    .doc(
        "Split `input` along `dim` into two halves `a` and `b`, and return `a * sigmoid(b)`. The size of `dim` must \
         be even; the result has half of it. Only floating-point dtypes are allowed.",
    )
    .scope(Scope::Nn),
];
