//! Maxima of windows at random places, which are drawn from numbers in an operand.

use crate::ops::creation::sizes;
use crate::ops::indexing::gather;
use crate::policy::{Policies, Policy};
use crate::schema::{Args, Row, Sample, Scope, Tier, ints, positive, t, unit};
use crate::types::compute::expect_float;
use crate::{DType, Dims, Error, Result, Tensor};

const NAMES: [&str; 2] = ["fractional_max_pool2d", "fractional_max_pool3d"];

fn check(x: &Tensor, kernel: &[i64], out: &[i64], samples: &Tensor, spatial: usize) -> Result<()> {
    let (name, d) = (NAMES[spatial - 2], x.dims());
    for (v, what) in [(kernel, "kernel_size"), (out, "output_size")] {
        if v.len() != 1 && v.len() != spatial {
            let many = if spatial == 2 { "tuple of Ints" } else { "tuple of three Ints" };
            return Err(Error::runtime(format!("{name}: {what} must either be a single Int or {many}")));
        }
    }
    let name = if spatial == 2 { "fractional_max_pool2d()" } else { "fractional_max_pool3d_out()" };
    if d.len() != spatial + 1 && d.len() != spatial + 2 {
        return Err(Error::runtime(format!(
            "{name}: Expected {}D or {}D tensor, but got: {d}",
            spatial + 1,
            spatial + 2
        )));
    }
    if let Some(i) = (d.len() - spatial - 1..d.len()).find(|&i| d[i] == 0) {
        return Err(Error::runtime(format!(
            "{name}: Expected input to have non-zero size for non-batch dimensions, but got{d} with dimension {i} \
            being empty."
        )));
    }
    let sides = &["time", "height", "width"][3 - spatial..];
    for k in 0..spatial {
        let (pool, n, o) = (at(kernel, k), d[d.len() - spatial + k] as i64, at(out, k));
        if o + pool - 1 > n {
            return Err(Error::runtime(format!(
                "{name}: pool {} {pool} too large relative to input {} {n}",
                sides[k], sides[k]
            )));
        }
    }
    let (r, batched) = (samples.dims(), d.len() == spatial + 2);
    if samples.dtype() != x.dtype() {
        return Err(Error::runtime("Expect _random_samples to have the same dtype as input"));
    }
    if r.len() != 3 {
        return Err(Error::runtime(format!("Expect _random_samples to have 3 dimensions, got {}", r.len())));
    }
    if batched && r[0] < d[0] {
        return Err(Error::runtime("Expect _random_samples.size(0) no less then input batch size."));
    }
    if r[1] != d[d.len() - spatial - 1] {
        return Err(Error::runtime("Expect _random_samples.size(1) equals to input channel size."));
    }
    if r[2] != spatial {
        return Err(Error::runtime(format!("Expect _random_samples.size(2) equals to {spatial}; got {}.", r[2])));
    }
    expect_float("fractional_max_pool2d_out_frame", x)
}

/// An entry of a list in which one number stands for all entries.
fn at(v: &[i64], k: usize) -> i64 {
    v[if v.len() == 1 { 0 } else { k }]
}

/// The starts of the windows along one dimension, `[n, c, out]`. The arithmetic is rounded like that of the data's
/// dtype.
fn starts(sample: &Tensor, n: i64, pool: i64, out: usize) -> Result<Tensor> {
    let place = sample.place();
    let last = Tensor::full_meta(&sample.meta().with_dtype(DType::I64), (n - pool).into())?.unsqueeze(-1)?;
    if out <= 1 {
        return last.narrow(-1, 0, out as i64);
    }
    let dtype = sample.dtype();
    let number = |v: i64| Tensor::full(&[], v as f64, dtype, place);
    let step = number(n - pool)?.div(&number(out as i64 - 1)?)?;
    let i = crate::ops::indexing::count_up(out - 1, place)?.to_dtype(dtype)?;
    let u = sample.unsqueeze(-1)?;
    let whole = |t: Tensor| t.to_dtype(DType::I64);
    let first = whole(i.add(&u)?.mul(&step)?)?.sub(&whole(u.mul(&step)?)?)?;
    crate::ops::concat::cat(&[&first, &last], -1)
}

