//! `Index` and `IndexPut`, and the indexing expressions `x[i, mask, ..]` that are prepared for them.

use super::mask::{masked_fill, nonzero};
use super::overlapping;
use super::{KINDS, copy_of, guard, lower_positions, lower_scatter, ok, out_of_bounds, to_device, zeros_like};
use crate::axes::{Axes, Combine, all_whole, last, list, names};
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values, same_device};
use crate::ops::pointwise::{self, broadcast_strides, kernel_error};
use crate::policy::{Policies, Policy};
use crate::schema::{
    Args, Fill, Operand, Row, Sample, SampleArg, Scope, Tier, mask as mask_arg, n, t, warn_of_repeated,
};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, inplace};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::index as kernels;
use torchtpu_stablehlo::{ElementType, GatherDims, ScatterDims, ScatterKind as Join};

/// `y[p.., r..] = x[i0[p..], i1[p..], .., r..]`: advanced indexing of the leading dimensions.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n0, n1, .., r..]` | any |
/// | i0, i1, .. | `[p..]`, the same for all | `int64` or `int32`; negative ones count from the end |
/// | y | `[p.., r..]` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Index {
    /// The indexed dimensions of the user's tensor, for messages.
    pub dims: Dims,
}

/// Sizes of the parts of `x` that `indices` select.
fn reached(x: &Tensor, indices: &[&Tensor]) -> Result<Dims> {
    let dims: SmallVec<[usize; 16]> = indices[0].dims().iter().chain(&x.dims()[indices.len()..]).copied().collect();
    Dims::try_new(&dims)
}

/// One index vector for each point: the indices joined in a last dimension.
fn lower_points(f: &mut Func, indices: &[Value], sizes: &[usize]) -> Value {
    let wide = sizes[..indices.len()].iter().any(|&n| i32::try_from(n).is_err());
    let e = if wide { ElementType::S64 } else { ElementType::S32 };
    let mut column = indices[0].shape().to_vec();
    column.push(1);
    let columns: Vec<Value> = indices
        .iter()
        .zip(sizes)
        .map(|(i, &n)| {
            let at = lower_positions(f, i, n, true);
            let at = f.convert(&at, e);
            f.reshape(&at, &column)
        })
        .collect();
    f.concatenate(&columns, column.len() - 1)
}

