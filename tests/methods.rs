//! Tests of tensor methods that call a row of the table: PyTorch's numbers on every device, in place and not.

mod common;

use common::{devices, turn};
use torchtpu::nn::init;
use torchtpu::ops::pointwise::Tolerance;
use torchtpu::random::manual_seed;
use torchtpu::schema::Arg;
use torchtpu::{Backward, DType, Device, ErrorKind, Result, Tensor, ops};

/// Return `[[3, 1, 2], [0, 5, 4]]`.
fn x(device: Device) -> Tensor {
    Tensor::from_slice_on(&[3.0f32, 1.0, 2.0, 0.0, 5.0, 4.0], &[2, 3], device).unwrap()
}

fn ints(v: &[i64], dims: &[usize], device: Device) -> Tensor {
    Tensor::from_slice_on(v, dims, device).unwrap()
}

#[track_caller]
fn assert_values(y: Result<Tensor>, want: &[f64]) {
    let y = y.unwrap().to_vec::<f64>().unwrap();
    assert!(y.len() == want.len() && y.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5), "{y:?} and not {want:?}");
}

#[test]
fn reductions_equal_pytorchs() {
    for d in devices() {
        let x = x(d);
        assert_values(x.var(&[], 1, false), &[3.5]);
        assert_values(x.var(&[1], 0, false), &[2.0 / 3.0, 14.0 / 3.0]);
        assert_values(x.std(&[0], 1, true), &[2.121_320, 2.828_427, std::f64::consts::SQRT_2]);
        assert_values(x.norm(2.0), &[7.416_198]);
        assert_values(x.norm_dim(1.0, &[1], false), &[6.0, 9.0]);
        assert_values(x.prod(), &[0.0]);
        assert_values(x.prod_dim(0, false), &[0.0, 5.0, 8.0]);
        assert_values(x.max(), &[5.0]);
        assert_values(x.min(), &[0.0]);
        assert_values(x.median(), &[2.0]);
        assert_values(x.logsumexp(&[1], false), &[3.407_606, 5.318_180]);
        assert_values(x.all(), &[0.0]);
        assert_values(x.all_dim(0, false), &[0.0, 1.0, 1.0]);
        assert_values(x.any(), &[1.0]);
        assert_values(x.any_dim(1, true), &[1.0, 1.0]);
        assert_values(x.count_nonzero(), &[5.0]);
        assert_values(x.count_nonzero_dim(&[0]), &[1.0, 2.0, 2.0]);
        assert_values(x.narrow(1, 0, 2).unwrap().trace(), &[8.0]);
        let (values, at) = x.max_dim(1, false).unwrap();
        assert_values(Ok(values), &[3.0, 5.0]);
        assert_values(Ok(at), &[0.0, 1.0]);
        assert_values(x.min_dim(0, true).map(|p| p.1), &[1.0, 0.0, 0.0]);
        assert_values(x.median_dim(1, false).map(|p| p.0), &[2.0, 4.0]);
        assert_values(x.kthvalue(2, 1, false).map(|p| p.0), &[2.0, 4.0]);
        assert_values(x.cummax(1).map(|p| p.0), &[3.0, 3.0, 3.0, 0.0, 5.0, 5.0]);
        assert_values(x.cummin(1).map(|p| p.0), &[3.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        assert_values(x.var_mean(&[1], 1, false).map(|p| p.1), &[2.0, 3.0]);
    }
}

#[test]
fn indexing_reads_and_writes() {
    for d in devices() {
        let x = x(d);
        let at = ints(&[2, 0], &[2, 1], d);
        assert_values(x.gather(1, &at), &[2.0, 0.0]);
        assert_values(
            x.scatter(1, &at, &Tensor::full(&[2, 1], 9.0, DType::F32, d).unwrap()),
            &[3.0, 1.0, 9.0, 9.0, 5.0, 4.0],
        );
        assert_values(
            x.scatter_add(1, &at, &Tensor::ones(&[2, 1], DType::F32, d).unwrap()),
            &[3.0, 1.0, 3.0, 1.0, 5.0, 4.0],
        );
        let rows = ints(&[1], &[1], d);
        let ones = Tensor::ones(&[1, 3], DType::F32, d).unwrap();
        assert_values(x.index_select(0, &rows), &[0.0, 5.0, 4.0]);
        assert_values(x.index_add(0, &rows, &ones), &[3.0, 1.0, 2.0, 1.0, 6.0, 5.0]);
        assert_values(x.index_copy(0, &rows, &ones), &[3.0, 1.0, 2.0, 1.0, 1.0, 1.0]);
        assert_values(x.index_fill(1, &rows, 7), &[3.0, 7.0, 2.0, 0.0, 7.0, 4.0]);
        assert_values(x.take(&ints(&[-1, 0], &[2], d)), &[4.0, 3.0]);
        assert_values(x.nonzero().unwrap().index_select(0, &ints(&[3], &[1], d)), &[1.0, 1.0]);
        let mask = x.gt_scalar(2.5).unwrap();
        assert_values(x.masked_fill(&mask, -1.0), &[-1.0, 1.0, 2.0, 0.0, -1.0, -1.0]);
        assert_values(x.masked_select(&mask), &[3.0, 5.0, 4.0]);
        assert_values(Tensor::where_(&mask, &x, &x.zeros_like().unwrap()), &[3.0, 0.0, 0.0, 0.0, 5.0, 4.0]);
        let columns = [None, Some(ints(&[2, 0], &[2], d))];
        assert_values(x.index(&columns), &[2.0, 3.0, 4.0, 0.0]);
        assert_values(x.index(&[Some(mask.clone())]), &[3.0, 5.0, 4.0]);
        let value = Tensor::full(&[], 8.0, DType::F32, d).unwrap();
        assert_values(x.index_put(&columns, &value, false), &[8.0, 1.0, 8.0, 8.0, 5.0, 8.0]);
        assert_values(x.argsort(1, true), &[0.0, 2.0, 1.0, 1.0, 2.0, 0.0]);
        assert_values(ints(&[1, 0], &[2], d).one_hot(3), &[0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);

        let y = x.copy().unwrap();
        y.index_put_(&columns, &value, true).unwrap();
        assert_values(Ok(y.clone()), &[11.0, 1.0, 10.0, 8.0, 5.0, 12.0]);
        y.masked_fill_(&mask, 0).unwrap().index_fill_(1, &rows, 2.0).unwrap();
        assert_values(Ok(y.clone()), &[0.0, 2.0, 10.0, 8.0, 2.0, 0.0]);
        y.scatter_(1, &at, &Tensor::ones(&[2, 1], DType::F32, d).unwrap()).unwrap();
        y.scatter_add_(1, &at, &Tensor::ones(&[2, 1], DType::F32, d).unwrap()).unwrap();
        assert_values(Ok(y.clone()), &[0.0, 2.0, 2.0, 2.0, 2.0, 0.0]);
        y.index_add_(0, &rows, &ones).unwrap();
        assert_values(Ok(y.clone()), &[0.0, 2.0, 2.0, 3.0, 3.0, 1.0]);
        y.index_copy_(0, &rows, &ones).unwrap();
        assert_values(Ok(y.clone()), &[0.0, 2.0, 2.0, 1.0, 1.0, 1.0]);
        y.select(0, 0).unwrap().add_scalar_(1).unwrap().mul_scalar_(2.0).unwrap().sub_scalar_(1).unwrap();
        assert_values(Ok(y.clone()), &[1.0, 5.0, 5.0, 1.0, 1.0, 1.0]);
        y.div_scalar_(5.0).unwrap().clamp_(Some(0.5), None).unwrap();
        assert_values(Ok(y.clone()), &[0.5, 1.0, 1.0, 0.5, 0.5, 0.5]);
        y.lerp_(&x.ones_like().unwrap(), 0.5).unwrap();
        assert_values(Ok(y.clone()), &[0.75, 1.0, 1.0, 0.75, 0.75, 0.75]);
        y.addcmul_(&y.copy().unwrap(), &x, 0.0).unwrap().addcdiv_(&y.copy().unwrap(), &y.copy().unwrap(), 1.0).unwrap();
        assert_values(Ok(y.clone()), &[1.75, 2.0, 2.0, 1.75, 1.75, 1.75]);
        assert_values(y.fill_(3).cloned(), &[3.0; 6]);
        assert_values(y.zero_().cloned(), &[0.0; 6]);
        assert!(y.equal(&x.zeros_like().unwrap()).unwrap() && !y.equal(&x).unwrap());
    }
}

#[test]
fn shape_and_arithmetic_methods_equal_pytorchs() {
    for d in devices() {
        let x = x(d);
        assert_eq!((x.dim(), x.size(-1).unwrap(), x.size(2).unwrap_err().kind()), (2, 3, ErrorKind::Index));
        assert_values(x.tril(0), &[3.0, 0.0, 0.0, 0.0, 5.0, 0.0]);
        assert_values(x.triu(1), &[0.0, 1.0, 2.0, 0.0, 0.0, 4.0]);
        assert_values(x.diag(0), &[3.0, 5.0]);
        assert_values(x.flip(&[1]), &[2.0, 1.0, 3.0, 4.0, 5.0, 0.0]);
        assert_values(x.roll(&[1], &[0]), &[0.0, 5.0, 4.0, 3.0, 1.0, 2.0]);
        assert_values(x.select(0, 0).unwrap().repeat(&[2]), &[3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
        assert_values(x.select(0, 0).unwrap().repeat_interleave(2, None), &[3.0, 3.0, 1.0, 1.0, 2.0, 2.0]);
        assert_values(x.select(0, 0).unwrap().expand_as(&x), &[3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
        assert_eq!(x.type_as(&ints(&[0], &[1], d)).unwrap().dtype(), DType::I64);
        assert_values(x.clamp(Some(1.0), Some(3.0)), &[3.0, 1.0, 2.0, 1.0, 3.0, 3.0]);
        assert_values(x.clamp_tensor(None, Some(&x.ones_like().unwrap())), &[1.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
        assert_values(x.lerp(&x.zeros_like().unwrap(), 0.5), &[1.5, 0.5, 1.0, 0.0, 2.5, 2.0]);
        assert_values(x.addcmul(&x, &x, 1.0), &[12.0, 2.0, 6.0, 0.0, 30.0, 20.0]);
        assert_values(x.addcdiv(&x, &x.full_like(2).unwrap(), 2), &[6.0, 2.0, 4.0, 0.0, 10.0, 8.0]);
        assert_values(x.div(&x).unwrap().nan_to_num(Some(9.0), None, None), &[1.0, 1.0, 1.0, 9.0, 1.0, 1.0]);
        let square = x.matmul(&x.t().unwrap()).unwrap();
        assert_values(Ok(square.clone()), &[14.0, 13.0, 13.0, 41.0]);
        assert_values(Tensor::einsum("ij,kj->ik", &[&x, &x]), &[14.0, 13.0, 13.0, 41.0]);
        assert_values(square.zeros_like().unwrap().addmm(&x, &x.t().unwrap()), &[14.0, 13.0, 13.0, 41.0]);
        let batch = |t: &Tensor| t.unsqueeze(0).unwrap();
        assert_values(batch(&square).baddbmm(&batch(&x), &batch(&x.t().unwrap())), &[28.0, 26.0, 26.0, 82.0]);
        assert_values(Tensor::cat(&[&x, &x], 1).unwrap().select(0, 1), &[0.0, 5.0, 4.0, 0.0, 5.0, 4.0]);
        assert_values(Tensor::stack(&[&x, &x], 2).unwrap().select(0, 0), &[3.0, 3.0, 1.0, 1.0, 2.0, 2.0]);
        assert_values(Tensor::eye(2, 3, DType::F32, d), &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    }
}

#[test]
fn random_numbers_equal_pytorchs_on_cpu() {
    let (_turn, d) = (turn(), Device::CPU);
    manual_seed(0);
    assert_values(Tensor::rand(&[2], DType::F32, d), &[0.496_257, 0.768_222]);
    manual_seed(0);
    assert_values(Tensor::randn(&[2], DType::F32, d), &[1.540_996, -0.293_429]);
    manual_seed(0);
    assert_values(Tensor::randint(0, 10, &[3], DType::I64, d), &[4.0, 9.0, 3.0]);
    manual_seed(0);
    assert_values(Tensor::randperm(4, d), &[0.0, 1.0, 3.0, 2.0]);
    let y = Tensor::zeros(&[4], DType::F32, d).unwrap();
    manual_seed(1);
    let (a, b) = (y.uniform_(0.0, 1.0).unwrap().copy().unwrap(), y.normal_(0.0, 1.0).unwrap().copy().unwrap());
    manual_seed(1);
    init::uniform_(&y, 0.0, 1.0, None).unwrap();
    assert!(a.equal(&y).unwrap());
    init::normal_(&y, 0.0, 1.0, None).unwrap();
    assert!(b.equal(&y).unwrap());
    for d in devices() {
        let p = Tensor::from_slice_on(&[0.0f32, 1.0], &[2], d).unwrap();
        assert_values(p.bernoulli(), &[0.0, 1.0]);
        assert_values(p.multinomial(3, true), &[1.0, 1.0, 1.0]);
        assert_eq!((p.rand_like().unwrap().dims()[0], p.randn_like().unwrap().device()), (2, d));
    }
}

#[test]
fn gradients_flow_through_methods() {
    for d in devices() {
        let w = x(d);
        w.requires_grad_(true).unwrap();
        let y = w.mul_scalar(1.0).unwrap();
        y.masked_fill_(&w.gt_scalar(3.5).unwrap(), 0.0).unwrap();
        y.index_put_(&[Some(ints(&[0], &[1], d))], &Tensor::ones(&[], DType::F32, d).unwrap(), false).unwrap();
        y.norm(2.0).unwrap().square().unwrap().backward().unwrap();
        assert_values(Ok(w.grad().unwrap()), &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let refused = w.zero_().unwrap_err();
        assert!(
            refused.message().contains("a leaf Variable that requires grad is being used in an in-place operation")
        );
    }
}

#[test]
fn methods_with_an_underscore_work_in_place() {
    let y = x(Device::CPU);
    ops::call("add_.Tensor", &[Arg::Tensor(&y), Arg::Tensor(&x(Device::CPU))]).unwrap();
    ops::call(
        "masked_fill_.Scalar",
        &[Arg::Tensor(&y), Arg::Tensor(&y.gt_scalar(5.0).unwrap()), Arg::Scalar(0.into())],
    )
    .unwrap();
    assert_values(Ok(y.clone()), &[0.0, 2.0, 4.0, 0.0, 0.0, 0.0]);
    assert_eq!(ops::call("gather_", &[Arg::Tensor(&y)]).unwrap_err().kind(), ErrorKind::NotImplemented);
}

#[test]
fn sizes_larger_than_memory_are_refused() {
    let _turn = turn();
    for d in devices() {
        let one = Tensor::ones(&[1], DType::F32, d).unwrap();
        for y in [
            one.as_strided(&[3], &[1 << 61], None),
            one.as_strided(&[1], &[1], Some(1 << 62)),
            one.expand(&[1 << 32, 1 << 32]),
            one.expand(&[1 << 61]).unwrap().add_scalar(1.0),
            Tensor::randn(&[1 << 61], DType::F32, d),
            Tensor::rand(&[usize::MAX, 2], DType::F32, d),
            Tensor::linspace(0.0, 1.0, i64::MAX, DType::F32, d),
            one.repeat(&[i64::MAX]).and_then(|y| y.repeat(&[2])),
            one.repeat_interleave(i64::MAX, Some(0)).and_then(|y| y.add_scalar(1.0)),
            Tensor::eye(i64::MAX, i64::MAX, DType::F32, d),
        ] {
            assert!(matches!(y.unwrap_err().kind(), ErrorKind::Runtime | ErrorKind::OutOfMemory));
        }
        assert_values(one.add_scalar(1.0), &[2.0]);
    }
}

#[test]
fn comparisons_and_contractions_equal_pytorchs() {
    for d in devices() {
        let x = x(d);
        let y = x.mul_scalar(1.000_001).unwrap();
        assert!(x.allclose(&y, Tolerance::default()).unwrap());
        let exact = Tolerance { rtol: 0.0, atol: 0.0, equal_nan: false };
        assert!(!x.allclose(&y, exact).unwrap());
        let near = Tolerance { rtol: 0.0, atol: 1.5, equal_nan: false };
        let three = Tensor::full(&[3], 3.0, DType::F32, d).unwrap();
        assert_values(x.isclose(&three, near), &[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        assert_values(x.diff(1, 1), &[-2.0, 1.0, 5.0, -1.0]);
        assert_values(x.inner(&three), &[18.0, 27.0]);
        assert_values(x.tensordot(&x, &[0, 1], &[0, 1]), &[55.0]);
        let e = x.tensordot(&three, &[0], &[0]).unwrap_err();
        assert!(e.message().starts_with("contracted dimensions need to match, but first has size 2"), "{e}");
    }
}
