//! Datasets and batches.
//!
//! Orders are drawn as PyTorch draws them, so that equal seeds give equal batches: a loader takes one number from the
//! default generator when a pass starts, and a shuffled one another at its first batch, which seeds a generator for the order.

use std::sync::Arc;
use torchtpu_tensor::ops::concat::stack;
use torchtpu_tensor::ops::indexing::index_select;
use torchtpu_tensor::ops::random::{Distribution, randperm, sample};
use torchtpu_tensor::random::Generator;
use torchtpu_tensor::{DType, Device, Error, Meta, Result, Tensor};

/// Samples by number. A sample is a list of tensors, such as image and label.
pub trait Dataset: Send + Sync {
    /// How many samples there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A sample.
    ///
    /// # Errors
    /// `Index` when there is no such sample; whatever reading it reports.
    fn get(&self, index: usize) -> Result<Vec<Tensor>>;
    /// Samples stacked along a new first dimension.
    ///
    /// # Errors
    /// As [`Dataset::get`]; `Runtime` when samples differ in size.
    fn batch(&self, indices: &[usize]) -> Result<Vec<Tensor>> {
        let samples: Vec<Vec<Tensor>> = indices.iter().map(|&i| self.get(i)).collect::<Result<_>>()?;
        let fields = samples.first().map_or(0, Vec::len);
        if samples.iter().any(|s| s.len() != fields) {
            return Err(Error::runtime("each element in list of batch should be of equal size"));
        }
        (0..fields).map(|f| stack(&samples.iter().map(|s| &s[f]).collect::<Vec<_>>(), 0)).collect()
    }
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    fn len(&self) -> usize {
        (**self).len()
    }
    fn get(&self, index: usize) -> Result<Vec<Tensor>> {
        (**self).get(index)
    }
    fn batch(&self, indices: &[usize]) -> Result<Vec<Tensor>> {
        (**self).batch(indices)
    }
}

/// Tensors whose first dimension counts the samples.
#[derive(Clone, Debug)]
pub struct TensorDataset {
    tensors: Vec<Tensor>,
}

impl TensorDataset {
    /// A dataset of these tensors.
    ///
    /// # Errors
    /// `Value` when there are none, or they differ in the number of samples.
    pub fn new(tensors: Vec<Tensor>) -> Result<TensorDataset> {
        let count = |t: &Tensor| t.dims().first().copied();
        if tensors.first().and_then(count).is_none() || tensors.iter().any(|t| count(t) != count(&tensors[0])) {
            return Err(Error::value("Size mismatch between tensors"));
        }
        Ok(TensorDataset { tensors })
    }
}

impl Dataset for TensorDataset {
    fn len(&self) -> usize {
        self.tensors[0].dims()[0]
    }
    fn get(&self, index: usize) -> Result<Vec<Tensor>> {
        self.tensors.iter().map(|t| t.select(0, index as i64)).collect()
    }
    fn batch(&self, indices: &[usize]) -> Result<Vec<Tensor>> {
        let at: Vec<i64> = indices.iter().map(|&i| i as i64).collect();
        self.tensors.iter().map(|t| index_select(t, 0, &Tensor::from_slice_on(&at, &[at.len()], t.device())?)).collect()
    }
}

