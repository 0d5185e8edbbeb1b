//! Decompositions of matrices on slices.
//!
//! A matrix is a slice of its rows, one after another. Results follow LAPACK's conventions (pivots that count from one, reflectors
//! `1 - tau v v^H`, the number of the first minor that fails), which are PyTorch's. Iterative methods are `faer`'s; what has
//! a format of LAPACK's own is here.
//!
//! This crate knows no tensor and no op: whoever calls has checked sizes, and calls once for each matrix of a batch.

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
