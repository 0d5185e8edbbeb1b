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
