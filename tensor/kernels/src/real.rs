//! Floating-point arithmetic of the neural-network kernels: accumulator types, a vectorised `exp`, and conversions
//! between views and contiguous accumulators.
//!
//! Kernels compute on contiguous `f32` or `f64`. A contiguous view of either is used in place. Any other view (strides,
//! `f16`, `bf16`) is converted into scratch memory once. Results are rounded once, when they are written.

use crate::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::par::{Scratch, Shared, parallel_for};
use crate::{DType, Element, View, ViewMut, bf16, f16};
use std::ops::{Add, AddAssign, Deref, Div, Mul, MulAssign, Neg, Sub};

/// Define a function compiled three times, for AVX-512, AVX2 and the baseline, and chosen at run time.
///
/// Expands to a function that holds the body as `#[inline(always)]` and one `#[target_feature]` wrapper per level, so
/// that LLVM vectorises the same loops at each width.
macro_rules! simd {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$($g:ident : $bound:path),*>)? ($($arg:ident : $ty:ty),* $(,)?)
        $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
                fn v4 $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
                #[target_feature(enable = "avx2,fma,f16c")]
                fn v3 $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
                match $crate::cpu::level() {
                    $crate::cpu::Level::Portable => {}
                    // SAFETY: at this level the processor has AVX2.
                    $crate::cpu::Level::Avx2 => return unsafe { v3($($arg),*) },
                    // SAFETY: at this level the processor has AVX-512.
                    _ => return unsafe { v4($($arg),*) },
                }
            }
            body($($arg),*)
        }
    };
}
pub(crate) use simd;

/// A type that kernels compute in: `f32` or `f64`.
pub(crate) trait Real:
    Element
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + MulAssign
{
    const ZERO: Self;
    const ONE: Self;
    const NEG_INF: Self;
    /// Return `e^self` to two units in the last place. The `f32` version vectorises.
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
    /// Return `self * b + c`, rounded once.
    fn fused(self, b: Self, c: Self) -> Self;
    #[inline(always)]
    fn of(v: f64) -> Self {
        Self::from_f64(v)
    }
    /// Whether the number is NaN.
    fn is_nan(self) -> bool;
    /// Return the larger number. If one is NaN, return either.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self > other { self } else { other }
    }
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const NEG_INF: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
    #[inline(always)]
    fn exp(self) -> f32 {
        exp_f32(self)
    }
    #[inline(always)]
    fn ln(self) -> f32 {
        f32::ln(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }
    #[inline(always)]
    fn fused(self, b: f32, c: f32) -> f32 {
        self.mul_add(b, c)
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const NEG_INF: f64 = f64::NEG_INFINITY;
    #[inline(always)]
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
    #[inline(always)]
    fn exp(self) -> f64 {
        f64::exp(self)
    }
    #[inline(always)]
    fn ln(self) -> f64 {
        f64::ln(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn fused(self, b: f64, c: f64) -> f64 {
        self.mul_add(b, c)
    }
}

/// Compute `e^x` without branches: `x = n ln 2 + r`, a polynomial in `r`, and `2^n` in two factors, so that subnormal
/// results are rounded once. Products of `n` with the upper part of `ln 2` are exact, so the reduction needs no fused
/// multiply-add. An `x` whose result underflows to zero, such as minus infinity, gets a factor of zero: a product that
/// underflows costs hundreds of cycles.
#[inline(always)]
fn exp_f32(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer held in the low mantissa bits.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Comparisons with NaN are false, so a NaN reaches the polynomial and makes its result NaN.
    let x = if x > 89.0 { 89.0 } else { x };
    let nothing = x < -104.0;
    let x = if nothing { -104.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let bits = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 5e-1;
    let p = p * (r * r) + r + 1.0;
    let half = bits >> 1;
    let scale = |e: i32| f32::from_bits((e.wrapping_add(127) as u32) << 23);
    p * scale(half) * if nothing { 0.0 } else { scale(bits.wrapping_sub(half)) }
}

/// An element type of floating-point kernels, with its conversions to and from a [`Real`].
pub(crate) trait Float: Element {
    type Acc: Real;
    fn up(self) -> Self::Acc;
    fn down(v: Self::Acc) -> Self;
}

impl Float for f32 {
    type Acc = f32;
    #[inline(always)]
    fn up(self) -> f32 {
        self
    }
    #[inline(always)]
    fn down(v: f32) -> f32 {
        v
    }
}

impl Float for f64 {
    type Acc = f64;
    #[inline(always)]
    fn up(self) -> f64 {
        self
    }
    #[inline(always)]
    fn down(v: f64) -> f64 {
        v
    }
}

impl Float for bf16 {
    type Acc = f32;
    #[inline(always)]
    fn up(self) -> f32 {
        bf16_to_f32(self.to_bits())
    }
    #[inline(always)]
    fn down(v: f32) -> bf16 {
        bf16::from_bits(f32_to_bf16(v))
    }
}

impl Float for f16 {
    type Acc = f32;
    #[inline(always)]
    fn up(self) -> f32 {
        f16_to_f32(self.to_bits())
    }
    #[inline(always)]
    fn down(v: f32) -> f16 {
        f16::from_bits(f32_to_f16(v))
    }
}

/// Run a block with `$T` bound to the Rust type of a floating-point [`DType`]. Panics for other dtypes, which callers
/// must refuse.
macro_rules! for_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::for_types!($dtype, $T => $body, [F32 f32, F64 f64, BF16 $crate::bf16, F16 $crate::f16],
            other => panic!("floating-point kernel called with {}", other.name()))
    };
}
pub(crate) use for_float;

/// Run a block with `$A` bound to the accumulator type of a floating-point [`DType`].
macro_rules! for_acc {
    ($dtype:expr, $A:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F64 => {
                type $A = f64;
                $body
            }
            other => {
                assert!(other.is_float(), "floating-point kernel called with {}", other.name());
                type $A = f32;
                $body
            }
        }
    };
}
pub(crate) use for_acc;

/// Contiguous accumulators of a view, borrowed if possible.
pub(crate) enum Input<'a, A> {
    Borrowed(&'a [A]),
    Copied(Scratch<A>),
}

impl<A> Deref for Input<'_, A> {
    type Target = [A];
    #[inline(always)]
    fn deref(&self) -> &[A] {
        match self {
            Input::Borrowed(x) => x,
            Input::Copied(x) => x,
        }
    }
}

