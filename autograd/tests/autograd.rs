//! Tests of user-defined functions, checkpoints, hooks on nodes, tensors and saved tensors, gradcheck, and long chains.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use torchtpu::autograd::function::{Context, Function, apply};
use torchtpu::autograd::{
    GradcheckOptions, Layer, backward, checkpoint, checkpoint_sequential, grad, gradcheck, gradgradcheck,
};
use torchtpu::op::{Grads, Outs};
use torchtpu::random::manual_seed;
use torchtpu::saved::{Packed, SavedHooks, SavedTensorHooks, disable_hooks};
use torchtpu::{Backward, DType, Device, Error, ErrorKind, GradMode, Result, Tensor};

fn vector(v: &[f64]) -> Tensor {
    Tensor::from_slice(v, &[v.len()]).unwrap()
}

fn leaf(v: &[f64]) -> Tensor {
    let x = vector(v);
    x.requires_grad_(true).unwrap();
    x
}

fn values(x: &Tensor) -> Vec<f64> {
    x.to_vec().unwrap()
}

fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() <= 1e-6 * (1.0 + y.abs())), "{a:?} against {b:?}");
}

/// Compare gradients of the sum of `f`, and the gradients of those gradients, with central differences.
fn check(f: impl Fn(&Tensor) -> Result<Tensor>, at: &[f64]) {
    let first = |v: &[f64], create_graph: bool| -> (Tensor, Tensor) {
        let x = leaf(v);
        let y = f(&x).unwrap().sum().unwrap();
        let g = grad(&[y], std::slice::from_ref(&x), &[], None, create_graph, false).unwrap().swap_remove(0).unwrap();
        (x, g)
    };
    let eps = 1e-6;
    let shifted = |i: usize, d: f64| {
        let mut v = at.to_vec();
        v[i] += d;
        v
    };
    let (x, g) = first(at, true);
    let numeric: Vec<f64> = (0..at.len())
        .map(|i| {
            let y = |d| f(&vector(&shifted(i, d))).unwrap().sum().unwrap().item_f64().unwrap();
            (y(eps) - y(-eps)) / (2.0 * eps)
        })
        .collect();
    close(&values(&g.detach()), &numeric);
    let weights = vector(&(0..at.len()).map(|i| 0.3 + i as f64).collect::<Vec<_>>());
    let total = g.mul(&weights).unwrap().sum().unwrap();
    let second = grad(&[total], &[x], &[], None, false, false).unwrap().swap_remove(0).unwrap();
    let numeric: Vec<f64> = (0..at.len())
        .map(|i| {
            let y = |d| first(&shifted(i, d), false).1.mul(&weights).unwrap().sum().unwrap().item_f64().unwrap();
            (y(eps) - y(-eps)) / (2.0 * eps)
        })
        .collect();
    close(&values(&second), &numeric);
}

/// `x * y`, with gradients from saved inputs.
struct Product;
impl Function for Product {
    fn forward(&self, ctx: &mut Context, x: &[&Tensor]) -> Result<Outs> {
        ctx.save_for_backward(x);
        Ok([x[0].mul(x[1])?].into_iter().collect())
    }
    fn backward(&self, ctx: &Context, g: &[Option<Tensor>]) -> Result<Grads> {
        let x = ctx.saved_tensors()?;
        let g = g[0].as_ref().expect("materialised");
        Ok([Some(g.mul(&x[1])?), Some(g.mul(&x[0])?)].into_iter().collect())
    }
}

/// `exp`, with the gradient from the saved output.
struct Exp;
impl Function for Exp {
    fn forward(&self, ctx: &mut Context, x: &[&Tensor]) -> Result<Outs> {
        let y = x[0].exp()?;
        ctx.save_for_backward(&[&y]);
        Ok([y].into_iter().collect())
    }
    fn backward(&self, ctx: &Context, g: &[Option<Tensor>]) -> Result<Grads> {
        let g = g[0].as_ref().expect("materialised");
        Ok([Some(g.mul(&ctx.saved_tensors()?[0])?)].into_iter().collect())
    }
}

