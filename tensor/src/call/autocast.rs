//! Autocast: the first slot of [dispatch](crate::dispatch). While it is on, products are computed in a 16-bit dtype,
//! and functions that need the range of `float32` in `float32`.
//!
//! A function that Python calls has its policies in [its row](crate::schema::Row::autocast). They follow PyTorch's
//! lists: those of its CPU for `cpu`, those of its accelerators for `tpu`. An op that is called in another way, from
//! Rust or inside of a function without a policy, has them in [its node](crate::op::Facts::autocast). Inside of a
//! function whose operands were cast, nothing more is cast.
//!
//! Each thread has its own state. Casts of parameters are cached until the outermost block ends, so that a parameter
//! that is used often is cast once.

use crate::op::Prim;
use crate::policy::{Policies, Policy};
use crate::schema::{Arg, Args, Ret};
use crate::{DType, DeviceKind, Error, Result, Tensor, state};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

/// A cached cast: the tensor it was made from, the number of writes to that tensor at the time, and the result.
type Kept = (Tensor, u32, Tensor);

struct State {
    on: [Cell<bool>; 2],
    dtype: [Cell<DType>; 2],
    keeps: Cell<bool>,
    suspended: Cell<bool>,
    depth: Cell<i64>,
    /// The settings of the place that called the running backward.
    called: Cell<Option<Settings>>,
    kept: RefCell<HashMap<usize, Kept>>,
}

thread_local! {
    static STATE: State = State {
        on: [const { Cell::new(false) }; 2],
        dtype: [const { Cell::new(DType::BF16) }; 2],
        keeps: const { Cell::new(true) },
        suspended: const { Cell::new(false) },
        depth: const { Cell::new(0) },
        called: const { Cell::new(None) },
        kept: RefCell::default(),
    };
}

const KINDS: [DeviceKind; 2] = [DeviceKind::Cpu, DeviceKind::Tpu];

fn place(kind: DeviceKind) -> Option<usize> {
    KINDS.iter().position(|k| *k == kind)
}

/// Whether this thread casts for ops on `device`.
pub fn is_enabled(kind: DeviceKind) -> bool {
    place(kind).is_some_and(|i| STATE.with(|s| s.on[i].get()))
}

/// Switch casting on or off for this thread, and return the previous setting.
///
/// # Errors
/// `Runtime` for a device that has no autocast.
pub fn set_enabled(kind: DeviceKind, on: bool) -> Result<bool> {
    let i = place(kind).ok_or_else(|| none(kind))?;
    let before = STATE.with(|s| s.on[i].replace(on));
    // Every op reads this, so all unusual settings are in one word.
    match (before, on) {
        (false, true) => drop(state::UNUSUAL.fetch_add(1, Relaxed)),
        (true, false) => drop(state::UNUSUAL.fetch_sub(1, Relaxed)),
        _ => {}
    }
    Ok(before)
}

/// The dtype of [`Policy::Lower`]: `bfloat16` unless another one was set.
///
/// # Errors
/// The errors of [`set_enabled`].
pub fn dtype(kind: DeviceKind) -> Result<DType> {
    place(kind).map(|i| STATE.with(|s| s.dtype[i].get())).ok_or_else(|| none(kind))
}

/// Set the dtype of [`Policy::Lower`] for this thread.
///
/// # Errors
/// The errors of [`set_enabled`].
pub fn set_dtype(kind: DeviceKind, dtype: DType) -> Result<()> {
    let i = place(kind).ok_or_else(|| none(kind))?;
    STATE.with(|s| s.dtype[i].set(dtype));
    Ok(())
}

/// Whether casts of parameters are cached.
pub fn keeps_casts() -> bool {
    STATE.with(|s| s.keeps.get())
}

/// Set whether casts of parameters are cached.
pub fn set_keeps_casts(on: bool) {
    STATE.with(|s| s.keeps.set(on));
}

/// Clear the cached casts.
pub fn clear_casts() {
    // Dropping a tensor may run user code, so this happens outside of the borrow.
    drop(STATE.with(|s| std::mem::take(&mut *s.kept.borrow_mut())));
}

/// Enter or leave a block, and return the number of blocks that this thread is in. Leaving the last one clears the
/// cached casts.
pub fn nest(by: i64) -> i64 {
    let depth = STATE.with(|s| {
        s.depth.set(s.depth.get() + by);
        s.depth.get()
    });
    if depth == 0 {
        clear_casts();
    }
    depth
}

