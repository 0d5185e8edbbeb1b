//! `target/ops.md`, the list of all ops, written from the rows for the page `docs/ops.md`. Calls of the samples find
//! dtypes and gradients.

use super::compare;
use crate::samples::*;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use torchtpu::schema::{Row, Schema, Scope, Ty};
use torchtpu::{DType, Tensor, ops};

const GROUPS: [(&str, &[DType]); 4] = [
    ("floating-point", &[DType::F16, DType::BF16, DType::F32, DType::F64]),
    ("complex", &[DType::C64, DType::C128]),
    ("integers", &[DType::U8, DType::I8, DType::I16, DType::I32, DType::I64]),
    ("bool", &[DType::Bool]),
];

/// Whether `torch.nn.functional` publishes a function of the table under its own name.
fn is_functional(name: &str) -> bool {
    const MODULE: &str = include_str!("../../../pytpu/python/pytpu/nn/functional.py");
    let names = MODULE.split("_ALIASES = {").nth(1).and_then(|rest| rest.split(".split()").next());
    names.expect("a list of names").split(['"', ' ', '\n']).any(|word| word == name)
}

/// Return where Python finds a name.
fn path(name: &str, scope: Scope) -> String {
    for (prefix, module) in [("linalg_", "torch.linalg"), ("fft_", "torch.fft"), ("special_", "torch.special")] {
        if let Some(name) = name.strip_prefix(prefix) {
            return format!("`{module}.{name}`");
        }
    }
    match scope {
        Scope::Both | Scope::Function => format!("`torch.{name}`"),
        Scope::Method => format!("`Tensor.{name}`"),
        Scope::Nn if is_functional(name) => format!("`torch.nn.functional.{name}`"),
        Scope::Nn => format!("`torch._C._nn.{name}`"),
        Scope::Aten => format!("`torch.ops.aten.{name}`"),
    }
}

/// Return the paths of all forms of a row.
fn forms(row: &Row, schema: &Schema) -> Vec<String> {
    let name = row.name();
    let mut forms = vec![path(name, row.scope)];
    let has_tensor = schema.params.first().is_some_and(|p| p.ty == Ty::Tensor);
    let is_method = has_tensor && matches!(row.scope, Scope::Both | Scope::Method);
    if is_method && row.scope == Scope::Both {
        forms.push(format!("`Tensor.{name}`"));
    }
    if row.has_in_place() {
        if row.in_place_function {
            forms.push(format!("`torch.{name}_`"));
        } else if !is_method {
            forms.push(path(&format!("{name}_"), row.scope));
        }
        if is_method {
            forms.push(format!("`Tensor.{name}_`"));
        }
    }
    forms.extend(row.aliases.iter().map(|alias| path(alias, Scope::Aten)));
    if row.has_out {
        forms.push("`out=`".to_string());
    }
    forms
}

/// Whether some sample of a row runs with tensors of a dtype.
fn runs_with(row: &Row, schema: &Schema, dtype: DType) -> bool {
    (row.samples)().iter().any(|sample| {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut args = arguments(schema, sample, dtype)?;
            let has_tensors = args.iter().any(|a| !a.tensors().is_empty());
            if has_tensors && !args.iter().flat_map(Owned::tensors).any(|t| t.dtype() == dtype) {
                return Ok(false);
            }
            if !has_tensors {
                let at = schema.params.iter().position(|p| p.ty == Ty::DType);
                at.into_iter().for_each(|i| args[i] = Owned::DType(dtype));
            }
            call(row, &args).map(|_| true)
        }));
        matches!(outcome, Ok(Ok(true)))
    })
}

fn dtypes(rows: &[(&Row, Schema)]) -> String {
    let takes_dtype = rows
        .iter()
        .any(|(_, schema)| schema.params.iter().any(|p| matches!(p.ty, Ty::Tensor | Ty::TensorList | Ty::DType)));
    if !takes_dtype {
        return String::new();
    }
    let mut parts: Vec<String> = Vec::new();
    for (name, group) in GROUPS {
        let runs: Vec<DType> = group
            .iter()
            .copied()
            .filter(|&dtype| rows.iter().any(|(row, schema)| runs_with(row, schema, dtype)))
            .collect();
        if runs.len() == group.len() {
            parts.push(if name == "bool" { "`bool`".to_string() } else { name.to_string() });
        } else {
            parts.extend(runs.iter().map(|dtype| format!("`{}`", dtype.name())));
        }
    }
    parts.join(", ")
}

