//! Cross entropy and negative log likelihood of class indices.
//!
//! Scores are `[n, c, *]`, and targets are integers of shape `[n, *]`. Losses are per row. The caller sums them, and
//! divides by the returned total weight for a mean. Cross entropy saves the log-sum-exp of each row (one number)
//! instead of all probabilities.

use crate::embedding::indices;
use crate::par::Shared;
use crate::real::{Real, for_acc, input, max_of, output, simd, sum_of};
use crate::threads::{GRAIN, parallel_for};
use crate::{KernelError, View, ViewMut};

/// Class weights and target rules of a cross entropy.
#[derive(Clone, Copy)]
pub struct CrossEntropy<'a> {
    /// Weight of each class, `[c]`.
    pub weight: Option<View<'a>>,
    /// Rows with this target have loss and gradient zero.
    pub ignore_index: i64,
    /// Share of the target's probability that is spread over all classes, in `0..=1`.
    pub label_smoothing: f64,
    /// Whether a row whose target is not a class has loss and gradient NaN, instead of being an error.
    pub wrong_is_nan: bool,
}

impl Default for CrossEntropy<'_> {
    fn default() -> Self {
        CrossEntropy { weight: None, ignore_index: -100, label_smoothing: 0.0, wrong_is_nan: false }
    }
}

/// Number of columns that are processed together if scores have dimensions after the classes.
const COLUMNS: usize = 128;

/// Return the sizes `(n, c, product of the rest)` of scores. A vector is one row.
fn split(sizes: &[usize]) -> (usize, usize, usize) {
    match sizes {
        [c] => (1, *c, 1),
        [n, c, rest @ ..] => (*n, *c, rest.iter().product()),
        [] => panic!("loss: scores have a class dimension"),
    }
}

/// Return the targets and the total weight of the valid ones. Checks the targets unless `wrong_is_nan`.
fn targets<A: Real>(
    target: &View,
    c: usize,
    ignore_index: i64,
    weight: Option<&[A]>,
    wrong_is_nan: bool,
) -> Result<(Vec<i64>, f64), KernelError> {
    let targets = indices(target);
    let mut total = 0.0;
    for &t in &targets {
        if t == ignore_index {
            continue;
        }
        if !is_class(t, c) {
            if wrong_is_nan {
                continue;
            }
            return Err(KernelError::IndexOutOfRange(format!("Target {t} is out of bounds.")));
        }
        total += weight.map_or(1.0, |w| w[t as usize].to_f64());
    }
    Ok((targets, total))
}

fn is_class(t: i64, classes: usize) -> bool {
    usize::try_from(t).is_ok_and(|t| t < classes)
}

