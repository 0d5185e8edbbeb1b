//! The engine and its state: MT19937, the seed, and the spare normal number of the last Box-Muller pair.

use crate::KernelError;
use std::hash::{BuildHasher, Hasher};

/// Number of words of state.
const N: usize = 624;
/// Distance to the word that is mixed in.
const M: usize = 397;

/// The 32-bit Mersenne Twister, with PyTorch's counters of the used words of a block.
#[derive(Clone)]
struct Mt19937 {
    state: [u32; N],
    /// Number of words until the next refill, plus one. It is 1 after seeding.
    left: usize,
    /// Index of the next word.
    next: usize,
}

#[inline(always)]
fn mixed(upper: u32, lower: u32) -> u32 {
    (((upper & 0x8000_0000) | (lower & 0x7fff_ffff)) >> 1) ^ ((lower & 1).wrapping_neg() & 0x9908_b0df)
}

#[inline(always)]
fn tempered(mut y: u32) -> u32 {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c_5680;
    y ^= (y << 15) & 0xefc6_0000;
    y ^ (y >> 18)
}

impl Mt19937 {
    /// Seed the engine. It uses only the low 32 bits of a seed.
    fn new(seed: u32) -> Mt19937 {
        let mut state = [seed; N];
        for j in 1..N {
            let s = state[j - 1];
            state[j] = 1_812_433_253u32.wrapping_mul(s ^ (s >> 30)).wrapping_add(j as u32);
        }
        Mt19937 { state, left: 1, next: 0 }
    }

    fn refill(&mut self) {
        let s = &mut self.state;
        // Split where the index of the mixed-in word wraps around, so that each loop has a fixed distance and
        // vectorises.
        for i in 0..N - M {
            s[i] = s[i + M] ^ mixed(s[i], s[i + 1]);
        }
        for i in N - M..N - 1 {
            s[i] = s[i + M - N] ^ mixed(s[i], s[i + 1]);
        }
        s[N - 1] = s[M - 1] ^ mixed(s[N - 1], s[0]);
        self.left = N;
        self.next = 0;
    }

    fn fill(&mut self, mut out: &mut [u32]) {
        while !out.is_empty() {
            if self.left == 1 {
                self.refill();
                // The scalar rule is "decrement, refill at zero", so a block holds one more word than `left`.
                self.left += 1;
            }
            let m = out.len().min(self.left - 1);
            let (now, later) = out.split_at_mut(m);
            for (o, &s) in now.iter_mut().zip(&self.state[self.next..self.next + m]) {
                *o = tempered(s);
            }
            self.next += m;
            self.left -= m;
            out = later;
        }
    }
}

/// A source of random numbers whose streams equal those of PyTorch's CPU generator, bit for bit.
#[derive(Clone)]
pub struct Generator {
    seed: u64,
    engine: Mt19937,
    /// Second value of the last Box-Muller pair, before mean and standard deviation are applied.
    spare_normal: Option<f64>,
}

/// Number of bytes of [`Generator::get_state`].
pub const STATE_BYTES: usize = 5056;

/// Seed of a generator that was never seeded.
pub const DEFAULT_SEED: u64 = 67_280_421_310_721;

impl Default for Generator {
    fn default() -> Generator {
        Generator::new(DEFAULT_SEED)
    }
}

impl Generator {
    /// Return a generator with a seed. Seeds that agree in their low 32 bits give the same stream.
    pub fn new(seed: u64) -> Generator {
        Generator { seed, engine: Mt19937::new(seed as u32), spare_normal: None }
    }

    /// Start the stream of a seed.
    pub fn manual_seed(&mut self, seed: u64) {
        *self = Generator::new(seed);
    }

    /// Return the seed last set, all 64 bits of it.
    pub fn initial_seed(&self) -> u64 {
        self.seed
    }

