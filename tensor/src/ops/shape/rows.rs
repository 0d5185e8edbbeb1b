//! Rows of the views, and of copies of their values: `permute_copy` and others.

use super::split::changeable;
use crate::schema::{Args, Row, Sample, SampleArg, Scope, Tier, ints, n, t};
use crate::{DType, Error, Result, Tensor, samples};

fn views(x: Result<Vec<Tensor>>) -> Result<crate::schema::Ret> {
    Ok(crate::schema::Ret::Tuple(x?))
}

fn dtype(a: &Args<'_>, i: usize) -> Result<DType> {
    a.opt_dtype(i)?.ok_or_else(|| Error::type_error("view(): argument 'dtype' must be torch.dtype, not None"))
}

fn seen_as_integers() -> Vec<Sample> {
    let seen = |d: DType| Sample::new(vec![t(&[2, 4]), SampleArg::DType(d)]).no_gradient();
    vec![seen(DType::I32), seen(DType::U8), seen(DType::I64)]
}

/// Rows of the views.
pub const ROWS: &[Row] = &[
    Row::new(
        "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.view_as_sizes(a.ints(1)?)?.into()),
        samples!([t(&[2, 6]), ints(&[3, -1])], [t(&[2, 3]), ints(&[6])]),
    )
    .doc(
        "Return a view of `self` with the shape `size`, which has the same number of elements. One size may be -1 \
         and is then computed. The strides must allow it without a copy; if they do not, `RuntimeError` is raised, \
         use `reshape`. With a dtype in place of `size`, return a view of the same bytes as elements of that dtype, \
         where the last dimension grows or shrinks with the size of an element.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.view_dtype(dtype(a, 1)?)?.into()),
        seen_as_integers,
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.reshape(a.ints(1)?)?.into()),
        samples!(
            [t(&[2, 6]), ints(&[3, -1])],
            [SampleArg::Transposed(vec![2, 3], crate::schema::Fill::Normal), ints(&[6])]
        ),
    )
    .doc(
        "Return the elements of `input` in row-major order with the shape `shape`. One size may be -1 and is then \
         computed. The result is a view where the strides allow it, else a copy.",
    )
    .no_out(),
    Row::new(
        "view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
        Tier::Composed,
        |a| {
            let sizes: Vec<i64> = a.tensor(1)?.dims().iter().map(|&n| n as i64).collect();
            Ok(a.tensor(0)?.view_as_sizes(&sizes)?.into())
        },
        || vec![Sample::new(vec![t(&[2, 3]), t(&[6])])],
    )
    .doc("Return a view of `self` with the shape of `other`, as `self.view(other.size())` does.")
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
        Tier::Composed,
        |a| {
            let d: Vec<i64> = a.tensor(1)?.dims().iter().map(|&n| n as i64).collect();
            Ok(a.tensor(0)?.reshape(&d)?.into())
        },
        || vec![Sample::new(vec![t(&[2, 3]), t(&[6])])],
    )
    .doc(
        "Return `self` with the shape of `other`, as `self.reshape(other.shape)` does: a view where the strides \
         allow it, else a copy.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "permute(Tensor(a) self, int[] dims) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.permute(a.ints(1)?)?.into()),
        samples!([t(&[2, 3, 4]), ints(&[2, 0, 1])]),
    )
    .doc(
        "Return a view of `input` with its dimensions in the order `dims`: dimension `i` of the result is dimension \
         `dims[i]` of `input`. Every dimension is named once; negative ones count from the end.",
    )
    .no_out(),
    Row::new(
        "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.transpose(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3, 4]), n(0), n(-1)]),
    )
    .doc("Return a view of `input` with the dimensions `dim0` and `dim1` swapped. Negative ones count from the end.")
    .no_out(),
    Row::new(
        "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.transpose(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3, 4]), n(0), n(-1)]),
    )
    .doc("Alias of `torch.transpose`, with the arguments named `axis0` and `axis1`.")
    .no_out(),
    Row::new(
        "swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.transpose(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3, 4]), n(0), n(-1)]),
    )
    .doc("Alias of `torch.transpose`.")
    .no_out(),
    Row::new("t(Tensor(a) self) -> Tensor(a)", Tier::Prim, |a| Ok(a.tensor(0)?.t()?.into()), samples!([t(&[2, 3])]))
        .doc(
            "Return a view of the matrix `input` with its two dimensions swapped. Tensors of 0 or 1 dimensions keep \
         their shape; more than 2 dimensions raise `RuntimeError`.",
        )
        .no_out(),
    Row::new(
        "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.expand(a.ints(1)?)?.into()),
        samples!([t(&[2, 1]), ints(&[4, -1, 3])]),
    )
    .doc(
        "Return a view of `self` with the shape `size`, where dimensions of size 1 repeat their element without a \
         copy. `size` may have more dimensions in front; -1 keeps the size of a dimension. Elements that are \
         repeated share their memory, so write to a copy instead.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
        Tier::Composed,
        |a| {
            let d: Vec<i64> = a.tensor(1)?.dims().iter().map(|&n| n as i64).collect();
            Ok(a.tensor(0)?.expand(&d)?.into())
        },
        || vec![Sample::new(vec![t(&[3]), t(&[2, 3])])],
    )
    .doc("Return a view of `self` expanded to the shape of `other`, as `self.expand(other.size())` does.")
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.expand(a.ints(1)?)?.into()),
        samples!([t(&[2, 1]), ints(&[4, 2, 3])]),
    )
    .doc("Return a view of `input` expanded to the shape `size`, as `Tensor.expand` does.")
    .no_out(),
    Row::new(
        "narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)",
        Tier::Prim,
        |a| {
            let start = a.tensor(2)?;
            if !start.dims().is_empty() || !start.dtype().is_int() {
                return Err(Error::runtime("start must be an 0-dim integral Tensor."));
            }
            Ok(a.tensor(0)?.narrow(a.int(1)?, start.item()?.to_i64(), a.int(3)?)?.into())
        },
        Vec::new,
    )
    .doc(
        "Return a view of `length` elements of `input` along `dim`, from `start` on. `start` counts from the end if \
         it is negative, and may be a 0-d integer tensor. A range that leaves the dimension is an error.",
    )
    .no_out(),
    Row::new(
        "narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.narrow(a.int(1)?, a.int(2)?, a.int(3)?)?.into()),
        samples!([t(&[5, 3]), n(0), n(1), n(3)]),
    )
    .no_out(),
    Row::new(
        "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.select(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[5, 3]), n(0), n(-2)], [t(&[5, 3]), n(1), n(1)]),
    )
    .doc(
        "Return a view of `input` at `index` along `dim`, which goes away. Negative `dim` and `index` count from \
         the end; an index out of range raises `IndexError`.",
    )
    .no_out(),
    Row::new(
        "squeeze(Tensor(a) self) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.squeeze_all()?.into()),
        samples!([t(&[1, 3, 1])]),
    )
    .doc(
        "Return a view of `input` without its dimensions of size 1, or without those of them that `dim` names, a \
         number or a tuple. A named dimension of another size stays.",
    )
    .no_out(),
    Row::new(
        "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.squeeze(a.int(1)?)?.into()),
        samples!([t(&[1, 3, 1]), n(0)], [t(&[1, 3, 1]), n(1)]),
    )
    .no_out(),
    Row::new(
        "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
        Tier::Prim,
        |a| {
            let x = a.tensor(0)?;
            let mask = if a.ints(1)?.is_empty() { 0 } else { crate::op::normalize_dims(a.ints(1)?, x.dims().len())? };
            let kept = x
                .dims()
                .iter()
                .enumerate()
                .filter(|(i, n)| !(mask >> i & 1 != 0 && **n == 1))
                .map(|(_, n)| *n)
                .collect();
            Ok(x.view_dims(kept)?.into())
        },
        samples!([t(&[1, 3, 1]), ints(&[0, 1])]),
    )
    .no_out(),
    Row::new(
        "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.unsqueeze(a.int(1)?)?.into()),
        samples!([t(&[2, 3]), n(1)], [t(&[]), n(-1)]),
    )
    .doc(
        "Return a view of `input` with a new dimension of size 1 at `dim`. Negative `dim` counts from the end of \
         the result: -1 adds the last one.",
    )
    .no_out(),
    Row::new(
        "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.flatten(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3, 4]), n(1)], [t(&[])]),
    )
    .doc(
        "Merge the dimensions `start_dim` to `end_dim` of `input`, both included, into one. The result is a view \
         where the strides allow it, else a copy. A 0-d tensor becomes one of shape `(1,)`.",
    )
    .no_out(),
    Row::new(
        "ravel(Tensor(a) self) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.contiguous()?.reshape(&[-1])?.into()),
        samples!([t(&[2, 3])]),
    )
    .doc(
        "Return the elements of `input` in row-major order as a tensor of one dimension. It is a view if `input` is \
         contiguous, else a copy.",
    )
    .no_out(),
    Row::new(
        "unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.unflatten(a.int(1)?, a.ints(2)?)?.into()),
        samples!([t(&[2, 6]), n(1), ints(&[2, -1])]),
    )
    .doc(
        "Return a view of `input` with dimension `dim` split into dimensions of the sizes `sizes`. One size may be \
         -1 and is then computed; their product must be the size of `dim`.",
    )
    .no_out(),
    Row::new(
        "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.movedim(a.ints(1)?, a.ints(2)?)?.into()),
        samples!([t(&[2, 3, 4]), ints(&[0, 1]), ints(&[2, 0])]),
    )
    .doc(
        "Return a view of `input` with the dimensions `source` moved to the positions `destination`. Both are \
         numbers or tuples of the same length. The other dimensions keep their order.",
    )
    .no_out(),
    Row::new(
        "movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.movedim(&[a.int(1)?], &[a.int(2)?])?.into()),
        samples!([t(&[2, 3, 4]), n(0), n(2)]),
    )
    .no_out(),
    Row::new(
        "moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.movedim(a.ints(1)?, a.ints(2)?)?.into()),
        samples!([t(&[2, 3, 4]), ints(&[0, 1]), ints(&[2, 0])]),
    )
    .doc("Alias of `torch.movedim`.")
    .no_out(),
    Row::new(
        "moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.movedim(&[a.int(1)?], &[a.int(2)?])?.into()),
        samples!([t(&[2, 3, 4]), n(0), n(2)]),
    )
    .no_out(),
    Row::new(
        "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.slice(a.int(1)?, a.opt_int(2)?, a.opt_int(3)?, a.int(4)?)?.into()),
        samples!([t(&[5, 3]), n(0), n(1), n(-1), n(2)], [t(&[5, 3]), n(1), n(3), n(9)], [t(&[2, 3])]),
    )
    .doc(
        "Return a view of `input[start:end:step]` along `dim`. The bounds are clipped as those of a Python slice; \
         `step` must be positive.",
    )
    .no_out()
    .scope(Scope::Aten),
    Row::new(
        "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.as_strided(a.ints(1)?, a.ints(2)?, a.opt_int(3)?)?.into()),
        samples!([t(&[3, 4]), ints(&[2, 3]), ints(&[4, 1]), n(1)], [t(&[6]), ints(&[3, 2]), ints(&[1, 1])]),
    )
    .doc(
        "Return a view on the memory of `input` with the shape `size`, the strides `stride` and the first element \
         at `storage_offset`, all counted in elements. `storage_offset` is that of `input` unless given. Negative \
         strides and windows beyond the memory are refused. Elements may be seen more than once.",
    )
    .no_out(),
    Row::new(
        "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.diagonal(a.int(1)?, a.int(2)?, a.int(3)?)?.into()),
        samples!([t(&[3, 4])], [t(&[2, 3, 4]), n(1), n(1), n(2)], [t(&[4, 3]), n(-1)]),
    )
    .doc(
        "Return a view of the diagonals of `input` in the dimensions `dim1` and `dim2`, which go away; the diagonal \
         becomes the last dimension. A positive `offset` is above the main diagonal, a negative one below it.",
    )
    .no_out(),
    Row::new(
        "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.unfold(a.int(1)?, a.int(2)?, a.int(3)?)?.into()),
        samples!([t(&[7, 2]), n(0), n(3), n(2)]),
    )
    .doc(
        "Return a view of all windows of `size` elements of `self` along `dimension`, `step` elements apart. The \
         dimension then counts the `(n - size) // step + 1` windows, and a last dimension of size `size` holds their \
         elements.",
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "split.Tensor(Tensor(a) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .doc(
        "Split `input` along `dim` into a tuple of views. A number `split_size` is the size of each part, where the \
         last one may be smaller. A list has the size of each part; its sum must be the size of `dim`.",
    )
    .no_out(),
    Row::new(
        "split.sizes(Tensor(a) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split_sizes(a.ints(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), ints(&[2, 3])]),
    )
    .no_out(),
    Row::new(
        "split_with_sizes(Tensor(a) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split_sizes(a.ints(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), ints(&[2, 3])]),
    )
    .doc("Split `input` along `dim` into views of the sizes `split_sizes`, whose sum must be the size of `dim`.")
    .no_out(),
    Row::new(
        "chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.chunk(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .doc(
        "Split `input` along `dim` into a tuple of at most `chunks` views. Each has `ceil(n / chunks)` elements \
         along `dim` but the last one, which may be smaller, so that there may be fewer of them. \
         `torch.tensor_split` always gives the number asked for.",
    )
    .no_out(),
    Row::new(
        "unbind.int(Tensor(a) self, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.unbind(a.int(1)?)),
        samples!([t(&[2, 3]), n(1)]),
    )
    .doc("Return a tuple with a view for each index of `dim`, which goes away. 0-d tensors are refused.")
    .no_out(),
    Row::new(
        "alias(Tensor(a) self) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.view_dims(*a.tensor(0)?.dims())?.into()),
        samples!([t(&[2, 3])]),
    )
    .doc("Return a view of `input` with the same shape and strides.")
    .scope(Scope::Nn)
    .no_out(),
];

