//! The interface of a device. `torchtpu-lazy` implements it for `tpu`, and `torchtpu-distributed` for meshes of
//! processes; this crate only names it.

use crate::op::Prim;
use crate::ops::inline::Kernel;
use crate::{DType, Device, DeviceKind, Error, Meta, Result, Tensor};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

/// An input of a recorded op.
pub enum Operand<'a> {
    /// A value of the device. The reference is borrowed for the call.
    Value(u64),
    /// A 0-d tensor on the host: a number that becomes an argument of the program, not a constant.
    Number {
        /// The bytes, zero extended.
        bits: u128,
        /// The description, on `cpu`.
        meta: &'a Meta,
        /// The identity of a number that several ops [share](SharedNumbers); 0 for other numbers.
        shared: u64,
    },
}

/// Values of a device, named by handles with reference counts of their own.
pub trait Backend: Sync + Send {
    /// Record one op and write a handle for each output to `handles`, which is as long as `y`.
    ///
    /// # Errors
    /// The errors of the device, in modes that execute at once.
    fn record(&self, op: &Prim, x: &[Operand<'_>], y: &[Meta], handles: &mut [u64]) -> Result<()>;
    /// Add a reference.
    fn retain(&self, handle: u64);
    /// Remove a reference.
    fn release(&self, handle: u64);
    /// Return the value that a tensor with the value `old` has after `new` is written over it, and add a reference to
    /// it. The default is `new`.
    ///
    /// With `is_update`, the tensor is a parameter, or state that outlives the batch ([`Tensor::mark_state`],
    /// [`updating`]). If `new` depends on a [check](Backend::defer_check) that failed, the tensor keeps its value. An
    /// optimizer's step has the same effect.
    ///
    /// # Errors
    /// The errors of computing it.
    fn overwrite(&self, _old: u64, new: u64, _is_update: bool) -> Result<u64> {
        self.retain(new);
        Ok(new)
    }
    /// Return `x`, which has one element on the device of the parts of `mesh`, as a tensor of the mesh that each
    /// process has whole. It is differentiable. Only the backend behind meshes has such tensors.
    ///
    /// # Errors
    /// `Runtime` without such a mesh.
    fn replicated(&self, _x: &Tensor, mesh: Device) -> Result<Tensor> {
        Err(Error::runtime(format!("{mesh} is not the device of a mesh")))
    }
    /// Return the value `y`, sharded where the value `x` is, and add a reference to it. The default is `y`.
    ///
    /// # Errors
    /// The errors of computing it.
    fn placed_like(&self, _x: u64, y: u64) -> Result<u64> {
        self.retain(y);
        Ok(y)
    }
    /// Return the device of the same mesh with parts on another device.
    ///
    /// # Errors
    /// `NotImplemented` by default.
    fn mesh_on(&self, mesh: Device, local: Device) -> Result<Device> {
        Err(Error::not_implemented(format!("{mesh} with parts on {local}")))
    }
    /// Wait for a value and copy its bytes, row major, to the host.
    ///
    /// # Errors
    /// The errors of computing the value.
    fn read(&self, handle: u64, out: &mut [u8]) -> Result<()>;
    /// Copy row-major bytes to the device.
    ///
    /// # Errors
    /// When there is no device, or not enough memory on it.
    fn upload(&self, meta: &Meta, bytes: &[u8]) -> Result<u64>;
    /// Check a 0-d `int64` value later. Unless it is [`ALL_WELL`], `error` makes an error from it. The reference is
    /// borrowed for the call.
    ///
    /// Return whether the check has not passed yet. Then the backend ties the result of the next
    /// [`Copy`](crate::ops::convert::Copy) of this thread to the check. The error belongs to this result and to all
    /// values that are computed from it: each read of one raises it.
    ///
    /// Only values show that an index is out of range. A deferred check reports it without a wait at every indexing op.
    /// The default reads the value at once.
    ///
    /// # Errors
    /// The error of the check in a mode that executes at once, or the errors of computing the value.
    fn defer_check(&self, handle: u64, error: DeferredError) -> Result<bool> {
        let mut found = [0u8; 8];
        self.read(handle, &mut found)?;
        match i64::from_ne_bytes(found) {
            ALL_WELL => Ok(false),
            wrong => Err(error(wrong)),
        }
    }
    /// Whether its programs may call the kernels of device `cpu` ([`crate::lower::kernel_call`]).
    fn calls_kernels(&self) -> bool {
        false
    }
    /// Whether its programs are compiled for an accelerator instead of XLA:CPU.
    fn is_accelerator(&self) -> bool {
        false
    }
    /// Whether ops are recorded and compiled, and never run.
    fn is_planned(&self) -> bool {
        false
    }
    /// Return whether this thread has read values of a planned device, which are made up, and forget it.
    fn take_made_up(&self) -> bool {
        false
    }
    /// Return the number of rows to assume where a value that is made up decides it, at most `most`, and note that the
    /// user's line made a size up.
    fn assume_rows(&self, _most: usize) -> usize {
        0
    }
    /// Note that views of one tensor are made from now on, which together cover it, or that they have been made. See
    /// [`taking_apart`].
    fn takes_apart(&self, _begins: bool) {}
    /// Whether other processes had to take part in computing the value of a view.
    fn is_exchanged(&self, _handle: u64) -> bool {
        false
    }
    /// Whether a view should be computed anew wherever it is read. That costs nothing if ops are compiled together.
    fn remakes_views(&self) -> bool {
        false
    }
    /// Hint that the optimiser with the identity `optimizer` begins its step, and whether the tensors that it fills
    /// with numbers may be its state. The default does nothing.
    fn step_begins(&self, _optimizer: u64, _makes_state: bool) {}
    /// Return whether a value may depend on a check that has not passed. Then an optimizer calls
    /// [`Backend::step_reads`] with its gradients. The default is `false`.
    fn has_checks(&self) -> bool {
        false
    }
    /// Note the gradients that an optimizer's step reads. If one of them turns out to depend on a check that failed,
    /// the step writes nothing. The default does nothing.
    ///
    /// # Errors
    /// The error of a check that is known to have failed. The optimizer must not update anything then.
    fn step_reads(&self, _gradients: &[u64]) -> Result<()> {
        Ok(())
    }
    /// Hint that a training step ends here. Optimisers call it. The default does nothing.
    fn step_boundary(&self) {}
    /// Raise the error of a step that wrote nothing because a check failed, unless it was raised already. The default
    /// does nothing.
    ///
    /// # Errors
    /// That error.
    fn step_errors(&self) -> Result<()> {
        Ok(())
    }
    /// Launch the recorded ops of all threads that recorded a collective, without waiting. The process is about to wait
    /// for another one, which may need these collectives. The default does nothing.
    fn launch_collectives(&self) {}
    /// Launch the recorded collectives, and wait until all have run. Errors stay with the values. The default does
    /// nothing.
    fn finish_collectives(&self) {}
    /// Run a custom kernel on XLA:CPU, for device `cpu`. It takes the row-major bytes of its arguments and returns
    /// those of its results.
    ///
    /// # Errors
    /// When there is no such compiler; the errors of the compiler.
    fn run_kernel(&self, kernel: &Arc<Kernel>, _x: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        Err(Error::not_implemented(format!("{} on device cpu", kernel.name())))
    }
    /// Number of devices behind the name.
    ///
    /// # Errors
    /// When no plugin can be loaded.
    fn device_count(&self) -> Result<usize>;
}

thread_local! {
    static IS_UPDATING: Cell<bool> = const { Cell::new(false) };
    static IS_SHOWING: Cell<bool> = const { Cell::new(false) };
    static IS_DEFERRING: Cell<bool> = const { Cell::new(false) };
}

/// Set a flag of this thread until dropped.
struct Flag(&'static std::thread::LocalKey<Cell<bool>>, bool);

impl Flag {
    fn set(flag: &'static std::thread::LocalKey<Cell<bool>>) -> Flag {
        Flag(flag, flag.replace(true))
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Run `f`, which writes state that outlives the batch, such as running statistics. See [`Backend::overwrite`].
pub fn updating<R>(f: impl FnOnce() -> R) -> R {
    let _flag = Flag::set(&IS_UPDATING);
    f()
}

/// Whether this thread is in [`updating`].
pub(crate) fn is_updating() -> bool {
    IS_UPDATING.get()
}

/// Run `f`, which reads values to show them. An error that it shows counts as not raised yet.
pub fn showing<R>(f: impl FnOnce() -> R) -> R {
    let _flag = Flag::set(&IS_SHOWING);
    f()
}

/// Whether this thread is in [`showing`].
pub fn is_showing() -> bool {
    IS_SHOWING.get()
}

/// Run `f`, whose views of sharded tensors are computed when they are read. Elsewhere they are computed when they are
/// made, since their collectives must run on all processes at the same call.
pub(crate) fn deferring_views<R>(f: impl FnOnce() -> R) -> R {
    let _flag = Flag::set(&IS_DEFERRING);
    f()
}

/// Whether this thread is in [`deferring_views`].
pub(crate) fn is_deferring_views() -> bool {
    IS_DEFERRING.get()
}

/// Run `f`, which makes views of a tensor on `device` that together cover it. A sharded tensor is redistributed once
/// for all of them.
///
/// # Errors
/// Those of `f`.
pub(crate) fn taking_apart<R>(device: Device, f: impl FnOnce() -> Result<R>) -> Result<R> {
    struct Ends(&'static dyn Backend);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.takes_apart(false);
        }
    }
    if device.kind != DeviceKind::Mesh {
        return f();
    }
    let backend = mesh()?;
    backend.takes_apart(true);
    let _ends = Ends(backend);
    f()
}

/// Function that makes the error of a deferred check from the value that failed it.
pub type DeferredError = Box<dyn FnOnce(i64) -> Error + Send + Sync>;

/// The value of a deferred check that found no error. It is smaller than every index that is checked.
pub const ALL_WELL: i64 = i64::MIN;

static BACKEND: OnceLock<&'static dyn Backend> = OnceLock::new();

/// Install the backend behind `tpu`. The first one stays.
pub fn install(backend: &'static dyn Backend) {
    let _ = BACKEND.set(backend);
}

static MESH_BACKEND: OnceLock<&'static dyn Backend> = OnceLock::new();
/// The devices of the parts of each mesh, by the ordinal of the mesh.
static MESHES: Mutex<Vec<Device>> = Mutex::new(Vec::new());

/// Bit of the handles of the backend behind meshes. Other backends have no handle with this bit.
pub const MESH_VALUE: u64 = 1 << 63;

/// Install the backend behind meshes. The first one stays.
pub fn install_mesh(backend: &'static dyn Backend) {
    let _ = MESH_BACKEND.set(backend);
}

/// Return a new device for a mesh of processes whose parts are on `local`.
///
/// # Errors
/// `Runtime` after 256 meshes.
pub fn add_mesh(local: Device) -> Result<Device> {
    let mut meshes = MESHES.lock().unwrap_or_else(|e| e.into_inner());
    let Ok(index) = u8::try_from(meshes.len()) else {
        return Err(Error::runtime("a process can have at most 256 meshes with sharded tensors"));
    };
    meshes.push(local);
    Ok(Device { kind: DeviceKind::Mesh, index })
}

/// The device of the parts, if `device` is a mesh, else the device itself.
pub fn local(device: Device) -> Device {
    if device.kind != DeviceKind::Mesh {
        return device;
    }
    let meshes = MESHES.lock().unwrap_or_else(|e| e.into_inner());
    meshes.get(usize::from(device.index)).copied().unwrap_or(device)
}

/// The backend behind a device that has one.
///
/// # Errors
/// `Runtime` if the program was built without it.
#[inline]
pub fn of(device: Device) -> Result<&'static dyn Backend> {
    if device.kind == DeviceKind::Mesh { mesh() } else { get() }
}

#[cold]
fn mesh() -> Result<&'static dyn Backend> {
    let found = MESH_BACKEND.get().copied();
    found.ok_or_else(|| Error::runtime("no backend for meshes of processes is linked into this program"))
}

/// The backend behind `tpu`.
///
/// # Errors
/// `Runtime` if the program was built without one.
#[inline]
pub fn get() -> Result<&'static dyn Backend> {
    match BACKEND.get() {
        Some(b) => Ok(*b),
        None => Err(Error::runtime("no backend for device type tpu is linked into this program")),
    }
}

/// Whether programs of `device` are compiled for an accelerator. Ops whose form on accelerators is another one call
/// this when they are recorded.
pub(crate) fn is_accelerator(device: Device) -> bool {
    device.kind == DeviceKind::Tpu && get().is_ok_and(|b| b.is_accelerator())
}

/// Copy a tensor to the host. Also return the backend if it made the values up, because its device is planned.
///
/// # Errors
/// The errors of computing the value.
pub(crate) fn fetch(x: &Tensor) -> Result<(Tensor, Option<&'static dyn Backend>)> {
    let planned = match local(x.device()).kind {
        DeviceKind::Tpu => get().ok().filter(|b| b.is_planned()),
        _ => None,
    };
    if let Some(backend) = planned {
        backend.take_made_up();
    }
    let host = x.detach().to_device(Device::CPU)?;
    Ok((host, planned.filter(|b| b.take_made_up())))
}

/// Copy a tensor to the host for an op whose result has as many rows as the values say. On a planned device, a share of
/// `most` rows is assumed, and `stand_in` makes values that give so many.
///
/// # Errors
/// The errors of computing the value, those of `stand_in`.
pub(crate) fn fetch_sizes(x: &Tensor, most: usize, stand_in: impl FnOnce(usize) -> Result<Tensor>) -> Result<Tensor> {
    match fetch(x)? {
        (host, None) => Ok(host),
        (_, Some(backend)) => stand_in(backend.assume_rows(most)),
    }
}

/// Refuse a device that this process does not have.
///
/// # Errors
/// `Runtime` if it is another `tpu` device than [`Device::TPU`].
pub(crate) fn check_exists(device: Device) -> Result<()> {
    if device.kind == DeviceKind::Tpu && device.index != 0 {
        return Err(crate::local::absent(device.number()));
    }
    Ok(())
}

/// Remove a reference, if there is a backend.
pub(crate) fn release(handle: u64) {
    let backend = if handle & MESH_VALUE == 0 { &BACKEND } else { &MESH_BACKEND };
    if let Some(b) = backend.get() {
        b.release(handle);
    }
}

/// Numbers that several ops read, such as the learning rate that one call gives to all parameters. A program has each
/// of them once.
///
/// Equal numbers from different places are not shared. They may differ in the next step, which would then be another
/// program.
pub struct SharedNumbers {
    made: RefCell<Vec<(Origin, Tensor)>>,
}

/// The place that a number comes from, and the key that it is made from.
type Origin = (u32, u64, DType);

thread_local! {
    /// Addresses of the shared numbers, and their identities.
    static SHARED: RefCell<Vec<(usize, u64)>> = const { RefCell::new(Vec::new()) };
    /// Shared numbers that were made again for another device. See [`number`].
    static REMADE: RefCell<Vec<(u64, Tensor)>> = const { RefCell::new(Vec::new()) };
    static IS_SHARING: Cell<bool> = const { Cell::new(false) };
}
static NEXT_NAME: AtomicU64 = AtomicU64::new(1);

impl SharedNumbers {
    /// Share numbers until the result is dropped. A thread can have one such guard at a time.
    pub fn begin() -> SharedNumbers {
        IS_SHARING.set(true);
        SharedNumbers { made: RefCell::default() }
    }

