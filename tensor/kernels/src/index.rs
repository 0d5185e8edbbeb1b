//! Gather, scatter, advanced indexing and masks: reads and writes at positions that are data.
//!
//! Index views are I64 or I32. A kernel reads and checks all indices before it writes, so an error leaves the output
//! unchanged. Indices are not clamped. Negative indices count from the end in [`index`], [`index_put`], [`index_fill`],
//! [`take`] and [`put`]. Elsewhere they are errors, as in PyTorch.
//!
//! One thread writes to equal positions, in index order, so results do not depend on the number of threads. A scalar
//! value is passed as a view whose strides are zero.

use crate::accumulate::{Fold, accumulate as fold_into, is_narrow};
use crate::complex::by_parts;
use crate::memory;
use crate::strided::{Address, Nest, for_width, offset_of, row_major};
use crate::threads::{CHEAP_GRAIN, parallel_for};
use crate::{Bool, DType, Element, KernelError, View, ViewMut, c64, c128, for_any_dtype, for_dtype};

/// Return all indices in row-major order, for any integer dtype.
pub(crate) fn read_indices(index: &View) -> Vec<i64> {
    if let Some(all) = index.as_slice::<i64>() {
        return memory::copied(all);
    }
    let mut read = memory::with_capacity(index.numel());
    let nest = Nest::new(index.sizes(), [index.strides()], |_| false);
    for_dtype!(index.dtype(), T => {
        let x = Address::<T>::of(index.ptr());
        // SAFETY: the nest visits only offsets of the view's elements.
        nest.for_each_row(|[o], n, [s]| read.extend((0..n).map(|i| unsafe { x.read(o + i * s) }.to_i64())));
    });
    read
}

fn out_of_bounds(i: i64, dim: usize, size: usize) -> KernelError {
    KernelError::IndexOutOfRange(format!("index {i} is out of bounds for dimension {dim} with size {size}"))
}

/// Check that indices lie in `0..size`, after wrapping negative ones if `wrap` is set.
fn checked(
    mut indices: Vec<i64>,
    size: usize,
    wrap: bool,
    error: impl Fn(i64) -> KernelError,
) -> Result<Vec<i64>, KernelError> {
    let n = size as i64;
    let low = if wrap { -n } else { 0 };
    // Check without branches first: usually every index is valid.
    let (least, most) = indices.iter().fold((0, -1), |(a, b), &i| (i.min(a), i.max(b)));
    if least < low || most >= n {
        let bad = indices.iter().find(|&&i| i < low || i >= n).expect("one of them is the extreme just found");
        return Err(error(*bad));
    }
    if least < 0 {
        indices.iter_mut().filter(|i| **i < 0).for_each(|i| *i += n);
    }
    Ok(indices)
}

/// Return `strides` with zero at `dim`: the part of an offset that the index does not replace.
fn without_dim(strides: &[usize], dim: usize) -> Vec<usize> {
    let mut s = strides.to_vec();
    if let Some(s) = s.get_mut(dim) {
        *s = 0;
    }
    s
}

/// Return the strides of a one-dimensional index along `dim`.
fn along(dims: usize, dim: usize) -> Vec<usize> {
    (0..dims).map(|d| usize::from(d == dim)).collect()
}

fn size_and_stride(sizes: &[usize], strides: &[usize], dim: usize) -> (usize, usize) {
    // Treat a view without dimensions as one of one element.
    (sizes.get(dim).copied().unwrap_or(1), strides.get(dim).copied().unwrap_or(0))
}

/// Compute `out[..] = x[.., positions, ..]` for the loop nest `[x without dim, out, positions]`.
fn read_at<T: Copy>(nest: &Nest<3>, x: &View, out: &mut ViewMut, positions: &[i64], step: usize) {
    let (x, out) = (Address::<T>::of(x.ptr()), Address::<T>::of(out.ptr()));
    nest.par_for_each_row(|[xo, oo, po], n, [xs, os, ps]| {
        // SAFETY: positions are checked, and the other offsets are those of the views' elements. Each output element is
        // written once. The output shares no memory with `x`.
        unsafe {
            if ps == 0 {
                let xo = xo + positions[po] as usize * step;
                if xs == 1 && os == 1 {
                    std::ptr::copy_nonoverlapping(x.at(xo), out.at(oo), n);
                } else {
                    (0..n).for_each(|j| out.write(oo + j * os, x.read(xo + j * xs)));
                }
            } else {
                for j in 0..n {
                    let p = *positions.get_unchecked(po + j * ps) as usize;
                    out.write(oo + j * os, x.read(xo + j * xs + p * step));
                }
            }
        }
    });
}

