//! Creation: `Fill` (a number everywhere) and `Iota` (counting), and what is made of them.

use crate::axes::Axes;
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::schema::{Args, OutShape, Row, Sample, Scope, Tier, ints, n, t};
use crate::{
    DType, Device, DeviceKind, Dims, Error, MemoryFormat, Meta, Result, Scalar, Tensor, default_complex, default_dtype,
    dispatch, inplace,
};
use smallvec::smallvec;

/// A tensor of one number. The number is the operand, so that other numbers compile nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fill {
    /// Sizes of the result.
    pub dims: Dims,
    /// Where it is made.
    pub device: Device,
}

impl Op for Fill {
    const NAME: &'static str = "full";
    const FACTS: Facts = Facts { is_fill: true, ..Facts::NONE };
    const DIFFERENTIABLE: u64 = 1;
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(Meta { dims: self.dims, dtype: x[0].dtype(), device: self.device })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b1])
    }
    fn resized(&self, _: &[Meta], y: &[Meta]) -> Fill {
        Fill { dims: y[0].dims, ..*self }
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let strides = Dims::filled(0, self.dims.len());
        torchtpu_kernels::copy::copy(&x[0].view_as(&self.dims, &strides), &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        smallvec![f.broadcast_to(&x[0], &self.dims)]
    }
    fn vjp(&self, _: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![Some(g.sum()?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// 0, 1, 2, ... in `int64`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Iota {
    /// How many.
    pub len: usize,
    /// Where they are made.
    pub device: Device,
}

impl Op for Iota {
    const NAME: &'static str = "iota";
    const DIFFERENTIABLE: u64 = 0;
    fn infer(&self, _: &[&Tensor]) -> Result<Meta> {
        Ok(Meta { dims: Dims::new(&[self.len]), dtype: DType::I64, device: self.device })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("-> _", x, y).because("an element is its own position")
    }
    fn kernel(&self, _: &[&Tensor], y: &[Tensor]) -> Result<()> {
        if let Some(out) = y[0].view_mut().as_slice_mut::<i64>() {
            out.iter_mut().zip(0..).for_each(|(o, i)| *o = i);
        }
        Ok(())
    }
    fn lower(&self, f: &mut Func, _: &[Value], y: &[Meta]) -> Values {
        smallvec![f.iota(&y[0].ty(), 0)]
    }
    fn vjp(&self, _: &Saved<'_>, _: &Tensor) -> Result<Grads> {
        Ok(smallvec![])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Refuses to drop an imaginary part.
#[inline]
fn check_fits(v: Scalar, dtype: DType) -> Result<()> {
    match v {
        Scalar::Complex(_, im) if im != 0.0 && !dtype.is_complex() && dtype != DType::Bool => {
            Err(Error::runtime(format!("value cannot be converted to type {} without overflow", dtype.c_name())))
        }
        _ => Ok(()),
    }
}

/// Refuses numbers that elements of `dtype` cannot hold, in PyTorch's words. Negative numbers wrap in `uint8`, infinity
/// is a floating-point number of any size.
///
/// # Errors
/// `Runtime` for a number out of range.
pub(crate) fn check_range(v: Scalar, dtype: DType) -> Result<()> {
    let name = match dtype {
        DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int",
        DType::I64 => "int64_t",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::F32 => "float",
        _ => return Ok(()),
    };
    let bits = 8 * dtype.size_bytes() as u32;
    let fits = match v {
        Scalar::Bool(_) => true,
        Scalar::Complex(_, im) if im != 0.0 => false,
        Scalar::Int(i) if dtype == DType::U8 => i.unsigned_abs() <= 255,
        Scalar::Int(i) if dtype.is_int() => bits == 64 || (i >> (bits - 1)) == (i >> 63),
        v if dtype.is_int() => {
            let (v, top) = (v.to_f64(), 2f64.powi(bits as i32 - 1));
            let (low, high) = if dtype == DType::U8 { (-255.0, 255.0) } else { (-top, top - (bits < 64) as u8 as f64) };
            (low..=high).contains(&v)
        }
        v => {
            let largest = match dtype {
                DType::F16 => 65504.0,
                DType::BF16 => 3.389_531_389_251_535_5e38,
                _ => f32::MAX as f64,
            };
            !v.to_f64().is_finite() || v.to_f64().abs() <= largest
        }
    };
    if fits {
        return Ok(());
    }
    Err(Error::runtime(format!("value cannot be converted to type {name} without overflow")))
}

impl Tensor {
    /// A 0-d `cpu` tensor that stands for a number: an operand that promotes by category only.
    #[inline]
    ///
    /// # Errors
    /// `Runtime` for a number with an imaginary part in a dtype of real numbers.
    pub fn number(v: Scalar, dtype: DType) -> Result<Tensor> {
        check_fits(v, dtype)?;
        let y = Tensor::empty(&Meta { dims: Dims::EMPTY, dtype, device: Device::CPU })?;
        y.set_scalar_bits(v.bits(dtype));
        y.mark_wrapped_number();
        Ok(y)
    }
    /// A tensor of one number.
    ///
    /// # Errors
    /// Out of memory, no such device.
    pub fn full_meta(meta: &Meta, v: Scalar) -> Result<Tensor> {
        if meta.bytes().is_none() {
            return Tensor::empty(&Meta { device: Device::CPU, ..*meta });
        }
        check_range(v, meta.dtype)?;
        check_fits(v, meta.dtype)?;
        if meta.dims.is_empty() && meta.device.kind == DeviceKind::Cpu {
            let y = Tensor::empty(meta)?;
            y.set_scalar_bits(v.bits(meta.dtype));
            return Ok(y);
        }
        let x = Tensor::number(v, meta.dtype)?;
        dispatch::call(Prim::Fill(Fill { dims: meta.dims, device: meta.device }), &[&x])
    }
    /// Zeros of this description.
    ///
    /// # Errors
    /// Out of memory, no such device.
    pub fn zeros_like_meta(meta: &Meta) -> Result<Tensor> {
        Tensor::full_meta(meta, Scalar::Int(0))
    }
    /// Zeros.
    ///
    /// # Errors
    /// Out of memory, no such device.
    pub fn zeros(dims: &[usize], dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::zeros_like_meta(&Meta { dims: Dims::try_new(dims)?, dtype, device })
    }
    /// Ones.
    ///
    /// # Errors
    /// Out of memory, no such device.
    pub fn ones(dims: &[usize], dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::full(dims, 1, dtype, device)
    }
    /// A number everywhere.
    ///
    /// # Errors
    /// Out of memory, no such device.
    pub fn full(dims: &[usize], v: impl Into<Scalar>, dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::full_meta(&Meta { dims: Dims::try_new(dims)?, dtype, device }, v.into())
    }
    /// `start, start + step, ...` below `end`.
    ///
    /// # Errors
    /// `Runtime` when the bounds and the step do not agree.
    pub fn arange(start: Scalar, end: Scalar, step: Scalar, dtype: DType, device: Device) -> Result<Tensor> {
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
            // As many as for the numbers given, but counted in the result's dtype, as in PyTorch.
            return counted(len, Scalar::Int(start.to_i64()), Scalar::Int(step.to_i64()), dtype, device);
        }
        counted(len, start, step, dtype, device)
    }
    /// `steps` numbers from `start` to `end`, both included.
    ///
    /// # Errors
    /// `Runtime` for a negative number of steps.
    pub fn linspace(start: f64, end: f64, steps: i64, dtype: DType, device: Device) -> Result<Tensor> {
        if steps < 0 {
            return Err(Error::runtime("number of steps must be non-negative"));
        }
        let n = steps as usize;
        // Bounds of whole numbers are whole numbers.
        let (start, end) = if dtype.is_float() { (start, end) } else { (start.trunc(), end.trunc()) };
        // PyTorch computes in the result's precision. Each half is counted from its own end, so that both ends are
        // exact.
        let wide = if dtype == DType::F32 { DType::F32 } else { DType::F64 };
        let y = Tensor::empty(&Meta::new(&[n], wide, Device::CPU))?;
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
        y.to_dtype(dtype)?.to_device(device)
    }
}

/// [`Tensor::linspace`] of numbers that may be complex, in a dtype that they can be cast to.
pub(crate) fn spaced(
    name: &str,
    start: Scalar,
    end: Scalar,
    steps: i64,
    dtype: Option<DType>,
    device: Device,
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
        return Tensor::linspace(start.to_f64(), end.to_f64(), steps, dtype, device);
    }
    let ((a, b), (c, d)) = (start.to_complex(), end.to_complex());
    let part = |from: f64, to: f64| Tensor::linspace(from, to, steps, dtype.to_real(), device);
    crate::ops::complex::complex(&part(a, c)?, &part(b, d)?)
}

/// `start + step * i`, computed wide enough for the dtype.
fn counted(len: usize, start: Scalar, step: Scalar, dtype: DType, device: Device) -> Result<Tensor> {
    if len > i64::MAX as usize {
        return Err(Error::runtime("invalid size, possible overflow?"));
    }
    if device.kind == DeviceKind::Cpu {
        let meta = Meta { dims: Dims::new(&[len]), dtype, device };
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
    let i = dispatch::call(Prim::Iota(Iota { len, device }), &[])?;
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

fn zeros(a: &Args<'_>) -> Result<crate::schema::Ret> {
    if a.ints(0)?.iter().any(|n| *n < 0) {
        return Err(Error::runtime("zeros: Dimension size must be non-negative."));
    }
    Ok(new_full(a.ints(0)?, Scalar::Int(0), options(a, 1, default_dtype(), Device::CPU)?)?.into())
}

/// Sizes that a user gave for a new tensor.
pub(crate) fn sizes(v: &[i64]) -> Result<Dims> {
    if let Some((i, n)) = v.iter().enumerate().find(|(_, n)| **n < 0) {
        let _ = i;
        return Err(Error::runtime(format!("Trying to create tensor with negative dimension {n}: {v:?}")));
    }
    Dims::try_new(&v.iter().map(|&n| n as usize).collect::<Vec<_>>())
}

/// Reads `dtype, layout, device, pin_memory`, which start at argument `i`.
pub(crate) fn options(a: &Args<'_>, i: usize, dtype: DType, device: Device) -> Result<(DType, Device)> {
    Ok((a.opt_dtype(i)?.unwrap_or(dtype), a.opt_device(i + 2)?.unwrap_or(device)))
}

fn new_full(dims: &[i64], v: Scalar, o: (DType, Device)) -> Result<Tensor> {
    Tensor::full_meta(&Meta { dims: sizes(dims)?, dtype: o.0, device: o.1 }, v)
}

fn empty(dims: &[i64], o: (DType, Device)) -> Result<Tensor> {
    let meta = Meta { dims: sizes(dims)?, dtype: o.0, device: o.1 };
    match o.1.kind {
        DeviceKind::Tpu => Tensor::zeros_like_meta(&meta),
        _ => Tensor::empty(&meta),
    }
}

fn eye(rows: i64, cols: i64, o: (DType, Device)) -> Result<Tensor> {
    for (v, name) in [(rows, "n"), (cols, "m")] {
        if v < 0 {
            return Err(Error::runtime(format!("{name} must be greater or equal to 0, got {v}")));
        }
    }
    let r = counted(rows as usize, Scalar::Int(0), Scalar::Int(1), DType::I64, o.1)?;
    let c = counted(cols as usize, Scalar::Int(0), Scalar::Int(1), DType::I64, o.1)?;
    r.unsqueeze(1)?.eq(&c)?.to_dtype(o.0)
}

/// Strides of a new tensor like `x`, where it is not row major.
fn strides_like(x: &Tensor, format: Option<MemoryFormat>) -> Result<Option<Dims>> {
    match format {
        None | Some(MemoryFormat::Preserve) if x.is_plain() => Ok(None),
        None => Ok(Some(crate::strides::preserved(x))),
        Some(f) => Ok(Some(f.strides_like(x)?)),
    }
}

fn like(a: &Args<'_>, i: usize, v: Scalar) -> Result<crate::schema::Ret> {
    let x = a.tensor(0)?;
    let (dtype, device) = options(a, i, x.dtype(), x.device())?;
    let y = Tensor::full_meta(&Meta { dims: *x.dims(), dtype, device }, v)?;
    Ok(match strides_like(x, a.memory_format(i + 4)?)? {
        Some(strides) => y.with_strides(strides),
        None => y,
    }
    .into())
}

fn arange_dtype(xs: &[Scalar]) -> DType {
    if xs.iter().any(|x| matches!(x, Scalar::Float(_))) { default_dtype() } else { DType::I64 }
}

fn plain(args: Vec<crate::schema::SampleArg>) -> Vec<Sample> {
    vec![Sample::new(args).no_gradient()]
}

/// Memory of its own, seen with given strides.
fn empty_strided(dims: &[i64], strides: &[i64], o: (DType, Device)) -> Result<Tensor> {
    if dims.len() != strides.len() {
        return Err(Error::runtime(format!(
            "dimensionality of sizes ({}) must match dimensionality of strides ({})",
            dims.len(),
            strides.len()
        )));
    }
    let d = sizes(dims)?;
    let mut last = dims.iter().zip(strides).map(|(&n, &s)| (n - 1).checked_mul(s).filter(|v| *v >= 0 || n == 0));
    let last = last.try_fold(0i64, |a, v| a.checked_add(v?.max(0))).filter(|last| *last < i64::MAX);
    let Some(last) = last.filter(|_| strides.iter().all(|s| *s >= 0)) else {
        return Err(Error::runtime(format!(
            "Storage size calculation overflowed with sizes={dims:?} and strides={strides:?}"
        )));
    };
    let count = if d.contains(&0) { 0 } else { last + 1 };
    let flat = empty(&[count], o)?;
    if d.contains(&0) {
        return flat.reshape(dims);
    }
    Ok(flat.as_strided(dims, strides, Some(0))?.detach())
}

/// Memory whose dimensions lie in the given order, the last one densest.
fn empty_permuted(dims: &[i64], layout: &[i64], o: (DType, Device)) -> Result<Tensor> {
    if dims.len() != layout.len() {
        return Err(Error::runtime(format!(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {} is not \
            equal to len(physical_layout) = {}",
            dims.len(),
            layout.len()
        )));
    }
    let n = dims.len();
    let mut back = vec![n; n];
    let mut physical = Vec::new();
    for (i, &d) in layout.iter().enumerate() {
        if d < 0 || d as usize >= n {
            return Err(Error::runtime(format!(
                "Dimension out of range (expected to be between 0 and {}, but got {d} at index {i}).  NB: negative \
                dims not currently supported; file an issue if you want it.",
                n - 1
            )));
        }
        if back[d as usize] != n {
            return Err(Error::runtime("Duplicate dim not allowed"));
        }
        back[d as usize] = i;
        physical.push(dims[d as usize]);
    }
    Ok(empty(&physical, o)?.permute(&back.iter().map(|&i| i as i64).collect::<Vec<_>>())?.detach())
}

/// `start, start + step, ...` up to `end`, which is included.
fn range(start: Scalar, end: Scalar, step: Scalar, o: (DType, Device)) -> Result<Tensor> {
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

/// `x` with a number everywhere; a 0-d tensor is a number whose gradient counts.
fn filled(x: &Tensor, v: crate::schema::Operand<'_>) -> Result<Tensor> {
    match v {
        crate::schema::Operand::Scalar(s) => crate::ops::pointwise::independent_of(x, Tensor::full_meta(x.meta(), s)?),
        crate::schema::Operand::Tensor(v) if !v.dims().is_empty() => Err(Error::runtime(format!(
            "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
            v.dims().len()
        ))),
        crate::schema::Operand::Tensor(v) => {
            let y = v.to_dtype(x.dtype())?.to_device(x.device())?.expand_dims(x.dims())?.copy()?;
            crate::ops::pointwise::independent_of(x, y)
        }
    }
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

/// [`bound`] of an argument that may be a number.
pub(crate) fn bound_of(name: &str, what: &str, a: &Args<'_>, i: usize) -> Result<Scalar> {
    match a.operand(i)? {
        crate::schema::Operand::Tensor(x) => bound(name, what, x),
        crate::schema::Operand::Scalar(s) => Ok(s),
    }
}

fn linspace_row(a: &Args<'_>) -> Result<crate::schema::Ret> {
    let (start, end) = (bound_of("linspace", "start", a, 0)?, bound_of("linspace", "end", a, 1)?);
    let device = a.opt_device(5)?.unwrap_or(Device::CPU);
    Ok(spaced("linspace", start, end, a.int(2)?, a.opt_dtype(3)?, device)?.into())
}

/// Rows of the creation functions.
pub const ROWS: &[Row] = &[
    Row::new(
        "zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        Tier::Prim,
        zeros,
        || plain(vec![ints(&[2, 3])]),
    )
    .doc(
        "Return a tensor of the shape `size` filled with 0. `dtype` is the default floating-point dtype unless \
         given.",
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Resized),
    Row::new(
        "ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        Tier::Prim,
        |a| Ok(new_full(a.ints(0)?, Scalar::Int(1), options(a, 1, default_dtype(), Device::CPU)?)?.into()),
        || plain(vec![ints(&[2, 3])]),
    )
    .doc(
        "Return a tensor of the shape `size` filled with 1. `dtype` is the default floating-point dtype unless \
         given.",
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Resized),
    Row::new(
        "empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
        bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        Tier::Prim,
        |a| {
            let y = empty(a.ints(0)?, options(a, 1, default_dtype(), Device::CPU)?)?;
            Ok(match a.memory_format(5)? {
                None | Some(MemoryFormat::Contiguous) => y,
                Some(f) => {
                    let strides = f.strides(y.dims())?;
                    y.with_strides(strides)
                }
            }
            .into())
        },
        Vec::new,
    )
    .doc(
        "Return a tensor of the shape `size` whose elements are whatever the memory holds; on `tpu` they are 0. \
         `dtype` is the default floating-point dtype unless given. `memory_format` sets the order of the dimensions \
         in memory.",
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Resized),
    Row::new(
        "full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Prim,
        |a| {
            let v = a.scalar(1)?;
            Ok(new_full(a.ints(0)?, v, options(a, 2, v.dtype(), Device::CPU)?)?.into())
        },
        || plain(vec![ints(&[2, 3]), n(2.5)]),
    )
    .doc(
        "Return a tensor of the shape `size` filled with `fill_value`. Unless `dtype` is given, a `bool` gives \
         `bool`, an integer `int64`, and other numbers the default floating-point or complex dtype. A number that \
         does not fit in the dtype raises `RuntimeError`.",
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Resized),
    Row::new(
        "zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        Tier::Prim,
        |a| like(a, 1, Scalar::Int(0)),
        || plain(vec![t(&[2, 3])]),
    )
    .doc(
        "Return a tensor filled with 0 that has the shape of `input`, and its dtype and device unless others are \
         given. It keeps the order of the dimensions in memory unless `memory_format` asks for another one.",
    )
    .scope(Scope::Function),
    Row::new(
        "ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        Tier::Prim,
        |a| like(a, 1, Scalar::Int(1)),
        || plain(vec![t(&[2, 3])]),
    )
    .doc(
        "Return a tensor filled with 1 that has the shape of `input`, and its dtype and device unless others are \
         given. It keeps the order of the dimensions in memory unless `memory_format` asks for another one.",
    )
    .scope(Scope::Function),
    Row::new(
        "full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        Tier::Prim,
        |a| like(a, 2, a.scalar(1)?),
        || plain(vec![t(&[2, 3]), n(3)]),
    )
    .doc(
        "Return a tensor filled with `fill_value` that has the shape of `input`, and its dtype and device unless \
         others are given. It keeps the order of the dimensions in memory unless `memory_format` asks for another \
         one. A number that does not fit in the dtype raises `RuntimeError`.",
    )
    .scope(Scope::Function),
    Row::new(
        "empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        Tier::Prim,
        |a| {
            let x = a.tensor(0)?;
            let d: Vec<i64> = x.dims().iter().map(|&n| n as i64).collect();
            let y = empty(&d, options(a, 1, x.dtype(), x.device())?)?;
            Ok(match strides_like(x, a.memory_format(5)?)? {
                Some(strides) => y.with_strides(strides),
                None => y,
            }
            .into())
        },
        Vec::new,
    )
    .doc(
        "Return a tensor that has the shape of `input`, and its dtype and device unless others are given. Its \
         elements are whatever the memory holds; on `tpu` they are 0. It keeps the order of the dimensions in memory \
         unless `memory_format` asks for another one.",
    )
    .scope(Scope::Function),
    Row::new(
        "new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Prim,
        |a| {
            Ok(new_full(a.ints(1)?, Scalar::Int(0), options(a, 2, a.tensor(0)?.dtype(), a.tensor(0)?.device())?)?
                .into())
        },
        || plain(vec![t(&[2]), ints(&[2, 3])]),
    )
    .doc(
        "Return a tensor of the shape `size` filled with 0, with the dtype and device of `self` unless others are \
         given.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Prim,
        |a| {
            Ok(new_full(a.ints(1)?, Scalar::Int(1), options(a, 2, a.tensor(0)?.dtype(), a.tensor(0)?.device())?)?
                .into())
        },
        || plain(vec![t(&[2]), ints(&[2, 3])]),
    )
    .doc(
        "Return a tensor of the shape `size` filled with 1, with the dtype and device of `self` unless others are \
         given.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Prim,
        |a| Ok(empty(a.ints(1)?, options(a, 2, a.tensor(0)?.dtype(), a.tensor(0)?.device())?)?.into()),
        Vec::new,
    )
    .doc(
        "Return a tensor of the shape `size` with the dtype and device of `self` unless others are given. Its \
         elements are whatever the memory holds; on `tpu` they are 0.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, \
        Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Prim,
        |a| Ok(new_full(a.ints(1)?, a.scalar(2)?, options(a, 3, a.tensor(0)?.dtype(), a.tensor(0)?.device())?)?.into()),
        || plain(vec![t(&[2]), ints(&[2, 3]), n(7)]),
    )
    .doc(
        "Return a tensor of the shape `size` filled with `fill_value`, with the dtype and device of `self` unless \
         others are given. A number that does not fit in the dtype raises `RuntimeError`.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| {
            let e = a.scalar(0)?;
            let (d, dev) = options(a, 1, arange_dtype(&[e]), Device::CPU)?;
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
            let (d, dev) = options(a, 2, arange_dtype(&[s, e]), Device::CPU)?;
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
            let (d, dev) = options(a, 3, arange_dtype(&[s, e, st]), Device::CPU)?;
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
        |a| Ok(range(a.scalar(0)?, a.scalar(1)?, Scalar::Int(1), options(a, 2, default_dtype(), Device::CPU)?)?.into()),
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
        |a| Ok(range(a.scalar(0)?, a.scalar(1)?, a.scalar(2)?, options(a, 3, default_dtype(), Device::CPU)?)?.into()),
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
    Row::new(
        "empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| Ok(empty_strided(a.ints(0)?, a.ints(1)?, options(a, 2, default_dtype(), Device::CPU)?)?.into()),
        Vec::new,
    )
    .doc(
        "Return a tensor of the shape `size` with the strides `stride`, counted in elements. Its elements are \
         whatever the memory holds; on `tpu` they are 0. `dtype` is the default floating-point dtype unless given.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, \
        Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| Ok(empty_permuted(a.ints(0)?, a.ints(1)?, options(a, 2, default_dtype(), Device::CPU)?)?.into()),
        Vec::new,
    )
    .doc(
        "Return a tensor of the shape `size` without gaps whose dimensions lie in memory in the order \
         `physical_layout`, from the outermost to the densest. Its elements are whatever the memory holds; on `tpu` \
         they are 0. `dtype` is the default floating-point dtype unless given.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? \
        layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| {
            Ok(empty_strided(a.ints(1)?, a.ints(2)?, options(a, 3, a.tensor(0)?.dtype(), a.tensor(0)?.device())?)?
                .into())
        },
        Vec::new,
    )
    .doc(
        "Return a tensor of the shape `size` with the strides `stride`, counted in elements, and with the dtype and \
         device of `self` unless others are given. Its elements are whatever the memory holds; on `tpu` they are 0.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "fill.Scalar(Tensor self, Scalar value) -> Tensor",
        Tier::Composed,
        |a| Ok(filled(a.tensor(0)?, a.operand(1)?)?.into()),
        || vec![Sample::new(vec![t(&[2, 3]), n(2.5)])],
    )
    .doc(
        "Return a tensor like `input` with `value` everywhere, a number or a 0-d tensor. A 0-d tensor gets the sum \
         of the gradient.",
    )
    .no_out()
    .scope(Scope::Function),
    Row::new(
        "fill.Tensor(Tensor self, Tensor value) -> Tensor",
        Tier::Composed,
        |a| Ok(filled(a.tensor(0)?, a.operand(1)?)?.into()),
        || vec![Sample::new(vec![t(&[2, 3]), t(&[])])],
    )
    .no_out()
    .scope(Scope::Function),
    Row::new(
        "eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| Ok(eye(a.int(0)?, a.int(0)?, options(a, 1, default_dtype(), Device::CPU)?)?.into()),
        || plain(vec![n(3)]),
    )
    .doc(
        "Return the matrix of shape `(n, m)` with ones on the diagonal and zeros elsewhere. `m` is `n` unless \
         given. `dtype` is the default floating-point dtype unless given.",
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Resized),
    Row::new(
        "eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| Ok(eye(a.int(0)?, a.int(1)?, options(a, 2, default_dtype(), Device::CPU)?)?.into()),
        || plain(vec![n(2), n(3)]),
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Resized),
    Row::new(
        "fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            inplace::apply_same(x, |y| Tensor::full_meta(y.meta(), a.scalar(1)?))?;
            Ok(x.clone().into())
        },
        Vec::new,
    )
    .doc(
        "Overwrite every element of `input` with `value`, a number or a 0-d tensor, and return `input`. A number \
         that does not fit in the dtype raises `RuntimeError`.",
    )
    .no_out(),
    Row::new(
        "fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)",
        Tier::Composed,
        |a| {
            let (x, v) = (a.tensor(0)?, a.tensor(1)?);
            inplace::apply_same(x, |y| filled(y, crate::schema::Operand::Tensor(v)))?;
            Ok(x.clone().into())
        },
        Vec::new,
    )
    .no_out(),
    Row::new(
        "zero_(Tensor(a!) self) -> Tensor(a!)",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            inplace::apply_same(x, |y| Tensor::zeros_like_meta(y.meta()))?;
            Ok(x.clone().into())
        },
        Vec::new,
    )
    .doc("Overwrite every element of `input` with 0 and return `input`.")
    .no_out()
    .in_place_function(),
];
