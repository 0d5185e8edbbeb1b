//! The function under construction: arguments, values, constants and the printed module.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fmt::Write as _;

use crate::library::{Library, push_libraries};
use crate::literal::{push_complex, push_dense, push_f64, push_i64, push_integer};
use crate::{Direction, ElementType, Profile, Type};

/// A value of a [`Func`]: an argument or the result of an operation.
///
/// A value is a name and a type, and belongs to the function that made it.
#[derive(Clone, Debug)]
pub struct Value {
    id: u32,
    ty: Type,
}

/// Marks the names of arguments, which are numbered apart from results.
const ARGUMENT: u32 = 1 << 31;

impl Value {
    /// The type of this value.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The sizes of this value's dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    /// The type of this value's elements.
    pub fn element(&self) -> ElementType {
        self.ty.element
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.ty.rank()
    }

    /// Return whether this is an argument of the program, rather than computed in it.
    pub fn is_argument(&self) -> bool {
        self.id & ARGUMENT != 0
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_argument() { write!(f, "%a{}", self.id & !ARGUMENT) } else { write!(f, "%{}", self.id) }
    }
}

#[derive(Debug)]
struct Argument {
    ty: Type,
    attributes: Vec<(String, String)>,
}

/// Precision of `float32` matrix products on an accelerator whose units multiply `bfloat16`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Precision {
    /// The precision of `float32`: six passes on a TPU.
    #[default]
    Highest,
    /// Sums of two `bfloat16` for each operand: three passes.
    High,
    /// Operands rounded to `bfloat16`: one pass.
    Medium,
}

impl Precision {
    /// The attribute's value in StableHLO.
    pub fn mlir(self) -> &'static str {
        match self {
            Precision::Highest => "HIGHEST",
            Precision::High => "HIGH",
            Precision::Medium => "DEFAULT",
        }
    }
}

/// The body of `@main`, built one operation at a time.
///
/// Every method appends operations and returns the value that they compute. An operand of the wrong shape or type is a
/// bug of the caller: the method panics and cites the violated constraint of the StableHLO specification.
#[derive(Default, Debug)]
pub struct Func {
    args: Vec<Argument>,
    body: String,
    next: u32,
    /// Constants by their text, so that each is printed only once.
    constants: HashMap<String, Value>,
    profile: Profile,
    /// Precision of `float32` products, if it was set.
    precision: Option<Precision>,
    /// Number of products that ask for it.
    precise: usize,
    /// Number of custom calls.
    pub(crate) calls: usize,
    /// The values that the next custom call waits for.
    pub(crate) call_after: Vec<Value>,
    /// The value that depends on all ordered calls so far.
    pub(crate) token: Option<Value>,
    /// Positions of elements, by the names of values.
    windows: HashMap<u32, Window>,
    /// The names of integer values that have no element of zero.
    nonzero: HashSet<u32>,
    /// The operands of reshapes, by the names of results.
    reshaped: HashMap<u32, Value>,
    /// The libraries whose functions the program calls.
    pub(crate) libraries: Vec<Library>,
    /// See [`Func::set_ranks`].
    pub(crate) ranks: Vec<usize>,
}

/// The position of a value's elements in another value, which is row-major.
#[derive(Clone, Debug)]
pub struct Window {
    /// The other value.
    pub of: Value,
    /// Index of the first element.
    pub offset: usize,
    /// Distances of neighbors along each dimension, in elements.
    pub strides: Vec<usize>,
}

/// The state that [`Func::enter_region`] puts aside.
pub(crate) struct Outside {
    body: String,
    constants: HashMap<String, Value>,
}

impl Func {
    /// Make a function without arguments and operations.
    pub fn new() -> Func {
        Func::default()
    }

    /// Make a function for the compiler of one platform.
    pub fn with_profile(profile: &Profile) -> Func {
        Func { profile: *profile, ..Func::default() }
    }

