//! A row of the table: one overload of one public op, with everything that is public about it.

use super::{Arg, Args, Ret, Sample, Schema, Ty};
use crate::policy::Policies;
use crate::{DType, Result, Tensor, dispatch, inplace, overlap, state};

/// The place where Python finds an op.
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

/// The form of an op in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// One node of the trace.
    Prim,
    /// One node, with an expansion into other ops.
    Fused,
    /// A composition of other ops.
    Composed,
}

/// The function that computes a row.
pub type Call = fn(&Args<'_>) -> Result<Ret>;

/// The in-place form `name_` of a row.
#[derive(Clone, Copy)]
pub enum InPlace {
    /// The row has none.
    None,
    /// Compute the result with [`Row::call`], then write it into argument 0.
    Derived,
    /// Compute it with a function of its own, which writes argument 0 and returns it.
    By(Call),
}

/// The elements that an operand may share with a tensor that the call writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aliasing {
    /// Any: the call reads its operands before it writes.
    Allowed,
    /// All of them in the same order, or none.
    InStep,
    /// None: the call reads and writes at different places.
    Refused,
}

/// The tensors of a row that may be Python numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// It never fails.
    Refused,
    /// The second one.
    Second,
    /// One of the two.
    One,
    /// Both.
    Both,
}

/// The text of an error about the dtype of `out=`. Arguments: the name of the function, the dtype that it wants, and
/// that of `out`.
pub type DTypeMessage = fn(name: &str, want: DType, got: DType) -> String;

/// The dtype that a tensor given as `out=` must have.
#[derive(Clone, Copy)]
pub enum OutDType {
    /// Any dtype that the result may be cast to.
    Cast,
    /// The dtype of the first tensor.
    OfInput(DTypeMessage),
    /// The dtype of the first tensor, unless that is complex.
    OfRealInput(DTypeMessage),
    /// The dtype of the result.
    OfResult(DTypeMessage),
    /// Any real dtype: the values of the result fit in every such dtype.
    CastToReal,
    /// One of these dtypes.
    OneOf(&'static [DType], DTypeMessage),
}

/// The treatment of an `out` of another shape than the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutShape {
    /// It is resized, with a warning unless it is empty.
    ResizedWithWarning,
    /// It is resized.
    Resized,
    /// It keeps its shape if it has as many elements as the result. Otherwise it is resized with a warning unless it is
    /// empty.
    KeptWithWarning,
    /// It keeps its shape if it has as many elements as the result. Otherwise it is resized.
    Kept,
}

/// The meaning of `dtype=` in a call with `out=`.
#[derive(Clone, Copy)]
pub enum DTypeWithOut {
    /// The dtype to compute in, whatever the dtype of `out` is.
    Independent,
    /// It must be the dtype of `out`.
    MustMatch(DTypeMessage),
    /// It must be the dtype of `out`, and is that when it is not given.
    FollowsOut(DTypeMessage),
}

/// A form with numbers between the tensors. PyTorch still accepts it and warns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deprecated {
    /// `self, number, others...`, where the number stands for the named argument.
    AfterFirst(&'static str),
    /// `beta, self, alpha, others...`, where `alpha` may be left out.
    Products,
}

/// Write a tensor that repeats its elements, as the form `name_` of a row does.
pub type WriteRepeated = fn(&Row, &Tensor, &Args<'_>) -> Result<()>;

/// One overload of one public op. The methods that return `Row` set its columns.
pub struct Row {
    /// Aten schema.
    pub schema: &'static str,
    /// The function that computes a call.
    pub call: Call,
    /// One paragraph of help. The first row of a name carries it.
    pub doc: &'static str,
    /// The form `name_`.
    pub in_place: InPlace,
    /// Whether `name_` is also a function of `torch`, beside the method.
    pub in_place_function: bool,
    /// The memory that operands may share with the tensor that `name_` writes.
    pub in_place_aliasing: Aliasing,
    /// The function that writes a tensor that repeats its elements, if PyTorch lets `name_` do so.
    pub writes_repeated: Option<WriteRepeated>,
    /// The function that writes a tensor that [overlaps itself](crate::overlap), for rows that write some elements.
    pub writes_overlapping: Option<WriteRepeated>,
    /// Whether the `out=` form exists. It is derived from `call`.
    pub has_out: bool,
    /// The dtype that `out` must have.
    pub out_dtype: OutDType,
    /// The treatment of an `out` of another shape.
    pub out_shape: OutShape,
    /// The memory that operands may share with `out`. `None` stands for the rule of the row's
    /// [family](crate::ops::Family).
    pub out_aliasing: Option<Aliasing>,
    /// Whether the tensors of an `out` tuple must not share memory.
    pub outs_apart: bool,
    /// The meaning of `dtype=` beside `out=`.
    pub dtype_with_out: DTypeWithOut,
    /// The tensors that may be Python numbers.
    pub numbers: Numbers,
    /// The autocast policies.
    pub autocast: Policies,
    /// Further names, of `torch.special` and `torch.linalg`.
    pub aliases: &'static [&'static str],
    /// A deprecated form with numbers between the tensors.
    pub deprecated: Option<Deprecated>,
    /// The place where Python finds it.
    pub scope: Scope,
    /// The form of the op in a trace.
    pub tier: Tier,
    /// Arguments for tests.
    pub samples: fn() -> Vec<Sample>,
    /// Names of the results, if they are returned as a named tuple.
    pub fields: &'static [&'static str],
}

