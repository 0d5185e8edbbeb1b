//! Normal numbers. There are two paths, which share only the engine:
//!
//! * 16 or more contiguous elements: Box-Muller on blocks of 16 (lanes 0-7 radius, 8-15 angle). `f32` (also for `f16`
//!   and `bf16`) has its own polynomial logarithm, sine and cosine. `f64` uses those of the platform.
//! * otherwise: pairs in `f64`. The generator keeps the second number for the next call.

use super::generator::{Generator, unit_f32, unit_f64};
use super::order::{RUN, fill, for_float, with_fma};
use crate::{DType, Element, KernelError, ViewMut};

/// Fill with normal numbers of the given mean and standard deviation.
///
/// # Errors
/// Fails if `std` is negative or the dtype is not floating.
pub fn normal_(g: &mut Generator, out: &mut ViewMut, mean: f64, std: f64) -> Result<(), KernelError> {
    if !(std >= 0.0) {
        return Err(KernelError::Other(format!("normal expects std >= 0.0, but found std {std}")));
    }
    let blocks = out.numel() >= 16 && out.is_contiguous();
    for_float!(out.dtype(), "normal_kernel_cpu", T => match out.as_slice_mut::<T>() {
        Some(all) if blocks => fill_blocks(g, all, mean, std),
        _ => fill::<T>(out, |run| fill_pairs(g, run, mean, std)),
    });
    Ok(())
}

/// Fill by the method for a tensor of `out.len()` elements, which depends on whether it is `contiguous`.
pub(super) fn fill_slice<T: Element>(g: &mut Generator, out: &mut [T], contiguous: bool, mean: f64, std: f64) {
    if contiguous && out.len() >= 16 {
        fill_blocks(g, out, mean, std);
    } else {
        out.chunks_mut(RUN).for_each(|run| fill_pairs(g, run, mean, std));
    }
}

fn fill_pairs<T: Element>(g: &mut Generator, out: &mut [T], mean: f64, std: f64) {
    let mut z = [0.0; RUN];
    let z = &mut z[..out.len()];
    z.fill_with(|| g.next_normal());
    scale_f64(z, mean, std);
    for (o, &v) in out.iter_mut().zip(&*z) {
        *o = <T as Element>::from_f64(v);
    }
}

/// Fill with the exponentials of normal numbers. They come from the scalar path for every size.
///
/// # Errors
/// Fails if `std` is not positive or the dtype is not floating.
pub fn log_normal_(g: &mut Generator, out: &mut ViewMut, mean: f64, std: f64) -> Result<(), KernelError> {
    if !(std > 0.0) {
        return Err(KernelError::Other(format!("log_normal_ expects std > 0.0, but found std={std:.6}")));
    }
    for_float!(out.dtype(), "log_normal_cpu", T => fill::<T>(out, |run| {
        let mut z = [0.0; RUN];
        let z = &mut z[..run.len()];
        z.fill_with(|| g.next_normal());
        scale_f64(z, mean, std);
        for (o, &v) in run.iter_mut().zip(&*z) {
            *o = <T as Element>::from_f64(v.exp());
        }
    }));
    Ok(())
}

with_fma! {
    /// Compute `z * std + mean` with fused multiply-add.
    pub(super) fn scale_f64(z: &mut [f64], mean: f64, std: f64) {
        for v in z {
            *v = v.mul_add(std, mean);
        }
    }
}

/// Fill full blocks. If the length is not a multiple of 16, fill the last 16 elements once more from fresh uniform
/// numbers.
fn fill_blocks<T: Element>(g: &mut Generator, out: &mut [T], mean: f64, std: f64) {
    let n = out.len();
    let full = n - n % 16;
    for run in out[..full].chunks_mut(RUN) {
        transform(g, run, mean, std);
    }
    if full < n {
        // PyTorch first fills a whole `f32` or `f64` tensor with uniform numbers. These leftovers are drawn and never
        // used.
        let unused = match T::DTYPE {
            DType::F32 => n - full,
            DType::F64 => 2 * (n - full),
            _ => 0,
        };
        g.fill_u32(&mut [0; 32][..unused]);
        transform(g, &mut out[n - 16..], mean, std);
    }
}

/// Fill blocks of 16 from fresh uniform numbers. `out.len()` is a multiple of 16, and at most [`RUN`].
fn transform<T: Element>(g: &mut Generator, out: &mut [T], mean: f64, std: f64) {
    let n = out.len();
    if T::DTYPE == DType::F64 {
        let mut words = [0; 2 * RUN];
        g.fill_u32(&mut words[..2 * n]);
        let mut u = [0.0; RUN];
        for (u, w) in u.iter_mut().zip(words[..2 * n].chunks_exact(2)) {
            *u = unit_f64(u64::from(w[0]) << 32 | u64::from(w[1]));
        }
        box_muller_f64(&mut u[..n], mean, std);
        for (o, &v) in out.iter_mut().zip(&u) {
            *o = <T as Element>::from_f64(v);
        }
    } else {
        let mut words = [0; RUN];
        g.fill_u32(&mut words[..n]);
        let mut z = [0.0; RUN];
        box_muller_f32(&words[..n], &mut z[..n], mean as f32, std as f32);
        for (o, &v) in out.iter_mut().zip(&z) {
            *o = <T as Element>::from_f64(f64::from(v));
        }
    }
}

