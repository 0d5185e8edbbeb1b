//! Recording: handles, streams, and the cut that ends a segment.

use super::{
    Body, Engine, Entry, MANY, NO_OWNER, NO_STREAM, Outputs, Recording, STREAM, STREAM_GUARD, Segment, State, Stream,
    checks,
    launching::donate,
    steps::{LARGEST_TOTAL, Step},
};
use crate::check::Check;
use crate::collectives::Turn;
use crate::cut::CutReason;
use crate::form::{Arg, Input, Node, mix};
use crate::metrics::{COUNTERS, count};
use crate::mode::EagerMode;
use crate::repeat::{Early, Repeat};
use crate::slot::Slot;
use crate::{form, mode, options, plan, precision};
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use torchtpu_stablehlo::Precision;
use torchtpu_tensor::backend::Operand;
use torchtpu_tensor::comm::Cut;
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::site::{self, Site};
use torchtpu_tensor::{Error, Meta, Result};

/// Number of operands from which a join counts as a random choice among more tensors. Each operand is then an argument
/// of its own, also if it is one already. Otherwise the repetitions would be part of the program, and each batch of a
/// replay buffer a new program.
const LONG_LIST: usize = 16;

/// Number of cuts that ranks compare.
const MAX_CUTS: usize = 4;

impl Engine {
    /// Append an op to the current thread's segment, and write its handles. Return the cut that is now due. The results
    /// depend on `check`, and on the checks of the operands.
    #[inline]
    pub(super) fn push(
        &self,
        op: &Prim,
        x: &[Operand<'_>],
        y: &[Meta],
        handles: &mut [u64],
        check: Option<&Arc<Check>>,
    ) -> Result<Option<Box<Segment>>> {
        let mode = mode::get();
        // This calls Python, so it comes before the lock.
        let site = site::current();
        let mut guard = self.recording.lock();
        let id = guard.stream();
        guard = self.cut_due_streams(guard, id, op, x);
        let r = &mut *guard;
        let op_hash = form::hash_op(op);
        // The setting belongs to each op: a change of it ends no program.
        let precision = if self.multiplies_in_passes.load(Relaxed) { precision::get() } else { Precision::default() };
        let recorded = &r.streams[id].body.form;
        let (first_input, first_value) = (recorded.inputs.len() as u32, recorded.values.len() as u32);
        let node = Node { op: op.clone(), offsets: 0, precision, first_input, first_value };
        let hash = form::mix_precision(mix(r.streams[id].body.hash, op_hash), precision);
        let hash = match r.push_operands(id, op, x, hash) {
            Ok(hash) => hash,
            Err(stale) => return Err(forget(&mut r.streams[id].body, &node, &x[..stale])),
        };
        if op.facts().has_effects {
            self.peers.watch();
        }
        let s = &mut r.streams[id];
        s.push_node(node, y, site, check);
        s.body.hash = mix(hash, y.len() as u64);
        // Iterations of a loop that differ only in an offset count as equal.
        let signature = if op.has_offsets() { form::hash_op(&op.without_offsets()) } else { op_hash };
        let signature = r.push_results(id, y, handles, signature);
        r.nodes_recorded += 1;
        let reason = match mode {
            EagerMode::Fused => match self.due_cut(&mut r.streams[id], signature) {
                Some(reason) => reason,
                None => return Ok(None),
            },
            EagerMode::Strict => CutReason::Strict,
            EagerMode::Debug => CutReason::Debug,
        };
        Ok(self.take(r, id, reason).map(Box::new))
    }

    /// Cut the current stream if it ends before an op, and the streams of other threads that must be launched before
    /// it.
    #[inline]
    fn cut_due_streams<'a>(
        &'a self,
        mut guard: MutexGuard<'a, Recording>,
        id: usize,
        op: &Prim,
        x: &[Operand<'_>],
    ) -> MutexGuard<'a, Recording> {
        if guard.streams[id].step.is_over() && !guard.continues_step(id, op, x) {
            guard = self.cut_before(guard, id, CutReason::StepBoundary);
        }
        if !guard.adopted.is_empty() && guard.is_at_adopted_cut(id) {
            guard = self.cut_before(guard, id, CutReason::Adopted);
        }
        if guard.streams.len() > 1 {
            guard = self.join(guard, id, x);
            if op.facts().has_effects {
                guard = self.cut_others(guard, id);
            }
        }
        guard
    }

