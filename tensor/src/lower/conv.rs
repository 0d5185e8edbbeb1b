//! The spelling of convolutions and their gradients for a compiler.
//!
//! Each of them is one `stablehlo.convolution`, which suits the compilers of accelerators. XLA:CPU has a fast path
//! through Eigen only for 16- and 32-bit floats, and for a kernel that is not reversed and is no larger than the input.
//! Everything else becomes a scalar loop, which is 10 to 100 times slower. If the weight is larger than its operand,
//! reordering it for the fast path costs more than the arithmetic. So for XLA:CPU
//!
//! * a kernel is reversed by an op of its own;
//! * outside of the fast path, and for large weights on few positions, the convolution is a product of matrices:
//!   windows are unfolded into columns, and the weight keeps its layout.
//!
//! `docs/performance/xla-cpu.md` has the measurements.

use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, misfit};
use crate::op::{Func, Value};
use crate::ops::conv::{ConvSpec, spread};
use crate::{Dims, Meta};
use torchtpu_kernels::{View, ViewMut, conv as kernels};
use torchtpu_stablehlo::{ConvDims, ElementType, Profile};

/// The number of elements of a weight below which moving it is faster than setting up a product of matrices.
const LARGE_WEIGHT: usize = 1 << 17;
/// The largest number of elements into which windows are unfolded.
const MAX_UNFOLDED: usize = 1 << 28;

/// The number of multiplications of a convolution with a weight and an output of these sizes.
fn work(w: &[usize], y: &[usize]) -> usize {
    w.iter().product::<usize>() / w[0].max(1) * y.iter().product::<usize>()
}

/// The kernel of a convolution.
#[derive(Debug)]
pub(crate) struct ConvCall(ConvSpec);

fields! {
    ConvCall { 0 };
    InputGradCall { 0 };
    WeightGradCall { 0 };
}

impl KernelCall for ConvCall {
    fn name() -> &'static str {
        "conv"
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> Result<(), String> {
        let ([x, w], [y]) = (x, y) else { return Err(misfit(self)) };
        kernels::conv(x, w, None, &self.0, y);
        Ok(())
    }
}

/// The kernel of the gradient of a convolution for its input.
#[derive(Debug)]
pub(crate) struct InputGradCall(ConvSpec);

impl KernelCall for InputGradCall {
    fn name() -> &'static str {
        "conv_input_grad"
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> Result<(), String> {
        let ([g, w], [gx]) = (x, y) else { return Err(misfit(self)) };
        kernels::conv_input_grad(g, w, &self.0, gx);
        Ok(())
    }
}

/// The kernel of the gradient of a convolution for its weight.
#[derive(Debug)]
pub(crate) struct WeightGradCall(ConvSpec);

impl KernelCall for WeightGradCall {
    fn name() -> &'static str {
        "conv_weight_grad"
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> Result<(), String> {
        let ([x, g], [gw]) = (x, y) else { return Err(misfit(self)) };
        kernels::conv_weight_grad(x, g, &self.0, gw);
        Ok(())
    }
}

/// `x` convolved with `w`, without a bias.
pub(crate) fn convolution(f: &mut Func, x: &Value, w: &Value, spec: &ConvSpec, y: &Meta) -> Value {
    if kernel_call::is_profitable(f, x.element(), work(w.shape(), &y.dims)) {
        return ConvCall(*spec).call_kernel(f, [x, w], &[*y]).remove(0);
    }
    let y = &y.dims;
    let positions = y[0] * y[2..].iter().product::<usize>();
    if !as_matrices(f.profile(), spec, x, &x.shape()[2..], &w.shape()[2..], w.shape(), positions) {
        return plain(f, x, w, spec);
    }
    let w = turned(f, w, spec);
    let (o, row) = (w.shape()[0], w.shape()[1..].iter().product());
    let windows = unfold(f, x, spec, &w.shape()[2..], &y[2..]);
    let w = f.reshape(&w, &[o, row]);
    let z = dot(f, &w, &windows, 1, 0);
    let z = f.reshape(&z, &exchanged(y));
    exchange(f, &z)
}

