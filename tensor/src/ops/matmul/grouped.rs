//! Products of matrices in groups, for example the experts of a mixture, each with the rows that were sent to it.

use super::Dot;
use crate::axes::{Axes, Combine};
use crate::lower::kernel_call::{self, KernelCall};
use crate::meta::element_type;
use crate::op::{Func, Fused, Grads, KernelFn, LowerFn, Op, Outs, Prim, Saves, Value, VjpFn, same_device};
use crate::ops::concat::cat;
use crate::ops::indexing::{count_up, defer_index};
use crate::ops::pointwise::{select, select_scalar};
use crate::types::compute::compute_dtype;
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, state};
use smallvec::smallvec;
use torchtpu_stablehlo::{Direction, ElementType, Type};

/// One product for each group. Group `i` has the places `ends[i - 1]..ends[i]` of a dimension; the first group starts
/// at 0.
///
/// | operand | shape: rows | shape: `sums` | dtype |
/// |---|---|---|---|
/// | a | `[m, k]` | `[m, k]` | float |
/// | b | `[groups, k, n]` | `[k, n]` | as a |
/// | ends | `[groups]` | `[groups]` | `int32` |
/// | y | `[m, n]` | `[groups, m, n]` | as a |
///
/// Without `sums` the groups divide `m`, and `y[i] = a[i] b[group of i]`. Rows after the last end are zeros. With
/// `sums` they divide `k`, and `y[g]` is the sum over the places of group `g`. Places after the last end are in no sum.
///
/// C1: `ends` ascends from 0, and its last is not beyond the dimension. Empty groups are allowed. Floats narrower than
/// `f32` accumulate in `f32`. The gradients are products of the same kind: those without `sums` need both kinds, those
/// with `sums` only products without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Grouped {
    /// Whether the groups divide the summed dimension.
    pub sums: bool,
}

fn call(sums: bool, a: &Tensor, b: &Tensor, ends: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::Grouped(Grouped { sums }), &[a, b, ends])
}

fn wrong_end(end: i64, size: usize) -> Error {
    Error::runtime(format!(
        "grouped_mm: offs: the ends of groups must ascend from 0 to at most {size}, but one is {end}"
    ))
}

/// Return `ends`, on a device tied to the error of wrong ones. On `cpu` the kernel checks them.
fn guard(ends: &Tensor, size: usize) -> Result<Tensor> {
    if !ends.place().has_handle() || ends.numel() == 0 {
        return Ok(ends.clone());
    }
    state::no_grad(|| {
        let bad = ends.lt(&starts(ends)?)?.logical_or(&ends.gt_scalar(size as i64)?)?; // C1
        defer_index(&bad, ends, move |end| wrong_end(end, size))?.tied(ends)
    })
}

/// The first place of each group.
fn starts(ends: &Tensor) -> Result<Tensor> {
    let one = Meta { dims: Dims::new(&[1]), ..*ends.meta() };
    let zero = Tensor::zeros_like_meta(&one)?;
    cat(&[&zero, &ends.narrow(0, 0, ends.numel() as i64 - 1)?], 0)
}

/// Whether each of `size` places belongs to each group: `[groups, size]`.
fn members(ends: &Tensor, size: usize) -> Result<Tensor> {
    let places = count_up(size, ends.place())?.to_dtype(ends.dtype())?;
    places.ge(&starts(ends)?.unsqueeze(1)?)?.logical_and(&places.lt(&ends.unsqueeze(1)?)?)
}

/// First and last place of each group, from the numbers on the host.
fn ranges(ends: &Tensor, size: usize) -> Result<Vec<std::ops::Range<usize>>> {
    let mut start = 0;
    let ends = ends.to_vec::<i32>()?.into_iter();
    ends.map(|end| {
        let from = start;
        start = usize::try_from(end)
            .ok()
            .filter(|end| (from..=size).contains(end))
            .ok_or_else(|| wrong_end(end.into(), size))?; // C1
        Ok(from..start)
    })
    .collect()
}

