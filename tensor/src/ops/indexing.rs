//! Reading and writing at positions that are data: `Gather`, `Scatter`, `IndexSelect`, `IndexAdd`, `Index`, `IndexPut`, and
//! what is made of them.
//!
//! On `cpu` a kernel checks every index before it writes anything. On `tpu` an index is known only when the program runs, and
//! XLA moves a bad one inwards (gather) or drops it (scatter); so each public function here also records one fused reduction
//! that says whether any index is bad, and the device raises the error when the host next reads or waits
//! ([`crate::backend::Backend::defer_check`]). Gradients use indices that were checked on the way forward, and check
//! nothing.
//!
//! Negative indices count from the end in advanced indexing, `take`, `put` and `index_fill`; elsewhere they are errors.
//!
//! The number of results of `nonzero`, `masked_select` and of indexing with a mask depends on the values: on `tpu` these read
//! the mask on the host, which cuts the trace. Filling or overwriting by a mask (`masked_fill`, `masked_scatter`,
//! `x[mask] = number`) does not.

use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values, normalize_dim, same_device};
use crate::ops::pointwise::{self, broadcast_strides, kernel_error};
use crate::schema::{
    Fill, Operand, Ret, Row, Sample, SampleArg, Scope, Tier, index as index_arg, mask as mask_arg, n, t,
};
use crate::{
    DType, Device, DeviceKind, Dims, Error, ErrorKind, Meta, Result, Scalar, Tensor, backend, dispatch, samples, state,
};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::index as kernels;
use torchtpu_stablehlo::{Direction, ElementType, GatherDims, ScatterDims, ScatterKind as Join, Type};

// ------------------------------------------------------------------------------------------------ shared rules

/// The narrowest type that holds every position in `0..size`: TPUs have no 64-bit integers.
fn position_type(size: usize) -> ElementType {
    if i32::try_from(size).is_ok() { ElementType::S32 } else { ElementType::S64 }
}

/// Positions as the compiler wants them; negative ones count from the end if `wrap`.
fn lower_positions(f: &mut Func, index: &Value, size: usize, wrap: bool) -> Value {
    let index = f.convert(index, position_type(size));
    if !wrap {
        return index;
    }
    let zero = f.splat_i64(0, index.ty());
    let n = f.splat_i64(size as i64, index.ty());
    let negative = f.compare(Direction::Lt, &index, &zero);
    let wrapped = f.binary("stablehlo.add", &index, &n);
    f.select(&negative, &wrapped, &index)
}

/// On a device, arranges for an error when an index is outside `low..size`. On `cpu` the kernel looks itself.
pub(crate) fn guard(
    index: &Tensor,
    low: i64,
    size: usize,
    error: impl FnOnce(i64) -> Error + Send + Sync + 'static,
) -> Result<()> {
    if index.device().kind != DeviceKind::Tpu || index.numel() == 0 {
        return Ok(());
    }
    state::no_grad(|| {
        let bad = index.lt_scalar(low)?.logical_or(&index.ge_scalar(size as i64)?)?;
        defer_index(&bad, index, error)
    })
}

/// On a device, arranges for the error of one of the elements of `index` where `bad` turns out true.
pub(crate) fn defer_index(
    bad: &Tensor,
    index: &Tensor,
    error: impl FnOnce(i64) -> Error + Send + Sync + 'static,
) -> Result<()> {
    let shown = super::loss::select_int(bad, &index.to_dtype(DType::I64)?, backend::ALL_WELL)?;
    let worst = if shown.dims().is_empty() { shown } else { shown.amax(&[], false)? };
    let place = state::place();
    let error = move |wrong| match place {
        Some(place) => error(wrong).note(format!("the call was at {place}")),
        None => error(wrong),
    };
    backend::get()?.defer_check(worst.device_value()?, Box::new(error))
}

/// On a device, arranges for `error` when any element of `bad` turns out true.
pub(crate) fn defer(bad: &Tensor, error: Error) -> Result<()> {
    defer_index(bad, &bad.to_dtype(DType::I64)?, move |_| error)
}

fn out_of_bounds(index: i64, dim: usize, size: usize) -> Error {
    Error::index(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

/// `gather` and `scatter` report an index as an error of the call, not of the index, as in PyTorch.
fn unplaced(e: torchtpu_kernels::KernelError) -> Error {
    match e {
        torchtpu_kernels::KernelError::IndexOutOfRange(text) => Error::runtime(text),
        e => kernel_error(e),
    }
}

fn unplaced_on_device(index: i64, dim: usize, size: usize) -> Error {
    Error::runtime(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

fn out_of_range_in_self(index: i64, size: usize) -> Error {
    Error::index("index out of range in self").note(format!("an index is {index}, in a dimension of size {size}"))
}

/// Requires integer indices, as `gather` and its kin do.
fn check_index_dtype(op: &str, index: &Tensor) -> Result<()> {
    if matches!(index.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Error::runtime(format!("{op}(): Expected dtype int32/int64 for index")))
}

fn check_same_dtype(op: &str, x: &Tensor, src: &Tensor) -> Result<()> {
    if x.dtype() == src.dtype() {
        return Ok(());
    }
    Err(Error::runtime(format!("{op}(): Expected self.dtype to be equal to src.dtype")))
}

/// Starts a kernel that changes a part from a copy of the whole.
fn copy_of(x: &Tensor, y: &Tensor) {
    torchtpu_kernels::copy::copy(&x.view(), &mut y.view_mut());
}

/// 0, 1, .. in a new one-dimensional tensor.
pub(crate) fn count_up(n: usize, device: Device) -> Result<Tensor> {
    dispatch::call(Prim::Iota(super::creation::Iota { len: n, device }), &[])
}

fn zeros_like(m: &Meta) -> Result<Tensor> {
    Tensor::zeros_like_meta(m)
}

// ------------------------------------------------------------------------------------------------ gather and scatter

/// `y[i][j][k] = x[index[i][j][k]][j][k]` for `dim` 0, and so on.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[..]`, rank at least 1 | any |
/// | index | same rank, no larger than `x` except along `dim` (C1) | `int64` or `int32` (C2) |
/// | y | that of `index` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gather {
    /// Which dimension is chosen along.
    pub dim: usize,
}

fn check_along(op: &str, x: &Tensor, index: &Tensor, dim: usize) -> Result<()> {
    check_index_dtype(op, index)?; // C2
    if x.dims().len() != index.dims().len() {
        return Err(Error::runtime(format!(
            "Index tensor must have the same number of dimensions as {} tensor",
            if op == "gather" { "input" } else { "self" }
        )));
    }
    for d in 0..x.dims().len() {
        if d != dim && index.dims()[d] > x.dims()[d] {
            return Err(Error::runtime(if op == "gather" {
                format!(
                    "Size does not match at dimension {d} expected index {} to be no larger than self {} apart from dimension {dim}",
                    index.dims(),
                    x.dims()
                )
            } else {
                format!(
                    "Expected index {} to be no larger than self {} apart from dimension {dim}",
                    index.dims(),
                    x.dims()
                )
            })); // C1
        }
    }
    Ok(())
}

impl Op for Gather {
    const NAME: &'static str = "gather";
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        check_along("gather", x[0], x[1], self.dim)?;
        Ok(Meta { dims: *x[1].dims(), dtype: x[0].dtype(), device: same_device(x)? })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::gather(&x[0].view(), self.dim, &x[1].view(), &mut y[0].view_mut()).map_err(unplaced)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let at = lower_positions(f, &x[1], x[0].shape()[self.dim], false);
        smallvec![f.take_along(&x[0], &at, self.dim)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let op = Scatter { dim: self.dim, kind: ScatterKind::Add, include_self: true };
        Ok(smallvec![Some(dispatch::call(Prim::Scatter(op), &[&zeros_like(s.meta(0))?, s.x(1), g])?), None])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b10)
    }
}

/// How [`Scatter`] joins an element and what arrives there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterKind {
    /// Replaces; of several arrivals the last on `cpu`, any on a device.
    Set,
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// The greater; NaN wins.
    Max,
    /// The lesser; NaN wins.
    Min,
    /// Mean; integers round down.
    Mean,
}

/// `y = x`, but `y[index[i][j][k]][j][k]` joined with `src[i][j][k]` for `dim` 0, and so on.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[..]`, rank at least 1 | any |
/// | index | same rank, no larger than `x` except along `dim` | `int64` or `int32` |
/// | src | that of `index`, or no dimensions: one number for all | that of `x` |
/// | y | that of `x` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scatter {
    /// Which dimension is chosen along.
    pub dim: usize,
    /// How arrivals are joined.
    pub kind: ScatterKind,
    /// Whether the old values of the positions that are hit count; not looked at for `Set`.
    pub include_self: bool,
}

