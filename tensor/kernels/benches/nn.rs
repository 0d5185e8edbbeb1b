//! Benchmarks of the kernels that dominate training, at the sizes that performance targets are stated for.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use torchtpu_kernels::conv::{ConvSpec, conv, conv_input_grad, conv_weight_grad};
use torchtpu_kernels::{Element, View, ViewMut, attention, bf16, loss, matmul, norm, pool, softmax};

/// A contiguous array that owns its memory.
struct Array<T> {
    data: Vec<T>,
    sizes: Vec<usize>,
    strides: Vec<usize>,
}

impl<T: Element> Array<T> {
    fn new(sizes: &[usize]) -> Array<T> {
        let mut seed = 0x2545_f491_4f6c_dd1du64;
        let data = (0..sizes.iter().product::<usize>())
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                T::from_f64((seed >> 40) as f64 / (1u64 << 23) as f64 - 1.0)
            })
            .collect();
        let mut strides = vec![1; sizes.len()];
        for d in (0..sizes.len().saturating_sub(1)).rev() {
            strides[d] = strides[d + 1] * sizes[d + 1];
        }
        Array { data, sizes: sizes.to_vec(), strides }
    }
    fn view(&self) -> View<'_> {
        View::of_slice(&self.data, &self.sizes, &self.strides)
    }
    fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut::of_slice(&mut self.data, &self.sizes, &self.strides)
    }
}

fn matmuls(c: &mut Criterion) {
    for n in [8, 64, 256, 2048] {
        let (a, b, mut o) = (Array::<f32>::new(&[n, n]), Array::<f32>::new(&[n, n]), Array::<f32>::new(&[n, n]));
        c.bench_function(&format!("matmul_f32_{n}"), |t| {
            t.iter(|| matmul::matmul(&black_box(a.view()), &b.view(), &mut o.view_mut()).unwrap())
        });
    }
    let (a, b, mut o) =
        (Array::<f32>::new(&[1, 2048]), Array::<f32>::new(&[2048, 2048]), Array::<f32>::new(&[1, 2048]));
    c.bench_function("matvec_f32_2048", |t| {
        t.iter(|| matmul::matmul(&black_box(a.view()), &b.view(), &mut o.view_mut()).unwrap())
    });
    for n in [256, 2048] {
        let (a, b, mut o) = (Array::<bf16>::new(&[n, n]), Array::<bf16>::new(&[n, n]), Array::<bf16>::new(&[n, n]));
        c.bench_function(&format!("matmul_bf16_{n}"), |t| {
            t.iter(|| matmul::matmul(&black_box(a.view()), &b.view(), &mut o.view_mut()).unwrap())
        });
    }
}

fn convolutions(c: &mut Criterion) {
    let x = Array::<f32>::new(&[8, 64, 56, 56]);
    for (name, kernel, pad, groups) in [("3x3", 3, 1, 1), ("1x1", 1, 0, 1), ("depthwise_3x3", 3, 1, 64)] {
        let mut w = Array::<f32>::new(&[64, 64 / groups, kernel, kernel]);
        let (mut y, mut gx) = (Array::<f32>::new(&[8, 64, 56, 56]), Array::<f32>::new(&[8, 64, 56, 56]));
        let spec = ConvSpec { pad: [(pad, pad); 3], groups, ..ConvSpec::default() };
        c.bench_function(&format!("conv_{name}_forward"), |t| {
            t.iter(|| conv(&black_box(x.view()), &w.view(), None, &spec, &mut y.view_mut()))
        });
        c.bench_function(&format!("conv_{name}_input_grad"), |t| {
            t.iter(|| conv_input_grad(&black_box(y.view()), &w.view(), &spec, &mut gx.view_mut()))
        });
        c.bench_function(&format!("conv_{name}_weight_grad"), |t| {
            t.iter(|| conv_weight_grad(&black_box(x.view()), &y.view(), &spec, &mut w.view_mut()))
        });
    }
    let (mut out, mut at) = (Array::<f32>::new(&[8, 64, 28, 28]), Array::<i64>::new(&[8, 64, 28, 28]));
    let spec = pool::PoolSpec { spatial: 2, kernel: [2; 3], stride: [2; 3], pad: [0; 3], dilation: [1; 3] };
    c.bench_function("max_pool_2x2", |t| {
        t.iter(|| pool::max_pool(&black_box(x.view()), &spec, &mut out.view_mut(), &mut at.view_mut()))
    });
    c.bench_function("avg_pool_2x2", |t| {
        t.iter(|| pool::avg_pool(&black_box(x.view()), &spec, true, None, &mut out.view_mut()))
    });
}

