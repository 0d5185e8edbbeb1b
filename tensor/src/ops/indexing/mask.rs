//! Selecting, filling and finding elements by a mask.

use super::index_select::{IndexSelect, index_copy};
use super::overlapping;
use super::{KINDS, at_least_1d, copy_of, count_up, defer, fill_value, ok, to_device};
use crate::backend::{Absence, absent_elements};
use crate::op::Prim;
use crate::ops::pointwise::{self, kernel_error};
use crate::schema::{
    Aliasing, Args, Numbers, Operand, OutDType, Ret, Row, Sample, Scope, Tier, index as index_arg, mask as mask_arg,
    messages, n, t,
};
use crate::{DType, Dims, Error, Held, Meta, Place, Result, Scalar, Tensor, dispatch, inplace, samples, state};
use torchtpu_kernels::index as kernels;

fn check_mask(op: &str, mask: &Tensor) -> Result<()> {
    if mask.dtype() == DType::Bool {
        return Ok(());
    }
    Err(Error::runtime(format!("{op} only supports boolean masks, but got mask with dtype {}", mask.dtype().c_name())))
}

/// `torch.masked_fill`: a number where the mask is true.
///
/// # Errors
/// `Runtime` for a mask that is not `bool`, or a value with dimensions.
pub fn masked_fill(x: &Tensor, mask: &Tensor, value: Operand<'_>) -> Result<Tensor> {
    check_mask("masked_fill_", mask)?;
    let value = match value {
        Operand::Tensor(v) if !v.dims().is_empty() => {
            return Err(Error::runtime(format!(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                v.dims().len()
            )));
        }
        v => fill_value("masked_fill_", x, v)?,
    };
    dispatch::call_update(Prim::Select(pointwise::Select), &[mask, &value, x], 2)
}

/// The in-place form, whose error about sizes begins with those of the tensor.
fn masked_fill_(a: &Args<'_>) -> Result<Ret> {
    let (x, mask) = (a.tensor(0)?, a.tensor(1)?);
    check_mask("masked_fill_", mask)?;
    crate::op::broadcast_dims(x.dims(), mask.dims())?;
    if inplace::repeats_elements(x) {
        crate::schema::warn_of_repeated("masked_fill_", "tensor[mask] = scalar")?;
        let mask = mask.expand_dims(x.dims())?;
        inplace::assign_repeated(x, &masked_fill(x, &mask, a.operand(2)?)?, &mask)?;
        return Ok(x.clone().into());
    }
    inplace::update(x, |x| masked_fill(x, mask, a.operand(2)?))?;
    Ok(x.clone().into())
}

/// `torch.nonzero`: positions of the elements that are not zero, one in each row. On a device the host reads the
/// values.
///
/// # Errors
/// The errors of reading the values.
pub fn nonzero(x: &Tensor) -> Result<Tensor> {
    if x.place().is_abstract() {
        return Err(absent_elements(x, Absence::Size("nonzero.default"), || {
            Error::not_implemented("nonzero of a meta tensor: its number of rows depends on the values")
        }));
    }
    if x.dtype().is_stored() {
        return nonzero(&x.ne_scalar(0)?);
    }
    // A planned device has no values. Take the first elements for those that are not zero.
    let host = crate::backend::fetch_sizes(x, x.numel(), |rows| {
        count_up(x.numel(), Place::CPU)?.lt_scalar(rows as i64)?.reshape_dims(*x.dims())
    })?;
    let found = kernels::count_nonzero(&host.view());
    let y = Tensor::empty(&Meta::new(&[found, x.dims().len()], DType::I64, Place::CPU))?;
    if y.numel() > 0 {
        kernels::nonzero(&host.view(), &mut y.view_mut());
    }
    to_device(&y, x.place())
}

/// `torch.masked_select`: the elements where the mask is true, as a vector. On a device the host reads the mask.
///
/// # Errors
/// `Runtime` for a mask that is not `bool` or shapes that do not broadcast.
pub fn masked_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    if mask.dtype() != DType::Bool {
        return Err(Error::runtime("masked_select: expected BoolTensor for mask"));
    }
    crate::op::check_same_device(x, mask)?;
    let dims = crate::op::broadcast_dims(x.dims(), mask.dims())?;
    let (x, mask) = (x.expand_dims(&dims)?, mask.expand_dims(&dims)?);
    if x.place().in_memory() && !crate::graph::may_need_grad(&[&x]) {
        let y = Tensor::empty(&x.meta().with_dims(Dims::new(&[kernels::count_nonzero(&mask.view())])))?;
        kernels::masked_select(&x.resolved()?.view(), &mask.view(), &mut y.view_mut());
        return Ok(y);
    }
    if mask.place().is_abstract() {
        return Err(absent_elements(&mask, Absence::Size("masked_select.default"), || {
            Error::not_implemented("masked_select of a meta tensor: its number of elements depends on the values")
        }));
    }
    let at = nonzero(&mask.reshape(&[-1])?)?.select(1, 0)?;
    dispatch::call(Prim::IndexSelect(IndexSelect { dim: 0 }), &[&x.reshape(&[-1])?, &at])
}

