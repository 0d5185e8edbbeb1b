//! Embeddings: rows of a table by index.

use crate::axes::{Axes, list};
use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn, same_device};
use crate::ops::indexing::{
    count_up, defer_index, gather, guard, index_add, index_copy, index_select, index_select_in_range,
    out_of_range_in_self, scatter_reduce,
};
use crate::ops::pointwise::{kernel_error, select, select_scalar};
use crate::schema::{Args, Ret, Row, Sample, SampleArg, Scope, Tier, index, n, positive, t};
use crate::types::compute::{compute_dtype, narrowed, widened};
use crate::{DType, Dims, Error, ErrorKind, Held, Meta, Result, Scalar, Tensor, dispatch, state};
use smallvec::smallvec;

/// `y[i.., :] = w[idx[i..], :]`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | w | `[v, *row]` | any |
/// | idx | any | `int64` or `int32` |
/// | y | `[*idx, *row]` | as w |
///
/// An index outside `0..v` is an error. The row `padding` gets no gradient. With `by_freq` the gradient of each row is
/// divided by the number of its uses. Saves the indices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Embedding {
    /// Row without a gradient.
    pub padding: Option<usize>,
    /// Whether gradients are means over a row's uses, not sums.
    pub by_freq: bool,
}

/// For each index, `1 / n` if it occurs `n` times, broadcast over rows of `rank` dimensions.
fn rarity(w: &Meta, idx: &Tensor) -> Result<Tensor> {
    let flat = idx.reshape_dims(Dims::new(&[idx.numel()]))?;
    let one = Meta { dims: Dims::new(&[w.dims[0]]), dtype: compute_dtype(w.dtype), place: w.place };
    let ones = Tensor::full_meta(&one.with_dims(*flat.dims()), Scalar::Float(1.0))?;
    let counts = index_add(&Tensor::zeros_like_meta(&one)?, 0, &flat, &ones)?;
    let own = index_select(&counts, 0, &flat)?.reciprocal()?.reshape_dims(*idx.dims())?;
    over_rows(&own.to_dtype(w.dtype)?, w.dims.len() - 1)
}

/// `cond`, of the shape of the indices, broadcast over rows of `rank` dimensions.
fn over_rows(cond: &Tensor, rank: usize) -> Result<Tensor> {
    let dims: Vec<usize> = cond.dims().iter().copied().chain(std::iter::repeat_n(1, rank)).collect();
    cond.reshape_dims(Dims::try_new(&dims)?)
}

