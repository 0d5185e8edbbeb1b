//! Fourier transforms. One primitive, `Fft`, maps complex to complex numbers along any dimensions; the other functions
//! are composed of it.
//!
//! A transform of real numbers keeps half of the result, because the rest are conjugates. The inverse transform
//! restores them.

use crate::axes::Axes;
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values, normalize_dim};
use crate::ops::concat::{cat, flip};
use crate::policy::{Policies, Policy};
use crate::schema::{Args, Ret, Row, Sample, SampleArg, Scope, Tier, ints, n, t};
use crate::{DType, Error, Meta, Place, Result, Scalar, Tensor, default_dtype, dispatch, samples};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_stablehlo::FftKind;

/// `y[k] = sum_j x[j] e^(-2 pi i j k / n)` along each dimension of a mask, with the other sign if `inverse`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | any, no size of zero among the dimensions of the mask | complex |
/// | y | that of x | that of x |
///
/// Neither direction divides, so each is the gradient of the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fft {
    /// Bit `i`: transform along dimension `i`.
    pub mask: u64,
    /// Whether this is the inverse transform.
    pub inverse: bool,
}

impl Fft {
    fn dims(&self, rank: usize) -> impl Iterator<Item = usize> {
        let mask = self.mask;
        (0..rank).filter(move |d| mask >> d & 1 != 0)
    }
}

