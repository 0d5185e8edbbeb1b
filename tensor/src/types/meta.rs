//! The description of a tensor without its values.

use crate::{DType, Device, Dims, Place};
use torchtpu_stablehlo::{ElementType, Type};

/// Sizes, dtype and place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Meta {
    /// Sizes, outermost first.
    pub dims: Dims,
    /// Element type.
    pub dtype: DType,
    /// Where the tensor is, and how its value is held.
    pub place: Place,
}

impl Meta {
    /// A description with the given sizes.
    #[inline]
    pub fn new(dims: &[usize], dtype: DType, place: impl Into<Place>) -> Meta {
        Meta { dims: Dims::new(dims), dtype, place: place.into() }
    }
    /// The device.
    #[inline]
    pub fn device(&self) -> Device {
        self.place.device
    }
    /// The same with another dtype.
    #[inline]
    pub fn with_dtype(mut self, dtype: DType) -> Meta {
        self.dtype = dtype;
        self
    }
    /// The same with other sizes.
    #[inline]
    pub fn with_dims(mut self, dims: Dims) -> Meta {
        self.dims = dims;
        self
    }
    /// Number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.dims.numel()
    }
    /// Bytes of all elements; `None` if that number does not fit the address space.
    #[inline]
    pub fn bytes(&self) -> Option<usize> {
        let mut n = self.dtype.size_bytes();
        for &d in &self.dims {
            n = n.checked_mul(d)?;
        }
        (n <= isize::MAX as usize).then_some(n)
    }
    /// The StableHLO type of such a value.
    pub fn ty(&self) -> Type {
        Type::new(&self.dims, element_type(self.dtype))
    }
}

/// The StableHLO element type of a dtype.
pub fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::Bool => ElementType::Pred,
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
