//! Functions with user-defined gradients.

use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use torchtpu_tensor::graph::{BackwardFn, Edge, Node};
use torchtpu_tensor::op::{Grads, Outs};
use torchtpu_tensor::saved::SavedTensor;
use torchtpu_tensor::{Error, GradRef, Meta, Result, Tensor, no_grad, state};

/// An operation with its own gradient, like `torch.autograd.Function`.
///
/// ```
/// use torchtpu_autograd::function::{Context, Function, apply};
/// use torchtpu_tensor::op::{Grads, Outs};
/// use torchtpu_tensor::{Result, Tensor};
///
/// /// `exp`, whose gradient is computed from its result.
/// struct Exp;
/// impl Function for Exp {
///     fn forward(&self, ctx: &mut Context, x: &[&Tensor]) -> Result<Outs> {
///         let y = x[0].exp()?;
///         ctx.save_for_backward(&[&y]);
///         Ok([y].into_iter().collect())
///     }
///     fn backward(&self, ctx: &Context, g: &[Option<Tensor>]) -> Result<Grads> {
///         let g = g[0].as_ref().expect("materialised");
///         Ok([Some(g.mul(&ctx.saved_tensors()?[0])?)].into_iter().collect())
///     }
/// }
///
/// let x = Tensor::from_slice(&[0.0f64, 1.0], &[2])?;
/// x.requires_grad_(true)?;
/// let y = apply(Exp, &[&x])?.swap_remove(0);
/// torchtpu_autograd::backward(&[y.sum()?], &[], None, false, None)?;
/// assert_eq!(x.grad().unwrap().to_vec::<f64>()?, y.to_vec::<f64>()?);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
pub trait Function: Send + Sync + 'static {
    /// Return the name that `grad_fn` and errors show. By default it is the type's name with `Backward` appended.
    fn name(&self) -> String {
        let full = std::any::type_name::<Self>();
        let plain = full.split('<').next().unwrap_or(full);
        format!("{}Backward", plain.rsplit("::").next().unwrap_or(plain))
    }
    /// Compute the outputs. Ops within are not recorded.
    ///
    /// # Errors
    /// May return any error. Nothing is recorded then.
    fn forward(&self, ctx: &mut Context, x: &[&Tensor]) -> Result<Outs>;
    /// Compute the gradients of the inputs from those of the outputs, one per input.
    ///
    /// # Errors
    /// May return any error. Backward then ends with it.
    fn backward(&self, ctx: &Context, g: &[Option<Tensor>]) -> Result<Grads>;
}

/// A saved tensor, and the index of the output that it is, if any.
type Saved = (SavedTensor, Option<u32>);

/// State that `forward` passes to `backward`.
#[derive(Default)]
pub struct Context {
    to_save: Vec<Tensor>,
    dirty: Vec<Tensor>,
    fixed: Vec<Tensor>,
    keep_missing: bool,
    needs: Vec<bool>,
    saved: Mutex<Option<Vec<Saved>>>,
    node: OnceLock<Weak<Node>>,
}

impl Context {
    /// Save tensors for [`Context::saved_tensors`]: inputs, outputs or others.
    pub fn save_for_backward(&mut self, x: &[&Tensor]) {
        self.to_save = x.iter().map(|t| (*t).clone()).collect();
    }
    /// Mark inputs that `forward` changed in place and returns.
    pub fn mark_dirty(&mut self, x: &[&Tensor]) {
        self.dirty = x.iter().map(|t| (*t).clone()).collect();
    }
    /// Mark outputs that have no gradient.
    pub fn mark_non_differentiable(&mut self, y: &[&Tensor]) {
        self.fixed = y.iter().map(|t| (*t).clone()).collect();
    }
    /// Choose whether a missing output gradient is passed as zeros (the default) or as `None`.
    pub fn set_materialize_grads(&mut self, on: bool) {
        self.keep_missing = !on;
    }
    /// Whether input `i` requires a gradient.
    pub fn needs_input_grad(&self, i: usize) -> bool {
        self.needs.get(i).copied().unwrap_or(false)
    }
    /// Return the tensors given to [`Context::save_for_backward`].
    ///
    /// # Errors
    /// Fails with `Runtime` if a backward freed the tensors, or if one was changed in place.
    pub fn saved_tensors(&self) -> Result<Vec<Tensor>> {
        let saved = self.saved.lock().unwrap_or_else(|e| e.into_inner());
        let Some(saved) = &*saved else { return Err(torchtpu_tensor::graph::second_backward()) };
        let node = self.node.get().and_then(Weak::upgrade);
        saved
            .iter()
            .map(|(s, output)| match (output, &node) {
                (Some(nr), Some(node)) => s.get_output(node, *nr),
                _ => s.get(),
            })
            .collect()
    }
}

