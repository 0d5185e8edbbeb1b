//! Functions and methods, from the op table.
//!
//! Each name has one [`Descriptor`]: its overloads, and their Python callables. A callable is a C function that knows
//! the number of its descriptor. The C function of a method gets only the tensor, so each number has a function of its
//! own ([`TRAMPOLINES`]). Without a receiver, the call is the function form, otherwise the method.

use crate::arguments::{Call, Form, Interned, Names, Overload, Parsed, complain};
use crate::enter::{self, Failure, Outcome};
use crate::objects::{new_object, new_reference, number_object, part_of, type_name};
use crate::out::{check_no_overlap, check_out, follow_out, write_out};
use crate::tensor_type::{is_tensor, tensor_of, tensor_type, wrap};
use crate::{deprecated, help, torch_dispatch, torch_function};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::{LazyLock, OnceLock};
use torchtpu_tensor::policy::Policies;
use torchtpu_tensor::schema::{Arg, Args, Ret, Row, Schema, Scope};
use torchtpu_tensor::{Result, Tensor, autocast, ops, state};

/// The overloads and callables of one name.
pub struct Descriptor {
    name: &'static str,
    overloads: Vec<Overload>,
    /// The function object and the method descriptor, which `__torch_function__` gets.
    function: Interned,
    method: Interned,
    /// The type of the result when it is a named tuple.
    fields: Option<Interned>,
    /// The type of the result of a call with `out=`.
    out_fields: Option<Interned>,
}

impl Descriptor {
    fn is_method(&self) -> bool {
        self.overloads.iter().any(|o| o.method)
    }
}

static DESCRIPTORS: OnceLock<Vec<Descriptor>> = OnceLock::new();
static FIRST: AtomicPtr<Descriptor> = AtomicPtr::new(null_mut());
static BY_NAME: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();

type Entry = unsafe extern "C" fn(*mut PyObject, *const *mut PyObject, Py_ssize_t, *mut PyObject) -> *mut PyObject;

unsafe extern "C" fn trampoline<const N: usize>(
    receiver: *mut PyObject,
    args: *const *mut PyObject,
    positional: Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    let call = Call { receiver, args, positional: positional as usize, names };
    // SAFETY: trampoline `N` becomes callable only after descriptor `N` is in place.
    enter::object(|| serve(unsafe { &*FIRST.load(Relaxed).add(N) }, &call))
}

macro_rules! sixteen {
    ($of:ident, $base:expr, $step:expr) => {
        [
            $of!($base),
            $of!($base + $step),
            $of!($base + 2 * $step),
            $of!($base + 3 * $step),
            $of!($base + 4 * $step),
            $of!($base + 5 * $step),
            $of!($base + 6 * $step),
            $of!($base + 7 * $step),
            $of!($base + 8 * $step),
            $of!($base + 9 * $step),
            $of!($base + 10 * $step),
            $of!($base + 11 * $step),
            $of!($base + 12 * $step),
            $of!($base + 13 * $step),
            $of!($base + 14 * $step),
            $of!($base + 15 * $step),
        ]
    };
}
macro_rules! one {
    ($n:expr) => {
        trampoline::<{ $n }>
    };
}
macro_rules! row {
    ($n:expr) => {
        sixteen!(one, $n, 1)
    };
}
macro_rules! plane {
    ($n:expr) => {
        sixteen!(row, $n, 16)
    };
}
/// Greatest number of names.
const NAMES: usize = 6 * 256;
/// One C function per descriptor.
static TRAMPOLINES: [[[Entry; 16]; 16]; NAMES / 256] =
    [plane!(0), plane!(256), plane!(512), plane!(768), plane!(1024), plane!(1280)];

/// Run a call.
#[inline(never)]
fn serve(d: &'static Descriptor, call: &Call) -> Outcome {
    let mut parsed = Parsed::new();
    for o in &d.overloads {
        if !o.method && !call.receiver.is_null() {
            continue;
        }
        if o.parse(call, &mut parsed) {
            if parsed.overridden || torch_function::has_mode() {
                return overridden(d, call);
            }
            if torch_dispatch::is_watched() {
                return dispatched(d, o, call, &parsed);
            }
            return run(d, o, call, &parsed);
        }
    }
    no_match(d, call)
}

