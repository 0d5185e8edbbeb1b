//! Draws of true or false, and draws from weights: bernoulli, dropout, geometric, multinomial.

use super::generator::{Generator, unit_f32, unit_f64};
use super::order::{Offsets, RUN, fill, for_float};
use crate::memory;
use crate::sort::{top_indices, total_order};
use crate::{DType, Element, KernelError, View, ViewMut, for_dtype};

fn check_probability(op: &str, p: f64) -> Result<(), KernelError> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    let shown = if p.is_nan() { "nan".into() } else { p.to_string() };
    Err(KernelError::Other(format!("{op} expects p to be in [0, 1], but got p={shown}")))
}

/// Fill with uniform numbers of 53 bits.
fn fill_unit_f64(g: &mut Generator, u: &mut [f64]) {
    let mut words = [0; 2 * RUN];
    let words = &mut words[..2 * u.len()];
    g.fill_u32(words);
    for (u, w) in u.iter_mut().zip(words.chunks_exact(2)) {
        *u = unit_f64(u64::from(w[0]) << 32 | u64::from(w[1]));
    }
}

/// Call `f` with a 53-bit uniform number per element, and cast the result as C++ casts a double.
pub(super) fn fill_from_unit<T: Element>(g: &mut Generator, out: &mut ViewMut, f: impl Fn(f64) -> T) {
    fill::<T>(out, |run| {
        let mut u = [0.0; RUN];
        let u = &mut u[..run.len()];
        fill_unit_f64(g, u);
        for (o, &u) in run.iter_mut().zip(&*u) {
            *o = f(u);
        }
    });
}

/// Fill with ones of probability `p`, else zeros.
///
/// # Errors
/// Fails if `p` is outside [0, 1].
pub fn bernoulli_(g: &mut Generator, out: &mut ViewMut, p: f64) -> Result<(), KernelError> {
    check_probability("bernoulli_", p)?;
    for_dtype!(out.dtype(), T => {
        let (zero, one) = (<T as Element>::from_i64(0), <T as Element>::from_i64(1));
        fill_from_unit::<T>(g, out, |u| if u < p { one } else { zero });
    });
    Ok(())
}

/// Fill with ones of the probabilities in `p`, which has the sizes of `out` (strides may be zero).
///
/// A contiguous `out` is filled in index order, and any other in memory order.
///
/// # Errors
/// Fails if a probability is outside [0, 1] or `p` is not floating.
pub fn bernoulli_tensor(g: &mut Generator, out: &mut ViewMut, p: &View) -> Result<(), KernelError> {
    for_float!(p.dtype(), "bernoulli_tensor_cpu_p_", P => {
        let mut dims: Vec<usize> = (0..out.sizes().len()).filter(|&d| out.sizes()[d] != 1).collect();
        dims.sort_by_key(|&d| std::cmp::Reverse(out.strides()[d]));
        let of = |strides: &[usize]| -> Vec<(usize, usize)> {
            dims.iter().map(|&d| (out.sizes()[d], strides[d])).collect()
        };
        let (p_dims, out_dims) = (of(p.strides()), of(out.strides()));
        let n = out.numel();
        let mut at = Offsets::new(&p_dims);
        let mut probabilities = memory::with_capacity(n);
        for _ in 0..n {
            // SAFETY: `at` steps through the offsets of the elements of `p`.
            let p = unsafe { p.ptr().cast::<P>().add(at.step()).read() }.to_f64();
            if !(0.0..=1.0).contains(&p) {
                return Err(KernelError::Other("Expected p_in >= 0 && p_in <= 1 to be true, but got false.".into()));
            }
            probabilities.push(p);
        }
        for_dtype!(out.dtype(), T => {
            let mut at = Offsets::new(&out_dims);
            for &p in &probabilities {
                // The dtype of the probabilities decides how many bits a draw takes.
                let hit =
                    if P::DTYPE == DType::F64 { g.next_f64() < p } else { unit_f32(g.next_u32()) < p as f32 };
                // SAFETY: `at` steps through the offsets of the elements of `out`.
                unsafe { out.ptr().cast::<T>().add(at.step()).write(<T as Element>::from_i64(i64::from(hit))) };
            }
        });
    });
    Ok(())
}

/// Fill with the factors of dropout: 0 with probability `p`, else `1 / (1 - p)` rounded to the dtype.
///
/// A `Bool` mask is `true` for kept elements. Nothing is drawn if `p` is 0 or 1, as in PyTorch.
///
/// # Errors
/// Fails if `p` is outside [0, 1].
pub fn dropout_mask(g: &mut Generator, mask: &mut ViewMut, p: f64) -> Result<(), KernelError> {
    if !(0.0..=1.0).contains(&p) {
        return Err(KernelError::Other(format!("dropout probability has to be between 0 and 1, but got {p}")));
    }
    let keep = 1.0 - p;
    for_dtype!(mask.dtype(), T => {
        let zero = <T as Element>::from_i64(0);
        let scale = match T::DTYPE {
            DType::F64 => <T as Element>::from_f64(1.0 / keep),
            d if d.is_float() => <T as Element>::from_f64(f64::from(1.0 / keep as f32)),
            _ => <T as Element>::from_i64(1),
        };
        if p == 0.0 || p == 1.0 {
            let constant = if p == 0.0 { <T as Element>::from_i64(1) } else { zero };
            fill::<T>(mask, |run| run.fill(constant));
        } else {
            fill_from_unit::<T>(g, mask, |u| if u < keep { scale } else { zero });
        }
    });
    Ok(())
}

