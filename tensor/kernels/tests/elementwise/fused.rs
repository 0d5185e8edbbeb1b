use super::*;

#[test]
fn adamw_into_other_arrays_equals_adamw_in_place() {
    let n = 40_000;
    let (s, t) = ([n], [1]);
    let numbers = |by: usize| -> Vec<f32> { (0..n).map(|i| (i * by % 1009 + 1) as f32 / 1009.0).collect() };
    let (old, g) = ([numbers(3), numbers(5), numbers(7)], numbers(11));
    let g = View::of_slice(&g, &s, &t);
    let step = AdamW {
        lr: 0.1,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.01,
        decoupled: true,
        maximize: false,
        bias1: 0.1,
        bias2_sqrt: 0.1,
    };
    let run = |arrays: &mut [Vec<f32>; 3], from: [Option<&View>; 3]| {
        let [mut p, mut m, mut v] = arrays.each_mut().map(|x| ViewMut::of_slice(x, &s, &t));
        adamw_step(&mut p, &g, &mut m, &mut v, from, &step).unwrap();
    };
    let mut want = old.clone();
    run(&mut want, [None; 3]);
    assert!(want.iter().zip(&old).all(|(want, old)| want != old));
    let from = old.each_ref().map(|x| View::of_slice(x, &s, &t));
    // Take all old values from other arrays, then only those of the parameter and the squares.
    let mut new = [vec![9.0; n], vec![9.0; n], vec![9.0; n]];
    run(&mut new, from.each_ref().map(Some));
    assert!(new == want);
    let mut new = [vec![9.0; n], old[1].clone(), vec![9.0; n]];
    run(&mut new, [Some(&from[0]), None, Some(&from[2])]);
    assert!(new == want);
}

#[test]
fn sgd_into_other_arrays_equals_sgd_in_place() {
    let n = 40_000;
    let (s, t) = ([n], [1]);
    let numbers = |by: usize| -> Vec<f32> { (0..n).map(|i| (i * by % 1009 + 1) as f32 / 1009.0).collect() };
    let (old, g) = ([numbers(3), numbers(5)], numbers(11));
    let g = View::of_slice(&g, &s, &t);
    let step = Sgd {
        lr: 0.1,
        momentum: 0.9,
        dampening: 0.1,
        weight_decay: 0.01,
        nesterov: true,
        maximize: false,
        first: false,
    };
    let run = |arrays: &mut [Vec<f32>; 2], from: [Option<&View>; 2]| {
        let [mut p, mut b] = arrays.each_mut().map(|x| ViewMut::of_slice(x, &s, &t));
        sgd_step(&mut p, &g, Some(&mut b), from, &step).unwrap();
    };
    let mut want = old.clone();
    run(&mut want, [None; 2]);
    assert!(want.iter().zip(&old).all(|(want, old)| want != old));
    let from = old.each_ref().map(|x| View::of_slice(x, &s, &t));
    let mut new = [vec![9.0; n], vec![9.0; n]];
    run(&mut new, from.each_ref().map(Some));
    assert!(new == want);
    let mut new = [vec![9.0; n], old[1].clone()];
    run(&mut new, [Some(&from[0]), None]);
    assert!(new == want);
    // A step without a momentum buffer.
    let plain = Sgd { momentum: 0.0, ..step };
    let (mut want, mut new) = (old[0].clone(), vec![9.0; n]);
    sgd_step(&mut ViewMut::of_slice(&mut want, &s, &t), &g, None, [None; 2], &plain).unwrap();
    sgd_step(&mut ViewMut::of_slice(&mut new, &s, &t), &g, None, [Some(&from[0]), None], &plain).unwrap();
    assert!(new == want && new != old[0]);
}

#[test]
fn optimiser_steps_follow_their_formulas() {
    let n = 1000;
    let (mut p, g) = (vec![1f32; n], vec![0.5f32; n]);
    let (mut m, mut v) = (vec![0f32; n], vec![0f32; n]);
    let step = AdamW {
        lr: 0.1,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.01,
        decoupled: true,
        maximize: false,
        bias1: 0.1,
        bias2_sqrt: 0.001f64.sqrt(),
    };
    let (s, t) = ([n], [1]);
    adamw_step(
        &mut ViewMut::of_slice(&mut p, &s, &t),
        &View::of_slice(&g, &s, &t),
        &mut ViewMut::of_slice(&mut m, &s, &t),
        &mut ViewMut::of_slice(&mut v, &s, &t),
        [None; 3],
        &step,
    )
    .unwrap();
    assert!(p.iter().all(|p| (p - (0.999 - 0.1)).abs() < 1e-5), "{}", p[0]);
    let mut b = vec![f32::NAN; n];
    let sgd =
        Sgd { lr: 0.1, momentum: 0.9, dampening: 0.0, weight_decay: 0.0, nesterov: true, maximize: false, first: true };
    let before = p[0];
    sgd_step(
        &mut ViewMut::of_slice(&mut p, &s, &t),
        &View::of_slice(&g, &s, &t),
        Some(&mut ViewMut::of_slice(&mut b, &s, &t)),
        [None; 2],
        &sgd,
    )
    .unwrap();
    assert!((p[0] - (before - 0.1 * (0.5 + 0.45))).abs() < 1e-6 && b[0] == 0.5);
}

#[test]
fn fused_kernels_follow_their_formulas() {
    let x: Vec<f32> = (0..800).map(|i| (i as f32 - 400.0) / 60.0).collect();
    let n = x.len();
    let (s, t) = ([n], [1]);
    let v = View::of_slice(&x, &s, &t);
    let mut y = vec![0f32; n];
    let near = |y: &[f32], f: &dyn Fn(f64) -> f64| {
        for (x, y) in x.iter().zip(y) {
            assert!(
                (*y as f64 - f(*x as f64)).abs() < 1e-6 * (1.0 + f(*x as f64).abs()),
                "{x}: {y} not {}",
                f(*x as f64)
            );
        }
    };
    let phi = |x: f64| 0.5 * (1.0 + libm_erf(x / 2f64.sqrt()));
    gelu(&v, false, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x * phi(x));
    gelu_backward(&v, &v, false, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x * (phi(x) + x * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()));
    let tanh_gelu =
        |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh());
    gelu(&v, true, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &tanh_gelu);
    gelu_backward(&v, &v, true, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    // Far from zero, 1 + tanh cancels in f32, as in PyTorch.
    for (x, y) in x.iter().map(|x| *x as f64).zip(&y) {
        let want = x * (tanh_gelu(x + 1e-6) - tanh_gelu(x - 1e-6)) / 2e-6;
        assert!((*y as f64 - want).abs() < 2e-5 * (1.0 + want.abs()), "{x}: {y} not {want}");
    }
    silu(&v, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x / (1.0 + (-x).exp()));
    clamp(&v, Some(-1.0), Some(2.0), &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x.clamp(-1.0, 2.0));
    add_scaled(&v, &v, -0.5, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x * 0.5);
    threshold_backward(&v, &v, 0.0, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x.max(0.0));
    let c: Vec<bool> = x.iter().map(|x| *x > 1.0).collect();
    let one = [9f32];
    select(&View::of_slice(&c, &s, &t), &v, &View::of_slice(&one, &s, &[0]), &mut ViewMut::of_slice(&mut y, &s, &t));
    near(&y, &|x| if x > 1.0 { x } else { 9.0 });
}
