//! `__torch_dispatch__`: modes below autograd, and classes of tensors that compute by themselves.
//!
//! A call reaches them at one of two places. A row of the op table is offered by its name and with the user's
//! arguments ([`serve`]). An op that Rust calls by itself, such as a part of a gradient formula, is offered as the aten
//! call that computes it ([`torchtpu_tensor::aten`]). In both cases the Python side chooses who answers
//! (`_torch_dispatch.py`).
//!
//! An object of a class with `__torch_dispatch__` holds a [foreign](torchtpu_tensor::foreign) tensor. The value behind
//! its handle is the class and the attributes of the object, so that a tensor which only Rust has kept, such as one
//! saved for backward, gives an object with the same attributes.

use crate::arguments::{Call, Form, Overload, Parsed};
use crate::enter::{self, Failure, OrRaise, Outcome};
use crate::objects::{self, number_object};
use crate::tensor_type::{self, extract, tensor_of, tensor_type, to_python};
use crate::{device, dtype};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use torchtpu_tensor::aten::{self, Value};
use torchtpu_tensor::backend::{self, Absence, DeferredError, Representation};
use torchtpu_tensor::foreign::{self, Interceptor};
use torchtpu_tensor::ops::Prim;
use torchtpu_tensor::schema::{Arg, Args, Ret};
use torchtpu_tensor::{Dims, Error, Meta, Rep, Scalar, Tensor, dispatch, fake, random, state};

/// Modes in all threads, and one more once there was a foreign tensor. While it is 0, calls pay one load.
static REASONS: AtomicUsize = AtomicUsize::new(0);

/// Whether `torch.library` has put kernels in the places of aten's.
static IS_OVERRIDDEN: AtomicBool = AtomicBool::new(false);

/// The functions of `_torch_dispatch.py`: the answers to calls of rows, of ops, and of operators.
static ANSWERS: OnceLock<[Py<PyAny>; 3]> = OnceLock::new();

thread_local! {
    /// The modes that this thread has entered, with the innermost last.
    static MODES: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
    /// Whether no call of this thread is offered to anyone.
    static DISABLED: Cell<bool> = const { Cell::new(false) };
    /// The values that stand for operands without history, which a row may write.
    static WRITABLE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// The parts of a call on tensors without values, while they are looked at.
    static PROBE: RefCell<Option<Vec<Part>>> = const { RefCell::new(None) };
}

/// An op of a row, its operands and its results.
type Part = (Prim, Vec<Tensor>, Vec<Tensor>);

fn watch(on: bool) {
    let before = if on { REASONS.fetch_add(1, Relaxed) } else { REASONS.fetch_sub(1, Relaxed) };
    foreign::watch(on);
    if (before == 0) == on {
        tensor_type::note_dispatch(on);
    }
}

/// Return whether a thread has a mode, or there was a foreign tensor.
#[inline(always)]
pub fn is_watched() -> bool {
    REASONS.load(Relaxed) != 0
}

fn has_mode() -> bool {
    !DISABLED.get() && MODES.with_borrow(|m| !m.is_empty())
}

/// Return whether a call on `o` is offered to a mode, or to its class.
///
/// # Safety
/// `o` is an object; the GIL is held.
#[inline]
pub unsafe fn takes_over(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object, and the GIL is held.
    let is_answered =
        || unsafe { tensor_type::is_tensor(o) && (IS_OVERRIDDEN.load(Relaxed) || foreign::is_foreign(tensor_of(o))) };
    is_watched() && !DISABLED.get() && (has_mode() || is_answered())
}

fn tensors<'a>(args: &Args<'a>) -> Vec<&'a Tensor> {
    let mut found = Vec::new();
    for a in args.0 {
        match a {
            Arg::Tensor(t) => found.push(*t),
            Arg::Tensors(list) => found.extend(list.iter().flatten()),
            _ => {}
        }
    }
    found
}

// ---- calls of rows

