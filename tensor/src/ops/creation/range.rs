//! Numbers at equal distances: `arange`, `linspace` and `range`.

use super::{Iota, options, plain};
use crate::op::Prim;
use crate::schema::{Args, OutShape, Row, Scope, Tier, n};
use crate::{DType, Dims, Error, Meta, Place, Result, Scalar, Tensor, default_complex, default_dtype, dispatch};

impl Tensor {
    /// `start, start + step, ...` below `end`.
    ///
    /// # Errors
    /// `Runtime` when the bounds and the step do not agree.
    pub fn arange(start: Scalar, end: Scalar, step: Scalar, dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        let place = device.into();
        for v in [start, end, step] {
            super::check_range(v, DType::F64)?;
        }
        let (a, b, s) = (start.to_f64(), end.to_f64(), step.to_f64());
        if s == 0.0 {
            return Err(Error::runtime("step must be nonzero"));
        }
        if !a.is_finite() || !b.is_finite() {
            return Err(Error::runtime(format!("unsupported range: {a} -> {b}")));
        }
        if (s > 0.0 && a > b) || (s < 0.0 && a < b) {
            return Err(Error::runtime("upper bound and lower bound inconsistent with step sign"));
        }
        let len = match (start, end, step) {
            (Scalar::Int(a), Scalar::Int(b), Scalar::Int(s)) => {
                let span = b as i128 - a as i128;
                let s = s as i128;
                ((span + s - s.signum()) / s).max(0) as usize
            }
            _ => ((b - a) / s).ceil().max(0.0) as usize,
        };
        if dtype.is_complex() || dtype == DType::Bool {
            return Err(crate::ops::complex::unsupported("arange_cpu", dtype));
        }
        if dtype.is_int() {
            // The length follows from the given numbers, but counting is done in the result's dtype, as in PyTorch.
            return counted(len, Scalar::Int(start.to_i64()), Scalar::Int(step.to_i64()), dtype, place);
        }
        counted(len, start, step, dtype, place)
    }
    /// `steps` numbers from `start` to `end`, both included.
    ///
    /// # Errors
    /// `Runtime` for a negative number of steps.
    pub fn linspace(start: f64, end: f64, steps: i64, dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        let place = device.into();
        if steps < 0 {
            return Err(Error::runtime("number of steps must be non-negative"));
        }
        let n = steps as usize;
        // Bounds of integer dtypes are truncated.
        let (start, end) = if dtype.is_float() { (start, end) } else { (start.trunc(), end.trunc()) };
        // PyTorch computes in the result's precision. Each half is counted from its own end, so that both ends are
        // exact.
        let wide = if dtype == DType::F32 { DType::F32 } else { DType::F64 };
        let y = Tensor::empty(&Meta::new(&[n], wide, Place::CPU))?;
        if let Some(out) = y.view_mut().as_slice_mut::<f32>() {
            let (a, b) = (start as f32, end as f32);
            let step = if n > 1 { (b - a) / (n - 1) as f32 } else { 0.0 };
            let at = |i| if i < n / 2 || n == 1 { a + step * i as f32 } else { b - step * (n - 1 - i) as f32 };
            out.iter_mut().enumerate().for_each(|(i, o)| *o = at(i));
        }
        if let Some(out) = y.view_mut().as_slice_mut::<f64>() {
            let step = if n > 1 { (end - start) / (n - 1) as f64 } else { 0.0 };
            let at = |i| if i < n / 2 || n == 1 { start + step * i as f64 } else { end - step * (n - 1 - i) as f64 };
            out.iter_mut().enumerate().for_each(|(i, o)| *o = at(i));
        }
        y.to_dtype(dtype)?.to_device(place)
    }
}

