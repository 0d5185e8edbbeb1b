//! `torch.Tensor`, a heap type made through the C API.
//!
//! An object is four words behind the header: the tensor, the dictionary, the list of weak references, and the places
//! where the tensor is a gradient. It takes part
//! in garbage collection, but is tracked only once it has an attribute: most tensors never do, and tracking costs as
//! much as an add. Dead objects of exactly this type wait in a free list.

use crate::enter::{self, Outcome};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi::*;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use smallvec::SmallVec;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use torchtpu_tensor::graph::GradPlace;
use torchtpu_tensor::{Rep, Tensor};

/// A Python tensor.
#[repr(C)]
pub struct TensorObject {
    ob: PyObject,
    /// From [`Tensor::into_raw`]. Never null after the object is made.
    tensor: *mut (),
    dict: *mut PyObject,
    weak: *mut PyObject,
    /// The places that hold this tensor as a gradient, or null. They follow when `x.grad.data` is assigned.
    places: *mut GradPlaces,
}

/// A gradient is mostly that of one tensor.
type GradPlaces = SmallVec<[GradPlace; 1]>;

static TYPE: AtomicPtr<PyTypeObject> = AtomicPtr::new(null_mut());

/// The class of sharded tensors, or null before `torch.distributed.tensor` is imported.
static CLASSES: [AtomicPtr<PyTypeObject>; Rep::ALL.len()] = [const { AtomicPtr::new(null_mut()) }; Rep::ALL.len()];

/// The function that makes the object of a foreign tensor.
static FOREIGN: OnceLock<fn(Tensor) -> *mut PyObject> = OnceLock::new();

/// Set the function that makes the object of a foreign tensor: a new reference, or null with an exception set.
pub fn wrap_foreign_by(wrap: fn(Tensor) -> *mut PyObject) {
    let _ = FOREIGN.set(wrap);
}

/// The type that shortcuts are for: `TYPE`, or null while modes must see every call.
static PLAIN: AtomicPtr<PyTypeObject> = AtomicPtr::new(null_mut());

/// Whether modes above autograd, or those below it, must see every call.
static SEEN_BY_MODES: AtomicUsize = AtomicUsize::new(0);

/// Note that modes must see every call from now on, or no longer. Shortcuts for plain tensors are left out meanwhile.
pub fn allow_shortcuts(allowed: bool) {
    see(1, !allowed);
}

/// [`allow_shortcuts`] for the modes and classes below autograd.
pub fn note_dispatch(on: bool) {
    see(2, on);
}

fn see(who: usize, on: bool) {
    let all =
        if on { SEEN_BY_MODES.fetch_or(who, Relaxed) | who } else { SEEN_BY_MODES.fetch_and(!who, Relaxed) & !who };
    PLAIN.store(if all == 0 { tensor_type() } else { null_mut() }, Relaxed);
}

/// Give an object that has no attributes this dictionary of attributes, whose reference it takes over.
///
/// # Safety
/// `o` is a tensor object, `dict` a dictionary; the GIL is held.
pub unsafe fn share_dict(o: *mut PyObject, dict: *mut PyObject) {
    // SAFETY: `o` is a tensor object, so it has this layout. It may be part of a cycle from now on.
    unsafe {
        let old = std::mem::replace(&mut (*o.cast::<TensorObject>()).dict, dict);
        if !old.is_null() {
            Py_DECREF(old);
        }
        track(o);
    }
}

/// Return `torch.Tensor`.
#[inline(always)]
pub fn tensor_type() -> *mut PyTypeObject {
    TYPE.load(Relaxed)
}

const FREE_OBJECTS: usize = 2048;
struct FreeList(UnsafeCell<(usize, [*mut PyObject; FREE_OBJECTS])>);
// SAFETY: only code that holds the GIL uses the list.
unsafe impl Sync for FreeList {}
static FREE: FreeList = FreeList(UnsafeCell::new((0, [null_mut(); FREE_OBJECTS])));

/// Return whether `o` is exactly a `torch.Tensor` and no mode must see the call: one compare.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn is_exact(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object.
    unsafe { Py_TYPE(o) == PLAIN.load(Relaxed) }
}

/// Return whether `o` is a tensor, of the type or of a subclass.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn is_tensor(o: *mut PyObject) -> bool {
    // SAFETY: `o` is an object.
    unsafe { is_exact(o) || PyType_IsSubtype(Py_TYPE(o), tensor_type()) != 0 }
}

