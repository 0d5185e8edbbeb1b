use super::*;
use torchtpu_kernels::copy::*;
use torchtpu_kernels::creation::*;

#[test]
fn copies_convert_between_all_dtypes() {
    for from in real_dtypes() {
        for to in real_dtypes() {
            for (sizes, strides) in layouts() {
                for so in &strides[..3] {
                    for sa in &strides[..2] {
                        let a = Array::random(from, &sizes, sa, 5);
                        let mut out = Array::new(to, &sizes, so);
                        copy(&a.view(), &mut out.view_mut());
                        for (x, r) in a.get().iter().zip(out.get()) {
                            assert_eq!(r, round_to(*x, to), "{from:?} -> {to:?}: {x}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn halves_convert_bit_for_bit() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let n = all.len();
    let mut wide = vec![0f32; n];
    copy(&View::of_slice(&all, &[n], &[1]), &mut ViewMut::of_slice(&mut wide, &[n], &[1]));
    let mut back = vec![f16::ZERO; n];
    copy(&View::of_slice(&wide, &[n], &[1]), &mut ViewMut::of_slice(&mut back, &[n], &[1]));
    for i in 0..n {
        assert!(all[i].to_f32() == wide[i] || wide[i].is_nan() == all[i].is_nan() && wide[i].is_nan());
        assert!(back[i] == all[i] || all[i].is_nan() && back[i].is_nan());
    }
    let x: Vec<f32> = (0..500_000u32).map(|i| f32::from_bits(i.wrapping_mul(8_597))).collect();
    let n = x.len();
    let (mut h, mut b) = (vec![f16::ZERO; n], vec![bf16::ZERO; n]);
    copy(&View::of_slice(&x, &[n], &[1]), &mut ViewMut::of_slice(&mut h, &[n], &[1]));
    copy(&View::of_slice(&x, &[n], &[1]), &mut ViewMut::of_slice(&mut b, &[n], &[1]));
    for i in 0..n {
        assert!(
            x[i].is_nan() && h[i].is_nan() && b[i].is_nan()
                || h[i] == f16::from_f32(x[i]) && b[i] == bf16::from_f32(x[i]),
            "{}",
            x[i]
        );
    }
}

#[test]
fn creation_kernels_follow_their_formulas() {
    let mut a = [0i64; 4];
    arange(Scalar::Int(3), Scalar::Int(-2), &mut ViewMut::of_slice(&mut a, &[4], &[1]));
    assert_eq!(a, [3, 1, -1, -3]);
    let mut l = [0f32; 5];
    linspace(0.0, 1.0, &mut ViewMut::of_slice(&mut l, &[5], &[1]));
    assert_eq!(l, [0.0, 0.25, 0.5, 0.75, 1.0]);
    let mut e = [7f32; 6];
    eye(&mut ViewMut::of_slice(&mut e, &[2, 3], &[3, 1]));
    assert_eq!(e, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let x = [1i32, 2, 3, 4, 5, 6];
    let mut t = [0i32; 6];
    tril(&View::of_slice(&x, &[2, 3], &[3, 1]), 0, &mut ViewMut::of_slice(&mut t, &[2, 3], &[3, 1]));
    assert_eq!(t, [1, 0, 0, 4, 5, 0]);
    triu(&View::of_slice(&x, &[2, 3], &[3, 1]), 1, &mut ViewMut::of_slice(&mut t, &[2, 3], &[3, 1]));
    assert_eq!(t, [0, 2, 3, 0, 0, 6]);
}
