//! Help texts of functions and methods: `__text_signature__` and `__doc__`, from the rows of the op table.

use crate::arguments::{Form, Overload};
use std::ffi::CString;

/// A parameter of all overloads of a name together.
struct Merged {
    name: String,
    default: Option<String>,
    keyword_only: bool,
    /// The number of overloads that have it.
    seen: usize,
}

/// Words of Python that cannot be the name of a parameter in a signature. Schemas use two of them.
const KEYWORDS: [&str; 2] = ["from", "lambda"];

/// Return the text that the interpreter splits into `__text_signature__` and `__doc__`.
///
/// The signature of a name with several overloads has the parameters of all of them. A parameter that some overload
/// lacks has a default.
pub fn text(name: &str, doc: &str, overloads: &[&Overload], method: bool) -> CString {
    let mut text = String::new();
    if let Some(signature) = merged(overloads, method) {
        text.push_str(&format!("{name}{signature}\n--\n\n"));
    }
    match name.strip_suffix('_') {
        Some(base) if !name.ends_with("__") && overloads.iter().all(|o| o.form == Form::InPlace) => {
            text.push_str(&format!("In-place form of ``{base}``: write the result into ``self`` and return it.\n\n"));
        }
        _ => {}
    }
    text.push_str(doc);
    if overloads.len() > 1 {
        text.push_str("\n\nOverloads:");
        for overload in overloads {
            text.push_str(&format!("\n    {name}{}", overload.signature(method)));
        }
    }
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Return one signature for several overloads, or `None` if a parameter has no name in Python.
fn merged(overloads: &[&Overload], method: bool) -> Option<String> {
    let mut all: Vec<Merged> = Vec::new();
    for overload in overloads {
        // A parameter that only a later overload has comes before the parameters that follow it there.
        let mut at = 0;
        for p in overload.shown_parameters(method) {
            let found = all.iter().position(|m| m.name == p.name);
            match found {
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
    if all.iter().any(|m| KEYWORDS.contains(&m.name.as_str())) {
        return None;
    }
    let (positional, keywords): (Vec<&Merged>, Vec<&Merged>) = all.iter().partition(|m| !m.keyword_only);
    let mut needs_default = false;
    let mut parts = Vec::new();
    if method {
        parts.push("$self".to_string());
    }
    for m in positional {
        needs_default |= m.default.is_some() || m.seen < overloads.len();
        let default = m.default.as_deref().or(needs_default.then_some("None"));
        parts.push(shown(&m.name, default));
    }
    if !keywords.is_empty() {
        parts.push("*".to_string());
    }
    for m in keywords {
        let is_optional = m.default.is_some() || m.seen < overloads.len();
        parts.push(shown(&m.name, m.default.as_deref().or(is_optional.then_some("None"))));
    }
    Some(format!("({})", parts.join(", ")))
}

fn shown(name: &str, default: Option<&str>) -> String {
    default.map_or_else(|| name.to_string(), |default| format!("{name}={default}"))
}
