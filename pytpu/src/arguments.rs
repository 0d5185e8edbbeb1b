//! Arguments of a call, parsed by the op's schema.
//!
//! An [`Overload`] is a parsed schema with its names interned and its defaults ready. [`Overload::parse`] fills a [`Parsed`] on
//! the stack and says yes or no; it keeps no reasons. When no overload fits, the call is looked at once more, slowly, to say
//! what was wrong in PyTorch's words ([`complain`]).

use crate::enter::{Failure, Outcome};
use crate::tensor_type::{is_exact, is_tensor, tensor_of};
use crate::{device, dtype, random, torch_function};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::*;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use torchtpu_tensor::schema::{Arg, Default, Row, Schema, Ty};
use torchtpu_tensor::{Scalar, Tensor};

/// The most parameters a schema may have.
pub const MAX_PARAMS: usize = 24;
/// List items kept on the stack.
const STACK_INTS: usize = 16;

/// An interned Python string that lives for ever.
#[derive(Clone, Copy)]
pub struct Interned(pub *mut PyObject);
// SAFETY: immortal for our purposes, and touched only with the GIL held.
unsafe impl Send for Interned {}
// SAFETY: as above.
unsafe impl Sync for Interned {}

impl Interned {
    /// Interns a string.
    pub fn new(s: &str) -> Interned {
        // SAFETY: called with the GIL held; the string is valid UTF-8 of the given length.
        unsafe {
            let mut o = PyUnicode_FromStringAndSize(s.as_ptr().cast(), s.len() as Py_ssize_t);
            PyUnicode_InternInPlace(&mut o);
            Interned(o)
        }
    }
    /// Whether `o`, a string, is this one.
    #[inline]
    fn is(self, o: *mut PyObject) -> bool {
        self.0 == o
    }
    #[cold]
    fn equals(self, o: *mut PyObject) -> bool {
        // SAFETY: both are strings.
        unsafe { PyUnicode_Compare(self.0, o) == 0 }
    }
    /// Whether `o` is the same text: names that come out of a dictionary need not be interned.
    #[inline]
    fn matches(self, o: *mut PyObject) -> bool {
        self.is(o) || self.equals(o)
    }
}

/// One parameter.
pub struct Parameter {
    name: Interned,
    /// `input` for the `self` of a function, and NumPy's names (`axis` for `dim`).
    also: Vec<Interned>,
    text: String,
    ty: Ty,
    optional: bool,
    keyword_only: bool,
    required: bool,
    number_ok: bool,
    default: Arg<'static>,
}

/// Which way an overload is served.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// By the row's `call`.
    Plain,
    /// By the row's `inplace`, or derived from `call`: writes argument 0 and gives it back.
    InPlace,
}

/// One overload, ready to be matched.
pub struct Overload {
    /// The row behind it.
    pub row: &'static Row,
    /// How it is served.
    pub form: Form,
    /// Whether it is a method of `Tensor`.
    pub method: bool,
    /// Whether it takes `out=`.
    pub out: bool,
    params: Box<[Parameter]>,
    positional: usize,
    /// The list of integers that all positional arguments together may stand for: `x.view(2, 3)`.
    varargs: Option<usize>,
    /// The `device` of a function that makes a tensor from nothing.
    new_on: Option<usize>,
    /// Whether it makes a new tensor, and so takes `requires_grad=`.
    makes: bool,
    /// Whether one of the first two arguments must be a tensor although each may be a number.
    needs_tensor: bool,
}

/// Functions whose tensors may be numbers, as in PyTorch.
fn takes_numbers(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "add",
        "sub",
        "subtract",
        "rsub",
        "mul",
        "multiply",
        "div",
        "divide",
        "true_divide",
        "floor_divide",
        "remainder",
        "fmod",
        "pow",
        "float_power",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "copysign",
        "where",
        "xlogy",
        "special_xlogy",
        "special_xlog1py",
        "ldexp",
        "result_type",
        "masked_fill",
        "index_fill",
        "heaviside",
        "isin",
    ];
    NAMES.contains(&name) || name == "special_zeta" || name.starts_with("special_") && name.contains("_polynomial_")
}

/// Functions that take a number in place of the second tensor only.
fn begins_with_tensor(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "rsub",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "fmod",
        "copysign",
        "masked_fill",
        "index_fill",
        "heaviside",
        "ldexp",
    ];
    NAMES.contains(&name)
}

/// Functions that take two numbers and no tensor, as in PyTorch.
fn takes_only_numbers(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "add",
        "sub",
        "subtract",
        "mul",
        "multiply",
        "div",
        "divide",
        "true_divide",
        "floor_divide",
        "result_type",
        "where",
    ];
    NAMES.contains(&name)
}