/// Compute `out[.., positions, ..] = op(out[..], src[..])` for the loop nest `[out without dim, src, positions]`.
pub(crate) fn write_at<T: Copy, S: Copy>(
    nest: &Nest<3>,
    out: &mut ViewMut,
    src: &View,
    positions: &[i64],
    step: usize,
    op: impl Fn(T, S) -> T + Sync,
) {
    let (src, out) = (Address::<S>::of(src.ptr()), Address::<T>::of(out.ptr()));
    nest.par_for_each_row(|[oo, so, po], n, [os, ss, ps]| {
        if ps == 0 {
            let oo = oo + positions[po] as usize * step;
            for j in 0..n {
                // SAFETY: as below.
                unsafe { out.write(oo + j * os, op(out.read(oo + j * os), src.read(so + j * ss))) };
            }
            return;
        }
        for j in 0..n {
            // SAFETY: positions are checked, and the other offsets are those of the views' elements. If several
            // positions can reach an element, one thread handles all of them.
            unsafe {
                let o = oo + j * os + positions[po + j * ps] as usize * step;
                out.write(o, op(out.read(o), src.read(so + j * ss)));
            }
        }
    });
}

/// Compute `out[i][j][k] = x[index[i][j][k]][j][k]` for `dim` 0, and accordingly for other dimensions. `out` and
/// `index` have the same sizes.
///
/// # Errors
/// Fails if an index is outside the dimension.
pub fn gather(x: &View, dim: usize, index: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    let (size, step) = size_and_stride(x.sizes(), x.strides(), dim);
    let positions = checked(read_indices(index), size, false, |i| out_of_bounds(i, dim, size))?;
    let index_strides = row_major(index.sizes());
    let nest = Nest::new(index.sizes(), [&without_dim(x.strides(), dim), out.strides(), &index_strides], |_| false);
    for_width!(x.dtype(), T => read_at::<T>(&nest, x, out, &positions, step));
    Ok(())
}

/// Copy rows of `x` along `dim` in the order of the one-dimensional `index`.
///
/// # Errors
/// Fails if an index is outside the dimension.
pub fn index_select(x: &View, dim: usize, index: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    let (size, step) = size_and_stride(x.sizes(), x.strides(), dim);
    let positions = checked(read_indices(index), size, false, |_| {
        KernelError::IndexOutOfRange("index out of range in self".into())
    })?;
    let index_strides = along(out.sizes().len(), dim);
    let nest = Nest::new(out.sizes(), [&without_dim(x.strides(), dim), out.strides(), &index_strides], |_| false);
    for_width!(x.dtype(), T => read_at::<T>(&nest, x, out, &positions, step));
    Ok(())
}

/// Arithmetic of elements. Integers wrap, and `bool` computes or/and. [`crate::accumulate`] has sums and products of
/// 16-bit floats.
trait Arithmetic: Element + PartialOrd {
    fn plus(self, y: Self) -> Self;
    fn times(self, y: Self) -> Self;
    /// Whether the element is NaN.
    fn is_nan(self) -> bool;
    /// Return the mean of `n` elements whose sum is `self`. Integers round down.
    fn mean_of(self, n: i64) -> Self;
    /// The start value of a maximum.
    const LEAST: Self;
    /// The start value of a minimum.
    const GREATEST: Self;
}

macro_rules! integer_arithmetic {
    ($($t:ty)*) => {$(
        impl Arithmetic for $t {
            #[inline(always)]
            fn plus(self, y: Self) -> Self { self.wrapping_add(y) }
            #[inline(always)]
            fn times(self, y: Self) -> Self { self.wrapping_mul(y) }
            fn is_nan(self) -> bool { false }
            fn mean_of(self, n: i64) -> Self {
                let (q, r) = (self as i64 / n, self as i64 % n);
                (q - i64::from(r < 0)) as $t
            }
            const LEAST: Self = <$t>::MIN;
            const GREATEST: Self = <$t>::MAX;
        }
    )*};
}
integer_arithmetic!(u8 i8 i16 i32 i64);

