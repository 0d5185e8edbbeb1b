//! Tests of tensors on every device: views share memory, writes are visible, histories follow writes, and text looks
//! like PyTorch's.
//!
//! Each test is one body that runs on `cpu` and on `tpu`. The latter needs a PJRT plugin, which `tests/summary.py`
//! provides.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use torchtpu::graph::Node;
use torchtpu::{Backward, DType, Device, GradRef, Result, Scalar, Tensor, autograd, no_grad, promote_types};

fn on_both(body: impl Fn(Device) -> Result<()>) {
    for name in ["cpu", "tpu"] {
        let device = torchtpu::device(name).unwrap();
        if let Err(e) = body(device) {
            panic!("on {name}: {e}");
        }
    }
}

fn t(data: &[f32], dims: &[usize], d: Device) -> Tensor {
    Tensor::from_slice_on(data, dims, d).unwrap()
}

/// Return the numbers 0, 1, 2, ...
fn count(dims: &[usize], d: Device) -> Tensor {
    let n: usize = dims.iter().product();
    t(&(0..n).map(|i| i as f32).collect::<Vec<_>>(), dims, d)
}

fn v(x: &Tensor) -> Vec<f32> {
    x.to_vec().unwrap()
}

fn number(x: f32, d: Device) -> Tensor {
    t(&[x], &[], d)
}

#[test]
fn views_of_views_read_the_base() {
    on_both(|d| {
        let x = count(&[4, 6], d);
        let y = x.slice(0, Some(1), None, 2)?.transpose(0, 1)?.slice(0, Some(1), Some(5), 2)?;
        assert_eq!(v(&y), [7.0, 19.0, 9.0, 21.0]);
        assert!(y.is_view() && y.shares_storage(&x));
        assert_eq!(v(&x.diagonal(1, 0, 1)?), [1.0, 8.0, 15.0, 22.0]);
        assert_eq!(v(&x.as_strided(&[2, 3], &[1, 7], Some(2))?), [2.0, 9.0, 16.0, 3.0, 10.0, 17.0]);
        assert_eq!(v(&x.select(1, -1)?.unsqueeze(0)?.expand(&[2, 4])?), [5.0, 11.0, 17.0, 23.0, 5.0, 11.0, 17.0, 23.0]);
        assert_eq!(v(&x.view_as_sizes(&[2, -1])?.select(0, 1)?.narrow(0, 3, 2)?), [15.0, 16.0]);
        assert_eq!(v(&x.unfold(1, 2, 4)?.select(0, 0)?), [0.0, 1.0, 4.0, 5.0]);
        Ok(())
    });
}

#[test]
fn a_write_through_a_view_is_visible_in_the_base_and_other_views() {
    on_both(|d| {
        let x = count(&[3, 4], d);
        let (row, column, flat) = (x.select(0, 1)?, x.select(1, 2)?, x.view_as_sizes(&[12])?);
        let versions = x.version();
        row.add_(&number(100.0, d))?;
        assert_eq!(v(&x), [0.0, 1.0, 2.0, 3.0, 104.0, 105.0, 106.0, 107.0, 8.0, 9.0, 10.0, 11.0]);
        assert_eq!(v(&column), [2.0, 106.0, 10.0]);
        assert_eq!(v(&flat)[4..8], [104.0, 105.0, 106.0, 107.0]);
        assert_eq!(x.version(), versions + 1);
        assert_eq!(column.version(), x.version());

        x.mul_(&number(2.0, d))?;
        assert_eq!(v(&column), [4.0, 212.0, 20.0]);
        assert_eq!(v(&row), [208.0, 210.0, 212.0, 214.0]);

        // A view of a view, transposed and with steps.
        let y = x.transpose(0, 1)?.slice(0, None, None, 2)?;
        y.copy_(&t(&[-1.0, -2.0, -3.0], &[3], d))?;
        assert_eq!(v(&x), [-1.0, 2.0, -1.0, 6.0, -2.0, 210.0, -2.0, 214.0, -3.0, 18.0, -3.0, 22.0]);
        x.diagonal(0, 0, 1)?.copy_(&t(&[7.0, 8.0, 9.0], &[3], d))?;
        assert_eq!(v(&x), [7.0, 2.0, -1.0, 6.0, -2.0, 8.0, -2.0, 214.0, -3.0, 18.0, 9.0, 22.0]);
        x.as_strided(&[2, 2], &[4, 1], Some(1))?.relu_()?.neg_()?;
        assert_eq!(v(&x)[..8], [7.0, -2.0, -0.0, 6.0, -2.0, -8.0, -0.0, 214.0]);
        Ok(())
    });
}

