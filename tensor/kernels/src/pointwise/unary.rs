//! Functions of one operand.

use super::{kinds, math, unsupported};
use crate::loops::{Loop, Operand, Params, compute_dtype, run};
use crate::map::{Map1, Mostly1, loop1, mostly1};
use crate::special::{self, Wide, single};
use crate::{DType, KernelError, View, ViewMut, c64, c128, complex};

kinds! {
    /// A function of one operand, by PyTorch's name.
    UnaryKind {
        Neg "neg", Abs "abs", Sign "sign", Exp "exp", Exp2 "exp2", Expm1 "expm1", Log "log", Log2 "log2",
        Log10 "log10", Log1p "log1p", Sqrt "sqrt", Rsqrt "rsqrt", Reciprocal "reciprocal", Square "square",
        Sin "sin", Cos "cos", Tan "tan", Asin "asin", Acos "acos", Atan "atan", Sinh "sinh", Cosh "cosh",
        Tanh "tanh", Asinh "asinh", Acosh "acosh", Atanh "atanh", Sigmoid "sigmoid", Erf "erf", Erfc "erfc",
        Erfinv "erfinv", Lgamma "lgamma", Digamma "digamma", Floor "floor", Ceil "ceil", Round "round",
        Trunc "trunc", Frac "frac", Relu "relu", LogicalNot "logical_not", BitwiseNot "bitwise_not",
        IsNan "isnan", IsInf "isinf", IsFinite "isfinite", I0 "i0", I0e "special_i0e", I1 "special_i1",
        I1e "special_i1e", ModifiedBesselI0 "special_modified_bessel_i0",
        ModifiedBesselI1 "special_modified_bessel_i1", ModifiedBesselK0 "special_modified_bessel_k0",
        ModifiedBesselK1 "special_modified_bessel_k1", ScaledModifiedBesselK0 "special_scaled_modified_bessel_k0",
        ScaledModifiedBesselK1 "special_scaled_modified_bessel_k1", BesselJ0 "special_bessel_j0",
        BesselJ1 "special_bessel_j1", BesselY0 "special_bessel_y0", BesselY1 "special_bessel_y1",
        SphericalBesselJ0 "special_spherical_bessel_j0", AiryAi "special_airy_ai", Erfcx "special_erfcx",
        LogNdtr "special_log_ndtr", Ndtri "special_ndtri",
        Sgn "sgn", Angle "angle", Conj "conj_physical",
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

/// Return the loop of a kind, for the listed kinds of an element type. Each row declares the op as a local type.
/// `vector` rows are compiled for every instruction set. `scalar` rows (with library calls) are compiled once.
macro_rules! table {
    ($kind:expr, $t:ty; $($mode:ident $Kind:ident => $r:ty: |$x:ident| $e:expr;)*) => {
        match $kind {
            $(UnaryKind::$Kind => {
                struct Op;
                impl Map1<$t, $r> for Op {
                    const VECTOR: bool = table!(@$mode);
                    #[inline(always)]
                    #[allow(non_upper_case_globals)]
                    fn at<const FMA: bool>(_: &Params, $x: $t) -> $r { $e }
                }
                Some(const { loop1::<$t, $r, Op>() })
            })*
            #[allow(unreachable_patterns)]
            _ => None,
        }
    };
    (@vector) => { true };
    (@scalar) => { false };
}

fn of_f32(kind: UnaryKind) -> Option<Loop<1>> {
    table! { kind, f32;
        vector Neg => f32: |x| -x;
        vector Abs => f32: |x| x.abs();
        vector Sign => f32: |x| (x > 0.0) as u8 as f32 - (x < 0.0) as u8 as f32;
        vector Exp => f32: |x| math::exp::<FMA>(x);
        vector Exp2 => f32: |x| math::exp2::<FMA>(x);
        vector Expm1 => f32: |x| math::expm1::<FMA>(x);
        vector Log => f32: |x| math::log::<FMA>(x);
        vector Log2 => f32: |x| math::log2::<FMA>(x);
        vector Log10 => f32: |x| math::log10::<FMA>(x);
        vector Log1p => f32: |x| math::log1p::<FMA>(x);
        vector Sqrt => f32: |x| x.sqrt();
        vector Rsqrt => f32: |x| 1.0 / x.sqrt();
        vector Reciprocal => f32: |x| 1.0 / x;
        vector Square => f32: |x| x * x;
        vector Asin => f32: |x| single::asin(&Wide::<FMA>(x as f64)).0 as f32;
        vector Acos => f32: |x| single::acos(&Wide::<FMA>(x as f64)).0 as f32;
        vector Atan => f32: |x| single::atan(&Wide::<FMA>(x as f64)).0 as f32;
        vector Sinh => f32: |x| single::sinh(&Wide::<FMA>(x as f64)).0 as f32;
        vector Cosh => f32: |x| single::cosh(&Wide::<FMA>(x as f64)).0 as f32;
        vector Tanh => f32: |x| math::tanh::<FMA>(x);
        vector Asinh => f32: |x| single::asinh(&Wide::<FMA>(x as f64)).0 as f32;
        vector Acosh => f32: |x| single::acosh(&Wide::<FMA>(x as f64)).0 as f32;
        vector Atanh => f32: |x| single::atanh(&Wide::<FMA>(x as f64)).0 as f32;
        vector Sigmoid => f32: |x| math::sigmoid::<FMA>(x);
        vector Erf => f32: |x| math::erf::<FMA>(x);
        vector Erfc => f32: |x| single::erfc(&Wide::<FMA>(x as f64)).0 as f32;
        vector Erfinv => f32: |x| single::erfinv(&Wide::<FMA>(x as f64)).0 as f32;
        vector Lgamma => f32: |x| single::lgamma(&Wide::<FMA>(x as f64)).0 as f32;
        vector Digamma => f32: |x| single::digamma(&Wide::<FMA>(x as f64)).0 as f32;
        vector I0 => f32: |x| single::i0(&Wide::<FMA>(x as f64)).0 as f32;
        vector I0e => f32: |x| single::i0e(&Wide::<FMA>(x as f64)).0 as f32;
        vector I1 => f32: |x| single::i1(&Wide::<FMA>(x as f64)).0 as f32;
        vector I1e => f32: |x| single::i1e(&Wide::<FMA>(x as f64)).0 as f32;
        vector ModifiedBesselI0 => f32: |x| single::i0(&Wide::<FMA>(x as f64)).0 as f32;
        vector ModifiedBesselI1 => f32: |x| single::i1(&Wide::<FMA>(x as f64)).0 as f32;
        scalar ModifiedBesselK0 => f32: |x| special::k0(&(x as f64)) as f32;
        scalar ModifiedBesselK1 => f32: |x| special::k1(&(x as f64)) as f32;
        scalar ScaledModifiedBesselK0 => f32: |x| special::k0e(&(x as f64)) as f32;
        scalar ScaledModifiedBesselK1 => f32: |x| special::k1e(&(x as f64)) as f32;
        scalar BesselJ0 => f32: |x| special::j0(&(x as f64)) as f32;
        scalar BesselJ1 => f32: |x| special::j1(&(x as f64)) as f32;
        scalar BesselY0 => f32: |x| special::y0(&(x as f64)) as f32;
        scalar BesselY1 => f32: |x| special::y1(&(x as f64)) as f32;
        scalar SphericalBesselJ0 => f32: |x| special::spherical_j0(&(x as f64)) as f32;
        scalar AiryAi => f32: |x| special::airy_ai(&(x as f64)) as f32;
        scalar Erfcx => f32: |x| special::erfcx(&(x as f64)) as f32;
        scalar LogNdtr => f32: |x| special::log_ndtr(&(x as f64)) as f32;
        scalar Ndtri => f32: |x| special::ndtri(&(x as f64)) as f32;
        vector Floor => f32: |x| x.floor();
        vector Ceil => f32: |x| x.ceil();
        vector Round => f32: |x| x.round_ties_even();
        vector Trunc => f32: |x| x.trunc();
        vector Frac => f32: |x| x - x.trunc();
        vector Relu => f32: |x| if x < 0.0 { 0.0 } else { x };
        vector LogicalNot => bool: |x| x == 0.0;
        vector IsNan => bool: |x| x.is_nan();
        vector IsInf => bool: |x| x.is_infinite();
        vector IsFinite => bool: |x| x.is_finite();
        vector Angle => f32: |x| if x.is_nan() { x } else if x < 0.0 { std::f32::consts::PI } else { 0.0 };
    }
}

fn of_f64(kind: UnaryKind) -> Option<Loop<1>> {
    table! { kind, f64;
        vector Neg => f64: |x| -x;
        vector Abs => f64: |x| x.abs();
        vector Sign => f64: |x| (x > 0.0) as u8 as f64 - (x < 0.0) as u8 as f64;
        scalar Exp => f64: |x| x.exp();
        scalar Exp2 => f64: |x| x.exp2();
        scalar Expm1 => f64: |x| x.exp_m1();
        scalar Log => f64: |x| x.ln();
        scalar Log2 => f64: |x| x.log2();
        scalar Log10 => f64: |x| x.log10();
        scalar Log1p => f64: |x| x.ln_1p();
        vector Sqrt => f64: |x| x.sqrt();
        vector Rsqrt => f64: |x| 1.0 / x.sqrt();
        vector Reciprocal => f64: |x| 1.0 / x;
        vector Square => f64: |x| x * x;
        scalar Sin => f64: |x| x.sin();
        scalar Cos => f64: |x| x.cos();
        scalar Tan => f64: |x| x.tan();
        scalar Asin => f64: |x| x.asin();
        scalar Acos => f64: |x| x.acos();
        scalar Atan => f64: |x| x.atan();
        scalar Sinh => f64: |x| x.sinh();
        scalar Cosh => f64: |x| x.cosh();
        scalar Tanh => f64: |x| x.tanh();
        scalar Asinh => f64: |x| libm::asinh(x);
        scalar Acosh => f64: |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) };
        scalar Atanh => f64: |x| libm::atanh(x);
        scalar Sigmoid => f64: |x| 1.0 / (1.0 + (-x).exp());
        scalar Erf => f64: |x| libm::erf(x);
        scalar Erfc => f64: |x| libm::erfc(x);
        scalar Erfinv => f64: |x| math::erfinv(x);
        scalar Lgamma => f64: |x| libm::lgamma(x);
        scalar Digamma => f64: |x| math::digamma(x);
        scalar I0 => f64: |x| special::i0(&x);
        scalar I0e => f64: |x| special::i0e(&x);
        scalar I1 => f64: |x| special::i1(&x);
        scalar I1e => f64: |x| special::i1e(&x);
        scalar ModifiedBesselI0 => f64: |x| special::i0(&x);
        scalar ModifiedBesselI1 => f64: |x| special::i1(&x);
        scalar ModifiedBesselK0 => f64: |x| special::k0(&x);
        scalar ModifiedBesselK1 => f64: |x| special::k1(&x);
        scalar ScaledModifiedBesselK0 => f64: |x| special::k0e(&x);
        scalar ScaledModifiedBesselK1 => f64: |x| special::k1e(&x);
        scalar BesselJ0 => f64: |x| special::j0(&x);
        scalar BesselJ1 => f64: |x| special::j1(&x);
        scalar BesselY0 => f64: |x| special::y0(&x);
        scalar BesselY1 => f64: |x| special::y1(&x);
        scalar SphericalBesselJ0 => f64: |x| special::spherical_j0(&x);
        scalar AiryAi => f64: |x| special::airy_ai(&x);
        scalar Erfcx => f64: |x| special::erfcx(&x);
        scalar LogNdtr => f64: |x| special::log_ndtr(&x);
        scalar Ndtri => f64: |x| special::ndtri(&x);
        vector Floor => f64: |x| x.floor();
        vector Ceil => f64: |x| x.ceil();
        vector Round => f64: |x| x.round_ties_even();
        vector Trunc => f64: |x| x.trunc();
        vector Frac => f64: |x| x - x.trunc();
        vector Relu => f64: |x| if x < 0.0 { 0.0 } else { x };
        vector LogicalNot => bool: |x| x == 0.0;
        vector IsNan => bool: |x| x.is_nan();
        vector IsInf => bool: |x| x.is_infinite();
        vector IsFinite => bool: |x| x.is_finite();
        vector Angle => f64: |x| if x.is_nan() { x } else if x < 0.0 { std::f64::consts::PI } else { 0.0 };
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
            table! { kind, $t;
                vector Neg => $t: |x| x.wrapping_neg();
                vector Abs => $t: |$a| $abs;
                vector Sign => $t: |$s| $sign;
                vector Square => $t: |x| x.wrapping_mul(x);
                vector Relu => $t: |$r| $relu;
                vector LogicalNot => bool: |x| x == 0;
                vector BitwiseNot => $t: |x| !x;
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
        K::LogicalNot | K::BitwiseNot => {
            struct Not;
            impl Map1<u8, u8> for Not {
                #[inline(always)]
                fn at<const FMA: bool>(_: &Params, x: u8) -> u8 {
                    (x == 0) as u8
                }
            }
            Some(const { loop1::<u8, u8, Not>() })
        }
        K::Abs | K::Sign | K::Square => Some(const { loop1::<u8, u8, Same>() }),
        K::IsNan | K::IsInf => Some(const { loop1::<u8, bool, Always<false>>() }),
        K::IsFinite => Some(const { loop1::<u8, bool, Always<true>>() }),
        _ => None,
    }
}

/// Return the loops of complex numbers: arithmetic in their own precision, functions in `f64`.
macro_rules! complexes {
    ($($name:ident $c:ident $t:ident;)*) => {$(
        fn $name(kind: UnaryKind) -> Option<Loop<1>> {
            use crate::complex::Complex as _;
            use std::f64::consts::{LN_2, LN_10};
            const ONE: c128 = c128::new(1.0, 0.0);
            table! { kind, $c;
                vector Neg => $c: |z| -z;
                vector Conj => $c: |z| z.conj();
                scalar Abs => $t: |z| z.re.hypot(z.im);
                scalar Angle => $t: |z| z.im.atan2(z.re);
                scalar Sgn => $c: |z| z.map(complex::sgn);
                scalar Exp => $c: |z| z.map(complex::exp);
                scalar Exp2 => $c: |z| z.map(|z| complex::exp(z * LN_2));
                scalar Expm1 => $c: |z| z.map(complex::exp_m1);
                scalar Log => $c: |z| z.map(complex::ln);
                scalar Log2 => $c: |z| z.map(|z| complex::ln(z) / LN_2);
                scalar Log10 => $c: |z| z.map(|z| complex::ln(z) / LN_10);
                scalar Log1p => $c: |z| z.map(complex::ln_1p);
                scalar Sqrt => $c: |z| z.map(complex::sqrt);
                scalar Rsqrt => $c: |z| z.map(|z| complex::div(ONE, complex::sqrt(z)));
                scalar Reciprocal => $c: |z| complex::div($c::new(1.0, 0.0), z);
                vector Square => $c: |z| z * z;
                scalar Sin => $c: |z| z.map(complex::sin);
                scalar Cos => $c: |z| z.map(complex::cos);
                scalar Tan => $c: |z| z.map(complex::tan);
                scalar Asin => $c: |z| z.map(complex::asin);
                scalar Acos => $c: |z| z.map(complex::acos);
                scalar Atan => $c: |z| z.map(complex::atan);
                scalar Sinh => $c: |z| z.map(complex::sinh);
                scalar Cosh => $c: |z| z.map(complex::cosh);
                scalar Tanh => $c: |z| z.map(complex::tanh);
                scalar Asinh => $c: |z| z.map(complex::asinh);
                scalar Acosh => $c: |z| z.map(complex::acosh);
                scalar Atanh => $c: |z| z.map(complex::atanh);
                scalar Sigmoid => $c: |z| z.map(complex::sigmoid);
                scalar LogicalNot => bool: |z| z.re == 0.0 && z.im == 0.0;
                scalar IsNan => bool: |z| z.re.is_nan() || z.im.is_nan();
                scalar IsInf => bool: |z| z.re.is_infinite() || z.im.is_infinite();
                scalar IsFinite => bool: |z| z.re.is_finite() && z.im.is_finite();
            }
        }
    )*};
}
complexes! { of_c64 c64 f32; of_c128 c128 f64; }

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
        _ => of_i64(kind),
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
/// Fails with [`KernelError::Other`] if the dtype has no such function (integers have no `exp`: convert first).
#[inline]
pub fn unary(kind: UnaryKind, x: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    let Some(f) = find(kind, x.dtype()) else { return Err(unsupported(kind.name(), x.dtype())) };
    debug_assert_eq!(x.sizes(), out.sizes());
    debug_assert_eq!(out.dtype(), kind.result(x.dtype()));
    // SAFETY: views cover their memory; sizes and dtypes agree.
    unsafe { run(f, &[0.0; 4], out.sizes(), Operand::output(out), [Operand::input(x)]) };
    Ok(())
}
