//! What the builder promises beside the text of single operations.

use std::panic::{AssertUnwindSafe, catch_unwind};

use torchtpu_stablehlo::ElementType::*;
use torchtpu_stablehlo::{
    ConvDims, Direction, FftKind, Func, GatherDims, ReduceKind, RngAlgorithm, ScatterDims, ScatterKind, Type, Value,
};

#[test]
fn equal_constants_are_printed_once() {
    let mut f = Func::new();
    let ty = Type::new(&[2, 2], F32);
    let mut values = vec![];
    for _ in 0..3 {
        values.extend([f.scalar(0.1, F32), f.splat(0.1, &ty), f.iota(&ty, 0), f.scalar(f64::NAN, F32)]);
    }
    // The nearest f32 is the same number.
    values.push(f.scalar(f64::from(0.1f32), F32));
    assert_eq!(f.value_count(), 4);
    f.scalar(0.1, F64);
    f.iota(&ty, 1);
    f.scalar(-0.0, F32);
    f.scalar(0.0, F32);
    assert_eq!(f.value_count(), 8, "constants that differ are told apart");
}

#[test]
fn operations_that_do_nothing_are_not_printed() {
    let mut f = Func::new();
    let x = f.arg(Type::new(&[2, 3], F32));
    let zero = f.arg(Type::new(&[], F32));
    let i = f.arg(Type::new(&[], S32));
    let same = [
        f.reshape(&x, &[2, 3]),
        f.transpose(&x, &[0, 1]),
        f.broadcast_to(&x, &[2, 3]),
        f.broadcast_in_dim(&x, &[2, 3], &[0, 1]),
        f.convert(&x, F32),
        f.bitcast_convert(&x, F32),
        f.pad(&x, &zero, &[0, 0], &[0, 0], &[0, 0]),
        f.slice(&x, &[0, 0], &[2, 3], &[1, 1]),
        f.slice_dim(&x, 1, 0, 3),
        f.concatenate(std::slice::from_ref(&x), 0),
        f.reverse(&x, &[]),
        f.reduce(&x, ReduceKind::Add, &[]),
        f.dynamic_slice(&x, &[i.clone(), i], &[2, 3]),
    ];
    assert_eq!(f.value_count(), 0);
    assert!(same.iter().all(|y| y.to_string() == "%a0"));
    // A square is transposed by any other permutation, and a broadcast may transpose.
    let square = f.arg(Type::new(&[3, 3], F32));
    f.transpose(&square, &[1, 0]);
    f.broadcast_in_dim(&square, &[3, 3], &[1, 0]);
    f.reverse(&square, &[0]);
    assert_eq!(f.value_count(), 3);
}

#[test]
fn the_same_calls_give_the_same_text() {
    let build = || {
        let mut f = Func::new();
        let x = f.arg(Type::new(&[4, 4], BF16));
        let y = f.cumulative(&x, ReduceKind::Add, 0);
        let (v, i) = f.reduce_arg(&y, true, 1);
        let s = f.sort(&[v, i], 0, true, true);
        f.finish("m", &s)
    };
    assert_eq!(build(), build());
}

#[test]
fn names_that_are_no_identifiers_are_quoted() {
    assert!(Func::new().finish("step_1", &[]).starts_with("module @step_1 {"));
    assert!(Func::new().finish("1 \"\u{e9}\"", &[]).starts_with("module @\"1 \\22\\C3\\A9\\22\" {"));
}

/// Operands for calls that must fail.
struct Operands {
    x: Value,
    n: Value,
    v: Value,
    i: Value,
    p: Value,
    z: Value,
    k: Value,
}

