//! Element-wise kernels with parameters, and kernels that compute a composed PyTorch function in one pass.

use super::{math, unsupported};
use crate::loops::{Loop, Operand, Params, run};
use crate::map::{Map1, Map2, Map3, loop1, loop2, loop3};
use crate::{DType, KernelError, View, ViewMut, compute_dtype};

/// Declare an op once for `f32` and `f64`.
macro_rules! float_op {
    ($Op:ident $Map:ident |$p:ident, $($x:ident),*| $e:expr) => {
        struct $Op;
        float_op!(@ $Op $Map f32 |$p, $($x),*| $e);
        float_op!(@ $Op $Map f64 |$p, $($x),*| $e);
    };
    (@ $Op:ident $Map:ident $t:ident |$p:ident, $($x:ident),*| $e:expr) => {
        impl $Map<$t, $t> for $Op {
            #[inline(always)]
            fn at<const FMA: bool>($p: &Params, $($x: $t),*) -> $t {
                #[allow(unused)]
                type T = $t;
                $e
            }
        }
    };
}

/// Declare an op once for every integer type. Integer parameters come as the bits of the first `f64` parameters.
macro_rules! integer_op {
    ($Op:ident $Map:ident |$p:ident, $($x:ident),*| $e:expr) => {
        integer_op!(@ $Op $Map |$p, $($x),*| $e; u8 i8 i16 i32 i64);
    };
    (@ $Op:ident $Map:ident |$p:ident, $($x:ident),*| $e:expr; ) => {};
    (@ $Op:ident $Map:ident |$p:ident, $($x:ident),*| $e:expr; $t:ident $($rest:ident)*) => {
        impl $Map<$t, $t> for $Op {
            #[inline(always)]
            fn at<const FMA: bool>($p: &Params, $($x: $t),*) -> $t {
                #[allow(unused)]
                type T = $t;
                $e
            }
        }
        integer_op!(@ $Op $Map |$p, $($x),*| $e; $($rest)*);
    };
}

float_op! { AddScaled Map2 |p, x, y| if FMA { y.mul_add(p[0] as T, x) } else { x + y * p[0] as T } }
integer_op! { AddScaled Map2 |p, x, y| x.wrapping_add(y.wrapping_mul(p[0].to_bits() as T)) }
float_op! { AddCMul Map3 |p, x, a, b| x + p[0] as T * a * b }
integer_op! { AddCMul Map3 |p, x, a, b| x.wrapping_add((p[0].to_bits() as T).wrapping_mul(a).wrapping_mul(b)) }
float_op! { AddCDiv Map3 |p, x, a, b| x + p[0] as T * a / b }
float_op! { Lerp Map3 |_p, x, y, w| if w.abs() < 0.5 { x + w * (y - x) } else { y - (y - x) * (1.0 - w) } }
// Comparisons with NaN are false, so a NaN passes through.
float_op! {
    Clamp Map1 |p, x| { let x = if x < p[0] as T { p[0] as T } else { x }; if x > p[1] as T { p[1] as T } else { x } }
}
integer_op! { Clamp Map1 |p, x| (x as i64).max(p[0].to_bits() as i64).min(p[1].to_bits() as i64) as T }
float_op! { ThresholdBackward Map2 |p, g, x| if x <= p[0] as T { 0.0 } else { g } }
float_op! { SigmoidBackward Map2 |_p, g, y| g * (1.0 - y) * y }
float_op! { TanhBackward Map2 |_p, g, y| g * (1.0 - y * y) }

/// Declare an op with one expression for `f32` and another for `f64`.
macro_rules! split_op {
    ($($Op:ident $Map:ident |$($x:ident),*| $e32:expr, $e64:expr;)*) => {$(
        struct $Op;
        impl $Map<f32, f32> for $Op {
            #[inline(always)]
            fn at<const FMA: bool>(_: &Params, $($x: f32),*) -> f32 { $e32 }
        }
        impl $Map<f64, f64> for $Op {
            #[inline(always)]
            fn at<const FMA: bool>(_: &Params, $($x: f64),*) -> f64 { $e64 }
        }
    )*};
}

