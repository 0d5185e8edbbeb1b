//! Creation: `Fill` (one number everywhere) and `Iota` (counting), and functions composed of them.

mod layout;
mod range;

pub use layout::ROWS as LAYOUT_ROWS;
pub use range::ROWS as RANGE_ROWS;
pub(crate) use range::{bound_of, spaced};

use crate::axes::Axes;
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::schema::{Args, OutShape, Row, Sample, Scope, Tier, ints, n, t};
use crate::{
    DType, Dims, Error, Held, MemoryFormat, Meta, Place, Result, Scalar, Tensor, backend, default_dtype, dispatch,
    inplace,
};
use range::counted;
use smallvec::smallvec;

/// Number of bytes above which zeros are memory that the system has not filled yet.
const LARGE_BYTES: usize = 1 << 20;

/// A tensor of one number. The number is an operand, so that other numbers compile nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fill {
    /// Sizes of the result.
    pub dims: Dims,
    /// The place of the result.
    pub place: Place,
}

impl Op for Fill {
    const NAME: &'static str = "full";
    const FACTS: Facts = Facts { is_fill: true, ..Facts::NONE };
    const DIFFERENTIABLE: u64 = 1;
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(Meta { dims: self.dims, dtype: x[0].dtype(), place: self.place })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b1])
    }
    fn resized(&self, _: &[Meta], y: &[Meta]) -> Fill {
        Fill { dims: y[0].dims, place: y[0].place }
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
    /// The number of elements.
    pub len: usize,
    /// The place of the result.
    pub place: Place,
}

