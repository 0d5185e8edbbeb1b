use super::*;
use torchtpu_kernels::pool::*;

fn naive_pool(x: &Nd, spec: &PoolSpec, out: &[usize], mut f: impl FnMut(usize, &[(usize, f64)], [i64; 2])) {
    let s = spec.spatial;
    let rank = x.sizes.len();
    let (xs, ys) = (&x.sizes[rank - s..], &out[rank - s..]);
    let (xp, yp) = (xs.iter().product::<usize>(), ys.iter().product::<usize>());
    for plane in 0..x.data.len().checked_div(xp).unwrap_or(0) {
        for o in 0..yp {
            let mut index = [0; 3];
            let mut rest = o;
            for d in (0..s).rev() {
                index[d] = rest % ys[d];
                rest /= ys[d];
            }
            let (mut members, mut padded, mut real) = (Vec::new(), 1i64, 1i64);
            for d in 0..s {
                let first = (index[d] * spec.stride[d]) as i64 - spec.pad[d] as i64;
                let last = (first + spec.kernel[d] as i64).min((xs[d] + spec.pad[d]) as i64);
                padded *= last - first;
                real *= last.min(xs[d] as i64) - first.max(0);
            }
            let window: usize = spec.kernel[..s].iter().product();
            'element: for k in 0..window {
                let (mut rest, mut at, mut step) = (k, 0, 1);
                for d in (0..s).rev() {
                    let offset = rest % spec.kernel[d];
                    rest /= spec.kernel[d];
                    let p = (index[d] * spec.stride[d] + offset * spec.dilation[d]) as i64 - spec.pad[d] as i64;
                    if p < 0 || p >= xs[d] as i64 {
                        continue 'element;
                    }
                    at += p as usize * step;
                    step *= xs[d];
                }
                members.push((at, x.data[plane * xp + at]));
            }
            f(plane * yp + o, &members, [padded, real]);
        }
    }
}

fn pool_case<E: Element>(strided: bool) {
    let mut random = Random(7);
    for _ in 0..30 {
        let mut pick = |low: usize, high: usize| low + random.below(high - low + 1);
        let spatial = pick(1, 3);
        let kernel = [pick(1, 3), pick(1, 3), pick(1, 3)];
        let spec = PoolSpec {
            spatial,
            kernel,
            stride: [pick(1, 3), pick(1, 3), pick(1, 3)],
            pad: kernel.map(|k| pick(0, k / 2)),
            dilation: [pick(1, 2), pick(1, 2), pick(1, 2)],
        };
        let lead = [2, 3];
        let x: Vec<usize> = (0..spatial).map(|_| pick(5, 9)).collect();
        let ceil = pick(0, 1);
        let out = |dilation: [usize; 3]| -> Vec<usize> {
            (0..spatial)
                .map(|d| {
                    let room = x[d] + 2 * spec.pad[d] - dilation[d] * (spec.kernel[d] - 1) - 1;
                    let n = (room + ceil * (spec.stride[d] - 1)) / spec.stride[d] + 1;
                    if (n - 1) * spec.stride[d] >= x[d] + spec.pad[d] { n - 1 } else { n }
                })
                .collect()
        };
        let xs = [lead.to_vec(), x.clone()].concat();
        let x = random.nd(&xs).cast::<E>(strided);
        let ys = [lead.to_vec(), out(spec.dilation)].concat();
        let (mut want, mut want_at) = (Nd::zeros(&ys), Nd::zeros(&ys));
        naive_pool(&x.nd(), &spec, &ys, |o, members, _| {
            let best = members.iter().fold((0, f64::NEG_INFINITY), |b, m| if m.1 > b.1 { *m } else { b });
            (want_at.data[o], want.data[o]) = (best.0 as f64, best.1);
        });
        let (mut y, mut at) =
            (Array::<E>::garbage(&ys).cast::<E>(strided), Array::<i64>::garbage(&ys).cast::<i64>(strided));
        max_pool(&x.view(), &spec, &mut y.view_mut(), &mut at.view_mut());
        assert_close(&y.nd(), &want, 0.0, "max");
        assert_close(&at.nd(), &want_at, 0.0, "positions");
        let g = random.nd(&ys).cast::<E>(strided);
        let mut want_gx = Nd::zeros(&xs);
        let (xp, yp) = (xs[2..].iter().product::<usize>(), ys[2..].iter().product::<usize>());
        for (i, g) in g.nd().data.iter().enumerate() {
            want_gx.data[i / yp * xp + want_at.data[i] as usize] += g;
        }
        let mut gx = Array::<E>::garbage(&xs).cast::<E>(strided);
        max_pool_backward(&g.view(), &at.view(), spatial, &mut gx.view_mut());
        assert_close(&gx.nd(), &want_gx, tolerance::<E>(), "max gradient");

        let spec = PoolSpec { dilation: [1; 3], ..spec };
        let ys = [lead.to_vec(), out([1; 3])].concat();
        let g = random.nd(&ys).cast::<E>(strided);
        for (include, fixed) in [(true, None), (false, None), (true, Some(5))] {
            let (mut want, mut want_gx) = (Nd::zeros(&ys), Nd::zeros(&xs));
            let gr = g.nd();
            naive_pool(&x.nd(), &spec, &ys, |o, members, [padded, real]| {
                let divisor = fixed.unwrap_or(if include { padded } else { real }) as f64;
                want.data[o] = members.iter().map(|m| m.1).sum::<f64>() / divisor;
                for m in members {
                    want_gx.data[o / ys[2..].iter().product::<usize>() * xp + m.0] += gr.data[o] / divisor;
                }
            });
            let mut y = Array::<E>::garbage(&ys).cast::<E>(strided);
            avg_pool(&x.view(), &spec, include, fixed, &mut y.view_mut());
            assert_close(&y.nd(), &want, tolerance::<E>(), &format!("average {spec:?} {include} {fixed:?}"));
            avg_pool_backward(&g.view(), &spec, include, fixed, &mut gx.view_mut());
            assert_close(&gx.nd(), &want_gx, tolerance::<E>(), "average gradient");
        }
    }
}

