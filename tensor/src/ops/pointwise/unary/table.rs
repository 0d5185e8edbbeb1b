//! The functions of one operand, a row each: rules, help, samples and columns. The loops are rows of a table in
//! `torchtpu_kernels`.
//!
//! A row of `public` is a function of `torch`, a method of the tensor in both languages, and an in-place form. A row of
//! `special` is a function of `torch.special`. Rows of `complex` have rules only; `ops::complex` has their functions.

use super::gradient::{self, Gradient, ZERO, affine, div, mul, scaled};
use super::lower::{self, Lower, single, text};
use super::{Rules, UnaryKind as K, unary, unary_};
use crate::lower::math::{self, Trig};
use crate::ops::activation::threshold_backward;
use crate::ops::pointwise::special::polygamma;
use crate::policy::{Policies, Policy};
use crate::schema::{Fill, OutDType, Ret, Row, Sample, SampleArg, Scope, Tier, index, messages, positive, t, unit};
use crate::{DType, Result, Tensor, samples};
use Gradient::{Missing, Of, OfBoth, OfInput, OfResult};
use Lower::{By, OfFloats, Op};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};
use torchtpu_kernels::special::{self, single};

const INTS: &[DType] = &[DType::I64, DType::I32, DType::U8];
const ALL: &[DType] = &[DType::F64, DType::BF16, DType::I64, DType::I32, DType::U8, DType::Bool];

fn special_samples(fill: fn(&[usize]) -> SampleArg, gradient: bool) -> Vec<Sample> {
    let s = Sample::new(vec![fill(&[2, 3])]).dtypes(&[DType::F64, DType::I64]);
    vec![if gradient { s } else { s.no_gradient() }]
}

/// Of complex numbers, `rsqrt(x^2 - 1)` has the wrong sign on the left half of the plane.
fn acosh_vjp(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return mul(g, &affine(&x.square()?, 1.0, -1.0)?.rsqrt()?);
    }
    mul(g, &affine(x, 1.0, -1.0)?.rsqrt()?.mul(&affine(x, 1.0, 1.0)?.rsqrt()?)?)
}

/// Return `g * sqrt(pi) / 2 * e^(erfinv(x)^2)`.
fn erfinv_vjp(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    scaled(&mul(g, &x.erfinv()?.square()?.exp()?)?, 1.0 / FRAC_2_SQRT_PI)
}

/// Numbers within (0, 1): `ndtri` of integers is infinite or none, which is compared too.
fn fraction(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Fraction)
}

/// A row of a function and its in-place form.
macro_rules! public_row {
    ($name:ident, $kind:ident, $samples:expr $(, $column:ident($($value:expr),*))*) => {
        Row::new(concat!(stringify!($name), "(Tensor self) -> Tensor"), Tier::Prim, |a|
            Ok(unary(K::$kind, a.tensor(0)?)?.into()), $samples)
            .inplace_by(|a| {
                let x = a.tensor(0)?;
                unary_(K::$kind, x)?;
                Ok(Ret::Tensor(x.clone()))
            })
            .in_place_function()
            $(.$column($($value),*))*
    };
}

/// A row of a special function.
macro_rules! special_row {
    ($name:ident, $kind:ident, $fill:ident, $gradient:literal, $doc:literal) => {
        Row::new(
            concat!("special_", stringify!($name), "(Tensor self) -> Tensor"),
            Tier::Prim,
            |a| Ok(unary(K::$kind, a.tensor(0)?)?.into()),
            || special_samples($fill, $gradient),
        )
        .doc($doc)
        .scope(Scope::Nn)
    };
}

