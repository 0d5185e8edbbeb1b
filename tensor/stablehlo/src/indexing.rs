//! Gather and scatter.

use crate::func::{Array, List, put};
use crate::reduction::{ReduceKind, join};
use crate::{ElementType, Func, Type, Value};

/// The numbers of [`Func::gather`]. The fields are those of the specification.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct GatherDims {
    /// Dimensions of the result that run within a slice.
    pub offset_dims: Vec<usize>,
    /// Dimensions of the operand, of slice size one, that the result lacks.
    pub collapsed_slice_dims: Vec<usize>,
    /// Dimensions of the operand that advance together with dimensions of the indices.
    pub operand_batching_dims: Vec<usize>,
    /// Dimensions of the indices that advance together with dimensions of the operand.
    pub start_indices_batching_dims: Vec<usize>,
    /// The dimension of the operand that each component of an index is for.
    pub start_index_map: Vec<usize>,
    /// The dimension of the indices that holds the components, or the rank if an index is one number.
    pub index_vector_dim: usize,
}

/// The numbers of [`Func::scatter`]. The first six fields are those of the specification.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct ScatterDims {
    /// Dimensions of the updates that run within a window.
    pub update_window_dims: Vec<usize>,
    /// Dimensions of the operand that the updates lack.
    pub inserted_window_dims: Vec<usize>,
    /// Dimensions of the operand that advance together with dimensions of the indices.
    pub input_batching_dims: Vec<usize>,
    /// Dimensions of the indices that advance together with dimensions of the operand.
    pub scatter_indices_batching_dims: Vec<usize>,
    /// The dimension of the operand that each component of an index is for.
    pub scatter_dims_to_operand_dims: Vec<usize>,
    /// The dimension of the indices that holds the components, or the rank if an index is one number.
    pub index_vector_dim: usize,
    /// Whether the indices ascend. If this is wrong, results are undefined.
    pub indices_are_sorted: bool,
    /// Whether no two windows overlap. If this is wrong, results are undefined.
    pub unique_indices: bool,
}

/// The function that joins an element and its update.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterKind {
    /// Sum.
    Add,
    /// The update replaces the element. With several updates of one element, any of them does.
    Set,
    /// Product.
    Mul,
    /// The greater number, or NaN.
    Max,
    /// The lesser number, or NaN.
    Min,
}

impl Func {
    /// Take slices of `slice_sizes` from `x` at the places in `indices`. Places outside are moved inwards. Indices
    /// count from 0, and the caller wraps negative ones.
    pub fn gather(
        &mut self,
        x: &Value,
        indices: &Value,
        dims: &GatherDims,
        slice_sizes: &[usize],
        indices_are_sorted: bool,
    ) -> Value {
        let name = "gather";
        let GatherDims {
            offset_dims,
            collapsed_slice_dims,
            operand_batching_dims,
            start_indices_batching_dims,
            start_index_map,
            index_vector_dim,
        } = dims;
        let index_vector_dim = *index_vector_dim;
        check_windows(name, x, offset_dims, collapsed_slice_dims, operand_batching_dims, ["C1", "C6", "C8, C11"]);
        check_indices(
            name,
            x,
            indices,
            (operand_batching_dims, start_indices_batching_dims),
            start_index_map,
            index_vector_dim,
            ["C2", "C3", "C13", "C14", "C15", "C16", "C17", "C18", "C19"],
        );
        for (constraint, list) in [("C4", offset_dims), ("C7", collapsed_slice_dims), ("C10", operand_batching_dims)] {
            assert!(is_ascending(list), "{name} ({constraint}): {list:?} does not ascend");
        }
        assert!(slice_sizes.len() == x.rank(), "{name} (C20): slice sizes {slice_sizes:?} do not fit {}", x.ty());
        for (d, &size) in slice_sizes.iter().enumerate() {
            assert!(size <= x.shape()[d], "{name} (C21): slice sizes {slice_sizes:?} exceed {}", x.ty());
            let dropped = collapsed_slice_dims.contains(&d) || operand_batching_dims.contains(&d);
            assert!(!dropped || size <= 1, "{name} (C9, C12): dimension {d} is dropped, but its slice size is {size}");
        }
        let offsets: Vec<usize> = (0..x.rank())
            .filter(|d| !collapsed_slice_dims.contains(d) && !operand_batching_dims.contains(d))
            .map(|d| slice_sizes[d])
            .collect();
        let shape = combine(indices, index_vector_dim, &offsets, offset_dims)
            .unwrap_or_else(|d| panic!("{name} (C5): dimension {d} of offset_dims is out of range"));
        let ty = Type::new(&shape, x.element());
        let mut numbers = String::new();
        push_list(&mut numbers, "offset_dims", offset_dims);
        push_list(&mut numbers, "collapsed_slice_dims", collapsed_slice_dims);
        push_list(&mut numbers, "operand_batching_dims", operand_batching_dims);
        push_list(&mut numbers, "start_indices_batching_dims", start_indices_batching_dims);
        push_list(&mut numbers, "start_index_map", start_index_map);
        self.op(
            &ty,
            format_args!(
                "\"stablehlo.gather\"({x}, {indices}) <{{dimension_numbers = #stablehlo.gather<{numbers}\
                 index_vector_dim = {index_vector_dim}>, slice_sizes = {}, \
                 indices_are_sorted = {indices_are_sorted}}}> : \
                 ({}, {}) -> {ty}",
                Array(slice_sizes),
                x.ty(),
                indices.ty()
            ),
        )
    }