impl Fused for Embedding {
    const NAME: &'static str = "embedding";
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        torchtpu_kernels::embedding::index_select_rows(&x[0].view(), &x[1].view(), &mut y[0].view_mut())
            .map_err(kernel_error)
    });
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let (w, idx) = (s.meta(0), s.x(1));
        if !s.needs(0) {
            return Ok(smallvec![None, None]);
        }
        let mut g = g.clone();
        if let Some(p) = o.padding {
            let is_padding = over_rows(&idx.eq_scalar(p as i64)?, w.dims.len() - 1)?;
            g = select_scalar(&is_padding, 0.0, &g)?;
        }
        if o.by_freq {
            g = g.mul(&rarity(w, idx)?)?;
        }
        let mut rows = w.dims;
        rows.set(0, idx.numel());
        let flat = idx.reshape_dims(Dims::new(&[idx.numel()]))?;
        let zeros = Tensor::zeros_like_meta(w)?;
        Ok(smallvec![Some(index_add(&zeros, 0, &flat, &g.reshape_dims(rows)?)?), None])
    });
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (w, idx) = (x[0], x[1]);
        if w.dims().is_empty() {
            return Err(Error::runtime("'weight' must be 2-D"));
        }
        if !matches!(idx.dtype(), DType::I64 | DType::I32) {
            return Err(Error::runtime(format!(
                "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but \
                got torch.{}Tensor instead (while checking arguments for embedding)",
                idx.dtype().scalar_type()
            )));
        }
        let dims: Vec<usize> = idx.dims().iter().chain(&w.dims()[1..]).copied().collect();
        Ok(Meta { dims: Dims::try_new(&dims)?, dtype: w.dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let (places, row) = (list("p", x[1].dims.len()), list("r", x[0].dims.len() - 1));
        Axes::parse(&format!("v {row}, {places} -> {places} {row}"), x, y).indexes(1, "v").linear(&[0b1])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (w, idx) = (x[0], x[1]);
        let dims: Dims = idx.dims().iter().chain(&w.dims()[1..]).copied().collect();
        let flat = idx.reshape_dims(Dims::new(&[idx.numel()]))?;
        let y = index_select_in_range(w, 0, &flat)?.reshape_dims(dims)?;
        if !(state::grad_enabled() && y.requires_grad()) {
            return Ok(smallvec![y]);
        }
        let y = if self.by_freq {
            // The same value, with only a part of its gradient.
            let fixed = y.detach();
            fixed.add(&y.sub(&fixed)?.mul(&rarity(w.meta(), idx)?)?)?
        } else {
            y
        };
        let Some(p) = self.padding else { return Ok(smallvec![y]) };
        let is_padding = over_rows(&idx.eq_scalar(p as i64)?, w.dims().len() - 1)?;
        Ok(smallvec![select(&is_padding, &y.detach(), &y)?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b10)
    }
}

/// `torch.embedding`. A negative `padding_idx` means none, as in aten.
///
/// # Errors
/// `Index` for an index outside the table (on `cpu`; see [`crate::ops::indexing`] for `tpu`), `Runtime` for a wrong
/// dtype or rank.
pub fn embedding(w: &Tensor, idx: &Tensor, padding_idx: i64, by_freq: bool) -> Result<Tensor> {
    if w.dims().len() != 2 {
        return Err(Error::runtime("'weight' must be 2-D"));
    }
    let idx = checked_rows(w, idx)?;
    dispatch::call(Prim::Embedding(Embedding { padding: usize::try_from(padding_idx).ok(), by_freq }), &[w, &idx])
}

/// Return `idx`, on a device tied to the error of an index outside the table `w`.
fn checked_rows(w: &Tensor, idx: &Tensor) -> Result<Tensor> {
    let size = w.dims().first().copied().unwrap_or(0);
    guard(idx, 0, size, move |i| out_of_range_in_self(i, size).in_op("index_select"))
}

/// `torch.embedding_renorm_`: scale down the rows that `idx` names to the norm `max`, if theirs is larger.
fn embedding_renorm(w: &Tensor, idx: &Tensor, max_norm: f64, p: f64) -> Result<Tensor> {
    if w.dims().len() != 2 {
        return Err(Error::runtime(format!(
            "Expected 2-dimensional tensor, but got {}-dimensional tensor for argument #1 'self' (while checking \
            arguments for embedding_renorm_)",
            w.dims().len()
        )));
    }
    expect_index(idx, "#2 'indices'", "embedding_renorm_")?;
    if idx.numel() == 0 {
        return w.copy();
    }
    let flat = idx.reshape_dims(Dims::new(&[idx.numel()]))?.to_dtype(DType::I64)?;
    let rows = widened(&index_select(w, 0, &flat)?)?;
    let norm = crate::ops::reduce::norm(&rows, Scalar::Float(p), Some(&[1]), true)?;
    let scaled = rows.mul(&norm.add_scalar(1e-7)?.reciprocal()?.mul_scalar(max_norm)?)?;
    // If an index occurs twice, both write the same row.
    index_copy(w, 0, &flat, &narrowed(select(&norm.gt_scalar(max_norm)?, &scaled, &rows)?, w.dtype())?)
}

/// Refuse `sparse=True` if a gradient would follow: sparse tensors do not exist here yet.
fn refuse_sparse(w: &Tensor, sparse: bool) -> Result<()> {
    if sparse && state::grad_enabled() && w.requires_grad() {
        return Err(Error::not_implemented(
            "embedding: sparse gradients are not implemented, because there are no sparse tensors yet",
        )
        .note("leave out sparse=True for a dense gradient"));
    }
    Ok(())
}

fn expect_index(x: &Tensor, which: &str, op: &str) -> Result<()> {
    if matches!(x.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "Expected tensor for argument {which} to have one of the following scalar types: Long, Int; but got \
        torch.{}Tensor instead (while checking arguments for {op})",
        x.dtype().scalar_type()
    )))
}

