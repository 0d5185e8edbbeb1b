//! Matrix products of batches with any strides.

use crate::complex::doubled;
use crate::cpu::level;
use crate::gemm::{self, Multiply};
use crate::par::{Scratch, Shared};
use crate::real::{Float, Real, for_float, gather, merged, offset_of, output, scatter, simd};
use crate::threads::{num_threads, parallel_for};
use crate::{DType, Element, KernelError, View, ViewMut, for_dtype};

/// A matrix somewhere in memory: element `(i, j)` lies at `i * row + j * col` after the pointer.
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

// SAFETY: read-only memory that outlives the product it is an operand of.
unsafe impl<A: Send> Send for Mat<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for Mat<A> {}
// SAFETY: threads write disjoint parts.
unsafe impl<A: Send> Send for MatMut<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for MatMut<A> {}

impl<P: Copy> Placed<P> {
    /// # Safety
    /// Whatever product it enters must find its elements there, and be allowed to write those that it writes.
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
    /// The transposed matrix.
    pub(crate) fn t(self) -> Placed<P> {
        Placed { ptr: self.ptr, row: self.col, col: self.row }
    }
}

impl<A: Copy> Mat<A> {
    /// A matrix in a slice.
    pub(crate) fn new(x: &[A], row: usize, col: usize) -> Mat<A> {
        Placed { ptr: x.as_ptr(), row, col }
    }
    #[inline(always)]
    pub(crate) unsafe fn element(self, i: usize, j: usize) -> *const A {
        // SAFETY: the caller stays within the matrix.
        unsafe { self.ptr.add(i * self.row + j * self.col) }
    }
    #[inline(always)]
    unsafe fn get(self, i: usize, j: usize) -> A {
        // SAFETY: the caller stays within the matrix.
        unsafe { *self.element(i, j) }
    }
    #[inline(always)]
    pub(crate) unsafe fn skip(self, elements: usize) -> Mat<A> {
        // SAFETY: the caller stays within the matrix.
        Placed { ptr: unsafe { self.ptr.add(elements) }, ..self }
    }
}

impl<A: Real> MatMut<A> {
    /// A matrix in a slice.
    pub(crate) fn new(x: &mut [A], row: usize, col: usize) -> MatMut<A> {
        Placed { ptr: x.as_mut_ptr(), row, col }
    }
    #[inline(always)]
    pub(crate) unsafe fn element(self, i: usize, j: usize) -> *mut A {
        // SAFETY: the caller stays within the matrix.
        unsafe { self.ptr.add(i * self.row + j * self.col) }
    }
}

/// Multiplications below which a product stays on its thread.
const SERIAL: usize = 1 << 20;

/// `c = alpha * a @ b + beta * c + bias` for `[m, k] @ [k, n]` and a bias of `n` numbers; `c` is not read when `beta` is zero.
///
/// # Safety
/// The matrices have the sizes that `m`, `n`, `k` say, and `c` overlaps neither operand.
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
    // SAFETY: by the caller, for every path.
    unsafe {
        if k == 0 {
            scale(m, n, beta, c);
        } else if m == 1 {
            vector_matrix(n, k, alpha, a, b, beta, c, parallel);
        } else if n == 1 {
            vector_matrix(m, k, alpha, b.t(), a.t(), beta, c.t(), parallel);
        } else if m * n * k <= 32 * 32 * 32 && n <= 64 && k <= 64 {
            tiny(m, n, k, alpha, a, b, beta, c);
        } else if c.col != 1 && c.row == 1 {
            packed(n, m, k, alpha, b.t(), a.t(), beta, c.t(), parallel, None);
        } else {
            return packed(m, n, k, alpha, a, b, beta, c, parallel, bias);
        }
    }
    for (j, &v) in bias.unwrap_or_default().iter().enumerate() {
        for i in 0..m {
            // SAFETY: within the matrix.
            unsafe { *c.element(i, j) += v };
        }
    }
}

unsafe fn packed<T: Float<Acc: Multiply>>(
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
    // SAFETY: by the caller; the processor has the level.
    unsafe { gemm::matrices(kernel, m, n, k, alpha, &a.rows(), &b.columns(), beta, c, parallel, bias) }
}

unsafe fn scale<A: Real>(m: usize, n: usize, beta: A, c: MatMut<A>) {
    for i in 0..m {
        for j in 0..n {
            // SAFETY: within the matrix.
            unsafe { store(c.element(i, j), A::ZERO, beta) };
        }
    }
}

/// Writes `v + beta * *at`, without reading when `beta` is zero.
#[inline(always)]
unsafe fn store<A: Real>(at: *mut A, v: A, beta: A) {
    // SAFETY: by the caller.
    unsafe { *at = if beta == A::ZERO { v } else { v + beta * *at } }
}

/// Columns of one row times a matrix that are computed at once.
const WIDTH: usize = 256;

/// One row times a matrix: dot products with the columns of `b` where they are contiguous or no rows are, else sums of its rows.
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
        // SAFETY: within the matrix.
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
            // SAFETY: columns `start..start + width` exist, and belong to this range alone in `c`.
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

/// Rows that are summed one after the other in the accumulation type. Errors of longer sums would grow with their length.
const ROWS: usize = 256;

