//! In-place and `out=` forms.
//!
//! Ops are pure. The in-place form of an op computes, writes the value into the tensor through its chain of views, and
//! gives the tensor the result's history. If no gradient is needed and the op is one pointwise kernel, the kernel
//! writes directly. An op that changes some elements, such as `index_copy_`, writes only these; see [`update`].

use crate::op::Prim;
use crate::schema::{Args, Row};
use crate::{DType, Dims, Error, GradRef, Result, Scalar, Tensor, dispatch, foreign, scalar, state, view};
use smallvec::SmallVec;

/// Refuse to write an inference tensor outside of inference mode.
fn check_inference(x: &Tensor) -> Result<()> {
    if x.is_inference() && !state::is_inference() {
        return Err(Error::runtime(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a \
            normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.",
        ));
    }
    Ok(())
}

/// Refuse in-place changes of tensors that repeat elements, of leaves that require a gradient, and of views of such
/// leaves.
pub fn check_writable(x: &Tensor) -> Result<()> {
    check_inference(x)?;
    if !x.is_contiguous() && repeats_elements(x) {
        return Err(Error::runtime(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
            Please clone() the tensor before performing the operation.",
        ));
    }
    check_history(x)
}

/// How the memory of two tensors overlaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    /// They do not overlap. As in PyTorch, this is also the answer for a tensor that has gaps between its elements or
    /// repeats them.
    None,
    /// They share some places, or all places in another order.
    Partial,
    /// Both have the same elements in the same places.
    Full,
}

impl Overlap {
    /// How the memory of `x` and `y` overlaps.
    pub fn of(x: &Tensor, y: &Tensor) -> Overlap {
        if x.is_same(y) {
            return Overlap::Full;
        }
        if !x.shares_storage(y) || x.numel() == 0 || y.numel() == 0 || !x.is_dense() || !y.is_dense() {
            return Overlap::None;
        }
        let range = |t: &Tensor| {
            let size = t.dtype().size_bytes();
            (t.storage_offset() * size, (t.storage_offset() + t.numel()) * size)
        };
        let (a, b) = (range(x), range(y));
        if a == b && layout(x) == layout(y) {
            Overlap::Full
        } else if a.1 <= b.0 || b.1 <= a.0 {
            Overlap::None
        } else {
            Overlap::Partial
        }
    }
}

/// The error for an operand that lies where a result is written.
pub fn overlaps() -> Error {
    Error::runtime(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory \
        location. Please clone() the tensor before performing the operation.",
    )
}

/// Refuse an operand whose memory overlaps that of `x`, unless both have the same elements at the same places.
pub fn check_apart(x: &Tensor, operand: &Tensor) -> Result<()> {
    if !x.shares_storage(operand) || Overlap::of(x, operand) != Overlap::Partial { Ok(()) } else { Err(overlaps()) }
}

/// Refuse an operand that shares any memory with `x`.
pub fn check_disjoint(x: &Tensor, operand: &Tensor) -> Result<()> {
    if !x.shares_storage(operand) || Overlap::of(x, operand) == Overlap::None { Ok(()) } else { Err(overlaps()) }
}

/// Whether `x` and `y` have the same elements in the same places. `Overlap::Full` leaves out tensors with gaps.
pub(crate) fn is_same_place(x: &Tensor, y: &Tensor) -> bool {
    x.shares_storage(y)
        && x.storage_offset() == y.storage_offset()
        && x.meta() == y.meta()
        && x.is_lazy() == y.is_lazy()
        && (x.strides() == y.strides() || layout(x) == layout(y))
}

/// Strides and sizes of the dimensions that have more than one element.
fn layout(x: &Tensor) -> SmallVec<[(usize, usize); 8]> {
    x.strides().iter().copied().zip(x.dims().iter().copied()).filter(|d| d.1 != 1).collect()
}

/// Whether several indices lead to the same element, as after `expand`.
pub fn repeats_elements(x: &Tensor) -> bool {
    x.numel() > 0 && x.dims().iter().zip(x.strides().iter()).any(|(n, s)| *n > 1 && *s == 0)
}

