//! Views: their making, their values on a device, and their history.

use super::overlap::{self, is_written_in_order, may_overlap};
use crate::op::{Layout, Prim, ViewOp};
use crate::{Error, GradRef, Held, Meta, Result, Tensor, backend, dispatch, graph, inplace};
use smallvec::{SmallVec, smallvec};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Whether an in-place change of a view can become part of its base's history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Made {
    /// It can.
    Ordinarily,
    /// It cannot: the view was made while nothing was recorded, and whether a later change should be recorded is
    /// unclear.
    WithoutGrad,
    /// It cannot: the view is one of several results of a node.
    OneOfMany,
    /// It cannot: the view was made in inference mode.
    InInference,
}

/// How a view was made from the tensor that owns the storage.
pub struct ViewInfo {
    /// The base of the view: the tensor that owns the storage, or a detached alias at which history starts anew.
    pub base: Tensor,
    /// The view ops from the base to this tensor that come before `ops`. Views of one another share them.
    earlier: Option<Arc<Chain>>,
    /// The last view ops. They are empty only if there is no view op at all.
    ops: SmallVec<[Prim; 1]>,
    /// On a device: the value that was read last, and the number of writes to the storage at that time.
    memo: Mutex<Option<(u32, u64)>>,
    /// Storage version at which this view's history was made.
    history_version: AtomicU32,
    /// Whether this is a detached alias, which the history of the base does not reach.
    detached: bool,
    made: AtomicU8,
    /// Whether callers see no view, because the base was made for this view alone.
    hidden: AtomicBool,
}

/// A run of view ops, and the runs before it. Copying all ops to each view would make a chain of views quadratic.
struct Chain {
    earlier: Option<Arc<Chain>>,
    ops: SmallVec<[Prim; 1]>,
}

/// Number of ops that are copied from view to view before they become a [`Chain`].
const COPIED: usize = 16;

impl Drop for Chain {
    fn drop(&mut self) {
        // This is a loop, not a recursion: the chain may be as long as the user's loop.
        let mut next = self.earlier.take();
        while let Some(mut chain) = next.and_then(Arc::into_inner) {
            next = chain.earlier.take();
        }
    }
}

impl Drop for ViewInfo {
    fn drop(&mut self) {
        if let Some((_, handle)) = self.memo.get_mut().unwrap_or_else(|e| e.into_inner()).take() {
            backend::release(handle);
        }
    }
}

impl Made {
    /// How a view of `x` that is made now may be changed in place.
    fn now(x: &Tensor) -> Made {
        match x.view_info() {
            _ if crate::state::is_inference() => Made::InInference,
            _ if !crate::state::grad_enabled() => Made::WithoutGrad,
            Some(v) if !v.detached => v.made(),
            _ => Made::Ordinarily,
        }
    }
}

impl ViewInfo {
    /// Description of a view of `x` through `op`.
    fn of(x: &Tensor, op: Prim) -> Box<ViewInfo> {
        let (base, earlier, mut ops) = match x.view_info() {
            // History starts anew at a detached alias, so it is the base of its views.
            Some(v) if !v.detached && v.ops.len() < COPIED => (v.base.clone(), v.earlier.clone(), v.ops.clone()),
            Some(v) if !v.detached => {
                let chain = Chain { earlier: v.earlier.clone(), ops: v.ops.clone() };
                (v.base.clone(), Some(Arc::new(chain)), SmallVec::new())
            }
            _ => (x.clone(), None, SmallVec::new()),
        };
        ops.push(op);
        ViewInfo::new(x, base, earlier, ops, false, Made::now(x))
    }

    /// Description of an alias without history of `x`, a view that `self` describes. Its base has no history either: an
    /// alias must not keep alive what it was detached from.
    fn detached(&self, x: &Tensor) -> Result<Box<ViewInfo>> {
        let base = self.base.shallow_alias()?;
        let info = ViewInfo::new(x, base, self.earlier.clone(), self.ops.clone(), true, Made::Ordinarily);
        info.share_value(self, x)?;
        Ok(info)
    }

    /// Take over the value of `other`, a description of the same view of a sharded tensor. Computing it again may need
    /// all processes.
    fn share_value(&self, other: &ViewInfo, x: &Tensor) -> Result<()> {
        if backend::computes_views_at_once(x.place())
            && let Some((version, handle)) = *other.memo.lock().unwrap_or_else(|e| e.into_inner())
        {
            backend::of(x.place())?.retain(handle);
            self.remember(version, handle);
        }
        Ok(())
    }

