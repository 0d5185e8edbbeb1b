//! The canonical form of a segment: the key of its executable.
//!
//! A form has everything that determines the text for the compiler: ops with their attributes, wiring by position,
//! descriptions of all values, the outputs, the donated arguments, and the count of numbers per dtype. It has no
//! handle, no buffer and no number, so the next step of a training loop has an equal form.

use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use torchtpu_stablehlo::Precision;
use torchtpu_tensor::comm::Group;
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::ops::inline::Kernel;
use torchtpu_tensor::site::{self, Site};
use torchtpu_tensor::{DType, Meta};

/// Number of dtypes. Numbers are packed by dtype.
pub(crate) const DTYPES: usize = DType::ALL.len();

/// An input of a node in one word. The two upper bits are its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Input(pub(crate) u32);

/// An [`Input`] that is unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A value that an earlier node of the segment computes.
    Value(usize),
    /// An argument of the segment.
    Arg(usize),
    /// A number, by its position among those of its dtype.
    Number(DType, usize),
}

const ARG: u32 = 1 << 30;
const NUMBER: u32 = 2 << 30;
const KIND: u32 = 3 << 30;
const NUMBER_SHIFT: u32 = 25;

/// A segment is cut long before one of its lists gets this long.
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

/// A recorded op. Its inputs and outputs start where those of the previous node end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub(crate) op: Prim,
    /// Number of its last inputs that are [offsets](Prim::offsets). The op itself then has none.
    pub(crate) offsets: u32,
    /// Precision of its `float32` products. Always the default on XLA:CPU, whose programs do not state it.
    pub(crate) precision: Precision,
    pub(crate) first_input: u32,
    pub(crate) first_value: u32,
}

/// Mix the precision of a node into a hash. The default changes nothing.
#[inline]
pub(crate) fn mix_precision(hash: u64, precision: Precision) -> u64 {
    if precision == Precision::default() { hash } else { mix(hash, (precision as u64) << 42) }
}

/// An argument of the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arg {
    pub(crate) meta: Meta,
    /// Whether the buffer is donated, so that the compiler may reuse its memory.
    pub(crate) donated: bool,
}

/// A form that computes some of the values of another form, and the positions of its arguments and numbers in that
/// form.
pub(crate) struct Part {
    pub(crate) form: Form,
    /// Arguments, or values that other nodes compute.
    pub(crate) args: Vec<Source>,
    pub(crate) numbers: [Vec<usize>; DTYPES],
}

/// The [sites](site) of nodes, if known. All lists compare as equal: two segments that differ only in lines are one
/// program.
#[derive(Clone, Default, Debug)]
pub(crate) struct Sites(Vec<Site>);

impl PartialEq for Sites {
    fn eq(&self, _: &Sites) -> bool {
        true
    }
}
impl Eq for Sites {}

impl Sites {
    /// Set the site of a node. The caller adds nodes in ascending order.
    #[inline]
    pub(crate) fn set(&mut self, node: usize, site: Site) {
        if site != 0 {
            self.0.resize(node, 0);
            self.0.push(site);
        }
    }
    /// Return the site of node `node`, or 0.
    pub(crate) fn get(&self, node: usize) -> Site {
        self.0.get(node).copied().unwrap_or(0)
    }
}

/// The canonical form of a segment: see the documentation of this file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Form {
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) values: Vec<Meta>,
    pub(crate) args: Vec<Arg>,
    /// Number of numbers of each dtype.
    pub(crate) numbers: [u32; DTYPES],
    /// Values that leave the segment, ascending.
    pub(crate) outputs: Vec<u32>,
    /// Whether large results are computed into memory of the [pool](crate::xla_cpu::pool).
    pub(crate) is_pooled: bool,
    /// The number of the compiler's [options](crate::options).
    pub(crate) options: u32,
    /// Lines of the user's program. They are no part of the key.
    pub(crate) sites: Sites,
}

