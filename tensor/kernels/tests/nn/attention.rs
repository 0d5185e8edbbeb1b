use super::*;
use torchtpu_kernels::attention::{Attention, attention, attention_backward};

fn naive_attention(q: &Nd, k: &Nd, v: &Nd, spec: &Attention, mask: impl Fn(usize, usize, usize) -> f64) -> (Nd, Nd) {
    let (pairs, l, e, s, ev) = (q.sizes[0] * q.sizes[1], q.sizes[2], q.sizes[3], k.sizes[2], v.sizes[3]);
    let mut out = Nd::zeros(&[q.sizes[0], q.sizes[1], l, ev]);
    let mut lse = Nd::zeros(&q.sizes[..3]);
    for p in 0..pairs {
        for i in 0..l {
            let score = |j: usize| {
                let dot: f64 = (0..e).map(|d| q.data[(p * l + i) * e + d] * k.data[(p * s + j) * e + d]).sum();
                if spec.is_causal && j > i { f64::NEG_INFINITY } else { dot * spec.scale + mask(p, i, j) }
            };
            let scores: Vec<f64> = (0..s).map(score).collect();
            let sum: f64 = scores.iter().map(|v| v.exp()).sum();
            lse.data[p * l + i] = sum.ln();
            for j in 0..s {
                let w = if sum == 0.0 { 0.0 } else { scores[j].exp() / sum };
                for d in 0..ev {
                    out.data[(p * l + i) * ev + d] += w * v.data[(p * s + j) * ev + d];
                }
            }
        }
    }
    (out, lse)
}

#[test]
fn attention_and_its_gradients_equal_the_definition() {
    let mut random = Random(16);
    let (b, h, l, s, e, ev) = (2, 2, 70, 75, 4, 3);
    let (q, k, v) = (random.nd(&[b, h, l, e]), random.nd(&[b, h, s, e]), random.nd(&[b, h, s, ev]));
    let g = random.nd(&[b, h, l, ev]);
    let seen = Array::of((0..l * s).map(|_| random.below(3) > 0).collect::<Vec<_>>(), &[l, s]);
    let mut seen = seen;
    seen.data[5 * s..6 * s].fill(false); // Row 5 attends to nothing.
    seen.sizes = vec![b, h, l, s];
    seen.strides = vec![0, 0, s, 1];
    let mut added = random.nd(&[b, 1, 1, s]);
    added.sizes = vec![b, h, l, s];
    added.strides = vec![s, 0, 0, 1];
    for case in 0..4 {
        let mask = [None, None, Some(seen.view()), Some(added.view())][case];
        let spec = Attention { scale: 0.5, is_causal: case == 1 || case == 3, rows_first: false, mask };
        let value = |p: usize, i: usize, j: usize| match case {
            2 if !seen.data[i * s + j] => f64::NEG_INFINITY,
            3 => added.data[p / h * s + j],
            _ => 0.0,
        };
        let (want, want_lse) = naive_attention(&q, &k, &v, &spec, value);
        let (mut o, mut lse) = (Nd::garbage(&want.sizes), Nd::garbage(&want_lse.sizes));
        attention(&q.view(), &k.view(), &v.view(), &spec, &mut o.view_mut(), &mut lse.view_mut());
        assert_close(&o, &want, 1e-10, "attention");
        assert_close(&lse, &want_lse, 1e-10, "log-sum-exp");
        let [mut gq, mut gk, mut gv] = [&q, &k, &v].map(|x| Nd::garbage(&x.sizes));
        let (gqv, gkv, gvv) = (&mut gq.view_mut(), &mut gk.view_mut(), &mut gv.view_mut());
        let (qv, kv, vv) = (q.view(), k.view(), v.view());
        attention_backward(&g.view(), &qv, &kv, &vv, &lse.view(), &spec, gqv, gkv, gvv);
        // Check directional derivatives: one number per gradient, along a random direction.
        for (x, gx, which) in [(&q, &gq, 0), (&k, &gk, 1), (&v, &gv, 2)] {
            let direction = random.nd(&x.sizes);
            let f = |step: f64| {
                let mut moved = x.clone();
                moved.data.iter_mut().zip(&direction.data).for_each(|(m, d)| *m += step * d);
                let at = |i: usize, own: &Nd| if i == which { moved.clone() } else { own.clone() };
                inner(&naive_attention(&at(0, &q), &at(1, &k), &at(2, &v), &spec, value).0, &g)
            };
            let want = (f(1e-5) - f(-1e-5)) / 2e-5;
            let got = inner(gx, &direction);
            assert!((got - want).abs() < 1e-6 * (1.0 + want.abs()), "case {case}, gradient {which}: {got} {want}");
        }
        // Check the layout whose rows hold all heads.
        let turned = |x: &Nd| {
            let mut y = Nd::garbage(&[x.sizes[0], x.sizes[2], x.sizes[1], x.sizes[3]]);
            for i in 0..x.data.len() {
                let (d, h, l) = (i % x.sizes[3], i / x.sizes[3] / x.sizes[2] % x.sizes[1], i / x.sizes[3] % x.sizes[2]);
                let b = i / (x.sizes[1] * x.sizes[2] * x.sizes[3]);
                y.data[((b * x.sizes[2] + l) * x.sizes[1] + h) * x.sizes[3] + d] = x.data[i];
            }
            y
        };
        let spec_turned = Attention { rows_first: true, ..spec };
        let [qt, kt, vt, gt] = [&q, &k, &v, &g].map(turned);
        let (mut ot, mut lse) = (Nd::garbage(&gt.sizes), Nd::garbage(&want_lse.sizes));
        attention(&qt.view(), &kt.view(), &vt.view(), &spec_turned, &mut ot.view_mut(), &mut lse.view_mut());
        assert_close(&ot, &turned(&want), 1e-10, "rows first");
        let [mut gqt, mut gkt, mut gvt] = [&qt, &kt, &vt].map(|x| Nd::garbage(&x.sizes));
        let (gqv, gkv, gvv) = (&mut gqt.view_mut(), &mut gkt.view_mut(), &mut gvt.view_mut());
        let (qv, kv, vv) = (qt.view(), kt.view(), vt.view());
        attention_backward(&gt.view(), &qv, &kv, &vv, &lse.view(), &spec_turned, gqv, gkv, gvv);
        for (got, want) in [(&gqt, &gq), (&gkt, &gk), (&gvt, &gv)] {
            assert_close(got, &turned(want), 1e-12, "gradients with rows first");
        }
        let [q32, k32, v32] = [&q, &k, &v].map(|x| x.cast::<bf16>(true));
        let (mut o, mut lse) = (Array::<bf16>::garbage(&want.sizes), Array::<f32>::garbage(&want_lse.sizes));
        attention(&q32.view(), &k32.view(), &v32.view(), &spec, &mut o.view_mut(), &mut lse.view_mut());
        assert_close(&o.nd(), &want, 3e-2, "attention in bf16");
    }
}
