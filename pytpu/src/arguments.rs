//! Arguments of a call, parsed by the op's schema.
//!
//! An [`Overload`] is a parsed schema with its names interned and its defaults ready. [`Overload::parse`] fills a
//! [`Parsed`] on the stack and returns whether the call fits. It keeps no reasons. If no overload fits, [`complain`]
//! examines the call again, slowly, and describes the error in PyTorch's words.

mod complaint;
mod fixed;
mod values;

pub use complaint::complain;
pub use fixed::arrange;

use crate::device;
use crate::objects::{looks_like_int, none};
use pyo3::ffi::*;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use torchtpu_tensor::policy::Policies;
use torchtpu_tensor::schema::{Aliasing, Arg, Numbers, Row, Schema, Ty};
use torchtpu_tensor::{Scalar, Tensor};
use values::{convert, int_list};

/// Greatest number of parameters of a schema.
pub const MAX_PARAMS: usize = 24;

/// Number of list items on the stack.
const STACK_INTS: usize = 16;

/// An interned Python string that lives forever.
#[derive(Clone, Copy)]
pub struct Interned(pub *mut PyObject);

// SAFETY: the string is never freed, and is used only with the GIL held.
unsafe impl Send for Interned {}

// SAFETY: threads share the pointer only, and use the string with the GIL held.
unsafe impl Sync for Interned {}

impl Interned {
    /// Intern a string.
    pub fn new(s: &str) -> Interned {
        // SAFETY: the caller holds the GIL, and the string is valid UTF-8 of the given length.
        unsafe {
            let mut o = PyUnicode_FromStringAndSize(s.as_ptr().cast(), s.len() as Py_ssize_t);
            PyUnicode_InternInPlace(&mut o);
            Interned(o)
        }
    }
    /// Return whether `o`, a string, is this one.
    #[inline]
    fn is(self, o: *mut PyObject) -> bool {
        self.0 == o
    }
    #[cold]
    fn equals(self, o: *mut PyObject) -> bool {
        // SAFETY: both are strings.
        unsafe { PyUnicode_Compare(self.0, o) == 0 }
    }
    /// Return whether `o` has the same text. Names from a dictionary may not be interned.
    #[inline]
    fn matches(self, o: *mut PyObject) -> bool {
        self.is(o) || self.equals(o)
    }
}

/// Interned names of parameters, which many overloads share.
#[derive(Default)]
pub struct Names(HashMap<&'static str, Interned>);

impl Names {
    fn get(&mut self, name: &'static str) -> Interned {
        *self.0.entry(name).or_insert_with(|| Interned::new(name))
    }
}

/// One parameter.
pub struct Parameter {
    name: Interned,
    /// `input` for the `self` of a function, and NumPy's names (`axis` for `dim`).
    also: Option<Interned>,
    text: &'static str,
    ty: Ty,
    optional: bool,
    keyword_only: bool,
    required: bool,
    number_ok: bool,
    default: Arg<'static>,
}

/// The way to serve an overload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// By the row's `call`.
    Plain,
    /// By the row's `inplace`, or derived from `call`: write argument 0 and return it.
    InPlace,
}

/// One overload, ready to be matched.
pub struct Overload {
    /// The row behind it.
    pub row: &'static Row,
    /// The way to serve it.
    pub form: Form,
    /// Whether it is a method of `Tensor`.
    pub method: bool,
    /// Whether it takes `out=`.
    pub out: bool,
    /// Its policy under autocast.
    pub policies: Policies,
    /// Operands that may share memory with `out`.
    pub out_aliasing: Aliasing,
    params: Box<[Parameter]>,
    positional: usize,
    /// The list of integers that all positional arguments together may form: `x.view(2, 3)`.
    varargs: Option<usize>,
    /// The `device` of a function that makes a tensor from nothing.
    new_on: Option<usize>,
    /// Whether it makes a new tensor, and so takes `requires_grad=`.
    makes: bool,
    /// Whether one of the first two arguments must be a tensor although each may be a number.
    needs_tensor: bool,
}

