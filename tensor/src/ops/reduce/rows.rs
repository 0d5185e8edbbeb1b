//! Rows of the reductions.

use super::spread::spread;
use super::{ReduceKind, extreme_dim, logsumexp, mean, norm, reduce, sum_typed, truth, truth_over};
use crate::op::{normalize_dim, normalize_dims};
use crate::ops::concat::cat;
use crate::ops::pointwise::{BinaryKind, binary};
use crate::policy::{Policies, Policy};
use crate::schema::{
    Aliasing, Args, DTypeWithOut, OutDType, Row, Sample, SampleArg, Tier, index, ints, mask as mask_arg, messages, n,
    positive, t,
};
use crate::{DType, Dims, Error, Result, Scalar, Tensor, samples};

/// `argmax` and `argmin` refuse truth values, which `max` and `min` accept.
fn no_bool<'a>(name: &str, x: &'a Tensor) -> Result<&'a Tensor> {
    if x.dtype() == DType::Bool {
        return Err(Error::not_implemented(format!("{name}(): does not support bool input")));
    }
    Ok(x)
}

const MIXED: &[DType] = &[DType::I64, DType::I32, DType::U8, DType::Bool, DType::BF16];

fn reduced() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[2, 3, 4]), ints(&[1])]).dtypes(MIXED),
        Sample::new(vec![t(&[2, 3, 4]), ints(&[0, -1]), n(true)]),
        Sample::new(vec![SampleArg::Transposed(vec![3, 4], crate::schema::Fill::Normal), ints(&[0])]),
        Sample::new(vec![t(&[0, 3]), ints(&[0])]),
    ]
}
fn whole() -> Vec<Sample> {
    vec![Sample::new(vec![t(&[2, 3])]).dtypes(MIXED), Sample::new(vec![t(&[])])]
}
fn whole_masks() -> Vec<Sample> {
    vec![Sample::new(vec![mask_arg(&[2, 3])]).no_gradient(), Sample::new(vec![t(&[2, 3])]).no_gradient()]
}

