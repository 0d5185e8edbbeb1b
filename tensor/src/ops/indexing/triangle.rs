//! Triangles and diagonals of matrices.

use super::{KINDS, count_up, long_or, ok};
use crate::op::normalize_dim;
use crate::ops::pointwise;
use crate::policy::{Policies, Policy};
use crate::schema::{OutDType, Row, Sample, Scope, Tier, messages, n, t};
use crate::{DType, Dims, Error, Meta, Place, Result, Scalar, Tensor, samples};

/// Row and column numbers of a matrix as `[rows, 1]` and `[1, columns]`, for comparisons.
fn rows_and_columns(rows: usize, columns: usize, place: Place) -> Result<(Tensor, Tensor)> {
    Ok((
        count_up(rows, place)?.view_dims(Dims::new(&[rows, 1]))?,
        count_up(columns, place)?.view_dims(Dims::new(&[1, columns]))?,
    ))
}

fn triangle(x: &Tensor, diagonal: i64, lower: bool) -> Result<Tensor> {
    let r = x.dims().len();
    if r < 2 {
        return Err(Error::runtime(format!(
            "{}: input tensor must have at least 2 dimensions",
            if lower { "tril" } else { "triu" }
        )));
    }
    let (i, j) = rows_and_columns(x.dims()[r - 2], x.dims()[r - 1], x.place())?;
    let d = j.sub(&i)?;
    let keep = if lower { d.le_scalar(diagonal)? } else { d.ge_scalar(diagonal)? };
    pointwise::select(&keep, x, &Tensor::number(Scalar::Int(0), x.dtype())?)
}

/// `torch.tril`: zeros above a diagonal of each matrix.
///
/// # Errors
/// `Runtime` for fewer than two dimensions.
pub fn tril(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(x, diagonal, true)
}

/// `torch.triu`: zeros below a diagonal of each matrix.
///
/// # Errors
/// `Runtime` for fewer than two dimensions.
pub fn triu(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(x, diagonal, false)
}

/// Positions of a triangle's elements, row by row. They follow from the sizes alone.
fn triangle_indices(rows: i64, columns: i64, offset: i64, lower: bool, dtype: DType, place: Place) -> Result<Tensor> {
    if rows < 0 || columns < 0 {
        return Err(Error::runtime(format!(
            "{} must be non-negative, got {}",
            if rows < 0 { "row" } else { "col" },
            if rows < 0 { rows } else { columns }
        )));
    }
    // Row `r` is cut at column `r + shift`. From row `first` on this is after the first column, from row `last` on
    // after all columns.
    let shift = i128::from(offset) + i128::from(lower);
    let (m, n) = (i128::from(rows), i128::from(columns));
    let cut = |r: i64| (i128::from(r) + shift).clamp(0, n) as i64;
    let (first, last) = ((-shift).clamp(0, m), (n - shift).clamp(0, m));
    let left = (last - first) * (first + last - 1 + 2 * shift) / 2 + (m - last) * n;
    let count = if lower { left } else { m * n - left };
    let count = usize::try_from(count).map_err(|_| Error::runtime("numel: integer multiplication overflow"))?;
    let y = Tensor::empty(&Meta::new(&[2, count], DType::I64, Place::CPU))?;
    if let Some(out) = y.view_mut().as_slice_mut::<i64>() {
        let (i, j) = out.split_at_mut(count);
        let (some, parts) = if lower { (first as i64..rows, 0) } else { (0..last as i64, 1) };
        let places = some.flat_map(|r| {
            let (from, to) = if parts == 0 { (0, cut(r)) } else { (cut(r), columns) };
            (from..to).map(move |c| (r, c))
        });
        i.iter_mut().zip(j).zip(places).for_each(|((i, j), place)| (*i, *j) = place);
    }
    y.to_dtype(dtype)?.to_device(place)
}

/// `torch.diag_embed`: matrices with the last dimension on a diagonal.
///
/// # Errors
/// `Index` or `Runtime` for dimensions that do not fit.
pub fn diag_embed(x: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let r = x.dims().len();
    if r == 0 {
        return Err(Error::index("Dimension specified as -1 but tensor has no dimensions"));
    }
    let (d1, d2) = (normalize_dim(dim1, r + 1)?, normalize_dim(dim2, r + 1)?);
    if d1 == d2 {
        return Err(Error::runtime(format!("diagonal dimensions cannot be identical {dim1}, {dim2}")));
    }
    // Above the main diagonal the number of an element is its row, below it its column.
    let mut around = vec![(0, 0); r];
    around[r - 1].1 = i64::try_from(offset.unsigned_abs()).unwrap_or(i64::MAX);
    let line = crate::ops::pad::pad_constant(x, &around, Scalar::Int(0))?;
    let side = line.dims()[r - 1];
    let (i, j) = rows_and_columns(side, side, x.place())?;
    let on = j.sub(&i)?.eq_scalar(offset)?;
    let spread = if offset >= 0 { line.unsqueeze(-1)? } else { line.unsqueeze(-2)? };
    let y = pointwise::select(&on, &spread, &Tensor::number(Scalar::Int(0), x.dtype())?)?;
    y.movedim(&[-2, -1], &[d1 as i64, d2 as i64])
}

