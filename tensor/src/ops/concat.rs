//! Joining and reversing: `Cat` and `Flip`, and functions composed of them.

use crate::axes::{Axes, list};
use crate::backend::{Absence, absent_elements};
use crate::dims::MAX_DIMS;
use crate::lower::join::{JoinFew, lower_join};
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values, normalize_dim, same_device};
use crate::ops::pointwise::as_tensor;
use crate::policy::{Policies, Policy};
use crate::schema::{Aliasing, Fill, Operand, Row, Sample, SampleArg, Scope, Tier, ints, n, t, two};
use crate::{DType, Dims, Error, Held, Meta, Place, Result, Tensor, dispatch, promote_types, samples};
use smallvec::smallvec;

impl Prim {
    /// The dimension along which this op joins its operands.
    pub fn appends_along(&self) -> Option<usize> {
        match self {
            Prim::Cat(cat) => Some(cat.dim),
            _ => None,
        }
    }
}

/// Joins tensors of the same dtype along a dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cat {
    /// The dimension.
    pub dim: usize,
}

impl Op for Cat {
    const NAME: &'static str = "cat";
    const FACTS: Facts = Facts { joins_operands: true, ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::CommonFormat;
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let mut dims = *x[0].dims();
        for (i, t) in x.iter().enumerate().skip(1) {
            let d = t.dims();
            if d.len() != dims.len() {
                return Err(Error::runtime(format!(
                    "Tensors must have same number of dimensions: got {} and {}",
                    dims.len(),
                    d.len()
                )));
            }
            for k in 0..d.len() {
                if k != self.dim && d[k] != dims[k] {
                    return Err(Error::runtime(format!(
                        "Sizes of tensors must match except in dimension {}. Expected size {} but got size {} for \
                        tensor number {i} in the list.",
                        self.dim, dims[k], d[k]
                    )));
                }
            }
            let size = dims[self.dim].checked_add(d[self.dim]).ok_or_else(too_many)?;
            dims.set(self.dim, size);
        }
        Ok(Meta { dims, dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let all = if x.len() < 64 { (1 << x.len()) - 1 } else { 0 };
        Axes::except(1 << self.dim, x, y).linear(&[all])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let mut at = 0;
        for t in x {
            let len = t.dims()[self.dim];
            let part = y[0].narrow(self.dim as i64, at as i64, len as i64)?;
            torchtpu_kernels::copy::copy(&t.view(), &mut part.view_mut());
            at += len;
        }
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let rows = y[0].dims[..self.dim].iter().product();
        let dim = self.dim;
        if let Some(joined) = lower_join(f, x, rows, y, Some(&|f, few| f.concatenate(few, dim))) {
            return joined;
        }
        smallvec![f.concatenate(x, self.dim)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let mut at = 0;
        (0..s.len())
            .map(|i| {
                let len = s.meta(i).dims[self.dim] as i64;
                at += len;
                if s.needs(i) { g.narrow(self.dim as i64, at - len, len).map(Some) } else { Ok(None) }
            })
            .collect()
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Joins tensors of the same sizes and dtype along a new dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stack {
    /// The dimension of the result.
    pub dim: usize,
}

impl Op for Stack {
    const NAME: &'static str = "stack";
    const FACTS: Facts = Facts { joins_operands: true, ..Facts::NONE };
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let first = x[0].dims();
        if let Some((i, t)) = x.iter().enumerate().find(|(_, t)| t.dims() != first) {
            return Err(Error::runtime(format!(
                "stack expects each tensor to be equal size, but got {first} at entry 0 and {} at entry {i}",
                t.dims()
            )));
        }
        let mut sizes = first.to_vec();
        sizes.insert(self.dim, x.len());
        Ok(Meta { dims: Dims::try_new(&sizes)?, dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let operand = list("d", x[0].dims.len());
        let mut dims: Vec<&str> = operand.split_whitespace().collect();
        dims.insert(self.dim, "_");
        let all = if x.len() < 64 { (1 << x.len()) - 1 } else { 0 };
        Axes::parse(&format!("{operand} -> {}", dims.join(" ")), x, y).linear(&[all])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        for (i, t) in x.iter().enumerate() {
            let part = y[0].select(self.dim as i64, i as i64)?;
            torchtpu_kernels::copy::copy(&t.view(), &mut part.view_mut());
        }
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let dim = self.dim;
        // Operands that first get a new dimension are computed by kernels of their own in any case.
        let few: Option<&JoinFew<'_>> = if dim < x[0].rank() { Some(&|f, few| f.concatenate(few, dim)) } else { None };
        if let Some(joined) = lower_join(f, x, y[0].dims[..dim].iter().product(), y, few) {
            return joined;
        }
        // Joining along an existing dimension is one op. Along a new last dimension, each operand needs that dimension
        // first.
        if self.dim < x[0].rank() {
            let joined = f.concatenate(x, self.dim);
            return smallvec![f.reshape(&joined, &y[0].dims)];
        }
        let one: Vec<usize> = x[0].shape().iter().copied().chain([1]).collect();
        let wide: Vec<Value> = x.iter().map(|x| f.reshape(x, &one)).collect();
        smallvec![f.concatenate(&wide, self.dim)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        (0..s.len())
            .map(|i| if s.needs(i) { g.select(self.dim as i64, i as i64).map(Some) } else { Ok(None) })
            .collect()
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Reverses dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flip {
    /// Bit `i`: dimension `i` is reversed.
    pub mask: u64,
}

impl Op for Flip {
    const NAME: &'static str = "flip";
    const STRIDES: crate::op::Strides = crate::op::Strides::Like;
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(self.mask, x, y).linear(&[0b1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let mut done = x[0].clone();
        // Reverse one dimension at a time, by copying blocks of rows in reverse order.
        for d in (0..x[0].dims().len()).filter(|d| self.mask >> d & 1 != 0) {
            let n = done.dims()[d] as i64;
            let next = Tensor::empty(done.meta())?;
            for i in 0..n {
                let (from, to) = (done.narrow(d as i64, i, 1)?, next.narrow(d as i64, n - 1 - i, 1)?);
                torchtpu_kernels::copy::copy(&from.view(), &mut to.view_mut());
            }
            done = next;
        }
        torchtpu_kernels::copy::copy(&done.view(), &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let dims: Vec<usize> = (0..x[0].rank()).filter(|d| self.mask >> d & 1 != 0).collect();
        smallvec![f.reverse(&x[0], &dims)]
    }
    fn vjp(&self, _: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![Some(dispatch::call(Prim::Flip(*self), &[g])?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Join tensors along a dimension, after promotion. As in PyTorch, 1-d tensors without elements are left out.
///
/// # Errors
/// `Runtime` or `Index`, in PyTorch's wording.
pub fn cat(xs: &[&Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = xs.first() else {
        return Err(Error::value("torch.cat(): expected a non-empty list of Tensors"));
    };
    if let Some(i) = xs.iter().position(|x| x.dims().is_empty()) {
        return Err(Error::runtime(format!("zero-dimensional tensor (at position {i}) cannot be concatenated")));
    }
    let legacy = |x: &Tensor| x.dims().len() == 1 && x.numel() == 0;
    let dtype = xs.iter().fold(first.dtype(), |d, x| promote_types(d, x.dtype()));
    let kept: Vec<&&Tensor> = xs.iter().filter(|x| !legacy(x)).collect();
    if kept.is_empty() {
        let typed: Vec<Tensor> = xs.iter().map(|x| as_tensor(Operand::Tensor(x), dtype)).collect::<Result<_>>()?;
        return dispatch::call(Prim::Cat(Cat { dim: 0 }), &typed.iter().collect::<Vec<_>>());
    }
    let dim = normalize_dim(dim, kept[0].dims().len())?;
    let typed: Vec<Tensor> = kept.iter().map(|x| as_tensor(Operand::Tensor(x), dtype)).collect::<Result<_>>()?;
    let mut y = dispatch::call(Prim::Cat(Cat { dim }), &typed.iter().collect::<Vec<_>>())?;
    // Tensors that were left out have a gradient too, which is empty.
    for x in xs.iter().filter(|x| legacy(x) && x.requires_grad()) {
        y = y.add(&x.sum()?.to_dtype(y.dtype())?)?;
    }
    Ok(y)
}

/// Join tensors of equal sizes along a new dimension.
///
/// # Errors
/// `Runtime` or `Index`, in PyTorch's wording.
pub fn stack(xs: &[&Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = xs.first() else {
        return Err(Error::runtime("stack expects a non-empty TensorList"));
    };
    let dim = normalize_dim(dim, first.dims().len() + 1)?;
    let dtype = xs.iter().fold(first.dtype(), |d, x| promote_types(d, x.dtype()));
    let typed: Vec<Tensor> = xs.iter().map(|x| as_tensor(Operand::Tensor(x), dtype)).collect::<Result<_>>()?;
    dispatch::call(Prim::Stack(Stack { dim }), &typed.iter().collect::<Vec<_>>())
}

/// Reverse dimensions.
///
/// # Errors
/// `Index` or `Runtime` for wrong or repeated dimensions.
pub fn flip(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mask = if dims.is_empty() { 0 } else { crate::op::normalize_dims(dims, x.dims().len())? };
    if mask == 0 || x.dims().is_empty() {
        return x.copy();
    }
    dispatch::call(Prim::Flip(Flip { mask }), &[x])
}

/// `x`, if it has this many dimensions.
fn having(x: &Tensor, rank: usize) -> Result<&Tensor> {
    if x.dims().len() < rank {
        return Err(Error::runtime(format!("Input must be >= {rank}-d.")));
    }
    Ok(x)
}

/// Shift elements along dimensions. Those that leave at the end come back at the start.
pub(crate) fn roll(x: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    if dims.is_empty() && shifts.len() == 1 {
        return roll(&x.reshape(&[-1])?, shifts, &[0])?.reshape_dims(*x.dims());
    }
    if shifts.is_empty() {
        return Err(Error::runtime("`shifts` required"));
    }
    if shifts.len() != dims.len() {
        return Err(Error::runtime(format!(
            "shifts and dimensions must align. shifts: {}, dims:{}",
            shifts.len(),
            dims.len()
        )));
    }
    if x.dims().is_empty() {
        return Err(Error::index(format!("Dimension specified as {} but tensor has no dimensions", dims[0])));
    }
    let mut y = x.clone();
    for (&s, &d) in shifts.iter().zip(dims) {
        let dim = normalize_dim(d, x.dims().len())? as i64;
        let n = y.dims().get(dim as usize).copied().unwrap_or(0) as i64;
        if n == 0 {
            continue;
        }
        let s = s.rem_euclid(n);
        y = match y.place().held() {
            // Use parts of the same sizes for every shift, so that all shifts are one program.
            Held::Handle => cat(&[&y, &y], dim)?.narrow(dim, n - s, n)?.copy()?,
            _ => cat(&[&y.narrow(dim, n - s, s)?, &y.narrow(dim, 0, n - s)?], dim)?,
        };
    }
    y.copy_if_view(x)
}

fn too_many() -> Error {
    Error::runtime("numel: integer multiplication overflow")
}

/// Repeat the whole tensor along each dimension.
fn repeat(x: &Tensor, times: &[i64]) -> Result<Tensor> {
    let r = x.dims().len();
    if times.len() < r {
        return Err(Error::runtime(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
        ));
    }
    let lead = times.len() - r;
    // Insert a dimension for the repeats before each dimension of the tensor.
    let (mut from, mut to, mut out): (Vec<i64>, Vec<i64>, Vec<i64>) = Default::default();
    for (i, &t) in times.iter().enumerate() {
        let n = if i < lead { 1 } else { x.dims()[i - lead] as i64 };
        from.extend([1, n]);
        to.extend([t, n]);
        out.push(t.checked_mul(n).ok_or_else(too_many)?);
    }
    if let Some(n) = out.iter().find(|n| **n < 0) {
        return Err(Error::runtime(format!("Trying to create tensor with negative dimension {n}: {out:?}")));
    }
    if let Some(t) = times.iter().find(|t| **t < 0) {
        return Err(Error::runtime(format!("Trying to create tensor with negative dimension {t}: {times:?}")));
    }
    if from.len() <= MAX_DIMS {
        return x.reshape(&from)?.expand(&to)?.reshape(&out)?.copy_if_view(x);
    }
    // With too many dimensions, repeat one after the other.
    let mut y = x.reshape(
        &out.iter().enumerate().map(|(i, _)| if i < lead { 1 } else { x.dims()[i - lead] as i64 }).collect::<Vec<_>>(),
    )?;
    for (i, &t) in times.iter().enumerate().filter(|(_, t)| **t != 1) {
        let mut dims: Vec<i64> = y.dims().iter().map(|&n| n as i64).collect();
        let (before, behind) = (dims[..i].iter().product(), dims[i..].iter().product());
        dims[i] *= t;
        y = y.reshape(&[before, 1, behind])?.expand(&[before, t, behind])?.reshape(&dims)?;
    }
    y.copy_if_view(x)
}

fn repeat_interleave(x: &Tensor, times: i64, dim: Option<i64>) -> Result<Tensor> {
    if times < 0 {
        return Err(Error::runtime("repeats can not be negative"));
    }
    let (x, dim) = match dim {
        Some(d) => (x.clone(), normalize_dim(d, x.dims().len())?),
        None => (x.reshape(&[-1])?, 0),
    };
    let x = if x.dims().is_empty() { x.reshape(&[1])? } else { x };
    let mut to: Vec<i64> = x.dims().iter().map(|&n| n as i64).collect();
    let mut out = to.clone();
    to.insert(dim + 1, times);
    out[dim] = out[dim].checked_mul(times).ok_or_else(too_many)?;
    x.unsqueeze(dim as i64 + 1)?.expand(&to)?.reshape(&out)
}

impl Tensor {
    /// A copy if this tensor shares memory with `x`.
    pub(crate) fn copy_if_view(&self, x: &Tensor) -> Result<Tensor> {
        if self.shares_storage(x) { self.copy() } else { Ok(self.clone()) }
    }
}

/// Repeat each slice along a dimension a number of times of its own. On a device the host reads the numbers.
fn repeat_interleave_by(x: &Tensor, times: &Tensor, dim: Option<i64>, size: Option<i64>) -> Result<Tensor> {
    let (x, dim) = match dim {
        Some(d) => (x.clone(), normalize_dim(d, x.dims().len())?),
        None => (x.reshape(&[-1])?, 0),
    };
    let x = if x.dims().is_empty() { x.reshape(&[1])? } else { x };
    let n = x.dims()[dim];
    if times.dims().len() > 1 || (times.numel() != 1 && times.numel() != n) {
        return Err(Error::runtime("repeats must be 0-dim or 1-dim tensor with the same size as input along dim"));
    }
    let at = positions_of(times, n, x.place(), size)?;
    crate::ops::indexing::index_select(&x, dim as i64, &at)
}

/// The numbers `0..n`, where `i` occurs `times[i]` times. The sum of `times` must be `size`, if that is given.
fn positions_of(times: &Tensor, n: usize, place: Place, size: Option<i64>) -> Result<Tensor> {
    if !matches!(times.dtype(), DType::I64 | DType::I32) {
        return Err(Error::runtime("repeats has to be Long or Int tensor"));
    }
    if times.place().is_abstract() && !times.place().is_dense() {
        let Some(size) = size else {
            return Err(absent_elements(times, Absence::Size("repeat_interleave.Tensor"), too_many));
        };
        return Tensor::empty(&Meta::new(&[size.max(0) as usize], DType::I64, place));
    }
    let (host, planned) = crate::backend::fetch(times)?;
    let times: Vec<i64> = match planned {
        None => host.to_vec()?,
        // Values are made up, so that their sum is what the caller says, or an assumed one.
        Some(backend) => {
            let is_one = times.numel() == 1;
            let sum =
                size.map_or_else(|| backend.assume_rows(if is_one { 2 * n } else { n }), |size| size.max(0) as usize);
            match times.numel() {
                1 => vec![(sum / n.max(1)) as i64],
                m => (0..m).map(|i| (sum * (i + 1) / m - sum * i / m) as i64).collect(),
            }
        }
    };
    if times.iter().any(|t| *t < 0) {
        return Err(Error::runtime("repeats can not be negative"));
    }
    let of = |i: usize| if times.len() == 1 { times[0] } else { times[i] } as usize;
    let len = (0..n).try_fold(0, |sum: usize, i| sum.checked_add(of(i))).ok_or_else(too_many)?;
    if size.is_some_and(|size| size != len as i64) {
        return Err(Error::runtime("allocated size does not match required size"));
    }
    let at = Tensor::empty(&Meta::new(&[len], DType::I64, Place::CPU))?;
    if let Some(out) = at.view_mut().as_slice_mut::<i64>() {
        let numbers = (0..n).flat_map(|i| std::iter::repeat_n(i as i64, of(i)));
        out.iter_mut().zip(numbers).for_each(|(o, i)| *o = i);
    }
    at.to_device(place)
}

fn meshgrid(xs: &[&Tensor], indexing: &str) -> Result<Vec<Tensor>> {
    if !matches!(indexing, "ij" | "xy") {
        return Err(Error::runtime(format!(
            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {indexing}"
        )));
    }
    if xs.is_empty() {
        return Err(Error::runtime("meshgrid expects a non-empty TensorList"));
    }
    if xs.iter().any(|x| x.dtype() != xs[0].dtype()) {
        return Err(Error::runtime("meshgrid expects all tensors to have the same dtype"));
    }
    if xs.iter().any(|x| x.place() != xs[0].place()) {
        return Err(Error::runtime("meshgrid expects all tensors to have the same device"));
    }
    let mut xs: Vec<&Tensor> = xs.to_vec();
    let swap = indexing == "xy" && xs.len() >= 2;
    if swap {
        xs.swap(0, 1);
    }
    let dims: Vec<i64> = xs.iter().map(|x| x.numel() as i64).collect();
    let mut out: Vec<Tensor> = xs
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let mut one = vec![1; xs.len()];
            one[i] = -1;
            x.reshape(&one)?.expand(&dims)
        })
        .collect::<Result<_>>()?;
    if swap {
        out.swap(0, 1);
    }
    Ok(out)
}

/// Expand tensors to their common sizes.
fn broadcast_tensors(xs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let dims = xs.iter().try_fold(Dims::EMPTY, |d, x| crate::op::broadcast_dims(&d, x.dims()))?;
    xs.iter().map(|x| x.expand_dims(&dims)).collect()
}

fn at_least(x: &Tensor, rank: usize) -> Result<Tensor> {
    match (rank, x.dims().len()) {
        (1, 0) => x.reshape(&[1]),
        (2, 0) => x.reshape(&[1, 1]),
        (2, 1) => x.unsqueeze(0),
        (3, 0) => x.reshape(&[1, 1, 1]),
        (3, 1) => x.unsqueeze(0)?.unsqueeze(2),
        (3, 2) => x.unsqueeze(2),
        _ => Ok(x.clone()),
    }
}

fn stacked(name: &str, xs: &[&Tensor], rank: usize, dim: i64) -> Result<Tensor> {
    if xs.is_empty() {
        return Err(Error::runtime(format!("{name} expects a non-empty TensorList")));
    }
    let v: Vec<Tensor> = xs.iter().map(|x| at_least(x, rank)).collect::<Result<_>>()?;
    let dim = if dim == 1 && v.first().is_some_and(|x| x.dims().len() == 1) { 0 } else { dim };
    cat(&v.iter().collect::<Vec<_>>(), dim)
}

/// Rows of the joining functions.
pub const ROWS: &[Row] = &[
    Row::new(
        "cat(Tensor[] tensors, int dim=0) -> Tensor",
        Tier::Prim,
        |a| Ok(cat(&a.tensors(0)?, a.int(1)?)?.into()),
        samples!([two(&[2, 3], &[1, 3])], [two(&[2, 3], &[2, 1]), n(-1)]),
    )
    .doc(
        "Join tensors along the dimension `dim`, one after the other. Their shapes agree in all other dimensions. \
         The result has the common dtype. Tensors of shape `(0,)` are left out whatever the shape of the others is; \
         0-d tensors are refused.",
    )
    .scope(Scope::Function)
    .out_aliasing(Aliasing::Refused)
    .autocast(Policies::both(Policy::Widest)),
    Row::new(
        "concat(Tensor[] tensors, int dim=0) -> Tensor",
        Tier::Prim,
        |a| Ok(cat(&a.tensors(0)?, a.int(1)?)?.into()),
        samples!([two(&[2, 3], &[1, 3])]),
    )
    .doc("Alias of `torch.cat`.")
    .scope(Scope::Function)
    .out_aliasing(Aliasing::Refused)
    .autocast(Policies::both(Policy::Widest)),
    Row::new(
        "concatenate(Tensor[] tensors, int dim=0) -> Tensor",
        Tier::Prim,
        |a| Ok(cat(&a.tensors(0)?, a.int(1)?)?.into()),
        samples!([two(&[2, 3], &[1, 3])]),
    )
    .doc("Alias of `torch.cat`.")
    .scope(Scope::Function)
    .out_aliasing(Aliasing::Refused)
    .autocast(Policies::both(Policy::Widest)),
    Row::new(
        "stack(Tensor[] tensors, int dim=0) -> Tensor",
        Tier::Prim,
        |a| Ok(stack(&a.tensors(0)?, a.int(1)?)?.into()),
        samples!([two(&[2, 3], &[2, 3]), n(1)], [two(&[2, 3], &[2, 3]), n(-1)]),
    )
    .doc(
        "Join tensors of the same shape along a new dimension `dim`. The result has the common dtype. Negative \
         `dim` counts from the end of the result.",
    )
    .scope(Scope::Function)
    .out_aliasing(Aliasing::Refused)
    .autocast(Policies::both(Policy::Widest)),
    Row::new(
        "hstack(Tensor[] tensors) -> Tensor",
        Tier::Composed,
        |a| Ok(stacked("hstack", &a.tensors(0)?, 1, 1)?.into()),
        samples!([two(&[2, 3], &[2, 1])]),
    )
    .doc(
        "Join tensors along dimension 1, or along dimension 0 if they have only one. 0-d tensors become tensors of \
         shape `(1,)` first.",
    )
    .scope(Scope::Function),
    Row::new(
        "vstack(Tensor[] tensors) -> Tensor",
        Tier::Composed,
        |a| Ok(stacked("vstack", &a.tensors(0)?, 2, 0)?.into()),
        samples!([two(&[3], &[3])]),
    )
    .doc("Join tensors along dimension 0. Tensors of 0 or 1 dimensions become rows of shape `(1, n)` first.")
    .scope(Scope::Function),
    Row::new(
        "dstack(Tensor[] tensors) -> Tensor",
        Tier::Composed,
        |a| Ok(stacked("dstack", &a.tensors(0)?, 3, 2)?.into()),
        samples!([two(&[3], &[3])]),
    )
    .doc(
        "Join tensors along dimension 2. Vectors become tensors of shape `(1, n, 1)` and matrices tensors of shape \
         `(n, m, 1)` first.",
    )
    .scope(Scope::Function),
    Row::new(
        "flip(Tensor self, int[] dims) -> Tensor",
        Tier::Prim,
        |a| Ok(flip(a.tensor(0)?, a.ints(1)?)?.into()),
        samples!([t(&[2, 3, 4]), ints(&[0, -1])]),
    )
    .doc(
        "Return a copy of `input` with the order of the elements reversed along `dims`. A dimension named twice is \
         an error.",
    ),
    Row::new(
        "fliplr(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(flip(having(a.tensor(0)?, 2)?, &[1])?.into()),
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return a copy of `input` with the order of the columns, dimension 1, reversed. `input` must have at least \
         2 dimensions.",
    ),
    Row::new(
        "flipud(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(flip(having(a.tensor(0)?, 1)?, &[0])?.into()),
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return a copy of `input` with the order of the rows, dimension 0, reversed. `input` must have at least 1 \
         dimension.",
    ),
    Row::new(
        "roll(Tensor self, SymInt[1] shifts, int[1]? dims=[]) -> Tensor",
        Tier::Composed,
        |a| Ok(roll(a.tensor(0)?, a.ints(1)?, a.ints(2)?)?.into()),
        samples!([t(&[2, 3]), ints(&[1]), ints(&[1])], [t(&[2, 3]), ints(&[2])]),
    )
    .doc(
        "Return a copy of `input` with the elements moved by `shifts` places along `dims`; those that leave at the \
         end come back at the start. Negative shifts move the other way. Without `dims`, the flattened tensor is \
         shifted and gets its shape back.",
    ),
    Row::new(
        "repeat(Tensor self, SymInt[] repeats) -> Tensor",
        Tier::Composed,
        |a| Ok(repeat(a.tensor(0)?, a.ints(1)?)?.into()),
        samples!([t(&[2, 3]), ints(&[2, 1, 2])]),
    )
    .doc(
        "Return a copy of `self` repeated `repeats[i]` times along dimension `i`. More numbers than dimensions add \
         dimensions in front; fewer are refused.",
    )
    .scope(Scope::Method),
    Row::new(
        "tile(Tensor self, SymInt[] dims) -> Tensor",
        Tier::Composed,
        |a| {
            let (x, d) = (a.tensor(0)?, a.ints(1)?);
            let mut times = vec![1; x.dims().len().saturating_sub(d.len())];
            times.extend_from_slice(d);
            Ok(repeat(x, &times)?.into())
        },
        samples!([t(&[2, 3]), ints(&[2])]),
    )
    .doc(
        "Return a copy of `input` repeated `dims[i]` times along dimension `i`. Fewer numbers than dimensions count \
         as ones in front; more numbers add dimensions in front.",
    ),
    Row::new(
        "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
        Tier::Composed,
        |a| {
            let (x, times, dim) = (a.tensor(0)?, a.int(1)?, a.opt_int(2)?);
            let y = repeat_interleave(x, times, dim)?;
            let size = y.dims()[normalize_dim(dim.unwrap_or(0), y.dims().len())?] as i64;
            if let Some(given) = a.opt_int(3)?.filter(|&given| given != size) {
                return Err(Error::runtime(format!(
                    "repeat_interleave: Invalid output_size, expected {size} but got {given}"
                )));
            }
            Ok(y.copy_if_view(x)?.into())
        },
        samples!([t(&[2, 3]), n(2)], [t(&[2, 3]), n(2), n(1)]),
    )
    .doc(
        "Repeat each element of `input` along `dim`, the copies next to each other. `repeats` is a number for all, \
         or an integer tensor with one number for each index of `dim`. Without `dim` the flattened tensor is \
         repeated. With `repeats` alone, return each position `i` `repeats[i]` times, as `int64`. `output_size` \
         must be the size of the result along `dim`, if it is given.",
    ),
    Row::new(
        "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> \
        Tensor",
        Tier::Composed,
        |a| Ok(repeat_interleave_by(a.tensor(0)?, a.tensor(1)?, a.opt_int(2)?, a.opt_int(3)?)?.into()),
        || vec![Sample::new(vec![t(&[3, 2]), SampleArg::Tensor(vec![3], Fill::Index(3)), n(0)]).no_gradient()],
    ),
    Row::new(
        "repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
        Tier::Composed,
        |a| {
            let times = a.tensor(0)?;
            if times.dims().len() != 1 {
                return Err(Error::runtime("repeat_interleave only accept 1D vector as repeat"));
            }
            Ok(positions_of(times, times.numel(), times.place(), a.opt_int(1)?)?.into())
        },
        || vec![Sample::new(vec![SampleArg::Tensor(vec![3], Fill::Index(3))]).no_gradient()],
    )
    .scope(Scope::Function),
    Row::new(
        "meshgrid(Tensor[] tensors, *, str indexing='ij') -> Tensor[]",
        Tier::Composed,
        |a| Ok(crate::schema::Ret::Tuple(meshgrid(&a.tensors(0)?, a.str(1)?)?)),
        samples!([two(&[2], &[3])]),
    )
    .doc(
        "Return the coordinates of a grid whose axes are the given vectors, as one tensor for each vector. With \
         `indexing='ij'` all have the shape `(n0, n1, ...)` of the lengths of the vectors; with `'xy'` the first two \
         dimensions are swapped. The results are views that repeat elements. All vectors must have the same dtype.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "broadcast_tensors(Tensor[] tensors) -> Tensor[]",
        Tier::Composed,
        |a| Ok(crate::schema::Ret::Tuple(broadcast_tensors(&a.tensors(0)?)?)),
        samples!([two(&[2, 1], &[3])]),
    )
    .doc(
        "Return views of the given tensors expanded to their common shape. A shape that does not broadcast with the \
         others is an error.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "atleast_1d(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(at_least(a.tensor(0)?, 1)?.into()),
        samples!([t(&[])]),
    )
    .doc("Return `input`, or a view of shape `(1,)` of a 0-d tensor.")
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "atleast_2d(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(at_least(a.tensor(0)?, 2)?.into()),
        samples!([t(&[3])]),
    )
    .doc("Return `input`, or a view with 2 dimensions: `(1, 1)` of a 0-d tensor, `(1, n)` of a vector.")
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "atleast_3d(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(at_least(a.tensor(0)?, 3)?.into()),
        samples!([t(&[3])]),
    )
    .doc(
        "Return `input`, or a view with 3 dimensions: `(1, 1, 1)` of a 0-d tensor, `(1, n, 1)` of a vector, `(n, m, \
         1)` of a matrix.",
    )
    .scope(Scope::Function)
    .no_out(),
];
