//! The table-driven suites: every row of the table, with its samples, against the same questions.
//!
//! Nothing is written per op. Known gaps are rows of [`LIMITS`], each with its reason.

use std::collections::BTreeSet;
use torchtpu::schema::{Arg, Args, Default, Fill, Ret, Row, Sample, SampleArg, Schema, Ty};
use torchtpu::{DType, Device, Dims, Result, Scalar, Tensor, c128, ops};

/// A question that a row is not asked, and why.
struct Limit {
    /// Row's schema starts with this, up to the bracket.
    op: &'static str,
    question: &'static str,
    /// Printed in the report.
    reason: &'static str,
}

/// Sizes of the result depend on values, at least for some arguments; on `meta` these are refused.
const READS_VALUES: &str = "infer where values decide";

const LIMITS: &[Limit] = &[
    Limit {
        op: "repeat_interleave.self_Tensor",
        question: READS_VALUES,
        reason: "the values decide how large the result is",
    },
    Limit {
        op: "repeat_interleave.Tensor",
        question: READS_VALUES,
        reason: "the values decide how large the result is",
    },
    Limit { op: "_unique2", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "unique_dim", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "unique_consecutive", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "bincount", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "histc", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "index.Tensor", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "masked_select", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "nonzero", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "argwhere", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "nonzero_numpy", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "where", question: READS_VALUES, reason: "the values decide how large the result is" },
    Limit { op: "one_hot", question: READS_VALUES, reason: "the values decide how large the result is" },
];

fn limited(row: &Row, question: &str) -> bool {
    let name = row.schema.split('(').next().unwrap_or_default();
    let hit = LIMITS.iter().find(|l| l.op == name && l.question == question);
    if let Some(l) = hit {
        println!("not asked: {name}: {question}: {}", l.reason);
    }
    hit.is_some()
}

/// Deterministic values: no two alike, none near a kink.
fn values(n: usize, fill: Fill, salt: usize) -> Vec<f64> {
    (0..n)
        .map(|i| {
            let u = ((i * 7919 + salt * 104_729 + 17) % 9973) as f64 / 9973.0;
            match fill {
                Fill::Normal => {
                    let v = u * 3.6 - 1.8;
                    if v.abs() < 0.15 { v + 0.4 } else { v }
                }
                Fill::Positive => 0.25 + u * 1.7,
                Fill::Unit => u * 1.6 - 0.8,
                Fill::Probability => 0.05 + u * 0.9,
                Fill::Fraction => u * 0.8 + 0.1,
                Fill::Index(bound) => ((i * 3 + salt) as i64 % bound.max(1)) as f64,
                Fill::Mask => ((i * 5 + salt) % 3 == 0) as u8 as f64,
            }
        })
        .collect()
}

fn tensor(dims: &[usize], fill: Fill, salt: usize, dtype: DType) -> Result<Tensor> {
    let dtype = match fill {
        Fill::Index(_) => DType::I64,
        Fill::Mask => DType::Bool,
        _ => dtype,
    };
    let v = values(dims.iter().product(), fill, salt);
    if dtype.is_complex() {
        // Imaginary parts small enough that no function is asked across a branch cut.
        let z: Vec<c128> = v
            .iter()
            .zip(values(v.len(), Fill::Unit, salt + 40))
            .map(|(&re, im)| c128::new(re, if im.abs() < 0.1 { im + 0.3 } else { im }))
            .collect();
        return Tensor::from_slice(&z, dims)?.to_dtype(dtype);
    }
    Tensor::from_slice(&v, dims)?.to_dtype(dtype)
}

/// The dtype that a sample is asked in where nothing else is said.
fn plain(sample: &Sample, real: DType) -> DType {
    if sample.only { real.to_complex().expect("a floating-point dtype") } else { real }
}

/// Real numbers as they are, complex ones as pairs.
fn numbers(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { x.resolve_conj()?.resolve_neg()?.view_as_real() } else { Ok(x.clone()) }
}

/// The arguments of a sample as owned values.
enum Owned {
    None,
    Tensor(Tensor),
    Tensors(Vec<Option<Tensor>>),
    Scalar(Scalar),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Str(String),
    DType(DType),
}

