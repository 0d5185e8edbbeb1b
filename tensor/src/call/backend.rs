//! The interfaces of representations, and of the backend behind `tpu`.
//!
//! A [`Representation`] holds values that only it can read, and names them by handles. Dense tensors on `tpu` are
//! values of a [`Backend`], which `torchtpu-lazy` implements. `torchtpu-distributed` implements the representation of
//! sharded tensors. This crate has the table of them ([`of`]).

use crate::op::Prim;
use crate::ops::inline::Kernel;
use crate::{DType, Device, DeviceKind, Error, Meta, Place, Rep, Result, Tensor};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use torchtpu_stablehlo::Profile;

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

/// What needs elements that are not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Absence {
    /// An op whose result is a Python value. The text is its overload.
    Value(&'static str),
    /// An op whose result has a size that elements decide. The text is its overload.
    Size(&'static str),
}

impl Absence {
    /// Reading one element.
    pub const ITEM: Absence = Absence::Value("_local_scalar_dense.default");
}

/// A representation of tensors: values that only it can read, named by handles with reference counts of their own.
///
/// Dispatch knows a tensor by its sizes, dtype and [`Place`], so shape checks, history, views, in-place forms and
/// `out=` are the same for all representations.
///
/// A representation [with handles](crate::Held::Handle) implements [`record`](Representation::record),
/// [`retain`](Representation::retain), [`release`](Representation::release), [`read`](Representation::read) and
/// [`upload`](Representation::upload). They are not called for [abstract](crate::Held::Abstract) tensors.
pub trait Representation: Sync + Send {
    /// Record one op and write a handle for each output to `handles`, which is as long as `y`.
    ///
    /// # Errors
    /// The errors of the device, in modes that execute at once.
    fn record(&self, op: &Prim, _x: &[Operand<'_>], _y: &[Meta], _handles: &mut [u64]) -> Result<()> {
        Err(Error::not_implemented(format!("{}: the representation has no values", op.name())))
    }
    /// Add a reference.
    fn retain(&self, _handle: u64) {}
    /// Remove a reference.
    fn release(&self, _handle: u64) {}
    /// Return the value that a tensor with the value `old` has after `new` is written over it, and add a reference to
    /// it. The default is `new`.
    ///
    /// With `is_update`, the tensor is a parameter, or state that outlives the batch ([`Tensor::mark_state`],
    /// [`updating`]). If `new` depends on a [check](Representation::defer_check) that failed, the tensor keeps its
    /// value. An optimizer's step has the same effect.
    ///
    /// # Errors
    /// The errors of computing it.
    fn overwrite(&self, _old: u64, new: u64, _is_update: bool) -> Result<u64> {
        self.retain(new);
        Ok(new)
    }
    /// Return the error for operands of this representation beside those of another place, `other`.
    fn mixed(&self, own: Place, other: Place) -> Error {
        Error::runtime(format!("{}{own} and {other}!", crate::block::OTHER_DEVICE))
    }
    /// Return `x`, a dense tensor on the device of `place`, as a tensor of `place`. It is differentiable. `None`, the
    /// default, if the representation does not take it as an operand.
    ///
    /// # Errors
    /// Those of making it.
    fn adopt(&self, _x: &Tensor, _place: Place) -> Result<Option<Tensor>> {
        Ok(None)
    }
    /// Return the value `y`, laid out as the value `x` is, and add a reference to it. A sharded value is sharded where
    /// `x` is. The default is `y`.
    ///
    /// # Errors
    /// The errors of computing it.
    fn placed_like(&self, _x: u64, y: u64) -> Result<u64> {
        self.retain(y);
        Ok(y)
    }
    /// Return the place of tensors like those of `place` on another device. The default is the dense one.
    ///
    /// # Errors
    /// When there can be none.
    fn moved(&self, _place: Place, device: Device) -> Result<Place> {
        Ok(device.into())
    }
    /// Wait for a value and copy its bytes, row major, to the host.
    ///
    /// # Errors
    /// The errors of computing the value.
    fn read(&self, _handle: u64, _out: &mut [u8]) -> Result<()> {
        Err(self.absent(Absence::ITEM))
    }
    /// Copy row-major bytes to the device.
    ///
    /// # Errors
    /// When there is no device, or not enough memory on it.
    fn upload(&self, meta: &Meta, _bytes: &[u8]) -> Result<u64> {
        Err(Error::not_implemented(format!("a copy to {:?}: the representation has no values", meta.place)))
    }
    /// Return the error for elements that a representation without values lacks.
    fn absent(&self, _why: Absence) -> Error {
        Error::not_implemented("Cannot copy out of meta tensor; no data!")
    }
    /// Check a 0-d `int64` value later. Unless it is [`ALL_WELL`], `error` makes an error from it. The reference is
    /// borrowed for the call.
    ///
    /// Return whether the check has not passed yet. Then the representation ties the result of the next
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
    /// Whether the value of a view is computed when the view is made. Else it is computed when it is read.
    fn computes_views_at_once(&self) -> bool {
        false
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
    /// Return whether a value may depend on a check that has not passed. Then an optimizer calls
    /// [`Backend::step_reads`] with its gradients. The default is `false`.
    fn has_checks(&self) -> bool {
        false
    }
}

/// The representation of dense tensors on `tpu`, and its compiler.
pub trait Backend: Representation {
    /// Return the capabilities of the platform that its programs are compiled for.
    fn profile(&self) -> &'static Profile;
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
    /// Hint that the optimiser with the identity `optimizer` begins its step, and whether the tensors that it fills
    /// with numbers may be its state. The default does nothing.
    fn step_begins(&self, _optimizer: u64, _makes_state: bool) {}
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

/// Run `f`, which writes state that outlives the batch, such as running statistics. See [`Representation::overwrite`].
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

/// Run `f`, which makes views of a tensor at `place` that together cover it. A sharded tensor is redistributed once
/// for all of them.
///
/// # Errors
/// Those of `f`.
pub(crate) fn taking_apart<R>(place: Place, f: impl FnOnce() -> Result<R>) -> Result<R> {
    struct Ends(&'static dyn Representation);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.takes_apart(false);
        }
    }
    if place.is_dense() || !place.has_handle() {
        return f();
    }
    let representation = of(place)?;
    representation.takes_apart(true);
    let _ends = Ends(representation);
    f()
}

/// Function that makes the error of a deferred check from the value that failed it.
pub type DeferredError = Box<dyn FnOnce(i64) -> Error + Send + Sync>;

/// The value of a deferred check that found no error. It is smaller than every index that is checked.
pub const ALL_WELL: i64 = i64::MIN;

static BACKEND: OnceLock<&'static dyn Backend> = OnceLock::new();

/// Install the backend behind `tpu`. The first one stays.
pub fn install(backend: &'static dyn Backend) {
    if BACKEND.set(backend).is_ok() {
        install_representation(Rep::Dense, backend);
    }
}

/// The table of representations. Its order is that of [`Rep`].
static REPRESENTATIONS: [OnceLock<&'static dyn Representation>; Rep::ALL.len()] =
    [const { OnceLock::new() }; Rep::ALL.len()];

/// Install a representation that another crate implements. The first one stays.
pub fn install_representation(rep: Rep, representation: &'static dyn Representation) {
    let _ = REPRESENTATIONS[rep as usize].set(representation);
}

/// The representation of tensors at a place that are named by handles.
///
/// # Errors
/// `Runtime` if the program was built without it.
#[inline]
pub fn of(place: Place) -> Result<&'static dyn Representation> {
    match REPRESENTATIONS[place.rep as usize].get() {
        Some(found) => Ok(*found),
        None => Err(absent(place.rep)),
    }
}

#[cold]
fn absent(rep: Rep) -> Error {
    match rep {
        Rep::Dense => Error::runtime("no backend for device type tpu is linked into this program"),
        rep => Error::runtime(format!("no representation of {} tensors is linked into this program", rep.name())),
    }
}

/// Return the error for operands of two places.
#[cold]
pub(crate) fn mixed(a: Place, b: Place) -> Error {
    let (own, other) = if a.is_dense() { (b, a) } else { (a, b) };
    match of(own) {
        Ok(representation) if !own.is_dense() => representation.mixed(own, other),
        _ => Error::runtime(format!("{}{a} and {b}!", crate::block::OTHER_DEVICE)),
    }
}

/// Return the error for elements that `x`, an abstract tensor, lacks. `on_meta` is that of a dense `meta` tensor.
#[cold]
pub fn absent_elements(x: &Tensor, why: Absence, on_meta: impl FnOnce() -> Error) -> Error {
    match of(x.place()) {
        Ok(representation) if !x.place().is_dense() => representation.absent(why),
        _ => on_meta(),
    }
}

/// Return the place of a tensor like `x` on another device.
///
/// # Errors
/// Those of [`Representation::moved`].
pub fn moved(x: &Tensor, device: Device) -> Result<Place> {
    let own = x.place();
    if own.is_dense() { Ok(device.into()) } else { of(own)?.moved(own, device) }
}

/// Whether views of tensors at a place are computed when they are made.
#[inline]
pub(crate) fn computes_views_at_once(place: Place) -> bool {
    !place.is_dense() && place.has_handle() && of(place).is_ok_and(|r| r.computes_views_at_once())
}

/// The backend behind `tpu`.
///
/// # Errors
/// `Runtime` if the program was built without one.
#[inline]
pub fn get() -> Result<&'static dyn Backend> {
    match BACKEND.get() {
        Some(b) => Ok(*b),
        None => Err(absent(Rep::Dense)),
    }
}

/// Return the capabilities of the platform that computes dense tensors at `place`. Kernels of device `cpu` have those
/// of XLA:CPU. Ops whose form depends on them call this when they are recorded.
pub(crate) fn profile(place: Place) -> &'static Profile {
    match place.is_tpu() {
        true => get().map_or(&Profile::XLA_CPU, |b| b.profile()),
        false => &Profile::XLA_CPU,
    }
}

/// Copy a tensor to the host. Also return the backend if it made the values up, because its device is planned.
///
/// # Errors
/// The errors of computing the value.
pub(crate) fn fetch(x: &Tensor) -> Result<(Tensor, Option<&'static dyn Backend>)> {
    let planned = match x.device().kind {
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

/// Remove a reference, if the representation is there.
pub(crate) fn release(handle: u64) {
    if let Some(representation) = REPRESENTATIONS[Rep::index_of(handle)].get() {
        representation.release(handle);
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

/// Return `y`, laid out as `x` if both are of one representation that is not dense. A new tensor like `x` and the
/// gradient of a leaf are placed so.
///
/// # Errors
/// The errors of computing it.
#[inline]
pub fn placed_like(x: &Tensor, y: Tensor) -> Result<Tensor> {
    let place = y.place();
    if place.is_dense() || x.place().rep != place.rep || !place.has_handle() {
        return Ok(y);
    }
    let (like, value) = (x.device_value()?, y.device_value()?);
    let kept = of(place)?.placed_like(like, value)?;
    let placed = Tensor::from_device_value(y.meta(), kept);
    Ok(if kept == value { y } else { placed })
}

/// Return the operands, with dense ones made operands of the representation of the others if it
/// [takes them](Representation::adopt); `None` if nothing changes.
///
/// # Errors
/// The error of a warning, those of [`Representation::adopt`].
pub(crate) fn adopted(x: &[&Tensor]) -> Result<Option<Vec<Tensor>>> {
    let Some(place) = x.iter().map(|t| t.place()).find(|p| !p.is_dense()) else { return Ok(None) };
    let is_dense = |t: &Tensor| t.place() == Place::dense(place.device);
    let mut changed = false;
    let mut all = Vec::with_capacity(x.len());
    for t in x {
        let new = if is_dense(t) { of(place)?.adopt(t, place)? } else { None };
        changed |= new.is_some();
        all.push(new.unwrap_or_else(|| (*t).clone()));
    }
    Ok(changed.then_some(all))
}

/// Return the place of a new tensor like `x`, on the device `given` if there is one.
///
/// # Errors
/// Those of [`Representation::moved`].
pub(crate) fn place_like(x: &Tensor, given: Option<Place>) -> Result<Place> {
    let own = x.place();
    match given {
        None => Ok(own),
        Some(p) if own.is_dense() || !p.is_dense() => Ok(p),
        Some(p) if p.device == own.device => Ok(own),
        Some(p) => of(own)?.moved(own, p.device),
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
    of(y.place)?.record(op, x, std::slice::from_ref(y), &mut handle)?;
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