fn phi(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}
const DENSITY: f64 = 0.398_942_280_401_432_7;
const TANH_ROOT: f64 = 2.0 * DENSITY;

fn tanh_part(x: f64) -> f64 {
    (TANH_ROOT * (x + 0.044_715 * x * x * x)).tanh()
}
fn gelu_tanh_slope(x: f64) -> f64 {
    let x = x.clamp(-1e30, 1e30);
    let t = tanh_part(x);
    0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * TANH_ROOT * (1.0 + 0.134_145 * x * x)
}

split_op! {
    Gelu Map1 |x| math::gelu::<FMA>(x), x * phi(x);
    GeluTanh Map1 |x| math::gelu_tanh::<FMA>(x), 0.5 * x * (1.0 + tanh_part(x));
    GeluBackward Map2 |g, x| g * math::gelu_slope::<FMA>(x), g * (phi(x) + x * DENSITY * (-0.5 * x * x).exp());
    GeluTanhBackward Map2 |g, x| g * math::gelu_tanh_slope::<FMA>(x), g * gelu_tanh_slope(x);
    Silu Map1 |x| math::silu::<FMA>(x), x / (1.0 + (-x).exp());
    SiluBackward Map2 |g, x| {
        let s = math::sigmoid::<FMA>(x);
        g * s * (1.0 + x * (1.0 - s))
    }, {
        let s = 1.0 / (1.0 + (-x).exp());
        g * s * (1.0 + x * (1.0 - s))
    };
}

/// Return the loop of a float op for a dtype.
macro_rules! float_loop {
    ($loop:ident, $Op:ty, $dtype:expr) => {
        match compute_dtype($dtype) {
            DType::F32 => Some($loop::<f32, f32, $Op>()),
            DType::F64 => Some($loop::<f64, f64, $Op>()),
            _ => None,
        }
    };
}
/// Return the loop of an op that also supports integers.
macro_rules! number_loop {
    ($loop:ident, $Op:ty, $dtype:expr) => {
        match compute_dtype($dtype) {
            DType::F32 => Some($loop::<f32, f32, $Op>()),
            DType::F64 => Some($loop::<f64, f64, $Op>()),
            DType::U8 => Some($loop::<u8, u8, $Op>()),
            DType::I8 => Some($loop::<i8, i8, $Op>()),
            DType::I16 => Some($loop::<i16, i16, $Op>()),
            DType::I32 => Some($loop::<i32, i32, $Op>()),
            DType::I64 => Some($loop::<i64, i64, $Op>()),
            _ => None,
        }
    };
}

/// Encode a number as a kernel's parameter. Integers are passed as bits.
fn parameter(v: f64, dtype: DType) -> f64 {
    if dtype.is_float() { v } else { f64::from_bits(v as i64 as u64) }
}

fn call<const N: usize>(
    f: Option<Loop<N>>,
    name: &str,
    params: Params,
    ins: [&View; N],
    out: &mut ViewMut,
) -> Result<(), KernelError> {
    let Some(f) = f else { return Err(unsupported(name, ins[0].dtype())) };
    for x in ins {
        debug_assert_eq!(x.sizes(), out.sizes());
        debug_assert_eq!(x.dtype(), out.dtype());
    }
    // SAFETY: views cover their memory; sizes and dtypes agree.
    unsafe { run(f, &params, out.sizes(), Operand::output(out), ins.map(Operand::input)) };
    Ok(())
}

