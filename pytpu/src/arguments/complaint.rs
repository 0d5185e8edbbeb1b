//! Errors of calls that fit no overload, in PyTorch's words. This is slow, and only runs after all overloads were
//! tried.

use super::values::convert;
use super::{Call, Overload, Parameter, Parsed, names};
use crate::enter::{Failure, Outcome};
use crate::objects::{int, is_too_large, looks_like_int, none, sequence, string, type_name};
use crate::tensor_type::is_tensor;
use crate::{device, dtype};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi::*;
use smallvec::SmallVec;
use std::borrow::Cow;
use torchtpu_tensor::Scalar;
use torchtpu_tensor::schema::{Arg, Ty};

fn type_text(p: &Parameter) -> &'static str {
    match p.ty {
        Ty::Tensor => "Tensor",
        Ty::TensorList => "tuple of Tensors",
        Ty::Int => "int",
        Ty::IntList(_) => "tuple of ints",
        Ty::Scalar => "Number",
        Ty::Float => "float",
        Ty::FloatList => "tuple of floats",
        Ty::ScalarList => "tuple of Scalars",
        Ty::Bool => "bool",
        Ty::Str => "str",
        Ty::DType => "torch.dtype",
        Ty::Device => "torch.device",
        Ty::Layout => "torch.layout",
        Ty::MemoryFormat => "torch.memory_format",
        Ty::Generator => "torch.Generator",
    }
}

/// A parameter as users see it.
pub struct Shown<'a> {
    /// The type, in the words of error messages.
    ty: &'static str,
    /// The name: `input` for the first tensor of a function.
    pub name: &'a str,
    /// The default as Python source, or `None` if the parameter is required.
    pub default: Option<Cow<'static, str>>,
    /// Whether it must be given by keyword.
    pub keyword_only: bool,
}

enum Problem {
    Count,
    Missing(Vec<usize>),
    /// Parameter, object, and position if it has one.
    Type(usize, *mut PyObject, Option<usize>),
    /// One of the arguments that form a list of integers, and its position.
    Item(usize, *mut PyObject, usize),
    UnknownKeyword(*mut PyObject),
    Twice(usize),
    Device(torchtpu_tensor::Error),
}

impl Overload {
    fn shown(&self, i: usize, method: bool) -> &str {
        if i == 0 && !method && self.params[0].text == "self" { "input" } else { self.params[i].text }
    }

    /// Return the reason why a call does not fit, or `None` if it fits.
    fn problem(&self, call: &Call) -> Option<Problem> {
        let own = usize::from(!call.receiver.is_null());
        let mut out = Parsed::new();
        // SAFETY: the caller holds the objects, and the indices are below their counts.
        unsafe {
            let varargs = self.varargs == Some(own) && call.positional > 0 && looks_like_int(call.arg(0));
            let given = if varargs { own + 1 } else { call.positional + own };
            if given > self.positional {
                return Some(Problem::Count);
            }
            let keywords = call.keywords();
            let mut missing = Vec::new();
            for (i, p) in self.params.iter().enumerate() {
                let by_name = call.find(p, keywords);
                if i >= own && i < given && !by_name.is_null() {
                    return Some(Problem::Twice(i));
                }
                let (o, at) = if i < own {
                    continue;
                } else if i < given {
                    (call.arg(i - own), Some(i - own + 1))
                } else {
                    (by_name, None)
                };
                if o.is_null() {
                    if p.required {
                        missing.push(i);
                    }
                    continue;
                }
                if varargs && i == own {
                    for k in 0..call.positional {
                        if int(call.arg(k)).is_none() {
                            return Some(Problem::Item(i, call.arg(k), k + 1));
                        }
                    }
                    continue;
                }
                if convert(p, o, &mut out).is_none() {
                    if p.ty == Ty::Device
                        && let Err(e) = device::extract(o)
                    {
                        return Some(Problem::Device(e));
                    }
                    return Some(Problem::Type(i, o, at));
                }
            }
            if !missing.is_empty() {
                return Some(Problem::Missing(missing));
            }
            for i in 0..keywords {
                let k = call.keyword(i);
                let known = self.params.iter().any(|p| p.name.equals(k) || p.also.is_some_and(|a| a.equals(k)));
                let extra = (self.out && own == 0 && names::out().equals(k))
                    || (self.makes && names::requires_grad().equals(k));
                if !known && !extra {
                    return Some(Problem::UnknownKeyword(k));
                }
            }
        }
        None
    }

