//! Tests of sorting, selection and searching against the definitions.

use torchtpu_kernels::sort::*;
use torchtpu_kernels::{Element, View, ViewMut, bf16, f16};

const NAN: f32 = f32::NAN;

/// Return deterministic numbers with many ties.
fn noise(n: usize, modulo: u64) -> Vec<i64> {
    let mut s = 88_172_645_463_325_252u64;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s % modulo) as i64 - (modulo / 2) as i64
        })
        .collect()
}

fn sort_row<T: Element>(x: &[T], descending: bool) -> (Vec<T>, Vec<i64>) {
    let n = x.len();
    let (mut v, mut i) = (vec![T::default(); n], vec![0i64; n]);
    sort(
        &View::of_slice(x, &[n], &[1]),
        0,
        descending,
        true,
        &mut ViewMut::of_slice(&mut v, &[n], &[1]),
        &mut ViewMut::of_slice(&mut i, &[n], &[1]),
    );
    (v, i)
}

fn sorts_stably<T: Element + PartialOrd>(n: usize) {
    let x: Vec<T> = noise(n, 50).into_iter().map(T::from_i64).collect();
    for descending in [false, true] {
        let mut want: Vec<i64> = (0..n as i64).collect();
        want.sort_by(|&a, &b| {
            let order = x[a as usize].partial_cmp(&x[b as usize]).expect("no NaN");
            if descending { order.reverse() } else { order }
        });
        let (v, i) = sort_row(&x, descending);
        assert_eq!(i, want);
        assert!(v.iter().zip(&i).all(|(v, &i)| *v == x[i as usize]));
    }
}

#[test]
fn every_dtype_sorts_stably() {
    for n in [0, 1, 2, 100, 70_000] {
        sorts_stably::<bool>(n);
        sorts_stably::<u8>(n);
        sorts_stably::<i8>(n);
        sorts_stably::<i16>(n);
        sorts_stably::<i32>(n);
        sorts_stably::<i64>(n);
        sorts_stably::<f16>(n);
        sorts_stably::<bf16>(n);
        sorts_stably::<f32>(n);
        sorts_stably::<f64>(n);
    }
}

#[test]
fn nan_is_greatest_and_zeros_are_equal() {
    let (v, i) = sort_row(&[1.0, NAN, -0.0, 0.0, f32::INFINITY, -NAN, f32::NEG_INFINITY], false);
    assert_eq!(i, [6, 2, 3, 0, 4, 1, 5]);
    assert!(v[1].is_sign_negative() && v[2].is_sign_positive(), "the values themselves are kept");
    let (_, i) = sort_row(&[1.0, f64::NAN, -0.0, 0.0], true);
    assert_eq!(i, [1, 0, 2, 3]);
    assert_eq!(sort_row(&[i64::MAX, i64::MIN, -1, 0], false).1, [1, 2, 3, 0]);
}

#[test]
fn every_dim_and_layout_sorts() {
    let x = [3.0f32, 1.0, 2.0, 0.0, 5.0, 4.0];
    let (mut v, mut i) = ([0.0f32; 6], [0i64; 6]);
    // [2, 3], along the outer dimension, to transposed outputs.
    sort(
        &View::of_slice(&x, &[2, 3], &[3, 1]),
        0,
        false,
        false,
        &mut ViewMut::of_slice(&mut v, &[2, 3], &[1, 2]),
        &mut ViewMut::of_slice(&mut i, &[2, 3], &[1, 2]),
    );
    assert_eq!(v, [0.0, 3.0, 1.0, 5.0, 2.0, 4.0]);
    assert_eq!(i, [1, 0, 0, 1, 0, 1]);
    let (mut v, mut i) = ([0.0f32], [9i64]);
    sort(
        &View::of_slice(&[7.0f32], &[], &[]),
        0,
        false,
        false,
        &mut ViewMut::of_slice(&mut v, &[], &[]),
        &mut ViewMut::of_slice(&mut i, &[], &[]),
    );
    assert_eq!((v[0], i[0]), (7.0, 0));
}