    /// Return the capabilities of the platform that it is for.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Set the precision of later `float32` products, if the platform [multiplies in passes](Profile). Others always
    /// multiply in `float32`, so their programs do not set it.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = Some(precision);
    }

    /// Return the number of products so far that ask for the precision that was set.
    pub fn precise_products(&self) -> usize {
        self.precise
    }

    /// Return the default precision of a product of `e`. Products of 16-bit floats never need more passes.
    pub(crate) fn product_precision(&mut self, e: ElementType) -> Option<&'static str> {
        let asks = matches!(e, ElementType::F32 | ElementType::C64) && self.profile.multiplies_in_passes;
        let precision = self.precision.filter(|_| asks)?;
        self.precise += 1;
        Some(precision.mlir())
    }

    /// Add an argument. Arguments are numbered in the order of these calls.
    pub fn arg(&mut self, ty: Type) -> Value {
        let id = ARGUMENT | self.args.len() as u32;
        self.args.push(Argument { ty: ty.clone(), attributes: Vec::new() });
        Value { id, ty }
    }

    /// Return the number of arguments so far.
    pub fn arg_count(&self) -> usize {
        self.args.len()
    }

    /// Return the number of results of operations so far: a measure of the module's size.
    pub fn value_count(&self) -> usize {
        self.next as usize
    }

    /// Make result `out` take the memory of argument `arg`. The caller donates the buffer.
    pub fn alias_output(&mut self, arg: usize, out: usize) {
        self.set_arg_attribute(arg, "tf.aliasing_output", &format!("{out} : i32"));
    }

    /// Return whether an op may take the memory of `v` for a result: whether it is not an argument that the caller
    /// keeps.
    pub fn is_ours(&self, v: &Value) -> bool {
        let is_given = |a: &Argument| a.attributes.iter().any(|(name, _)| name == "tf.aliasing_output");
        v.id & ARGUMENT == 0 || is_given(&self.args[(v.id & !ARGUMENT) as usize])
    }

    /// Record the position of the elements of `v` in another value, so that an op that reads strided memory can use
    /// that value without a copy.
    pub fn set_window(&mut self, v: &Value, window: Window) {
        self.windows.insert(v.id, window);
    }

    /// Record that `y` is `x` with another shape.
    pub(crate) fn note_reshape(&mut self, y: &Value, x: &Value) {
        self.reshaped.insert(y.id, x.clone());
    }

    /// Return the value that `v` is a reshape of, if it is one.
    pub(crate) fn reshaped(&self, v: &Value) -> Option<&Value> {
        self.reshaped.get(&v.id)
    }

    /// Return the recorded position of the elements of `v`.
    pub fn window(&self, v: &Value) -> Option<&Window> {
        self.windows.get(&v.id)
    }

    /// Attach an attribute to argument `arg`, for example `mhlo.sharding`. `value` is MLIR text.
    pub fn set_arg_attribute(&mut self, arg: usize, name: &str, value: &str) {
        let count = self.args.len();
        let Some(argument) = self.args.get_mut(arg) else {
            panic!("func: argument {arg} of {count} does not exist");
        };
        argument.attributes.retain(|(old, _)| old != name);
        argument.attributes.push((name.to_string(), value.to_string()));
    }

    /// Print the module `name`, whose `@main` returns `outputs`. The same calls give the same text.
    pub fn finish(self, name: &str, outputs: &[Value]) -> String {
        let mut text = String::with_capacity(self.body.len() + 128 * (self.args.len() + outputs.len()) + 128);
        text.push_str("module @");
        push_symbol(&mut text, name);
        text.push_str(" {\n  func.func public @main(");
        for (i, arg) in self.args.iter().enumerate() {
            put(&mut text, format_args!("{}%a{i}: {}", if i > 0 { ", " } else { "" }, arg.ty));
            for (j, (name, value)) in arg.attributes.iter().enumerate() {
                put(&mut text, format_args!("{}{name} = {value}", if j > 0 { ", " } else { " {" }));
            }
            if !arg.attributes.is_empty() {
                text.push('}');
            }
        }
        put(&mut text, format_args!(") -> ({}) {{\n", Types(outputs)));
        text.push_str(&self.body);
        if outputs.is_empty() {
            text.push_str("    return\n");
        } else {
            put(&mut text, format_args!("    return {} : {}\n", List(outputs), Types(outputs)));
        }
        text.push_str("  }\n");
        push_libraries(&mut text, &self.libraries);
        text.push_str("}\n");
        text
    }

    // Appending operations.

    /// Append `%n = text` and return `%n`.
    pub(crate) fn op(&mut self, ty: &Type, text: fmt::Arguments<'_>) -> Value {
        let value = self.fresh(ty);
        put(&mut self.body, format_args!("    {value} = {text}\n"));
        value
    }

    /// Append `%n, %m = text` and return the results.
    pub(crate) fn op_many(&mut self, types: &[Type], text: fmt::Arguments<'_>) -> Vec<Value> {
        let values: Vec<Value> = types.iter().map(|ty| self.fresh(ty)).collect();
        if values.is_empty() {
            put(&mut self.body, format_args!("    {text}\n"));
        } else {
            put(&mut self.body, format_args!("    {} = {text}\n", List(&values)));
        }
        values
    }

    pub(crate) fn fresh(&mut self, ty: &Type) -> Value {
        let id = self.next;
        self.next += 1;
        Value { id, ty: ty.clone() }
    }

    /// Append to a region from now on. The region may use constants of the outside, but not the reverse.
    pub(crate) fn enter_region(&mut self) -> Outside {
        Outside { body: std::mem::take(&mut self.body), constants: self.constants.clone() }
    }

    /// Return the text of the region, and append to the outside again.
    pub(crate) fn leave_region(&mut self, outside: Outside) -> String {
        self.constants = outside.constants;
        std::mem::replace(&mut self.body, outside.body)
    }

    /// Return an operation without operands. It is printed at the first request and shared afterwards.
    fn constant(&mut self, ty: &Type, text: String) -> Value {
        if let Some(value) = self.constants.get(&text) {
            return value.clone();
        }
        let value = self.op(ty, format_args!("{text}"));
        self.constants.insert(text, value.clone());
        value
    }

    fn constant_with(&mut self, ty: &Type, write: impl FnOnce(&mut String)) -> Value {
        let mut text = String::from("stablehlo.constant ");
        write(&mut text);
        put(&mut text, format_args!(" : {ty}"));
        self.constant(ty, text)
    }

    // Constants.

    /// The number `v` as a tensor without dimensions.
    ///
    /// Integer types take the integral part. A number outside of their range panics (`constant (C1)`). Booleans are `v
    /// != 0`.
    pub fn scalar(&mut self, v: f64, e: ElementType) -> Value {
        self.splat(v, &Type::new(&[], e))
    }

    /// The integer `v` as a tensor without dimensions, exact in every integer type.
    pub fn scalar_i64(&mut self, v: i64, e: ElementType) -> Value {
        self.dense_i64(&[v], &[], e)
    }

    /// The number `v` in every element.
    pub fn splat(&mut self, v: f64, ty: &Type) -> Value {
        let at = if ty.shape.contains(&0) { &[0][..] } else { &[] };
        self.constant_with(ty, |text| push_dense(text, at, |text, _| push_f64(text, v, ty.element)))
    }

    /// The integer `v` in every element, exact in every integer type.
    pub fn splat_i64(&mut self, v: i64, ty: &Type) -> Value {
        let at = if ty.shape.contains(&0) { &[0][..] } else { &[] };
        let value = self.constant_with(ty, |text| push_dense(text, at, |text, _| push_i64(text, v, ty.element)));
        if v != 0 {
            self.nonzero.insert(value.id);
        }
        value
    }

    /// The integers `x`, with 1 in place of each 0. A division by this value is defined everywhere.
    ///
    /// Compilers may compute a division before the program runs, and StableHLO's own folding of `0 / 0` ends the
    /// process by a signal. So a division must be safe by itself, whatever is known about its operands.
    pub fn nonzero(&mut self, x: &Value) -> Value {
        if self.nonzero.contains(&x.id) {
            return x.clone();
        }
        let (zero, one) = (self.splat_i64(0, x.ty()), self.splat_i64(1, x.ty()));
        let is_zero = self.compare(Direction::Eq, x, &zero);
        let value = self.select(&is_zero, &one, x);
        self.nonzero.insert(value.id);
        value
    }

    /// The complex number `re + im i` in every element.
    pub fn splat_complex(&mut self, re: f64, im: f64, ty: &Type) -> Value {
        assert!(ty.element.is_complex(), "constant (C1): ({re}, {im}) is not a value of {}", ty.element.mlir());
        let at = if ty.shape.contains(&0) { &[0][..] } else { &[] };
        self.constant_with(ty, |text| push_dense(text, at, |text, _| push_complex(text, re, im, ty.element)))
    }

    /// The elements of `data` in row-major order. Meant for small constants: each element is printed.
    pub fn dense_i64(&mut self, data: &[i64], shape: &[usize], e: ElementType) -> Value {
        let ty = Type::new(shape, e);
        check_count(data.len(), &ty);
        self.constant_with(&ty, |text| push_dense(text, shape, |text, i| push_i64(text, data[i], e)))
    }

    /// The elements of `data` in row-major order. Meant for small constants: each element is printed.
    pub fn dense_f64(&mut self, data: &[f64], shape: &[usize], e: ElementType) -> Value {
        let ty = Type::new(shape, e);
        check_count(data.len(), &ty);
        self.constant_with(&ty, |text| push_dense(text, shape, |text, i| push_f64(text, data[i], e)))
    }

    /// Count 0, 1, 2, ... along `dim`.
    pub fn iota(&mut self, ty: &Type, dim: usize) -> Value {
        assert!(dim < ty.rank(), "iota (C1): dimension {dim} is out of range for {ty}");
        self.constant(ty, format!("stablehlo.iota dim = {dim} : {ty}"))
    }

    /// The least value of `e` as a scalar: minus infinity for floats, `false` for booleans.
    pub fn lowest(&mut self, e: ElementType) -> Value {
        self.extreme(e, false)
    }

    /// The greatest value of `e` as a scalar: infinity for floats, `true` for booleans.
    pub fn highest(&mut self, e: ElementType) -> Value {
        self.extreme(e, true)
    }

    fn extreme(&mut self, e: ElementType, highest: bool) -> Value {
        assert!(!e.is_complex(), "{} has no order, so neither a lowest nor a highest value", e.mlir());
        let ty = Type::new(&[], e);
        match e.integer_range() {
            Some((low, high)) => {
                let v = if highest { high } else { low };
                self.constant_with(&ty, |text| push_dense(text, &[], |text, _| push_integer(text, v, e)))
            }
            None if e == ElementType::Pred => self.splat(f64::from(u8::from(highest)), &ty),
            None => self.splat(if highest { f64::INFINITY } else { f64::NEG_INFINITY }, &ty),
        }
    }
}