struct Recorded<F> {
    function: F,
    context: Arc<Context>,
    inputs: usize,
    outputs: Vec<Meta>,
}

impl<F: Function> BackwardFn for Recorded<F> {
    fn name(&self) -> String {
        self.function.name()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let filled: Vec<Option<Tensor>> = g
            .iter()
            .zip(&self.outputs)
            .map(|(g, m)| match g {
                None if !self.context.keep_missing => Tensor::zeros_like_meta(m).map(Some),
                g => Ok(g.clone()),
            })
            .collect::<Result<_>>()?;
        let mut found = self.function.backward(&self.context, &filled)?;
        if found.len() != self.inputs {
            return Err(Error::runtime(format!(
                "function {} returned an incorrect number of gradients (expected {}, got {})",
                self.name(),
                self.inputs,
                found.len()
            )));
        }
        for (g, needed) in found.iter_mut().zip(&self.context.needs) {
            if !needed {
                *g = None;
            }
        }
        Ok(found)
    }
    fn release(&self) {
        let saved = self.context.saved.lock().unwrap_or_else(|e| e.into_inner()).take();
        drop(saved);
    }
}

/// Run a function on inputs and record its backward.
///
/// # Errors
/// Returns the error of `forward`. Fails with `Runtime` if `forward` marks a tensor that is not an input as dirty.
pub fn apply<F: Function>(function: F, x: &[&Tensor]) -> Result<Outs> {
    let recording = state::grad_enabled();
    let mut context = Context { needs: x.iter().map(|t| t.requires_grad()).collect(), ..Context::default() };
    let edges = x.iter().map(|t| t.history_edge()).collect::<Result<SmallVec<[Edge; 2]>>>()?;
    let mut y = no_grad(|| function.forward(&mut context, x))?;
    let is_dirty = |t: &Tensor| context.dirty.iter().any(|d| d.is_same(t));
    for d in &context.dirty {
        if !x.iter().any(|t| t.is_same(d)) {
            return Err(Error::runtime("mark_dirty only accepts input tensors"));
        }
        if recording && d.requires_grad() && d.is_leaf() {
            return Err(Error::runtime("a leaf Variable that requires grad is being used in an in-place operation."));
        }
    }
    for t in &mut y {
        // Outside, a returned input and a view made within are new tensors.
        if !is_dirty(t) && (x.iter().any(|a| a.is_same(t)) || t.view_info().is_some_and(|v| !v.is_detached())) {
            let plain = t.detach();
            let renamed = |v: &mut Vec<Tensor>| v.iter_mut().filter(|s| s.is_same(t)).for_each(|s| *s = plain.clone());
            renamed(&mut context.fixed);
            *t = plain;
        }
    }
    if !(recording && context.needs.contains(&true)) {
        return Ok(y);
    }
    let saved = context
        .to_save
        .drain(..)
        .map(|t| match y.iter().position(|o| o.is_same(&t)) {
            Some(nr) => Ok((SavedTensor::output(&t)?, Some(nr as u32))),
            None => Ok((SavedTensor::new(t)?, None)),
        })
        .collect::<Result<Vec<_>>>()?;
    context.saved = Mutex::new(Some(saved));
    let fixed = std::mem::take(&mut context.fixed);
    context.dirty.clear();
    let context = Arc::new(context);
    let outputs: Vec<Meta> = y.iter().map(|t| *t.meta()).collect();
    let recorded = Recorded { function, context: context.clone(), inputs: x.len(), outputs: outputs.clone() };
    let node = Node::function(Box::new(recorded), edges, outputs.into_iter().collect());
    let _ = context.node.set(Arc::downgrade(&node));
    for (nr, t) in y.iter().enumerate() {
        if t.dtype().is_inexact() && !fixed.iter().any(|f| f.is_same(t)) {
            t.set_grad_ref(Some(GradRef::Node(node.clone())), nr as u32);
        }
    }
    Ok(y)
}
