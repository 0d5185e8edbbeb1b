//! Short-time Fourier transforms: transforms of overlapping frames of a signal, and their inverse.

use super::fft::{Norm, c2c, c2r, r2c};
use crate::policy::{Policies, Policy};
use crate::schema::{Args, Ret, Row, Sample, SampleArg, Tier, n, positive, t};
use crate::{Dims, Error, Held, Meta, Result, Scalar, Tensor};
use torchtpu_kernels::memory;

/// A window of `size`, centred in `length` zeros.
fn centred(window: &Tensor, length: usize) -> Result<Tensor> {
    let gap = length - window.numel();
    crate::ops::pad::pad_constant(window, &[((gap / 2) as i64, (gap - gap / 2) as i64)], Scalar::Int(0))
}

/// Check that a window is a vector of the given length.
fn check_window(name: &str, window: &Tensor, length: i64) -> Result<()> {
    if window.dims().len() == 1 && window.numel() as i64 == length {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}: expected a 1D window tensor of size equal to win_length={length}, but got window with size {}",
        window.dims()
    )))
}

/// `torch.stft`: transforms of overlapping frames of a signal, as frequencies by frames.
fn stft(a: &Args<'_>) -> Result<Ret> {
    let x = a.tensor(0)?;
    let length = a.int(1)?;
    let hop = a.opt_int(2)?.unwrap_or(length / 4);
    let width = a.opt_int(3)?.unwrap_or(length);
    let window = a.opt_tensor(4)?;
    let (centre, mode, normalized) = (a.bool(5)?, a.str(6)?, a.bool(7)?);
    let is_complex = x.dtype().is_complex() || window.is_some_and(|w| w.dtype().is_complex());
    let return_complex = match a.opt_bool(9)? {
        Some(c) => c,
        None if is_complex => true,
        None => {
            return Err(Error::runtime(
                "stft requires the return_complex parameter be given for real inputs, and will further require that \
                return_complex=True in a future PyTorch release.",
            ));
        }
    };
    if !x.dtype().is_inexact() {
        return Err(Error::runtime("stft: expected a tensor of floating point or complex values"));
    }
    let rank = x.dims().len();
    if rank == 0 || rank > 2 {
        return Err(Error::runtime(format!("stft: expected a 1D or 2D tensor, but got {rank}D tensor")));
    }
    let mut y = if rank == 1 { x.unsqueeze(0)? } else { x.clone() };
    if centre {
        let by = length / 2;
        y = crate::ops::pad::pad_mode(&y.unsqueeze(0)?, &[by, by], mode, None)?.squeeze(0)?;
    }
    let size = y.dims()[1] as i64;
    if length <= 0 || length > size {
        return Err(Error::runtime(format!("stft: expected 0 < n_fft < {size}, but got n_fft={length}")));
    }
    if hop <= 0 {
        return Err(Error::runtime(format!("stft: expected hop_length > 0, but got hop_length={hop}")));
    }
    if width <= 0 || width > length {
        return Err(Error::runtime(format!("stft: expected 0 < win_length <= n_fft, but got win_length={width}")));
    }
    if window.is_none() {
        crate::warn_once!(
            "A window was not provided. A rectangular window will be applied,which is known to cause spectral leakage. \
            Other windows such as torch.hann_window or torch.hamming_window are recommended to reduce spectral \
            leakage.To suppress this warning and use a rectangular window, explicitly set `window=torch.ones(n_fft, \
            device=<device>)`.",
        )?;
    }
    let ones;
    let window = match window {
        Some(w) => {
            check_window("stft", w, width)?;
            Some(w)
        }
        None if width < length => {
            let meta = Meta { dims: Dims::new(&[width as usize]), dtype: x.dtype().to_real(), place: x.place() };
            ones = Tensor::full_meta(&meta, Scalar::Int(1))?;
            Some(&ones)
        }
        None => None,
    };
    let mut frames = y.unfold(1, length, hop)?;
    if let Some(w) = window {
        frames = frames.mul(&centred(w, length as usize)?)?;
    }
    let norm = if normalized { Norm::Ortho } else { Norm::Backward };
    let onesided = a.opt_bool(8)?.unwrap_or(!frames.dtype().is_complex());
    if onesided && frames.dtype().is_complex() {
        return Err(Error::runtime("Cannot have onesided output if window or input is complex"));
    }
    let at = [(2, None)];
    let y = if onesided { r2c("stft", &frames, &at, norm, false)? } else { c2c(&frames, &at, norm, false)? };
    let y = y.transpose(1, 2)?;
    let y = if rank == 1 { y.squeeze(0)? } else { y };
    Ok(if return_complex { y } else { y.view_as_real()? }.into())
}

