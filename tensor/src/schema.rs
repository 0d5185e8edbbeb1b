//! Aten schema strings, the arguments parsed by them, and the rows of the public table.
//!
//! A [`Row`] is one overload of one public op: its schema, the function that serves it and sample arguments. The Python
//! functions, methods, in-place and `out=` forms, argument errors and the operator page of the docs come from the rows;
//! the table-driven tests iterate the samples.

use crate::{DType, Device, Error, MemoryFormat, Result, Scalar, Tensor};

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    /// A tensor; where the binding allows it, a number.
    Tensor,
    /// A list of tensors; entries may be missing when optional.
    TensorList,
    /// An integer.
    Int,
    /// A list of integers; a single integer stands for that many copies.
    IntList(u8),
    /// A number.
    Scalar,
    /// A list of numbers.
    ScalarList,
    /// A floating-point number.
    Float,
    /// A list of floating-point numbers.
    FloatList,
    /// A truth value.
    Bool,
    /// A string.
    Str,
    /// A dtype.
    DType,
    /// A device.
    Device,
    /// A memory layout; only the default is accepted.
    Layout,
    /// A memory format.
    MemoryFormat,
    /// A random generator.
    Generator,
}

/// Default of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    /// There is none: required.
    Required,
    /// `None`.
    None,
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A string.
    Str(String),
}

impl Default {
    /// The argument that stands for a missing one. Lists and strings are leaked: ask once for each parameter of the table.
    pub fn argument(&self, ty: Ty) -> Arg<'static> {
        match self {
            Default::Required | Default::None => Arg::None,
            Default::Int(i) => match ty {
                Ty::IntList(n) => Arg::Ints(vec![*i; usize::from(n.max(1))].leak()),
                Ty::Float => Arg::Scalar(Scalar::Float(*i as f64)),
                Ty::Bool => Arg::Scalar(Scalar::Bool(*i != 0)),
                _ => Arg::Scalar(Scalar::Int(*i)),
            },
            Default::Float(f) => Arg::Scalar(Scalar::Float(*f)),
            Default::Bool(b) => Arg::Scalar(Scalar::Bool(*b)),
            Default::Ints(v) => Arg::Ints(v.clone().leak()),
            Default::Str(s) => match (ty, s.as_str()) {
                (Ty::Layout | Ty::MemoryFormat | Ty::DType | Ty::Device, _) => Arg::None,
                (_, s) => Arg::Str(s.to_string().leak()),
            },
        }
    }
}

/// One parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Name in the schema; the function form of a method calls `self` `input`.
    pub name: String,
    /// Type.
    pub ty: Ty,
    /// Whether `None` is accepted.
    pub optional: bool,
    /// Whether the function writes it.
    pub mutated: bool,
    /// Whether it must be given by keyword.
    pub keyword_only: bool,
    /// Default.
    pub default: Default,
}

/// A parsed schema.
#[derive(Clone, Debug)]
pub struct Schema {
    /// `add` of `add.Tensor`.
    pub name: String,
    /// `Tensor` of `add.Tensor`; empty when there is none.
    pub overload: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// How many may be given by position.
    pub positional: usize,
}

