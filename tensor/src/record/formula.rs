//! Gradients of composed ops by a formula.
//!
//! The gradient of a composition is a sum of terms. At zeros, infinities and bounds, or far from zero, single terms may
//! be infinite, or cancel, where the gradient of the whole is an ordinary number. [`by_formula`] records a composition
//! as one node with a gradient of its own, as PyTorch does.

use crate::graph::{BackwardFn, Node, second_backward, with_backward};
use crate::op::{Grads, bit};
use crate::saved::SavedTensor;
use crate::types::compute::{narrowed, widened};
use crate::{GradRef, Meta, Result, Tensor, state};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Gradients of the operands `x` from the gradient `g` of the result. `needs` has a bit for each operand whose gradient
/// is wanted. Gradients may have the broadcast shape. 16-bit floats come as `float32`, and gradients may be `float32`.
type Rule = Box<dyn Fn(&[Tensor], &Tensor, u64) -> Result<Grads> + Send + Sync>;

struct Formula {
    name: &'static str,
    saved: Mutex<Option<Values>>,
    /// The node that this formula belongs to, if it saves its result.
    node: OnceLock<Weak<Node>>,
    metas: SmallVec<[Meta; 3]>,
    needs: u64,
    rule: Rule,
}

/// The operands that a formula saves, and its result.
struct Values {
    x: Vec<SavedTensor>,
    y: Option<SavedTensor>,
}

impl Formula {
    fn saved(&self) -> MutexGuard<'_, Option<Values>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackwardFn for Arc<Formula> {
    fn name(&self) -> String {
        self.name.to_string()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let Some(g) = &g[0] else { return Ok(self.metas.iter().map(|_| None).collect()) };
        let saved = self.saved();
        let values = saved.as_ref().ok_or_else(second_backward)?;
        let mut x = values.x.iter().map(SavedTensor::get).collect::<Result<Vec<_>>>()?;
        if let Some(y) = &values.y {
            let node = self.node.get().and_then(Weak::upgrade).expect("the node runs its own formula");
            x.push(y.get_output(&node, 0)?);
        }
        drop(saved);
        // 16-bit floats are rounded once, at the end.
        let x = x.iter().map(widened).collect::<Result<Vec<_>>>()?;
        let grads = (self.rule)(&x, &widened(g)?, self.needs)?;
        let finish = |g: Tensor, m: &Meta| {
            let g = g.sum_to(&m.dims)?;
            if m.dtype.is_half() { narrowed(g, m.dtype) } else { Ok(g) }
        };
        grads.into_iter().zip(&self.metas).map(|(g, m)| g.map(|g| finish(g, m)).transpose()).collect()
    }
    fn release(&self) {
        let gone = self.saved().take();
        drop(gone);
    }
}

/// A gradient that needs no operand, only the gradient `g` of the result and the descriptions of the operands.
type LinearRule = Box<dyn Fn(&Tensor, &[Meta], u64) -> Result<Grads> + Send + Sync>;

struct Linear {
    name: &'static str,
    metas: SmallVec<[Meta; 3]>,
    needs: u64,
    rule: LinearRule,
}

impl BackwardFn for Linear {
    fn name(&self) -> String {
        self.name.to_string()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let Some(g) = &g[0] else { return Ok(self.metas.iter().map(|_| None).collect()) };
        (self.rule)(g, &self.metas, self.needs)
    }
}

fn needs(x: &[&Tensor]) -> u64 {
    x.iter().enumerate().fold(0, |m, (i, x)| m | if x.requires_grad() { bit(i) } else { 0 })
}

/// Return `forward()`, which is a function of `x`. Its gradients, those of `rule`, do not depend on `x`, so nothing is
/// saved.
pub(crate) fn linear(
    name: &'static str,
    x: &[&Tensor],
    forward: impl FnOnce() -> Result<Tensor>,
    rule: impl Fn(&Tensor, &[Meta], u64) -> Result<Grads> + Send + Sync + 'static,
) -> Result<Tensor> {
    if !crate::graph::may_need_grad(x) {
        return forward();
    }
    let y = state::no_grad(forward)?;
    let metas = x.iter().map(|x| *x.meta()).collect();
    with_backward(&y, x, Box::new(Linear { name, metas, needs: needs(x), rule: Box::new(rule) }))
}

/// Return `forward()`, a piecewise constant function of `x`. Its gradients are zero, also where those of its parts are
/// infinite.
pub(crate) fn steps(name: &'static str, x: &[&Tensor], forward: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    linear(name, x, forward, |_, metas, needs| {
        let zeros = |(i, m): (usize, &Meta)| (needs & bit(i) != 0).then(|| Tensor::zeros_like_meta(m)).transpose();
        metas.iter().enumerate().map(zeros).collect()
    })
}

/// Return `forward()`, which is a function of `x`. If a gradient may be wanted, it is recorded as one node, whose
/// gradients are those of `rule`. The node saves all of `x`.
pub(crate) fn by_formula(
    name: &'static str,
    x: &[&Tensor],
    forward: impl FnOnce() -> Result<Tensor>,
    rule: impl Fn(&[Tensor], &Tensor, u64) -> Result<Grads> + Send + Sync + 'static,
) -> Result<Tensor> {
    if !crate::graph::may_need_grad(x) {
        return forward();
    }
    let saved = Values { x: saved(x, u64::MAX)?, y: None };
    let y = state::no_grad(forward)?;
    with_backward(&y, x, Box::new(formula(name, x, saved, Box::new(rule))))
}

/// [`by_formula`] for a rule that reads the result: it gets the operands of the mask `saves`, and then the result.
/// Nothing else is saved.
pub(crate) fn by_result(
    name: &'static str,
    x: &[&Tensor],
    saves: u64,
    forward: impl FnOnce() -> Result<Tensor>,
    rule: impl Fn(&[Tensor], &Tensor, u64) -> Result<Grads> + Send + Sync + 'static,
) -> Result<Tensor> {
    if !crate::graph::may_need_grad(x) {
        return forward();
    }
    let x_saved = saved(x, saves)?;
    let y = state::no_grad(forward)?;
    let saved = Values { x: x_saved, y: Some(SavedTensor::output(&y)?) };
    let formula = formula(name, x, saved, Box::new(rule));
    let y = with_backward(&y, x, Box::new(formula.clone()))?;
    if let Some(GradRef::Node(node)) = y.grad_ref() {
        formula.node.get_or_init(|| Arc::downgrade(&node));
    }
    Ok(y)
}

/// Save the operands of a mask.
fn saved(x: &[&Tensor], mask: u64) -> Result<Vec<SavedTensor>> {
    let overwritten = state::with(|s| s.overwritten.get());
    let save = |x: &Tensor| -> Result<SavedTensor> {
        // An in-place op is about to overwrite this storage.
        SavedTensor::new(if x.storage_id() == overwritten { x.copy()? } else { x.clone() })
    };
    x.iter().enumerate().filter(|(i, _)| mask & bit(*i) != 0).map(|(_, x)| save(x)).collect()
}

fn formula(name: &'static str, x: &[&Tensor], saved: Values, rule: Rule) -> Arc<Formula> {
    let metas = x.iter().map(|x| *x.meta()).collect();
    let (saved, node) = (Mutex::new(Some(saved)), OnceLock::new());
    Arc::new(Formula { name, saved, node, metas, needs: needs(x), rule })
}