impl Overload {
    /// Prepare a row. `in_place` selects its `name_` form.
    ///
    /// # Errors
    /// If the schema does not parse.
    pub fn new(
        row: &'static Row,
        out_aliasing: Aliasing,
        schema: &Schema<'static>,
        in_place: bool,
        method: bool,
        names: &mut Names,
    ) -> Overload {
        assert!(schema.params.len() <= MAX_PARAMS, "{}: too many parameters", schema.name);
        let params: Box<[Parameter]> = schema
            .params
            .iter()
            .enumerate()
            .map(|(i, p)| {
                let also = match p.name {
                    "self" => Some("input"),
                    "dim" => Some("axis"),
                    "keepdim" => Some("keepdims"),
                    _ => None,
                };
                Parameter {
                    name: names.get(p.name),
                    also: also.map(|name| names.get(name)),
                    text: p.name,
                    ty: p.ty,
                    optional: p.optional,
                    keyword_only: p.keyword_only,
                    required: p.is_required(),
                    number_ok: row.takes_number(schema, i, in_place),
                    default: p.default.argument(p.ty),
                }
            })
            .collect();
        let positional = schema.positional;
        let tensors = params.iter().any(|p| matches!(p.ty, Ty::Tensor | Ty::TensorList));
        let new_on = params.iter().position(|p| p.ty == Ty::Device && !tensors);
        let needs_tensor =
            params.len() >= 2 && params[0].number_ok && params[1].number_ok && row.numbers != Numbers::Both;
        Overload {
            row,
            form: if in_place { Form::InPlace } else { Form::Plain },
            method,
            out: row.has_out && !in_place,
            policies: if in_place { Policies::NONE } else { row.autocast },
            out_aliasing,
            params,
            positional,
            varargs: schema.spread_list(),
            new_on,
            makes: schema.makes_tensor(),
            needs_tensor,
        }
    }
    /// The names of its positional tensors after the first one.
    pub fn tensors_after_first(&self) -> impl Iterator<Item = &str> {
        self.params[1..self.positional].iter().filter(|p| p.ty == Ty::Tensor).map(|p| p.text)
    }
}

/// Lists that did not fit the stack, kept until the call ends.
enum Owned {
    // Arguments point to it, and to the next three.
    Tensors(#[allow(dead_code)] Box<[Option<Tensor>]>),
    Ints(#[allow(dead_code)] Box<[i64]>),
    Floats(#[allow(dead_code)] Box<[f64]>),
    Scalars(#[allow(dead_code)] Box<[Scalar]>),
}

/// The values of a call. It never moves, since its arguments point into it.
pub struct Parsed {
    values: [MaybeUninit<Arg<'static>>; MAX_PARAMS],
    filled: usize,
    ints: [MaybeUninit<i64>; STACK_INTS],
    ints_used: usize,
    owned: Vec<Owned>,
    /// Elements of all tensors and sizes so far: a measure of the work.
    pub elements: usize,
    /// Whether an argument's type takes calls over.
    pub overridden: bool,
    /// The `out=` argument, borrowed.
    pub out: *mut PyObject,
    /// The `requires_grad=` argument.
    pub requires_grad: bool,
}

impl Parsed {
    /// Make room for a call.
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
        // SAFETY: the first `filled` values were written. They live as long as `self` and the call's arguments.
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
        // SAFETY: `i` is less than the number of all arguments.
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
        // SAFETY: `i < self.keywords()`.
        unsafe { PyTuple_GetItem(self.names, i as Py_ssize_t) }
    }
    fn find(&self, p: &Parameter, n: usize) -> *mut PyObject {
        // SAFETY: `i` is below the number of keywords, and the values of keywords follow the positional arguments.
        unsafe {
            for i in 0..n {
                let k = self.keyword(i);
                if p.name.is(k) || p.also.is_some_and(|a| a.is(k)) {
                    return self.arg(self.positional + i);
                }
            }
            for i in 0..n {
                let k = self.keyword(i);
                if p.name.equals(k) || p.also.is_some_and(|a| a.equals(k)) {
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
    /// Return whether it makes a tensor from no other tensor.
    pub fn makes_from_nothing(&self) -> bool {
        self.new_on.is_some()
    }
    /// The place of `dtype=`.
    pub fn dtype_parameter(&self) -> Option<usize> {
        self.params.iter().position(|p| p.ty == Ty::DType && p.text == "dtype")
    }
    /// The place of `device=`.
    pub fn device_parameter(&self) -> Option<usize> {
        self.params.iter().position(|p| p.ty == Ty::Device)
    }
    /// Fill `out` from a call. Return `false` if the call is not of this form.
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
            let given = unsafe { out.values[i].assume_init() };
            if out.out.is_null()
                && matches!(given, Arg::None)
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
