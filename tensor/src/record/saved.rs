//! Tensors that nodes save for backward, with the version that they must still have, or the objects that a user's hook
//! made of them. Anomaly mode is here too, which remembers where each node was made.

use crate::graph::{Edge, Node};
use crate::{Error, GradRef, Result, Tensor, backend, state};
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The object that a hook saves in place of a tensor.
pub type Packed = Box<dyn Any + Send + Sync>;

/// Hooks that decide how tensors are saved for backward: on another device, on disk, or not at all.
///
/// ```
/// use std::sync::Arc;
/// use torchtpu_tensor::saved::{Packed, SavedHooks, SavedTensorHooks};
/// use torchtpu_tensor::{DType, Result, Tensor};
///
/// /// Keeps half the bits.
/// struct Half;
/// impl SavedTensorHooks for Half {
///     fn pack(&self, x: &Tensor) -> Result<Packed> {
///         Ok(Box::new(x.to_dtype(DType::BF16)?))
///     }
///     fn unpack(&self, kept: &Packed) -> Result<Tensor> {
///         kept.downcast_ref::<Tensor>().expect("made by pack").to_dtype(DType::F32)
///     }
/// }
///
/// let x = Tensor::from_slice(&[0.5f32, 2.0], &[2])?;
/// x.requires_grad_(true)?;
/// let y = {
///     let _hooks = SavedHooks::push(Arc::new(Half))?;
///     x.square()?
/// };
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
pub trait SavedTensorHooks: Send + Sync {
    /// Return the object to save for a tensor that a node is about to save.
    ///
    /// # Errors
    /// The errors of the user's code; the op being recorded reports them.
    fn pack(&self, x: &Tensor) -> Result<Packed>;
    /// Return the tensor.
    ///
    /// # Errors
    /// The errors of the user's code; backward reports them.
    fn unpack(&self, kept: &Packed) -> Result<Tensor>;
}

#[derive(Default)]
struct Hooks {
    stack: Vec<Arc<dyn SavedTensorHooks>>,
    /// The reason why hooks are disabled, while they are.
    disabled: Option<String>,
}

thread_local! {
    static HOOKS: RefCell<Hooks> = RefCell::default();
}

/// Hooks on tensors that this thread saves, in force until this is dropped. Only the innermost hooks are called.
pub struct SavedHooks(());

impl SavedHooks {
    /// Put hooks in force.
    ///
    /// # Errors
    /// `Runtime`, with the text given to [`disable_hooks`], where hooks are disabled.
    pub fn push(hooks: Arc<dyn SavedTensorHooks>) -> Result<SavedHooks> {
        push_hooks(hooks)?;
        Ok(SavedHooks(()))
    }
}

impl Drop for SavedHooks {
    fn drop(&mut self) {
        pop_hooks();
    }
}

/// [`SavedHooks::push`] without the guard; [`pop_hooks`] ends it.
///
/// # Errors
/// The errors of [`SavedHooks::push`].
pub fn push_hooks(hooks: Arc<dyn SavedTensorHooks>) -> Result<()> {
    HOOKS.with_borrow_mut(|h| {
        if let Some(why) = &h.disabled {
            return Err(Error::runtime(why.clone()));
        }
        h.stack.push(hooks);
        state::with(|s| s.saved_hooks.set(true));
        Ok(())
    })
}

/// Remove the innermost hooks.
pub fn pop_hooks() {
    let gone = HOOKS.with_borrow_mut(|h| {
        let gone = h.stack.pop();
        state::with(|s| s.saved_hooks.set(!h.stack.is_empty()));
        gone
    });
    drop(gone); // may run user code, so not under the borrow
}

/// The hooks in force on this thread, outermost first, for a thread that works on its behalf.
pub fn current_hooks() -> Vec<Arc<dyn SavedTensorHooks>> {
    HOOKS.with_borrow(|h| h.stack.clone())
}

