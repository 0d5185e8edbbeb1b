//! Tests of the eager modes: they change when ops run, never their results.

use crate::{cuts, tpu, turn, values};
use torchtpu_lazy::{self as lazy, CutReason, EagerMode};
use torchtpu_tensor::{DType, Device, ErrorKind, Tensor};

/// Compute broadcasting, products, reductions, views, writes through views, integers and comparisons.
fn program(device: Device) -> Vec<Vec<f32>> {
    let data = |n: usize| (0..n).map(|i| ((i * 37 % 19) as f32 - 9.0) / 7.0).collect::<Vec<_>>();
    let x = Tensor::from_slice_on(&data(12), &[3, 4], device).unwrap();
    let w = Tensor::from_slice_on(&data(20), &[4, 5], device).unwrap();
    let b = Tensor::from_slice_on(&data(5), &[5], device).unwrap();
    let h = x.matmul(&w).unwrap().add(&b).unwrap();
    let p = h.tanh().unwrap().mul_scalar(0.5).unwrap().add_scalar(1.0).unwrap();
    let s = p.sum_dim(&[1], true).unwrap();
    let q = p.div(&s).unwrap();
    let t = q.transpose(0, 1).unwrap();
    let z = t.matmul(&x).unwrap();
    z.narrow(0, 1, 2).unwrap().add_(&x.narrow(0, 0, 2).unwrap()).unwrap();
    let mask = z.gt_scalar(0.0).unwrap().to_dtype(DType::F32).unwrap();
    let count = z.gt_scalar(0.0).unwrap().to_dtype(DType::I64).unwrap().sum().unwrap();
    [h, q, t, z, mask, count].iter().map(|y| y.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap()).collect()
}

#[test]
fn all_modes_and_the_cpu_agree() {
    let _turn = turn();
    let expected = program(Device::CPU);
    for mode in [EagerMode::Debug, EagerMode::Strict, EagerMode::Fused] {
        lazy::set_eager_mode(mode);
        let found = program(Device::TPU);
        for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(a.len(), b.len());
            for (x, y) in a.iter().zip(b) {
                assert!((x - y).abs() <= 1e-5 * (1.0 + y.abs()), "{mode:?}, result {i}: {a:?} instead of {b:?}");
            }
        }
    }
}

#[test]
fn strict_and_debug_cut_after_every_op() {
    let _turn = turn();
    let a = tpu(&[1.0, 2.0], &[2]);
    for (mode, reason) in [(EagerMode::Strict, CutReason::Strict), (EagerMode::Debug, CutReason::Debug)] {
        lazy::set_eager_mode(mode);
        lazy::reset_metrics();
        let y = a.add(&a).unwrap().mul(&a).unwrap().sub(&a).unwrap();
        assert_eq!((lazy::metrics().segments_executed, cuts(reason)), (3, 3));
        assert_eq!(values(&y), [1.0, 6.0]);
    }
}

#[test]
fn a_change_of_mode_launches_what_is_pending() {
    let _turn = turn();
    let a = tpu(&[1.0, 2.0], &[2]);
    let y = a.add(&a).unwrap();
    lazy::set_eager_mode(EagerMode::Strict);
    assert_eq!((lazy::metrics().segments_executed, cuts(CutReason::Explicit)), (1, 1));
    assert_eq!(values(&y.add(&a).unwrap()), [3.0, 6.0]);
}

#[test]
fn every_cut_has_its_reason() {
    let _turn = turn();
    let a = tpu(&[1.0, 2.0], &[2]);
    let y = a.add(&a).unwrap();
    values(&y);
    assert_eq!(cuts(CutReason::Read), 1);
    let y = y.add(&a).unwrap();
    lazy::step_boundary();
    lazy::step_boundary();
    assert_eq!(cuts(CutReason::StepBoundary), 1, "nothing was pending at the second");
    let y = y.add(&a).unwrap();
    lazy::mark_step();
    assert_eq!(cuts(CutReason::Explicit), 1);
    let y = y.add(&a).unwrap();
    lazy::synchronize().unwrap();
    assert_eq!(cuts(CutReason::Synchronize), 1);
    lazy::set_max_pending_bytes(20);
    let z = [y.add(&a).unwrap(), y.mul(&a).unwrap(), y.sub(&a).unwrap()];
    assert_eq!(cuts(CutReason::Memory), 1);
    assert_eq!(values(&z[2]), [4.0, 8.0]);
}

#[test]
fn unused_results_are_not_computed() {
    let _turn = turn();
    let a = tpu(&[1.0, 2.0], &[2]);
    drop(a.add(&a).unwrap().mul(&a).unwrap());
    lazy::synchronize().unwrap();
    let m = lazy::metrics();
    assert_eq!((m.segments_dropped, m.segments_executed, m.compilations), (1, 0, 0));
}

