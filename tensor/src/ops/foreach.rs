//! `torch._foreach_*`: an op called on every tensor of a list, as a loop over parameters would call it.
//!
//! Each row names the op of the table for one element. Lists of tensors and of numbers pass their elements to that op;
//! a single tensor or number is passed to all calls.

use crate::ops::{Callable, find};
use crate::schema::Fill::{Fraction, Normal, Positive, Unit};
use crate::schema::{Arg, Args, Fill, Ret, Row, Sample, SampleArg, Scope, Tier, n, t};
use crate::types::compute::{narrowed, widened};
use crate::{Error, Result, Scalar, Tensor, samples};
use smallvec::SmallVec;

/// The number of tensors. All lists must have the same length.
fn length(a: &Args<'_>) -> Result<usize> {
    let mut lists = a.0.iter().filter_map(|a| if let Arg::Tensors(v) = a { Some(v.len()) } else { None });
    let len = lists.next().unwrap_or(0);
    if len == 0 {
        return Err(Error::runtime("Tensor list must have at least one tensor."));
    }
    if let Some(other) = lists.find(|&other| other != len) {
        return Err(Error::runtime(format!(
            "Tensor lists must have the same number of tensors, got {len} and {other}"
        )));
    }
    if a.0.iter().any(|a| matches!(a, Arg::Scalars(v) if v.len() != len)) {
        return Err(Error::runtime("Tensor list must have same number of elements as scalar list."));
    }
    Ok(len)
}

