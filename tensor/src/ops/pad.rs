//! Padding: `Pad`, and the inverses of slicing.

use crate::axes::Axes;
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values, same_device};
use crate::ops::shape::Slice;
use crate::schema::{Row, SampleArg, Scope, Tier, ints, n, t};
use crate::{Dims, Error, Meta, Result, Scalar, Tensor, dispatch, samples};
use smallvec::{SmallVec, smallvec};
use torchtpu_stablehlo::ElementType::{Pred, S64};

/// Surrounds a tensor with a number, and spreads its elements. Negative `low` and `high` crop.
///
/// | operand | shape |
/// |---|---|
/// | x | `[n0, n1, ..]` |
/// | value | 0-d, dtype of x |
/// | y | `low + high + (n - 1) * (interior + 1) + 1` each, or `low + high` where n is 0 |
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pad {
    pub(crate) low: SmallVec<[i32; 8]>,
    pub(crate) high: SmallVec<[i32; 8]>,
    interior: SmallVec<[u32; 8]>,
}

impl Pad {
    /// For each dimension: elements before, after, and between neighbours.
    fn new(spec: &[(i64, i64, usize)], rank: usize) -> Result<Pad> {
        let n = spec.len().max(rank);
        let mut p = Pad { low: smallvec![0; n], high: smallvec![0; n], interior: smallvec![0; n] };
        let small = |v: i64| i32::try_from(v).map_err(|_| Error::runtime(format!("padding size {v} is too large")));
        for (i, &(l, h, k)) in spec.iter().enumerate() {
            (p.low[i], p.high[i], p.interior[i]) = (small(l)?, small(h)?, small(k as i64)? as u32);
        }
        Ok(p)
    }
    /// The numbers of elements before and after, the last dimension first, if none is put between others.
    pub(crate) fn by_dimension(&self) -> Option<Vec<i64>> {
        let is_outside = self.interior.iter().all(|n| *n == 0);
        let pairs = self.low.iter().zip(&self.high).rev();
        is_outside.then(|| pairs.flat_map(|(&low, &high)| [i64::from(low), i64::from(high)]).collect())
    }
    fn size(&self, i: usize, n: usize) -> i64 {
        let body = if n == 0 { 0 } else { (n as i64 - 1) * (self.interior[i] as i64 + 1) + 1 };
        body + self.low[i] as i64 + self.high[i] as i64
    }
    /// The dimensions in which another offset of the elements, with as many elements added or cropped in all, gives the
    /// same sizes.
    pub(crate) fn moving(&self) -> impl Iterator<Item = usize> {
        (0..self.low.len()).filter(|&d| {
            let (low, high) = (self.low[d], self.high[d]);
            let is_cut = low <= 0 && high <= 0 && self.interior[d] == 0;
            ((low >= 0 && high >= 0) || is_cut) && low.checked_add(high).is_some_and(|n| n != 0)
        })
    }
    /// StableHLO spelling of one result.
    pub(crate) fn surround(&self, f: &mut Func, x: &Value, value: &Value) -> Value {
        let r = x.rank();
        let wide = |v: &[i32]| v[..r].iter().map(|&v| v as i64).collect::<Vec<_>>();
        let interior: Vec<i64> = self.interior[..r].iter().map(|&v| v as i64).collect();
        f.pad(x, value, &wide(&self.low), &wide(&self.high), &interior)
    }
}

