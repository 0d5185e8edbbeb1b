//! Multi-head attention.

use super::dropout::check_probability;
use crate::{Linear, Module, Parameter, Training, Visitor, init};
use torchtpu_tensor::ops::attention::{AttentionArgs, scaled_dot_product_attention};
use torchtpu_tensor::ops::concat::cat;
use torchtpu_tensor::ops::dropout::dropout;
use torchtpu_tensor::ops::matmul::linear;
use torchtpu_tensor::ops::pointwise::select_scalar;
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{DType, Error, Place, Result, Scalar, Tensor, ops};

/// Masks of an attention. A boolean mask is true where attention is forbidden. A mask of numbers is added to the
/// scores.
#[derive(Clone, Copy, Default, Debug)]
pub struct AttentionMask<'a> {
    /// Mask of shape `[targets, sources]`, `[batch * heads, targets, sources]` or `[batch, heads, targets, sources]`.
    pub mask: Option<&'a Tensor>,
    /// Whether each target attends only to sources up to its own position.
    pub is_causal: bool,
    /// Mask for all targets of a sample, `[batch, sources]`, or `[sources]` without a batch.
    pub key_padding_mask: Option<&'a Tensor>,
}

/// Settings of [`MultiheadAttention`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MultiheadAttentionOptions {
    /// Probability of dropping a weight in training.
    pub dropout: f64,
    /// Whether the projections have biases.
    pub bias: bool,
    /// Whether to add a trained source.
    pub add_bias_kv: bool,
    /// Whether to add a source of zeros.
    pub add_zero_attn: bool,
    /// Number of features of keys. `None` means that of queries.
    pub kdim: Option<usize>,
    /// Number of features of values. `None` means that of queries.
    pub vdim: Option<usize>,
    /// Whether the layout is `[batch, positions, features]` instead of `[positions, batch, features]`.
    pub batch_first: bool,
}

impl Default for MultiheadAttentionOptions {
    fn default() -> MultiheadAttentionOptions {
        MultiheadAttentionOptions {
            dropout: 0.0,
            bias: true,
            add_bias_kv: false,
            add_zero_attn: false,
            kdim: None,
            vdim: None,
            batch_first: false,
        }
    }
}

/// Multi-head attention. The layout is `[positions, batch, features]`, unless the options change it, or
/// `[positions, features]`.
///
/// ```
/// use torchtpu_nn::{AttentionMask, MultiheadAttention, MultiheadAttentionOptions};
/// use torchtpu_tensor::{DType, Device, Tensor};
///
/// let o = MultiheadAttentionOptions { batch_first: true, ..MultiheadAttentionOptions::default() };
/// let attention = MultiheadAttention::with_options(8, 2, o)?;
/// let x = Tensor::ones(&[3, 5, 8], DType::F32, Device::CPU)?;
/// let y = attention.attend(&x, &x, &x, AttentionMask { is_causal: true, ..AttentionMask::default() })?;
/// assert_eq!(y.dims()[..], [3, 5, 8]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct MultiheadAttention {
    /// Stacked weights of queries, keys and values, if all three have the same number of features.
    pub in_proj_weight: Option<Parameter>,
    /// Weight of queries, if the numbers of features differ.
    pub q_proj_weight: Option<Parameter>,
    /// Weight of keys, if the numbers of features differ.
    pub k_proj_weight: Option<Parameter>,
    /// Weight of values, if the numbers of features differ.
    pub v_proj_weight: Option<Parameter>,
    /// Stacked biases of queries, keys and values.
    pub in_proj_bias: Option<Parameter>,
    /// Key of the trained source.
    pub bias_k: Option<Parameter>,
    /// Value of the trained source.
    pub bias_v: Option<Parameter>,
    /// Projection of the concatenated heads.
    pub out_proj: Linear,
    features: usize,
    heads: usize,
    options: MultiheadAttentionOptions,
    training: Training,
}

