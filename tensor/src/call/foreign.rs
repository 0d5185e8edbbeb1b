//! Foreign tensors, and calls that other code takes over.
//!
//! A foreign tensor has sizes, strides, a dtype and a device, and a value that only an [`Interceptor`] knows: the
//! Python binding keeps the object of a class with `__torch_dispatch__`. The interceptor gets every op on one, below
//! autograd: history is recorded here, and the gradient formulas reach it as ops on foreign tensors again. A thread
//! with modes has the interceptor get every op.
//!
//! Ops ask for it only while [`watch`] counts a reason, so that ordinary calls pay nothing.

use crate::op::{Outs, Prim};
use crate::ops::matmul::Dot;
use crate::{Device, Dims, Meta, Place, Rep, Result, Scalar, Tensor, graph, state};
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

/// The code that takes calls over.
pub trait Interceptor: Send + Sync {
    /// Whether it takes a call with these operands over.
    fn wants(&self, x: &[&Tensor]) -> bool;
    /// The results of a call. Gradients are off, and the results need no history. `None` if it has no word for the op;
    /// then the ops that the op consists of are called instead.
    ///
    /// # Errors
    /// Those of the code that runs.
    fn call(&self, op: &Prim, x: &[&Tensor]) -> Result<Option<Outs>>;
    /// A tensor of ones like `x`, a foreign tensor: the gradient that backward starts with.
    ///
    /// # Errors
    /// Those of the code that runs.
    fn ones_like(&self, x: &Tensor) -> Result<Tensor>;
}

static INTERCEPTOR: OnceLock<&'static dyn Interceptor> = OnceLock::new();

/// Install the interceptor. The first one stays.
pub fn install(interceptor: &'static dyn Interceptor) {
    let _ = INTERCEPTOR.set(interceptor);
}

/// Note a reason to ask the interceptor at every call, or that a reason has gone.
pub fn watch(on: bool) {
    match on {
        true => state::UNUSUAL.fetch_add(1, Relaxed),
        false => state::UNUSUAL.fetch_sub(1, Relaxed),
    };
}

/// A tensor of ones like `x`.
///
/// # Errors
/// Those of the code that makes it.
pub fn ones_like(x: &Tensor) -> Result<Tensor> {
    match INTERCEPTOR.get() {
        Some(interceptor) => interceptor.ones_like(x),
        None => Tensor::full_meta(&made_dense(x.meta()), Scalar::Int(1)),
    }
}

/// The foreign tensor of a value, with strides that may leave gaps or repeat elements. It takes over the reference to
/// the value.
pub fn of_value(meta: &Meta, strides: Dims, handle: u64) -> Tensor {
    Tensor::from_laid_out_value(&Meta { place: place(meta.place.device), ..*meta }, strides, handle)
}

/// The place of foreign tensors on a device.
pub fn place(device: Device) -> Place {
    Place { device, rep: Rep::Foreign, member: 0 }
}

/// Whether a tensor is foreign.
#[inline]
pub fn is_foreign(x: &Tensor) -> bool {
    x.place().rep == Rep::Foreign
}

/// The description of a tensor that is made beside foreign ones: it is dense.
pub(crate) fn made_dense(meta: &Meta) -> Meta {
    Meta { place: meta.place.device.into(), ..*meta }
}

/// Whether the interceptor takes a call with these operands over.
#[cold]
pub(crate) fn is_intercepted(x: &[&Tensor]) -> bool {
    INTERCEPTOR.get().is_some_and(|i| i.wants(x))
}

/// The results of a call that the interceptor takes over, with history. `None` if it is an ordinary call.
#[cold]
pub(crate) fn intercepted(op: &Prim, x: &[&Tensor]) -> Option<Result<Outs>> {
    let interceptor = INTERCEPTOR.get()?;
    interceptor.wants(x).then(|| run(*interceptor, op, x))
}

/// Record the history of a call whose results are known.
///
/// # Errors
/// When a tensor cannot be saved.
pub fn record(op: Prim, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
    graph::record(op, x, y)
}

/// Call the interceptor. Operands of a product that are stored transposed are transposed first.
fn called(interceptor: &dyn Interceptor, op: &Prim, x: &[&Tensor]) -> Result<Option<Outs>> {
    let (Prim::Dot(dot), [a, b]) = (op, x) else { return interceptor.call(op, x) };
    if !dot.ta && !dot.tb {
        return interceptor.call(op, x);
    }
    let stored = |t: &Tensor, swapped: bool| if swapped { t.transpose(-2, -1) } else { Ok(t.clone()) };
    let (a, b) = (stored(a, dot.ta)?, stored(b, dot.tb)?);
    interceptor.call(&Prim::Dot(Dot { ta: false, tb: false, ..*dot }), &[&a, &b])
}

fn run(interceptor: &dyn Interceptor, op: &Prim, x: &[&Tensor]) -> Result<Outs> {
    let grad = graph::may_need_grad(x);
    if grad && !op.is_view() && !op.has_vjp() {
        return expand(op, x);
    }
    let is_dense = !x.iter().any(|t| is_foreign(t));
    // A mode calls an operator on dense tensors, which records its own history.
    let y = if is_dense { called(interceptor, op, x)? } else { state::no_grad(|| called(interceptor, op, x))? };
    let mut y = match y {
        Some(y) if is_dense && y.iter().any(Tensor::requires_grad) => return Ok(y),
        Some(y) => y,
        None => state::no_grad(|| expand(op, x))?,
    };
    if grad {
        for t in &mut y {
            // The result may be an operand itself, or a tensor that its maker still uses.
            if t.has_autograd() {
                *t = t.shallow_alias()?;
            }
        }
        graph::record(op.clone(), x, &y)?;
    }
    Ok(y)
}

thread_local! {
    /// The ops whose parts are called now.
    static EXPANDED: RefCell<Vec<Prim>> = const { RefCell::new(Vec::new()) };
}

/// Whether an op is a part of itself: the same op on the host.
pub fn is_own_part(op: &Prim) -> bool {
    EXPANDED.with_borrow(|all| all.contains(op))
}

/// Call the ops that an op consists of.
fn expand(op: &Prim, x: &[&Tensor]) -> Result<Outs> {
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            EXPANDED.with_borrow_mut(|all| all.pop());
        }
    }
    EXPANDED.with_borrow_mut(|all| all.push(op.clone()));
    let _ends = Ends;
    op.expand(x)
}
