//! Numbers from the user, and dtype promotion.

use crate::{DType, Error};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use torchtpu_kernels::copy::Scalar as Number;

/// A Python or Rust number. It takes part in promotion by its category only.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// `True` or `False`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer from 2^63 to 2^64 - 1. It wraps around in integer dtypes.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
}

/// A number as messages show it: six significant digits.
pub(crate) fn general(v: f64) -> String {
    let text = format!("{v:.5e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text.to_lowercase() };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed =
        |s: &str| if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').into() } else { s.to_string() };
    if (-4..6).contains(&exponent) {
        return trimmed(&format!("{v:.*}", (5 - exponent) as usize));
    }
    format!("{}e{}{:02}", trimmed(digits), if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

impl Scalar {
    /// The name of the number's type in Python.
    pub(crate) fn python_type(self) -> &'static str {
        match self {
            Scalar::Bool(_) => "bool",
            Scalar::Int(_) | Scalar::Unsigned(_) => "int",
            Scalar::Float(_) => "float",
            Scalar::Complex(..) => "complex",
        }
    }
    /// The number as `f64`; the real part of a complex number.
    #[inline]
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Unsigned(i) => i as f64,
            Scalar::Float(f) | Scalar::Complex(f, _) => f,
        }
    }
    /// Real and imaginary part.
    #[inline]
    pub fn to_complex(self) -> (f64, f64) {
        match self {
            Scalar::Complex(re, im) => (re, im),
            s => (s.to_f64(), 0.0),
        }
    }
    /// Whether the number is not zero.
    #[inline]
    pub fn is_true(self) -> bool {
        self.to_complex() != (0.0, 0.0)
    }
    /// Whether the number is complex.
    #[inline]
    pub fn is_complex(self) -> bool {
        matches!(self, Scalar::Complex(..))
    }
    /// The number as `i64`, truncated; the real part of a complex number.
    #[inline]
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Unsigned(i) => i as i64,
            Scalar::Float(f) | Scalar::Complex(f, _) => f as i64,
        }
    }
    /// The dtype of a tensor made from this number alone.
    #[inline]
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) | Scalar::Unsigned(_) => DType::I64,
            Scalar::Float(_) => default_dtype(),
            Scalar::Complex(..) => default_complex(),
        }
    }
    /// The bytes of the value as an element of `dtype`, little endian, zero extended.
    #[inline]
    pub fn bits(self, dtype: DType) -> u128 {
        let parts = |re: u128, im: u128, width: u32| re | im << width;
        match dtype {
            DType::C64 => {
                let (re, im) = self.to_complex();
                parts((re as f32).to_bits() as u128, (im as f32).to_bits() as u128, 32)
            }
            DType::C128 => {
                let (re, im) = self.to_complex();
                parts(re.to_bits() as u128, im.to_bits() as u128, 64)
            }
            d => self.real_bits(d) as u128,
        }
    }
    fn real_bits(self, dtype: DType) -> u64 {
        use crate::{bf16, f16};
        match dtype {
            DType::Bool => self.is_true() as u64,
            DType::U8 => self.to_i64() as u8 as u64,
            DType::I8 => self.to_i64() as i8 as u8 as u64,
            DType::I16 => self.to_i64() as i16 as u16 as u64,
            DType::I32 => self.to_i64() as i32 as u32 as u64,
            DType::I64 => self.to_i64() as u64,
            DType::F16 => f16::from_f32(self.to_f64() as f32).to_bits() as u64,
            DType::BF16 => bf16::from_f32(self.to_f64() as f32).to_bits() as u64,
            DType::F32 => (self.to_f64() as f32).to_bits() as u64,
            DType::F64 => self.to_f64().to_bits(),
            DType::C64 | DType::C128 => unreachable!("the caller takes complex numbers apart"),
            d if d.is_float8() => torchtpu_kernels::stored::bits(Number::Float(self.to_f64()), d),
            d => torchtpu_kernels::stored::bits(self.real_part(), d),
        }
    }
    /// The number for kernels, without an imaginary part.
    fn real_part(self) -> Number {
        match self {
            Scalar::Bool(v) => Number::Bool(v),
            Scalar::Int(v) => Number::Int(v),
            // As bits: the kernels have no larger integer.
            Scalar::Unsigned(v) => Number::Int(v as i64),
            Scalar::Float(v) | Scalar::Complex(v, _) => Number::Float(v),
        }
    }
    /// The number whose bytes as an element of `dtype` are `bits`. This is the inverse of [`Scalar::bits`].
    pub fn from_bits(bits: u128, dtype: DType) -> Scalar {
        use crate::{bf16, f16};
        let wide = bits;
        let bits = bits as u64;
        match dtype {
            DType::Bool => Scalar::Bool(bits as u8 != 0),
            DType::U8 => Scalar::Int(bits as u8 as i64),
            DType::I8 => Scalar::Int(bits as u8 as i8 as i64),
            DType::I16 => Scalar::Int(bits as u16 as i16 as i64),
            DType::I32 => Scalar::Int(bits as u32 as i32 as i64),
            DType::I64 => Scalar::Int(bits as i64),
            DType::F16 => Scalar::Float(f16::from_bits(bits as u16).to_f64()),
            DType::BF16 => Scalar::Float(bf16::from_bits(bits as u16).to_f64()),
            DType::F32 => Scalar::Float(f32::from_bits(bits as u32) as f64),
            DType::F64 => Scalar::Float(f64::from_bits(bits)),
            DType::C64 => {
                Scalar::Complex(f32::from_bits(bits as u32) as f64, f32::from_bits((bits >> 32) as u32) as f64)
            }
            DType::C128 => Scalar::Complex(f64::from_bits(bits), f64::from_bits((wide >> 64) as u64)),
            DType::U64 if bits > i64::MAX as u64 => Scalar::Unsigned(bits),
            d => match torchtpu_kernels::stored::number(bits, d) {
                Number::Bool(v) => Scalar::Bool(v),
                Number::Int(v) => Scalar::Int(v),
                Number::Float(v) => Scalar::Float(v),
            },
        }
    }
}

