//! Random numbers: `RandomBits`, and the distributions composed of it.
//!
//! On `cpu` every function draws PyTorch's stream bit for bit, in kernels that need no node of a trace. On `tpu` bits
//! come from a counter-based generator, and recorded ops turn them into a distribution, so that one trace serves every
//! seed.
//!
//! Rows of this family have no samples: two devices draw different numbers, so there is nothing to compare. Their tests
//! are `tests/random.rs`.

mod bits;
mod distribution;
mod rejection;

pub use bits::RandomBits;
pub use distribution::Distribution;
pub(super) use distribution::largest;
use distribution::{Source, digits, working};
pub use rejection::{DirichletGrad, Pathwise, Proposal, ROWS as REJECTION_ROWS, Rejection};

use crate::ops::creation::sizes;
use crate::ops::pointwise::{self, kernel_error};
use crate::random::{Generator, default_generator};
use crate::schema::{
    Args, Operand, OutDType, OutShape, Ret, Row, Sample, SampleArg, Scope, Tier, ints, messages, n, positive,
    probability, t,
};
use crate::{
    DType, Dims, Error, Held, MemoryFormat, Meta, Place, Result, Scalar, Tensor, default_dtype, inplace, state,
};
use torchtpu_kernels::random as kernels;

fn with<R>(generator: Option<&Generator>, place: Place, f: impl FnOnce(&Generator) -> Result<R>) -> Result<R> {
    match generator {
        Some(g) => f(g),
        None => f(&default_generator(place)),
    }
}

/// A new tensor of random numbers.
///
/// # Errors
/// `Runtime` for wrong arguments, or a generator of another device.
pub fn sample(d: Distribution, meta: &Meta, generator: Option<&Generator>) -> Result<Tensor> {
    if meta.dtype.is_complex() {
        // A complex number is a pair of real numbers.
        let (parts, shift) = d.of_parts(meta.dtype)?;
        let numbers = meta.with_dims(Dims::new(&[meta.numel(), 2])).with_dtype(meta.dtype.to_real());
        let y = sample(parts, &numbers, generator)?.view_as_complex()?.view_dims(meta.dims)?.detach();
        return if shift == 0.0 { Ok(y) } else { y.add_scalar(shift) };
    }
    if meta.dtype.is_stored() {
        if meta.dtype.is_float8() || !matches!(d, Distribution::Integers(..)) {
            return Err(crate::ops::complex::unsupported("random_update_from_to", meta.dtype));
        }
        d.check_bounds(meta.dtype)?;
        return sample(d, &meta.with_dtype(DType::I64), generator)?.to_dtype(meta.dtype);
    }
    match meta.place.held() {
        Held::Memory => {
            let y = Tensor::empty(meta)?;
            draw_into(d, &y, generator)?;
            Ok(y)
        }
        Held::Abstract => {
            d.check(meta.dtype)?;
            Tensor::empty(meta)
        }
        Held::Handle => {
            d.check(meta.dtype)?;
            with(generator, meta.place, |g| state::no_grad(|| d.record(meta, g)))
        }
    }
}

/// Write random numbers over a `cpu` tensor.
fn draw_into(d: Distribution, x: &Tensor, generator: Option<&Generator>) -> Result<()> {
    d.check_bounds(x.dtype())?;
    with(generator, Place::CPU, |g| g.draw(|g| d.fill(g, &mut x.view_mut()))?.map_err(kernel_error))
}

/// Overwrite a tensor with random numbers, as `uniform_` and similar functions do. Its history ends.
///
/// # Errors
/// `Runtime` for wrong arguments, a generator of another device, or a leaf that requires a gradient.
pub fn fill(d: Distribution, x: &Tensor, generator: Option<&Generator>) -> Result<()> {
    inplace::check_writable(x)?;
    let tracked = state::grad_enabled() && (x.requires_grad() || x.view_info().is_some_and(|v| v.base.requires_grad()));
    if x.dtype().is_rare() || x.is_lazy() {
        return inplace::assign(x, &sample(d, x.meta(), generator)?);
    }
    if x.place().in_memory() && !tracked {
        draw_into(d, x, generator)?;
        x.bump_version();
        return Ok(());
    }
    inplace::assign(x, &sample(d, x.meta(), generator)?)
}

