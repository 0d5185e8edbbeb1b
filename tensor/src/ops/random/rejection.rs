//! Distributions that are drawn by rejection: gamma, Dirichlet, Poisson and binomial, and the derivatives of draws by
//! their parameters.
//!
//! On `cpu` the kernels of PyTorch's streams draw. On `tpu` each element gets 64 random bits, which start a stream of
//! its own, and [`Rejection`] is a loop that ends when the last element has its number.

use super::{Source, with, working};
use crate::axes::Axes;
use crate::lower::analytic;
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values, broadcast_dims, same_device};
use crate::ops::pointwise::{arith, broadcast_strides, independent_of, kernel_error, select, select_scalar};
use crate::random::Generator;
use crate::schema::{Operand, Row, Sample, Tier, positive, probability};
use crate::{DType, Error, Held, Meta, Place, Result, Tensor, dispatch, graph, state};
use smallvec::smallvec;
use torchtpu_kernels::pointwise::BinaryKind;
use torchtpu_kernels::special::{self, Analytic};
use torchtpu_kernels::{Element, random as kernels};
use torchtpu_stablehlo::{Direction, ElementType, ReduceKind};

/// The distribution of a [`Rejection`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Proposal {
    /// Gamma numbers with shapes of at least one.
    Gamma,
    /// Poisson counts with given rates.
    Poisson,
    /// Numbers of successes in trials with probabilities of at most a half.
    Binomial,
}

impl analytic::OfFour for Proposal {
    fn of<T: Analytic>(self, a: &T, b: &T, u: &T, v: &T) -> T {
        match self {
            Proposal::Gamma => special::gamma_proposal(a, u, v),
            Proposal::Poisson => special::poisson_proposal(a, u, v),
            Proposal::Binomial => special::binomial_proposal(a, b, u, v),
        }
    }
}

/// Numbers drawn by rejection, for each element from its own random bits.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | bits | any | `int64` (C1) |
/// | a, b | that of `bits` (C2) | `float32` or `float64` |
/// | y | that of `bits` | that of `a` |
///
/// `a` and `b` are the shape, the rate, or the number of trials and their probability. For a distribution with one
/// parameter, both are that parameter. They must be in its domain; NaN gives zero.
///
/// Bits start the sequence of SplitMix64, whose numbers are uniforms of 23 bits (`float64`: 52). It computes in the
/// dtype of `a`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rejection(pub Proposal);

/// The increment and the multipliers of SplitMix64.
const STEP: i64 = 0x9E37_79B9_7F4A_7C15_u64 as i64;
const MIX: [(i64, i64); 2] = [(30, 0xBF58_476D_1CE4_E5B9_u64 as i64), (27, 0x94D0_49BB_1331_11EB_u64 as i64)];
const LAST: i64 = 31;

/// Number of bits of a uniform, for `f64` or not.
const fn uniform_bits(wide: bool) -> i64 {
    if wide { 52 } else { 23 }
}

fn mixed(mut z: i64) -> i64 {
    for (shift, factor) in MIX {
        z = (z ^ ((z as u64) >> shift) as i64).wrapping_mul(factor);
    }
    z ^ ((z as u64) >> LAST) as i64
}

fn lower_mixed(f: &mut Func, z: &Value) -> Value {
    let folded = |f: &mut Func, z: &Value, shift: i64| {
        let by = f.splat_i64(shift, z.ty());
        let high = f.binary("stablehlo.shift_right_logical", z, &by);
        f.binary("stablehlo.xor", z, &high)
    };
    let mut z = z.clone();
    for (shift, factor) in MIX {
        let factor = f.splat_i64(factor, z.ty());
        let y = folded(f, &z, shift);
        z = f.binary("stablehlo.multiply", &y, &factor);
    }
    folded(f, &z, LAST)
}

