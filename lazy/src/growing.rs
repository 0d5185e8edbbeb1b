//! Programs that differ from earlier ones in the sizes of a few small values.
//!
//! `ids = torch.cat([ids, next], 1)` makes the program around it new in each iteration of a loop, and compiling takes
//! longer than the iteration. So a program that has no executable, and differs from an earlier one in sizes only, is
//! divided. Ops on values of changing sizes run on the host. The other ops are a program that stays the same. A program
//! that appends one element to a result is divided at once, before a size has changed.
//!
//! The host computes only small integers and truth values: positions, masks and ids. Their results are exact, so they
//! do not depend on whether the host or the device computes them.

use crate::form::{Form, Input, Source, mix, mix_precision};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::array;

/// Longer programs are not divided: they seldom have only a few changing values.
const MAX_OPS: usize = 1 << 10;
/// Greatest number of ops that run on the host, and of bytes that their values take together.
const HOST_OPS: usize = 32;
const HOST_BYTES: usize = 256 << 10;
/// Number of kinds of programs above which all are forgotten.
const MAX_KINDS: usize = 1 << 10;

/// The nodes of a program in three parts: host first, device, host last.
pub(crate) type Division = [Vec<usize>; 3];
/// The part of a [`Division`] that runs on the device.
pub(crate) const ON_DEVICE: usize = 1;

/// The first program of each kind. Two programs are of one kind if they have the same ops and wiring. Sizes may differ.
#[derive(Default)]
pub(crate) struct Growing(Mutex<FxHashMap<u64, Form>>);

