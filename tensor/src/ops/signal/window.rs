//! Windows for signals: `torch.hann_window` and others. Their values follow from a number, so the host computes them.

use crate::ops::creation::options;
use crate::schema::{Args, Ret, Row, Sample, Scope, Tier, n};
use crate::{Error, Place, Result, Tensor, default_dtype};
use std::f64::consts::PI;
use torchtpu_kernels::memory;
use torchtpu_kernels::special::i0;

/// Compute `f` of each position within the window, from -1 to 1. A periodic window is one with one more element,
/// without its last.
fn window(a: &Args<'_>, name: &str, at: usize, periodic: bool, f: impl Fn(f64) -> f64) -> Result<Ret> {
    let length = a.int(0)?;
    let (dtype, place) = options(a, at, default_dtype(), Place::CPU)?;
    if !dtype.is_float() {
        return Err(Error::runtime(format!(
            "{name} expects floating point dtypes, got: TensorOptions(dtype={}, device={place}, layout=Strided \
            (default), requires_grad=false (default), pinned_memory=false, memory_format=(nullopt))",
            dtype.c_name()
        )));
    }
    if length < 0 {
        return Err(Error::runtime(format!("{name} requires non-negative window_length, got window_length={length}")));
    }
    let last = if periodic { length } else { length - 1 } as f64;
    let v: Vec<f64> =
        memory::collect((0..length).map(|i| if length == 1 { 1.0 } else { f(2.0 * i as f64 / last - 1.0) }));
    Ok(Tensor::from_slice(&v, &[v.len()])?.to_dtype(dtype)?.to_device(place)?.into())
}

/// A sum of cosines. Each weight has the sign that makes the middle the greatest.
fn cosines(weights: &'static [f64]) -> impl Fn(f64) -> f64 {
    move |x| weights.iter().enumerate().map(|(k, w)| w * (k as f64 * PI * x).cos()).sum()
}

fn hamming(a: &Args<'_>, at: usize, periodic: bool, alpha: f64, beta: f64) -> Result<Ret> {
    window(a, "hamming_window", at, periodic, |x| alpha + beta * (PI * x).cos())
}

fn kaiser(a: &Args<'_>, at: usize, periodic: bool, beta: f64) -> Result<Ret> {
    window(a, "kaiser_window", at, periodic, |x| i0(&(beta * (1.0 - x * x).max(0.0).sqrt())) / i0(&beta))
}

fn length() -> Vec<Sample> {
    vec![Sample::new(vec![n(5)]).no_gradient()]
}
fn symmetric() -> Vec<Sample> {
    vec![Sample::new(vec![n(5), n(false)]).no_gradient()]
}

const fn row(schema: &'static str, call: crate::schema::Call, samples: fn() -> Vec<Sample>) -> Row {
    Row::new(schema, Tier::Composed, call, samples).scope(Scope::Function)
}

macro_rules! schema {
    ($name:literal, $extra:literal) => {
        concat!(
            $name,
            "(int window_length",
            $extra,
            ", *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
        )
    };
}

const TRIANGLE: fn(f64) -> f64 = |x| 1.0 - x.abs();
const HANN: &[f64] = &[0.5, 0.5];
const BLACKMAN: &[f64] = &[0.42, 0.5, 0.08];

/// Rows of the windows.
pub const ROWS: &[Row] = &[
    row(schema!("bartlett_window", ""), |a| window(a, "bartlett_window", 1, true, TRIANGLE), length).doc(
        "Return the triangular window `1 - abs(2 * i / N - 1)` of `window_length` elements `i`. `N` is \
         `window_length` for a `periodic` window, the default, and one less for a symmetric one. The dtype is \
         floating point, the default one unless given, and other dtypes raise `RuntimeError`. A window of one element \
         is 1.",
    ),
    row(
        schema!("bartlett_window.periodic", ", bool periodic"),
        |a| window(a, "bartlett_window", 2, a.bool(1)?, TRIANGLE),
        symmetric,
    ),
    row(schema!("blackman_window", ""), |a| window(a, "blackman_window", 1, true, cosines(BLACKMAN)), length).doc(
        "Return the Blackman window `0.42 - 0.5 * cos(2 * pi * i / N) + 0.08 * cos(4 * pi * i / N)` of \
         `window_length` elements `i`. `N` is `window_length` for a `periodic` window, the default, and one less for \
         a symmetric one. The dtype is floating point, the default one unless given, and other dtypes raise \
         `RuntimeError`.",
    ),
    row(
        schema!("blackman_window.periodic", ", bool periodic"),
        |a| window(a, "blackman_window", 2, a.bool(1)?, cosines(BLACKMAN)),
        symmetric,
    ),
    row(schema!("hann_window", ""), |a| window(a, "hann_window", 1, true, cosines(HANN)), length).doc(
        "Return the Hann window `0.5 - 0.5 * cos(2 * pi * i / N)` of `window_length` elements `i`. `N` is \
         `window_length` for a `periodic` window, the default, which suits `torch.stft`, and one less for a symmetric \
         one. The dtype is floating point, the default one unless given, and other dtypes raise `RuntimeError`.",
    ),
    row(
        schema!("hann_window.periodic", ", bool periodic"),
        |a| window(a, "hann_window", 2, a.bool(1)?, cosines(HANN)),
        symmetric,
    ),
    row(schema!("hamming_window", ""), |a| hamming(a, 1, true, 0.54, 0.46), length).doc(
        "Return the Hamming window `alpha - beta * cos(2 * pi * i / N)` of `window_length` elements `i`. `alpha` is \
         0.54 and `beta` 0.46 unless given. `N` is `window_length` for a `periodic` window, the default, and one less \
         for a symmetric one. The dtype is floating point, the default one unless given, and other dtypes raise \
         `RuntimeError`.",
    ),
    row(schema!("hamming_window.periodic", ", bool periodic"), |a| hamming(a, 2, a.bool(1)?, 0.54, 0.46), symmetric),
    row(
        schema!("hamming_window.periodic_alpha", ", bool periodic, float alpha"),
        |a| hamming(a, 3, a.bool(1)?, a.float(2)?, 0.46),
        || vec![Sample::new(vec![n(5), n(true), n(0.6)]).no_gradient()],
    ),
    row(
        schema!("hamming_window.periodic_alpha_beta", ", bool periodic, float alpha, float beta"),
        |a| hamming(a, 4, a.bool(1)?, a.float(2)?, a.float(3)?),
        || vec![Sample::new(vec![n(5), n(true), n(0.6), n(0.4)]).no_gradient()],
    ),
    row(schema!("kaiser_window", ""), |a| kaiser(a, 1, true, 12.0), length).doc(
        "Return the Kaiser window `i0(beta * sqrt(1 - x ** 2)) / i0(beta)` with `x = 2 * i / N - 1`, of \
         `window_length` elements `i`. `beta` is 12 unless given. `N` is `window_length` for a `periodic` window, the \
         default, and one less for a symmetric one. The dtype is floating point, the default one unless given, and \
         other dtypes raise `RuntimeError`.",
    ),
    row(schema!("kaiser_window.periodic", ", bool periodic"), |a| kaiser(a, 2, a.bool(1)?, 12.0), symmetric),
    row(
        schema!("kaiser_window.beta", ", bool periodic, float beta"),
        |a| kaiser(a, 3, a.bool(1)?, a.float(2)?),
        || vec![Sample::new(vec![n(5), n(false), n(6.5)]).no_gradient()],
    ),
];
