//! Tables looked up by index.

use crate::{Module, Parameter, Visitor, init};
use torchtpu_tensor::ops::embedding::embedding;
use torchtpu_tensor::schema::{Arg, Ret};
use torchtpu_tensor::{DType, Error, Result, Scalar, Tensor, no_grad, ops};

/// Settings of [`Embedding`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EmbeddingOptions {
    /// A row that is zero at first and gets no gradient; a negative index counts from the end.
    pub padding_idx: Option<i64>,
    /// Rows that are looked up and are longer are scaled down to this length, in place.
    pub max_norm: Option<f64>,
    /// Which norm their length is.
    pub norm_type: f64,
    /// Gradients are divided by how often their row was looked up.
    pub scale_grad_by_freq: bool,
}

impl Default for EmbeddingOptions {
    fn default() -> EmbeddingOptions {
        EmbeddingOptions { padding_idx: None, max_norm: None, norm_type: 2.0, scale_grad_by_freq: false }
    }
}

/// The index counted from the start, in a table of so many rows.
fn row(index: Option<i64>, rows: usize, name: &str) -> Result<Option<i64>> {
    let Some(p) = index else { return Ok(None) };
    let n = i64::try_from(rows).unwrap_or(i64::MAX);
    if p < -n || p >= n {
        return Err(Error::value(format!("{name} must be within num_embeddings")));
    }
    Ok(Some(p.rem_euclid(n)))
}

/// Standard normal values, zeros in the padding row.
fn table(rows: usize, dim: usize, padding: Option<i64>) -> Result<Parameter> {
    let weight = init::empty(&[rows, dim])?;
    init::normal_(&weight, 0.0, 1.0, None)?;
    if let Some(p) = padding {
        init::zeros_(&weight.select(0, p)?)?;
    }
    Parameter::new(weight)
}

/// A given table, which is copied.
fn given(weight: &Tensor, freeze: bool) -> Result<Parameter> {
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

/// Rows of a table, chosen by indices.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[num_embeddings, embedding_dim]`, standard normal at first.
    pub weight: Parameter,
    options: EmbeddingOptions,
}

impl Embedding {
    /// A table.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<Embedding> {
        Embedding::with_options(num_embeddings, embedding_dim, EmbeddingOptions::default())
    }
    /// A table with a row that is zero at first and gets no gradient; a negative index counts from the end.
    ///
    /// # Errors
    /// `Value` when there is no such row.
    pub fn with_padding(num_embeddings: usize, embedding_dim: usize, padding_idx: Option<i64>) -> Result<Embedding> {
        let options = EmbeddingOptions { padding_idx, ..EmbeddingOptions::default() };
        Embedding::with_options(num_embeddings, embedding_dim, options)
    }
    /// A table with settings.
    ///
    /// # Errors
    /// `Value` when there is no row `padding_idx`.
    pub fn with_options(
        num_embeddings: usize,
        embedding_dim: usize,
        mut options: EmbeddingOptions,
    ) -> Result<Embedding> {
        options.padding_idx = row(options.padding_idx, num_embeddings, "Padding_idx")?;
        Ok(Embedding { weight: table(num_embeddings, embedding_dim, options.padding_idx)?, options })
    }
    /// A table with the values of `weight`; frozen, it gets no gradient.
    ///
    /// # Errors
    /// `Value` unless `weight` has two dimensions, and when there is no row `padding_idx`.
    pub fn from_pretrained(weight: &Tensor, freeze: bool, mut options: EmbeddingOptions) -> Result<Embedding> {
        let weight = given(weight, freeze)?;
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

/// What becomes of the rows of a bag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    #[default]
    Mean,
    /// The largest of each column.
    Max,
}

/// Settings of [`EmbeddingBag`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EmbeddingBagOptions {
    /// What becomes of the rows of a bag.
    pub mode: BagMode,
    /// A row that is zero at first, gets no gradient and does not count; a negative index counts from the end.
    pub padding_idx: Option<i64>,
    /// Rows that are looked up and are longer are scaled down to this length, in place.
    pub max_norm: Option<f64>,
    /// Which norm their length is.
    pub norm_type: f64,
    /// Gradients are divided by how often their row was looked up.
    pub scale_grad_by_freq: bool,
    /// The last offset is the end of the last bag.
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

/// Sums, means or maxima of bags of rows of a table.
#[derive(Clone, Debug)]
pub struct EmbeddingBag {
    /// `[num_embeddings, embedding_dim]`, standard normal at first.
    pub weight: Parameter,
    options: EmbeddingBagOptions,
}

impl EmbeddingBag {
    /// A table.
    ///
    /// # Errors
    /// `Value` when there is no row `padding_idx`.
    pub fn new(num_embeddings: usize, embedding_dim: usize, mut options: EmbeddingBagOptions) -> Result<EmbeddingBag> {
        options.padding_idx = row(options.padding_idx, num_embeddings, "padding_idx")?;
        Ok(EmbeddingBag { weight: table(num_embeddings, embedding_dim, options.padding_idx)?, options })
    }
    /// A table with the values of `weight`; frozen, it gets no gradient.
    ///
    /// # Errors
    /// `Value` unless `weight` has two dimensions, and when there is no row `padding_idx`.
    pub fn from_pretrained(weight: &Tensor, freeze: bool, mut options: EmbeddingBagOptions) -> Result<EmbeddingBag> {
        let weight = given(weight, freeze)?;
        options.padding_idx = row(options.padding_idx, weight.tensor().dims()[0], "padding_idx")?;
        Ok(EmbeddingBag { weight, options })
    }
    /// Bags of indices: the rows of `[n, k]`, or stretches of a list that start at `offsets`; with factors of the rows if
    /// they are summed.
    ///
    /// # Errors
    /// `Value` for shapes or settings that do not fit, `NotImplemented` for factors of rows that are not summed.
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
                let count = Tensor::arange(Scalar::Int(0), n, Scalar::Int(1), DType::I64, x.device())?;
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
    /// Bags that are the rows of `[n, k]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.bag(x, None, None)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
    }
}
