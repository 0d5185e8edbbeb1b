//! Tests of gather, scatter, advanced indexing and masks against plain loops.

use torchtpu_kernels::index::*;
use torchtpu_kernels::{Element, KernelError, View, ViewMut, bf16, f16};

fn strides(sizes: &[usize]) -> Vec<usize> {
    (0..sizes.len()).map(|d| sizes[d + 1..].iter().product()).collect()
}

/// A dense tensor for tests.
#[derive(Clone, PartialEq, Debug)]
struct Dense<T> {
    data: Vec<T>,
    sizes: Vec<usize>,
    strides: Vec<usize>,
}

impl<T: Element> Dense<T> {
    fn new(sizes: &[usize], data: Vec<T>) -> Dense<T> {
        assert_eq!(data.len(), sizes.iter().product());
        Dense { data, sizes: sizes.to_vec(), strides: strides(sizes) }
    }
    fn iota(sizes: &[usize]) -> Dense<T> {
        Dense::new(sizes, (0..sizes.iter().product::<usize>()).map(|i| T::from_i64(i as i64 % 97)).collect())
    }
    fn zeros(sizes: &[usize]) -> Dense<T> {
        Dense::new(sizes, vec![T::default(); sizes.iter().product()])
    }
    fn v(&self) -> View<'_> {
        View::of_slice(&self.data, &self.sizes, &self.strides)
    }
    fn m(&mut self) -> ViewMut<'_> {
        ViewMut::of_slice(&mut self.data, &self.sizes, &self.strides)
    }
    /// Return the same memory with the first two dimensions exchanged.
    fn transposed(mut self) -> Dense<T> {
        self.sizes.swap(0, 1);
        self.strides.swap(0, 1);
        self
    }
    fn at(&self, i: &[usize]) -> T {
        self.data[i.iter().zip(&self.strides).map(|(i, s)| i * s).sum::<usize>()]
    }
}

fn longs(sizes: &[usize], v: &[i64]) -> Dense<i64> {
    Dense::new(sizes, v.to_vec())
}

fn out_of_range(r: Result<(), KernelError>, text: &str) {
    assert_eq!(r, Err(KernelError::IndexOutOfRange(text.into())));
}

fn gather_both_dims<T: Element>() {
    for x in [Dense::<T>::iota(&[3, 4]), Dense::<T>::iota(&[4, 3]).transposed()] {
        let index = longs(&[2, 3], &[0, 3, 1, 2, 2, 0]);
        let mut out = Dense::<T>::zeros(&[2, 3]);
        gather(&x.v(), 1, &index.v(), &mut out.m()).unwrap();
        for i in 0..2 {
            for j in 0..3 {
                assert_eq!(out.at(&[i, j]), x.at(&[i, index.at(&[i, j]) as usize]));
            }
        }
        let index = Dense::<i32>::new(&[2, 4], vec![0, 2, 1, 1, 2, 2, 0, 0]);
        let mut out = Dense::<T>::zeros(&[4, 2]).transposed();
        gather(&x.v(), 0, &index.v(), &mut out.m()).unwrap();
        for i in 0..2 {
            for j in 0..4 {
                assert_eq!(out.at(&[i, j]), x.at(&[index.at(&[i, j]) as usize, j]));
            }
        }
    }
}

#[test]
fn gather_works_for_every_dim_dtype_and_layout() {
    gather_both_dims::<bool>();
    gather_both_dims::<u8>();
    gather_both_dims::<i16>();
    gather_both_dims::<i64>();
    gather_both_dims::<bf16>();
    gather_both_dims::<f16>();
    gather_both_dims::<f32>();
    gather_both_dims::<f64>();
}