    /// The number of `place` and `key`. `make` makes it the first time.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn get(&self, place: u32, key: f64, dtype: DType, make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
        let name = (place, key.to_bits(), dtype);
        if let Some((_, number)) = self.made.borrow().iter().find(|(n, _)| *n == name) {
            return Ok(number.clone());
        }
        let number = make()?;
        SHARED.with_borrow_mut(|s| s.push((number.address(), NEXT_NAME.fetch_add(1, Relaxed))));
        self.made.borrow_mut().push((name, number.clone()));
        Ok(number)
    }
}

impl Drop for SharedNumbers {
    fn drop(&mut self) {
        SHARED.with_borrow_mut(Vec::clear);
        REMADE.with_borrow_mut(Vec::clear);
        IS_SHARING.set(false);
    }
}

/// Return `y`, sharded where `x` is. A new tensor like `x` and the gradient of a leaf are placed so.
///
/// # Errors
/// The errors of computing it.
#[inline]
pub fn placed_like(x: &Tensor, y: Tensor) -> Result<Tensor> {
    if y.device().kind != DeviceKind::Mesh || x.device().kind != DeviceKind::Mesh {
        return Ok(y);
    }
    let (like, value) = (x.device_value()?, y.device_value()?);
    let kept = mesh()?.placed_like(like, value)?;
    let placed = Tensor::from_device_value(y.meta(), kept);
    Ok(if kept == value { y } else { placed })
}

