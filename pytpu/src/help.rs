//! Help texts of functions and methods: `__text_signature__` and `__doc__`, from the rows of the op table.
//!
//! The interpreter wants all texts when it makes the functions, in each import of the package. So they are written one
//! after another into one block, and names and defaults are borrowed.

use crate::arguments::{Form, Overload};
use smallvec::SmallVec;
use std::borrow::Cow;

/// A parameter of all overloads of a name together.
struct Merged<'a> {
    name: &'a str,
    default: Option<Cow<'static, str>>,
    keyword_only: bool,
    /// The number of overloads that have it.
    seen: usize,
}

/// Words of Python that cannot be the name of a parameter in a signature. Schemas use two of them.
const KEYWORDS: [&str; 2] = ["from", "lambda"];

/// Write the text that the interpreter splits into `__text_signature__` and `__doc__`.
///
/// The signature of a name with several overloads has the parameters of all of them. A parameter that some overload
/// lacks has a default.
pub fn write(text: &mut String, name: &str, doc: &str, overloads: &[&Overload], method: bool) {
    let parameters = merged(overloads, method);
    if !parameters.iter().any(|p| KEYWORDS.contains(&p.name)) {
        text.push_str(name);
        write_signature(text, &parameters, overloads.len(), method);
        text.push_str("\n--\n\n");
    }
    match name.strip_suffix('_') {
        Some(base) if !name.ends_with("__") && overloads.iter().all(|o| o.form == Form::InPlace) => {
            let parts = ["In-place form of ``", base, "``: write the result into ``self`` and return it.\n\n"];
            text.extend(parts);
        }
        _ => {}
    }
    text.push_str(doc);
    if overloads.len() > 1 {
        text.push_str("\n\nOverloads:");
        for overload in overloads {
            text.extend(["\n    ", name]);
            overload.write_signature(text, method);
        }
    }
}

/// Return the parameters of several overloads together.
fn merged<'a>(overloads: &[&'a Overload], method: bool) -> SmallVec<[Merged<'a>; 8]> {
    let mut all: SmallVec<[Merged<'a>; 8]> = SmallVec::new();
    for overload in overloads {
        // A parameter that only a later overload has comes before the parameters that follow it there.
        let mut at = 0;
        for p in overload.shown_parameters(method) {
            match all.iter_mut().position(|m| m.name == p.name) {
                Some(i) => {
                    all[i].seen += 1;
                    all[i].default = all[i].default.take().or(p.default);
                    all[i].keyword_only |= p.keyword_only;
                    at = at.max(i + 1);
                }
                None => {
                    all.insert(at, Merged { name: p.name, default: p.default, keyword_only: p.keyword_only, seen: 1 });
                    at += 1;
                }
            }
        }
    }
    all
}

/// Write the signature of `overloads` overloads together.
fn write_signature(text: &mut String, parameters: &[Merged<'_>], overloads: usize, method: bool) {
    let mut separator = "(";
    let mut write = |text: &mut String, name: &str, default: Option<&str>| {
        text.extend([separator, name]);
        if let Some(default) = default {
            text.extend(["=", default]);
        }
        separator = ", ";
    };
    if method {
        write(text, "$self", None);
    }
    let mut needs_default = false;
    for m in parameters.iter().filter(|m| !m.keyword_only) {
        needs_default |= m.default.is_some() || m.seen < overloads;
        write(text, m.name, m.default.as_deref().or(needs_default.then_some("None")));
    }
    if parameters.iter().any(|m| m.keyword_only) {
        write(text, "*", None);
    }
    for m in parameters.iter().filter(|m| m.keyword_only) {
        let is_optional = m.default.is_some() || m.seen < overloads;
        write(text, m.name, m.default.as_deref().or(is_optional.then_some("None")));
    }
    text.push_str(if parameters.is_empty() && !method { "()" } else { ")" });
}
