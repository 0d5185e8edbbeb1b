//! Quantiles, modes, covariances, histograms, numerical gradients and reductions of segments, all composed of other
//! ops.
//!
//! Checks of values (negative weights, lengths that do not add up) read them, as in PyTorch. The fractions of a
//! quantile are checked on `cpu` at once, and on a device when the host next reads.

mod covariance;
mod diff;
mod gradient;
mod histogram;
mod quantile;
mod segment;

use crate::ops::indexing;
use crate::ops::reduce::{ReduceKind, reduce};
use crate::policy::{Policies, Policy};
use crate::schema::{
    Aliasing, Args, Fill, OutDType, Ret, Row, Sample, SampleArg, Scope, Tier, index, ints, mask, messages, n, positive,
    t, widely,
};
use crate::{Error, Result, Scalar, Tensor, samples};
use covariance::{corrcoef, cov};
use diff::diff;
use gradient::{Spacing, at_points, evenly, gradient_row};
use histogram::{even_edges, given_edges, histogram, histogram_of_all, points};
use quantile::{mode, quantile_row};
use segment::{renorm, segment_row};

/// Raise `error` when any element of `bad` is true.
fn refuse(bad: &Tensor, error: Error) -> Result<()> {
    if bad.place().is_abstract() {
        return Ok(());
    }
    let any = reduce(ReduceKind::Any, bad, None, false)?;
    if any.item()?.to_i64() != 0 { Err(error) } else { Ok(()) }
}

/// Return `x`, and [`refuse`] now, or tie `x` to the error if reading now would cut the trace.
fn refuse_later(bad: &Tensor, error: Error, x: &Tensor) -> Result<Tensor> {
    if bad.place().has_handle() {
        return indexing::defer(bad, error)?.tied(x);
    }
    refuse(bad, error)?;
    Ok(x.clone())
}

fn sizes(x: &Tensor) -> Vec<i64> {
    x.dims().iter().map(|&n| n as i64).collect()
}

fn text(s: &'static str) -> SampleArg {
    SampleArg::Str(s)
}
fn fractions(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Fraction)
}