impl Op for Fft {
    const NAME: &'static str = "fft_c2c";
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if !x[0].dtype().is_complex() {
            return Err(crate::ops::complex::unsupported("fft_c2c", x[0].dtype()));
        }
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(self.mask, x, y).linear(&[0b1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let dims: smallvec::SmallVec<[usize; 8]> = self.dims(x[0].dims().len()).collect();
        torchtpu_kernels::fft::fft(&x[0].view(), &dims, self.inverse, &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let mut y = x[0].clone();
        let last = y.rank().wrapping_sub(1);
        for d in self.dims(y.rank()) {
            let size = y.shape()[d];
            if size < 2 || y.ty().numel() == 0 {
                continue;
            }
            let mut order: Vec<usize> = (0..=last).collect();
            order.swap(d, last);
            let moved = f.transpose(&y, &order);
            let kind = if self.inverse { FftKind::Ifft } else { FftKind::Fft };
            let mut z = f.fft(&moved, kind, &[size]);
            if self.inverse {
                let count = f.splat(size as f64, z.ty());
                z = f.binary("stablehlo.multiply", &z, &count);
            }
            y = f.transpose(&z, &order);
        }
        smallvec![y]
    }
    fn vjp(&self, _: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![Some(dispatch::call(Prim::Fft(Fft { inverse: !self.inverse, ..*self }), &[g])?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// The divisor of a transform.
#[derive(Clone, Copy)]
pub(super) enum Norm {
    /// The number of points, in the inverse transform.
    Backward,
    /// Its root, in both transforms.
    Ortho,
    /// The number of points, in the forward transform.
    Forward,
}

impl Norm {
    fn parse(name: Option<&str>) -> Result<Norm> {
        match name {
            None | Some("backward") => Ok(Norm::Backward),
            Some("ortho") => Ok(Norm::Ortho),
            Some("forward") => Ok(Norm::Forward),
            Some(other) => Err(Error::runtime(format!("Invalid normalization mode: \"{other}\""))),
        }
    }
    fn scaled(self, y: Tensor, points: usize, inverse: bool) -> Result<Tensor> {
        let by = match (self, inverse) {
            (Norm::Ortho, _) => 1.0 / (points as f64).sqrt(),
            (Norm::Backward, true) | (Norm::Forward, false) => 1.0 / points as f64,
            _ => return Ok(y),
        };
        y.mul_scalar(by)
    }
}

/// `x` in a dtype that has transforms: integers become the default floating-point dtype.
fn floating(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        d @ (DType::F16 | DType::BF16) => Err(Error::runtime(format!("Unsupported dtype {}", d.scalar_type()))),
        d if d.is_inexact() => Ok(x.clone()),
        _ => x.to_dtype(default_dtype()),
    }
}

/// `x` as complex numbers.
fn as_complex(x: &Tensor) -> Result<Tensor> {
    let x = floating(x)?;
    let d = x.dtype().to_complex().unwrap_or(DType::C64);
    x.to_dtype(d)
}

/// `x` cropped, or padded with zeros, to `len` along a dimension.
fn resized(x: &Tensor, dim: usize, len: usize) -> Result<Tensor> {
    let have = x.dims()[dim];
    if len == have {
        return Ok(x.clone());
    }
    if len < have {
        return x.narrow(dim as i64, 0, len as i64);
    }
    let mut widths = vec![(0, 0); x.dims().len()];
    widths[dim] = (0, (len - have) as i64);
    crate::ops::pad::pad_constant(x, &widths, Scalar::Int(0))
}

fn transform(x: &Tensor, dims: &[usize], inverse: bool) -> Result<Tensor> {
    if dims.is_empty() {
        return Ok(x.clone());
    }
    let mask = dims.iter().fold(0, |m, d| m | 1 << d);
    dispatch::call(Prim::Fft(Fft { mask, inverse }), &[x])
}

fn points(n: i64) -> Result<usize> {
    if n < 1 {
        return Err(Error::runtime(format!("Invalid number of data points ({n}) specified")));
    }
    Ok(n as usize)
}

/// A dimension to transform, and the size to crop or pad it to.
type Resized = (usize, Option<i64>);

/// Dimensions to transform, with their sizes, from `s`, `dim`, both or neither. -1 keeps a size.
fn shape_and_dims(x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>) -> Result<Vec<Resized>> {
    let rank = x.dims().len();
    let dims: Vec<usize> = match (dim, s) {
        (Some(&[d, ..]), _) if rank == 0 => {
            return Err(Error::index(format!("Dimension specified as {d} but tensor has no dimensions")));
        }
        (Some(d), _) => d.iter().map(|&d| normalize_dim(d, rank)).collect::<Result<_>>()?,
        (None, Some(s)) if s.len() > rank => {
            return Err(Error::runtime(format!(
                "Got shape with {} values but input tensor only has {rank} dimensions.",
                s.len()
            )));
        }
        (None, Some(s)) => (rank - s.len()..rank).collect(),
        (None, None) => (0..rank).collect(),
    };
    for (i, d) in dims.iter().enumerate() {
        if dims[..i].contains(d) {
            return Err(Error::runtime("FFT dims must be unique"));
        }
    }
    if let Some(s) = s.filter(|s| s.len() != dims.len()) {
        let _ = s;
        return Err(Error::runtime("When given, dim and shape arguments must have the same length"));
    }
    let size = |i: usize| s.map(|s| s[i]).filter(|&n| n != -1);
    Ok(dims.iter().enumerate().map(|(i, &d)| (d, size(i))).collect())
}

/// Transform complex (or real) numbers to complex ones.
pub(super) fn c2c(x: &Tensor, at: &[Resized], norm: Norm, inverse: bool) -> Result<Tensor> {
    let mut y = as_complex(x)?;
    let mut total = 1;
    for &(d, len) in at {
        let len = points(len.unwrap_or(y.dims()[d] as i64))?;
        y = resized(&y, d, len)?;
        total *= len;
    }
    let dims: Vec<usize> = at.iter().map(|(d, _)| *d).collect();
    norm.scaled(transform(&y, &dims, inverse)?, total, inverse)
}

fn some_axis<T>(name: &str, at: &[T]) -> Result<()> {
    if at.is_empty() { Err(Error::runtime(format!("{name} must transform at least one axis"))) } else { Ok(()) }
}

/// Transform real numbers to the half of the frequencies that is needed along the last dimension. `inverse` gives
/// conjugates.
pub(super) fn r2c(name: &str, x: &Tensor, at: &[Resized], norm: Norm, inverse: bool) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return Err(Error::runtime(format!("{name} expects a real input tensor, but got {}", x.dtype().scalar_type())));
    }
    some_axis(name, at)?;
    let y = c2c(x, at, norm, inverse)?;
    let last = at[at.len() - 1].0;
    y.narrow(last as i64, 0, (y.dims()[last] / 2 + 1) as i64)
}

/// Transform half of the frequencies to real numbers. `inverse` is the usual direction.
pub(super) fn c2r(name: &str, x: &Tensor, at: &[Resized], norm: Norm, inverse: bool) -> Result<Tensor> {
    some_axis(name, at)?;
    let mut y = as_complex(x)?;
    let (&(last, len), rest) = at.split_last().expect("checked above");
    let len = points(len.unwrap_or(2 * (y.dims()[last] as i64 - 1)))?;
    let mut total = len;
    for &(d, len) in rest {
        let len = points(len.unwrap_or(y.dims()[d] as i64))?;
        y = resized(&y, d, len)?;
        total *= len;
    }
    let half = len / 2 + 1;
    y = resized(&y, last, half)?;
    let dims: Vec<usize> = rest.iter().map(|(d, _)| *d).collect();
    y = transform(&y, &dims, inverse)?;
    // The other half has the conjugates in reverse order.
    if len > half {
        let d = last as i64;
        let others = flip(&y.narrow(d, 1, (len - half) as i64)?, &[d])?.conj()?;
        y = cat(&[&y, &others], d)?;
    }
    norm.scaled(transform(&y, &[last], inverse)?.real()?.contiguous()?, total, inverse)
}

/// Arguments `self, n, dim, norm`.
fn one(a: &Args<'_>) -> Result<(Tensor, [Resized; 1], Norm)> {
    let x = a.tensor(0)?.clone();
    if x.dims().is_empty() {
        return Err(Error::index(
            "Dimension specified as -1 but tensor has no dimensions".replace("-1", &a.int(2)?.to_string()),
        ));
    }
    let d = normalize_dim(a.int(2)?, x.dims().len())?;
    let at = [(d, a.opt_int(1)?)];
    Ok((x, at, Norm::parse(a.opt_str(3)?)?))
}

/// Arguments `self, s, dim, norm`.
fn many(a: &Args<'_>) -> Result<(Tensor, Vec<Resized>, Norm)> {
    let x = a.tensor(0)?.clone();
    let at = shape_and_dims(&x, a.opt_ints(1)?, a.opt_ints(2)?)?;
    Ok((x, at, Norm::parse(a.opt_str(3)?)?))
}

/// Move frequency zero from the start to the middle of dimensions, or back.
fn shifted(a: &Args<'_>, back: bool) -> Result<Ret> {
    let x = a.tensor(0)?;
    let dims: Vec<i64> = match a.opt_ints(1)? {
        Some(d) => d.to_vec(),
        None => (0..x.dims().len() as i64).collect(),
    };
    if dims.is_empty() {
        return Ok(x.clone().into());
    }
    if x.dims().is_empty() {
        let d = dims[0];
        return Err(Error::index(format!("Dimension specified as {d} but tensor has no dimensions")));
    }
    let mut by = Vec::new();
    for &d in &dims {
        let size = x.dims()[normalize_dim(d, x.dims().len())?] as i64;
        by.push(if back { (size + 1) / 2 } else { size / 2 });
    }
    Ok(crate::ops::concat::roll(x, &by, &dims)?.into())
}

/// Frequencies of the points of a transform: the first half counts up, the second ends at -1.
fn frequencies(a: &Args<'_>, real: bool) -> Result<Ret> {
    let count = a.int(0)?;
    let (dtype, place) = crate::ops::creation::options(a, 2, default_dtype(), Place::CPU)?;
    if !dtype.is_inexact() {
        let name = if real { "rfftfreq" } else { "fftfreq" };
        return Err(Error::runtime(format!("{name} requires a floating point or complex dtype")));
    }
    if count < 0 {
        return Err(Error::runtime("upper bound and lower bound inconsistent with step sign"));
    }
    let v: Vec<f64> = if real {
        memory::collect((0..=count / 2).map(|k| k as f64))
    } else {
        memory::collect((0..count - count / 2).chain(-(count / 2)..0).map(|k| k as f64))
    };
    let by = 1.0 / (count as f64 * a.float(1)?);
    Ok(Tensor::from_slice(&v, &[v.len()])?.mul_scalar(by)?.to_dtype(dtype)?.to_device(place)?.into())
}

fn plain() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[2, 5])]).dtypes(&[DType::F64]),
        Sample::new(vec![t(&[3, 4]), n(5), n(0), SampleArg::Str("ortho")]),
    ]
}
fn planes() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[2, 3, 4])]),
        Sample::new(vec![t(&[3, 4]), ints(&[4, 3]), ints(&[0, 1]), SampleArg::Str("forward")]),
    ]
}