/// Define the rules of all kinds, the rows of the op table, and the methods of the tensor.
macro_rules! functions {
    (
        public { $($(#[$about:meta])* $name:ident $inplace:ident = $kind:ident: $rules:expr, $samples:expr
            $(, $column:ident($($value:expr),*))*;)* }
        special { $($sname:ident = $skind:ident: $srules:expr, $fill:ident $gradient:literal $doc:literal;)* }
        complex { $($ckind:ident: $crules:expr;)* }
    ) => {
        /// The rules of a function.
        #[inline]
        pub(super) fn rules(kind: K) -> &'static Rules {
            match kind {
                $(K::$kind => const { &$rules },)*
                $(K::$skind => const { &$srules },)*
                $(K::$ckind => const { &$crules },)*
            }
        }
        /// Rows of the functions of one operand.
        pub const UNARY_ROWS: &[Row] =
            &[$(public_row!($name, $kind, $samples $(, $column($($value),*))*),)*];
        /// Rows of the special functions of one operand.
        pub const SPECIAL_UNARY_ROWS: &[Row] = &[$(special_row!($sname, $skind, $fill, $gradient, $doc),)*];
        impl Tensor {$(
            $(#[$about])*
            pub fn $name(&self) -> Result<Tensor> { unary(K::$kind, self) }
            /// The in-place form.
            pub fn $inplace(&self) -> Result<&Tensor> { unary_(K::$kind, self).map(|()| self) }
        )*}
    };
}

functions! { public {
    /// `-x`.
    neg neg_ = Neg:
        Rules::new(Op("stablehlo.negate"), Of(|g| g.neg())).keeps_integers().linear(),
        samples!([t(&[2, 3])]),
        doc("Return `-input`. Unsigned integers wrap around. `bool` tensors are refused, use `~` or \
             `torch.logical_not`."),
        out_dtype(OutDType::OfInput(messages::found));
    /// `|x|`.
    abs abs_ = Abs:
        Rules::new(By(lower::abs), OfInput(gradient::abs)).rounds_once().not_holomorphic().keeps_integers(),
        samples!([t(&[2, 3])], [t(&[0, 3])]),
        doc("Return the absolute value of each element of `input`. For complex numbers it is the modulus `sqrt(re^2 \
             + im^2)`, with a real dtype. `bool` tensors are refused, and so is the in-place form of complex \
             tensors."),
        out_dtype(OutDType::OfRealInput(messages::found));
    /// -1, 0 or 1.
    sign sign_ = Sign:
        Rules::new(By(lower::sign), ZERO)
            .complex_refused(
                "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.",
            )
            .keeps_integers(),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(INTS)],
        doc("Return `-1`, `0` or `1` for each element of `input`, in its dtype. NaN gives 0. Complex tensors are \
             refused, use `torch.sgn`. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found)), in_place_method();
    /// `e^x`.
    exp exp_ = Exp:
        Rules::new(Op("stablehlo.exponential"), OfResult(|y, g| mul(g, y))).rounds_once(),
        samples!([t(&[2, 3])], [t(&[])]),
        doc("Return `e^input` for each element. Integers and `bool` are computed in the default floating-point \
             dtype. Complex numbers are allowed."),
        autocast(Policies::accelerator(Policy::Full));
    /// `2^x`.
    exp2 exp2_ = Exp2:
        Rules::new(By(lower::exp2), OfResult(|y, g| scaled(&mul(g, y)?, LN_2))),
        samples!([t(&[2, 3])]),
        doc("Return `2^input` for each element. Integers and `bool` are computed in the default floating-point \
             dtype."),
        aliases(&["special_exp2"]);
    /// `e^x - 1`, exact near zero.
    expm1 expm1_ = Expm1:
        Rules::new(Op("stablehlo.exponential_minus_one"), OfResult(|y, g| mul(g, &affine(y, 1.0, 1.0)?))),
        samples!([t(&[2, 3])]),
        doc("Return `e^input - 1` for each element, exact near zero, where `torch.exp(input) - 1` loses its digits. \
             Integers and `bool` are computed in the default floating-point dtype."),
        aliases(&["special_expm1"]), autocast(Policies::accelerator(Policy::Full));
    /// Natural logarithm.
    log log_ = Log:
        Rules::new(Op("stablehlo.log"), OfInput(|x, g| div(g, x))).rounds_once(),
        samples!([positive(&[2, 3])]),
        doc("Return the natural logarithm of each element of `input`. Zero gives `-inf` and negative real numbers \
             give NaN. Integers and `bool` are computed in the default floating-point dtype. For complex numbers it \
             is the principal value."),
        autocast(Policies::accelerator(Policy::Full));
    /// Logarithm to base 2.
    log2 log2_ = Log2:
        Rules::new(By(|f, x| lower::log(f, x, LN_2)), OfInput(|x, g| div(g, &scaled(x, LN_2)?))),
        samples!([positive(&[2, 3])]),
        doc("Return the logarithm to base 2 of each element of `input`. Zero gives `-inf` and negative real numbers \
             give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    /// Logarithm to base 10.
    log10 log10_ = Log10:
        Rules::new(By(|f, x| lower::log(f, x, LN_10)), OfInput(|x, g| div(g, &scaled(x, LN_10)?))),
        samples!([positive(&[2, 3])]),
        doc("Return the logarithm to base 10 of each element of `input`. Zero gives `-inf` and negative real \
             numbers give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    /// `log(1 + x)`, exact near zero.
    log1p log1p_ = Log1p:
        Rules::new(Op("stablehlo.log_plus_one"), OfInput(|x, g| div(g, &affine(x, 1.0, 1.0)?))).on_cpu(math::log1p),
        samples!([positive(&[2, 3])]),
        doc("Return `log(1 + input)` for each element, exact near zero. `-1` gives `-inf` and smaller real numbers \
             give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        aliases(&["special_log1p"]), autocast(Policies::accelerator(Policy::Full));
    /// Square root.
    sqrt sqrt_ = Sqrt:
        Rules::new(Op("stablehlo.sqrt"), OfResult(|y, g| div(g, &scaled(y, 2.0)?))).rounds_once(),
        samples!([positive(&[2, 3])]),
        doc("Return the square root of each element of `input`. Negative real numbers give NaN; complex numbers \
             have a root with a real part that is not negative. Integers and `bool` are computed in the default \
             floating-point dtype.");
    /// `1 / sqrt(x)`.
    rsqrt rsqrt_ = Rsqrt:
        Rules::new(By(lower::rsqrt), OfResult(|y, g| mul(&mul(&mul(&scaled(g, -0.5)?, y)?, y)?, y))),
        samples!([positive(&[2, 3])]),
        doc("Return `1 / sqrt(input)` for each element. Zero gives `inf` and negative real numbers give NaN. \
             Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    /// `1 / x`.
    reciprocal reciprocal_ = Reciprocal:
        Rules::new(By(lower::reciprocal), OfResult(|y, g| mul(&mul(&g.neg()?, y)?, y))),
        samples!([positive(&[2, 3])]),
        doc("Return `1 / input` for each element. Zero gives an infinity. Integers and `bool` are computed in the \
             default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    /// `x * x`.
    square square_ = Square:
        Rules::new(By(lower::square), OfInput(|x, g| mul(g, &scaled(x, 2.0)?))).rounds_once().keeps_integers(),
        samples!([t(&[2, 3])]),
        doc("Return `input * input` for each element, in its dtype. Integers wrap around. `bool` gives `int64`.");
    /// Sine.
    sin sin_ = Sin:
        Rules::new(By(|f, x| math::trig(Trig::Sin, f, x)), OfInput(|x, g| mul(g, &x.cos()?))),
        samples!([t(&[2, 3])]),
        doc("Return the sine of each element of `input`, in radians. Infinities give NaN. Integers and `bool` are \
             computed in the default floating-point dtype.");
    /// Cosine.
    cos cos_ = Cos:
        Rules::new(By(|f, x| math::trig(Trig::Cos, f, x)), OfInput(|x, g| mul(g, &x.sin()?)?.neg())),
        samples!([t(&[2, 3])]),
        doc("Return the cosine of each element of `input`, in radians. Infinities give NaN. Integers and `bool` are \
             computed in the default floating-point dtype.");
    /// Tangent.
    tan tan_ = Tan:
        Rules::new(By(|f, x| math::trig(Trig::Tan, f, x)), OfResult(|y, g| mul(g, &affine(&y.square()?, 1.0, 1.0)?))),
        samples!([unit(&[2, 3])]),
        doc("Return the tangent of each element of `input`, in radians. Infinities give NaN. Integers and `bool` \
             are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    /// Inverse sine.
    asin asin_ = Asin:
        Rules::new(Op("chlo.asin"), OfInput(|x, g| mul(g, &affine(&x.square()?, -1.0, 1.0)?.rsqrt()?)))
            .on_cpu(single!(single::asin)),
        samples!([unit(&[2, 3])]),
        doc("Return the inverse sine of each element of `input`, in radians from `-pi/2` to `pi/2`. Real numbers \
             outside of `[-1, 1]` give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    /// Inverse cosine.
    acos acos_ = Acos:
        Rules::new(Op("chlo.acos"), OfInput(|x, g| mul(g, &affine(&x.square()?, -1.0, 1.0)?.rsqrt()?)?.neg()))
            .on_cpu(single!(single::acos)),
        samples!([unit(&[2, 3])]),
        doc("Return the inverse cosine of each element of `input`, in radians from `0` to `pi`. Real numbers \
             outside of `[-1, 1]` give NaN. Integers and `bool` are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    /// Inverse tangent.
    atan atan_ = Atan:
        Rules::new(Op("chlo.atan"), OfInput(|x, g| div(g, &affine(&x.square()?, 1.0, 1.0)?)))
            .on_cpu(single!(single::atan)),
        samples!([t(&[2, 3])]),
        doc("Return the inverse tangent of each element of `input`, in radians from `-pi/2` to `pi/2`. For the \
             angle of a point use `torch.atan2`. Integers and `bool` are computed in the default floating-point \
             dtype.");
    /// Hyperbolic sine.
    sinh sinh_ = Sinh:
        Rules::new(Op("chlo.sinh"), OfInput(|x, g| mul(g, &x.cosh()?))).on_cpu(single!(single::sinh)),
        samples!([t(&[2, 3])]),
        doc("Return the hyperbolic sine `(e^x - e^-x) / 2` of each element `x` of `input`. Integers and `bool` are \
             computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    /// Hyperbolic cosine.
    cosh cosh_ = Cosh:
        Rules::new(Op("chlo.cosh"), OfInput(|x, g| mul(g, &x.sinh()?))).on_cpu(single!(single::cosh)),
        samples!([t(&[2, 3])]),
        doc("Return the hyperbolic cosine `(e^x + e^-x) / 2` of each element `x` of `input`. Integers and `bool` \
             are computed in the default floating-point dtype."),
        autocast(Policies::accelerator(Policy::Full));
    /// Hyperbolic tangent.
    tanh tanh_ = Tanh:
        Rules::new(Op("stablehlo.tanh"), OfResult(|y, g| mul(g, &affine(&y.square()?, -1.0, 1.0)?))),
        samples!([t(&[2, 3])]),
        doc("Return the hyperbolic tangent of each element of `input`; real results lie in `[-1, 1]`. Integers and \
             `bool` are computed in the default floating-point dtype.");
    /// Inverse hyperbolic sine.
    asinh asinh_ = Asinh:
        Rules::new(Op("chlo.asinh"), OfInput(gradient::asinh))
            .on_cpu(single!(single::asinh)),
        samples!([t(&[2, 3])]),
        doc("Return the inverse hyperbolic sine of each element of `input`. Integers and `bool` are computed in the \
             default floating-point dtype.");
    /// Inverse hyperbolic cosine.
    acosh acosh_ = Acosh:
        Rules::new(Op("chlo.acosh"), OfInput(acosh_vjp))
            .on_cpu(single!(single::acosh)),
        || vec![Sample::new(vec![positive(&[2, 3])]).no_gradient()],
        doc("Return the inverse hyperbolic cosine of each element of `input`. Real numbers below 1 give NaN. \
             Integers and `bool` are computed in the default floating-point dtype.");
    /// Inverse hyperbolic tangent.
    atanh atanh_ = Atanh:
        Rules::new(Op("chlo.atanh"), OfInput(|x, g| div(g, &affine(&x.square()?, -1.0, 1.0)?)))
            .on_cpu(single!(single::atanh)),
        samples!([unit(&[2, 3])]),
        doc("Return the inverse hyperbolic tangent of each element of `input`. `-1` and `1` give infinities, and \
             real numbers beyond them give NaN. Integers and `bool` are computed in the default floating-point \
             dtype.");
    /// `1 / (1 + e^-x)`.
    sigmoid sigmoid_ = Sigmoid:
        Rules::new(Op("stablehlo.logistic"), OfResult(|y, g| mul(g, &mul(y, &affine(y, -1.0, 1.0)?)?))),
        samples!([t(&[2, 3])]),
        doc("Return the logistic function `1 / (1 + e^-input)` of each element. Integers and `bool` are computed in \
             the default floating-point dtype. `torch.special.expit` is the same function."),
        aliases(&["special_expit"]);
    /// Error function.
    erf erf_ = Erf:
        Rules::new(Op("chlo.erf"), OfInput(|x, g| scaled(&mul(g, &x.square()?.neg()?.exp()?)?, FRAC_2_SQRT_PI)))
            .real("erf_vml_cpu"),
        samples!([t(&[2, 3])]),
        doc("Return the error function `2 / sqrt(pi) * integral of e^(-t^2) from 0 to x` of each element `x` of \
             `input`. Integers and `bool` are computed in the default floating-point dtype. Complex tensors are \
             refused."),
        aliases(&["special_erf"]);
    /// `1 - erf(x)`.
    erfc erfc_ = Erfc:
        Rules::new(Op("chlo.erfc"), OfInput(|x, g| scaled(&mul(g, &x.square()?.neg()?.exp()?)?, -FRAC_2_SQRT_PI)))
            .on_cpu(single!(single::erfc))
            .real("erfc_vml_cpu"),
        samples!([t(&[2, 3])]),
        doc("Return `1 - erf(input)` for each element, exact also where `erf` is close to 1. Integers and `bool` \
             are computed in the default floating-point dtype. Complex tensors are refused."),
        aliases(&["special_erfc"]);
    /// Inverse of the error function.
    erfinv erfinv_ = Erfinv:
        Rules::new(Op("chlo.erf_inv"), OfInput(erfinv_vjp))
            .on_cpu(single!(single::erfinv))
            .real("erfinv_vml_cpu"),
        samples!([unit(&[2, 3])]),
        doc("Return the number `y` with `erf(y) = x` for each element `x` of `input`. `-1` and `1` give infinities, \
             and numbers beyond them give NaN. Integers and `bool` are computed in the default floating-point dtype. \
             The in-place form `erfinv_` is a method only."),
        aliases(&["special_erfinv"]), autocast(Policies::accelerator(Policy::Full)), in_place_method();
    /// Logarithm of the absolute value of the gamma function.
    lgamma lgamma_ = Lgamma:
        Rules::new(Op("chlo.lgamma"), OfInput(|x, g| mul(g, &x.digamma()?)))
            .on_cpu(single!(single::lgamma))
            .real("lgamma_vml_cpu"),
        samples!([positive(&[2, 3])]),
        doc("Return the natural logarithm of the absolute value of the gamma function of each element of `input`. \
             Zero and negative whole numbers give `inf`. Integers and `bool` are computed in the default \
             floating-point dtype. The in-place form `lgamma_` is a method only."),
        aliases(&["special_gammaln"]), in_place_method();
    /// Logarithmic derivative of the gamma function.
    digamma digamma_ = Digamma:
        Rules::new(By(lower::digamma), OfInput(|x, g| mul(g, &polygamma(1, x)?)))
            .on_cpu(single!(single::digamma))
            .real("digamma"),
        || vec![Sample::new(vec![positive(&[2, 3])]).no_gradient()],
        doc("Return the derivative of the logarithm of the gamma function at each element of `input`. `0.0` gives \
             `-inf` and `-0.0` gives `inf`. Integers and `bool` are computed in the default floating-point dtype. \
             The in-place form `digamma_` is a method only."),
        aliases(&["special_digamma", "special_psi"]), in_place_method();
    /// Largest integer not above.
    floor floor_ = Floor:
        Rules::new(OfFloats("stablehlo.floor"), ZERO)
            .complex_refused("floor is not supported for complex inputs")
            .keeps_integers(),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(INTS)],
        doc("Return the largest whole number that is not above each element of `input`, in its dtype. Integers stay \
             as they are. Complex tensors are refused. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found));
    /// Smallest integer not below.
    ceil ceil_ = Ceil:
        Rules::new(OfFloats("stablehlo.ceil"), ZERO)
            .complex_refused("ceil is not supported for complex inputs")
            .keeps_integers(),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(INTS)],
        doc("Return the smallest whole number that is not below each element of `input`, in its dtype. Integers \
             stay as they are. Complex tensors are refused. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found));
    /// Nearest integer, ties to even.
    round round_ = Round:
        Rules::new(OfFloats("stablehlo.round_nearest_even"), ZERO).real("round_vml_cpu").keeps_integers(),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient()],
        doc("Return the whole number nearest to each element of `input`, in its dtype; halves go to the even \
             neighbour. `decimals` keeps that many places after the point, or with a negative number rounds to tens, \
             hundreds and so on. Integers allow only `decimals=0`. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found)), aliases(&["special_round"]);
    /// Nearest integer towards zero.
    trunc trunc_ = Trunc:
        Rules::new(By(lower::trunc), ZERO)
            .complex_refused("trunc is not supported for complex inputs")
            .keeps_integers(),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient()],
        doc("Return each element of `input` without the digits after the point, in its dtype. Integers stay as they \
             are. Complex tensors are refused. The gradient is zero everywhere."),
        out_dtype(OutDType::OfInput(messages::found));
    /// `x - trunc(x)`.
    frac frac_ = Frac:
        Rules::new(By(lower::frac), Of(|g| Ok(g.clone()))).real("frac_cpu").refuses_integers(),
        samples!([t(&[2, 3])]),
        doc("Return `input - trunc(input)` for each element, which has the sign of `input`. Only floating-point \
             dtypes are allowed. The gradient passes unchanged."),
        out_dtype(OutDType::OfInput(messages::found));
    /// `max(x, 0)`.
    relu relu_ = Relu:
        Rules::new(By(lower::relu), OfResult(|y, g| threshold_backward(g, y)))
            .rounds_once()
            .complex_refused("clamp is not supported for complex types")
            .keeps_integers(),
        samples!([t(&[2, 3])]),
        doc("Return `max(input, 0)` for each element, in its dtype. NaN stays NaN. Complex tensors are refused. The \
             gradient at zero is zero.");
    /// `x == 0`.
    logical_not logical_not_ = LogicalNot:
        Rules::new(By(lower::logical_not), Gradient::None).keeps_integers(),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)],
        doc("Return `True` where an element of `input` is zero, as `bool`. NaN counts as true. The in-place form \
             `logical_not_` is a method only and writes 0 or 1 in the dtype of the tensor."),
        in_place_method();
    /// Complement of the bits; negation of `bool`.
    bitwise_not bitwise_not_ = BitwiseNot:
        Rules::new(Op("stablehlo.not"), Gradient::None).real("bitwise_not_cpu").keeps_integers(),
        || vec![Sample::new(vec![index(&[2, 3], 9)]).no_gradient()],
        doc("Return the complement of the bits of each integer of `input`, which is `-1 - input` for signed dtypes. \
             For `bool` it is the logical negation. Floating-point and complex tensors are refused. The in-place \
             form `bitwise_not_` is a method only."),
        out_dtype(OutDType::OfInput(messages::found)), in_place_method();
    /// Modified Bessel function of the first kind of order 0.
    i0 i0_ = I0:
        Rules::new(By(text!(special::i0)), OfInput(|x, g| mul(g, &unary(K::I1, x)?)))
            .on_cpu(single!(single::i0))
            .real("i0_vml_cpu"),
        samples!([t(&[2, 3])]),
        doc("Return the modified Bessel function of the first kind of order 0 of each element of `input`. Integers \
             and `bool` are computed in the default floating-point dtype. Complex tensors are refused.");
    /// Whether not a number.
    isnan isnan_ = IsNan:
        Rules::new(By(lower::isnan), Gradient::None).keeps_integers(),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)],
        doc("Return `True` where an element of `input` is NaN, as `bool`. A complex number is NaN if one of its \
             parts is. Integers and `bool` are never NaN."),
        in_place_method();
    /// Whether infinite.
    isinf isinf_ = IsInf:
        Rules::new(By(lower::isinf), Gradient::None).keeps_integers(),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)],
        doc("Return `True` where an element of `input` is `inf` or `-inf`, as `bool`. A complex number is infinite \
             if one of its parts is. Integers and `bool` are never infinite."),
        in_place_method();
    /// Whether neither infinite nor not a number.
    isfinite isfinite_ = IsFinite:
        Rules::new(By(lower::isfinite), Gradient::None).keeps_integers(),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient().dtypes(ALL)],
        doc("Return `True` where an element of `input` is neither infinite nor NaN, as `bool`. A complex number is \
             finite if both of its parts are. Integers and `bool` are always finite."),
        in_place_method();
} special {
    i0e = I0e:
        Rules::new(By(text!(special::i0e)), OfInput(gradient::i0e))
            .on_cpu(single!(single::i0e))
            .real("special_i0e_cpu"),
        t true
        "Return `e^-|x| * I0(x)` for each element `x` of `input`, where `I0` is the modified Bessel function of the \
         first kind of order 0. It does not overflow for large `x`. Integers and `bool` are computed in the default \
         floating-point dtype.";
    i1 = I1:
        Rules::new(By(text!(special::i1)), OfInput(gradient::i1)).on_cpu(single!(single::i1)).real("special_i1_cpu"),
        t true
        "Return the modified Bessel function of the first kind of order 1 of each element of `input`. Integers and \
         `bool` are computed in the default floating-point dtype.";
    i1e = I1e:
        Rules::new(By(text!(special::i1e)), OfInput(gradient::i1e))
            .on_cpu(single!(single::i1e))
            .real("special_i1e_cpu"),
        t true
        "Return `e^-|x| * I1(x)` for each element `x` of `input`, where `I1` is the modified Bessel function of the \
         first kind of order 1. It does not overflow for large `x`. Integers and `bool` are computed in the default \
         floating-point dtype.";
    modified_bessel_i0 = ModifiedBesselI0:
        Rules::new(By(text!(special::i0)), OfInput(|x, g| mul(g, &unary(K::ModifiedBesselI1, x)?)))
            .real("special_modified_bessel_i0_cpu"),
        t true
        "Return the modified Bessel function of the first kind `I0` of each element of `input`, the same as \
         `torch.special.i0`.";
    modified_bessel_i1 = ModifiedBesselI1:
        Rules::new(By(text!(special::i1)), OfInput(gradient::i1)).real("special_modified_bessel_i1_cpu"),
        t true
        "Return the modified Bessel function of the first kind `I1` of each element of `input`, the same as \
         `torch.special.i1`.";
    modified_bessel_k0 = ModifiedBesselK0:
        Rules::new(By(text!(special::k0)), OfInput(|x, g| mul(g, &unary(K::ModifiedBesselK1, x)?)?.neg()))
            .real("special_modified_bessel_k0_cpu"),
        positive true
        "Return the modified Bessel function of the second kind of order 0 of each element of `input`. Zero gives \
         `inf` and negative numbers give NaN. Integers and `bool` are computed in the default floating-point dtype.";
    modified_bessel_k1 = ModifiedBesselK1:
        Rules::new(By(text!(special::k1)), OfBoth(gradient::k1))
            .real("special_modified_bessel_k1_cpu"),
        positive true
        "Return the modified Bessel function of the second kind of order 1 of each element of `input`. Zero gives \
         `inf` and negative numbers give NaN. Integers and `bool` are computed in the default floating-point dtype.";
    scaled_modified_bessel_k0 = ScaledModifiedBesselK0:
        Rules::new(By(text!(special::k0e)), Missing).real("special_scaled_modified_bessel_k0_cpu"),
        positive false
        "Return `e^x * K0(x)` for each element `x` of `input`, where `K0` is the modified Bessel function of the \
         second kind of order 0. Zero gives `inf` and negative numbers give NaN. The result has no gradient.";
    scaled_modified_bessel_k1 = ScaledModifiedBesselK1:
        Rules::new(By(text!(special::k1e)), Missing).real("special_scaled_modified_bessel_k1_cpu"),
        positive false
        "Return `e^x * K1(x)` for each element `x` of `input`, where `K1` is the modified Bessel function of the \
         second kind of order 1. Zero gives `inf` and negative numbers give NaN. The result has no gradient.";
    bessel_j0 = BesselJ0:
        Rules::new(By(text!(special::j0)), OfInput(|x, g| mul(g, &unary(K::BesselJ1, x)?)?.neg()))
            .real("special_bessel_j0_cpu"),
        t true
        "Return the Bessel function of the first kind of order 0 of each element of `input`. Integers and `bool` \
         are computed in the default floating-point dtype.";
    bessel_j1 = BesselJ1:
        Rules::new(By(text!(special::j1)), OfBoth(gradient::j1))
            .real("special_bessel_j1_cpu"),
        t true
        "Return the Bessel function of the first kind of order 1 of each element of `input`. Integers and `bool` \
         are computed in the default floating-point dtype.";
    bessel_y0 = BesselY0:
        Rules::new(By(text!(special::y0)), OfInput(|x, g| mul(g, &unary(K::BesselY1, x)?)?.neg()))
            .real("special_bessel_y0_cpu"),
        positive true
        "Return the Bessel function of the second kind of order 0 of each element of `input`. Zero gives `-inf` and \
         negative numbers give NaN. Integers and `bool` are computed in the default floating-point dtype.";
    bessel_y1 = BesselY1:
        Rules::new(By(text!(special::y1)), OfBoth(|x, y, g| mul(g, &unary(K::BesselY0, x)?.sub(&div(y, x)?)?)))
            .real("special_bessel_y1_cpu"),
        positive true
        "Return the Bessel function of the second kind of order 1 of each element of `input`. Zero gives `-inf` and \
         negative numbers give NaN. Integers and `bool` are computed in the default floating-point dtype.";
    spherical_bessel_j0 = SphericalBesselJ0:
        Rules::new(By(text!(special::spherical_j0)), Missing).real("special_spherical_bessel_j0_cpu"),
        t false
        "Return the spherical Bessel function of the first kind of order 0, `sin(x) / x`, of each element `x` of \
         `input`. Zero gives 1. The result has no gradient.";
    airy_ai = AiryAi:
        Rules::new(By(text!(special::airy_ai)), Missing).real("special_airy_ai_cpu"),
        t false
        "Return the Airy function `Ai` of each element of `input`. Integers and `bool` are computed in the default \
         floating-point dtype. The result has no gradient.";
    erfcx = Erfcx:
        Rules::new(By(text!(special::erfcx)), OfBoth(gradient::erfcx))
            .real("special_erfcx_cpu"),
        t true
        "Return the scaled complementary error function `e^(x^2) * erfc(x)` of each element `x` of `input`. It does \
         not underflow for large `x`. Integers and `bool` are computed in the default floating-point dtype.";
    log_ndtr = LogNdtr:
        Rules::new(By(text!(special::log_ndtr)), OfInput(gradient::log_ndtr)).real("special_log_ndtr_cpu"),
        t true
        "Return the natural logarithm of the area under the standard normal density from `-inf` to each element of \
         `input`. It stays exact where `torch.special.ndtr` is close to zero. Integers and `bool` are computed in \
         the default floating-point dtype.";
    ndtri = Ndtri:
        Rules::new(By(text!(special::ndtri)), OfResult(gradient::ndtri)).real("special_ndtri_cpu"),
        fraction true
        "Return the number `y` with `ndtr(y) = p` for each element `p` of `input`: the quantile of the standard \
         normal distribution. `0` gives `-inf`, `1` gives `inf`, and numbers beyond them give NaN. Integers and \
         `bool` are computed in the default floating-point dtype.";
} complex {
    Sgn:
        Rules::new(Op("stablehlo.sign"), OfInput(gradient::sgn)).not_holomorphic();
    Angle:
        Rules::new(By(lower::angle), OfInput(gradient::angle)).not_holomorphic();
    Conj:
        Rules::new(By(lower::conj), Of(|g| g.conj_physical())).linear();
} }

/// Define rows of further names.
macro_rules! aliases {
    ($($name:ident = $kind:ident: $samples:expr $(, $column:ident($($value:expr),*))*;)*) => {
        /// Rows of the functions of one operand by their other names.
        pub const UNARY_ALIAS_ROWS: &[Row] =
            &[$(public_row!($name, $kind, $samples $(, $column($($value),*))*),)*];
    };
}

aliases! {
    negative = Neg: samples!([t(&[2, 3])]),
        doc("Alias of `torch.neg`."),
        out_dtype(OutDType::OfInput(messages::found));
    absolute = Abs: samples!([t(&[2, 3])]),
        doc("Alias of `torch.abs`. The in-place form `absolute_` is a method only."),
        out_dtype(OutDType::OfRealInput(messages::found)), in_place_method();
    arcsin = Asin: samples!([unit(&[2, 3])]),
        doc("Alias of `torch.asin`."),
        autocast(Policies::accelerator(Policy::Full));
    arccos = Acos: samples!([unit(&[2, 3])]),
        doc("Alias of `torch.acos`."),
        autocast(Policies::accelerator(Policy::Full));
    arctan = Atan: samples!([t(&[2, 3])]),
        doc("Alias of `torch.atan`.");
    arcsinh = Asinh: samples!([t(&[2, 3])]),
        doc("Alias of `torch.asinh`.");
    arccosh = Acosh: || vec![Sample::new(vec![positive(&[2, 3])]).no_gradient()],
        doc("Alias of `torch.acosh`.");
    arctanh = Atanh: samples!([unit(&[2, 3])]),
        doc("Alias of `torch.atanh`.");
    fix = Trunc: || vec![Sample::new(vec![t(&[2, 3])]).no_gradient()],
        doc("Alias of `torch.trunc`."),
        out_dtype(OutDType::OfInput(messages::found));
}

/// The row of `torch.special.i0`, which unlike `torch.i0` has no in-place form.
pub const SPECIAL_I0_ROWS: &[Row] = &[special_row!(
    i0,
    I0,
    t,
    true,
    "Return the modified Bessel function of the first kind of order 0 of each element of `input`, as `torch.i0` does. \
     It has no in-place form."
)];
