//! Type promotion of operands.

use crate::schema::Operand;
use crate::{DType, Result, Scalar, Tensor, default_complex, default_dtype, scalar};

/// The common dtype of two operands (`torch.result_type`). Tensors with dimensions decide. 0-d tensors, and then
/// numbers, change it only if their category is higher.
#[inline]
pub fn result_type(a: Operand<'_>, b: Operand<'_>) -> DType {
    if let (Operand::Tensor(x), Operand::Tensor(y)) = (a, b)
        && x.dtype() == y.dtype()
        && !x.is_wrapped_number()
        && !y.is_wrapped_number()
    {
        return x.dtype();
    }
    // A real number never changes a floating-point tensor.
    if let (Operand::Tensor(x), Operand::Scalar(s)) = (a, b)
        && x.dtype().is_float()
        && !x.is_wrapped_number()
        && !matches!(s, Scalar::Complex(..))
    {
        return x.dtype();
    }
    result_type_of(&[a, b])
}

/// [`result_type`] for any number of operands.
pub fn result_type_of(xs: &[Operand<'_>]) -> DType {
    // The dtypes by rank: 0 for numbers, 1 for tensors without dimensions, 2 for tensors with dimensions.
    let mut best: [Option<DType>; 3] = [None; 3];
    for x in xs {
        let (rank, d) = match x {
            Operand::Scalar(s) => (0, s.dtype()),
            Operand::Tensor(t) if t.is_wrapped_number() => {
                let d = t.dtype();
                (
                    0,
                    if d.is_complex() {
                        default_complex()
                    } else if d.is_float() {
                        default_dtype()
                    } else {
                        d
                    },
                )
            }
            Operand::Tensor(t) => (if t.dims().is_empty() { 1 } else { 2 }, t.dtype()),
        };
        best[rank] = Some(best[rank].map_or(d, |e| scalar::promote_types(e, d)));
    }
    let mut result: Option<DType> = None;
    for &d in best.iter().flatten() {
        result = Some(result.map_or(d, |r| outranked(d, r)));
    }
    result.unwrap_or(DType::F32)
}

/// The dtype of tensors of dtype `high`, combined with operands of a lower rank and dtype `low`. It changes only if its
/// category is lower. If a floating-point type becomes complex, it keeps its precision.
fn outranked(high: DType, low: DType) -> DType {
    match (scalar::category(high), scalar::category(low)) {
        (2, 3) => high.to_complex().unwrap_or(high),
        (h, l) if l > h => scalar::promote_types(high, low),
        _ => high,
    }
}

/// Refuse to promote a tensor to a dtype that is only stored, and floats of 8 bits to any.
#[cold]
fn check_promotable(from: DType, to: DType) -> Result<()> {
    if scalar::is_promotable(from, to) { Ok(()) } else { Err(scalar::no_common_dtype(from, to)) }
}

/// An operand as a tensor of the given dtype. A number becomes a 0-d tensor that stands for it.
#[inline]
pub(crate) fn as_tensor(x: Operand<'_>, dtype: DType) -> Result<Tensor> {
    match x {
        Operand::Tensor(t) if t.dtype() == dtype => Ok(t.clone()),
        Operand::Tensor(t) => {
            if (t.dtype().is_stored() || dtype.is_stored()) && !t.is_wrapped_number() {
                check_promotable(t.dtype(), dtype)?;
            }
            t.to_dtype(dtype)
        }
        Operand::Scalar(s) => Tensor::number(s, dtype),
    }
}