/// Run a call while a thread has a mode below autograd, or a tensor of a class with `__torch_dispatch__` may be there.
#[cold]
#[inline(never)]
fn dispatched(d: &'static Descriptor, o: &'static Overload, call: &Call, parsed: &Parsed) -> Outcome {
    if let Some(y) = torch_dispatch::rows::serve(o, parsed, |py| bound_call(py, call))? {
        return named(d, y, !parsed.out.is_null());
    }
    if let Some(held) = torch_dispatch::values::unwrapped(&Args(parsed.args()))? {
        let args = parsed.args();
        let args: Vec<Arg<'_>> = args.iter().zip(&held).map(|(a, t)| t.as_ref().map_or(*a, Arg::Tensor)).collect();
        let row = o.row;
        if o.form == Form::InPlace {
            row.call_in_place(&Args(&args))?;
            // SAFETY: the caller holds the objects of the call.
            return unsafe { new_reference(call.operands()[0]) };
        }
        return to_object(d, (row.call)(&Args(&args))?);
    }
    run(d, o, call, parsed)
}

/// Return a tuple of results as the named tuple that the function returns.
fn named(d: &Descriptor, y: *mut PyObject, has_out: bool) -> Outcome {
    let fields = if has_out { d.out_fields } else { d.fields };
    // SAFETY: `y` is a new reference, which is returned, or given back after its items were put into the named tuple.
    unsafe {
        let Some(ty) = fields.filter(|_| PyTuple_CheckExact(y) != 0 || PyList_CheckExact(y) != 0) else { return Ok(y) };
        let o = PyObject_CallFunctionObjArgs(ty.0, y, null_mut::<PyObject>());
        Py_DECREF(y);
        if o.is_null() { Err(Failure::Raised) } else { Ok(o) }
    }
}

#[inline(always)]
fn run(d: &'static Descriptor, o: &Overload, call: &Call, parsed: &Parsed) -> Outcome {
    if !parsed.out.is_null() {
        return run_into(d, o, parsed);
    }
    let args = Args(parsed.args());
    let row = o.row;
    if o.form == Form::InPlace {
        let r = if parsed.elements < enter::BIG {
            row.call_in_place(&args)?
        } else {
            without_gil(&args, |a| row.call_in_place(a))?
        };
        return if let Ret::Tensor(t) = r { Ok(wrap(t)) } else { written_list(d, call, r) };
    }
    let r = if state::is_unusual() {
        run_unusual(o, &args)?
    } else if parsed.elements < enter::BIG {
        (row.call)(&args)?
    } else {
        without_gil(&args, row.call)?
    };
    match r {
        Ret::Tensor(t) => {
            if parsed.requires_grad {
                if !t.dtype().is_inexact() {
                    let text = "Only Tensors of floating point and complex dtype can require gradients";
                    return Err(PyRuntimeError::new_err(text).into());
                }
                t.requires_grad_(true)?;
            }
            Ok(wrap(t))
        }
        r => to_object(d, r),
    }
}

/// Run a call while a thread uses autocast or inference mode.
#[cold]
#[inline(never)]
fn run_unusual(o: &Overload, args: &Args<'_>) -> Result<Ret> {
    let r = if autocast::is_on() {
        without_gil(args, |a| autocast::call(o.policies, a, o.row.call))?
    } else {
        without_gil(args, o.row.call)?
    };
    if state::is_inference() {
        mark_new(args, &r);
    }
    Ok(r)
}

/// Make the tensors of a result inference tensors, unless they are views of an argument.
fn mark_new(args: &Args<'_>, r: &Ret) {
    let is_old = |y: &Tensor| {
        args.0.iter().any(|a| match a {
            Arg::Tensor(x) => x.shares_storage(y),
            Arg::Tensors(list) => list.iter().flatten().any(|x| x.shares_storage(y)),
            _ => false,
        })
    };
    let mark = |y: &Tensor| {
        if !is_old(y) {
            y.mark_inference();
        }
    };
    match r {
        Ret::Tensor(y) => mark(y),
        Ret::Tuple(list) | Ret::List(list) => list.iter().for_each(mark),
        Ret::Scalar(_) | Ret::None => {}
    }
}

