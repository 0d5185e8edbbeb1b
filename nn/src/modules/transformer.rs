//! Attention and transformer layers.

use crate::{Dropout, LayerNorm, Linear, Module, Parameter, Training, Visitor, init};
use torchtpu_tensor::ops::activation::gelu;
use torchtpu_tensor::ops::attention::{AttentionArgs, scaled_dot_product_attention};
use torchtpu_tensor::ops::matmul::linear;
use torchtpu_tensor::{DType, Device, Error, Meta, Result, Tensor};

/// What attention may look at.
#[derive(Clone, Copy, Default, Debug)]
pub struct AttentionMask<'a> {
    /// Added to the scores, or `false` where nothing may be looked at: `[targets, sources]` or `[batch, heads, targets, sources]`.
    pub mask: Option<&'a Tensor>,
    /// Each target sees the sources up to its own place only.
    pub is_causal: bool,
}

/// Attention with several heads, `[batch, places, features]`.
///
/// ```
/// use torchtpu_nn::{AttentionMask, MultiheadAttention};
/// use torchtpu_tensor::{DType, Device, Tensor};
///
/// let attention = MultiheadAttention::new(8, 2, 0.0, true)?;
/// let x = Tensor::ones(&[3, 5, 8], DType::F32, Device::CPU)?;
/// let y = attention.attend(&x, &x, &x, AttentionMask { is_causal: true, ..AttentionMask::default() })?;
/// assert_eq!(y.dims()[..], [3, 5, 8]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct MultiheadAttention {
    /// Weights of queries, keys and values, below each other.
    pub in_proj_weight: Parameter,
    /// Their biases.
    pub in_proj_bias: Option<Parameter>,
    /// Applied to the heads side by side.
    pub out_proj: Linear,
    heads: usize,
    dropout: f64,
    training: Training,
}

impl MultiheadAttention {
    /// A layer, in `float32` on `cpu`, drawn as PyTorch draws it.
    ///
    /// # Errors
    /// `Value` unless the heads divide the features.
    pub fn new(embed_dim: usize, num_heads: usize, dropout: f64, bias: bool) -> Result<MultiheadAttention> {
        if embed_dim == 0 || num_heads == 0 {
            return Err(Error::value(format!(
                "embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )));
        }
        if !embed_dim.is_multiple_of(num_heads) {
            return Err(Error::value("embed_dim must be divisible by num_heads"));
        }
        let empty = |dims: &[usize]| Tensor::empty(&Meta::new(dims, DType::F32, Device::CPU));
        let weight = empty(&[3 * embed_dim, embed_dim])?;
        let in_bias = if bias { Some(empty(&[3 * embed_dim])?) } else { None };
        let out_proj = Linear::with_bias(embed_dim, embed_dim, bias)?;
        init::xavier_uniform_(&weight, 1.0, None)?;
        if let (Some(b), Some(out)) = (&in_bias, &out_proj.bias) {
            init::zeros_(b)?;
            init::zeros_(&out.tensor())?;
        }
        Ok(MultiheadAttention {
            in_proj_weight: Parameter::new(weight)?,
            in_proj_bias: in_bias.map(Parameter::new).transpose()?,
            out_proj,
            heads: num_heads,
            dropout,
            training: Training::default(),
        })
    }

    /// What queries find among keys and values.
    ///
    /// # Errors
    /// When sizes do not fit.
    pub fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        let (weight, bias) = (self.in_proj_weight.tensor(), self.in_proj_bias.as_ref().map(Parameter::tensor));
        let features = weight.dims()[1];
        for x in [query, key, value] {
            if x.dims().len() != 3 || x.dims()[2] != features {
                return Err(Error::runtime(format!(
                    "was expecting embedding dimension of {features}, but got {}",
                    x.dims().last().copied().unwrap_or(0)
                )));
            }
        }
        let (batch, each) = (query.dims()[0] as i64, (features / self.heads) as i64);
        let split = |x: &Tensor| x.reshape(&[batch, -1, self.heads as i64, each])?.transpose(1, 2);
        // One product where all three are the same tensor.
        let parts = if query.is_same(key) && key.is_same(value) {
            linear(query, &weight, bias.as_ref())?.chunk(3, -1)?
        } else {
            let weights = weight.chunk(3, 0)?;
            let biases = bias.as_ref().map(|b| b.chunk(3, 0)).transpose()?;
            let one = |i: usize, x: &Tensor| linear(x, &weights[i], biases.as_ref().map(|b| &b[i]));
            vec![one(0, query)?, one(1, key)?, one(2, value)?]
        };
        let arguments = AttentionArgs {
            mask: mask.mask,
            dropout: if self.training.get() { self.dropout } else { 0.0 },
            is_causal: mask.is_causal,
            scale: None,
            enable_gqa: false,
        };
        let y = scaled_dot_product_attention(&split(&parts[0])?, &split(&parts[1])?, &split(&parts[2])?, &arguments)?;
        self.out_proj.forward(&y.transpose(1, 2)?.reshape(&[batch, -1, features as i64])?)
    }
}

impl Module for MultiheadAttention {
    /// Attention of a sequence to itself.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.attend(x, x, x, AttentionMask::default())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("in_proj_weight", &self.in_proj_weight);
        self.in_proj_bias.iter().for_each(|b| v.parameter("in_proj_bias", b));
        v.module("out_proj", &self.out_proj);
        v.training(&self.training);
    }
}

/// What the feed-forward part of a transformer layer applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Activation {
    /// `max(x, 0)`.
    #[default]
    ReLU,
    /// `x` times the normal distribution function of `x`.
    GELU,
}

