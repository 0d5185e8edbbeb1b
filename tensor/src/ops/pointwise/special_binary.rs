//! Special functions of two operands: orthogonal polynomials, the zeta function and the incomplete gamma functions.

use super::arithmetic::arith;
use crate::lower::analytic;
use crate::schema::{Numbers, Operand, Row, Tier, index, n, positive, t, unit};
use crate::{DType, Result, Tensor};
use torchtpu_kernels::pointwise::BinaryKind;
use torchtpu_kernels::special;

/// The family of orthogonal polynomials of a kind.
#[inline]
pub(super) fn polynomial(k: BinaryKind) -> Option<special::PolynomialKind> {
    use special::PolynomialKind as P;
    macro_rules! families {
        ($($name:ident)*) => { match k { $(BinaryKind::$name => Some(P::$name),)* _ => None } };
    }
    families! {
        ChebyshevT ChebyshevU ChebyshevV ChebyshevW ShiftedChebyshevT ShiftedChebyshevU ShiftedChebyshevV
        ShiftedChebyshevW HermiteH HermiteHe Laguerre Legendre
    }
}

/// A special function of two operands.
pub(super) struct SpecialBinary(pub(super) BinaryKind);

impl analytic::OfTwo for SpecialBinary {
    fn of<T: special::Analytic>(self, a: &T, b: &T) -> T {
        match (self.0, polynomial(self.0)) {
            (BinaryKind::Igamma, _) => special::igamma(a, b),
            (BinaryKind::Igammac, _) => special::igammac(a, b),
            (BinaryKind::GammaSlope, _) => special::gamma_slope(a, b),
            (BinaryKind::Zeta, _) => special::zeta(a, b),
            (_, Some(p)) => special::orthogonal(p, a, b),
            (kind, None) => unreachable!("{} is no special function", kind.name()),
        }
    }
}

macro_rules! special_binary_rows {
    ($($name:literal $kind:ident $doc:literal;)*) => {
        /// Rows of the orthogonal polynomials and the zeta function.
        pub const SPECIAL_BINARY_ROWS: &[Row] = &[$(
            Row::new($name, Tier::Prim, |a|
                Ok(special_binary(BinaryKind::$kind, a.operand(0)?, a.operand(1)?)?.into()), ||
                    polynomial_samples(BinaryKind::$kind))
                .doc($doc)
                .scope(crate::schema::Scope::Nn)
                .numbers(Numbers::One),
        )*];
    };
}

