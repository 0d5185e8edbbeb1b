//! Average pooling and its gradient.

use super::{INDEX, Windows, along, bounds, int, label};
use crate::axes::{Axes, all_whole};
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::types::compute::expect_float;
use crate::{Dims, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::pool as kernels;
use torchtpu_stablehlo::{Direction, ElementType, ReduceKind, Type};

/// Mean of each window.
///
/// `x: [.., *s]` of floating point to `[.., *os]`. The divisor is `divisor` if given, else the window's size, which
/// includes padding if `count_include_pad`. 16-bit floats accumulate in `f32`. The op is linear, so nothing is saved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AvgPool {
    /// The windows.
    pub windows: Windows,
    /// Whether padding counts in the divisor.
    pub count_include_pad: bool,
    /// The divisor of every window.
    pub divisor: Option<i64>,
}

/// Gradient of [`AvgPool`], from `g`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AvgPoolBackward {
    /// The op whose gradient this is.
    pub of: AvgPool,
    /// Sizes of that pooling's input.
    pub x: Dims,
}

impl AvgPool {
    /// For each dimension, the reciprocal sizes of the windows, as `[out]` of floats.
    fn divisors(&self, f: &mut Func, w: &Windows, input: &[usize], e: ElementType) -> Vec<Value> {
        (0..w.spatial())
            .map(|d| {
                let (start, end) = bounds(f, w, d, input[d]);
                let (start, end) = if self.count_include_pad || w.adaptive {
                    (start, end)
                } else {
                    (int(f, "stablehlo.maximum", &start, 0), int(f, "stablehlo.minimum", &end, input[d] as i64))
                };
                let size = f.binary("stablehlo.subtract", &end, &start);
                f.convert(&size, e)
            })
            .collect()
    }
    /// `v` (like the output) divided by the windows' sizes.
    fn divide(&self, f: &mut Func, w: &Windows, v: &Value, input: &[usize]) -> Value {
        let s = w.spatial();
        if let Some(n) = self.divisor {
            let n = f.splat(n as f64, v.ty());
            return f.binary("stablehlo.divide", v, &n);
        }
        let sizes = self.divisors(f, w, input, v.element());
        let mut all: Option<Value> = None;
        for (d, size) in sizes.iter().enumerate() {
            let size = along(f, size, v.shape(), s, d);
            all = Some(match all {
                Some(a) => f.binary("stablehlo.multiply", &a, &size),
                None => size,
            });
        }
        let all = all.expect("at least one dimension");
        f.binary("stablehlo.divide", v, &all)
    }
}

/// Whether each window of dimension `d` covers each element, `[out, input]`, as one or zero.
fn cover(f: &mut Func, w: &Windows, d: usize, input: usize, e: ElementType) -> Value {
    let dims = [w.out[d], input];
    let (start, end) = bounds(f, w, d, input);
    let (start, end) = (f.broadcast_in_dim(&start, &dims, &[0]), f.broadcast_in_dim(&end, &dims, &[0]));
    let i = f.iota(&Type::new(&dims, INDEX), 1);
    let (from, to) = (f.compare(Direction::Ge, &i, &start), f.compare(Direction::Lt, &i, &end));
    let inside = f.binary("stablehlo.and", &from, &to);
    f.convert(&inside, e)
}