macro_rules! float_arithmetic {
    ($($t:ty)*) => {$(
        impl Arithmetic for $t {
            #[inline(always)]
            fn plus(self, y: Self) -> Self { self + y }
            #[inline(always)]
            fn times(self, y: Self) -> Self { self * y }
            #[inline(always)]
            fn is_nan(self) -> bool { self != self }
            fn mean_of(self, n: i64) -> Self { self / <$t as Element>::from_i64(n) }
            const LEAST: Self = <$t>::NEG_INFINITY;
            const GREATEST: Self = <$t>::INFINITY;
        }
    )*};
}
float_arithmetic!(f32 f64 crate::f16 crate::bf16);

impl Arithmetic for Bool {
    fn plus(self, y: Self) -> Self {
        Bool::from(self.is_true() | y.is_true())
    }
    fn times(self, y: Self) -> Self {
        Bool::from(self.is_true() & y.is_true())
    }
    fn is_nan(self) -> bool {
        false
    }
    fn mean_of(self, _: i64) -> Self {
        self
    }
    const LEAST: Self = Bool::FALSE;
    const GREATEST: Self = Bool::TRUE;
}

/// How a scatter combines the old and the new value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterReduce {
    /// `sum`
    Sum,
    /// `prod`
    Prod,
    /// `mean`
    Mean,
    /// `amax`, NaN is the largest
    Amax,
    /// `amin`, NaN is the smallest
    Amin,
}

/// Return the checked positions of a scatter along `dim` and its loop nest.
fn scatter_nest(
    out: &ViewMut,
    dim: usize,
    index: &View,
    src: &View,
) -> Result<(Vec<i64>, Nest<3>, usize), KernelError> {
    let (size, step) = size_and_stride(out.sizes(), out.strides(), dim);
    let positions = checked(read_indices(index), size, false, |i| out_of_bounds(i, dim, size))?;
    let index_strides = row_major(index.sizes());
    let out_strides = without_dim(out.strides(), dim);
    let nest = Nest::new(index.sizes(), [&out_strides, src.strides(), &index_strides], |d| d == dim);
    Ok((positions, nest.serial_if_repeated(out), step))
}

/// Compute `out[index[i][j][k]][j][k] = src[i][j][k]` for `dim` 0, and accordingly for other dimensions. The last of
/// equal positions wins.
///
/// In other dimensions, `src` and `out` may be larger than `index`.
///
/// # Errors
/// Fails if an index is outside the dimension.
pub fn scatter(out: &mut ViewMut, dim: usize, index: &View, src: &View) -> Result<(), KernelError> {
    let (positions, nest, step) = scatter_nest(out, dim, index, src)?;
    for_width!(out.dtype(), T => write_at::<T, T>(&nest, out, src, &positions, step, |_, s| s));
    Ok(())
}

/// Like [`scatter`], but add to the old values.
///
/// # Errors
/// Fails if an index is outside the dimension.
pub fn scatter_add(out: &mut ViewMut, dim: usize, index: &View, src: &View) -> Result<(), KernelError> {
    scatter_reduce(out, dim, index, src, ScatterReduce::Sum, true)
}

/// Like [`scatter`], but combine the old and the new values. Without `include_self`, the old values of the written
/// positions do not count.
///
/// # Errors
/// Fails if an index is outside the dimension.
pub fn scatter_reduce(
    out: &mut ViewMut,
    dim: usize,
    index: &View,
    src: &View,
    kind: ScatterReduce,
    include_self: bool,
) -> Result<(), KernelError> {
    if out.dtype().is_complex() && kind != ScatterReduce::Prod {
        return by_parts(src, out, |src, out| scatter_reduce(out, dim, index, src, kind, include_self));
    }
    let (positions, nest, step) = scatter_nest(out, dim, index, src)?;
    if is_narrow(out) && !matches!(kind, ScatterReduce::Amax | ScatterReduce::Amin) {
        let fold = Fold { kind, include_self, ..Fold::SUM };
        fold_into(out, src, &nest, &positions, step, index.numel(), fold);
        return Ok(());
    }
    match out.dtype() {
        DType::C64 => multiply::<c64>(out, src, &positions, &nest, step, include_self),
        DType::C128 => multiply::<c128>(out, src, &positions, &nest, step, include_self),
        d => for_dtype!(d, T => combine::<T>(out, src, &positions, &nest, step, kind, include_self)),
    }
    if kind == ScatterReduce::Mean {
        if index.numel() < out.numel() / 8 {
            return divide_sums(out, &positions, &nest, step, include_self);
        }
        // Count in a dense array of the sizes of `out`, through the same nest with its strides.
        let count_strides = row_major(out.sizes());
        let mut counts = memory::filled(i64::from(include_self), out.numel());
        let mut counted = ViewMut::of_slice(&mut counts, out.sizes(), &count_strides);
        let zeros = vec![0; index.sizes().len()];
        let one = View::of_slice(&[1i64], &[], &[]);
        let index_strides = row_major(index.sizes());
        let nest = Nest::new(index.sizes(), [&without_dim(&count_strides, dim), &zeros, &index_strides], |d| d == dim);
        let step = count_strides.get(dim).copied().unwrap_or(0);
        write_at::<i64, i64>(&nest, &mut counted, &one, &positions, step, |a, b| a + b);
        divide(out, &counts, &count_strides);
    }
    Ok(())
}