impl Owned {
    fn as_arg(&self) -> Arg<'_> {
        match self {
            Owned::None => Arg::None,
            Owned::Tensor(t) => Arg::Tensor(t),
            Owned::Tensors(v) => Arg::Tensors(v),
            Owned::Scalar(s) => Arg::Scalar(*s),
            Owned::Ints(v) => Arg::Ints(v),
            Owned::Floats(v) => Arg::Floats(v),
            Owned::Str(s) => Arg::Str(s),
            Owned::DType(d) => Arg::DType(*d),
        }
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Owned> {
        Ok(match self {
            Owned::Tensor(t) => Owned::Tensor(f(t)?),
            Owned::Tensors(v) => {
                Owned::Tensors(v.iter().map(|t| t.as_ref().map(&mut *f).transpose()).collect::<Result<_>>()?)
            }
            Owned::None => Owned::None,
            Owned::Scalar(s) => Owned::Scalar(*s),
            Owned::Ints(v) => Owned::Ints(v.clone()),
            Owned::Floats(v) => Owned::Floats(v.clone()),
            Owned::Str(s) => Owned::Str(s.clone()),
            Owned::DType(d) => Owned::DType(*d),
        })
    }
    fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Owned::Tensor(t) => vec![t],
            Owned::Tensors(v) => v.iter().flatten().collect(),
            _ => vec![],
        }
    }
}

fn arguments(schema: &Schema, sample: &Sample, dtype: DType) -> Result<Vec<Owned>> {
    let mut salt = 0;
    let mut next = || {
        salt += 1;
        salt
    };
    schema
        .params
        .iter()
        .enumerate()
        .map(|(i, p)| {
            Ok(match sample.args.get(i) {
                Some(SampleArg::Tensor(d, f)) => Owned::Tensor(tensor(d, *f, next(), dtype)?),
                Some(SampleArg::Transposed(d, f)) => {
                    let mut d = d.clone();
                    let r = d.len();
                    d.swap(r - 1, r - 2);
                    Owned::Tensor(tensor(&d, *f, next(), dtype)?.transpose(-1, -2)?)
                }
                Some(SampleArg::Tensors(v, f)) => {
                    Owned::Tensors(v.iter().map(|d| tensor(d, *f, next(), dtype).map(Some)).collect::<Result<_>>()?)
                }
                Some(SampleArg::OptTensors(v)) => Owned::Tensors(
                    v.iter()
                        .map(|d| d.as_ref().map(|(d, f)| tensor(d, *f, next(), dtype)).transpose())
                        .collect::<Result<_>>()?,
                ),
                Some(SampleArg::Scalar(s)) => Owned::Scalar(*s),
                Some(SampleArg::Ints(v)) => Owned::Ints(v.clone()),
                Some(SampleArg::Floats(v)) => Owned::Floats(v.clone()),
                Some(SampleArg::Str(s)) => Owned::Str(s.to_string()),
                Some(SampleArg::DType(d)) => Owned::DType(*d),
                Some(SampleArg::Default) | None => match &p.default {
                    Default::Int(v) => match p.ty {
                        Ty::IntList(n) => Owned::Ints(vec![*v; n.max(1) as usize]),
                        _ => Owned::Scalar(Scalar::Int(*v)),
                    },
                    Default::Float(v) => Owned::Scalar(Scalar::Float(*v)),
                    Default::Bool(v) => Owned::Scalar(Scalar::Bool(*v)),
                    Default::Ints(v) => Owned::Ints(v.clone()),
                    Default::Str(s) => Owned::Str(s.clone()),
                    Default::None | Default::Required => Owned::None,
                },
            })
        })
        .collect()
}

fn call(row: &Row, args: &[Owned]) -> Result<Vec<Tensor>> {
    let a: Vec<Arg<'_>> = args.iter().map(Owned::as_arg).collect();
    Ok(match (row.call)(&Args(&a))? {
        Ret::Tensor(t) => vec![t],
        Ret::Tuple(v) | Ret::List(v) => v,
        Ret::Scalar(s) => vec![Tensor::full(&[], s, s.dtype(), Device::CPU)?],
        Ret::None => vec![],
    })
}

/// The arguments on another device, as they lie on this one.
fn on(args: &[Owned], device: Device) -> Result<Vec<Owned>> {
    let mut moved = |t: &Tensor| match t.is_contiguous() {
        true => t.to_device(device),
        false => t.transpose(-1, -2)?.to_device(device)?.transpose(-1, -2),
    };
    args.iter().map(|a| a.map(&mut moved)).collect()
}

/// Strides, but of dimensions of one, along which nothing is stepped.
fn steps(t: &Tensor) -> Vec<Option<usize>> {
    t.dims().iter().zip(t.strides().iter()).map(|(&n, &s)| (n > 1).then_some(s)).collect()
}

fn close(a: &Tensor, b: &Tensor, tolerance: f64) -> std::result::Result<(), String> {
    if a.dims() != b.dims() || a.dtype() != b.dtype() {
        return Err(format!("{:?} against {:?}", a, b));
    }
    let all = |t: &Tensor| numbers(t).and_then(|t| t.to_vec::<f64>()).map_err(|e| e.to_string());
    let (x, y) = (all(a)?, all(b)?);
    for (i, (x, y)) in x.iter().zip(&y).enumerate() {
        let same = (x.is_nan() && y.is_nan()) || x == y || (x - y).abs() <= tolerance * (1.0 + y.abs());
        if !same {
            return Err(format!("element {i}: {x} against {y} in {a:?}"));
        }
    }
    Ok(())
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 | DType::F16 => 3e-2,
        DType::F64 | DType::C128 => 1e-9,
        _ => 3e-5,
    }
}