/// Sums of the windows of dimension `d`, which is dimension `at` of `v`. The elements of each window are gathered, with
/// zeros past its end. A product with [`cover`] would spread non-finite elements to all windows.
fn sum_windows(f: &mut Func, v: &Value, w: &Windows, d: usize, input: usize, at: usize) -> Value {
    let out = w.out[d];
    let longest = (0..out).map(|i| ((i + 1) * input).div_ceil(out) - i * input / out).max().unwrap_or(0);
    let dims = [out, longest];
    let (start, end) = bounds(f, w, d, input);
    let (start, end) = (f.broadcast_in_dim(&start, &dims, &[0]), f.broadcast_in_dim(&end, &dims, &[0]));
    let i = f.iota(&Type::new(&dims, INDEX), 1);
    let i = f.binary("stablehlo.add", &start, &i);
    let inside = f.compare(Direction::Lt, &i, &end);
    let i = int(f, "stablehlo.minimum", &i, input as i64 - 1);
    let beside = f.take(v, &i, at);
    let inside = f.broadcast_in_dim(&inside, beside.shape(), &[at, at + 1]);
    let zero = f.splat(0.0, beside.ty());
    let beside = f.select(&inside, &beside, &zero);
    f.reduce(&beside, ReduceKind::Add, &[at + 1])
}

/// Contract dimension `at` of `v` with dimension `side` of a matrix.
pub(crate) fn contract(f: &mut Func, v: &Value, m: &Value, at: usize, side: usize) -> Value {
    let e = v.element();
    let y = f.dot_general(v, m, (&[], &[]), (&[at], &[side]), e, Some("HIGHEST"));
    // The new dimension is the last one. Move it to the place of the old one.
    let rank = v.rank();
    let perm: Vec<usize> = (0..rank)
        .map(|i| {
            if i < at {
                i
            } else if i == at {
                rank - 1
            } else {
                i - 1
            }
        })
        .collect();
    f.transpose(&y, &perm)
}

/// The number of elements of a window from which XLA:CPU sums one dimension at a time.
const LARGE_WINDOW: usize = 64;

fn wide_type(e: ElementType) -> ElementType {
    e.widened()
}

