//! Symmetric and Hermitian matrices that need not be positive definite: diagonal pivots of one or two rows (Bunch and
//! Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems", 1977).

use crate::number::Number;
use num_traits::{Float, NumCast};

/// Return the conjugate of `v` if the matrix is Hermitian, else `v`.
fn conjugate_if<T: Number>(v: T, hermitian: bool) -> T {
    if hermitian { v.conjugated() } else { v }
}

fn diagonal_size<T: Number>(v: T, hermitian: bool) -> T::Part {
    if hermitian { Float::abs(v.re()) } else { v.size() }
}

/// Compute `a = L D L^T`, or `L D L^H`, from the lower triangle of `a`, in its place. A positive pivot is a block of
/// one row, which was swapped with row `pivot - 1`. Two equal negative pivots are a block of two rows, whose second row
/// was swapped with row `-pivot - 1`. Return zero, or the number of the first block that is zero.
pub fn ldl<T: Number>(a: &mut [T], n: usize, hermitian: bool, pivots: &mut [i32]) -> i32 {
    let alpha: T::Part = NumCast::from((1.0 + 17f64.sqrt()) / 8.0).expect("a number");
    let at = |i: usize, j: usize| i * n + j;
    let mut info = 0;
    let mut k = 0;
    while k < n {
        let own = diagonal_size(a[at(k, k)], hermitian);
        let greatest =
            (k + 1..n).fold(k + 1, |best, i| if a[at(i, k)].size() > a[at(best, k)].size() { i } else { best });
        let below = if k + 1 < n { a[at(greatest, k)].size() } else { T::Part::ZERO };
        let (mut with, mut step) = (k, 1);
        if own.max(below) == T::Part::ZERO || own.is_nan() {
            info = if info == 0 { k as i32 + 1 } else { info };
            if hermitian {
                a[at(k, k)] = T::real(a[at(k, k)].re());
            }
            pivots[k] = k as i32 + 1;
            k += 1;
            continue;
        }
        if own < alpha * below {
            let row = (k..greatest).map(|j| a[at(greatest, j)].size());
            let column = (greatest + 1..n).map(|i| a[at(i, greatest)].size());
            let beside = row.chain(column).fold(T::Part::ZERO, Float::max);
            if own < alpha * below * (below / beside) {
                with = greatest;
                step = if diagonal_size(a[at(greatest, greatest)], hermitian) >= alpha * beside { 1 } else { 2 };
            }
        }
        let last = k + step - 1;
        if with != last {
            for i in with + 1..n {
                a.swap(at(i, last), at(i, with));
            }
            for j in last + 1..with {
                let (x, y) = (a[at(j, last)], a[at(with, j)]);
                a[at(j, last)] = conjugate_if(y, hermitian);
                a[at(with, j)] = conjugate_if(x, hermitian);
            }
            a[at(with, last)] = conjugate_if(a[at(with, last)], hermitian);
            a.swap(at(last, last), at(with, with));
            if step == 2 {
                a.swap(at(k + 1, k), at(with, k));
            }
        }
        if hermitian {
            for i in [k, last, with] {
                a[at(i, i)] = T::real(a[at(i, i)].re());
            }
        }
        if step == 1 {
            let by = T::ONE / a[at(k, k)];
            for j in k + 1..n {
                let x = by * conjugate_if(a[at(j, k)], hermitian);
                for i in j..n {
                    let v = a[at(i, k)];
                    a[at(i, j)] -= v * x;
                }
                if hermitian {
                    a[at(j, j)] = T::real(a[at(j, j)].re());
                }
            }
            for i in k + 1..n {
                a[at(i, k)] *= by;
            }
            pivots[k] = with as i32 + 1;
        } else {
            // Multiply the columns below the block of two by its inverse.
            let off = a[at(k + 1, k)];
            let size = if hermitian { T::real(off.modulus()) } else { off };
            let (low, high) = (a[at(k + 1, k + 1)] / size, a[at(k, k)] / size);
            let by = T::ONE / (low * high - T::ONE) / size;
            let turn = if hermitian { off / size } else { T::ONE };
            for j in k + 2..n {
                let (x, y) = (a[at(j, k)], a[at(j, k + 1)]);
                let first = by * (low * x - turn * y);
                let second = by * (high * y - conjugate_if(turn, hermitian) * x);
                for i in j..n {
                    let (p, q) = (a[at(i, k)], a[at(i, k + 1)]);
                    a[at(i, j)] -= p * conjugate_if(first, hermitian) + q * conjugate_if(second, hermitian);
                }
                a[at(j, k)] = first;
                a[at(j, k + 1)] = second;
                if hermitian {
                    a[at(j, j)] = T::real(a[at(j, j)].re());
                }
            }
            pivots[k] = -(with as i32) - 1;
            pivots[k + 1] = pivots[k];
        }
        k += step;
    }
    info
}

/// Compute `b[to] -= factor b[from]` for rows of `k` elements.
fn subtract<T: Number>(b: &mut [T], k: usize, to: usize, factor: T, from: usize) {
    for j in 0..k {
        let v = b[from * k + j];
        b[to * k + j] -= factor * v;
    }
}

fn swap_rows<T: Number>(b: &mut [T], k: usize, x: usize, y: usize) {
    for j in 0..k {
        b.swap(x * k + j, y * k + j);
    }
}

/// Solve `a x = b` from the result of [`ldl`] for `a`, with `x` in place of `b: (n, k)`.
pub fn ldl_solve<T: Number>(ld: &[T], pivots: &[i32], b: &mut [T], n: usize, k: usize, hermitian: bool) {
    let at = |i: usize, j: usize| ld[i * n + j];
    let mut r = 0;
    while r < n {
        let other = pivots[r].unsigned_abs() as usize - 1;
        if pivots[r] > 0 || r + 1 == n {
            swap_rows(b, k, r, other);
            for i in r + 1..n {
                subtract(b, k, i, at(i, r), r);
            }
            let by = T::ONE / at(r, r);
            b[r * k..][..k].iter_mut().for_each(|v| *v *= by);
            r += 1;
        } else {
            swap_rows(b, k, r + 1, other);
            for i in r + 2..n {
                subtract(b, k, i, at(i, r), r);
                subtract(b, k, i, at(i, r + 1), r + 1);
            }
            let off = at(r + 1, r);
            let turn = conjugate_if(off, hermitian);
            let (high, low) = (at(r, r) / turn, at(r + 1, r + 1) / off);
            let by = T::ONE / (high * low - T::ONE);
            for j in 0..k {
                let (x, y) = (b[r * k + j] / turn, b[(r + 1) * k + j] / off);
                b[r * k + j] = (low * x - y) * by;
                b[(r + 1) * k + j] = (high * y - x) * by;
            }
            r += 2;
        }
    }
    let mut end = n;
    while end > 0 {
        let r = end - 1;
        let other = pivots[r].unsigned_abs() as usize - 1;
        let rows = if pivots[r] > 0 || r == 0 { 1 } else { 2 };
        for to in (end - rows..end).rev() {
            for i in end..n {
                subtract(b, k, to, conjugate_if(at(i, to), hermitian), i);
            }
        }
        swap_rows(b, k, r, other);
        end -= rows;
    }
}
