//! Collectives of an optimised program: their numbers, bytes, and the work beside which they run.
//!
//! libtpu writes a collective in one of four forms: an instruction such as `all-gather`, a pair such as
//! `all-gather-start` and `all-gather-done`, a fusion whose computation has one, or a chain of fusions that begins with
//! a call of `AsyncCollectiveStart` and ends with one of `AsyncCollectiveDone`. The fusions in the middle of a chain
//! compute while the collective runs.

use super::{MAX_DEPTH, loops, proto};
use std::collections::{BTreeMap, HashMap};

/// Collectives of one kind among equally many devices, in one execution of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Collectives {
    /// Opcode, such as `all-gather`.
    pub kind: String,
    /// Whether the program does other work until they are done.
    pub is_async: bool,
    /// Devices of each group, or 0 if the program does not say it.
    pub devices: usize,
    /// Directions of links between devices that the compiler's algorithm uses at once, or 0 if it does not say it.
    pub links: usize,
    /// Number of collectives. Those in the body of a loop count once per iteration.
    pub count: f64,
    /// Bytes of the whole arrays: of the results of `all-gather` and `all-reduce`, and of the operands of
    /// `reduce-scatter`.
    pub bytes: f64,
    /// Estimated cycles of the instructions that are scheduled between start and end. Instructions beside two
    /// collectives count for the one that ends first.
    pub overlapped_cycles: f64,
}

const KINDS: [&str; 5] = ["all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute"];

/// Kind, whether it is asynchronous, devices, links.
type Key = (&'static str, bool, usize, usize);

/// The part of an instruction in a collective.
enum Part<'a> {
    /// The whole collective.
    Whole(&'static str, &'a proto::Instruction),
    Start(&'static str, &'a proto::Instruction),
    Done,
}

/// Return the collectives of a module, by kind.
pub(super) fn of_module(module: &proto::Module) -> Vec<Collectives> {
    let computations = module.computations.iter().map(|c| (c.id, c)).collect();
    let mut walk = Walk { module, computations, found: BTreeMap::new() };
    walk.computation(module.entry, 1.0, 0);
    let collectives = |((kind, is_async, devices, links), sum): (Key, Sum)| Collectives {
        kind: kind.to_string(),
        is_async,
        devices,
        links,
        count: sum.count,
        bytes: sum.bytes,
        overlapped_cycles: sum.overlapped_cycles,
    };
    walk.found.into_iter().map(collectives).collect()
}

#[derive(Default)]
struct Sum {
    count: f64,
    bytes: f64,
    overlapped_cycles: f64,
}

struct Walk<'a> {
    module: &'a proto::Module,
    computations: HashMap<i64, &'a proto::Computation>,
    found: BTreeMap<Key, Sum>,
}

