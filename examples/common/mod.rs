//! What the examples share: flags, the real digits that scikit-learn carries, and how many of them a model gets right.
#![allow(dead_code)] // each example uses a part

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::str::FromStr;
use torchtpu::nn::Module;
use torchtpu::nn::data::{DataLoader, Dataset};
use torchtpu::{DType, Device, DeviceKind, Error, Result, Tensor, lazy, no_grad};

/// `--name value` pairs of the command line.
pub struct Flags {
    usage: &'static str,
    given: BTreeMap<String, String>,
}

impl Flags {
    /// Reads the command line; `usage` names every flag there is.
    pub fn parse(usage: &'static str) -> Result<Flags> {
        let mut given = BTreeMap::new();
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let known = name.starts_with("--") && usage.contains(&format!("[{name} "));
            if !known {
                return Err(Error::value(format!("unknown argument {name}\n{usage}")));
            }
            let v = args.next().ok_or_else(|| Error::value(format!("{name}: expected one argument\n{usage}")))?;
            given.insert(name, v);
        }
        Ok(Flags { usage, given })
    }
    /// The value of a flag, or what stands for it.
    pub fn get<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        match self.given.get(name) {
            None => Ok(default),
            Some(v) => v.parse().map_err(|_| Error::value(format!("{name}: invalid value '{v}'\n{}", self.usage))),
        }
    }
    /// The path that a flag gives.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.given.get(name).map(PathBuf::from)
    }
    /// The device of `--device` (`tpu` by default), in the mode of `--mode`, whose name comes with it.
    pub fn device(&self) -> Result<(Device, String)> {
        let device = torchtpu::device(&self.get("--device", "tpu".to_string())?)?;
        let name = self.get("--mode", "fused".to_string())?;
        let mode = match name.as_str() {
            "fused" => lazy::EagerMode::Fused,
            "strict" => lazy::EagerMode::Strict,
            "debug" => lazy::EagerMode::Debug,
            _ => return Err(Error::value(format!("--mode: invalid choice: '{name}'\n{}", self.usage))),
        };
        if device.kind == DeviceKind::Tpu {
            lazy::set_eager_mode(mode);
        }
        Ok((device, name))
    }
}

/// Runs an example and prints what went wrong.
pub fn report(run: fn() -> Result<()>) -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// What a script prints in the Python environment that `VIRTUAL_ENV` names, in `.venv`, or by `python3`; the first
/// answer that `accept` takes.
pub fn ask_python<T>(script: &str, accept: impl Fn(&str) -> Option<T>) -> Option<T> {
    let environments = [std::env::var_os("VIRTUAL_ENV").map(PathBuf::from), Some(PathBuf::from(".venv"))];
    let pythons = environments.into_iter().flatten().map(|e| e.join("bin/python3")).chain([PathBuf::from("python3")]);
    for python in pythons {
        let Ok(out) = Command::new(&python).args(["-c", script]).output() else { continue };
        if out.status.success()
            && let Some(answer) = accept(String::from_utf8_lossy(&out.stdout).trim())
        {
            return Some(answer);
        }
    }
    None
}

/// The share of samples that the model gets right.
pub fn accuracy<D: Dataset>(model: &dyn Module, loader: &DataLoader<D>, device: Device) -> Result<f64> {
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

/// 1,797 images `[n, 1, 8, 8]` within 0 and 1, and their labels `[n]`: from `path`, else from scikit-learn's package.
pub fn digits(path: Option<PathBuf>) -> Result<(Tensor, Tensor)> {
    let script = "import importlib.util as u; print(u.find_spec('sklearn').submodule_search_locations[0])";
    let installed = || {
        ask_python(script, |folder| {
            Some(Path::new(folder).join("datasets/data/digits.csv.gz")).filter(|file| file.is_file())
        })
    };
    match path.or_else(installed) {
        Some(path) => read_digits(&path),
        None => Err(Error::runtime("the digits were not found: they come with scikit-learn")
            .note(
                "install it with `pip install scikit-learn`, in the environment that VIRTUAL_ENV names or in .venv, or",
            )
            .note("give the path of sklearn/datasets/data/digits.csv.gz with --data")),
    }
}

fn read_digits(path: &Path) -> Result<(Tensor, Tensor)> {
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