/// The question that samples with random results are asked, and the others are not.
const RANDOM: &str = "random";

/// Runs a question over every row and sample, and reports all failures at once.
fn every(question: &str, mut ask: impl FnMut(&Row, &Schema, &Sample) -> std::result::Result<(), String>) {
    let mut failures = Vec::new();
    let mut asked = 0;
    let only = std::env::var("TORCHTPU_TEST_OP").ok();
    for row in ops::rows() {
        if limited(row, question)
            || only.as_deref().is_some_and(|o| !o.split(',').any(|o| row.schema.split('(').next() == Some(o)))
        {
            continue;
        }
        let schema = Schema::parse(row.schema).expect("every schema parses");
        for (i, sample) in (row.samples)().iter().enumerate() {
            if sample.random != (question == RANDOM) {
                continue;
            }
            asked += 1;
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ask(row, &schema, sample)))
                .unwrap_or_else(|p| {
                    Err(format!(
                        "panic: {:?}",
                        p.downcast_ref::<String>().map(String::as_str).or(p.downcast_ref::<&str>().copied())
                    ))
                });
            if let Err(e) = result {
                failures.push(format!("{} sample {i}: {e}", row.schema.split('(').next().unwrap_or_default()));
            }
        }
    }
    println!("{question}: {asked} samples");
    assert!(asked > 0, "nothing was asked");
    assert!(failures.is_empty(), "{question}: {} of {asked} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_schema_parses_and_no_overload_stands_twice() {
    let mut seen = BTreeSet::new();
    for row in ops::rows() {
        let s = Schema::parse(row.schema).unwrap_or_else(|e| panic!("{e}"));
        assert!(seen.insert((s.name.clone(), s.overload.clone())), "{} stands twice", row.schema);
        for sample in (row.samples)() {
            assert!(sample.args.len() <= s.params.len(), "{}: a sample has too many arguments", row.schema);
        }
    }
}

#[test]
fn infer_equals_what_is_produced() {
    every("infer", |row, schema, sample| {
        let args = arguments(schema, sample, plain(sample, DType::F32)).map_err(|e| e.to_string())?;
        let y = call(row, &args).map_err(|e| e.to_string())?;
        let meta = match on(&args, Device::META).and_then(|a| call(row, &a)) {
            Ok(m) => m,
            Err(e) if e.message().contains("meta") && limited(row, READS_VALUES) => return Ok(()),
            Err(e) => return Err(e.to_string()),
        };
        if y.len() != meta.len() {
            return Err(format!("{} results were inferred as {}", y.len(), meta.len()));
        }
        for (y, m) in y.iter().zip(&meta) {
            if y.dims() != m.dims() || steps(y) != steps(m) || y.dtype() != m.dtype() {
                return Err(format!("{y:?} was inferred as {m:?}"));
            }
        }
        Ok(())
    });
}

/// Copies of tensors as leaves; those of floats require gradients.
fn leaves(args: &[Owned]) -> Result<Vec<Owned>> {
    let leaf = |t: &Tensor| {
        let t = t.detach();
        if t.dtype().is_inexact() {
            t.requires_grad_(true)?;
        }
        Ok(t)
    };
    args.iter().map(|a| a.map(&mut |t| leaf(t))).collect()
}

fn requiring_grad(args: &[Owned]) -> Vec<Tensor> {
    args.iter().flat_map(Owned::tensors).filter(|t| t.requires_grad()).cloned().collect()
}