/// Gradient of a convolution for its input, which has sizes `x`.
pub(crate) fn input_grad(f: &mut Func, g: &Value, w: &Value, of: &ConvSpec, x: &Meta) -> Value {
    if kernel_call::is_profitable(f, g.element(), work(w.shape(), g.shape())) {
        return InputGradCall(*of).call_kernel(f, [g, w], &[*x]).remove(0);
    }
    let x = &x.dims;
    let (s, k) = (of.spatial, w.shape()[2..].to_vec());
    let positions = g.shape()[0] * g.shape()[2..].iter().product::<usize>();
    if as_matrices(f.profile(), of, g, &g.shape()[2..], &k, w.shape(), positions) {
        let w = turned(f, w, of);
        return fold(f, g, &w, of, x);
    }
    // The kernels of each group, with inputs and outputs exchanged.
    let (og, cg) = (w.shape()[0] / of.groups, w.shape()[1]);
    let split: Vec<usize> = [of.groups, og, cg].into_iter().chain(k.iter().copied()).collect();
    let joined: Vec<usize> = [of.groups * cg, og].into_iter().chain(k.iter().copied()).collect();
    let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..3 + s).collect();
    let w = f.reshape(w, &split);
    let w = f.transpose(&w, &order);
    let w = f.reshape(&w, &joined);
    let mut spec = ConvSpec { reverse: !of.reverse, ..*of };
    for d in 0..s {
        let kernel = spread(k[d], of.w_dilation[d]) as i64;
        let low = kernel - 1 - of.pad[d].0;
        let taken = spread(g.shape()[2 + d], of.stride[d]) as i64;
        let reach = spread(x[2 + d], of.x_dilation[d]) as i64;
        spec.pad[d] = (low, reach - 1 + kernel - taken - low);
        (spec.stride[d], spec.x_dilation[d]) = (of.x_dilation[d], of.stride[d]);
    }
    plain(f, g, &w, &spec)
}

/// Gradient of a convolution for its weight, which has sizes `w`.
pub(crate) fn weight_grad(f: &mut Func, x: &Value, g: &Value, of: &ConvSpec, w: &Meta) -> Value {
    if kernel_call::is_profitable(f, x.element(), work(&w.dims, g.shape())) {
        return WeightGradCall(*of).call_kernel(f, [x, g], &[*w]).remove(0);
    }
    let w = &w.dims;
    let (s, xs, gs) = (of.spatial, x.shape().to_vec(), g.shape().to_vec());
    let positions = gs[0] * gs[2..].iter().product::<usize>();
    let y = if as_matrices(f.profile(), of, x, &xs[2..], &gs[2..], w, positions) {
        let windows = unfold(f, x, of, &w[2..], &gs[2..]);
        let last: Vec<usize> = [0].into_iter().chain(2..2 + s).chain([1]).collect();
        let g = f.transpose(g, &last);
        let g = f.reshape(&g, &[positions, gs[1]]);
        let y = dot(f, &g, &windows, 0, 1);
        f.reshape(&y, w)
    } else if of.groups > 1 && f.profile().groups_batches {
        grouped_weight_grad(f, x, g, of, w)
    } else {
        // Exchange batch and channels, so that the sum over the batch becomes a sum over channels.
        let cg = xs[1] / of.groups;
        let split: Vec<usize> = [xs[0], of.groups, cg].into_iter().chain(xs[2..].iter().copied()).collect();
        let joined: Vec<usize> = [cg, of.groups * xs[0]].into_iter().chain(xs[2..].iter().copied()).collect();
        let order: Vec<usize> = [2, 1, 0].into_iter().chain(3..3 + s).collect();
        let x = f.reshape(x, &split);
        let x = f.transpose(&x, &order);
        let x = f.reshape(&x, &joined);
        let g = exchange(f, g);
        let y = plain(f, &x, &g, &weight_grad_spec(of, &xs[2..], &gs[2..], &w[2..]));
        exchange(f, &y)
    };
    turned(f, &y, of)
}

/// The convolution of the input with the gradient of the output that gives the gradient of the weight, from the spatial
/// sizes of input, gradient and weight.
fn weight_grad_spec(of: &ConvSpec, x: &[usize], g: &[usize], w: &[usize]) -> ConvSpec {
    let mut spec = ConvSpec { reverse: false, ..*of };
    for d in 0..of.spatial {
        let window = spread(g[d], of.stride[d]) as i64;
        let reach = spread(w[d], of.w_dilation[d]) as i64;
        let input = spread(x[d], of.x_dilation[d]) as i64;
        spec.pad[d].1 = reach - 1 + window - input - of.pad[d].0;
        (spec.stride[d], spec.w_dilation[d]) = (of.w_dilation[d], of.stride[d]);
    }
    spec
}

