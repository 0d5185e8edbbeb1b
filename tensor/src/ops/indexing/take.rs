//! Elements of the flattened tensor, and `take_along_dim`.

use super::gather::gather;
use super::index::{Index, IndexPut};
use super::overlapping;
use super::{KINDS, guard, ok, out_of_bounds};
use crate::op::{Prim, check_same_device, normalize_dim};
use crate::ops::pointwise::{BinaryKind, arith, kernel_error};
use crate::schema::{Aliasing, Operand, Row, Sample, Tier, index as index_arg, n, t};
use crate::{DType, Dims, Error, ErrorKind, Result, Scalar, Tensor, dispatch, graph, inplace, samples};
use torchtpu_kernels::index as kernels;

/// `torch.take_along_dim`: [`gather`] with broadcasting. Without a dimension, the tensor is flattened.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn take_along_dim(x: &Tensor, index: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let Some(dim) = dim else { return gather(&x.reshape(&[-1])?, 0, &index.reshape(&[-1])?) };
    if x.dims().len() != index.dims().len() {
        return Err(Error::runtime(format!(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} \
            dimensions for input, and {} dimensions for indices",
            x.dims().len(),
            index.dims().len()
        )));
    }
    if index.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "torch.take_along_dim(): dtype of indices should be Long but got {}",
            index.dtype().scalar_type()
        )));
    }
    let d = normalize_dim(dim, x.dims().len())?;
    let without = |t: &Tensor| {
        let dims = *t.dims();
        if d < dims.len() { dims.with(d, 1) } else { dims }
    };
    let mut both = crate::op::broadcast_dims(&without(x), &without(index))?;
    if both.is_empty() {
        return gather(x, dim, index);
    }
    both.set(d, x.dims()[d]);
    let x = x.expand_dims(&both)?;
    both.set(d, index.dims()[d]);
    let index = index.expand_dims(&both)?;
    // Unlike in `gather`, an index is taken modulo the size here.
    let size = x.dims()[d] as i64;
    let size = Operand::Scalar(Scalar::Int(size.max(1)));
    gather(&x, dim, &arith(BinaryKind::Remainder, Operand::Tensor(&index), size)?)
}

/// `torch.take`: elements of the flattened tensor. Negative indices count from the end.
///
/// # Errors
/// `Index` for an index out of range or an empty tensor, `Runtime` for a wrong dtype.
pub fn take(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    if index.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "take(): Expected a long tensor for index, but got {}",
            index.dtype().scalar_type()
        )));
    }
    if x.numel() == 0 && index.numel() > 0 {
        return Err(Error::index("take(): tried to take from an empty tensor"));
    }
    index_flat(&x.reshape(&[-1])?, index).map_err(|e| flat_error(e, x.numel()))
}

/// Advanced indexing of a vector.
fn index_flat(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    let size = x.numel();
    let at = guard(index, -(size as i64), size, move |i| flat_error(out_of_bounds(i, 0, size), size).in_op("take"))?;
    dispatch::call(Prim::Index(Index { dims: Dims::new(&[0]) }), &[x, &at])
}

/// The error of `take` and `put`, which is about elements.
fn flat_error(e: Error, size: usize) -> Error {
    if e.kind() != ErrorKind::Index {
        return e;
    }
    let number = e.message().split(' ').nth(1).filter(|w| w.parse::<i64>().is_ok());
    Error::index(match number {
        Some(i) => format!("out of range: tried to access index {i} on a tensor of {size} elements."),
        None => format!("out of range: tried to access an index on a tensor of {size} elements."),
    })
}

/// `torch.put`: write elements of the flattened tensor. Negative indices count from the end.
///
/// # Errors
/// `Index` for an index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn put(x: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    if !accumulate {
        crate::state::alert_not_deterministic("put_")?;
    }
    if index.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "put_(): Expected a long tensor for index, but got {}",
            index.dtype().scalar_type()
        )));
    }
    if x.dtype() != source.dtype() {
        return Err(Error::runtime(format!(
            "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
            x.dtype().scalar_type(),
            source.dtype().scalar_type()
        )));
    }
    if index.numel() != source.numel() {
        return Err(Error::runtime(format!(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, \
            index.numel() = {}",
            source.numel(),
            index.numel()
        )));
    }
    check_same_device(x, index)?;
    check_same_device(x, source)?;
    let size = x.numel();
    if size == 0 && index.numel() > 0 {
        return Err(Error::index("put_(): Tried to put elements into an empty tensor"));
    }
    if !graph::may_need_grad(&[x, source])
        && let Some(y) = inplace::destination(x, &[index, source])?
    {
        // Indices of the flattened tensor, which is no view if the elements have gaps between them.
        let values = source.reshape_dims(*index.dims())?;
        kernels::put(&mut y.view_mut(), &index.view(), &values.view(), accumulate)
            .map_err(|e| kernel_error(e).in_op("put"))?;
        return Ok(y);
    }
    let op = IndexPut { dims: Dims::new(&[0]), accumulate };
    let (flat, at, src) = (x.reshape(&[-1])?, index.reshape(&[-1])?, source.reshape(&[-1])?);
    let at = guard(&at, -(size as i64), size, move |i| flat_error(out_of_bounds(i, 0, size), size).in_op("put"))?;
    let y = dispatch::call_update(Prim::IndexPut(op), &[&flat, &src, &at], 0).map_err(|e| flat_error(e, size))?;
    y.reshape_dims(*x.dims())
}

/// Rows of `take` and similar functions.
pub const ROWS: &[Row] = &[
    Row::new(
        "take(Tensor self, Tensor index) -> Tensor",
        Tier::Prim,
        |a| ok(take(a.tensor(0)?, a.tensor(1)?)),
        || vec![Sample::new(vec![t(&[2, 3]), index_arg(&[2, 2], 6)]).dtypes(KINDS)],
    )
    .doc(
        "Return the elements of the flattened `input` at the positions `index`, with the shape of `index`. `index` \
         is `int64`; negative positions count from the end. A position out of range raises `IndexError`.",
    )
    .out_aliasing(Aliasing::Refused),
    Row::new(
        "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
        Tier::Prim,
        |a| ok(put(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.bool(3)?)),
        samples!([t(&[2, 3]), index_arg(&[4], 6), t(&[4]), n(true)], [t(&[2, 3]), index_arg(&[1], 6), t(&[1])]),
    )
    .doc(
        "Return a copy of `input` with the elements of `source` written to the positions `index` of the flattened \
         tensor, or added with `accumulate=True`. `index` is `int64`; negative positions count from the end. \
         `source` has the dtype of `input`, and as many elements as `index`.",
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::put_flat),
    Row::new(
        "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
        Tier::Composed,
        |a| ok(take_along_dim(a.tensor(0)?, a.tensor(1)?, a.opt_int(2)?)),
        samples!([t(&[3, 4]), index_arg(&[1, 4], 3), n(0)], [t(&[2, 3]), index_arg(&[4], 6)]),
    )
    .doc(
        "Return the elements of `input` at the positions `indices` along `dim`. Both have the same number of \
         dimensions and broadcast in all but `dim`; `indices` is `int64`, and positions count modulo the size. \
         Without `dim`, positions of the flattened tensor are taken, as by `torch.gather`. The `indices` of \
         `torch.argsort` give the sorted tensor.",
    )
    .out_aliasing(Aliasing::Refused),
];