    /// Join windows of `updates` into `x` at the places in `indices`. Windows that reach outside are left out.
    pub fn scatter(
        &mut self,
        x: &Value,
        indices: &Value,
        updates: &Value,
        dims: &ScatterDims,
        kind: ScatterKind,
    ) -> Value {
        let name = "scatter";
        let ScatterDims {
            update_window_dims,
            inserted_window_dims,
            input_batching_dims,
            scatter_indices_batching_dims,
            scatter_dims_to_operand_dims,
            index_vector_dim,
            indices_are_sorted,
            unique_indices,
        } = dims;
        let index_vector_dim = *index_vector_dim;
        check_windows(name, x, update_window_dims, inserted_window_dims, input_batching_dims, ["C2", "C9", "C11, C13"]);
        check_indices(
            name,
            x,
            indices,
            (input_batching_dims, scatter_indices_batching_dims),
            scatter_dims_to_operand_dims,
            index_vector_dim,
            ["C22", "C19", "C14", "C15", "C16", "C17", "C18", "C20", "C21"],
        );
        for (constraint, list) in
            [("C7", update_window_dims), ("C10", inserted_window_dims), ("C12", input_batching_dims)]
        {
            assert!(is_ascending(list), "{name} ({constraint}): {list:?} does not ascend");
        }
        assert!(updates.element() == x.element(), "{name} (C6): {} and {} differ", updates.ty(), x.ty());
        let windows: Vec<usize> =
            (0..x.rank()).filter(|d| !inserted_window_dims.contains(d) && !input_batching_dims.contains(d)).collect();
        let mut sizes = Vec::with_capacity(windows.len());
        for (&at, &d) in update_window_dims.iter().zip(&windows) {
            assert!(at < updates.rank(), "{name} (C8): dimension {at} is out of range for {}", updates.ty());
            let size = updates.shape()[at];
            assert!(size <= x.shape()[d], "{name} (C4): {} exceeds {} in dimension {d}", updates.ty(), x.ty());
            sizes.push(size);
        }
        let shape = combine(indices, index_vector_dim, &sizes, update_window_dims);
        assert!(
            shape.as_deref() == Ok(updates.shape()),
            "{name} (C4): the updates {} do not fit the indices {}",
            updates.ty(),
            indices.ty()
        );
        let e = x.element();
        let body = match kind {
            ScatterKind::Set => {
                let v = Type::new(&[], e);
                format!("({{\n    ^bb0(%x: {v}, %y: {v}):\n      stablehlo.return %y : {v}\n    }})")
            }
            ScatterKind::Add => join(ReduceKind::Add.op(), e),
            ScatterKind::Mul => join(ReduceKind::Mul.op(), e),
            ScatterKind::Max => join(ReduceKind::Max.op(), e),
            ScatterKind::Min => join(ReduceKind::Min.op(), e),
        };
        let mut numbers = String::new();
        push_list(&mut numbers, "update_window_dims", update_window_dims);
        push_list(&mut numbers, "inserted_window_dims", inserted_window_dims);
        push_list(&mut numbers, "input_batching_dims", input_batching_dims);
        push_list(&mut numbers, "scatter_indices_batching_dims", scatter_indices_batching_dims);
        push_list(&mut numbers, "scatter_dims_to_operand_dims", scatter_dims_to_operand_dims);
        self.op(
            x.ty(),
            format_args!(
                "\"stablehlo.scatter\"({x}, {indices}, {updates}) <{{scatter_dimension_numbers = #stablehlo.scatter<\
                 {numbers}index_vector_dim = {index_vector_dim}>, indices_are_sorted = {indices_are_sorted}, \
                 unique_indices = {unique_indices}}}> {body} : ({}, {}, {}) -> {}",
                x.ty(),
                indices.ty(),
                updates.ty(),
                x.ty()
            ),
        )
    }

