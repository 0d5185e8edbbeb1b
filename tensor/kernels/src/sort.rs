//! Sorting, selection and searching along a dimension.
//!
//! Every value is first mapped to an unsigned key with the same order (NaN greatest, both zeros equal). So the
//! algorithms exist only for 32-bit and 64-bit keys. If PyTorch's order of equal values is visible in indices, it is
//! reproduced: `sort` is always stable, `median` takes the element that a stable sort would, and `topk`, `kthvalue` and
//! `mode` use PyTorch's algorithms.
//!
//! `values` and `indices` are distinct views. `indices` is I64. A reduced dimension has size 1 in them.

use crate::memory;
use crate::select::{introsort, nth_element, partial_sort, quick_select};
use crate::strided::{Address, Nest, for_width, offset_of, parallel_sort};
use crate::threads::{CHEAP_GRAIN, parallel_for};
use crate::{DType, Element, KernelError, View, ViewMut, for_dtype};
use std::cmp::Ordering;

/// Map a value to an unsigned number with the same order, of at most 32 bits unless the dtype has 64.
#[inline(always)]
pub(crate) fn total_order<T: Element>(v: T) -> u64 {
    match T::DTYPE {
        DType::F64 => {
            let x = v.to_f64();
            if x.is_nan() {
                return u64::MAX;
            }
            // Adding zero turns negative zero into positive zero.
            let bits = (x + 0.0).to_bits();
            if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
        }
        d if d.is_float() => {
            let x = v.to_f64() as f32;
            if x.is_nan() {
                return u64::from(u32::MAX);
            }
            let bits = (x + 0.0).to_bits();
            u64::from(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 })
        }
        DType::I64 => v.to_i64() as u64 ^ 1 << 63,
        _ => u64::from(v.to_i64() as i32 as u32 ^ 1 << 31),
    }
}

/// Return the largest key of a dtype. For floating dtypes it is the key of NaN.
fn last_key(dtype: DType) -> u64 {
    if dtype.size_bytes() == 8 { u64::MAX } else { u64::from(u32::MAX) }
}

/// The one-dimensional rows of an operand along a dimension.
#[derive(Clone)]
struct Rows {
    outer_sizes: Vec<usize>,
    outer_strides: Vec<usize>,
    len: usize,
    stride: usize,
}

impl Rows {
    /// Return the rows along `dim`. A view without dimensions is one row of one element.
    fn new(sizes: &[usize], strides: &[usize], dim: usize) -> Rows {
        let without =
            |v: &[usize]| v.iter().enumerate().filter(|&(d, _)| d != dim).map(|(_, &n)| n).collect::<Vec<usize>>();
        Rows {
            outer_sizes: without(sizes),
            outer_strides: without(strides),
            len: sizes.get(dim).copied().unwrap_or(1),
            stride: strides.get(dim).copied().unwrap_or(0),
        }
    }
    fn count(&self) -> usize {
        self.outer_sizes.iter().product()
    }
    fn offset(&self, row: usize) -> usize {
        offset_of(row, &self.outer_sizes, &self.outer_strides)
    }
}

/// Call `f(row, keys, offset of the row in x)` for every row, on all threads.
fn for_each_keyed_row(x: &View, rows: &Rows, f: impl Fn(usize, &mut Vec<u64>) + Sync) {
    let len = rows.len.max(1);
    parallel_for(rows.count(), CHEAP_GRAIN.div_ceil(len), |range| {
        let mut keys = memory::with_capacity(len);
        for row in range {
            keys.clear();
            let offset = rows.offset(row);
            for_dtype!(x.dtype(), T => {
                let x = Address::<T>::of(x.ptr());
                // SAFETY: `i < rows.len`, so the element lies within the row.
                keys.extend((0..rows.len).map(|i| total_order(unsafe { x.read(offset + i * rows.stride) })));
            });
            f(row, &mut keys);
        }
    });
}