fn check_count(count: usize, ty: &Type) {
    assert!(count == ty.numel(), "constant (C1): {count} elements given for {ty}");
}

/// MLIR takes bare identifiers after `@`, so any other name is quoted.
fn push_symbol(text: &mut String, name: &str) {
    let bare = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.$".contains(&b));
    if bare {
        text.push_str(name);
    } else {
        push_quoted(text, name);
    }
}

/// Append an MLIR string literal: escapes are two hex digits.
pub(crate) fn push_quoted(text: &mut String, string: &str) {
    text.push('"');
    for b in string.bytes() {
        if (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\' {
            text.push(char::from(b));
        } else {
            put(text, format_args!("\\{b:02X}"));
        }
    }
    text.push('"');
}

/// Append formatted text.
pub(crate) fn put(text: &mut String, args: fmt::Arguments<'_>) {
    text.write_fmt(args).expect("writing to a string cannot fail");
}

/// A list that prints its items with commas between.
pub(crate) struct List<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// Print `array<i64: 1, 2>`. Without elements there is no colon.
pub(crate) struct Array<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for Array<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "array<i64{}{}>", if self.0.is_empty() { "" } else { ": " }, List(self.0))
    }
}

/// A list that prints the types of values with commas between.
pub(crate) struct Types<'a>(pub(crate) &'a [Value]);

impl fmt::Display for Types<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            value.ty.fmt(f)?;
        }
        Ok(())
    }
}
