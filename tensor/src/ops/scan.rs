//! Running folds along a dimension: `Scan{kind}` and `CumExtreme`.

use crate::axes::Axes;
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values, normalize_dim};
use crate::ops::indexing::{Scatter, ScatterKind};
use crate::ops::pointwise::{self, kernel_error};
use crate::policy::{Policies, Policy};
use crate::schema::{Aliasing, Args, DTypeWithOut, Ret, Row, Sample, SampleArg, Tier, index, messages, n, positive, t};
use crate::{DType, Meta, Result, Scalar, Tensor, dispatch, samples};
use smallvec::smallvec;
use torchtpu_kernels::scan as kernels;
use torchtpu_stablehlo::{Direction, ElementType, ReduceKind, Type};

/// The function that a [`Scan`] folds with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScanKind {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// `ln` of the sum of exponentials, without overflow.
    LogSumExp,
}

/// Folds each element with all before it along a dimension.
///
/// Sums and products of integers and `bool` are computed and returned in `int64`. Dtypes narrower than `f32` accumulate
/// in `f32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scan {
    /// The function.
    pub kind: ScanKind,
    /// The dimension.
    pub dim: usize,
}

/// `x` moved by `by` along `dim`, away from the start, with `fill` (a scalar) in the free places.
fn shifted(f: &mut Func, x: &Value, fill: &Value, dim: usize, by: usize) -> Value {
    let (mut low, mut high) = (vec![0i64; x.rank()], vec![0i64; x.rank()]);
    (low[dim], high[dim]) = (by as i64, -(by as i64));
    f.pad(x, fill, &low, &high, &vec![0; x.rank()])
}

impl Op for Scan {
    const NAME: &'static str = "scan";
    fn label(&self) -> &'static str {
        match self.kind {
            ScanKind::Sum => "cumsum",
            ScanKind::Prod => "cumprod",
            ScanKind::LogSumExp => "logcumsumexp",
        }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let m = *x[0].meta();
        match self.kind {
            _ if m.dtype.is_inexact() => Ok(m),
            ScanKind::Sum | ScanKind::Prod => Ok(m.with_dtype(DType::I64)),
            ScanKind::LogSumExp => Err(crate::ops::complex::unsupported("logcumsumexp_out_cpu", m.dtype)),
        }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(1 << self.dim, x, y).linear(if self.kind == ScanKind::Sum { &[0b1] } else { &[] })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (x, out) = (x[0].view(), &mut y[0].view_mut());
        match self.kind {
            ScanKind::Sum => kernels::cumsum(&x, self.dim, out),
            ScanKind::Prod => kernels::cumprod(&x, self.dim, out),
            ScanKind::LogSumExp => kernels::logcumsumexp(&x, self.dim, out),
        }
        .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let e = crate::meta::element_type(y[0].dtype);
        let v = f.convert(&x[0], e);
        let kind = match self.kind {
            ScanKind::Sum => ReduceKind::Add,
            ScanKind::Prod => ReduceKind::Mul,
            ScanKind::LogSumExp => return smallvec![self.lower_log_sum_exp(f, &v)],
        };
        smallvec![f.cumulative(&v, kind, self.dim)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        if self.kind == ScanKind::Sum {
            return Ok(smallvec![Some(from_the_end(g, self.dim)?)]);
        }
        let is_narrow = s.meta(0).dtype.is_half();
        s.widely(g, |s, g| self.folded_vjp(s, g, is_narrow))
    }
    fn saves(&self, _: u64) -> Saves {
        if self.kind == ScanKind::Sum { Saves::NONE } else { Saves::both(1, 1) }
    }
}