impl Op for Scatter {
    const NAME: &'static str = "scatter";
    fn label(&self) -> &'static str {
        match self.kind {
            ScatterKind::Set => "scatter",
            ScatterKind::Add if self.include_self => "scatter_add",
            _ => "scatter_reduce",
        }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        check_along(self.label(), x[0], x[1], self.dim)?;
        check_same_dtype("scatter", x[0], x[2])?;
        if x[0].dtype().is_complex() && matches!(self.kind, ScatterKind::Max | ScatterKind::Min) {
            let name = if self.kind == ScatterKind::Max { "amax" } else { "amin" };
            let name = format!("scatter_gather_tensor_cpu_reduce_{name}");
            return Err(super::complex::unsupported(&name, x[0].dtype()));
        }
        Ok(Meta { device: same_device(x)?, ..*x[0].meta() })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        copy_of(x[0], &y[0]);
        let strides = broadcast_strides(x[2], x[1].dims());
        let (index, src) = (x[1].view(), x[2].view_as(x[1].dims(), &strides));
        let out = &mut y[0].view_mut();
        use kernels::ScatterReduce as R;
        let reduce = match self.kind {
            ScatterKind::Set => return kernels::scatter(out, self.dim, &index, &src).map_err(unplaced),
            ScatterKind::Add => R::Sum,
            ScatterKind::Mul => R::Prod,
            ScatterKind::Max => R::Amax,
            ScatterKind::Min => R::Amin,
            ScatterKind::Mean => R::Mean,
        };
        kernels::scatter_reduce(out, self.dim, &index, &src, reduce, self.include_self).map_err(unplaced)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let at = lower_positions(f, &x[1], x[0].shape()[self.dim], false);
        let src = f.broadcast_to(&x[2], at.shape());
        let e = x[0].element();
        let mut y = x[0].clone();
        if !self.include_self && self.kind != ScatterKind::Set {
            let start = match self.kind {
                ScatterKind::Mul => f.splat(1.0, src.ty()),
                ScatterKind::Max | ScatterKind::Min => {
                    let v = if self.kind == ScatterKind::Max { f.lowest(e) } else { f.highest(e) };
                    f.broadcast_to(&v, src.shape())
                }
                _ => f.splat(0.0, src.ty()),
            };
            y = f.put_along(&y, &at, &start, self.dim, Join::Set);
        }
        let join = match self.kind {
            ScatterKind::Set => Join::Set,
            ScatterKind::Add | ScatterKind::Mean => Join::Add,
            ScatterKind::Mul => Join::Mul,
            ScatterKind::Max => Join::Max,
            ScatterKind::Min => Join::Min,
        };
        y = f.put_along(&y, &at, &src, self.dim, join);
        if self.kind == ScatterKind::Mean && e != ElementType::Pred {
            y = self.lower_mean(f, &y, &at, src.shape());
        }
        smallvec![y]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let index = s.x(1);
        let number = s.meta(2).dims.is_empty();
        let at = |t: &Tensor| dispatch::call(Prim::Gather(Gather { dim: self.dim }), &[t, index]);
        let fit = |t: Tensor| if number { t.sum_to(&Dims::EMPTY) } else { Ok(t) };
        let cleared = |t: &Tensor| {
            let zero = Tensor::number(Scalar::Float(0.0), t.dtype())?;
            let op = Scatter { dim: self.dim, kind: ScatterKind::Set, include_self: true };
            dispatch::call(Prim::Scatter(op), &[t, index, &zero])
        };
        let (gx, gs) = match self.kind {
            ScatterKind::Set => {
                (if s.needs(0) { Some(cleared(g)?) } else { None }, if s.needs(2) { Some(fit(at(g)?)?) } else { None })
            }
            ScatterKind::Add => (
                if s.needs(0) { Some(if self.include_self { g.clone() } else { cleared(g)? }) } else { None },
                if s.needs(2) { Some(fit(at(g)?)?) } else { None },
            ),
            _ => {
                let (gx, gs) = self.reduce_vjp(s, g, &at)?;
                (Some(if self.include_self { gx } else { cleared(&gx)? }), Some(fit(gs)?))
            }
        };
        Ok(smallvec![gx, None, gs])
    }
    fn saves(&self, _: u64) -> Saves {
        match self.kind {
            ScatterKind::Set | ScatterKind::Add => Saves::inputs(0b010),
            ScatterKind::Mean => Saves::inputs(0b110),
            _ => Saves::both(0b111, 1),
        }
    }
}

impl Scatter {
    /// Divides by how many values met at each element.
    fn lower_mean(&self, f: &mut Func, sum: &Value, at: &Value, src: &[usize]) -> Value {
        let e = sum.element();
        let ints = Type::new(sum.shape(), ElementType::S32);
        let count = f.splat_i64(i64::from(self.include_self), &ints);
        let ones = f.splat_i64(1, &Type::new(src, ElementType::S32));
        let count = f.put_along(&count, at, &ones, self.dim, Join::Add);
        let one = f.splat_i64(1, &ints);
        let count = f.binary("stablehlo.maximum", &count, &one);
        if e.is_float() || e.is_complex() {
            let count = f.convert(&count, e);
            return f.binary("stablehlo.divide", sum, &count);
        }
        // Integers round down, and a narrow type may not hold the count.
        let wide = f.convert(sum, ElementType::S64);
        let count = f.convert(&count, ElementType::S64);
        let (q, r) = (f.binary("stablehlo.divide", &wide, &count), f.binary("stablehlo.remainder", &wide, &count));
        let zero = f.splat_i64(0, wide.ty());
        let negative = f.compare(Direction::Lt, &r, &zero);
        let step = f.convert(&negative, ElementType::S64);
        let q = f.binary("stablehlo.subtract", &q, &step);
        f.convert(&q, e)
    }

    /// Gradients of the reducing kinds, before the old values that do not count are cleared.
    fn reduce_vjp(
        &self,
        s: &Saved<'_>,
        g: &Tensor,
        at: &dyn Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let (index, src) = (s.x(1), s.x(2).expand_dims(s.x(1).dims())?);
        let scatter = |x: &Tensor, kind: ScatterKind, src: &Tensor, include_self: bool| {
            dispatch::call(Prim::Scatter(Scatter { dim: self.dim, kind, include_self }), &[x, index, src])
        };
        let one = Tensor::number(Scalar::Float(1.0), g.dtype())?;
        let zero = Tensor::number(Scalar::Float(0.0), g.dtype())?;
        match self.kind {
            ScatterKind::Mean => {
                let counts = s.meta(0).with_dtype(g.dtype().to_real());
                let start = Tensor::full_meta(&counts, Scalar::Float(f64::from(u8::from(self.include_self))))?;
                let one = Tensor::number(Scalar::Float(1.0), counts.dtype)?;
                let count = scatter(&start, ScatterKind::Add, &one, true)?.maximum_scalar(1.0)?;
                let g = g.div(&count)?;
                Ok((g.clone(), at(&g)?))
            }
            ScatterKind::Mul => {
                let (x, y, src) = (&s.x(0).conj()?, &s.y(0).conj()?, src.conj()?);
                // Of x: the product of everything else, with a zero of its own taken out.
                let x1 = pointwise::select(&x.eq_scalar(0.0)?, &one, x)?;
                let others = scatter(&x1, ScatterKind::Mul, &src, self.include_self)?;
                let gx = g.mul(&others)?.div(&x1)?;
                // Of src: an element that is the only zero meeting there gets the product of the rest.
                let is_zero = src.eq_scalar(0.0)?;
                let zeros = scatter(&zeros_like(s.meta(0))?, ScatterKind::Add, &is_zero.to_dtype(g.dtype())?, true)?;
                let only = is_zero.logical_and(&at(&zeros)?.eq_scalar(1.0)?)?;
                let rest = scatter(x, ScatterKind::Mul, &pointwise::select(&only, &one, &src)?, self.include_self)?;
                let plain = at(&g.mul(y)?)?.div(&pointwise::select(&is_zero, &one, &src)?)?;
                Ok((gx, pointwise::select(&only, &at(&g.mul(&rest)?)?, &plain)?))
            }
            _ => {
                // Ties share the gradient evenly.
                let (x, y) = (s.x(0), s.y(0));
                let is_x = x.eq(y)?.to_dtype(g.dtype())?;
                let is_src = src.eq(&at(y)?)?.to_dtype(g.dtype())?;
                let start =
                    if self.include_self { is_x.clone() } else { scatter(&is_x, ScatterKind::Set, &zero, true)? };
                let count = scatter(&start, ScatterKind::Add, &is_src, true)?.maximum_scalar(1.0)?;
                let share = g.div(&count)?;
                // Where nothing arrived the element itself is the result.
                Ok((is_x.mul(&share)?, is_src.mul(&at(&share)?)?))
            }
        }
    }
}

// ------------------------------------------------------------------------------------------------ rows along a dimension

/// Rows of `x` along `dim` in the order of a list.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[a.., n, b..]` | any |
/// | index | `[m]` | `int64` or `int32` |
/// | y | `[a.., m, b..]` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexSelect {
    /// Which dimension.
    pub dim: usize,
}

impl Op for IndexSelect {
    const NAME: &'static str = "index_select";
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        check_index_dtype("index_select", x[1])?;
        if x[1].dims().len() != 1 {
            return Err(Error::index("index_select(): Index is supposed to be a vector"));
        }
        let mut dims = *x[0].dims();
        dims[self.dim] = x[1].dims()[0];
        Ok(Meta { dims, dtype: x[0].dtype(), device: same_device(x)? })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::index_select(&x[0].view(), self.dim, &x[1].view(), &mut y[0].view_mut()).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let at = lower_positions(f, &x[1], x[0].shape()[self.dim], false);
        smallvec![f.take(&x[0], &at, self.dim)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let op = IndexAdd { dim: self.dim, accumulate: true };
        Ok(smallvec![Some(dispatch::call(Prim::IndexAdd(op), &[&zeros_like(s.meta(0))?, s.x(1), g])?), None])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b10)
    }
}

/// `y = x`, but rows along `dim` added to, or replaced by, those of `src`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[a.., n, b..]` | any |
/// | index | `[m]` | `int64` or `int32` |
/// | src | `[a.., m, b..]`, or no dimensions: one number for all | that of `x` |
/// | y | that of `x` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexAdd {
    /// Which dimension.
    pub dim: usize,
    /// Adds; else replaces.
    pub accumulate: bool,
}

impl Op for IndexAdd {
    const NAME: &'static str = "index_add";
    fn label(&self) -> &'static str {
        if self.accumulate { "index_add" } else { "index_copy" }
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let name = self.label();
        check_index_dtype(name, x[1])?;
        if x[1].dims().len() != 1 {
            return Err(Error::index(format!(
                "{name}_(): Index is supposed to be a vector, but got dim: {}",
                x[1].dims().len()
            )));
        }
        if x[0].dtype() != x[2].dtype() {
            return Err(Error::runtime(format!(
                "{name}_(): self ({}) and source ({}) must have the same scalar type",
                x[0].dtype().scalar_type(),
                x[2].dtype().scalar_type()
            )));
        }
        let mut dims = *x[0].dims();
        dims[self.dim] = x[1].dims()[0];
        if !x[2].dims().is_empty() && *x[2].dims() != dims {
            return Err(Error::runtime(format!(
                "{name}_(): source shape {} must match self shape {} except along dimension {}, where it has as many elements as index ({})",
                x[2].dims(),
                x[0].dims(),
                self.dim,
                x[1].dims()[0]
            )));
        }
        Ok(Meta { device: same_device(x)?, ..*x[0].meta() })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        copy_of(x[0], &y[0]);
        let mut dims = *x[0].dims();
        dims[self.dim] = x[1].dims()[0];
        let strides = broadcast_strides(x[2], &dims);
        let (index, src, out) = (x[1].view(), x[2].view_as(&dims, &strides), &mut y[0].view_mut());
        if self.accumulate {
            kernels::index_add(out, self.dim, &index, &src, 1.0)
        } else {
            kernels::index_copy(out, self.dim, &index, &src)
        }
        .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let mut dims = x[0].shape().to_vec();
        if dims.contains(&0) || x[1].shape()[0] == 0 {
            return smallvec![x[0].clone()];
        }
        dims[self.dim] = x[1].shape()[0];
        let at = lower_positions(f, &x[1], x[0].shape()[self.dim], false);
        let src = f.broadcast_to(&x[2], &dims);
        smallvec![f.put(&x[0], &at, &src, self.dim, if self.accumulate { Join::Add } else { Join::Set })]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let gx = if !s.needs(0) {
            None
        } else if self.accumulate {
            Some(g.clone())
        } else {
            Some(dispatch::call(Prim::IndexAdd(*self), &[g, s.x(1), &Tensor::number(Scalar::Float(0.0), g.dtype())?])?)
        };
        let gs = if s.needs(2) {
            Some(if s.meta(2).dims.is_empty() && !self.accumulate && !s.meta(0).dims.is_empty() {
                // One value for all rows: a row that is named twice counts once.
                let (zero, one) =
                    (Tensor::number(Scalar::Float(0.0), g.dtype())?, Tensor::number(Scalar::Float(1.0), g.dtype())?);
                let rows = Tensor::zeros_like_meta(&g.meta().with_dims(Dims::new(&[s.meta(0).dims[self.dim]])))?;
                let rows =
                    dispatch::call(Prim::IndexAdd(IndexAdd { dim: 0, accumulate: false }), &[&rows, s.x(1), &one])?;
                let mut along = Dims::filled(1, g.dims().len());
                along[self.dim] = rows.numel();
                let named = rows.reshape_dims(along)?.ne(&zero)?;
                pointwise::select(&named, g, &Tensor::zeros_like_meta(g.meta())?)?.sum_to(&Dims::EMPTY)?
            } else {
                let taken = dispatch::call(Prim::IndexSelect(IndexSelect { dim: self.dim }), &[g, s.x(1)])?;
                if s.meta(2).dims.is_empty() { taken.sum_to(&Dims::EMPTY)? } else { taken }
            })
        } else {
            None
        };
        Ok(smallvec![gx, None, gs])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b010)
    }
}