#[test]
fn indices_out_of_range_fail_with_pytorchs_message_and_write_nothing() {
    let x = Dense::<f32>::iota(&[2, 3]);
    let mut out = Dense::<f32>::zeros(&[2, 1]);
    let five = longs(&[2, 1], &[0, 5]);
    let r = gather(&x.v(), 1, &five.v(), &mut out.m());
    out_of_range(r, "index 5 is out of bounds for dimension 1 with size 3");
    let r = gather(&x.v(), 1, &longs(&[2, 1], &[-1, 0]).v(), &mut out.m());
    out_of_range(r, "index -1 is out of bounds for dimension 1 with size 3");
    let mut y = x.clone();
    let r = scatter(&mut y.m(), 1, &five.v(), &Dense::<f32>::zeros(&[2, 1]).v());
    out_of_range(r, "index 5 is out of bounds for dimension 1 with size 3");
    let r = index_select(&x.v(), 0, &longs(&[1], &[2]).v(), &mut Dense::<f32>::zeros(&[1, 3]).m());
    out_of_range(r, "index out of range in self");
    let r = index_copy(&mut y.m(), 0, &longs(&[1], &[2]).v(), &Dense::<f32>::zeros(&[1, 3]).v());
    out_of_range(r, "index_copy_(): index 2 is out of bounds for dimension 0 with size 2");
    let r = index(&x.v(), &[longs(&[1], &[-3]).v()], &[0], &mut Dense::<f32>::zeros(&[1, 3]).m());
    out_of_range(r, "index -3 is out of bounds for dimension 0 with size 2");
    let r = index_fill(&mut y.m(), 0, &longs(&[1], &[2]).v(), &Dense::<f32>::zeros(&[]).v());
    out_of_range(r, "index 2 is out of bounds for dimension 0 with size 2");
    let r = take(&x.v(), &longs(&[1], &[6]).v(), &mut Dense::<f32>::zeros(&[1]).m());
    out_of_range(r, "out of range: tried to access index 6 on a tensor of 6 elements.");
    let r = take(&Dense::<f32>::zeros(&[0]).v(), &longs(&[1], &[0]).v(), &mut Dense::<f32>::zeros(&[1]).m());
    out_of_range(r, "take(): tried to take from an empty tensor");
    let r = put(&mut y.m(), &longs(&[1], &[-7]).v(), &Dense::<f32>::zeros(&[1]).v(), false);
    out_of_range(r, "out of range: tried to access index -7 on a tensor of 6 elements.");
    assert_eq!(y, x);
}

#[test]
fn index_select_copies_rows_and_columns_of_small_and_large_arrays() {
    for (sizes, dim) in [([5, 7, 3], 0), ([5, 7, 3], 1), ([5, 7, 3], 2), ([300, 40, 20], 0), ([300, 4, 200], 2)] {
        let x = Dense::<f32>::iota(&sizes);
        let n = sizes[dim];
        let at: Vec<i64> = (0..2 * n).map(|i| (i * 7 % n) as i64).collect();
        let mut out_sizes = sizes;
        out_sizes[dim] = 2 * n;
        let mut out = Dense::<f32>::zeros(&out_sizes);
        index_select(&x.v(), dim, &longs(&[2 * n], &at).v(), &mut out.m()).unwrap();
        for i in (0..out.data.len()).step_by(13) {
            let mut c = [i / out.strides[0], i / out.strides[1] % out_sizes[1], i % out_sizes[2]];
            let got = out.at(&c);
            c[dim] = at[c[dim]] as usize;
            assert_eq!(got, x.at(&c));
        }
    }
}

#[test]
fn scatter_keeps_the_last_of_equal_positions() {
    let mut out = Dense::<i32>::zeros(&[2, 4]);
    let src = Dense::<i32>::new(&[2, 3], vec![1, 2, 3, 4, 5, 6]);
    scatter(&mut out.m(), 1, &longs(&[2, 3], &[3, 0, 3, 1, 1, 2]).v(), &src.v()).unwrap();
    assert_eq!(out.data, [2, 0, 0, 3, 0, 5, 6, 0]);
    // A scalar is a view with zero strides.
    let seven = View::of_slice(&[7i32], &[2, 1], &[0, 0]);
    scatter(&mut out.m(), 1, &longs(&[2, 1], &[1, 3]).v(), &seven).unwrap();
    assert_eq!(out.data, [2, 7, 0, 3, 0, 5, 6, 7]);
}

