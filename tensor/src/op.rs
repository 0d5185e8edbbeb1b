//! The contract of ops.
//!
//! Attributes are fields of the op value, which derives `Hash + Eq + Debug`. Operands are never fields; they are passed
//! beside the op. So renumbering, hashing, printing and keys are written once. There are three tiers:
//!
//! * [`Op`], a primitive: `infer`, `axes`, `kernel`, `lower`, `vjp`. An op that lacks one of them does not compile.
//! * [`ViewOp`], a primitive that moves no elements: `layout` instead of `kernel`, and `write_back`, its inverse.
//! * [`Fused`]: `infer`, `axes` and `expand`, its meaning in `Tensor` ops. `KERNEL`, `LOWER` and `VJP` may be
//!   overridden. If one is missing, the expansion runs in its place.
//!
//! Only `infer` may reject. It checks shapes, dtypes and devices, so that every mode gives the same error at the user's
//! line. The kernel only checks values, such as an index out of range.

use crate::axes::Axes;
pub use crate::ops::Prim;
use crate::policy::Policies;
use crate::types::compute::{compute_dtype, narrowed, widened};
use crate::{DType, Device, Dims, Error, Meta, Place, Result, Tensor};
use smallvec::SmallVec;
use std::fmt::Debug;
pub use torchtpu_stablehlo::{Func, Value};

/// Results of an op.
pub type Outs = SmallVec<[Tensor; 2]>;
/// Gradients of an op's inputs, in order; `None` for an input without one.
pub type Grads = SmallVec<[Option<Tensor>; 3]>;
/// Values that a lowering produced.
pub type Values = SmallVec<[Value; 2]>;

/// Which inputs and outputs a `vjp` reads, as bit masks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Saves {
    /// Bit `i`: input `i`.
    pub x: u64,
    /// Bit `i`: output `i`.
    pub y: u64,
}

impl Saves {
    /// Nothing.
    pub const NONE: Saves = Saves { x: 0, y: 0 };
    /// These inputs.
    pub const fn inputs(x: u64) -> Saves {
        Saves { x, y: 0 }
    }
    /// These outputs.
    pub const fn outputs(y: u64) -> Saves {
        Saves { x: 0, y }
    }
    /// These inputs and outputs.
    pub const fn both(x: u64, y: u64) -> Saves {
        Saves { x, y }
    }
}

/// The bit of an operand or a result in a mask such as [`Saves::x`]. Those from number 63 on share the last bit. More
/// of them may then be saved, or have gradients computed, than needed.
#[inline]
pub(crate) const fn bit(i: usize) -> u64 {
    1 << if i < 63 { i } else { 63 }
}

/// The values that a `vjp` may read.
pub struct Saved<'a> {
    pub(crate) x: &'a [Option<Tensor>],
    pub(crate) y: &'a [Option<Tensor>],
    pub(crate) metas: &'a [Meta],
    pub(crate) outputs: &'a [Meta],
    pub(crate) g: &'a [Option<Tensor>],
    pub(crate) needs: u64,
}

