//! Functions of two operands, and comparisons.

use super::{kinds, math, unsupported};
use crate::loops::{Loop, Operand, Params, for_each_row, run};
use crate::map::{Map2, Mostly2, loop2, mostly2};
use crate::special::{self, PolynomialKind};
use crate::{Bool, DType, Element, KernelError, View, ViewMut, bf16, c64, c128, complex, compute_dtype, f16};

/// Compute the remainder with the sign of `b` from the remainder with the sign of `a`.
macro_rules! floored_remainder {
    ($r:expr, $b:expr) => {{
        let r = $r;
        if (r != 0.0) & ((r < 0.0) != ($b < 0.0)) { r + $b } else { r }
    }};
}

/// Compute the floored quotient from the remainder, so that both agree as in Python.
macro_rules! floored_quotient {
    ($t:ty, $a:expr, $b:expr, $r:expr) => {{
        let r = $r;
        let q = ($a - r) / $b;
        let q = if (r != 0.0) & (($b < 0.0) != (r < 0.0)) { q - 1.0 } else { q };
        let f = q.floor();
        let f = if q - f > 0.5 { f + 1.0 } else { f };
        if q == 0.0 { (0.0 as $t).copysign($a / $b) } else { f }
    }};
}

/// Define divisions with remainder: vectors first, then scalar code for quotients that are too long for vectors.
macro_rules! divisions {
    ($($Op:ident |$a:ident, $b:ident, $r:ident| $e:expr, $zero:expr;)*) => {$(
        struct $Op;
        impl Map2<f32, f32> for $Op {
            #[inline(always)]
            fn at<const FMA: bool>(_: &Params, $a: f32, $b: f32) -> f32 {
                let $r = math::fmod::<FMA>($a, $b);
                $e
            }
        }
        impl Mostly2 for $Op {
            #[inline(always)]
            fn hard(a: f32, b: f32) -> bool { math::is_long_division(a, b) }
            #[inline(always)]
            fn exact($a: f32, $b: f32) -> f32 {
                let $r = $a % $b;
                if $b == 0.0 { $zero } else { $e }
            }
        }
    )*};
}
divisions! {
    Fmod |a, b, r| r, r;
    Remainder |a, b, r| floored_remainder!(r, b), r;
    FloorDivide |a, b, r| floored_quotient!(f32, a, b, r), a / b;
}

/// Return the greatest common divisor, which is zero for two zeros. It is negative only if it is the smallest integer,
/// whose magnitude does not fit.
fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.wrapping_abs(), b.wrapping_abs());
    while a != 0 {
        (a, b) = (b.wrapping_rem(a), a);
    }
    b
}

/// Compute `a^b` of integers, wrapping. A negative exponent gives the true result, truncated towards zero.
macro_rules! integer_pow {
    ($t:ty, $a:expr, $b:expr) => {{
        let (mut base, mut e, mut r): ($t, i64, $t) = ($a, $b as i64, 1);
        if e < 0 {
            match base as i64 {
                1 => 1,
                -1 => {
                    if e & 1 == 0 {
                        1
                    } else {
                        (0 as $t).wrapping_sub(1)
                    }
                }
                _ => 0,
            }
        } else {
            while e > 0 {
                if e & 1 == 1 {
                    r = r.wrapping_mul(base);
                }
                base = base.wrapping_mul(base);
                e >>= 1;
            }
            r
        }
    }};
}

/// Return a loop with its operation.
macro_rules! function {
    ($t:ty, $mode:ident, |$a:ident, $b:ident| $e:expr) => { function!($t, $mode -> $t, |$a, $b| $e) };
    ($t:ty, $mode:ident -> $r:ty, |$a:ident, $b:ident| $e:expr) => {{
        struct Op;
        impl Map2<$t, $r> for Op {
            const VECTOR: bool = function!(@$mode);
            #[inline(always)]
            fn at<const FMA: bool>(_: &Params, $a: $t, $b: $t) -> $r { $e }
        }
        Some(const { loop2::<$t, $r, Op>() })
    }};
    (@vector) => { true };
    (@scalar) => { false };
}