impl From<f64> for Scalar {
    fn from(v: f64) -> Scalar {
        Scalar::Float(v)
    }
}
impl From<f32> for Scalar {
    fn from(v: f32) -> Scalar {
        Scalar::Float(v as f64)
    }
}
impl From<(f64, f64)> for Scalar {
    fn from((re, im): (f64, f64)) -> Scalar {
        Scalar::Complex(re, im)
    }
}
impl From<i64> for Scalar {
    fn from(v: i64) -> Scalar {
        Scalar::Int(v)
    }
}
impl From<i32> for Scalar {
    fn from(v: i32) -> Scalar {
        Scalar::Int(v as i64)
    }
}
impl From<bool> for Scalar {
    fn from(v: bool) -> Scalar {
        Scalar::Bool(v)
    }
}

static DEFAULT_DTYPE: AtomicU8 = AtomicU8::new(DType::F32 as u8);

/// The dtype of new floating-point tensors: `float32` unless another one is set.
#[inline]
pub fn default_dtype() -> DType {
    let d = DEFAULT_DTYPE.load(Relaxed);
    DType::ALL[d as usize]
}

/// The dtype of new complex tensors. Its parts have the dtype [`default_dtype`].
#[inline]
pub fn default_complex() -> DType {
    default_dtype().to_complex().unwrap_or(DType::C64)
}

/// Set [`default_dtype`]. The caller has checked that `dtype` is floating point.
pub fn set_default_dtype(dtype: DType) {
    DEFAULT_DTYPE.store(dtype as u8, Relaxed);
}

/// Whether two dtypes have a common one. Those that are only stored have none, but unsigned integers become floats.
#[inline]
pub fn is_promotable(a: DType, b: DType) -> bool {
    let stored = |d: DType, other: DType| d.is_stored() && (d.is_float8() || !other.is_float());
    a == b || !(stored(a, b) || stored(b, a))
}

/// The error for dtypes that have no common one.
#[cold]
pub fn no_common_dtype(a: DType, b: DType) -> Error {
    let (a, b) = if a.is_stored() { (a, b) } else { (b, a) };
    let what = if a.is_float8() { "Float8 Types" } else { "uint16, uint32, uint64 types" };
    Error::runtime(format!(
        "Promotion for {what} is not supported, attempted to promote {} and {}",
        a.scalar_type(),
        b.scalar_type()
    ))
}

/// The dtype that two tensors promote to, as `torch.promote_types` returns it. Neither of them stands for a number. Of
/// dtypes that are not [promotable](is_promotable), it is the one that is only stored.
pub fn promote_types(a: DType, b: DType) -> DType {
    use DType::*;
    if a == b {
        return a;
    }
    let (lo, hi) = if a < b { (a, b) } else { (b, a) };
    match (lo, hi) {
        (Bool, x) => x,
        (U8, I8) => I16,
        (F16, BF16) => F32,
        (F64, C64) => C128,
        (x, U16 | U32 | U64) if x.is_float() => x,
        (_, x) => x,
    }
}

/// The category: 0 for bool, 1 integer, 2 floating point, 3 complex.
#[inline]
pub fn category(d: DType) -> u8 {
    if d.is_complex() {
        3
    } else if d.is_floating_point() {
        2
    } else if d == DType::Bool {
        0
    } else {
        1
    }
}

/// Whether a result of type `from` may be written into a tensor of type `to` (`torch.can_cast`).
pub fn can_cast(from: DType, to: DType) -> bool {
    category(from) <= category(to)
}