impl<'a> Saved<'a> {
    /// Input `i`, which the op's `saves` must name.
    #[inline]
    pub fn x(&self, i: usize) -> &'a Tensor {
        self.x[i].as_ref().expect("the op's `saves` names this input")
    }
    /// Output `i`, which the op's `saves` must name.
    #[inline]
    pub fn y(&self, i: usize) -> &'a Tensor {
        self.y[i].as_ref().expect("the op's `saves` names this output")
    }
    /// Description of input `i`, which is always known.
    #[inline]
    pub fn meta(&self, i: usize) -> &'a Meta {
        &self.metas[i]
    }
    /// Description of output `i`.
    #[inline]
    pub fn out(&self, i: usize) -> &'a Meta {
        &self.outputs[i]
    }
    /// Number of inputs.
    #[inline]
    pub fn len(&self) -> usize {
        self.metas.len()
    }
    /// Whether the op had no inputs.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.metas.is_empty()
    }
    /// Whether a gradient of input `i` is wanted.
    #[inline]
    pub fn needs(&self, i: usize) -> bool {
        self.needs & bit(i) != 0
    }
    /// Apply a rule of several steps to 16-bit floats: in `float32`, and rounded once at the end. Squares and products
    /// would overflow or vanish in 16 bits, and each step would round. Other dtypes are passed as they are.
    #[inline]
    pub(crate) fn widely(&self, g: &Tensor, rule: impl FnOnce(&Saved<'_>, &Tensor) -> Result<Grads>) -> Result<Grads> {
        if !g.dtype().is_half() && !self.metas.iter().any(|m| m.dtype.is_half()) {
            return rule(self, g);
        }
        let wide = |t: &Option<Tensor>| t.as_ref().map(widened).transpose();
        let x = self.x.iter().map(wide).collect::<Result<SmallVec<[_; 2]>>>()?;
        let y = self.y.iter().map(wide).collect::<Result<SmallVec<[_; 2]>>>()?;
        let gs = self.g.iter().map(wide).collect::<Result<SmallVec<[_; 2]>>>()?;
        let meta = |m: &Meta| m.with_dtype(compute_dtype(m.dtype));
        let metas: SmallVec<[Meta; 2]> = self.metas.iter().map(meta).collect();
        let outputs: SmallVec<[Meta; 2]> = self.outputs.iter().map(meta).collect();
        let s = Saved { x: &x, y: &y, metas: &metas, outputs: &outputs, g: &gs, needs: self.needs };
        let mut grads = rule(&s, &widened(g)?)?;
        for (g, m) in grads.iter_mut().zip(self.metas).filter(|(_, m)| m.dtype.is_half()) {
            *g = g.take().map(|g| narrowed(g, m.dtype)).transpose()?;
        }
        Ok(grads)
    }
    /// Gradient of output `i`, if one has reached it. The gradient of output 0 is passed to `vjp`, as zeros if there is
    /// none.
    #[inline]
    pub fn g(&self, i: usize) -> Option<&'a Tensor> {
        self.g.get(i).and_then(Option::as_ref)
    }
}

/// Facts about a kind of node. Engines read these instead of listing ops.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The autocast policies if Python called no function of the table.
    pub autocast: Policies,
    /// Whether a device may compute each result in the memory of the operand at the same position, if both have the
    /// same type.
    pub updates_in_place: bool,
    /// Whether the result is a strided window of the operand.
    pub is_window: bool,
    /// Whether the op joins any number of operands into one result.
    pub joins_operands: bool,
    /// Whether the result is one value, repeated.
    pub is_fill: bool,
    /// Whether the op combines two operands element by element.
    pub is_binary: bool,
    /// Whether the op draws random numbers from the state of a generator.
    pub draws_random: bool,
    /// Whether running the op has an effect beside its results. Such an op runs exactly once, in the order in which it
    /// was recorded, even if no other op reads its results.
    pub has_effects: bool,
    /// Whether the op copies an operand, so that a device may tie the copy to a
    /// [check](crate::backend::Representation::defer_check).
    pub carries_checks: bool,
}

impl Facts {
    /// Facts of an ordinary node.
    pub const NONE: Facts = Facts {
        autocast: Policies::NONE,
        updates_in_place: false,
        is_window: false,
        joins_operands: false,
        is_fill: false,
        is_binary: false,
        draws_random: false,
        has_effects: false,
        carries_checks: false,
    };
}

/// An attribute of an op, as data.
#[derive(Clone, PartialEq, Debug)]
pub enum Attribute {
    /// A truth value.
    Bool(bool),
    /// A float.
    Float(f64),
    /// An integer.
    Int(i64),
    /// Integers.
    Ints(Vec<i64>),
    /// Pairs of integers.
    Pairs(Vec<(i64, i64)>),
}

