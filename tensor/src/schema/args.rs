//! Arguments and results of a call, in the form that the functions of rows use.

use crate::types::compute::{narrowed, widened};
use crate::{DType, Error, MemoryFormat, Place, Result, Scalar, Tensor};
use smallvec::SmallVec;

/// One argument.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// Not given, or `None`.
    None,
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number; also allowed where the schema wants a tensor.
    Scalar(Scalar),
    /// Tensors.
    Tensors(&'a [Option<Tensor>]),
    /// Integers.
    Ints(&'a [i64]),
    /// Floating-point numbers.
    Floats(&'a [f64]),
    /// Numbers.
    Scalars(&'a [Scalar]),
    /// A string.
    Str(&'a str),
    /// A dtype.
    DType(DType),
    /// A device.
    Device(Place),
    /// A memory format.
    MemoryFormat(MemoryFormat),
    /// A generator.
    Generator(&'a crate::random::Generator),
}

/// The arguments of a call, in the schema's order, defaults filled in.
#[derive(Clone, Copy)]
pub struct Args<'a>(pub &'a [Arg<'a>]);

/// A tensor or a number, an operand of arithmetic.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number.
    Scalar(Scalar),
}

impl<'a> Args<'a> {
    #[cold]
    fn wrong(&self, i: usize, what: &str) -> Error {
        Error::type_error(format!("argument {i} must be {what}, not {:?}", self.0.get(i)))
    }
    /// A tensor.
    #[inline]
    pub fn tensor(&self, i: usize) -> Result<&'a Tensor> {
        match self.0[i] {
            Arg::Tensor(t) => Ok(t),
            _ => Err(self.wrong(i, "Tensor")),
        }
    }
    /// A tensor or `None`.
    #[inline]
    pub fn opt_tensor(&self, i: usize) -> Result<Option<&'a Tensor>> {
        match self.0[i] {
            Arg::Tensor(t) => Ok(Some(t)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "Tensor")),
        }
    }
    /// A tensor or a number.
    #[inline]
    pub fn operand(&self, i: usize) -> Result<Operand<'a>> {
        match self.0[i] {
            Arg::Tensor(t) => Ok(Operand::Tensor(t)),
            Arg::Scalar(s) => Ok(Operand::Scalar(s)),
            _ => Err(self.wrong(i, "Tensor or Number")),
        }
    }
    /// Tensors, none missing.
    pub fn tensors(&self, i: usize) -> Result<Vec<&'a Tensor>> {
        match self.0[i] {
            Arg::Tensors(t) => {
                let missing =
                    |k| Error::type_error(format!("expected Tensor as element {k} in argument {i}, but got NoneType"));
                t.iter().enumerate().map(|(k, t)| t.as_ref().ok_or_else(|| missing(k))).collect()
            }
            _ => Err(self.wrong(i, "tuple of Tensors")),
        }
    }
    /// Tensors, some of which may be missing.
    pub fn opt_tensors(&self, i: usize) -> Result<&'a [Option<Tensor>]> {
        match self.0[i] {
            Arg::Tensors(t) => Ok(t),
            Arg::None => Ok(&[]),
            _ => Err(self.wrong(i, "tuple of Tensors")),
        }
    }
    /// An integer.
    #[inline]
    pub fn int(&self, i: usize) -> Result<i64> {
        match self.0[i] {
            Arg::Scalar(Scalar::Int(v)) => Ok(v),
            Arg::Scalar(Scalar::Bool(v)) => Ok(v as i64),
            _ => Err(self.wrong(i, "int")),
        }
    }
    /// An integer or `None`.
    #[inline]
    pub fn opt_int(&self, i: usize) -> Result<Option<i64>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.int(i).map(Some) }
    }
    /// A number.
    #[inline]
    pub fn scalar(&self, i: usize) -> Result<Scalar> {
        match self.0[i] {
            Arg::Scalar(s) => Ok(s),
            _ => Err(self.wrong(i, "Number")),
        }
    }
    /// A number or `None`.
    #[inline]
    pub fn opt_scalar(&self, i: usize) -> Result<Option<Scalar>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.scalar(i).map(Some) }
    }
    /// A number as `f64`.
    #[inline]
    pub fn float(&self, i: usize) -> Result<f64> {
        match self.scalar(i)? {
            Scalar::Complex(_, im) if im != 0.0 => {
                Err(Error::runtime("value cannot be converted to type double without overflow"))
            }
            s => Ok(s.to_f64()),
        }
    }
    /// A number as `f64`, or `None`.
    #[inline]
    pub fn opt_float(&self, i: usize) -> Result<Option<f64>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.float(i).map(Some) }
    }
    /// A truth value.
    #[inline]
    pub fn bool(&self, i: usize) -> Result<bool> {
        match self.0[i] {
            Arg::Scalar(s) => Ok(s.to_i64() != 0),
            _ => Err(self.wrong(i, "bool")),
        }
    }
    /// A truth value or `None`.
    pub fn opt_bool(&self, i: usize) -> Result<Option<bool>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.bool(i).map(Some) }
    }
    /// Integers; a single one is a list of one.
    #[inline]
    pub fn ints(&self, i: usize) -> Result<&'a [i64]> {
        match self.0[i] {
            Arg::Ints(v) => Ok(v),
            Arg::None => Ok(&[]),
            _ => Err(self.wrong(i, "tuple of ints")),
        }
    }
    /// Integers or `None`.
    #[inline]
    pub fn opt_ints(&self, i: usize) -> Result<Option<&'a [i64]>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.ints(i).map(Some) }
    }
    /// Floats or `None`.
    pub fn opt_floats(&self, i: usize) -> Result<Option<&'a [f64]>> {
        match self.0[i] {
            Arg::Floats(v) => Ok(Some(v)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "tuple of floats")),
        }
    }
    /// A list of numbers.
    pub fn scalars(&self, i: usize) -> Result<&'a [Scalar]> {
        match self.0[i] {
            Arg::Scalars(v) => Ok(v),
            _ => Err(self.wrong(i, "tuple of Scalars")),
        }
    }
    /// A string.
    pub fn str(&self, i: usize) -> Result<&'a str> {
        match self.0[i] {
            Arg::Str(s) => Ok(s),
            _ => Err(self.wrong(i, "str")),
        }
    }
    /// A string or `None`.
    pub fn opt_str(&self, i: usize) -> Result<Option<&'a str>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.str(i).map(Some) }
    }
    /// A dtype or `None`.
    #[inline]
    pub fn opt_dtype(&self, i: usize) -> Result<Option<DType>> {
        match self.0[i] {
            Arg::DType(d) => Ok(Some(d)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "torch.dtype")),
        }
    }
    /// A memory format or `None`.
    pub fn memory_format(&self, i: usize) -> Result<Option<MemoryFormat>> {
        match self.0[i] {
            Arg::MemoryFormat(f) => Ok(Some(f)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "torch.memory_format")),
        }
    }
    /// A device or `None`.
    #[inline]
    pub fn opt_device(&self, i: usize) -> Result<Option<Place>> {
        match self.0[i] {
            Arg::Device(d) => Ok(Some(d)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "torch.device")),
        }
    }
    /// A generator or `None`.
    pub fn opt_generator(&self, i: usize) -> Result<Option<&'a crate::random::Generator>> {
        match self.0[i] {
            Arg::Generator(g) => Ok(Some(g)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "torch.Generator")),
        }
    }
}

