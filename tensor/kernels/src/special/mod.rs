//! Special functions, each written once over [`Analytic`]. A kernel runs it on `f64`, and a lowering records it as
//! operations of a program. So all devices use the same coefficients and the same branches.
//!
//! A kernel evaluates one branch of [`Arithmetic::choose`]. A program computes both branches and selects, and so do
//! [`Wide`] numbers, which an `f32` kernel uses to compute a vector at a time.

mod bessel;
mod gamma;
mod normal;
mod polynomial;
mod proposals;
pub mod single;
mod tables;
mod wide;

pub use bessel::*;
pub use gamma::*;
pub use normal::*;
pub use polynomial::*;
pub use proposals::*;
pub(crate) use wide::Wide;
pub use wide::{EXPONENT_BIAS, MANTISSA, ROOT_HALF, WHOLE};

use std::ops::{Add, Div, Mul, Neg, Sub};

/// The operations that functions without loops use.
pub trait Arithmetic:
    Clone
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
{
    /// The result of a comparison.
    type Truth: Clone;
    /// Return a constant of the kind of `self`.
    fn of(&self, v: f64) -> Self;
    /// Return `e^x`.
    fn exp(&self) -> Self;
    /// Return the natural logarithm.
    fn ln(&self) -> Self;
    /// Return the square root.
    fn sqrt(&self) -> Self;
    /// Return the absolute value.
    fn abs(&self) -> Self;
    /// Return the nearest integer, ties to even.
    fn round(&self) -> Self;
    /// Return `e` and `f` of a positive normal `f64` number `2^e (1 + f)`, with `1 + f` between `sqrt(1/2)` and
    /// `sqrt(2)`.
    fn split(&self) -> (Self, Self);
    /// Return `self * 2^n` in `f64`, for integers n from -1022 to 1023.
    fn scaled(&self, n: &Self) -> Self;
    /// Return the magnitude of `self` with the sign of `sign`, zeros included.
    fn copysign(&self, sign: &Self) -> Self;
    /// Return `self * b + c`, rounded once if that is one instruction.
    fn fused(&self, b: &Self, c: &Self) -> Self;
    /// Return `self < other`.
    fn less(&self, other: &Self) -> Self::Truth;
    /// Return `self == other`.
    fn same(&self, other: &Self) -> Self::Truth;
    /// Return whether both hold.
    fn both(a: &Self::Truth, b: &Self::Truth) -> Self::Truth;
    /// Return whether at least one holds.
    fn either(a: &Self::Truth, b: &Self::Truth) -> Self::Truth;
    /// Return the negation.
    fn not(a: &Self::Truth) -> Self::Truth;
    /// Return `yes` where `t` holds, else `no`.
    fn choose(t: &Self::Truth, yes: impl FnOnce() -> Self, no: impl FnOnce() -> Self) -> Self;
    /// Like [`Arithmetic::choose`], for truth values.
    #[inline(always)]
    fn choose_truth(t: &Self::Truth, yes: &Self::Truth, no: &Self::Truth) -> Self::Truth {
        Self::either(&Self::both(t, yes), &Self::both(&Self::not(t), no))
    }
    /// Return `self < v`.
    #[inline(always)]
    fn below(&self, v: f64) -> Self::Truth {
        self.less(&self.of(v))
    }
    /// Return `self > v`.
    #[inline(always)]
    fn above(&self, v: f64) -> Self::Truth {
        self.of(v).less(self)
    }
    /// Return `self == v`.
    #[inline(always)]
    fn is(&self, v: f64) -> Self::Truth {
        self.same(&self.of(v))
    }
    /// Return `x * x`.
    #[inline(always)]
    fn squared(&self) -> Self {
        self.clone() * self.clone()
    }
    /// Return `1 / x`.
    #[inline(always)]
    fn inverse(&self) -> Self {
        self.of(1.0) / self.clone()
    }
}

/// The operations that special functions use.
pub trait Analytic: Arithmetic {
    /// Return the distance from one to the next larger number.
    fn epsilon(&self) -> f64;
    /// Return `e^x - 1`.
    fn exp_m1(&self) -> Self;
    /// Return `ln(1 + x)`.
    fn ln_1p(&self) -> Self;
    /// Return the sine.
    fn sin(&self) -> Self;
    /// Return the cosine.
    fn cos(&self) -> Self;
    /// Return the inverse cosine.
    fn acos(&self) -> Self;
    /// Return the largest integer that is not greater.
    fn floor(&self) -> Self;
    /// Return `x^p`.
    fn pow(&self, p: &Self) -> Self;
    /// Return `1 - erf(x)`.
    fn erfc(&self) -> Self;
    /// Return the logarithm of the gamma function.
    fn lgamma(&self) -> Self;
    /// Apply `step` while `going` holds. Afterwards the state stays unchanged.
    fn repeat<const N: usize>(
        state: [Self; N],
        going: impl Fn(&[Self; N]) -> Self::Truth,
        step: impl Fn([Self; N]) -> [Self; N],
    ) -> [Self; N];
}

