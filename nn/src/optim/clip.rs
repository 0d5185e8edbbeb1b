//! Clipping of gradients. Nothing is read back from a device: a read would cut the trace.

use crate::Parameter;
use torchtpu_tensor::ops::concat::stack;
use torchtpu_tensor::ops::linalg::vector_norm;
use torchtpu_tensor::{DType, Device, Error, Result, Scalar, Tensor, no_grad};

fn gradients(parameters: &[Parameter]) -> Vec<Tensor> {
    parameters.iter().filter_map(Parameter::grad).collect()
}

/// The norm of all tensors taken as one vector, on the device of the first. Its dtype is the one that the tensors' dtypes
/// promote to; sums are taken wider, so that squares of `f16` do not overflow.
///
/// With `error_if_nonfinite` the norm is read back, which waits for the device.
///
/// # Errors
/// `Runtime`, in PyTorch's wording, for a norm that is not finite when that is asked for; whatever the device reports.
pub fn get_total_norm(tensors: &[Tensor], norm_type: f64, error_if_nonfinite: bool) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Tensor::zeros(&[], DType::F32, Device::CPU);
    };
    no_grad(|| {
        let order = Scalar::Float(norm_type);
        let parts: Vec<Tensor> = tensors
            .iter()
            .map(|t| vector_norm(t, order, None, false, None)?.to_device(first.device()))
            .collect::<Result<_>>()?;
        let norm = match &parts[..] {
            [one] => vector_norm(one, order, None, false, None)?,
            parts => vector_norm(&stack(&parts.iter().collect::<Vec<_>>(), 0)?, order, None, false, None)?,
        };
        if error_if_nonfinite && !norm.item_f64()?.is_finite() {
            return Err(Error::runtime(format!(
                "The total norm of order {norm_type:?} for gradients from `parameters` is non-finite, so it cannot be \
                clipped. To disable this error and scale the gradients by the non-finite norm anyway, set \
                `error_if_nonfinite=False`"
            )));
        }
        Ok(norm)
    })
}

/// Scales all gradients by `max_norm / total_norm` where that is below one.
///
/// # Errors
/// Whatever the device reports.
pub fn clip_grads_with_norm(parameters: &[Parameter], max_norm: f64, total_norm: &Tensor) -> Result<()> {
    no_grad(|| {
        // A factor that is never above one needs no look at its value, hence no wait.
        let factor = total_norm.add_scalar(1e-6)?.pow_scalar(-1.0)?.mul_scalar(max_norm)?.minimum_scalar(1.0)?;
        for g in gradients(parameters) {
            g.mul_(&factor.to_device(g.device())?)?;
        }
        Ok(())
    })
}

/// Scales all gradients by one factor so that their norm, taken together, is at most `max_norm`; gives the norm before.
/// `norm_type` is 2 as a rule, and may be infinite. [`get_total_norm`] and [`clip_grads_with_norm`] are its two halves,
/// the first of which can also refuse a norm that is not finite.
///
/// # Errors
/// Whatever the device reports.
pub fn clip_grad_norm(parameters: &[Parameter], max_norm: f64, norm_type: f64) -> Result<Tensor> {
    let norm = get_total_norm(&gradients(parameters), norm_type, false)?;
    clip_grads_with_norm(parameters, max_norm, &norm)?;
    Ok(norm)
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
