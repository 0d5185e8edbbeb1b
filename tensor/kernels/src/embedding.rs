//! Table lookup by row index, and its gradient.

use crate::memory;
use crate::par::Shared;
use crate::real::{Real, for_acc, input, merged, offset_of, output, simd};
use crate::threads::{num_threads, parallel_for};
use crate::{DType, KernelError, View, ViewMut};

/// Return the elements of an integer view in row-major order.
pub(crate) fn indices(x: &View) -> Vec<i64> {
    fn read<T: Copy>(x: &View, f: impl Fn(T) -> i64) -> Vec<i64> {
        let (n, s) = merged(x.sizes(), x.strides());
        // SAFETY: `offset_of` gives offsets of the view's elements.
        memory::collect((0..x.numel()).map(|i| f(unsafe { *x.ptr().cast::<T>().add(offset_of(i, &n, &s)) })))
    }
    match x.dtype() {
        DType::I64 => read::<i64>(x, |v| v),
        DType::I32 => read::<i32>(x, |v| v as i64),
        DType::I16 => read::<i16>(x, |v| v as i64),
        DType::I8 => read::<i8>(x, |v| v as i64),
        DType::U8 => read::<u8>(x, |v| v as i64),
        other => panic!("index of type {}", other.name()),
    }
}

fn checked(idx: &View, rows: usize) -> Result<Vec<i64>, KernelError> {
    let idx = indices(idx);
    if idx.iter().any(|&i| i < 0 || i as usize >= rows) {
        return Err(KernelError::IndexOutOfRange("index out of range in self".into()));
    }
    Ok(idx)
}

/// Compute `out[i.., :] = w[idx[i..], :]` for `w: [v, *row]` of any dtype, `idx` of any shape and `out: [*idx, *row]`.
///
/// # Errors
/// Fails with `index out of range in self` if an index is outside `0..v`.
pub fn index_select_rows(w: &View, idx: &View, out: &mut ViewMut) -> Result<(), KernelError> {
    let idx = checked(idx, w.sizes()[0])?;
    let (row_sizes, row_strides) = merged(&w.sizes()[1..], &w.strides()[1..]);
    let n: usize = w.sizes()[1..].iter().product();
    if idx.is_empty() || n == 0 {
        return Ok(());
    }
    assert_eq!(out.numel(), idx.len() * n, "index_select_rows: wrong output size");
    assert_eq!(out.dtype(), w.dtype(), "index_select_rows: operands of different types");
    let bytes = w.dtype().size_bytes();
    let rank = out.sizes().len();
    let lead = rank + 1 - w.sizes().len();
    let (out_row_sizes, out_row_strides) = merged(&out.sizes()[lead..], &out.strides()[lead..]);
    let dense = |s: &[usize]| s.is_empty() || s == [1];
    let is_dense = dense(&row_strides) && dense(&out_row_strides);
    let (from, to) = (Shared::at(w.ptr().cast_mut()), Shared::at(out.ptr()));
    let (lead_sizes, lead_strides) = (&out.sizes()[..lead], &out.strides()[..lead]);
    parallel_for(idx.len(), (1usize << 15).div_ceil(n), |range| {
        for i in range {
            // SAFETY: indices are checked, so every element lies within its view; one thread writes the output row.
            unsafe {
                let from = from.ptr().add(idx[i] as usize * w.strides()[0] * bytes);
                let to = to.ptr().add(offset_of(i, lead_sizes, lead_strides) * bytes);
                if is_dense {
                    std::ptr::copy_nonoverlapping(from, to, n * bytes);
                    continue;
                }
                for j in 0..n {
                    let from = from.add(offset_of(j, &row_sizes, &row_strides) * bytes);
                    let to = to.add(offset_of(j, &out_row_sizes, &out_row_strides) * bytes);
                    std::ptr::copy_nonoverlapping(from, to, bytes);
                }
            }
        }
    });
    Ok(())
}

/// Compute `out[v, :]`, the sum of `g[i.., :]` over all `i` with `idx[i..] == v`, for `g: [*idx, *row]` and
/// `out: [v, *row]`. Overwrites `out`. Rows equal to `padding_idx` add nothing. The order of additions does not depend
/// on the number of threads.
///
/// # Errors
/// Fails with `index out of range in self` if an index is outside `0..v`.
pub fn embedding_grad(g: &View, idx: &View, padding_idx: Option<usize>, out: &mut ViewMut) -> Result<(), KernelError> {
    let rows = out.sizes()[0];
    let idx = checked(idx, rows)?;
    let n: usize = out.sizes()[1..].iter().product();
    for_acc!(out.dtype(), A => {
        let g = input::<A>(g);
        output::<A, _>(out, |out| {
            let to = Shared::new(out);
            // Each thread owns a range of the table and reads all indices, so each gradient row is read once.
            parallel_for(rows, (rows / num_threads()).max((1usize << 14).div_ceil(n.max(1))), |range| {
                // SAFETY: the range is in bounds, and one thread uses it.
                let table = unsafe { to.slice(range.start * n, range.len() * n) };
                table.fill(A::ZERO);
                for (i, &v) in idx.iter().enumerate() {
                    let v = v as usize;
                    if range.contains(&v) && padding_idx != Some(v) {
                        add(&g[i * n..][..n], &mut table[(v - range.start) * n..][..n]);
                    }
                }
            });
        });
        Ok(())
    })
}

simd! {
    fn add<A: Real>(x: &[A], out: &mut [A]) {
        for (o, &x) in out.iter_mut().zip(x) {
            *o += x;
        }
    }
}
