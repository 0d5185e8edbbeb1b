use super::*;
use torchtpu_kernels::conv::{ConvSpec, conv, conv_input_grad, conv_weight_grad};

/// Call `f(output, input, weight)` for every product of a convolution, by its definition.
fn products(spec: &ConvSpec, x: &[usize], w: &[usize], y: &[usize], mut f: impl FnMut(usize, usize, usize)) {
    let s = spec.spatial;
    let three = |v: &[usize]| {
        let mut out = [1; 3];
        out[..s].copy_from_slice(&v[2..]);
        out
    };
    let (xs, ks, ys) = (three(x), three(w), three(y));
    let (cg, og) = (w[1], w[0] / spec.groups);
    let flat = |i: [usize; 3], n: [usize; 3]| (i[0] * n[1] + i[1]) * n[2] + i[2];
    let unflat = |i: usize, n: [usize; 3]| [i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]];
    let (xp, kp, yp) = (xs.iter().product::<usize>(), ks.iter().product::<usize>(), ys.iter().product::<usize>());
    for n in 0..x[0] {
        for o in 0..w[0] {
            for c in 0..cg {
                for yi in 0..yp {
                    for ki in 0..kp {
                        let (yv, kv) = (unflat(yi, ys), unflat(ki, ks));
                        let mut xv = [0; 3];
                        let mut inside = true;
                        for d in 0..s {
                            let k = if spec.reverse { ks[d] - 1 - kv[d] } else { kv[d] };
                            let p = (yv[d] * spec.stride[d] + k * spec.w_dilation[d]) as i64 - spec.pad[d].0;
                            let dil = spec.x_dilation[d] as i64;
                            inside &= p >= 0 && p % dil == 0 && p / dil < xs[d] as i64;
                            xv[d] = (p.max(0) / dil) as usize;
                        }
                        if inside {
                            let channel = o / og * cg + c;
                            let xi = (n * x[1] + channel) * xp + flat(xv, xs);
                            f((n * w[0] + o) * yp + yi, xi, (o * cg + c) * kp + ki);
                        }
                    }
                }
            }
        }
    }
}

fn check_conv<E: Element>(spec: &ConvSpec, n: usize, cg: usize, og: usize, x: &[usize], k: &[usize], strided: bool) {
    let s = spec.spatial;
    let mut random = Random(5);
    let sizes = |lead: [usize; 2], v: Vec<usize>| [lead.to_vec(), v].concat();
    let xs = sizes([n, cg * spec.groups], x[..s].to_vec());
    let ws = sizes([og * spec.groups, cg], k[..s].to_vec());
    let ys = sizes([n, og * spec.groups], (0..s).map(|d| spec.output_size(d, x[d], k[d])).collect());
    let (x, w, g) =
        (random.nd(&xs).cast::<E>(strided), random.nd(&ws).cast::<E>(strided), random.nd(&ys).cast::<E>(strided));
    let bias = random.nd(&[ws[0]]).cast::<E>(false);
    let (xr, wr, gr) = (x.nd(), w.nd(), g.nd());
    let (mut y, mut gx, mut gw) = (Nd::zeros(&ys), Nd::zeros(&xs), Nd::zeros(&ws));
    products(spec, &xs, &ws, &ys, |yi, xi, wi| {
        y.data[yi] += xr.data[xi] * wr.data[wi];
        gx.data[xi] += gr.data[yi] * wr.data[wi];
        gw.data[wi] += gr.data[yi] * xr.data[xi];
    });
    let tol = tolerance::<E>() * 3.0;
    let what = format!("{spec:?} {xs:?} {ws:?} {}", E::DTYPE.name());
    let garbage = |sizes: &[usize]| Array::<E>::garbage(sizes).cast::<E>(strided);
    let mut out = garbage(&ys);
    conv(&x.view(), &w.view(), None, spec, &mut out.view_mut());
    assert_close(&out.nd(), &y, tol, &what);
    conv(&x.view(), &w.view(), Some(&bias.view()), spec, &mut out.view_mut());
    let plane: usize = ys[2..].iter().product();
    for (i, y) in y.data.iter_mut().enumerate() {
        *y += bias.data[i / plane % ws[0]].to_f64();
    }
    assert_close(&out.nd(), &y, tol, &what);
    let mut out = garbage(&xs);
    conv_input_grad(&g.view(), &w.view(), spec, &mut out.view_mut());
    assert_close(&out.nd(), &gx, tol, &format!("input gradient {what}"));
    let mut out = garbage(&ws);
    conv_weight_grad(&x.view(), &g.view(), spec, &mut out.view_mut());
    assert_close(&out.nd(), &gw, tol * 3.0, &format!("weight gradient {what}"));
}

#[test]
fn convolution_and_its_gradients_equal_the_definition() {
    let mut random = Random(6);
    for case in 0..150 {
        let mut pick = |low: usize, high: usize| low + random.below(high - low + 1);
        let spatial = pick(1, 3);
        let spec = ConvSpec {
            spatial,
            groups: pick(1, 3),
            reverse: pick(0, 1) == 1,
            stride: [pick(1, 3), pick(1, 2), pick(1, 2)],
            x_dilation: [pick(1, 2), pick(1, 2), pick(1, 3)],
            w_dilation: [pick(1, 2), pick(1, 2), pick(1, 2)],
            pad: std::array::from_fn(|_| (pick(0, 4) as i64 - 2, pick(0, 4) as i64 - 2)),
        };
        let (n, cg, og) = (pick(0, 2), pick(1, 3), pick(1, 3));
        let x = [pick(3, 7), pick(3, 7), pick(3, 7)];
        let k = [pick(1, 3), pick(1, 3), pick(1, 3)];
        match case % 4 {
            0 => check_conv::<f64>(&spec, n, cg, og, &x, &k, false),
            1 => check_conv::<f32>(&spec, n, cg, og, &x, &k, true),
            2 => check_conv::<bf16>(&spec, n, cg, og, &x, &k, false),
            _ => check_conv::<f16>(&spec, n, cg, og, &x, &k, true),
        }
    }
}

