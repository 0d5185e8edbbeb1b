//! Orthogonal polynomials whose degree is an operand. The degree is truncated to an integer. For a negative degree, the
//! polynomial is zero.

use super::Analytic;
use crate::pointwise::kinds;

kinds! {
    /// A family of orthogonal polynomials, by PyTorch's name.
    PolynomialKind {
        ChebyshevT "special_chebyshev_polynomial_t", ChebyshevU "special_chebyshev_polynomial_u",
        ChebyshevV "special_chebyshev_polynomial_v", ChebyshevW "special_chebyshev_polynomial_w",
        ShiftedChebyshevT "special_shifted_chebyshev_polynomial_t",
        ShiftedChebyshevU "special_shifted_chebyshev_polynomial_u",
        ShiftedChebyshevV "special_shifted_chebyshev_polynomial_v",
        ShiftedChebyshevW "special_shifted_chebyshev_polynomial_w",
        HermiteH "special_hermite_polynomial_h", HermiteHe "special_hermite_polynomial_he",
        Laguerre "special_laguerre_polynomial_l", Legendre "special_legendre_polynomial_p",
    }
}

/// Return the polynomial of degree `n` at `x`, by its recurrence. Chebyshev polynomials of high degree use angles
/// inside their interval, so that the number of steps does not grow.
pub fn orthogonal<T: Analytic>(kind: PolynomialKind, x: &T, n: &T) -> T {
    use PolynomialKind::*;
    let chebyshev = !matches!(kind, HermiteH | HermiteHe | Laguerre | Legendre);
    let shifted = matches!(kind, ShiftedChebyshevT | ShiftedChebyshevU | ShiftedChebyshevV | ShiftedChebyshevW);
    let x = if shifted { x.clone() * 2.0 - 1.0 } else { x.clone() };
    // Truncate towards zero. NaN and infinities have no degree.
    let whole = T::choose(&n.above(-1.0), || T::choose(&n.below(0.0), || n.of(0.0), || n.floor()), || n.of(-1.0));
    let n = T::choose(&n.abs().below(9e18), || whole.clone(), || n.of(-1.0));
    let first = match kind {
        ChebyshevT | ShiftedChebyshevT | HermiteHe | Legendre => x.clone(),
        ChebyshevU | ShiftedChebyshevU | HermiteH => x.clone() * 2.0,
        ChebyshevV | ShiftedChebyshevV => x.clone() * 2.0 - 1.0,
        ChebyshevW | ShiftedChebyshevW => x.clone() * 2.0 + 1.0,
        Laguerre => -x.clone() + 1.0,
    };
    let high =
        if chebyshev { T::both(&n.above(8.0), &x.abs().below(1.0)) } else { T::both(&x.below(0.0), &x.above(0.0)) };
    // Stop when the value is no longer finite: `y - y` is zero only for finite numbers.
    let [_, y, _] = T::repeat(
        [x.of(1.0), first, x.of(1.0)],
        |[_, q, k]| {
            let live = T::both(&k.less(&n), &(q.clone() - q.clone()).is(0.0));
            T::both(&live, &T::not(&high))
        },
        |[p, q, k]| {
            let next = match kind {
                HermiteH => (x.clone() * q.clone() - k.clone() * p) * 2.0,
                HermiteHe => x.clone() * q.clone() - k.clone() * p,
                Laguerre => ((k.clone() * 2.0 + 1.0 - x.clone()) * q.clone() - k.clone() * p) / (k.clone() + 1.0),
                Legendre => ((k.clone() * 2.0 + 1.0) * x.clone() * q.clone() - k.clone() * p) / (k.clone() + 1.0),
                _ => x.clone() * 2.0 * q.clone() - p,
            };
            [q, next, k + 1.0]
        },
    );
    let by_angle = || {
        let t = x.acos();
        match kind {
            ChebyshevT | ShiftedChebyshevT => (n.clone() * t).cos(),
            ChebyshevU | ShiftedChebyshevU => ((n.clone() + 1.0) * t.clone()).sin() / t.sin(),
            ChebyshevV | ShiftedChebyshevV => ((n.clone() + 0.5) * t.clone()).cos() / (t * 0.5).cos(),
            _ => ((n.clone() + 0.5) * t.clone()).sin() / (t * 0.5).sin(),
        }
    };
    let y = if chebyshev { T::choose(&high, by_angle, || y.clone()) } else { y };
    let y = T::choose(&n.below(1.0), || x.of(1.0), || y.clone());
    T::choose(&n.below(0.0), || x.of(0.0), || y.clone())
}
