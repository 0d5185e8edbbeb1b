//! Tensors with PyTorch's API, compiled for TPUs through PJRT; no libtorch.
//!
//! ```
//! use torchtpu::{Backward, DType, Tensor};
//!
//! let device = torchtpu::device("cpu")?; // or "tpu": the same program, compiled
//! let x = Tensor::from_slice_on(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2], device)?;
//! let w = Tensor::ones(&[2, 2], DType::F32, device)?;
//! w.requires_grad_(true)?;
//! let loss = (&x.matmul(&w)? - 1.0).square()?.mean()?;
//! loss.backward()?;
//! assert_eq!(loss.item_f64()?, 20.0);
//! assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [10.0, 10.0, 14.0, 14.0]);
//! # Ok::<(), torchtpu::Error>(())
//! ```
//!
//! The parts, each a crate of its own: tensors and ops ([`torchtpu_tensor`], re-exported here), [`autograd`], the lazy
//! engine behind `tpu` ([`lazy`]), modules and optimisers ([`nn`]).
#![forbid(unsafe_code)]

pub use torchtpu_autograd as autograd;
pub use torchtpu_lazy as lazy;
pub use torchtpu_nn as nn;
pub use torchtpu_tensor::*;

/// What is special about device `tpu`: kernels of the user's. `docs/custom-kernels.md` has a tutorial.
pub mod tpu {
    pub use torchtpu_lazy::CustomOp;
    pub use torchtpu_lazy::mosaic::Cost;
    pub use torchtpu_tensor::ops::inline::{Gradient, GradientInput, Kernel};
}

/// A device by its name: `cpu`, `tpu`, `tpu:0`, `meta`. The first `tpu` links the lazy engine in; the plugin is loaded
/// when the first tensor goes there.
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
    /// Adds the gradients of this tensor, which has one element, to `.grad` of the leaves it was computed from.
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

/// The README's Rust example, run with the documentation's tests.
#[cfg(doctest)]
mod readme {
    /// ```
    /// use torchtpu::{Backward, DType, Tensor};
    ///
    /// let device = torchtpu::device("cpu")?; // or "tpu": the same program, compiled
    /// let x = Tensor::from_slice_on(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2], device)?;
    /// let w = Tensor::ones(&[2, 2], DType::F32, device)?;
    /// w.requires_grad_(true)?;
    /// let loss = (&x.matmul(&w)? - 1.0).square()?.mean()?;
    /// loss.backward()?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [10.0, 10.0, 14.0, 14.0]);
    /// # Ok::<(), torchtpu::Error>(())
    /// ```
    struct Example;
}

#[cfg(test)]
mod tests {
    /// The example above is the README's, line by line.
    #[test]
    fn the_readme_example_is_the_one_that_is_tested() {
        let readme = include_str!("../README.md");
        let source = include_str!("lib.rs");
        let block = readme.split("```rust\n").nth(1).and_then(|r| r.split("```").next()).expect("a Rust block");
        let tested = source.split("mod readme {").nth(1).expect("the module above");
        for line in block.lines().map(str::trim).filter(|l| !l.is_empty()) {
            assert!(tested.contains(line), "the README has a line that is not tested: {line}");
        }
    }
}
