//! LU decomposition with pivots.

use crate::columns::{Columns, add_product};
use crate::number::Number;
use faer::Par;
use faer::linalg::triangular_solve::solve_unit_lower_triangular_in_place;

/// Number of columns that are eliminated before the rest of the matrix is updated.
const BLOCK: usize = 32;

/// Compute `a = P L U` for `a: (m, n)`. `L` (below the diagonal, without its ones) and `U` replace `a`. Row `i` was
/// swapped with row `pivots[i] - 1`. Return zero, or the number of the first pivot that is zero.
pub fn lu<T: Number>(a: &mut [T], m: usize, n: usize, pivots: &mut [i32]) -> i32 {
    let mut c = Columns::from_rows(a, m, n);
    let info = eliminate(&mut c, pivots);
    c.write_rows(a);
    info
}

fn eliminate<T: Number>(c: &mut Columns<T>, pivots: &mut [i32]) -> i32 {
    let (m, n) = (c.rows, c.columns);
    let mut info = 0;
    for from in (0..m.min(n)).step_by(BLOCK) {
        let to = (from + BLOCK).min(m.min(n));
        for j in from..to {
            let column = c.column(j);
            let pivot = (j..m).fold(j, |best, i| if column[i].size() > column[best].size() { i } else { best });
            pivots[j] = pivot as i32 + 1;
            let value = column[pivot];
            if value == T::ZERO {
                info = if info == 0 { j as i32 + 1 } else { info };
                continue;
            }
            c.swap_rows(j, pivot);
            for v in &mut c.column_mut(j)[j + 1..] {
                *v /= value;
            }
            for k in j + 1..to {
                let (left, right) = c.two_columns(j, k);
                let by = right[j];
                for (v, &l) in right[j + 1..].iter_mut().zip(&left[j + 1..]) {
                    *v -= by * l;
                }
            }
        }
        if to < n {
            let (left, right) = c.view_mut().split_at_col_mut(to);
            let left = left.as_ref();
            let (_, right) = right.split_at_row_mut(from);
            let (mut upper, below) = right.split_at_row_mut(to - from);
            let triangle = left.submatrix(from, from, to - from, to - from);
            solve_unit_lower_triangular_in_place(triangle, upper.as_mut(), Par::Seq);
            add_product(below, -T::ONE, left.submatrix(to, from, m - to, to - from), upper.as_ref());
        }
    }
    info
}

/// Write the position in `a` of each row of `P^T a`. Pivots are between one and `order.len()`, the number of rows.
pub fn permutation(pivots: &[i32], order: &mut [i64]) {
    for (i, v) in order.iter_mut().enumerate() {
        *v = i as i64;
    }
    for (i, &p) in pivots.iter().enumerate() {
        order.swap(i, p as usize - 1);
    }
}

/// Solve `a x = b` from the factors and pivots of `a`, with `x` in place of `b: (n, k)`.
pub fn lu_solve<T: Number>(lu: &[T], pivots: &[i32], b: &mut [T], n: usize, k: usize) {
    for (i, &p) in pivots.iter().enumerate() {
        let p = p as usize - 1;
        if p != i {
            let (low, high) = b.split_at_mut(i.max(p) * k);
            low[i.min(p) * k..][..k].swap_with_slice(&mut high[..k]);
        }
    }
    crate::solve_triangular(lu, b, n, k, false, true);
    crate::solve_triangular(lu, b, n, k, true, false);
}
