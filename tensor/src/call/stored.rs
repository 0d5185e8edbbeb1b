//! Ops on dtypes that are only stored: operands become numbers of a wider dtype, for the ops that PyTorch has for them.

use crate::op::Prim;
use crate::ops::pointwise::arith;
use crate::schema::Operand;
use crate::types::compute::unsupported;
use crate::{DType, Result, Scalar, Tensor};
use smallvec::SmallVec;
use torchtpu_kernels::pointwise::{BinaryKind, UnaryKind};
use torchtpu_kernels::reduce::ReduceKind;

/// How an op computes with a dtype that is only stored.
struct Rule {
    /// Whether the first result has the dtype of the operands.
    keeps: bool,
    /// Whether the op asks for the order of the elements.
    orders: bool,
}

fn rule(op: &Prim, dtype: DType) -> Option<Rule> {
    let (keeps, orders) = match op {
        Prim::Unary(u) => match u.0 {
            UnaryKind::IsNan | UnaryKind::IsInf | UnaryKind::IsFinite | UnaryKind::LogicalNot => (false, false),
            UnaryKind::Abs if dtype.is_float8() => (true, false),
            _ => return None,
        },
        Prim::Binary(b) => match b.0 {
            BinaryKind::Mul => (true, false),
            BinaryKind::LogicalAnd | BinaryKind::LogicalOr | BinaryKind::LogicalXor => (false, false),
            _ if dtype.is_float8() => return None,
            BinaryKind::Add | BinaryKind::Sub => (true, false),
            BinaryKind::BitwiseAnd | BinaryKind::BitwiseOr | BinaryKind::BitwiseXor => (true, false),
            BinaryKind::Maximum | BinaryKind::Minimum | BinaryKind::Fmax | BinaryKind::Fmin => (true, true),
            _ => return None,
        },
        Prim::Reduce(r) => match r.kind {
            ReduceKind::Any | ReduceKind::All => (false, false),
            _ if dtype.is_float8() => return None,
            ReduceKind::Sum | ReduceKind::Prod => (false, false),
            ReduceKind::Max | ReduceKind::Min => (true, true),
        },
        _ if dtype.is_float8() => return None,
        Prim::Compare(_) | Prim::ArgReduce(_) => (false, true),
        Prim::Sort(_) => (true, true),
        _ => return None,
    };
    Some(Rule { keeps, orders })
}

/// The elements of a stored integer dtype as `int64`, in the same order. Those of `uint64` have the upper bit changed.
///
/// # Errors
/// `NotImplemented` for floats of 8 bits, by the name of PyTorch's kernel.
pub(crate) fn ordered(x: &Tensor, kernel: &str) -> Result<Tensor> {
    match x.dtype() {
        d if d.is_float8() => Err(unsupported(kernel, d)),
        DType::U64 => flipped(&x.to_dtype(DType::I64)?),
        _ => x.to_dtype(DType::I64),
    }
}

/// The elements of a dtype that [`ordered`] made `y` of.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn from_ordered(y: &Tensor, dtype: DType) -> Result<Tensor> {
    if dtype == DType::U64 { flipped(y)?.to_dtype(dtype) } else { y.to_dtype(dtype) }
}

fn flipped(x: &Tensor) -> Result<Tensor> {
    let upper = Operand::Scalar(Scalar::Int(i64::MIN));
    arith(BinaryKind::BitwiseXor, Operand::Tensor(x), upper)
}

/// Operands of an op in a dtype in which it has kernels.
pub(super) struct Widened {
    /// The operands.
    pub(super) x: SmallVec<[Tensor; 4]>,
    /// The dtype of the first result, if it is the operands' own.
    dtype: Option<DType>,
    orders: bool,
}

impl Widened {
    /// The first result in its own dtype.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn narrowed(&self, y: Tensor) -> Result<Tensor> {
        match self.dtype {
            Some(dtype) if self.orders => from_ordered(&y, dtype),
            Some(dtype) => y.to_dtype(dtype),
            None => Ok(y),
        }
    }
}

/// The operands of an op in a dtype in which it has kernels. `None` if no operand is only stored, or the op has no
/// rule.
///
/// # Errors
/// `OutOfMemory`.
#[cold]
pub(super) fn widened(op: &Prim, x: &[&Tensor]) -> Result<Option<Widened>> {
    let Some(dtype) = x.iter().map(|t| t.dtype()).find(|d| d.is_stored()) else { return Ok(None) };
    let Some(Rule { keeps, orders }) = rule(op, dtype) else { return Ok(None) };
    let wide = |t: &&Tensor| match t.dtype() {
        d if !d.is_stored() => Ok((*t).clone()),
        d if d.is_float8() => t.to_dtype(DType::F32),
        _ if orders => ordered(t, op.name()),
        _ => t.to_dtype(DType::I64),
    };
    Ok(Some(Widened { x: x.iter().map(wide).collect::<Result<_>>()?, dtype: keeps.then_some(dtype), orders }))
}
