//! Limits a failure to the values that depend on it.
//!
//! A segment may hold unrelated results, such as a tensor that is too large beside the step of an optimizer. If it
//! cannot be compiled or launched, the engine computes its results in smaller and smaller groups. In the end, only the
//! results at fault have failed.

use super::{Body, Engine, Outputs};
use crate::cut::CutReason;
use crate::device::Device;
use crate::failure::Failure;
use crate::form::{DTYPES, Part, Source};
use crate::slot::Slot;
use std::sync::Arc;
use torchtpu_tensor::DType;

/// Number of groups that fail alone until the device counts as lost. The remaining groups then fail with the last
/// error.
const MAX_FAILURES: usize = 32;

impl Engine {
    /// Compute the outputs of a failed segment in groups, so that each output gets an outcome of its own.
    #[cold]
    pub(super) fn launch_in_groups(
        &self,
        device: &Device,
        body: &Body,
        outputs: &Outputs,
        reason: CutReason,
        failure: Arc<Failure>,
    ) {
        let all: Vec<usize> = (0..outputs.0.len()).collect();
        self.divide(device, body, &outputs.0, &all, reason, failure, &mut 0);
    }

    #[allow(clippy::too_many_arguments)] // a recursion over one segment
    fn divide(
        &self,
        device: &Device,
        body: &Body,
        slots: &[Arc<Slot>],
        wanted: &[usize],
        reason: CutReason,
        failure: Arc<Failure>,
        failures: &mut usize,
    ) {
        let lost = lost_values(body);
        let (gone, rest): (Vec<usize>, Vec<usize>) =
            wanted.iter().partition(|&&k| lost[body.form.outputs[k] as usize].is_some());
        for k in gone.iter().copied() {
            if let Some(f) = &lost[body.form.outputs[k] as usize] {
                slots[k].fail(f.clone());
            }
        }
        let groups = match &rest[..] {
            [] => return,
            rest if !gone.is_empty() => vec![rest],
            [one] => {
                *failures += 1;
                slots[*one].fail(failure);
                return;
            }
            rest => {
                let (front, back) = rest.split_at(rest.len() / 2);
                vec![front, back]
            }
        };
        for group in groups {
            if *failures >= MAX_FAILURES {
                group.iter().for_each(|&k| slots[k].fail(failure.clone()));
                continue;
            }
            let part = body.part(group);
            let results = Outputs(group.iter().map(|&k| slots[k].clone()).collect());
            let hash = part.hash;
            let compiled = match self.find(hash, &part.form) {
                Some(c) => Ok(c),
                None => self.compile(device, hash, &part.form, reason),
            };
            if let Err(f) = compiled.and_then(|c| self.launch(device, &c, &part, &results, false)) {
                self.divide(device, body, slots, group, reason, f, failures);
            }
        }
    }
}

/// Return the failure of a value, if it is known.
fn failure_of(slot: &Slot) -> Option<Arc<Failure>> {
    let buffer = match slot.buffer() {
        Ok(buffer) => buffer,
        Err(failure) => return Some(failure),
    };
    let error = buffer.is_ready().is_ok_and(|is_ready| is_ready).then(|| buffer.await_ready().err()).flatten()?;
    Some(Arc::new(Failure::device("executing on device tpu", &error)))
}

/// Return the nodes that can run, and the nodes that cannot, because they depend on an argument that failed. Return
/// `None` unless there are both.
///
/// A program with a failed argument fails as a whole. Its collectives would break groups that have nothing to do with
/// the failure.
#[cold]
pub(super) fn apart_from_lost(body: &Body) -> Option<[Vec<usize>; 2]> {
    let lost = lost_values(body);
    let is_lost = |n: &usize| body.form.values_of(*n).any(|v| lost[v].is_some());
    let (lost, kept): (Vec<usize>, Vec<usize>) = (0..body.form.nodes.len()).partition(is_lost);
    (!lost.is_empty() && !kept.is_empty()).then_some([kept, lost])
}

/// Return for each value the failure of an argument that it depends on, or nothing.
fn lost_values(body: &Body) -> Vec<Option<Arc<Failure>>> {
    let failed: Vec<Option<Arc<Failure>>> = body.slots.iter().map(|slot| failure_of(slot)).collect();
    let mut lost: Vec<Option<Arc<Failure>>> = vec![None; body.form.values.len()];
    for n in 0..body.form.nodes.len() {
        let why = body.form.inputs_of(n).iter().find_map(|input| match input.source() {
            Source::Value(v) => lost[v].clone(),
            Source::Arg(a) => failed[a].clone(),
            Source::Number(..) => None,
        });
        if why.is_some() {
            lost[body.form.values_of(n)].fill(why);
        }
    }
    lost
}

impl Body {
    /// Return the body that computes only these outputs.
    fn part(&self, outputs: &[usize]) -> Body {
        self.of_part(self.form.part(outputs), |_| None)
    }

    /// Return the body of a part. `slot` has the values that other nodes compute.
    pub(super) fn of_part(&self, part: Part, slot: impl Fn(usize) -> Option<Arc<Slot>>) -> Body {
        let Part { form, args, numbers } = part;
        let mut packed: [Vec<u8>; DTYPES] = Default::default();
        for (d, places) in numbers.iter().enumerate() {
            let size = DType::ALL[d].size_bytes();
            places.iter().for_each(|&i| packed[d].extend_from_slice(&self.numbers[d][i * size..][..size]));
        }
        let slots = args.iter().filter_map(|source| match *source {
            Source::Value(v) => slot(v),
            Source::Arg(a) => Some(self.slots[a].clone()),
            Source::Number(..) => None, // never an argument
        });
        let has_effects = self.has_effects && form.has_effects();
        Body { hash: form.hash(), slots: slots.collect(), form, numbers: packed, has_effects, ..Body::default() }
    }
}
