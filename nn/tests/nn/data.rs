//! Tests of datasets, samplers and loaders against numbers of PyTorch, and of workers.

use crate::common::turn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use torchtpu::nn::data::{
    BatchSampler, ConcatDataset, DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
    TensorDataset, WeightedRandomSampler,
};
use torchtpu::random::{Generator, manual_seed};
use torchtpu::{Error, Result, Tensor};

fn numbers(from: i64, to: i64) -> TensorDataset {
    let v: Vec<i64> = (from..to).collect();
    TensorDataset::new(vec![Tensor::from_slice(&v, &[v.len()]).unwrap()]).unwrap()
}

fn batches<D: Dataset>(loader: &DataLoader<D>) -> Vec<Vec<i64>> {
    loader.iter().unwrap().map(|b| b.unwrap()[0].to_vec().unwrap()).collect()
}

#[test]
fn samplers_draw_the_same_indices_as_pytorch() {
    let _turn = turn();
    let seeded = || manual_seed(7);
    seeded();
    let s = RandomSampler::new(10).unwrap().replacement(true).num_samples(40).unwrap();
    assert_eq!(
        s.draw().unwrap(),
        [
            3, 5, 7, 1, 0, 2, 3, 6, 1, 1, 6, 6, 0, 6, 0, 7, 4, 8, 6, 8, 0, 2, 4, 9, 6, 0, 4, 4, 1, 2, 7, 8, 8, 8, 1, 5,
            8, 1, 9, 3
        ]
    );
    seeded();
    let s = RandomSampler::new(5).unwrap().num_samples(12).unwrap();
    assert_eq!(s.draw().unwrap(), [3, 4, 0, 1, 2, 0, 3, 2, 1, 4, 1, 4]);
    seeded();
    assert_eq!(SubsetRandomSampler::new(vec![3, 1, 4, 1, 5, 9]).draw().unwrap(), [1, 3, 1, 9, 4, 5]);
    seeded();
    let weights = [0.1, 0.2, 0.3, 0.4];
    assert_eq!(WeightedRandomSampler::new(&weights, 8, true).unwrap().draw().unwrap(), [1, 1, 3, 3, 3, 3, 1, 2]);
    assert_eq!(WeightedRandomSampler::new(&weights, 3, false).unwrap().draw().unwrap(), [3, 2, 1]);
    seeded();
    let s = BatchSampler::new(RandomSampler::new(7).unwrap(), 3, false).unwrap();
    assert_eq!(s.draw().unwrap(), [vec![6, 0, 4], vec![1, 2, 5], vec![3]]);
    assert_eq!(BatchSampler::new(SequentialSampler(7), 3, true).unwrap().len(), 2);
    for e in [
        RandomSampler::new(0).err().unwrap(),
        RandomSampler::new(3).unwrap().num_samples(0).err().unwrap(),
        WeightedRandomSampler::new(&[1.0], 0, true).err().unwrap(),
    ] {
        assert_eq!(e.message(), "num_samples should be a positive integer value, but got num_samples=0");
    }
}

#[test]
fn loaders_give_the_batches_of_pytorch_with_and_without_workers() {
    let _turn = turn();
    for workers in [0, 1, 2, 5] {
        let g = Generator::new(3);
        let loader = DataLoader::new(numbers(0, 7), 3).unwrap().shuffle(true).generator(g).num_workers(workers);
        assert_eq!(batches(&loader), [vec![3, 4, 2], vec![0, 1, 6], vec![5]], "{workers} workers");
        assert_eq!(batches(&loader), [vec![6, 1, 2], vec![3, 4, 0], vec![5]]);
        manual_seed(7);
        let loader = DataLoader::new(numbers(0, 7), 3).unwrap().shuffle(true).num_workers(workers);
        assert_eq!(batches(&loader), [vec![2, 0, 5], vec![6, 3, 4], vec![1]]);
        manual_seed(7);
        let weighted = WeightedRandomSampler::new(&[1.0; 7], 5, true).unwrap();
        let loader = DataLoader::new(numbers(0, 7), 3).unwrap().sampler(weighted).num_workers(workers);
        assert_eq!(loader.len(), 2);
        assert_eq!(batches(&loader), [vec![1, 6, 4], vec![6, 5]]);
        let pairs = BatchSampler::new(SequentialSampler(7), 2, true).unwrap();
        let loader = DataLoader::new(numbers(0, 7), 1).unwrap().batch_sampler(pairs).num_workers(workers);
        assert_eq!(batches(&loader), [[0, 1], [2, 3], [4, 5]]);
    }
}

