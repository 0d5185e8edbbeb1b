//! The driver of a product: cuts the summed dimension into blocks, and divides packing and multiplying between threads.

use super::parts::{Extent, SharedExtent};
use super::{Adjacent, Columns, ColumnsFrom, Inside, Kernel, Lines, Multiply, PORTIONS, Side};
use crate::cpu::level;
use crate::matmul::MatMut;
use crate::par::{Scratch, Shared};
use crate::real::{Float, Real, simd};
use crate::threads::{num_threads, parallel_tasks};
use std::ops::Range;

/// A product: sizes, factors and the place of the result.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a, S> {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) alpha: S,
    pub(crate) beta: S,
    /// First element of the result. `row` is the distance between its rows, in elements.
    pub(crate) c: *mut S,
    pub(crate) row: usize,
    pub(crate) columns: &'a dyn Columns,
    /// Whether to use other threads too.
    pub(crate) parallel: bool,
    /// Narrower result that sums are rounded to as they leave the registers, instead of being stored in `c`. Requires a
    /// single block.
    pub(crate) rounded: Option<Rounded<S>>,
    /// One number per column, added to the sums of that column.
    pub(crate) bias: Option<&'a [S]>,
}

/// A result of a narrower type. Its rows, columns and strides are those of the product's `c`, which is not used.
#[derive(Clone, Copy)]
pub(crate) struct Rounded<S> {
    /// First element.
    pub(crate) at: *mut u8,
    /// Size of an element in bytes.
    pub(crate) size: usize,
    /// Function that rounds numbers to consecutive elements.
    pub(crate) write: unsafe fn(&[S], *mut u8),
}

// SAFETY: threads write disjoint tiles of the result.
unsafe impl<S: Sync> Sync for Product<'_, S> {}

/// Return portion `i` of the strip after this one, or null if there is none.
fn portion<S>(strip: &[S], i: usize, next: bool) -> *const S {
    let at = strip.len() + strip.len() / PORTIONS * i;
    if next && i < PORTIONS { strip.as_ptr().wrapping_add(at) } else { std::ptr::null() }
}

/// Largest number of lines that are packed for all threads at once.
const SHARED_LINES: usize = 4096;
/// Number of bytes that a thread packs for itself at once: a part of a second-level cache.
const GROUP_BYTES: usize = 768 << 10;

/// Compute a product. `k` is not zero.
///
/// # Safety
/// The operands have `m` and `n` lines of `k` elements. The result may be written at its rows and columns, and overlaps
/// neither operand.
pub(crate) unsafe fn product<S: Real>(kernel: &Kernel<S>, a: &dyn Lines<S>, b: &dyn Lines<S>, p: &Product<S>) {
    let blocks = p.k.div_ceil(kernel.k_block + kernel.k_block / 4).max(1);
    // A block starts at a packed step, and at a multiple of 16, where packing in groups can start.
    let k_block = p.k.div_ceil(blocks).next_multiple_of((kernel.per_step * kernel.steps).max(16));
    let height = kernel.height(p.m);
    assert!(p.rounded.is_none() || (blocks == 1 && p.beta == S::ZERO), "sums that are rounded before they are whole");
    let by_columns = p.n >= p.m;
    let (shared_lines, lanes) = if by_columns { (p.m, height) } else { (p.n, kernel.width) };
    let outer = SHARED_LINES / lanes * lanes;
    let steps = kernel.steps(k_block.min(p.k));
    let mut shared = Scratch::<S>::any(shared_lines.min(outer).next_multiple_of(lanes) * steps);
    for first in (0..shared_lines).step_by(outer) {
        let lines = first..(first + outer).min(shared_lines);
        for k0 in (0..p.k).step_by(k_block) {
            let k = k0..(k0 + k_block).min(p.k);
            let beta = if k0 == 0 { p.beta } else { S::ONE };
            // Add the bias once, with the last block.
            let p = Product { beta, bias: p.bias.filter(|_| k.end == p.k), ..*p };
            let (side, x) = if by_columns { (Side::Left, a) } else { (Side::Right, b) };
            // SAFETY: the caller passes operands and a result of these sizes.
            unsafe {
                let extent = pack_all(kernel, x, side, &lines, lanes, &k, &mut shared, p.parallel);
                let block = Block { kernel, a, b, height, shared: &shared, extent, k, p: &p };
                match by_columns {
                    _ if !extent.fits(Extent::ONE) => {
                        let lines = lines.clone();
                        let (rows, columns) = if by_columns { (lines, 0..p.n) } else { (0..p.m, lines) };
                        block.multiply_with_fallback(rows, columns, p.parallel)
                    }
                    true => block.split_columns(&lines),
                    false => block.split_rows(&lines),
                }
            }
        }
    }
}

