//! Functions that split and join tensors, composed of views and `cat`.

use crate::op::normalize_dim;
use crate::ops::concat::{cat, flip};
use crate::ops::pointwise::{BinaryKind, arith};
use crate::schema::{Args, Operand, OutShape, Ret, Row, Sample, Scope, Tier, ints, n, t, two, widely};
use crate::{DType, Error, Place, Result, Scalar, Tensor, default_dtype, samples};

/// Split into a number of parts whose sizes differ by one at most.
fn split_evenly(x: &Tensor, parts: i64, dim: i64) -> Result<Vec<Tensor>> {
    if x.dims().is_empty() {
        return Err(Error::runtime(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
        ));
    }
    if parts <= 0 {
        return Err(Error::runtime(format!("number of sections must be larger than 0, got {parts}")));
    }
    let d = normalize_dim(dim, x.dims().len())?;
    let (size, mut start) = (x.dims()[d] as i64, 0);
    crate::ops::shape::collected(
        x,
        (0..parts).map(|i| {
            let len = size / parts + i64::from(i < size % parts);
            start += len;
            x.narrow(d as i64, start - len, len)
        }),
    )
}

/// Split before each of the given positions, which follow the rules of Python slices.
fn split_before(x: &Tensor, at: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    if x.dims().is_empty() {
        return Err(Error::runtime(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
        ));
    }
    let d = normalize_dim(dim, x.dims().len())?;
    let size = x.dims()[d] as i64;
    let place = |i: i64| (if i < 0 { i + size } else { i }).clamp(0, size);
    let mut start = 0;
    crate::ops::shape::collected(
        x,
        at.iter().map(|&i| place(i)).chain([size]).map(|end| {
            let part = x.narrow(d as i64, start, (end - start).max(0));
            start = end;
            part
        }),
    )
}

/// `hsplit` and related functions: an even split, or one before given positions, along a dimension.
fn split_along(a: &Args<'_>, dim: i64, least: usize, name: &str) -> Result<Ret> {
    let x = a.tensor(0)?;
    if x.dims().len() < least {
        return Err(Error::runtime(format!(
            "torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {} dimensions!",
            x.dims().len()
        )));
    }
    let dim = if name == "hsplit" && x.dims().len() == 1 { 0 } else { dim };
    let Ok(parts) = a.int(1) else { return Ok(Ret::Tuple(split_before(x, a.ints(1)?, dim)?)) };
    let size = x.dims()[dim as usize] as i64;
    if parts <= 0 || size % parts != 0 {
        return Err(Error::runtime(format!(
            "torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not \
            divisible by the split_size {parts}!"
        )));
    }
    Ok(Ret::Tuple(split_evenly(x, parts, dim)?))
}

/// Rotate the plane of two dimensions by quarter turns.
fn rot90(x: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    let rank = x.dims().len();
    if dims.len() != 2 {
        return Err(Error::runtime(format!("expected total rotation dims == 2, but got dims = {}", dims.len())));
    }
    if rank < 2 {
        return Err(Error::runtime(format!("expected total dims >= 2, but got total dims = {rank}")));
    }
    if dims[0] == dims[1] || dims[0].abs_diff(dims[1]) == rank as u64 {
        return Err(Error::runtime(format!(
            "expected rotation dims to be different, but got dim0 = {} and dim1 = {}",
            dims[0], dims[1]
        )));
    }
    for (i, d) in dims.iter().enumerate() {
        if normalize_dim(*d, rank).is_err() {
            return Err(Error::runtime(format!("Rotation dim{i} out of range, dim{i} = {d}")));
        }
    }
    match k.rem_euclid(4) {
        1 => flip(x, &dims[1..])?.transpose(dims[0], dims[1])?.copy(),
        2 => flip(x, dims),
        3 => flip(x, &dims[..1])?.transpose(dims[0], dims[1])?.copy(),
        _ => x.copy(),
    }
}