impl Op for Iota {
    const NAME: &'static str = "iota";
    const DIFFERENTIABLE: u64 = 0;
    fn infer(&self, _: &[&Tensor]) -> Result<Meta> {
        Ok(Meta { dims: Dims::new(&[self.len]), dtype: DType::I64, place: self.place })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("-> _", x, y).because("an element is its own position")
    }
    fn resized(&self, _: &[Meta], y: &[Meta]) -> Iota {
        Iota { place: y[0].place, ..*self }
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

/// Refuse a number whose imaginary part would be dropped.
#[inline]
fn check_fits(v: Scalar, dtype: DType) -> Result<()> {
    match v {
        Scalar::Complex(_, im) if im != 0.0 && !dtype.is_complex() && dtype != DType::Bool => {
            Err(Error::runtime(format!("value cannot be converted to type {} without overflow", dtype.c_name())))
        }
        _ => Ok(()),
    }
}

/// Refuse numbers that elements of `dtype` cannot hold, in PyTorch's words. Negative integers wrap in `uint8`, and
/// infinity fits every floating-point dtype.
///
/// # Errors
/// `Runtime` for a number out of range.
pub(crate) fn check_range(v: Scalar, dtype: DType) -> Result<()> {
    let name = match dtype {
        DType::U8 => "uint8_t",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int",
        DType::I64 => "int64_t",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        _ => return Ok(()),
    };
    let bits = 8 * dtype.size_bytes() as u32;
    let is_unsigned = dtype.category() == torchtpu_kernels::Category::Unsigned;
    let is_int = is_unsigned || dtype.is_int();
    let fits = match v {
        Scalar::Bool(_) => true,
        Scalar::Complex(_, im) if im != 0.0 => false,
        Scalar::Unsigned(_) if dtype == DType::U64 => true,
        Scalar::Unsigned(_) if is_int => false,
        Scalar::Int(i) if is_unsigned => bits == 64 || i.unsigned_abs() >> bits == 0,
        Scalar::Int(i) if is_int => bits == 64 || (i >> (bits - 1)) == (i >> 63),
        v if is_int => {
            let (v, top) = (v.to_f64(), 2f64.powi(bits as i32 - 1));
            let (low, high) = if is_unsigned {
                (0.0, 2.0 * top - f64::from(bits < 64))
            } else {
                (-top, top - (bits < 64) as u8 as f64)
            };
            (low..=high).contains(&v)
        }
        v => {
            let largest = match dtype {
                DType::F16 => 65504.0,
                DType::BF16 => 3.389_531_389_251_535_5e38,
                DType::F32 => f32::MAX as f64,
                _ => f64::MAX,
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
    /// A 0-d `cpu` tensor that stands for a number. It takes part in type promotion by its category only.
    #[inline]
    ///
    /// # Errors
    /// `Runtime` for a number with an imaginary part in a dtype of real numbers.
    pub fn number(v: Scalar, dtype: DType) -> Result<Tensor> {
        check_fits(v, dtype)?;
        let y = Tensor::empty(&Meta { dims: Dims::EMPTY, dtype, place: Place::CPU })?;
        y.set_scalar_bits(v.bits(dtype));
        y.mark_wrapped_number();
        Ok(y)
    }
    /// A tensor of one number.
    ///
    /// # Errors
    /// `OutOfMemory`, or `Runtime` when there is no such device.
    pub fn full_meta(meta: &Meta, v: Scalar) -> Result<Tensor> {
        if meta.bytes().is_none() {
            return Tensor::empty(&Meta { place: Place::CPU, ..*meta });
        }
        check_range(v, meta.dtype)?;
        check_fits(v, meta.dtype)?;
        if meta.dims.is_empty() && meta.place.in_memory() {
            let y = Tensor::empty(meta)?;
            y.set_scalar_bits(v.bits(meta.dtype));
            return Ok(y);
        }
        let is_large = meta.bytes().is_some_and(|b| b > LARGE_BYTES);
        if is_large && meta.place.in_memory() && v.bits(meta.dtype) == 0 && !dispatch::is_unusual() {
            return Tensor::zeroed(meta);
        }
        let x = Tensor::number(v, meta.dtype)?;
        dispatch::call(Prim::Fill(Fill { dims: meta.dims, place: meta.place }), &[&x])
    }
    /// Zeros of this description.
    ///
    /// # Errors
    /// `OutOfMemory`, or `Runtime` when there is no such device.
    pub fn zeros_like_meta(meta: &Meta) -> Result<Tensor> {
        Tensor::full_meta(meta, Scalar::Int(0))
    }
    /// Zeros.
    ///
    /// # Errors
    /// `OutOfMemory`, or `Runtime` when there is no such device.
    pub fn zeros(dims: &[usize], dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        Tensor::zeros_like_meta(&Meta { dims: Dims::try_new(dims)?, dtype, place: device.into() })
    }
    /// Ones.
    ///
    /// # Errors
    /// `OutOfMemory`, or `Runtime` when there is no such device.
    pub fn ones(dims: &[usize], dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        Tensor::full(dims, 1, dtype, device)
    }
    /// A tensor with the same number everywhere.
    ///
    /// # Errors
    /// `OutOfMemory`, or `Runtime` when there is no such device.
    pub fn full(dims: &[usize], v: impl Into<Scalar>, dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        Tensor::full_meta(&Meta { dims: Dims::try_new(dims)?, dtype, place: device.into() }, v.into())
    }
}

fn zeros(a: &Args<'_>) -> Result<crate::schema::Ret> {
    if a.ints(0)?.iter().any(|n| *n < 0) {
        return Err(Error::runtime("zeros: Dimension size must be non-negative."));
    }
    Ok(new_full(a.ints(0)?, Scalar::Int(0), options(a, 1, default_dtype(), Place::CPU)?)?.into())
}

/// The sizes from a user for a new tensor.
pub(crate) fn sizes(v: &[i64]) -> Result<Dims> {
    if let Some((i, n)) = v.iter().enumerate().find(|(_, n)| **n < 0) {
        let _ = i;
        return Err(Error::runtime(format!("Trying to create tensor with negative dimension {n}: {v:?}")));
    }
    Dims::try_new(&v.iter().map(|&n| n as usize).collect::<Vec<_>>())
}

/// Read `dtype, layout, device, pin_memory`, which start at argument `i`.
pub(crate) fn options(a: &Args<'_>, i: usize, dtype: DType, place: Place) -> Result<(DType, Place)> {
    Ok((a.opt_dtype(i)?.unwrap_or(dtype), a.opt_device(i + 2)?.unwrap_or(place)))
}

/// The same for a tensor like `x`.
fn options_like(a: &Args<'_>, i: usize, x: &Tensor) -> Result<(DType, Place)> {
    let (dtype, _) = options(a, i, x.dtype(), x.place())?;
    Ok((dtype, backend::place_like(x, a.opt_device(i + 2)?)?))
}

fn new_full(dims: &[i64], v: Scalar, o: (DType, Place)) -> Result<Tensor> {
    Tensor::full_meta(&Meta { dims: sizes(dims)?, dtype: o.0, place: o.1 }, v)
}

fn empty(dims: &[i64], o: (DType, Place)) -> Result<Tensor> {
    let meta = Meta { dims: sizes(dims)?, dtype: o.0, place: o.1 };
    match o.1.held() {
        Held::Handle => Tensor::zeros_like_meta(&meta),
        _ => Tensor::empty(&meta),
    }
}

fn eye(rows: i64, cols: i64, o: (DType, Place)) -> Result<Tensor> {
    for (v, name) in [(rows, "n"), (cols, "m")] {
        if v < 0 {
            return Err(Error::runtime(format!("{name} must be greater or equal to 0, got {v}")));
        }
    }
    let r = counted(rows as usize, Scalar::Int(0), Scalar::Int(1), DType::I64, o.1)?;
    let c = counted(cols as usize, Scalar::Int(0), Scalar::Int(1), DType::I64, o.1)?;
    r.unsqueeze(1)?.eq(&c)?.to_dtype(o.0)
}

/// Return `y`, sharded as `x` is if it has the sizes of `x`. Otherwise it is replicated.
fn placed_with(x: &Tensor, y: Tensor) -> Result<Tensor> {
    if y.dims() == x.dims() { backend::placed_like(x, y) } else { Ok(y) }
}

/// Strides of a new tensor like `x`; `None` if they are row major.
fn strides_like(x: &Tensor, format: Option<MemoryFormat>) -> Result<Option<Dims>> {
    match format {
        None | Some(MemoryFormat::Preserve) if x.is_plain() => Ok(None),
        None => Ok(Some(crate::strides::preserved(x))),
        Some(f) => Ok(Some(f.strides_like(x)?)),
    }
}

fn like(a: &Args<'_>, i: usize, v: Scalar) -> Result<crate::schema::Ret> {
    let x = a.tensor(0)?;
    let (dtype, place) = options_like(a, i, x)?;
    let y = backend::placed_like(x, Tensor::full_meta(&Meta { dims: *x.dims(), dtype, place }, v)?)?;
    Ok(match strides_like(x, a.memory_format(i + 4)?)? {
        Some(strides) => y.with_strides(strides),
        None => y,
    }
    .into())
}

fn plain(args: Vec<crate::schema::SampleArg>) -> Vec<Sample> {
    vec![Sample::new(args).no_gradient()]
}

/// `x` with the same number everywhere. A 0-d tensor is a number with a gradient.
fn filled(x: &Tensor, v: crate::schema::Operand<'_>) -> Result<Tensor> {
    match v {
        crate::schema::Operand::Scalar(s) => crate::ops::pointwise::independent_of(x, Tensor::full_meta(x.meta(), s)?),
        crate::schema::Operand::Tensor(v) if !v.dims().is_empty() => Err(Error::runtime(format!(
            "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
            v.dims().len()
        ))),
        crate::schema::Operand::Tensor(v) => {
            let y = v.to_dtype(x.dtype())?.to_device(x.place())?.expand_dims(x.dims())?.copy()?;
            crate::ops::pointwise::independent_of(x, y)
        }
    }
}

/// Rows of new tensors: zeros, ones, another number, or unset memory.
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
        |a| Ok(new_full(a.ints(0)?, Scalar::Int(1), options(a, 1, default_dtype(), Place::CPU)?)?.into()),
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
            let y = empty(a.ints(0)?, options(a, 1, default_dtype(), Place::CPU)?)?;
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
            Ok(new_full(a.ints(0)?, v, options(a, 2, v.dtype(), Place::CPU)?)?.into())
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
            let y = backend::placed_like(x, empty(&d, options_like(a, 1, x)?)?)?;
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
            let x = a.tensor(0)?;
            Ok(placed_with(x, new_full(a.ints(1)?, Scalar::Int(0), options_like(a, 2, x)?)?)?.into())
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
            let x = a.tensor(0)?;
            Ok(placed_with(x, new_full(a.ints(1)?, Scalar::Int(1), options_like(a, 2, x)?)?)?.into())
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
        |a| {
            let x = a.tensor(0)?;
            Ok(placed_with(x, empty(a.ints(1)?, options_like(a, 2, x)?)?)?.into())
        },
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
        |a| {
            let x = a.tensor(0)?;
            Ok(placed_with(x, new_full(a.ints(1)?, a.scalar(2)?, options_like(a, 3, x)?)?)?.into())
        },
        || plain(vec![t(&[2]), ints(&[2, 3]), n(7)]),
    )
    .doc(
        "Return a tensor of the shape `size` filled with `fill_value`, with the dtype and device of `self` unless \
         others are given. A number that does not fit in the dtype raises `RuntimeError`.",
    )
    .scope(Scope::Method)
    .no_out(),
];

/// Rows that fill tensors, and the row of the identity matrix.
pub const FILL_ROWS: &[Row] = &[
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
        |a| Ok(eye(a.int(0)?, a.int(0)?, options(a, 1, default_dtype(), Place::CPU)?)?.into()),
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
        |a| Ok(eye(a.int(0)?, a.int(1)?, options(a, 2, default_dtype(), Place::CPU)?)?.into()),
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