/// A new `cpu` tensor with the memory layout of `x`, because fills follow memory.
fn empty_like(x: &Tensor, dtype: DType) -> Result<Tensor> {
    Tensor::empty_with(&Meta { dims: *x.dims(), dtype, place: Place::CPU }, crate::strides::preserved(x))
}

/// Random numbers in a tensor like another, in a memory format if one is given.
fn sample_like(
    d: Distribution,
    x: &Tensor,
    dtype: DType,
    place: Place,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let strides = format.unwrap_or(MemoryFormat::Preserve).strides_like(x)?;
    let meta = Meta { dims: *x.dims(), dtype, place };
    if place.in_memory() && !dtype.is_rare() {
        let y = Tensor::empty_with(&meta, strides)?;
        draw_into(d, &y, None)?;
        return Ok(y);
    }
    let y = sample(d, &meta, None)?;
    if *y.strides() == strides { Ok(y) } else { y.copy_strided(strides) }
}

/// The elements that dropout keeps: each is `true` with a probability. On `cpu` this is PyTorch's stream; a probability
/// of 0 or 1 draws nothing.
///
/// # Errors
/// `Runtime` for a probability outside `[0, 1]`, or a generator of another device.
pub fn keep_mask(meta: &Meta, keep_probability: f64, generator: Option<&Generator>) -> Result<Tensor> {
    if !(0.0..=1.0).contains(&keep_probability) {
        return Err(Error::value(format!(
            "dropout probability has to be between 0 and 1, but got {}",
            1.0 - keep_probability
        )));
    }
    let meta = meta.with_dtype(DType::Bool);
    if keep_probability == 0.0 || keep_probability == 1.0 {
        return Tensor::full_meta(&meta, Scalar::Bool(keep_probability == 1.0));
    }
    sample(Distribution::Bernoulli(keep_probability), &meta, generator)
}

/// [`keep_mask`] by the default generator for the elements of a tensor. On `cpu` they are drawn in their order in
/// memory.
///
/// # Errors
/// The errors of [`keep_mask`].
pub fn keep_mask_like(x: &Tensor, keep_probability: f64) -> Result<Tensor> {
    if x.is_plain() || !(0.0 < keep_probability && keep_probability < 1.0) {
        return keep_mask(x.meta(), keep_probability, None);
    }
    sample_like(Distribution::Bernoulli(keep_probability), x, DType::Bool, x.place(), None)
}

/// A random order of `0..n`.
///
/// # Errors
/// `Runtime` for a negative number, or a generator of another device.
pub fn randperm(n: i64, dtype: DType, device: impl Into<Place>, generator: Option<&Generator>) -> Result<Tensor> {
    let place = device.into();
    if n < 0 {
        return Err(Error::runtime(format!("Trying to create tensor with negative dimension {n}: [{n}]")));
    }
    if dtype.is_complex() {
        return Err(super::complex::unsupported("randperm", dtype));
    }
    let limit = if dtype.is_float() { 1i64 << digits(dtype) } else { largest(dtype) };
    if n - 1 > limit {
        return Err(Error::runtime(format!("n is too large for result tensor type: '{}'", dtype.scalar_type())));
    }
    let meta = Meta::new(&[n as usize], dtype, place);
    match place.held() {
        Held::Abstract => Tensor::empty(&meta),
        Held::Memory => {
            let y = Tensor::empty(&meta)?;
            with(generator, place, |g| g.draw(|g| kernels::randperm(g, &mut y.view_mut())))?;
            Ok(y)
        }
        // The order of 64-bit random numbers, which do not collide in practice.
        Held::Handle => with(generator, place, |g| {
            let keys = g.bits(meta.dims, true, place)?;
            super::sort::sort(&keys, 0, false, false)?.1.to_dtype(dtype)
        }),
    }
}

/// Ones, drawn with the probabilities that a tensor holds.
fn bernoulli_into(y: &Tensor, p: &Tensor, generator: Option<&Generator>) -> Result<()> {
    let strides = pointwise::broadcast_strides(p, y.dims());
    with(generator, Place::CPU, |g| {
        g.draw(|g| kernels::bernoulli_tensor(g, &mut y.view_mut(), &p.view_as(y.dims(), &strides)))?
            .map_err(kernel_error)
    })
}

