//! Type stubs of the Python package, written from the rows.
//!
//! A stub file has a part that is written by hand, and a part between two comments that is written here. The test
//! fails when the second part is not what the rows give. `make generated` writes it.

use super::compare;
use std::collections::BTreeMap;
use torchtpu::schema::{Arg, Row, Schema, Scope, Ty};
use torchtpu::{Scalar, ops};

/// Lines of a stub are as long as those of other Python files.
const WIDTH: usize = 120;

const BEGIN: &str = "# From the op table, by `make generated`.";
const END: &str = "# End of what is from the op table.";

/// A parameter as a stub shows it.
#[derive(Clone, PartialEq)]
struct Parameter {
    name: String,
    /// The members of a union.
    types: Vec<String>,
    default: Option<String>,
    keyword_only: bool,
    /// Whether its name cannot be written as a keyword.
    is_unnameable: bool,
    /// Whether it takes all positional arguments: `*size`.
    is_spread: bool,
}

impl Parameter {
    fn keyword(name: &str, ty: &str, default: &str) -> Parameter {
        Parameter {
            name: name.to_string(),
            types: ty.split(" | ").map(str::to_string).collect(),
            default: Some(default.to_string()),
            keyword_only: true,
            is_unnameable: false,
            is_spread: false,
        }
    }

    fn text(&self) -> String {
        let mut types = self.types.clone();
        // `None` is the last member, as usual.
        types.sort_by_key(|ty| ty == "None");
        let (star, types) = (if self.is_spread { "*" } else { "" }, types.join(" | "));
        let default = self.default.as_ref().map_or_else(String::new, |default| format!(" = {default}"));
        format!("{star}{}: {types}{default}", self.name)
    }

    /// Whether another parameter differs in its types at most.
    fn is_alike(&self, other: &Parameter) -> bool {
        let without_types = |p: &Parameter| Parameter { types: Vec::new(), ..p.clone() };
        without_types(self) == without_types(other)
    }
}

/// One signature of a function or of a method.
#[derive(Clone, PartialEq)]
struct Signature {
    params: Vec<Parameter>,
    result: String,
}

/// All signatures of one name.
#[derive(Default)]
struct Name {
    function: Vec<Signature>,
    method: Vec<Signature>,
    is_function_of_torch: bool,
    fields: &'static [&'static str],
    has_out: bool,
}

/// Return the type of a parameter.
fn types(row: &Row, schema: &Schema, i: usize, in_place: bool) -> Vec<String> {
    let p = &schema.params[i];
    let text = match p.ty {
        Ty::Tensor if row.takes_number(schema, i, in_place) => "Tensor | Number | _complex",
        Ty::Tensor => "Tensor",
        Ty::TensorList if row.schema.contains("Tensor?[]") => "Sequence[Tensor | None]",
        Ty::TensorList => "Sequence[Tensor]",
        Ty::Int => "_int",
        Ty::IntList(0) => "Sequence[_int]",
        Ty::IntList(_) => "_int | Sequence[_int]",
        Ty::Scalar => "Number | _complex",
        Ty::ScalarList => "Sequence[Number | _complex]",
        Ty::Float => "_float",
        Ty::FloatList => "Sequence[_float]",
        Ty::Bool => "_bool",
        Ty::Str => "_str",
        Ty::DType => "_dtype",
        Ty::Device => "_device | _str | _int",
        Ty::Layout => "_layout",
        Ty::MemoryFormat => "_memory_format",
        Ty::Generator => "Generator",
    };
    let is_list = text.starts_with("Sequence[");
    let mut types: Vec<String> =
        if is_list { vec![text.to_string()] } else { text.split(" | ").map(str::to_string).collect() };
    if p.optional || default(schema, i).as_deref() == Some("None") {
        types.push("None".to_string());
    }
    types
}