/// Compares gradients by all floats among `args`, in order, with central differences of `value`.
fn equal_differences(
    args: &[Owned],
    got: &[Option<Tensor>],
    tolerance: f64,
    value: &dyn Fn(&[Owned]) -> Result<f64>,
) -> std::result::Result<(), String> {
    let text = |e: torchtpu::Error| e.to_string();
    let eps = 1e-6;
    let mut at = 0;
    for (which, leaf) in args.iter().enumerate() {
        for (inner, x) in leaf.tensors().into_iter().enumerate() {
            if !x.dtype().is_inexact() {
                continue;
            }
            let flat = |t: &Tensor| numbers(t).and_then(|t| t.to_vec::<f64>()).map_err(text);
            let base = flat(x)?;
            let found = match &got[at] {
                Some(g) if g.dtype() != x.dtype() => return Err(format!("gradient of {x:?} is {g:?}")),
                Some(g) => flat(g)?,
                None => vec![0.0; base.len()],
            };
            at += 1;
            let dims: Vec<usize> = x.dims().to_vec();
            let rebuilt = |v: &[f64]| -> Result<Tensor> {
                if !x.dtype().is_complex() {
                    return Tensor::from_slice(v, &dims);
                }
                let z: Vec<c128> = v.chunks(2).map(|z| c128::new(z[0], z[1])).collect();
                Tensor::from_slice(&z, &dims)
            };
            for i in 0..base.len() {
                let shifted = |d: f64| -> Result<f64> {
                    let mut v = base.clone();
                    v[i] += d;
                    let changed: Vec<Owned> = args
                        .iter()
                        .enumerate()
                        .map(|(k, a)| {
                            let mut seen = 0;
                            a.map(&mut |t| {
                                let here = k == which && seen == inner;
                                seen += 1;
                                if here { rebuilt(&v) } else { Ok(t.clone()) }
                            })
                        })
                        .collect::<Result<_>>()?;
                    value(&changed)
                };
                let n = (shifted(eps).map_err(text)? - shifted(-eps).map_err(text)?) / (2.0 * eps);
                if (found[i] - n).abs() > tolerance * (1.0 + n.abs()) {
                    return Err(format!("argument {which}.{inner} element {i}: {} against {n}", found[i]));
                }
            }
        }
    }
    Ok(())
}

/// The results that carry gradients, each times its weight, summed.
fn weighed(row: &Row, args: &[Owned], weights: &[Owned]) -> Result<Option<Tensor>> {
    let mut total: Option<Tensor> = None;
    let mut weights = weights.iter().flat_map(Owned::tensors);
    for y in call(row, args)?.iter().filter(|y| y.dtype().is_inexact()) {
        let w = weights.next().expect("a weight for every result");
        let part = numbers(y)?.to_dtype(DType::F64)?.mul(w)?.sum()?;
        total = Some(match total {
            None => part,
            Some(t) => t.add(&part)?,
        });
    }
    Ok(total)
}

fn weights(row: &Row, args: &[Owned]) -> Result<Vec<Owned>> {
    let y = call(row, args)?;
    let floats = y.iter().filter(|y| y.dtype().is_inexact()).enumerate();
    floats.map(|(k, y)| tensor(numbers(y)?.dims(), Fill::Normal, 91 + k, DType::F64).map(Owned::Tensor)).collect()
}

/// Gradients of a sample in a dtype against differences.
fn first_gradients(row: &Row, schema: &Schema, sample: &Sample, dtype: DType) -> std::result::Result<(), String> {
    let args = arguments(schema, sample, dtype).map_err(|e| e.to_string())?;
    let w = weights(row, &args).map_err(|e| e.to_string())?;
    let leaves = leaves(&args).map_err(|e| e.to_string())?;
    let floats = requiring_grad(&leaves);
    if floats.is_empty() {
        return Ok(());
    }
    let Some(y) = weighed(row, &leaves, &w).map_err(|e| e.to_string())? else { return Ok(()) };
    if !y.requires_grad() {
        return Err("the result does not require a gradient".into());
    }
    let grads = torchtpu::autograd::grad(&[y], &floats, &[], None, false, true).map_err(|e| e.to_string())?;
    equal_differences(&args, &grads, 2e-5, &|args| {
        weighed(row, args, &w)?.expect("the same results as before").item_f64()
    })
}

/// Gradients of gradients, by the arguments and by the gradients that came in.
fn second_gradients(row: &Row, schema: &Schema, sample: &Sample, dtype: DType) -> std::result::Result<(), String> {
    let args = arguments(schema, sample, dtype).map_err(|e| e.to_string())?;
    let count = args.len();
    let all: Vec<Owned> = args
        .into_iter()
        .chain(weights(row, &arguments(schema, sample, dtype).map_err(|e| e.to_string())?).map_err(|e| e.to_string())?)
        .collect();
    // The gradients by all floats, each times fixed numbers, summed: one number, to be differentiated again.
    let first = |all: &[Owned], create_graph: bool| -> Result<Option<(Tensor, Vec<Tensor>)>> {
        let leaves = leaves(all)?;
        let floats = requiring_grad(&leaves[..count]);
        if floats.is_empty() {
            return Ok(None);
        }
        let Some(y) = weighed(row, &leaves[..count], &leaves[count..])? else { return Ok(None) };
        if !y.requires_grad() {
            return Ok(None);
        }
        let grads = torchtpu::autograd::grad(&[y], &floats, &[], None, create_graph, true)?;
        let mut total = Tensor::full(&[], 0.0, DType::F64, Device::CPU)?;
        for (k, g) in grads.iter().enumerate() {
            if let Some(g) = g {
                let g = numbers(g)?;
                total = total.add(&g.mul(&tensor(g.dims(), Fill::Normal, 37 + k, DType::F64)?)?.sum()?)?;
            }
        }
        Ok(Some((total, requiring_grad(&leaves))))
    };
    let Some((total, floats)) = first(&all, true).map_err(|e| e.to_string())? else { return Ok(()) };
    let found = if total.requires_grad() {
        torchtpu::autograd::grad(&[total], &floats, &[], None, false, true).map_err(|e| e.to_string())?
    } else {
        vec![None; floats.len()]
    };
    equal_differences(&all, &found, 1e-4, &|all| first(all, false)?.expect("the same results as before").0.item_f64())
}

