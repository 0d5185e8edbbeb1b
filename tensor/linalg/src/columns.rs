//! Matrices stored by columns, the layout of the algorithms. Inputs and outputs are stored by rows.

use crate::memory;
use crate::number::Number;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use num_traits::Float;

/// A matrix whose columns are consecutive.
pub(crate) struct Columns<T> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) data: Vec<T>,
}

impl<T: Number> Columns<T> {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Columns<T> {
        Columns { rows, columns, data: memory::filled(T::ZERO, rows * columns) }
    }

    /// Return ones on the diagonal, and zeros elsewhere.
    pub(crate) fn identity(rows: usize, columns: usize) -> Columns<T> {
        let mut m = Columns::zeros(rows, columns);
        for i in 0..rows.min(columns) {
            *m.at(i, i) = T::ONE;
        }
        m
    }

    pub(crate) fn from_rows(a: &[T], rows: usize, columns: usize) -> Columns<T> {
        let items = (0..columns).flat_map(|j| (0..rows).map(move |i| a[i * columns + j]));
        let data = memory::collect(rows * columns, items);
        Columns { rows, columns, data }
    }

    pub(crate) fn write_rows(&self, out: &mut [T]) {
        for (i, row) in out.chunks_exact_mut(self.columns.max(1)).enumerate().take(self.rows) {
            for (j, v) in row.iter_mut().enumerate() {
                *v = self.get(i, j);
            }
        }
    }

    pub(crate) fn get(&self, i: usize, j: usize) -> T {
        self.data[j * self.rows + i]
    }

    pub(crate) fn at(&mut self, i: usize, j: usize) -> &mut T {
        &mut self.data[j * self.rows + i]
    }

    pub(crate) fn column(&self, j: usize) -> &[T] {
        &self.data[j * self.rows..][..self.rows]
    }

    pub(crate) fn column_mut(&mut self, j: usize) -> &mut [T] {
        &mut self.data[j * self.rows..][..self.rows]
    }

    /// Return column `a` for reading and a later column `b` for writing.
    pub(crate) fn two_columns(&mut self, a: usize, b: usize) -> (&[T], &mut [T]) {
        let (before, from) = self.data.split_at_mut(b * self.rows);
        (&before[a * self.rows..][..self.rows], &mut from[..self.rows])
    }

    pub(crate) fn swap_rows(&mut self, a: usize, b: usize) {
        if a != b {
            for column in self.data.chunks_exact_mut(self.rows) {
                column.swap(a, b);
            }
        }
    }

    pub(crate) fn view(&self) -> MatRef<'_, T> {
        MatRef::from_column_major_slice(&self.data, self.rows, self.columns)
    }

    pub(crate) fn view_mut(&mut self) -> MatMut<'_, T> {
        MatMut::from_column_major_slice_mut(&mut self.data, self.rows, self.columns)
    }
}

/// Add `alpha a b` to `c`.
pub(crate) fn add_product<T: Number>(c: MatMut<'_, T>, alpha: T, a: MatRef<'_, T>, b: MatRef<'_, T>) {
    matmul(c, Accum::Add, a, b, alpha, Par::Seq);
}

/// Return `a b`.
pub(crate) fn product<T: Number>(a: MatRef<'_, T>, b: MatRef<'_, T>) -> Columns<T> {
    let mut c = Columns::zeros(a.nrows(), b.ncols());
    matmul(c.view_mut(), Accum::Replace, a, b, T::ONE, Par::Seq);
    c
}

/// Return `a^H b`.
pub(crate) fn adjoint_product<T: Number>(a: MatRef<'_, T>, b: MatRef<'_, T>) -> Columns<T> {
    let mut c = Columns::zeros(a.ncols(), b.ncols());
    faer::linalg::matmul::matmul_with_conj(
        c.view_mut(),
        Accum::Replace,
        a.transpose(),
        faer::Conj::Yes,
        b,
        faer::Conj::No,
        T::ONE,
        Par::Seq,
    );
    c
}

/// Number of terms that are added side by side, so that the compiler can use vectors.
const LANES: usize = 16;

/// Return the dot product of the conjugate of `a` with `b`.
pub(crate) fn dot<T: Number>(a: &[T], b: &[T]) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (a_parts, b_parts) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a_parts.remainder().iter().zip(b_parts.remainder());
    let rest = rest.fold(T::ZERO, |s, (&a, &b)| s + a.conjugated() * b);
    for (a, b) in a_parts.zip(b_parts) {
        for i in 0..LANES {
            lanes[i] += a[i].conjugated() * b[i];
        }
    }
    lanes.iter().fold(rest, |s, &v| s + v)
}

/// Return the Euclidean length of `x`, without overflow or underflow of intermediate results.
pub(crate) fn length<T: Number>(x: &[T]) -> T::Part {
    let greatest = x.iter().fold(T::Part::ZERO, |m, v| m.max(v.re().abs()).max(v.im().abs()));
    if greatest == T::Part::ZERO || !greatest.is_finite() {
        return x.iter().fold(greatest, |s, v| s + v.size());
    }
    // Scale by a power of two, which rounds nothing.
    let scale = greatest.max(T::Part::min_positive_value()).log2().floor().exp2();
    let by = T::Part::ONE / scale;
    let mut lanes = [T::Part::ZERO; LANES];
    for part in x.chunks(LANES) {
        for (lane, v) in lanes.iter_mut().zip(part) {
            let (re, im) = (v.re() * by, v.im() * by);
            *lane += re * re + im * im;
        }
    }
    lanes.iter().fold(T::Part::ZERO, |s, &v| s + v).sqrt() * scale
}