impl Scan {
    /// The gradient of running products and of running sums of exponentials.
    fn folded_vjp(&self, s: &Saved<'_>, g: &Tensor, is_narrow: bool) -> Result<Grads> {
        let gx = match self.kind {
            ScanKind::Sum => from_the_end(g, self.dim)?,
            ScanKind::Prod => {
                // The products of 16-bit floats were rounded, and may be infinite.
                let y = if is_narrow { scan(ScanKind::Prod, s.x(0), self.dim)? } else { s.y(0).clone() };
                cumprod_vjp(&s.x(0).conj()?, &y.conj()?, g, self.dim)?
            }
            ScanKind::LogSumExp => {
                // The sum of `g_k e^(x - y_k)` over `k` from each element on. Positive and negative `g` are summed
                // separately, so that the sums stay logarithmic.
                let (x, y) = (s.x(0), s.y(0));
                if g.dtype().is_complex() {
                    // Logarithms of complex numbers can represent both signs.
                    let logs = g.conj()?.log()?.sub(y)?;
                    let d = [self.dim as i64];
                    let run = scan(ScanKind::LogSumExp, &crate::ops::concat::flip(&logs, &d)?, self.dim)?;
                    return Ok(smallvec![Some(crate::ops::concat::flip(&run, &d)?.add(x)?.exp()?.conj()?)]);
                }
                // Replace infinities, because their differences have no gradient.
                let one = Tensor::number(Scalar::Float(1.0), g.dtype())?;
                let log_g = pointwise::select(&g.eq_scalar(0.0)?, &one, &g.abs()?)?.log()?;
                let lowest = match g.dtype() {
                    DType::F64 => f64::MIN / 2.0,
                    _ => f32::MIN as f64 / 2.0,
                };
                let none = Tensor::number(Scalar::Float(lowest), g.dtype())?;
                let part = |sign: &Tensor| -> Result<Tensor> {
                    let logs = pointwise::select(sign, &log_g, &none)?.sub(y)?;
                    let d = [self.dim as i64];
                    let run = scan(ScanKind::LogSumExp, &crate::ops::concat::flip(&logs, &d)?, self.dim)?;
                    crate::ops::concat::flip(&run, &d)?.add(x)?.exp()
                };
                part(&g.gt_scalar(0.0)?)?.sub(&part(&g.lt_scalar(0.0)?)?)?
            }
        };
        Ok(smallvec![Some(gx)])
    }
}

impl Scan {
    /// Double the step each time: after step `i` each element holds the fold of the last `2^i`.
    fn lower_log_sum_exp(&self, f: &mut Func, x: &Value) -> Value {
        let e = x.element();
        // Narrow floats round once, at the end.
        if e.is_complex() {
            return self.lower_complex_log_sum_exp(f, x);
        }
        let wide = if e == ElementType::F64 { e } else { ElementType::F32 };
        let mut y = f.convert(x, wide);
        let none = f.lowest(wide);
        let mut by = 1;
        while by < x.shape()[self.dim] {
            let before = shifted(f, &y, &none, self.dim, by);
            let high = f.binary("stablehlo.maximum", &y, &before);
            let low = f.binary("stablehlo.minimum", &y, &before);
            let d = f.binary("stablehlo.subtract", &low, &high);
            let d = f.unary("stablehlo.exponential", &d);
            let d = f.unary("stablehlo.log_plus_one", &d);
            let sum = f.binary("stablehlo.add", &high, &d);
            // Infinities of one sign would give NaN when subtracted.
            let size = f.unary("stablehlo.abs", &high);
            let infinite = f.highest(wide);
            let infinite = f.broadcast_to(&infinite, size.shape());
            let same = f.compare(Direction::Eq, &size, &infinite);
            y = f.select(&same, &high, &sum);
            by *= 2;
        }
        f.convert(&y, e)
    }
}

impl Scan {
    /// The same for complex numbers, ordered by their real parts.
    fn lower_complex_log_sum_exp(&self, f: &mut Func, x: &Value) -> Value {
        let mut y = x.clone();
        let lowest = f.lowest(x.element().real_part());
        let zero = f.splat(0.0, lowest.ty());
        let none = f.binary("stablehlo.complex", &lowest, &zero);
        let mut by = 1;
        while by < x.shape()[self.dim] {
            let before = shifted(f, &y, &none, self.dim, by);
            let (a, b) = (f.unary("stablehlo.real", &y), f.unary("stablehlo.real", &before));
            let swap = f.compare(Direction::Lt, &a, &b);
            let high = f.select(&swap, &before, &y);
            let low = f.select(&swap, &y, &before);
            let size = f.unary("stablehlo.real", &low);
            let nothing = f.broadcast_to(&lowest, size.shape());
            let alone = f.compare(Direction::Eq, &size, &nothing);
            let d = f.binary("stablehlo.subtract", &low, &high);
            let d = f.unary("stablehlo.exponential", &d);
            let d = f.unary("stablehlo.log_plus_one", &d);
            let sum = f.binary("stablehlo.add", &high, &d);
            y = f.select(&alone, &high, &sum);
            by *= 2;
        }
        y
    }
}