/// Like [`combine`], for complex products.
fn multiply<T: Element + std::ops::Mul<Output = T>>(
    out: &mut ViewMut,
    src: &View,
    positions: &[i64],
    nest: &Nest<3>,
    step: usize,
    include_self: bool,
) {
    if !include_self {
        write_at::<T, T>(nest, out, src, positions, step, |_, _| T::from_i64(1));
    }
    write_at::<T, T>(nest, out, src, positions, step, |a, b| a * b);
}

fn combine<T: Arithmetic>(
    out: &mut ViewMut,
    src: &View,
    positions: &[i64],
    nest: &Nest<3>,
    step: usize,
    kind: ScatterReduce,
    include_self: bool,
) {
    if !include_self {
        let start = match kind {
            ScatterReduce::Sum | ScatterReduce::Mean => T::from_i64(0),
            ScatterReduce::Prod => T::from_i64(1),
            ScatterReduce::Amax => T::LEAST,
            ScatterReduce::Amin => T::GREATEST,
        };
        write_at::<T, T>(nest, out, src, positions, step, |_, _| start);
    }
    match kind {
        ScatterReduce::Sum | ScatterReduce::Mean => write_at::<T, T>(nest, out, src, positions, step, T::plus),
        ScatterReduce::Prod => write_at::<T, T>(nest, out, src, positions, step, T::times),
        ScatterReduce::Amax => {
            write_at::<T, T>(nest, out, src, positions, step, |a, b| if b.is_nan() || b > a { b } else { a });
        }
        ScatterReduce::Amin => {
            write_at::<T, T>(nest, out, src, positions, step, |a, b| if b.is_nan() || b < a { b } else { a });
        }
    }
}

/// Divide the sums at the written positions by the number of their values. This costs as much as the positions, not as
/// `out`.
fn divide_sums(
    out: &mut ViewMut,
    positions: &[i64],
    nest: &Nest<3>,
    step: usize,
    include_self: bool,
) -> Result<(), KernelError> {
    let mut written = memory::with_capacity(positions.len());
    nest.for_each_row(|[oo, _, po], n, [os, _, ps]| {
        written.extend((0..n).map(|j| oo + j * os + positions[po + j * ps] as usize * step));
    });
    written.sort_unstable();
    for_dtype!(out.dtype(), T => {
        let out = Address::<T>::of(out.ptr());
        for same in written.chunk_by(|a, b| a == b) {
            let n = same.len() as i64 + i64::from(include_self);
            if n > 1 {
                // SAFETY: the offset is that of an element that the nest has written.
                unsafe { out.write(same[0], out.read(same[0]).mean_of(n)) };
            }
        }
    });
    Ok(())
}

/// Divide by the counts. Elements with a count of zero stay unchanged.
fn divide(out: &mut ViewMut, counts: &[i64], count_strides: &[usize]) {
    let nest = Nest::new(out.sizes(), [out.strides(), count_strides], |_| false);
    for_dtype!(out.dtype(), T => {
        let out = Address::<T>::of(out.ptr());
        nest.par_for_each_row(|[oo, co], n, [os, cs]| {
            for j in 0..n {
                let n = counts[co + j * cs];
                if n > 1 {
                    // SAFETY: the nest visits each element of the view once.
                    unsafe { out.write(oo + j * os, out.read(oo + j * os).mean_of(n)) };
                }
            }
        });
    });
}

