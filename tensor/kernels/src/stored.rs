//! Conversions of the element types that are only stored: unsigned integers of more than 8 bits, and floats of 8.
//!
//! A stored element is read as a number of a wider type that kernels compute with, and written from one. A copy goes
//! through an array of that type, so that a stored type needs no loop for each other type.

use crate::copy::{Scalar, copy};
use crate::loops::{Loop, Operand, Params, run};
use crate::map::{Map1, loop1};
use crate::pointwise::CompareKind;
use crate::strided::row_major;
use crate::{DType, KernelError, View, ViewMut, memory};

/// The layout of a float of 8 bits with a sign and a mantissa.
struct Layout {
    /// Bits of the mantissa.
    mantissa: u32,
    /// The exponent of the smallest normal number.
    least: i32,
    /// The code of the largest number.
    largest: u8,
    /// The code of positive numbers that are too large, and of infinity.
    overflow: u8,
    /// The code of NaN.
    nan: u8,
    /// Whether zero has no sign, and its negative code is NaN.
    one_zero: bool,
}

const fn layout(dtype: DType) -> Layout {
    let (mantissa, least, [largest, overflow, nan], one_zero) = match dtype {
        // PyTorch saturates this type, and no other.
        DType::F8E4M3FN => (3, -6, [0x7e, 0x7e, 0x7f], false),
        DType::F8E5M2 => (2, -14, [0x7b, 0x7c, 0x7f], false),
        DType::F8E4M3FNUZ => (3, -7, [0x7f, 0x80, 0x80], true),
        DType::F8E5M2FNUZ => (2, -15, [0x7f, 0x80, 0x80], true),
        _ => panic!("no float of 8 bits with a mantissa"),
    };
    Layout { mantissa, least, largest, overflow, nan, one_zero }
}

/// A float of 8 bits.
trait Float8 {
    /// The number of each code.
    const NUMBERS: [f32; 256];
    /// The code of the nearest number.
    fn code(v: f32) -> u8;
}

/// Two to the power of `e`, which is normal.
const fn power_of_two(e: i32) -> f32 {
    f32::from_bits(((e + 127) as u32) << 23)
}

const fn numbers(dtype: DType) -> [f32; 256] {
    let l = layout(dtype);
    let mut numbers = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let magnitude = (code & 0x7f) as u32;
        let (exponent, digits) = (magnitude >> l.mantissa, magnitude & ((1 << l.mantissa) - 1));
        let unit = power_of_two(l.least - l.mantissa as i32);
        let v = match exponent {
            0 => digits as f32 * unit,
            e => (digits + (1 << l.mantissa)) as f32 * unit * power_of_two(e as i32 - 1),
        };
        let is_negative = code >= 0x80;
        numbers[code] = match magnitude {
            0 if l.one_zero && is_negative => f32::NAN,
            m if m <= l.largest as u32 => {
                if is_negative {
                    -v
                } else {
                    v
                }
            }
            m if m == l.overflow as u32 && l.overflow != l.nan => {
                if is_negative {
                    f32::NEG_INFINITY
                } else {
                    f32::INFINITY
                }
            }
            _ => f32::NAN,
        };
        code += 1;
    }
    numbers
}

/// Return the code of the nearest number, and of the even one of two.
#[inline(always)]
fn code(l: &Layout, v: f32) -> u8 {
    let sign = ((v.to_bits() >> 24) & 0x80) as u8;
    if v.is_nan() {
        return l.nan | sign;
    }
    let magnitude = f64::from(v.abs());
    let exponent = (((magnitude.to_bits() >> 52) as i32) - 1023).max(l.least);
    // Adding a number whose last digit is the last one of the result makes the adder round.
    let unit = f64::from_bits(((exponent - l.mantissa as i32 + 1023) as u64) << 52);
    let digits = (magnitude / unit).min(1e9);
    let rounded = (digits + 2f64.powi(52)) - 2f64.powi(52);
    let code = rounded as u32 + ((exponent - l.least) as u32).saturating_mul(1 << l.mantissa);
    match code {
        0 if l.one_zero => 0,
        c if c <= u32::from(l.largest) => c as u8 | sign,
        _ => l.overflow | sign,
    }
}

