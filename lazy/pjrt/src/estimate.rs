//! The compiler's estimate of the cost of an optimised program, read from the program itself.
//!
//! libtpu writes an estimate of the cycles of almost every instruction to its `backend_config`. The sum is the
//! compiler's own estimate of the program. It is more precise than the roofline of `optimal_seconds`, which knows
//! neither the passes of a product nor the tiles of an array. It excludes the waits for asynchronous copies.

mod collectives;
mod loops;

use std::collections::{BTreeMap, HashMap};

pub use collectives::Collectives;

use prost::Message;

use crate::error::{Code, Error, Result};

/// The estimate that the compiler wrote to an optimised program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Cycles of one execution. The body of a loop counts once per iteration, or once if the number of iterations is
    /// unknown.
    pub cycles: f64,
    /// Number of loops whose number of iterations is unknown.
    pub unknown_loops: usize,
    /// Floating-point operations of the iterations of loops after the first. The compiler's own analysis has the first.
    pub repeated_flops: f64,
    /// Bytes of device memory that these iterations access.
    pub repeated_bytes: f64,
    /// The kernels that the compiler knows only from outside, such as those of Pallas.
    pub kernels: Vec<Kernel>,
    /// Number of instructions outside of fusions.
    pub instructions: usize,
    /// Cycles per instruction name without its number, most cycles first.
    pub groups: Vec<Group>,
    /// Instructions without an estimate: opcode (or target of a custom call) and their number, largest number first.
    pub uncosted: Vec<(String, usize)>,
    /// Up to twenty instructions with the most cycles.
    pub largest: Vec<Instruction>,
    /// Bytes of arrays in device memory along the schedule of the entry computation, in up to 256 steps. Sizes are
    /// those of the elements, without the padding of tiles. Arguments count until the end, because the caller keeps
    /// them.
    pub live_bytes: Vec<u64>,
    /// Up to twenty of the largest arrays at the maximum of `live_bytes`: name, type and bytes.
    pub largest_at_peak: Vec<(String, String, u64)>,
    /// The collectives, by kind.
    pub collectives: Vec<Collectives>,
}

/// All calls of one kernel, in one execution of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Name of the instruction without its number. JAX names it after the function.
    pub name: String,
    /// Number of calls.
    pub count: f64,
    /// Floating-point operations, from the estimate that the kernel's author gave.
    pub flops: f64,
    /// Bytes of operands and results, or of the author's estimate if it is larger.
    pub bytes: f64,
    /// The part of `bytes` that the compiler's own analysis leaves out.
    pub missing_bytes: f64,
    /// Whether the author gave an estimate.
    pub is_estimated: bool,
}

/// The target of calls of kernels in the compiler's kernel language.
const KERNEL_CALL: &str = "tpu_custom_call";

/// All instructions of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Name without its number, such as `convolution_add_fusion`.
    pub name: String,
    /// Number of instructions.
    pub count: usize,
    /// Cycles of all of them in one execution.
    pub cycles: f64,
}

/// One instruction of the optimised program.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Name of the instruction in the optimised program.
    pub name: String,
    /// Type of the result, such as `bf16[8,1024]`.
    pub shape: String,
    /// Cycles in one execution.
    pub cycles: f64,
}

const LARGEST: usize = 20;
const TIMELINE: usize = 256;

/// Opcodes that take no time of their own, or whose time counts for another instruction.
const FREE: &[&str] = &[
    "parameter",
    "get-tuple-element",
    "tuple",
    "bitcast",
    "constant",
    "copy-start",
    "copy-done",
    "slice-start",
    "slice-done",
    "async-start",
    "async-update",
    "async-done",
    "after-all",
    "partition-id",
    "replica-id",
    "opt-barrier",
];

