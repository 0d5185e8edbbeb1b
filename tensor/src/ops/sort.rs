//! Order along a dimension: `Sort`, `TopK`, `Pick` (k-th value, medians), and sets, searches and counts made with them.
//!
//! NaN counts as the greatest value. The number of results of `unique` and `bincount` depends on the values, so that on
//! `tpu` the host reads them, which cuts the trace; `histc` reads them too.

use crate::axes::Axes;
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values, normalize_dim};
use crate::ops::complex::refuse;
use crate::ops::indexing::{self, Scatter, ScatterKind};
use crate::ops::pointwise::kernel_error;
use crate::ops::reduce::{ReduceKind, reduce};
use crate::schema::{
    Aliasing, Args, Operand, OutDType, Ret, Row, Sample, SampleArg, Scope, Tier, index, messages, n, t,
};
use crate::{
    DType, Device, DeviceKind, Dims, Error, ErrorKind, Meta, Result, Scalar, Tensor, dispatch, promote_types, samples,
};
use smallvec::smallvec;
use torchtpu_kernels::{memory, sort as kernels};
use torchtpu_stablehlo::{self as hlo, Direction, ElementType, Type};

/// The gradient of an op that picks elements: each goes back to the position it came from.
fn scatter_back(s: &Saved<'_>, g: &Tensor, dim: usize) -> Result<Grads> {
    let op = Scatter { dim, kind: ScatterKind::Add, include_self: true };
    let zeros = Tensor::zeros_like_meta(&s.meta(0).with_dtype(g.dtype()))?;
    Ok(smallvec![Some(dispatch::call(Prim::Scatter(op), &[&zeros, s.y(1), g])?)])
}

/// `x` and its positions along `dim`, sorted.
fn lower_sort(f: &mut Func, x: &Value, dim: usize, descending: bool) -> (Value, Value) {
    let at = f.iota(&Type::new(x.shape(), ElementType::S32), dim);
    let mut sorted = f.sort(&[x.clone(), at], dim, descending, true);
    let at = sorted.pop().expect("two operands");
    (sorted.pop().expect("two operands"), at)
}

/// Sorts along a dimension: the values, and the positions in `int64` that they came from. Equals keep their order,
/// whether that was asked for or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sort {
    /// Which dimension.
    pub dim: usize,
    /// Greatest first.
    pub descending: bool,
    /// Whether the order of equals was asked for.
    pub stable: bool,
}

impl Op for Sort {
    const NAME: &'static str = "sort";
    const STRIDES: crate::op::Strides = crate::op::Strides::Like;
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        refuse(x[0], ErrorKind::Type, " Sort does not support complex dtypes on CPU")?;
        Ok(*x[0].meta())
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dtype(DType::I64)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(1 << self.dim, x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::sort(&x[0].view(), self.dim, self.descending, self.stable, &mut y[0].view_mut(), &mut y[1].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let (values, at) = lower_sort(f, &x[0], self.dim, self.descending);
        smallvec![values, f.convert(&at, ElementType::S64)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        scatter_back(s, g, self.dim)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b10)
    }
}

/// The `k` greatest or least along a dimension, which then has size `k`, and their positions in `int64`.
///
/// C1: `k` is at most the dimension's size. Which of equals is taken, and the order without `sorted`, is PyTorch's on
/// `cpu`; on a device the first is, and the result is always sorted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TopK {
    /// How many.
    pub k: usize,
    /// Which dimension.
    pub dim: usize,
    /// Greatest, else least.
    pub largest: bool,
    /// Whether the order was asked for.
    pub sorted: bool,
}

impl Op for TopK {
    const NAME: &'static str = "topk";
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        refuse(x[0], ErrorKind::Type, " topk does not support complex dtypes on CPU")?;
        if x[0].dtype() == DType::Bool {
            return Err(Error::not_implemented("topk does not support bool dtypes on CPU"));
        }
        let mut m = *x[0].meta();
        if self.k > m.dims[self.dim] {
            return Err(Error::runtime("selected index k out of range")); // C1
        }
        m.dims.set(self.dim, self.k);
        Ok(m)
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dtype(DType::I64)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(1 << self.dim, x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (values, at) = (&mut y[0].view_mut(), &mut y[1].view_mut());
        kernels::topk(&x[0].view(), self.k, self.dim, self.largest, self.sorted, values, at).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let last = x[0].rank() - 1;
        if self.largest && x[0].element() != ElementType::Pred && x[0].ty().numel() > 0 {
            let mut order: Vec<usize> = (0..=last).collect();
            order.swap(self.dim, last);
            let moved = f.transpose(&x[0], &order);
            let (values, at) = f.top_k(&moved, self.k);
            return smallvec![f.transpose(&values, &order), f.transpose(&at, &order)];
        }
        let (values, at) = lower_sort(f, &x[0], self.dim, self.largest);
        let at = f.convert(&at, ElementType::S64);
        smallvec![f.slice_dim(&values, self.dim, 0, self.k), f.slice_dim(&at, self.dim, 0, self.k)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        scatter_back(s, g, self.dim)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b10)
    }
}