impl Op for AvgPool {
    const NAME: &'static str = "avg_pool";
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
    fn label(&self) -> &'static str {
        label(
            &self.windows,
            ["avg_pool1d", "avg_pool2d", "avg_pool3d"],
            ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"],
        )
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("avg_pool2d_out_frame", x[0])?;
        Ok(x[0].meta().with_dims(self.windows.output(x[0].dims())))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let s = all_whole(self.windows.spatial());
        Axes::parse(&format!("... {s} -> ... {s}"), x, y).linear(&[0b1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (v, mut out) = (x[0].view(), y[0].view_mut());
        if self.windows.adaptive {
            kernels::adaptive_avg_pool(&v, self.windows.spatial(), &mut out);
        } else {
            kernels::avg_pool(&v, &self.windows.spec, self.count_include_pad, self.divisor, &mut out);
        }
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let w = self.windows.regular(x[0].shape());
        let (s, rank) = (w.spatial(), x[0].rank());
        let lead = rank - s;
        let input = x[0].shape()[lead..].to_vec();
        let e = x[0].element();
        if y[0].numel() == 0 {
            return smallvec![f.splat(0.0, &y[0].ty())];
        }
        let mut v = f.convert(&x[0], wide_type(e));
        if w.adaptive {
            for (d, &n) in input.iter().enumerate() {
                v = sum_windows(f, &v, &w, d, n, lead + d);
            }
        } else {
            let (mut window, mut stride, ones) = (vec![1; rank], vec![1; rank], vec![1; rank]);
            let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
            for d in 0..s {
                (window[lead + d], stride[lead + d]) = (w.spec.kernel[d], w.spec.stride[d]);
                let needed = (w.out[d] - 1) * w.spec.stride[d] + w.spec.kernel[d];
                low[lead + d] = w.spec.pad[d] as i64;
                high[lead + d] = needed as i64 - (input[d] + w.spec.pad[d]) as i64;
            }
            let zero = f.scalar(0.0, v.element());
            v = f.pad(&v, &zero, &low, &high, &vec![0; rank]);
            let none = vec![(0, 0); rank];
            let splits = f.profile().splits_windows;
            if splits && window[lead..] == v.shape()[lead..] {
                // A single window is a sum over its dimensions, which is precise.
                let dims: Vec<usize> = (lead..rank).collect();
                let sum = f.reduce(&v, ReduceKind::Add, &dims);
                v = f.reshape(&sum, &y[0].dims);
            } else if splits && window.iter().product::<usize>() > LARGE_WINDOW {
                // XLA:CPU adds up a window's elements one after the other: fewer at a time are faster and more precise.
                for d in lead..rank {
                    let (mut one, mut step) = (ones.clone(), ones.clone());
                    (one[d], step[d]) = (window[d], stride[d]);
                    v = f.reduce_window(&v, ReduceKind::Add, &one, &step, &none, &ones, &ones);
                }
            } else {
                v = f.reduce_window(&v, ReduceKind::Add, &window, &stride, &none, &ones, &ones);
            }
        }
        let v = self.divide(f, &w, &v, &input);
        smallvec![f.convert(&v, e)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let op = AvgPoolBackward { of: *self, x: s.meta(0).dims };
        Ok(smallvec![Some(dispatch::call(Prim::AvgPoolBackward(Box::new(op)), &[g])?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

impl Op for AvgPoolBackward {
    const NAME: &'static str = "avg_pool_backward";
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
    fn label(&self) -> &'static str {
        label(
            &self.of.windows,
            ["avg_pool1d_backward", "avg_pool2d_backward", "avg_pool3d_backward"],
            ["adaptive_avg_pool1d_backward", "adaptive_avg_pool2d_backward", "adaptive_avg_pool3d_backward"],
        )
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(self.x))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let s = all_whole(self.of.windows.spatial());
        Axes::parse(&format!("... {s} -> ... {s}"), x, y).linear(&[0b1])
    }
    fn resized(&self, _: &[Meta], y: &[Meta]) -> AvgPoolBackward {
        AvgPoolBackward { x: y[0].dims, ..*self }
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (g, mut gx, w) = (x[0].view(), y[0].view_mut(), &self.of.windows);
        if w.adaptive {
            kernels::adaptive_avg_pool_backward(&g, w.spatial(), &mut gx);
        } else {
            kernels::avg_pool_backward(&g, &w.spec, self.of.count_include_pad, self.of.divisor, &mut gx);
        }
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let w = self.of.windows.regular(&self.x);
        let (s, rank) = (w.spatial(), self.x.len());
        let lead = rank - s;
        let input = self.x[lead..].to_vec();
        let e = x[0].element();
        if y[0].numel() == 0 || x[0].ty().numel() == 0 {
            return smallvec![f.splat(0.0, &y[0].ty())];
        }
        let g = f.convert(&x[0], wide_type(e));
        let mut v = self.of.divide(f, &w, &g, &input);
        if w.adaptive {
            for (d, &n) in input.iter().enumerate() {
                let m = cover(f, &w, d, n, v.element());
                v = contract(f, &v, &m, lead + d, 0);
            }
        } else {
            // The gradient of an element is the sum over the windows that cover it: a window sum over the spread
            // gradient.
            let (mut window, ones, mut interior) = (vec![1; rank], vec![1; rank], vec![0; rank]);
            let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
            for d in 0..s {
                let (k, step) = (w.spec.kernel[d] as i64, w.spec.stride[d] as i64);
                window[lead + d] = w.spec.kernel[d];
                interior[lead + d] = step - 1;
                low[lead + d] = k - 1 - w.spec.pad[d] as i64;
                let extent = (w.out[d] as i64 - 1) * step + 1;
                high[lead + d] = input[d] as i64 + k - 1 - extent - low[lead + d];
            }
            let zero = f.scalar(0.0, v.element());
            v = f.pad(&v, &zero, &low, &high, &interior);
            v = f.reduce_window(&v, ReduceKind::Add, &window, &ones, &vec![(0, 0); rank], &ones, &ones);
        }
        smallvec![f.convert(&v, e)]
    }
    fn vjp(&self, _: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![Some(dispatch::call(Prim::AvgPool(Box::new(self.of)), &[g])?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}
