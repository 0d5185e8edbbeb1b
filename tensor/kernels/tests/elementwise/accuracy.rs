use super::*;

#[test]
fn unary_f32_is_accurate_and_handles_special_values() {
    type Case = (UnaryKind, fn(f64) -> f64, f64);
    let cases: [Case; 14] = [
        (UnaryKind::Exp, f64::exp, 2.0),
        (UnaryKind::Exp2, f64::exp2, 2.0),
        (UnaryKind::Expm1, f64::exp_m1, 4.0),
        (UnaryKind::Log, f64::ln, 2.0),
        (UnaryKind::Log2, f64::log2, 2.0),
        (UnaryKind::Log10, f64::log10, 2.0),
        (UnaryKind::Log1p, f64::ln_1p, 4.0),
        (UnaryKind::Tanh, f64::tanh, 5.0),
        (UnaryKind::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 4.0),
        (UnaryKind::Erf, libm_erf, 5.0),
        (UnaryKind::Sin, f64::sin, 1.0),
        (UnaryKind::Cos, f64::cos, 1.0),
        (UnaryKind::Sqrt, f64::sqrt, 1.0),
        (UnaryKind::Rsqrt, |x| 1.0 / x.sqrt(), 2.0),
    ];
    let mut x: Vec<f32> = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-45,
        1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        -f32::MAX,
        88.72,
        88.73,
        -87.4,
        -103.9,
        -104.1,
        1e7,
        2e30,
    ];
    // Cover every magnitude: bit patterns at a stride that is coprime to their number.
    x.extend((0..400_000u32).map(|i| f32::from_bits(i.wrapping_mul(10_739))));
    x.extend((0..100_000).map(|i| (i - 50_000) as f32 * 2.1e-4));
    let n = x.len();
    for (kind, exact, ulps) in cases {
        let mut y = vec![0f32; n];
        unary(kind, &View::of_slice(&x, &[n], &[1]), &mut ViewMut::of_slice(&mut y, &[n], &[1])).unwrap();
        let mut worst = (0.0, 0.0);
        for (&x, &y) in x.iter().zip(&y) {
            let want = exact(x as f64);
            if (want as f32).is_nan() || (want as f32).is_infinite() {
                let near = want.is_finite() && y == f32::MAX;
                assert!(
                    y.is_nan() == want.is_nan() && (near || y.is_nan() || y == want as f32),
                    "{kind:?}({x}) = {y}, not {want}"
                );
                continue;
            }
            let unit = ((want as f32).abs().next_up() as f64 - (want as f32).abs() as f64).max(1e-45);
            let error = (y as f64 - want).abs() / unit;
            // Subnormal results of sigmoid are flushed, as in PyTorch.
            if kind == UnaryKind::Sigmoid && want < 1.2e-38 {
                continue;
            }
            if error.is_nan() || error > worst.0 {
                worst = (error, x as f64);
            }
        }
        println!("{kind:?}: {:.2} ulp at {:e}", worst.0, worst.1);
        assert!(worst.0 <= ulps, "{kind:?}: {} ulp at {:e}", worst.0, worst.1);
    }
}

/// Return numbers of every magnitude, many around one, and all special values.
fn numbers() -> Vec<f32> {
    const SPECIAL: [f32; 16] = [
        0.0,
        1.0,
        f32::INFINITY,
        f32::NAN,
        1e-45,
        1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        0.5,
        2.0,
        3.0,
        0.414_213_57,
        8.0,
        10.5,
        0.999_999_94,
        16_777_216.0,
    ];
    let mut x: Vec<f32> = SPECIAL.into_iter().flat_map(|v| [v, -v]).collect();
    x.extend((0..300_000u32).map(|i| f32::from_bits(i.wrapping_mul(14_321))));
    x.extend((0..200_000).map(|i| (i - 100_000) as f32 * 1.3e-5));
    x.extend((0..200_000).map(|i| (i - 100_000) as f32 * 1.21e-3));
    x.extend((0..100_000).map(|i| 1.0 + (i - 50_000) as f32 * 1.1e-7));
    x
}

/// Return the distance between a result and the true value in ulp. It is infinite if only one of them is special.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got.is_nan() || rounded.is_nan() {
        return if got.is_nan() && rounded.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.to_bits() == rounded.to_bits() {
        return 0.0;
    }
    if got.is_infinite() || rounded.is_infinite() || got.is_sign_negative() != rounded.is_sign_negative() {
        return f64::INFINITY;
    }
    (got as f64 - want).abs() / (rounded.abs().next_up() as f64 - rounded.abs() as f64)
}