/// Write the picked positions of one row, and the values at these positions.
fn write_picked(
    x: &View,
    from: (&Rows, usize),
    values: (Address<u8>, &Rows),
    indices: (Address<u8>, &Rows),
    picked: impl Iterator<Item = usize>,
) {
    let (x_rows, row) = from;
    let (xo, vo, io) = (x_rows.offset(row), values.1.offset(row), indices.1.offset(row));
    let index = Address::<i64>::of(indices.0.at(0));
    for_width!(x.dtype(), T => {
        let (x, value) = (Address::<T>::of(x.ptr()), Address::<T>::of(values.0.at(0)));
        for (i, p) in picked.enumerate() {
            // SAFETY: `p` is a position of the row, and there are as many picks as output elements in the row.
            unsafe {
                value.write(vo + i * values.1.stride, x.read(xo + p * x_rows.stride));
                index.write(io + i * indices.1.stride, p as i64);
            }
        }
    });
}

/// Sort along `dim`. NaN is the greatest value. The sort is stable even without `stable`, like PyTorch's CPU sort.
pub fn sort(x: &View, dim: usize, descending: bool, stable: bool, values: &mut ViewMut, indices: &mut ViewMut) {
    let _ = stable;
    let rows = Rows::new(x.sizes(), x.strides(), dim);
    let value_rows = Rows::new(values.sizes(), values.strides(), dim);
    let index_rows = Rows::new(indices.sizes(), indices.strides(), dim);
    let (v, i) = (Address::<u8>::of(values.ptr()), Address::<u8>::of(indices.ptr()));
    let flip = if descending { last_key(x.dtype()) } else { 0 };
    let narrow = x.dtype().size_bytes() < 8 && rows.len <= u32::MAX as usize;
    for_each_keyed_row(x, &rows, |row, keys| {
        // The position in the low half makes keys unique, so an unstable sort keeps the order of equal values.
        if narrow {
            for (i, k) in keys.iter_mut().enumerate() {
                *k = (*k ^ flip) << 32 | i as u64;
            }
            parallel_sort(keys);
            let picked = keys.iter().map(|&k| k as u32 as usize);
            write_picked(x, (&rows, row), (v, &value_rows), (i, &index_rows), picked);
        } else {
            let mut wide: Vec<u128> =
                memory::collect(keys.iter().enumerate().map(|(i, &k)| u128::from(k ^ flip) << 64 | i as u128));
            parallel_sort(&mut wide);
            let picked = wide.iter().map(|&k| k as u64 as usize);
            write_picked(x, (&rows, row), (v, &value_rows), (i, &index_rows), picked);
        }
    });
}

/// Return the positions of the `k` largest (or smallest) keys in PyTorch's order. If not `sorted`, they stay in the
/// order of the selection.
pub(crate) fn top_indices(keys: &[u64], k: usize, largest: bool, sorted: bool) -> Vec<usize> {
    if k == 0 {
        return Vec::new();
    }
    let flip = if largest { u64::MAX } else { 0 };
    let mut a: Vec<(u64, usize)> = memory::collect(keys.iter().enumerate().map(|(i, &key)| (key ^ flip, i)));
    let before = |x: &(u64, usize), y: &(u64, usize)| x.0 < y.0;
    if k * 64 <= a.len() {
        partial_sort(&mut a, k, &before);
    } else {
        nth_element(&mut a, k - 1, &before);
        if sorted {
            introsort(&mut a[..k - 1], &before);
        }
    }
    a.truncate(k);
    memory::collect(a.into_iter().map(|(_, i)| i))
}