/// Compute the cross entropy of logits `x: [n, c, *]`. Writes `loss: [n, *]` and `lse: [n, *]`. Returns the total
/// weight of the targets that are not ignored, which is the divisor of a mean.
///
/// With smoothing `e`, a row's loss is `(1 - e) w[t] (lse - x[t]) + e / c * sum_j w[j] (lse - x[j])`.
///
/// # Errors
/// Fails with `Target 12 is out of bounds.` for a target that is neither a class nor `ignore_index`, unless
/// `wrong_is_nan`.
pub fn cross_entropy(
    x: &View,
    target: &View,
    spec: &CrossEntropy,
    loss: &mut ViewMut,
    lse: &mut ViewMut,
) -> Result<f64, KernelError> {
    let (n, c, inner) = split(x.sizes());
    for_acc!(x.dtype(), A => {
        let weight = spec.weight.map(|w| input::<A>(&w));
        let weight = weight.as_deref();
        let (target, total) = targets::<A>(target, c, spec.ignore_index, weight, spec.wrong_is_nan)?;
        let x = input::<A>(x);
        let smoothing = A::of(spec.label_smoothing);
        let weight_sum = weight.map_or(A::of(c as f64), |w| sum_of(w, |v| v));
        output::<A, _>(lse, |lse| log_sum_exp(&x, n, c, inner, lse));
        let lse_values = input::<A>(&lse.as_view());
        output::<A, _>(loss, |loss| {
            let loss = Shared::new(loss);
            parallel_for(n * inner, if spec.label_smoothing != 0.0 { GRAIN.div_ceil(c.max(1)) } else { GRAIN }, |rows| {
                for row in rows {
                    let (t, base) = (target[row], row / inner * c * inner + row % inner);
                    // SAFETY: the row is in bounds, and one thread uses it.
                    let loss = unsafe { &mut loss.slice(row, 1)[0] };
                    *loss = A::ZERO;
                    if t == spec.ignore_index {
                        continue;
                    }
                    if !is_class(t, c) {
                        *loss = A::of(f64::NAN);
                        continue;
                    }
                    let t = t as usize;
                    let w = weight.map_or(A::ONE, |w| w[t]);
                    *loss = w * (lse_values[row] - x[base + t * inner]) * (A::ONE - smoothing);
                    if smoothing != A::ZERO {
                        let mut sum = A::ZERO;
                        for j in 0..c {
                            let v = x[base + j * inner];
                            sum += weight.map_or(v, |w| w[j] * v);
                        }
                        *loss += smoothing / A::of(c as f64) * (weight_sum * lse_values[row] - sum);
                    }
                }
            });
        });
        Ok(total)
    })
}

/// Write the log-sum-exp over the classes of each row.
fn log_sum_exp<A: Real>(x: &[A], n: usize, c: usize, inner: usize, lse: &mut [A]) {
    let to = Shared::new(lse);
    if inner == 1 {
        return parallel_for(n, GRAIN.div_ceil(c.max(1)), |rows| {
            for row in rows {
                // SAFETY: the row is in bounds, and one thread uses it.
                unsafe { to.slice(row, 1)[0] = lse_row(&x[row * c..][..c]) };
            }
        });
    }
    let blocks = inner.div_ceil(COLUMNS);
    parallel_for(n * blocks, GRAIN.div_ceil((c * COLUMNS.min(inner)).max(1)), |range| {
        for i in range {
            let (row, first) = (i / blocks, i % blocks * COLUMNS);
            let width = COLUMNS.min(inner - first);
            // SAFETY: the block is in bounds, and one thread uses it.
            let lse = unsafe { to.slice(row * inner + first, width) };
            lse_columns(&x[row * c * inner..][..c * inner], c, inner, first, lse);
        }
    });
}

simd! {
    fn lse_row<A: Real>(x: &[A]) -> A {
        let max = max_of(x);
        // All scores are minus infinity: the sum is zero, and its logarithm minus infinity.
        if max == A::NEG_INF && x.iter().all(|v| *v == A::NEG_INF) {
            return A::NEG_INF;
        }
        max + sum_of(x, |v| (v - max).exp()).ln()
    }
}

simd! {
    fn lse_columns<A: Real>(x: &[A], c: usize, inner: usize, first: usize, lse: &mut [A]) {
        let width = lse.len();
        let mut max = [A::NEG_INF; COLUMNS];
        let mut sum = [A::ZERO; COLUMNS];
        let (max, sum) = (&mut max[..width], &mut sum[..width]);
        for i in 0..c {
            let x = &x[i * inner + first..][..width];
            for j in 0..width {
                max[j] = x[j].larger(max[j]);
            }
        }
        for i in 0..c {
            let x = &x[i * inner + first..][..width];
            for j in 0..width {
                sum[j] += (x[j] - max[j]).exp();
            }
        }
        for j in 0..width {
            lse[j] = max[j] + sum[j].ln();
        }
    }
}