special_binary_rows! {
    "special_zeta(Tensor self, Tensor other) -> Tensor" Zeta
        "Return the Hurwitz zeta function `sum over k >= 0 of (k + other)^-input`, element by element. The operands \
         broadcast; one of them may be a number. Integers are computed in the default floating-point dtype; \
         `float16` and `bfloat16` are refused. There is no derivative with respect to `input`.";
    "special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor" ChebyshevT
        "Return the Chebyshev polynomial of the first kind `T_n(x)`, which is `cos(n * acos(x))` in `[-1, 1]`. The \
         operands broadcast; one of them may be a number. `n` is truncated to a whole number, and a negative degree \
         gives 0. The result has no gradient.";
    "special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor" ChebyshevU
        "Return the Chebyshev polynomial of the second kind `U_n(x)`, where `U_0 = 1`, `U_1 = 2x` and `U_(k+1) = 2x \
         U_k - U_(k-1)`. The operands broadcast; one of them may be a number. `n` is truncated to a whole number, \
         and a negative degree gives 0. The result has no gradient.";
    "special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor" ChebyshevV
        "Return the Chebyshev polynomial of the third kind `V_n(x)`, where `V_0 = 1`, `V_1 = 2x - 1` and `V_(k+1) = \
         2x V_k - V_(k-1)`. The operands broadcast; one of them may be a number. `n` is truncated to a whole number, \
         and a negative degree gives 0. The result has no gradient.";
    "special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor" ChebyshevW
        "Return the Chebyshev polynomial of the fourth kind `W_n(x)`, where `W_0 = 1`, `W_1 = 2x + 1` and `W_(k+1) \
         = 2x W_k - W_(k-1)`. The operands broadcast; one of them may be a number. `n` is truncated to a whole \
         number, and a negative degree gives 0. The result has no gradient.";
    "special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor" ShiftedChebyshevT
        "Return `T_n(2x - 1)`, where `T_n` is the Chebyshev polynomial of the first kind \
         (`torch.special.chebyshev_polynomial_t`). It is orthogonal on `[0, 1]`. The operands broadcast; one of them \
         may be a number. The result has no gradient.";
    "special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor" ShiftedChebyshevU
        "Return `U_n(2x - 1)`, where `U_n` is the Chebyshev polynomial of the second kind \
         (`torch.special.chebyshev_polynomial_u`). It is orthogonal on `[0, 1]`. The operands broadcast; one of them \
         may be a number. The result has no gradient.";
    "special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor" ShiftedChebyshevV
        "Return `V_n(2x - 1)`, where `V_n` is the Chebyshev polynomial of the third kind \
         (`torch.special.chebyshev_polynomial_v`). It is orthogonal on `[0, 1]`. The operands broadcast; one of them \
         may be a number. The result has no gradient.";
    "special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor" ShiftedChebyshevW
        "Return `W_n(2x - 1)`, where `W_n` is the Chebyshev polynomial of the fourth kind \
         (`torch.special.chebyshev_polynomial_w`). It is orthogonal on `[0, 1]`. The operands broadcast; one of them \
         may be a number. The result has no gradient.";
    "special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor" HermiteH
        "Return the physicist's Hermite polynomial `H_n(x)`, where `H_0 = 1`, `H_1 = 2x` and `H_(k+1) = 2x H_k - 2k \
         H_(k-1)`. The operands broadcast; one of them may be a number. `n` is truncated to a whole number, and a \
         negative degree gives 0. The result has no gradient.";
    "special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor" HermiteHe
        "Return the probabilist's Hermite polynomial `He_n(x)`, where `He_0 = 1`, `He_1 = x` and `He_(k+1) = x He_k \
         - k He_(k-1)`. The operands broadcast; one of them may be a number. `n` is truncated to a whole number, and \
         a negative degree gives 0. The result has no gradient.";
    "special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor" Laguerre
        "Return the Laguerre polynomial `L_n(x)`, where `L_0 = 1`, `L_1 = 1 - x` and `(k+1) L_(k+1) = (2k + 1 - x) \
         L_k - k L_(k-1)`. The operands broadcast; one of them may be a number. `n` is truncated to a whole number, \
         and a negative degree gives 0. The result has no gradient.";
    "special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor" Legendre
        "Return the Legendre polynomial `P_n(x)`, where `P_0 = 1`, `P_1 = x` and `(k+1) P_(k+1) = (2k + 1) x P_k - \
         k P_(k-1)`. The operands broadcast; one of them may be a number. `n` is truncated to a whole number, and a \
         negative degree gives 0. The result has no gradient.";
}

/// Call the function of `kind`. Gradients reach only the zeta function's second operand.
fn special_binary(kind: BinaryKind, a: Operand<'_>, b: Operand<'_>) -> Result<Tensor> {
    if polynomial(kind).is_some() {
        let detached = |x: Operand<'_>| if let Operand::Tensor(t) = x { Some(t.detach()) } else { None };
        let (da, db) = (detached(a), detached(b));
        return arith(kind, da.as_ref().map_or(a, Operand::Tensor), db.as_ref().map_or(b, Operand::Tensor));
    }
    arith(kind, a, b)
}

fn polynomial_samples(kind: BinaryKind) -> Vec<crate::schema::Sample> {
    use crate::schema::Sample;
    if kind == BinaryKind::Zeta {
        return vec![Sample::new(vec![n(2.5), positive(&[2, 3])]), Sample::new(vec![n(3), t(&[2, 3])])];
    }
    vec![
        Sample::new(vec![t(&[2, 3]), index(&[2, 3], 7)]).no_gradient().dtypes(&[DType::F64]),
        Sample::new(vec![unit(&[4]), n(11)]).no_gradient().dtypes(&[DType::F64]),
        Sample::new(vec![t(&[4]), t(&[4])]).no_gradient(),
    ]
}