/// Fill with the number of trials up to the first success.
///
/// # Errors
/// Fails if `p` is outside (0, 1).
pub fn geometric_(g: &mut Generator, out: &mut ViewMut, p: f64) -> Result<(), KernelError> {
    if !(p > 0.0 && p < 1.0) {
        return Err(KernelError::Other(format!("geometric_ expects p to be in (0, 1), but got p={p}")));
    }
    let log_failure = (-p).ln_1p();
    for_dtype!(out.dtype(), T => fill_from_unit::<T>(g, out, |u| {
        let v = (u.ln() / log_failure).ceil();
        // A uniform number of exactly zero gives infinity, which processors convert to the smallest integer.
        if T::DTYPE.is_float() || v.is_finite() { <T as Element>::from_f64(v) }
            else { <T as Element>::from_i64(i64::MIN) }
    }));
    Ok(())
}

/// Draw `out.sizes()[last]` categories per row of weights.
///
/// `weights` is `[categories]` or `[rows, categories]`, floating, with any strides. `out` is I64 and has the same rows.
///
/// # Errors
/// Fails if a weight is negative, infinite or NaN, a row has no positive weight, or there are fewer categories than
/// draws without replacement.
pub fn multinomial(g: &mut Generator, weights: &View, replacement: bool, out: &mut ViewMut) -> Result<(), KernelError> {
    let fail = |text: &str| Err(KernelError::Other(text.into()));
    let (Some(&categories), Some(&draws)) = (weights.sizes().last(), out.sizes().last()) else {
        return fail("prob_dist must be 1 or 2 dim");
    };
    if draws == 0 {
        return fail("cannot sample n_sample <= 0 samples");
    }
    if !replacement && draws > categories {
        return fail("cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    }
    for_float!(weights.dtype(), "multinomial", T => {
        let dims: Vec<_> = weights.sizes().iter().copied().zip(weights.strides().iter().copied()).collect();
        let mut at = Offsets::new(&dims);
        let mut table: Vec<T> = memory::with_capacity(weights.numel());
        for _ in 0..weights.numel() {
            // SAFETY: `at` steps through the offsets of the elements of `weights`.
            table.push(unsafe { weights.ptr().cast::<T>().add(at.step()).read() });
        }
        for row in table.chunks(categories.max(1)) {
            let w = row.iter().map(|w| w.to_f64());
            if w.clone().any(|w| !(w >= 0.0 && w.is_finite())) {
                return fail("probability tensor contains either `inf`, `nan` or element < 0");
            }
            if !w.clone().any(|w| w > 0.0) {
                return fail("invalid multinomial distribution (sum of probabilities <= 0)");
            }
        }
        // A single draw is an exponential race too, as in PyTorch.
        let picked = if replacement && draws > 1 {
            with_replacement(g, &table, categories, draws)
        } else {
            without_replacement(g, &table, categories, draws)
        };
        let dims: Vec<_> = out.sizes().iter().copied().zip(out.strides().iter().copied()).collect();
        let mut at = Offsets::new(&dims);
        for &i in &picked {
            // SAFETY: `at` steps through the offsets of the elements of `out`.
            unsafe { out.ptr().cast::<i64>().add(at.step()).write(i) };
        }
    });
    Ok(())
}

/// Invert the cumulative distribution, which is summed one by one in the dtype (`f32` for 16-bit floats).
fn with_replacement<T: Element>(g: &mut Generator, table: &[T], categories: usize, draws: usize) -> Vec<i64> {
    let mut picked = Vec::new();
    for row in table.chunks(categories) {
        let mut cumulative: Vec<f64> = if T::DTYPE == DType::F64 {
            let sums: Vec<f64> = running_sum(row.iter().map(|w| w.to_f64()));
            let total = sums[categories - 1];
            memory::collect(sums.iter().map(|s| s / total))
        } else {
            let sums: Vec<f32> = running_sum(row.iter().map(|w| w.to_f64() as f32));
            let total = sums[categories - 1];
            memory::collect(sums.iter().map(|s| f64::from(s / total)))
        };
        cumulative[categories - 1] = 1.0;
        for _ in 0..draws {
            let u = g.next_f64();
            memory::push(&mut picked, cumulative.partition_point(|&c| c < u) as i64);
        }
    }
    picked
}

fn running_sum<F: Copy + Default + std::ops::Add<Output = F>>(w: impl Iterator<Item = F>) -> Vec<F> {
    let mut first = true;
    memory::collect(w.scan(F::default(), |sum, w| {
        *sum = if std::mem::take(&mut first) { w } else { *sum + w };
        Some(*sum)
    }))
}

/// Draw by exponential races: the largest quotient of weight and noise wins. Noise is drawn for the whole table at
/// once.
fn without_replacement<T: Element>(g: &mut Generator, table: &[T], categories: usize, draws: usize) -> Vec<i64> {
    let race: Vec<T> = memory::collect(table.iter().map(|&w| {
        let noise = <T as Element>::from_f64(-(-g.next_f64()).ln_1p());
        match T::DTYPE {
            DType::F64 => <T as Element>::from_f64(w.to_f64() / noise.to_f64()),
            _ => <T as Element>::from_f64(f64::from(w.to_f64() as f32 / noise.to_f64() as f32)),
        }
    }));
    let mut picked = Vec::new();
    for row in race.chunks(categories) {
        let keys: Vec<u64> = memory::collect(row.iter().map(|&v| total_order(v)));
        if draws == 1 {
            // The first of equal keys wins.
            let best = (0..categories).fold(0, |best, i| if keys[i] > keys[best] { i } else { best });
            memory::push(&mut picked, best as i64);
        } else {
            let best = top_indices(&keys, draws, true, true);
            memory::reserve(&mut picked, best.len());
            picked.extend(best.into_iter().map(|i| i as i64));
        }
    }
    picked
}