impl MultiheadAttention {
    /// Make a layer of the default dtype on `cpu`, with initial values drawn like PyTorch's.
    ///
    /// # Errors
    /// Fails with `Value` unless the number of heads divides the features and `dropout` is a probability.
    pub fn new(embed_dim: usize, num_heads: usize, dropout: f64, bias: bool) -> Result<MultiheadAttention> {
        let options = MultiheadAttentionOptions { dropout, bias, ..MultiheadAttentionOptions::default() };
        MultiheadAttention::with_options(embed_dim, num_heads, options)
    }

    /// Make a layer with the given options.
    ///
    /// # Errors
    /// Fails like [`MultiheadAttention::new`].
    pub fn with_options(
        embed_dim: usize,
        num_heads: usize,
        o: MultiheadAttentionOptions,
    ) -> Result<MultiheadAttention> {
        if embed_dim == 0 || num_heads == 0 {
            return Err(Error::value(format!(
                "embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} \
                instead"
            )));
        }
        if !embed_dim.is_multiple_of(num_heads) {
            return Err(Error::value("embed_dim must be divisible by num_heads"));
        }
        check_probability(o.dropout)?;
        let (kdim, vdim) = (o.kdim.unwrap_or(embed_dim), o.vdim.unwrap_or(embed_dim));
        let rows = init::product(3, embed_dim)?;
        let weights = if kdim == embed_dim && vdim == embed_dim {
            vec![init::empty(&[rows, embed_dim])?]
        } else {
            [embed_dim, kdim, vdim].map(|n| init::empty(&[embed_dim, n])).into_iter().collect::<Result<_>>()?
        };
        let in_bias = o.bias.then(|| init::empty(&[rows])).transpose()?;
        let out_proj = Linear::with_bias(embed_dim, embed_dim, o.bias)?;
        for w in &weights {
            init::xavier_uniform_(w, 1.0, None)?;
        }
        if let (Some(b), Some(out)) = (&in_bias, &out_proj.bias) {
            init::zeros_(b)?;
            init::zeros_(&out.tensor())?;
        }
        let extra = || -> Result<Option<Parameter>> {
            if !o.add_bias_kv {
                return Ok(None);
            }
            let x = init::empty(&[1, 1, embed_dim])?;
            init::xavier_normal_(&x, 1.0, None)?;
            Parameter::new(x).map(Some)
        };
        let (bias_k, bias_v) = (extra()?, extra()?);
        let mut weights = weights.into_iter().map(Parameter::new).collect::<Result<Vec<_>>>()?.into_iter();
        let first = weights.next();
        let (k_proj_weight, v_proj_weight) = (weights.next(), weights.next());
        let (in_proj_weight, q_proj_weight) = if k_proj_weight.is_none() { (first, None) } else { (None, first) };
        Ok(MultiheadAttention {
            in_proj_weight,
            q_proj_weight,
            k_proj_weight,
            v_proj_weight,
            in_proj_bias: in_bias.map(Parameter::new).transpose()?,
            bias_k,
            bias_v,
            out_proj,
            features: embed_dim,
            heads: num_heads,
            options: o,
            training: Training::default(),
        })
    }

    /// Return another layer with the same values.
    pub(crate) fn duplicate(&self) -> Result<MultiheadAttention> {
        let copy = |p: &Option<Parameter>| p.as_ref().map(Parameter::duplicate).transpose();
        let training = Training::default();
        training.set(self.training.get());
        Ok(MultiheadAttention {
            in_proj_weight: copy(&self.in_proj_weight)?,
            q_proj_weight: copy(&self.q_proj_weight)?,
            k_proj_weight: copy(&self.k_proj_weight)?,
            v_proj_weight: copy(&self.v_proj_weight)?,
            in_proj_bias: copy(&self.in_proj_bias)?,
            bias_k: copy(&self.bias_k)?,
            bias_v: copy(&self.bias_v)?,
            out_proj: self.out_proj.duplicate()?,
            features: self.features,
            heads: self.heads,
            options: self.options,
            training,
        })
    }

