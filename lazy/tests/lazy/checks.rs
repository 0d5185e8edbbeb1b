//! Tests of errors that depend on values: they belong to the values, in every mode and on every path.

use crate::{tpu, turn, values};
use torchtpu_lazy::{self as lazy, EagerMode, Interpret};
use torchtpu_tensor::{Device, ErrorKind, Tensor, backend, inplace, ops, state};

fn index(i: &[i64]) -> Tensor {
    Tensor::from_slice_on(i, &[i.len()], Device::TPU).unwrap()
}

fn rows(x: &Tensor, i: &[i64]) -> Tensor {
    ops::indexing::index_select(x, 0, &index(i)).unwrap()
}

fn is_wrong(x: &Tensor) -> bool {
    match x.to_vec::<f32>() {
        Ok(_) => false,
        Err(e) => {
            assert_eq!((e.kind(), e.message()), (ErrorKind::Index, "index out of range in self"));
            true
        }
    }
}

/// Run a test in all modes, with checks that are settled early and late. `f` leaves no errors that were not raised.
fn everywhere(f: impl Fn()) {
    let _turn = turn();
    for mode in [EagerMode::Fused, EagerMode::Strict] {
        for interpret in [Interpret::Never, Interpret::New, Interpret::Always] {
            for early in [true, false] {
                lazy::set_eager_mode(mode);
                lazy::set_interpret(interpret);
                lazy::set_early_checks(early);
                f();
                lazy::set_early_checks(true);
                lazy::synchronize().unwrap();
            }
        }
    }
}

#[test]
fn an_error_stays_with_its_value() {
    everywhere(|| {
        let x = tpu(&[1.0, 2.0, 3.0], &[3]);
        let (y, z) = (rows(&x, &[0, 7]), rows(&x, &[2, 1]));
        let after = y.add(&z).unwrap();
        for _ in 0..2 {
            assert!(is_wrong(&y) && is_wrong(&after) && is_wrong(&after.mul_scalar(2.0).unwrap()));
            assert_eq!(values(&z), [3.0, 2.0]);
        }
        assert!(is_wrong(&y.add(&z).unwrap()), "after the segment was cut");
    });
}

#[test]
fn a_step_keeps_the_old_values() {
    everywhere(|| {
        let x = tpu(&[1.0, 2.0, 3.0], &[3]);
        let be = backend::get().unwrap();
        let p = tpu(&[5.0, 6.0], &[2]);
        let mut want = [5.0, 6.0];
        for k in 0..4 {
            let bad = k == 2;
            let g = rows(&x, if bad { &[1, 9] } else { &[0, 1] });
            lazy::step_begins(1, false);
            let known = be.has_checks() && be.step_reads(&[g.device_value().unwrap()]).is_err();
            assert!(!known || bad);
            if !known {
                state::no_grad(|| inplace::assign(&p, &p.sub(&g).unwrap())).unwrap();
            }
            lazy::step_boundary();
            let _ = be.step_errors();
            if !bad {
                want = [want[0] - 1.0, want[1] - 2.0];
            }
        }
        assert_eq!(values(&p), want);
        let _ = lazy::synchronize();
    });
}

#[test]
fn an_ordinary_write_takes_the_error() {
    everywhere(|| {
        let x = tpu(&[1.0, 2.0, 3.0], &[3]);
        let y = tpu(&[0.0, 0.0], &[2]);
        inplace::assign(&y, &rows(&x, &[0, 3])).unwrap();
        assert!(is_wrong(&y) && is_wrong(&y));
        inplace::assign(&y, &rows(&x, &[0, 1])).unwrap();
        assert_eq!(values(&y), [1.0, 2.0]);
    });
}

#[test]
fn what_is_shown_is_still_raised() {
    everywhere(|| {
        let y = rows(&tpu(&[1.0], &[1]), &[4]);
        assert!(y.to_string().contains("<unreadable: index out of range in self"), "{y}");
        assert_eq!(lazy::synchronize().unwrap_err().kind(), ErrorKind::Index);
        lazy::synchronize().unwrap();
        assert!(is_wrong(&y));
    });
}

#[test]
fn checks_of_indices_from_the_host_leave_the_program_as_it_is() {
    let _turn = turn();
    let x = tpu(&vec![1.0; 300_000], &[300_000]);
    for k in 0..3 {
        let y = rows(&x, &[k, 1]);
        assert!(!lazy::has_checks());
        assert_eq!(values(&y), [1.0, 1.0]);
    }
    assert_eq!(lazy::metrics().compilations, 1);
}

#[test]
fn a_loop_of_checks_keeps_none() {
    let _turn = turn();
    lazy::set_early_checks(false);
    let x = tpu(&[1.0, 2.0, 3.0], &[3]);
    let mut y = rows(&x, &[0, 1]);
    for k in 0..300 {
        y = y.add(&rows(&x, &[k % 3, 1])).unwrap();
        lazy::step_boundary();
    }
    assert_eq!(values(&y)[1], 602.0);
    lazy::set_early_checks(true);
    lazy::synchronize().unwrap();
    assert!(!lazy::has_checks());
}