impl Fused for Grouped {
    const NAME: &'static str = "grouped_mm";
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (a, b, y) = (x[0], x[1], &y[0]);
        let dim = if o.sums { 1 } else { 0 };
        let parts = ranges(x[2], a.dims()[dim])?;
        let product = |a: &Tensor, b: &Tensor, y: Tensor| Dot::new(false, false).kernel(&[a, b], &[y]);
        state::no_grad(|| {
            let mut done = 0;
            for (g, part) in parts.into_iter().enumerate() {
                let (start, len) = (part.start as i64, part.len() as i64);
                done = part.end;
                if o.sums {
                    product(&a.narrow(1, start, len)?, &b.narrow(0, start, len)?, y.select(0, g as i64)?)?;
                } else if len > 0 {
                    product(&a.narrow(0, start, len)?, &b.select(0, g as i64)?, y.narrow(0, start, len)?)?;
                }
            }
            if !o.sums {
                y.narrow(0, done as i64, (a.dims()[0] - done) as i64)?.zero_()?;
            }
            Ok(())
        })
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| smallvec![lower(f, x, &y[0], o.sums)]);
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let ends = s.x(2);
        let ga = match (s.needs(0), o.sums) {
            (false, _) => None,
            (true, false) => Some(call(false, g, &s.x(1).transpose(1, 2)?, ends)?),
            // The columns of a group are multiplied by its own matrix, as rows of the transposed product.
            (true, true) => Some(call(false, s.x(1), &g.transpose(1, 2)?, ends)?.transpose(0, 1)?),
        };
        let gb = match (s.needs(1), o.sums) {
            (false, _) => None,
            (true, false) => Some(call(true, &s.x(0).transpose(0, 1)?, g, ends)?),
            (true, true) => Some(call(false, &s.x(0).transpose(0, 1)?, g, ends)?),
        };
        let grads: Grads = smallvec![ga, gb, None];
        Ok(grads)
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (a, b) = (x[0].dims(), x[1].dims());
        let dims = if self.sums { Dims::new(&[x[2].numel(), a[0], b[1]]) } else { Dims::new(&[a[0], b[2]]) };
        Ok(Meta { dims, dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // Groups are runs of places, so the dimension that they divide is whole.
        if self.sums {
            return Axes::parse("m _, _ n, _ -> _ m n", x, y).linear(&[0b01, 0b10]);
        }
        Axes::parse("_ k, _ k n, _ -> _ n", x, y).reduces("k", Combine::Sum).linear(&[0b01, 0b10])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (a, b, ends) = (x[0], x[1], x[2]);
        let size = a.dims()[if self.sums { 1 } else { 0 }];
        let others = members(ends, size)?.logical_not()?;
        // Places of other groups are left out by a choice, because infinities would survive a factor of zero.
        let y = if self.sums {
            let a = select_scalar(&others.unsqueeze(1)?, 0.0, &a.unsqueeze(0)?)?;
            let b = select_scalar(&others.unsqueeze(2)?, 0.0, &b.unsqueeze(0)?)?;
            a.bmm(&b)?
        } else {
            let all = a.unsqueeze(0)?.matmul(b)?;
            let zero = Tensor::number(Scalar::Float(0.0), all.dtype())?;
            select(&others.unsqueeze(2)?, &zero, &all)?.sum_dim(&[0], false)?
        };
        Ok(smallvec![y])
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::inputs(0b100 | (needs >> 1 & 1) | (needs & 1) << 1)
    }
}

/// The number of places that are multiplied at a time.
const TILE: usize = 128;

