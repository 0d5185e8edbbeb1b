//! The canonical form of a segment: the key of its executable.
//!
//! A form is everything that decides what the compiler is given: ops with their attributes, wiring by position, descriptions
//! of all values, which values leave the segment, which arguments are given away, how many numbers of each dtype ride along.
//! It holds no handle, no buffer and no number, so that the next step of a training loop has an equal form.

use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::{DType, Meta};

/// How many dtypes there are: numbers are packed by dtype.
pub(crate) const DTYPES: usize = DType::ALL.len();

/// What a node reads, in one word: kind in the two upper bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Input(pub(crate) u32);

/// An [`Input`], taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A value that an earlier node of the segment computes.
    Value(usize),
    /// An argument of the segment.
    Arg(usize),
    /// A number: position among those of its dtype.
    Number(DType, usize),
}

const ARG: u32 = 1 << 30;
const NUMBER: u32 = 2 << 30;
const KIND: u32 = 3 << 30;
const NUMBER_SHIFT: u32 = 26;

/// A segment is cut long before one of its lists could get this long.
pub(crate) const MAX_ITEMS: usize = 1 << NUMBER_SHIFT;

impl Input {
    #[inline]
    pub(crate) fn value(i: u32) -> Input {
        Input(i)
    }
    #[inline]
    pub(crate) fn arg(i: u32) -> Input {
        Input(ARG | i)
    }
    #[inline]
    pub(crate) fn number(dtype: DType, i: u32) -> Input {
        Input(NUMBER | (dtype as u32) << NUMBER_SHIFT | i)
    }
    #[inline]
    pub(crate) fn source(self) -> Source {
        let low = (self.0 & !KIND) as usize;
        match self.0 & KIND {
            0 => Source::Value(low),
            ARG => Source::Arg(low),
            _ => Source::Number(DType::ALL[low >> NUMBER_SHIFT], low & (MAX_ITEMS - 1)),
        }
    }
}

/// One recorded op; its inputs and outputs start where the previous node's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub(crate) op: Prim,
    pub(crate) first_input: u32,
    pub(crate) first_value: u32,
}

/// An argument of the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arg {
    pub(crate) meta: Meta,
    /// The compiler may reuse its memory; the buffer is given away.
    pub(crate) donated: bool,
}

/// See the module's documentation.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Form {
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) values: Vec<Meta>,
    pub(crate) args: Vec<Arg>,
    /// How many numbers there are of each dtype.
    pub(crate) numbers: [u32; DTYPES],
    /// Values that leave the segment, ascending.
    pub(crate) outputs: Vec<u32>,
}

impl Form {
    /// Inputs of node `i`.
    pub(crate) fn inputs_of(&self, i: usize) -> &[Input] {
        let end = self.nodes.get(i + 1).map_or(self.inputs.len(), |n| n.first_input as usize);
        &self.inputs[self.nodes[i].first_input as usize..end]
    }
    /// Positions of the values that node `i` computes.
    pub(crate) fn values_of(&self, i: usize) -> std::ops::Range<usize> {
        let end = self.nodes.get(i + 1).map_or(self.values.len(), |n| n.first_value as usize);
        self.nodes[i].first_value as usize..end
    }
    /// Which nodes the values in `outputs` depend on.
    pub(crate) fn needed(&self, outputs: &[u32]) -> Vec<bool> {
        let mut value = vec![false; self.values.len()];
        outputs.iter().for_each(|&v| value[v as usize] = true);
        let mut node = vec![false; self.nodes.len()];
        for i in (0..self.nodes.len()).rev() {
            if value[self.values_of(i)].contains(&true) {
                node[i] = true;
                for input in self.inputs_of(i) {
                    if let Source::Value(v) = input.source() {
                        value[v] = true;
                    }
                }
            }
        }
        node
    }
    /// The ops that value `wanted` depends on, in order, a line each: `%3: float32[2, 4] = add(%1, ...)`.
    pub(crate) fn graph(&self, wanted: u32) -> String {
        let needed = self.needed(&[wanted]);
        let ty = |m: &Meta| format!("{}{:?}", m.dtype.name(), &m.dims[..]);
        let name = |input: &Input| match input.source() {
            Source::Value(i) => format!("%{i}"),
            Source::Arg(i) => format!("argument {i}: {}", ty(&self.args[i].meta)),
            Source::Number(d, i) => format!("number {i}: {}", d.name()),
        };
        let mut text = String::new();
        for (i, node) in self.nodes.iter().enumerate().filter(|(i, _)| needed[*i]) {
            let values: Vec<String> = self.values_of(i).map(|v| format!("%{v}: {}", ty(&self.values[v]))).collect();
            let inputs: Vec<String> = self.inputs_of(i).iter().map(name).collect();
            text.push_str(&format!("{} = {}({})", values.join(", "), node.op.name(), inputs.join(", ")));
            // `Reduce { kind: Sum }` says more than its name; `Add` does not.
            let attributes = format!("{:?}", node.op);
            if attributes.contains(['{', '[']) {
                text.push_str(&format!("  # {attributes}"));
            }
            text.push('\n');
        }
        text.push_str(&format!("return %{wanted}\n"));
        text
    }
    /// Empties every list and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.inputs.clear();
        self.values.clear();
        self.args.clear();
        self.outputs.clear();
        self.numbers = [0; DTYPES];
    }
    /// The ops' names, shortened: `add, mul (12 times), sum, ...`.
    pub(crate) fn summary(&self) -> String {
        let mut counts: Vec<(&'static str, usize)> = Vec::new();
        for n in &self.nodes {
            match counts.iter_mut().find(|(name, _)| *name == n.op.name()) {
                Some((_, c)) => *c += 1,
                None => counts.push((n.op.name(), 1)),
            }
        }
        let shown: Vec<String> = counts
            .iter()
            .take(12)
            .map(|(name, n)| if *n == 1 { (*name).to_string() } else { format!("{name} ({n} times)") })
            .collect();
        format!("{}{}", shown.join(", "), if counts.len() > 12 { ", ..." } else { "" })
    }
}

/// Mixes one word into a rolling hash.
#[inline(always)]
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Hash of an op and its attributes.
#[inline(always)]
pub(crate) fn hash_op(op: &Prim) -> u64 {
    let mut h = FxHasher::default();
    op.hash(&mut h);
    h.finish()
}

/// Hash of a description.
#[inline(always)]
pub(crate) fn hash_meta(meta: &Meta) -> u64 {
    meta.dims.iter().fold(meta.dtype as u64 | (meta.device.index as u64) << 8, |h, &d| mix(h, d as u64))
}