/// Whether a result of some sample has a gradient.
fn is_differentiable(row: &Row, schema: &Schema) -> bool {
    (row.samples)().iter().filter(|sample| sample.gradient).any(|sample| {
        let results = arguments(schema, sample, plain(sample, DType::F32))
            .and_then(|args| leaves(&args))
            .and_then(|args| call(row, &args));
        results.is_ok_and(|results| results.iter().any(Tensor::requires_grad))
    })
}

/// Return the schema with the names of Python, and without marks of views and of written tensors, such as `(a!)`.
fn signature(row: &Row) -> String {
    let (_, rest) = row.schema.split_once('(').expect("a schema has parameters");
    let mut rest = rest.replace("SymInt", "int");
    while let Some(mark) = rest.find("Tensor(").map(|at| at + "Tensor".len()) {
        let end = rest[mark..].find(')').expect("a mark ends") + mark;
        rest.replace_range(mark..=end, "");
    }
    if row.scope != Scope::Method {
        rest = rest.replacen("Tensor self", "Tensor input", 1);
    }
    format!("{}({rest}", row.name())
}

/// Return text in lines of at most 120 columns.
fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > 120 {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += length;
    }
    lines
}

/// Nothing is compared, since the list is not kept.
#[test]
fn the_list_of_ops_is_written() {
    if std::env::var_os("TORCHTPU_UPDATE").is_none() {
        return;
    }
    let mut families: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut rows: BTreeMap<&str, Vec<(&Row, Schema)>> = BTreeMap::new();
    for family in ops::FAMILIES {
        if !families.iter().any(|(name, _)| *name == family.name) {
            families.push((family.name, Vec::new()));
        }
        let names = &mut families.iter_mut().find(|(name, _)| *name == family.name).expect("was added").1;
        for row in family.rows {
            if !rows.contains_key(row.name()) {
                names.push(row.name());
            }
            let schema = Schema::parse(row.schema).expect("every schema parses");
            rows.entry(row.name()).or_default().push((row, schema));
        }
    }
    let mut text = String::new();
    for (family, names) in &families {
        text.push_str(&format!("\n## {family}\n"));
        for name in names {
            let rows = &rows[name];
            text.push_str(&format!("\n### {name}\n\n```text\n"));
            for (row, _) in rows {
                text.push_str(&format!("{}\n", signature(row)));
            }
            text.push_str("```\n\n");
            let doc = rows.iter().map(|(row, _)| row.doc).find(|doc| !doc.is_empty()).unwrap_or_default();
            text.push_str(&format!("{}\n\n", wrapped(doc)));
            let mut all: Vec<String> = Vec::new();
            for form in rows.iter().flat_map(|(row, schema)| forms(row, schema)) {
                if !all.contains(&form) {
                    all.push(form);
                }
            }
            text.push_str(&format!("* Forms: {}\n", all.join(", ")));
            let dtypes = dtypes(rows);
            if !dtypes.is_empty() {
                text.push_str(&format!("* Dtypes: {dtypes}\n"));
            }
            let has_meta = rows.iter().any(|(row, _)| !limited(row, READS_VALUES));
            text.push_str(if has_meta { "* Devices: `cpu`, `tpu`, `meta`\n" } else { "* Devices: `cpu`, `tpu`\n" });
            let differentiable = rows.iter().any(|(row, schema)| is_differentiable(row, schema));
            text.push_str(&format!("* Differentiable: {}\n", if differentiable { "yes" } else { "no" }));
            let mut limits: Vec<String> = Vec::new();
            for limit in LIMITS {
                let is_of = |(row, _): &&(&Row, Schema)| row.schema.split('(').next() == Some(limit.op);
                let Some((row, _)) = rows.iter().find(is_of) else { continue };
                let what = match limit.question {
                    READS_VALUES => "`meta` is refused",
                    COMPLEX => "the gradient for complex tensors is not compared with differences",
                    COMPLEX_SECOND => "the second gradient for complex tensors is not compared with differences",
                    question => question,
                };
                let overload = row.schema.split('(').next().and_then(|head| head.split_once('.'));
                let of = overload.map_or_else(String::new, |(_, overload)| format!(" by overload `{overload}`"));
                let line = format!("{what}{of}: {}", limit.reason);
                if !limits.contains(&line) {
                    limits.push(line);
                }
            }
            for limit in limits {
                text.push_str(&format!("* Limit: {limit}\n"));
            }
        }
    }
    compare("target/ops.md", |_| text.clone());
}