impl Overload {
    /// Prepares a row. `in_place` asks for its `name_` form.
    ///
    /// # Errors
    /// When the schema does not parse.
    pub fn new(row: &'static Row, schema: &Schema, in_place: bool, method: bool) -> Overload {
        assert!(schema.params.len() <= MAX_PARAMS, "{}: too many parameters", schema.name);
        let numbers = takes_numbers(schema.name.trim_end_matches('_'));
        let params: Box<[Parameter]> = schema
            .params
            .iter()
            .enumerate()
            .map(|(i, p)| {
                let also: &[&str] = match p.name.as_str() {
                    "self" => &["input"],
                    "dim" => &["axis"],
                    "keepdim" => &["keepdims"],
                    _ => &[],
                };
                Parameter {
                    name: Interned::new(&p.name),
                    also: also.iter().map(|s| Interned::new(s)).collect(),
                    text: p.name.clone(),
                    ty: p.ty,
                    optional: p.optional,
                    keyword_only: p.keyword_only,
                    required: p.default == Default::Required && !(p.optional && p.keyword_only),
                    number_ok: p.ty == Ty::Tensor
                        && numbers
                        && !p.mutated
                        && p.name != "condition"
                        && !(i == 0 && (in_place || begins_with_tensor(schema.name.as_str()))),
                    default: p.default.argument(p.ty),
                }
            })
            .collect();
        let positional = schema.positional;
        let own = usize::from(params.first().is_some_and(|p| p.text == "self" && p.ty == Ty::Tensor));
        let varargs = (positional == own + 1 && matches!(params[own].ty, Ty::IntList(0))).then_some(own);
        let tensors = params.iter().any(|p| matches!(p.ty, Ty::Tensor | Ty::TensorList));
        let new_on = params.iter().position(|p| p.ty == Ty::Device && !tensors);
        let needs_tensor = params.len() >= 2
            && params[0].number_ok
            && params[1].number_ok
            && !takes_only_numbers(schema.name.trim_end_matches('_'));
        let makes = params.iter().any(|p| p.ty == Ty::Device) && !schema.name.starts_with('_');
        Overload {
            row,
            form: if in_place { Form::InPlace } else { Form::Plain },
            method,
            out: row.has_out && !in_place,
            params,
            positional,
            varargs,
            new_on,
            makes,
            needs_tensor,
        }
    }
}

