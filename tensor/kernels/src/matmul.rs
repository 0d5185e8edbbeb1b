//! Matrix products of batches with any strides.

use crate::par::{Scratch, Shared, parallel_for, threads};
use crate::real::{Input, Real, for_acc, gather, merged, offset_of, output, scatter, simd};
use crate::{DType, Element, KernelError, View, ViewMut, c64, c128, for_dtype};

/// A matrix somewhere in memory: element `(i, j)` lies at `i * row + j * col`.
#[derive(Clone, Copy)]
pub(crate) struct Mat<A> {
    ptr: *const A,
    row: usize,
    col: usize,
}

// SAFETY: read-only memory that outlives the product it is an operand of.
unsafe impl<A: Send> Send for Mat<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for Mat<A> {}

impl<A: Copy> Mat<A> {
    #[inline(always)]
    pub(crate) fn row(self) -> usize {
        self.row
    }
    #[inline(always)]
    pub(crate) fn col(self) -> usize {
        self.col
    }
    #[inline(always)]
    pub(crate) unsafe fn element(self, i: usize, j: usize) -> *const A {
        // SAFETY: the caller stays within the matrix.
        unsafe { self.ptr.add(i * self.row + j * self.col) }
    }
    /// A matrix in a slice.
    pub(crate) fn new(x: &[A], row: usize, col: usize) -> Mat<A> {
        Mat { ptr: x.as_ptr(), row, col }
    }
    /// # Safety
    /// Whatever product it enters must find its elements there.
    pub(crate) unsafe fn at(ptr: *const A, row: usize, col: usize) -> Mat<A> {
        Mat { ptr, row, col }
    }
    /// The transposed matrix.
    pub(crate) fn t(self) -> Mat<A> {
        Mat { ptr: self.ptr, row: self.col, col: self.row }
    }
    #[inline(always)]
    unsafe fn get(self, i: usize, j: usize) -> A {
        // SAFETY: the caller stays within the matrix.
        unsafe { *self.ptr.add(i * self.row + j * self.col) }
    }
    #[inline(always)]
    unsafe fn skip(self, elements: usize) -> Mat<A> {
        // SAFETY: the caller stays within the matrix.
        Mat { ptr: unsafe { self.ptr.add(elements) }, ..self }
    }
}

/// A matrix that a product writes.
#[derive(Clone, Copy)]
pub(crate) struct MatMut<A> {
    ptr: *mut A,
    row: usize,
    col: usize,
}

// SAFETY: threads write disjoint parts.
unsafe impl<A: Send> Send for MatMut<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for MatMut<A> {}

impl<A: Real> MatMut<A> {
    /// A matrix in a slice.
    pub(crate) fn new(x: &mut [A], row: usize, col: usize) -> MatMut<A> {
        MatMut { ptr: x.as_mut_ptr(), row, col }
    }
    /// # Safety
    /// Whatever product writes it must be allowed to write its elements there.
    pub(crate) unsafe fn at(ptr: *mut A, row: usize, col: usize) -> MatMut<A> {
        MatMut { ptr, row, col }
    }
    #[inline(always)]
    pub(crate) fn row(self) -> usize {
        self.row
    }
    #[inline(always)]
    pub(crate) unsafe fn element(self, i: usize, j: usize) -> *mut A {
        // SAFETY: the caller stays within the matrix.
        unsafe { self.ptr.add(i * self.row + j * self.col) }
    }
    fn t(self) -> MatMut<A> {
        MatMut { ptr: self.ptr, row: self.col, col: self.row }
    }
}

/// Multiplications below which a product stays on its thread.
const SERIAL: usize = 1 << 20;

