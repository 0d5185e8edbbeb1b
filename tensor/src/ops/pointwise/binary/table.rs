//! The functions of two operands, a row each: rules, help, samples and columns. The loops are rows of a table in
//! `torchtpu_kernels`.
//!
//! A row of `public` is a function of `torch`, a method and an in-place form. Rows of `other` have rules only: their
//! functions have further arguments, and stand in `arithmetic`, `special_binary`, `ops::complex` and `ops::random`.

use super::gradient::{self, Gradient, Slope, div, missing, mul};
use super::lower::{self, Lower};
use super::{BinaryKind as K, Rules};
use crate::op::{Saved, Saves};
use crate::ops::pointwise::special::logaddexp_of_complex;
use crate::ops::pointwise::{arith, arith_, binary};
use crate::policy::{Policies, Policy};
use crate::schema::{Numbers, Ret, Row, Sample, Tier, index, mask, n, positive, t};
use crate::{DType, Tensor, samples};
use Gradient::{Both, Each};
use Lower::{By, Op, OrBool, Special};

/// Categories of real dtypes, for [`Rules::takes`].
pub(super) const BOOL: u8 = 1;
pub(super) const INTS: u8 = 2;
pub(super) const HALVES: u8 = 4;
pub(super) const WIDE_FLOATS: u8 = 8;
const FLOATS: u8 = HALVES | WIDE_FLOATS;
const NUMBERS: u8 = INTS | FLOATS;
const BITS: u8 = BOOL | INTS;

/// Orthogonal polynomials. PyTorch has no derivatives of them.
const POLYNOMIAL: Rules = Rules::new(Special, Gradient::None).converts_integers();

/// Whether a gradient of operand `i` is a sum over broadcast elements.
fn is_summed(s: &Saved<'_>, g: &Tensor, i: usize) -> bool {
    s.needs(i) && s.meta(i).dims != *g.dims()
}

fn is_product_of_whole(s: &Saved<'_>, g: &Tensor) -> bool {
    !is_summed(s, g, 0) && !is_summed(s, g, 1)
}

fn is_quotient_by_constant(s: &Saved<'_>, g: &Tensor) -> bool {
    !is_summed(s, g, 0) && !s.needs(1)
}

fn two_integers() -> Vec<Sample> {
    vec![
        Sample::new(vec![index(&[2, 3], 9), index(&[3], 5)]).no_gradient(),
        Sample::new(vec![index(&[2, 3], 9), n(3)]).no_gradient(),
    ]
}

fn two_integer_tensors() -> Vec<Sample> {
    vec![Sample::new(vec![index(&[2, 3], 9), index(&[3], 7)]).no_gradient()]
}

fn incomplete_gammas() -> Vec<Sample> {
    // The gradient for the first operand is not implemented, as in PyTorch.
    vec![Sample::new(vec![positive(&[2, 3]), positive(&[3])]).no_gradient().dtypes(&[DType::F64])]
}

fn two_masks() -> Vec<Sample> {
    vec![
        Sample::new(vec![mask(&[2, 3]), mask(&[3])]).no_gradient(),
        Sample::new(vec![t(&[2, 3]), t(&[2, 1])]).no_gradient(),
    ]
}

/// A row of a function and its in-place form.
macro_rules! public_row {
    ($schema:literal $kind:ident, $samples:expr $(, $column:ident($($value:expr),*))*) => {
        Row::new($schema, Tier::Prim, |a| Ok(arith(K::$kind, a.operand(0)?, a.operand(1)?)?.into()), $samples)
            .inplace_by(|a| {
                let x = a.tensor(0)?;
                arith_(K::$kind, x, a.operand(1)?)?;
                Ok(Ret::Tensor(x.clone()))
            })
            $(.$column($($value),*))*
    };
}

