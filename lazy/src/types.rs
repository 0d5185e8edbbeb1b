//! Sizes and dtypes as PJRT describes them.

use smallvec::SmallVec;
use torchtpu_pjrt::ElementType;
use torchtpu_tensor::{DType, Meta};

/// Return the sizes of a value.
pub(crate) fn dimensions(meta: &Meta) -> SmallVec<[i64; 8]> {
    meta.dims.iter().map(|&d| d as i64).collect()
}

/// Return the element type of a dtype.
pub(crate) fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::Bool => ElementType::PRED,
        DType::U8 => ElementType::U8,
        DType::I8 => ElementType::S8,
        DType::I16 => ElementType::S16,
        DType::I32 => ElementType::S32,
        DType::I64 => ElementType::S64,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::BF16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::C64 => ElementType::C64,
        DType::C128 => ElementType::C128,
        DType::U16 => ElementType::U16,
        DType::U32 => ElementType::U32,
        DType::U64 => ElementType::U64,
        DType::F8E4M3FN => ElementType::F8E4M3FN,
        DType::F8E5M2 => ElementType::F8E5M2,
        DType::F8E4M3FNUZ => ElementType::F8E4M3FNUZ,
        DType::F8E5M2FNUZ => ElementType::F8E5M2FNUZ,
        DType::F8E8M0FNU => ElementType::F8E8M0FNU,
    }
}
