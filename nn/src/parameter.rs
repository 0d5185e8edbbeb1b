//! The cells that hold a module's tensors.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use torchtpu_tensor::{DType, Device, Error, Result, Tensor, no_grad};

type Cell = Arc<Mutex<Tensor>>;

fn lock(cell: &Cell) -> MutexGuard<'_, Tensor> {
    cell.lock()
}

/// A trained tensor: a leaf that requires a gradient, in a cell that modules and optimisers share.
#[derive(Clone)]
pub struct Parameter(Cell);

impl Parameter {
    /// A parameter with the values of `x`, whose history ends here.
    ///
    /// # Errors
    /// `Runtime` unless the dtype is floating point.
    pub fn new(x: Tensor) -> Result<Parameter> {
        let x = if x.has_autograd() || x.is_view() { x.detach() } else { x };
        x.requires_grad_(true)?;
        Ok(Parameter(Arc::new(Mutex::new(x))))
    }
    /// The tensor in the cell now.
    pub fn tensor(&self) -> Tensor {
        lock(&self.0).clone()
    }
    /// Its gradient.
    pub fn grad(&self) -> Option<Tensor> {
        self.tensor().grad()
    }
    /// Whether both are the same parameter, not only equal ones.
    pub fn is_same(&self, other: &Parameter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// A number that tells parameters apart while they live.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// Puts the tensor, and its gradient, on a device; all who share the cell see it.
    ///
    /// # Errors
    /// As [`Tensor::to_device`].
    pub fn to(&self, device: Device) -> Result<()> {
        let mut cell = lock(&self.0);
        if cell.device() == device {
            return Ok(());
        }
        *cell = converted(&cell, |x| x.to_device(device))?;
        Ok(())
    }
    /// Makes the tensor, and its gradient, of another dtype; all who share the cell see it.
    ///
    /// # Errors
    /// `Runtime` unless the dtype is floating point or complex.
    pub fn to_dtype(&self, dtype: DType) -> Result<()> {
        let mut cell = lock(&self.0);
        if cell.dtype() == dtype {
            return Ok(());
        }
        *cell = converted(&cell, |x| x.to_dtype(dtype))?;
        Ok(())
    }
    /// Puts another tensor into the cell, whose history ends here; all who share the cell see it. Whether gradients are
    /// wanted stays as it is; a gradient that no longer fits is dropped.
    ///
    /// # Errors
    /// `Runtime` unless the dtype is floating point or complex.
    pub fn set_data(&self, x: Tensor) -> Result<()> {
        let mut cell = lock(&self.0);
        if !x.dtype().is_inexact() {
            return Err(Error::runtime("Only Tensors of floating point and complex dtype can require gradients"));
        }
        let x = if x.has_autograd() || x.is_view() { x.detach() } else { x };
        x.requires_grad_(cell.requires_grad())?;
        let fits = |g: &Tensor| g.dims() == x.dims() && g.dtype() == x.dtype() && g.device() == x.device();
        if let Some(g) = cell.grad().filter(fits) {
            x.set_grad(Some(g))?;
        }
        *cell = x;
        Ok(())
    }
    /// Chooses whether gradients are computed for it; they are at first.
    ///
    /// # Errors
    /// None for a cell whose tensor is a leaf, which it is unless it was changed in place.
    pub fn requires_grad_(&self, on: bool) -> Result<()> {
        self.tensor().requires_grad_(on).map(|_| ())
    }
    /// Another parameter with the same values.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn duplicate(&self) -> Result<Parameter> {
        let x = self.tensor();
        let p = Parameter::new(no_grad(|| x.detach().copy())?)?;
        p.requires_grad_(x.requires_grad())?;
        Ok(p)
    }
}

/// What becomes of a leaf and its gradient.
fn converted(x: &Tensor, convert: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let y = no_grad(|| convert(&x.detach()))?;
    y.requires_grad_(x.requires_grad())?;
    if let Some(g) = x.grad() {
        y.set_grad(Some(no_grad(|| convert(&g.detach()))?))?;
    }
    Ok(y)
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameter({:?})", self.tensor())
    }
}

/// A tensor that belongs to a module's state and is not trained, such as running statistics.
#[derive(Clone)]
pub struct Buffer(Cell);

impl Buffer {
    /// A buffer that holds `x`.
    pub fn new(x: Tensor) -> Buffer {
        Buffer(Arc::new(Mutex::new(x)))
    }
    /// The tensor in the cell now.
    pub fn tensor(&self) -> Tensor {
        lock(&self.0).clone()
    }
    /// Puts the tensor on a device.
    ///
    /// # Errors
    /// As [`Tensor::to_device`].
    pub fn to(&self, device: Device) -> Result<()> {
        let mut cell = lock(&self.0);
        *cell = no_grad(|| cell.to_device(device))?;
        Ok(())
    }
    /// Makes the tensor of another dtype.
    ///
    /// # Errors
    /// Out of memory.
    pub fn to_dtype(&self, dtype: DType) -> Result<()> {
        let mut cell = lock(&self.0);
        *cell = no_grad(|| cell.to_dtype(dtype))?;
        Ok(())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:?})", self.tensor())
    }
}

/// Whether a module that behaves differently in training is in training; it is at first.
#[derive(Debug)]
pub struct Training(AtomicBool);

impl Training {
    /// Whether the module is in training.
    pub fn get(&self) -> bool {
        self.0.load(Relaxed)
    }
    /// Chooses training or evaluation.
    pub fn set(&self, on: bool) {
        self.0.store(on, Relaxed);
    }
}

impl Default for Training {
    fn default() -> Training {
        Training(AtomicBool::new(true))
    }
}