/// Run a call with `out=`.
#[cold]
#[inline(never)]
fn run_into(d: &'static Descriptor, o: &Overload, parsed: &Parsed) -> Outcome {
    let mut args = parsed.args().to_vec();
    follow_out(d.name, o, &mut args, parsed.out)?;
    let args = Args(&args);
    check_out(d.name, o.row, &args, parsed.out)?;
    check_no_overlap(o.out_aliasing, &args, parsed.out)?;
    let r = if parsed.elements < enter::BIG { (o.row.call)(&args)? } else { without_gil(&args, o.row.call)? };
    write_out(d.name, o.row, d.out_fields, r, parsed.out)
}

/// Return the list that an in-place function got and has written, or a new list if it got another sequence.
#[cold]
fn written_list(d: &Descriptor, call: &Call, r: Ret) -> Outcome {
    let first = call.operands().into_iter().next();
    match (r, first) {
        // SAFETY: the caller holds the objects of the call.
        (Ret::List(_) | Ret::None, Some(list)) if unsafe { PyList_Check(list) != 0 || PyTuple_Check(list) != 0 } => {
            // SAFETY: the caller holds the objects of the call.
            unsafe { Py_INCREF(list) };
            Ok(list)
        }
        (r, _) => to_object(d, r),
    }
}

/// Run big work without the GIL, on handles of its own: another thread may put other tensors into the objects.
#[inline(never)]
fn without_gil(args: &Args<'_>, f: impl FnOnce(&Args<'_>) -> Result<Ret>) -> Result<Ret> {
    let held: Vec<Option<Tensor>> =
        args.0.iter().map(|a| if let Arg::Tensor(t) = a { Some((*t).clone()) } else { None }).collect();
    let args: Vec<Arg<'_>> = args.0.iter().zip(&held).map(|(a, t)| t.as_ref().map_or(*a, Arg::Tensor)).collect();
    enter::without_gil(|| f(&Args(&args)))
}

fn to_object(d: &Descriptor, r: Ret) -> Outcome {
    let items = match r {
        Ret::Tensor(t) => return Ok(wrap(t)),
        Ret::Scalar(s) => return Ok(number_object(s)),
        // SAFETY: `None` is an object.
        Ret::None => unsafe {
            Py_INCREF(Py_None());
            return Ok(Py_None());
        },
        Ret::Tuple(v) | Ret::List(v) => v,
    };
    // SAFETY: the objects are new, and are filled before other code sees them. The items are new references that they
    // own.
    unsafe {
        if let Some(ty) = d.fields {
            let o = new_object(PyStructSequence_New(ty.0.cast()))?;
            for (i, t) in items.into_iter().enumerate() {
                PyStructSequence_SetItem(o, i as Py_ssize_t, part_of(o, wrap(t))?);
            }
            return Ok(o);
        }
        // Written tensors are returned as a list.
        if d.name.ends_with('_') {
            let o = new_object(PyList_New(items.len() as Py_ssize_t))?;
            for (i, t) in items.into_iter().enumerate() {
                PyList_SetItem(o, i as Py_ssize_t, part_of(o, wrap(t))?);
            }
            return Ok(o);
        }
        let o = new_object(PyTuple_New(items.len() as Py_ssize_t))?;
        for (i, t) in items.into_iter().enumerate() {
            PyTuple_SetItem(o, i as Py_ssize_t, part_of(o, wrap(t))?);
        }
        Ok(o)
    }
}

/// Return a call's operands with the receiver, and its arguments in the form for Python.
type BoundCall<'py> = (Vec<Bound<'py, PyAny>>, Bound<'py, PyTuple>, Bound<'py, PyDict>);

#[cold]
fn bound_call<'py>(py: Python<'py>, call: &Call) -> PyResult<BoundCall<'py>> {
    // SAFETY: the caller holds the objects of the call. Values of keywords follow the positional arguments.
    let operands: Vec<Bound<'py, PyAny>> =
        call.operands().into_iter().map(|o| unsafe { Bound::from_borrowed_ptr(py, o) }).collect();
    let positional = call.positional + usize::from(!call.receiver.is_null());
    let args = PyTuple::new(py, &operands[..positional])?;
    let kwargs = PyDict::new(py);
    if !call.names.is_null() {
        // SAFETY: a tuple of names.
        let names = unsafe { Bound::from_borrowed_ptr(py, call.names) };
        for (k, v) in names.try_iter()?.zip(&operands[positional..]) {
            kwargs.set_item(k?, v)?;
        }
    }
    Ok((operands, args, kwargs))
}