/// Attributes by their names.
pub type Attributes = Vec<(&'static str, Attribute)>;

/// How the strides of an op's results follow from those of its operands, if one of them is not row major.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strides {
    /// They do not: results are row major.
    RowMajor,
    /// The op is element-wise: the one result keeps the order of the operands' dimensions, and the kernel writes any
    /// strides.
    Elementwise,
    /// The one result is a copy of the operand, and the kernel writes any strides.
    Copied,
    /// Results of the first operand's sizes keep its order of dimensions.
    Like,
    /// Results are channels-last if one of the first two operands is.
    Format,
    /// The result is channels-last if all operands are.
    CommonFormat,
}

/// The rules of a primitive.
pub trait Op: Clone + Debug + Sized {
    /// Name in the trace, in errors and in `grad_fn` names; snake case.
    const NAME: &'static str;
    /// Number of outputs.
    const OUTS: usize = 1;
    /// Which outputs carry a gradient, as a bit mask.
    const DIFFERENTIABLE: u64 = u64::MAX;
    /// Number of outputs, for ops whose attributes decide it.
    fn outs(&self) -> usize {
        Self::OUTS
    }
    /// Which outputs carry a gradient, for ops whose attributes decide it.
    fn differentiable(&self) -> u64 {
        Self::DIFFERENTIABLE
    }
    /// Sizes, dtype and device of output 0. The only rule that may reject.
    fn infer(&self, x: &[&Tensor]) -> Result<Meta>;
    /// Description of output `i >= 1`.
    fn infer_extra(&self, _x: &[&Tensor], _first: &Meta, _i: usize) -> Meta {
        unreachable!("{} has one output", Self::NAME)
    }
    /// How the dimensions of the operands `x` and the results `y` correspond.
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes;
    /// The same op for operands and results of other sizes, for ops with sizes among their attributes.
    fn resized(&self, _x: &[Meta], _y: &[Meta]) -> Self {
        self.clone()
    }
    /// Native CPU kernel, which fills the outputs. They are contiguous, new, and as inferred.
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()>;
    /// StableHLO spelling.
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values;
    /// Gradients of the inputs, in `Tensor` ops so that they differentiate again.
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads>;
    /// Inputs and outputs that `vjp` reads when the gradients in `needs` (bit `i`: input `i`) are wanted.
    fn saves(&self, needs: u64) -> Saves;
    /// Name in `grad_fn`, if it differs from the op's.
    fn label(&self) -> &'static str {
        Self::NAME
    }
    /// Whether `infer` accepts complex inputs or refuses them itself. For other ops they are refused before `infer`.
    fn takes_complex(&self) -> bool {
        false
    }
    /// Whether the op only moves, compares or converts elements, so that it takes dtypes that are
    /// [only stored](DType::is_stored). Other ops refuse them before `infer`.
    fn takes_stored(&self) -> bool {
        false
    }
    /// How the strides of the results follow from those of the operands.
    const STRIDES: Strides = Strides::RowMajor;
    /// Facts that engines ask for.
    const FACTS: Facts = Facts::NONE;
    /// The attributes as data, for tools that make an op of the same kind with other sizes.
    fn attributes(&self) -> Attributes {
        Attributes::new()
    }
}

/// Sizes, strides and offset of a strided window on a storage.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Sizes.
    pub dims: Dims,
    /// Strides in elements.
    pub strides: Dims,
    /// Index of the first element.
    pub offset: usize,
}

impl Layout {
    /// The row-major layout from the storage's start.
    pub fn contiguous(dims: Dims) -> Layout {
        Layout { dims, strides: dims.contiguous_strides(), offset: 0 }
    }
    /// The layout of a tensor.
    pub fn of(x: &Tensor) -> Layout {
        Layout { dims: *x.dims(), strides: *x.strides(), offset: x.storage_offset() }
    }
}