/// Compute in `dtype` where that is safe, on this thread and on devices of this kind, until the guard is dropped, as
/// `torch.autocast` does.
///
/// ```
/// use torchtpu_tensor::{DType, Device, DeviceKind, Tensor, autocast::autocast};
///
/// let x = Tensor::ones(&[2, 3], DType::F32, Device::CPU)?;
/// let block = autocast(DeviceKind::Cpu, DType::BF16)?;
/// assert_eq!(x.matmul(&x.transpose(0, 1)?)?.dtype(), DType::BF16);
/// drop(block);
/// assert_eq!(x.matmul(&x.transpose(0, 1)?)?.dtype(), DType::F32);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
///
/// # Errors
/// `Runtime` for a device that has no autocast, and for a dtype without 16 bits.
pub fn autocast(kind: DeviceKind, dtype: DType) -> Result<Block> {
    if !dtype.is_half() {
        return Err(Error::runtime(format!(
            "autocast only supports dtypes of bfloat16, float16, not {}",
            dtype.name()
        )));
    }
    let i = place(kind).ok_or_else(|| none(kind))?;
    let mut settings = Settings::now();
    (settings.on[i], settings.dtype[i]) = (true, dtype);
    Ok(settings.again())
}

/// The autocast settings of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    on: [bool; 2],
    dtype: [DType; 2],
    keeps: bool,
}

impl Settings {
    /// The settings of this thread.
    pub fn now() -> Settings {
        STATE.with(|s| Settings {
            on: [s.on[0].get(), s.on[1].get()],
            dtype: [s.dtype[0].get(), s.dtype[1].get()],
            keeps: s.keeps.get(),
        })
    }
    fn set(&self) {
        for (i, kind) in KINDS.into_iter().enumerate() {
            // Both devices have autocast.
            let _ = set_enabled(kind, self.on[i]);
            let _ = set_dtype(kind, self.dtype[i]);
        }
        set_keeps_casts(self.keeps);
    }
    /// Apply all settings to this thread, as a block of its own, until the guard is dropped.
    pub fn again(&self) -> Block {
        let before = Settings::now();
        self.set();
        nest(1);
        Block(before)
    }
}

/// A block of a thread with settings of its own. Dropping it restores the previous settings, also while unwinding.
pub struct Block(Settings);

impl Drop for Block {
    fn drop(&mut self) {
        self.0.set();
        nest(-1);
    }
}

/// Guard of a running backward; see [`off`].
pub struct Backward {
    _block: Block,
    before: Option<Settings>,
}

impl Drop for Backward {
    fn drop(&mut self) {
        STATE.with(|s| s.called.set(self.before));
    }
}

/// Cast nothing on this thread until the guard is dropped, because backward computes in the dtypes of forward.
pub fn off() -> Option<Backward> {
    is_on().then(|| {
        let now = Settings::now();
        let before = STATE.with(|s| s.called.replace(Some(now)));
        Backward { _block: Settings { on: [false; 2], ..now }.again(), before }
    })
}

/// Restore the settings of the place that called backward, for code that a user wrote.
pub(crate) fn as_called() -> Option<Block> {
    STATE.with(|s| s.called.get()).map(|settings| settings.again())
}

/// Guard: nothing is cast until it is dropped, also while unwinding. It is used inside of a function whose operands
/// were cast.
pub struct Suspended(bool);

impl Suspended {
    /// Cast nothing from now on.
    pub fn new() -> Suspended {
        STATE.with(|s| Suspended(s.suspended.replace(true)))
    }
}

impl Default for Suspended {
    fn default() -> Suspended {
        Suspended::new()
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        STATE.with(|s| s.suspended.set(self.0));
    }
}

#[cold]
fn none(kind: DeviceKind) -> Error {
    Error::runtime(format!("device type {kind:?} has no autocast").to_lowercase())
}

/// Whether this thread casts for any op now.
#[inline]
pub fn is_on() -> bool {
    state::UNUSUAL.load(Relaxed) != 0 && STATE.with(|s| (s.on[0].get() || s.on[1].get()) && !s.suspended.get())
}

/// Whether autocast may cast a tensor.
fn is_eligible(x: &Tensor, kind: DeviceKind) -> bool {
    x.device().kind == kind && x.dtype().is_float() && x.dtype() != DType::F64
}

