//! Trains a small network on 1,797 real handwritten digits in two processes, the twin of `ddp.py`.
//!
//! ```text
//! cargo run --release --example ddp                  # starts two ranks of itself
//! cargo run --release --example ddp -- --ranks 4
//! ```

mod common;

use common::Flags;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use torchtpu::distributed::reducer::{self, Reducer, ReducerOptions};
use torchtpu::distributed::store::FileStore;
use torchtpu::distributed::transport::shm::Shm;
use torchtpu::distributed::{Op, Options, ProcessGroup, ReduceOp, Request};
use torchtpu::nn::optim::{AdamOptions, AdamW, Optimizer};
use torchtpu::nn::{self, Linear, Module, Visitor};
use torchtpu::{Backward, DType, Error, Result, Tensor};

const USAGE: &str = "usage: ddp [--ranks N] [--steps N] [--batch-size N] [--data digits.csv.gz]";

/// The environment variable that tells a process its rank and the file in which the ranks meet.
const RANK: &str = "TORCHTPU_EXAMPLE_RANK";

struct Net {
    hidden: Linear,
    output: Linear,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.output.forward(&self.hidden.forward(x)?.relu()?)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("hidden", &self.hidden);
        v.module("output", &self.output);
    }
}

/// Start this program once for each rank, and wait for all of them.
fn start_ranks(ranks: usize) -> Result<()> {
    let io = |e: std::io::Error| Error::runtime(format!("a rank could not be started: {e}"));
    let program = std::env::current_exe().map_err(io)?;
    let meeting = std::env::temp_dir().join(format!("torchtpu-ddp-{}", std::process::id()));
    let start = |rank: usize| {
        let mut command = Command::new(&program);
        command.args(std::env::args_os().skip(1)).env(RANK, format!("{rank} {}", meeting.display()));
        command.spawn().map_err(io)
    };
    let children = (0..ranks).map(start).collect::<Result<Vec<_>>>()?;
    let ended = children.into_iter().map(|mut child| child.wait().map_err(io)).collect::<Result<Vec<_>>>();
    // The file is there unless no rank has started.
    let _ = std::fs::remove_file(&meeting);
    match ended?.into_iter().find(|status| !status.success()) {
        Some(status) => Err(Error::runtime(format!("a rank has failed: {status}"))),
        None => Ok(()),
    }
}

fn train(flags: &Flags, group: &ProcessGroup) -> Result<()> {
    let (rank, size) = (group.rank(), group.size());
    let (steps, batch_size) = (flags.get("--steps", 100)?, flags.get("--batch-size", 64)?);
    let (images, labels) = common::digits(flags.path("--data"))?;
    let images = images.flatten(1, -1)?;
    let (count, part) = (images.dims()[0] as i64 - 360, batch_size / size as i64);

    torchtpu::random::manual_seed(0);
    let model = Net { hidden: Linear::new(64, 128)?, output: Linear::new(128, 10)? };
    let parameters: Vec<(String, Tensor)> =
        model.named_parameters().into_iter().map(|(name, p)| (name, p.tensor())).collect();
    let tensors: Vec<Tensor> = parameters.iter().map(|p| p.1.clone()).collect();
    // All ranks begin with the parameters of rank 0.
    reducer::broadcast(group, &tensors, 0)?;
    let reducer = Reducer::new(group, None, parameters, ReducerOptions::default())?;
    let mut optimizer = AdamW::new(model.parameters(), AdamOptions { lr: 2e-3, ..AdamOptions::adamw() })?;

    for step in 0..steps {
        // Each rank takes its part of the batch.
        let start = (step * batch_size + rank as i64 * part) % (count - part);
        let (x, y) = (images.narrow(0, start, part)?, labels.narrow(0, start, part)?);
        optimizer.zero_grad()?;
        reducer.begin(None)?;
        let loss = nn::cross_entropy(&model.forward(&x)?, &y)?;
        reducer.expect(None)?;
        // The gradients are averaged while they are computed.
        loss.backward()?;
        optimizer.step()?;
        if step % 20 == 19 {
            let mut mean = (loss.item_f64()? as f32).to_ne_bytes();
            group.run(&Request::new(Op::AllReduce(ReduceOp::Avg), DType::F32, &[1]), &[], &mut mean)?;
            if rank == 0 {
                println!("step {:3}/{steps}  loss {:.4}", step + 1, f32::from_ne_bytes(mean));
            }
        }
    }
    let (x, y) = (images.narrow(0, count, 360)?, labels.narrow(0, count, 360)?);
    let guesses = model.forward(&x)?.argmax(Some(1), false)?.to_vec::<i64>()?;
    let right = guesses.iter().zip(y.to_vec::<i64>()?).filter(|(guess, label)| **guess == *label).count();
    if rank == 0 {
        println!("held-out accuracy  {:.2} % of 360 digits, {size} ranks", right as f64 / 3.6);
    }
    Ok(())
}

fn run() -> Result<()> {
    let flags = Flags::parse(USAGE)?;
    let ranks = flags.get("--ranks", 2)?;
    let Ok(place) = std::env::var(RANK) else { return start_ranks(ranks) };
    let (rank, path) = place.split_once(' ').ok_or_else(|| Error::value(format!("{RANK}: {place}")))?;
    let rank = rank.parse().map_err(|_| Error::value(format!("{RANK}: {place}")))?;
    let store = Arc::new(FileStore::new(path, None)?);
    let group = ProcessGroup::new(store, Arc::new(Shm), rank, ranks, Options::default())?;
    train(&flags, &group)
}

fn main() -> ExitCode {
    common::report(run)
}