impl Estimate {
    /// Read an optimised program in the format `hlo_with_config`.
    ///
    /// # Errors
    ///
    /// Fails with `DataLoss` if the bytes are not such a program.
    pub fn of_hlo(bytes: &[u8]) -> Result<Estimate> {
        let module = module_of(bytes)?;
        let computations: HashMap<i64, &proto::Computation> = module.computations.iter().map(|c| (c.id, c)).collect();
        let entry = *computations.get(&module.entry).ok_or_else(|| damaged("has no entry"))?;
        let mut walk = Walk {
            computations: &computations,
            cycles: 0.0,
            counted: Vec::new(),
            uncosted: BTreeMap::new(),
            kernels: BTreeMap::new(),
            unknown_loops: 0,
            repeated: (0.0, 0.0),
        };
        walk.computation(entry, 1.0, 0);
        let Walk { cycles, mut counted, uncosted, kernels, unknown_loops, repeated, .. } = walk;
        let (repeated_flops, repeated_bytes) = repeated;
        let kernels = kernels.into_values().collect();
        let mut by_name: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
        for (i, cycles) in &counted {
            let group = by_name.entry(without_number(&i.name)).or_default();
            *group = (group.0 + 1, group.1 + cycles);
        }
        let mut groups: Vec<Group> =
            by_name.into_iter().map(|(name, (count, cycles))| Group { name: name.into(), count, cycles }).collect();
        groups.sort_by(|a, b| b.cycles.total_cmp(&a.cycles));
        let mut uncosted: Vec<(String, usize)> = uncosted.into_iter().collect();
        uncosted.sort_by_key(|u| std::cmp::Reverse(u.1));
        let instructions = counted.len() + uncosted.iter().map(|u| u.1).sum::<usize>();
        counted.sort_by(|a, b| b.1.total_cmp(&a.1));
        let largest = counted
            .iter()
            .take(LARGEST)
            .map(|(i, cycles)| Instruction { name: i.name.clone(), shape: i.type_text(), cycles: *cycles })
            .collect();
        let sequence = module.schedule.as_ref().and_then(|s| s.sequences.get(&entry.id)).map(|s| &s.instructions[..]);
        let (live_bytes, largest_at_peak) = timeline(entry, sequence);
        let collectives = collectives::of_module(&module);
        Ok(Estimate {
            cycles,
            unknown_loops,
            repeated_flops,
            repeated_bytes,
            kernels,
            instructions,
            groups,
            uncosted,
            largest,
            live_bytes,
            largest_at_peak,
            collectives,
        })
    }
}

/// Return the text of the computations of an optimised program in the format `hlo_with_config`, one line per
/// instruction.
pub(crate) fn text_of_hlo(bytes: &[u8]) -> Result<String> {
    let module = module_of(bytes)?;
    let names: HashMap<i64, &str> =
        module.computations.iter().flat_map(|c| &c.instructions).map(|i| (i.id, &*i.name)).collect();
    let called: HashMap<i64, &str> = module.computations.iter().map(|c| (c.id, &*c.name)).collect();
    let mut text = String::new();
    for c in &module.computations {
        text.push_str(&format!("{}{} {{\n", if c.id == module.entry { "ENTRY " } else { "" }, c.name));
        for i in &c.instructions {
            let list = |of: &[i64], names: &HashMap<i64, &str>| {
                of.iter().map(|id| names.get(id).copied().unwrap_or("?")).collect::<Vec<_>>().join(", ")
            };
            text.push_str(&format!("  {} = {} {}({})", i.name, i.type_text(), i.opcode, list(&i.operands, &names)));
            if !i.target.is_empty() {
                text.push_str(&format!(", target={}", i.target));
            }
            if !i.called.is_empty() {
                text.push_str(&format!(", calls={}", list(&i.called, &called)));
            }
            if let Some(cycles) = i.cycles() {
                text.push_str(&format!("  // {cycles} cycles"));
            }
            text.push('\n');
        }
        text.push_str("}\n");
    }
    Ok(text)
}

fn damaged(what: &str) -> Error {
    Error::new(Code::DataLoss, "estimate", format!("the optimised program {what}"))
}

fn module_of(bytes: &[u8]) -> Result<proto::Module> {
    let read = proto::ModuleWithConfig::decode(bytes).map_err(|e| damaged(&format!("cannot be read: {e}")))?;
    read.module.ok_or_else(|| damaged("has no module"))
}

/// A walk that sums over a program. Loop bodies are multiplied by their number of iterations.
struct Walk<'a> {
    computations: &'a HashMap<i64, &'a proto::Computation>,
    cycles: f64,
    counted: Vec<(&'a proto::Instruction, f64)>,
    uncosted: BTreeMap<String, usize>,
    kernels: BTreeMap<&'a str, Kernel>,
    unknown_loops: usize,
    /// Operations and bytes of the iterations after the first.
    repeated: (f64, f64),
}

/// Largest depth of nested calls. Programs from a compiler do not exceed it.
const MAX_DEPTH: usize = 100;

