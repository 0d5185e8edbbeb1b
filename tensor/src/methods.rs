//! PyTorch's methods of a tensor, as typed functions that call the row of their name with the schema's defaults.
//!
//! Methods for arithmetic, comparisons, shapes, sums and products stand beside their ops. The methods here add nothing
//! to their rows.

use crate::schema::{Arg, Ret};
use crate::{DType, Error, Place, Result, Scalar, Tensor, ops};

fn number<'a>(v: impl Into<Scalar>) -> Arg<'a> {
    Arg::Scalar(v.into())
}

fn int<'a>(v: i64) -> Arg<'a> {
    Arg::Scalar(Scalar::Int(v))
}

fn flag<'a>(v: bool) -> Arg<'a> {
    Arg::Scalar(Scalar::Bool(v))
}

fn optional<'a, T>(v: Option<T>, of: impl FnOnce(T) -> Arg<'a>) -> Arg<'a> {
    v.map_or(Arg::None, of)
}

/// Sizes as arguments of a row. A size beyond `i64` becomes `i64::MAX`, which the row refuses.
fn sizes(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect()
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $row:literal, [$($value:expr),*];)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The errors of PyTorch, in its words.
            pub fn $name(&self, $($arg: $ty),*) -> Result<Tensor> {
                ops::call_tensor($row, &[Arg::Tensor(self), $($value),*])
            }
        )*}
    };
}

macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $row:literal, [$($value:expr),*];)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The errors of PyTorch, in its words.
            pub fn $name(&self, $($arg: $ty),*) -> Result<(Tensor, Tensor)> {
                ops::call_pair($row, &[Arg::Tensor(self), $($value),*])
            }
        )*}
    };
}

macro_rules! in_place {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $row:literal, [$($value:expr),*];)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The errors of PyTorch, in its words.
            pub fn $name(&self, $($arg: $ty),*) -> Result<&Tensor> {
                ops::call($row, &[Arg::Tensor(self), $($value),*]).map(|_| self)
            }
        )*}
    };
}