fn box_muller_f64(u: &mut [f64], mean: f64, std: f64) {
    for block in u.chunks_exact_mut(16) {
        for j in 0..8 {
            let radius = (-2.0 * (1.0 - block[j]).ln()).sqrt();
            let theta = 2.0 * std::f64::consts::PI * block[j + 8];
            block[j] = radius * theta.cos();
            block[j + 8] = radius * theta.sin();
        }
    }
    scale_f64(u, mean, std);
}

/// Transform blocks of 16 words to blocks of 16 normal numbers.
fn box_muller_f32(words: &[u32], out: &mut [f32], mean: f32, std: f32) {
    // Gather the two halves of all blocks first: the compiler vectorises plain loops over them.
    let n = words.len() / 2;
    let (mut w1, mut w2) = ([0; RUN / 2], [0; RUN / 2]);
    for (i, w) in words.chunks_exact(16).enumerate() {
        w1[8 * i..][..8].copy_from_slice(&w[..8]);
        w2[8 * i..][..8].copy_from_slice(&w[8..]);
    }
    let (mut cosines, mut sines) = ([0.0; RUN / 2], [0.0; RUN / 2]);
    normal_pairs(&w1[..n], &w2[..n], &mut cosines[..n], &mut sines[..n], mean, std);
    for (i, o) in out.chunks_exact_mut(16).enumerate() {
        o[..8].copy_from_slice(&cosines[8 * i..][..8]);
        o[8..].copy_from_slice(&sines[8 * i..][..8]);
    }
}

with_fma! {
    fn normal_pairs(w1: &[u32], w2: &[u32], cosines: &mut [f32], sines: &mut [f32], mean: f32, std: f32) {
        let n = w1.len().min(w2.len()).min(cosines.len()).min(sines.len());
        for i in 0..n {
            let radius = (-2.0 * log(1.0 - unit_f32(w1[i]))).sqrt();
            let (sin, cos) = sin_cos(2.0 * std::f32::consts::PI * unit_f32(w2[i]));
            // The product is rounded before the fused step.
            cosines[i] = (radius * cos).mul_add(std, mean);
            sines[i] = (radius * sin).mul_add(std, mean);
        }
    }
}

// The polynomials below are the classic single-precision ones of the Cephes library. Their coefficients, and where a
// product is fused or rounded, are part of the stream: changing either changes one value in a hundred.

/// Return the natural logarithm of `x` in (0, 1].
#[inline(always)]
fn log(x: f32) -> f32 {
    let bits = if x > f32::MIN_POSITIVE { x } else { f32::MIN_POSITIVE }.to_bits();
    let exponent = ((bits >> 23) as i32).wrapping_sub(127) as f32 + 1.0;
    let m = f32::from_bits((bits & 0x807f_ffff) | 0x3f00_0000);
    let low = m < std::f32::consts::FRAC_1_SQRT_2;
    let r = (m - 1.0) + if low { m } else { 0.0 };
    let e = exponent - if low { 1.0 } else { 0.0 };
    let z = r * r;
    // Unrolled by hand: an inner loop would prevent vectorisation of the outer one.
    let y = 7.037_683_6e-2_f32;
    let y = y.mul_add(r, -1.151_461e-1);
    let y = y.mul_add(r, 1.167_699_87e-1);
    let y = y.mul_add(r, -1.242_014_1e-1);
    let y = y.mul_add(r, 1.424_932_3e-1);
    let y = y.mul_add(r, -1.666_805_8e-1);
    let y = y.mul_add(r, 0.200_007_14);
    let y = y.mul_add(r, -2.499_999_4e-1);
    let y = y.mul_add(r, 3.333_333e-1);
    let y = y * r;
    let y = y.mul_add(z, e * -2.121_944_4e-4);
    let y = (-z).mul_add(0.5, y);
    e.mul_add(0.693_359_4, r + y)
}

/// Return sine and cosine of `x` in [0, 2 pi].
#[inline(always)]
fn sin_cos(x: f32) -> (f32, f32) {
    // SAFETY: 0 <= x < 7, so the octant is a small integer.
    let octant: i32 = unsafe { (x * 1.273_239_5_f32).to_int_unchecked() };
    let j = octant.wrapping_add(1) & !1;
    let y = j as f32;
    let r = y.mul_add(-0.785_156_25, x);
    let r = y.mul_add(-2.418_756_5e-4, r);
    let r = y.mul_add(-3.774_895e-8, r);
    let z = r * r;
    let c = 2.443_315_7e-5_f32.mul_add(z, -1.388_731_6e-3);
    let c = c.mul_add(z, 4.166_664_6e-2);
    let c = c * z;
    let c = c.mul_add(z, -(z * 0.5)) + 1.0;
    let s = (-1.951_529_6e-4_f32).mul_add(z, 8.332_161e-3);
    let s = s.mul_add(z, -1.666_665_5e-1);
    let s = s * z;
    let s = s.mul_add(r, r);
    let swap = j & 2 != 0;
    let (sin, cos) = if swap { (c, s) } else { (s, c) };
    // Bit 2 of the octant is the sign. Move it to the float's sign bit.
    let sin_sign = ((j & 4) as u32) << 29;
    let cos_sign = (!j.wrapping_sub(2) & 4) as u32;
    (f32::from_bits(sin.to_bits() ^ sin_sign), f32::from_bits(cos.to_bits() ^ (cos_sign << 29)))
}