/// The result of a call.
#[derive(Debug)]
pub enum Ret {
    /// A tensor.
    Tensor(Tensor),
    /// A tuple of tensors; a named one if the table of return types has the op.
    Tuple(Vec<Tensor>),
    /// A list of tensors.
    List(Vec<Tensor>),
    /// A number.
    Scalar(Scalar),
    /// Nothing.
    None,
}

/// Call a composition of several steps with 16-bit floats widened to `float32`, and round its results once. Squares,
/// products and sums would overflow or vanish in 16 bits, and each step would round. Calls with several floating-point
/// dtypes, which `call` may refuse, are passed as they are.
pub(crate) fn widely(a: &Args<'_>, call: fn(&Args<'_>) -> Result<Ret>) -> Result<Ret> {
    let mut dtypes = a.0.iter().filter_map(|arg| match arg {
        Arg::Tensor(t) if t.dtype().is_float() => Some(t.dtype()),
        _ => None,
    });
    let Some(dtype) = dtypes.next().filter(|d| d.is_half() && dtypes.all(|other| other == *d)) else {
        return call(a);
    };
    let wide = |arg: &Arg<'_>| match arg {
        Arg::Tensor(t) if t.dtype() == dtype => widened(t).map(Some),
        _ => Ok(None),
    };
    let held = a.0.iter().map(wide).collect::<Result<SmallVec<[Option<Tensor>; 8]>>>()?;
    let args: SmallVec<[Arg<'_>; 8]> =
        a.0.iter().zip(&held).map(|(arg, t)| t.as_ref().map_or(*arg, Arg::Tensor)).collect();
    let round = |y: Tensor| if y.dtype() == DType::F32 { narrowed(y, dtype) } else { Ok(y) };
    Ok(match call(&Args(&args))? {
        Ret::Tensor(y) => Ret::Tensor(round(y)?),
        Ret::Tuple(y) => Ret::Tuple(y.into_iter().map(round).collect::<Result<_>>()?),
        Ret::List(y) => Ret::List(y.into_iter().map(round).collect::<Result<_>>()?),
        other => other,
    })
}

impl From<Tensor> for Ret {
    fn from(t: Tensor) -> Ret {
        Ret::Tensor(t)
    }
}
impl From<(Tensor, Tensor)> for Ret {
    fn from((a, b): (Tensor, Tensor)) -> Ret {
        Ret::Tuple(vec![a, b])
    }
}
impl From<(Tensor, Tensor, Tensor)> for Ret {
    fn from((a, b, c): (Tensor, Tensor, Tensor)) -> Ret {
        Ret::Tuple(vec![a, b, c])
    }
}
impl From<Vec<Tensor>> for Ret {
    fn from(v: Vec<Tensor>) -> Ret {
        Ret::List(v)
    }
}
impl From<bool> for Ret {
    fn from(v: bool) -> Ret {
        Ret::Scalar(Scalar::Bool(v))
    }
}
impl From<i64> for Ret {
    fn from(v: i64) -> Ret {
        Ret::Scalar(Scalar::Int(v))
    }
}
impl From<Scalar> for Ret {
    fn from(v: Scalar) -> Ret {
        Ret::Scalar(v)
    }
}
impl From<()> for Ret {
    fn from(_: ()) -> Ret {
        Ret::None
    }
}