/// The argument for the call on tensor `k`.
fn element_of(a: Arg<'_>, k: usize) -> Arg<'_> {
    match a {
        Arg::Tensors(v) => v[k].as_ref().map_or(Arg::None, Arg::Tensor),
        Arg::Scalars(v) => Arg::Scalar(v[k]),
        other => other,
    }
}

/// Call an op for each tensor. Arguments that no list provides get the op's defaults.
fn each(a: &Args<'_>, op: &Callable) -> Result<Ret> {
    let len = length(a)?;
    // Refuse missing tensors before the first one is written.
    for i in (0..a.0.len()).filter(|&i| matches!(a.0[i], Arg::Tensors(_))) {
        a.tensors(i)?;
    }
    let element = |k: usize| -> Result<Tensor> {
        let mut args = SmallVec::<[Arg<'_>; 5]>::new();
        args.extend(a.0.iter().map(|&a| element_of(a, k)));
        op.call_tensor(&args)
    };
    Ok(Ret::List((0..len).map(element).collect::<Result<_>>()?))
}

/// [`each`] for a tensor at 1 that stands for a number.
fn each_by_tensor(a: &Args<'_>, op: &Callable) -> Result<Ret> {
    let by = a.tensor(1)?;
    if !by.dims().is_empty() {
        return Err(Error::runtime(format!(
            "scalar tensor expected to be 0 dim but it has {} dimensions and {} elements.",
            by.dims().len(),
            by.numel()
        )));
    }
    each(a, op)
}

/// [`each`] for numbers at 3 that are the elements of a tensor.
fn each_by_elements(a: &Args<'_>, op: &Callable) -> Result<Ret> {
    let by = a.tensor(3)?;
    if by.place() != crate::Place::CPU {
        return Err(Error::runtime(format!("Expected scalars to be on CPU, got {} instead.", by.place())));
    }
    if by.dims().len() != 1 {
        return Err(Error::runtime(format!(
            "Expected packed scalar Tensor to be of dimension 1. Got {} instead.",
            by.dims().len()
        )));
    }
    let len = a.tensors(0)?.len();
    if by.numel() != len {
        return Err(Error::runtime(format!(
            "Expected length of scalars to match input of length {len} but got {} instead.",
            by.numel()
        )));
    }
    let numbers = (0..len as i64).map(|k| by.select(0, k)?.item()).collect::<Result<Vec<Scalar>>>()?;
    each(&Args(&[a.0[0], a.0[1], a.0[2], Arg::Scalars(&numbers)]), op)
}

/// The norm of each tensor.
fn norm(a: &Args<'_>, op: &Callable) -> Result<Ret> {
    each(&Args(&[a.0[0], a.0[1], Arg::None, Arg::Scalar(Scalar::Bool(false)), a.0[2]]), op)
}

/// The sum of the powers of the magnitudes of each tensor.
fn sum_of_powers(a: &Args<'_>, op: &Callable) -> Result<Ret> {
    length(a)?;
    let dtype = a.opt_dtype(2)?;
    let one = |x: &&Tensor| -> Result<Tensor> {
        let x = dtype.map_or_else(|| Ok((*x).clone()), |d| x.to_dtype(d))?;
        let powers = op.call_tensor(&[Arg::Tensor(&widened(&x)?.abs()?), a.0[1]])?;
        narrowed(powers.sum()?, x.dtype())
    };
    Ok(Ret::List(a.tensors(0)?.iter().map(one).collect::<Result<_>>()?))
}

fn two(fill: Fill) -> SampleArg {
    SampleArg::Tensors(vec![vec![2, 3], vec![4]], fill)
}
fn numbers() -> SampleArg {
    SampleArg::Scalars(vec![Scalar::Float(0.5), Scalar::Int(2)])
}

/// [`each`] for maxima and minima, which complex numbers do not have. The error names PyTorch's kernel.
fn each_extreme(a: &Args<'_>, op: &Callable) -> Result<Ret> {
    if let Some(x) = a.tensors(0)?.iter().find(|x| x.dtype().is_complex()) {
        return Err(crate::ops::complex::unsupported("maximum_cpu", x.dtype()));
    }
    each(a, op)
}

/// A row: its name and parameters, the way to compute each element, the op, and samples. If the op has an in-place
/// form, `name_` uses it.
macro_rules! row {
    ($name:expr, $each:ident, $op:expr, $samples:expr) => {
        Row::new(concat!("_foreach_", $name, " -> Tensor[]"), Tier::Composed, |a| $each(a, find($op)?), $samples)
            .scope(Scope::Function)
            .no_out()
    };
    ($name:expr, $each:ident, $op:expr, $in_place:expr, $samples:expr) => {
        row!($name, $each, $op, $samples).inplace_by(|a| $each(a, find($in_place)?)).in_place_function()
    };
}
/// Rows of ops of one tensor.
macro_rules! unary_rows {
    ($($op:literal: $fill:ident, $values:literal;)*) => {
        &[$(row!(concat!($op, "(Tensor[] self)"), each, $op, concat!($op, "_"), samples!([two($fill)]))
            .doc(concat!("Return the ", $values, " of each tensor in the list `input`."))),*]
    };
}
/// Rows of bounds: `$number` is the op for numbers, `$tensor` for tensors.
macro_rules! bound_rows {
    ($($op:literal: $number:literal $tensor:literal, $doc:literal;)*) => {
        &[$(
            row!(concat!($op, ".Scalar(Tensor[] self, Scalar scalar)"), each, $number, concat!($number, "_"),
                samples!([two(Normal), n(0.5)])).doc($doc),
            row!(concat!($op, ".ScalarList(Tensor[] self, Scalar[] scalars)"), each, $number, concat!($number, "_"),
                samples!([two(Normal), numbers()])),
            row!(concat!($op, ".List(Tensor[] self, Tensor[] other)"), each_extreme, $tensor,
                concat!($number, "_.Tensor"), samples!([two(Normal), two(Normal)])),
        )*]
    };
}
/// Rows of `self + value * tensor1 * tensor2` and similar functions.
macro_rules! blend_rows {
    ($($op:literal, $doc:literal;)*) => {
        &[$(
            row!(concat!($op, ".ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars)"),
                each, $op, concat!($op, "_"), samples!([two(Normal), two(Normal), two(Positive), numbers()])).doc($doc),
            row!(concat!($op, ".Tensor(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars)"),
                each_by_elements, $op, concat!($op, "_"), samples!()),
            row!(concat!($op, ".Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1)"), each, $op,
                concat!($op, "_"), samples!([two(Normal), two(Normal), two(Positive), n(0.5)])),
        )*]
    };
}

/// Rows of the ops of one list.
pub const UNARY: &[Row] = unary_rows![
    "abs": Normal, "absolute values";
    "acos": Unit, "arc cosines";
    "asin": Unit, "arc sines";
    "atan": Normal, "arc tangents";
    "ceil": Normal, "elements rounded up";
    "cos": Normal, "cosines";
    "cosh": Normal, "hyperbolic cosines";
    "erf": Normal, "values of the error function";
    "erfc": Normal, "values of the complementary error function";
    "exp": Normal, "exponentials";
    "expm1": Normal, "exponentials less one";
    "floor": Normal, "elements rounded down";
    "frac": Normal, "fractional parts";
    "lgamma": Positive, "logarithms of the magnitude of the gamma function";
    "log": Positive, "natural logarithms";
    "log10": Positive, "decimal logarithms";
    "log1p": Positive, "logarithms of one more";
    "log2": Positive, "binary logarithms";
    "neg": Normal, "negated elements";
    "reciprocal": Positive, "reciprocals";
    "round": Normal, "elements rounded to the nearest integer";
    "rsqrt": Positive, "reciprocal square roots";
    "sigmoid": Normal, "logistic sigmoids";
    "sign": Normal, "signs";
    "sin": Normal, "sines";
    "sinh": Normal, "hyperbolic sines";
    "sqrt": Positive, "square roots";
    "tan": Unit, "tangents";
    "tanh": Normal, "hyperbolic tangents";
    "trunc": Normal, "elements rounded towards zero";
];

/// Rows of the arithmetic of lists.
pub const ARITHMETIC: &[Row] = &[
    row!(
        "add.Scalar(Tensor[] self, Scalar scalar)",
        each,
        "add.Tensor",
        "add_.Tensor",
        samples!([two(Normal), n(0.5)])
    )
    .doc(
        "Return each tensor in the list `input` plus a number, a tensor without dimensions, or the number or tensor \
         at its place in another list. A tensor on the right is multiplied by `alpha` first.",
    ),
    row!(
        "add.ScalarList(Tensor[] self, Scalar[] scalars)",
        each,
        "add.Tensor",
        "add_.Tensor",
        samples!([two(Normal), numbers()])
    ),
    row!(
        "add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha=1)",
        each_by_tensor,
        "add.Tensor",
        "add_.Tensor",
        samples!([two(Normal), t(&[]), n(2)])
    ),
    row!(
        "add.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1)",
        each,
        "add.Tensor",
        "add_.Tensor",
        samples!([two(Normal), two(Normal), n(2)])
    ),
    row!(
        "sub.Scalar(Tensor[] self, Scalar scalar)",
        each,
        "sub.Tensor",
        "sub_.Tensor",
        samples!([two(Normal), n(0.5)])
    )
    .doc(
        "Return each tensor in the list `input` less a number, or the number or tensor at its place in another list. \
         A tensor on the right is multiplied by `alpha` first.",
    ),
    row!(
        "sub.ScalarList(Tensor[] self, Scalar[] scalars)",
        each,
        "sub.Tensor",
        "sub_.Tensor",
        samples!([two(Normal), numbers()])
    ),
    row!(
        "sub.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1)",
        each,
        "sub.Tensor",
        "sub_.Tensor",
        samples!([two(Normal), two(Normal), n(2)])
    ),
    row!(
        "mul.ScalarList(Tensor[] self, Scalar[] scalars)",
        each,
        "mul.Tensor",
        "mul_.Tensor",
        samples!([two(Normal), numbers()])
    )
    .doc(
        "Return each tensor in the list `input` times a number, a tensor without dimensions, or the number or tensor \
         at its place in another list.",
    ),
    row!(
        "mul.Tensor(Tensor[] self, Tensor other)",
        each_by_tensor,
        "mul.Tensor",
        "mul_.Tensor",
        samples!([two(Normal), t(&[])])
    ),
    row!(
        "mul.List(Tensor[] self, Tensor[] other)",
        each,
        "mul.Tensor",
        "mul_.Tensor",
        samples!([two(Normal), two(Normal)])
    ),
    row!(
        "mul.Scalar(Tensor[] self, Scalar scalar)",
        each,
        "mul.Tensor",
        "mul_.Tensor",
        samples!([two(Normal), n(0.5)])
    ),
    row!(
        "div.ScalarList(Tensor[] self, Scalar[] scalars)",
        each,
        "div.Tensor",
        "div_.Tensor",
        samples!([two(Normal), numbers()])
    )
    .doc(
        "Return each tensor in the list `input` divided by a number, a tensor without dimensions, or the number or \
         tensor at its place in another list.",
    ),
    row!(
        "div.Tensor(Tensor[] self, Tensor other)",
        each_by_tensor,
        "div.Tensor",
        "div_.Tensor",
        samples!([two(Normal), t(&[])])
    ),
    row!(
        "div.List(Tensor[] self, Tensor[] other)",
        each,
        "div.Tensor",
        "div_.Tensor",
        samples!([two(Normal), two(Positive)])
    ),
    row!(
        "div.Scalar(Tensor[] self, Scalar scalar)",
        each,
        "div.Tensor",
        "div_.Tensor",
        samples!([two(Normal), n(0.5)])
    ),
    row!("pow.ScalarAndTensor(Scalar self, Tensor[] exponent)", each, "pow.Scalar", samples!([n(2.0), two(Normal)]))
    .doc(
        "Return the powers `input ** exponent` for the tensors of a list: `input`, with a number or another list as \
         `exponent`, or `exponent`, with a number as `input`.",
    ),
    row!(
        "pow.Scalar(Tensor[] self, Scalar exponent)",
        each,
        "pow.Tensor_Tensor",
        "pow_.Tensor_Tensor",
        samples!([two(Positive), n(2.5)])
    ),
    row!(
        "pow.ScalarList(Tensor[] self, Scalar[] exponent)",
        each,
        "pow.Tensor_Tensor",
        "pow_.Tensor_Tensor",
        samples!([two(Positive), numbers()])
    ),
    row!(
        "pow.List(Tensor[] self, Tensor[] exponent)",
        each,
        "pow.Tensor_Tensor",
        "pow_.Tensor_Tensor",
        samples!([two(Positive), two(Normal)])
    ),
    row!(
        "lerp.Scalar(Tensor[] self, Tensor[] tensors1, Scalar weight)",
        each,
        "lerp.Scalar",
        "lerp_.Scalar",
        samples!([two(Normal), two(Normal), n(0.3)])
    )
    .doc(
        "Return `input + weight * (tensors1 - input)` for the tensors at each place of two lists, where `weight` is a \
         number or a list.",
    ),
    row!(
        "lerp.ScalarList(Tensor[] self, Tensor[] tensors1, Scalar[] weight)",
        each,
        "lerp.Scalar",
        "lerp_.Scalar",
        samples!([two(Normal), two(Normal), numbers()])
    ),
    row!(
        "lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights)",
        each,
        "lerp.Tensor",
        "lerp_.Tensor",
        samples!([two(Normal), two(Normal), two(Fraction)])
    ),
];

/// Rows of products, reductions and copies.
pub const OTHERS: &[Row] = &[
    row!("mm(Tensor[] self, Tensor[] mat2)", each, "mm", samples!([matrices(), matrices()]))
        .doc("Return the products of the matrices at each place of the lists `input` and `mat2`."),
    row!("max(Tensor[] self)", each, "max", samples!([two(Normal)]))
        .doc("Return the largest element of each tensor in the list `input`, as tensors without dimensions."),
    row!("clone(Tensor[] self, *, MemoryFormat? memory_format=None)", each, "clone", samples!([two(Normal)]))
        .doc("Return a copy of each tensor in the list `input`, in `memory_format` if that is given."),
    row!(
        "norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None)",
        norm,
        "linalg_vector_norm",
        samples!([two(Normal)], [two(Normal), n(1)])
    )
    .doc(
        "Return the `ord`-norm of the elements of each tensor in the list `input`, computed in `dtype` if that is \
         given.",
    ),
    row!(
        "powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None)",
        sum_of_powers,
        "pow.Tensor_Tensor",
        samples!([two(Normal)], [two(Normal), n(3)])
    )
    .doc("Return the sum of `abs(x) ** ord` over the elements `x` of each tensor in the list `input`."),
    row!("copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False)", each, "copy_", || vec![
        Sample::new(vec![two(Normal), two(Normal)]).no_gradient()
    ])
    .doc("Write each tensor of the list `src` into the tensor at its place in the list `input`."),
    row!("zero_(Tensor(a!)[] self)", each, "zero_", || vec![Sample::new(vec![two(Normal)]).no_gradient()])
        .doc("Fill each tensor in the list `input` with zeros, in place."),
];

fn matrices() -> SampleArg {
    SampleArg::Tensors(vec![vec![3, 3], vec![2, 2]], Normal)
}

/// Rows of maxima and minima with bounds.
pub const BOUNDS: &[Row] = bound_rows![
    "clamp_min": "clamp_min" "clamp_min.Tensor",
        "Return each tensor in the list `input` with its elements raised to a lower bound, where they are below it.";
    "clamp_max": "clamp_max" "clamp_max.Tensor",
        "Return each tensor in the list `input` with its elements lowered to an upper bound, where they are above it.";
    "maximum": "clamp_min" "maximum",
        "Return the larger one of the elements of each tensor in the list `input` and of a number or another tensor.";
    "minimum": "clamp_max" "minimum",
        "Return the smaller one of the elements of each tensor in the list `input` and of a number or another tensor.";
];

/// Rows of the sums of products and of quotients.
pub const BLENDS: &[Row] = blend_rows![
    "addcdiv", "Return `input + value * tensor1 / tensor2` for the tensors at each place of three lists.";
    "addcmul", "Return `input + value * tensor1 * tensor2` for the tensors at each place of three lists.";
];
