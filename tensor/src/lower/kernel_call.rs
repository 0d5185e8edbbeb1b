//! Ops that a compiled program leaves to the kernels of device `cpu`. On XLA:CPU these are products of matrices,
//! convolutions, attention, max pooling, layer norm, softmax, cross entropy, gelu, sine, cosine and tangent, sums of
//! rows and steps of Adam and SGD. The kernels are faster than the compiler's code, and much faster for 16-bit floats
//! and `f64` convolutions.
//!
//! The lowering writes a custom call with the kernel's name and the op's attributes as numbers. The engine registers
//! [`TARGET`] with the plugin. At every execution it gets the name, the numbers and the arrays, and passes them to
//! [`run`]. `docs/performance/xla-cpu.md` has the measurements.

use crate::op::{F64, Func, Value, Values};
use crate::ops::activation::{Gelu, GeluBackward};
use crate::ops::attention::Attention;
use crate::ops::conv::ConvSpec;
use crate::ops::loss::{CrossEntropy, CrossEntropyBackward};
use crate::ops::matmul::{Dot, swap_last};
use crate::ops::norm::softmax::{Softmax, SoftmaxBackward};
use crate::ops::norm::{LayerNorm, LayerNormBackward};
use crate::ops::optim::{AdamW, Sgd};
use crate::ops::pointwise::kernel_error;
use crate::{DType, Dims, Meta, backend};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use torchtpu_kernels::pointwise::UnaryKind;
use torchtpu_kernels::pool::PoolSpec;
use torchtpu_kernels::reduce::ReduceKind;
pub use torchtpu_kernels::threads::Lender;
use torchtpu_kernels::threads::with_threads_of;
use torchtpu_kernels::{View, ViewMut, attention, conv, copy, matmul, memory, pointwise, pool, reduce};
use torchtpu_stablehlo::{ElementType, Platform};

/// The function that programs call.
pub const TARGET: &str = "torchtpu.kernel";

/// The number of multiplications, or of elements read, below which a call costs more than it saves.
const LEAST_WORK: usize = 1 << 14;

/// Whether the program may call kernels, and a call is worth its cost for so much `work` on such elements.
pub(crate) fn serves(f: &Func, e: ElementType, work: usize) -> bool {
    let known = matches!(e, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64);
    f.platform() == Platform::Cpu { kernels: true } && known && is_worth_it(work)
}

/// Whether the device behind `tpu` calls kernels, and a call is worth its cost for so much work. An op calls this when
/// it is recorded and would otherwise be expanded.
pub(crate) fn is_called(work: usize) -> bool {
    is_worth_it(work) && backend::get().is_ok_and(|b| b.calls_kernels())
}

fn is_worth_it(work: usize) -> bool {
    work >= LEAST_WORK
}

/// An array in row-major order.
pub struct Array<B> {
    /// The element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub sizes: Dims,
    /// The elements, aligned for their type.
    pub bytes: B,
}

/// A kernel with the attributes of its op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KernelCall {
    Matmul(Dot),
    /// `x w^T + b` for a matrix `x`.
    Linear {
        bias: bool,
    },
    Conv(ConvSpec),
    ConvInputGrad(ConvSpec),
    ConvWeightGrad(ConvSpec),
    Attention(Attention),
    AttentionBackward(Attention),
    MaxPool(PoolSpec),
    /// The number is that of spatial dimensions.
    MaxPoolBackward(usize),
    /// Sine, cosine or tangent.
    Angle(UnaryKind),
    Gelu(Gelu),
    GeluBackward(GeluBackward),
    /// The elements of a row count as one dimension, which makes no difference to the kernel.
    LayerNorm(LayerNorm),
    LayerNormBackward(LayerNormBackward),
    Softmax(Softmax),
    SoftmaxBackward(SoftmaxBackward),
    CrossEntropy(CrossEntropy),
    CrossEntropyBackward(CrossEntropyBackward),
    AdamW(AdamW),
    Sgd(Sgd),
    /// The sum over this number of leading dimensions.
    SumRows(usize),
    /// Joins `count` operands of `rows` rows side by side, row after row.
    Join {
        rows: usize,
        count: usize,
    },
}