/// Return the tensor in an object.
///
/// # Safety
/// `o` is a tensor object that outlives the reference.
#[inline(always)]
pub unsafe fn tensor_of<'a>(o: *mut PyObject) -> &'a Tensor {
    // SAFETY: `Tensor` is a transparent non-null pointer, the one that `into_raw` returned.
    unsafe { &*(&raw const (*o.cast::<TensorObject>()).tensor).cast::<Tensor>() }
}

/// Return the tensor in any object, or nothing.
pub fn extract<'a>(o: &'a Bound<'_, PyAny>) -> Option<&'a Tensor> {
    // SAFETY: the type was checked, and the object outlives the borrow of `o`.
    unsafe { is_tensor(o.as_ptr()).then(|| tensor_of(o.as_ptr())) }
}

/// Return the object of a tensor, which is made if there is none. A new reference.
#[inline(always)]
pub fn wrap(t: Tensor) -> *mut PyObject {
    let known = t.pyobject().cast::<PyObject>();
    if !known.is_null() {
        // SAFETY: a tensor's object clears this pointer before it dies, and the GIL is held.
        unsafe { Py_INCREF(known) };
        return known;
    }
    if !t.place().is_dense() {
        return wrap_represented(t);
    }
    let ty = tensor_type();
    // SAFETY: the GIL is held, so only this code uses the free list. A dead object in the list keeps its memory and its
    // garbage collector's header, and is not tracked.
    unsafe {
        let free = &mut *FREE.0.get();
        let o = if free.0 > 0 {
            free.0 -= 1;
            PyObject_Init(free.1[free.0], ty)
        } else {
            PyObject_GC_New::<PyObject>(ty)
        };
        if o.is_null() {
            return o;
        }
        let p = o.cast::<TensorObject>();
        (*p).dict = null_mut();
        (*p).weak = null_mut();
        (*p).places = null_mut();
        t.set_pyobject(o.cast());
        (*p).tensor = t.into_raw();
        o
    }
}

/// Make the object of a tensor that is not dense and has none. A new reference, or null with an exception set.
#[cold]
fn wrap_represented(t: Tensor) -> *mut PyObject {
    if t.place().rep == Rep::Foreign {
        return match FOREIGN.get() {
            Some(wrap) => wrap(t),
            None => null_mut(),
        };
    }
    let ty = CLASSES[t.place().rep as usize].load(Relaxed);
    if ty.is_null() {
        // SAFETY: the GIL is held, and the type and the text are valid.
        unsafe { PyErr_SetString(PyExc_RuntimeError, c"the representation of the tensor has no class yet".as_ptr()) };
        return null_mut();
    }
    // SAFETY: `_set_class` has checked the type. A failure has set an exception.
    unsafe { wrap_as(ty, t) }.unwrap_or(null_mut())
}

/// Set the class of the tensors of a representation, which has this name.
#[pyfunction]
fn _set_class(representation: &str, class: &Bound<'_, PyType>) -> PyResult<()> {
    let Some(rep) = Rep::ALL.iter().find(|r| r.name() == representation) else {
        return Err(PyValueError::new_err(format!("there is no representation {representation}")));
    };
    let ty = class.as_type_ptr();
    // SAFETY: both are types.
    if unsafe { PyType_IsSubtype(ty, tensor_type()) } == 0 {
        return Err(PyTypeError::new_err("the class of a representation must be a Tensor"));
    }
    // The reference keeps the class for the life of the process.
    CLASSES[*rep as usize].store(class.clone().unbind().into_ptr().cast(), Relaxed);
    Ok(())
}

/// Return the object of a tensor, for PyO3.
pub fn to_python(py: Python<'_>, t: Tensor) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: `wrap` returns a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, wrap(t)) }
}

/// Make an object of a subclass, or of the type itself, for a tensor that has no object yet. A new reference.
///
/// # Safety
/// `ty` is `torch.Tensor` or a subclass.
pub unsafe fn wrap_as(ty: *mut PyTypeObject, t: Tensor) -> Outcome {
    if ty == tensor_type() {
        return Ok(wrap(t));
    }
    // SAFETY: `ty` is `torch.Tensor` or a subclass. The memory comes zeroed.
    unsafe {
        let o = PyType_GenericAlloc(ty, 0);
        if o.is_null() {
            return Err(enter::Failure::Raised);
        }
        t.set_pyobject(o.cast());
        (*o.cast::<TensorObject>()).tensor = t.into_raw();
        Ok(o)
    }
}