/// The rules of a primitive whose result is a view of its input.
pub trait ViewOp: Clone + Debug + Sized {
    /// Name in the trace, in errors and in `grad_fn` names.
    const NAME: &'static str;
    /// The layout of the result for a layout of the input. The only rule that may reject.
    fn layout(&self, x: &Layout) -> Result<Layout>;
    /// Facts that engines ask for.
    const FACTS: Facts = Facts::NONE;
    /// Element type of the result. Strides and offset of its layout count elements of this type.
    fn dtype(&self, x: DType) -> DType {
        x
    }
    /// How the dimensions of the operands `x` and the results `y` correspond.
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes;
    /// The same op for operands and results of other sizes, for ops with sizes among their attributes.
    fn resized(&self, _x: &[Meta], _y: &[Meta]) -> Self {
        self.clone()
    }
    /// StableHLO spelling.
    fn lower(&self, f: &mut Func, x: &Value, y: &Meta) -> Value;
    /// Gradient of the input.
    fn vjp(&self, x: &Meta, g: &Tensor) -> Result<Tensor>;
    /// `x` with the elements that the view reads replaced by `y`, in `Tensor` ops, so that it differentiates.
    fn write_back(&self, x: &Tensor, y: &Tensor) -> Result<Tensor>;
}

/// A kernel that replaces a fused op's expansion.
pub type KernelFn<T> = fn(&T, &[&Tensor], &[Tensor]) -> Result<()>;
/// A lowering that replaces a fused op's expansion.
pub type LowerFn<T> = fn(&T, &mut Func, &[Value], &[Meta]) -> Values;
/// A gradient that replaces that of a fused op's expansion.
pub type VjpFn<T> = fn(&T, &Saved<'_>, &Tensor) -> Result<Grads>;

/// The rules of an op that has a meaning as a composition, and optional faster rules.
pub trait Fused: Clone + Debug + Sized {
    /// Name in the trace, in errors and in `grad_fn` names.
    const NAME: &'static str;
    /// Number of outputs.
    const OUTS: usize = 1;
    /// Which outputs carry a gradient, as a bit mask.
    const DIFFERENTIABLE: u64 = u64::MAX;
    /// Native CPU kernel.
    const KERNEL: Option<KernelFn<Self>> = None;
    /// StableHLO spelling, if it is better than the expansion's.
    const LOWER: Option<LowerFn<Self>> = None;
    /// Gradient, if it is better than the expansion's. It needs [`Fused::saves`] too.
    const VJP: Option<VjpFn<Self>> = None;
    /// Sizes, dtype and device of output 0. The only rule that may reject.
    fn infer(&self, x: &[&Tensor]) -> Result<Meta>;
    /// Description of output `i >= 1`.
    fn infer_extra(&self, _x: &[&Tensor], _first: &Meta, _i: usize) -> Meta {
        unreachable!("{} has one output", Self::NAME)
    }
    /// How the dimensions of the operands `x` and the results `y` correspond.
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes;
    /// The same op for operands and results of other sizes, for ops with sizes among their attributes.
    fn resized(&self, _x: &[Meta], _y: &[Meta]) -> Self {
        self.clone()
    }
    /// The meaning: a composition of `Tensor` ops.
    fn expand(&self, x: &[&Tensor]) -> Result<Outs>;
    /// Whether `LOWER` supports these inputs on the device behind `tpu`. If not, the expansion is recorded.
    fn is_lowered(&self, _x: &[&Tensor]) -> bool {
        true
    }
    /// Inputs and outputs that `VJP` reads.
    fn saves(&self, _needs: u64) -> Saves {
        Saves::NONE
    }
    /// Name in `grad_fn`, if it differs from the op's.
    fn label(&self) -> &'static str {
        Self::NAME
    }
    /// Whether `infer` accepts complex inputs or refuses them itself. For other ops they are refused before `infer`.
    fn takes_complex(&self) -> bool {
        false
    }
    /// Whether the op only moves, compares or converts elements, so that it takes dtypes that are
    /// [only stored](DType::is_stored). Other ops refuse them before `infer`.
    fn takes_stored(&self) -> bool {
        false
    }
    /// How the strides of the results follow from those of the operands.
    const STRIDES: Strides = Strides::RowMajor;
    /// Facts that engines ask for.
    const FACTS: Facts = Facts::NONE;
    /// The attributes as data, for tools that make an op of the same kind with other sizes.
    fn attributes(&self) -> Attributes {
        Attributes::new()
    }
}