impl Tensor {
    /// Numbers from the standard normal distribution, drawn by the device's generator.
    ///
    /// # Errors
    /// `NotImplemented` for a dtype without normal numbers, `OutOfMemory`.
    pub fn randn(dims: &[usize], dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        Tensor::made("randn", &[Arg::Ints(&sizes(dims))], dtype, device)
    }
    /// Numbers from 0 up to 1, without 1.
    ///
    /// # Errors
    /// The errors of [`Tensor::randn`].
    pub fn rand(dims: &[usize], dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        Tensor::made("rand", &[Arg::Ints(&sizes(dims))], dtype, device)
    }
    /// Whole numbers from `low` up to `high`, without `high`.
    ///
    /// # Errors
    /// `Runtime` if there are no such numbers, `OutOfMemory`.
    pub fn randint(low: i64, high: i64, dims: &[usize], dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        Tensor::made("randint.low", &[int(low), int(high), Arg::Ints(&sizes(dims))], dtype, device)
    }
    /// The numbers below `n` in random order.
    ///
    /// # Errors
    /// `Runtime` for a negative number, `OutOfMemory`.
    pub fn randperm(n: i64, device: impl Into<Place>) -> Result<Tensor> {
        Tensor::made("randperm", &[int(n)], DType::I64, device)
    }
    /// Ones on the diagonal of `n` x `m`, zeros beside it.
    ///
    /// # Errors
    /// `Runtime` for negative sizes, `OutOfMemory`.
    pub fn eye(n: i64, m: i64, dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        Tensor::made("eye.m", &[int(n), int(m)], dtype, device)
    }
    /// Call a row whose arguments end in dtype, layout and device.
    fn made(row: &str, args: &[Arg<'_>], dtype: DType, device: impl Into<Place>) -> Result<Tensor> {
        ops::call_tensor(row, &[args, &[Arg::DType(dtype), Arg::None, Arg::Device(device.into())]].concat())
    }

    /// The size along a dimension. Negative dimensions count from the end.
    ///
    /// # Errors
    /// `Index` for a dimension out of range.
    pub fn size(&self, dim: i64) -> Result<usize> {
        Ok(self.dims()[crate::op::normalize_dim(dim, self.dims().len())?])
    }
    /// The number of dimensions.
    pub fn dim(&self) -> usize {
        self.dims().len()
    }
    /// Tensors joined along a dimension that they have.
    ///
    /// # Errors
    /// The errors of PyTorch, in its words.
    pub fn cat(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
        ops::concat::cat(tensors, dim)
    }
    /// Tensors of one shape joined along a new dimension.
    ///
    /// # Errors
    /// The errors of PyTorch, in its words.
    pub fn stack(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
        ops::concat::stack(tensors, dim)
    }
    /// `x` if the condition holds, else `y`, for each element.
    ///
    /// # Errors
    /// The errors of PyTorch, in its words.
    pub fn where_(condition: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        ops::call_tensor("where.self", &[Arg::Tensor(condition), Arg::Tensor(x), Arg::Tensor(y)])
    }
    /// A sum of products, in Einstein's notation: `Tensor::einsum("ij,jk->ik", &[&a, &b])`.
    ///
    /// # Errors
    /// The errors of PyTorch, in its words.
    pub fn einsum(equation: &str, tensors: &[&Tensor]) -> Result<Tensor> {
        let tensors: Vec<Option<Tensor>> = tensors.iter().map(|&t| Some(t.clone())).collect();
        ops::call_tensor("einsum", &[Arg::Str(equation), Arg::Tensors(&tensors)])
    }
    /// Whether sizes and all elements are equal.
    ///
    /// # Errors
    /// The errors of PyTorch, in its words.
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        match ops::call("equal", &[Arg::Tensor(self), Arg::Tensor(other)])? {
            Ret::Scalar(v) => Ok(v == Scalar::Bool(true)),
            other => Err(Error::runtime(format!("equal gave {other:?}"))),
        }
    }
    /// The elements that `indices` select, one index tensor for each dimension. `None` selects a whole dimension. A
    /// mask stands for the positions where it holds.
    ///
    /// # Errors
    /// `Index` for an index out of range, and for indices that do not broadcast.
    pub fn index(&self, indices: &[Option<Tensor>]) -> Result<Tensor> {
        ops::call_tensor("index.Tensor", &[Arg::Tensor(self), Arg::Tensors(indices)])
    }
    /// A copy with values written at the places that [`Tensor::index`] would read.
    ///
    /// # Errors
    /// The errors of [`Tensor::index`].
    pub fn index_put(&self, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<Tensor> {
        let args = [Arg::Tensor(self), Arg::Tensors(indices), Arg::Tensor(values), flag(accumulate)];
        ops::call_tensor("index_put", &args)
    }
    /// [`Tensor::index_put`] in place.
    ///
    /// # Errors
    /// The errors of [`Tensor::index`].
    pub fn index_put_(&self, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool) -> Result<&Tensor> {
        let args = [Arg::Tensor(self), Arg::Tensors(indices), Arg::Tensor(values), flag(accumulate)];
        ops::call("index_put_", &args).map(|_| self)
    }
}

methods! {
    /// Zeros of the same shape, dtype and device.
    zeros_like() = "zeros_like", [];
    /// Ones of the same shape, dtype and device.
    ones_like() = "ones_like", [];
    /// A number for all elements, with the same shape, dtype and device.
    full_like(value: impl Into<Scalar>) = "full_like", [number(value)];
    /// Numbers between 0 and 1, with the same shape, dtype and device.
    rand_like() = "rand_like", [];
    /// Normal numbers, with the same shape, dtype and device.
    randn_like() = "randn_like", [];
    /// Draws 1 with the probability that each element is, 0 otherwise.
    bernoulli() = "bernoulli", [];
    /// Draws indices by the weights in each row.
    multinomial(samples: i64, replacement: bool) = "multinomial", [int(samples), flag(replacement)];

    /// The number of elements that are not zero.
    count_nonzero() = "count_nonzero", [];
    /// The number of elements that are not zero along dimensions.
    count_nonzero_dim(dims: &[i64]) = "count_nonzero.dim_IntList", [Arg::Ints(dims)];
    /// Differences of neighbours along a dimension, taken `n` times.
    diff(n: i64, dim: i64) = "diff", [int(n), int(dim)];
    /// Sums of products over the last dimensions.
    inner(other: &Tensor) = "inner", [Arg::Tensor(other)];
    /// Sums of products over pairs of dimensions.
    tensordot(other: &Tensor, dims: &[i64], other_dims: &[i64]) = "tensordot", [
        Arg::Tensor(other), Arg::Ints(dims), Arg::Ints(other_dims)];

    /// Variance over dimensions, or over all if the list is empty. `correction` is usually 1.
    var(dims: &[i64], correction: i64, keepdim: bool) = "var.correction",
    [Arg::Ints(dims), int(correction), flag(keepdim)];
    /// Standard deviation over dimensions, or over all if the list is empty. `correction` is usually 1.
    std(dims: &[i64], correction: i64, keepdim: bool) = "std.correction",
    [Arg::Ints(dims), int(correction), flag(keepdim)];
    /// The norm of all elements; `p` is usually 2.
    norm(p: f64) = "linalg_vector_norm", [number(p)];
    /// The norm over dimensions.
    norm_dim(p: f64, dims: &[i64], keepdim: bool) = "linalg_vector_norm", [number(p), Arg::Ints(dims), flag(keepdim)];
    /// The product of all elements.
    prod() = "prod", [];
    /// The product along a dimension.
    prod_dim(dim: i64, keepdim: bool) = "prod.dim_int", [int(dim), flag(keepdim)];
    /// Whether no element is zero.
    all() = "all", [];
    /// Whether no element along a dimension is zero.
    all_dim(dim: i64, keepdim: bool) = "all.dim", [int(dim), flag(keepdim)];
    /// Whether any element is not zero.
    any() = "any", [];
    /// Whether any element along a dimension is not zero.
    any_dim(dim: i64, keepdim: bool) = "any.dim", [int(dim), flag(keepdim)];
    /// The largest element.
    max() = "max", [];
    /// The smallest element.
    min() = "min", [];
    /// The median of all elements; of two middle ones, the lower.
    median() = "median", [];
    /// The logarithm of the sum of exponentials over dimensions.
    logsumexp(dims: &[i64], keepdim: bool) = "logsumexp", [Arg::Ints(dims), flag(keepdim)];
    /// Sum of the diagonal.
    trace() = "trace", [];

    /// Elements clamped to bounds.
    clamp(min: Option<f64>, max: Option<f64>) = "clamp", [optional(min, number), optional(max, number)];
    /// Elements clamped to bounds that are tensors.
    clamp_tensor(min: Option<&Tensor>, max: Option<&Tensor>) = "clamp.Tensor",
    [optional(min, Arg::Tensor), optional(max, Arg::Tensor)];
    /// `x + weight (end - x)`.
    lerp(end: &Tensor, weight: impl Into<Scalar>) = "lerp.Scalar", [Arg::Tensor(end), number(weight)];
    /// `x + value * a * b`.
    addcmul(a: &Tensor, b: &Tensor, value: impl Into<Scalar>) = "addcmul",
    [Arg::Tensor(a), Arg::Tensor(b), number(value)];
    /// `x + value * a / b`.
    addcdiv(a: &Tensor, b: &Tensor, value: impl Into<Scalar>) = "addcdiv",
    [Arg::Tensor(a), Arg::Tensor(b), number(value)];
    /// `x + a @ b`.
    addmm(a: &Tensor, b: &Tensor) = "addmm", [Arg::Tensor(a), Arg::Tensor(b)];
    /// `x + a @ b` of batches.
    baddbmm(a: &Tensor, b: &Tensor) = "baddbmm", [Arg::Tensor(a), Arg::Tensor(b)];
    /// NaN and infinities replaced by numbers. `None` stands for PyTorch's default.
    nan_to_num(nan: Option<f64>, posinf: Option<f64>, neginf: Option<f64>) = "nan_to_num",
    [optional(nan, number), optional(posinf, number), optional(neginf, number)];

    /// The elements at `index` along a dimension, one for each element of `index`.
    gather(dim: i64, index: &Tensor) = "gather", [int(dim), Arg::Tensor(index)];
    /// A copy with elements of `src` written at `index` along a dimension.
    scatter(dim: i64, index: &Tensor, src: &Tensor) = "scatter.src", [int(dim), Arg::Tensor(index), Arg::Tensor(src)];
    /// A copy with elements of `src` added at `index` along a dimension.
    scatter_add(dim: i64, index: &Tensor, src: &Tensor) = "scatter_add",
    [int(dim), Arg::Tensor(index), Arg::Tensor(src)];
    /// The slices at `index` along a dimension.
    index_select(dim: i64, index: &Tensor) = "index_select", [int(dim), Arg::Tensor(index)];
    /// A copy with slices of `source` added at `index` along a dimension.
    index_add(dim: i64, index: &Tensor, source: &Tensor) = "index_add",
    [int(dim), Arg::Tensor(index), Arg::Tensor(source)];
    /// A copy with slices of `source` written at `index` along a dimension.
    index_copy(dim: i64, index: &Tensor, source: &Tensor) = "index_copy",
    [int(dim), Arg::Tensor(index), Arg::Tensor(source)];
    /// A copy with a number written at `index` along a dimension.
    index_fill(dim: i64, index: &Tensor, value: impl Into<Scalar>) = "index_fill.int_Scalar",
    [int(dim), Arg::Tensor(index), number(value)];
    /// A copy with a number written where the mask holds.
    masked_fill(mask: &Tensor, value: impl Into<Scalar>) = "masked_fill.Scalar", [Arg::Tensor(mask), number(value)];
    /// The elements where the mask holds, as a vector. The host reads their number.
    masked_select(mask: &Tensor) = "masked_select", [Arg::Tensor(mask)];
    /// The elements at indices into the flattened tensor.
    take(index: &Tensor) = "take", [Arg::Tensor(index)];
    /// Positions of elements that are not zero, one in each row. The host reads their number.
    nonzero() = "nonzero", [];
    /// Rows with a one at the class and zeros elsewhere. `-1` stands for the number of classes.
    one_hot(classes: i64) = "one_hot", [int(classes)];
    /// Indices that would sort along a dimension.
    argsort(dim: i64, descending: bool) = "argsort", [int(dim), flag(descending)];

    /// The lower triangle: zeros above a diagonal.
    tril(diagonal: i64) = "tril", [int(diagonal)];
    /// The upper triangle: zeros below a diagonal.
    triu(diagonal: i64) = "triu", [int(diagonal)];
    /// A matrix with this diagonal, or the diagonal of a matrix.
    diag(diagonal: i64) = "diag", [int(diagonal)];
    /// Elements in reverse order along dimensions.
    flip(dims: &[i64]) = "flip", [Arg::Ints(dims)];
    /// Elements rolled along dimensions. Those that leave at one end enter at the other.
    roll(shifts: &[i64], dims: &[i64]) = "roll", [Arg::Ints(shifts), Arg::Ints(dims)];
    /// Repeated along each dimension.
    repeat(times: &[i64]) = "repeat", [Arg::Ints(times)];
    /// Each slice along a dimension repeated. Without a dimension, all elements, flattened, are repeated.
    repeat_interleave(times: i64, dim: Option<i64>) = "repeat_interleave.self_int", [int(times), optional(dim, int)];
    /// A view expanded to the sizes of another tensor.
    expand_as(other: &Tensor) = "expand_as", [Arg::Tensor(other)];
    /// A tensor converted to the dtype and device of another one.
    type_as(other: &Tensor) = "type_as", [Arg::Tensor(other)];
}

pairs! {
    /// The largest elements along a dimension, and their positions.
    max_dim(dim: i64, keepdim: bool) = "max.dim", [int(dim), flag(keepdim)];
    /// The smallest elements along a dimension, and their positions.
    min_dim(dim: i64, keepdim: bool) = "min.dim", [int(dim), flag(keepdim)];
    /// The medians along a dimension, and their positions.
    median_dim(dim: i64, keepdim: bool) = "median.dim", [int(dim), flag(keepdim)];
    /// The `k`-th smallest elements along a dimension, and their positions.
    kthvalue(k: i64, dim: i64, keepdim: bool) = "kthvalue", [int(k), int(dim), flag(keepdim)];
    /// The largest elements so far along a dimension, and their positions.
    cummax(dim: i64) = "cummax", [int(dim)];
    /// The smallest elements so far along a dimension, and their positions.
    cummin(dim: i64) = "cummin", [int(dim)];
    /// Variance and mean over dimensions, or over all if the list is empty.
    var_mean(dims: &[i64], correction: i64, keepdim: bool) = "var_mean.correction",
    [Arg::Ints(dims), int(correction), flag(keepdim)];
}

in_place! {
    /// Set all elements to zero.
    zero_() = "zero_", [];
    /// Set all elements to a number.
    fill_(value: impl Into<Scalar>) = "fill_.Scalar", [number(value)];
    /// Set the elements to normal numbers.
    normal_(mean: f64, std: f64) = "normal_", [number(mean), number(std)];
    /// Set the elements to numbers between bounds, without the upper one.
    uniform_(from: f64, to: f64) = "uniform_", [number(from), number(to)];
    /// Add a number.
    add_scalar_(value: impl Into<Scalar>) = "add_.Tensor", [number(value)];
    /// Subtract a number.
    sub_scalar_(value: impl Into<Scalar>) = "sub_.Tensor", [number(value)];
    /// Multiply by a number.
    mul_scalar_(value: impl Into<Scalar>) = "mul_.Tensor", [number(value)];
    /// Divide by a number.
    div_scalar_(value: impl Into<Scalar>) = "div_.Tensor", [number(value)];
    /// Clamp elements to bounds.
    clamp_(min: Option<f64>, max: Option<f64>) = "clamp_", [optional(min, number), optional(max, number)];
    /// Move a part of the way towards `end`.
    lerp_(end: &Tensor, weight: impl Into<Scalar>) = "lerp_.Scalar", [Arg::Tensor(end), number(weight)];
    /// Add `value * a * b`.
    addcmul_(a: &Tensor, b: &Tensor, value: impl Into<Scalar>) = "addcmul_",
    [Arg::Tensor(a), Arg::Tensor(b), number(value)];
    /// Add `value * a / b`.
    addcdiv_(a: &Tensor, b: &Tensor, value: impl Into<Scalar>) = "addcdiv_",
    [Arg::Tensor(a), Arg::Tensor(b), number(value)];
    /// Write a number where the mask holds.
    masked_fill_(mask: &Tensor, value: impl Into<Scalar>) = "masked_fill_.Scalar", [Arg::Tensor(mask), number(value)];
    /// Write elements of `src` at `index` along a dimension.
    scatter_(dim: i64, index: &Tensor, src: &Tensor) = "scatter_.src", [int(dim), Arg::Tensor(index), Arg::Tensor(src)];
    /// Add elements of `src` at `index` along a dimension.
    scatter_add_(dim: i64, index: &Tensor, src: &Tensor) = "scatter_add_",
    [int(dim), Arg::Tensor(index), Arg::Tensor(src)];
    /// Add slices of `source` at `index` along a dimension.
    index_add_(dim: i64, index: &Tensor, source: &Tensor) = "index_add_",
    [int(dim), Arg::Tensor(index), Arg::Tensor(source)];
    /// Write slices of `source` at `index` along a dimension.
    index_copy_(dim: i64, index: &Tensor, source: &Tensor) = "index_copy_",
    [int(dim), Arg::Tensor(index), Arg::Tensor(source)];
    /// Write a number at `index` along a dimension.
    index_fill_(dim: i64, index: &Tensor, value: impl Into<Scalar>) = "index_fill_.int_Scalar",
    [int(dim), Arg::Tensor(index), number(value)];
}
