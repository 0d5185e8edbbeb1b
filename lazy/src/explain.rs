//! Reasons why a segment was compiled, or computed op by op.

use crate::cut::CutReason;
use crate::form::{Form, Source};
use parking_lot::Mutex;
use std::collections::VecDeque;
use torchtpu_tensor::Meta;

/// One compilation with its reason, or the first run of a program that was not compiled.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The reason to end the segment.
    pub cut: CutReason,
    /// Ops in the segment.
    pub nodes: usize,
    /// The ops, shortened.
    pub ops: String,
    /// Time it took.
    pub nanos: u64,
    /// Whether the executable came from disk.
    pub from_disk: bool,
    /// Whether the ops ran one by one on the host's kernels, and nothing was compiled.
    pub is_interpreted: bool,
    /// The difference to the nearest segment that was compiled before.
    pub why: String,
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} of {} ops ({}), cut: {}, {:.1} ms: {}",
            match (self.is_interpreted, self.from_disk) {
                (true, _) => "first run, op by op,",
                (_, true) => "load from disk",
                _ => "compilation",
            },
            self.nodes,
            self.ops,
            self.cut.name(),
            self.nanos as f64 / 1e6,
            self.why
        )
    }
}

/// The newest explanations, oldest first. The list has a limit, since a process may compile forever.
static EXPLANATIONS: Mutex<VecDeque<Explanation>> = Mutex::new(VecDeque::new());
const EXPLANATIONS_KEPT: usize = 1000;

/// Keep an explanation. The oldest one goes when there are [`EXPLANATIONS_KEPT`].
pub(crate) fn keep(explanation: Explanation) {
    let mut list = EXPLANATIONS.lock();
    if list.len() == EXPLANATIONS_KEPT {
        list.pop_front();
    }
    list.push_back(explanation);
}

/// Return the explanations that are kept.
pub(crate) fn all() -> Vec<Explanation> {
    EXPLANATIONS.lock().iter().cloned().collect()
}

/// Describe the difference between `form` and the nearest of the `cached` forms.
pub(crate) fn difference<'a>(form: &Form, cached: impl Iterator<Item = &'a Form>) -> String {
    let same_names = |c: &Form| {
        c.nodes.len() == form.nodes.len() && c.nodes.iter().zip(&form.nodes).all(|(a, b)| a.op.name() == b.op.name())
    };
    let mut any = false;
    let mut best: Option<(usize, String)> = None;
    for c in cached {
        any = true;
        if !same_names(c) {
            continue;
        }
        let list = differences(form, c);
        if best.as_ref().is_none_or(|(n, _)| list.len() < *n) {
            let more = if list.len() > 3 { format!(" and {} more differences", list.len() - 3) } else { String::new() };
            best = Some((list.len(), format!("{}{more}", list[..list.len().min(3)].join("; "))));
        }
    }
    match best {
        Some((_, why)) => why,
        None if any => "this sequence of ops is new".to_string(),
        None => "the first segment".to_string(),
    }
}

fn differences(new: &Form, old: &Form) -> Vec<String> {
    let mut out = Vec::new();
    if new.args.len() != old.args.len() {
        out.push(format!("{} arguments instead of {}", new.args.len(), old.args.len()));
    }
    for (i, (a, b)) in new.args.iter().zip(&old.args).enumerate() {
        out.extend(meta_difference(&format!("argument {i}"), &a.meta, &b.meta));
        match (a.donated, b.donated) {
            (true, false) => out.push(format!("argument {i} is no longer used afterwards (donated)")),
            (false, true) => out.push(format!("argument {i} is still used afterwards (not donated)")),
            _ => {}
        }
    }
    for i in 0..new.nodes.len() {
        let name = new.nodes[i].op.name();
        if new.nodes[i].offsets != old.nodes[i].offsets {
            out.push(if new.nodes[i].offsets > 0 {
                format!("op {i} ({name}): offset passed at run time instead of being compiled in")
            } else {
                format!("op {i} ({name}): offset compiled in instead of being passed at run time")
            });
            continue;
        }
        if new.nodes[i].op != old.nodes[i].op {
            out.push(format!("op {i} ({name}): {:?} instead of {:?}", new.nodes[i].op, old.nodes[i].op));
        }
        if new.inputs_of(i) != old.inputs_of(i) {
            let kinds = |f: &Form| {
                let list: Vec<String> = f.inputs_of(i).iter().map(|x| describe(x.source())).collect();
                list.join(", ")
            };
            out.push(format!("op {i} ({name}) reads {} instead of {}", kinds(new), kinds(old)));
        }
        // Sizes that follow from arguments are reported once, for the argument.
        if new.inputs_of(i).is_empty() {
            for (a, b) in new.values[new.values_of(i)].iter().zip(&old.values[old.values_of(i)]) {
                out.extend(meta_difference(&format!("the result of op {i} ({name})"), a, b));
            }
        }
    }
    if new.outputs != old.outputs {
        out.push(format!("different results are still in use: {} instead of {}", new.outputs.len(), old.outputs.len()));
    }
    match (new.is_pooled, old.is_pooled) {
        (true, false) => out.push("large results take memory from the pool (Fused mode)".to_string()),
        (false, true) => out.push("results take no memory from the pool (not Fused mode)".to_string()),
        _ => {}
    }
    let precisions = || new.nodes.iter().zip(&old.nodes).map(|(a, b)| (a.precision, b.precision));
    if let Some((now, before)) = precisions().find(|(now, before)| now != before) {
        out.push(format!("float32 products with precision {now:?} instead of {before:?}"));
    }
    if new.options != old.options {
        out.push("other compiler options".to_string());
    }
    if out.is_empty() {
        out.push("sizes or dtypes of intermediate values differ".to_string());
    }
    out
}

fn describe(s: Source) -> String {
    match s {
        Source::Value(i) => format!("value {i}"),
        Source::Arg(i) => format!("argument {i}"),
        Source::Number(dtype, _) => format!("a number ({dtype:?})"),
    }
}

fn meta_difference(what: &str, a: &Meta, b: &Meta) -> Vec<String> {
    let mut out = Vec::new();
    if a.dims.len() != b.dims.len() {
        out.push(format!("{what} has shape {} instead of {}", a.dims, b.dims));
    } else {
        for (d, (x, y)) in a.dims.iter().zip(b.dims.iter()).enumerate() {
            if x != y {
                out.push(format!("{what}: dimension {d} is {x} instead of {y}"));
            }
        }
    }
    if a.dtype != b.dtype {
        out.push(format!("{what} is {:?} instead of {:?}", a.dtype, b.dtype));
    }
    if a.place != b.place {
        out.push(format!("{what} is on {} instead of {}", a.place, b.place));
    }
    out
}