/// Return the loop nest of an op that writes whole rows of `src` along `dim`.
fn row_nest(out: &ViewMut, dim: usize, sizes: &[usize], src_strides: &[usize]) -> Nest<3> {
    let index_strides = along(sizes.len(), dim);
    let nest = Nest::new(sizes, [&without_dim(out.strides(), dim), src_strides, &index_strides], |d| d == dim);
    nest.serial_if_repeated(out)
}

/// Add `alpha` times the rows of `src` to rows of `out` along `dim`. `index` is one-dimensional.
///
/// # Errors
/// Fails if an index is outside the dimension.
pub fn index_add(out: &mut ViewMut, dim: usize, index: &View, src: &View, alpha: f64) -> Result<(), KernelError> {
    if out.dtype().is_complex() {
        return by_parts(src, out, |src, out| index_add(out, dim, index, src, alpha));
    }
    let (size, step) = size_and_stride(out.sizes(), out.strides(), dim);
    let positions = checked(read_indices(index), size, false, |_| {
        KernelError::IndexOutOfRange("index out of range in self".into())
    })?;
    let nest = row_nest(out, dim, src.sizes(), src.strides());
    if is_narrow(out) {
        let fold = Fold { alpha: alpha as f32, ..Fold::SUM };
        fold_into(out, src, &nest, &positions, step, src.numel(), fold);
        return Ok(());
    }
    for_dtype!(out.dtype(), T => {
        let alpha_t = <T as Element>::from_f64(alpha);
        if alpha == 1.0 {
            write_at::<T, T>(&nest, out, src, &positions, step, |a, b| a.plus(b));
        } else {
            write_at::<T, T>(&nest, out, src, &positions, step, |a, b| a.plus(b.times(alpha_t)));
        }
    });
    Ok(())
}

/// Copy the rows of `src` to rows of `out` along `dim`. The last of equal positions wins.
///
/// # Errors
/// Fails if an index is outside the dimension.
pub fn index_copy(out: &mut ViewMut, dim: usize, index: &View, src: &View) -> Result<(), KernelError> {
    let (size, step) = size_and_stride(out.sizes(), out.strides(), dim);
    let positions = checked(read_indices(index), size, false, |i| {
        KernelError::IndexOutOfRange(format!(
            "index_copy_(): index {i} is out of bounds for dimension {dim} with size {size}"
        ))
    })?;
    let nest = row_nest(out, dim, src.sizes(), src.strides());
    for_width!(out.dtype(), T => write_at::<T, T>(&nest, out, src, &positions, step, |_, s| s));
    Ok(())
}

/// Write one value (a view of one element) to rows of `out` along `dim`. Negative indices count from the end.
///
/// # Errors
/// Fails if an index is outside the dimension.
pub fn index_fill(out: &mut ViewMut, dim: usize, index: &View, value: &View) -> Result<(), KernelError> {
    let (size, step) = size_and_stride(out.sizes(), out.strides(), dim);
    let positions = checked(read_indices(index), size, true, |i| out_of_bounds(i, dim, size))?;
    let mut sizes = out.sizes().to_vec();
    if let Some(n) = sizes.get_mut(dim) {
        *n = positions.len();
    } else if positions.is_empty() {
        return Ok(());
    }
    let zeros = vec![0; sizes.len()];
    let nest = row_nest(out, dim, &sizes, &zeros);
    for_width!(out.dtype(), T => write_at::<T, T>(&nest, out, value, &positions, step, |_, s| s));
    Ok(())
}

/// Return the offsets of points given by tuples of indices into the leading dimensions. All views in `indices` have the
/// same sizes.
fn point_offsets(
    indices: &[View],
    dims: &[usize],
    sizes: &[usize],
    strides: &[usize],
) -> Result<Vec<i64>, KernelError> {
    let mut offsets = memory::filled(0, indices.first().map_or(1, View::numel));
    for (k, index) in indices.iter().enumerate() {
        let dim = dims.get(k).copied().unwrap_or(k);
        let positions = checked(read_indices(index), sizes[k], true, |i| out_of_bounds(i, dim, sizes[k]))?;
        for (o, p) in offsets.iter_mut().zip(positions) {
            *o += p * strides[k] as i64;
        }
    }
    Ok(offsets)
}