/// Find the `k` largest or smallest values along `dim`, which has size `k` in the outputs. NaN is the greatest value.
///
/// # Errors
/// Fails if `k` exceeds the dimension.
pub fn topk(
    x: &View,
    k: usize,
    dim: usize,
    largest: bool,
    sorted: bool,
    values: &mut ViewMut,
    indices: &mut ViewMut,
) -> Result<(), KernelError> {
    let rows = Rows::new(x.sizes(), x.strides(), dim);
    if k > rows.len {
        return Err(KernelError::Other("selected index k out of range".into()));
    }
    let value_rows = Rows::new(values.sizes(), values.strides(), dim);
    let index_rows = Rows::new(indices.sizes(), indices.strides(), dim);
    let (v, i) = (Address::<u8>::of(values.ptr()), Address::<u8>::of(indices.ptr()));
    for_each_keyed_row(x, &rows, |row, keys| {
        let picked = top_indices(keys, k, largest, sorted).into_iter();
        write_picked(x, (&rows, row), (v, &value_rows), (i, &index_rows), picked);
    });
    Ok(())
}

/// Pick one position per row.
fn select_one(
    x: &View,
    dim: usize,
    values: &mut ViewMut,
    indices: &mut ViewMut,
    pick: impl Fn(&[u64]) -> usize + Sync,
) {
    let rows = Rows::new(x.sizes(), x.strides(), dim);
    let value_rows = Rows::new(values.sizes(), values.strides(), dim);
    let index_rows = Rows::new(indices.sizes(), indices.strides(), dim);
    let (v, i) = (Address::<u8>::of(values.ptr()), Address::<u8>::of(indices.ptr()));
    for_each_keyed_row(x, &rows, |row, keys| {
        let picked = std::iter::once(pick(keys));
        write_picked(x, (&rows, row), (v, &value_rows), (i, &index_rows), picked);
    });
}

fn dim_size(x: &View, dim: usize) -> usize {
    x.sizes().get(dim).copied().unwrap_or(1)
}

/// Find the `k`-th smallest value along `dim`, with `k` counted from 1. NaN is the greatest value.
///
/// # Errors
/// Fails if `k` is 0 or exceeds the dimension.
pub fn kthvalue(
    x: &View,
    k: usize,
    dim: usize,
    values: &mut ViewMut,
    indices: &mut ViewMut,
) -> Result<(), KernelError> {
    if k == 0 || k > dim_size(x, dim) {
        return Err(KernelError::Other(format!("kthvalue(): selected number k out of range for dimension {dim}")));
    }
    select_one(x, dim, values, indices, |keys| {
        let mut a: Vec<(u64, usize)> = memory::collect(keys.iter().copied().zip(0..));
        quick_select(&mut a, k - 1, &|x, y| x.0 > y.0);
        a[k - 1].1
    });
    Ok(())
}

/// Find the lower median along `dim`. A row with NaN gives its first NaN. With `ignore_nan`, the median of the other
/// values is used, and NaN only if there are none.
///
/// # Errors
/// Fails if the dimension is empty.
pub fn median(
    x: &View,
    dim: usize,
    ignore_nan: bool,
    values: &mut ViewMut,
    indices: &mut ViewMut,
) -> Result<(), KernelError> {
    if dim_size(x, dim) == 0 {
        let name = if ignore_nan { "nanmedian" } else { "median" };
        return Err(KernelError::IndexOutOfRange(format!(
            "{name}(): Expected reduction dim {dim} to have non-zero size."
        )));
    }
    let nan = x.dtype().is_float().then(|| last_key(x.dtype()));
    select_one(x, dim, values, indices, |keys| {
        let is_nan = |k: &u64| Some(*k) == nan;
        if !ignore_nan && let Some(first) = keys.iter().position(is_nan) {
            return first;
        }
        let numbers = keys.len() - keys.iter().filter(|k| is_nan(k)).count();
        let nth = numbers.saturating_sub(1) / 2;
        let mut a: Vec<(u64, usize)> = memory::collect(keys.iter().copied().zip(0..));
        a.select_nth_unstable(nth).1.1
    });
    Ok(())
}

/// Rows up to this length are sorted by insertion, which is stable and allows comparisons that are no order.
const FEW: usize = 16;

