//! Values of samples, and loops that ask a question of every row.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, Once};
use torchtpu::lazy::{self, EagerMode, Interpret};
use torchtpu::schema::{Arg, Args, Fill, ParamDefault, Ret, Row, Sample, SampleArg, Schema, Ty};
use torchtpu::{DType, Device, Result, Scalar, Tensor, c128, ops};

/// A question that is not asked of a row, and the reason.
pub struct Limit {
    /// The row's schema, up to the bracket.
    pub op: &'static str,
    pub question: &'static str,
    /// Reason, printed in the report.
    pub reason: &'static str,
}

/// Rows whose result sizes depend on values, at least for some arguments. The `meta` device refuses these.
pub const READS_VALUES: &str = "infer where values decide";

pub const COMPLEX: &str = "complex gradient";
pub const COMPLEX_SECOND: &str = "complex second gradient";
const PHASES: &str = "singular vectors are given up to a phase, on which the sum of all elements depends";

pub const LIMITS: &[Limit] = &[
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
    Limit { op: "linalg_svd", question: COMPLEX, reason: PHASES },
    Limit { op: "linalg_svd", question: COMPLEX_SECOND, reason: PHASES },
    Limit { op: "svd", question: COMPLEX, reason: PHASES },
    Limit { op: "svd", question: COMPLEX_SECOND, reason: PHASES },
];

pub fn limited(row: &Row, question: &str) -> bool {
    let name = row.schema.split('(').next().unwrap_or_default();
    let hit = LIMITS.iter().find(|l| l.op == name && l.question == question);
    if let Some(l) = hit {
        println!("not asked: {name}: {question}: {}", l.reason);
    }
    hit.is_some()
}

/// Return deterministic values. No two are alike, and none is near a kink.
pub fn values(n: usize, fill: Fill, salt: usize) -> Vec<f64> {
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
                Fill::Mask => (i * 5 + salt).is_multiple_of(3) as u8 as f64,
                Fill::Definite => unreachable!("made of rows and columns"),
                Fill::Pivots => (i + 1 + (i + 1 < n) as usize) as f64,
            }
        })
        .collect()
}

pub fn tensor(dims: &[usize], fill: Fill, salt: usize, dtype: DType) -> Result<Tensor> {
    let dtype = match fill {
        Fill::Index(_) => DType::I64,
        Fill::Mask => DType::Bool,
        Fill::Pivots => DType::I32,
        _ => dtype,
    };
    if fill == Fill::Definite {
        // A product of a matrix with its own transpose, with numbers added to the diagonal.
        let a = tensor(dims, Fill::Normal, salt, dtype)?;
        let n = dims[dims.len() - 1] as i64;
        return a.matmul(&a.transpose(-2, -1)?.conj()?)?.add(&Tensor::eye(n, n, dtype, Device::CPU)?);
    }
    let v = values(dims.iter().product(), fill, salt);
    if dtype.is_complex() {
        // Keep imaginary parts small, so that no function is evaluated across a branch cut.
        let z: Vec<c128> = v
            .iter()
            .zip(values(v.len(), Fill::Unit, salt + 40))
            .map(|(&re, im)| c128::new(re, if im.abs() < 0.1 { im + 0.3 } else { im }))
            .collect();
        return Tensor::from_slice(&z, dims)?.to_dtype(dtype);
    }
    Tensor::from_slice(&v, dims)?.to_dtype(dtype)
}

/// Return the dtype for a sample, unless a suite sets another.
pub fn plain(sample: &Sample, real: DType) -> DType {
    if sample.only { real.to_complex().expect("a floating-point dtype") } else { real }
}

/// Return real numbers unchanged, and complex numbers as pairs.
pub fn numbers(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { x.resolve_conj()?.resolve_neg()?.view_as_real() } else { Ok(x.clone()) }
}

/// The arguments of a sample as owned values.
pub enum Owned {
    None,
    Tensor(Tensor),
    Tensors(Vec<Option<Tensor>>),
    Scalar(Scalar),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Scalars(Vec<Scalar>),
    Str(String),
    DType(DType),
}