/// Refuse inputs of dtypes that an op does not accept.
#[cold]
fn check_rare(name: &str, x: &[&Tensor], takes_complex: bool, takes_stored: bool) -> Result<()> {
    let refused = |d: &DType| if d.is_stored() { !takes_stored } else { d.is_complex() && !takes_complex };
    match x.iter().map(|t| t.dtype()).find(refused) {
        Some(d) => Err(unsupported(name, d)),
        None => Ok(()),
    }
}

/// Call `infer` if the op accepts the dtypes of the operands, and refuse a result of a dtype that it does not accept.
/// `accepts` returns the name of the op, and whether it takes complex dtypes and those that are only stored. If
/// `makes_dtypes` is false, only stored operands give a stored result.
#[inline(always)]
fn within_dtypes(
    x: &[&Tensor],
    makes_dtypes: bool,
    accepts: impl Fn() -> (&'static str, bool, bool),
    infer: impl FnOnce() -> Result<Meta>,
) -> Result<Meta> {
    if x.iter().any(|t| t.dtype().is_rare()) {
        let (name, takes_complex, takes_stored) = accepts();
        check_rare(name, x, takes_complex, takes_stored)?;
    }
    let y = infer();
    if makes_dtypes
        && let Ok(meta) = &y
        && meta.dtype.is_stored()
    {
        let (name, _, takes_stored) = accepts();
        if !takes_stored {
            return Err(unsupported(name, meta.dtype));
        }
    }
    y
}

#[cold]
fn unsupported(name: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{name}_cpu\" not implemented for '{}'", dtype.scalar_type()))
}

/// Functions through which the table calls a primitive.
pub(crate) mod prim {
    use super::*;
    pub(crate) const IS_FUSED: bool = false;
    pub(crate) const IS_VIEW: bool = false;
    pub(crate) fn strides<O: Op>(_: &O) -> Strides {
        O::STRIDES
    }
    pub(crate) fn facts<O: Op>(_: &O) -> &'static Facts {
        &O::FACTS
    }
    pub(crate) fn attributes<O: Op>(o: &O) -> Attributes {
        o.attributes()
    }
    pub(crate) fn axes<O: Op>(o: &O, x: &[Meta], y: &[Meta]) -> Axes {
        o.axes(x, y)
    }
    pub(crate) fn resized<O: Op>(o: &O, x: &[Meta], y: &[Meta]) -> O {
        o.resized(x, y)
    }
    pub(crate) fn label<O: Op>(o: &O) -> &'static str {
        o.label()
    }
    pub(crate) fn outs<O: Op>(o: &O) -> usize {
        o.outs()
    }
    pub(crate) fn differentiable<O: Op>(o: &O) -> u64 {
        o.differentiable()
    }
    #[inline]
    pub(crate) fn infer<O: Op>(o: &O, x: &[&Tensor]) -> Result<Meta> {
        within_dtypes(x, !O::FACTS.is_binary, || (o.label(), o.takes_complex(), o.takes_stored()), || o.infer(x))
    }
    pub(crate) fn infer_extra<O: Op>(o: &O, x: &[&Tensor], first: &Meta, i: usize) -> Meta {
        o.infer_extra(x, first, i)
    }
    #[inline]
    pub(crate) fn kernel<O: Op>(o: &O, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        o.kernel(x, y)
    }
    pub(crate) fn has_kernel<O: Op>(_: &O) -> bool {
        true
    }
    pub(crate) fn has_lower<O: Op>(_: &O, _: &[&Tensor]) -> bool {
        true
    }
    pub(crate) fn has_vjp<O: Op>(_: &O) -> bool {
        true
    }
    pub(crate) fn lower<O: Op>(o: &O, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        o.lower(f, x, y)
    }
    pub(crate) fn vjp<O: Op>(o: &O, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        o.vjp(s, g)
    }
    #[inline]
    pub(crate) fn saves<O: Op>(o: &O, needs: u64) -> Saves {
        o.saves(needs)
    }
    pub(crate) fn expand<O: Op>(_: &O, _: &[&Tensor]) -> Result<Outs> {
        unreachable!("{} is a primitive", O::NAME)
    }
    pub(crate) fn view_dtype<O: Op>(_: &O, x: DType) -> DType {
        x
    }
    pub(crate) fn layout<O: Op>(_: &O, _: &Layout) -> Result<Layout> {
        unreachable!("{} is no view", O::NAME)
    }
    pub(crate) fn write_back<O: Op>(_: &O, _: &Tensor, _: &Tensor) -> Result<Tensor> {
        unreachable!("{} is no view", O::NAME)
    }
}

