//! Transformer layers.

use super::attention::causal;
use crate::module::missing_argument;
use crate::{
    AttentionMask, Dropout, LayerNorm, Linear, Module, MultiheadAttention, MultiheadAttentionOptions, Visitor, init,
};
use torchtpu_tensor::ops::activation::gelu;
use torchtpu_tensor::{DType, Device, Error, Place, Result, Tensor};

/// The activation in the feed-forward part of a transformer layer.
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
    /// Activation in the feed-forward part.
    pub activation: Activation,
    /// Number added to variances in layer norms.
    pub layer_norm_eps: f64,
    /// Whether norms come before the parts instead of after.
    pub norm_first: bool,
    /// Whether the layout is `[batch, positions, features]` instead of `[positions, batch, features]`.
    pub batch_first: bool,
}

impl Default for TransformerOptions {
    fn default() -> TransformerOptions {
        TransformerOptions {
            dim_feedforward: 2048,
            dropout: 0.1,
            activation: Activation::ReLU,
            layer_norm_eps: 1e-5,
            norm_first: false,
            batch_first: false,
        }
    }
}

impl TransformerOptions {
    fn attention(&self, d_model: usize, nhead: usize) -> Result<MultiheadAttention> {
        let o = MultiheadAttentionOptions {
            dropout: self.dropout,
            batch_first: self.batch_first,
            ..MultiheadAttentionOptions::default()
        };
        MultiheadAttention::with_options(d_model, nhead, o)
    }
    fn norm(&self, d_model: usize) -> Result<LayerNorm> {
        LayerNorm::with_eps(&[d_model], self.layer_norm_eps)
    }
}

/// The feed-forward part.
#[derive(Debug)]
struct FeedForward {
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    activation: Activation,
}

impl FeedForward {
    fn new(features: usize, o: &TransformerOptions) -> Result<FeedForward> {
        Ok(FeedForward {
            linear1: Linear::new(features, o.dim_feedforward)?,
            dropout: Dropout::new(o.dropout)?,
            linear2: Linear::new(o.dim_feedforward, features)?,
            activation: o.activation,
        })
    }
    fn duplicate(&self, o: &TransformerOptions) -> Result<FeedForward> {
        Ok(FeedForward {
            linear1: self.linear1.duplicate()?,
            dropout: Dropout::new(o.dropout)?,
            linear2: self.linear2.duplicate()?,
            activation: self.activation,
        })
    }
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.dropout.forward(&self.activation.apply(&self.linear1.forward(x)?)?)?;
        self.linear2.forward(&y)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("linear1", &self.linear1);
        v.module("dropout", &self.dropout);
        v.module("linear2", &self.linear2);
    }
}

/// Compute `x + part(norm(x))`, or `norm(x + part(x))`, with dropout after the part.
fn residual(
    x: &Tensor,
    norm: &LayerNorm,
    dropout: &Dropout,
    first: bool,
    part: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if first {
        x.add(&dropout.forward(&part(&norm.forward(x)?)?)?)
    } else {
        norm.forward(&x.add(&dropout.forward(&part(x)?)?)?)
    }
}

/// The norms and dropouts of a layer: one of each per part, numbered from 1.
#[derive(Debug)]
struct Ends {
    norms: Vec<LayerNorm>,
    dropouts: Vec<Dropout>,
}

impl Ends {
    fn new(parts: usize, d_model: usize, o: &TransformerOptions) -> Result<Ends> {
        Ok(Ends {
            norms: (0..parts).map(|_| o.norm(d_model)).collect::<Result<_>>()?,
            dropouts: (0..parts).map(|_| Dropout::new(o.dropout)).collect::<Result<_>>()?,
        })
    }
    fn duplicate(&self, d_model: usize, o: &TransformerOptions) -> Result<Ends> {
        let all = Ends::new(self.norms.len(), d_model, o)?;
        for (new, old) in all.norms.iter().zip(&self.norms) {
            for (p, q) in new.parameters().iter().zip(old.parameters()) {
                p.set_data(q.duplicate()?.tensor())?;
                p.requires_grad_(q.tensor().requires_grad())?;
            }
        }
        Ok(all)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        for (i, norm) in self.norms.iter().enumerate() {
            v.module(&format!("norm{}", i + 1), norm);
        }
        for (i, dropout) in self.dropouts.iter().enumerate() {
            v.module(&format!("dropout{}", i + 1), dropout);
        }
    }
}