/// Find the most frequent value along `dim`, the smallest of several, and the position that PyTorch reports: of equal
/// elements the last one after its sort, which is not stable. Every NaN counts for itself. In a short row no comparison
/// with NaN holds, as in PyTorch. In a longer one NaN are the largest.
///
/// # Errors
/// Fails if the dimension is empty.
pub fn mode(x: &View, dim: usize, values: &mut ViewMut, indices: &mut ViewMut) -> Result<(), KernelError> {
    if dim_size(x, dim) == 0 {
        return Err(KernelError::IndexOutOfRange(format!(
            "mode(): Expected reduction dim {dim} to have non-zero size."
        )));
    }
    let nan = x.dtype().is_float().then(|| last_key(x.dtype()));
    select_one(x, dim, values, indices, |keys| {
        let is_nan = |k: u64| Some(k) == nan;
        let mut a: Vec<(u64, usize)> = memory::collect(keys.iter().copied().zip(0..));
        if a.len() <= FEW {
            introsort(&mut a, &|x, y| x.0 < y.0 && !is_nan(y.0));
        } else {
            introsort(&mut a, &|x, y| x.0 < y.0);
        }
        let (mut best, mut most, mut run) = (0, 0, 0);
        for (i, &(key, at)) in a.iter().enumerate() {
            run += 1;
            let ends = a.get(i + 1).is_none_or(|next| next.0 != key) || is_nan(key);
            if ends && run > most {
                (best, most) = (at, run);
            }
            if ends {
                run = 0;
            }
        }
        best
    });
    Ok(())
}

/// Result of [`unique`]. Positions count elements in row-major order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unique {
    /// For each distinct value, a position that holds it. `take` reads the values from there.
    pub first: Vec<i64>,
    /// For each element, the index of its value. Empty unless requested.
    pub inverse: Vec<i64>,
    /// Number of occurrences of each value. Empty unless requested.
    pub counts: Vec<i64>,
}

/// Find the distinct values in ascending order. Every NaN is distinct from all others.
pub fn unique(x: &View, inverse: bool, counts: bool) -> Unique {
    let keys = all_keys(x);
    let mut sorted: Vec<(u64, usize)> = memory::collect(keys.into_iter().zip(0..));
    parallel_sort(&mut sorted);
    group(x.dtype(), &sorted, inverse, counts)
}

/// Find the distinct values of runs of equal elements, in order of appearance.
pub fn unique_consecutive(x: &View, inverse: bool, counts: bool) -> Unique {
    let keys: Vec<(u64, usize)> = memory::collect(all_keys(x).into_iter().zip(0..));
    group(x.dtype(), &keys, inverse, counts)
}

fn group(dtype: DType, keys: &[(u64, usize)], inverse: bool, counts: bool) -> Unique {
    let nan = dtype.is_float().then(|| last_key(dtype));
    let mut found = Unique { inverse: memory::filled(0, if inverse { keys.len() } else { 0 }), ..Unique::default() };
    for (n, &(key, at)) in keys.iter().enumerate() {
        if n == 0 || key != keys[n - 1].0 || Some(key) == nan {
            memory::push(&mut found.first, at as i64);
            if counts {
                memory::push(&mut found.counts, 0);
            }
        }
        if inverse {
            found.inverse[at] = found.first.len() as i64 - 1;
        }
        if let Some(count) = found.counts.last_mut() {
            *count += 1;
        }
    }
    found
}

/// Return the keys of all elements in row-major order.
fn all_keys(x: &View) -> Vec<u64> {
    let mut keys = memory::with_capacity(x.numel());
    let nest = Nest::new(x.sizes(), [x.strides()], |_| false);
    for_dtype!(x.dtype(), T => {
        let x = Address::<T>::of(x.ptr());
        nest.for_each_row(|[o], n, [s]| {
            // SAFETY: the nest visits only offsets of the view's elements.
            keys.extend((0..n).map(|i| total_order(unsafe { x.read(o + i * s) })));
        });
    });
    keys
}