/// Functions through which the table calls a view.
pub(crate) mod view {
    use super::*;
    pub(crate) const IS_FUSED: bool = false;
    pub(crate) const IS_VIEW: bool = true;
    pub(crate) fn strides<O: ViewOp>(_: &O) -> Strides {
        Strides::RowMajor
    }
    pub(crate) fn facts<O: ViewOp>(_: &O) -> &'static Facts {
        &O::FACTS
    }
    pub(crate) fn attributes<O: ViewOp>(_: &O) -> Attributes {
        Attributes::new()
    }
    pub(crate) fn axes<O: ViewOp>(o: &O, x: &[Meta], y: &[Meta]) -> Axes {
        o.axes(x, y)
    }
    pub(crate) fn resized<O: ViewOp>(o: &O, x: &[Meta], y: &[Meta]) -> O {
        o.resized(x, y)
    }
    pub(crate) fn label<O: ViewOp>(_: &O) -> &'static str {
        O::NAME
    }
    pub(crate) fn outs<O: ViewOp>(_: &O) -> usize {
        1
    }
    pub(crate) fn differentiable<O: ViewOp>(_: &O) -> u64 {
        1
    }
    pub(crate) fn infer<O: ViewOp>(o: &O, x: &[&Tensor]) -> Result<Meta> {
        Ok(x[0].meta().with_dims(o.layout(&Layout::of(x[0]))?.dims).with_dtype(o.dtype(x[0].dtype())))
    }
    pub(crate) fn infer_extra<O: ViewOp>(_: &O, _: &[&Tensor], _: &Meta, _: usize) -> Meta {
        unreachable!("{} has one output", O::NAME)
    }
    pub(crate) fn kernel<O: ViewOp>(_: &O, _: &[&Tensor], _: &[Tensor]) -> Result<()> {
        unreachable!("{} moves no elements", O::NAME)
    }
    pub(crate) fn has_kernel<O: ViewOp>(_: &O) -> bool {
        false
    }
    pub(crate) fn has_lower<O: ViewOp>(_: &O, _: &[&Tensor]) -> bool {
        true
    }
    pub(crate) fn has_vjp<O: ViewOp>(_: &O) -> bool {
        true
    }
    pub(crate) fn lower<O: ViewOp>(o: &O, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        smallvec::smallvec![o.lower(f, &x[0], &y[0])]
    }
    pub(crate) fn vjp<O: ViewOp>(o: &O, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec::smallvec![Some(o.vjp(s.meta(0), g)?)])
    }
    pub(crate) fn saves<O: ViewOp>(_: &O, _: u64) -> Saves {
        Saves::NONE
    }
    pub(crate) fn expand<O: ViewOp>(_: &O, _: &[&Tensor]) -> Result<Outs> {
        unreachable!("{} is a primitive", O::NAME)
    }
    pub(crate) fn view_dtype<O: ViewOp>(o: &O, x: DType) -> DType {
        o.dtype(x)
    }
    pub(crate) fn layout<O: ViewOp>(o: &O, x: &Layout) -> Result<Layout> {
        o.layout(x)
    }
    pub(crate) fn write_back<O: ViewOp>(o: &O, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        o.write_back(x, y)
    }
}