/// Which element of the sorted row a [`Pick`] takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PickKind {
    /// The k-th, counted from 1.
    Kth(usize),
    /// The lower median; a row with NaN gives its first NaN.
    Median,
    /// The lower median of what is not NaN.
    NanMedian,
}

/// One element of each row by its rank, and its position in `int64`; the dimension keeps size one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pick {
    /// Which rank.
    pub kind: PickKind,
    /// Which dimension.
    pub dim: usize,
}

impl Op for Pick {
    const NAME: &'static str = "pick";
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    fn label(&self) -> &'static str {
        match self.kind {
            PickKind::Kth(_) => "kthvalue",
            PickKind::Median => "median",
            PickKind::NanMedian => "nanmedian",
        }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let mut m = *x[0].meta();
        if m.dtype.is_complex() {
            return Err(crate::ops::complex::unsupported(&format!("{}_cpu", self.label()), m.dtype));
        }
        let size = m.dims[self.dim];
        match self.kind {
            PickKind::Kth(k) if k == 0 || k > size => {
                return Err(Error::runtime(format!(
                    "kthvalue(): selected number k out of range for dimension {}",
                    self.dim
                )));
            }
            PickKind::Median | PickKind::NanMedian if size == 0 => {
                return Err(Error::index(format!(
                    "{}(): Expected reduction dim {} to have non-zero size.",
                    self.label(),
                    self.dim
                )));
            }
            _ => {}
        }
        m.dims.set(self.dim, 1);
        Ok(m)
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        first.with_dtype(DType::I64)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(1 << self.dim, x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (x, values, at) = (x[0].view(), &mut y[0].view_mut(), &mut y[1].view_mut());
        match self.kind {
            PickKind::Kth(k) => kernels::kthvalue(&x, k, self.dim, values, at),
            PickKind::Median => kernels::median(&x, self.dim, false, values, at),
            PickKind::NanMedian => kernels::median(&x, self.dim, true, values, at),
        }
        .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let (d, size) = (self.dim, x[0].shape()[self.dim]);
        let (values, at) = lower_sort(f, &x[0], d, false);
        let at = f.convert(&at, ElementType::S64);
        let fixed = match self.kind {
            PickKind::Kth(k) => Some(k - 1),
            _ if !x[0].element().is_float() => Some((size - 1) / 2),
            _ => None,
        };
        if let Some(i) = fixed {
            return smallvec![f.slice_dim(&values, d, i, i + 1), f.slice_dim(&at, d, i, i + 1)];
        }
        // NaN stand at the end: how many there are says where to look.
        let is_nan = f.compare(Direction::Ne, &values, &values);
        let ones = f.convert(&is_nan, ElementType::S32);
        let count = f.reduce(&ones, hlo::ReduceKind::Add, &[d]);
        let mut shape = x[0].shape().to_vec();
        shape[d] = 1;
        let count = f.reshape(&count, &shape);
        let splat = |f: &mut Func, v: usize| f.splat_i64(v as i64, &Type::new(&shape, ElementType::S32));
        let all = splat(f, size);
        let numbers = f.binary("stablehlo.subtract", &all, &count);
        let zero = splat(f, 0);
        let place = if self.kind == PickKind::Median {
            let any = f.compare(Direction::Gt, &count, &zero);
            let middle = splat(f, (size - 1) / 2);
            f.select(&any, &numbers, &middle)
        } else {
            let (one, two) = (splat(f, 1), splat(f, 2));
            let last = f.binary("stablehlo.subtract", &numbers, &one);
            let last = f.binary("stablehlo.maximum", &last, &zero);
            f.binary("stablehlo.divide", &last, &two)
        };
        smallvec![f.take_along(&values, &place, d), f.take_along(&at, &place, d)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        scatter_back(s, g, self.dim)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::outputs(0b10)
    }
}

/// Runs an op with values and positions along a dimension; a tensor without dimensions counts as one of one element.
fn pair(x: &Tensor, op: Prim) -> Result<(Tensor, Tensor)> {
    let flat = if x.dims().is_empty() { x.unsqueeze(0)? } else { x.clone() };
    let mut y = dispatch::call_n(op, &[&flat])?;
    let (at, values) = (y.pop().expect("two outputs"), y.pop().expect("two outputs"));
    if x.dims().is_empty() && values.numel() == 1 { Ok((values.squeeze(0)?, at.squeeze(0)?)) } else { Ok((values, at)) }
}

/// `torch.sort`: values and positions.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn sort(x: &Tensor, dim: i64, descending: bool, stable: bool) -> Result<(Tensor, Tensor)> {
    let dim = normalize_dim(dim, x.dims().len())?;
    pair(x, Prim::Sort(Sort { dim, descending, stable }))
}

