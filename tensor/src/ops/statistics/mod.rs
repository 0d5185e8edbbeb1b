//! Quantiles, modes, covariances, histograms, numerical gradients and reductions of segments: all composed.
//!
//! Checks of values (weights that are negative, lengths that do not add up) read them, as in PyTorch; the fractions of a
//! quantile are checked on `cpu` at once and on a device when the host next reads.

mod covariance;
mod gradient;
mod histogram;
mod quantile;
mod segment;

use crate::ops::indexing;
use crate::ops::reduce::{ReduceKind, reduce};
use crate::policy::{Policies, Policy};
use crate::schema::{
    Aliasing, Fill, OutDType, Ret, Row, Sample, SampleArg, Scope, Tier, index, ints, messages, n, positive, t,
};
use crate::{DeviceKind, Error, Result, Tensor, samples};
use covariance::{corrcoef, cov};
use gradient::{Spacing, at_points, evenly, gradient_row};
use histogram::{even_edges, given_edges, histogram, histogram_of_all, points};
use quantile::{mode, quantile_row};
use segment::{renorm, segment_row};

/// Raises `error` when any element of `bad` is true.
fn refuse(bad: &Tensor, error: Error) -> Result<()> {
    if bad.device().kind == DeviceKind::Meta {
        return Ok(());
    }
    let any = reduce(ReduceKind::Any, bad, None, false)?;
    if any.item()?.to_i64() != 0 { Err(error) } else { Ok(()) }
}

/// [`refuse`] at the next read where reading now would cut the trace.
fn refuse_later(bad: &Tensor, error: Error) -> Result<()> {
    if bad.device().kind == DeviceKind::Tpu { indexing::defer(bad, error) } else { refuse(bad, error) }
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
    .autocast(Policies::cpu(Policy::Full)),
    Row::new(
        "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
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
        "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        Tier::Composed,
        |a| quantile_row(a, "nanquantile", true),
        || vec![Sample::new(vec![t(&[3, 5]), fractions(&[2]), n(1)]).no_gradient()],
    )
    .autocast(Policies::cpu(Policy::Full)),
    Row::new(
        "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
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
    .fields(&["values", "indices"]),
    Row::new(
        "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
        Tier::Composed,
        |a| Ok(cov(a.tensor(0)?, a.int(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?)?.into()),
        samples!([t(&[3, 5])], [t(&[5]), n(0)], [t(&[2, 4]), n(1), index(&[4], 3), positive(&[4])]),
    )
    .no_out(),
    Row::new(
        "corrcoef(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(corrcoef(a.tensor(0)?)?.into()),
        || vec![Sample::new(vec![t(&[3, 5])]).no_gradient(), Sample::new(vec![t(&[4])]).no_gradient()],
    )
    .no_out(),
    Row::new(
        "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
        Tier::Composed,
        |a| histogram_of_all(a, 2, &|p| given_edges(p, &[a.tensor(1)?])),
        Vec::new,
    )
    .fields(&["hist", "bin_edges"]),
    Row::new(
        "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
        Tier::Composed,
        |a| histogram_of_all(a, 3, &|p| even_edges(p, &[a.int(1)?], a.opt_floats(2)?)),
        || {
            vec![
                Sample::new(vec![t(&[3, 5]), n(4), SampleArg::Floats(vec![-1.05, 1.55])]).no_gradient(),
                Sample::new(vec![t(&[7]), n(3), SampleArg::Floats(vec![-2.05, 2.15]), positive(&[7]), n(true)]).no_gradient(),
            ]
        },
    )
    .fields(&["hist", "bin_edges"]),
    Row::new(
        "_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor[]",
        Tier::Composed,
        |a| Ok(Ret::Tuple(even_edges(&points(a.tensor(0)?, a.opt_tensor(3)?)?, a.ints(1)?, a.opt_floats(2)?)?)),
        || vec![Sample::new(vec![t(&[5, 2]), ints(&[3, 2])]).no_gradient()],
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor",
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
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
        Tier::Composed,
        |a| {
            let p = points(a.tensor(0)?, a.opt_tensor(2)?)?;
            Ok(histogram(&p, &given_edges(&p, &a.tensors(1)?)?, a.bool(3)?)?.into())
        },
        Vec::new,
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, a.opt_float(1)?.map(Spacing::Even).into_iter().collect(), 2, true, false),
        samples!([t(&[3, 4])], [t(&[3, 4]), n(0.5), n(1), n(2)]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, vec![Spacing::Even(a.float(1)?)], 2, false, false),
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
        "gradient.scalarrayint(Tensor self, *, float[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, evenly(a, 1)?, 2, true, true),
        samples!([t(&[3, 4]), SampleArg::Floats(vec![0.5, 2.0])]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "gradient.scalarrayarray(Tensor self, *, float[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
        Tier::Composed,
        |a| gradient_row(a, evenly(a, 1)?, 2, false, true),
        samples!([t(&[3, 4]), SampleArg::Floats(vec![0.5, 2.0]), ints(&[1, 0])]),
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
    .inplace()
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep)
    .autocast(Policies::accelerator(Policy::Full)),
    Row::new(
        "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        Tier::Composed,
        segment_row,
        segments,
    )
    .scope(Scope::Function),
    Row::new(
        "_segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        Tier::Composed,
        segment_row,
        segments,
    )
    .scope(Scope::Function)
    .no_out(),
];

fn segments() -> Vec<Sample> {
    // Lengths of counted integers do not add up, so these say that they need not.
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
