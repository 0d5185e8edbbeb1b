//! Tests of each decomposition's defining identity, for matrices of each dtype, smaller and larger than a block.

use num_complex::Complex;
use num_traits::ToPrimitive;
use torchtpu_linalg::*;

const SIZES: [(usize, usize); 10] =
    [(0, 0), (1, 1), (2, 2), (3, 5), (5, 3), (8, 8), (33, 33), (70, 40), (40, 70), (97, 97)];

/// Return numbers within (-1, 1) from a linear congruential generator.
fn matrix<T: Number>(m: usize, n: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        num_traits::NumCast::from((state >> 33) as f64 / (1u64 << 30) as f64 - 1.0).expect("a number")
    };
    (0..m * n).map(|_| T::of(next(), next())).collect()
}

fn product<T: Number>(a: &[T], b: &[T], m: usize, k: usize, n: usize) -> Vec<T> {
    let mut y = vec![T::ZERO; m * n];
    for i in 0..m {
        for j in 0..n {
            y[i * n + j] = (0..k).fold(T::ZERO, |s, l| s + a[i * k + l] * b[l * n + j]);
        }
    }
    y
}

fn adjoint<T: Number>(a: &[T], m: usize, n: usize) -> Vec<T> {
    (0..m * n).map(|at| a[at % m * n + at / m].conjugated()).collect()
}

fn identity<T: Number>(n: usize) -> Vec<T> {
    (0..n * n).map(|at| if at / n == at % n { T::ONE } else { T::ZERO }).collect()
}

/// Return `a a^H + 1`.
fn definite<T: Number>(n: usize, seed: u64) -> Vec<T> {
    let a = matrix::<T>(n, n, seed);
    let mut y = product(&a, &adjoint(&a, n, n), n, n, n);
    (0..n).for_each(|i| y[i * n + i] += T::ONE);
    y
}

fn real<P: ToPrimitive>(v: P) -> f64 {
    v.to_f64().expect("a number")
}

/// Assert that all elements differ by less than a few roundings of a number of `scale`.
#[track_caller]
fn close<T: Number>(got: &[T], want: &[T], scale: f64) {
    let epsilon = if size_of::<T::Part>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    assert_eq!(got.len(), want.len());
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let off = real((g - w).modulus());
        assert!(off <= 40.0 * epsilon * scale, "element {i}: {g:?} for {w:?}, {off:.2e} off");
    }
}

/// Run a generic test for each dtype.
macro_rules! each_dtype {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            generic::$name::<f32>();
            generic::$name::<f64>();
            generic::$name::<Complex<f32>>();
            generic::$name::<Complex<f64>>();
        }
    )*};
}

each_dtype! {
    lu_factors_multiply_to_the_permuted_matrix
    lu_solve_solves
    solve_triangular_solves
    qr_factors_multiply_to_the_matrix
    cholesky_factors_multiply_to_the_matrix
    eigh_diagonalises_hermitian_matrices
    svd_factors_multiply_to_the_matrix
    eig_diagonalises_matrices
    matrix_exp_has_known_values
    ldl_solve_solves
}

mod generic {
    use super::*;

    pub fn lu_factors_multiply_to_the_permuted_matrix<T: Number>() {
        for (m, n) in SIZES {
            let a = matrix::<T>(m, n, 1);
            let few = m.min(n);
            let (mut lu_, mut pivots) = (a.clone(), vec![0; few]);
            assert_eq!(lu(&mut lu_, m, n, &mut pivots), 0);
            let mut order = vec![0; m];
            permutation(&pivots, &mut order);
            let (mut l, mut u) = (vec![T::ZERO; m * few], vec![T::ZERO; few * n]);
            for i in 0..m {
                for j in 0..n {
                    match i.cmp(&j) {
                        std::cmp::Ordering::Greater if j < few => l[i * few + j] = lu_[i * n + j],
                        std::cmp::Ordering::Greater => {}
                        _ if i < few => u[i * n + j] = lu_[i * n + j],
                        _ => {}
                    }
                }
                if i < few {
                    l[i * few + i] = T::ONE;
                }
            }
            // Each pivot was the greatest element of its column.
            assert!(l.iter().all(|v| real(v.size()) <= 2.0));
            let rows: Vec<T> = order.iter().flat_map(|&o| a[o as usize * n..][..n].to_vec()).collect();
            close(&product(&l, &u, m, few, n), &rows, m.max(1) as f64);
        }
    }

