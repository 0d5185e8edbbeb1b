//! Tensors that reach one place in memory through several indices, such as `x.unfold(0, 3, 1)`.
//!
//! PyTorch's loops go through the elements of such a tensor one after the other. A later element reads what an earlier
//! one wrote, and the last write to a place stays. Ops of this library are pure, so this module restates the loops:
//! [`last_writes`] picks the elements whose values stay, and [`update`] computes a function in rounds, each of which
//! visits a place at most once.

use crate::{DType, Dims, Result, Tensor, inplace, ops, state};
use smallvec::SmallVec;

/// Whether different indices may lead to one place. `false` is certain; `true` is certain only if no stride is the sum
/// of others.
pub(crate) fn may_overlap(dims: &Dims, strides: &Dims) -> bool {
    let mut steps: SmallVec<[(usize, usize); 8]> = SmallVec::new();
    for (&n, &s) in dims.iter().zip(strides) {
        match n {
            0 => return false,
            1 => {}
            _ => steps.push((s, n - 1)),
        }
    }
    steps.sort_unstable();
    let mut reach = 0usize;
    steps.iter().any(|&(s, n)| {
        let overlaps = s <= reach;
        reach = reach.saturating_add(s.saturating_mul(n));
        overlaps
    })
}

/// Whether different indices may lead to one element of `x`.
#[inline]
pub(crate) fn overlaps_itself(x: &Tensor) -> bool {
    !x.is_contiguous() && may_overlap(x.dims(), x.strides())
}

/// Whether `x` may overlap itself without repeating whole dimensions. PyTorch refuses most writes to tensors that
/// repeat dimensions, as `expand` makes them, and allows all writes to other ones.
#[inline]
pub(crate) fn is_written_in_order(x: &Tensor) -> bool {
    overlaps_itself(x) && !inplace::repeats_elements(x)
}

/// The dimensions in the order of PyTorch's loops over `operands`, strides of one rank, the fastest dimension first.
fn loop_order(dims: &Dims, operands: &[&Dims]) -> SmallVec<[usize; 8]> {
    use std::cmp::Ordering;
    let compare = |a: usize, b: usize| {
        for strides in operands {
            match (strides[a], strides[b]) {
                (0, _) | (_, 0) => {}
                (s, t) if s != t => return s.cmp(&t),
                _ if dims[a] > dims[b] => return Ordering::Greater,
                _ => {}
            }
        }
        Ordering::Equal
    };
    let mut order: SmallVec<[usize; 8]> = (0..dims.len()).rev().collect();
    // Insertion sort, as in PyTorch: the comparison is no order, so another algorithm gives another result.
    for i in 1..order.len() {
        let mut at = i;
        for j in (0..i).rev() {
            match compare(order[j], order[at]) {
                Ordering::Greater => {
                    order.swap(j, at);
                    at = j;
                }
                Ordering::Less => break,
                Ordering::Equal => {}
            }
        }
    }
    order
}

/// The elements of a window in the order of PyTorch's loops: the number of each in row-major order, and its distance
/// from the first one in memory.
fn visits(dims: &Dims, operands: &[&Dims]) -> Vec<(usize, usize)> {
    if dims.contains(&0) {
        return Vec::new();
    }
    crate::memory::expect_room(dims.numel().saturating_mul(4 * size_of::<(usize, usize)>()));
    let (strides, rows) = (operands[0], dims.contiguous_strides());
    let mut all = vec![(0, 0)];
    for d in loop_order(dims, operands).into_iter().rev() {
        let steps = (rows[d], strides[d]);
        all = all.iter().flat_map(|&(e, p)| (0..dims[d]).map(move |i| (e + i * steps.0, p + i * steps.1))).collect();
    }
    all
}

/// Number of places from the first element to the last one.
fn span(dims: &Dims, strides: &Dims) -> usize {
    1 + dims.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum::<usize>()
}

/// The places that a window reaches, and for each the row-major number of the element that PyTorch's loops write last.
/// `operands` are the strides of the window and of the values.
pub(crate) fn last_writes(dims: &Dims, operands: &[&Dims]) -> (Vec<i64>, Vec<i64>) {
    if dims.contains(&0) {
        return (Vec::new(), Vec::new());
    }
    let mut last = vec![-1; span(dims, operands[0])];
    for (element, place) in visits(dims, operands) {
        last[place] = element as i64;
    }
    last.iter().enumerate().filter(|(_, e)| **e >= 0).map(|(p, e)| (p as i64, *e)).unzip()
}

fn positions(v: &[i64], x: &Tensor) -> Result<Tensor> {
    Tensor::from_slice_on(v, &[v.len()], x.place())
}

/// The memory from the first element of `x` to the last one, as a vector.
pub(crate) fn memory_of(x: &Tensor) -> Result<Tensor> {
    let n = if x.numel() == 0 { 0 } else { span(x.dims(), x.strides()) };
    x.as_strided(&[n as i64], &[1], Some(x.storage_offset() as i64))
}

/// The position in [`memory_of`] of each element of `x`.
pub(crate) fn places_of(x: &Tensor) -> Result<Tensor> {
    let at = ops::shape::AsStrided { dims: *x.dims(), strides: *x.strides(), offset: 0, own: false };
    Tensor::from_slice_on(&at.positions(), x.dims(), x.place())
}