#[test]
fn wrong_operands_panic_with_the_number_of_the_constraint() {
    type Call = fn(&mut Func, &Operands);
    let cases: &[(&str, Call)] = &[
        ("constant (C1)", |f, _| drop(f.scalar(300.0, U8))),
        ("constant (C1)", |f, _| drop(f.scalar(f64::NAN, S32))),
        ("constant (C1)", |f, _| drop(f.scalar_i64(-1, U64))),
        ("constant (C1)", |f, _| drop(f.dense_i64(&[1, 2, 3], &[2], S32))),
        ("iota (C1)", |f, _| drop(f.iota(&Type::new(&[2], F32), 1))),
        ("stablehlo.add (C1)", |f, o| drop(f.binary("stablehlo.add", &o.x, &o.n))),
        ("compare (C1)", |f, o| drop(f.compare(Direction::Eq, &o.x, &o.n))),
        ("compare (C2)", |f, o| drop(f.compare(Direction::Eq, &o.x, &o.v))),
        ("compare (C3)", |f, o| drop(f.compare(Direction::Lt, &o.z, &o.z))),
        ("select (I1)", |f, o| drop(f.select(&o.x, &o.x, &o.x))),
        ("select (C1)", |f, o| drop(f.select(&o.p, &o.v, &o.v))),
        ("select (C2)", |f, o| drop(f.select(&o.p, &o.x, &o.n))),
        ("clamp (C1)", |f, o| drop(f.clamp(&o.v, &o.x, &o.x))),
        ("clamp (C2)", |f, o| drop(f.clamp(&o.x, &o.x, &o.v))),
        ("clamp (C3)", |f, o| drop(f.clamp(&o.i, &o.x, &o.x))),
        ("bitcast_convert (C1)", |f, o| drop(f.bitcast_convert(&o.x, F64))),
        ("bitcast_convert (C2)", |f, o| drop(f.bitcast_convert(&o.x, C64))),
        ("reshape (C2)", |f, o| drop(f.reshape(&o.x, &[5]))),
        ("transpose (C2)", |f, o| drop(f.transpose(&o.x, &[0, 0]))),
        ("broadcast_in_dim (C2)", |f, o| drop(f.broadcast_in_dim(&o.x, &[2, 3], &[0]))),
        ("broadcast_in_dim (C3)", |f, o| drop(f.broadcast_in_dim(&o.x, &[2, 3], &[0, 2]))),
        ("broadcast_in_dim (C4)", |f, o| drop(f.broadcast_in_dim(&o.x, &[2, 3], &[0, 0]))),
        ("broadcast_in_dim (C5)", |f, o| drop(f.broadcast_to(&o.x, &[3, 3]))),
        ("slice (C2)", |f, o| drop(f.slice(&o.x, &[0], &[2, 3], &[1, 1]))),
        ("slice (C3)", |f, o| drop(f.slice(&o.x, &[0, 0], &[2, 4], &[1, 1]))),
        ("slice (C4)", |f, o| drop(f.slice(&o.x, &[0, 0], &[2, 3], &[1, 0]))),
        ("pad (C1)", |f, o| drop(f.pad(&o.x, &o.i, &[1, 0], &[0, 0], &[0, 0]))),
        ("pad (C2)", |f, o| {
            let zero = f.scalar(0.0, F32);
            f.pad(&o.x, &zero, &[1], &[0, 0], &[0, 0]);
        }),
        ("pad (C3)", |f, o| {
            let zero = f.scalar(0.0, F32);
            f.pad(&o.x, &zero, &[1, 0], &[0, 0], &[0, -1]);
        }),
        ("pad (C4)", |f, o| {
            let zero = f.scalar(0.0, F32);
            f.pad(&o.x, &zero, &[-2, 0], &[-1, 0], &[0, 0]);
        }),
        ("concatenate (C1)", |f, o| drop(f.concatenate(&[o.x.clone(), o.n.clone()], 0))),
        ("concatenate (C2)", |f, o| drop(f.concatenate(&[o.x.clone(), o.v.clone()], 0))),
        ("concatenate (C3)", |f, _| drop(f.concatenate(&[], 0))),
        ("concatenate (C4)", |f, o| drop(f.concatenate(std::slice::from_ref(&o.x), 2))),
        ("reverse (C2)", |f, o| drop(f.reverse(&o.x, &[1, 1]))),
        ("reverse (C3)", |f, o| drop(f.reverse(&o.x, &[2]))),
        ("dynamic_slice (C2)", |f, o| drop(f.dynamic_slice(&o.x, std::slice::from_ref(&o.i), &[1, 1]))),
        ("dynamic_slice (C3)", |f, o| drop(f.dynamic_slice(&o.x, &[o.i.clone(), o.v.clone()], &[1, 1]))),
        ("dynamic_slice (C4)", |f, o| drop(f.dynamic_slice(&o.x, &[o.i.clone(), o.i.clone()], &[3, 1]))),
        ("dynamic_update_slice (C2)", |f, o| drop(f.dynamic_update_slice(&o.x, &o.n, &[o.i.clone(), o.i.clone()]))),
        ("dynamic_update_slice (C3)", |f, o| drop(f.dynamic_update_slice(&o.x, &o.v, &[o.i.clone(), o.i.clone()]))),
        ("dynamic_update_slice (C4)", |f, o| drop(f.dynamic_update_slice(&o.x, &o.x, &[]))),
        ("dot_general (C1)", |f, o| drop(f.dot_general(&o.x, &o.x, (&[0], &[]), (&[], &[]), F32, None))),
        ("dot_general (C2)", |f, o| drop(f.dot_general(&o.x, &o.x, (&[], &[]), (&[], &[0]), F32, None))),
        ("dot_general (C3)", |f, o| drop(f.dot_general(&o.x, &o.x, (&[0], &[0]), (&[0], &[1]), F32, None))),
        ("dot_general (C4)", |f, o| drop(f.dot_general(&o.x, &o.x, (&[0], &[0]), (&[1], &[0]), F32, None))),
        ("dot_general (C5, C6)", |f, o| drop(f.dot_general(&o.x, &o.x, (&[], &[]), (&[2], &[0]), F32, None))),
        ("dot_general (C9)", |f, o| drop(f.dot_general(&o.x, &o.x, (&[0], &[1]), (&[], &[]), F32, None))),
        ("dot_general (C10)", |f, o| drop(f.dot_general(&o.x, &o.x, (&[], &[]), (&[0], &[1]), F32, None))),
        ("dot_general (C13)", |f, o| drop(f.dot_general(&o.x, &o.n, (&[], &[]), (&[1], &[1]), F32, None))),
        ("convolution (C1)", |f, o| drop(f.convolution(&o.k, &o.x, &ConvDims::new(2)))),
        ("convolution (C2)", |f, o| drop(f.convolution(&o.k, &o.k, &ConvDims::new(1)))),
        ("convolution (C3)", |f, o| {
            f.convolution(&o.k, &o.k, &ConvDims { window_strides: vec![0, 1], ..ConvDims::new(2) });
        }),
        ("convolution (C14)", |f, o| {
            f.convolution(&o.k, &o.k, &ConvDims { feature_group_count: 2, ..ConvDims::new(2) });
        }),
        ("convolution (C23)", |f, o| {
            f.convolution(&o.k, &o.k, &ConvDims { feature_group_count: 2, batch_group_count: 2, ..ConvDims::new(2) });
        }),
        ("reduce (C4)", |f, o| drop(f.reduce(&o.x, ReduceKind::Add, &[2]))),
        ("reduce (C5)", |f, o| drop(f.reduce(&o.x, ReduceKind::Add, &[0, 0]))),
        ("reduce (C6)", |f, o| drop(f.reduce(&o.x, ReduceKind::And, &[0]))),
        ("reduce_window (C4)", |f, o| {
            f.reduce_window(&o.x, ReduceKind::Add, &[1], &[1, 1], &[(0, 0); 2], &[1, 1], &[1, 1]);
        }),
        ("select_and_scatter (C2)", |f, o| drop(f.select_and_scatter(&o.x, &o.x, &[1, 2], &[1, 1], &[(0, 0); 2]))),
        ("sort (C1)", |f, _| drop(f.sort(&[], 0, false, true))),
        ("sort (C3)", |f, o| drop(f.sort(&[o.x.clone(), o.v.clone()], 0, false, true))),
        ("sort (C4)", |f, o| drop(f.sort(std::slice::from_ref(&o.x), 2, false, true))),
        ("gather (C1)", |f, o| drop(f.gather(&o.x, &o.n, &GatherDims::default(), &[1, 1], false))),
        ("gather (I2)", |f, o| drop(f.take_rows(&o.x, &o.x))),
        ("gather (C17)", |f, o| {
            let n = f.arg(Type::new(&[3, 3], S64));
            f.take_along(&o.x, &n, 1);
        }),
        ("gather (C19)", |f, o| drop(f.take(&o.x, &o.n, 2))),
        ("scatter (C2)", |f, o| drop(f.scatter(&o.x, &o.n, &o.x, &ScatterDims::default(), ScatterKind::Add))),
        ("scatter (C4)", |f, o| drop(f.put(&o.x, &o.i, &o.x, 0, ScatterKind::Add))),
        ("scatter (C6)", |f, o| drop(f.put(&o.x, &o.i, &o.n, 0, ScatterKind::Add))),
        ("rng_bit_generator (C2)", |f, o| {
            drop(f.rng_bit_generator(&o.x, &Type::new(&[2], U32), RngAlgorithm::Threefry))
        }),
        ("while (C1)", |f, o| drop(f.while_loop(std::slice::from_ref(&o.x), |_, _| o.x.clone(), |_, c| c.to_vec()))),
        ("while (C2)", |f, o| {
            let yes = f.scalar(1.0, Pred);
            f.while_loop(std::slice::from_ref(&o.x), |_, _| yes, |_, _| vec![]);
        }),
        ("if (I1)", |f, o| drop(f.if_else(&o.p, |_| vec![], |_| vec![]))),
        ("if (C2)", |f, o| {
            let yes = f.scalar(1.0, Pred);
            f.if_else(&yes, |_| vec![o.x.clone()], |_| vec![o.n.clone()]);
        }),
        ("fft (C2)", |f, o| drop(f.fft(&o.x, FftKind::Fft, &[3]))),
        ("fft (C4, C5)", |f, o| drop(f.fft(&o.x, FftKind::Rfft, &[4]))),
        ("cholesky (C3)", |f, o| drop(f.cholesky(&o.x, true))),
        ("triangular_solve (C2)", |f, o| drop(f.triangular_solve(&o.v, &o.v, true, true, false, false))),
    ];
    for (number, (constraint, call)) in cases.iter().enumerate() {
        let mut f = Func::new();
        let mut arg = |shape: &[usize], e| f.arg(Type::new(shape, e));
        let operands = Operands {
            x: arg(&[2, 3], F32),
            n: arg(&[2, 3], S32),
            v: arg(&[4], F32),
            i: arg(&[], S32),
            p: arg(&[2, 3], Pred),
            z: arg(&[2], C64),
            k: arg(&[2, 2, 3, 3], F32),
        };
        let panic = catch_unwind(AssertUnwindSafe(|| call(&mut f, &operands)));
        let message = panic.expect_err(&format!("case {number} must panic with {constraint}"));
        let message = message.downcast_ref::<String>().map_or_else(
            || message.downcast_ref::<&str>().expect("panic messages are text").to_string(),
            String::clone,
        );
        assert!(
            message.starts_with(&format!("{constraint}:")),
            "case {number}: {message:?} does not cite {constraint}"
        );
    }
}
