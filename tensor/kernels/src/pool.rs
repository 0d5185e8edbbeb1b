//! Pooling over one to three spatial dimensions, and its gradients.
//!
//! Data are `[.., *spatial]`. Everything before the spatial dimensions is a separate plane. The output view gives the
//! output sizes, so the caller computes the rounding (`ceil_mode`). Outputs must not overlap inputs.

use crate::embedding::indices;
use crate::memory;
use crate::par::Shared;
use crate::real::{Real, for_acc, input, output, simd};
use crate::threads::{GRAIN, parallel_for};
use crate::{Element as _, View, ViewMut};
use std::ops::Range;

/// Windows of a pooling. Entry `d` of each array belongs to the `d`-th spatial dimension. Entries from `spatial` on are
/// ignored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PoolSpec {
    /// Number of spatial dimensions, one to three.
    pub spatial: usize,
    /// Window sizes.
    pub kernel: [usize; 3],
    /// Distance between neighbouring windows.
    pub stride: [usize; 3],
    /// Padding on both sides: minus infinity for a maximum, zeros for an average.
    pub pad: [usize; 3],
    /// Distance between neighbouring elements of a window. Averages use one.
    pub dilation: [usize; 3],
}

/// One window along one dimension: positions `start, start + step, ..` below `end`, and its size with padding.
#[derive(Clone, Copy)]
struct Window {
    start: usize,
    end: usize,
    step: usize,
    padded: usize,
}

/// Return the sizes of the last `spatial` dimensions, preceded by ones to make three.
fn three(sizes: &[usize], spatial: usize) -> [usize; 3] {
    assert!((1..=3).contains(&spatial) && sizes.len() >= spatial, "pool: one to three spatial dimensions");
    let mut out = [1; 3];
    out[3 - spatial..].copy_from_slice(&sizes[sizes.len() - spatial..]);
    out
}

fn windows(spec: &PoolSpec, input: [usize; 3], out: [usize; 3]) -> [Vec<Window>; 3] {
    std::array::from_fn(|d| {
        let Some(s) = (d + spec.spatial).checked_sub(3) else {
            return vec![Window { start: 0, end: 1, step: 1, padded: 1 }];
        };
        let (kernel, stride, pad, step) = (spec.kernel[s], spec.stride[s], spec.pad[s], spec.dilation[s]);
        memory::collect((0..out[d]).map(|o| {
            let first = (o * stride) as i64 - pad as i64;
            let last = first + ((kernel - 1) * step) as i64 + 1;
            let padded = (last.min((input[d] + pad) as i64) - first).max(0) as usize;
            let before = (-first).max(0) as usize;
            let start = (first + (before.div_ceil(step) * step) as i64) as usize;
            let end = (last.max(0) as usize).min(input[d]);
            Window { start: start.min(input[d]), end: end.max(start.min(input[d])), step, padded }
        }))
    })
}

fn adaptive_windows(input: [usize; 3], out: [usize; 3]) -> [Vec<Window>; 3] {
    std::array::from_fn(|d| {
        let (i, o) = (input[d], out[d]);
        memory::collect((0..o).map(|j| {
            let (start, end) = (j * i / o, ((j + 1) * i).div_ceil(o));
            Window { start, end, step: 1, padded: end - start }
        }))
    })
}

/// Compute the maximum of each window, and its flat position within its plane (`i64`). NaN is the largest value, and
/// the last NaN wins.
pub fn max_pool(x: &View, spec: &PoolSpec, out: &mut ViewMut, positions: &mut ViewMut) {
    let (i, o) = (three(x.sizes(), spec.spatial), three(out.sizes(), spec.spatial));
    maxima(x, i, o, &windows(spec, i, o), out, positions);
}

/// Like [`max_pool`], with windows that divide each dimension into the output's size as evenly as possible.
pub fn adaptive_max_pool(x: &View, spatial: usize, out: &mut ViewMut, positions: &mut ViewMut) {
    let (i, o) = (three(x.sizes(), spatial), three(out.sizes(), spatial));
    maxima(x, i, o, &adaptive_windows(i, o), out, positions);
}

