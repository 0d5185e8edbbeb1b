#![no_main]

#[path = "../../tests/fuzzing/entries.rs"]
#[allow(dead_code, reason = "a target uses one of the entries")]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::disk_cache(data));