type Numbers = SmallVec<[i64; 18]>;

/// Suffix of the name of a kernel with windows among its operands. After the kernel's own numbers follow, for each
/// window, the operand, the offset, the number of dimensions, the sizes and the strides. The last number is the length
/// of these.
const WINDOWS: &str = ".windows";

/// A strided part of an operand, in elements.
struct Window {
    operand: usize,
    offset: usize,
    sizes: Dims,
    strides: Dims,
}

type Windows = SmallVec<[Window; 4]>;

/// Split a call into the kernel's own name and numbers, and the windows on its operands.
fn windows<'a>(kernel: &'a str, numbers: &'a [i64]) -> Option<(&'a str, &'a [i64], Windows)> {
    let mut windows = SmallVec::new();
    let Some(kernel) = kernel.strip_suffix(WINDOWS) else { return Some((kernel, numbers, windows)) };
    let (&len, numbers) = numbers.split_last()?;
    let (own, mut rest) = numbers.split_at_checked(numbers.len().checked_sub(usize::try_from(len).ok()?)?)?;
    let sizes = |of: &[i64]| -> Option<Dims> {
        let of: SmallVec<[usize; 8]> = of.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<_>>()?;
        Dims::try_new(&of).ok()
    };
    while let [operand, offset, rank, of @ ..] = rest {
        let rank = usize::try_from(*rank).ok()?;
        let (of, others) = of.split_at_checked(rank.checked_mul(2)?)?;
        let (operand, offset) = (usize::try_from(*operand).ok()?, usize::try_from(*offset).ok()?);
        windows.push(Window { operand, offset, sizes: sizes(&of[..rank])?, strides: sizes(&of[rank..])? });
        rest = others;
    }
    rest.is_empty().then_some((kernel, own, windows))
}

/// Whether a kernel reads a window as fast as a copy. The elements must be adjacent along one of the last two
/// dimensions, and none may be repeated.
fn reads_well(sizes: &[usize], strides: &[usize]) -> bool {
    let mut moving = sizes.iter().zip(strides).filter(|(n, _)| **n > 1);
    strides.iter().rev().take(2).any(|&s| s == 1) && moving.all(|(_, s)| *s > 0)
}