    /// Return the attention output for `query`, `key` and `value`.
    ///
    /// # Errors
    /// Fails if sizes do not fit.
    pub fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        Ok(self.run(query, key, value, mask, false)?.0)
    }

    /// Return the attention output and the weights of the sources: `[batch, targets, sources]` averaged over heads, or
    /// `[batch, heads, targets, sources]`.
    ///
    /// # Errors
    /// Fails if sizes do not fit.
    pub fn attend_with_weights(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: AttentionMask<'_>,
        average: bool,
    ) -> Result<(Tensor, Tensor)> {
        let (y, weights) = self.run(query, key, value, mask, true)?;
        let weights = weights.ok_or_else(|| Error::runtime("attention gave no weights"))?;
        let weights = if average { weights.mean_dim(&[1], false)? } else { weights };
        Ok((y, if query.dims().len() == 2 { weights.squeeze(0)? } else { weights }))
    }

    fn check(&self, query: &Tensor, key: &Tensor, value: &Tensor, mask: &AttentionMask<'_>) -> Result<()> {
        let wrong = |message: String| Err(Error::value(message));
        let rank = query.dims().len();
        if !matches!(rank, 2 | 3) {
            return wrong(format!(
                "query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor"
            ));
        }
        let kind = if rank == 3 { "batched (3-D)" } else { "unbatched (2-D)" };
        let (k, v) = (key.dims(), value.dims());
        if k.len() != rank || v.len() != rank {
            return wrong(format!(
                "For {kind} `query`, expected `key` and `value` to be {rank}-D but found {}-D and {}-D tensors \
                respectively",
                k.len(),
                v.len()
            ));
        }
        if let Some(m) = mask.key_padding_mask.filter(|m| m.dims().len() != rank - 1) {
            return wrong(format!(
                "For {kind} `query`, expected `key_padding_mask` to be `None` or {}-D but found {}-D tensor instead",
                rank - 1,
                m.dims().len()
            ));
        }
        if query.dims()[rank - 1] != self.features {
            return wrong(format!(
                "was expecting embedding dimension of {}, but got {}",
                self.features,
                query.dims()[rank - 1]
            ));
        }
        if self.in_proj_weight.is_some() && k != v {
            return wrong(format!("key shape torch.Size({k}) does not match value shape torch.Size({v})"));
        }
        if k[..rank - 1] != v[..rank - 1] {
            return wrong(format!(
                "key's sequence and batch dims {:?} do not match value's {:?}",
                &k[..rank - 1],
                &v[..rank - 1]
            ));
        }
        let batch = usize::from(!self.options.batch_first);
        if rank == 3 && k[batch] != query.dims()[batch] {
            return Err(Error::runtime(format!(
                "the batch size of key is {}, but must be that of query, {}",
                k[batch],
                query.dims()[batch]
            )));
        }
        Ok(())
    }

    /// Project queries, keys and values of all heads.
    fn project(&self, x: [&Tensor; 3], same: bool) -> Result<[Tensor; 3]> {
        let bias = self.in_proj_bias.as_ref().map(Parameter::tensor);
        let three = |parts: Vec<Tensor>| <[Tensor; 3]>::try_from(parts).map_err(|_| Error::runtime("not three parts"));
        let packed = self.in_proj_weight.as_ref().map(Parameter::tensor);
        // Use one product if all three are the same tensor.
        if let (Some(w), true) = (&packed, same) {
            return three(linear(x[0], w, bias.as_ref())?.chunk(3, -1)?);
        }
        let weights = match &packed {
            Some(w) => w.chunk(3, 0)?,
            None => [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight]
                .into_iter()
                .flatten()
                .map(Parameter::tensor)
                .collect(),
        };
        let biases = bias.map(|b| b.chunk(3, 0)).transpose()?;
        let one = |(i, w): (usize, &Tensor)| linear(x[i], w, biases.as_ref().map(|b| &b[i]));
        three(weights.iter().enumerate().map(one).collect::<Result<_>>()?)
    }

    fn run(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: AttentionMask<'_>,
        need_weights: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        self.check(query, key, value, &mask)?;
        let same = query.is_same(key) && key.is_same(value);
        let batched = query.dims().len() == 3;
        let turn = batched && !self.options.batch_first;
        let rows = |x: &Tensor| match (batched, turn) {
            (false, _) => x.unsqueeze(0),
            (_, true) => x.transpose(0, 1),
            _ => Ok(x.clone()),
        };
        let q = rows(query)?;
        let (k, v) = if same { (q.clone(), q.clone()) } else { (rows(key)?, rows(value)?) };
        let [q, mut k, mut v] = self.project([&q, &k, &v], same)?;
        let (batch, targets, sources) = (q.dims()[0], q.dims()[1], k.dims()[1]);
        let mut added = 0;
        if let (Some(bk), Some(bv)) = (&self.bias_k, &self.bias_v) {
            let size = [batch as i64, 1, self.features as i64];
            k = cat(&[&k, &bk.tensor().expand(&size)?], 1)?;
            v = cat(&[&v, &bv.tensor().expand(&size)?], 1)?;
            added += 1;
        }
        let each = self.features / self.heads;
        let split = |x: &Tensor| {
            x.reshape(&[batch as i64, x.dims()[1] as i64, self.heads as i64, each as i64])?.transpose(1, 2)
        };
        let (q, mut k, mut v) = (split(&q)?, split(&k)?, split(&v)?);
        if self.options.add_zero_attn {
            let zeros = Tensor::zeros(&[batch, self.heads, 1, each], k.dtype(), k.place())?;
            k = cat(&[&k, &zeros], 2)?;
            v = cat(&[&v, &zeros], 2)?;
            added += 1;
        }
        let sizes = Sizes { batch, heads: self.heads, targets, sources, added };
        // The kernel applies the causal mask itself if it is the only mask and no sources were added.
        let simple = !need_weights && added == 0 && mask.mask.is_none() && mask.key_padding_mask.is_none();
        let total = if simple { None } else { sizes.total(&mask, q.dtype(), q.place())? };
        let p = if self.training.get() { self.options.dropout } else { 0.0 };
        let (y, weights) = if need_weights {
            let scores = q.mul_scalar((1.0 / each as f64).sqrt())?.matmul(&k.transpose(-2, -1)?)?;
            let scores = total.map_or_else(|| Ok(scores.clone()), |m| scores.add(&m))?;
            let weights = dropout(&scores.softmax(-1)?, p, true)?;
            (weights.matmul(&v)?, Some(weights))
        } else {
            let arguments = AttentionArgs {
                mask: total.as_ref(),
                dropout: p,
                is_causal: simple && mask.is_causal,
                scale: None,
                enable_gqa: false,
            };
            (scaled_dot_product_attention(&q, &k, &v, &arguments)?, None)
        };
        let y = y.transpose(1, 2)?.reshape(&[batch as i64, targets as i64, self.features as i64])?;
        let y = self.out_proj.forward(&y)?;
        let y = if !batched {
            y.squeeze(0)?
        } else if turn {
            y.transpose(0, 1)?
        } else {
            y
        };
        Ok((y, weights))
    }
}

