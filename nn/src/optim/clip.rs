//! Clipping of gradients. Nothing is read back from a device: a read would cut the trace.

use crate::Parameter;
use torchtpu_tensor::ops::concat::stack;
use torchtpu_tensor::{DType, Device, Error, Result, Tensor, no_grad};

fn gradients(parameters: &[Parameter]) -> Vec<Tensor> {
    parameters.iter().filter_map(Parameter::grad).collect()
}

/// Scales all gradients by one factor so that their norm, taken together, is at most `max_norm`; gives the norm before.
/// `norm_type` is 2 as a rule, and may be infinite.
///
/// # Errors
/// `Value` when `norm_type` is not positive; whatever the device reports.
pub fn clip_grad_norm(parameters: &[Parameter], max_norm: f64, norm_type: f64) -> Result<Tensor> {
    if norm_type.is_nan() || norm_type <= 0.0 {
        return Err(Error::value(format!("norm_type must be positive, but got {norm_type}")));
    }
    let grads = gradients(parameters);
    if grads.is_empty() {
        return Tensor::zeros(&[], DType::F32, Device::CPU);
    }
    no_grad(|| {
        let device = grads[0].device();
        let parts: Vec<Tensor> = grads
            .iter()
            .map(|g| {
                let size = g.abs()?;
                let part = if norm_type.is_infinite() {
                    size.amax(&[], false)?
                } else if norm_type == 2.0 {
                    size.square()?.sum()?
                } else {
                    size.pow_scalar(norm_type)?.sum()?
                };
                part.to_dtype(DType::F32)?.to_device(device)
            })
            .collect::<Result<_>>()?;
        let parts = stack(&parts.iter().collect::<Vec<_>>(), 0)?;
        let norm = if norm_type.is_infinite() {
            parts.amax(&[], false)?
        } else if norm_type == 2.0 {
            parts.sum()?.sqrt()?
        } else {
            parts.sum()?.pow_scalar(1.0 / norm_type)?
        };
        let factor = norm.add_scalar(1e-6)?.pow_scalar(-1.0)?.mul_scalar(max_norm)?.minimum_scalar(1.0)?;
        for g in &grads {
            g.mul_(&factor.to_dtype(g.dtype())?.to_device(g.device())?)?;
        }
        Ok(norm)
    })
}

/// Limits every element of all gradients to `[-clip_value, clip_value]`.
///
/// # Errors
/// Whatever the device reports.
pub fn clip_grad_value(parameters: &[Parameter], clip_value: f64) -> Result<()> {
    no_grad(|| {
        for g in gradients(parameters) {
            g.copy_(&g.maximum_scalar(-clip_value)?.minimum_scalar(clip_value)?)?;
        }
        Ok(())
    })
}
