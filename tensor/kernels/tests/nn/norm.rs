use super::*;
use torchtpu_kernels::norm::*;

type Stats = (Nd, Nd, Nd);

fn run_layer_norm(x: &Nd, n: usize, w: Option<&Nd>, b: Option<&Nd>) -> Stats {
    let rows = x.data.len() / n;
    let (mut y, mut mean, mut rstd) = (Nd::garbage(&x.sizes), Nd::garbage(&[rows]), Nd::garbage(&[rows]));
    let (w, b) = (w.map(|w| w.view()), b.map(|b| b.view()));
    layer_norm(
        &x.view(),
        n,
        w.as_ref(),
        b.as_ref(),
        1e-5,
        &mut y.view_mut(),
        &mut mean.view_mut(),
        &mut rstd.view_mut(),
    );
    (y, mean, rstd)
}

#[test]
fn layer_norm_and_its_gradients_equal_the_definition() {
    let mut random = Random(10);
    for (rows, n) in [(3, 7), (2, 100), (5, 1), (1, 33)] {
        let x = random.nd(&[rows, n]);
        let (w, b, g) = (random.nd(&[n]), random.nd(&[n]), random.nd(&[rows, n]));
        for affine in [false, true] {
            let (wo, bo) = (affine.then_some(&w), affine.then_some(&b));
            let (y, mean, rstd) = run_layer_norm(&x, n, wo, bo);
            for r in 0..rows {
                let row = &x.data[r * n..][..n];
                let m = row.iter().sum::<f64>() / n as f64;
                let v = row.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / n as f64;
                assert!((mean.data[r] - m).abs() < 1e-12 && (rstd.data[r] * (v + 1e-5).sqrt() - 1.0).abs() < 1e-9);
                for j in 0..n {
                    let mut want = (row[j] - m) / (v + 1e-5).sqrt();
                    if affine {
                        want = want * w.data[j] + b.data[j];
                    }
                    assert!((y.data[r * n + j] - want).abs() < 1e-9);
                }
            }
            let (mut gx, mut gw, mut gb) = (Nd::garbage(&x.sizes), Nd::garbage(&[n]), Nd::garbage(&[n]));
            let wv = wo.map(|w| w.view());
            let (xv, gv, mv, rv) = (x.view(), g.view(), mean.view(), rstd.view());
            layer_norm_backward(
                &gv,
                &xv,
                n,
                &mv,
                &rv,
                wv.as_ref(),
                Some(&mut gx.view_mut()),
                Some(&mut gw.view_mut()),
                Some(&mut gb.view_mut()),
            );
            if n > 1 {
                assert_gradient(&x, &gx, |x| inner(&run_layer_norm(x, n, wo, bo).0, &g), "layer norm gx");
            }
            if affine {
                assert_gradient(&w, &gw, |w| inner(&run_layer_norm(&x, n, Some(w), bo).0, &g), "layer norm gw");
                assert_gradient(&b, &gb, |b| inner(&run_layer_norm(&x, n, wo, Some(b)).0, &g), "layer norm gb");
            }
        }
    }
}

fn layer_norm_case<E: Element>(strided: bool) {
    let mut random = Random(11);
    let (x, w) = (random.nd(&[40, 500]).cast::<E>(strided), random.nd(&[500]).cast::<E>(strided));
    let mut y = Array::<E>::garbage(&[40, 500]).cast::<E>(strided);
    let (mut mean, mut rstd) = (Array::<f32>::garbage(&[40]), Array::<f32>::garbage(&[40]));
    let (m, r) = (&mut mean.view_mut(), &mut rstd.view_mut());
    layer_norm(&x.view(), 500, Some(&w.view()), None, 1e-5, &mut y.view_mut(), m, r);
    let (want, want_mean, want_rstd) = run_layer_norm(&x.nd(), 500, Some(&w.nd()), None);
    assert_close(&y.nd(), &want, tolerance::<E>(), "layer norm");
    assert_close(&mean.nd(), &want_mean, 1e-5, "mean");
    assert_close(&rstd.nd(), &want_rstd, 1e-5, "rstd");
    let g = random.nd(&[40, 500]).cast::<E>(strided);
    let run = |g: &View, x: &View, w: &View, m: &View, r: &View, gx: &mut ViewMut, gw: &mut ViewMut| {
        layer_norm_backward(g, x, 500, m, r, Some(w), Some(gx), Some(gw), None)
    };
    let (mut gx, mut gw) = (Array::<E>::strided(&[40, 500]), Array::<E>::strided(&[500]));
    run(&g.view(), &x.view(), &w.view(), &mean.view(), &rstd.view(), &mut gx.view_mut(), &mut gw.view_mut());
    let (mut want, mut want_gw) = (Nd::zeros(&[40, 500]), Nd::zeros(&[500]));
    let (gr, xr, wr) = (g.nd(), x.nd(), w.nd());
    let (m, r) = (want_mean.view(), want_rstd.view());
    run(&gr.view(), &xr.view(), &wr.view(), &m, &r, &mut want.view_mut(), &mut want_gw.view_mut());
    // The statistics are stored in f32.
    assert_close(&gx.nd(), &want, tolerance::<E>().max(2e-5), "layer norm gx");
    assert_close(&gw.nd(), &want_gw, tolerance::<E>().max(2e-5), "layer norm gw");
}