/// Matrices, vectors and numbers along the diagonal of a matrix of zeros.
fn block_diag(xs: &[&Tensor]) -> Result<Tensor> {
    let wide: Vec<Tensor> = xs
        .iter()
        .enumerate()
        .map(|(i, x)| match x.dims().len() {
            0 => x.reshape(&[1, 1]),
            1 => x.unsqueeze(0),
            2 => Ok((*x).clone()),
            r => Err(Error::runtime(format!(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {r} dimensions"
            ))),
        })
        .collect::<Result<_>>()?;
    let dtype = wide.iter().map(Tensor::dtype).reduce(crate::promote_types).unwrap_or(default_dtype());
    let columns: usize = wide.iter().map(|x| x.dims()[1]).sum();
    let mut before = 0;
    let rows: Vec<Tensor> = wide
        .iter()
        .map(|x| {
            let (r, c) = (x.dims()[0], x.dims()[1]);
            let zeros = |n: usize| Tensor::zeros(&[r, n], dtype, x.place());
            let row = cat(&[&zeros(before)?, &x.to_dtype(dtype)?, &zeros(columns - before - c)?], 1);
            before += c;
            row
        })
        .collect::<Result<_>>()?;
    if rows.is_empty() {
        return Tensor::zeros(&[1, 0], dtype, Place::CPU);
    }
    cat(&rows.iter().collect::<Vec<_>>(), 0)
}

/// Join columns: vectors become columns of a matrix.
fn column_stack(xs: &[&Tensor]) -> Result<Tensor> {
    let wide: Vec<Tensor> = xs
        .iter()
        .map(|x| if x.dims().len() <= 1 { x.reshape(&[x.numel() as i64, 1]) } else { Ok((*x).clone()) })
        .collect::<Result<_>>()?;
    if wide.is_empty() {
        return Err(Error::runtime("column_stack expects a non-empty TensorList"));
    }
    cat(&wide.iter().collect::<Vec<_>>(), 1)
}

/// A copy of `x` with the elements that a view reads replaced by `src`.
fn scattered(x: &Tensor, src: &Tensor, name: &str, view: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let y = x.copy()?;
    let part = view(&y)?;
    if part.dims() != src.dims() {
        return Err(Error::runtime(format!(
            "expected src to have a size equal to the {name} of self. src size = {}, {name} size = {}",
            src.dims(),
            part.dims()
        )));
    }
    part.copy_(src)?;
    Ok(y)
}

/// Areas of the trapezoids between neighbours along a dimension: `(y1 + y2) * step / 2`.
fn trapezoids(y: &Tensor, x: Option<&Tensor>, step: Scalar, dim: i64) -> Result<Tensor> {
    let d = normalize_dim(dim, y.dims().len())? as i64;
    let len = y.dims().get(d as usize).copied().unwrap_or(0) as i64;
    if len == 0 {
        return y.narrow(d, 0, 0);
    }
    let mean = y.narrow(d, 1, len - 1)?.add(&y.narrow(d, 0, len - 1)?)?;
    let Some(x) = x else { return mean.mul_scalar(step)?.div_scalar(2.0) };
    let along = if x.dims().len() == 1 {
        if x.numel() as i64 != len {
            return Err(Error::runtime("trapezoid: There must be one `x` value for each sample point"));
        }
        let mut dims = vec![1i64; y.dims().len()];
        dims[d as usize] = len;
        x.reshape(&dims)?
    } else {
        let mut dims = vec![1i64; y.dims().len().saturating_sub(x.dims().len())];
        dims.extend(x.dims().iter().map(|&n| n as i64));
        x.reshape(&dims)?
    };
    let xn = along.dims()[d as usize] as i64;
    let steps = along.narrow(d, 1, xn - 1)?.sub(&along.narrow(d, 0, xn - 1)?)?;
    mean.mul(&steps)?.div_scalar(2.0)
}

fn trapezoid(y: &Tensor, x: Option<&Tensor>, step: Scalar, dim: i64) -> Result<Tensor> {
    let parts = trapezoids(y, x, step, dim)?;
    parts.sum_dim(&[dim], false)
}

