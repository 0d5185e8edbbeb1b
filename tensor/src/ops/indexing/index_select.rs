//! `IndexSelect` and `IndexAdd`: whole rows along a dimension, by a list of positions.

use super::gather::{Scatter, ScatterKind};
use super::overlapping;
use super::{
    KINDS, at_least_1d, check_index_dtype, copy_of, fill_value, guard, lower_positions, lower_scatter, ok,
    out_of_bounds, out_of_range_in_self, str_arg, zeros_like,
};
use crate::axes::{Axes, Combine, names};
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values, normalize_dim, same_device};
use crate::ops::pointwise::{self, broadcast_strides, kernel_error};
use crate::policy::{Policies, Policy};
use crate::schema::{
    Aliasing, Args, Operand, OutDType, Row, Sample, Tier, index as index_arg, messages, n, t, warn_of_repeated,
};
use crate::types::compute::{narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, inplace, samples};
use smallvec::smallvec;
use torchtpu_kernels::index as kernels;
use torchtpu_stablehlo::ScatterKind as Join;

/// Rows of `x` along `dim`, in the order of a list.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[a.., n, b..]` | any |
/// | index | `[m]` | `int64` or `int32` |
/// | y | `[a.., m, b..]` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexSelect {
    /// The dimension.
    pub dim: usize,
}

impl Op for IndexSelect {
    const NAME: &'static str = "index_select";
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        check_index_dtype("index_select", x[1])?;
        if x[1].dims().len() != 1 {
            return Err(Error::index("index_select(): Index is supposed to be a vector"));
        }
        if x[1].numel() > 0 && x[0].dims()[self.dim] == 0 {
            return Err(Error::runtime("index_select(): self indexing axis dim should be positive"));
        }
        let mut dims = *x[0].dims();
        dims.set(self.dim, x[1].dims()[0]);
        Ok(Meta { dims, dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let dims: Vec<String> = names("d", x[0].dims.len()).collect();
        let with = |d: &str| [&dims[..self.dim], &[d.to_string()], &dims[self.dim + 1..]].concat().join(" ");
        Axes::parse(&format!("{}, i -> {}", with("v"), with("i")), x, y).indexes(1, "v").linear(&[0b01])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::index_select(&x[0].view(), self.dim, &x[1].view(), &mut y[0].view_mut()).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let at = lower_positions(f, &x[1], x[0].shape()[self.dim], false);
        smallvec![f.take(&x[0], &at, self.dim)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let op = IndexAdd { dim: self.dim, accumulate: true };
        Ok(smallvec![Some(dispatch::call(Prim::IndexAdd(op), &[&zeros_like(s.meta(0))?, s.x(1), g])?), None])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b10)
    }
}

/// `y = x`, but rows along `dim` are added to, or replaced by, those of `src`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[a.., n, b..]` | any |
/// | index | `[m]` | `int64` or `int32` |
/// | src | `[a.., m, b..]`, or no dimensions: one number for all | that of `x` |
/// | y | that of `x` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexAdd {
    /// The dimension.
    pub dim: usize,
    /// Whether to add; else to replace.
    pub accumulate: bool,
}

