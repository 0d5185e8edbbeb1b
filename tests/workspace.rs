//! Test of the direction of dependencies between the workspace's crates, as `docs/architecture.md` states it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The crates of this workspace that each crate may import. A new crate must be added, else the test fails.
const ALLOWED: &[(&str, &[&str])] = &[
    ("torchtpu-kernels", &[]),
    ("torchtpu-linalg", &[]),
    ("torchtpu-stablehlo", &[]),
    ("torchtpu-pjrt", &[]),
    ("torchtpu-simulator", &[]),
    ("torchtpu-tensor", &["torchtpu-kernels", "torchtpu-linalg", "torchtpu-stablehlo"]),
    ("torchtpu-autograd", &["torchtpu-tensor"]),
    ("torchtpu-lazy", &["torchtpu-tensor", "torchtpu-stablehlo", "torchtpu-pjrt"]),
    ("torchtpu-nn", &["torchtpu-tensor", "torchtpu-autograd"]),
    ("torchtpu-distributed", ALL_LIBRARIES),
    ("torchtpu", LIBRARIES_AND_DISTRIBUTED),
    ("pytpu", LIBRARIES_AND_DISTRIBUTED),
];

const ALL_LIBRARIES: &[&str] = &[
    "torchtpu-kernels",
    "torchtpu-linalg",
    "torchtpu-stablehlo",
    "torchtpu-pjrt",
    "torchtpu-simulator",
    "torchtpu-tensor",
    "torchtpu-autograd",
    "torchtpu-lazy",
    "torchtpu-nn",
];

const LIBRARIES_AND_DISTRIBUTED: &[&str] = &[
    "torchtpu-kernels",
    "torchtpu-linalg",
    "torchtpu-stablehlo",
    "torchtpu-pjrt",
    "torchtpu-tensor",
    "torchtpu-autograd",
    "torchtpu-lazy",
    "torchtpu-nn",
    "torchtpu-distributed",
];

/// Return the packages of the workspace, as `cargo metadata` prints them. The crate of that name would turn on features
/// of `serde`, so that the extension module could not share the compiled dependencies of the tests.
fn packages() -> Vec<Value> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--manifest-path", manifest])
        .output()
        .expect("`cargo metadata` runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("`cargo metadata` prints JSON");
    metadata["packages"].as_array().expect("a workspace has packages").clone()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("`{key}` is a text"))
}

/// Return the direct dependencies of each workspace crate on other workspace crates, without those for tests and
/// benches. A test may import crates above its subject.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let packages = packages();
    let ours: BTreeSet<&str> = packages.iter().map(|package| text(package, "name")).collect();
    let direct = |package: &Value| {
        let all = package["dependencies"].as_array().expect("a package has dependencies");
        all.iter()
            .filter(|dependency| dependency["kind"] != "dev" && ours.contains(text(dependency, "name")))
            .map(|dependency| text(dependency, "name").to_string())
            .collect()
    };
    packages.iter().map(|package| (text(package, "name").to_string(), direct(package))).collect()
}

