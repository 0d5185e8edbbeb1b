//! Tensors on device `cpu` as the memory of a collective.

use torchtpu_distributed as distributed;
use torchtpu_kernels::copy::copy;
use torchtpu_kernels::{View, ViewMut};
use torchtpu_tensor::{DType, Error, Result, Tensor, inplace, state};

/// The bytes of some tensors, one after the other. The tensors have handles of their own, which keep their memory
/// alive.
pub(super) struct Memory {
    tensors: Vec<Tensor>,
    /// The bytes, unless they are those of the only tensor.
    copy: Option<Vec<u8>>,
    /// Whether a copy goes back to the tensors at the end.
    is_output: bool,
}

/// Return the bytes of all `tensors`.
fn bytes_of(tensors: &[Tensor]) -> usize {
    tensors.iter().map(|t| t.numel() * t.dtype().size_bytes()).sum()
}

/// Fail unless a tensor is on device `cpu` and may be read, and written if `is_output`.
pub(super) fn check(op: &str, tensor: &Tensor, is_output: bool) -> Result<()> {
    if !tensor.place().in_memory() {
        let device = tensor.device();
        return Err(Error::not_implemented(format!("{op}: a tensor on device {device}, must be on cpu")));
    }
    if is_output && inplace::repeats_elements(tensor) {
        return Err(Error::runtime(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory \
            location. Please clone() the tensor before performing the operation.",
        ));
    }
    Ok(())
}

/// The dtype in whose elements bits are copied. Numbers of a byte need no check of their values.
fn bits(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::U8 } else { dtype }
}

/// Return the address and the length in bytes of the memory from a tensor's first element to its last.
fn span(tensor: &Tensor) -> (usize, usize) {
    if tensor.numel() == 0 {
        return (0, 0);
    }
    let last: usize = tensor.dims().iter().zip(tensor.strides().iter()).map(|(n, s)| (n - 1) * s).sum();
    (tensor.data_ptr(), (last + 1) * tensor.dtype().size_bytes())
}

/// The memory from a tensor's first element to its last.
fn memory_of(tensor: &Tensor) -> &[u8] {
    let (address, len) = span(tensor);
    if len == 0 {
        return &[];
    }
    // SAFETY: the layout of a tensor lies within its storage, which the handle keeps alive. As for every op, the
    // program must not write the tensor meanwhile.
    unsafe { std::slice::from_raw_parts(address as *const u8, len) }
}

/// The same for writing.
fn memory_of_mut(tensor: &mut Tensor) -> &mut [u8] {
    let (address, len) = span(tensor);
    if len == 0 {
        return &mut [];
    }
    // SAFETY: as above; and the program must not read the tensor meanwhile. `Memory` has no second slice of it.
    unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len) }
}

/// Append the elements of a tensor to `bytes`, in row-major order.
fn append(tensor: &Tensor, bytes: &mut Vec<u8>) -> Result<()> {
    if tensor.is_contiguous() {
        bytes.extend_from_slice(memory_of(tensor));
        return Ok(());
    }
    let mut dense = Tensor::empty(tensor.meta())?;
    if tensor.is_lazy() {
        state::no_grad(|| inplace::assign(&dense, tensor))?;
    } else {
        let (dims, strides, dtype) = (*dense.dims(), *dense.strides(), bits(tensor.dtype()));
        let from = View::of_bytes(memory_of(tensor), tensor.dims(), tensor.strides(), dtype);
        copy(&from, &mut ViewMut::of_bytes(memory_of_mut(&mut dense), &dims, &strides, dtype));
    }
    bytes.extend_from_slice(memory_of(&dense));
    Ok(())
}

/// Write `bytes` to the elements of a tensor, in row-major order.
fn write(bytes: &[u8], tensor: &mut Tensor) -> Result<()> {
    if tensor.is_contiguous() {
        memory_of_mut(tensor).copy_from_slice(bytes);
        return Ok(());
    }
    let mut dense = Tensor::empty(tensor.meta())?;
    memory_of_mut(&mut dense).copy_from_slice(bytes);
    if tensor.is_lazy() {
        return state::no_grad(|| inplace::assign(tensor, &dense));
    }
    let (dims, strides, dtype) = (*tensor.dims(), *tensor.strides(), bits(tensor.dtype()));
    let from = View::of_bytes(memory_of(&dense), dense.dims(), dense.strides(), dtype);
    copy(&from, &mut ViewMut::of_bytes(memory_of_mut(tensor), &dims, &strides, dtype));
    Ok(())
}

impl Memory {
    fn copied(tensors: Vec<Tensor>, is_output: bool) -> Result<Memory> {
        let mut bytes = Vec::with_capacity(bytes_of(&tensors));
        tensors.iter().try_for_each(|t| append(t, &mut bytes))?;
        Ok(Memory { tensors, copy: Some(bytes), is_output })
    }

    fn is_plain(tensors: &[Tensor]) -> bool {
        matches!(tensors, [only] if only.is_contiguous())
    }

    /// The elements of `tensors`, for reading. They are copied if they share memory with `written`, or are not dense.
    pub(super) fn input(tensors: Vec<Tensor>, written: &[Tensor]) -> Result<Memory> {
        let is_shared = tensors.iter().any(|x| written.iter().any(|y| x.shares_storage(y)));
        if is_shared || !Memory::is_plain(&tensors) {
            return Memory::copied(tensors, false);
        }
        Ok(Memory { tensors, copy: None, is_output: false })
    }

    /// The elements of `tensors`, for writing.
    pub(super) fn output(tensors: Vec<Tensor>) -> Memory {
        let copy = (!Memory::is_plain(&tensors)).then(|| vec![0; bytes_of(&tensors)]);
        Memory { tensors, copy, is_output: true }
    }

    /// The elements of `tensors`, for reading and writing.
    pub(super) fn both(tensors: Vec<Tensor>) -> Result<Memory> {
        if !Memory::is_plain(&tensors) {
            return Memory::copied(tensors, true);
        }
        Ok(Memory { tensors, copy: None, is_output: true })
    }

    /// A copy of the elements of `tensors`, which stay as they are.
    pub(super) fn scratch(tensors: Vec<Tensor>) -> Result<Memory> {
        Memory::copied(tensors, false)
    }
}

impl distributed::Memory for Memory {
    fn bytes(&self) -> &[u8] {
        match (&self.copy, &self.tensors[..]) {
            (Some(copy), _) => copy,
            (None, [only]) => memory_of(only),
            (None, _) => &[],
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match (&mut self.copy, &mut self.tensors[..]) {
            (Some(copy), _) => copy,
            (None, [only]) => memory_of_mut(only),
            (None, _) => &mut [],
        }
    }

    fn complete(&mut self) -> Result<()> {
        let Some(copy) = self.copy.as_deref().filter(|_| self.is_output) else { return Ok(()) };
        let mut at = 0;
        for tensor in &mut self.tensors {
            let end = at + tensor.numel() * tensor.dtype().size_bytes();
            write(&copy[at..end], tensor)?;
            at = end;
        }
        Ok(())
    }
}