#[test]
fn functions_of_f32_that_are_computed_in_f64_are_rounded_once() {
    use UnaryKind as K;
    let x = numbers();
    let mut wrong = Vec::new();
    let (n, wide) = (x.len(), x.iter().map(|&x| x as f64).collect::<Vec<_>>());
    for kind in [
        K::Tan,
        K::Asin,
        K::Acos,
        K::Atan,
        K::Sinh,
        K::Cosh,
        K::Asinh,
        K::Acosh,
        K::Atanh,
        K::Erfc,
        K::Erfinv,
        K::Lgamma,
        K::Digamma,
        K::I0,
        K::I0e,
        K::I1,
        K::I1e,
    ] {
        let (mut y, mut want) = (vec![0f32; n], vec![0f64; n]);
        unary(kind, &View::of_slice(&x, &[n], &[1]), &mut ViewMut::of_slice(&mut y, &[n], &[1])).unwrap();
        unary(kind, &View::of_slice(&wide, &[n], &[1]), &mut ViewMut::of_slice(&mut want, &[n], &[1])).unwrap();
        let worst = (0..n).map(|i| (ulps(y[i], want[i]), i)).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        println!("{kind:?}: {:.4} ulp at {:e}", worst.0, x[worst.1]);
        // Rounding alone is half an ulp.
        if worst.0 >= 0.51 {
            wrong.push(format!("{kind:?}({:e}) = {:e}, not {:e}", x[worst.1], y[worst.1], want[worst.1]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn functions_of_two_f32_are_exact_or_rounded_from_f64() {
    use BinaryKind as K;
    let all = numbers();
    let special = &all[..32];
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for &x in special {
        for &y in special.iter().chain(&[1.5, -1.5, 5.0, 0.333, -1e-30, 1e30]) {
            a.push(x);
            b.push(y);
        }
    }
    let mut rng = Lcg(5);
    for i in 0..400_000 {
        let pick = |rng: &mut Lcg| all[rng.next() as usize % all.len()];
        a.push(pick(&mut rng));
        b.push(match i % 4 {
            // Quotients of many lengths, and exact quotients.
            0 => a[a.len() - 1] / ((rng.next() % (1 << 30)) as f32 + 0.5),
            1 => a[a.len() - 1] * (rng.next() % 64) as f32 / 8.0,
            _ => pick(&mut rng),
        });
    }
    let n = a.len();
    let run = |kind| {
        let mut y = vec![0f32; n];
        let sizes = [n];
        let (a, b) = (View::of_slice(&a, &sizes, &[1]), View::of_slice(&b, &sizes, &[1]));
        binary(kind, &a, &b, &mut ViewMut::of_slice(&mut y, &sizes, &[1])).unwrap();
        y
    };
    type Exact = fn(f64, f64) -> f64;
    let rounded: [(K, Exact); 3] = [(K::Pow, f64::powf), (K::Atan2, f64::atan2), (K::Hypot, f64::hypot)];
    for (kind, exact) in rounded {
        let y = run(kind);
        for i in 0..n {
            let want = exact(a[i] as f64, b[i] as f64);
            assert!(ulps(y[i], want) < 0.51, "{kind:?}({:e}, {:e}) = {:e}, not {want:e}", a[i], b[i], y[i]);
        }
    }
    let y = run(K::LogAddExp);
    for i in 0..n {
        let (x, z) = (a[i] as f64, b[i] as f64);
        let top = if x.is_nan() || x > z { x } else { z };
        let want = if x == z && x.is_infinite() { x } else { top + (-(x - z).abs()).exp().ln_1p() };
        // The added logarithm has its own absolute error, which dominates if the sum is small.
        let close = ulps(y[i], want) < 2.0 || (y[i] as f64 - want).abs() < 2e-7;
        assert!(close, "logaddexp({x:e}, {z:e}) = {:e}, not {want:e}", y[i]);
    }
    let (fmod, remainder, quotient) = (run(K::Fmod), run(K::Remainder), run(K::FloorDivide));
    for i in 0..n {
        let (a, b) = (a[i], b[i]);
        let r = a % b;
        let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
        assert!(same(fmod[i], r), "fmod({a:e}, {b:e}) = {:e}, not {r:e}", fmod[i]);
        let signed = if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r };
        assert!(same(remainder[i], signed), "remainder({a:e}, {b:e}) = {:e}, not {signed:e}", remainder[i]);
        let want = if b == 0.0 {
            a / b
        } else {
            let q = (a - r) / b;
            let q = if r != 0.0 && (r < 0.0) != (b < 0.0) { q - 1.0 } else { q };
            if q == 0.0 { 0f32.copysign(a / b) } else { q.floor() + (q - q.floor() > 0.5) as u8 as f32 }
        };
        assert!(same(quotient[i], want), "floor_divide({a:e}, {b:e}) = {:e}, not {want:e}", quotient[i]);
    }
}