impl<'a> Walk<'a> {
    fn computation(&mut self, computation: &'a proto::Computation, times: f64, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for i in &computation.instructions {
            let called = |walk: &mut Walk<'a>, of: &[i64], times: f64| {
                for id in of {
                    if let Some(&c) = walk.computations.get(id) {
                        walk.computation(c, times, depth + 1);
                    }
                }
            };
            match &*i.opcode {
                // The body is first, and the condition second.
                "while" => {
                    let iterations = loops::iterations(self.computations, computation, i);
                    self.unknown_loops += usize::from(iterations.is_none());
                    called(self, &i.called[..i.called.len().min(1)], times * iterations.unwrap_or(1.0));
                }
                "call" | "conditional" => called(self, &i.called, times),
                "custom-call" if i.target == KERNEL_CALL => self.kernel(computation, i, times),
                _ => match i.cycles() {
                    Some(cycles) => {
                        self.cycles += cycles * times;
                        self.counted.push((i, cycles * times));
                    }
                    None if FREE.contains(&&*i.opcode) => {}
                    None => {
                        let name = if i.opcode == "custom-call" { &i.target } else { &i.opcode };
                        *self.uncosted.entry(name.clone()).or_default() += 1;
                    }
                },
            }
            if times > 1.0 && !matches!(&*i.opcode, "while" | "call" | "conditional") && !is_free(i) {
                self.repeated.0 += (times - 1.0) * loops::flops(self.computations, computation, i);
                self.repeated.1 += (times - 1.0) * loops::bytes(self.computations, computation, i);
            }
        }
    }

    /// Count the call of a kernel.
    fn kernel(&mut self, of: &'a proto::Computation, i: &'a proto::Instruction, times: f64) {
        let outside = loops::bytes(self.computations, of, i);
        let (flops, known) = (i.kernel_number("flops"), i.kernel_number("bytes_accessed"));
        let bytes = outside.max(known.unwrap_or(0.0));
        let name = without_number(&i.name);
        let kernel = self.kernels.entry(name).or_insert_with(|| Kernel {
            name: name.to_string(),
            count: 0.0,
            flops: 0.0,
            bytes: 0.0,
            missing_bytes: 0.0,
            is_estimated: true,
        });
        kernel.count += times;
        kernel.flops += flops.unwrap_or(0.0) * times;
        kernel.bytes += bytes * times;
        // The analysis has the author's estimate of one call, also in a loop.
        kernel.missing_bytes += bytes * times - known.unwrap_or(0.0);
        kernel.is_estimated &= flops.is_some() && known.is_some();
        self.repeated.0 += (times - 1.0) * flops.unwrap_or(0.0);
        if flops.is_none() {
            *self.uncosted.entry(format!("kernel {name}")).or_default() += 1;
        }
    }
}

/// Whether an instruction takes no time of its own.
fn is_free(i: &proto::Instruction) -> bool {
    FREE.contains(&&*i.opcode) || i.target == KERNEL_CALL
}

/// Return the name without its number: `fusion` for `fusion.12.3`.
fn without_number(name: &str) -> &str {
    name.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit())
}