/// `c = alpha * a @ b + beta * c` for `[m, k] @ [k, n]`; `c` is not read when `beta` is zero.
///
/// # Safety
/// The matrices have the sizes that `m`, `n`, `k` say, and `c` overlaps neither operand.
pub(crate) unsafe fn gemm<A: Real>(
    m: usize,
    n: usize,
    k: usize,
    alpha: A,
    a: Mat<A>,
    b: Mat<A>,
    beta: A,
    c: MatMut<A>,
    parallel: bool,
) {
    if m == 0 || n == 0 {
        return;
    }
    let parallel = parallel && threads() > 1 && m * n * k.max(1) >= SERIAL;
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
        } else {
            let parallelism = if parallel { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
            gemm::gemm(
                m,
                n,
                k,
                c.ptr,
                c.col as isize,
                c.row as isize,
                beta != A::ZERO,
                a.ptr,
                a.col as isize,
                a.row as isize,
                b.ptr,
                b.col as isize,
                b.row as isize,
                beta,
                alpha,
                false,
                false,
                false,
                parallelism,
            );
        }
    }
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

/// One row times a matrix: sums of rows of `b` where they are contiguous, else dot products with its columns.
unsafe fn vector_matrix<A: Real>(
    n: usize,
    k: usize,
    alpha: A,
    a: Mat<A>,
    b: Mat<A>,
    beta: A,
    c: MatMut<A>,
    parallel: bool,
) {
    let mut x = Scratch::any(k);
    for (p, x) in x.iter_mut().enumerate() {
        // SAFETY: within the matrix.
        *x = alpha * unsafe { a.get(0, p) };
    }
    let x: &[A] = &x;
    let grain = if parallel { (1usize << 16).div_ceil(k) } else { n };
    parallel_for(n, grain, |columns| {
        const WIDTH: usize = 256;
        let mut sums = [A::ZERO; WIDTH];
        let mut start = columns.start;
        while start < columns.end {
            let width = WIDTH.min(columns.end - start);
            let sums = &mut sums[..width];
            // SAFETY: columns `start..start + width` exist, and belong to this range alone in `c`.
            unsafe {
                if b.col == 1 {
                    sum_rows(x, b.skip(start).ptr, b.row, sums);
                } else if b.row == 1 {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = dot(x, std::slice::from_raw_parts(b.skip((start + j) * b.col).ptr, k));
                    }
                } else {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = A::ZERO;
                        for (p, &x) in x.iter().enumerate() {
                            *sum += x * b.get(p, start + j);
                        }
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
    fn dot<A: Real>(x: &[A], y: &[A]) -> A {
        crate::real::sum_of2(x, y, |a, b| a * b)
    }
}

simd! {
    fn sum_rows<A: Real>(x: &[A], b: *const A, row: usize, sums: &mut [A]) {
        sums.fill(A::ZERO);
        let n = sums.len();
        let mut p = 0;
        // Four rows at a time: one load and store of the sums for four products.
        while p + 4 <= x.len() {
            // SAFETY: the caller vouches for `x.len()` rows of `n` elements.
            let rows: [&[A]; 4] = std::array::from_fn(|i| unsafe { std::slice::from_raw_parts(b.add((p + i) * row), n) });
            for j in 0..n {
                sums[j] += (x[p] * rows[0][j] + x[p + 1] * rows[1][j]) + (x[p + 2] * rows[2][j] + x[p + 3] * rows[3][j]);
            }
            p += 4;
        }
        while p < x.len() {
            // SAFETY: as above.
            let values = unsafe { std::slice::from_raw_parts(b.add(p * row), n) };
            for j in 0..n {
                sums[j] += x[p] * values[j];
            }
            p += 1;
        }
    }
}

simd! {
    /// A product so small that packing it would cost more than computing it.
    fn tiny<A: Real>(m: usize, n: usize, k: usize, alpha: A, a: Mat<A>, b: Mat<A>, beta: A, c: MatMut<A>) {
        let mut packed = [A::ZERO; 64 * 64];
        // SAFETY: indices stay within the sizes that the caller vouches for.
        unsafe {
            let (rows, stride) = if b.col == 1 {
                (b.ptr, b.row)
            } else {
                for p in 0..k {
                    for j in 0..n {
                        packed[p * n + j] = b.get(p, j);
                    }
                }
                (packed.as_ptr(), n)
            };
            let mut sums = [A::ZERO; 64];
            for i in 0..m {
                let sums = &mut sums[..n];
                sums.fill(A::ZERO);
                for p in 0..k {
                    let x = a.get(i, p);
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

/// A batched operand: accumulators, batch strides, row and column stride.
struct Operand<'a, A> {
    data: Input<'a, A>,
    ptr: *const A,
    batch: Vec<usize>,
    row: usize,
    col: usize,
}

/// Reads an operand in place when it is of the accumulator type, whatever its strides; else converts each element once,
/// leaving broadcast dimensions broadcast.
fn operand<'a, A: Real>(x: &View<'a>) -> Operand<'a, A> {
    let rank = x.sizes().len();
    let strides = x.strides();
    if x.dtype() == A::DTYPE {
        return Operand {
            data: Input::Borrowed(&[]),
            ptr: x.ptr().cast(),
            batch: strides[..rank - 2].to_vec(),
            row: strides[rank - 2],
            col: strides[rank - 1],
        };
    }
    let sizes: Vec<usize> = x.sizes().iter().zip(strides).map(|(&n, &s)| if s == 0 { n.min(1) } else { n }).collect();
    // A matrix stored column by column is converted in that order.
    let transposed = strides[rank - 2] < strides[rank - 1] && strides[rank - 2] != 0;
    let (mut sizes, mut from) = (sizes, strides.to_vec());
    if transposed {
        sizes.swap(rank - 2, rank - 1);
        from.swap(rank - 2, rank - 1);
    }
    let mut dense = vec![0; rank];
    let mut step = 1;
    for d in (0..rank).rev() {
        dense[d] = if from[d] == 0 { 0 } else { step };
        step *= sizes[d];
    }
    let mut copy = Scratch::any(step);
    // SAFETY: each size is at most the view's own.
    gather(&unsafe { View::new(x.ptr(), &sizes, &from, x.dtype()) }, &mut copy);
    if transposed {
        dense.swap(rank - 2, rank - 1);
    }
    let ptr = copy.as_ptr();
    let (row, col) = (dense[rank - 2], dense[rank - 1]);
    dense.truncate(rank - 2);
    Operand { data: Input::Copied(copy), ptr, batch: dense, row, col }
}

/// Strides of an operand's batch dimensions as the output's batch sees them: missing or size-one dimensions repeat.
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
            for_acc!(d, A => float_product::<A>(m, n, k, a, b, out, A::of(alpha), A::of(beta), bias));
            Ok(())
        }
        DType::C64 => {
            complex_product::<c64>(m, n, k, a, b, out, alpha, beta, bias);
            Ok(())
        }
        DType::C128 => {
            complex_product::<c128>(m, n, k, a, b, out, alpha, beta, bias);
            Ok(())
        }
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
    let lead = out_sizes.len() - bias.sizes().len();
    let mut strides = vec![0; lead];
    strides.extend(bias.sizes().iter().zip(bias.strides()).map(|(&n, &s)| if n == 1 { 0 } else { s }));
    // SAFETY: repeated dimensions have stride zero.
    gather(&unsafe { View::new(bias.ptr(), out_sizes, &strides, bias.dtype()) }, out);
}

fn float_product<A: Real>(
    m: usize,
    n: usize,
    k: usize,
    a: &View,
    b: &View,
    out: &mut ViewMut,
    alpha: A,
    beta: A,
    bias: Option<&View>,
) {
    #[cfg(target_arch = "x86_64")]
    if A::DTYPE == DType::F32
        && a.dtype() == DType::BF16
        && b.dtype() == DType::BF16
        && m.min(n) > 1
        && m * n * k >= 32 * 32 * 32
        && crate::gemm_bf16::is_available()
    {
        return bf16_product(m, n, k, a, b, out, alpha.to_f64() as f32, beta.to_f64() as f32, bias);
    }
    let rank = out.sizes().len();
    let batch = &out.sizes()[..rank - 2];
    let out_strides = out.strides().to_vec();
    let (a, b) =
        ((operand::<A>(a), &a.sizes()[..a.sizes().len() - 2]), (operand::<A>(b), &b.sizes()[..b.sizes().len() - 2]));
    let a_batch = broadcast(&a.0.batch, a.1, rank - 2);
    let b_batch = broadcast(&b.0.batch, b.1, rank - 2);
    let run = |c: *mut A, c_strides: &[usize], beta: A| {
        let (c_row, c_col) = (c_strides[rank - 2], c_strides[rank - 1]);
        // SAFETY: views cover the elements that the sizes reach.
        unsafe {
            batches(
                m,
                n,
                k,
                batch,
                alpha,
                &a.0,
                &a_batch,
                &b.0,
                &b_batch,
                beta,
                (c, &c_strides[..rank - 2], c_row, c_col),
            )
        };
    };
    let _keep = (&a.0.data, &b.0.data);
    if out.dtype() == A::DTYPE && bias.is_none() {
        return run(out.ptr().cast(), &out_strides, beta);
    }
    let sizes = out.sizes();
    let mut dense = vec![1; rank];
    for d in (0..rank - 1).rev() {
        dense[d] = dense[d + 1] * sizes[d + 1];
    }
    if let Some(bias) = bias {
        return output::<A, _>(out, |c| {
            fill_bias(bias, sizes, c);
            run(c.as_mut_ptr(), &dense, A::ONE);
        });
    }
    let mut c = Scratch::any(out.numel());
    if beta != A::ZERO {
        gather(&out.as_view(), &mut c);
    }
    run(c.as_mut_ptr(), &dense, beta);
    scatter(&c, out);
}

/// Products of `bf16` read where they lie, with sums in `f32` scratch memory that is rounded once.
#[cfg(target_arch = "x86_64")]
fn bf16_product(
    m: usize,
    n: usize,
    k: usize,
    a: &View,
    b: &View,
    out: &mut ViewMut,
    alpha: f32,
    beta: f32,
    bias: Option<&View>,
) {
    let rank = out.sizes().len();
    let sizes = out.sizes();
    let batch = &sizes[..rank - 2];
    let batch_strides = |x: &View| {
        let r = x.sizes().len() - 2;
        broadcast(&x.strides()[..r], &x.sizes()[..r], rank - 2)
    };
    let (a_batch, b_batch) = (batch_strides(a), batch_strides(b));
    let matrix = |x: &View, offset: usize| {
        let r = x.sizes().len();
        // SAFETY: the offset is that of a batch of the view.
        unsafe { Mat::at(x.ptr().cast::<crate::bf16>().add(offset), x.strides()[r - 2], x.strides()[r - 1]) }
    };
    let mut c = Scratch::<f32>::any(out.numel());
    let beta = match bias {
        Some(bias) => {
            fill_bias(bias, sizes, &mut c);
            1.0
        }
        None => {
            if beta != 0.0 {
                gather(&out.as_view(), &mut c);
            }
            beta
        }
    };
    let mut count: usize = batch.iter().product();
    let mut rows = m;
    let mut a_row = a.strides()[a.strides().len() - 2];
    // One matrix for all batches, and rows that follow one another: a single product of all rows.
    if count > 1 && b_batch.iter().all(|&s| s == 0) {
        let all: Vec<usize> = a_batch.iter().copied().chain([a_row]).collect();
        let (_, s) = merged(&sizes[..rank - 1], &all);
        if let [row] = s[..] {
            (rows, count, a_row) = (m * count, 1, row);
        }
    }
    let inside = count < threads() || rows * n * k >= 512 * 512 * 512;
    let to = Shared::new(&mut c);
    parallel_for(count, if inside { count } else { SERIAL.div_ceil(rows * n * k) }, |range| {
        for i in range {
            let x = Mat { row: a_row, ..matrix(a, offset_of(i, batch, &a_batch)) };
            let y = matrix(b, offset_of(i, batch, &b_batch));
            // SAFETY: the processor was asked; views cover their elements; batches of the output are disjoint.
            unsafe {
                let c = MatMut::at(to.ptr().add(i * rows * n), n, 1);
                let parallel = inside && threads() > 1 && rows * n * k >= SERIAL;
                crate::gemm_bf16::gemm(rows, n, k, alpha, x, y, beta, c, parallel);
            }
        }
    });
    scatter(&c, out);
}

/// # Safety
/// As [`gemm`], for every batch.
unsafe fn batches<A: Real>(
    m: usize,
    n: usize,
    k: usize,
    batch: &[usize],
    alpha: A,
    a: &Operand<A>,
    a_batch: &[usize],
    b: &Operand<A>,
    b_batch: &[usize],
    beta: A,
    c: (*mut A, &[usize], usize, usize),
) {
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
            )
        };
    }
    if count == 1 {
        return one(0, 0, 0, m, true);
    }
    let work = m * n * k.max(1);
    if count < threads() || work >= 512 * 512 * 512 {
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
                );
            }
        }
    });
}

