//! Trains ResNet-18 on 1,797 real handwritten digits, upscaled to 64 x 64; the twin of `resnet.py`.
//!
//! ```text
//! cargo run --release --example resnet                    # on "tpu": an accelerator, else XLA on this CPU
//! cargo run --release --example resnet -- --device cpu    # the native kernels
//! ```

mod common;

use common::Flags;
use std::process::ExitCode;
use std::time::Instant;
use torchtpu::nn::data::{DataLoader, TensorDataset, random_split};
use torchtpu::nn::init::{FanMode, Nonlinearity, kaiming_normal_};
use torchtpu::nn::optim::{CosineAnnealingLR, Optimizer, Scheduler, Sgd, SgdOptions};
use torchtpu::nn::{self, BatchNorm2d, Conv2d, Conv2dOptions, Linear, MaxPool2d, Module, Visitor};
use torchtpu::schema::Arg;
use torchtpu::{Backward, DType, DeviceKind, Result, Scalar, Tensor, lazy, ops};

const USAGE: &str = "usage: resnet [--device cpu|tpu] [--mode fused|strict|debug] [--size N] [--epochs N] \
    [--batch-size N] [--lr X] [--seed S] [--steps N] [--losses N] [--data digits.csv.gz]";

/// A convolution without bias, its weight normal with the variance that keeps gradients alike over the layers.
fn convolution(inside: usize, outside: usize, kernel: usize, stride: i64, padding: i64) -> Result<Conv2d> {
    let options = Conv2dOptions { stride: [stride; 2], padding: [padding; 2], bias: false, ..Conv2dOptions::default() };
    Conv2d::new(inside, outside, [kernel; 2], options)
}

/// A 1 x 1 convolution and a norm on a shortcut that changes size.
struct Downsample(Conv2d, BatchNorm2d);

impl Module for Downsample {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.1.forward(&self.0.forward(x)?)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("0", &self.0);
        v.module("1", &self.1);
    }
}

/// Two 3 x 3 convolutions beside a shortcut.
struct BasicBlock {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    downsample: Option<Downsample>,
}

impl BasicBlock {
    fn new(inside: usize, outside: usize, stride: i64) -> Result<BasicBlock> {
        let conv1 = convolution(inside, outside, 3, stride, 1)?;
        let conv2 = convolution(outside, outside, 3, 1, 1)?;
        let downsample = if stride != 1 || inside != outside {
            Some(Downsample(convolution(inside, outside, 1, stride, 0)?, BatchNorm2d::new(outside)?))
        } else {
            None
        };
        Ok(BasicBlock { conv1, bn1: BatchNorm2d::new(outside)?, conv2, bn2: BatchNorm2d::new(outside)?, downsample })
    }
}

impl Module for BasicBlock {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.bn1.forward(&self.conv1.forward(x)?)?.relu()?;
        let y = self.bn2.forward(&self.conv2.forward(&y)?)?;
        match &self.downsample {
            Some(d) => y.add(&d.forward(x)?)?.relu(),
            None => y.add(x)?.relu(),
        }
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("conv1", &self.conv1);
        v.module("bn1", &self.bn1);
        v.module("conv2", &self.conv2);
        v.module("bn2", &self.bn2);
        if let Some(d) = &self.downsample {
            v.module("downsample", d);
        }
    }
}

/// torchvision's `resnet18`, parameter names included.
struct ResNet18 {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    pool: MaxPool2d,
    layers: Vec<[BasicBlock; 2]>,
    fc: Linear,
}

impl ResNet18 {
    fn new(classes: usize) -> Result<ResNet18> {
        let conv1 = convolution(3, 64, 7, 2, 3)?;
        let mut inside = 64;
        let mut layers = Vec::new();
        for outside in [64, 128, 256, 512] {
            let stride = if outside == 64 { 1 } else { 2 };
            layers.push([BasicBlock::new(inside, outside, stride)?, BasicBlock::new(outside, outside, 1)?]);
            inside = outside;
        }
        let pool = MaxPool2d { stride: [2; 2], padding: [1; 2], ..MaxPool2d::new(3) };
        let model = ResNet18 { conv1, bn1: BatchNorm2d::new(64)?, pool, layers, fc: Linear::new(512, classes)? };
        for (_, p) in model.named_parameters() {
            if p.tensor().dims().len() == 4 {
                kaiming_normal_(&p.tensor(), FanMode::FanOut, Nonlinearity::ReLU, None)?;
            }
        }
        Ok(model)
    }
}

