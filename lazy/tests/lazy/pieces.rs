//! Tests of programs that keep changing and are compiled in pieces.

use crate::{tpu, turn, values};
use torchtpu_lazy as lazy;
use torchtpu_tensor::{DType, Device, Tensor};

/// A step of which a few ops depend on `n`: a sum over `n` elements, between ops that stay the same.
fn step(w: &Tensor, n: usize) -> Tensor {
    let mut h = w.clone();
    for i in 0..60 {
        h = if i % 3 == 0 { h.tanh() } else { h.mul_scalar(0.9).unwrap().add(w) }.unwrap();
    }
    let part = h.narrow(0, 0, n as i64).unwrap().sum().unwrap();
    h = h.mul(&part).unwrap();
    for i in 0..60 {
        h = if i % 4 == 0 { h.sin() } else { h.mul_scalar(0.5).unwrap().sub(w) }.unwrap();
    }
    w.sub_(&h.mul_scalar(0.01).unwrap()).unwrap();
    h
}

fn start(device: Device) -> Tensor {
    let data: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin()).collect();
    Tensor::from_slice_on(&data, &[64], device).unwrap()
}

fn close(a: &Tensor, b: &Tensor) {
    for (a, b) in values(a).iter().zip(values(b)) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
}

/// Return the number of ops of each compiled program, without those loaded from disk.
fn compiled_ops() -> Vec<usize> {
    lazy::explain().iter().map(|e| e.nodes).collect()
}

#[test]
fn only_changed_pieces_are_compiled() {
    let _turn = turn();
    let (w, reference) = (start(Device::TPU), start(Device::CPU));
    let mut before = 0;
    for n in 1..30 {
        close(&step(&w, n), &step(&reference, n));
        close(&w, &reference);
        if n == 9 {
            before = compiled_ops().len();
        }
    }
    let later = compiled_ops().split_off(before);
    assert!(later.iter().all(|&n| n <= 12), "{later:?}");
    assert!(later.len() <= 2 * 20, "{later:?}");
}

#[test]
fn a_frequent_program_is_compiled_as_a_whole() {
    let _turn = turn();
    let w = start(Device::TPU);
    for n in 1..20 {
        values(&step(&w, n));
    }
    let launches: Vec<u64> = (0..70)
        .map(|_| {
            let before = lazy::metrics().segments_executed;
            values(&step(&w, 40));
            lazy::metrics().segments_executed - before
        })
        .collect();
    // The whole program is used from the 64th time on, even if it compiles earlier.
    assert!(launches[..63].iter().all(|&n| n > 1), "{launches:?}");
    assert!(launches[63..].iter().all(|&n| n == 1), "{launches:?}");
    assert!(compiled_ops().pop().is_some_and(|n| n > 100));
}

#[test]
fn a_failure_in_one_piece_affects_no_other_piece() {
    let _turn = turn();
    lazy::set_divide(lazy::Divide::Always);
    let w = start(Device::TPU);
    let reference = start(Device::CPU);
    step(&reference, 7);
    let x = tpu(&[1.0; 4], &[4]);
    let lost = Tensor::ones(&[1 << 42], DType::F32, Device::TPU).unwrap().add_scalar(1.0).unwrap();
    step(&w, 7);
    let beside = x.add(&x).unwrap();
    assert!(lost.to_vec::<f32>().is_err());
    close(&w, &reference);
    assert_eq!(values(&beside), [2.0; 4]);
}

#[test]
fn memory_of_overwritten_values_is_reused_across_pieces() {
    let _turn = turn();
    for divide in [lazy::Divide::Never, lazy::Divide::Always] {
        lazy::set_divide(divide);
        let w = tpu(&vec![0.5; 1 << 20], &[1 << 20]);
        lazy::synchronize().unwrap();
        let before = lazy::metrics().live_bytes;
        for _ in 0..3 {
            for _ in 0..12 {
                w.mul_(&w.tanh().unwrap().add_scalar(1.0).unwrap()).unwrap();
            }
            lazy::synchronize().unwrap();
        }
        let after = lazy::metrics();
        assert_eq!(after.live_bytes, before, "{divide:?}");
        let first = values(&w)[0];
        assert!(values(&w).iter().all(|v| *v == first));
    }
}

#[test]
fn a_result_that_a_later_piece_reads_is_not_destroyed_by_another_thread() {
    let _turn = turn();
    lazy::set_divide(lazy::Divide::Always);
    let x = tpu(&[0.5; 64], &[64]);
    for _ in 0..100 {
        let y = x.add(&x).unwrap();
        let mut z = y.clone();
        for i in 0..24 {
            z = if i % 3 == 0 { z.mul(&y) } else { z.add(&y).unwrap().tanh() }.unwrap();
        }
        let reader = std::thread::spawn(move || values(&z));
        y.mul_(&x).unwrap();
        assert_eq!(values(&y), [0.5; 64]);
        let z = reader.join().unwrap();
        assert!(z[0] > 0.0 && z.iter().all(|v| *v == z[0]));
    }
}

#[test]
fn programs_with_equal_hashes_are_not_confused() {
    let _turn = turn();
    lazy::set_divide(lazy::Divide::Always);
    lazy::set_hash_mask(0);
    let a = tpu(&[1.0; 4], &[4]);
    let sums = || values(&(0..6).fold(a.clone(), |h, _| h.add(&a).unwrap()));
    let others = || values(&(0..6).fold(a.clone(), |h, i| if i % 2 == 0 { h.mul(&a) } else { h.sub(&a) }.unwrap()));
    let mut wrong = Vec::new();
    for i in 0..70 {
        for _ in 0..1 + usize::from(i == 20) {
            wrong.extend((sums() != [7.0; 4]).then_some((i, "sums")));
        }
        wrong.extend((others() != [-2.0; 4]).then_some((i, "others")));
    }
    lazy::set_hash_mask(u64::MAX);
    assert_eq!(wrong, []);
}