    /// Replace dimension `dim` of `x` by the dimensions of `idx`, whose elements choose along it.
    pub fn take(&mut self, x: &Value, idx: &Value, dim: usize) -> Value {
        assert!(dim < x.rank(), "gather (C19): dimension {dim} is out of range for {}", x.ty());
        if idx.ty().numel() == 0 {
            // If `dim` is empty too, there is no slice of size one to take.
            let shape = [&x.shape()[..dim], idx.shape(), &x.shape()[dim + 1..]].concat();
            return self.splat(0.0, &Type::new(&shape, x.element()));
        }
        let mut slice_sizes = x.shape().to_vec();
        slice_sizes[dim] = 1;
        let dims = GatherDims {
            offset_dims: (0..dim).chain(dim + idx.rank()..x.rank() - 1 + idx.rank()).collect(),
            collapsed_slice_dims: vec![dim],
            start_index_map: vec![dim],
            index_vector_dim: idx.rank(),
            ..GatherDims::default()
        };
        self.gather(x, idx, &dims, &slice_sizes, false)
    }

    /// Choose rows of `x` by `idx`: the lookup of an embedding. The result has the dimensions of `idx`, then those of a
    /// row.
    pub fn take_rows(&mut self, x: &Value, idx: &Value) -> Value {
        self.take(x, idx, 0)
    }

    /// Join `updates` into `x` where [`Func::take`] with the same `idx` and `dim` reads: its gradient, and `index_add`.
    pub fn put(&mut self, x: &Value, idx: &Value, updates: &Value, dim: usize, kind: ScatterKind) -> Value {
        assert!(dim < x.rank(), "scatter (C21): dimension {dim} is out of range for {}", x.ty());
        if kind == ScatterKind::Set && idx.ty().numel() == 1 && x.shape()[dim] > 0 && self.profile().updates_slices {
            // Without this, XLA would read the element, compare, and select it for an index that is out of range. The
            // caller reports such an index by a check. Here it writes to the edge.
            let mut window = x.shape().to_vec();
            window[dim] = 1;
            let updates = self.reshape(updates, &window);
            let place = self.reshape(idx, &[]);
            let zero = self.scalar_i64(0, place.element());
            let starts: Vec<Value> =
                (0..x.rank()).map(|d| if d == dim { place.clone() } else { zero.clone() }).collect();
            return self.dynamic_update_slice(x, &updates, &starts);
        }
        let dims = ScatterDims {
            update_window_dims: (0..dim).chain(dim + idx.rank()..x.rank() - 1 + idx.rank()).collect(),
            inserted_window_dims: vec![dim],
            scatter_dims_to_operand_dims: vec![dim],
            index_vector_dim: idx.rank(),
            ..ScatterDims::default()
        };
        self.scatter(x, idx, updates, &dims, kind)
    }