/// Offer a call of a row. `None` if it is an ordinary call.
#[cold]
#[inline(never)]
pub fn serve(o: &'static Overload, call: &Call, parsed: &Parsed) -> Outcome<Option<*mut PyObject>> {
    let args = Args(parsed.args());
    let operands = tensors(&args);
    let is_foreign = operands.iter().any(|t| foreign::is_foreign(t));
    if DISABLED.get() || !(is_foreign || has_mode() || IS_OVERRIDDEN.load(Relaxed)) {
        return Ok(None);
    }
    let name = o.row.schema.split('(').next().unwrap_or_default();
    let needs_grad = state::grad_enabled() && operands.iter().any(|t| t.requires_grad());
    Python::attach(|py| {
        let [rows, ..] = answers()?;
        let (_, positional, keywords) = crate::table::bound_call(py, call)?;
        let in_place = o.form == Form::InPlace;
        let ask = |stage: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            let y = rows.bind(py).call1((name, in_place, stage, &positional, &keywords))?;
            Ok((!y.is(py.NotImplemented())).then_some(y))
        };
        // The library writes results over tensors with history by `copy_`.
        let writes = in_place || name.split('.').next().is_some_and(|name| name.ends_with('_'));
        if is_foreign && !has_mode() && needs_grad && writes {
            return Ok(None);
        }
        if !is_foreign || has_mode() || !needs_grad || !parsed.out.is_null() {
            return Ok(ask("any")?.map(Bound::into_ptr));
        }
        // Autograd and the class see the parts of a composition.
        if let Some(y) = ask("composition")? {
            return Ok(Some(y.into_ptr()));
        }
        // The class gets a call by its name if backward needs its operands and results only, else the parts.
        let Some(history) = history_of(o, &args)? else { return Ok(None) };
        let Some(y) = state::no_grad(|| ask("operator"))? else { return Ok(None) };
        let plain = |t: &Tensor| if t.has_autograd() { t.shallow_alias() } else { Ok(t.clone()) };
        let y: Vec<Tensor> = results(&y)?.iter().map(plain).collect::<Result<_, _>>()?;
        if y.len() != history.results.len() {
            return Ok(None);
        }
        history.record(&y)?;
        let objects = y.into_iter().map(|t| to_python(py, t)).collect::<PyResult<Vec<_>>>()?;
        Ok(Some(match <[Bound<'_, PyAny>; 1]>::try_from(objects) {
            Ok([one]) => one.into_ptr(),
            Err(many) => PyTuple::new(py, many)?.into_ptr(),
        }))
    })
}

/// The history of a call, before its results are known.
struct History {
    /// The operands.
    originals: Vec<Tensor>,
    /// The tensors without values in their places.
    twins: Vec<Tensor>,
    parts: Vec<Part>,
    /// The results of the call on them.
    results: Vec<Tensor>,
}

impl History {
    /// Record the history of the results `y`. A value between the parts is computed if backward reads it; else only its
    /// place in the graph is needed.
    fn record(&self, y: &[Tensor]) -> torchtpu_tensor::Result<()> {
        let known = |t: &Tensor, list: &[Tensor]| list.iter().position(|f| f.is_same(t));
        let is_read = self.parts_read();
        let mut between: Vec<(Tensor, Tensor)> = Vec::new();
        for (part, is_read) in self.parts.iter().zip(is_read) {
            let (op, operands, results) = part;
            let has_history = has_history(part);
            let x: Vec<Tensor> = operands
                .iter()
                .map(|t| match (known(t, &self.twins), between.iter().find(|(f, _)| f.is_same(t))) {
                    (Some(i), _) => self.originals[i].clone(),
                    (None, Some((_, value))) => value.clone(),
                    (None, None) => t.clone(),
                })
                .collect();
            let x: Vec<&Tensor> = x.iter().collect();
            if is_read {
                let values = called(op, &x)?;
                between.extend(results.iter().cloned().zip(values));
                continue;
            }
            let made = |t: &Tensor| known(t, &self.results).map_or_else(|| stand_in(t), |i| y[i].clone());
            let made: Vec<Tensor> = results.iter().map(made).collect();
            between.extend(results.iter().cloned().zip(made.iter().cloned()));
            if has_history {
                foreign::record(op.clone(), &x, &made)?;
            }
        }
        Ok(())
    }
    /// For each part, whether backward, or another part that is computed, reads a result that is no result of the row.
    fn parts_read(&self) -> Vec<bool> {
        let mut read: Vec<&Tensor> = Vec::new();
        for (op, x, y) in self.parts.iter().filter(|part| has_history(part)) {
            let saves = op.saves(u64::MAX);
            read.extend(x.iter().enumerate().filter(|(i, _)| saves.x >> i & 1 == 1).map(|(_, t)| t));
            read.extend(y.iter().enumerate().filter(|(i, _)| saves.y >> i & 1 == 1).map(|(_, t)| t));
        }
        let mut found = vec![false; self.parts.len()];
        for (i, (_, x, y)) in self.parts.iter().enumerate().rev() {
            let is_result = |t: &Tensor| self.results.iter().any(|r| r.is_same(t));
            found[i] = y.iter().any(|t| !is_result(t) && read.iter().any(|r| r.is_same(t)));
            if found[i] {
                read.extend(x);
            }
        }
        found
    }
    /// Return whether the history follows from the parts: each operand and result is known, and no part that makes a
    /// result is computed again.
    fn is_complete(&self) -> bool {
        let is_in = |t: &Tensor, list: &[Tensor]| list.iter().any(|other| other.is_same(t));
        let is_known = |t: &Tensor, before: usize| {
            is_in(t, &self.twins) || !is_stand_in(t) || self.parts[..before].iter().any(|(_, _, y)| is_in(t, y))
        };
        let operands = self.parts.iter().enumerate().all(|(i, (_, x, _))| x.iter().all(|t| is_known(t, i)));
        let results = self.results.iter().all(|t| is_known(t, self.parts.len()) && !is_in(t, &self.twins));
        let remade = self.parts_read();
        let remakes =
            self.parts.iter().zip(remade).any(|((_, _, y), read)| read && y.iter().any(|t| is_in(t, &self.results)));
        operands && results && !remakes && self.results.iter().all(is_stand_in)
    }
}