/// Return the bytes in use along the schedule, and the largest arrays at the maximum.
fn timeline(entry: &proto::Computation, sequence: Option<&[i64]>) -> (Vec<u64>, Vec<(String, String, u64)>) {
    let by_id: HashMap<i64, &proto::Instruction> = entry.instructions.iter().map(|i| (i.id, i)).collect();
    let order: Vec<&proto::Instruction> = match sequence {
        Some(ids) => ids.iter().filter_map(|id| by_id.get(id).copied()).collect(),
        None => entry.instructions.iter().collect(),
    };
    // Instructions whose result is made of its operands' arrays, not of a new one.
    let is_alias = |i: &proto::Instruction| {
        matches!(
            &*i.opcode,
            "bitcast"
                | "get-tuple-element"
                | "tuple"
                | "copy-done"
                | "slice-done"
                | "async-done"
                | "while"
                | "opt-barrier"
        )
    };
    let mut sources: HashMap<i64, Vec<i64>> = HashMap::new();
    let mut last_use: BTreeMap<i64, usize> = BTreeMap::new();
    for (at, i) in order.iter().enumerate() {
        let mut used = Vec::new();
        for operand in &i.operands {
            match sources.get(operand) {
                Some(of) => used.extend_from_slice(of),
                None => used.push(*operand),
            }
        }
        // A value with very many sources is a tuple of all values. Only its sources matter.
        used.sort_unstable();
        used.dedup();
        for u in &used {
            last_use.insert(*u, at);
        }
        if is_alias(i) {
            sources.insert(i.id, used);
        }
    }
    let mut ends: Vec<Vec<i64>> = vec![Vec::new(); order.len()];
    for (id, at) in &last_use {
        if by_id.get(id).is_some_and(|i| i.opcode != "parameter") {
            ends[*at].push(*id);
        }
    }
    let mut live: HashMap<i64, u64> =
        order.iter().filter(|i| i.opcode == "parameter").map(|i| (i.id, i.bytes())).collect();
    let mut now: u64 = live.values().sum();
    let (mut all, mut peak, mut at_peak) = (Vec::with_capacity(order.len()), 0, Vec::new());
    for (at, i) in order.iter().enumerate() {
        if i.opcode != "parameter" && !is_alias(i) {
            let bytes = i.bytes();
            now += bytes;
            live.insert(i.id, bytes);
        }
        all.push(now);
        if now > peak {
            peak = now;
            at_peak = live.iter().map(|(id, bytes)| (*bytes, *id)).collect();
        }
        for id in &ends[at] {
            if *id != i.id
                && let Some(bytes) = live.remove(id)
            {
                now -= bytes;
            }
        }
    }
    at_peak.sort_unstable_by(|a, b| b.cmp(a));
    let largest = at_peak
        .iter()
        .take(LARGEST)
        .filter_map(|(bytes, id)| by_id.get(id).map(|i| (i.name.clone(), i.type_text(), *bytes)))
        .collect();
    let step = all.len().div_ceil(TIMELINE).max(1);
    (all.chunks(step).map(|c| c.iter().copied().max().unwrap_or(0)).collect(), largest)
}

