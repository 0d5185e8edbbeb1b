//! Launches that all ranks agree about.
//!
//! On accelerators, all ranks must launch the same program with collectives. Before each such launch they compare their
//! programs through the [communicator](torchtpu_tensor::comm::Communicator::agree). This happens on a thread of its own
//! while the program records on, except when it waits for a value anyway. If the programs differ, a segment is launched
//! in pieces: each collective alone, and what is between them. The collectives that another rank has not reached yet
//! wait until it has.
//!
//! If a rank fails while the ranks agree, or between the agreement and the launch, the others may have launched the
//! program. The device of this rank would then match its next collectives with earlier ones of the others. So nothing
//! with collectives is launched any more.

use super::pieces_launch::Target;
use super::{Body, Engine, Launched, Segment};
use crate::cut::CutReason;
use crate::device::Device;
use crate::failure::Failure;
use crate::metrics::{COUNTERS, count};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use torchtpu_tensor::ErrorKind;
use torchtpu_tensor::comm::{self, Agreed, Cut, Decision, Disagreement, Proposal, Step, Ticket};

/// Cuts that are kept. A program has one for each place where a rank does something of its own.
const MAX_ADOPTED: usize = 64;

/// The collectives of a segment that other ranks take part in, with their nodes.
pub(super) struct Steps {
    nodes: Vec<usize>,
    steps: Vec<Step>,
}