/// Return the default of a parameter as Python source.
fn default(schema: &Schema, i: usize) -> Option<String> {
    let p = &schema.params[i];
    match (p.is_required(), p.default.argument(p.ty)) {
        (true, _) => None,
        (_, Arg::Scalar(Scalar::Bool(b))) => Some(if b { "True" } else { "False" }.to_string()),
        (_, Arg::Scalar(Scalar::Int(v))) => Some(v.to_string()),
        (_, Arg::Scalar(Scalar::Float(v))) if v.is_finite() => Some(format!("{v:?}")),
        (_, Arg::Str(s)) => Some(format!("\"{s}\"")),
        (_, Arg::Ints(v)) => Some(format!("{v:?}")),
        (_, Arg::None) => Some("None".to_string()),
        _ => Some("...".to_string()),
    }
}

/// Return the type of the result.
fn result(row: &Row, schema: &Schema, name: &str, in_place: bool) -> String {
    if in_place {
        let is_list = schema.params.first().is_some_and(|p| p.ty == Ty::TensorList);
        return if is_list { "list[Tensor] | tuple[Tensor, ...]" } else { "Tensor" }.to_string();
    }
    let text = row.schema.rsplit("->").next().unwrap_or_default().trim();
    let many = text.matches(',').count() + 1;
    match text {
        _ if !row.fields.is_empty() => format!("return_types.{name}"),
        "()" => "None".to_string(),
        "bool" => "_bool".to_string(),
        "int" => "_int".to_string(),
        "Scalar" => "Number".to_string(),
        _ if text.starts_with('(') && many > 1 => format!("tuple[{}]", vec!["Tensor"; many].join(", ")),
        _ if text.ends_with("[]") => "tuple[Tensor, ...]".to_string(),
        _ => "Tensor".to_string(),
    }
}

/// Return the signatures of a row: two where positional arguments may stand for a list.
fn signatures(row: &Row, schema: &Schema, name: &str, in_place: bool, method: bool) -> Vec<Signature> {
    let own = usize::from(method);
    let mut params: Vec<Parameter> = Vec::new();
    for (i, p) in schema.params.iter().enumerate().skip(own) {
        let is_unnameable = p.name == "from";
        let shown = match p.name {
            "self" if i == 0 => "input",
            "from" => "from_",
            name => name,
        };
        params.push(Parameter {
            name: shown.to_string(),
            types: types(row, schema, i, in_place),
            default: default(schema, i),
            keyword_only: p.keyword_only,
            is_unnameable,
            is_spread: false,
        });
    }
    if row.has_out && !in_place && !method {
        let many = row.schema.rsplit("->").next().is_some_and(|r| r.contains(','));
        let ty = if many { "tuple[Tensor, ...] | list[Tensor] | None" } else { "Tensor | None" };
        params.push(Parameter::keyword("out", ty, "None"));
    }
    if schema.makes_tensor() {
        params.push(Parameter::keyword("requires_grad", "_bool", "False"));
    }
    let plain = Signature { params, result: result(row, schema, name, in_place) };
    match schema.spread_list() {
        Some(i) if i == own => {
            let mut spread = plain.clone();
            let p = &mut spread.params[0];
            (p.is_spread, p.types, p.default) = (true, vec!["_int".to_string()], None);
            // What follows can be given by name only.
            spread.params[1..].iter_mut().for_each(|p| p.keyword_only = true);
            vec![plain, spread]
        }
        _ => vec![plain],
    }
}

/// Add a signature, or widen one that differs in the types of one parameter.
fn add(all: &mut Vec<Signature>, new: Signature) {
    for old in all.iter_mut() {
        let is_alike = old.result == new.result
            && old.params.len() == new.params.len()
            && old.params.iter().zip(&new.params).all(|(a, b)| a.is_alike(b));
        let different: Vec<usize> = if is_alike {
            (0..new.params.len()).filter(|&i| old.params[i].types != new.params[i].types).collect()
        } else {
            continue;
        };
        if let [] | [_] = different[..] {
            for i in different {
                let types = &mut old.params[i].types;
                types.extend(new.params[i].types.iter().filter(|ty| !types.contains(ty)).cloned().collect::<Vec<_>>());
            }
            return;
        }
    }
    all.push(new);
}

