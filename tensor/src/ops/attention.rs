//! Scaled dot product attention.

use crate::axes::{Axes, Combine, last};
use crate::graph::may_need_grad;
use crate::lower::attention as lowered;
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, Operand};
use crate::op::{
    Attribute, Attributes, F64, Facts, Fused, KernelFn, LowerFn, Outs, Prim, Saves, VjpFn, broadcast_dims, same_device,
};
use crate::ops::matmul::{with_products_of, with_wide_sums};
use crate::ops::pointwise::{broadcast_strides, select, select_scalar};
use crate::policy::{Policies, Policy};
use crate::schema::{Row, Sample, SampleArg, Scope, Tier, mask, n, t};
use crate::types::compute::{compute_dtype, expect_float, narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, backend, dispatch, no_grad, state};
use smallvec::smallvec;
use torchtpu_kernels::attention as kernels;
use torchtpu_kernels::{View, ViewMut};

/// `softmax(scale * q k^T + mask) v`, one head at a time.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | q | `[b, h, l, e]` | floating point |
/// | k | `[b, kv, s, e]` | as q |
/// | v | `[b, kv, s, ev]` | as q |
/// | mask | broadcasts to `[b, h, l, s]`, optional | `bool` (true: seen), or as q or `float32` (added) |
/// | y | `[b, h, l, ev]` | as q |
/// | lse | `[b, h, l]` | that of arithmetic |
///
/// With `rows_first`, q, k, v and y are `[b, l, h, e]`. `kv` divides `h`: each head of keys and values belongs to a run
/// of query heads.
///
/// A query that sees no key gives zeros. The weights are never kept: the gradient computes them again from `lse`. Saves
/// all operands and lse, and y if `keeps_output`. The mask gets no gradient here; if one is wanted, the plain
/// composition is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attention {
    /// Factor of the scores.
    pub scale: F64,
    /// Whether row `i` sees only the keys `0..=i`.
    pub is_causal: bool,
    /// Whether there is a mask.
    pub mask: bool,
    /// Whether rows come before heads, the layout that a linear layer writes and the next one reads.
    pub rows_first: bool,
    /// Whether the gradient gets the output. In the lowering this saves a pass over all scores.
    pub keeps_output: bool,
}

/// Gradients of [`Attention`] for q, k, v, from `g, q, k, v, lse[, y][, mask]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AttentionBackward {
    /// The op whose gradient this is.
    pub of: Attention,
}