/// Sums of each element and all after it.
fn from_the_end(g: &Tensor, dim: usize) -> Result<Tensor> {
    let d = [dim as i64];
    crate::ops::concat::flip(&scan(ScanKind::Sum, &crate::ops::concat::flip(g, &d)?, dim)?, &d)
}

/// Gradient of running products, which is also right if factors are zero. Before the first zero it is the sum of `g y`
/// from each element on, divided by `x`. At the first zero the products are computed without it. After it every product
/// contains a zero.
fn cumprod_vjp(x: &Tensor, y: &Tensor, g: &Tensor, dim: usize) -> Result<Tensor> {
    let one = Tensor::number(Scalar::Float(1.0), x.dtype())?;
    let zero = Tensor::number(Scalar::Float(0.0), x.dtype())?;
    let is_zero = x.eq_scalar(0.0)?;
    if crate::state::grad_enabled() && is_zero.sum()?.item()?.to_i64() > 0 {
        return cumprod_vjp_of_zeros(x, g, dim);
    }
    let zeros = scan(ScanKind::Sum, &is_zero, dim)?;
    let first = is_zero.logical_and(&zeros.eq_scalar(1)?)?;
    let before = from_the_end(&g.mul(y)?, dim)?.div(&pointwise::select(&is_zero, &one, x)?)?;
    let without = scan(ScanKind::Prod, &pointwise::select(&first, &one, x)?, dim)?;
    let at_first = from_the_end(&g.mul(&without)?, dim)?;
    pointwise::select(&zeros.eq_scalar(0)?, &before, &pointwise::select(&first, &at_first, &zero)?)
}

/// [`cumprod_vjp`] that can be differentiated at zeros: for each factor, the running products of the others. It needs
/// as many times the memory of `x` as there are factors.
fn cumprod_vjp_of_zeros(x: &Tensor, g: &Tensor, dim: usize) -> Result<Tensor> {
    let n = x.dims()[dim] as i64;
    let (x, g) = (x.movedim(&[dim as i64], &[-1])?, g.movedim(&[dim as i64], &[-1])?);
    let count = crate::ops::indexing::count_up(n as usize, x.place())?;
    let (factor, place) = (count.unsqueeze(1)?, count.unsqueeze(0)?);
    let one = Tensor::number(Scalar::Float(1.0), x.dtype())?;
    // Row `i` of the last two dimensions has a one instead of factor `i`.
    let others = pointwise::select(&factor.eq(&place)?, &one, &x.unsqueeze(-2)?)?;
    let products = scan(ScanKind::Prod, &others, others.dims().len() - 1)?;
    let zero = Tensor::number(Scalar::Float(0.0), x.dtype())?;
    let products = pointwise::select(&place.ge(&factor)?, &products, &zero)?;
    products.mul(&g.unsqueeze(-2)?)?.sum_dim(&[-1], false)?.movedim(&[-1], &[dim as i64])
}

/// The greatest (or least) of each element and all before it along a dimension, and its position in `int64`.
///
/// As in PyTorch, the last of equal elements is chosen, and after a NaN the last NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CumExtreme {
    /// Whether to choose the greatest; else the least.
    pub max: bool,
    /// The dimension.
    pub dim: usize,
}

