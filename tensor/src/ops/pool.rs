//! Pooling over one to three spatial dimensions: `MaxPool`, `AvgPool` and their gradients, for fixed and for adaptive windows.

use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::ops::activation::expect_float;
use crate::ops::kernel_call::{self, KernelCall};
use crate::schema::{Args, Row, Sample, Scope, Tier, index, ints, n, t};
use crate::{DType, DeviceKind, Dims, Error, Meta, Result, Tensor, dispatch, samples};
use smallvec::smallvec;
use torchtpu_kernels::pool as kernels;
use torchtpu_kernels::pool::PoolSpec;
use torchtpu_stablehlo::{Direction, ElementType, ReduceKind, ScatterKind, Type};

/// Where the windows of a pooling lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Windows {
    /// Sizes, steps, padding; of adaptive windows only the number of dimensions counts.
    pub spec: PoolSpec,
    /// Sizes of the output; entries from `spatial` on are ignored.
    pub out: [usize; 3],
    /// Windows divide each dimension as evenly as they can.
    pub adaptive: bool,
}

impl Windows {
    fn spatial(&self) -> usize {
        self.spec.spatial
    }
    /// Sizes of the result for an input.
    fn output(&self, x: &Dims) -> Dims {
        let lead = x.len() - self.spatial();
        x[..lead].iter().chain(&self.out[..self.spatial()]).copied().collect()
    }
    /// An adaptive pooling whose windows are all alike is an ordinary one; the lowerings ask for that first.
    fn regular(&self, x: &[usize]) -> Windows {
        let s = self.spatial();
        let input = &x[x.len() - s..];
        if !self.adaptive || (0..s).any(|d| self.out[d] == 0 || !input[d].is_multiple_of(self.out[d]) || input[d] == 0)
        {
            return *self;
        }
        let mut w = Windows { adaptive: false, ..*self };
        for (d, &n) in input.iter().enumerate() {
            w.spec.kernel[d] = n / self.out[d];
            w.spec.stride[d] = w.spec.kernel[d];
        }
        (w.spec.pad, w.spec.dilation) = ([0; 3], [1; 3]);
        w
    }
}

const INDEX: ElementType = ElementType::S64;

/// Integer arithmetic on small vectors, for positions.
fn int(f: &mut Func, name: &'static str, a: &Value, b: i64) -> Value {
    let b = f.splat_i64(b, a.ty());
    f.binary(name, a, &b)
}

/// Starts and ends of the windows along one dimension, each `[out]`; of fixed windows the end includes padding.
fn bounds(f: &mut Func, w: &Windows, d: usize, input: usize) -> (Value, Value) {
    let ty = Type::new(&[w.out[d]], INDEX);
    let o = f.iota(&ty, 0);
    if w.adaptive {
        let (i, n) = (input as i64, w.out[d] as i64);
        let start = int(f, "stablehlo.multiply", &o, i);
        let end = int(f, "stablehlo.add", &start, i + n - 1);
        return (int(f, "stablehlo.divide", &start, n), int(f, "stablehlo.divide", &end, n));
    }
    let start = int(f, "stablehlo.multiply", &o, w.spec.stride[d] as i64);
    let start = int(f, "stablehlo.subtract", &start, w.spec.pad[d] as i64);
    let end = int(f, "stablehlo.add", &start, ((w.spec.kernel[d] - 1) * w.spec.dilation[d] + 1) as i64);
    // Rounding the output's size up may leave a window that reaches beyond the padding.
    let end = int(f, "stablehlo.minimum", &end, (input + w.spec.pad[d]) as i64);
    (start, end)
}

// ------------------------------------------------------------------------------------------------ maximum

/// Largest element of each window, and its flat position within its plane.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[.., *s]` | floating point |
/// | y | `[.., *os]` | as x |
/// | position | as y | `int64` |
///
/// Padding never wins. NaN wins over every number; of equals the first one. Saves x and the positions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MaxPool(pub Windows);

/// Gradient of [`MaxPool`], from `g, x, position`: each element of g is added where the maximum was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MaxPoolBackward(pub Windows);

