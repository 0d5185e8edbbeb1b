//! Tests of programs that are interpreted op by op, and of the choice to compile them.

use crate::{tpu, turn, values};
use torchtpu_lazy::{self as lazy, EagerMode, Interpret};
use torchtpu_tensor::{DType, Device, ErrorKind, Scalar, Tensor, ops};

/// Number of elements of a value large enough for its program to be compiled.
const LARGE: usize = 200_000;

/// Return the numbers of interpreted, launched and compiled programs so far.
fn counts() -> (u64, u64, u64) {
    let m = lazy::metrics();
    (m.segments_interpreted, m.segments_executed, m.compilations)
}

fn on(mode: EagerMode, interpret: Interpret) {
    lazy::set_eager_mode(mode);
    lazy::set_interpret(interpret);
    lazy::clear_cache();
}

#[test]
fn a_new_program_is_interpreted_and_a_repeated_one_compiled() {
    let _turn = turn();
    on(EagerMode::Fused, Interpret::New);
    let a = tpu(&[1.5; LARGE], &[LARGE]);
    for (turn, expected) in [(1, (1, 0, 0)), (2, (1, 1, 1)), (3, (1, 2, 1))] {
        let y = a.mul_scalar(f64::from(turn)).unwrap().add(&a).unwrap();
        assert_eq!(values(&y), [1.5 * (turn as f32 + 1.0); LARGE]);
        assert_eq!(counts(), expected, "turn {turn}");
    }
    let report: Vec<String> = lazy::explain().iter().map(ToString::to_string).collect();
    let [.., first, second] = &report[..] else { panic!("{report:?}") };
    assert!(first.starts_with("first run, op by op, of 2 ops (mul, add)"), "{first}");
    assert!(second.starts_with("compilation of 2 ops (mul, add)"), "{second}");
}

#[test]
fn a_few_ops_on_small_values_are_never_compiled() {
    let _turn = turn();
    on(EagerMode::Fused, Interpret::New);
    let a = tpu(&[1.0, 2.0, 3.0], &[3]);
    for k in 0..20 {
        let y = a.mul_scalar(f64::from(k)).unwrap().add(&a).unwrap();
        assert_eq!(values(&y), [1.0, 2.0, 3.0].map(|v| v * (k as f32 + 1.0)));
    }
    assert_eq!(counts(), (20, 0, 0));
    let chain = |mut y: Tensor| {
        (0..20).for_each(|_| y = y.add(&a).unwrap());
        values(&y)
    };
    for _ in 0..4 {
        assert_eq!(chain(a.clone()), [21.0, 42.0, 63.0]);
    }
    assert_eq!(counts(), (21, 3, 1));
}

#[test]
fn programs_that_keep_changing_compile_nothing() {
    let _turn = turn();
    on(EagerMode::Fused, Interpret::New);
    let mut w = tpu(&[1.0, 2.0], &[2, 1]);
    for n in 1..100 {
        let x = Tensor::ones(&[n, 2], DType::F32, Device::TPU).unwrap();
        let y = (0..20).fold(x, |x, _| x.add(&x).unwrap().mul_scalar(0.5).unwrap());
        let y = y.matmul(&w).unwrap().mean().unwrap();
        w = w.sub(&w.mul(&y).unwrap().mul_scalar(1e-3).unwrap()).unwrap();
        lazy::step_boundary();
    }
    let w = values(&w);
    assert!((w[1] - 2.0 * w[0]).abs() < 1e-5 && w[0] < 0.9, "{w:?}");
    assert_eq!(counts(), (99, 0, 0));
}

