//! PyTorch's random streams on the CPU, bit for bit.
//!
//! A [`Generator`] is a 32-bit Mersenne Twister, the seed, and the second value of the last Box-Muller pair. Every
//! function takes a generator and fills a [`ViewMut`](crate::ViewMut) with the values that PyTorch 2.15 would draw from
//! the same state. The generator ends in PyTorch's state. Rules for changes:
//!
//! * Fills go by ascending address, not by index, and are serial: the number of threads never changes a stream.
//! * 16-bit floats compute in `f32` and round once. Samplers other than uniform and normal compute in `f64`.
//! * A draw takes one word (24 bits) for `f32`, `f16` and `bf16`, and two words (53 bits) for `f64` and most samplers.
//!   Integers take two words for ranges of 2^28 and more.
//! * Fused multiply-add is part of the streams. `f64` results also depend on the platform's mathematical library.
//!
//! Wrong arguments fail with PyTorch's messages. An empty view draws nothing.

// `!(x > 0.0)` also refuses NaN.
#![allow(clippy::neg_cmp_op_on_partial_ord)]

mod continuous;
mod discrete;
mod generator;
mod integer;
mod normal;
mod order;
mod rejection;
mod truncated;
mod uniform;

pub use continuous::{cauchy_, exponential_};
pub use discrete::{bernoulli_, bernoulli_tensor, dropout_mask, geometric_, multinomial};
pub use generator::{DEFAULT_SEED, Generator, STATE_BYTES};
pub use integer::{permutation, randint, random_, random_from, randperm};
pub use normal::{log_normal_, normal_};
pub use rejection::{binomial, dirichlet_grad, poisson, sample_dirichlet, standard_gamma};
pub use truncated::trunc_normal_;
pub use uniform::uniform_;