impl Attention {
    /// Scores with scale and masks applied. Keys that a query does not see have minus infinity.
    fn scores(&self, q: &Tensor, k: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let s = q.matmul(&k.transpose(-2, -1)?)?.mul_scalar(self.scale.get())?;
        let hidden = |s: &Tensor| Tensor::number(Scalar::Float(f64::NEG_INFINITY), s.dtype());
        let s = match mask {
            Some(m) if m.dtype() == DType::Bool => select(m, &s, &hidden(&s)?)?,
            // A `float32` mask keeps its precision: the sum is `float32`, too.
            Some(m) => s.add(m)?,
            None => s,
        };
        if !self.is_causal {
            return Ok(s);
        }
        let (l, n) = (q.dims()[q.dims().len() - 2], k.dims()[k.dims().len() - 2]);
        let count =
            |n: usize| Tensor::arange(Scalar::Int(0), Scalar::Int(n as i64), Scalar::Int(1), DType::I64, s.place());
        let seen = count(n)?.le(&count(l)?.unsqueeze(1)?)?;
        select(&seen, &s, &hidden(&s)?)
    }
    /// `(weights, lse)` of scores. Rows of minus infinity have weights of zero.
    fn weights(s: &Tensor) -> Result<(Tensor, Tensor)> {
        if s.numel() == 0 {
            // Without keys, no query sees any.
            let mut d = *s.dims();
            d.remove(d.len() - 1);
            let lse = Tensor::full_meta(&s.meta().with_dims(d), Scalar::Float(f64::NEG_INFINITY))?;
            return Ok((s.exp()?, lse));
        }
        let top = s.detach().amax(&[-1], true)?;
        let top = select_scalar(&top.eq_scalar(f64::NEG_INFINITY)?, 0.0, &top)?;
        let e = s.sub(&top)?.exp()?;
        let sum = e.sum_dim(&[-1], true)?;
        let divisor = select_scalar(&sum.eq_scalar(0.0)?, 1.0, &sum)?;
        let lse = sum.detach().log()?.add(&top)?.squeeze(-1)?;
        Ok((e.div(&divisor)?, lse))
    }
    pub(crate) fn spec<'a>(&self, mask: Option<View<'a>>) -> kernels::Attention<'a> {
        kernels::Attention { scale: self.scale.get(), is_causal: self.is_causal, rows_first: self.rows_first, mask }
    }
    /// Reorder four items, one for each dimension, between `[b, h, l, e]` and the order of the operands.
    pub(crate) fn heads_first<T: Copy>(&self, d: &[T]) -> [T; 4] {
        if self.rows_first { [d[0], d[2], d[1], d[3]] } else { [d[0], d[1], d[2], d[3]] }
    }
    /// The dimensions of queries, of keys, and of `lse`. A head of keys belongs to `g` query heads.
    fn texts(&self) -> [String; 3] {
        // The index of a causal row decides which keys it sees.
        let l = if self.is_causal { "_" } else { "l" };
        let [q, k] = match self.rows_first {
            true => [format!("b {l} (h g) _"), "b _ h _".into()],
            false => [format!("b (h g) {l} _"), "b h _ _".into()],
        };
        [q, k, format!("b (h g) {l}")]
    }
    /// An operand as `[b, h, l, e]`, or the reverse.
    fn turned(&self, x: &Tensor) -> Result<Tensor> {
        if self.rows_first { x.transpose(1, 2) } else { Ok(x.clone()) }
    }
    /// A result `[b, h, l, e]` in the order of the operands, contiguous like every op's result.
    fn laid(&self, y: Tensor) -> Result<Tensor> {
        self.turned(&y)?.contiguous()
    }
    /// Sizes of the scores.
    pub(crate) fn score_dims(&self, q: &[usize], k: &[usize]) -> Dims {
        let ([b, h, l, _], [_, _, s, _]) = (self.heads_first(q), self.heads_first(k));
        Dims::new(&[b, h, l, s])
    }
    /// Whether the device behind `tpu` runs attention of such queries and keys as one op: it calls the kernels, or is
    /// an accelerator. Otherwise the composition is compiled.
    fn is_one_op(&self, q: &Tensor, k: &Tensor) -> bool {
        let work = q.numel() * self.heads_first(k.dims())[2];
        kernel_call::is_called(work) || work > 0 && backend::profile(q.place()).lowers_attention
    }
    /// Whether several query heads share a head of keys.
    fn is_grouped(&self, q: &[usize], k: &[usize]) -> bool {
        self.heads_first(q)[1] != self.heads_first(k)[1]
    }
    /// The mask among the operands of the gradient.
    fn mask_of_backward<T: Copy>(&self, x: &[T]) -> Option<T> {
        x.get(5 + usize::from(self.keeps_output)).copied()
    }
}

/// The layout of operand `i` of a call. Operand `mask` is broadcast to the scores of operands `q` and `q + 1`.
fn mask_layout(o: &Attention, q: usize, mask: usize, i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
    let Operand { sizes, strides, .. } = &x[i];
    if i != mask {
        return (*sizes, *strides);
    }
    let scores = o.score_dims(&x[q].sizes, &x[q + 1].sizes);
    let mut spread = Dims::filled(0, 4);
    for (d, (&n, &stride)) in sizes.iter().zip(strides.iter()).enumerate() {
        spread.set(4 - sizes.len() + d, if n == 1 { 0 } else { stride });
    }
    (scores, spread)
}