impl Op for MaxPool {
    const NAME: &'static str = "max_pool";
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    fn label(&self) -> &'static str {
        label(
            &self.0,
            ["max_pool1d", "max_pool2d", "max_pool3d"],
            ["adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"],
        )
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("max_pool2d", x[0])?;
        Ok(x[0].meta().with_dims(self.0.output(x[0].dims())))
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dtype(DType::I64)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (v, mut out, mut at) = (x[0].view(), y[0].view_mut(), y[1].view_mut());
        if self.0.adaptive {
            kernels::adaptive_max_pool(&v, self.0.spatial(), &mut out, &mut at);
        } else {
            kernels::max_pool(&v, &self.0.spec, &mut out, &mut at);
        }
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let w = self.0.regular(x[0].shape());
        if !w.adaptive && kernel_call::serves(f, x[0].element(), x[0].ty().numel()) {
            return KernelCall::MaxPool(w.spec).lower(f, &[&x[0]], y);
        }
        lower_max(&w, f, &x[0], &y[0].dims)
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![Some(dispatch::call(
            Prim::MaxPoolBackward(Box::new(MaxPoolBackward(self.0))),
            &[g, s.x(0), s.y(1)]
        )?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(1, 0b10)
    }
}

fn label(w: &Windows, fixed: [&'static str; 3], adaptive: [&'static str; 3]) -> &'static str {
    (if w.adaptive { adaptive } else { fixed })[w.spatial() - 1]
}

/// A vector along dimension `d` of the spatial ones, over the whole output.
fn along(f: &mut Func, v: &Value, out: &[usize], spatial: usize, d: usize) -> Value {
    f.broadcast_in_dim(v, out, &[out.len() - spatial + d])
}

/// Every place in a window of sizes `reach`, in order.
fn offsets(reach: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<'_> {
    (0..reach.iter().product()).map(move |mut rest: usize| {
        let mut offset = vec![0; reach.len()];
        for (o, n) in offset.iter_mut().zip(reach).rev() {
            *o = rest % n;
            rest /= n;
        }
        offset
    })
}

/// Where `v` takes the place of the maximum so far: it is larger, or NaN.
fn is_larger(f: &mut Func, v: &Value, best: &Value) -> Value {
    let larger = f.compare(Direction::Gt, v, best);
    let nan = f.compare(Direction::Ne, v, v);
    f.binary("stablehlo.or", &larger, &nan)
}