impl KernelCall {
    /// Append the call for operands `x`, and return its results, of types `y`.
    pub(crate) fn lower<'a>(self, f: &mut Func, x: impl IntoIterator<Item = &'a Value>, y: &[Meta]) -> Values {
        let (kernel, mut numbers) = self.encode();
        let mut args: SmallVec<[Value; 12]> = x.into_iter().cloned().collect();
        let own = numbers.len();
        for (i, arg) in args.iter_mut().enumerate().filter(|(i, _)| self.takes_windows(*i)) {
            if let Some(window) = f.window(arg).filter(|w| reads_well(arg.shape(), &w.strides)) {
                numbers.extend([i, window.offset, arg.rank()].map(|n| n as i64));
                numbers.extend(arg.shape().iter().chain(&window.strides).map(|&n| n as i64));
                *arg = window.of.clone();
            }
        }
        let mut kernel = Cow::from(kernel);
        if numbers.len() > own {
            numbers.push((numbers.len() - own) as i64);
            kernel += WINDOWS;
        }
        let outs: SmallVec<[_; 3]> = y.iter().map(Meta::ty).collect();
        // The compiler would first copy an argument that the caller keeps.
        let in_place: SmallVec<[_; 3]> =
            self.in_place().iter().copied().filter(|pair| f.is_ours(&args[pair.1])).collect();
        f.custom_call(TARGET, &args, &outs, &in_place, &kernel, &numbers).into()
    }

    /// Whether operand `i` may be a window on a larger array. Kernels with few operations for each element read
    /// row-major arrays only.
    fn takes_windows(&self, i: usize) -> bool {
        match self {
            KernelCall::Matmul(_) | KernelCall::Linear { .. } => i < 2,
            KernelCall::Attention(_) => i < 3,
            KernelCall::AttentionBackward(_) => i < 4,
            _ => false,
        }
    }

    /// Pairs of a result and the operand whose memory it may take.
    fn in_place(&self) -> &'static [(usize, usize)] {
        match self {
            KernelCall::AdamW(_) => &[(0, 0), (1, 2), (2, 3)],
            KernelCall::Sgd(o) if o.momentum => &[(0, 0), (1, 2)],
            KernelCall::Sgd(_) => &[(0, 0)],
            _ => &[],
        }
    }

    fn encode(&self) -> (&'static str, Numbers) {
        match self {
            KernelCall::Matmul(o) => ("matmul", smallvec![o.ta.into(), o.tb.into()]),
            KernelCall::Linear { bias } => ("linear", smallvec![(*bias).into()]),
            KernelCall::Conv(spec) => ("conv", conv_numbers(spec)),
            KernelCall::ConvInputGrad(spec) => ("conv_input_grad", conv_numbers(spec)),
            KernelCall::ConvWeightGrad(spec) => ("conv_weight_grad", conv_numbers(spec)),
            KernelCall::Attention(o) => ("attention", attention_numbers(o)),
            KernelCall::AttentionBackward(o) => ("attention_backward", attention_numbers(o)),
            KernelCall::MaxPool(spec) => ("max_pool", pool_numbers(spec)),
            KernelCall::MaxPoolBackward(spatial) => ("max_pool_backward", smallvec![*spatial as i64]),
            KernelCall::Angle(kind) => (kind.name(), smallvec![]),
            KernelCall::Gelu(o) => ("gelu", smallvec![o.tanh.into()]),
            KernelCall::GeluBackward(o) => ("gelu_backward", smallvec![o.tanh.into()]),
            KernelCall::LayerNorm(o) => ("layer_norm", layer_norm_numbers(o)),
            KernelCall::LayerNormBackward(o) => {
                let mut numbers = layer_norm_numbers(&o.of);
                numbers.push(o.wanted.into());
                ("layer_norm_backward", numbers)
            }
            KernelCall::Softmax(o) => ("softmax", smallvec![o.log.into(), o.dim as i64]),
            KernelCall::SoftmaxBackward(o) => ("softmax_backward", smallvec![o.log.into(), o.dim as i64]),
            KernelCall::CrossEntropy(o) => ("cross_entropy", cross_entropy_numbers(o)),
            KernelCall::CrossEntropyBackward(o) => ("cross_entropy_backward", cross_entropy_numbers(&o.of)),
            KernelCall::SumRows(lead) => ("sum_rows", smallvec![*lead as i64]),
            KernelCall::Join { rows, count } => ("join", smallvec![*rows as i64, *count as i64]),
            KernelCall::AdamW(o) => ("adamw", smallvec![o.decoupled.into(), o.maximize.into()]),
            KernelCall::Sgd(o) => {
                ("sgd", smallvec![o.momentum.into(), o.nesterov.into(), o.maximize.into(), o.first.into()])
            }
        }
    }

    fn decode(kernel: &str, numbers: &[i64]) -> Option<KernelCall> {
        Some(match kernel {
            "matmul" => {
                let &[ta, tb] = numbers else { return None };
                // The dtype of the result says whether it is wide.
                KernelCall::Matmul(Dot { ta: ta != 0, tb: tb != 0, wide: false, of_narrow: false })
            }
            "linear" => {
                let &[bias] = numbers else { return None };
                KernelCall::Linear { bias: bias != 0 }
            }
            "conv" => KernelCall::Conv(conv_spec(numbers)?),
            "conv_input_grad" => KernelCall::ConvInputGrad(conv_spec(numbers)?),
            "conv_weight_grad" => KernelCall::ConvWeightGrad(conv_spec(numbers)?),
            "attention" => KernelCall::Attention(attention_spec(numbers)?),
            "attention_backward" => KernelCall::AttentionBackward(attention_spec(numbers)?),
            "max_pool" => KernelCall::MaxPool(pool_spec(numbers)?),
            "max_pool_backward" => {
                let &[spatial] = numbers else { return None };
                KernelCall::MaxPoolBackward(usize::try_from(spatial).ok()?)
            }
            "sin" => KernelCall::Angle(UnaryKind::Sin),
            "cos" => KernelCall::Angle(UnaryKind::Cos),
            "tan" => KernelCall::Angle(UnaryKind::Tan),
            "gelu" => {
                let &[tanh] = numbers else { return None };
                KernelCall::Gelu(Gelu { tanh: tanh != 0 })
            }
            "gelu_backward" => {
                let &[tanh] = numbers else { return None };
                KernelCall::GeluBackward(GeluBackward { tanh: tanh != 0 })
            }
            "layer_norm" => KernelCall::LayerNorm(layer_norm(numbers)?),
            "layer_norm_backward" => {
                let (&wanted, numbers) = numbers.split_last()?;
                let (of, wanted) = (layer_norm(numbers)?, u8::try_from(wanted).ok()?);
                KernelCall::LayerNormBackward(LayerNormBackward { of, wanted })
            }
            "softmax" => {
                let &[log, dim] = numbers else { return None };
                KernelCall::Softmax(Softmax { log: log != 0, dim: usize::try_from(dim).ok()? })
            }
            "softmax_backward" => {
                let &[log, dim] = numbers else { return None };
                KernelCall::SoftmaxBackward(SoftmaxBackward { log: log != 0, dim: usize::try_from(dim).ok()? })
            }
            "cross_entropy" => KernelCall::CrossEntropy(cross_entropy(numbers)?),
            "cross_entropy_backward" => {
                KernelCall::CrossEntropyBackward(CrossEntropyBackward { of: cross_entropy(numbers)? })
            }
            "sum_rows" => {
                let &[lead] = numbers else { return None };
                KernelCall::SumRows(usize::try_from(lead).ok()?)
            }
            "join" => {
                let &[rows, count] = numbers else { return None };
                KernelCall::Join { rows: usize::try_from(rows).ok()?, count: usize::try_from(count).ok()? }
            }
            "adamw" => {
                let &[decoupled, maximize] = numbers else { return None };
                KernelCall::AdamW(AdamW { decoupled: decoupled != 0, maximize: maximize != 0 })
            }
            "sgd" => {
                let &[momentum, nesterov, maximize, first] = numbers else { return None };
                let [momentum, nesterov, maximize, first] = [momentum, nesterov, maximize, first].map(|n| n != 0);
                KernelCall::Sgd(Sgd { momentum, nesterov, maximize, first })
            }
            _ => return None,
        })
    }

    /// Numbers of operands and of results.
    fn arity(&self) -> (usize, usize) {
        match self {
            KernelCall::Linear { bias } => (2 + usize::from(*bias), 1),
            KernelCall::Attention(o) => (3 + usize::from(o.mask), 2),
            KernelCall::AttentionBackward(o) => (5 + usize::from(o.mask), 3),
            KernelCall::MaxPool(_) => (1, 2),
            KernelCall::Angle(_) | KernelCall::Gelu(_) | KernelCall::Softmax(_) | KernelCall::SumRows(_) => (1, 1),
            KernelCall::LayerNorm(o) => (1 + usize::from(o.weight) + usize::from(o.bias), 3),
            KernelCall::LayerNormBackward(o) => (4 + usize::from(o.of.weight), 3),
            KernelCall::CrossEntropy(o) => (2 + usize::from(o.weight), 3),
            KernelCall::CrossEntropyBackward(o) => (4 + usize::from(o.of.weight), 1),
            KernelCall::AdamW(_) => (12, 3),
            KernelCall::Sgd(o) => (6 + usize::from(o.momentum), 2),
            KernelCall::Join { count, .. } => (*count, 1),
            _ => (2, 1),
        }
    }
}