/// Lists that did not fit the stack; kept until the call is over.
enum Owned {
    Tensors(#[allow(dead_code)] Box<[Option<Tensor>]>), // read through the pointers that arguments hold, as the next two
    Ints(#[allow(dead_code)] Box<[i64]>),
    Floats(#[allow(dead_code)] Box<[f64]>),
}

/// The values of a call. Stays where it was made: its arguments point into it.
pub struct Parsed {
    values: [MaybeUninit<Arg<'static>>; MAX_PARAMS],
    filled: usize,
    ints: [MaybeUninit<i64>; STACK_INTS],
    ints_used: usize,
    owned: Vec<Owned>,
    /// Elements of all tensors and sizes seen: how big the work is.
    pub elements: usize,
    /// Whether an argument's type takes calls over.
    pub overridden: bool,
    /// The `out=` argument, borrowed.
    pub out: *mut PyObject,
    /// The `requires_grad=` argument.
    pub requires_grad: bool,
}

impl Parsed {
    /// Room for a call.
    #[inline(always)]
    pub fn new() -> Parsed {
        Parsed {
            values: [const { MaybeUninit::uninit() }; MAX_PARAMS],
            filled: 0,
            ints: [const { MaybeUninit::uninit() }; STACK_INTS],
            ints_used: 0,
            owned: Vec::new(),
            elements: 0,
            overridden: false,
            out: null_mut(),
            requires_grad: false,
        }
    }
    /// The values.
    #[inline(always)]
    pub fn args(&self) -> &[Arg<'_>] {
        // SAFETY: `filled` values were written; they live as long as `self` and the call's arguments.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr().cast(), self.filled) }
    }
    #[inline(always)]
    fn reset(&mut self) {
        self.filled = 0;
        self.ints_used = 0;
        self.elements = 0;
        self.overridden = false;
        self.out = null_mut();
        self.requires_grad = false;
        if !self.owned.is_empty() {
            self.owned.clear();
        }
    }
    fn keep_ints(&mut self, v: Vec<i64>) -> Arg<'static> {
        let v = v.into_boxed_slice();
        let p: *const [i64] = &*v;
        self.owned.push(Owned::Ints(v));
        // SAFETY: the box does not move when the vector grows, and is freed after the last use of the arguments.
        Arg::Ints(unsafe { &*p })
    }
}

/// A call as the interpreter passes it.
#[derive(Clone, Copy)]
pub struct Call {
    /// The tensor of a method call, or null.
    pub receiver: *mut PyObject,
    /// Positional and then keyword arguments.
    pub args: *const *mut PyObject,
    /// Number of positional ones.
    pub positional: usize,
    /// Names of the keyword ones, a tuple, or null.
    pub names: *mut PyObject,
}

impl Call {
    /// # Safety
    /// `i` is less than the number of all arguments.
    #[inline(always)]
    unsafe fn arg(&self, i: usize) -> *mut PyObject {
        // SAFETY: by the contract.
        unsafe { *self.args.add(i) }
    }
    #[inline(always)]
    fn keywords(&self) -> usize {
        // SAFETY: null or a tuple.
        if self.names.is_null() { 0 } else { unsafe { PyTuple_Size(self.names) as usize } }
    }
    /// # Safety
    /// `i < self.keywords()`.
    #[inline(always)]
    unsafe fn keyword(&self, i: usize) -> *mut PyObject {
        // SAFETY: by the contract.
        unsafe { PyTuple_GetItem(self.names, i as Py_ssize_t) }
    }
    fn find(&self, p: &Parameter, n: usize) -> *mut PyObject {
        // SAFETY: `i` is below the number of keywords; their values follow the positional arguments.
        unsafe {
            for i in 0..n {
                let k = self.keyword(i);
                if p.name.is(k) || p.also.iter().any(|a| a.is(k)) {
                    return self.arg(self.positional + i);
                }
            }
            for i in 0..n {
                let k = self.keyword(i);
                if p.name.equals(k) || p.also.iter().any(|a| a.equals(k)) {
                    return self.arg(self.positional + i);
                }
            }
        }
        null_mut()
    }
    /// Every argument object, the receiver first.
    pub fn operands(&self) -> Vec<*mut PyObject> {
        let n = self.positional + self.keywords();
        // SAFETY: within the arguments.
        let given = (0..n).map(|i| unsafe { self.arg(i) });
        (!self.receiver.is_null()).then_some(self.receiver).into_iter().chain(given).collect()
    }
}

impl Overload {
    /// Fills `out` from a call; `false` when the call is not of this form.
    #[inline(always)]
    pub fn parse(&self, call: &Call, out: &mut Parsed) -> bool {
        out.reset();
        let own = usize::from(!call.receiver.is_null());
        let mut given = call.positional + own;
        let mut keywords_left = call.keywords();
        let keywords = keywords_left;
        let all_in_one = match self.varargs {
            // SAFETY: there is a positional argument.
            Some(v) if v == own && call.positional > 0 && unsafe { looks_like_int(call.arg(0)) } => {
                given = own + 1;
                true
            }
            _ if given > self.positional => return false,
            _ => false,
        };
        if keywords_left > 0 && ((self.out && own == 0) || self.makes) {
            for i in 0..keywords {
                // SAFETY: within the keywords.
                unsafe {
                    let (name, o) = (call.keyword(i), call.arg(call.positional + i));
                    if self.out && own == 0 && names::out().matches(name) {
                        out.out = if o == none() { null_mut() } else { o };
                        keywords_left -= 1;
                    } else if self.makes && names::requires_grad().matches(name) {
                        out.requires_grad = o == Py_True();
                        if PyBool_Check(o) == 0 {
                            return false;
                        }
                        keywords_left -= 1;
                    }
                }
            }
        }
        for (i, p) in self.params.iter().enumerate() {
            // SAFETY: an index below `given` is the receiver or a positional argument.
            let o = unsafe {
                if i < own {
                    call.receiver
                } else if i < given {
                    call.arg(i - own)
                } else if keywords_left > 0 {
                    let o = call.find(p, keywords);
                    keywords_left -= usize::from(!o.is_null());
                    o
                } else {
                    null_mut()
                }
            };
            let value = if o.is_null() {
                if p.required {
                    return false;
                }
                p.default
            } else if all_in_one && i == own {
                // SAFETY: all positional arguments.
                match unsafe { int_list((0..call.positional).map(|k| call.arg(k)), call.positional, out) } {
                    Some(v) => v,
                    None => return false,
                }
            } else {
                // SAFETY: an object that the caller holds.
                match unsafe { convert(p, o, out) } {
                    Some(v) => v,
                    None => return false,
                }
            };
            out.values[i].write(value);
        }
        out.filled = self.params.len();
        if self.needs_tensor {
            // SAFETY: both were written above.
            let numbers = unsafe {
                matches!((out.values[0].assume_init(), out.values[1].assume_init()), (Arg::Scalar(_), Arg::Scalar(_)))
            };
            if numbers {
                return false;
            }
        }
        if let Some(i) = self.new_on {
            // SAFETY: written above.
            if matches!(unsafe { out.values[i].assume_init() }, Arg::None)
                && let Some(d) = device::current_default()
            {
                out.values[i].write(Arg::Device(d));
            }
            // SAFETY: written above.
            if let Arg::Ints(size) = unsafe { out.values[0].assume_init() } {
                out.elements = size.iter().fold(1usize, |a, n| a.saturating_mul((*n).max(0) as usize));
            }
        }
        keywords_left == 0
    }
}

mod names {
    use super::Interned;
    use std::sync::OnceLock;
    static OUT: OnceLock<Interned> = OnceLock::new();
    static REQUIRES_GRAD: OnceLock<Interned> = OnceLock::new();
    /// `requires_grad`.
    #[inline]
    pub(super) fn requires_grad() -> Interned {
        *REQUIRES_GRAD.get_or_init(|| Interned::new("requires_grad"))
    }
    /// `out`.
    #[inline]
    pub(super) fn out() -> Interned {
        *OUT.get_or_init(|| Interned::new("out"))
    }
}

#[inline(always)]
fn none() -> *mut PyObject {
    // SAFETY: a constant of the interpreter.
    unsafe { Py_None() }
}

/// # Safety
/// `o` is an object.
#[inline(always)]
unsafe fn is_int(o: *mut PyObject) -> bool {
    // SAFETY: by the contract.
    unsafe { PyLong_Check(o) != 0 && PyBool_Check(o) == 0 }
}

/// # Safety
/// `o` is an object.
unsafe fn looks_like_int(o: *mut PyObject) -> bool {
    // SAFETY: by the contract. A tensor of one integer, and NumPy's integers, have `__index__`.
    unsafe {
        is_int(o)
            || PyBool_Check(o) == 0
                && if is_tensor(o) {
                    tensor_of(o).dims().is_empty() && !tensor_of(o).dtype().is_float()
                } else {
                    PyIndex_Check(o) != 0
                }
    }
}

/// An integer, or `None` when `o` is not one that fits 64 bits.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn int(o: *mut PyObject) -> Option<i64> {
    // SAFETY: by the contract.
    unsafe {
        if is_int(o) {
            let v = PyLong_AsLongLong(o);
            if v == -1 && !PyErr_Occurred().is_null() {
                PyErr_Clear();
                return None;
            }
            return Some(v);
        }
        int_slow(o)
    }
}

#[cold]
unsafe fn int_slow(o: *mut PyObject) -> Option<i64> {
    // SAFETY: as `int`.
    unsafe {
        if !looks_like_int(o) {
            return None;
        }
        let i = PyNumber_Index(o);
        if i.is_null() {
            PyErr_Clear();
            return None;
        }
        let v = PyLong_AsLongLong(i);
        Py_DECREF(i);
        if v == -1 && !PyErr_Occurred().is_null() {
            PyErr_Clear();
            return None;
        }
        Some(v)
    }
}

/// A number: Python's, NumPy's, or a tensor of one element that needs no gradient.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn number(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: by the contract.
    unsafe {
        if PyFloat_Check(o) != 0 {
            return Some(Scalar::Float(PyFloat_AsDouble(o)));
        }
        if PyBool_Check(o) != 0 {
            return Some(Scalar::Bool(o == Py_True()));
        }
        if PyLong_Check(o) != 0 {
            return int(o).map(Scalar::Int);
        }
        number_slow(o)
    }
}

/// A number that is no tensor.
///
/// # Safety
/// `o` is an object.
#[inline(always)]
pub unsafe fn plain_number(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: by the contract.
    unsafe { if is_tensor(o) { None } else { number(o) } }
}

#[cold]
unsafe fn number_slow(o: *mut PyObject) -> Option<Scalar> {
    // SAFETY: as `number`.
    unsafe {
        if is_tensor(o) {
            let t = tensor_of(o);
            return if t.dims().is_empty() && !t.requires_grad() { t.item().ok() } else { None };
        }
        if PyIndex_Check(o) != 0 {
            return int_slow(o).map(Scalar::Int);
        }
        // NumPy's scalars; strings and sequences have no `__float__`, arrays of one element do but are no numbers.
        let py_float = PyType_GetSlot(Py_TYPE(o), Py_nb_float);
        if py_float.is_null() || PySequence_Check(o) != 0 || PyComplex_Check(o) != 0 {
            return None;
        }
        if crate::convert::is_numpy_bool(o) {
            return Some(Scalar::Bool(PyObject_IsTrue(o) == 1));
        }
        let v = PyFloat_AsDouble(o);
        if v == -1.0 && !PyErr_Occurred().is_null() {
            PyErr_Clear();
            return None;
        }
        Some(Scalar::Float(v))
    }
}

/// # Safety
/// `items` gives `n` objects.
#[inline(always)]
unsafe fn int_list(items: impl Iterator<Item = *mut PyObject>, n: usize, out: &mut Parsed) -> Option<Arg<'static>> {
    // SAFETY: by the contract; the slice is written before it is read and lives in `out`.
    unsafe {
        if out.ints_used + n <= STACK_INTS {
            let start = out.ints_used;
            for o in items {
                out.ints[out.ints_used].write(int(o)?);
                out.ints_used += 1;
            }
            return Some(Arg::Ints(std::slice::from_raw_parts(out.ints.as_ptr().add(start).cast(), n)));
        }
        let v = items.map(|o| int(o)).collect::<Option<Vec<i64>>>()?;
        Some(out.keep_ints(v))
    }
}

