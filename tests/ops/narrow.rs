//! Results and gradients of 16-bit floats, compared with `float64` computed from the same rounded operands.

use crate::samples::*;
use torchtpu::lazy::{EagerMode, Interpret};
use torchtpu::schema::{Fill, Row};
use torchtpu::{DType, Device, Result, Scalar, Tensor};

/// Factors of the samples. Squares and products of the large numbers overflow in `float16`, and those of the small
/// ones vanish.
const SCALES: [f64; 3] = [1.0, 300.0, 1e-3];

/// The largest error of a result, in roundings.
const RESULT: f64 = 1.02;
/// The largest error of a gradient: it rounds once, and may be computed from the cube of a rounded result.
const GRADIENT: f64 = 4.02;

/// Rows that are not compared, by the reason.
const LEFT_OUT: &[(&str, &[&str])] = &[
    ("the result depends on the dtype", &["nextafter", "rms_norm"]),
    (
        "each product of matrices rounds, as in PyTorch",
        &["linalg_multi_dot", "chain_matmul", "linalg_matrix_power", "matrix_power", "bilinear", "tensordot", "einsum"],
    ),
    (
        "the sum with a bias rounds once more",
        &["conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "convolution"],
    ),
    (
        "each step rounds, as in PyTorch",
        &[
            "lstm.input",
            "lstm_cell",
            "gru.input",
            "gru_cell",
            "rnn_tanh.input",
            "rnn_tanh_cell",
            "rnn_relu.input",
            "rnn_relu_cell",
        ],
    ),
    (
        "numbers near a step fall on its other side",
        &["fractional_max_pool2d", "fractional_max_pool3d", "fake_quantize_per_tensor_affine.tensor_qparams"],
    ),
];

/// Rows whose results or gradients cancel in `float32`, or overflow it, for some of the factors, and the factors for
/// which they are compared.
const SOME_SCALES: &[(&str, &[f64])] = &[
    // The sine of a large multiple of pi is zero here, and what is left of it in `float64`.
    ("sinc", &[1.0, 1e-3]),
    ("tanhshrink", &[1.0, 300.0]),
    ("grid_sampler_2d", &[1.0, 1e-3]),
    ("grid_sampler_3d", &[1.0, 1e-3]),
    ("poisson_nll_loss", &[1.0, 1e-3]),
    ("scaled_dot_product_attention", &[1.0, 1e-3]),
    // One of its samples has a gradient of zero.
    ("cosine_similarity", &[]),
];

/// Half the distance of two neighbouring numbers near one.
fn rounding(dtype: DType) -> f64 {
    if dtype == DType::BF16 { 2f64.powi(-8) } else { 2f64.powi(-11) }
}

/// The range of numbers that a dtype holds with all digits.
fn range(dtype: DType) -> (f64, f64) {
    if dtype == DType::BF16 { (2f64.powi(-126), 3.3e38) } else { (2f64.powi(-14), 65504.0) }
}

fn changed(args: &[Owned], f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Vec<Owned>> {
    args.iter().map(|a| a.map(&mut |t| if t.dtype().is_float() { f(t) } else { Ok(t.clone()) })).collect()
}

/// The results of a row, and the gradients of its operands for ones. Both are lists of numbers.
type Outcome = (Vec<(DType, Vec<f64>)>, Vec<Option<Vec<f64>>>);

fn outcome(row: &Row, args: &[Owned], device: Device, gradient: bool) -> Result<Outcome> {
    let args = on(args, device)?;
    let args = if gradient { leaves(&args)? } else { args };
    let y = call(row, &args)?;
    let list = |t: &Tensor| numbers(&t.detach())?.to_device(Device::CPU)?.to_dtype(DType::F64)?.to_vec::<f64>();
    let values = y.iter().map(|y| Ok((y.dtype(), list(y)?))).collect::<Result<_>>()?;
    let (leaves, y) = (requiring_grad(&args), y.into_iter().filter(Tensor::requires_grad).collect::<Vec<_>>());
    if leaves.is_empty() || y.is_empty() {
        return Ok((values, vec![]));
    }
    // Numbers that all dtypes hold. Gradients for ones would cancel in normalisations.
    let weight = |(k, y): (usize, &Tensor)| {
        let g = tensor(y.dims(), Fill::Normal, 91 + k, DType::F64)?.to_dtype(DType::BF16)?.to_dtype(y.dtype())?;
        g.to_device(device).map(Some)
    };
    let g = y.iter().enumerate().map(weight).collect::<Result<Vec<_>>>()?;
    let grads = torchtpu::autograd::grad(&y, &leaves, &g, None, false, true)?;
    Ok((values, grads.iter().map(|g| g.as_ref().map(&list).transpose()).collect::<Result<_>>()?))
}

/// Return the largest error in roundings, where the exact number is within the range of the dtype.
fn error(got: &[f64], want: &[f64], dtype: DType, relative_to_largest: bool) -> f64 {
    let (least, most) = range(dtype);
    let held = |w: f64| w.abs() < most * 0.99;
    let largest = want.iter().filter(|w| held(**w)).fold(0f64, |m, w| m.max(w.abs()));
    let mut worst = 0f64;
    for (&g, &w) in got.iter().zip(want) {
        if !held(w) {
            continue;
        }
        let size = if relative_to_largest { largest } else { w.abs() };
        // `float32` in between may cancel.
        let error = ((g - w).abs() - largest * 3e-6).max(0.0) / (size.max(least) * rounding(dtype));
        worst = worst.max(if g.is_nan() { f64::INFINITY } else { error });
    }
    worst
}

/// Numbers as all dtypes hold them, so that a cast changes nothing.
fn with_short_numbers(args: Vec<Owned>) -> Vec<Owned> {
    let short = |a: Owned| match a {
        Owned::Scalar(Scalar::Float(v)) => {
            let bits = (v as f32).to_bits().wrapping_add(0x8000) & 0xffff_0000;
            Owned::Scalar(Scalar::Float(f64::from(f32::from_bits(bits))))
        }
        other => other,
    };
    args.into_iter().map(short).collect()
}

fn compare(device: Device) {
    every("narrow floats", |row, schema, sample| {
        let mut found = vec![];
        let name = row.schema.split('(').next().unwrap_or_default();
        if LEFT_OUT.iter().any(|(_, rows)| rows.contains(&name)) {
            return Ok(());
        }
        let scales = SOME_SCALES.iter().find(|(row, _)| *row == name).map_or(&SCALES[..], |(_, scales)| scales);
        for dtype in [DType::BF16, DType::F16] {
            for &scale in scales {
                let label = |e: String| format!("{} {scale}: {e}", dtype.name());
                let Ok(args) = arguments(schema, sample, dtype).map(with_short_numbers) else { continue };
                let Ok(args) = changed(&args, &mut |t| t.mul_scalar(scale)) else { continue };
                let wide = changed(&args, &mut |t| t.to_dtype(DType::F64)).map_err(|e| e.to_string())?;
                let Ok(got) = outcome(row, &args, device, sample.gradient) else { continue };
                let Ok(want) = outcome(row, &wide, Device::CPU, sample.gradient) else { continue };
                for (i, ((d, got), (_, want))) in got.0.iter().zip(&want.0).enumerate() {
                    if *d == dtype {
                        let e = error(got, want, dtype, false);
                        if e > RESULT {
                            found.push(label(format!("result {i}: {e:.1} roundings")));
                        }
                    }
                }
                for (i, pair) in got.1.iter().zip(&want.1).enumerate() {
                    if let (Some(got), Some(want)) = pair {
                        let e = error(got, want, dtype, true);
                        if e > GRADIENT {
                            found.push(label(format!("gradient {i}: {e:.1} roundings")));
                        }
                    }
                }
            }
        }
        if found.is_empty() { Ok(()) } else { Err(found.join("; ")) }
    });
}

#[test]
fn narrow_floats_round_once_on_cpu() {
    compare(Device::CPU);
}

#[test]
fn narrow_floats_round_once_on_a_device() {
    let _one_at_a_time = alone(EagerMode::Fused, Interpret::Always);
    compare(torchtpu::device("tpu").expect("a device name"));
}
