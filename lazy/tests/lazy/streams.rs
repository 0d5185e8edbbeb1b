//! Tests of long streams, loops and threads, and of the growth of memory and caches.

use crate::{cuts, tpu, turn, values};
use std::collections::VecDeque;
use torchtpu_lazy::{self as lazy, CutReason};
use torchtpu_tensor::{DType, Device, ErrorKind, Tensor};

#[test]
fn ten_thousand_steps_do_not_grow_memory() {
    let _turn = turn();
    let mut w = tpu(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let x = tpu(&[0.5, 0.25, 0.125, 0.0], &[2, 2]);
    let step = |w: &Tensor, i: i32| {
        let g = w.sub(&x).unwrap().mul_scalar(1e-3 + f64::from(i) * 1e-9).unwrap();
        let new = w.sub(&g).unwrap();
        lazy::step_boundary();
        new
    };
    for i in 0..10 {
        w = step(&w, i);
    }
    lazy::synchronize().unwrap();
    let before = lazy::metrics();
    for i in 10..10_000 {
        w = step(&w, i);
    }
    lazy::synchronize().unwrap();
    let after = lazy::metrics();
    assert_eq!(after.compilations, before.compilations);
    assert_eq!(after.cached_executables, before.cached_executables);
    assert_eq!((after.live_values, after.live_bytes), (before.live_values, before.live_bytes));
    assert!(after.peak_bytes <= 16 * before.live_bytes, "{after:?}");
    assert_eq!(after.segments_executed, 10_000);
    let w = values(&w);
    assert!((w[3] - 4.0 * (-10.05f32).exp()).abs() < 1e-3 && (w[0] - 0.5).abs() < 1e-3, "{w:?}");
}

#[test]
fn a_chain_of_a_hundred_thousand_pending_ops_does_not_overflow_the_stack() {
    let _turn = turn();
    let one = tpu(&[1.0], &[1]);
    let mut y = one.clone();
    for _ in 0..100_000 {
        y = y.add(&one).unwrap();
    }
    assert_eq!(values(&y), [100_001.0]);
    let m = lazy::metrics();
    assert!(cuts(CutReason::Size) >= 1 && m.compilations < 10, "{m:?}");
    assert_eq!(m.nodes_executed, 100_000);
}

#[test]
fn a_loop_without_boundaries_is_found() {
    let _turn = turn();
    let w = tpu(&[0.5, -0.25, 0.125, 0.5], &[2, 2]);
    let mut h = tpu(&[1.0, 2.0], &[1, 2]);
    let step = |h: &Tensor| h.matmul(&w).unwrap().tanh().unwrap().add_scalar(0.1).unwrap().mul(h).unwrap();
    for _ in 0..1000 {
        h = step(&h);
    }
    let before = lazy::metrics();
    assert!(before.compilations <= 6, "{before:?}");
    for _ in 0..5000 {
        h = step(&h);
    }
    assert_eq!(lazy::metrics().compilations, before.compilations, "{:?}", lazy::metrics());
    assert!(cuts(CutReason::RepeatFound) > 50);
    assert!(values(&h).iter().all(|v| v.is_finite()));
}

#[test]
fn a_loop_longer_than_a_segment_is_found() {
    let _turn = turn();
    lazy::set_max_segment_ops(300);
    let x = tpu(&[1.0, 2.0], &[2]);
    let mut h = x.clone();
    let mut step = |n: usize| {
        for _ in 0..n {
            for i in 0..500 {
                h = match i % 7 * (i % 11) % 4 {
                    0 => h.add(&x).unwrap(),
                    1 => h.sub(&x).unwrap(),
                    2 => h.mul_scalar(0.5).unwrap(),
                    _ => h.maximum(&x).unwrap(),
                };
            }
        }
    };
    step(10);
    let before = lazy::metrics().compilations;
    step(40);
    assert_eq!(lazy::metrics().compilations, before);
    assert!(before < 10, "{before}");
    assert!(values(&h).iter().all(|v| v.is_finite()));
}

#[test]
fn threads_record_at_the_same_time() {
    let _turn = turn();
    let threads: Vec<_> = (0..4)
        .map(|t| {
            std::thread::spawn(move || {
                let x = tpu(&[t as f32, 1.0], &[2]);
                let mut sum = tpu(&[0.0, 0.0], &[2]);
                for i in 0..300 {
                    sum = sum.add(&x.mul_scalar(f64::from(i % 3)).unwrap()).unwrap();
                    if i % 50 == 49 {
                        values(&sum);
                    }
                }
                values(&sum)
            })
        })
        .collect();
    for (t, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), [300.0 * t as f32, 300.0]);
    }
    assert!(lazy::metrics().compilations <= 4 * 6, "threads disturbed each other's segments: {:?}", lazy::metrics());
}

