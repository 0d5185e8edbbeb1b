//! Compiler options that the program sets.
//!
//! A list of options is kept once and has a number, which is part of the form of a segment. Programs that differ only
//! in their options share nothing.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use torchtpu_pjrt::OptionValue;
use torchtpu_stablehlo::Profile;

/// Names and values, in the order of the names.
pub(crate) type List = Arc<[(String, OptionValue)]>;

/// The options of all programs for a platform, before those of the program.
pub(crate) fn of_profile(profile: &Profile) -> Vec<(String, OptionValue)> {
    profile.options.iter().map(|&(name, value)| (name.to_string(), OptionValue::Bool(value))).collect()
}

/// The list with number `i + 1`. Number 0 is the empty list.
static LISTS: Mutex<Vec<List>> = Mutex::new(Vec::new());
static CURRENT: AtomicU32 = AtomicU32::new(0);

/// The number of the list that holds now.
pub(crate) fn current() -> u32 {
    CURRENT.load(Relaxed)
}

/// The number of a list.
pub(crate) fn number(mut list: Vec<(String, OptionValue)>) -> u32 {
    if list.is_empty() {
        return 0;
    }
    list.sort_by(|a, b| a.0.cmp(&b.0));
    let mut lists = LISTS.lock();
    let found = lists.iter().position(|known| **known == *list);
    let index = found.unwrap_or_else(|| {
        lists.push(list.into());
        lists.len() - 1
    });
    index as u32 + 1
}

/// Make the list with this number the current one.
pub(crate) fn set(number: u32) {
    CURRENT.store(number, Relaxed);
}

/// The list of a number.
pub(crate) fn list(number: u32) -> List {
    number.checked_sub(1).map_or_else(|| List::from([]), |index| LISTS.lock()[index as usize].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_have_one_number_and_others_have_others() {
        let list_of =
            |value| vec![("b".to_string(), OptionValue::Int64(value)), ("a".to_string(), OptionValue::Bool(true))];
        let mut reversed = list_of(1);
        reversed.reverse();
        let one = number(list_of(1));
        assert_eq!(one, number(reversed));
        assert_ne!(one, number(list_of(2)));
        assert_eq!(number(Vec::new()), 0);
        assert_eq!(list(one).iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(list(0).is_empty());
    }
}