/// A row of `torch.fft`.
const fn row(schema: &'static str, call: crate::schema::Call, samples: fn() -> Vec<Sample>) -> Row {
    Row::new(schema, Tier::Composed, call, samples).scope(Scope::Nn)
}

/// Rows of the Fourier transforms.
pub const ROWS: &[Row] = &[
    row(
        "fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = one(a)?;
            Ok(c2c(&x, &at, norm, false)?.into())
        },
        plain,
    )
    .doc(
        "Return the discrete Fourier transform of `input` along `dim`: `y[k] = sum_j input[j] * exp(-2j * pi * j * k \
         / n)`. The result is complex. `input` is cut or padded with zeros to `n` elements if `n` is given. `norm` \
         says where to divide: by `n` in the inverse transform (`\"backward\"`, the default), by `n` in the forward \
         one (`\"forward\"`), or by `sqrt(n)` in both (`\"ortho\"`). Integers become the default dtype, and `float16` \
         and `bfloat16` raise `RuntimeError`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = one(a)?;
            Ok(c2c(&x, &at, norm, true)?.into())
        },
        plain,
    )
    .doc(
        "Return the inverse discrete Fourier transform of `input` along `dim`: `y[j] = sum_k input[k] * exp(2j * pi * \
         j * k / n) / n`. The result is complex. `n` cuts `input` or pads it with zeros. `norm` says where the \
         division happens, as in `torch.fft.fft`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = one(a)?;
            Ok(r2c("rfft", &x, &at, norm, false)?.into())
        },
        plain,
    )
    .doc(
        "Return the `n // 2 + 1` frequencies of the transform of the real `input` along `dim` that are not conjugates \
         of others. `n` cuts `input` or pads it with zeros. A complex `input` raises `RuntimeError`. `norm` is as in \
         `torch.fft.fft`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = one(a)?;
            Ok(c2r("irfft", &x, &at, norm, true)?.into())
        },
        plain,
    )
    .doc(
        "Return the real signal of `n` elements whose transform begins with `input` along `dim`. It is the inverse of \
         `torch.fft.rfft`. `n` is `2 * (m - 1)` for `m` frequencies unless given, so a signal of odd length needs it. \
         `norm` is as in `torch.fft.fft`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = one(a)?;
            Ok(c2r("hfft", &x, &at, norm, false)?.into())
        },
        plain,
    )
    .doc(
        "Return the real transform along `dim` of a Hermitian-symmetric signal, of which `input` holds the first \
         half. The result has `n` elements, `2 * (m - 1)` for `m` given ones unless `n` is given. `norm` is as in \
         `torch.fft.fft`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = one(a)?;
            Ok(r2c("ihfft", &x, &at, norm, true)?.into())
        },
        plain,
    )
    .doc(
        "Return the first `n // 2 + 1` elements of the inverse transform of the real `input` along `dim`. The others \
         are their conjugates. It is the inverse of `torch.fft.hfft`. `norm` is as in `torch.fft.ifft`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(c2c(&x, &at, norm, false)?.into())
        },
        planes,
    )
    .doc(
        "Return the discrete Fourier transform of `input` along two dimensions, the last ones unless `dim` says \
         others. `s` cuts or pads them with zeros to these sizes, where -1 keeps one. `norm` is as in \
         `torch.fft.fft`, with the product of the sizes.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(c2c(&x, &at, norm, true)?.into())
        },
        planes,
    )
    .doc(
        "Return the inverse discrete Fourier transform of `input` along two dimensions, the last ones unless `dim` \
         says others. `s` and `norm` are as in `torch.fft.fft2`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(r2c("rfftn", &x, &at, norm, false)?.into())
        },
        planes,
    )
    .doc(
        "Return the transform of the real `input` along two dimensions, the last ones unless `dim` says others. Along \
         the last of them the result has `n // 2 + 1` frequencies. `s` and `norm` are as in `torch.fft.fft2`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(c2r("irfftn", &x, &at, norm, true)?.into())
        },
        planes,
    )
    .doc(
        "Return the real image whose transform `torch.fft.rfft2` would give `input`. `s` holds the sizes of the \
         result; the last one is `2 * (m - 1)` for `m` frequencies unless given. `norm` is as in `torch.fft.fft2`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(c2r("hfftn", &x, &at, norm, false)?.into())
        },
        planes,
    )
    .doc(
        "Return the real transform, along two dimensions, of a Hermitian-symmetric signal, of which `input` holds \
         half of the last dimension. `s` holds the sizes of the result. `norm` is as in `torch.fft.fft2`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(r2c("ihfftn", &x, &at, norm, true)?.into())
        },
        planes,
    )
    .doc(
        "Return the inverse transform of the real `input` along two dimensions, with `n // 2 + 1` elements along the \
         last of them. It is the inverse of `torch.fft.hfft2`. `s` and `norm` are as in `torch.fft.fft2`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(c2c(&x, &at, norm, false)?.into())
        },
        planes,
    )
    .doc(
        "Return the discrete Fourier transform of `input` along the dimensions `dim`: as many last ones as `s` has \
         sizes, or all, unless given. `s` cuts or pads them with zeros, where -1 keeps a size. A dimension that \
         occurs twice raises `RuntimeError`. `norm` is as in `torch.fft.fft`, with the product of the sizes.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(c2c(&x, &at, norm, true)?.into())
        },
        planes,
    )
    .doc(
        "Return the inverse discrete Fourier transform of `input` along the dimensions `dim`. `s`, `dim` and `norm` \
         are as in `torch.fft.fftn`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(r2c("rfftn", &x, &at, norm, false)?.into())
        },
        planes,
    )
    .doc(
        "Return the transform of the real `input` along the dimensions `dim`, with `n // 2 + 1` frequencies along the \
         last of them. `s`, `dim` and `norm` are as in `torch.fft.fftn`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(c2r("irfftn", &x, &at, norm, true)?.into())
        },
        planes,
    )
    .doc(
        "Return the real tensor whose transform `torch.fft.rfftn` would give `input`. `s` holds the sizes of the \
         result along `dim`; the last one is `2 * (m - 1)` for `m` frequencies unless given. `norm` is as in \
         `torch.fft.fftn`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(c2r("hfftn", &x, &at, norm, false)?.into())
        },
        planes,
    )
    .doc(
        "Return the real transform, along the dimensions `dim`, of a Hermitian-symmetric signal, of which `input` \
         holds half of the last one. `s` holds the sizes of the result; the last one is `2 * (m - 1)` for `m` given \
         elements unless given.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
        |a| {
            let (x, at, norm) = many(a)?;
            Ok(r2c("ihfftn", &x, &at, norm, true)?.into())
        },
        planes,
    )
    .doc(
        "Return the inverse transform of the real `input` along the dimensions `dim`, with `n // 2 + 1` elements \
         along the last of them. It is the inverse of `torch.fft.hfftn`.",
    )
    .autocast(Policies::cpu(Policy::Full)),
    row(
        "fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor",
        |a| shifted(a, false),
        samples!([t(&[2, 5])], [t(&[2, 5]), ints(&[1])]),
    )
    .doc(
        "Return `input` rolled by half of each dimension in `dim`, or of all, so that frequency zero moves from the \
         start to position `n // 2`. Any dtype.",
    )
    .no_out(),
    row(
        "fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor",
        |a| shifted(a, true),
        samples!([t(&[2, 5])], [t(&[2, 5]), ints(&[1])]),
    )
    .doc(
        "Return `input` rolled back from where `torch.fft.fftshift` moved it, also for odd sizes. `dim` is all \
         dimensions unless given.",
    )
    .no_out(),
    row(
        "fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        |a| frequencies(a, false),
        || vec![Sample::new(vec![n(5)]).no_gradient()],
    )
    .doc(
        "Return the frequencies of the `n` points that `torch.fft.fft` returns, for samples at distance `d`: `[0, 1, \
         ..., (n - 1) // 2, -(n // 2), ..., -1] / (n * d)`. The dtype is floating point or complex.",
    ),
    row(
        "fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? \
        pin_memory=None) -> Tensor",
        |a| frequencies(a, true),
        || vec![Sample::new(vec![n(6), n(0.5)]).no_gradient()],
    )
    .doc(
        "Return the frequencies of the `n // 2 + 1` points that `torch.fft.rfft` returns, for `n` samples at distance \
         `d`: `[0, 1, ..., n // 2] / (n * d)`. The dtype is floating point or complex.",
    ),
];