fn bernoulli_of(p: &Tensor, meta: &Meta, generator: Option<&Generator>) -> Result<Tensor> {
    let p = &p.expand(&meta.dims.iter().map(|&n| n as i64).collect::<Vec<_>>())?;
    if meta.dtype.is_complex() {
        return Err(super::complex::unsupported("bernoulli_tensor_cpu_self_", meta.dtype));
    }
    if !p.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "\"bernoulli_tensor_cpu_p_\" not implemented for '{}'",
            p.dtype().scalar_type()
        )));
    }
    state::no_grad(|| match meta.place.held() {
        Held::Memory => {
            let y = Tensor::empty(meta)?;
            bernoulli_into(&y, p, generator)?;
            Ok(y)
        }
        Held::Abstract => Tensor::empty(meta),
        Held::Handle => {
            let bad = p.ge_scalar(0.0)?.logical_and(&p.le_scalar(1.0)?)?.logical_not()?;
            let error = Error::runtime("Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
            let p = super::indexing::defer(&bad, error.in_op("bernoulli"))?.tied(p)?;
            with(generator, meta.place, |g| {
                let s = Source { generator: g, dims: meta.dims, place: meta.place };
                s.unit(DType::F32)?.lt(&p.to_dtype(DType::F32)?)?.to_dtype(meta.dtype)
            })
        }
    })
}

/// `torch.bernoulli`: ones, drawn with the probabilities in `p`.
///
/// # Errors
/// `Runtime` for a probability outside `[0, 1]` or an integer tensor.
pub fn bernoulli(p: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    if p.place().in_memory() && p.dtype().is_float() {
        let y = empty_like(p, p.dtype())?;
        bernoulli_into(&y, p, generator)?;
        return Ok(y);
    }
    bernoulli_of(p, p.meta(), generator)
}

/// `torch.multinomial`: positions drawn by weight from each row.
///
/// # Errors
/// `Runtime` for weights that are no distribution, or more draws than a row has.
pub fn multinomial(x: &Tensor, draws: i64, replacement: bool, generator: Option<&Generator>) -> Result<Tensor> {
    let r = x.dims().len();
    if r == 0 || r > 2 {
        return Err(Error::runtime("prob_dist must be 1 or 2 dim"));
    }
    if !x.dtype().is_float() {
        return Err(Error::runtime(format!(
            "multinomial only supports floating-point dtypes for input, got: {}",
            x.dtype().scalar_type()
        )));
    }
    if draws <= 0 {
        return Err(Error::runtime("cannot sample n_sample <= 0 samples"));
    }
    let categories = x.dims()[r - 1];
    if !replacement && draws as usize > categories {
        return Err(Error::runtime("cannot sample n_sample > prob_dist.size(-1) samples without replacement"));
    }
    if categories > 1 << 24 {
        return Err(Error::runtime("number of categories cannot exceed 2^24"));
    }
    let mut dims = *x.dims();
    dims.set(r - 1, draws as usize);
    let meta = Meta { dims, dtype: DType::I64, place: x.place() };
    let x = x.detach();
    state::no_grad(|| match x.place().held() {
        Held::Abstract => Tensor::empty(&meta),
        Held::Memory => {
            let y = Tensor::empty(&meta)?;
            with(generator, Place::CPU, |g| {
                g.draw(|g| kernels::multinomial(g, &x.view(), replacement, &mut y.view_mut()))?.map_err(kernel_error)
            })?;
            Ok(y)
        }
        Held::Handle => {
            let w = x.to_dtype(working(x.dtype()))?;
            let bad = w.ge_scalar(0.0)?.logical_and(&w.isfinite()?)?.logical_not()?;
            let error = Error::runtime("probability tensor contains either `inf`, `nan` or element < 0");
            let w = super::indexing::defer(&bad, error.in_op("multinomial"))?.tied(&w)?;
            let total = super::scan::cumsum(&w, -1)?;
            let all = total.narrow(r as i64 - 1, categories as i64 - 1, 1)?;
            let error = Error::runtime("invalid multinomial distribution (sum of probabilities <= 0)");
            let w = super::indexing::defer(&all.le_scalar(0.0)?, error.in_op("multinomial"))?.tied(&w)?;
            let total = super::scan::cumsum(&w, -1)?;
            let all = total.narrow(r as i64 - 1, categories as i64 - 1, 1)?;
            with(generator, meta.place, |g| {
                if replacement {
                    let s = Source { generator: g, dims, place: meta.place };
                    let at = super::sort::searchsorted(&total, &s.unit(w.dtype())?.mul(&all)?, true, false, None)?;
                    return at.minimum_scalar(categories as i64 - 1);
                }
                // A race: the first k of exponential arrival times are k draws without replacement.
                let s = Source { generator: g, dims: *w.dims(), place: meta.place };
                let times = s.unit(w.dtype())?.neg()?.log1p()?.neg()?;
                Ok(super::sort::topk(&w.div(&times)?, draws, -1, true, true)?.1)
            })
        }
    })
}