/// An encoder layer: self-attention and a feed-forward part. The layout is `[positions, batch, features]`, unless the
/// options change it.
#[derive(Debug)]
pub struct TransformerEncoderLayer {
    self_attn: MultiheadAttention,
    feed_forward: FeedForward,
    ends: Ends,
    d_model: usize,
    options: TransformerOptions,
}

impl TransformerEncoderLayer {
    /// Make a layer of the default dtype on `cpu`, with initial values drawn like PyTorch's.
    ///
    /// # Errors
    /// Fails with `Value` for invalid settings.
    pub fn new(d_model: usize, nhead: usize, o: TransformerOptions) -> Result<TransformerEncoderLayer> {
        Ok(TransformerEncoderLayer {
            self_attn: o.attention(d_model, nhead)?,
            feed_forward: FeedForward::new(d_model, &o)?,
            ends: Ends::new(2, d_model, &o)?,
            d_model,
            options: o,
        })
    }
    /// Return another layer with the same values, in training mode.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn duplicate(&self) -> Result<TransformerEncoderLayer> {
        let o = self.options;
        let layer = TransformerEncoderLayer {
            self_attn: self.self_attn.duplicate()?,
            feed_forward: self.feed_forward.duplicate(&o)?,
            ends: self.ends.duplicate(self.d_model, &o)?,
            d_model: self.d_model,
            options: o,
        };
        layer.train(true);
        Ok(layer)
    }
    /// Apply the layer to `x` under a mask.
    ///
    /// # Errors
    /// Fails if sizes do not fit.
    pub fn encode(&self, x: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        let first = self.options.norm_first;
        let Ends { norms, dropouts } = &self.ends;
        let x = residual(x, &norms[0], &dropouts[0], first, |x| self.self_attn.attend(x, x, x, mask))?;
        residual(&x, &norms[1], &dropouts[1], first, |x| self.feed_forward.forward(x))
    }
}

impl Module for TransformerEncoderLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.encode(x, AttentionMask::default())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("self_attn", &self.self_attn);
        self.feed_forward.visit(v);
        self.ends.visit(v);
    }
}

/// A decoder layer: self-attention, attention to an encoder's output, and a feed-forward part. Use
/// [`TransformerDecoderLayer::decode`] to compute. As a [`Module`], it has parameters, a state and a device, but
/// `forward` always fails, because it lacks the memory.
#[derive(Debug)]
pub struct TransformerDecoderLayer {
    self_attn: MultiheadAttention,
    multihead_attn: MultiheadAttention,
    feed_forward: FeedForward,
    ends: Ends,
    d_model: usize,
    options: TransformerOptions,
}

impl TransformerDecoderLayer {
    /// Make a layer of the default dtype on `cpu`, with initial values drawn like PyTorch's.
    ///
    /// # Errors
    /// Fails with `Value` for invalid settings.
    pub fn new(d_model: usize, nhead: usize, o: TransformerOptions) -> Result<TransformerDecoderLayer> {
        Ok(TransformerDecoderLayer {
            self_attn: o.attention(d_model, nhead)?,
            multihead_attn: o.attention(d_model, nhead)?,
            feed_forward: FeedForward::new(d_model, &o)?,
            ends: Ends::new(3, d_model, &o)?,
            d_model,
            options: o,
        })
    }
    /// Return another layer with the same values, in training mode.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn duplicate(&self) -> Result<TransformerDecoderLayer> {
        let o = self.options;
        let layer = TransformerDecoderLayer {
            self_attn: self.self_attn.duplicate()?,
            multihead_attn: self.multihead_attn.duplicate()?,
            feed_forward: self.feed_forward.duplicate(&o)?,
            ends: self.ends.duplicate(self.d_model, &o)?,
            d_model: self.d_model,
            options: o,
        };
        layer.train(true);
        Ok(layer)
    }
    /// Apply the layer to `x`, with an encoder's output as `memory`.
    ///
    /// # Errors
    /// Fails if sizes do not fit.
    pub fn decode(
        &self,
        x: &Tensor,
        memory: &Tensor,
        mask: AttentionMask<'_>,
        memory_mask: AttentionMask<'_>,
    ) -> Result<Tensor> {
        let first = self.options.norm_first;
        let Ends { norms, dropouts } = &self.ends;
        let x = residual(x, &norms[0], &dropouts[0], first, |x| self.self_attn.attend(x, x, x, mask))?;
        let x = residual(&x, &norms[1], &dropouts[1], first, |x| {
            self.multihead_attn.attend(x, memory, memory, memory_mask)
        })?;
        residual(&x, &norms[2], &dropouts[2], first, |x| self.feed_forward.forward(x))
    }
}

