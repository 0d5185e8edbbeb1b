//! The engine of reverse-mode differentiation.
//!
//! Ops record themselves on the tape as they run ([`torchtpu_tensor::graph`]): a node keeps its op, one edge an input and
//! what its gradient rule reads. This crate walks that graph. Numbers of nodes are Lamport clocks, so taking the ready node
//! with the largest number first is a topological order: no dependency count, no recursion, and a chain of a million nodes
//! is a loop.
//!
//! To know: [`backward`] and [`grad`]; [`function::Function`], an operation with a gradient of one's own; [`checkpoint()`],
//! which trades time for memory; [`gradcheck()`], which compares gradients with differences; [`anomaly::DetectAnomaly`],
//! which finds the forward call that is to blame.
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

pub use checkpoint::{Layer, checkpoint, checkpoint_sequential};
pub use current::{graph_task_id, will_reach};
pub use engine::{Place, backward, backward_at, grad, grad_at, set_depth_limit};
pub use gradcheck::{GradcheckOptions, gradcheck, gradgradcheck};