impl Op for CumExtreme {
    const NAME: &'static str = "cum_extreme";
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    fn label(&self) -> &'static str {
        if self.max { "cummax" } else { "cummin" }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if x[0].dtype().is_complex() {
            return Err(crate::ops::complex::unsupported(&format!("{}_cpu", self.label()), x[0].dtype()));
        }
        Ok(*x[0].meta())
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dtype(DType::I64)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(1 << self.dim, x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let f = if self.max { kernels::cummax } else { kernels::cummin };
        f(&x[0].view(), self.dim, &mut y[0].view_mut(), &mut y[1].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let e = x[0].element();
        let at_type = Type::new(x[0].shape(), ElementType::S32);
        let (mut y, mut at) = (x[0].clone(), f.iota(&at_type, self.dim));
        let worst = if self.max { f.lowest(e) } else { f.highest(e) };
        let none = f.scalar_i64(0, ElementType::S32);
        let mut by = 1;
        while by < x[0].shape()[self.dim] {
            let (before, before_at) = (shifted(f, &y, &worst, self.dim, by), shifted(f, &at, &none, self.dim, by));
            let direction = if self.max { Direction::Ge } else { Direction::Le };
            let mut later = f.compare(direction, &y, &before);
            if e.is_float() {
                let earlier_is_number = f.compare(Direction::Eq, &before, &before);
                later = f.binary("stablehlo.and", &later, &earlier_is_number);
                let is_nan = f.compare(Direction::Ne, &y, &y);
                later = f.binary("stablehlo.or", &later, &is_nan);
            }
            y = f.select(&later, &y, &before);
            at = f.select(&later, &at, &before_at);
            by *= 2;
        }
        smallvec![y, f.convert(&at, ElementType::S64)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let op = Scatter { dim: self.dim, kind: ScatterKind::Add, include_self: true };
        let zeros = Tensor::zeros_like_meta(&s.meta(0).with_dtype(g.dtype()))?;
        Ok(smallvec![Some(dispatch::call(Prim::Scatter(op), &[&zeros, s.y(1), g])?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b10)
    }
}

fn scan(kind: ScanKind, x: &Tensor, dim: usize) -> Result<Tensor> {
    dispatch::call(Prim::Scan(Scan { kind, dim }), &[x])
}

/// [`Scan`] along a dimension and in a dtype from the user.
fn along(kind: ScanKind, x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    let x = match dtype {
        Some(d) => x.to_dtype(d)?,
        None => x.clone(),
    };
    let y = if x.dims().is_empty() { scan(kind, &x.unsqueeze(0)?, 0)?.squeeze(0)? } else { scan(kind, &x, dim)? };
    // Running sums wrap, so those of a narrow integer are the truncated wide ones.
    match dtype {
        Some(d) => y.to_dtype(d),
        None => Ok(y),
    }
}

/// `torch.cumsum`.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn cumsum(x: &Tensor, dim: i64) -> Result<Tensor> {
    along(ScanKind::Sum, x, dim, None)
}

/// `torch.cumprod`.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn cumprod(x: &Tensor, dim: i64) -> Result<Tensor> {
    along(ScanKind::Prod, x, dim, None)
}

/// `torch.logcumsumexp`.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for integers.
pub fn logcumsumexp(x: &Tensor, dim: i64) -> Result<Tensor> {
    along(ScanKind::LogSumExp, x, dim, None)
}

/// `torch.cummax` or `torch.cummin`: running extremes and their positions.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn cum_extreme(x: &Tensor, max: bool, dim: i64) -> Result<(Tensor, Tensor)> {
    let d = normalize_dim(dim, x.dims().len())?;
    let x1 = if x.dims().is_empty() { x.unsqueeze(0)? } else { x.clone() };
    let mut y = dispatch::call_n(Prim::CumExtreme(CumExtreme { max, dim: d }), &[&x1])?;
    let (at, values) = (y.pop().expect("two outputs"), y.pop().expect("two outputs"));
    if x.dims().is_empty() { Ok((values.squeeze(0)?, at.squeeze(0)?)) } else { Ok((values, at)) }
}

impl Tensor {
    /// Running sums along a dimension.
    ///
    /// # Errors
    /// `Index` for a dimension out of range.
    pub fn cumsum(&self, dim: i64) -> Result<Tensor> {
        cumsum(self, dim)
    }
    /// Running products along a dimension.
    ///
    /// # Errors
    /// `Index` for a dimension out of range.
    pub fn cumprod(&self, dim: i64) -> Result<Tensor> {
        cumprod(self, dim)
    }
}

fn running(kind: ScanKind, a: &Args<'_>) -> Result<Ret> {
    Ok(along(kind, a.tensor(0)?, a.int(1)?, a.opt_dtype(2)?)?.into())
}

/// The in-place form keeps the tensor's dtype.
fn running_(kind: ScanKind, a: &Args<'_>) -> Result<Ret> {
    let x = a.tensor(0)?;
    crate::inplace::apply(x, |v| along(kind, v, a.int(1)?, Some(x.dtype())))?;
    Ok(Ret::Tensor(x.clone()))
}

const MIXED: &[DType] = &[DType::F64, DType::I64, DType::I32, DType::U8, DType::Bool, DType::BF16];

fn running_samples() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[3, 4]), n(0)]).dtypes(MIXED),
        Sample::new(vec![t(&[2, 3, 4]), n(-1)]),
        Sample::new(vec![SampleArg::Transposed(vec![3, 4], crate::schema::Fill::Normal), n(1)]),
        Sample::new(vec![t(&[0, 3]), n(0)]),
        Sample::new(vec![t(&[]), n(0)]),
    ]
}
fn extreme_samples() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[3, 4]), n(0)]).dtypes(&[DType::F64, DType::I64, DType::U8]),
        Sample::new(vec![t(&[2, 7]), n(-1)]),
        Sample::new(vec![index(&[2, 7], 3), n(1)]).no_gradient(),
        Sample::new(vec![t(&[]), n(0)]),
    ]
}