fn rows(c: &mut Criterion) {
    let n = 4096;
    let (x, g, mut y) = (Array::<f32>::new(&[n, n]), Array::<f32>::new(&[n, n]), Array::<f32>::new(&[n, n]));
    c.bench_function("softmax_4096", |t| t.iter(|| softmax::softmax(&black_box(x.view()), 1, &mut y.view_mut())));
    c.bench_function("softmax_4096_dim0", |t| t.iter(|| softmax::softmax(&black_box(x.view()), 0, &mut y.view_mut())));
    let (w, b) = (Array::<f32>::new(&[n]), Array::<f32>::new(&[n]));
    let (mut mean, mut rstd, mut gw, mut gb) =
        (Array::<f32>::new(&[n]), Array::<f32>::new(&[n]), Array::<f32>::new(&[n]), Array::<f32>::new(&[n]));
    c.bench_function("layer_norm_4096", |t| {
        t.iter(|| {
            let (w, b) = (w.view(), b.view());
            let (mut mean, mut rstd) = (mean.view_mut(), rstd.view_mut());
            norm::layer_norm(&black_box(x.view()), n, Some(&w), Some(&b), 1e-5, &mut y.view_mut(), &mut mean, &mut rstd)
        })
    });
    c.bench_function("layer_norm_backward_4096", |t| {
        t.iter(|| {
            let (gx, gw, gb) = (&mut y.view_mut(), &mut gw.view_mut(), &mut gb.view_mut());
            let (x, g, w) = (black_box(x.view()), g.view(), w.view());
            norm::layer_norm_backward(&g, &x, n, &mean.view(), &rstd.view(), Some(&w), Some(gx), Some(gw), Some(gb))
        })
    });
    let target = Array { data: (0..n as i64).collect(), sizes: vec![n], strides: vec![1] };
    let (mut l, mut lse) = (Array::<f32>::new(&[n]), Array::<f32>::new(&[n]));
    let spec = loss::CrossEntropy::default();
    c.bench_function("cross_entropy_4096", |t| {
        t.iter(|| {
            let (x, target) = (black_box(x.view()), target.view());
            loss::cross_entropy(&x, &target, &spec, &mut l.view_mut(), &mut lse.view_mut()).unwrap()
        })
    });
    let data = Array::<f32>::new(&[32, 64, 56, 56]);
    let mut out = Array::<f32>::new(&[32, 64, 56, 56]);
    let [mut mean, mut invstd, mut var] = [0; 3].map(|_| Array::<f32>::new(&[64]));
    c.bench_function("batch_norm_train_32x64x56x56", |t| {
        t.iter(|| {
            let (m, i, v) = (&mut mean.view_mut(), &mut invstd.view_mut(), &mut var.view_mut());
            norm::batch_norm_train(&black_box(data.view()), None, None, 1e-5, &mut out.view_mut(), m, i, v)
        })
    });
}

fn attentions(c: &mut Criterion) {
    let sizes = [4, 8, 512, 64];
    let [q, k, v, g] = [0; 4].map(|_| Array::<f32>::new(&sizes));
    let [mut o, mut gq, mut gk, mut gv] = [0; 4].map(|_| Array::<f32>::new(&sizes));
    let mut lse = Array::<f32>::new(&sizes[..3]);
    let spec = attention::Attention { scale: 0.125, is_causal: true, rows_first: false, mask: None };
    c.bench_function("attention_causal_4x8x512x64", |t| {
        t.iter(|| {
            let (q, k, v) = (black_box(q.view()), k.view(), v.view());
            attention::attention(&q, &k, &v, &spec, &mut o.view_mut(), &mut lse.view_mut())
        })
    });
    c.bench_function("attention_causal_backward_4x8x512x64", |t| {
        t.iter(|| {
            let (q, k, v) = (black_box(q.view()), k.view(), v.view());
            let (gq, gk, gv) = (&mut gq.view_mut(), &mut gk.view_mut(), &mut gv.view_mut());
            attention::attention_backward(&g.view(), &q, &k, &v, &lse.view(), &spec, gq, gk, gv)
        })
    });
}

criterion_group! {
    name = nn;
    config = Criterion::default().sample_size(10).without_plots()
        .warm_up_time(std::time::Duration::from_millis(200)).measurement_time(std::time::Duration::from_millis(600));
    targets = matmuls, convolutions, rows, attentions
}
criterion_main!(nn);