#[test]
fn functions_have_their_own_first_and_second_gradients() {
    check(|x| Ok(apply(Product, &[x, &x.sin()?])?.swap_remove(0)), &[0.3, -1.2, 2.0]);
    check(|x| Ok(apply(Exp, &[&x.mul_scalar(0.5)?])?.swap_remove(0)), &[0.3, -1.2, 2.0]);
    let y = apply(Exp, &[&leaf(&[1.0])]).unwrap().swap_remove(0);
    assert!(matches!(y.grad_ref(), Some(torchtpu::GradRef::Node(n)) if n.name() == "ExpBackward"));
}

#[test]
fn functions_see_which_inputs_need_gradients() {
    struct Two;
    impl Function for Two {
        fn forward(&self, ctx: &mut Context, x: &[&Tensor]) -> Result<Outs> {
            assert!(ctx.needs_input_grad(0) && !ctx.needs_input_grad(1));
            let (y, n) = (x[0].add(x[1])?, x[0].gt_scalar(0.0)?);
            ctx.mark_non_differentiable(&[&n]);
            ctx.set_materialize_grads(false);
            Ok([y, n, x[0].clone()].into_iter().collect())
        }
        fn backward(&self, _: &Context, g: &[Option<Tensor>]) -> Result<Grads> {
            assert!(g[1].is_none() && g[2].is_none());
            Ok([g[0].clone(), g[0].clone()].into_iter().collect())
        }
    }
    let (x, c) = (leaf(&[1.0, -1.0]), vector(&[2.0, 2.0]));
    let y = apply(Two, &[&x, &c]).unwrap();
    assert!(!y[1].requires_grad() && !y[2].is_same(&x));
    y[0].sum().unwrap().backward().unwrap();
    assert_eq!(values(&x.grad().unwrap()), [1.0, 1.0]);
    assert!(c.grad().is_none());
    let _off = GradMode::set(false);
    struct Plain;
    impl Function for Plain {
        fn forward(&self, _: &mut Context, x: &[&Tensor]) -> Result<Outs> {
            Ok([x[0].neg()?].into_iter().collect())
        }
        fn backward(&self, _: &Context, _: &[Option<Tensor>]) -> Result<Grads> {
            unreachable!("nothing was recorded")
        }
    }
    assert!(!apply(Plain, &[&x]).unwrap()[0].requires_grad());
}

#[test]
fn errors_of_functions_and_hooks_reach_the_caller_and_keep_the_graph_usable() {
    struct Fails(Arc<AtomicUsize>);
    impl Function for Fails {
        fn forward(&self, _: &mut Context, x: &[&Tensor]) -> Result<Outs> {
            Ok([x[0].mul_scalar(2.0)?].into_iter().collect())
        }
        fn backward(&self, _: &Context, g: &[Option<Tensor>]) -> Result<Grads> {
            if self.0.fetch_add(1, Relaxed) == 0 {
                return Err(Error::value("not yet"));
            }
            Ok([g[0].as_ref().map(|g| g.mul_scalar(2.0)).transpose()?].into_iter().collect())
        }
    }
    let x = leaf(&[1.0, 2.0]);
    let y = apply(Fails(Arc::default()), &[&x.square().unwrap()]).unwrap()[0].sum().unwrap();
    let e = backward(std::slice::from_ref(&y), &[], Some(true), false, None).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Value, "not yet"));
    assert!(x.grad().is_none() && torchtpu::state::grad_enabled());
    backward(std::slice::from_ref(&y), &[], None, false, None).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [4.0, 8.0]);
    let e = backward(&[y], &[], None, false, None).unwrap_err();
    assert!(e.message().starts_with("Trying to backward through the graph a second time"));
}

