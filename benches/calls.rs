//! What a call costs: small tensors, so that dispatch, recording and freeing are all there is.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use torchtpu::Tensor;

fn sixteen() -> Tensor {
    let v: Vec<f32> = (0..16).map(|i| i as f32).collect();
    Tensor::from_slice(&v, &[16]).expect("16 numbers")
}

fn calls(c: &mut Criterion) {
    let (x, y) = (sixteen(), sixteen());
    c.bench_function("add", |b| b.iter(|| black_box(&x) + black_box(&y)));
    c.bench_function("add a number", |b| b.iter(|| black_box(&x) + 1.0));
    c.bench_function("empty", |b| b.iter(|| Tensor::empty(black_box(x.meta()))));
    c.bench_function("transpose", |b| b.iter(|| black_box(&x).view_as_sizes(&[4, 4])));
    let w = sixteen();
    w.requires_grad_(true).expect("a leaf");
    c.bench_function("add with grad", |b| b.iter(|| black_box(&w) + black_box(&y)));
    c.bench_function("mul with grad", |b| b.iter(|| black_box(&w) * black_box(&y)));
}

fn backward(c: &mut Criterion) {
    let y = sixteen();
    let w = sixteen();
    w.requires_grad_(true).expect("a leaf");
    let chain = || {
        let mut z = w.clone();
        for _ in 0..1000 {
            z = &z + &y;
        }
        z.sum().expect("a sum")
    };
    c.bench_function("forward of a chain of 1000", |b| b.iter(&chain));
    c.bench_function("backward of a chain of 1000", |b| {
        b.iter_batched(
            &chain,
            |z| torchtpu::autograd::backward(&[z], &[], None, false, None).expect("backward"),
            criterion::BatchSize::SmallInput,
        );
    });
}

fn record(c: &mut Criterion) {
    let tpu = torchtpu::device("tpu").expect("a device");
    let (x, y) = (sixteen().to_device(tpu).expect("uploaded"), sixteen().to_device(tpu).expect("uploaded"));
    torchtpu::lazy::set_max_segment_ops(1500);
    c.bench_function("record an add", |b| b.iter(|| black_box(&x) + black_box(&y)));
}

fn large(c: &mut Criterion) {
    let mut g = c.benchmark_group("large");
    g.sample_size(10);
    let m = |n: usize| {
        let v: Vec<f32> = (0..n * n).map(|i| ((i * 7919) % 1000) as f32 / 500.0 - 1.0).collect();
        Tensor::from_slice(&v, &[n, n]).expect("a matrix")
    };
    let (a, b) = (m(2048), m(2048));
    g.bench_function("matmul 2048 f32", |z| z.iter(|| a.matmul(&b)));
    let x = m(4096);
    g.bench_function("softmax 4096", |z| z.iter(|| x.softmax(-1)));
    g.bench_function("layer_norm 4096", |z| z.iter(|| torchtpu::ops::norm::layer_norm(&x, &[4096], None, None, 1e-5)));
    g.bench_function("add 4096", |z| z.iter(|| x.add(&x)));
    g.finish();
}

criterion_group!(benches, calls, backward, record, large);
criterion_main!(benches);