impl Activation {
    fn apply(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Activation::ReLU => x.relu(),
            Activation::GELU => gelu(x, "none"),
        }
    }
}

/// Settings of transformer layers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TransformerOptions {
    /// Width of the feed-forward part.
    pub dim_feedforward: usize,
    /// Probability of dropout.
    pub dropout: f64,
    /// What the feed-forward part applies.
    pub activation: Activation,
    /// Added to variances.
    pub layer_norm_eps: f64,
    /// Norms come before the parts rather than after.
    pub norm_first: bool,
}

impl Default for TransformerOptions {
    fn default() -> TransformerOptions {
        TransformerOptions {
            dim_feedforward: 2048,
            dropout: 0.1,
            activation: Activation::ReLU,
            layer_norm_eps: 1e-5,
            norm_first: false,
        }
    }
}

/// The feed-forward part.
#[derive(Debug)]
struct FeedForward {
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    last: Dropout,
    activation: Activation,
}

impl FeedForward {
    fn new(features: usize, o: &TransformerOptions) -> Result<FeedForward> {
        Ok(FeedForward {
            linear1: Linear::new(features, o.dim_feedforward)?,
            dropout: Dropout::new(o.dropout)?,
            linear2: Linear::new(o.dim_feedforward, features)?,
            last: Dropout::new(o.dropout)?,
            activation: o.activation,
        })
    }
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.dropout.forward(&self.activation.apply(&self.linear1.forward(x)?)?)?;
        self.last.forward(&self.linear2.forward(&y)?)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("linear1", &self.linear1);
        v.module("dropout", &self.dropout);
        v.module("linear2", &self.linear2);
        v.module("last_dropout", &self.last);
    }
}

/// `x + part(norm(x))`, or `norm(x + part(x))`.
fn residual(x: &Tensor, norm: &LayerNorm, first: bool, part: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    if first { x.add(&part(&norm.forward(x)?)?) } else { norm.forward(&x.add(&part(x)?)?) }
}

/// Self-attention and a feed-forward part, on `[batch, places, features]`.
#[derive(Debug)]
pub struct TransformerEncoderLayer {
    self_attn: MultiheadAttention,
    feed_forward: FeedForward,
    norm1: LayerNorm,
    norm2: LayerNorm,
    dropout1: Dropout,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// A layer, in `float32` on `cpu`, drawn as PyTorch draws it.
    ///
    /// # Errors
    /// `Value` for settings that make no sense.
    pub fn new(d_model: usize, nhead: usize, o: TransformerOptions) -> Result<TransformerEncoderLayer> {
        Ok(TransformerEncoderLayer {
            self_attn: MultiheadAttention::new(d_model, nhead, o.dropout, true)?,
            feed_forward: FeedForward::new(d_model, &o)?,
            norm1: LayerNorm::with_eps(&[d_model], o.layer_norm_eps)?,
            norm2: LayerNorm::with_eps(&[d_model], o.layer_norm_eps)?,
            dropout1: Dropout::new(o.dropout)?,
            norm_first: o.norm_first,
        })
    }
    /// The layer on `x`, looking where the mask allows.
    ///
    /// # Errors
    /// When sizes do not fit.
    pub fn encode(&self, x: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        let x = residual(x, &self.norm1, self.norm_first, |x| {
            self.dropout1.forward(&self.self_attn.attend(x, x, x, mask)?)
        })?;
        residual(&x, &self.norm2, self.norm_first, |x| self.feed_forward.forward(x))
    }
}