fn diag(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    match x.dims().len() {
        1 => diag_embed(x, diagonal, 0, 1),
        2 => x.diagonal(diagonal, 0, 1)?.copy(),
        r => Err(Error::runtime(format!("diag(): Supports 1D or 2D tensors. Got {r}D"))),
    }
}

fn trace(x: &Tensor) -> Result<Tensor> {
    if x.dims().len() != 2 {
        return Err(Error::runtime("trace: expected a matrix"));
    }
    x.diagonal(0, 0, 1)?.sum()
}

/// Rows of triangles and diagonals.
pub const ROWS: &[Row] = &[
    Row::new(
        "tril(Tensor self, int diagonal=0) -> Tensor",
        Tier::Composed,
        |a| ok(tril(a.tensor(0)?, a.int(1)?)),
        || vec![Sample::new(vec![t(&[3, 4])]).dtypes(KINDS), Sample::new(vec![t(&[2, 3, 3]), n(-1)])],
    )
    .doc(
        "Return a copy of `input` with zeros above a diagonal of each matrix in the last two dimensions. `diagonal` \
         0 is the main one; positive ones are above it, negative ones below. `input` must have at least 2 \
         dimensions.",
    )
    .inplace()
    .writes_repeated(crate::inplace::write_same)
    .out_dtype(OutDType::OfInput(messages::expected_out)),
    Row::new(
        "triu(Tensor self, int diagonal=0) -> Tensor",
        Tier::Composed,
        |a| ok(triu(a.tensor(0)?, a.int(1)?)),
        || vec![Sample::new(vec![t(&[3, 4])]).dtypes(KINDS), Sample::new(vec![t(&[2, 3, 3]), n(1)])],
    )
    .doc(
        "Return a copy of `input` with zeros below a diagonal of each matrix in the last two dimensions. `diagonal` \
         0 is the main one; positive ones are above it, negative ones below. `input` must have at least 2 \
         dimensions.",
    )
    .inplace()
    .writes_repeated(crate::inplace::write_same)
    .out_dtype(OutDType::OfInput(messages::expected_out)),
    Row::new(
        "tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| {
            ok(triangle_indices(
                a.int(0)?,
                a.int(1)?,
                a.int(2)?,
                true,
                long_or(a, 3)?,
                a.opt_device(5)?.unwrap_or(Place::CPU),
            ))
        },
        || vec![Sample::new(vec![n(3), n(4), n(-1)]).no_gradient()],
    )
    .doc(
        "Return the positions of the lower triangle of a matrix of shape `(row, col)`, row by row, as a tensor of \
         shape `(2, n)`: row numbers first, then column numbers. `offset` moves the diagonal that bounds the \
         triangle up, or down if it is negative. `dtype` is `int64` unless given.",
    )
    .scope(Scope::Function),
    Row::new(
        "triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| {
            ok(triangle_indices(
                a.int(0)?,
                a.int(1)?,
                a.int(2)?,
                false,
                long_or(a, 3)?,
                a.opt_device(5)?.unwrap_or(Place::CPU),
            ))
        },
        || vec![Sample::new(vec![n(3), n(4), n(1)]).no_gradient()],
    )
    .doc(
        "Return the positions of the upper triangle of a matrix of shape `(row, col)`, row by row, as a tensor of \
         shape `(2, n)`: row numbers first, then column numbers. `offset` moves the diagonal that bounds the \
         triangle up, or down if it is negative. `dtype` is `int64` unless given.",
    )
    .scope(Scope::Function),
    Row::new(
        "diag(Tensor self, int diagonal=0) -> Tensor",
        Tier::Composed,
        |a| ok(diag(a.tensor(0)?, a.int(1)?)),
        samples!([t(&[3]), n(1)], [t(&[3]), n(-2)], [t(&[3, 4]), n(1)]),
    )
    .doc(
        "Return a square matrix with the vector `input` on a diagonal, or the diagonal of the matrix `input` as a \
         copy. `diagonal` 0 is the main one; positive ones are above it, negative ones below. Other numbers of \
         dimensions are refused.",
    ),
    Row::new(
        "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
        Tier::Composed,
        |a| ok(diag_embed(a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?)),
        samples!([t(&[2, 3])], [t(&[2, 3]), n(1), n(0), n(2)]),
    )
    .doc(
        "Return square matrices with the last dimension of `input` on a diagonal, and zeros elsewhere. The matrices \
         lie in the dimensions `dim1` and `dim2` of the result. `offset` moves the diagonal up, or down if it is \
         negative; the sides are longer by `|offset|`.",
    ),
    Row::new("trace(Tensor self) -> Tensor", Tier::Composed, |a| ok(trace(a.tensor(0)?)), samples!([t(&[3, 4])]))
        .doc(
            "Return the sum of the main diagonal of the matrix `input`, as a 0-d tensor. Integers are summed in \
         `int64`. Other numbers of dimensions than 2 are refused.",
        )
        .autocast(Policies::cpu(Policy::Full)),
];
