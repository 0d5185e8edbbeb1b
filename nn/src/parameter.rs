//! Parameters and buffers: cells that hold a module's tensors.

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
    /// Make a parameter with the values of `x` and without its history.
    ///
    /// # Errors
    /// Fails with `Runtime` unless the dtype is floating point.
    pub fn new(x: Tensor) -> Result<Parameter> {
        let x = if x.has_autograd() || x.is_view() { x.detach() } else { x };
        x.requires_grad_(true)?;
        Ok(Parameter(Arc::new(Mutex::new(x))))
    }
    /// Return the current tensor.
    pub fn tensor(&self) -> Tensor {
        lock(&self.0).clone()
    }
    /// Return the gradient.
    pub fn grad(&self) -> Option<Tensor> {
        self.tensor().grad()
    }
    /// Whether both are the same cell, not only cells of equal values.
    pub fn is_same(&self, other: &Parameter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// Return a number that identifies the parameter while it lives.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// Move the tensor and its gradient to a device. All holders of the cell see the change.
    ///
    /// # Errors
    /// Fails like [`Tensor::to_device`].
    pub fn to(&self, device: Device) -> Result<()> {
        let mut cell = lock(&self.0);
        if cell.place() == device.into() {
            return Ok(());
        }
        *cell = converted(&cell, |x| x.to_device(device))?;
        Ok(())
    }
    /// Convert the tensor and its gradient to a dtype. All holders of the cell see the change.
    ///
    /// # Errors
    /// Fails with `Runtime` unless the dtype is floating point or complex.
    pub fn to_dtype(&self, dtype: DType) -> Result<()> {
        let mut cell = lock(&self.0);
        if cell.dtype() == dtype {
            return Ok(());
        }
        *cell = converted(&cell, |x| x.to_dtype(dtype))?;
        Ok(())
    }
    /// Replace the tensor, without the history of `x`. All holders of the cell see the change. The parameter keeps its
    /// `requires_grad`, and drops a gradient that no longer fits.
    ///
    /// # Errors
    /// Fails with `Runtime` unless the dtype is floating point or complex.
    pub fn set_data(&self, x: Tensor) -> Result<()> {
        let mut cell = lock(&self.0);
        if !x.dtype().is_inexact() {
            return Err(Error::runtime("Only Tensors of floating point and complex dtype can require gradients"));
        }
        let x = if x.has_autograd() || x.is_view() { x.detach() } else { x };
        x.take_over(&cell)?;
        let fits = |g: &Tensor| g.dims() == x.dims() && g.dtype() == x.dtype() && g.place() == x.place();
        if !x.grad().is_none_or(|g| fits(&g)) {
            x.set_grad(None)?;
        }
        *cell = x;
        Ok(())
    }
    /// Choose whether the parameter requires a gradient. Initially it does.
    ///
    /// # Errors
    /// Fails if the tensor is not a leaf, because it was changed in place.
    pub fn requires_grad_(&self, on: bool) -> Result<()> {
        self.tensor().requires_grad_(on).map(|_| ())
    }
    /// Return another parameter with the same values.
    ///
    /// # Errors
    /// Fails if memory runs out.
    pub(crate) fn duplicate(&self) -> Result<Parameter> {
        let x = self.tensor();
        let p = Parameter::new(no_grad(|| x.detach().copy())?)?;
        p.requires_grad_(x.requires_grad())?;
        Ok(p)
    }
}

/// Convert a leaf and its gradient.
fn converted(x: &Tensor, convert: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let y = no_grad(|| convert(&x.detach()))?;
    // A graph that was made before leads to the same leaf, so its gradients arrive.
    y.take_over(x)?;
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
    /// Make a buffer that holds `x`.
    pub fn new(x: Tensor) -> Buffer {
        Buffer(Arc::new(Mutex::new(x)))
    }
    /// Return the current tensor.
    pub fn tensor(&self) -> Tensor {
        lock(&self.0).clone()
    }
    /// Move the tensor to a device.
    ///
    /// # Errors
    /// Fails like [`Tensor::to_device`].
    pub fn to(&self, device: Device) -> Result<()> {
        let mut cell = lock(&self.0);
        *cell = no_grad(|| cell.to_device(device))?;
        Ok(())
    }
    /// Convert the tensor to a dtype.
    ///
    /// # Errors
    /// Fails if memory runs out.
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

/// The switch between training and evaluation of a module. Initially it is in training.
#[derive(Debug)]
pub struct Training(AtomicBool);

impl Training {
    /// Whether the module is in training.
    pub fn get(&self) -> bool {
        self.0.load(Relaxed)
    }
    /// Choose training or evaluation.
    pub fn set(&self, on: bool) {
        self.0.store(on, Relaxed);
    }
}

impl Default for Training {
    fn default() -> Training {
        Training(AtomicBool::new(true))
    }
}
