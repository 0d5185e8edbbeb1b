use super::*;
use torchtpu_kernels::matmul::{addmm, matmul, matmul_scaled};

fn naive_matmul(a: &Nd, b: &Nd, batch: usize, m: usize, k: usize, n: usize) -> Nd {
    let mut out = Nd::zeros(&[batch, m, n]);
    for p in 0..batch {
        for i in 0..m {
            for j in 0..n {
                out.data[(p * m + i) * n + j] = (0..k)
                    .map(|q| a.data[(p % a.sizes[0] * m + i) * k + q] * b.data[(p % b.sizes[0] * k + q) * n + j])
                    .sum();
            }
        }
    }
    out
}

const SIZES: [(usize, usize, usize, usize); 16] = [
    (1, 1, 1, 1),
    (1, 1, 70, 300),
    (1, 300, 70, 1),
    (1, 1, 5, 1),
    (3, 7, 9, 11),
    (2, 33, 65, 31),
    (1, 64, 64, 64),
    (1, 100, 130, 270),
    (5, 20, 3, 2),
    (1, 257, 300, 129),
    (0, 3, 4, 5),
    (2, 0, 4, 5),
    (2, 3, 0, 5),
    (2, 3, 4, 0),
    (1, 17, 1, 40),
    (40, 12, 40, 12),
];

fn matmul_case<E: Element>(strided: bool) {
    let mut random = Random(1);
    for (batch, m, k, n) in SIZES {
        for (ab, bb) in [(batch, batch), (1, batch), (batch, 1)] {
            let a = random.nd(&[ab, m, k]).cast::<E>(strided);
            let b = random.nd(&[bb, k, n]).cast::<E>(strided);
            let mut want = naive_matmul(&a.nd(), &b.nd(), batch, m, k, n);
            let mut out = Array::<E>::garbage(&[batch, m, n]).cast::<E>(strided);
            let tol = tolerance::<E>() * (1.0 + (k as f64).sqrt() / 8.0);
            matmul(&a.view(), &b.view(), &mut out.view_mut()).unwrap();
            assert_close(&out.nd(), &want, tol, &format!("{batch} {m} {k} {n}"));
            let before = random.nd(&[batch, m, n]).cast::<E>(strided);
            out = before.clone();
            let bias = random.nd(&[n]).cast::<E>(false);
            matmul_scaled(&a.view(), &b.view(), &mut out.view_mut(), 0.5, 2.0).unwrap();
            let scaled: Vec<f64> = want.data.iter().zip(&before.nd().data).map(|(w, o)| 0.5 * w + 2.0 * o).collect();
            assert_close(&out.nd(), &Nd::of(scaled, &want.sizes), 2.0 * tol, "scaled");
            addmm(&a.view(), &b.view(), Some(&bias.view()), &mut out.view_mut()).unwrap();
            for (i, w) in want.data.iter_mut().enumerate() {
                *w += bias.data[i % n].to_f64();
            }
            assert_close(&out.nd(), &want, tol, "bias");
        }
    }
}

#[test]
fn matmul_equals_sums_of_products() {
    for_floats!(matmul_case);
}

fn large_matmul_case<E: Element>(strided: bool) {
    let mut random = Random(4);
    // Sizes of more than one block in each dimension, with more rows or more columns, and a size whose numbers are
    // split into parts.
    for (m, k, n) in [(20, 1031, 4200), (400, 1500, 33), (4300, 40, 35), (260, 300, 270)] {
        let (a, b) = (random.nd(&[1, m, k]).cast::<E>(strided), random.nd(&[1, k, n]).cast::<E>(strided));
        let mut out = Array::<E>::garbage(&[1, m, n]).cast::<E>(strided);
        let want = naive_matmul(&a.nd(), &b.nd(), 1, m, k, n);
        matmul(&a.view(), &b.view(), &mut out.view_mut()).unwrap();
        assert_close(&out.nd(), &want, 4.0 * tolerance::<E>(), "blocks");
        matmul_scaled(&a.view(), &b.view(), &mut out.view_mut(), 1.0, -1.0).unwrap();
        let scale = want.data.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        assert_close(&out.nd(), &Nd::zeros(&[1, m, n]), scale * tolerance::<E>(), "minus itself");
    }
}

