//! `isclose` and `allclose`: comparisons within tolerances.

use crate::ops::pointwise::{UnaryKind, arith, binary, unary};
use crate::ops::reduce::{ReduceKind, reduce};
use crate::scalar::general;
use crate::schema::{Operand, Row, Sample, Tier, index, mask, n, t};
use crate::{DType, Error, Result, Scalar, Tensor, backend, default_dtype};
use torchtpu_kernels::pointwise::BinaryKind;

/// How far apart elements may be that count as close.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Relative to `|other|`.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
    /// Whether two NaNs are close.
    pub equal_nan: bool,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { rtol: 1e-5, atol: 1e-8, equal_nan: false }
    }
}

/// Whether `|x - y| <= atol + rtol * |y|`, for each element.
fn isclose(x: &Tensor, y: &Tensor, tolerance: Tolerance) -> Result<Tensor> {
    let Tolerance { rtol, atol, equal_nan } = tolerance;
    if x.dtype() != y.dtype() {
        return Err(Error::runtime(format!("{} did not match {}", x.dtype().scalar_type(), y.dtype().scalar_type())));
    }
    for (name, value) in [("rtol", rtol), ("atol", atol)] {
        if value.is_nan() || value < 0.0 {
            return Err(Error::runtime(format!(
                "{name} must be greater than or equal to zero, but got {}",
                general(value)
            )));
        }
    }
    let (x, y) = (&x.detach(), &y.detach());
    let mut close = x.eq(y)?;
    if equal_nan && x.dtype().is_inexact() {
        close = binary(BinaryKind::LogicalOr, &close, &binary(BinaryKind::LogicalAnd, &x.isnan()?, &y.isnan()?)?)?;
    }
    if rtol == 0.0 && atol == 0.0 {
        return Ok(close);
    }
    // As in PyTorch, integers are subtracted and scaled in the default dtype.
    let wide = |t: &Tensor| if t.dtype().is_inexact() { Ok(t.clone()) } else { t.to_dtype(default_dtype()) };
    let y = &wide(y)?;
    let x = &if x.dtype() == DType::Bool { wide(x)? } else { x.clone() };
    let number = |v: f64| Operand::Scalar(Scalar::Float(v));
    let relative = unary(UnaryKind::Abs, &arith(BinaryKind::Mul, Operand::Tensor(y), number(rtol))?)?;
    let allowed = arith(BinaryKind::Add, Operand::Tensor(&relative), number(atol))?;
    let actual = unary(UnaryKind::Abs, &x.sub(y)?)?;
    let within = binary(BinaryKind::LogicalAnd, &actual.isfinite()?, &actual.le(&allowed)?)?;
    binary(BinaryKind::LogicalOr, &close, &within)
}

/// Whether [`isclose`] holds for all elements.
fn allclose(x: &Tensor, y: &Tensor, tolerance: Tolerance) -> Result<bool> {
    Ok(reduce(ReduceKind::All, &isclose(x, y, tolerance)?, None, false)?.item_f64()? != 0.0)
}

impl Tensor {
    /// Whether `|self - other| <= atol + rtol * |other|`, for each element.
    ///
    /// # Errors
    /// `Runtime` for different dtypes and for a tolerance that is negative or NaN.
    pub fn isclose(&self, other: &Tensor, tolerance: Tolerance) -> Result<Tensor> {
        isclose(self, other, tolerance)
    }
    /// Whether all elements are close.
    ///
    /// ```
    /// use torchtpu_tensor::{Tensor, ops::pointwise::Tolerance};
    ///
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], &[2])?;
    /// assert!(x.allclose(&x.add_scalar(1e-7)?, Tolerance::default())?);
    /// assert!(!x.allclose(&x.add_scalar(1e-3)?, Tolerance::default())?);
    /// # Ok::<(), torchtpu_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::isclose`].
    pub fn allclose(&self, other: &Tensor, tolerance: Tolerance) -> Result<bool> {
        allclose(self, other, tolerance)
    }
}

fn tolerance(a: &crate::schema::Args<'_>) -> Result<Tolerance> {
    Ok(Tolerance { rtol: a.float(2)?, atol: a.float(3)?, equal_nan: a.bool(4)? })
}

fn samples() -> Vec<Sample> {
    vec![
        Sample::new(vec![t(&[2, 3]), t(&[3]), n(0.5)]).no_gradient().dtypes(&[DType::F64, DType::BF16, DType::C64]),
        Sample::new(vec![t(&[2, 3]), t(&[2, 1]), n(0.0), n(1.0), n(true)]).no_gradient(),
        Sample::new(vec![index(&[2, 3], 4), index(&[3], 3), n(0.25), n(0.5)]).no_gradient(),
        Sample::new(vec![mask(&[2, 3]), mask(&[3]), n(0.0), n(0.0)]).no_gradient(),
    ]
}

/// Rows of the comparisons within tolerances.
pub const ROWS: &[Row] = &[
    Row::new(
        "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
        Tier::Composed,
        |a| Ok(isclose(a.tensor(0)?, a.tensor(1)?, tolerance(a)?)?.into()),
        samples,
    )
    .doc(
        "Return `True` where `|input - other| <= atol + rtol * |other|`, as `bool`. The operands have one dtype and \
         broadcast. Infinities are close to themselves alone, and two NaNs are close with `equal_nan`. A negative \
         tolerance raises `RuntimeError`.",
    )
    .no_out(),
    Row::new(
        "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            if x.place().is_abstract() {
                let why = backend::Absence::Value("allclose.default");
                return Err(backend::absent_elements(x, why, crate::ops::convert::item_of_meta));
            }
            Ok(allclose(x, a.tensor(1)?, tolerance(a)?)?.into())
        },
        Vec::new,
    )
    .doc(
        "Return `True` if all elements of `input` and `other` are close as `torch.isclose` defines it, as a Python \
         `bool`. The arguments are those of `torch.isclose`.",
    )
    .no_out(),
];