#[test]
fn crates_import_only_allowed_crates() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, direct) in dependencies() {
        let Some(may) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name} has no place in the direction of dependencies"));
            continue;
        };
        for dependency in direct.iter().filter(|dependency| !may.contains(&dependency.as_str())) {
            wrong.push(format!("{name} must not import {dependency}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_names_only_existing_crates() {
    let present = dependencies();
    let gone: Vec<_> = ALLOWED.iter().map(|(name, _)| *name).filter(|name| !present.contains_key(*name)).collect();
    assert!(gone.is_empty(), "not in the workspace: {gone:?}");
}

#[test]
fn versions_are_stated_only_in_the_workspace() {
    for package in packages() {
        let path = text(&package, "manifest_path");
        let manifest = std::fs::read_to_string(path).expect("a workspace manifest is readable");
        let mut in_dependencies = false;
        let own_version = manifest.lines().find(|line| {
            if line.starts_with('[') {
                in_dependencies = line.contains("dependencies") && !line.starts_with("[workspace");
                return false;
            }
            let value = line.split_once('=').map_or("", |(_, value)| value.trim());
            in_dependencies && (value.starts_with('"') || value.contains("version ="))
        });
        assert_eq!(own_version, None, "{path}: state the version in the workspace's Cargo.toml");
    }
}

/// A file outside of the table that may name ops: the names, and why. Without names, any.
const NAMES_OPS: &[(&str, &[&str], &str)] = &[
    ("tensor/src/methods.rs", &[], "methods of `Tensor` that call the row of their name"),
    ("tensor/src/storage/overlap.rs", &["amax"], "the reduction that finds the last writer"),
    ("tensor/src/types/scalar.rs", &["bool", "int", "float", "complex"], "names of Python's numbers"),
    ("tensor/src/schema/args.rs", &["bool", "int"], "names of Python's types in errors"),
    ("tensor/src/schema/mod.rs", &["bool", "int", "float"], "types in the grammar of schemas"),
    ("tensor/src/lower/math.rs", &["angle"], "the name of a call in programs"),
    ("pytpu/src/arguments/complaint.rs", &["bool", "int", "float"], "names of Python's types in errors"),
    ("pytpu/src/autograd/node.rs", &["index", "mean"], "names of parameters and results in `_saved_*` attributes"),
    ("pytpu/src/convert.rs", &["conj", "neg", "negative"], "bits of a tensor's state in files"),
    ("pytpu/src/distributed/store.rs", &["add", "clone", "detach"], "methods of stores and sockets"),
    ("pytpu/src/dtype.rs", &[], "second names of dtypes"),
    ("pytpu/src/indexing.rs", &[], "what `x[...]` and its assignment call"),
    ("pytpu/src/methods.rs", &[], "methods that are written by hand"),
    ("pytpu/src/properties.rs", &[], "properties, which are written by hand"),
    ("pytpu/src/number.rs", &["pow", "matmul", "double", "unbind"], "what operators of Python call"),
    ("pytpu/src/torch_function.rs", &[], "what operators of Python call, for `__torch_function__`"),
    ("pytpu/src/torch_dispatch/ops.rs", &["ones_like"], "the gradient that backward starts with"),
];

/// Functions that call an op by its name: the name is then no list of facts.
const CALLS: &[&str] = &["call(", "call_tensor(", "call_pair(", "find(", "call_op(", "call_tensor_op("];

/// The source of a file without comments and without its tests.
fn code(path: &std::path::Path) -> String {
    let text = std::fs::read_to_string(path).expect("a source file is readable");
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn rust_files(folder: &str, files: &mut Vec<String>) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(root.join(folder)).expect("a folder of sources") {
        let path = format!("{folder}/{}", entry.expect("an entry").file_name().to_string_lossy());
        if root.join(&path).is_dir() {
            rust_files(&path, files);
        } else if path.ends_with(".rs") {
            files.push(path);
        }
    }
}

/// Facts about ops stand in their rows and nodes. Code elsewhere that names ops would have to be changed with each new
/// op.
#[test]
fn only_the_table_lists_ops() {
    let rows: BTreeSet<&str> = torchtpu::ops::rows().map(|row| row.name()).collect();
    let mut files = Vec::new();
    for folder in ["tensor/src", "autograd/src", "lazy/src", "pytpu/src"] {
        rust_files(folder, &mut files);
    }
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !file.starts_with("tensor/src/ops/")) {
        let code = code(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        let allowed = NAMES_OPS.iter().find(|(name, ..)| name == file);
        // Odd pieces between quotes are literals; no literal of these files holds an escaped quote before a name.
        let pieces: Vec<&str> = code.split('"').collect();
        for i in (1..pieces.len()).step_by(2) {
            let name = pieces[i].split('.').next().unwrap_or_default();
            let name = name.strip_suffix('_').unwrap_or(name);
            let is_call = CALLS.iter().any(|call| pieces[i - 1].trim_end().ends_with(call));
            let is_allowed = allowed.is_some_and(|(_, names, _)| names.is_empty() || names.contains(&name));
            if rows.contains(name) && !is_call && !is_allowed {
                found.push(format!("{file}: {:?}", pieces[i]));
            }
        }
        if file.starts_with("lazy/src/") || file == "tensor/src/autocast.rs" {
            // Paths to functions of `Prim` begin with a small letter, its variants with a capital one.
            found.extend(
                code.split("Prim::")
                    .skip(1)
                    .filter(|rest| rest.starts_with(char::is_uppercase))
                    .map(|rest| format!("{file}: Prim::{}", rest.split(['(', ' ', '\n']).next().unwrap_or_default())),
            );
        }
    }
    assert!(found.is_empty(), "ops are listed outside of tensor/src/ops:\n{}", found.join("\n"));
    for (file, ..) in NAMES_OPS {
        assert!(files.iter().any(|f| f == file), "{file} is gone: take it out of the list");
    }
}

/// A folder of sources, and the most files that may import each other in a circle there.
const CIRCLES: &[(&str, usize)] = &[
    ("autograd/src", 4),
    ("lazy/src", 4),
    ("pytpu/src", 4),
    // Gradients and lowerings of ops are written with other ops, so the families of ops import each other.
    ("tensor/src", 19),
];

/// Return the paths in a tree of imports: `a::{b, c::d as e}` gives `a::b` and `a::c::d`.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.chars().filter(|c| !c.is_whitespace()).collect()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start, mut branches) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&inner[start..]);
    let branches = branches.into_iter().filter(|branch| !branch.trim().is_empty());
    branches.flat_map(|branch| paths_of(branch).into_iter().map(|path| format!("{}{path}", before.trim()))).collect()
}

/// Return the paths in a file's code that begin with `crate`, `super` or `self`.
fn local_paths(code: &str) -> Vec<String> {
    let is_local = |path: &str| ["crate::", "super::", "self::"].iter().any(|start| path.starts_with(start));
    let mut found = Vec::new();
    let mut rest = String::new();
    for statement in code.split_inclusive(';') {
        let import = statement.match_indices("use ").find(|(at, _)| {
            statement[..*at].chars().next_back().is_none_or(char::is_whitespace) && statement.ends_with(';')
        });
        match import {
            Some((at, _)) => {
                rest.push_str(&statement[..at]);
                found.extend(paths_of(&statement[at + "use ".len()..statement.len() - 1]));
            }
            None => rest.push_str(statement),
        }
    }
    let words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    found.extend(words.map(|word| word.trim_end_matches(':').to_string()));
    found.retain(|path| is_local(path));
    found
}

/// Return the module of a file in the folder `root`: `ops/conv.rs` is `["ops", "conv"]`, and `ops/mod.rs` is `["ops"]`.
fn module_of(root: &str, file: &str) -> Vec<String> {
    let path = file[root.len() + 1..].trim_end_matches(".rs");
    let mut parts: Vec<String> = path.split('/').map(str::to_string).collect();
    if parts.last().is_some_and(|last| last == "mod") || path == "lib" {
        parts.pop();
    }
    parts
}

/// Return the files of a folder that each file imports, without `lib.rs`, whose re-exports belong to no file.
fn imports(root: &str) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let mut files = Vec::new();
    rust_files(root, &mut files);
    let modules: BTreeSet<Vec<String>> = files.iter().map(|file| module_of(root, file)).collect();
    let mut imports = BTreeMap::new();
    for file in &files {
        let module = module_of(root, file);
        let code = code(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        let mut targets = BTreeSet::new();
        for path in local_paths(&code) {
            let mut target = module.clone();
            for part in path.split("::") {
                match part {
                    "crate" => target.clear(),
                    "super" => drop(target.pop()),
                    "self" => {}
                    name => target.push(name.to_string()),
                }
            }
            // The last parts of a path name items in a file.
            while !modules.contains(&target) {
                target.pop();
            }
            if target != module && !target.is_empty() {
                targets.insert(target);
            }
        }
        if !module.is_empty() {
            imports.insert(module, targets);
        }
    }
    imports
}

/// Return the files that `start` reaches over imports.
fn reachable(imports: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>, start: &[String]) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut open = vec![start.to_vec()];
    while let Some(module) = open.pop() {
        for target in imports.get(&module).into_iter().flatten() {
            if found.insert(target.clone()) {
                open.push(target.clone());
            }
        }
    }
    found
}

/// Files that import each other can only be understood together. In a circle each file reaches each other file.
#[test]
fn circles_of_files_are_short() {
    for (root, most) in CIRCLES {
        let imports = imports(root);
        let reach: BTreeMap<&Vec<String>, _> = imports.keys().map(|m| (m, reachable(&imports, m))).collect();
        for (module, reached) in &reach {
            let circle: Vec<String> =
                reached.iter().filter(|other| reach[other].contains(*module)).map(|other| other.join("/")).collect();
            assert!(circle.len() <= *most, "{root}: {} files import each other: {}", circle.len(), circle.join(", "));
        }
    }
}

#[test]
fn imports_are_read_from_code() {
    let code = "use crate::{a::{b, c as d}, e};\nuse std::fmt;\nfn f() { super::g::h(self::i::J) }";
    assert_eq!(local_paths(code), ["crate::a::b", "crate::a::c", "crate::e", "super::g::h", "self::i::J"]);
}
