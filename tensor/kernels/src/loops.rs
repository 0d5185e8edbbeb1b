//! Strided iteration: run a loop over contiguous memory on operands of any layout, on all threads.
//!
//! An element-wise kernel is written once, as a [`Loop`] over contiguous operands of its compute dtype. So there are
//! few compiled loops, and each is easy to vectorise. This file handles the other cases, on tiles of [`TILE`] elements
//! that stay in the first-level cache:
//!
//! * A broadcast operand is copied into a whole tile once.
//! * A strided operand is gathered into a tile.
//! * An `f16` or `bf16` operand is widened to `f32`, and the result is narrowed.
//! * An input that is also the output is copied first, so that loops may assume that nothing overlaps.
//!
//! Contiguous operands are used in place. Dimensions are sorted by the output's strides and merged if every operand
//! allows it. The flat index space is cut into one piece per thread.

use crate::convert;
use crate::threads::{CHEAP_GRAIN, parallel_for};
use crate::{DType, View, ViewMut};
use std::mem::MaybeUninit;

/// Number of elements staged at a time.
pub(crate) const TILE: usize = 512;
/// Inner dimensions shorter than this are gathered several rows at a time.
const SHORT_ROW: usize = 48;

/// Parameters of a kernel besides its operands, such as alpha or bounds.
pub(crate) type Params = [f64; 4];

/// A kernel on contiguous elements. Arguments: parameters, output, inputs, and the number of elements. Output and
/// inputs do not overlap.
pub(crate) type Loop<const N: usize> = unsafe fn(&Params, *mut u8, &[*const u8; N], usize);