fn planes(grain: usize, count: usize, f: impl Fn(usize) + Sync) {
    parallel_for(count, GRAIN.div_ceil(grain.max(1)), |range| range.for_each(&f));
}

fn maxima(
    x: &View,
    i: [usize; 3],
    o: [usize; 3],
    windows: &[Vec<Window>; 3],
    out: &mut ViewMut,
    positions: &mut ViewMut,
) {
    let (plane, out_plane) = (i.iter().product::<usize>(), o.iter().product::<usize>());
    if out_plane == 0 || out.numel() == 0 {
        return;
    }
    let (same, distance) = equal_windows(&windows[2]);
    let mut flat = memory::filled(0i64, if positions.is_contiguous() { 0 } else { positions.numel() });
    for_acc!(x.dtype(), A => {
        let x = input::<A>(x);
        output::<A, _>(out, |out| {
            let found = match positions.as_slice_mut::<i64>() {
                Some(found) => Shared::new(found),
                None => Shared::new(&mut flat),
            };
            let count = out.len() / out_plane;
            let to = Shared::new(out);
            let window = windows.iter().map(|w|
                w.iter().map(|w| w.end - w.start).max().unwrap_or(1)).product::<usize>();
            planes(out_plane * window, count, |p| {
                // SAFETY: the plane is in bounds, and one thread uses it.
                let (out, found) = unsafe {
                    (to.slice(p * out_plane, out_plane), found.slice(p * out_plane, out_plane)) };
                max_plane(&x[p * plane..][..plane], i, windows, &same, distance, out, found);
            });
        });
    });
    if !flat.is_empty() {
        let (sizes, strides) = (positions.sizes(), positions.strides());
        for (k, &v) in flat.iter().enumerate() {
            // SAFETY: `offset_of` gives offsets of the view's elements.
            unsafe { *positions.ptr().cast::<i64>().add(crate::real::offset_of(k, sizes, strides)) = v };
        }
    }
}

/// Return a range of windows that have the largest size and lie at equal distances, and that distance.
fn equal_windows(windows: &[Window]) -> (Range<usize>, usize) {
    let size = |w: &Window| (w.end - w.start).div_ceil(w.step);
    let most = windows.iter().map(size).max().unwrap_or(0);
    let first = windows.iter().position(|w| size(w) == most).unwrap_or(0);
    let distance = windows.get(first + 1).map_or(1, |w| w.start - windows[first].start);
    let follows = |w: &[Window]| size(&w[1]) == most && w[1].start - w[0].start == distance;
    let more = windows[first..].windows(2).take_while(|w| follows(w)).count();
    (first..(first + 1 + more).min(windows.len()), distance)
}

simd! {
    /// Compute the maxima of one plane. Equally large, neighbouring windows are searched together, without branches.
    fn max_plane<A: Real>(
        x: &[A], i: [usize; 3], windows: &[Vec<Window>; 3], same: &Range<usize>, distance: usize, out: &mut [A],
        found: &mut [i64],
    ) {
        let columns = &windows[2][..];
        let mut places = Vec::new();
        let mut k = 0;
        for d in &windows[0] {
            for h in &windows[1] {
                let mut j = 0;
                while j < columns.len() {
                    let w = &columns[j];
                    places.clear();
                    for z in (d.start..d.end).step_by(d.step) {
                        for y in (h.start..h.end).step_by(h.step) {
                            places.extend((w.start..w.end).step_by(w.step).map(|c| (z * i[1] + y) * i[2] + c));
                        }
                    }
                    let first = (d.start * i[1] + h.start) * i[2] + w.start;
                    let (out, found) = (&mut out[k + j..], &mut found[k + j..]);
                    let together = if same.contains(&j) { same.end - j } else { 1 };
                    j += match (distance, together) {
                        (1, 16..) => maxima_beside::<A, 16, 1>(x, &places, first, out, found),
                        (2, 16..) => maxima_beside::<A, 16, 2>(x, &places, first, out, found),
                        (1, 4..) => maxima_beside::<A, 4, 1>(x, &places, first, out, found),
                        (2, 4..) => maxima_beside::<A, 4, 2>(x, &places, first, out, found),
                        _ => maxima_beside::<A, 1, 1>(x, &places, first, out, found),
                    };
                }
                k += columns.len();
            }
        }
    }
}