/// The used fields of XLA's messages. Readers skip unknown fields.
mod proto {
    use std::collections::HashMap;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ModuleWithConfig {
        #[prost(message, optional, tag = "1")]
        pub module: Option<Module>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Module {
        #[prost(message, repeated, tag = "3")]
        pub computations: Vec<Computation>,
        #[prost(int64, tag = "6")]
        pub entry: i64,
        #[prost(message, optional, tag = "7")]
        pub schedule: Option<Schedule>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Schedule {
        #[prost(map = "int64, message", tag = "1")]
        pub sequences: HashMap<i64, Sequence>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Sequence {
        #[prost(int64, repeated, tag = "1")]
        pub instructions: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Computation {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, repeated, tag = "2")]
        pub instructions: Vec<Instruction>,
        #[prost(int64, tag = "5")]
        pub id: i64,
        #[prost(int64, tag = "6")]
        pub root: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Instruction {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub opcode: String,
        #[prost(message, optional, tag = "3")]
        pub shape: Option<Shape>,
        #[prost(message, optional, tag = "8")]
        pub literal: Option<Literal>,
        #[prost(int64, tag = "9")]
        pub parameter: i64,
        #[prost(int64, tag = "13")]
        pub tuple_index: i64,
        #[prost(message, optional, tag = "16")]
        pub convolution: Option<ConvolutionDims>,
        #[prost(string, tag = "28")]
        pub target: String,
        #[prost(int64, tag = "35")]
        pub id: i64,
        #[prost(int64, repeated, tag = "36")]
        pub operands: Vec<i64>,
        #[prost(int64, repeated, tag = "38")]
        pub called: Vec<i64>,
        #[prost(bytes = "vec", tag = "43")]
        pub backend_config: Vec<u8>,
        #[prost(string, tag = "63")]
        pub direction: String,
        #[prost(message, optional, tag = "87")]
        pub device_groups: Option<DeviceGroups>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ConvolutionDims {
        #[prost(int64, tag = "4")]
        pub kernel_output_feature: i64,
    }

    /// A constant of whole numbers.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Literal {
        #[prost(int32, repeated, tag = "4")]
        pub s32: Vec<i32>,
        #[prost(int64, repeated, tag = "5")]
        pub s64: Vec<i64>,
        #[prost(uint32, repeated, tag = "6")]
        pub u32: Vec<u32>,
        #[prost(uint64, repeated, tag = "7")]
        pub u64: Vec<u64>,
    }

    impl Literal {
        /// Return the number of a constant that has one element.
        pub(super) fn number(&self) -> Option<i64> {
            match (&self.s32[..], &self.s64[..], &self.u32[..], &self.u64[..]) {
                (&[v], [], [], []) => Some(v.into()),
                ([], &[v], [], []) => Some(v),
                ([], [], &[v], []) => Some(v.into()),
                ([], [], [], &[v]) => v.try_into().ok(),
                _ => None,
            }
        }
    }

    /// The groups of a collective, as lists or as a reshaped range.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct DeviceGroups {
        #[prost(message, repeated, tag = "1")]
        pub groups: Vec<DeviceGroup>,
        #[prost(message, optional, tag = "2")]
        pub iota: Option<IotaGroups>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct DeviceGroup {
        #[prost(int64, repeated, tag = "1")]
        pub ids: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct IotaGroups {
        #[prost(int64, tag = "2")]
        pub group_size: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Shape {
        #[prost(int32, tag = "2")]
        pub element_type: i32,
        #[prost(int64, repeated, tag = "3")]
        pub dimensions: Vec<i64>,
        #[prost(message, repeated, tag = "4")]
        pub parts: Vec<Shape>,
        #[prost(message, optional, tag = "5")]
        pub layout: Option<Layout>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Layout {
        #[prost(int64, tag = "8")]
        pub memory_space: i64,
    }

    const NAMES: [(i32, &str, u64); 17] = [
        (1, "pred", 1),
        (2, "s8", 1),
        (3, "s16", 2),
        (4, "s32", 4),
        (5, "s64", 8),
        (6, "u8", 1),
        (7, "u16", 2),
        (8, "u32", 4),
        (9, "u64", 8),
        (10, "f16", 2),
        (11, "f32", 4),
        (12, "f64", 8),
        (15, "c64", 8),
        (16, "bf16", 2),
        (18, "c128", 16),
        (19, "f8e5m2", 1),
        (20, "f8e4m3fn", 1),
    ];

    impl Shape {
        /// Return the bytes in device memory. On-chip memory does not count.
        pub(super) fn bytes(&self) -> u64 {
            if !self.parts.is_empty() {
                return self.parts.iter().map(Shape::bytes).sum();
            }
            if self.layout.as_ref().is_some_and(|l| l.memory_space != 0) { 0 } else { self.size() }
        }
        /// Return the bytes of all elements.
        pub(super) fn size(&self) -> u64 {
            if !self.parts.is_empty() {
                return self.parts.iter().map(Shape::size).sum();
            }
            let size = NAMES.iter().find(|n| n.0 == self.element_type).map_or(0, |n| n.2);
            self.dimensions.iter().fold(size, |bytes, &d| bytes.saturating_mul(d.max(0) as u64))
        }
        fn text(&self) -> String {
            if !self.parts.is_empty() {
                return format!("({})", self.parts.iter().map(Shape::text).collect::<Vec<_>>().join(", "));
            }
            let name = NAMES.iter().find(|n| n.0 == self.element_type).map_or("?", |n| n.1);
            let dims: Vec<String> = self.dimensions.iter().map(ToString::to_string).collect();
            format!("{name}[{}]", dims.join(","))
        }
    }

    impl Instruction {
        pub(super) fn type_text(&self) -> String {
            self.shape.as_ref().map_or_else(String::new, Shape::text)
        }
        pub(super) fn bytes(&self) -> u64 {
            self.shape.as_ref().map_or(0, Shape::bytes)
        }
        /// Return the compiler's estimate of the cycles.
        pub(super) fn cycles(&self) -> Option<f64> {
            self.config_number("\"estimated_cycles\":\"")
        }
        /// Return a number of the estimate that the author of a kernel gave.
        pub(super) fn kernel_number(&self, key: &str) -> Option<f64> {
            let text = std::str::from_utf8(&self.backend_config).ok()?;
            let at = text.find("\"cost_estimate\":{")?;
            let end = at + text[at..].find('}')?;
            number_after(&text[at..end], &format!("\"{key}\":\""))
        }
        /// Return the number of iterations of a loop, if the compiler wrote it down.
        pub(super) fn trips(&self) -> Option<f64> {
            let text = std::str::from_utf8(&self.backend_config).ok()?;
            let at = text.find("known_trip_count")?;
            number_after(&text[at..], "\"n\":\"")
        }
        /// Return the devices of each group of a collective, or 0.
        pub(super) fn group_size(&self) -> usize {
            let Some(groups) = &self.device_groups else { return 0 };
            let size = groups.iota.as_ref().map(|iota| iota.group_size as usize);
            size.or_else(|| groups.groups.first().map(|g| g.ids.len())).unwrap_or(0)
        }
        /// Return the number of directions of links that the algorithm of a collective uses at once, or 0. A color is a
        /// ring. Its data go around it in both directions, unless the name of the algorithm says one.
        pub(super) fn links(&self) -> usize {
            let Ok(text) = std::str::from_utf8(&self.backend_config) else { return 0 };
            let Some(at) = text.find("{colors:") else { return 0 };
            let digits = &text[at + "{colors:".len()..];
            let colors: usize = digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(0)].parse().unwrap_or(0);
            let name = text[..at].rsplit('"').next().unwrap_or_default();
            if name.contains("UniDirection") { colors } else { 2 * colors }
        }
        /// Return whether a collective is a piece of a chain of fusions.
        pub(super) fn is_chained(&self) -> bool {
            std::str::from_utf8(&self.backend_config).is_ok_and(|text| text.contains("async_collective_fusion_config"))
        }
        fn config_number(&self, key: &str) -> Option<f64> {
            number_after(std::str::from_utf8(&self.backend_config).ok()?, key)
        }
    }

    fn number_after(text: &str, key: &str) -> Option<f64> {
        let rest = &text[text.find(key)? + key.len()..];
        rest[..rest.find('"')?].parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::proto::{Computation, Instruction, Module, ModuleWithConfig, Schedule, Sequence, Shape};
    use super::*;

    fn instruction(id: i64, name: &str, opcode: &str, operands: &[i64], config: &str) -> Instruction {
        Instruction {
            id,
            name: name.into(),
            opcode: opcode.into(),
            operands: operands.to_vec(),
            shape: Some(Shape { element_type: 11, dimensions: vec![256], ..Shape::default() }),
            backend_config: config.into(),
            ..Instruction::default()
        }
    }

    fn estimate(computations: Vec<Computation>, schedule: Option<Schedule>) -> Estimate {
        let module = Module { computations, entry: 1, schedule };
        Estimate::of_hlo(&ModuleWithConfig { module: Some(module) }.encode_to_vec()).unwrap()
    }

    const TEN: &str = r#"{"window_config":{"estimated_cycles":"10"}}"#;

    #[test]
    fn loop_bodies_count_once_per_iteration() {
        let mut repeat = instruction(4, "while.1", "while", &[2], r#"{"known_trip_count":{"n":"7"}}"#);
        repeat.called = vec![2, 3];
        let mut call = instruction(5, "c", "custom-call", &[4], "");
        call.target = "Mystery".into();
        let main = vec![
            instruction(1, "p", "parameter", &[], ""),
            instruction(2, "add_fusion.1", "fusion", &[1], TEN),
            instruction(3, "add_fusion.22", "fusion", &[2], TEN),
            repeat,
            call,
        ];
        let body = vec![instruction(10, "mul_fusion", "fusion", &[], TEN)];
        let condition = vec![instruction(11, "less", "fusion", &[], TEN)];
        let e = estimate(
            vec![
                Computation { id: 1, instructions: main, ..Computation::default() },
                Computation { id: 2, instructions: body, ..Computation::default() },
                Computation { id: 3, instructions: condition, ..Computation::default() },
            ],
            None,
        );
        assert_eq!(e.cycles, 90.0);
        let groups: Vec<_> = e.groups.iter().map(|g| (&*g.name, g.count, g.cycles)).collect();
        assert_eq!(groups, [("mul_fusion", 1, 70.0), ("add_fusion", 2, 20.0)]);
        assert_eq!(e.uncosted, [("Mystery".to_string(), 1)]);
        assert_eq!(e.largest[0].name, "mul_fusion");
    }

    fn number(id: i64, value: i32) -> Instruction {
        let literal = proto::Literal { s32: vec![value], ..proto::Literal::default() };
        Instruction { literal: Some(literal), ..instruction(id, "number", "constant", &[], "") }
    }

    fn element(id: i64, of: i64, tuple_index: i64) -> Instruction {
        Instruction { tuple_index, ..instruction(id, "element", "get-tuple-element", &[of], "") }
    }

    /// A loop whose state is a counter and a bound: `while (counter < bound) counter += step`, from 0 to 48.
    fn counting_loop(bound_is_kept: bool, step: i32) -> Estimate {
        let mut repeat = instruction(4, "while.1", "while", &[3], "");
        repeat.called = vec![2, 3];
        let main = vec![number(1, 0), number(2, 48), instruction(3, "tuple", "tuple", &[1, 2], ""), repeat];
        let kept = if bound_is_kept { 23 } else { 22 };
        let body = vec![
            instruction(20, "state", "parameter", &[], ""),
            element(21, 20, 0),
            number(22, step),
            element(23, 20, 1),
            instruction(24, "add", "add", &[21, 22], ""),
            instruction(25, "work", "fusion", &[], TEN),
            instruction(26, "result", "tuple", &[24, kept], ""),
        ];
        let compare = Instruction { direction: "LT".into(), ..instruction(33, "compare", "compare", &[31, 32], "") };
        let condition =
            vec![instruction(30, "state", "parameter", &[], ""), element(31, 30, 0), element(32, 30, 1), compare];
        let computation = |id, instructions, root| Computation { id, instructions, root, ..Computation::default() };
        estimate(vec![computation(1, main, 4), computation(2, body, 26), computation(3, condition, 33)], None)
    }

    #[test]
    fn loops_that_count_are_counted_without_help() {
        let e = counting_loop(true, 3);
        assert_eq!((e.cycles, e.unknown_loops), (160.0, 0));
        // The addition has three arrays of 1 KiB and the work one. The compiler counts one of 16 iterations.
        assert_eq!(e.repeated_bytes, 15.0 * 4.0 * 1024.0);
        // A bound that the body changes is unknown.
        let e = counting_loop(false, 3);
        assert_eq!((e.cycles, e.unknown_loops), (10.0, 1));
    }

    #[test]
    fn kernels_cost_their_operands_and_results() {
        let call = |id, name, config| {
            let i = instruction(id, name, "custom-call", &[1], config);
            Instruction { target: KERNEL_CALL.into(), ..i }
        };
        let known = r#"{"cost_estimate":{"flops":"5000","transcendentals":"7","bytes_accessed":"4096"}}"#;
        let main = vec![
            instruction(1, "p", "parameter", &[], ""),
            call(2, "flash.1", known),
            call(3, "paged.4", "{}"),
            call(4, "paged.5", "{}"),
        ];
        let e = estimate(vec![Computation { id: 1, instructions: main, ..Computation::default() }], None);
        let found: Vec<_> =
            e.kernels.iter().map(|k| (&*k.name, k.count, k.flops, k.bytes, k.missing_bytes, k.is_estimated)).collect();
        assert_eq!(found, [("flash", 1.0, 5000.0, 4096.0, 0.0, true), ("paged", 2.0, 0.0, 4096.0, 4096.0, false)]);
        assert_eq!(e.uncosted, [("kernel paged".to_string(), 2)]);
    }

    #[test]
    fn arrays_are_live_from_creation_to_last_use() {
        // The schedule makes b first, and c reads it through a bitcast. The argument stays alive.
        let main = vec![
            instruction(1, "p", "parameter", &[], ""),
            instruction(2, "a", "fusion", &[1], TEN),
            instruction(3, "b", "fusion", &[1], TEN),
            instruction(4, "view", "bitcast", &[3], ""),
            instruction(5, "c", "fusion", &[4, 2], TEN),
            instruction(6, "d", "fusion", &[5], TEN),
        ];
        let sequence = Sequence { instructions: vec![1, 3, 2, 4, 5, 6] };
        let schedule = Schedule { sequences: HashMap::from([(1, sequence)]) };
        let e = estimate(vec![Computation { id: 1, instructions: main, ..Computation::default() }], Some(schedule));
        assert_eq!(e.live_bytes, [1024, 2048, 3072, 3072, 4096, 3072]);
        assert_eq!(e.largest_at_peak.len(), 4);
        assert_eq!(e.largest_at_peak[0].1, "f32[256]");
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(Estimate::of_hlo(b"\xff\xff").unwrap_err().code(), Code::DataLoss);
        assert!(Estimate::of_hlo(b"").unwrap_err().message().contains("no module"));
    }
}
