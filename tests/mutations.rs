//! Test of parsers of external bytes with mutated seeds. Mutations are equal in every run, so that a failure repeats.
//!
//! `TORCHTPU_MUTATIONS` sets the number of mutations per seed (2,000 by default). A failure prints the input, which is
//! then added to `fuzz/seeds`.

#[path = "fuzzing/entries.rs"]
mod entries;

use std::panic::catch_unwind;
use std::path::Path;

/// Marsaglia's xorshift64*, whose numbers are equal on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n.max(1)
    }
}

/// Numbers at which sizes, counts and offsets often overflow.
const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    65,
    255,
    256,
    1 << 16,
    1 << 31,
    1 << 32,
    1 << 47,
    1 << 62,
    1 << 63,
    u64::MAX,
    u64::MAX - 7,
];

fn mutate(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            2 => bytes.insert(at, random.below(256) as u8),
            3 => bytes.truncate(at),
            4 => {
                let end = (at + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            5 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let at = at / 8 * 8;
                let end = (at + 8).min(bytes.len());
                bytes[at.min(end)..end].copy_from_slice(&number[..end - at.min(end)]);
            }
            _ => {
                let from = random.below(other.len() + 1);
                let piece = &other[from..(from + random.below(32)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
    bytes
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).expect("a target has seeds").map(|f| f.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn no_mutated_input_makes_a_parser_panic() {
    let count =
        std::env::var("TORCHTPU_MUTATIONS").map_or(2_000, |n| n.parse().expect("TORCHTPU_MUTATIONS is a number"));
    let mut failures = Vec::new();
    for (name, entry) in entries::TARGETS {
        let seeds = seeds(name);
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        for (i, seed) in seeds.iter().enumerate() {
            for n in 0..=count {
                let other = &seeds[random.below(seeds.len())];
                let input = if n == 0 { seed.clone() } else { mutate(seed, other, &mut random) };
                if catch_unwind(|| entry(&input)).is_err() {
                    failures.push(format!("{name}, seed {i}, mutation {n}: {:?}", String::from_utf8_lossy(&input)));
                    break;
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