#[test]
fn pools_equal_the_definition() {
    for_floats!(pool_case);
}

#[test]
fn max_pool_keeps_nan_and_minus_infinity() {
    let x = Array::of(vec![1.0f32, f32::NAN, 3.0, 4.0, f32::NEG_INFINITY, f32::NEG_INFINITY], &[1, 6]);
    let spec = PoolSpec { spatial: 1, kernel: [2; 3], stride: [2; 3], pad: [0; 3], dilation: [1; 3] };
    let (mut y, mut at) = (Array::<f32>::zeros(&[1, 3]), Array::<i64>::zeros(&[1, 3]));
    max_pool(&x.view(), &spec, &mut y.view_mut(), &mut at.view_mut());
    assert!(y.data[0].is_nan() && y.data[1] == 4.0 && y.data[2] == f32::NEG_INFINITY);
    assert_eq!(at.data, [1, 3, 4]);
}

#[test]
fn adaptive_pools_divide_evenly() {
    let mut random = Random(8);
    for (i, o) in [(7, 3), (4, 4), (3, 5), (8, 1), (6, 4)] {
        let x = random.nd(&[2, 3, i, 5]);
        let (mut want, mut want_max) = (Nd::zeros(&[2, 3, o, 2]), Nd::zeros(&[2, 3, o, 2]));
        for p in 0..6 {
            for a in 0..o {
                for b in 0..2usize {
                    let (h0, h1) = (a * i / o, ((a + 1) * i).div_ceil(o));
                    let (w0, w1) = (b * 5 / 2, ((b + 1) * 5).div_ceil(2));
                    let all: Vec<f64> = (h0..h1)
                        .flat_map(|h| (w0..w1).map(move |w| (h, w)))
                        .map(|(h, w)| x.data[(p * i + h) * 5 + w])
                        .collect();
                    want.data[(p * o + a) * 2 + b] = all.iter().sum::<f64>() / all.len() as f64;
                    want_max.data[(p * o + a) * 2 + b] = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                }
            }
        }
        let mut y = Nd::garbage(&want.sizes);
        adaptive_avg_pool(&x.view(), 2, &mut y.view_mut());
        assert_close(&y, &want, 1e-12, "adaptive average");
        let g = random.nd(&y.sizes);
        let mut gx = Nd::garbage(&x.sizes);
        adaptive_avg_pool_backward(&g.view(), 2, &mut gx.view_mut());
        assert_gradient(
            &x,
            &gx,
            |x| {
                let mut y = Nd::garbage(&want.sizes);
                adaptive_avg_pool(&x.view(), 2, &mut y.view_mut());
                inner(&y, &g)
            },
            "adaptive average gradient",
        );
        let mut at = Array::<i64>::garbage(&want.sizes);
        adaptive_max_pool(&x.view(), 2, &mut y.view_mut(), &mut at.view_mut());
        assert_close(&y, &want_max, 0.0, "adaptive maximum");
        assert!(at.data.iter().enumerate().all(|(k, &at)| x.data[k / (o * 2) * i * 5 + at as usize] == y.data[k]));
    }
}