/// Put the hooks of another thread in force on this one, which has none, until the guards are dropped.
pub fn adopt_hooks(hooks: Vec<Arc<dyn SavedTensorHooks>>) -> Vec<SavedHooks> {
    hooks.into_iter().filter_map(|h| SavedHooks::push(h).ok()).collect()
}

/// Make [`SavedHooks::push`] an error with this text on this thread, or allow it with `None`. Return the previous
/// value.
///
/// # Errors
/// `Runtime` with the text if hooks are in force now.
pub fn disable_hooks(why: Option<String>) -> Result<Option<String>> {
    HOOKS.with_borrow_mut(|h| match &why {
        Some(text) if !h.stack.is_empty() => Err(Error::runtime(text.clone())),
        _ => Ok(std::mem::replace(&mut h.disabled, why)),
    })
}

enum Held {
    Plain(Tensor, u32),
    Packed(Box<HeldPacked>),
}

struct HeldPacked {
    hooks: Arc<dyn SavedTensorHooks>,
    kept: Packed,
    /// The history to give back to the tensor.
    edge: Edge,
}

/// A tensor saved for backward, with the version that it must still have.
pub struct SavedTensor(Held);

impl SavedTensor {
    /// Save a tensor with its history.
    ///
    /// # Errors
    /// The errors of a hook.
    #[inline]
    pub fn new(tensor: Tensor) -> Result<SavedTensor> {
        if tensor.is_inference() {
            return Err(Error::runtime(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode \
                in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor \
                and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.",
            ));
        }
        if state::with(|s| s.saved_hooks.get()) && !tensor.is_wrapped_number() {
            return SavedTensor::pack(&tensor, tensor.history_edge()?);
        }
        let version = tensor.version();
        let remade = |t: &Tensor| {
            t.place().has_handle()
                && t.view_info().is_some_and(|v| v.has_ops())
                && backend::of(t.place()).is_ok_and(|b| b.remakes_views())
        };
        // The tensor has its value at hand. An alias would have to look it up; it needs no memory until then.
        let tensor = if remade(&tensor) { tensor.alias_with_history()? } else { tensor };
        Ok(SavedTensor(Held::Plain(tensor, version)))
    }

    /// Save an output of the node that saves it, without its history, so that the node does not own itself.
    ///
    /// # Errors
    /// The errors of a hook.
    pub fn output(tensor: &Tensor) -> Result<SavedTensor> {
        if state::with(|s| s.saved_hooks.get()) {
            return SavedTensor::pack(tensor, Edge::None);
        }
        Ok(SavedTensor(Held::Plain(tensor.shallow_alias()?, tensor.version())))
    }

    #[cold]
    fn pack(tensor: &Tensor, edge: Edge) -> Result<SavedTensor> {
        let hooks = HOOKS.with_borrow(|h| h.stack.last().cloned()).expect("the flag says that there are hooks");
        let version = tensor.version();
        let kept = state::no_grad(|| hooks.pack(tensor))?;
        if tensor.version() != version {
            return Err(Error::runtime(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook \
                cannot be modified by in-place operations as this can lead to unexpected side-effects. Please open an \
                issue if you need to perform in-place operations on the input to a pack hook.",
            ));
        }
        Ok(SavedTensor(Held::Packed(Box::new(HeldPacked { hooks, kept, edge }))))
    }

    /// The tensor.
    ///
    /// # Errors
    /// `Runtime` if it was written in place since then; the errors of a hook.
    pub fn get(&self) -> Result<Tensor> {
        self.unpack(None)
    }

    fn unpack(&self, owner: Option<(&Node, u32)>) -> Result<Tensor> {
        match &self.0 {
            Held::Plain(t, version) if t.version() == *version => Ok(t.clone()),
            Held::Plain(t, version) => Err(modified(t, *version, owner)),
            Held::Packed(p) => {
                let t = p.hooks.unpack(&p.kept)?;
                if !p.edge.is_some() {
                    return Ok(t);
                }
                let t = t.shallow_alias()?;
                match &p.edge {
                    Edge::Node(n, nr) => t.set_new_grad_ref(GradRef::Node(n.clone()), *nr),
                    Edge::Leaf(l) => t.set_new_grad_ref(GradRef::Leaf(l.leaf()?), 0),
                    Edge::None => {}
                }
                Ok(t)
            }
        }
    }