    /// Keep a value, with the number of writes to the storage at the time.
    fn remember(&self, version: u32, handle: u64) {
        if let Some((_, old)) = self.memo.lock().unwrap_or_else(|e| e.into_inner()).replace((version, handle)) {
            backend::release(old);
        }
    }

    fn new(
        x: &Tensor,
        base: Tensor,
        earlier: Option<Arc<Chain>>,
        ops: SmallVec<[Prim; 1]>,
        detached: bool,
        made: Made,
    ) -> Box<ViewInfo> {
        Box::new(ViewInfo {
            base,
            earlier,
            ops,
            memo: Mutex::new(None),
            history_version: AtomicU32::new(x.version()),
            detached,
            made: AtomicU8::new(made as u8),
            hidden: AtomicBool::new(false),
        })
    }

    /// Whether there is a view op between the base and this tensor.
    pub(crate) fn has_ops(&self) -> bool {
        !self.ops.is_empty()
    }

    /// The last view op.
    pub(crate) fn last_op(&self) -> Option<&Prim> {
        self.ops.last()
    }

    /// The view ops from the base to this tensor.
    pub(crate) fn ops(&self) -> SmallVec<[&Prim; 4]> {
        let mut runs: SmallVec<[&[Prim]; 4]> = smallvec![&self.ops[..]];
        let mut at = self.earlier.as_deref();
        while let Some(chain) = at {
            runs.push(&chain.ops[..]);
            at = chain.earlier.as_deref();
        }
        runs.into_iter().rev().flatten().collect()
    }

    fn made(&self) -> Made {
        match self.made.load(Relaxed) {
            0 => Made::Ordinarily,
            1 => Made::WithoutGrad,
            2 => Made::OneOfMany,
            _ => Made::InInference,
        }
    }

    /// Set how this view was made. The view must not have been handed out yet.
    pub(crate) fn set_made(&self, made: Made) {
        self.made.store(made as u8, Relaxed);
    }

    /// Refuse an in-place change of `x`, this view, if its base's history cannot follow the change.
    pub(crate) fn check_rebase(&self, x: &Tensor) -> Result<()> {
        if self.made() == Made::Ordinarily || self.detached {
            return Ok(());
        }
        let (because, instead) = match self.made() {
            Made::OneOfMany => (
                " is a view and is being modified inplace.",
                "This view is the output of a function that returns multiple views. Such functions do not allow the \
                output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
            ),
            Made::InInference => (
                " is a view of a view which was created in inference mode and is being modified inplace in normal \
                mode.",
                "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by \
                moving both the view and the inplace either both inside the inference_mode block (if you don't want \
                the inplace to be tracked) or both outside (if you want the inplace to be tracked).",
            ),
            _ => (
                " is a view of a view which was created in no_grad mode and is being modified inplace with grad mode \
                enabled.",
                "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by \
                moving both the view and the inplace either both inside the no_grad block (if you don't want the \
                inplace to be tracked) or both outside (if you want the inplace to be tracked).",
            ),
        };
        let what = match x.grad_ref() {
            Some(GradRef::Node(n)) => {
                format!("Output {} of {}{because}", x.output_nr(), n.name().trim_end_matches("Backward0"))
            }
            _ if self.made() == Made::InInference => {
                "A view was created in inference mode and is being modified inplace in normal mode.".to_string()
            }
            _ => "A view was created in no_grad mode and is being modified inplace with grad mode enabled.".to_string(),
        };
        Err(Error::runtime(format!("{what} {instead}")))
    }

    /// Whether the storage was written since this view's history was made.
    #[inline]
    pub(crate) fn is_stale(&self, x: &Tensor) -> bool {
        !self.detached && self.history_version.load(Relaxed) != x.version()
    }

    /// Make the history of a view anew from its base, if the base was written in place.
    pub(crate) fn refresh(&self, x: &Tensor) -> Result<()> {
        if !self.is_stale(x) {
            return Ok(());
        }
        self.history_version.store(x.version(), Relaxed);
        if !self.base.has_autograd() || !self.base.requires_grad() {
            return Ok(());
        }
        let t = self.remade()?;
        if let Some(GradRef::Node(n)) = t.grad_ref() {
            let nr = t.output_nr();
            graph::replace_history(x, Some(GradRef::Node(n)), nr);
        }
        Ok(())
    }

