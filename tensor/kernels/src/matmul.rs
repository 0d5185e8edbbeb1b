//! Matrix products of batches with any strides.

use crate::complex::doubled;
use crate::cpu::level;
use crate::gemm::{self, Multiply};
use crate::par::{Scratch, Shared};
use crate::real::{Float, Real, for_float, gather, merged, offset_of, output, scatter, simd};
use crate::threads::{num_threads, parallel_for};
use crate::{DType, Element, KernelError, View, ViewMut, for_dtype, skinny};

/// A matrix anywhere in memory. Element `(i, j)` lies `i * row + j * col` elements after the pointer.
#[derive(Clone, Copy)]
pub(crate) struct Placed<P> {
    ptr: P,
    row: usize,
    col: usize,
}

/// A matrix that a product reads.
pub(crate) type Mat<A> = Placed<*const A>;

/// A matrix that a product writes.
pub(crate) type MatMut<A> = Placed<*mut A>;

// SAFETY: the memory is only read, and it outlives the product.
unsafe impl<A: Send> Send for Mat<A> {}
// SAFETY: the memory is only read, and it outlives the product.
unsafe impl<A: Sync> Sync for Mat<A> {}
// SAFETY: threads write disjoint parts.
unsafe impl<A: Send> Send for MatMut<A> {}
// SAFETY: threads write disjoint parts.
unsafe impl<A: Sync> Sync for MatMut<A> {}

impl<P: Copy> Placed<P> {
    /// # Safety
    /// Every product with this matrix must find its elements at these positions, and may write them if it is an output.
    pub(crate) unsafe fn at(ptr: P, row: usize, col: usize) -> Placed<P> {
        Placed { ptr, row, col }
    }
    #[inline(always)]
    pub(crate) fn row(self) -> usize {
        self.row
    }
    #[inline(always)]
    pub(crate) fn col(self) -> usize {
        self.col
    }
    /// Return the transposed matrix.
    pub(crate) fn t(self) -> Placed<P> {
        Placed { ptr: self.ptr, row: self.col, col: self.row }
    }
}

impl<A> Mat<A> {
    /// # Safety
    /// The elements are of type `B`.
    unsafe fn cast<B>(self) -> Mat<B> {
        Placed { ptr: self.ptr.cast(), row: self.row, col: self.col }
    }
}

impl<A> MatMut<A> {
    /// # Safety
    /// The elements are of type `B`.
    unsafe fn cast<B>(self) -> MatMut<B> {
        Placed { ptr: self.ptr.cast(), row: self.row, col: self.col }
    }
}

impl<A: Copy> Mat<A> {
    /// Return a matrix in a slice.
    pub(crate) fn new(x: &[A], row: usize, col: usize) -> Mat<A> {
        Placed { ptr: x.as_ptr(), row, col }
    }
    #[inline(always)]
    pub(crate) unsafe fn element(self, i: usize, j: usize) -> *const A {
        // SAFETY: the caller passes a position within the matrix.
        unsafe { self.ptr.add(i * self.row + j * self.col) }
    }
    #[inline(always)]
    unsafe fn get(self, i: usize, j: usize) -> A {
        // SAFETY: the caller passes a position within the matrix.
        unsafe { *self.element(i, j) }
    }
    #[inline(always)]
    pub(crate) unsafe fn skip(self, elements: usize) -> Mat<A> {
        // SAFETY: the caller passes a position within the matrix.
        Placed { ptr: unsafe { self.ptr.add(elements) }, ..self }
    }
}

impl<A: Real> MatMut<A> {
    /// Return a matrix in a slice.
    pub(crate) fn new(x: &mut [A], row: usize, col: usize) -> MatMut<A> {
        Placed { ptr: x.as_mut_ptr(), row, col }
    }
    #[inline(always)]
    pub(crate) unsafe fn element(self, i: usize, j: usize) -> *mut A {
        // SAFETY: the caller passes a position within the matrix.
        unsafe { self.ptr.add(i * self.row + j * self.col) }
    }
}

/// Number of multiplications below which a product stays on one thread.
const SERIAL: usize = 1 << 20;