#[test]
fn a_loop_over_offsets_is_compiled() {
    let _turn = turn();
    on(EagerMode::Fused, Interpret::New);
    let row = tpu(&[5.0; LARGE / 20], &[1, LARGE / 20]);
    let mut kept = tpu(&[0.0; LARGE], &[20, LARGE / 20]);
    for i in 0..20 {
        // Use an offset in a read, in a write, and in a pad.
        let taken = kept.narrow(0, i, 1).unwrap().add(&row).unwrap();
        let places = ops::pad::pad_constant(&taken, &[(i, 19 - i), (0, 0)], Scalar::Float(0.0)).unwrap();
        kept = kept.add(&places).unwrap();
        kept.narrow(0, i, 1).unwrap().add_(&row).unwrap();
        lazy::step_boundary();
    }
    assert_eq!(values(&kept), [10.0; LARGE]);
    let (interpreted, launched, compiled) = counts();
    assert!(compiled <= 2 && launched >= 15 && interpreted <= 5, "{:?}", counts());
}

#[test]
fn values_pass_between_kernels_and_programs() {
    let _turn = turn();
    // Values are large enough that kernels and programs share memory, and that programs may overwrite arguments.
    let run = |interpret| {
        on(EagerMode::Fused, interpret);
        let mut w = tpu(&vec![1.0; 1 << 18], &[512, 512]);
        let x = tpu(&(0..1 << 18).map(|i| (i % 7) as f32 * 1e-3).collect::<Vec<_>>(), &[512, 512]);
        let mut seen = Vec::new();
        for i in 0..8 {
            let g = w.matmul(&x).unwrap();
            // Every third step is a different program.
            let g = if i % 3 == 0 { g.mul_scalar(0.5).unwrap() } else { g };
            let kept = w.clone();
            w = w.sub(&g.mul_scalar(0.1).unwrap()).unwrap();
            lazy::step_boundary();
            seen.push(values(&w.narrow(0, i, 1).unwrap().sum().unwrap())[0]);
            seen.push(values(&kept.narrow(0, i, 1).unwrap().sum().unwrap())[0]);
        }
        seen
    };
    let compiled = run(Interpret::Never);
    assert_eq!(lazy::metrics().segments_interpreted, 0);
    for interpret in [Interpret::New, Interpret::Always] {
        lazy::reset_metrics();
        let other = run(interpret);
        let (interpreted, launched, _) = counts();
        assert!(interpreted > 0 && (launched > 0) == (interpret == Interpret::New), "{:?}", counts());
        for (a, b) in compiled.iter().zip(&other) {
            assert!((a - b).abs() <= 1e-4 * a.abs(), "{interpret:?}: {a} {b}");
        }
    }
}

#[test]
fn results_do_not_keep_the_memory_of_their_base() {
    let _turn = turn();
    on(EagerMode::Fused, Interpret::Always);
    let x = tpu(&(0..12).map(|i| i as f32).collect::<Vec<_>>(), &[3, 4]);
    let y = x.add_scalar(1.0).unwrap();
    let views = [
        y.t().unwrap(),
        y.narrow(1, 1, 2).unwrap(),
        y.reshape(&[4, 3]).unwrap(),
        y.t().unwrap().reshape(&[12]).unwrap(),
        y.narrow(0, 1, 1).unwrap().expand(&[2, 4]).unwrap(),
        x.t().unwrap(),
        x.narrow(0, 2, 1).unwrap(),
        x.as_strided(&[2, 2], &[5, 1], Some(3)).unwrap(),
        x.view_dtype(DType::I32).unwrap().view_dtype(DType::F32).unwrap(),
    ];
    let first: Vec<Vec<f32>> = views.iter().map(values).collect();
    assert_eq!(first[0], [1.0, 5.0, 9.0, 2.0, 6.0, 10.0, 3.0, 7.0, 11.0, 4.0, 8.0, 12.0]);
    assert_eq!(first[1], [2.0, 3.0, 6.0, 7.0, 10.0, 11.0]);
    assert_eq!(first[2], (1..13).map(|i| i as f32).collect::<Vec<_>>());
    assert_eq!(first[3], first[0]);
    assert_eq!(first[4], [5.0, 6.0, 7.0, 8.0, 5.0, 6.0, 7.0, 8.0]);
    assert_eq!(first[5][..3], [0.0, 4.0, 8.0]);
    assert_eq!(first[6], [8.0, 9.0, 10.0, 11.0]);
    assert_eq!(first[7], [3.0, 4.0, 8.0, 9.0]);
    assert_eq!(first[8][..3], [0.0, 1.0, 2.0]);
    // Memory is not shared if an update in place would be visible.
    x.add_(&x).unwrap();
    y.mul_(&y).unwrap();
    lazy::synchronize().unwrap();
    assert_eq!(values(&x)[..3], [0.0, 2.0, 4.0]);
    assert_eq!(values(&views[0])[..3], [1.0, 25.0, 81.0]);
    assert_eq!(counts().1, 0, "nothing was launched");
}

