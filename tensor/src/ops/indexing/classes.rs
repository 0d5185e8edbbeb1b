//! One-hot vectors, and membership in a set.

use super::{count_up, guard, ok};
use crate::backend::{Absence, absent_elements};
use crate::ops::pointwise;
use crate::ops::sort::host_of_classes;
use crate::schema::{Numbers, Operand, Row, Sample, Scope, Tier, index as index_arg, n};
use crate::{DType, Error, Held, Result, Tensor};

/// `torch.nn.functional.one_hot`. With -1 classes, the number is the largest value plus one, which the host then reads.
///
/// # Errors
/// `Runtime` for a dtype other than `int64`, or a value outside the classes.
pub fn one_hot(x: &Tensor, classes: i64) -> Result<Tensor> {
    if x.dtype() != DType::I64 {
        return Err(Error::runtime("one_hot is only applicable to index tensor of type LongTensor."));
    }
    if x.numel() == 0 && classes <= 0 {
        return Err(Error::runtime("Can not infer total number of classes from empty tensor."));
    }
    let (negative, too_large) =
        ("Class values must be non-negative.", "Class values must be smaller than num_classes.");
    let mut x = x.clone();
    let classes = match (classes, x.place().held()) {
        (-1, Held::Abstract) => {
            return Err(absent_elements(&x, Absence::ITEM, || {
                Error::not_implemented("one_hot of a meta tensor needs the number of classes")
            }));
        }
        (-1, _) | (_, Held::Memory) => {
            let host = if classes == -1 { host_of_classes(&x)? } else { x.detach() };
            let values = host.to_vec::<i64>()?;
            if values.iter().any(|&v| v < 0) {
                return Err(Error::runtime(negative));
            }
            let most = values.iter().max().map_or(0, |m| m.saturating_add(1));
            if classes != -1 && values.iter().any(|&v| v >= classes) {
                return Err(Error::runtime(too_large));
            }
            if classes == -1 { most } else { classes }
        }
        (n, Held::Handle) => {
            let error = move |v: i64| Error::runtime(if v < 0 { negative } else { too_large }).in_op("one_hot");
            x = guard(&x, 0, n.max(0) as usize, error)?;
            n
        }
        (n, Held::Abstract) => n,
    };
    if classes < 1 {
        return Err(Error::runtime("num_classes should be positive"));
    }
    x.unsqueeze(-1)?.eq(&count_up(classes as usize, x.place())?)?.to_dtype(DType::I64)
}

/// `torch.isin`: whether each element is one of the test elements.
fn isin(x: &Tensor, test: &Tensor, invert: bool) -> Result<Tensor> {
    for t in [x, test] {
        if t.dtype().is_complex() {
            return Err(Error::not_implemented(format!(
                "Unsupported input type encountered for isin(): {}",
                t.dtype().scalar_type()
            )));
        }
    }
    let hit = x.unsqueeze(-1)?.eq(&test.reshape(&[-1])?)?;
    let last = hit.dims().len() as i64 - 1;
    let y = crate::ops::reduce::reduce(crate::ops::reduce::ReduceKind::Any, &hit, Some(&[last]), false)?;
    if invert { y.logical_not() } else { Ok(y) }
}

/// The operand as a tensor of its own dtype.
fn own(x: Operand<'_>) -> Result<Tensor> {
    match x {
        Operand::Tensor(t) => Ok(t.clone()),
        Operand::Scalar(s) => Tensor::number(s, s.dtype()),
    }
}

/// Rows of classes and sets.
pub const ROWS: &[Row] = &[
    Row::new(
        "one_hot(Tensor self, int num_classes=-1) -> Tensor",
        Tier::Composed,
        |a| ok(one_hot(a.tensor(0)?, a.int(1)?)),
        || {
            vec![
                Sample::new(vec![index_arg(&[2, 3], 4), n(5)]).no_gradient(),
                Sample::new(vec![index_arg(&[4], 3)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return vectors with a 1 at the position that each element of `input` names, and 0 elsewhere. The result \
         has the shape of `input` and a last dimension of size `num_classes`, and is `int64`, as `input` must be. \
         Without `num_classes` it is the greatest element plus 1. Elements that are negative or not below \
         `num_classes` are errors.",
    )
    .scope(Scope::Nn)
    .no_out(),
    Row::new(
        "isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool \
        invert=False) -> Tensor",
        Tier::Composed,
        |a| {
            // The choice of the overload treats a number as a tensor.
            let (x, test) = (own(a.operand(0)?)?, own(a.operand(1)?)?);
            let test = if test.is_wrapped_number() { test.to_device(x.place())? } else { test };
            ok(isin(&x, &test, a.bool(3)?))
        },
        || vec![Sample::new(vec![index_arg(&[2, 3], 9), index_arg(&[4], 9)]).no_gradient()],
    )
    .doc(
        "Return `True` where an element of `elements` is one of `test_elements`, as `bool`; with `invert`, where it \
         is none of them. One of the two may be a number. NaN is equal to nothing. `assume_unique` changes nothing. \
         Complex tensors are refused.",
    )
    .scope(Scope::Function)
    .numbers(Numbers::One),
    Row::new(
        "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) \
        -> Tensor",
        Tier::Composed,
        |a| {
            let y = pointwise::compare(
                if a.bool(3)? { pointwise::CompareKind::Ne } else { pointwise::CompareKind::Eq },
                a.operand(0)?,
                a.operand(1)?,
            )?;
            Ok(y.into())
        },
        || vec![Sample::new(vec![index_arg(&[2, 3], 4), n(2)]).no_gradient()],
    )
    .scope(Scope::Function)
    .numbers(Numbers::One),
    Row::new(
        "isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) \
        -> Tensor",
        Tier::Composed,
        |a| ok(isin(&own(a.operand(0)?)?.to_device(a.tensor(1)?.place())?, a.tensor(1)?, a.bool(3)?)),
        || vec![Sample::new(vec![n(2), index_arg(&[4], 4)]).no_gradient()],
    )
    .scope(Scope::Function)
    .numbers(Numbers::One),
];