/// The maximum by comparing the windows' elements one window position after another, so that positions come with it. A
/// program that uses only the values loses the positions to dead code elimination.
fn lower_max(w: &Windows, f: &mut Func, x: &Value, out: &[usize]) -> Values {
    let (s, rank) = (w.spatial(), x.rank());
    let lead = rank - s;
    let input: Vec<usize> = x.shape()[lead..].to_vec();
    let e = x.element();
    let at_type = Type::new(out, INDEX);
    if out.iter().product::<usize>() == 0 {
        return smallvec![f.splat(0.0, &Type::new(out, e)), f.splat_i64(0, &at_type)];
    }
    // The longest window of each dimension.
    let reach: Vec<usize> = (0..s)
        .map(|d| {
            if w.adaptive {
                (0..w.out[d])
                    .map(|o| ((o + 1) * input[d]).div_ceil(w.out[d]) - o * input[d] / w.out[d])
                    .max()
                    .unwrap_or(0)
            } else {
                w.spec.kernel[d]
            }
        })
        .collect();
    let lowest = f.lowest(e);
    let padded = if w.adaptive {
        x.clone()
    } else {
        let (mut low, mut high) = (vec![0i64; rank], vec![0i64; rank]);
        for d in 0..s {
            low[lead + d] = w.spec.pad[d] as i64;
            let needed = (w.out[d] - 1) * w.spec.stride[d] + (w.spec.kernel[d] - 1) * w.spec.dilation[d] + 1;
            high[lead + d] = needed as i64 - (input[d] + w.spec.pad[d]) as i64;
        }
        f.pad(x, &lowest, &low, &high, &vec![0; rank])
    };
    let (starts, ends): (Vec<Value>, Vec<Value>) = (0..s).map(|d| bounds(f, w, d, input[d])).unzip();
    let flat = |f: &mut Func, places: &[Value]| -> Value {
        let mut at = f.splat_i64(0, &at_type);
        for (d, p) in places.iter().enumerate() {
            at = int(f, "stablehlo.multiply", &at, input[d] as i64);
            let p = along(f, p, out, s, d);
            at = f.binary("stablehlo.add", &at, &p);
        }
        at
    };
    // A window of nothing but minus infinity is found at its first element.
    let firsts: Vec<Value> = starts.iter().map(|start| int(f, "stablehlo.maximum", start, 0)).collect();
    let mut best = f.broadcast_to(&lowest, out);
    if w.adaptive {
        let mut at = flat(f, &firsts);
        for offset in offsets(&reach) {
            let mut places = Vec::with_capacity(s);
            let mut v = x.clone();
            for d in 0..s {
                // Short windows see their last element twice.
                let last = int(f, "stablehlo.subtract", &ends[d], 1);
                let p = int(f, "stablehlo.add", &starts[d], offset[d] as i64);
                let p = f.binary("stablehlo.minimum", &p, &last);
                v = f.take(&v, &p, lead + d);
                places.push(p);
            }
            let wins = is_larger(f, &v, &best);
            let place = flat(f, &places);
            best = f.select(&wins, &v, &best);
            at = f.select(&wins, &place, &at);
        }
        return smallvec![best, at];
    }
    // Counted from the window's start a place is a constant, and small.
    let start = flat(f, &starts);
    let near_type =
        Type::new(out, if i32::try_from(input.iter().product::<usize>()).is_ok() { ElementType::S32 } else { INDEX });
    let mut near = if w.spec.pad[..s].iter().all(|&p| p == 0) {
        f.splat_i64(0, &near_type)
    } else {
        let first = flat(f, &firsts);
        let skipped = f.binary("stablehlo.subtract", &first, &start);
        f.convert(&skipped, near_type.element)
    };
    for offset in offsets(&reach) {
        let (mut from, mut limit, mut stride) = (vec![0; rank], padded.shape().to_vec(), vec![1; rank]);
        let mut place = 0;
        for d in 0..s {
            let o = offset[d] * w.spec.dilation[d];
            place = place * input[d] + o;
            from[lead + d] = o;
            limit[lead + d] = o + (w.out[d] - 1) * w.spec.stride[d] + 1;
            stride[lead + d] = w.spec.stride[d];
        }
        let v = f.slice(&padded, &from, &limit, &stride);
        let wins = is_larger(f, &v, &best);
        let place = f.splat_i64(place as i64, &near_type);
        best = f.select(&wins, &v, &best);
        near = f.select(&wins, &place, &near);
    }
    let near = f.convert(&near, INDEX);
    let at = f.binary("stablehlo.add", &start, &near);
    smallvec![best, at]
}

/// Gradient of a maximum over windows that do not touch: each element is its window's gradient if it is the one, else zero.
fn spread_over_windows(f: &mut Func, w: &Windows, g: &Value, at: &Value, dims: &Dims) -> Value {
    let (s, rank) = (w.spatial(), dims.len());
    let lead = rank - s;
    // Each spatial dimension as windows by elements of a window.
    let (mut split, mut outer, mut covered) = (dims[..lead].to_vec(), (0..lead).collect::<Vec<_>>(), dims.to_vec());
    for d in 0..s {
        outer.push(split.len());
        split.extend([w.out[d], w.spec.kernel[d]]);
        covered[lead + d] = w.out[d] * w.spec.kernel[d];
    }
    let grid = Type::new(&covered[lead..], INDEX);
    let mut place = f.splat_i64(0, &grid);
    for d in 0..s {
        place = int(f, "stablehlo.multiply", &place, dims[lead + d] as i64);
        let along = f.iota(&grid, d);
        place = f.binary("stablehlo.add", &place, &along);
    }
    let place = f.reshape(&place, &split[lead..]);
    let inner: Vec<usize> = (lead..split.len()).collect();
    let place = f.broadcast_in_dim(&place, &split, &inner);
    // Without the barrier every element finds its window's maximum anew.
    let at = f.optimization_barrier(std::slice::from_ref(at)).remove(0);
    let at = f.broadcast_in_dim(&at, &split, &outer);
    let g = f.broadcast_in_dim(g, &split, &outer);
    let is_it = f.compare(Direction::Eq, &at, &place);
    let zeros = f.splat(0.0, g.ty());
    let gx = f.select(&is_it, &g, &zeros);
    let gx = f.reshape(&gx, &covered);
    let mut tail = vec![0; rank];
    for d in lead..rank {
        tail[d] = dims[d] as i64 - covered[d] as i64;
    }
    let zero = f.scalar(0.0, gx.element());
    f.pad(&gx, &zero, &vec![0; rank], &tail, &vec![0; rank])
}