/// Return the elements of a floating-point view as contiguous accumulators.
pub(crate) fn input<'a, A: Real>(x: &View<'a>) -> Input<'a, A> {
    if let Some(x) = x.as_slice::<A>() {
        return Input::Borrowed(x);
    }
    let mut copy = Scratch::any(x.numel());
    gather(x, &mut copy);
    Input::Copied(copy)
}

/// Call `f` to write the elements of a view as contiguous accumulators. Their initial values are unspecified.
pub(crate) fn output<A: Real, R>(out: &mut ViewMut, f: impl FnOnce(&mut [A]) -> R) -> R {
    if let Some(out) = out.as_slice_mut::<A>() {
        return f(out);
    }
    let mut copy = Scratch::any(out.numel());
    let result = f(&mut copy);
    scatter(&copy, out);
    result
}

simd! {
    fn raise<T: Float>(x: &[T], out: &mut [T::Acc]) {
        for (o, x) in out.iter_mut().zip(x) {
            *o = x.up();
        }
    }
}

simd! {
    pub(crate) fn round<T: Float>(x: &[T::Acc], out: &mut [T]) {
        for (o, x) in out.iter_mut().zip(x) {
            *o = T::down(*x);
        }
    }
}

/// Return sizes and strides without size-one dimensions, and with mergeable dimensions merged.
pub(crate) fn merged(sizes: &[usize], strides: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let (mut n, mut s): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (&size, &stride) in sizes.iter().zip(strides) {
        if size == 1 {
            continue;
        }
        match (n.last_mut(), s.last_mut()) {
            (Some(last), Some(step)) if *step == stride * size => {
                *last *= size;
                *step = stride;
            }
            _ => {
                n.push(size);
                s.push(stride);
            }
        }
    }
    (n, s)
}

/// Return the offset of the `row`-th index of `sizes` in row-major order.
#[inline]
pub(crate) fn offset_of(mut row: usize, sizes: &[usize], strides: &[usize]) -> usize {
    let mut offset = 0;
    for (&n, &s) in sizes.iter().zip(strides).rev() {
        offset += row % n * s;
        row /= n;
    }
    offset
}

