//! Modules, initialisation, losses, optimisers and data loading.
//!
//! Names, formulas, default settings, keys of state dictionaries and the order of random draws are PyTorch's. After the
//! same `manual_seed`, `Linear::new(8, 4)` has the same values as PyTorch's `nn.Linear(8, 4)`.
//!
//! * A [`Module`] computes with [`Parameter`]s. It lists its parts once, in [`Module::visit`]. Lists of parameters,
//!   state dictionaries, moves to a device, and the switch between training and evaluation all use this list.
//! * A [`Parameter`] is a shared cell that holds a tensor. Moving a module replaces the tensors in the cells. So a cell
//!   used by two layers stays one parameter, and an optimiser made before the move trains the moved tensors.
//! * An [`optim::Optimizer`] updates parameters by their gradients, with one fused op per parameter, and notifies the
//!   device at the end of a training step.
//! * A [`data::DataLoader`] makes batches.
//!
//! ```
//! use torchtpu_nn::optim::{AdamW, AdamOptions, Optimizer};
//! use torchtpu_nn::{Linear, Module, ReLU, Sequential, mse_loss};
//! use torchtpu_tensor::{Tensor, random};
//!
//! random::manual_seed(0);
//! let model = Sequential::new().push(Linear::new(1, 16)?).push(ReLU).push(Linear::new(16, 1)?);
//! let mut optimizer = AdamW::new(model.parameters(), AdamOptions { lr: 1e-2, ..AdamOptions::adamw() })?;
//! let x = Tensor::from_slice(&[-1.0f32, -0.5, 0.0, 0.5, 1.0], &[5, 1])?;
//! let y = x.square()?;
//! let mut losses = Vec::new();
//! for _ in 0..100 {
//!     let loss = mse_loss(&model.forward(&x)?, &y)?;
//!     optimizer.zero_grad()?;
//!     torchtpu_autograd::backward(std::slice::from_ref(&loss), &[], None, false, None)?;
//!     optimizer.step()?;
//!     losses.push(loss.item_f64()?);
//! }
//! assert!(losses[99] < 0.2 * losses[0]);
//! # Ok::<(), torchtpu_tensor::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod data;
pub mod init;
mod loss;
mod module;
mod modules;
pub mod optim;
mod parameter;
pub mod safetensors;

pub use loss::*;
pub use module::{IncompatibleKeys, Item, Module, StateDict, Visitor};
pub use modules::*;
pub use parameter::{Buffer, Parameter, Training};
pub use torchtpu_tensor::ops::loss::Reduction;