#[test]
fn topk_returns_the_ends_of_the_sorted_row() {
    for (n, k) in [(1, 1), (5, 5), (20, 7), (1000, 3), (1000, 15), (1000, 500), (1000, 1000)] {
        let x: Vec<f32> = noise(n, 300).into_iter().map(|v| v as f32).collect();
        for largest in [false, true] {
            let all = sort_row(&x, largest).0;
            for sorted in [true, false] {
                let (mut v, mut i) = (vec![0f32; k], vec![0i64; k]);
                topk(
                    &View::of_slice(&x, &[n], &[1]),
                    k,
                    0,
                    largest,
                    sorted,
                    &mut ViewMut::of_slice(&mut v, &[k], &[1]),
                    &mut ViewMut::of_slice(&mut i, &[k], &[1]),
                )
                .unwrap();
                assert!(v.iter().zip(&i).all(|(v, &i)| *v == x[i as usize]));
                let mut distinct = i.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), k);
                if !sorted {
                    v = sort_row(&v, largest).0;
                }
                assert_eq!(v, all[..k]);
            }
        }
    }
    let x = View::of_slice(&[1.0f32], &[1], &[1]);
    let (mut v, mut i) = ([0f32; 2], [0i64; 2]);
    let r = topk(
        &x,
        2,
        0,
        true,
        true,
        &mut ViewMut::of_slice(&mut v, &[2], &[1]),
        &mut ViewMut::of_slice(&mut i, &[2], &[1]),
    );
    assert_eq!(r.unwrap_err().to_string(), "selected index k out of range");
}

fn one<T: Element>(
    x: &[T],
    pick: impl Fn(&View, &mut ViewMut, &mut ViewMut) -> Result<(), torchtpu_kernels::KernelError>,
) -> (T, i64) {
    let (mut v, mut i) = ([T::default()], [0i64]);
    let n = x.len();
    pick(
        &View::of_slice(x, &[n], &[1]),
        &mut ViewMut::of_slice(&mut v, &[1], &[1]),
        &mut ViewMut::of_slice(&mut i, &[1], &[1]),
    )
    .unwrap();
    (v[0], i[0])
}

#[test]
fn kthvalue_and_median_agree_with_sorting() {
    for n in [1, 2, 3, 10, 101, 1000] {
        let x: Vec<f64> = noise(n, 40).into_iter().map(|v| v as f64).collect();
        let all = sort_row(&x, false).0;
        for k in [1, n.div_ceil(2), n] {
            let (v, i) = one(&x, |x, v, i| kthvalue(x, k, 0, v, i));
            assert_eq!((v, x[i as usize]), (all[k - 1], v));
        }
        let (v, i) = one(&x, |x, v, i| median(x, 0, false, v, i));
        assert_eq!((v, x[i as usize]), (all[(n - 1) / 2], v));
    }
    let x = [3.0, NAN, 1.0, 2.0, NAN];
    let (v, i) = one(&x, |x, v, i| median(x, 0, false, v, i));
    assert!(v.is_nan() && i == 1);
    assert_eq!(one(&x, |x, v, i| median(x, 0, true, v, i)), (2.0, 3));
    assert!(one(&[NAN, NAN], |x, v, i| median(x, 0, true, v, i)).0.is_nan());
    assert_eq!(one(&x, |x, v, i| kthvalue(x, 3, 0, v, i)).0, 3.0);
    let (mut v, mut i) = ([0f32], [0i64]);
    let (v, i) = (&mut ViewMut::of_slice(&mut v, &[1], &[1]), &mut ViewMut::of_slice(&mut i, &[1], &[1]));
    let empty = View::of_slice::<f32>(&[], &[0], &[1]);
    assert!(median(&empty, 0, false, v, i).is_err());
    assert!(kthvalue(&View::of_slice(&[1.0f32], &[1], &[1]), 2, 0, v, i).is_err());
}