impl Schema {
    /// Parses `name.overload(Type name=default, *, ...) -> ...`.
    ///
    /// # Errors
    /// `Value`, naming the part that is not understood. Schemas are constants; a test parses all of them.
    pub fn parse(text: &str) -> Result<Schema> {
        let bad = |what: &str| Error::value(format!("schema {text:?}: {what}"));
        let (full, rest) = text.split_once('(').ok_or_else(|| bad("no parameters"))?;
        let end = rest.rfind(") ->").ok_or_else(|| bad("no result"))?;
        let (name, overload) = full.split_once('.').unwrap_or((full, ""));
        let (mut params, mut keyword_only, mut positional) = (Vec::new(), false, 0);
        for part in split_top_level(&rest[..end]) {
            if part == "*" {
                keyword_only = true;
                continue;
            }
            let (decl, default) = match part.split_once('=') {
                Some((d, v)) => (d, Some(v)),
                None => (part, None),
            };
            let (ty, pname) = decl.rsplit_once(' ').ok_or_else(|| bad(part))?;
            let mutated = ty.contains('!');
            let ty = match (ty.find('('), ty.find(')')) {
                (Some(i), Some(j)) if i < j => format!("{}{}", &ty[..i], &ty[j + 1..]),
                _ => ty.to_string(),
            };
            let optional = ty.ends_with('?');
            let ty = match ty.trim_end_matches('?') {
                "Tensor" => Ty::Tensor,
                "Tensor[]" | "Tensor?[]" => Ty::TensorList,
                "int" | "SymInt" => Ty::Int,
                "Scalar" => Ty::Scalar,
                "Scalar[]" => Ty::ScalarList,
                "float" => Ty::Float,
                "float[]" => Ty::FloatList,
                "bool" => Ty::Bool,
                "str" => Ty::Str,
                "ScalarType" => Ty::DType,
                "Device" => Ty::Device,
                "Layout" => Ty::Layout,
                "MemoryFormat" => Ty::MemoryFormat,
                "Generator" => Ty::Generator,
                "int[]" | "SymInt[]" => Ty::IntList(0),
                t if t.starts_with("int[") || t.starts_with("SymInt[") => {
                    let n = t.split_once('[').and_then(|(_, n)| n.strip_suffix(']')).ok_or_else(|| bad(t))?;
                    Ty::IntList(n.parse().map_err(|_| bad(t))?)
                }
                t => return Err(bad(t)),
            };
            let default = match default {
                None => Default::Required,
                Some("None") => Default::None,
                Some("True") => Default::Bool(true),
                Some("False") => Default::Bool(false),
                Some("Mean") => Default::Int(1),
                Some(v) if v.starts_with('[') => {
                    let list = v[1..].strip_suffix(']').ok_or_else(|| bad(v))?;
                    let items = list.split(',').filter(|s| !s.is_empty());
                    Default::Ints(items.map(|s| s.trim().parse().map_err(|_| bad(v))).collect::<Result<_>>()?)
                }
                Some(v) => match (v.parse::<i64>(), v.parse::<f64>()) {
                    (Ok(i), _) => Default::Int(i),
                    (_, Ok(f)) => Default::Float(f),
                    _ => Default::Str(v.trim_matches(['"', '\'']).to_string()),
                },
            };
            if !keyword_only {
                positional += 1;
            }
            params.push(Param { name: pname.to_string(), ty, optional, mutated, keyword_only, default });
        }
        Ok(Schema { name: name.to_string(), overload: overload.to_string(), params, positional })
    }
}