#[test]
fn gradients_equal_central_differences() {
    every("gradient", |row, schema, sample| {
        if sample.gradient { first_gradients(row, schema, sample, plain(sample, DType::F64)) } else { Ok(()) }
    });
}

#[test]
fn second_gradients_equal_central_differences_of_first_ones() {
    every("second gradient", |row, schema, sample| {
        if sample.gradient { second_gradients(row, schema, sample, plain(sample, DType::F64)) } else { Ok(()) }
    });
}

/// Asks about every sample that takes complex numbers, and says how many do.
fn every_complex(question: &str, ask: impl Fn(&Row, &Schema, &Sample, DType) -> std::result::Result<(), String>) {
    let mut taken = 0;
    every(question, |row, schema, sample| {
        let takes = arguments(schema, sample, DType::C128).and_then(|args| call(row, &args)).is_ok();
        if !sample.gradient || !takes {
            return Ok(());
        }
        taken += 1;
        ask(row, schema, sample, DType::C128)
    });
    println!("{question}: {taken} samples take complex numbers");
    let single = std::env::var_os("TORCHTPU_TEST_OP").is_some();
    assert!(single || taken > 0, "nothing takes complex numbers");
}

/// As PyTorch defines it: the derivative by the real part, and `i` times that by the imaginary part.
#[test]
fn complex_gradients_equal_central_differences() {
    every_complex("complex gradient", first_gradients);
}

#[test]
fn complex_second_gradients_equal_central_differences_of_first_ones() {
    every_complex("complex second gradient", second_gradients);
}

/// `cpu` kernels against XLA:CPU, in every mode and dtype of the sample.
fn equals_cpu(mode: torchtpu::lazy::EagerMode) {
    let _one_at_a_time = MODE.lock().unwrap_or_else(|e| e.into_inner());
    torchtpu::lazy::set_eager_mode(mode);
    let tpu = torchtpu::device("tpu").expect("a device name");
    every("tpu equals cpu", |row, schema, sample| {
        let mut dtypes = if sample.only { vec![] } else { vec![DType::F32] };
        dtypes.extend_from_slice(sample.dtypes);
        for dtype in dtypes {
            let args = arguments(schema, sample, dtype).map_err(|e| e.to_string())?;
            let want = call(row, &args).map_err(|e| format!("{}: cpu: {e}", dtype.name()))?;
            let there = on(&args, tpu).map_err(|e| e.to_string())?;
            let got = call(row, &there).map_err(|e| format!("{}: tpu: {e}", dtype.name()))?;
            if want.len() != got.len() {
                return Err(format!("{} results against {}", got.len(), want.len()));
            }
            for (g, w) in got.iter().zip(&want) {
                if steps(g) != steps(w) {
                    return Err(format!("{}: strides {} against {}", dtype.name(), g.strides(), w.strides()));
                }
                let g = g.to_device(Device::CPU).map_err(|e| format!("{}: {e}", dtype.name()))?;
                close(&g, w, tolerance(dtype)).map_err(|e| format!("{}: {e}", dtype.name()))?;
            }
        }
        Ok(())
    });
}

/// Every row with complex numbers, whether it is made for them or not: both devices give the same values, or the same error.
#[test]
fn complex_numbers_on_tpu_equal_those_on_cpu() {
    let _one_at_a_time = MODE.lock().unwrap_or_else(|e| e.into_inner());
    torchtpu::lazy::set_eager_mode(torchtpu::lazy::EagerMode::Fused);
    let tpu = torchtpu::device("tpu").expect("a device name");
    every("complex: tpu equals cpu", |row, schema, sample| {
        let args = arguments(schema, sample, DType::C64).map_err(|e| e.to_string())?;
        let there = on(&args, tpu).map_err(|e| e.to_string())?;
        let want = match call(row, &args) {
            Ok(y) => y,
            Err(e) => {
                return match call(row, &there) {
                    Err(t) if t.to_string() == e.to_string() => Ok(()),
                    Err(t) => Err(format!("tpu: {t}; cpu: {e}")),
                    Ok(_) => Err(format!("accepted on tpu; cpu: {e}")),
                };
            }
        };
        let got = call(row, &there).map_err(|e| format!("tpu: {e}"))?;
        for (g, w) in got.iter().zip(&want) {
            let g = g.to_device(Device::CPU).map_err(|e| e.to_string())?;
            close(&g, w, 1e-4)?;
        }
        Ok(())
    });
}