/// Return the operands with those of one element replicated, if others are sharded; `None` unless there are both. As in
/// PyTorch, such an operand need not be made a sharded tensor by the caller.
///
/// # Errors
/// The error of a warning, those of [`Backend::replicated`].
pub(crate) fn replicated(x: &[&Tensor]) -> Result<Option<Vec<Tensor>>> {
    let Some(device) = x.iter().map(|t| t.device()).find(|d| d.kind == DeviceKind::Mesh) else { return Ok(None) };
    let parts = local(device);
    let is_plain = |t: &Tensor| t.device() == parts && t.numel() == 1;
    if !x.iter().any(|t| is_plain(t)) {
        return Ok(None);
    }
    let one = |t: &&Tensor| -> Result<Tensor> {
        if !is_plain(t) {
            return Ok((*t).clone());
        }
        if t.dims().len() == 1 {
            crate::warning::warn(
                "Found a non-scalar tensor with numel=1 and ndim!=0, we are implicitly creating a replicated DTensor \
                 for it. However, please consider changing it to a scalar tensor or explicitly create a DTensor under \
                 distributed environment.",
            )?;
        }
        mesh()?.replicated(t, device)
    };
    x.iter().map(one).collect::<Result<_>>().map(Some)
}

/// Return the device of a new tensor like `x`. The device of a sharded tensor is given as that of its parts.
///
/// # Errors
/// Those of [`Backend::mesh_on`].
pub(crate) fn device_like(x: &Tensor, given: Option<Device>) -> Result<Device> {
    match given {
        None => Ok(x.device()),
        Some(d) if x.device().kind != DeviceKind::Mesh || d.kind == DeviceKind::Mesh => Ok(d),
        Some(d) if d == local(x.device()) => Ok(x.device()),
        Some(d) => mesh()?.mesh_on(x.device(), d),
    }
}