/// Whether fused multiply-add is an instruction of the baseline target.
pub(crate) const BASELINE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// Define `$name` as one body compiled for three instruction sets, chosen at run time. The last generic parameter of
/// the body is `FMA`: whether `mul_add` is one instruction.
macro_rules! multiversion {
    ($(#[$attr:meta])* $vis:vis unsafe fn $name:ident<$($g:ident $(: $bound:path)?),*>($($arg:ident: $ty:ty),* $(,)?)
        $(-> $ret:ty)? = $body:ident) => {
        $(#[$attr])*
        #[inline]
        $vis unsafe fn $name<$($g $(: $bound)?),*>($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi2,f16c")]
                unsafe fn avx512<$($g $(: $bound)?),*>($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller passes what `$body` requires.
                    unsafe { $body::<$($g,)* true>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma,bmi2,f16c")]
                unsafe fn avx2<$($g $(: $bound)?),*>($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller passes what `$body` requires.
                    unsafe { $body::<$($g,)* true>($($arg),*) }
                }
                // SAFETY: the caller passes what `$body` requires, and the processor has the features of the level.
                unsafe {
                    match $crate::cpu::level() {
                        $crate::cpu::Level::Portable => {}
                        $crate::cpu::Level::Avx2 => return avx2::<$($g),*>($($arg),*),
                        _ => return avx512::<$($g),*>($($arg),*),
                    }
                }
            }
            // SAFETY: the caller passes what `$body` requires.
            unsafe { $body::<$($g,)* { $crate::loops::BASELINE_FMA }>($($arg),*) }
        }
    };
}
pub(crate) use multiversion;

/// Conversion between an operand's elements in memory and those of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// No conversion.
    Same,
    /// `f16` in memory, `f32` in the loop.
    F16,
    /// `bf16` in memory, `f32` in the loop.
    BF16,
}

impl Stage {
    /// Return the conversion of a dtype in a kernel that computes `f16` and `bf16` in `f32`.
    #[inline(always)]
    pub(crate) fn of(dtype: DType) -> Stage {
        match dtype {
            DType::F16 => Stage::F16,
            DType::BF16 => Stage::BF16,
            _ => Stage::Same,
        }
    }
}

/// An operand of a strided kernel. Strides count elements.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub(crate) ptr: *mut u8,
    pub(crate) strides: &'a [usize],
    pub(crate) size: usize,
    pub(crate) stage: Stage,
}

impl<'a> Operand<'a> {
    /// An input that is converted to its [`compute_dtype`](crate::compute_dtype).
    #[inline(always)]
    pub(crate) fn input(v: &View<'a>) -> Operand<'a> {
        Operand {
            ptr: v.ptr().cast_mut(),
            strides: v.strides(),
            size: v.dtype().size_bytes(),
            stage: Stage::of(v.dtype()),
        }
    }
    /// An input whose bytes are used without conversion.
    #[inline(always)]
    pub(crate) fn raw_input(v: &View<'a>) -> Operand<'a> {
        Operand { stage: Stage::Same, ..Operand::input(v) }
    }
    /// An output that is converted from its [`compute_dtype`](crate::compute_dtype).
    #[inline(always)]
    pub(crate) fn output(v: &ViewMut<'a>) -> Operand<'a> {
        Operand { ptr: v.ptr(), strides: v.strides(), size: v.dtype().size_bytes(), stage: Stage::of(v.dtype()) }
    }
    /// An output whose bytes are written without conversion.
    #[inline(always)]
    pub(crate) fn raw_output(v: &ViewMut<'a>) -> Operand<'a> {
        Operand { stage: Stage::Same, ..Operand::output(v) }
    }
}

/// Run a loop over operands of equal sizes.
///
/// # Safety
/// Every operand's strides stay within its memory for `sizes`. The output's elements are distinct. Each input has
/// either exactly the elements of the output or none of them. `f` takes the compute dtypes of the operands.
// The operands are large structs. A call would write them to memory for each small tensor.
#[inline(always)]
pub(crate) unsafe fn run<const N: usize>(
    f: Loop<N>,
    params: &Params,
    sizes: &[usize],
    out: Operand<'_>,
    ins: [Operand<'_>; N],
) {
    let n = match sizes {
        [n] => *n,
        _ => sizes.iter().product(),
    };
    let mut plain = n <= CHEAP_GRAIN && out.stage == Stage::Same && dense(sizes, out.strides);
    for x in &ins {
        plain &= x.stage == Stage::Same && x.ptr != out.ptr && dense(sizes, x.strides);
    }
    if plain {
        // SAFETY: the caller passes operands that fit `sizes` and `f`, and all are contiguous.
        return unsafe { f(params, out.ptr, &ins.map(|x| x.ptr.cast_const()), n) };
    }
    // SAFETY: the caller passes operands that fit `sizes` and `f`.
    unsafe { run_layouts(f, params, sizes, n, out, ins) };
}

/// Like [`run`], for operands that are not contiguous, need a conversion, are in place, or are large.
#[inline(never)]
unsafe fn run_layouts<const N: usize>(
    f: Loop<N>,
    params: &Params,
    sizes: &[usize],
    n: usize,
    out: Operand<'_>,
    ins: [Operand<'_>; N],
) {
    if n <= CHEAP_GRAIN && n > 0 && dense(sizes, out.strides) {
        // Contiguous operands and scalars form one row for any number of dimensions.
        let mut row_like = true;
        let lanes = ins.map(|x| {
            let step = if dense(sizes, x.strides) {
                x.size
            } else {
                row_like &= x.strides.iter().all(|s| *s == 0);
                0
            };
            Lane { ptr: x.ptr, step, size: x.size, stage: x.stage }
        });
        if row_like {
            let out = Lane { ptr: out.ptr, step: out.size, size: out.size, stage: out.stage };
            // SAFETY: the caller passes operands that fit `sizes` and `f`, and every operand has one step.
            return unsafe { row(f, params, out, lanes, n) };
        }
    }
    // SAFETY: the caller passes operands that fit `sizes` and `f`.
    unsafe { run_any(f, params, sizes, n, out, ins) };
}

/// Like [`crate::is_contiguous`], but without a loop for one dimension, the usual case of small tensors.
#[inline(always)]
fn dense(sizes: &[usize], strides: &[usize]) -> bool {
    match (sizes, strides) {
        ([n], [s]) => *s == 1 || *n == 1,
        _ => crate::is_contiguous(sizes, strides),
    }
}

/// A dimension: its size and each operand's stride in bytes, with the output's stride last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim<const M: usize> {
    pub(crate) size: usize,
    pub(crate) steps: [usize; M],
}

/// Sort dimensions by the steps of the last operand (then of the others), smallest first. Merge dimensions that
/// continue each other in every operand. Drop dimensions of size one, but keep at least one dimension.
pub(crate) fn simplify<const M: usize>(dims: &mut Vec<Dim<M>>) {
    dims.retain(|d| d.size != 1);
    // Start from the innermost dimension, so that equal dimensions keep their order.
    dims.reverse();
    let key = |d: &Dim<M>| {
        let mut key = d.steps;
        key.rotate_right(1);
        key
    };
    dims.sort_by_key(key);
    let mut kept = 0;
    for i in 0..dims.len() {
        let d = dims[i];
        if kept > 0 {
            let inner = &mut dims[kept - 1];
            if (0..M).all(|k| d.steps[k] == inner.steps[k] * inner.size) {
                inner.size *= d.size;
                continue;
            }
        }
        dims[kept] = d;
        kept += 1;
    }
    dims.truncate(kept);
    if dims.is_empty() {
        dims.push(Dim { size: 1, steps: [0; M] });
    }
}

#[inline(never)]
unsafe fn run_any<const N: usize>(
    f: Loop<N>,
    params: &Params,
    sizes: &[usize],
    n: usize,
    out: Operand<'_>,
    ins: [Operand<'_>; N],
) {
    match N {
        // The output counts as one more operand. Const generics cannot express `N + 1` yet.
        // SAFETY: the caller passes operands that fit `sizes` and `f`.
        1 => unsafe { run_dims::<N, 2>(f, params, sizes, n, out, ins) },
        // SAFETY: the caller passes operands that fit `sizes` and `f`.
        2 => unsafe { run_dims::<N, 3>(f, params, sizes, n, out, ins) },
        // SAFETY: the caller passes operands that fit `sizes` and `f`.
        3 => unsafe { run_dims::<N, 4>(f, params, sizes, n, out, ins) },
        _ => unreachable!("kernels have one to three inputs"),
    }
}

#[derive(Clone, Copy)]
struct Shared<T>(T);
// SAFETY: it holds pointers to plain elements, and threads use disjoint ranges of the output.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: it holds pointers to plain elements, and threads use disjoint ranges of the output.
unsafe impl<T> Sync for Shared<T> {}

/// One operand of the row or tile that is being computed.
#[derive(Clone, Copy)]
struct Lane {
    ptr: *mut u8,
    step: usize,
    size: usize,
    stage: Stage,
}

unsafe fn run_dims<const N: usize, const M: usize>(
    f: Loop<N>,
    params: &Params,
    sizes: &[usize],
    n: usize,
    out: Operand<'_>,
    ins: [Operand<'_>; N],
) {
    if n == 0 {
        return;
    }
    let mut dims: Vec<Dim<M>> = Vec::with_capacity(sizes.len() + 1);
    for (d, &size) in sizes.iter().enumerate() {
        let mut steps = [0; M];
        for (k, x) in ins.iter().enumerate() {
            steps[k] = x.strides[d] * x.size;
        }
        steps[M - 1] = out.strides[d] * out.size;
        dims.push(Dim { size, steps });
    }
    simplify(&mut dims);
    let job = Shared((out.ptr, ins.map(|x| x.ptr), &dims[..]));
    let lane = |x: &Operand<'_>| (x.size, x.stage);
    let (out_kind, in_kinds) = (lane(&out), ins.each_ref().map(lane));
    let params = *params;
    parallel_for(n, CHEAP_GRAIN, move |range| {
        let Shared((out_ptr, in_ptrs, dims)) = { job };
        let inner = dims[0];
        let lanes = |index: &Cursor<M>| {
            let mut k = 0;
            let ins = in_ptrs.map(|ptr| {
                let (size, stage) = in_kinds[k];
                // SAFETY: the cursor is within `sizes`, so the offset is within the operand's memory.
                let lane = Lane { ptr: unsafe { ptr.add(index.offset[k]) }, step: inner.steps[k], size, stage };
                k += 1;
                lane
            });
            // SAFETY: the cursor is within `sizes`, so the offset is within the output's memory.
            let ptr = unsafe { out_ptr.add(index.offset[M - 1]) };
            (Lane { ptr, step: inner.steps[M - 1], size: out_kind.0, stage: out_kind.1 }, ins)
        };
        let mut at = Cursor::new(dims, range.start);
        let mut left = range.len();
        if dims.len() == 1 || inner.size >= SHORT_ROW {
            while left > 0 {
                let m = left.min(inner.size - at.inner);
                let (out, ins) = lanes(&at);
                // SAFETY: the row has at least `m` more elements.
                unsafe { row(f, &params, out, ins, m) };
                at.advance(dims, m);
                left -= m;
            }
        } else {
            while left > 0 {
                let (out, ins) = lanes(&at);
                let m = left.min(tile_room(TILE, out, &ins));
                // SAFETY: at least `m` elements follow the cursor.
                unsafe { short_rows(f, &params, dims, &at, out, ins, m) };
                at.advance(dims, m);
                left -= m;
            }
        }
    });
}

/// A position in the flat order of simplified dimensions.
#[derive(Clone)]
pub(crate) struct Cursor<const M: usize> {
    /// Position in the innermost dimension.
    pub(crate) inner: usize,
    /// Positions in the other dimensions.
    outer: Outer,
    /// Byte offset of each operand.
    pub(crate) offset: [usize; M],
}

/// Positions in the outer dimensions. Merging leaves few; more than eight go to the heap.
#[derive(Clone)]
enum Outer {
    Few([usize; 8]),
    Many(Vec<usize>),
}

impl Outer {
    fn get(&mut self) -> &mut [usize] {
        match self {
            Outer::Few(x) => x,
            Outer::Many(x) => x,
        }
    }
}

impl<const M: usize> Cursor<M> {
    pub(crate) fn new(dims: &[Dim<M>], mut flat: usize) -> Cursor<M> {
        let outer = if dims.len() <= 9 { Outer::Few([0; 8]) } else { Outer::Many(vec![0; dims.len() - 1]) };
        let mut c = Cursor { inner: 0, outer, offset: [0; M] };
        if flat == 0 {
            return c;
        }
        for (d, dim) in dims.iter().enumerate() {
            let i = flat % dim.size;
            flat /= dim.size;
            if d == 0 {
                c.inner = i;
            } else {
                c.outer.get()[d - 1] = i;
            }
            for k in 0..M {
                c.offset[k] += i * dim.steps[k];
            }
        }
        c
    }

    /// Move on by `m` elements.
    #[inline]
    pub(crate) fn advance(&mut self, dims: &[Dim<M>], m: usize) {
        let inner = &dims[0];
        let to = self.inner + m;
        if to < inner.size {
            self.inner = to;
            for k in 0..M {
                self.offset[k] += m * inner.steps[k];
            }
            return;
        }
        let (mut carry, rest) = (to / inner.size, to % inner.size);
        for k in 0..M {
            self.offset[k] = (self.offset[k] + rest * inner.steps[k]).wrapping_sub(self.inner * inner.steps[k]);
        }
        self.inner = rest;
        let outer = self.outer.get();
        for (d, dim) in dims.iter().enumerate().skip(1) {
            let to = outer[d - 1] + carry;
            let (next, rest) = if to < dim.size { (0, to) } else { (to / dim.size, to % dim.size) };
            for k in 0..M {
                self.offset[k] = (self.offset[k] + rest * dim.steps[k]).wrapping_sub(outer[d - 1] * dim.steps[k]);
            }
            outer[d - 1] = rest;
            carry = next;
            if carry == 0 {
                break;
            }
        }
    }
}

/// Staging memory for one operand.
#[repr(C, align(64))]
struct Tile<const T: usize = TILE>(MaybeUninit<[u64; T]>);

impl<const T: usize> Tile<T> {
    #[inline(always)]
    fn new() -> Tile<T> {
        Tile(MaybeUninit::uninit())
    }
    #[inline(always)]
    fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Run the loop on one row: every operand has one step.
#[inline]
unsafe fn row<const N: usize>(f: Loop<N>, params: &Params, out: Lane, ins: [Lane; N], n: usize) {
    let mut direct = out.stage == Stage::Same && (out.step == out.size || n == 1);
    let out_direct = direct;
    for x in &ins {
        direct &= x.stage == Stage::Same && (x.step == x.size || n == 1) && x.ptr != out.ptr;
    }
    if direct {
        // SAFETY: all operands are contiguous for `n` elements.
        return unsafe { f(params, out.ptr, &ins.map(|x| x.ptr.cast_const()), n) };
    }
    // Large tiles on the stack cost a probe of every page, so small rows use small tiles.
    // SAFETY: the caller passes operands of `n` elements.
    unsafe {
        if n <= SMALL_TILE {
            staged_row::<N, SMALL_TILE>(f, params, out, out_direct, ins, n)
        } else {
            staged_row::<N, TILE>(f, params, out, out_direct, ins, n)
        }
    }
}

const SMALL_TILE: usize = 32;

#[inline(never)]
unsafe fn staged_row<const N: usize, const T: usize>(
    f: Loop<N>,
    params: &Params,
    out: Lane,
    out_direct: bool,
    ins: [Lane; N],
    n: usize,
) {
    let room = tile_room(T, out, &ins);
    let mut tiles = [const { Tile::<T>(MaybeUninit::uninit()) }; N];
    let mut spread = [false; N];
    for k in 0..N {
        if ins[k].step == 0 {
            // SAFETY: the step is zero, so only one element is read; the tile has room for `room` elements.
            unsafe { gather(ins[k], n.min(room), tiles[k].ptr()) };
            spread[k] = true;
        }
    }
    let mut result = Tile::<T>::new();
    let mut done = 0;
    while done < n {
        let m = (n - done).min(room);
        let mut ptrs = [std::ptr::null::<u8>(); N];
        for k in 0..N {
            // SAFETY: `done < n`, so the next `m` elements are in the lane's memory; tiles hold `room` elements.
            unsafe {
                let x = Lane { ptr: ins[k].ptr.add(done * ins[k].step), ..ins[k] };
                ptrs[k] = if spread[k] {
                    tiles[k].ptr()
                } else if x.step == x.size && x.stage == Stage::Same && !(out_direct && ins[k].ptr == out.ptr) {
                    x.ptr
                } else {
                    gather(x, m, tiles[k].ptr());
                    tiles[k].ptr()
                };
            }
        }
        // SAFETY: `m` elements follow in the output; `ptrs` are contiguous, and the loop writes elsewhere.
        unsafe {
            let to = Lane { ptr: out.ptr.add(done * out.step), ..out };
            if out_direct {
                f(params, to.ptr, &ptrs, m);
            } else {
                f(params, result.ptr(), &ptrs, m);
                scatter(result.ptr(), m, to);
            }
        }
        done += m;
    }
}

/// Return the number of elements that fit a tile of `n` eight-byte elements.
#[inline(always)]
fn tile_room<const N: usize>(n: usize, out: Lane, ins: &[Lane; N]) -> usize {
    n >> (out.size > 8 || ins.iter().any(|x| x.size > 8)) as u32
}

/// Compute several short rows as one tile.
#[inline(never)]
unsafe fn short_rows<const N: usize, const M: usize>(
    f: Loop<N>,
    params: &Params,
    dims: &[Dim<M>],
    at: &Cursor<M>,
    out: Lane,
    ins: [Lane; N],
    n: usize,
) {
    let flat = |k: usize, size: usize| {
        let mut expected = size;
        dims.iter().all(|d| {
            let fits = d.steps[k] == expected;
            expected *= d.size;
            fits
        })
    };
    let mut tiles = [const { Tile::<TILE>(MaybeUninit::uninit()) }; N];
    let mut result = Tile::<TILE>::new();
    let mut ptrs = [std::ptr::null::<u8>(); N];
    let out_flat = flat(M - 1, out.size);
    let out_direct = out_flat && out.stage == Stage::Same;
    // SAFETY: the caller ensures that `n <= TILE` elements follow the cursor in every operand.
    unsafe {
        for k in 0..N {
            let x = ins[k];
            ptrs[k] = if flat(k, x.size) {
                if x.stage == Stage::Same && !(out_direct && x.ptr == out.ptr) {
                    x.ptr
                } else {
                    gather(x, n, tiles[k].ptr());
                    tiles[k].ptr()
                }
            } else {
                let mut to = tiles[k].ptr();
                let width = if x.stage == Stage::Same { x.size } else { 4 };
                walk(dims, at, n, |offset, m| {
                    gather(Lane { ptr: x.ptr.sub(at.offset[k]).add(offset[k]), ..x }, m, to);
                    to = to.add(m * width);
                });
                tiles[k].ptr()
            };
        }
        if out_direct {
            return f(params, out.ptr, &ptrs, n);
        }
        f(params, result.ptr(), &ptrs, n);
        if out_flat {
            return scatter(result.ptr(), n, out);
        }
        let mut from = result.ptr();
        let width = if out.stage == Stage::Same { out.size } else { 4 };
        walk(dims, at, n, |offset, m| {
            scatter(from, m, Lane { ptr: out.ptr.sub(at.offset[M - 1]).add(offset[M - 1]), ..out });
            from = from.add(m * width);
        });
    }
}

/// Call `visit` with the offsets of each run of the inner dimension among the next `n` elements.
#[inline(always)]
fn walk<const M: usize>(dims: &[Dim<M>], at: &Cursor<M>, n: usize, mut visit: impl FnMut(&[usize; M], usize)) {
    let mut at = at.clone();
    let mut left = n;
    while left > 0 {
        let m = left.min(dims[0].size - at.inner);
        visit(&at.offset, m);
        at.advance(dims, m);
        left -= m;
    }
}

/// Read `n` elements at a step into contiguous memory, widening them.
unsafe fn gather(x: Lane, n: usize, to: *mut u8) {
    // SAFETY: the caller passes `n` readable elements and room for `n` results.
    unsafe {
        match (x.stage, x.size) {
            (Stage::F16, _) => convert::widen_f16(x.ptr, x.step, to.cast(), n),
            (Stage::BF16, _) => convert::widen_bf16(x.ptr, x.step, to.cast(), n),
            (_, 1) => gather_as::<u8>(x, n, to),
            (_, 2) => gather_as::<u16>(x, n, to),
            (_, 4) => gather_as::<u32>(x, n, to),
            (_, 8) => gather_as::<u64>(x, n, to),
            _ => gather_as::<[u64; 2]>(x, n, to),
        }
    }
}

unsafe fn gather_as<T: Copy>(x: Lane, n: usize, to: *mut u8) {
    let to = to.cast::<T>();
    // SAFETY: the caller passes `n` readable elements and room for `n` results.
    unsafe {
        if x.step == size_of::<T>() {
            std::ptr::copy_nonoverlapping(x.ptr.cast::<T>(), to, n);
        } else if x.step == 0 {
            let v = x.ptr.cast::<T>().read();
            for i in 0..n {
                to.add(i).write(v);
            }
        } else {
            for i in 0..n {
                to.add(i).write(x.ptr.add(i * x.step).cast::<T>().read());
            }
        }
    }
}

/// Write `n` contiguous elements at a step, narrowing them.
unsafe fn scatter(from: *const u8, n: usize, x: Lane) {
    // SAFETY: the caller passes `n` readable elements and room for `n` results.
    unsafe {
        match (x.stage, x.size) {
            (Stage::F16, _) => convert::narrow_f16(from.cast(), x.ptr, x.step, n),
            (Stage::BF16, _) => convert::narrow_bf16(from.cast(), x.ptr, x.step, n),
            (_, 1) => scatter_as::<u8>(from, n, x),
            (_, 2) => scatter_as::<u16>(from, n, x),
            (_, 4) => scatter_as::<u32>(from, n, x),
            (_, 8) => scatter_as::<u64>(from, n, x),
            _ => scatter_as::<[u64; 2]>(from, n, x),
        }
    }
}

unsafe fn scatter_as<T: Copy>(from: *const u8, n: usize, x: Lane) {
    let from = from.cast::<T>();
    for i in 0..n {
        // SAFETY: the caller passes `n` readable elements and room for `n` results.
        unsafe { x.ptr.add(i * x.step).cast::<T>().write(from.add(i).read()) };
    }
}

/// Call `visit(offset, step, n)`, in bytes, for every row of a strided array, on one thread.
pub(crate) fn for_each_row(
    sizes: &[usize],
    strides: &[usize],
    size: usize,
    mut visit: impl FnMut(usize, usize, usize),
) {
    let n: usize = sizes.iter().product();
    if n == 0 {
        return;
    }
    // A broadcast dimension repeats the same elements.
    let mut dims: Vec<Dim<1>> =
        sizes.iter().zip(strides).filter(|(_, s)| **s != 0).map(|(n, s)| Dim { size: *n, steps: [s * size] }).collect();
    simplify(&mut dims);
    let n = dims.iter().map(|d| d.size).product();
    walk(&dims, &Cursor::new(&dims, 0), n, |offset, m| visit(offset[0], dims[0].steps[0], m));
}

/// A raw buffer of which each thread uses its own range.
#[derive(Clone, Copy)]
pub(crate) struct RawMut(pub(crate) *mut u8);
// SAFETY: threads use disjoint ranges of the buffer.
unsafe impl Send for RawMut {}
// SAFETY: threads use disjoint ranges of the buffer.
unsafe impl Sync for RawMut {}
impl RawMut {
    /// Return the address `bytes` after the start.
    ///
    /// # Safety
    /// The address lies within the buffer.
    #[inline(always)]
    pub(crate) unsafe fn at(self, bytes: usize) -> *mut u8 {
        // SAFETY: the caller passes an offset within the buffer.
        unsafe { self.0.add(bytes) }
    }
}