/// One loop, each of whose rounds computes a tile of one group; there are at most `groups + size / TILE` rounds. A
/// product with every group's matrix would cost `groups` times as much.
fn lower(f: &mut Func, x: &[Value], y: &Meta, sums: bool) -> Value {
    const INDEX: ElementType = ElementType::S32;
    let (a, b, ends) = (&x[0], &x[1], &x[2]);
    let (groups, dim) = (ends.shape()[0], if sums { 1 } else { 0 });
    let size = a.shape()[dim];
    // The sum of a group grows from round to round.
    let kept = if sums { element_type(compute_dtype(y.dtype)) } else { element_type(y.dtype) };
    let start = f.splat(0.0, &Type::new(&y.dims, kept));
    let result = element_type(y.dtype);
    if y.dims.numel() == 0 || size == 0 || groups == 0 {
        return f.convert(&start, result);
    }
    let tile = TILE.min(size);
    let zero = f.scalar_i64(0, INDEX);
    let done = f.while_loop(
        &[zero.clone(), zero.clone(), start],
        |f, carried| {
            let groups = f.scalar_i64(groups as i64, INDEX);
            f.compare(Direction::Lt, &carried[0], &groups)
        },
        |f, carried| {
            let (group, place) = (&carried[0], &carried[1]);
            let end = f.dynamic_slice(ends, std::slice::from_ref(group), &[1]);
            let end = f.reshape(&end, &[]);
            // The last tile of the dimension is moved inwards, so that it is full.
            let last = f.scalar_i64((size - tile) as i64, INDEX);
            let from = f.binary("stablehlo.minimum", place, &last);
            let places = f.iota(&Type::new(&[tile], INDEX), 0);
            let shift = f.broadcast_to(&from, &[tile]);
            let places = f.binary("stablehlo.add", &places, &shift);
            let (low, high) = (f.broadcast_to(place, &[tile]), f.broadcast_to(&end, &[tile]));
            let reached = f.compare(Direction::Ge, &places, &low);
            let before = f.compare(Direction::Lt, &places, &high);
            let own = f.binary("stablehlo.and", &reached, &before);
            let next = if sums {
                let (m, n) = (a.shape()[0], b.shape()[1]);
                let part = f.dynamic_slice(a, &[zero.clone(), from.clone()], &[m, tile]);
                let part = keep(f, &own, 1, &part);
                let other = f.dynamic_slice(b, &[from.clone(), zero.clone()], &[tile, n]);
                let other = keep(f, &own, 0, &other);
                let product = product(f, &part, &other, kept);
                let at = [group.clone(), zero.clone(), zero.clone()];
                let before = f.dynamic_slice(&carried[2], &at, &[1, m, n]);
                let product = f.reshape(&product, &[1, m, n]);
                let sum = f.binary("stablehlo.add", &before, &product);
                f.dynamic_update_slice(&carried[2], &sum, &at)
            } else {
                let (k, n) = (a.shape()[1], b.shape()[2]);
                let at = [from.clone(), zero.clone()];
                let rows = f.dynamic_slice(a, &at, &[tile, k]);
                let matrix = f.dynamic_slice(b, &[group.clone(), zero.clone(), zero.clone()], &[1, k, n]);
                let matrix = f.reshape(&matrix, &[k, n]);
                let product = product(f, &rows, &matrix, kept);
                let before = f.dynamic_slice(&carried[2], &at, &[tile, n]);
                let own = f.broadcast_in_dim(&own, &[tile, n], &[0]);
                let rows = f.select(&own, &product, &before);
                f.dynamic_update_slice(&carried[2], &rows, &at)
            };
            let (one, step) = (f.scalar_i64(1, INDEX), f.scalar_i64(tile as i64, INDEX));
            let (following, behind) = (f.binary("stablehlo.add", group, &one), f.binary("stablehlo.add", place, &step));
            let is_last = f.compare(Direction::Ge, &behind, &end);
            let group = f.select(&is_last, &following, group);
            let place = f.select(&is_last, &end, &behind);
            vec![group, place, next]
        },
    );
    f.convert(&done[2], result)
}