/// Rows of the running folds.
pub const ROWS: &[Row] = &[
    Row::new(
        "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        Tier::Prim,
        |a| running(ScanKind::Sum, a),
        running_samples,
    )
    .doc(
        "Return the running sums of `input` along `dim`: element `i` is the sum of the elements up to `i`. `dtype` \
         is the dtype to convert to first; otherwise integers and `bool` are summed in `int64`. The in-place form \
         keeps the dtype of the tensor.",
    )
    .inplace_by(|a| running_(ScanKind::Sum, a))
    .out_aliasing(Aliasing::InStep)
    .dtype_with_out(DTypeWithOut::FollowsOut(messages::expected_out))
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        Tier::Prim,
        |a| running(ScanKind::Prod, a),
        running_samples,
    )
    .doc(
        "Return the running products of `input` along `dim`: element `i` is the product of the elements up to `i`. \
         `dtype` is the dtype to convert to first; otherwise integers and `bool` are multiplied in `int64`. The \
         in-place form keeps the dtype of the tensor.",
    )
    .inplace_by(|a| running_(ScanKind::Prod, a))
    .out_aliasing(Aliasing::InStep)
    .dtype_with_out(DTypeWithOut::FollowsOut(messages::expected_out))
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "logcumsumexp(Tensor self, int dim) -> Tensor",
        Tier::Prim,
        |a| Ok(logcumsumexp(a.tensor(0)?, a.int(1)?)?.into()),
        samples!([t(&[3, 4]), n(0)], [positive(&[2, 5]), n(-1)], [t(&[]), n(0)]),
    )
    .doc(
        "Return the running `log(sum(e^input))` along `dim`, without overflow. Only floating-point and complex \
         tensors are allowed.",
    )
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        Tier::Prim,
        |a| Ok(cum_extreme(a.tensor(0)?, true, a.int(1)?)?.into()),
        extreme_samples,
    )
    .doc(
        "Return `(values, indices)`, the greatest of the elements of `input` up to each position along `dim`, and \
         where it stands. Of equal elements the last is taken; from a NaN on all values are NaN. Complex tensors are \
         refused.",
    )
    .fields(&["values", "indices"]),
    Row::new(
        "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        Tier::Prim,
        |a| Ok(cum_extreme(a.tensor(0)?, false, a.int(1)?)?.into()),
        extreme_samples,
    )
    .doc(
        "Return `(values, indices)`, the smallest of the elements of `input` up to each position along `dim`, and \
         where it stands. Of equal elements the last is taken; from a NaN on all values are NaN. Complex tensors are \
         refused.",
    )
    .fields(&["values", "indices"]),
];