#[test]
fn views_outlive_their_base() {
    on_both(|d| {
        let x = count(&[4], d);
        let (a, b) = (x.slice(0, Some(1), None, 1)?, x.view_as_sizes(&[2, 2])?);
        drop(x);
        a.neg_()?;
        assert_eq!(v(&b), [0.0, -1.0, -2.0, -3.0]);
        drop(b);
        assert_eq!(v(&a), [-1.0, -2.0, -3.0]);
        Ok(())
    });
}

#[test]
fn copies_do_not_alias_and_overlapping_writes_are_copied_or_refused() {
    on_both(|d| {
        let x = count(&[2, 3], d);
        let y = x.copy()?;
        let z = x.transpose(0, 1)?.contiguous()?;
        x.zero_all()?;
        assert_eq!(v(&y), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(v(&z), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        // If there are gaps between the elements, PyTorch does not check the overlap, and copies in some order.
        let x = count(&[7], d);
        x.slice(0, Some(2), None, 2)?.copy_(&x.slice(0, None, Some(5), 2)?)?;
        assert_eq!(v(&x), [0.0, 1.0, 0.0, 3.0, 2.0, 5.0, 4.0]);
        let s = count(&[2, 2], d);
        s.select(0, 0)?.copy_(&s.select(1, 0)?)?;
        assert_eq!(v(&s), [0.0, 2.0, 2.0, 3.0]);
        let x = count(&[5], d);
        for refused in
            [x.slice(0, Some(1), None, 1)?.copy_(&x.slice(0, None, Some(4), 1)?), s.copy_(&s.transpose(0, 1)?)]
        {
            let e = refused.unwrap_err();
            assert!(e.message().starts_with("unsupported operation: some elements of the input tensor"), "{e}");
        }
        assert_eq!(v(&x), [0.0, 1.0, 2.0, 3.0, 4.0]);
        Ok(())
    });
}

/// Set to zero in place, with methods that every tensor has.
trait ZeroAll {
    fn zero_all(&self) -> Result<()>;
}
impl ZeroAll for Tensor {
    fn zero_all(&self) -> Result<()> {
        self.mul_(&Tensor::number(Scalar::Float(0.0), self.dtype())?).map(|_| ())
    }
}

#[test]
fn invalid_writes_are_refused() {
    on_both(|d| {
        let x = count(&[3], d);
        let e = x.unsqueeze(0)?.expand(&[2, 3])?.add_(&number(1.0, d)).unwrap_err();
        assert!(
            e.message().starts_with(
                "unsupported operation: more than one element of the written-to tensor refers \
            to a single memory location."
            ),
            "{e}"
        );
        let e = x.narrow(0, 1, 2)?.add_(&x.narrow(0, 0, 2)?).unwrap_err();
        assert!(
            e.message().starts_with(
                "unsupported operation: some elements of the input tensor and the written-to \
            tensor refer to a single memory location."
            ),
            "{e}"
        );
        let e = x.add_(&count(&[2, 3], d)).unwrap_err();
        assert_eq!(e.message(), "output with shape [3] doesn't match the broadcast shape [2, 3]");
        let i = x.to_dtype(DType::I64)?;
        let e = i.add_(&number(0.5, d).view_as_sizes(&[1])?).unwrap_err();
        assert_eq!(e.message(), "result type Float can't be cast to the desired output type Long");
        assert_eq!(v(&x), [0.0, 1.0, 2.0]);
        let e = x.transpose(0, 0)?.unsqueeze(0)?.expand(&[2, 3])?.view_as_sizes(&[6]).unwrap_err();
        assert!(e.message().starts_with("view size is not compatible with input tensor's size and stride"), "{e}");
        Ok(())
    });
}

#[test]
fn leaves_cannot_be_written_while_grad_mode_is_on() {
    on_both(|d| {
        let w = count(&[2, 2], d);
        w.requires_grad_(true)?;
        let e = w.add_(&number(1.0, d)).unwrap_err();
        assert_eq!(e.message(), "a leaf Variable that requires grad is being used in an in-place operation.");
        let e = w.select(0, 0)?.add_(&number(1.0, d)).unwrap_err();
        assert_eq!(e.message(), "a view of a leaf Variable that requires grad is being used in an in-place operation.");
        no_grad(|| w.select(0, 0)?.add_(&number(1.0, d)).map(|_| ()))?;
        assert_eq!(v(&w), [1.0, 2.0, 2.0, 3.0]);
        assert!(w.is_leaf() && w.requires_grad());
        let e = w.mul(&w)?.requires_grad_(false).unwrap_err();
        assert!(e.message().starts_with("you can only change requires_grad flags of leaf variables."), "{e}");
        let e = count(&[2], d).to_dtype(DType::I32)?.requires_grad_(true).unwrap_err();
        assert!(e.message().starts_with("only Tensors of floating point"), "{e}");
        Ok(())
    });
}

#[test]
fn detached_tensors_share_only_memory() {
    on_both(|d| {
        let w = count(&[3], d);
        w.requires_grad_(true)?;
        let y = w.mul_scalar(2.0)?;
        let z = y.detach();
        assert!(z.shares_storage(&y) && !z.requires_grad() && z.is_leaf());
        z.add_(&number(1.0, d))?;
        assert_eq!(v(&y), [1.0, 3.0, 5.0]);
        y.sum()?.backward()?;
        assert_eq!(v(&w.grad().unwrap()), [2.0; 3]);
        // A write through the detached tensor counts: the saved tensor has changed.
        let y = w.exp()?;
        y.detach().add_(&number(1.0, d))?;
        let e = y.sum()?.backward().unwrap_err();
        assert!(e.message().contains("has been modified by an inplace operation"), "{e}");
        Ok(())
    });
}

#[test]
fn changes_of_saved_tensors_are_noticed() {
    on_both(|d| {
        let w = t(&[1.0, 2.0], &[2], d);
        w.requires_grad_(true)?;
        let a = w.mul_scalar(3.0)?;
        let y = a.mul(&a)?;
        a.slice(0, None, Some(1), 1)?.add_(&number(1.0, d))?;
        let e = y.sum()?.backward().unwrap_err();
        let (at, expected) = (a.version(), a.version() - 1);
        assert!(
            e.message().starts_with(
                "one of the variables needed for gradient computation has been modified by an \
                inplace operation: [torch.FloatTensor [2]], which is output 0 of "
            ) && e.message().contains(&format!("is at version {at}; expected version {expected} instead.")),
            "{e}"
        );
        let y = w.mul(&w)?.sum()?;
        y.backward()?;
        let e = y.backward().unwrap_err();
        assert!(e.message().starts_with("Trying to backward through the graph a second time"), "{e}");
        Ok(())
    });
}

/// Compare gradients with central differences, in `f64` on `cpu`, and the function on the device with `cpu`.
fn check_gradient(d: Device, x: &[f64], dims: &[usize], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    let of = |x: &[f64], d: Device| Tensor::from_slice_on(x, dims, d);
    let w = of(x, d)?;
    w.requires_grad_(true)?;
    f(&w)?.backward()?;
    let found: Vec<f64> = w.grad().expect("a gradient").to_vec()?;
    for i in 0..x.len() {
        let at = |h: f64| {
            let mut x = x.to_vec();
            x[i] += h;
            f(&of(&x, Device::CPU)?)?.item_f64()
        };
        let expected = (at(1e-5)? - at(-1e-5)?) / 2e-5;
        assert!(
            (found[i] - expected).abs() < 1e-6 * (1.0 + expected.abs()),
            "element {i}: {} is not {expected}",
            found[i]
        );
    }
    Ok(())
}

#[test]
fn gradients_follow_writes_through_views() {
    let x = [0.3, -1.2, 0.7, 1.9, -0.4, 0.8];
    on_both(|d| {
        let scale = |v: f64| Tensor::number(Scalar::Float(v), DType::F64);
        // Write through a slice, then use the base.
        check_gradient(d, &x, &[2, 3], |w| {
            let y = w.mul_scalar(2.0)?;
            y.select(0, 1)?.mul_(&w.select(0, 0)?)?;
            y.square()?.sum()
        })?;
        // Make a view before the base is written, and use it after.
        check_gradient(d, &x, &[2, 3], |w| {
            let y = w.mul_scalar(1.5)?;
            let late = y.transpose(0, 1)?;
            y.select(1, 0)?.exp_()?;
            late.mul(&late)?.select(0, 0)?.sum()
        })?;
        // Use views of views, one of them transposed. Write twice, then use the first view.
        check_gradient(d, &x, &[2, 3], |w| {
            let y = w.add_scalar(0.5)?;
            let a = y.transpose(0, 1)?;
            let b = a.slice(0, Some(1), None, 1)?;
            b.sin_()?;
            a.select(0, 2)?.mul_(&scale(3.0)?)?;
            b.mul(&y.slice(1, None, Some(2), 1)?.transpose(0, 1)?)?.sum()?.add(&a.square()?.sum()?)
        })?;
        // Write a value with history to a tensor without.
        check_gradient(d, &x, &[2, 3], |w| {
            let y = Tensor::zeros(&[3, 3], DType::F64, w.device())?;
            y.slice(0, None, Some(2), 1)?.copy_(&w.square()?)?;
            y.diagonal(0, 0, 1)?.mul_(&scale(2.0)?)?;
            y.square()?.sum()
        })?;
        // An overwritten value has no gradient.
        check_gradient(d, &x, &[6], |w| {
            let y = w.mul_scalar(1.0)?;
            y.slice(0, Some(1), Some(3), 1)?.copy_(&scale(4.0)?)?;
            y.square()?.sum()
        })?;
        // Write through expand, diagonal and as_strided.
        check_gradient(d, &x, &[2, 3], |w| {
            let e = w.unsqueeze(0)?.expand(&[2, 2, 3])?;
            let s = w.as_strided(&[2, 2], &[2, 1], Some(1))?;
            e.square()?.sum()?.add(&s.sin()?.sum()?)?.add(&w.diagonal(1, 0, 1)?.exp()?.sum()?)
        })
    });
}

#[test]
fn hooks_see_and_change_gradients() {
    on_both(|d| {
        let w = t(&[1.0, 2.0], &[2], d);
        w.requires_grad_(true)?;
        let y = w.mul_scalar(3.0)?;
        y.retain_grad()?;
        let seen = Arc::new(AtomicUsize::new(0));
        let (a, b) = (seen.clone(), seen.clone());
        let Some(GradRef::Node(n)) = y.grad_ref() else { panic!("a computed tensor has a node") };
        n.extras().lock().unwrap().before.push((
            1,
            0,
            Arc::new(move |g| {
                a.fetch_add(1, Relaxed);
                g.mul_scalar(10.0).map(Some)
            }),
        ));
        w.leaf()?.hooks.lock().unwrap().after.push((
            2,
            Arc::new(move |w: &Tensor| {
                assert_eq!(v(&w.grad().unwrap()), [30.0, 30.0]);
                b.fetch_add(100, Relaxed);
                Ok(())
            }),
        ));
        y.sum()?.backward()?;
        assert_eq!(seen.load(Relaxed), 101);
        assert_eq!(v(&y.grad().unwrap()), [10.0, 10.0]);
        assert_eq!(v(&w.grad().unwrap()), [30.0, 30.0]);
        w.leaf()?.hooks.lock().unwrap().before.push((3, Arc::new(|_| Err(torchtpu::Error::runtime("no")))));
        assert_eq!(w.sum()?.backward().unwrap_err().message(), "no");
        Ok(())
    });
}

#[test]
fn gradients_are_differentiable() {
    on_both(|d| {
        let x = t(&[0.5, -1.0], &[2], d);
        x.requires_grad_(true)?;
        let y = x.pow_scalar(3i64)?.sum()?;
        let g = autograd::grad(&[y], std::slice::from_ref(&x), &[], None, true, false)?[0].clone().unwrap();
        assert_eq!(v(&g), [0.75, 3.0]);
        let gg = autograd::grad(&[g.sum()?], std::slice::from_ref(&x), &[], None, true, false)?[0].clone().unwrap();
        assert_eq!(v(&gg), [3.0, -6.0]);
        gg.sum()?.backward()?;
        assert_eq!(v(&x.grad().unwrap()), [6.0, 6.0]);

        // Use an op that saves its output.
        let y = x.tanh()?.sum()?;
        let g = autograd::grad(&[y], std::slice::from_ref(&x), &[], None, true, false)?[0].clone().unwrap();
        let gg = autograd::grad(&[g.sum()?], std::slice::from_ref(&x), &[], None, false, false)?[0].clone().unwrap();
        for (a, x) in v(&gg).iter().zip([0.5f32, -1.0]) {
            let t = x.tanh();
            assert!((a + 2.0 * t * (1.0 - t * t)).abs() < 1e-5);
        }
        Ok(())
    });
}

#[test]
fn gradients_accumulate_and_no_grad_records_nothing() {
    on_both(|d| {
        let w = t(&[1.0, 2.0], &[2], d);
        w.requires_grad_(true)?;
        for _ in 0..3 {
            w.square()?.sum()?.backward()?;
        }
        assert_eq!(v(&w.grad().unwrap()), [6.0, 12.0]);
        let y = no_grad(|| w.square())?;
        assert!(!y.requires_grad() && y.is_leaf());
        assert_eq!(
            y.sum()?.backward().unwrap_err().message(),
            "element 0 of tensors does not require grad and does not have a grad_fn"
        );
        assert_eq!(
            w.square()?.backward().unwrap_err().message(),
            "grad can be implicitly created only for scalar outputs"
        );
        w.set_grad(None)?;
        assert!(w.grad().is_none());
        Ok(())
    });
}

#[test]
fn a_chain_of_100_000_nodes_runs_without_recursion() {
    // A small stack, so that recursion would overflow it.
    std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(|| {
            let w = t(&[1.0], &[1], Device::CPU);
            w.requires_grad_(true).unwrap();
            let chain = || (0..100_000).try_fold(w.clone(), |y, _| y.add_scalar(1.0)).unwrap();
            let y = chain();
            y.sum().unwrap().backward().unwrap();
            assert_eq!(v(&w.grad().unwrap()), [1.0]);
            drop(y);
            drop(chain());
            // Nodes that keep tensors, which keep nodes.
            let y = (0..100_000).try_fold(w.clone(), |y, _| y.mul(&y)).unwrap();
            drop(y);
            let y = (0..100_000).try_fold(w.clone(), |y, _| y.tanh()).unwrap();
            drop(y);
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn a_chain_on_the_device_runs_and_is_dropped() {
    let d = torchtpu::device("tpu").unwrap();
    let w = t(&[1.0], &[1], d);
    w.requires_grad_(true).unwrap();
    let y = (0..20_000).try_fold(w.clone(), |y, _| y.add_scalar(1.0)).unwrap();
    y.sum().unwrap().backward().unwrap();
    assert_eq!(v(&w.grad().unwrap()), [1.0]);
    assert_eq!(v(&y), [20_001.0]);
}

#[test]
fn empty_and_0d_tensors_work() {
    on_both(|d| {
        let e = Tensor::zeros(&[0, 3], DType::F32, d)?;
        assert!(v(&e.add_scalar(1.0)?).is_empty());
        assert_eq!(e.sum()?.item_f64()?, 0.0);
        assert_eq!(v(&e.sum_dim(&[0], false)?), [0.0; 3]);
        assert!(e.mean()?.item_f64()?.is_nan());
        assert_eq!(
            *e.matmul(&Tensor::ones(&[3, 2], DType::F32, d)?)?.dims(),
            *Tensor::zeros(&[0, 2], DType::F32, d)?.dims()
        );
        assert_eq!(v(&Tensor::ones(&[2, 0], DType::F32, d)?.matmul(&e)?), [0.0; 6]);
        e.add_(&number(1.0, d))?;
        e.transpose(0, 1)?.select(0, 1)?.neg_()?;
        e.requires_grad_(true)?;
        e.square()?.sum()?.backward()?;
        assert_eq!(e.grad().unwrap().numel(), 0);

        let s = number(2.0, d);
        assert_eq!(s.dims().len(), 0);
        assert_eq!(v(&s.unsqueeze(0)?.expand(&[3])?), [2.0; 3]);
        assert_eq!(s.view_as_sizes(&[1, 1])?.add(&s)?.item_f64()?, 4.0);
        s.view_as_sizes(&[])?.mul_(&number(5.0, d))?;
        assert_eq!(s.item_f64()?, 10.0);
        s.requires_grad_(true)?;
        s.mul(&s)?.backward()?;
        assert_eq!(s.grad().unwrap().item_f64()?, 20.0);
        Ok(())
    });
}

#[test]
fn shapes_broadcast_and_gradients_sum_back() {
    on_both(|d| {
        let (a, b) = (count(&[3, 1], d), count(&[1, 2], d));
        a.requires_grad_(true)?;
        b.requires_grad_(true)?;
        let y = a.add(&b)?.mul(&number(2.0, d))?;
        assert_eq!(v(&y), [0.0, 2.0, 2.0, 4.0, 4.0, 6.0]);
        y.sum()?.backward()?;
        assert_eq!(v(&a.grad().unwrap()), [4.0; 3]);
        assert_eq!(v(&b.grad().unwrap()), [6.0; 2]);
        assert_eq!(*count(&[2, 1, 3], d).mul(&count(&[4, 1], d))?.dims(), [2, 4, 3][..].iter().copied().collect());
        assert_eq!(count(&[0, 1], d).add(&count(&[1, 5], d))?.numel(), 0);
        Ok(())
    });
}

/// `torch.promote_types`, row by row in the order of `DType::FULL`: bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64.
const PROMOTED: [&str; 10] = [
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64",
    "uint8 uint8 int16 int16 int32 int64 float16 bfloat16 float32 float64",
    "int8 int16 int8 int16 int32 int64 float16 bfloat16 float32 float64",
    "int16 int16 int16 int16 int32 int64 float16 bfloat16 float32 float64",
    "int32 int32 int32 int32 int32 int64 float16 bfloat16 float32 float64",
    "int64 int64 int64 int64 int64 int64 float16 bfloat16 float32 float64",
    "float16 float16 float16 float16 float16 float16 float16 float32 float32 float64",
    "bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32 bfloat16 float32 float64",
    "float32 float32 float32 float32 float32 float32 float32 float32 float32 float64",
    "float64 float64 float64 float64 float64 float64 float64 float64 float64 float64",
];

#[test]
fn dtypes_promote_like_pytorchs() {
    on_both(|d| {
        for (a, row) in DType::FULL.into_iter().zip(PROMOTED) {
            for (b, expected) in DType::FULL.into_iter().zip(row.split(' ')) {
                assert_eq!(promote_types(a, b).name(), expected, "{} and {}", a.name(), b.name());
                let (x, y) = (Tensor::ones(&[2], a, d)?, Tensor::ones(&[2], b, d)?);
                assert_eq!(x.add(&y)?.dtype().name(), expected);
                // For promotion, a 0-d tensor counts only by its category, like a number.
                let category = |t: DType| if t.is_float() { 2 } else { (t != DType::Bool) as u8 };
                let zero = Tensor::ones(&[], b, d)?;
                let expected = if category(b) > category(a) { expected } else { a.name() };
                let expected = if category(b) > category(a) && category(b) == 2 { b.name() } else { expected };
                assert_eq!(x.add(&zero)?.dtype().name(), expected, "{} and 0-d {}", a.name(), b.name());
            }
            let x = Tensor::ones(&[2], a, d)?;
            let int = if a == DType::Bool { "int64" } else { a.name() };
            let float = if a.is_float() { a.name() } else { "float32" };
            assert_eq!(x.add_scalar(1i64)?.dtype().name(), int);
            assert_eq!(x.add_scalar(1.5)?.dtype().name(), float);
            assert_eq!(x.div(&x)?.dtype().name(), float);
        }
        Ok(())
    });
}

#[test]
fn tensors_print_like_pytorchs() {
    on_both(|d| {
        let suffix = if d == Device::CPU { "" } else { ", device='tpu:0'" };
        let prints = |x: &Tensor, expected: &str| assert_eq!(x.to_string(), expected.replace('@', suffix));
        prints(&t(&[1.5, -2.25, 0.0], &[3], d), "tensor([ 1.5000, -2.2500,  0.0000]@)");
        prints(&t(&[1.0, 20.0], &[2], d), "tensor([ 1., 20.]@)");
        prints(&t(&[0.0, f32::INFINITY, f32::NAN], &[3], d), "tensor([0., inf, nan]@)");
        prints(&t(&[1.5, f32::NEG_INFINITY], &[2], d), "tensor([1.5000,   -inf]@)");
        prints(&t(&[1.0, 1001.0], &[2], d), "tensor([1.0000e+00, 1.0010e+03]@)");
        prints(&t(&[0.00001, 1.0], &[2], d), "tensor([1.0000e-05, 1.0000e+00]@)");
        prints(&t(&[3.5], &[], d), "tensor(3.5000@)");
        prints(
            &count(&[2, 2, 2], d),
            "tensor([[[0., 1.],\n         [2., 3.]],\n\n        [[4., 5.],\n         [6., 7.]]]@)",
        );
        let i = Tensor::from_slice_on(&[1i64, -20, 300], &[3], d)?;
        prints(&i, "tensor([  1, -20, 300]@)");
        prints(&i.to_dtype(DType::I32)?, "tensor([  1, -20, 300]@, dtype=torch.int32)");
        prints(&i.gt_scalar(0i64)?, "tensor([ True, False,  True]@)");
        prints(&Tensor::full(&[], 7, DType::I64, d)?, "tensor(7@)");
        prints(&t(&[0.5], &[1], d).to_dtype(DType::F64)?, "tensor([0.5000]@, dtype=torch.float64)");
        prints(&t(&[0.1], &[1], d).to_dtype(DType::BF16)?, "tensor([0.1001]@, dtype=torch.bfloat16)");
        prints(&Tensor::zeros(&[0], DType::F32, d)?, "tensor([]@)");
        prints(&Tensor::zeros(&[0, 3], DType::F32, d)?, "tensor([]@, size=(0, 3))");
        prints(&Tensor::zeros(&[0], DType::I64, d)?, "tensor([]@, dtype=torch.int64)");
        prints(
            &count(&[2000], d),
            "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03]@)",
        );
        let big =
            Tensor::arange(0i64.into(), 10_000i64.into(), 1i64.into(), DType::I64, d)?.view_as_sizes(&[100, 100])?;
        prints(
            &big,
            "tensor([[   0,    1,    2,  ...,   97,   98,   99],\n        \
            [ 100,  101,  102,  ...,  197,  198,  199],\n        [ 200,  201,  202,  ...,  297,  298,  299],\n        \
            ...,\n        [9700, 9701, 9702,  ..., 9797, 9798, 9799],\n        \
            [9800, 9801, 9802,  ..., 9897, 9898, 9899],\n        [9900, 9901, 9902,  ..., 9997, 9998, 9999]]@)",
        );
        let w = t(&[1.0], &[1], d);
        w.requires_grad_(true)?;
        prints(&w, "tensor([1.]@, requires_grad=True)");
        prints(&w.add(&w)?, "tensor([2.]@, grad_fn=<AddBackward0>)");
        Ok(())
    });
    let ones = Tensor::ones(&[20], DType::F32, Device::CPU).unwrap();
    assert_eq!(
        ones.to_string(),
        "tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,\n        1., 1.])"
    );
    assert_eq!(
        Tensor::zeros(&[2], DType::F32, Device::META).unwrap().to_string(),
        "tensor(..., device='meta', size=(2,))"
    );
}

#[test]
fn nodes_are_ordered_and_named() {
    let w = t(&[1.0], &[1], Device::CPU);
    w.requires_grad_(true).unwrap();
    let (a, b) = (w.exp().unwrap(), w.mul_scalar(2.0).unwrap());
    let node = |x: &Tensor| -> Arc<Node> {
        match x.grad_ref() {
            Some(GradRef::Node(n)) => n,
            _ => panic!("no node"),
        }
    };
    assert!(node(&b).seq() > node(&a).seq());
    assert_eq!(node(&a).name(), "ExpBackward0");
    assert_eq!(node(&b).name(), "MulBackward0");
}
