#![no_main]

#[path = "../../tests/fuzzing/entries.rs"]
#[allow(dead_code)]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::safetensors(data));