fields! {
    Attention { scale, is_causal, mask, rows_first; keeps_output: false };
    AttentionBackward { of };
}

impl KernelCall for Attention {
    fn name() -> &'static str {
        "attention"
    }
    fn arity(&self) -> (usize, usize) {
        (3 + usize::from(self.mask), 2)
    }
    fn takes_windows(&self, i: usize) -> bool {
        i < 3
    }
    fn layout(&self, i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
        mask_layout(self, 0, 3, i, x)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([q, k, v, mask @ ..], [y, lse]) = (x, y) else { return Err(kernel_call::misfit(self)) };
        kernels::attention(q, k, v, &self.spec(mask.first().copied()), y, lse);
        Ok(())
    }
}

impl KernelCall for AttentionBackward {
    fn name() -> &'static str {
        "attention_backward"
    }
    fn arity(&self) -> (usize, usize) {
        (5 + usize::from(self.of.mask), 3)
    }
    fn takes_windows(&self, i: usize) -> bool {
        i < 4
    }
    fn layout(&self, i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
        mask_layout(&self.of, 1, 5, i, x)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([g, q, k, v, lse, mask @ ..], [gq, gk, gv]) = (x, y) else { return Err(kernel_call::misfit(self)) };
        kernels::attention_backward(g, q, k, v, lse, &self.of.spec(mask.first().copied()), gq, gk, gv);
        Ok(())
    }
}