/// The memory of `x`, and its new value after `y` has been written over `x`.
pub(crate) fn written(x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
    state::no_grad(|| {
        let (places, elements) = last_writes(x.dims(), &[x.strides(), y.strides()]);
        let memory = memory_of(x)?.detach();
        let y = ops::indexing::index_select_in_range(&y.detach().reshape(&[-1])?, 0, &positions(&elements, y)?)?;
        let new = ops::indexing::index_copy(&memory, 0, &positions(&places, x)?, &y)?;
        Ok((memory, new))
    })
}

/// Write `f` of the elements of `x` and of `operands` at the same indices into `x`, element after element. `f` gets
/// vectors. An operand that is `x` itself is read where it is used, so it has the elements that were written before.
///
/// # Errors
/// The errors of `f`, and of writing `x`.
pub(crate) fn update(x: &Tensor, operands: &[&Tensor], f: impl Fn(&Tensor, &[Tensor]) -> Result<Tensor>) -> Result<()> {
    inplace::check_writable(x)?;
    let dims = x.dims();
    let whole: SmallVec<[Tensor; 2]> = operands.iter().map(|o| o.expand_dims(dims)).collect::<Result<_>>()?;
    // In place, the tensor is the result and the first operand.
    let mut strides: SmallVec<[&Dims; 4]> = smallvec::smallvec![x.strides(), x.strides()];
    strides.extend(whole.iter().map(Tensor::strides));
    let mut rounds: Vec<(Vec<i64>, Vec<i64>)> = Vec::new();
    let mut visited = vec![0usize; if dims.contains(&0) { 0 } else { span(dims, x.strides()) }];
    for (element, place) in visits(dims, &strides) {
        let round = visited[place];
        visited[place] += 1;
        if round == rounds.len() {
            rounds.push(Default::default());
        }
        rounds[round].0.push(element as i64);
        rounds[round].1.push(place as i64);
    }
    let is_x = |o: &Tensor| {
        o.shares_storage(x)
            && o.storage_offset() == x.storage_offset()
            && o.strides() == x.strides()
            && o.dims() == dims
    };
    let rows = |o: &Tensor| if is_x(o) { Ok(None) } else { o.reshape(&[-1]).map(Some) };
    let whole: SmallVec<[Option<Tensor>; 2]> = whole.iter().map(rows).collect::<Result<_>>()?;
    let memory = memory_of(x)?;
    for (elements, places) in &rounds {
        let at = positions(places, x)?;
        let mut taken = Vec::new();
        let now = ops::indexing::index_select_in_range(&memory.alias_with_history()?, 0, &at)?;
        for o in &whole {
            taken.push(match o {
                Some(o) => ops::indexing::index_select_in_range(o, 0, &positions(elements, o)?)?,
                None => now.clone(),
            });
        }
        let y = f(&now, &taken)?;
        let y = inplace::converted(&memory, &y)?;
        inplace::assign(&memory, &ops::indexing::index_copy(&memory.alias_with_history()?, 0, &at, &y)?)?;
    }
    Ok(())
}

/// Write those elements of `y` that are `hit` over `x`, in row-major order.
pub(crate) fn write_hits(x: &Tensor, y: &Tensor, hit: &Tensor) -> Result<()> {
    let (memory, at) = (memory_of(x)?, places_of(x)?.reshape(&[-1])?);
    // The last element that is hit at each place, counted from one.
    let number = Tensor::arange(1.into(), (x.numel() as i64 + 1).into(), 1.into(), DType::I64, x.place())?;
    let number = hit.expand_dims(x.dims())?.reshape(&[-1])?.to_dtype(DType::I64)?.mul(&number)?;
    let none = Tensor::zeros_like_meta(&memory.meta().with_dtype(DType::I64))?;
    let last = ops::indexing::scatter_reduce(&none, 0, &at, &number, "amax", true)?;
    let new = ops::indexing::index_select_in_range(&y.reshape(&[-1])?, 0, &last.add_scalar(-1)?.maximum_scalar(0)?)?;
    let new = ops::pointwise::select(&last.gt_scalar(0)?, &new, &memory.alias_with_history()?)?;
    inplace::assign(&memory, &new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_strides_do_not_overlap() {
        let overlaps = |dims: &[usize], strides: &[usize]| may_overlap(&Dims::new(dims), &Dims::new(strides));
        assert!(!overlaps(&[2, 3], &[3, 1]) && !overlaps(&[3, 2], &[1, 3]) && !overlaps(&[2, 1, 3], &[8, 0, 2]));
        assert!(!overlaps(&[0, 3], &[0, 0]) && !overlaps(&[], &[]) && !overlaps(&[1], &[0]));
        assert!(overlaps(&[3, 3], &[1, 1]) && overlaps(&[2, 3], &[2, 1]) && overlaps(&[2], &[0]));
    }

    #[test]
    fn last_write_to_a_place_stays() {
        let dims = Dims::new(&[3, 3]);
        let (ones, rows) = (Dims::new(&[1, 1]), Dims::new(&[3, 1]));
        assert_eq!(last_writes(&dims, &[&ones, &rows]), (vec![0, 1, 2, 3, 4], vec![0, 3, 6, 7, 8]));
        // The strides of the values decide where those of the window are equal.
        assert_eq!(last_writes(&dims, &[&ones, &Dims::new(&[1, 3])]).1, vec![0, 1, 2, 5, 8]);
        // So do sizes: the smaller dimension is the faster one.
        assert_eq!(last_writes(&Dims::new(&[2, 3]), &[&ones, &rows]).1, vec![0, 1, 2, 5]);
    }
}
