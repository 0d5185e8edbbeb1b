//! Sampling of images and volumes at the points of a grid, and its gradients.

use crate::memory;
use crate::par::{Scratch, Shared};
use crate::real::{Real, for_acc, input, output};
use crate::threads::parallel_for;
use crate::{View, ViewMut};

/// Interpolation between elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Interpolation {
    /// Linear in each dimension.
    Linear,
    /// The nearest element.
    Nearest,
    /// Keys' cubic in each dimension.
    Cubic,
}

/// Values outside of the image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outside {
    /// Zeros.
    Zeros,
    /// The nearest element of the edge.
    Border,
    /// The mirrored image.
    Reflection,
}

/// Settings of a grid sampling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GridSpec {
    /// Interpolation between elements.
    pub interpolation: Interpolation,
    /// Values outside of the image.
    pub outside: Outside,
    /// Whether -1 and 1 are the centres of the first and last elements, instead of their outer edges.
    pub align_corners: bool,
}

/// Slope of Keys' cubic.
const A: f64 = -0.75;

/// An input along one dimension: its position (`None` if outside), its weight, and the derivative of the weight with
/// respect to the grid coordinate.
type Tap<R> = (Option<usize>, R, R);

/// Map a coordinate inside the image. Return it with the derivative of this mapping. As in PyTorch, a coordinate that
/// is none becomes the first position of an image, and the last one of a volume.
fn folded<R: Real>(spec: &GridSpec, mut c: R, size: usize, is_image: bool) -> (R, R) {
    let max = R::of((size - 1) as f64);
    let mut slope = R::ONE;
    if spec.outside == Outside::Zeros {
        return (c, slope);
    }
    if spec.outside == Outside::Reflection {
        let (low, span) = if spec.align_corners { (0.0, (size - 1) as f64) } else { (-0.5, size as f64) };
        if span == 0.0 {
            return (R::ZERO, R::ZERO);
        }
        let (low, span) = (R::of(low), R::of(span));
        let mut t = c - low;
        if t < R::ZERO {
            t = -t;
            slope = -slope;
        }
        // Both ways give the same for coordinates near the image. Far away they round as PyTorch's.
        let (back, forth) = if is_image {
            let period = span + span;
            let forth = t - R::of((t / period).to_f64().trunc()) * period;
            (period - forth, forth)
        } else {
            let extra = R::of(t.to_f64() % span.to_f64());
            let is_even = (t / span).to_f64().floor() % 2.0 == 0.0;
            if is_even { (R::of(f64::INFINITY), extra) } else { (span - extra, R::of(f64::INFINITY)) }
        };
        if forth > back {
            slope = -slope;
            c = back + low;
        } else {
            c = forth + low;
        }
    }
    if c.to_f64().is_nan() {
        return (if is_image { R::ZERO } else { max }, R::ZERO);
    }
    if c <= R::ZERO {
        (R::ZERO, R::ZERO)
    } else if c >= max {
        (max, R::ZERO)
    } else {
        (c, slope)
    }
}

/// Return the position of an integer coordinate, or `None` outside of the image.
fn position<R: Real>(c: R, size: usize) -> Option<usize> {
    let c = c.to_f64();
    (c >= 0.0 && c <= (size - 1) as f64).then_some(c as usize)
}

fn taps<R: Real>(spec: &GridSpec, at: R, size: usize, is_image: bool, out: &mut [Tap<R>; 4]) -> usize {
    let n = size as f64;
    let (c, scale) = if spec.align_corners {
        ((at + R::ONE) / R::of(2.0) * R::of(n - 1.0), (n - 1.0) / 2.0)
    } else {
        (((at + R::ONE) * R::of(n) - R::ONE) / R::of(2.0), n / 2.0)
    };
    let scale = R::of(scale);
    let floor = |c: R| R::of(c.to_f64().floor());
    // A weight that is NaN reaches the result of an image, but not that of a volume.
    let read = |at: Option<usize>, part: R| if is_image && part.to_f64().is_nan() { at.or(Some(0)) } else { at };
    match spec.interpolation {
        Interpolation::Linear => {
            let (c, slope) = folded(spec, c, size, is_image);
            let (low, slope) = (floor(c), slope * scale);
            let part = c - low;
            out[0] = (read(position(low, size), part), R::ONE - part, -slope);
            out[1] = (read(position(low + R::ONE, size), part), part, slope);
            2
        }
        Interpolation::Nearest => {
            let (c, _) = folded(spec, c, size, is_image);
            out[0] = (position(R::of(c.to_f64().round_ties_even()), size), R::ONE, R::ZERO);
            1
        }
        Interpolation::Cubic => {
            let low = floor(c);
            let t = (c - low).to_f64();
            let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
            let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
            let near_slope = |x: f64| (3.0 * (A + 2.0) * x - 2.0 * (A + 3.0)) * x;
            let far_slope = |x: f64| (3.0 * A * x - 10.0 * A) * x + 8.0 * A;
            let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
            let slopes = [far_slope(t + 1.0), near_slope(t), -near_slope(1.0 - t), -far_slope(2.0 - t)];
            for (i, out) in out.iter_mut().enumerate() {
                let (p, _) = folded(spec, low + R::of(i as f64 - 1.0), size, is_image);
                *out = (read(position(floor(p), size), R::of(t)), R::of(weights[i]), R::of(slopes[i]) * scale);
            }
            4
        }
    }
}