    /// `torch.gather`: element `[i, j, k]` of the result is `x[i, idx[i, j, k], k]` for `dim` 1. Along the other
    /// dimensions `idx` may be shorter than `x`.
    pub fn take_along(&mut self, x: &Value, idx: &Value, dim: usize) -> Value {
        if x.rank() == 0 {
            let (x, idx) = (self.reshape(x, &[1]), self.reshape(idx, &[1]));
            let taken = self.take_along(&x, &idx, 0);
            return self.reshape(&taken, &[]);
        }
        let (_, limit) = along(x, idx, dim);
        if idx.ty().numel() == 0 {
            return self.splat(0.0, &Type::new(idx.shape(), x.element()));
        }
        let x = self.slice(x, &vec![0; x.rank()], &limit, &vec![1; x.rank()]);
        let others: Vec<usize> = (0..x.rank()).filter(|&d| d != dim).collect();
        let dims = GatherDims {
            operand_batching_dims: others.clone(),
            start_indices_batching_dims: others,
            collapsed_slice_dims: vec![dim],
            start_index_map: vec![dim],
            index_vector_dim: idx.rank(),
            ..GatherDims::default()
        };
        self.gather(&x, idx, &dims, &vec![1; x.rank()], false)
    }

    /// `torch.scatter` and its reductions: join `updates`, of the shape of `idx`, into `x` where [`Func::take_along`]
    /// reads.
    pub fn put_along(&mut self, x: &Value, idx: &Value, updates: &Value, dim: usize, kind: ScatterKind) -> Value {
        if x.rank() == 0 {
            let (x, idx) = (self.reshape(x, &[1]), self.reshape(idx, &[1]));
            let updates = self.reshape(updates, &[1]);
            let put = self.put_along(&x, &idx, &updates, 0, kind);
            return self.reshape(&put, &[]);
        }
        let (start, limit) = along(x, idx, dim);
        if idx.ty().numel() == 0 {
            return x.clone();
        }
        let part = self.slice(x, &start, &limit, &vec![1; x.rank()]);
        let others: Vec<usize> = (0..x.rank()).filter(|&d| d != dim).collect();
        let dims = ScatterDims {
            input_batching_dims: others.clone(),
            scatter_indices_batching_dims: others,
            inserted_window_dims: vec![dim],
            scatter_dims_to_operand_dims: vec![dim],
            index_vector_dim: idx.rank(),
            ..ScatterDims::default()
        };
        let part = self.scatter(&part, idx, updates, &dims, kind);
        let zero = self.scalar_i64(0, ElementType::S32);
        self.dynamic_update_slice(x, &part, &vec![zero; x.rank()])
    }
}

/// The part of `x` that indices of the shape of `idx` along `dim` can reach.
fn along(x: &Value, idx: &Value, dim: usize) -> (Vec<usize>, Vec<usize>) {
    assert!(dim < x.rank(), "gather (C19): dimension {dim} is out of range for {}", x.ty());
    let fits = x.rank() == idx.rank() && (0..x.rank()).all(|d| d == dim || idx.shape()[d] <= x.shape()[d]);
    assert!(fits, "gather (C17): the indices {} do not fit {} beside dimension {dim}", idx.ty(), x.ty());
    let mut limit = idx.shape().to_vec();
    limit[dim] = x.shape()[dim];
    (vec![0; x.rank()], limit)
}

/// Return the shape from the sizes of `indices` and of `windows`, with `windows` at `window_dims` (`gather (C22)`,
/// `scatter (C4)`). The error is a window dimension that is out of range.
fn combine(
    indices: &Value,
    index_vector_dim: usize,
    windows: &[usize],
    window_dims: &[usize],
) -> Result<Vec<usize>, usize> {
    let mut batch = indices.shape().to_vec();
    if index_vector_dim < batch.len() {
        batch.remove(index_vector_dim);
    }
    let rank = batch.len() + windows.len();
    if let Some(&d) = window_dims.iter().find(|&&d| d >= rank) {
        return Err(d);
    }
    let (mut batch, mut windows) = (batch.into_iter(), windows.iter().copied());
    Ok((0..rank).filter_map(|d| if window_dims.contains(&d) { windows.next() } else { batch.next() }).collect())
}

