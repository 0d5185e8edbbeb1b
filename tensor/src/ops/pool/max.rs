//! Max pooling and its gradient.

use super::{INDEX, Windows, along, bounds, int, label};
use crate::axes::{Axes, all_whole};
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, misfit};
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::types::compute::expect_float;
use crate::{DType, Dims, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::pool::{self as kernels, PoolSpec};
use torchtpu_kernels::{View, ViewMut};
use torchtpu_stablehlo::{Direction, ElementType, ScatterKind, Type};

/// Largest element of each window, and its flat position within its plane.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[.., *s]` | floating point |
/// | y | `[.., *os]` | as x |
/// | position | as y | `int64` |
///
/// Padding is never the largest. NaN is larger than every number, and the first of equal elements is chosen. Saves x
/// and the positions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MaxPool(pub Windows);

/// Gradient of [`MaxPool`], from `g, x, position`: each element of g is added at the position of the maximum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MaxPoolBackward(pub Windows);

/// The kernel of [`MaxPool`].
#[derive(Debug)]
pub(crate) struct MaxPoolCall(PoolSpec);

fields! {
    MaxPoolCall { 0 };
    MaxPoolBackwardCall { spatial };
}

impl KernelCall for MaxPoolCall {
    fn name() -> &'static str {
        "max_pool"
    }
    fn arity(&self) -> (usize, usize) {
        (1, 2)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([x], [y, at]) = (x, y) else { return Err(misfit(self)) };
        kernels::max_pool(x, &self.0, y, at);
        Ok(())
    }
}

/// The kernel of [`MaxPoolBackward`].
#[derive(Debug)]
pub(crate) struct MaxPoolBackwardCall {
    spatial: usize,
}

impl KernelCall for MaxPoolBackwardCall {
    fn name() -> &'static str {
        "max_pool_backward"
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([g, at], [gx]) = (x, y) else { return Err(misfit(self)) };
        kernels::max_pool_backward(g, at, self.spatial, gx);
        Ok(())
    }
}

impl Op for MaxPool {
    const NAME: &'static str = "max_pool";
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let s = all_whole(self.0.spatial());
        Axes::parse(&format!("... {s} -> ... {s}"), x, y)
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
        if !w.adaptive && kernel_call::is_profitable(f, x[0].element(), x[0].ty().numel()) {
            return MaxPoolCall(w.spec).call_kernel(f, [&x[0]], y);
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

/// Whether `v` replaces the maximum so far: it is larger, or NaN.
fn is_larger(f: &mut Func, v: &Value, best: &Value) -> Value {
    let larger = f.compare(Direction::Gt, v, best);
    let nan = f.compare(Direction::Ne, v, v);
    f.binary("stablehlo.or", &larger, &nan)
}

/// The maximum, found by comparing the elements of windows one window position after another, which also gives the
/// positions. If a program uses only the values, dead code elimination removes the positions.
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
    // If all elements of a window are minus infinity, the maximum is at its first element.
    let firsts: Vec<Value> = starts.iter().map(|start| int(f, "stablehlo.maximum", start, 0)).collect();
    let mut best = f.broadcast_to(&lowest, out);
    if w.adaptive {
        let mut at = flat(f, &firsts);
        for offset in offsets(&reach) {
            let mut places = Vec::with_capacity(s);
            let mut v = x.clone();
            for d in 0..s {
                // Short windows read their last element twice.
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
    // Counted from the window's start, a position is a small constant.
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

/// Gradient of a maximum over windows that do not overlap: an element gets its window's gradient if it is the maximum,
/// else zero.
fn spread_over_windows(f: &mut Func, w: &Windows, g: &Value, at: &Value, dims: &Dims) -> Value {
    let (s, rank) = (w.spatial(), dims.len());
    let lead = rank - s;
    // Split each spatial dimension into windows and elements of a window.
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
    // Without the barrier every element computes its window's maximum again.
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
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
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
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let s = all_whole(self.0.spatial());
        Axes::parse(&format!("... {s} -> ... {s}"), x, y).linear(&[0b1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::max_pool_backward(&x[0].view(), &x[2].view(), self.0.spatial(), &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let w = self.0.regular(x[1].shape());
        let (s, rank) = (w.spatial(), x[1].rank());
        if kernel_call::is_profitable(f, x[1].element(), x[1].ty().numel()) {
            return MaxPoolBackwardCall { spatial: s }.call_kernel(f, [&x[0], &x[2]], y);
        }
        let lead = rank - s;
        let dims = &y[0].dims;
        let none = dims.numel() == 0 || x[0].ty().numel() == 0;
        if none {
            return smallvec![f.splat(0.0, x[1].ty())];
        }
        let e = x[1].element();
        if e.widened() != e {
            // An element may be the greatest of several windows. The sum of their gradients rounds once.
            let wide = [f.convert(&x[0], e.widened()), f.convert(&x[1], e.widened()), x[2].clone()];
            let gx = self.lower(f, &wide, y).remove(0);
            return smallvec![f.convert(&gx, e)];
        }
        let is_plain = !w.adaptive && w.spec.dilation[..s].iter().all(|&d| d == 1);
        let selects = f.profile().selects_and_scatters;
        if !selects && is_plain && (0..s).all(|d| w.spec.pad[d] == 0 && w.spec.stride[d] == w.spec.kernel[d]) {
            return smallvec![spread_over_windows(f, &w, &x[0], &x[2], dims)];
        }
        // XLA:CPU turns a select-and-scatter into several loops, 5 to 10 times slower than adding at the known
        // positions.
        if is_plain && selects {
            let (mut window, mut stride, mut padding) = (vec![1; rank], vec![1; rank], vec![(0, 0); rank]);
            for d in 0..s {
                (window[lead + d], stride[lead + d]) = (w.spec.kernel[d], w.spec.stride[d]);
                let needed = (w.out[d] - 1) * w.spec.stride[d] + w.spec.kernel[d];
                padding[lead + d] = (w.spec.pad[d] as i64, needed as i64 - (dims[lead + d] + w.spec.pad[d]) as i64);
            }
            // Elements that no window covers would be negative padding. They are cropped and come back as zeros.
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
        // The op is linear in the gradient: an element that is added at a position is read from there.
        let spatial = self.0.spatial();
        let (dims, out) = (s.meta(1).dims, s.meta(0).dims);
        let lead = dims.len() - spatial;
        let flat = |d: &Dims| -> Dims { d[..lead].iter().copied().chain([d[lead..].iter().product()]).collect() };
        let at = s.x(2).reshape_dims(flat(&out))?;
        let gg = crate::ops::indexing::gather(&g.reshape_dims(flat(&dims))?, lead as i64, &at)?.reshape_dims(out)?;
        Ok(smallvec![Some(gg), None, None])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b100)
    }
}
