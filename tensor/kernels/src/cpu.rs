//! Which instructions kernels use.
//!
//! Found out once, at the first kernel. `TORCHTPU_CPU_SIMD` (`portable`, `avx2`, `avx512`, `bf16` or `amx`) keeps them below what
//! the machine has, and so does [`limit`]; neither can raise them.

use std::sync::atomic::{AtomicU8, Ordering};

/// A set of instructions, each including those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Level {
    /// What every processor of the target has.
    Portable = 1,
    /// AVX2, FMA, BMI2 and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 BF16: sums of products of pairs.
    Bf16,
    /// AMX tiles of `bf16`, which the operating system has granted.
    Amx,
}

impl Level {
    /// All of them, narrowest first.
    pub const ALL: [Level; 5] = [Level::Portable, Level::Avx2, Level::Avx512, Level::Bf16, Level::Amx];

    /// The name that `TORCHTPU_CPU_SIMD` knows it by.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Bf16 => "bf16",
            Level::Amx => "amx",
        }
    }

    fn of(number: u8) -> Level {
        Level::ALL[(number.max(1) as usize - 1).min(4)]
    }
}

/// Zero until the machine has been asked.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level that kernels run at.
#[inline(always)]
pub fn level() -> Level {
    let level = LEVEL.load(Ordering::Relaxed);
    if level != 0 {
        return Level::of(level);
    }
    first()
}

#[cold]
fn first() -> Level {
    let asked = std::env::var("TORCHTPU_CPU_SIMD").unwrap_or_default();
    limit(Level::ALL.into_iter().find(|l| l.name() == asked.trim()).unwrap_or(Level::Amx))
}

/// The level that is fastest where nothing is asked for. Pairs of `bf16` are multiplied at half the rate of `f32` by Intel's AVX-512,
/// where widening them first is faster, and at twice the rate by AMD's.
fn fastest() -> Level {
    let machine = machine();
    #[cfg(target_arch = "x86_64")]
    if machine == Level::Bf16 && std::arch::x86_64::__cpuid(0).ebx.to_le_bytes() == *b"Genu" {
        return Level::Avx512;
    }
    machine
}

/// Keeps kernels that start from now on at `level` or below, and says at which one they are: for tests of every level, and
/// for results that must be the same on several machines. The widest level takes the limit away.
pub fn limit(level: Level) -> Level {
    let level = if level < machine() || level == Level::Bf16 { level.min(machine()) } else { fastest() };
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

/// What the machine has.
#[cfg(target_arch = "x86_64")]
pub fn machine() -> Level {
    if !(is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("f16c"))
    {
        return Level::Portable;
    }
    if !(is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl"))
    {
        return Level::Avx2;
    }
    if !is_x86_feature_detected!("avx512bf16") {
        return Level::Avx512;
    }
    if amx::is_granted() { Level::Amx } else { Level::Bf16 }
}

/// What the machine has.
#[cfg(not(target_arch = "x86_64"))]
pub fn machine() -> Level {
    Level::Portable
}

/// Whether tiles multiply `f16` too, where they may be used at all.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_f16_tiles() -> bool {
    static HAS: AtomicU8 = AtomicU8::new(0);
    let known = HAS.load(Ordering::Relaxed);
    if known != 0 {
        return known == 2;
    }
    const FP16: u32 = 1 << 21;
    let has = std::arch::x86_64::__cpuid(0).eax >= 7 && std::arch::x86_64::__cpuid_count(7, 1).eax & FP16 != 0;
    HAS.store(1 + has as u8, Ordering::Relaxed);
    has
}

#[cfg(target_arch = "x86_64")]
mod amx {
    //! Tiles are state that the kernel saves for a process only after the process has asked for them.

    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::sync::OnceLock;

    /// Whether tiles of `bf16` may be used.
    pub(super) fn is_granted() -> bool {
        static GRANTED: OnceLock<bool> = OnceLock::new();
        *GRANTED.get_or_init(|| exists() && ask())
    }

    fn exists() -> bool {
        const BF16: u32 = 1 << 22;
        const TILE: u32 = 1 << 24;
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILE) == BF16 | TILE
    }

    #[cfg(target_os = "linux")]
    fn ask() -> bool {
        const ARCH_PRCTL: i64 = 158;
        const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
        const TILE_DATA: i64 = 18;
        let mut result = ARCH_PRCTL;
        // SAFETY: a system call that changes which state the kernel saves for this process, and no memory.
        unsafe {
            std::arch::asm!("syscall", inlateout("rax") result, in("rdi") ARCH_REQ_XCOMP_PERM, in("rsi") TILE_DATA,
                out("rcx") _, out("r11") _, options(nostack));
        }
        result == 0
    }

    #[cfg(not(target_os = "linux"))]
    fn ask() -> bool {
        false
    }
}
