//! Optimiser steps in one pass over parameter, gradient and state.

use super::unsupported;
use crate::convert::{Number, cast};
use crate::loops::RawMut;
use crate::threads::{GRAIN, parallel_for};
use crate::{DType, KernelError, View, ViewMut, bf16, f16};

/// Settings of one Adam or AdamW step. `bias1` is `1 - beta1^step`, and `bias2_sqrt` the square root of
/// `1 - beta2^step`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the mean of gradients per step.
    pub beta1: f64,
    /// Decay of the mean of squared gradients per step.
    pub beta2: f64,
    /// Number added to the square root of the mean of squared gradients.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Whether the decay shrinks the parameter (AdamW). If not, it is added to the gradient (Adam).
    pub decoupled: bool,
    /// Whether to ascend instead of descend.
    pub maximize: bool,
    /// `1 - beta1^step`.
    pub bias1: f64,
    /// `sqrt(1 - beta2^step)`.
    pub bias2_sqrt: f64,
}

/// Settings of one SGD step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// Learning rate.
    pub lr: f64,
    /// Momentum. It is zero if there is no buffer.
    pub momentum: f64,
    /// Share of a new gradient that is not added to the buffer.
    pub dampening: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Whether to use Nesterov's momentum.
    pub nesterov: bool,
    /// Whether to ascend instead of descend.
    pub maximize: bool,
    /// Whether the buffer is uninitialised and becomes the gradient.
    pub first: bool,
}

/// Number of elements that are copied and then updated while they are in the first-level cache.
const COPIED: usize = 1024;

/// Define the steps of a compute type: `f32`, or `f64` for `f64` elements.
macro_rules! steps {
    ($($c:ident $adam:ident $adam_body:ident $sgd:ident $sgd_body:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $adam_body<T: Number, const FMA: bool>(
            p: *mut T, g: *const T, m: *mut T, v: *mut T, s: &AdamW, n: usize,
        ) {
            let (b1, b2, eps) = (s.beta1 as $c, s.beta2 as $c, s.eps as $c);
            let (c1, c2) = ((1.0 - s.beta1) as $c, (1.0 - s.beta2) as $c);
            let keep = if s.decoupled { (1.0 - s.lr * s.weight_decay) as $c } else { 1.0 };
            let decay = if s.decoupled { 0.0 } else { s.weight_decay as $c };
            let sign: $c = if s.maximize { -1.0 } else { 1.0 };
            let (step, root) = ((s.lr / s.bias1) as $c, s.bias2_sqrt as $c);
            for i in 0..n {
                // SAFETY: the caller passes `n` elements of each array.
                unsafe {
                    let x: $c = cast::<T, $c>(*p.add(i));
                    let grad = sign * cast::<T, $c>(*g.add(i)) + decay * x;
                    let mean = b1 * cast::<T, $c>(*m.add(i)) + c1 * grad;
                    let square = b2 * cast::<T, $c>(*v.add(i)) + c2 * grad * grad;
                    *m.add(i) = cast(mean);
                    *v.add(i) = cast(square);
                    *p.add(i) = cast(x * keep - step * mean / (square.sqrt() / root + eps));
                }
            }
        }
        crate::loops::multiversion! {
            unsafe fn $adam<T: Number>(p: *mut T, g: *const T, m: *mut T, v: *mut T, s: &AdamW, n: usize) = $adam_body
        }
        #[inline(always)]
        unsafe fn $sgd_body<T: Number, const FMA: bool>(p: *mut T, g: *const T, b: *mut T, s: &Sgd, n: usize) {
            let (lr, momentum, decay) = (s.lr as $c, s.momentum as $c, s.weight_decay as $c);
            let take = (1.0 - s.dampening) as $c;
            let sign: $c = if s.maximize { -1.0 } else { 1.0 };
            // SAFETY: the caller passes `n` elements of each array; `b` is read only if there is a buffer.
            unsafe {
                if b.is_null() {
                    for i in 0..n {
                        let x: $c = cast::<T, $c>(*p.add(i));
                        *p.add(i) = cast(x - lr * (sign * cast::<T, $c>(*g.add(i)) + decay * x));
                    }
                    return;
                }
                let (old, new) = if s.first { (0.0, 1.0) } else { (momentum, take) };
                let (look, rest) = if s.nesterov { (momentum, 1.0) } else { (1.0, 0.0) };
                for i in 0..n {
                    let x: $c = cast::<T, $c>(*p.add(i));
                    let grad = sign * cast::<T, $c>(*g.add(i)) + decay * x;
                    let before = if s.first { 0.0 } else { cast::<T, $c>(*b.add(i)) };
                    let buffer = old * before + new * grad;
                    *b.add(i) = cast(buffer);
                    *p.add(i) = cast(x - lr * (rest * grad + look * buffer));
                }
            }
        }
        crate::loops::multiversion! {
            unsafe fn $sgd<T: Number>(p: *mut T, g: *const T, b: *mut T, s: &Sgd, n: usize) = $sgd_body
        }
    )*};
}
steps! { f32 adam_f32 adam_f32_body sgd_f32 sgd_f32_body; f64 adam_f64 adam_f64_body sgd_f64 sgd_f64_body; }

/// Whether the arrays are dense and have the same order of elements in memory. The order itself does not matter.
fn same_dense_layout(p: &ViewMut, others: &[(&[usize], &[usize])]) -> bool {
    let n = p.numel();
    let reach: usize = p.sizes().iter().zip(p.strides()).map(|(n, s)| n.saturating_sub(1) * s).sum();
    (n == 0 || reach + 1 == n)
        && others.iter().all(|(sizes, strides)| {
            *sizes == p.sizes()
                && sizes.iter().zip(strides.iter()).zip(p.strides()).all(|((&n, a), b)| n <= 1 || a == b)
        })
}

