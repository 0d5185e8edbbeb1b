//! Tables looked up by index.

use crate::{Module, Parameter, Visitor, init};
use torchtpu_tensor::ops::embedding::embedding;
use torchtpu_tensor::{DType, Device, Error, Meta, Result, Tensor};

/// Rows of a table, chosen by indices.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[num_embeddings, embedding_dim]`, standard normal at first.
    pub weight: Parameter,
    padding: i64,
}

impl Embedding {
    /// A table.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<Embedding> {
        Embedding::with_padding(num_embeddings, embedding_dim, None)
    }
    /// A table with a row that is zero at first and gets no gradient; a negative index counts from the end.
    ///
    /// # Errors
    /// `Value` when there is no such row.
    pub fn with_padding(num_embeddings: usize, embedding_dim: usize, padding_idx: Option<i64>) -> Result<Embedding> {
        let n = num_embeddings as i64;
        if padding_idx.is_some_and(|p| p < -n || p >= n) {
            return Err(Error::value("Padding_idx must be within num_embeddings"));
        }
        let weight = Tensor::empty(&Meta::new(&[num_embeddings, embedding_dim], DType::F32, Device::CPU))?;
        init::normal_(&weight, 0.0, 1.0, None)?;
        let padding = match padding_idx {
            Some(p) => {
                let row = p.rem_euclid(n);
                init::zeros_(&weight.select(0, row)?)?;
                row
            }
            None => -1,
        };
        Ok(Embedding { weight: Parameter::new(weight)?, padding })
    }
}

impl Module for Embedding {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        embedding(&self.weight.tensor(), x, self.padding, false)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight", &self.weight);
    }
}
