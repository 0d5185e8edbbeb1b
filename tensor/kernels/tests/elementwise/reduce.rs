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
    spread(
        &View::of_slice(&x, &[400, 3], &[3, 1]),
        &[true, false],
        1.0,
        false,
        &mut ViewMut::of_slice(&mut v, &[3], &[1]),
        &mut ViewMut::of_slice(&mut m, &[3], &[1]),
    )
    .unwrap();
    for c in 0..3 {
        let col: Vec<f64> = (0..400).map(|r| x[r * 3 + c] as f64).collect();
        let mean = col.iter().sum::<f64>() / 400.0;
        let want = col.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 399.0;
        assert!((m[c] as f64 - mean).abs() < 2e-3 && (v[c] as f64 / want - 1.0).abs() < 1e-6);
    }
}

/// A standard deviation and a mean in `f64`, of the elements that belong to each result.
fn spread_of(columns: &[Vec<f64>], correction: f64) -> Vec<[f64; 2]> {
    let one = |x: &Vec<f64>| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let squares = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        [(squares / (x.len() as f64 - correction)).sqrt(), mean]
    };
    columns.iter().map(one).collect()
}

#[test]
fn deviations_of_any_layout_and_scale_are_those_of_f64() {
    // Rows, columns of few and of many, pieces of long reductions, and a dimension between kept ones.
    let shapes: [(&[usize], &[bool]); 7] = [
        (&[70_001], &[true]),
        (&[3, 130], &[false, true]),
        (&[5, 700], &[true, false]),
        (&[9_000, 9], &[true, false]),
        (&[4, 50, 6], &[false, true, false]),
        (&[2, 3, 40], &[true, false, true]),
        (&[3, 70_000], &[false, true]),
    ];
    for scale in [1.0, 1e19, 1e-21] {
        for (sizes, mask) in shapes {
            let n: usize = sizes.iter().product();
            let strides: Vec<usize> = (0..sizes.len()).map(|d| sizes[d + 1..].iter().product()).collect();
            let x: Vec<f32> = (0..n).map(|i| (scale * ((i * 7919 % 1000) as f64 / 300.0 - 1.0)) as f32).collect();
            let kept: Vec<usize> = (0..sizes.len()).filter(|&d| !mask[d]).map(|d| sizes[d]).collect();
            let results: usize = kept.iter().product();
            let mut columns = vec![Vec::new(); results];
            for (i, v) in x.iter().enumerate() {
                let at =
                    (0..sizes.len()).filter(|&d| !mask[d]).fold(0, |at, d| at * sizes[d] + i / strides[d] % sizes[d]);
                columns[at].push(f64::from(*v));
            }
            let to: Vec<usize> = (0..kept.len()).map(|d| kept[d + 1..].iter().product()).collect();
            let (mut y, mut m) = (vec![0f32; results], vec![0f32; results]);
            let (mut out, mut mean) = (ViewMut::of_slice(&mut y, &kept, &to), ViewMut::of_slice(&mut m, &kept, &to));
            spread(&View::of_slice(&x, sizes, &strides), mask, 1.0, true, &mut out, &mut mean).unwrap();
            let wide: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
            let (mut y64, mut m64) = (vec![0f64; results], vec![0f64; results]);
            let (mut out, mut mean) =
                (ViewMut::of_slice(&mut y64, &kept, &to), ViewMut::of_slice(&mut m64, &kept, &to));
            spread(&View::of_slice(&wide, sizes, &strides), mask, 1.0, true, &mut out, &mut mean).unwrap();
            for (r, want) in spread_of(&columns, 1.0).iter().enumerate() {
                let close = |got: f64, want: f64, eps: f64| (got - want).abs() <= eps * want.abs().max(scale);
                assert!(close(y[r].into(), want[0], 1e-7) && close(m[r].into(), want[1], 1e-7), "{sizes:?} {scale}");
                assert!(close(y64[r], want[0], 1e-13) && close(m64[r], want[1], 1e-13), "{sizes:?} {scale}");
            }
        }
    }
}

#[test]
fn deviations_of_nothing_and_of_infinities_are_nan() {
    for x in [&[][..], &[1.0f32, f32::INFINITY, 2.0], &[f32::INFINITY, 1.0, 2.0], &[f32::NAN, 1.0]] {
        let (mut y, mut m) = ([0f32], [0f32]);
        let (mut out, mut mean) = (ViewMut::of_slice(&mut y, &[], &[]), ViewMut::of_slice(&mut m, &[], &[]));
        spread(&View::of_slice(x, &[x.len()], &[1]), &[true], 1.0, false, &mut out, &mut mean).unwrap();
        assert!(y[0].is_nan() && (m[0].is_nan() || x.contains(&f32::INFINITY) && m[0] == f32::INFINITY), "{x:?}");
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
