//! Checks of values that are computed later, and the values that depend on them.
//!
//! An op that indexes records an `int64` that says whether its indices are right, and ties the indices to this
//! [`Check`]. A segment keeps the checks that each of its values depends on ([`Dependences`]), so its results know
//! theirs. A read of a result settles its checks, and raises the error of one that failed. The error stays with the
//! values until they are dropped. Other values do not have it.
//!
//! If the indices come from the host, the check is settled when it is recorded ([`Engine::find_now`]), without a cut:
//! nothing stays open, and the program is that of right indices. If it failed, ops that depend on it are not recorded.
//! Their results have the failure at once.
//!
//! Parameters and other state keep their old value instead of one that depends on a failed check ([`Engine::keep`]).

use super::{Body, Engine, Recording, State, tpu::Tpu};
use crate::check::{Check, FAILED, Finding, PASSED, TRACKED, Wrong, is_tracking};
use crate::cut::CutReason;
use crate::failure::Failure;
use crate::form::{Input, Source};
use crate::mode::EagerMode;
use crate::slot::Slot;
use crate::{mode, plan};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use torchtpu_tensor::backend::{ALL_WELL, DeferredError, Operand, Representation as _, is_showing};
use torchtpu_tensor::{DType, Device, Meta, Result, Scalar, Tensor, ops, state};

/// Above this number of open checks, those with known values are settled, so that the list of a program that never
/// reads stays short.
const MAX_OPEN_CHECKS: usize = 64;
/// Greatest number of ops, and of bytes of a value, of a check that is settled when it is recorded. A check of indices
/// takes about ten ops.
const LIGHT_OPS: usize = 32;
const LIGHT_BYTES: usize = 1 << 20;

/// Whether checks of values from the host are settled when they are recorded. Tests of other checks switch it off.
static FINDS_NOW: AtomicBool = AtomicBool::new(true);

/// See [`crate::set_early_checks`].
pub(crate) fn set_early(on: bool) {
    FINDS_NOW.store(on, Relaxed);
}

impl Check {
    /// Return the handle of the value that the check reads, with one more reference. Return `None` if the check is
    /// settled, or if another thread is settling it.
    fn value(&self) -> Option<u64> {
        match &*self.finding.try_lock()? {
            Finding::Open(handle, _) => {
                Tpu.retain(*handle);
                Some(*handle)
            }
            _ => None,
        }
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        if let Finding::Open(handle, _) = std::mem::replace(self.finding.get_mut(), Finding::Passed) {
            TRACKED.fetch_sub(1, AcqRel);
            // The last reference may be dropped under the lock of the recording.
            DROPPED.lock().push(handle);
        }
    }
}

/// Handles of checks that were dropped while open, to be released.
static DROPPED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Values of a segment that depend on checks. Each value has the number of a set of checks. The empty set is 0.
#[derive(Default)]
pub(crate) struct Dependences {
    checks: Vec<Arc<Check>>,
    sets: Vec<SmallVec<[u32; 4]>>,
    of_values: Vec<u32>,
    of_args: Vec<u32>,
    unions: FxHashMap<(u32, u32), u32>,
}