    /// The view as it is made from its base now, with a history of its own.
    fn remade(&self) -> Result<Tensor> {
        let _grad = crate::state::GradMode::set(true);
        backend::deferring_views(|| {
            self.ops().into_iter().try_fold(self.base.clone(), |t, op| dispatch::call_view(op.clone(), &t))
        })
    }

    pub(crate) fn mark_history_current(&self, x: &Tensor) {
        self.history_version.store(x.version(), Relaxed);
    }

    /// Make callers see this view as a tensor of its own. It must not have been handed out yet.
    pub(crate) fn hide(&self) {
        self.hidden.store(true, Relaxed);
    }

    /// Whether callers see a view: its base is a tensor that they know.
    pub fn is_visible(&self) -> bool {
        !self.detached && !self.hidden.load(Relaxed)
    }

    /// Whether this is a detached alias.
    pub fn is_detached(&self) -> bool {
        self.detached
    }
}

impl Tensor {
    /// Whether this tensor is a view of another one, as `Tensor._is_view` reports.
    pub fn is_view(&self) -> bool {
        self.view_info().is_some_and(ViewInfo::is_visible)
    }

    /// A view through `op`, without recording.
    pub(crate) fn make_view(&self, op: Prim, meta: &Meta, strides: crate::Dims, offset: usize) -> Result<Tensor> {
        let lazy = match op {
            Prim::Conj(_) => Some(true),
            Prim::Negative(_) => Some(false),
            _ => None,
        };
        let info = ViewInfo::of(self, op);
        let mut y = self.alias(meta, strides, offset, Some(info))?;
        if backend::computes_views_at_once(meta.place) && !backend::is_deferring_views() {
            self.compute_view(&y)?;
        }
        if let Some(conjugate) = lazy {
            y.toggle_lazy(conjugate);
        }
        if crate::state::is_inference() && !self.is_inference() && self.requires_grad() && y.dtype().is_inexact() {
            // Nothing is recorded in inference mode, but a view of a normal tensor is normal. As in PyTorch, it is a
            // leaf.
            y.requires_grad_(true)?;
        }
        Ok(y)
    }

    /// Compute the value of `y`, a view of this tensor through its last op.
    #[cold]
    fn compute_view(&self, y: &Tensor) -> Result<()> {
        let info = y.view_info().expect("the tensor was made as a view");
        let Some(op) = info.last_op() else { return Ok(()) };
        let handle = backend::record_one(op, &[backend::Operand::Value(self.device_value()?)], y.meta())?;
        info.remember(self.writes(), handle);
        Ok(())
    }

    /// A view of the elements in their order in memory, if they lie there without gaps in another order than row major;
    /// else the tensor itself.
    pub(crate) fn in_memory_order(&self) -> Result<Tensor> {
        if self.has_contiguous_strides() || !self.is_dense() {
            return Ok(self.clone());
        }
        dispatch::call_view(Prim::Permute(crate::ops::shape::Permute(self.memory_order())), self)
    }

    /// This tensor, the base of `view`, viewed in the dtype of `view`, and conjugated and negated like `view`.
    pub(crate) fn seen_as(&self, view: &Tensor) -> Result<Tensor> {
        use crate::ops::complex::{AsComplex, AsReal};
        let mut y = self.in_memory_order()?;
        if view.dtype() != self.dtype() {
            // Another dtype reads the memory itself.
            y = lazily_as(&y, &y)?;
            let (own, its) = (self.dtype(), view.dtype());
            let is_pairs = own.is_complex() != its.is_complex() && own.to_real() == its.to_real();
            y = if !is_pairs {
                y.view_dims(crate::Dims::new(&[y.numel()]))?.view_dtype(view.dtype())?
            } else if view.dtype().is_complex() {
                let pairs = y.view_dims(crate::Dims::new(&[y.numel() / 2, 2]))?;
                dispatch::call_view(Prim::AsComplex(AsComplex), &pairs)?
            } else {
                dispatch::call_view(Prim::AsReal(AsReal), &y)?
            };
        }
        if view.is_conj() != y.is_conj() {
            y = y.conj()?;
        }
        if view.is_neg() != y.is_neg() { y.negative_view() } else { Ok(y) }
    }