impl Owned {
    pub fn as_arg(&self) -> Arg<'_> {
        match self {
            Owned::None => Arg::None,
            Owned::Tensor(t) => Arg::Tensor(t),
            Owned::Tensors(v) => Arg::Tensors(v),
            Owned::Scalar(s) => Arg::Scalar(*s),
            Owned::Ints(v) => Arg::Ints(v),
            Owned::Floats(v) => Arg::Floats(v),
            Owned::Scalars(v) => Arg::Scalars(v),
            Owned::Str(s) => Arg::Str(s),
            Owned::DType(d) => Arg::DType(*d),
        }
    }
    pub fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Owned> {
        Ok(match self {
            Owned::Tensor(t) => Owned::Tensor(f(t)?),
            Owned::Tensors(v) => {
                Owned::Tensors(v.iter().map(|t| t.as_ref().map(&mut *f).transpose()).collect::<Result<_>>()?)
            }
            Owned::None => Owned::None,
            Owned::Scalar(s) => Owned::Scalar(*s),
            Owned::Ints(v) => Owned::Ints(v.clone()),
            Owned::Floats(v) => Owned::Floats(v.clone()),
            Owned::Scalars(v) => Owned::Scalars(v.clone()),
            Owned::Str(s) => Owned::Str(s.clone()),
            Owned::DType(d) => Owned::DType(*d),
        })
    }
    pub fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Owned::Tensor(t) => vec![t],
            Owned::Tensors(v) => v.iter().flatten().collect(),
            _ => vec![],
        }
    }
}

pub fn arguments(schema: &Schema, sample: &Sample, dtype: DType) -> Result<Vec<Owned>> {
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
                Some(SampleArg::Of(d, f, dtype)) => Owned::Tensor(tensor(d, *f, next(), DType::F32)?.to_dtype(*dtype)?),
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
                Some(SampleArg::Scalars(v)) => Owned::Scalars(v.clone()),
                Some(SampleArg::Str(s)) => Owned::Str(s.to_string()),
                Some(SampleArg::DType(d)) => Owned::DType(*d),
                Some(SampleArg::Default) | None => match &p.default {
                    ParamDefault::Int(v) => match p.ty {
                        Ty::IntList(n) => Owned::Ints(vec![*v; n.max(1) as usize]),
                        _ => Owned::Scalar(Scalar::Int(*v)),
                    },
                    ParamDefault::Float(v) => Owned::Scalar(Scalar::Float(*v)),
                    ParamDefault::Bool(v) => Owned::Scalar(Scalar::Bool(*v)),
                    ParamDefault::Ints(v) => Owned::Ints(v.clone()),
                    // The names of objects, such as `contiguous_format`, are defaults that the function uses anyway.
                    ParamDefault::Str(_) if matches!(p.ty, Ty::Layout | Ty::MemoryFormat | Ty::DType | Ty::Device) => {
                        Owned::None
                    }
                    ParamDefault::Str(s) => Owned::Str(s.clone()),
                    ParamDefault::None | ParamDefault::Required => Owned::None,
                },
            })
        })
        .collect()
}

pub fn call(row: &Row, args: &[Owned]) -> Result<Vec<Tensor>> {
    let a: Vec<Arg<'_>> = args.iter().map(Owned::as_arg).collect();
    Ok(match (row.call)(&Args(&a))? {
        Ret::Tensor(t) => vec![t],
        Ret::Tuple(v) | Ret::List(v) => v,
        Ret::Scalar(s) => vec![Tensor::full(&[], s, s.dtype(), Device::CPU)?],
        Ret::None => vec![],
    })
}

/// Return the arguments on another device, with the same layouts.
pub fn on(args: &[Owned], device: Device) -> Result<Vec<Owned>> {
    let mut moved = |t: &Tensor| match t.is_contiguous() {
        true => t.to_device(device),
        false => t.transpose(-1, -2)?.to_device(device)?.transpose(-1, -2),
    };
    args.iter().map(|a| a.map(&mut moved)).collect()
}

/// Return strides, without those of dimensions of size one, which no index uses.
pub fn steps(t: &Tensor) -> Vec<Option<usize>> {
    t.dims().iter().zip(t.strides().iter()).map(|(&n, &s)| (n > 1).then_some(s)).collect()
}