#[test]
fn a_value_can_move_to_another_thread() {
    let _turn = turn();
    let x = tpu(&[1.0, 2.0], &[2]);
    let pending = x.add(&x).unwrap();
    let other = {
        let pending = pending.clone();
        std::thread::spawn(move || values(&pending.mul_scalar(3.0).unwrap()))
    };
    assert_eq!(other.join().unwrap(), [6.0, 12.0]);
    assert_eq!(cuts(CutReason::OtherThread), 1);
    assert_eq!(values(&pending.sub(&x).unwrap()), [1.0, 2.0]);
}

#[test]
fn a_parameter_is_updated_in_its_own_memory() {
    let _turn = turn();
    let w = tpu(&[1.0; 1000], &[1000]);
    for _ in 0..100 {
        w.mul_(&tpu(&[0.5], &[1])).unwrap();
        w.add_(&tpu(&[0.5], &[1])).unwrap();
        lazy::step_boundary();
    }
    assert_eq!(values(&w), [1.0; 1000]);
    assert!(lazy::metrics().donations >= 99, "{:?}", lazy::metrics());
    assert!(lazy::metrics().compilations <= 2);
}

#[test]
fn another_thread_may_synchronize_at_any_time() {
    let _turn = turn();
    let done = std::sync::atomic::AtomicBool::new(false);
    let (w, x) = (tpu(&[0.0; 64], &[64]), tpu(&[1.0; 64], &[64]));
    std::thread::scope(|s| {
        s.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                lazy::synchronize().unwrap();
            }
        });
        for _ in 0..500 {
            let y = w.mul(&x).unwrap();
            w.add_(&x).unwrap();
            w.add_(&y.sub(&w).unwrap().add(&x).unwrap()).unwrap();
            lazy::step_boundary();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(values(&w), [500.0; 64]);
}

/// A training step with a learning-rate schedule, a loss that is read in some steps, and an evaluation in some steps.
fn irregular_step(w: &Tensor, i: usize) {
    // Two batch sizes alternate.
    let n = if i.is_multiple_of(2) { 4 } else { 3 };
    let x = tpu(&vec![0.5; n * 2], &[n, 2]);
    let loss = x.matmul(w).unwrap().square().unwrap().mean().unwrap();
    let g = x.transpose(0, 1).unwrap().matmul(&x.matmul(w).unwrap()).unwrap();
    let lr = 1e-3 / (1.0 + i as f64);
    w.sub_(&g.mul_scalar(lr).unwrap()).unwrap();
    lazy::step_boundary();
    if i.is_multiple_of(3) {
        assert!(loss.item_f64().unwrap().is_finite());
    }
    if i.is_multiple_of(5) {
        let y = tpu(&[1.0; 20], &[10, 2]).matmul(w).unwrap().tanh().unwrap();
        assert!(y.sum().unwrap().item_f64().unwrap().is_finite());
    }
}

#[test]
fn irregular_loops_compile_each_variant_once() {
    let _turn = turn();
    let w = tpu(&[0.5, -0.25, 0.125, 0.5], &[2, 2]);
    (0..30).for_each(|i| irregular_step(&w, i));
    let before = lazy::metrics();
    assert!(before.compilations <= 10, "{:#?}", lazy::explain());
    (30..120).for_each(|i| irregular_step(&w, i));
    assert_eq!(lazy::metrics().compilations, before.compilations, "{:#?}", lazy::explain());
}

#[test]
fn a_growing_sequence_compiles_each_length_once_and_says_why() {
    let _turn = turn();
    let w = tpu(&[0.5, -0.25, 0.125, 0.5], &[2, 2]);
    let grow = || {
        let mut s = tpu(&[1.0, 2.0], &[1, 2]);
        for _ in 0..8 {
            let n = s.dims()[0] as i64;
            let next = s.matmul(&w).unwrap().narrow(0, n - 1, 1).unwrap();
            s = torchtpu_tensor::ops::concat::cat(&[&s, &next], 0).unwrap();
            lazy::mark_step();
        }
        values(&s)
    };
    let first = grow();
    let before = lazy::metrics().compilations;
    assert!(before <= 8);
    assert_eq!(grow(), first);
    assert_eq!(lazy::metrics().compilations, before);
    let why = lazy::explain().last().expect("something was compiled").to_string();
    assert!(why.contains("argument 0: dimension 0 is 8 instead of 7"), "{why}");
}

