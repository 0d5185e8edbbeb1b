//! Element types.

/// The kind of number that a dtype holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Category {
    /// A truth value.
    Bool,
    /// An integer from zero.
    Unsigned,
    /// An integer of either sign.
    Signed,
    /// A real floating-point number.
    Float,
    /// Two real floating-point numbers.
    Complex,
}

/// What kernels do with a dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tier {
    /// They compute with it.
    Full,
    /// They move and convert it, and compute nothing with it.
    Stored,
}

// One row per element type: variant, PyTorch's name, C++ type, name in PyTorch's C++ core, bytes, category, tier, doc.
macro_rules! dtypes {
    ($($variant:ident $name:literal $c_name:literal $scalar_type:literal $bytes:literal $category:ident $tier:ident
        $doc:literal)*) => {
        /// The type of a tensor's elements. Names and sizes are PyTorch's.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DType {
            $(#[doc = $doc] $variant,)*
        }

        impl DType {
            /// Every element type. Those that kernels compute with come first, in promotion order within their
            /// category.
            pub const ALL: [DType; [$(DType::$variant),*].len()] = [$(DType::$variant,)*];

            /// Return the size of one element in bytes.
            #[inline(always)]
            pub const fn size_bytes(self) -> usize {
                const SIZES: [u8; DType::ALL.len()] = [$($bytes),*];
                SIZES[self as usize] as usize
            }

            /// Return the kind of number.
            #[inline]
            pub const fn category(self) -> Category {
                match self { $(DType::$variant => Category::$category,)* }
            }

            /// Return what kernels do with the dtype.
            #[inline]
            pub const fn tier(self) -> Tier {
                match self { $(DType::$variant => Tier::$tier,)* }
            }

            /// Return PyTorch's name without the module, such as `float32`.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// The name of its C++ type in PyTorch's messages: `float`, `long int`.
            pub const fn c_name(self) -> &'static str {
                match self { $(DType::$variant => $c_name,)* }
            }

            /// Return the name in error messages of PyTorch's C++ core, such as `Float` or `Long`.
            pub const fn scalar_type(self) -> &'static str {
                match self { $(DType::$variant => $scalar_type,)* }
            }
        }
    };
}

dtypes! {
    Bool "bool" "bool" "Bool" 1 Bool Full "One byte, zero or one."
    U8 "uint8" "unsigned char" "Byte" 1 Unsigned Full "Unsigned 8-bit integer."
    I8 "int8" "signed char" "Char" 1 Signed Full "Signed 8-bit integer."
    I16 "int16" "short int" "Short" 2 Signed Full "Signed 16-bit integer."
    I32 "int32" "int" "Int" 4 Signed Full "Signed 32-bit integer."
    I64 "int64" "long int" "Long" 8 Signed Full "Signed 64-bit integer."
    F16 "float16" "c10::Half" "Half" 2 Float Full "IEEE half precision."
    BF16 "bfloat16" "c10::BFloat16" "BFloat16" 2 Float Full "The upper half of an `f32`."
    F32 "float32" "float" "Float" 4 Float Full "IEEE single precision."
    F64 "float64" "double" "Double" 8 Float Full "IEEE double precision."
    C64 "complex64" "c10::complex<float>" "ComplexFloat" 8 Complex Full "Complex number of two `f32`."
    C128 "complex128" "c10::complex<double>" "ComplexDouble" 16 Complex Full "Complex number of two `f64`."
    U16 "uint16" "unsigned short" "UInt16" 2 Unsigned Stored "Unsigned 16-bit integer."
    U32 "uint32" "unsigned int" "UInt32" 4 Unsigned Stored "Unsigned 32-bit integer."
    U64 "uint64" "unsigned long" "UInt64" 8 Unsigned Stored "Unsigned 64-bit integer."
    F8E4M3FN "float8_e4m3fn" "c10::Float8_e4m3fn" "Float8_e4m3fn" 1 Float Stored
        "Four bits of exponent, three of mantissa, NaN, no infinity."
    F8E5M2 "float8_e5m2" "c10::Float8_e5m2" "Float8_e5m2" 1 Float Stored
        "Five bits of exponent, two of mantissa, NaN and infinity."
    F8E4M3FNUZ "float8_e4m3fnuz" "c10::Float8_e4m3fnuz" "Float8_e4m3fnuz" 1 Float Stored
        "Four bits of exponent, three of mantissa, NaN, no infinity, one zero."
    F8E5M2FNUZ "float8_e5m2fnuz" "c10::Float8_e5m2fnuz" "Float8_e5m2fnuz" 1 Float Stored
        "Five bits of exponent, two of mantissa, NaN, no infinity, one zero."
    F8E8M0FNU "float8_e8m0fnu" "c10::Float8_e8m0fnu" "Float8_e8m0fnu" 1 Float Stored
        "A power of two: eight bits of exponent, NaN, no sign, no zero."
}

impl DType {
    /// The element types that kernels compute with, in promotion order within their category.
    pub const FULL: [DType; 12] = *DType::ALL.first_chunk().expect("these come first");

    /// The element types that kernels only move and convert.
    pub const STORED: [DType; 8] = *DType::ALL.last_chunk().expect("these come last");

    /// Whether kernels move and convert elements, and compute nothing with them.
    #[inline]
    pub const fn is_stored(self) -> bool {
        matches!(self.tier(), Tier::Stored)
    }

    /// Whether values are complex, or only stored: most ops refuse both.
    #[inline]
    pub const fn is_rare(self) -> bool {
        self as u8 >= DType::C64 as u8
    }

    /// Whether values are real floating-point numbers that kernels compute with.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Whether values are floating-point numbers of 8 bits.
    #[inline]
    pub const fn is_float8(self) -> bool {
        self as u8 >= DType::F8E4M3FN as u8
    }

    /// Whether values are real floating-point numbers of any size.
    #[inline]
    pub const fn is_floating_point(self) -> bool {
        self.is_float() || self.is_float8()
    }

    /// Whether values are floating-point numbers of 16 bits.
    #[inline]
    pub const fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    /// Whether values are complex numbers.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// Whether values are floating-point numbers, real or complex. Only these types can have gradients.
    #[inline]
    pub const fn is_inexact(self) -> bool {
        self.is_floating_point() || self.is_complex()
    }

    /// Return the type of the real and imaginary parts of a complex type. Return any other type unchanged.
    #[inline]
    pub const fn to_real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            d => d,
        }
    }

    /// Return the complex type for a floating-point type. `f16` and `bf16` give `complex64`, because complex numbers of
    /// halves do not exist. Return `None` for integers, and for floats of 8 bits.
    #[inline]
    pub const fn to_complex(self) -> Option<DType> {
        match self {
            DType::F16 | DType::BF16 | DType::F32 | DType::C64 => Some(DType::C64),
            DType::F64 | DType::C128 => Some(DType::C128),
            _ => None,
        }
    }

    /// Whether there are negative numbers.
    #[inline]
    pub const fn is_signed(self) -> bool {
        !matches!(self.category(), Category::Bool | Category::Unsigned) && !matches!(self, DType::F8E8M0FNU)
    }

    /// Whether values are integers that kernels compute with; `bool` is not one.
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self, DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }
}

/// Return the type in which kernels compute a dtype: `F32` for floats of 16 and 8 bits, and the dtype itself otherwise.
#[inline(always)]
pub const fn compute_dtype(dtype: DType) -> DType {
    if dtype.is_half() || dtype.is_float8() { DType::F32 } else { dtype }
}