#[test]
fn checkpoints_give_the_gradients_of_the_function() {
    check(|x| Ok(checkpoint(|x| Ok(vec![x[0].exp()?.mul(&x[0].sin()?)?]), &[x])?.swap_remove(0)), &[0.3, -1.2]);
    // Use captured tensors, several inputs, dropout redrawn from the same random state, and a checkpoint within a
    // checkpoint.
    let (w, runs) = (leaf(&[0.5; 64]), Arc::new(AtomicUsize::new(0)));
    let work = {
        let (w, runs) = (w.clone(), runs.clone());
        move |x: &[Tensor]| -> Result<Vec<Tensor>> {
            runs.fetch_add(1, Relaxed);
            let y = torchtpu::ops::dropout::dropout(&x[0].mul(&w)?, 0.5, true)?;
            let y = checkpoint(|y| Ok(vec![y[0].sin()?.mul(&y[0])?]), &[&y])?.swap_remove(0);
            Ok(vec![y.mul(&x[1])?.sum()?])
        }
    };
    let (x, z) = (leaf(&(0..64).map(|i| i as f64 * 0.1).collect::<Vec<_>>()), leaf(&[1.5; 64]));
    let run = |again: bool| {
        manual_seed(7);
        [&x, &z, &w].iter().for_each(|t| t.set_grad(None).unwrap());
        let y = if again {
            checkpoint(work.clone(), &[&x, &z]).unwrap().swap_remove(0)
        } else {
            work(&[x.clone(), z.clone()]).unwrap().swap_remove(0)
        };
        // Numbers drawn after the checkpoint are the same too.
        let after = torchtpu::random::default_generator(Device::CPU).get_state().unwrap();
        y.backward().unwrap();
        assert!(torchtpu::random::default_generator(Device::CPU).get_state().unwrap() == after);
        [&x, &z, &w].map(|t| values(&t.grad().unwrap()))
    };
    let plain = run(false);
    runs.store(0, Relaxed);
    assert_eq!(run(true), plain);
    assert_eq!(runs.load(Relaxed), 2);
    let layer = |k: f64| -> Layer { Box::new(move |x: &Tensor| x.mul_scalar(k)?.tanh()) };
    check(
        |x| checkpoint_sequential(vec![layer(0.5), layer(1.5), layer(0.7), layer(1.1), layer(0.9)], 2, x),
        &[0.4, -0.3],
    );
}

#[test]
fn a_checkpoint_that_runs_differently_is_an_error() {
    let runs = AtomicUsize::new(0);
    let x = leaf(&[0.5, 1.0]);
    let y = checkpoint(
        move |x| Ok(vec![if runs.fetch_add(1, Relaxed) == 0 { x[0].exp()?.sin()? } else { x[0].mul_scalar(1.0)? }]),
        &[&x],
    )
    .unwrap();
    let e = y[0].sum().unwrap().backward().unwrap_err();
    assert!(
        e.message().contains("A different number of tensors was saved during the original forward and recomputation")
    );
}

