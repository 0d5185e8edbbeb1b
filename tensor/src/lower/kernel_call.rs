//! Ops that a compiled program leaves to the kernels of device `cpu`. On XLA:CPU these are products of matrices,
//! convolutions, attention, max pooling, layer norm, softmax, cross entropy, gelu, sine, cosine and tangent, sums of
//! rows and steps of Adam and SGD. The kernels are faster than the compiler's code, and much faster for 16-bit floats
//! and `f64` convolutions.
//!
//! The lowering writes a custom call with the kernel's name and the op's attributes as numbers. The engine registers
//! [`TARGET`] with the plugin. At every execution it gets the name, the numbers and the arrays, and passes them to
//! [`run`]. `docs/performance/xla-cpu.md` has the measurements.

use crate::lower::fields::{Field, Numbers};
use crate::op::{Func, Value, Values};
use crate::{DType, Dims, Error, Meta, backend, ops};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
pub use torchtpu_kernels::threads::Lender;
use torchtpu_kernels::threads::with_threads_of;
use torchtpu_kernels::{KernelError, View, ViewMut, memory};
use torchtpu_stablehlo::ElementType;

/// The function that programs call.
pub const TARGET: &str = "torchtpu.kernel";

/// Whether the program should call a kernel for so much `work` on such elements.
pub(crate) fn is_profitable(f: &Func, e: ElementType, work: usize) -> bool {
    let known = matches!(e, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64);
    known && f.profile().calls_kernel_for(work)
}

/// Whether programs of the device behind `tpu` should call a kernel for so much work. An op calls this when it is
/// recorded and would otherwise be expanded.
pub(crate) fn is_called(work: usize) -> bool {
    backend::get().is_ok_and(|b| b.profile().calls_kernel_for(work))
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

/// A kernel with the attributes of its op, which a program may call. [`ops::KERNEL_CALLS`] lists the types.
pub(crate) trait KernelCall: fmt::Debug {
    /// The name of the kernel in programs.
    fn name() -> &'static str
    where
        Self: Sized;
    /// Numbers of operands and of results.
    fn arity(&self) -> (usize, usize) {
        (2, 1)
    }
    /// Whether operand `i` may be a window on a larger array. Kernels with few operations for each element read
    /// row-major arrays only.
    fn takes_windows(&self, _i: usize) -> bool {
        false
    }
    /// Pairs of a result and the operand whose memory it may take.
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[]
    }
    /// Sizes and strides of operand `i` that the kernel expects.
    fn layout(&self, i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
        (x[i].sizes, x[i].strides)
    }
    /// Fill the results.
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> Result<(), String>;
    /// Fill the results with bytes of the operands, for kernels that do not read elements. `None` for all others.
    fn copy(&self, _x: &[Array<&[u8]>], _y: &mut [Array<&mut [u8]>]) -> Option<Result<(), String>> {
        None
    }

    /// Append the call for operands `x`, and return its results, of types `y`.
    fn call_kernel<'a>(&self, f: &mut Func, x: impl IntoIterator<Item = &'a Value>, y: &[Meta]) -> Values
    where
        Self: Field,
    {
        let mut numbers = Numbers::new();
        self.put(&mut numbers);
        let mut args: SmallVec<[Value; 12]> = x.into_iter().cloned().collect();
        let own = numbers.len();
        for (i, arg) in args.iter_mut().enumerate().filter(|(i, _)| self.takes_windows(*i)) {
            if let Some(window) = f.window(arg).filter(|w| reads_well(arg.shape(), &w.strides)) {
                numbers.extend([i, window.offset, arg.rank()].map(|n| n as i64));
                numbers.extend(arg.shape().iter().chain(&window.strides).map(|&n| n as i64));
                *arg = window.of.clone();
            }
        }
        let mut kernel = Cow::from(Self::name());
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
}

/// A type of kernels that programs may call.
pub(crate) struct Entry {
    name: fn() -> &'static str,
    decode: fn(&[i64]) -> Option<Box<dyn KernelCall>>,
}

impl Entry {
    /// The entry of a type.
    pub(crate) const fn of<C: KernelCall + Field + 'static>() -> Entry {
        Entry { name: C::name, decode: boxed::<C> }
    }
}

fn boxed<C: KernelCall + Field + 'static>(mut numbers: &[i64]) -> Option<Box<dyn KernelCall>> {
    let call = C::take(&mut numbers)?;
    numbers.is_empty().then(|| Box::new(call) as Box<dyn KernelCall>)
}

/// The kernel with this name and these attributes.
fn decode(name: &str, numbers: &[i64]) -> Option<Box<dyn KernelCall>> {
    let entry = ops::KERNEL_CALLS.iter().find(|e| (e.name)() == name)?;
    (entry.decode)(numbers)
}

/// The error of a call whose operands do not fit its attributes.
pub(crate) fn misfit(call: &dyn KernelCall) -> String {
    format!("{call:?} with other operands")
}

/// The message of a kernel's error.
pub(crate) fn message(e: KernelError) -> String {
    Error::of_kernel(e).to_string()
}

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
    let decoded = windows(kernel, numbers).and_then(|(kernel, numbers, windows)| {
        let call = decode(kernel, numbers)?;
        let (operands, results) = call.arity();
        let fits = operands <= x.len() && results == y.len();
        (fits && windows.iter().all(|w| call.takes_windows(w.operand))).then_some((call, windows))
    });
    let Some((call, windows)) = decoded else {
        let (n, m) = (x.len(), y.len());
        return Err(format!("no kernel {kernel} with attributes {numbers:?}, {n} operands and {m} results"));
    };
    if let Some(outcome) = call.copy(&x[..call.arity().0], y) {
        return outcome;
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
    let layouts: SmallVec<[(Dims, Dims); 12]> = (0..x.len()).map(|i| call.layout(i, &x)).collect();
    let inputs: SmallVec<[View<'_>; 12]> =
        x.iter().zip(&layouts).map(|(a, (sizes, strides))| View::of_bytes(a.bytes, sizes, strides, a.dtype)).collect();
    // If the runtime allocates the program's memory anew at each execution, each small page costs a fault.
    y.iter_mut().for_each(|a| memory::prefer_huge_pages(a.bytes));
    let strides: SmallVec<[Dims; 3]> = y.iter().map(|a| a.sizes.contiguous_strides()).collect();
    let mut outputs: SmallVec<[ViewMut<'_>; 3]> =
        y.iter_mut().zip(&strides).map(|(a, strides)| ViewMut::of_bytes(a.bytes, &a.sizes, strides, a.dtype)).collect();
    with_threads_of(threads, || call.compute(&inputs, &mut outputs))
}

/// An operand of a call, or its window for the kernel.
pub(crate) struct Operand<'a> {
    pub(crate) dtype: DType,
    pub(crate) sizes: Dims,
    pub(crate) strides: Dims,
    /// The bytes from the first element on.
    pub(crate) bytes: &'a [u8],
}