// ------------------------------------------------------------------------------------------------ advanced indexing

/// `y[p.., r..] = x[i0[p..], i1[p..], .., r..]`: advanced indexing of the leading dimensions.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n0, n1, .., r..]` | any |
/// | i0, i1, .. | `[p..]`, the same for all | `int64` or `int32`; negative ones count from the end |
/// | y | `[p.., r..]` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Index {
    /// The dimensions of the user's tensor that are indexed, for messages.
    pub dims: Dims,
}

/// Sizes of what `indices` reach in `x`.
fn reached(x: &Tensor, indices: &[&Tensor]) -> Result<Dims> {
    let dims: SmallVec<[usize; 16]> = indices[0].dims().iter().chain(&x.dims()[indices.len()..]).copied().collect();
    Dims::try_new(&dims)
}

/// One index vector for each point: the indices side by side in a last dimension.
fn lower_points(f: &mut Func, indices: &[Value], sizes: &[usize]) -> Value {
    let wide = sizes[..indices.len()].iter().any(|&n| i32::try_from(n).is_err());
    let e = if wide { ElementType::S64 } else { ElementType::S32 };
    let mut column = indices[0].shape().to_vec();
    column.push(1);
    let columns: Vec<Value> = indices
        .iter()
        .zip(sizes)
        .map(|(i, &n)| {
            let at = lower_positions(f, i, n, true);
            let at = f.convert(&at, e);
            f.reshape(&at, &column)
        })
        .collect();
    f.concatenate(&columns, column.len() - 1)
}

impl Op for Index {
    const NAME: &'static str = "index";
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(Meta { dims: reached(x[0], &x[1..])?, dtype: x[0].dtype(), device: same_device(x)? })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let indices: SmallVec<[_; 4]> = x[1..].iter().map(|i| i.view()).collect();
        kernels::index(&x[0].view(), &indices, &self.dims, &mut y[0].view_mut()).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let k = x.len() - 1;
        if y[0].numel() == 0 {
            return smallvec![f.splat(0.0, &y[0].ty())];
        }
        let at = lower_points(f, &x[1..], x[0].shape());
        let points = x[1].rank();
        let mut sizes = x[0].shape().to_vec();
        sizes[..k].fill(1);
        let dims = GatherDims {
            offset_dims: (points..y[0].dims.len()).collect(),
            collapsed_slice_dims: (0..k).collect(),
            start_index_map: (0..k).collect(),
            index_vector_dim: points,
            ..GatherDims::default()
        };
        smallvec![f.gather(&x[0], &at, &dims, &sizes, false)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let zeros = zeros_like(s.meta(0))?;
        let mut operands: SmallVec<[&Tensor; 6]> = smallvec![&zeros, g];
        operands.extend((1..s.len()).map(|i| s.x(i)));
        let mut grads: Grads = smallvec![None; s.len()];
        grads[0] = Some(dispatch::call(Prim::IndexPut(IndexPut { dims: self.dims, accumulate: true }), &operands)?);
        Ok(grads)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(u64::MAX - 1)
    }
}

/// `y = x`, but `y[i0[p..], i1[p..], .., r..]` replaced by, or added to, `values[p.., r..]`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n0, n1, .., r..]` | any |
/// | values | broadcasts to `[p.., r..]` | that of `x` |
/// | i0, i1, .. | `[p..]`, the same for all | `int64` or `int32`; negative ones count from the end |
/// | y | that of `x` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexPut {
    /// The dimensions of the user's tensor that are indexed, for messages.
    pub dims: Dims,
    /// Adds; else replaces, and of several arrivals at an element the last wins on `cpu`, any on a device.
    pub accumulate: bool,
}

impl Op for IndexPut {
    const NAME: &'static str = "index_put";
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        if x[0].dtype() != x[1].dtype() {
            return Err(Error::runtime(format!(
                "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
                x[0].dtype().scalar_type(),
                x[1].dtype().scalar_type()
            )));
        }
        let to = reached(x[0], &x[2..])?;
        let v = x[1].dims();
        let fits =
            v.len() <= to.len() && (1..=v.len()).all(|i| v[v.len() - i] == 1 || v[v.len() - i] == to[to.len() - i]);
        if !fits {
            return Err(Error::runtime(format!(
                "shape mismatch: value tensor of shape {v} cannot be broadcast to indexing result of shape {to}"
            )));
        }
        Ok(Meta { device: same_device(x)?, ..*x[0].meta() })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        copy_of(x[0], &y[0]);
        let to = reached(x[0], &x[2..])?;
        let strides = broadcast_strides(x[1], &to);
        let indices: SmallVec<[_; 4]> = x[2..].iter().map(|i| i.view()).collect();
        kernels::index_put(&mut y[0].view_mut(), &indices, &self.dims, &x[1].view_as(&to, &strides), self.accumulate)
            .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let k = x.len() - 2;
        let to = [x[2].shape(), &x[0].shape()[k..]].concat();
        if to.contains(&0) || x[0].ty().numel() == 0 {
            return smallvec![x[0].clone()];
        }
        let at = lower_points(f, &x[2..], x[0].shape());
        let values = f.broadcast_to(&x[1], &to);
        let points = x[2].rank();
        let dims = ScatterDims {
            update_window_dims: (points..to.len()).collect(),
            inserted_window_dims: (0..k).collect(),
            scatter_dims_to_operand_dims: (0..k).collect(),
            index_vector_dim: points,
            ..ScatterDims::default()
        };
        smallvec![f.scatter(&x[0], &at, &values, &dims, if self.accumulate { Join::Add } else { Join::Set })]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let indices: SmallVec<[&Tensor; 6]> = (2..s.len()).map(|i| s.x(i)).collect();
        let mut grads: Grads = smallvec![None; s.len()];
        if s.needs(0) {
            grads[0] = Some(if self.accumulate {
                g.clone()
            } else {
                let zero = Tensor::number(Scalar::Float(0.0), g.dtype())?;
                let mut operands: SmallVec<[&Tensor; 6]> = smallvec![g, &zero];
                operands.extend(indices.iter().copied());
                dispatch::call(Prim::IndexPut(*self), &operands)?
            });
        }
        if s.needs(1) {
            let mut operands: SmallVec<[&Tensor; 6]> = smallvec![g];
            operands.extend(indices);
            grads[1] =
                Some(dispatch::call(Prim::Index(Index { dims: self.dims }), &operands)?.sum_to(&s.meta(1).dims)?);
        }
        Ok(grads)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(u64::MAX - 3)
    }
}

// ------------------------------------------------------------------------------------------------ functions along a dimension

/// A tensor without dimensions is indexed like one of one element.
fn at_least_1d(x: &Tensor) -> Result<Tensor> {
    if x.dims().is_empty() { x.view_dims(Dims::new(&[1])) } else { Ok(x.clone()) }
}

/// `torch.gather`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn gather(x: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    if index.numel() == 0 {
        // Of any dtype, as in PyTorch; a slice without elements keeps the history.
        return x.reshape(&[-1])?.narrow(0, 0, 0)?.reshape_dims(*index.dims());
    }
    let (x1, i1) = (at_least_1d(x)?, at_least_1d(index)?);
    let size = x1.dims()[dim];
    let y = dispatch::call(Prim::Gather(Gather { dim }), &[&x1, &i1])?;
    guard(index, 0, size, move |i| unplaced_on_device(i, dim, size).in_op("gather"))?;
    y.reshape_dims(*index.dims())
}

fn scatter_kind(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    kind: ScatterKind,
    include_self: bool,
) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    let op = Scatter { dim, kind, include_self };
    if index.numel() == 0 {
        check_index_dtype(op.label(), index)?;
        return x.copy();
    }
    let (x1, i1) = (at_least_1d(x)?, at_least_1d(index)?);
    // Only the part of the source that the index has is looked at.
    let mut s1 =
        if src.dims().is_empty() && !index.dims().is_empty() && src.device() == x.device() && src.requires_grad() {
            at_least_1d(src)?
        } else {
            src.clone()
        };
    if !s1.dims().is_empty() {
        if s1.dims().len() != i1.dims().len() || (0..i1.dims().len()).any(|d| i1.dims()[d] > s1.dims()[d]) {
            return Err(Error::runtime(format!(
                "Expected index {} to be no larger than self {} apart from dimension {dim} and to be no larger size than src {}",
                i1.dims(),
                x1.dims(),
                s1.dims()
            ))
            .in_op(op.label()));
        }
        for d in 0..i1.dims().len() {
            if s1.dims()[d] != i1.dims()[d] {
                s1 = s1.narrow(d as i64, 0, i1.dims()[d] as i64)?;
            }
        }
    }
    let size = x1.dims()[dim];
    let y = dispatch::call(Prim::Scatter(op), &[&x1, &i1, &s1])?;
    let label = op.label();
    guard(index, 0, size, move |i| unplaced_on_device(i, dim, size).in_op(label))?;
    y.reshape_dims(*x.dims())
}

/// `torch.scatter`: writes `src` at the positions of `index` along `dim`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn scatter(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_kind(x, dim, index, src, ScatterKind::Set, true)
}

/// `torch.scatter_add`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn scatter_add(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_kind(x, dim, index, src, ScatterKind::Add, true)
}

/// `torch.scatter_reduce`; `reduce` is `sum`, `prod`, `mean`, `amax` or `amin`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes, dtypes and names that do not fit.
pub fn scatter_reduce(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let kind = match reduce {
        "sum" => ScatterKind::Add,
        "prod" => ScatterKind::Mul,
        "mean" => ScatterKind::Mean,
        "amax" => ScatterKind::Max,
        "amin" => ScatterKind::Min,
        _ => {
            return Err(Error::runtime(format!(
                "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}."
            )));
        }
    };
    scatter_kind(x, dim, index, src, kind, include_self)
}