/// Items of a tuple or list.
///
/// # Safety
/// `o` is an object; it is not changed while the items are in use.
unsafe fn sequence(o: *mut PyObject) -> Option<(usize, impl Fn(usize) -> *mut PyObject)> {
    // SAFETY: by the contract; the index is below the length.
    unsafe {
        let tuple = PyTuple_Check(o) != 0;
        if !tuple && PyList_Check(o) == 0 {
            return None;
        }
        let n = if tuple { PyTuple_Size(o) } else { PyList_Size(o) } as usize;
        Some((
            n,
            move |i: usize| {
                if tuple { PyTuple_GetItem(o, i as Py_ssize_t) } else { PyList_GetItem(o, i as Py_ssize_t) }
            },
        ))
    }
}

/// # Safety
/// `o` is an object that outlives the use of the arguments.
#[inline(always)]
unsafe fn convert(p: &Parameter, o: *mut PyObject, out: &mut Parsed) -> Option<Arg<'static>> {
    // SAFETY: by the contract, throughout.
    unsafe {
        match p.ty {
            Ty::Tensor => {
                if is_exact(o) {
                    let t = tensor_of(o);
                    out.elements += t.numel();
                    return Some(Arg::Tensor(t));
                }
                if o != none() {
                    if is_tensor(o) {
                        out.overridden |= torch_function::overrides(o);
                        let t = tensor_of(o);
                        out.elements += t.numel();
                        return Some(Arg::Tensor(t));
                    }
                    return if p.number_ok { number(o).map(Arg::Scalar) } else { None };
                }
            }
            Ty::Int => {
                if let Some(v) = int(o) {
                    return Some(Arg::Scalar(Scalar::Int(v)));
                }
            }
            Ty::Scalar => {
                if let Some(v) = number(o) {
                    return Some(Arg::Scalar(v));
                }
            }
            Ty::Float => {
                if let Some(v) = number(o) {
                    return Some(Arg::Scalar(Scalar::Float(v.to_f64())));
                }
            }
            Ty::Bool => {
                if PyBool_Check(o) != 0 {
                    return Some(Arg::Scalar(Scalar::Bool(o == Py_True())));
                }
            }
            Ty::IntList(n) => {
                if let Some((len, item)) = sequence(o) {
                    return int_list((0..len).map(item), len, out);
                }
                if n > 0 && looks_like_int(o) {
                    return int_list(std::iter::repeat_n(o, n.into()), n.into(), out);
                }
            }
            _ => {
                if o != none() {
                    return convert_rare(p, o, out);
                }
            }
        }
        if p.optional && o == none() { Some(Arg::None) } else { None }
    }
}

