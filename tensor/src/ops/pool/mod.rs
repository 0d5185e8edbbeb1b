//! Pooling over one to three spatial dimensions, for fixed and for adaptive windows.

mod average;
mod fixed;
mod fractional;
mod max;

pub(crate) use average::contract;
pub use average::{AvgPool, AvgPoolBackward};
pub use fractional::ROWS as FRACTIONAL_ROWS;
pub use max::{MaxPool, MaxPoolBackward};
pub(crate) use max::{MaxPoolBackwardCall, MaxPoolCall};

use fixed::Fixed;

use crate::op::{Func, Prim, Value, check_same_device};
use crate::policy::{Policies, Policy};
use crate::schema::{Args, Row, Sample, Scope, Tier, index, ints, n, t};
use crate::types::compute::expect_float;
use crate::{DType, Dims, Error, Result, Tensor, dispatch, samples};
use torchtpu_kernels::pool::PoolSpec;
use torchtpu_stablehlo::{ElementType, Type};

/// The windows of a pooling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Windows {
    /// Sizes, steps and padding. For adaptive windows only the number of dimensions counts.
    pub spec: PoolSpec,
    /// Sizes of the output; entries from `spatial` on are ignored.
    pub out: [usize; 3],
    /// Whether windows divide each dimension as evenly as possible.
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
    /// An adaptive pooling whose windows are all alike is an ordinary one. The lowerings check for that first.
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

/// Starts and ends of the windows along one dimension, each `[out]`. For fixed windows the end includes padding.
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
    // If the output's size is rounded up, a window may reach beyond the padding.
    let end = int(f, "stablehlo.minimum", &end, (input + w.spec.pad[d]) as i64);
    (start, end)
}

fn label(w: &Windows, fixed: [&'static str; 3], adaptive: [&'static str; 3]) -> &'static str {
    (if w.adaptive { adaptive } else { fixed })[w.spatial() - 1]
}

/// A vector along spatial dimension `d`, broadcast over the whole output.
fn along(f: &mut Func, v: &Value, out: &[usize], spatial: usize, d: usize) -> Value {
    f.broadcast_in_dim(v, out, &[out.len() - spatial + d])
}

/// Refuse a tensor that is not `[n, c, *s]` or `[c, *s]`, or that has a size of zero other than the first.
fn check_input(x: &Tensor, spatial: usize, name: &str) -> Result<()> {
    let d = x.dims();
    if d.len() == spatial + 1 || d.len() == spatial + 2 {
        return match (1..d.len()).find(|&i| d[i] == 0) {
            None => Ok(()),
            Some(i) => Err(Error::runtime(format!(
                "{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {d} with \
                dimension {i} being empty"
            ))),
        };
    }
    Err(Error::runtime(format!(
        "{name}(): Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got: {d}",
        spatial + 1,
        spatial + 2
    )))
}

/// Windows of an adaptive pooling. A missing size keeps the input's.
fn adaptive(x: &Tensor, sizes: &[i64], spatial: usize, name: &str) -> Result<Windows> {
    check_input(x, spatial, name)?;
    if sizes.len() != 1 && sizes.len() != spatial {
        return Err(Error::runtime(match spatial {
            1 => format!("{name}() argument 'output_size' should contain one int (got {})", sizes.len()),
            _ if name.contains("max") => format!("{name}(): internal error: output_size.size() must be {spatial}"),
            _ => format!("{name}: output_size must be {spatial}"),
        }));
    }
    let mut w = Windows {
        spec: PoolSpec { spatial, kernel: [1; 3], stride: [1; 3], pad: [0; 3], dilation: [1; 3] },
        out: [1; 3],
        adaptive: true,
    };
    for d in 0..spatial {
        let n = sizes[if sizes.len() == 1 { 0 } else { d }];
        w.out[d] = usize::try_from(n).map_err(|_| {
            let wanted = || (0..spatial).map(|d| sizes[if sizes.len() == 1 { 0 } else { d }]);
            let flat = (spatial == 1).then_some(1);
            if name.contains("max") {
                let lead = x.dims()[..x.dims().len() - spatial].iter().map(|&n| n as i64);
                let all: Vec<i64> = lead.chain(flat).chain(wanted()).collect();
                return Error::runtime(format!("Trying to create tensor with negative dimension {n}: {all:?}"));
            }
            let all: Vec<String> = flat.into_iter().chain(wanted()).map(|n| n.to_string()).collect();
            let name = if spatial == 1 { "adaptive_avg_pool2d" } else { name };
            let all = all.join(", ");
            Error::runtime(format!(
                "{name}: elements of output_size must be greater than or equal to 0 but received {{{all}}}"
            ))
        })?;
    }
    Ok(w)
}