/// Compute the gradient of [`cross_entropy`] for the logits. `g: [n, *]` is the gradient of each row's loss, and `gx`
/// has the shape of `x`.
///
/// # Errors
/// Fails like [`cross_entropy`].
pub fn cross_entropy_backward(
    g: &View,
    x: &View,
    target: &View,
    lse: &View,
    spec: &CrossEntropy,
    gx: &mut ViewMut,
) -> Result<(), KernelError> {
    let (n, c, inner) = split(x.sizes());
    for_acc!(x.dtype(), A => {
        let weight = spec.weight.map(|w| input::<A>(&w));
        let weight = weight.as_deref();
        let (target, _) = targets::<A>(target, c, spec.ignore_index, weight, spec.wrong_is_nan)?;
        let (g, x, lse) = (input::<A>(g), input::<A>(x), input::<A>(lse));
        let smoothing = A::of(spec.label_smoothing);
        let spread = if c == 0 { A::ZERO } else { smoothing / A::of(c as f64) };
        let weight_sum = weight.map_or(A::of(c as f64), |w| sum_of(w, |v| v));
        output::<A, _>(gx, |gx| {
            let to = Shared::new(gx);
            // Per row: the factor of the probabilities, the value subtracted at the target, and the value subtracted at
            // each class.
            let factors = |row: usize| {
                let t = target[row];
                if t == spec.ignore_index {
                    return (A::ZERO, A::ZERO, A::ZERO);
                }
                if !is_class(t, c) {
                    return (A::of(f64::NAN), A::ZERO, A::ZERO);
                }
                let own = (A::ONE - smoothing) * weight.map_or(A::ONE, |w| w[t as usize]);
                (g[row] * (own + spread * weight_sum), g[row] * own, g[row] * spread)
            };
            parallel_for(n * inner.div_ceil(COLUMNS), GRAIN.div_ceil((c * COLUMNS.min(inner)).max(1)), |range| {
                for i in range {
                    let blocks = inner.div_ceil(COLUMNS);
                    let (row, first) = (i / blocks, i % blocks * COLUMNS);
                    let width = COLUMNS.min(inner - first);
                    let at = row * c * inner;
                    if inner == 1 {
                        let (p, own, spread) = factors(row);
                        // SAFETY: the row is in bounds, and one thread uses it.
                        let gx = unsafe { to.slice(at, c) };
                        if target[row] == spec.ignore_index {
                            gx.fill(A::ZERO);
                            continue;
                        }
                        gradient_row(&x[at..at + c], lse[row], p, spread, weight, gx);
                        if is_class(target[row], c) {
                            gx[target[row] as usize] -= own;
                        }
                        continue;
                    }
                    for column in first..first + width {
                        let r = row * inner + column;
                        let (p, own, spread) = factors(r);
                        let ignored = target[r] == spec.ignore_index;
                        for j in 0..c {
                            let k = at + j * inner + column;
                            let mut v = p * (x[k] - lse[r]).exp() - spread * weight.map_or(A::ONE, |w| w[j]);
                            if j as i64 == target[r] {
                                v -= own;
                            }
                            // SAFETY: the column is in bounds, and only this range uses it.
                            unsafe { to.slice(k, 1)[0] = if ignored { A::ZERO } else { v } };
                        }
                    }
                }
            });
        });
        Ok(())
    })
}

simd! {
    fn gradient_row<A: Real>(x: &[A], lse: A, p: A, spread: A, weight: Option<&[A]>, gx: &mut [A]) {
        let n = gx.len();
        let x = &x[..n];
        match weight {
            Some(w) if spread != A::ZERO => {
                let w = &w[..n];
                for j in 0..n {
                    gx[j] = p * (x[j] - lse).exp() - spread * w[j];
                }
            }
            _ => {
                for j in 0..n {
                    gx[j] = p * (x[j] - lse).exp() - spread;
                }
            }
        }
    }
}

