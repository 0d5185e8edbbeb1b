//! Trains a small GPT, letter by letter, on the source of Python's own standard library, and lets it write some; the
//! twin of `char_gpt.py`.
//!
//! ```text
//! cargo run --release --example char_gpt                    # on "tpu": an accelerator, else XLA on this CPU
//! cargo run --release --example char_gpt -- --device cpu    # the native kernels
//! cargo run --release --example char_gpt -- --text my_book.txt --steps 2000
//! cargo run --release --example char_gpt -- --losses 50     # print the loss of each of the first 50 steps
//! ```

mod common;

use common::Flags;
use std::collections::BTreeSet;
use std::f64::consts::PI;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use torchtpu::nn::optim::{AdamOptions, AdamW, LambdaLR, Optimizer, Scheduler, clip_grad_norm};
use torchtpu::nn::{self, Dropout, Embedding, LayerNorm, Linear, Module, Parameter, Training, Visitor, init};
use torchtpu::ops::activation::gelu;
use torchtpu::ops::attention::{AttentionArgs, scaled_dot_product_attention};
use torchtpu::ops::dropout::dropout;
use torchtpu::ops::random::{Distribution, multinomial, sample};
use torchtpu::{Backward, DType, Device, Error, Meta, Result, Scalar, Tensor, no_grad};

const USAGE: &str = "usage: char_gpt [--device cpu|tpu] [--mode fused|strict|debug] [--text FILE] [--layers N] \
    [--heads N] [--width N] [--block N] [--batch-size N] [--dropout P] [--lr X] [--steps N] [--seed S] [--write N] \
    [--losses N]";

/// Causal self-attention of several heads.
struct Attention {
    heads: i64,
    dropout: f64,
    qkv: Linear,
    proj: Linear,
    training: Training,
}

impl Module for Attention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [batch, block, width] = [x.dims()[0] as i64, x.dims()[1] as i64, x.dims()[2] as i64];
        let qkv = self.qkv.forward(x)?;
        let part = |i: i64| -> Result<Tensor> {
            qkv.narrow(2, i * width, width)?.view_as_sizes(&[batch, block, self.heads, -1])?.transpose(1, 2)
        };
        let p = if self.training.get() { self.dropout } else { 0.0 };
        let args = AttentionArgs { mask: None, dropout: p, is_causal: true, scale: None, enable_gqa: false };
        let y = scaled_dot_product_attention(&part(0)?, &part(1)?, &part(2)?, &args)?;
        let y = self.proj.forward(&y.transpose(1, 2)?.reshape(&[batch, block, width])?)?;
        dropout(&y, self.dropout, self.training.get())
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("qkv", &self.qkv);
        v.module("proj", &self.proj);
        v.training(&self.training);
    }
}

/// Two linear layers.
struct Mlp {
    up: Linear,
    proj: Linear,
}

impl Module for Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.proj.forward(&gelu(&self.up.forward(x)?, "none")?)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("up", &self.up);
        v.module("proj", &self.proj);
    }
}

/// Attention and two linear layers, each beside a shortcut.
struct Block {
    ln1: LayerNorm,
    attention: Attention,
    ln2: LayerNorm,
    mlp: Mlp,
    dropout: Dropout,
}

impl Block {
    fn new(width: usize, heads: usize, dropout: f64) -> Result<Block> {
        let ln1 = LayerNorm::new(&[width])?;
        let qkv = Linear::new(width, 3 * width)?;
        let proj = Linear::new(width, width)?;
        let attention = Attention { heads: heads as i64, dropout, qkv, proj, training: Training::default() };
        let ln2 = LayerNorm::new(&[width])?;
        let mlp = Mlp { up: Linear::new(width, 4 * width)?, proj: Linear::new(4 * width, width)? };
        Ok(Block { ln1, attention, ln2, mlp, dropout: Dropout::new(dropout)? })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.add(&self.attention.forward(&self.ln1.forward(x)?)?)?;
        x.add(&self.dropout.forward(&self.mlp.forward(&self.ln2.forward(&x)?)?)?)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("ln1", &self.ln1);
        v.module("attention", &self.attention);
        v.module("ln2", &self.ln2);
        v.module("mlp", &self.mlp);
        v.module("dropout", &self.dropout);
    }
}

/// Logits of the next letter at each place.
struct Gpt {
    block: usize,
    token: Embedding,
    position: Embedding,
    dropout: Dropout,
    blocks: Vec<Block>,
    ln: LayerNorm,
}