/// The middle of one of `2^bits` equal parts of the unit interval.
fn lower_uniform(f: &mut Func, z: &Value, e: ElementType) -> Value {
    let bits = uniform_bits(e == ElementType::F64);
    let z = lower_mixed(f, z);
    let by = f.splat_i64(64 - bits, z.ty());
    let high = f.binary("stablehlo.shift_right_logical", &z, &by);
    let high = f.convert(&high, e);
    let (half, width) = (f.splat(0.5, high.ty()), f.splat((-bits as f64).exp2(), high.ty()));
    let middle = f.binary("stablehlo.add", &high, &half);
    f.binary("stablehlo.multiply", &middle, &width)
}

impl Rejection {
    fn draw<T: Element>(self, bits: &[i64], a: &[T], b: &[T], y: &mut [T]) {
        let n = uniform_bits(T::DTYPE == DType::F64);
        let uniform = |z: i64| (((mixed(z) as u64) >> (64 - n)) as f64 + 0.5) * (-n as f64).exp2();
        for (((y, &z), a), b) in y.iter_mut().zip(bits).zip(a).zip(b) {
            let (a, b, mut z) = (a.to_f64(), b.to_f64(), z);
            let mut number = if a.is_nan() || b.is_nan() { 0.0 } else { f64::NAN };
            while number.is_nan() {
                let (u, v) = (z.wrapping_add(STEP), z.wrapping_add(STEP.wrapping_mul(2)));
                number = analytic::OfFour::of(self.0, &a, &b, &uniform(u), &uniform(v));
                z = v;
            }
            *y = <T as Element>::from_f64(number);
        }
    }
}

