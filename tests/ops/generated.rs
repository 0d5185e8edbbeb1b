//! Files of the repository that are written from the rows. `make generated` writes them, the tests compare them.

mod nodes;
mod reference;
mod stubs;

use std::path::Path;

/// Compare a file with the text that the rows give, or write it if `TORCHTPU_UPDATE` is set. `make` gets the present
/// text, or "" for a file that is not there.
fn compare(path: &str, make: impl Fn(&str) -> String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let old = std::fs::read_to_string(&file).unwrap_or_default();
    let new = make(&old);
    if old == new {
        return;
    }
    if std::env::var_os("TORCHTPU_UPDATE").is_some() {
        std::fs::write(&file, new).expect("a file of the repository can be written");
        return;
    }
    let line = old.lines().zip(new.lines()).position(|(a, b)| a != b);
    let line = line.unwrap_or_else(|| old.lines().count().min(new.lines().count()));
    panic!(
        "{path} is stale from line {} on: {:?}, but the rows give {:?}.\nnote: run `make generated`",
        line + 1,
        old.lines().nth(line).unwrap_or_default(),
        new.lines().nth(line).unwrap_or_default()
    );
}