#[cold]
fn overridden(d: &Descriptor, call: &Call) -> Outcome {
    Python::attach(|py| {
        let (mut operands, args, kwargs) = bound_call(py, call)?;
        // Tensors in lists take part too.
        let nested: Vec<_> = operands
            .iter()
            .filter(|o| o.is_instance_of::<PyTuple>() || o.is_instance_of::<pyo3::types::PyList>())
            .flat_map(|o| o.try_iter().into_iter().flatten().flatten())
            .collect();
        operands.extend(nested);
        let f = if call.receiver.is_null() { d.function } else { d.method };
        // SAFETY: callables live forever.
        let f = unsafe { Bound::from_borrowed_ptr(py, f.0) };
        Ok::<_, Failure>(torch_function::call(py, &f, &operands, &args, Some(&kwargs))?.into_ptr())
    })
}

#[cold]
fn no_match(d: &'static Descriptor, call: &Call) -> Outcome {
    // Other types may take the call over.
    // SAFETY: the caller holds the objects of the call.
    if call.operands().into_iter().any(|o| unsafe { !is_tensor(o) && torch_function::overrides(o) }) {
        return overridden(d, call);
    }
    // SAFETY: a conversion may have left an exception set. It belongs to the interpreter.
    if !unsafe { PyErr_Occurred() }.is_null() {
        return Err(Failure::Raised);
    }
    if let Some(form) = d.overloads.iter().find_map(|o| o.row.deprecated)
        // SAFETY: the caller holds the objects of the call, so they are alive.
        && let Some(new) = unsafe { deprecated::rearranged(form, call) }
    {
        let (today, mut parsed) = (new.call(), Parsed::new());
        for o in d.overloads.iter().filter(|o| o.method || today.receiver.is_null()) {
            if o.parse(&today, &mut parsed) {
                deprecated::warn(d.name, form, &new, o)?;
                return run(d, o, &today, &parsed);
            }
        }
    }
    complain(d.name, &d.overloads, call)
}