/// `torch.scatter` with its older `reduce` argument, `add` or `multiply`.
fn scatter_old(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<Tensor> {
    let kind = match reduce {
        "add" => ScatterKind::Add,
        "multiply" => ScatterKind::Mul,
        _ => return Err(Error::runtime("reduce argument must be either add or multiply.")),
    };
    scatter_kind(x, dim, index, src, kind, true)
}

/// A list of positions, which may come as a number.
fn index_list(op: &str, index: &Tensor) -> Result<Tensor> {
    match index.dims().len() {
        0 => index.view_dims(Dims::new(&[1])),
        1 => Ok(index.clone()),
        _ if op == "index_select" => Err(Error::index("index_select(): Index is supposed to be a vector")),
        r => Err(Error::index(format!("{op}_(): Index should have dimension 1 or 0 (got {r})"))),
    }
}

/// `torch.index_select`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for dtypes that do not fit.
pub fn index_select(x: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    let (x1, i1) = (at_least_1d(x)?, index_list("index_select", index)?);
    let y = dispatch::call(Prim::IndexSelect(IndexSelect { dim }), &[&x1, &i1])?;
    let size = x1.dims()[dim];
    guard(&i1, 0, size, move |i| out_of_range_in_self(i, size).in_op("index_select"))?;
    if x.dims().is_empty() && y.numel() == 1 { y.view_dims(Dims::EMPTY) } else { Ok(y) }
}

fn index_rows(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor, accumulate: bool) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    let op = IndexAdd { dim, accumulate };
    let (x1, i1) = (at_least_1d(x)?, index_list(op.label(), index)?);
    // A source without dimensions is one row of a tensor that has one dimension.
    let s1 =
        if src.dims().is_empty() && i1.numel() == 1 && x1.dims().len() == 1 { at_least_1d(src)? } else { src.clone() };
    if s1.dims().is_empty() {
        return Err(Error::runtime(format!(
            "{}_(): source must have the dimensions of self, but has none",
            op.label()
        )));
    }
    let y = dispatch::call(Prim::IndexAdd(op), &[&x1, &i1, &s1])?;
    let size = x1.dims()[dim];
    guard(&i1, 0, size, move |i| {
        if accumulate {
            out_of_range_in_self(i, size).in_op("index_add")
        } else {
            Error::index(format!("index_copy_(): index {i} is out of bounds for dimension {dim} with size {size}"))
                .in_op("index_copy")
        }
    })?;
    y.reshape_dims(*x.dims())
}

/// `torch.index_add`: adds the rows of `src` to rows of `x`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn index_add(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    index_rows(x, dim, index, src, true)
}

/// `torch.index_copy`: replaces rows of `x` by those of `src`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn index_copy(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    index_rows(x, dim, index, src, false)
}

/// `torch.index_fill`: writes one value into rows of `x`. Negative indices count from the end.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for dtypes that do not fit.
pub fn index_fill(x: &Tensor, dim: i64, index: &Tensor, value: Operand<'_>) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    if index.dtype() != DType::I64 && index.dtype() != DType::I32 {
        return Err(Error::index("index_fill_(): Expected dtype int64 for index."));
    }
    let (x1, i1) = (at_least_1d(x)?, index_list("index_fill", index)?);
    let size = x1.dims()[dim];
    guard(&i1, -(size as i64), size, move |i| out_of_bounds(i, dim, size).in_op("index_fill"))?;
    let wrapped = pointwise::select(&i1.lt_scalar(0)?, &i1.add_scalar(size as i64)?, &i1)?;
    let value = fill_value("index_fill_", x, value)?;
    dispatch::call(Prim::IndexAdd(IndexAdd { dim, accumulate: false }), &[&x1, &wrapped, &value])?
        .reshape_dims(*x.dims())
}

/// The number that a fill writes, in the dtype of what it is written into.
fn fill_value(op: &str, x: &Tensor, value: Operand<'_>) -> Result<Tensor> {
    match value {
        Operand::Scalar(s) => {
            if let Scalar::Float(v) = s
                && x.dtype().is_int()
                && (v.fract() != 0.0 || !v.is_finite())
            {
                return Err(Error::runtime(format!(
                    "value cannot be converted to type {} without overflow",
                    if x.dtype() == DType::I64 { "int64_t" } else { x.dtype().name() }
                )));
            }
            Tensor::number(s, x.dtype())
        }
        Operand::Tensor(v) if v.dims().is_empty() => v.to_dtype(x.dtype()),
        Operand::Tensor(v) => Err(Error::runtime(format!(
            "{op} only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            v.dims().len()
        ))),
    }
}

/// `torch.take_along_dim`: [`gather`] with broadcasting; without a dimension, of the flattened tensor.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn take_along_dim(x: &Tensor, index: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let Some(dim) = dim else { return gather(&x.reshape(&[-1])?, 0, &index.reshape(&[-1])?) };
    if x.dims().len() != index.dims().len() {
        return Err(Error::runtime(format!(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for input, and {} dimensions for indices",
            x.dims().len(),
            index.dims().len()
        )));
    }
    if index.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "torch.take_along_dim(): dtype of indices should be Long but got {}",
            index.dtype().scalar_type()
        )));
    }
    let d = normalize_dim(dim, x.dims().len())?;
    let without = |t: &Tensor| {
        let mut dims = *t.dims();
        if let Some(n) = dims.get_mut(d) {
            *n = 1;
        }
        dims
    };
    let mut both = crate::op::broadcast_dims(&without(x), &without(index))?;
    if both.is_empty() {
        return gather(x, dim, index);
    }
    both[d] = x.dims()[d];
    let x = x.expand_dims(&both)?;
    both[d] = index.dims()[d];
    gather(&x, dim, &index.expand_dims(&both)?)
}

/// `torch.take`: elements of the flattened tensor. Negative indices count from the end.
///
/// # Errors
/// `Index` for an index out of range or an empty tensor, `Runtime` for a wrong dtype.
pub fn take(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    if index.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "take(): Expected a long tensor for index, but got {}",
            index.dtype().scalar_type()
        )));
    }
    if x.numel() == 0 && index.numel() > 0 {
        return Err(Error::index("take(): tried to take from an empty tensor"));
    }
    index_flat(&x.reshape(&[-1])?, index).map_err(|e| flat_error(e, x.numel()))
}

/// Advanced indexing of a one-dimensional tensor.
fn index_flat(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    let size = x.numel();
    let y = dispatch::call(Prim::Index(Index { dims: Dims::new(&[0]) }), &[x, index])?;
    guard(index, -(size as i64), size, move |i| flat_error(out_of_bounds(i, 0, size), size).in_op("take"))?;
    Ok(y)
}

/// The message of `take` and `put`, which speak of elements.
fn flat_error(e: Error, size: usize) -> Error {
    if e.kind() != ErrorKind::Index {
        return e;
    }
    let number = e.message().split(' ').nth(1).filter(|w| w.parse::<i64>().is_ok());
    Error::index(match number {
        Some(i) => format!("out of range: tried to access index {i} on a tensor of {size} elements."),
        None => format!("out of range: tried to access an index on a tensor of {size} elements."),
    })
}

/// `torch.put`: writes elements of the flattened tensor. Negative indices count from the end.
///
/// # Errors
/// `Index` for an index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn put(x: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    if index.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "put_(): Expected a long tensor for index, but got {}",
            index.dtype().scalar_type()
        )));
    }
    if x.dtype() != source.dtype() {
        return Err(Error::runtime(format!(
            "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
            x.dtype().scalar_type(),
            source.dtype().scalar_type()
        )));
    }
    if index.numel() != source.numel() {
        return Err(Error::runtime(format!(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
            source.numel(),
            index.numel()
        )));
    }
    let size = x.numel();
    if size == 0 && index.numel() > 0 {
        return Err(Error::index("put_(): Tried to put elements into an empty tensor"));
    }
    let op = IndexPut { dims: Dims::new(&[0]), accumulate };
    let (flat, at, src) = (x.reshape(&[-1])?, index.reshape(&[-1])?, source.reshape(&[-1])?);
    let y = dispatch::call(Prim::IndexPut(op), &[&flat, &src, &at]).map_err(|e| flat_error(e, size))?;
    guard(index, -(size as i64), size, move |i| flat_error(out_of_bounds(i, 0, size), size).in_op("put"))?;
    y.reshape_dims(*x.dims())
}

// ------------------------------------------------------------------------------------------------ indexing expressions

/// Replaces masks by the positions of their ones, and brings integers to the device of `x`.
fn positions_of(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut all: Vec<Option<Tensor>> = Vec::with_capacity(indices.len());
    for (i, index) in indices.iter().enumerate() {
        let Some(index) = index else {
            all.push(None);
            continue;
        };
        match index.dtype() {
            DType::Bool | DType::U8 => {
                let start = all.len();
                for d in 0..index.dims().len() {
                    if x.dims().get(start + d) != Some(&index.dims()[d]) {
                        return Err(mask_mismatch(x, index, i, start, d));
                    }
                }
                let found = nonzero(index)?;
                let found = to_device(&found, x.device())?;
                if index.dims().is_empty() {
                    return Err(Error::not_implemented("indexing with a 0-dimensional mask is not supported")
                        .note("use x.unsqueeze(0)[mask.unsqueeze(0)]"));
                }
                for d in 0..index.dims().len() {
                    all.push(Some(found.select(1, d as i64)?));
                }
            }
            DType::I64 | DType::I32 => {
                if index.device() != x.device() && index.device().kind != DeviceKind::Cpu {
                    return Err(Error::runtime(format!(
                        "indices should be either on cpu or on the same device as the indexed tensor ({})",
                        x.device()
                    )));
                }
                all.push(Some(to_device(index, x.device())?));
            }
            _ => return Err(Error::index("tensors used as indices must be long, int, byte or bool tensors")),
        }
    }
    if all.len() > x.dims().len() {
        return Err(Error::index(format!(
            "too many indices for tensor of dimension {} (got {})",
            x.dims().len(),
            all.len()
        )));
    }
    Ok(all)
}

fn mask_mismatch(x: &Tensor, mask: &Tensor, i: usize, start: usize, d: usize) -> Error {
    if start + d >= x.dims().len() {
        return Error::index(format!(
            "too many indices for tensor of dimension {} (got {})",
            x.dims().len(),
            start + mask.dims().len()
        ));
    }
    Error::index(format!(
        "The shape of the mask {} at index {} does not match the shape of the indexed tensor {} at index {}",
        mask.dims(),
        d,
        x.dims(),
        i.max(start) + d
    ))
}

