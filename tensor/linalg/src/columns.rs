//! Matrices by columns, as the algorithms want them; what comes in and goes out is by rows.

use crate::number::Number;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// A matrix whose columns lie one after another.
pub(crate) struct Columns<T> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) data: Vec<T>,
}

impl<T: Number> Columns<T> {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Columns<T> {
        Columns { rows, columns, data: vec![T::ZERO; rows * columns] }
    }

    /// Ones on the diagonal, zeros beside it.
    pub(crate) fn identity(rows: usize, columns: usize) -> Columns<T> {
        let mut m = Columns::zeros(rows, columns);
        for i in 0..rows.min(columns) {
            *m.at(i, i) = T::ONE;
        }
        m
    }

    pub(crate) fn from_rows(a: &[T], rows: usize, columns: usize) -> Columns<T> {
        let data = (0..columns).flat_map(|j| (0..rows).map(move |i| a[i * columns + j])).collect();
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

    /// Column `a` and, to be written, column `b` after it.
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

/// `c + alpha a b`.
pub(crate) fn add_product<T: Number>(c: MatMut<'_, T>, alpha: T, a: MatRef<'_, T>, b: MatRef<'_, T>) {
    matmul(c, Accum::Add, a, b, alpha, Par::Seq);
}

/// `a b`.
pub(crate) fn product<T: Number>(a: MatRef<'_, T>, b: MatRef<'_, T>) -> Columns<T> {
    let mut c = Columns::zeros(a.nrows(), b.ncols());
    matmul(c.view_mut(), Accum::Replace, a, b, T::ONE, Par::Seq);
    c
}

/// `a^H b`.
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