/// Compute `c = alpha * a @ b + beta * c + bias` for `[m, k] @ [k, n]` and a bias of `n` numbers. Does not read `c` if
/// `beta` is zero.
///
/// # Safety
/// The matrices have the sizes `m`, `n` and `k`, and `c` overlaps neither operand.
pub(crate) unsafe fn gemm<T: Float<Acc: Multiply>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: T::Acc,
    a: Mat<T>,
    b: Mat<T>,
    beta: T::Acc,
    c: MatMut<T::Acc>,
    parallel: bool,
    bias: Option<&[T::Acc]>,
) {
    if m == 0 || n == 0 {
        return;
    }
    let parallel = parallel && num_threads() > 1 && m * n * k.max(1) >= SERIAL;
    // SAFETY: the caller passes matrices of the sizes `m`, `n` and `k`, for every path.
    unsafe {
        if k == 0 {
            scale(m, n, beta, c);
        } else if m == 1 {
            vector_matrix(n, k, alpha, a, b, beta, c, parallel);
        } else if n == 1 {
            vector_matrix(m, k, alpha, b.t(), a.t(), beta, c.t(), parallel);
        } else if m * n * k <= 32 * 32 * 32 && n <= 64 && k <= 64 {
            tiny_product(m, n, k, alpha, a, b, beta, c);
        } else if skinny_product(m, n, k, alpha, a, b, beta, c, parallel) {
        } else if c.col != 1 && c.row == 1 {
            packed_product(n, m, k, alpha, b.t(), a.t(), beta, c.t(), parallel, None);
        } else {
            return packed_product(m, n, k, alpha, a, b, beta, c, parallel, bias);
        }
    }
    for (j, &v) in bias.unwrap_or_default().iter().enumerate() {
        for i in 0..m {
            // SAFETY: `(i, j)` is a position within the matrix.
            unsafe { *c.element(i, j) += v };
        }
    }
}

/// Compute a product with few rows or few columns as [`skinny`] does. Return whether it is one.
unsafe fn skinny_product<T: Float<Acc: Multiply>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: T::Acc,
    a: Mat<T>,
    b: Mat<T>,
    beta: T::Acc,
    c: MatMut<T::Acc>,
    parallel: bool,
) -> bool {
    let (m, n, a, b, c) = if m <= n { (m, n, a, b, c) } else { (n, m, b.t(), a.t(), c.t()) };
    if !skinny::is_skinny(m, n, k, b) {
        return false;
    }
    let (alpha, beta) = (alpha.to_f64() as f32, beta.to_f64() as f32);
    // SAFETY: the caller passes matrices of the sizes. Types are equal to the ones that they are named here.
    unsafe {
        match T::DTYPE {
            DType::F32 => skinny::product::<f32>(m, n, k, alpha, a.cast(), b.cast(), beta, c.cast(), parallel),
            DType::BF16 => skinny::product::<crate::bf16>(m, n, k, alpha, a.cast(), b.cast(), beta, c.cast(), parallel),
            DType::F16 => skinny::product::<crate::f16>(m, n, k, alpha, a.cast(), b.cast(), beta, c.cast(), parallel),
            _ => return false,
        }
    }
    true
}

unsafe fn packed_product<T: Float<Acc: Multiply>>(
    m: usize,
    n: usize,
    k: usize,
    alpha: T::Acc,
    a: Mat<T>,
    b: Mat<T>,
    beta: T::Acc,
    c: MatMut<T::Acc>,
    parallel: bool,
    bias: Option<&[T::Acc]>,
) {
    let level = level();
    let kernel = T::Acc::half_kernel(T::DTYPE, level).unwrap_or_else(|| T::Acc::product_kernel(level, m, n, k));
    // SAFETY: the caller passes matrices of the sizes `m`, `n` and `k`, and the processor has the level of `kernel`.
    unsafe { gemm::matrices(kernel, m, n, k, alpha, &a.rows(), &b.columns(), beta, c, parallel, bias) }
}

unsafe fn scale<A: Real>(m: usize, n: usize, beta: A, c: MatMut<A>) {
    for i in 0..m {
        for j in 0..n {
            // SAFETY: `(i, j)` is a position within the matrix.
            unsafe { store(c.element(i, j), A::ZERO, beta) };
        }
    }
}

/// Write `v + beta * *at`. Does not read if `beta` is zero.
#[inline(always)]
unsafe fn store<A: Real>(at: *mut A, v: A, beta: A) {
    // SAFETY: the caller passes an element of the output.
    unsafe { *at = if beta == A::ZERO { v } else { v + beta * *at } }
}

