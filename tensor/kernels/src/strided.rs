//! Iteration over several strided operands together, row by row, on all threads.

use crate::ViewMut;
use crate::par::Shared;
pub(crate) use crate::threads::parallel_for;
use crate::threads::{CHEAP_GRAIN, num_threads};

/// Sort on all threads if there are enough elements: threads sort pieces, and a standard sort merges the runs.
pub(crate) fn parallel_sort<T: Ord + Copy + Send>(x: &mut [T]) {
    let pieces = num_threads().min(x.len() / CHEAP_GRAIN);
    if pieces < 2 {
        return x.sort_unstable();
    }
    let (n, all) = (x.len(), Shared::new(x));
    parallel_for(pieces, 1, |range| {
        for piece in range {
            let (start, end) = (piece * n / pieces, (piece + 1) * n / pieces);
            // SAFETY: the piece is in bounds, and one thread uses it.
            unsafe { all.slice(start, end - start) }.sort_unstable();
        }
    });
    x.sort();
}

/// An address that threads share. They use disjoint elements.
#[derive(Clone, Copy)]
pub(crate) struct Address<T>(*mut T);

// SAFETY: it is only an address, and each unsafe access through it has its own argument.
unsafe impl<T> Send for Address<T> {}
// SAFETY: it is only an address, and each unsafe access through it has its own argument.
unsafe impl<T> Sync for Address<T> {}

impl<T: Copy> Address<T> {
    pub(crate) fn of(ptr: *const u8) -> Address<T> {
        Address(ptr.cast_mut().cast())
    }
    /// Return the address of an element.
    #[inline(always)]
    pub(crate) fn at(self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
    /// # Safety
    /// `offset` is that of an element of the view.
    #[inline(always)]
    pub(crate) unsafe fn read(self, offset: usize) -> T {
        // SAFETY: the caller passes the offset of an element.
        unsafe { self.at(offset).read() }
    }
    /// # Safety
    /// `offset` is that of an element of a writable view, and no other thread uses the element.
    #[inline(always)]
    pub(crate) unsafe fn write(self, offset: usize, v: T) {
        // SAFETY: the caller passes the offset of an element that no other thread uses.
        unsafe { self.at(offset).write(v) }
    }
}

#[derive(Clone)]
struct Dim<const K: usize> {
    size: usize,
    strides: [usize; K],
    serial: bool,
}

/// A loop nest over `K` operands: the common sizes and each operand's strides. Dimensions are merged if they continue
/// each other in all operands.
#[derive(Clone)]
pub(crate) struct Nest<const K: usize> {
    dims: Vec<Dim<K>>,
    numel: usize,
    is_serial: bool,
}

impl<const K: usize> Nest<K> {
    /// Make a loop nest. `serial(d)` means that positions along dimension `d` may write the same element, so they stay
    /// on one thread.
    pub(crate) fn new(sizes: &[usize], strides: [&[usize]; K], serial: impl Fn(usize) -> bool) -> Nest<K> {
        let mut dims: Vec<Dim<K>> = Vec::with_capacity(sizes.len());
        for (d, &size) in sizes.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let inner = Dim { size, strides: strides.map(|s| s[d]), serial: serial(d) };
            match dims.last_mut() {
                Some(outer) if (0..K).all(|k| outer.strides[k] == inner.strides[k] * size) => {
                    let serial = outer.serial || inner.serial;
                    *outer = Dim { size: outer.size * size, serial, ..inner };
                }
                _ => dims.push(inner),
            }
        }
        Nest { dims, numel: sizes.iter().product(), is_serial: false }
    }

    /// Keep all positions on one thread if `out`, which the loop writes, may reach an element more than once.
    pub(crate) fn serial_if_repeated(mut self, out: &ViewMut) -> Nest<K> {
        if may_repeat(out.sizes(), out.strides()) {
            self.is_serial = true;
        }
        self
    }

    /// Call `f(offsets, len, strides)` for every innermost row, in order, on this thread.
    pub(crate) fn for_each_row(&self, mut f: impl FnMut([usize; K], usize, [usize; K])) {
        self.walk([0; K], &mut f);
    }

    /// Like [`Nest::for_each_row`], on all threads if there are enough elements.
    pub(crate) fn par_for_each_row(&self, f: impl Fn([usize; K], usize, [usize; K]) + Sync) {
        let split = if self.is_serial || self.numel < 2 * CHEAP_GRAIN {
            None
        } else {
            // Split the outermost dimension that is long enough for all threads, so that rows stay whole.
            let enough = 4 * num_threads();
            let free = || (0..self.dims.len()).filter(|&d| !self.dims[d].serial);
            free().find(|&d| self.dims[d].size >= enough).or_else(|| free().max_by_key(|&d| self.dims[d].size))
        };
        let Some(d) = split else {
            return self.for_each_row(f);
        };
        let dim = &self.dims[d];
        parallel_for(dim.size, CHEAP_GRAIN.div_ceil(self.numel / dim.size), |range| {
            let mut part = self.clone();
            part.dims[d].size = range.len();
            part.numel = self.numel / dim.size * range.len();
            part.walk(dim.strides.map(|s| s * range.start), &mut |o, n, s| f(o, n, s));
        });
    }

    fn walk(&self, base: [usize; K], f: &mut impl FnMut([usize; K], usize, [usize; K])) {
        if self.numel == 0 {
            return;
        }
        let Some((row, outer)) = self.dims.split_last() else {
            return f(base, 1, [0; K]);
        };
        let mut offsets = base;
        let mut index = vec![0; outer.len()];
        loop {
            f(offsets, row.size, row.strides);
            let mut d = outer.len();
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                index[d] += 1;
                for k in 0..K {
                    offsets[k] += outer[d].strides[k];
                }
                if index[d] < outer[d].size {
                    break;
                }
                index[d] = 0;
                for k in 0..K {
                    offsets[k] -= outer[d].size * outer[d].strides[k];
                }
            }
        }
    }
}

/// Whether two indices of a layout may lead to the same element. `false` is certain: each dimension steps over all
/// elements of the dimensions with smaller strides.
pub(crate) fn may_repeat(sizes: &[usize], strides: &[usize]) -> bool {
    let mut reach = 0;
    let mut below = 0;
    // Visit dimensions in the order of their strides. There are few, so search for the next one.
    for _ in sizes {
        let left = sizes.iter().zip(strides).filter(|&(&n, &s)| n > 1 && s > below);
        let Some((&n, &s)) = left.min_by_key(|d| *d.1) else { break };
        if s <= reach || strides.iter().zip(sizes).filter(|&(&t, &m)| m > 1 && t == s).count() > 1 {
            return true;
        }
        (reach, below) = (reach + (n - 1) * s, s);
    }
    sizes.iter().zip(strides).any(|(&n, &s)| n > 1 && s == 0)
}

/// Return row-major strides.
pub(crate) fn row_major(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    strides
}

/// Return the offset of the element with row-major number `i`.
#[inline]
pub(crate) fn offset_of(mut i: usize, sizes: &[usize], strides: &[usize]) -> usize {
    let mut offset = 0;
    for d in (0..sizes.len()).rev() {
        offset += i % sizes[d] * strides[d];
        i /= sizes[d];
    }
    offset
}

/// Run a block with `$T` bound to the unsigned integer as wide as a dtype. Code that only moves elements needs no more
/// than five variants.
macro_rules! for_width {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size_bytes() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            _ => {
                // A pair of `u64` has the alignment of its parts, like `complex128`.
                type $T = [u64; 2];
                $body
            }
        }
    };
}
pub(crate) use for_width;
