//! Least squares.

use super::pinv::{number, pinv};
use super::solve::is_vector;
use super::svd::svdvals;
use super::{any, batch_and, matrix_size, same_batch, tuple};
use crate::policy::{Policies, Policy};
use crate::schema::{Ret, Row, Sample, SampleArg, Scope, Tier, t};
use crate::{DType, Error, Result, Scalar, Tensor};

/// Least squares: among all `x` with the smallest `|a x - b|`, the one with the smallest `|x|`.
fn lstsq(a: &Tensor, b: &Tensor, rcond: Option<f64>, driver: Option<&str>) -> Result<Ret> {
    const NAME: &str = "torch.linalg.lstsq";
    if a.dims().len() < 2 {
        return Err(Error::runtime(format!("{NAME}: input must have at least 2 dimensions.")));
    }
    if b.dims().is_empty() {
        return Err(Error::runtime(format!("{NAME}: other must have at least 1 dimension.")));
    }
    let vector = is_vector(a, b);
    let columns = if vector { b.unsqueeze(-1)? } else { b.clone() };
    let (m, n) = matrix_size(a.meta());
    if columns.dims().len() < 2 || columns.dims()[columns.dims().len() - 2] != m {
        let place = if vector { "-1" } else { "-2" };
        return Err(Error::runtime(format!("{NAME}: input.size(-2) should match other.size({place})")));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "{NAME}: Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}",
            a.dtype().scalar_type(),
            b.dtype().scalar_type()
        )));
    }
    let driver = driver.unwrap_or("gelsy");
    if !["gels", "gelsy", "gelsd", "gelss"].contains(&driver) {
        return Err(Error::runtime(format!("{NAME}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")));
    }
    if !a.dtype().is_inexact() || a.dtype().is_half() {
        return Err(Error::runtime("This function doesn't handle types other than float and double"));
    }
    let (a, columns) = same_batch(a, &columns)?;
    let real = a.dtype().to_real();
    let epsilon = if real == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() };
    let rcond = rcond.unwrap_or(epsilon * m.max(n) as f64);
    let batch = batch_and(a.dims(), &[]);
    let empty = |dtype: DType| Tensor::zeros(&[0], dtype, a.place());
    // `gels` assumes full rank.
    let cut = if driver == "gels" { 0.0 } else { rcond };
    let x = pinv("linalg.pinv", &a, number(&a, Some(0.0))?, number(&a, Some(cut))?, false)?.matmul(&columns)?;
    let (rank, values) = crate::no_grad(|| {
        let values = svdvals(&a)?;
        let rank = match driver == "gels" || a.numel() == 0 {
            true => Tensor::full_meta(&a.meta().with_dims(batch).with_dtype(DType::I64), Scalar::Int(m.min(n) as i64))?,
            false => {
                let least = values.amax(&[-1], true)?.mul_scalar(rcond)?;
                values.gt(&least)?.to_dtype(DType::I64)?.sum_dim(&[-1], false)?
            }
        };
        Ok::<_, Error>((rank, values))
    })?;
    let all_full = || -> Result<bool> {
        if driver == "gels" || a.place().is_abstract() || rank.numel() == 0 {
            return Ok(true);
        }
        let least = crate::no_grad(|| rank.reshape(&[-1])?.amin(&[0], false))?;
        Ok(least.item()?.to_i64() == n as i64)
    };
    let residuals = match m > n && driver != "gelsy" && all_full()? {
        true => {
            let over = a.matmul(&x)?.sub(&columns)?.abs()?;
            over.mul(&over)?.sum_dim(&[-2], false)?
        }
        // An empty result computed from the solution, like the others.
        false => x.reshape(&[-1])?.narrow(0, 0, 0)?.abs()?,
    };
    let x = if vector { x.squeeze(-1)? } else { x };
    let rank = if driver == "gels" { empty(DType::I64)? } else { rank };
    let values = if driver == "gels" || driver == "gelsy" { empty(real)? } else { values };
    tuple([x, residuals, rank, values])
}

/// The rows of this file.
pub const ROWS: &[Row] = &[Row::new(
    "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor \
        residuals, Tensor rank, Tensor singular_values)",
    Tier::Composed,
    |a| lstsq(a.tensor(0)?, a.tensor(1)?, a.opt_float(2)?, a.opt_str(3)?),
    || {
        vec![
            any(vec![t(&[4, 3]), t(&[4, 2])]),
            Sample::new(vec![t(&[4, 3]), t(&[4, 2]), SampleArg::Default, SampleArg::Str("gelsd")]).no_gradient(),
        ]
    },
)
.autocast(Policies::cpu(Policy::Full))
.doc(
    "Return the `solution` `(..., n, k)` with the least `|input @ x - b|`, and of those with the least `|x|`, for \
         `input` `(..., m, n)` and `b` `(..., m, k)` of one dtype. `driver` is `\"gelsy\"` (the default), `\"gels\"`, \
         which takes full rank for granted, `\"gelsd\"` or `\"gelss\"`. Singular values up to `rcond` times the \
         largest count as zero. `residuals` holds the squared errors of each column, if `m > n`, all ranks are full \
         and the driver is not `\"gelsy\"`. `rank` and `singular_values` are empty where the driver has none.",
)
.scope(Scope::Nn)
.fields(&["solution", "residuals", "rank", "singular_values"])];