impl Op for IndexAdd {
    const NAME: &'static str = "index_add";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    fn label(&self) -> &'static str {
        if self.accumulate { "index_add" } else { "index_copy" }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let name = self.label();
        check_index_dtype(name, x[1])?;
        if x[1].dims().len() != 1 {
            return Err(Error::index(format!(
                "{name}_(): Index is supposed to be a vector, but got dim: {}",
                x[1].dims().len()
            )));
        }
        if x[0].dtype() != x[2].dtype() {
            return Err(Error::runtime(format!(
                "{name}_(): self ({}) and source ({}) must have the same scalar type",
                x[0].dtype().scalar_type(),
                x[2].dtype().scalar_type()
            )));
        }
        let mut dims = *x[0].dims();
        dims.set(self.dim, x[1].dims()[0]);
        if !x[2].dims().is_empty() && *x[2].dims() != dims {
            if name == "index_add" {
                return Err(Error::runtime(format!(
                    "source tensor shape must match self tensor shape, excluding the specified dimension. Got \
                    self.shape = {} source.shape = {}",
                    x[0].dims(),
                    x[2].dims()
                )));
            }
            return Err(Error::runtime(format!(
                "{name}_(): source shape {} must match self shape {} except along dimension {}, where it has as many \
                elements as index ({})",
                x[2].dims(),
                x[0].dims(),
                self.dim,
                x[1].dims()[0]
            )));
        }
        Ok(Meta { place: same_device(x)?, ..*x[0].meta() })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let dims: Vec<String> = names("d", x[0].dims.len()).collect();
        let with = |d: &str| [&dims[..self.dim], &[d.to_string()], &dims[self.dim + 1..]].concat().join(" ");
        // Values that are added may come in parts. Values that replace depend on the order.
        let index = if self.accumulate { "i" } else { "_" };
        let src = if x[2].dims.is_empty() { String::new() } else { with(index) };
        let axes = Axes::parse(&format!("{0}, {index}, {src} -> {0}", with("_")), x, y);
        axes.reduces("i", Combine::Sum).once(0b001).linear(&[0b101])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        copy_of(x[0], &y[0]);
        let mut dims = *x[0].dims();
        dims.set(self.dim, x[1].dims()[0]);
        let strides = broadcast_strides(x[2], &dims);
        let (index, src, out) = (x[1].view(), x[2].view_as(&dims, &strides), &mut y[0].view_mut());
        if self.accumulate {
            kernels::index_add(out, self.dim, &index, &src, 1.0)
        } else {
            kernels::index_copy(out, self.dim, &index, &src)
        }
        .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let mut dims = x[0].shape().to_vec();
        if dims.contains(&0) || x[1].shape()[0] == 0 {
            return smallvec![x[0].clone()];
        }
        dims[self.dim] = x[1].shape()[0];
        let at = lower_positions(f, &x[1], x[0].shape()[self.dim], false);
        let src = f.broadcast_to(&x[2], &dims);
        let join = if self.accumulate { Join::Add } else { Join::Set };
        let put = |f: &mut Func, x: &Value, src: &Value| f.put(x, &at, src, self.dim, join);
        smallvec![lower_scatter(f, &x[0], &src, join, x[1].shape()[0] == 1, put)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let gx = if !s.needs(0) {
            None
        } else if self.accumulate {
            Some(g.clone())
        } else {
            Some(dispatch::call(Prim::IndexAdd(*self), &[g, s.x(1), &Tensor::number(Scalar::Float(0.0), g.dtype())?])?)
        };
        let gs = if s.needs(2) {
            Some(if s.meta(2).dims.is_empty() && !self.accumulate && !s.meta(0).dims.is_empty() {
                // With one value for all rows, a row that is named twice counts once.
                let (zero, one) =
                    (Tensor::number(Scalar::Float(0.0), g.dtype())?, Tensor::number(Scalar::Float(1.0), g.dtype())?);
                let rows = Tensor::zeros_like_meta(&g.meta().with_dims(Dims::new(&[s.meta(0).dims[self.dim]])))?;
                let rows =
                    dispatch::call(Prim::IndexAdd(IndexAdd { dim: 0, accumulate: false }), &[&rows, s.x(1), &one])?;
                let mut along = Dims::filled(1, g.dims().len());
                along.set(self.dim, rows.numel());
                let named = rows.reshape_dims(along)?.ne(&zero)?;
                pointwise::select(&named, g, &Tensor::zeros_like_meta(g.meta())?)?.sum_to(&Dims::EMPTY)?
            } else {
                let taken = dispatch::call(Prim::IndexSelect(IndexSelect { dim: self.dim }), &[g, s.x(1)])?;
                if s.meta(2).dims.is_empty() { taken.sum_to(&Dims::EMPTY)? } else { taken }
            })
        } else {
            None
        };
        Ok(smallvec![gx, None, gs])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b010)
    }
}

/// A list of positions, which may be a number.
fn index_list(op: &str, index: &Tensor) -> Result<Tensor> {
    match index.dims().len() {
        0 => index.view_dims(Dims::new(&[1])),
        1 => Ok(index.clone()),
        _ if op == "index_select" => Err(Error::index("index_select(): Index is supposed to be a vector")),
        r => Err(Error::index(format!("{op}_(): Index should have dimension 1 or 0 (got {r})"))),
    }
}

/// `torch.index_select`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for dtypes that do not fit.
pub fn index_select(x: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    let (x1, i1) = (at_least_1d(x)?, index_list("index_select", index)?);
    let size = x1.dims()[dim];
    let i1 = guard(&i1, 0, size, move |i| out_of_range_in_self(i, size).in_op("index_select"))?;
    let y = dispatch::call(Prim::IndexSelect(IndexSelect { dim }), &[&x1, &i1])?;
    if x.dims().is_empty() && y.numel() == 1 { y.view_dims(Dims::EMPTY) } else { Ok(y) }
}

/// [`index_select`] at positions that are in range. They are not checked.
///
/// # Errors
/// `OutOfMemory`.
pub fn index_select_in_range(x: &Tensor, dim: usize, index: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::IndexSelect(IndexSelect { dim }), &[x, index])
}

