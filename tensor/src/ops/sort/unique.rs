//! Distinct values and slices.

use super::{host_of_distinct, many, ordered};
use crate::call::stored;
use crate::graph::not_differentiable;
use crate::op::{Prim, normalize_dim};
use crate::ops::indexing;
use crate::schema::{Row, Sample, Scope, Tier, index, n, t};
use crate::{Place, Result, Tensor, dispatch};
use torchtpu_kernels::{memory, sort as kernels};

fn found(x: &Tensor, u: &kernels::Unique, inverse: bool, counts: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let at = positions(&u.first, &[u.first.len()], x.place())?;
    let values =
        dispatch::call(Prim::IndexSelect(indexing::IndexSelect { dim: 0 }), &[&x.detach().reshape(&[-1])?, &at])?;
    let list = |on: bool, v: &[i64], dims: &[usize]| {
        if on { positions(v, dims, x.place()) } else { positions(&[], &[0], x.place()) }
    };
    Ok((values, list(inverse, &u.inverse, x.dims())?, list(counts, &u.counts, &[u.first.len()])?))
}

/// `torch.unique`: the distinct values in order, for each element the number of its value, and the counts of the
/// values. The last two are empty unless asked for.
///
/// # Errors
/// The errors of reading the values.
pub fn unique(x: &Tensor, inverse: bool, counts: bool) -> Result<(Tensor, Tensor, Tensor)> {
    if x.dtype().is_stored() {
        return of_stored(x, |x| unique(x, inverse, counts));
    }
    ordered("unique", x)?;
    found(x, &kernels::unique(&host_of_distinct(x, "_unique2.default", None)?.view(), inverse, counts), inverse, counts)
}

/// The results of `f`, of elements of a dtype that is only stored.
#[cold]
fn of_stored(
    x: &Tensor,
    f: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor, Tensor)>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (y, inverse, counts) = f(&stored::ordered(x, "unique")?)?;
    Ok((stored::from_ordered(&y, x.dtype())?, inverse, counts))
}

/// `torch.unique_consecutive` of the flattened tensor.
///
/// # Errors
/// The errors of reading the values.
pub fn unique_consecutive(x: &Tensor, inverse: bool, counts: bool) -> Result<(Tensor, Tensor, Tensor)> {
    if x.dtype().is_stored() {
        return of_stored(x, |x| unique_consecutive(x, inverse, counts));
    }
    ordered("unique", x)?;
    found(
        x,
        &kernels::unique_consecutive(&host_of_distinct(x, "unique_consecutive.default", None)?.view(), inverse, counts),
        inverse,
        counts,
    )
}

/// Distinct slices along a dimension, in lexicographic order, or with `consecutive` the runs of equal ones in their
/// order.
fn unique_slices(
    x: &Tensor,
    dim: i64,
    consecutive: bool,
    inverse: bool,
    counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    if x.dtype().is_stored() {
        return of_stored(x, |x| unique_slices(x, dim, consecutive, inverse, counts));
    }
    ordered("unique", x)?;
    let d = normalize_dim(dim, x.dims().len())?;
    if x.dims().is_empty() {
        return unique(x, inverse, counts);
    }
    let rows = x.dims()[d];
    let width: usize = x.numel().checked_div(rows).unwrap_or(0);
    let flat = host_of_distinct(x, "unique_dim.default", Some(d))?
        .movedim(&[d as i64], &[0])?
        .reshape(&[rows as i64, width as i64])?;
    // Numbers are compared by their rank, so that one comparison works for every dtype.
    let rank = unique(&flat, true, false)?.1.to_vec::<i64>()?;
    let row = |i: usize| &rank[i * width..(i + 1) * width];
    let mut order: Vec<usize> = memory::collect(0..rows);
    if !consecutive {
        order.sort_by(|&a, &b| row(a).cmp(row(b)));
    }
    let (mut first, mut number, mut count) = (Vec::new(), memory::filled(0i64, rows), Vec::new());
    for (n, &i) in order.iter().enumerate() {
        if n == 0 || row(i) != row(order[n - 1]) {
            memory::push(&mut first, i as i64);
            memory::push(&mut count, 0i64);
        }
        number[i] = first.len() as i64 - 1;
        *count.last_mut().expect("pushed at the first") += 1;
    }
    let at = positions(&first, &[first.len()], x.place())?;
    let values = dispatch::call(Prim::IndexSelect(indexing::IndexSelect { dim: d }), &[&x.detach(), &at])?;
    let list =
        |on: bool, v: &[i64]| if on { positions(v, &[v.len()], x.place()) } else { positions(&[], &[0], x.place()) };
    Ok((values, list(inverse, &number)?, list(counts, &count)?))
}

fn positions(v: &[i64], dims: &[usize], place: Place) -> Result<Tensor> {
    Tensor::from_slice_on(v, dims, place)
}

/// Rows of distinct values.
pub const ROWS: &[Row] = &[
    Row::new(
        "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, \
        Tensor, Tensor)",
        Tier::Composed,
        |a| {
            let (y, inverse, counts) = unique(a.tensor(0)?, a.bool(2)?, a.bool(3)?)?;
            Ok((not_differentiable(y, a.tensor(0)?, "Unique2Backward0", "_unique2")?, inverse, counts).into())
        },
        || {
            vec![
                Sample::new(vec![many(), n(true), n(true), n(true)]).no_gradient(),
                Sample::new(vec![t(&[4])]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return the distinct elements of `input` in ascending order, the position of each element among them, and \
         how often each occurs; the last two are empty unless asked for.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) \
        -> (Tensor, Tensor, Tensor)",
        Tier::Composed,
        |a| {
            let (y, inverse, counts) = unique_slices(a.tensor(0)?, a.int(1)?, false, a.bool(3)?, a.bool(4)?)?;
            Ok((not_differentiable(y, a.tensor(0)?, "UniqueDimBackward0", "unique_dim")?, inverse, counts).into())
        },
        || vec![Sample::new(vec![index(&[5, 2], 2), n(0), n(true), n(true), n(true)]).no_gradient()],
    )
    .doc(
        "Return the distinct slices of `input` along `dim` in lexicographic order, the position of each slice among \
         them, and how often each occurs. The last two are empty unless `return_inverse` and `return_counts` ask for \
         them. On a device the host reads the values.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> \
        (Tensor, Tensor, Tensor)",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            let (y, inverse, counts) = match a.opt_int(3)? {
                None => unique_consecutive(x, a.bool(1)?, a.bool(2)?)?,
                Some(d) => unique_slices(x, d, true, a.bool(1)?, a.bool(2)?)?,
            };
            let y = not_differentiable(y, x, "UniqueConsecutiveBackward0", "unique_consecutive")?;
            Ok((y, inverse, counts).into())
        },
        || vec![Sample::new(vec![index(&[9], 2), n(true), n(true)]).no_gradient()],
    )
    .doc(
        "Return the elements of `input` without those that repeat the element before them; with `dim`, slices along \
         it are compared. `return_inverse` asks for the position of each element of `input` among the results too, and \
         `return_counts` for the lengths of the runs. On a device the host reads the values.",
    )
    .no_out(),
];