impl Steps {
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Engine {
    /// Launch a segment with collectives as all ranks agree.
    pub(super) fn run_agreed(
        &self,
        device: &'static Device,
        segment: Segment,
        steps: Steps,
    ) -> Result<(), Arc<Failure>> {
        let is_awaited = matches!(segment.reason, CutReason::Read | CutReason::Synchronize) || segment.debug;
        if is_awaited {
            let before = self.background_of(segment.stream);
            return self.launch_agreed(before, device, segment, &steps);
        }
        let steps = Arc::new(steps);
        let shared = steps.clone();
        let left = self.in_background(None, segment, move |engine, before, segment| {
            // The outputs carry the failure. A reader raises it.
            let _ = engine.launch_agreed(before, device, segment, &shared);
        });
        left.map_or(Ok(()), |segment| {
            let before = self.background_of(segment.stream);
            self.launch_agreed(before, device, segment, &steps)
        })
    }

    fn launch_agreed(
        &self,
        before: Option<Arc<Launched>>,
        device: &'static Device,
        segment: Segment,
        steps: &Steps,
    ) -> Result<(), Arc<Failure>> {
        if let Some(before) = before {
            self.await_launched(&before);
        }
        if let Some(turn) = &segment.turn {
            turn.wait();
        }
        if let Some(failure) = self.out_of_step.get() {
            return self.finish(segment, Err(failure.clone()));
        }
        let form = &segment.body.form;
        let hash = segment.body.hash & self.hash_mask.load(Relaxed);
        let compiled = self.find(hash, form);
        let is_compiled = compiled.is_some();
        let proposal =
            Proposal { key: segment.body.hash.max(1), is_compiled, cuts: &segment.cuts, steps: &steps.steps };
        let agreed = match agree(&proposal) {
            Ok(agreed) => agreed,
            Err(disagreement) => {
                let failure = self.disagreed(device, disagreement);
                return self.finish(segment, Err(failure));
            }
        };
        if let Some(cut) = agreed.cut {
            self.adopt(cut);
        }
        let launched = match agreed.decision {
            Decision::Fused { is_compiled } => {
                count(&COUNTERS.programs_fused, 1);
                let compiled = match compiled {
                    Some(compiled) => {
                        self.note(form.nodes.len(), false);
                        Ok(compiled)
                    }
                    None => self.compile(device, hash, form, segment.reason),
                };
                // A rank that cannot compile it gives up its turns, which the others notice here.
                let compiled = compiled.and_then(|compiled| {
                    if !is_compiled {
                        await_compiled(&steps.steps[0]).map_err(|d| self.disagreed(device, d))?;
                    }
                    Ok(compiled)
                });
                self.launch_after(None, device, compiled, segment)
            }
            Decision::Split(first) => {
                count(&COUNTERS.programs_split, 1);
                self.launch_split(device, segment, steps, first)
            }
        };
        launched.inspect_err(|failure| self.note_out_of_step(device, failure))
    }

    /// Return the failure of a program that the ranks do not agree about.
    fn disagreed(&self, device: &Device, disagreement: Disagreement) -> Arc<Failure> {
        let failure = Arc::new(Failure::of(&disagreement.error));
        if disagreement.may_others_launch {
            self.note_out_of_step(device, &failure);
        }
        failure
    }

    /// Launch no more programs with collectives, because other ranks may have launched one that this rank has not. On
    /// XLA:CPU, collectives are matched by their numbers in the group.
    fn note_out_of_step(&self, device: &Device, failure: &Failure) {
        if device.processes.is_some() && !device.profile.calls_collectives {
            self.out_of_step.get_or_init(|| {
                let text = format!(
                    "this process launches no more collectives on device tpu, because its programs may differ from \
                     those of other ranks since this failure: {}. Start all processes again.",
                    failure.message
                );
                Arc::new(Failure::new(ErrorKind::DistBackend, text))
            });
        }
    }

    /// Launch each collective alone. The ranks have agreed about the first ones. They agree about the others when it is
    /// their turn.
    fn launch_split(
        &self,
        device: &'static Device,
        segment: Segment,
        steps: &Steps,
        mut agreed: usize,
    ) -> Result<(), Arc<Failure>> {
        let mut pieces: Vec<Vec<usize>> = vec![Vec::new()];
        // The collective of each piece, as its position in the list.
        let mut step_of: Vec<Option<usize>> = vec![None];
        let mut nodes = steps.nodes.iter().enumerate().peekable();
        for node in 0..segment.body.form.nodes.len() {
            match nodes.next_if(|(_, n)| **n == node) {
                Some((step, _)) => {
                    pieces.extend([vec![node], Vec::new()]);
                    step_of.extend([Some(step), None]);
                }
                None => pieces.last_mut().expect("the list begins with a piece").push(node),
            }
        }
        let prepare = |piece: usize| {
            let Some(step) = step_of[piece] else { return Ok(()) };
            if agreed == 0 {
                let rest = &steps.steps[step..];
                let proposal = Proposal { key: 0, is_compiled: false, cuts: &[], steps: rest };
                agreed = match agree(&proposal).map_err(|d| self.disagreed(device, d))?.decision {
                    Decision::Split(first) => first,
                    Decision::Fused { .. } => rest.len(),
                };
            }
            agreed -= 1;
            Ok(())
        };
        self.launch_pieces(Target::Device(device), segment, &pieces, |_| false, prepare)
    }

    /// Cut here from now on, as all ranks do.
    fn adopt(&self, cut: Cut) {
        let adopted = &mut self.recording.lock().adopted;
        if !adopted.contains(&cut) && adopted.len() < MAX_ADOPTED {
            adopted.push(cut);
            count(&COUNTERS.cuts_adopted, 1);
        }
    }
}

fn agree(proposal: &Proposal<'_>) -> Result<Agreed, Disagreement> {
    comm::get()?.agree(proposal)
}

fn await_compiled(step: &Step) -> Result<(), Disagreement> {
    comm::get()?.await_compiled(step)
}

impl Body {
    /// Return the collectives that other ranks take part in.
    pub(super) fn steps(&self) -> Steps {
        let mut found = Steps { nodes: Vec::new(), steps: Vec::new() };
        for (n, node) in self.form.nodes.iter().enumerate() {
            if let Some(op) = node.op.collective()
                && let Some(ticket) = self.ticket(n).filter(|&ticket| ticket != Ticket::NONE)
                && let Some(x) = self.form.inputs_of(n).first().and_then(|&x| self.form.meta_of(x))
            {
                let op = op.clone();
                found.nodes.push(n);
                found.steps.push(Step { ticket, op, dtype: x.dtype, sizes: x.dims });
            }
        }
        found
    }
}
