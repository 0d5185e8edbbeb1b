//! Names the sources that decide what a compiled program is, so that the disk cache does not outlive a change of them.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::Path;

fn main() {
    let mut hasher = DefaultHasher::new();
    // Beside each other in the workspace; a crate that is built alone is known by its version.
    for folder in ["src", "../tensor/src", "../tensor/stablehlo/src"] {
        println!("cargo:rerun-if-changed={folder}");
        add(Path::new(folder), &mut hasher);
    }
    println!("cargo:rustc-env=TORCHTPU_SOURCES={:016x}", hasher.finish());
}

fn add(path: &Path, hasher: &mut DefaultHasher) {
    if let Ok(text) = fs::read(path) {
        text.hash(hasher);
        return;
    }
    let Ok(folder) = fs::read_dir(path) else { return };
    let mut entries: Vec<_> = folder.flatten().map(|e| e.path()).collect();
    entries.sort();
    entries.iter().for_each(|e| add(e, hasher));
}