/// The gradient of the weight of a convolution with groups, where the channels of input and output are the batch
/// dimensions of a convolution by groups of the batch. Nothing is moved, and libtpu has a form for it.
fn grouped_weight_grad(f: &mut Func, x: &Value, g: &Value, of: &ConvSpec, w: &Dims) -> Value {
    let spec = weight_grad_spec(of, &x.shape()[2..], &g.shape()[2..], &w[2..]);
    let mut dims = conv_dims(&spec);
    (dims.feature_group_count, dims.batch_group_count) = (1, of.groups);
    (dims.input_batch_dimension, dims.input_feature_dimension) = (1, 0);
    (dims.kernel_output_feature_dimension, dims.kernel_input_feature_dimension) = (1, 0);
    (dims.output_batch_dimension, dims.output_feature_dimension) = (1, 0);
    f.convolution(x, g, &dims)
}

/// The attributes of a convolution.
fn conv_dims(s: &ConvSpec) -> ConvDims {
    let mut dims = ConvDims::new(s.spatial);
    dims.window_strides = s.stride[..s.spatial].to_vec();
    dims.padding = s.pad[..s.spatial].to_vec();
    dims.lhs_dilation = s.x_dilation[..s.spatial].to_vec();
    dims.rhs_dilation = s.w_dilation[..s.spatial].to_vec();
    dims.window_reversal = vec![s.reverse; s.spatial];
    dims.feature_group_count = s.groups;
    dims
}

/// `stablehlo.convolution`.
fn plain(f: &mut Func, x: &Value, w: &Value, s: &ConvSpec) -> Value {
    if f.profile().reverses_windows {
        return f.convolution(x, w, &conv_dims(s));
    }
    let w = turned(f, w, s);
    f.convolution(x, &w, &conv_dims(&ConvSpec { reverse: false, ..*s }))
}

/// Whether the compiler should get products of matrices: XLA:CPU has no fast path for a convolution of `x` (spatial
/// sizes `input`) with a kernel of sizes `kernel`, or the weight is large and used at few positions.
fn as_matrices(
    profile: &Profile,
    s: &ConvSpec,
    x: &Value,
    input: &[usize],
    kernel: &[usize],
    w: &[usize],
    positions: usize,
) -> bool {
    let weights: usize = w.iter().product();
    let unfolded = weights / w[0].max(1) * positions;
    if !profile.unfolds_windows || s.groups != 1 || unfolded > MAX_UNFOLDED || weights == 0 || positions == 0 {
        return false;
    }
    let fast = matches!(x.element(), ElementType::F16 | ElementType::BF16 | ElementType::F32)
        && kernel.iter().zip(input).all(|(k, n)| k <= n);
    !fast || (weights >= LARGE_WEIGHT && positions <= w[0])
}

/// `w`, reversed if the convolution reads it backwards.
fn turned(f: &mut Func, w: &Value, s: &ConvSpec) -> Value {
    if !s.reverse {
        return w.clone();
    }
    let dims: Vec<usize> = (2..2 + s.spatial).collect();
    f.reverse(w, &dims)
}

/// The sizes with the first two exchanged.
fn exchanged(d: &[usize]) -> Vec<usize> {
    [d[1], d[0]].into_iter().chain(d[2..].iter().copied()).collect()
}

/// The value with its first two dimensions exchanged.
fn exchange(f: &mut Func, x: &Value) -> Value {
    let order: Vec<usize> = [1, 0].into_iter().chain(2..x.rank()).collect();
    f.transpose(x, &order)
}

fn dot(f: &mut Func, a: &Value, b: &Value, i: usize, j: usize) -> Value {
    f.dot_general(a, b, (&[], &[]), (&[i], &[j]), a.element(), None)
}