    pub fn lu_solve_solves<T: Number>() {
        for (n, k) in [(0, 2), (1, 1), (3, 0), (5, 3), (40, 7), (97, 2)] {
            let (a, x) = (definite::<T>(n, 2), matrix::<T>(n, k, 3));
            let b = product(&a, &x, n, n, k);
            let (mut lu_, mut pivots) = (a.clone(), vec![0; n]);
            assert_eq!(lu(&mut lu_, n, n, &mut pivots), 0);
            let mut y = b.clone();
            lu_solve(&lu_, &pivots, &mut y, n, k);
            close(&product(&a, &y, n, n, k), &b, (n * n).max(1) as f64);
        }
    }

    pub fn solve_triangular_solves<T: Number>() {
        for (n, k) in [(0, 1), (1, 2), (6, 4), (65, 3)] {
            for (upper, unit) in [(false, false), (false, true), (true, false), (true, true)] {
                let full = definite::<T>(n, 4);
                let shrunk = T::real(num_traits::NumCast::from(0.05).expect("a number"));
                let mut a = vec![T::ZERO; n * n];
                for i in 0..n {
                    for j in 0..n {
                        a[i * n + j] = match (i == j, (i < j) == upper) {
                            (true, _) if unit => T::ONE,
                            (true, _) => full[i * n + i],
                            (_, true) => full[i * n + j] * shrunk,
                            _ => T::ZERO,
                        };
                    }
                }
                let b = matrix::<T>(n, k, 5);
                // The elements beyond the triangle, and on a diagonal of ones, are not read.
                let nan = T::real(num_traits::Float::nan());
                let read = |i: usize, j: usize| if i == j { !unit } else { (i < j) == upper };
                let given: Vec<T> = (0..n * n).map(|at| if read(at / n, at % n) { a[at] } else { nan }).collect();
                let mut x = b.clone();
                solve_triangular(&given, &mut x, n, k, upper, unit);
                close(&product(&a, &x, n, n, k), &b, (n * n).max(1) as f64);
            }
        }
    }

    pub fn qr_factors_multiply_to_the_matrix<T: Number>() {
        for (m, n) in SIZES {
            let a = matrix::<T>(m, n, 6);
            let few = m.min(n);
            let (mut packed, mut tau) = (a.clone(), vec![T::ZERO; few]);
            qr(&mut packed, m, n, &mut tau);
            // Apply the product of I - tau v v^H, from the last to the first, to R.
            let mut y: Vec<T> = (0..m * n).map(|at| if at / n <= at % n { packed[at] } else { T::ZERO }).collect();
            for r in (0..few).rev() {
                let v: Vec<T> = (0..m)
                    .map(|i| match i.cmp(&r) {
                        std::cmp::Ordering::Less => T::ZERO,
                        std::cmp::Ordering::Equal => T::ONE,
                        std::cmp::Ordering::Greater => packed[i * n + r],
                    })
                    .collect();
                for j in 0..n {
                    let along = (0..m).fold(T::ZERO, |s, i| s + v[i].conjugated() * y[i * n + j]) * tau[r];
                    (0..m).for_each(|i| y[i * n + j] -= v[i] * along);
                }
            }
            close(&y, &a, m.max(1) as f64);
            // As in LAPACK, the diagonal of R is real.
            assert!((0..few).all(|i| real(packed[i * n + i].im()).abs() < 1e-6));
        }
    }