macro_rules! floats {
    ($($name:ident)*) => {$(
        struct $name;
        impl Float8 for $name {
            const NUMBERS: [f32; 256] = numbers(DType::$name);
            #[inline(always)]
            fn code(v: f32) -> u8 {
                code(&const { layout(DType::$name) }, v)
            }
        }
    )*};
}
floats! { F8E4M3FN F8E5M2 F8E4M3FNUZ F8E5M2FNUZ }

/// A power of two without sign.
struct F8E8M0FNU;
impl Float8 for F8E8M0FNU {
    const NUMBERS: [f32; 256] = {
        let mut numbers = [f32::NAN; 256];
        // The smallest one is no normal `f32`.
        numbers[0] = f32::from_bits(1 << 22);
        let mut code = 1;
        while code < 255 {
            numbers[code] = f32::from_bits((code as u32) << 23);
            code += 1;
        }
        numbers
    };
    #[inline(always)]
    fn code(v: f32) -> u8 {
        let (exponent, digits) = ((v.to_bits() >> 23) as u8, v.to_bits() & 0x7f_ffff);
        let above_half = digits > 0x40_0000 || digits == 0x40_0000 && exponent > 0;
        if exponent < 255 && above_half { exponent + 1 } else { exponent }
    }
}

/// Reads stored elements.
struct Load<F>(F);
/// Writes stored elements.
struct Store<F>(F);
/// The stored integers, through a signed type, or through a float.
struct Integer;

impl<F: Float8> Map1<u8, f32> for Load<F> {
    const VECTOR: bool = false;
    #[inline(always)]
    fn at<const FMA: bool>(_: &Params, a: u8) -> f32 {
        F::NUMBERS[a as usize]
    }
}
impl<F: Float8> Map1<f32, u8> for Store<F> {
    #[inline(always)]
    fn at<const FMA: bool>(_: &Params, a: f32) -> u8 {
        F::code(a)
    }
}

macro_rules! integers {
    ($($side:ident $from:ty, $to:ty: |$a:ident| $body:expr;)*) => {$(
        impl Map1<$from, $to> for $side<Integer> {
            #[inline(always)]
            fn at<const FMA: bool>(_: &Params, $a: $from) -> $to {
                $body
            }
        }
    )*};
}
integers! {
    Load u16, i64: |a| a as i64;
    Load u32, i64: |a| a as i64;
    Load u64, i64: |a| a as i64;
    Load u64, f32: |a| a as f32;
    Load u64, f64: |a| a as f64;
    Store i64, u16: |a| a as u16;
    Store i64, u32: |a| a as u32;
    Store i64, u64: |a| a as u64;
    Store f64, u64: |a| unsigned(a);
}

/// Convert as the processor does for PyTorch: truncate, wrap negative numbers, and give 2^63 for NaN.
#[inline(always)]
fn unsigned(v: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    let signed = |v: f64| if (-HALF..HALF).contains(&v) { v as i64 } else { i64::MIN };
    if v >= HALF { (signed(v - HALF) as u64) ^ 1 << 63 } else { signed(v) as u64 }
}

/// Return the loop that reads a stored dtype, and the dtype that it gives for a result of dtype `to`.
fn load(from: DType, to: DType) -> (Loop<1>, DType) {
    match from {
        DType::U16 => (loop1::<u16, i64, Load<Integer>>(), DType::I64),
        DType::U32 => (loop1::<u32, i64, Load<Integer>>(), DType::I64),
        DType::U64 if to == DType::F64 || to == DType::C128 => (loop1::<u64, f64, Load<Integer>>(), DType::F64),
        DType::U64 if to.is_inexact() => (loop1::<u64, f32, Load<Integer>>(), DType::F32),
        DType::U64 => (loop1::<u64, i64, Load<Integer>>(), DType::I64),
        DType::F8E4M3FN => (loop1::<u8, f32, Load<F8E4M3FN>>(), DType::F32),
        DType::F8E5M2 => (loop1::<u8, f32, Load<F8E5M2>>(), DType::F32),
        DType::F8E4M3FNUZ => (loop1::<u8, f32, Load<F8E4M3FNUZ>>(), DType::F32),
        DType::F8E5M2FNUZ => (loop1::<u8, f32, Load<F8E5M2FNUZ>>(), DType::F32),
        DType::F8E8M0FNU => (loop1::<u8, f32, Load<F8E8M0FNU>>(), DType::F32),
        d => crate::element::refuse_dtype(d),
    }
}

