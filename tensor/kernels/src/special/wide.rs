//! `f64` numbers for `f32` kernels, without branches and library calls, so that loops are vectorised. Results are
//! rounded to `f32` once, which hides all errors made here.

use super::{Arithmetic, single};
use std::hint::select_unpredictable;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number. `FMA` says whether `mul_add` is one instruction.
#[derive(Clone, Copy)]
pub(crate) struct Wide<const FMA: bool>(pub(crate) f64);

macro_rules! operators {
    ($($Trait:ident $name:ident;)*) => {$(
        impl<const FMA: bool> $Trait for Wide<FMA> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self { Wide(self.0.$name(other.0)) }
        }
        impl<const FMA: bool> $Trait<f64> for Wide<FMA> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: f64) -> Self { Wide(self.0.$name(other)) }
        }
    )*};
}
operators! { Add add; Sub sub; Mul mul; Div div; }

impl<const FMA: bool> Neg for Wide<FMA> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Wide(-self.0)
    }
}

/// From here on all `f64` are integers. Adding this moves an integer to the low mantissa bits.
pub const WHOLE: f64 = 4_503_599_627_370_496.0;
/// Subtracting these bits makes the exponent of a number that of its nearest power of two.
pub const ROOT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
/// The mantissa bits of a number.
pub const MANTISSA: u64 = 0x000f_ffff_ffff_ffff;
/// Offset that keeps exponents positive.
pub const EXPONENT_BIAS: u64 = 2048;

/// See [`Arithmetic::split`].
#[inline(always)]
pub(super) fn split(x: f64) -> (f64, f64) {
    let above = x.to_bits().wrapping_sub(ROOT_HALF);
    let f = f64::from_bits((above & MANTISSA).wrapping_add(ROOT_HALF)) - 1.0;
    // Convert the exponent to a number through the low mantissa bits, because not every processor converts vectors of
    // integers.
    let e = above.wrapping_add(EXPONENT_BIAS << 52) >> 52;
    (f64::from_bits(WHOLE.to_bits() | e) - (WHOLE + EXPONENT_BIAS as f64), f)
}

/// Return `2^n` for integers n from -1022 to 1023.
#[inline(always)]
pub(super) fn power_of_two(n: f64) -> f64 {
    f64::from_bits((n + (WHOLE + 1023.0)).to_bits() << 52)
}

impl<const FMA: bool> Arithmetic for Wide<FMA> {
    type Truth = bool;
    #[inline(always)]
    fn of(&self, v: f64) -> Self {
        Wide(v)
    }
    #[inline(always)]
    fn exp(&self) -> Self {
        single::exp(self)
    }
    #[inline(always)]
    fn ln(&self) -> Self {
        single::ln(self)
    }
    #[inline(always)]
    fn sqrt(&self) -> Self {
        Wide(self.0.sqrt())
    }
    #[inline(always)]
    fn abs(&self) -> Self {
        Wide(self.0.abs())
    }
    #[inline(always)]
    fn round(&self) -> Self {
        // Processors with FMA also have an instruction for rounding.
        if FMA {
            return Wide(self.0.round_ties_even());
        }
        let a = self.0.abs();
        Wide(if a < WHOLE { (a + WHOLE - WHOLE).copysign(self.0) } else { self.0 })
    }
    #[inline(always)]
    fn split(&self) -> (Self, Self) {
        let (e, f) = split(self.0);
        (Wide(e), Wide(f))
    }
    #[inline(always)]
    fn scaled(&self, n: &Self) -> Self {
        Wide(self.0 * power_of_two(n.0))
    }
    #[inline(always)]
    fn copysign(&self, sign: &Self) -> Self {
        Wide(self.0.copysign(sign.0))
    }
    #[inline(always)]
    fn fused(&self, b: &Self, c: &Self) -> Self {
        Wide(if FMA { self.0.mul_add(b.0, c.0) } else { self.0 * b.0 + c.0 })
    }
    #[inline(always)]
    fn less(&self, other: &Self) -> bool {
        self.0 < other.0
    }
    #[inline(always)]
    fn same(&self, other: &Self) -> bool {
        self.0 == other.0
    }
    #[inline(always)]
    fn both(a: &bool, b: &bool) -> bool {
        a & b
    }
    #[inline(always)]
    fn either(a: &bool, b: &bool) -> bool {
        a | b
    }
    #[inline(always)]
    fn not(a: &bool) -> bool {
        !a
    }
    /// Compute both branches: a jump would keep the loop scalar.
    #[inline(always)]
    fn choose(t: &bool, yes: impl FnOnce() -> Self, no: impl FnOnce() -> Self) -> Self {
        Wide(select_unpredictable(*t, yes().0, no().0))
    }
}