impl Op for MaxPoolBackward {
    const NAME: &'static str = "max_pool_backward";
    fn label(&self) -> &'static str {
        label(
            &self.0,
            ["max_pool1d_backward", "max_pool2d_backward", "max_pool3d_backward"],
            ["adaptive_max_pool1d_backward", "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"],
        )
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(*x[1].meta())
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::max_pool_backward(&x[0].view(), &x[2].view(), self.0.spatial(), &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let w = self.0.regular(x[1].shape());
        let (s, rank) = (w.spatial(), x[1].rank());
        if kernel_call::serves(f, x[1].element(), x[1].ty().numel()) {
            return KernelCall::MaxPoolBackward(s).lower(f, &[&x[0], &x[2]], y);
        }
        let lead = rank - s;
        let dims = &y[0].dims;
        let none = dims.numel() == 0 || x[0].ty().numel() == 0;
        if none {
            return smallvec![f.splat(0.0, x[1].ty())];
        }
        let is_plain = !w.adaptive && w.spec.dilation[..s].iter().all(|&d| d == 1);
        let on_cpu = f.platform().is_cpu();
        if on_cpu && is_plain && (0..s).all(|d| w.spec.pad[d] == 0 && w.spec.stride[d] == w.spec.kernel[d]) {
            return smallvec![spread_over_windows(f, &w, &x[0], &x[2], dims)];
        }
        // XLA:CPU makes a select-and-scatter of several loops, 5 to 10 times slower than adding at the known positions.
        if is_plain && !on_cpu {
            let (mut window, mut stride, mut padding) = (vec![1; rank], vec![1; rank], vec![(0, 0); rank]);
            for d in 0..s {
                (window[lead + d], stride[lead + d]) = (w.spec.kernel[d], w.spec.stride[d]);
                let needed = (w.out[d] - 1) * w.spec.stride[d] + w.spec.kernel[d];
                padding[lead + d] = (w.spec.pad[d] as i64, needed as i64 - (dims[lead + d] + w.spec.pad[d]) as i64);
            }
            // Elements that no window reaches would be negative padding; they are cut off and come back as zeros.
            let mut limit: Vec<usize> = dims.to_vec();
            let mut tail = vec![0i64; rank];
            for (i, p) in padding.iter_mut().enumerate() {
                if p.1 < 0 {
                    tail[i] = -p.1;
                    limit[i] -= tail[i] as usize;
                    p.1 = 0;
                }
            }
            let v = f.slice(&x[1], &vec![0; rank], &limit, &vec![1; rank]);
            let gx = f.select_and_scatter(&v, &x[0], &window, &stride, &padding);
            let zero = f.scalar(0.0, gx.element());
            return smallvec![f.pad(&gx, &zero, &vec![0; rank], &tail, &vec![0; rank])];
        }
        let planes: usize = dims[..lead].iter().product();
        let (plane, out_plane) = (dims.numel() / planes, x[0].ty().numel() / planes);
        let zero = f.splat(0.0, &Type::new(&[planes, plane], x[0].element()));
        let (at, g) = (f.reshape(&x[2], &[planes, out_plane]), f.reshape(&x[0], &[planes, out_plane]));
        let gx = f.put_along(&zero, &at, &g, 1, ScatterKind::Add);
        smallvec![f.reshape(&gx, dims)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        // Linear in the gradient: what is added somewhere is read from there.
        let spatial = self.0.spatial();
        let (dims, out) = (s.meta(1).dims, s.meta(0).dims);
        let lead = dims.len() - spatial;
        let flat = |d: &Dims| -> Dims { d[..lead].iter().copied().chain([d[lead..].iter().product()]).collect() };
        let at = s.x(2).reshape_dims(flat(&out))?;
        let gg = super::indexing::gather(&g.reshape_dims(flat(&dims))?, lead as i64, &at)?.reshape_dims(out)?;
        Ok(smallvec![Some(gg), None, None])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b100)
    }
}