/// The dtype that a policy selects for these tensors.
fn wanted<'a>(policy: Policy, kind: DeviceKind, mut x: impl Iterator<Item = &'a Tensor>) -> Result<DType> {
    Ok(match policy {
        Policy::Full => DType::F32,
        Policy::Lower => dtype(kind)?,
        Policy::Widest if x.any(|t| is_eligible(t, kind) && t.dtype() == DType::F32) => DType::F32,
        Policy::Widest => dtype(kind)?,
    })
}

/// A tensor in another dtype, if autocast may cast it. A cached cast is used if there is one.
fn cast(x: &Tensor, to: DType, kind: DeviceKind) -> Result<Option<Tensor>> {
    if !is_eligible(x, kind) || x.dtype() == to {
        return Ok(None);
    }
    let keep = to != DType::F32
        && x.dtype() == DType::F32
        && x.requires_grad()
        && state::grad_enabled()
        && x.is_leaf()
        && !x.is_view()
        && keeps_casts();
    if !keep {
        return x.to_dtype(to).map(Some);
    }
    let key = x.address();
    let found = STATE.with(|s| {
        let kept = s.kept.borrow();
        kept.get(&key).filter(|k| k.1 == x.version() && k.2.dtype() == to).map(|k| k.2.clone())
    });
    if found.is_some() {
        return Ok(found);
    }
    let y = x.to_dtype(to)?;
    let old = STATE.with(|s| s.kept.borrow_mut().insert(key, (x.clone(), x.version(), y.clone())));
    drop(old);
    Ok(Some(y))
}

/// Call a function with its operands cast by its policy for their device.
///
/// # Errors
/// The errors of the function.
#[cold]
pub fn call(policies: Policies, args: &Args<'_>, f: impl FnOnce(&Args<'_>) -> Result<Ret>) -> Result<Ret> {
    let tensors = || {
        args.0.iter().flat_map(|a| {
            let (one, many): (Option<&Tensor>, &[Option<Tensor>]) = match a {
                Arg::Tensor(t) => (Some(t), &[]),
                Arg::Tensors(list) => (None, list),
                _ => (None, &[]),
            };
            one.into_iter().chain(many.iter().flatten())
        })
    };
    let kind_of = |t: &Tensor| t.device().kind;
    let kind = [DeviceKind::Tpu, DeviceKind::Cpu].into_iter().find(|k| tensors().any(|t| kind_of(t) == *k));
    let Some((kind, policy)) = kind.filter(|k| is_enabled(*k)).and_then(|k| Some((k, policies.on(k)?))) else {
        return f(args);
    };
    let to = wanted(policy, kind, tensors())?;
    let mut held: Vec<(Option<Tensor>, Vec<Option<Tensor>>)> = Vec::with_capacity(args.0.len());
    for a in args.0 {
        held.push(match a {
            Arg::Tensor(t) => (cast(t, to, kind)?, Vec::new()),
            Arg::Tensors(list) => {
                let one = |t: &Option<Tensor>| match t {
                    Some(t) => Ok(Some(cast(t, to, kind)?.unwrap_or_else(|| t.clone()))),
                    None => Ok(None),
                };
                (None, list.iter().map(one).collect::<Result<_>>()?)
            }
            _ => (None, Vec::new()),
        });
    }
    let now: Vec<Arg<'_>> = args
        .0
        .iter()
        .zip(&held)
        .map(|(a, (one, many))| match (a, one) {
            (Arg::Tensor(_), Some(t)) => Arg::Tensor(t),
            (Arg::Tensors(_), _) => Arg::Tensors(many),
            _ => *a,
        })
        .collect();
    let _suspended = Suspended::new();
    f(&Args(&now))
}

/// The operands of an op that was not called by name, cast if the op has a policy.
#[cold]
pub(crate) fn operands(op: &Prim, x: &[&Tensor]) -> Result<Option<SmallVec<[Tensor; 4]>>> {
    let Some(kind) = x.first().map(|t| t.device().kind).filter(|k| is_on() && is_enabled(*k)) else {
        return Ok(None);
    };
    let Some(policy) = op.facts().autocast.on(kind) else { return Ok(None) };
    let to = wanted(policy, kind, x.iter().copied())?;
    let (mut all, mut any): (SmallVec<[Tensor; 4]>, bool) = (SmallVec::new(), false);
    for t in x {
        let y = cast(t, to, kind)?;
        any |= y.is_some();
        all.push(y.unwrap_or_else(|| (*t).clone()));
    }
    Ok(any.then_some(all))
}