impl Module for TransformerEncoderLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.encode(x, AttentionMask::default())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("self_attn", &self.self_attn);
        self.feed_forward.visit(v);
        v.module("norm1", &self.norm1);
        v.module("norm2", &self.norm2);
        v.module("dropout1", &self.dropout1);
    }
}

/// Self-attention, attention to what an encoder made, and a feed-forward part.
#[derive(Debug)]
pub struct TransformerDecoderLayer {
    self_attn: MultiheadAttention,
    multihead_attn: MultiheadAttention,
    feed_forward: FeedForward,
    norms: [LayerNorm; 3],
    dropouts: [Dropout; 2],
    norm_first: bool,
}

impl TransformerDecoderLayer {
    /// A layer, in `float32` on `cpu`, drawn as PyTorch draws it.
    ///
    /// # Errors
    /// `Value` for settings that make no sense.
    pub fn new(d_model: usize, nhead: usize, o: TransformerOptions) -> Result<TransformerDecoderLayer> {
        let norm = || LayerNorm::with_eps(&[d_model], o.layer_norm_eps);
        Ok(TransformerDecoderLayer {
            self_attn: MultiheadAttention::new(d_model, nhead, o.dropout, true)?,
            multihead_attn: MultiheadAttention::new(d_model, nhead, o.dropout, true)?,
            feed_forward: FeedForward::new(d_model, &o)?,
            norms: [norm()?, norm()?, norm()?],
            dropouts: [Dropout::new(o.dropout)?, Dropout::new(o.dropout)?],
            norm_first: o.norm_first,
        })
    }
    /// The layer on `x`, with what an encoder made as `memory`.
    ///
    /// # Errors
    /// When sizes do not fit.
    pub fn decode(
        &self,
        x: &Tensor,
        memory: &Tensor,
        mask: AttentionMask<'_>,
        memory_mask: AttentionMask<'_>,
    ) -> Result<Tensor> {
        let x = residual(x, &self.norms[0], self.norm_first, |x| {
            self.dropouts[0].forward(&self.self_attn.attend(x, x, x, mask)?)
        })?;
        let x = residual(&x, &self.norms[1], self.norm_first, |x| {
            self.dropouts[1].forward(&self.multihead_attn.attend(x, memory, memory, memory_mask)?)
        })?;
        residual(&x, &self.norms[2], self.norm_first, |x| self.feed_forward.forward(x))
    }
    /// Tells what the layer is made of, as [`Module::visit`].
    pub fn visit(&self, v: &mut Visitor<'_>) {
        v.module("self_attn", &self.self_attn);
        v.module("multihead_attn", &self.multihead_attn);
        self.feed_forward.visit(v);
        for (i, norm) in self.norms.iter().enumerate() {
            v.module(&format!("norm{}", i + 1), norm);
        }
        for (i, dropout) in self.dropouts.iter().enumerate() {
            v.module(&format!("dropout{}", i + 1), dropout);
        }
    }
}

/// Encoder layers one after the other, and a norm at the end if there is one.
#[derive(Debug)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// Applied to what the last layer gives.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// Runs all layers under one mask.
    ///
    /// # Errors
    /// When sizes do not fit.
    pub fn encode(&self, x: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.encode(&x, mask)?;
        }
        self.norm.as_ref().map_or_else(|| Ok(x.clone()), |n| n.forward(&x))
    }
}

impl Module for TransformerEncoder {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.encode(x, AttentionMask::default())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        for (i, layer) in self.layers.iter().enumerate() {
            v.module(&format!("layers.{i}"), layer);
        }
        self.norm.iter().for_each(|n| v.module("norm", n));
    }
}