/// Call `f(first position, offset, length, stride)` for the innermost runs of a layout, in parallel.
fn runs(sizes: &[usize], strides: &[usize], f: impl Fn(usize, usize, usize, usize) + Sync) {
    if sizes.contains(&0) {
        return;
    }
    let (mut n, mut s) = merged(sizes, strides);
    let (inner, stride) = (n.pop().unwrap_or(1), s.pop().unwrap_or(1));
    let outer: usize = n.iter().product();
    if outer == 1 {
        return parallel_for(inner, 1 << 16, |r| f(r.start, r.start * stride, r.len(), stride));
    }
    parallel_for(outer, (1usize << 15).div_ceil(inner), |rows| {
        for row in rows {
            f(row * inner, offset_of(row, &n, &s), inner, stride);
        }
    });
}

/// Copy a view's elements of any floating-point dtype to accumulators, in row-major order.
pub(crate) fn gather<A: Real>(x: &View, out: &mut [A]) {
    assert_eq!(x.numel(), out.len());
    let to = Shared::new(out);
    match x.dtype() {
        DType::F32 | DType::F64 | DType::BF16 | DType::F16 => {}
        other => panic!("floating-point kernel called with {}", other.name()),
    }
    for_float!(x.dtype(), T => {
        runs(x.sizes(), x.strides(), |at, offset, n, stride| {
            // SAFETY: the run lies within the view, and runs are disjoint in `out`.
            let (from, out) = unsafe { (x.ptr().cast::<T>().add(offset), to.slice(at, n)) };
            if stride == 1 && std::any::TypeId::of::<<T as Float>::Acc>() == std::any::TypeId::of::<A>() {
                // SAFETY: the run is contiguous, and both slices have the same accumulator type.
                let (from, out) = unsafe {
                    (std::slice::from_raw_parts(from, n), std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), n))
                };
                raise(from, out);
            } else {
                for i in 0..n {
                    // SAFETY: `i < n`, so the element lies within the run.
                    out[i] = A::from_f64(unsafe { *from.add(i * stride) }.to_f64());
                }
            }
        })
    });
}

/// Round accumulators to a view's elements.
pub(crate) fn scatter<A: Real>(x: &[A], out: &mut ViewMut) {
    assert_eq!(out.numel(), x.len());
    for_float!(out.dtype(), T => {
        let base = out.ptr() as usize;
        runs(out.sizes(), out.strides(), |at, offset, n, stride| {
            let x = &x[at..at + n];
            // SAFETY: the run lies within the view, and runs are disjoint.
            let to = unsafe { (base as *mut T).add(offset) };
            if stride == 1 && std::any::TypeId::of::<<T as Float>::Acc>() == std::any::TypeId::of::<A>() {
                // SAFETY: the run is contiguous, and both slices have the same accumulator type.
                let (x, to) = unsafe {
                    (std::slice::from_raw_parts(x.as_ptr().cast(), n), std::slice::from_raw_parts_mut(to, n))
                };
                round(x, to);
            } else {
                for i in 0..n {
                    // SAFETY: `i < n`, so the element lies within the run.
                    unsafe { *to.add(i * stride) = T::from_f64(x[i].to_f64()) };
                }
            }
        })
    });
}

/// Number of partial sums in a vectorised reduction: two registers of the widest kind for `f32`.
pub(crate) const LANES: usize = 32;

/// Add partial sums pairwise.
#[inline(always)]
pub(crate) fn lanes_sum<A: Real>(mut lanes: [A; LANES]) -> A {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Number of elements that lanes sum one after the other. Longer sums are added in pairs, so that errors grow with the
/// logarithm of the length.
const SUMMED: usize = 4096;

/// Sums of runs, paired like the digits of a binary counter.
struct Levels<A>([A; 32]);

impl<A: Real> Levels<A> {
    /// Add the sum of run number `run`.
    #[cold]
    #[inline(never)]
    fn push(&mut self, run: usize, mut v: A) {
        let carries = run.trailing_ones() as usize;
        for level in &self.0[..carries] {
            v += *level;
        }
        self.0[carries] = v;
    }
    /// Return the sum of the first `runs` runs.
    fn total(&self, runs: usize) -> A {
        let mut total = A::ZERO;
        for (l, level) in self.0.iter().enumerate() {
            if runs >> l & 1 == 1 {
                total += *level;
            }
        }
        total
    }
}

/// Return the sum of `f(x)`, added in a fixed order.
#[inline(always)]
pub(crate) fn sum_of<A: Real>(x: &[A], f: impl Fn(A) -> A) -> A {
    if x.len() <= SUMMED {
        return sum_of_run(x, f);
    }
    let mut levels = Levels([A::ZERO; 32]);
    for (run, x) in x.chunks(SUMMED).enumerate() {
        levels.push(run, sum_of_run(x, &f));
    }
    levels.total(x.len().div_ceil(SUMMED))
}

#[inline(always)]
fn sum_of_run<A: Real>(x: &[A], f: impl Fn(A) -> A) -> A {
    let mut lanes = [A::ZERO; LANES];
    let chunks = x.chunks_exact(LANES);
    let mut rest = A::ZERO;
    for &v in chunks.remainder() {
        rest += f(v);
    }
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] += f(chunk[i]);
        }
    }
    lanes_sum(lanes) + rest
}