    /// [`SavedTensor::get`] for output `nr` of `node`. If history is being recorded, the tensor gets its history back.
    ///
    /// # Errors
    /// The errors of [`SavedTensor::get`].
    pub fn get_output(&self, node: &Arc<Node>, nr: u32) -> Result<Tensor> {
        let t = self.unpack(Some((node, nr)))?;
        if !state::grad_enabled() {
            return Ok(t);
        }
        let t = t.shallow_alias()?;
        t.set_new_grad_ref(GradRef::Node(node.clone()), nr);
        Ok(t)
    }
}

#[cold]
pub(crate) fn modified(t: &Tensor, expected: u32, owner: Option<(&Node, u32)>) -> Error {
    let op = |n: &Node| {
        let name = n.name();
        name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches("Backward").to_string()
    };
    let source = match (owner, t.grad_ref()) {
        (Some((n, nr)), _) => format!(", which is output {nr} of {},", op(n)),
        (None, Some(GradRef::Node(n))) => format!(", which is output {} of {},", t.output_nr(), op(&n)),
        _ => String::new(),
    };
    Error::runtime(format!(
        "one of the variables needed for gradient computation has been modified by an inplace operation: \
        [torch.{}Tensor {}]{source} is at version {}; expected version {expected} instead. Hint: enable anomaly \
        detection to find the operation that failed to compute its gradient, with \
        torch.autograd.set_detect_anomaly(True, check_nan=False).",
        t.dtype().scalar_type(),
        t.dims(),
        t.version(),
    ))
}

// ---- anomaly mode

const DETECT: u8 = 1;
const CHECK_NAN: u8 = 2;
static ANOMALY: AtomicU8 = AtomicU8::new(0);
static TRACEBACK: OnceLock<fn() -> String> = OnceLock::new();

/// Switch anomaly mode on or off for all threads, and return the previous setting. In anomaly mode, nodes remember
/// where they were made, and a failing backward names that place. With `check_nan`, a gradient that becomes NaN is a
/// failure too.
pub fn set_anomaly(detect: bool, check_nan: bool) -> (bool, bool) {
    let before = ANOMALY.swap((detect as u8 * DETECT) | (check_nan as u8 * CHECK_NAN), Relaxed);
    (before & DETECT != 0, before & CHECK_NAN != 0)
}

/// Whether anomaly mode is on, and whether it checks for NaN.
#[inline]
pub fn anomaly() -> (bool, bool) {
    let now = ANOMALY.load(Relaxed);
    (now & DETECT != 0, now & CHECK_NAN != 0)
}

/// Install the function that describes the place of the running call: the binding returns the interpreter's stack. The
/// first function stays. Without one, the native stack is used.
pub fn set_traceback(f: fn() -> String) {
    let _ = TRACEBACK.set(f);
}

/// In anomaly mode, record where a new node is made.
#[inline]
pub(crate) fn remember(node: &Node) {
    if anomaly().0 {
        remember_place(node);
    }
}

#[cold]
fn remember_place(node: &Node) {
    let text = match TRACEBACK.get() {
        Some(f) => f(),
        None => std::backtrace::Backtrace::force_capture().to_string(),
    };
    let mut extras = node.extras().lock().unwrap_or_else(|e| e.into_inner());
    extras.traceback = Some(text);
    extras.parent = RUNNING.with_borrow(Clone::clone);
}

thread_local! {
    static RUNNING: RefCell<Option<Arc<Node>>> = const { RefCell::new(None) };
}

/// In anomaly mode, set the node whose gradient this thread computes, so that new nodes know which node caused them.
pub fn set_running(node: Option<Arc<Node>>) -> Option<Arc<Node>> {
    RUNNING.with_borrow_mut(|r| std::mem::replace(r, node))
}
