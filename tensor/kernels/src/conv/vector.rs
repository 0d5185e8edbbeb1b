//! Vector registers of floating-point numbers, for convolutions whose innermost loops are written by hand.

use crate::gemm::Multiply;
use crate::real::Real;

/// One or several registers of elements. There is one type per element type and level, because the compiler does not
/// keep arrays of lanes in registers in loops as long as those of the transforms.
pub(super) trait Vector: Copy {
    type Element: Real;
    const LANES: usize;
    /// # Safety
    /// For all functions of this trait, the processor has the registers, and the elements exist.
    unsafe fn load(at: *const Self::Element) -> Self;
    unsafe fn store(self, at: *mut Self::Element);
    unsafe fn splat(v: Self::Element) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// Return `self + a * b`, rounded once if the processor can.
    unsafe fn plus(self, a: Self, b: Self) -> Self;
}

/// Implement [`Vector`] for a processor's registers, given the names of its loads, stores and arithmetic.
#[cfg(target_arch = "x86_64")]
macro_rules! vectors {
    ($($v:ident: $lanes:literal $t:ty, $features:literal, $load:ident, $store:ident, $set:ident, $add:ident,
        $sub:ident, $mul:ident,
        $fma:ident;)*) => {$(
        impl Vector for std::arch::x86_64::$v {
            type Element = $t;
            const LANES: usize = $lanes;
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn load(at: *const $t) -> Self {
                // SAFETY: the caller passes elements that exist, and has the registers.
                unsafe { std::arch::x86_64::$load(at) }
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn store(self, at: *mut $t) {
                // SAFETY: the caller passes elements that exist, and has the registers.
                unsafe { std::arch::x86_64::$store(at, self) }
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn splat(v: $t) -> Self {
                std::arch::x86_64::$set(v)
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn add(self, other: Self) -> Self {
                std::arch::x86_64::$add(self, other)
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn sub(self, other: Self) -> Self {
                std::arch::x86_64::$sub(self, other)
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn mul(self, other: Self) -> Self {
                std::arch::x86_64::$mul(self, other)
            }
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn plus(self, a: Self, b: Self) -> Self {
                std::arch::x86_64::$fma(a, b, self)
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
vectors! {
    __m512: 16 f32, "avx512f", _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_add_ps, _mm512_sub_ps,
    _mm512_mul_ps,
        _mm512_fmadd_ps;
    __m512d: 8 f64, "avx512f", _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_add_pd, _mm512_sub_pd,
    _mm512_mul_pd,
        _mm512_fmadd_pd;
    __m256: 8 f32, "avx2,fma", _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_add_ps, _mm256_sub_ps,
    _mm256_mul_ps,
        _mm256_fmadd_ps;
    __m256d: 4 f64, "avx2,fma", _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_add_pd, _mm256_sub_pd,
    _mm256_mul_pd,
        _mm256_fmadd_pd;
}

/// A vector for every processor: 16 bytes, or two registers of 8.
#[derive(Clone, Copy)]
pub(super) struct Four<A>([A; 4]);

impl<A: Real> Vector for Four<A> {
    type Element = A;
    const LANES: usize = 4;
    #[inline(always)]
    unsafe fn load(at: *const A) -> Self {
        // SAFETY: the caller passes four elements that exist.
        Four(unsafe { at.cast::<[A; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut A) {
        // SAFETY: the caller passes room for four elements.
        unsafe { at.cast::<[A; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(v: A) -> Self {
        Four([v; 4])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Four(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Four(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Four(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }
    #[inline(always)]
    unsafe fn plus(self, a: Self, b: Self) -> Self {
        Four(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
    }
}

/// A number type and its vector registers.
pub(super) trait Transform: Multiply {
    type Avx512: Vector<Element = Self>;
    type Avx2: Vector<Element = Self>;
}
#[cfg(target_arch = "x86_64")]
impl Transform for f32 {
    type Avx512 = std::arch::x86_64::__m512;
    type Avx2 = std::arch::x86_64::__m256;
}
#[cfg(target_arch = "x86_64")]
impl Transform for f64 {
    type Avx512 = std::arch::x86_64::__m512d;
    type Avx2 = std::arch::x86_64::__m256d;
}
#[cfg(not(target_arch = "x86_64"))]
impl<A: Multiply> Transform for A {
    type Avx512 = Four<A>;
    type Avx2 = Four<A>;
}

/// Define a function of vectors, compiled for the registers of each level and chosen at run time.
macro_rules! leveled {
    ($(#[$meta:meta])* fn $name:ident<$v:ident>($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        unsafe fn $name<A: $crate::conv::vector::Transform>($($arg: $ty),*) {
            #[inline(always)]
            unsafe fn body<A: $crate::conv::vector::Transform, $v: $crate::conv::vector::Vector<Element = A>>(
                $($arg: $ty),*
            ) {
                // SAFETY: the caller fulfils the conditions that each function states.
                unsafe { $body }
            }
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
                unsafe fn v4<A: $crate::conv::vector::Transform>($($arg: $ty),*) {
                    // SAFETY: the caller fulfils the function's conditions, and the processor has these registers.
                    unsafe { body::<A, A::Avx512>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma")]
                unsafe fn v3<A: $crate::conv::vector::Transform>($($arg: $ty),*) {
                    // SAFETY: the caller fulfils the function's conditions, and the processor has these registers.
                    unsafe { body::<A, A::Avx2>($($arg),*) }
                }
                match $crate::cpu::level() {
                    $crate::cpu::Level::Portable => {}
                    // SAFETY: at this level the processor has AVX2, and the caller fulfils the function's conditions.
                    $crate::cpu::Level::Avx2 => return unsafe { v3::<A>($($arg),*) },
                    // SAFETY: at this level the processor has AVX-512, and the caller fulfils the function's
                    // conditions.
                    _ => return unsafe { v4::<A>($($arg),*) },
                }
            }
            // SAFETY: the caller fulfils the function's conditions, and every processor has these registers.
            unsafe { body::<A, $crate::conv::vector::Four<A>>($($arg),*) }
        }
    };
}
pub(super) use leveled;

/// Copy less than 32 elements.
#[inline(always)]
pub(super) unsafe fn copy<A: Real>(from: *const A, to: *mut A, count: usize) {
    #[inline(always)]
    unsafe fn ends<A: Real, const N: usize>(from: *const A, to: *mut A, count: usize) {
        for at in [0, count - N] {
            // SAFETY: the caller copies at least `N` elements.
            unsafe { to.add(at).cast::<[A; N]>().write_unaligned(from.add(at).cast::<[A; N]>().read_unaligned()) };
        }
    }
    // SAFETY: the caller passes `count` elements on both sides.
    unsafe {
        match count {
            16.. => ends::<A, 16>(from, to, count),
            8..16 => ends::<A, 8>(from, to, count),
            4..8 => ends::<A, 4>(from, to, count),
            2..4 => ends::<A, 2>(from, to, count),
            1 => *to = *from,
            0 => {}
        }
    }
}