// ------------------------------------------------------------------------------------------------ average

/// Mean of each window.
///
/// `x: [.., *s]` of floating point to `[.., *os]`. The divisor is `divisor` if given, else the window's size, with the padding it
/// covers if `count_include_pad`. 16-bit floats accumulate in `f32`. Linear: nothing is saved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AvgPool {
    /// Where the windows lie.
    pub windows: Windows,
    /// Padding counts in the divisor.
    pub count_include_pad: bool,
    /// Divisor of every window.
    pub divisor: Option<i64>,
}

/// Gradient of [`AvgPool`], from `g`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AvgPoolBackward {
    /// What it is the gradient of.
    pub of: AvgPool,
    /// Sizes of that pooling's input.
    pub x: Dims,
}

impl AvgPool {
    /// For each dimension the reciprocal sizes of the windows, as `[out]` of floats.
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

/// Which windows of dimension `d` cover which elements, `[out, input]`, one or zero.
fn cover(f: &mut Func, w: &Windows, d: usize, input: usize, e: ElementType) -> Value {
    let dims = [w.out[d], input];
    let (start, end) = bounds(f, w, d, input);
    let (start, end) = (f.broadcast_in_dim(&start, &dims, &[0]), f.broadcast_in_dim(&end, &dims, &[0]));
    let i = f.iota(&Type::new(&dims, INDEX), 1);
    let (from, to) = (f.compare(Direction::Ge, &i, &start), f.compare(Direction::Lt, &i, &end));
    let inside = f.binary("stablehlo.and", &from, &to);
    f.convert(&inside, e)
}

/// Contracts dimension `at` of `v` with dimension `side` of a matrix.
pub(crate) fn contract(f: &mut Func, v: &Value, m: &Value, at: usize, side: usize) -> Value {
    let e = v.element();
    let y = f.dot_general(v, m, (&[], &[]), (&[at], &[side]), e, Some("HIGHEST"));
    // The new dimension came last; it belongs where the old one was.
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

fn wide_type(e: ElementType) -> ElementType {
    if matches!(e, ElementType::F16 | ElementType::BF16) { ElementType::F32 } else { e }
}

impl Op for AvgPool {
    const NAME: &'static str = "avg_pool";
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
                let m = cover(f, &w, d, n, v.element());
                v = contract(f, &v, &m, lead + d, 1);
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
            v = f.reduce_window(&v, ReduceKind::Add, &window, &stride, &vec![(0, 0); rank], &ones, &ones);
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
            // Every element sums the windows that cover it: a window sum over the spread gradient.
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

// ------------------------------------------------------------------------------------------------ the public functions

/// Requires `[n, c, *s]` or `[c, *s]`, none of whose sizes but the batch is zero.
fn check_input(x: &Tensor, spatial: usize, name: &str) -> Result<()> {
    let d = x.dims();
    let fits = d.len() == spatial + 1 || d.len() == spatial + 2;
    if fits && d[d.len() - spatial - 1..].iter().all(|&n| n > 0) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}(): Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got: {d}",
        spatial + 1,
        spatial + 2
    )))
}

/// Numbers of a pooling with fixed windows.
struct Fixed<'a> {
    name: &'static str,
    kernel: &'a [i64],
    stride: &'a [i64],
    padding: &'a [i64],
    dilation: &'a [i64],
    ceil: bool,
}