#[test]
fn debug_mode_names_the_op_that_gave_nan_or_infinity() {
    let _turn = turn();
    lazy::set_eager_mode(EagerMode::Debug);
    lazy::set_check_numerics(true);
    let zero = tpu(&[0.0, 1.0], &[2]);
    let e = zero.log().unwrap_err();
    assert_eq!((e.kind(), e.op()), (ErrorKind::Runtime, "log"));
    assert!(e.message().contains("returned nan or inf values"), "{e}");
    // An op whose argument is already infinite is not reported.
    let inf = tpu(&[f32::INFINITY, 1.0], &[2]);
    assert_eq!(values(&inf.add(&zero).unwrap()), [f32::INFINITY, 2.0]);
    lazy::set_check_numerics(false);
    assert_eq!(values(&zero.log().unwrap()), [f32::NEG_INFINITY, 0.0]);
}

#[test]
fn running_out_of_memory_affects_only_dependent_values() {
    let _turn = turn();
    let a = tpu(&[1.0, 2.0], &[2]);
    let huge = Tensor::ones(&[1 << 42], DType::F32, Device::TPU).unwrap();
    lazy::mark_step();
    let e = huge.narrow(0, 0, 1).unwrap().add_scalar(1.0).unwrap().to_vec::<f32>().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory);
    assert!(e.to_string().contains("in a segment of 1 ops: full"), "{e}");
    assert_eq!(values(&a.add(&a).unwrap()), [2.0, 4.0], "later work goes on");
}

#[test]
fn maximum_keeps_nan() {
    let _turn = turn();
    let a = tpu(&[f32::NAN, 1.0], &[2]);
    let y = values(&a.maximum(&tpu(&[0.0, 0.0], &[2])).unwrap());
    assert!(y[0].is_nan() && y[1] == 1.0, "{y:?}");
}

#[test]
fn the_pending_program_can_be_seen() {
    let _turn = turn();
    let a = tpu(&[1.0, 2.0], &[2]);
    let unrelated = a.mul(&a).unwrap();
    let y = a.add(&a).unwrap();
    let text = lazy::dump_stablehlo(y.device_value().unwrap()).unwrap();
    assert!(text.contains("stablehlo.add") && !text.contains("stablehlo.multiply"), "{text}");
    let graph = lazy::dump_graph(y.device_value().unwrap()).unwrap();
    assert!(
        graph.contains("= add(argument 0: float32[2], argument 0: float32[2])") && !graph.contains("mul("),
        "{graph}"
    );
    assert_eq!(values(&unrelated), [1.0, 4.0]);
    assert_eq!(lazy::dump_stablehlo(y.device_value().unwrap()).unwrap_err().kind(), ErrorKind::Value);
}

#[test]
fn the_device_reports_its_name() {
    let _turn = turn();
    let name = lazy::device_name().unwrap();
    assert!(name.contains("PJRT plugin"), "{name}");
    assert!(lazy::is_available() && lazy::device_count() >= 1);
    assert!(lazy::set_plugin("cpu").unwrap_err().message().contains("before the first use"));
}

#[test]
fn programs_compile_for_a_described_tpu() {
    let _turn = turn();
    let a = tpu(&[1.0; 64 * 64], &[64, 64]);
    let y = a.matmul(&a).unwrap();
    match lazy::aot::compile_value(y.device_value().unwrap(), "v5e:2x2") {
        Ok(report) => {
            assert_eq!((report.devices, report.device_kind.as_str()), (4, "TPU v5 lite"));
            assert!(report.flops >= 2.0 * 64.0 * 64.0 * 64.0 && report.output_bytes > 0, "{report:?}");
        }
        Err(e) => assert!(e.message().contains("needs libtpu"), "{e}"),
    }
}

#[test]
fn a_failure_affects_only_dependent_values() {
    let _turn = turn();
    let w = tpu(&[1.0, 2.0], &[2]);
    let huge = Tensor::ones(&[1 << 42], DType::F32, Device::TPU).unwrap();
    let kept: Vec<Tensor> = (1..6).map(|k| w.mul_scalar(f64::from(k)).unwrap()).collect();
    let lost = huge.add_scalar(1.0).unwrap();
    for (k, y) in kept.iter().enumerate() {
        assert_eq!(values(y), [k as f32 + 1.0, 2.0 * (k as f32 + 1.0)]);
    }
    for y in [&huge, &lost] {
        assert_eq!(y.to_vec::<f32>().unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
    // The failed value is an argument of the next segment.
    let more = lost.narrow(0, 0, 2).unwrap().add(&w).unwrap();
    let fine = kept[1].add(&w).unwrap();
    let also = fine.add(&fine).unwrap();
    assert_eq!(more.to_vec::<f32>().unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(values(&also), [6.0, 12.0]);
    // The segment that fails here also updates `w` in place, and the update survives.
    let _lost = huge.add_scalar(2.0).unwrap();
    w.add_(&fine).unwrap();
    assert_eq!(values(&w), [4.0, 8.0]);
}
