//! Datasets and batches.
//!
//! Orders are drawn as PyTorch draws them, so that equal seeds give equal batches: a loader takes one number from the
//! default generator when a pass starts, and a shuffled one another at its first batch, which seeds a generator for the order.

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
    /// Fails with `Index` if there is no such sample; returns the error that reading it reports.
    fn get(&self, index: usize) -> Result<Vec<Tensor>>;
    /// Samples stacked along a new first dimension.
    ///
    /// # Errors
    /// Fails like [`Dataset::get`]; with `Runtime` if samples differ in size.
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
    /// Fails with `Value` if there are none, or they differ in the number of samples.
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

/// Datasets one after the other.
pub struct ConcatDataset {
    datasets: Vec<Arc<dyn Dataset>>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl ConcatDataset {
    /// All samples of these datasets.
    ///
    /// # Errors
    /// Fails with `Value` if there are none.
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

/// One 63-bit draw, by which a generator is derived from another.
fn draw_seed(generator: Option<&Generator>) -> Result<u64> {
    let meta = Meta::new(&[], DType::I64, Device::CPU);
    Ok(sample(Distribution::AllIntegers, &meta, generator)?.item()?.to_i64() as u64)
}

/// Splits a dataset at random into parts of the given lengths.
///
/// # Errors
/// Fails with `Value` if the lengths do not add up.
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

/// Makes a batch of samples.
type Collate = Arc<dyn Fn(Vec<Vec<Tensor>>) -> Result<Vec<Tensor>> + Send + Sync>;
/// A batch, or why there is none.
type Batch = Result<Vec<Tensor>>;

fn fetch<D: Dataset>(dataset: &D, collate: Option<&Collate>, at: &[usize]) -> Batch {
    match collate {
        Some(f) => f(at.iter().map(|&i| dataset.get(i)).collect::<Result<_>>()?),
        None => dataset.batch(at),
    }
}

/// Starts the workers of a pass that takes these samples.
type Start<D> = fn(&DataLoader<D>, Vec<Vec<usize>>) -> Result<workers::Workers>;

/// Which samples come when.
enum Order {
    /// As they are.
    Sequential,
    /// At random.
    Shuffled,
    /// As a sampler says.
    Samples(Box<dyn Sampler<Item = usize>>),
    /// In batches that a sampler gives.
    Batches(Box<dyn Sampler<Item = Vec<usize>>>),
}

/// Batches of a dataset.
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
    /// Starts workers; there only when some are wanted, as they need a dataset that outlives the loader.
    start: Option<Start<D>>,
}

impl<D: Dataset> DataLoader<D> {
    /// Batches in order, the last one perhaps smaller.
    ///
    /// # Errors
    /// Fails with `Value` for batches of no samples.
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
    /// Whether each pass takes another random order.
    pub fn shuffle(mut self, on: bool) -> DataLoader<D> {
        self.order = if on { Order::Shuffled } else { Order::Sequential };
        self
    }
    /// Takes samples as a sampler says, instead of in order or shuffled.
    pub fn sampler(mut self, sampler: impl Sampler<Item = usize> + 'static) -> DataLoader<D> {
        self.order = Order::Samples(Box::new(sampler));
        self
    }
    /// Takes whole batches as a sampler says; the loader's own batch size and `drop_last` then mean nothing.
    pub fn batch_sampler(mut self, sampler: impl Sampler<Item = Vec<usize>> + 'static) -> DataLoader<D> {
        self.order = Order::Batches(Box::new(sampler));
        self
    }
    /// Whether a last batch that is smaller is left out.
    pub fn drop_last(mut self, on: bool) -> DataLoader<D> {
        self.drop_last = on;
        self
    }
    /// Draws orders from this generator rather than from the default one.
    pub fn generator(mut self, generator: Generator) -> DataLoader<D> {
        self.generator = Some(generator);
        self
    }
    /// Makes batches by a function of the samples, instead of by [`Dataset::batch`].
    pub fn collate(
        mut self,
        f: impl Fn(Vec<Vec<Tensor>>) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) -> DataLoader<D> {
        self.collate = Some(Arc::new(f));
        self
    }
    /// Reads batches ahead in `n` threads; with none, batches are read where they are asked for. Batches and their order
    /// are the same, unless the dataset itself draws random numbers.
    ///
    /// An error or a panic in a worker is the `Err` of the batch that it read. Dropping the iterator stops the workers, each
    /// after the batch that it is at.
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
    /// How many batches a worker reads ahead: 2 unless said otherwise, and at least 1.
    pub fn prefetch_factor(mut self, n: usize) -> DataLoader<D> {
        self.prefetch = n.max(1);
        self
    }
    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }
    /// How many batches a pass has.
    pub fn len(&self) -> usize {
        let n = match &self.order {
            Order::Batches(b) => return b.len(),
            Order::Samples(s) => s.len(),
            Order::Sequential | Order::Shuffled => self.dataset.len(),
        };
        sampler::batch_count(n, self.batch_size, self.drop_last)
    }
    /// Whether a pass has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// One pass.
    ///
    /// # Errors
    /// Returns the error that a sampler reports; with `Runtime` if a worker cannot be started.
    pub fn iter(&self) -> Result<Batches<'_, D>> {
        // Drawn although nothing here needs it: the generator moves on as under PyTorch.
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

/// Where batches come from.
enum Source {
    /// From here, when asked for; the numbers of their samples are drawn with the first.
    Here(Option<std::vec::IntoIter<Vec<usize>>>),
    /// From threads that read ahead.
    Ahead(workers::Workers),
}

/// The batches of one pass.
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