/// Sizes that masks must fit.
struct Sizes {
    batch: usize,
    heads: usize,
    targets: usize,
    /// Number of given sources.
    sources: usize,
    /// Number of added sources after them, which are never masked.
    added: usize,
}

impl Sizes {
    /// Return all masks as one that is added to the scores. It broadcasts to
    /// `[batch, heads, targets, sources + added]`.
    fn total(&self, mask: &AttentionMask<'_>, dtype: DType, place: Place) -> Result<Option<Tensor>> {
        let (t, s) = (self.targets, self.sources);
        let size = |dims: &[usize]| dims.iter().map(|&n| n as i64).collect::<Vec<_>>();
        let mut total: Option<Tensor> = None;
        let mut join = |m: Tensor| -> Result<()> {
            total = Some(match &total {
                Some(before) => before.add(&m)?,
                None => m,
            });
            Ok(())
        };
        if let Some(m) = mask.mask {
            let m = scores(m, "attn_mask", dtype)?;
            let flat = self.batch * self.heads;
            let (rank, want) = match m.dims().len() {
                2 => (2, vec![t, s]),
                3 => (3, vec![flat, t, s]),
                4 => (4, m.dims().to_vec()),
                n => {
                    return Err(Error::value(format!(
                        "For batched (3-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {n}-D \
                        tensor instead"
                    )));
                }
            };
            if m.dims()[..] != want[..] {
                let want: Vec<String> = want.iter().map(usize::to_string).collect();
                return Err(Error::runtime(format!(
                    "The shape of the {rank}D attn_mask is torch.Size({}), but should be ({}).",
                    m.dims(),
                    want.join(", ")
                )));
            }
            join(match rank {
                2 => m.reshape(&size(&[1, 1, t, s]))?,
                3 => m.reshape(&size(&[self.batch, self.heads, t, s]))?,
                _ => m,
            })?;
        }
        if mask.is_causal {
            join(causal(t, s, dtype, place)?.reshape(&size(&[1, 1, t, s]))?)?;
        }
        if let Some(m) = mask.key_padding_mask {
            let m = scores(m, "key_padding_mask", dtype)?;
            let want = [self.batch, s];
            // There is a batch dimension unless all inputs lack it.
            let last = 2 - m.dims().len();
            for (i, (have, want)) in m.dims().iter().zip(&want[last..]).enumerate() {
                if have != want {
                    return Err(Error::value(format!(
                        "Expected key_padded_mask.shape[{}] to be {want}, but got {have}",
                        i + last
                    )));
                }
            }
            join(m.reshape(&size(&[self.batch, 1, 1, s]))?)?;
        }
        match total {
            Some(m) if self.added > 0 => {
                let mut dims = m.dims().to_vec();
                dims[3] = self.added;
                Ok(Some(cat(&[&m, &Tensor::zeros(&dims, dtype, place)?], 3)?))
            }
            total => Ok(total),
        }
    }
}