impl Fused for Attention {
    fn attributes(&self) -> Attributes {
        vec![
            ("scale", Attribute::Float(self.scale.get())),
            ("is_causal", Attribute::Bool(self.is_causal)),
            ("mask", Attribute::Bool(self.mask)),
            ("rows_first", Attribute::Bool(self.rows_first)),
        ]
    }
    const NAME: &'static str = "scaled_dot_product_attention";
    const FACTS: Facts = Facts { autocast: Policies::both(Policy::Lower), ..Facts::NONE };
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 1;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let d = o.score_dims(x[0].dims(), x[1].dims());
        let strides = x.get(3).map(|m| broadcast_strides(m, &d));
        let mask = x.get(3).zip(strides.as_ref()).map(|(m, s)| m.view_as(&d, s));
        let (mut out, mut lse) = (y[0].view_mut(), y[1].view_mut());
        kernels::attention(&x[0].view(), &x[1].view(), &x[2].view(), &o.spec(mask), &mut out, &mut lse);
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> =
        Some(|o, f, x, y| match f.profile().calls_kernels && !o.is_grouped(x[0].shape(), x[1].shape()) {
            true => o.call_kernel(f, x, y),
            false => lowered::attention(o, f, x, y),
        });
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let mut x = vec![g, s.x(0), s.x(1), s.x(2), s.y(1)];
        if o.keeps_output {
            x.push(s.y(0));
        }
        if o.mask {
            x.push(s.x(3));
        }
        let d = dispatch::call_n(Prim::AttentionBackward(AttentionBackward { of: *o }), &x)?;
        let mut grads: crate::op::Grads = d.into_iter().map(Some).collect();
        if o.mask {
            grads.push(None);
        }
        Ok(grads)
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let [q, k, v] = [0, 1, 2].map(|i| self.heads_first(x[i].dims()));
        if !x[0].dtype().is_float() {
            return Err(Error::runtime(format!("expected scalar type Float but found {}", x[0].dtype().scalar_type())));
        }
        if x[1].dtype() != x[0].dtype() || x[2].dtype() != x[0].dtype() {
            return Err(Error::runtime(format!(
                "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and \
                value.dtype: {} instead.",
                x[0].dtype().c_name(),
                x[1].dtype().c_name(),
                x[2].dtype().c_name()
            )));
        }
        let heads_fit = q[1] == k[1] || (k[1] > 0 && q[1].is_multiple_of(k[1]));
        if q[0] != k[0] || !heads_fit || k[..2] != v[..2] || q[3] != k[3] || k[2] != v[2] {
            return Err(misfit(q, k, v));
        }
        if let Some(m) = x.get(3) {
            let d = self.score_dims(x[0].dims(), x[1].dims());
            if broadcast_dims(m.dims(), &d).ok() != Some(d) {
                broadcast_dims(&d, m.dims())?;
                return Err(Error::runtime(format!("a mask of sizes {} is larger than the scores, {d}", m.dims())));
            }
        }
        let mut dims = *x[0].dims();
        dims.set(3, v[3]);
        Ok(Meta { dims, dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        Meta {
            dims: self.heads_first(&first.dims)[..3].iter().copied().collect(),
            dtype: compute_dtype(first.dtype),
            place: first.place,
        }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let [q, k, heads] = self.texts();
        let mask = x.get(3).map_or(String::new(), |m| last(&format!("{heads} _"), m.dims.len()));
        Axes::parse(&format!("{q}, {k}, {k}, {mask} -> {q}, {heads}"), x, y)
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        self.is_one_op(x[0], x[1])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        with_products_of(x[0].dtype(), || {
            let wide = |i: usize| -> Result<Tensor> { widened(&self.turned(x[i])?) };
            let q = wide(0)?;
            let (k, v) = (repeat_heads(&q, &wide(1)?)?, repeat_heads(&q, &wide(2)?)?);
            let (w, lse) = Attention::weights(&self.scores(&q, &k, x.get(3).copied())?)?;
            Ok(smallvec![self.laid(narrowed(w.matmul(&v)?, x[0].dtype())?)?, lse])
        })
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(0b111 | (self.mask as u64) << 3, 0b10 | self.keeps_output as u64)
    }
}

impl Fused for AttentionBackward {
    const NAME: &'static str = "scaled_dot_product_attention_backward";
    const OUTS: usize = 3;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        if o.of.is_grouped(x[1].dims(), x[2].dims()) {
            return copy_all(&no_grad(|| o.expand(x))?, y);
        }
        let d = o.of.score_dims(x[1].dims(), x[2].dims());
        let mask = o.of.mask_of_backward(x);
        let strides = mask.map(|m| broadcast_strides(m, &d));
        let mask = mask.zip(strides.as_ref()).map(|(m, s)| m.view_as(&d, s));
        let (mut gq, mut gk, mut gv) = (y[0].view_mut(), y[1].view_mut(), y[2].view_mut());
        kernels::attention_backward(
            &x[0].view(),
            &x[1].view(),
            &x[2].view(),
            &x[3].view(),
            &x[4].view(),
            &o.of.spec(mask),
            &mut gq,
            &mut gk,
            &mut gv,
        );
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| {
        let has_kernel = !o.of.keeps_output && !o.of.is_grouped(x[1].shape(), x[2].shape());
        match f.profile().calls_kernels && has_kernel {
            true => o.call_kernel(f, x, y),
            false => lowered::attention_backward(&o.of, f, x, y),
        }
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(*x[1].meta())
    }
    fn infer_extra(&self, x: &[&Tensor], _: &Meta, i: usize) -> Meta {
        *x[1 + i].meta()
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let [q, k, heads] = self.of.texts();
        let mask = self.of.mask_of_backward(x).map_or(String::new(), |m| last(&format!("{heads} _"), m.dims.len()));
        let output = if self.of.keeps_output { format!("{q}, ") } else { String::new() };
        let axes = Axes::parse(&format!("{q}, {q}, {k}, {k}, {heads}, {output}{mask} -> {q}, {k}, {k}"), x, y);
        // Keys and values belong to all rows, and to all query heads of a group.
        axes.reduces("l", Combine::Sum).reduces("g", Combine::Sum).linear(&[0b1])
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        self.of.is_one_op(x[1], x[2])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let dtype = x[1].dtype();
        with_products_of(dtype, || {
            let w: Vec<Tensor> = x[..4].iter().map(|t| widened(&self.of.turned(t)?)).collect::<Result<_>>()?;
            let (g, q, heads) = (&w[0], &w[1], w[2].dims()[1]);
            let (k, v) = (&repeat_heads(q, &w[2])?, &repeat_heads(q, &w[3])?);
            let s = self.of.scores(q, k, self.of.mask_of_backward(x))?;
            let p = if state::grad_enabled() {
                Attention::weights(&s)?.0
            } else {
                let lse = x[4].unsqueeze(-1)?;
                let nothing = lse.eq_scalar(f64::NEG_INFINITY)?;
                let p = s.sub(&select_scalar(&nothing, 0.0, &lse)?)?.exp()?;
                // The sum of the weights: one, up to the rounding of `lse`.
                let sum = p.sum_dim(&[-1], true)?;
                p.div(&select_scalar(&nothing, 1.0, &sum)?)?
            };
            let gv = p.transpose(-2, -1)?.matmul(g)?;
            let gp = g.matmul(&v.transpose(-2, -1)?)?;
            let gs = p.mul(&gp.sub(&p.mul(&gp)?.sum_dim(&[-1], true)?)?)?.mul_scalar(self.of.scale.get())?;
            let (gq, gk) = (gs.matmul(k)?, gs.transpose(-2, -1)?.matmul(q)?);
            let out = |g: Tensor| -> Result<Tensor> { self.of.laid(narrowed(g, dtype)?) };
            Ok(smallvec![out(gq)?, out(sum_heads(gk, heads)?)?, out(sum_heads(gv, heads)?)?])
        })
    }
}

/// Settings of [`scaled_dot_product_attention`].
#[derive(Clone, Copy, Debug)]
pub struct AttentionArgs<'a> {
    /// A mask, `bool` (true: the key is seen) or floating point (added to the scores).
    pub mask: Option<&'a Tensor>,
    /// Probability that a weight is dropped.
    pub dropout: f64,
    /// Whether row `i` sees only the keys `0..=i`.
    pub is_causal: bool,
    /// Factor of the scores; `1 / sqrt(e)` unless given.
    pub scale: Option<f64>,
    /// Whether there may be fewer heads of keys and values than of queries, each used by a run of query heads.
    pub enable_gqa: bool,
}