    /// Seed with a number that differs from run to run, and return it.
    pub fn seed(&mut self) -> u64 {
        // The standard library seeds each `RandomState` from the operating system. The clock separates forked
        // processes.
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        if let Ok(now) = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            hasher.write_u128(now.as_nanos());
        }
        let seed = hasher.finish();
        self.manual_seed(seed);
        seed
    }

    /// Return the whole state in PyTorch's layout (`torch.Generator.get_state`), little endian.
    pub fn get_state(&self) -> [u8; STATE_BYTES] {
        let mut blob = [0; STATE_BYTES];
        blob[..8].copy_from_slice(&self.seed.to_le_bytes());
        blob[8..12].copy_from_slice(&(self.engine.left as i32).to_le_bytes());
        blob[12..16].copy_from_slice(&1i32.to_le_bytes());
        blob[16..24].copy_from_slice(&(self.engine.next as u64).to_le_bytes());
        for (bytes, &word) in blob[24..5016].chunks_exact_mut(8).zip(&self.engine.state) {
            bytes.copy_from_slice(&u64::from(word).to_le_bytes());
        }
        if let Some(z) = self.spare_normal {
            blob[5024..5032].copy_from_slice(&z.to_le_bytes());
            blob[5040..5044].copy_from_slice(&1i32.to_le_bytes());
        }
        blob
    }

    /// Restore a state of [`Generator::get_state`], taken here or in PyTorch.
    ///
    /// # Errors
    /// Fails if the blob has another length or cannot be the state of an engine.
    pub fn set_state(&mut self, blob: &[u8]) -> Result<(), KernelError> {
        if blob.len() != STATE_BYTES {
            return Err(KernelError::Other(format!(
                "Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be {}",
                blob.len()
            )));
        }
        let u64_at = |i: usize| u64::from_le_bytes(blob[i..i + 8].try_into().expect("eight bytes"));
        let i32_at = |i: usize| i32::from_le_bytes(blob[i..i + 4].try_into().expect("four bytes"));
        let (left, seeded, next) = (i32_at(8), i32_at(12), u64_at(16));
        let in_range = seeded == 1 && (1..=N as i32).contains(&left) && next <= N as u64;
        // The block must hold all words that `left` promises, else a later draw would read beyond it.
        if !in_range || left as u64 - 1 > N as u64 - next {
            return Err(KernelError::Other("Invalid mt19937 state".into()));
        }
        let mut state = [0; N];
        for (j, word) in state.iter_mut().enumerate() {
            *word = u64_at(24 + 8 * j) as u32;
        }
        self.seed = u64_at(0);
        self.engine = Mt19937 { state, left: left as usize, next: next as usize };
        self.spare_normal = (i32_at(5040) != 0).then(|| f64::from_bits(u64_at(5024)));
        Ok(())
    }

    /// Draw words of 32 bits.
    pub fn fill_u32(&mut self, out: &mut [u32]) {
        self.engine.fill(out);
    }

    /// Draw one word of 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        let mut w = [0];
        self.engine.fill(&mut w);
        w[0]
    }

    /// Draw one number of 64 bits: two words, the first being the high half.
    pub fn next_u64(&mut self) -> u64 {
        let mut w = [0; 2];
        self.engine.fill(&mut w);
        u64::from(w[0]) << 32 | u64::from(w[1])
    }

    /// Draw a uniform number in [0, 1) with 53 bits.
    pub fn next_f64(&mut self) -> f64 {
        unit_f64(self.next_u64())
    }

    /// Draw a standard normal number through the scalar path. Every second call returns the spare number and draws
    /// nothing.
    pub fn next_normal(&mut self) -> f64 {
        if let Some(z) = self.spare_normal.take() {
            return z;
        }
        let u1 = self.next_f64();
        let u2 = self.next_f64();
        let radius = (-2.0 * (-u2).ln_1p()).sqrt();
        let theta = 2.0 * std::f64::consts::PI * u1;
        self.spare_normal = Some(radius * theta.sin());
        radius * theta.cos()
    }
}

/// Return the low 53 bits as a uniform number in [0, 1).
#[inline(always)]
pub(super) fn unit_f64(w: u64) -> f64 {
    (w & ((1 << 53) - 1)) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Return the low 24 bits as a uniform number in [0, 1).
#[inline(always)]
pub(super) fn unit_f32(w: u32) -> f32 {
    (w & 0xff_ffff) as i32 as f32 * (1.0 / (1u32 << 24) as f32)
}