/// Return strides over `[points.., rest..]`: those of the row-major number of a point, and those of the indexed
/// element within `rest`.
fn point_strides(points: &[usize], rest: &[usize], indexed: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut numbers = row_major(points);
    numbers.resize(points.len() + rest.len(), 0);
    let mut strides = vec![0; points.len()];
    strides.extend(indexed);
    (numbers, strides)
}

/// Compute `out[p.., r..] = x[indices[0][p], indices[1][p], .., r..]`: advanced indexing of the leading dimensions of
/// `x`.
///
/// All `indices` have the same sizes `p..` (the caller broadcasts them). `dims` names the dimensions for error
/// messages.
///
/// # Errors
/// Fails if an index is outside its dimension.
pub fn index(x: &View, indices: &[View], dims: &[usize], out: &mut ViewMut) -> Result<(), KernelError> {
    let k = indices.len();
    let offsets = point_offsets(indices, dims, x.sizes(), x.strides())?;
    let points = indices.first().map_or(&[][..], |i| i.sizes());
    let (numbers, x_strides) = point_strides(points, &x.sizes()[k..], &x.strides()[k..]);
    let nest = Nest::new(out.sizes(), [&x_strides, out.strides(), &numbers], |_| false);
    for_width!(x.dtype(), T => read_at::<T>(&nest, x, out, &offsets, 1));
    Ok(())
}

/// Compute `out[indices[0][p], .., r..] = values[p.., r..]`, or `+=` if `accumulate`. `values` may have zero strides.
///
/// # Errors
/// Fails if an index is outside its dimension.
pub fn index_put(
    out: &mut ViewMut,
    indices: &[View],
    dims: &[usize],
    values: &View,
    accumulate: bool,
) -> Result<(), KernelError> {
    if accumulate && out.dtype().is_complex() {
        return by_parts(values, out, |values, out| index_put(out, indices, dims, values, true));
    }
    let k = indices.len();
    let offsets = point_offsets(indices, dims, out.sizes(), out.strides())?;
    let points = indices.first().map_or(&[][..], |i| i.sizes());
    let (numbers, out_strides) = point_strides(points, &out.sizes()[k..], &out.strides()[k..]);
    let nest = Nest::new(values.sizes(), [&out_strides, values.strides(), &numbers], |d| d < points.len());
    let nest = nest.serial_if_repeated(out);
    if accumulate && is_narrow(out) {
        fold_into(out, values, &nest, &offsets, 1, values.numel(), Fold::SUM);
    } else if accumulate {
        for_dtype!(out.dtype(), T => write_at::<T, T>(&nest, out, values, &offsets, 1, |a, b| a.plus(b)));
    } else {
        for_width!(out.dtype(), T => write_at::<T, T>(&nest, out, values, &offsets, 1, |_, s| s));
    }
    Ok(())
}

/// Write one value (a view of one element) where `mask` (Bool, sizes of `out`) is true.
pub fn masked_fill(out: &mut ViewMut, mask: &View, value: &View) {
    let (sizes, zeros) = (out.sizes().to_vec(), vec![0; out.sizes().len()]);
    // SAFETY: the view has one element, and all strides are zero.
    let values = unsafe { View::new(value.ptr(), &sizes, &zeros, value.dtype()) };
    masked_copy(out, mask, &values);
}

/// Number of elements of a mask that are looked at together.
const MASKED: usize = 32;

/// Whether the `n` elements of a mask from `at` on are all false. `false` for a mask with gaps, which is not searched.
///
/// # Safety
/// The elements are those of the mask.
#[inline(always)]
unsafe fn is_clear(mask: Address<u8>, at: usize, n: usize, step: usize) -> bool {
    // SAFETY: the caller passes elements of the mask, which follow one another.
    step == 1 && unsafe { std::slice::from_raw_parts(mask.at(at), n) }.iter().fold(0, |any, m| any | m) == 0
}