#[test]
fn matmul_of_several_blocks_equals_sums_of_products() {
    for_floats!(large_matmul_case);
}

#[test]
fn matmul_reads_transposes_in_place() {
    let mut random = Random(2);
    for (m, k, n) in [(3, 4, 5), (70, 80, 90), (1, 300, 200), (200, 300, 1), (600, 64, 600)] {
        let (a, b) = (random.nd(&[1, m, k]), random.nd(&[1, k, n]));
        let want = naive_matmul(&a, &b, 1, m, k, n);
        let transpose = |x: &Nd| {
            let mut t = Array::<f32>::zeros(&[1, x.sizes[2], x.sizes[1]]);
            t.sizes = x.sizes.clone();
            t.strides = vec![1, 1, x.sizes[1]];
            for i in 0..x.data.len() {
                let at = t.at(i);
                t.data[at] = x.data[i] as f32;
            }
            t
        };
        for (ta, tb) in [(false, true), (true, false), (true, true)] {
            let a = if ta { transpose(&a) } else { a.cast(false) };
            let b = if tb { transpose(&b) } else { b.cast(false) };
            let mut out = Array::<f32>::garbage(&[1, m, n]);
            matmul(&a.view(), &b.view(), &mut out.view_mut()).unwrap();
            assert_close(&out.nd(), &want, 1e-4, "transposed");
            let (a, b) = (
                Array { data: a.data.iter().map(|&v| bf16::from_f32(v)).collect(), ..dup(&a) },
                Array { data: b.data.iter().map(|&v| bf16::from_f32(v)).collect(), ..dup(&b) },
            );
            let mut out = Array::<f32>::garbage(&[1, m, n]).cast::<bf16>(false);
            matmul(&a.view(), &b.view(), &mut out.view_mut()).unwrap();
            assert_close(&out.nd(), &naive_matmul(&a.nd(), &b.nd(), 1, m, k, n), 1e-2, "transposed bf16");
        }
    }
}

fn dup<A, B>(x: &Array<A>) -> Array<B> {
    Array { data: Vec::new(), sizes: x.sizes.clone(), strides: x.strides.clone() }
}

#[test]
fn matmul_broadcasts_batches_through_zero_strides() {
    let mut random = Random(3);
    let (a, b) = (random.nd(&[1, 6, 7]), random.nd(&[3, 7, 8]));
    let want = naive_matmul(&a, &b, 3, 6, 7, 8);
    fn check<E: Element>(a: &Nd, b: &Nd, want: &Nd) {
        let (mut a, b) = (a.cast::<E>(false), b.cast::<E>(false));
        a.sizes[0] = 3;
        a.strides[0] = 0;
        let mut out = Array::<E>::garbage(&[3, 6, 8]);
        matmul(&a.view(), &b.view(), &mut out.view_mut()).unwrap();
        assert_close(&out.nd(), want, tolerance::<E>() * 2.0, "zero strides");
    }
    check::<f32>(&a, &b, &want);
    check::<bf16>(&a, &b, &want);
}

#[test]
fn matmul_of_integers_is_exact_and_wraps() {
    let (m, k, n) = (5, 9, 6);
    let a: Vec<i64> = (0..m * k).map(|i| i as i64 * 7 - 50).collect();
    let b: Vec<i64> = (0..k * n).map(|i| 30 - i as i64 * 3).collect();
    fn check<E: Element + PartialEq>(a: &[i64], b: &[i64], m: usize, k: usize, n: usize) {
        let cast = |x: &[i64], s: &[usize]| Array::of(x.iter().map(|&v| E::from_i64(v)).collect::<Vec<E>>(), s);
        let (x, y, mut out) = (cast(a, &[m, k]), cast(b, &[k, n]), Array::<E>::garbage(&[m, n]));
        addmm(&x.view(), &y.view(), Some(&cast(&b[..n], &[n]).view()), &mut out.view_mut()).unwrap();
        for i in 0..m {
            for j in 0..n {
                let sum: i64 = (0..k).map(|p| x.data[i * k + p].to_i64() * y.data[p * n + j].to_i64()).sum();
                assert!(out.data[i * n + j] == E::from_i64(sum + E::from_i64(b[j]).to_i64()));
            }
        }
    }
    check::<i64>(&a, &b, m, k, n);
    check::<i32>(&a, &b, m, k, n);
    check::<i16>(&a, &b, m, k, n);
    check::<i8>(&a, &b, m, k, n);
    check::<u8>(&a, &b, m, k, n);
}