/// Compute a product with the fastest tile for its sizes.
///
/// # Safety
/// The same as for [`product`].
pub(crate) unsafe fn fastest_product<S: Multiply>(a: &dyn Lines<S>, b: &dyn Lines<S>, p: &Product<S>) {
    // SAFETY: the caller passes operands and a result of these sizes, and the processor has the level.
    unsafe { product(S::product_kernel(level(), p.m, p.n, p.k), a, b, p) }
}

fn for_each_range(parallel: bool, count: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    if parallel { parallel_tasks(count, f) } else { f(0..count) }
}

/// Cut `0..n` into shares of at most `most`. Shares get smaller towards the end, so that threads that draw them finish
/// at the same time.
fn shares(n: usize, threads: usize, most: usize) -> Vec<Range<usize>> {
    let mut shares = Vec::new();
    let mut start = 0;
    // If there are few strips, allow smaller shares, so that all threads get some.
    let least = (most / 4).min(n / (4 * threads)).max(1);
    while start < n {
        let size = ((n - start) / (2 * threads)).clamp(least, most).min(n - start);
        shares.push(start..start + size);
        start += size;
    }
    shares
}

/// Pack lines for all threads.
unsafe fn pack_all<S: Real>(
    kernel: &Kernel<S>,
    x: &dyn Lines<S>,
    side: Side,
    lines: &Range<usize>,
    lanes: usize,
    k: &Range<usize>,
    out: &mut [S],
    parallel: bool,
) -> Extent {
    let size = kernel.steps(k.len()) * lanes;
    let out = Shared::new(out);
    let extent = SharedExtent::new();
    for_each_range(parallel, lines.len().div_ceil(lanes), &|range| {
        let here = lines.start + range.start * lanes..(lines.start + range.end * lanes).min(lines.end);
        // SAFETY: the caller passes an operand with these lines, and one thread writes the strip.
        extent.add(unsafe {
            kernel.pack_lines(x, side, here, lanes, k, out.slice(range.start * size, range.len() * size))
        });
    });
    extent.get()
}

/// A block of the summed dimension, with the lines of one operand that are packed for all threads.
struct Block<'a, S: 'static> {
    kernel: &'a Kernel<S>,
    a: &'a dyn Lines<S>,
    b: &'a dyn Lines<S>,
    height: usize,
    shared: &'a [S],
    extent: Extent,
    k: Range<usize>,
    p: &'a Product<'a, S>,
}

