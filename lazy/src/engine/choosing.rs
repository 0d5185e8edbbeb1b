//! The choice of how a segment is launched. It needs no device.

use super::agreeing::Steps;
use super::{Body, Engine, Segment, bisect};
use crate::cache::Compiled;
use crate::cut::CutReason;
use crate::pieces::{Plan, Whole};
use crate::xla_cpu;
use crate::{forbidden, growing};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How a segment is launched on a device.
pub(super) enum Launch {
    /// The ranks agree about these collectives first.
    Agreed(Steps),
    /// Op by op, on the host. If a kernel refuses, [`Engine::choose_refused`] makes another choice.
    Interpreted(Interpreted),
    /// In pieces.
    Pieces(Pieces),
    /// By an executable that is in memory.
    Known(Arc<Compiled>),
    /// By the executable of the program with this hash, which another thread compiles.
    Awaited(u64, Whole),
    /// By a program with this hash, which must be compiled.
    New(u64),
}

/// A program that is computed op by op.
pub(super) struct Interpreted {
    /// The hash of the program.
    pub(super) hash: u64,
    /// The cut, if the program is computed so because it is new.
    pub(super) first_run: Option<CutReason>,
}

/// The pieces of a program.
pub(super) struct Pieces {
    /// The nodes of each piece.
    pub(super) nodes: Vec<Vec<usize>>,
    /// The piece that runs on the device, if all others run on the host.
    pub(super) on_device: Option<usize>,
    /// The hash of the program and the place for its executable, if the whole is compiled meanwhile.
    pub(super) compile: Option<(u64, Whole)>,
}

impl Engine {
    /// Choose how to launch a segment. Later choices depend on the number of choices so far. The form of the segment
    /// may become [more general](crate::families).
    pub(super) fn choose(&self, segment: &mut Segment) -> Launch {
        let Segment { body, reason, .. } = &*segment;
        if body.has_effects
            && let Some(launch) = self.choose_collectives(body)
        {
            return launch;
        }
        let hash = body.hash;
        if self.may_interpret(body) && self.interpreter.always_interprets(hash, &body.form, reason.is_one_op()) {
            return Launch::Interpreted(Interpreted { hash, first_run: None });
        }
        self.choose_program(segment)
    }

    /// Choose how to launch a segment whose op by op execution a kernel has refused.
    pub(super) fn choose_refused(&self, segment: &mut Segment, refused: &Interpreted) -> Launch {
        self.interpreter.record_refused(refused.hash);
        match refused.first_run {
            None => self.choose_program(segment),
            Some(_) => self.choose_new(segment, refused.hash),
        }
    }

    /// Choose how to launch a segment with collectives, if they decide it.
    fn choose_collectives(&self, body: &Body) -> Option<Launch> {
        if self.agrees.load(Relaxed) {
            let steps = body.steps();
            if !steps.is_empty() {
                return Some(Launch::Agreed(steps));
            }
        }
        let lost = xla_cpu::collectives::has_failed().then(|| bisect::apart_from_lost(body)).flatten()?;
        Some(Launch::Pieces(Pieces { nodes: lost.into(), on_device: None, compile: None }))
    }

    /// Return whether a segment may be computed op by op. A kernel may refuse in the middle of a segment, and effects
    /// would then come twice.
    fn may_interpret(&self, body: &Body) -> bool {
        self.interpreter.is_on() && !body.has_effects
    }

    /// Choose how to launch a segment by its executable, if there is one.
    fn choose_program(&self, segment: &mut Segment) -> Launch {
        let may_interpret = self.may_interpret(&segment.body);
        let (hash, found) = self.look_up(&mut segment.body);
        let form = &segment.body.form;
        if let Some(compiled) = found {
            self.note(form.nodes.len(), false);
            self.pieces.record_known(form, !segment.reason.is_inside_step());
            if may_interpret {
                self.interpreter.record_compiled();
            }
            return Launch::Known(compiled);
        }
        if may_interpret && (self.interpreter.should_interpret(hash, form) || forbidden::is_on()) {
            return Launch::Interpreted(Interpreted { hash, first_run: Some(segment.reason) });
        }
        self.choose_new(segment, hash)
    }

