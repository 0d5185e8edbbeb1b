//! PyTorch's random streams on the CPU, bit for bit.
//!
//! A [`Generator`] is a 32-bit Mersenne Twister, the seed, and the second value of the last Box-Muller pair. Every
//! function takes one and fills a [`ViewMut`](crate::ViewMut) with what PyTorch 2.15 would put there from the same state,
//! and leaves the state that PyTorch would leave. What must be known to keep it so:
//!
//! * Fills go by ascending address, not by index, and are serial: the number of threads never changes a stream.
//! * Reduced types compute in `f32` and round once; samplers other than uniform and normal compute in `f64`.
//! * A draw takes one word (24 bits) for `f32`, `f16`, `bf16`, two (53 bits) for `f64` and most samplers; integers take
//!   two from a range of 2^28 on.
//! * Fused multiply-add is part of the streams. `f64` results also depend on the platform's mathematical library.
//!
//! Wrong arguments are refused in PyTorch's words; an empty view draws nothing.

// `!(x > 0.0)` is how NaN is refused too.
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
