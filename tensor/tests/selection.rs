//! Indexing, running folds and sorting on `cpu`, and that every lowering of theirs fits its shapes.

use torchtpu_tensor::op::{Func, Prim};
use torchtpu_tensor::ops::indexing::{self, Gather, Index, IndexAdd, IndexPut, IndexSelect, Scatter, ScatterKind};
use torchtpu_tensor::ops::random::RandomBits;
use torchtpu_tensor::ops::scan::{self, CumExtreme, Scan, ScanKind};
use torchtpu_tensor::ops::sort::{self, Pick, PickKind, Sort, TopK};
use torchtpu_tensor::{Dims, Tensor};

fn f(v: &[f32], dims: &[usize]) -> Tensor {
    Tensor::from_slice(v, dims).unwrap()
}
fn i(v: &[i64], dims: &[usize]) -> Tensor {
    Tensor::from_slice(v, dims).unwrap()
}
fn out(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

#[test]
fn advanced_indexing_puts_dimensions_where_numpy_does() {
    let x = f(&(0..24).map(|v| v as f32).collect::<Vec<_>>(), &[2, 3, 4]);
    let y = indexing::index(&x, &[Some(i(&[1, 0, 1], &[3])), None, Some(i(&[3], &[1]))]).unwrap();
    assert_eq!((y.dims().to_vec(), out(&y)), (vec![3, 3], vec![15.0, 19.0, 23.0, 3.0, 7.0, 11.0, 15.0, 19.0, 23.0]));
    let y = indexing::index(&x, &[None, Some(i(&[2, -3], &[2]))]).unwrap();
    assert_eq!((y.dims().to_vec(), out(&y)[..5].to_vec()), (vec![2, 2, 4], vec![8.0, 9.0, 10.0, 11.0, 0.0]));
}

#[test]
fn writing_by_index_and_by_mask() {
    let x = f(&[0.0; 6], &[2, 3]);
    let at = [Some(i(&[0, 0, 1], &[3])), Some(i(&[1, 1, 2], &[3]))];
    let y = indexing::index_put(&x, &at, &f(&[1.0, 2.0, 4.0], &[3]), true).unwrap();
    assert_eq!(out(&y), [0.0, 3.0, 0.0, 0.0, 0.0, 4.0]);
    let mask = Tensor::from_slice(&[true, false, true], &[3]).unwrap();
    let y = indexing::index_put(&x, &[None, Some(mask.clone())], &f(&[5.0, 7.0], &[2, 1]), false).unwrap();
    assert_eq!(out(&y), [5.0, 0.0, 5.0, 7.0, 0.0, 7.0]);
    let y = indexing::masked_scatter(&x, &mask, &f(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5])).unwrap();
    assert_eq!(out(&y), [1.0, 0.0, 2.0, 3.0, 0.0, 4.0]);
    assert!(indexing::masked_scatter(&x, &mask, &f(&[1.0], &[1])).is_err());
}

#[test]
fn indices_out_of_range_are_errors_and_never_clamped() {
    let x = f(&[1.0, 2.0, 3.0], &[3]);
    for bad in [3, -1] {
        let e = indexing::gather(&x, 0, &i(&[bad], &[1])).unwrap_err();
        assert_eq!(e.message(), format!("index {bad} is out of bounds for dimension 0 with size 3"));
        assert_eq!(
            indexing::index_select(&x, 0, &i(&[bad], &[1])).unwrap_err().message(),
            "index out of range in self"
        );
    }
    assert_eq!(out(&indexing::take(&x, &i(&[-1], &[1])).unwrap()), [3.0]);
    let e = indexing::take(&x, &i(&[5], &[1])).unwrap_err();
    assert_eq!(e.message(), "out of range: tried to access index 5 on a tensor of 3 elements.");
}

