//! The kernels of device `cpu` as custom calls of XLA:CPU. Programs call them for ops that compiled code computes more
//! slowly.

use smallvec::SmallVec;
use torchtpu_pjrt::{CallFrame, Client, CustomCall};
use torchtpu_tensor::lower::kernel_call::{self, Array, Lender};
use torchtpu_tensor::{DType, Dims};

/// Set to `0`, it leaves everything to the compiler.
const VARIABLE: &str = "TORCHTPU_XLA_KERNELS";

struct Kernels;

impl CustomCall for Kernels {
    const TARGET: &'static str = kernel_call::TARGET;

    fn call(frame: CallFrame<'_>) -> Result<(), String> {
        let operands: SmallVec<[Array<&[u8]>; 2]> = frame
            .operands
            .iter()
            .map(|a| Ok(Array { dtype: dtype(a.element_type)?, sizes: sizes(a.dims)?, bytes: a.bytes }))
            .collect::<Result<_, String>>()?;
        let mut results: SmallVec<[Array<&mut [u8]>; 3]> = frame
            .results
            .into_iter()
            .map(|a| Ok(Array { dtype: dtype(a.element_type)?, sizes: sizes(a.dims)?, bytes: a.bytes }))
            .collect::<Result<_, String>>()?;
        kernel_call::run(frame.kernel, frame.numbers, &operands, &mut results, &Threads(frame.threads))
    }
}

struct Threads<'a>(torchtpu_pjrt::Threads<'a>);

impl Lender for Threads<'_> {
    fn lend(&self, task: Box<dyn FnOnce() + Send>) {
        self.0.schedule(task);
    }
}

pub(crate) fn dtype(e: torchtpu_pjrt::ElementType) -> Result<DType, String> {
    DType::ALL
        .into_iter()
        .find(|&d| crate::types::element_type(d) == e)
        .ok_or_else(|| format!("no dtype for {}", e.stablehlo_name()))
}

pub(crate) fn sizes(dims: &[i64]) -> Result<Dims, String> {
    let sizes: SmallVec<[usize; 8]> = dims.iter().map(|&n| n as usize).collect();
    Dims::try_new(&sizes).map_err(|e| e.to_string())
}

/// Register the kernels with the plugin of a cpu client. Return whether programs may call them.
pub(crate) fn register(client: &Client) -> bool {
    std::env::var(VARIABLE).map_or(true, |v| v.trim() != "0") && client.register_custom_call::<Kernels>().is_ok()
}
