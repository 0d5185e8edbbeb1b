//! Matrix decompositions on slices.
//!
//! A matrix is a slice of its consecutive rows. Results follow LAPACK's conventions, like PyTorch's: pivots count from
//! one, reflectors are `1 - tau v v^H`, and failures return the number of the first minor that fails. `faer` computes
//! iterative methods. This crate computes results that have a format of LAPACK.
//!
//! This crate knows no tensor and no op. The caller checks sizes, and calls once per matrix of a batch.

#![forbid(unsafe_code)]

mod columns;
mod eigen;
mod exponential;
mod lu;
mod memory;
mod number;
mod reflectors;
mod symmetric;

pub use eigen::{cholesky, eig, eigh, solve_triangular, svd};
pub use exponential::matrix_exp;
pub use lu::{lu, lu_solve, permutation};
pub use number::Number;
pub use reflectors::qr;
pub use symmetric::{ldl, ldl_solve};