/// `torch.topk`: values and positions.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` when there are fewer than `k` elements.
pub fn topk(x: &Tensor, k: i64, dim: i64, largest: bool, sorted: bool) -> Result<(Tensor, Tensor)> {
    let dim = normalize_dim(dim, x.dims().len())?;
    let size = x.dims().get(dim).copied().unwrap_or(1);
    if k < 0 || k as usize > size {
        return Err(Error::runtime("selected index k out of range").in_op("topk"));
    }
    pair(x, Prim::TopK(TopK { k: k as usize, dim, largest, sorted }))
}

fn pick(x: &Tensor, kind: PickKind, dim: i64, keep: bool) -> Result<(Tensor, Tensor)> {
    let d = normalize_dim(dim, x.dims().len())?;
    if matches!(kind, PickKind::Median | PickKind::NanMedian) {
        refuse_bool(x, "median_out")?;
    }
    let (values, at) = pair(x, Prim::Pick(Pick { kind, dim: d }))?;
    if keep || x.dims().is_empty() { Ok((values, at)) } else { Ok((values.squeeze(d as i64)?, at.squeeze(d as i64)?)) }
}

fn refuse_bool(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype() == DType::Bool { Err(crate::ops::complex::unsupported(name, DType::Bool)) } else { Ok(()) }
}

fn kthvalue(x: &Tensor, k: i64, dim: i64, keep: bool) -> Result<(Tensor, Tensor)> {
    refuse_bool(x, "kthvalue_cpu")?;
    pick(x, PickKind::Kth(k.max(0) as usize), dim, keep)
}

/// The median of all elements; NaN of none.
fn median_of_all(x: &Tensor, kind: PickKind) -> Result<Tensor> {
    refuse_bool(x, "median_cpu")?;
    if x.numel() == 0 {
        let missing = if x.dtype().is_inexact() { Scalar::Float(f64::NAN) } else { Scalar::Int(i64::MIN) };
        return Tensor::full_meta(&x.meta().with_dims(Dims::EMPTY), missing);
    }
    let flat = x.reshape(&[-1])?;
    if !(crate::state::grad_enabled() && x.requires_grad()) {
        return Ok(pick(&flat, kind, 0, false)?.0);
    }
    // Elements that are equal share the gradient, as those of a maximum do.
    let hit = crate::no_grad(|| crate::ops::reduce::equal_or_nan(&flat, &pick(&flat, kind, 0, false)?.0))?;
    let lowest = Tensor::number(Scalar::Float(f64::NEG_INFINITY), x.dtype())?;
    crate::ops::pointwise::select(&hit, &flat, &lowest)?.amax(&[0], false)
}

// ------------------------------------------------------------------------------------------------ sets and searches

/// A plain copy of the values where kernels can read them.
fn host(x: &Tensor) -> Result<Tensor> {
    if x.device().kind == DeviceKind::Meta {
        return Err(Error::not_implemented(
            "the result of this function depends on values, which a meta tensor has not",
        ));
    }
    x.detach().to_device(Device::CPU)?.resolved()
}

fn positions(v: &[i64], dims: &[usize], device: Device) -> Result<Tensor> {
    Tensor::from_slice_on(v, dims, device)
}