/// Return whether backward goes through a part. It does not through those of a block without gradients.
fn has_history((_, _, y): &Part) -> bool {
    y.iter().any(Tensor::requires_grad)
}

/// The least number of a value that stands for an operand.
const TWINS: u64 = 1 << 48;

/// A tensor in the place of a foreign one, with a device, sizes and strides, and without an object.
fn stand_in(t: &Tensor) -> Tensor {
    numbered(t, 0)
}

fn numbered(t: &Tensor, id: u64) -> Tensor {
    foreign::of_value(t.meta(), *t.strides(), Rep::Foreign.handle(id))
}

/// Return whether a tensor is one of [`stand_in`], or stands for an operand.
fn is_stand_in(t: &Tensor) -> bool {
    let without_object = |handle| Rep::id(handle) == 0 || Rep::id(handle) >= TWINS;
    foreign::is_foreign(t) && t.device_value().is_ok_and(without_object)
}

/// Call an op on tensors without values, and note it as a part of the row that is looked at.
fn note_part(mut parts: Vec<Part>, op: &Prim, x: &[&Tensor]) -> torchtpu_tensor::Result<torchtpu_tensor::op::Outs> {
    let fakes: Vec<Tensor> = x.iter().map(|t| fake::of(t)).collect::<Result<_, _>>()?;
    let y = called(op, &fakes.iter().collect::<Vec<_>>());
    let y = y.map(|y| y.iter().map(stand_in).collect::<torchtpu_tensor::op::Outs>());
    if let Ok(y) = &y {
        parts.push((op.clone(), x.iter().map(|t| (*t).clone()).collect(), y.iter().cloned().collect()));
    }
    PROBE.set(Some(parts));
    y
}

/// Call an op, or make a view.
fn called(op: &Prim, x: &[&Tensor]) -> torchtpu_tensor::Result<torchtpu_tensor::op::Outs> {
    match (op.is_view(), x) {
        (true, [one]) => dispatch::call_view(op.clone(), one).map(|y| [y].into_iter().collect()),
        _ => dispatch::call_n(op.clone(), x),
    }
}

