//! Neural-network kernels against naive references and finite differences, over types, strides and edge cases.

mod levels;

use torchtpu_kernels::attention::{Attention, attention, attention_backward};
use torchtpu_kernels::conv::{ConvSpec, conv, conv_input_grad, conv_weight_grad};
use torchtpu_kernels::embedding::{embedding_grad, index_select_rows};
use torchtpu_kernels::loss::{CrossEntropy, cross_entropy, cross_entropy_backward, nll_loss, nll_loss_backward};
use torchtpu_kernels::matmul::{addmm, matmul, matmul_scaled};
use torchtpu_kernels::norm::*;
use torchtpu_kernels::pool::*;
use torchtpu_kernels::softmax::{log_softmax, log_softmax_backward, softmax, softmax_backward};
use torchtpu_kernels::{Element, KernelError, View, ViewMut, bf16, f16};

/// An array in memory, with any strides.
#[derive(Clone)]
struct Array<E> {
    data: Vec<E>,
    sizes: Vec<usize>,
    strides: Vec<usize>,
}

/// The reference type.
type Nd = Array<f64>;

fn dense(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; sizes.len()];
    for d in (0..sizes.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * sizes[d + 1];
    }
    strides
}

impl<E: Element> Array<E> {
    fn of(data: Vec<E>, sizes: &[usize]) -> Self {
        assert_eq!(data.len(), sizes.iter().product::<usize>());
        Array { data, sizes: sizes.to_vec(), strides: dense(sizes) }
    }
    fn zeros(sizes: &[usize]) -> Self {
        Self::of(vec![E::from_f64(0.0); sizes.iter().product()], sizes)
    }
    /// Filled with values that show whether they were overwritten.
    fn garbage(sizes: &[usize]) -> Self {
        Self::of(vec![E::from_f64(77.0); sizes.iter().product()], sizes)
    }
    /// Dimensions stored in reverse order, with a gap between neighbours.
    fn strided(sizes: &[usize]) -> Self {
        let mut strides = vec![2; sizes.len()];
        for d in 1..sizes.len() {
            strides[d] = strides[d - 1] * sizes[d - 1].max(1);
        }
        let len = 2 * sizes.iter().product::<usize>().max(1);
        Array { data: vec![E::from_f64(77.0); len], sizes: sizes.to_vec(), strides }
    }
    fn numel(&self) -> usize {
        self.sizes.iter().product()
    }
    fn at(&self, mut i: usize) -> usize {
        let mut offset = 0;
        for (n, s) in self.sizes.iter().zip(&self.strides).rev() {
            offset += i % n * s;
            i /= n;
        }
        offset
    }
    fn cast<F: Element>(&self, strided: bool) -> Array<F> {
        let mut out = if strided { Array::<F>::strided(&self.sizes) } else { Array::<F>::zeros(&self.sizes) };
        for i in 0..self.numel() {
            let at = out.at(i);
            out.data[at] = F::from_f64(self.data[self.at(i)].to_f64());
        }
        out
    }
    fn nd(&self) -> Nd {
        self.cast(false)
    }
    fn view(&self) -> View<'_> {
        View::of_slice(&self.data, &self.sizes, &self.strides)
    }
    fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut::of_slice(&mut self.data, &self.sizes, &self.strides)
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    /// A number in -1..1.
    fn signed(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 30) as f64 - 1.0
    }
    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
    fn nd(&mut self, sizes: &[usize]) -> Nd {
        Nd::of((0..sizes.iter().product()).map(|_| self.signed()).collect(), sizes)
    }
}

#[track_caller]
fn assert_close(got: &Nd, want: &Nd, tolerance: f64, what: &str) {
    assert_eq!(got.sizes, want.sizes, "{what}");
    for i in 0..want.data.len() {
        let (g, w) = (got.data[i], want.data[i]);
        let same = (g.is_nan() && w.is_nan()) || g == w || (g - w).abs() <= tolerance * (1.0 + w.abs());
        assert!(same, "{what}: element {i} is {g}, not {w}");
    }
}

/// What rounding of inputs and outputs allows for a type.
fn tolerance<E: Element>() -> f64 {
    match E::DTYPE.name() {
        "float64" => 1e-10,
        "float32" => 2e-5,
        "float16" => 4e-3,
        _ => 3e-2,
    }
}

/// Runs a generic function for all floating-point types, contiguous and strided.
macro_rules! for_floats {
    ($f:ident) => {
        for strided in [false, true] {
            $f::<f32>(strided);
            $f::<f64>(strided);
            $f::<bf16>(strided);
            $f::<f16>(strided);
        }
    };
}

/// Compares `grad` with central differences of `f` at `x`.
#[track_caller]
fn assert_gradient(x: &Nd, grad: &Nd, f: impl Fn(&Nd) -> f64, what: &str) {
    let mut want = Nd::zeros(&x.sizes);
    for i in 0..x.data.len() {
        let (mut up, mut down) = (x.clone(), x.clone());
        up.data[i] += 1e-6;
        down.data[i] -= 1e-6;
        want.data[i] = (f(&up) - f(&down)) / 2e-6;
    }
    assert_close(grad, &want, 2e-6, what);
}

fn inner(a: &Nd, b: &Nd) -> f64 {
    a.data.iter().zip(&b.data).map(|(a, b)| a * b).sum()
}

