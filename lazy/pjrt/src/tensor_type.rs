//! The type of a buffer, a parameter or a result: an element type and dimensions.

use std::fmt;

use smallvec::SmallVec;

// One row per element type: variant, code in the C API, bytes, name in StableHLO, doc.
macro_rules! element_types {
    ($($variant:ident $code:literal $bytes:literal $name:literal $doc:literal)*) => {
        /// An element type of the C API that takes whole bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(clippy::upper_case_acronyms, reason = "the C API's own names")]
        pub enum ElementType {
            $(#[doc = $doc] $variant,)*
        }

        impl ElementType {
            /// All element types.
            pub const ALL: &'static [ElementType] = &[$(ElementType::$variant,)*];

            /// Return the size of one element in bytes.
            pub fn size_in_bytes(self) -> usize {
                match self { $(ElementType::$variant => $bytes,)* }
            }

            /// Return the name in StableHLO text: `i1`, `ui8`, `bf16`, `complex<f32>`.
            pub fn stablehlo_name(self) -> &'static str {
                match self { $(ElementType::$variant => $name,)* }
            }

            pub(crate) fn code(self) -> i32 {
                match self { $(ElementType::$variant => $code,)* }
            }

            pub(crate) fn from_code(code: i32) -> Option<ElementType> {
                match code { $($code => Some(ElementType::$variant),)* _ => None }
            }
        }
    };
}

element_types! {
    PRED 1 1 "i1" "Truth value, one byte."
    S8 2 1 "i8" "Signed, 8 bits."
    S16 3 2 "i16" "Signed, 16 bits."
    S32 4 4 "i32" "Signed, 32 bits."
    S64 5 8 "i64" "Signed, 64 bits."
    U8 6 1 "ui8" "Unsigned, 8 bits."
    U16 7 2 "ui16" "Unsigned, 16 bits."
    U32 8 4 "ui32" "Unsigned, 32 bits."
    U64 9 8 "ui64" "Unsigned, 64 bits."
    F16 10 2 "f16" "IEEE half."
    F32 11 4 "f32" "IEEE single."
    F64 12 8 "f64" "IEEE double."
    BF16 13 2 "bf16" "The upper half of an IEEE single."
    C64 14 8 "complex<f32>" "Two singles: real, imaginary."
    C128 15 16 "complex<f64>" "Two doubles: real, imaginary."
    F8E5M2 16 1 "f8E5M2" "8 bits, 5 of exponent."
    F8E4M3FN 17 1 "f8E4M3FN" "8 bits, 4 of exponent, no infinity."
    F8E4M3B11FNUZ 18 1 "f8E4M3B11FNUZ" "8 bits, 4 of exponent, bias 11, no infinity, one zero."
    F8E5M2FNUZ 19 1 "f8E5M2FNUZ" "8 bits, 5 of exponent, no infinity, one zero."
    F8E4M3FNUZ 20 1 "f8E4M3FNUZ" "8 bits, 4 of exponent, no infinity, one zero."
    F8E4M3 26 1 "f8E4M3" "8 bits, 4 of exponent."
    F8E3M4 27 1 "f8E3M4" "8 bits, 3 of exponent."
    F8E8M0FNU 28 1 "f8E8M0FNU" "8 bits, all of exponent: a scale."
}

impl ElementType {
    /// Return the type of a StableHLO name.
    pub fn from_stablehlo_name(name: &str) -> Option<ElementType> {
        Self::ALL.iter().copied().find(|t| t.stablehlo_name() == name)
    }
}

/// An element type and dimensions. A bounded dimension has the size of its bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub element_type: ElementType,
    /// Sizes, outermost first. Empty for a scalar.
    pub dims: SmallVec<[i64; 4]>,
}

impl TensorType {
    /// Make a type from its parts.
    pub fn new(element_type: ElementType, dims: &[i64]) -> TensorType {
        TensorType { element_type, dims: SmallVec::from_slice(dims) }
    }

    /// Return the size in bytes of a dense row-major array of this type. Return `None` for a negative size, or a size
    /// larger than the address space.
    pub fn size_in_bytes(&self) -> Option<usize> {
        size_in_bytes(self.element_type, &self.dims)
    }
}

pub(crate) fn size_in_bytes(element_type: ElementType, dims: &[i64]) -> Option<usize> {
    let mut bytes = element_type.size_in_bytes();
    let mut empty = false;
    for &dim in dims {
        let dim = usize::try_from(dim).ok()?;
        // A size of zero must neither hide that the other sizes overflow nor make them overflow.
        if dim == 0 {
            empty = true;
        } else {
            bytes = bytes.checked_mul(dim)?;
        }
    }
    (bytes <= isize::MAX as usize).then_some(if empty { 0 } else { bytes })
}

impl fmt::Display for TensorType {
    /// Print as in StableHLO: `tensor<2x3xf32>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, self.element_type, &self.dims)
    }
}

fn write_type(f: &mut impl fmt::Write, element_type: ElementType, dims: &[i64]) -> fmt::Result {
    f.write_str("tensor<")?;
    for dim in dims {
        write!(f, "{dim}x")?;
    }
    write!(f, "{}>", element_type.stablehlo_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_survive_a_round_trip() {
        for &t in ElementType::ALL {
            assert_eq!(ElementType::from_code(t.code()), Some(t));
            assert_eq!(ElementType::from_stablehlo_name(t.stablehlo_name()), Some(t));
        }
        assert_eq!(ElementType::from_code(0), None);
        assert_eq!(ElementType::from_stablehlo_name("i7"), None);
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(TensorType::new(ElementType::F32, &[2, 3]).size_in_bytes(), Some(24));
        assert_eq!(TensorType::new(ElementType::C128, &[]).size_in_bytes(), Some(16));
        assert_eq!(TensorType::new(ElementType::F32, &[2, 0]).size_in_bytes(), Some(0));
        assert_eq!(TensorType::new(ElementType::F32, &[-1]).size_in_bytes(), None);
        assert_eq!(TensorType::new(ElementType::F32, &[i64::MAX, 2]).size_in_bytes(), None);
        assert_eq!(TensorType::new(ElementType::F32, &[i64::MAX, 2, 0]).size_in_bytes(), None);
    }

    #[test]
    fn types_print_as_in_stablehlo() {
        assert_eq!(TensorType::new(ElementType::C64, &[2, 3]).to_string(), "tensor<2x3xcomplex<f32>>");
        assert_eq!(TensorType::new(ElementType::PRED, &[]).to_string(), "tensor<i1>");
    }
}