/// `torch.nn.functional.scaled_dot_product_attention`.
///
/// # Errors
/// `Runtime` when sizes, dtypes or settings do not fit.
pub fn scaled_dot_product_attention(q: &Tensor, k: &Tensor, v: &Tensor, a: &AttentionArgs<'_>) -> Result<Tensor> {
    for t in [q, k, v] {
        if t.dims().len() < 2 {
            return Err(Error::runtime(format!(
                "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} key.dim: {} \
                and value.dim: {} instead.",
                q.dims().len(),
                k.dims().len(),
                v.dims().len()
            )));
        }
    }
    if same_device(&[q, k, v]).is_err() {
        return Err(Error::runtime(format!(
            "Expected query, key, and value to have the same device type, but got query.device: {} key.device: {} and \
            value.device: {} instead.",
            q.place(),
            k.place(),
            v.place()
        )));
    }
    if a.is_causal && a.mask.is_some() {
        return Err(Error::runtime(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True",
        ));
    }
    if let Some(m) = a.mask
        && ![DType::Bool, DType::F32, q.dtype()].contains(&m.dtype())
    {
        return Err(Error::runtime(format!(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and  \
            query.dtype: {} instead.",
            m.dtype().c_name(),
            q.dtype().c_name()
        )));
    }
    let is_lowered = backend::profile(q.place()).lowers_attention;
    let mask_is_trained = a.mask.is_some_and(|m| state::grad_enabled() && m.requires_grad());
    let is_composed = a.dropout > 0.0 || mask_is_trained;
    // Keep query heads that share a head of keys together if the op reads keys once for all of them. The kernel of the
    // gradient does not.
    let reads_groups = is_lowered || q.place().in_memory() && !may_need_grad(&[q, k, v]);
    let is_grouped = a.enable_gqa && reads_groups && !is_composed && are_groups(q, k, v);
    let (k, v) = match a.enable_gqa && !is_grouped {
        true => (repeat_heads(q, k)?, repeat_heads(q, v)?),
        false => (k.clone(), v.clone()),
    };
    let lead = |t: &Tensor| -> Dims { t.dims()[..t.dims().len() - 2].iter().copied().collect() };
    let is_three = [q, &k, &v].iter().all(|t| t.dims().len() == 3);
    // PyTorch adds a fourth dimension to three, and counts it in its errors.
    let batch = if is_grouped {
        lead(q)
    } else if is_three {
        let wide = |t: &Tensor| Dims::new(&[1, t.dims()[0]]);
        broadcast_dims(&broadcast_dims(&wide(q), &wide(&k))?, &wide(&v))?[1..].iter().copied().collect()
    } else {
        broadcast_dims(&broadcast_dims(&lead(q), &lead(&k))?, &lead(&v))?
    };
    let last = |t: &Tensor| -> [usize; 2] { [t.dims()[t.dims().len() - 2], t.dims()[t.dims().len() - 1]] };
    // A mask may not enlarge the scores, which have four dimensions if operands have three.
    let scores: Dims =
        is_three.then_some(1).into_iter().chain(batch.iter().copied()).chain([last(q)[0], last(&k)[0]]).collect();
    if let Some(m) = a.mask {
        let wide = broadcast_dims(&scores, m.dims())?;
        if wide != scores {
            return Err(Error::runtime(format!("output with shape {scores} doesn't match the broadcast shape {wide}")));
        }
    }
    let scale = a.scale.unwrap_or(1.0 / (last(q)[1] as f64).sqrt());
    let mut op = Attention {
        scale: F64::new(scale),
        is_causal: a.is_causal,
        mask: a.mask.is_some(),
        rows_first: false,
        keeps_output: is_lowered,
    };
    if is_composed {
        let own: Dims = scores[usize::from(is_three)..].iter().copied().collect();
        let mask = match a.mask {
            Some(m) if m.dims().len() > own.len() => Some(m.expand_dims(&scores)?.reshape_dims(own)?),
            m => m.cloned(),
        };
        let scores = if is_lowered {
            with_wide_sums(|| op.scores(q, &k, mask.as_ref()))?
        } else {
            let (wq, wk) = (widened(q)?, widened(&k)?);
            with_products_of(q.dtype(), || op.scores(&wq, &wk, mask.as_ref()))?
        };
        let (w, _) = Attention::weights(&scores)?;
        if is_lowered {
            return crate::ops::dropout::dropout(&narrowed(w, q.dtype())?, a.dropout, true)?.matmul(&v);
        }
        let w = crate::ops::dropout::dropout(&w, a.dropout, true)?;
        return narrowed(w.matmul(&widened(&v)?)?, q.dtype());
    }
    // Merge any number of leading dimensions into two.
    let (b, h) = match batch.len() {
        0 => (1, 1),
        1 => (1, batch[0]),
        r => (batch[..r - 1].iter().product(), batch[r - 1]),
    };
    let four = |t: &Tensor| -> Result<Tensor> {
        let [m, n] = last(t);
        if is_grouped {
            return t.reshape_dims(Dims::new(&[b, t.dims()[t.dims().len() - 3], m, n]));
        }
        let full: Dims = batch.iter().copied().chain([m, n]).collect();
        t.expand_dims(&full)?.reshape_dims(Dims::new(&[b, h, m, n]))
    };
    let (q4, k4, v4) = (four(q)?, four(&k)?, four(&v)?);
    // Heads that were cut from the rows of a layer's output are still adjacent in each row. Keep them there.
    let lies_rows_first = |t: &Tensor| t.dims()[1] > 1 && t.dims()[2] > 1 && t.strides()[1] < t.strides()[2];
    op.rows_first = [&q4, &k4, &v4].into_iter().all(lies_rows_first);
    let (q4, k4, v4) = (op.turned(&q4)?, op.turned(&k4)?, op.turned(&v4)?);
    let mut x = vec![&q4, &k4, &v4];
    let mask4 = match a.mask {
        // A mask of up to four dimensions broadcasts as it is.
        Some(m) if batch.len() == 2 || m.dims().len() <= 2 => Some(m.clone()),
        Some(m) => {
            broadcast_dims(m.dims(), &scores)?;
            Some(m.expand_dims(&scores)?.reshape_dims(Dims::new(&[b, h, last(q)[0], last(&k)[0]]))?)
        }
        None => None,
    };
    x.extend(&mask4);
    let y = op.turned(&dispatch::call_n(Prim::Attention(op), &x)?.swap_remove(0))?;
    let out: Dims = batch.iter().copied().chain([last(q)[0], last(&v)[1]]).collect();
    y.reshape_dims(out)
}