impl Form {
    /// Return the inputs of node `i`.
    pub(crate) fn inputs_of(&self, i: usize) -> &[Input] {
        let end = self.nodes.get(i + 1).map_or(self.inputs.len(), |n| n.first_input as usize);
        &self.inputs[self.nodes[i].first_input as usize..end]
    }
    /// Return the description of an input, or nothing for a number.
    pub(crate) fn meta_of(&self, input: Input) -> Option<&Meta> {
        match input.source() {
            Source::Value(v) => Some(&self.values[v]),
            Source::Arg(a) => Some(&self.args[a].meta),
            Source::Number(..) => None,
        }
    }
    /// Return the positions of the values that node `i` computes.
    pub(crate) fn values_of(&self, i: usize) -> std::ops::Range<usize> {
        let end = self.nodes.get(i + 1).map_or(self.values.len(), |n| n.first_value as usize);
        self.nodes[i].first_value as usize..end
    }
    /// Return the [offsets](Prim::offsets) of all nodes, with the positions of their nodes.
    pub(crate) fn offsets(&self) -> Vec<(usize, i64)> {
        let has = |n: &(usize, &Node)| n.1.op.has_offsets() && n.1.offsets == 0;
        self.nodes
            .iter()
            .enumerate()
            .filter(has)
            .flat_map(|(i, n)| n.op.offsets().into_iter().map(move |o| (i, o)))
            .collect()
    }
    /// Return the hash of all parts except the offsets of nodes.
    pub(crate) fn hash_without_offsets(&self) -> u64 {
        let mut hash = u64::from(self.is_pooled) | u64::from(self.options) << 8;
        for (i, n) in self.nodes.iter().enumerate() {
            hash = mix_precision(hash, n.precision);
            hash = mix(hash, if n.op.has_offsets() { hash_op(&n.op.without_offsets()) } else { hash_op(&n.op) });
            hash = self.inputs_of(i).iter().fold(hash, |h, input| mix(h, u64::from(input.0)));
        }
        hash = self.args.iter().fold(hash, |h, a| mix(mix(h, hash_meta(&a.meta)), a.donated.into()));
        hash = self.values.iter().fold(hash, |h, v| mix(h, hash_meta(v)));
        self.outputs.iter().fold(hash, |h, &o| mix(h, o.into()))
    }
    /// Turn the offsets of the nodes for which `moves` is true into numbers, after those of their dtype.
    pub(crate) fn give_offsets(&mut self, moves: impl Fn(usize) -> bool) {
        let all = std::mem::take(&mut self.inputs);
        let count = &mut self.numbers[DType::I64 as usize];
        let ends: Vec<usize> = self.nodes.iter().skip(1).map(|n| n.first_input as usize).chain([all.len()]).collect();
        for (i, (node, end)) in self.nodes.iter_mut().zip(ends).enumerate() {
            let start = std::mem::replace(&mut node.first_input, self.inputs.len() as u32) as usize;
            self.inputs.extend_from_slice(&all[start..end]);
            if moves(i) {
                node.offsets = node.op.offsets().len() as u32;
                node.op = node.op.without_offsets();
                self.inputs.extend((0..node.offsets).map(|k| Input::number(DType::I64, *count + k)));
                *count += node.offsets;
            }
        }
    }
    /// Return the form that computes the outputs at these ascending positions. It donates no argument.
    pub(crate) fn part(&self, outputs: &[usize]) -> Part {
        let values: Vec<u32> = outputs.iter().map(|&k| self.outputs[k]).collect();
        let needed = self.needed(&values);
        self.extract((0..self.nodes.len()).filter(|&n| needed[n]), &values)
    }
    /// Return the form of some nodes, with some of their values as outputs. Both lists ascend. A value that other nodes
    /// compute becomes an argument. No argument is donated.
    pub(crate) fn extract(&self, nodes: impl Iterator<Item = usize>, values: &[u32]) -> Part {
        let mut part = Part { form: Form::default(), args: Vec::new(), numbers: Default::default() };
        let form = &mut part.form;
        form.options = self.options;
        let mut new_value: Vec<Option<Input>> = vec![None; self.values.len()];
        let mut new_arg: Vec<Option<Input>> = vec![None; self.args.len()];
        for i in nodes {
            let node = &self.nodes[i];
            let (first_input, first_value) = (form.inputs.len() as u32, form.values.len() as u32);
            for input in self.inputs_of(i) {
                let mut argument = |meta: Meta| {
                    part.args.push(input.source());
                    form.args.push(Arg { meta, donated: false });
                    Input::arg(part.args.len() as u32 - 1)
                };
                form.inputs.push(match input.source() {
                    Source::Value(v) => *new_value[v].get_or_insert_with(|| argument(self.values[v])),
                    Source::Arg(a) => *new_arg[a].get_or_insert_with(|| argument(self.args[a].meta)),
                    Source::Number(dtype, k) => {
                        let list = &mut part.numbers[dtype as usize];
                        list.push(k);
                        form.numbers[dtype as usize] = list.len() as u32;
                        Input::number(dtype, list.len() as u32 - 1)
                    }
                });
            }
            form.sites.set(form.nodes.len(), self.sites.get(i));
            let (op, offsets, precision) = (node.op.clone(), node.offsets, node.precision);
            form.nodes.push(Node { op, offsets, precision, first_input, first_value });
            for v in self.values_of(i) {
                new_value[v] = Some(Input::value(form.values.len() as u32));
                form.values.push(self.values[v]);
            }
        }
        // An output is a value of an extracted node, whose word is its position.
        form.outputs = values.iter().filter_map(|&v| new_value[v as usize].map(|i| i.0)).collect();
        part
    }
    /// Return whether a node is a custom kernel, which only the compiler can run.
    pub(crate) fn calls_custom_kernels(&self) -> bool {
        self.custom_kernels().next().is_some()
    }
    /// Return the custom kernels that nodes call.
    pub(crate) fn custom_kernels(&self) -> impl Iterator<Item = &Arc<Kernel>> {
        self.nodes.iter().filter_map(|n| n.op.custom_kernel())
    }
    /// Return whether a node [has effects](torchtpu_tensor::op::Facts::has_effects).
    pub(crate) fn has_effects(&self) -> bool {
        self.nodes.iter().any(|n| n.op.facts().has_effects)
    }
    /// Return the number of ranks that run the program together: those of the groups of its collectives, counted from
    /// rank 0.
    pub(crate) fn replicas(&self) -> usize {
        let groups = self.nodes.iter().filter_map(|n| n.op.group());
        groups.flat_map(|g| g.partition().iter().flatten()).max().map_or(1, |last| last + 1)
    }
    /// Return the ranks that run the program together with rank `own`, in ascending order: those of its groups, and of
    /// their groups.
    pub(crate) fn ranks_with(&self, own: usize) -> Vec<usize> {
        let mut groups: Vec<&Group> = Vec::new();
        for group in self.nodes.iter().filter_map(|n| n.op.group()) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let mut is_in = vec![false; self.replicas().max(own + 1)];
        let mut found = vec![own];
        while let Some(rank) = found.pop() {
            if !std::mem::replace(&mut is_in[rank], true) {
                let lists = groups.iter().flat_map(|g| g.partition()).filter(|list| list.contains(&rank));
                found.extend(lists.flatten());
            }
        }
        (0..is_in.len()).filter(|&rank| is_in[rank]).collect()
    }
    /// Return the node that computes each value.
    pub(crate) fn producers(&self) -> Vec<usize> {
        let mut producer = vec![0; self.values.len()];
        (0..self.nodes.len()).for_each(|n| producer[self.values_of(n)].fill(n));
        producer
    }
    /// Return for each node whether it has effects, or a value in `outputs` depends on it.
    pub(crate) fn needed(&self, outputs: &[u32]) -> Vec<bool> {
        let mut value = vec![false; self.values.len()];
        outputs.iter().for_each(|&v| value[v as usize] = true);
        let mut node = vec![false; self.nodes.len()];
        for i in (0..self.nodes.len()).rev() {
            if self.nodes[i].op.facts().has_effects || value[self.values_of(i)].contains(&true) {
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
    /// Match results of `outputs` to the donated arguments whose memory they take: `(argument, position in outputs)`.
    ///
    /// Without this, the compiler donates the first argument to the first result of its type, and copies arguments that
    /// are still read. A result takes the memory of the argument that it updates element by element. Otherwise it takes
    /// an argument that no later op reads. An argument that fits no result is not donated.
    pub(crate) fn overwritten(&self, outputs: &[u32]) -> Vec<(usize, usize)> {
        let donated = |i: &usize| self.args[*i].donated;
        let mut updates: Vec<Option<usize>> = vec![None; self.values.len()];
        let mut last_reader = vec![0; self.args.len()];
        for (n, node) in self.nodes.iter().enumerate() {
            let inputs = self.inputs_of(n);
            for input in inputs {
                if let Source::Arg(i) = input.source() {
                    last_reader[i] = n;
                }
            }
            if let Some(kernel) = node.op.custom_kernel() {
                for &(input, result) in kernel.library().aliases() {
                    if let Source::Arg(i) = inputs[input].source()
                        && donated(&i)
                    {
                        updates[self.values_of(n).start + result] = Some(i);
                    }
                }
            }
            if !node.op.facts().updates_in_place {
                continue;
            }
            let mut free: SmallVec<[usize; 4]> = inputs
                .iter()
                .filter_map(|input| match input.source() {
                    Source::Arg(i) => Some(i).filter(donated),
                    Source::Value(v) => updates[v],
                    Source::Number(..) => None,
                })
                .collect();
            for v in self.values_of(n) {
                if let Some(at) = free.iter().position(|&i| self.args[i].meta == self.values[v]) {
                    updates[v] = Some(free.remove(at));
                }
            }
        }
        let producer = self.producers();
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        // The last update of an argument takes its memory.
        for (position, &v) in outputs.iter().enumerate().rev() {
            if let Some(i) = updates[v as usize]
                && pairs.iter().all(|p| p.0 != i)
            {
                pairs.push((i, position));
            }
        }
        for i in (0..self.args.len()).filter(donated) {
            let fits = |&(_, &v): &(usize, &u32)| {
                producer[v as usize] > last_reader[i] && self.values[v as usize] == self.args[i].meta
            };
            if pairs.iter().all(|p| p.0 != i)
                && let Some((position, _)) =
                    outputs.iter().enumerate().filter(fits).find(|(o, _)| pairs.iter().all(|p| p.1 != *o))
            {
                pairs.push((i, position));
            }
        }
        pairs
    }
    /// Return the positions in `outputs` of the results that take memory from the [pool](crate::xla_cpu::pool): large
    /// results that take the memory of no argument.
    pub(crate) fn pooled(&self, outputs: &[u32], overwritten: &[(usize, usize)]) -> Vec<usize> {
        let is_new = |position: &usize| overwritten.iter().all(|p| p.1 != *position);
        let is_large = |position: &usize| is_large(&self.values[outputs[*position] as usize]);
        (0..outputs.len()).filter(|p| self.is_pooled && is_large(p) && is_new(p)).collect()
    }
    /// Return the hash of all parts, for a form that was not recorded.
    pub(crate) fn hash(&self) -> u64 {
        self.offsets().iter().fold(self.hash_without_offsets(), |h, o| mix(h, o.1 as u64))
    }
    /// Return nodes that read an argument of `overwritten` before the node that overwrites it, and that this node does
    /// not depend on, as `(overwriting node, reading node)`. Only earlier nodes count: a later node reads the new
    /// value, or depends on it.
    pub(crate) fn late_readers(&self, outputs: &[u32], overwritten: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let producer = self.producers();
        let mut readers: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new(); self.args.len()];
        for n in 0..self.nodes.len() {
            for input in self.inputs_of(n) {
                if let Source::Arg(i) = input.source()
                    && readers[i].last() != Some(&n)
                {
                    readers[i].push(n);
                }
            }
        }
        let mut pairs = Vec::new();
        let mut before = vec![false; self.nodes.len()];
        for &(argument, position) in overwritten {
            let writer = producer[outputs[position] as usize];
            if readers[argument].iter().all(|&r| r >= writer) {
                continue;
            }
            before[..=writer].fill(false);
            before[writer] = true;
            for n in (0..=writer).rev() {
                if before[n] {
                    for input in self.inputs_of(n) {
                        if let Source::Value(v) = input.source() {
                            before[producer[v]] = true;
                        }
                    }
                }
            }
            pairs.extend(readers[argument].iter().filter(|&&r| r < writer && !before[r]).map(|&r| (writer, r)));
        }
        pairs
    }
    /// Return the ops that value `wanted` depends on, in order, one per line: `%3: float32[2, 4] = add(%1, ...)`.
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
            // `Reduce { kind: Sum }` has more than the name. `Add` has not.
            let attributes = format!("{:?}", node.op);
            if attributes.contains(['{', '[']) {
                text.push_str(&format!("  # {attributes}"));
            }
            text.push('\n');
        }
        text.push_str(&format!("return %{wanted}\n"));
        text
    }
    /// Return the largest values that nodes compute, for memory errors: `float32[50000, 50000] (10 GB) of matmul
    /// (train.py:31), ...`.
    pub(crate) fn largest(&self) -> String {
        let bytes = |v: usize| self.values[v].bytes().unwrap_or(usize::MAX);
        let mut all: Vec<(usize, usize)> = (0..self.nodes.len())
            .filter(|&n| !self.nodes[n].op.is_view())
            .flat_map(|n| self.values_of(n).map(move |v| (v, n)))
            .collect();
        all.sort_by_key(|(v, _)| std::cmp::Reverse(bytes(*v)));
        let shown = |(v, n): &(usize, usize)| {
            let meta = &self.values[*v];
            let size = format!("{:.3} GB", bytes(*v) as f64 / 1e9);
            let name = self.nodes[*n].op.name();
            format!("{}{:?} ({size}) of {name}{}", meta.dtype.name(), &meta.dims[..], self.line(*n))
        };
        all.iter().take(5).map(shown).collect::<Vec<_>>().join(", ")
    }
    /// Return the user's line of node `n` in brackets, such as ` (train.py:31)`, or an empty text.
    fn line(&self, n: usize) -> String {
        let site = self.sites.get(n);
        let of = if site::is_backward(site) { "gradient of " } else { "" };
        site::line(site).map_or_else(String::new, |l| format!(" ({of}{}:{})", l.file, l.line))
    }
    /// Clear all lists, but keep their memory.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.inputs.clear();
        self.values.clear();
        self.args.clear();
        self.outputs.clear();
        self.numbers = [0; DTYPES];
        self.is_pooled = false;
        self.options = 0;
        self.sites.0.clear();
    }
    /// Return the names of the ops, shortened: `add, mul (12 times), sum, ...`.
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