/// Copy the elements of `values` (sizes of `out`) where `mask` (Bool, sizes of `out`) is true. Runs of elements that
/// stay as they are are not read, so a mask with few ones costs as much as the mask.
pub fn masked_copy(out: &mut ViewMut, mask: &View, values: &View) {
    let nest = Nest::new(out.sizes(), [out.strides(), mask.strides(), values.strides()], |_| false);
    let nest = nest.serial_if_repeated(out);
    for_width!(out.dtype(), T => {
        let (out, mask) = (Address::<T>::of(out.ptr()), Address::<u8>::of(mask.ptr()));
        let values = Address::<T>::of(values.ptr());
        nest.par_for_each_row(|[oo, mo, vo], n, [os, ms, vs]| {
            // SAFETY: the nest visits only offsets of the views' elements, and one thread visits each output element.
            unsafe {
                if ms == 0 {
                    if mask.read(mo) != 0 {
                        (0..n).for_each(|j| out.write(oo + j * os, values.read(vo + j * vs)));
                    }
                    return;
                }
                for start in (0..n).step_by(MASKED) {
                    let end = n.min(start + MASKED);
                    if is_clear(mask, mo + start * ms, end - start, ms) {
                        continue;
                    }
                    for j in start..end {
                        let old = out.read(oo + j * os);
                        let new = values.read(vo + j * vs);
                        // Always write, so that the loop has no branch.
                        out.write(oo + j * os, if mask.read(mo + j * ms) != 0 { new } else { old });
                    }
                }
            }
        });
    });
}

/// Return the number of elements that are not zero. NaN counts as nonzero. This is the number of rows of [`nonzero`],
/// and for a mask the length of [`masked_select`].
pub fn count_nonzero(x: &View) -> usize {
    let nest = Nest::new(x.sizes(), [x.strides()], |_| false);
    let count = std::sync::atomic::AtomicUsize::new(0);
    for_any_dtype!(x.dtype(), T => {
        let x = Address::<T>::of(x.ptr());
        let zero = T::default();
        nest.par_for_each_row(|[o], n, [s]| {
            // SAFETY: the nest visits only offsets of the view's elements.
            let found = (0..n).filter(|j| unsafe { x.read(o + j * s) } != zero).count();
            count.fetch_add(found, std::sync::atomic::Ordering::Relaxed);
        });
    });
    count.into_inner()
}

/// Write the coordinates of the nonzero elements in row-major order. `out` is I64 of shape `[count_nonzero(x), dims]`.
pub fn nonzero(x: &View, out: &mut ViewMut) {
    let (rows, columns) = (out.strides()[0], out.strides()[1]);
    let found = out.sizes()[0];
    let out = Address::<i64>::of(out.ptr());
    let nest = Nest::new(x.sizes(), [x.strides()], |_| false);
    let (mut number, mut row) = (0, 0);
    for_any_dtype!(x.dtype(), T => {
        let x_at = Address::<T>::of(x.ptr());
        let zero = T::default();
        nest.for_each_row(|[o], n, [s]| {
            for j in 0..n {
                // SAFETY: the nest visits only offsets of the view's elements.
                if unsafe { x_at.read(o + j * s) } != zero && row < found {
                    let mut i = number + j;
                    for d in (0..x.sizes().len()).rev() {
                        // SAFETY: `row` is less than the number of rows, and `d` less than the number of columns.
                        unsafe { out.write(row * rows + d * columns, (i % x.sizes()[d]) as i64) };
                        i /= x.sizes()[d];
                    }
                    row += 1;
                }
            }
            number += n;
        });
    });
}

/// Copy the elements of `x` where `mask` (Bool, same sizes) is true, in row-major order. `out` is one-dimensional and
/// has [`count_nonzero`] elements.
pub fn masked_select(x: &View, mask: &View, out: &mut ViewMut) {
    let nest = Nest::new(x.sizes(), [x.strides(), mask.strides()], |_| false);
    let (n_out, stride) = (out.numel(), out.strides().first().copied().unwrap_or(1));
    let mut next = 0;
    for_width!(x.dtype(), T => {
        let (x, mask) = (Address::<T>::of(x.ptr()), Address::<u8>::of(mask.ptr()));
        let out = Address::<T>::of(out.ptr());
        nest.for_each_row(|[xo, mo], n, [xs, ms]| {
            for j in 0..n {
                // SAFETY: the nest visits only offsets of the views' elements, and `next` is less than the output's
                // length.
                unsafe {
                    if mask.read(mo + j * ms) != 0 && next < n_out {
                        out.write(next * stride, x.read(xo + j * xs));
                        next += 1;
                    }
                }
            }
        });
    });
}

