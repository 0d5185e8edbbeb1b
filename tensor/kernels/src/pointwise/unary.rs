//! Functions of one operand.

use super::{kinds, math, unsupported};
use crate::complex::Complex as _;
use crate::loops::{Loop, Operand, Params, run};
use crate::map::{Map1, Mostly1, loop1, mostly1};
use crate::special::{self, Wide, single};
use crate::{Bool, DType, KernelError, View, ViewMut, c64, c128, complex, compute_dtype};
use std::f64::consts::{LN_2, LN_10};

/// Define [`UnaryKind`] and the loops of its functions for numbers with a point, from one row a function: the variant,
/// the name, and a loop for each element type that has the function. `vector` loops are compiled for every instruction
/// set, `scalar` loops (with library calls) once. `->` names the type of the result where it is another than that of
/// the operand. Each loop declares the function as a local type.
macro_rules! functions {
    ($($Kind:ident $name:literal {
        $(f32 $m32:ident $(-> $r32:ty)? |$x32:ident| $e32:expr,)?
        $(f64 $m64:ident $(-> $r64:ty)? |$x64:ident| $e64:expr,)?
        $(complex $mc:ident $(-> $rc:ty)? |$xc:ident| $ec:expr,)?
    })*) => {
        kinds! {
            /// A function of one operand, by PyTorch's name.
            UnaryKind { $($Kind $name,)* }
        }
        fn of_f32(kind: UnaryKind) -> Option<Loop<1>> {
            match kind {
                $($(UnaryKind::$Kind => function!(f32, $m32 $(-> $r32)?, |$x32| $e32),)?)*
                _ => None,
            }
        }
        fn of_f64(kind: UnaryKind) -> Option<Loop<1>> {
            match kind {
                $($(UnaryKind::$Kind => function!(f64, $m64 $(-> $r64)?, |$x64| $e64),)?)*
                _ => None,
            }
        }
        /// Loops of complex numbers: arithmetic in their own precision, functions in `f64`.
        fn of_c64(kind: UnaryKind) -> Option<Loop<1>> {
            type C = c64;
            type Real = f32;
            match kind {
                $($(UnaryKind::$Kind => function!(C, $mc $(-> $rc)?, |$xc| $ec),)?)*
                _ => None,
            }
        }
        fn of_c128(kind: UnaryKind) -> Option<Loop<1>> {
            type C = c128;
            type Real = f64;
            match kind {
                $($(UnaryKind::$Kind => function!(C, $mc $(-> $rc)?, |$xc| $ec),)?)*
                _ => None,
            }
        }
    };
}

/// The loop of one function of one element type.
macro_rules! function {
    ($t:ty, $mode:ident, |$x:ident| $e:expr) => { function!($t, $mode -> $t, |$x| $e) };
    ($t:ty, $mode:ident -> $r:ty, |$x:ident| $e:expr) => {{
        struct Op;
        impl Map1<$t, $r> for Op {
            const VECTOR: bool = function!(@$mode);
            #[inline(always)]
            fn at<const FMA: bool>(_: &Params, $x: $t) -> $r { $e }
        }
        Some(const { loop1::<$t, $r, Op>() })
    }};
    (@vector) => { true };
    (@scalar) => { false };
}

/// `1` as a complex number.
const ONE: c128 = c128::new(1.0, 0.0);

