use super::{Kernel, Multiply, matrices};
use crate::cpu::{Level, machine};
use crate::matmul::{Mat, MatMut};

/// Return every `f32` tile that the machine has, even if no product would choose it.
fn kernels() -> Vec<&'static Kernel<f32>> {
    let mut kernels: Vec<_> = Level::ALL.into_iter().filter(|&l| l <= machine()).map(f32::kernel).collect();
    #[cfg(target_arch = "x86_64")]
    if machine() == Level::Amx {
        kernels.push(&super::tiles::F32);
    }
    kernels
}

/// Make a `[rows, columns]` matrix in a buffer, with adjacent columns, adjacent rows, or neither. Return the buffer
/// with its strides.
fn matrix(rows: usize, columns: usize, layout: usize) -> (Vec<f32>, [usize; 2]) {
    let strides = [[columns, 1], [1, rows], [3 * columns, 3]][layout];
    let mut data = vec![f32::NAN; 3 * rows * columns];
    for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
        data[i * strides[0] + j * strides[1]] = ((i * 131 + j * 71) % 101) as f32 / 64.0 - 0.75;
    }
    (data, strides)
}

/// Random numbers in -1..1.
struct Random(u64);
impl Random {
    fn numbers(&mut self, count: usize) -> Vec<f64> {
        let next = |_| {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as f64 / (1u64 << 30) as f64 - 1.0
        };
        (0..count).map(next).collect()
    }
}

/// Compute `a @ b + beta * c` for `[m, k]` and `[k, n]`, with adjacent rows or columns.
fn multiply(kernel: &Kernel<f32>, [m, n, k]: [usize; 3], a: &[f32], b: (&[f32], [usize; 2]), beta: f32, c: &mut [f32]) {
    let (a, b) = (Mat::new(a, k, 1), Mat::new(b.0, b.1[0], b.1[1]));
    // SAFETY: the slices hold the matrices.
    unsafe { matrices(kernel, m, n, k, 1.0, &a.rows(), &b.columns(), beta, MatMut::new(c, n, 1), true, None) };
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
                    matrices(kernel, m, n, k, 0.5, &a.rows(), &b.columns(), 2.0, MatMut::new(&mut c, n, 1), true, None);
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

/// Check that the errors of products, relative to sums of magnitudes, are at most those of a chain of fused
/// multiply-adds, for every tile.
#[test]
fn tiles_are_as_accurate_as_fused_multiply_adds() {
    let mut random = Random(7);
    for [m, n, k] in [[64, 64, 64], [70, 90, 600], [33, 40, 2000]] {
        // Numbers of many magnitudes, with all bits significant.
        let mut numbers = |size: usize| -> Vec<f32> {
            let (x, y) = (random.numbers(size), random.numbers(size));
            x.iter().zip(&y).map(|(x, y)| (x * (12.0 * y).exp2() * 1.234567) as f32).collect()
        };
        let (a, b) = (numbers(m * k), numbers(k * n));
        for kernel in kernels() {
            let mut c = vec![f32::NAN; m * n];
            multiply(kernel, [m, n, k], &a, (&b, [n, 1]), 0.0, &mut c);
            let (mut errors, mut chain) = (0f64, 0f64);
            for (at, &got) in c.iter().enumerate() {
                let pairs = || (0..k).map(|p| (a[at / n * k + p], b[p * n + at % n]));
                let exact: f64 = pairs().map(|(x, y)| x as f64 * y as f64).sum();
                let scale: f64 = pairs().map(|(x, y)| (x as f64 * y as f64).abs()).sum();
                let fused = pairs().fold(0f32, |sum, (x, y)| x.mul_add(y, sum));
                errors += ((got as f64 - exact) / scale).powi(2);
                chain += ((fused as f64 - exact) / scale).powi(2);
            }
            assert!(
                errors <= 1.1 * chain,
                "{:?} {m} {n} {k}: {errors:.3e}, fused additions {chain:.3e}",
                kernel.format
            );
        }
    }
}

/// Check numbers at the ends of the range, in some lines of either operand.
#[test]
fn tiles_multiply_numbers_of_the_whole_range() {
    let mut random = Random(8);
    let [m, n, k] = [70, 100, 40];
    for (first, second) in
        [(3e38, 1e-3), (1e38, 1e-38), (1e-37, 2.0), (1e-19, 1e-18), (1e-30, 1e25), (1e25, 1e12), (2.0, 1.0)]
    {
        for lines in [0..m, 40..41] {
            let mut numbers = |size: usize| -> Vec<f32> { random.numbers(size).iter().map(|&v| v as f32).collect() };
            let (mut a, mut b) = (numbers(m * k), numbers(k * n));
            a[lines.start * k..lines.end * k].iter_mut().for_each(|v| *v *= first as f32);
            b.iter_mut().for_each(|v| *v *= second as f32);
            // Sizes with more rows, and with more columns.
            for (strides, n) in [([n, 1], n), ([1, k], n), ([n, 1], 50)] {
                for kernel in kernels() {
                    let mut c = vec![f32::NAN; m * n];
                    multiply(kernel, [m, n, k], &a, (&b, strides), 0.0, &mut c);
                    for (at, &got) in c.iter().enumerate() {
                        let (i, j) = (at / n, at % n);
                        let y = |p: usize| b[p * strides[0] + j * strides[1]] as f64;
                        let products = || (0..k).map(|p| a[i * k + p] as f64 * y(p));
                        let (exact, scale) = (products().sum::<f64>(), products().map(f64::abs).sum::<f64>());
                        // Subnormal results and products may be rounded to multiples of the smallest number.
                        assert!(
                            (got as f64 - exact).abs() <= 2e-6 * scale + k as f64 * 2f64.powi(-149),
                            "{:?} {first:e} {second:e} {lines:?} at ({i}, {j}): {got:e}, not {exact:e}",
                            kernel.format
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn tiles_confine_infinities_and_nan_to_their_rows_and_columns() {
    for [m, n, k] in [[70, 130, 100], [130, 70, 600]] {
        for (special, in_a) in [(f32::INFINITY, true), (f32::NEG_INFINITY, false), (f32::NAN, true), (f32::NAN, false)]
        {
            let (mut a, mut b) = (vec![1.5f32; m * k], vec![1.5f32; k * n]);
            if in_a {
                a[65 * k + 3] = special;
            } else {
                b[3 * n + 65] = special;
            }
            for kernel in kernels() {
                let mut c = vec![1.0; m * n];
                multiply(kernel, [m, n, k], &a, (&b, [n, 1]), 1.0, &mut c);
                for (at, &v) in c.iter().enumerate() {
                    let there = (if in_a { at / n } else { at % n }) == 65;
                    let want = if there { special } else { 2.25 * k as f32 + 1.0 };
                    let same = v == want || v.is_nan() && want.is_nan();
                    assert!(same, "{:?} {special} {in_a} at {at}: {v}, not {want}", kernel.format);
                }
            }
        }
    }
}