/// `torch.masked_scatter`: the elements of `source`, in order, where the mask is true.
///
/// # Errors
/// `Runtime` for a mask that is not `bool`, dtypes or devices that differ, or too few elements.
pub fn masked_scatter(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    crate::op::same_device(&[x, mask, source])?;
    if let Some(other) = [mask, source].into_iter().find(|t| t.place() != x.place()) {
        return Err(Error::runtime(format!(
            "masked_scatter: expected self, mask and source to be on the same device but got {} and {}",
            x.place(),
            other.place()
        )));
    }
    if x.dtype() != source.dtype() {
        return Err(Error::runtime(format!(
            "masked_scatter: expected self and source to have same dtypes but got {} and {}",
            x.dtype().scalar_type(),
            source.dtype().scalar_type()
        )));
    }
    if mask.dtype() != DType::Bool {
        return Err(Error::runtime(format!(
            "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
            mask.dtype().scalar_type()
        )));
    }
    let dims = crate::op::broadcast_dims(x.dims(), mask.dims())?;
    let is_widened = *x.dims() != dims;
    let (x, mask) = (x.expand_dims(&dims)?, mask.expand_dims(&dims)?);
    if x.numel() == 0 {
        return Ok(x);
    }
    let too_few = || {
        Error::runtime(
            "masked_scatter: expected self and source to have the number of elements in source to be at least the \
            number of ones in mask",
        )
    };
    let n = source.numel();
    let flat = mask.reshape(&[-1])?;
    let flat = match x.place().held() {
        Held::Memory if kernels::count_nonzero(&mask.view()) > n => return Err(too_few()),
        Held::Handle => state::no_grad(|| {
            let ones = crate::ops::reduce::reduce(crate::ops::reduce::ReduceKind::Sum, &flat, None, false)?;
            defer(&ones.gt_scalar(n as i64)?, too_few().in_op("masked_scatter"))?.tied(&flat)
        })?,
        _ => flat,
    };
    let mask = flat.reshape_dims(dims)?;
    if n == 0 {
        // On a device, the mask decides whether the result is an error.
        return if x.place().has_handle() { pointwise::select(&mask, &x, &x) } else { Ok(x) };
    }
    if x.place().in_memory() && !crate::graph::may_need_grad(&[&x, source]) {
        let destination = if is_widened { None } else { inplace::destination(&x, &[&mask, source])? };
        let y = match destination {
            Some(y) => y,
            None => {
                let y = Tensor::empty(x.meta())?;
                copy_of(&x.resolved()?, &y);
                y
            }
        };
        kernels::masked_scatter(&mut y.view_mut(), &mask.view(), &source.resolved()?.view()).map_err(kernel_error)?;
        return Ok(y);
    }
    // The position of an element's value in the source is the number of ones up to it, minus one.
    let at = crate::ops::scan::cumsum(&flat, 0)?.sub_scalar(1)?.maximum_scalar(0)?.minimum_scalar(n as i64 - 1)?;
    let values = dispatch::call(Prim::IndexSelect(IndexSelect { dim: 0 }), &[&source.reshape(&[-1])?, &at])?;
    pointwise::select(&mask, &values.reshape_dims(dims)?, &x)
}

/// Positions of the elements that are not zero, in a given number; missing ones are `fill`. The host reads nothing.
fn nonzero_static(x: &Tensor, size: i64, fill: i64) -> Result<Tensor> {
    if size < 0 {
        return Err(Error::runtime("nonzero_static: 'size' must be an non-negative integer"));
    }
    let (x, size) = (x.detach(), size as usize);
    let rank = x.dims().len();
    let full = |dims: &[usize]| Tensor::full(dims, fill, DType::I64, x.place());
    if rank == 0 || x.numel() == 0 || size == 0 {
        return full(&[size, rank]);
    }
    let found = x.reshape(&[-1])?.ne_scalar(0)?;
    // The number of each element among those found. Elements that are zero, or too many, go to one additional place.
    let number = found.to_dtype(DType::I64)?.cumsum(0)?.sub_scalar(1)?;
    let beyond = Tensor::number(Scalar::Int(size as i64), DType::I64)?;
    let fits = found.logical_and(&number.lt_scalar(size as i64)?)?;
    let place = pointwise::select(&fits, &number, &beyond)?;
    let none = Tensor::full(&[size + 1], -1, DType::I64, x.place())?;
    let at = index_copy(&none, 0, &place, &count_up(x.numel(), x.place())?)?.narrow(0, 0, size as i64)?;
    let missing = at.lt_scalar(0)?;
    let filler = Tensor::number(Scalar::Int(fill), DType::I64)?;
    let mut columns = Vec::new();
    let mut rest = at;
    for &n in x.dims().iter().rev() {
        let part = rest.remainder_scalar(n as i64)?;
        columns.push(pointwise::select(&missing, &filler, &part)?);
        rest = rest.floor_divide_scalar(n as i64)?;
    }
    columns.reverse();
    crate::ops::concat::stack(&columns.iter().collect::<Vec<_>>(), 1)
}