fn found(x: &Tensor, u: &kernels::Unique, inverse: bool, counts: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let at = positions(&u.first, &[u.first.len()], x.device())?;
    let values =
        dispatch::call(Prim::IndexSelect(indexing::IndexSelect { dim: 0 }), &[&x.detach().reshape(&[-1])?, &at])?;
    let list = |on: bool, v: &[i64], dims: &[usize]| {
        if on { positions(v, dims, x.device()) } else { positions(&[], &[0], x.device()) }
    };
    Ok((values, list(inverse, &u.inverse, x.dims())?, list(counts, &u.counts, &[u.first.len()])?))
}

/// `torch.unique`: the distinct values in order, the number of each element's value, and how often each occurs; the
/// last two are empty unless asked for.
///
/// # Errors
/// Whatever reading the values reports.
pub fn unique(x: &Tensor, inverse: bool, counts: bool) -> Result<(Tensor, Tensor, Tensor)> {
    ordered("unique", x)?;
    found(x, &kernels::unique(&host(x)?.view(), inverse, counts), inverse, counts)
}

/// Refuses complex numbers, which have no order, naming PyTorch's kernel.
fn ordered(kernel: &str, x: &Tensor) -> Result<()> {
    if x.dtype().is_complex() { Err(crate::ops::complex::unsupported(kernel, x.dtype())) } else { Ok(()) }
}

/// `torch.unique_consecutive` of the flattened tensor.
///
/// # Errors
/// Whatever reading the values reports.
pub fn unique_consecutive(x: &Tensor, inverse: bool, counts: bool) -> Result<(Tensor, Tensor, Tensor)> {
    ordered("unique", x)?;
    found(x, &kernels::unique_consecutive(&host(x)?.view(), inverse, counts), inverse, counts)
}

/// Distinct slices along a dimension, in lexicographic order, or runs of equal ones in their own order.
fn unique_slices(
    x: &Tensor,
    dim: i64,
    consecutive: bool,
    inverse: bool,
    counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    ordered("unique", x)?;
    let d = normalize_dim(dim, x.dims().len())?;
    if x.dims().is_empty() {
        return unique(x, inverse, counts);
    }
    let rows = x.dims()[d];
    let width: usize = x.numel().checked_div(rows).unwrap_or(0);
    let flat = host(x)?.movedim(&[d as i64], &[0])?.reshape(&[rows as i64, width as i64])?;
    // Numbers are compared through their rank, so that one comparison serves every dtype.
    let rank = unique(&flat, true, false)?.1.to_vec::<i64>()?;
    let row = |i: usize| &rank[i * width..(i + 1) * width];
    let mut order: Vec<usize> = memory::collect(0..rows);
    if !consecutive {
        order.sort_by(|&a, &b| row(a).cmp(row(b)));
    }
    let (mut first, mut number, mut count) = (Vec::new(), memory::filled(0i64, rows), Vec::new());
    for (n, &i) in order.iter().enumerate() {
        if n == 0 || row(i) != row(order[n - 1]) {
            memory::push(&mut first, i as i64);
            memory::push(&mut count, 0i64);
        }
        number[i] = first.len() as i64 - 1;
        *count.last_mut().expect("pushed at the first") += 1;
    }
    let at = positions(&first, &[first.len()], x.device())?;
    let values = dispatch::call(Prim::IndexSelect(indexing::IndexSelect { dim: d }), &[&x.detach(), &at])?;
    let list =
        |on: bool, v: &[i64]| if on { positions(v, &[v.len()], x.device()) } else { positions(&[], &[0], x.device()) };
    Ok((values, list(inverse, &number)?, list(counts, &count)?))
}

