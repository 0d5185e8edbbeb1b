//! The gradient of a tensor: `requires_grad`, `grad`, `retain_grad` and `detach`.

use crate::graph::{Edge, Leaf, put};
use crate::{Error, GradRef, Result, Tensor, state};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Tensor {
    /// Whether gradients flow to this tensor.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        if self.has_autograd() {
            return self.wants_grad();
        }
        self.view_info().is_some_and(|v| v.is_stale(self) && v.base.requires_grad())
    }

    /// Whether the tensor was not computed from others that require a gradient.
    pub fn is_leaf(&self) -> bool {
        !matches!(self.history(), Ok(Some(GradRef::Node(_))))
    }

    /// [`Tensor::grad_ref`], brought up to date first if the base of this view was written in place.
    pub fn history(&self) -> Result<Option<GradRef>> {
        if let Some(v) = self.view_info() {
            v.refresh(self)?;
        }
        Ok(self.grad_ref())
    }

    /// [`Tensor::edge`], brought up to date like [`Tensor::history`].
    #[inline(always)]
    pub fn history_edge(&self) -> Result<Edge> {
        if self.view_info().is_some() {
            return self.view_edge();
        }
        Ok(if self.has_autograd() { self.edge() } else { Edge::None })
    }

    #[inline(never)]
    fn view_edge(&self) -> Result<Edge> {
        if let Some(v) = self.view_info() {
            v.refresh(self)?;
        }
        Ok(self.edge())
    }

    /// Switch gradients on or off for a leaf.
    ///
    /// # Errors
    /// `Runtime` for tensors of integers and for tensors with a history.
    pub fn requires_grad_(&self, on: bool) -> Result<&Tensor> {
        if on && self.is_inference() && !state::is_inference() {
            return Err(Error::runtime(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
            ));
        }
        if on && !self.dtype().is_inexact() {
            return Err(Error::runtime("only Tensors of floating point dtype can require gradients"));
        }
        match self.history()? {
            Some(GradRef::Node(_)) if !on => Err(Error::runtime(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in \
                a subgraph that doesn't require differentiation use var_no_grad = var.detach().",
            )),
            Some(GradRef::Node(_)) => Ok(self),
            Some(GradRef::Leaf(l)) => {
                l.requires_grad.store(on, Relaxed);
                self.set_leaf_wants(on);
                Ok(self)
            }
            None if on => {
                // Another thread may have made the leaf first.
                if let GradRef::Leaf(l) = self.grad_ref_or(GradRef::Leaf(Arc::new(Leaf::new(true)))) {
                    l.requires_grad.store(true, Relaxed);
                    self.set_leaf_wants(true);
                }
                Ok(self)
            }
            None => Ok(self),
        }
    }

    /// The leaf state, which is made if it is missing.
    ///
    /// # Errors
    /// `Runtime` for tensors with a history.
    pub fn leaf(&self) -> Result<Arc<Leaf>> {
        match self.history()? {
            Some(GradRef::Leaf(l)) => Ok(l),
            Some(GradRef::Node(_)) => Err(Error::runtime("not a leaf tensor")),
            None => {
                // Another thread may have made the leaf first.
                match self.grad_ref_or(GradRef::Leaf(Arc::new(Leaf::new(false)))) {
                    GradRef::Leaf(l) => Ok(l),
                    GradRef::Node(_) => Err(Error::runtime("not a leaf tensor")),
                }
            }
        }
    }

    /// The accumulated gradient of a leaf, or the retained one of a computed tensor.
    pub fn grad(&self) -> Option<Tensor> {
        match self.grad_ref()? {
            GradRef::Leaf(l) => l.grad.lock().unwrap_or_else(|e| e.into_inner()).clone(),
            GradRef::Node(n) => n.grad_slot(self.output_nr())?.lock().unwrap_or_else(|e| e.into_inner()).clone(),
        }
    }

    /// Set or clear `.grad`.
    ///
    /// # Errors
    /// `Runtime` when sizes, dtype or device differ.
    pub fn set_grad(&self, g: Option<Tensor>) -> Result<()> {
        if let Some(g) = &g {
            if g.dims() != self.dims() {
                return Err(Error::runtime(format!(
                    "attempting to assign a gradient of size '{}' to a tensor of size '{}'. Please ensure that the \
                    gradient and the tensor are the same size",
                    g.dims(),
                    self.dims()
                )));
            }
            if g.dtype() != self.dtype() {
                return Err(Error::runtime(format!(
                    "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient \
                    must match the tensor's dtype",
                    g.dtype().c_name(),
                    self.dtype().scalar_type()
                )));
            }
            if g.place() != self.place() {
                return Err(Error::runtime(format!(
                    "attempting to assign a gradient on device '{}' to a tensor on device '{}'. Please ensure that the \
                    gradient and the tensor are on the same device",
                    g.place(),
                    self.place()
                )));
            }
        }
        if g.is_none() && !self.has_autograd() {
            return Ok(());
        }
        if let Some(GradRef::Node(n)) = self.history()? {
            n.assign_grad(self.output_nr(), g);
            return Ok(());
        }
        put(&self.leaf()?.grad, g);
        Ok(())
    }

    /// Keep the gradient of a computed tensor in `.grad` during backward. Do nothing for leaves.
    ///
    /// # Errors
    /// `Runtime` when no gradient is required.
    pub fn retain_grad(&self) -> Result<()> {
        match self.history()? {
            Some(GradRef::Leaf(l)) if l.requires_grad() => Ok(()),
            Some(GradRef::Node(n)) => {
                let mut extras = n.extras().lock().unwrap_or_else(|e| e.into_inner());
                let nr = self.output_nr();
                if !extras.retained.iter().any(|(k, _)| *k == nr) {
                    let at = extras.assigned.iter().position(|(k, _)| *k == nr);
                    let known = at.map(|i| extras.assigned.remove(i).1);
                    extras.retained.push((nr, known.unwrap_or_default()));
                }
                Ok(())
            }
            _ => Err(Error::runtime("can't retain_grad on Tensor that has requires_grad=False")),
        }
    }

    /// Take over the autograd state of `from`, whose elements this tensor replaces: its history or leaf, with gradient
    /// and hooks. A graph that leads to the leaf of `from` then leads to this tensor. Its gradients keep the sizes,
    /// dtype and device of `from`.
    ///
    /// # Errors
    /// When the history of a view cannot be made anew.
    pub fn take_over(&self, from: &Tensor) -> Result<()> {
        self.set_grad_ref(from.history()?, from.output_nr());
        Ok(())
    }

    /// `x.data`: [`Tensor::detach`], but saved tensors of `self` do not notice in-place writes through it.
    pub fn data(&self) -> Tensor {
        let t = self.detach();
        t.mark_unversioned();
        if self.requires_grad() && self.is_leaf() {
            // The alias has no sign that it is a parameter.
            t.mark_state();
        }
        t
    }

    /// The same elements without history; shares the storage.
    pub fn detach(&self) -> Tensor {
        self.shallow_alias().expect("a tensor's own layout fits its storage")
    }
}
