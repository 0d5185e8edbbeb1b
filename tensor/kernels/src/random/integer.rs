//! Random integers of any dtype, and permutations.

use super::generator::Generator;
use super::order::{RUN, fill};
use crate::memory;
use crate::{DType, Element, KernelError, ViewMut, for_dtype};

/// From this range on, a draw takes 64 bits for any dtype.
const WIDE_RANGE: u64 = 1 << 28;

/// Return the number of significant bits of a floating dtype.
fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        _ => 53,
    }
}

/// Return the largest value of an integer dtype.
fn int_max(dtype: DType) -> i64 {
    match dtype {
        DType::Bool => 1,
        DType::U8 => i64::from(u8::MAX),
        DType::I8 => i64::from(i8::MAX),
        DType::I16 => i64::from(i16::MAX),
        DType::I32 => i64::from(i32::MAX),
        _ => i64::MAX,
    }
}

/// Convert `v` to the dtype and back like a C++ cast. A value that does not fit becomes the smallest `i64`.
fn through(dtype: DType, v: i64) -> i64 {
    let x = match dtype {
        DType::F64 => v as f64,
        DType::F32 => f64::from(v as f32),
        DType::F16 => f64::from(half::f16::from_f32(v as f32).to_f32()),
        _ => f64::from(half::bf16::from_f32(v as f32).to_f32()),
    };
    if x.is_finite() && x < i64::MAX as f64 { x as i64 } else { i64::MIN }
}

/// Return the distance between neighbouring values of the dtype near `v`.
fn spacing(dtype: DType, v: i64) -> i64 {
    let log2 = v.unsigned_abs().max(1).ilog2() as i32;
    let shift = log2 - digits(dtype) as i32 + 1;
    if shift >= 0 { 1i64 << shift } else { 0 }
}

/// Move bounds that a floating dtype cannot represent inwards to values that it can.
fn representable(dtype: DType, from: i64, to: i64) -> (i64, i64) {
    (representable_from(dtype, from), representable_to(dtype, to))
}

fn representable_from(dtype: DType, from: i64) -> i64 {
    let next = from.wrapping_add(1);
    let p = through(dtype, next);
    if p < from { p.wrapping_add(spacing(dtype, next)) } else { from }
}

fn representable_to(dtype: DType, to: i64) -> i64 {
    let last = to.wrapping_sub(1);
    let p = through(dtype, last);
    if p >= to { p.wrapping_sub(spacing(dtype, last)) } else { to }
}

/// Fill with integers in [`from`, `to`), for `randint` and for `random_` with both bounds.
///
/// # Errors
/// Fails if `from >= to`.
pub fn randint(g: &mut Generator, out: &mut ViewMut, from: i64, to: i64) -> Result<(), KernelError> {
    let refuse = |from: i64, to: i64| {
        Err(KernelError::Other(format!("random_ expects 'from' to be less than 'to', but got from={from} >= to={to}")))
    };
    if from >= to {
        return refuse(from, to);
    }
    let (from, to) = if out.dtype().is_float() { representable(out.dtype(), from, to) } else { (from, to) };
    if from >= to {
        return refuse(from, to);
    }
    modulo(g, out, to.wrapping_sub(from) as u64, from);
    Ok(())
}

/// Fill like `random_(from, None)`: the upper bound is the dtype's largest integer, included.
///
/// # Errors
/// Fails if `from` is greater than the dtype's largest integer.
pub fn random_from(g: &mut Generator, out: &mut ViewMut, from: i64) -> Result<(), KernelError> {
    let dtype = out.dtype();
    if from == i64::MIN {
        for_dtype!(dtype, T => fill::<T>(out, |run| {
            run.fill_with(|| <T as Element>::from_i64(g.next_u64() as i64));
        }));
        return Ok(());
    }
    let last = if dtype.is_float() { 1i64 << digits(dtype) } else { int_max(dtype) };
    let from = if dtype.is_float() { representable_from(dtype, from) } else { from };
    if from > last {
        return Err(KernelError::Other(format!("random_ expects 'from' to be at most {last}, but got from={from}")));
    }
    modulo(g, out, last.wrapping_sub(from).wrapping_add(1) as u64, from);
    Ok(())
}

