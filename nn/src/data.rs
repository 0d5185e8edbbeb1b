//! Datasets and batches.
//!
//! Orders are drawn like PyTorch's, so that equal seeds give equal batches. At the start of a pass, a loader draws one
//! number from the default generator. A shuffling loader draws another number at its first batch, which seeds a
//! generator for the order.

mod sampler;
mod workers;

pub use sampler::{
    BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler,
};

use std::sync::Arc;
use torchtpu_tensor::ops::concat::stack;
use torchtpu_tensor::ops::indexing::index_select;
use torchtpu_tensor::ops::random::{Distribution, randperm, sample};
use torchtpu_tensor::random::Generator;
use torchtpu_tensor::{DType, Device, Error, Meta, Result, Tensor};

/// A collection of samples with indices. A sample is a list of tensors, such as image and label.
pub trait Dataset: Send + Sync {
    /// Return the number of samples.
    fn len(&self) -> usize;
    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Return the sample at `index`.
    ///
    /// # Errors
    /// Fails with `Index` if there is no such sample. Returns the errors of reading it.
    fn get(&self, index: usize) -> Result<Vec<Tensor>>;
    /// Return samples stacked along a new first dimension.
    ///
    /// # Errors
    /// Fails like [`Dataset::get`], and with `Runtime` if samples differ in size.
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

/// A dataset of tensors whose first dimension counts the samples.
#[derive(Clone, Debug)]
pub struct TensorDataset {
    tensors: Vec<Tensor>,
}

impl TensorDataset {
    /// Make a dataset of these tensors.
    ///
    /// # Errors
    /// Fails with `Value` for an empty list, or if the tensors differ in the number of samples.
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
        self.tensors.iter().map(|t| index_select(t, 0, &Tensor::from_slice_on(&at, &[at.len()], t.place())?)).collect()
    }
}