functions! {
    Neg "neg" {
        f32 vector |x| -x,
        f64 vector |x| -x,
        complex vector |z| -z,
    }
    Abs "abs" {
        f32 vector |x| x.abs(),
        f64 vector |x| x.abs(),
        complex scalar -> Real |z| z.re.hypot(z.im),
    }
    Sign "sign" {
        f32 vector |x| (x > 0.0) as u8 as f32 - (x < 0.0) as u8 as f32,
        f64 vector |x| (x > 0.0) as u8 as f64 - (x < 0.0) as u8 as f64,
    }
    Exp "exp" {
        f32 vector |x| math::exp::<FMA>(x),
        f64 scalar |x| x.exp(),
        complex scalar |z| z.map(complex::exp),
    }
    Exp2 "exp2" {
        f32 vector |x| math::exp2::<FMA>(x),
        f64 scalar |x| x.exp2(),
        complex scalar |z| z.map(|z| complex::exp(z * LN_2)),
    }
    Expm1 "expm1" {
        f32 vector |x| math::expm1::<FMA>(x),
        f64 scalar |x| x.exp_m1(),
        complex scalar |z| z.map(complex::exp_m1),
    }
    Log "log" {
        f32 vector |x| math::log::<FMA>(x),
        f64 scalar |x| x.ln(),
        complex scalar |z| z.map(complex::ln),
    }
    Log2 "log2" {
        f32 vector |x| math::log2::<FMA>(x),
        f64 scalar |x| x.log2(),
        complex scalar |z| z.map(|z| complex::ln(z) / LN_2),
    }
    Log10 "log10" {
        f32 vector |x| math::log10::<FMA>(x),
        f64 scalar |x| x.log10(),
        complex scalar |z| z.map(|z| complex::ln(z) / LN_10),
    }
    Log1p "log1p" {
        f32 vector |x| math::log1p::<FMA>(x),
        f64 scalar |x| x.ln_1p(),
        complex scalar |z| z.map(complex::ln_1p),
    }
    Sqrt "sqrt" {
        f32 vector |x| x.sqrt(),
        f64 vector |x| x.sqrt(),
        complex scalar |z| z.map(complex::sqrt),
    }
    Rsqrt "rsqrt" {
        f32 vector |x| 1.0 / x.sqrt(),
        f64 vector |x| 1.0 / x.sqrt(),
        complex scalar |z| z.map(|z| complex::div(ONE, complex::sqrt(z))),
    }
    Reciprocal "reciprocal" {
        f32 vector |x| 1.0 / x,
        f64 vector |x| 1.0 / x,
        complex scalar |z| complex::div(C::new(1.0, 0.0), z),
    }
    Square "square" {
        f32 vector |x| x * x,
        f64 vector |x| x * x,
        complex vector |z| z * z,
    }
    Sin "sin" {
        f64 scalar |x| x.sin(),
        complex scalar |z| z.map(complex::sin),
    }
    Cos "cos" {
        f64 scalar |x| x.cos(),
        complex scalar |z| z.map(complex::cos),
    }
    Tan "tan" {
        f64 scalar |x| x.tan(),
        complex scalar |z| z.map(complex::tan),
    }
    Asin "asin" {
        f32 vector |x| single::asin(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| x.asin(),
        complex scalar |z| z.map(complex::asin),
    }
    Acos "acos" {
        f32 vector |x| single::acos(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| x.acos(),
        complex scalar |z| z.map(complex::acos),
    }
    Atan "atan" {
        f32 vector |x| single::atan(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| x.atan(),
        complex scalar |z| z.map(complex::atan),
    }
    Sinh "sinh" {
        f32 vector |x| single::sinh(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| x.sinh(),
        complex scalar |z| z.map(complex::sinh),
    }
    Cosh "cosh" {
        f32 vector |x| single::cosh(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| x.cosh(),
        complex scalar |z| z.map(complex::cosh),
    }
    Tanh "tanh" {
        f32 vector |x| math::tanh::<FMA>(x),
        f64 scalar |x| x.tanh(),
        complex scalar |z| z.map(complex::tanh),
    }
    Asinh "asinh" {
        f32 vector |x| single::asinh(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| libm::asinh(x),
        complex scalar |z| z.map(complex::asinh),
    }
    Acosh "acosh" {
        f32 vector |x| single::acosh(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) },
        complex scalar |z| z.map(complex::acosh),
    }
    Atanh "atanh" {
        f32 vector |x| single::atanh(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| libm::atanh(x),
        complex scalar |z| z.map(complex::atanh),
    }
    Sigmoid "sigmoid" {
        f32 vector |x| math::sigmoid::<FMA>(x),
        f64 scalar |x| 1.0 / (1.0 + (-x).exp()),
        complex scalar |z| z.map(complex::sigmoid),
    }
    Erf "erf" {
        f32 vector |x| math::erf::<FMA>(x),
        f64 scalar |x| libm::erf(x),
    }
    Erfc "erfc" {
        f32 vector |x| single::erfc(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| libm::erfc(x),
    }
    Erfinv "erfinv" {
        f32 vector |x| single::erfinv(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| math::erfinv(x),
    }
    Lgamma "lgamma" {
        f32 vector |x| single::lgamma(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| libm::lgamma(x),
    }
    Digamma "digamma" {
        f32 vector |x| single::digamma(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| math::digamma(x),
    }
    Floor "floor" {
        f32 vector |x| x.floor(),
        f64 vector |x| x.floor(),
    }
    Ceil "ceil" {
        f32 vector |x| x.ceil(),
        f64 vector |x| x.ceil(),
    }
    Round "round" {
        f32 vector |x| x.round_ties_even(),
        f64 vector |x| x.round_ties_even(),
    }
    Trunc "trunc" {
        f32 vector |x| x.trunc(),
        f64 vector |x| x.trunc(),
    }
    Frac "frac" {
        f32 vector |x| x - x.trunc(),
        f64 vector |x| x - x.trunc(),
    }
    Relu "relu" {
        f32 vector |x| if x < 0.0 { 0.0 } else { x },
        f64 vector |x| if x < 0.0 { 0.0 } else { x },
    }
    LogicalNot "logical_not" {
        f32 vector -> bool |x| x == 0.0,
        f64 vector -> bool |x| x == 0.0,
        complex scalar -> bool |z| z.re == 0.0 && z.im == 0.0,
    }
    BitwiseNot "bitwise_not" {
    }
    IsNan "isnan" {
        f32 vector -> bool |x| x.is_nan(),
        f64 vector -> bool |x| x.is_nan(),
        complex scalar -> bool |z| z.re.is_nan() || z.im.is_nan(),
    }
    IsInf "isinf" {
        f32 vector -> bool |x| x.is_infinite(),
        f64 vector -> bool |x| x.is_infinite(),
        complex scalar -> bool |z| z.re.is_infinite() || z.im.is_infinite(),
    }
    IsFinite "isfinite" {
        f32 vector -> bool |x| x.is_finite(),
        f64 vector -> bool |x| x.is_finite(),
        complex scalar -> bool |z| z.re.is_finite() && z.im.is_finite(),
    }
    I0 "i0" {
        f32 vector |x| single::i0(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| special::i0(&x),
    }
    I0e "special_i0e" {
        f32 vector |x| single::i0e(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| special::i0e(&x),
    }
    I1 "special_i1" {
        f32 vector |x| single::i1(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| special::i1(&x),
    }
    I1e "special_i1e" {
        f32 vector |x| single::i1e(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| special::i1e(&x),
    }
    ModifiedBesselI0 "special_modified_bessel_i0" {
        f32 vector |x| single::i0(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| special::i0(&x),
    }
    ModifiedBesselI1 "special_modified_bessel_i1" {
        f32 vector |x| single::i1(&Wide::<FMA>(x as f64)).0 as f32,
        f64 scalar |x| special::i1(&x),
    }
    ModifiedBesselK0 "special_modified_bessel_k0" {
        f32 scalar |x| special::k0(&(x as f64)) as f32,
        f64 scalar |x| special::k0(&x),
    }
    ModifiedBesselK1 "special_modified_bessel_k1" {
        f32 scalar |x| special::k1(&(x as f64)) as f32,
        f64 scalar |x| special::k1(&x),
    }
    ScaledModifiedBesselK0 "special_scaled_modified_bessel_k0" {
        f32 scalar |x| special::k0e(&(x as f64)) as f32,
        f64 scalar |x| special::k0e(&x),
    }
    ScaledModifiedBesselK1 "special_scaled_modified_bessel_k1" {
        f32 scalar |x| special::k1e(&(x as f64)) as f32,
        f64 scalar |x| special::k1e(&x),
    }
    BesselJ0 "special_bessel_j0" {
        f32 scalar |x| special::j0(&(x as f64)) as f32,
        f64 scalar |x| special::j0(&x),
    }
    BesselJ1 "special_bessel_j1" {
        f32 scalar |x| special::j1(&(x as f64)) as f32,
        f64 scalar |x| special::j1(&x),
    }
    BesselY0 "special_bessel_y0" {
        f32 scalar |x| special::y0(&(x as f64)) as f32,
        f64 scalar |x| special::y0(&x),
    }
    BesselY1 "special_bessel_y1" {
        f32 scalar |x| special::y1(&(x as f64)) as f32,
        f64 scalar |x| special::y1(&x),
    }
    SphericalBesselJ0 "special_spherical_bessel_j0" {
        f32 scalar |x| special::spherical_j0(&(x as f64)) as f32,
        f64 scalar |x| special::spherical_j0(&x),
    }
    AiryAi "special_airy_ai" {
        f32 scalar |x| special::airy_ai(&(x as f64)) as f32,
        f64 scalar |x| special::airy_ai(&x),
    }
    Erfcx "special_erfcx" {
        f32 scalar |x| special::erfcx(&(x as f64)) as f32,
        f64 scalar |x| special::erfcx(&x),
    }
    LogNdtr "special_log_ndtr" {
        f32 scalar |x| special::log_ndtr(&(x as f64)) as f32,
        f64 scalar |x| special::log_ndtr(&x),
    }
    Ndtri "special_ndtri" {
        f32 scalar |x| special::ndtri(&(x as f64)) as f32,
        f64 scalar |x| special::ndtri(&x),
    }
    Sgn "sgn" {
        complex scalar |z| z.map(complex::sgn),
    }
    Angle "angle" {
        f32 vector |x| if x.is_nan() { x } else if x < 0.0 { std::f32::consts::PI } else { 0.0 },
        f64 vector |x| if x.is_nan() { x } else if x < 0.0 { std::f64::consts::PI } else { 0.0 },
        complex scalar -> Real |z| z.im.atan2(z.re),
    }
    Conj "conj_physical" {
        complex vector |z| z.conj(),
    }
}

impl UnaryKind {
    /// Whether the result is always `bool`.
    pub const fn is_predicate(self) -> bool {
        matches!(self, UnaryKind::LogicalNot | UnaryKind::IsNan | UnaryKind::IsInf | UnaryKind::IsFinite)
    }
    /// Return the element type of the result for an operand of type `x`.
    pub const fn result(self, x: DType) -> DType {
        match self {
            UnaryKind::Abs | UnaryKind::Angle => x.to_real(),
            _ if self.is_predicate() => DType::Bool,
            _ => x,
        }
    }
}

struct Same;
struct Always<const V: bool>;
impl<A: Copy> Map1<A, A> for Same {
    #[inline(always)]
    fn at<const FMA: bool>(_: &Params, a: A) -> A {
        a
    }
}
impl<A: Copy, const V: bool> Map1<A, bool> for Always<V> {
    #[inline(always)]
    fn at<const FMA: bool>(_: &Params, _: A) -> bool {
        V
    }
}

/// Define functions of an angle: vectors first, then scalar code for angles that are too large for vectors.
macro_rules! angles {
    ($($Op:ident $f:ident;)*) => {$(
        struct $Op;
        impl Map1<f32, f32> for $Op {
            #[inline(always)]
            fn at<const FMA: bool>(_: &Params, x: f32) -> f32 { math::$f::<FMA>(x) }
        }
        impl Mostly1 for $Op {
            #[inline(always)]
            fn hard(x: f32) -> bool { x.abs() > math::ANGLE_MAX }
            #[inline(always)]
            fn exact(x: f32) -> f32 { (x as f64).$f() as f32 }
        }
    )*};
}
angles! { Sine sin; Cosine cos; Tangent tan; }

macro_rules! integers {
    ($($name:ident $t:ty: |$a:ident| $abs:expr, |$s:ident| $sign:expr, |$r:ident| $relu:expr;)*) => {$(
        fn $name(kind: UnaryKind) -> Option<Loop<1>> {
            use UnaryKind as K;
            match kind {
                K::Floor | K::Ceil | K::Round | K::Trunc => return Some(const { loop1::<$t, $t, Same>() }),
                K::IsNan | K::IsInf => return Some(const { loop1::<$t, bool, Always<false>>() }),
                K::IsFinite => return Some(const { loop1::<$t, bool, Always<true>>() }),
                _ => {}
            }
            match kind {
                K::Neg => function!($t, vector, |x| x.wrapping_neg()),
                K::Abs => function!($t, vector, |$a| $abs),
                K::Sign => function!($t, vector, |$s| $sign),
                K::Square => function!($t, vector, |x| x.wrapping_mul(x)),
                K::Relu => function!($t, vector, |$r| $relu),
                K::LogicalNot => function!($t, vector -> bool, |x| x == 0),
                K::BitwiseNot => function!($t, vector, |x| !x),
                _ => None,
            }
        }
    )*};
}
integers! {
    of_u8 u8: |x| x, |x| x.min(1), |x| x;
    of_i8 i8: |x| x.wrapping_abs(), |x| x.signum(), |x| x.max(0);
    of_i16 i16: |x| x.wrapping_abs(), |x| x.signum(), |x| x.max(0);
    of_i32 i32: |x| x.wrapping_abs(), |x| x.signum(), |x| x.max(0);
    of_i64 i64: |x| x.wrapping_abs(), |x| x.signum(), |x| x.max(0);
}

fn of_bool(kind: UnaryKind) -> Option<Loop<1>> {
    use UnaryKind as K;
    match kind {
        K::LogicalNot | K::BitwiseNot => function!(Bool, vector -> bool, |x| !x.is_true()),
        K::Abs | K::Sign | K::Square => function!(Bool, vector -> bool, |x| x.is_true()),
        K::IsNan | K::IsInf => Some(const { loop1::<u8, bool, Always<false>>() }),
        K::IsFinite => Some(const { loop1::<u8, bool, Always<true>>() }),
        _ => None,
    }
}

/// Write whether each element of a complex array is nonzero.
pub(crate) fn truth(x: &View, out: &mut ViewMut) {
    struct Truth;
    impl<C: complex::Complex> Map1<C, bool> for Truth {
        const VECTOR: bool = false;
        #[inline(always)]
        fn at<const FMA: bool>(_: &Params, z: C) -> bool {
            z != C::default()
        }
    }
    let f = complex::for_complex!(x.dtype(), C => loop1::<C, bool, Truth>());
    // SAFETY: views cover their memory; sizes and dtypes agree.
    unsafe { run(f, &[0.0; 4], out.sizes(), Operand::output(out), [Operand::input(x)]) };
}

/// Not inlined, unlike its caller, so that the loops are compiled with this crate's options, which optimise in every
/// profile.
fn of_single(kind: UnaryKind) -> Option<Loop<1>> {
    match kind {
        UnaryKind::Sin => Some(mostly1::<Sine>),
        UnaryKind::Cos => Some(mostly1::<Cosine>),
        UnaryKind::Tan => Some(mostly1::<Tangent>),
        _ => of_f32(kind),
    }
}

#[inline]
fn find(kind: UnaryKind, dtype: DType) -> Option<Loop<1>> {
    match compute_dtype(dtype) {
        DType::F32 => of_single(kind),
        DType::F64 => of_f64(kind),
        DType::Bool => of_bool(kind),
        DType::U8 => of_u8(kind),
        DType::I8 => of_i8(kind),
        DType::I16 => of_i16(kind),
        DType::I32 => of_i32(kind),
        DType::C64 => of_c64(kind),
        DType::C128 => of_c128(kind),
        DType::I64 => of_i64(kind),
        _ => None,
    }
}

/// Whether [`unary`] has a kernel for an element type.
pub fn unary_supports(kind: UnaryKind, dtype: DType) -> bool {
    find(kind, dtype).is_some()
}

/// Write `kind(x)` to `out`, which has the sizes of `x` and the dtype of [`UnaryKind::result`]. If the dtypes are
/// equal, `out` may be `x` itself.
///
/// Integers wrap. `f16` and `bf16` are computed in `f32`. `round` goes to even.
///
/// # Errors
/// Fails with [`KernelError::NotImplemented`] if the dtype has no such function. Integers have no `exp`: convert first.
#[inline]
pub fn unary(kind: UnaryKind, x: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    let Some(f) = find(kind, x.dtype()) else { return Err(unsupported(kind.name(), x.dtype())) };
    debug_assert_eq!(x.sizes(), out.sizes());
    debug_assert_eq!(out.dtype(), kind.result(x.dtype()));
    // SAFETY: views cover their memory; sizes and dtypes agree.
    unsafe { run(f, &[0.0; 4], out.sizes(), Operand::output(out), [Operand::input(x)]) };
    Ok(())
}
