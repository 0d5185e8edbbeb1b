//! Aten schema strings, the arguments that they describe, and the rows of the public table.
//!
//! A [`Row`] is one overload of one public op: its schema, the function that computes it, sample arguments, and
//! everything else that is public about it. The Python functions, methods, in-place and `out=` forms, help texts, stubs
//! and `docs/ops.md` come from the rows. The table-driven tests iterate the samples.

mod args;
mod row;
mod sample;

pub(crate) use args::widely;
pub use args::{Arg, Args, Operand, Ret};
pub(crate) use row::warn_of_repeated;
pub use row::{
    Aliasing, Call, DTypeMessage, DTypeWithOut, Deprecated, InPlace, Numbers, OutDType, OutShape, Row, Scope, Tier,
    WriteRepeated, messages,
};
pub use sample::{Fill, Sample, SampleArg, index, ints, mask, n, positive, probability, t, two, unit};

use crate::{Error, Result, Scalar};
use std::borrow::Cow;

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    /// A tensor; where the binding allows it, a number.
    Tensor,
    /// A list of tensors; optional lists may have missing entries.
    TensorList,
    /// An integer.
    Int,
    /// A list of integers; a single integer stands for that many copies.
    IntList(u8),
    /// A number.
    Scalar,
    /// A list of numbers.
    ScalarList,
    /// A floating-point number.
    Float,
    /// A list of floating-point numbers.
    FloatList,
    /// A truth value.
    Bool,
    /// A string.
    Str,
    /// A dtype.
    DType,
    /// A device.
    Device,
    /// A memory layout; only the default is accepted.
    Layout,
    /// A memory format.
    MemoryFormat,
    /// A random generator.
    Generator,
}

/// Default of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamDefault {
    /// No default: the parameter is required.
    Required,
    /// `None`.
    None,
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A string.
    Str(String),
}

impl ParamDefault {
    /// The argument that replaces a missing one. Lists and strings are leaked, so call this once for each parameter of
    /// the table.
    pub fn argument(&self, ty: Ty) -> Arg<'static> {
        match self {
            ParamDefault::Required | ParamDefault::None => Arg::None,
            ParamDefault::Int(i) => match ty {
                Ty::IntList(n) => Arg::Ints(vec![*i; usize::from(n.max(1))].leak()),
                Ty::Float => Arg::Scalar(Scalar::Float(*i as f64)),
                Ty::Bool => Arg::Scalar(Scalar::Bool(*i != 0)),
                _ => Arg::Scalar(Scalar::Int(*i)),
            },
            ParamDefault::Float(f) => Arg::Scalar(Scalar::Float(*f)),
            ParamDefault::Bool(b) => Arg::Scalar(Scalar::Bool(*b)),
            ParamDefault::Ints(v) => Arg::Ints(v.clone().leak()),
            ParamDefault::Str(s) => match (ty, s.as_str()) {
                (Ty::Layout | Ty::MemoryFormat | Ty::DType | Ty::Device, _) => Arg::None,
                (_, s) => Arg::Str(s.to_string().leak()),
            },
        }
    }
}

/// One parameter.
#[derive(Clone, Debug)]
pub struct Param<'a> {
    /// Name in the schema. The function form of a method calls `self` `input`.
    pub name: &'a str,
    /// Type.
    pub ty: Ty,
    /// Whether `None` is accepted.
    pub optional: bool,
    /// Whether the function writes it.
    pub mutated: bool,
    /// Whether it must be given by keyword.
    pub keyword_only: bool,
    /// Default.
    pub default: ParamDefault,
}

impl Param<'_> {
    /// Whether a call must give it. An optional keyword has the default `None` in any case.
    pub fn is_required(&self) -> bool {
        self.default == ParamDefault::Required && !(self.optional && self.keyword_only)
    }
}

/// A parsed schema. Its names are parts of the text.
#[derive(Clone, Debug)]
pub struct Schema<'a> {
    /// `add` of `add.Tensor`.
    pub name: &'a str,
    /// `Tensor` of `add.Tensor`; empty when there is none.
    pub overload: &'a str,
    /// Parameters in order.
    pub params: Vec<Param<'a>>,
    /// Number of parameters that may be given by position.
    pub positional: usize,
}

