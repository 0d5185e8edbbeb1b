//! Conversions between element types, written so that the compiler vectorises them.
//!
//! The scalar conversions of the `half` crate check the processor's features at every element, which prevents vector
//! code. The bit operations here are branch-free. They are exact, including subnormals, infinities and NaN.

use crate::loops::{Params, multiversion};
use crate::map::Map1;
use crate::{Bool, DType, Element, bf16, f16};

/// Convert `f16` bits to `f32`.
#[inline(always)]
pub(crate) fn f16_to_f32(h: u16) -> f32 {
    let sign = (h as u32 & 0x8000) << 16;
    let magnitude = (h as u32 & 0x7fff) << 13;
    // Multiplying by 2^112 corrects the exponent's bias and makes subnormals normal.
    let finite = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let special = magnitude | 0x7f80_0000;
    f32::from_bits(sign | if magnitude >= 0x0f80_0000 { special } else { finite })
}

/// Convert `f32` to `f16` bits, to nearest, ties to even.
#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Adding 0.5 makes the adder shift and round a subnormal: the unit in the last place of 0.5 is the smallest `f16`.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff).wrapping_add((magnitude >> 13) & 1) >> 13;
    let special = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    let r = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let r = if magnitude >= 0x4780_0000 { special } else { r };
    (sign | r) as u16
}

/// Convert `bf16` bits to `f32`.
#[inline(always)]
pub(crate) fn bf16_to_f32(h: u16) -> f32 {
    f32::from_bits((h as u32) << 16)
}

/// Convert `f32` to `bf16` bits, to nearest, ties to even.
#[inline(always)]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded }) as u16
}

macro_rules! half_rows {
    ($($widen:ident $widen_body:ident $narrow:ident $narrow_body:ident $to:ident $from:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $widen_body<const FMA: bool>(x: *const u8, step: usize, out: *mut f32, n: usize) {
            // SAFETY: the caller passes `n` readable elements and room for `n` results.
            unsafe {
                if step == 2 {
                    let x = x.cast::<u16>();
                    for i in 0..n {
                        *out.add(i) = $to(*x.add(i));
                    }
                } else {
                    for i in 0..n {
                        *out.add(i) = $to(*x.add(i * step).cast::<u16>());
                    }
                }
            }
        }
        #[inline(always)]
        unsafe fn $narrow_body<const FMA: bool>(x: *const f32, out: *mut u8, step: usize, n: usize) {
            // SAFETY: the caller passes `n` readable elements and room for `n` results.
            unsafe {
                if step == 2 {
                    let out = out.cast::<u16>();
                    for i in 0..n {
                        *out.add(i) = $from(*x.add(i));
                    }
                } else {
                    for i in 0..n {
                        *out.add(i * step).cast::<u16>() = $from(*x.add(i));
                    }
                }
            }
        }
        multiversion! {
            /// Read `n` 16-bit floats, `step` bytes apart, as `f32`.
            pub(crate) unsafe fn $widen<>(x: *const u8, step: usize, out: *mut f32, n: usize) = $widen_body
        }
        multiversion! {
            /// Write `n` numbers as 16-bit floats, `step` bytes apart.
            pub(crate) unsafe fn $narrow<>(x: *const f32, out: *mut u8, step: usize, n: usize) = $narrow_body
        }
    )*};
}
half_rows! {
    widen_f16 widen_f16_body narrow_f16 narrow_f16_body f16_to_f32 f32_to_f16;
    widen_bf16 widen_bf16_body narrow_bf16 narrow_bf16_body bf16_to_f32 f32_to_bf16;
}

/// An element type that converts through `f32`.
pub(crate) trait Number: Element {
    fn f32(self) -> f32;
    fn of_f32(v: f32) -> Self;
    fn is_true(self) -> bool;
}

macro_rules! number {
    ($($t:ty: |$a:ident| $to_f32:expr, |$b:ident| $from_f32:expr, |$d:ident| $is_true:expr;)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn f32(self) -> f32 { let $a = self; $to_f32 }
            #[inline(always)]
            fn of_f32($b: f32) -> Self { $from_f32 }
            #[inline(always)]
            fn is_true(self) -> bool { let $d = self; $is_true }
        }
    )*};
}
number! {
    bool: |a| a as u8 as f32, |v| v != 0.0, |d| d;
    Bool: |a| Bool::is_true(a) as u8 as f32, |v| Bool::from(v != 0.0), |d| Bool::is_true(d);
    u8: |a| a as f32, |v| v as i64 as u8, |d| d != 0;
    i8: |a| a as f32, |v| v as i64 as i8, |d| d != 0;
    i16: |a| a as f32, |v| v as i64 as i16, |d| d != 0;
    i32: |a| a as f32, |v| v as i64 as i32, |d| d != 0;
    i64: |a| a as f32, |v| v as i64, |d| d != 0;
    f16: |a| f16_to_f32(a.to_bits()), |v| f16::from_bits(f32_to_f16(v)), |d| d.to_bits() & 0x7fff != 0;
    bf16: |a| bf16_to_f32(a.to_bits()), |v| bf16::from_bits(f32_to_bf16(v)), |d| d.to_bits() & 0x7fff != 0;
    f32: |a| a, |v| v, |d| d != 0.0;
    f64: |a| a as f32, |v| v as f64, |d| d != 0.0;
}

/// Convert like PyTorch's `Tensor.to`: floats truncate towards zero, and anything but zero is true.
#[inline(always)]
pub(crate) fn cast<A: Number, R: Number>(a: A) -> R {
    if matches!(R::DTYPE, DType::Bool) {
        R::from_i64(a.is_true() as i64)
    } else if A::DTYPE.is_float() && R::DTYPE.is_int() {
        // Values out of range become the least integer of the processor's conversion width, as in PyTorch.
        let v = a.to_f64();
        if matches!(R::DTYPE, DType::I32) {
            let fits = v > -2_147_483_649.0 && v < 2_147_483_648.0;
            R::from_i64(if fits { v as i32 } else { i32::MIN } as i64)
        } else {
            let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&v);
            R::from_i64(if fits { v as i64 } else { i64::MIN })
        }
    } else if !A::DTYPE.is_float() {
        R::from_i64(a.to_i64())
    } else if matches!(R::DTYPE, DType::F64) {
        R::from_f64(a.to_f64())
    } else {
        R::of_f32(a.f32())
    }
}

/// [`cast`] as an element-wise function.
pub(crate) struct Cast;
impl<A: Number, R: Number> Map1<A, R> for Cast {
    #[inline(always)]
    fn at<const FMA: bool>(_: &Params, a: A) -> R {
        cast(a)
    }
}