/// Number of columns of a vector-matrix product that are computed together.
const WIDTH: usize = 256;

/// Multiply one row by a matrix. Contiguous columns of `b` give dot products, contiguous rows are summed, and other
/// columns are copied before their dot product.
unsafe fn vector_matrix<T: Float>(
    n: usize,
    k: usize,
    alpha: T::Acc,
    a: Mat<T>,
    b: Mat<T>,
    beta: T::Acc,
    c: MatMut<T::Acc>,
    parallel: bool,
) {
    let mut x = Scratch::any(k);
    for (p, x) in x.iter_mut().enumerate() {
        // SAFETY: `p < k`, so the element lies in the only row of `a`.
        *x = alpha * unsafe { a.get(0, p) }.up();
    }
    let x: &[T::Acc] = &x;
    let grain = if parallel { (1usize << 16).div_ceil(k) } else { n };
    parallel_for(n, grain, |columns| {
        let mut sums = [T::Acc::ZERO; WIDTH];
        let mut start = columns.start;
        while start < columns.end {
            let width = WIDTH.min(columns.end - start);
            let sums = &mut sums[..width];
            // SAFETY: columns `start..start + width` exist, and only this range writes them in `c`.
            unsafe {
                if b.row == 1 && (b.col != 1 || n == 1) {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = dot(x, std::slice::from_raw_parts(b.skip((start + j) * b.col).ptr, k));
                    }
                } else if b.col == 1 && n > 1 {
                    sum_many_rows(x, b.skip(start).ptr, b.row, sums);
                } else {
                    let mut column = Scratch::<T>::any(k);
                    for (j, sum) in sums.iter_mut().enumerate() {
                        for (p, v) in column.iter_mut().enumerate() {
                            *v = b.get(p, start + j);
                        }
                        *sum = dot(x, &column);
                    }
                }
                for (j, &sum) in sums.iter().enumerate() {
                    store(c.element(0, start + j), sum, beta);
                }
            }
            start += width;
        }
    });
}

simd! {
    fn dot<T: Float>(x: &[T::Acc], y: &[T]) -> T::Acc {
        crate::real::sum_of2(x, y, |a, b: T| a * b.up())
    }
}

/// Number of rows that are summed one after the other in the accumulator type. The error of longer sums would grow with
/// their length.
const ROWS: usize = 256;

/// Like [`sum_rows`], for any number of rows: sums of [`ROWS`] rows are added up in double precision.
unsafe fn sum_many_rows<T: Float>(x: &[T::Acc], b: *const T, row: usize, sums: &mut [T::Acc]) {
    if x.len() <= ROWS {
        return sum_rows(x, b, row, sums);
    }
    let mut totals = [0.0; WIDTH];
    for (i, x) in x.chunks(ROWS).enumerate() {
        // SAFETY: the caller passes `x.len()` rows.
        sum_rows(x, unsafe { b.add(i * ROWS * row) }, row, sums);
        for (total, sum) in totals.iter_mut().zip(&*sums) {
            *total += sum.to_f64();
        }
    }
    for (sum, total) in sums.iter_mut().zip(totals) {
        *sum = T::Acc::of(total);
    }
}

simd! {
    fn sum_rows<T: Float>(x: &[T::Acc], b: *const T, row: usize, sums: &mut [T::Acc]) {
        sums.fill(T::Acc::ZERO);
        let n = sums.len();
        let mut p = 0;
        // Add four rows at a time: one load and store of the sums per four products.
        while p + 4 <= x.len() {
            // SAFETY: the caller passes `x.len()` rows of `n` elements.
            let rows: [&[T]; 4] = std::array::from_fn(|i|
                unsafe { std::slice::from_raw_parts(b.add((p + i) * row), n) });
            for j in 0..n {
                sums[j] += (x[p] * rows[0][j].up() + x[p + 1] * rows[1][j].up())
                    + (x[p + 2] * rows[2][j].up() + x[p + 3] * rows[3][j].up());
            }
            p += 4;
        }
        while p < x.len() {
            // SAFETY: the caller passes `x.len()` rows of `n` elements.
            let values = unsafe { std::slice::from_raw_parts(b.add(p * row), n) };
            for j in 0..n {
                sums[j] += x[p] * values[j].up();
            }
            p += 1;
        }
    }
}