impl Module for TransformerDecoderLayer {
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(missing_argument("TransformerDecoderLayer", "memory"))
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("self_attn", &self.self_attn);
        v.module("multihead_attn", &self.multihead_attn);
        self.feed_forward.visit(v);
        self.ends.visit(v);
    }
}

/// Encoder layers that run one after the other, and an optional norm at the end.
#[derive(Debug)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// Norm of the last layer's output.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// Make `num_layers` copies of a layer. All start with its values.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn new(
        layer: &TransformerEncoderLayer,
        num_layers: usize,
        norm: Option<LayerNorm>,
    ) -> Result<TransformerEncoder> {
        Ok(TransformerEncoder { layers: (0..num_layers).map(|_| layer.duplicate()).collect::<Result<_>>()?, norm })
    }
    /// Run all layers with one mask.
    ///
    /// # Errors
    /// Fails if sizes do not fit.
    pub fn encode(&self, x: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        let x = self.layers.iter().try_fold(x.clone(), |x, layer| layer.encode(&x, mask))?;
        self.norm.as_ref().map_or_else(|| Ok(x.clone()), |n| n.forward(&x))
    }
}

/// Visit the parts of an encoder or a decoder.
fn visit_stack<L: Module>(v: &mut Visitor<'_>, layers: &[L], norm: Option<&LayerNorm>) {
    for (i, layer) in layers.iter().enumerate() {
        v.module(&format!("layers.{i}"), layer);
    }
    norm.iter().for_each(|n| v.module("norm", *n));
}

impl Module for TransformerEncoder {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.encode(x, AttentionMask::default())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        visit_stack(v, &self.layers, self.norm.as_ref());
    }
}

/// Decoder layers that run one after the other, and an optional norm at the end. Use [`TransformerDecoder::decode`] to
/// compute. `forward` always fails, because it lacks the memory.
#[derive(Debug)]
pub struct TransformerDecoder {
    /// The layers.
    pub layers: Vec<TransformerDecoderLayer>,
    /// Norm of the last layer's output.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// Make `num_layers` copies of a layer. All start with its values.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn new(
        layer: &TransformerDecoderLayer,
        num_layers: usize,
        norm: Option<LayerNorm>,
    ) -> Result<TransformerDecoder> {
        Ok(TransformerDecoder { layers: (0..num_layers).map(|_| layer.duplicate()).collect::<Result<_>>()?, norm })
    }
    /// Run all layers with one memory and the same masks.
    ///
    /// # Errors
    /// Fails if sizes do not fit.
    pub fn decode(
        &self,
        x: &Tensor,
        memory: &Tensor,
        mask: AttentionMask<'_>,
        memory_mask: AttentionMask<'_>,
    ) -> Result<Tensor> {
        let x = self.layers.iter().try_fold(x.clone(), |x, layer| layer.decode(&x, memory, mask, memory_mask))?;
        self.norm.as_ref().map_or_else(|| Ok(x.clone()), |n| n.forward(&x))
    }
}

impl Module for TransformerDecoder {
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(missing_argument("TransformerDecoder", "memory"))
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        visit_stack(v, &self.layers, self.norm.as_ref());
    }
}