/// [`Tensor::linspace`] for numbers that may be complex, in a dtype that they can be cast to.
pub(crate) fn spaced(
    name: &str,
    start: Scalar,
    end: Scalar,
    steps: i64,
    dtype: Option<DType>,
    place: Place,
) -> Result<Tensor> {
    let complex = start.is_complex() || end.is_complex();
    let dtype = match dtype {
        Some(d) if complex && !d.is_complex() => {
            return Err(Error::runtime(format!(
                "torch.{name}(): inferred dtype {} can't be safely cast to passed dtype {}",
                default_complex().scalar_type(),
                d.scalar_type()
            )));
        }
        Some(d) => d,
        None if complex => default_complex(),
        None => default_dtype(),
    };
    if dtype == DType::Bool {
        return Err(crate::ops::complex::unsupported(&format!("{name}_cpu"), dtype));
    }
    if !dtype.is_complex() {
        return Tensor::linspace(start.to_f64(), end.to_f64(), steps, dtype, place);
    }
    let ((a, b), (c, d)) = (start.to_complex(), end.to_complex());
    let part = |from: f64, to: f64| Tensor::linspace(from, to, steps, dtype.to_real(), place);
    crate::ops::complex::complex(&part(a, c)?, &part(b, d)?)
}

/// `start + step * i`, computed in a dtype that is wide enough.
pub(super) fn counted(len: usize, start: Scalar, step: Scalar, dtype: DType, place: Place) -> Result<Tensor> {
    if len > i64::MAX as usize {
        return Err(Error::runtime("invalid size, possible overflow?"));
    }
    if dtype.is_stored() {
        return Err(crate::ops::complex::unsupported("arange_cpu", dtype));
    }
    if place.in_memory() {
        let meta = Meta { dims: Dims::new(&[len]), dtype, place };
        let y = Tensor::empty(&meta)?;
        torchtpu_kernels::for_dtype!(dtype, T => {
            if let Some(out) = y.view_mut().as_slice_mut::<T>() {
                use crate::Element;
                match (dtype.is_float(), start, step) {
                    (false, Scalar::Int(a), Scalar::Int(s)) => {
                        out.iter_mut().zip(0i64..).for_each(|(o, i)| *o =
                            T::from_i64(a.wrapping_add(s.wrapping_mul(i))));
                    }
                    _ => {
                        let (a, s) = (start.to_f64(), step.to_f64());
                        out.iter_mut().zip(0i64..).for_each(|(o, i)| *o = T::from_f64(a + s * i as f64));
                    }
                }
            }
        });
        return Ok(y);
    }
    let i = dispatch::call(Prim::Iota(Iota { len, place }), &[])?;
    let wide = match dtype {
        d if !d.is_float() => DType::I64,
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let i = i.to_dtype(wide)?;
    let scaled = if step == Scalar::Int(1) { i } else { i.mul(&Tensor::number(step, wide)?)? };
    let moved = if start.to_f64() == 0.0 { scaled } else { scaled.add(&Tensor::number(start, wide)?)? };
    moved.to_dtype(dtype)
}

fn arange_dtype(xs: &[Scalar]) -> DType {
    if xs.iter().any(|x| matches!(x, Scalar::Float(_))) { default_dtype() } else { DType::I64 }
}

/// `start, start + step, ...` up to `end`, which is included.
fn range(start: Scalar, end: Scalar, step: Scalar, o: (DType, Place)) -> Result<Tensor> {
    crate::warning::warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with \
        Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
    )?;
    let (a, b, s) = (start.to_f64(), end.to_f64(), step.to_f64());
    if s == 0.0 {
        return Err(Error::runtime("step must be nonzero"));
    }
    if !a.is_finite() || !b.is_finite() {
        return Err(Error::runtime(format!("unsupported range: {a} -> {b}")));
    }
    if (s > 0.0 && a > b) || (s < 0.0 && a < b) {
        return Err(Error::runtime("upper bound and lower bound inconsistent with step sign"));
    }
    if o.0 == DType::Bool || o.0.is_complex() {
        return Err(crate::ops::complex::unsupported("range_cpu", o.0));
    }
    counted((((b - a) / s).floor() as usize).saturating_add(1), start, step, o.0, o.1)
}

/// A bound given as a tensor, which must have no dimensions.
fn bound(name: &str, what: &str, x: &Tensor) -> Result<Scalar> {
    if !x.dims().is_empty() {
        return Err(Error::runtime(format!(
            "{name} only supports 0-dimensional start and end tensors, but got {what} with {} dimension(s).",
            x.dims().len()
        )));
    }
    x.item()
}