/// Return the sum of `f(x, y)`, added in a fixed order.
#[inline(always)]
pub(crate) fn sum_of2<A: Real, B: Copy>(x: &[A], y: &[B], f: impl Fn(A, B) -> A) -> A {
    let n = x.len().min(y.len());
    if n <= SUMMED {
        return sum_of2_run(x, y, f);
    }
    let mut levels = Levels([A::ZERO; 32]);
    for (run, (x, y)) in x[..n].chunks(SUMMED).zip(y[..n].chunks(SUMMED)).enumerate() {
        levels.push(run, sum_of2_run(x, y, &f));
    }
    levels.total(n.div_ceil(SUMMED))
}

#[inline(always)]
fn sum_of2_run<A: Real, B: Copy>(x: &[A], y: &[B], f: impl Fn(A, B) -> A) -> A {
    let mut lanes = [A::ZERO; LANES];
    let n = x.len().min(y.len());
    let (x, y) = (&x[..n], &y[..n]);
    let (xc, yc) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let mut rest = A::ZERO;
    for (&a, &b) in xc.remainder().iter().zip(yc.remainder()) {
        rest += f(a, b);
    }
    for (a, b) in xc.zip(yc) {
        for i in 0..LANES {
            lanes[i] += f(a[i], b[i]);
        }
    }
    lanes_sum(lanes) + rest
}

/// Return the largest element. NaN elements may be skipped.
#[inline(always)]
pub(crate) fn max_of<A: Real>(x: &[A]) -> A {
    let mut lanes = [A::NEG_INF; LANES];
    let chunks = x.chunks_exact(LANES);
    let mut best = A::NEG_INF;
    for &v in chunks.remainder() {
        best = v.larger(best);
    }
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = chunk[i].larger(lanes[i]);
        }
    }
    for v in lanes {
        best = v.larger(best);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_conversions_equal_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(h.up().to_bits() == h.to_f32().to_bits() || (h.up().is_nan() && h.to_f32().is_nan()), "{bits:x}");
            assert_eq!(b.up().to_bits(), (bits as u32) << 16);
        }
        for high in 0..=u16::MAX {
            // Check around every tie, and between ties.
            for low in [0u32, 1, 0xfff, 0x1000, 0x1001, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let v = f32::from_bits((high as u32) << 16 | low);
                let (h, b) = (<f16 as Float>::down(v), <bf16 as Float>::down(v));
                assert!(h.to_bits() == f16::from_f32(v).to_bits() || (h.is_nan() && v.is_nan()), "{v:e}");
                assert!(b.to_bits() == bf16::from_f32(v).to_bits() || (b.is_nan() && v.is_nan()), "{v:e}");
            }
        }
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let mut worst = 0.0f64;
        for i in -1_040_000..=890_000 {
            let v = i as f32 * 1e-4;
            let (got, want) = (exp_f32(v) as f64, (v as f64).exp());
            if want > f32::MAX as f64 {
                continue;
            }
            let unit = (f32::EPSILON as f64 * 2f64.powi(want.log2().floor() as i32)).max(1.4e-45);
            worst = worst.max((got - want).abs() / unit);
        }
        assert!(worst <= 2.0, "{worst}");
        assert_eq!(exp_f32(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp_f32(f32::NEG_INFINITY), 0.0);
        assert!(exp_f32(f32::NAN).is_nan());
        assert_eq!(exp_f32(0.0), 1.0);
    }
}