/// `x` where `own` holds along `dim`, else zeros.
fn keep(f: &mut Func, own: &Value, dim: usize, x: &Value) -> Value {
    let own = f.broadcast_in_dim(own, x.shape(), &[dim]);
    let zero = f.splat(0.0, x.ty());
    f.select(&own, x, &zero)
}

fn product(f: &mut Func, a: &Value, b: &Value, out: ElementType) -> Value {
    let (m, k, n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
    if out == a.element() && kernel_call::is_profitable(f, a.element(), m * k * n) {
        let dtype = DType::ALL.into_iter().find(|&d| element_type(d) == out).expect("an element type of a tensor");
        let meta = Meta { dims: Dims::new(&[m, n]), dtype, place: crate::Place::CPU };
        return Dot::new(false, false).call_kernel(f, [a, b], &[meta]).remove(0);
    }
    f.dot_general(a, b, (&[], &[]), (&[1], &[0]), out, None)
}

/// `torch._grouped_mm`. Without `offs`, the groups are the first dimension of both. Unlike PyTorch's, it accepts
/// `float64` and any strides.
///
/// # Errors
/// `Runtime` in PyTorch's wording when sizes or dtypes do not fit, and for ends that do not ascend or reach too far (on
/// `cpu`; on `tpu` when the program next reads a value).
pub(super) fn grouped_mm(
    a: &Tensor,
    b: &Tensor,
    offs: Option<&Tensor>,
    bias: Option<&Tensor>,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    let refuse = |what: &str| Err(Error::runtime(what.to_string()));
    let (da, db) = (a.dims(), b.dims());
    for (name, dims, dtype) in [("mat_a", da, a.dtype()), ("mat_b", db, b.dtype())] {
        if !matches!(dims.len(), 2 | 3) {
            return refuse(&format!("{name} has to be 2 or 3d"));
        }
        if !matches!(dtype, DType::F32 | DType::BF16 | DType::F16 | DType::F64) {
            return refuse(&format!(
                "Expected {name} to be Float32, BFloat16 or Float16 matrix, got {}",
                dtype.scalar_type()
            ));
        }
    }
    if a.dtype() != b.dtype() {
        return refuse(&format!(
            "Expected mat_a and mat_b to have the same dtype, got {} and {}",
            a.dtype().scalar_type(),
            b.dtype().scalar_type()
        ));
    }
    let (ra, rb) = (da.len(), db.len());
    if da[ra - 1] != db[rb - 2] {
        return refuse("contraction dimension of mat_a and mat_b must match");
    }
    if offs.is_some() == (ra == 3 && rb == 3) {
        return refuse("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
    }
    if bias.is_some() {
        return refuse("Bias not supported yet");
    }
    if out_dtype.is_some_and(|dtype| dtype != a.dtype()) {
        return refuse("Grouped gemm output dtype must match `mat_a` dtype");
    }
    let Some(ends) = offs else {
        return if da[0] == db[0] { a.bmm(b) } else { refuse("batched dimension has to match") };
    };
    if ends.dims().len() != 1 {
        return refuse("offs has to be 1D");
    }
    if ends.dtype() != DType::I32 {
        return refuse("Offsets have to be int32");
    }
    let groups = if ra == 3 {
        Some(da[0])
    } else if rb == 3 {
        Some(db[0])
    } else {
        None
    };
    if groups.is_some_and(|groups| groups != ends.numel()) {
        return refuse("matrix batch sizes have to match");
    }
    let size = match (ra, rb) {
        (2, 3) => da[0],
        (3, 2) => db[1],
        _ => da[1],
    };
    let ends = &guard(ends, size)?;
    match (ra, rb) {
        (2, 3) => call(false, a, b, ends),
        // The groups divide the columns of `b`, which are the rows of the transposed product.
        (3, 2) => call(false, &b.transpose(0, 1)?, &a.transpose(1, 2)?, ends)?.transpose(0, 1),
        _ => call(true, a, b, ends),
    }
}