/// Whether keys and values have fewer heads than queries, each for a run of query heads, and all other leading sizes
/// agree.
fn are_groups(q: &Tensor, k: &Tensor, v: &Tensor) -> bool {
    let [dq, dk, dv] = [q, k, v].map(|t| &t.dims()[..t.dims().len() - 2]);
    let ([.., h], [.., kv]) = (dq, dk) else { return false };
    dk == dv && dq[..dq.len() - 1] == dk[..dk.len() - 1] && *kv > 0 && h > kv && h.is_multiple_of(*kv)
}

/// Sum over each run of heads that share one of the `heads` heads of keys. It is the gradient of [`repeat_heads`].
fn sum_heads(g: Tensor, heads: usize) -> Result<Tensor> {
    let [b, h, s, e] = [0, 1, 2, 3].map(|i| g.dims()[i]);
    if h == heads {
        return Ok(g);
    }
    g.reshape_dims(Dims::new(&[b, heads, h / heads, s, e]))?.sum_dim(&[2], false)
}

/// Fill the outputs of a kernel with results that were computed in another way.
fn copy_all(from: &Outs, to: &[Tensor]) -> Result<()> {
    for (from, to) in from.iter().zip(to) {
        torchtpu_kernels::copy::copy(&from.view(), &mut to.view_mut());
    }
    Ok(())
}