/// Refuse the arguments that `index_add` and `index_copy` refuse, in the words of each.
fn check_rows(x: &Tensor, dim: usize, index: &Tensor, src: &Tensor, accumulate: bool) -> Result<()> {
    let (n, rows) = (index.numel(), src.dims().get(dim).copied().unwrap_or(1));
    let (d, sd) = (x.dims(), src.dims());
    let others_differ = d.len() == sd.len() && (0..d.len()).any(|e| e != dim && d[e] != sd[e]);
    let types = (x.dtype().scalar_type(), src.dtype().scalar_type());
    if accumulate {
        let fail = |text: String| Err(Error::runtime(format!("index_add_(): {text}")));
        if !matches!(index.dtype(), DType::I64 | DType::I32) {
            return fail(format!("Expected dtype int32/int64 for index but got: {}", index.dtype().scalar_type()));
        }
        if x.dtype() != src.dtype() {
            return fail(format!("self ({}) and source ({}) must have the same scalar type", types.0, types.1));
        }
        if !sd.is_empty() && dim >= sd.len() {
            return fail(format!("Indexing dim {dim} is out of bounds of the source tensor with dim {}", sd.len()));
        }
        if n != rows {
            return fail(format!(
                "Number of indices ({n}) should be equal to source.size(dim): ({rows}), for dim: {dim}"
            ));
        }
        if others_differ || d.is_empty() && !sd.is_empty() {
            return Err(Error::runtime(format!(
                "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = \
                {d} source.shape = {sd}"
            )));
        }
        return Ok(());
    }
    let fail = |text: String| Err(Error::index(format!("index_copy_(): {text}")));
    if index.dims().len() > 1 {
        return fail(format!("Index should have dimension 1 or 0 (got {})", index.dims().len()));
    }
    if index.dims().len() <= 1 && sd.is_empty() && n != 1 {
        return fail(format!("When source is scalar, index should have one element (got {n})"));
    }
    if d.len() != sd.len() && !sd.is_empty() && !d.is_empty() {
        return fail(format!(
            "When source and destination are not scalars, their dimensionality must match. Source dimensionality ({}), \
            destination dimensionality ({})",
            sd.len(),
            d.len()
        ));
    }
    if index.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "index_copy_(): Expected a long tensor for index, but got {}",
            index.dtype().scalar_type()
        )));
    }
    if x.dtype() != src.dtype() {
        return Err(Error::runtime(format!(
            "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
            types.0, types.1
        )));
    }
    if index.dims().len() <= 1 && !sd.is_empty() && n != rows && !others_differ {
        return fail(format!("Number of indices ({n}) should be equal to source.size(dim) ({rows})"));
    }
    Ok(())
}

fn index_rows(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor, accumulate: bool) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    let op = IndexAdd { dim, accumulate };
    check_rows(x, dim, index, src, accumulate)?;
    let (x1, i1) = (at_least_1d(x)?, index_list(op.label(), index)?);
    // A source without dimensions is one row of a tensor with one dimension.
    let s1 =
        if src.dims().is_empty() && i1.numel() == 1 && x1.dims().len() == 1 { at_least_1d(src)? } else { src.clone() };
    if s1.dims().is_empty() {
        return Err(Error::runtime(format!(
            "{}_(): source must have the dimensions of self, but has none",
            op.label()
        )));
    }
    let size = x1.dims()[dim];
    let i1 = guard(&i1, 0, size, move |i| {
        if accumulate {
            out_of_range_in_self(i, size).in_op("index_add")
        } else {
            Error::index(format!("index_copy_(): index {i} is out of bounds for dimension {dim} with size {size}"))
                .in_op("index_copy")
        }
    })?;
    let y = dispatch::call_update(Prim::IndexAdd(op), &[&x1, &i1, &s1], 0)?;
    y.reshape_dims(*x.dims())
}

/// `torch.index_add`: add the rows of `src` to rows of `x`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn index_add(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    index_rows(x, dim, index, src, true)
}

/// `torch.index_copy`: replace rows of `x` by those of `src`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn index_copy(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    index_rows(x, dim, index, src, false)
}