impl Gpt {
    fn new(vocabulary: usize, block: usize, layers: usize, heads: usize, width: usize, dropout: f64) -> Result<Gpt> {
        let model = Gpt {
            block,
            token: Embedding::new(vocabulary, width)?,
            position: Embedding::new(block, width)?,
            dropout: Dropout::new(dropout)?,
            blocks: (0..layers).map(|_| Block::new(width, heads, dropout)).collect::<Result<_>>()?,
            ln: LayerNorm::new(&[width])?,
        };
        // Python's twin makes a head and then ties it; its numbers are drawn here too, so that both go on alike.
        Linear::with_bias(width, vocabulary, false)?;
        for (name, p) in model.named_parameters() {
            let t = p.tensor();
            if name.ends_with("proj.weight") {
                init::normal_(&t, 0.0, 0.02 / (2.0 * layers as f64).sqrt(), None)?; // they add up over the layers
            } else if t.dims().len() >= 2 {
                init::normal_(&t, 0.0, 0.02, None)?;
            } else if name.ends_with("bias") {
                init::zeros_(&t)?;
            }
        }
        Ok(model)
    }

    /// Appends `count` letters, one by one. The window has a fixed size, so that nothing is compiled twice.
    fn write(&self, first: i64, count: usize, device: Device) -> Result<Vec<i64>> {
        no_grad(|| {
            let mut window = Tensor::zeros(&[1, self.block], DType::I64, device)?;
            window.narrow(1, 0, 1)?.copy_(&Tensor::from_slice(&[first], &[1, 1])?)?;
            let (mut at, mut out) = (1, Vec::new());
            for _ in 0..count {
                if at == self.block {
                    let (head, tail) = (window.narrow(1, 0, 1)?, window.narrow(1, 1, self.block as i64 - 1)?);
                    window = torchtpu::ops::concat::cat(&[&tail, &head], 1)?;
                    at -= 1;
                }
                let logits = self.forward(&window)?.select(1, at as i64 - 1)?.div_scalar(0.8)?;
                let next = multinomial(&logits.softmax(-1)?, 1, false, None)?;
                window.narrow(1, at as i64, 1)?.copy_(&next)?;
                out.push(next);
                at += 1;
            }
            out.iter().map(|t| Ok(t.to_vec::<i64>()?[0])).collect()
        })
    }
}

impl Module for Gpt {
    fn forward(&self, letters: &Tensor) -> Result<Tensor> {
        let n = letters.dims()[1] as i64;
        let places = Tensor::arange(Scalar::Int(0), Scalar::Int(n), Scalar::Int(1), DType::I64, letters.device())?;
        let mut x = self.token.forward(letters)?.add(&self.position.forward(&places)?)?;
        x = self.dropout.forward(&x)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.ln.forward(&x)?.matmul(&self.token.weight.tensor().t()?)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.module("token", &self.token);
        v.module("position", &self.position);
        v.module("dropout", &self.dropout);
        for (i, block) in self.blocks.iter().enumerate() {
            v.module(&format!("blocks.{i}"), block);
        }
        v.module("ln", &self.ln);
    }
}

/// The first million letters of Python's standard library, file by file in alphabetical order.
fn standard_library() -> Result<String> {
    let folder = common::ask_python("import sysconfig; print(sysconfig.get_path('stdlib'))", |folder| {
        Some(PathBuf::from(folder)).filter(|f| f.is_dir())
    });
    let folder = folder.ok_or_else(|| {
        Error::runtime("Python's standard library was not found").note("install python3, or name a file with --text")
    })?;
    let failed = |path: &Path, e: std::io::Error| Error::runtime(format!("{}: {e}", path.display()));
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map_err(|e| failed(&folder, e))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .collect();
    files.sort();
    let mut text = String::new();
    for file in files {
        let source = std::fs::read(&file).map_err(|e| failed(&file, e))?;
        text.extend(source.into_iter().filter(|&c| c == b'\n' || (b' '..=b'~').contains(&c)).map(char::from));
        if text.len() >= 1_000_000 {
            text.truncate(1_000_000);
            break;
        }
    }
    Ok(text)
}

/// Letters and the letters after them, from random places of the text.
fn batch(data: &Tensor, block: usize, size: usize, device: Device) -> Result<(Tensor, Tensor)> {
    let block = block as i64;
    let last = data.dims()[0] as i64 - block;
    if last <= 0 {
        return Err(Error::value("--block: the text is shorter than that"));
    }
    let meta = Meta::new(&[size, 1], DType::I64, Device::CPU);
    let start = sample(Distribution::Integers(0, last), &meta, None)?;
    let offsets = Tensor::arange(Scalar::Int(0), Scalar::Int(block + 1), Scalar::Int(1), DType::I64, Device::CPU)?;
    let chunk = torchtpu::ops::indexing::index(data, &[Some(start.add(&offsets)?)])?.to_device(device)?;
    Ok((chunk.narrow(1, 0, block)?, chunk.narrow(1, 1, block)?))
}

