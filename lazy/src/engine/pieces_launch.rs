//! Launching a program in pieces: see [`crate::pieces`] and [`crate::growing`].

use super::launching::warn_of_compilations;
use super::{Body, Compiling, Engine, Launched, Outputs, Segment};
use crate::cut::CutReason;
use crate::device::Device;
use crate::failure::Failure;
use crate::form::{Form, Part, Source};
use crate::growing;
use crate::pieces::Whole;
use crate::plan::Plan;
use crate::slot::Slot;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use torchtpu_stablehlo::Precision;

/// The place that a program is compiled for.
pub(super) enum Target<'a> {
    Device(&'static Device),
    Plan(&'a Plan),
}

/// The last piece that reads each argument and value. A piece may destroy a value that no later piece reads.
struct LastReaders {
    of_args: Vec<Option<usize>>,
    /// Empty for a value that no later piece reads.
    of_values: Vec<Option<usize>>,
}

impl LastReaders {
    fn new(form: &Form, pieces: &[Vec<usize>]) -> LastReaders {
        let mut r = LastReaders { of_args: vec![None; form.args.len()], of_values: vec![None; form.values.len()] };
        let mut computed_in = vec![usize::MAX; form.values.len()];
        for (p, nodes) in pieces.iter().enumerate() {
            for &n in nodes {
                computed_in[form.values_of(n)].fill(p);
                for input in form.inputs_of(n) {
                    match input.source() {
                        Source::Arg(a) => r.of_args[a] = Some(p),
                        Source::Value(v) if computed_in[v] != p => r.of_values[v] = Some(p),
                        _ => {}
                    }
                }
            }
        }
        r
    }

    /// Return piece `p` of a form, which computes `values` by `nodes`. It destroys the values that no later piece
    /// reads, unless they are results of the segment (`leaves`).
    fn extract(&self, form: &Form, p: usize, nodes: &[usize], values: &[u32], leaves: &[bool]) -> Part {
        let mut part = form.extract(nodes.iter().copied(), values);
        part.form.is_pooled = form.is_pooled;
        for (arg, source) in part.form.args.iter_mut().zip(&part.args) {
            arg.donated = match *source {
                Source::Arg(a) => form.args[a].donated && self.of_args[a] == Some(p),
                Source::Value(v) => !leaves[v] && self.of_values[v] == Some(p),
                Source::Number(..) => false,
            };
        }
        let is_collective = nodes.len() == 1 && form.nodes[nodes[0]].op.facts().has_effects;
        if is_collective {
            make_independent(&mut part.form);
        }
        part
    }
}

impl Engine {
    /// Compute a segment piece by piece, after earlier segments of its stream. Pieces for which `is_on_host` is true
    /// run on the host. `prepare` is called before each piece, and a piece that it refuses fails. If a piece fails,
    /// only the results that depend on it fail.
    #[cold]
    pub(super) fn launch_pieces(
        &self,
        target: Target<'_>,
        segment: Segment,
        pieces: &[Vec<usize>],
        is_on_host: impl Fn(usize) -> bool,
        mut prepare: impl FnMut(usize) -> Result<(), Arc<Failure>>,
    ) -> Result<(), Arc<Failure>> {
        let Segment { body, outputs, stream, debug, turn, .. } = segment;
        if let Some(turn) = &turn {
            turn.wait();
        }
        let form = &body.form;
        let last = LastReaders::new(form, pieces);
        let mut slots: Vec<Option<Arc<Slot>>> = vec![None; form.values.len()];
        let mut leaves = vec![false; form.values.len()];
        // A reader of a result may destroy it. So a result that later pieces read is handed out after the last of them.
        let mut held_back: Vec<Option<Arc<Slot>>> = vec![None; form.values.len()];
        for (&v, slot) in form.outputs.iter().zip(&outputs.0) {
            let v = v as usize;
            leaves[v] = true;
            let place = if last.of_values[v].is_some() { &mut held_back } else { &mut slots };
            place[v] = Some(slot.clone());
        }
        let (mut result, mut compiled_ops) = (Ok(()), 0);
        for (p, nodes) in pieces.iter().enumerate().filter(|(_, nodes)| !nodes.is_empty()) {
            let values: Vec<u32> = nodes
                .iter()
                .flat_map(|&n| form.values_of(n))
                .filter(|&v| leaves[v] || last.of_values[v].is_some())
                .map(|v| v as u32)
                .collect();
            let part = body.of_part(last.extract(form, p, nodes, &values, &leaves), |v| slots[v].clone());
            let results = values.iter().map(|&v| {
                slots[v as usize].get_or_insert_with(|| Arc::new(Slot::empty(form.values[v as usize]))).clone()
            });
            let results = Outputs(results.collect());
            let piece = Segment::new(part, results, CutReason::Piece, debug, stream);
            if is_on_host(p) {
                piece.outputs.0.iter().for_each(|s| s.has_grown.store(true, Relaxed));
            }
            let launched = match prepare(p) {
                Ok(()) => self.launch_piece(&target, piece, is_on_host(p), &mut compiled_ops),
                Err(refused) => self.finish(piece, Err(refused)),
            };
            result = result.and(launched);
            // Free a value that no later piece reads, or give it to the slot that waits for it.
            for v in (0..slots.len()).filter(|&v| last.of_values[v] == Some(p)) {
                if let (Some(slot), Some(held_back)) = (slots[v].take(), held_back[v].take()) {
                    slot.give(&held_back);
                }
            }
        }
        if self.note(form.nodes.len(), compiled_ops > form.nodes.len() / 2) {
            warn_of_compilations("this sequence of ops is new");
        }
        self.recycle(body);
        result
    }

    /// Return how to divide a segment that has no executable, if [its sizes change](crate::growing).
    pub(super) fn divide_growing(&self, body: &Body) -> Option<growing::Division> {
        self.growing.divide(&body.form, |a| body.slots[a].has_grown.load(Relaxed))
    }

    /// Compute a piece. Add the number of ops that were compiled for it to `compiled_ops`.
    fn launch_piece(
        &self,
        target: &Target<'_>,
        mut piece: Segment,
        is_on_host: bool,
        compiled_ops: &mut usize,
    ) -> Result<(), Arc<Failure>> {
        let device = match target {
            Target::Device(device) => device,
            Target::Plan(_) if is_on_host => {
                piece.outputs.0.iter().for_each(|s| s.plan());
                return self.finish(piece, Ok(()));
            }
            Target::Plan(plan) => return self.plan(plan, piece),
        };
        if is_on_host && let Some(result) = self.interpret(&piece.body, &piece.outputs, None) {
            return self.finish(piece, result);
        }
        let (hash, found) = self.look_up(&mut piece.body);
        let compiled = found.map_or_else(
            || {
                *compiled_ops += piece.body.form.nodes.len();
                self.compile(device, hash, &piece.body.form, piece.reason)
            },
            Ok,
        );
        self.launch_after(None, device, compiled, piece)
    }

    /// Compile a program that comes often, on a thread of its own.
    pub(super) fn compile_in_background(
        &self,
        device: &'static Device,
        hash: u64,
        form: &Form,
        reason: CutReason,
        whole: Whole,
    ) {
        let promise = Promise(whole);
        let launched = Arc::new(Launched::new());
        self.compiling.lock().push(Compiling { wanted: None, is_spare: true, launched: launched.clone() });
        let form = form.clone();
        // If no thread can be started, `promise` is dropped.
        self.in_thread(launched, move |engine| {
            if let Ok(compiled) = engine.build(device, hash, &form, reason, false) {
                let _ = promise.0.set(Some(Arc::new(compiled)));
            }
        });
    }
}

/// Make the program of one collective depend on nothing but the collective, so that all ranks have the same.
fn make_independent(form: &mut Form) {
    form.args.iter_mut().for_each(|arg| arg.donated = false);
    form.is_pooled = false;
    form.nodes.iter_mut().for_each(|n| n.precision = Precision::default());
    form.options = 0;
}

/// A whole that other threads may wait for. Dropping it sets `None`, so that they do not wait forever.
struct Promise(Whole);

impl Drop for Promise {
    fn drop(&mut self) {
        let _ = self.0.set(None);
    }
}