#[test]
fn scatter_add_on_many_threads_loses_nothing() {
    let (rows, columns) = (400, 300);
    let index = Dense::<i64>::new(&[rows, columns], (0..rows * columns).map(|i| (i % 5) as i64).collect());
    let ones = Dense::<f32>::new(&[rows, columns], vec![1.0; rows * columns]);
    for dim in [0, 1] {
        let mut out = Dense::<f32>::zeros(if dim == 0 { &[5, 300] } else { &[400, 5] });
        scatter_add(&mut out.m(), dim, &index.v(), &ones.v()).unwrap();
        assert_eq!(out.data.iter().sum::<f32>(), (rows * columns) as f32);
        assert!(dim == 0 || out.data.iter().all(|&v| v == 60.0));
    }
}

#[test]
fn scatter_reduce_works_with_and_without_self() {
    let index = longs(&[4], &[0, 0, 1, 1]);
    let src = Dense::<f32>::new(&[4], vec![2.0, 4.0, -3.0, f32::NAN]);
    let run = |kind, include_self| {
        let mut out = Dense::<f32>::new(&[3], vec![3.0, 3.0, 9.0]);
        scatter_reduce(&mut out.m(), 0, &index.v(), &src.v(), kind, include_self).unwrap();
        assert_eq!(out.data[2], 9.0);
        assert!(out.data[1].is_nan());
        out.data[0]
    };
    assert_eq!(run(ScatterReduce::Sum, true), 9.0);
    assert_eq!(run(ScatterReduce::Sum, false), 6.0);
    assert_eq!(run(ScatterReduce::Prod, true), 24.0);
    assert_eq!(run(ScatterReduce::Prod, false), 8.0);
    assert_eq!(run(ScatterReduce::Mean, true), 3.0);
    assert_eq!(run(ScatterReduce::Mean, false), 3.0);
    assert_eq!(run(ScatterReduce::Amax, true), 4.0);
    assert_eq!(run(ScatterReduce::Amin, true), 2.0);
    assert_eq!(run(ScatterReduce::Amin, false), 2.0);
    let mut out = Dense::<i64>::new(&[1], vec![0]);
    scatter_reduce(&mut out.m(), 0, &longs(&[2], &[0, 0]).v(), &longs(&[2], &[-3, 0]).v(), ScatterReduce::Mean, false)
        .unwrap();
    assert_eq!(out.data, [-2], "integer means round down");
}

/// Compare a fold of 16-bit floats with that of `f32` and a rounding, in large and small arrays, dense and transposed.
fn folds_round_once<T: Element>() {
    use ScatterReduce::{Mean, Prod, Sum};
    for (columns, values) in [(6, 500), (3000, 40)] {
        let at: Vec<i64> = (0..2 * values).map(|i| (i * i % 7 % columns) as i64).collect();
        let index = Dense::<i64>::new(&[2, values], at);
        let number = |i: usize| 1.0 + (i % 5) as f64 / 64.0;
        let src: Vec<f64> = (0..2 * values).map(number).collect();
        let narrow = Dense::<T>::new(&[2, values], src.iter().map(|&v| T::from_f64(v)).collect());
        let wide = Dense::<f32>::new(&[2, values], narrow.data.iter().map(|v| v.to_f64() as f32).collect());
        for (kind, include_self) in [(Sum, true), (Sum, false), (Mean, true), (Mean, false), (Prod, true)] {
            let start = if kind == Prod { 0.001 } else { 255.0 };
            for is_transposed in [false, true] {
                let sizes = if is_transposed { [columns, 2] } else { [2, columns] };
                let mut y = Dense::<T>::new(&sizes, vec![T::from_f64(start); 2 * columns]);
                let first = y.data[0].to_f64() as f32;
                let mut want = Dense::<f32>::new(&sizes, vec![first; 2 * columns]);
                if is_transposed {
                    (y, want) = (y.transposed(), want.transposed());
                }
                scatter_reduce(&mut y.m(), 1, &index.v(), &narrow.v(), kind, include_self).unwrap();
                scatter_reduce(&mut want.m(), 1, &index.v(), &wide.v(), kind, include_self).unwrap();
                let rounded: Vec<T> = want.data.iter().map(|&v| T::from_f64(f64::from(v))).collect();
                assert_eq!(y.data, rounded, "{kind:?} {include_self} {columns} {is_transposed}");
            }
        }
    }
    // Rows of which some are equal, and rows that are all distinct.
    for rows in [[0i64, 0, 0, 2], [0, 1, 2, 3]] {
        let mut y = Dense::<T>::new(&[4, 3], vec![T::from_f64(256.0); 12]);
        let ones = Dense::<T>::new(&[4, 3], vec![T::from_f64(1.0); 12]);
        index_add(&mut y.m(), 0, &longs(&[4], &rows).v(), &ones.v(), 1.5).unwrap();
        let count = rows.iter().filter(|&&r| r == 0).count() as f64;
        assert_eq!(y.data[0], T::from_f64(256.0 + 1.5 * count));
        let mut points = Dense::<T>::new(&[4], vec![T::from_f64(256.0); 4]);
        index_put(&mut points.m(), &[longs(&[4], &rows).v()], &[0], &View::of_slice(&ones.data, &[4], &[1]), true)
            .unwrap();
        assert_eq!(points.data[0], T::from_f64(256.0 + count));
        let mut places = Dense::<T>::new(&[2, 2], vec![T::from_f64(256.0); 4]);
        put(&mut places.m(), &longs(&[4], &rows).v(), &View::of_slice(&ones.data, &[4], &[1]), true).unwrap();
        assert_eq!(places.data[0], T::from_f64(256.0 + count));
    }
}