#[test]
fn kernels_and_compiled_programs_give_the_same_error() {
    let _turn = turn();
    let x = tpu(&[1.0, 2.0, 3.0], &[3]);
    let at = Tensor::from_slice_on(&[0i64, 3], &[2], Device::TPU).unwrap();
    let run = || {
        let healthy = x.add(&x).unwrap();
        let taken = x.index_select(0, &at).unwrap();
        let error = taken.to_vec::<f32>().unwrap_err();
        assert_eq!(values(&healthy), [2.0, 4.0, 6.0]);
        error
    };
    on(EagerMode::Fused, Interpret::Never);
    let compiled = run();
    on(EagerMode::Fused, Interpret::New);
    let interpreted = run();
    assert_eq!(compiled.kind(), ErrorKind::Index);
    assert_eq!((compiled.kind(), compiled.to_string()), (interpreted.kind(), interpreted.to_string()));
    lazy::synchronize().unwrap();
}

#[test]
fn a_failure_affects_only_dependent_values_when_interpreted() {
    let _turn = turn();
    on(EagerMode::Fused, Interpret::New);
    let w = tpu(&[1.0, 2.0], &[2]);
    let huge = Tensor::ones(&[1 << 42], DType::F32, Device::TPU).unwrap();
    // No kernel can allocate the memory, so a background thread compiles the program, and fails too.
    drop(lazy::synchronize());
    let compiled = counts().2;
    // The failed value is an argument of a program. Kernels compute the rest of that program.
    let lost = huge.narrow(0, 0, 2).unwrap().add(&w).unwrap();
    let fine = w.add(&w).unwrap();
    assert_eq!(lost.to_vec::<f32>().unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(values(&fine), [2.0, 4.0]);
    assert_eq!(counts().2, compiled, "{:?}", lazy::explain().last());
}

#[test]
fn single_ops_are_never_compiled() {
    let _turn = turn();
    for mode in [EagerMode::Strict, EagerMode::Debug] {
        on(mode, Interpret::New);
        let a = tpu(&[1.0, 2.0], &[2]);
        for _ in 0..5 {
            assert_eq!(values(&a.mul_scalar(3.0).unwrap().add(&a).unwrap()), [4.0, 8.0]);
        }
    }
    assert_eq!(counts(), (20, 0, 0));
    // Debug mode checks the results of interpreted ops too.
    lazy::set_check_numerics(true);
    let e = tpu(&[0.0], &[1]).log().unwrap_err();
    assert!(e.message().contains("returned nan or inf values"), "{e}");
}

#[test]
fn other_threads_see_interpreted_values() {
    let _turn = turn();
    on(EagerMode::Fused, Interpret::New);
    let a = tpu(&[1.0, 2.0], &[2]);
    let threads: Vec<_> = (1..5)
        .map(|n| {
            let a = a.clone();
            std::thread::spawn(move || {
                let mut y = a.clone();
                for _ in 0..n {
                    y = y.add(&a).unwrap();
                }
                y
            })
        })
        .collect();
    let sums: Vec<Tensor> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let total = sums.iter().skip(1).fold(sums[0].clone(), |s, y| s.add(y).unwrap());
    assert_eq!(values(&total), [14.0, 28.0]);
}