impl<'a> Walk<'a> {
    /// Return the instructions of a computation in the order of the schedule.
    fn scheduled(&self, of: i64) -> Vec<&'a proto::Instruction> {
        let Some(&computation) = self.computations.get(&of) else { return Vec::new() };
        let sequence = self.module.schedule.as_ref().and_then(|s| s.sequences.get(&of));
        let Some(sequence) = sequence else { return computation.instructions.iter().collect() };
        let by_id: HashMap<i64, &proto::Instruction> = computation.instructions.iter().map(|i| (i.id, i)).collect();
        sequence.instructions.iter().filter_map(|id| by_id.get(id).copied()).collect()
    }

    fn computation(&mut self, id: i64, times: f64, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        // Collectives that have started, and the cycles since the last start or end.
        let mut open: Vec<Key> = Vec::new();
        for i in self.scheduled(id) {
            match &*i.opcode {
                "while" => {
                    let trips = self
                        .computations
                        .get(&id)
                        .and_then(|of| loops::iterations(&self.computations, of, i))
                        .unwrap_or(1.0);
                    i.called.first().into_iter().for_each(|&body| self.computation(body, times * trips, depth + 1));
                    continue;
                }
                "call" | "conditional" => {
                    i.called.iter().for_each(|&c| self.computation(c, times, depth + 1));
                    continue;
                }
                _ => {}
            }
            if let (Some(cycles), Some(first)) = (i.cycles(), open.first()) {
                self.found.entry(*first).or_default().overlapped_cycles += cycles * times;
            }
            match self.part(i) {
                Some(Part::Whole(kind, of)) => {
                    self.add(kind, false, of, i, times);
                }
                Some(Part::Start(kind, of)) => {
                    let key = self.add(kind, true, of, i, times);
                    open.push(key);
                }
                Some(Part::Done) if !open.is_empty() => {
                    open.remove(0);
                }
                Some(Part::Done) | None => {}
            }
        }
    }

    fn add(
        &mut self,
        kind: &'static str,
        is_async: bool,
        of: &proto::Instruction,
        outer: &proto::Instruction,
        times: f64,
    ) -> Key {
        let devices = of.group_size();
        // The instruction that runs has the algorithm, also if it is a fusion.
        let links = if of.links() > 0 { of.links() } else { outer.links() };
        let key = (kind, is_async, devices, links);
        let result = match (&*of.opcode, &of.shape) {
            // The start of a pair has the operand beside the result.
            ("all-gather-start" | "collective-permute-start", Some(shape)) => {
                shape.parts.get(1).unwrap_or(shape).size()
            }
            (_, shape) => shape.as_ref().map_or(0, proto::Shape::size),
        };
        let bytes =
            if kind == "reduce-scatter" && of.opcode != "all-reduce" { result * devices as u64 } else { result };
        let sum = self.found.entry(key).or_default();
        sum.count += times;
        sum.bytes += bytes as f64 * times;
        key
    }

    /// Return the part that an instruction has in a collective.
    fn part(&self, i: &'a proto::Instruction) -> Option<Part<'a>> {
        let opcode = &*i.opcode;
        let called = i.called.iter().filter_map(|c| self.computations.get(c)).flat_map(|c| &c.instructions);
        match opcode {
            "fusion" => {
                let inner: Vec<&proto::Instruction> = called.collect();
                let (of, kind) = inner.iter().find_map(|i| Some((*i, kind_of(&i.opcode)?)))?;
                let calls = |target: &str| inner.iter().any(|i| i.target == target);
                if calls("AsyncCollectiveStart") {
                    return Some(Part::Start(kind, of));
                }
                if calls("AsyncCollectiveDone") {
                    return Some(Part::Done);
                }
                // A fusion in the middle of a chain.
                if of.is_chained() {
                    return None;
                }
                // The compiler sums and takes a part in one fusion.
                let scatters = kind == "all-reduce" && i.name.contains("scatter");
                Some(Part::Whole(if scatters { "reduce-scatter" } else { kind }, of))
            }
            "async-start" => {
                let (of, kind) = called.into_iter().find_map(|i| Some((i, kind_of(&i.opcode)?)))?;
                Some(Part::Start(kind, of))
            }
            // The end of another operation, such as a copy, is none.
            "async-done" => {
                let start = i.operands.first().and_then(|&id| self.instruction(id))?;
                matches!(self.part(start), Some(Part::Start(..))).then_some(Part::Done)
            }
            _ => {
                if let Some(kind) = kind_of(opcode) {
                    return Some(Part::Whole(kind, i));
                }
                if let Some(kind) = opcode.strip_suffix("-start").and_then(kind_of) {
                    return Some(Part::Start(kind, i));
                }
                opcode.strip_suffix("-done").and_then(kind_of).map(|_| Part::Done)
            }
        }
    }

    fn instruction(&self, id: i64) -> Option<&'a proto::Instruction> {
        self.module.computations.iter().flat_map(|c| &c.instructions).find(|i| i.id == id)
    }
}

fn kind_of(opcode: &str) -> Option<&'static str> {
    KINDS.into_iter().find(|kind| *kind == opcode)
}

#[cfg(test)]
mod tests {
    use super::super::proto::{Computation, DeviceGroup, DeviceGroups, Instruction, Module, Schedule, Sequence, Shape};
    use super::*;

    /// An instruction with a result of 1 KiB, on 4 devices.
    fn instruction(id: i64, opcode: &str, operands: &[i64]) -> Instruction {
        let groups = DeviceGroups { groups: vec![DeviceGroup { ids: vec![0, 1, 2, 3] }], iota: None };
        Instruction {
            id,
            name: format!("{opcode}.{id}"),
            opcode: opcode.into(),
            operands: operands.to_vec(),
            shape: Some(Shape { element_type: 11, dimensions: vec![256], ..Shape::default() }),
            device_groups: Some(groups),
            ..Instruction::default()
        }
    }

    fn computation(id: i64, instructions: Vec<Instruction>) -> Computation {
        Computation { id, instructions, ..Computation::default() }
    }