/// Functions through which the table calls a fused op.
pub(crate) mod fused {
    use super::*;
    pub(crate) const IS_FUSED: bool = true;
    pub(crate) const IS_VIEW: bool = false;
    pub(crate) fn strides<O: Fused>(_: &O) -> Strides {
        O::STRIDES
    }
    pub(crate) fn facts<O: Fused>(_: &O) -> &'static Facts {
        &O::FACTS
    }
    pub(crate) fn attributes<O: Fused>(o: &O) -> Attributes {
        o.attributes()
    }
    pub(crate) fn axes<O: Fused>(o: &O, x: &[Meta], y: &[Meta]) -> Axes {
        o.axes(x, y)
    }
    pub(crate) fn resized<O: Fused>(o: &O, x: &[Meta], y: &[Meta]) -> O {
        o.resized(x, y)
    }
    pub(crate) fn label<O: Fused>(o: &O) -> &'static str {
        o.label()
    }
    pub(crate) fn outs<O: Fused>(_: &O) -> usize {
        O::OUTS
    }
    pub(crate) fn differentiable<O: Fused>(_: &O) -> u64 {
        O::DIFFERENTIABLE
    }
    pub(crate) fn infer<O: Fused>(o: &O, x: &[&Tensor]) -> Result<Meta> {
        within_dtypes(x, !O::FACTS.is_binary, || (o.label(), o.takes_complex(), o.takes_stored()), || o.infer(x))
    }
    pub(crate) fn infer_extra<O: Fused>(o: &O, x: &[&Tensor], first: &Meta, i: usize) -> Meta {
        o.infer_extra(x, first, i)
    }
    pub(crate) fn kernel<O: Fused>(o: &O, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        O::KERNEL.expect("asked for first")(o, x, y)
    }
    pub(crate) fn has_kernel<O: Fused>(_: &O) -> bool {
        O::KERNEL.is_some()
    }
    pub(crate) fn has_lower<O: Fused>(o: &O, x: &[&Tensor]) -> bool {
        O::LOWER.is_some() && o.is_lowered(x)
    }
    pub(crate) fn has_vjp<O: Fused>(_: &O) -> bool {
        O::VJP.is_some()
    }
    pub(crate) fn lower<O: Fused>(o: &O, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        O::LOWER.expect("asked for first")(o, f, x, y)
    }
    pub(crate) fn vjp<O: Fused>(o: &O, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        O::VJP.expect("asked for first")(o, s, g)
    }
    pub(crate) fn saves<O: Fused>(o: &O, needs: u64) -> Saves {
        o.saves(needs)
    }
    pub(crate) fn expand<O: Fused>(o: &O, x: &[&Tensor]) -> Result<Outs> {
        o.expand(x)
    }
    pub(crate) fn view_dtype<O: Fused>(_: &O, x: DType) -> DType {
        x
    }
    pub(crate) fn layout<O: Fused>(_: &O, _: &Layout) -> Result<Layout> {
        unreachable!("{} is no view", O::NAME)
    }
    pub(crate) fn write_back<O: Fused>(_: &O, _: &Tensor, _: &Tensor) -> Result<Tensor> {
        unreachable!("{} is no view", O::NAME)
    }
}

/// A float attribute, which is compared and hashed by its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct F64(u64);

impl F64 {
    /// Store a value.
    pub fn new(v: f64) -> F64 {
        F64(v.to_bits())
    }
    /// The value.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Debug for F64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&self.get(), f)
    }
}

/// Sizes of a broadcast of two shapes.
///
/// # Errors
/// `Runtime`, in PyTorch's wording.
#[inline]
pub fn broadcast_dims(a: &Dims, b: &Dims) -> Result<Dims> {
    if a == b {
        return Ok(*a);
    }
    broadcast_dims_slow(a, b)
}