// Matrix products.

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
    // More than a block of each dimension, and either one the longer; and a size at which numbers are taken apart.
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
fn matmul_larger_than_its_blocks() {
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

// Convolution.

/// Calls `f(output, input, weight)` for every product of a convolution, by its definition.
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
fn convolutions_of_usual_networks_equal_the_definition() {
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
fn convolution_with_zero_sizes() {
    check_conv::<f32>(&ConvSpec::default(), 0, 2, 2, &[5, 5], &[3, 3], false);
    check_conv::<f32>(&ConvSpec::default(), 2, 2, 2, &[2, 5], &[3, 3], false);
    check_conv::<f32>(&ConvSpec { pad: [(3, 3); 3], ..ConvSpec::default() }, 2, 2, 2, &[0, 5], &[3, 3], false);
}

// Pooling.

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

// Softmax.

fn naive_softmax(x: &Nd, dim: usize, log: bool) -> Nd {
    let (n, step) = (x.sizes[dim], x.strides[dim]);
    let mut out = x.clone();
    for i in 0..x.data.len() {
        if i / step % n == 0 {
            let row: Vec<f64> = (0..n).map(|j| x.data[i + j * step]).collect();
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
            for j in 0..n {
                let v = row[j] - max;
                out.data[i + j * step] = if log { v - sum.ln() } else { v.exp() / sum };
            }
        }
    }
    out
}

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
fn softmax_of_infinities_and_nan() {
    let inf = f32::INFINITY;
    // The other dimension: a row of minus infinity, one that starts with many, one with NaN, one with infinity.
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
    // softmax of (x, 0) for x <= 0 has e^x as the ratio of its two values.
    for i in 0..100_000 {
        let v = -(i as f32) * 8e-4;
        let (x, mut y) = (Array::of(vec![v, 0.0], &[1, 2]), Array::<f32>::zeros(&[1, 2]));
        softmax(&x.view(), 1, &mut y.view_mut());
        let want = (v as f64).exp() / (1.0 + (v as f64).exp());
        assert!((y.data[0] as f64 - want).abs() <= 4.0 * f32::EPSILON as f64 * want, "{v}: {} {want}", y.data[0]);
    }
}

// Normalisation.

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
fn layer_norm_and_its_gradients() {
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
    // The statistics were stored in f32.
    assert_close(&gx.nd(), &want, tolerance::<E>().max(2e-5), "layer norm gx");
    assert_close(&gw.nd(), &want_gw, tolerance::<E>().max(2e-5), "layer norm gw");
}

#[test]
fn layer_norm_of_all_types() {
    for_floats!(layer_norm_case);
}

#[test]
fn rms_norm_and_its_gradients() {
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
fn batch_norm_and_its_gradients() {
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
fn group_norm_and_its_gradients() {
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

// Losses.

#[test]
fn cross_entropy_and_its_gradient() {
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

// Attention.

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
fn attention_and_its_gradients() {
    let mut random = Random(16);
    let (b, h, l, s, e, ev) = (2, 2, 70, 75, 4, 3);
    let (q, k, v) = (random.nd(&[b, h, l, e]), random.nd(&[b, h, s, e]), random.nd(&[b, h, s, ev]));
    let g = random.nd(&[b, h, l, ev]);
    let seen = Array::of((0..l * s).map(|_| random.below(3) > 0).collect::<Vec<_>>(), &[l, s]);
    let mut seen = seen;
    seen.data[5 * s..6 * s].fill(false); // Row 5 sees nothing.
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
        // Directional derivatives: one number a gradient, along a random direction.
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
        // The same with heads behind one another in each row.
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

// Embedding.

#[test]
fn rows_are_gathered_and_their_gradients_added() {
    let mut random = Random(17);
    let w = random.nd(&[10, 2, 3]);
    let idx = Array::of(vec![3i64, 9, 3, 0, 3, 1], &[2, 3]);
    for strided in [false, true] {
        let table = w.cast::<f32>(strided);
        let mut out = Array::<f32>::garbage(&[2, 3, 2, 3]).cast::<f32>(strided);
        index_select_rows(&table.view(), &idx.cast::<i32>(strided).view(), &mut out.view_mut()).unwrap();
        let got = out.nd();
        for (i, &v) in idx.data.iter().enumerate() {
            assert_close(
                &Nd::of(got.data[i * 6..][..6].to_vec(), &[6]),
                &Nd::of(w.data[v as usize * 6..][..6].to_vec(), &[6]),
                1e-6,
                "row",
            );
        }
    }
    let g = random.nd(&[2, 3, 2, 3]);
    for padding in [None, Some(3)] {
        let mut want = Nd::zeros(&[10, 2, 3]);
        for (i, &v) in idx.data.iter().enumerate() {
            if padding != Some(v as usize) {
                for j in 0..6 {
                    want.data[v as usize * 6 + j] += g.data[i * 6 + j];
                }
            }
        }
        let mut out = Array::<bf16>::garbage(&[10, 2, 3]);
        embedding_grad(&g.cast::<bf16>(false).view(), &idx.view(), padding, &mut out.view_mut()).unwrap();
        assert_close(&out.nd(), &want, 2e-2, "table gradient");
    }
    for bad in [10, -1] {
        let idx = Array::of(vec![0i64, bad], &[2]);
        let mut out = Nd::zeros(&[2, 2, 3]);
        let error = index_select_rows(&w.view(), &idx.view(), &mut out.view_mut()).unwrap_err();
        assert_eq!(error, KernelError::IndexOutOfRange("index out of range in self".into()));
        assert!(
            embedding_grad(&out.clone().view(), &idx.view(), None, &mut Nd::zeros(&[10, 2, 3]).view_mut()).is_err()
        );
    }
    let empty = Array::<i64>::zeros(&[0]);
    index_select_rows(&w.view(), &empty.view(), &mut Nd::zeros(&[0, 2, 3]).view_mut()).unwrap();
}