/// Repeat heads (the third dimension from the end) until there are as many as in `q`.
fn repeat_heads(q: &Tensor, t: &Tensor) -> Result<Tensor> {
    if q.dims().len() < 3 || t.dims().len() < 3 {
        return Err(Error::runtime("enable_gqa needs a dimension of heads"));
    }
    let at = t.dims().len() - 3;
    let (want, have) = (q.dims()[q.dims().len() - 3], t.dims()[at]);
    if have == want {
        return Ok(t.clone());
    }
    if have == 0 || want % have != 0 {
        return Err(Error::runtime("Number of heads in key and value must divide the number of heads in query"));
    }
    let mut spread: Dims = *t.dims();
    spread.insert(at + 1, want / have);
    let mut out = *t.dims();
    out.set(at, want);
    t.unsqueeze(at as i64 + 1)?.expand_dims(&spread)?.reshape_dims(out)
}

/// The error of the product of matrices, for sizes that do not fit. PyTorch accepts `values` with more rows than there
/// are keys, and does not read the others.
#[cold]
fn misfit(q: [usize; 4], k: [usize; 4], v: [usize; 4]) -> Error {
    let heads = q[0] * q[1];
    let (want, got) = if q[3] != k[3] { (q[3], k[3]) } else { (k[2], v[2]) };
    Error::runtime(format!(
        "Expected size for first two dimensions of batch2 tensor to be: [{heads}, {want}] but got: [{heads}, {got}]."
    ))
}