/// Compute the maxima of `N` windows at a distance of `DISTANCE`. `places` are the elements of the first window. Return
/// `N`.
#[inline(always)]
fn maxima_beside<A: Real, const N: usize, const DISTANCE: usize>(
    x: &[A],
    places: &[usize],
    first: usize,
    out: &mut [A],
    found: &mut [i64],
) -> usize {
    let mut best = [A::NEG_INF; N];
    let mut at: [i64; N] = std::array::from_fn(|j| (first + j * DISTANCE) as i64);
    for &place in places {
        let x = &x[place..=place + (N - 1) * DISTANCE];
        for j in 0..N {
            let v = x[j * DISTANCE];
            let takes = (v > best[j]) | v.is_nan();
            best[j] = if takes { v } else { best[j] };
            at[j] = if takes { (place + j * DISTANCE) as i64 } else { at[j] };
        }
    }
    out[..N].copy_from_slice(&best);
    found[..N].copy_from_slice(&at);
    N
}

/// Compute the gradient of a max pooling: add `g` to `gx` at `positions`. `gx` is zero elsewhere.
pub fn max_pool_backward(g: &View, positions: &View, spatial: usize, gx: &mut ViewMut) {
    let plane = three(gx.sizes(), spatial).iter().product::<usize>();
    let out_plane = three(g.sizes(), spatial).iter().product::<usize>();
    let copied;
    let positions = match positions.as_slice::<i64>() {
        Some(positions) => positions,
        None => {
            copied = indices(positions);
            &copied
        }
    };
    for_acc!(gx.dtype(), A => {
        let g = input::<A>(g);
        output::<A, _>(gx, |gx| {
            if gx.is_empty() {
                return;
            }
            let count = gx.len() / plane;
            let to = Shared::new(gx);
            planes(plane, count, |p| {
                // SAFETY: the plane is in bounds, and one thread uses it.
                let gx = unsafe { to.slice(p * plane, plane) };
                gx.fill(A::ZERO);
                for k in p * out_plane..(p + 1) * out_plane {
                    gx[positions[k] as usize] += g[k];
                }
            });
        });
    });
}

/// Compute the mean of each window. The divisor is `divisor_override` if given, else the window's size, with padding if
/// `count_include_pad`.
pub fn avg_pool(x: &View, spec: &PoolSpec, count_include_pad: bool, divisor_override: Option<i64>, out: &mut ViewMut) {
    let (i, o) = (three(x.sizes(), spec.spatial), three(out.sizes(), spec.spatial));
    averages(x, i, o, &windows(spec, i, o), divisor(count_include_pad, divisor_override), out);
}

/// Compute the gradient of [`avg_pool`].
pub fn avg_pool_backward(
    g: &View,
    spec: &PoolSpec,
    count_include_pad: bool,
    divisor_override: Option<i64>,
    gx: &mut ViewMut,
) {
    let (i, o) = (three(gx.sizes(), spec.spatial), three(g.sizes(), spec.spatial));
    averages_backward(g, i, o, &windows(spec, i, o), divisor(count_include_pad, divisor_override), gx);
}

/// Compute the mean of windows that divide each dimension into the output's size as evenly as possible.
pub fn adaptive_avg_pool(x: &View, spatial: usize, out: &mut ViewMut) {
    let (i, o) = (three(x.sizes(), spatial), three(out.sizes(), spatial));
    averages(x, i, o, &adaptive_windows(i, o), divisor(false, None), out);
}