fn to_device(x: &Tensor, device: Device) -> Result<Tensor> {
    if x.device() == device { Ok(x.clone()) } else { x.to_device(device) }
}

/// An indexing expression made ready: indexed dimensions in front, indices of one shape.
struct Plan {
    /// The indexed dimensions, ascending.
    dims: Dims,
    /// Order that brings them to the front.
    order: Vec<i64>,
    /// Indices, broadcast.
    indices: Vec<Tensor>,
    /// Dimensions of the result that come before the indices'.
    before: usize,
}

impl Plan {
    fn new(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Plan> {
        let all = positions_of(x, indices)?;
        let indexed: Vec<usize> = all.iter().enumerate().filter(|(_, i)| i.is_some()).map(|(d, _)| d).collect();
        let given: Vec<&Tensor> = all.iter().flatten().collect();
        let mut points = Dims::EMPTY;
        for i in &given {
            points = crate::op::broadcast_dims(&points, i.dims()).map_err(|_| {
                let shapes: Vec<String> = given.iter().map(|i| i.dims().to_string()).collect();
                Error::index(format!(
                    "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                    shapes.join(", ")
                ))
            })?;
        }
        let numel = points.numel();
        for &d in &indexed {
            if x.dims()[d] == 0 && numel > 0 {
                return Err(Error::index("index is out of bounds for dimension with size 0".to_string()));
            }
        }
        let adjacent = indexed.windows(2).all(|w| w[1] == w[0] + 1);
        let order = indexed.iter().copied().chain((0..x.dims().len()).filter(|d| !indexed.contains(d)));
        Ok(Plan {
            order: order.map(|d| d as i64).collect(),
            before: if adjacent { indexed.first().copied().unwrap_or(0) } else { 0 },
            dims: indexed.iter().copied().collect(),
            indices: given.iter().map(|i| i.expand_dims(&points)).collect::<Result<_>>()?,
        })
    }
    fn is_trivial(&self) -> bool {
        self.order.iter().enumerate().all(|(i, &d)| i as i64 == d)
    }
    fn front(&self, x: &Tensor) -> Result<Tensor> {
        if self.is_trivial() { Ok(x.clone()) } else { x.permute(&self.order) }
    }
    fn back(&self, x: &Tensor) -> Result<Tensor> {
        if self.is_trivial() {
            return Ok(x.clone());
        }
        let mut inverse = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(i, &d)| inverse[d as usize] = i as i64);
        x.permute(&inverse)
    }
    fn points(&self) -> usize {
        self.indices.first().map_or(0, |i| i.dims().len())
    }
    /// Arranges for errors on a device.
    fn guard(&self, x: &Tensor, op: &'static str) -> Result<()> {
        for (i, &d) in self.indices.iter().zip(&self.dims) {
            let size = x.dims()[d];
            guard(i, -(size as i64), size, move |i| out_of_bounds(i, d, size).in_op(op))?;
        }
        Ok(())
    }
}

/// `x[i0, i1, ..]` with tensors: integers (negative ones count from the end) and masks; `None` takes all of a dimension.
///
/// Dimensions of the indices come where the indexed ones were if those are adjacent, else in front, as in NumPy.
///
/// # Errors
/// `Index` for indices that do not fit or are out of range.
pub fn index(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let plan = Plan::new(x, indices)?;
    if plan.indices.is_empty() {
        return x.view_dims(*x.dims());
    }
    let front = plan.front(x)?;
    let mut operands: SmallVec<[&Tensor; 6]> = smallvec![&front];
    operands.extend(plan.indices.iter());
    let y = dispatch::call(Prim::Index(Index { dims: plan.dims }), &operands)?;
    plan.guard(x, "index")?;
    if plan.before == 0 {
        return Ok(y);
    }
    // [points.., before.., after..] to [before.., points.., after..]
    let (p, b) = (plan.points(), plan.before);
    let order: Vec<i64> = (p..p + b).chain(0..p).chain(p + b..y.dims().len()).map(|d| d as i64).collect();
    y.permute(&order)
}

/// `x` with `x[i0, i1, ..]` replaced by `values`, or with `values` added there.
///
/// # Errors
/// `Index` for indices that do not fit or are out of range, `Runtime` for values that do not.
pub fn index_put(x: &Tensor, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<Tensor> {
    let values = if values.dims().is_empty() && values.device().kind == DeviceKind::Cpu {
        values.clone()
    } else {
        to_device(values, x.device())?
    };
    if x.dtype() != values.dtype() {
        return Err(Error::runtime(format!(
            "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
            x.dtype().scalar_type(),
            values.dtype().scalar_type()
        )));
    }
    if let Some(y) = put_by_mask(x, indices, &values, accumulate)? {
        return Ok(y);
    }
    let plan = Plan::new(x, indices)?;
    if plan.indices.is_empty() {
        let v = values.expand_dims(x.dims())?;
        return if accumulate { x.add(&v) } else { v.copy() };
    }
    let front = plan.front(x)?;
    // The values come in the order of the result of indexing.
    let (p, b) = (plan.points(), plan.before);
    let values = if b == 0 {
        values
    } else {
        let rest = &front.dims()[plan.indices.len()..];
        let to: Vec<usize> = rest[..b].iter().chain(plan.indices[0].dims().iter()).chain(&rest[b..]).copied().collect();
        let to = Dims::try_new(&to)?;
        check_expands(&values, &to)?;
        let order: Vec<i64> = (b..b + p).chain(0..b).chain(b + p..to.len()).map(|d| d as i64).collect();
        if values.dims().is_empty() { values } else { values.expand_dims(&to)?.permute(&order)? }
    };
    let mut operands: SmallVec<[&Tensor; 6]> = smallvec![&front, &values];
    operands.extend(plan.indices.iter());
    let y = dispatch::call(Prim::IndexPut(IndexPut { dims: plan.dims, accumulate }), &operands)?;
    plan.guard(x, "index_put")?;
    plan.back(&y)
}

fn check_expands(values: &Tensor, to: &Dims) -> Result<()> {
    let v = values.dims();
    if v.len() <= to.len() && (1..=v.len()).all(|i| v[v.len() - i] == 1 || v[v.len() - i] == to[to.len() - i]) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "shape mismatch: value tensor of shape {v} cannot be broadcast to indexing result of shape {to}"
    )))
}

/// `x[mask] = v` where `v` is the same for every one of the mask: a choice, with no positions and so nothing read by the
/// host. `None` when the expression is not of this kind.
fn put_by_mask(x: &Tensor, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<Option<Tensor>> {
    let mut given = indices.iter().enumerate().filter_map(|(d, i)| i.as_ref().map(|i| (d, i)));
    let (Some((at, mask)), None) = (given.next(), given.next()) else { return Ok(None) };
    let r = mask.dims().len();
    let covers = matches!(mask.dtype(), DType::Bool | DType::U8)
        && at + r <= x.dims().len()
        && mask.dims()[..] == x.dims()[at..at + r];
    if !covers {
        return Ok(None);
    }
    let rest = x.dims().len() - at - r;
    let mut dims = *values.dims();
    if dims.len() > rest {
        let i = dims.len() - 1 - rest;
        if dims[i] != 1 || dims.len() + r > crate::dims::MAX_DIMS + 1 {
            return Ok(None);
        }
        dims.remove(i);
        (0..r).for_each(|_| dims.insert(i, 1));
    }
    if dims.len() > x.dims().len()
        || (1..=dims.len()).any(|i| dims[dims.len() - i] != 1 && dims[dims.len() - i] != x.dims()[x.dims().len() - i])
    {
        return Ok(None);
    }
    let values = values.reshape_dims(dims)?;
    let mut mask_dims = *mask.dims();
    (0..rest).for_each(|_| mask_dims.push(1));
    let mask = to_device(mask, x.device())?.to_dtype(DType::Bool)?.reshape_dims(mask_dims)?;
    if !accumulate {
        return pointwise::select(&mask, &values, x).map(Some);
    }
    let zero = Tensor::number(Scalar::Int(0), x.dtype())?;
    x.add(&pointwise::select(&mask, &values, &zero)?).map(Some)
}

// ------------------------------------------------------------------------------------------------ masks

fn check_mask(op: &str, mask: &Tensor) -> Result<()> {
    if mask.dtype() == DType::Bool {
        return Ok(());
    }
    Err(Error::runtime(format!("{op} only supports boolean masks, but got mask with dtype {}", mask.dtype().name())))
}

/// `torch.masked_fill`: a number where the mask is true.
///
/// # Errors
/// `Runtime` for a mask that is not `bool`, or a value with dimensions.
pub fn masked_fill(x: &Tensor, mask: &Tensor, value: Operand<'_>) -> Result<Tensor> {
    check_mask("masked_fill_", mask)?;
    let value = match value {
        Operand::Tensor(v) if !v.dims().is_empty() => {
            return Err(Error::runtime(format!(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                v.dims().len()
            )));
        }
        v => fill_value("masked_fill_", x, v)?,
    };
    pointwise::select(mask, &value, x)
}

/// `torch.nonzero`: positions of the elements that are not zero, one a row. On a device the host reads the values.
///
/// # Errors
/// Whatever reading reports.
pub fn nonzero(x: &Tensor) -> Result<Tensor> {
    if x.device().kind == DeviceKind::Meta {
        return Err(Error::not_implemented("nonzero of a meta tensor: its number of rows depends on the values"));
    }
    let host = to_device(&x.detach(), Device::CPU)?;
    let found = kernels::count_nonzero(&host.view());
    let y = Tensor::empty(&Meta::new(&[found, x.dims().len()], DType::I64, Device::CPU))?;
    if y.numel() > 0 {
        kernels::nonzero(&host.view(), &mut y.view_mut());
    }
    to_device(&y, x.device())
}

/// `torch.masked_select`: the elements where the mask is true, in a line. On a device the host reads the mask.
///
/// # Errors
/// `Runtime` for a mask that is not `bool` or shapes that do not broadcast.
pub fn masked_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    if mask.dtype() != DType::Bool {
        return Err(Error::runtime("masked_select: expected BoolTensor for mask"));
    }
    let dims = crate::op::broadcast_dims(x.dims(), mask.dims())?;
    let (x, mask) = (x.expand_dims(&dims)?, mask.expand_dims(&dims)?);
    if x.device().kind == DeviceKind::Cpu && !crate::graph::may_need_grad(&[&x]) {
        let y = Tensor::empty(&x.meta().with_dims(Dims::new(&[kernels::count_nonzero(&mask.view())])))?;
        kernels::masked_select(&x.resolved()?.view(), &mask.view(), &mut y.view_mut());
        return Ok(y);
    }
    let at = nonzero(&mask.reshape(&[-1])?)?.select(1, 0)?;
    dispatch::call(Prim::IndexSelect(IndexSelect { dim: 0 }), &[&x.reshape(&[-1])?, &at])
}