/// Hooks that save tensors as text and count the calls.
#[derive(Default)]
struct AsText(AtomicUsize, AtomicUsize);
impl SavedTensorHooks for AsText {
    fn pack(&self, x: &Tensor) -> Result<Packed> {
        self.0.fetch_add(1, Relaxed);
        Ok(Box::new(x.to_vec::<f64>()?.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")))
    }
    fn unpack(&self, kept: &Packed) -> Result<Tensor> {
        self.1.fetch_add(1, Relaxed);
        let text = kept.downcast_ref::<String>().expect("made by pack");
        Ok(vector(&text.split(' ').map(|v| v.parse().expect("a number")).collect::<Vec<_>>()))
    }
}

#[test]
fn hooks_control_saved_tensors_and_second_derivatives_work() {
    let hooks = Arc::new(AsText::default());
    let kept = hooks.clone();
    check(
        move |x| {
            let _hooks = SavedHooks::push(kept.clone())?;
            apply(Product, &[&x.exp()?, x])?.swap_remove(0).mul(x)
        },
        &[0.4, -0.3],
    );
    assert!(hooks.0.load(Relaxed) > 0 && hooks.1.load(Relaxed) > 0);
    disable_hooks(Some("not here".into())).unwrap();
    assert_eq!(SavedHooks::push(hooks).err().unwrap().message(), "not here");
    disable_hooks(None).unwrap();
}

#[test]
fn hooks_on_nodes_see_and_replace_gradients() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.square().unwrap();
    let Some(torchtpu::GradRef::Node(node)) = y.grad_ref() else { panic!("a computed tensor") };
    {
        let mut extras = node.extras().lock().unwrap();
        extras.hooks.pre.push((1, Arc::new(|g| Ok(Some(vec![Some(g[0].as_ref().unwrap().mul_scalar(3.0)?)])))));
        extras.hooks.post.push((
            2,
            Arc::new(|found, g| {
                assert_eq!(g[0].as_ref().unwrap().to_vec::<f64>()?, [3.0, 3.0]);
                Ok(Some(vec![Some(found[0].as_ref().unwrap().neg()?)]))
            }),
        ));
    }
    y.sum().unwrap().backward().unwrap();
    assert_eq!(values(&x.grad().unwrap()), [-6.0, -12.0]);
}

#[test]
fn the_graph_below_a_requested_input_is_not_freed() {
    let x = leaf(&[1.0, 2.0]);
    let h = x.square().unwrap();
    grad(&[h.mul_scalar(2.0).unwrap().sum().unwrap()], std::slice::from_ref(&h), &[], None, false, false).unwrap();
    h.sum().unwrap().backward().unwrap();
    assert_eq!(values(&x.grad().unwrap()), [2.0, 4.0]);
}

#[test]
fn writes_through_detach_are_noticed_and_writes_through_data_are_not() {
    for device in [Device::CPU, torchtpu::device("tpu").unwrap()] {
        let x = Tensor::from_slice_on(&[1.0f32, 2.0], &[2], device).unwrap();
        x.requires_grad_(true).unwrap();
        let y = x.mul(&x).unwrap().sum().unwrap();
        x.data().add_(&Tensor::from_slice_on(&[1.0f32, 1.0], &[2], device).unwrap()).unwrap();
        assert_eq!(x.version(), 0);
        assert_eq!(x.to_vec::<f32>().unwrap(), [2.0, 3.0]);
        y.backward().unwrap();
        let y = x.mul(&x).unwrap().sum().unwrap();
        x.detach().mul_(&Tensor::from_slice_on(&[2.0f32, 2.0], &[2], device).unwrap()).unwrap();
        assert_eq!(x.version(), 1);
        assert!(y.backward().unwrap_err().message().contains("modified by an inplace operation"));
    }
}

#[test]
fn a_chain_of_a_million_nodes_runs_backward_and_is_freed() {
    let x = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
    x.requires_grad_(true).unwrap();
    let one = Tensor::full(&[], 1.0, DType::F32, Device::CPU).unwrap();
    let mut y = x.mul(&one).unwrap();
    for i in 0..1_000_000 {
        // Some of these nodes keep their inputs, and some do not.
        y = if i % 2 == 0 { y.add(&one).unwrap() } else { y.mul(&one).unwrap() };
    }
    y.backward().unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [1.0]);
    let mut dropped = x.exp().unwrap();
    for _ in 0..1_000_000 {
        dropped = dropped.sin().unwrap();
    }
    drop(dropped);
}

#[test]
fn a_long_chain_of_functions_is_freed_in_a_loop() {
    let x = leaf(&[0.5]);
    let mut y = x.mul_scalar(1.0).unwrap();
    for _ in 0..100_000 {
        y = apply(Product, &[&y, &vector(&[1.0])]).unwrap().swap_remove(0);
    }
    y.backward().unwrap();
    assert_eq!(values(&x.grad().unwrap()), [1.0]);
    let mut y = x.mul_scalar(1.0).unwrap();
    for _ in 0..100_000 {
        y = apply(Exp, &[&y.mul_scalar(0.0).unwrap()]).unwrap().swap_remove(0);
    }
    drop(y);
}

// ---- gradcheck

/// `x * x` with the gradient of another function.
struct Wrong(fn(&Tensor) -> Result<Tensor>);

impl Function for Wrong {
    fn forward(&self, _: &mut Context, x: &[&Tensor]) -> Result<Outs> {
        Ok([x[0].mul(x[0])?].into_iter().collect())
    }
    fn backward(&self, _: &Context, g: &[Option<Tensor>]) -> Result<Grads> {
        Ok([g[0].as_ref().map(self.0).transpose()?].into_iter().collect())
    }
}

fn wrong(f: fn(&Tensor) -> Result<Tensor>) -> impl Fn(&[Tensor]) -> Result<Vec<Tensor>> {
    move |x| Ok(apply(Wrong(f), &[&x[0]])?.into_vec())
}