/// Compute the gradient of [`adaptive_avg_pool`].
pub fn adaptive_avg_pool_backward(g: &View, spatial: usize, gx: &mut ViewMut) {
    let (i, o) = (three(gx.sizes(), spatial), three(g.sizes(), spatial));
    averages_backward(g, i, o, &adaptive_windows(i, o), divisor(false, None), gx);
}

fn divisor(include_pad: bool, fixed: Option<i64>) -> impl Fn([&Window; 3]) -> f64 + Sync + Copy {
    move |w: [&Window; 3]| match fixed {
        Some(fixed) => fixed as f64,
        None if include_pad => w.iter().map(|w| w.padded).product::<usize>() as f64,
        None => w.iter().map(|w| w.end - w.start).product::<usize>() as f64,
    }
}

fn averages(
    x: &View,
    i: [usize; 3],
    o: [usize; 3],
    windows: &[Vec<Window>; 3],
    divisor: impl Fn([&Window; 3]) -> f64 + Sync + Copy,
    out: &mut ViewMut,
) {
    let (plane, out_plane) = (i.iter().product::<usize>(), o.iter().product::<usize>());
    for_acc!(x.dtype(), A => {
        let x = input::<A>(x);
        output::<A, _>(out, |out| {
            if out.is_empty() {
                return;
            }
            let count = out.len() / out_plane;
            let to = Shared::new(out);
            planes(plane.max(out_plane), count, |p| {
                let x = &x[p * plane..][..plane];
                // SAFETY: the plane is in bounds, and one thread uses it.
                let out = unsafe { to.slice(p * out_plane, out_plane) };
                each(windows, |k, d, h, w| {
                    // A window may be a whole image, so sum in `f64`.
                    let mut sum = 0f64;
                    for z in d.start..d.end {
                        for y in h.start..h.end {
                            for &v in &x[(z * i[1] + y) * i[2]..][w.start..w.end] {
                                sum += v.to_f64();
                            }
                        }
                    }
                    // An empty window is all padding.
                    let empty = d.start == d.end || h.start == h.end || w.start == w.end;
                    out[k] = if empty { A::ZERO } else { A::of(sum / divisor([d, h, w])) };
                });
            });
        });
    });
}

fn averages_backward(
    g: &View,
    i: [usize; 3],
    o: [usize; 3],
    windows: &[Vec<Window>; 3],
    divisor: impl Fn([&Window; 3]) -> f64 + Sync + Copy,
    gx: &mut ViewMut,
) {
    let (plane, out_plane) = (i.iter().product::<usize>(), o.iter().product::<usize>());
    for_acc!(gx.dtype(), A => {
        let g = input::<A>(g);
        output::<A, _>(gx, |gx| {
            if gx.is_empty() {
                return;
            }
            let count = gx.len() / plane;
            let to = Shared::new(gx);
            planes(plane.max(out_plane), count, |p| {
                let g = &g[p * out_plane..][..out_plane];
                // SAFETY: the plane is in bounds, and one thread uses it.
                let gx = unsafe { to.slice(p * plane, plane) };
                gx.fill(A::ZERO);
                each(windows, |k, d, h, w| {
                    let v = g[k] / A::of(divisor([d, h, w]));
                    for z in d.start..d.end {
                        for y in h.start..h.end {
                            for gx in &mut gx[(z * i[1] + y) * i[2]..][w.start..w.end] {
                                *gx += v;
                            }
                        }
                    }
                });
            });
        });
    });
}

#[inline(always)]
fn each(windows: &[Vec<Window>; 3], mut f: impl FnMut(usize, &Window, &Window, &Window)) {
    let mut k = 0;
    for d in &windows[0] {
        for h in &windows[1] {
            for w in &windows[2] {
                f(k, d, h, w);
                k += 1;
            }
        }
    }
}
