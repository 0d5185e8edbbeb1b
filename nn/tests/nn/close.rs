//! Comparison of a tensor with recorded numbers.

use torchtpu::Tensor;

/// Assert that the first elements are close to `want`.
#[track_caller]
pub fn close(x: &Tensor, want: &[f64]) {
    let got = x.to_vec::<f64>().unwrap();
    let near = |(g, w): (&f64, &f64)| (g - w).abs() <= 2e-5 * (1.0 + w.abs());
    assert!(got.len() >= want.len() && got.iter().zip(want).all(near), "{got:?} against {want:?}");
}