/// `x` with the elements that a window on its storage reads replaced by `src`.
fn as_strided_scatter(x: &Tensor, src: &Tensor, sizes: &[i64], strides: &[i64], offset: Option<i64>) -> Result<Tensor> {
    let window = x.detach().as_strided(sizes, strides, offset)?;
    if window.dims() != src.dims() {
        return Err(Error::runtime(format!(
            "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
            src.dims(),
            window.dims()
        )));
    }
    // The element of `src` for each place of the storage, and the place of each element of `x`.
    let mut from = std::collections::HashMap::new();
    let mut k = 0i64;
    let offset = offset.map_or(x.storage_offset(), |o| o as usize);
    each_place(window.dims(), &strides.iter().map(|&s| s as usize).collect::<Vec<_>>(), offset, &mut |place| {
        from.insert(place, k);
        k += 1;
    });
    let (mut to, mut taken, mut e) = (Vec::new(), Vec::new(), 0i64);
    each_place(x.dims(), x.strides(), x.storage_offset(), &mut |place| {
        if let Some(&k) = from.get(&place) {
            to.push(e);
            taken.push(k);
        }
        e += 1;
    });
    let list = |v: &[i64]| Tensor::from_slice_on(v, &[v.len()], x.place());
    let values = crate::ops::indexing::index_select(&src.reshape(&[-1])?, 0, &list(&taken)?)?;
    let y = crate::ops::indexing::index_copy(&x.reshape(&[-1])?, 0, &list(&to)?, &values)?;
    y.reshape(&x.dims().iter().map(|&n| n as i64).collect::<Vec<_>>())
}

/// Places of all elements in the storage, in row-major order.
fn each_place(dims: &[usize], strides: &[usize], offset: usize, f: &mut dyn FnMut(usize)) {
    match (dims, strides) {
        ([n, dims @ ..], [s, strides @ ..]) => (0..*n).for_each(|i| each_place(dims, strides, offset + i * s, f)),
        _ => f(offset),
    }
}

/// Powers of a base, evenly spaced in the exponent.
fn logspace(a: &Args<'_>) -> Result<Ret> {
    if a.opt_dtype(4)? == Some(DType::Bool) {
        return Err(crate::ops::complex::unsupported("logspace_cpu", DType::Bool));
    }
    let dtype = a.opt_dtype(4)?.unwrap_or(default_dtype());
    let place = a.opt_device(6)?.unwrap_or(Place::CPU);
    let (from, to) = (
        crate::ops::creation::bound_of("logspace", "start", a, 0)?,
        crate::ops::creation::bound_of("logspace", "end", a, 1)?,
    );
    if from.is_complex() || to.is_complex() || dtype.is_complex() {
        let x = crate::ops::creation::spaced("logspace", from, to, a.int(2)?, a.opt_dtype(4)?, place)?;
        return Ok(arith(BinaryKind::Pow, Operand::Scalar(a.scalar(3)?), Operand::Tensor(&x))?.into());
    }
    let bound = |i: usize, what: &str| -> Result<f64> {
        let v = crate::ops::creation::bound_of("logspace", what, a, i)?.to_f64();
        Ok(if dtype.is_float() { v } else { v.trunc() })
    };
    let powers = Tensor::linspace(bound(0, "start")?, bound(1, "end")?, a.int(2)?, DType::F64, Place::CPU)?;
    let base = a.float(3)?;
    if let Some(out) = powers.view_mut().as_slice_mut::<f64>() {
        out.iter_mut().for_each(|p| *p = base.powf(*p));
    }
    Ok(powers.to_dtype(dtype)?.to_device(place)?.into())
}

/// Tensors cut into equally many chunks along a dimension, padded with zeros, with the chunks of the same number
/// joined.
fn chunk_cat(xs: &[&Tensor], dim: i64, chunks: i64) -> Result<Tensor> {
    let [first, ..] = xs else {
        return Err(Error::runtime("_chunk_cat expects a non-empty input tensor list"));
    };
    if chunks < 1 {
        return Err(Error::runtime("_chunk_cat expects positive num_chunks"));
    }
    if dim < 0 && xs.iter().any(|x| x.dims().len() != first.dims().len()) {
        return Err(Error::runtime("_chunk_cat expects non-negative dim when input tensors have different ndims"));
    }
    let d = normalize_dim(dim, first.dims().len())?;
    if xs.iter().any(|x| x.dims().len() <= d) {
        return Err(Error::runtime("_chunk_cat expects dim < ndim for all input tensors"));
    }
    let mut parts = Vec::new();
    for x in xs {
        if x.numel() == 0 {
            return Err(Error::runtime("_chunk_cat expects non-empty tensor"));
        }
        if x.dtype() != first.dtype() {
            return Err(Error::runtime("_chunk_cat expects all input tensors with the same dtype"));
        }
        if x.dims()[..d] != first.dims()[..d] {
            return Err(Error::runtime("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"));
        }
        let n = x.dims()[d] as i64;
        let more = (n + chunks - 1) / chunks * chunks - n;
        let mut spec = vec![(0, 0); x.dims().len()];
        spec[d] = (0, more);
        let padded = crate::ops::pad::pad_constant(x, &spec, Scalar::Int(0))?;
        let mut sizes: Vec<i64> = x.dims()[..d].iter().map(|&n| n as i64).collect();
        sizes.extend([chunks, -1]);
        parts.push(padded.reshape(&sizes)?);
    }
    cat(&parts.iter().collect::<Vec<_>>(), d as i64 + 1)
}