/// Return the history of a row's call, if backward needs its operands and results only.
fn history_of(o: &Overload, args: &Args<'_>) -> Outcome<Option<History>> {
    let originals: Vec<Tensor> = tensors(args).into_iter().cloned().collect();
    let mut twins = Vec::with_capacity(originals.len());
    let mut writable = Vec::new();
    for (i, t) in originals.iter().enumerate() {
        let twin = numbered(t, TWINS + i as u64);
        if t.requires_grad() {
            twin.requires_grad_(true)?;
        } else {
            // The call by name writes it, such as running statistics.
            writable.push(Rep::Foreign.handle(TWINS + i as u64));
        }
        twins.push(twin);
    }
    WRITABLE.set(writable);
    let mut next = twins.iter();
    let mut twin = |t: &Option<Tensor>| t.as_ref().and_then(|_| next.next().cloned());
    let lists: Vec<Vec<Option<Tensor>>> = args
        .0
        .iter()
        .map(|a| match a {
            Arg::Tensor(t) => vec![twin(&Some((*t).clone()))],
            Arg::Tensors(list) => list.iter().map(&mut twin).collect(),
            _ => Vec::new(),
        })
        .collect();
    let values: Vec<Arg<'_>> = args
        .0
        .iter()
        .zip(&lists)
        .map(|(a, list)| match (a, &list[..]) {
            (Arg::Tensor(_), [Some(t)]) => Arg::Tensor(t),
            (Arg::Tensors(_), list) => Arg::Tensors(list),
            (a, _) => *a,
        })
        .collect();
    let generator = random::default_generator(originals[0].device());
    let before = generator.snapshot();
    PROBE.set(Some(Vec::new()));
    let r = (o.row.call)(&Args(&values));
    let Some(parts) = PROBE.take() else { return Ok(None) };
    if !before.is_same(&generator.snapshot()) {
        // Another call would draw other numbers than those that the history has.
        generator.restore(&before)?;
        return Ok(None);
    }
    let results = match r {
        Ok(Ret::Tensor(y)) => vec![y],
        Ok(Ret::Tuple(v) | Ret::List(v)) => v,
        // The call itself fails in the same way.
        _ => return Ok(None),
    };
    let history = History { originals, twins, parts, results };
    Ok(history.is_complete().then_some(history))
}

/// Return the tensors of an answer.
fn results(y: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    if let Some(t) = extract(y) {
        return Ok(vec![t.clone()]);
    }
    if y.is_instance_of::<PyTuple>() || y.is_instance_of::<PyList>() {
        let items = y.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        if let Some(found) = items.iter().map(|t| extract(t).cloned()).collect::<Option<Vec<_>>>() {
            return Ok(found);
        }
    }
    Err(PyTypeError::new_err(format!(
        "Unable to cast Python instance of type {} to C++ type 'at::Tensor'",
        y.get_type()
    )))
}

/// Offer an operator, or an index.
///
/// # Errors
/// Those of the code that answers.
#[cold]
pub fn operator(name: &str, operands: &[*mut PyObject]) -> Outcome {
    Python::attach(|py| {
        let [_, _, operators] = answers()?;
        // SAFETY: the caller holds the objects.
        let operands = operands.iter().map(|o| unsafe { Bound::<PyAny>::from_borrowed_ptr(py, *o) });
        let args = PyTuple::new(py, operands.collect::<Vec<_>>())?;
        Ok(operators.bind(py).call1((name, args))?.into_ptr())
    })
}

/// Offer the reading of the only element of a tensor. `None` if it is read as always.
///
/// # Errors
/// Those of the code that answers.
#[cold]
pub fn item(x: &Tensor) -> Outcome<Option<Scalar>> {
    if DISABLED.get() || !(has_mode() || foreign::is_foreign(x)) {
        return Ok(None);
    }
    Python::attach(|py| {
        let [_, _, operators] = answers()?;
        let args = PyTuple::new(py, [to_python(py, x.clone())?])?;
        let y = operators.bind(py).call1(("item", args))?;
        // SAFETY: the `Bound` keeps the object alive.
        let number = unsafe { objects::number(y.as_ptr()) };
        number.map(Some).ok_or_else(|| {
            PyTypeError::new_err(format!("_local_scalar_dense must return a number, not {}", y.get_type())).into()
        })
    })
}

/// Run `f` with calls that are offered to nobody, such as those that show the elements of a tensor.
pub fn unseen<R>(f: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            DISABLED.set(self.0);
        }
    }
    let _before = Before(DISABLED.replace(true));
    f()
}

/// Offer a tensor that was made of a user's numbers.
///
/// # Errors
/// Those of the code that answers.
#[cold]
pub fn made(y: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if !has_mode() {
        return Ok(y);
    }
    let py = y.py();
    let [_, _, operators] = answers().map_err(|f| enter::take(py, f))?;
    operators.bind(py).call1(("tensor", PyTuple::new(py, [y])?))
}