fn split_top_level(s: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in s.bytes().enumerate() {
        match c {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(s[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(s[start..].trim());
    parts.retain(|p| !p.is_empty());
    parts
}

/// One argument.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// Not given, or `None`.
    None,
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number; also where the schema wants a tensor.
    Scalar(Scalar),
    /// Tensors.
    Tensors(&'a [Option<Tensor>]),
    /// Integers.
    Ints(&'a [i64]),
    /// Floating-point numbers.
    Floats(&'a [f64]),
    /// Numbers.
    Scalars(&'a [Scalar]),
    /// A string.
    Str(&'a str),
    /// A dtype.
    DType(DType),
    /// A device.
    Device(Device),
    /// A memory format.
    MemoryFormat(MemoryFormat),
    /// A generator.
    Generator(&'a crate::random::Generator),
}

/// The arguments of a call, in the schema's order, defaults filled in.
#[derive(Clone, Copy)]
pub struct Args<'a>(pub &'a [Arg<'a>]);

/// A tensor or a number, as arithmetic takes them.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number.
    Scalar(Scalar),
}

impl<'a> Args<'a> {
    #[cold]
    fn wrong(&self, i: usize, what: &str) -> Error {
        Error::type_error(format!("argument {i} must be {what}, not {:?}", self.0.get(i)))
    }
    /// A tensor.
    #[inline]
    pub fn tensor(&self, i: usize) -> Result<&'a Tensor> {
        match self.0[i] {
            Arg::Tensor(t) => Ok(t),
            _ => Err(self.wrong(i, "Tensor")),
        }
    }
    /// A tensor or `None`.
    #[inline]
    pub fn opt_tensor(&self, i: usize) -> Result<Option<&'a Tensor>> {
        match self.0[i] {
            Arg::Tensor(t) => Ok(Some(t)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "Tensor")),
        }
    }
    /// A tensor or a number.
    #[inline]
    pub fn operand(&self, i: usize) -> Result<Operand<'a>> {
        match self.0[i] {
            Arg::Tensor(t) => Ok(Operand::Tensor(t)),
            Arg::Scalar(s) => Ok(Operand::Scalar(s)),
            _ => Err(self.wrong(i, "Tensor or Number")),
        }
    }
    /// Tensors, none missing.
    pub fn tensors(&self, i: usize) -> Result<Vec<&'a Tensor>> {
        match self.0[i] {
            Arg::Tensors(t) => {
                let missing =
                    |k| Error::type_error(format!("expected Tensor as element {k} in argument {i}, but got NoneType"));
                t.iter().enumerate().map(|(k, t)| t.as_ref().ok_or_else(|| missing(k))).collect()
            }
            _ => Err(self.wrong(i, "tuple of Tensors")),
        }
    }
    /// Tensors, some of which may be missing.
    pub fn opt_tensors(&self, i: usize) -> Result<&'a [Option<Tensor>]> {
        match self.0[i] {
            Arg::Tensors(t) => Ok(t),
            Arg::None => Ok(&[]),
            _ => Err(self.wrong(i, "tuple of Tensors")),
        }
    }
    /// An integer.
    #[inline]
    pub fn int(&self, i: usize) -> Result<i64> {
        match self.0[i] {
            Arg::Scalar(Scalar::Int(v)) => Ok(v),
            Arg::Scalar(Scalar::Bool(v)) => Ok(v as i64),
            _ => Err(self.wrong(i, "int")),
        }
    }
    /// An integer or `None`.
    #[inline]
    pub fn opt_int(&self, i: usize) -> Result<Option<i64>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.int(i).map(Some) }
    }
    /// A number.
    #[inline]
    pub fn scalar(&self, i: usize) -> Result<Scalar> {
        match self.0[i] {
            Arg::Scalar(s) => Ok(s),
            _ => Err(self.wrong(i, "Number")),
        }
    }
    /// A number or `None`.
    #[inline]
    pub fn opt_scalar(&self, i: usize) -> Result<Option<Scalar>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.scalar(i).map(Some) }
    }
    /// A number as `f64`.
    #[inline]
    pub fn float(&self, i: usize) -> Result<f64> {
        match self.scalar(i)? {
            Scalar::Complex(_, im) if im != 0.0 => {
                Err(Error::runtime("value cannot be converted to type double without overflow"))
            }
            s => Ok(s.to_f64()),
        }
    }
    /// A number as `f64`, or `None`.
    #[inline]
    pub fn opt_float(&self, i: usize) -> Result<Option<f64>> {
        Ok(self.opt_scalar(i)?.map(Scalar::to_f64))
    }
    /// A truth value.
    #[inline]
    pub fn bool(&self, i: usize) -> Result<bool> {
        match self.0[i] {
            Arg::Scalar(s) => Ok(s.to_i64() != 0),
            _ => Err(self.wrong(i, "bool")),
        }
    }
    /// A truth value or `None`.
    pub fn opt_bool(&self, i: usize) -> Result<Option<bool>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.bool(i).map(Some) }
    }
    /// Integers; a single one is a list of one.
    #[inline]
    pub fn ints(&self, i: usize) -> Result<&'a [i64]> {
        match self.0[i] {
            Arg::Ints(v) => Ok(v),
            Arg::None => Ok(&[]),
            _ => Err(self.wrong(i, "tuple of ints")),
        }
    }
    /// Integers or `None`.
    #[inline]
    pub fn opt_ints(&self, i: usize) -> Result<Option<&'a [i64]>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.ints(i).map(Some) }
    }
    /// Floats or `None`.
    pub fn opt_floats(&self, i: usize) -> Result<Option<&'a [f64]>> {
        match self.0[i] {
            Arg::Floats(v) => Ok(Some(v)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "tuple of floats")),
        }
    }
    /// A string.
    pub fn str(&self, i: usize) -> Result<&'a str> {
        match self.0[i] {
            Arg::Str(s) => Ok(s),
            _ => Err(self.wrong(i, "str")),
        }
    }
    /// A string or `None`.
    pub fn opt_str(&self, i: usize) -> Result<Option<&'a str>> {
        if matches!(self.0[i], Arg::None) { Ok(None) } else { self.str(i).map(Some) }
    }
    /// A dtype or `None`.
    #[inline]
    pub fn opt_dtype(&self, i: usize) -> Result<Option<DType>> {
        match self.0[i] {
            Arg::DType(d) => Ok(Some(d)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "torch.dtype")),
        }
    }
    /// A memory format or `None`.
    pub fn memory_format(&self, i: usize) -> Result<Option<MemoryFormat>> {
        match self.0[i] {
            Arg::MemoryFormat(f) => Ok(Some(f)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "torch.memory_format")),
        }
    }
    /// A device or `None`.
    #[inline]
    pub fn opt_device(&self, i: usize) -> Result<Option<Device>> {
        match self.0[i] {
            Arg::Device(d) => Ok(Some(d)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "torch.device")),
        }
    }
    /// A generator or `None`.
    pub fn opt_generator(&self, i: usize) -> Result<Option<&'a crate::random::Generator>> {
        match self.0[i] {
            Arg::Generator(g) => Ok(Some(g)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(i, "torch.Generator")),
        }
    }
}