/// `torch.istft`: the signal with this short-time transform, by least squares.
fn istft(a: &Args<'_>) -> Result<Ret> {
    let x = a.tensor(0)?;
    let length = a.int(1)?;
    let hop = a.opt_int(2)?.unwrap_or(length / 4);
    let width = a.opt_int(3)?.unwrap_or(length);
    let (centre, normalized) = (a.bool(5)?, a.bool(6)?);
    let (wanted, return_complex) = (a.opt_int(8)?, a.bool(9)?);
    if !x.dtype().is_complex() {
        return Err(Error::runtime(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.",
        ));
    }
    let rank = x.dims().len();
    if rank != 2 && rank != 3 {
        return Err(Error::runtime(format!(
            "istft: expected a tensor with 2 or 3 dimensions, but got {rank} dimensions"
        )));
    }
    if x.numel() == 0 {
        return Err(Error::runtime("istft: input tensor cannot be empty."));
    }
    let y = if rank == 2 { x.unsqueeze(0)? } else { x.clone() };
    let (batch, bins, count) = (y.dims()[0], y.dims()[1] as i64, y.dims()[2]);
    let onesided = a.opt_bool(7)?.unwrap_or(bins != length);
    let expected = if onesided { length / 2 + 1 } else { length };
    if bins != expected {
        let what = if onesided { "n_fft / 2 + 1" } else { "n_fft" };
        return Err(Error::runtime(format!(
            "istft: expected the frequency dimension (3rd to the last) of the input tensor to match {what} when \
            onesided={}, but got {bins}",
            if onesided { "True" } else { "False" }
        )));
    }
    if hop <= 0 || hop > width {
        return Err(Error::runtime(format!("istft: expected 0 < hop_length <= win_length, but got hop_length={hop}")));
    }
    if width <= 0 || width > length {
        return Err(Error::runtime(format!("istft: expected 0 < win_length <= n_fft, but got win_length={width}")));
    }
    let real = x.dtype().to_real();
    let window = match a.opt_tensor(4)? {
        Some(w) => {
            check_window("istft", w, width)?;
            w.clone()
        }
        None => {
            let meta = Meta { dims: Dims::new(&[width as usize]), dtype: real, place: x.place() };
            Tensor::full_meta(&meta, Scalar::Int(1))?
        }
    };
    if window.dtype().is_complex() && !return_complex {
        return Err(Error::runtime("Complex windows are incompatible with return_complex=False"));
    }
    let window = centred(&window, length as usize)?;
    let norm = if normalized { Norm::Ortho } else { Norm::Backward };
    let y = y.transpose(1, 2)?;
    let at = [(2, Some(length))];
    let pieces = if return_complex {
        if onesided {
            return Err(Error::runtime("Cannot have onesided output if window or input is complex"));
        }
        c2c(&y, &at, norm, true)?
    } else {
        c2r("istft", &y, &at, norm, true)?
    };
    let pieces = pieces.mul(&window)?;
    // Overlapping frames are added up, and so are the squares of the window, by which the sums are divided.
    let total = (length + hop * (count as i64 - 1)) as usize;
    let places: Vec<i64> = memory::collect((0..count as i64).flat_map(|f| (0..length).map(move |i| f * hop + i)));
    let places = Tensor::from_slice_on(&places, &[places.len()], x.place())?;
    let added = |pieces: &Tensor, rows: usize| -> Result<Tensor> {
        let flat = pieces.reshape_dims(Dims::new(&[rows, count * length as usize]))?;
        let zeros = Tensor::zeros_like_meta(&flat.meta().with_dims(Dims::new(&[rows, total])))?;
        crate::ops::indexing::index_add(&zeros, 1, &places, &flat)
    };
    let squares = window.square()?.expand(&[count as i64, length])?;
    let (y, envelope) = (added(&pieces, batch)?, added(&squares, 1)?);
    let start = if centre { length / 2 } else { 0 };
    let end = match wanted {
        Some(n) => start + n,
        None if centre => total as i64 - length / 2,
        None => total as i64,
    };
    let stop = end.min(total as i64).max(start);
    let (y, envelope) = (y.narrow(1, start, stop - start)?, envelope.narrow(1, start, stop - start)?);
    let bad = envelope.abs()?.lt_scalar(1e-11)?;
    let error = || Error::runtime("window overlap add min: 0");
    let envelope = match x.place().held() {
        Held::Handle => crate::ops::indexing::defer(&bad, error())?.tied(&envelope)?,
        Held::Memory if bad.to_vec::<bool>()?.contains(&true) => return Err(error()),
        _ => envelope,
    };
    let mut y = y.div(&envelope)?;
    if end > stop {
        // After the last frame the signal is zero.
        y = crate::ops::pad::pad_constant(&y, &[(0, 0), (0, end - stop)], Scalar::Int(0))?;
    }
    Ok(if rank == 2 { y.squeeze(0)? } else { y }.into())
}