/// Smaller results are not pooled: the allocator keeps the pages of small pieces.
const MIN_POOLED_BYTES: usize = 64 << 10;

/// Return whether the [pool](crate::xla_cpu::pool) takes the memory of a value of this type.
pub(crate) fn is_large(meta: &Meta) -> bool {
    meta.bytes().is_some_and(|b| b >= MIN_POOLED_BYTES)
}

/// Mix one word into a rolling hash.
#[inline(always)]
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Return the hash of an op and its attributes.
#[inline(always)]
pub(crate) fn hash_op(op: &Prim) -> u64 {
    let mut h = FxHasher::default();
    op.hash(&mut h);
    h.finish()
}

/// Return the hash of a description. The index of the device is no part of it, since other ranks have another one.
#[inline(always)]
pub(crate) fn hash_meta(meta: &Meta) -> u64 {
    meta.dims.iter().fold(meta.dtype as u64, |h, &d| mix(h, d as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use torchtpu_tensor::Device;
    use torchtpu_tensor::ops::concat::Flip;
    use torchtpu_tensor::ops::inline::Inline;
    use torchtpu_tensor::ops::optim::AdamW;
    use torchtpu_tensor::ops::pointwise::{Binary, BinaryKind};

    const DONATED: bool = true;

    /// Make a form of nodes with one list of operands each. Every value is `f32[4]`.
    fn form(args: &[bool], nodes: &[(Prim, &[Input], usize)]) -> Form {
        let meta = Meta::new(&[4], DType::F32, Device::TPU);
        let mut form = Form { args: args.iter().map(|&donated| Arg { meta, donated }).collect(), ..Form::default() };
        for (op, inputs, results) in nodes {
            let (first_input, first_value) = (form.inputs.len() as u32, form.values.len() as u32);
            let (op, precision) = (op.clone(), Precision::default());
            form.nodes.push(Node { op, offsets: 0, precision, first_input, first_value });
            form.inputs.extend_from_slice(inputs);
            form.values.extend(vec![meta; *results]);
        }
        form
    }

    fn subtract() -> Prim {
        Prim::Binary(Binary(BinaryKind::Sub))
    }

    fn flip() -> Prim {
        Prim::Flip(Flip { mask: 1 })
    }

    #[test]
    fn the_last_update_takes_the_memory_of_its_argument() {
        // A gradient of the argument's type is an output too, and comes first.
        let (p, g) = (Input::arg(0), Input::value(0));
        let f = form(&[DONATED], &[(flip(), &[p], 1), (subtract(), &[p, g], 1)]);
        assert_eq!(f.overwritten(&[0, 1]), [(0, 1)]);
    }

    #[test]
    fn results_of_an_optimizer_take_the_memory_they_update() {
        let step = Prim::AdamW(AdamW { decoupled: true, decays: true, maximize: false });
        let (p, m, v, g) = (Input::arg(0), Input::arg(1), Input::arg(2), Input::value(0));
        let f = form(&[DONATED; 3], &[(flip(), &[p], 1), (step, &[p, g, m, v], 3)]);
        let mut pairs = f.overwritten(&[0, 1, 2, 3]);
        pairs.sort_unstable();
        assert_eq!(pairs, [(0, 1), (1, 2), (2, 3)]);
    }

    #[test]
    fn lines_are_named_and_are_no_part_of_the_form() {
        let at = |line| site::number(site::Line { file: "train.py".into(), line });
        let mut f = form(&[!DONATED], &[(flip(), &[Input::arg(0)], 1), (subtract(), &[Input::value(0); 2], 1)]);
        let bare = f.clone();
        f.sites.set(1, at(7));
        assert_eq!(f, bare);
        assert_eq!(f.hash(), bare.hash());
        assert!(f.largest().ends_with("of sub (train.py:7)"), "{}", f.largest());
        assert_eq!(bare.largest().matches("train.py").count(), 0);
        // The line stays with its node.
        let part = f.extract([1].into_iter(), &[1]).form;
        assert_eq!(site::line(part.sites.get(0)).map(|l| l.line), Some(7));
        f.clear();
        assert_eq!(f.sites.get(1), 0);
    }

    #[test]
    fn arguments_that_are_still_read_are_kept() {
        // Mirroring cannot work in place, and no op comes after it.
        assert_eq!(form(&[DONATED], &[(flip(), &[Input::arg(0)], 1)]).overwritten(&[0]), []);
        let (x, y) = (Input::arg(0), Input::value(0));
        let later = form(&[DONATED], &[(flip(), &[x], 1), (flip(), &[y], 1)]);
        assert_eq!(later.overwritten(&[1]), [(0, 0)]);
        let kept = form(&[!DONATED], &[(flip(), &[x], 1), (flip(), &[y], 1)]);
        assert_eq!(kept.overwritten(&[1]), []);
    }
    #[test]
    fn a_custom_kernel_overwrites_its_aliased_operand() {
        let text =
            "func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<4xf32>, tensor<4xf32>) {
            return %x, %x : tensor<4xf32>, tensor<4xf32> }";
        let kernel = || Prim::Inline(Inline(Arc::new(Kernel::new("test::kernel", text).expect("a module"))));
        assert_eq!(form(&[DONATED], &[(kernel(), &[Input::arg(0)], 2)]).overwritten(&[0, 1]), [(0, 1)]);
        assert_eq!(form(&[!DONATED], &[(kernel(), &[Input::arg(0)], 2)]).overwritten(&[0, 1]), []);
        assert_eq!(form(&[DONATED], &[(kernel(), &[Input::arg(0)], 2)]).overwritten(&[0]), []);
        assert!(form(&[DONATED], &[(kernel(), &[Input::arg(0)], 2)]).calls_custom_kernels());
    }

    #[test]
    fn late_readers_are_reads_off_the_path_to_the_update() {
        let step = Prim::AdamW(AdamW { decoupled: true, decays: true, maximize: false });
        let (p, m, v) = (Input::arg(0), Input::arg(1), Input::arg(2));
        let (y, g) = (Input::value(0), Input::value(1));
        let nodes = [
            (subtract(), &[p, p][..], 1),
            (flip(), &[y], 1),
            (subtract(), &[p, p], 1),
            (step, &[p, g, m, v], 3),
            (subtract(), &[p, y], 1),
        ];
        let f = form(&[DONATED; 3], &nodes);
        let outputs = [2, 3, 4, 5, 6];
        assert_eq!(f.late_readers(&outputs, &[(0, 1), (1, 2), (2, 3)]), [(3, 2)]);
        assert_eq!(f.late_readers(&outputs, &[]), []);
    }
}