#[test]
fn segments_inside_of_a_step_are_compiled_in_the_background() {
    let _turn = turn();
    lazy::set_max_segment_ops(40);
    let run = |device| {
        let w = Tensor::from_slice_on(&[1.0f32, -0.5, 0.25, 2.0], &[4], device).unwrap();
        let one = Tensor::from_slice_on(&[1.0f32; 4], &[4], device).unwrap();
        for _ in 0..3 {
            for i in 0..300usize {
                // No two segments are alike, and each overwrites a value that the one before it read.
                match i * i % 7 {
                    0 => w.add_(&one).unwrap(),
                    1 => w.mul_(&w.tanh().unwrap()).unwrap(),
                    2 => w.sub_(&w.mul_scalar(0.125).unwrap()).unwrap(),
                    _ => w.add_(&one.sub(&w).unwrap().mul_scalar(0.5).unwrap()).unwrap(),
                };
            }
        }
        values(&w)
    };
    let found = run(Device::TPU);
    let m = lazy::metrics();
    assert!(m.compilations >= 5 && m.donations > 0, "{m:?}");
    for (a, b) in found.iter().zip(run(Device::CPU)) {
        assert!((a - b).abs() < 1e-4, "{a} instead of {b}");
    }
}

#[test]
fn a_failure_in_the_background_reaches_the_reader() {
    let _turn = turn();
    lazy::set_max_segment_ops(2);
    let huge = Tensor::ones(&[1 << 42], DType::F32, Device::TPU).unwrap();
    let part = huge.narrow(0, 0, 1).unwrap().add_scalar(1.0).unwrap();
    let rest = part.add_scalar(1.0).unwrap().add_scalar(1.0).unwrap();
    drop(part);
    assert_eq!(rest.to_vec::<f32>().unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(values(&tpu(&[1.0], &[1]).add_scalar(1.0).unwrap()), [2.0]);
}

#[test]
fn a_segment_is_cut_early_at_the_same_op_each_time() {
    let _turn = turn();
    lazy::set_early_ops(20);
    let x = tpu(&[0.5, 0.25], &[2]);
    let step = || {
        let mut y = x.clone();
        for i in 0..60 {
            y = if i % 7 == 0 { y.tanh().unwrap() } else { y.add(&x).unwrap() };
        }
        values(&y)
    };
    let first = step();
    assert_eq!(cuts(CutReason::Idle), 0, "the first pass only learns how long the segment is");
    (0..5).for_each(|_| assert_eq!(step(), first));
    let before = lazy::metrics();
    assert!(cuts(CutReason::Idle) >= 1, "{before:?}");
    (0..20).for_each(|_| assert_eq!(step(), first));
    lazy::set_early_ops(usize::MAX);
    assert_eq!(lazy::metrics().compilations, before.compilations);
    assert!(cuts(CutReason::Idle) >= 21);
}

#[test]
fn on_xla_cpu_many_large_values_end_a_segment() {
    let _turn = turn();
    if !lazy::device_name().unwrap().contains("XLA:CPU") {
        return;
    }
    let cuts_with = |megabytes: usize, held: usize, ops: usize| {
        let n = megabytes << 18;
        let x = tpu(&vec![1.0; n], &[n]);
        lazy::synchronize().unwrap();
        lazy::reset_metrics();
        let mut kept: VecDeque<Tensor> = VecDeque::from([x.clone()]);
        for _ in 0..ops {
            let last = kept.back().unwrap().add(&x).unwrap();
            kept.push_back(last);
            if kept.len() > held {
                kept.pop_front();
            }
        }
        assert_eq!(values(kept.back().unwrap())[0], ops as f32 + 1.0);
        cuts(CutReason::Memory)
    };
    // Eight values, including the newest, take 96 MB, but the limit is on more than eight.
    assert_eq!(cuts_with(12, 7, 20), 0);
    assert_eq!(cuts_with(12, 40, 20), 2);
    // Smaller values may take 32 MB.
    assert_eq!(cuts_with(1, 31, 50), 0);
    assert_eq!(cuts_with(1, 50, 50), 1);
}

#[test]
fn pending_bytes_are_bounded() {
    let _turn = turn();
    lazy::set_max_pending_bytes(1 << 20);
    let x = tpu(&[1.0; 1 << 14], &[1 << 14]);
    let kept: Vec<Tensor> = (0..100).map(|i| x.mul_scalar(f64::from(i)).unwrap()).collect();
    assert!(cuts(CutReason::Memory) >= 5, "{:?}", lazy::metrics());
    assert_eq!(values(&kept[99])[0], 99.0);
    // Dropped values take no memory.
    lazy::synchronize().unwrap();
    lazy::reset_metrics();
    let mut y = x.clone();
    for _ in 0..100 {
        y = y.add(&x).unwrap();
    }
    assert_eq!(cuts(CutReason::Memory), 0);
    assert_eq!(values(&y)[0], 101.0);
}