fn broadcast_dims_slow(a: &Dims, b: &Dims) -> Result<Dims> {
    let n = a.len().max(b.len());
    let mut out = Dims::filled(1, n);
    for i in 1..=n {
        let x = if i <= a.len() { a[a.len() - i] } else { 1 };
        let y = if i <= b.len() { b[b.len() - i] } else { 1 };
        let size = if x == y || y == 1 {
            x
        } else if x == 1 {
            y
        } else {
            return Err(Error::runtime(format!(
                "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {}",
                n - i
            )));
        };
        out.set(n - i, size);
    }
    Ok(out)
}

/// The common device of the inputs. Numbers on the host fit with any device.
///
/// # Errors
/// `Runtime`, in PyTorch's wording.
#[inline]
pub fn same_device(x: &[&Tensor]) -> Result<Place> {
    let first = x[0].place();
    if x.iter().all(|t| t.place() == first) {
        return Ok(first);
    }
    same_device_slow(x)
}

/// Refuse tensors of different places, numbers included. A representation other than the dense one may take them as
/// operands, so its ops are left to decide.
///
/// # Errors
/// `Runtime`, in PyTorch's wording.
pub(crate) fn check_same_device(x: &Tensor, y: &Tensor) -> Result<()> {
    if x.place() == y.place() || !x.place().is_dense() || !y.place().is_dense() {
        return Ok(());
    }
    Err(Error::runtime(format!("{}{} and {}!", crate::block::OTHER_DEVICE, x.place(), y.place())))
}

fn same_device_slow(x: &[&Tensor]) -> Result<Place> {
    let number = |t: &Tensor| t.dims().is_empty() && t.device() == Device::CPU && !t.place().has_handle();
    let mut found: Option<Place> = None;
    for t in x.iter().filter(|t| !number(t)) {
        match found {
            None => found = Some(t.place()),
            Some(p) if p == t.place() => {}
            Some(p) => return Err(crate::backend::mixed(p, t.place())),
        }
    }
    // Among numbers, those that are not dense decide.
    Ok(found.unwrap_or_else(|| x.iter().map(|t| t.place()).find(|p| !p.is_dense()).unwrap_or(Place::CPU)))
}

/// Turn a dimension that a user gave into an index.
///
/// # Errors
/// `Index`, in PyTorch's wording.
#[inline]
pub fn normalize_dim(dim: i64, rank: usize) -> Result<usize> {
    let n = rank.max(1) as i64;
    if dim < -n || dim >= n {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
            -n,
            n - 1
        )));
    }
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}

/// The mask of all dimensions: its lowest `rank` bits.
#[inline]
pub fn all_dims(rank: usize) -> u64 {
    u64::MAX.checked_shr(64 - rank as u32).unwrap_or(0)
}

/// [`normalize_dim`] for a list, which must not repeat a dimension. An empty list means all dimensions.
///
/// # Errors
/// `Index` or `Runtime`, in PyTorch's wording.
pub fn normalize_dims(dims: &[i64], rank: usize) -> Result<u64> {
    if dims.is_empty() {
        return Ok(all_dims(rank));
    }
    let mut mask = 0u64;
    for &d in dims {
        let i = normalize_dim(d, rank)?;
        if mask >> i & 1 != 0 {
            return Err(Error::runtime(format!("dim {i} appears multiple times in the list of dims")));
        }
        mask |= 1 << i;
    }
    Ok(mask)
}

/// Refuse a dtype other than `dtype`, for ops that accept only one.
///
/// # Errors
/// `Runtime`, in PyTorch's wording.
pub fn expect_dtype(op: &str, x: &Tensor, dtype: DType) -> Result<()> {
    if x.dtype() == dtype {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{op}: expected scalar type {} but found {}",
        dtype.scalar_type(),
        x.dtype().scalar_type()
    )))
}