    /// Return whether the number of arguments allows the overload.
    fn plausible(&self, call: &Call) -> bool {
        let own = usize::from(!call.receiver.is_null());
        let n = call.positional + call.keywords();
        let max = self.params.len() - own + usize::from(self.out && own == 0) + usize::from(self.makes);
        let min = self.params.iter().skip(own).filter(|p| p.required).count();
        (n >= min && n <= max) || self.varargs == Some(own)
    }

    /// Return the parameters as users see them, with `out` and `requires_grad`.
    pub fn shown_parameters(&self, method: bool) -> SmallVec<[Shown<'_>; 8]> {
        let mut all: SmallVec<[Shown<'_>; 8]> = SmallVec::new();
        for (i, p) in self.params.iter().enumerate().skip(usize::from(method)) {
            let default = match (p.required, &p.default) {
                (true, _) => None,
                (_, Arg::None) => Some("None".into()),
                (_, Arg::Scalar(Scalar::Bool(b))) => Some(if *b { "True".into() } else { "False".into() }),
                (_, Arg::Scalar(Scalar::Int(0))) => Some("0".into()),
                (_, Arg::Scalar(Scalar::Int(1))) => Some("1".into()),
                (_, Arg::Scalar(Scalar::Int(v))) => Some(v.to_string().into()),
                (_, Arg::Scalar(Scalar::Float(v))) => Some(format!("{v:?}").into()),
                (_, Arg::Str(s)) => Some(format!("\"{s}\"").into()),
                (_, Arg::Ints(v)) => Some(format!("{v:?}").into()),
                _ => None,
            };
            all.push(Shown { ty: type_text(p), name: self.shown(i, method), default, keyword_only: p.keyword_only });
        }
        let keyword =
            |ty, name, default: &'static str| Shown { ty, name, default: Some(default.into()), keyword_only: true };
        if self.out && !method {
            let many = self.row.schema.rsplit("->").next().is_some_and(|r| r.contains(','));
            all.push(keyword(if many { "tuple of Tensors" } else { "Tensor" }, "out", "None"));
        }
        if self.makes {
            all.push(keyword("bool", "requires_grad", "False"));
        }
        all
    }

    /// Return the parameters as error messages show them.
    pub fn signature(&self, method: bool) -> String {
        let mut text = String::new();
        self.write_signature(&mut text, method);
        text
    }

    /// Write the parameters as error messages show them.
    pub fn write_signature(&self, text: &mut String, method: bool) {
        let (mut separator, mut is_keyword) = ("", false);
        text.push('(');
        for p in self.shown_parameters(method) {
            if p.keyword_only && !is_keyword {
                text.extend([separator, "*"]);
                (separator, is_keyword) = (", ", true);
            }
            text.extend([separator, p.ty, " ", p.name]);
            if let Some(default) = p.default {
                text.extend([" = ", &default]);
            }
            separator = ", ";
        }
        text.push(')');
    }

    fn explain(&self, name: &str, problem: Problem, call: &Call) -> pyo3::PyErr {
        let method = !call.receiver.is_null();
        let own = usize::from(method);
        // SAFETY: objects that the caller holds.
        let text = |o: *mut PyObject| unsafe { type_name(o) };
        match problem {
            Problem::Device(e) => crate::enter::exception(e),
            Problem::Count => {
                let max = self.positional - own;
                let min = self.params.iter().skip(own).filter(|p| p.required && !p.keyword_only).count();
                if max == 0 {
                    return PyTypeError::new_err(format!(
                        "Tensor.{name}() takes no arguments ({} given)",
                        call.positional
                    ));
                }
                let takes = match (max, min == max) {
                    (1, true) => "1 positional argument".to_string(),
                    (_, true) => format!("{max} positional arguments"),
                    (_, false) => format!("from {min} to {max} positional arguments"),
                };
                let were = if call.positional == 1 { "was" } else { "were" };
                PyTypeError::new_err(format!("{name}() takes {takes} but {} {were} given", call.positional))
            }
            Problem::Missing(m) => {
                let names: Vec<String> = m.iter().map(|i| format!("\"{}\"", self.shown(*i, method))).collect();
                PyTypeError::new_err(format!(
                    "{name}() missing {} required positional arguments: {}",
                    m.len(),
                    names.join(", ")
                ))
            }
            Problem::Twice(i) => {
                PyTypeError::new_err(format!("{name}() got multiple values for argument '{}'", self.shown(i, method)))
            }
            Problem::UnknownKeyword(k) => {
                // SAFETY: a keyword is a string.
                let k = unsafe { string(k) }.unwrap_or("?");
                PyTypeError::new_err(format!("{name}() got an unexpected keyword argument '{k}'"))
            }
            Problem::Item(i, o, at) => PyTypeError::new_err(format!(
                "{name}(): argument '{}' failed to unpack the object at pos {at} with error \"type must be tuple of \
                ints,but got {}\"",
                self.shown(i, method),
                text(o)
            )),
            Problem::Type(i, o, at) => {
                let p = &self.params[i];
                let shown = self.shown(i, method);
                // SAFETY: objects that the caller holds.
                unsafe {
                    if let Some((n, item)) = sequence(o) {
                        for k in 0..n {
                            let e = item(k);
                            match p.ty {
                                Ty::TensorList if !is_tensor(e) && e != none() => {
                                    return PyTypeError::new_err(format!(
                                        "expected Tensor as element {k} in argument {}, but got {}",
                                        i - own,
                                        text(e)
                                    ));
                                }
                                Ty::IntList(_) if int(e).is_none() => {
                                    return PyTypeError::new_err(format!(
                                        "{name}(): argument '{shown}' failed to unpack the object at pos {} with error \
                                        \"type must be tuple of ints,but got {}\"",
                                        k + 1,
                                        text(e)
                                    ));
                                }
                                _ => {}
                            }
                        }
                    }
                }
                let position = at.map_or(String::new(), |n| format!(" (position {n})"));
                PyTypeError::new_err(format!(
                    "{name}(): argument '{shown}'{position} must be {}, not {}",
                    type_text(p),
                    text(o)
                ))
            }
        }
    }
}

/// Return the error for a call that fits no overload.
#[cold]
pub fn complain(name: &str, overloads: &[Overload], call: &Call) -> Outcome {
    let method = !call.receiver.is_null();
    // SAFETY: the caller holds the objects of the call.
    if let Some(e) = (0..call.positional + call.keywords()).find_map(|i| unsafe { dtype::refusal(call.arg(i)) }) {
        return Err(e.into());
    }
    let of_form: Vec<&Overload> = overloads.iter().filter(|o| o.method || !method).collect();
    let plausible: Vec<&&Overload> = of_form.iter().filter(|o| o.plausible(call)).collect();
    // SAFETY: the caller holds the objects of the call.
    if (0..call.positional + call.keywords()).any(|i| unsafe { is_too_large(call.arg(i)) }) {
        let any = |f: fn(&Parameter) -> bool| of_form.iter().any(|o| o.params.iter().any(f));
        if any(|p| p.ty == Ty::Scalar || p.number_ok) {
            return Err(PyOverflowError::new_err("int too big to convert").into());
        }
        if any(|p| p.ty == Ty::Int) {
            return Err(PyValueError::new_err("Overflow when unpacking long long").into());
        }
    }
    let single = match (of_form.as_slice(), plausible.as_slice()) {
        ([one], _) => Some(*one),
        (_, [one]) => Some(**one),
        _ => None,
    };
    if let Some(o) = single
        && let Some(p) = o.problem(call)
    {
        return Err(o.explain(name, p, call).into());
    }
    for o in &plausible {
        if let Some(Problem::Device(e)) = o.problem(call) {
            return Err(Failure::Error(e));
        }
    }
    // SAFETY: the caller holds the objects of the call.
    let got: Vec<String> = unsafe {
        (0..call.positional)
            .map(|i| type_name(call.arg(i)))
            .chain((0..call.keywords()).map(|i| {
                format!("{}={}", string(call.keyword(i)).unwrap_or("?"), type_name(call.arg(call.positional + i)))
            }))
            .collect()
    };
    let got = if got.len() == 1 {
        format!("({}, )", got[0]).replace(", )", if call.keywords() == 1 { ", )" } else { ")" })
    } else {
        format!("({})", got.join(", "))
    };
    let mut text = format!("{name}() received an invalid combination of arguments - got {got}, but expected one of:");
    for o in &of_form {
        text.push_str(&format!("\n * {}", o.signature(method)));
        match o.problem(call) {
            Some(Problem::Type(_, bad, _) | Problem::Item(_, bad, _)) => {
                // SAFETY: the caller holds the objects of the call.
                let marks: Vec<String> = call
                    .operands()
                    .into_iter()
                    .skip(usize::from(method))
                    .map(|a| unsafe { if a == bad { format!("!{}!", type_name(a)) } else { type_name(a) } })
                    .collect();
                text.push_str(&format!(
                    "\n      didn't match because some of the arguments have invalid types: ({})",
                    marks.join(", ")
                ));
            }
            Some(Problem::UnknownKeyword(k)) => {
                // SAFETY: a keyword is a string.
                let k = unsafe { string(k) }.unwrap_or("?");
                text.push_str(&format!("\n      didn't match because some of the keywords were incorrect: {k}"));
            }
            _ => {}
        }
    }
    text.push('\n');
    Err(PyTypeError::new_err(text).into())
}