impl Arithmetic for f64 {
    type Truth = bool;
    #[inline(always)]
    fn of(&self, v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn exp(&self) -> f64 {
        f64::exp(*self)
    }
    #[inline(always)]
    fn ln(&self) -> f64 {
        f64::ln(*self)
    }
    #[inline(always)]
    fn sqrt(&self) -> f64 {
        f64::sqrt(*self)
    }
    #[inline(always)]
    fn abs(&self) -> f64 {
        f64::abs(*self)
    }
    #[inline(always)]
    fn round(&self) -> f64 {
        f64::round_ties_even(*self)
    }
    #[inline(always)]
    fn split(&self) -> (f64, f64) {
        wide::split(*self)
    }
    #[inline(always)]
    fn scaled(&self, n: &f64) -> f64 {
        self * wide::power_of_two(*n)
    }
    #[inline(always)]
    fn copysign(&self, sign: &f64) -> f64 {
        f64::copysign(*self, *sign)
    }
    #[inline(always)]
    fn fused(&self, b: &f64, c: &f64) -> f64 {
        self * b + c
    }
    #[inline(always)]
    fn less(&self, other: &f64) -> bool {
        self < other
    }
    #[inline(always)]
    fn same(&self, other: &f64) -> bool {
        self == other
    }
    #[inline(always)]
    fn both(a: &bool, b: &bool) -> bool {
        *a && *b
    }
    #[inline(always)]
    fn either(a: &bool, b: &bool) -> bool {
        *a || *b
    }
    #[inline(always)]
    fn not(a: &bool) -> bool {
        !*a
    }
    #[inline(always)]
    fn choose(t: &bool, yes: impl FnOnce() -> f64, no: impl FnOnce() -> f64) -> f64 {
        if *t { yes() } else { no() }
    }
}

impl Analytic for f64 {
    #[inline(always)]
    fn epsilon(&self) -> f64 {
        f64::EPSILON
    }
    #[inline(always)]
    fn exp_m1(&self) -> f64 {
        f64::exp_m1(*self)
    }
    #[inline(always)]
    fn ln_1p(&self) -> f64 {
        f64::ln_1p(*self)
    }
    #[inline(always)]
    fn sin(&self) -> f64 {
        f64::sin(*self)
    }
    #[inline(always)]
    fn cos(&self) -> f64 {
        f64::cos(*self)
    }
    #[inline(always)]
    fn acos(&self) -> f64 {
        f64::acos(*self)
    }
    #[inline(always)]
    fn floor(&self) -> f64 {
        f64::floor(*self)
    }
    #[inline(always)]
    fn pow(&self, p: &f64) -> f64 {
        f64::powf(*self, *p)
    }
    #[inline(always)]
    fn erfc(&self) -> f64 {
        libm::erfc(*self)
    }
    #[inline(always)]
    fn lgamma(&self) -> f64 {
        libm::lgamma(*self)
    }
    fn repeat<const N: usize>(
        mut state: [f64; N],
        going: impl Fn(&[f64; N]) -> bool,
        step: impl Fn([f64; N]) -> [f64; N],
    ) -> [f64; N] {
        while going(&state) {
            state = step(state);
        }
        state
    }
}

/// Evaluate a polynomial, with its highest term first.
#[inline(always)]
fn polynomial<T: Arithmetic, const N: usize>(x: &T, c: &[f64; N]) -> T {
    c[1..].iter().fold(x.of(c[0]), |y, &c| y.fused(x, &x.of(c)))
}

/// Evaluate a Chebyshev series in `x / 2` by Clenshaw's recurrence, with its highest term first.
fn chebyshev<T: Analytic, const N: usize>(x: &T, c: &[f64; N]) -> T {
    let [mut b0, mut b1, mut b2] = [x.of(c[0]), x.of(0.0), x.of(0.0)];
    for &c in &c[1..] {
        (b2, b1) = (b1, b0);
        b0 = x.clone() * b1.clone() - b2.clone() + c;
    }
    (b0 - b2) * 0.5
}

/// Return the coefficients of a power series, with its highest term first. Term `k` is the one before it, divided by
/// `(3k - less) (3k - less + 1)`.
const fn cubic_series<const N: usize>(less: i32) -> [f64; N] {
    let mut c = [1.0; N];
    let mut k = 1;
    while k < N {
        let d = (3 * k as i32 - less) as f64;
        c[N - 1 - k] = c[N - k] / (d * (d + 1.0));
        k += 1;
    }
    c
}