/// [`sum_rows`] for any number of rows: sums of [`ROWS`] rows are added up in double precision.
unsafe fn sum_many_rows<T: Float>(x: &[T::Acc], b: *const T, row: usize, sums: &mut [T::Acc]) {
    if x.len() <= ROWS {
        return sum_rows(x, b, row, sums);
    }
    let mut totals = [0.0; WIDTH];
    for (i, x) in x.chunks(ROWS).enumerate() {
        // SAFETY: the caller vouches for `x.len()` rows.
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
        // Four rows at a time: one load and store of the sums for four products.
        while p + 4 <= x.len() {
            // SAFETY: the caller vouches for `x.len()` rows of `n` elements.
            let rows: [&[T]; 4] = std::array::from_fn(|i| unsafe { std::slice::from_raw_parts(b.add((p + i) * row), n) });
            for j in 0..n {
                sums[j] += (x[p] * rows[0][j].up() + x[p + 1] * rows[1][j].up())
                    + (x[p + 2] * rows[2][j].up() + x[p + 3] * rows[3][j].up());
            }
            p += 4;
        }
        while p < x.len() {
            // SAFETY: as above.
            let values = unsafe { std::slice::from_raw_parts(b.add(p * row), n) };
            for j in 0..n {
                sums[j] += x[p] * values[j].up();
            }
            p += 1;
        }
    }
}

simd! {
    /// A product so small that packing it would cost more than computing it.
    fn tiny<T: Float>(
        m: usize, n: usize, k: usize, alpha: T::Acc, a: Mat<T>, b: Mat<T>, beta: T::Acc, c: MatMut<T::Acc>
    ) {
        let mut widened = [T::Acc::ZERO; 64 * 64];
        // SAFETY: indices stay within the sizes that the caller vouches for.
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

/// A batched operand, read where it lies.
struct Operand<T> {
    ptr: *const T,
    batch: Vec<usize>,
    row: usize,
    col: usize,
}

/// The operand of a view, with batch strides as the output's batch of `rank` dimensions sees them.
fn operand<T: Element>(x: &View, rank: usize) -> Operand<T> {
    assert_eq!(x.dtype(), T::DTYPE, "matmul: operands of different types");
    let (strides, last) = (x.strides(), x.strides().len() - 2);
    let batch = broadcast(&strides[..last], &x.sizes()[..last], rank);
    Operand { ptr: x.ptr().cast(), batch, row: strides[last], col: strides[last + 1] }
}

/// Strides of an operand's batch dimensions, or of a bias, as the output sees them: missing or size-one dimensions repeat.
fn broadcast(batch: &[usize], sizes: &[usize], out_rank: usize) -> Vec<usize> {
    let mut strides = vec![0; out_rank - batch.len()];
    strides.extend(batch.iter().zip(sizes).map(|(&s, &n)| if n == 1 { 0 } else { s }));
    strides
}

/// `out = a @ b` for `a: [.., m, k]`, `b: [.., k, n]`, `out: [.., m, n]`.
///
/// Any strides; batch dimensions broadcast (stride zero, size one, or absent). Numbers of every type; floating-point ones
/// accumulate in at least `f32` and are rounded once. `out` must not overlap an operand.
pub fn matmul(a: &View, b: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    product(a, b, out, 1.0, 0.0, None)
}

/// `out = alpha * a @ b + beta * out`; `out` is not read when `beta` is zero. See [`matmul`].
pub fn matmul_scaled(a: &View, b: &View, out: &mut ViewMut, alpha: f64, beta: f64) -> Result<(), KernelError> {
    product(a, b, out, alpha, beta, None)
}

/// `out = a @ b + bias_row`, the bias being `[n]` or anything of `out`'s rank or less that broadcasts to it. See [`matmul`].
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
        DType::Bool => Err(KernelError::Other("\"addmm_impl_cpu_\" not implemented for 'Bool'".into())),
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

/// Writes the broadcast bias to the output, which the product is then added to.
fn fill_bias<A: Real>(bias: &View, out_sizes: &[usize], out: &mut [A]) {
    let strides = broadcast(bias.strides(), bias.sizes(), out_sizes.len());
    // SAFETY: repeated dimensions have stride zero.
    gather(&unsafe { View::new(bias.ptr(), out_sizes, &strides, bias.dtype()) }, out);
}

/// The bias as one row, if every row of the output has the same.
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
        // SAFETY: views cover the elements that the sizes reach.
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

/// A product of one right operand whose sums are rounded as they leave the registers; says whether it was possible.
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
    let (Some(a_row), Some(c_row)) = (row(&a.batch, a.row), row(&strides[..rank - 2], strides[rank - 2])) else {
        return false;
    };
    let parallel = num_threads() > 1 && rows * n * k >= SERIAL;
    // SAFETY: views cover the elements that the sizes reach, and the merged rows are the batches' rows.
    unsafe {
        let (a, b) = (Mat::at(a.ptr, a_row, a.col), Mat::at(b.ptr, b.row, b.col));
        gemm::rounded::<T>(kernel, rows, n, k, alpha, &a.rows(), &b.columns(), out.ptr().cast(), c_row, parallel, bias)
    }
}

/// # Safety
/// As [`gemm()`], for every batch.
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
    // SAFETY: by the caller.
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
    // One matrix for all batches, and rows that follow one another: a single product of all rows.
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
        // SAFETY: the merged rows are the batches' rows.
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
            // SAFETY: by the caller; batches of the output are disjoint.
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

/// Complex numbers: four products of their parts, where they lie.
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

/// Integers: rows of wrapping 64-bit sums.
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
            // SAFETY: views cover the elements that the sizes reach; rows of the output are disjoint.
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
