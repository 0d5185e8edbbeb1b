//! Layers that look up rows of a table by index.

use crate::{Module, Parameter, Visitor, init};
use torchtpu_tensor::ops::embedding::embedding;
use torchtpu_tensor::schema::{Arg, Ret};
use torchtpu_tensor::{DType, Error, Result, Scalar, Tensor, no_grad, ops};

/// Settings of [`Embedding`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EmbeddingOptions {
    /// Index of a row that is initially zero and gets no gradient. A negative index counts from the end.
    pub padding_idx: Option<i64>,
    /// Largest norm of a row. Longer rows that are looked up are scaled down to it, in place.
    pub max_norm: Option<f64>,
    /// Order of the norm.
    pub norm_type: f64,
    /// Whether to divide gradients by the number of look-ups of their row.
    pub scale_grad_by_freq: bool,
}

impl Default for EmbeddingOptions {
    fn default() -> EmbeddingOptions {
        EmbeddingOptions { padding_idx: None, max_norm: None, norm_type: 2.0, scale_grad_by_freq: false }
    }
}

/// Convert an index to one counted from the start, for a table of `rows` rows.
fn row(index: Option<i64>, rows: usize, name: &str) -> Result<Option<i64>> {
    let Some(p) = index else { return Ok(None) };
    let n = i64::try_from(rows).unwrap_or(i64::MAX);
    if p < -n || p >= n {
        return Err(Error::value(format!("{name} must be within num_embeddings")));
    }
    Ok(Some(p.rem_euclid(n)))
}

/// Return standard normal values, with zeros in the padding row.
fn table(rows: usize, dim: usize, padding: Option<i64>) -> Result<Parameter> {
    let weight = init::empty(&[rows, dim])?;
    init::normal_(&weight, 0.0, 1.0, None)?;
    if let Some(p) = padding {
        init::zeros_(&weight.select(0, p)?)?;
    }
    Parameter::new(weight)
}

/// Return a copy of the given table.
fn copied_table(weight: &Tensor, freeze: bool) -> Result<Parameter> {
    if weight.dims().len() != 2 {
        return Err(Error::value("Embeddings parameter is expected to be 2-dimensional"));
    }
    let p = Parameter::new(no_grad(|| weight.detach().copy())?)?;
    p.requires_grad_(!freeze)?;
    Ok(p)
}

fn renorm(weight: &Tensor, indices: &Tensor, max_norm: Option<f64>, norm_type: f64) -> Result<()> {
    let Some(max_norm) = max_norm else { return Ok(()) };
    let [max_norm, norm_type] = [max_norm, norm_type].map(|v| Arg::Scalar(Scalar::Float(v)));
    no_grad(|| {
        let scaled = ops::call_tensor(
            "embedding_renorm",
            &[Arg::Tensor(&weight.detach()), Arg::Tensor(indices), max_norm, norm_type],
        )?;
        weight.copy_(&scaled).map(|_| ())
    })
}

/// Look up rows of a table by index.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// Table of shape `[num_embeddings, embedding_dim]`, initially standard normal.
    pub weight: Parameter,
    options: EmbeddingOptions,
}

impl Embedding {
    /// Make a table.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<Embedding> {
        Embedding::with_options(num_embeddings, embedding_dim, EmbeddingOptions::default())
    }
    /// Make a table with a padding row, which is initially zero and gets no gradient. A negative index counts from the
    /// end.
    ///
    /// # Errors
    /// Fails with `Value` if there is no row `padding_idx`.
    pub fn with_padding(num_embeddings: usize, embedding_dim: usize, padding_idx: Option<i64>) -> Result<Embedding> {
        let options = EmbeddingOptions { padding_idx, ..EmbeddingOptions::default() };
        Embedding::with_options(num_embeddings, embedding_dim, options)
    }
    /// Make a table with the given options.
    ///
    /// # Errors
    /// Fails with `Value` if there is no row `padding_idx`.
    pub fn with_options(
        num_embeddings: usize,
        embedding_dim: usize,
        mut options: EmbeddingOptions,
    ) -> Result<Embedding> {
        options.padding_idx = row(options.padding_idx, num_embeddings, "Padding_idx")?;
        Ok(Embedding { weight: table(num_embeddings, embedding_dim, options.padding_idx)?, options })
    }
    /// Make a table with the values of `weight`. With `freeze`, it gets no gradient.
    ///
    /// # Errors
    /// Fails with `Value` if `weight` does not have two dimensions, or there is no row `padding_idx`.
    pub fn from_pretrained(weight: &Tensor, freeze: bool, mut options: EmbeddingOptions) -> Result<Embedding> {
        let weight = copied_table(weight, freeze)?;
        options.padding_idx = row(options.padding_idx, weight.tensor().dims()[0], "Padding_idx")?;
        Ok(Embedding { weight, options })
    }
}

impl Module for Embedding {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, o) = (self.weight.tensor(), &self.options);
        renorm(&weight, x, o.max_norm, o.norm_type)?;
        embedding(&weight, x, o.padding_idx.unwrap_or(-1), o.scale_grad_by_freq)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
    }
}

/// Reduction of the rows of a bag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BagMode {
    /// The sum.
    Sum,
    /// The mean.
    #[default]
    Mean,
    /// The maximum of each column.
    Max,
}

/// Settings of [`EmbeddingBag`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EmbeddingBagOptions {
    /// Reduction of the rows of a bag.
    pub mode: BagMode,
    /// Index of a row that is initially zero, gets no gradient and does not count. A negative index counts from the
    /// end.
    pub padding_idx: Option<i64>,
    /// Largest norm of a row. Longer rows that are looked up are scaled down to it, in place.
    pub max_norm: Option<f64>,
    /// Order of the norm.
    pub norm_type: f64,
    /// Whether to divide gradients by the number of look-ups of their row.
    pub scale_grad_by_freq: bool,
    /// Whether the last offset is the end of the last bag.
    pub include_last_offset: bool,
}