/// Declare [`BinaryKind`] and the loops of each function. `float` is `f32` and `f64`, `int` all integers, `complex`
/// both complex types; `T` is the type within them. Functions of `bool` read and write truth values. A function without
/// a loop for a type refuses it. `vector` loops are compiled for the processor's vectors. `FMA` says whether it has
/// fused products and sums.
macro_rules! functions {
    ($($Kind:ident $name:literal {
        $(float $m:ident $(-> $r:ty)? |$a:ident, $b:ident| $e:expr,)?
        $(f32 $m32:ident $(-> $r32:ty)? |$a32:ident, $b32:ident| $e32:expr,)?
        $(f64 $m64:ident $(-> $r64:ty)? |$a64:ident, $b64:ident| $e64:expr,)?
        $(int $mi:ident $(-> $ri:ty)? |$ai:ident, $bi:ident| $ei:expr,)?
        $(bool |$ab:ident, $bb:ident| $eb:expr,)?
        $(complex $mc:ident $(-> $rc:ty)? |$ac:ident, $bc:ident| $ec:expr,)?
    })*) => {
        kinds! {
            /// A function of two operands, by PyTorch's name.
            BinaryKind { $($Kind $name,)* }
        }
        const fn of_f32(kind: BinaryKind) -> Option<Loop<2>> {
            type T = f32;
            match kind {
                $($(BinaryKind::$Kind => function!(T, $m $(-> $r)?, |$a, $b| $e),)?
                $(BinaryKind::$Kind => function!(T, $m32 $(-> $r32)?, |$a32, $b32| $e32),)?)*
                _ => None,
            }
        }
        const fn of_f64(kind: BinaryKind) -> Option<Loop<2>> {
            type T = f64;
            match kind {
                $($(BinaryKind::$Kind => function!(T, $m $(-> $r)?, |$a, $b| $e),)?
                $(BinaryKind::$Kind => function!(T, $m64 $(-> $r64)?, |$a64, $b64| $e64),)?)*
                _ => None,
            }
        }
        functions! { @int of_u8 u8, $($Kind $($mi $(-> $ri)? |$ai, $bi| $ei)?;)* }
        functions! { @int of_i8 i8, $($Kind $($mi $(-> $ri)? |$ai, $bi| $ei)?;)* }
        functions! { @int of_i16 i16, $($Kind $($mi $(-> $ri)? |$ai, $bi| $ei)?;)* }
        functions! { @int of_i32 i32, $($Kind $($mi $(-> $ri)? |$ai, $bi| $ei)?;)* }
        functions! { @int of_i64 i64, $($Kind $($mi $(-> $ri)? |$ai, $bi| $ei)?;)* }
        const fn of_bool(kind: BinaryKind) -> Option<Loop<2>> {
            match kind {
                $($(BinaryKind::$Kind => function!(Bool, vector -> bool, |x, y| {
                    let ($ab, $bb) = (x.is_true(), y.is_true());
                    $eb
                }),)?)*
                _ => None,
            }
        }
        functions! { @complex of_c64 c64, $($Kind $($mc $(-> $rc)? |$ac, $bc| $ec)?;)* }
        functions! { @complex of_c128 c128, $($Kind $($mc $(-> $rc)? |$ac, $bc| $ec)?;)* }
    };
    (@int $of:ident $t:ident, $($Kind:ident $($mode:ident $(-> $r:ty)? |$a:ident, $b:ident| $e:expr)?;)*) => {
        #[allow(unused_comparisons, clippy::absurd_extreme_comparisons)]
        const fn $of(kind: BinaryKind) -> Option<Loop<2>> {
            type T = $t;
            match kind {
                $($(BinaryKind::$Kind => function!(T, $mode $(-> $r)?, |$a, $b| $e),)?)*
                _ => None,
            }
        }
    };
    (@complex $of:ident $t:ident, $($Kind:ident $($mode:ident $(-> $r:ty)? |$a:ident, $b:ident| $e:expr)?;)*) => {
        const fn $of(kind: BinaryKind) -> Option<Loop<2>> {
            use crate::complex::Complex as _;
            type T = $t;
            match kind {
                $($(BinaryKind::$Kind => function!(T, $mode $(-> $r)?, |$a, $b| $e),)?)*
                _ => None,
            }
        }
    };
}