#[inline(never)]
unsafe fn convert_rare(p: &Parameter, o: *mut PyObject, out: &mut Parsed) -> Option<Arg<'static>> {
    // SAFETY: as `convert`.
    unsafe {
        match p.ty {
            Ty::TensorList => {
                let (n, item) = sequence(o)?;
                let mut list = Vec::with_capacity(n);
                for i in 0..n {
                    let e = item(i);
                    if is_tensor(e) {
                        out.overridden |= !is_exact(e) && torch_function::overrides(e);
                        out.elements += tensor_of(e).numel();
                        list.push(Some(tensor_of(e).clone()));
                    } else if e == none() {
                        list.push(None);
                    } else {
                        return None;
                    }
                }
                let list = list.into_boxed_slice();
                let slice: *const [Option<Tensor>] = &*list;
                out.owned.push(Owned::Tensors(list));
                Some(Arg::Tensors(&*slice))
            }
            Ty::FloatList => {
                let (n, item) = sequence(o)?;
                let list = (0..n).map(|i| number(item(i)).map(Scalar::to_f64)).collect::<Option<Box<[f64]>>>()?;
                let slice: *const [f64] = &*list;
                out.owned.push(Owned::Floats(list));
                Some(Arg::Floats(&*slice))
            }
            Ty::Str => string(o).map(Arg::Str),
            Ty::DType => dtype::extract(o).map(Arg::DType),
            Ty::Device => device::extract(o).ok()?.map(Arg::Device),
            Ty::Layout => dtype::is_default_layout(o).then_some(Arg::None),
            Ty::Generator => random::extract(o).map(Arg::Generator),
            _ => None,
        }
    }
}