/// Collect the names of the table, as the Python module makes them.
fn names() -> BTreeMap<String, Name> {
    let mut names: BTreeMap<String, Name> = BTreeMap::new();
    for row in ops::rows() {
        let schema = Schema::parse(row.schema).expect("every schema parses");
        let is_method = matches!(row.scope, Scope::Both | Scope::Method)
            && schema.params.first().is_some_and(|p| p.ty == Ty::Tensor);
        let mut forms = vec![(schema.name.to_string(), false, is_method)];
        if row.has_in_place() {
            forms.push((format!("{}_", schema.name), true, is_method));
        }
        forms.extend(row.aliases.iter().map(|alias| (alias.to_string(), false, false)));
        for (name, in_place, is_method) in forms {
            let entry = names.entry(name.clone()).or_default();
            entry.is_function_of_torch |= match in_place {
                true => row.in_place_function,
                false => matches!(row.scope, Scope::Both | Scope::Function) && !row.aliases.contains(&name.as_str()),
            };
            if !in_place && entry.fields.is_empty() {
                (entry.fields, entry.has_out) = (row.fields, row.has_out);
            }
            for signature in signatures(row, &schema, &name, in_place, false) {
                add(&mut entry.function, signature);
            }
            if is_method {
                for signature in signatures(row, &schema, &name, in_place, true) {
                    add(&mut entry.method, signature);
                }
            }
        }
    }
    names
}

/// Return the parameters in brackets order, with the marks `/` and `*`.
fn parameter_list(signature: &Signature, method: bool) -> Vec<String> {
    let mut parts = Vec::new();
    if method {
        parts.push("self".to_string());
    }
    let last_unnameable = signature.params.iter().rposition(|p| p.is_unnameable);
    let mut is_keyword = false;
    for (i, p) in signature.params.iter().enumerate() {
        if p.keyword_only && !is_keyword && !parts.last().is_some_and(|part| part.starts_with('*')) {
            parts.push("*".to_string());
        }
        is_keyword |= p.keyword_only;
        parts.push(p.text());
        if last_unnameable == Some(i) {
            parts.push("/".to_string());
        }
    }
    parts
}

/// Return the lines of a function, formatted as `ruff format` does.
fn definition(name: &str, signatures: &[Signature], method: bool) -> String {
    let indent = if method { "    " } else { "" };
    let mut text = String::new();
    for signature in signatures {
        if signatures.len() > 1 {
            text.push_str(&format!("{indent}@overload\n"));
        }
        let (parts, result) = (parameter_list(signature, method), &signature.result);
        let all = parts.join(", ");
        let line = format!("{indent}def {name}({all}) -> {result}: ...\n");
        if line.len() - 1 <= WIDTH {
            text.push_str(&line);
        } else if indent.len() + 4 + all.len() <= WIDTH {
            text.push_str(&format!("{indent}def {name}(\n{indent}    {all}\n{indent}) -> {result}: ...\n"));
        } else {
            let lines: String = parts.iter().map(|part| format!("{indent}    {part},\n")).collect();
            text.push_str(&format!("{indent}def {name}(\n{lines}{indent}) -> {result}: ...\n"));
        }
    }
    text
}

/// Return a key that sorts `log2` before `log10`, as ruff sorts imports.
fn natural(name: &str) -> Vec<(char, u64)> {
    let mut key: Vec<(char, u64)> = Vec::new();
    for c in name.chars() {
        match (c.to_digit(10), key.last_mut()) {
            (Some(digit), Some(('0', number))) => *number = *number * 10 + u64::from(digit),
            (Some(digit), _) => key.push(('0', digit.into())),
            (None, _) => key.push((c, 0)),
        }
    }
    key
}