/// `torch.index_fill`: write one value into rows of `x`. Negative indices count from the end.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for dtypes that do not fit.
pub fn index_fill(x: &Tensor, dim: i64, index: &Tensor, value: Operand<'_>) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    if index.dtype() != DType::I64 {
        return Err(Error::index("index_fill_(): Expected dtype int64 for index."));
    }
    if index.dims().len() > 1 {
        return Err(Error::runtime("Index has to be a vector/scalar"));
    }
    let (x1, i1) = (at_least_1d(x)?, index_list("index_fill", index)?);
    let size = x1.dims()[dim];
    let i1 = guard(&i1, -(size as i64), size, move |i| out_of_bounds(i, dim, size).in_op("index_fill"))?;
    let wrapped = pointwise::select(&i1.lt_scalar(0)?, &i1.add_scalar(size as i64)?, &i1)?;
    let is_complex = match value {
        Operand::Scalar(s) => s.dtype().is_complex(),
        Operand::Tensor(v) => v.dtype().is_complex(),
    };
    if is_complex && !x.dtype().is_complex() {
        return Err(Error::runtime("index_fill_(): Converting complex Scalar to non-complex type is not supported"));
    }
    let value = fill_value("index_fill_", x, value)?;
    dispatch::call_update(Prim::IndexAdd(IndexAdd { dim, accumulate: false }), &[&x1, &wrapped, &value], 0)?
        .reshape_dims(*x.dims())
}

/// [`index_add`] of `src` times `alpha`. 16-bit floats are rounded once, at the end.
fn index_add_scaled(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor, alpha: Scalar) -> Result<Tensor> {
    if alpha.to_complex().1 != 0.0 {
        crate::ops::creation::check_range(alpha, src.dtype())?;
    }
    if alpha.to_complex() == (1.0, 0.0) {
        return index_add(x, dim, index, src);
    }
    if x.dtype().is_half() && x.dtype() == src.dtype() {
        return narrowed(index_add_scaled(&widened(x)?, dim, index, &widened(src)?, alpha)?, x.dtype());
    }
    index_add(x, dim, index, &src.mul_scalar(alpha)?.to_dtype(src.dtype())?)
}

/// `torch.index_reduce`: combine rows of `src` with rows of `x` along a dimension.
fn index_reduce(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor, how: &str, include_self: bool) -> Result<Tensor> {
    let kind = match how {
        "prod" => ScatterKind::Mul,
        "mean" => ScatterKind::Mean,
        "amax" => ScatterKind::Max,
        "amin" => ScatterKind::Min,
        other => {
            return Err(Error::runtime(format!(
                "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {other}."
            )));
        }
    };
    let d = normalize_dim(dim, x.dims().len())?;
    let fail = |text: String| Err(Error::runtime(format!("index_reduce_(): {text}")));
    if index.dims().len() > 1 {
        return Err(Error::index(format!(
            "index_reduce_(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {}",
            index.dims().len(),
            index.dtype().scalar_type(),
            index.dims()
        )));
    }
    if !matches!(index.dtype(), DType::I64 | DType::I32) {
        return fail(format!("Expected dtype int32/int64 for index but got: {}", index.dtype().scalar_type()));
    }
    if x.dtype() != src.dtype() {
        return fail(format!(
            "self ({}) and source ({}) must have the same scalar type",
            x.dtype().scalar_type(),
            src.dtype().scalar_type()
        ));
    }
    let (x1, s1) = (at_least_1d(x)?, at_least_1d(src)?);
    if index.numel() != s1.dims().get(d).copied().unwrap_or(1) {
        return fail(format!(
            "Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {d}",
            index.numel(),
            s1.dims().get(d).copied().unwrap_or(1)
        ));
    }
    if s1.dims().len() != x1.dims().len() || (0..x1.dims().len()).any(|e| e != d && x1.dims()[e] != s1.dims()[e]) {
        return Err(Error::runtime(format!(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {} \
            source.shape = {}",
            x.dims(),
            src.dims()
        )));
    }
    if s1.numel() == 0 {
        return x.copy();
    }
    let mut along = Dims::filled(1, x1.dims().len());
    along.set(d, index.numel());
    let size = x1.dims()[d];
    let index = guard(index, 0, size, move |i| out_of_range_in_self(i, size).in_op("index_reduce"))?;
    let at = index.reshape_dims(along)?.expand_dims(s1.dims())?;
    let op = Scatter { dim: d, kind, include_self };
    let y = dispatch::call_update(Prim::Scatter(op), &[&x1, &at, &s1], 0).map_err(|e| {
        // The error about a wrong index differs from that of scatter.
        if e.message().contains("is out of bounds") { Error::index("index out of range in self") } else { e }
    })?;
    y.reshape_dims(*x.dims())
}

