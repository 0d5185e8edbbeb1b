//! What the engine itself costs: recording an op, launching a segment that is cached, a small training step in both
//! modes.
//!
//! `cargo bench -p torchtpu-lazy`. Each figure is the least of many runs, since other work on the machine only adds.

use std::time::Instant;
use torchtpu_lazy::{self as lazy, EagerMode};
use torchtpu_tensor::backend::{self, Operand};
use torchtpu_tensor::{DType, Device, Meta, Tensor};

fn least(runs: usize, mut f: impl FnMut() -> f64) -> f64 {
    (0..runs).map(|_| f()).fold(f64::INFINITY, f64::min)
}

fn nanos(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}

fn main() {
    lazy::install();
    println!("{}", lazy::device_name().expect("this bench needs a plugin"));
    for n in [50, 1000] {
        record_and_launch(n);
    }
    for (batch, width) in [(32, 64), (128, 512)] {
        training_step(batch, width);
    }
}

/// A chain of pointwise ops: the trace entry alone, and the whole call with the tensor around it.
fn record_and_launch(n: usize) {
    let be = backend::get().expect("installed");
    let a = Tensor::ones(&[4], DType::F32, Device::CPU).and_then(|t| t.to_device(Device::TPU)).expect("an upload");
    let op = {
        // The node of an addition, as the table spells it.
        use torchtpu_tensor::ops::pointwise::{Binary, BinaryKind};
        torchtpu_tensor::op::Prim::Binary(Binary(BinaryKind::Add))
    };
    let meta = Meta::new(&[4], DType::F32, Device::TPU);
    let first = a.device_value().expect("a tpu tensor");
    let mut launch = f64::INFINITY;
    let entry = least(300, || {
        let start = Instant::now();
        be.retain(first);
        let mut h = first;
        for _ in 0..n {
            let x = [Operand::Value(h), Operand::Value(first)];
            let mut y = [0];
            be.record(&op, &x, std::slice::from_ref(&meta), &mut y).expect("recording");
            let [y] = y;
            be.release(h);
            h = y;
        }
        let recorded = nanos(start) / n as f64;
        let start = Instant::now();
        lazy::mark_step();
        launch = launch.min(nanos(start));
        lazy::synchronize().expect("execution");
        be.release(h);
        recorded
    });
    let call = least(300, || {
        let start = Instant::now();
        let mut y = a.clone();
        for _ in 0..n {
            y = y.add(&a).expect("recording");
        }
        let recorded = nanos(start) / n as f64;
        lazy::synchronize().expect("execution");
        recorded
    });
    println!("{n} ops: record {entry:.0} ns/op, with the tensor {call:.0} ns/op; cached launch {:.1} us", launch / 1e3);
}

/// Two layers, tanh, mean squared error, gradients by hand, gradient descent.
fn training_step(batch: usize, width: usize) {
    let data = |rows: usize, cols: usize| {
        let v: Vec<f32> = (0..rows * cols).map(|i| ((i * 7919 % 101) as f32 - 50.0) / 400.0).collect();
        Tensor::from_slice_on(&v, &[rows, cols], Device::TPU).expect("an upload")
    };
    let (x, y) = (data(batch, width), data(batch, 1));
    let mut times = [0.0; 2];
    for (mode, time) in [EagerMode::Strict, EagerMode::Fused].into_iter().zip(&mut times) {
        lazy::set_eager_mode(mode);
        let (mut w1, mut w2) = (data(width, width), data(width, 1));
        let mut step = || -> torchtpu_tensor::Result<()> {
            let h = x.matmul(&w1)?.tanh()?;
            let d = h.matmul(&w2)?.sub(&y)?.mul_scalar(2.0 / batch as f64)?;
            let g2 = h.t()?.matmul(&d)?;
            let dh = d.matmul(&w2.t()?)?.mul(&h.mul(&h)?.mul_scalar(-1.0)?.add_scalar(1.0)?)?;
            let g1 = x.t()?.matmul(&dh)?;
            w1 = w1.sub(&g1.mul_scalar(0.1)?)?;
            w2 = w2.sub(&g2.mul_scalar(0.1)?)?;
            lazy::step_boundary();
            Ok(())
        };
        for _ in 0..5 {
            step().expect("a step");
        }
        lazy::synchronize().expect("execution");
        *time = least(20, || {
            let start = Instant::now();
            for _ in 0..10 {
                step().expect("a step");
            }
            lazy::synchronize().expect("execution");
            nanos(start) / 10.0
        });
    }
    let [strict, fused] = times.map(|t| t / 1e3);
    println!(
        "step of an MLP, batch {batch}, width {width}: strict {strict:.0} us, fused {fused:.0} us ({:.2} times)",
        strict / fused
    );
}