/// Write the elements of `src`, in row-major order, to the positions where `mask` (Bool, sizes of `out`) is true.
///
/// # Errors
/// Fails if `src` has fewer elements than `mask` has ones.
pub fn masked_scatter(out: &mut ViewMut, mask: &View, src: &View) -> Result<(), KernelError> {
    if src.numel() < count_nonzero(mask) {
        return Err(KernelError::Other(
            "masked_scatter: expected the number of elements of source to be at least the number of ones in mask"
                .into(),
        ));
    }
    let nest = Nest::new(out.sizes(), [out.strides(), mask.strides()], |_| false);
    let mut next = 0;
    for_width!(out.dtype(), T => {
        let (out, mask) = (Address::<T>::of(out.ptr()), Address::<u8>::of(mask.ptr()));
        let source = Address::<T>::of(src.ptr());
        let is_dense = src.is_contiguous();
        nest.for_each_row(|[oo, mo], n, [os, ms]| {
            for start in (0..n).step_by(MASKED) {
                let end = n.min(start + MASKED);
                // SAFETY: the nest visits only offsets of the views' elements, and `src` has at least as many elements
                // as the mask has ones.
                unsafe {
                    if is_clear(mask, mo + start * ms, end - start, ms) {
                        continue;
                    }
                    for j in start..end {
                        if mask.read(mo + j * ms) != 0 {
                            let from = if is_dense { next } else { offset_of(next, src.sizes(), src.strides()) };
                            out.write(oo + j * os, source.read(from));
                            next += 1;
                        }
                    }
                }
            }
        });
    });
    Ok(())
}

fn flat_positions(index: &View, n: usize) -> Result<Vec<i64>, KernelError> {
    checked(read_indices(index), n, true, |i| {
        KernelError::IndexOutOfRange(format!("out of range: tried to access index {i} on a tensor of {n} elements."))
    })
}

/// Compute `out[..] = x.flatten()[index[..]]`. `out` has the sizes of `index`.
///
/// # Errors
/// Fails if an index is outside `x`.
pub fn take(x: &View, index: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    if x.numel() == 0 && index.numel() > 0 {
        return Err(KernelError::IndexOutOfRange("take(): tried to take from an empty tensor".into()));
    }
    let positions = flat_positions(index, x.numel())?;
    let dense = x.is_contiguous();
    for_width!(x.dtype(), T => {
        let (from, to) = (Address::<T>::of(x.ptr()), Address::<T>::of(out.ptr()));
        let (sizes, strides) = (out.sizes(), out.strides());
        let out_dense = out.is_contiguous();
        parallel_for(positions.len(), CHEAP_GRAIN, |range| {
            for i in range {
                let p = positions[i] as usize;
                let p = if dense { p } else { offset_of(p, x.sizes(), x.strides()) };
                let o = if out_dense { i } else { offset_of(i, sizes, strides) };
                // SAFETY: the position is checked, and only this iteration writes element `i` of the output.
                unsafe { to.write(o, from.read(p)) };
            }
        });
    });
    Ok(())
}

/// Compute `out.flatten()[index[..]] = src[..]`, or `+=` if `accumulate`. `src` has the sizes of `index`.
///
/// # Errors
/// Fails if an index is outside `out`.
pub fn put(out: &mut ViewMut, index: &View, src: &View, accumulate: bool) -> Result<(), KernelError> {
    if accumulate && out.dtype().is_complex() {
        return by_parts(src, out, |src, out| put(out, index, src, true));
    }
    let mut offsets = flat_positions(index, out.numel())?;
    if !out.is_contiguous() {
        for p in &mut offsets {
            *p = offset_of(*p as usize, out.sizes(), out.strides()) as i64;
        }
    }
    let zeros = vec![0; index.sizes().len()];
    let numbers = row_major(index.sizes());
    let nest = Nest::new(index.sizes(), [&zeros, src.strides(), &numbers], |_| true);
    if accumulate && is_narrow(out) {
        fold_into(out, src, &nest, &offsets, 1, src.numel(), Fold::SUM);
    } else if accumulate {
        for_dtype!(out.dtype(), T => write_at::<T, T>(&nest, out, src, &offsets, 1, |a, b| a.plus(b)));
    } else {
        for_width!(out.dtype(), T => write_at::<T, T>(&nest, out, src, &offsets, 1, |_, s| s));
    }
    Ok(())
}