/// What a call gives back.
#[derive(Debug)]
pub enum Ret {
    /// A tensor.
    Tensor(Tensor),
    /// A tuple of tensors; a named one where the table of return types knows the op.
    Tuple(Vec<Tensor>),
    /// A list of tensors.
    List(Vec<Tensor>),
    /// A number.
    Scalar(Scalar),
    /// Nothing.
    None,
}

impl From<Tensor> for Ret {
    fn from(t: Tensor) -> Ret {
        Ret::Tensor(t)
    }
}
impl From<(Tensor, Tensor)> for Ret {
    fn from((a, b): (Tensor, Tensor)) -> Ret {
        Ret::Tuple(vec![a, b])
    }
}
impl From<(Tensor, Tensor, Tensor)> for Ret {
    fn from((a, b, c): (Tensor, Tensor, Tensor)) -> Ret {
        Ret::Tuple(vec![a, b, c])
    }
}
impl From<Vec<Tensor>> for Ret {
    fn from(v: Vec<Tensor>) -> Ret {
        Ret::List(v)
    }
}
impl From<bool> for Ret {
    fn from(v: bool) -> Ret {
        Ret::Scalar(Scalar::Bool(v))
    }
}
impl From<i64> for Ret {
    fn from(v: i64) -> Ret {
        Ret::Scalar(Scalar::Int(v))
    }
}
impl From<Scalar> for Ret {
    fn from(v: Scalar) -> Ret {
        Ret::Scalar(v)
    }
}
impl From<()> for Ret {
    fn from(_: ()) -> Ret {
        Ret::None
    }
}

/// Where Python finds an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// `torch.f(x)` and `x.f()`.
    Both,
    /// `torch.f(x)` only.
    Function,
    /// `x.f()` only.
    Method,
    /// `torch._C._nn.f(x)`, reached through `torch.nn.functional`.
    Nn,
    /// `torch.ops.aten.f(x)` only.
    Aten,
}

/// Tier of an op, for the docs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// One node of the trace.
    Prim,
    /// One node, with an expansion.
    Fused,
    /// A composition.
    Composed,
}

/// Function that serves a row.
pub type Call = fn(&Args<'_>) -> Result<Ret>;

/// One overload of one public op.
pub struct Row {
    /// Aten schema.
    pub schema: &'static str,
    /// Serves a call.
    pub call: Call,
    /// Serves the in-place form `name_` directly; writes argument 0 and gives it back.
    pub inplace: Option<Call>,
    /// Whether `name_` exists, derived from `call` unless `inplace` serves it.
    pub has_inplace: bool,
    /// Whether the `out=` form exists; derived from `call`.
    pub has_out: bool,
    /// Where Python finds it.
    pub scope: Scope,
    /// Tier.
    pub tier: Tier,
    /// Arguments to try it with.
    pub samples: fn() -> Vec<Sample>,
    /// Names of the results, when they come as a named tuple.
    pub fields: &'static [&'static str],
}