/// Return the loop that writes a stored dtype, and the dtype that it takes for an operand of dtype `from`.
fn store(to: DType, from: DType) -> (Loop<1>, DType) {
    match to {
        DType::U16 => (loop1::<i64, u16, Store<Integer>>(), DType::I64),
        DType::U32 => (loop1::<i64, u32, Store<Integer>>(), DType::I64),
        DType::U64 if from.is_inexact() => (loop1::<f64, u64, Store<Integer>>(), DType::F64),
        DType::U64 => (loop1::<i64, u64, Store<Integer>>(), DType::I64),
        DType::F8E4M3FN => (loop1::<f32, u8, Store<F8E4M3FN>>(), DType::F32),
        DType::F8E5M2 => (loop1::<f32, u8, Store<F8E5M2>>(), DType::F32),
        DType::F8E4M3FNUZ => (loop1::<f32, u8, Store<F8E4M3FNUZ>>(), DType::F32),
        DType::F8E5M2FNUZ => (loop1::<f32, u8, Store<F8E5M2FNUZ>>(), DType::F32),
        DType::F8E8M0FNU => (loop1::<f32, u8, Store<F8E8M0FNU>>(), DType::F32),
        d => crate::element::refuse_dtype(d),
    }
}

/// The elements of a stored dtype, as numbers that kernels compute with.
struct Wide {
    held: Vec<u64>,
    strides: Vec<usize>,
    dtype: DType,
}

impl Wide {
    /// Room for elements that are written before they are read.
    fn new(sizes: &[usize], dtype: DType) -> Wide {
        let elements: usize = sizes.iter().product();
        let held = memory::with_capacity((elements * dtype.size_bytes()).div_ceil(8));
        Wide { held, strides: row_major(sizes), dtype }
    }
    /// Read `x` for a result of dtype `to`.
    fn of(x: &View, to: DType) -> Wide {
        let (f, dtype) = load(x.dtype(), to);
        let mut y = Wide::new(x.sizes(), dtype);
        // SAFETY: views cover their memory, and the loop is made for the two dtypes.
        unsafe { run(f, &[0.0; 4], x.sizes(), Operand::raw_output(&y.view_mut(x.sizes())), [Operand::raw_input(x)]) };
        y
    }
    fn view<'a>(&'a self, sizes: &'a [usize]) -> View<'a> {
        // SAFETY: there is room for elements of these sizes.
        unsafe { View::new(self.held.as_ptr().cast(), sizes, &self.strides, self.dtype) }
    }
    fn view_mut<'a>(&'a mut self, sizes: &'a [usize]) -> ViewMut<'a> {
        // SAFETY: there is room for elements of these sizes.
        unsafe { ViewMut::new(self.held.as_mut_ptr().cast(), sizes, &self.strides, self.dtype) }
    }
}

/// [`copy`] where at least one of the dtypes is only stored, and they differ.
#[cold]
pub(crate) fn convert(x: &View, out: &mut ViewMut) {
    let sizes = x.sizes();
    if x.dtype().is_stored() {
        return copy(&Wide::of(x, out.dtype()).view(sizes), out);
    }
    let (f, dtype) = store(out.dtype(), x.dtype());
    let mut wide = Wide::new(sizes, dtype);
    copy(x, &mut wide.view_mut(sizes));
    // SAFETY: views cover their memory, and the loop is made for the two dtypes.
    unsafe { run(f, &[0.0; 4], sizes, Operand::raw_output(out), [Operand::raw_input(&wide.view(sizes))]) };
}

