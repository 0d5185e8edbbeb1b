//! The four element types.

use faer::traits::{ComplexField, RealField};
use num_complex::Complex;
use num_traits::{Float, NumAssign};
use std::ops::Neg;

/// `f32`, `f64` or a complex number of them.
pub trait Number: ComplexField + Copy + NumAssign + Neg<Output = Self> {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The type of a real part.
    type Part: Number<Part = Self::Part> + Float + RealField;
    /// A number of this kind in double precision. `f32` is computed in it if the cost does not matter.
    type Wide: Number<Part = f64>;
    /// Make a number from its parts. Real numbers drop the second part.
    fn of(re: Self::Part, im: Self::Part) -> Self;
    /// Return the real part.
    fn re(self) -> Self::Part;
    /// Return the imaginary part.
    fn im(self) -> Self::Part;
    /// Return the conjugate.
    fn conjugated(self) -> Self {
        Self::of(self.re(), -self.im())
    }
    /// Return the absolute value.
    fn modulus(self) -> Self::Part {
        self.re().hypot(self.im())
    }
    /// Return the number divided by its absolute value, also of infinities. Zero, and a real NaN, give zero.
    fn phase(self) -> Self {
        let (size, zero) = (self.modulus(), Self::Part::ZERO);
        let is_real = Self::of(zero, Self::Part::ONE) == Self::ZERO;
        if size == zero || (Float::is_nan(size) && is_real) {
            return Self::ZERO;
        }
        if !Float::is_infinite(size) {
            return self / Self::real(size);
        }
        let unit = |p: Self::Part| if Float::is_infinite(p) { Float::signum(p) } else { zero };
        let unit = Self::of(unit(self.re()), unit(self.im()));
        unit / Self::real(unit.modulus())
    }
    /// Return the size by which LAPACK compares complex numbers: the sum of the parts' absolute values.
    fn size(self) -> Self::Part {
        Float::abs(self.re()) + Float::abs(self.im())
    }
    /// Convert a real number to this kind.
    fn real(re: Self::Part) -> Self {
        Self::of(re, Self::Part::ZERO)
    }
    /// Convert to double precision.
    fn wide(self) -> Self::Wide;
    /// Convert from double precision.
    fn narrow(v: Self::Wide) -> Self;
    /// Compute the eigenvalues of `n` by `n` elements stored by columns, and optionally the eigenvectors. Return `None`
    /// if they did not converge.
    fn eigen(a: &[Self], n: usize, vectors: bool) -> Option<Eigen<Self::Part>>;
}

/// Eigenvalues, and eigenvectors stored by columns.
pub type Eigen<P> = (Vec<Complex<P>>, Vec<Complex<P>>);

macro_rules! numbers {
    ($($t:ident)*) => {$(
        impl Number for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            type Part = $t;
            type Wide = f64;
            fn of(re: $t, _: $t) -> $t {
                re
            }
            fn re(self) -> $t {
                self
            }
            fn im(self) -> $t {
                0.0
            }
            fn wide(self) -> f64 {
                self.into()
            }
            fn narrow(v: f64) -> $t {
                v as $t
            }
            fn eigen(a: &[$t], n: usize, vectors: bool) -> Option<Eigen<$t>> {
                crate::eigen::of_real(a, n, vectors)
            }
        }
        impl Number for Complex<$t> {
            const ZERO: Complex<$t> = Complex { re: 0.0, im: 0.0 };
            const ONE: Complex<$t> = Complex { re: 1.0, im: 0.0 };
            type Part = $t;
            type Wide = Complex<f64>;
            fn of(re: $t, im: $t) -> Complex<$t> {
                Complex { re, im }
            }
            fn re(self) -> $t {
                self.re
            }
            fn im(self) -> $t {
                self.im
            }
            fn wide(self) -> Complex<f64> {
                Complex { re: self.re.into(), im: self.im.into() }
            }
            fn narrow(v: Complex<f64>) -> Complex<$t> {
                Complex { re: v.re as $t, im: v.im as $t }
            }
            fn eigen(a: &[Complex<$t>], n: usize, vectors: bool) -> Option<Eigen<$t>> {
                crate::eigen::of_complex(a, n, vectors)
            }
        }
    )*};
}
numbers! { f32 f64 }
