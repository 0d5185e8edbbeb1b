//! Rust types that correspond to element types.

use crate::DType;
use crate::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::{c64, c128};
use half::{bf16, f16};

/// A Rust number that can be a tensor element: plain bytes with a [`DType`].
pub trait Element: Copy + Send + Sync + PartialEq + std::fmt::Debug + Default + 'static {
    /// The element type of this Rust type.
    const DTYPE: DType;
    /// Whether all bytes that memory may hold are values of this type. They are for every type but `bool`, in whose
    /// place kernels read [`Bool`].
    const IS_PLAIN: bool = true;
    /// Convert from `f64` like a C cast. Saturate where C leaves the result undefined.
    fn from_f64(v: f64) -> Self;
    /// Convert to `f64`. Complex numbers give their real part.
    fn to_f64(self) -> f64;
    /// Convert from `i64`, wrapping.
    fn from_i64(v: i64) -> Self;
    /// Convert to `i64`, truncating.
    fn to_i64(self) -> i64;
}

/// An element of a `bool` tensor as kernels read it: a byte that is true unless it is zero. Memory may hold any byte,
/// because views of another dtype and other libraries write it. Kernels write zero or one.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// False.
    pub const FALSE: Bool = Bool(0);
    /// True.
    pub const TRUE: Bool = Bool(1);
    /// Whether the byte is not zero.
    #[inline(always)]
    pub fn is_true(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    #[inline(always)]
    fn from(v: bool) -> Bool {
        Bool(v as u8)
    }
}

impl PartialEq for Bool {
    #[inline(always)]
    fn eq(&self, other: &Bool) -> bool {
        self.is_true() == other.is_true()
    }
}

impl PartialOrd for Bool {
    #[inline(always)]
    fn partial_cmp(&self, other: &Bool) -> Option<std::cmp::Ordering> {
        self.is_true().partial_cmp(&other.is_true())
    }
}

impl std::fmt::Debug for Bool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.is_true().fmt(f)
    }
}

macro_rules! element {
    ($($t:ty, $d:ident $(, $is_plain:literal)?, |$a:ident| $from_f64:expr, |$b:ident| $to_f64:expr,
        |$c:ident| $from_i64:expr, |$e:ident| $to_i64:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            $(const IS_PLAIN: bool = $is_plain;)?
            #[inline(always)]
            fn from_f64($a: f64) -> Self { $from_f64 }
            #[inline(always)]
            fn to_f64(self) -> f64 { let $b = self; $to_f64 }
            #[inline(always)]
            fn from_i64($c: i64) -> Self { $from_i64 }
            #[inline(always)]
            fn to_i64(self) -> i64 { let $e = self; $to_i64 }
        }
    )*};
}

element! {
    bool, Bool, false, |v| v != 0.0, |v| v as u8 as f64, |v| v != 0, |v| v as i64;
    Bool, Bool, |v| Bool::from(v != 0.0), |v| v.is_true() as u8 as f64, |v| Bool::from(v != 0), |v| v.is_true() as i64;
    u8, U8, |v| v as i64 as u8, |v| v as f64, |v| v as u8, |v| v as i64;
    i8, I8, |v| v as i64 as i8, |v| v as f64, |v| v as i8, |v| v as i64;
    i16, I16, |v| v as i64 as i16, |v| v as f64, |v| v as i16, |v| v as i64;
    i32, I32, |v| v as i64 as i32, |v| v as f64, |v| v as i32, |v| v as i64;
    i64, I64, |v| v as i64, |v| v as f64, |v| v, |v| v;
    f16, F16, |v| f16::from_bits(f32_to_f16(v as f32)), |v| f16_to_f32(v.to_bits()) as f64,
        |v| f16::from_bits(f32_to_f16(v as f32)), |v| f16_to_f32(v.to_bits()) as i64;
    bf16, BF16, |v| bf16::from_bits(f32_to_bf16(v as f32)), |v| bf16_to_f32(v.to_bits()) as f64,
        |v| bf16::from_bits(f32_to_bf16(v as f32)), |v| bf16_to_f32(v.to_bits()) as i64;
    f32, F32, |v| v as f32, |v| v as f64, |v| v as f32, |v| v as i64;
    f64, F64, |v| v, |v| v, |v| v as f64, |v| v as i64;
    c64, C64, |v| c64::new(v as f32, 0.0), |v| v.re as f64, |v| c64::new(v as f32, 0.0), |v| v.re as i64;
    c128, C128, |v| c128::new(v, 0.0), |v| v.re, |v| c128::new(v as f64, 0.0), |v| v.re as i64;
}

/// Panic in a kernel of real numbers that is called with a complex dtype. Callers refuse complex dtypes first.
#[doc(hidden)]
#[cold]
pub fn refuse_complex(dtype: DType) -> ! {
    panic!("kernel of real numbers called with {}", dtype.name())
}

/// Panic in a kernel that has no loop for the size of a dtype. A loop of another size would leave the view.
#[cold]
pub(crate) fn refuse_dtype(dtype: DType) -> ! {
    panic!("kernel called with {}, of {} bytes", dtype.name(), dtype.size_bytes())
}

/// Run a block with `$T` bound to the Rust type of a [`DType`]: one arm per listed type, and one for all others.
#[doc(hidden)]
#[macro_export]
macro_rules! for_types {
    ($dtype:expr, $T:ident => $body:expr, [$($D:ident $t:ty),*], $other:ident => $else:expr) => {
        match $dtype {
            $($crate::DType::$D => {
                type $T = $t;
                $body
            })*
            $other => $else,
        }
    };
}

/// Like [`for_dtype!`](crate::for_dtype), with complex types. Every use compiles its block twelve times.
#[macro_export]
macro_rules! for_any_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::for_types!($dtype, $T => $body, [C64 $crate::c64, C128 $crate::c128],
            other => $crate::for_dtype!(other, $T => $body))
    };
}

/// Run a block with `$T` bound to the Rust type of a real [`DType`]. Panics for complex dtypes, which callers must
/// refuse.
#[macro_export]
macro_rules! for_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::for_types!($dtype, $T => $body,
            [Bool $crate::Bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 $crate::f16, BF16 $crate::bf16, F32 f32,
             F64 f64],
            other => $crate::refuse_complex(other))
    };
}