fn complex_leaf(v: &[(f64, f64)]) -> Tensor {
    let v: Vec<_> = v.iter().map(|&(re, im)| torchtpu::c128::new(re, im)).collect();
    let z = Tensor::from_slice(&v, &[v.len()]).unwrap();
    z.requires_grad_(true).unwrap();
    z
}

#[test]
fn gradcheck_accepts_correct_gradients_and_restores_inputs() {
    let o = GradcheckOptions::default();
    let (x, y) = (leaf(&[0.5, -1.5, 2.0]), leaf(&[1.0, 2.0, -3.0]));
    let f = |x: &[Tensor]| Ok(vec![x[0].mul(&x[1])?.tanh()?, x[0].exp()?.sum()?, x[0].detach()]);
    gradcheck(f, &[x.clone(), y.clone()], &o).unwrap();
    gradgradcheck(|x| f(x).map(|y| y[..2].to_vec()), &[x.clone(), y.clone()], None, &o).unwrap();
    assert_eq!((values(&x), values(&y)), (vec![0.5, -1.5, 2.0], vec![1.0, 2.0, -3.0]));
    assert!(x.grad().is_none());
    let z = complex_leaf(&[(1.0, 2.0), (-0.5, 0.25)]);
    gradcheck(|z| Ok(vec![z[0].mul(&z[0])?, z[0].abs()?]), std::slice::from_ref(&z), &o).unwrap();
    gradgradcheck(|z| Ok(vec![z[0].mul(&z[0])?.mul(&z[0])?]), &[z], None, &o).unwrap();
    let g = leaf(&[0.3, 0.2, 0.1]);
    gradgradcheck(|x| Ok(vec![x[0].sin()?]), &[x], Some(&[g]), &o).unwrap();
}

#[test]
fn gradcheck_refuses_wrong_gradients_with_pytorchs_messages() {
    let o = GradcheckOptions::default();
    let message = |r: Result<()>| r.unwrap_err().message().to_string();
    let x = [leaf(&[1.0, 2.0])];
    assert_eq!(
        message(gradcheck(wrong(|g| g.copy()), &x, &o)),
        "Jacobian mismatch for output 0 with respect to input 0,\nnumerical:tensor([[2.0000, 0.0000],\n        \
        [0.0000, 4.0000]], dtype=torch.float64)\nanalytical:tensor([[1., 0.],\n        \
        [0., 1.]], dtype=torch.float64)\n"
    );
    let z = [complex_leaf(&[(1.0, 2.0)])];
    assert_eq!(
        message(gradcheck(wrong(|g| g.copy()), &z, &o)),
        "While considering the imaginary part of complex outputs only, Jacobian mismatch for output 0 with respect to \
        input 0,\nnumerical:tensor([[4.0000+2.0000j]], dtype=torch.complex128)\n\
        analytical:tensor([[0.+1.j]], dtype=torch.complex128)\n"
    );
    assert_eq!(
        message(gradcheck(|x| Ok(vec![x[0].detach().mul_scalar(2.0)?]), &x, &o)),
        "Numerical gradient for function expected to be zero"
    );
    assert_eq!(
        message(gradcheck(|x| Ok(x.to_vec()), &[vector(&[1.0])], &o)),
        "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
    );
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let restless = |g: &Tensor| g.mul_scalar(2.0)?.add_scalar(1e-7 * COUNT.fetch_add(1, Relaxed) as f64);
    let one = [leaf(&[1.0])];
    assert!(
        message(gradcheck(wrong(restless), &one, &o)).starts_with("Backward is not reentrant, i.e., running backward")
    );
    let e = message(gradcheck(wrong(|g| g.mul_scalar(2.0)?.add_scalar(1e-6)), &one, &o));
    assert_eq!(e, "backward not multiplied by grad_output");
    // Correct first derivatives do not imply correct second derivatives.
    let detached = |x: &[Tensor]| {
        let y = x[0].mul(&x[0].detach())?.mul_scalar(2.0)?;
        Ok(vec![y.sub(&x[0].detach().mul(&x[0].detach())?)?])
    };
    gradcheck(detached, &x, &o).unwrap();
    assert!(message(gradgradcheck(detached, &x, None, &o)).starts_with("Jacobian mismatch for output 0"));
}