fn loss_of(model: &Gpt, (x, y): &(Tensor, Tensor)) -> Result<Tensor> {
    nn::cross_entropy(&model.forward(x)?.flatten(0, 1)?, &y.flatten(0, 1)?)
}

fn run() -> Result<()> {
    let flags = Flags::parse(USAGE)?;
    torchtpu::random::manual_seed(flags.get("--seed", 0)?);
    let (device, _) = flags.device()?;
    let (block, size): (usize, usize) = (flags.get("--block", 64)?, flags.get("--batch-size", 16)?);
    let (layers, heads, width) = (flags.get("--layers", 4)?, flags.get("--heads", 4)?, flags.get("--width", 128)?);
    let (steps, losses): (u64, u64) = (flags.get("--steps", 500)?, flags.get("--losses", 0)?);
    let text = match flags.path("--text") {
        Some(path) => std::fs::read_to_string(&path).map_err(|e| Error::runtime(format!("{}: {e}", path.display())))?,
        None => standard_library()?,
    };
    let letters: Vec<char> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
    let numbers: Vec<i64> = text.chars().map(|c| letters.binary_search(&c).expect("one of them") as i64).collect();
    let data = Tensor::from_slice(&numbers, &[numbers.len()])?;
    let held_out = (numbers.len() / 10) as i64;
    let training = data.narrow(0, 0, numbers.len() as i64 - held_out)?;
    let test = data.narrow(0, numbers.len() as i64 - held_out, held_out)?;
    println!("{} letters, {} different ones", numbers.len(), letters.len());

    let model = Gpt::new(letters.len(), block, layers, heads, width, flags.get("--dropout", 0.0)?)?;
    let count: usize = model.parameters().iter().map(|p| p.tensor().numel()).sum();
    println!("{:.2} million parameters", count as f64 / 1e6);
    model.to(device)?;

    // Only matrices decay.
    let lr = flags.get("--lr", 1e-3)?;
    let (matrices, vectors): (Vec<Parameter>, Vec<Parameter>) =
        model.parameters().into_iter().partition(|p| p.tensor().dims().len() >= 2);
    let options = AdamOptions { lr, betas: (0.9, 0.95), ..AdamOptions::adamw() };
    let mut optimizers = [
        AdamW::new(matrices, AdamOptions { weight_decay: 0.1, ..options })?,
        AdamW::new(vectors, AdamOptions { weight_decay: 0.0, ..options })?,
    ];
    // A short rise, then half a cosine down to a tenth.
    let warm = (steps / 20).max(1) as f64;
    let factor = move |s: u64| {
        let s = s as f64;
        let part = ((s - warm) / (steps as f64 - warm).max(1.0)).min(1.0);
        if s < warm { (s + 1.0) / warm } else { 0.1 + 0.45 * (1.0 + (PI * part).cos()) }
    };
    let mut schedules: Vec<_> =
        optimizers.iter_mut().map(|o| Scheduler::new(LambdaLR(factor), o)).collect::<Result<_>>()?;

    let every = (steps / 10).max(1);
    let mut total = Tensor::zeros(&[], DType::F32, device)?;
    let mut started = Instant::now();
    for step in 1..=steps {
        let xy = batch(&training, block, size, device)?;
        for o in &optimizers {
            o.zero_grad()?;
        }
        let loss = loss_of(&model, &xy)?;
        loss.backward()?;
        clip_grad_norm(&model.parameters(), 1.0, 2.0)?;
        for (o, s) in optimizers.iter_mut().zip(&mut schedules) {
            o.step()?;
            s.step(o)?;
        }
        total.add_(&loss.detach())?;
        if step <= losses {
            println!("step {step:3}  loss {:.6}", loss.item_f64()?);
        }
        if step % every == 0 {
            let mean = total.item_f64()? / every as f64;
            let ms = 1e3 * started.elapsed().as_secs_f64() / every as f64;
            println!("step {step:5}/{steps}  loss {mean:.4}  {ms:.1} ms a step");
            (total, started) = (Tensor::zeros(&[], DType::F32, device)?, Instant::now());
        }
    }

    model.eval();
    let mean = no_grad(|| -> Result<f64> {
        let total = Tensor::zeros(&[], DType::F32, device)?;
        for _ in 0..20 {
            total.add_(&loss_of(&model, &batch(&test, block, size, device)?)?)?;
        }
        Ok(total.item_f64()? / 20.0)
    })?;
    println!("\nheld-out loss  {mean:.4} nats a letter");
    let first = letters.binary_search(&'\n').unwrap_or(0) as i64;
    let written = model.write(first, flags.get("--write", 300)?, device)?;
    println!("{}", written.iter().map(|&i| letters[i as usize]).collect::<String>());
    Ok(())
}

fn main() -> ExitCode {
    common::report(run)
}