/// The functions that answer calls.
fn answers() -> Outcome<&'static [Py<PyAny>; 3]> {
    match ANSWERS.get() {
        Some(answers) => Ok(answers),
        None => Err(PyRuntimeError::new_err("torch.utils._python_dispatch is not loaded").into()),
    }
}

// ---- calls of ops

struct Binding;

impl Interceptor for Binding {
    fn wants(&self, x: &[&Tensor]) -> bool {
        has_mode() || x.iter().any(|t| foreign::is_foreign(t))
    }

    fn call(&self, op: &Prim, x: &[&Tensor]) -> torchtpu_tensor::Result<Option<torchtpu_tensor::op::Outs>> {
        if let Some(parts) = PROBE.take() {
            return note_part(parts, op, x).map(Some);
        }
        if DISABLED.get() {
            let x: Vec<Tensor> = x.iter().map(|t| inner(t)).collect::<Result<_, _>>()?;
            return dispatch::call_n(op.clone(), &x.iter().collect::<Vec<_>>()).map(Some);
        }
        let call = aten::call(op, x);
        if call.is_none() && op.is_fused() && !aten::is_whole(op) && !foreign::is_own_part(op) {
            return Ok(None);
        }
        Python::attach(|py| answer(py, op, x, call).map(Some)).map_err(library_error)
    }

    fn ones_like(&self, x: &Tensor) -> torchtpu_tensor::Result<Tensor> {
        Python::attach(|py| {
            let [_, ops, _] = answers()?;
            let args = PyTuple::new(py, [to_python(py, x.clone())?])?;
            let kwargs = PyDict::new(py);
            kwargs.set_item("pin_memory", false)?;
            kwargs.set_item("memory_format", py.import("pytpu._C")?.getattr("preserve_format")?)?;
            let y = ops.bind(py).call1(("ones_like.default", args, kwargs))?;
            results(&y)?.pop().ok_or_else(|| PyTypeError::new_err("ones_like returned no tensor").into())
        })
        .map_err(library_error)
    }
}

/// Return an error of this library for one of a call from it.
fn library_error(f: Failure) -> Error {
    match f {
        Failure::Error(e) => e,
        f => Python::attach(|py| enter::callback_error(enter::take(py, f))),
    }
}

fn answer(py: Python<'_>, op: &Prim, x: &[&Tensor], call: Option<aten::Call>) -> Outcome<torchtpu_tensor::op::Outs> {
    let [_, ops, _] = answers()?;
    let operands = x.iter().map(|t| to_python(py, (*t).clone())).collect::<PyResult<Vec<_>>>()?;
    let kwargs = PyDict::new(py);
    let (name, args) = match call {
        Some(call) => {
            let args = call.args.iter().map(|v| object(py, v, &operands)).collect::<PyResult<Vec<_>>>()?;
            for (k, v) in &call.keywords {
                kwargs.set_item(k, object(py, v, &operands)?)?;
            }
            (PyString::new(py, &call.name).into_any(), args)
        }
        None => (Bound::new(py, PyPrim(op.clone()))?.into_any(), operands),
    };
    let y = ops.bind(py).call1((name, PyTuple::new(py, args)?, kwargs))?;
    let y = results(&y)?;
    if y.len() < op.outs() {
        return Err(PyRuntimeError::new_err(format!(
            "{}: {} results of __torch_dispatch__ where {} were expected",
            op.name(),
            y.len(),
            op.outs()
        ))
        .into());
    }
    Ok(y.into_iter().take(op.outs()).collect())
}

fn object<'py>(py: Python<'py>, v: &Value, operands: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    Ok(match v {
        Value::None => py.None().into_bound(py),
        Value::Operand(i) => operands[*i].clone(),
        Value::Rest(from) => PyList::new(py, &operands[*from..])?.into_any(),
        // SAFETY: a new reference.
        Value::Number(s) => unsafe { Bound::from_owned_ptr_or_err(py, number_object(*s))? },
        Value::Ints(v) => PyList::new(py, v)?.into_any(),
        Value::Bools(v) => PyList::new(py, v)?.into_any(),
        Value::DType(d) => dtype::object(py, *d).into_any(),
        Value::Text(t) => t.into_pyobject(py)?.into_any(),
    })
}