/// The inputs of each point of one image: `taps` flat positions and weights per point. Optionally the derivatives of
/// the weights with respect to each grid coordinate. An input outside the image has position 0 and weight 0.
struct Points<R> {
    taps: usize,
    positions: Vec<u32>,
    weights: Scratch<R>,
    slopes: Option<Scratch<R>>,
}

fn points<R: Real>(spec: &GridSpec, grid: &[R], sizes: &[usize], with_slopes: bool) -> Points<R> {
    let d = sizes.len();
    let each = match spec.interpolation {
        Interpolation::Nearest => 1usize,
        Interpolation::Linear => 2,
        Interpolation::Cubic => 4,
    };
    let (count, all) = (grid.len() / d, each.pow(d as u32));
    let mut positions = memory::filled(0u32, count * all);
    let mut weights = Scratch::filled(count * all, R::ZERO);
    let mut slopes = with_slopes.then(|| Scratch::filled(count * all * d, R::ZERO));
    let (to_p, to_w) = (Shared::new(&mut positions), Shared::new(&mut weights));
    let to_s = slopes.as_mut().map(|s| Shared::new(s));
    parallel_for(count, 1 << 9, |range| {
        let mut along = [[(None, R::ZERO, R::ZERO); 4]; 3];
        for p in range {
            for (k, &n) in sizes.iter().enumerate() {
                // The first grid coordinate belongs to the last dimension.
                taps(spec, grid[p * d + d - 1 - k], n, d == 2, &mut along[k]);
            }
            for c in 0..all {
                let (mut rest, mut at, mut inside) = (c, 0, true);
                let (mut w, mut chosen) = (R::ONE, [0usize; 3]);
                for k in (0..d).rev() {
                    chosen[k] = rest % each;
                    rest /= each;
                }
                for k in 0..d {
                    let (place, weight, _) = along[k][chosen[k]];
                    inside &= place.is_some();
                    at = at * sizes[k] + place.unwrap_or(0);
                    w *= weight;
                }
                if !inside {
                    continue;
                }
                // SAFETY: the entries of the point lie within the buffers, and one thread writes them.
                unsafe {
                    to_p.slice(p * all + c, 1)[0] = at as u32;
                    to_w.slice(p * all + c, 1)[0] = w;
                    if let Some(to_s) = to_s {
                        let s = to_s.slice((p * all + c) * d, d);
                        for (k, s) in s.iter_mut().enumerate() {
                            let mut v = R::ONE;
                            for j in 0..d {
                                let (_, weight, slope) = along[j][chosen[j]];
                                v *= if j == k { slope } else { weight };
                            }
                            *s = v;
                        }
                    }
                }
            }
        }
    });
    Points { taps: all, positions, weights, slopes }
}

/// Smallest number of elements per thread: waking a thread costs more than computing fewer.
const GRAIN: usize = 1 << 13;

