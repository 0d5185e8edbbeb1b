//! Trains a small convolutional network on 1,797 real handwritten digits; the twin of `digits.py`.
//!
//! ```text
//! cargo run --release --example digits                    # on "tpu": an accelerator, else XLA on this CPU
//! cargo run --release --example digits -- --device cpu    # the native kernels
//! cargo run --release --example digits -- --mode debug    # every op by itself, checked
//! cargo run --release --example digits -- --losses 50     # print the loss of each of the first 50 steps
//! ```

mod common;

use common::Flags;
use std::process::ExitCode;
use std::time::Instant;
use torchtpu::nn::data::{DataLoader, Dataset, TensorDataset, random_split};
use torchtpu::nn::optim::{AdamOptions, AdamW, Optimizer};
use torchtpu::nn::{self, Conv2d, Conv2dOptions, Linear, MaxPool2d, Module, Visitor};
use torchtpu::{Backward, DType, DeviceKind, Error, Result, Tensor, lazy};

const USAGE: &str = "usage: digits [--device cpu|tpu] [--mode fused|strict|debug] [--epochs N] [--batch-size N] [--lr \
    X] [--seed S] [--steps N] [--losses N] [--data digits.csv.gz]";

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

fn run() -> Result<()> {
    let flags = Flags::parse(USAGE)?;
    let (epochs, batch_size) = (flags.get("--epochs", 20)?, flags.get("--batch-size", 64)?);
    let (last_step, losses) = (flags.get("--steps", 0)?, flags.get("--losses", 0)?);
    let (images, labels) = common::digits(flags.path("--data"))?;

    torchtpu::random::manual_seed(flags.get("--seed", 0)?);
    let (device, mode) = flags.device()?;
    let on_tpu = device.kind == DeviceKind::Tpu;
    let n = images.dims()[0];
    let mut parts = random_split(TensorDataset::new(vec![images, labels])?, &[n - n / 5 - 1, n / 5 + 1])?;
    let (held_out, train) = (parts.pop().expect("two parts"), parts.pop().expect("two parts"));
    // A smaller last batch would be a second set of shapes to compile.
    let train = DataLoader::new(train, batch_size)?.shuffle(true).drop_last(true);
    let test_size = held_out.len();
    let test = DataLoader::new(held_out, test_size)?;

    let model = Net::new()?;
    model.to(device)?;
    let mut optimizer =
        AdamW::new(model.parameters(), AdamOptions { lr: flags.get("--lr", 2e-3)?, ..AdamOptions::adamw() })?;

    let (mut steps, mut score, mut timed, mut seconds) = (0, 0.0, 0, 0.0);
    'epochs: for epoch in 1..=epochs {
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
            if steps <= losses {
                println!("step {steps:3}  loss {:.6}", loss.item_f64()?);
            }
            if steps == last_step {
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
        score = common::accuracy(&model, &test, device)?;
        println!("epoch {epoch:2}/{}  loss {mean_loss:.4}  accuracy {:5.2} %  {elapsed:5.2} s", epochs, 100.0 * score);
        if steps == last_step {
            break 'epochs;
        }
    }

    println!("\nheld-out accuracy  {:.2} % of {test_size} digits after {steps} steps", 100.0 * score);
    if on_tpu {
        let m = lazy::metrics();
        let cuts: Vec<String> =
            m.cuts.iter().filter(|(_, n)| *n > 0).map(|(reason, n)| format!("{reason} {n}")).collect();
        println!("device             {}", lazy::device_name()?);
        println!("mode               {}", mode);
        println!(
            "segments           {} compiled, {} cache hits, {} run, {} run op by op",
            m.compilations,
            m.process_cache_hits + m.disk_cache_hits,
            m.segments_executed,
            m.segments_interpreted
        );
        println!("cuts               {}", if cuts.is_empty() { "none".into() } else { cuts.join(", ") });
    } else {
        println!("device             cpu (native kernels)");
    }
    println!("time per step      {:.2} ms", 1e3 * seconds / timed.max(1) as f64);
    Ok(())
}

fn main() -> ExitCode {
    common::report(run)
}