/// Complex numbers: one product a batch, where the elements lie.
fn complex_product<C: crate::complex::Complex>(
    m: usize,
    n: usize,
    k: usize,
    a: &View,
    b: &View,
    out: &mut ViewMut,
    alpha: f64,
    mut beta: f64,
    bias: Option<&View>,
) {
    assert!(a.dtype() == C::DTYPE && b.dtype() == C::DTYPE, "matmul: operands of different types");
    let rank = out.sizes().len();
    let batch = &out.sizes()[..rank - 2];
    let strides = |x: &View| {
        let r = x.sizes().len();
        (broadcast(&x.strides()[..r - 2], &x.sizes()[..r - 2], rank - 2), x.strides()[r - 2], x.strides()[r - 1])
    };
    let ((ab, ar, ac), (bb, br, bc), (cb, cr, cc)) = (strides(a), strides(b), strides(&out.as_view()));
    if let Some(bias) = bias {
        let mut s = vec![0; rank - bias.sizes().len()];
        s.extend(bias.sizes().iter().zip(bias.strides()).map(|(&n, &s)| if n == 1 { 0 } else { s }));
        // SAFETY: repeated dimensions have stride zero.
        crate::copy::copy(&unsafe { View::new(bias.ptr(), out.sizes(), &s, bias.dtype()) }, out);
        beta = 1.0;
    }
    if k == 0 {
        if beta == 0.0 {
            crate::copy::fill(out, crate::copy::Scalar::Int(0));
        }
        return;
    }
    let count: usize = batch.iter().product();
    let inside = count < threads() || m * n * k >= 256 * 256 * 256;
    let pointers = (
        Shared::at(a.ptr().cast_mut().cast::<C>()),
        Shared::at(b.ptr().cast_mut().cast::<C>()),
        Shared::at(out.ptr().cast::<C>()),
    );
    let (alpha, beta) = (C::from_f64(alpha), C::from_f64(beta));
    parallel_for(count, if inside { count } else { SERIAL.div_ceil(m * n * k) }, |range| {
        let parallel = inside && threads() > 1 && m * n * k >= SERIAL;
        let parallelism = if parallel { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
        for i in range {
            // SAFETY: views cover the elements that the sizes reach; batches of the output are disjoint and overlap neither
            // operand.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    pointers.2.ptr().add(offset_of(i, batch, &cb)),
                    cc as isize,
                    cr as isize,
                    beta != C::default(),
                    pointers.0.ptr().add(offset_of(i, batch, &ab)),
                    ac as isize,
                    ar as isize,
                    pointers.1.ptr().add(offset_of(i, batch, &bb)),
                    bc as isize,
                    br as isize,
                    beta,
                    alpha,
                    false,
                    false,
                    false,
                    parallelism,
                );
            }
        }
    });
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