#[test]
fn folds_and_orders() {
    let x = f(&[3.0, 1.0, f32::NAN, 2.0], &[4]);
    assert_eq!(out(&scan::cumsum(&x, 0).unwrap())[..2], [3.0, 4.0]);
    let (v, at) = sort::sort(&x, 0, false, true).unwrap();
    assert_eq!((out(&v)[..3].to_vec(), at.to_vec::<i64>().unwrap()), (vec![1.0, 2.0, 3.0], vec![1, 3, 0, 2]));
    let (v, at) = sort::topk(&x, 2, 0, false, true).unwrap();
    assert_eq!((out(&v), at.to_vec::<i64>().unwrap()), (vec![1.0, 2.0], vec![1, 3]));
    assert!(sort::topk(&x, 5, 0, true, true).is_err());
    let y = sort::searchsorted(&f(&[1.0, 2.0, 2.0, 4.0], &[4]), &f(&[2.0, 5.0], &[2]), true, false, None).unwrap();
    assert_eq!(y.to_vec::<i64>().unwrap(), [3, 4]);
    let y = indexing::diag_embed(&f(&[1.0, 2.0], &[2]), -1, 0, 1).unwrap();
    assert_eq!(out(&y), [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
}

#[test]
fn lowerings_fit_their_shapes() {
    let x = f(&[1.0; 24], &[2, 3, 4]);
    let (like, row) = (i(&[0; 12], &[2, 3, 2]), i(&[0; 5], &[5]));
    let (src, rows, number) = (f(&[1.0; 12], &[2, 3, 2]), f(&[1.0; 40], &[2, 5, 4]), f(&[1.0], &[]));
    let (pair, points, state) = (i(&[0; 4], &[2, 2]), f(&[1.0; 16], &[2, 2, 4]), i(&[1, 0], &[2]));
    let dims = Dims::new(&[0, 1]);
    let mut cases: Vec<(Prim, Vec<&Tensor>)> = vec![
        (Prim::Gather(Gather { dim: 2 }), vec![&x, &like]),
        (Prim::IndexSelect(IndexSelect { dim: 1 }), vec![&x, &row]),
        (Prim::IndexAdd(IndexAdd { dim: 1, accumulate: true }), vec![&x, &row, &rows]),
        (Prim::IndexAdd(IndexAdd { dim: 1, accumulate: false }), vec![&x, &row, &number]),
        (Prim::Index(Index { dims }), vec![&x, &pair, &pair]),
        (Prim::IndexPut(IndexPut { dims, accumulate: true }), vec![&x, &points, &pair, &pair]),
        (Prim::Sort(Sort { dim: 1, descending: true, stable: false }), vec![&x]),
        (Prim::TopK(TopK { k: 2, dim: 0, largest: true, sorted: true }), vec![&x]),
        (Prim::TopK(TopK { k: 2, dim: 1, largest: false, sorted: true }), vec![&x]),
        (Prim::CumExtreme(CumExtreme { max: true, dim: 1 }), vec![&x]),
        (Prim::RandomBits(RandomBits { dims: Dims::new(&[3, 3]), wide: true }), vec![&state]),
        (Prim::RandomBits(RandomBits { dims: Dims::new(&[3, 3]), wide: false }), vec![&state]),
    ];
    for kind in [ScatterKind::Set, ScatterKind::Add, ScatterKind::Mul, ScatterKind::Max, ScatterKind::Mean] {
        cases.push((Prim::Scatter(Scatter { dim: 2, kind, include_self: false }), vec![&x, &like, &src]));
    }
    for kind in [ScanKind::Sum, ScanKind::Prod, ScanKind::LogSumExp] {
        cases.push((Prim::Scan(Scan { kind, dim: 1 }), vec![&x]));
    }
    for kind in [PickKind::Kth(2), PickKind::Median, PickKind::NanMedian] {
        cases.push((Prim::Pick(Pick { kind, dim: 1 }), vec![&x]));
    }
    for (op, x) in cases {
        let y = torchtpu_tensor::dispatch::call_n(op.clone(), &x).unwrap();
        let metas: Vec<_> = y.iter().map(|t| *t.meta()).collect();
        let mut func = Func::new();
        let args: Vec<_> = x.iter().map(|t| func.arg(t.meta().ty())).collect();
        let types: Vec<_> = op.lower(&mut func, &args, &metas).iter().map(|v| v.ty().clone()).collect();
        assert_eq!(types, metas.iter().map(|m| m.ty()).collect::<Vec<_>>(), "{op:?}");
    }
}