/// The text of a string object, borrowed from it.
///
/// # Safety
/// `o` is an object that outlives the text.
pub unsafe fn string<'a>(o: *mut PyObject) -> Option<&'a str> {
    // SAFETY: by the contract; Python gives UTF-8.
    unsafe {
        if PyUnicode_Check(o) == 0 {
            return None;
        }
        let mut n = 0;
        let p = PyUnicode_AsUTF8AndSize(o, &mut n);
        if p.is_null() {
            PyErr_Clear();
            return None;
        }
        Some(std::str::from_utf8_unchecked(std::slice::from_raw_parts(p.cast(), n as usize)))
    }
}

// ---- what went wrong, in PyTorch's words

/// The name of an object's type, as messages print it.
///
/// # Safety
/// `o` is an object.
pub unsafe fn type_name(o: *mut PyObject) -> String {
    pyo3::Python::attach(|py| {
        // SAFETY: by the contract.
        let o = unsafe { pyo3::Bound::from_borrowed_ptr(py, o) };
        use pyo3::types::{PyAnyMethods, PyTypeMethods};
        let ty = o.get_type();
        let name = ty.name().map_or_else(|_| "object".into(), |n| n.to_string());
        match ty.module() {
            Ok(m) if m == "torch" && name != "Tensor" => format!("torch.{name}"),
            Ok(m) if m == "numpy" => format!("numpy.{name}"),
            _ => name,
        }
    })
}

fn type_text(p: &Parameter) -> String {
    match p.ty {
        Ty::Tensor => "Tensor".into(),
        Ty::TensorList => "tuple of Tensors".into(),
        Ty::Int => "int".into(),
        Ty::IntList(_) => "tuple of ints".into(),
        Ty::Scalar => "Number".into(),
        Ty::Float => "float".into(),
        Ty::FloatList => "tuple of floats".into(),
        Ty::Bool => "bool".into(),
        Ty::Str => "str".into(),
        Ty::DType => "torch.dtype".into(),
        Ty::Device => "torch.device".into(),
        Ty::Layout => "torch.layout".into(),
        Ty::Generator => "torch.Generator".into(),
    }
}

enum Problem {
    Count,
    Missing(Vec<usize>),
    /// Parameter, the object, its position if it has one.
    Type(usize, *mut PyObject, Option<usize>),
    /// One of the arguments that together are a list of integers, and its place.
    Item(usize, *mut PyObject, usize),
    UnknownKeyword(*mut PyObject),
    Twice(usize),
    Device(torchtpu_tensor::Error),
}

impl Overload {
    fn shown(&self, i: usize, method: bool) -> &str {
        if i == 0 && !method && self.params[0].text == "self" { "input" } else { &self.params[i].text }
    }