simd! {
    /// Compute a product so small that packing would cost more than the product itself.
    fn tiny_product<T: Float>(
        m: usize, n: usize, k: usize, alpha: T::Acc, a: Mat<T>, b: Mat<T>, beta: T::Acc, c: MatMut<T::Acc>
    ) {
        let mut widened = [T::Acc::ZERO; 64 * 64];
        // SAFETY: indices stay within the sizes that the caller passes.
        unsafe {
            let (rows, stride) = if b.col == 1 && T::DTYPE == <T::Acc as Element>::DTYPE {
                (b.ptr.cast::<T::Acc>(), b.row)
            } else {
                for p in 0..k {
                    for j in 0..n {
                        widened[p * n + j] = b.get(p, j).up();
                    }
                }
                (widened.as_ptr(), n)
            };
            let mut sums = [T::Acc::ZERO; 64];
            for i in 0..m {
                let sums = &mut sums[..n];
                sums.fill(T::Acc::ZERO);
                for p in 0..k {
                    let x = a.get(i, p).up();
                    let row = std::slice::from_raw_parts(rows.add(p * stride), n);
                    for j in 0..n {
                        sums[j] += x * row[j];
                    }
                }
                for j in 0..n {
                    store(c.element(i, j), alpha * sums[j], beta);
                }
            }
        }
    }
}

/// A batched operand that is read in place.
struct Operand<T> {
    ptr: *const T,
    batch: Vec<usize>,
    row: usize,
    col: usize,
}

/// Return the operand of a view, with its batch strides broadcast to an output of `rank` dimensions.
fn operand<T: Element>(x: &View, rank: usize) -> Operand<T> {
    assert_eq!(x.dtype(), T::DTYPE, "matmul: operands of different types");
    let (strides, last) = (x.strides(), x.strides().len() - 2);
    let batch = broadcast(&strides[..last], &x.sizes()[..last], rank);
    Operand { ptr: x.ptr().cast(), batch, row: strides[last], col: strides[last + 1] }
}

/// Return the batch strides of an operand, or of a bias, broadcast to the output: missing and size-one dimensions get
/// stride zero.
fn broadcast(batch: &[usize], sizes: &[usize], out_rank: usize) -> Vec<usize> {
    let mut strides = vec![0; out_rank - batch.len()];
    strides.extend(batch.iter().zip(sizes).map(|(&s, &n)| if n == 1 { 0 } else { s }));
    strides
}

/// Compute `out = a @ b` for `a: [.., m, k]`, `b: [.., k, n]`, `out: [.., m, n]`.
///
/// Accepts any strides. Batch dimensions broadcast (stride zero, size one, or absent). Accepts numbers of every dtype.
/// Floating-point products accumulate in at least `f32` and are rounded once. `out` must not overlap an operand.
pub fn matmul(a: &View, b: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    product(a, b, out, 1.0, 0.0, None)
}

/// Compute `out = alpha * a @ b + beta * out`. Does not read `out` if `beta` is zero. See [`matmul`].
pub fn matmul_scaled(a: &View, b: &View, out: &mut ViewMut, alpha: f64, beta: f64) -> Result<(), KernelError> {
    product(a, b, out, alpha, beta, None)
}

/// Compute `out = a @ b + bias_row`. The bias is `[n]`, or any shape of at most the rank of `out` that broadcasts to
/// it. See [`matmul`].
pub fn addmm(a: &View, b: &View, bias_row: Option<&View>, out: &mut ViewMut) -> Result<(), KernelError> {
    product(a, b, out, 1.0, 0.0, bias_row)
}

fn product(
    a: &View,
    b: &View,
    out: &mut ViewMut,
    alpha: f64,
    beta: f64,
    bias: Option<&View>,
) -> Result<(), KernelError> {
    let (m, k) = last_two(a.sizes());
    let (k2, n) = last_two(b.sizes());
    assert_eq!(k, k2, "matmul: inner sizes differ");
    assert_eq!((m, n), last_two(out.sizes()), "matmul: wrong output size");
    if out.numel() == 0 {
        return Ok(());
    }
    match out.dtype() {
        DType::Bool => Err(KernelError::NotImplemented("\"addmm_impl_cpu_\" not implemented for 'Bool'".into())),
        d if d.is_float() => {
            for_float!(a.dtype(), T => float_product::<T>(m, n, k, a, b, out, alpha, beta, bias));
            Ok(())
        }
        d if d.is_complex() => complex_product(a, b, out, alpha, beta, bias),
        d => {
            for_dtype!(d, T => int_product::<T>(m, n, k, a, b, out, alpha as i64, beta as i64, bias));
            Ok(())
        }
    }
}