impl Fixed<'_> {
    fn each(&self, v: &[i64], spatial: usize, what: &str) -> Result<[i64; 3]> {
        let mut out = [0; 3];
        if v.len() != 1 && v.len() != spatial {
            let list = match spatial {
                1 => "one int",
                2 => "either be a single int, or a tuple of two ints",
                _ => "either be a single int, or a tuple of three ints",
            };
            return Err(Error::runtime(format!("{}: {what} must {list}", self.name)));
        }
        for (d, o) in out.iter_mut().enumerate().take(spatial) {
            *o = v[if v.len() == 1 { 0 } else { d }];
        }
        Ok(out)
    }
    fn windows(&self, x: &Tensor, spatial: usize) -> Result<Windows> {
        check_input(x, spatial, self.name)?;
        let k = self.each(self.kernel, spatial, "kernel_size")?;
        let stride = if self.stride.is_empty() { k } else { self.each(self.stride, spatial, "stride")? };
        let pad = self.each(self.padding, spatial, "padding")?;
        let dilation = self.each(self.dilation, spatial, "dilation")?;
        let mut w = Windows {
            spec: PoolSpec { spatial, kernel: [1; 3], stride: [1; 3], pad: [0; 3], dilation: [1; 3] },
            out: [1; 3],
            adaptive: false,
        };
        let input = &x.dims()[x.dims().len() - spatial..];
        let mut sizes = Vec::new();
        for d in 0..spatial {
            if k[d] <= 0 {
                return Err(Error::runtime(format!(
                    "kernel size should be greater than zero, but got kernel_size={}",
                    k[d]
                )));
            }
            if stride[d] <= 0 {
                return Err(Error::runtime("stride should not be zero"));
            }
            if dilation[d] <= 0 {
                return Err(Error::runtime(format!(
                    "dilation should be greater than zero, but got dilation={}",
                    dilation[d]
                )));
            }
            if pad[d] < 0 {
                return Err(Error::runtime(format!("pad must be non-negative, but got pad: {}", pad[d])));
            }
            let extent = dilation[d] * (k[d] - 1) + 1;
            if pad[d] > extent / 2 {
                return Err(Error::runtime(format!(
                    "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}",
                    pad[d], k[d], dilation[d]
                )));
            }
            let n = input[d] as i64;
            let room = n + 2 * pad[d] - extent + if self.ceil { stride[d] - 1 } else { 0 };
            let mut out = room.div_euclid(stride[d]) + 1;
            // The last window has to start within the input or the padding before it.
            if self.ceil && (out - 1) * stride[d] >= n + pad[d] {
                out -= 1;
            }
            sizes.push(out);
            w.spec.kernel[d] = k[d] as usize;
            w.spec.stride[d] = stride[d] as usize;
            w.spec.pad[d] = pad[d] as usize;
            w.spec.dilation[d] = dilation[d] as usize;
            w.out[d] = out.max(0) as usize;
        }
        if sizes.iter().any(|&n| n < 1) {
            let list = |v: Vec<String>| v.join("x");
            let lead = x.dims()[x.dims().len() - spatial - 1];
            let given = list(std::iter::once(lead).chain(input.iter().copied()).map(|n| n.to_string()).collect());
            let made = list(std::iter::once(lead as i64).chain(sizes).map(|n| n.to_string()).collect());
            return Err(Error::runtime(format!(
                "Given input size: ({given}). Calculated output size: ({made}). Output size is too small"
            )));
        }
        Ok(w)
    }
}

/// Windows of an adaptive pooling; a missing size keeps the input's.
fn adaptive(x: &Tensor, sizes: &[i64], spatial: usize, name: &str) -> Result<Windows> {
    check_input(x, spatial, name)?;
    if sizes.len() != 1 && sizes.len() != spatial {
        return Err(Error::runtime(format!("{name}: output_size must be {spatial}")));
    }
    let mut w = Windows {
        spec: PoolSpec { spatial, kernel: [1; 3], stride: [1; 3], pad: [0; 3], dilation: [1; 3] },
        out: [1; 3],
        adaptive: true,
    };
    for d in 0..spatial {
        let n = sizes[if sizes.len() == 1 { 0 } else { d }];
        w.out[d] = usize::try_from(n).map_err(|_| {
            Error::runtime(format!(
                "{name}: elements of output_size must be greater than or equal to 0 but received {n}"
            ))
        })?;
    }
    Ok(w)
}

fn max_pool(w: Windows, x: &Tensor) -> Result<(Tensor, Tensor)> {
    if x.dtype().is_int() {
        // Exact below 2^53.
        let y = dispatch::call_n(Prim::MaxPool(Box::new(MaxPool(w))), &[&x.to_dtype(DType::F64)?])?;
        return Ok((y[0].to_dtype(x.dtype())?, y[1].clone()));
    }
    let y = dispatch::call_n(Prim::MaxPool(Box::new(MaxPool(w))), &[x])?;
    Ok((y[0].clone(), y[1].clone()))
}