static MODE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn tpu_fused_equals_cpu() {
    equals_cpu(torchtpu::lazy::EagerMode::Fused);
}

#[test]
fn tpu_strict_equals_cpu() {
    equals_cpu(torchtpu::lazy::EagerMode::Strict);
}

#[test]
fn tpu_debug_equals_cpu() {
    equals_cpu(torchtpu::lazy::EagerMode::Debug);
}

/// The StableHLO of the first sample of every row, one snapshot a family.
#[test]
fn lowerings_are_as_recorded() {
    let _one_at_a_time = MODE.lock().unwrap_or_else(|e| e.into_inner());
    torchtpu::lazy::set_eager_mode(torchtpu::lazy::EagerMode::Fused);
    let tpu = torchtpu::device("tpu").expect("a device name");
    let mut texts: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    for (family, rows) in ops::FAMILIES {
        for row in *rows {
            let schema = Schema::parse(row.schema).expect("every schema parses");
            let Some(sample) = (row.samples)().into_iter().find(|s| !s.random) else { continue };
            let dtype = plain(&sample, DType::F32);
            let args = arguments(&schema, &sample, dtype).and_then(|a| on(&a, tpu)).expect("arguments");
            let y = call(row, &args).unwrap_or_else(|e| panic!("{}: {e}", row.schema));
            let text = texts.entry(*family).or_default();
            for (i, y) in y.iter().filter(|y| y.device() == tpu).enumerate() {
                let program = match y.device_value().and_then(torchtpu::lazy::dump_stablehlo) {
                    Ok(p) => p,
                    // A view of an argument, or a result that was read: nothing is pending.
                    Err(e) => format!("({})\n", e.message()),
                };
                text.push_str(&format!(
                    "// {} result {i}\n{program}\n",
                    row.schema.split('(').next().unwrap_or_default()
                ));
            }
            torchtpu::lazy::mark_step();
        }
    }
    for (family, text) in texts {
        insta::assert_snapshot!(family, text);
    }
}

#[test]
fn gradients_on_tpu_equal_those_on_cpu() {
    let _one_at_a_time = MODE.lock().unwrap_or_else(|e| e.into_inner());
    torchtpu::lazy::set_eager_mode(torchtpu::lazy::EagerMode::Fused);
    let tpu = torchtpu::device("tpu").expect("a device name");
    every("tpu gradient equals cpu", |row, schema, sample| {
        if !sample.gradient {
            return Ok(());
        }
        let args = arguments(schema, sample, plain(sample, DType::F32)).map_err(|e| e.to_string())?;
        let run = |device: Device| -> Result<Vec<Option<Tensor>>> {
            let leaves: Vec<Owned> = on(&args, device)?
                .iter()
                .map(|a| {
                    a.map(&mut |t| {
                        let t = t.detach();
                        if t.dtype().is_inexact() {
                            t.requires_grad_(true)?;
                        }
                        Ok(t)
                    })
                })
                .collect::<Result<_>>()?;
            let floats: Vec<Tensor> =
                leaves.iter().flat_map(Owned::tensors).filter(|t| t.requires_grad()).cloned().collect();
            let y: Vec<Tensor> = call(row, &leaves)?.into_iter().filter(Tensor::requires_grad).collect();
            if y.is_empty() || floats.is_empty() {
                return Ok(vec![]);
            }
            let g: Vec<Option<Tensor>> = y
                .iter()
                .enumerate()
                .map(|(k, y)| tensor(y.dims(), Fill::Normal, 91 + k, y.dtype())?.to_device(device).map(Some))
                .collect::<Result<_>>()?;
            torchtpu::autograd::grad(&y, &floats, &g, None, false, true)
        };
        let want = run(Device::CPU).map_err(|e| format!("cpu: {e}"))?;
        let got = run(tpu).map_err(|e| format!("tpu: {e}"))?;
        for (g, w) in got.iter().zip(&want) {
            match (g, w) {
                (Some(g), Some(w)) => {
                    let g = g.to_device(Device::CPU).map_err(|e| e.to_string())?;
                    close(&g, w, 1e-4)?;
                }
                (None, None) => {}
                _ => return Err("a gradient is missing on one device".into()),
            }
        }
        Ok(())
    });
}