/// `torch.searchsorted`: for each value the position in the sorted row where it belongs, before equals or, when
/// `right`, after them. On a device boundaries are counted, which needs no order of its own.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit.
pub fn searchsorted(
    boundaries: &Tensor,
    values: &Tensor,
    right: bool,
    narrow: bool,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    for t in [boundaries, values] {
        if t.dtype().is_complex() {
            return Err(crate::ops::complex::unsupported("searchsorted_out_cpu", t.dtype()));
        }
    }
    let (b, v) = (boundaries.dims(), values.dims());
    if b.is_empty() {
        return Err(Error::runtime(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension",
        ));
    }
    let one_row = b.len() == 1;
    if !one_row && v.is_empty() {
        return Err(Error::runtime(format!(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got \
            boundaries tensor dim({}) and input value's dim(0) numel(1)",
            b.len()
        )));
    }
    if !one_row && (v.len() != b.len() || v[..v.len() - 1] != b[..b.len() - 1]) {
        return Err(Error::runtime(format!(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries \
            tensor and input value tensor must match, but we got boundaries tensor {b} and input value tensor {v}"
        )));
    }
    if let Some(s) = sorter {
        if s.dims() != b {
            return Err(Error::runtime(format!(
                "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {b}and got \
                sorter tensor {}",
                s.dims()
            )));
        }
        if s.dtype() != DType::I64 {
            return Err(Error::runtime(format!(
                "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
                s.dtype().scalar_type()
            )));
        }
    }
    let out = if narrow { DType::I32 } else { DType::I64 };
    let dtype = match values.is_wrapped_number() {
        true => boundaries.dtype(),
        false => promote_types(boundaries.dtype(), values.dtype()),
    };
    let (boundaries, values) = (boundaries.detach().to_dtype(dtype)?, values.detach().to_dtype(dtype)?);
    if boundaries.device().kind == DeviceKind::Cpu {
        let (boundaries, values) = (boundaries.resolved()?, values.resolved()?);
        let y = Tensor::empty(&Meta { dims: *v, dtype: out, device: Device::CPU })?;
        let order = sorter.map(Tensor::view);
        kernels::searchsorted(&boundaries.view(), &values.view(), right, order.as_ref(), &mut y.view_mut())
            .map_err(kernel_error)?;
        return Ok(y);
    }
    let last = b.len() as i64 - 1;
    let boundaries = match sorter {
        Some(s) => indexing::gather(&boundaries, last, s)?,
        None => boundaries,
    };
    let boundaries = if one_row { boundaries } else { boundaries.unsqueeze(-2)? };
    let values = values.unsqueeze(-1)?;
    // Negated, so that NaN belongs at the end.
    let behind = if right { boundaries.gt(&values)? } else { boundaries.ge(&values)? };
    reduce(ReduceKind::Sum, &behind.logical_not()?, Some(&[-1]), false)?.to_dtype(out)
}

fn value_tensor(a: Operand<'_>, like: &Tensor) -> Result<Tensor> {
    match a {
        Operand::Tensor(t) => Ok(t.clone()),
        // A number that is not whole is compared as such, also among integers.
        Operand::Scalar(s) => Tensor::number(s, if like.dtype().is_float() { like.dtype() } else { s.dtype() }),
    }
}

/// [`searchsorted`] of a number: integers among floats and the other way round are compared as floats.
fn search_number(
    boundaries: &Tensor,
    v: Operand<'_>,
    right: bool,
    narrow: bool,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    let value = value_tensor(v, boundaries)?;
    let value = if value.device() == boundaries.device() { value } else { value.to_device(boundaries.device())? };
    let common = if value.dtype().is_float() { value.dtype() } else { boundaries.dtype() };
    searchsorted(&boundaries.to_dtype(common)?, &value.to_dtype(common)?, right, narrow, sorter)
}

fn side(right: bool, side: Option<&str>) -> Result<bool> {
    match side {
        None => Ok(right),
        Some("left") if right => Err(Error::runtime(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True",
        )),
        Some("left") => Ok(false),
        Some("right") => Ok(true),
        Some(s) => Err(Error::runtime(format!("torch.searchsorted(): side can only be 'left' or 'right' but got {s}"))),
    }
}

fn check_row(boundaries: &Tensor) -> Result<()> {
    if boundaries.dims().len() != 1 {
        return Err(Error::runtime(format!(
            "boundaries tensor must be 1 dimension, but got dim({})",
            boundaries.dims().len()
        )));
    }
    Ok(())
}

fn bucketize(v: &Tensor, boundaries: &Tensor, narrow: bool, right: bool) -> Result<Tensor> {
    check_row(boundaries)?;
    searchsorted(boundaries, v, right, narrow, None)
}

