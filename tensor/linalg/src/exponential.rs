//! The exponential of a matrix.

use crate::columns::{Columns, product};
use crate::memory;
use crate::number::Number;
use num_traits::Float;

/// Coefficients of the Padé approximation of degree 13 (Higham, "The scaling and squaring method for the matrix
/// exponential revisited", 2005).
const PADE: [f64; 14] = [
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
];

/// Largest norm for which this approximation has the precision of `f64`.
const REACH: f64 = 5.371920351148152;

/// Return the sum of `factors[i] * of[i]`.
fn combined<T: Number<Part = f64>>(n: usize, factors: &[f64], of: &[&Columns<T>]) -> Columns<T> {
    let mut sum = Columns::zeros(n, n);
    for (&by, m) in factors.iter().zip(of) {
        for (s, &v) in sum.data.iter_mut().zip(&m.data) {
            *s += T::real(by) * v;
        }
    }
    sum
}

/// Compute `e^a` in place of `a`, in `f64`.
pub fn matrix_exp<T: Number>(a: &mut [T], n: usize) {
    let wide: Vec<T::Wide> = memory::collect(a.len(), a.iter().map(|v| v.wide()));
    let mut x = Columns::from_rows(&wide, n, n);
    let norm = (0..n).map(|j| x.column(j).iter().fold(0.0, |s, v| s + v.modulus())).fold(0.0, f64::max);
    if !norm.is_finite() {
        a.fill(T::real(T::Part::nan()));
        return;
    }
    let halvings = if norm > REACH { (norm / REACH).log2().ceil() as i32 } else { 0 };
    for v in &mut x.data {
        *v *= <T::Wide as Number>::real(0.5f64.powi(halvings));
    }
    let unit = Columns::identity(n, n);
    let x2 = product(x.view(), x.view());
    let x4 = product(x2.view(), x2.view());
    let x6 = product(x4.view(), x2.view());
    let c = &PADE;
    let half = |inner: [f64; 3], outer: [f64; 4]| {
        let high = product(x6.view(), combined(n, &inner, &[&x6, &x4, &x2]).view());
        let mut sum = combined(n, &outer, &[&x6, &x4, &x2, &unit]);
        for (s, &v) in sum.data.iter_mut().zip(&high.data) {
            *s += v;
        }
        sum
    };
    let odd = product(x.view(), half([c[13], c[11], c[9]], [c[7], c[5], c[3], c[1]]).view());
    let even = half([c[12], c[10], c[8]], [c[6], c[4], c[2], c[0]]);
    let mut below = memory::filled(T::Wide::ZERO, n * n);
    let mut above = memory::filled(T::Wide::ZERO, n * n);
    combined(n, &[1.0, -1.0], &[&even, &odd]).write_rows(&mut below);
    combined(n, &[1.0, 1.0], &[&even, &odd]).write_rows(&mut above);
    let mut pivots = memory::filled(0, n);
    crate::lu(&mut below, n, n, &mut pivots);
    crate::lu_solve(&below, &pivots, &mut above, n, n);
    let mut y = Columns::from_rows(&above, n, n);
    for _ in 0..halvings {
        y = product(y.view(), y.view());
    }
    y.write_rows(&mut above);
    for (a, &v) in a.iter_mut().zip(&above) {
        *a = T::narrow(v);
    }
}