    /// Why a call does not fit; `None` when it does.
    fn problem(&self, call: &Call) -> Option<Problem> {
        let own = usize::from(!call.receiver.is_null());
        let mut out = Parsed::new();
        // SAFETY: objects that the caller holds; indices below their counts.
        unsafe {
            let varargs = self.varargs == Some(own) && call.positional > 0 && looks_like_int(call.arg(0));
            let given = if varargs { own + 1 } else { call.positional + own };
            if given > self.positional {
                return Some(Problem::Count);
            }
            let keywords = call.keywords();
            let mut missing = Vec::new();
            for (i, p) in self.params.iter().enumerate() {
                let by_name = call.find(p, keywords);
                if i >= own && i < given && !by_name.is_null() {
                    return Some(Problem::Twice(i));
                }
                let (o, at) = if i < own {
                    continue;
                } else if i < given {
                    (call.arg(i - own), Some(i - own + 1))
                } else {
                    (by_name, None)
                };
                if o.is_null() {
                    if p.required {
                        missing.push(i);
                    }
                    continue;
                }
                if varargs && i == own {
                    for k in 0..call.positional {
                        if int(call.arg(k)).is_none() {
                            return Some(Problem::Item(i, call.arg(k), k + 1));
                        }
                    }
                    continue;
                }
                if convert(p, o, &mut out).is_none() {
                    if p.ty == Ty::Device
                        && let Err(e) = device::extract(o)
                    {
                        return Some(Problem::Device(e));
                    }
                    return Some(Problem::Type(i, o, at));
                }
            }
            if !missing.is_empty() {
                return Some(Problem::Missing(missing));
            }
            for i in 0..keywords {
                let k = call.keyword(i);
                let known = self.params.iter().any(|p| p.name.equals(k) || p.also.iter().any(|a| a.equals(k)));
                let extra = (self.out && own == 0 && names::out().equals(k))
                    || (self.makes && names::requires_grad().equals(k));
                if !known && !extra {
                    return Some(Problem::UnknownKeyword(k));
                }
            }
        }
        None
    }

    /// Whether the number of arguments alone does not rule it out.
    fn plausible(&self, call: &Call) -> bool {
        let own = usize::from(!call.receiver.is_null());
        let n = call.positional + call.keywords();
        let max = self.params.len() - own + usize::from(self.out && own == 0) + usize::from(self.makes);
        let min = self.params.iter().skip(own).filter(|p| p.required).count();
        (n >= min && n <= max) || self.varargs == Some(own)
    }

    fn signature(&self, method: bool) -> String {
        let mut parts = Vec::new();
        let mut star = false;
        for (i, p) in self.params.iter().enumerate().skip(usize::from(method)) {
            if p.keyword_only && !star {
                parts.push("*".to_string());
                star = true;
            }
            let default = match (p.required, &p.default) {
                (true, _) => String::new(),
                (_, Arg::None) => " = None".into(),
                (_, Arg::Scalar(Scalar::Bool(b))) => format!(" = {}", if *b { "True" } else { "False" }),
                (_, Arg::Scalar(Scalar::Int(v))) => format!(" = {v}"),
                (_, Arg::Scalar(Scalar::Float(v))) => format!(" = {v:?}"),
                (_, Arg::Str(s)) => format!(" = \"{s}\""),
                (_, Arg::Ints(v)) => format!(" = {v:?}"),
                _ => String::new(),
            };
            parts.push(format!("{} {}{default}", type_text(p), self.shown(i, method)));
        }
        if self.out && !method {
            if !star {
                parts.push("*".into());
                star = true;
            }
            let many = self.row.schema.rsplit("->").next().is_some_and(|r| r.contains(','));
            parts.push(format!("{} out = None", if many { "tuple of Tensors" } else { "Tensor" }));
        }
        if self.makes {
            if !star {
                parts.push("*".into());
            }
            parts.push("bool requires_grad = False".into());
        }
        format!("({})", parts.join(", "))
    }