impl Growing {
    /// Record a form that has no executable. Return how to divide it, or `None`. `has_grown` is true for arguments that
    /// the host part of an earlier program made.
    pub(crate) fn divide(&self, form: &Form, has_grown: impl Fn(usize) -> bool) -> Option<Division> {
        if form.nodes.len() > MAX_OPS {
            return None;
        }
        let kind = hash_without_sizes(form);
        let mut known = self.0.lock();
        let resized = match known.get(&kind) {
            Some(first) => resized(form, first),
            None => {
                if known.len() >= MAX_KINDS {
                    known.clear();
                }
                known.insert(kind, form.clone());
                None
            }
        };
        drop(known);
        resized.or_else(|| appending(form, has_grown)).and_then(|on_host| divide(form, &on_host))
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

fn hash_without_sizes(form: &Form) -> u64 {
    let mut hash = u64::from(form.is_pooled) | u64::from(form.options) << 8;
    for n in &form.nodes {
        hash = mix_precision(hash, n.precision);
        hash = n.op.name().bytes().fold(mix(hash, n.offsets.into()), |h, b| mix(h, b.into()));
    }
    hash = form.inputs.iter().fold(hash, |h, input| mix(h, input.0.into()));
    let metas = form.args.iter().map(|a| &a.meta).chain(&form.values);
    hash = metas.fold(hash, |h, m| mix(h, m.dtype as u64 | (m.dims.len() as u64) << 8));
    form.outputs.iter().fold(hash, |h, &o| mix(h, o.into()))
}

/// Mark the nodes that read or compute values whose sizes differ from those in `first`, a form of the same kind. Return
/// `None` if there are none.
fn resized(form: &Form, first: &Form) -> Option<Vec<bool>> {
    let same_wiring = form.inputs == first.inputs && form.outputs == first.outputs && form.numbers == first.numbers;
    let same_lists = form.nodes.len() == first.nodes.len() && form.args.len() == first.args.len();
    if !same_wiring || !same_lists || form.values.len() != first.values.len() {
        return None;
    }
    let value_changes = |v: usize| form.values[v] != first.values[v];
    let input_changes = |input: &Input| match input.source() {
        Source::Value(v) => value_changes(v),
        Source::Arg(a) => form.args[a].meta != first.args[a].meta,
        Source::Number(..) => false,
    };
    let resizes = |n: usize| form.inputs_of(n).iter().any(input_changes) || form.values_of(n).any(value_changes);
    let nodes = 0..form.nodes.len();
    nodes.clone().any(resizes).then(|| nodes.map(|n| resizes(n) || form.nodes[n].op != first.nodes[n].op).collect())
}

/// Mark the nodes that append an element to a value and return the result, and the nodes that read such grown values.
/// Return `None` if no node appends.
fn appending(form: &Form, has_grown: impl Fn(usize) -> bool) -> Option<Vec<bool>> {
    let mut is_read = vec![false; form.values.len()];
    for input in &form.inputs {
        if let Source::Value(v) = input.source() {
            is_read[v] = true;
        }
    }
    let appends = |n: usize| {
        let (Some(dim), [x, y]) = (form.nodes[n].op.appends_along(), form.inputs_of(n)) else { return false };
        let (Some(x), Some(y), result) = (form.meta_of(*x), form.meta_of(*y), form.values_of(n).start) else {
            return false;
        };
        let is_one_more = x.dims[dim] > 1 && y.dims[dim] == 1;
        is_one_more && !is_read[result] && form.outputs.contains(&(result as u32))
    };
    let mut on_host = vec![false; form.nodes.len()];
    // An element-wise result of a grown value has grown too.
    let mut value_has_grown = vec![false; form.values.len()];
    for n in 0..form.nodes.len() {
        let is_grown = |input: &&Input| match input.source() {
            Source::Value(v) => value_has_grown[v],
            Source::Arg(a) => has_grown(a),
            Source::Number(..) => false,
        };
        let grown = form.inputs_of(n).iter().find(is_grown).and_then(|&input| form.meta_of(input));
        on_host[n] = (grown.is_some() || appends(n)) && exact_bytes(form, n).is_some();
        if let Some(grown) = grown
            && on_host[n]
        {
            form.values_of(n).for_each(|v| value_has_grown[v] = form.values[v].numel() == grown.numel());
        }
    }
    on_host.contains(&true).then_some(on_host)
}

/// Divide a form into parts, with the marked nodes on the host. Return `None` if these nodes are too many or too large,
/// if one of them computes floats, or if the host would have to wait for the device twice.
fn divide(form: &Form, on_host: &[bool]) -> Option<Division> {
    let needed = form.needed(&form.outputs);
    let (mut parts, mut part_of_value): (Division, _) = (array::from_fn(|_| Vec::new()), vec![0; form.values.len()]);
    let mut host_bytes = 0usize;
    for n in (0..form.nodes.len()).filter(|&n| needed[n]) {
        let after = form.inputs_of(n).iter().map(|input| match input.source() {
            Source::Value(v) => part_of_value[v],
            _ => 0,
        });
        let part = match (on_host[n], after.max().unwrap_or(0)) {
            (true, 0) => 0,
            (true, _) => 2,
            (false, 0 | ON_DEVICE) => ON_DEVICE,
            (false, _) => return None,
        };
        if on_host[n] {
            host_bytes = host_bytes.saturating_add(exact_bytes(form, n)?);
        }
        part_of_value[form.values_of(n)].fill(part);
        parts[part].push(n);
    }
    (parts[0].len() + parts[2].len() <= HOST_OPS && host_bytes <= HOST_BYTES).then_some(parts)
}

/// Return the bytes that a node reads and computes on the host, or `None` if its result would not be exact.
fn exact_bytes(form: &Form, n: usize) -> Option<usize> {
    let op = &form.nodes[n].op;
    let metas =
        form.inputs_of(n).iter().filter_map(|&input| form.meta_of(input)).chain(&form.values[form.values_of(n)]);
    let can_run = (op.has_kernel() || op.is_view()) && !op.facts().has_effects;
    let mut bytes = 0usize;
    for meta in metas {
        if meta.dtype.is_inexact() {
            return None;
        }
        bytes = bytes.saturating_add(meta.bytes()?);
    }
    can_run.then_some(bytes)
}