/// Compute `out = x + alpha * y`: PyTorch's `add` and `sub` with `alpha`. For `bool`, compute `x or y` (or `x`, if
/// `alpha` is zero).
///
/// # Errors
/// Never fails.
pub fn add_scaled(x: &View, y: &View, alpha: f64, out: &mut ViewMut) -> Result<(), KernelError> {
    let dtype = x.dtype();
    if dtype == DType::Bool {
        return if alpha != 0.0 {
            super::binary(super::BinaryKind::BitwiseOr, x, y, out)
        } else {
            crate::copy::copy(x, out);
            Ok(())
        };
    }
    call(number_loop!(loop2, AddScaled, dtype), "add", [parameter(alpha, dtype), 0.0, 0.0, 0.0], [x, y], out)
}

/// Compute `out = x + value * a * b`.
///
/// # Errors
/// Fails with [`KernelError::Other`] for `bool`.
pub fn addcmul(x: &View, a: &View, b: &View, value: f64, out: &mut ViewMut) -> Result<(), KernelError> {
    let dtype = x.dtype();
    call(number_loop!(loop3, AddCMul, dtype), "addcmul", [parameter(value, dtype), 0.0, 0.0, 0.0], [x, a, b], out)
}

/// Compute `out = x + value * a / b` for floats.
///
/// # Errors
/// Fails with [`KernelError::Other`] for other dtypes.
pub fn addcdiv(x: &View, a: &View, b: &View, value: f64, out: &mut ViewMut) -> Result<(), KernelError> {
    call(float_loop!(loop3, AddCDiv, x.dtype()), "addcdiv", [value, 0.0, 0.0, 0.0], [x, a, b], out)
}

/// Compute `out = x + weight * (y - x)` for floats, starting from the nearer end. A scalar weight has strides of zero.
///
/// # Errors
/// Fails with [`KernelError::Other`] for other dtypes.
pub fn lerp(x: &View, y: &View, weight: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    call(float_loop!(loop3, Lerp, x.dtype()), "lerp", [0.0; 4], [x, y, weight], out)
}

/// Compute `out = min(max(x, low), high)`. `None` means no bound. NaN stays NaN, and `high` wins over `low`.
///
/// Integer elements need integer bounds. The caller promotes other combinations.
///
/// # Errors
/// Fails with [`KernelError::Other`] for `bool`.
pub fn clamp(x: &View, low: Option<f64>, high: Option<f64>, out: &mut ViewMut) -> Result<(), KernelError> {
    let dtype = x.dtype();
    let nan = low.is_some_and(f64::is_nan) || high.is_some_and(f64::is_nan);
    let params = if dtype.is_float() {
        if nan {
            crate::copy::fill(out, crate::copy::Scalar::Float(f64::NAN));
            return Ok(());
        }
        [low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY), 0.0, 0.0]
    } else {
        let low = low.map_or(i64::MIN, |v| v as i64);
        let high = high.map_or(i64::MAX, |v| v as i64);
        [f64::from_bits(low as u64), f64::from_bits(high as u64), 0.0, 0.0]
    };
    call(number_loop!(loop1, Clamp, dtype), "clamp", params, [x], out)
}

/// Compute `out = x Phi(x)`, or its approximation by `tanh`.
///
/// # Errors
/// Fails with [`KernelError::Other`] unless the dtypes are floating point.
pub fn gelu(x: &View, tanh: bool, out: &mut ViewMut) -> Result<(), KernelError> {
    let f = if tanh { float_loop!(loop1, GeluTanh, x.dtype()) } else { float_loop!(loop1, Gelu, x.dtype()) };
    call(f, "gelu", [0.0; 4], [x], out)
}

/// Compute `out = g * gelu'(x)`.
///
/// # Errors
/// Fails with [`KernelError::Other`] unless the dtypes are floating point.
pub fn gelu_backward(g: &View, x: &View, tanh: bool, out: &mut ViewMut) -> Result<(), KernelError> {
    let f = if tanh {
        float_loop!(loop2, GeluTanhBackward, x.dtype())
    } else {
        float_loop!(loop2, GeluBackward, x.dtype())
    };
    call(f, "gelu_backward", [0.0; 4], [g, x], out)
}