// ---- hooks on tensors

#[test]
fn hooks_on_tensors_see_and_replace_gradients_until_removed() {
    for d in [Device::CPU, torchtpu::device("tpu").unwrap()] {
        let x = Tensor::from_slice_on(&[1.0f32, 2.0], &[2], d).unwrap();
        x.requires_grad_(true).unwrap();
        let backward = |x: &Tensor| {
            x.set_grad(None).unwrap();
            x.mul_scalar(3.0).unwrap().sum().unwrap().backward().unwrap();
            values(&x.grad().unwrap().to_dtype(DType::F64).unwrap())
        };
        let double = x.register_hook(|g| g.mul_scalar(2.0).map(Some)).unwrap();
        let plus = x.register_hook(|g| g.add_scalar(1.0).map(Some)).unwrap();
        let only_looks = x.register_hook(|_| Ok(None)).unwrap();
        assert_eq!(backward(&x), [7.0, 7.0]);
        double.remove();
        double.remove();
        assert_eq!(backward(&x), [4.0, 4.0]);
        plus.remove();
        only_looks.remove();
        let steps = Arc::new(AtomicUsize::new(0));
        let seen = steps.clone();
        let after = x
            .register_post_accumulate_grad_hook(move |x| {
                assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [3.0, 3.0]);
                seen.fetch_add(1, Relaxed);
                Ok(())
            })
            .unwrap();
        backward(&x);
        after.remove();
        assert_eq!(backward(&x), [3.0, 3.0]);
        assert_eq!(steps.load(Relaxed), 1);
        // Check a hook on a computed tensor.
        x.set_grad(None).unwrap();
        let y = x.mul_scalar(2.0).unwrap();
        let hook = y.register_hook(|g| g.mul_scalar(10.0).map(Some)).unwrap();
        y.sum().unwrap().backward().unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [20.0, 20.0]);
        hook.remove();
        let e = y.register_post_accumulate_grad_hook(|_| Ok(())).unwrap_err();
        assert_eq!(e.message(), "post accumulate grad hooks cannot be registered on non-leaf tensors");
        let e = y.detach().register_hook(|_| Ok(None)).unwrap_err();
        assert_eq!(e.message(), "cannot register a hook on a tensor that doesn't require gradient");
    }
}

#[test]
fn a_hook_may_not_change_size_dtype_or_device() {
    let refused = |hook: fn(&Tensor) -> Result<Option<Tensor>>| {
        let mut messages = Vec::new();
        for computed in [false, true] {
            let p = Tensor::ones(&[3], DType::F32, Device::CPU).unwrap();
            p.requires_grad_(true).unwrap();
            let q = if computed { p.mul_scalar(2.0).unwrap() } else { p.clone() };
            q.register_hook(hook).unwrap();
            let y = q.mul_scalar(3.0).unwrap().sum().unwrap();
            messages.push(y.backward().unwrap_err().message().to_string());
            assert!(p.grad().is_none());
        }
        assert_eq!(messages[0], messages[1]);
        messages.swap_remove(0)
    };
    let size = "hook '0' has changed the size of value";
    assert_eq!(refused(|_| Tensor::ones(&[5], DType::F32, Device::CPU).map(Some)), size);
    assert_eq!(refused(|_| Tensor::ones(&[1], DType::F32, Device::CPU).map(Some)), size);
    let was = "hook '0' has changed the type of value (was torch.FloatTensor got";
    assert_eq!(refused(|g| g.to_dtype(DType::F64).map(Some)), format!("{was} torch.DoubleTensor)"));
    assert_eq!(refused(|g| g.to_dtype(DType::F16).map(Some)), format!("{was} torch.HalfTensor)"));
    assert_eq!(refused(|g| g.to_dtype(DType::C64).map(Some)), format!("{was} CPUComplexFloatType)"));
    assert_eq!(refused(|g| g.to_device(Device::META).map(Some)), format!("{was} MetaFloatType)"));
}
