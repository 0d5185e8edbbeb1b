//! Order along a dimension: `Sort`, `TopK` and `Pick` (k-th value, medians), and sets, searches and counts composed of
//! them.
//!
//! NaN counts as the greatest value. The number of results of `unique` and `bincount` depends on the values, so on
//! `tpu` the host reads them, which cuts the trace. `histc` reads them too.

mod count;
mod search;
mod unique;

pub use count::{ROWS as COUNT_ROWS, bincount, histc};
pub use search::{ROWS as SEARCH_ROWS, searchsorted};
pub use unique::{ROWS as UNIQUE_ROWS, unique, unique_consecutive};

use crate::axes::Axes;
use crate::backend::{Absence, absent_elements};
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values, normalize_dim};
use crate::ops::complex::refuse;
use crate::ops::indexing::{Scatter, ScatterKind};
use crate::ops::pointwise::kernel_error;
use crate::schema::{Aliasing, Args, OutDType, Ret, Row, Sample, SampleArg, Tier, index, messages, n, t};
use crate::{DType, Device, Dims, Error, ErrorKind, Meta, Result, Scalar, Tensor, dispatch, samples};
use smallvec::smallvec;
use torchtpu_kernels::{memory, sort as kernels};
use torchtpu_stablehlo::{self as hlo, Direction, ElementType, Type};

/// The gradient of an op that picks elements: each goes back to its element's position.
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

/// Sorts along a dimension. The results are the values and, in `int64`, their positions in the operand. Equal elements
/// keep their order, whether that was asked for or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sort {
    /// The dimension.
    pub dim: usize,
    /// Whether the greatest comes first.
    pub descending: bool,
    /// Whether the order of equal elements was asked for.
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

/// The `k` greatest or smallest elements along a dimension, which then has size `k`, and their positions in `int64`.
///
/// C1: `k` is at most the dimension's size. On `cpu`, the choice among equal elements and the order without `sorted`
/// are PyTorch's. On a device the first of equal elements is chosen, and the result is always sorted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TopK {
    /// The number of elements.
    pub k: usize,
    /// The dimension.
    pub dim: usize,
    /// Whether to take the greatest; else the smallest.
    pub largest: bool,
    /// Whether the results must be in order.
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

/// The element of the sorted row that a [`Pick`] takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PickKind {
    /// The k-th, counted from 1.
    Kth(usize),
    /// The lower median; a row with NaN gives its first NaN.
    Median,
    /// The lower median of the elements that are not NaN.
    NanMedian,
}

/// One element of each row by its rank, and its position in `int64`. The dimension keeps size one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pick {
    /// The rank.
    pub kind: PickKind,
    /// The dimension.
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
        // NaN are at the end, so their number gives the position.
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

/// Run an op with values and positions along a dimension. A tensor without dimensions counts as a vector of one
/// element.
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

/// The median of all elements; NaN if there are none.
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
    // Equal elements share the gradient, as those of a maximum do.
    let hit = crate::no_grad(|| crate::ops::reduce::equal_or_nan(&flat, &pick(&flat, kind, 0, false)?.0))?;
    let lowest = Tensor::number(Scalar::Float(f64::NEG_INFINITY), x.dtype())?;
    crate::ops::pointwise::select(&hit, &flat, &lowest)?.amax(&[0], false)
}

/// The overload of `bincount`, for errors.
const BINCOUNT: &str = "bincount.default";

/// A plain copy of the values in host memory, for kernels. `op` is the overload that reads them, for errors.
fn host(x: &Tensor, op: &'static str) -> Result<Tensor> {
    if x.place().is_abstract() {
        return Err(absent_elements(x, Absence::Size(op), || {
            Error::not_implemented("the result of this function depends on values, which a meta tensor has not")
        }));
    }
    x.detach().to_device(Device::CPU)?.resolved()
}

/// [`host`] for a result whose size the values decide. A planned device has none: `stand_in` makes values that give an
/// assumed number of rows, of at most `most`.
fn host_of_sizes(
    x: &Tensor,
    op: &'static str,
    most: usize,
    stand_in: impl FnOnce(usize) -> Result<Tensor>,
) -> Result<Tensor> {
    if x.place().is_abstract() {
        return host(x, op);
    }
    crate::backend::fetch_sizes(x, most, stand_in)?.resolved()
}

/// [`host`] for a result that has a row for each different slice of `x` along dimension `d`, or for each different
/// element.
fn host_of_distinct(x: &Tensor, op: &'static str, d: Option<usize>) -> Result<Tensor> {
    let slices = d.map_or(x.numel(), |d| x.dims()[d]);
    host_of_sizes(x, op, slices, |rows| {
        // Equal ones are neighbours, so that those of `unique_consecutive` are as many.
        let numbers: Vec<i64> = memory::collect((0..slices).map(|i| (i * rows / slices) as i64));
        let number = Tensor::from_slice(&numbers, &[slices])?.to_dtype(x.dtype())?;
        match d {
            None => number.reshape_dims(*x.dims()),
            Some(d) => {
                let mut sizes = vec![1; x.dims().len()];
                sizes[d] = slices as i64;
                number.reshape(&sizes)?.expand_dims(x.dims())?.contiguous()
            }
        }
    })
}

/// [`host`] for integers that are numbers of classes, whose count decides the size of a result.
pub(crate) fn host_of_classes(x: &Tensor) -> Result<Tensor> {
    host_of_sizes(x, BINCOUNT, x.numel(), |classes| {
        let numbers: Vec<i64> = memory::collect((0..x.numel()).map(|i| (i % classes.max(1)) as i64));
        Tensor::from_slice(&numbers, x.dims())?.to_dtype(x.dtype())
    })
}

/// Refuse complex numbers, which have no order. `kernel` is PyTorch's name of the kernel.
fn ordered(kernel: &str, x: &Tensor) -> Result<()> {
    if x.dtype().is_complex() { Err(crate::ops::complex::unsupported(kernel, x.dtype())) } else { Ok(()) }
}

impl Tensor {
    /// Sort along a dimension: values and positions.
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

/// Rows of sorting and selection.
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
];
