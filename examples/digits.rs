//! Trains a small convolutional network on 1,797 real handwritten digits; the twin of `digits.py`.
//!
//! ```text
//! cargo run --release --example digits                       # on "tpu": whatever accelerator is found, else XLA on this CPU
//! cargo run --release --example digits -- --device cpu       # the native kernels
//! cargo run --release --example digits -- --mode debug       # every op by itself, checked
//! cargo run --release --example digits -- --losses 50        # print the loss of each of the first 50 steps
//! ```

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use torchtpu::nn::data::{DataLoader, Dataset, TensorDataset, random_split};
use torchtpu::nn::optim::{AdamOptions, AdamW, Optimizer};
use torchtpu::nn::{self, Conv2d, Conv2dOptions, Linear, MaxPool2d, Module, Visitor};
use torchtpu::{Backward, DType, Device, DeviceKind, Error, Result, Tensor, lazy, no_grad};

const USAGE: &str = "usage: digits [--device cpu|tpu] [--mode fused|strict|debug] [--epochs N] [--batch-size N] [--lr X] [--seed S] [--steps N] [--losses N] [--data digits.csv.gz]";

/// Two convolutions, pooling, two linear layers.
struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    fc1: Linear,
    fc2: Linear,
}

impl Net {
    fn new() -> Result<Net> {
        let same = Conv2dOptions { padding: [1, 1], ..Conv2dOptions::default() };
        Ok(Net {
            conv1: Conv2d::new(1, 16, [3, 3], same)?,
            conv2: Conv2d::new(16, 32, [3, 3], same)?,
            pool: MaxPool2d::new(2),
            fc1: Linear::new(32 * 4 * 4, 64)?,
            fc2: Linear::new(64, 10)?,
        })
    }
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.conv1.forward(x)?.relu()?;
        let x = self.pool.forward(&self.conv2.forward(&x)?.relu()?)?;
        let x = self.fc1.forward(&x.flatten(1, -1)?)?.relu()?;
        self.fc2.forward(&x)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("conv1", &self.conv1);
        v.module("conv2", &self.conv2);
        v.module("fc1", &self.fc1);
        v.module("fc2", &self.fc2);
    }
}

/// What the command line says.
struct Settings {
    device: String,
    mode: lazy::EagerMode,
    mode_name: String,
    epochs: usize,
    batch_size: usize,
    lr: f64,
    seed: u64,
    steps: usize,
    losses: usize,
    data: Option<PathBuf>,
}

impl Settings {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Settings> {
        let mut s = Settings {
            device: "tpu".into(),
            mode: lazy::EagerMode::Fused,
            mode_name: "fused".into(),
            epochs: 20,
            batch_size: 64,
            lr: 2e-3,
            seed: 0,
            steps: 0,
            losses: 0,
            data: None,
        };
        fn number<T: std::str::FromStr>(name: &str, v: &str) -> Result<T> {
            v.parse().map_err(|_| Error::value(format!("{name}: '{v}' is no valid number\n{USAGE}")))
        }
        while let Some(name) = args.next() {
            let v = args.next().ok_or_else(|| Error::value(format!("{name}: expected one argument\n{USAGE}")))?;
            match name.as_str() {
                "--device" => s.device = v,
                "--mode" => {
                    s.mode = match v.as_str() {
                        "fused" => lazy::EagerMode::Fused,
                        "strict" => lazy::EagerMode::Strict,
                        "debug" => lazy::EagerMode::Debug,
                        _ => return Err(Error::value(format!("--mode: invalid choice: '{v}'\n{USAGE}"))),
                    };
                    s.mode_name = v;
                }
                "--epochs" => s.epochs = number(&name, &v)?,
                "--batch-size" => s.batch_size = number(&name, &v)?,
                "--lr" => s.lr = number(&name, &v)?,
                "--seed" => s.seed = number(&name, &v)?,
                "--steps" => s.steps = number(&name, &v)?,
                "--losses" => s.losses = number(&name, &v)?,
                "--data" => s.data = Some(v.into()),
                _ => return Err(Error::value(format!("unknown argument {name}\n{USAGE}"))),
            }
        }
        Ok(s)
    }
}

/// scikit-learn carries the digits in its package; the Python environment knows where.
fn find_data() -> Result<PathBuf> {
    let environments = [std::env::var_os("VIRTUAL_ENV").map(PathBuf::from), Some(PathBuf::from(".venv"))];
    let pythons = environments.into_iter().flatten().map(|e| e.join("bin/python3")).chain([PathBuf::from("python3")]);
    let script = "import importlib.util as u; print(u.find_spec('sklearn').submodule_search_locations[0])";
    for python in pythons {
        let Ok(out) = Command::new(&python).args(["-c", script]).output() else { continue };
        let file = Path::new(String::from_utf8_lossy(&out.stdout).trim()).join("datasets/data/digits.csv.gz");
        if out.status.success() && file.is_file() {
            return Ok(file);
        }
    }
    Err(Error::runtime("the digits were not found: they come with scikit-learn")
        .note("install it with `pip install scikit-learn`, in the environment that VIRTUAL_ENV names or in .venv, or")
        .note("give the path of sklearn/datasets/data/digits.csv.gz with --data"))
}

