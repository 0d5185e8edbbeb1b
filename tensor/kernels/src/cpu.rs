//! Instruction sets of the kernels.
//!
//! The level is determined at the first kernel. `TORCHTPU_CPU_SIMD` (`portable`, `avx2`, `avx512`, `bf16` or `amx`) and
//! [`limit`] lower it. They cannot raise it above the machine's level.

use std::sync::atomic::{AtomicU8, Ordering};

/// A set of instructions. Each level includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Level {
    /// Instructions of every processor of the target.
    Portable = 1,
    /// AVX2, FMA, BMI2 and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 BF16: sums of products of `bf16` pairs.
    Bf16,
    /// AMX tiles of `bf16`, granted by the operating system.
    Amx,
}

impl Level {
    /// All levels, narrowest first.
    pub const ALL: [Level; 5] = [Level::Portable, Level::Avx2, Level::Avx512, Level::Bf16, Level::Amx];

    /// Return the value of `TORCHTPU_CPU_SIMD` that selects this level.
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

/// The current level as a number. Zero means not yet determined.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Return the level that kernels run at.
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

/// Return the fastest level of the machine. Intel's AVX-512 multiplies pairs of `bf16` at half the rate of `f32`, so
/// [`Level::Avx512`] is faster there. AMD's multiplies them at twice the rate.
fn fastest() -> Level {
    let machine = machine();
    #[cfg(target_arch = "x86_64")]
    if machine == Level::Bf16 && std::arch::x86_64::__cpuid(0).ebx.to_le_bytes() == *b"Genu" {
        return Level::Avx512;
    }
    machine
}

/// Limit kernels that start from now on to `level`, and return the level they run at. Tests use it to cover every
/// level, and programs to get equal results on several machines. [`Level::Amx`] removes the limit.
pub fn limit(level: Level) -> Level {
    let level = if level < machine() || level == Level::Bf16 { level.min(machine()) } else { fastest() };
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

/// Return the widest level of the machine.
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

/// Return the widest level of the machine.
#[cfg(not(target_arch = "x86_64"))]
pub fn machine() -> Level {
    Level::Portable
}

/// Whether AMX tiles also multiply `f16`.
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
    //! The operating system saves the tile registers of a process only after the process asks for it.

    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::sync::OnceLock;

    /// Whether the process may use AMX tiles of `bf16`.
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
        // SAFETY: this system call changes which registers the kernel saves for the process. It does not touch memory.
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