impl<'a> Schema<'a> {
    /// Parse `name.overload(Type name=default, *, ...) -> ...`.
    ///
    /// # Errors
    /// `Value`, which names the part that is not understood. Schemas are constants; a test parses all of them.
    pub fn parse(text: &'a str) -> Result<Schema<'a>> {
        let bad = |what: &str| Error::value(format!("schema {text:?}: {what}"));
        let (full, rest) = text.split_once('(').ok_or_else(|| bad("no parameters"))?;
        let end = rest.rfind(") ->").ok_or_else(|| bad("no result"))?;
        let (name, overload) = full.split_once('.').unwrap_or((full, ""));
        let (mut params, mut keyword_only, mut positional) = (Vec::new(), false, 0);
        for part in split_top_level(&rest[..end]) {
            if part == "*" {
                keyword_only = true;
                continue;
            }
            let (decl, default) = match part.split_once('=') {
                Some((d, v)) => (d, Some(v)),
                None => (part, None),
            };
            let (ty, pname) = decl.rsplit_once(' ').ok_or_else(|| bad(part))?;
            let mutated = ty.contains('!');
            let ty = match (ty.find('('), ty.find(')')) {
                (Some(i), Some(j)) if i < j => Cow::Owned(format!("{}{}", &ty[..i], &ty[j + 1..])),
                _ => Cow::Borrowed(ty),
            };
            let optional = ty.ends_with('?');
            let ty = match ty.trim_end_matches('?') {
                "Tensor" => Ty::Tensor,
                "Tensor[]" | "Tensor?[]" => Ty::TensorList,
                "int" | "SymInt" => Ty::Int,
                "Scalar" => Ty::Scalar,
                "Scalar[]" => Ty::ScalarList,
                "float" => Ty::Float,
                "float[]" => Ty::FloatList,
                "bool" => Ty::Bool,
                "str" => Ty::Str,
                "ScalarType" => Ty::DType,
                "Device" => Ty::Device,
                "Layout" => Ty::Layout,
                "MemoryFormat" => Ty::MemoryFormat,
                "Generator" => Ty::Generator,
                "int[]" | "SymInt[]" => Ty::IntList(0),
                t if t.starts_with("int[") || t.starts_with("SymInt[") => {
                    let n = t.split_once('[').and_then(|(_, n)| n.strip_suffix(']')).ok_or_else(|| bad(t))?;
                    Ty::IntList(n.parse().map_err(|_| bad(t))?)
                }
                t => return Err(bad(t)),
            };
            let default = match default {
                None => ParamDefault::Required,
                Some("None") => ParamDefault::None,
                Some("True") => ParamDefault::Bool(true),
                Some("False") => ParamDefault::Bool(false),
                Some("Mean") => ParamDefault::Int(1),
                Some(v) if v.starts_with('[') => {
                    let list = v[1..].strip_suffix(']').ok_or_else(|| bad(v))?;
                    let items = list.split(',').filter(|s| !s.is_empty());
                    ParamDefault::Ints(items.map(|s| s.trim().parse().map_err(|_| bad(v))).collect::<Result<_>>()?)
                }
                Some(v) => match (v.parse::<i64>(), v.parse::<f64>()) {
                    (Ok(i), _) => ParamDefault::Int(i),
                    (_, Ok(f)) => ParamDefault::Float(f),
                    _ => ParamDefault::Str(v.trim_matches(['"', '\'']).to_string()),
                },
            };
            if !keyword_only {
                positional += 1;
            }
            params.push(Param { name: pname, ty, optional, mutated, keyword_only, default });
        }
        Ok(Schema { name, overload, params, positional })
    }
}

impl Schema<'_> {
    /// Return the place of the list of integers that all positional arguments together may stand for, as in
    /// `x.view(2, 3)`.
    pub fn spread_list(&self) -> Option<usize> {
        let own = usize::from(self.params.first().is_some_and(|p| p.name == "self" && p.ty == Ty::Tensor));
        (self.positional == own + 1 && matches!(self.params[own].ty, Ty::IntList(0))).then_some(own)
    }

    /// Whether the function makes a new tensor, and so takes `requires_grad=` in Python.
    pub fn makes_tensor(&self) -> bool {
        self.params.iter().any(|p| p.ty == Ty::Device) && !self.name.starts_with('_')
    }
}

fn split_top_level(s: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in s.bytes().enumerate() {
        match c {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(s[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(s[start..].trim());
    parts.retain(|p| !p.is_empty());
    parts
}
