//! Custom kernels (`torch.tpu.stablehlo_op`, `torch.tpu.pallas`), and the choice of a kernel for each call.
//!
//! A [`CustomCall`] remembers the kernel for each set of shapes, dtypes and static arguments. Only a call with a new
//! set asks Python, so that a call costs about as much as one of an op of the table.

use crate::enter::{self, OrRaise};
use crate::{dtype, tensor_type, torch_function};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyString, PyTuple};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use torchtpu_lazy as lazy;
use torchtpu_lazy::mosaic::Cost;
use torchtpu_tensor::ops::inline::{Gradient, GradientInput, Kernel};
use torchtpu_tensor::{DType, Device, Dims, Meta, Tensor, inplace, state};

/// A kernel for one set of shapes.
#[pyclass(frozen, name = "_CustomKernel", module = "torch._C")]
struct CustomKernel(Arc<Kernel>);

/// Shape and dtype of each of some tensors.
type Described<'py> = Vec<(Bound<'py, PyTuple>, Bound<'py, PyAny>)>;

fn described<'py>(py: Python<'py>, of: &[(Dims, DType)]) -> PyResult<Described<'py>> {
    of.iter().map(|(dims, dt)| Ok((PyTuple::new(py, &dims[..])?, dtype::object(py, *dt).into_any()))).collect()
}

#[pymethods]
impl CustomKernel {
    #[new]
    #[pyo3(signature = (name, text, place = None))]
    fn new(py: Python<'_>, name: &str, text: &str, place: Option<String>) -> PyResult<CustomKernel> {
        let kernel = py.detach(|| Kernel::new(name, text)).or_raise()?;
        Ok(CustomKernel(Arc::new(kernel.with_place(place))))
    }

    /// The same kernel with a gradient. `inputs` are pairs of "input", "output" or "cotangent" and a number.
    fn with_gradient(
        &self,
        text: &str,
        place: Option<String>,
        visible: usize,
        gradient: &CustomKernel,
        inputs: Vec<(String, usize)>,
        results: Vec<Option<usize>>,
    ) -> PyResult<CustomKernel> {
        let input = |(kind, i): &(String, usize)| match kind.as_str() {
            "input" => Ok(GradientInput::Input(*i)),
            "output" => Ok(GradientInput::Output(*i)),
            "cotangent" => Ok(GradientInput::Cotangent(*i)),
            _ => Err(PyValueError::new_err(format!("a gradient takes no {kind:?}"))),
        };
        let inputs = inputs.iter().map(input).collect::<PyResult<_>>()?;
        let kernel = Kernel::new(self.0.name(), text).or_raise()?.with_place(place);
        let gradient = Gradient { kernel: gradient.0.clone(), inputs, results };
        Ok(CustomKernel(Arc::new(kernel.with_gradient(visible, gradient).or_raise()?)))
    }

    /// Shape and dtype of each argument.
    #[getter]
    fn args<'py>(&self, py: Python<'py>) -> PyResult<Described<'py>> {
        described(py, self.0.args())
    }

    /// Shape and dtype of each result.
    #[getter]
    fn results<'py>(&self, py: Python<'py>) -> PyResult<Described<'py>> {
        described(py, self.0.results())
    }
}

/// The key of the kernel that serves a call.
enum Item {
    /// Shape, dtype and kind of device of a tensor.
    Tensor(Meta),
    /// A static argument.
    Static(Py<PyAny>),
    /// The name of a keyword argument.
    Name(Py<PyAny>),
    /// A list, a tuple or a dictionary with this number of items.
    Open(u8, usize),
}

impl Item {
    fn fits(&self, py: Python<'_>, other: &Item) -> bool {
        match (self, other) {
            (Item::Tensor(a), Item::Tensor(b)) => a == b,
            (Item::Open(a, m), Item::Open(b, n)) => a == b && m == n,
            (Item::Static(a), Item::Static(b)) | (Item::Name(a), Item::Name(b)) => is_same(a.bind(py), b.bind(py)),
            _ => false,
        }
    }
}

/// Return whether two static arguments have the same type and value. Zeros of different signs differ, and a NaN is
/// itself.
fn is_same(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    if a.is(b) {
        return true;
    }
    if !a.get_type().is(b.get_type()) {
        return false;
    }
    match (a.cast_exact::<PyFloat>(), b.cast_exact::<PyFloat>()) {
        (Ok(a), Ok(b)) => a.value().to_bits() == b.value().to_bits(),
        _ => a.eq(b).unwrap_or(false),
    }
}

/// The container of the results.
enum Form {
    One,
    Tuple,
    List,
    /// A function that is called with the tuple of the results.
    Made(Py<PyAny>),
}