#[test]
fn layer_norm_works_for_all_dtypes() {
    for_floats!(layer_norm_case);
}

#[test]
fn rms_norm_and_its_gradients_equal_the_definition() {
    let mut random = Random(12);
    let (x, w, g) = (random.nd(&[4, 50]), random.nd(&[50]), random.nd(&[4, 50]));
    let run = |x: &Nd, w: &Nd| {
        let (mut y, mut rstd) = (Nd::garbage(&[4, 50]), Nd::garbage(&[4]));
        rms_norm(&x.view(), 50, Some(&w.view()), 1e-6, &mut y.view_mut(), &mut rstd.view_mut());
        (y, rstd)
    };
    let (y, rstd) = run(&x, &w);
    for i in 0..200 {
        let row = &x.data[i / 50 * 50..][..50];
        let r = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / 50.0 + 1e-6).sqrt();
        assert!((y.data[i] - x.data[i] * r * w.data[i % 50]).abs() < 1e-12);
    }
    let (mut gx, mut gw) = (Nd::garbage(&[4, 50]), Nd::garbage(&[50]));
    let (gv, xv, rv, wv) = (g.view(), x.view(), rstd.view(), w.view());
    rms_norm_backward(&gv, &xv, 50, &rv, Some(&wv), Some(&mut gx.view_mut()), Some(&mut gw.view_mut()));
    assert_gradient(&x, &gx, |x| inner(&run(x, &w).0, &g), "rms norm gx");
    assert_gradient(&w, &gw, |w| inner(&run(&x, w).0, &g), "rms norm gw");
}

