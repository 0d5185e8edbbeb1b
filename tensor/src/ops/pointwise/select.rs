//! `Select`: choosing between two tensors, element by element.

use super::broadcast_strides;
use super::promotion::{as_tensor, result_type};
use crate::axes::Axes;
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values, broadcast_dims, same_device};
use crate::schema::{Numbers, Operand, Row, Tier, mask, n, t};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, graph, inplace, samples, state};
use smallvec::smallvec;
use torchtpu_kernels::index::masked_copy;
use torchtpu_kernels::pointwise as kernels;

/// `y = cond ? a : b`, broadcast; `cond` is `bool`, `a` and `b` have the same dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Select;

impl Op for Select {
    const NAME: &'static str = "where";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if x[0].dtype() != DType::Bool {
            return Err(Error::runtime(format!(
                "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
                x[0].dtype().scalar_type()
            )));
        }
        let dims = broadcast_dims(&broadcast_dims(x[0].dims(), x[1].dims())?, x[2].dims())?;
        Ok(Meta { dims, dtype: x[1].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b110])
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let out = &y[0];
        let s = [0, 1, 2].map(|i| broadcast_strides(x[i], out.dims()));
        let v = [0, 1, 2].map(|i| x[i].view_as(out.dims(), &s[i]));
        if inplace::is_same_place(x[2], out) {
            masked_copy(&mut out.view_mut(), &v[0], &v[1]);
            return Ok(());
        }
        kernels::select(&v[0], &v[1], &v[2], &mut out.view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let v = [0, 1, 2].map(|i| f.broadcast_to(&x[i], &y[0].dims));
        smallvec![f.select(&v[0], &v[1], &v[2])]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let cond = s.x(0);
        let zero = Tensor::number(Scalar::Float(0.0), g.dtype())?;
        let part = |i: usize| -> Result<Option<Tensor>> {
            if !s.needs(i) {
                return Ok(None);
            }
            let d = if i == 1 { select(cond, g, &zero)? } else { select(cond, &zero, g)? };
            Ok(Some(d.sum_to(&s.meta(i).dims)?))
        };
        Ok(smallvec![None, part(1)?, part(2)?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b001)
    }
}

/// Choose between two tensors of the same dtype.
pub fn select(cond: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::Select(Select), &[cond, a, b])
}

/// Choose a number where `cond` holds.
pub fn select_scalar(cond: &Tensor, value: f64, x: &Tensor) -> Result<Tensor> {
    select(cond, &Tensor::number(Scalar::Float(value), x.dtype())?, x)
}

/// Square root whose gradient at zero is zero, like that of a norm or a standard deviation.
pub(crate) fn safe_sqrt(x: &Tensor) -> Result<Tensor> {
    if !(state::grad_enabled() && x.requires_grad()) {
        return x.sqrt();
    }
    let at_zero = x.eq_scalar(0.0)?;
    select_scalar(&at_zero, 0.0, &select_scalar(&at_zero, 1.0, x)?.sqrt()?)
}

/// `y` with a zero gradient, instead of none, for the tensor that it was computed from.
pub fn independent_of(x: &Tensor, y: Tensor) -> Result<Tensor> {
    if !y.dtype().is_inexact() || !graph::may_need_grad(&[x]) {
        return Ok(y);
    }
    let never = Meta { dims: Dims::EMPTY, dtype: DType::Bool, place: y.place() };
    select(&Tensor::full_meta(&never, Scalar::Bool(false))?, &x.to_dtype(y.dtype())?, &y)
}

/// `torch.where`: choose between tensors or numbers, after promotion.
pub fn where_(cond: &Tensor, a: Operand<'_>, b: Operand<'_>) -> Result<Tensor> {
    let dtype = result_type(a, b);
    for side in [a, b] {
        if let Operand::Scalar(s) = side {
            crate::ops::creation::check_range(s, dtype)?;
        }
    }
    if cond.dtype() == DType::U8 {
        crate::warn_once!(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future \
            version of PyTorch. Use a boolean condition instead.",
        )?;
        return select(&cond.to_dtype(DType::Bool)?, &as_tensor(a, dtype)?, &as_tensor(b, dtype)?);
    }
    select(cond, &as_tensor(a, dtype)?, &as_tensor(b, dtype)?)
}

/// Rows of choices.
pub const SELECT_ROWS: &[Row] = &[Row::new(
    "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    Tier::Prim,
    |a| Ok(where_(a.tensor(0)?, a.operand(1)?, a.operand(2)?)?.into()),
    samples!([mask(&[2, 3]), t(&[2, 3]), t(&[3])], [mask(&[3]), t(&[2, 3]), n(0.5)], [mask(&[2, 1]), n(1), n(2)]),
)
.doc(
    "Return elements of `input` where `condition` is true, and of `other` elsewhere. The three broadcast; `input` \
     and `other` are promoted to a common dtype and may be numbers. `condition` must be `bool`; `uint8` is accepted \
     with a warning. Elements that are not chosen have the gradient zero. With `condition` alone, return the \
     positions of its nonzero elements as a tuple of `int64` tensors, one a dimension.",
)
.scope(crate::schema::Scope::Function)
.numbers(Numbers::Both)];