#[test]
fn matmul_does_not_read_the_output_when_beta_is_zero() {
    for (m, k, n) in [(2, 3, 4), (1, 40, 50), (90, 90, 90), (3, 0, 2)] {
        let (a, b) = (Array::<f32>::zeros(&[m, k]), Array::<f32>::zeros(&[k, n]));
        let mut out = Array::of(vec![f32::NAN; m * n], &[m, n]);
        matmul(&a.view(), &b.view(), &mut out.view_mut()).unwrap();
        assert!(out.data.iter().all(|&v| v == 0.0));
    }
}

#[test]
fn matmul_propagates_nan() {
    let mut a = Array::<bf16>::zeros(&[70, 70]);
    a.data[0] = bf16::NAN;
    let b = Array::<bf16>::zeros(&[70, 70]);
    let mut out = Array::<bf16>::zeros(&[70, 70]);
    matmul(&a.view(), &b.view(), &mut out.view_mut()).unwrap();
    assert!(out.data[..70].iter().all(|v| v.is_nan()) && out.data[70..].iter().all(|v| !v.is_nan()));
}

/// Sizes for every method: single rows, single columns, tiny products, several blocks of each dimension, and splitting
/// numbers into parts.
const EVERY_WAY: [(usize, usize, usize); 9] = [
    (3, 5, 7),
    (6, 0, 5),
    (1, 300, 200),
    (200, 300, 1),
    (70, 80, 90),
    (260, 300, 270),
    (600, 64, 600),
    (320, 1100, 96),
    (90, 1100, 330),
];

fn bias_case<E: Element>(strided: bool) {
    let mut random = Random(22);
    for (m, k, n) in EVERY_WAY {
        let (a, b) = (random.nd(&[m, k]).cast::<E>(strided), random.nd(&[k, n]).cast::<E>(strided));
        let mut want = naive_matmul(
            &Array { sizes: vec![1, m, k], ..a.nd() },
            &Array { sizes: vec![1, k, n], ..b.nd() },
            1,
            m,
            k,
            n,
        );
        want.sizes = vec![m, n];
        want.strides = vec![n, 1];
        for sizes in [vec![n], vec![1, n], vec![1], vec![m, n], vec![m, 1]] {
            let bias = random.nd(&sizes).cast::<E>(strided);
            let (plain, mut want) = (bias.nd(), want.clone());
            for (i, v) in want.data.iter_mut().enumerate() {
                let (row, column) = (i / n, i % n);
                let index = [row, column].into_iter().skip(2 - sizes.len());
                let at = index.zip(&sizes).fold(0, |at, (i, &size)| at * size + if size == 1 { 0 } else { i });
                *v += plain.data[at];
            }
            let mut out = Array::<E>::garbage(&[m, n]).cast::<E>(strided);
            addmm(&a.view(), &b.view(), Some(&bias.view()), &mut out.view_mut()).unwrap();
            assert_close(&out.nd(), &want, 4.0 * tolerance::<E>(), "bias");
        }
    }
}

#[test]
fn a_bias_of_any_shape_is_added_once() {
    for_floats!(bias_case);
}

/// Consecutive sums lose digits with their length: the dot product of 262,144 equal numbers was wrong by 5e-4.
#[test]
fn long_vector_products_keep_their_precision() {
    let k = 1 << 18;
    for v in [0.1f32, 1.0 / 3.0, 1.7] {
        let want = k as f64 * f64::from(v).powi(2);
        for (m, n) in [(1, 1), (1, 3), (3, 1)] {
            for strided in [false, true] {
                let a = Array::of(vec![f64::from(v); m * k], &[m, k]).cast::<f32>(strided);
                let b = Array::of(vec![f64::from(v); k * n], &[k, n]).cast::<f32>(strided);
                let mut out = Array::<f32>::garbage(&[m, n]);
                matmul(&a.view(), &b.view(), &mut out.view_mut()).unwrap();
                for got in out.nd().data {
                    let error = (got / want - 1.0).abs();
                    assert!(error < 2e-5, "{m} x {k} x {n}, strided: {strided}: {got} instead of {want}");
                }
            }
        }
    }
}
