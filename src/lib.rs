//! Tensors with PyTorch's API, compiled for TPUs through PJRT, without libtorch.
//!
//! ```
//! use torchtpu::{Backward, DType, Tensor};
//!
//! let x = Tensor::ones(&[2], DType::F32, torchtpu::device("cpu")?)?;
//! x.requires_grad_(true)?;
//! x.square()?.sum()?.backward()?;
//! assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 2.0]);
//! # Ok::<(), torchtpu::Error>(())
//! ```
//!
//! The parts are crates of their own: tensors and ops ([`torchtpu_tensor`], re-exported here), [`autograd`], the lazy
//! engine behind `tpu` ([`lazy`]), modules and optimizers ([`nn`]), and stores and rendezvous of processes
//! ([`distributed`]).
#![forbid(unsafe_code)]

pub use torchtpu_autograd as autograd;
pub use torchtpu_distributed as distributed;
pub use torchtpu_lazy as lazy;
pub use torchtpu_nn as nn;
pub use torchtpu_tensor::*;

/// Custom kernels on device `tpu`. `docs/custom-kernels.md` has a tutorial.
pub mod tpu {
    pub use torchtpu_lazy::CustomOp;
    pub use torchtpu_lazy::mosaic::Cost;
    pub use torchtpu_tensor::ops::inline::{Gradient, GradientInput, Kernel};
}

/// Return the device with this name: `cpu`, `tpu`, `tpu:0`, `meta`. The first `tpu` installs the lazy engine. The
/// plugin is loaded when the first tensor is put there.
///
/// # Errors
/// `Runtime` for an unknown name.
pub fn device(name: &str) -> Result<Device> {
    let device = Device::parse(name)?;
    if device.kind == DeviceKind::Tpu {
        lazy::install();
    }
    Ok(device)
}

/// `loss.backward()` as a method.
pub trait Backward {
    /// Add the gradients of this tensor, which has one element, to `.grad` of the leaves it was computed from.
    ///
    /// # Errors
    /// As [`autograd::backward`].
    fn backward(&self) -> Result<()>;
}

impl Backward for Tensor {
    fn backward(&self) -> Result<()> {
        autograd::backward(std::slice::from_ref(self), &[], None, false, None)
    }
}

/// The Rust programs of the documents, run with the documentation's tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = include_str!("../docs/tutorials/rust-training.md")]
    struct RustTraining;

    #[doc = include_str!("../docs/custom-kernels.md")]
    struct CustomKernels;
}
