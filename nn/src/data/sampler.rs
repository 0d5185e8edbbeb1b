//! Samplers: orders of samples.
//!
//! They draw from generators like PyTorch's samplers, so that equal seeds give equal orders.

use super::{draw_seed, permutation};
use torchtpu_tensor::ops::random::{Distribution, multinomial, sample};
use torchtpu_tensor::random::Generator;
use torchtpu_tensor::{DType, Device, Error, Meta, Result, Tensor};

/// A source of sample indices, or of batches of indices.
pub trait Sampler: Send + Sync {
    /// `usize` for samples, `Vec<usize>` for batches.
    type Item;
    /// Return the indices (or batches) of one pass, in order.
    ///
    /// # Errors
    /// Fails if the generator fails.
    fn draw(&self) -> Result<Vec<Self::Item>>;
    /// Return the number of indices (or batches) in a pass.
    fn len(&self) -> usize;
    /// Whether a pass is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All samples in order.
#[derive(Clone, Debug)]
pub struct SequentialSampler(
    /// Number of samples.
    pub usize,
);

impl Sampler for SequentialSampler {
    type Item = usize;
    fn draw(&self) -> Result<Vec<usize>> {
        Ok((0..self.0).collect())
    }
    fn len(&self) -> usize {
        self.0
    }
}

fn check_samples(n: usize) -> Result<()> {
    if n == 0 {
        return Err(Error::value("num_samples should be a positive integer value, but got num_samples=0"));
    }
    Ok(())
}

/// Return a generator for one order: the given one, or one seeded by the default generator.
fn own_or_seeded(generator: Option<&Generator>) -> Result<Generator> {
    match generator {
        Some(g) => Ok(g.clone()),
        None => Ok(Generator::new(draw_seed(None)?)),
    }
}

/// Return all numbers below `n` in the random order of a shuffling loader.
pub(super) fn shuffled(n: usize, generator: Option<&Generator>) -> Result<Vec<usize>> {
    if n == 0 {
        return Ok(Vec::new());
    }
    RandomSampler { count: n, replacement: false, samples: n, generator: generator.cloned() }.draw()
}

/// Samples in random order, or drawn with replacement.
#[derive(Clone)]
pub struct RandomSampler {
    count: usize,
    replacement: bool,
    samples: usize,
    generator: Option<Generator>,
}

impl RandomSampler {
    /// Draw all of `count` samples in random order.
    ///
    /// # Errors
    /// Fails with `Value` if `count` is zero.
    pub fn new(count: usize) -> Result<RandomSampler> {
        check_samples(count)?;
        Ok(RandomSampler { count, replacement: false, samples: count, generator: None })
    }
    /// Choose whether to draw with replacement.
    pub fn replacement(mut self, on: bool) -> RandomSampler {
        self.replacement = on;
        self
    }
    /// Set the number of samples in a pass. Without replacement, one random order follows another until there are
    /// enough.
    ///
    /// # Errors
    /// Fails with `Value` if `n` is zero.
    pub fn num_samples(mut self, n: usize) -> Result<RandomSampler> {
        check_samples(n)?;
        self.samples = n;
        Ok(self)
    }
    /// Draw from this generator, instead of one seeded by the default generator.
    pub fn generator(mut self, generator: Generator) -> RandomSampler {
        self.generator = Some(generator);
        self
    }
}

impl Sampler for RandomSampler {
    type Item = usize;
    fn draw(&self) -> Result<Vec<usize>> {
        let g = own_or_seeded(self.generator.as_ref())?;
        let mut all = Vec::with_capacity(self.samples);
        if self.replacement {
            // Draw in pieces of PyTorch's size, so that a given generator ends in PyTorch's state.
            let last = self.samples % 32;
            for n in std::iter::repeat_n(32, self.samples / 32).chain([last]) {
                let meta = Meta::new(&[n], DType::I64, Device::CPU);
                let drawn = sample(Distribution::Integers(0, self.count as i64), &meta, Some(&g))?;
                all.extend(drawn.to_vec::<i64>()?.into_iter().map(|i| i as usize));
            }
            return Ok(all);
        }
        for _ in 0..self.samples / self.count {
            all.extend(permutation(self.count, Some(&g))?);
        }
        // Draw one more order even if none of it is used, so that a given generator ends in PyTorch's state.
        all.extend(&permutation(self.count, Some(&g))?[..self.samples % self.count]);
        Ok(all)
    }
    fn len(&self) -> usize {
        self.samples
    }
}

/// Given samples in random order.
#[derive(Clone)]
pub struct SubsetRandomSampler {
    indices: Vec<usize>,
    generator: Option<Generator>,
}

impl SubsetRandomSampler {
    /// Draw these samples in random order.
    pub fn new(indices: Vec<usize>) -> SubsetRandomSampler {
        SubsetRandomSampler { indices, generator: None }
    }
    /// Draw from this generator instead of the default one.
    pub fn generator(mut self, generator: Generator) -> SubsetRandomSampler {
        self.generator = Some(generator);
        self
    }
}

impl Sampler for SubsetRandomSampler {
    type Item = usize;
    fn draw(&self) -> Result<Vec<usize>> {
        let order = permutation(self.indices.len(), self.generator.as_ref())?;
        Ok(order.into_iter().map(|i| self.indices[i]).collect())
    }
    fn len(&self) -> usize {
        self.indices.len()
    }
}

/// Samples drawn with given weights.
#[derive(Clone)]
pub struct WeightedRandomSampler {
    weights: Tensor,
    samples: usize,
    replacement: bool,
    generator: Option<Generator>,
}

impl WeightedRandomSampler {
    /// Draw `num_samples` samples with probabilities proportional to `weights`. Weights need not add up to one.
    ///
    /// # Errors
    /// Fails with `Value` if `num_samples` is zero.
    pub fn new(weights: &[f64], num_samples: usize, replacement: bool) -> Result<WeightedRandomSampler> {
        check_samples(num_samples)?;
        let weights = Tensor::from_slice(weights, &[weights.len()])?;
        Ok(WeightedRandomSampler { weights, samples: num_samples, replacement, generator: None })
    }
    /// Draw from this generator instead of the default one.
    pub fn generator(mut self, generator: Generator) -> WeightedRandomSampler {
        self.generator = Some(generator);
        self
    }
}

impl Sampler for WeightedRandomSampler {
    type Item = usize;
    fn draw(&self) -> Result<Vec<usize>> {
        let at = multinomial(&self.weights, self.samples as i64, self.replacement, self.generator.as_ref())?;
        Ok(at.to_vec::<i64>()?.into_iter().map(|i| i as usize).collect())
    }
    fn len(&self) -> usize {
        self.samples
    }
}

pub(super) fn check_batch_size(n: usize) -> Result<()> {
    if n == 0 {
        return Err(Error::value("batch_size should be a positive integer value, but got batch_size=0"));
    }
    Ok(())
}

pub(super) fn batch_count(samples: usize, batch_size: usize, drop_last: bool) -> usize {
    if drop_last { samples / batch_size } else { samples.div_ceil(batch_size) }
}

pub(super) fn in_batches(order: &[usize], batch_size: usize, drop_last: bool) -> Vec<Vec<usize>> {
    let count = batch_count(order.len(), batch_size, drop_last);
    order.chunks(batch_size).take(count).map(<[usize]>::to_vec).collect()
}

/// The samples of another sampler, in batches.
#[derive(Clone, Debug)]
pub struct BatchSampler<S> {
    sampler: S,
    batch_size: usize,
    drop_last: bool,
}

impl<S: Sampler<Item = usize>> BatchSampler<S> {
    /// Make batches of `batch_size`. With `drop_last`, a smaller last batch is dropped.
    ///
    /// # Errors
    /// Fails with `Value` for a batch size of zero.
    pub fn new(sampler: S, batch_size: usize, drop_last: bool) -> Result<BatchSampler<S>> {
        check_batch_size(batch_size)?;
        Ok(BatchSampler { sampler, batch_size, drop_last })
    }
}

impl<S: Sampler<Item = usize>> Sampler for BatchSampler<S> {
    type Item = Vec<usize>;
    fn draw(&self) -> Result<Vec<Vec<usize>>> {
        Ok(in_batches(&self.sampler.draw()?, self.batch_size, self.drop_last))
    }
    fn len(&self) -> usize {
        batch_count(self.sampler.len(), self.batch_size, self.drop_last)
    }
}
