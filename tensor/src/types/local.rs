//! Numbers of the `tpu` devices of a host.
//!
//! A process has one `tpu` device, [`Device::TPU`](crate::Device::TPU), with index 0. A launcher starts several
//! processes on a host, each of which has a device of its own. Programs name these devices by numbers: the device of the
//! process with `LOCAL_RANK` 1 is `tpu:1`. So a number becomes an index where a device is named, and an index becomes a
//! number where a device is printed.
//!
//! Indices are the same in all processes, so that compiled programs are too.

use crate::{Error, Result};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of devices in the upper bits and the number of this process's device in the lower eight, or 0 before the
/// environment has been read.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// Return the number of `tpu` devices of the processes that a launcher has started on this host. It is 1 without a
/// launcher.
pub fn count() -> usize {
    (known() >> 8) as usize
}

/// Return the number of the device that this process has.
pub fn number() -> u8 {
    known() as u8
}

/// Set the number of the device that this process has.
///
/// # Errors
/// `Runtime` if the host has no device of this number.
pub fn choose(number: u8) -> Result<()> {
    if usize::from(number) >= count() {
        return Err(absent(number));
    }
    KNOWN.store(known() & !0xff | u32::from(number), Relaxed);
    Ok(())
}

/// Return the index of the device with this number, or the number of the device with this index.
pub(crate) fn exchange(n: u8) -> u8 {
    exchanged(n, number())
}

/// Return the error for a device that this process cannot use.
pub fn absent(number: u8) -> Error {
    let said = format!("tpu error: invalid device ordinal {number}; ");
    if usize::from(number) < count() {
        return Error::runtime(format!(
            "{said}it is the device of another process, and this one has tpu:{}",
            known() as u8
        ));
    }
    Error::runtime(format!("{said}this process has 1 device(s)"))
}

fn exchanged(n: u8, own: u8) -> u8 {
    match n {
        0 => own,
        n if n == own => 0,
        n => n,
    }
}

fn known() -> u32 {
    match KNOWN.load(Relaxed) {
        0 => read(),
        known => known,
    }
}

#[cold]
fn read() -> u32 {
    let variable = |name| std::env::var(name).ok().and_then(|text: String| text.trim().parse::<u8>().ok());
    let known = devices(variable("LOCAL_RANK"), variable("LOCAL_WORLD_SIZE"));
    // A number that another thread has chosen meanwhile stays.
    KNOWN.compare_exchange(0, known, Relaxed, Relaxed).err().unwrap_or(known)
}

fn devices(local_rank: Option<u8>, local_world_size: Option<u8>) -> u32 {
    let own = u32::from(local_rank.unwrap_or(0));
    let count = u32::from(local_world_size.unwrap_or(1)).max(own + 1);
    count << 8 | own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_the_process_has_index_0() {
        for own in [0, 1, 7] {
            assert_eq!(exchanged(own, own), 0);
            for n in 0..10 {
                assert_eq!(exchanged(exchanged(n, own), own), n);
            }
        }
    }

    #[test]
    fn a_process_counts_at_least_its_own_device() {
        assert_eq!(devices(None, None), 1 << 8);
        assert_eq!(devices(Some(1), Some(2)), 2 << 8 | 1);
        assert_eq!(devices(None, Some(4)), 4 << 8);
        assert_eq!(devices(Some(3), None), 4 << 8 | 3);
    }
}