/// The kernel that serves a call.
enum Served {
    Kernel {
        kernel: Arc<Kernel>,
        /// The position of each argument among the call's tensors.
        order: SmallVec<[usize; 4]>,
        form: Form,
        /// Tensors of the call that are donated.
        donated: Vec<usize>,
    },
    /// A Python function, which is called with the arguments of the call.
    Function(Py<PyAny>),
}

struct Entry {
    key: Vec<Item>,
    needs_grad: bool,
    /// The number of the active plan, or 0: a kernel may be made for the machine of a plan.
    plan: u64,
    served: Served,
}

/// The callable of a custom operator.
///
/// Subclasses have a method `_resolve(args, kwargs, tensors, needs_grad)`, which is asked once for each set of shapes,
/// dtypes, kinds of device and static arguments. Tensors in `args` and `kwargs` are replaced by their numbers, as
/// instances of `_Place`. It returns a function that serves such calls, or `(kernel, order, form, donated)`.
#[pyclass(frozen, subclass, name = "_CustomCall", module = "torch._C")]
struct CustomCall {
    /// Kernels by hash. No Python code runs while they are locked, since it could wait for this lock in another thread.
    entries: Mutex<HashMap<u64, Vec<Arc<Entry>>>>,
}

/// The arguments of a call, flattened.
struct Call<'py> {
    key: SmallVec<[Item; 6]>,
    /// Its tensors.
    held: SmallVec<[Bound<'py, PyAny>; 4]>,
    hash: u64,
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

impl<'py> Call<'py> {
    fn put(&mut self, o: &Bound<'py, PyAny>) -> PyResult<()> {
        // SAFETY: the `Bound` keeps the object alive.
        if unsafe { tensor_type::is_tensor(o.as_ptr()) } {
            let t = tensor_type::extract(o).expect("a tensor");
            let meta = *t.meta();
            self.hash = meta.dims.iter().fold(mix(self.hash, meta.dtype as u64), |h, &d| mix(h, d as u64));
            self.hash = mix(self.hash, u64::from(meta.place.word()));
            self.key.push(Item::Tensor(meta));
            self.held.push(o.clone());
            return Ok(());
        }
        if let Ok(list) = o.cast_exact::<PyList>() {
            self.open(0, list.len());
            return list.iter().try_for_each(|o| self.put(&o));
        }
        if let Ok(tuple) = o.cast_exact::<PyTuple>() {
            self.open(1, tuple.len());
            return tuple.iter().try_for_each(|o| self.put(&o));
        }
        if let Ok(dict) = o.cast_exact::<PyDict>() {
            self.open(2, dict.len());
            return dict.iter().try_for_each(|(name, o)| {
                self.keep(&name, true)?;
                self.put(&o)
            });
        }
        self.keep(o, false)
    }

    fn open(&mut self, kind: u8, len: usize) {
        self.key.push(Item::Open(kind, len));
        self.hash = mix(self.hash, len as u64 | u64::from(kind) << 32);
    }

    fn keep(&mut self, o: &Bound<'py, PyAny>, is_name: bool) -> PyResult<()> {
        let hash = o.hash().map_err(|_| {
            let ty = o.get_type().name().map(|n| n.to_string()).unwrap_or_default();
            PyTypeError::new_err(format!(
                "arguments that are not tensors are static and must be hashable, but got a {ty}"
            ))
        })?;
        self.hash = mix(self.hash, hash as u64);
        let o = o.clone().unbind();
        self.key.push(if is_name { Item::Name(o) } else { Item::Static(o) });
        Ok(())
    }
}

#[pymethods]
impl CustomCall {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> CustomCall {
        CustomCall { entries: Mutex::default() }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // A collection may begin while this thread holds the lock. It then finds no garbage here.
        let Ok(entries) = self.entries.try_lock() else { return Ok(()) };
        for entry in entries.values().flatten() {
            for item in &entry.key {
                if let Item::Static(o) | Item::Name(o) = item {
                    visit.call(o)?;
                }
            }
            if let Served::Function(f) | Served::Kernel { form: Form::Made(f), .. } = &entry.served {
                visit.call(f)?;
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        self.clear();
    }

    /// Return the number of sets of shapes and static arguments that it has served.
    #[getter]
    fn known(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).values().map(Vec::len).sum()
    }

    /// Forget the kernels.
    fn clear(&self) {
        // Destructors run without the lock: they may call this operator.
        drop(std::mem::take(&mut *self.entries.lock().unwrap_or_else(PoisonError::into_inner)));
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let mut call = Call { key: SmallVec::new(), held: SmallVec::new(), hash: 0 };
        for o in args.iter() {
            call.put(&o)?;
        }
        if let Some(kwargs) = kwargs {
            for (name, o) in kwargs.iter() {
                call.keep(&name, true)?;
                call.put(&o)?;
            }
        }
        let held = &call.held;
        // SAFETY: each `Bound` keeps its object alive, and the GIL is held.
        if held.iter().any(|o| unsafe { !tensor_type::is_exact(o.as_ptr()) && torch_function::overrides(o.as_ptr()) }) {
            return torch_function::call(py, slf.as_any(), held, args, kwargs);
        }
        let tensors: SmallVec<[&Tensor; 4]> = held.iter().filter_map(|o| tensor_type::extract(o)).collect();
        let needs_grad = state::grad_enabled() && tensors.iter().any(|t| t.requires_grad());
        let plan = lazy::plan::number();
        let this = slf.get();
        let served = match this.find(py, &call, needs_grad, plan) {
            Some(served) => served,
            None => this.ask(slf, args, kwargs, &mut call.key, call.hash, held, needs_grad, plan)?,
        };
        match &served.served {
            Served::Function(f) => f.bind(py).call(args, kwargs),
            Served::Kernel { kernel, order, form, donated } => {
                let x: SmallVec<[&Tensor; 4]> = order.iter().map(|&i| tensors[i]).collect();
                // On the processor, and in modes where each op is a program, the call runs or compiles the kernel.
                let is_only_recorded =
                    x.iter().all(|t| !t.place().in_memory()) && lazy::eager_mode() == lazy::EagerMode::Fused;
                let y = if is_only_recorded {
                    kernel.call(&x)
                } else {
                    // Another thread may put other tensors into the objects.
                    let own: SmallVec<[Tensor; 4]> = x.iter().map(|&t| t.clone()).collect();
                    enter::without_gil(|| kernel.call(&own.iter().collect::<SmallVec<[&Tensor; 4]>>()))
                }
                .or_raise()?;
                for &i in donated {
                    give_away(tensors[i], kernel).or_raise()?;
                }
                let wrap = |t: Tensor| -> PyResult<Bound<'py, PyAny>> {
                    // SAFETY: a new reference, or null with an exception set.
                    unsafe { Bound::from_owned_ptr_or_err(py, tensor_type::wrap(t)) }
                };
                let mut y = y.into_iter();
                match form {
                    Form::One => wrap(y.next().expect("kernels have results")),
                    Form::List => Ok(PyList::new(py, y.map(wrap).collect::<PyResult<Vec<_>>>()?)?.into_any()),
                    Form::Tuple => Ok(PyTuple::new(py, y.map(wrap).collect::<PyResult<Vec<_>>>()?)?.into_any()),
                    Form::Made(f) => f.bind(py).call1((PyTuple::new(py, y.map(wrap).collect::<PyResult<Vec<_>>>()?)?,)),
                }
            }
        }
    }
}

/// Drop the value of a tensor that the caller donated. Only this call reads it then, so the device may take its memory.
fn give_away(x: &Tensor, kernel: &Kernel) -> torchtpu_tensor::Result<()> {
    let owns_value = x.place().is_tpu() && x.view_info().is_none();
    if !owns_value || x.requires_grad() {
        return Ok(());
    }
    let handle = lazy::lost_value(x.meta(), &format!("this tensor was donated to {} and has no data", kernel.name()));
    inplace::assign(x, &Tensor::from_device_value(x.meta(), handle))
}

impl CustomCall {
    fn find(&self, py: Python<'_>, call: &Call<'_>, needs_grad: bool, plan: u64) -> Option<Arc<Entry>> {
        let fits = |e: &&Arc<Entry>| e.needs_grad == needs_grad && e.plan == plan && e.key.len() == call.key.len();
        let alike: SmallVec<[Arc<Entry>; 2]> = {
            let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.get(&call.hash)?.iter().filter(fits).cloned().collect()
        };
        alike.into_iter().find(|e| e.key.iter().zip(&call.key).all(|(a, b)| a.fits(py, b)))
    }

    #[cold]
    #[allow(clippy::too_many_arguments)] // a call, taken apart
    fn ask<'py>(
        &self,
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        key: &mut SmallVec<[Item; 6]>,
        hash: u64,
        held: &[Bound<'py, PyAny>],
        needs_grad: bool,
        plan: u64,
    ) -> PyResult<Arc<Entry>> {
        let py = slf.py();
        let mut next = 0;
        let marked = marked(args.as_any(), &mut next)?;
        let named = PyDict::new(py);
        if let Some(kwargs) = kwargs {
            for (name, o) in kwargs.iter() {
                named.set_item(name, self::marked(&o, &mut next)?)?;
            }
        }
        let tensors = PyTuple::new(py, held)?;
        let found = slf.call_method1("_resolve", (marked, named, tensors, needs_grad))?;
        let served = if let Ok((kernel, order, form, donated)) =
            found.extract::<(Bound<'py, CustomKernel>, Vec<usize>, Bound<'py, PyAny>, Vec<usize>)>()
        {
            if order.iter().chain(&donated).any(|&i| i >= held.len()) {
                return Err(PyValueError::new_err(
                    "the order of the arguments has the number of a tensor that does not exist",
                ));
            }
            let form = match form.cast::<PyString>() {
                Ok(name) if name == "one" => Form::One,
                Ok(name) if name == "tuple" => Form::Tuple,
                Ok(name) if name == "list" => Form::List,
                _ => Form::Made(form.unbind()),
            };
            Served::Kernel { kernel: kernel.get().0.clone(), order: order.into(), form, donated }
        } else {
            Served::Function(found.unbind())
        };
        let entry = Arc::new(Entry { key: std::mem::take(key).into_vec(), needs_grad, plan, served });
        let ended: Vec<Arc<Entry>>;
        {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let known = entries.entry(hash).or_default();
            // Plans that have ended do not become active again.
            (*known, ended) = std::mem::take(known).into_iter().partition(|e| e.plan == 0 || e.plan == plan);
            known.push(entry.clone());
        }
        drop(ended);
        Ok(entry)
    }
}

/// A tensor of a call: its number.
#[pyclass(frozen, get_all, name = "_Place", module = "torch._C")]
struct Place {
    index: usize,
}

/// The same arguments, with places instead of tensors.
fn marked<'py>(o: &Bound<'py, PyAny>, next: &mut usize) -> PyResult<Bound<'py, PyAny>> {
    let py = o.py();
    if tensor_type::extract(o).is_some() {
        *next += 1;
        return Ok(Bound::new(py, Place { index: *next - 1 })?.into_any());
    }
    if let Ok(list) = o.cast_exact::<PyList>() {
        let items = list.iter().map(|o| marked(&o, next)).collect::<PyResult<Vec<_>>>()?;
        return Ok(PyList::new(py, items)?.into_any());
    }
    if let Ok(tuple) = o.cast_exact::<PyTuple>() {
        let items = tuple.iter().map(|o| marked(&o, next)).collect::<PyResult<Vec<_>>>()?;
        return Ok(PyTuple::new(py, items)?.into_any());
    }
    if let Ok(dict) = o.cast_exact::<PyDict>() {
        let made = PyDict::new(py);
        for (name, o) in dict.iter() {
            made.set_item(name, marked(&o, next)?)?;
        }
        return Ok(made.into_any());
    }
    Ok(o.clone())
}