/// `torch.normal` with tensors of means, of standard deviations, or both. The gradients of mean and deviation are zero.
fn drawn_normal(a: &Args<'_>) -> Result<Ret> {
    let mut y = normal_of(a.operand(0)?, a.operand(1)?, a.opt_generator(2)?)?;
    for x in [a.operand(0)?, a.operand(1)?] {
        if let Operand::Tensor(x) = x {
            y = pointwise::independent_of(x, y)?;
        }
    }
    Ok(y.into())
}

fn normal_of(mean: Operand<'_>, std: Operand<'_>, generator: Option<&Generator>) -> Result<Tensor> {
    let draw = |x: &Tensor, dims: Dims, std: f64| {
        let dtype = x.dtype();
        if !dtype.is_float() {
            return Err(Error::not_implemented(format!(
                "\"normal_kernel_cpu\" not implemented for '{}'",
                dtype.scalar_type()
            )));
        }
        sample(Distribution::Normal(0.0, std), &x.meta().with_dims(dims), generator)
    };
    let checked = |s: &Tensor| -> Result<Tensor> {
        let bad = s.detach().lt_scalar(0.0)?;
        let error = || Error::runtime("normal expects all elements of std >= 0.0");
        match s.place().held() {
            Held::Handle => super::indexing::defer(&bad, error())?.tied(s),
            Held::Memory if torchtpu_kernels::index::count_nonzero(&bad.view()) > 0 => Err(error()),
            _ => Ok(s.clone()),
        }
    };
    state::no_grad(|| match (mean, std) {
        (Operand::Tensor(m), Operand::Scalar(s)) => draw(m, *m.dims(), s.to_f64())?.add(m),
        (Operand::Scalar(m), Operand::Tensor(s)) => {
            let s = &checked(s)?;
            draw(s, *s.dims(), 1.0)?.mul(s)?.add_scalar(m.to_f64())
        }
        (Operand::Tensor(m), Operand::Tensor(s)) => {
            let s = &checked(s)?;
            let dims = crate::op::broadcast_dims(m.dims(), s.dims())?;
            draw(m, dims, 1.0)?.mul(s)?.add(m)
        }
        (Operand::Scalar(m), Operand::Scalar(s)) => sample(
            Distribution::Normal(m.to_f64(), s.to_f64()),
            &Meta { dims: Dims::EMPTY, dtype: default_dtype(), place: Place::CPU },
            generator,
        ),
    })
}

// ------------------------------------------------------------------------------------------------ the public functions

/// New random numbers. The sizes are argument `at`, and `dtype, layout, device, pin_memory` start at `options`.
fn new(d: Distribution, a: &Args<'_>, at: usize, options: usize, generator: Option<usize>) -> Result<Ret> {
    let integers = matches!(d, Distribution::Integers(..));
    let dtype = if integers {
        super::indexing::long_or(a, options)?
    } else {
        a.opt_dtype(options)?.unwrap_or_else(default_dtype)
    };
    let place = a.opt_device(options + 2)?.unwrap_or(Place::CPU);
    let g = generator.map(|i| a.opt_generator(i)).transpose()?.flatten();
    Ok(sample(d, &Meta { dims: sizes(a.ints(at)?)?, dtype, place }, g)?.into())
}

/// Random numbers like the tensor at argument 0. `dtype, layout, device` start at `options`.
fn like(d: Distribution, a: &Args<'_>, options: usize) -> Result<Ret> {
    let x = a.tensor(0)?;
    let dtype = a.opt_dtype(options)?.unwrap_or(x.dtype());
    let place = a.opt_device(options + 2)?.unwrap_or(x.place());
    Ok(sample_like(d, x, dtype, place, a.memory_format(options + 4)?)?.into())
}

/// The in-place methods: fill argument 0 and return it.
fn over(d: Distribution, a: &Args<'_>, generator: usize) -> Result<Ret> {
    let x = a.tensor(0)?;
    fill(d, x, a.opt_generator(generator)?)?;
    Ok(Ret::Tensor(x.clone()))
}