fn max_pool(w: Windows, x: &Tensor) -> Result<(Tensor, Tensor)> {
    if x.dtype().is_int() {
        // The result is exact below 2^53.
        let y = dispatch::call_n(Prim::MaxPool(Box::new(MaxPool(w))), &[&x.to_dtype(DType::F64)?])?;
        return Ok((y[0].to_dtype(x.dtype())?, y[1].clone()));
    }
    let y = dispatch::call_n(Prim::MaxPool(Box::new(MaxPool(w))), &[x])?;
    Ok((y[0].clone(), y[1].clone()))
}

/// Only `torch.max_pool1d` checks its arguments before all other functions do.
fn checked_max(a: &Args<'_>, spatial: usize, name: &'static str) -> Result<Tensor> {
    if spatial == 1 {
        fixed::check_max_pool1d(a)?;
    }
    Ok(fixed_max(a, spatial, name)?.0)
}

fn fixed_max(a: &Args<'_>, spatial: usize, name: &'static str) -> Result<(Tensor, Tensor)> {
    let p = Fixed {
        name,
        of_max: true,
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
    let p = Fixed {
        name,
        of_max: false,
        kernel: a.ints(1)?,
        stride: a.ints(2)?,
        padding: a.ints(3)?,
        dilation: &[1],
        ceil: a.bool(4)?,
    };
    let x = a.tensor(0)?;
    let divisor = if spatial > 1 { a.opt_int(6)? } else { None };
    if divisor == Some(0) {
        return Err(Error::runtime("divisor must be not zero"));
    }
    let op = AvgPool { windows: p.windows(x, spatial)?, count_include_pad: a.bool(5)?, divisor };
    if x.dtype() == DType::I64 {
        // Whole numbers are divided towards zero. The result is exact as long as sums stay below 2^53.
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

/// Gradient of a max pooling from the positions of the maxima.
fn max_backward(a: &Args<'_>, spatial: usize, name: &'static str) -> Result<Tensor> {
    let (g, x, at) = (a.tensor(0)?, a.tensor(1)?, a.tensor(7)?);
    check_same_device(x, g)?;
    check_same_device(x, at)?;
    let p = Fixed {
        name,
        of_max: true,
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
    let gx = if x.place().has_handle() {
        // The op's lowering finds the maxima in x again, but here the given positions count.
        let lead = x.dims().len() - spatial;
        let flat = |d: &Dims| -> Dims { d[..lead].iter().copied().chain([d[lead..].iter().product()]).collect() };
        let zeros = Tensor::zeros_like_meta(&x.meta().with_dims(flat(x.dims())))?;
        let (g, at) = (g.reshape_dims(flat(g.dims()))?, at.reshape_dims(flat(at.dims()))?);
        crate::ops::indexing::scatter_add(&zeros, lead as i64, &at, &g)?.reshape_dims(*x.dims())?
    } else {
        dispatch::call(Prim::MaxPoolBackward(Box::new(MaxPoolBackward(w))), &[g, &x.detach(), at])?
    };
    crate::ops::pointwise::independent_of(x, gx)
}

/// Rows of gradients that may be called directly.
pub const BACKWARD_ROWS: &[Row] = &[
    Row::new(
        "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, \
        int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
        Tier::Prim,
        |a| Ok(max_backward(a, 2, "max_pool2d_with_indices_backward")?.into()),
        || {
            vec![
                Sample::new(vec![
                    t(&[1, 2, 1, 1]),
                    t(&[1, 2, 4, 4]),
                    ints(&[4, 4]),
                    ints(&[4, 4]),
                    ints(&[0, 0]),
                    ints(&[1, 1]),
                    n(false),
                    index(&[1, 2, 1, 1], 16),
                ])
                .no_gradient(),
            ]
        },
    )
    .doc(
        "Return the gradient of `torch.max_pool2d` for its input: `grad_output` added at the positions `indices` of \
         zeros shaped like `input`.",
    )
    .scope(Scope::Aten),
    Row::new(
        "max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, \
        int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor",
        Tier::Prim,
        |a| Ok(max_backward(a, 3, "max_pool3d_with_indices_backward")?.into()),
        || {
            vec![
                Sample::new(vec![
                    t(&[1, 2, 1, 1, 1]),
                    t(&[1, 2, 2, 4, 4]),
                    ints(&[2, 4, 4]),
                    ints(&[2, 4, 4]),
                    ints(&[0, 0, 0]),
                    ints(&[1, 1, 1]),
                    n(false),
                    index(&[1, 2, 1, 1, 1], 32),
                ])
                .no_gradient(),
            ]
        },
    )
    .doc(
        "Return the gradient of `torch.max_pool3d` for its input: zeros in the shape of the volumes, plus \
         `grad_output` where `indices` says.",
    )
    .scope(Scope::Aten),
];

macro_rules! pool_rows {
    ($($spatial:literal $x:expr, $scope1:expr, $scope:expr, $autocast:expr,
       $max:literal $max_schema:literal $max_doc:literal $max_indices:literal $indices_doc:literal
       $avg:literal $avg_schema:literal $avg_doc:literal
       $adaptive_avg:literal $adaptive_avg_schema:literal $adaptive_avg_doc:literal
       $adaptive_max:literal $adaptive_max_schema:literal $adaptive_max_doc:literal;)*) => {
        /// Rows of the poolings.
        pub const ROWS: &[Row] = &[$(
            Row::new($max_schema, Tier::Prim, |a| Ok(checked_max(a, $spatial, $max)?.into()),
                samples!([t($x), ints(&[2; $spatial])],
                    [t($x), ints(&[3; $spatial]), ints(&[2; $spatial]), ints(&[1; $spatial])],
                    [t(&$x[1..]), ints(&[2; $spatial]), ints(&[1; $spatial]), ints(&[0; $spatial]),
                        ints(&[2; $spatial])], [t($x), ints(&[2; $spatial]), ints(&[2; $spatial]),
                        ints(&[1; $spatial]), ints(&[1; $spatial]), n(true)]))
            .doc($max_doc)
            .scope(Scope::Function).autocast($autocast),
            Row::new($max_indices, Tier::Prim, |a| Ok(fixed_max(a, $spatial, $max)?.into()),
                samples!([t($x), ints(&[2; $spatial])]))
            .doc($indices_doc)
            .scope($scope1),
            Row::new($avg_schema, Tier::Prim, |a| Ok(fixed_avg(a, $spatial, $avg)?.into()),
                samples!([t($x), ints(&[2; $spatial])],
                    [t($x), ints(&[3; $spatial]), ints(&[2; $spatial]), ints(&[1; $spatial]), n(true), n(false)],
                    [t(&$x[1..]), ints(&[3; $spatial]), ints(&[1; $spatial]), ints(&[1; $spatial])]))
            .doc($avg_doc)
            .scope($scope).autocast($autocast),
            Row::new($adaptive_avg_schema, Tier::Prim, |a| Ok(adaptive_avg(a, $spatial, $adaptive_avg)?.into()),
                samples!([t($x), ints(&[2; $spatial])], [t($x), ints(&[1; $spatial])],
                    [t(&$x[1..]), ints(&[3; $spatial])]))
            .doc($adaptive_avg_doc)
            .scope($scope).autocast($autocast),
            Row::new($adaptive_max_schema, Tier::Prim, |a| Ok(adaptive_max(a, $spatial, $adaptive_max)?.into()),
                samples!([t($x), ints(&[2; $spatial])], [t($x), ints(&[1; $spatial])]))
            .doc($adaptive_max_doc)
            .scope($scope).autocast($autocast),
        )*];
    };
}

pool_rows! {
    1 &[2, 3, 5], Scope::Function, Scope::Function, Policies::NONE,
        "max_pool1d" "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] \
            dilation=1, bool ceil_mode=False) -> Tensor"
        "Return the largest element of each window of `input` `(n, c, l)` or `(c, l)`. The result has `(l + 2 * \
         padding - dilation * (kernel_size - 1) - 1) // stride + 1` elements for each channel. `stride` is \
         `kernel_size` unless given. `ceil_mode` rounds the quotient up, but leaves out a window that would start in \
         the padding at the end. `padding` is at most half of `kernel_size` and never wins; NaN wins over every \
         number."
        "max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] \
        dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"
        "Return the result of `torch.max_pool1d` and, as `int64`, the position in `input` of each maximum along the \
         last dimension. Of equal elements the first one counts."
        "avg_pool1d" "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool \
            ceil_mode=False, bool count_include_pad=True) -> Tensor"
        "Return the mean of each window of `input` `(n, c, l)` or `(c, l)`. The result has `(l + 2 * padding - \
         kernel_size) // stride + 1` elements for each channel, and `ceil_mode` rounds the quotient up. `stride` is \
         `kernel_size` unless given. Sums are divided by the number of elements in the window, with the padding among \
         them unless `count_include_pad=False`. Floating point, or `int64`, which is divided towards zero."
        "adaptive_avg_pool1d" "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor"
        "Return `output_size` means over windows that cover `input` `(n, c, l)` or `(c, l)`. Window `i` reaches from \
         `floor(i * l / output_size)` to `ceil((i + 1) * l / output_size)`, so windows may overlap. Floating point."
        "adaptive_max_pool1d" "adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)"
        "Return `output_size` maxima over windows that cover `input` `(n, c, l)` or `(c, l)`, and their positions as \
         `int64`. The windows are those of `torch.adaptive_avg_pool1d`.";
    2 &[2, 2, 5, 4], Scope::Nn, Scope::Nn, Policies::NONE,
        "max_pool2d" "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] \
            dilation=1, bool ceil_mode=False) -> Tensor"
        "Return the largest element of each window of `input` `(n, c, h, w)` or `(c, h, w)`. Height and width of the \
         result follow the formula of `torch.max_pool1d`. `kernel_size`, `stride` (which is `kernel_size` unless \
         given), `padding` and `dilation` are numbers or pairs `(height, width)`. The gradient goes to the first of \
         equal maxima."
        "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] \
        dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"
        "Return the result of `torch.max_pool2d` and, as `int64`, the place of each maximum in its plane, `row * w + \
         column`. These are the indices that `torch.nn.functional.max_unpool2d` takes."
        "avg_pool2d" "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool \
            ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"
        "Return the mean of each window of `input` `(n, c, h, w)` or `(c, h, w)`. Height and width of the result \
         follow the formula of `torch.avg_pool1d`. `divisor_override`, which is not 0, divides all sums. Else the \
         divisor is the number of pixels in the window, with the padding among them unless `count_include_pad=False`. \
         Floating point, or `int64`, which is divided towards zero."
        "adaptive_avg_pool2d" "adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"
        "Return means over `output_size=(h', w')` windows that cover `input` `(n, c, h, w)` or `(c, h, w)`. Along \
         each dimension the windows are those of `torch.adaptive_avg_pool1d`. One number stands for both sizes."
        "adaptive_max_pool2d" "adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"
        "Return maxima over `output_size=(h', w')` windows that cover `input` `(n, c, h, w)` or `(c, h, w)`, and \
         their flat positions in each plane as `int64`. The windows are those of \
         `torch.nn.functional.adaptive_avg_pool2d`.";
    3 &[1, 2, 4, 3, 4], Scope::Nn, Scope::Nn, Policies::cpu(Policy::Full),
        "max_pool3d" "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] \
            dilation=1, bool ceil_mode=False) -> Tensor"
        "Return the largest element of each window of `input` `(n, c, d, h, w)` or `(c, d, h, w)`. Depth, height and \
         width of the result follow the formula of `torch.max_pool1d`. All sizes are numbers or triples `(depth, \
         height, width)`."
        "max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] \
        dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"
        "Return the result of `torch.max_pool3d` and, as `int64`, the flat position of each maximum in its volume. \
         These are the indices that `torch.nn.functional.max_unpool3d` takes."
        "avg_pool3d" "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool \
            ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"
        "Return the mean of each window of `input` `(n, c, d, h, w)` or `(c, d, h, w)`. Depth, height and width of \
         the result follow the formula of `torch.avg_pool1d`. `divisor_override`, which is not 0, divides all sums. \
         Else the divisor is the number of voxels in the window, with the padding among them unless \
         `count_include_pad=False`."
        "adaptive_avg_pool3d" "adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"
        "Return means over `output_size=(d', h', w')` windows that cover `input` `(n, c, d, h, w)` or `(c, d, h, w)`. \
         Along each dimension the windows are those of `torch.adaptive_avg_pool1d`. One number stands for all three \
         sizes."
        "adaptive_max_pool3d" "adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)"
        "Return maxima over `output_size=(d', h', w')` windows that cover `input` `(n, c, d, h, w)` or `(c, d, h, \
         w)`, and their flat positions in each volume as `int64`. The windows are those of \
         `torch.nn.functional.adaptive_avg_pool3d`.";
}