/// `torch.nn.functional.fractional_max_pool2d` and `3d`: maxima, and their flat positions within each plane. `samples`
/// is `[n, c, spatial]` in `[0, 1)`; each number shifts the windows of one dimension.
///
/// # Errors
/// `Runtime` for sizes or dtypes that do not fit.
pub fn fractional_max_pool(
    x: &Tensor,
    kernel: &[i64],
    out: &[i64],
    samples: &Tensor,
    spatial: usize,
) -> Result<(Tensor, Tensor)> {
    check(x, kernel, out, samples, spatial)?;
    let batched = x.dims().len() == spatial + 2;
    let v = if batched { x.clone() } else { x.unsqueeze(0)? };
    let (batch, channels) = (v.dims()[0], v.dims()[1]);
    let image: Vec<usize> = v.dims()[2..].to_vec();
    let out = sizes(&(0..spatial).map(|k| at(out, k)).collect::<Vec<_>>())?;
    let kernel = sizes(&(0..spatial).map(|k| at(kernel, k)).collect::<Vec<_>>())?;
    let samples = samples.detach().narrow(0, 0, batch as i64)?;
    // Flat positions of the elements of every window, [n, c, windows, elements], built one dimension at a time.
    let lead = Dims::new(&[batch, channels]);
    let mut places =
        Tensor::zeros_like_meta(&v.meta().with_dtype(DType::I64).with_dims(Dims::new(&[batch, channels, 1, 1])))?;
    for k in 0..spatial {
        // In two dimensions the first number belongs to the width.
        let sample = samples.select(2, if spatial == 2 { 1 - k as i64 } else { k as i64 })?;
        let start = starts(&sample, image[k] as i64, kernel[k] as i64, out[k])?;
        let within = crate::ops::indexing::count_up(kernel[k], v.place())?;
        let line = start.unsqueeze(-1)?.add(&within)?;
        let (windows, elements) = (places.dims()[2], places.dims()[3]);
        let five =
            |a: usize, b: usize, c: usize, d: usize| -> Dims { lead.iter().copied().chain([a, b, c, d]).collect() };
        let whole = places.mul_scalar(image[k] as i64)?.reshape_dims(five(windows, 1, elements, 1))?;
        let line = line.reshape_dims(five(1, out[k], 1, kernel[k]))?;
        places = whole
            .add(&line)?
            .reshape_dims(lead.iter().copied().chain([windows * out[k], elements * kernel[k]]).collect())?;
    }
    let (windows, elements) = (places.dims()[2], places.dims()[3]);
    let flat = v.reshape_dims(Dims::new(&[batch, channels, image.iter().product()]))?;
    let line = places.reshape_dims(Dims::new(&[batch, channels, windows * elements]))?;
    let found = gather(&flat.detach(), 2, &line)?.reshape_dims(*places.dims())?.argmax(Some(-1), true)?;
    let at = gather(&places, 3, &found)?.squeeze(-1)?;
    let full: Dims = (if batched { &v.dims()[..2] } else { &v.dims()[1..2] }).iter().chain(&out).copied().collect();
    Ok((gather(&flat, 2, &at)?.reshape_dims(full)?, at.reshape_dims(full)?))
}

fn call(a: &Args<'_>, spatial: usize) -> Result<crate::schema::Ret> {
    Ok(fractional_max_pool(a.tensor(0)?, a.ints(1)?, a.ints(2)?, a.tensor(3)?, spatial)?.into())
}

/// Rows of the family. The shifts have no gradient, so gradients are not compared.
pub const ROWS: &[Row] = &[
    Row::new(
        "fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, \
        Tensor)",
        Tier::Composed,
        |a| call(a, 2),
        || {
            vec![
                Sample::new(vec![t(&[2, 2, 7, 6]), ints(&[2, 3]), ints(&[3, 2]), positive(&[2, 2, 2])]).no_gradient(),
                Sample::new(vec![t(&[2, 5, 5]), ints(&[2, 2]), ints(&[1, 4]), unit(&[1, 2, 2])]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return maxima over `output_size` windows of `kernel_size` at pseudorandom places of `input` `(n, c, h, w)` \
         or `(c, h, w)`, and their flat positions in each plane as `int64`. `random_samples` `(n, c, 2)`, of the \
         dtype of `input` and in `[0, 1)`, shifts the windows of each channel: the first number those along the \
         width, the second those along the height. The steps between windows are `(size - kernel_size) / (output_size \
         - 1)`, rounded down after the shift. `input` is floating point, and `output_size + kernel_size - 1` must not \
         exceed its size.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::cpu(Policy::Full)),
    Row::new(
        "fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> (Tensor, \
        Tensor)",
        Tier::Composed,
        |a| call(a, 3),
        || {
            vec![
                Sample::new(vec![t(&[1, 2, 4, 5, 6]), ints(&[2, 2, 3]), ints(&[2, 3, 2]), unit(&[1, 2, 3])])
                    .no_gradient(),
            ]
        },
    )
    .doc(
        "Return maxima over `output_size` windows of `kernel_size` at pseudorandom places of `input` `(n, c, d, h, \
         w)` or `(c, d, h, w)`, and their flat positions in each volume as `int64`. `random_samples` `(n, c, 3)` \
         shifts the windows of each channel along depth, height and width. Sizes and dtypes follow the rules of \
         `torch.nn.functional.fractional_max_pool2d`.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::cpu(Policy::Full)),
];
