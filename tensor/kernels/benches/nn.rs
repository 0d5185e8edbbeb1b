//! Times the kernels that training spends its time in.
fn main() {}