impl Dependences {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }
    pub(crate) fn clear(&mut self) {
        if !self.is_empty() {
            *self = Dependences::default();
        }
    }
    fn number(&mut self, check: &Arc<Check>) -> u32 {
        let known = self.checks.iter().rposition(|c| Arc::ptr_eq(c, check));
        known.unwrap_or_else(|| {
            self.checks.push(check.clone());
            self.checks.len() - 1
        }) as u32
    }
    fn set(&mut self, set: SmallVec<[u32; 4]>) -> u32 {
        if set.is_empty() {
            return 0;
        }
        if self.sets.is_empty() {
            self.sets.push(SmallVec::new());
        }
        if let Some(known) = self.sets.iter().rposition(|s| *s == set) {
            return known as u32;
        }
        self.sets.push(set);
        self.sets.len() as u32 - 1
    }
    /// Return the set of the checks that have not passed.
    fn set_of<'a>(&mut self, checks: impl IntoIterator<Item = &'a Arc<Check>>) -> u32 {
        let open = checks.into_iter().filter(|c| c.status.load(Acquire) != PASSED);
        let mut set: SmallVec<[u32; 4]> = open.map(|c| self.number(c)).collect();
        set.sort_unstable();
        self.set(set)
    }
    fn union(&mut self, a: u32, b: u32) -> u32 {
        if a == b || b == 0 {
            return a;
        }
        if a == 0 {
            return b;
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.unions.get(&key) {
            return *known;
        }
        let mut all = self.sets[a as usize].clone();
        all.extend_from_slice(&self.sets[b as usize]);
        all.sort_unstable();
        all.dedup();
        let union = self.set(all);
        self.unions.insert(key, union);
        union
    }
    /// Note the checks that a new argument depends on.
    pub(crate) fn add_arg(&mut self, arg: usize, checks: &[Arc<Check>]) {
        let set = self.set_of(checks);
        put(&mut self.of_args, arg, set);
    }
    /// Note a node with these inputs that computes the values from `first` to `end`. `own` is a check that the node
    /// ties its result to.
    pub(crate) fn add_node(&mut self, inputs: &[Input], first: usize, end: usize, own: Option<&Arc<Check>>) {
        let of = |list: &[u32], i: usize| list.get(i).copied().unwrap_or(0);
        // A kept update depends on the old value only.
        let inputs = if IS_KEEPING.get() { &inputs[inputs.len() - 1..] } else { inputs };
        let mut set = 0;
        for input in inputs {
            let other = match input.source() {
                Source::Value(v) => of(&self.of_values, v),
                Source::Arg(a) => of(&self.of_args, a),
                Source::Number(..) => 0,
            };
            set = self.union(set, other);
        }
        if let Some(check) = own {
            let own = self.set_of([check]);
            set = self.union(set, own);
        }
        if set != 0 {
            (first..end).for_each(|v| put(&mut self.of_values, v, set));
        }
    }
    /// Return the checks that a value depends on. Leave out checks that have passed.
    pub(crate) fn of_value(&self, value: usize) -> Vec<Arc<Check>> {
        let set = self.of_values.get(value).copied().unwrap_or(0);
        let all = self.sets.get(set as usize).into_iter().flatten().map(|&c| self.checks[c as usize].clone());
        all.filter(|c| c.status.load(Acquire) != PASSED).collect()
    }
}

fn put(list: &mut Vec<u32>, i: usize, set: u32) {
    if list.len() <= i {
        list.resize(i + 1, 0);
    }
    list[i] = set;
}

/// The check that the next copy is tied to.
enum Tie {
    To(Arc<Check>),
    Failed(Arc<Failure>),
}

thread_local! {
    static TIE: RefCell<Option<Tie>> = const { RefCell::new(None) };
    /// Whether this thread records the choice between an old value and an update.
    static IS_KEEPING: Cell<bool> = const { Cell::new(false) };
    /// Checks of the last kept update, by their numbers, and whether all of them passed.
    static CONDITION: RefCell<Option<(Vec<u64>, Tensor)>> = const { RefCell::new(None) };
}

/// Return the failure of a check that a computed value is known to have.
pub(super) fn known_failure(slot: &Slot) -> Option<Arc<Failure>> {
    slot.check_failure().or_else(|| slot.checks().iter().find_map(|c| c.known_failure()))
}

impl Engine {
    /// See [`defer_check`](torchtpu_tensor::backend::Representation::defer_check).
    pub(super) fn defer_check(&self, handle: u64, error: DeferredError) -> Result<bool> {
        TIE.set(None);
        if mode::get() == EagerMode::Debug && !plan::is_active() {
            Tpu.retain(handle);
            let check = Check::new(handle, error);
            return match self.settle(&check) {
                None => Ok(false),
                Some(f) => Err(self.tell(&f)),
            };
        }
        if is_tracking() && self.is_known_wrong(handle) {
            // The operand has a failure already.
            return Ok(false);
        }
        if let Some(found) = self.find_now(handle) {
            if found == ALL_WELL {
                return Ok(false);
            }
            let failure = self.wrong(error, found);
            TIE.set(Some(Tie::Failed(failure)));
            return Ok(true);
        }
        Tpu.retain(handle);
        let check = Check::new(handle, error);
        let open = {
            let mut checks = self.checks.lock();
            checks.push(check.clone());
            checks.len()
        };
        if open.is_multiple_of(MAX_OPEN_CHECKS) {
            self.settle_known_checks();
        }
        if plan::is_active() {
            // A plan computes nothing.
            return Ok(false);
        }
        TIE.set(Some(Tie::To(check)));
        Ok(true)
    }

