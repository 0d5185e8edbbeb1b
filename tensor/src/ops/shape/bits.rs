//! `Bits`: a view of the same bytes as elements of another dtype (`Tensor.view(dtype)`).

use crate::axes::Axes;
use crate::op::{Func, Layout, Prim, Value, ViewOp};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch};
use torchtpu_stablehlo::{Direction, ElementType};

/// The bytes of real numbers viewed as another dtype of real numbers. If elements have another size, the last dimension
/// grows or shrinks.
///
/// | | sizes | strides |
/// |---|---|---|
/// | of equal size | `[.., n]` | as they are |
/// | `r` times smaller | `[.., n * r]` | times `r`; the last is 1 |
/// | `r` times larger | `[.., n / r]` | by `r`; the last is 1 |
///
/// Constraints if elements have another size: there is a dimension (C1), the last one is dense (C2), and for larger
/// elements its size, the offset and the other strides are multiples of `r` (C3).
///
/// No gradient exists, because bits have no slope.
///
/// # Errors
/// `Runtime` when a constraint does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bits {
    /// The dtype of the bytes.
    pub from: DType,
    /// The dtype of the view.
    pub to: DType,
}

/// Refuse bytes of `from` that cannot be viewed as `to`, and return the layout in elements of `to`.
fn relaid(x: &Layout, from: DType, to: DType) -> Result<Layout> {
    let (old, new) = (from.size_bytes(), to.size_bytes());
    if old == new {
        return Ok(*x);
    }
    let names = format!("to view {} as {} (different element sizes)", from.scalar_type(), to.scalar_type());
    let Some(last) = x.dims.len().checked_sub(1) else {
        return Err(Error::runtime(format!("self.dim() cannot be 0 {names}"))); // C1
    };
    let dense = |x: &Layout| match x.strides[last] {
        1 => Ok(()),
        s => Err(Error::runtime(format!("self.stride(-1) must be 1 {names}, but got {s}"))), // C2
    };
    let mut y = *x;
    if new < old {
        dense(x)?;
        let r = old / new;
        y.dims.set(last, x.dims[last] * r);
        y.offset *= r;
        y.strides.edit(|s| s[..last].iter_mut().for_each(|s| *s *= r));
        return Ok(y);
    }
    let r = new / old;
    let whole = |what: String, n: usize| match n % r {
        0 => Ok(n / r),
        _ => Err(Error::runtime(format!("self.{what} must be divisible by {r} {names}, but got {n}"))), // C3
    };
    y.dims.set(last, whole("size(-1)".into(), x.dims[last])?);
    y.offset = whole("storage_offset()".into(), x.offset)?;
    dense(x)?;
    for d in 0..last {
        y.strides.set(d, whole(format!("stride({d})"), x.strides[d])?);
    }
    Ok(y)
}

impl ViewOp for Bits {
    const NAME: &'static str = "view_dtype";
    fn layout(&self, x: &Layout) -> Result<Layout> {
        relaid(x, self.from, self.to)
    }
    fn dtype(&self, _: DType) -> DType {
        self.to
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let (from, to) = (self.from.size_bytes(), self.to.size_bytes());
        Axes::parse(
            if from == to {
                "... -> ..."
            } else if from > to {
                "... n -> ... (n _)"
            } else {
                "... (n _) -> ... n"
            },
            x,
            y,
        )
    }
    fn lower(&self, f: &mut Func, x: &Value, y: &Meta) -> Value {
        // A truth value is a byte for the host and a bit for the compiler.
        let x = if self.from == DType::Bool { f.convert(x, ElementType::U8) } else { x.clone() };
        let e = if self.to == DType::Bool { ElementType::U8 } else { crate::meta::element_type(self.to) };
        let (old, new) = (self.from.size_bytes(), self.to.size_bytes());
        let parts = if new > old {
            let mut dims = y.dims.to_vec();
            dims.push(new / old);
            f.reshape(&x, &dims)
        } else if new < old {
            // XLA computes wrong sizes when it merges this with the reverse view.
            f.optimization_barrier(&[x]).swap_remove(0)
        } else {
            x
        };
        let bits = f.bitcast_convert(&parts, e);
        let bits = f.reshape(&bits, &y.dims);
        if self.to != DType::Bool {
            return bits;
        }
        let zero = f.splat_i64(0, bits.ty());
        f.compare(Direction::Ne, &bits, &zero)
    }
    fn vjp(&self, x: &Meta, _: &Tensor) -> Result<Tensor> {
        Tensor::zeros_like_meta(x)
    }
    fn write_back(&self, _: &Tensor, y: &Tensor) -> Result<Tensor> {
        seen(&y.contiguous()?, self.to, self.from)
    }
}

/// Whether host memory may be read as elements of a dtype. Memory of another library may have any address.
fn is_aligned(x: &Tensor, dtype: DType) -> bool {
    // Complex numbers are aligned as their parts are.
    let align = if dtype.is_complex() { dtype.size_bytes() / 2 } else { dtype.size_bytes() };
    !x.place().in_memory() || x.numel() == 0 || x.data_ptr().is_multiple_of(align)
}

/// A copy of a tensor in memory that is aligned for every dtype.
fn aligned_copy(x: &Tensor) -> Result<Tensor> {
    crate::warning::warn(
        "view(dtype) of memory that is not aligned to the elements of the dtype gives a copy: what is written to it \
        does not reach the tensor.",
    )?;
    let y = Tensor::empty(x.meta())?;
    y.copy_(x)?;
    Ok(y)
}

fn seen(x: &Tensor, from: DType, to: DType) -> Result<Tensor> {
    if from == to { Ok(x.clone()) } else { dispatch::call_view(Prim::Bits(Bits { from, to }), x) }
}

impl Tensor {
    /// The same bytes viewed as another dtype. If elements have another size, the last dimension grows or shrinks.
    /// There is no gradient.
    ///
    /// # Errors
    /// `Runtime` if the bytes do not divide into elements of that dtype, and for a view of conjugates or negatives.
    /// Host memory that is not aligned for `dtype` is copied, with a warning.
    pub fn view_dtype(&self, dtype: DType) -> Result<Tensor> {
        for (marked, what) in
            [(self.is_conj(), "conjugate view tensors"), (self.is_neg(), "tensors with negative bit set")]
        {
            if marked {
                return Err(Error::runtime(format!(
                    "torch.Tensor.view is not supported for {what} when converting to a different dtype."
                )));
            }
        }
        let x = if self.requires_grad() { self.detach() } else { self.clone() };
        let from = x.dtype();
        if from == dtype {
            return x.view_dims(*x.dims());
        }
        let dims = relaid(&Layout::of(&x), from, dtype)?.dims;
        let x = if is_aligned(&x, dtype) { x } else { aligned_copy(&x)? };
        // Complex numbers are viewed through the real numbers that they consist of.
        let pairs = if from.is_complex() { x.view_as_real()? } else { x };
        let to = dtype.to_real();
        let mut flat = pairs.dims().to_vec();
        if from.is_complex() && flat.len() > 1 && from.size_bytes() != dtype.size_bytes() {
            let two = flat.pop().unwrap_or(2);
            flat.iter_mut().last().map(|n| *n *= two).unwrap_or_default();
        }
        let y = seen(&pairs.view_dims(Dims::new(&flat))?, pairs.dtype(), to)?;
        if !dtype.is_complex() {
            return y.view_dims(dims);
        }
        let mut parts = dims.to_vec();
        parts.push(2);
        y.view_dims(Dims::try_new(&parts)?)?.view_as_complex()
    }
}
