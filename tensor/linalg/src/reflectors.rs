//! QR decomposition by reflectors.

use crate::columns::{Columns, add_product, adjoint_product, dot, length};
use crate::number::Number;
use num_traits::Float;

/// Number of reflectors that are applied together.
const BLOCK: usize = 32;

/// Reflect `x` to a multiple of the first unit vector. The multiple replaces `x[0]`. The reflector's vector, without
/// its first element (one), replaces `x[1..]`. Return the reflector's factor `tau`.
fn reflector<T: Number>(x: &mut [T]) -> T {
    let rest = length(&x[1..]);
    let first = x[0];
    if rest == T::Part::ZERO && first.im() == T::Part::ZERO {
        return T::ZERO;
    }
    let whole = first.modulus().hypot(rest);
    let multiple = if first.re() >= T::Part::ZERO { -whole } else { whole };
    let scale = T::ONE / (first - T::real(multiple));
    for v in &mut x[1..] {
        *v *= scale;
    }
    x[0] = T::real(multiple);
    T::of((multiple - first.re()) / multiple, -first.im() / multiple)
}

/// Return the vectors `v` of the reflectors `from..to` of a packed matrix, from row `from` on, and the triangle `t`
/// such that their product is `1 - v t v^H`.
fn block<T: Number>(packed: &Columns<T>, tau: &[T], from: usize, to: usize) -> (Columns<T>, Columns<T>) {
    let mut v = Columns::identity(packed.rows - from, to - from);
    for j in from..to {
        v.column_mut(j - from)[j - from + 1..].copy_from_slice(&packed.column(j)[j + 1..]);
    }
    let overlap = adjoint_product(v.view(), v.view());
    let mut t = Columns::zeros(to - from, to - from);
    for i in 0..to - from {
        let factor = tau[from + i];
        *t.at(i, i) = factor;
        for row in 0..i {
            let sum = (row..i).fold(T::ZERO, |s, k| s + t.get(row, k) * overlap.get(k, i));
            *t.at(row, i) = -factor * sum;
        }
    }
    (v, t)
}

/// Compute `a = Q R` for `a: (m, n)`. `R` replaces `a` on and above the diagonal, and the reflectors' vectors below it.
/// Their factors are written to `tau`.
pub fn qr<T: Number>(a: &mut [T], m: usize, n: usize, tau: &mut [T]) {
    let mut c = Columns::from_rows(a, m, n);
    let all = m.min(n);
    for from in (0..all).step_by(BLOCK) {
        let to = (from + BLOCK).min(all);
        for j in from..to {
            tau[j] = reflector(&mut c.column_mut(j)[j..]);
            let factor = tau[j].conjugated();
            for k in j + 1..to {
                let (v, x) = c.two_columns(j, k);
                let (v, x) = (&v[j + 1..], &mut x[j..]);
                let along = (x[0] + dot(v, &x[1..])) * factor;
                x[0] -= along;
                for (x, &v) in x[1..].iter_mut().zip(v) {
                    *x -= v * along;
                }
            }
        }
        if to < n {
            let (v, t) = block(&c, tau, from, to);
            let rest = c.view_mut().submatrix_mut(from, to, m - from, n - to);
            let along = adjoint_product(t.view(), adjoint_product(v.view(), rest.as_ref()).view());
            add_product(rest, -T::ONE, v.view(), along.view());
        }
    }
    c.write_rows(a);
}
