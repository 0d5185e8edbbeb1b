//! Clipping of gradients, without reading from a device: a read would cut the trace.

use crate::Parameter;
use torchtpu_tensor::ops::concat::stack;
use torchtpu_tensor::ops::linalg::vector_norm;
use torchtpu_tensor::{DType, Device, Error, Result, Scalar, Tensor, no_grad};

fn gradients(parameters: &[Parameter]) -> Vec<Tensor> {
    parameters.iter().filter_map(Parameter::grad).collect()
}

/// Return the norm of all tensors as one vector, on the device of the first tensor. Its dtype is the promoted dtype of
/// the tensors. Sums are computed in a wider dtype, so that squares of `f16` do not overflow.
///
/// With `error_if_nonfinite`, the norm is read back, which waits for the device.
///
/// # Errors
/// Fails with `Runtime`, in PyTorch's wording, if `error_if_nonfinite` is set and the norm is not finite. Returns
/// errors of the device.
pub fn get_total_norm(tensors: &[Tensor], norm_type: f64, error_if_nonfinite: bool) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Tensor::zeros(&[], DType::F32, Device::CPU);
    };
    no_grad(|| {
        let order = Scalar::Float(norm_type);
        let parts: Vec<Tensor> = tensors
            .iter()
            .map(|t| vector_norm(t, order, None, false, None)?.to_device(first.place()))
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

/// Scale all gradients by `max_norm / total_norm` if that is less than one.
///
/// # Errors
/// Returns the error that the device reports.
pub fn clip_grads_with_norm(parameters: &[Parameter], max_norm: f64, total_norm: &Tensor) -> Result<()> {
    no_grad(|| {
        // Limit the factor to one on the device, so that its value is not needed and nothing waits.
        let factor = total_norm.add_scalar(1e-6)?.pow_scalar(-1.0)?.mul_scalar(max_norm)?.minimum_scalar(1.0)?;
        for g in gradients(parameters) {
            g.mul_(&factor.to_device(g.place())?)?;
        }
        Ok(())
    })
}

/// Scale all gradients by one factor so that their total norm is at most `max_norm`. Return the norm before scaling.
/// `norm_type` is usually 2, and may be infinite. This is [`get_total_norm`] followed by [`clip_grads_with_norm`]. The
/// former can also refuse a norm that is not finite.
///
/// # Errors
/// Returns the error that the device reports.
pub fn clip_grad_norm(parameters: &[Parameter], max_norm: f64, norm_type: f64) -> Result<Tensor> {
    let norm = get_total_norm(&gradients(parameters), norm_type, false)?;
    clip_grads_with_norm(parameters, max_norm, &norm)?;
    Ok(norm)
}

/// Limit every element of all gradients to `[-clip_value, clip_value]`.
///
/// # Errors
/// Returns the error that the device reports.
pub fn clip_grad_value(parameters: &[Parameter], clip_value: f64) -> Result<()> {
    no_grad(|| {
        for g in gradients(parameters) {
            g.copy_(&g.maximum_scalar(-clip_value)?.minimum_scalar(clip_value)?)?;
        }
        Ok(())
    })
}
