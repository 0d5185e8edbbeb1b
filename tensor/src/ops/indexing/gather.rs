//! `Gather` and `Scatter`: elements along one dimension, with a position for each.

use super::overlapping;
use super::{
    KINDS, at_least_1d, check_index_dtype, check_same_dtype, copy_of, guard, lower_positions, lower_scatter, ok,
    str_arg, zeros_like,
};
use crate::axes::{Axes, Combine};
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values, normalize_dim, same_device};
use crate::ops::pointwise::{self, broadcast_strides, kernel_error};
use crate::policy::{Policies, Policy};
use crate::schema::{Aliasing, Fill, OutDType, Row, Sample, SampleArg, Tier, index as index_arg, messages, n, t};
use crate::{Dims, Error, Meta, Result, Scalar, Tensor, dispatch, samples};
use smallvec::smallvec;
use torchtpu_kernels::index as kernels;
use torchtpu_stablehlo::{Direction, ElementType, ScatterKind as Join, Type};

/// `y[i][j][k] = x[index[i][j][k]][j][k]` for `dim` 0, and so on.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[..]`, rank at least 1 | any |
/// | index | same rank, no larger than `x` except along `dim` (C1) | `int64` or `int32` (C2) |
/// | y | that of `index` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gather {
    /// The dimension of the positions.
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
    // On `cpu` the error of the kernel names the index.
    if x.place().has_handle() && index.numel() > 0 && x.dims().get(dim) == Some(&0) {
        return Err(Error::runtime(format!("index is out of bounds for dimension {dim} with size 0")));
    }
    for d in 0..x.dims().len() {
        if d != dim && index.dims()[d] > x.dims()[d] {
            return Err(Error::runtime(if op == "gather" {
                format!(
                    "Size does not match at dimension {d} expected index {} to be no larger than self {} apart from \
                    dimension {dim}",
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

/// The dimensions of an operand or its index, with `along` in place of `dim`. If the index is smaller than the operand,
/// it covers only the first places, and the dimension is whole.
fn text(x: &Dims, index: &Dims, dim: usize, along: &str) -> String {
    let name = |d: usize| match d {
        _ if d == dim => along.to_string(),
        _ if x[d] == index[d] => format!("d{d}"),
        _ => "_".to_string(),
    };
    (0..x.len()).map(name).collect::<Vec<_>>().join(" ")
}

impl Op for Gather {
    const NAME: &'static str = "gather";
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        check_along("gather", x[0], x[1], self.dim)?;
        Ok(Meta { dims: *x[1].dims(), dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let text = |along: &str| text(&x[0].dims, &x[1].dims, self.dim, along);
        let (operand, index) = (text("v"), text("i"));
        Axes::parse(&format!("{operand}, {index} -> {index}"), x, y).indexes(1, "v").linear(&[0b01])
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

/// The way in which [`Scatter`] combines an element with the values for its position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterKind {
    /// Replace. Of several values the last one stays on `cpu`, any one on a device.
    Set,
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// The greater one; NaN wins.
    Max,
    /// The lesser one; NaN wins.
    Min,
    /// Mean; means of integers are rounded down.
    Mean,
}

/// `y = x`, but `y[index[i][j][k]][j][k]` is combined with `src[i][j][k]` for `dim` 0, and so on.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[..]`, rank at least 1 | any |
/// | index | same rank, no larger than `x` except along `dim` | `int64` or `int32` |
/// | src | that of `index`, or no dimensions: one number for all | that of `x` |
/// | y | that of `x` | that of `x` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scatter {
    /// The dimension of the positions.
    pub dim: usize,
    /// The way in which values are combined.
    pub kind: ScatterKind,
    /// Whether the old values at the given positions count; not used for `Set`.
    pub include_self: bool,
}

impl Op for Scatter {
    const NAME: &'static str = "scatter";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
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
    fn takes_stored(&self) -> bool {
        self.kind == ScatterKind::Set
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        check_along(self.label(), x[0], x[1], self.dim)?;
        check_same_dtype("scatter", x[0], x[2])?;
        if x[0].dtype().is_complex() && matches!(self.kind, ScatterKind::Max | ScatterKind::Min) {
            let name = if self.kind == ScatterKind::Max { "amax" } else { "amin" };
            let name = format!("scatter_gather_tensor_cpu_reduce_{name}");
            return Err(crate::ops::complex::unsupported(&name, x[0].dtype()));
        }
        Ok(Meta { place: same_device(x)?, ..*x[0].meta() })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let text = |along: &str| text(&x[0].dims, &x[1].dims, self.dim, along);
        // Values may come in parts, if their order and number do not matter.
        let by = match self.kind {
            ScatterKind::Add if self.include_self => Some(Combine::Sum),
            ScatterKind::Max if self.include_self => Some(Combine::Max),
            ScatterKind::Min if self.include_self => Some(Combine::Min),
            _ => None,
        };
        let (operand, index) = (text("_"), text(if by.is_some() { "i" } else { "_" }));
        let src = if x[2].dims.is_empty() { "" } else { &index };
        let axes = Axes::parse(&format!("{operand}, {index}, {src} -> {operand}"), x, y);
        let axes = match by {
            Some(Combine::Sum) => axes.reduces("i", Combine::Sum).once(0b001),
            Some(by) => axes.reduces("i", by),
            None => axes,
        };
        let is_linear = matches!(self.kind, ScatterKind::Set | ScatterKind::Add | ScatterKind::Mean);
        axes.linear(if is_linear { &[0b101] } else { &[] })
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
        let join = match self.kind {
            ScatterKind::Set => Join::Set,
            ScatterKind::Add | ScatterKind::Mean => Join::Add,
            ScatterKind::Mul => Join::Mul,
            ScatterKind::Max => Join::Max,
            ScatterKind::Min => Join::Min,
        };
        let is_single = at.shape()[self.dim] == 1 && self.kind != ScatterKind::Mean;
        let put = |f: &mut Func, x: &Value, src: &Value| self.lower_join(f, x, &at, src, join);
        smallvec![lower_scatter(f, &x[0], &src, join, is_single, put)]
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
                return s.widely(g, |s, g| {
                    let (gx, gs) = self.reduce_vjp(s, g, &at)?;
                    Ok(smallvec![Some(if self.include_self { gx } else { cleared(&gx)? }), None, Some(fit(gs)?)])
                });
            }
        };
        Ok(smallvec![gx, None, gs])
    }
    fn saves(&self, _: u64) -> Saves {
        match self.kind {
            ScatterKind::Set | ScatterKind::Add => Saves::inputs(0b010),
            ScatterKind::Mean => Saves::inputs(0b110),
            ScatterKind::Mul => Saves::inputs(0b111),
            _ => Saves::both(0b111, 1),
        }
    }
}

impl Scatter {
    /// Combine `src` with `x` at the positions `at`.
    fn lower_join(&self, f: &mut Func, x: &Value, at: &Value, src: &Value, join: Join) -> Value {
        let e = x.element();
        let mut y = x.clone();
        if !self.include_self && self.kind != ScatterKind::Set {
            let start = match self.kind {
                ScatterKind::Mul => f.splat(1.0, src.ty()),
                ScatterKind::Max | ScatterKind::Min => {
                    let v = if self.kind == ScatterKind::Max { f.lowest(e) } else { f.highest(e) };
                    f.broadcast_to(&v, src.shape())
                }
                _ => f.splat(0.0, src.ty()),
            };
            y = f.put_along(&y, at, &start, self.dim, Join::Set);
        }
        y = f.put_along(&y, at, src, self.dim, join);
        if self.kind == ScatterKind::Mean && e != ElementType::Pred {
            y = self.lower_mean(f, &y, at, src.shape());
        }
        y
    }

    /// Divide by the number of values that were combined at each element.
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
        // Means of integers are rounded down, and a narrow type may not hold the count.
        let wide = f.convert(sum, ElementType::S64);
        let count = f.convert(&count, ElementType::S64);
        let (q, r) = (f.binary("stablehlo.divide", &wide, &count), f.binary("stablehlo.remainder", &wide, &count));
        let zero = f.splat_i64(0, wide.ty());
        let negative = f.compare(Direction::Lt, &r, &zero);
        let step = f.convert(&negative, ElementType::S64);
        let q = f.binary("stablehlo.subtract", &q, &step);
        f.convert(&q, e)
    }

    /// Gradients of the reducing kinds, before they are cleared for old values that do not count.
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
                let (x, src) = (&s.x(0).conj()?, src.conj()?);
                // For x: the product of all other values, without a zero of its own.
                let x1 = pointwise::select(&x.eq_scalar(0.0)?, &one, x)?;
                let others = scatter(&x1, ScatterKind::Mul, &src, self.include_self)?;
                let gx = g.mul(&others)?.div(&x1)?;
                // For src: an element that is the only zero at its position gets the product of the others.
                let is_zero = src.eq_scalar(0.0)?;
                let zeros = scatter(&zeros_like(s.meta(0))?, ScatterKind::Add, &is_zero.to_dtype(g.dtype())?, true)?;
                let only = is_zero.logical_and(&at(&zeros)?.eq_scalar(1.0)?)?;
                let rest = scatter(x, ScatterKind::Mul, &pointwise::select(&only, &one, &src)?, self.include_self)?;
                // Not the result of the op, which is rounded and may have left the range of 16 bits.
                let y = scatter(x, ScatterKind::Mul, &src, self.include_self)?;
                let plain = at(&g.mul(&y)?)?.div(&pointwise::select(&is_zero, &one, &src)?)?;
                Ok((gx, pointwise::select(&only, &at(&g.mul(&rest)?)?, &plain)?))
            }
            _ => {
                // Ties share the gradient evenly.
                let (x, y) = (s.x(0), s.y(0));
                let is_x = x.eq(y)?.to_dtype(g.dtype())?;
                let is_src = src.eq(&at(y)?)?.to_dtype(g.dtype())?;
                let start =
                    if self.include_self { is_x.clone() } else { scatter(&is_x, ScatterKind::Set, &zero, true)? };
                // No value equals a NaN. The share is then infinite, and NaN reaches the gradient instead of zeros.
                let share = g.div(&scatter(&start, ScatterKind::Add, &is_src, true)?)?;
                // At positions without values, the element itself is the result.
                Ok((is_x.mul(&share)?, is_src.mul(&at(&share)?)?))
            }
        }
    }
}

/// `gather` and `scatter` report a wrong index as an error of kind `Runtime`, not `Index`, as in PyTorch.
fn unplaced(e: torchtpu_kernels::KernelError) -> Error {
    match e {
        torchtpu_kernels::KernelError::IndexOutOfRange(text) => Error::runtime(text),
        e => kernel_error(e),
    }
}

fn unplaced_on_device(index: i64, dim: usize, size: usize) -> Error {
    Error::runtime(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

/// `torch.gather`.
///
/// # Errors
/// `Index` for a dimension or index out of range, `Runtime` for shapes and dtypes that do not fit.
pub fn gather(x: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let dim = normalize_dim(dim, x.dims().len())?;
    if index.numel() == 0 {
        // The index may have any dtype here, as in PyTorch. A slice without elements keeps the history.
        return x.reshape(&[-1])?.narrow(0, 0, 0)?.reshape_dims(*index.dims());
    }
    let (x1, i1) = (at_least_1d(x)?, at_least_1d(index)?);
    let size = x1.dims()[dim];
    let i1 = guard(&i1, 0, size, move |i| unplaced_on_device(i, dim, size).in_op("gather"))?;
    let y = dispatch::call(Prim::Gather(Gather { dim }), &[&x1, &i1])?;
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
    check_index_dtype(op.label(), index)?;
    for (other, name) in [(&x1, "self"), (src, "src")] {
        let is_number = name == "src" && other.is_wrapped_number();
        if !is_number && other.dims().len().max(1) != i1.dims().len() {
            return Err(Error::runtime(format!(
                "Index tensor must have the same number of dimensions as {name} tensor"
            ))
            .in_op(op.label()));
        }
    }
    // Only the part of the source with the index's sizes is read.
    let mut s1 = if src.dims().is_empty() && !index.dims().is_empty() && src.place() == x.place() && src.requires_grad()
    {
        at_least_1d(src)?
    } else {
        src.clone()
    };
    if !s1.dims().is_empty() {
        if s1.dims().len() != i1.dims().len() || (0..i1.dims().len()).any(|d| i1.dims()[d] > s1.dims()[d]) {
            return Err(Error::runtime(format!(
                "Expected index {} to be no larger than self {} apart from dimension {dim} and to be no larger size \
                than src {}",
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
    let label = op.label();
    let i1 = guard(&i1, 0, size, move |i| unplaced_on_device(i, dim, size).in_op(label))?;
    let y = dispatch::call_update(Prim::Scatter(op), &[&x1, &i1, &s1], 0)?;
    y.reshape_dims(*x.dims())
}

/// `torch.scatter`: write `src` at the positions of `index` along `dim`.
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
                "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
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

fn scalar_tensor(a: &crate::schema::Args<'_>, i: usize, x: &Tensor) -> Result<Tensor> {
    crate::ops::creation::check_range(a.scalar(i)?, x.dtype())?;
    Tensor::number(a.scalar(i)?, x.dtype())
}

fn ints_2x3() -> SampleArg {
    index_arg(&[2, 3], 3)
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

/// Rows of gather and scatter.
pub const ROWS: &[Row] = &[
    Row::new(
        "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
        Tier::Prim,
        |a| ok(gather(a.tensor(0)?, a.int(1)?, a.tensor(2)?)),
        || {
            vec![
                Sample::new(vec![t(&[3, 4]), n(0), ints_2x3()]).dtypes(KINDS),
                Sample::new(vec![t(&[3, 4]), n(-1), index_arg(&[3, 5], 4)]),
                Sample::new(vec![SampleArg::Transposed(vec![3, 4], Fill::Normal), n(1), index_arg(&[2, 2], 3)]),
                Sample::new(vec![t(&[]), n(0), index_arg(&[], 1)]),
            ]
        },
    )
    .doc(
        "Return the elements of `input` at the positions `index` along `dim`: for `dim=0`, `out[i][j] = \
         input[index[i][j]][j]`. The result has the shape of `index`, which has as many dimensions as `input` and is \
         not larger in those other than `dim`. `index` is `int64` or `int32`; negative positions and those out of \
         range are errors. `sparse_grad` changes nothing.",
    )
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::Refused),
    Row::new(
        "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        Tier::Prim,
        |a| ok(scatter(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?)),
        || vec![Sample::new(vec![t(&[3, 4]), n(0), index_arg(&[1, 4], 3), t(&[2, 4])]).dtypes(KINDS)],
    )
    .doc(
        "Return a copy of `input` with `src`, a tensor or a number, written to the positions `index` along `dim`: \
         for `dim=0`, `out[index[i][j]][j] = src[i][j]`. `src` has the dtype of `input`. If a position is named more \
         than once, the last value wins on `cpu`, and any of them on `tpu`. `reduce='add'` or `'multiply'` joins the \
         values instead. Negative positions are errors.",
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::scatter)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        Tier::Prim,
        |a| {
            let x = a.tensor(0)?;
            ok(scatter(x, a.int(1)?, a.tensor(2)?, &scalar_tensor(a, 3, x)?))
        },
        samples!([t(&[3, 4]), n(1), index_arg(&[3, 2], 4), n(2.5)]),
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::scatter)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
        Tier::Prim,
        |a| ok(scatter_old(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?, a.str(4)?)),
        || {
            vec![
                Sample::new(vec![t(&[3, 4]), n(0), ints_2x3(), t(&[2, 3]), str_arg("add")]),
                Sample::new(vec![t(&[3, 4]), n(0), ints_2x3(), t(&[2, 3]), str_arg("multiply")]).no_gradient(),
            ]
        },
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::scatter)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
        Tier::Prim,
        |a| {
            let x = a.tensor(0)?;
            ok(scatter_old(x, a.int(1)?, a.tensor(2)?, &scalar_tensor(a, 3, x)?, a.str(4)?))
        },
        || vec![Sample::new(vec![t(&[3, 4]), n(0), ints_2x3(), n(1.5), str_arg("multiply")]).no_gradient()],
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::scatter)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep),
    Row::new(
        "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        Tier::Prim,
        |a| ok(scatter_add(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?)),
        || {
            vec![
                Sample::new(vec![t(&[3, 4]), n(0), ints_2x3(), t(&[2, 3])]).dtypes(KINDS),
                Sample::new(vec![t(&[3, 4]), n(1), index_arg(&[2, 6], 4), t(&[3, 6])]),
            ]
        },
    )
    .doc(
        "Return a copy of `input` with the elements of `src` added at the positions `index` along `dim`: for \
         `dim=0`, `out[index[i][j]][j] += src[i][j]`. `src` has the dtype of `input` and is at least as large as \
         `index`. Negative positions are errors.",
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::scatter)
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep)
    .autocast(Policies::accelerator(Policy::Widest)),
    Row::new(
        "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool \
        include_self=True) -> Tensor",
        Tier::Prim,
        |a| ok(scatter_reduce(a.tensor(0)?, a.int(1)?, a.tensor(2)?, a.tensor(3)?, a.str(4)?, a.bool(5)?)),
        scatter_reduced,
    )
    .doc(
        "Return a copy of `input` joined with the elements of `src` at the positions `index` along `dim`. `reduce` \
         is `'sum'`, `'prod'`, `'mean'`, `'amax'` or `'amin'`. With `include_self=False` the elements of `input` at \
         those positions do not count. Negative positions are errors.",
    )
    .inplace()
    .scatters_in_place()
    .writes_overlapping(overlapping::scatter)
    .out_dtype(OutDType::OfInput(messages::expected_out)),
];