/// The number of bits of an integer type.
const fn bits_of<T>() -> i64 {
    size_of::<T>() as i64 * 8
}

functions! {
    Add "add" {
        float vector |a, b| a + b,
        int vector |a, b| a.wrapping_add(b),
        bool |a, b| a | b,
        complex vector |a, b| a + b,
    }
    Sub "sub" {
        float vector |a, b| a - b,
        int vector |a, b| a.wrapping_sub(b),
        complex vector |a, b| a - b,
    }
    Mul "mul" {
        float vector |a, b| a * b,
        int vector |a, b| a.wrapping_mul(b),
        bool |a, b| a & b,
        complex vector |a, b| a * b,
    }
    Div "div" {
        float vector |a, b| a / b,
        complex scalar |a, b| complex::div(a, b),
    }
    Pow "pow" {
        f32 vector |a, b| math::pow::<FMA>(a, b),
        f64 scalar |a, b| if b == 2.0 { a * a } else { a.powf(b) },
        int scalar |a, b| integer_pow!(T, a, b),
        complex scalar |a, b| a.map(|a| complex::pow(a, b.wide())),
    }
    Maximum "maximum" {
        float vector |a, b| if a > b || a.is_nan() { a } else { b },
        int vector |a, b| a.max(b),
        bool |a, b| a | b,
    }
    Minimum "minimum" {
        float vector |a, b| if a < b || a.is_nan() { a } else { b },
        int vector |a, b| a.min(b),
        bool |a, b| a & b,
    }
    Fmax "fmax" {
        float vector |a, b| if a > b || b.is_nan() { a } else { b },
        int vector |a, b| a.max(b),
        bool |a, b| a | b,
    }
    Fmin "fmin" {
        float vector |a, b| if a < b || b.is_nan() { a } else { b },
        int vector |a, b| a.min(b),
        bool |a, b| a & b,
    }
    // Zero divisors of integers have already been refused. Dividing by one instead keeps the loops free of panics. The
    // loops of `f32` are those of `of_single`.
    Remainder "remainder" {
        f64 scalar |a, b| floored_remainder!(a % b, b),
        int scalar |a, b| {
            let d = if b == 0 { 1 } else { b };
            let r = a.wrapping_rem(d);
            if r != 0 && (r < 0) != (d < 0) { r.wrapping_add(d) } else { r }
        },
    }
    Fmod "fmod" {
        f64 scalar |a, b| a % b,
        int scalar |a, b| a.wrapping_rem(if b == 0 { 1 } else { b }),
    }
    FloorDivide "floor_divide" {
        f64 scalar |a, b| if b == 0.0 { a / b } else { floored_quotient!(f64, a, b, a % b) },
        int scalar |a, b| {
            let d = if b == 0 { 1 } else { b };
            let q = a.wrapping_div(d);
            if a.wrapping_rem(d) != 0 && (a < 0) != (d < 0) { q.wrapping_sub(1) } else { q }
        },
    }
    Atan2 "atan2" {
        f32 vector |a, b| math::atan2::<FMA>(a, b),
        f64 scalar |a, b| a.atan2(b),
    }
    Hypot "hypot" {
        f32 vector |a, b| math::hypot::<FMA>(a, b),
        f64 scalar |a, b| a.hypot(b),
    }
    BitwiseAnd "bitwise_and" {
        int vector |a, b| a & b,
        bool |a, b| a & b,
    }
    BitwiseOr "bitwise_or" {
        int vector |a, b| a | b,
        bool |a, b| a | b,
    }
    BitwiseXor "bitwise_xor" {
        int vector |a, b| a ^ b,
        bool |a, b| a ^ b,
    }
    // Shift counts that are too large or negative shift all bits out, as in PyTorch.
    LeftShift "bitwise_left_shift" {
        int vector |a, b| if (0..bits_of::<T>()).contains(&(b as i64)) { a.wrapping_shl(b as u32) } else { 0 },
    }
    RightShift "bitwise_right_shift" {
        int vector |a, b| {
            const BITS: i64 = bits_of::<T>();
            a >> (if (0..BITS).contains(&(b as i64)) { b as u32 } else { BITS as u32 - 1 })
                >> (if T::MIN == 0 && !(0..BITS).contains(&(b as i64)) { 1 } else { 0 })
        },
    }
    LogicalAnd "logical_and" {
        float vector -> bool |a, b| (a != 0.0) & (b != 0.0),
        int vector -> bool |a, b| (a != 0) & (b != 0),
        bool |a, b| a & b,
        complex scalar -> bool |a, b| (a != T::default()) & (b != T::default()),
    }
    LogicalOr "logical_or" {
        float vector -> bool |a, b| (a != 0.0) | (b != 0.0),
        int vector -> bool |a, b| (a != 0) | (b != 0),
        bool |a, b| a | b,
        complex scalar -> bool |a, b| (a != T::default()) | (b != T::default()),
    }
    LogicalXor "logical_xor" {
        float vector -> bool |a, b| (a != 0.0) ^ (b != 0.0),
        int vector -> bool |a, b| (a != 0) ^ (b != 0),
        bool |a, b| a ^ b,
        complex scalar -> bool |a, b| (a != T::default()) ^ (b != T::default()),
    }
    NextAfter "nextafter" {
        float scalar |a, b| if a.is_nan() || b.is_nan() {
            a + b
        } else if a == b {
            b
        } else if a < b {
            a.next_up()
        } else {
            a.next_down()
        },
    }
    Copysign "copysign" {
        float vector |a, b| a.copysign(b),
    }
    LogAddExp "logaddexp" {
        f32 vector |a, b| math::logaddexp::<FMA>(a, b),
        f64 scalar |a, b| if a == b && a.is_infinite() { a } else { a.max(b) + (-(a - b).abs()).exp().ln_1p() },
    }
    Xlogy "xlogy" {
        f32 vector |a, b| {
            let y = a * math::log::<FMA>(b);
            if (a == 0.0) & !b.is_nan() { 0.0 } else { y }
        },
        f64 scalar |a, b| if a == 0.0 && !b.is_nan() { 0.0 } else { a * b.ln() },
    }
    // The result has another dtype, see `joins`.
    Complex "complex" {}
    Gcd "gcd" {
        int scalar |a, b| gcd(a as i64, b as i64) as T,
    }
    Lcm "lcm" {
        int scalar |a, b| {
            let g = gcd(a as i64, b as i64);
            // The divisor may be -1, because the smallest integer has no absolute value.
            (if g == 0 { 0 } else { (a as i64).wrapping_div(g).wrapping_mul(b as i64).wrapping_abs() }) as T
        },
    }
    Igamma "igamma" {
        float scalar |a, b| special::igamma(&(a as f64), &(b as f64)) as T,
    }
    Igammac "igammac" {
        float scalar |a, b| special::igammac(&(a as f64), &(b as f64)) as T,
    }
    GammaSlope "_standard_gamma_grad" {
        float scalar |a, b| special::gamma_slope(&(a as f64), &(b as f64)) as T,
    }
    Zeta "special_zeta" {
        float scalar |a, b| special::zeta(&(a as f64), &(b as f64)) as T,
    }
    ChebyshevT "special_chebyshev_polynomial_t" {
        float scalar |a, b| special::orthogonal(PolynomialKind::ChebyshevT, &(a as f64), &(b as f64)) as T,
    }
    ChebyshevU "special_chebyshev_polynomial_u" {
        float scalar |a, b| special::orthogonal(PolynomialKind::ChebyshevU, &(a as f64), &(b as f64)) as T,
    }
    ChebyshevV "special_chebyshev_polynomial_v" {
        float scalar |a, b| special::orthogonal(PolynomialKind::ChebyshevV, &(a as f64), &(b as f64)) as T,
    }
    ChebyshevW "special_chebyshev_polynomial_w" {
        float scalar |a, b| special::orthogonal(PolynomialKind::ChebyshevW, &(a as f64), &(b as f64)) as T,
    }
    ShiftedChebyshevT "special_shifted_chebyshev_polynomial_t" {
        float scalar |a, b| special::orthogonal(PolynomialKind::ShiftedChebyshevT, &(a as f64), &(b as f64)) as T,
    }
    ShiftedChebyshevU "special_shifted_chebyshev_polynomial_u" {
        float scalar |a, b| special::orthogonal(PolynomialKind::ShiftedChebyshevU, &(a as f64), &(b as f64)) as T,
    }
    ShiftedChebyshevV "special_shifted_chebyshev_polynomial_v" {
        float scalar |a, b| special::orthogonal(PolynomialKind::ShiftedChebyshevV, &(a as f64), &(b as f64)) as T,
    }
    ShiftedChebyshevW "special_shifted_chebyshev_polynomial_w" {
        float scalar |a, b| special::orthogonal(PolynomialKind::ShiftedChebyshevW, &(a as f64), &(b as f64)) as T,
    }
    HermiteH "special_hermite_polynomial_h" {
        float scalar |a, b| special::orthogonal(PolynomialKind::HermiteH, &(a as f64), &(b as f64)) as T,
    }
    HermiteHe "special_hermite_polynomial_he" {
        float scalar |a, b| special::orthogonal(PolynomialKind::HermiteHe, &(a as f64), &(b as f64)) as T,
    }
    Laguerre "special_laguerre_polynomial_l" {
        float scalar |a, b| special::orthogonal(PolynomialKind::Laguerre, &(a as f64), &(b as f64)) as T,
    }
    Legendre "special_legendre_polynomial_p" {
        float scalar |a, b| special::orthogonal(PolynomialKind::Legendre, &(a as f64), &(b as f64)) as T,
    }
}