    /// A tensor whose memory holds the elements themselves: a copy if memory holds their conjugates or negatives. It is
    /// for `cpu` and has no history.
    pub(crate) fn resolved(&self) -> Result<Tensor> {
        use torchtpu_kernels::pointwise::{UnaryKind, unary};
        if !self.is_lazy() {
            return Ok(self.clone());
        }
        let y = Tensor::empty(self.meta())?;
        let apply =
            |kind, x: &Tensor| unary(kind, &x.view(), &mut y.view_mut()).map_err(crate::ops::pointwise::kernel_error);
        match (self.is_conj() && self.dtype().is_complex(), self.is_neg()) {
            (true, true) => {
                apply(UnaryKind::Conj, self)?;
                apply(UnaryKind::Neg, &y)?;
            }
            (true, false) => apply(UnaryKind::Conj, self)?,
            (false, _) => apply(UnaryKind::Neg, self)?,
        }
        Ok(y)
    }

    /// Another tensor with the same elements and layout and no history.
    pub fn shallow_alias(&self) -> Result<Tensor> {
        // A device needs the chain of views to read the tensor. On `cpu`, and for the owner of a storage, the layout is
        // enough.
        let info = match self.place().held() {
            Held::Handle => self.view_info().map(|v| v.detached(self)).transpose()?,
            _ => None,
        };
        self.alias(self.meta(), *self.strides(), self.storage_offset(), info)
    }

    /// Another tensor that is a view of the same base in the same way, with its history. `v.t_()` puts one in the place
    /// of `v`.
    ///
    /// # Errors
    /// When the history of a view cannot be made anew.
    pub fn same_view(&self) -> Result<Tensor> {
        let Some(v) = self.view_info().filter(|v| !v.detached) else { return self.alias_with_history() };
        let info = ViewInfo::new(self, v.base.clone(), v.earlier.clone(), v.ops.clone(), false, v.made());
        info.share_value(v, self)?;
        info.history_version.store(v.history_version.load(Relaxed), Relaxed);
        let t = self.alias(self.meta(), *self.strides(), self.storage_offset(), Some(info))?;
        if let Some(r) = self.history()? {
            t.set_new_grad_ref(r, self.output_nr());
        }
        Ok(t)
    }

    /// An alias that keeps the history. In-place ops pass it to their functional form, so that a node never owns the
    /// tensor whose history it is.
    pub(crate) fn alias_with_history(&self) -> Result<Tensor> {
        let t = self.shallow_alias()?;
        if let Some(r) = self.history()? {
            t.set_new_grad_ref(r, self.output_nr());
        }
        Ok(t)
    }

    /// The operand that stands for this tensor in an op that overwrites it: an alias with the history. The new history
    /// of a view begins at its base, so hooks on the view do not see the gradients of later results.
    pub(crate) fn overwritten_operand(&self) -> Result<Tensor> {
        let is_hooked = |r: &GradRef| match r {
            GradRef::Node(n) => n.extras_if_any().is_some_and(|e| {
                e.lock().unwrap_or_else(|e| e.into_inner()).before.iter().any(|h| h.1 == self.output_nr())
            }),
            GradRef::Leaf(_) => false,
        };
        match self.view_info().filter(|v| !v.detached && v.base.requires_grad()) {
            Some(v) if self.history()?.as_ref().is_some_and(is_hooked) => v.remade(),
            _ => self.alias_with_history(),
        }
    }

    /// The device value of this tensor: that of the storage, or the result of the chain of views on it.
    ///
    /// The reference is borrowed: it lives as long as the tensor is neither dropped nor written.
    pub fn device_value(&self) -> Result<u64> {
        debug_assert!(self.place().has_handle());
        let Some(info) = self.view_info() else { return Ok(self.storage_value()) };
        if !info.has_ops() {
            return info.base.device_value();
        }
        let version = self.writes();
        let mut memo = info.memo.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((v, handle)) = *memo
            && v == version
        {
            return Ok(handle);
        }
        let mut meta = *info.base.meta();
        let mut handle = info.base.device_value()?;
        let mut owned = false;
        let reordered;
        let mut ops = info.ops();
        let repeats = self.place().is_tpu() && ops.iter().any(|op| matches!(op, Prim::Expand(_)));
        if repeats && ops.len() > 1 {
            reordered = super::chain::repeats_last(meta.dims, &ops)?;
            ops = reordered.iter().collect();
        }
        for op in ops {
            let out = op.view_meta(&meta)?;
            let next = backend::record_one(op, &[backend::Operand::Value(handle)], &out)?;
            if owned {
                backend::release(handle);
            }
            (handle, meta, owned) = (next, out, true);
        }
        if let Some((_, old)) = memo.replace((version, handle)) {
            backend::release(old);
        }
        Ok(handle)
    }

