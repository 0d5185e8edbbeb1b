//! Covariances and correlations.

use super::refuse;
use crate::{DType, Error, Result, Scalar, Tensor};

/// Covariances of the rows of a matrix, whose columns are observations.
pub(super) fn cov(
    x: &Tensor,
    correction: i64,
    frequencies: Option<&Tensor>,
    weights: Option<&Tensor>,
) -> Result<Tensor> {
    let fail = |text: String| Error::runtime(format!("cov(): {text}"));
    if x.dims().len() > 2 {
        return Err(fail(format!(
            "expected input to have two or fewer dimensions but got an input with {} dimensions",
            x.dims().len()
        )));
    }
    if x.dtype() == DType::Bool {
        return Err(Error::not_implemented("cov(): bool dtype is not supported for input"));
    }
    let m = if x.dims().len() < 2 { x.reshape(&[1, -1])? } else { x.clone() };
    let count = m.dims()[1];
    let checked = |name: &str, w: &Tensor, right: bool, kind: &str| -> Result<()> {
        if w.dims().len() > 1 {
            return Err(fail(format!(
                "expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
                w.dims().len()
            )));
        }
        if !right {
            return Err(fail(format!(
                "expected {name} to have {kind} dtype but got {name} with {} dtype",
                w.dtype().scalar_type()
            )));
        }
        if w.numel() != count {
            return Err(fail(format!(
                "expected {name} to have the same numel as there are observations in the input but got {} != {count}",
                w.numel()
            )));
        }
        if count == 0 {
            return Ok(());
        }
        refuse(&w.detach().lt_scalar(0)?, Error::runtime(format!("cov(): {name} cannot be negative")))
    };
    if let Some(f) = frequencies {
        checked("fweights", f, f.dtype().is_int(), "integral")?;
    }
    if let Some(w) = weights {
        checked("aweights", w, w.dtype().is_float(), "floating point")?;
    }
    let w = match (frequencies, weights) {
        (Some(f), Some(w)) => Some(f.mul(w)?),
        (f, w) => f.or(w).cloned(),
    };
    let total = w.as_ref().map(Tensor::sum).transpose()?;
    if let Some(t) = &total {
        refuse(&t.detach().eq_scalar(0)?, Error::runtime("cov(): weights sum to zero, can't be normalized"))?;
    }
    let weighted = |m: &Tensor| w.as_ref().map_or_else(|| Ok(m.clone()), |w| m.mul(w));
    let sum = weighted(&m)?.sum_dim(&[1], false)?;
    let mean = match &total {
        Some(t) => sum.div(t)?,
        None => sum.div_scalar(count as i64)?,
    };
    let d = m.sub(&mean.unsqueeze(1)?)?;
    let dd = weighted(&d)?;
    let y = d.to_dtype(dd.dtype())?.mm(&dd.t()?.conj()?)?;
    let y = match total {
        None => y.div_scalar((count as i64 - correction).max(0))?,
        Some(t) => {
            let less = match (weights, &w) {
                (Some(aw), Some(w)) if correction != 0 => w.mul(aw)?.sum()?.div(&t)?.mul_scalar(correction)?,
                _ => Tensor::full(&[], correction, t.dtype(), t.place())?,
            };
            let norm = t.sub(&less)?;
            y.div(&norm.maximum_scalar(0)?)?
        }
    };
    y.squeeze_all()
}

/// Correlations of the rows of a matrix.
pub(super) fn corrcoef(x: &Tensor) -> Result<Tensor> {
    if x.dims().len() > 2 {
        return Err(Error::runtime(format!(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
            x.dims().len()
        )));
    }
    let c = cov(x, 1, None, None)?;
    if c.dims().is_empty() {
        return c.div(&c);
    }
    let deviation = c.diagonal(0, 0, 1)?.sqrt()?;
    let c = c.div(&deviation.unsqueeze(1)?)?.div(&deviation.unsqueeze(0)?)?;
    // Rounding may give magnitudes above one.
    if c.dtype().is_complex() {
        return crate::ops::complex::by_parts(&c, clamped);
    }
    clamped(&c)
}

fn clamped(c: &Tensor) -> Result<Tensor> {
    crate::ops::pointwise::clip::clamp(
        c,
        Some(crate::schema::Operand::Scalar(Scalar::Int(-1))),
        Some(crate::schema::Operand::Scalar(Scalar::Int(1))),
    )
}