impl<S: Real> Block<'_, S> {
    /// Add to a part of the result with the fallback tile, which multiplies any numbers.
    ///
    /// # Safety
    /// The same as for [`product`]. No other thread writes to the part.
    #[cold]
    unsafe fn multiply_with_fallback(&self, rows: Range<usize>, columns: Range<usize>, parallel: bool) {
        let Some(kernel) = self.kernel.fallback else { unreachable!("a tile multiplies all numbers or has another") };
        let inside = |lines, first| Inside { lines, first, k: self.k.start };
        let p = Product {
            m: rows.len(),
            n: columns.len(),
            k: self.k.len(),
            // SAFETY: `rows.start` is a row of the result.
            c: unsafe { self.p.c.add(rows.start * self.p.row) },
            columns: &ColumnsFrom { columns: self.p.columns, first: columns.start },
            parallel,
            bias: self.p.bias.map(|bias| &bias[columns.clone()]),
            ..*self.p
        };
        // SAFETY: the caller passes operands and a result of these sizes, and no other thread writes to the part.
        unsafe { product(kernel, &inside(self.a, rows.start), &inside(self.b, columns.start), &p) }
    }

    /// Multiply with panels per thread: each thread packs panels of the right operand, and multiplies all strips of
    /// `rows` by them.
    ///
    /// # Safety
    /// The same as for [`product`].
    unsafe fn split_columns(&self, rows: &Range<usize>) {
        let Block { kernel, height, shared: left, p, .. } = *self;
        let (steps, width) = (kernel.steps(self.k.len()), kernel.width);
        let panels = p.n.div_ceil(width);
        let threads = if p.parallel { num_threads() } else { 1 };
        // If there are too few panels for the threads, split the strips too.
        let splits = if panels < 2 * threads && threads > 1 { threads.min(rows.len().div_ceil(height)) } else { 1 };
        let most = (GROUP_BYTES / (steps * width * size_of::<S>())).max(1);
        // Give each thread the same number of groups, and several of them, because threads are not equally fast.
        let groups = panels.div_ceil(most).max(2 * threads).next_multiple_of(threads);
        let group = panels.div_ceil(groups);
        let groups = panels.div_ceil(group);
        let strips = rows.len().div_ceil(height);
        for_each_range(p.parallel, groups * splits, &|range| {
            let mut right = Scratch::<S>::any(group * steps * width);
            // SAFETY: the caller passes operands and a result of these sizes, and tasks write disjoint tiles.
            unsafe {
                (kernel.enter)();
                for task in range {
                    let (split, first) = (task % splits, task / splits * group);
                    let here = group.min(panels - first);
                    let strips = split * strips / splits..(split + 1) * strips / splits;
                    let columns = first * width..((first + here) * width).min(p.n);
                    let extent = kernel.pack_lines(self.b, Side::Right, columns.clone(), width, &self.k, &mut right);
                    if !extent.fits(self.extent) {
                        let rows = rows.start + strips.start * height..(rows.start + strips.end * height).min(rows.end);
                        self.multiply_with_fallback(rows, columns, false);
                        continue;
                    }
                    for s in strips.clone() {
                        let a = &left[s * steps * height..][..steps * height];
                        for i in 0..here {
                            let b = &right[i * steps * width..][..steps * width];
                            compute_tile(
                                kernel,
                                height,
                                steps,
                                a,
                                b,
                                rows.start + s * height,
                                rows.end,
                                (first + i) * width,
                                portion(a, i, s + 1 < strips.end),
                                p,
                            );
                        }
                    }
                }
                (kernel.leave)();
            }
        });
    }

    /// Multiply with rows per thread: each thread packs a block of rows of the left operand, and multiplies all panels
    /// of `columns` by it.
    ///
    /// # Safety
    /// The same as for [`product`].
    unsafe fn split_rows(&self, columns: &Range<usize>) {
        let Block { kernel, height, shared: right, p, .. } = *self;
        let (steps, width) = (kernel.steps(self.k.len()), kernel.width);
        let strips = p.m.div_ceil(height);
        let threads = if p.parallel { num_threads() } else { 1 };
        let most = (GROUP_BYTES / (steps * height * size_of::<S>())).max(1);
        let blocks = shares(strips, threads, most);
        let block = blocks[0].len();
        for_each_range(p.parallel, blocks.len(), &|range| {
            let mut left = Scratch::<S>::any(block * steps * height);
            // SAFETY: the caller passes operands and a result of these sizes, and tasks write disjoint tiles.
            unsafe {
                (kernel.enter)();
                for task in range {
                    let Range { start: first, end } = blocks[task].clone();
                    let here = end - first;
                    let rows = first * height..(end * height).min(p.m);
                    let extent = kernel.pack_lines(self.a, Side::Left, rows.clone(), height, &self.k, &mut left);
                    if !extent.fits(self.extent) {
                        self.multiply_with_fallback(rows, columns.clone(), false);
                        continue;
                    }
                    for (panel, j) in columns.clone().step_by(width).enumerate() {
                        let b = &right[panel * steps * width..][..steps * width];
                        for s in 0..here {
                            let a = &left[s * steps * height..][..steps * height];
                            let ahead = portion(b, s, j + width < columns.end);
                            compute_tile(kernel, height, steps, a, b, (first + s) * height, p.m, j, ahead, p);
                        }
                    }
                }
                (kernel.leave)();
            }
        });
    }
}

/// A tile that is computed in a buffer and then stored elsewhere.
#[repr(align(64))]
struct Buffer<S>([S; 32 * 32]);

/// Compute the tile at `(i, j)` and store it.
#[inline(always)]
unsafe fn compute_tile<S: Real>(
    kernel: &Kernel<S>,
    height: usize,
    steps: usize,
    a: &[S],
    b: &[S],
    i: usize,
    end: usize,
    j: usize,
    ahead: *const S,
    p: &Product<S>,
) {
    let (rows, columns) = (height.min(end - i), kernel.width.min(p.n - j));
    let whole = rows == height && columns == kernel.width;
    let start = p.columns.at(j);
    let bias = p.bias.map(|bias| &bias[j..j + columns]);
    if let Some(to) = &p.rounded {
        let mut buffer = std::mem::MaybeUninit::<Buffer<S>>::uninit();
        let (sums, width) = (buffer.as_mut_ptr().cast::<S>(), kernel.width);
        // SAFETY: the caller passes packed operands and a result of these sizes; the tile fills the buffer's first
        // `height` rows.
        unsafe {
            (kernel.tile)(height, steps, a.as_ptr(), b.as_ptr(), p.alpha, S::ZERO, sums, width, height, width, ahead);
            add_bias(bias, sums, width, rows);
            for row in 0..rows {
                let sums = std::slice::from_raw_parts(sums.add(row * width), columns);
                (to.write)(sums, to.at.add(((i + row) * p.row + start) * to.size));
            }
        }
        return;
    }
    // SAFETY: the caller passes packed operands and a result of these sizes; the tile fills the buffer's first `height`
    // rows.
    unsafe {
        let c = p.c.add(i * p.row + start);
        if (whole || kernel.masks) && p.columns.at(j + columns - 1) - start == columns - 1 {
            (kernel.tile)(height, steps, a.as_ptr(), b.as_ptr(), p.alpha, p.beta, c, p.row, rows, columns, ahead);
            return add_bias(bias, c, p.row, rows);
        }
        let mut buffer = std::mem::MaybeUninit::<Buffer<S>>::uninit();
        let sums = buffer.as_mut_ptr().cast::<S>();
        let width = kernel.width;
        (kernel.tile)(height, steps, a.as_ptr(), b.as_ptr(), p.alpha, S::ZERO, sums, width, height, width, ahead);
        add_bias(bias, sums, width, rows);
        for column in 0..columns {
            let c = p.c.add(i * p.row + p.columns.at(j + column));
            for row in 0..rows {
                let (c, v) = (c.add(row * p.row), *sums.add(row * width + column));
                *c = if p.beta == S::ZERO { v } else { v + p.beta * *c };
            }
        }
    }
}