impl Module for ResNet18 {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = self.pool.forward(&self.bn1.forward(&self.conv1.forward(x)?)?.relu()?)?;
        for block in self.layers.iter().flatten() {
            x = block.forward(&x)?;
        }
        self.fc.forward(&x.mean_dim(&[-2, -1], false)?)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("conv1", &self.conv1);
        v.module("bn1", &self.bn1);
        for (i, layer) in self.layers.iter().enumerate() {
            for (j, block) in layer.iter().enumerate() {
                v.module(&format!("layer{}.{j}", i + 1), block);
            }
        }
        v.module("fc", &self.fc);
    }
}

/// Images `[n, 1, 8, 8]` at `size` x `size`, three equal channels, about zero.
fn prepare(images: &Tensor, size: i64) -> Result<Tensor> {
    let sizes = [size, size];
    let args = [Arg::Tensor(images), Arg::Ints(&sizes), Arg::Scalar(Scalar::Bool(false))];
    let x = ops::call_tensor("upsample_bilinear2d", &args)?;
    x.sub_scalar(0.3)?.div_scalar(0.38)?.expand(&[-1, 3, -1, -1])
}

fn run() -> Result<()> {
    let flags = Flags::parse(USAGE)?;
    let (epochs, batch_size): (u64, usize) = (flags.get("--epochs", 3)?, flags.get("--batch-size", 32)?);
    let (last_step, losses): (usize, usize) = (flags.get("--steps", 0)?, flags.get("--losses", 0)?);
    let (images, labels) = common::digits(flags.path("--data"))?;
    torchtpu::random::manual_seed(flags.get("--seed", 0)?);
    let (device, _) = flags.device()?;
    let images = prepare(&images, flags.get("--size", 64)?)?;
    let n = images.dims()[0];
    let mut parts = random_split(TensorDataset::new(vec![images, labels])?, &[n - n / 5 - 1, n / 5 + 1])?;
    let (held_out, training) = (parts.pop().expect("two parts"), parts.pop().expect("two parts"));
    // A smaller last batch would be a second set of shapes to compile.
    let loader = DataLoader::new(training, batch_size)?.shuffle(true).drop_last(true);
    let test = DataLoader::new(held_out, 120)?;

    let model = ResNet18::new(10)?;
    let count: usize = model.parameters().iter().map(|p| p.tensor().numel()).sum();
    println!("{:.1} million parameters", count as f64 / 1e6);
    model.to(device)?;
    let options =
        SgdOptions { lr: flags.get("--lr", 0.02)?, momentum: 0.9, weight_decay: 5e-4, ..SgdOptions::default() };
    let mut optimizer = Sgd::new(model.parameters(), options)?;
    let t_max = epochs * loader.len() as u64;
    let mut schedule = Scheduler::new(CosineAnnealingLR { t_max, eta_min: 0.0 }, &mut optimizer)?;
    let mut step = 0;
    'training: for epoch in 1..=epochs {
        let started = Instant::now();
        let total = Tensor::zeros(&[], DType::F32, device)?;
        for batch in loader.iter()? {
            let batch = batch?;
            let (images, labels) = (batch[0].to_device(device)?, batch[1].to_device(device)?);
            optimizer.zero_grad()?;
            let loss = nn::cross_entropy(&model.forward(&images)?, &labels)?;
            loss.backward()?;
            optimizer.step()?;
            schedule.step(&mut optimizer)?;
            total.add_(&loss.detach())?;
            step += 1;
            if step <= losses {
                println!("step {step:3}  loss {:.6}", loss.item_f64()?);
            }
            if step == last_step {
                break 'training;
            }
        }
        let mean = total.item_f64()? / loader.len() as f64;
        let ms = 1e3 * started.elapsed().as_secs_f64() / loader.len() as f64;
        let score = 100.0 * common::accuracy(&model, &test, device)?;
        println!("epoch {epoch}/{epochs}  loss {mean:.4}  held-out accuracy {score:.2} %  {ms:.0} ms a step");
    }
    if device.kind == DeviceKind::Tpu {
        println!("device {}, {} segments compiled", lazy::device_name()?, lazy::metrics().compilations);
    }
    Ok(())
}

fn main() -> ExitCode {
    common::report(run)
}