fn fixed_max(a: &Args<'_>, spatial: usize, name: &'static str) -> Result<(Tensor, Tensor)> {
    let p = Fixed {
        name,
        kernel: a.ints(1)?,
        stride: a.ints(2)?,
        padding: a.ints(3)?,
        dilation: a.ints(4)?,
        ceil: a.bool(5)?,
    };
    let x = a.tensor(0)?;
    max_pool(p.windows(x, spatial)?, x)
}

fn fixed_avg(a: &Args<'_>, spatial: usize, name: &'static str) -> Result<Tensor> {
    let p =
        Fixed { name, kernel: a.ints(1)?, stride: a.ints(2)?, padding: a.ints(3)?, dilation: &[1], ceil: a.bool(4)? };
    let x = a.tensor(0)?;
    let divisor = if spatial > 1 { a.opt_int(6)? } else { None };
    if divisor == Some(0) {
        return Err(Error::runtime("divisor must be not zero"));
    }
    let op = AvgPool { windows: p.windows(x, spatial)?, count_include_pad: a.bool(5)?, divisor };
    if x.dtype() == DType::I64 {
        // Whole numbers are divided towards zero; exact as long as sums stay below 2^53.
        let y = dispatch::call(Prim::AvgPool(Box::new(op)), &[&x.to_dtype(DType::F64)?])?;
        return y.to_dtype(DType::I64);
    }
    dispatch::call(Prim::AvgPool(Box::new(op)), &[x])
}

fn adaptive_avg(a: &Args<'_>, spatial: usize, name: &'static str) -> Result<Tensor> {
    let x = a.tensor(0)?;
    let op = AvgPool { windows: adaptive(x, a.ints(1)?, spatial, name)?, count_include_pad: true, divisor: None };
    dispatch::call(Prim::AvgPool(Box::new(op)), &[x])
}

fn adaptive_max(a: &Args<'_>, spatial: usize, name: &'static str) -> Result<(Tensor, Tensor)> {
    let x = a.tensor(0)?;
    max_pool(adaptive(x, a.ints(1)?, spatial, name)?, x)
}

/// Gradient of a max pooling from where the maxima were found.
fn max_backward(a: &Args<'_>, spatial: usize, name: &'static str) -> Result<Tensor> {
    let (g, x, at) = (a.tensor(0)?, a.tensor(1)?, a.tensor(7)?);
    let p = Fixed {
        name,
        kernel: a.ints(2)?,
        stride: a.ints(3)?,
        padding: a.ints(4)?,
        dilation: a.ints(5)?,
        ceil: a.bool(6)?,
    };
    let w = p.windows(x, spatial)?;
    let out = w.output(x.dims());
    for (t, what) in [(g, "gradOutput"), (at, "indices")] {
        if *t.dims() != out {
            return Err(Error::runtime(format!(
                "{name}(): Expected {what} to be of shape {out}, but got: {}",
                t.dims()
            )));
        }
    }
    if at.dtype() != DType::I64 || g.dtype() != x.dtype() {
        return Err(Error::runtime(format!(
            "{name}(): Expected indices of type Long and a gradient of type {}, but got {} and {}",
            x.dtype().scalar_type(),
            at.dtype().scalar_type(),
            g.dtype().scalar_type()
        )));
    }
    expect_float(name, x)?;
    let gx = if x.device().kind == DeviceKind::Tpu {
        // The op's lowering looks for the maxima in x again; here the positions are what counts.
        let lead = x.dims().len() - spatial;
        let flat = |d: &Dims| -> Dims { d[..lead].iter().copied().chain([d[lead..].iter().product()]).collect() };
        let zeros = Tensor::zeros_like_meta(&x.meta().with_dims(flat(x.dims())))?;
        let (g, at) = (g.reshape_dims(flat(g.dims()))?, at.reshape_dims(flat(at.dims()))?);
        super::indexing::scatter_add(&zeros, lead as i64, &at, &g)?.reshape_dims(*x.dims())?
    } else {
        dispatch::call(Prim::MaxPoolBackward(Box::new(MaxPoolBackward(w))), &[g, &x.detach(), at])?
    };
    super::pointwise::independent_of(x, gx)
}