/// Add the bias, if any, to `rows` rows of sums that are `row` elements apart.
///
/// # Safety
/// Each row has as many sums as the bias has numbers.
#[inline(always)]
unsafe fn add_bias<S: Real>(bias: Option<&[S]>, sums: *mut S, row: usize, rows: usize) {
    let Some(bias) = bias else { return };
    for i in 0..rows {
        // SAFETY: the caller passes rows with as many sums as the bias has numbers.
        add(unsafe { std::slice::from_raw_parts_mut(sums.add(i * row), bias.len()) }, bias);
    }
}

simd! {
    fn add<S: Real>(sums: &mut [S], x: &[S]) {
        for (sum, &x) in sums.iter_mut().zip(x) {
            *sum += x;
        }
    }
}

/// Compute `out = alpha * a @ b + bias`, rounded to `T` once. `row` is the distance between the result's rows, whose
/// columns are adjacent. Return whether it computed: sums of more than one block need memory of their own.
///
/// # Safety
/// The same as for [`product`]. The kernel's sums have the type of `T`'s sums.
pub(crate) unsafe fn rounded<T: Float<Acc: Multiply>>(
    kernel: &Kernel<T::Acc>,
    m: usize,
    n: usize,
    k: usize,
    alpha: T::Acc,
    a: &dyn Lines<T::Acc>,
    b: &dyn Lines<T::Acc>,
    out: *mut T,
    row: usize,
    parallel: bool,
    bias: Option<&[T::Acc]>,
) -> bool {
    if k > kernel.k_block {
        return false;
    }
    unsafe fn write<T: Float>(sums: &[T::Acc], to: *mut u8) {
        // SAFETY: the caller passes room for as many elements at `to`.
        crate::real::round(sums, unsafe { std::slice::from_raw_parts_mut(to.cast::<T>(), sums.len()) });
    }
    let to = Rounded { at: out.cast(), size: size_of::<T>(), write: write::<T> };
    let c = std::ptr::dangling_mut();
    let beta = T::Acc::ZERO;
    let p = Product { m, n, k, alpha, beta, c, row, columns: &Adjacent, parallel, rounded: Some(to), bias };
    // SAFETY: the caller passes operands and a result of these sizes.
    unsafe { product(kernel, a, b, &p) };
    true
}

/// Compute a product into a matrix with any strides.
///
/// # Safety
/// The same as for [`product`].
pub(crate) unsafe fn matrices<S: Multiply>(
    kernel: &Kernel<S>,
    m: usize,
    n: usize,
    k: usize,
    alpha: S,
    a: &dyn Lines<S>,
    b: &dyn Lines<S>,
    beta: S,
    c: MatMut<S>,
    parallel: bool,
    bias: Option<&[S]>,
) {
    // SAFETY: the caller passes operands and a result of these sizes, for every path.
    unsafe {
        let at = c.element(0, 0);
        if c.col() == 1 || n == 1 {
            let row = c.row();
            let p = Product { m, n, k, alpha, beta, c: at, row, columns: &Adjacent, parallel, rounded: None, bias };
            return product(kernel, a, b, &p);
        }
        // The columns are not adjacent, so compute a dense result first.
        let mut dense = Scratch::<S>::any(m * n);
        let p = Product {
            m,
            n,
            k,
            alpha,
            beta: S::ZERO,
            c: dense.as_mut_ptr(),
            row: n,
            columns: &Adjacent,
            parallel,
            rounded: None,
            bias,
        };
        product(kernel, a, b, &p);
        for i in 0..m {
            for j in 0..n {
                let (c, v) = (c.element(i, j), dense[i * n + j]);
                *c = if beta == S::ZERO { v } else { v + beta * *c };
            }
        }
    }
}