#[test]
fn concatenated_datasets_and_collate_functions_work_with_workers() {
    let _turn = turn();
    let all =
        ConcatDataset::new(vec![Arc::new(numbers(0, 3)), Arc::new(numbers(0, 0)), Arc::new(numbers(10, 12))]).unwrap();
    assert_eq!(all.len(), 5);
    assert!(all.get(5).is_err());
    for workers in [0, 2] {
        let all = ConcatDataset::new(vec![Arc::new(numbers(0, 3)), Arc::new(numbers(10, 12))]).unwrap();
        let loader = DataLoader::new(all, 2).unwrap().num_workers(workers);
        assert_eq!(batches(&loader), [vec![0, 1], vec![2, 10], vec![11]]);
        let loader = loader.collate(|samples| {
            let sum = samples.iter().map(|s| s[0].item_f64().unwrap() as i64).sum::<i64>();
            Ok(vec![Tensor::from_slice(&[sum], &[1])?])
        });
        assert_eq!(batches(&loader), [[1], [12], [11]]);
    }
    assert_eq!(ConcatDataset::new(Vec::new()).err().unwrap().message(), "datasets should not be an empty iterable");
}

/// A dataset that counts reads. One sample cannot be read, another panics, and every read takes a millisecond.
struct Bad {
    reads: Arc<AtomicUsize>,
    error: usize,
    panic: usize,
}

impl Dataset for Bad {
    fn len(&self) -> usize {
        100
    }
    fn get(&self, index: usize) -> Result<Vec<Tensor>> {
        self.reads.fetch_add(1, SeqCst);
        std::thread::sleep(Duration::from_millis(1));
        assert!(index != self.panic, "sample {index} is cursed");
        if index == self.error {
            return Err(Error::runtime("cannot be read"));
        }
        Ok(vec![Tensor::from_slice(&[index as i64], &[])?])
    }
}

#[test]
fn errors_and_panics_of_workers_reach_the_iterator() {
    let _turn = turn();
    let bad = Bad { reads: Arc::default(), error: 5, panic: 9 };
    let loader = DataLoader::new(bad, 2).unwrap().num_workers(3);
    let found: Vec<Result<Vec<Tensor>>> = loader.iter().unwrap().collect();
    assert_eq!(found.len(), 50);
    for (i, batch) in found.into_iter().enumerate() {
        match (i, batch) {
            (2, b) => assert_eq!(b.unwrap_err().message(), "cannot be read"),
            (4, b) => {
                let e = b.unwrap_err();
                assert!(e.message().starts_with("Caught a panic in DataLoader worker "), "{e:?}");
                assert!(e.message().ends_with(": sample 9 is cursed"), "{e:?}");
            }
            (i, b) => assert_eq!(b.unwrap()[0].to_vec::<i64>().unwrap(), [2 * i as i64, 2 * i as i64 + 1]),
        }
    }
}

#[test]
fn workers_read_only_the_prefetched_batches_and_stop_when_dropped() {
    let _turn = turn();
    let reads = Arc::new(AtomicUsize::new(0));
    let bad = Bad { reads: reads.clone(), error: 1000, panic: 1000 };
    let loader = DataLoader::new(bad, 1).unwrap().num_workers(2).prefetch_factor(3);
    let mut pass = loader.iter().unwrap();
    pass.next().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // The taken batch, and three batches for each of two workers.
    assert_eq!(reads.load(SeqCst), 7);
    let started = Instant::now();
    drop(pass);
    assert!(started.elapsed() < Duration::from_secs(1));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(reads.load(SeqCst), 7);
    // Only the loader holds the dataset now.
    drop(loader);
    assert_eq!(Arc::strong_count(&reads), 1);
}

#[test]
fn workers_read_tensors_on_an_accelerator() {
    let _turn = turn();
    let d = torchtpu::device("tpu").unwrap();
    let v: Vec<i64> = (0..20).collect();
    let x = Tensor::from_slice_on(&v, &[10, 2], d).unwrap();
    for workers in [0, 2] {
        // Compute sums, so that the worker has work.
        let loader = DataLoader::new(TensorDataset::new(vec![x.clone()]).unwrap(), 4)
            .unwrap()
            .num_workers(workers)
            .collate(move |samples| {
                Ok(vec![
                    samples
                        .into_iter()
                        .flatten()
                        .try_fold(Tensor::from_slice(&[0i64, 0], &[2])?.to_device(d)?, |a, b| a.add(&b))?,
                ])
            });
        assert_eq!(batches(&loader), [[12, 16], [44, 48], [34, 36]], "{workers} workers");
    }
}