    /// The base of this view and the view ops on it, if the value of the view is not known without running them: it was
    /// not read since its storage was written.
    pub fn pending_views(&self) -> Option<(&Tensor, SmallVec<[&Prim; 4]>)> {
        let info = self.view_info()?;
        let is_known =
            matches!(*info.memo.lock().unwrap_or_else(|e| e.into_inner()), Some((v, _)) if v == self.writes());
        (!is_known).then(|| (&info.base, info.ops()))
    }

    /// Write `y` (same sizes, dtype and device) over this tensor's elements and count the write. The caller must update
    /// the history.
    pub(crate) fn write_value(&self, y: &Tensor) -> Result<()> {
        if is_written_in_order(self) && !self.place().is_abstract() {
            let (memory, new) = overlap::written(self, y)?;
            return memory.write_value(&new);
        }
        match self.place().held() {
            Held::Abstract => {}
            // The op has written the elements already; see `inplace::update`.
            Held::Memory if !y.is_lazy() && inplace::is_same_place(self, y) => {}
            Held::Memory => {
                // Memory of a conjugated view holds the conjugates of the values that are written.
                let y =
                    if self.is_lazy() { crate::state::no_grad(|| lazily_as(&y.detach(), self))? } else { y.clone() };
                let mut out = self.view_mut();
                torchtpu_kernels::copy::copy(&y.resolved()?.view(), &mut out);
            }
            Held::Handle => {
                if self.place().is_tpu() && self.is_reached_twice() {
                    // Undoing the views one by one would write all copies of an element, and the old ones last.
                    let whole = |v: &crate::Dims| v.iter().map(|&n| n as i64).collect::<Vec<_>>();
                    let (dims, strides) = (whole(self.dims()), whole(self.strides()));
                    let window =
                        crate::state::no_grad(|| self.as_strided(&dims, &strides, Some(self.storage_offset() as i64)))?;
                    if !window.is_reached_twice() {
                        return window.write_value(y);
                    }
                }
                let be = backend::of(self.place())?;
                // The value of the storage's owner after this write. Go from each view to its base until there is none.
                let (mut at, mut new) = (self.clone(), y.clone());
                while let Some(info) = at.view_info() {
                    if info.has_ops() {
                        new = crate::state::no_grad(|| write_through(&info.base, &info.ops(), &new))?;
                    }
                    let base = info.base.clone();
                    at = base;
                }
                let is_update = at.is_state() || backend::is_updating() || at.requires_grad() && at.is_leaf();
                let value = be.overwrite(self.storage_value(), new.device_value()?, is_update)?;
                let own = self.overwritten_view(y, is_update)?;
                be.release(self.replace_storage_value(value));
                self.bump_version();
                if let Some(handle) = own {
                    self.view_info().expect("it has a value of its own").remember(self.writes(), handle);
                }
                return Ok(());
            }
        }
        self.bump_version();
        Ok(())
    }
}

impl Tensor {
    /// The value that this view of a sharded tensor has when `y` is written over it. `None` if it can be computed from
    /// the base when it is read, since that needs no other process.
    fn overwritten_view(&self, y: &Tensor, is_update: bool) -> Result<Option<u64>> {
        let Some(info) = self.view_info().filter(|v| v.has_ops() && backend::computes_views_at_once(self.place()))
        else {
            return Ok(None);
        };
        if self.pending_views().is_some() || self.is_reached_twice() || may_overlap(self.dims(), self.strides()) {
            return Ok(None);
        }
        let old = info.memo.lock().unwrap_or_else(|e| e.into_inner()).map(|(_, handle)| handle);
        let be = backend::of(self.place())?;
        let Some(old) = old.filter(|&old| be.is_exchanged(old)) else { return Ok(None) };
        be.overwrite(old, y.device_value()?, is_update).map(Some)
    }

    /// Whether this view is taken from one that may reach an element through several indices.
    fn is_reached_twice(&self) -> bool {
        let mut at = self.view_info();
        while let Some(info) = at {
            let ops = info.ops();
            let base = &info.base;
            if may_overlap(base.dims(), base.strides())
                || ops.iter().any(|op| matches!(op, Prim::AsStrided(_) | Prim::Expand(_)))
                    && overlaps_within(base, &ops)
            {
                return true;
            }
            at = base.view_info();
        }
        false
    }
}

/// Whether a chain of views on `base` may reach an element through several indices before the last view.
fn overlaps_within(base: &Tensor, ops: &[&Prim]) -> bool {
    let mut l = Layout::of(base);
    ops.split_last().is_some_and(|(_, earlier)| {
        earlier.iter().any(|op| match op.layout(&l) {
            Ok(next) => {
                l = next;
                may_overlap(&l.dims, &l.strides)
            }
            Err(_) => true,
        })
    })
}