/// `torch.masked_scatter`: the elements of `source`, in order, where the mask is true.
///
/// # Errors
/// `Runtime` for a mask that is not `bool`, dtypes that differ, or too few elements.
pub fn masked_scatter(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    if x.dtype() != source.dtype() {
        return Err(Error::runtime(format!(
            "masked_scatter: expected self and source to have same dtypes but got {} and {}",
            x.dtype().scalar_type(),
            source.dtype().scalar_type()
        )));
    }
    if mask.dtype() != DType::Bool {
        return Err(Error::runtime(format!(
            "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
            mask.dtype().scalar_type()
        )));
    }
    let dims = crate::op::broadcast_dims(x.dims(), mask.dims())?;
    let (x, mask) = (x.expand_dims(&dims)?, mask.expand_dims(&dims)?);
    if x.numel() == 0 {
        return Ok(x);
    }
    let too_few = || {
        Error::runtime(
            "masked_scatter: expected self and source to have the number of elements in source to be at least the number of ones in mask",
        )
    };
    let n = source.numel();
    let flat = mask.reshape(&[-1])?;
    match x.device().kind {
        DeviceKind::Cpu if kernels::count_nonzero(&mask.view()) > n => return Err(too_few()),
        DeviceKind::Tpu => state::no_grad(|| {
            let ones = super::reduce::reduce(super::reduce::ReduceKind::Sum, &flat, None, false)?;
            defer(&ones.gt_scalar(n as i64)?, too_few().in_op("masked_scatter"))
        })?,
        _ => {}
    }
    if n == 0 {
        return Ok(x);
    }
    // The number of ones up to an element, less one, is where its value stands in the source.
    let at = super::scan::cumsum(&flat, 0)?.sub_scalar(1)?.maximum_scalar(0)?.minimum_scalar(n as i64 - 1)?;
    let values = dispatch::call(Prim::IndexSelect(IndexSelect { dim: 0 }), &[&source.reshape(&[-1])?, &at])?;
    pointwise::select(&mask, &values.reshape_dims(dims)?, &x)
}

// ------------------------------------------------------------------------------------------------ triangles and diagonals

/// Rows and columns of a matrix as `[rows, 1]` and `[1, columns]`, to compare.
fn rows_and_columns(rows: usize, columns: usize, device: Device) -> Result<(Tensor, Tensor)> {
    Ok((
        count_up(rows, device)?.view_dims(Dims::new(&[rows, 1]))?,
        count_up(columns, device)?.view_dims(Dims::new(&[1, columns]))?,
    ))
}

fn triangle(x: &Tensor, diagonal: i64, lower: bool) -> Result<Tensor> {
    let r = x.dims().len();
    if r < 2 {
        return Err(Error::runtime(format!(
            "{}: input tensor must have at least 2 dimensions",
            if lower { "tril" } else { "triu" }
        )));
    }
    let (i, j) = rows_and_columns(x.dims()[r - 2], x.dims()[r - 1], x.device())?;
    let d = j.sub(&i)?;
    let keep = if lower { d.le_scalar(diagonal)? } else { d.ge_scalar(diagonal)? };
    pointwise::select(&keep, x, &Tensor::number(Scalar::Int(0), x.dtype())?)
}

/// `torch.tril`: zeros above a diagonal of each matrix.
///
/// # Errors
/// `Runtime` below two dimensions.
pub fn tril(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(x, diagonal, true)
}

/// `torch.triu`: zeros below a diagonal of each matrix.
///
/// # Errors
/// `Runtime` below two dimensions.
pub fn triu(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(x, diagonal, false)
}

/// Positions of a triangle's elements, row by row: known from the sizes alone.
fn triangle_indices(rows: i64, columns: i64, offset: i64, lower: bool, dtype: DType, device: Device) -> Result<Tensor> {
    if rows < 0 || columns < 0 {
        return Err(Error::runtime(format!(
            "{} must be non-negative, got {}",
            if rows < 0 { "row" } else { "col" },
            if rows < 0 { rows } else { columns }
        )));
    }
    let (mut i, mut j) = (Vec::new(), Vec::new());
    for r in 0..rows {
        let (from, to) =
            if lower { (0, (r + offset + 1).clamp(0, columns)) } else { ((r + offset).clamp(0, columns), columns) };
        for c in from..to {
            i.push(r);
            j.push(c);
        }
    }
    let n = i.len();
    i.extend(j);
    Tensor::from_slice_on(&i, &[2, n], device)?.to_dtype(dtype)
}

/// `torch.diag_embed`: matrices with the last dimension on a diagonal.
///
/// # Errors
/// `Index` or `Runtime` for dimensions that do not fit.
pub fn diag_embed(x: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let r = x.dims().len();
    if r == 0 {
        return Err(Error::index("Dimension specified as -1 but tensor has no dimensions"));
    }
    let (d1, d2) = (normalize_dim(dim1, r + 1)?, normalize_dim(dim2, r + 1)?);
    if d1 == d2 {
        return Err(Error::runtime(format!("diagonal dimensions cannot be identical {dim1}, {dim2}")));
    }
    let extra = offset.unsigned_abs() as usize;
    let mut more = *x.dims();
    more[r - 1] = extra;
    // Above the main diagonal an element's row is its number, below it its column is.
    let line = if extra == 0 {
        x.clone()
    } else {
        super::concat::cat(&[x, &zeros_like(&x.meta().with_dims(more))?], r as i64 - 1)?
    };
    let side = line.dims()[r - 1];
    let (i, j) = rows_and_columns(side, side, x.device())?;
    let on = j.sub(&i)?.eq_scalar(offset)?;
    let spread = if offset >= 0 { line.unsqueeze(-1)? } else { line.unsqueeze(-2)? };
    let y = pointwise::select(&on, &spread, &Tensor::number(Scalar::Int(0), x.dtype())?)?;
    y.movedim(&[-2, -1], &[d1 as i64, d2 as i64])
}

fn diag(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    match x.dims().len() {
        1 => diag_embed(x, diagonal, 0, 1),
        2 => x.diagonal(diagonal, 0, 1)?.copy(),
        r => Err(Error::runtime(format!("diag(): Supports 1D or 2D tensors. Got {r}D"))),
    }
}

fn trace(x: &Tensor) -> Result<Tensor> {
    if x.dims().len() != 2 {
        return Err(Error::runtime("trace: expected a matrix"));
    }
    x.diagonal(0, 0, 1)?.sum()
}

// ------------------------------------------------------------------------------------------------ classes and sets

/// `torch.nn.functional.one_hot`; -1 classes means one more than the largest value, which the host then reads.
///
/// # Errors
/// `Runtime` for a dtype other than `int64`, or a value outside the classes.
pub fn one_hot(x: &Tensor, classes: i64) -> Result<Tensor> {
    if x.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "one_hot is only applicable to index tensor of type LongTensor. Got {}",
            x.dtype().scalar_type()
        )));
    }
    if x.numel() == 0 && classes <= 0 {
        return Err(Error::runtime("Can not infer total number of classes from empty tensor."));
    }
    let (negative, too_large) =
        ("Class values must be non-negative.", "Class values must be smaller than num_classes.");
    let classes = match (classes, x.device().kind) {
        (-1, DeviceKind::Meta) => {
            return Err(Error::not_implemented("one_hot of a meta tensor needs the number of classes"));
        }
        (-1, _) | (_, DeviceKind::Cpu) => {
            let values = to_device(&x.detach(), Device::CPU)?.to_vec::<i64>()?;
            if values.iter().any(|&v| v < 0) {
                return Err(Error::runtime(negative));
            }
            let most = values.iter().max().map_or(0, |m| m + 1);
            if classes != -1 && most > classes {
                return Err(Error::runtime(too_large));
            }
            if classes == -1 { most } else { classes }
        }
        (n, DeviceKind::Tpu) => {
            guard(x, 0, n.max(0) as usize, move |_| Error::runtime(too_large).in_op("one_hot"))?;
            n
        }
        (n, DeviceKind::Meta) => n,
    };
    if classes < 1 {
        return Err(Error::runtime("num_classes should be positive"));
    }
    x.unsqueeze(-1)?.eq(&count_up(classes as usize, x.device())?)?.to_dtype(DType::I64)
}

/// `torch.isin`: whether each element is one of the test elements.
fn isin(x: &Tensor, test: &Tensor, invert: bool) -> Result<Tensor> {
    for t in [x, test] {
        if t.dtype().is_complex() {
            return Err(Error::not_implemented(format!(
                "Unsupported input type encountered for isin(): {}",
                t.dtype().scalar_type()
            )));
        }
    }
    let hit = x.unsqueeze(-1)?.eq(&test.reshape(&[-1])?)?;
    let last = hit.dims().len() as i64 - 1;
    let y = super::reduce::reduce(super::reduce::ReduceKind::Any, &hit, Some(&[last]), false)?;
    if invert { y.logical_not() } else { Ok(y) }
}

/// The operand as a tensor of its own dtype.
fn own(x: Operand<'_>) -> Result<Tensor> {
    match x {
        Operand::Tensor(t) => Ok(t.clone()),
        Operand::Scalar(s) => Tensor::number(s, s.dtype()),
    }
}

// ------------------------------------------------------------------------------------------------ the public functions

fn ok(t: Result<Tensor>) -> Result<Ret> {
    t.map(Ret::Tensor)
}

fn scalar_tensor(a: &crate::schema::Args<'_>, i: usize, x: &Tensor) -> Result<Tensor> {
    Tensor::number(a.scalar(i)?, x.dtype())
}

/// A dtype whose default the schema writes as `long`.
pub(crate) fn long_or(a: &crate::schema::Args<'_>, i: usize) -> Result<DType> {
    if matches!(a.0[i], crate::schema::Arg::Str("long")) {
        Ok(DType::I64)
    } else {
        Ok(a.opt_dtype(i)?.unwrap_or(DType::I64))
    }
}

fn scaled(src: &Tensor, alpha: Scalar) -> Result<Tensor> {
    if alpha.to_f64() == 1.0 { Ok(src.clone()) } else { src.mul_scalar(alpha)?.to_dtype(src.dtype()) }
}

const KINDS: &[DType] = &[DType::F64, DType::BF16, DType::I64, DType::I32, DType::U8, DType::Bool];

