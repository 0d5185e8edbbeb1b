//! The dtype in which operands meet.

use crate::schema::Operand;
use crate::{DType, Result, Tensor, default_complex, default_dtype, scalar};

/// The dtype in which two operands meet: tensors with dimensions decide, then 0-d tensors, then numbers, each only when
/// its category is higher (`torch.result_type`).
#[inline]
pub fn result_type(a: Operand<'_>, b: Operand<'_>) -> DType {
    if let (Operand::Tensor(x), Operand::Tensor(y)) = (a, b)
        && x.dtype() == y.dtype()
        && !x.is_wrapped_number()
        && !y.is_wrapped_number()
    {
        return x.dtype();
    }
    result_type_of(&[a, b])
}

/// [`result_type`] of any number of operands.
pub fn result_type_of(xs: &[Operand<'_>]) -> DType {
    // By rank: 0 numbers, 1 tensors without dimensions, 2 tensors with dimensions.
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

/// The dtype `high` of tensors that rank above operands of dtype `low`: it changes only where its category is lower. A
/// floating-point type meeting a complex one keeps its precision.
fn outranked(high: DType, low: DType) -> DType {
    match (scalar::category(high), scalar::category(low)) {
        (2, 3) => high.to_complex().unwrap_or(high),
        (h, l) if l > h => scalar::promote_types(high, low),
        _ => high,
    }
}

/// An operand as a tensor of the given dtype; a number becomes a 0-d tensor that stands for it.
#[inline]
pub(crate) fn as_tensor(x: Operand<'_>, dtype: DType) -> Result<Tensor> {
    match x {
        Operand::Tensor(t) if t.dtype() == dtype => Ok(t.clone()),
        Operand::Tensor(t) => t.to_dtype(dtype),
        Operand::Scalar(s) => Tensor::number(s, dtype),
    }
}