#[test]
fn in_place_forms_equal_the_functions() {
    every("in place", |row, schema, sample| {
        if !row.has_inplace {
            return Ok(());
        }
        let args = arguments(schema, sample, plain(sample, DType::F32)).map_err(|e| e.to_string())?;
        let Owned::Tensor(x) = &args[0] else { return Ok(()) };
        let want = call(row, &args).map_err(|e| e.to_string())?.swap_remove(0);
        let target = x.copy().map_err(|e| e.to_string())?;
        let version = target.version();
        let mut a: Vec<Arg<'_>> = args.iter().map(Owned::as_arg).collect();
        let outcome = match row.inplace {
            Some(f) => {
                a[0] = Arg::Tensor(&target);
                f(&Args(&a)).map(drop)
            }
            None => torchtpu::inplace::apply(&target, |alias| {
                let mut a: Vec<Arg<'_>> = args.iter().map(Owned::as_arg).collect();
                a[0] = Arg::Tensor(alias);
                match (row.call)(&Args(&a))? {
                    Ret::Tensor(t) => Ok(t),
                    other => panic!("{other:?}"),
                }
            })
            .map(drop),
        };
        if !torchtpu::can_cast(want.dtype(), x.dtype()) || (want.dims() != x.dims() && target.dims() == x.dims()) {
            // What does not fit must be refused, and must leave the target as it was.
            return match outcome {
                Ok(()) => Err(format!("{want:?} was written into {x:?}")),
                Err(_) => close(&target, x, 0.0),
            };
        }
        outcome.map_err(|e| e.to_string())?;
        if target.version() == version {
            return Err("the version did not change".into());
        }
        close(&target, &want.to_dtype(x.dtype()).map_err(|e| e.to_string())?, 1e-6)
    });
}

#[test]
fn samples_reach_every_node() {
    // Forward and backward of all samples must record every kind of node at least once.
    let mut reached: BTreeSet<&'static str> = BTreeSet::new();
    torchtpu::dispatch::observe(|op| {
        OBSERVED.with(|o| o.borrow_mut().insert(op.node()));
    });
    for row in ops::rows() {
        let schema = Schema::parse(row.schema).expect("every schema parses");
        let samples = (row.samples)();
        let with_dtypes = samples.iter().flat_map(|sample| {
            let dtypes = sample.dtypes.iter().copied().filter(|_| !sample.only);
            std::iter::once(plain(sample, DType::F32)).chain(dtypes).map(move |dtype| (sample, dtype))
        });
        for (sample, dtype) in with_dtypes {
            let args = arguments(&schema, sample, dtype).unwrap_or_else(|e| panic!("{}: {e}", row.schema));
            let leaves: Vec<Owned> = args
                .iter()
                .map(|a| {
                    a.map(&mut |t| {
                        let t = t.detach();
                        if t.dtype().is_inexact() && sample.gradient {
                            t.requires_grad_(true)?;
                        }
                        Ok(t)
                    })
                })
                .collect::<Result<_>>()
                .expect("leaves");
            let y = call(row, &leaves).unwrap_or_else(|e| panic!("{}: {e}", row.schema));
            let y: Vec<Tensor> = y.into_iter().filter(Tensor::requires_grad).collect();
            if !y.is_empty() {
                let g: Vec<_> =
                    y.iter().map(|y| Some(Tensor::full_meta(y.meta(), Scalar::Int(1)).expect("ones"))).collect();
                torchtpu::autograd::backward(&y, &g, None, false, None).expect("backward of a sample");
            }
        }
    }
    OBSERVED.with(|o| reached.extend(o.borrow().iter()));
    let missing: Vec<_> =
        ops::Prim::NODES.iter().map(|(n, _)| *n).filter(|n| !reached.contains(n) && !NOT_SAMPLED.contains(n)).collect();
    assert!(missing.is_empty(), "no sample reaches {missing:?}");
}

thread_local! {
    static OBSERVED: std::cell::RefCell<BTreeSet<&'static str>> = const { std::cell::RefCell::new(BTreeSet::new()) };
}

/// Nodes whose rows have no samples because their results are random or their effect is in place; they have tests of
/// their own.
const NOT_SAMPLED: &[&str] = &["RandomBits", "AdamW", "Sgd"];

#[test]
fn broadcasting_follows_numpy() {
    let d = |v: &[usize]| Dims::new(v);
    assert_eq!(torchtpu::op::broadcast_dims(&d(&[2, 1, 3]), &d(&[4, 1])).unwrap(), d(&[2, 4, 3]));
    let e = torchtpu::op::broadcast_dims(&d(&[2, 3]), &d(&[4, 3])).unwrap_err();
    assert_eq!(
        e.to_string(),
        "The size of tensor a (2) must match the size of tensor b (4) at non-singleton dimension 0"
    );
}

