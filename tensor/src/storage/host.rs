//! Recorded ops, run on the host.
//!
//! If the device computes in the host's memory, an engine need not compile a program: the kernels of device `cpu` take
//! the same ops. A [`HostValue`] is a value of such a run, and [`run`] computes one op.

use crate::op::{Layout, Prim};
use crate::{DType, Device, Error, Meta, Place, Result, Tensor, dispatch};
use smallvec::SmallVec;
use std::sync::Arc;

/// A value in host memory, which never changes.
#[derive(Clone)]
pub struct HostValue(Tensor);

/// Results of an op.
pub type HostValues = SmallVec<[HostValue; 2]>;

impl HostValue {
    /// The value whose elements are the bytes of `owner`, dense and row major. They are copied only if they are not
    /// aligned.
    ///
    /// # Errors
    /// `Runtime` when there are more or fewer bytes than the value has; `OutOfMemory` for a copy.
    pub fn shared<T: AsRef<[u8]> + Send + Sync + 'static>(meta: &Meta, owner: Arc<T>) -> Result<HostValue> {
        Tensor::on_shared_bytes(&on_host(meta), owner).map(HostValue)
    }

    /// A number: a value without dimensions.
    ///
    /// # Errors
    /// `Runtime` when `bytes` are not those of one element.
    pub fn number(dtype: DType, bytes: &[u8]) -> Result<HostValue> {
        let mut y = Tensor::empty(&Meta::new(&[], dtype, Device::CPU))?;
        match y.as_bytes_mut() {
            Some(memory) if memory.len() == bytes.len() => memory.copy_from_slice(bytes),
            _ => return Err(Error::runtime(format!("{} bytes for a number of {}", bytes.len(), dtype.name()))),
        }
        Ok(HostValue(y))
    }

    /// The same value, dense and row major, in memory that belongs to it alone, so that keeping it keeps no larger
    /// memory alive.
    ///
    /// # Errors
    /// `OutOfMemory` for a copy.
    pub fn into_kept(self) -> Result<HostValue> {
        let x = &self.0;
        let is_whole = x.storage_bytes() <= x.numel() * x.dtype().size_bytes() && x.drops_quietly();
        if is_whole && x.is_contiguous() { Ok(self) } else { copied(x).map(HostValue) }
    }

    /// The bytes of a [dense](HostValue::into_kept) value; empty for any other value.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes().unwrap_or(&[])
    }
}

impl AsRef<[u8]> for HostValue {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Compute a recorded op with the kernels of device `cpu`; `y` describes its results.
///
/// # Errors
/// The errors of the kernel; `NotImplemented` for an op whose kernels have another meaning than its lowering.
pub fn run(op: &Prim, x: &[&HostValue], y: &[Meta]) -> Result<HostValues> {
    let x: SmallVec<[&Tensor; 4]> = x.iter().map(|x| &x.0).collect();
    if op.is_view() {
        return Ok(smallvec::smallvec![HostValue(view(op, x[0], &y[0])?)]);
    }
    if let Prim::Inline(_) = op {
        return Err(Error::not_implemented(format!("{} on the host", op.name())));
    }
    if op.has_kernel() {
        let results: SmallVec<[Tensor; 2]> = y.iter().map(|m| Tensor::empty(&on_host(m))).collect::<Result<_>>()?;
        op.kernel(&x, &results)?;
        return Ok(results.into_iter().map(HostValue).collect());
    }
    let results = dispatch::expand_whole(op, &x)?;
    if results.len() != y.len() || results.iter().zip(y).any(|(r, y)| *r.meta() != on_host(y)) {
        return Err(Error::runtime(format!("{}: {results:?} instead of {y:?}", op.name())));
    }
    results.into_iter().map(|r| r.resolved().map(HostValue)).collect()
}

fn on_host(meta: &Meta) -> Meta {
    Meta { place: Place::CPU, ..*meta }
}

fn copied(x: &Tensor) -> Result<Tensor> {
    let y = Tensor::empty(x.meta())?;
    torchtpu_kernels::copy::copy(&x.view(), &mut y.view_mut());
    Ok(y)
}

/// The result of a view op. A device records views of dense values, so `x` counts as dense even if it is not.
fn view(op: &Prim, x: &Tensor, y: &Meta) -> Result<Tensor> {
    let layout = |x: &Tensor| match op {
        Prim::AsStrided(w) => Ok(Layout { dims: w.dims, strides: w.strides, offset: w.offset + x.storage_offset() }),
        _ => op.layout(&Layout::of(x)),
    };
    if matches!(op, Prim::Bits(b) if b.to == DType::Bool && b.from != DType::Bool) {
        // Programs rely on a truth value being 0 or 1.
        return Err(Error::not_implemented("view(torch.bool) on the host"));
    }
    let needs_dense = matches!(op, Prim::AsStrided(_)) && !x.is_contiguous();
    let copy;
    let (x, l) = match if needs_dense { None } else { layout(x).ok() } {
        Some(l) => (x, l),
        None => {
            copy = copied(x)?;
            (&copy, layout(&copy)?)
        }
    };
    let mut v = x.alias(&on_host(y), l.strides, l.offset, None)?;
    match op {
        Prim::Conj(_) => v.toggle_lazy(true),
        Prim::Negative(_) => v.toggle_lazy(false),
        _ => return Ok(v),
    }
    v.resolved()
}
