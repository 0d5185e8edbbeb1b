//! Comparisons of Winograd convolutions with the definition.

use super::super::{
    ConvSpec, forward as chosen_forward, input_grad as chosen_input_grad, weight_grad as chosen_weight_grad,
};
use super::*;
use crate::threads::set_num_threads;

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    fn pick(&mut self, low: usize, high: usize) -> usize {
        low + self.next() as usize % (high - low + 1)
    }
    fn numbers(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| (self.next() as f64 / (1u64 << 30) as f64 - 1.0) as f32 as f64).collect()
    }
}

/// Operands of a convolution, with the result and gradients computed by definition.
struct Case {
    shape: Shape,
    layer: Layer,
    x: Vec<f64>,
    w: Vec<f64>,
    g: Vec<f64>,
    bias: Vec<f64>,
    y: Vec<f64>,
    gx: Vec<f64>,
    gw: Vec<f64>,
}

fn case(random: &mut Random, channels: usize) -> Case {
    let mut pad = || (random.pick(0, 5) as i64 - 2, random.pick(0, 5) as i64 - 2);
    let pads = [pad(), pad(), (0, 0)];
    let (groups, reverse) = (random.pick(1, 3), random.pick(0, 1) == 1);
    let spec = ConvSpec { pad: pads, groups, reverse, ..ConvSpec::default() };
    let (n, cg, og) = (random.pick(1, 3), random.pick(2, channels), random.pick(2, channels));
    let x = [n, cg * spec.groups, random.pick(7, 15), random.pick(7, 40)];
    let w = [og * spec.groups, cg, 3, 3];
    let y = [n, w[0], spec.output_size(0, x[2], 3), spec.output_size(1, x[3], 3)];
    let shape = Shape::new(&spec, &x, &w, &y);
    let layer = Layer::new(&shape).unwrap();
    let mut of = |sizes: &[usize; 4]| random.numbers(sizes.iter().product());
    let (xs, ws, gs) = (of(&x), of(&w), of(&y));
    let bias = random.numbers(w[0]);
    let (mut ys, mut gx, mut gw) = (vec![0.0; gs.len()], vec![0.0; xs.len()], vec![0.0; ws.len()]);
    for (image, o, c) in (0..n).flat_map(|n| (0..w[0]).flat_map(move |o| (0..cg).map(move |c| (n, o, c)))) {
        for (p, q, k) in (0..y[2]).flat_map(|p| (0..y[3]).flat_map(move |q| (0..9).map(move |k| (p, q, k)))) {
            let tap = if spec.reverse { 8 - k } else { k };
            let (a, b) = ((p + tap / 3) as i64 - spec.pad[0].0, (q + tap % 3) as i64 - spec.pad[1].0);
            if a >= 0 && b >= 0 && a < x[2] as i64 && b < x[3] as i64 {
                let xi = ((image * x[1] + o / og * cg + c) * x[2] + a as usize) * x[3] + b as usize;
                let (yi, wi) = (((image * w[0] + o) * y[2] + p) * y[3] + q, (o * cg + c) * 9 + k);
                ys[yi] += xs[xi] * ws[wi];
                gx[xi] += gs[yi] * ws[wi];
                gw[wi] += gs[yi] * xs[xi];
            }
        }
    }
    Case { shape, layer, x: xs, w: ws, g: gs, bias, y: ys, gx, gw }
}

fn to<A: Real>(x: &[f64]) -> Vec<A> {
    x.iter().map(|&v| A::of(v)).collect()
}

/// Compute the result and both gradients, over buffers with other numbers.
fn all<A: Transform>(c: &Case, bias: Option<&[A]>) -> [Vec<A>; 3] {
    let (x, w, g) = (to::<A>(&c.x), to::<A>(&c.w), to::<A>(&c.g));
    let mut out = [c.y.len(), c.x.len(), c.w.len()].map(|n| vec![A::of(77.0); n]);
    if c.layer.tiles() > 0 {
        forward(&c.layer, &x, &w, bias, &mut out[0]);
        weight_grad(&c.layer, &x, &g, &mut out[2]);
    }
    input_grad(&c.layer, &g, &w, &mut out[1]);
    out
}

#[test]
fn every_shape_equals_the_definition() {
    fn check<A: Transform>(c: &Case, tolerance: f64) {
        let plane = c.layer.result_plane();
        let with_bias: Vec<f64> = c.y.iter().enumerate().map(|(i, v)| v + c.bias[i / plane % c.bias.len()]).collect();
        let bias = to::<A>(&c.bias);
        for (bias, y) in [(None, &c.y), (Some(&bias[..]), &with_bias)] {
            let got = all::<A>(c, bias);
            for (what, (got, want)) in ["result", "gx", "gw"].iter().zip(got.iter().zip([y, &c.gx, &c.gw])) {
                for (i, (got, want)) in got.iter().zip(want).enumerate() {
                    let near = (got.to_f64() - want).abs() <= tolerance * (1.0 + want.abs());
                    assert!(near, "{what} {i} is {got:?}, not {want}, of {:?}", c.layer);
                }
            }
        }
    }
    let mut random = Random(11);
    for _ in 0..60 {
        let c = case(&mut random, 40);
        check::<f64>(&c, 1e-12);
        check::<f32>(&c, 2e-5);
    }
}

#[test]
fn errors_are_at_most_four_times_those_of_direct_sums() {
    let mut random = Random(12);
    // Sums of squared errors of Winograd's and of direct sums.
    let mut errors = [[0.0; 2]; 3];
    for _ in 0..40 {
        let c = case(&mut random, 64);
        assert!(!c.layer.is_profitable() && !c.layer.input_gradient().is_profitable(), "too large: {:?}", c.layer);
        let (x, w, g) = (to::<f32>(&c.x), to::<f32>(&c.w), to::<f32>(&c.g));
        let mut direct = [c.y.len(), c.x.len(), c.w.len()].map(|n| vec![0.0f32; n]);
        chosen_forward(&c.shape, &x, &w, None, &mut direct[0]);
        chosen_input_grad(&c.shape, &g, &w, &mut direct[1]);
        chosen_weight_grad(&c.shape, &x, &g, &mut direct[2]);
        let these = all::<f32>(&c, None);
        for (i, want) in [&c.y, &c.gx, &c.gw].into_iter().enumerate() {
            let size = want.iter().map(|v| v * v).sum::<f64>();
            for (error, got) in errors[i].iter_mut().zip([&these[i], &direct[i]]) {
                let sum: f64 = got.iter().zip(want).map(|(a, b)| (*a as f64 - b).powi(2)).sum();
                *error += if size > 0.0 { sum / size } else { 0.0 };
            }
        }
    }
    for ([these, direct], what) in errors.into_iter().zip(["result", "gx", "gw"]) {
        println!("{what}: {:.2e} against {:.2e}", (these / 40.0).sqrt(), (direct / 40.0).sqrt());
        assert!(these <= 4.0 * direct, "{what}: {these:e} against {direct:e}");
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut random = Random(13);
    for _ in 0..6 {
        let c = case(&mut random, 40);
        let before = num_threads();
        let of = |threads: usize| {
            set_num_threads(threads);
            all::<f32>(&c, None).map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
        };
        let one = of(1);
        let same = [2, 3, 5, 8].map(|threads| of(threads) == one);
        set_num_threads(before);
        assert_eq!(same, [true; 4], "{:?}", c.layer);
    }
}