fn ints_2x3() -> SampleArg {
    index_arg(&[2, 3], 3)
}
fn some(dims: &[usize], fill: Fill) -> Option<(Vec<usize>, Fill)> {
    Some((dims.to_vec(), fill))
}
fn str_arg(s: &'static str) -> SampleArg {
    SampleArg::Str(s)
}
fn index_samples() -> Vec<Sample> {
    let one = |v: Vec<Option<(Vec<usize>, Fill)>>| Sample::new(vec![t(&[3, 4, 2]), SampleArg::OptTensors(v)]);
    vec![
        one(vec![some(&[5], Fill::Index(3))]).dtypes(KINDS),
        one(vec![None, some(&[2, 2], Fill::Index(4))]),
        one(vec![some(&[2, 1], Fill::Index(3)), some(&[3], Fill::Index(4))]),
        one(vec![some(&[2], Fill::Index(3)), None, some(&[2], Fill::Index(2))]),
        one(vec![some(&[3, 4], Fill::Mask)]),
        one(vec![None, some(&[4], Fill::Mask)]),
        one(vec![some(&[0], Fill::Index(3))]),
    ]
}
fn index_put_samples() -> Vec<Sample> {
    let one = |v: Vec<Option<(Vec<usize>, Fill)>>, values: SampleArg, add: bool| {
        Sample::new(vec![t(&[3, 4, 2]), SampleArg::OptTensors(v), values, n(add)])
    };
    vec![
        one(vec![some(&[5], Fill::Index(3))], t(&[5, 4, 2]), true).dtypes(&[DType::F64, DType::I64, DType::BF16]),
        one(vec![some(&[1], Fill::Index(3))], t(&[4, 2]), false),
        one(vec![None, some(&[2], Fill::Index(4))], t(&[3, 2, 2]), true),
        one(vec![some(&[3, 4], Fill::Mask)], t(&[]), false),
        one(vec![some(&[3], Fill::Mask)], t(&[1, 4, 2]), true),
        one(vec![None, some(&[4], Fill::Mask)], t(&[2]), false),
    ]
}
fn scatter_reduced() -> Vec<Sample> {
    let one = |how: &'static str, keep: bool| {
        Sample::new(vec![t(&[3, 4]), n(0), ints_2x3(), t(&[2, 3]), str_arg(how), n(keep)])
    };
    vec![
        one("sum", true).dtypes(KINDS),
        one("sum", false),
        one("prod", true),
        one("prod", false),
        one("mean", true),
        one("mean", false),
        one("amax", true),
        one("amax", false),
        one("amin", true),
    ]
}

/// `torch.index_reduce`: rows of `src` joined with rows of `x` along a dimension.
fn index_reduce(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor, how: &str, include_self: bool) -> Result<Tensor> {
    let kind = match how {
        "prod" => ScatterKind::Mul,
        "mean" => ScatterKind::Mean,
        "amax" => ScatterKind::Max,
        "amin" => ScatterKind::Min,
        other => {
            return Err(Error::runtime(format!(
                "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {other}."
            )));
        }
    };
    let d = normalize_dim(dim, x.dims().len())?;
    let fail = |text: String| Err(Error::runtime(format!("index_reduce_(): {text}")));
    if index.dims().len() > 1 {
        return Err(Error::index(format!(
            "index_reduce_(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {}",
            index.dims().len(),
            index.dtype().scalar_type(),
            index.dims()
        )));
    }
    if !matches!(index.dtype(), DType::I64 | DType::I32) {
        return fail(format!("Expected dtype int32/int64 for index but got: {}", index.dtype().scalar_type()));
    }
    if x.dtype() != src.dtype() {
        return fail(format!(
            "self ({}) and source ({}) must have the same scalar type",
            x.dtype().scalar_type(),
            src.dtype().scalar_type()
        ));
    }
    let (x1, s1) = (at_least_1d(x)?, at_least_1d(src)?);
    if index.numel() != s1.dims().get(d).copied().unwrap_or(1) {
        return fail(format!(
            "Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {d}",
            index.numel(),
            s1.dims().get(d).copied().unwrap_or(1)
        ));
    }
    if s1.dims().len() != x1.dims().len() || (0..x1.dims().len()).any(|e| e != d && x1.dims()[e] != s1.dims()[e]) {
        return Err(Error::runtime(format!(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {} source.shape = {}",
            x.dims(),
            src.dims()
        )));
    }
    if s1.numel() == 0 {
        return x.copy();
    }
    let mut along = Dims::filled(1, x1.dims().len());
    along[d] = index.numel();
    let at = index.reshape_dims(along)?.expand_dims(s1.dims())?;
    let op = Scatter { dim: d, kind, include_self };
    let size = x1.dims()[d];
    let y = dispatch::call(Prim::Scatter(op), &[&x1, &at, &s1]).map_err(|e| {
        // A bad index is named differently here than by scatter.
        if e.message().contains("is out of bounds") { Error::index("index out of range in self") } else { e }
    })?;
    guard(index, 0, size, move |i| out_of_range_in_self(i, size).in_op("index_reduce"))?;
    y.reshape_dims(*x.dims())
}

/// Indices with those that the mask leaves out made zero, which is always within.
fn where_masked(mask: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let clear = |i: &Tensor| {
        let zero = Tensor::number(Scalar::Int(0), i.dtype())?;
        pointwise::select(mask, i, &zero)
    };
    indices.iter().map(|i| i.as_ref().map(clear).transpose()).collect()
}

/// Advanced indexing where a mask holds, and a number elsewhere.
fn masked_index(x: &Tensor, mask: &Tensor, indices: &[Option<Tensor>], fill: Operand<'_>) -> Result<Tensor> {
    if x.numel() == 0 {
        let some = indices.iter().flatten().map(|i| *i.dims()).collect::<Vec<_>>();
        let mut dims = *mask.dims();
        for d in some {
            dims = crate::op::broadcast_dims(&dims, &d)?;
        }
        let empty = pointwise::independent_of(&x.sum()?, zeros_like(&x.meta().with_dims(dims))?)?;
        return masked_fill(&empty, &mask.logical_not()?, fill);
    }
    masked_fill(&index(x, &where_masked(mask, indices)?)?, &mask.logical_not()?, fill)
}

/// Adds values at indices where a mask holds.
fn masked_index_add(x: &Tensor, mask: &Tensor, indices: &[Option<Tensor>], values: &Tensor) -> Result<Tensor> {
    if x.numel() == 0 {
        return x.copy();
    }
    let zero = Tensor::number(Scalar::Int(0), values.dtype())?;
    let values = pointwise::select(mask, values, &zero)?;
    index_put(x, &where_masked(mask, indices)?, &values, true)
}

/// Positions of the elements that are not zero, as many as were asked for; missing ones are `fill`. Reads nothing back.
fn nonzero_static(x: &Tensor, size: i64, fill: i64) -> Result<Tensor> {
    if size < 0 {
        return Err(Error::runtime("nonzero_static: 'size' must be an non-negative integer"));
    }
    let (x, size) = (x.detach(), size as usize);
    let rank = x.dims().len();
    let full = |dims: &[usize]| Tensor::full(dims, fill, DType::I64, x.device());
    if rank == 0 || x.numel() == 0 || size == 0 {
        return full(&[size, rank]);
    }
    let found = x.reshape(&[-1])?.ne_scalar(0)?;
    // The number of each among those found; what is not found, or too many, goes to one place more.
    let number = found.to_dtype(DType::I64)?.cumsum(0)?.sub_scalar(1)?;
    let beyond = Tensor::number(Scalar::Int(size as i64), DType::I64)?;
    let fits = found.logical_and(&number.lt_scalar(size as i64)?)?;
    let place = pointwise::select(&fits, &number, &beyond)?;
    let none = Tensor::full(&[size + 1], -1, DType::I64, x.device())?;
    let at = index_copy(&none, 0, &place, &count_up(x.numel(), x.device())?)?.narrow(0, 0, size as i64)?;
    let missing = at.lt_scalar(0)?;
    let filler = Tensor::number(Scalar::Int(fill), DType::I64)?;
    let mut columns = Vec::new();
    let mut rest = at;
    for &n in x.dims().iter().rev() {
        let part = rest.remainder_scalar(n as i64)?;
        columns.push(pointwise::select(&missing, &filler, &part)?);
        rest = rest.floor_divide_scalar(n as i64)?;
    }
    columns.reverse();
    super::concat::stack(&columns.iter().collect::<Vec<_>>(), 1)
}

fn index_reduced() -> Vec<Sample> {
    let one = |how: &'static str, keep: bool| {
        Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[4], 3), t(&[4, 4]), str_arg(how), n(keep)])
    };
    vec![
        one("prod", true).dtypes(&[DType::F64, DType::I64]),
        one("prod", false),
        one("mean", true),
        one("mean", false),
        one("amax", true),
        one("amax", false),
        one("amin", true),
        one("amin", false),
    ]
}