/// Return the tensor of an [`Operand::Number`], for a backend that calls ops of another one. It keeps the identity.
///
/// # Errors
/// `OutOfMemory`.
pub fn number(bits: u128, meta: &Meta, shared: u64) -> Result<Tensor> {
    let make = || Tensor::from_bytes(&bits.to_le_bytes()[..meta.dtype.size_bytes()], &meta.dims, meta.dtype);
    if shared == 0 {
        return make();
    }
    if let Some(known) = REMADE.with_borrow(|r| r.iter().find(|(name, _)| *name == shared).map(|(_, x)| x.clone())) {
        return Ok(known);
    }
    let made = make()?;
    SHARED.with_borrow_mut(|s| s.push((made.address(), shared)));
    REMADE.with_borrow_mut(|r| r.push((shared, made.clone())));
    Ok(made)
}

/// The identity of a shared number; 0 for other numbers.
#[inline]
fn shared_name(x: &Tensor) -> u64 {
    if !IS_SHARING.get() {
        return 0;
    }
    SHARED.with_borrow(|s| s.iter().find(|(address, _)| *address == x.address()).map_or(0, |(_, name)| *name))
}

/// Record an op with one output and return its handle.
#[inline]
pub(crate) fn record_one(op: &Prim, x: &[Operand<'_>], y: &Meta) -> Result<u64> {
    let mut handle = [0];
    of(y.device)?.record(op, x, std::slice::from_ref(y), &mut handle)?;
    Ok(handle[0])
}

/// The backend operand for a tensor.
#[inline]
pub(crate) fn operand(x: &Tensor) -> Result<Operand<'_>> {
    match x.scalar_bits() {
        Some(bits) => Ok(Operand::Number { bits, meta: x.meta(), shared: shared_name(x) }),
        None => Ok(Operand::Value(x.device_value()?)),
    }
}