/// Return the loops of `f32`.
const fn of_single(kind: BinaryKind) -> Option<Loop<2>> {
    match kind {
        BinaryKind::Fmod => Some(mostly2::<Fmod>),
        BinaryKind::Remainder => Some(mostly2::<Remainder>),
        BinaryKind::FloorDivide => Some(mostly2::<FloorDivide>),
        _ => of_f32(kind),
    }
}

/// Return the loops of a dtype.
const fn of(kind: BinaryKind, dtype: DType) -> Option<Loop<2>> {
    match compute_dtype(dtype) {
        _ if matches!(kind, BinaryKind::Complex) => joins(dtype),
        // Neighbours in `f32` round back; see `next_half`.
        DType::F32 if matches!(kind, BinaryKind::NextAfter) && dtype.is_half() => None,
        DType::F32 => of_single(kind),
        DType::F64 => of_f64(kind),
        DType::Bool => of_bool(kind),
        DType::U8 => of_u8(kind),
        DType::I8 => of_i8(kind),
        DType::I16 => of_i16(kind),
        DType::I32 => of_i32(kind),
        DType::I64 => of_i64(kind),
        DType::C64 => of_c64(kind),
        DType::C128 => of_c128(kind),
        _ => None,
    }
}

/// The loops by dtype and kind, so that a call finds its own with one load.
static LOOPS: [[Option<Loop<2>>; BinaryKind::ALL.len()]; DType::FULL.len()] = {
    let mut loops = [[None; BinaryKind::ALL.len()]; DType::FULL.len()];
    let mut d = 0;
    while d < loops.len() {
        let mut k = 0;
        while k < BinaryKind::ALL.len() {
            loops[d][k] = of(BinaryKind::ALL[k], DType::FULL[d]);
            k += 1;
        }
        d += 1;
    }
    loops
};

