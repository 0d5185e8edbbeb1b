use super::*;
use torchtpu_kernels::loss::{CrossEntropy, cross_entropy, cross_entropy_backward, nll_loss, nll_loss_backward};

#[test]
fn cross_entropy_and_its_gradient_equal_the_definition() {
    let mut random = Random(15);
    for (sizes, rows) in [(vec![5, 7], vec![5]), (vec![3, 40], vec![3]), (vec![2, 5, 3, 50], vec![2, 3, 50])] {
        let c = sizes[1];
        let x = random.nd(&sizes);
        let count: usize = rows.iter().product();
        let target: Vec<i64> = (0..count).map(|i| if i == 1 { -100 } else { random.below(c) as i64 }).collect();
        let target = Array::of(target, &rows);
        let mut weight = random.nd(&[c]);
        weight.data.iter_mut().for_each(|w| *w = w.abs() + 0.1);
        let g = random.nd(&rows);
        let logp = naive_softmax(&x, 1, true);
        let s: usize = sizes[2..].iter().product();
        for (weighted, smoothing) in [(false, 0.0), (true, 0.0), (false, 0.3), (true, 0.3)] {
            let spec = CrossEntropy {
                weight: weighted.then(|| weight.view()),
                label_smoothing: smoothing,
                ..Default::default()
            };
            let run = |x: &Nd| {
                let (mut loss, mut lse) = (Nd::garbage(&rows), Nd::garbage(&rows));
                let total =
                    cross_entropy(&x.view(), &target.view(), &spec, &mut loss.view_mut(), &mut lse.view_mut()).unwrap();
                (loss, lse, total)
            };
            let (loss, lse, total) = run(&x);
            let (mut want, mut want_total) = (Nd::zeros(&rows), 0.0);
            for r in 0..count {
                let t = target.data[r];
                if t < 0 {
                    continue;
                }
                let at = |j: usize| logp.data[r / s * c * s + j * s + r % s];
                let w = |j: usize| if weighted { weight.data[j] } else { 1.0 };
                want_total += w(t as usize);
                want.data[r] = -(1.0 - smoothing) * w(t as usize) * at(t as usize)
                    - smoothing / c as f64 * (0..c).map(|j| w(j) * at(j)).sum::<f64>();
            }
            assert_close(&loss, &want, 1e-10, "cross entropy");
            assert!((total - want_total).abs() < 1e-9);
            let mut gx = Nd::garbage(&sizes);
            let (gv, xv, tv, lv) = (g.view(), x.view(), target.view(), lse.view());
            cross_entropy_backward(&gv, &xv, &tv, &lv, &spec, &mut gx.view_mut()).unwrap();
            assert_gradient(&x, &gx, |x| inner(&run(x).0, &g), "cross entropy gradient");
            if smoothing == 0.0 {
                let (mut nll, mut gn) = (Nd::garbage(&rows), Nd::garbage(&sizes));
                let w = spec.weight;
                let total = nll_loss(&logp.view(), &tv, w.as_ref(), -100, &mut nll.view_mut()).unwrap();
                assert_close(&nll, &want, 1e-10, "nll");
                assert!((total - want_total).abs() < 1e-9);
                nll_loss_backward(&gv, &tv, w.as_ref(), -100, &mut gn.view_mut()).unwrap();
                let f = |x: &Nd| {
                    let mut nll = Nd::garbage(&rows);
                    nll_loss(&x.view(), &tv, w.as_ref(), -100, &mut nll.view_mut()).unwrap();
                    inner(&nll, &g)
                };
                assert_gradient(&logp, &gn, f, "nll gradient");
            }
        }
    }
}

#[test]
fn targets_out_of_range_are_errors() {
    let x = Array::<f32>::zeros(&[2, 3]);
    for bad in [3, 12, -1] {
        let target = Array::of(vec![0i64, bad], &[2]);
        let (mut loss, mut lse) = (Array::<f32>::zeros(&[2]), Array::<f32>::zeros(&[2]));
        let spec = CrossEntropy::default();
        let error = cross_entropy(&x.view(), &target.view(), &spec, &mut loss.view_mut(), &mut lse.view_mut());
        let want = KernelError::IndexOutOfRange(format!("Target {bad} is out of bounds."));
        assert_eq!(error.unwrap_err(), want);
        assert_eq!(nll_loss(&x.view(), &target.view(), None, -100, &mut loss.view_mut()).unwrap_err(), want);
    }
}

#[test]
fn invalid_targets_give_nan_on_request() {
    let mut random = Random(7);
    for (sizes, rows) in [(vec![4, 5], vec![4]), (vec![2, 5, 2], vec![2, 2])] {
        let (x, g, weight) = (random.nd(&sizes), random.nd(&rows), random.nd(&[5]));
        let (wrong, right) = (Array::of(vec![1, 5, -1, -100], &rows), Array::of(vec![1, 0, 0, -100], &rows));
        let run = |target: &Array<i64>, spec: &CrossEntropy<'_>| {
            let (mut loss, mut lse, mut gx) = (Nd::garbage(&rows), Nd::garbage(&rows), Nd::garbage(&sizes));
            let total = cross_entropy(&x.view(), &target.view(), spec, &mut loss.view_mut(), &mut lse.view_mut())?;
            cross_entropy_backward(&g.view(), &x.view(), &target.view(), &lse.view(), spec, &mut gx.view_mut())?;
            Ok::<_, KernelError>((loss, gx, total))
        };
        for label_smoothing in [0.0, 0.2] {
            let spec = CrossEntropy { weight: Some(weight.view()), label_smoothing, ..Default::default() };
            let error = run(&wrong, &spec).err().map(|e| e.to_string());
            assert_eq!(error.as_deref(), Some("Target 5 is out of bounds."));
            let (want, want_gx, _) = run(&right, &spec).unwrap();
            let (loss, gx, total) = run(&wrong, &CrossEntropy { wrong_is_nan: true, ..spec }).unwrap();
            assert_eq!(total, weight.data[1]);
            assert!(loss.data[1].is_nan() && loss.data[2].is_nan());
            assert_eq!([loss.data[0], loss.data[3]], [want.data[0], 0.0]);
            let inner: usize = sizes[2..].iter().product();
            for (i, (got, want)) in gx.data.iter().zip(&want_gx.data).enumerate() {
                let row = i / (5 * inner) * inner + i % inner;
                assert!(if row == 1 || row == 2 { got.is_nan() } else { got == want }, "row {row}: {got}, {want}");
            }
        }
    }
}