/// The windows of `x: [n, c, *s]`, one in each column: `[c * taps, n * positions]`. Dimensions are unfolded one after
/// the other, so that a kernel of `k` by `k` needs `2 k` slices.
fn unfold(f: &mut Func, x: &Value, s: &ConvSpec, k: &[usize], out: &[usize]) -> Value {
    let mut v = exchange(f, x);
    let (c, n) = (v.shape()[0], v.shape()[1]);
    let (mut low, mut high, mut interior) = (vec![0; v.rank()], vec![0; v.rank()], vec![0; v.rank()]);
    for d in 0..s.spatial {
        let needed = (out[d] - 1) * s.stride[d] + (k[d] - 1) * s.w_dilation[d] + 1;
        interior[2 + d] = s.x_dilation[d] as i64 - 1;
        low[2 + d] = s.pad[d].0;
        high[2 + d] = needed as i64 - s.pad[d].0 - spread(v.shape()[2 + d], s.x_dilation[d]) as i64;
    }
    let zero = f.scalar(0.0, v.element());
    v = f.pad(&v, &zero, &low, &high, &interior);
    for d in 0..s.spatial {
        // The dimensions at this point are channels, taps of the earlier dimensions, batch, positions of the earlier
        // dimensions, and the rest.
        let at = 2 + 2 * d;
        let taps: Vec<Value> = (0..k[d])
            .map(|tap| {
                let (mut start, mut limit, mut stride) = (vec![0; v.rank()], v.shape().to_vec(), vec![1; v.rank()]);
                start[at] = tap * s.w_dilation[d];
                limit[at] = start[at] + (out[d] - 1) * s.stride[d] + 1;
                stride[at] = s.stride[d];
                let part = f.slice(&v, &start, &limit, &stride);
                let mut shape = part.shape().to_vec();
                shape.insert(1 + d, 1);
                f.reshape(&part, &shape)
            })
            .collect();
        v = f.concatenate(&taps, 1 + d);
    }
    f.reshape(&v, &[c * k.iter().product::<usize>(), n * out.iter().product::<usize>()])
}

/// The sum over windows of the values that each position of `g: [n, o, *os]` adds to its window. It undoes [`unfold`]
/// after a product.
fn fold(f: &mut Func, g: &Value, w: &Value, s: &ConvSpec, x: &Dims) -> Value {
    let (n, out, k) = (g.shape()[0], g.shape()[2..].to_vec(), w.shape()[2..].to_vec());
    let last: Vec<usize> = [0].into_iter().chain(2..2 + s.spatial).chain([1]).collect();
    let rows = f.transpose(g, &last);
    let rows = f.reshape(&rows, &[n * out.iter().product::<usize>(), g.shape()[1]]);
    let matrix = f.reshape(w, &[w.shape()[0], w.shape()[1..].iter().product()]);
    let v = dot(f, &rows, &matrix, 1, 0);
    let shape: Vec<usize> = [n].into_iter().chain(out.iter().copied()).chain([x[1]]).chain(k.iter().copied()).collect();
    let mut v = f.reshape(&v, &shape);
    let zero = f.scalar(0.0, v.element());
    for d in (0..s.spatial).rev() {
        let last = v.rank() - 1;
        let reach = spread(x[2 + d], s.x_dilation[d]) as i64;
        let mut sum: Option<Value> = None;
        for tap in 0..k[d] {
            let part = f.slice_dim(&v, last, tap, tap + 1);
            let part = f.reshape(&part, &v.shape()[..last]);
            let (mut low, mut high, mut interior) = (vec![0; last], vec![0; last], vec![0; last]);
            low[1 + d] = (tap * s.w_dilation[d]) as i64 - s.pad[d].0;
            high[1 + d] = reach - low[1 + d] - spread(out[d], s.stride[d]) as i64;
            interior[1 + d] = s.stride[d] as i64 - 1;
            let part = f.pad(&part, &zero, &low, &high, &interior);
            sum = Some(match sum {
                Some(so_far) => f.binary("stablehlo.add", &so_far, &part),
                None => part,
            });
        }
        v = sum.expect("a kernel has a tap");
    }
    if s.x_dilation[..s.spatial].iter().any(|&d| d != 1) {
        let stride: Vec<usize> = [1].into_iter().chain(s.x_dilation[..s.spatial].iter().copied()).chain([1]).collect();
        v = f.slice(&v, &vec![0; v.rank()], v.shape(), &stride);
    }
    let order: Vec<usize> = [0, 1 + s.spatial].into_iter().chain(1..1 + s.spatial).collect();
    f.transpose(&v, &order)
}