impl BinaryKind {
    /// Whether the result is always `bool`.
    pub const fn is_predicate(self) -> bool {
        matches!(self, BinaryKind::LogicalAnd | BinaryKind::LogicalOr | BinaryKind::LogicalXor)
    }
    /// Return the element type of the result for operands of type `x`.
    pub const fn result(self, x: DType) -> DType {
        match self {
            BinaryKind::Complex => match x.to_complex() {
                Some(d) => d,
                None => x,
            },
            _ if self.is_predicate() => DType::Bool,
            _ => x,
        }
    }
}

kinds! {
    /// A comparison, by PyTorch's name.
    CompareKind { Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge" }
}

/// Return the loop that joins real and imaginary parts.
const fn joins(dtype: DType) -> Option<Loop<2>> {
    struct Join;
    impl<T: Copy> Map2<T, [T; 2]> for Join {
        #[inline(always)]
        fn at<const FMA: bool>(_: &Params, re: T, im: T) -> [T; 2] {
            [re, im]
        }
    }
    match dtype {
        DType::F32 => Some(const { loop2::<f32, [f32; 2], Join>() }),
        DType::F64 => Some(const { loop2::<f64, [f64; 2], Join>() }),
        _ => None,
    }
}

macro_rules! comparisons {
    ($($name:ident $mode:ident $t:ty: $($Kind:ident $op:tt)*;)*) => {$(
        fn $name(kind: CompareKind) -> Option<Loop<2>> {
            match kind {
                $(CompareKind::$Kind => function!($t, $mode -> bool, |a, b| a $op b),)*
                #[allow(unreachable_patterns)]
                _ => None,
            }
        }
    )*};
}
comparisons! {
    cmp_bool vector Bool: Eq == Ne != Lt < Le <= Gt > Ge >=;
    cmp_f32 vector f32: Eq == Ne != Lt < Le <= Gt > Ge >=;
    cmp_f64 vector f64: Eq == Ne != Lt < Le <= Gt > Ge >=;
    cmp_u8 vector u8: Eq == Ne != Lt < Le <= Gt > Ge >=;
    cmp_i8 vector i8: Eq == Ne != Lt < Le <= Gt > Ge >=;
    cmp_i16 vector i16: Eq == Ne != Lt < Le <= Gt > Ge >=;
    cmp_i32 vector i32: Eq == Ne != Lt < Le <= Gt > Ge >=;
    cmp_i64 vector i64: Eq == Ne != Lt < Le <= Gt > Ge >=;
    cmp_c64 scalar c64: Eq == Ne !=;
    cmp_c128 scalar c128: Eq == Ne !=;
}

#[inline]
pub(crate) fn find(kind: BinaryKind, dtype: DType) -> Option<Loop<2>> {
    LOOPS.get(dtype as usize)?[kind as usize]
}

/// Whether [`binary`] has a kernel for an element type.
pub fn binary_supports(kind: BinaryKind, dtype: DType) -> bool {
    find(kind, dtype).is_some() || kind == BinaryKind::NextAfter && dtype.is_float()
}

/// Move each 16-bit float of `a` to its neighbour towards `b`, one element after the other.
fn next_half<T: Element>(a: &View, b: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    let bits = |v: T| -> u16 {
        // SAFETY: `T` is a 16-bit float, so both types have 16 bits.
        unsafe { std::mem::transmute_copy(&v) }
    };
    let numel: usize = out.sizes().iter().product();
    let (sizes, size) = (out.sizes().to_vec(), size_of::<u16>());
    let strides = [a.strides().to_vec(), b.strides().to_vec(), out.strides().to_vec()];
    let to = out.ptr();
    let mut at = vec![0usize; sizes.len()];
    for _ in 0..numel {
        let [i, j, k] = [0, 1, 2].map(|w| at.iter().zip(&strides[w]).map(|(p, s)| p * s).sum::<usize>() * size);
        // SAFETY: the position lies within all three views, which have equal sizes and 16-bit elements.
        unsafe {
            let (x, y) = (a.ptr().add(i).cast::<T>().read_unaligned(), b.ptr().add(j).cast::<T>().read_unaligned());
            let (u, v) = (x.to_f64(), y.to_f64());
            let r = if u.is_nan() {
                bits(x)
            } else if v.is_nan() || u == v {
                bits(y)
            } else if u == 0.0 {
                // The smallest number with the sign of `y`.
                bits(y) & 0x8000 | 1
            } else if (u < v) == (u > 0.0) {
                bits(x) + 1
            } else {
                bits(x) - 1
            };
            to.add(k).cast::<u16>().write_unaligned(r);
        }
        for d in (0..sizes.len()).rev() {
            at[d] += 1;
            if at[d] < sizes[d] {
                break;
            }
            at[d] = 0;
        }
    }
    Ok(())
}

fn has_zero(b: &View) -> bool {
    fn scan<T: Element>(b: &View) -> bool {
        let mut found = false;
        for_each_row(b.sizes(), b.strides(), size_of::<T>(), |offset, step, n| {
            for i in 0..n {
                // SAFETY: the row lies within the view.
                found |= unsafe { b.ptr().add(offset + i * step).cast::<T>().read() }.to_i64() == 0;
            }
        });
        found
    }
    match b.dtype() {
        DType::U8 => scan::<u8>(b),
        DType::I8 => scan::<i8>(b),
        DType::I16 => scan::<i16>(b),
        DType::I32 => scan::<i32>(b),
        DType::I64 => scan::<i64>(b),
        _ => false,
    }
}

/// Write `kind(a, b)` to `out`. All views have the same sizes. `a` and `b` have one dtype, and `out` that of
/// [`BinaryKind::result`]. A broadcast operand has strides of zero. `out` may be `a` or `b` itself.
///
/// Integers wrap, `maximum` and `minimum` propagate NaN, and `remainder` and `floor_divide` follow Python's signs.
///
/// # Errors
/// Fails with [`KernelError::ZeroDivision`] if an integer would be divided by zero, before anything is written. Fails
/// with [`KernelError::Other`] if the dtype has no such function.
#[inline]
pub fn binary(kind: BinaryKind, a: &View, b: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    let dtype = a.dtype();
    match dtype {
        DType::F16 if kind == BinaryKind::NextAfter => return next_half::<f16>(a, b, out),
        DType::BF16 if kind == BinaryKind::NextAfter => return next_half::<bf16>(a, b, out),
        _ => {}
    }
    let Some(f) = find(kind, dtype) else { return Err(unsupported(kind.name(), dtype)) };
    debug_assert_eq!(dtype, b.dtype());
    debug_assert_eq!(out.dtype(), kind.result(dtype));
    debug_assert!(a.sizes() == out.sizes() && b.sizes() == out.sizes());
    if matches!(kind, BinaryKind::Remainder | BinaryKind::Fmod | BinaryKind::FloorDivide)
        && dtype.is_int()
        && has_zero(b)
    {
        return Err(KernelError::ZeroDivision);
    }
    // SAFETY: views cover their memory; sizes and dtypes agree.
    unsafe { run(f, &[0.0; 4], out.sizes(), Operand::output(out), [Operand::input(a), Operand::input(b)]) };
    Ok(())
}

/// Write `kind(out, x)` to `out`, or `kind(x, out)` if `x_first`. Views and dtypes are as for [`binary`].
///
/// # Errors
/// Fails like [`binary`].
pub fn binary_in_place(kind: BinaryKind, out: &mut ViewMut, x: &View, x_first: bool) -> Result<(), KernelError> {
    // SAFETY: `out` covers these elements, and `binary` allows an operand that is also the output.
    let old = unsafe { View::new(out.ptr(), out.sizes(), out.strides(), out.dtype()) };
    if x_first { binary(kind, x, &old, out) } else { binary(kind, &old, x, out) }
}

/// Write `kind(a, b)` to `out`, which is `bool`. The rest is as for [`binary`].
///
/// # Errors
/// Fails with [`KernelError::Other`] for an order (`lt`, `le`, `gt`, `ge`) of complex numbers.
#[inline]
pub fn compare(kind: CompareKind, a: &View, b: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    debug_assert!(a.dtype() == b.dtype() && out.dtype() == DType::Bool);
    if a.dtype().is_stored() {
        return crate::stored::compare(kind, a, b, out);
    }
    let f = match compute_dtype(a.dtype()) {
        DType::F32 => cmp_f32(kind),
        DType::F64 => cmp_f64(kind),
        DType::Bool => cmp_bool(kind),
        DType::U8 => cmp_u8(kind),
        DType::I8 => cmp_i8(kind),
        DType::I16 => cmp_i16(kind),
        DType::I32 => cmp_i32(kind),
        DType::C64 => cmp_c64(kind),
        DType::C128 => cmp_c128(kind),
        DType::I64 => cmp_i64(kind),
        _ => None,
    };
    let Some(f) = f else { return Err(unsupported(kind.name(), a.dtype())) };
    // SAFETY: views cover their memory; sizes and dtypes agree.
    unsafe { run(f, &[0.0; 4], out.sizes(), Operand::output(out), [Operand::input(a), Operand::input(b)]) };
    Ok(())
}
