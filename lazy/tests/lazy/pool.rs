//! Tests of the memory pool: results reuse the memory of dropped results.

use crate::{tpu, turn, values};
use torchtpu_lazy as lazy;
use torchtpu_tensor::Tensor;

/// Number of elements of a value large enough for the pool.
const LARGE: usize = 64 << 10;

/// Return `LARGE` elements of value `x`.
fn large(x: f32) -> Tensor {
    tpu(&vec![x; LARGE], &[LARGE])
}

fn is_all(t: &Tensor, x: f32) -> bool {
    values(t).iter().all(|v| *v == x)
}

fn compute(t: Tensor) -> Tensor {
    lazy::mark_step();
    t
}

#[test]
fn results_reuse_the_memory_of_dropped_results() {
    let _turn = turn();
    lazy::empty_cache();
    let x = large(1.0);
    for k in 0..20 {
        // Each step has two results, and both are dropped before the next step.
        let y = x.mul_scalar(f64::from(k)).unwrap();
        let z = compute(y.add(&x).unwrap());
        assert!(is_all(&y, k as f32) && is_all(&z, k as f32 + 1.0));
    }
    let m = lazy::metrics();
    assert_eq!((m.compilations, m.pool_hits), (1, 38), "{m:?}");
    assert_eq!(m.pool_bytes, 2 * 4 * LARGE as u64);
    lazy::empty_cache();
    assert_eq!(lazy::metrics().pool_bytes, 0);
    assert!(is_all(&compute(x.mul_scalar(3.0).unwrap()), 3.0));
}

#[test]
fn memory_in_use_is_not_reused() {
    let _turn = turn();
    lazy::empty_cache();
    let x = large(1.0);
    let mut kept = Vec::new();
    for k in 0..12 {
        let y = compute(x.mul_scalar(f64::from(k)).unwrap());
        // A view keeps its result alive, and so does a pending reader.
        match k % 3 {
            0 => kept.push((y.narrow(0, 5, 2).unwrap(), k as f32)),
            1 => kept.push((y.sum().unwrap(), (k as usize * LARGE) as f32)),
            _ => kept.push((y.add_scalar(1.0).unwrap(), k as f32 + 1.0)),
        }
    }
    for (t, expected) in &kept {
        assert!(is_all(t, *expected));
    }
    assert!(is_all(&x, 1.0), "what was uploaded stays");
}

#[test]
fn a_result_that_an_update_destroys_is_not_reused_twice() {
    let _turn = turn();
    lazy::empty_cache();
    let mut x = large(0.0);
    for _ in 0..10 {
        // The update reuses the memory of its argument, and the copy that of the previous copy.
        x = x.add_scalar(1.0).unwrap();
        let y = compute(x.mul_scalar(2.0).unwrap());
        drop(y);
    }
    assert!(is_all(&x, 10.0));
    let m = lazy::metrics();
    assert!(m.donations >= 9 && m.pool_hits >= 8, "{m:?}");
}

#[test]
fn values_and_pool_stay_within_the_peak_of_values() {
    let _turn = turn();
    lazy::empty_cache();
    let x = large(1.0);
    for k in 0..60 {
        // Each step has a new size, so nothing in the pool fits.
        let n = LARGE / 2 + 64 * k;
        let y = compute(x.narrow(0, 0, n as i64).unwrap().add_scalar(1.0).unwrap());
        assert_eq!(values(&y).len(), n);
        let m = lazy::metrics();
        assert!(m.live_bytes + m.pool_bytes <= m.peak_bytes, "{m:?}");
    }
    assert_eq!(lazy::metrics().pool_hits, 0);
}

#[test]
fn memory_of_reused_uploads_does_not_accumulate() {
    let _turn = turn();
    lazy::empty_cache();
    let mut most = 0;
    for k in 0..50 {
        let x = large(1.0);
        let y = x.add_scalar(1.0).unwrap();
        // The result reuses the upload's memory, so nothing is taken from the pool.
        drop(x);
        assert!(is_all(&compute(y), 2.0));
        lazy::synchronize().unwrap();
        let m = lazy::metrics();
        most = most.max(m.pool_bytes);
        assert!(m.pool_bytes <= m.peak_bytes, "step {k}: {m:?}");
    }
    assert!(most > 0 && lazy::metrics().pool_hits == 0);
}

#[test]
fn unused_pool_memory_is_given_back() {
    let _turn = turn();
    lazy::empty_cache();
    let x = large(1.0);
    let y: Vec<Tensor> = (0..4).map(|k| x.add_scalar(f64::from(k)).unwrap()).collect();
    lazy::mark_step();
    assert!(y.iter().zip(0..).all(|(y, k)| is_all(y, k as f32 + 1.0)));
    drop(y);
    lazy::synchronize().unwrap();
    let bytes = || lazy::metrics().pool_bytes / (4 * LARGE as u64);
    assert_eq!(bytes(), 4);
    for _ in 0..1500 {
        drop(compute(x.add_scalar(1.0).unwrap()));
    }
    lazy::synchronize().unwrap();
    assert!(bytes() <= 3, "{} are kept", bytes());
}

#[test]
fn only_large_results_of_fused_mode_are_pooled() {
    let _turn = turn();
    lazy::empty_cache();
    let x = large(1.0);
    let small = tpu(&[1.0, 2.0], &[2]);
    for _ in 0..3 {
        assert_eq!(values(&small.add_scalar(1.0).unwrap()), [2.0, 3.0]);
    }
    assert_eq!((lazy::metrics().pool_hits, lazy::metrics().pool_bytes), (0, 0));
    drop(compute(x.add_scalar(1.0).unwrap()));
    lazy::synchronize().unwrap();
    assert!(lazy::metrics().pool_bytes > 0);
    for mode in [lazy::EagerMode::Strict, lazy::EagerMode::Debug] {
        lazy::set_eager_mode(mode);
        for _ in 0..3 {
            assert!(is_all(&x.add_scalar(1.0).unwrap(), 2.0));
        }
        assert_eq!((lazy::metrics().pool_hits, lazy::metrics().pool_bytes), (0, 0), "{mode:?}");
    }
    let why = lazy::explain().last().unwrap().why.clone();
    assert_eq!(why, "results take no memory from the pool (not Fused mode)");
}

#[test]
fn threads_share_the_pool() {
    let _turn = turn();
    lazy::empty_cache();
    std::thread::scope(|s| {
        for t in 0..4 {
            s.spawn(move || {
                let x = large(t as f32);
                for k in 0..40 {
                    let y = x.add_scalar(f64::from(k)).unwrap();
                    let z = compute(y.mul_scalar(2.0).unwrap());
                    assert!(is_all(&y, (t + k) as f32) && is_all(&z, 2.0 * (t + k) as f32));
                }
            });
        }
    });
    assert!(lazy::metrics().pool_hits > 0);
}