/// Compute the negative log likelihood `-w[t] x[t]` of log-probabilities `x: [n, c, *]`. Writes `loss: [n, *]` and
/// returns the total weight.
///
/// # Errors
/// Fails like [`cross_entropy`].
pub fn nll_loss(
    x: &View,
    target: &View,
    weight: Option<&View>,
    ignore_index: i64,
    loss: &mut ViewMut,
) -> Result<f64, KernelError> {
    let (_, c, inner) = split(x.sizes());
    for_acc!(x.dtype(), A => {
        let weight = weight.map(input::<A>);
        let weight = weight.as_deref();
        let (target, total) = targets::<A>(target, c, ignore_index, weight, false)?;
        let x = input::<A>(x);
        output::<A, _>(loss, |loss| {
            for (row, (loss, &t)) in loss.iter_mut().zip(&target).enumerate() {
                *loss = if t == ignore_index {
                    A::ZERO
                } else {
                    let t = t as usize;
                    -(weight.map_or(A::ONE, |w| w[t]) * x[row / inner * c * inner + t * inner + row % inner])
                };
            }
        });
        Ok(total)
    })
}

/// Compute the gradient of [`nll_loss`]: `gx: [n, c, *]` is `-w[t] g` at each row's target and zero elsewhere.
///
/// # Errors
/// Fails like [`cross_entropy`].
pub fn nll_loss_backward(
    g: &View,
    target: &View,
    weight: Option<&View>,
    ignore_index: i64,
    gx: &mut ViewMut,
) -> Result<(), KernelError> {
    let (_, c, inner) = split(gx.sizes());
    for_acc!(gx.dtype(), A => {
        let weight = weight.map(input::<A>);
        let weight = weight.as_deref();
        let (target, _) = targets::<A>(target, c, ignore_index, weight, false)?;
        let g = input::<A>(g);
        output::<A, _>(gx, |gx| {
            gx.fill(A::ZERO);
            for (row, &t) in target.iter().enumerate() {
                if t != ignore_index {
                    let t = t as usize;
                    let w = weight.map_or(A::ONE, |w| w[t]);
                    gx[row / inner * c * inner + t * inner + row % inner] = -(w * g[row]);
                }
            }
        });
        Ok(())
    })
}

/// Compute the log-probability of all paths through a trellis up to each state at each step. `emit` and `out` are
/// `[steps, n, states]`. `skip: [n, states]` is added to transitions from two states before.
pub fn trellis(emit: &View, skip: &View, out: &mut ViewMut) {
    let &[steps, n, states] = emit.sizes() else { panic!("trellis: emissions are [steps, n, states]") };
    for_acc!(emit.dtype(), A => {
        let (emit, skip) = (input::<A>(emit), input::<A>(skip));
        output::<A, _>(out, |out| {
            let to = Shared::new(out);
            parallel_for(n, GRAIN.div_ceil(16 * (steps * states).max(1)), |rows| {
                for row in rows {
                    let skip = &skip[row * states..][..states];
                    for t in 0..steps {
                        let at = (t * n + row) * states;
                        // SAFETY: the step of the row is in bounds, and one thread uses the row.
                        let now = unsafe { to.slice(at, states) };
                        if t == 0 {
                            now.fill(A::NEG_INF);
                            let reached = states.min(2);
                            now[..reached].copy_from_slice(&emit[at..][..reached]);
                            continue;
                        }
                        // SAFETY: the previous step of the row is in bounds and does not overlap `now`; one thread uses
                        // the row.
                        let before = unsafe { to.slice(at - n * states, states) };
                        for s in 0..states {
                            let next = if s > 0 { before[s - 1] } else { A::NEG_INF };
                            let over = if s > 1 { before[s - 2] + skip[s] } else { A::NEG_INF };
                            now[s] = log_sum_exp_of([before[s], next, over]) + emit[at + s];
                        }
                    }
                }
            });
        });
    });
}

fn log_sum_exp_of<A: Real>(x: [A; 3]) -> A {
    let top = x[0].larger(x[1]).larger(x[2]);
    // The difference of two infinities is NaN.
    let base = if top == A::NEG_INF { A::ZERO } else { top };
    ((x[0] - base).exp() + (x[1] - base).exp() + (x[2] - base).exp()).ln() + base
}