    /// Choose how to launch a segment that has no executable, and is not computed op by op.
    fn choose_new(&self, segment: &Segment, hash: u64) -> Launch {
        let Segment { body, reason, debug, .. } = segment;
        if !debug && let Some(parts) = self.divide_growing(body) {
            let on_device = Some(growing::ON_DEVICE);
            return Launch::Pieces(Pieces { nodes: parts.into(), on_device, compile: None });
        }
        match self.pieces.plan(hash, &body.form, !reason.is_inside_step()).filter(|_| !debug) {
            Some(Plan::Pieces { pieces, compile }) => {
                let compile = compile.map(|whole| (hash, whole));
                Launch::Pieces(Pieces { nodes: pieces, on_device: None, compile })
            }
            Some(Plan::Whole(whole)) => Launch::Awaited(hash, whole),
            None => Launch::New(hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Outputs;
    use crate::form::{Arg, Input, Node};
    use crate::pieces::Divide;
    use crate::slot::Slot;
    use crate::xla_cpu::interpret::Interpret;
    use torchtpu_stablehlo::Precision;
    use torchtpu_tensor::comm::Group;
    use torchtpu_tensor::op::Prim;
    use torchtpu_tensor::ops::collective::{Collective, Kind, Reduction};
    use torchtpu_tensor::ops::pointwise::{Unary, UnaryKind};
    use torchtpu_tensor::{DType, Device, Meta};

    /// A chain of `ops` negations of a vector, which ends with a collective of two ranks if `has_effects`.
    fn segment(ops: usize, has_effects: bool, reason: CutReason) -> Segment {
        let meta = Meta::new(&[8], DType::F32, Device::TPU);
        let mut body = Body { hash: ops as u64, has_effects, ..Body::default() };
        body.form.args.push(Arg { meta, donated: false });
        body.slots.push(Arc::new(Slot::empty(meta)));
        let mut node = |op: Prim, inputs: &[Input]| {
            let (first_input, first_value) = (body.form.inputs.len() as u32, body.form.values.len() as u32);
            body.form.nodes.push(Node { op, offsets: 0, precision: Precision::default(), first_input, first_value });
            body.form.inputs.extend_from_slice(inputs);
            body.form.values.push(meta);
        };
        for i in 0..ops as u32 {
            let input = i.checked_sub(1).map_or(Input::arg(0), Input::value);
            node(Prim::Unary(Unary(UnaryKind::Neg)), &[input]);
        }
        if has_effects {
            let kind = Kind::AllReduce(Reduction::Sum);
            let collective = Collective { kind, group: Group::new(1, vec![vec![0, 1]]) };
            let last = Input::value(ops as u32 - 1);
            node(Prim::Collective(Box::new(collective)), &[last, Input::number(DType::I64, 0)]);
            body.form.numbers[DType::I64 as usize] = 1;
            body.numbers[DType::I64 as usize].extend_from_slice(&7i64.to_ne_bytes());
        }
        body.form.outputs.push(body.form.values.len() as u32 - 1);
        let outputs = Outputs(vec![Arc::new(Slot::empty(meta))]);
        let debug = reason == CutReason::Debug;
        Segment::new(body, outputs, reason, debug, 0)
    }

    fn name(launch: &Launch) -> &'static str {
        match launch {
            Launch::Agreed(_) => "agreed",
            Launch::Interpreted(Interpreted { first_run: None, .. }) => "always interpreted",
            Launch::Interpreted(_) => "interpreted once",
            Launch::Pieces(_) => "pieces",
            Launch::Known(_) => "known",
            Launch::Awaited(..) => "awaited",
            Launch::New(_) => "new",
        }
    }

    #[test]
    fn each_segment_is_launched_in_the_way_of_its_row() {
        use CutReason::{Debug, Read, Size, Strict};
        use Interpret::{Always, Never, New};
        const MANY: usize = 100;
        // Settings, number of ops, whether there is a collective, the cut, and the choice at each coming.
        type Row = (Interpret, Divide, bool, usize, bool, CutReason, &'static [&'static str]);
        let rows: &[Row] = &[
            (New, Divide::Changing, false, 3, false, Read, &["always interpreted", "always interpreted"]),
            (New, Divide::Changing, false, MANY, false, Read, &["interpreted once", "new", "new"]),
            (New, Divide::Changing, false, MANY, false, Strict, &["always interpreted", "always interpreted"]),
            (New, Divide::Changing, false, MANY, false, Size, &["interpreted once", "new"]),
            (Always, Divide::Changing, false, MANY, false, Read, &["always interpreted", "always interpreted"]),
            (Never, Divide::Changing, false, 3, false, Read, &["new", "new"]),
            (Never, Divide::Always, false, 9, false, Read, &["pieces", "pieces"]),
            (Never, Divide::Always, false, 1, false, Read, &["new"]),
            (Never, Divide::Always, false, MANY, false, Debug, &["new"]),
            (New, Divide::Always, false, MANY, false, Read, &["interpreted once", "pieces"]),
            // Effects would come twice if a kernel refused after them.
            (Always, Divide::Changing, false, 3, true, Read, &["new", "new"]),
            (Always, Divide::Always, true, 3, true, Read, &["agreed", "agreed"]),
            (Never, Divide::Never, true, 3, false, Read, &["new"]),
        ];
        for (i, (interpret, divide, agrees, ops, has_effects, reason, wanted)) in rows.iter().enumerate() {
            let engine = Engine::default();
            engine.set_interpret(*interpret);
            engine.set_divide(*divide);
            engine.set_agreement(*agrees);
            let found: Vec<&str> =
                wanted.iter().map(|_| name(&engine.choose(&mut segment(*ops, *has_effects, *reason)))).collect();
            assert_eq!(found, *wanted, "row {i}");
        }
    }

    #[test]
    fn a_program_that_kernels_refuse_is_compiled() {
        for ops in [3, 100] {
            let engine = Engine::default();
            engine.set_interpret(Interpret::New);
            let mut segment = segment(ops, false, CutReason::Read);
            let mut choices = Vec::new();
            let mut launch = engine.choose(&mut segment);
            while let Launch::Interpreted(refused) = &launch {
                choices.push(name(&launch));
                launch = engine.choose_refused(&mut segment, refused);
            }
            let first = if ops == 3 { "always interpreted" } else { "interpreted once" };
            assert_eq!((choices, name(&launch)), (vec![first], "new"));
            assert_eq!(name(&engine.choose(&mut segment)), "new");
        }
    }

    #[test]
    fn a_program_that_comes_often_in_pieces_is_compiled_meanwhile() {
        let engine = Engine::default();
        engine.set_interpret(Interpret::Never);
        engine.set_divide(Divide::Always);
        let mut choices: Vec<(&str, bool)> = Vec::new();
        for _ in 0..64 {
            let launch = engine.choose(&mut segment(9, false, CutReason::Read));
            let compiles = matches!(&launch, Launch::Pieces(Pieces { compile: Some(_), .. }));
            choices.push((name(&launch), compiles));
        }
        let compiling = choices.iter().filter(|c| c.1).count();
        assert_eq!((choices[0].0, choices[62].0, choices[63].0, compiling), ("pieces", "pieces", "awaited", 1));
    }
}
