//! Indexed writes to tensors that reach one place through several indices.
//!
//! Each function calls its row on the memory of the tensor, a vector. So elements that the row does not name stay as
//! they are, and the last write to a place wins. The rows of these files name the functions, so places are read by
//! methods of tensors.

use crate::overlap::{memory_of, places_of};
use crate::schema::{Arg, Args, Row};
use crate::{Result, Scalar, Tensor, inplace};

fn flat(x: &Tensor) -> Result<Tensor> {
    x.reshape(&[-1])
}

/// Call `row` on the memory of `x` with other arguments, and write the result.
fn call(row: &Row, x: &Tensor, args: &Args<'_>, given: &[(usize, Arg<'_>)]) -> Result<()> {
    let memory = memory_of(x)?;
    let mut all = args.0.to_vec();
    for (i, arg) in given {
        all[*i] = *arg;
    }
    let y = row.call_on(&memory.alias_with_history()?, &Args(&all))?;
    inplace::assign(&memory, &y)
}

/// `index_put_`.
#[cold]
pub(super) fn put(row: &Row, x: &Tensor, args: &Args<'_>) -> Result<()> {
    let at = places_of(x)?.index(args.opt_tensors(1)?)?;
    let values = flat(&args.tensor(2)?.expand_dims(at.dims())?)?;
    call(row, x, args, &[(1, Arg::Tensors(&[Some(flat(&at)?)])), (2, Arg::Tensor(&values))])
}

/// `put_`.
#[cold]
pub(super) fn put_flat(row: &Row, x: &Tensor, args: &Args<'_>) -> Result<()> {
    let at = places_of(x)?.take(args.tensor(1)?)?;
    call(row, x, args, &[(1, Arg::Tensor(&at))])
}

/// `index_add_`, `index_copy_`, `index_fill_` and `index_reduce_`.
#[cold]
pub(super) fn write_slices(row: &Row, x: &Tensor, args: &Args<'_>) -> Result<()> {
    let (dim, named) = (args.int(1)?, args.tensor(2)?);
    let size = x.dims()[crate::op::normalize_dim(dim, x.dims().len())?] as i64;
    // Only `index_fill_` takes negative positions; the others have refused them.
    let named = named.remainder_scalar(size.max(1))?;
    let at = flat(&places_of(x)?.index_select(dim, &named)?)?;
    let first = (1, Arg::Scalar(Scalar::Int(0)));
    match args.0[3] {
        Arg::Tensor(source) if !source.dims().is_empty() => {
            call(row, x, args, &[first, (2, Arg::Tensor(&at)), (3, Arg::Tensor(&flat(source)?))])
        }
        _ => call(row, x, args, &[first, (2, Arg::Tensor(&at))]),
    }
}

/// `scatter_`, `scatter_add_` and `scatter_reduce_`.
#[cold]
pub(super) fn scatter(row: &Row, x: &Tensor, args: &Args<'_>) -> Result<()> {
    let (dim, named) = (args.int(1)?, args.tensor(2)?);
    let at = flat(&places_of(x)?.gather(dim, named)?)?;
    let first = (1, Arg::Scalar(Scalar::Int(0)));
    match args.0[3] {
        Arg::Tensor(source) => {
            // `source` may be larger than the index.
            let source = (0..named.dims().len())
                .try_fold(source.clone(), |s, d| s.narrow(d as i64, 0, named.dims()[d] as i64))?;
            call(row, x, args, &[first, (2, Arg::Tensor(&at)), (3, Arg::Tensor(&flat(&source)?))])
        }
        _ => call(row, x, args, &[first, (2, Arg::Tensor(&at))]),
    }
}

/// `masked_fill_` and `masked_scatter_`.
#[cold]
pub(super) fn write_masked(row: &Row, x: &Tensor, args: &Args<'_>) -> Result<()> {
    let y = row.call_on(&x.alias_with_history()?, args)?;
    crate::overlap::write_hits(x, &y, args.tensor(1)?)
}