impl Row {
    /// A row with function and method, `out=`, no in-place form.
    pub const fn new(schema: &'static str, tier: Tier, call: Call, samples: fn() -> Vec<Sample>) -> Row {
        Row {
            schema,
            call,
            inplace: None,
            has_inplace: false,
            has_out: true,
            scope: Scope::Both,
            tier,
            samples,
            fields: &[],
        }
    }
    /// Puts it elsewhere.
    pub const fn scope(mut self, scope: Scope) -> Row {
        self.scope = scope;
        self
    }
    /// Adds `name_`, derived from the call.
    pub const fn inplace(mut self) -> Row {
        self.has_inplace = true;
        self
    }
    /// Adds `name_`, served by a function of its own.
    pub const fn inplace_by(mut self, f: Call) -> Row {
        self.has_inplace = true;
        self.inplace = Some(f);
        self
    }
    /// Calls the `name_` form: writes argument 0 and gives it back.
    ///
    /// # Errors
    /// Whatever the op reports, and what PyTorch refuses to write.
    pub fn call_in_place(&self, args: &Args<'_>) -> Result<Ret> {
        if let Some(f) = self.inplace {
            return f(args);
        }
        /// Functions that PyTorch lets read what they write over.
        const READ_FIRST: [&str; 7] = ["addbmm", "addmm", "addmv", "baddbmm", "ldexp", "masked_fill", "masked_scatter"];
        /// Functions that write here and there, so that no operand may lie where they write.
        const DISJOINT: [&str; 10] = [
            "index_add",
            "index_copy",
            "index_fill",
            "index_put",
            "index_reduce",
            "put",
            "scatter",
            "scatter_add",
            "scatter_reduce",
            "_index_put_impl_",
        ];
        let x = args.tensor(0)?;
        let name = || self.schema.split(['.', '(']).next().unwrap_or("");
        let check = |t: &Tensor| {
            if !t.shares_storage(x) || READ_FIRST.contains(&name()) {
                Ok(())
            } else if DISJOINT.contains(&name()) {
                crate::inplace::check_disjoint(x, t)
            } else {
                crate::inplace::check_apart(x, t)
            }
        };
        for a in &args.0[1..] {
            match a {
                Arg::Tensor(t) => check(t)?,
                Arg::Tensors(list) => list.iter().flatten().try_for_each(check)?,
                _ => {}
            }
        }
        let call = |x: &Tensor| {
            let mut given = args.0.to_vec();
            given[0] = Arg::Tensor(x);
            match (self.call)(&Args(&given))? {
                Ret::Tensor(y) => Ok(y),
                _ => unreachable!("an op with an in-place form gives one tensor"),
            }
        };
        if crate::inplace::repeats_elements(x) {
            match name() {
                // All copies of an element get the same value.
                "threshold" | "tril" | "triu" => {
                    crate::inplace::apply_same(x, call)?;
                    return Ok(Ret::Tensor(x.clone()));
                }
                "index_fill" | "index_put" => return self.write_repeated(x, args, call),
                _ => {}
            }
        }
        crate::inplace::apply(x, call)?;
        Ok(Ret::Tensor(x.clone()))
    }
    /// `index_fill_` and `index_put_` of what repeats elements, which PyTorch allows with a warning.
    #[cold]
    fn write_repeated(&self, x: &Tensor, args: &Args<'_>, call: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Ret> {
        let is_put = self.schema.starts_with("index_put");
        let (name, what) =
            if is_put { ("index_put_", "tensor[indices] = tensor") } else { ("index_fill_", "tensor[mask] = scalar") };
        warn_of_repeated(name, what)?;
        let none = Tensor::zeros_like_meta(&x.meta().with_dtype(DType::Bool))?;
        let ones;
        let mut given = args.0.to_vec();
        given[0] = Arg::Tensor(&none);
        if is_put {
            ones = Tensor::ones(args.tensor(2)?.dims(), DType::Bool, x.device())?;
            given[2] = Arg::Tensor(&ones);
            given[3] = Arg::Scalar(Scalar::Bool(false));
        } else {
            given[3] = Arg::Scalar(Scalar::Bool(true));
        }
        let hit = match (self.call)(&Args(&given))? {
            Ret::Tensor(y) => y,
            _ => unreachable!("an op with an in-place form gives one tensor"),
        };
        crate::inplace::assign_repeated(x, &call(x)?, &hit)?;
        Ok(Ret::Tensor(x.clone()))
    }
    /// Removes `out=`: views, tuples of views, functions that return no tensor.
    pub const fn no_out(mut self) -> Row {
        self.has_out = false;
        self
    }
    /// Names the fields of the result.
    pub const fn fields(mut self, fields: &'static [&'static str]) -> Row {
        self.fields = fields;
        self
    }
}