/// `torch.bincount`. On a device the host reads the values.
///
/// # Errors
/// `Runtime` for values that are negative or not integers, or weights of another size.
pub fn bincount(x: &Tensor, weights: Option<&Tensor>, min: i64) -> Result<Tensor> {
    ordered("bincount_cpu", x)?;
    if x.dtype() == DType::Bool || x.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "\"bincount_cpu\" not implemented for '{}'",
            x.dtype().scalar_type()
        )));
    }
    if x.dims().len() != 1 || !(x.dtype().is_int() || x.dtype() == DType::Bool) {
        return Err(Error::runtime("bincount only supports 1-d non-negative integral inputs."));
    }
    if min < 0 {
        return Err(Error::runtime("minlength should be >= 0"));
    }
    let weights = match weights {
        Some(w) if w.dims() != x.dims() => {
            return Err(Error::runtime("weights should be 1-d and have the same length as input"));
        }
        Some(w) if w.dtype() == DType::F32 => Some(host(w)?),
        Some(w) => Some(host(w)?.to_dtype(DType::F64)?),
        None => None,
    };
    let values = host(x)?;
    let len = kernels::bincount_len(&values.view(), min as usize).map_err(kernel_error)?;
    let dtype = weights.as_ref().map_or(DType::I64, Tensor::dtype);
    let y = Tensor::empty(&Meta::new(&[len], dtype, Device::CPU))?;
    let w = weights.as_ref().map(Tensor::view);
    kernels::bincount(&values.view(), w.as_ref(), &mut y.view_mut()).map_err(kernel_error)?;
    y.to_device(x.device())
}

/// `torch.histc`. On a device the host reads the values.
///
/// # Errors
/// `Runtime` for a wrong number of bins or range.
pub fn histc(x: &Tensor, bins: i64, min: f64, max: f64) -> Result<Tensor> {
    if bins <= 0 {
        return Err(Error::runtime("bins must be > 0"));
    }
    refuse(x, ErrorKind::Type, &format!("aminmax not implemented for {}", x.dtype().scalar_type()))?;
    let y = Tensor::empty(&Meta::new(&[bins as usize], x.dtype(), Device::CPU))?;
    kernels::histc(&host(x)?.view(), min, max, &mut y.view_mut()).map_err(kernel_error)?;
    y.to_device(x.device())
}

// ------------------------------------------------------------------------------------------------ the public functions

impl Tensor {
    /// Sorts along a dimension: values and positions.
    ///
    /// # Errors
    /// `Index` for a dimension out of range.
    pub fn sort(&self, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
        sort(self, dim, descending, false)
    }
    /// The `k` greatest along the last dimension, greatest first: values and positions.
    ///
    /// # Errors
    /// `Runtime` when there are fewer than `k` elements.
    pub fn topk(&self, k: i64) -> Result<(Tensor, Tensor)> {
        topk(self, k, -1, true, true)
    }
}

fn pair_row(r: Result<(Tensor, Tensor)>) -> Result<Ret> {
    r.map(Ret::from)
}

const KINDS: &[DType] = &[DType::F64, DType::BF16, DType::I64, DType::U8];
const BY_DIM: &[&str] = &["values", "indices"];

fn flat(v: SampleArg) -> Vec<Sample> {
    vec![Sample::new(vec![v]).no_gradient()]
}
fn sorted_samples() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[3, 5])]).dtypes(KINDS),
        Sample::new(vec![t(&[3, 5]), n(0), n(true)]),
        Sample::new(vec![t(&[])]),
        Sample::new(vec![t(&[0, 3]), n(0)]),
    ]
}
fn many() -> SampleArg {
    index(&[2, 5], 4)
}

/// Whether `args` ask for a stable sort: `bool? stable`.
fn stable(a: &Args<'_>, i: usize) -> Result<bool> {
    Ok(a.opt_bool(i)?.unwrap_or(false))
}