/// Define the rules of all kinds, and the rows of the op table.
macro_rules! functions {
    (
        public { $($schema:literal $kind:ident: $rules:expr, $samples:expr $(, $column:ident($($value:expr),*))*;)* }
        alias { $($aschema:literal $akind:ident, $asamples:expr $(, $acolumn:ident($($avalue:expr),*))*;)* }
        other { $($okind:ident: $orules:expr;)* }
    ) => {
        /// The rules of a function.
        #[inline]
        pub(in crate::ops::pointwise) fn rules(kind: K) -> &'static Rules {
            match kind {
                $(K::$kind => const { &$rules },)*
                $(K::$okind => const { &$orules },)*
            }
        }
        /// Rows of the ops with two operands, a tensor and a tensor or number.
        pub const BINARY_ROWS: &[Row] = &[
            $(public_row!($schema $kind, $samples $(, $column($($value),*))*),)*
            $(public_row!($aschema $akind, $asamples $(, $acolumn($($avalue),*))*),)*
        ];
    };
}

functions! { public {
    "mul.Tensor(Tensor self, Tensor other) -> Tensor" Mul:
        Rules::new(OrBool("stablehlo.multiply", "stablehlo.and"), Each(
            Slope::of(Saves::inputs(0b10), |s, g| mul(g, s.x(1))),
            Slope::of(Saves::inputs(0b01), |s, g| mul(g, s.x(0))),
        ))
        .takes_complex().rounds_once_if(is_product_of_whole).linear(&[0b01, 0b10]),
        samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 1]), t(&[3])],
        [t(&[2, 3]), n(2.5)]),
        doc("Return `input * other`, element by element. The operands broadcast and are promoted to a common dtype; \
             each may be a number. Integers wrap around, and the product of two `bool` is their logical and."),
        numbers(Numbers::Both);
    "div.Tensor(Tensor self, Tensor other) -> Tensor" Div:
        Rules::new(By(lower::div), Each(
            Slope::of(Saves::inputs(0b10), |s, g| div(g, s.x(1))),
            Slope::of_operands(gradient::of_divisor),
        ))
        .takes_complex().rounds_once_if(is_quotient_by_constant).linear(&[0b01]).converts_integers(),
        samples!([t(&[2, 3]), positive(&[2, 3])],
        [t(&[2, 1]), positive(&[3])], [t(&[2, 3]), n(2)]),
        doc("Return `input / other`, element by element. The operands broadcast and are promoted to a common dtype; \
             each may be a number. Without `rounding_mode`, integers are divided in the default floating-point \
             dtype, and a division by zero gives an infinity or NaN. `rounding_mode='trunc'` rounds towards zero and \
             `'floor'` rounds down; both keep integers, and raise `RuntimeError` for an integer division by zero."),
        numbers(Numbers::Both);
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor" Pow:
        Rules::new(By(lower::pow), Each(
            Slope::of_operands(gradient::of_base),
            Slope::of(Saves::both(0b11, 1), gradient::of_exponent),
        ))
        .takes_complex().takes(NUMBERS).kernel("pow"),
        samples!([positive(&[2, 3]), t(&[3])],
        [positive(&[2, 3]), n(2.5)], [t(&[2, 3]), n(3)], [positive(&[2, 3]), n(-0.5)]),
        doc("Return `input ** exponent`, element by element. The operands broadcast and are promoted to a common \
             dtype; one of them may be a number. Integers wrap around, and a negative integer as the number \
             `exponent` of an integer tensor raises `RuntimeError`. A negative base with a fractional exponent gives \
             NaN. `x ** 0` is 1, also where `x` is zero."),
        numbers(Numbers::One), autocast(Policies::accelerator(Policy::Full));
    "maximum(Tensor self, Tensor other) -> Tensor" Maximum:
        Rules::new(Op("stablehlo.maximum"), Both(gradient::of_maximum)).rounds_once().complex_refused_by_type(),
        samples!([t(&[2, 3]), t(&[2, 3])], [t(&[2, 3]), t(&[3])]),
        doc("Return the greater of `input` and `other`, element by element. The operands broadcast and are promoted \
             to a common dtype. The result is NaN where one of them is NaN; `torch.fmax` prefers the number. Equal \
             elements share the gradient by halves. Complex tensors are refused.");
    "minimum(Tensor self, Tensor other) -> Tensor" Minimum:
        Rules::new(Op("stablehlo.minimum"), Both(gradient::of_minimum)).rounds_once().complex_refused_by_type(),
        samples!([t(&[2, 3]), t(&[2, 3])]),
        doc("Return the smaller of `input` and `other`, element by element. The operands broadcast and are promoted \
             to a common dtype. The result is NaN where one of them is NaN; `torch.fmin` prefers the number. Equal \
             elements share the gradient by halves. Complex tensors are refused.");
    "fmax(Tensor self, Tensor other) -> Tensor" Fmax:
        Rules::new(By(lower::fmax), Both(gradient::of_fmax)).rounds_once().complex_refused_by_type(),
        samples!([t(&[2, 3]), t(&[3])]),
        doc("Return the greater of `input` and `other`, element by element, or the number where the other one is \
             NaN. The operands broadcast and are promoted to a common dtype. The result is NaN only where both are. \
             Complex tensors are refused.");
    "fmin(Tensor self, Tensor other) -> Tensor" Fmin:
        Rules::new(By(lower::fmin), Both(gradient::of_fmin)).rounds_once().complex_refused_by_type(),
        samples!([t(&[2, 3]), t(&[3])]),
        doc("Return the smaller of `input` and `other`, element by element, or the number where the other one is \
             NaN. The operands broadcast and are promoted to a common dtype. The result is NaN only where both are. \
             Complex tensors are refused.");
    "remainder.Tensor(Tensor self, Tensor other) -> Tensor" Remainder:
        Rules::new(By(lower::remainder), Each(
            Slope::SAME,
            Slope::of_operands(|s, g| mul(g, &binary(K::FloorDivide, s.x(0), s.x(1))?)?.neg()),
        ))
        .takes(NUMBERS),
        samples!([t(&[2, 3]), n(0.7)],
        [t(&[2, 3]), positive(&[2, 3])]),
        doc("Return the remainder `input - other * floor(input / other)`, which has the sign of `other`, as \
             Python's `%`. The operands broadcast and are promoted to a common dtype; one of them may be a number. \
             Zero as a divisor gives NaN for floats and `RuntimeError` for integers. `bool` and complex tensors are \
             refused."),
        numbers(Numbers::One);
    "fmod.Tensor(Tensor self, Tensor other) -> Tensor" Fmod:
        Rules::new(Op("stablehlo.remainder"), Each(
            Slope::SAME, Slope::of_operands(gradient::of_truncated_divisor),
        ))
        .takes(NUMBERS),
        samples!([t(&[2, 3]), n(0.7)],
        [t(&[2, 3]), positive(&[2, 3])]),
        doc("Return the remainder `input - other * trunc(input / other)`, which has the sign of `input`, as C's \
             `fmod`. The operands broadcast and are promoted to a common dtype; `other` may be a number. Zero as a \
             divisor gives NaN for floats and `RuntimeError` for integers. `bool` and complex tensors are refused."),
        numbers(Numbers::Second);
    "floor_divide(Tensor self, Tensor other) -> Tensor" FloorDivide:
        Rules::new(By(lower::floor_divide), Each(Slope::ZERO, Slope::ZERO)).takes(NUMBERS).kernel("div_floor_cpu"),
        ||
        vec![Sample::new(vec![t(&[2, 3]), positive(&[3])]).no_gradient(),
            Sample::new(vec![index(&[2, 3], 9), n(2)]).no_gradient()],
        doc("Return `floor(input / other)`, element by element. The operands broadcast and are promoted to a common \
             dtype, which the result keeps; each may be a number. An integer division by zero raises `RuntimeError`; \
             for floats the result is then that of `input / other`. `bool` and complex tensors are refused."),
        numbers(Numbers::Both);
    "atan2(Tensor self, Tensor other) -> Tensor" Atan2:
        Rules::new(By(lower::atan2), Both(gradient::of_atan2)).converts_integers(),
        samples!([t(&[2, 3]), positive(&[2, 3])]),
        doc("Return the angle in radians from the positive x axis to the point `(other, input)`: `input` is y and \
             `other` is x. Results lie in `[-pi, pi]`. The operands broadcast; integers are computed in the default \
             floating-point dtype. Complex tensors are refused."),
        autocast(Policies::accelerator(Policy::Widest));
    "hypot(Tensor self, Tensor other) -> Tensor" Hypot:
        Rules::new(By(lower::hypot), Both(gradient::of_hypot)).refuses_integers(),
        samples!([t(&[2, 3]), positive(&[3])]),
        doc("Return `sqrt(input^2 + other^2)`, element by element, without overflow of the squares. The operands \
             broadcast and are promoted to a common dtype. Only floating-point dtypes are allowed.");
    "nextafter(Tensor self, Tensor other) -> Tensor" NextAfter:
        Rules::new(Op("chlo.next_after"), Each(Slope::of_operands(gradient::of_start), Slope::ZERO))
        .rounds_once().refuses_integers(),
        ||
        vec![Sample::new(vec![t(&[2, 3]), t(&[3])]).no_gradient()],
        doc("Return the floating-point number next to `input` in the direction of `other`, element by element. The \
             operands broadcast. Only floating-point dtypes are allowed. The gradient passes to `input` unchanged.");
    "copysign.Tensor(Tensor self, Tensor other) -> Tensor" Copysign:
        Rules::new(By(lower::copysign), Each(Slope::of(Saves::both(1, 1), gradient::of_magnitude), Slope::ZERO))
        .rounds_once().converts_integers(),
        samples!([t(&[2, 3]), t(&[3])]),
        doc("Return numbers with the absolute value of `input` and the sign of `other`, element by element. The \
             sign of `-0.0` counts. The operands broadcast, `other` may be a number, and integers are computed in \
             the default floating-point dtype."),
        numbers(Numbers::Second);
    "gcd(Tensor self, Tensor other) -> Tensor" Gcd:
        Rules::new(By(lower::gcd), Gradient::None).takes(INTS),
        two_integer_tensors,
        doc("Return the greatest common divisor of `input` and `other`, element by element. It is not negative, and \
             `gcd(0, 0)` is 0. The operands broadcast; only integers are allowed."),
        in_place_function();
    "lcm(Tensor self, Tensor other) -> Tensor" Lcm:
        Rules::new(By(lower::lcm), Gradient::None).takes(INTS),
        two_integer_tensors,
        doc("Return the least common multiple of `input` and `other`, element by element. It is not negative, and 0 \
             where one of the two is 0. The operands broadcast; only integers are allowed."),
        in_place_function();
    "igamma(Tensor self, Tensor other) -> Tensor" Igamma:
        Rules::new(Special, Each(
            Slope::of(Saves::NONE, |_, _| Err(missing("igamma", "input"))),
            Slope::of_operands(gradient::of_gamma_bound),
        ))
        .takes(FLOATS),
        incomplete_gammas,
        doc("Return the regularised lower incomplete gamma function `P(a, x) = 1 / gamma(a) * integral of t^(a-1) \
             e^-t from 0 to x`, where `a` is `input` and `x` is `other`. The operands broadcast; only floating-point \
             dtypes are allowed. There is no derivative with respect to `input`."),
        aliases(&["special_gammainc"]);
    "igammac(Tensor self, Tensor other) -> Tensor" Igammac:
        Rules::new(Special, Each(
            Slope::of(Saves::NONE, |_, _| Err(missing("igammac", "input"))),
            Slope::of_operands(|s, g| gradient::of_gamma_bound(s, g)?.neg()),
        ))
        .takes(FLOATS),
        incomplete_gammas,
        doc("Return the regularised upper incomplete gamma function `Q(a, x) = 1 - P(a, x)`, where `a` is `input`, \
             `x` is `other`, and `P` is `torch.igamma`. The operands broadcast; only floating-point dtypes are \
             allowed. There is no derivative with respect to `input`."),
        aliases(&["special_gammaincc"]);
    "bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor" BitwiseAnd:
        Rules::new(Op("stablehlo.and"), Gradient::None).takes(BITS),
        two_integers,
        doc("Return the bits that are set in both `input` and `other`, element by element. For `bool` it is the \
             logical and. The operands broadcast and are promoted to a common dtype; one of them may be a number. \
             Floating-point and complex tensors are refused."),
        numbers(Numbers::One);
    "bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor" BitwiseOr:
        Rules::new(Op("stablehlo.or"), Gradient::None).takes(BITS),
        two_integers,
        doc("Return the bits that are set in `input`, in `other` or in both, element by element. For `bool` it is \
             the logical or. The operands broadcast and are promoted to a common dtype; one of them may be a number. \
             Floating-point and complex tensors are refused."),
        numbers(Numbers::One);
    "bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor" BitwiseXor:
        Rules::new(Op("stablehlo.xor"), Gradient::None).takes(BITS),
        two_integers,
        doc("Return the bits in which `input` and `other` differ, element by element. For `bool` it is the logical \
             exclusive or. The operands broadcast and are promoted to a common dtype; one of them may be a number. \
             Floating-point and complex tensors are refused."),
        numbers(Numbers::One);
    "bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor" LeftShift:
        Rules::new(Op("stablehlo.shift_left"), Gradient::None).takes(INTS).kernel("lshift_cpu"),
        two_integers,
        doc("Return `input` with its bits moved left by `other` places, which is `input * 2^other` without the bits \
             that do not fit. Shifts that are negative or at least the number of bits give 0. The operands \
             broadcast; one of them may be a number. Only integers are allowed."),
        numbers(Numbers::One);
    "bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor" RightShift:
        Rules::new(By(lower::right_shift), Gradient::None).takes(INTS).kernel("rshift_cpu"),
        two_integers,
        doc("Return `input` with its bits moved right by `other` places, which is `floor(input / 2^other)`. Signed \
             integers keep their sign. Shifts that are negative or at least the number of bits move all bits out. \
             The operands broadcast; one of them may be a number. Only integers are allowed."),
        numbers(Numbers::One);
    "logical_and(Tensor self, Tensor other) -> Tensor" LogicalAnd:
        Rules::new(By(lower::logical_and), Gradient::None).takes_complex(),
        two_masks,
        doc("Return `True` where both `input` and `other` are nonzero, as `bool`. The operands broadcast; NaN \
             counts as true. The in-place form writes 0 or 1 in the dtype of the tensor.");
    "logical_or(Tensor self, Tensor other) -> Tensor" LogicalOr:
        Rules::new(By(lower::logical_or), Gradient::None).takes_complex(),
        two_masks,
        doc("Return `True` where `input` or `other` is nonzero, as `bool`. The operands broadcast; NaN counts as \
             true. The in-place form writes 0 or 1 in the dtype of the tensor.");
    "logical_xor(Tensor self, Tensor other) -> Tensor" LogicalXor:
        Rules::new(By(lower::logical_xor), Gradient::None).takes_complex(),
        two_masks,
        doc("Return `True` where exactly one of `input` and `other` is nonzero, as `bool`. The operands broadcast; \
             NaN counts as true. The in-place form writes 0 or 1 in the dtype of the tensor.");
    "logaddexp(Tensor self, Tensor other) -> Tensor" LogAddExp:
        Rules::new(By(lower::logaddexp), Each(
            Slope::of_operands(|s, g| mul(g, &s.x(0).sub(s.x(1))?.sigmoid()?)),
            Slope::of_operands(|s, g| mul(g, &s.x(1).sub(s.x(0))?.sigmoid()?)),
        ))
        .refuses_integers().complex_by(logaddexp_of_complex),
        samples!([t(&[2, 3]), t(&[3])]),
        doc("Return `log(e^input + e^other)`, element by element, without overflow. The operands broadcast and are \
             promoted to a common dtype. Integers are refused; complex numbers are allowed."),
        no_in_place();
    "xlogy.Tensor(Tensor self, Tensor other) -> Tensor" Xlogy:
        Rules::new(By(lower::xlogy), Both(gradient::of_xlogy)).converts_integers().linear(&[0b01]),
        samples!([t(&[2, 3]), positive(&[3])], [t(&[2, 3]), n(2)]),
        doc("Return `input * log(other)`, element by element, and 0 where `input` is 0, unless `other` is NaN. The \
             operands broadcast; one of them may be a number. Integers are computed in the default floating-point \
             dtype. Complex tensors are refused."),
        numbers(Numbers::One), aliases(&["special_xlogy"]), in_place_function();
} alias {
    "multiply.Tensor(Tensor self, Tensor other) -> Tensor" Mul, samples!([t(&[2, 3]), t(&[2, 3])]),
        doc("Alias of `torch.mul`."),
        numbers(Numbers::Both);
    "divide.Tensor(Tensor self, Tensor other) -> Tensor" Div, samples!([t(&[2, 3]), positive(&[2, 3])]),
        doc("Alias of `torch.div`."),
        numbers(Numbers::Both);
    "true_divide.Tensor(Tensor self, Tensor other) -> Tensor" Div, samples!([t(&[2, 3]), positive(&[2, 3])]),
        doc("Alias of `torch.div` without `rounding_mode`."),
        numbers(Numbers::Both);
    "arctan2(Tensor self, Tensor other) -> Tensor" Atan2, samples!([t(&[2, 3]), positive(&[2, 3])]),
        doc("Alias of `torch.atan2`."),
        autocast(Policies::accelerator(Policy::Widest));
} other {
    Add: Rules::new(OrBool("stablehlo.add", "stablehlo.or"), Each(Slope::SAME, Slope::SAME))
        .takes_complex().rounds_once().linear(&[0b11]);
    Sub: Rules::new(Op("stablehlo.subtract"), Each(Slope::SAME, Slope::of(Saves::NONE, |_, g| g.neg())))
        .takes_complex().rounds_once().linear(&[0b11]);
    Complex: Rules::new(Op("stablehlo.complex"), Each(
            Slope::of(Saves::NONE, |_, g| g.real()), Slope::of(Saves::NONE, |_, g| g.imag()),
        ))
        .rounds_once().linear(&[0b11]);
    // These sums cancel.
    GammaSlope: Rules::new(By(lower::gamma_slope), Both(|_, _| {
            Err(crate::Error::not_implemented("the derivative for '_standard_gamma_grad' is not implemented."))
        }))
        .takes(WIDE_FLOATS);
    Zeta: Rules::new(Special, Each(
            Slope::of(Saves::NONE, |_, _| Err(missing("zeta", "input"))),
            Slope::of_operands(gradient::of_zeta_shift),
        ))
        .takes(BITS | WIDE_FLOATS).kernel("zeta_cpu").converts_integers();
    ChebyshevT: POLYNOMIAL;
    ChebyshevU: POLYNOMIAL;
    ChebyshevV: POLYNOMIAL;
    ChebyshevW: POLYNOMIAL;
    ShiftedChebyshevT: POLYNOMIAL;
    ShiftedChebyshevU: POLYNOMIAL;
    ShiftedChebyshevV: POLYNOMIAL;
    ShiftedChebyshevW: POLYNOMIAL;
    HermiteH: POLYNOMIAL;
    HermiteHe: POLYNOMIAL;
    Laguerre: POLYNOMIAL;
    Legendre: POLYNOMIAL;
} }