    /// Return the reason to cut a stream of Fused mode after an op with this signature, if there is one.
    #[inline]
    fn due_cut(&self, s: &mut Stream, signature: u64) -> Option<CutReason> {
        let (len, max) = (s.body.form.nodes.len(), self.max_nodes.load(Relaxed));
        if let Some(reason) = s.repeat.push(signature, len, max) {
            return Some(reason);
        }
        if len >= max {
            return Some(CutReason::Size);
        }
        if s.live_bytes > self.max_pending_bytes.load(Relaxed)
            || s.live_bytes / MANY > self.many_bytes.load(Relaxed).max(s.largest)
        {
            return Some(CutReason::Memory);
        }
        let is_early = len == self.early_ops.load(Relaxed) && s.early.pass(s.repeat.place(), || self.is_idle());
        is_early.then_some(CutReason::Idle)
    }

    /// Cut a stream before its next op.
    #[cold]
    fn cut_before<'a>(
        &'a self,
        mut guard: MutexGuard<'a, Recording>,
        id: usize,
        reason: CutReason,
    ) -> MutexGuard<'a, Recording> {
        if let Some(segment) = self.take(&mut guard, id, reason) {
            // A read of the values raises the failure.
            let _ = MutexGuard::unlocked(&mut guard, || self.run(segment));
        }
        guard
    }

    /// Cut the segments of other threads whose values the current thread is about to use.
    #[cold]
    pub(super) fn join<'a>(
        &'a self,
        mut guard: MutexGuard<'a, Recording>,
        own: usize,
        x: &[Operand<'_>],
    ) -> MutexGuard<'a, Recording> {
        for operand in x {
            let Operand::Value(h) = operand else { continue };
            let other = match guard.entry(*h) {
                Ok(Entry { state: State::Pending { stream, .. }, .. }) if *stream as usize != own => *stream as usize,
                _ => continue,
            };
            if let Some(segment) = self.take(&mut guard, other, CutReason::OtherThread) {
                // A read of the values raises the failure.
                let _ = MutexGuard::unlocked(&mut guard, || self.run(segment));
            }
        }
        guard
    }

    /// End the segment of a stream: choose its outputs and donated arguments, and turn its values into slots.
    pub(super) fn take(&self, r: &mut Recording, stream: usize, reason: CutReason) -> Option<Segment> {
        let spare = r.spare.pop().unwrap_or_default();
        let s = &mut r.streams[stream];
        let reason = if s.step.is_over() { CutReason::StepBoundary } else { reason };
        s.step.cut();
        match reason {
            CutReason::Size | CutReason::Memory | CutReason::RepeatFound | CutReason::Idle | CutReason::OtherThread => {
            }
            _ => s.repeat.anchor(),
        }
        if s.body.form.nodes.is_empty() {
            r.spare.push(spare);
            return None;
        }
        count(&COUNTERS.cuts[reason as usize], 1);
        s.early.ended(s.body.form.nodes.len(), self.early_ops.load(Relaxed));
        let mut body = std::mem::replace(&mut s.body, spare);
        r.serial += 1;
        s.serial = r.serial;
        (s.live_bytes, s.largest) = (0, 0);
        let mut cuts = Vec::new();
        if self.agrees.load(Relaxed) {
            if s.cuts.len() < MAX_CUTS {
                s.cuts.push(Cut { ops: body.form.nodes.len() as u64, hash: body.hash });
            }
            if body.has_effects {
                cuts = std::mem::take(&mut s.cuts);
            }
        }
        let debug = mode::get() == EagerMode::Debug;
        let mut outputs = r.hold_outputs(&mut body);
        body.add_totals();
        let first = if body.made_in_step.is_empty() {
            None
        } else {
            self.part_made_in_step(&mut body, &mut outputs, stream as u32)
        };
        if STREAM.get() != stream as u32 {
            // Two threads launch segments of this stream now, so the launches may not follow the order of the cuts.
            body.slots.iter().for_each(|s| s.share());
        }
        if !(debug && self.check_numerics.load(Relaxed)) {
            donate(&mut body, stream as u32);
        }
        self.choose_options(&mut body, &outputs);
        let first = first.map(|(mut body, outputs)| {
            self.choose_options(&mut body, &outputs);
            let reason = CutReason::MadeInStep;
            count(&COUNTERS.cuts[reason as usize], 1);
            Box::new(Segment::new(body, Outputs(outputs), reason, debug, stream as u32))
        });
        let turn = body.has_effects.then(Turn::take);
        Some(Segment { first, turn, cuts, ..Segment::new(body, Outputs(outputs), reason, debug, stream as u32) })
    }

    /// Apply the settings that decide how a segment is compiled.
    fn choose_options(&self, body: &mut Body, outputs: &[Arc<Slot>]) {
        let is_large = |slot: &Arc<Slot>| form::is_large(&slot.meta);
        if mode::get() == EagerMode::Fused && self.pools.load(Relaxed) && outputs.iter().any(is_large) {
            body.form.is_pooled = true;
            body.hash = mix(body.hash, 1 << 41);
        }
        let options = options::current();
        if options != 0 {
            body.form.options = options;
            body.hash = mix(body.hash, u64::from(options) << 44);
        }
    }

    /// Note that an optimizer begins its step: see [`crate::step_begins`].
    pub(crate) fn step_begins(&self, optimizer: u64, makes_state: bool) {
        if torchtpu_pjrt::is_forked() {
            return;
        }
        let mut guard = self.recording.lock();
        let id = guard.stream();
        let values = guard.streams[id].body.form.values.len();
        if !guard.streams[id].step.begins(optimizer, makes_state, values) {
            guard = self.cut_before(guard, id, CutReason::StepBoundary);
            guard.streams[id].step.begins(optimizer, makes_state, 0);
        }
    }

    /// Note that a training step ends: see [`crate::step_boundary`].
    pub(crate) fn step_boundary(&self) {
        if torchtpu_pjrt::is_forked() {
            return;
        }
        checks::end_step();
        let is_lazy = self.cuts_steps_lazily.load(Relaxed);
        let mut guard = self.recording.lock();
        let id = guard.stream();
        let Stream { step, body, .. } = &mut guard.streams[id];
        step.ends(is_lazy, body.form.values.len());
        let is_empty = body.form.nodes.is_empty();
        if is_empty {
            // No cut is left for the next op.
            step.cut();
        }
        drop(guard);
        match plan::active() {
            Some(plan) if is_empty => plan.step_without_launch(),
            Some(plan) => plan.step_ends(),
            None => {}
        }
        if !is_lazy {
            self.cut(CutReason::StepBoundary);
        }
    }
}