#[test]
fn unique_sorts_counts_and_maps_back() {
    let x = [3i64, 1, 3, 2, 1, 3];
    let u = unique(&View::of_slice(&x, &[2, 3], &[3, 1]), true, true);
    assert_eq!(u.first.iter().map(|&i| x[i as usize]).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(u.inverse, [2, 0, 2, 1, 0, 2]);
    assert_eq!(u.counts, [2, 1, 3]);
    let u = unique_consecutive(&View::of_slice(&[1u8, 1, 2, 1], &[4], &[1]), true, true);
    assert_eq!((u.first, u.inverse, u.counts), (vec![0, 2, 3], vec![0, 0, 1, 2], vec![2, 1, 1]));
    assert_eq!(unique(&View::of_slice(&[NAN, 1.0, NAN], &[3], &[1]), false, false).first, [1, 0, 2]);
    assert_eq!(unique(&View::of_slice::<f32>(&[], &[0], &[1]), true, true), Unique::default());
}

#[test]
fn searchsorted_finds_both_sides_of_equal_values() {
    let rows = [1.0f32, 3.0, 3.0, 5.0, 0.0, 0.0, 2.0, 9.0];
    let values = [3.0f32, NAN, 0.0, 9.5];
    let mut out = [0i64; 4];
    let sizes = ([2, 4], [4, 1], [2, 2], [2, 1]);
    let run = |right, out: &mut [i64]| {
        let mut o = ViewMut::of_slice(out, &sizes.2, &sizes.3);
        searchsorted(
            &View::of_slice(&rows, &sizes.0, &sizes.1),
            &View::of_slice(&values, &sizes.2, &sizes.3),
            right,
            None,
            &mut o,
        )
    };
    run(false, &mut out).unwrap();
    assert_eq!(out, [1, 4, 0, 4]);
    run(true, &mut out).unwrap();
    assert_eq!(out, [3, 4, 2, 4]);
    // One row for all values, sorted by a sorter, with positions in i32.
    let (shuffled, order, mut out) = ([5i32, 1, 3], [1i64, 2, 0], [0i32; 4]);
    let order = View::of_slice(&order, &[3], &[1]);
    searchsorted(
        &View::of_slice(&shuffled, &[3], &[1]),
        &View::of_slice(&[0i32, 3, 4, 6], &[4], &[1]),
        false,
        Some(&order),
        &mut ViewMut::of_slice(&mut out, &[4], &[1]),
    )
    .unwrap();
    assert_eq!(out, [0, 1, 2, 3]);
}

#[test]
fn bincount_counts_and_weighs() {
    let x = View::of_slice(&[1u8, 3, 1], &[3], &[1]);
    assert_eq!(bincount_len(&x, 0).unwrap(), 4);
    assert_eq!(bincount_len(&x, 6).unwrap(), 6);
    let (mut counts, mut sums) = ([9i64; 4], [0f64; 4]);
    bincount(&x, None, &mut ViewMut::of_slice(&mut counts, &[4], &[1])).unwrap();
    assert_eq!(counts, [0, 2, 0, 1]);
    let w = View::of_slice(&[0.5, 2.0, 0.25], &[3], &[1]);
    bincount(&x, Some(&w), &mut ViewMut::of_slice(&mut sums, &[4], &[1])).unwrap();
    assert_eq!(sums, [0.0, 0.75, 0.0, 2.0]);
    let negative = View::of_slice(&[-1i64], &[1], &[1]);
    assert_eq!(
        bincount_len(&negative, 0).unwrap_err().to_string(),
        "bincount only supports 1-d non-negative integral inputs."
    );
}

#[test]
fn histc_counts_in_given_bins_and_in_the_range_of_the_data() {
    let x = [1.0f32, 2.0, 1.0, 4.0, NAN, 7.0];
    let run = |x: &[f32], min, max, bins: usize| {
        let mut out = vec![0f32; bins];
        histc(&View::of_slice(x, &[x.len()], &[1]), min, max, &mut ViewMut::of_slice(&mut out, &[bins], &[1]))
            .map(|()| out)
    };
    assert_eq!(run(&x, 0.0, 4.0, 4).unwrap(), [0.0, 2.0, 1.0, 1.0], "the upper edge belongs to the last bin");
    assert_eq!(run(&x[..4], 0.0, 0.0, 3).unwrap(), [2.0, 1.0, 1.0]);
    assert_eq!(run(&[2.0, 2.0], 0.0, 0.0, 2).unwrap(), [0.0, 2.0]);
    assert!(run(&x, 0.0, 0.0, 3).unwrap_err().to_string().contains("is not finite"));
    assert!(run(&x, 3.0, 1.0, 3).unwrap_err().to_string().contains("max must be larger than min"));
}

#[test]
fn median_and_mode_find_pytorchs_positions_among_equal_elements() {
    for (x, middle, last) in [
        (vec![1.0, 1.0, 1.0, 1.0], 1, 3),
        (vec![1.0, 0.0, 1.0, 2.0], 0, 2),
        (vec![1.0, 1.0, 0.0, 2.0, 1.0], 1, 4),
        (vec![3.0; 6], 2, 5),
    ] {
        assert_eq!(one(&x, |x, v, i| median(x, 0, false, v, i)).1, middle, "{x:?}");
        assert_eq!(one(&x, |x, v, i| median(x, 0, true, v, i)).1, middle, "{x:?}");
        assert_eq!(one(&x, |x, v, i| mode(x, 0, v, i)).1, last, "{x:?}");
    }
    // Comparisons with NaN are false, so NaN part the others.
    assert_eq!(one(&[1.0, NAN, 1.0, NAN, NAN], |x, v, i| mode(x, 0, v, i)), (1.0, 0));
    assert_eq!(one(&[NAN, 2.0, 2.0, NAN, 3.0], |x, v, i| mode(x, 0, v, i)), (2.0, 2));
}