pub fn close(a: &Tensor, b: &Tensor, tolerance: f64) -> std::result::Result<(), String> {
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

pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 | DType::F16 => 3e-2,
        DType::F64 | DType::C128 => 1e-9,
        _ => 3e-5,
    }
}

/// The question for samples with random results. All other questions skip them.
pub const RANDOM: &str = "random";

/// Ask a question of every row and sample, and report all failures at once.
pub fn every(question: &str, mut ask: impl FnMut(&Row, &Schema, &Sample) -> std::result::Result<(), String>) {
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
    assert!(asked > 0 || only.is_some(), "nothing was asked");
    assert!(failures.is_empty(), "{question}: {} of {asked} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Return copies of tensors as leaves. Copies of floats require gradients.
pub fn leaves(args: &[Owned]) -> Result<Vec<Owned>> {
    let leaf = |t: &Tensor| {
        let t = t.detach();
        if t.dtype().is_inexact() {
            t.requires_grad_(true)?;
        }
        Ok(t)
    };
    args.iter().map(|a| a.map(&mut |t| leaf(t))).collect()
}

pub fn requiring_grad(args: &[Owned]) -> Vec<Tensor> {
    args.iter().flat_map(Owned::tensors).filter(|t| t.requires_grad()).cloned().collect()
}

/// Lock device `tpu` for one test: modes, steps and seeds belong to the process.
pub fn alone(mode: EagerMode, interpret: Interpret) -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    lazy::set_eager_mode(mode);
    lazy::set_interpret(interpret);
    turn
}

/// An op that ran, with copies of its operands in row-major order.
pub struct Call {
    pub op: ops::Prim,
    pub x: Vec<Tensor>,
}

thread_local! {
    /// The calls of this thread since the last look, while they are kept.
    static CALLS: RefCell<Option<Vec<Call>>> = const { RefCell::new(None) };
}

/// Runs `f` and returns the ops that it ran, of its backward too.
pub fn calls(f: impl FnOnce()) -> Vec<Call> {
    static OBSERVER: Once = Once::new();
    OBSERVER.call_once(|| {
        torchtpu::dispatch::observe(|op, x| {
            // Copies are ops too, so nothing is kept while they are made.
            let Some(mut calls) = CALLS.take() else { return };
            let copies = torchtpu::no_grad(|| x.iter().map(|x| row_major(x)).collect::<Result<_>>());
            calls.push(Call { op: op.clone(), x: copies.expect("copies of operands") });
            CALLS.set(Some(calls));
        });
    });
    CALLS.set(Some(Vec::new()));
    f();
    CALLS.take().unwrap_or_default()
}

/// Returns a row-major copy without history.
pub fn row_major(x: &Tensor) -> Result<Tensor> {
    x.detach().resolve_conj()?.resolve_neg()?.copy()?.contiguous()
}

/// Calls `look` for every op that forward and backward of all samples run, in `float32` and the samples' own dtypes.
pub fn every_call(look: &mut dyn FnMut(Call)) {
    for row in ops::rows() {
        let schema = Schema::parse(row.schema).expect("every schema parses");
        let samples = (row.samples)();
        let with_dtypes = samples.iter().flat_map(|sample| {
            let dtypes = sample.dtypes.iter().copied().filter(|_| !sample.only);
            std::iter::once(plain(sample, DType::F32)).chain(dtypes).map(move |dtype| (sample, dtype))
        });
        for (sample, dtype) in with_dtypes {
            let args = arguments(&schema, sample, dtype).unwrap_or_else(|e| panic!("{}: {e}", row.schema));
            let leaves = if sample.gradient { leaves(&args).expect("leaves") } else { args };
            let calls = calls(|| {
                let y = call(row, &leaves).unwrap_or_else(|e| panic!("{}: {e}", row.schema));
                let y: Vec<Tensor> = y.into_iter().filter(Tensor::requires_grad).collect();
                if !y.is_empty() {
                    let gradient = |y: &Tensor| tensor(y.dims(), Fill::Normal, 91, y.dtype()).expect("a gradient");
                    let g: Vec<_> = y.iter().map(|y| Some(gradient(y))).collect();
                    torchtpu::autograd::backward(&y, &g, None, false, None).expect("backward of a sample");
                }
            });
            calls.into_iter().for_each(&mut *look);
        }
    }
}