/// Rows of gather, scatter, advanced indexing, masks, triangles and sets.
pub const ROWS: &[Row] = &[
    Row::new("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", Tier::Prim, |a| ok(gather(a.tensor(0)?, a.int(1)?, a.tensor(2)?)), || {
        vec![
            Sample::new(vec![t(&[3, 4]), n(0), ints_2x3()]).dtypes(KINDS),
            Sample::new(vec![t(&[3, 4]), n(-1), index_arg(&[3, 5], 4)]),
            Sample::new(vec![SampleArg::Transposed(vec![3, 4], Fill::Normal), n(1), index_arg(&[2, 2], 3)]),
            Sample::new(vec![t(&[]), n(0), index_arg(&[], 1)]),
        ]
    }),
    Row::new("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", Tier::Prim, |a| ok(scatter(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?)), || {
        vec![Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[1, 4], 3), t(&[2, 4])]).dtypes(KINDS)]
    })
    .inplace(),
    Row::new("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", Tier::Prim, |a| {
        let x = a.tensor(0)?;
        ok(scatter(x, a.int(1)?, a.tensor(2)?, &scalar_tensor(a, 3, x)?))
    }, samples!([t(&[3, 4]), n(1), index_arg(&[3, 2], 4), n(2.5)]))
    .inplace(),
    Row::new("scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", Tier::Prim, |a| ok(scatter_old(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?, a.str(4)?)), || {
        vec![
            Sample::new(vec![t(&[3, 4]), n(0), ints_2x3(), t(&[2, 3]), str_arg("add")]),
            Sample::new(vec![t(&[3, 4]), n(0), ints_2x3(), t(&[2, 3]), str_arg("multiply")]).no_gradient(),
        ]
    })
    .inplace(),
    Row::new("scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor", Tier::Prim, |a| {
        let x = a.tensor(0)?;
        ok(scatter_old(x, a.int(1)?, a.tensor(2)?, &scalar_tensor(a, 3, x)?, a.str(4)?))
    }, || vec![Sample::new(vec![t(&[3, 4]), n(0), ints_2x3(), n(1.5), str_arg("multiply")]).no_gradient()])
    .inplace(),
    Row::new("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", Tier::Prim, |a| ok(scatter_add(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?)), || {
        vec![
            Sample::new(vec![t(&[3, 4]), n(0), ints_2x3(), t(&[2, 3])]).dtypes(KINDS),
            Sample::new(vec![t(&[3, 4]), n(1), index_arg(&[2, 6], 4), t(&[3, 6])]),
        ]
    })
    .inplace(),
    Row::new("scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor", Tier::Prim, |a| {
        ok(scatter_reduce(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?, a.str(4)?, a.bool(5)?))
    }, scatter_reduced)
    .inplace(),
    Row::new("index_select(Tensor self, int dim, Tensor index) -> Tensor", Tier::Prim, |a| ok(index_select(a.tensor(0)?, a.int(1)?, a.tensor(2)?)), || {
        vec![
            Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[5], 3)]).dtypes(KINDS),
            Sample::new(vec![t(&[3, 4, 2]), n(1), index_arg(&[2], 4)]),
            Sample::new(vec![t(&[3, 4]), n(-1), index_arg(&[0], 4)]),
        ]
    }),
    Row::new("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", Tier::Prim, |a| {
        ok(index_add(a.tensor(0)?, a.int(1)?, a.tensor(2)?, &scaled(a.tensor(3)?, a.scalar(4)?)?))
    }, || {
        vec![
            Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[5], 3), t(&[5, 4])]).dtypes(&[DType::F64, DType::BF16, DType::I64, DType::U8]),
            Sample::new(vec![t(&[3, 4]), n(1), index_arg(&[2], 4), t(&[3, 2]), n(0.5)]),
        ]
    })
    .inplace(),
    Row::new("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor", Tier::Composed, |a| {
        ok(index_reduce(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?, a.str(4)?, a.bool(5)?))
    }, index_reduced)
    .inplace(),
    Row::new("_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor", Tier::Composed, |a| {
        ok(masked_index(a.tensor(0)?, a.tensor(1)?, a.opt_tensors(2)?, a.operand(3)?))
    }, || {
        let at = SampleArg::OptTensors(vec![some(&[2, 2], Fill::Index(3))]);
        vec![Sample::new(vec![t(&[3]), mask_arg(&[2, 2]), at, n(0.5)])]
    })
    .scope(Scope::Function)
    .no_out(),
    Row::new("_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor", Tier::Composed, |a| {
        ok(masked_index_add(a.tensor(0)?, a.tensor(1)?, a.opt_tensors(2)?, a.tensor(3)?))
    }, || {
        let at = SampleArg::OptTensors(vec![some(&[2, 2], Fill::Index(3))]);
        vec![Sample::new(vec![t(&[3]), mask_arg(&[2, 2]), at, t(&[2, 2])])]
    })
    .scope(Scope::Function)
    .no_out(),
    Row::new("nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor", Tier::Composed, |a| {
        ok(nonzero_static(a.tensor(0)?, a.int(1)?, a.int(2)?))
    }, || {
        vec![
            Sample::new(vec![mask_arg(&[3, 4]), n(6)]).no_gradient(),
            Sample::new(vec![index_arg(&[5], 2), n(2), n(7)]).no_gradient(),
        ]
    }),
    Row::new("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", Tier::Prim, |a| ok(index_copy(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?)), || {
        vec![Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[1], 3), t(&[1, 4])]).dtypes(KINDS)]
    })
    .inplace(),
    Row::new("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", Tier::Prim, |a| {
        ok(index_fill(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.operand(3)?))
    }, samples!([t(&[3, 4]), n(1), index_arg(&[2], 4), n(2)]))
    .inplace(),
    Row::new("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", Tier::Prim, |a| {
        ok(index_fill(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.operand(3)?))
    }, samples!([t(&[3, 4]), n(0), index_arg(&[1], 3), t(&[])]))
    .inplace(),
    Row::new("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", Tier::Prim, |a| ok(index(a.tensor(0)?, a.opt_tensors(1)?)), index_samples)
        .scope(Scope::Function),
    Row::new("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", Tier::Prim, |a| {
        ok(index_put(a.tensor(0)?, a.opt_tensors(1)?, a.tensor(2)?, a.bool(3)?))
    }, index_put_samples)
    .inplace(),
    Row::new("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", Tier::Composed, |a| {
        ok(masked_fill(a.tensor(0)?, a.tensor(1)?, a.operand(2)?))
    }, || vec![Sample::new(vec![t(&[2, 3]), mask_arg(&[3]), n(2)]).dtypes(KINDS)])
    .inplace(),
    Row::new("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", Tier::Composed, |a| {
        ok(masked_fill(a.tensor(0)?, a.tensor(1)?, a.operand(2)?))
    }, samples!([t(&[2, 3]), mask_arg(&[2, 1]), t(&[])]))
    .inplace(),
    Row::new("masked_select(Tensor self, Tensor mask) -> Tensor", Tier::Composed, |a| ok(masked_select(a.tensor(0)?, a.tensor(1)?)), || {
        vec![Sample::new(vec![t(&[2, 3]), mask_arg(&[2, 3])]).dtypes(KINDS), Sample::new(vec![t(&[2, 3]), mask_arg(&[3])])]
    }),
    Row::new("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", Tier::Composed, |a| {
        ok(masked_scatter(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?))
    }, samples!([t(&[2, 3]), mask_arg(&[2, 3]), t(&[7])]))
    .inplace(),
    Row::new("take(Tensor self, Tensor index) -> Tensor", Tier::Prim, |a| ok(take(a.tensor(0)?, a.tensor(1)?)), || {
        vec![Sample::new(vec![t(&[2, 3]), index_arg(&[2, 2], 6)]).dtypes(KINDS)]
    }),
    Row::new("put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", Tier::Prim, |a| {
        ok(put(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.bool(3)?))
    }, samples!([t(&[2, 3]), index_arg(&[4], 6), t(&[4]), n(true)], [t(&[2, 3]), index_arg(&[1], 6), t(&[1])]))
    .inplace(),
    Row::new("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", Tier::Composed, |a| {
        ok(take_along_dim(a.tensor(0)?, a.tensor(1)?, a.opt_int(2)?))
    }, samples!([t(&[3, 4]), index_arg(&[1, 4], 3), n(0)], [t(&[2, 3]), index_arg(&[4], 6)])),
    Row::new("nonzero(Tensor self) -> Tensor", Tier::Composed, |a| ok(nonzero(a.tensor(0)?)), || {
        vec![
            Sample::new(vec![mask_arg(&[2, 3])]).no_gradient(),
            Sample::new(vec![index_arg(&[4], 2)]).no_gradient(),
            Sample::new(vec![t(&[])]).no_gradient(),
        ]
    }),
    Row::new("argwhere(Tensor self) -> Tensor", Tier::Composed, |a| ok(nonzero(a.tensor(0)?)), || vec![Sample::new(vec![mask_arg(&[2, 3])]).no_gradient()]).no_out(),
    Row::new("nonzero_numpy(Tensor self) -> Tensor[]", Tier::Composed, |a| at_least_1d(a.tensor(0)?).and_then(|x| nonzero(&x)?.unbind(1)).map(Ret::List), || {
        vec![Sample::new(vec![mask_arg(&[2, 3])]).no_gradient()]
    })
    .no_out(),
    Row::new("where(Tensor condition) -> Tensor[]", Tier::Composed, |a| at_least_1d(a.tensor(0)?).and_then(|x| nonzero(&x)?.unbind(1)).map(Ret::List), || {
        vec![Sample::new(vec![mask_arg(&[2, 3])]).no_gradient()]
    })
    .scope(Scope::Function)
    .no_out(),
    Row::new("one_hot(Tensor self, int num_classes=-1) -> Tensor", Tier::Composed, |a| ok(one_hot(a.tensor(0)?, a.int(1)?)), || {
        vec![Sample::new(vec![index_arg(&[2, 3], 4), n(5)]).no_gradient(), Sample::new(vec![index_arg(&[4], 3)]).no_gradient()]
    })
    .scope(Scope::Nn)
    .no_out(),
    Row::new("isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor", Tier::Composed, |a| {
        ok(isin(a.tensor(0)?, a.tensor(1)?, a.bool(3)?))
    }, || vec![Sample::new(vec![index_arg(&[2, 3], 9), index_arg(&[4], 9)]).no_gradient()])
    .scope(Scope::Function),
    Row::new("isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor", Tier::Composed, |a| {
        let y = pointwise::compare(if a.bool(3)? { pointwise::CompareKind::Ne } else { pointwise::CompareKind::Eq }, a.operand(0)?, a.operand(1)?)?;
        Ok(y.into())
    }, || vec![Sample::new(vec![index_arg(&[2, 3], 4), n(2)]).no_gradient()])
    .scope(Scope::Function),
    Row::new("isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor", Tier::Composed, |a| {
        ok(isin(&own(a.operand(0)?)?.to_device(a.tensor(1)?.device())?, a.tensor(1)?, a.bool(3)?))
    }, || vec![Sample::new(vec![n(2), index_arg(&[4], 4)]).no_gradient()])
    .scope(Scope::Function),
    Row::new("tril(Tensor self, int diagonal=0) -> Tensor", Tier::Composed, |a| ok(tril(a.tensor(0)?, a.int(1)?)), || {
        vec![Sample::new(vec![t(&[3, 4])]).dtypes(KINDS), Sample::new(vec![t(&[2, 3, 3]), n(-1)])]
    })
    .inplace(),
    Row::new("triu(Tensor self, int diagonal=0) -> Tensor", Tier::Composed, |a| ok(triu(a.tensor(0)?, a.int(1)?)), || {
        vec![Sample::new(vec![t(&[3, 4])]).dtypes(KINDS), Sample::new(vec![t(&[2, 3, 3]), n(1)])]
    })
    .inplace(),
    Row::new("tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Tier::Composed, |a| {
        ok(triangle_indices(a.int(0)?, a.int(1)?, a.int(2)?, true, long_or(a, 3)?, a.opt_device(5)?.unwrap_or(Device::CPU)))
    }, || vec![Sample::new(vec![n(3), n(4), n(-1)]).no_gradient()])
    .scope(Scope::Function),
    Row::new("triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Tier::Composed, |a| {
        ok(triangle_indices(a.int(0)?, a.int(1)?, a.int(2)?, false, long_or(a, 3)?, a.opt_device(5)?.unwrap_or(Device::CPU)))
    }, || vec![Sample::new(vec![n(3), n(4), n(1)]).no_gradient()])
    .scope(Scope::Function),
    Row::new("diag(Tensor self, int diagonal=0) -> Tensor", Tier::Composed, |a| ok(diag(a.tensor(0)?, a.int(1)?)), samples!([t(&[3]), n(1)], [t(&[3]), n(-2)], [t(&[3, 4]), n(1)])),
    Row::new("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", Tier::Composed, |a| {
        ok(diag_embed(a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?))
    }, samples!([t(&[2, 3])], [t(&[2, 3]), n(1), n(0), n(2)])),
    Row::new("trace(Tensor self) -> Tensor", Tier::Composed, |a| ok(trace(a.tensor(0)?)), samples!([t(&[3, 4])])),
];