fn mismatch(name: &str) -> KernelError {
    KernelError::Other(format!(
        "{name}: parameter, gradient and state must have the same dtype, sizes and dense strides"
    ))
}

/// Run one Adam or AdamW step. All arrays have one floating dtype and the same dense layout. The parameter, the mean of
/// gradients and the mean of squared gradients are written in place. Their old values come from the arrays of `from`
/// instead, if given.
///
/// # Errors
/// Fails with [`KernelError::Other`] if dtypes or layouts differ.
pub fn adamw_step(
    p: &mut ViewMut,
    g: &View,
    exp_avg: &mut ViewMut,
    exp_avg_sq: &mut ViewMut,
    from: [Option<&View>; 3],
    step: &AdamW,
) -> Result<(), KernelError> {
    let dtype = p.dtype();
    let mut layouts = vec![
        (g.sizes(), g.strides()),
        (exp_avg.sizes(), exp_avg.strides()),
        (exp_avg_sq.sizes(), exp_avg_sq.strides()),
    ];
    layouts.extend(from.iter().flatten().map(|f| (f.sizes(), f.strides())));
    let mut dtypes = [g.dtype(), exp_avg.dtype(), exp_avg_sq.dtype()].into_iter();
    let fits = dtypes.all(|d| d == dtype) && from.iter().flatten().all(|f| f.dtype() == dtype);
    if !fits || !same_dense_layout(p, &layouts) {
        return Err(mismatch("adamw_step"));
    }
    let ptrs = [p.ptr(), exp_avg.ptr(), exp_avg_sq.ptr(), g.ptr().cast_mut()].map(RawMut);
    let from = from.map(|f| f.map(|f| RawMut(f.ptr().cast_mut())));
    let block = if from.iter().any(Option::is_some) { COPIED } else { usize::MAX };
    let size = dtype.size_bytes();
    macro_rules! go {
        ($t:ty, $f:ident) => {
            parallel_for(p.numel(), GRAIN, |r| {
                let mut start = r.start;
                while start < r.end {
                    let n = (r.end - start).min(block);
                    // SAFETY: pieces are disjoint and lie within the dense arrays. The arrays of `from` are borrowed
                    // while the written ones are borrowed exclusively, so they do not overlap.
                    unsafe {
                        let [p, m, v, g] = ptrs.map(|x| x.at(start * size).cast::<$t>());
                        for (to, from) in [p, m, v].into_iter().zip(&from) {
                            if let Some(from) = from {
                                to.copy_from_nonoverlapping(from.at(start * size).cast::<$t>(), n);
                            }
                        }
                        $f(p, g, m, v, step, n)
                    }
                    start += n;
                }
            })
        };
    }
    match dtype {
        DType::F32 => go!(f32, adam_f32),
        DType::F64 => go!(f64, adam_f64),
        DType::BF16 => go!(bf16, adam_f32),
        DType::F16 => go!(f16, adam_f32),
        _ => return Err(unsupported("adamw_step", dtype)),
    }
    Ok(())
}

/// Run one SGD step. All arrays have one floating dtype and the same dense layout. The parameter and the buffer are
/// written in place. Their old values come from the arrays of `from` instead, if given.
///
/// # Errors
/// Fails with [`KernelError::Other`] if dtypes or layouts differ.
pub fn sgd_step(
    p: &mut ViewMut,
    g: &View,
    buffer: Option<&mut ViewMut>,
    from: [Option<&View>; 2],
    step: &Sgd,
) -> Result<(), KernelError> {
    let dtype = p.dtype();
    let mut layouts = vec![(g.sizes(), g.strides())];
    let mut fits = g.dtype() == dtype && from.iter().flatten().all(|f| f.dtype() == dtype);
    if let Some(b) = &buffer {
        layouts.push((b.sizes(), b.strides()));
        fits &= b.dtype() == dtype;
    }
    layouts.extend(from.iter().flatten().map(|f| (f.sizes(), f.strides())));
    if !fits || !same_dense_layout(p, &layouts) {
        return Err(mismatch("sgd_step"));
    }
    let ptrs = [p.ptr(), g.ptr().cast_mut()].map(RawMut);
    let state = buffer.map(|b| RawMut(b.ptr()));
    let from = from.map(|f| f.map(|f| RawMut(f.ptr().cast_mut())));
    let block = if from.iter().any(Option::is_some) { COPIED } else { usize::MAX };
    let size = dtype.size_bytes();
    macro_rules! go {
        ($t:ty, $f:ident) => {
            parallel_for(p.numel(), GRAIN, |r| {
                let mut start = r.start;
                while start < r.end {
                    let n = (r.end - start).min(block);
                    // SAFETY: pieces are disjoint and lie within the dense arrays. The arrays of `from` are borrowed
                    // while the written ones are borrowed exclusively, so they do not overlap.
                    unsafe {
                        let [p, g] = ptrs.map(|x| x.at(start * size).cast::<$t>());
                        let b = state.map_or(std::ptr::null_mut(), |x| x.at(start * size).cast::<$t>());
                        for (to, from) in [p, b].into_iter().zip(&from) {
                            if let Some(from) = from.filter(|_| !to.is_null()) {
                                to.copy_from_nonoverlapping(from.at(start * size).cast::<$t>(), n);
                            }
                        }
                        $f(p, g, b, step, n)
                    }
                    start += n;
                }
            })
        };
    }
    match dtype {
        DType::F32 => go!(f32, sgd_f32),
        DType::F64 => go!(f64, sgd_f64),
        DType::BF16 => go!(bf16, sgd_f32),
        DType::F16 => go!(f16, sgd_f32),
        _ => return Err(unsupported("sgd_step", dtype)),
    }
    Ok(())
}
