//! Long streams, loops, threads: what grows and what must not.

use crate::{cuts, tpu, turn, values};
use torchtpu_lazy::{self as lazy, CutReason};
use torchtpu_tensor::Tensor;

#[test]
fn ten_thousand_steps_grow_nothing() {
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
fn a_chain_of_a_hundred_thousand_pending_ops_is_a_loop() {
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
fn a_value_may_cross_over_to_another_thread() {
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
