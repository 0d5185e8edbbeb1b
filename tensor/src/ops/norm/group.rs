//! Normalisation over groups of channels.

use super::layer::row_norm;
use super::per_channel;
use crate::ops::pointwise::independent_of;
use crate::ops::reduce::var_mean;
use crate::schema::{Args, Ret};
use crate::types::compute::{compute_dtype, narrowed, widened};
use crate::{Dims, Error, Result, Tensor, state};

/// `torch.nn.functional.group_norm`.
///
/// # Errors
/// `Runtime` when groups do not divide the channels, or parameters are no vectors with one number for each channel.
pub fn group_norm(x: &Tensor, groups: i64, w: Option<&Tensor>, b: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    group_norm_with_statistics(x, groups, w, b, eps)?.0.in_format_of(x)
}

/// The result, and mean and inverse deviation of each group of each sample.
fn group_norm_with_statistics(
    x: &Tensor,
    groups: i64,
    w: Option<&Tensor>,
    b: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let d = *x.dims();
    if d.len() < 2 {
        return Err(Error::runtime(format!(
            "Expected at least 2 dimensions for input tensor but received {}",
            d.len()
        )));
    }
    if groups <= 0 {
        return Err(Error::runtime(format!("Expected num groups to be greater than 0, got {groups}")));
    }
    if !d[1].is_multiple_of(groups as usize) {
        return Err(Error::runtime(format!(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {d} and \
            num_groups={groups}"
        )));
    }
    if d[2..].contains(&0) {
        return Err(Error::runtime("Expected HxW to be greater than 0, got 0"));
    }
    for (p, name) in [(w, "weight"), (b, "bias")] {
        if let Some(p) = p.filter(|p| p.dims().len() != 1 || p.numel() != d[1]) {
            return Err(Error::runtime(format!(
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of \
                shape {} and input of shape {d}",
                p.dims()
            )));
        }
    }
    if d[1] == 0 {
        return Err(Error::runtime(format!("Expected number of channels to be greater than 0, got {}", d[1])));
    }
    let rows = d[0] * groups as usize;
    if x.numel() == 0 {
        // There is nothing to normalise, but the parameters still get gradients.
        let y = w.map_or_else(|| Ok(x.clone()), |w| x.mul(&per_channel(w, d.len())?))?;
        let y = b.map_or_else(|| Ok(y.clone()), |b| y.add(&per_channel(b, d.len())?))?.to_dtype(x.dtype())?;
        let none = Tensor::zeros(&[d[0], groups as usize], compute_dtype(x.dtype()), x.place())?;
        return Ok((y, none.clone(), none));
    }
    // The parameters are applied before rounding.
    let row = x.numel() / rows;
    let v = if w.is_some() || b.is_some() { widened(x)? } else { x.clone() };
    let flat = v.reshape_dims(Dims::new(&[rows, row]))?;
    let normed = row_norm(&flat, Dims::new(&[row]), None, None, eps, false)?;
    let mut y = normed[0].reshape_dims(d)?;
    if let Some(w) = w {
        y = y.mul(&per_channel(&w.to_dtype(v.dtype())?, d.len())?)?;
    }
    if let Some(b) = b {
        y = y.add(&per_channel(&b.to_dtype(v.dtype())?, d.len())?)?;
    }
    let y = narrowed(y, x.dtype())?;
    let each = Dims::new(&[d[0], groups as usize]);
    Ok((y, normed[1].reshape_dims(each)?, normed[2].reshape_dims(each)?))
}

/// `torch.native_group_norm`, which has the sizes as arguments.
pub(super) fn native_group_norm(a: &Args<'_>) -> Result<Ret> {
    let (x, w) = (a.tensor(0)?, a.opt_tensor(1)?);
    let [n, c, rest] = [a.int(3)?, a.int(4)?, a.int(5)?];
    if n.checked_mul(c).and_then(|v| v.checked_mul(rest)) != Some(x.numel() as i64) {
        return Err(Error::runtime(format!(
            "Expected X.numel() == N * C * HxW, but got {} and {n} * {c} * {rest}",
            x.numel()
        )));
    }
    let flat = x.reshape(&[n, c, rest])?;
    let (groups, eps) = (a.int(6)?, a.float(7)?);
    let (y, mut mean, mut rstd) = group_norm_with_statistics(&flat, groups, w, a.opt_tensor(2)?, eps)?;
    if state::grad_enabled() && x.requires_grad() && x.numel() > 0 {
        // The statistics of the fused op have no gradient.
        let each = widened(x)?.reshape(&[n, groups, c / groups * rest])?;
        let (var, average) = var_mean(&each, Some(&[2]), 0.0, false)?;
        (mean, rstd) = (average, var.add_scalar(eps)?.rsqrt()?);
    }
    // Results do not depend on the parameters, which still get a gradient of zero.
    for p in [w, a.opt_tensor(2)?, (x.numel() == 0).then_some(x)].into_iter().flatten().filter(|p| p.requires_grad()) {
        let number = p.sum()?;
        (mean, rstd) = (independent_of(&number, mean)?, independent_of(&number, rstd)?);
    }
    // Statistics have the parameters' dtype.
    let stats = w.unwrap_or(x).dtype();
    Ok((y.reshape_dims(*x.dims())?, mean.to_dtype(stats)?, rstd.to_dtype(stats)?).into())
}