/// Return the StableHLO module that calls a Mosaic program. `cost` is flops, transcendentals and bytes.
#[pyfunction]
fn _mosaic_module(
    name: &str,
    body: &str,
    args: Vec<(Vec<usize>, Bound<'_, dtype::PyDType>)>,
    results: Vec<(Vec<usize>, Bound<'_, dtype::PyDType>)>,
    cost: Option<(u64, u64, u64)>,
) -> PyResult<String> {
    let typed = |of: Vec<(Vec<usize>, Bound<'_, dtype::PyDType>)>| {
        of.iter()
            .map(|(dims, dtype)| Ok(Meta::new(dims, dtype.get().served()?, Device::CPU).ty()))
            .collect::<PyResult<Vec<_>>>()
    };
    let cost = cost.map(|(flops, transcendentals, bytes_accessed)| Cost { flops, transcendentals, bytes_accessed });
    Ok(lazy::mosaic::module(name, body, &typed(args)?, &typed(results)?, cost))
}

/// Return the platform that kernels are made for: `tpu`, `cpu`, or the plugin's name of its platform.
#[pyfunction]
fn _custom_platform(py: Python<'_>) -> PyResult<String> {
    py.detach(lazy::platform).map_err(enter::exception)
}

/// Return a module's text without source locations.
#[pyfunction]
fn _without_locations(py: Python<'_>, text: &str) -> PyResult<String> {
    py.detach(|| lazy::without_locations(text)).or_raise()
}

/// Return the kernel that [`_custom_store`] kept for this key.
#[pyfunction]
fn _custom_load(py: Python<'_>, made: &str) -> Option<Vec<u8>> {
    py.detach(|| lazy::load_kernel(made))
}

/// Write a compiled kernel to the disk cache.
#[pyfunction]
fn _custom_store(py: Python<'_>, made: &str, kernel: &[u8]) {
    py.detach(|| lazy::store_kernel(made, kernel));
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<CustomKernel>()?;
    m.add_class::<CustomCall>()?;
    m.add_class::<Place>()?;
    m.add_function(wrap_pyfunction!(_custom_platform, m)?)?;
    m.add_function(wrap_pyfunction!(_mosaic_module, m)?)?;
    m.add_function(wrap_pyfunction!(_without_locations, m)?)?;
    m.add_function(wrap_pyfunction!(_custom_load, m)?)?;
    m.add_function(wrap_pyfunction!(_custom_store, m)?)?;
    Ok(())
}
