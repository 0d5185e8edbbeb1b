//! Programs that differ only in where they read and write.
//!
//! `buffer[i] = x` in a loop would be a new program for every `i`. So each form has a second hash, without its
//! [offsets](torchtpu_tensor::op::Prim::offsets). If a form comes again with other offsets, the changed ones become
//! arguments of one program. Offsets that never change stay constants, which the compiler can optimize.
//!
//! Only forms without an executable are compared. A loop that always uses the same offsets does no extra work.

use crate::form::{Form, mix};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Offsets of the first form of a family, and the nodes whose offsets have changed.
struct Family {
    first: Vec<(usize, i64)>,
    moving: Vec<usize>,
    compiled: u32,
}

/// Number of ops up to which a program compiles so quickly that an offset passed at run time costs about as much.
const FEW_OPS: usize = 4;
/// Such a program is first compiled with this many different offsets.
const FEW_PROGRAMS: u32 = 8;
/// A program with more families than this never repeats.
const MAX_FAMILIES: usize = 1 << 12;

/// The families of forms that were compiled.
#[derive(Default)]
pub(crate) struct Families(Mutex<FxHashMap<u64, Family>>);

impl Families {
    /// Record a form that has no executable. If its offsets should be passed at run time, make it the form of that
    /// program, and return the form's hash and the offsets in the order of their numbers.
    pub(crate) fn generalize(&self, form: &mut Form) -> Option<(u64, Vec<i64>)> {
        let offsets = form.offsets();
        if offsets.is_empty() {
            return None;
        }
        let hash = form.hash_without_offsets();
        let mut families = self.0.lock();
        if families.len() >= MAX_FAMILIES && !families.contains_key(&hash) {
            families.clear();
        }
        let family =
            families.entry(hash).or_insert_with(|| Family { first: offsets.clone(), moving: Vec::new(), compiled: 0 });
        for (now, first) in offsets.iter().zip(&family.first) {
            if now.1 != first.1
                && let Err(at) = family.moving.binary_search(&now.0)
            {
                family.moving.insert(at, now.0);
            }
        }
        let is_few = form.nodes.len() <= FEW_OPS && family.compiled < FEW_PROGRAMS;
        if family.moving.is_empty() || is_few {
            family.compiled += 1;
            return None;
        }
        let moves = |node: usize| family.moving.binary_search(&node).is_ok();
        form.give_offsets(moves);
        let values = offsets.iter().filter(|(node, _)| moves(*node)).map(|o| o.1).collect();
        Some((family.moving.iter().fold(hash, |h, &n| mix(h, n as u64)), values))
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}