#[test]
fn random_results_are_as_described_and_a_seed_repeats_them() {
    let _one_at_a_time = MODE.lock().unwrap_or_else(|e| e.into_inner());
    torchtpu::lazy::set_eager_mode(torchtpu::lazy::EagerMode::Fused);
    let tpu = torchtpu::device("tpu").expect("a device name");
    every(RANDOM, |row, schema, sample| {
        let draw = |device: Device, seed: u64| -> Result<Tensor> {
            torchtpu::random::manual_seed(seed);
            let args = on(&arguments(schema, sample, DType::F32)?, device)?;
            let args: Vec<Arg<'_>> = args
                .iter()
                .zip(&schema.params)
                .map(|(a, p)| if p.ty == Ty::Device { Arg::Device(device) } else { a.as_arg() })
                .collect();
            match (row.call)(&Args(&args))? {
                Ret::Tensor(t) => Ok(t),
                other => panic!("{other:?}"),
            }
        };
        let described = draw(Device::META, 1).map_err(|e| format!("meta: {e}"))?;
        for device in [Device::CPU, tpu] {
            let get =
                |seed| draw(device, seed).and_then(|y| y.to_device(Device::CPU)).map_err(|e| format!("{device}: {e}"));
            let (a, b, c) = (get(7)?, get(7)?, get(8)?);
            if a.dims() != described.dims() || a.dtype() != described.dtype() {
                return Err(format!("{a:?} on {device}, {described:?} on meta"));
            }
            close(&a, &b, 0.0).map_err(|e| format!("{device}: the same seed: {e}"))?;
            if close(&a, &c, 0.0).is_ok() {
                return Err(format!("{device}: another seed gives the same numbers"));
            }
        }
        Ok(())
    });
}

/// libtpu compiles the first sample of every row, those of a family in one program. Where it is not installed, it is asked all the
/// same, and must say so.
#[test]
fn libtpu_accepts_the_lowerings() {
    use torchtpu::lazy;
    const MACHINE: &str = "v5e:2x2";
    let _one_at_a_time = MODE.lock().unwrap_or_else(|e| e.into_inner());
    lazy::set_eager_mode(lazy::EagerMode::Fused);
    let tpu = torchtpu::device("tpu").expect("a device name");
    let one = Tensor::ones(&[2], DType::F32, tpu).and_then(|t| t.add_scalar(1.0)).expect("an op");
    if let Err(e) = lazy::aot::compile_values(&[one.device_value().expect("a value")], MACHINE) {
        assert!(e.message().contains("needs libtpu"), "{e}");
        println!("libtpu is not installed; the lowerings were not compiled for a TPU");
        return;
    }
    let results = |row: &Row| -> Vec<Tensor> {
        let schema = Schema::parse(row.schema).expect("every schema parses");
        let Some(sample) = (row.samples)().into_iter().next() else { return vec![] };
        let args = arguments(&schema, &sample, DType::F32).and_then(|a| on(&a, tpu)).expect("arguments");
        let y = call(row, &args).unwrap_or_else(|e| panic!("{}: {e}", row.schema));
        y.into_iter().filter(|y| y.device() == tpu).collect()
    };
    // What is computed already, or is a view of an argument, has no program.
    let pending = |y: &[Tensor]| -> Vec<u64> {
        y.iter().filter_map(|y| y.device_value().ok()).filter(|h| lazy::dump_graph(*h).is_ok()).collect()
    };
    // A row that reads values on the way cuts the segment, and is compiled by itself.
    let reads = |row: &Row| {
        let before = [Tensor::ones(&[2], DType::F32, tpu).and_then(|t| t.add_scalar(1.0)).expect("an op")];
        results(row);
        pending(&before).is_empty()
    };
    let mut groups: std::collections::VecDeque<Vec<&Row>> = std::collections::VecDeque::new();
    for (_, rows) in ops::FAMILIES {
        let (alone, together): (Vec<&Row>, Vec<&Row>) =
            rows.iter().filter(|r| !limited(r, "libtpu")).partition(|r| reads(r));
        groups.push_back(together);
        groups.extend(alone.into_iter().map(|r| vec![r]));
    }
    let (mut compiled, mut failures) = (0, Vec::new());
    while let Some(rows) = groups.pop_front() {
        lazy::mark_step();
        let y: Vec<Tensor> = rows.iter().flat_map(|r| results(r)).collect();
        let handles = pending(&y);
        if handles.is_empty() {
            continue;
        }
        match lazy::aot::compile_values(&handles, MACHINE) {
            Ok(_) => compiled += handles.len(),
            Err(e) if rows.len() == 1 => {
                let name = rows[0].schema.split('(').next().unwrap_or_default();
                failures.push(format!("{name}: {}", e.message().lines().next().unwrap_or_default()));
            }
            // One by one, to name those that are refused.
            Err(_) => groups.extend(rows.into_iter().map(|r| vec![r])),
        }
    }
    println!("libtpu compiled {compiled} results");
    assert!(compiled > 300, "only {compiled} results were compiled");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