/// Fill like `random_()`: all integers from zero that the dtype represents exactly.
pub fn random_(g: &mut Generator, out: &mut ViewMut) {
    let dtype = out.dtype();
    let range = if dtype.is_float() { (1u64 << digits(dtype)) + 1 } else { int_max(dtype) as u64 + 1 };
    // Here the dtype, not the range, decides how many bits a draw takes.
    let wide = matches!(dtype, DType::I64 | DType::F64);
    draw(g, out, range, 0, wide);
}

fn modulo(g: &mut Generator, out: &mut ViewMut, range: u64, base: i64) {
    draw(g, out, range, base, range >= WIDE_RANGE);
}

fn draw(g: &mut Generator, out: &mut ViewMut, range: u64, base: i64, wide: bool) {
    for_dtype!(out.dtype(), T => fill::<T>(out, |run| {
        let mut words = [0; 2 * RUN];
        if wide {
            let words = &mut words[..2 * run.len()];
            g.fill_u32(words);
            for (o, w) in run.iter_mut().zip(words.chunks_exact(2)) {
                let w = u64::from(w[0]) << 32 | u64::from(w[1]);
                *o = <T as Element>::from_i64((w % range).wrapping_add(base as u64) as i64);
            }
        } else {
            let words = &mut words[..run.len()];
            g.fill_u32(words);
            // Compute `w % range` by multiplication. The fraction w / range in 64 fixed bits is exact for 32-bit
            // operands.
            let reciprocal = (u64::MAX / range).wrapping_add(1);
            for (o, &w) in run.iter_mut().zip(&*words) {
                let remainder = if range > u64::from(u32::MAX) {
                    u64::from(w)
                } else {
                    let fraction = reciprocal.wrapping_mul(u64::from(w));
                    ((u128::from(fraction) * u128::from(range)) >> 64) as u64
                };
                *o = <T as Element>::from_i64(remainder.wrapping_add(base as u64) as i64);
            }
        }
    }));
}

/// Write a random permutation of `0..n` to a one-dimensional `out` of `n` elements.
pub fn randperm(g: &mut Generator, out: &mut ViewMut) {
    let n = out.numel();
    let p = permutation(g, n);
    let stride = out.strides().first().copied().unwrap_or(1);
    for_dtype!(out.dtype(), T => {
        let base = out.ptr().cast::<T>();
        for (i, &v) in p.iter().enumerate() {
            // SAFETY: `i < n`, and the view is one-dimensional with `n` elements.
            unsafe { *base.add(i * stride) = <T as Element>::from_i64(v) };
        }
    });
}

/// Return the permutation of `0..n` that `torch.randperm` draws.
pub fn permutation(g: &mut Generator, n: usize) -> Vec<i64> {
    // For larger `n`, 32 bits would be visibly biased, and PyTorch uses an inside-out shuffle with 64 bits.
    const NARROW: usize = (u32::MAX / 20) as usize;
    if n >= NARROW {
        let mut p = memory::filled(0, n);
        for i in 0..n {
            let z = (g.next_u64() % (i as u64 + 1)) as usize;
            p[i] = i as i64;
            p[i] = p[z];
            p[z] = i as i64;
        }
        return p;
    }
    let mut p: Vec<i64> = memory::collect(0..n as i64);
    let mut words = [0; RUN];
    let mut i = 0;
    while i + 1 < n {
        let m = RUN.min(n - 1 - i);
        g.fill_u32(&mut words[..m]);
        for &w in &words[..m] {
            let z = (w % (n - i) as u32) as usize;
            p.swap(i, i + z);
            i += 1;
        }
    }
    p
}
