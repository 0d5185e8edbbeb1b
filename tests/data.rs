//! Tests of datasets, samplers and loaders against numbers of PyTorch, of workers, and of files of tensors.

mod common;

use common::turn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use torchtpu::nn::data::{
    BatchSampler, ConcatDataset, DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
    TensorDataset, WeightedRandomSampler,
};
use torchtpu::nn::safetensors;
use torchtpu::random::{Generator, manual_seed};
use torchtpu::{DType, Device, Error, Result, Tensor};

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

#[cfg(unix)]
#[test]
fn saving_keeps_permissions_and_links_and_writes_to_devices() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let _turn = turn();
    let folder = std::env::temp_dir().join(format!("torchtpu-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mode = |path: &std::path::Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    let tensors = |n: f32| vec![("x".to_string(), Tensor::from_slice(&[n], &[1]).unwrap())];
    let read = |path: &std::path::Path| safetensors::load_file(path, Device::CPU).unwrap()[0].1.item_f64().unwrap();

    // A new file has the permissions of any new file, and a replaced file keeps its own.
    let (plain, path) = (folder.join("plain"), folder.join("a.safetensors"));
    std::fs::write(&plain, b"").unwrap();
    safetensors::save_file(&path, &tensors(1.0), None).unwrap();
    assert_eq!(mode(&path), mode(&plain));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o604)).unwrap();
    safetensors::save_file(&path, &tensors(2.0), None).unwrap();
    assert_eq!((mode(&path), read(&path)), (0o604, 2.0));

    let link = folder.join("link");
    symlink("a.safetensors", &link).unwrap();
    safetensors::save_file(&link, &tensors(3.0), None).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((mode(&path), read(&path)), (0o604, 3.0));
    let dangling = folder.join("dangling");
    symlink("new.safetensors", &dangling).unwrap();
    safetensors::save_file(&dangling, &tensors(4.0), None).unwrap();
    assert_eq!(read(&folder.join("new.safetensors")), 4.0);
    let circle = folder.join("circle");
    symlink("circle", &circle).unwrap();
    assert!(safetensors::save_file(&circle, &tensors(4.0), None).is_err());

    let full = std::path::Path::new("/dev/full");
    if full.exists() {
        assert!(safetensors::save_file(full, &tensors(1.0), None).is_err());
        safetensors::save_file("/dev/null", &tensors(1.0), None).unwrap();
        for device in ["/dev/full", "/dev/null"] {
            assert!(std::fs::metadata(device).unwrap().file_type().is_char_device());
        }
    }

    // The error names the path once, with its cause.
    let shown = folder.display().to_string();
    for e in [
        safetensors::save_file(&folder, &tensors(1.0), None).unwrap_err(),
        safetensors::load_file(&folder, Device::CPU).unwrap_err(),
        safetensors::save_file(folder.join("none/a"), &tensors(1.0), None).unwrap_err(),
        safetensors::load_file(folder.join("none/a"), Device::CPU).unwrap_err(),
    ] {
        assert_eq!(e.message().matches(&shown).count(), 1, "{e:?}");
        assert!(e.message().contains("directory"), "{e:?}");
    }
    // No temporary file is left.
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["a.safetensors", "circle", "dangling", "link", "new.safetensors", "plain"]);
    std::fs::remove_dir_all(&folder).unwrap();
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

#[test]
fn bytes_of_elements_survive_a_round_trip() {
    let x = Tensor::from_slice(&[1i16, -2, 3, 4, 5, 6], &[2, 3]).unwrap();
    let t = x.t().unwrap();
    let bytes = t.to_bytes().unwrap();
    assert_eq!(bytes, [1i16, 4, -2, 5, 3, 6].iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<_>>());
    let back = Tensor::from_bytes(&bytes, &[3, 2], DType::I16).unwrap();
    assert_eq!(back.to_vec::<i16>().unwrap(), [1, 4, -2, 5, 3, 6]);
    let e = Tensor::from_bytes(&bytes, &[3, 3], DType::I16).unwrap_err();
    assert_eq!(e.message(), "12 bytes are not the elements of a tensor of shape [3, 3] and type int16");
    assert_eq!(Tensor::from_bytes(&[], &[0, 3], DType::F64).unwrap().dims()[..], [0, 3]);
    let on_meta = Tensor::ones(&[2], DType::F32, torchtpu::device("meta").unwrap()).unwrap();
    assert!(on_meta.to_bytes().is_err());
}

#[cfg(unix)]
#[test]
fn a_failed_save_leaves_the_old_file_and_no_temporary_file() {
    const FOLDER: &str = "TORCHTPU_TEST_FULL";
    const NAME: &str = "a_failed_save_leaves_the_old_file_and_no_temporary_file";
    let _turn = turn();
    let tensors = |n: usize| vec![("x".to_string(), Tensor::ones(&[n], DType::F32, Device::CPU).unwrap())];
    // This is the child process, whose files are limited to 64 blocks of 512 bytes.
    if let Some(folder) = std::env::var_os(FOLDER) {
        let path = std::path::Path::new(&folder).join("a.safetensors");
        let e = safetensors::save_file(&path, &tensors(1 << 20), None).unwrap_err();
        assert!(e.message().starts_with("Error while serializing"), "{e}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("torchtpu-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.safetensors");
    safetensors::save_file(&path, &tensors(3), None).unwrap();
    let done = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(FOLDER, &folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"));
    assert_eq!(safetensors::load_file(&path, Device::CPU).unwrap()[0].1.to_vec::<f32>().unwrap(), [1.0; 3]);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}