impl Op for Pad {
    const NAME: &'static str = "constant_pad_nd";
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let mut dims = *x[0].dims();
        for i in 0..dims.len() {
            let n = self.size(i, dims[i]);
            if n < 0 {
                return Err(Error::runtime(format!(
                    "The input size {}, plus negative padding {} and {}, resulted in a negative output size {n}, which \
                    is invalid. Check dimension {i} of your input.",
                    dims[i], self.low[i], self.high[i]
                )));
            }
            dims.set(i, n as usize);
        }
        Ok(x[0].meta().with_dims(dims))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let is_padded = |i: &usize| self.low[*i] != 0 || self.high[*i] != 0 || self.interior[*i] != 0;
        let mask = (0..self.low.len()).filter(is_padded).fold(0, |m, i| m | 1 << i);
        Axes::except(mask, x, y).linear(&[0b11])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (x, value, out) = (x[0], x[1], &y[0]);
        let zero_strides = Dims::filled(0, out.dims().len());
        torchtpu_kernels::copy::copy(&value.view_as(out.dims(), &zero_strides), &mut out.view_mut());
        // The elements that stay, and the place of the first of them.
        let (mut from, mut to) = (x.detach(), out.detach());
        for i in 0..x.dims().len() {
            let step = self.interior[i] as i64 + 1;
            let (low, n, m) = (self.low[i] as i64, x.dims()[i] as i64, out.dims()[i] as i64);
            let first = if low < 0 { (-low + step - 1) / step } else { 0 };
            let start = low + first * step;
            let count = if start >= m { 0 } else { ((m - 1 - start) / step + 1).min(n - first).max(0) };
            if count <= 0 {
                return Ok(());
            }
            from = from.narrow(i as i64, first, count)?;
            to = to.slice(i as i64, Some(start), Some(start + (count - 1) * step + 1), step)?;
        }
        torchtpu_kernels::copy::copy(&from.view(), &mut to.view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        smallvec![self.surround(f, &x[0], &x[1])]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let dims = s.meta(0).dims;
        let gx = if s.needs(0) {
            // Crop back (or pad, if it had cropped), then take every step-th element.
            let mut y = pad(
                g,
                &(0..dims.len()).map(|i| (-(self.low[i] as i64), -(self.high[i] as i64), 0)).collect::<Vec<_>>(),
                Scalar::Int(0),
            )?;
            for i in 0..dims.len() {
                y = y.slice(i as i64, None, None, self.interior[i] as i64 + 1)?;
            }
            Some(y)
        } else {
            None
        };
        let gv = if s.needs(1) {
            let inside = pad(
                &Tensor::full_meta(&s.meta(0).with_dtype(g.dtype()), Scalar::Int(0))?,
                &(0..dims.len())
                    .map(|i| (self.low[i] as i64, self.high[i] as i64, self.interior[i] as usize))
                    .collect::<Vec<_>>(),
                Scalar::Int(1),
            )?;
            Some(g.mul(&inside)?.sum()?)
        } else {
            None
        };
        Ok(smallvec![gx, gv])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// Surround with a number: elements before, after and between neighbours, for each dimension.
pub(crate) fn pad(x: &Tensor, spec: &[(i64, i64, usize)], value: Scalar) -> Result<Tensor> {
    if spec.iter().all(|s| *s == (0, 0, 0)) {
        return Ok(x.clone());
    }
    dispatch::call(Prim::Pad(Box::new(Pad::new(spec, x.dims().len())?)), &[x, &Tensor::number(value, x.dtype())?])
}

/// Surround with a number: elements before and after, for each dimension.
///
/// # Errors
/// `Runtime` when a size becomes negative.
pub fn pad_constant(x: &Tensor, low_high: &[(i64, i64)], value: Scalar) -> Result<Tensor> {
    crate::ops::creation::check_range(value, x.dtype())?;
    pad(x, &low_high.iter().map(|&(l, h)| (l, h, 0)).collect::<Vec<_>>(), value)
}

/// Zeros of size `n` along the sliced dimension, with `g` at the place of the slice.
pub(crate) fn unslice(g: &Tensor, s: &Slice, n: usize) -> Result<Tensor> {
    let mut spec = vec![(0, 0, 0); g.dims().len()];
    // An empty slice may be put at any place.
    let start = if s.len == 0 { n } else { s.start };
    spec[s.dim] = (start as i64, (n - start - s.span()) as i64, s.between());
    pad(g, &spec, Scalar::Int(0))
}

/// Replaces the elements that a slice selects.
///
/// | operand | shape |
/// |---|---|
/// | x | any |
/// | update | the slice's, dtype of x |
/// | y | as x |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SliceUpdate(pub Slice);

impl SliceUpdate {
    /// StableHLO spelling of one result, from `start` on.
    pub(crate) fn update(&self, f: &mut Func, x: &Value, update: &Value, start: &Value) -> Value {
        let s = &self.0;
        if s.len == 0 {
            return x.clone();
        }
        let mut new = update.clone();
        if s.between() > 0 {
            // Elements between those of the slice stay: all elements that it spans are replaced, some by themselves.
            let every = Slice { start: 0, len: s.span(), step: 1, ..*s };
            let old = crate::lower::offsets::slice(f, x, &every, start);
            let (none, mut interior) = (vec![0; update.rank()], vec![0; update.rank()]);
            interior[s.dim] = s.between() as i64;
            let spread = |f: &mut Func, v: &Value, other: &Value| f.pad(v, other, &none, &none, &interior);
            let (yes, no) = (f.splat(1.0, &update.ty().with_element(Pred)), f.scalar(0.0, Pred));
            let zero = f.scalar(0.0, update.element());
            let (hit, put) = (spread(f, &yes, &no), spread(f, update, &zero));
            new = f.select(&hit, &put, &old);
        }
        let at = crate::lower::offsets::starts(f, x.rank(), s.dim, start);
        f.dynamic_update_slice(x, &new, &at)
    }
}
impl Op for SliceUpdate {
    const NAME: &'static str = "slice_scatter";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        same_device(x)?;
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(1 << self.0.dim, x, y).linear(&[0b11])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let s = &self.0;
        torchtpu_kernels::copy::copy(&x[0].view(), &mut y[0].view_mut());
        let part = y[0].slice(s.dim as i64, Some(s.start as i64), Some((s.start + s.span()) as i64), s.step as i64)?;
        torchtpu_kernels::copy::copy(&x[1].view(), &mut part.view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        let start = f.scalar_i64(self.0.start as i64, S64);
        smallvec![self.update(f, &x[0], &x[1], &start)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let taken = s.needs(1).then(|| dispatch::call_view(Prim::Slice(self.0), g)).transpose()?;
        let left = || slice_scatter(g, &Tensor::zeros_like_meta(&s.meta(1).with_dtype(g.dtype()))?, self.0);
        Ok(smallvec![s.needs(0).then(left).transpose()?, taken])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// `x` with the sliced elements replaced by `y`.
pub(crate) fn slice_scatter(x: &Tensor, y: &Tensor, s: Slice) -> Result<Tensor> {
    if s.len == x.dims()[s.dim] {
        return Ok(y.clone());
    }
    // An empty slice has a history too.
    if s.len == 0 && !y.requires_grad() {
        return Ok(x.clone());
    }
    dispatch::call(Prim::SliceUpdate(SliceUpdate(s)), &[x, y])
}

/// Widths from the user, last dimension first, as one triple for each dimension.
fn widths(x: &Tensor, pads: &[i64]) -> Result<Vec<(i64, i64)>> {
    let rank = x.dims().len();
    if !pads.len().is_multiple_of(2) {
        return Err(Error::runtime("Padding length must be divisible by 2"));
    }
    if pads.len() / 2 > rank {
        return Err(Error::runtime(format!(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while \
            the input has {rank} dimensions.",
            pads.len()
        )));
    }
    let mut v = vec![(0, 0); rank];
    for (i, p) in pads.chunks(2).enumerate() {
        v[rank - 1 - i] = (p[0], p[1]);
    }
    Ok(v)
}

/// Padding with the tensor's own elements, one dimension after the other.
fn pad_by_own(x: &Tensor, pads: &[i64], mode: &str) -> Result<Tensor> {
    let (spatial, d) = (pads.len() / 2, x.dims());
    if mode != "circular" && (d.len() == spatial + 1 || d.len() == spatial + 2) {
        let batch = d.len() - spatial - 1;
        if d[batch..].contains(&0) {
            return Err(Error::runtime(format!(
                "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for \
                input, but got: {d}",
                spatial + 1,
                spatial + 2
            )));
        }
    }
    let mut y = x.clone();
    for (d, (low, high)) in widths(x, pads)?.into_iter().enumerate() {
        if (low, high) == (0, 0) {
            continue;
        }
        let (n, d) = (y.dims()[d] as i64, d as i64);
        let middle = y.narrow(d, (-low).max(0), n - (-low).max(0) - (-high).max(0))?;
        let part = |count: i64, front: bool| -> Result<Option<Tensor>> {
            if count <= 0 {
                return Ok(None);
            }
            match mode {
                "reflect" => {
                    if count >= n {
                        return Err(Error::runtime(format!(
                            "Argument #4: Padding size should be less than the corresponding input dimension, but got: \
                            padding ({low}, {high}) at dimension {d} of input {}",
                            x.dims()
                        )));
                    }
                    let s = if front { y.narrow(d, 1, count)? } else { y.narrow(d, n - 1 - count, count)? };
                    crate::ops::concat::flip(&s, &[d]).map(Some)
                }
                "replicate" => {
                    let edge = y.narrow(d, if front { 0 } else { n - 1 }, 1)?;
                    let mut dims: Vec<i64> = y.dims().iter().map(|&n| n as i64).collect();
                    dims[d as usize] = count;
                    edge.expand(&dims).map(Some)
                }
                _ => {
                    // Elements that a negative width crops do not come back at the other end.
                    let n = middle.dims()[d as usize] as i64;
                    if count > n {
                        return Err(Error::runtime("Padding value causes wrapping around more than once."));
                    }
                    middle.narrow(d, if front { n - count } else { 0 }, count).map(Some)
                }
            }
        };
        let (front, back) = (part(low, true)?, part(high, false)?);
        let parts: Vec<&Tensor> = front.iter().chain([&middle]).chain(back.iter()).collect();
        y = crate::ops::concat::cat(&parts, d)?;
    }
    y.copy_if_view(x)
}

pub(crate) fn pad_mode(x: &Tensor, pads: &[i64], mode: &str, value: Option<Scalar>) -> Result<Tensor> {
    match mode {
        "constant" => {
            // As in PyTorch the value is a float, also for integers, where negative ones do not wrap.
            let value = match value.unwrap_or(Scalar::Int(0)) {
                v @ (Scalar::Complex(..) | Scalar::Bool(_)) => v,
                v => {
                    crate::ops::creation::check_range(Scalar::Float(v.to_f64()), x.dtype())?;
                    v
                }
            };
            pad_constant(x, &widths(x, pads)?, value)?.copy_if_view(x)
        }
        "reflect" | "replicate" | "circular" if value.is_some_and(|v| v.to_f64() != 0.0) => {
            Err(Error::runtime(format!("Padding mode \"{mode}\" doesn't take in value argument")))
        }
        "reflect" | "replicate" | "circular" => {
            let rank = x.dims().len();
            let n = pads.len() / 2;
            if !pads.len().is_multiple_of(2) {
                return Err(Error::runtime("Padding length must be divisible by 2"));
            }
            if n > rank {
                return Err(Error::runtime(format!(
                    "Padding length should be less than or equal to two times the input dimension but got padding \
                    length {} and input of dimension {rank}",
                    pads.len()
                )));
            }
            if !((1..=3).contains(&n) && (rank == n + 1 || rank == n + 2)) {
                return Err(Error::not_implemented(format!(
                    "Padding size {} is not supported for {rank}D input tensor.\n\
                    Supported combinations for non-constant padding:\n  \
                    - 2D or 3D input: padding size = 2 (pads last dimension)\n  \
                    - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n  \
                    - 4D or 5D input: padding size = 6 (pads last 3 dimensions)",
                    pads.len()
                )));
            }
            pad_by_own(x, pads, mode)
        }
        other => Err(Error::not_implemented(format!("Unrecognised padding mode {other}"))),
    }
}

/// Rows of the padding functions.
pub const ROWS: &[Row] = &[
    Row::new(
        "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
        Tier::Prim,
        |a| Ok(pad_mode(a.tensor(0)?, a.ints(1)?, "constant", Some(a.scalar(2)?))?.into()),
        samples!([t(&[2, 3]), ints(&[1, 2])], [t(&[3, 4]), ints(&[-1, 1, 2, 0]), n(0.5)]),
    )
    .doc(
        "Return `input` surrounded with `value`. `pad` holds pairs `(before, after)`, the first one for the last \
         dimension, the next one for the dimension before it. A negative width cuts elements off. A size that would \
         become negative raises `RuntimeError`. Any dtype.",
    )
    .scope(Scope::Function),
    Row::new(
        "pad(Tensor self, SymInt[] pad, str mode='constant', float? value=None) -> Tensor",
        Tier::Composed,
        |a| Ok(pad_mode(a.tensor(0)?, a.ints(1)?, a.str(2)?, a.opt_scalar(3)?)?.into()),
        samples!(
            [t(&[2, 3]), ints(&[1, 2])],
            [t(&[1, 2, 4]), ints(&[2, 1]), SampleArg::Str("reflect")],
            [t(&[1, 2, 4]), ints(&[2, 1]), SampleArg::Str("replicate")],
            [t(&[1, 2, 4]), ints(&[2, 1]), SampleArg::Str("circular")]
        ),
    )
    .doc(
        "Return `input` with elements added before and after, as `pad` says: pairs `(before, after)`, the first one \
         for the last dimension. `mode` is `\"constant\"`, which fills with `value` (0 unless given), `\"reflect\"` \
         (mirrored without the edge), `\"replicate\"` (the edge repeated) or `\"circular\"` (the other end). A \
         negative width cuts elements off. Modes other than `\"constant\"` take no `value`, and one to three pairs \
         for an `input` of one or two dimensions more. `\"reflect\"` needs widths smaller than the size, \
         `\"circular\"` at most the size.",
    )
    .scope(Scope::Nn),
    Row::new(
        "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> \
        Tensor",
        Tier::Composed,
        |a| {
            let (x, y) = (a.tensor(0)?, a.tensor(1)?);
            let part = x.slice(a.int(2)?, a.opt_int(3)?, a.opt_int(4)?, a.int(5)?)?;
            if part.dims() != y.dims() {
                return Err(Error::runtime(format!(
                    "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
                    y.dims(),
                    part.dims()
                )));
            }
            let Some(Prim::Slice(s)) = part.view_info().and_then(|v| v.last_op().cloned()) else {
                unreachable!("a slice is a view")
            };
            let whole = s.len == x.dims()[s.dim];
            let z = slice_scatter(x, &y.to_dtype(x.dtype())?, s)?;
            // If nothing is left of `x`, its gradient is zero.
            let z = if whole { crate::ops::pointwise::independent_of(x, z)? } else { z };
            Ok(z.copy_if_view(x)?.copy_if_view(y)?.into())
        },
        samples!([t(&[5, 3]), t(&[2, 3]), n(0), n(1), n(4), n(2)], [t(&[5, 3]), t(&[5, 2]), n(1), n(0), n(2)]),
    )
    .doc(
        "Return a copy of `input` in which `src` replaces the elements `start:end:step` along `dim`. `src` has the \
         shape of that slice, and is cast to the dtype of `input`. `start` and `end` may be negative or too large, as \
         in slices of Python. Gradients flow to both.",
    ),
];