/// An encoder and a decoder. Use [`Transformer::transform`] to compute. `forward` always fails, because it lacks the
/// target.
///
/// ```
/// use torchtpu_nn::{AttentionMask, Transformer, TransformerOptions};
/// use torchtpu_tensor::{DType, Device, Tensor};
///
/// let o = TransformerOptions { dim_feedforward: 16, batch_first: true, ..TransformerOptions::default() };
/// let model = Transformer::new(8, 2, 1, 1, o)?;
/// let src = Tensor::ones(&[3, 5, 8], DType::F32, Device::CPU)?;
/// let tgt = Tensor::ones(&[3, 4, 8], DType::F32, Device::CPU)?;
/// let causal = AttentionMask { is_causal: true, ..AttentionMask::default() };
/// let y = model.transform(&src, &tgt, AttentionMask::default(), causal, AttentionMask::default())?;
/// assert_eq!(y.dims()[..], [3, 4, 8]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Transformer {
    /// The encoder, which computes the memory.
    pub encoder: TransformerEncoder,
    /// The decoder, which reads the memory.
    pub decoder: TransformerDecoder,
    d_model: usize,
    batch_first: bool,
}

impl Transformer {
    /// Make a model with norms at the end of both, of the default dtype on `cpu`, with initial values drawn like
    /// PyTorch's.
    ///
    /// # Errors
    /// Fails with `Value` for invalid settings.
    pub fn new(
        d_model: usize,
        nhead: usize,
        num_encoder_layers: usize,
        num_decoder_layers: usize,
        o: TransformerOptions,
    ) -> Result<Transformer> {
        let layer = TransformerEncoderLayer::new(d_model, nhead, o)?;
        let encoder = TransformerEncoder::new(&layer, num_encoder_layers, Some(o.norm(d_model)?))?;
        let layer = TransformerDecoderLayer::new(d_model, nhead, o)?;
        let decoder = TransformerDecoder::new(&layer, num_decoder_layers, Some(o.norm(d_model)?))?;
        let model = Transformer { encoder, decoder, d_model, batch_first: o.batch_first };
        for p in model.parameters() {
            let x = p.tensor();
            if x.dims().len() > 1 {
                init::xavier_uniform_(&x, 1.0, None)?;
            }
        }
        Ok(model)
    }
    /// Decode `tgt`, with the encoded `src` as memory.
    ///
    /// # Errors
    /// Fails with `Runtime` if sizes do not fit.
    pub fn transform(
        &self,
        src: &Tensor,
        tgt: &Tensor,
        src_mask: AttentionMask<'_>,
        tgt_mask: AttentionMask<'_>,
        memory_mask: AttentionMask<'_>,
    ) -> Result<Tensor> {
        let (s, t) = (src.dims(), tgt.dims());
        let batch = usize::from(!self.batch_first);
        if s.len() == 3 && s.get(batch) != t.get(batch) {
            return Err(Error::runtime("the batch number of src and tgt must be equal"));
        }
        if s.last() != Some(&self.d_model) || t.last() != Some(&self.d_model) {
            return Err(Error::runtime("the feature number of src and tgt must be equal to d_model"));
        }
        let memory = self.encoder.encode(src, src_mask)?;
        self.decoder.decode(tgt, &memory, tgt_mask, memory_mask)
    }
    /// Like the function [`generate_square_subsequent_mask`], with the default dtype on `cpu`.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn generate_square_subsequent_mask(size: usize) -> Result<Tensor> {
        generate_square_subsequent_mask(size, init::parameter_dtype(), Device::CPU)
    }
}

impl Module for Transformer {
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(missing_argument("Transformer", "tgt"))
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("encoder", &self.encoder);
        v.module("decoder", &self.decoder);
    }
}

/// Return a mask under which each position attends to itself and those before it: minus infinity above the diagonal,
/// zeros elsewhere.
///
/// # Errors
/// Fails if memory runs out.
pub fn generate_square_subsequent_mask(size: usize, dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
    causal(size, size, dtype, device.into())
}