fn attention_samples() -> Vec<Sample> {
    let none = || SampleArg::Default;
    vec![
        Sample::new(vec![t(&[2, 2, 3, 4]), t(&[2, 2, 5, 4]), t(&[2, 2, 5, 3])]),
        Sample::new(vec![t(&[1, 2, 3, 4]), t(&[1, 2, 3, 4]), t(&[1, 2, 3, 4]), none(), n(0.0), n(true)]),
        Sample::new(vec![t(&[2, 3, 4]), t(&[2, 3, 4]), t(&[2, 3, 4]), mask(&[3, 3]), n(0.0), n(false), n(0.3)]),
        Sample::new(vec![t(&[1, 2, 3, 4]), t(&[1, 2, 3, 4]), t(&[1, 2, 3, 4]), t(&[3, 3])]),
        Sample::new(vec![
            t(&[1, 4, 3, 2]),
            t(&[1, 2, 3, 2]),
            t(&[1, 2, 3, 2]),
            none(),
            n(0.0),
            n(false),
            none(),
            n(true),
        ]),
    ]
}

/// Rows of attention.
pub const ROWS: &[Row] = &[
Row::new(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, \
    bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    Tier::Fused,
    |a| {
        let args = AttentionArgs {
            mask: a.opt_tensor(3)?,
            dropout: a.float(4)?,
            is_causal: a.bool(5)?,
            scale: a.opt_float(6)?,
            enable_gqa: a.bool(7)?,
        };
        Ok(scaled_dot_product_attention(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, &args)?.into())
    },
    attention_samples,
)
.doc(
    "Return `softmax(scale * query @ key^T + attn_mask) @ value` for `query` `(..., l, e)`, `key` `(..., s, e)` and \
     `value` `(..., s, ev)` of one floating-point dtype. Leading dimensions broadcast, and `scale` is `1 / sqrt(e)` \
     unless given. `attn_mask` broadcasts to `(..., l, s)`: True in a `bool` mask lets a key take part, a mask of the \
     dtype of `query`, or of `float32`, is added to the scores. `is_causal` lets row `i` see the keys 0 to `i`, and \
     excludes `attn_mask`. A row that sees no key gives zeros, and `dropout_p` drops weights in evaluation too. With \
     `enable_gqa`, each head of `key` and `value` serves `query.shape[-3] / key.shape[-3]` heads of `query`.",
)
.scope(Scope::Nn)
    .autocast(Policies::both(Policy::Lower)),
Row::new(
    "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool \
    is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor, Tensor)",
    Tier::Fused,
    |a| {
        let (q, k, v, mask) = (a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.opt_tensor(5)?);
        expect_float("flash_attention", q)?;
        if [q, k, v].iter().any(|t| t.dims().len() != 4) {
            return Err(Error::runtime("scaled_dot_product_attention_flash_attention: Accept only 4 dims inputs shape \
                of {(B, H, T, K)}"));
        }
        if a.float(3)? != 0.0 {
            return Err(Error::runtime("scaled_dot_product_attention_flash_attention: Currently do not support dropout \
                > 0"));
        }
        if mask.is_some_and(|m| m.dims().len() != 2 && m.dims().len() != 4) {
            return Err(Error::runtime("scaled_dot_product_attention_flash_attention: Attention mask dim in {2, 4}"));
        }
        let scale = a.opt_float(6)?.unwrap_or(1.0 / (q.dims()[3] as f64).sqrt());
        let op = Attention {
            scale: F64::new(scale),
            is_causal: a.bool(4)?,
            mask: mask.is_some(),
            rows_first: false,
            keeps_output: backend::profile(q.place()).lowers_attention,
        };
        let mut x = vec![q, k, v];
        x.extend(mask);
        let y = dispatch::call_n(Prim::Attention(op), &x)?;
        Ok((y[0].clone(), y[1].clone()).into())
    },
    || vec![Sample::new(vec![t(&[1, 2, 3, 4]), t(&[1, 2, 5, 4]), t(&[1, 2, 5, 4])]).no_gradient()],
)
.doc(
    "Return attention over `(b, h, l, e)` tensors as `torch.nn.functional.scaled_dot_product_attention` computes it, \
     and the logarithm of the sum of exponentials of each row of scores, `(b, h, l)`. `dropout_p` must be 0.",
)
.scope(Scope::Aten),
];
