use super::*;
use torchtpu_kernels::reduce::*;
use torchtpu_kernels::scan::*;

#[test]
fn reductions_equal_plain_loops_for_every_dtype_layout_and_mask() {
    for dtype in real_dtypes() {
        for (sizes, strides) in layouts() {
            for sa in &strides {
                let x = Array::random(dtype, &sizes, sa, 6);
                let v = x.get();
                for bits in 0..1u32 << sizes.len() {
                    let mask: Vec<bool> = (0..sizes.len()).map(|d| bits >> d & 1 == 1).collect();
                    let kept: Vec<usize> = (0..sizes.len()).filter(|&d| !mask[d]).map(|d| sizes[d]).collect();
                    let length: usize = (0..sizes.len()).filter(|&d| mask[d]).map(|d| sizes[d]).product();
                    let sum_dtype = if dtype.is_float() { dtype } else { DType::I64 };
                    let mut want = vec![(0.0, f64::NEG_INFINITY, false, 0.0); kept.iter().product()];
                    for (i, v) in v.iter().enumerate() {
                        let (mut rest, mut at, mut step) = (i, 0, 1);
                        for d in (0..sizes.len()).rev() {
                            let k = rest % sizes[d];
                            rest /= sizes[d];
                            if !mask[d] {
                                at += k * step;
                                step *= sizes[d];
                            }
                        }
                        let w: &mut (f64, f64, bool, f64) = &mut want[at];
                        *w = (w.0 + v, w.1.max(*v), w.2 | (*v != 0.0), w.3 + v.abs());
                    }
                    let c = contiguous(&kept);
                    let mut sum = Array::new(sum_dtype, &kept, &c);
                    reduce(ReduceKind::Sum, &x.view(), &mask, &mut sum.view_mut()).unwrap();
                    let mut any = Array::new(DType::Bool, &kept, &c);
                    reduce(ReduceKind::Any, &x.view(), &mask, &mut any.view_mut()).unwrap();
                    let (sum, any) = (sum.get(), any.get());
                    let what = format!("{dtype:?} {sizes:?} {sa:?} {mask:?}");
                    let eps = match dtype {
                        DType::F16 => 1e-3,
                        DType::BF16 => 8e-3,
                        _ => 1e-6,
                    };
                    for i in 0..want.len() {
                        assert!(
                            (sum[i] - want[i].0).abs() <= eps * want[i].0.abs() + 1e-6 * want[i].3,
                            "{what}: {} not {}",
                            sum[i],
                            want[i].0
                        );
                        assert_eq!(any[i] != 0.0, want[i].2, "{what}");
                    }
                    if length > 0 {
                        let mut max = Array::new(dtype, &kept, &c);
                        reduce(ReduceKind::Max, &x.view(), &mask, &mut max.view_mut()).unwrap();
                        for (a, b) in max.get().iter().zip(&want) {
                            assert_eq!(*a, b.1, "{what}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn empty_reductions_give_the_identity() {
    let x: [f32; 0] = [];
    for (kind, want) in [(ReduceKind::Sum, 0.0), (ReduceKind::Prod, 1.0), (ReduceKind::Max, f32::NEG_INFINITY)] {
        let mut out = [5f32; 3];
        reduce(
            kind,
            &View::of_slice(&x, &[3, 0], &[1, 1]),
            &[false, true],
            &mut ViewMut::of_slice(&mut out, &[3], &[1]),
        )
        .unwrap();
        assert_eq!(out, [want; 3]);
    }
    let mut out = [false; 1];
    reduce(ReduceKind::All, &View::of_slice(&x, &[0], &[1]), &[true], &mut ViewMut::of_slice(&mut out, &[], &[]))
        .unwrap();
    assert!(out[0]);
}

#[test]
fn long_f32_sums_are_within_a_few_ulp() {
    let n = 3_000_001;
    let x = vec![0.1f32; n];
    let mut out = [0f32];
    reduce(ReduceKind::Sum, &View::of_slice(&x, &[n], &[1]), &[true], &mut ViewMut::of_slice(&mut out, &[], &[]))
        .unwrap();
    let want = 0.1f32 as f64 * n as f64;
    assert!((out[0] as f64 / want - 1.0).abs() < 3e-7, "{} {want}", out[0]);
}

#[test]
fn nan_is_the_extreme_and_its_position_is_found() {
    let x = [1.0f32, f32::NAN, 3.0, f32::NAN];
    let v = View::of_slice(&x, &[4], &[1]);
    let (mut m, mut at) = ([0f32], [0i64]);
    for max in [true, false] {
        let kind = if max { ReduceKind::Max } else { ReduceKind::Min };
        reduce(kind, &v, &[true], &mut ViewMut::of_slice(&mut m, &[], &[])).unwrap();
        arg_reduce(max, &v, 0, &mut ViewMut::of_slice(&mut at, &[], &[])).unwrap();
        assert!(m[0].is_nan() && at[0] == 1);
    }
}

#[test]
fn variance_and_mean_follow_their_formulas() {
    let x: Vec<f32> = (0..1200).map(|i| 1e4 + (i % 7) as f32).collect();
    let (mut m, mut v) = ([0f32; 3], [0f32; 3]);
    var(
        &View::of_slice(&x, &[400, 3], &[3, 1]),
        &[true, false],
        1.0,
        Some(&mut ViewMut::of_slice(&mut m, &[3], &[1])),
        &mut ViewMut::of_slice(&mut v, &[3], &[1]),
    )
    .unwrap();
    for c in 0..3 {
        let col: Vec<f64> = (0..400).map(|r| x[r * 3 + c] as f64).collect();
        let mean = col.iter().sum::<f64>() / 400.0;
        let want = col.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 399.0;
        assert!((m[c] as f64 - mean).abs() < 2e-3 && (v[c] as f64 / want - 1.0).abs() < 1e-6);
    }
}

#[test]
fn scans_run_along_their_dimension() {
    let x = [1i32, 5, 2, 4, 4, 3];
    let v = View::of_slice(&x, &[2, 3], &[3, 1]);
    let mut out = [0i64; 6];
    cumsum(&v, 1, &mut ViewMut::of_slice(&mut out, &[2, 3], &[3, 1])).unwrap();
    assert_eq!(out, [1, 6, 8, 4, 8, 11]);
    cumprod(&v, 0, &mut ViewMut::of_slice(&mut out, &[2, 3], &[3, 1])).unwrap();
    assert_eq!(out, [1, 5, 2, 4, 20, 6]);
    let (mut m, mut at) = ([0i32; 6], [0i64; 6]);
    cummax(&v, 1, &mut ViewMut::of_slice(&mut m, &[2, 3], &[3, 1]), &mut ViewMut::of_slice(&mut at, &[2, 3], &[3, 1]));
    assert_eq!((m, at), ([1, 5, 5, 4, 4, 4], [0, 1, 1, 0, 1, 1]));
    let y = [f32::NEG_INFINITY, 1000.0, 1000.0];
    let mut l = [0f32; 3];
    logcumsumexp(&View::of_slice(&y, &[3], &[1]), 0, &mut ViewMut::of_slice(&mut l, &[3], &[1])).unwrap();
    assert_eq!(l, [f32::NEG_INFINITY, 1000.0, 1000.0 + std::f32::consts::LN_2]);
}