    fn explain(&self, name: &str, problem: Problem, call: &Call) -> pyo3::PyErr {
        let method = !call.receiver.is_null();
        let own = usize::from(method);
        // SAFETY: objects that the caller holds.
        let text = |o: *mut PyObject| unsafe { type_name(o) };
        match problem {
            Problem::Device(e) => crate::enter::exception(e),
            Problem::Count => {
                let max = self.positional - own;
                let min = self.params.iter().skip(own).filter(|p| p.required && !p.keyword_only).count();
                if max == 0 {
                    return PyTypeError::new_err(format!(
                        "Tensor.{name}() takes no arguments ({} given)",
                        call.positional
                    ));
                }
                let takes = match (max, min == max) {
                    (1, true) => "1 positional argument".to_string(),
                    (_, true) => format!("{max} positional arguments"),
                    (_, false) => format!("from {min} to {max} positional arguments"),
                };
                let were = if call.positional == 1 { "was" } else { "were" };
                PyTypeError::new_err(format!("{name}() takes {takes} but {} {were} given", call.positional))
            }
            Problem::Missing(m) => {
                let names: Vec<String> = m.iter().map(|i| format!("\"{}\"", self.shown(*i, method))).collect();
                PyTypeError::new_err(format!(
                    "{name}() missing {} required positional arguments: {}",
                    m.len(),
                    names.join(", ")
                ))
            }
            Problem::Twice(i) => {
                PyTypeError::new_err(format!("{name}() got multiple values for argument '{}'", self.shown(i, method)))
            }
            Problem::UnknownKeyword(k) => {
                // SAFETY: a keyword is a string.
                let k = unsafe { string(k) }.unwrap_or("?");
                PyTypeError::new_err(format!("{name}() got an unexpected keyword argument '{k}'"))
            }
            Problem::Item(i, o, at) => PyTypeError::new_err(format!(
                "{name}(): argument '{}' failed to unpack the object at pos {at} with error \"type must be tuple of ints,but got {}\"",
                self.shown(i, method),
                text(o)
            )),
            Problem::Type(i, o, at) => {
                let p = &self.params[i];
                let shown = self.shown(i, method);
                // SAFETY: objects that the caller holds.
                unsafe {
                    if matches!(p.ty, Ty::Int | Ty::Scalar | Ty::Float) && is_int(o) {
                        return PyRuntimeError::new_err("Overflow when unpacking long long");
                    }
                    if let Some((n, item)) = sequence(o) {
                        for k in 0..n {
                            let e = item(k);
                            match p.ty {
                                Ty::TensorList if !is_tensor(e) && e != none() => {
                                    return PyTypeError::new_err(format!(
                                        "expected Tensor as element {k} in argument {}, but got {}",
                                        i - own,
                                        text(e)
                                    ));
                                }
                                Ty::IntList(_) if int(e).is_none() => {
                                    return PyTypeError::new_err(format!(
                                        "{name}(): argument '{shown}' failed to unpack the object at pos {} with error \"type must be tuple of ints,but got {}\"",
                                        k + 1,
                                        text(e)
                                    ));
                                }
                                _ => {}
                            }
                        }
                    }
                }
                let position = at.map_or(String::new(), |n| format!(" (position {n})"));
                PyTypeError::new_err(format!(
                    "{name}(): argument '{shown}'{position} must be {}, not {}",
                    type_text(p),
                    text(o)
                ))
            }
        }
    }
}

/// The error for a call that no overload takes.
#[cold]
pub fn complain(name: &str, overloads: &[Overload], call: &Call) -> Outcome {
    let method = !call.receiver.is_null();
    let of_form: Vec<&Overload> = overloads.iter().filter(|o| o.method || !method).collect();
    let plausible: Vec<&&Overload> = of_form.iter().filter(|o| o.plausible(call)).collect();
    let single = match (of_form.as_slice(), plausible.as_slice()) {
        ([one], _) => Some(*one),
        (_, [one]) => Some(**one),
        _ => None,
    };
    if let Some(o) = single
        && let Some(p) = o.problem(call)
    {
        return Err(o.explain(name, p, call).into());
    }
    for o in &plausible {
        if let Some(Problem::Device(e)) = o.problem(call) {
            return Err(Failure::Error(e));
        }
    }
    // SAFETY: the objects of the call.
    let got: Vec<String> = unsafe {
        (0..call.positional)
            .map(|i| type_name(call.arg(i)))
            .chain((0..call.keywords()).map(|i| {
                format!("{}={}", string(call.keyword(i)).unwrap_or("?"), type_name(call.arg(call.positional + i)))
            }))
            .collect()
    };
    let got = if got.len() == 1 {
        format!("({}, )", got[0]).replace(", )", if call.keywords() == 1 { ", )" } else { ")" })
    } else {
        format!("({})", got.join(", "))
    };
    let mut text = format!("{name}() received an invalid combination of arguments - got {got}, but expected one of:");
    for o in &of_form {
        text.push_str(&format!("\n * {}", o.signature(method)));
        match o.problem(call) {
            Some(Problem::Type(_, bad, _) | Problem::Item(_, bad, _)) => {
                // SAFETY: the objects of the call.
                let marks: Vec<String> = call
                    .operands()
                    .into_iter()
                    .skip(usize::from(method))
                    .map(|a| unsafe { if a == bad { format!("!{}!", type_name(a)) } else { type_name(a) } })
                    .collect();
                text.push_str(&format!(
                    "\n      didn't match because some of the arguments have invalid types: ({})",
                    marks.join(", ")
                ));
            }
            Some(Problem::UnknownKeyword(k)) => {
                // SAFETY: a keyword is a string.
                let k = unsafe { string(k) }.unwrap_or("?");
                text.push_str(&format!("\n      didn't match because some of the keywords were incorrect: {k}"));
            }
            _ => {}
        }
    }
    text.push('\n');
    Err(PyTypeError::new_err(text).into())
}