    fn with_cycles(i: Instruction) -> Instruction {
        Instruction { backend_config: br#"{"estimated_cycles":"10"}"#.to_vec(), ..i }
    }

    fn calling(target: &str, id: i64) -> Instruction {
        Instruction { target: target.into(), ..instruction(id, "custom-call", &[]) }
    }

    fn chained(id: i64) -> Instruction {
        let config = br#"{"async_collective_fusion_config":{"flag_start":"2"}}"#.to_vec();
        Instruction { backend_config: config, ..instruction(id, "all-gather", &[]) }
    }

    fn fusion(id: i64, calls: i64) -> Instruction {
        Instruction { called: vec![calls], ..instruction(id, "fusion", &[]) }
    }

    #[test]
    fn each_form_of_a_collective_is_counted_once() {
        let mut pair = instruction(3, "all-gather-start", &[1]);
        let whole = Shape { element_type: 11, dimensions: vec![1024], ..Shape::default() };
        pair.shape = Some(Shape { parts: vec![Shape::default(), whole], ..Shape::default() });
        let mut algorithm = instruction(7, "all-reduce", &[1]);
        algorithm.backend_config = br#"{"debug":"\nUniDirectionNDRingStrategy{colors:4 phases:2}"}"#.to_vec();
        let mut reduced = fusion(8, 5);
        reduced.name = "all-reduce-scatter.1".into();
        let main = vec![
            instruction(1, "parameter", &[]),
            fusion(2, 2),
            with_cycles(fusion(9, 3)),
            fusion(10, 4),
            pair,
            with_cycles(instruction(4, "fusion", &[])),
            instruction(5, "all-gather-done", &[3]),
            instruction(6, "reduce-scatter", &[1]),
            algorithm,
            reduced,
            instruction(11, "collective-permute", &[1]),
        ];
        let module = Module {
            computations: vec![
                computation(1, main),
                computation(2, vec![chained(20), calling("AsyncCollectiveStart", 21)]),
                computation(3, vec![chained(22)]),
                computation(4, vec![chained(23), calling("AsyncCollectiveDone", 24)]),
                computation(5, vec![instruction(25, "all-reduce", &[])]),
            ],
            entry: 1,
            schedule: None,
        };
        let found: Vec<_> = of_module(&module)
            .into_iter()
            .map(|c| (c.kind, c.is_async, c.devices, c.links, c.count, c.bytes, c.overlapped_cycles))
            .collect();
        let expected = [
            ("all-gather", true, 4, 0, 2.0, 1024.0 + 4096.0, 20.0),
            ("all-reduce", false, 4, 4, 1.0, 1024.0, 0.0),
            ("collective-permute", false, 4, 0, 1.0, 1024.0, 0.0),
            ("reduce-scatter", false, 4, 0, 2.0, 4096.0 + 1024.0, 0.0),
        ];
        assert_eq!(found, expected.map(|(kind, a, d, l, n, b, o)| (kind.to_string(), a, d, l, n, b, o)));
    }

    #[test]
    fn rings_use_both_directions_unless_they_say_one() {
        let links = |text: &str| Instruction { backend_config: text.into(), ..Instruction::default() }.links();
        assert_eq!(links(r#""debug":"\nUniDirection1DRingStrategy{colors:2 phases:1"#), 2);
        assert_eq!(links(r#""debug":"\nStrategyND{colors:2 phases:2 cores:{16 16}"#), 4);
        assert_eq!(links(r#""debug":"\ngroup_size = 8 "#), 0);
    }

    #[test]
    fn loops_and_copies_are_told_apart() {
        let mut repeat = instruction(2, "while", &[]);
        repeat.called = vec![2, 3];
        repeat.backend_config = br#"{"known_trip_count":{"n":"7"}}"#.to_vec();
        let mut copy = instruction(3, "async-start", &[]);
        copy.called = vec![3];
        let mut gather = instruction(4, "async-start", &[]);
        gather.called = vec![4];
        // The copy ends while the collective runs. The schedule has another order than the list.
        let main = vec![
            instruction(6, "async-done", &[4]),
            repeat,
            copy,
            gather,
            instruction(5, "async-done", &[3]),
            with_cycles(instruction(7, "fusion", &[])),
        ];
        let sequence = Sequence { instructions: vec![2, 3, 4, 5, 7, 6] };
        let module = Module {
            computations: vec![
                computation(1, main),
                computation(2, vec![instruction(20, "all-to-all", &[])]),
                computation(3, vec![instruction(21, "slice", &[])]),
                computation(4, vec![instruction(22, "all-gather", &[])]),
            ],
            entry: 1,
            schedule: Some(Schedule { sequences: HashMap::from([(1, sequence)]) }),
        };
        let found: Vec<_> =
            of_module(&module).into_iter().map(|c| (c.kind, c.is_async, c.count, c.overlapped_cycles)).collect();
        assert_eq!(found, [("all-gather".into(), true, 1.0, 10.0), ("all-to-all".to_string(), false, 7.0, 0.0)]);
    }
}
