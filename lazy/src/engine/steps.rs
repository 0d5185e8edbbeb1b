//! Training steps: where they end, and the values that only the first step makes.

use super::{Body, Engine, NO_OWNER};
use crate::check::Check;
use crate::form::{Arg, DTYPES, Form, Input, Node, Source, hash_meta, hash_op, mix, mix_precision};
use crate::slot::Slot;
use smallvec::SmallVec;
use std::sync::Arc;
use torchtpu_tensor::DType;

/// The position of a stream in a training step.
#[derive(Default)]
pub(super) struct Step {
    /// Whether an optimizer is in its step, so that its fills may be its state.
    pub(super) makes_state: bool,
    is_over: bool,
    /// Whether an optimizer is in its step, so that its writes are updates.
    pub(super) is_stepping: bool,
    /// Open checks that the gradients of the step depend on.
    pub(super) checks: Vec<Arc<Check>>,
    /// Such checks of earlier steps.
    pub(super) late_checks: Vec<Arc<Check>>,
    /// The values that the optimizers computed, as a range of the segment's values.
    from: usize,
    to: usize,
    /// Optimizers whose steps are in the segment.
    optimizers: SmallVec<[u64; 2]>,
}

impl Step {
    /// Return whether the segment is cut before the next op.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Note that an optimizer begins. Return `false` if the segment must be cut first, because the finished step used
    /// the same optimizer. Otherwise a loop of steps would become one program.
    pub(super) fn begins(&mut self, optimizer: u64, makes_state: bool, values: usize) -> bool {
        let is_known = self.optimizers.contains(&optimizer);
        if self.is_over && is_known {
            return false;
        }
        self.is_over = false;
        self.makes_state = makes_state;
        self.is_stepping = true;
        if self.optimizers.is_empty() {
            self.from = values;
        }
        if !is_known {
            self.optimizers.push(optimizer);
        }
        true
    }

    /// Note that an optimizer has ended.
    pub(super) fn ends(&mut self, is_cut_later: bool, values: usize) {
        self.makes_state = false;
        self.is_stepping = false;
        self.to = values;
        self.is_over = is_cut_later;
    }

    /// Return whether an optimizer computed a value of the segment.
    pub(super) fn made_by_optimizer(&self, value: usize) -> bool {
        (self.from..self.to).contains(&value)
    }

    /// Note that the segment was cut.
    pub(super) fn cut(&mut self) {
        self.is_over = false;
        (self.from, self.to) = (0, 0);
        self.optimizers.clear();
    }
}

impl Engine {
    /// Move the fills of an optimizer's state out of a segment that is being cut, and return the segment that computes
    /// them. `body` becomes equal to the segment of the next step, with its hash, so that a training loop has one
    /// program instead of two.
    pub(super) fn part_made_in_step(
        &self,
        body: &mut Body,
        outputs: &mut Vec<Arc<Slot>>,
        stream: u32,
    ) -> Option<(Body, Vec<Arc<Slot>>)> {
        let made = std::mem::take(&mut body.made_in_step);
        if made.len() == body.form.nodes.len() {
            return None;
        }
        let mut parting = Parting::new(body, outputs, &made, stream);
        let mut first = Body::default();
        let kept: Vec<usize> = (0..parting.old.nodes.len()).filter(|&n| !parting.is_dropped(n)).collect();
        for &n in &kept {
            let to = if parting.is_made[n] { &mut first } else { &mut *body };
            parting.append(n, to);
        }
        // Outputs in the order of their values.
        let mut first_outputs = Vec::new();
        let (mut of_first, mut of_body) = (0, 0);
        for n in kept {
            let (to, slots, at) = if parting.is_made[n] {
                (&mut first, &mut first_outputs, &mut of_first)
            } else {
                (&mut *body, &mut *outputs, &mut of_body)
            };
            for v in parting.old.values_of(n) {
                if let Some(slot) = parting.slot_of[v].take() {
                    to.form.outputs.push(*at);
                    to.hash = mix(to.hash, u64::from(*at));
                    slots.push(slot);
                }
                *at += 1;
            }
        }
        Some((first, first_outputs))
    }
}

/// A segment that is parted: some nodes are moved into a segment before it.
struct Parting {
    old: Form,
    old_slots: Vec<Arc<Slot>>,
    old_numbers: [Vec<u8>; DTYPES],
    /// Whether each node is moved.
    is_made: Vec<bool>,
    /// Whether each value is read, or leaves the segment.
    is_used: Vec<bool>,
    /// The slot of each value that leaves its part.
    slot_of: Vec<Option<Arc<Slot>>>,
    /// The number of each value, argument and number of the old form in the new one.
    value: Vec<Option<Input>>,
    arg: Vec<Option<Input>>,
    number: [Vec<Option<Input>>; DTYPES],
    stream: u32,
}