/// A function that makes tensors.
const fn maker(schema: &'static str, call: crate::schema::Call, samples: fn() -> Vec<Sample>) -> Row {
    Row::new(schema, Tier::Composed, call, samples).scope(Scope::Function)
}
/// A method that writes its tensor.
const fn writer(schema: &'static str, call: crate::schema::Call, samples: fn() -> Vec<Sample>) -> Row {
    Row::new(schema, Tier::Composed, call, samples).scope(Scope::Method).no_out()
}

/// One sample with a random result.
fn one(args: Vec<SampleArg>) -> Vec<Sample> {
    vec![Sample::new(args).random()]
}
fn sized() -> Vec<Sample> {
    one(vec![ints(&[4, 5])])
}
fn bounded() -> Vec<Sample> {
    one(vec![n(100), ints(&[4, 5])])
}
fn between() -> Vec<Sample> {
    one(vec![n(-50), n(50), ints(&[4, 5])])
}
fn counted() -> Vec<Sample> {
    one(vec![n(20)])
}
fn alike() -> Vec<Sample> {
    one(vec![t(&[4, 5])])
}
fn alike_bounded() -> Vec<Sample> {
    one(vec![t(&[4, 5]), n(100)])
}
fn alike_between() -> Vec<Sample> {
    one(vec![t(&[4, 5]), n(-50), n(50)])
}
fn chances() -> Vec<Sample> {
    one(vec![probability(&[8, 8])])
}
fn alike_with_chance() -> Vec<Sample> {
    one(vec![t(&[8, 8]), n(0.5)])
}
fn weights() -> Vec<Sample> {
    one(vec![positive(&[3, 40]), n(10)])
}
fn means() -> Vec<Sample> {
    one(vec![t(&[4, 5]), n(2.0)])
}
fn deviations() -> Vec<Sample> {
    one(vec![n(1.0), positive(&[4, 5])])
}
fn means_and_deviations() -> Vec<Sample> {
    one(vec![t(&[4, 5]), positive(&[5])])
}
fn numbers_and_size() -> Vec<Sample> {
    one(vec![n(1.0), n(2.0), ints(&[4, 5])])
}
fn many_of_chance() -> Vec<Sample> {
    one(vec![t(&[8, 8]), n(0.25)])
}
fn with_chances() -> Vec<Sample> {
    one(vec![t(&[8, 8]), probability(&[8, 8])])
}

const UNIT: Distribution = Distribution::Uniform(0.0, 1.0);
const STANDARD: Distribution = Distribution::Normal(0.0, 1.0);