/// Put another tensor into an object, as assigning `x.data` does.
///
/// # Safety
/// `o` is a tensor object, and no reference from [`tensor_of`] to its present tensor is in use.
pub unsafe fn replace(o: *mut PyObject, t: Tensor) {
    // SAFETY: `o` is a tensor object, and no reference from [`tensor_of`] to its present tensor is in use.
    unsafe {
        let p = o.cast::<TensorObject>();
        let old = Tensor::from_raw((*p).tensor);
        old.set_pyobject(null_mut());
        t.set_pyobject(o.cast());
        (*p).tensor = t.into_raw();
        if !(*p).places.is_null() {
            // Dropping a gradient may run code that adds a place.
            let places = (*(*p).places).clone();
            places.iter().for_each(|place| place.exchange(&old, tensor_of(o)));
        }
        drop(old);
    }
}

/// Remember that a tensor is the gradient of another one.
///
/// # Safety
/// `o` is a tensor object; the GIL is held.
pub unsafe fn remember_place(o: *mut PyObject, place: GradPlace) {
    // SAFETY: `o` is a tensor object, so it has this layout. The GIL excludes other users.
    unsafe {
        let p = o.cast::<TensorObject>();
        if (*p).places.is_null() {
            (*p).places = Box::into_raw(Box::default());
        }
        let places = &mut *(*p).places;
        if !places.iter().any(|known| known.is_same(&place)) {
            places.retain(|known| known.is_alive());
            places.push(place);
        }
    }
}

unsafe extern "C" fn dealloc(o: *mut PyObject) {
    // SAFETY: the interpreter calls this once, with the last reference.
    unsafe {
        let ty = Py_TYPE(o);
        PyObject_GC_UnTrack(o.cast());
        let p = o.cast::<TensorObject>();
        let tensor = (!(*p).tensor.is_null()).then(|| Tensor::from_raw((*p).tensor));
        if let Some(t) = tensor.as_ref().filter(|t| t.pyobject() == o.cast()) {
            t.set_pyobject(null_mut());
        }
        if !(*p).weak.is_null() {
            PyObject_ClearWeakRefs(o);
        }
        if !(*p).dict.is_null() {
            Py_DECREF((*p).dict);
        }
        if !(*p).places.is_null() {
            // The box was made by `remember_place` for this object. Weak references run no code when they are dropped.
            drop(Box::from_raw((*p).places));
        }
        match tensor {
            // The history, and memory of other owners, may run any code.
            Some(t) if !t.drops_quietly() => enter::unraisable(|| drop(t)),
            t => drop(t),
        }
        let free = &mut *FREE.0.get();
        if ty == tensor_type() && free.0 < FREE_OBJECTS {
            free.1[free.0] = o;
            free.0 += 1;
        } else {
            PyObject_GC_Del(o.cast());
        }
        Py_DECREF(ty.cast());
    }
}

/// Return the attribute dictionary of an object, or null. A borrowed reference.
///
/// # Safety
/// `o` is a tensor object.
pub unsafe fn dict_of(o: *mut PyObject) -> *mut PyObject {
    // SAFETY: `o` is a tensor object, so it has this layout.
    unsafe { (*o.cast::<TensorObject>()).dict }
}

/// Take the attribute dictionary out of an object. Return it, or null. The caller owns the reference.
///
/// # Safety
/// `o` is a tensor object; the GIL is held.
pub unsafe fn take_dict(o: *mut PyObject) -> *mut PyObject {
    // SAFETY: `o` is a tensor object, so it has this layout. The GIL excludes other users.
    unsafe { std::mem::replace(&mut (*o.cast::<TensorObject>()).dict, null_mut()) }
}

/// Return the tensor in an object, or nothing while the object is being made.
///
/// # Safety
/// `o` is a tensor object that outlives the reference.
pub unsafe fn tensor_if_set<'a>(o: *mut PyObject) -> Option<&'a Tensor> {
    // SAFETY: `o` is a tensor object, so it has this layout, and `tensor_of` asks for a pointer that is not null.
    unsafe { (!(*o.cast::<TensorObject>()).tensor.is_null()).then(|| tensor_of(o)) }
}

/// Let the garbage collector visit an object from now on.
///
/// # Safety
/// `o` is a tensor object.
pub unsafe fn track(o: *mut PyObject) {
    // SAFETY: `o` is a tensor object.
    unsafe {
        if PyObject_GC_IsTracked(o) == 0 {
            PyObject_GC_Track(o.cast());
        }
    }
}

unsafe extern "C" fn setattro(o: *mut PyObject, name: *mut PyObject, value: *mut PyObject) -> c_int {
    // SAFETY: the interpreter passes an object of our type. It may be part of a cycle from now on.
    unsafe {
        track(o);
        PyObject_GenericSetAttr(o, name, value)
    }
}