/// Some samples of a dataset.
pub struct Subset<D> {
    dataset: Arc<D>,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// The samples with these numbers.
    pub fn new(dataset: Arc<D>, indices: Vec<usize>) -> Subset<D> {
        Subset { dataset, indices }
    }
    fn number(&self, i: usize) -> Result<usize> {
        self.indices.get(i).copied().ok_or_else(|| {
            Error::index(format!("index {i} is out of range for a subset of {} samples", self.indices.len()))
        })
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    fn len(&self) -> usize {
        self.indices.len()
    }
    fn get(&self, index: usize) -> Result<Vec<Tensor>> {
        self.dataset.get(self.number(index)?)
    }
    fn batch(&self, indices: &[usize]) -> Result<Vec<Tensor>> {
        self.dataset.batch(&indices.iter().map(|&i| self.number(i)).collect::<Result<Vec<_>>>()?)
    }
}

fn permutation(n: usize, generator: Option<&Generator>) -> Result<Vec<usize>> {
    let order = randperm(n as i64, DType::I64, Device::CPU, generator)?.to_vec::<i64>()?;
    Ok(order.into_iter().map(|i| i as usize).collect())
}

/// One 63-bit draw, by which a generator is derived from another.
fn draw_seed() -> Result<u64> {
    let meta = Meta::new(&[], DType::I64, Device::CPU);
    Ok(sample(Distribution::AllIntegers, &meta, None)?.item()?.to_i64() as u64)
}

/// Splits a dataset at random into parts of the given lengths.
///
/// # Errors
/// `Value` when the lengths do not add up.
pub fn random_split<D: Dataset>(dataset: D, lengths: &[usize]) -> Result<Vec<Subset<D>>> {
    if lengths.iter().sum::<usize>() != dataset.len() {
        return Err(Error::value("Sum of input lengths does not equal the length of the input dataset!"));
    }
    let order = permutation(dataset.len(), None)?;
    let dataset = Arc::new(dataset);
    let mut rest = order.as_slice();
    Ok(lengths
        .iter()
        .map(|&n| {
            let (part, after) = rest.split_at(n);
            rest = after;
            Subset::new(dataset.clone(), part.to_vec())
        })
        .collect())
}

/// Batches of a dataset.
///
/// ```
/// use torchtpu_nn::data::{DataLoader, TensorDataset};
/// use torchtpu_tensor::Tensor;
/// let numbers = Tensor::from_slice(&[0.0f32, 1.0, 2.0, 3.0, 4.0], &[5])?;
/// let loader = DataLoader::new(TensorDataset::new(vec![numbers])?, 2)?;
/// let sizes: Vec<usize> = loader.iter()?.map(|b| Ok(b?[0].numel())).collect::<torchtpu_tensor::Result<_>>()?;
/// assert_eq!(sizes, [2, 2, 1]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
pub struct DataLoader<D> {
    dataset: D,
    batch_size: usize,
    shuffle: bool,
    drop_last: bool,
}

impl<D: Dataset> DataLoader<D> {
    /// Batches in order, the last one perhaps smaller.
    ///
    /// # Errors
    /// `Value` for batches of no samples.
    pub fn new(dataset: D, batch_size: usize) -> Result<DataLoader<D>> {
        if batch_size == 0 {
            return Err(Error::value("batch_size should be a positive integer value, but got batch_size=0"));
        }
        Ok(DataLoader { dataset, batch_size, shuffle: false, drop_last: false })
    }
    /// Whether each pass takes another random order.
    pub fn shuffle(mut self, on: bool) -> DataLoader<D> {
        self.shuffle = on;
        self
    }
    /// Whether a last batch that is smaller is left out.
    pub fn drop_last(mut self, on: bool) -> DataLoader<D> {
        self.drop_last = on;
        self
    }
    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }
    /// How many batches a pass has.
    pub fn len(&self) -> usize {
        let n = self.dataset.len();
        if self.drop_last { n / self.batch_size } else { n.div_ceil(self.batch_size) }
    }
    /// Whether a pass has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// One pass.
    ///
    /// # Errors
    /// None that a working generator gives.
    pub fn iter(&self) -> Result<Batches<'_, D>> {
        // Drawn although nothing here needs it: the default generator moves on as under PyTorch.
        draw_seed()?;
        Ok(Batches { loader: self, order: None, next: 0 })
    }
    fn order(&self) -> Result<Vec<usize>> {
        if !self.shuffle {
            return Ok((0..self.dataset.len()).collect());
        }
        permutation(self.dataset.len(), Some(&Generator::new(draw_seed()?)))
    }
}

/// The batches of one pass.
pub struct Batches<'a, D> {
    loader: &'a DataLoader<D>,
    order: Option<Vec<usize>>,
    next: usize,
}

impl<D: Dataset> Batches<'_, D> {
    fn batch(&mut self) -> Result<Vec<Tensor>> {
        let order = match self.order.take() {
            Some(order) => order,
            None => self.loader.order()?,
        };
        let start = self.next * self.loader.batch_size;
        let end = order.len().min(start + self.loader.batch_size);
        let batch = self.loader.dataset.batch(&order[start..end]);
        self.order = Some(order);
        self.next += 1;
        batch
    }
}

impl<D: Dataset> Iterator for Batches<'_, D> {
    type Item = Result<Vec<Tensor>>;
    fn next(&mut self) -> Option<Self::Item> {
        (self.next < self.loader.len()).then(|| self.batch())
    }
}