/// Rows of the rearranging functions.
pub const ROWS: &[Row] = &[
    Row::new(
        "tensor_split.sections(Tensor(a) self, SymInt sections, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| Ok(Ret::Tuple(split_evenly(a.tensor(0)?, a.int(1)?, a.int(2)?)?)),
        samples!([t(&[5, 2]), n(3)]),
    )
    .doc(
        "Split `input` along `dim` into a tuple of views. A number of sections gives that many parts whose sizes \
         differ by at most one, the larger ones first. A list of `indices` splits before each of them; they count as \
         the bounds of a Python slice, so that parts may be empty. The sections or indices may also be an `int64` \
         tensor of 0 or 1 dimensions.",
    )
    .no_out(),
    Row::new(
        "tensor_split.indices(Tensor(a) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| Ok(Ret::Tuple(split_before(a.tensor(0)?, a.ints(1)?, a.int(2)?)?)),
        samples!([t(&[5, 2]), ints(&[1, -1])]),
    )
    .no_out(),
    Row::new(
        "tensor_split.tensor_indices_or_sections(Tensor(a) self, Tensor tensor_indices_or_sections, int dim=0) -> \
        Tensor(a)[]",
        Tier::Composed,
        |a| {
            let at = a.tensor(1)?;
            if at.dtype() != DType::I64 {
                return Err(Error::runtime(format!(
                    "tensor_split expected tensor_indices_or_sections to have dtype of long, \
                but got {}",
                    at.dtype().scalar_type()
                )));
            }
            if at.dims().len() > 1 {
                return Err(Error::runtime(format!(
                    "tensor_split expected tensor_indices_or_sections to be a \
                zero-dimensional or one-dimensional tensor, but got a tensor with {} dims",
                    at.dims().len()
                )));
            }
            let v: Vec<i64> = at.to_vec()?;
            Ok(Ret::Tuple(if at.dims().is_empty() {
                split_evenly(a.tensor(0)?, v[0], a.int(2)?)?
            } else {
                split_before(a.tensor(0)?, &v, a.int(2)?)?
            }))
        },
        Vec::new,
    )
    .no_out(),
    Row::new(
        "hsplit.int(Tensor(a) self, int sections) -> Tensor(a)[]",
        Tier::Composed,
        |a| split_along(a, 1, 1, "hsplit"),
        samples!([t(&[2, 4]), n(2)]),
    )
    .doc(
        "Split `input` along dimension 1, or along dimension 0 if it has only one, into a tuple of views. A number \
         of sections must divide the size; a list of `indices` splits before each of them. `input` must have at \
         least 1 dimension.",
    )
    .no_out(),
    Row::new(
        "hsplit.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
        Tier::Composed,
        |a| split_along(a, 1, 1, "hsplit"),
        samples!([t(&[2, 4]), ints(&[1])]),
    )
    .no_out(),
    Row::new(
        "vsplit.int(Tensor(a) self, int sections) -> Tensor(a)[]",
        Tier::Composed,
        |a| split_along(a, 0, 2, "vsplit"),
        samples!([t(&[4, 2]), n(2)]),
    )
    .doc(
        "Split `input` along dimension 0 into a tuple of views. A number of sections must divide the size; a list \
         of `indices` splits before each of them. `input` must have at least 2 dimensions.",
    )
    .no_out(),
    Row::new(
        "vsplit.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
        Tier::Composed,
        |a| split_along(a, 0, 2, "vsplit"),
        samples!([t(&[4, 2]), ints(&[1])]),
    )
    .no_out(),
    Row::new(
        "dsplit.int(Tensor(a) self, int sections) -> Tensor(a)[]",
        Tier::Composed,
        |a| split_along(a, 2, 3, "dsplit"),
        samples!([t(&[1, 2, 4]), n(2)]),
    )
    .doc(
        "Split `input` along dimension 2 into a tuple of views. A number of sections must divide the size; a list \
         of `indices` splits before each of them. `input` must have at least 3 dimensions.",
    )
    .no_out(),
    Row::new(
        "dsplit.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
        Tier::Composed,
        |a| split_along(a, 2, 3, "dsplit"),
        samples!([t(&[1, 2, 4]), ints(&[1])]),
    )
    .no_out(),
    Row::new(
        "rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor",
        Tier::Composed,
        |a| Ok(rot90(a.tensor(0)?, a.int(1)?, a.ints(2)?)?.into()),
        samples!([t(&[2, 3])], [t(&[2, 3, 2]), n(3), ints(&[0, 2])]),
    )
    .doc(
        "Return a copy of `input` turned `k` times by 90 degrees in the plane of the two dimensions `dims`. A turn \
         goes from the first of them towards the second; negative `k` turns the other way.",
    ),
    Row::new(
        "diagflat(Tensor self, int offset=0) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?.reshape(&[-1])?;
            let (offset, len) = (a.int(1)?, x.numel());
            let side = len + offset.unsigned_abs() as usize;
            let y = Tensor::zeros(&[side, side], x.dtype(), x.place())?;
            y.diagonal(offset, 0, 1)?.copy_(&x)?;
            Ok(y.into())
        },
        samples!([t(&[2, 2]), n(1)]),
    )
    .doc(
        "Return a square matrix with the flattened `input` on a diagonal, and zeros elsewhere. `offset` moves the \
         diagonal up, or down if it is negative. The shape is `(n, n)` with `n` the number of elements plus \
         `|offset|`.",
    ),
    Row::new(
        "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) \
        -> Tensor",
        Tier::Composed,
        |a| Ok(as_strided_scatter(a.tensor(0)?, a.tensor(1)?, a.ints(2)?, a.ints(3)?, a.opt_int(4)?)?.into()),
        samples!([t(&[3, 4]), t(&[2, 2]), ints(&[2, 2]), ints(&[4, 2]), n(1)]),
    )
    .doc(
        "Return a copy of `input` with the elements replaced by `src` that `torch.as_strided(input, size, stride, \
         storage_offset)` looks at. `src` must have the shape `size`.",
    ),
    Row::new(
        "_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor",
        Tier::Composed,
        |a| Ok(chunk_cat(&a.tensors(0)?, a.int(1)?, a.int(2)?)?.into()),
        samples!([two(&[5, 2], &[3, 3]), n(0), n(2)]),
    )
    .doc(
        "Cut each tensor into `num_chunks` chunks along `dim`, with zeros behind, and join the chunks of the same \
         number.",
    )
    .scope(Scope::Function),
    Row::new(
        "block_diag(Tensor[] tensors) -> Tensor",
        Tier::Composed,
        |a| Ok(block_diag(&a.tensors(0)?)?.into()),
        samples!([two(&[2, 3], &[1, 2])]),
    )
    .doc(
        "Return a matrix with the given tensors as blocks along its diagonal, and zeros elsewhere. A vector is a \
         block of one row, and a 0-d tensor a block of one element; more than 2 dimensions are refused. The result \
         has the common dtype. Without tensors its shape is `(1, 0)`.",
    )
    .scope(Scope::Function),
    Row::new(
        "column_stack(Tensor[] tensors) -> Tensor",
        Tier::Composed,
        |a| Ok(column_stack(&a.tensors(0)?)?.into()),
        samples!([two(&[2], &[2, 3])]),
    )
    .doc(
        "Join tensors along dimension 1, where tensors of 0 or 1 dimensions become columns of shape `(n, 1)` first. \
         The result has the common dtype.",
    )
    .scope(Scope::Function),
    Row::new(
        "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        Tier::Composed,
        |a| Ok(scattered(a.tensor(0)?, a.tensor(1)?, "slice", |y| y.diagonal(a.int(2)?, a.int(3)?, a.int(4)?))?.into()),
        samples!([t(&[3, 3]), t(&[3])]),
    )
    .doc(
        "Return a copy of `input` with its diagonal replaced by `src`. `offset`, `dim1` and `dim2` name the \
         diagonal as in `torch.diagonal`. `src` must have exactly the shape of the diagonal.",
    ),
    Row::new(
        "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
        Tier::Composed,
        |a| Ok(scattered(a.tensor(0)?, a.tensor(1)?, "slice", |y| y.select(a.int(2)?, a.int(3)?))?.into()),
        samples!([t(&[3, 2]), t(&[2]), n(0), n(1)]),
    )
    .doc(
        "Return a copy of `input` with the slice at `index` along `dim` replaced by `src`. `src` must have the \
         shape of `torch.select(input, dim, index)`. Negative `dim` and `index` count from the end.",
    ),
    Row::new(
        "trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| Ok(trapezoid(a.tensor(0)?, Some(a.tensor(1)?), Scalar::Int(1), a.int(2)?)?.into())),
        samples!([t(&[2, 4]), t(&[4])]),
    )
    .doc(
        "Return the integral of `y` along `dim` by the trapezoidal rule, the sum of `(y[i] + y[i+1]) / 2` times the \
         distance of the points. The points are given by `x`, or lie `dx` apart. A 1-d `x` has one element for each \
         point of `dim`; other shapes broadcast against `y`.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| Ok(trapezoid(a.tensor(0)?, None, a.scalar(1)?, a.int(2)?)?.into())),
        samples!([t(&[2, 4]), n(0.5)]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| Ok(trapezoid(a.tensor(0)?, Some(a.tensor(1)?), Scalar::Int(1), a.int(2)?)?.into())),
        samples!([t(&[2, 4]), t(&[4])]),
    )
    .doc("Alias of `torch.trapezoid`.")
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "trapz.dx(Tensor y, *, float dx=1, int dim=-1) -> Tensor",
        Tier::Composed,
        |a| widely(a, |a| Ok(trapezoid(a.tensor(0)?, None, a.scalar(1)?, a.int(2)?)?.into())),
        samples!([t(&[2, 4]), n(0.5)]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                let parts = trapezoids(a.tensor(0)?, Some(a.tensor(1)?), Scalar::Int(1), a.int(2)?)?;
                Ok(crate::ops::scan::cumsum(&parts, a.int(2)?)?.into())
            })
        },
        samples!([t(&[2, 4]), t(&[4])]),
    )
    .doc(
        "Return the running integral of `y` along `dim` by the trapezoidal rule. The result has one element less \
         along `dim`, since it begins with the area between the first two points. The points are given by `x`, or \
         lie `dx` apart.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
        Tier::Composed,
        |a| {
            widely(a, |a| {
                Ok(crate::ops::scan::cumsum(&trapezoids(a.tensor(0)?, None, a.scalar(1)?, a.int(2)?)?, a.int(2)?)?
                    .into())
            })
        },
        samples!([t(&[2, 4]), n(0.5)]),
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "logspace(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, Layout? \
        layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        logspace,
        || vec![Sample::new(vec![n(0), n(2), n(5)]).no_gradient()],
    )
    .doc(
        "Return `base ** p` for `steps` exponents `p` evenly spaced from `start` to `end`, both included. The shape \
         is `(steps,)`. `dtype` is the default floating-point dtype unless given; `start` and `end` may be 0-d \
         tensors.",
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Kept),
    Row::new(
        "logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10.0, *, ScalarType? dtype=None, \
        Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        logspace,
        Vec::new,
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Kept),
    Row::new(
        "logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, \
        Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        logspace,
        Vec::new,
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Kept),
    Row::new(
        "logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10.0, *, ScalarType? dtype=None, \
        Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        logspace,
        Vec::new,
    )
    .scope(Scope::Function)
    .out_shape(OutShape::Kept),
];