impl Default for EmbeddingBagOptions {
    fn default() -> EmbeddingBagOptions {
        EmbeddingBagOptions {
            mode: BagMode::Mean,
            padding_idx: None,
            max_norm: None,
            norm_type: 2.0,
            scale_grad_by_freq: false,
            include_last_offset: false,
        }
    }
}

/// Compute sums, means or maxima of bags of rows of a table.
#[derive(Clone, Debug)]
pub struct EmbeddingBag {
    /// Table of shape `[num_embeddings, embedding_dim]`, initially standard normal.
    pub weight: Parameter,
    options: EmbeddingBagOptions,
}

impl EmbeddingBag {
    /// Make a table.
    ///
    /// # Errors
    /// Fails with `Value` if there is no row `padding_idx`.
    pub fn new(num_embeddings: usize, embedding_dim: usize, mut options: EmbeddingBagOptions) -> Result<EmbeddingBag> {
        options.padding_idx = row(options.padding_idx, num_embeddings, "padding_idx")?;
        Ok(EmbeddingBag { weight: table(num_embeddings, embedding_dim, options.padding_idx)?, options })
    }
    /// Make a table with the values of `weight`. With `freeze`, it gets no gradient.
    ///
    /// # Errors
    /// Fails with `Value` if `weight` does not have two dimensions, or there is no row `padding_idx`.
    pub fn from_pretrained(weight: &Tensor, freeze: bool, mut options: EmbeddingBagOptions) -> Result<EmbeddingBag> {
        let weight = copied_table(weight, freeze)?;
        options.padding_idx = row(options.padding_idx, weight.tensor().dims()[0], "padding_idx")?;
        Ok(EmbeddingBag { weight, options })
    }
    /// Reduce bags of indices. A bag is a row of `[n, k]`, or a part of a list that starts at one of `offsets`.
    /// `per_sample_weights` are factors of rows that are summed.
    ///
    /// # Errors
    /// Fails with `Value` for shapes or settings that do not fit, and with `NotImplemented` for `per_sample_weights` of
    /// rows that are not summed.
    pub fn bag(&self, x: &Tensor, offsets: Option<&Tensor>, per_sample_weights: Option<&Tensor>) -> Result<Tensor> {
        let o = &self.options;
        if let Some(w) = per_sample_weights.filter(|w| w.dims() != x.dims()) {
            return Err(Error::value(format!(
                "embedding_bag: If per_sample_weights (torch.Size({})) is not None, then it must have the same shape \
                as the input (torch.Size({}))",
                w.dims(),
                x.dims()
            )));
        }
        let (x, offsets, factors) = match (x.dims().len(), offsets) {
            (2, Some(_)) => {
                return Err(Error::value(
                    "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length \
                    sequences. However, found offsets of type <class 'torch.Tensor'>",
                ));
            }
            (2, None) => {
                let [n, k] = [0, 1].map(|i| Scalar::Int(x.dims()[i] as i64));
                let count = Tensor::arange(Scalar::Int(0), n, Scalar::Int(1), DType::I64, x.place())?;
                let offsets = count.mul_scalar(k)?.to_dtype(x.dtype())?;
                (x.reshape(&[-1])?, offsets, per_sample_weights.map(|w| w.reshape(&[-1])).transpose()?)
            }
            (1, None) => return Err(Error::value("offsets has to be a 1D Tensor but got None")),
            (1, Some(offsets)) if offsets.dims().len() != 1 => {
                return Err(Error::value("offsets has to be a 1D Tensor"));
            }
            (1, Some(offsets)) => (x.clone(), offsets.clone(), per_sample_weights.cloned()),
            (rank, _) => {
                return Err(Error::value(format!(
                    "input has to be 1D or 2D Tensor, but got Tensor of dimension {rank}"
                )));
            }
        };
        let mode = match o.mode {
            BagMode::Sum => 0,
            BagMode::Mean => 1,
            BagMode::Max => 2,
        };
        if o.mode == BagMode::Max && o.scale_grad_by_freq {
            return Err(Error::value("max mode does not support scaling the gradient by the frequency"));
        }
        if factors.is_some() && o.mode != BagMode::Sum {
            return Err(Error::not_implemented(format!(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' \
                (got mode='{}'). Please open a feature request on GitHub.",
                if o.mode == BagMode::Mean { "mean" } else { "max" }
            )));
        }
        let weight = self.weight.tensor();
        renorm(&weight, &x, o.max_norm, o.norm_type)?;
        let flag = |v: bool| Arg::Scalar(Scalar::Bool(v));
        let mut args = vec![Arg::Tensor(&weight), Arg::Tensor(&x), Arg::Tensor(&offsets), flag(o.scale_grad_by_freq)];
        args.extend([Arg::Scalar(Scalar::Int(mode)), flag(false), factors.as_ref().map_or(Arg::None, Arg::Tensor)]);
        args.push(flag(o.include_last_offset));
        let all = match o.padding_idx {
            Some(p) => {
                args.push(Arg::Scalar(Scalar::Int(p)));
                ops::call("embedding_bag.padding_idx", &args)?
            }
            None => ops::call("embedding_bag", &args)?,
        };
        match all {
            Ret::Tuple(all) if !all.is_empty() => Ok(all[0].clone()),
            other => Err(Error::runtime(format!("embedding_bag gave {other:?} where tensors were expected"))),
        }
    }
}

impl Module for EmbeddingBag {
    /// Reduce bags that are the rows of `[n, k]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.bag(x, None, None)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
    }
}