/// An op of this library that no aten operator computes, for those who must answer its call.
#[pyclass(name = "_Prim", module = "pytpu._C", frozen)]
struct PyPrim(Prim);

#[pymethods]
impl PyPrim {
    /// The name.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }
    /// Compute the results.
    #[pyo3(signature = (*operands))]
    fn __call__<'py>(&self, operands: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = operands.py();
        let x = results(operands)?;
        let x: Vec<&Tensor> = x.iter().collect();
        let y = called(&self.0, &x).or_raise()?;
        let y = y.into_iter().map(|t| to_python(py, t)).collect::<PyResult<Vec<_>>>()?;
        Ok(match <[Bound<'py, PyAny>; 1]>::try_from(y) {
            Ok([one]) => one,
            Err(many) => PyTuple::new(py, many)?.into_any(),
        })
    }
}

// ---- values of foreign tensors

/// The object that a foreign tensor stands for.
struct Entry {
    count: usize,
    class: Py<PyType>,
    attributes: Py<PyDict>,
    /// The elements, if the class has them: `_make_subclass`.
    inner: Option<Tensor>,
    meta: Meta,
    strides: Dims,
}

static ENTRIES: Mutex<Option<HashMap<u64, Entry>>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);

struct Entries(MutexGuard<'static, Option<HashMap<u64, Entry>>>);

impl Entries {
    fn lock() -> Entries {
        Entries(ENTRIES.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn of(&mut self, handle: u64) -> Option<&mut Entry> {
        self.0.as_mut()?.get_mut(&Rep::id(handle))
    }
}

/// The representation of foreign tensors.
struct Foreign;

impl Representation for Foreign {
    fn retain(&self, handle: u64) {
        if let Some(entry) = Entries::lock().of(handle) {
            entry.count += 1;
        }
    }
    fn overwrite(&self, old: u64, new: u64, _: bool) -> torchtpu_tensor::Result<u64> {
        if Rep::id(old) == 0 || Rep::id(old) >= TWINS {
            if WRITABLE.with_borrow(|all| all.contains(&old)) {
                return Ok(old);
            }
            // The history of a row that writes over its parts does not follow from them.
            PROBE.set(None);
            return Ok(new);
        }
        // The object may be a view of others, which its class knows.
        let of = |handle: u64| {
            let (meta, strides) = Entries::lock().of(handle).map(|entry| (entry.meta, entry.strides))?;
            self.retain(handle);
            Some(foreign::of_value(&meta, strides, handle))
        };
        let (Some(target), Some(value)) = (of(old), of(new)) else { return Err(self.absent(Absence::ITEM)) };
        state::no_grad(|| {
            Python::attach(|py| {
                let [_, ops, _] = answers()?;
                let values = PyTuple::new(py, [to_python(py, target)?, to_python(py, value)?])?;
                ops.bind(py).call1(("copy_.default", values, PyDict::new(py)))?;
                Ok(())
            })
            .map_err(library_error)
        })?;
        self.retain(old);
        Ok(old)
    }
    fn release(&self, handle: u64) {
        let mut entries = Entries::lock();
        let Some(entry) = entries.of(handle) else { return };
        entry.count -= 1;
        if entry.count > 0 {
            return;
        }
        let gone = entries.0.as_mut().and_then(|all| all.remove(&Rep::id(handle)));
        // Dropping attributes may run code that makes or drops foreign tensors.
        drop(entries);
        Python::attach(|_| drop(gone));
    }
    fn mixed(&self, own: torchtpu_tensor::Place, other: torchtpu_tensor::Place) -> Error {
        let text = "Expected all tensors to be on the same device, but found at least two devices, ";
        Error::runtime(format!("{text}{} and {}!", own.device, other.device))
    }
    fn read(&self, handle: u64, out: &mut [u8]) -> torchtpu_tensor::Result<()> {
        let held = Entries::lock().of(handle).and_then(|entry| entry.inner.clone());
        let Some(inner) = held else { return Err(self.absent(Absence::ITEM)) };
        out.copy_from_slice(&inner.to_bytes()?);
        Ok(())
    }
    fn defer_check(&self, _: u64, _: DeferredError) -> torchtpu_tensor::Result<bool> {
        // The class computes with the values that it wraps, whose operators check them.
        Ok(false)
    }
    fn absent(&self, _: Absence) -> Error {
        Error::runtime(
            "Attempted to access the data pointer of a tensor that wraps others, and has no elements of its own",
        )
    }
}

/// Return the tensor that holds the elements of a foreign tensor, or a tensor that is not foreign itself.
fn inner(t: &Tensor) -> torchtpu_tensor::Result<Tensor> {
    if !foreign::is_foreign(t) {
        return Ok(t.clone());
    }
    let handle = t.device_value()?;
    let held = Entries::lock().of(handle).and_then(|entry| entry.inner.clone());
    held.ok_or_else(|| Foreign.absent(Absence::ITEM))
}

/// Return the answer of a row that is called while calls are offered to nobody, on the elements that tensors hold.
#[cold]
#[inline(never)]
pub fn unwrapped(args: &Args<'_>) -> Outcome<Option<Vec<Option<Tensor>>>> {
    if !DISABLED.get() || !tensors(args).iter().any(|t| foreign::is_foreign(t)) {
        return Ok(None);
    }
    let held = args.0.iter().map(|a| match a {
        Arg::Tensor(t) => inner(t).map(Some),
        _ => Ok(None),
    });
    Ok(Some(held.collect::<Result<_, _>>()?))
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| backend::install_representation(Rep::Foreign, &Foreign));
    static SEEN: AtomicBool = AtomicBool::new(false);
    if !SEEN.swap(true, Relaxed) {
        watch(true);
    }
}

/// Make the object of a foreign tensor.
fn new_object<'py>(
    class: &Bound<'py, PyType>,
    meta: &Meta,
    strides: &[usize],
    inner: Option<Tensor>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    install();
    let id = NEXT.fetch_add(1, Relaxed);
    let attributes = PyDict::new(py);
    let strides = Dims::try_new(strides).or_raise()?;
    let (class, attributes) = (class.clone().unbind(), attributes.unbind());
    let entry = Entry { count: 1, class, attributes, inner, meta: *meta, strides };
    Entries::lock().0.get_or_insert_default().insert(id, entry);
    let t = foreign::of_value(meta, strides, Rep::Foreign.handle(id));
    to_python(py, t)
}

/// Make the object of a foreign tensor that has none. A new reference, or null with an exception set.
pub fn wrap(t: Tensor) -> *mut PyObject {
    let entry = t.device_value().ok().and_then(|handle| {
        let mut entries = Entries::lock();
        let entry = entries.of(handle)?;
        Some(Python::attach(|py| (entry.class.clone_ref(py), entry.attributes.clone_ref(py))))
    });
    let Some((class, attributes)) = entry else {
        // SAFETY: the GIL is held, and the text is valid.
        unsafe { PyErr_SetString(PyExc_RuntimeError, c"the tensor wraps no object".as_ptr()) };
        return std::ptr::null_mut();
    };
    // SAFETY: `_make_wrapper_subclass` and `_make_subclass` have checked the class. The object takes the reference to
    // the attributes over.
    unsafe {
        let o = tensor_type::wrap_as(class.as_ptr().cast(), t).unwrap_or(std::ptr::null_mut());
        if !o.is_null() {
            tensor_type::share_dict(o, attributes.into_ptr());
        }
        o
    }
}

/// Return whether a class has its own `__torch_dispatch__`.
pub fn is_dispatching(class: &Bound<'_, PyType>) -> bool {
    let Ok(own) = class.getattr("__torch_dispatch__") else { return false };
    // SAFETY: the type object lives forever, and the GIL is held.
    let base = unsafe { Bound::<PyAny>::from_borrowed_ptr(class.py(), tensor_type().cast()) };
    base.getattr("__torch_dispatch__").is_ok_and(|disabled| !own.is(&disabled))
}

/// Return the object of a class with `__torch_dispatch__` that holds the elements of `data`.
pub fn subclass<'py>(class: &Bound<'py, PyType>, data: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let o = new_object(class, data.meta(), data.strides(), Some(data.detach()))?;
    if data.requires_grad()
        && let Some(t) = extract(&o)
    {
        t.requires_grad_(true).or_raise()?;
    }
    Ok(o)
}