impl Row {
    /// A row with function, method and `out=`, but no in-place form.
    pub const fn new(schema: &'static str, tier: Tier, call: Call, samples: fn() -> Vec<Sample>) -> Row {
        Row {
            schema,
            call,
            doc: "",
            in_place: InPlace::None,
            in_place_function: false,
            in_place_aliasing: Aliasing::InStep,
            writes_repeated: None,
            writes_overlapping: None,
            has_out: true,
            out_dtype: OutDType::Cast,
            out_shape: OutShape::ResizedWithWarning,
            out_aliasing: None,
            outs_apart: false,
            dtype_with_out: DTypeWithOut::Independent,
            numbers: Numbers::Refused,
            autocast: Policies::NONE,
            aliases: &[],
            deprecated: None,
            scope: Scope::Both,
            tier,
            samples,
            fields: &[],
        }
    }
    /// Set the paragraph of help.
    pub const fn doc(mut self, doc: &'static str) -> Row {
        self.doc = doc;
        self
    }
    /// Set the place where Python finds it.
    pub const fn scope(mut self, scope: Scope) -> Row {
        self.scope = scope;
        self
    }
    /// Add `name_`, derived from the call.
    pub const fn inplace(mut self) -> Row {
        self.in_place = InPlace::Derived;
        self
    }
    /// Add `name_`, computed by a function of its own.
    pub const fn inplace_by(mut self, f: Call) -> Row {
        self.in_place = InPlace::By(f);
        self
    }
    /// Have no form `name_`.
    pub const fn no_in_place(mut self) -> Row {
        self.in_place = InPlace::None;
        self
    }
    /// Make `name_` also a function of `torch`.
    pub const fn in_place_function(mut self) -> Row {
        self.in_place_function = true;
        self
    }
    /// Make `name_` a method only.
    pub const fn in_place_method(mut self) -> Row {
        self.in_place_function = false;
        self
    }
    /// Let the operands of `name_` share any memory with the tensor that it writes.
    pub const fn reads_before_writing(mut self) -> Row {
        self.in_place_aliasing = Aliasing::Allowed;
        self
    }
    /// Let no operand of `name_` share memory with the tensor that it writes, and write only the elements that change,
    /// as [`inplace::update`] does.
    pub const fn scatters_in_place(mut self) -> Row {
        self.in_place_aliasing = Aliasing::Refused;
        self
    }
    /// Let `name_` write a tensor that repeats its elements, by this function.
    pub const fn writes_repeated(mut self, f: WriteRepeated) -> Row {
        self.writes_repeated = Some(f);
        self
    }
    /// Let `name_` write a tensor that overlaps itself by this function.
    pub const fn writes_overlapping(mut self, f: WriteRepeated) -> Row {
        self.writes_overlapping = Some(f);
        self
    }
    /// Remove `out=`: views, tuples of views, functions that return no tensor.
    pub const fn no_out(mut self) -> Row {
        self.has_out = false;
        self
    }
    /// Set the dtype that `out` must have.
    pub const fn out_dtype(mut self, rule: OutDType) -> Row {
        self.out_dtype = rule;
        self
    }
    /// Set the treatment of an `out` of another shape.
    pub const fn out_shape(mut self, rule: OutShape) -> Row {
        self.out_shape = rule;
        self
    }
    /// Set the memory that operands may share with `out`.
    pub const fn out_aliasing(mut self, aliasing: Aliasing) -> Row {
        self.out_aliasing = Some(aliasing);
        self
    }
    /// Refuse tensors of an `out` tuple that share memory.
    pub const fn outs_apart(mut self) -> Row {
        self.outs_apart = true;
        self
    }
    /// Set the meaning of `dtype=` beside `out=`.
    pub const fn dtype_with_out(mut self, rule: DTypeWithOut) -> Row {
        self.dtype_with_out = rule;
        self
    }
    /// Set the tensors that may be Python numbers.
    pub const fn numbers(mut self, numbers: Numbers) -> Row {
        self.numbers = numbers;
        self
    }
    /// Set the autocast policies.
    pub const fn autocast(mut self, policies: Policies) -> Row {
        self.autocast = policies;
        self
    }
    /// Add further names.
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Row {
        self.aliases = aliases;
        self
    }
    /// Add a deprecated form.
    pub const fn deprecated(mut self, form: Deprecated) -> Row {
        self.deprecated = Some(form);
        self
    }
    /// Name the fields of the result.
    pub const fn fields(mut self, fields: &'static [&'static str]) -> Row {
        self.fields = fields;
        self
    }

    /// The name in the schema, without the overload.
    pub fn name(&self) -> &'static str {
        self.schema.split(['.', '(']).next().unwrap_or("")
    }
    /// Whether parameter `i` of the row may be a Python number although the schema wants a tensor. `in_place` asks for
    /// the form `name_`.
    pub fn takes_number(&self, schema: &Schema, i: usize, in_place: bool) -> bool {
        let p = &schema.params[i];
        p.ty == Ty::Tensor
            && self.numbers != Numbers::Refused
            && !p.mutated
            && p.name != "condition"
            && !(i == 0 && (in_place || self.numbers == Numbers::Second))
    }
    /// Whether the form `name_` exists.
    pub fn has_in_place(&self) -> bool {
        !matches!(self.in_place, InPlace::None)
    }
    /// Call the `name_` form, which writes argument 0 and returns it.
    ///
    /// # Errors
    /// The errors of the op. `Runtime` if an operand or argument 0 has elements in memory that the call must not write.
    pub fn call_in_place(&self, args: &Args<'_>) -> Result<Ret> {
        if let Some(Arg::Tensor(x)) = args.0.first()
            && overlap::is_written_in_order(x)
            && self.write_in_order(x, args)?
        {
            return Ok(Ret::Tensor((*x).clone()));
        }
        if let InPlace::By(f) = self.in_place {
            return f(args);
        }
        let x = args.tensor(0)?;
        self.check_aliasing(x, args)?;
        match self.writes_repeated {
            Some(write) if inplace::repeats_elements(x) => write(self, x, args)?,
            _ if self.in_place_aliasing == Aliasing::Refused => inplace::update(x, |x| self.call_on(x, args))?,
            _ => inplace::apply(x, |x| self.call_on(x, args))?,
        }
        Ok(Ret::Tensor(x.clone()))
    }
    /// Refuse operands that share memory with `x` which the call must not write.
    fn check_aliasing(&self, x: &Tensor, args: &Args<'_>) -> Result<()> {
        let check = |t: &Tensor| match self.in_place_aliasing {
            _ if !t.shares_storage(x) => Ok(()),
            Aliasing::Allowed => Ok(()),
            Aliasing::InStep => inplace::check_apart(x, t),
            Aliasing::Refused => inplace::check_disjoint(x, t),
        };
        for a in &args.0[1..] {
            match a {
                Arg::Tensor(t) => check(t)?,
                Arg::Tensors(list) => list.iter().flatten().try_for_each(check)?,
                _ => {}
            }
        }
        Ok(())
    }
    /// Write `x`, which overlaps itself, in the order of PyTorch's loops. Return `false` if computing the whole result
    /// first, and writing it in order, is right.
    #[cold]
    fn write_in_order(&self, x: &Tensor, args: &Args<'_>) -> Result<bool> {
        if x.place().is_abstract() {
            return Ok(false);
        }
        if self.writes_overlapping.is_none() && !crate::ops::is_elementwise(self) {
            return Ok(false);
        }
        inplace::check_writable(x)?;
        self.check_aliasing(x, args)?;
        // The plain call refuses wrong arguments.
        dispatch::check_same_dims(x, state::no_grad(|| self.call_on(&x.detach(), args))?.dims())?;
        if let Some(write) = self.writes_overlapping {
            write(self, x, args)?;
            return Ok(true);
        }
        let mut given: Vec<(usize, &Tensor)> = Vec::new();
        for (i, a) in args.0.iter().enumerate().skip(1) {
            if let Arg::Tensor(t) = a {
                given.push((i, t));
            }
        }
        let tensors: Vec<&Tensor> = given.iter().map(|(_, t)| *t).filter(|t| !t.dims().is_empty()).collect();
        overlap::update(x, &tensors, |x, taken| {
            let mut of = args.0.to_vec();
            let mut taken = taken.iter();
            for (i, t) in &given {
                if !t.dims().is_empty() {
                    of[*i] = Arg::Tensor(taken.next().expect("one vector for each tensor"));
                }
            }
            self.call_on(x, &Args(&of))
        })?;
        Ok(true)
    }
    /// Compute the row with `x` in place of argument 0.
    ///
    /// # Errors
    /// The errors of the op.
    pub(crate) fn call_on(&self, x: &Tensor, args: &Args<'_>) -> Result<Tensor> {
        let mut given = args.0.to_vec();
        given[0] = Arg::Tensor(x);
        match (self.call)(&Args(&given))? {
            Ret::Tensor(y) => Ok(y),
            _ => unreachable!("an op with an in-place form returns one tensor"),
        }
    }
}