    pub fn cholesky_factors_multiply_to_the_matrix<T: Number>() {
        for n in [0, 1, 2, 7, 40, 97] {
            let a = definite::<T>(n, 7);
            let nan = T::real(num_traits::Float::nan());
            let mut l: Vec<T> = (0..n * n).map(|at| if at / n >= at % n { a[at] } else { nan }).collect();
            assert_eq!(cholesky(&mut l, n), 0);
            assert!((0..n * n).all(|at| at / n >= at % n || l[at] == T::ZERO));
            close(&product(&l, &adjoint(&l, n, n), n, n, n), &a, (n * n).max(1) as f64);
        }
        // The third leading minor is negative.
        let n = 5;
        let mut a = definite::<T>(n, 8);
        a[2 * n + 2] = -a[2 * n + 2];
        assert_eq!(cholesky(&mut a, n), 3);
    }

    pub fn eigh_diagonalises_hermitian_matrices<T: Number>() {
        for (n, upper) in [(0, false), (1, true), (2, false), (9, true), (40, false), (97, true)] {
            let a = definite::<T>(n, 9);
            let nan = T::real(num_traits::Float::nan());
            let given: Vec<T> =
                (0..n * n).map(|at| if at / n == at % n || (at / n < at % n) == upper { a[at] } else { nan }).collect();
            let (mut values, mut vectors) = (vec![T::Part::ZERO; n], vec![T::ZERO; n * n]);
            assert!(eigh(&given, n, upper, &mut values, Some(&mut vectors)));
            assert!(values.is_sorted());
            let scaled: Vec<T> = (0..n * n).map(|at| vectors[at] * T::real(values[at % n])).collect();
            close(&product(&a, &vectors, n, n, n), &scaled, (n * n).max(1) as f64);
            close(&product(&adjoint(&vectors, n, n), &vectors, n, n, n), &identity(n), n.max(1) as f64);
            let mut alone = vec![T::Part::ZERO; n];
            assert!(eigh(&given, n, upper, &mut alone, None));
            close(&alone, &values, (n * n).max(1) as f64);
        }
    }

    pub fn svd_factors_multiply_to_the_matrix<T: Number>() {
        for (m, n) in SIZES {
            let a = matrix::<T>(m, n, 10);
            let few = m.min(n);
            for full in [false, true] {
                let (rows, columns) = if full { (m, n) } else { (few, few) };
                let (mut s, mut u, mut vh) =
                    (vec![T::Part::ZERO; few], vec![T::ZERO; m * rows], vec![T::ZERO; columns * n]);
                assert!(svd(&a, m, n, full, &mut s, Some((&mut u, &mut vh))));
                assert!(s.is_sorted_by(|x, y| x >= y) && s.iter().all(|&v| v >= T::Part::ZERO));
                close(&product(&adjoint(&u, m, rows), &u, rows, m, rows), &identity(rows), m.max(1) as f64);
                close(
                    &product(&vh, &adjoint(&vh, columns, n), columns, n, columns),
                    &identity(columns),
                    n.max(1) as f64,
                );
                let scaled: Vec<T> = (0..few * n).map(|at| vh[at] * T::real(s[at / n.max(1)])).collect();
                let first: Vec<T> = (0..m * few).map(|at| u[at / few * rows + at % few]).collect();
                close(&product(&first, &scaled, m, few, n), &a, m.max(n).max(1) as f64);
                let mut alone = vec![T::Part::ZERO; few];
                assert!(svd(&a, m, n, full, &mut alone, None));
                close(&alone, &s, m.max(n).max(1) as f64);
            }
        }
        let nan = T::real(num_traits::Float::nan());
        assert!(!svd(&[T::ONE, nan, T::ONE, T::ONE], 2, 2, false, &mut [T::Part::ZERO; 2], None));
    }

    pub fn eig_diagonalises_matrices<T: Number>() {
        for n in [0, 1, 2, 3, 8, 33] {
            let a = matrix::<T>(n, n, 11);
            let zero = Complex::new(T::Part::ZERO, T::Part::ZERO);
            let (mut values, mut vectors) = (vec![zero; n], vec![zero; n * n]);
            assert!(eig(&a, n, &mut values, Some(&mut vectors)));
            let scale = (n * n).max(1) as f64;
            for j in 0..n {
                let mut length = 0.0;
                for i in 0..n {
                    let got = (0..n).fold(zero, |s, k| {
                        let v = a[i * n + k];
                        s + Complex::new(v.re(), v.im()) * vectors[k * n + j]
                    });
                    let want = values[j] * vectors[i * n + j];
                    close(&[got.re, got.im], &[want.re, want.im], scale);
                    length += real(vectors[i * n + j].norm_sqr());
                }
                close(&[T::Part::real(num_traits::NumCast::from(length).expect("a number"))], &[T::Part::ONE], scale);
            }
        }
    }

