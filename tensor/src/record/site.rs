//! Sites: the lines of the user's program that ops come from.
//!
//! A site is a number, 0 for none. A function of the language binding finds it when an op is recorded, but only while
//! sites [are wanted](set_on): device `cpu` and XLA:CPU do not need them. An op of a backward pass has the site of the
//! op whose gradient it computes.

use crate::state;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

/// The number of a site.
pub type Site = u32;

/// Set in the site of an op of a backward pass.
const BACKWARD: Site = 1 << 31;

/// A line of the user's program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Line {
    /// The file, as the program names it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

#[derive(Default)]
struct Table {
    numbers: FxHashMap<Line, Site>,
    lines: Vec<Line>,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static FIND: OnceLock<fn() -> Site> = OnceLock::new();
static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();

fn table() -> std::sync::MutexGuard<'static, Table> {
    TABLE.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner())
}

/// Install the function that finds the site of the current call. The first function stays.
pub fn install(find: fn() -> Site) {
    let _ = FIND.set(find);
}

/// Set whether sites of ops are wanted from now on.
pub fn set_on(on: bool) {
    IS_ON.store(on, Relaxed);
}

/// The number of a line.
pub fn number(line: Line) -> Site {
    let mut table = table();
    if let Some(&known) = table.numbers.get(&line) {
        return known;
    }
    // No program has so many lines. Further lines get no number.
    if table.lines.len() >= 1 << 24 {
        return 0;
    }
    table.lines.push(line.clone());
    let new = table.lines.len() as Site;
    table.numbers.insert(line, new);
    new
}

/// The line of a site.
pub fn line(site: Site) -> Option<Line> {
    let index = (site & !BACKWARD).checked_sub(1)?;
    table().lines.get(index as usize).cloned()
}

/// Whether a site is that of an op of a backward pass.
pub fn is_backward(site: Site) -> bool {
    site & BACKWARD != 0
}

/// The site of the current call; 0 if it is not known or sites are not wanted.
#[inline]
pub fn current() -> Site {
    if IS_ON.load(Relaxed) { find() } else { 0 }
}

#[cold]
fn find() -> Site {
    let forward = state::with(|s| s.forward_site.get());
    let site = if forward != 0 { forward | BACKWARD } else { FIND.get().map_or(0, |f| f()) };
    state::with(|s| s.site.set(site));
    site
}

/// The site of the last op that this thread recorded, which is the op whose node is being made.
#[inline]
pub(crate) fn last() -> Site {
    if IS_ON.load(Relaxed) { state::with(|s| s.site.get() & !BACKWARD) } else { 0 }
}

/// Guard: while it lives, ops of this thread are gradients of an op.
pub struct GradientOf(Site);

impl GradientOf {
    /// Begin the gradient of the op with this site.
    #[inline]
    pub fn begin(site: Site) -> GradientOf {
        state::with(|s| GradientOf(s.forward_site.replace(site)))
    }
}

impl Drop for GradientOf {
    #[inline]
    fn drop(&mut self) {
        state::with(|s| s.forward_site.set(self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_looked_for_while_sites_are_not_wanted() {
        install(|| unreachable!("sites are off"));
        assert_eq!((current(), last()), (0, 0));
    }

    #[test]
    fn equal_lines_have_one_number() {
        let at = |line| Line { file: "train.py".into(), line };
        let (a, b) = (number(at(3)), number(at(4)));
        assert_ne!(a, b);
        assert_eq!(number(at(3)), a);
        assert_eq!(line(a), Some(at(3)));
        assert_eq!(line(b | BACKWARD), Some(at(4)));
        assert!(is_backward(b | BACKWARD) && !is_backward(b));
        assert_eq!(line(0), None);
    }
}