/// Rows of masks.
pub const ROWS: &[Row] = &[
    Row::new(
        "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
        Tier::Composed,
        |a| ok(nonzero_static(a.tensor(0)?, a.int(1)?, a.int(2)?)),
        || {
            vec![
                Sample::new(vec![mask_arg(&[3, 4]), n(6)]).no_gradient(),
                Sample::new(vec![index_arg(&[5], 2), n(2), n(7)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the positions of the first `size` nonzero elements of `input`, as `int64` of shape `(size, d)` with \
         `d` the number of dimensions. Missing rows are `fill_value`. Since the shape is known, the host need not \
         read the values.",
    ),
    Row::new(
        "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
        Tier::Composed,
        |a| ok(masked_fill(a.tensor(0)?, a.tensor(1)?, a.operand(2)?)?.contiguous()),
        samples!([t(&[2, 3]), mask_arg(&[2, 1]), t(&[])]),
    )
    .doc(
        "Return a copy of `input` with `value`, a number or a 0-d tensor, where `mask` is true. `mask` is `bool` \
         and broadcasts with `input`. Replaced elements have the gradient zero.",
    )
    .inplace_by(masked_fill_)
    .writes_overlapping(overlapping::write_masked)
    .reads_before_writing(),
    Row::new(
        "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
        Tier::Composed,
        |a| ok(masked_fill(a.tensor(0)?, a.tensor(1)?, a.operand(2)?)?.contiguous()),
        || vec![Sample::new(vec![t(&[2, 3]), mask_arg(&[3]), n(2)]).dtypes(KINDS)],
    )
    .inplace_by(masked_fill_)
    .writes_overlapping(overlapping::write_masked)
    .reads_before_writing(),
    Row::new(
        "masked_select(Tensor self, Tensor mask) -> Tensor",
        Tier::Composed,
        |a| ok(masked_select(a.tensor(0)?, a.tensor(1)?)),
        || {
            vec![
                Sample::new(vec![t(&[2, 3]), mask_arg(&[2, 3])]).dtypes(KINDS),
                Sample::new(vec![t(&[2, 3]), mask_arg(&[3])]),
            ]
        },
    )
    .doc(
        "Return the elements of `input` where `mask` is true, as a copy with one dimension. `mask` is `bool` and \
         broadcasts with `input`. The number of results depends on the values, so on a device the host reads the \
         mask.",
    )
    .out_aliasing(Aliasing::Refused),
    Row::new(
        "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
        Tier::Composed,
        |a| ok(masked_scatter(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?)),
        samples!([t(&[2, 3]), mask_arg(&[2, 3]), t(&[7])]),
    )
    .doc(
        "Return a copy of `input` with the elements of `source`, in row-major order, written where `mask` is true. \
         `mask` is `bool` and broadcasts with `input`; `source` has the dtype of `input`, and at least as many \
         elements as `mask` has true ones.",
    )
    .inplace_by(|a| {
        let x = a.tensor(0)?;
        inplace::update(x, |x| masked_scatter(x, a.tensor(1)?, a.tensor(2)?))?;
        Ok(x.clone().into())
    })
    .writes_overlapping(overlapping::write_masked)
    .reads_before_writing(),
    Row::new(
        "nonzero(Tensor self) -> Tensor",
        Tier::Composed,
        |a| ok(nonzero(a.tensor(0)?)),
        || {
            vec![
                Sample::new(vec![mask_arg(&[2, 3])]).no_gradient(),
                Sample::new(vec![index_arg(&[4], 2)]).no_gradient(),
                Sample::new(vec![t(&[])]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the positions of the nonzero elements of `input`, as `int64` of shape `(n, d)` with `d` the number \
         of dimensions, in row-major order. The number of rows depends on the values, so on a device the host reads \
         them.",
    )
    .out_dtype(OutDType::OneOf(&[DType::I64], messages::long_indices)),
    Row::new(
        "argwhere(Tensor self) -> Tensor",
        Tier::Composed,
        |a| ok(nonzero(a.tensor(0)?)),
        || vec![Sample::new(vec![mask_arg(&[2, 3])]).no_gradient()],
    )
    .doc("Return the positions of the nonzero elements of `input`, one a row, as `torch.nonzero` does.")
    .no_out(),
    Row::new(
        "nonzero_numpy(Tensor self) -> Tensor[]",
        Tier::Composed,
        |a| at_least_1d(a.tensor(0)?).and_then(|x| nonzero(&x)?.unbind(1)).map(Ret::List),
        || vec![Sample::new(vec![mask_arg(&[2, 3])]).no_gradient()],
    )
    .doc(
        "Return the positions of the nonzero elements of `input` as a tuple of `int64` vectors, one a dimension. A \
         0-d tensor counts as one of shape `(1,)`.",
    )
    .no_out(),
    Row::new(
        "where(Tensor condition) -> Tensor[]",
        Tier::Composed,
        |a| at_least_1d(a.tensor(0)?).and_then(|x| nonzero(&x)?.unbind(1)).map(Ret::List),
        || vec![Sample::new(vec![mask_arg(&[2, 3])]).no_gradient()],
    )
    .scope(Scope::Function)
    .no_out()
    .numbers(Numbers::Both),
];
