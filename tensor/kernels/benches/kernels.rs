//! Benchmarks of the cost of a small call, and of large calls against memory bandwidth.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use torchtpu_kernels::copy::*;
use torchtpu_kernels::pointwise::*;
use torchtpu_kernels::reduce::*;
use torchtpu_kernels::*;

fn small(c: &mut Criterion) {
    let (a, b, mut y) = ([1f32; 16], [2f32; 16], [0f32; 16]);
    let (s, t, zero) = ([16], [1], [0]);
    c.bench_function("add/16", |bench| {
        bench.iter(|| {
            let (x, z) = (View::of_slice(&a, &s, &t), View::of_slice(&b, &s, &t));
            binary(black_box(BinaryKind::Add), &x, &z, &mut ViewMut::of_slice(&mut y, &s, &t))
        })
    });
    c.bench_function("add/16 scalar", |bench| {
        bench.iter(|| {
            let (x, z) = (View::of_slice(&a, &s, &t), View::of_slice(&b, &s, &zero));
            binary(black_box(BinaryKind::Add), &x, &z, &mut ViewMut::of_slice(&mut y, &s, &t))
        })
    });
    c.bench_function("allocate and free/64 B", |bench| {
        bench.iter(|| {
            let p = memory::allocate(black_box(64)).unwrap();
            // SAFETY: the block was just allocated with the same size.
            unsafe { memory::free(p, 64) }
        })
    });
}

fn large(c: &mut Criterion) {
    let n = 16 << 20;
    let (a, b, mut y) = (vec![0.5f32; n], vec![0.25f32; n], vec![1f32; n]);
    let (s, t, zero) = ([n], [1], [0]);
    let (square, rows, cols) = ([4096, 4096], [4096, 1], [1, 4096]);
    let mut group = c.benchmark_group("16 Mi f32");
    group.sample_size(10);
    let (va, vb, one) = (View::of_slice(&a, &s, &t), View::of_slice(&b, &s, &t), View::of_slice(&b, &s, &zero));
    group.bench_function("add", |z| {
        z.iter(|| binary(BinaryKind::Add, &va, &vb, &mut ViewMut::of_slice(&mut y, &s, &t)))
    });
    group.bench_function("add scalar", |z| {
        z.iter(|| binary(BinaryKind::Add, &va, &one, &mut ViewMut::of_slice(&mut y, &s, &t)))
    });
    for kind in [UnaryKind::Exp, UnaryKind::Log, UnaryKind::Tanh, UnaryKind::Erf, UnaryKind::Sin] {
        group.bench_function(kind.name(), |z| z.iter(|| unary(kind, &va, &mut ViewMut::of_slice(&mut y, &s, &t))));
    }
    group.bench_function("gelu", |z| z.iter(|| gelu(&va, false, &mut ViewMut::of_slice(&mut y, &s, &t))));
    let turned = View::of_slice(&a, &square, &cols);
    group.bench_function("copy transposed", |z| {
        z.iter(|| copy(&turned, &mut ViewMut::of_slice(&mut y, &square, &rows)))
    });
    let matrix = View::of_slice(&a, &square, &rows);
    let mut out = vec![0f32; 4096];
    for (name, mask) in [("sum dim 0", [true, false]), ("sum dim 1", [false, true])] {
        group.bench_function(name, |z| {
            z.iter(|| reduce(ReduceKind::Sum, &matrix, &mask, &mut ViewMut::of_slice(&mut out, &[4096], &[1])))
        });
    }
    group.bench_function("sum all", |z| {
        z.iter(|| reduce(ReduceKind::Sum, &matrix, &[true, true], &mut ViewMut::of_slice(&mut out, &[], &[])))
    });
    group.finish();
}

criterion_group!(benches, small, large);
criterion_main!(benches);
