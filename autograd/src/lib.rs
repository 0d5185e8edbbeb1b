//! The engine of reverse-mode differentiation.
//!
//! Ops record themselves as they run ([`torchtpu_tensor::graph`]): a node keeps its op, one edge per input, and the
//! tensors that its gradient rule reads. This crate walks that graph. Node numbers are Lamport clocks, so running the
//! ready node with the largest number first is a topological order. It needs no dependency count and no recursion, and
//! a chain of a million nodes is a loop.
//!
//! Items to know:
//!
//! * [`backward`] and [`grad`] compute gradients.
//! * [`function::Function`] is an operation with its own gradient.
//! * [`checkpoint()`] recomputes instead of keeping memory.
//! * [`gradcheck()`] compares gradients with differences.
//! * [`anomaly::DetectAnomaly`] finds the forward call whose gradient failed.
//!
//! ```
//! use torchtpu_tensor::Tensor;
//! let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
//! x.requires_grad_(true)?;
//! let y = x.square()?.sum()?;
//! torchtpu_autograd::backward(&[y], &[], None, false, None)?;
//! assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), torchtpu_tensor::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod anomaly;
mod checkpoint;
mod current;
mod engine;
pub mod function;
mod gradcheck;
mod hooks;
mod leaves;

pub use checkpoint::{Layer, checkpoint, checkpoint_sequential};
pub use current::{at_end, graph_task_id, will_reach};
pub use engine::{Place, backward, backward_at, grad, grad_at, set_depth_limit};
pub use gradcheck::{GradcheckOptions, gradcheck, gradgradcheck};
