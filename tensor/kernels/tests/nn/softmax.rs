use super::*;
use torchtpu_kernels::softmax::{log_softmax, log_softmax_backward, softmax, softmax_backward};

fn softmax_case<E: Element>(strided: bool) {
    let mut random = Random(9);
    for sizes in [vec![3, 5], vec![2, 70, 3], vec![4, 3, 200], vec![1, 1], vec![2, 33, 150], vec![3, 0, 2]] {
        for dim in 0..sizes.len() {
            let x = random.nd(&sizes).cast::<E>(strided);
            let mut y = Array::<E>::garbage(&sizes).cast::<E>(strided);
            softmax(&x.view(), dim, &mut y.view_mut());
            assert_close(&y.nd(), &naive_softmax(&x.nd(), dim, false), tolerance::<E>(), "softmax");
            let g = random.nd(&sizes).cast::<E>(strided);
            let mut gx = Array::<E>::garbage(&sizes).cast::<E>(strided);
            softmax_backward(&g.view(), &y.view(), dim, &mut gx.view_mut());
            if E::DTYPE.name() == "float64" && !strided && x.numel() < 1000 {
                let f = |x: &Nd| inner(&naive_softmax(x, dim, false), &g.nd());
                assert_gradient(&x.nd(), &gx.nd(), f, "softmax gradient");
            }
            let want = {
                let mut want = Nd::zeros(&sizes);
                softmax_backward(&g.nd().view(), &y.nd().view(), dim, &mut want.view_mut());
                want
            };
            assert_close(&gx.nd(), &want, tolerance::<E>(), "softmax gradient in f64");
            log_softmax(&x.view(), dim, &mut y.view_mut());
            assert_close(&y.nd(), &naive_softmax(&x.nd(), dim, true), tolerance::<E>(), "log softmax");
            log_softmax_backward(&g.view(), &y.view(), dim, &mut gx.view_mut());
            if E::DTYPE.name() == "float64" && !strided && x.numel() < 1000 {
                let f = |x: &Nd| inner(&naive_softmax(x, dim, true), &g.nd());
                assert_gradient(&x.nd(), &gx.nd(), f, "log softmax gradient");
            }
        }
    }
}

#[test]
fn softmax_equals_its_formula() {
    for_floats!(softmax_case);
}

#[test]
fn softmax_handles_infinities_and_nan() {
    let inf = f32::INFINITY;
    // Along the other dimension: columns of minus infinity, with many leading minus infinities, with NaN, and with
    // infinity.
    let n = 40;
    let mut columns = vec![0.0f32; n * 4];
    for i in 0..n {
        columns[i * 4] = -inf;
        columns[i * 4 + 1] = if i < 20 { -inf } else { 1.0 };
    }
    (columns[4 * 30 + 2], columns[4 * 5 + 3]) = (f32::NAN, inf);
    for log in [false, true] {
        let (x, mut y) = (Array::of(columns.clone(), &[n, 4]), Array::<f32>::zeros(&[n, 4]));
        if log {
            log_softmax(&x.view(), 0, &mut y.view_mut())
        } else {
            softmax(&x.view(), 0, &mut y.view_mut())
        }
        assert!((0..n).all(|i| y.data[i * 4].is_nan() && y.data[i * 4 + 2].is_nan()) && y.data[4 * 5 + 3].is_nan());
        let (low, high) = if log { (-inf, -(20.0f32.ln())) } else { (0.0, 0.05) };
        assert!(y.data[1] == low && (y.data[4 * 39 + 1] - high).abs() < 1e-6);
    }
    for n in [4, 80] {
        let run = |special: &[f32]| {
            let mut row = vec![if special.len() == n { -inf } else { 0.0 }; n];
            row[..special.len()].copy_from_slice(special);
            let (x, mut y) = (Array::of(row, &[1, n]), Array::<f32>::zeros(&[1, n]));
            softmax(&x.view(), 1, &mut y.view_mut());
            y.data
        };
        assert!(run(&vec![-inf; n]).iter().all(|v| v.is_nan()), "a row of minus infinity is NaN");
        assert!(run(&[f32::NAN]).iter().all(|v| v.is_nan()));
        assert!(run(&[inf])[0].is_nan());
        let y = run(&[-inf, 200.0]);
        assert_eq!(y[..2], [0.0, 1.0]);
    }
}

#[test]
fn exponentials_are_within_two_units_in_the_last_place() {
    // The softmax of (x, 0) for x <= 0 has the ratio e^x of its two values.
    for i in 0..100_000 {
        let v = -(i as f32) * 8e-4;
        let (x, mut y) = (Array::of(vec![v, 0.0], &[1, 2]), Array::<f32>::zeros(&[1, 2]));
        softmax(&x.view(), 1, &mut y.view_mut());
        let want = (v as f64).exp() / (1.0 + (v as f64).exp());
        assert!((y.data[0] as f64 - want).abs() <= 4.0 * f32::EPSILON as f64 * want, "{v}: {} {want}", y.data[0]);
    }
}