/// Rows of quantiles, covariances, histograms, numerical gradients and segments.
pub const ROWS: &[Row] = &[
    Row::new(
        "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        Tier::Composed,
        |a| quantile_row(a, "quantile", false),
        || {
            vec![
                Sample::new(vec![t(&[3, 5]), fractions(&[2]), n(1)]).no_gradient(),
                Sample::new(vec![t(&[3, 5]), fractions(&[]), SampleArg::Default, n(true)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the quantiles `q`, numbers from 0 to 1, of the elements of `input` along `dim`, or of all elements \
         without it. Between two elements, `interpolation` is `'linear'`, `'lower'`, `'higher'`, `'midpoint'` or \
         `'nearest'`. A vector `q` adds a first dimension to the result. A NaN makes the result NaN. `input` must be \
         `float32` or `float64` and not be empty; a tensor `q` has its dtype.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    Row::new(
        "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> \
        Tensor",
        Tier::Composed,
        |a| quantile_row(a, "quantile", false),
        samples!(
            [t(&[3, 5]), n(0.3), n(0)],
            [t(&[3, 5]), n(0.7), n(1), n(true), text("nearest")],
            [t(&[3, 5]), n(0.7), n(1), n(true), text("midpoint")],
        ),
    )
    .autocast(Policies::cpu(Policy::Full)),
    Row::new(
        "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') \
         -> Tensor",
        Tier::Composed,
        |a| quantile_row(a, "nanquantile", true),
        || vec![Sample::new(vec![t(&[3, 5]), fractions(&[2]), n(1)]).no_gradient()],
    )
    .doc(
        "Return the quantiles `q` of the elements of `input` that are not NaN, with the arguments of \
         `torch.quantile`. A slice with no number gives NaN.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    Row::new(
        "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> \
        Tensor",
        Tier::Composed,
        |a| quantile_row(a, "nanquantile", true),
        samples!([t(&[3, 5]), n(0.3), n(0)]),
    )
    .autocast(Policies::cpu(Policy::Full)),
    Row::new(
        "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        Tier::Composed,
        |a| Ok(mode(a.tensor(0)?, a.int(1)?, a.bool(2)?)?.into()),
        || {
            vec![
                Sample::new(vec![index(&[3, 7], 3)]).no_gradient(),
                Sample::new(vec![index(&[5, 3], 2), n(0), n(true)]).no_gradient(),
                Sample::new(vec![t(&[2, 3])]),
            ]
        },
    )
    .doc(
        "Return `(values, indices)`, the most frequent element of `input` along `dim` and the position where it \
         occurs last. Of several the smallest is taken. `keepdim` keeps the dimension with size 1.",
    )
    .fields(&["values", "indices"]),
    Row::new(
        "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
        Tier::Composed,
        |a| {
            // Differences of differences round once. A single one does anyway.
            let call = |a: &Args<'_>| -> Result<Ret> {
                Ok(diff(a.tensor(0)?, a.int(1)?, a.int(2)?, a.opt_tensor(3)?, a.opt_tensor(4)?)?.into())
            };
            if a.int(1)? > 1 { widely(a, call) } else { call(a) }
        },
        || {
            let mut all = samples!(
                [t(&[3, 5])],
                [t(&[3, 5]), n(2), n(0)],
                [t(&[3, 5]), n(6)],
                [t(&[2, 3]), n(1), n(1), t(&[2, 1]), t(&[2, 2])],
                [t(&[2, 3]), n(0)],
            )();
            all.push(Sample::new(vec![mask(&[5])]).no_gradient());
            all
        },
    )
    .doc(
        "Return the differences of neighbors along `dim`: `input[i + 1] - input[i]`, taken `n` times. `prepend` and \
         `append` are put before and after `input` first. Each step makes the dimension shorter by one. For `bool` it \
         is the exclusive or.",
    ),
    Row::new(
        "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| Ok(cov(a.tensor(0)?, a.int(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?)?.into())),
        samples!([t(&[3, 5])], [t(&[5]), n(0)], [t(&[2, 4]), n(1), index(&[4], 3), positive(&[4])]),
    )
    .doc(
        "Return the matrix of the covariances of the rows of `input`, where each column is an observation; of 0 or \
         1 dimensions, the variance as a 0-d tensor. Without weights, the sums are divided by the number of \
         observations minus `correction`. `fweights` counts each observation that many times and is an integer \
         vector; `aweights` weighs them and is a floating-point one. Negative weights are errors.",
    )
    .no_out(),
    Row::new(
        "corrcoef(Tensor self) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| Ok(corrcoef(a.tensor(0)?)?.into())),
        || vec![Sample::new(vec![t(&[3, 5])]).no_gradient(), Sample::new(vec![t(&[4])]).no_gradient()],
    )
    .doc(
        "Return the matrix of the correlation coefficients of the rows of `input`, where each column is an \
         observation. They are covariances divided by both standard deviations, clamped to `[-1, 1]`. Of 0 or 1 \
         dimensions the result is a 0-d tensor.",
    )
    .no_out(),
    Row::new(
        "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, \
        Tensor bin_edges)",
        Tier::Composed,
        |a| histogram_of_all(a, 2, &|p| given_edges(p, &[a.tensor(1)?])),
        Vec::new,
    )
    .doc(
        "Return `(hist, bin_edges)`, the number of elements of `input` in each bin, and the bounds of the bins. \
         `bins` is a number of equally wide bins over `range`, or over all elements without it, or a vector with the \
         bounds. The last bin includes its upper bound. `weight` is summed instead of counted; `density` makes the \
         integral over the bins 1. `input` must be `float32` or `float64`.",
    )
    .fields(&["hist", "bin_edges"]),
    Row::new(
        "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) \
        -> (Tensor hist, Tensor bin_edges)",
        Tier::Composed,
        |a| histogram_of_all(a, 3, &|p| even_edges(p, &[a.int(1)?], a.opt_floats(2)?)),
        || {
            vec![
                Sample::new(vec![t(&[3, 5]), n(4), SampleArg::Floats(vec![-1.05, 1.55])]).no_gradient(),
                Sample::new(vec![t(&[7]), n(3), SampleArg::Floats(vec![-2.05, 2.15]), positive(&[7]), n(true)])
                    .no_gradient(),
            ]
        },
    )
    .fields(&["hist", "bin_edges"]),
    Row::new(
        "_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool \
        density=False) -> Tensor[]",
        Tier::Composed,
        |a| Ok(Ret::Tuple(even_edges(&points(a.tensor(0)?, a.opt_tensor(3)?)?, a.ints(1)?, a.opt_floats(2)?)?)),
        || vec![Sample::new(vec![t(&[5, 2]), ints(&[3, 2])]).no_gradient()],
    )
    .doc(
        "Return the bounds of `bins[i]` equally wide bins for each coordinate `i` of the points in the last \
         dimension of `input`.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool \
        density=False) -> Tensor",
        Tier::Composed,
        |a| {
            let p = points(a.tensor(0)?, a.opt_tensor(3)?)?;
            Ok(histogram(&p, &even_edges(&p, a.ints(1)?, a.opt_floats(2)?)?, a.bool(4)?)?.into())
        },
        || {
            let range = SampleArg::Floats(vec![-2.05, 2.15, -1.55, 1.65]);
            vec![Sample::new(vec![t(&[5, 2]), ints(&[3, 2]), range]).no_gradient()]
        },
    )
    .doc(
        "Return the number of points, given in the last dimension of `input`, in each of `bins[i]` equally wide \
         bins for each coordinate `i`.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> \
        Tensor",
        Tier::Composed,
        |a| {
            let p = points(a.tensor(0)?, a.opt_tensor(2)?)?;
            Ok(histogram(&p, &given_edges(&p, &a.tensors(1)?)?, a.bool(3)?)?.into())
        },
        Vec::new,
    )
    .doc(
        "Return the number of points, given in the last dimension of `input`, in each bin, where `bins[i]` has the \
         bounds for coordinate `i`.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, a.opt_scalar(1)?.map(Spacing::Even).into_iter().collect(), 2, true, false),
        samples!([t(&[3, 4])], [t(&[3, 4]), n(0.5), n(1), n(2)]),
    )
    .doc(
        "Return a tuple with the numerical derivative of `input` along each of `dim`, or along all dimensions. \
         Inner points use central differences, and the ends one-sided differences of order `edge_order`, 1 or 2. \
         `spacing` is the distance of the points, one for each dimension, or the tensor of their coordinates. Each \
         dimension must have at least `edge_order + 1` elements.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, vec![Spacing::Even(a.scalar(1)?)], 2, false, false),
        samples!([t(&[3, 4]), n(2), ints(&[1, 0])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, vec![], 1, false, false),
        samples!([t(&[3, 4]), ints(&[0])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, evenly(a, 1)?, 2, true, true),
        samples!([t(&[3, 4]), SampleArg::Scalars(vec![Scalar::Float(0.5), Scalar::Int(2)])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, evenly(a, 1)?, 2, false, true),
        samples!([t(&[3, 4]), SampleArg::Scalars(vec![Scalar::Float(0.5), Scalar::Int(2)]), ints(&[1, 0])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, at_points(a, 1)?, 2, true, true),
        samples!(
            [t(&[3, 4]), SampleArg::Tensors(vec![vec![3], vec![4]], Fill::Normal)],
            [t(&[5]), SampleArg::Tensors(vec![vec![5]], Fill::Normal), n(0), n(2)],
        ),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, at_points(a, 1)?, 2, false, true),
        samples!([t(&[3, 4]), SampleArg::Tensors(vec![vec![4]], Fill::Normal), ints(&[1])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
        Tier::Composed,
        |a| Ok(renorm(a.tensor(0)?, a.scalar(1)?, a.int(2)?, a.float(3)?)?.into()),
        samples!([t(&[3, 4]), n(2), n(0), n(1)], [positive(&[2, 3, 2]), n(1), n(-1), n(4)]),
    )
    .doc(
        "Return `input` with each slice along `dim` whose `p`-norm is above `maxnorm` scaled to that norm. The \
         other slices stay as they are. `input` must have at least 2 dimensions, and `p` be positive.",
    )
    .inplace()
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, \
        int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        Tier::Composed,
        segment_row,
        segments,
    )
    .doc(
        "Return the elements of `data` reduced over consecutive segments along `axis`. Segments are given by their \
         `lengths`, or by `offsets` with the bounds of all segments. `reduce` is `'sum'`, `'mean'`, `'max'`, `'min'` \
         or `'prod'`; `initial` is where each segment starts from and what an empty one gives. `lengths` must add up \
         to the size of `axis` unless `unsafe` is set. Only floating-point dtypes are allowed.",
    )
    .scope(Scope::Function),
    Row::new(
        "_segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, \
        int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        Tier::Composed,
        segment_row,
        segments,
    )
    .doc("Reduce consecutive segments of `data` along `axis`, as `torch.segment_reduce` does.")
    .scope(Scope::Function)
    .no_out(),
];

fn segments() -> Vec<Sample> {
    // The samples' lengths are counted integers that do not add up, so they turn the check off.
    let one = |how: &'static str, initial: SampleArg| {
        Sample::new(vec![
            t(&[7, 2]),
            text(how),
            index(&[4], 4),
            SampleArg::Default,
            SampleArg::Default,
            n(0),
            n(true),
            initial,
        ])
    };
    vec![one("sum", SampleArg::Default), one("prod", n(2)), one("max", n(-3)), one("min", n(3)), one("mean", n(0))]
}
