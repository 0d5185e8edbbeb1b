//! `Compare{kind}`: comparisons, which give `bool`.

use super::promotion::{as_tensor, result_type};
use super::{broadcast_strides, kernel_error};
use crate::axes::Axes;
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values, broadcast_dims, same_device};
use crate::schema::{Numbers, Operand, Row, Tier, index, n, t};
use crate::{DType, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::pointwise as kernels;
use torchtpu_kernels::pointwise::CompareKind;
use torchtpu_stablehlo::{Direction, ElementType};

/// `y = a < b` and other comparisons, broadcast, as `bool`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Compare(pub CompareKind);

impl Op for Compare {
    const NAME: &'static str = "compare";
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    const DIFFERENTIABLE: u64 = 0;
    fn label(&self) -> &'static str {
        self.0.name()
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if x[0].dtype().is_complex() && !matches!(self.0, CompareKind::Eq | CompareKind::Ne) {
            return Err(crate::ops::complex::unsupported(&format!("{}_cpu", self.0.name()), x[0].dtype()));
        }
        Ok(Meta { dims: broadcast_dims(x[0].dims(), x[1].dims())?, dtype: DType::Bool, place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y)
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        matches!(self.0, CompareKind::Eq | CompareKind::Ne)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let out = &y[0];
        let (sa, sb) = (broadcast_strides(x[0], out.dims()), broadcast_strides(x[1], out.dims()));
        kernels::compare(self.0, &x[0].view_as(out.dims(), &sa), &x[1].view_as(out.dims(), &sb), &mut out.view_mut())
            .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let (a, b) = (f.broadcast_to(&x[0], &y[0].dims), f.broadcast_to(&x[1], &y[0].dims));
        let dir = match self.0 {
            CompareKind::Eq => Direction::Eq,
            CompareKind::Ne => Direction::Ne,
            CompareKind::Lt => Direction::Lt,
            CompareKind::Le => Direction::Le,
            CompareKind::Gt => Direction::Gt,
            CompareKind::Ge => Direction::Ge,
        };
        let [a, b] = [a, b].map(|x| if x.element().is_float8() { f.convert(&x, ElementType::F32) } else { x });
        smallvec![f.compare(dir, &a, &b)]
    }
    fn vjp(&self, _: &Saved<'_>, _: &Tensor) -> Result<Grads> {
        Ok(smallvec![None, None]) // piecewise constant
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Compare tensors or numbers, after promotion.
pub fn compare(kind: CompareKind, a: Operand<'_>, b: Operand<'_>) -> Result<Tensor> {
    let dtype = result_type(a, b);
    dispatch::call(Prim::Compare(Compare(kind)), &[&as_tensor(a, dtype)?, &as_tensor(b, dtype)?])
}

macro_rules! compare_methods {
    ($($(#[$doc:meta])* $name:ident $scalar:ident = $kind:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            pub fn $name(&self, other: &Tensor) -> Result<Tensor> {
                compare(CompareKind::$kind, Operand::Tensor(self), Operand::Tensor(other))
            }
            /// The comparison with a number.
            pub fn $scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
                compare(CompareKind::$kind, Operand::Tensor(self), Operand::Scalar(other.into()))
            }
        )*}
    };
}

compare_methods! {
    /// `a == b`, element by element.
    eq eq_scalar = Eq;
    /// `a != b`, element by element.
    ne ne_scalar = Ne;
    /// `a < b`, element by element.
    lt lt_scalar = Lt;
    /// `a <= b`, element by element.
    le le_scalar = Le;
    /// `a > b`, element by element.
    gt gt_scalar = Gt;
    /// `a >= b`, element by element.
    ge ge_scalar = Ge;
}

macro_rules! compare_rows {
    ($($schema:literal $kind:ident $doc:literal;)*) => {
        /// Rows of the comparisons.
        pub const COMPARE_ROWS: &[Row] = &[$(
            Row::new($schema, Tier::Prim, |a| Ok(compare(CompareKind::$kind, a.operand(0)?, a.operand(1)?)?.into()), ||
                vec![
                crate::schema::Sample::new(vec![t(&[2, 3]), t(&[3])]).no_gradient(),
                crate::schema::Sample::new(vec![t(&[2, 3]), n(0.5)]).no_gradient(),
                crate::schema::Sample::new(vec![index(&[2, 3], 4), n(2)]).no_gradient(),
            ])
            .doc($doc)
            .inplace()
            .numbers(Numbers::Second),
        )*];
    };
}

compare_rows! {
    "eq.Tensor(Tensor self, Tensor other) -> Tensor" Eq
        "Return `True` where `input == other`, as `bool`. The operands broadcast and are compared in their common \
         dtype; `other` may be a number. NaN equals nothing, itself included. For one answer about whole tensors use \
         `torch.equal`.";
    "ne.Tensor(Tensor self, Tensor other) -> Tensor" Ne
        "Return `True` where `input != other`, as `bool`. The operands broadcast and are compared in their common \
         dtype; `other` may be a number. NaN differs from everything, itself included.";
    "lt.Tensor(Tensor self, Tensor other) -> Tensor" Lt
        "Return `True` where `input < other`, as `bool`. The operands broadcast and are compared in their common \
         dtype; `other` may be a number. Comparisons with NaN are false. Complex tensors are refused.";
    "le.Tensor(Tensor self, Tensor other) -> Tensor" Le
        "Return `True` where `input <= other`, as `bool`. The operands broadcast and are compared in their common \
         dtype; `other` may be a number. Comparisons with NaN are false. Complex tensors are refused.";
    "gt.Tensor(Tensor self, Tensor other) -> Tensor" Gt
        "Return `True` where `input > other`, as `bool`. The operands broadcast and are compared in their common \
         dtype; `other` may be a number. Comparisons with NaN are false. Complex tensors are refused.";
    "ge.Tensor(Tensor self, Tensor other) -> Tensor" Ge
        "Return `True` where `input >= other`, as `bool`. The operands broadcast and are compared in their common \
         dtype; `other` may be a number. Comparisons with NaN are false. Complex tensors are refused.";
    "not_equal.Tensor(Tensor self, Tensor other) -> Tensor" Ne
        "Alias of `torch.ne`.";
    "less.Tensor(Tensor self, Tensor other) -> Tensor" Lt
        "Alias of `torch.lt`.";
    "less_equal.Tensor(Tensor self, Tensor other) -> Tensor" Le
        "Alias of `torch.le`.";
    "greater.Tensor(Tensor self, Tensor other) -> Tensor" Gt
        "Alias of `torch.gt`.";
    "greater_equal.Tensor(Tensor self, Tensor other) -> Tensor" Ge
        "Alias of `torch.ge`.";
}