/// Whether different indices may lead to one element.
pub fn overlaps_itself(x: &Tensor) -> bool {
    crate::overlap::overlaps_itself(x)
}

fn check_history(x: &Tensor) -> Result<()> {
    if !state::grad_enabled() {
        return Ok(());
    }
    if let Some(v) = x.view_info().filter(|v| !v.is_detached()) {
        if v.base.requires_grad() || x.requires_grad() {
            v.check_rebase(x)?;
            check_user_function(v.base.grad_ref(), v.base.output_nr())?;
        }
        // A leaf may itself be a view of a tensor that needs no gradient.
        if v.base.is_leaf() && (v.base.requires_grad() || x.requires_grad()) {
            return Err(Error::runtime(
                "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            ));
        }
    }
    match x.grad_ref() {
        // The history of the tensor that it views would not see the write.
        Some(GradRef::Node(n)) if foreign::is_foreign(x) && n.prim().is_some_and(Prim::is_view) => {
            Err(Error::not_implemented(format!(
                "a view of a tensor whose class answers calls itself is being modified in place, and requires a \
                gradient ({}). Write without a gradient (torch.no_grad), or make the result anew, with torch.where or \
                torch.cat.",
                n.name()
            )))
        }
        Some(GradRef::Leaf(l)) if l.requires_grad() => {
            Err(Error::runtime("a leaf Variable that requires grad is being used in an in-place operation."))
        }
        r => check_user_function(r, x.output_nr()),
    }
}

/// Refuse a write to an output of a user's function that shares the elements of an input.
fn check_user_function(r: Option<GradRef>, nr: u32) -> Result<()> {
    match r {
        Some(GradRef::Node(n)) if n.user_function().is_some_and(|f| f.is_view_output(nr)) => {
            Err(Error::runtime(format!(
                "Output {nr} of {} is a view and is being modified inplace. This view was created inside a custom \
                Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would \
                override the custom backward associated with the custom Function, leading to incorrect gradients. This \
                behavior is forbidden. You can fix this by cloning the output of the custom Function.",
                n.name()
            )))
        }
        _ => Ok(()),
    }
}

/// The in-place form of any function. `f` computes the new value from an alias of `x`.
pub fn apply(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<()> {
    check_writable(x)?;
    let alias = x.overwritten_operand()?;
    let y = {
        let _guard = state::Overwriting::set(x.storage_id());
        f(&alias)?
    };
    assign(x, &y)
}

/// [`apply`] for a function that changes some elements of `x`. On `cpu` its op may write these elements alone, by
/// `dispatch::call_update` or `destination`, and return the tensor that it has written. The function must not read `x`
/// after that.
///
/// # Errors
/// The errors of [`apply`].
pub fn update(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<()> {
    let _guard = (x.place().in_memory()).then(|| state::Destination::set(x.storage_id()));
    apply(x, f)
}

/// Whether a call of [`update`] writes the storage of `x` and has not done so yet.
#[inline]
pub(crate) fn is_destination(x: &Tensor) -> bool {
    state::with(|s| s.destination.get()) == x.storage_id()
}

/// An alias of `x` for an op to write, if a call of [`update`] writes `x`. Return `None` if an operand shares the
/// memory of `x`, if memory does not hold the elements themselves, or if `x` overlaps itself, which needs an order of
/// writes. There is one alias for a call.
pub(crate) fn destination(x: &Tensor, operands: &[&Tensor]) -> Result<Option<Tensor>> {
    let shares = |t: &&Tensor| t.is_lazy() || t.shares_storage(x);
    if !is_destination(x) || x.is_lazy() || overlaps_itself(x) || operands.iter().any(shares) {
        return Ok(None);
    }
    state::with(|s| s.destination.set(0));
    x.shallow_alias().map(Some)
}

/// The in-place form of a function that gives every element the same value, so that repeated elements do no harm.
pub fn apply_same(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<()> {
    let tracked = || x.requires_grad() || x.view_info().is_some_and(|v| v.base.requires_grad());
    if !repeats_elements(x) || (state::grad_enabled() && tracked()) {
        return apply(x, f);
    }
    assign(x, &f(x)?)
}

/// Write `x` by a row that gives all copies of an element the same value.
pub(crate) fn write_same(row: &Row, x: &Tensor, args: &Args<'_>) -> Result<()> {
    apply_same(x, |x| row.call_on(x, args))
}

/// Write those elements of `y` that are `hit` over `x`, which repeats elements. If several are written to one place,
/// the last one stays.
pub(crate) fn assign_repeated(x: &Tensor, y: &Tensor, hit: &Tensor) -> Result<()> {
    let rank = x.dims().len();
    let repeats = |d: usize| x.dims()[d] > 1 && x.strides()[d] == 0;
    // Take one copy of each element, and put all copies of an element into a last dimension.
    let once = (0..rank).filter(|&d| repeats(d)).try_fold(x.clone(), |t, d| t.narrow(d as i64, 0, 1))?;
    let order: Vec<i64> =
        (0..rank).filter(|&d| !repeats(d)).chain((0..rank).filter(|&d| repeats(d))).map(|d| d as i64).collect();
    let count: usize = (0..rank).filter(|&d| repeats(d)).map(|d| x.dims()[d]).product();
    let lines = Dims::new(&[once.numel(), count]);
    let copies = |t: &Tensor| t.permute(&order)?.reshape_dims(lines);
    let number = Tensor::arange(Scalar::Int(1), Scalar::Int(count as i64 + 1), Scalar::Int(1), DType::I64, x.place())?;
    let last = crate::ops::reduce::reduce(
        crate::ops::reduce::ReduceKind::Max,
        &copies(hit)?.to_dtype(DType::I64)?.mul(&number)?,
        Some(&[1]),
        true,
    )?;
    let at = last.add_scalar(-1)?.maximum_scalar(0)?;
    let new = crate::ops::indexing::gather(&copies(y)?, 1, &at)?;
    let old = once.permute(&order)?.reshape_dims(Dims::new(&[once.numel(), 1]))?;
    let new = crate::ops::pointwise::select(&last.gt_scalar(0)?, &new, &old)?;
    // `once` has size one where `x` repeats, so its elements have the order of the rows of `copies`.
    assign(&once, &new.reshape_dims(*once.dims())?)
}

/// Whether a write to `x` replaces all elements that its history is about. A write to a view of a part leaves the rest
/// of the base.
pub(crate) fn is_whole(x: &Tensor) -> bool {
    x.view_info().is_none_or(|v| !v.is_detached() && v.base.numel() == x.numel())
}

/// The result `y` of an op in the dtype of `x`, which it is written into.
pub(crate) fn converted(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    match (x.dtype(), y.dtype()) {
        (a, b) if a == b => Ok(y.clone()),
        (a, b) if scalar::can_cast(b, a) => y.to_dtype(a),
        (a, b) => Err(Error::runtime(format!(
            "result type {} can't be cast to the desired output type {}",
            b.scalar_type(),
            a.scalar_type()
        ))),
    }
}

/// Write `y` over `x` and give `x` the history of `y`.
pub fn assign(x: &Tensor, y: &Tensor) -> Result<()> {
    check_inference(x)?;
    dispatch::check_same_dims(x, y.dims())?;
    let y = converted(x, y)?;
    let y = if y.place() == x.place() { y } else { y.to_device(x.place())? };
    let tracked = state::grad_enabled()
        && (y.requires_grad() || x.requires_grad() || x.view_info().is_some_and(|v| v.base.requires_grad()));
    let old_base = match x.view_info() {
        Some(v) if tracked && !v.is_detached() => {
            v.check_rebase(x)?;
            Some(v.base.alias_with_history()?)
        }
        _ => None,
    };
    // Elements that a constant overwrites have a gradient too: zero.
    let y = if tracked && is_whole(x) && !y.requires_grad() && x.requires_grad() && x.dtype().is_inexact() {
        crate::ops::pointwise::independent_of(&x.alias_with_history()?, y.expand_dims(x.dims())?)?
    } else {
        y
    };
    x.write_value(&y)?;
    if tracked {
        view::rebase_history(x, &y, old_base)?;
    }
    Ok(())
}