// ------------------------------------------------------------------------------------------------ bags

/// The reduction of the rows of a bag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Sum,
    Mean,
    Max,
}

/// Arguments of `torch.embedding_bag`.
struct Bags<'a> {
    weight: &'a Tensor,
    indices: Tensor,
    offsets: Tensor,
    by_freq: bool,
    mode: Mode,
    sample_weights: Option<&'a Tensor>,
    include_last: bool,
    padding: Option<i64>,
    /// Dtype of the further results.
    places: DType,
}

impl<'a> Bags<'a> {
    fn new(a: &Args<'a>, padding: Option<i64>) -> Result<Bags<'a>> {
        const OP: &str = "embedding_bag";
        let (weight, indices, offsets) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?);
        if weight.dims().len() != 2 {
            return Err(Error::runtime(format!(
                "weight has to be a 2D Tensor, but got Tensor of dimension {}",
                weight.dims().len()
            )));
        }
        let v = weight.dims()[0] as i64;
        let padding = match padding {
            Some(p) if p < -v || p >= v => {
                return Err(Error::runtime(format!(
                    "padding_idx must be within the number of embeddings, {} through {}, but got {p}",
                    -v,
                    v - 1
                )));
            }
            p => p.map(|p| p.rem_euclid(v)),
        };
        for (x, name) in [(indices, "input"), (offsets, "offsets")] {
            if x.dims().len() != 1 && !(name == "input" && x.dims().len() == 2) {
                return Err(Error::runtime(format!(
                    "{name} has to be a 1D{} Tensor, but got Tensor of dimension {}",
                    if name == "input" { " or 2D" } else { "" },
                    x.dims().len()
                )));
            }
        }
        expect_index(indices, "#1 'indices'", OP)?;
        expect_index(offsets, "#1 'offsets'", OP)?;
        if !weight.dtype().is_float() {
            return Err(Error::runtime(format!(
                "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, \
                Float, Double; but got torch.{}Tensor instead (while checking arguments for {OP})",
                weight.dtype().scalar_type()
            )));
        }
        let mode = match a.int(4)? {
            0 => Mode::Sum,
            1 => Mode::Mean,
            2 => Mode::Max,
            _ => return Err(Error::runtime("`mode` must be sum, mean, or max.")),
        };
        let sample_weights = a.opt_tensor(6)?;
        if let Some(s) = sample_weights {
            if mode != Mode::Sum {
                return Err(Error::runtime("embedding_bag: per_sample_weights only supported with mode='sum'"));
            }
            if s.dtype() != weight.dtype() {
                return Err(Error::runtime(format!(
                    "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 \
                    'per_sample_weights'; but type torch.{}Tensor does not equal torch.{}Tensor (while checking \
                    arguments for {OP})",
                    weight.dtype().scalar_type(),
                    s.dtype().scalar_type()
                )));
            }
            if s.numel() != indices.numel() {
                return Err(Error::runtime(
                    "Expected per_sample_weights.value().numel() == indices.numel() to be true, but got false.  (Could \
                    this error message be improved?  If so, please report an enhancement request to PyTorch.)",
                ));
            }
        }
        refuse_sparse(weight, a.bool(5)?)?;
        let include_last = a.bool(7)?;
        if include_last && offsets.numel() == 0 {
            return Err(Error::runtime("include_last_offset: number of offset should be at least 1"));
        }
        let flat = indices.reshape_dims(Dims::new(&[indices.numel()]))?.to_dtype(DType::I64)?;
        let narrow = indices.dtype() == DType::I32 && offsets.dtype() == DType::I32;
        let mut bags = Bags {
            weight,
            places: if narrow { DType::I32 } else { DType::I64 },
            indices: flat,
            offsets: offsets.to_dtype(DType::I64)?,
            by_freq: a.bool(3)?,
            mode,
            sample_weights,
            include_last,
            padding,
        };
        bags.check_offsets()?;
        bags.indices = checked_rows(bags.weight, &bags.indices)?;
        Ok(bags)
    }
    /// The first bag starts with the first index, and no bag follows the last.
    fn check_offsets(&mut self) -> Result<()> {
        let (o, n) = (&self.offsets.clone(), self.indices.numel() as i64);
        if o.numel() == 0 {
            return Ok(());
        }
        let first = |v: String| {
            Error::runtime(format!(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. \
                However, got {v}"
            ))
        };
        let last = move |v: String| {
            Error::runtime(format!("offsets[-1] can not be greater than input's length {n} but got offsets[-1] of {v}"))
        };
        match o.place().held() {
            Held::Memory => {
                let v = o.to_vec::<i64>()?;
                if v[0] != 0 {
                    return Err(first(v[0].to_string()));
                }
                match v.last() {
                    Some(l) if *l > n => Err(last(l.to_string())),
                    _ => Ok(()),
                }
            }
            Held::Abstract => Ok(()),
            Held::Handle => state::no_grad(|| {
                let (head, tail) = (o.select(0, 0)?, o.select(0, -1)?);
                let tied = defer_index(&head.ne_scalar(0i64)?, &head, move |v| first(v.to_string()))?.tied(o)?;
                self.offsets = defer_index(&tail.gt_scalar(n)?, &tail, move |v| last(v.to_string()))?.tied(&tied)?;
                Ok(())
            }),
        }
    }
    fn rows(&self) -> Result<Tensor> {
        let op =
            Embedding { padding: self.padding.map(|p| p as usize), by_freq: self.by_freq && self.mode != Mode::Max };
        dispatch::call(Prim::Embedding(op), &[self.weight, &self.indices]).map_err(|e| {
            let v = self.weight.dims()[0] as i64;
            let at = |all: Vec<i64>| all.into_iter().enumerate().find(|(_, i)| !(0..v).contains(i));
            match self.indices.to_vec::<i64>().ok().and_then(at) {
                Some((k, i)) if e.kind() == ErrorKind::Index => Error::runtime(format!(
                    "Index {k} of input takes value {i} which is not in the valid range [0, {v})"
                )),
                _ => e,
            }
        })
    }
    /// The result, the bag of each index, the size of each bag, and the positions of maxima. The results that PyTorch's
    /// CPU leaves out are empty here too: the bags for sums of `float32` and narrower dtypes, and the sizes for all
    /// sums.
    fn run(&self) -> Result<Vec<Tensor>> {
        let (n, device) = (self.indices.numel(), self.weight.place());
        let count = self.offsets.numel() - usize::from(self.include_last);
        let long = |dims: &[usize]| Tensor::zeros(dims, DType::I64, device);
        let width = self.weight.dims()[1];
        let rows = self.rows()?;
        let starts = self.offsets.narrow(0, 0, count as i64)?;
        let place = count_up(n, device)?;
        let bag = crate::ops::sort::searchsorted(&starts, &place, true, false, None)?.sub_scalar(1i64)?;
        let unpadded = self.padding.map(|p| self.indices.ne_scalar(p)).transpose()?;
        let fast = self.mode != Mode::Max && unpadded.is_none() && self.weight.dtype() != DType::F64;
        let kept = if fast && self.include_last && n > 0 {
            // Only here the last offset ends the last bag.
            Some(place.lt(&self.offsets.select(0, -1)?)?)
        } else {
            unpadded.clone()
        };
        let nothing = long(&[count])?;
        let bags = if fast && self.mode == Mode::Sum { long(&[0])? } else { bag.clone() };
        let finish = |y: Tensor, sizes: Tensor, found: Tensor| -> Result<Vec<Tensor>> {
            let [bags, sizes, found] = [&bags, &sizes, &found].map(|t| t.to_dtype(self.places));
            Ok(vec![y, bags?, sizes?, found?])
        };
        if n == 0 || count == 0 {
            // The result must be part of the history even so.
            let zeros = Tensor::zeros(&[count, width], self.weight.dtype(), device)?;
            let mut none = rows.narrow(0, 0, 0)?;
            if let Some(s) = self.sample_weights {
                none = none.mul(&s.reshape(&[-1])?.narrow(0, 0, 0)?.unsqueeze(1)?)?;
            }
            let y = index_add(&zeros, 0, &long(&[0])?, &none)?;
            let found = if self.mode == Mode::Max { long(&[count, width])? } else { nothing.clone() };
            return finish(y, nothing, found);
        }
        let sizes = |kept: &Option<Tensor>| {
            let counted = match kept {
                Some(k) => k.to_dtype(DType::I64)?,
                None => Tensor::ones(&[n], DType::I64, device)?,
            };
            index_add(&nothing, 0, &bag, &counted)
        };
        if self.mode == Mode::Max {
            let (y, found) = self.maxima(&rows, &bag, kept.as_ref(), count)?;
            return finish(y, sizes(&unpadded)?, found);
        }
        let mut rows = rows;
        if let Some(s) = self.sample_weights {
            rows = widened(&rows)?.mul(&widened(&s.reshape_dims(Dims::new(&[n, 1]))?)?)?;
        }
        if let Some(k) = &kept {
            rows = select_scalar(&k.logical_not()?.unsqueeze(1)?, 0.0, &rows)?;
        }
        let wide = rows.to_dtype(compute_dtype(rows.dtype()))?;
        let zeros = Tensor::zeros(&[count, width], wide.dtype(), device)?;
        let mut y = index_add(&zeros, 0, &bag, &wide)?;
        let mut found = nothing.clone();
        if self.mode == Mode::Mean {
            found = sizes(&unpadded)?;
            y = y.div(&sizes(&kept)?.maximum_scalar(1i64)?.to_dtype(y.dtype())?.unsqueeze(1)?)?;
        }
        finish(y.to_dtype(self.weight.dtype())?, found.clone(), found)
    }
    /// Maxima of each bag, and the index of the row of each maximum, the first one of equals.
    fn maxima(&self, rows: &Tensor, bag: &Tensor, kept: Option<&Tensor>, count: usize) -> Result<(Tensor, Tensor)> {
        let (n, width, device) = (rows.dims()[0], rows.dims()[1], rows.place());
        let over = |x: &Tensor| x.unsqueeze(1)?.expand_dims(&Dims::new(&[n, width]));
        let at_bag = over(bag)?;
        let mut v = rows.detach();
        let lowest = f64::NEG_INFINITY;
        if let Some(k) = kept {
            v = select_scalar(&k.logical_not()?.unsqueeze(1)?, lowest, &v)?;
        }
        let start = Tensor::full(&[count, width], lowest, v.dtype(), device)?;
        let top = scatter_reduce(&start, 0, &at_bag, &v, "amax", true)?;
        let mut hit = v.eq(&gather(&top, 0, &at_bag)?)?.logical_or(&v.ne(&v)?)?;
        if let Some(k) = kept {
            hit = hit.logical_and(&k.unsqueeze(1)?)?;
        }
        let none = Tensor::number(Scalar::Int(n as i64), DType::I64)?;
        let place = select(&hit, &over(&count_up(n, device)?)?, &none)?;
        let never = Tensor::full(&[count, width], n as i64, DType::I64, device)?;
        let first = scatter_reduce(&never, 0, &at_bag, &place, "amin", true)?;
        let empty = first.eq_scalar(n as i64)?;
        let zero = Tensor::number(Scalar::Int(0), DType::I64)?;
        let at = select(&empty, &zero, &first)?;
        let y = select_scalar(&empty, 0.0, &gather(rows, 0, &at)?)?;
        let row = index_select(&self.indices, 0, &at.reshape_dims(Dims::new(&[count * width]))?)?;
        Ok((y, select(&empty, &zero, &row.reshape_dims(*at.dims())?)?))
    }
}

