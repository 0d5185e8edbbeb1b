use super::{Kernel, Multiply, matrices};
use crate::cpu::{Level, machine};
use crate::matmul::{Mat, MatMut};

/// Every tile for `f32` that the machine has, whatever sizes it is chosen for.
fn kernels() -> Vec<&'static Kernel<f32>> {
    let mut kernels: Vec<_> = Level::ALL.into_iter().filter(|&l| l <= machine()).map(f32::kernel).collect();
    #[cfg(target_arch = "x86_64")]
    if machine() == Level::Amx {
        kernels.push(&super::tiles::F32);
    }
    kernels
}

/// `[rows, columns]` in a buffer with columns or rows side by side, or neither.
fn matrix(rows: usize, columns: usize, layout: usize) -> (Vec<f32>, [usize; 2]) {
    let strides = [[columns, 1], [1, rows], [3 * columns, 3]][layout];
    let mut data = vec![f32::NAN; 3 * rows * columns];
    for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
        data[i * strides[0] + j * strides[1]] = ((i * 131 + j * 71) % 101) as f32 / 64.0 - 0.75;
    }
    (data, strides)
}

#[test]
fn tiles_multiply_matrices_of_all_sizes_and_strides() {
    for (m, n, k) in [(1, 1, 1), (33, 40, 17), (70, 31, 64), (16, 100, 65), (100, 90, 700), (31, 33, 1300)] {
        for layouts in 0..9 {
            let (a, sa) = matrix(m, k, layouts / 3);
            let (b, sb) = matrix(k, n, layouts % 3);
            for kernel in kernels() {
                let mut c: Vec<f32> = (0..m * n).map(|i| i as f32 / 16.0).collect();
                // SAFETY: the slices hold the matrices.
                unsafe {
                    let (a, b) = (Mat::new(&a, sa[0], sa[1]), Mat::new(&b, sb[0], sb[1]));
                    matrices(kernel, m, n, k, 0.5, &a.rows(), &b.columns(), 2.0, MatMut::new(&mut c, n, 1), true);
                }
                for (at, &got) in c.iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let product = |p: usize| a[i * sa[0] + p * sa[1]] as f64 * b[p * sb[0] + j * sb[1]] as f64;
                    let want = 0.5 * (0..k).map(product).sum::<f64>() + at as f64 / 8.0;
                    let error = (got as f64 - want).abs();
                    assert!(error <= 1e-5 * (1.0 + want.abs()), "{m} {n} {k} {layouts} ({i}, {j}): {got}, not {want}");
                }
            }
        }
    }
}