unsafe extern "C" fn get_dict(o: *mut PyObject, closure: *mut c_void) -> *mut PyObject {
    // SAFETY: the interpreter passes an object of our type, with the closure of the slot.
    unsafe {
        track(o);
        PyObject_GenericGetDict(o, closure)
    }
}

unsafe extern "C" fn set_dict(o: *mut PyObject, value: *mut PyObject, closure: *mut c_void) -> c_int {
    // SAFETY: the interpreter passes an object of our type, with the closure of the slot.
    unsafe {
        track(o);
        PyObject_GenericSetDict(o, value, closure)
    }
}

/// Return `id(x)`. PyTorch's `hash(x)` is the same, and some scripts rely on it.
unsafe extern "C" fn hash(o: *mut PyObject) -> Py_hash_t {
    o as Py_hash_t
}

/// Make a slot of a type from its number and a function of the type that the number asks for.
pub fn slot(id: c_int, f: *const c_void) -> PyType_Slot {
    PyType_Slot { slot: id, pfunc: f.cast_mut() }
}

/// The parts of the type that other files define. [`register`] joins them, so that this file imports none of those.
pub struct Parts {
    pub properties: Vec<PyGetSetDef>,
    pub methods: Vec<PyMethodDef>,
    pub slots: Vec<PyType_Slot>,
}

/// Make the type, and add it to the module.
///
/// # Safety
/// Each slot of `parts` holds a function, or a table, of the type that its number asks for.
pub unsafe fn register(m: &Bound<'_, PyModule>, parts: Parts) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_set_class, m)?)?;
    let member = |name: &'static std::ffi::CStr, offset: usize| PyMemberDef {
        name: name.as_ptr(),
        type_code: Py_T_PYSSIZET,
        offset: offset as Py_ssize_t,
        flags: Py_READONLY,
        doc: null(),
    };
    // SAFETY: an all-zero entry ends each of these tables.
    let (end_member, end_getset, end_method) = unsafe {
        (std::mem::zeroed::<PyMemberDef>(), std::mem::zeroed::<PyGetSetDef>(), std::mem::zeroed::<PyMethodDef>())
    };
    let members = Box::leak(Box::new([
        member(c"__dictoffset__", offset_of!(TensorObject, dict)),
        member(c"__weaklistoffset__", offset_of!(TensorObject, weak)),
        end_member,
    ]));
    let mut getset = vec![PyGetSetDef {
        name: c"__dict__".as_ptr(),
        get: Some(get_dict),
        set: Some(set_dict),
        doc: null(),
        closure: null_mut(),
    }];
    getset.extend(parts.properties);
    getset.push(end_getset);
    let mut own = parts.methods;
    own.push(end_method);
    let (getset, own) = (getset.leak(), own.leak());
    let mut slots = vec![
        slot(Py_tp_dealloc, dealloc as *const c_void),
        slot(Py_tp_setattro, setattro as *const c_void),
        slot(Py_tp_hash, hash as *const c_void),
        slot(Py_tp_members, members.as_ptr().cast()),
        slot(Py_tp_getset, getset.as_ptr().cast()),
        slot(Py_tp_methods, own.as_ptr().cast()),
    ];
    slots.extend(parts.slots);
    slots.push(slot(0, null()));
    let mut spec = PyType_Spec {
        name: c"torch.Tensor".as_ptr(),
        basicsize: size_of::<TensorObject>() as c_int,
        itemsize: 0,
        flags: (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC) as _,
        slots: slots.leak().as_mut_ptr(),
    };
    // SAFETY: the tables are leaked, so they live forever. The slots of this file have the types that their numbers ask
    // for, and the caller answers for those of `parts`.
    let ty = unsafe { Bound::from_owned_ptr_or_err(m.py(), PyType_FromSpec(&mut spec))? };
    // A metaclass of its own, as in PyTorch, so that pickles can be taught the name of the class.
    let meta = m.py().get_type::<PyType>();
    let members = PyDict::new(m.py());
    members.set_item("__module__", "torch._C")?;
    let meta = meta.call1(("_TensorMeta", (&meta,), members))?;
    m.add("_TensorMeta", &meta)?;
    // SAFETY: the metaclass is a subclass of `type` without fields, and the class has no subclasses and no objects yet.
    unsafe { (*ty.as_ptr()).ob_type = meta.into_ptr().cast() };
    TYPE.store(ty.as_ptr().cast(), Relaxed);
    allow_shortcuts(true);
    // The type lives as long as the process, so the pointer above needs no reference.
    let ty = ty.unbind();
    m.add("Tensor", ty.clone_ref(m.py()))?;
    std::mem::forget(ty);
    Ok(())
}