impl Op for Index {
    const NAME: &'static str = "index";
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(Meta { dims: reached(x[0], &x[1..])?, dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let (places, indexed) = (list("p", x[1].dims.len()), all_whole(x.len() - 1));
        let indices = vec![&places[..]; x.len() - 1].join(", ");
        Axes::parse(&format!("{indexed} ..., {indices} -> {places} ..."), x, y).linear(&[1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let indices: SmallVec<[_; 4]> = x[1..].iter().map(|i| i.view()).collect();
        kernels::index(&x[0].view(), &indices, &self.dims, &mut y[0].view_mut()).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let k = x.len() - 1;
        if y[0].numel() == 0 {
            return smallvec![f.splat(0.0, &y[0].ty())];
        }
        let at = lower_points(f, &x[1..], x[0].shape());
        let points = x[1].rank();
        let mut sizes = x[0].shape().to_vec();
        sizes[..k].fill(1);
        let dims = GatherDims {
            offset_dims: (points..y[0].dims.len()).collect(),
            collapsed_slice_dims: (0..k).collect(),
            start_index_map: (0..k).collect(),
            index_vector_dim: points,
            ..GatherDims::default()
        };
        smallvec![f.gather(&x[0], &at, &dims, &sizes, false)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let zeros = zeros_like(s.meta(0))?;
        let mut operands: SmallVec<[&Tensor; 6]> = smallvec![&zeros, g];
        operands.extend((1..s.len()).map(|i| s.x(i)));
        let mut grads: Grads = smallvec![None; s.len()];
        grads[0] = Some(dispatch::call(Prim::IndexPut(IndexPut { dims: self.dims, accumulate: true }), &operands)?);
        Ok(grads)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(u64::MAX - 1)
    }
}

/// `y = x`, but `y[i0[p..], i1[p..], .., r..]` is replaced by, or added to, `values[p.., r..]`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n0, n1, .., r..]` | any |
/// | values | broadcasts to `[p.., r..]` | that of `x` |
/// | i0, i1, .. | `[p..]`, the same for all | `int64` or `int32`; negative ones count from the end |
/// | y | that of `x` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexPut {
    /// The indexed dimensions of the user's tensor, for messages.
    pub dims: Dims,
    /// Whether to add; else to replace. Of several values for an element the last one stays on `cpu`, any one on a
    /// device.
    pub accumulate: bool,
}

impl Op for IndexPut {
    const NAME: &'static str = "index_put";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        !self.accumulate
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if x[0].dtype() != x[1].dtype() {
            return Err(Error::runtime(format!(
                "Index put requires the source and destination dtypes match, got {} for the destination and {} for the \
                source.",
                x[0].dtype().scalar_type(),
                x[1].dtype().scalar_type()
            )));
        }
        let to = reached(x[0], &x[2..])?;
        let v = x[1].dims();
        let fits =
            v.len() <= to.len() && (1..=v.len()).all(|i| v[v.len() - i] == 1 || v[v.len() - i] == to[to.len() - i]);
        if !fits {
            return Err(Error::runtime(format!(
                "shape mismatch: value tensor of shape {v} cannot be broadcast to indexing result of shape {to}"
            )));
        }
        Ok(Meta { place: same_device(x)?, ..*x[0].meta() })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // Values that are added may come in parts. Values that replace depend on the order.
        let rank = x[2].dims.len();
        let places = if self.accumulate { list("p", rank) } else { all_whole(rank) };
        let (indexed, row) = (all_whole(x.len() - 2), list("r", x[0].dims.len() + 2 - x.len()));
        let values = last(&format!("{places} {row}"), x[1].dims.len());
        let text = format!("{indexed} {row}, {values}, {} -> {indexed} {row}", vec![places; x.len() - 2].join(", "));
        let mut axes = Axes::parse(&text, x, y);
        for place in names("p", rank) {
            axes = axes.reduces(&place, Combine::Sum);
        }
        axes.once(0b01).linear(&[0b11])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        copy_of(x[0], &y[0]);
        let to = reached(x[0], &x[2..])?;
        let strides = broadcast_strides(x[1], &to);
        let indices: SmallVec<[_; 4]> = x[2..].iter().map(|i| i.view()).collect();
        kernels::index_put(&mut y[0].view_mut(), &indices, &self.dims, &x[1].view_as(&to, &strides), self.accumulate)
            .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let k = x.len() - 2;
        let to = [x[2].shape(), &x[0].shape()[k..]].concat();
        if to.contains(&0) || x[0].ty().numel() == 0 {
            return smallvec![x[0].clone()];
        }
        let at = lower_points(f, &x[2..], x[0].shape());
        let values = f.broadcast_to(&x[1], &to);
        let points = x[2].rank();
        let dims = ScatterDims {
            update_window_dims: (points..to.len()).collect(),
            inserted_window_dims: (0..k).collect(),
            scatter_dims_to_operand_dims: (0..k).collect(),
            index_vector_dim: points,
            ..ScatterDims::default()
        };
        let join = if self.accumulate { Join::Add } else { Join::Set };
        let is_single = x[2].ty().numel() == 1;
        let put = |f: &mut Func, x: &Value, values: &Value| f.scatter(x, &at, values, &dims, join);
        smallvec![lower_scatter(f, &x[0], &values, join, is_single, put)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let indices: SmallVec<[&Tensor; 6]> = (2..s.len()).map(|i| s.x(i)).collect();
        let mut grads: Grads = smallvec![None; s.len()];
        if s.needs(0) {
            grads[0] = Some(if self.accumulate {
                g.clone()
            } else {
                let zero = Tensor::number(Scalar::Float(0.0), g.dtype())?;
                let mut operands: SmallVec<[&Tensor; 6]> = smallvec![g, &zero];
                operands.extend(indices.iter().copied());
                dispatch::call(Prim::IndexPut(*self), &operands)?
            });
        }
        if s.needs(1) {
            let mut operands: SmallVec<[&Tensor; 6]> = smallvec![g];
            operands.extend(indices);
            grads[1] =
                Some(dispatch::call(Prim::Index(Index { dims: self.dims }), &operands)?.sum_to(&s.meta(1).dims)?);
        }
        Ok(grads)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(u64::MAX - 3)
    }
}

/// Replace masks by the positions of their ones, and move integers to the device of `x`.
fn positions_of(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut all: Vec<Option<Tensor>> = Vec::with_capacity(indices.len());
    for (i, index) in indices.iter().enumerate() {
        let Some(index) = index else {
            all.push(None);
            continue;
        };
        match index.dtype() {
            DType::Bool | DType::U8 => {
                let start = all.len();
                for d in 0..index.dims().len() {
                    if x.dims().get(start + d) != Some(&index.dims()[d]) {
                        return Err(mask_mismatch(x, index, i, start, d));
                    }
                }
                let found = nonzero(index)?;
                let found = to_device(&found, x.place())?;
                if index.dims().is_empty() {
                    return Err(Error::not_implemented("indexing with a 0-dimensional mask is not supported")
                        .note("use x.unsqueeze(0)[mask.unsqueeze(0)]"));
                }
                for d in 0..index.dims().len() {
                    all.push(Some(found.select(1, d as i64)?));
                }
            }
            DType::I64 | DType::I32 => {
                if index.place() != x.place() && !index.place().in_memory() {
                    return Err(Error::runtime(format!(
                        "indices should be either on cpu or on the same device as the indexed tensor ({})",
                        x.place()
                    )));
                }
                all.push(Some(to_device(index, x.place())?));
            }
            _ => return Err(Error::index("tensors used as indices must be long, int, byte or bool tensors")),
        }
    }
    if all.len() > x.dims().len() {
        return Err(Error::index(format!(
            "too many indices for tensor of dimension {} (got {})",
            x.dims().len(),
            all.len()
        )));
    }
    Ok(all)
}

fn mask_mismatch(x: &Tensor, mask: &Tensor, i: usize, start: usize, d: usize) -> Error {
    if start + d >= x.dims().len() {
        return Error::index(format!(
            "too many indices for tensor of dimension {} (got {})",
            x.dims().len(),
            start + mask.dims().len()
        ));
    }
    Error::index(format!(
        "The shape of the mask {} at index {} does not match the shape of the indexed tensor {} at index {}",
        mask.dims(),
        d,
        x.dims(),
        i.max(start) + d
    ))
}

/// A prepared indexing expression: indexed dimensions in front, and indices of one shape.
struct Plan {
    /// The indexed dimensions, ascending.
    dims: Dims,
    /// Order that brings them to the front.
    order: Vec<i64>,
    /// Indices, broadcast.
    indices: Vec<Tensor>,
    /// Number of dimensions of the result before those of the indices.
    before: usize,
}

impl Plan {
    fn new(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Plan> {
        let all = positions_of(x, indices)?;
        let indexed: Vec<usize> = all.iter().enumerate().filter(|(_, i)| i.is_some()).map(|(d, _)| d).collect();
        let given: Vec<&Tensor> = all.iter().flatten().collect();
        let mut points = Dims::EMPTY;
        for i in &given {
            points = crate::op::broadcast_dims(&points, i.dims()).map_err(|_| {
                let shapes: Vec<String> = given.iter().map(|i| i.dims().to_string()).collect();
                Error::index(format!(
                    "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                    shapes.join(", ")
                ))
            })?;
        }
        let numel = points.numel();
        for &d in &indexed {
            if x.dims()[d] == 0 && numel > 0 {
                return Err(Error::index("index is out of bounds for dimension with size 0".to_string()));
            }
        }
        let adjacent = indexed.windows(2).all(|w| w[1] == w[0] + 1);
        let order = indexed.iter().copied().chain((0..x.dims().len()).filter(|d| !indexed.contains(d)));
        Ok(Plan {
            order: order.map(|d| d as i64).collect(),
            before: if adjacent { indexed.first().copied().unwrap_or(0) } else { 0 },
            dims: indexed.iter().copied().collect(),
            indices: given.iter().map(|i| i.expand_dims(&points)).collect::<Result<_>>()?,
        })
    }
    fn is_trivial(&self) -> bool {
        self.order.iter().enumerate().all(|(i, &d)| i as i64 == d)
    }
    fn front(&self, x: &Tensor) -> Result<Tensor> {
        if self.is_trivial() { Ok(x.clone()) } else { x.permute(&self.order) }
    }
    fn back(&self, x: &Tensor) -> Result<Tensor> {
        if self.is_trivial() {
            return Ok(x.clone());
        }
        let mut inverse = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(i, &d)| inverse[d as usize] = i as i64);
        x.permute(&inverse)
    }
    fn points(&self) -> usize {
        self.indices.first().map_or(0, |i| i.dims().len())
    }
    /// Tie the indices to their errors, on a device.
    fn guard(&mut self, x: &Tensor, op: &'static str) -> Result<()> {
        for (i, &d) in self.indices.iter_mut().zip(&self.dims) {
            let size = x.dims()[d];
            *i = guard(i, -(size as i64), size, move |i| out_of_bounds(i, d, size).in_op(op))?;
        }
        Ok(())
    }
}

/// `x[i0, i1, ..]` with tensors: integers (negative ones count from the end) and masks. `None` takes all of a
/// dimension.
///
/// As in NumPy, the dimensions of the indices replace the indexed ones if those are adjacent, else they come first.
///
/// # Errors
/// `Index` for indices that do not fit or are out of range.
pub fn index(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let mut plan = Plan::new(x, indices)?;
    if plan.indices.is_empty() {
        return x.view_dims(*x.dims());
    }
    plan.guard(x, "index")?;
    let front = plan.front(x)?;
    let mut operands: SmallVec<[&Tensor; 6]> = smallvec![&front];
    operands.extend(plan.indices.iter());
    let y = dispatch::call(Prim::Index(Index { dims: plan.dims }), &operands)?;
    if plan.before == 0 {
        return Ok(y);
    }
    // [points.., before.., after..] to [before.., points.., after..]
    let (p, b) = (plan.points(), plan.before);
    let order: Vec<i64> = (p..p + b).chain(0..p).chain(p + b..y.dims().len()).map(|d| d as i64).collect();
    y.permute(&order)?.contiguous()
}

/// `x` with `x[i0, i1, ..]` replaced by `values`, or with `values` added there.
///
/// # Errors
/// `Index` for indices that do not fit or are out of range, `Runtime` for values that do not.
pub fn index_put(x: &Tensor, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<Tensor> {
    let values = if values.dims().is_empty() && values.place().in_memory() {
        values.clone()
    } else {
        to_device(values, x.place())?
    };
    if x.dtype() != values.dtype() {
        Plan::new(x, indices)?; // errors of the indices come first
        return Err(Error::runtime(format!(
            "Index put requires the source and destination dtypes match, got {} for the destination and {} for the \
            source.",
            x.dtype().scalar_type(),
            values.dtype().scalar_type()
        )));
    }
    if let Some(y) = put_by_mask(x, indices, &values, accumulate)? {
        return Ok(y);
    }
    let mut plan = Plan::new(x, indices)?;
    if plan.indices.is_empty() {
        check_expands(&values, x.dims())?;
        let v = values.expand_dims(x.dims())?;
        return if accumulate { x.add(&v) } else { v.copy() };
    }
    let front = plan.front(x)?;
    // The values have the order of dimensions of the result of indexing.
    let (p, b) = (plan.points(), plan.before);
    let values = if b == 0 {
        values
    } else {
        let rest = &front.dims()[plan.indices.len()..];
        let to: Vec<usize> = rest[..b].iter().chain(plan.indices[0].dims().iter()).chain(&rest[b..]).copied().collect();
        let to = Dims::try_new(&to)?;
        check_expands(&values, &to)?;
        let order: Vec<i64> = (b..b + p).chain(0..b).chain(b + p..to.len()).map(|d| d as i64).collect();
        if values.dims().is_empty() { values } else { values.expand_dims(&to)?.permute(&order)? }
    };
    plan.guard(x, "index_put")?;
    let mut operands: SmallVec<[&Tensor; 6]> = smallvec![&front, &values];
    operands.extend(plan.indices.iter());
    let y = dispatch::call_update(Prim::IndexPut(IndexPut { dims: plan.dims, accumulate }), &operands, 0)?;
    plan.back(&y)
}

fn check_expands(values: &Tensor, to: &Dims) -> Result<()> {
    let v = values.dims();
    if v.len() <= to.len() && (1..=v.len()).all(|i| v[v.len() - i] == 1 || v[v.len() - i] == to[to.len() - i]) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "shape mismatch: value tensor of shape {v} cannot be broadcast to indexing result of shape {to}"
    )))
}

/// `x[mask] = v` for the same `v` at all positions of the mask: a choice without positions, for which the host reads
/// nothing. `None` for other expressions.
fn put_by_mask(x: &Tensor, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<Option<Tensor>> {
    // On `cpu`, adding at the positions costs less than adding zeros elsewhere.
    if accumulate && x.place().in_memory() {
        return Ok(None);
    }
    let mut given = indices.iter().enumerate().filter_map(|(d, i)| i.as_ref().map(|i| (d, i)));
    let (Some((at, mask)), None) = (given.next(), given.next()) else { return Ok(None) };
    let r = mask.dims().len();
    let covers = matches!(mask.dtype(), DType::Bool | DType::U8)
        && at + r <= x.dims().len()
        && mask.dims()[..] == x.dims()[at..at + r];
    if !covers {
        return Ok(None);
    }
    let rest = x.dims().len() - at - r;
    let mut dims = *values.dims();
    if dims.len() > rest {
        let i = dims.len() - 1 - rest;
        if dims[i] != 1 || dims.len() + r > crate::dims::MAX_DIMS + 1 {
            return Ok(None);
        }
        dims.remove(i);
        (0..r).for_each(|_| dims.insert(i, 1));
    }
    if dims.len() > x.dims().len()
        || (1..=dims.len()).any(|i| dims[dims.len() - i] != 1 && dims[dims.len() - i] != x.dims()[x.dims().len() - i])
    {
        return Ok(None);
    }
    let values = values.reshape_dims(dims)?;
    let mut mask_dims = *mask.dims();
    (0..rest).for_each(|_| mask_dims.push(1));
    let mask = to_device(mask, x.place())?.to_dtype(DType::Bool)?.reshape_dims(mask_dims)?;
    if !accumulate {
        return dispatch::call_update(Prim::Select(pointwise::Select), &[&mask, &values, x], 2).map(Some);
    }
    let zero = Tensor::number(Scalar::Int(0), x.dtype())?;
    x.add(&pointwise::select(&mask, &values, &zero)?).map(Some)
}

fn some(dims: &[usize], fill: Fill) -> Option<(Vec<usize>, Fill)> {
    Some((dims.to_vec(), fill))
}

fn index_samples() -> Vec<Sample> {
    let one = |v: Vec<Option<(Vec<usize>, Fill)>>| Sample::new(vec![t(&[3, 4, 2]), SampleArg::OptTensors(v)]);
    vec![
        one(vec![some(&[5], Fill::Index(3))]).dtypes(KINDS),
        one(vec![None, some(&[2, 2], Fill::Index(4))]),
        one(vec![some(&[2, 1], Fill::Index(3)), some(&[3], Fill::Index(4))]),
        one(vec![some(&[2], Fill::Index(3)), None, some(&[2], Fill::Index(2))]),
        one(vec![some(&[3, 4], Fill::Mask)]),
        one(vec![None, some(&[4], Fill::Mask)]),
        one(vec![some(&[0], Fill::Index(3))]),
    ]
}

/// `index_put_` for a tensor that repeats its elements, which PyTorch allows with a warning.
#[cold]
fn put_into_repeated(row: &Row, x: &Tensor, args: &Args<'_>) -> Result<()> {
    warn_of_repeated("index_put_", "tensor[indices] = tensor")?;
    let none = Tensor::zeros_like_meta(&x.meta().with_dtype(DType::Bool))?;
    let ones = Tensor::ones(args.tensor(2)?.dims(), DType::Bool, x.place())?;
    let is_hit = index_put(&none, args.opt_tensors(1)?, &ones, false)?;
    inplace::assign_repeated(x, &row.call_on(x, args)?, &is_hit)
}

fn index_put_samples() -> Vec<Sample> {
    let one = |v: Vec<Option<(Vec<usize>, Fill)>>, values: SampleArg, add: bool| {
        Sample::new(vec![t(&[3, 4, 2]), SampleArg::OptTensors(v), values, n(add)])
    };
    vec![
        one(vec![some(&[5], Fill::Index(3))], t(&[5, 4, 2]), true).dtypes(&[DType::F64, DType::I64, DType::BF16]),
        one(vec![some(&[1], Fill::Index(3))], t(&[4, 2]), false),
        one(vec![None, some(&[2], Fill::Index(4))], t(&[3, 2, 2]), true),
        one(vec![some(&[3, 4], Fill::Mask)], t(&[]), false),
        one(vec![some(&[3], Fill::Mask)], t(&[1, 4, 2]), true),
        one(vec![None, some(&[4], Fill::Mask)], t(&[2]), false),
    ]
}

/// The indices, with zero where the mask does not hold. Zero is always within range.
fn where_masked(mask: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let clear = |i: &Tensor| {
        let zero = Tensor::number(Scalar::Int(0), i.dtype())?;
        pointwise::select(mask, i, &zero)
    };
    indices.iter().map(|i| i.as_ref().map(clear).transpose()).collect()
}

/// Advanced indexing where a mask holds, and a number elsewhere.
fn masked_index(x: &Tensor, mask: &Tensor, indices: &[Option<Tensor>], fill: Operand<'_>) -> Result<Tensor> {
    if x.numel() == 0 {
        let some = indices.iter().flatten().map(|i| *i.dims()).collect::<Vec<_>>();
        let mut dims = *mask.dims();
        for d in some {
            dims = crate::op::broadcast_dims(&dims, &d)?;
        }
        let empty = pointwise::independent_of(&x.sum()?, zeros_like(&x.meta().with_dims(dims))?)?;
        return masked_fill(&empty, &mask.logical_not()?, fill);
    }
    masked_fill(&index(x, &where_masked(mask, indices)?)?, &mask.logical_not()?, fill)
}

/// Add values at indices where a mask holds.
fn masked_index_add(x: &Tensor, mask: &Tensor, indices: &[Option<Tensor>], values: &Tensor) -> Result<Tensor> {
    if x.numel() == 0 {
        return x.copy();
    }
    let zero = Tensor::number(Scalar::Int(0), values.dtype())?;
    let values = pointwise::select(mask, values, &zero)?;
    index_put(x, &where_masked(mask, indices)?, &values, true)
}

/// Rows of indexing expressions.
pub const ROWS: &[Row] = &[
    Row::new(
        "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
        Tier::Composed,
        |a| ok(masked_index(a.tensor(0)?, a.tensor(1)?, a.opt_tensors(2)?, a.operand(3)?)),
        || {
            let at = SampleArg::OptTensors(vec![some(&[2, 2], Fill::Index(3))]);
            vec![Sample::new(vec![t(&[3]), mask_arg(&[2, 2]), at, n(0.5)])]
        },
    )
    .doc(
        "Return `input[indices]` where `mask` is true, and `fill` elsewhere; indices are not looked at where `mask` \
         is false.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
        Tier::Composed,
        |a| ok(masked_index_add(a.tensor(0)?, a.tensor(1)?, a.opt_tensors(2)?, a.tensor(3)?)),
        || {
            let at = SampleArg::OptTensors(vec![some(&[2, 2], Fill::Index(3))]);
            vec![Sample::new(vec![t(&[3]), mask_arg(&[2, 2]), at, t(&[2, 2])])]
        },
    )
    .doc("Return a copy of `input` with `values` added at `indices` where `mask` is true.")
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
        Tier::Prim,
        |a| ok(index(a.tensor(0)?, a.opt_tensors(1)?)),
        index_samples,
    )
    .doc(
        "Return `input[indices]` for a list of index tensors, one a dimension, where `None` takes all of a \
         dimension. Integer tensors broadcast, and negative positions count from the end. A `bool` or `uint8` mask \
         stands for the positions of its nonzero elements. The dimensions of the indices come where the indexed ones \
         were if those are adjacent, else in front.",
    )
    .scope(Scope::Function),
    Row::new(
        "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
        Tier::Prim,
        |a| ok(index_put(a.tensor(0)?, a.opt_tensors(1)?, a.tensor(2)?, a.bool(3)?)),
        index_put_samples,
    )
    .doc(
        "Return a copy of `input` with `values` written to `input[indices]`, where `indices` is a tuple of tensors \
         as for `torch.ops.aten.index`. `values` has the dtype of `input` and broadcasts. With `accumulate=True` the \
         values are added. Without it, if a position is named more than once, the last value wins on `cpu`, and any \
         of them on `tpu`.",
    )
    .inplace()
    .writes_repeated(put_into_repeated)
    .writes_overlapping(overlapping::put)
    .scatters_in_place()
    .autocast(Policies::accelerator(Policy::Widest))
    .in_place_function(),
];