/// Compute `out = x sigmoid(x)`.
///
/// # Errors
/// Fails with [`KernelError::Other`] unless the dtypes are floating point.
pub fn silu(x: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    call(float_loop!(loop1, Silu, x.dtype()), "silu", [0.0; 4], [x], out)
}

/// Compute `out = g * silu'(x)`.
///
/// # Errors
/// Fails with [`KernelError::Other`] unless the dtypes are floating point.
pub fn silu_backward(g: &View, x: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    call(float_loop!(loop2, SiluBackward, x.dtype()), "silu_backward", [0.0; 4], [g, x], out)
}

/// Compute `out = g` where `x > threshold`, else zero: the gradient of `relu` for a threshold of zero. A NaN in `x`
/// lets `g` pass.
///
/// # Errors
/// Fails with [`KernelError::Other`] unless the dtypes are floating point.
pub fn threshold_backward(g: &View, x: &View, threshold: f64, out: &mut ViewMut) -> Result<(), KernelError> {
    let f = float_loop!(loop2, ThresholdBackward, x.dtype());
    call(f, "threshold_backward", [threshold, 0.0, 0.0, 0.0], [g, x], out)
}

/// Compute `out = g y (1 - y)` with `y = sigmoid(x)`.
///
/// # Errors
/// Fails with [`KernelError::Other`] unless the dtypes are floating point.
pub fn sigmoid_backward(g: &View, y: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    call(float_loop!(loop2, SigmoidBackward, y.dtype()), "sigmoid_backward", [0.0; 4], [g, y], out)
}

/// Compute `out = g (1 - y^2)` with `y = tanh(x)`.
///
/// # Errors
/// Fails with [`KernelError::Other`] unless the dtypes are floating point.
pub fn tanh_backward(g: &View, y: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    call(float_loop!(loop2, TanhBackward, y.dtype()), "tanh_backward", [0.0; 4], [g, y], out)
}

macro_rules! select_loops {
    ($($name:ident $body:ident $t:ty;)*) => {$(
        #[inline(always)]
        unsafe fn $body<const FMA: bool>(out: *mut $t, c: *const u8, a: *const $t, b: *const $t, n: usize) {
            for i in 0..n {
                // SAFETY: a `Loop` is called with operands of `n` contiguous elements that do not overlap.
                unsafe {
                    let (a, b) = (*a.add(i), *b.add(i));
                    *out.add(i) = if *c.add(i) != 0 { a } else { b };
                }
            }
        }
        unsafe fn $name(_: &Params, out: *mut u8, x: &[*const u8; 3], n: usize) {
            crate::loops::multiversion! {
                unsafe fn versions<>(out: *mut $t, c: *const u8, a: *const $t, b: *const $t, n: usize) = $body
            }
            // SAFETY: a `Loop` is called with operands of `n` contiguous elements that do not overlap.
            unsafe { versions(out.cast(), x[0], x[1].cast(), x[2].cast(), n) };
        }
    )*};
}
select_loops! {
    select_1 select_1_body u8; select_2 select_2_body u16; select_4 select_4_body u32; select_8 select_8_body u64;
    select_16 select_16_body [u64; 2];
}

/// Compute `out = a` where `cond` (a `bool` array) is true, else `b`, like `torch.where`. `a`, `b` and `out` have the
/// same dtype.
pub fn select(cond: &View, a: &View, b: &View, out: &mut ViewMut) {
    debug_assert!(cond.dtype() == DType::Bool && a.dtype() == out.dtype() && b.dtype() == out.dtype());
    let f: Loop<3> = match out.dtype().size_bytes() {
        1 => select_1,
        2 => select_2,
        4 => select_4,
        8 => select_8,
        16 => select_16,
        _ => crate::refuse_dtype(out.dtype()),
    };
    let ins = [cond, a, b].map(Operand::raw_input);
    // SAFETY: views cover their memory; sizes and dtypes agree; values are moved as bits.
    unsafe { run(f, &[0.0; 4], out.sizes(), Operand::raw_output(out), ins) };
}