#[test]
fn sums_and_products_of_16_bit_floats_round_once() {
    folds_round_once::<f16>();
    folds_round_once::<bf16>();
}

#[test]
fn index_add_copy_and_fill_work_on_rows_and_columns() {
    let mut out = Dense::<f32>::zeros(&[3, 2]);
    let src = Dense::<f32>::new(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]);
    index_add(&mut out.m(), 0, &longs(&[2], &[2, 2]).v(), &src.v(), 0.5).unwrap();
    assert_eq!(out.data, [0.0, 0.0, 0.0, 0.0, 2.0, 3.0]);
    let mut columns = Dense::<f32>::zeros(&[3, 2]).transposed();
    index_copy(&mut columns.m(), 1, &longs(&[2], &[2, 0]).v(), &src.v()).unwrap();
    assert_eq!((columns.at(&[0, 2]), columns.at(&[1, 2]), columns.at(&[1, 0])), (1.0, 3.0, 4.0));
    let nine = Dense::<f32>::new(&[], vec![9.0]);
    index_fill(&mut out.m(), 1, &longs(&[1], &[-1]).v(), &nine.v()).unwrap();
    assert_eq!(out.data, [0.0, 9.0, 0.0, 9.0, 2.0, 9.0]);
    let mut flags = Dense::<bool>::new(&[2], vec![false, true]);
    index_add(&mut flags.m(), 0, &longs(&[1], &[0]).v(), &Dense::new(&[1], vec![true]).v(), 1.0).unwrap();
    assert_eq!(flags.data, [true, true]);
}