/// Rows of sorting, selection, searching and counting.
pub const ROWS: &[Row] = &[
    Row::new(
        "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        Tier::Prim,
        |a| pair_row(sort(a.tensor(0)?, a.int(1)?, a.bool(2)?, false)),
        sorted_samples,
    )
    .doc(
        "Return `(values, indices)`, the elements of `input` sorted along `dim` and the positions that they came \
         from. `descending` sorts the greatest first; NaN counts as the greatest. `stable=True` keeps the order of \
         equal elements. Complex tensors are refused.",
    )
    .fields(BY_DIM)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor \
        indices)",
        Tier::Prim,
        |a| pair_row(sort(a.tensor(0)?, a.int(2)?, a.bool(3)?, stable(a, 1)?)),
        samples!([t(&[3, 5]), n(true), n(1), n(true)]),
    )
    .fields(BY_DIM)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
        Tier::Composed,
        |a| Ok(sort(a.tensor(0)?, a.int(1)?, a.bool(2)?, false)?.1.into()),
        || vec![Sample::new(vec![t(&[3, 5])]).no_gradient(), Sample::new(vec![many(), n(0), n(true)]).no_gradient()],
    )
    .doc(
        "Return the positions of the elements of `input` in sorted order along `dim`, as `int64`: the `indices` of \
         `torch.sort`. `descending` sorts the greatest first; `stable=True` keeps the order of equal elements.",
    )
    .no_out(),
    Row::new(
        "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
        Tier::Composed,
        |a| Ok(sort(a.tensor(0)?, a.int(2)?, a.bool(3)?, a.bool(1)?)?.1.into()),
        || vec![Sample::new(vec![many(), n(true)]).no_gradient()],
    ),
    Row::new(
        "msort(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(sort(a.tensor(0)?, 0, false, false)?.0.into()),
        samples!([t(&[3, 5])]),
    )
    .doc("Return the elements of `input` sorted along dimension 0, in ascending order. NaN counts as the greatest.")
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor \
        indices)",
        Tier::Prim,
        |a| pair_row(topk(a.tensor(0)?, a.int(1)?, a.int(2)?, a.bool(3)?, a.bool(4)?)),
        || {
            vec![
                Sample::new(vec![t(&[3, 5]), n(2)]).dtypes(&[DType::F64]), // rounded to fewer digits, values tie
                Sample::new(vec![t(&[3, 5]), n(3), n(0), n(false)]),
                Sample::new(vec![t(&[3, 5]), n(0)]),
            ]
        },
    )
    .doc(
        "Return `(values, indices)`, the `k` greatest elements of `input` along `dim`, or the smallest with \
         `largest=False`. `sorted` puts them in order, the best first. `k` must not exceed the size of `dim`; NaN \
         counts as the greatest. `bool` and complex tensors are refused.",
    )
    .fields(BY_DIM)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Tier::Prim,
        |a| pair_row(kthvalue(a.tensor(0)?, a.int(1)?, a.int(2)?, a.bool(3)?)),
        samples!([t(&[3, 5]), n(2)], [t(&[3, 5]), n(3), n(0), n(true)]),
    )
    .doc(
        "Return `(values, indices)`, the `k`-th smallest element of `input` along `dim`, counted from 1. `keepdim` \
         keeps the dimension with size 1. NaN counts as the greatest. `bool` and complex tensors are refused.",
    )
    .fields(BY_DIM)
    .out_aliasing(Aliasing::Refused),
    Row::new(
        "median(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(median_of_all(a.tensor(0)?, PickKind::Median)?.into()),
        samples!([t(&[3, 5])], [t(&[4])]),
    )
    .doc(
        "Return the median of all elements of `input`, or with `dim`, `(values, indices)` along that dimension. Of \
         an even number of elements it is the lower of the middle two. A NaN makes it NaN. `bool` and complex \
         tensors are refused.",
    ),
    Row::new(
        "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Tier::Prim,
        |a| pair_row(pick(a.tensor(0)?, PickKind::Median, a.int(1)?, a.bool(2)?)),
        samples!([t(&[3, 4]), n(1)], [t(&[3, 5]), n(0), n(true)]),
    )
    .fields(BY_DIM),
    Row::new(
        "nanmedian(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(median_of_all(a.tensor(0)?, PickKind::NanMedian)?.into()),
        samples!([t(&[3, 5])]),
    )
    .doc(
        "Return the median of the elements of `input` that are not NaN, or with `dim`, `(values, indices)` along \
         that dimension. Of an even number of elements it is the lower of the middle two; with no number it is NaN. \
         `bool` and complex tensors are refused.",
    ),
    Row::new(
        "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Tier::Prim,
        |a| pair_row(pick(a.tensor(0)?, PickKind::NanMedian, a.int(1)?, a.bool(2)?)),
        samples!([t(&[3, 4]), n(1)]),
    )
    .fields(BY_DIM),
    Row::new(
        "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, \
        Tensor, Tensor)",
        Tier::Composed,
        |a| Ok(unique(a.tensor(0)?, a.bool(2)?, a.bool(3)?)?.into()),
        || {
            vec![
                Sample::new(vec![many(), n(true), n(true), n(true)]).no_gradient(),
                Sample::new(vec![t(&[4])]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the distinct elements of `input` in ascending order, the position of each element among them, and \
         how often each occurs; the last two are empty unless asked for.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) \
        -> (Tensor, Tensor, Tensor)",
        Tier::Composed,
        |a| Ok(unique_slices(a.tensor(0)?, a.int(1)?, false, a.bool(3)?, a.bool(4)?)?.into()),
        || vec![Sample::new(vec![index(&[5, 2], 2), n(0), n(true), n(true), n(true)]).no_gradient()],
    )
    .doc(
        "Return the distinct slices of `input` along `dim` in lexicographic order, the position of each slice among \
         them, and how often each occurs. The last two are empty unless `return_inverse` and `return_counts` ask for \
         them. On a device the host reads the values.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> \
        (Tensor, Tensor, Tensor)",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            Ok(match a.opt_int(3)? {
                None => unique_consecutive(x, a.bool(1)?, a.bool(2)?)?,
                Some(d) => unique_slices(x, d, true, a.bool(1)?, a.bool(2)?)?,
            }
            .into())
        },
        || vec![Sample::new(vec![index(&[9], 2), n(true), n(true)]).no_gradient()],
    )
    .doc(
        "Return the elements of `input` without those that repeat the element before them; with `dim`, slices along \
         it are compared. `return_inverse` asks for the position of each element of `input` among the results too, and \
         `return_counts` for the lengths of the runs. On a device the host reads the values.",
    )
    .no_out(),
    Row::new(
        "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? \
        side=None, Tensor? sorter=None) -> Tensor",
        Tier::Composed,
        |a| {
            Ok(searchsorted(
                a.tensor(0)?,
                a.tensor(1)?,
                side(a.bool(3)?, a.opt_str(4)?)?,
                a.bool(2)?,
                a.opt_tensor(5)?,
            )?
            .into())
        },
        Vec::new,
    )
    .doc(
        "Return the position where each element of `input` belongs in the sorted last dimension of \
         `sorted_sequence`, before equal elements, or behind them with `right=True` or `side='right'`. \
         `sorted_sequence` is a vector, or agrees with `input` in all dimensions but the last. `sorter` has the \
         positions that sort it if it is not sorted. The result is `int64`, or `int32` with `out_int32`.",
    )
    .scope(Scope::Function),
    Row::new(
        "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? \
        side=None, Tensor? sorter=None) -> Tensor",
        Tier::Composed,
        |a| {
            Ok(search_number(
                a.tensor(0)?,
                a.operand(1)?,
                side(a.bool(3)?, a.opt_str(4)?)?,
                a.bool(2)?,
                a.opt_tensor(5)?,
            )?
            .into())
        },
        Vec::new,
    )
    .scope(Scope::Function),
    Row::new(
        "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
        Tier::Composed,
        |a| Ok(bucketize(a.tensor(0)?, a.tensor(1)?, a.bool(2)?, a.bool(3)?)?.into()),
        Vec::new,
    )
    .doc(
        "Return the number of the bucket of each element of `input`, where the vector `boundaries` has the sorted \
         bounds. A number equal to a bound belongs to the bucket before it, or with `right=True` to the one behind \
         it. The result is `int64`, or `int32` with `out_int32`.",
    )
    .scope(Scope::Function),
    Row::new(
        "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
        Tier::Composed,
        |a| {
            check_row(a.tensor(1)?)?;
            Ok(search_number(a.tensor(1)?, a.operand(0)?, a.bool(3)?, a.bool(2)?, None)?.into())
        },
        Vec::new,
    )
    .scope(Scope::Function),
    Row::new(
        "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
        Tier::Composed,
        |a| Ok(bincount(a.tensor(0)?, a.opt_tensor(1)?, a.int(2)?)?.into()),
        || {
            vec![
                Sample::new(vec![index(&[7], 4)]).no_gradient(),
                Sample::new(vec![index(&[7], 4), t(&[7]), n(6)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return how often each of the numbers 0, 1, ... occurs in the vector `input` of integers that are not \
         negative. The length is the largest number plus 1, and at least `minlength`. `weights` are summed instead \
         of counted. The result is `int64`, or with `weights` `float32` or `float64`.",
    ),
    Row::new(
        "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
        Tier::Composed,
        |a| Ok(histc(a.tensor(0)?, a.int(1)?, a.float(2)?, a.float(3)?)?.into()),
        || {
            let mut s = flat(t(&[9]));
            s.push(Sample::new(vec![t(&[9]), n(4), n(-1), n(1)]).no_gradient());
            s
        },
    )
    .doc(
        "Return the number of elements of `input` in each of `bins` equally wide bins from `min` to `max`, in the \
         dtype of `input`. Elements outside do not count; `max` belongs to the last bin. If `min` equals `max`, the \
         smallest and the greatest element are taken. A range that is not finite raises an error.",
    ),
];
