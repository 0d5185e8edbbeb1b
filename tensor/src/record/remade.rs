//! Saved tensors that are made again where backward reads them.
//!
//! A function may use tensors that take much memory and that its caller can make again, such as parameters gathered
//! from other processes. While [`Remade`] hooks are in force, a node that saves one of them, or a view of one, keeps
//! its number and the ops of the view. Other tensors are kept as they are, or by the hooks that were in force before.
//!
//! ```
//! use std::sync::Arc;
//! use torchtpu_tensor::remade::Remade;
//! use torchtpu_tensor::saved::SavedHooks;
//! use torchtpu_tensor::{Result, Tensor};
//!
//! let w = Tensor::from_slice(&[1f32, 2.0], &[2])?;
//! w.requires_grad_(true)?;
//! let remade = Arc::new(Remade::new(vec![w.clone()], |_| Tensor::from_slice(&[1f32, 2.0], &[2])));
//! let y = {
//!     let _hooks = SavedHooks::push(remade.clone())?;
//!     w.square()?
//! };
//! remade.forget(); // Now nothing but the caller holds `w`.
//! # drop(y);
//! # Ok::<(), torchtpu_tensor::Error>(())
//! ```

use crate::op::Prim;
use crate::saved::{Packed, SavedTensorHooks, current_hooks, modified};
use crate::{Result, Tensor, dispatch, state};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Make = Box<dyn Fn(usize) -> Result<Tensor> + Send + Sync>;

/// Hooks that keep the numbers of some tensors in place of the tensors.
pub struct Remade {
    tensors: Mutex<Vec<Tensor>>,
    make: Make,
    outer: Option<Arc<dyn SavedTensorHooks>>,
}

/// The object that is saved in place of a tensor.
enum Kept {
    /// View ops of one of the tensors.
    View(usize, Vec<Prim>),
    /// Another tensor, without its history, and its version.
    Other(Tensor, u32),
    /// The object that the hooks before have made.
    Outer(Packed),
}

impl Remade {
    /// Return hooks for `tensors`. `make(i)` returns a tensor with the elements of tensor `i`. Other tensors are kept
    /// by the hooks that are in force on this thread now.
    pub fn new(tensors: Vec<Tensor>, make: impl Fn(usize) -> Result<Tensor> + Send + Sync + 'static) -> Remade {
        Remade { tensors: Mutex::new(tensors), make: Box::new(make), outer: current_hooks().pop() }
    }

    /// Drop the tensors. The hooks know them no more, and nodes that have saved them make them again.
    pub fn forget(&self) {
        let tensors = std::mem::take(&mut *self.tensors());
        drop(tensors);
    }

    fn tensors(&self) -> MutexGuard<'_, Vec<Tensor>> {
        self.tensors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return the number of the tensor that `x` is a view of, and the ops of the view.
    fn place(&self, x: &Tensor) -> Option<(usize, Vec<Prim>)> {
        let tensors = self.tensors();
        if !tensors.iter().any(|t| t.shares_storage(x)) || x.is_conj() || x.is_neg() {
            return None;
        }
        let (mut base, mut ops) = (x.clone(), Vec::new());
        while let Some(view) = base.view_info().filter(|v| v.has_ops()) {
            ops.splice(0..0, view.ops().into_iter().cloned());
            let next = view.base.clone();
            base = next;
        }
        let is_base = |t: &Tensor| {
            t.shares_storage(&base)
                && t.meta() == base.meta()
                && t.strides() == base.strides()
                && t.storage_offset() == base.storage_offset()
        };
        Some((tensors.iter().position(is_base)?, ops))
    }
}

impl SavedTensorHooks for Remade {
    fn pack(&self, x: &Tensor) -> Result<Packed> {
        let kept = match (self.place(x), &self.outer) {
            (Some((i, ops)), _) => Kept::View(i, ops),
            (None, Some(outer)) => Kept::Outer(outer.pack(x)?),
            (None, None) => Kept::Other(x.shallow_alias()?, x.version()),
        };
        Ok(Box::new(kept))
    }

    fn unpack(&self, kept: &Packed) -> Result<Tensor> {
        match (kept.downcast_ref::<Kept>().expect("made by pack"), &self.outer) {
            (Kept::View(i, ops), _) => {
                let base = (self.make)(*i)?;
                state::no_grad(|| ops.iter().try_fold(base, |x, op| dispatch::call_view(op.clone(), &x)))
            }
            (Kept::Other(x, version), _) if x.version() == *version => Ok(x.clone()),
            (Kept::Other(x, version), _) => Err(modified(x, *version, None)),
            (Kept::Outer(packed), Some(outer)) => outer.unpack(packed),
            (Kept::Outer(_), None) => unreachable!("the object was made by these hooks"),
        }
    }
}