impl Op for Rejection {
    const NAME: &'static str = "rejection";
    const DIFFERENTIABLE: u64 = 0;
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (bits, a, b) = (x[0].meta(), x[1].meta(), x[2].meta());
        if bits.dtype != DType::I64 {
            return Err(Error::runtime("rejection: bits: must be int64")); // C1
        }
        if bits.dims != a.dims || bits.dims != b.dims || a.dtype != b.dtype || working(a.dtype) != a.dtype {
            return Err(Error::runtime(
                "rejection: parameters: must be of the sizes of the bits, and float32 or float64",
            )); // C2
        }
        same_device(x)?;
        Ok(*a)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let bits = x[0].to_vec::<i64>()?;
        let mut out = y[0].view_mut();
        if let Some(out) = out.as_slice_mut::<f64>() {
            self.draw(&bits, &x[1].to_vec::<f64>()?, &x[2].to_vec::<f64>()?, out);
        } else if let Some(out) = out.as_slice_mut::<f32>() {
            self.draw(&bits, &x[1].to_vec::<f32>()?, &x[2].to_vec::<f32>()?, out);
        }
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let (a, b) = (&x[1], &x[2]);
        let (nan, zero) = (f.splat(f64::NAN, &y[0].ty()), f.splat(0.0, &y[0].ty()));
        let is_number = |f: &mut Func, v: &Value| f.compare(Direction::Eq, v, v);
        let (a_is, b_is) = (is_number(f, a), is_number(f, b));
        let both = f.binary("stablehlo.and", &a_is, &b_is);
        let none = f.select(&both, &nan, &zero);
        let all: Vec<usize> = (0..a.rank()).collect();
        let result = f.while_loop(
            &[x[0].clone(), none],
            |f, carried| {
                let open = f.compare(Direction::Ne, &carried[1], &carried[1]);
                f.reduce(&open, ReduceKind::Or, &all)
            },
            |f, carried| {
                let step = f.splat_i64(STEP, carried[0].ty());
                let first = f.binary("stablehlo.add", &carried[0], &step);
                let second = f.binary("stablehlo.add", &first, &step);
                let (u, v) = (lower_uniform(f, &first, a.element()), lower_uniform(f, &second, a.element()));
                let tried = analytic::quaternary(f, self.0, a, b, &u, &v);
                let done = is_number(f, &carried[1]);
                vec![second, f.select(&done, &carried[1], &tried)]
            },
        );
        smallvec![result[1].clone()]
    }
    fn vjp(&self, _: &Saved<'_>, _: &Tensor) -> Result<Grads> {
        Ok(smallvec![None, None, None]) // `Pathwise` differentiates
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// `-(dF/da) / (dF/dx) / (1 - x)`, a factor of a gradient. `F` is the distribution function of an entry `x` of a
/// Dirichlet draw, `a` is its concentration, and `total` is the sum of all concentrations.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x, a, total | broadcast | `float32` or `float64` (C1), one for all (C2) |
/// | y | broadcast | that of `x` |
///
/// It is computed in `float64`, to about ten digits, and to six if `a` and `total - a` exceed a million.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DirichletGrad;

/// Like [`Proposal`], with three operands.
struct DirichletSlope;
impl analytic::OfThree for DirichletSlope {
    fn of<T: Analytic>(self, x: &T, a: &T, total: &T) -> T {
        special::dirichlet_slope(x, a, total)
    }
}

impl Op for DirichletGrad {
    const NAME: &'static str = "_dirichlet_grad";
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let dtype = x[0].dtype();
        refuse_other(dtype, "_dirichlet_grad_cpu")?; // C1
        for t in x {
            if t.dtype() != dtype {
                return Err(mismatch(t.dtype(), dtype)); // C2
            }
        }
        let dims = broadcast_dims(&broadcast_dims(x[0].dims(), x[1].dims())?, x[2].dims())?;
        Ok(Meta { dims, dtype, place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let dims = y[0].dims();
        let strides: Vec<_> = x.iter().map(|t| broadcast_strides(t, dims)).collect();
        let of = |i: usize| x[i].view_as(dims, &strides[i]);
        kernels::dirichlet_grad(&of(0), &of(1), &of(2), &mut y[0].view_mut()).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let [x, a, total] = std::array::from_fn(|i| {
            let v = f.broadcast_to(&x[i], &y[0].dims);
            f.convert(&v, ElementType::F64)
        });
        let slope = analytic::ternary(f, DirichletSlope, &x, &a, &total);
        smallvec![f.convert(&slope, y[0].ty().element)]
    }
    fn vjp(&self, _: &Saved<'_>, _: &Tensor) -> Result<Grads> {
        Err(Error::runtime("derivative for aten::_dirichlet_grad is not implemented"))
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Draws that depend on their parameter: the value is `y`, whose gradient reaches `a`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | any | floating point |
/// | y | that of `a` | that of `a` |
///
/// For gamma numbers, `ga = g _standard_gamma_grad(a, y)`. For Dirichlet draws, `ga = slope (g - sum(y g))` along the
/// last dimension, with the `slope` of [`DirichletGrad`]. Saved for backward: `a` and `y`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pathwise {
    /// Gamma numbers.
    Gamma,
    /// Dirichlet draws.
    Dirichlet,
}

impl Op for Pathwise {
    const NAME: &'static str = "pathwise";
    fn label(&self) -> &'static str {
        match self {
            Pathwise::Gamma => "standard_gamma",
            Pathwise::Dirichlet => "sample_dirichlet",
        }
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(*x[1].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b10])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        torchtpu_kernels::copy::copy(&x[1].view(), &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, _: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        smallvec![x[1].clone()]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let (a, y) = (s.x(0), s.x(1));
        let ga = match self {
            Pathwise::Gamma => arith(BinaryKind::GammaSlope, Operand::Tensor(a), Operand::Tensor(y))?.mul(g)?,
            Pathwise::Dirichlet => {
                let slope = dirichlet_grad(y, a, &a.sum_dim(&[-1], true)?)?;
                slope.mul(&g.sub(&y.mul(g)?.sum_dim(&[-1], true)?)?)?
            }
        };
        Ok(smallvec![Some(ga), None])
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::inputs(if needs & 1 != 0 { 0b11 } else { 0 })
    }
}

/// Draw with the gradient for the parameter, if that is wanted.
fn with_gradient(kind: Pathwise, a: &Tensor, y: Tensor) -> Result<Tensor> {
    if graph::may_need_grad(&[a]) { dispatch::call(Prim::Pathwise(kind), &[a, &y]) } else { Ok(y) }
}

fn refuse_other(dtype: DType, kernel: &str) -> Result<()> {
    if matches!(dtype, DType::F32 | DType::F64) {
        return Ok(());
    }
    Err(crate::ops::complex::unsupported(kernel, dtype))
}

fn mismatch(found: DType, expected: DType) -> Error {
    Error::runtime(format!("Found dtype {} but expected {}", found.scalar_type(), expected.scalar_type()))
}

/// A new tensor of draws, by a kernel on `cpu`, else recorded.
fn drawn(
    meta: &Meta,
    generator: Option<&Generator>,
    kernel: impl FnOnce(
        &mut torchtpu_kernels::random::Generator,
        &mut torchtpu_kernels::ViewMut<'_>,
    ) -> std::result::Result<(), torchtpu_kernels::KernelError>,
    record: impl FnOnce(&Generator) -> Result<Tensor>,
) -> Result<Tensor> {
    state::no_grad(|| match meta.place.held() {
        Held::Abstract => Tensor::empty(meta),
        Held::Memory => {
            let y = Tensor::empty(meta)?;
            with(generator, Place::CPU, |g| g.draw(|g| kernel(g, &mut y.view_mut()))?.map_err(kernel_error))?;
            Ok(y)
        }
        Held::Handle => with(generator, meta.place, record),
    })
}

/// Draw on a device, from parameters of `float32` or `float64`.
fn tried(kind: Proposal, a: &Tensor, b: &Tensor, g: &Generator) -> Result<Tensor> {
    let bits = g.bits(*a.dims(), true, a.place())?;
    dispatch::call(Prim::Rejection(Rejection(kind)), &[&bits, a, b])
}

/// `torch.poisson`: counts with the rates in a tensor, in its dtype.
///
/// # Errors
/// `NotImplemented` for a tensor that is not floating point; `Runtime` for a rate that is negative or NaN, or a
/// generator of another device.
pub fn poisson(rate: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let dtype = rate.dtype();
    if !dtype.is_float() {
        let named = if dtype.is_complex() { dtype } else { DType::I64 };
        return Err(crate::ops::complex::unsupported("poisson_cpu", named));
    }
    let x = rate.detach();
    let record = |g: &Generator| {
        let w = x.to_dtype(working(dtype))?;
        let bad = w.ge_scalar(0.0)?.logical_not()?;
        let error = Error::runtime("invalid Poisson rate, expected rate to be non-negative").in_op("poisson");
        let w = crate::ops::indexing::defer(&bad, error)?.tied(&w)?;
        let w = select_scalar(&bad, 0.0, &w)?.minimum_scalar(1e30)?;
        tried(Proposal::Poisson, &w, &w, g)?.to_dtype(dtype)
    };
    let y = drawn(x.meta(), generator, |g, y| kernels::poisson(g, &x.view(), y), record)?;
    independent_of(rate, y)
}

/// `torch.binomial`: successes in `count` trials that succeed with probability `prob`. Operands broadcast and get no
/// gradient.
///
/// # Errors
/// `Value` for counts that are not floating point, `NotImplemented` for 16-bit ones; `Runtime` for two dtypes, or a
/// generator of another device.
pub fn binomial(count: &Tensor, prob: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let dtype = count.dtype();
    for (x, what) in [(count, "count"), (prob, "prob")] {
        if !x.dtype().is_float() {
            let name = x.dtype().scalar_type();
            return Err(Error::value(format!("binomial only supports floating-point dtypes for {what}, got: {name}")));
        }
    }
    if prob.dtype() != dtype {
        return Err(mismatch(prob.dtype(), dtype));
    }
    refuse_other(dtype, "binomial_cpu")?;
    let dims = broadcast_dims(count.dims(), prob.dims())?;
    let meta = Meta { dims, dtype, place: same_device(&[count, prob])? };
    let (n, p) = (count.detach(), prob.detach());
    let record = |g: &Generator| {
        let sizes: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
        let (n, p) = (n.expand(&sizes)?, p.expand(&sizes)?);
        let none = n.le_scalar(0.0)?.logical_or(&p.le_scalar(0.0)?)?;
        let all = p.ge_scalar(1.0)?;
        let certain = none.logical_or(&all)?;
        // Count failures if they are rarer than successes.
        let flip = p.gt_scalar(0.5)?;
        let rarer = select(&flip, &p.neg()?.add_scalar(1.0)?, &p)?;
        let (n1, p1) = (select_scalar(&certain, 1.0, &n)?, select_scalar(&certain, 0.25, &rarer)?);
        let k = tried(Proposal::Binomial, &n1, &p1, g)?;
        let k = select(&flip, &n.sub(&k)?, &k)?;
        let k = select(&all, &n, &k)?;
        let k = select_scalar(&none, 0.0, &k)?;
        select_scalar(&n.isnan()?.logical_or(&p.isnan()?)?, f64::NAN, &k)
    };
    drawn(
        &meta,
        generator,
        |g, y| {
            let (ns, ps) = (broadcast_strides(&n, &dims), broadcast_strides(&p, &dims));
            kernels::binomial(g, &n.view_as(&dims, &ns), &p.view_as(&dims, &ps), y)
        },
        record,
    )
}

/// Gamma numbers of shapes of any size, on a device.
fn recorded_gamma(shape: &Tensor, g: &Generator) -> Result<Tensor> {
    let dtype = shape.dtype();
    // A number of a shape below one is one of the shape plus one, times a power of a uniform.
    let small = shape.lt_scalar(1.0)?;
    let a = select(&small, &shape.add_scalar(1.0)?, shape)?.maximum_scalar(1.0)?;
    let y = tried(Proposal::Gamma, &a, &a, g)?;
    let source = Source { generator: g, dims: *shape.dims(), place: shape.place() };
    let log = source.unit(dtype)?.neg()?.log1p()?;
    let boosted = y.mul(&log.div(shape)?.exp()?)?;
    let least = if dtype == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let y = select(&small, &boosted, &y)?;
    // A zero or negative shape gives the smallest number, as a very small shape does.
    let above = y.gt_scalar(least)?.logical_and(&shape.gt_scalar(0.0)?)?;
    select_scalar(&above.logical_not()?, least, &y)
}

/// `torch._standard_gamma`: gamma numbers with the shapes in a tensor, and scale one. They have a gradient.
///
/// # Errors
/// `NotImplemented` for another dtype than `float32` and `float64`; `Runtime` for a generator of another device.
pub fn standard_gamma(shape: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    refuse_other(shape.dtype(), "gamma_cpu")?;
    let x = shape.detach();
    let y = drawn(x.meta(), generator, |g, y| kernels::standard_gamma(g, &x.view(), y), |g| recorded_gamma(&x, g))?;
    with_gradient(Pathwise::Gamma, shape, y)
}

/// `torch._sample_dirichlet`: rows of positive numbers that sum to one, along the last dimension, with the
/// concentrations in a tensor. They have a gradient, which PyTorch gives only to `torch.distributions.Dirichlet`.
///
/// # Errors
/// `NotImplemented` for another dtype than `float32` and `float64`; `Runtime` for a generator of another device.
pub fn sample_dirichlet(concentration: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let dtype = concentration.dtype();
    refuse_other(dtype, "dirichlet")?;
    let x = concentration.detach();
    let record = |g: &Generator| {
        // Small concentrations give numbers too small for `float32`.
        let gammas = recorded_gamma(&x.to_dtype(DType::F64)?, g)?;
        let total = if x.dims().is_empty() { gammas.clone() } else { gammas.sum_dim(&[-1], true)? };
        let (least, most) = match dtype {
            DType::F64 => (f64::MIN_POSITIVE, 1.0 - f64::EPSILON / 2.0),
            _ => (f64::from(f32::MIN_POSITIVE), 1.0 - f64::from(f32::EPSILON) / 2.0),
        };
        gammas.div(&total)?.to_dtype(dtype)?.maximum_scalar(least)?.minimum_scalar(most)
    };
    let y = drawn(x.meta(), generator, |g, y| kernels::sample_dirichlet(g, &x.view(), y), record)?;
    with_gradient(Pathwise::Dirichlet, concentration, y)
}

/// `torch._dirichlet_grad`: see [`DirichletGrad`].
///
/// # Errors
/// `NotImplemented` for another dtype than `float32` and `float64`; `Runtime` for several dtypes.
pub fn dirichlet_grad(x: &Tensor, a: &Tensor, total: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::DirichletGrad(DirichletGrad), &[x, a, total])
}

fn rates() -> Vec<Sample> {
    vec![Sample::new(vec![positive(&[4, 5])]).random()]
}
fn trials() -> Vec<Sample> {
    vec![Sample::new(vec![positive(&[4, 5]), probability(&[5])]).random()]
}
fn entries() -> Vec<Sample> {
    let of = |dims: &[usize]| vec![probability(dims), probability(&[4]), positive(dims)];
    vec![Sample::new(of(&[3, 4])).no_gradient().dtypes(&[DType::F32, DType::F64])]
}

fn slopes() -> Vec<Sample> {
    vec![
        Sample::new(vec![positive(&[2, 3]), positive(&[3])]).no_gradient().dtypes(&[DType::F32, DType::F64]),
        Sample::new(vec![probability(&[4]), positive(&[4])]).no_gradient().dtypes(&[DType::F64]),
    ]
}

/// Rows of the functions that draw by rejection.
pub const ROWS: &[Row] = &[
    Row::new(
        "poisson(Tensor self, Generator? generator=None) -> Tensor",
        Tier::Composed,
        |a| Ok(poisson(a.tensor(0)?, a.opt_generator(1)?)?.into()),
        rates,
    )
    .doc(
        "Return a count of the Poisson distribution for each rate in `input`, in its dtype. `input` is floating \
         point, and a negative rate or NaN raises `RuntimeError`. The gradient for `input` is zero.",
    )
    .scope(crate::schema::Scope::Function)
    .no_out(),
    Row::new(
        "binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
        Tier::Composed,
        |a| Ok(binomial(a.tensor(0)?, a.tensor(1)?, a.opt_generator(2)?)?.into()),
        trials,
    )
    .doc(
        "Return the number of successes in `count` trials that succeed with probability `prob`. The operands \
         broadcast, and are `float32` or `float64` of one dtype. No gradient reaches the operands.",
    )
    .scope(crate::schema::Scope::Function)
    .no_out(),
    Row::new(
        "_standard_gamma(Tensor self, Generator? generator=None) -> Tensor",
        Tier::Composed,
        |a| Ok(standard_gamma(a.tensor(0)?, a.opt_generator(1)?)?.into()),
        rates,
    )
    .doc(
        "Return a number of the gamma distribution of scale 1 for each shape parameter in `input`, `float32` or \
         `float64`, with a gradient for it.",
    )
    .scope(crate::schema::Scope::Function)
    .no_out(),
    Row::new(
        "_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor",
        Tier::Composed,
        |a| Ok(sample_dirichlet(a.tensor(0)?, a.opt_generator(1)?)?.into()),
        rates,
    )
    .doc(
        "Return draws of the Dirichlet distributions whose concentrations the rows of `input` hold: positive rows \
         that sum to 1, with a gradient for `input`.",
    )
    .scope(crate::schema::Scope::Function)
    .no_out(),
    Row::new(
        "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
        Tier::Prim,
        |a| Ok(arith(BinaryKind::GammaSlope, a.operand(0)?, a.operand(1)?)?.into()),
        slopes,
    )
    .doc("Return the derivative of the draws `output` of `torch._standard_gamma` by their shape parameters `input`.")
    .scope(crate::schema::Scope::Function)
    .no_out(),
    Row::new(
        "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor",
        Tier::Prim,
        |a| Ok(dirichlet_grad(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?)?.into()),
        entries,
    )
    .doc(
        "Return the factor `-(dF/dalpha) / (dF/dx) / (1 - x)` of the gradient of Dirichlet draws, where `F` is the \
         distribution function of one entry `x`.",
    )
    .scope(crate::schema::Scope::Function)
    .no_out(),
];