#[test]
fn index_and_index_put_read_and_write_points() {
    let x = Dense::<f32>::iota(&[3, 4, 2]);
    let (i, j) = (longs(&[2, 2], &[0, -1, 1, 2]), longs(&[2, 2], &[3, 0, -2, 1]));
    let mut out = Dense::<f32>::zeros(&[2, 2, 2]);
    index(&x.v(), &[i.v(), j.v()], &[0, 1], &mut out.m()).unwrap();
    assert_eq!(out.data, [6.0, 7.0, 16.0, 17.0, 12.0, 13.0, 18.0, 19.0]);

    let mut y = Dense::<f32>::zeros(&[3, 2]);
    let at = longs(&[3], &[1, -2, 0]);
    let values = Dense::<f32>::new(&[3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    index_put(&mut y.m(), &[at.v()], &[0], &values.v(), false).unwrap();
    assert_eq!(y.data, [5.0, 6.0, 3.0, 4.0, 0.0, 0.0], "the last of equal points wins");
    index_put(&mut y.m(), &[at.v()], &[0], &values.v(), true).unwrap();
    assert_eq!(y.data, [10.0, 12.0, 7.0, 10.0, 0.0, 0.0]);
    let one = View::of_slice(&[1f32], &[3, 2], &[0, 0]);
    index_put(&mut y.m(), &[at.v()], &[0], &one, true).unwrap();
    assert_eq!(y.data, [11.0, 13.0, 9.0, 12.0, 0.0, 0.0]);
}

#[test]
fn masks_fill_select_and_scatter() {
    let mask = Dense::<bool>::new(&[2, 3], vec![true, false, true, false, false, true]);
    let mut x = Dense::<i16>::iota(&[2, 3]);
    assert_eq!(count_nonzero(&mask.v()), 3);
    let mut picked = Dense::<i16>::zeros(&[3]);
    masked_select(&x.v(), &mask.v(), &mut picked.m());
    assert_eq!(picked.data, [0, 2, 5]);
    masked_fill(&mut x.m(), &mask.v(), &View::of_slice(&[-1i16], &[], &[]));
    assert_eq!(x.data, [-1, 1, -1, 3, 4, -1]);
    masked_scatter(&mut x.m(), &mask.v(), &Dense::<i16>::new(&[4], vec![7, 8, 9, 10]).v()).unwrap();
    assert_eq!(x.data, [7, 1, 8, 3, 4, 9]);
    assert!(masked_scatter(&mut x.m(), &mask.v(), &picked.v()).is_ok());
    assert!(masked_scatter(&mut x.m(), &mask.v(), &Dense::<i16>::zeros(&[2]).v()).is_err());
    // A broadcast mask has one row for all rows.
    let row = View::of_slice(&[true, false, false], &[2, 3], &[0, 1]);
    masked_fill(&mut x.m(), &row, &View::of_slice(&[0i16], &[], &[]));
    assert_eq!(x.data, [0, 1, 2, 0, 4, 5]);
}

#[test]
fn nonzero_lists_coordinates_in_index_order() {
    let x = Dense::<f32>::new(&[3, 2], vec![0.0, f32::NAN, -0.0, 2.0, 0.0, 0.0]).transposed();
    assert_eq!(count_nonzero(&x.v()), 2);
    let mut out = Dense::<i64>::zeros(&[2, 2]);
    nonzero(&x.v(), &mut out.m());
    assert_eq!(out.data, [1, 0, 1, 1]);
    let mut none = Dense::<i64>::zeros(&[1, 0]);
    nonzero(&Dense::<f32>::new(&[], vec![1.0]).v(), &mut none.m());
}

#[test]
fn take_and_put_use_flat_positions_of_any_layout() {
    let x = Dense::<f64>::iota(&[2, 3]).transposed();
    let mut out = Dense::<f64>::zeros(&[2, 2]);
    take(&x.v(), &longs(&[2, 2], &[0, 1, -1, 2]).v(), &mut out.m()).unwrap();
    assert_eq!(out.data, [0.0, 3.0, 5.0, 1.0]);
    let mut y = Dense::<f64>::zeros(&[2, 3]).transposed();
    put(&mut y.m(), &longs(&[3], &[1, 1, -1]).v(), &Dense::<f64>::new(&[3], vec![1.0, 2.0, 3.0]).v(), true).unwrap();
    assert_eq!((y.at(&[0, 1]), y.at(&[2, 1])), (3.0, 3.0));
}

#[test]
fn empty_arrays_are_accepted() {
    let x = Dense::<f32>::iota(&[2, 3]);
    let none = longs(&[0], &[]);
    index_select(&x.v(), 1, &none.v(), &mut Dense::<f32>::zeros(&[2, 0]).m()).unwrap();
    gather(&x.v(), 0, &longs(&[0, 3], &[]).v(), &mut Dense::<f32>::zeros(&[0, 3]).m()).unwrap();
    index(&x.v(), &[none.v()], &[0], &mut Dense::<f32>::zeros(&[0, 3]).m()).unwrap();
    let mut y = x.clone();
    scatter_add(&mut y.m(), 0, &longs(&[0, 3], &[]).v(), &x.v()).unwrap();
    index_fill(&mut y.m(), 0, &none.v(), &Dense::<f32>::zeros(&[]).v()).unwrap();
    assert_eq!(y, x);
}