// ---- the functions for Python

/// Return an object of a class that wraps other tensors: sizes, strides, dtype and device, without elements.
#[pyfunction]
#[pyo3(signature = (class, size, strides, dtype, device, requires_grad))]
fn _wrapper_subclass<'py>(
    class: &Bound<'py, PyType>,
    size: Vec<usize>,
    strides: Option<Vec<usize>>,
    dtype: &Bound<'py, PyAny>,
    device: &Bound<'py, PyAny>,
    requires_grad: bool,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a type is checked for its base.
    if unsafe { PyType_IsSubtype(class.as_type_ptr(), tensor_type()) } == 0 {
        return Err(PyTypeError::new_err("cls must be a type (got a class that does not inherit from Tensor)"));
    }
    let dtype = dtype.cast::<dtype::PyDType>()?.get().served()?;
    // SAFETY: an object that the caller holds.
    let device = match unsafe { device::extract(device.as_ptr()) }.or_raise()? {
        Some(d) => d,
        None => torchtpu_tensor::Device::CPU,
    };
    let dims = Dims::try_new(&size).or_raise()?;
    let meta = Meta::new(&dims, dtype, device);
    let strides = strides.unwrap_or_else(|| dims.contiguous_strides().to_vec());
    let o = new_object(class, &meta, &strides, None)?;
    if requires_grad && let Some(t) = extract(&o) {
        t.requires_grad_(true).or_raise()?;
    }
    Ok(o)
}