/// PyTorch's warning about a write to some of the copies of an element.
pub(crate) fn warn_of_repeated(name: &str, what: &str) -> Result<()> {
    crate::warning::warn(&format!(
        "Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also applies to advanced indexing e.g. {what}"
    ))
}

/// How the values of a sample tensor are drawn; all are deterministic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fill {
    /// Spread over about (-2, 2), no two alike, none near zero.
    Normal,
    /// Positive, about (0.2, 2).
    Positive,
    /// Within (-0.9, 0.9).
    Unit,
    /// Within (0.05, 0.95).
    Probability,
    /// Within (0.1, 0.9).
    Fraction,
    /// Integers from 0 up to a bound.
    Index(i64),
    /// True and false.
    Mask,
    /// Symmetric matrices whose eigenvalues are positive.
    Definite,
    /// Rows to change places with, from one: each of a line its own or the next but the last.
    Pivots,
}

/// One argument of a sample.
#[derive(Clone, Debug)]
pub enum SampleArg {
    /// `None`, or the schema's default.
    Default,
    /// A tensor of these sizes. A floating-point one takes the dtype under test; `requires_grad` where gradients are tested.
    Tensor(Vec<usize>, Fill),
    /// The same, transposed in its last two dimensions, so that it is not contiguous.
    Transposed(Vec<usize>, Fill),
    /// Tensors of these sizes.
    Tensors(Vec<Vec<usize>>, Fill),
    /// A list with missing tensors, as advanced indexing takes it.
    OptTensors(Vec<Option<(Vec<usize>, Fill)>>),
    /// A number.
    Scalar(Scalar),
    /// Integers.
    Ints(Vec<i64>),
    /// Floats.
    Floats(Vec<f64>),
    /// Numbers.
    Scalars(Vec<Scalar>),
    /// A string.
    Str(&'static str),
    /// A dtype.
    DType(DType),
}

/// Arguments to try a row with.
#[derive(Clone, Debug)]
pub struct Sample {
    /// One an entry of the schema, in order; missing ones at the end take their defaults.
    pub args: Vec<SampleArg>,
    /// Dtypes to try beside `float32`; empty: the default set of the test.
    pub dtypes: &'static [DType],
    /// Whether gradients with respect to the floating-point tensors can be compared with differences.
    pub gradient: bool,
    /// Whether `dtypes` are all there is: the op takes complex numbers only.
    pub only: bool,
    /// Whether the result is random: only its description, and that a seed repeats it, can be checked.
    pub random: bool,
}

impl Sample {
    /// A differentiable sample.
    pub fn new(args: Vec<SampleArg>) -> Sample {
        Sample { args, dtypes: &[], gradient: true, only: false, random: false }
    }
    /// Without a comparison of gradients: integers, kinks, random numbers.
    pub fn no_gradient(mut self) -> Sample {
        self.gradient = false;
        self
    }
    /// For complex numbers, and nothing else.
    pub fn complex(mut self) -> Sample {
        (self.dtypes, self.only) = (&[DType::C64, DType::C128], true);
        self
    }
    /// With a random result.
    pub fn random(mut self) -> Sample {
        (self.gradient, self.random) = (false, true);
        self
    }
    /// With further dtypes.
    pub fn dtypes(mut self, dtypes: &'static [DType]) -> Sample {
        self.dtypes = dtypes;
        self
    }
}

/// A tensor for a sample.
pub fn t(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Normal)
}
/// A tensor of positive numbers.
pub fn positive(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Positive)
}
/// A tensor of numbers within (-1, 1).
pub fn unit(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Unit)
}
/// A tensor of numbers within (0, 1).
pub fn probability(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Probability)
}
/// A tensor of integers below a bound.
pub fn index(dims: &[usize], bound: i64) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Index(bound))
}
/// A tensor of truth values.
pub fn mask(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Mask)
}
/// A number.
pub fn n(v: impl Into<Scalar>) -> SampleArg {
    SampleArg::Scalar(v.into())
}
/// Integers.
pub fn ints(v: &[i64]) -> SampleArg {
    SampleArg::Ints(v.to_vec())
}
/// Builds a [`Sample`] list: one bracketed argument list a sample.
#[macro_export]
macro_rules! samples {
    ($([$($arg:expr),* $(,)?]),* $(,)?) => { || vec![$($crate::schema::Sample::new(vec![$($arg),*])),*] };
}
