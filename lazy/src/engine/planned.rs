//! Segments of a planned device: see [`crate::plan`].

use super::pieces_launch::Target;
use super::{Engine, Entry, Segment, State};
use crate::cut::CutReason;
use crate::failure::Failure;
use crate::metrics::{COUNTERS, count};
use crate::plan::Plan;
use crate::{growing, lower};
use std::sync::Arc;
use torchtpu_stablehlo::Profile;

impl Engine {
    /// Compile a segment for the machines of the plan, if it is new, and give its results their shapes.
    #[cold]
    pub(super) fn plan(&self, plan: &Plan, mut segment: Segment) -> Result<(), Arc<Failure>> {
        let body = &mut segment.body;
        // As on a device: programs that differ only in offsets become one, and a program that differs from an earlier
        // one by small sizes is divided.
        if !plan.has_program(body.hash, &body.form) {
            if let Some((general, _)) = self.families.generalize(&mut body.form) {
                body.hash = general;
            }
            if segment.reason != CutReason::Piece
                && !plan.has_program(body.hash, &body.form)
                && let Some(parts) = self.divide_growing(body)
            {
                return self.launch_pieces(
                    Target::Plan(plan),
                    segment,
                    &parts,
                    |p| p != growing::ON_DEVICE,
                    |_| Ok(()),
                );
            }
        }
        let (hash, form) = (body.hash, &body.form);
        let argument_bytes = body.slots.iter().map(|s| s.meta.bytes().unwrap_or(0)).sum();
        let lowered = || lower::module(form, &form.outputs, &Profile::TPU, &[]).map(|m| m.text).map_err(|f| f.error());
        let result = plan
            .launch(hash, form, segment.reason, argument_bytes, lowered)
            .map_err(|e| Arc::new(Failure::new(e.kind(), e.message())));
        if result.is_ok() {
            count(&COUNTERS.segments_executed, 1);
            count(&COUNTERS.nodes_executed, form.nodes.len() as u64);
            segment.outputs.0.iter().for_each(|s| s.plan());
        }
        self.finish(segment, result)
    }

    /// Return whether a value was computed in a plan and so holds no data.
    pub(super) fn is_planned(&self, handle: u64) -> bool {
        match self.recording.lock().entry(handle).map(|e| &e.state) {
            Ok(State::Held(slot)) => slot.is_planned(),
            _ => false,
        }
    }

    /// Cut a finished step before the values that its optimizer made are dropped, for example at the end of the
    /// function that trains. The step is then planned as it would be within a loop.
    #[cold]
    pub(super) fn cut_before_release(&self, handle: u64) {
        let mut guard = self.recording.lock();
        let (stream, value) = match guard.entry(handle) {
            Ok(Entry { refs: 1, state: State::Pending { stream, value }, .. }) => (*stream as usize, *value as usize),
            _ => return,
        };
        let step = &guard.streams[stream].step;
        if !step.is_over() || !step.made_by_optimizer(value) {
            return;
        }
        let segment = self.take(&mut guard, stream, CutReason::StepBoundary);
        drop(guard);
        if let Some(segment) = segment {
            // The values carry the failure.
            let _ = self.run(segment);
        }
    }

    /// Fail the values that are recorded and not launched.
    pub(crate) fn drop_pending(&self) {
        self.forget_pending_checks();
        let mut guard = self.recording.lock();
        let segments: Vec<Segment> =
            (0..guard.streams.len()).filter_map(|id| self.take(&mut guard, id, CutReason::Explicit)).collect();
        drop(guard);
        let failure = Arc::new(Failure::new(
            torchtpu_tensor::ErrorKind::Runtime,
            "this value was recorded in a plan that ended before it was computed",
        ));
        for mut segment in segments {
            if let Some(first) = segment.first.take() {
                let _ = self.finish(*first, Err(failure.clone()));
            }
            let _ = self.finish(segment, Err(failure.clone()));
        }
    }
}