#[test]
fn convolutions_of_common_networks_equal_the_definition() {
    let spec = |stride: usize, pad: i64, groups: usize| ConvSpec {
        stride: [stride; 3],
        pad: [(pad, pad); 3],
        groups,
        ..ConvSpec::default()
    };
    for n in [1, 3] {
        check_conv::<f32>(&spec(1, 1, 1), n, 17, 35, &[29, 19], &[3, 3], false);
        check_conv::<f32>(&spec(2, 3, 1), n, 3, 8, &[31, 33], &[7, 7], false);
        check_conv::<f32>(&spec(1, 0, 1), n, 40, 20, &[14, 14], &[1, 1], false);
        check_conv::<f32>(&spec(2, 0, 1), n, 40, 20, &[14, 14], &[1, 1], false);
        check_conv::<f32>(&spec(1, 1, 8), n, 1, 1, &[20, 40], &[3, 3], false);
        check_conv::<f32>(&spec(2, 1, 8), n, 1, 2, &[20, 40], &[3, 3], false);
        check_conv::<f32>(&spec(1, 2, 2), n, 16, 16, &[16, 16], &[5, 5], false);
        check_conv::<f32>(&spec(2, 1, 1), n, 20, 40, &[16, 16], &[3, 3], false);
        check_conv::<f32>(&spec(3, 1, 1), n, 5, 7, &[17, 14], &[2, 2], false);
        check_conv::<f32>(&spec(1, 1, 1), n, 70, 90, &[2, 2], &[3, 3], false);
        check_conv::<f32>(&spec(1, 0, 1), n, 60, 90, &[1, 1], &[1, 1], false);
        check_conv::<f32>(&spec(1, 1, 6), n, 5, 6, &[9, 8], &[3, 3], false);
        check_conv::<f64>(&spec(1, 1, 1), n, 20, 33, &[18, 50], &[3, 3], false);
        check_conv::<bf16>(&spec(1, 1, 1), n, 20, 33, &[18, 50], &[3, 3], false);
    }
}

#[test]
fn large_convolutions_of_3x3_equal_the_definition() {
    let spec = |pad: [(i64, i64); 2], groups: usize, reverse: bool| ConvSpec {
        pad: [pad[0], pad[1], (0, 0)],
        groups,
        reverse,
        ..ConvSpec::default()
    };
    let same = [(1, 1); 2];
    check_conv::<f32>(&spec(same, 1, false), 6, 18, 17, &[27, 31], &[3, 3], false);
    check_conv::<f32>(&spec([(0, 3), (2, -1)], 1, true), 33, 35, 32, &[8, 9], &[3, 3], true);
    check_conv::<f32>(&spec([(-1, 2), (3, 0)], 2, false), 9, 20, 20, &[16, 27], &[3, 3], false);
    check_conv::<f32>(&spec(same, 1, false), 1, 64, 16, &[70, 70], &[3, 3], false);
    check_conv::<f64>(&spec([(1, 0), (0, 2)], 1, false), 3, 19, 40, &[45, 29], &[3, 3], false);
    check_conv::<bf16>(&spec(same, 1, false), 16, 32, 33, &[13, 12], &[3, 3], false);
}

#[test]
fn convolutions_of_few_channels_equal_the_definition() {
    let spec = |pad: [(i64, i64); 2], reverse: bool| ConvSpec {
        pad: [pad[0], pad[1], (0, 0)],
        reverse,
        ..ConvSpec::default()
    };
    let same = [(1, 1); 2];
    check_conv::<f32>(&spec(same, false), 8, 1, 16, &[8, 8], &[3, 3], false);
    check_conv::<f32>(&spec(same, false), 9, 16, 33, &[8, 9], &[3, 3], false);
    check_conv::<f32>(&spec(same, true), 5, 40, 9, &[17, 11], &[3, 2], true);
    check_conv::<f32>(&spec([(2, 1), (0, 3)], true), 1, 3, 40, &[23, 17], &[5, 4], false);
    check_conv::<f32>(&spec([(-1, 2), (3, -2)], false), 3, 5, 1, &[31, 30], &[4, 7], false);
    check_conv::<f32>(&spec([(0, 0); 2], false), 2, 2, 3, &[90, 150], &[1, 5], false);
    check_conv::<f64>(&spec(same, false), 9, 14, 21, &[7, 7], &[3, 3], true);
    check_conv::<bf16>(&spec([(0, 1), (1, 0)], false), 16, 8, 18, &[6, 7], &[1, 2], false);
}

#[test]
fn convolutions_accept_empty_arrays() {
    check_conv::<f32>(&ConvSpec::default(), 0, 2, 2, &[5, 5], &[3, 3], false);
    check_conv::<f32>(&ConvSpec::default(), 2, 2, 2, &[2, 5], &[3, 3], false);
    check_conv::<f32>(&ConvSpec { pad: [(3, 3); 3], ..ConvSpec::default() }, 2, 2, 2, &[0, 5], &[3, 3], false);
}
