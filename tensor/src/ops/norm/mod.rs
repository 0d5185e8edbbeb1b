//! Normalisations: over the last dimensions (layer, root mean square, group) and over the batch (batch, instance).
//!
//! The forward ops return their statistics as further outputs, which the fused gradients read. In double backward, the
//! gradients' expansions compute the statistics from `x` again, so that these are differentiated too.

mod batch;
mod group;
mod layer;
pub mod softmax;

pub use batch::{BatchNorm, BatchNormArgs, BatchNormBackward, batch_norm};
pub use group::group_norm;
pub use layer::{LayerNorm, LayerNormBackward, layer_norm, rms_norm};
pub use softmax::{ROWS as SOFTMAX_ROWS, Softmax, SoftmaxBackward, softmax};

use crate::op::all_dims;
use crate::ops::reduce::sum_mask;
use crate::policy::{Policies, Policy};
use crate::schema::{Ret, Row, Sample, SampleArg, Scope, Tier, ints, n, positive, t};
use crate::{Dims, Meta, Result, Tensor, samples};
use batch::{
    batch_args, batch_samples, functional, instance_norm, legit, legit_args, no_stats, with_reserve, with_statistics,
};
use group::native_group_norm;
use layer::{row_norm, shape_of};

/// An unwanted result, without elements.
fn unwanted(like: &Meta) -> Meta {
    like.with_dims(Dims::filled(0, 1))
}

fn nothing(like: &Tensor) -> Result<Tensor> {
    Tensor::zeros_like_meta(&unwanted(like.meta()))
}

/// The last dimensions of `x` as a bit mask, and the number of elements in them.
fn last(dims: &Dims, count: usize) -> (u64, usize) {
    let rank = dims.len();
    let mask = all_dims(count) << (rank - count);
    (mask, dims[rank - count..].iter().product())
}

/// Mean over a bit mask of dimensions, which keep size one.
fn mean_of(x: &Tensor, mask: u64, count: usize) -> Result<Tensor> {
    let kept = x.dims().iter().enumerate().map(|(i, &n)| if mask >> i & 1 == 0 { n } else { 1 }).collect();
    sum_mask(x, mask)?.reshape_dims(kept)?.div_scalar(count as f64)
}

/// A vector with one number for each channel, reshaped to broadcast over `[n, c, ..]`.
fn per_channel(p: &Tensor, rank: usize) -> Result<Tensor> {
    p.reshape_dims(Dims::filled(1, rank).with(1, p.numel()))
}

fn none() -> SampleArg {
    SampleArg::Default
}

