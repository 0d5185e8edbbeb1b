//! Hooks on tensors: functions that see gradients during backward.

use crate::graph::{Hook, Leaf, LeafHook, Node};
use crate::{DeviceKind, Error, GradRef, Meta, Result, Tensor};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A number for a hook, unique in the process, by which it is removed.
pub fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Relaxed)
}

/// Whether a hook that waits for the gradient of a leaf was ever registered.
static ARE_LEAVES_WATCHED: AtomicBool = AtomicBool::new(false);

/// Note that a hook waits for the gradient of a leaf, so that passes search for such leaves. Register the hook first.
pub fn watch_leaves() {
    ARE_LEAVES_WATCHED.store(true, Relaxed);
}

/// Whether [`watch_leaves`] was called.
pub fn are_leaves_watched() -> bool {
    ARE_LEAVES_WATCHED.load(Relaxed)
}

/// The name of a tensor's kind in PyTorch's messages, such as `torch.FloatTensor`.
fn type_name(x: &Meta) -> String {
    let kind = x.dtype.scalar_type();
    match x.device().kind {
        DeviceKind::Cpu if x.dtype.is_complex() => format!("CPU{kind}Type"),
        DeviceKind::Cpu => format!("torch.{kind}Tensor"),
        DeviceKind::Meta => format!("Meta{kind}Type"),
        DeviceKind::Tpu => format!("torch.{}.{kind}Tensor", x.device().type_name()),
    }
}

/// Refuse a gradient from the hook `name` that differs from the given one in size, dtype or device.
///
/// # Errors
/// `Runtime`, in PyTorch's wording, when size, dtype or device differ.
pub fn check_result(name: &str, given: &Tensor, found: &Tensor) -> Result<()> {
    let (a, b) = (given.meta(), found.meta());
    if a.dtype != b.dtype || a.place != b.place {
        return Err(Error::runtime(format!(
            "hook '{name}' has changed the type of value (was {} got {})",
            type_name(a),
            type_name(b)
        )));
    }
    if a.dims != b.dims {
        return Err(Error::runtime(format!("hook '{name}' has changed the size of value")));
    }
    Ok(())
}

enum At {
    Node(Weak<Node>),
    Leaf(Weak<Leaf>),
}

/// A registered hook. Dropping this does not remove the hook.
pub struct HookHandle {
    at: At,
    id: u64,
}

impl HookHandle {
    /// Remove the hook. Another call does nothing.
    pub fn remove(&self) {
        match &self.at {
            At::Node(n) => {
                if let Some(extras) = n.upgrade().as_deref().and_then(Node::extras_if_any) {
                    let gone = extras.lock().unwrap_or_else(|e| e.into_inner()).remove(self.id);
                    drop(gone);
                }
            }
            At::Leaf(l) => {
                if let Some(leaf) = l.upgrade() {
                    let gone = leaf.hooks.lock().unwrap_or_else(|e| e.into_inner()).remove(self.id);
                    drop(gone);
                }
            }
        }
    }
}

impl fmt::Debug for HookHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookHandle({})", self.id)
    }
}

const NO_GRADIENT: &str = "cannot register a hook on a tensor that doesn't require gradient";

impl Tensor {
    /// Call `hook` with the gradient of this tensor when it is known. If `hook` returns a gradient, it replaces this
    /// one. Hooks run in the order of their registration.
    ///
    /// # Errors
    /// `Runtime` when no gradient is required. If a hook returns a gradient of another size, dtype or device, the
    /// backward pass fails.
    pub fn register_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        let (id, hook): (u64, Hook) = (next_id(), Arc::new(hook));
        let at = match self.history()? {
            Some(GradRef::Node(n)) => {
                n.extras().lock().unwrap_or_else(|e| e.into_inner()).before.push((id, self.output_nr(), hook));
                At::Node(Arc::downgrade(&n))
            }
            Some(GradRef::Leaf(l)) if l.requires_grad() => {
                l.hooks.lock().unwrap_or_else(|e| e.into_inner()).before.push((id, hook));
                At::Leaf(Arc::downgrade(&l))
            }
            _ => return Err(Error::runtime(NO_GRADIENT)),
        };
        Ok(HookHandle { at, id })
    }

    /// Call `hook` with this leaf after a gradient has been added to its `.grad`, for example to run an optimiser step.
    ///
    /// # Errors
    /// `Runtime` for a tensor that is no leaf or requires no gradient.
    pub fn register_post_accumulate_grad_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        let (id, hook): (u64, LeafHook) = (next_id(), Arc::new(hook));
        match self.history()? {
            Some(GradRef::Leaf(l)) if l.requires_grad() => {
                l.hooks.lock().unwrap_or_else(|e| e.into_inner()).after.push((id, hook));
                watch_leaves();
                Ok(HookHandle { at: At::Leaf(Arc::downgrade(&l)), id })
            }
            Some(GradRef::Node(_)) => {
                Err(Error::runtime("post accumulate grad hooks cannot be registered on non-leaf tensors"))
            }
            _ => Err(Error::runtime(NO_GRADIENT)),
        }
    }
}