/// Rows of the short-time Fourier transforms.
pub const ROWS: &[Row] = &[
    Row::new(
        "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool \
        center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, bool? return_complex=None, \
        bool? align_to_window=None) -> Tensor",
        Tier::Composed,
        stft,
        || {
            let flags = |c: bool| [n(c), SampleArg::Str("reflect"), n(false), SampleArg::Default, n(true)];
            vec![
                Sample::new([t(&[2, 12]), n(4), n(2), n(4), positive(&[4])].into_iter().chain(flags(true)).collect()),
                Sample::new([t(&[12]), n(6), n(3), n(4), SampleArg::Default].into_iter().chain(flags(false)).collect()),
            ]
        },
    )
    .doc(
        "Return the Fourier transforms of overlapping frames of the signals `input` `(n, l)` or `(l,)`, as `(n, \
         frequencies, frames)` or `(frequencies, frames)`. Frames of `n_fft` elements start every `hop_length` \
         (`n_fft // 4` unless given) and are multiplied by `window` of `win_length` elements, centred; without one, \
         all elements count alike. With `center`, the signal is first padded by `n_fft // 2` at both ends, in the \
         mode `pad_mode`. Real signals give `n_fft // 2 + 1` frequencies unless `onesided=False`. `return_complex` is \
         required for real signals, and False gives the parts in a last dimension of 2.",
    )
    .no_out()
    .autocast(Policies::cpu(Policy::Full)),
    Row::new(
        "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool \
        center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) \
        -> Tensor",
        Tier::Composed,
        istft,
        || {
            vec![
                Sample::new(vec![t(&[2, 3, 5]), n(4), n(2)]).complex(),
                Sample::new(vec![t(&[3, 4]), n(4), n(1), n(4)]).complex(),
            ]
        },
    )
    .doc(
        "Return the signals whose short-time transforms `torch.stft` would give `input`, complex `(n, frequencies, \
         frames)` or `(frequencies, frames)`. Frames are transformed back, multiplied by `window`, added where they \
         overlap, and divided by the sum of the squared windows. A sum that vanishes raises `RuntimeError`. With \
         `center`, half a frame is cut off at both ends. `length` is that of the result, which is padded with zeros \
         at the end if needed.",
    )
    .no_out(),
];