/// Return whether a tensor is foreign.
#[pyfunction]
fn _is_foreign(x: &Bound<'_, PyAny>) -> bool {
    extract(x).is_some_and(foreign::is_foreign)
}

/// Set the functions that answer calls of rows, of ops, and of operators.
#[pyfunction]
fn _set_dispatch_answers(rows: Py<PyAny>, ops: Py<PyAny>, operators: Py<PyAny>) {
    let _ = ANSWERS.set([rows, ops, operators]);
}

/// Make a mode the innermost of the thread.
#[pyfunction]
fn _push_torch_dispatch_mode(mode: Py<PyAny>) {
    MODES.with_borrow_mut(|m| m.push(mode));
    watch(true);
}

/// Leave the innermost mode of the thread, and return it.
#[pyfunction]
fn _pop_torch_dispatch_mode() -> Option<Py<PyAny>> {
    let mode = MODES.with_borrow_mut(Vec::pop)?;
    watch(false);
    Some(mode)
}

/// Return the modes of the thread, with the innermost last.
#[pyfunction]
fn _torch_dispatch_modes(py: Python<'_>) -> Vec<Py<PyAny>> {
    MODES.with_borrow(|m| m.iter().map(|m| m.clone_ref(py)).collect())
}

/// The value "calls are not answered": the `__torch_dispatch__` of `Tensor`. Call the operator.
#[pyfunction]
#[pyo3(signature = (func, types, args = None, kwargs = None))]
fn _disabled_torch_dispatch_impl<'py>(
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    args: Option<&Bound<'py, PyTuple>>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = types;
    unseen(|| func.call(args.unwrap_or(&PyTuple::empty(func.py())), kwargs))
}

/// Set whether `torch.library` has put kernels in the places of aten's.
#[pyfunction]
fn _set_dispatch_overridden(on: bool) {
    if IS_OVERRIDDEN.swap(on, Relaxed) != on {
        watch(on);
    }
}

/// Set whether calls of this thread are offered to nobody, and return the setting before.
#[pyfunction]
fn _set_torch_dispatch_disabled(on: bool) -> bool {
    DISABLED.replace(on)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    foreign::install(&Binding);
    m.add_class::<PyPrim>()?;
    m.add_function(wrap_pyfunction!(_disabled_torch_dispatch_impl, m)?)?;
    m.add_function(wrap_pyfunction!(_wrapper_subclass, m)?)?;
    m.add_function(wrap_pyfunction!(_is_foreign, m)?)?;
    m.add_function(wrap_pyfunction!(_set_dispatch_answers, m)?)?;
    m.add_function(wrap_pyfunction!(_push_torch_dispatch_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_pop_torch_dispatch_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_torch_dispatch_modes, m)?)?;
    m.add_function(wrap_pyfunction!(_set_dispatch_overridden, m)?)?;
    m.add_function(wrap_pyfunction!(_set_torch_dispatch_disabled, m)?)?;
    Ok(())
}