fn last_two(sizes: &[usize]) -> (usize, usize) {
    assert!(sizes.len() >= 2, "matmul: operands are matrices");
    (sizes[sizes.len() - 2], sizes[sizes.len() - 1])
}

/// Write the broadcast bias to the output, so that the product is then added to it.
fn fill_bias<A: Real>(bias: &View, out_sizes: &[usize], out: &mut [A]) {
    let strides = broadcast(bias.strides(), bias.sizes(), out_sizes.len());
    // SAFETY: the bias broadcasts to the output, and repeated dimensions have stride zero.
    gather(&unsafe { View::new(bias.ptr(), out_sizes, &strides, bias.dtype()) }, out);
}

/// Return the bias as one row if every row of the output has the same bias.
fn bias_row<A: Real>(bias: &View, out_sizes: &[usize]) -> Option<Scratch<A>> {
    let strides = broadcast(bias.strides(), bias.sizes(), out_sizes.len());
    let (step, others) = strides.split_last()?;
    if others.iter().any(|&s| s != 0) {
        return None;
    }
    let (sizes, strides) = ([*out_sizes.last()?], [*step]);
    let mut row = Scratch::any(sizes[0]);
    // SAFETY: the bias broadcasts to the output; repeated elements have stride zero.
    gather(&unsafe { View::new(bias.ptr(), &sizes, &strides, bias.dtype()) }, &mut row);
    Some(row)
}

fn float_product<T: Float<Acc: Multiply>>(
    m: usize,
    n: usize,
    k: usize,
    a: &View,
    b: &View,
    out: &mut ViewMut,
    alpha: f64,
    beta: f64,
    bias: Option<&View>,
) {
    let rank = out.sizes().len();
    let batch = &out.sizes()[..rank - 2];
    let out_strides = out.strides().to_vec();
    let (a, b) = (operand::<T>(a, rank - 2), operand::<T>(b, rank - 2));
    let (alpha, beta) = (T::Acc::of(alpha), T::Acc::of(beta));
    let sizes = out.sizes();
    let row = bias.and_then(|bias| bias_row::<T::Acc>(bias, sizes));
    let (row, bias) = (row.as_deref(), bias.filter(|_| row.is_none()));
    let run = |c: *mut T::Acc, c_strides: &[usize], beta: T::Acc| {
        let (c_row, c_col) = (c_strides[rank - 2], c_strides[rank - 1]);
        // SAFETY: views cover all elements of their sizes.
        unsafe { batches(m, n, k, batch, alpha, &a, &b, beta, row, (c, &c_strides[..rank - 2], c_row, c_col)) };
    };
    if out.dtype() == <T::Acc as Element>::DTYPE && bias.is_none() {
        return run(out.ptr().cast(), &out_strides, beta);
    }
    let mut dense = vec![1; rank];
    for d in (0..rank - 1).rev() {
        dense[d] = dense[d + 1] * sizes[d + 1];
    }
    if let Some(bias) = bias {
        return output::<T::Acc, _>(out, |c| {
            fill_bias(bias, sizes, c);
            run(c.as_mut_ptr(), &dense, T::Acc::ONE);
        });
    }
    if beta == T::Acc::ZERO
        && out.dtype() == T::DTYPE
        && one_rounded_product(m, n, k, batch, alpha, &a, &b, row, out, &out_strides)
    {
        return;
    }
    let mut c = Scratch::any(out.numel());
    if beta != T::Acc::ZERO {
        gather(&out.as_view(), &mut c);
    }
    run(c.as_mut_ptr(), &dense, beta);
    scatter(&c, out);
}