#[test]
fn batch_norm_and_its_gradients_equal_the_definition() {
    let mut random = Random(13);
    for sizes in [vec![6, 3], vec![3, 2, 5], vec![2, 3, 5, 7], vec![4, 130]] {
        let c = sizes[1];
        let (x, w, b, g) = (random.nd(&sizes), random.nd(&[c]), random.nd(&[c]), random.nd(&sizes));
        let run = |x: &Nd, w: &Nd, b: &Nd| {
            let (mut y, mut m, mut i, mut v) =
                (Nd::garbage(&sizes), Nd::garbage(&[c]), Nd::garbage(&[c]), Nd::garbage(&[c]));
            let (wv, bv) = (w.view(), b.view());
            let (mv, iv, vv) = (&mut m.view_mut(), &mut i.view_mut(), &mut v.view_mut());
            batch_norm_train(&x.view(), Some(&wv), Some(&bv), 1e-5, &mut y.view_mut(), mv, iv, vv);
            (y, m, i, v)
        };
        let (y, mean, invstd, var) = run(&x, &w, &b);
        let s: usize = sizes[2..].iter().product();
        for ch in 0..c {
            let all: Vec<f64> = (0..x.data.len()).filter(|i| i / s % c == ch).map(|i| x.data[i]).collect();
            let m = all.iter().sum::<f64>() / all.len() as f64;
            let v = all.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / all.len() as f64;
            assert!((mean.data[ch] - m).abs() < 1e-12 && (var.data[ch] - v).abs() < 1e-12);
        }
        let mut eval = Nd::garbage(&sizes);
        let (mv, vv, wv, bv) = (mean.view(), var.view(), w.view(), b.view());
        batch_norm_eval(&x.view(), &mv, &vv, Some(&wv), Some(&bv), 1e-5, &mut eval.view_mut());
        assert_close(&eval, &y, 1e-9, "eval with the batch's statistics");
        for training in [true, false] {
            let (mut gx, mut gw, mut gb) = (Nd::garbage(&sizes), Nd::garbage(&[c]), Nd::garbage(&[c]));
            let (gv, xv, iv) = (g.view(), x.view(), invstd.view());
            let (gxv, gwv, gbv) = (&mut gx.view_mut(), &mut gw.view_mut(), &mut gb.view_mut());
            batch_norm_backward(&gv, &xv, &mv, &iv, Some(&wv), training, Some(gxv), Some(gwv), Some(gbv));
            let f = |x: &Nd, w: &Nd, b: &Nd| {
                if training {
                    return inner(&run(x, w, b).0, &g);
                }
                let mut y = Nd::garbage(&sizes);
                let (wv, bv) = (w.view(), b.view());
                batch_norm_eval(&x.view(), &mv, &vv, Some(&wv), Some(&bv), 1e-5, &mut y.view_mut());
                inner(&y, &g)
            };
            assert_gradient(&x, &gx, |x| f(x, &w, &b), "batch norm gx");
            assert_gradient(&w, &gw, |w| f(&x, w, &b), "batch norm gw");
            assert_gradient(&b, &gb, |b| f(&x, &w, b), "batch norm gb");
        }
    }
}

#[test]
fn group_norm_and_its_gradients_equal_the_definition() {
    let mut random = Random(14);
    for (sizes, groups) in [(vec![2, 6, 5], 3), (vec![3, 4], 2), (vec![2, 4, 3, 7], 1), (vec![2, 3, 20], 3)] {
        let (n, c) = (sizes[0], sizes[1]);
        let (x, w, b, g) = (random.nd(&sizes), random.nd(&[c]), random.nd(&[c]), random.nd(&sizes));
        let run = |x: &Nd, w: &Nd, b: &Nd| {
            let (mut y, mut m, mut r) = (Nd::garbage(&sizes), Nd::garbage(&[n, groups]), Nd::garbage(&[n, groups]));
            let (wv, bv) = (w.view(), b.view());
            let (mv, rv) = (&mut m.view_mut(), &mut r.view_mut());
            group_norm(&x.view(), groups, Some(&wv), Some(&bv), 1e-5, &mut y.view_mut(), mv, rv);
            (y, m, r)
        };
        let (y, mean, rstd) = run(&x, &w, &b);
        let per = x.data.len() / n / groups;
        let (plain, m, r) = run_layer_norm(&x, per, None, None);
        assert_close(&Nd::of(mean.data.clone(), &m.sizes), &m, 1e-12, "mean");
        assert_close(&Nd::of(rstd.data.clone(), &r.sizes), &r, 1e-9, "rstd");
        let s: usize = sizes[2..].iter().product();
        for i in 0..y.data.len() {
            let ch = i / s % c;
            assert!((y.data[i] - plain.data[i] * w.data[ch] - b.data[ch]).abs() < 1e-9);
        }
        let (mut gx, mut gw, mut gb) = (Nd::garbage(&sizes), Nd::garbage(&[c]), Nd::garbage(&[c]));
        let (gv, xv, mv, rv, wv) = (g.view(), x.view(), mean.view(), rstd.view(), w.view());
        let (gxv, gwv, gbv) = (&mut gx.view_mut(), &mut gw.view_mut(), &mut gb.view_mut());
        group_norm_backward(&gv, &xv, groups, &mv, &rv, Some(&wv), Some(gxv), Some(gwv), Some(gbv));
        if per > 2 {
            assert_gradient(&x, &gx, |x| inner(&run(x, &w, &b).0, &g), "group norm gx");
        }
        assert_gradient(&w, &gw, |w| inner(&run(&x, w, &b).0, &g), "group norm gw");
        assert_gradient(&b, &gb, |b| inner(&run(&x, &w, b).0, &g), "group norm gb");
    }
}