    /// Make the failure of a check that found the value `found`. An error must be raised for it.
    fn wrong(&self, error: DeferredError, found: i64) -> Arc<Failure> {
        let mut failure = Failure::of(&error(found));
        failure.wrong = Some(Wrong::new());
        let failure = Arc::new(failure);
        let mut untold = self.untold.lock();
        untold.retain(|f| !f.is_told());
        untold.push(failure.clone());
        failure
    }

    /// Return the error of a failure, to be raised. Unless it is only shown, the program knows it from now on.
    pub(super) fn tell(&self, failure: &Failure) -> torchtpu_tensor::Error {
        if let Some(wrong) = &failure.wrong
            && !is_showing()
            && !wrong.is_told.swap(true, Relaxed)
        {
            self.untold.lock().retain(|f| !f.is_told());
        }
        failure.error()
    }

    /// Record the copy that [`Engine::defer_check`] ties to its check. Return `None` if there is no such check.
    #[cold]
    pub(super) fn record_tied(
        &self,
        op: &ops::Prim,
        x: &[Operand<'_>],
        y: &[Meta],
        handles: &mut [u64],
    ) -> Option<Result<Option<Box<super::Segment>>>> {
        Some(match TIE.take()? {
            Tie::To(check) => self.push(op, x, y, handles, Some(&check)),
            Tie::Failed(failure) => {
                self.fail_values(y, handles, &failure);
                Ok(None)
            }
        })
    }

    /// Make values that have a failure.
    pub(super) fn fail_values(&self, y: &[Meta], handles: &mut [u64], failure: &Arc<Failure>) {
        let mut r = self.recording.lock();
        for (meta, handle) in y.iter().zip(handles) {
            let slot = Slot::empty(*meta);
            slot.fail(failure.clone());
            *handle = r.new_entry(State::Held(Arc::new(slot))).1;
        }
    }

    fn is_known_wrong(&self, handle: u64) -> bool {
        self.recording.lock().failure_of([handle]).is_some()
    }

    /// Compute the value of a check on the host, if it takes a few ops on values that came from the host.
    ///
    /// Whether that is so depends on the program only, since the answer is part of the form.
    fn find_now(&self, handle: u64) -> Option<i64> {
        if !FINDS_NOW.load(Relaxed) || plan::is_active() {
            return None;
        }
        let is_at_hand = |slot: &Slot| match mode::get() {
            EagerMode::Fused => slot.is_from_host(),
            _ => slot.is_computed() && slot.check_failure().is_none(),
        };
        let part = {
            let mut r = self.recording.lock();
            let (stream, value) = match &r.entry(handle).ok()?.state {
                State::Pending { stream, value } => (*stream as usize, *value as usize),
                State::Held(slot) if is_at_hand(slot) => {
                    let slot = slot.clone();
                    drop(r);
                    return read(&slot);
                }
                _ => return None,
            };
            let body = &r.streams[stream].body;
            let nodes = light_nodes(body, value, is_at_hand)?;
            body.of_part(body.form.extract(nodes.into_iter(), &[value as u32]), |_| None)
        };
        self.compute_on_host(&part)
    }

    /// Settle a check: wait for its value, and return its failure.
    pub(super) fn settle(&self, check: &Check) -> Option<Arc<Failure>> {
        if check.status.load(Acquire) == PASSED {
            return None;
        }
        let mut finding = check.finding.lock();
        let handle = match &*finding {
            Finding::Passed => return None,
            Finding::Failed(f) => return Some(f.clone()),
            Finding::Open(handle, _) => *handle,
        };
        let failure = if plan::is_active() || self.is_planned(handle) { Ok(None) } else { self.read_check(handle) };
        let Finding::Open(_, error) = std::mem::replace(&mut *finding, Finding::Passed) else { return None };
        let failure = match failure {
            Ok(None) => None,
            Ok(Some(found)) => Some(self.wrong(error, found)),
            Err(f) => Some(f),
        };
        if let Some(f) = &failure {
            *finding = Finding::Failed(f.clone());
        }
        TRACKED.fetch_sub(1, AcqRel);
        check.status.store(if failure.is_some() { FAILED } else { PASSED }, std::sync::atomic::Ordering::Release);
        drop(finding);
        Tpu.release(handle);
        failure
    }

    /// Return what a check found, unless it passed.
    fn read_check(&self, handle: u64) -> std::result::Result<Option<i64>, Arc<Failure>> {
        let failed = |e: torchtpu_tensor::Error| Arc::new(Failure::of(&e));
        let slot = self.slot(handle, CutReason::Read).map_err(failed)?;
        let reading = super::Reading(&slot);
        // The value of a check may itself depend on a check that failed.
        if let Some(f) = self.failure_of_checks(&slot) {
            return Err(f);
        }
        let mut found = [0u8; 8];
        self.copy_slot(&slot, &mut found).map_err(failed)?;
        drop(reading);
        let found = i64::from_ne_bytes(found);
        Ok((found != ALL_WELL).then_some(found))
    }

    /// Settle the checks of a computed value, and return the failure of one.
    pub(super) fn failure_of_checks(&self, slot: &Slot) -> Option<Arc<Failure>> {
        slot.checks().iter().find_map(|c| self.settle(c))
    }

    /// Settle the checks whose values are computed. Drop all settled checks from the list.
    pub(super) fn settle_known_checks(&self) {
        let dropped = std::mem::take(&mut *DROPPED.lock());
        dropped.into_iter().for_each(|h| Tpu.release(h));
        let (known, later): (Vec<_>, Vec<_>) = {
            let mut checks = self.checks.lock();
            std::mem::take(&mut *checks).into_iter().filter(|c| c.is_open()).partition(|c| self.is_computed(c))
        };
        self.checks.lock().extend(later);
        for check in known {
            self.settle(&check);
        }
    }

    /// Return whether settling a check does not wait.
    fn is_computed(&self, check: &Check) -> bool {
        let Some(finding) = check.finding.try_lock() else { return false };
        let Finding::Open(handle, _) = &*finding else { return true };
        let slot = match self.recording.lock().entry(*handle).map(|e| &e.state) {
            Ok(State::Held(slot)) => slot.clone(),
            _ => return false,
        };
        slot.is_computed() && slot.checks().iter().all(|c| !c.is_open())
    }

    /// Settle checks, all of them if it `waits`, and return the first failure that the program was not told of.
    pub(super) fn first_untold(&self, waits: bool) -> Option<Arc<Failure>> {
        if waits {
            let all = std::mem::take(&mut *self.checks.lock());
            all.iter().for_each(|check| drop(self.settle(check)));
        } else {
            self.settle_known_checks();
        }
        let mut untold = self.untold.lock();
        untold.retain(|f| !f.is_told());
        untold.first().cloned()
    }

    /// Forget the checks whose values will never be computed.
    pub(super) fn forget_pending_checks(&self) {
        let mut checks = self.checks.lock();
        let mut r = self.recording.lock();
        let is_pending = |c: &Check, r: &mut Recording| match c.finding.try_lock().as_deref() {
            Some(Finding::Open(h, _)) => matches!(r.entry(*h).map(|e| &e.state), Ok(State::Pending { .. })),
            _ => false,
        };
        let (pending, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *checks).into_iter().partition(|c| is_pending(c, &mut r));
        *checks = others;
        drop((r, checks));
        drop(pending);
        let dropped = std::mem::take(&mut *DROPPED.lock());
        dropped.into_iter().for_each(|h| Tpu.release(h));
    }

    /// Return the value that a tensor has after an update: `new`, or `old` if a check that `new` depends on failed. It
    /// has one more reference.
    #[cold]
    pub(super) fn keep(&self, old: u64, new: u64, is_update: bool) -> Result<u64> {
        let mut guard = self.recording.lock();
        let r = &mut *guard;
        let stream = r.stream();
        let is_step = r.streams[stream].step.is_stepping;
        let chosen = if !is_update && !is_step {
            Some(new)
        } else if r.failure_of([new]).is_some() {
            Some(if r.failure_of([old]).is_some() { new } else { old })
        } else {
            None
        };
        if let Some(chosen) = chosen {
            r.entry(chosen)?.refs += 1;
            return Ok(chosen);
        }
        let mut checks = r.checks_of(new);
        if is_step {
            checks.extend(r.streams[stream].step.checks.iter().cloned());
        }
        let of_old = r.checks_of(old);
        checks.retain(|c| !of_old.iter().any(|o| Arc::ptr_eq(o, c)));
        let metas = (r.meta_of(old)?, r.meta_of(new)?);
        drop(guard);
        let (checks, failure) = self.settle_launched(checks);
        if failure.is_some() {
            self.retain_handle(old);
            return Ok(old);
        }
        if let Some(condition) = self.all_pass(&checks, is_step)?
            && metas.0 == metas.1
        {
            let of = |handle: u64, meta: &Meta| {
                self.retain_handle(handle);
                Tensor::from_device_value(meta, handle)
            };
            let (kept, update) = (of(old, &metas.0), of(new, &metas.1));
            IS_KEEPING.set(true);
            let y = state::no_grad(|| ops::pointwise::select(&condition, &update, &kept));
            IS_KEEPING.set(false);
            let y = y?;
            let handle = y.device_value()?;
            self.retain_handle(handle);
            return Ok(handle);
        }
        // A check may have failed since.
        let mut r = self.recording.lock();
        let chosen = if checks.iter().any(|c| c.known_failure().is_some()) { old } else { new };
        r.entry(chosen)?.refs += 1;
        Ok(chosen)
    }

    fn retain_handle(&self, handle: u64) {
        if let Ok(e) = self.recording.lock().entry(handle) {
            e.refs += 1;
        }
    }

    /// Return a truth value that says whether open checks pass; nothing if none is open. Updates of one step share it.
    fn all_pass(&self, checks: &[Arc<Check>], is_step: bool) -> Result<Option<Tensor>> {
        let open: Vec<(u64, u64)> = checks.iter().filter_map(|c| Some((c.number, c.value()?))).collect();
        if open.is_empty() {
            return Ok(None);
        }
        let meta = Meta::new(&[], DType::I64, Device::TPU);
        let values: Vec<Tensor> = open.iter().map(|(_, h)| Tensor::from_device_value(&meta, *h)).collect();
        let key: Vec<u64> = open.iter().map(|(number, _)| *number).collect();
        let known = CONDITION.with_borrow(|c| c.as_ref().filter(|c| c.0 == key).map(|c| c.1.clone()));
        if known.is_some() {
            return Ok(known);
        }
        let all = state::no_grad(|| {
            let mut all: Option<Tensor> = None;
            for value in &values {
                let passes = value.eq_scalar(Scalar::Int(ALL_WELL))?;
                all = Some(match all {
                    None => passes,
                    Some(before) => before.logical_and(&passes)?,
                });
            }
            Ok::<_, torchtpu_tensor::Error>(all)
        })?;
        if let Some(all) = &all
            && is_step
        {
            CONDITION.set(Some((key, all.clone())));
        }
        Ok(all)
    }

    /// See [`step_reads`](torchtpu_tensor::backend::Backend::step_reads).
    pub(super) fn step_reads(&self, gradients: &[u64]) -> Result<()> {
        let (checks, failure) = {
            let mut r = self.recording.lock();
            match r.failure_of(gradients.iter().copied()) {
                Some(f) => (Vec::new(), Some(f)),
                None => (gradients.iter().flat_map(|&h| r.checks_of(h)).collect(), None),
            }
        };
        let (checks, late) = self.settle_launched(checks);
        if let Some(f) = failure.or(late) {
            return Err(self.tell(&f));
        }
        let mut r = self.recording.lock();
        let stream = r.stream();
        r.streams[stream].step.checks = checks;
        Ok(())
    }

    /// Wait for the checks whose segments were launched. Return the others in the order of their ops, and the failure
    /// of a check.
    ///
    /// Whether a launched program has ended must not decide what is recorded, since that is part of the form.
    fn settle_launched(&self, mut checks: Vec<Arc<Check>>) -> (Vec<Arc<Check>>, Option<Arc<Failure>>) {
        checks.sort_by_key(|c| c.number);
        checks.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let (pending, launched): (Vec<_>, Vec<_>) = checks.into_iter().partition(|c| self.is_pending(c));
        let failure = launched.iter().filter_map(|c| self.settle(c)).next();
        (pending, failure)
    }

    /// Return whether the segment that computes the value of a check is still recorded.
    fn is_pending(&self, check: &Check) -> bool {
        let Some(finding) = check.finding.try_lock() else { return false };
        let Finding::Open(handle, _) = &*finding else { return false };
        matches!(self.recording.lock().entry(*handle).map(|e| &e.state), Ok(State::Pending { .. }))
    }

    /// See [`step_errors`](torchtpu_tensor::backend::Backend::step_errors).
    pub(super) fn step_errors(&self) -> Result<()> {
        self.settle_known_checks();
        let mut r = self.recording.lock();
        let stream = r.stream();
        let mut checks = std::mem::take(&mut r.streams[stream].step.checks);
        let late = &mut r.streams[stream].step.late_checks;
        late.append(&mut checks);
        late.retain(|c| c.status.load(Acquire) != PASSED);
        let failure = late.iter().find_map(|c| c.known_failure());
        late.retain(|c| c.is_open());
        drop(r);
        match failure {
            Some(f) if !f.is_told() => Err(self.tell(&f)),
            _ => Ok(()),
        }
    }
}

/// Forget the check that the next copy would be tied to.
pub(super) fn forget_tie() {
    TIE.set(None);
}

/// Forget what the updates of a step share.
pub(super) fn end_step() {
    if CONDITION.with_borrow(Option::is_some) {
        CONDITION.set(None);
    }
}

/// Return the value of a check that the host has.
fn read(slot: &Slot) -> Option<i64> {
    let mut found = [0u8; 8];
    slot.copy_to(&mut found).ok()?;
    Some(i64::from_ne_bytes(found))
}

/// Return the nodes that compute a pending value, if they are few and their arguments are at hand.
fn light_nodes(body: &Body, value: usize, is_at_hand: impl Fn(&Slot) -> bool) -> Option<Vec<usize>> {
    let form = &body.form;
    let mut nodes: SmallVec<[usize; LIGHT_OPS]> = SmallVec::new();
    let mut next: SmallVec<[usize; LIGHT_OPS]> = SmallVec::new();
    next.push(value);
    while let Some(v) = next.pop() {
        let n = form.nodes.partition_point(|node| node.first_value as usize <= v) - 1;
        if nodes.contains(&n) {
            continue;
        }
        let op = &form.nodes[n].op;
        let is_light = form.values_of(n).all(|v| form.values[v].bytes().is_some_and(|b| b <= LIGHT_BYTES));
        if nodes.len() == LIGHT_OPS || !is_light || !(op.has_kernel() || op.is_view()) || op.facts().has_effects {
            return None;
        }
        nodes.push(n);
        for input in form.inputs_of(n) {
            match input.source() {
                Source::Value(v) => next.push(v),
                Source::Arg(a) if !is_at_hand(&body.slots[a]) => return None,
                _ => {}
            }
        }
    }
    nodes.sort_unstable();
    Some(nodes.into_vec())
}

impl Recording {
    /// Return the failure of a check that one of these values is known to have.
    pub(super) fn failure_of(&mut self, handles: impl IntoIterator<Item = u64>) -> Option<Arc<Failure>> {
        handles.into_iter().find_map(|h| {
            let (stream, value) = match &self.entry(h).ok()?.state {
                State::Held(slot) => return known_failure(slot),
                State::Pending { stream, value } => (*stream as usize, *value as usize),
                State::Free => return None,
            };
            let dependences = &self.streams[stream].body.dependences;
            match dependences.is_empty() {
                true => None,
                false => dependences.of_value(value).iter().find_map(|c| c.known_failure()),
            }
        })
    }

    /// Return the checks that a value depends on.
    fn checks_of(&mut self, handle: u64) -> Vec<Arc<Check>> {
        let (stream, value) = match self.entry(handle).map(|e| &e.state) {
            Ok(State::Held(slot)) => return slot.checks().iter().filter(|c| c.is_open()).cloned().collect(),
            Ok(State::Pending { stream, value }) => (*stream as usize, *value as usize),
            _ => return Vec::new(),
        };
        self.streams[stream].body.dependences.of_value(value)
    }

    fn meta_of(&mut self, handle: u64) -> Result<Meta> {
        let (stream, value) = match &self.entry(handle)?.state {
            State::Held(slot) => return Ok(slot.meta),
            State::Pending { stream, value } => (*stream as usize, *value as usize),
            State::Free => return Err(super::recording::stale()),
        };
        Ok(self.streams[stream].body.form.values[value])
    }
}