/// Compute a product with one right operand for all batches, rounding the sums as they leave the registers. Return
/// whether this was possible.
fn one_rounded_product<T: Float<Acc: Multiply>>(
    m: usize,
    n: usize,
    k: usize,
    batch: &[usize],
    alpha: T::Acc,
    a: &Operand<T>,
    b: &Operand<T>,
    bias: Option<&[T::Acc]>,
    out: &ViewMut,
    strides: &[usize],
) -> bool {
    let Some(kernel) = T::Acc::half_kernel(T::DTYPE, level()) else { return false };
    let rank = strides.len();
    let rows: usize = m * batch.iter().product::<usize>();
    if rows < 2 || n < 2 || k == 0 || rows * n * k <= 32 * 32 * 32 || strides[rank - 1] != 1 {
        return false;
    }
    let sizes: Vec<usize> = batch.iter().copied().chain([m]).collect();
    let row = |batch: &[usize], row: usize| {
        let strides: Vec<usize> = batch.iter().copied().chain([row]).collect();
        match merged(&sizes, &strides).1[..] {
            [] => Some(row),
            [step] => Some(step),
            _ => None,
        }
    };
    if b.batch.iter().any(|&s| s != 0) && rows != m {
        return false;
    }
    // SAFETY: views cover all elements of their sizes.
    if skinny::is_skinny(rows, n, k, unsafe { Mat::at(b.ptr, b.row, b.col) }) {
        return false;
    }
    let (Some(a_row), Some(c_row)) = (row(&a.batch, a.row), row(&strides[..rank - 2], strides[rank - 2])) else {
        return false;
    };
    let parallel = num_threads() > 1 && rows * n * k >= SERIAL;
    // SAFETY: views cover all elements of their sizes, and the merged rows are the rows of all batches.
    unsafe {
        let (a, b) = (Mat::at(a.ptr, a_row, a.col), Mat::at(b.ptr, b.row, b.col));
        gemm::rounded::<T>(kernel, rows, n, k, alpha, &a.rows(), &b.columns(), out.ptr().cast(), c_row, parallel, bias)
    }
}

/// # Safety
/// The matrices of every batch fulfil the conditions of [`gemm()`].
unsafe fn batches<T: Float<Acc: Multiply>>(
    m: usize,
    n: usize,
    k: usize,
    batch: &[usize],
    alpha: T::Acc,
    a: &Operand<T>,
    b: &Operand<T>,
    beta: T::Acc,
    bias: Option<&[T::Acc]>,
    c: (*mut T::Acc, &[usize], usize, usize),
) {
    let (a_batch, b_batch) = (&a.batch[..], &b.batch[..]);
    let count: usize = batch.iter().product();
    let (c_ptr, c_batch, c_row, c_col) = c;
    // SAFETY: the caller passes matrices of these sizes for every batch.
    let one = |a_at: usize, b_at: usize, c_at: usize, m: usize, parallel: bool| unsafe {
        gemm(
            m,
            n,
            k,
            alpha,
            Mat::at(a.ptr.add(a_at), a.row, a.col),
            Mat::at(b.ptr.add(b_at), b.row, b.col),
            beta,
            MatMut::at(c_ptr.add(c_at), c_row, c_col),
            parallel,
            bias,
        )
    };
    // If all batches share `b` and their rows follow one another, compute a single product of all rows.
    let mut sizes = batch.to_vec();
    sizes.push(m);
    let rows = |strides: &[usize], row: usize| {
        let mut strides = strides.to_vec();
        strides.push(row);
        let (_, s) = merged(&sizes, &strides);
        (s.len() == 1).then(|| s[0])
    };
    if count > 1
        && b_batch.iter().all(|&s| s == 0)
        && let (Some(a_row), Some(c_step)) = (rows(a_batch, a.row), rows(c_batch, c_row))
    {
        // SAFETY: the merged rows are the rows of all batches.
        return unsafe {
            gemm(
                m * count,
                n,
                k,
                alpha,
                Mat::at(a.ptr, a_row, a.col),
                Mat::at(b.ptr, b.row, b.col),
                beta,
                MatMut::at(c_ptr, c_step, c_col),
                true,
                bias,
            )
        };
    }
    if count == 1 {
        return one(0, 0, 0, m, true);
    }
    let work = m * n * k.max(1);
    if count < num_threads() || work >= 512 * 512 * 512 {
        for i in 0..count {
            one(offset_of(i, batch, a_batch), offset_of(i, batch, b_batch), offset_of(i, batch, c_batch), m, true);
        }
        return;
    }
    let pointers = (Shared::at(a.ptr.cast_mut()), Shared::at(b.ptr.cast_mut()), Shared::at(c_ptr));
    let (a_row, a_col, b_row, b_col) = (a.row, a.col, b.row, b.col);
    parallel_for(count, SERIAL.div_ceil(work), |range| {
        for i in range {
            // SAFETY: the caller passes matrices of these sizes for every batch, and one thread writes the batch.
            unsafe {
                gemm(
                    m,
                    n,
                    k,
                    alpha,
                    Mat::at(pointers.0.ptr().add(offset_of(i, batch, a_batch)), a_row, a_col),
                    Mat::at(pointers.1.ptr().add(offset_of(i, batch, b_batch)), b_row, b_col),
                    beta,
                    MatMut::at(pointers.2.ptr().add(offset_of(i, batch, c_batch)), c_row, c_col),
                    false,
                    bias,
                );
            }
        }
    });
}

