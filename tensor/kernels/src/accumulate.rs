//! Sums and products of 16-bit floats at positions that are data. They are computed in `f32` and rounded once.

use crate::convert::Number;
use crate::copy::copy;
use crate::index::{ScatterReduce, write_at};
use crate::memory;
use crate::strided::{Address, Nest};
use crate::{View, ViewMut, bf16, f16};

/// How many times more elements than values an array may have, so that the whole array is widened.
const DENSE: usize = 8;

/// A fold of values into the elements of an array.
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    /// `Sum`, `Prod` or `Mean`.
    pub kind: ScatterReduce,
    /// Whether the old elements count.
    pub include_self: bool,
    /// The factor of each value.
    pub alpha: f32,
}

impl Fold {
    /// A sum that includes the old elements.
    pub(crate) const SUM: Fold = Fold { kind: ScatterReduce::Sum, include_self: true, alpha: 1.0 };

    fn start(self) -> f32 {
        if self.kind == ScatterReduce::Prod { 1.0 } else { 0.0 }
    }
    #[inline(always)]
    fn join(self, a: f32, b: f32) -> f32 {
        if self.kind == ScatterReduce::Prod { a * b } else { a + b * self.alpha }
    }
}

/// Whether a dtype is one of those that [`accumulate`] takes.
pub(crate) fn is_narrow(out: &ViewMut) -> bool {
    out.dtype().is_half()
}

/// Fold `src` into `out` for the loop nest `[out without dim, src, positions]`, as `index::write_at` does.
///
/// A new array of `f32` as large as `out` holds the sums, if there are many values. Of few values, those of equal
/// elements are put together by sorting.
pub(crate) fn accumulate(
    out: &mut ViewMut,
    src: &View,
    nest: &Nest<3>,
    positions: &[i64],
    step: usize,
    values: usize,
    fold: Fold,
) {
    match out.dtype() {
        crate::DType::F16 => run::<f16>(out, src, nest, positions, step, values, fold),
        _ => run::<bf16>(out, src, nest, positions, step, values, fold),
    }
}

fn run<T: Number>(
    out: &mut ViewMut,
    src: &View,
    nest: &Nest<3>,
    positions: &[i64],
    step: usize,
    values: usize,
    fold: Fold,
) {
    if values == 0 || out.numel() == 0 {
        return;
    }
    // Positions that increase are distinct. Each element then gets one value.
    let are_distinct = positions.is_sorted_by(|a, b| a < b);
    if are_distinct && fold.include_self && fold.kind != ScatterReduce::Mean {
        return write_at::<T, T>(nest, out, src, positions, step, |a, b| T::of_f32(fold.join(a.f32(), b.f32())));
    }
    let extent = 1 + out.sizes().iter().zip(out.strides()).map(|(n, s)| (n - 1) * s).sum::<usize>();
    if extent / DENSE > values || extent > 4 * out.numel() {
        return sparse::<T>(out, src, nest, positions, step, values, fold);
    }
    // The wide array has the strides of `out`, so offsets are the same.
    let mut wide = memory::filled(0f32, extent);
    let mut sums = ViewMut::of_slice(&mut wide, out.sizes(), out.strides());
    copy(&out.as_view(), &mut sums);
    if !fold.include_self {
        write_at::<f32, T>(nest, &mut sums, src, positions, step, |_, _| fold.start());
    }
    write_at::<f32, T>(nest, &mut sums, src, positions, step, |a, b| fold.join(a, b.f32()));
    if fold.kind == ScatterReduce::Mean {
        let mut counts = memory::filled(i64::from(fold.include_self), extent);
        let mut counted = ViewMut::of_slice(&mut counts, out.sizes(), out.strides());
        write_at::<i64, T>(nest, &mut counted, src, positions, step, |n, _| n + 1);
        for (sum, n) in wide.iter_mut().zip(&counts).filter(|(_, n)| **n > 1) {
            *sum /= *n as f32;
        }
    }
    copy(&View::of_slice(&wide, out.sizes(), out.strides()), out);
}

/// [`accumulate`] of few values: its cost grows with their number only.
fn sparse<T: Number>(
    out: &mut ViewMut,
    src: &View,
    nest: &Nest<3>,
    positions: &[i64],
    step: usize,
    values: usize,
    fold: Fold,
) {
    let mut places: Vec<(usize, usize)> = memory::with_capacity(values);
    nest.for_each_row(|[oo, so, po], n, [os, ss, ps]| {
        places.extend((0..n).map(|j| (oo + j * os + positions[po + j * ps] as usize * step, so + j * ss)));
    });
    // Values of one element keep their order.
    places.sort_by_key(|(to, _)| *to);
    let (from, to) = (Address::<T>::of(src.ptr()), Address::<T>::of(out.ptr()));
    for group in places.chunk_by(|a, b| a.0 == b.0) {
        let at = group[0].0;
        // SAFETY: the offsets are those of elements of the views, as in `write_at`.
        unsafe {
            let start = if fold.include_self { to.read(at).f32() } else { fold.start() };
            let mut y = group.iter().fold(start, |a, (_, v)| fold.join(a, from.read(*v).f32()));
            let n = group.len() + usize::from(fold.include_self);
            if fold.kind == ScatterReduce::Mean && n > 1 {
                y /= n as f32;
            }
            to.write(at, T::of_f32(y));
        }
    }
}
