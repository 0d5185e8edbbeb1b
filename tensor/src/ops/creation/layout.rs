//! New tensors whose strides the caller gives.

use super::{empty, options, options_like, placed_with, sizes};
use crate::block::reach;
use crate::schema::{Row, Scope, Tier};
use crate::{DType, Error, Place, Result, Tensor, default_dtype};

/// New memory, viewed with the given strides.
fn empty_strided(dims: &[i64], strides: &[i64], o: (DType, Place)) -> Result<Tensor> {
    if dims.len() != strides.len() {
        return Err(Error::runtime(format!(
            "dimensionality of sizes ({}) must match dimensionality of strides ({})",
            dims.len(),
            strides.len()
        )));
    }
    let d = sizes(dims)?;
    let mut last = dims.iter().zip(strides).map(|(&n, &s)| (n - 1).checked_mul(s).filter(|v| *v >= 0 || n == 0));
    let last = last.try_fold(0i64, |a, v| a.checked_add(v?.max(0))).filter(|last| *last < i64::MAX);
    let Some(last) = last.filter(|_| strides.iter().all(|s| *s >= 0)) else {
        return Err(Error::runtime(format!(
            "Storage size calculation overflowed with sizes={dims:?} and strides={strides:?}"
        )));
    };
    let count = if d.contains(&0) { 0 } else { last + 1 };
    let flat = empty(&[count], o)?;
    if d.contains(&0) {
        return flat.reshape(dims);
    }
    Ok(flat.as_strided(dims, strides, Some(0))?.detach())
}

/// New memory with dimensions in the given order, the last one densest.
fn empty_permuted(dims: &[i64], layout: &[i64], o: (DType, Place)) -> Result<Tensor> {
    if dims.len() != layout.len() {
        return Err(Error::runtime(format!(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {} is not \
            equal to len(physical_layout) = {}",
            dims.len(),
            layout.len()
        )));
    }
    let n = dims.len();
    let mut back = vec![n; n];
    let mut physical = Vec::new();
    for (i, &d) in layout.iter().enumerate() {
        if d < 0 || d as usize >= n {
            return Err(Error::runtime(format!(
                "Dimension out of range (expected to be between 0 and {}, but got {d} at index {i}).  NB: negative \
                dims not currently supported; file an issue if you want it.",
                n - 1
            )));
        }
        if back[d as usize] != n {
            return Err(Error::runtime("Duplicate dim not allowed"));
        }
        back[d as usize] = i;
        physical.push(dims[d as usize]);
    }
    Ok(empty(&physical, o)?.permute(&back.iter().map(|&i| i as i64).collect::<Vec<_>>())?.detach())
}

/// Rows of new tensors with given strides.
pub const ROWS: &[Row] = &[
    Row::new(
        "empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? \
        device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| Ok(empty_strided(a.ints(0)?, a.ints(1)?, options(a, 2, default_dtype(), Place::CPU)?)?.into()),
        Vec::new,
    )
    .doc(
        "Return a tensor of the shape `size` with the strides `stride`, counted in elements. Its elements are \
         whatever the memory holds; on `tpu` they are 0. `dtype` is the default floating-point dtype unless given.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, \
        Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| Ok(empty_permuted(a.ints(0)?, a.ints(1)?, options(a, 2, default_dtype(), Place::CPU)?)?.into()),
        Vec::new,
    )
    .doc(
        "Return a tensor of the shape `size` without gaps whose dimensions lie in memory in the order \
         `physical_layout`, from the outermost to the densest. Its elements are whatever the memory holds; on `tpu` \
         they are 0. `dtype` is the default floating-point dtype unless given.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? \
        layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        Tier::Composed,
        |a| {
            let x = a.tensor(0)?;
            let y = empty_strided(a.ints(1)?, a.ints(2)?, options_like(a, 3, x)?)?;
            let strides = *y.strides();
            let is_dense = reach(y.dims(), &strides) == y.numel();
            let y = placed_with(x, y)?;
            // What is sharded anew has lost its strides.
            Ok(if is_dense && *y.strides() != strides { y.with_strides(strides) } else { y }.into())
        },
        Vec::new,
    )
    .doc(
        "Return a tensor of the shape `size` with the strides `stride`, counted in elements, and with the dtype and \
         device of `self` unless others are given. Its elements are whatever the memory holds; on `tpu` they are 0.",
    )
    .scope(Scope::Method)
    .no_out(),
];
