//! Test of failing allocations. For every large allocation of a program, one run lets only this allocation fail, and
//! another run this one and all later ones. Each run must end in the program's result or in an error, and the process
//! must continue.
//!
//! An allocation that cannot report failure (`Vec::with_capacity`, `collect`) aborts the process instead. The last line
//! on stderr then names the program. `TORCHTPU_FAIL_EVERY=1` tries every allocation of every program. Otherwise long
//! programs are sampled.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use torchtpu::nn::optim::{AdamOptions, AdamW, Optimizer};
use torchtpu::nn::{
    BatchNorm2d, Conv2d, Conv2dOptions, Flatten, GELU, LayerNorm, Linear, MaxPool2d, Module, ReLU, Sequential,
};
use torchtpu::schema::Arg;
use torchtpu::{Backward, DType, Device, Error, ErrorKind, Result, Scalar, Tensor, memory, ops, random};

/// Smallest size in bytes of a counted allocation.
const LARGE: usize = 64 << 10;

struct Failing;

/// Number of large allocations since the start of a run.
static SEEN: AtomicUsize = AtomicUsize::new(0);
/// The first allocation that fails, counted from one. Zero means none.
static FIRST: AtomicUsize = AtomicUsize::new(0);
/// Number of allocations that fail, starting with the first.
static FAILURES: AtomicUsize = AtomicUsize::new(0);

fn fails(bytes: usize) -> bool {
    if bytes < LARGE {
        return false;
    }
    let (n, first) = (SEEN.fetch_add(1, SeqCst) + 1, FIRST.load(SeqCst));
    first != 0 && n >= first && n - first < FAILURES.load(SeqCst)
}

// SAFETY: it calls the system's allocator, or returns null, as an allocator may.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller passes a layout of at least one byte.
        if fails(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller passes a block of this allocator with its layout.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller passes a layout of at least one byte.
        if fails(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller passes a block of this allocator with its layout, and a valid size.
        if fails(size) { std::ptr::null_mut() } else { unsafe { System.realloc(p, layout, size) } }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// Run a program, with `failures` failing allocations starting at `first`. First empty the kernels' cache.
fn run(program: fn() -> Result<f64>, first: usize, failures: usize) -> Result<f64> {
    memory::empty_cache();
    random::manual_seed(0);
    SEEN.store(0, SeqCst);
    FAILURES.store(failures, SeqCst);
    FIRST.store(first, SeqCst);
    let result = memory::or_error(program);
    FIRST.store(0, SeqCst);
    result.unwrap_or_else(|e| Err(Error::new(ErrorKind::OutOfMemory, e.to_string())))
}

fn try_all(name: &str, program: fn() -> Result<f64>) {
    let want = run(program, 0, 0).unwrap_or_else(|e| panic!("{name}: {e}"));
    let again = run(program, 0, 0).expect("it ran a moment ago");
    assert_eq!(want.to_bits(), again.to_bits(), "{name} gives one result");
    let count = SEEN.load(SeqCst);
    let most = if std::env::var_os("TORCHTPU_FAIL_EVERY").is_some() { usize::MAX } else { 24 };
    let step = count.div_ceil(most).max(1);
    for failures in [1, usize::MAX] {
        for first in (1..=count).step_by(step) {
            // Write to stderr directly: if a test aborts the process, its captured output is lost.
            let _ = write!(std::io::stderr(), "\r{name}: allocation {first} of {count} fails    ");
            match run(program, first, failures) {
                Ok(got) => assert_eq!(got.to_bits(), want.to_bits(), "{name}, allocation {first} of {count}"),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{name}, allocation {first} of {count}: {e}");
                }
            }
            let sum = Tensor::ones(&[100], DType::F32, Device::CPU).and_then(|x| x.add_scalar(1.0)?.sum()?.item_f64());
            assert_eq!(sum.expect("small work goes on"), 200.0);
        }
    }
    assert_eq!(run(program, 0, 0).expect("the program runs as before").to_bits(), want.to_bits(), "{name} afterwards");
}

fn randn(dims: &[usize]) -> Result<Tensor> {
    Tensor::randn(dims, DType::F32, Device::CPU)
}

fn sum(x: &Tensor) -> Result<f64> {
    x.to_dtype(DType::F64)?.sum()?.item_f64()
}

fn op(name: &str, args: &[Arg<'_>]) -> Result<f64> {
    use torchtpu::schema::Ret;
    match ops::call(name, args)? {
        Ret::Tensor(y) => sum(&y),
        Ret::Tuple(y) | Ret::List(y) => y.iter().map(sum).sum(),
        Ret::Scalar(s) => Ok(s.to_f64()),
        Ret::None => Ok(0.0),
    }
}

fn int(i: i64) -> Arg<'static> {
    Arg::Scalar(Scalar::Int(i))
}
fn float(f: f64) -> Arg<'static> {
    Arg::Scalar(Scalar::Float(f))
}
fn truth(b: bool) -> Arg<'static> {
    Arg::Scalar(Scalar::Bool(b))
}