/// The value of a view, in new memory.
fn copied(y: Result<Tensor>) -> Result<crate::schema::Ret> {
    Ok(y?.copy()?.into())
}

fn copies(y: Result<Vec<Tensor>>) -> Result<crate::schema::Ret> {
    Ok(crate::schema::Ret::List(y?.iter().map(Tensor::copy).collect::<Result<_>>()?))
}

/// Rows of the views' copies.
pub const COPY_ROWS: &[Row] = &[
    Row::new(
        "diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.diagonal(a.int(1)?, a.int(2)?, a.int(3)?)),
        samples!([t(&[3, 4])]),
    )
    .doc("Return the diagonals of `input` as `torch.diagonal` does, as a copy.")
    .scope(Scope::Function),
    Row::new(
        "unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.unfold(a.int(1)?, a.int(2)?, a.int(3)?)),
        samples!([t(&[7, 2]), n(0), n(3), n(2)]),
    )
    .doc("Return all windows of `size` elements of `input` along `dimension`, as `Tensor.unfold` does, as a copy.")
    .scope(Scope::Function),
    Row::new(
        "narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
        Tier::Composed,
        |a| {
            let (x, dim, start, length) = (a.tensor(0)?, a.int(1)?, a.int(2)?, a.int(3)?);
            let rank = x.dims().len() as i64;
            if rank > 0 && dim >= rank {
                return Err(Error::runtime(
                    "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.",
                ));
            }
            if rank > 0 && length < 0 && dim >= -rank {
                let size = x.dims()[crate::op::normalize_dim(dim, rank as usize)?];
                return Err(Error::runtime(format!(
                    "start ({start}) + length ({length}) exceeds dimension size ({size})."
                )));
            }
            copied(x.narrow(dim, start, length))
        },
        samples!([t(&[4, 3]), n(0), n(1), n(2)]),
    )
    .doc("Return `length` elements of `input` along `dim` from `start` on, as `torch.narrow` does, as a copy."),
    Row::new(
        "permute_copy(Tensor self, int[] dims) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.permute(a.ints(1)?)),
        samples!([t(&[2, 3]), ints(&[1, 0])]),
    )
    .doc("Return a copy of `input` with its dimensions in the order `dims`, as `torch.permute` gives them.")
    .scope(Scope::Function),
    Row::new(
        "view_copy(Tensor self, SymInt[] size) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.view_as_sizes(a.ints(1)?)),
        samples!([t(&[2, 3]), ints(&[3, 2])]),
    )
    .doc(
        "Return a copy of `input` with the shape `size`, or of its bytes as elements of a dtype, as `Tensor.view` \
         sees them.",
    )
    .scope(Scope::Function),
    Row::new(
        "view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.view_dtype(dtype(a, 1)?)),
        seen_as_integers,
    )
    .scope(Scope::Function),
    Row::new(
        "expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.expand(a.ints(1)?)),
        samples!([t(&[1, 3]), ints(&[2, 3])]),
    )
    .doc(
        "Return a copy of `input` expanded to the shape `size`, as `Tensor.expand` does; repeated elements have \
         memory of their own.",
    )
    .scope(Scope::Function),
    Row::new(
        "transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.transpose(a.int(1)?, a.int(2)?)),
        samples!([t(&[2, 3]), n(0), n(1)]),
    )
    .doc("Return a copy of `input` with the dimensions `dim0` and `dim1` swapped, as `torch.transpose` does.")
    .scope(Scope::Function),
    Row::new("t_copy(Tensor self) -> Tensor", Tier::Composed, |a| copied(a.tensor(0)?.t()), samples!([t(&[2, 3])]))
        .doc("Return a copy of the matrix `input` with its two dimensions swapped, as `torch.t` does.")
        .scope(Scope::Function),
    Row::new(
        "alias_copy(Tensor self) -> Tensor",
        Tier::Composed,
        |a| copied(Ok(a.tensor(0)?.clone())),
        samples!([t(&[2, 3])]),
    )
    .doc("Return a copy of `input`.")
    .scope(Scope::Function),
    Row::new(
        "squeeze_copy(Tensor self) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.squeeze_all()),
        samples!([t(&[1, 3, 1])]),
    )
    .doc("Return a copy of `input` without dimensions of size 1, as `torch.squeeze` does.")
    .scope(Scope::Function),
    Row::new(
        "squeeze_copy.dim(Tensor self, int dim) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.squeeze(a.int(1)?)),
        samples!([t(&[1, 3, 1]), n(0)]),
    )
    .scope(Scope::Function),
    Row::new(
        "unsqueeze_copy(Tensor self, int dim) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.unsqueeze(a.int(1)?)),
        samples!([t(&[3]), n(0)]),
    )
    .doc("Return a copy of `input` with a new dimension of size 1 at `dim`, as `torch.unsqueeze` does.")
    .scope(Scope::Function),
    Row::new(
        "as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.as_strided(a.ints(1)?, a.ints(2)?, a.opt_int(3)?)),
        samples!([t(&[3, 4]), ints(&[2, 3]), ints(&[4, 1]), n(1)]),
    )
    .doc("Return a copy of the elements that `torch.as_strided` looks at.")
    .scope(Scope::Function),
    Row::new(
        "unbind_copy.int(Tensor self, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| copies(a.tensor(0)?.unbind(a.int(1)?)),
        samples!([t(&[2, 3]), n(1)]),
    )
    .doc("Return a copy of the slice at each index of `dim`, as `torch.unbind` does.")
    .scope(Scope::Function),
    Row::new(
        "split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| copies(a.tensor(0)?.split_sizes(a.ints(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), ints(&[2, 3])]),
    )
    .doc(
        "Return copies of the parts of `input` along `dim` with the sizes `split_sizes`, as \
         `torch.split_with_sizes` does.",
    )
    .scope(Scope::Function),
    Row::new(
        "split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| copies(a.tensor(0)?.split(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .doc("Return copies of the parts of `input` along `dim` with `split_size` elements each, as `torch.split` does.")
    .scope(Scope::Function),
    Row::new(
        "slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.slice(a.int(1)?, a.opt_int(2)?, a.opt_int(3)?, a.int(4)?)),
        samples!([t(&[5, 3]), n(0), n(1), n(5), n(2)]),
    )
    .doc(
        "Return a copy of `input[start:end:step]` along `dim`. The bounds are clipped as those of a Python slice; \
         `step` must be positive.",
    )
    .scope(Scope::Function),
    Row::new(
        "select_copy.int(Tensor self, int dim, SymInt index) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.select(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(1), n(-1)]),
    )
    .doc("Return a copy of the slice of `input` at `index` along `dim`, as `torch.select` does.")
    .scope(Scope::Function),
    Row::new(
        "detach_copy(Tensor self) -> Tensor",
        Tier::Composed,
        |a| copied(Ok(a.tensor(0)?.detach())),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient()],
    )
    .doc("Return a copy of `input` without its gradient history.")
    .scope(Scope::Function),
    Row::new(
        "unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split_sizes(a.ints(1)?, a.int(2)?).map(changeable)),
        samples!([t(&[5, 3]), ints(&[2, 3])]),
    )
    .doc(
        "Split `input` along `dim` as `torch.split_with_sizes` does, into views that may be changed in place while \
         gradients are recorded.",
    )
    .no_out(),
    Row::new(
        "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.chunk(a.int(1)?, a.int(2)?).map(changeable)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .doc(
        "Split `input` along `dim` as `torch.chunk` does, into views that may be changed in place while gradients \
         are recorded.",
    )
    .no_out(),
    Row::new(
        "unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split(a.int(1)?, a.int(2)?).map(changeable)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .doc(
        "Split `input` along `dim` as `torch.split` does, into views that may be changed in place while gradients \
         are recorded.",
    )
    .no_out(),
];