/// Rows of gradients that may be called by themselves.
pub const BACKWARD_ROWS: &[Row] = &[
    Row::new("max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor", Tier::Prim, |a| Ok(max_backward(a, 2, "max_pool2d_with_indices_backward")?.into()), || vec![Sample::new(vec![t(&[1, 2, 1, 1]), t(&[1, 2, 4, 4]), ints(&[4, 4]), ints(&[4, 4]), ints(&[0, 0]), ints(&[1, 1]), n(false), index(&[1, 2, 1, 1], 16)]).no_gradient()]).scope(Scope::Aten),
    Row::new("max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor", Tier::Prim, |a| Ok(max_backward(a, 3, "max_pool3d_with_indices_backward")?.into()), || vec![Sample::new(vec![t(&[1, 2, 1, 1, 1]), t(&[1, 2, 2, 4, 4]), ints(&[2, 4, 4]), ints(&[2, 4, 4]), ints(&[0, 0, 0]), ints(&[1, 1, 1]), n(false), index(&[1, 2, 1, 1, 1], 32)]).no_gradient()]).scope(Scope::Aten),
];

macro_rules! pool_rows {
    ($($spatial:literal $x:expr, $scope1:expr, $scope:expr,
       $max:literal $max_schema:literal $max_indices:literal
       $avg:literal $avg_schema:literal
       $adaptive_avg:literal $adaptive_avg_schema:literal
       $adaptive_max:literal $adaptive_max_schema:literal;)*) => {
        /// Rows of the poolings.
        pub const ROWS: &[Row] = &[$(
            Row::new($max_schema, Tier::Prim, |a| Ok(fixed_max(a, $spatial, $max)?.0.into()), samples!([t($x), ints(&[2; $spatial])], [t($x), ints(&[3; $spatial]), ints(&[2; $spatial]), ints(&[1; $spatial])], [t(&$x[1..]), ints(&[2; $spatial]), ints(&[1; $spatial]), ints(&[0; $spatial]), ints(&[2; $spatial])], [t($x), ints(&[2; $spatial]), ints(&[2; $spatial]), ints(&[1; $spatial]), ints(&[1; $spatial]), n(true)])).scope(Scope::Function),
            Row::new($max_indices, Tier::Prim, |a| Ok(fixed_max(a, $spatial, $max)?.into()), samples!([t($x), ints(&[2; $spatial])])).scope($scope1),
            Row::new($avg_schema, Tier::Prim, |a| Ok(fixed_avg(a, $spatial, $avg)?.into()), samples!([t($x), ints(&[2; $spatial])], [t($x), ints(&[3; $spatial]), ints(&[2; $spatial]), ints(&[1; $spatial]), n(true), n(false)], [t(&$x[1..]), ints(&[3; $spatial]), ints(&[1; $spatial]), ints(&[1; $spatial])])).scope($scope),
            Row::new($adaptive_avg_schema, Tier::Prim, |a| Ok(adaptive_avg(a, $spatial, $adaptive_avg)?.into()), samples!([t($x), ints(&[2; $spatial])], [t($x), ints(&[1; $spatial])], [t(&$x[1..]), ints(&[3; $spatial])])).scope($scope),
            Row::new($adaptive_max_schema, Tier::Prim, |a| Ok(adaptive_max(a, $spatial, $adaptive_max)?.into()), samples!([t($x), ints(&[2; $spatial])], [t($x), ints(&[1; $spatial])])).scope($scope),
        )*];
    };
}

pool_rows! {
    1 &[2, 3, 5], Scope::Function, Scope::Function,
        "max_pool1d" "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> Tensor"
        "max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"
        "avg_pool1d" "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, bool count_include_pad=True) -> Tensor"
        "adaptive_avg_pool1d" "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor"
        "adaptive_max_pool1d" "adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)";
    2 &[2, 2, 5, 4], Scope::Nn, Scope::Nn,
        "max_pool2d" "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor"
        "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"
        "avg_pool2d" "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"
        "adaptive_avg_pool2d" "adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"
        "adaptive_max_pool2d" "adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)";
    3 &[1, 2, 4, 3, 4], Scope::Nn, Scope::Nn,
        "max_pool3d" "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor"
        "max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"
        "avg_pool3d" "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"
        "adaptive_avg_pool3d" "adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"
        "adaptive_max_pool3d" "adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)";
}