fn conv_numbers(s: &ConvSpec) -> Numbers {
    let mut numbers = smallvec![s.spatial as i64, s.groups as i64, s.reverse.into()];
    for d in 0..s.spatial {
        let (low, high) = s.pad[d];
        numbers.extend([s.stride[d] as i64, low, high, s.x_dilation[d] as i64, s.w_dilation[d] as i64]);
    }
    numbers
}

fn conv_spec(numbers: &[i64]) -> Option<ConvSpec> {
    let [spatial, groups, reverse, rest @ ..] = numbers else { return None };
    let (dims, []) = rest.as_chunks::<5>() else { return None };
    let (spatial, groups) = (spatial_of(*spatial, dims)?, usize::try_from(*groups).ok()?);
    let mut s = ConvSpec { spatial, groups, reverse: *reverse != 0, ..ConvSpec::default() };
    for (d, &[stride, low, high, x_dilation, w_dilation]) in dims.iter().enumerate() {
        s.stride[d] = usize::try_from(stride).ok()?;
        s.pad[d] = (low, high);
        s.x_dilation[d] = usize::try_from(x_dilation).ok()?;
        s.w_dilation[d] = usize::try_from(w_dilation).ok()?;
    }
    Some(s)
}

fn pool_numbers(s: &PoolSpec) -> Numbers {
    let mut numbers = smallvec![s.spatial as i64];
    for d in 0..s.spatial {
        numbers.extend([s.kernel[d], s.stride[d], s.pad[d], s.dilation[d]].map(|n| n as i64));
    }
    numbers
}