/// Call an op by its name in the schema, with parsed arguments, for hand-written code.
///
/// # Errors
/// `RuntimeError` if there is no such op. The errors of the op.
pub fn call_op(name: &str, overload: &str, args: &[Arg<'_>]) -> Outcome<Ret> {
    match row(name, overload) {
        Some(row) => Ok((row.call)(&Args(args))?),
        None => Err(PyRuntimeError::new_err(format!("operator {name}.{overload} is not in this build")).into()),
    }
}

/// Call an op with one tensor as its result, as [`call_op`] does.
///
/// # Errors
/// As [`call_op`].
pub fn call_tensor_op(name: &str, overload: &str, args: &[Arg<'_>]) -> Outcome<Tensor> {
    match call_op(name, overload, args)? {
        Ret::Tensor(t) => Ok(t),
        _ => Err(PyRuntimeError::new_err(format!("{name} gives no tensor")).into()),
    }
}

/// Room for all names and help texts. The block grows if they need more.
const TEXT_BYTES: usize = 512 << 10;

/// C strings, one after another.
struct Texts(String);

impl Texts {
    /// Add a string, and return its place.
    fn add(&mut self, write: impl FnOnce(&mut String)) -> usize {
        let place = self.0.len();
        write(&mut self.0);
        self.0.push('\0');
        place
    }
    /// Add the help text of a function or of a method.
    fn add_help(&mut self, d: &Descriptor, method: bool) -> usize {
        let overloads: SmallVec<[&Overload; 8]> = d.overloads.iter().filter(|o| o.method || !method).collect();
        let doc = overloads.iter().map(|o| o.row.doc).find(|doc| !doc.is_empty()).unwrap_or_default();
        self.add(|text| help::write(text, d.name, doc, &overloads, method))
    }
}

/// The definitions of a function and of its method. They live as long as the process, like the callables that point to
/// them.
struct Definitions {
    function: *mut PyMethodDef,
    method: Option<*mut PyMethodDef>,
}

/// Make the definitions for all names of the table, in order.
fn definitions(table: &[Descriptor]) -> Vec<Definitions> {
    let mut texts = Texts(String::with_capacity(TEXT_BYTES));
    let mut places = Vec::with_capacity(table.len());
    for d in table {
        let name = texts.add(|text| text.push_str(d.name));
        let function = texts.add_help(d, false);
        let method = d.is_method().then(|| texts.add_help(d, true));
        places.push((name, function, method));
    }
    let texts: &'static str = texts.0.leak();
    let define = |entry: Entry, name: usize, help: usize| {
        &raw mut *Box::leak(Box::new(PyMethodDef {
            ml_name: texts[name..].as_ptr().cast(),
            ml_meth: PyMethodDefPointer { PyCFunctionFastWithKeywords: entry },
            ml_flags: METH_FASTCALL | METH_KEYWORDS,
            ml_doc: texts[help..].as_ptr().cast(),
        }))
    };
    let entries = TRAMPOLINES.iter().flatten().flatten();
    let both = entries.zip(places).map(|(&entry, (name, function, method))| Definitions {
        function: define(entry, name, function),
        method: method.map(|method| define(entry, name, method)),
    });
    both.collect()
}

fn named_tuple(name: &str, fields: &[&str]) -> Interned {
    let text = |s: &str| CString::new(s).expect("a name has no zero byte").into_raw().cast_const();
    let mut entries: Vec<PyStructSequence_Field> =
        fields.iter().map(|f| PyStructSequence_Field { name: text(f), doc: null() }).collect();
    entries.push(PyStructSequence_Field { name: null(), doc: null() });
    let mut desc = PyStructSequence_Desc {
        name: text(&format!("torch.return_types.{name}")),
        doc: null(),
        fields: entries.leak().as_mut_ptr(),
        n_in_sequence: fields.len() as _,
    };
    // SAFETY: the description is complete, and its parts live forever.
    Interned(unsafe { PyStructSequence_NewType(&mut desc) }.cast())
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let mut order: Vec<Descriptor> = Vec::new();
    let mut by_name: HashMap<&'static str, usize> = HashMap::new();
    // One bit for each scope.
    let mut scopes: Vec<u8> = Vec::new();
    let mut names = Names::default();
    for (family, row) in ops::FAMILIES.iter().flat_map(|family| family.rows.iter().map(move |row| (family, row))) {
        let schema = Schema::parse(row.schema).map_err(enter::exception)?;
        let is_method = matches!(row.scope, Scope::Both | Scope::Method)
            && schema.params.first().is_some_and(|p| p.ty == torchtpu_tensor::schema::Ty::Tensor);
        let mut add = |name: &'static str, in_place: bool, is_method: bool, scope: Scope| {
            let at = *by_name.entry(name).or_insert_with(|| {
                order.push(Descriptor {
                    name,
                    overloads: Vec::new(),
                    function: Interned(null_mut()),
                    method: Interned(null_mut()),
                    fields: None,
                    out_fields: None,
                });
                scopes.push(0);
                order.len() - 1
            });
            scopes[at] |= 1 << scope as u8;
            let aliasing = family.out_aliasing(row);
            order[at].overloads.push(Overload::new(row, aliasing, &schema, in_place, is_method, &mut names));
            if !in_place && !row.fields.is_empty() && order[at].fields.is_none() {
                order[at].fields = Some(named_tuple(name, row.fields));
                if row.has_out {
                    order[at].out_fields = Some(named_tuple(&format!("{name}_out"), row.fields));
                }
            }
        };
        add(schema.name, false, is_method, row.scope);
        if row.has_in_place() {
            add(format!("{}_", schema.name).leak(), true, is_method, row.scope);
        }
        for &alias in row.aliases {
            add(alias, false, false, Scope::Nn);
        }
    }
    assert!(order.len() <= NAMES, "room for {NAMES} names, {} given", order.len());

    // SAFETY: the type object lives forever.
    let ty = unsafe { Bound::from_borrowed_ptr(py, tensor_type().cast()) };
    let own = ty.getattr("__dict__")?;
    let torch = PyString::new(py, "torch");
    let (functions, nn, all, return_types) = (
        PyModule::new(py, "functions")?,
        PyModule::new(py, "_nn")?,
        PyModule::new(py, "ops")?,
        PyModule::new(py, "return_types")?,
    );
    let definitions = definitions(&order);
    for ((d, scopes), Definitions { function, method }) in order.iter_mut().zip(scopes).zip(definitions) {
        let name = PyString::intern(py, d.name);
        // SAFETY: the definition lives forever. Without a `self`, it is the function form.
        let f = unsafe { Bound::from_owned_ptr_or_err(py, PyCFunction_NewEx(function, null_mut(), torch.as_ptr()))? };
        d.function = Interned(f.clone().into_ptr());
        all.dict().set_item(&name, &f)?;
        let has = |s: Scope| scopes & 1 << s as u8 != 0;
        let in_place = d.overloads.iter().all(|o| o.form == Form::InPlace);
        let is_function = if in_place {
            d.overloads.iter().any(|o| o.row.in_place_function)
        } else {
            has(Scope::Both) || has(Scope::Function)
        };
        if is_function {
            functions.dict().set_item(&name, &f)?;
        }
        if has(Scope::Nn) {
            nn.dict().set_item(&name, &f)?;
        }
        if let Some(method) = method {
            // SAFETY: the type and the definition live forever.
            let method = unsafe { Bound::from_owned_ptr_or_err(py, PyDescr_NewMethod(tensor_type(), method))? };
            // Keep attributes that were written by hand.
            if !own.contains(&name)? {
                ty.setattr(&name, &method)?;
            }
            d.method = Interned(method.into_ptr());
        } else {
            d.method = d.function;
        }
        if let Some(t) = d.fields {
            // SAFETY: the type lives forever.
            return_types.add(d.name, unsafe { Bound::from_borrowed_ptr(py, t.0) })?;
        }
        if let Some(t) = d.out_fields {
            // SAFETY: the type lives forever.
            return_types.add(format!("{}_out", d.name), unsafe { Bound::from_borrowed_ptr(py, t.0) })?;
        }
    }
    m.add("_functions", functions)?;
    m.add("_nn", nn)?;
    m.add("_ops", all)?;
    m.add("_return_types", return_types)?;
    let table = DESCRIPTORS.get_or_init(|| order);
    let _ = BY_NAME.set(by_name);
    FIRST.store(table.as_ptr().cast_mut(), Relaxed);
    m.add_function(wrap_pyfunction!(_schemas, m)?)?;
    Ok(())
}

/// Return the autocast policies of a function.
pub fn policies(name: &str) -> Policies {
    let at = BY_NAME.get().and_then(|by_name| by_name.get(name));
    at.map_or(Policies::NONE, |i| DESCRIPTORS.get().map_or(Policies::NONE, |table| table[*i].overloads[0].policies))
}

/// Return the schemas of a name.
#[pyfunction]
fn _schemas(name: &str) -> Vec<&'static str> {
    let table = DESCRIPTORS.get().map_or(&[][..], |v| v);
    let at = BY_NAME.get().and_then(|b| b.get(name));
    at.map_or_else(Vec::new, |i| table[*i].overloads.iter().map(|o| o.row.schema).collect())
}

/// Return a tensor argument, for hand-written code.
///
/// # Safety
/// `o` is an object that outlives the reference.
pub unsafe fn tensor_argument<'a>(
    o: *mut PyObject,
    function: &str,
    name: &str,
    position: usize,
) -> Outcome<&'a Tensor> {
    // SAFETY: `o` is an object that outlives the reference.
    unsafe {
        if is_tensor(o) {
            return Ok(tensor_of(o));
        }
        let got = type_name(o);
        Err(PyTypeError::new_err(format!(
            "{function}(): argument '{name}' (position {position}) must be Tensor, not {got}"
        ))
        .into())
    }
}

/// Return the row of an overload.
pub fn row(name: &str, overload: &str) -> Option<&'static Row> {
    static ROWS: LazyLock<HashMap<(&str, &str), &Row>> = LazyLock::new(|| {
        let named = |row: &'static Row| {
            let head = &row.schema[..row.schema.find('(').unwrap_or(0)];
            (head.split_once('.').unwrap_or((head, "")), row)
        };
        ops::rows().map(named).collect()
    });
    ROWS.get(&(name, overload)).copied()
}