/// [`bound`] for an argument that may be a number.
pub(crate) fn bound_of(name: &str, what: &str, a: &Args<'_>, i: usize) -> Result<Scalar> {
    match a.operand(i)? {
        crate::schema::Operand::Tensor(x) => bound(name, what, x),
        crate::schema::Operand::Scalar(s) => Ok(s),
    }
}

fn linspace_row(a: &Args<'_>) -> Result<crate::schema::Ret> {
    let (start, end) = (bound_of("linspace", "start", a, 0)?, bound_of("linspace", "end", a, 1)?);
    let place = a.opt_device(5)?.unwrap_or(Place::CPU);
    Ok(spaced("linspace", start, end, a.int(2)?, a.opt_dtype(3)?, place)?.into())
}

/// Rows of numbers at equal distances.
pub const ROWS: &[Row] = &[
    Row::new(
        "arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| {
            let e = a.scalar(0)?;
            let (d, dev) = options(a, 1, arange_dtype(&[e]), Place::CPU)?;
            Ok(Tensor::arange(Scalar::Int(0), e, Scalar::Int(1), d, dev)?.into())
        },
        || plain(vec![n(5)]),
    )
    .doc(
        "Return the numbers `start, start + step, ...` before `end`, which is not included. `start` is 0 and `step` \
         is 1 unless given; a negative `step` counts down. Unless `dtype` is given, integers give `int64`, and a \
         float among the arguments the default floating-point dtype.",
    )
    .scope(Scope::Function)
    .out_shape(OutShape::KeptWithWarning),
    Row::new(
        "arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| {
            let (s, e) = (a.scalar(0)?, a.scalar(1)?);
            let (d, dev) = options(a, 2, arange_dtype(&[s, e]), Place::CPU)?;
            Ok(Tensor::arange(s, e, Scalar::Int(1), d, dev)?.into())
        },
        || plain(vec![n(1), n(5.5)]),
    )
    .scope(Scope::Function)
    .out_shape(OutShape::KeptWithWarning),
    Row::new(
        "arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? \
        layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| {
            let (s, e, st) = (a.scalar(0)?, a.scalar(1)?, a.scalar(2)?);
            let (d, dev) = options(a, 3, arange_dtype(&[s, e, st]), Place::CPU)?;
            Ok(Tensor::arange(s, e, st, d, dev)?.into())
        },
        || plain(vec![n(5), n(0), n(-2)]),
    )
    .scope(Scope::Function)
    .out_shape(OutShape::KeptWithWarning),
    Row::new(
        "linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        linspace_row,
        || plain(vec![n(0), n(1), n(5)]),
    )
    .doc(
        "Return `steps` numbers evenly spaced from `start` to `end`, both included exactly. The shape is \
         `(steps,)`; one step gives `start`. `dtype` is the default floating-point dtype unless given; `start` and \
         `end` may be 0-d tensors.",
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Kept),
    Row::new(
        "range(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
        bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| Ok(range(a.scalar(0)?, a.scalar(1)?, Scalar::Int(1), options(a, 2, default_dtype(), Place::CPU)?)?.into()),
        || plain(vec![n(1), n(4)]),
    )
    .doc(
        "Return the numbers `start, start + step, ...` up to `end`, which is included. `dtype` is the default \
         floating-point dtype unless given. It is deprecated and warns; use `torch.arange`.",
    )
    .scope(Scope::Function)
    .out_shape(OutShape::KeptWithWarning),
    Row::new(
        "range.step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, \
        Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| Ok(range(a.scalar(0)?, a.scalar(1)?, a.scalar(2)?, options(a, 3, default_dtype(), Place::CPU)?)?.into()),
        || plain(vec![n(1), n(3), n(0.5)]),
    )
    .scope(Scope::Function)
    .out_shape(OutShape::KeptWithWarning),
    Row::new(
        "linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? \
        layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        linspace_row,
        Vec::new,
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Kept),
    Row::new(
        "linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? \
        layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        linspace_row,
        Vec::new,
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Kept),
    Row::new(
        "linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? \
        layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        linspace_row,
        Vec::new,
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Kept),
];