fn pool_spec(numbers: &[i64]) -> Option<PoolSpec> {
    let [spatial, rest @ ..] = numbers else { return None };
    let (dims, []) = rest.as_chunks::<4>() else { return None };
    let spatial = spatial_of(*spatial, dims)?;
    let mut s = PoolSpec { spatial, kernel: [1; 3], stride: [1; 3], pad: [0; 3], dilation: [1; 3] };
    for (d, &[kernel, stride, pad, dilation]) in dims.iter().enumerate() {
        s.kernel[d] = usize::try_from(kernel).ok()?;
        s.stride[d] = usize::try_from(stride).ok()?;
        s.pad[d] = usize::try_from(pad).ok()?;
        s.dilation[d] = usize::try_from(dilation).ok()?;
    }
    Some(s)
}

/// There are numbers for one to three spatial dimensions.
fn spatial_of<T>(spatial: i64, dims: &[T]) -> Option<usize> {
    usize::try_from(spatial).ok().filter(|s| (1..=3).contains(s) && dims.len() == *s)
}

fn attention_numbers(o: &Attention) -> Numbers {
    smallvec![o.scale.get().to_bits() as i64, o.is_causal.into(), o.mask.into(), o.rows_first.into()]
}

fn attention_spec(numbers: &[i64]) -> Option<Attention> {
    let &[scale, is_causal, mask, rows_first] = numbers else { return None };
    let scale = F64::new(f64::from_bits(scale as u64));
    let [is_causal, mask, rows_first] = [is_causal, mask, rows_first].map(|n| n != 0);
    Some(Attention { scale, is_causal, mask, rows_first, keeps_output: false })
}

fn layer_norm_numbers(o: &LayerNorm) -> Numbers {
    let eps = o.eps.get().to_bits() as i64;
    smallvec![o.shape.numel() as i64, eps, o.rms.into(), o.weight.into(), o.bias.into()]
}

fn layer_norm(numbers: &[i64]) -> Option<LayerNorm> {
    let &[len, eps, rms, weight, bias] = numbers else { return None };
    let (shape, eps) = (Dims::new(&[usize::try_from(len).ok()?]), F64::new(f64::from_bits(eps as u64)));
    Some(LayerNorm { shape, eps, rms: rms != 0, weight: weight != 0, bias: bias != 0 })
}

