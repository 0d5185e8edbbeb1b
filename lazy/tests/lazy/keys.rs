//! Tests of program identity: which segments share an executable.

use crate::{tpu, turn, values};
use torchtpu_lazy as lazy;
use torchtpu_tensor::{Device, Tensor};

fn pair() -> (Tensor, Tensor) {
    let (a, b) = (tpu(&[1.0, 2.0, 3.0], &[3]), tpu(&[10.0, 20.0, 30.0], &[3]));
    lazy::synchronize().unwrap();
    (a, b)
}

fn compilations() -> u64 {
    lazy::metrics().compilations
}

#[test]
fn a_new_number_compiles_nothing() {
    let _turn = turn();
    let (a, b) = pair();
    for k in 0..50 {
        let s = f64::from(k) * 0.25;
        let y = a.mul_scalar(s).unwrap().add(&b).unwrap().add_scalar(-s).unwrap();
        assert_eq!(values(&y), [10.0, 20.0 + s as f32, 30.0 + 2.0 * s as f32]);
    }
    let m = lazy::metrics();
    assert_eq!(m.compilations, 1);
    assert_eq!(m.process_cache_hits, 49);
}

#[test]
fn unchanged_numbers_are_uploaded_once() {
    let _turn = turn();
    let (a, _) = pair();
    lazy::reset_metrics();
    for _ in 0..20 {
        assert_eq!(values(&a.mul_scalar(0.5).unwrap()), [0.5, 1.0, 1.5]);
    }
    assert_eq!(lazy::metrics().uploads, 1);
    assert_eq!(values(&a.mul_scalar(2.0).unwrap()), [2.0, 4.0, 6.0]);
    assert_eq!(lazy::metrics().uploads, 2);
}

#[test]
fn equal_numbers_are_separate_arguments() {
    let _turn = turn();
    let (a, _) = pair();
    let f = |x: f64, y: f64| values(&a.mul_scalar(x).unwrap().add_scalar(y).unwrap());
    assert_eq!(f(2.0, 2.0), [4.0, 6.0, 8.0]);
    assert_eq!(f(2.0, 3.0), [5.0, 7.0, 9.0]);
    assert_eq!(compilations(), 1);
}

#[test]
fn segments_that_differ_only_in_wiring_do_not_share() {
    let _turn = turn();
    let (a, b) = pair();
    let d = |x: &Tensor| values(&a.sub(&b).unwrap().mul(x).unwrap());
    assert_eq!(d(&a), [-9.0, -36.0, -81.0]);
    assert_eq!(d(&b), [-90.0, -360.0, -810.0]);
    assert_eq!(compilations(), 2);
}

#[test]
fn segments_that_differ_only_in_buffers_share() {
    let _turn = turn();
    let (a, b) = pair();
    assert_eq!(values(&a.sub(&b).unwrap()), [-9.0, -18.0, -27.0]);
    assert_eq!(values(&b.sub(&a).unwrap()), [9.0, 18.0, 27.0]);
    assert_eq!(compilations(), 1);
}

