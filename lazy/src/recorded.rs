//! The ops of a planned program as data, for tools that search for slow or large parts.

use crate::form::{Form, Source};
use serde::Serialize;
use serde_json::{Value, json};
use torchtpu_tensor::Meta;
use torchtpu_tensor::op::{Attribute, Prim};
use torchtpu_tensor::site::{self, Site};

/// A program with its ops and its outputs.
#[derive(Clone, Serialize)]
pub struct Recorded {
    /// The ops in their order.
    pub ops: Vec<Op>,
    /// The results in their order.
    pub results: Vec<Outcome>,
}

/// One recorded op.
#[derive(Clone, Serialize)]
pub struct Op {
    /// The kind, such as `Linear`.
    pub kind: &'static str,
    /// Its name in traces, such as `linear`.
    pub name: &'static str,
    /// The line of the user's program.
    pub place: Option<Place>,
    /// Whether a backward pass recorded it. Its place is then that of the op whose gradient it is.
    pub is_backward: bool,
    /// The operands.
    pub inputs: Vec<Shape>,
    /// The description of its result.
    pub outputs: Vec<Shape>,
    /// Attributes of products, convolutions and attention. `null` for other ops.
    pub attributes: Value,
}

/// A value that leaves a program.
#[derive(Clone, Serialize)]
pub struct Outcome {
    /// The op that computes it, as its position in the list.
    pub op: usize,
    /// Its description.
    pub shape: Shape,
    /// Bytes of it.
    pub bytes: usize,
    /// Whether it takes the memory of an argument.
    pub is_aliased: bool,
}

/// Dtype and sizes of a value.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Shape {
    /// Name of the dtype, such as `bfloat16`.
    pub dtype: &'static str,
    /// The sizes.
    pub dims: Vec<usize>,
}

impl From<&Meta> for Shape {
    fn from(meta: &Meta) -> Shape {
        Shape { dtype: meta.dtype.name(), dims: meta.dims.to_vec() }
    }
}

/// A line of the user's program.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl Place {
    pub(crate) fn of(site: Site) -> Option<Place> {
        site::line(site).map(|l| Place { file: l.file.to_string(), line: l.line })
    }
}

impl Recorded {
    pub(crate) fn of(form: &Form) -> Recorded {
        let op = |n: usize| {
            let node = &form.nodes[n];
            let site = form.sites.get(n);
            let input = |source: Source| match source {
                Source::Value(v) => (&form.values[v]).into(),
                Source::Arg(a) => (&form.args[a].meta).into(),
                Source::Number(dtype, _) => Shape { dtype: dtype.name(), dims: Vec::new() },
            };
            Op {
                kind: node.op.node(),
                name: node.op.name(),
                place: Place::of(site),
                is_backward: site::is_backward(site),
                inputs: form.inputs_of(n).iter().map(|i| input(i.source())).collect(),
                outputs: form.values_of(n).map(|v| (&form.values[v]).into()).collect(),
                attributes: attributes(&node.op),
            }
        };
        let producer = form.producers();
        let aliased = form.overwritten(&form.outputs);
        let result = |(position, &v): (usize, &u32)| {
            let meta = &form.values[v as usize];
            Outcome {
                op: producer[v as usize],
                shape: meta.into(),
                bytes: meta.bytes().unwrap_or(0),
                is_aliased: aliased.iter().any(|a| a.1 == position),
            }
        };
        Recorded {
            ops: (0..form.nodes.len()).map(op).collect(),
            results: form.outputs.iter().enumerate().map(result).collect(),
        }
    }
}

/// The attributes of an op as JSON.
fn attributes(op: &Prim) -> Value {
    let json = |attribute| match attribute {
        Attribute::Bool(v) => json!(v),
        Attribute::Float(v) => json!(v),
        Attribute::Int(v) => json!(v),
        Attribute::Ints(v) => json!(v),
        Attribute::Pairs(v) => json!(v),
    };
    let attributes = op.attributes();
    if attributes.is_empty() {
        return Value::Null;
    }
    attributes.into_iter().map(|(name, attribute)| (name.to_string(), json(attribute))).collect()
}