/// Return numbers whose order matters, of shape `(100, 500)`.
fn numbers() -> Result<Tensor> {
    randn(&[100, 500])
}

fn train(m: &Sequential, x: &Tensor, y: &Tensor) -> Result<f64> {
    let mut o = AdamW::new(m.parameters(), AdamOptions::adamw())?;
    let mut last = 0.0;
    for _ in 0..2 {
        o.zero_grad()?;
        let loss = ops::call_tensor("cross_entropy_loss", &[Arg::Tensor(&m.forward(x)?), Arg::Tensor(y)])?;
        loss.backward()?;
        o.step()?;
        last = loss.item_f64()?;
    }
    Ok(last)
}

type Program = fn() -> Result<f64>;

const PROGRAMS: &[(&str, Program)] = &[
    ("elementwise", || sum(&numbers()?.exp()?.add(&numbers()?)?.sqrt()?.abs()?)),
    ("cast", || sum(&numbers()?.to_dtype(DType::BF16)?.to_dtype(DType::F64)?)),
    ("to_vec", || Ok(numbers()?.to_vec::<f64>()?.iter().sum())),
    ("to_bytes", || Ok(numbers()?.transpose(0, 1)?.to_bytes()?.len() as f64)),
    ("print", || Ok(numbers()?.to_string().len() as f64)),
    ("matmul", || sum(&randn(&[300, 200])?.matmul(&randn(&[200, 300])?)?)),
    ("matmul of halves", || {
        sum(&randn(&[300, 200])?.to_dtype(DType::F16)?.matmul(&randn(&[200, 300])?.to_dtype(DType::F16)?)?)
    }),
    ("bmm", || op("bmm", &[Arg::Tensor(&randn(&[8, 64, 64])?), Arg::Tensor(&randn(&[8, 64, 64])?.transpose(1, 2)?)])),
    ("sort", || op("sort", &[Arg::Tensor(&numbers()?.reshape(&[-1])?)])),
    ("sort of doubles", || op("sort", &[Arg::Tensor(&numbers()?.to_dtype(DType::F64)?.reshape(&[-1])?)])),
    ("topk", || op("topk", &[Arg::Tensor(&numbers()?.reshape(&[-1])?), int(300)])),
    ("kthvalue", || op("kthvalue", &[Arg::Tensor(&numbers()?.reshape(&[-1])?), int(300)])),
    ("median", || op("median", &[Arg::Tensor(&numbers()?.reshape(&[-1])?)])),
    ("mode", || op("mode", &[Arg::Tensor(&numbers()?.floor()?.reshape(&[-1])?)])),
    ("unique", || op("_unique2", &[Arg::Tensor(&numbers()?), truth(true), truth(true), truth(true)])),
    ("histc", || op("histc", &[Arg::Tensor(&numbers()?), int(20_000)])),
    ("cumsum", || op("cumsum", &[Arg::Tensor(&numbers()?), int(1)])),
    ("cumsum of integers", || op("cumsum", &[Arg::Tensor(&numbers()?.to_dtype(DType::I32)?), int(0)])),
    ("var", || op("var", &[Arg::Tensor(&numbers()?)])),
    ("sum of a dimension", || sum(&numbers()?.sum_dim(&[0], false)?)),
    ("randperm", || op("randperm", &[int(50_000)])),
    ("multinomial", || op("multinomial", &[Arg::Tensor(&numbers()?.abs()?.reshape(&[-1])?), int(10_000), truth(true)])),
    ("multinomial without", || {
        op("multinomial", &[Arg::Tensor(&numbers()?.abs()?.reshape(&[-1])?), int(10_000), truth(false)])
    }),
    ("dropout", || op("dropout", &[Arg::Tensor(&numbers()?), float(0.5), truth(true)])),
    ("fft", || sum(&ops::call_tensor("fft_fft", &[Arg::Tensor(&numbers()?)])?.abs()?)),
    ("window", || op("hann_window", &[int(20_000)])),
    ("fftfreq", || op("fft_fftfreq", &[int(20_000)])),
    ("nonzero", || op("nonzero", &[Arg::Tensor(&numbers()?)])),
    ("index", || {
        let at = ops::call_tensor("randperm", &[int(40_000)])?;
        op("take", &[Arg::Tensor(&numbers()?), Arg::Tensor(&at)])
    }),
    ("gather and scatter", || {
        let at = ops::call_tensor("argsort", &[Arg::Tensor(&numbers()?)])?;
        let y = ops::call_tensor("gather", &[Arg::Tensor(&numbers()?), int(1), Arg::Tensor(&at)])?;
        op("scatter_add", &[Arg::Tensor(&numbers()?), int(1), Arg::Tensor(&at), Arg::Tensor(&y)])
    }),
    ("embedding", || {
        let at = ops::call_tensor("randperm", &[int(10_000)])?;
        op("embedding", &[Arg::Tensor(&randn(&[10_000, 16])?), Arg::Tensor(&at)])
    }),
    ("cat and split", || {
        let x = numbers()?;
        let y = ops::concat::cat(&[&x, &x, &x], 0)?;
        y.split(7, 0)?.iter().map(sum).sum()
    }),
    ("unbind", || Ok(randn(&[20_000])?.unbind(0)?.len() as f64)),
    ("flip and pad", || op("constant_pad_nd", &[Arg::Tensor(&numbers()?.flip(&[0, 1])?), Arg::Ints(&[3, 4])])),
    ("interpolate", || {
        op("upsample_bilinear2d", &[Arg::Tensor(&randn(&[2, 3, 40, 40])?), Arg::Ints(&[100, 100]), truth(false)])
    }),
    ("max_pool", || op("max_pool2d", &[Arg::Tensor(&randn(&[2, 8, 64, 64])?), Arg::Ints(&[3, 3])])),
    ("avg_pool", || op("avg_pool2d", &[Arg::Tensor(&randn(&[2, 8, 64, 64])?), Arg::Ints(&[3, 3])])),
    ("conv", || conv(&[2, 16, 40, 40], &[32, 16, 3, 3])),
    ("conv of few channels", || conv(&[2, 3, 64, 64], &[8, 3, 5, 5])),
    ("conv of many", || conv(&[1, 64, 30, 30], &[64, 64, 1, 1])),
    ("layer_norm", || op("layer_norm", &[Arg::Tensor(&numbers()?), Arg::Ints(&[500])])),
    ("softmax", || op("softmax.int", &[Arg::Tensor(&numbers()?), int(-1)])),
    ("attention", || {
        let x = randn(&[2, 4, 128, 32])?;
        op("scaled_dot_product_attention", &[Arg::Tensor(&x), Arg::Tensor(&x), Arg::Tensor(&x)])
    }),
    ("svd", || op("linalg_svdvals", &[Arg::Tensor(&randn(&[120, 130])?)])),
    ("eigh", || {
        let x = randn(&[120, 120])?;
        op("linalg_eigvalsh", &[Arg::Tensor(&x.add(&x.transpose(0, 1)?)?)])
    }),
    ("lu and inverse", || op("linalg_inv", &[Arg::Tensor(&randn(&[150, 150])?)])),
    ("cholesky", || {
        let x = randn(&[120, 120])?;
        op(
            "linalg_cholesky",
            &[Arg::Tensor(&x.matmul(&x.transpose(0, 1)?)?.add(&Tensor::eye(120, 120, DType::F32, Device::CPU)?)?)],
        )
    }),
    ("qr", || op("linalg_qr", &[Arg::Tensor(&randn(&[150, 120])?)])),
    ("matrix_exp", || op("linalg_matrix_exp", &[Arg::Tensor(&randn(&[120, 120])?.mul_scalar(0.01)?)])),
    ("pdist", || op("pdist", &[Arg::Tensor(&randn(&[200, 8])?)])),
    ("safetensors", || {
        // Write the bytes only once, without failures: the format's crate allocates them itself. The test covers this
        // crate's reader.
        static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
        let bytes =
            BYTES.get_or_init(|| torchtpu::nn::safetensors::save(&[("x".into(), numbers().unwrap())], None).unwrap());
        torchtpu::nn::safetensors::load(bytes, Device::CPU)?.iter().map(|(_, x)| sum(x)).sum()
    }),
    ("training a perceptron", || {
        let m = Sequential::new()
            .push(Linear::new(128, 256)?)
            .push(GELU::default())
            .push(LayerNorm::new(&[256])?)
            .push(Linear::new(256, 10)?);
        let y =
            ops::call_tensor("remainder.Tensor", &[Arg::Tensor(&ops::call_tensor("randperm", &[int(64)])?), int(10)])?;
        train(&m, &randn(&[64, 128])?, &y)
    }),
    ("training on images", || {
        let same = Conv2dOptions { padding: [1, 1], ..Conv2dOptions::default() };
        let m = Sequential::new()
            .push(Conv2d::new(3, 16, [3, 3], same)?)
            .push(BatchNorm2d::new(16)?)
            .push(ReLU)
            .push(MaxPool2d::new(2))
            .push(Conv2d::new(16, 16, [3, 3], same)?)
            .push(Flatten::default())
            .push(Linear::new(16 * 16 * 16, 10)?);
        let y =
            ops::call_tensor("remainder.Tensor", &[Arg::Tensor(&ops::call_tensor("randperm", &[int(8)])?), int(10)])?;
        train(&m, &randn(&[8, 3, 32, 32])?, &y)
    }),
];

fn conv(x: &[usize], w: &[usize]) -> Result<f64> {
    let (x, w) = (randn(x)?, randn(w)?);
    w.requires_grad_(true)?;
    x.requires_grad_(true)?;
    let y = ops::call_tensor("conv2d", &[Arg::Tensor(&x), Arg::Tensor(&w)])?;
    y.square()?.sum()?.backward()?;
    let total = sum(&y.detach())? + sum(&w.grad().expect("it took part"))? + sum(&x.grad().expect("it took part"))?;
    Ok(total)
}

#[test]
fn every_large_allocation_can_fail() {
    for (name, program) in PROGRAMS {
        try_all(name, *program);
    }
    let _ = writeln!(std::io::stderr());
}