/// Rows of the reductions.
pub const ROWS: &[Row] = &[
    Row::new(
        "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        Tier::Prim,
        |a| Ok(sum_typed(a.tensor(0)?, None, false, a.opt_dtype(1)?, ReduceKind::Sum)?.into()),
        whole,
    )
    .doc(
        "Return the sum of `input` over `dim`, a number or a tuple; without it, over all dimensions. `keepdim` \
         keeps them with size 1. `dtype` is the dtype to convert to first; otherwise integers and `bool` are summed \
         in `int64`. 16-bit floats accumulate in `float32`. An empty sum is 0.",
    )
    .dtype_with_out(DTypeWithOut::FollowsOut(messages::expected_out))
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Tier::Prim,
        |a| Ok(sum_typed(a.tensor(0)?, a.opt_ints(1)?, a.bool(2)?, a.opt_dtype(3)?, ReduceKind::Sum)?.into()),
        reduced,
    )
    .dtype_with_out(DTypeWithOut::FollowsOut(messages::expected_out))
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        Tier::Composed,
        |a| Ok(mean(a.tensor(0)?, None, false, a.opt_dtype(1)?)?.into()),
        samples!([t(&[2, 3])], [t(&[])]),
    )
    .doc(
        "Return the mean of `input` over `dim`, a number or a tuple; without it, over all dimensions. `keepdim` \
         keeps them with size 1. `dtype` is the dtype to convert to first. Integers and `bool` are refused without a \
         floating-point `dtype`. The mean of no elements is NaN.",
    )
    .dtype_with_out(DTypeWithOut::MustMatch(messages::expected_out)),
    Row::new(
        "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Tier::Composed,
        |a| Ok(mean(a.tensor(0)?, a.opt_ints(1)?, a.bool(2)?, a.opt_dtype(3)?)?.into()),
        samples!([t(&[2, 3, 4]), ints(&[0, 2]), n(true)], [t(&[2, 3]), ints(&[1])]),
    )
    .dtype_with_out(DTypeWithOut::MustMatch(messages::expected_out)),
    Row::new(
        "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        Tier::Prim,
        |a| Ok(sum_typed(a.tensor(0)?, None, false, a.opt_dtype(1)?, ReduceKind::Prod)?.into()),
        whole,
    )
    .doc(
        "Return the product of `input` over the dimension `dim`, or of all elements without it. `keepdim` keeps the \
         dimension with size 1. `dtype` is the dtype to convert to first; otherwise integers and `bool` are \
         multiplied in `int64`. An empty product is 1.",
    )
    .dtype_with_out(DTypeWithOut::FollowsOut(messages::expected_out))
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Tier::Prim,
        |a| Ok(sum_typed(a.tensor(0)?, Some(&[a.int(1)?]), a.bool(2)?, a.opt_dtype(3)?, ReduceKind::Prod)?.into()),
        samples!([t(&[2, 3, 2]), n(1)], [t(&[2, 3]), n(-1), n(true)]),
    )
    .dtype_with_out(DTypeWithOut::FollowsOut(messages::expected_out))
    .autocast(Policies::both(Policy::Full)),
    Row::new(
        "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        Tier::Prim,
        |a| Ok(reduce(ReduceKind::Max, a.tensor(0)?, Some(a.ints(1)?), a.bool(2)?)?.into()),
        samples!([t(&[2, 3])], [t(&[2, 3, 4]), ints(&[0, 2]), n(true)]),
    )
    .doc(
        "Return the greatest elements of `input` over `dim`, a number or a tuple; an empty one means all \
         dimensions. `keepdim` keeps them with size 1. NaN counts as the greatest. Equal elements share the gradient \
         evenly. Dimensions without elements are refused.",
    )
    .out_dtype(OutDType::OfInput(messages::input_and_out)),
    Row::new(
        "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        Tier::Prim,
        |a| Ok(reduce(ReduceKind::Min, a.tensor(0)?, Some(a.ints(1)?), a.bool(2)?)?.into()),
        samples!([t(&[2, 3])], [t(&[2, 3, 4]), ints(&[1])]),
    )
    .doc(
        "Return the smallest elements of `input` over `dim`, a number or a tuple; an empty one means all \
         dimensions. `keepdim` keeps them with size 1. NaN counts as the smallest. Equal elements share the gradient \
         evenly. Dimensions without elements are refused.",
    )
    .out_dtype(OutDType::OfInput(messages::input_and_out)),
    Row::new(
        "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
        Tier::Composed,
        |a| {
            let dtype = a.tensor(0)?.dtype();
            if dtype.is_complex() {
                return Err(Error::type_error(format!("aminmax not implemented for {}", dtype.scalar_type())));
            }
            let x = a.tensor(0)?;
            match a.opt_int(1)? {
                None if x.numel() == 0 => {
                    return Err(Error::runtime(
                        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
                    ));
                }
                Some(d) if !x.dims().is_empty() && x.dims()[normalize_dim(d, x.dims().len())?] == 0 => {
                    return Err(Error::index(format!("aminmax: Expected reduction dim {d} to have non-zero size.")));
                }
                _ => {}
            }
            let d = a.opt_int(1)?.map(|d| vec![d]);
            let f = |k| reduce(k, a.tensor(0)?, d.as_deref(), a.bool(2)?);
            Ok((f(ReduceKind::Min)?, f(ReduceKind::Max)?).into())
        },
        samples!([t(&[2, 3]), n(1)]),
    )
    .doc(
        "Return `(min, max)`, the smallest and the greatest elements of `input` along `dim`, or of all elements \
         without it. `keepdim` keeps the dimension with size 1. A NaN makes both NaN. Dimensions without elements \
         are refused.",
    )
    .fields(&["min", "max"])
    .out_dtype(OutDType::OfResult(messages::expected_out))
    .outs_apart(),
    Row::new(
        "max(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(reduce(ReduceKind::Max, a.tensor(0)?, None, false).map_err(|e| whole_error(e, "max", a))?.into()),
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return the greatest element of `input`. With `dim`, return `(values, indices)` along that dimension, where \
         of equal elements the first is taken, and the gradient goes to it alone. With a tensor `other`, it is \
         `torch.maximum`. NaN counts as the greatest. Dimensions without elements are refused.",
    )
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "max.other(Tensor self, Tensor other) -> Tensor",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.maximum(a.tensor(1)?)?.into()),
        samples!([t(&[2, 3]), t(&[3])]),
    )
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Tier::Composed,
        |a| Ok(extreme_dim(a.tensor(0)?, true, a.int(1)?, a.bool(2)?)?.into()),
        samples!([t(&[2, 3]), n(1)], [t(&[2, 3, 2]), n(0), n(true)]),
    )
    .fields(&["values", "indices"])
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "min(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(reduce(ReduceKind::Min, a.tensor(0)?, None, false).map_err(|e| whole_error(e, "min", a))?.into()),
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return the smallest element of `input`. With `dim`, return `(values, indices)` along that dimension, where \
         of equal elements the first is taken, and the gradient goes to it alone. With a tensor `other`, it is \
         `torch.minimum`. NaN counts as the smallest. Dimensions without elements are refused.",
    )
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "min.other(Tensor self, Tensor other) -> Tensor",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.minimum(a.tensor(1)?)?.into()),
        samples!([t(&[2, 3]), t(&[3])]),
    )
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Tier::Composed,
        |a| Ok(extreme_dim(a.tensor(0)?, false, a.int(1)?, a.bool(2)?)?.into()),
        samples!([t(&[2, 3]), n(1)]),
    )
    .fields(&["values", "indices"])
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        Tier::Prim,
        |a| Ok(no_bool("argmax", a.tensor(0)?)?.argmax(a.opt_int(1)?, a.bool(2)?)?.into()),
        || {
            vec![
                Sample::new(vec![t(&[2, 3])]).no_gradient(),
                Sample::new(vec![t(&[2, 3]), n(1), n(true)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the position of the greatest element of `input` along `dim`, as `int64`; without `dim`, its \
         position in the flattened tensor. Of equal elements the first is taken, and NaN counts as the greatest. \
         `bool` and complex tensors are refused.",
    )
    .out_dtype(OutDType::OneOf(&[DType::I64], messages::expected_out)),
    Row::new(
        "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        Tier::Prim,
        |a| Ok(no_bool("argmin", a.tensor(0)?)?.argmin(a.opt_int(1)?, a.bool(2)?)?.into()),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient(), Sample::new(vec![t(&[2, 3]), n(0)]).no_gradient()],
    )
    .doc(
        "Return the position of the smallest element of `input` along `dim`, as `int64`; without `dim`, its \
         position in the flattened tensor. Of equal elements the first is taken, and NaN counts as the smallest. \
         `bool` and complex tensors are refused.",
    )
    .out_dtype(OutDType::OneOf(&[DType::I64], messages::expected_out)),
    Row::new(
        "any(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(truth(ReduceKind::Any, a.tensor(0)?, None, false)?.into()),
        whole_masks,
    )
    .doc(
        "Return whether any element of `input` is nonzero over `dim`, a number or a tuple; without it, over all \
         dimensions. NaN counts as true. The result is `bool`, or `uint8` for `uint8`. Of no elements it is `False`.",
    )
    .out_dtype(OutDType::OneOf(&[DType::Bool, DType::U8], messages::bool_result)),
    Row::new(
        "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        Tier::Prim,
        |a| Ok(truth(ReduceKind::Any, a.tensor(0)?, Some(&[a.int(1)?]), a.bool(2)?)?.into()),
        || vec![Sample::new(vec![mask_arg(&[2, 3]), n(1)]).no_gradient()],
    )
    .out_dtype(OutDType::OneOf(&[DType::Bool, DType::U8], messages::bool_result)),
    Row::new(
        "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        Tier::Prim,
        |a| Ok(truth_over(ReduceKind::Any, a.tensor(0)?, a.opt_ints(1)?, a.bool(2)?)?.into()),
        || vec![Sample::new(vec![mask_arg(&[2, 3, 2]), ints(&[0, 2])]).no_gradient()],
    )
    .out_dtype(OutDType::OneOf(&[DType::Bool, DType::U8], messages::bool_result)),
    Row::new(
        "all(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(truth(ReduceKind::All, a.tensor(0)?, None, false)?.into()),
        whole_masks,
    )
    .doc(
        "Return whether all elements of `input` are nonzero over `dim`, a number or a tuple; without it, over all \
         dimensions. NaN counts as true. The result is `bool`, or `uint8` for `uint8`. Of no elements it is `True`.",
    )
    .out_dtype(OutDType::OneOf(&[DType::Bool, DType::U8], messages::bool_result)),
    Row::new(
        "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
        Tier::Prim,
        |a| Ok(truth(ReduceKind::All, a.tensor(0)?, Some(&[a.int(1)?]), a.bool(2)?)?.into()),
        || vec![Sample::new(vec![mask_arg(&[2, 3]), n(1)]).no_gradient()],
    )
    .out_dtype(OutDType::OneOf(&[DType::Bool, DType::U8], messages::bool_result)),
    Row::new(
        "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
        Tier::Prim,
        |a| Ok(truth_over(ReduceKind::All, a.tensor(0)?, a.opt_ints(1)?, a.bool(2)?)?.into()),
        || vec![Sample::new(vec![mask_arg(&[2, 3, 2]), ints(&[0, 2])]).no_gradient()],
    )
    .out_dtype(OutDType::OneOf(&[DType::Bool, DType::U8], messages::bool_result)),
    Row::new(
        "var(Tensor self, bool unbiased=True) -> Tensor",
        Tier::Fused,
        |a| Ok(spread("var", a.tensor(0)?, None, a.bool(1)? as u8 as f64, false)?.0.into()),
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return the variance of `input` over `dim`: the sum of squared distances from the mean, divided by the \
         number of elements minus `correction`. `correction` is 1 unless given; `unbiased=False` means 0; `keepdim` \
         keeps the dimensions with size 1. If nothing is left of the number, the function warns and divides by 0. \
         Integers are refused. The variance of complex numbers is real.",
    ),
    Row::new(
        "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
        Tier::Fused,
        |a| Ok(spread("var", a.tensor(0)?, a.opt_ints(1)?, a.opt_float(2)?.unwrap_or(1.0), a.bool(3)?)?.0.into()),
        samples!([t(&[2, 3]), ints(&[1]), n(0)]),
    ),
    Row::new(
        "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        Tier::Fused,
        |a| Ok(spread("var", a.tensor(0)?, a.opt_ints(1)?, a.bool(2)? as u8 as f64, a.bool(3)?)?.0.into()),
        samples!([t(&[2, 3]), ints(&[1]), n(false)]),
    ),
    Row::new(
        "std(Tensor self, bool unbiased=True) -> Tensor",
        Tier::Fused,
        |a| Ok(spread("std", a.tensor(0)?, None, a.bool(1)? as u8 as f64, false)?.0.into()),
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return the standard deviation of `input` over `dim`, the square root of `torch.var` with the same \
         arguments. Its gradient is zero where all elements are equal.",
    ),
    Row::new(
        "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
        Tier::Fused,
        |a| Ok(spread("std", a.tensor(0)?, a.opt_ints(1)?, a.opt_float(2)?.unwrap_or(1.0), a.bool(3)?)?.0.into()),
        samples!([t(&[2, 3]), ints(&[1])]),
    ),
    Row::new(
        "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
        Tier::Fused,
        |a| Ok(spread("std", a.tensor(0)?, a.opt_ints(1)?, a.bool(2)? as u8 as f64, a.bool(3)?)?.0.into()),
        samples!([t(&[2, 3]), ints(&[1])]),
    ),
    Row::new(
        "var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
        Tier::Fused,
        |a| Ok(spread("var_mean", a.tensor(0)?, None, a.bool(1)? as u8 as f64, false)?.into()),
        samples!([t(&[2, 3]), n(false)]),
    )
    .doc("Return `(variance, mean)` of `input` over `dim`, with the arguments of `torch.var`."),
    Row::new(
        "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
        Tier::Fused,
        |a| Ok(spread("var_mean", a.tensor(0)?, a.opt_ints(1)?, a.bool(2)? as u8 as f64, a.bool(3)?)?.into()),
        samples!([t(&[2, 3]), ints(&[1]), n(false)]),
    ),
    Row::new(
        "std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
        Tier::Fused,
        |a| Ok(spread("std_mean", a.tensor(0)?, None, a.bool(1)? as u8 as f64, false)?.into()),
        samples!([t(&[2, 3]), n(false)]),
    )
    .doc("Return `(standard deviation, mean)` of `input` over `dim`, with the arguments of `torch.var`."),
    Row::new(
        "std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
        Tier::Fused,
        |a| Ok(spread("std_mean", a.tensor(0)?, a.opt_ints(1)?, a.bool(2)? as u8 as f64, a.bool(3)?)?.into()),
        samples!([t(&[2, 3]), ints(&[1]), n(false)]),
    ),
    Row::new(
        "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> \
        (Tensor, Tensor)",
        Tier::Fused,
        |a| Ok(spread("std_mean", a.tensor(0)?, a.opt_ints(1)?, a.opt_float(2)?.unwrap_or(1.0), a.bool(3)?)?.into()),
        samples!([t(&[2, 3]), ints(&[1])]),
    ),
    Row::new(
        "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> \
        (Tensor, Tensor)",
        Tier::Fused,
        |a| Ok(spread("var_mean", a.tensor(0)?, a.opt_ints(1)?, a.opt_float(2)?.unwrap_or(1.0), a.bool(3)?)?.into()),
        samples!([t(&[2, 3]), ints(&[1])]),
    ),
    Row::new(
        "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        Tier::Composed,
        |a| Ok(logsumexp(a.tensor(0)?, a.ints(1)?, a.bool(2)?)?.into()),
        samples!([t(&[2, 3]), ints(&[1])], [t(&[2, 3]), ints(&[0, 1]), n(true)]),
    )
    .doc(
        "Return `log(sum(e^input))` over `dim`, a number or a tuple, without overflow. `keepdim` keeps the \
         dimensions with size 1. Integers are computed in the default floating-point dtype. Of no elements it is \
         `-inf`.",
    )
    .aliases(&["special_logsumexp"])
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
        Tier::Composed,
        |a| Ok(norm(a.tensor(0)?, a.scalar(1)?, None, false)?.into()),
        samples!([t(&[2, 3])], [positive(&[2, 3]), n(3)]),
    )
    .doc(
        "Return the norm `sum(|input|^p)^(1/p)` over `dim`, or of all elements without it. `p` is 2 unless given; \
         `inf` gives the greatest absolute value, `-inf` the smallest, and 0 the number of nonzero elements. Only \
         floating-point and complex tensors are allowed; the result is real.",
    )
    .out_aliasing(Aliasing::InStep)
    .dtype_with_out(DTypeWithOut::MustMatch(messages::expected_out))
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
        Tier::Composed,
        |a| Ok(norm(a.tensor(0)?, a.opt_scalar(1)?.unwrap_or(Scalar::Int(2)), a.opt_ints(2)?, a.bool(3)?)?.into()),
        samples!([t(&[2, 3]), n(1), ints(&[1])]),
    )
    .out_aliasing(Aliasing::InStep)
    .dtype_with_out(DTypeWithOut::MustMatch(messages::expected_out))
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "count_nonzero(Tensor self, int? dim=None) -> Tensor",
        Tier::Composed,
        |a| match a.opt_int(1)? {
            Some(d) => Ok(count_nonzero(a.tensor(0)?, &[d])?.into()),
            None => Ok(count_nonzero(a.tensor(0)?, &[])?.into()),
        },
        || {
            vec![
                Sample::new(vec![index(&[2, 3], 3)]).no_gradient().dtypes(MIXED),
                Sample::new(vec![index(&[2, 3], 3), n(-1)]).no_gradient(),
                Sample::new(vec![mask_arg(&[2, 3]), n(0)]).no_gradient(),
                Sample::new(vec![t(&[2, 3])]).complex().no_gradient(),
            ]
        },
    )
    .doc(
        "Return the number of elements that are not zero, along `dim`, a number or a tuple, or of all elements \
         without it. NaN is not zero. The result is `int64`.",
    )
    .no_out(),
    Row::new(
        "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
        Tier::Composed,
        |a| Ok(count_nonzero(a.tensor(0)?, a.ints(1)?)?.into()),
        || vec![Sample::new(vec![index(&[2, 3, 4], 3), ints(&[0, -1])]).no_gradient()],
    )
    .no_out(),
    Row::new(
        "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
        Tier::Composed,
        |a| Ok(hash(a.tensor(0)?, a.ints(1)?, a.bool(2)?, a.int(3)?)?.into()),
        || {
            vec![
                Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(MIXED),
                Sample::new(vec![index(&[2, 3, 4], 3), ints(&[0, -1])]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the exclusive or of the bits of the elements, along the dimensions `dim` or of all elements without \
         them, as `uint64`. Floats are converted to `float64` and integers to `int64` first. `mode` must be 0.",
    ),
];

/// The exclusive or of the bits of the elements as `float64` or `int64`.
fn hash(x: &Tensor, dims: &[i64], keepdim: bool, mode: i64) -> Result<Tensor> {
    if mode != 0 {
        return Err(Error::runtime(format!("Unknown hash_tensor mode: {mode}")));
    }
    let dtype = x.dtype();
    if dtype.is_rare() {
        return Err(crate::ops::complex::unsupported("xor_sum_cpu", dtype));
    }
    if dims.is_empty() && x.numel() == 0 {
        return Err(Error::runtime(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim \
             with the 'dim' argument.",
        ));
    }
    let rank = x.dims().len();
    let mask = if dims.is_empty() { (1 << rank) - 1 } else { normalize_dims(dims, rank)? };
    let is_reduced = |i: &usize| mask >> i & 1 == 1;
    let x = x.detach();
    let bits = if dtype.is_float() { x.to_dtype(DType::F64)?.view_dtype(DType::I64)? } else { x.to_dtype(DType::I64)? };
    let order: Vec<i64> =
        (0..rank).filter(|i| !is_reduced(i)).chain((0..rank).filter(is_reduced)).map(|i| i as i64).collect();
    let outer: Dims = (0..rank).filter(|i| !is_reduced(i)).map(|i| x.dims()[i]).collect();
    let count = (0..rank).filter(is_reduced).map(|i| x.dims()[i]).product::<usize>();
    let rows = outer.numel();
    let mut y = bits.permute(&order)?.reshape_dims(Dims::new(&[rows, count]))?;
    let xor = |a: &Tensor, b: &Tensor| binary(BinaryKind::BitwiseXor, a, b);
    // Halves, again and again. Of an odd number of columns the last one joins the first.
    let mut n = count as i64;
    while n > 1 {
        let half = n / 2;
        let mut z = xor(&y.narrow(1, 0, half)?, &y.narrow(1, half, half)?)?;
        if n % 2 == 1 {
            let first = xor(&z.narrow(1, 0, 1)?, &y.narrow(1, n - 1, 1)?)?;
            z = cat(&[&first, &z.narrow(1, 1, half - 1)?], 1)?;
        }
        (y, n) = (z, half);
    }
    if count == 0 {
        y = Tensor::zeros(&[rows], DType::I64, x.device())?;
    }
    let kept: Dims = (0..rank).map(|i| if is_reduced(&i) { 1 } else { x.dims()[i] }).collect();
    y.to_dtype(DType::U64)?.reshape_dims(if keepdim { kept } else { outer })
}

/// How many elements are not zero along dimensions; none means all.
fn count_nonzero(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    reduce(ReduceKind::Sum, &x.ne_scalar(0)?, Some(dims), false)
}

fn whole_error(e: Error, name: &str, a: &Args<'_>) -> Error {
    if a.tensor(0).is_ok_and(|x| x.numel() == 0) {
        return Error::runtime(format!(
            "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with \
            the 'dim' argument."
        ));
    }
    e
}