impl Parting {
    /// Take everything out of `body` and `outputs`. The nodes in `made` are moved.
    fn new(body: &mut Body, outputs: &mut Vec<Arc<Slot>>, made: &[u32], stream: u32) -> Parting {
        let old = std::mem::take(&mut body.form);
        let mut slot_of: Vec<Option<Arc<Slot>>> = vec![None; old.values.len()];
        for (&v, slot) in old.outputs.iter().zip(outputs.drain(..)) {
            slot_of[v as usize] = Some(slot);
        }
        let mut is_made = vec![false; old.nodes.len()];
        made.iter().for_each(|&n| is_made[n as usize] = true);
        let mut is_used: Vec<bool> = slot_of.iter().map(Option::is_some).collect();
        for input in &old.inputs {
            if let Source::Value(v) = input.source() {
                is_used[v] = true;
            }
        }
        body.owners.clear();
        body.hash = 0;
        Parting {
            old_slots: std::mem::take(&mut body.slots),
            old_numbers: std::mem::take(&mut body.numbers),
            is_made,
            is_used,
            slot_of,
            value: vec![None; old.values.len()],
            arg: vec![None; old.args.len()],
            number: old.numbers.map(|n| vec![None; n as usize]),
            stream,
            old,
        }
    }

    /// Return whether a node is moved and its values have no reader.
    fn is_dropped(&self, n: usize) -> bool {
        self.is_made[n] && !self.old.values_of(n).any(|v| self.is_used[v])
    }

    /// Append a node to its part.
    fn append(&mut self, n: usize, to: &mut Body) {
        let Node { op, precision, .. } = self.old.nodes[n].clone();
        let (first_input, first_value) = (to.form.inputs.len() as u32, to.form.values.len() as u32);
        to.hash = mix_precision(mix(to.hash, hash_op(&op)), precision);
        for i in 0..self.old.inputs_of(n).len() {
            let input = self.input(n, self.old.inputs_of(n)[i], to);
            to.hash = mix(to.hash, u64::from(input.0));
            to.form.inputs.push(input);
        }
        to.form.sites.set(to.form.nodes.len(), self.old.sites.get(n));
        to.form.nodes.push(Node { op, offsets: 0, precision, first_input, first_value });
        let values = self.old.values_of(n);
        to.hash = mix(to.hash, values.len() as u64);
        for v in values {
            if !self.is_made[n] {
                self.value[v] = Some(Input::value(to.form.values.len() as u32));
            }
            to.form.values.push(self.old.values[v]);
            to.owners.push(NO_OWNER);
        }
    }

    /// Return an input of node `n` in its part.
    fn input(&mut self, n: usize, input: Input, to: &mut Body) -> Input {
        let is_made = self.is_made[n];
        match input.source() {
            // A moved value is an argument from here on.
            Source::Value(v) => *self.value[v].get_or_insert_with(|| {
                let slot = self.slot_of[v].get_or_insert_with(|| {
                    let slot = Slot::empty(self.old.values[v]);
                    slot.named.store(false, std::sync::atomic::Ordering::Relaxed);
                    Arc::new(slot)
                });
                to.argument(slot.clone(), self.stream)
            }),
            Source::Arg(a) => *self.arg[a].get_or_insert_with(|| to.argument(self.old_slots[a].clone(), self.stream)),
            Source::Number(dtype, i) => match self.number[dtype as usize][i] {
                Some(known) if !is_made => known,
                _ => {
                    let new = to.number(dtype, &self.old_numbers[dtype as usize], i);
                    if !is_made {
                        self.number[dtype as usize][i] = Some(new);
                    }
                    new
                }
            },
        }
    }
}

/// Number of elements above which a running total is treated as any other fill.
pub(super) const LARGEST_TOTAL: usize = 16;

impl Body {
    /// Find the small fills that begin a running total, and mark them to be [launched
    /// first](Engine::part_made_in_step), as state is. Such a fill has one reader, an element-wise op whose result
    /// leaves the segment. In the next step the total is an argument.
    pub(super) fn add_totals(&mut self) {
        let form = &self.form;
        let fills = std::mem::take(&mut self.small_fills);
        if fills.is_empty() {
            return;
        }
        let mut readers: Vec<(u32, u32)> = vec![(0, 0); form.values.len()];
        for n in 0..form.nodes.len() {
            for input in form.inputs_of(n) {
                if let Source::Value(v) = input.source() {
                    readers[v] = (readers[v].0 + 1, n as u32);
                }
            }
        }
        let leaves = |v: usize| self.owners[v] != NO_OWNER;
        let begins_total = |&n: &u32| {
            let fill = form.values_of(n as usize).start;
            let (count, reader) = readers[fill];
            let reader = reader as usize;
            count == 1
                && !leaves(fill)
                && form.nodes[reader].op.facts().is_binary
                && form.inputs_of(reader).first().map(|i| i.source()) == Some(Source::Value(fill))
                && form.values_of(reader).all(|v| leaves(v) && form.values[v] == form.values[fill])
        };
        self.made_in_step.extend(fills.into_iter().filter(begins_total));
    }

    /// Append an argument, as recording does.
    fn argument(&mut self, slot: Arc<Slot>, stream: u32) -> Input {
        let i = self.slots.len() as u32;
        self.hash = mix(self.hash, hash_meta(&slot.meta));
        self.form.args.push(Arg { meta: slot.meta, donated: false });
        slot.used_by(stream);
        self.slots.push(slot);
        Input::arg(i)
    }

    /// Append number `i` of those of its dtype.
    fn number(&mut self, dtype: DType, from: &[u8], i: usize) -> Input {
        let (d, size) = (dtype as usize, dtype.size_bytes());
        let new = self.form.numbers[d];
        self.form.numbers[d] += 1;
        self.numbers[d].extend_from_slice(&from[i * size..][..size]);
        Input::number(dtype, new)
    }
}