/// Images `[n, 1, 8, 8]` within 0 and 1, and labels `[n]`.
fn read_data(path: &Path) -> Result<(Tensor, Tensor)> {
    let failed = |what: String| Error::runtime(format!("{}: {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).map_err(|e| failed(e.to_string()))?;
    } else {
        text = String::from_utf8(bytes).map_err(|e| failed(e.to_string()))?;
    }
    let (mut images, mut labels) = (Vec::<f32>::new(), Vec::<i64>::new());
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let row: Vec<f32> = line
            .split(',')
            .map(|v| v.trim().parse::<f32>())
            .collect::<std::result::Result<_, _>>()
            .map_err(|e| failed(format!("line {}: {e}", i + 1)))?;
        let [pixels @ .., label] = row.as_slice() else { return Err(failed(format!("line {} is empty", i + 1))) };
        if pixels.len() != 64 {
            return Err(failed(format!("line {} has {} pixels, expected 64", i + 1, pixels.len())));
        }
        images.extend(pixels);
        labels.push(*label as i64);
    }
    let n = labels.len();
    Ok((Tensor::from_slice(&images, &[n, 1, 8, 8])?.div_scalar(16.0)?, Tensor::from_slice(&labels, &[n])?))
}

/// The share of samples that the model gets right.
fn accuracy<D: Dataset>(model: &Net, loader: &DataLoader<D>, device: Device) -> Result<f64> {
    model.eval();
    let right = no_grad(|| -> Result<f64> {
        let right = Tensor::zeros(&[], DType::F32, device)?;
        for batch in loader.iter()? {
            let batch = batch?;
            let (images, labels) = (batch[0].to_device(device)?, batch[1].to_device(device)?);
            right.add_(&model.forward(&images)?.argmax(Some(1), false)?.eq(&labels)?.sum()?)?;
        }
        right.item_f64()
    })?;
    model.train(true);
    Ok(right / loader.dataset().len() as f64)
}

fn run() -> Result<()> {
    let s = Settings::parse(std::env::args().skip(1))?;
    let path = s.data.clone().map_or_else(find_data, Ok)?;
    let (images, labels) = read_data(&path)?;

    torchtpu::random::manual_seed(s.seed);
    let device = torchtpu::device(&s.device)?;
    let on_tpu = device.kind == DeviceKind::Tpu;
    if on_tpu {
        lazy::set_eager_mode(s.mode);
    }
    let n = images.dims()[0];
    let mut parts = random_split(TensorDataset::new(vec![images, labels])?, &[n - n / 5 - 1, n / 5 + 1])?;
    let (held_out, train) = (parts.pop().expect("two parts"), parts.pop().expect("two parts"));
    // A smaller last batch would be a second set of shapes to compile.
    let train = DataLoader::new(train, s.batch_size)?.shuffle(true).drop_last(true);
    let test_size = held_out.len();
    let test = DataLoader::new(held_out, test_size)?;

    let model = Net::new()?;
    model.to(device)?;
    let mut optimizer = AdamW::new(model.parameters(), AdamOptions { lr: s.lr, ..AdamOptions::adamw() })?;

    let (mut steps, mut score, mut timed, mut seconds) = (0, 0.0, 0, 0.0);
    'epochs: for epoch in 1..=s.epochs {
        let started = Instant::now();
        let total = Tensor::zeros(&[], DType::F32, device)?;
        let mut step = 0;
        for batch in train.iter()? {
            let batch = batch?;
            let (images, labels) = (batch[0].to_device(device)?, batch[1].to_device(device)?);
            optimizer.zero_grad()?;
            let loss = nn::cross_entropy(&model.forward(&images)?, &labels)?;
            loss.backward()?;
            optimizer.step()?;
            total.add_(&loss.detach())?;
            (step, steps) = (step + 1, steps + 1);
            if steps <= s.losses {
                println!("step {steps:3}  loss {:.6}", loss.item_f64()?);
            }
            if steps == s.steps {
                break;
            }
        }
        if step == 0 {
            return Err(Error::value("--batch-size: a batch is larger than the training set"));
        }
        let mean_loss = total.item_f64()? / step as f64;
        let elapsed = started.elapsed().as_secs_f64();
        // The first epoch is mostly compilation.
        if epoch == 2 {
            (timed, seconds) = (0, 0.0);
        }
        (timed, seconds) = (timed + step, seconds + elapsed);
        score = accuracy(&model, &test, device)?;
        println!(
            "epoch {epoch:2}/{}  loss {mean_loss:.4}  accuracy {:5.2} %  {elapsed:5.2} s",
            s.epochs,
            100.0 * score
        );
        if steps == s.steps {
            break 'epochs;
        }
    }

    println!("\nheld-out accuracy  {:.2} % of {test_size} digits after {steps} steps", 100.0 * score);
    if on_tpu {
        let m = lazy::metrics();
        let cuts: Vec<String> =
            m.cuts.iter().filter(|(_, n)| *n > 0).map(|(reason, n)| format!("{reason} {n}")).collect();
        println!("device             {}", lazy::device_name()?);
        println!("mode               {}", s.mode_name);
        println!(
            "segments           {} compiled, {} cache hits, {} run",
            m.compilations,
            m.process_cache_hits + m.disk_cache_hits,
            m.segments_executed
        );
        println!("cuts               {}", if cuts.is_empty() { "none".into() } else { cuts.join(", ") });
    } else {
        println!("device             cpu (native kernels)");
    }
    println!("time per step      {:.2} ms", 1e3 * seconds / timed.max(1) as f64);
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