/// Return the class of a named tuple.
fn named_tuple(name: &str, fields: &[&str]) -> String {
    let tensors = vec!["Tensor"; fields.len()].join(", ");
    let names: Vec<String> = fields.iter().map(|field| format!("\"{field}\"")).collect();
    let mut text = format!("@final\nclass {name}(structseq[Tensor], tuple[{tensors}]):\n");
    text.push_str(&format!("    __match_args__: Final = ({})\n", names.join(", ")));
    for field in fields {
        text.push_str(&format!("    @property\n    def {field}(self) -> Tensor: ...\n"));
    }
    text.push('\n');
    text
}

/// Return the text with its generated part replaced. `part` gets the part that is written by hand.
fn replaced(text: &str, part: impl Fn(&str) -> String) -> String {
    let begin = text.find(BEGIN).expect("a line that begins the generated part") + BEGIN.len();
    let end = begin + text[begin..].find(END).expect("a line that ends the generated part");
    // The indentation of the last line belongs to the part by hand.
    let end = text[..end].rfind('\n').expect("several lines") + 1;
    let by_hand = format!("{}\n{}", &text[..begin], &text[end..]);
    let new = part(&by_hand);
    format!("{}\n{}{}", &text[..begin], new, &text[end..])
}

/// Whether the part written by hand defines a name, or imports it.
fn has_by_hand(text: &str, name: &str) -> bool {
    let defined = format!("def {name}(");
    let imported = format!("{name} as {name}");
    text.lines().map(str::trim_start).any(|line| {
        line.starts_with(&defined)
            || line.split([',', '(', ')']).any(|part| {
                let part = part.trim();
                part == imported || part.strip_suffix(&imported).is_some_and(|before| before.ends_with("import "))
            })
    })
}

/// What a marked part of a stub becomes, from the text that stands there.
type Part<'a> = &'a dyn Fn(&str) -> String;

#[test]
fn python_stubs_follow_the_rows() {
    let names = names();
    let prefixed = |prefix: &'static str| {
        let names = &names;
        move |by_hand: &str| {
            let mut text = String::new();
            for (name, entry) in names.iter() {
                if let Some(name) = name.strip_prefix(prefix)
                    && !has_by_hand(by_hand, name)
                {
                    text.push_str(&definition(name, &entry.function, false));
                }
            }
            text + "\n"
        }
    };
    let functions =
        |_: &str| names.iter().map(|(name, entry)| definition(name, &entry.function, false)).collect::<String>() + "\n";
    let methods = |by_hand: &str| {
        let by_hand = by_hand.split("\nclass Tensor(").nth(1).expect("the class of tensors");
        let with_method = names.iter().filter(|(name, entry)| !entry.method.is_empty() && !has_by_hand(by_hand, name));
        with_method.map(|(name, entry)| definition(name, &entry.method, true)).collect::<String>()
    };
    let imports = |by_hand: &str| {
        let mut of_torch: Vec<&str> = names
            .iter()
            .filter(|(name, entry)| entry.is_function_of_torch && !has_by_hand(by_hand, name))
            .map(|(name, _)| name.as_str())
            .collect();
        of_torch.sort_by_key(|name| natural(name));
        let lines: String = of_torch.iter().map(|name| format!("    {name} as {name},\n")).collect();
        format!("from ._op_table import (\n{lines})\n")
    };
    let tuples = |_: &str| {
        let mut text = String::new();
        for (name, entry) in names.iter().filter(|(_, entry)| !entry.fields.is_empty()) {
            text.push_str(&named_tuple(name, entry.fields));
            if entry.has_out {
                text.push_str(&named_tuple(&format!("{name}_out"), entry.fields));
            }
        }
        text
    };
    let parts: [(&str, Part<'_>); 7] = [
        ("_op_table.pyi", &functions),
        ("_C.pyi", &methods),
        ("__init__.pyi", &imports),
        ("return_types.pyi", &tuples),
        ("linalg.pyi", &prefixed("linalg_")),
        ("fft.pyi", &prefixed("fft_")),
        ("special.pyi", &prefixed("special_")),
    ];
    for (file, part) in parts {
        compare(&format!("pytpu/python/pytpu/{file}"), |text| replaced(text, part));
    }
}