fn is_ascending(list: &[usize]) -> bool {
    list.windows(2).all(|pair| pair[0] < pair[1])
}

fn first_repeated(list: &[usize]) -> Option<usize> {
    list.iter().enumerate().find(|&(i, d)| list[..i].contains(d)).map(|(_, &d)| d)
}

/// The constraints that tie the operand's dimensions to windows, in the order: rank, unique, in range.
fn check_windows(
    name: &str,
    x: &Value,
    window_dims: &[usize],
    dropped: &[usize],
    batching: &[usize],
    [rank, unique, range]: [&str; 3],
) {
    assert!(
        x.rank() == window_dims.len() + dropped.len() + batching.len(),
        "{name} ({rank}): windows {window_dims:?}, dropped {dropped:?} and batching {batching:?} dimensions do not \
         add up to the rank of {}",
        x.ty()
    );
    let used = [dropped, batching].concat();
    if let Some(d) = first_repeated(&used) {
        panic!("{name} ({unique}): dimension {d} is named twice");
    }
    if let Some(d) = used.iter().find(|&&d| d >= x.rank()) {
        panic!("{name} ({range}): dimension {d} is out of range for {}", x.ty());
    }
}

/// The constraints on indices, in the order of the checks below.
fn check_indices(
    name: &str,
    x: &Value,
    indices: &Value,
    (operand_batching, indices_batching): (&[usize], &[usize]),
    map: &[usize],
    index_vector_dim: usize,
    [vector, components, unique, range, apart, pairs, sizes, map_unique, map_range]: [&str; 9],
) {
    assert!(indices.element().is_integer(), "{name} (I2): the indices {} are not integers", indices.ty());
    assert!(
        index_vector_dim <= indices.rank(),
        "{name} ({vector}): index_vector_dim {index_vector_dim} is out of range for {}",
        indices.ty()
    );
    let count = indices.shape().get(index_vector_dim).copied().unwrap_or(1);
    assert!(
        map.len() == count,
        "{name} ({components}): an index of {} has {count} components, but {map:?} maps {}",
        indices.ty(),
        map.len()
    );
    if let Some(d) = first_repeated(indices_batching) {
        panic!("{name} ({unique}): dimension {d} of the indices is named twice");
    }
    if let Some(d) = indices_batching.iter().find(|&&d| d >= indices.rank()) {
        panic!("{name} ({range}): dimension {d} is out of range for {}", indices.ty());
    }
    assert!(
        !indices_batching.contains(&index_vector_dim),
        "{name} ({apart}): dimension {index_vector_dim} holds the components and cannot be a batching dimension"
    );
    assert!(
        operand_batching.len() == indices_batching.len(),
        "{name} ({pairs}): batching dimensions {operand_batching:?} and {indices_batching:?} do not pair"
    );
    for (&i, &j) in operand_batching.iter().zip(indices_batching) {
        assert!(
            x.shape()[i] == indices.shape()[j],
            "{name} ({sizes}): dimension {i} of {} does not fit dimension {j} of {}",
            x.ty(),
            indices.ty()
        );
    }
    if let Some(d) = first_repeated(&[map, operand_batching].concat()) {
        panic!("{name} ({map_unique}): dimension {d} is named twice");
    }
    if let Some(d) = map.iter().find(|&&d| d >= x.rank()) {
        panic!("{name} ({map_range}): dimension {d} is out of range for {}", x.ty());
    }
}

fn push_list(text: &mut String, name: &str, list: &[usize]) {
    if !list.is_empty() {
        put(text, format_args!("{name} = [{}], ", List(list)));
    }
}