fn index_reduced() -> Vec<Sample> {
    let one = |how: &'static str, keep: bool| {
        Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[4], 3), t(&[4, 4]), str_arg(how), n(keep)])
    };
    vec![
        one("prod", true).dtypes(&[DType::F64, DType::I64]),
        one("prod", false),
        one("mean", true),
        one("mean", false),
        one("amax", true),
        one("amax", false),
        one("amin", true),
        one("amin", false),
    ]
}

/// `index_fill_` for a tensor that repeats its elements, which PyTorch allows with a warning.
#[cold]
fn fill_repeated(row: &Row, x: &Tensor, args: &Args<'_>) -> Result<()> {
    warn_of_repeated("index_fill_", "tensor[mask] = scalar")?;
    let none = Tensor::zeros_like_meta(&x.meta().with_dtype(DType::Bool))?;
    let is_hit = index_fill(&none, args.int(1)?, args.tensor(2)?, Operand::Scalar(Scalar::Bool(true)))?;
    inplace::assign_repeated(x, &row.call_on(x, args)?, &is_hit)
}

/// Rows of functions that read and write whole rows.
pub const ROWS: &[Row] = &[
    Row::new(
        "index_select(Tensor self, int dim, Tensor index) -> Tensor",
        Tier::Prim,
        |a| ok(index_select(a.tensor(0)?, a.int(1)?, a.tensor(2)?)),
        || {
            vec![
                Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[5], 3)]).dtypes(KINDS),
                Sample::new(vec![t(&[3, 4, 2]), n(1), index_arg(&[2], 4)]),
                Sample::new(vec![t(&[3, 4]), n(-1), index_arg(&[0], 4)]),
            ]
        },
    )
    .doc(
        "Return a copy of the slices of `input` at the positions `index` along `dim`, in that order. `index` is a \
         vector of `int64` or `int32`, or a single number. Negative positions and those out of range are errors.",
    )
    .out_aliasing(Aliasing::Refused),
    Row::new(
        "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
        Tier::Prim,
        |a| ok(index_add_scaled(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?, a.scalar(4)?)),
        || {
            vec![
                Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[5], 3), t(&[5, 4])]).dtypes(&[
                    DType::F64,
                    DType::BF16,
                    DType::I64,
                    DType::U8,
                ]),
                Sample::new(vec![t(&[3, 4]), n(1), index_arg(&[2], 4), t(&[3, 2]), n(0.5)]),
            ]
        },
    )
    .doc(
        "Return a copy of `input` with the slices of `source`, times `alpha`, added at the positions `index` along \
         `dim`. `source` has the dtype of `input`, and its shape but for `dim`, where it is as long as `index`. \
         Positions that occur more than once add up; negative ones are errors.",
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::write_slices)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) \
        -> Tensor",
        Tier::Composed,
        |a| ok(index_reduce(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?, a.str(4)?, a.bool(5)?)),
        index_reduced,
    )
    .doc(
        "Return a copy of `input` joined with the slices of `source` at the positions `index` along `dim`. `reduce` \
         is `'prod'`, `'mean'`, `'amax'` or `'amin'`. With `include_self=False` the slices of `input` at those \
         positions do not count. `source` has the dtype of `input`, and its shape but for `dim`, where it is as long \
         as `index`.",
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::write_slices)
    .out_dtype(OutDType::OfInput(messages::expected_out)),
    Row::new(
        "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
        Tier::Prim,
        |a| ok(index_copy(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?)),
        || vec![Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[1], 3), t(&[1, 4])]).dtypes(KINDS)],
    )
    .doc(
        "Return a copy of `input` with the slices at the positions `index` along `dim` replaced by those of \
         `source`. `index` is `int64`. `source` has the dtype of `input`, and its shape but for `dim`, where it is \
         as long as `index`. Negative positions are errors.",
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::write_slices)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep)
    .autocast(Policies::cpu(Policy::Widest)),
    Row::new(
        "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
        Tier::Prim,
        |a| ok(index_fill(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.operand(3)?)),
        samples!([t(&[3, 4]), n(0), index_arg(&[1], 3), t(&[])]),
    )
    .doc(
        "Return a copy of `input` with `value`, a number or a 0-d tensor, in the slices at the positions `index` \
         along `dim`. `index` is `int64`; negative positions count from the end.",
    )
    .inplace()
    .writes_repeated(fill_repeated)
    .scatters_in_place()
    .writes_overlapping(overlapping::write_slices),
    Row::new(
        "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        Tier::Prim,
        |a| ok(index_fill(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.operand(3)?)),
        samples!([t(&[3, 4]), n(1), index_arg(&[2], 4), n(2)]),
    )
    .inplace()
    .writes_repeated(fill_repeated)
    .scatters_in_place()
    .writes_overlapping(overlapping::write_slices),
];