impl Recording {
    /// Turn the values of a body that have a handle into its outputs, and return the slots that they get.
    fn hold_outputs(&mut self, body: &mut Body) -> Vec<Arc<Slot>> {
        let mut outputs = Vec::new();
        for (value, &owner) in body.owners.iter().enumerate() {
            if owner != NO_OWNER {
                let slot = Slot::empty(body.form.values[value]);
                if !body.dependences.is_empty() {
                    slot.depend_on(body.dependences.of_value(value));
                }
                let slot = Arc::new(slot);
                self.entries[owner as usize].state = State::Held(slot.clone());
                body.form.outputs.push(value as u32);
                body.hash = mix(body.hash, value as u64);
                outputs.push(slot);
            }
        }
        outputs
    }

    /// Append operands to the inputs of the current segment. Return `hash` with them, or the position of an operand
    /// whose handle is stale.
    #[inline]
    fn push_operands(
        &mut self,
        id: usize,
        op: &Prim,
        x: &[Operand<'_>],
        mut hash: u64,
    ) -> std::result::Result<u64, usize> {
        let s = &mut self.streams[id];
        let b = &mut s.body;
        let is_list = x.len() >= LONG_LIST && op.facts().joins_operands;
        for (position, operand) in x.iter().enumerate() {
            let input = match operand {
                Operand::Value(h) => {
                    let e = match self.entries.get_mut(*h as u32 as usize) {
                        Some(e) if e.generation == (*h >> 32) as u32 && e.refs > 0 => e,
                        _ => return Err(position),
                    };
                    match &e.state {
                        State::Pending { value, .. } => Input::value(*value),
                        State::Held(_) if e.mark == s.serial && !is_list => Input::arg(e.arg),
                        State::Held(slot) => {
                            let i = b.push_argument(slot);
                            hash = mix(hash, form::hash_meta(&slot.meta));
                            if is_list {
                                // A value may be an argument twice, so only its last handle counts as its end.
                                slot.share();
                            } else {
                                slot.used_by(id as u32);
                                (e.mark, e.arg) = (s.serial, i);
                            }
                            Input::arg(i)
                        }
                        State::Free => return Err(position),
                    }
                }
                Operand::Number { bits, meta, shared } => match b.shared_number(*shared) {
                    Some(known) => known,
                    None => b.push_number(*bits, meta, *shared),
                },
            };
            hash = mix(hash, u64::from(input.0));
            b.form.inputs.push(input);
        }
        Ok(hash)
    }

    /// Append the results of the last node of the current segment, and write their handles. Return `signature` with
    /// their sizes.
    #[inline]
    fn push_results(&mut self, id: usize, y: &[Meta], handles: &mut [u64], mut signature: u64) -> u64 {
        let s = &mut self.streams[id];
        for (meta, out) in y.iter().zip(handles) {
            let value = s.body.form.values.len() as u32;
            let state = State::Pending { stream: id as u32, value };
            let (entry, handle) = new_entry(&mut self.entries, &mut self.free, state);
            s.body.form.values.push(*meta);
            s.body.owners.push(entry);
            let bytes = meta.bytes().unwrap_or(usize::MAX);
            s.live_bytes = s.live_bytes.saturating_add(bytes);
            s.largest = s.largest.max(bytes);
            signature = mix(signature, bytes as u64);
            *out = handle;
        }
        signature
    }

    /// Return the current thread's stream.
    #[inline]
    pub(super) fn stream(&mut self) -> usize {
        match STREAM.get() {
            NO_STREAM => self.new_stream(),
            id => id as usize,
        }
    }

    #[cold]
    fn new_stream(&mut self) -> usize {
        let id = self.free_streams.pop().unwrap_or_else(|| {
            self.serial += 1;
            let (serial, body) = (self.serial, Body::default());
            self.streams.push(Stream {
                body,
                serial,
                live_bytes: 0,
                largest: 0,
                repeat: Repeat::default(),
                early: Early::default(),
                step: Step::default(),
                background: None,
                cuts: Vec::new(),
            });
            self.streams.len() as u32 - 1
        });
        STREAM.set(id);
        // A thread that is ending has no guard, so its stream stays in use.
        let _ = STREAM_GUARD.try_with(|_| ());
        id as usize
    }

    /// Return whether all ranks cut a stream here.
    fn is_at_adopted_cut(&self, stream: usize) -> bool {
        let body = &self.streams[stream].body;
        let here = Cut { ops: body.form.nodes.len() as u64, hash: body.hash };
        self.adopted.contains(&here)
    }

    /// Return whether an op that is recorded after the end of a training step still belongs to that step, as a running
    /// loss does: it reads a value that the step computed before its optimizer began, and no value that the optimizer
    /// made. A draw of random numbers reads the state that the step left, so it belongs to the next step.
    #[cold]
    fn continues_step(&mut self, stream: usize, op: &Prim, x: &[Operand<'_>]) -> bool {
        let mut reads_step = false;
        if op.facts().draws_random {
            return false;
        }
        for operand in x {
            if let Operand::Value(h) = operand
                && let Ok(Entry { state: State::Pending { stream: of, value }, .. }) = self.entry(*h)
                && *of as usize == stream
            {
                let value = *value as usize;
                if self.streams[stream].step.made_by_optimizer(value) {
                    return false;
                }
                reads_step = true;
            }
        }
        reads_step
    }

    #[inline]
    pub(super) fn entry(&mut self, handle: u64) -> Result<&mut Entry> {
        match self.entries.get_mut(handle as u32 as usize) {
            Some(e) if e.generation == (handle >> 32) as u32 && e.refs > 0 => Ok(e),
            _ => Err(stale()),
        }
    }

    #[inline]
    pub(super) fn new_entry(&mut self, state: State) -> (u32, u64) {
        new_entry(&mut self.entries, &mut self.free, state)
    }
}

#[cold]
pub(super) fn stale() -> Error {
    Error::runtime("a device value was used after its last reference was released")
}

impl Stream {
    /// Append a node whose operands are the last inputs of the segment. Its results are still to be appended.
    #[inline]
    fn push_node(&mut self, node: Node, y: &[Meta], site: Site, check: Option<&Arc<Check>>) {
        let b = &mut self.body;
        b.has_effects |= node.op.facts().has_effects;
        if node.op.facts().is_fill && (self.step.makes_state || y[0].numel() <= LARGEST_TOTAL) {
            let fills = if self.step.makes_state { &mut b.made_in_step } else { &mut b.small_fills };
            fills.push(b.form.nodes.len() as u32);
        }
        if check.is_some() || !b.dependences.is_empty() {
            let first = b.form.values.len();
            b.dependences.add_node(&b.form.inputs[node.first_input as usize..], first, first + y.len(), check);
        }
        b.form.sites.set(b.form.nodes.len(), site);
        b.form.nodes.push(node);
    }
}

impl Body {
    /// Return the number that an earlier op of the segment shares by this name.
    #[inline]
    fn shared_number(&self, name: u64) -> Option<Input> {
        if name == 0 {
            return None;
        }
        self.shared.iter().rev().find(|(n, _)| *n == name).map(|(_, number)| *number)
    }

    /// Append an argument, and return its position.
    #[inline]
    fn push_argument(&mut self, slot: &Arc<Slot>) -> u32 {
        let i = self.slots.len();
        self.form.args.push(Arg { meta: slot.meta, donated: false });
        self.slots.push(slot.clone());
        if !slot.checks().is_empty() {
            self.dependences.add_arg(i, slot.checks());
        }
        i as u32
    }

    /// Append a number, which later ops may share by a name that is not 0.
    #[inline]
    fn push_number(&mut self, bits: u128, meta: &Meta, shared: u64) -> Input {
        let d = meta.dtype as usize;
        let number = Input::number(meta.dtype, self.form.numbers[d]);
        self.form.numbers[d] += 1;
        self.numbers[d].extend_from_slice(&bits.to_le_bytes()[..meta.dtype.size_bytes()]);
        if shared != 0 {
            self.shared.push((shared, number));
        }
        number
    }
}

/// Undo the recording of a node whose next operand is stale, after the given operands. Return the error. Shared numbers
/// stay.
#[cold]
fn forget(b: &mut Body, node: &Node, x: &[Operand<'_>]) -> Error {
    b.form.inputs.truncate(node.first_input as usize);
    for operand in x {
        if let Operand::Number { meta, shared: 0, .. } = operand {
            let d = meta.dtype as usize;
            b.form.numbers[d] -= 1;
            let kept = b.numbers[d].len() - meta.dtype.size_bytes();
            b.numbers[d].truncate(kept);
        }
    }
    stale()
}

/// The generation of an entry before the first one comes again. With its position, a generation makes a handle, whose
/// highest byte is that of [dense](torchtpu_tensor::Rep::Dense) values.
const LAST_GENERATION: u32 = (1 << 24) - 1;

#[inline]
fn new_entry(entries: &mut Vec<Entry>, free: &mut Vec<u32>, state: State) -> (u32, u64) {
    match free.pop() {
        Some(i) => {
            let e = &mut entries[i as usize];
            e.generation = if e.generation == LAST_GENERATION { 1 } else { e.generation + 1 };
            (e.refs, e.state, e.mark) = (1, state, 0);
            (i, u64::from(e.generation) << 32 | u64::from(i))
        }
        None => {
            let i = entries.len() as u32;
            entries.push(Entry { refs: 1, generation: 1, state, mark: 0, arg: 0 });
            (i, 1 << 32 | u64::from(i))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_an_entry_that_is_used_for_long_stay_dense() {
        let mut entries = vec![Entry { refs: 0, generation: LAST_GENERATION - 1, state: State::Free, mark: 0, arg: 0 }];
        let handles: Vec<u64> = (0..3).map(|_| new_entry(&mut entries, &mut vec![0], State::Free).1).collect();
        assert_eq!(handles, [0x00ff_ffff_0000_0000, 0x0000_0001_0000_0000, 0x0000_0002_0000_0000]);
    }
}