fn cross_entropy_numbers(o: &CrossEntropy) -> Numbers {
    smallvec![o.weight.into(), o.ignore_index, o.smoothing.get().to_bits() as i64]
}

fn cross_entropy(numbers: &[i64]) -> Option<CrossEntropy> {
    let &[weight, ignore_index, smoothing] = numbers else { return None };
    let smoothing = F64::new(f64::from_bits(smoothing as u64));
    Some(CrossEntropy { weight: weight != 0, ignore_index, smoothing })
}

/// Compute the call of `kernel`, on this thread and the runtime's threads. An operand whose memory a result takes has
/// no bytes: the result holds its elements. Operands beyond those of the kernel are ignored. The kernel sees only the
/// window of an operand with a window.
///
/// # Errors
/// A message when no lowering writes such a name, attributes or numbers of operands and results, and when the kernel
/// fails.
///
/// # Panics
/// When sizes do not fit. No lowering writes such calls.
pub fn run(
    kernel: &str,
    numbers: &[i64],
    x: &[Array<&[u8]>],
    y: &mut [Array<&mut [u8]>],
    threads: &dyn Lender,
) -> Result<(), String> {
    let fits = |call: &KernelCall| call.arity().0 <= x.len() && call.arity().1 == y.len();
    let decoded = windows(kernel, numbers).and_then(|(kernel, numbers, windows)| {
        let call = KernelCall::decode(kernel, numbers).filter(fits)?;
        windows.iter().all(|w| call.takes_windows(w.operand)).then_some((call, windows))
    });
    let Some((call, windows)) = decoded else {
        let (n, m) = (x.len(), y.len());
        return Err(format!("no kernel {kernel} with attributes {numbers:?}, {n} operands and {m} results"));
    };
    if let KernelCall::Join { rows, count } = call {
        return join(rows, &x[..count], &mut y[0]);
    }
    let mut x: SmallVec<[Operand<'_>; 12]> = x[..call.arity().0]
        .iter()
        .map(|a| Operand { dtype: a.dtype, sizes: a.sizes, strides: a.sizes.contiguous_strides(), bytes: a.bytes })
        .collect();
    for w in windows {
        let of = &mut x[w.operand];
        let bytes = w.offset.checked_mul(of.dtype.size_bytes()).and_then(|at| of.bytes.get(at..));
        *of = Operand { sizes: w.sizes, strides: w.strides, bytes: bytes.ok_or("a window beyond its array")?, ..*of };
    }
    let layouts: SmallVec<[(Dims, Dims); 12]> = (0..x.len()).map(|i| layout(&call, i, &x)).collect();
    let inputs: SmallVec<[View<'_>; 12]> =
        x.iter().zip(&layouts).map(|(a, (sizes, strides))| View::of_bytes(a.bytes, sizes, strides, a.dtype)).collect();
    // If the runtime allocates the program's memory anew at each execution, each small page costs a fault.
    y.iter_mut().for_each(|a| memory::prefer_huge_pages(a.bytes));
    let strides: SmallVec<[Dims; 3]> = y.iter().map(|a| a.sizes.contiguous_strides()).collect();
    let mut outputs: SmallVec<[ViewMut<'_>; 3]> =
        y.iter_mut().zip(&strides).map(|(a, strides)| ViewMut::of_bytes(a.bytes, &a.sizes, strides, a.dtype)).collect();
    with_threads_of(threads, || compute(&call, &inputs, &mut outputs))
}

/// The largest number of operands that the compiler joins. XLA:CPU compiles a concatenation of 1,000 operands for half
/// a minute.
const MANY: usize = 64;

/// Number of computed operands that the compiler joins before the call. XLA:CPU computes up to eight operands of a
/// concatenation in its loop, and compiles a kernel for each further one: 300 sums of four elements took 11 s, and 2.5
/// s in groups.
const JOINED: usize = 8;

/// A function that joins the rows of a few operands.
pub(crate) type JoinFew<'a> = dyn Fn(&mut Func, &[Value]) -> Value + 'a;

/// Lower `cat` or `stack` of many operands to a call. The operands have the same leading sizes, whose product is
/// `rows`. Return `None` if the compiler joins them.
pub(crate) fn lower_join(f: &mut Func, x: &[Value], rows: usize, y: &[Meta], few: Option<&JoinFew>) -> Option<Values> {
    if x.len() <= MANY || f.platform() != (Platform::Cpu { kernels: true }) {
        return None;
    }
    let Some(few) = few else {
        return Some(KernelCall::Join { rows, count: x.len() }.lower(f, x, y));
    };
    let mut parts = Vec::new();
    for group in x.chunks(JOINED) {
        if group.iter().any(Value::is_argument) {
            parts.extend_from_slice(group);
        } else {
            parts.push(few(f, group));
        }
    }
    Some(KernelCall::Join { rows, count: parts.len() }.lower(f, &parts, y))
}

/// Write `y` row by row, each made of a row of each operand.
fn join(rows: usize, x: &[Array<&[u8]>], y: &mut Array<&mut [u8]>) -> Result<(), String> {
    let total: usize = x.iter().map(|a| a.bytes.len()).sum();
    if total != y.bytes.len() || x.iter().any(|a| a.bytes.len() != a.bytes.len().checked_div(rows).unwrap_or(0) * rows)
    {
        return Err(format!("{} operands of {total} bytes for a result of {} in {rows} rows", x.len(), y.bytes.len()));
    }
    let mut rest = &mut *y.bytes;
    for row in 0..rows {
        for a in x {
            let n = a.bytes.len() / rows;
            let (to, after) = std::mem::take(&mut rest).split_at_mut(n);
            to.copy_from_slice(&a.bytes[row * n..][..n]);
            rest = after;
        }
    }
    Ok(())
}

/// An operand of a call, or its window for the kernel.
struct Operand<'a> {
    dtype: DType,
    sizes: Dims,
    strides: Dims,
    /// The bytes from the first element on.
    bytes: &'a [u8],
}

/// Sizes and strides of operand `i` that the kernel expects.
fn layout(call: &KernelCall, i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
    let Operand { sizes, strides, .. } = &x[i];
    let (mask, q, o) = match call {
        KernelCall::Matmul(o) if [o.ta, o.tb][i] => return (swap_last(sizes), swap_last(strides)),
        // The rows of the weight are the columns of the product's second operand.
        KernelCall::Linear { .. } if i == 1 => return (swap_last(sizes), swap_last(strides)),
        KernelCall::Attention(o) => (3, 0, o),
        KernelCall::AttentionBackward(o) => (5, 1, o),
        // A result has taken the memory of this operand, so there is nothing to read.
        KernelCall::AdamW(_) | KernelCall::Sgd(_) if x[i].bytes.is_empty() => {
            return (Dims::filled(0, 1), Dims::filled(1, 1));
        }
        _ => return (*sizes, *strides),
    };
    if i != mask {
        return (*sizes, *strides);
    }
    let scores = o.score_dims(&x[q].sizes, &x[q + 1].sizes);
    let mut spread = Dims::filled(0, 4);
    for (d, (&n, &stride)) in sizes.iter().zip(strides.iter()).enumerate() {
        spread.set(4 - sizes.len() + d, if n == 1 { 0 } else { stride });
    }
    (scores, spread)
}

fn compute(call: &KernelCall, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> Result<(), String> {
    let message = |e: torchtpu_kernels::KernelError| kernel_error(e).to_string();
    match (call, x, y) {
        (KernelCall::Matmul(_), [a, b], [y]) => matmul::matmul(a, b, y).map_err(|e| e.to_string())?,
        (KernelCall::Linear { .. }, [x, w, b @ ..], [y]) => {
            matmul::addmm(x, w, b.first(), y).map_err(|e| e.to_string())?
        }
        (KernelCall::Conv(spec), [x, w], [y]) => conv::conv(x, w, None, spec, y),
        (KernelCall::ConvInputGrad(spec), [g, w], [gx]) => conv::conv_input_grad(g, w, spec, gx),
        (KernelCall::ConvWeightGrad(spec), [x, g], [gw]) => conv::conv_weight_grad(x, g, spec, gw),
        (KernelCall::Attention(o), [q, k, v, mask @ ..], [y, lse]) => {
            attention::attention(q, k, v, &o.spec(mask.first().copied()), y, lse);
        }
        (KernelCall::AttentionBackward(o), [g, q, k, v, lse, mask @ ..], [gq, gk, gv]) => {
            attention::attention_backward(g, q, k, v, lse, &o.spec(mask.first().copied()), gq, gk, gv);
        }
        (KernelCall::MaxPool(spec), [x], [y, at]) => pool::max_pool(x, spec, y, at),
        (KernelCall::MaxPoolBackward(spatial), [g, at], [gx]) => pool::max_pool_backward(g, at, *spatial, gx),
        (KernelCall::Angle(kind), [x], [y]) => pointwise::unary(*kind, x, y).map_err(message)?,
        (KernelCall::Gelu(o), [x], [y]) => pointwise::gelu(x, o.tanh, y).map_err(message)?,
        (KernelCall::GeluBackward(o), [g, x], [gx]) => pointwise::gelu_backward(g, x, o.tanh, gx).map_err(message)?,
        (KernelCall::LayerNorm(o), x, [y, mean, rstd]) => o.run(x, [y, mean, rstd]),
        (KernelCall::LayerNormBackward(o), x, [gx, gw, gb]) => o.run(x, [gx, gw, gb]),
        (KernelCall::Softmax(o), [x], [y]) if o.dim < x.sizes().len() => o.run(x, y),
        (KernelCall::SoftmaxBackward(o), [g, v], [gx]) if o.dim < v.sizes().len() => o.run(g, v, gx),
        (KernelCall::CrossEntropy(o), x, [loss, lse, total]) => {
            let weight = o.run(x, [loss, lse]).map_err(message)?;
            copy::fill(total, copy::Scalar::Float(weight));
        }
        (KernelCall::CrossEntropyBackward(o), x, [gx]) => o.run(x, gx).map_err(message)?,
        (KernelCall::SumRows(lead), [x], [y]) => {
            let mask: SmallVec<[bool; 8]> = (0..x.sizes().len()).map(|i| i < *lead).collect();
            reduce::reduce(ReduceKind::Sum, x, &mask, y).map_err(message)?;
        }
        (KernelCall::AdamW(o), [p0, g, m0, v0, numbers @ ..], [p, m, v]) => {
            let numbers: SmallVec<[f64; 8]> = numbers.iter().map(number).collect();
            let step = o.step(numbers.as_slice().try_into().expect("eight numbers"));
            // If an operand has no elements, the result at its position has taken its memory, as `in_place` declares.
            let from = [p0, m0, v0].map(|old| Some(old).filter(|old| old.numel() > 0));
            pointwise::adamw_step(p, g, m, v, from, &step).map_err(message)?;
        }
        (KernelCall::Sgd(o), [p0, g, rest @ ..], [p, b]) => {
            let (b0, numbers) = rest.split_at(usize::from(o.momentum));
            let numbers: SmallVec<[f64; 4]> = numbers.iter().map(number).collect();
            let numbers = numbers.as_slice().try_into().expect("four numbers");
            // If an operand has no elements, the result at its position has taken its memory.
            let from = [Some(p0), b0.first()].map(|old| old.filter(|old| old.numel() > 0));
            o.run(p, g, b, from, numbers).map_err(message)?;
        }
        _ => return Err(format!("{call:?} with other operands")),
    }
    Ok(())
}

/// The value of an array of one element, of the dtype that the step computes in.
fn number(x: &View<'_>) -> f64 {
    match (x.as_slice::<f32>(), x.as_slice::<f64>()) {
        (Some(&[v]), _) => v.into(),
        (_, Some(&[v])) => v,
        _ => unreachable!("numbers of a step are f32 or f64"),
    }
}