#[test]
fn segments_that_differ_only_in_attributes_do_not_share() {
    let _turn = turn();
    let m = tpu(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    assert_eq!(values(&m.sum_dim(&[0], false).unwrap()), [4.0, 6.0]);
    assert_eq!(values(&m.sum_dim(&[1], false).unwrap()), [3.0, 7.0]);
    assert_eq!(compilations(), 2);
}

#[test]
fn segments_that_differ_only_in_used_results_do_not_share() {
    let _turn = turn();
    let (a, b) = pair();
    let t = a.add(&b).unwrap();
    let u = t.mul(&b).unwrap();
    drop(t);
    assert_eq!(values(&u), [110.0, 440.0, 990.0]);
    let t = a.add(&b).unwrap();
    let u = t.mul(&b).unwrap();
    assert_eq!(values(&u), [110.0, 440.0, 990.0]);
    assert_eq!(lazy::metrics().segments_executed, 2);
    assert_eq!(values(&t), [11.0, 22.0, 33.0]);
    assert_eq!(lazy::metrics().segments_executed, 2, "the first read computed both");
    assert_eq!(compilations(), 2);
}

#[test]
fn segments_that_differ_only_in_donation_do_not_share() {
    let _turn = turn();
    let b = tpu(&[10.0, 20.0, 30.0], &[3]);
    let run = |keep: bool| {
        let a = tpu(&[1.0, 2.0, 3.0], &[3]);
        let t = a.add(&b).unwrap();
        let kept = keep.then(|| a.clone());
        drop(a);
        assert_eq!(values(&t), [11.0, 22.0, 33.0]);
        if let Some(a) = kept {
            assert_eq!(values(&a), [1.0, 2.0, 3.0], "an argument in use was overwritten");
        }
    };
    run(false);
    run(true);
    assert_eq!((compilations(), lazy::metrics().donations), (2, 1));
    run(false);
    run(true);
    assert_eq!((compilations(), lazy::metrics().donations), (2, 2));
}

#[test]
fn an_argument_used_twice_is_one_argument() {
    let _turn = turn();
    let (a, _) = pair();
    let y = a.mul(&a).unwrap().add(&a).unwrap();
    drop(a);
    assert_eq!(values(&y), [2.0, 6.0, 12.0]);
}

#[test]
fn colliding_hashes_do_not_give_the_wrong_program() {
    let _turn = turn();
    lazy::set_hash_mask(0);
    let (a, b) = pair();
    for _ in 0..3 {
        assert_eq!(values(&a.add(&b).unwrap()), [11.0, 22.0, 33.0]);
        assert_eq!(values(&a.sub(&b).unwrap()), [-9.0, -18.0, -27.0]);
        assert_eq!(values(&a.mul(&b).unwrap()), [10.0, 40.0, 90.0]);
        assert_eq!(values(&a.sub(&b).unwrap().mul(&a).unwrap()), [-9.0, -36.0, -81.0]);
        assert_eq!(values(&a.sub(&b).unwrap().mul(&b).unwrap()), [-90.0, -360.0, -810.0]);
    }
    let m = lazy::metrics();
    assert_eq!((m.compilations, m.process_cache_hits, m.cached_executables), (5, 10, 5));
    lazy::set_hash_mask(u64::MAX);
}

#[test]
fn recompilations_are_explained() {
    let _turn = turn();
    for n in [4, 5] {
        let x =
            Tensor::ones(&[n, 2], torchtpu_tensor::DType::F32, Device::CPU).unwrap().to_device(Device::TPU).unwrap();
        values(&x.add(&x).unwrap().mul(&x).unwrap());
    }
    let last = lazy::explain().pop().unwrap();
    assert_eq!(last.why, "argument 0: dimension 0 is 5 instead of 4");
    assert_eq!(last.ops, "add, mul");
    assert!(!last.from_disk);
    let x = tpu(&[1.0; 10], &[5, 2]);
    values(&x.add(&x).unwrap().mul(&x).unwrap().sub(&x).unwrap().sub(&x).unwrap());
    assert_eq!(lazy::explain().pop().unwrap().why, "this sequence of ops is new");
}

/// Compute a program of more than a few ops that reads and writes at offset `at`.
fn at_offset(x: &Tensor, at: i64) -> Vec<f32> {
    let part = x.narrow(0, at, 2).unwrap();
    let mut y = part.mul_scalar(2.0).unwrap();
    for _ in 0..4 {
        y = y.add(&part).unwrap();
    }
    let z = x.mul_scalar(1.0).unwrap();
    z.narrow(0, at, 2).unwrap().copy_(&y).unwrap();
    values(&z)
}

#[test]
fn a_new_offset_compiles_nothing() {
    let _turn = turn();
    let x = tpu(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[8]);
    for at in [3, 3, 0, 6, 1, 2, 4, 5] {
        let mut want: Vec<f32> = (1..=8).map(|v| v as f32).collect();
        want[at as usize..at as usize + 2].iter_mut().for_each(|v| *v *= 6.0);
        assert_eq!(at_offset(&x, at), want);
    }
    // The first offset is compiled as a constant, then one program serves all offsets.
    assert_eq!(compilations(), 2, "{:#?}", lazy::explain());
    let why = lazy::explain().pop().unwrap().why;
    assert!(why.contains("(slice): offset passed at run time instead of being compiled in"), "{why}");
}

#[test]
fn a_small_program_is_compiled_for_a_few_offsets() {
    let _turn = turn();
    let x = tpu(&(0..40).map(|v| v as f32).collect::<Vec<_>>(), &[40]);
    for at in (0..40).rev() {
        assert_eq!(values(&x.narrow(0, at, 1).unwrap()), [at as f32]);
    }
    assert_eq!(compilations(), 9, "{:#?}", lazy::explain());
}

#[test]
fn unchanged_offsets_are_part_of_the_program() {
    let _turn = turn();
    let x = tpu(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[8]);
    let f = |at: i64| {
        let mut y = x.narrow(0, 6, 2).unwrap();
        for _ in 0..4 {
            y = y.add(&x.narrow(0, 2, 2).unwrap()).unwrap();
        }
        values(&y.mul(&x.narrow(0, at, 2).unwrap()).unwrap())
    };
    for at in 0..6 {
        assert_eq!(f(at), [(at + 1) as f32 * 19.0, (at + 2) as f32 * 24.0]);
    }
    assert_eq!(compilations(), 2, "{:#?}", lazy::explain());
}