/// Compute `out[n, c, *o]`, the value of `x[n, c]` at `grid[n, *o]`, for `x: [n, c, *s]` and `grid: [n, *o, d]`, all of
/// one floating-point dtype.
pub fn grid_sample(x: &View, grid: &View, spec: &GridSpec, out: &mut ViewMut) {
    let sizes = &x.sizes()[2..];
    let (batch, channels) = (x.sizes()[0], x.sizes()[1]);
    let plane: usize = sizes.iter().product();
    for_acc!(x.dtype(), R => {
        let (x, grid) = (input::<R>(x), input::<R>(grid));
        output::<R, _>(out, |out| {
            if out.is_empty() {
                return;
            }
            let count = out.len() / (batch * channels);
            for n in 0..batch {
                let p = points(spec, &grid[n * count * sizes.len()..][..count * sizes.len()], sizes, false);
                let to = Shared::new(&mut out[n * channels * count..][..channels * count]);
                parallel_for(channels, GRAIN.div_ceil(count * p.taps), |range| {
                    for c in range {
                        // SAFETY: the plane is in bounds, and one thread uses it.
                        let y = unsafe { to.slice(c * count, count) };
                        let x = &x[(n * channels + c) * plane..][..plane];
                        for (i, y) in y.iter_mut().enumerate() {
                            let mut sum = R::ZERO;
                            for k in i * p.taps..(i + 1) * p.taps {
                                sum += x[p.positions[k] as usize] * p.weights[k];
                            }
                            *y = sum;
                        }
                    }
                });
            }
        });
    });
}

/// Compute the gradients of [`grid_sample`] for `x` and `grid`, each only if an output is given.
pub fn grid_sample_backward(
    g: &View,
    x: &View,
    grid: &View,
    spec: &GridSpec,
    gx: Option<&mut ViewMut>,
    ggrid: Option<&mut ViewMut>,
) {
    let sizes = &x.sizes()[2..];
    let (batch, channels, d) = (x.sizes()[0], x.sizes()[1], sizes.len());
    let plane: usize = sizes.iter().product();
    let count: usize = grid.sizes()[1..=d].iter().product();
    for_acc!(x.dtype(), R => {
        let (g, x, grid) = (input::<R>(g), input::<R>(x), input::<R>(grid));
        let with_slopes = ggrid.is_some();
        let of = |n: usize| points(spec, &grid[n * count * d..][..count * d], sizes, with_slopes);
        let to_image = |n: usize, p: &Points<R>, gx: &mut [R]| {
            let to = Shared::new(gx);
            parallel_for(channels, GRAIN.div_ceil((count * p.taps).max(1)), |range| {
                for c in range {
                    // SAFETY: the plane is in bounds, and one thread uses it.
                    let gx = unsafe { to.slice((n * channels + c) * plane, plane) };
                    gx.fill(R::ZERO);
                    for (i, &g) in g[(n * channels + c) * count..][..count].iter().enumerate() {
                        for k in i * p.taps..(i + 1) * p.taps {
                            gx[p.positions[k] as usize] += g * p.weights[k];
                        }
                    }
                }
            });
        };
        let to_grid = |n: usize, p: &Points<R>, ggrid: &mut [R]| {
            let Some(slopes) = &p.slopes else { return };
            let to = Shared::new(ggrid);
            parallel_for(count, GRAIN.div_ceil(channels.max(1) * p.taps * d), |range| {
                for i in range {
                    // SAFETY: the point is in bounds, and one thread uses it.
                    let out = unsafe { to.slice((n * count + i) * d, d) };
                    out.fill(R::ZERO);
                    for k in i * p.taps..(i + 1) * p.taps {
                        let mut sum = R::ZERO;
                        for c in n * channels..(n + 1) * channels {
                            sum += g[c * count + i] * x[c * plane + p.positions[k] as usize];
                        }
                        for (j, &s) in slopes[k * d..][..d].iter().enumerate() {
                            out[d - 1 - j] += sum * s;
                        }
                    }
                }
            });
        };
        let image = |mut gx: Option<&mut [R]>, mut ggrid: Option<&mut [R]>| {
            for n in 0..batch {
                let p = of(n);
                if let Some(gx) = gx.as_deref_mut() {
                    to_image(n, &p, gx);
                }
                if let Some(ggrid) = ggrid.as_deref_mut() {
                    to_grid(n, &p, ggrid);
                }
            }
        };
        match (gx, ggrid) {
            (Some(gx), Some(ggrid)) => {
                output::<R, _>(gx, |gx| output::<R, _>(ggrid, |ggrid| image(Some(gx), Some(ggrid))));
            }
            (Some(gx), None) => output::<R, _>(gx, |gx| image(Some(gx), None)),
            (None, Some(ggrid)) => output::<R, _>(ggrid, |ggrid| image(None, Some(ggrid))),
            (None, None) => {}
        }
    });
}