/// `y`, conjugated and negated like `x`.
fn lazily_as(y: &Tensor, x: &Tensor) -> Result<Tensor> {
    let y = if x.is_conj() { y.conj()? } else { y.clone() };
    if x.is_neg() { y.negative_view() } else { Ok(y) }
}

/// The places in `base`, which owns its storage, that a chain of views reads, if the chain repeats elements on the way.
/// From the copies of an element alone, it is unknown through which one a later view was written.
fn repeating_window(base: &Tensor, ops: &[&Prim]) -> Option<crate::ops::shape::AsStrided> {
    let is_owner = base.view_info().is_none_or(|v| !v.has_ops()) && base.storage_offset() == 0;
    let may_repeat = ops.iter().any(|op| matches!(op, Prim::Expand(_) | Prim::AsStrided(_)));
    if !may_repeat || !is_owner || !base.is_dense() || base.is_lazy() {
        return None;
    }
    let (mut l, mut repeats) = (Layout::of(base), false);
    for op in ops {
        if op.view_dtype(base.dtype()) != base.dtype() || matches!(op, Prim::Conj(_) | Prim::Negative(_)) {
            return None;
        }
        l = op.layout(&l).ok()?;
        repeats |= may_overlap(&l.dims, &l.strides);
    }
    repeats.then_some(crate::ops::shape::AsStrided { dims: l.dims, strides: l.strides, offset: l.offset, own: false })
}

/// A new tensor like the base, with the elements that the chain of views reads replaced by `y`.
pub(crate) fn write_through(base: &Tensor, ops: &[&Prim], y: &Tensor) -> Result<Tensor> {
    backend::deferring_views(|| written_through(base, ops, y))
}

fn written_through(base: &Tensor, ops: &[&Prim], y: &Tensor) -> Result<Tensor> {
    if let Some(w) = repeating_window(base, ops) {
        let order = base.memory_order();
        if base.has_contiguous_strides() {
            return w.write_back(base, y);
        }
        let new = w.write_back(&base.in_memory_order()?, y)?;
        return dispatch::call_view(
            Prim::Permute(crate::ops::shape::Permute(crate::ops::shape::Permute(order).inverse())),
            &new,
        );
    }
    // Compute values on the way down, then the inverse of each view on the way up.
    let mut down: SmallVec<[Tensor; 4]> = smallvec![base.clone()];
    for op in &ops[..ops.len() - 1] {
        let next = dispatch::call_view((*op).clone(), &down[down.len() - 1])?;
        down.push(next);
    }
    let mut value = y.clone();
    for (op, x) in ops.iter().zip(&down).rev() {
        value = op.write_back(x, &value)?;
    }
    Ok(value)
}

impl Tensor {
    /// Make output `nr` of a node the history of this tensor, which was just written in place without recording. For a
    /// view, it becomes the history of a part of its base.
    ///
    /// # Errors
    /// `Runtime` where the history of the base cannot follow.
    pub fn adopt_history(&self, node: &Arc<graph::Node>, nr: u32) -> Result<()> {
        let y = self.shallow_alias()?;
        y.set_new_grad_ref(GradRef::Node(node.clone()), nr);
        let old_base = match self.view_info() {
            Some(v) if !v.is_detached() => {
                v.check_rebase(self)?;
                Some(v.base.alias_with_history()?)
            }
            _ => None,
        };
        rebase_history(self, &y, old_base)
    }
}

/// Give `x` the history of `y`, whose values were just written into it. The base of a view gets the history of the old
/// base with this part replaced.
pub(crate) fn rebase_history(x: &Tensor, y: &Tensor, old_base: Option<Tensor>) -> Result<()> {
    match x.view_info().filter(|v| !v.is_detached()) {
        None => {
            graph::replace_history(x, y.grad_ref(), y.output_nr());
        }
        Some(info) => {
            if !y.requires_grad() && !info.base.requires_grad() {
                return Ok(());
            }
            let old = old_base.expect("a view's base is kept by the caller");
            let new = write_through(&old, &info.ops(), y)?;
            graph::replace_history(&info.base, new.grad_ref(), new.output_nr());
            // The view is now a view of the new base.
            info.history_version.store(x.version().wrapping_sub(1), Relaxed);
            info.refresh(x)?;
        }
    }
    if let Some(info) = x.view_info() {
        info.mark_history_current(x);
    }
    Ok(())
}
