//! `f64` as a kernel of `f32` computes with it: without branches and library calls, so that loops become vector code. Results
//! are rounded to `f32` once, which hides all errors that are made here.

use super::{Arithmetic, polynomial};
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

/// Adding it rounds to an integer, which then stands in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// From here on all numbers are integers.
const WHOLE: f64 = 4_503_599_627_370_496.0;
/// ln 2 with its last 20 bits cut off, so that products with exponents are exact, and the rest.
const LN2_HIGH: f64 = f64::from_bits(std::f64::consts::LN_2.to_bits() & !0xf_ffff);
const LN2_LOW: f64 = 7.440_617_110_012_397e-11;

/// `1 / n!`, of 13 downward.
const EXP: [f64; 14] = {
    let mut c = [1.0; 14];
    let mut n = 1;
    while n < 14 {
        c[13 - n] = c[14 - n] / n as f64;
        n += 1;
    }
    c
};

/// `2 / (2k + 1)`, of k = 10 down to 1: the series of `ln((1 + s) / (1 - s)) / s` after its first term.
const LOG: [f64; 10] = {
    let mut c = [0.0; 10];
    let mut k = 1;
    while k <= 10 {
        c[10 - k] = 2.0 / (2 * k + 1) as f64;
        k += 1;
    }
    c
};

impl<const FMA: bool> Arithmetic for Wide<FMA> {
    type Truth = bool;
    #[inline(always)]
    fn of(&self, v: f64) -> Self {
        Wide(v)
    }
    /// Infinite beyond `e^700`, and cut off at `e^-700`, which is zero in `f32`.
    #[inline(always)]
    fn exp(&self) -> Self {
        let x = self.0;
        let x = if x > 700.0 { 700.0 } else { x };
        let x = if x < -700.0 { -700.0 } else { x };
        let shifted = Wide::<FMA>(x).fused(&Wide(std::f64::consts::LOG2_E), &Wide(ROUNDER)).0;
        let n = Wide::<FMA>(shifted - ROUNDER);
        let r = n.fused(&Wide(-LN2_LOW), &n.fused(&Wide(-LN2_HIGH), &Wide(x)));
        // The exponent moves up from the low bits; a NaN has any, and stays one.
        let y = polynomial(&r, &EXP).0 * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
        Wide(if x == 700.0 { f64::INFINITY } else { y })
    }
    /// Of subnormal numbers it is wrong: none of `f32` is one in `f64`.
    #[inline(always)]
    fn ln(&self) -> Self {
        let x = self.0;
        // `x = 2^e (1 + f)`, with 1 + f between sqrt(1/2) and sqrt(2).
        const ROOT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
        let above = x.to_bits().wrapping_sub(ROOT_HALF);
        let f = f64::from_bits((above & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT_HALF)) - 1.0;
        // An exponent becomes a number as the low bits of one, since vectors of integers are not converted everywhere.
        let e = f64::from_bits(WHOLE.to_bits() | (above.wrapping_add(2048 << 52) >> 52)) - (WHOLE + 2048.0);
        let s = Wide::<FMA>(f / (2.0 + f));
        let z = s.squared();
        let tail = polynomial(&z, &LOG) * z;
        let e = Wide::<FMA>(e);
        let low = e.fused(&Wide(LN2_LOW), &(tail * s));
        let y = e.fused(&Wide(LN2_HIGH), &(low + s.0 * 2.0)).0;
        let y = if x == f64::INFINITY { x } else { y };
        let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
        Wide(if x >= 0.0 { y } else { f64::NAN })
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
        // Processors with the one instruction have the other.
        if FMA {
            return Wide(self.0.round_ties_even());
        }
        let a = self.0.abs();
        Wide(if a < WHOLE { (a + WHOLE - WHOLE).copysign(self.0) } else { self.0 })
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
    /// Both are computed: a jump would keep the loop scalar.
    #[inline(always)]
    fn choose(t: &bool, yes: impl FnOnce() -> Self, no: impl FnOnce() -> Self) -> Self {
        Wide(select_unpredictable(*t, yes().0, no().0))
    }
}
