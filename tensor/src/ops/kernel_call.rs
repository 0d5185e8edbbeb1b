//! Ops that a compiled program leaves to the kernels of device `cpu`: products of matrices and convolutions on XLA:CPU, where
//! ours are faster than the compiler's own, and far faster for 16-bit floats and `f64` convolutions.
//!
//! The lowering writes a custom call with the kernel's name and the op's attributes as numbers. The engine, which makes
//! [`TARGET`] known to the plugin, gets both back with the arrays at every execution and passes them to [`run`].
//! `docs/architecture.md` has the measurements.

use super::conv::ConvSpec;
use super::matmul::{Dot, swap_last};
use crate::op::{Func, Value};
use crate::{DType, Dims, Meta};
use smallvec::{SmallVec, smallvec};
pub use torchtpu_kernels::threads::Lender;
use torchtpu_kernels::threads::with_threads_of;
use torchtpu_kernels::{View, ViewMut, conv, matmul};
use torchtpu_stablehlo::{ElementType, Platform};

/// The function that programs call.
pub const TARGET: &str = "torchtpu.kernel";

/// Multiplications below which a call costs more than it saves.
const LEAST_WORK: usize = 1 << 14;

/// Whether the program may call kernels, and should for `work` multiplications of such elements.
pub(super) fn serves(f: &Func, e: ElementType, work: usize) -> bool {
    let known = matches!(e, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64);
    f.platform() == Platform::Cpu { kernels: true } && known && work >= LEAST_WORK
}

/// An array in row-major order.
pub struct Array<B> {
    /// What one element is.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub sizes: Dims,
    /// The elements, aligned for their type.
    pub bytes: B,
}

/// A kernel with the attributes of its op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KernelCall {
    Matmul(Dot),
    Conv(ConvSpec),
    ConvInputGrad(ConvSpec),
    ConvWeightGrad(ConvSpec),
}

use KernelCall::{Conv, ConvInputGrad, ConvWeightGrad, Matmul};

impl KernelCall {
    /// Its result for two operands, of type `y`.
    pub(super) fn lower(self, f: &mut Func, x: [&Value; 2], y: &Meta) -> Value {
        let (kernel, numbers) = self.encode();
        f.custom_call(TARGET, &x.map(Clone::clone), &y.ty(), kernel, &numbers)
    }

    fn encode(&self) -> (&'static str, SmallVec<[i64; 18]>) {
        match self {
            Matmul(o) => ("matmul", smallvec![o.ta.into(), o.tb.into()]),
            Conv(spec) => ("conv", numbers_of(spec)),
            ConvInputGrad(spec) => ("conv_input_grad", numbers_of(spec)),
            ConvWeightGrad(spec) => ("conv_weight_grad", numbers_of(spec)),
        }
    }

    fn decode(kernel: &str, numbers: &[i64]) -> Option<KernelCall> {
        Some(match kernel {
            "matmul" => {
                let &[ta, tb] = numbers else { return None };
                Matmul(Dot { ta: ta != 0, tb: tb != 0 })
            }
            "conv" => Conv(spec_of(numbers)?),
            "conv_input_grad" => ConvInputGrad(spec_of(numbers)?),
            "conv_weight_grad" => ConvWeightGrad(spec_of(numbers)?),
            _ => return None,
        })
    }
}

fn numbers_of(s: &ConvSpec) -> SmallVec<[i64; 18]> {
    let mut numbers = smallvec![s.spatial as i64, s.groups as i64, s.reverse.into()];
    for d in 0..s.spatial {
        let (low, high) = s.pad[d];
        numbers.extend([s.stride[d] as i64, low, high, s.x_dilation[d] as i64, s.w_dilation[d] as i64]);
    }
    numbers
}

fn spec_of(numbers: &[i64]) -> Option<ConvSpec> {
    let [spatial, groups, reverse, rest @ ..] = numbers else { return None };
    let mut s = ConvSpec {
        spatial: usize::try_from(*spatial).ok().filter(|s| (1..=3).contains(s))?,
        groups: usize::try_from(*groups).ok()?,
        reverse: *reverse != 0,
        ..ConvSpec::default()
    };
    let (dims, []) = rest.as_chunks::<5>() else { return None };
    for (d, &[stride, low, high, x_dilation, w_dilation]) in dims.iter().enumerate().take(s.spatial) {
        s.stride[d] = usize::try_from(stride).ok()?;
        s.pad[d] = (low, high);
        s.x_dilation[d] = usize::try_from(x_dilation).ok()?;
        s.w_dilation[d] = usize::try_from(w_dilation).ok()?;
    }
    (dims.len() == s.spatial).then_some(s)
}

/// Computes what a program left to `kernel`, here and on the runtime's threads.
///
/// # Errors
/// A message, for a name, attributes or a number of operands that no lowering writes, and when the kernel itself fails.
///
/// # Panics
/// When sizes do not fit, which no lowering writes either.
pub fn run(
    kernel: &str,
    numbers: &[i64],
    x: &[Array<&[u8]>],
    y: Array<&mut [u8]>,
    threads: &dyn Lender,
) -> Result<(), String> {
    let (Some(call), [a, b]) = (KernelCall::decode(kernel, numbers), x) else {
        return Err(format!("no kernel {kernel} with attributes {numbers:?} and {} operands", x.len()));
    };
    let strides = [a.sizes, b.sizes, y.sizes].map(|sizes| sizes.contiguous_strides());
    let mut out = ViewMut::of_bytes(y.bytes, &y.sizes, &strides[2], y.dtype);
    let oriented = |sizes: Dims, strides: Dims, swap: bool| {
        if swap { (swap_last(&sizes), swap_last(&strides)) } else { (sizes, strides) }
    };
    let (ta, tb) = if let Matmul(o) = call { (o.ta, o.tb) } else { (false, false) };
    let (sizes_a, strides_a) = oriented(a.sizes, strides[0], ta);
    let (sizes_b, strides_b) = oriented(b.sizes, strides[1], tb);
    let a = View::of_bytes(a.bytes, &sizes_a, &strides_a, a.dtype);
    let b = View::of_bytes(b.bytes, &sizes_b, &strides_b, b.dtype);
    with_threads_of(threads, || {
        match call {
            Matmul(_) => matmul::matmul(&a, &b, &mut out).map_err(|e| e.to_string())?,
            Conv(spec) => conv::conv(&a, &b, None, &spec, &mut out),
            ConvInputGrad(spec) => conv::conv_input_grad(&a, &b, &spec, &mut out),
            ConvWeightGrad(spec) => conv::conv_weight_grad(&a, &b, &spec, &mut out),
        }
        Ok(())
    })
}