fn bag_samples(padding: bool) -> Vec<Sample> {
    // One bag is empty, and the other one has all indices.
    let of = |mode: i64, weights: Option<SampleArg>| {
        let mut args = vec![t(&[5, 3]), index(&[6], 5), index(&[2], 3), n(false), n(mode), n(false)];
        args.push(weights.unwrap_or(SampleArg::Default));
        if padding {
            args.extend([n(false), n(2)]);
        }
        Sample::new(args)
    };
    // The padding row has no gradient, although values depend on it.
    let of = |mode, weights| if padding { of(mode, weights).no_gradient() } else { of(mode, weights) };
    vec![of(0, None), of(1, None), of(2, None), of(0, Some(positive(&[6])))]
}

/// Rows of the embeddings. `sparse` is refused where gradients are recorded.
pub const ROWS: &[Row] = &[
    Row::new(
        "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool \
        sparse=False) -> Tensor",
        Tier::Fused,
        |a| {
            refuse_sparse(a.tensor(0)?, a.bool(4)?)?;
            Ok(embedding(a.tensor(0)?, a.tensor(1)?, a.int(2)?, a.bool(3)?)?.into())
        },
        || {
            vec![
                Sample::new(vec![t(&[5, 3]), index(&[2, 4], 5)]),
                Sample::new(vec![t(&[5, 3]), index(&[4], 5), n(2)]).no_gradient(),
                Sample::new(vec![t(&[5, 3]), index(&[7], 5), n(-1), n(true)]).no_gradient(),
                Sample::new(vec![t(&[5, 3]), index(&[0], 5)]),
            ]
        },
    )
    .doc(
        "Return the rows of `weight` `(v, d)` at `indices`, `int64` or `int32` of any shape, as `(*indices.shape, \
         d)`. The row `padding_idx` gets no gradient, if it is 0 or more. With `scale_grad_by_freq`, the gradient of \
         a row is divided by the number of times that the row was used. An index outside `[0, v)` raises \
         `IndexError`. `sparse=True` raises `NotImplementedError` where `weight` needs a gradient.",
    )
    .scope(Scope::Function),
    Row::new(
        "embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
        Tier::Composed,
        |a| Ok(embedding_renorm(a.tensor(0)?, a.tensor(1)?, a.float(2)?, a.float(3)?)?.into()),
        || {
            vec![
                Sample::new(vec![t(&[5, 3]), index(&[4], 4), n(1.5), n(2.0)]).no_gradient(),
                Sample::new(vec![t(&[5, 3]), index(&[2, 2], 5), n(2.0), n(1.0)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return `input`, of shape `(v, d)`, with the rows at `indices` scaled down to `max_norm` where their \
         `norm_type`-norm is larger. The factor is `max_norm / (norm + 1e-7)`. `indices` has dtype `int64` or \
         `int32`.",
    )
    .inplace()
    .scope(Scope::Aten)
    .in_place_function(),
    Row::new(
        "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool \
        sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, \
        Tensor)",
        Tier::Composed,
        |a| Ok(Ret::Tuple(Bags::new(a, None)?.run()?)),
        || bag_samples(false),
    )
    .doc(
        "Return the sums, means or maxima (`mode` 0, 1, 2) of bags of rows of `weight`, floating point `(v, d)`, as \
         `(bags, d)`. `indices` lists the rows of all bags one after the other, and bag `b` begins at `offsets[b]`; \
         an empty bag gives zeros. Three further results hold the bag of each index, the size of each bag and the \
         rows of the maxima, as far as PyTorch's `cpu` kernels fill them for the `mode`. `per_sample_weights`, for \
         sums only, multiplies each row. With `include_last_offset` the last offset begins no bag, and indices equal \
         to `padding_idx` do not count.",
    )
    .no_out()
    .scope(Scope::Function),
    Row::new(
        "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, \
        bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, \
        Tensor, Tensor)",
        Tier::Composed,
        |a| Ok(Ret::Tuple(Bags::new(a, a.opt_int(8)?)?.run()?)),
        || bag_samples(true),
    )
    .no_out()
    .scope(Scope::Function),
];