/// Some samples of a dataset.
pub struct Subset<D> {
    dataset: Arc<D>,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// Select the samples at these indices.
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

/// Several datasets, one after the other.
pub struct ConcatDataset {
    datasets: Vec<Arc<dyn Dataset>>,
    /// The end of each dataset.
    ends: Vec<usize>,
}

impl ConcatDataset {
    /// Join these datasets.
    ///
    /// # Errors
    /// Fails with `Value` for an empty list.
    pub fn new(datasets: Vec<Arc<dyn Dataset>>) -> Result<ConcatDataset> {
        if datasets.is_empty() {
            return Err(Error::value("datasets should not be an empty iterable"));
        }
        let mut total = 0;
        let ends = datasets
            .iter()
            .map(|d| {
                total += d.len();
                total
            })
            .collect();
        Ok(ConcatDataset { datasets, ends })
    }
}

impl Dataset for ConcatDataset {
    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
    fn get(&self, index: usize) -> Result<Vec<Tensor>> {
        let at = self.ends.partition_point(|&end| end <= index);
        let Some(dataset) = self.datasets.get(at) else {
            return Err(Error::index(format!("index {index} is out of range for a dataset of {} samples", self.len())));
        };
        dataset.get(index - if at == 0 { 0 } else { self.ends[at - 1] })
    }
}

fn permutation(n: usize, generator: Option<&Generator>) -> Result<Vec<usize>> {
    let order = randperm(n as i64, DType::I64, Device::CPU, generator)?.to_vec::<i64>()?;
    Ok(order.into_iter().map(|i| i as usize).collect())
}

/// Draw a 63-bit number from a generator, as the seed of another generator.
fn draw_seed(generator: Option<&Generator>) -> Result<u64> {
    let meta = Meta::new(&[], DType::I64, Device::CPU);
    Ok(sample(Distribution::AllIntegers, &meta, generator)?.item()?.to_i64() as u64)
}

/// Split a dataset at random into parts of the given lengths.
///
/// # Errors
/// Fails with `Value` if the lengths do not add up to the number of samples.
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

/// A function that makes a batch of samples.
type Collate = Arc<dyn Fn(Vec<Vec<Tensor>>) -> Result<Vec<Tensor>> + Send + Sync>;
/// A batch, or the error of reading it.
type Batch = Result<Vec<Tensor>>;

fn fetch<D: Dataset>(dataset: &D, collate: Option<&Collate>, at: &[usize]) -> Batch {
    match collate {
        Some(f) => f(at.iter().map(|&i| dataset.get(i)).collect::<Result<_>>()?),
        None => dataset.batch(at),
    }
}

/// A function that starts the workers of a pass over these batches.
type Start<D> = fn(&DataLoader<D>, Vec<Vec<usize>>) -> Result<workers::Workers>;

/// The order of the samples.
enum Order {
    /// In order of their indices.
    Sequential,
    /// In random order.
    Shuffled,
    /// In the order of a sampler.
    Samples(Box<dyn Sampler<Item = usize>>),
    /// In batches of a sampler.
    Batches(Box<dyn Sampler<Item = Vec<usize>>>),
}

/// An iterable over the batches of a dataset.
///
/// ```
/// use torchtpu_nn::data::{DataLoader, TensorDataset};
/// use torchtpu_tensor::Tensor;
/// let numbers = Tensor::from_slice(&[0.0f32, 1.0, 2.0, 3.0, 4.0], &[5])?;
/// let loader = DataLoader::new(TensorDataset::new(vec![numbers])?, 2)?.num_workers(2);
/// let sizes: Vec<usize> = loader.iter()?.map(|b| Ok(b?[0].numel())).collect::<torchtpu_tensor::Result<_>>()?;
/// assert_eq!(sizes, [2, 2, 1]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
pub struct DataLoader<D> {
    dataset: Arc<D>,
    batch_size: usize,
    order: Order,
    drop_last: bool,
    generator: Option<Generator>,
    collate: Option<Collate>,
    workers: usize,
    prefetch: usize,
    /// Function that starts workers. It is set only if workers are requested, because they need a dataset that outlives
    /// the loader.
    start: Option<Start<D>>,
}

impl<D: Dataset> DataLoader<D> {
    /// Make batches in order. The last batch may be smaller.
    ///
    /// # Errors
    /// Fails with `Value` for a batch size of zero.
    pub fn new(dataset: D, batch_size: usize) -> Result<DataLoader<D>> {
        sampler::check_batch_size(batch_size)?;
        Ok(DataLoader {
            dataset: Arc::new(dataset),
            batch_size,
            order: Order::Sequential,
            drop_last: false,
            generator: None,
            collate: None,
            workers: 0,
            prefetch: 2,
            start: None,
        })
    }
    /// Choose whether each pass has a new random order.
    pub fn shuffle(mut self, on: bool) -> DataLoader<D> {
        self.order = if on { Order::Shuffled } else { Order::Sequential };
        self
    }
    /// Use the order of a sampler, instead of sequential or shuffled order.
    pub fn sampler(mut self, sampler: impl Sampler<Item = usize> + 'static) -> DataLoader<D> {
        self.order = Order::Samples(Box::new(sampler));
        self
    }
    /// Use the batches of a sampler. The loader's batch size and `drop_last` are then ignored.
    pub fn batch_sampler(mut self, sampler: impl Sampler<Item = Vec<usize>> + 'static) -> DataLoader<D> {
        self.order = Order::Batches(Box::new(sampler));
        self
    }
    /// Choose whether to drop a last batch that is smaller.
    pub fn drop_last(mut self, on: bool) -> DataLoader<D> {
        self.drop_last = on;
        self
    }
    /// Draw orders from this generator instead of the default one.
    pub fn generator(mut self, generator: Generator) -> DataLoader<D> {
        self.generator = Some(generator);
        self
    }
    /// Make batches with a function of the samples, instead of [`Dataset::batch`].
    pub fn collate(
        mut self,
        f: impl Fn(Vec<Vec<Tensor>>) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) -> DataLoader<D> {
        self.collate = Some(Arc::new(f));
        self
    }
    /// Read batches ahead in `n` threads. With `n` zero, batches are read when they are requested. Batches and their
    /// order are the same, unless the dataset itself draws random numbers.
    ///
    /// An error or a panic in a worker becomes the `Err` of the batch that it read. Dropping the iterator stops each
    /// worker after its current batch.
    pub fn num_workers(mut self, n: usize) -> DataLoader<D>
    where
        D: 'static,
    {
        self.workers = n;
        self.start = Some(|loader, batches| {
            let (dataset, collate) = (loader.dataset.clone(), loader.collate.clone());
            let read = move |at: &[usize]| fetch(&*dataset, collate.as_ref(), at);
            workers::Workers::start(loader.workers, loader.workers * loader.prefetch, batches, Arc::new(read))
        });
        self
    }
    /// Set the number of batches that a worker reads ahead. The default is 2, and the minimum is 1.
    pub fn prefetch_factor(mut self, n: usize) -> DataLoader<D> {
        self.prefetch = n.max(1);
        self
    }
    /// Return the dataset.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }
    /// Return the number of batches in a pass.
    pub fn len(&self) -> usize {
        let n = match &self.order {
            Order::Batches(b) => return b.len(),
            Order::Samples(s) => s.len(),
            Order::Sequential | Order::Shuffled => self.dataset.len(),
        };
        sampler::batch_count(n, self.batch_size, self.drop_last)
    }
    /// Whether a pass has no batches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Start a pass.
    ///
    /// # Errors
    /// Returns the errors of the sampler. Fails with `Runtime` if a worker cannot be started.
    pub fn iter(&self) -> Result<Batches<'_, D>> {
        // Nothing here uses this number, but PyTorch draws it, so the generator must advance too.
        draw_seed(self.generator.as_ref())?;
        let source = match self.start.filter(|_| self.workers > 0) {
            Some(start) => Source::Ahead(start(self, self.batches()?)?),
            None => Source::Here(None),
        };
        Ok(Batches { loader: self, source })
    }
    fn batches(&self) -> Result<Vec<Vec<usize>>> {
        let order = match &self.order {
            Order::Batches(b) => return b.draw(),
            Order::Samples(s) => s.draw()?,
            Order::Sequential => (0..self.dataset.len()).collect(),
            Order::Shuffled => sampler::shuffled(self.dataset.len(), self.generator.as_ref())?,
        };
        Ok(sampler::in_batches(&order, self.batch_size, self.drop_last))
    }
}

/// The source of the batches of a pass.
enum Source {
    /// This thread, on request. The indices are drawn with the first batch.
    Here(Option<std::vec::IntoIter<Vec<usize>>>),
    /// Threads that read ahead.
    Ahead(workers::Workers),
}

/// An iterator over the batches of one pass.
pub struct Batches<'a, D> {
    loader: &'a DataLoader<D>,
    source: Source,
}

impl<D: Dataset> Iterator for Batches<'_, D> {
    type Item = Batch;
    fn next(&mut self) -> Option<Batch> {
        let rest = match &mut self.source {
            Source::Ahead(workers) => return workers.next(),
            Source::Here(Some(rest)) => rest,
            Source::Here(rest) => match self.loader.batches() {
                Ok(all) => rest.insert(all.into_iter()),
                Err(e) => {
                    *rest = Some(Vec::new().into_iter());
                    return Some(Err(e));
                }
            },
        };
        let at = rest.next()?;
        Some(fetch(&*self.loader.dataset, self.loader.collate.as_ref(), &at))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.source {
            Source::Here(Some(rest)) => rest.len(),
            Source::Ahead(workers) => workers.left(),
            Source::Here(None) => self.loader.len(),
        };
        (left, Some(left))
    }
}