/// Rows of the normalisations.
pub const ROWS: &[Row] = &[
    Row::new(
        "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float \
        eps=1e-05, bool cudnn_enable=True) -> Tensor",
        Tier::Fused,
        |a| Ok(layer_norm(a.tensor(0)?, a.ints(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?, a.float(4)?)?.into()),
        samples!(
            [t(&[3, 4]), ints(&[4]), positive(&[4]), t(&[4])],
            [t(&[2, 3, 4]), ints(&[3, 4])],
            [t(&[3, 4]), ints(&[4]), positive(&[4])],
            [t(&[3, 4]), ints(&[4]), none(), t(&[4])]
        ),
    )
    .doc(
        "Return `(input - mean) / sqrt(var + eps) * weight + bias`, with mean and biased variance over the last \
         dimensions, whose sizes are `normalized_shape`. `weight` and `bias` have that shape and the dtype of \
         `input`, or `float32` for a 16-bit one. `input` is floating point, and 16-bit floats are computed in \
         `float32`. An input whose sizes do not end in `normalized_shape` raises `RuntimeError`. `cudnn_enable` has \
         no effect.",
    )
    .scope(Scope::Function)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> \
        (Tensor, Tensor, Tensor)",
        Tier::Fused,
        |a| {
            let y =
                row_norm(a.tensor(0)?, shape_of(a.ints(1)?)?, a.opt_tensor(2)?, a.opt_tensor(3)?, a.float(4)?, false)?;
            // Statistics have the parameters' dtype.
            let stats = a.opt_tensor(2)?.unwrap_or(a.tensor(0)?).dtype();
            let y = y.into_iter().enumerate().map(|(i, y)| if i == 0 { Ok(y) } else { y.to_dtype(stats) });
            Ok(Ret::Tuple(y.collect::<Result<_>>()?))
        },
        || vec![Sample::new(vec![t(&[3, 4]), ints(&[4]), positive(&[4]), t(&[4]), n(1e-5)]).no_gradient()],
    )
    .doc(
        "Return the result of `torch.layer_norm`, the means, and the inverse standard deviations `1 / sqrt(var + \
         eps)`. The statistics keep the normalized dimensions with size 1, and have the dtype of `weight`, or of \
         `input` without one.",
    )
    .scope(Scope::Function)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
        Tier::Fused,
        |a| Ok(rms_norm(a.tensor(0)?, a.ints(1)?, a.opt_tensor(2)?, a.opt_float(3)?)?.into()),
        samples!([t(&[3, 4]), ints(&[4]), positive(&[4]), n(1e-6)], [t(&[2, 3, 4]), ints(&[3, 4])]),
    )
    .doc(
        "Return `input / sqrt(mean(input ** 2) + eps) * weight`, with the mean over the last dimensions, whose sizes \
         are `normalized_shape`. `eps` is the epsilon of the dtype unless given, and that of `float32` for 16-bit \
         floats. Nothing is subtracted, unlike in \
         `torch.layer_norm`. `weight` has `normalized_shape`. `input` is floating point or complex.",
    )
    .scope(Scope::Function)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool \
        cudnn_enabled=True) -> Tensor",
        Tier::Composed,
        |a| Ok(group_norm(a.tensor(0)?, a.int(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?, a.float(4)?)?.into()),
        samples!([t(&[2, 4, 3]), n(2), positive(&[4]), t(&[4])], [t(&[2, 4, 2, 2]), n(4)]),
    )
    .doc(
        "Return `input` `(n, c, ...)` normalized over groups of channels: each of `num_groups` equal runs of channels \
         of each sample has mean 0 and variance 1. Then channel `i` is multiplied by `weight[i]` and `bias[i]` is \
         added. `weight` and `bias` are vectors of `c` elements. `num_groups` must divide `c`. `eps` is added to the \
         biased variance.",
    )
    .scope(Scope::Function)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool \
        training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
        Tier::Fused,
        |a| Ok(batch_norm(a.tensor(0)?, &batch_args(a)?)?.0.into()),
        samples!(
            [t(&[3, 2, 2]), positive(&[2]), t(&[2]), none(), none(), n(true), n(0.1), n(1e-5), n(false)],
            [t(&[3, 2]), none(), none(), none(), none(), n(true), n(0.1), n(1e-5), n(false)]
        ),
    )
    .doc(
        "Return `(input - mean) / sqrt(var + eps) * weight + bias` for each channel of `input` `(n, c, ...)`. With \
         `training`, mean and biased variance are those of the batch. `running_mean` and `running_var` are then moved \
         towards the mean and the unbiased variance: `running += momentum * (batch - running)`. Otherwise \
         `running_mean` and `running_var` are used, and must be given. All four are vectors of `c` elements. A \
         channel of one element raises `ValueError` in training.",
    )
    .scope(Scope::Function),
    Row::new(
        "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, \
        bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        Tier::Fused,
        |a| {
            let (y, m, s) = batch_norm(a.tensor(0)?, &batch_args(a)?)?;
            let stats = a.opt_tensor(1)?.unwrap_or(a.tensor(0)?).dtype();
            Ok((y, m.to_dtype(stats)?, s.to_dtype(stats)?).into())
        },
        || {
            vec![
                Sample::new(vec![
                    t(&[3, 2, 2]),
                    positive(&[2]),
                    t(&[2]),
                    t(&[2]),
                    positive(&[2]),
                    n(false),
                    n(0.1),
                    n(1e-5),
                ])
                .no_gradient(),
                Sample::new(vec![t(&[3, 2, 2]), none(), t(&[2]), none(), none(), n(true), n(0.1), n(1e-5)])
                    .no_gradient(),
            ]
        },
    )
    .doc(
        "Return the result of `torch.batch_norm`, and the mean and the inverse standard deviation `1 / sqrt(var + \
         eps)` of each channel of the batch. Without `training`, these have no elements. They have the dtype of \
         `weight`, or of `input` without one.",
    )
    .scope(Scope::Function),
    Row::new(
        "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, \
        bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
        Tier::Composed,
        |a| Ok(instance_norm(a.tensor(0)?, &batch_args(a)?)?.into()),
        samples!([t(&[2, 2, 3]), positive(&[2]), t(&[2]), none(), none(), n(true), n(0.1), n(1e-5), n(false)]),
    )
    .doc(
        "Return `input` `(n, c, ...)` normalized over each channel of each sample on its own, then multiplied by \
         `weight` and with `bias` added, vectors of `c` elements. With `use_input_stats` the statistics are those of \
         the sample, and running statistics move towards their average over the batch. Otherwise `running_mean` and \
         `running_var` are used. `input` has three dimensions or more, and one spatial element raises `ValueError` in \
         training.",
    )
    .scope(Scope::Function),
    Row::new(
        "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, \
        float eps) -> (Tensor, Tensor, Tensor)",
        Tier::Composed,
        native_group_norm,
        || vec![Sample::new(vec![t(&[2, 4, 3]), positive(&[4]), t(&[4]), n(2), n(4), n(3), n(2), n(1e-5)])],
    )
    .doc(
        "Return the result of `torch.group_norm`, and the mean and inverse standard deviation `(N, group)` of each \
         group of each sample. `input` holds `N * C * HxW` elements in that order.",
    )
    .scope(Scope::Function)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) \
        running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        Tier::Fused,
        legit,
        || batch_samples(&[n(false), n(0.1), n(1e-5)], true),
    )
    .doc(
        "Return what `torch.native_batch_norm` does; one form takes running statistics, which it updates in place \
         with `training`, the other one takes none.",
    )
    .scope(Scope::Function),
    Row::new(
        "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float \
        momentum, float eps) -> (Tensor, Tensor, Tensor)",
        Tier::Fused,
        no_stats,
        || batch_samples(&[n(true), n(0.1), n(1e-5)], false),
    )
    .scope(Scope::Function),
    Row::new(
        "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, \
        Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        Tier::Fused,
        |a| Ok(Ret::Tuple(with_statistics(a.tensor(0)?, &legit_args(a, true, false, 5)?)?)),
        || batch_samples(&[n(0.1), n(1e-5)], true),
    )
    .doc("Return what `torch.native_batch_norm` does with `training=False`.")
    .scope(Scope::Function),
    Row::new(
        "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, \
        Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        Tier::Fused,
        |a| functional(a.tensor(0)?, &legit_args(a, true, a.bool(5)?, 6)?, false),
        || batch_samples(&[n(true), n(0.1), n(1e-5)], true),
    )
    .doc(
        "Return what `torch.native_batch_norm` does, then the new running mean and variance, where the given ones \
         stay as they are.",
    )
    .no_out()
    .scope(Scope::Aten),
    Row::new(
        "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) \
        running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
        Tier::Fused,
        |a| with_reserve(a, true),
        || batch_samples(&[n(0.1), n(1e-5)], true),
    )
    .doc(
        "Return what `torch.native_batch_norm` does with `training=True`, which updates the running statistics in \
         place, and an empty `uint8` tensor.",
    )
    .scope(Scope::Aten),
    Row::new(
        "_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, \
        Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
        Tier::Fused,
        |a| functional(a.tensor(0)?, &legit_args(a, true, true, 5)?, true),
        || batch_samples(&[n(0.1), n(1e-5)], true),
    )
    .doc(
        "Return what `_batch_norm_with_update` does, then the new running mean and variance, where the given ones \
         stay as they are.",
    )
    .no_out()
    .scope(Scope::Aten),
    Row::new(
        "_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? \
        running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
        Tier::Fused,
        |a| with_reserve(a, a.opt_tensor(3)?.is_none()),
        || batch_samples(&[n(0.1), n(1e-5)], true),
    )
    .doc(
        "Return what `torch.native_batch_norm` does with the running statistics, or with those of the batch if there \
         is no `running_mean`, and an empty `uint8` tensor.",
    )
    .scope(Scope::Aten),
];
