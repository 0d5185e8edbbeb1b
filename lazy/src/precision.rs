//! Precision of `float32` matrix products on accelerators.
//!
//! The units of a TPU multiply `bfloat16`. Six passes over parts of the operands have the precision of `float32`, three
//! passes two thirds of its digits, and one pass that of `bfloat16`. PyTorch's default is the first, and so is ours.
//! 16-bit floats always take one pass.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use torchtpu_stablehlo::{Precision, Profile};

static SETTING: AtomicU8 = AtomicU8::new(Precision::Highest as u8);
/// Whether the program chose a precision. Then it gets no hint.
static IS_CHOSEN: AtomicBool = AtomicBool::new(false);
static IS_NOTIFIED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static OF_THREAD: Cell<Option<Precision>> = const { Cell::new(None) };
}

/// The setting for the ops that this thread records now.
#[inline]
pub(crate) fn get() -> Precision {
    OF_THREAD.get().unwrap_or_else(of_process)
}

/// Set the precision of this thread, and return the setting before.
pub(crate) fn set_for_thread(precision: Option<Precision>) -> Option<Precision> {
    if precision.is_some() {
        IS_CHOSEN.store(true, Relaxed);
    }
    OF_THREAD.replace(precision)
}

fn of_process() -> Precision {
    [Precision::Highest, Precision::High, Precision::Medium][usize::from(SETTING.load(Relaxed))]
}

/// Change it, by the program's own choice.
pub(crate) fn set(precision: Precision) {
    IS_CHOSEN.store(true, Relaxed);
    SETTING.store(precision as u8, Relaxed);
}

/// The hint about the first `float32` product on a TPU, for a program that never chose a precision.
fn notice(profile: &Profile, precision: Precision, is_chosen: bool) -> Option<&'static str> {
    let is_told = profile.hints_at_precision && precision == Precision::Highest && !is_chosen;
    is_told.then_some(
        "torchtpu: products of float32 matrices take six passes on this TPU, since get_float32_matmul_precision() is \
         \"highest\". set_float32_matmul_precision(\"high\") takes three, \"medium\" one; either call ends \
         this notice.",
    )
}

/// Says on stderr, once, that products are slow and how to make them fast.
pub(crate) fn notify(profile: &Profile, precision: Precision) {
    if let Some(text) = notice(profile, precision, IS_CHOSEN.load(Relaxed))
        && !IS_NOTIFIED.swap(true, Relaxed)
    {
        eprintln!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tpu_programs_without_a_choice_get_the_hint() {
        assert!(notice(&Profile::TPU, Precision::Highest, false).unwrap().contains("six passes"));
        assert_eq!(notice(&Profile::TPU, Precision::Highest, true), None);
        assert_eq!(notice(&Profile::TPU, Precision::High, false), None);
        assert_eq!(notice(&Profile::XLA_CPU, Precision::Highest, false), None);
        assert_eq!(notice(&Profile::GPU, Precision::Highest, false), None);
    }
}