/// Compare elements of a stored dtype for equality.
///
/// # Errors
/// `NotImplemented` for an order.
#[cold]
pub(crate) fn compare(kind: CompareKind, a: &View, b: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    if !matches!(kind, CompareKind::Eq | CompareKind::Ne) {
        return Err(crate::pointwise::unsupported(kind.name(), a.dtype()));
    }
    let [wide_a, wide_b] = [a, b].map(|x| Wide::of(x, DType::Bool));
    crate::pointwise::compare(kind, &wide_a.view(a.sizes()), &wide_b.view(b.sizes()), out)
}

/// Return the bits of a number as an element of a stored dtype.
#[cold]
pub fn bits(value: Scalar, dtype: DType) -> u64 {
    let (float, int);
    let x = match value {
        Scalar::Float(v) => {
            float = [v];
            View::of_slice(&float, &[], &[])
        }
        Scalar::Int(v) => {
            int = [v];
            View::of_slice(&int, &[], &[])
        }
        Scalar::Bool(v) => {
            int = [i64::from(v)];
            View::of_slice(&int, &[], &[])
        }
    };
    let mut bits = [0u64];
    // SAFETY: an element has at most eight bytes.
    convert(&x, &mut unsafe { ViewMut::new(bits.as_mut_ptr().cast(), &[], &[], dtype) });
    u64::from_le(bits[0])
}

/// Return the number whose bits as an element of a stored dtype these are. One of `uint64` above the range of an `i64`
/// is a float, and may be rounded.
#[cold]
pub fn number(bits: u64, dtype: DType) -> Scalar {
    let bits = [bits.to_le()];
    // SAFETY: an element has at most eight bytes.
    let x = unsafe { View::new(bits.as_ptr().cast(), &[], &[], dtype) };
    if dtype.is_float8() || dtype == DType::U64 && bits[0] >> 63 != 0 {
        let mut y = [0f64];
        copy(&x, &mut ViewMut::of_slice(&mut y, &[], &[]));
        return Scalar::Float(y[0]);
    }
    let mut y = [0i64];
    copy(&x, &mut ViewMut::of_slice(&mut y, &[], &[]));
    Scalar::Int(y[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_dtypes_come_last() {
        for (i, d) in DType::ALL.into_iter().enumerate() {
            assert_eq!((d as usize, d.is_stored()), (i, i >= DType::FULL.len()));
            assert_eq!(d.is_rare(), d.is_complex() || d.is_stored());
        }
        assert_eq!(DType::FULL.len() + DType::STORED.len(), DType::ALL.len());
    }

    #[test]
    fn every_code_of_a_float_is_read_and_written() {
        for dtype in DType::STORED.into_iter().filter(|d| d.is_float8()) {
            for code in 0..=255u64 {
                let Scalar::Float(v) = number(code, dtype) else { panic!("{dtype:?} is a float") };
                let back = bits(Scalar::Float(v), dtype);
                assert!(back == code || v.is_nan(), "{dtype:?}: {code:#x} is {v}, and that {back:#x}");
            }
        }
    }

    #[test]
    fn integers_keep_their_bits() {
        assert_eq!(bits(Scalar::Int(-1), DType::U16), 0xffff);
        assert_eq!(bits(Scalar::Int(-1), DType::U64), u64::MAX);
        assert_eq!(bits(Scalar::Float(3e18 * 4.0), DType::U64), 12_000_000_000_000_000_000);
        assert_eq!(number(0xffff_fffe, DType::U32), Scalar::Int(0xffff_fffe));
        assert_eq!(number(5, DType::U64), Scalar::Int(5));
    }

    #[test]
    fn strided_elements_convert() {
        let x: Vec<f32> = (0..24).map(|v| v as f32 * 20.0).collect();
        let x = View::of_slice(&x, &[4, 3], &[1, 8]);
        let mut codes = [0u8; 12];
        // SAFETY: the array has 12 elements of one byte.
        let mut out = unsafe { ViewMut::new(codes.as_mut_ptr(), &[4, 3], &[3, 1], DType::F8E4M3FN) };
        copy(&x, &mut out);
        let mut y = [0f32; 12];
        copy(&out.as_view(), &mut ViewMut::of_slice(&mut y, &[4, 3], &[3, 1]));
        assert_eq!(y, [0.0, 160.0, 320.0, 20.0, 176.0, 352.0, 40.0, 192.0, 352.0, 60.0, 224.0, 384.0]);
    }
}