/// Convert a mask to numbers that are added to scores.
fn scores(mask: &Tensor, name: &str, dtype: DType) -> Result<Tensor> {
    if mask.dtype() == DType::Bool {
        return select_scalar(mask, f64::NEG_INFINITY, &Tensor::zeros(mask.dims(), dtype, mask.place())?);
    }
    if !mask.dtype().is_float() {
        return Err(Error::value(format!("only bool and floating types of {name} are supported")));
    }
    Ok(mask.clone())
}

/// Return minus infinity above the diagonal, and zeros elsewhere.
pub(crate) fn causal(targets: usize, sources: usize, dtype: DType, place: Place) -> Result<Tensor> {
    let all = Tensor::full(&[targets, sources], f64::NEG_INFINITY, dtype, place)?;
    ops::call_tensor("triu", &[Arg::Tensor(&all), Arg::Scalar(Scalar::Int(1))])
}

impl Module for MultiheadAttention {
    /// Compute the self-attention of a sequence.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.attend(x, x, x, AttentionMask::default())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        let own = [
            ("in_proj_weight", &self.in_proj_weight),
            ("q_proj_weight", &self.q_proj_weight),
            ("k_proj_weight", &self.k_proj_weight),
            ("v_proj_weight", &self.v_proj_weight),
            ("in_proj_bias", &self.in_proj_bias),
            ("bias_k", &self.bias_k),
            ("bias_v", &self.bias_v),
        ];
        for (name, p) in own {
            p.iter().for_each(|p| v.parameter(name, p));
        }
        v.module("out_proj", &self.out_proj);
        v.training(&self.training);
    }
}