/// Find the position of each value in a sorted row: before equal elements, or after them if `right`.
///
/// `boundaries` is one row for all values, or has the values' sizes except in the last dimension. `sorter` (I64, sizes
/// of `boundaries`) gives the ascending order of the boundaries. `out` is I64 or I32.
///
/// # Errors
/// Fails if `sorter` holds a position outside the row.
pub fn searchsorted(
    boundaries: &View,
    values: &View,
    right: bool,
    sorter: Option<&View>,
    out: &mut ViewMut,
) -> Result<(), KernelError> {
    let last = |v: &[usize]| v.len().saturating_sub(1);
    let table = Rows::new(boundaries.sizes(), boundaries.strides(), last(boundaries.sizes()));
    let order = sorter.map(|s| (s, Rows::new(s.sizes(), s.strides(), last(s.sizes()))));
    if let Some((s, _)) = &order {
        let at = crate::index::read_indices(s);
        if at.iter().any(|&i| i < 0 || i >= table.len as i64) {
            return Err(KernelError::IndexOutOfRange("sorter index out of range".into()));
        }
    }
    let per_row = if boundaries.sizes().len() <= 1 { usize::MAX } else { dim_size(values, last(values.sizes())) };
    let out_dtype = out.dtype();
    let (out_sizes, out_strides, out) = (out.sizes(), out.strides(), Address::<u8>::of(out.ptr()));
    for_dtype!(values.dtype(), T => {
        let (b, v) = (Address::<T>::of(boundaries.ptr()), Address::<T>::of(values.ptr()));
        parallel_for(values.numel(), CHEAP_GRAIN / 8, |range| {
            for i in range {
                let row = i / per_row;
                let base = table.offset(row);
                // SAFETY: `offset_of` gives the offset of element `i`.
                let value = unsafe { v.read(offset_of(i, values.sizes(), values.strides())) };
                let boundary = |j: usize| {
                    let j = match &order {
                        // SAFETY: the position lies within the row, and the sorter's entry is checked above.
                        Some((s, rows)) => unsafe {
                            Address::<i64>::of(s.ptr()).read(rows.offset(row) + j * rows.stride) as usize
                        },
                        None => j,
                    };
                    // SAFETY: `j` is a position within the row.
                    unsafe { b.read(base + j * table.stride) }
                };
                let (mut low, mut high) = (0, table.len);
                while low < high {
                    let middle = low + (high - low) / 2;
                    // NaN compares as unordered, which counts as less, so it goes to the end.
                    let order = boundary(middle).partial_cmp(&value);
                    let stop = order == Some(Ordering::Greater) || (!right && order == Some(Ordering::Equal));
                    if stop {
                        high = middle;
                    } else {
                        low = middle + 1;
                    }
                }
                let o = offset_of(i, out_sizes, out_strides);
                // SAFETY: element `i` of the output exists, and only this iteration writes it.
                unsafe {
                    match out_dtype {
                        DType::I32 => Address::<i32>::of(out.at(0)).write(o, low as i32),
                        DType::I64 => Address::<i64>::of(out.at(0)).write(o, low as i64),
                        d => crate::refuse_dtype(d),
                    }
                }
            }
        });
    });
    Ok(())
}

/// Return the length of the result of [`bincount`]: one more than the largest value, and at least `minlength`.
///
/// # Errors
/// Fails if a value is negative.
pub fn bincount_len(x: &View, minlength: usize) -> Result<usize, KernelError> {
    let values = crate::index::read_indices(x);
    if values.iter().any(|&v| v < 0) {
        return Err(KernelError::Other("bincount only supports 1-d non-negative integral inputs.".into()));
    }
    Ok(values.iter().max().map_or(0, |&m| m as usize + 1).max(minlength))
}

