//! Products of matrices of 8-bit floats with scales, as quantised layers compute them.

use super::with_wide_sums;
use crate::{DType, Error, Result, Tensor};

/// Return `(a scale_a) (b scale_b) + bias` in `out`, or in the dtype of `a`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[m, k]` | 8-bit float |
/// | b | `[k, n]` | 8-bit float |
/// | scale_a | one element, or `[m, 1]` | `float32` |
/// | scale_b | one element, or `[1, n]` | `float32` |
/// | bias | `[n]` | any |
///
/// Every 8-bit float of these dtypes is a `bfloat16` too, so the products are exact, and are summed in `f32`.
pub(super) fn scaled_mm(
    a: &Tensor,
    b: &Tensor,
    [scale_a, scale_b]: [&Tensor; 2],
    bias: Option<&Tensor>,
    out: Option<DType>,
) -> Result<Tensor> {
    for (x, name) in [(a, "mat1"), (b, "mat2")] {
        if x.dims().len() != 2 {
            return Err(Error::runtime(format!("{name} must be a matrix")));
        }
    }
    let (m, k, n) = (a.dims()[0], a.dims()[1], b.dims()[1]);
    if k != b.dims()[0] {
        let rows = b.dims()[0];
        return Err(Error::runtime(format!("mat_a and mat_b shapes cannot be multiplied ({m}x{k} and {rows}x{n})")));
    }
    let is_number = |s: &Tensor| s.numel() == 1;
    let is_of_rows = scale_a.dims()[..] == [m, 1] && scale_b.dims()[..] == [1, n];
    let is_whole = is_number(scale_a) && is_number(scale_b);
    let fits = a.dtype().is_float8()
        && b.dtype().is_float8()
        && [scale_a, scale_b].iter().all(|s| s.dtype() == DType::F32)
        && (is_whole || is_of_rows && scale_a.is_contiguous() && scale_b.is_contiguous());
    if !fits {
        return Err(misfit(a, b, scale_a, scale_b));
    }
    if let Some(bias) = bias
        && bias.numel() != n
    {
        return Err(Error::runtime(format!("Bias must be size {n} but got {}", bias.numel())));
    }
    let [wide_a, wide_b] = [a, b].map(|x| x.to_dtype(DType::BF16));
    let product = with_wide_sums(|| wide_a?.matmul(&wide_b?))?.to_dtype(DType::F32)?;
    let scales =
        if is_whole { [scale_a.reshape(&[])?, scale_b.reshape(&[])?] } else { [scale_a.clone(), scale_b.clone()] };
    let mut y = product.mul(&scales[0])?.mul(&scales[1])?;
    if let Some(bias) = bias {
        y = y.add(&bias.reshape(&[n as i64])?.to_dtype(DType::F32)?)?;
    }
    y.to_dtype(out.unwrap_or(a.dtype()))
}

fn misfit(a: &Tensor, b: &Tensor, scale_a: &Tensor, scale_b: &Tensor) -> Error {
    let of = |x: &Tensor, name: &str| format!("mat_{name}.dtype()={}", x.dtype().scalar_type());
    let scale = |s: &Tensor, name: &str| {
        let list = |d: &[usize]| d.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (dtype, sizes, strides) = (s.dtype().scalar_type(), list(s.dims()), list(s.strides()));
        (
            format!("scale_{name}.dtype()={dtype}, scale_{name}.size()=[{sizes}]"),
            format!("scale_{name}.stride()=[{strides}]"),
        )
    };
    let ((a_size, a_stride), (b_size, b_stride)) = (scale(scale_a, "a"), scale(scale_b, "b"));
    let (m, n) = (a.dims()[0], b.dims()[1]);
    Error::value(format!(
        "Invalid scaling configuration.\n\
        - For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n\
        - For RowWise scaling, a and b should be float8, scales should be float, scale_a should be ({m}, 1) and \
        scale_b should be (1, {n}), and both should be contiguous.\n\
        Got {}, {a_size}, {a_stride}, {}, {b_size} and {b_stride}",
        of(a, "a"),
        of(b, "b"),
    ))
}