    /// Check `e^a e^-a = 1`, and the exponentials of a diagonal and of a nilpotent matrix.
    pub fn matrix_exp_has_known_values<T: Number>() {
        for n in [0, 1, 3, 20] {
            let a = matrix::<T>(n, n, 12);
            let mut minus: Vec<T> = a.iter().map(|&v| -v).collect();
            let mut e = a;
            matrix_exp(&mut e, n);
            matrix_exp(&mut minus, n);
            let scale = e.iter().chain(&minus).fold(1.0, |s: f64, v| s.max(real(v.modulus())));
            close(&product(&e, &minus, n, n, n), &identity(n), scale * scale * n.max(1) as f64);
        }
        let number = |v: f64| T::real(num_traits::NumCast::from(v).expect("a number"));
        let mut a = vec![number(-30.0), T::ZERO, T::ZERO, number(2.5)];
        matrix_exp(&mut a, 2);
        close(&a, &[number((-30f64).exp()), T::ZERO, T::ZERO, number(2.5f64.exp())], 12.0);
        let mut a = vec![T::ZERO, number(3.0), T::ZERO, T::ZERO];
        matrix_exp(&mut a, 2);
        close(&a, &[T::ONE, number(3.0), T::ZERO, T::ONE], 1.0);
    }

    /// Check that solving reverts the product with an indefinite matrix. Its diagonal is zero, so blocks of two are
    /// needed.
    pub fn ldl_solve_solves<T: Number>() {
        for n in [0, 1, 2, 3, 8, 41] {
            for hermitian in [false, true] {
                let half = matrix::<T>(n, n, 13);
                let mut a = vec![T::ZERO; n * n];
                for i in 0..n {
                    for j in 0..i {
                        a[i * n + j] = half[i * n + j];
                        a[j * n + i] = if hermitian { half[i * n + j].conjugated() } else { half[i * n + j] };
                    }
                }
                if n % 2 == 1 {
                    a[0] = T::ONE;
                }
                let x = matrix::<T>(n, 2, 14);
                let b = product(&a, &x, n, n, 2);
                let (mut ld, mut pivots) = (a.clone(), vec![0; n]);
                assert_eq!(ldl(&mut ld, n, hermitian, &mut pivots), 0);
                assert!(n % 2 == 1 || n == 0 || pivots[0] < 0);
                let mut y = b.clone();
                ldl_solve(&ld, &pivots, &mut y, n, 2, hermitian);
                close(&product(&a, &y, n, n, 2), &b, 10.0 * (n * n).max(1) as f64);
            }
        }
    }
}

#[test]
fn singular_matrices_return_the_failing_pivot() {
    // The second column is twice the first.
    let mut a = [1.0, 2.0, 3.0, 4.0, 8.0, 1.0, 2.0, 4.0, 7.0];
    assert_eq!(lu(&mut a, 3, 3, &mut [0; 3]), 2);
    let mut zeros = [0.0f32; 4];
    assert_eq!(lu(&mut zeros, 2, 2, &mut [0; 2]), 1);
    assert_eq!(ldl(&mut zeros, 2, false, &mut [0; 2]), 1);
}

#[test]
fn infinite_and_nan_matrices_have_no_exponential_and_no_eigenvalues() {
    let mut a = [f64::INFINITY, 0.0, 0.0, 1.0];
    let zero = Complex::new(0.0, 0.0);
    assert!(!eig(&a, 2, &mut [zero; 2], None));
    matrix_exp(&mut a, 2);
    assert!(a.iter().all(|v| v.is_nan()));
}