/// Count each value of a one-dimensional integer `x`, or sum the weights (same size) of its occurrences.
///
/// `out` is one-dimensional of length [`bincount_len`]. It is I64 without weights, else F32 or F64 like the weights.
///
/// # Errors
/// Fails if a value is negative or beyond `out`.
pub fn bincount(x: &View, weights: Option<&View>, out: &mut ViewMut) -> Result<(), KernelError> {
    let values = crate::index::read_indices(x);
    let n = out.numel();
    if values.iter().any(|&v| v < 0 || v as usize >= n) {
        return Err(KernelError::Other("bincount only supports 1-d non-negative integral inputs.".into()));
    }
    let stride = out.strides().first().copied().unwrap_or(1);
    for_dtype!(out.dtype(), T => {
        let out = Address::<T>::of(out.ptr());
        let mut bins = memory::filled(T::default(), n);
        match weights {
            None => {
                let mut counts = memory::filled(0i64, n);
                values.iter().for_each(|&v| counts[v as usize] += 1);
                bins.iter_mut().zip(counts).for_each(|(b, c)| *b = <T as Element>::from_i64(c));
            }
            Some(w) => {
                let ws = w.strides().first().copied().unwrap_or(1);
                let w = Address::<T>::of(w.ptr());
                for (i, &v) in values.iter().enumerate() {
                    let b = &mut bins[v as usize];
                    // SAFETY: `i` is less than the size of the weights, which is that of `x`.
                    *b = <T as Element>::from_f64(b.to_f64() + unsafe { w.read(i * ws) }.to_f64());
                }
            }
        }
        for (i, &b) in bins.iter().enumerate() {
            // SAFETY: `i` is less than the size of the output.
            unsafe { out.write(i * stride, b) };
        }
    });
    Ok(())
}

/// Count the values in `out.numel()` equal bins over [`min`, `max`], or over the range of the data if both are equal.
/// Values outside and NaN are not counted. `out` is one-dimensional with the dtype of `x`.
///
/// # Errors
/// Fails if `min > max` or the range is not finite.
pub fn histc(x: &View, min: f64, max: f64, out: &mut ViewMut) -> Result<(), KernelError> {
    let bins = out.numel();
    if bins == 0 {
        return Err(KernelError::Other("histc: bins must be > 0".into()));
    }
    let nest = Nest::new(x.sizes(), [x.strides()], |_| false);
    let mut data: Vec<f64> = memory::with_capacity(x.numel());
    for_dtype!(x.dtype(), T => {
        let x = Address::<T>::of(x.ptr());
        // SAFETY: the nest visits only offsets of the view's elements.
        nest.for_each_row(|[o], n, [s]| data.extend((0..n).map(|i| unsafe { x.read(o + i * s) }.to_f64())));
    });
    let (mut low, mut high) = (min, max);
    if low == high && !data.is_empty() {
        (low, high) = data.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &v| {
            if v.is_nan() || low.is_nan() { (f64::NAN, f64::NAN) } else { (low.min(v), high.max(v)) }
        });
    }
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
    }
    if !(low.is_finite() && high.is_finite()) {
        return Err(KernelError::Other(format!("histc: range of [{low}, {high}] is not finite")));
    }
    if low > high {
        return Err(KernelError::Other("histc: max must be larger than min".into()));
    }
    let mut counts = memory::filled(0i64, bins);
    let single = x.dtype() != DType::F64;
    for &v in data.iter().filter(|&&v| v >= low && v <= high) {
        let position = if single {
            let (v, low, high) = (v as f32, low as f32, high as f32);
            ((v - low) * bins as f32 / (high - low)) as usize
        } else {
            ((v - low) * bins as f64 / (high - low)) as usize
        };
        // The last bin includes its upper edge.
        counts[position.min(bins - 1)] += 1;
    }
    let stride = out.strides().first().copied().unwrap_or(1);
    for_dtype!(out.dtype(), T => {
        let out = Address::<T>::of(out.ptr());
        for (i, &c) in counts.iter().enumerate() {
            // SAFETY: `i` is less than the size of the output.
            unsafe { out.write(i * stride, <T as Element>::from_i64(c)) };
        }
    });
    Ok(())
}