/// Rows of the random functions.
pub const ROWS: &[Row] = &[
    maker(
        "rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        |a| new(UNIT, a, 0, 1, None),
        sized,
    )
    .doc(
        "Return numbers drawn uniformly from `[0, 1)`, in a tensor of shape `size`. `dtype` is floating point or \
         complex, the default dtype unless given. Both parts of a complex number are drawn so. `generator` is that of \
         the device unless given, which `torch.manual_seed` seeds. Equal seeds give equal numbers on one device, but \
         not on `cpu` and `tpu`.",
    )
    .out_shape(OutShape::Resized),
    maker(
        "rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        |a| new(UNIT, a, 0, 2, Some(1)),
        sized,
    )
    .out_shape(OutShape::Resized),
    maker(
        "randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        |a| new(STANDARD, a, 0, 1, None),
        sized,
    )
    .doc(
        "Return numbers of the standard normal distribution, in a tensor of shape `size`. `dtype` is floating point \
         or complex, the default dtype unless given. A complex number has variance 1 in all, half of it in each part. \
         `generator` is that of the device unless given.",
    )
    .out_shape(OutShape::Resized),
    maker(
        "randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        |a| new(STANDARD, a, 0, 2, Some(1)),
        sized,
    )
    .out_shape(OutShape::Resized),
    maker(
        "randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, \
        bool? pin_memory=None) -> Tensor",
        |a| new(Distribution::Integers(0, a.int(0)?), a, 1, 2, None),
        bounded,
    )
    .doc(
        "Return integers drawn uniformly from `low` (0 unless given) to `high - 1`, in a tensor of shape `size`. The \
         dtype is `int64` unless given, and may be floating point. An empty range, or bounds that the dtype does not \
         hold, raise `RuntimeError`.",
    )
    .out_shape(OutShape::Resized),
    maker(
        "randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=long, Layout? \
        layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        |a| new(Distribution::Integers(0, a.int(0)?), a, 1, 3, Some(2)),
        bounded,
    )
    .out_shape(OutShape::Resized),
    maker(
        "randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=long, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        |a| new(Distribution::Integers(a.int(0)?, a.int(1)?), a, 2, 3, None),
        between,
    )
    .out_shape(OutShape::Resized),
    maker(
        "randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ScalarType? \
        dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        |a| new(Distribution::Integers(a.int(0)?, a.int(1)?), a, 2, 4, Some(3)),
        between,
    )
    .out_shape(OutShape::Resized),
    maker(
        "randperm(SymInt n, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        |a| {
            Ok(randperm(a.int(0)?, super::indexing::long_or(a, 1)?, a.opt_device(3)?.unwrap_or(Place::CPU), None)?
                .into())
        },
        counted,
    )
    .doc(
        "Return the integers 0 to `n - 1` in random order. The dtype is `int64` unless given. A dtype that does not \
         hold all of them exactly raises `RuntimeError`.",
    )
    .out_shape(OutShape::Resized),
    maker(
        "randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=long, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        |a| {
            Ok(randperm(
                a.int(0)?,
                super::indexing::long_or(a, 2)?,
                a.opt_device(4)?.unwrap_or(Place::CPU),
                a.opt_generator(1)?,
            )?
            .into())
        },
        counted,
    )
    .out_shape(OutShape::Resized),
    maker(
        "rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |a| like(UNIT, a, 1),
        alike,
    )
    .doc(
        "Return numbers drawn uniformly from `[0, 1)`, in a tensor of the shape of `input`, and of its dtype and \
         device unless others are given. `memory_format` preserves the strides of `input` unless given.",
    ),
    maker(
        "randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |a| like(STANDARD, a, 1),
        alike,
    )
    .doc(
        "Return numbers of the standard normal distribution, in a tensor of the shape of `input`, and of its dtype \
         and device unless others are given. An `input` of integers needs a floating-point `dtype`.",
    ),
    maker(
        "randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
        bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |a| like(Distribution::Integers(0, a.int(1)?), a, 2),
        alike_bounded,
    )
    .doc(
        "Return integers drawn uniformly from `low` (0 unless given) to `high - 1`, in a tensor of the shape of \
         `input`. Its dtype and device are those of `input` unless given. Bounds that the dtype does not hold raise \
         `RuntimeError`.",
    ),
    maker(
        "randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, \
        Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        |a| like(Distribution::Integers(a.int(1)?, a.int(2)?), a, 3),
        alike_between,
    ),
    Row::new(
        "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
        Tier::Composed,
        |a| Ok(pointwise::independent_of(a.tensor(0)?, bernoulli(a.tensor(0)?, a.opt_generator(1)?)?)?.into()),
        chances,
    )
    .doc(
        "Return ones and zeros in the dtype of `input`, where each element is 1 with the probability that `input` \
         holds there. If `p` is given, it is the probability for all elements. A probability outside `[0, 1]` raises \
         `RuntimeError`. Without `p`, `input` is floating point.",
    )
    .out_dtype(OutDType::CastToReal),
    Row::new(
        "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
        Tier::Composed,
        |a| Ok(sample(Distribution::Bernoulli(a.float(1)?), a.tensor(0)?.meta(), a.opt_generator(2)?)?.into()),
        alike_with_chance,
    )
    .no_out()
    .out_dtype(OutDType::CastToReal),
    Row::new(
        "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
        Tier::Composed,
        |a| Ok(multinomial(a.tensor(0)?, a.int(1)?, a.bool(2)?, a.opt_generator(3)?)?.into()),
        weights,
    )
    .doc(
        "Return `num_samples` positions drawn from each row of the weights `input` `(n, c)` or `(c,)`, as `int64` \
         `(n, num_samples)` or `(num_samples,)`. Weights are floating point and need not sum to 1. Without \
         `replacement`, each position is drawn once at most, and `num_samples` above `c` raises `RuntimeError`. So do \
         negative or infinite weights and rows that sum to 0.",
    )
    .out_dtype(OutDType::OneOf(&[DType::I64], messages::long_out)),
    maker("normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor", drawn_normal, means)
    .doc(
        "Return numbers of normal distributions with the given `mean` and standard deviation `std`. Either one is a \
         number or a tensor, and two tensors broadcast; for two numbers `size` is required. The result has the dtype \
         of `mean` where that is a tensor, else of `std`. A negative `std` raises `RuntimeError`. The gradients for \
         `mean` and `std` are zero.",
    ),
    maker(
        "normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
        drawn_normal,
        deviations,
    ),
    maker(
        "normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
        drawn_normal,
        means_and_deviations,
    ),
    maker(
        "normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? \
        dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        |a| new(Distribution::Normal(a.float(0)?, a.float(1)?), a, 2, 4, Some(3)),
        numbers_and_size,
    ),
    writer(
        "uniform_(Tensor(a!) self, float from=0, float to=1, *, Generator? generator=None) -> Tensor(a!)",
        |a| over(Distribution::Uniform(a.float(1)?, a.float(2)?), a, 3),
        alike,
    )
    .doc("Fill `self` with numbers drawn uniformly from `[from, to)`. `self` is floating point or complex."),
    writer(
        "normal_(Tensor(a!) self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor(a!)",
        |a| over(Distribution::Normal(a.float(1)?, a.float(2)?), a, 3),
        alike,
    )
    .doc(
        "Fill `self` with numbers of the normal distribution of `mean` and standard deviation `std`. `self` is \
         floating point or complex, and a negative `std` raises `RuntimeError`.",
    ),
    writer(
        "log_normal_(Tensor(a!) self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor(a!)",
        |a| over(Distribution::LogNormal(a.float(1)?, a.float(2)?), a, 3),
        alike,
    )
    .doc(
        "Fill `self` with `exp` of numbers of the normal distribution of `mean` and standard deviation `std`, which \
         must be positive. `self` is floating point.",
    ),
    writer(
        "exponential_(Tensor(a!) self, float lambd=1, *, Generator? generator=None) -> Tensor(a!)",
        |a| over(Distribution::Exponential(a.float(1)?), a, 2),
        alike,
    )
    .doc(
        "Fill `self` with numbers of the exponential distribution of rate `lambd`, whose mean is `1 / lambd`. `self` \
         is floating point, and `lambd` positive.",
    ),
    writer(
        "cauchy_(Tensor(a!) self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor(a!)",
        |a| over(Distribution::Cauchy(a.float(1)?, a.float(2)?), a, 3),
        alike,
    )
    .doc(
        "Fill `self` with numbers of the Cauchy distribution of `median` and half-width `sigma`, which must be \
         positive. `self` is floating point.",
    ),
    writer(
        "geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)",
        |a| over(Distribution::Geometric(a.float(1)?), a, 2),
        many_of_chance,
    )
    .doc(
        "Fill `self` with counts of trials up to the first success, 1 or more, where each trial succeeds with \
         probability `p`. `p` lies strictly between 0 and 1.",
    ),
    writer(
        "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
        |a| over(Distribution::Bernoulli(a.float(1)?), a, 2),
        alike,
    )
    .doc(
        "Fill `self` with ones, each with probability `p`, and zeros. `p` is a number, or a floating-point tensor \
         that broadcasts to the shape of `self`. A probability outside `[0, 1]` raises `RuntimeError`.",
    ),
    writer(
        "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)",
        |a| {
            let x = a.tensor(0)?;
            inplace::check_writable(x)?;
            inplace::check_apart(x, a.tensor(1)?)?;
            crate::op::check_same_device(x, a.tensor(1)?)?;
            inplace::assign(x, &bernoulli_of(&a.tensor(1)?.detach(), x.meta(), a.opt_generator(2)?)?)?;
            Ok(Ret::Tensor(x.clone()))
        },
        with_chances,
    ),
    writer(
        "random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)",
        |a| {
            let from = a.int(1)?;
            over(a.opt_int(2)?.map_or(Distribution::IntegersFrom(from), |to| Distribution::Integers(from, to)), a, 3)
        },
        alike_between,
    )
    .doc(
        "Fill `self` with integers drawn uniformly from `from` (0 unless given) to `to - 1`. Without `to`, they reach \
         up to the largest value of an integer dtype, and up to `2^24` for `float32`, `2^53` for `float64`, `2^11` \
         for `float16` and `2^8` for `bfloat16`.",
    ),
    writer(
        "random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)",
        |a| over(Distribution::Integers(0, a.int(1)?), a, 2),
        alike_bounded,
    ),
    writer(
        "random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)",
        |a| over(Distribution::AllIntegers, a, 1),
        alike,
    ),
];
