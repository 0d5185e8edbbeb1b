//! Element types and tensor types.

use std::fmt;

/// The type of one element of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ElementType {
    /// Boolean, `i1`.
    Pred,
    /// Signed 8-bit integer.
    S8,
    /// Signed 16-bit integer.
    S16,
    /// Signed 32-bit integer.
    S32,
    /// Signed 64-bit integer.
    S64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE half precision.
    F16,
    /// Brain float: the upper half of an `f32`.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Complex number of two `f32`.
    C64,
    /// Complex number of two `f64`.
    C128,
    /// Float of 8 bits, 4 of exponent, without infinity.
    F8E4M3FN,
    /// Float of 8 bits, 5 of exponent.
    F8E5M2,
    /// Float of 8 bits, 4 of exponent, without infinity, one zero.
    F8E4M3FNUZ,
    /// Float of 8 bits, 5 of exponent, without infinity, one zero.
    F8E5M2FNUZ,
    /// Power of two of 8 bits.
    F8E8M0FNU,
}

use ElementType::*;

impl ElementType {
    /// All element types.
    pub(crate) const ALL: [ElementType; 20] = [
        Pred, S8, S16, S32, S64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128, F8E4M3FN, F8E5M2, F8E4M3FNUZ,
        F8E5M2FNUZ, F8E8M0FNU,
    ];

    /// Return MLIR's name of this type. Signed integers have no sign mark: to StableHLO `i8` is signed.
    pub fn mlir(self) -> &'static str {
        match self {
            Pred => "i1",
            S8 => "i8",
            S16 => "i16",
            S32 => "i32",
            S64 => "i64",
            U8 => "ui8",
            U16 => "ui16",
            U32 => "ui32",
            U64 => "ui64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            C64 => "complex<f32>",
            C128 => "complex<f64>",
            F8E4M3FN => "f8E4M3FN",
            F8E5M2 => "f8E5M2",
            F8E4M3FNUZ => "f8E4M3FNUZ",
            F8E5M2FNUZ => "f8E5M2FNUZ",
            F8E8M0FNU => "f8E8M0FNU",
        }
    }

    /// Return the bits of storage of one element. A boolean counts as 1.
    pub fn bits(self) -> usize {
        match self {
            Pred => 1,
            S8 | U8 | F8E4M3FN | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ | F8E8M0FNU => 8,
            S16 | U16 | F16 | BF16 => 16,
            S32 | U32 | F32 => 32,
            S64 | U64 | F64 | C64 => 64,
            C128 => 128,
        }
    }

    /// Return whether this is a real floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// Return whether this is a floating-point type of 16 bits.
    pub fn is_half(self) -> bool {
        matches!(self, F16 | BF16)
    }

    /// Return the type to compute in: `F32` for floating-point types of 16 bits, and the type itself otherwise.
    pub fn widened(self) -> ElementType {
        if self.is_half() { F32 } else { self }
    }

    /// Return whether this is a floating-point type of 8 bits.
    pub fn is_float8(self) -> bool {
        matches!(self, F8E4M3FN | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ | F8E8M0FNU)
    }

    /// Return whether this is a complex type.
    pub fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }

    /// Return whether this is a signed integer type.
    pub fn is_signed(self) -> bool {
        matches!(self, S8 | S16 | S32 | S64)
    }

    /// Return whether this is an unsigned integer type, which a boolean is not.
    pub fn is_unsigned(self) -> bool {
        matches!(self, U8 | U16 | U32 | U64)
    }

    /// Return whether this is an integer type, which a boolean is not.
    pub fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// Return the type of the real and imaginary part of a complex type, and any other type itself.
    pub fn real_part(self) -> ElementType {
        match self {
            C64 => F32,
            C128 => F64,
            other => other,
        }
    }

    /// The smallest and the largest value of an integer type.
    pub(crate) fn integer_range(self) -> Option<(i128, i128)> {
        let bits = self.bits() as u32;
        if self.is_signed() {
            Some((-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1))
        } else if self.is_unsigned() {
            Some((0, (1i128 << bits) - 1))
        } else {
            None
        }
    }
}

/// A tensor type: sizes and the type of an element.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// Size of every dimension, outermost first.
    pub shape: Vec<usize>,
    /// Type of an element.
    pub element: ElementType,
}

impl Type {
    /// Return the type of a tensor of this shape. `&[]` is a scalar.
    pub fn new(shape: &[usize], element: ElementType) -> Type {
        Type { shape: shape.to_vec(), element }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// The same shape with another element type.
    pub fn with_element(&self, element: ElementType) -> Type {
        Type { shape: self.shape.clone(), element }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for size in &self.shape {
            write!(f, "{size}x")?;
        }
        f.write_str(self.element.mlir())?;
        f.write_str(">")
    }
}