/// Multiply complex matrices as four real products of their parts, which are read in place.
fn complex_product(
    a: &View,
    b: &View,
    out: &mut ViewMut,
    alpha: f64,
    beta: f64,
    bias: Option<&View>,
) -> Result<(), KernelError> {
    assert!(a.dtype() == out.dtype() && b.dtype() == out.dtype(), "matmul: operands of different types");
    let (sa, sb, so) = (doubled(a.strides()), doubled(b.strides()), doubled(out.strides()));
    let sbias = bias.map(|bias| doubled(bias.strides()));
    let bias = |i: usize| bias.zip(sbias.as_deref()).map(|(bias, strides)| bias.part(i, strides));
    for (i, sign) in [(0, -1.0), (1, 1.0)] {
        let to = &mut out.part(i, &so);
        product(&a.part(0, &sa), &b.part(i, &sb), to, alpha, beta, bias(i).as_ref())?;
        product(&a.part(1, &sa), &b.part(1 - i, &sb), to, sign * alpha, 1.0, None)?;
    }
    Ok(())
}

/// Multiply integer matrices: rows of wrapping 64-bit sums.
fn int_product<T: Element>(
    m: usize,
    n: usize,
    k: usize,
    a: &View,
    b: &View,
    out: &mut ViewMut,
    alpha: i64,
    beta: i64,
    bias: Option<&View>,
) {
    assert!(a.dtype() == T::DTYPE && b.dtype() == T::DTYPE, "matmul: operands of different types");
    let rank = out.sizes().len();
    let batch = &out.sizes()[..rank - 2];
    let strides = |x: &View| {
        let r = x.sizes().len();
        (broadcast(&x.strides()[..r - 2], &x.sizes()[..r - 2], rank - 2), x.strides()[r - 2], x.strides()[r - 1])
    };
    let ((ab, ar, ac), (bb, br, bc), (cb, cr, cc)) = (strides(a), strides(b), strides(&out.as_view()));
    let bias_strides = bias.map(|bias| {
        let mut s = vec![0; rank - bias.sizes().len()];
        s.extend(bias.sizes().iter().zip(bias.strides()).map(|(&n, &s)| if n == 1 { 0 } else { s }));
        s
    });
    let count: usize = batch.iter().product();
    let out_ptr = Shared::at(out.ptr().cast::<T>());
    let out_sizes = out.sizes();
    parallel_for(count * m, SERIAL.div_ceil(n * k.max(1)), |rows| {
        let mut sums = Scratch::<i64>::any(n);
        for row in rows {
            let (i, r) = (row / m, row % m);
            // SAFETY: views cover all elements of their sizes, and one thread writes the output row.
            unsafe {
                let a = a.ptr().cast::<T>().add(offset_of(i, batch, &ab) + r * ar);
                let b = b.ptr().cast::<T>().add(offset_of(i, batch, &bb));
                let c = out_ptr.ptr().add(offset_of(i, batch, &cb) + r * cr);
                sums.fill(0);
                for p in 0..k {
                    let x = (*a.add(p * ac)).to_i64();
                    let b = b.add(p * br);
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = sum.wrapping_add(x.wrapping_mul((*b.add(j * bc)).to_i64()));
                    }
                }
                for (j, &sum) in sums.iter().enumerate() {
                    let c = c.add(j * cc);
                    let mut v = alpha.wrapping_mul(sum);
                    if beta != 0 {
                        v = v.wrapping_add(beta.wrapping_mul((*c).to_i64()));
                    }
                    if let (Some(bias), Some(s)) = (bias, &bias_strides) {
                        v = v
                            .wrapping_add((*bias.ptr().cast::<T>().add(offset_of(row * n + j, out_sizes, s))).to_i64());
                    }
                    *c = T::from_i64(v);
                }
            }
        }
    });
}