/// Texts of errors about the dtype of `out=`.
pub mod messages {
    use crate::DType;

    /// `Expected out tensor to have dtype long int, but got float instead`.
    pub fn expected_out(_: &str, want: DType, got: DType) -> String {
        format!("Expected out tensor to have dtype {}, but got {} instead", want.c_name(), got.c_name())
    }
    /// `Found dtype Float but expected Long`.
    pub fn found(_: &str, want: DType, got: DType) -> String {
        format!("Found dtype {} but expected {}", got.scalar_type(), want.scalar_type())
    }
    /// `Expected object of scalar type Long but got scalar type Float for argument 'out'`.
    pub fn expected_object(_: &str, want: DType, got: DType) -> String {
        format!(
            "Expected object of scalar type {} but got scalar type {} for argument 'out'",
            want.scalar_type(),
            got.scalar_type()
        )
    }
    /// The text of `amax` and `amin`.
    pub fn input_and_out(_: &str, want: DType, got: DType) -> String {
        format!(
            "Expected the dtype for input and out to match, but got {} for input's dtype and {} for out's dtype.",
            want.scalar_type(),
            got.scalar_type()
        )
    }
    /// The text of `nansum` and `nanmean`.
    pub fn provided_dtype(_: &str, want: DType, got: DType) -> String {
        format!(
            "nansum: provided dtype must match dtype of result. Got {} and {}.",
            got.scalar_type(),
            want.scalar_type()
        )
    }
    /// The text of `nonzero`.
    pub fn long_indices(name: &str, _: DType, got: DType) -> String {
        format!("{name}: Expected out tensor to have scalar type Long but got scalar type{}", got.scalar_type())
    }
    /// The text of `multinomial`.
    pub fn long_out(name: &str, _: DType, got: DType) -> String {
        format!("{name} expects Long tensor out, got: {}", got.scalar_type())
    }
    /// The text of `all` and `any`.
    pub fn bool_result(name: &str, _: DType, got: DType) -> String {
        format!("{name} only supports bool tensor for result, got: {}", got.scalar_type())
    }
    /// The text of `tensordot`.
    pub fn output_tensor(name: &str, want: DType, got: DType) -> String {
        format!(
            "{name}: Expected the output tensor to have dtype {}, but got an output tensor with dtype {}",
            want.scalar_type(),
            got.scalar_type()
        )
    }
    /// The text of predicates.
    pub fn non_boolean(name: &str, _: DType, _: DType) -> String {
        format!("{name} does not support non-boolean outputs.")
    }
}

/// PyTorch's warning about a write to some of the copies of an element.
pub(crate) fn warn_of_repeated(name: &str, what: &str) -> Result<()> {
    crate::warning::warn(&format!(
        "Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. \
        This also applies to advanced indexing e.g. {what}"
    ))
}
