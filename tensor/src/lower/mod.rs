//! StableHLO that several ops share: spellings of functions, calls of kernels, and offsets that are passed at run time.

pub(crate) mod analytic;
pub(crate) mod attention;
pub(crate) mod conv;
pub(crate) mod fields;
pub(crate) mod join;
pub mod kernel_call;
pub(crate) mod math;
pub mod offsets;
