//! Reductions.
//!
//! There are three loops. If the reduced dimension is innermost in memory, rows are folded into one number, eight
//! vectors at a time. If a kept dimension is innermost, rows are added to a row of accumulators. If there are few
//! results and long reductions, threads reduce pieces, and the partial results are folded in order.
//!
//! `f32` sums run over tiles whose partial sums are paired like the digits of a binary counter, so that the error grows
//! with the logarithm of the length. `f16` and `bf16` are accumulated in `f32`. Operands are cast to the accumulator
//! type tile by tile. Cuts between pieces depend only on the sizes, so results do not depend on the number of threads.

use crate::complex::{Complex, by_parts, for_complex};
use crate::convert::{Number, cast};
use crate::loops::{Cursor, Dim, RawMut, multiversion, simplify};
use crate::memory;
use crate::pointwise::{kinds, unsupported};
use crate::threads::parallel_for;
use crate::{DType, Element, KernelError, View, ViewMut, c128, for_dtype};

kinds! {
    /// A reduction, by PyTorch's name.
    ReduceKind { Sum "sum", Prod "prod", Max "amax", Min "amin", Any "any", All "all" }
}

/// Number of elements cast at a time, and the length of a sum's first level.
const TILE: usize = 512;
/// Number of reduced elements per piece of work.
const PIECE: usize = 64 * 1024;
/// Number of independent accumulators of a fold.
const LANES: usize = 64;

/// How two accumulated values are combined.
trait Fold: 'static {
    type Acc: Number;
    const IDENTITY: Self::Acc;
    fn fold(a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

struct Sum<T>(std::marker::PhantomData<T>);
struct Prod<T>(std::marker::PhantomData<T>);
struct Max<T>(std::marker::PhantomData<T>);
struct Min<T>(std::marker::PhantomData<T>);

macro_rules! folds {
    ($($Op:ident $t:ty: $identity:expr, |$a:ident, $b:ident| $e:expr;)*) => {$(
        impl Fold for $Op<$t> {
            type Acc = $t;
            const IDENTITY: $t = $identity;
            #[inline(always)]
            fn fold($a: $t, $b: $t) -> $t { $e }
        }
    )*};
}
folds! {
    Sum f32: 0.0, |a, b| a + b;
    Sum f64: 0.0, |a, b| a + b;
    Sum i64: 0, |a, b| a.wrapping_add(b);
    Prod f32: 1.0, |a, b| a * b;
    Prod f64: 1.0, |a, b| a * b;
    Prod i64: 1, |a, b| a.wrapping_mul(b);
    Max f32: f32::NEG_INFINITY, |a, b| if a > b || a.is_nan() { a } else { b };
    Max f64: f64::NEG_INFINITY, |a, b| if a > b || a.is_nan() { a } else { b };
    Max u8: 0, |a, b| a.max(b);
    Max i8: i8::MIN, |a, b| a.max(b);
    Max i16: i16::MIN, |a, b| a.max(b);
    Max i32: i32::MIN, |a, b| a.max(b);
    Max i64: i64::MIN, |a, b| a.max(b);
    Min f32: f32::INFINITY, |a, b| if a < b || a.is_nan() { a } else { b };
    Min f64: f64::INFINITY, |a, b| if a < b || a.is_nan() { a } else { b };
    Min u8: 255, |a, b| a.min(b);
    Min i8: i8::MAX, |a, b| a.min(b);
    Min i16: i16::MAX, |a, b| a.min(b);
    Min i32: i32::MAX, |a, b| a.min(b);
    Min i64: i64::MAX, |a, b| a.min(b);
}

#[inline(always)]
unsafe fn fold_run_body<F: Fold, const FMA: bool>(x: *const F::Acc, n: usize) -> F::Acc {
    let mut lanes = [F::IDENTITY; LANES];
    let mut i = 0;
    // SAFETY: the caller passes `n` readable elements.
    unsafe {
        while i + LANES <= n {
            for l in 0..LANES {
                lanes[l] = F::fold(lanes[l], *x.add(i + l));
            }
            i += LANES;
        }
        let mut width = LANES / 2;
        if i > 0 {
            while width > 0 {
                for l in 0..width {
                    lanes[l] = F::fold(lanes[l], lanes[l + width]);
                }
                width /= 2;
            }
        }
        let mut r = lanes[0];
        while i < n {
            r = F::fold(r, *x.add(i));
            i += 1;
        }
        r
    }
}
multiversion! { unsafe fn fold_run<F: Fold>(x: *const F::Acc, n: usize) -> F::Acc = fold_run_body }

#[inline(always)]
unsafe fn fold_into_body<F: Fold, const FMA: bool>(acc: *mut F::Acc, x: *const F::Acc, n: usize) {
    for i in 0..n {
        // SAFETY: the caller passes `n` elements of both.
        unsafe { *acc.add(i) = F::fold(*acc.add(i), *x.add(i)) };
    }
}
multiversion! { unsafe fn fold_into<F: Fold>(acc: *mut F::Acc, x: *const F::Acc, n: usize) = fold_into_body }

#[inline(always)]
unsafe fn load_body<A: Number, R: Number, const FMA: bool>(x: *const u8, step: usize, to: *mut R, n: usize) {
    // SAFETY: the caller passes `n` readable elements and room for `n` results.
    unsafe {
        if step == size_of::<A>() {
            for i in 0..n {
                *to.add(i) = cast(*x.cast::<A>().add(i));
            }
        } else {
            for i in 0..n {
                *to.add(i) = cast(*x.add(i * step).cast::<A>());
            }
        }
    }
}
multiversion! { unsafe fn load<A: Number, R: Number>(x: *const u8, step: usize, to: *mut R, n: usize) = load_body }

/// A function that reads elements, `step` bytes apart, as another type.
type Load<R> = unsafe fn(*const u8, usize, *mut R, usize);

fn load_as<R: Number>(from: DType) -> Load<R> {
    for_dtype!(from, A => load::<A, R>)
}

/// Return a function that reads whether each element is nonzero, as a byte.
fn load_truth(from: DType) -> Load<u8> {
    unsafe fn truth<A: Number>(x: *const u8, step: usize, to: *mut u8, n: usize) {
        for i in 0..n {
            // SAFETY: the caller passes `n` readable elements and room for `n` results.
            unsafe { *to.add(i) = (*x.add(i * step).cast::<A>()).is_true() as u8 };
        }
    }
    unsafe fn complex_truth<C: Complex>(x: *const u8, step: usize, to: *mut u8, n: usize) {
        for i in 0..n {
            // SAFETY: the caller passes `n` readable elements and room for `n` results.
            unsafe { *to.add(i) = (*x.add(i * step).cast::<C>() != C::default()) as u8 };
        }
    }
    match from {
        DType::C64 | DType::C128 => for_complex!(from, C => complex_truth::<C>),
        _ => for_dtype!(from, A => truth::<A>),
    }
}

/// Partial results, paired like the digits of a binary counter.
struct Cascade<F: Fold> {
    levels: [F::Acc; 48],
    count: u64,
}
impl<F: Fold> Cascade<F> {
    fn new() -> Self {
        Cascade { levels: [F::IDENTITY; 48], count: 0 }
    }
    #[inline]
    fn push(&mut self, mut v: F::Acc) {
        let carries = self.count.trailing_ones() as usize;
        for level in &self.levels[..carries] {
            v = F::fold(*level, v);
        }
        self.levels[carries] = v;
        self.count += 1;
    }
    fn finish(&self) -> F::Acc {
        let mut r = F::IDENTITY;
        for l in 0..48 {
            if self.count >> l & 1 == 1 {
                r = F::fold(r, self.levels[l]);
            }
        }
        r
    }
}

/// Source elements, and how to read them.
struct Source<R> {
    ptr: RawMut,
    size: usize,
    /// `None` if memory already holds the accumulator's type.
    load: Option<Load<R>>,
}
impl<R> Clone for Source<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Source<R> {}

impl<R: Number> Source<R> {
    /// Call `visit` with runs of at most [`TILE`] elements in the accumulator's type.
    ///
    /// # Safety
    /// `n` elements lie `step` bytes apart, starting at `offset`.
    #[inline(always)]
    unsafe fn tiles(
        &self,
        offset: usize,
        step: usize,
        n: usize,
        tile: &mut [R; TILE],
        mut visit: impl FnMut(*const R, usize, usize),
    ) {
        let mut done = 0;
        while done < n {
            let m = (n - done).min(TILE);
            // SAFETY: the caller passes `n` elements that lie `step` bytes apart.
            unsafe {
                let x = self.ptr.at(offset + done * step);
                match self.load {
                    None if step == size_of::<R>() => visit(x.cast(), done, m),
                    load => {
                        (load.unwrap_or(load_plain::<R>))(x, step, tile.as_mut_ptr(), m);
                        visit(tile.as_ptr(), done, m);
                    }
                }
            }
            done += m;
        }
    }
}

unsafe fn load_plain<R: Number>(x: *const u8, step: usize, to: *mut R, n: usize) {
    for i in 0..n {
        // SAFETY: the caller passes `n` readable elements and room for `n` results.
        unsafe { *to.add(i) = *x.add(i * step).cast::<R>() };
    }
}

/// Dimensions of a reduction: the kept ones with the steps of input and output, and the reduced ones with the steps of
/// the input.
struct Plan {
    kept: Vec<Dim<2>>,
    reduced: Vec<Dim<1>>,
    results: usize,
    length: usize,
}

fn plan(x: &View, mask: &[bool], out: &ViewMut) -> Plan {
    let (sx, so) = (x.dtype().size_bytes(), out.dtype().size_bytes());
    let mut kept = Vec::new();
    let mut reduced = Vec::new();
    for (d, (&size, &stride)) in x.sizes().iter().zip(x.strides()).enumerate() {
        if mask[d] {
            reduced.push(Dim { size, steps: [stride * sx] });
        } else {
            debug_assert_eq!(out.sizes()[kept.len()], size);
            kept.push(Dim { size, steps: [stride * sx, out.strides()[kept.len()] * so] });
        }
    }
    let results = kept.iter().map(|d| d.size).product();
    let length = reduced.iter().map(|d| d.size).product();
    simplify(&mut kept);
    simplify(&mut reduced);
    Plan { kept, reduced, results, length }
}

/// Call `visit(offset, n)` for runs of the innermost dimension in a range of the flat order.
#[inline(always)]
fn runs<const M: usize>(dims: &[Dim<M>], start: usize, n: usize, mut visit: impl FnMut(&[usize; M], usize)) {
    let mut at = Cursor::new(dims, start);
    let mut left = n;
    while left > 0 {
        let m = left.min(dims[0].size - at.inner);
        visit(&at.offset, m);
        left -= m;
        if left > 0 {
            at.advance(dims, m);
        }
    }
}

/// Fold `n` elements of the reduced range, starting at `start`, for the result at `base`.
unsafe fn fold_range<F: Fold>(
    src: &Source<F::Acc>,
    plan: &Plan,
    base: usize,
    start: usize,
    n: usize,
    tile: &mut [F::Acc; TILE],
) -> F::Acc {
    let step = plan.reduced[0].steps[0];
    if n <= TILE && plan.reduced.len() == 1 {
        let mut r = F::IDENTITY;
        // SAFETY: the range lies within the reduced dimensions.
        unsafe { src.tiles(base + start * step, step, n, tile, |x, _, m| r = fold_run::<F>(x, m)) };
        return r;
    }
    let mut cascade = Cascade::<F>::new();
    runs(&plan.reduced, start, n, |offset, m| {
        // SAFETY: the run lies within the reduced dimensions.
        unsafe { src.tiles(base + offset[0], step, m, tile, |x, _, m| cascade.push(fold_run::<F>(x, m))) };
    });
    cascade.finish()
}

/// Fold every result. `store(offset, value)` writes one result.
fn fold_all<F: Fold>(src: Source<F::Acc>, plan: &Plan, store: &(dyn Fn(usize, F::Acc) + Sync)) {
    let (results, length) = (plan.results, plan.length);
    if results == 0 {
        return;
    }
    if length == 0 {
        return runs(&plan.kept, 0, results, |offset, m| {
            for i in 0..m {
                store(offset[1] + i * plan.kept[0].steps[1], F::IDENTITY);
            }
        });
    }
    let kept = plan.kept[0];
    // The dimension with the smallest step in memory becomes the inner loop.
    let along_kept = kept.size >= 4 && kept.steps[0] != 0 && kept.steps[0] < plan.reduced[0].steps[0];
    if along_kept {
        return fold_columns::<F>(src, plan, store);
    }
    // With few results, cut the reduced range into pieces.
    let pieces = length.div_ceil(PIECE);
    if results < 16 && pieces > 1 {
        let mut partial = memory::filled(F::IDENTITY, results * pieces);
        let slots = RawMut(partial.as_mut_ptr().cast());
        parallel_for(results * pieces, 1, |range| {
            let mut tile = [F::IDENTITY; TILE];
            for item in range {
                let (r, piece) = (item / pieces, item % pieces);
                let base = Cursor::new(&plan.kept, r).offset[0];
                let start = piece * PIECE;
                // SAFETY: ranges lie within the view, and each slot is written once.
                unsafe {
                    let v = fold_range::<F>(&src, plan, base, start, PIECE.min(length - start), &mut tile);
                    slots.at(item * size_of::<F::Acc>()).cast::<F::Acc>().write(v);
                }
            }
        });
        for (r, parts) in partial.chunks(pieces).enumerate() {
            let mut cascade = Cascade::<F>::new();
            for p in parts {
                cascade.push(*p);
            }
            store(Cursor::new(&plan.kept, r).offset[1], cascade.finish());
        }
        return;
    }
    parallel_for(results, (32 * 1024 / length).max(1), |range| {
        let mut tile = [F::IDENTITY; TILE];
        runs(&plan.kept, range.start, range.len(), |offset, m| {
            for i in 0..m {
                // SAFETY: results and reduced range lie within the view.
                let v = unsafe { fold_range::<F>(&src, plan, offset[0] + i * kept.steps[0], 0, length, &mut tile) };
                store(offset[1] + i * kept.steps[1], v);
            }
        });
    });
}

/// Number of columns that are accumulated together.
const COLUMNS: usize = 2048;
/// Number of rows that share the first level of accumulators, and number of accumulators of a level that share one of
/// the next level. Errors grow with this number, and with the logarithm of the number of rows.
const ROWS: usize = 16;
/// Smallest number of rows in a piece of a range of rows.
const PIECE_ROWS: usize = 128;

/// Fold rows of a kept innermost dimension into rows of accumulators.
fn fold_columns<F: Fold>(src: Source<F::Acc>, plan: &Plan, store: &(dyn Fn(usize, F::Acc) + Sync)) {
    let kept = plan.kept[0];
    let outer: usize = plan.kept[1..].iter().map(|d| d.size).product();
    let length = plan.length;
    // Strips are narrow enough to give each thread work, and wide enough to read memory in long runs.
    let width = if outer > 1 || kept.size < 512 {
        kept.size.min(COLUMNS)
    } else {
        (kept.size.div_ceil(2)).next_multiple_of(64).clamp(256, COLUMNS)
    };
    let strips = kept.size.div_ceil(width);
    // With few strips, cut the reduced range too.
    let wanted = if outer * strips < 4 { (length / PIECE_ROWS).clamp(1, 8) } else { 1 };
    let pieces = if outer * strips * length * width.min(kept.size) > PIECE { wanted } else { 1 };
    let piece = length.div_ceil(pieces);
    let fold_piece = |item: usize, start: usize, n: usize, acc: &mut [F::Acc]| -> usize {
        let (o, strip) = (item / strips, item % strips);
        let first = strip * width;
        let m = width.min(kept.size - first);
        let at = Cursor::new(&plan.kept, o * kept.size + first).offset;
        let mut tile = [F::IDENTITY; TILE];
        // There is one row of accumulators per level. `acc` receives the remainder of all levels.
        let mut levels = memory::filled(F::IDENTITY, m);
        acc[..m].fill(F::IDENTITY);
        let mut rows = 0usize;
        let step = plan.reduced[0].steps[0];
        runs(&plan.reduced, start, n, |offset, count| {
            for i in 0..count {
                // SAFETY: the strip lies within the view.
                unsafe {
                    src.tiles(at[0] + offset[0] + i * step, kept.steps[0], m, &mut tile, |x, done, m| {
                        fold_into::<F>(levels.as_mut_ptr().add(done), x, m)
                    });
                }
                rows += 1;
                let (mut full, mut level) = (rows, 0);
                while full % ROWS == 0 {
                    full /= ROWS;
                    if levels.len() < (level + 2) * m {
                        levels.resize((level + 2) * m, F::IDENTITY);
                    }
                    let (lower, upper) = levels[level * m..].split_at_mut(m);
                    // SAFETY: both have `m` elements.
                    unsafe { fold_into::<F>(upper.as_mut_ptr(), lower.as_ptr(), m) };
                    lower.fill(F::IDENTITY);
                    level += 1;
                }
            }
        });
        for level in levels.chunks(m) {
            // SAFETY: both have `m` elements.
            unsafe { fold_into::<F>(acc.as_mut_ptr(), level.as_ptr(), m) };
        }
        m
    };
    let put = |item: usize, acc: &[F::Acc]| {
        let (o, strip) = (item / strips, item % strips);
        let at = Cursor::new(&plan.kept, o * kept.size + strip * width).offset[1];
        for (i, v) in acc.iter().enumerate() {
            store(at + i * kept.steps[1], *v);
        }
    };
    let items = outer * strips;
    let grain = (32 * 1024 / (piece * width)).max(1);
    if pieces == 1 {
        return parallel_for(items, grain, |range| {
            let mut acc = memory::filled(F::IDENTITY, width);
            for item in range {
                let m = fold_piece(item, 0, length, &mut acc);
                put(item, &acc[..m]);
            }
        });
    }
    let pieces = length.div_ceil(piece);
    let mut partial = memory::filled(F::IDENTITY, items * pieces * width);
    let slots = RawMut(partial.as_mut_ptr().cast());
    parallel_for(items * pieces, grain, |range| {
        for k in range {
            // SAFETY: each piece has its own `width` slots.
            let acc = unsafe {
                std::slice::from_raw_parts_mut(slots.at(k * width * size_of::<F::Acc>()).cast::<F::Acc>(), width)
            };
            let start = k % pieces * piece;
            fold_piece(k / pieces, start, piece.min(length - start), acc);
        }
    });
    for item in 0..items {
        let m = width.min(kept.size - item % strips * width);
        let (first, rest) = partial[item * pieces * width..(item + 1) * pieces * width].split_at_mut(width);
        for other in rest.chunks(width) {
            // SAFETY: both have `width` elements.
            unsafe { fold_into::<F>(first.as_mut_ptr(), other.as_ptr(), m) };
        }
        put(item, &first[..m]);
    }
}

/// Reduce with an accumulator type, and write the results times `scale` in the output's dtype.
fn go<F: Fold>(x: &View, plan: &Plan, load: Option<Load<F::Acc>>, scale: Option<f64>, out: &mut ViewMut) {
    let src = Source { ptr: RawMut(x.ptr().cast_mut()), size: x.dtype().size_bytes(), load };
    debug_assert!(src.size > 0);
    let to = RawMut(out.ptr());
    for_dtype!(out.dtype(), R => {
        let store = |offset: usize, v: F::Acc| {
            let v: R = match scale {
                Some(s) => cast::<f64, R>(v.to_f64() * s),
                None => cast(v),
            };
            // SAFETY: the offset is that of a result, and each result is written once.
            unsafe { to.at(offset).cast::<R>().write(v) };
        };
        fold_all::<F>(src, plan, &store)
    });
}

fn loader<R: Number>(x: DType) -> Option<Load<R>> {
    (x != R::DTYPE).then(|| load_as::<R>(x))
}

/// Reduce `x` over the dimensions where `mask` is true. `out` has the sizes of the other dimensions, in order.
///
/// `Sum` and `Prod` cast to the dtype of `out` first. Integers accumulate in `i64`, and `f16` and `bf16` in `f32`. If
/// `x` or `out` is complex, both must be. `Max` and `Min` keep the dtype of `x` and propagate NaN. `Any` and `All`
/// write `bool`. An empty reduction gives the identity. For `Max` and `Min` this is the lowest and the highest value;
/// callers refuse that case, as PyTorch does.
///
/// # Errors
/// Never fails for the dtypes above.
pub fn reduce(kind: ReduceKind, x: &View, mask: &[bool], out: &mut ViewMut) -> Result<(), KernelError> {
    let (dx, dout) = (x.dtype(), out.dtype());
    if dx.is_complex() && matches!(kind, ReduceKind::Sum) {
        return by_parts(x, out, |x, out| reduce(kind, x, mask, out));
    }
    let p = plan(x, mask, out);
    match kind {
        ReduceKind::Prod if dx.is_complex() => for_complex!(dx, C => complex_prod::<C>(x, &p, out)),
        ReduceKind::Sum | ReduceKind::Prod => sum_or_prod(kind == ReduceKind::Sum, x, &p, None, out),
        ReduceKind::Any => go::<Max<u8>>(x, &p, Some(load_truth(dx)), None, out),
        ReduceKind::All => {
            // The identity of `min` over bytes is 255, which counts as true.
            go::<Min<u8>>(x, &p, Some(load_truth(dx)), None, out)
        }
        ReduceKind::Max | ReduceKind::Min => {
            macro_rules! extreme {
                ($t:ty) => {
                    if kind == ReduceKind::Max {
                        go::<Max<$t>>(x, &p, loader(dx), None, out)
                    } else {
                        go::<Min<$t>>(x, &p, loader(dx), None, out)
                    }
                };
            }
            if dx != dout {
                return Err(unsupported(kind.name(), dx));
            }
            match dx {
                DType::F16 | DType::BF16 | DType::F32 => extreme!(f32),
                DType::F64 => extreme!(f64),
                DType::Bool | DType::U8 => extreme!(u8),
                DType::I8 => extreme!(i8),
                DType::I16 => extreme!(i16),
                DType::I32 => extreme!(i32),
                DType::I64 => extreme!(i64),
                _ => return Err(unsupported(kind.name(), dx)),
            }
        }
    }
    Ok(())
}

/// Compute products of complex numbers, one result after the other.
fn complex_prod<C: Complex>(x: &View, p: &Plan, out: &mut ViewMut) {
    let (from, to) = (RawMut(x.ptr().cast_mut()), RawMut(out.ptr()));
    parallel_for(p.results, (8 * 1024 / p.length.max(1)).max(1), |range| {
        runs(&p.kept, range.start, range.len(), |offset, m| {
            for i in 0..m {
                let base = offset[0] + i * p.kept[0].steps[0];
                let mut product = c128::new(1.0, 0.0);
                if p.length > 0 {
                    runs(&p.reduced, 0, p.length, |at, n| {
                        for j in 0..n {
                            // SAFETY: the element lies within the view.
                            let v = unsafe { *from.at(base + at[0] + j * p.reduced[0].steps[0]).cast::<C>() };
                            product *= v.wide();
                        }
                    });
                }
                // SAFETY: the result lies within the output, and each is written once.
                unsafe { to.at(offset[1] + i * p.kept[0].steps[1]).cast::<C>().write(C::narrow(product)) };
            }
        });
    });
}

fn sum_or_prod(sum: bool, x: &View, p: &Plan, scale: Option<f64>, out: &mut ViewMut) {
    let (dx, dout) = (x.dtype(), out.dtype());
    macro_rules! with {
        ($t:ty) => {
            if sum { go::<Sum<$t>>(x, p, loader(dx), scale, out) } else { go::<Prod<$t>>(x, p, loader(dx), scale, out) }
        };
    }
    if !dout.is_float() {
        with!(i64)
    } else if dout == DType::F64 || dx == DType::F64 || !dx.is_float() {
        with!(f64)
    } else {
        with!(f32)
    }
}

/// Compute the mean over the dimensions where `mask` is true, in the floating dtype of `out`. An empty mean is NaN.
///
/// # Errors
/// Fails with [`KernelError::Other`] if `out` is not floating point.
pub fn mean(x: &View, mask: &[bool], out: &mut ViewMut) -> Result<(), KernelError> {
    if x.dtype().is_complex() {
        return by_parts(x, out, |x, out| mean(x, mask, out));
    }
    if !out.dtype().is_float() {
        return Err(unsupported("mean", out.dtype()));
    }
    let p = plan(x, mask, out);
    let scale = if p.length == 0 { f64::NAN } else { 1.0 / p.length as f64 };
    sum_or_prod(true, x, &p, Some(scale), out);
    Ok(())
}

/// Find the position along `dim` of the largest (or smallest) element: the first of equal elements, or the first NaN.
/// `out` is `i64` and has the sizes of `x` without `dim`.
///
/// # Errors
/// Fails with [`KernelError::Other`] if `dim` is empty and there are results to write.
pub fn arg_reduce(max: bool, x: &View, dim: usize, out: &mut ViewMut) -> Result<(), KernelError> {
    debug_assert_eq!(out.dtype(), DType::I64);
    let mut mask = vec![false; x.sizes().len()];
    mask[dim] = true;
    let p = plan(x, &mask, out);
    let (length, step) = (x.sizes()[dim], x.strides()[dim] * x.dtype().size_bytes());
    if p.results == 0 {
        return Ok(());
    }
    if length == 0 {
        let name = if max { "argmax" } else { "argmin" };
        return Err(KernelError::Other(format!("{name}(): Expected reduction dim {dim} to have non-zero size.")));
    }
    let (from, to) = (RawMut(x.ptr().cast_mut()), RawMut(out.ptr()));
    for_dtype!(x.dtype(), T => {
        parallel_for(p.results, (32 * 1024 / length).max(1), |range| {
            runs(&p.kept, range.start, range.len(), |offset, m| {
                for i in 0..m {
                    // SAFETY: the elements and the result lie within the views.
                    unsafe {
                        let x = from.at(offset[0] + i * p.kept[0].steps[0]);
                        let r = best_of::<T>(max, x, step, length);
                        to.at(offset[1] + i * p.kept[0].steps[1]).cast::<i64>().write(r as i64);
                    }
                }
            });
        })
    });
    Ok(())
}

unsafe fn best_of<T: Element + PartialOrd>(max: bool, x: *const u8, step: usize, n: usize) -> usize {
    // SAFETY: the caller passes `n` readable elements.
    unsafe {
        let mut best: T = *x.cast::<T>();
        let mut at = 0;
        for i in 0..n {
            let v = *x.add(i * step).cast::<T>();
            // A NaN compares unordered even with itself.
            if v.partial_cmp(&v).is_none() {
                return i;
            }
            if if max { v > best } else { v < best } {
                best = v;
                at = i;
            }
        }
        at
    }
}

/// The sums of the distances of some elements from a number, and of the squares of these distances.
type Moments = [f64; 2];

#[inline(always)]
unsafe fn moments_body<T: Number, const FMA: bool>(x: *const u8, step: usize, shift: f64, n: usize) -> Moments {
    const WIDTH: usize = 32;
    let (mut sums, mut squares) = ([0f64; WIDTH], [0f64; WIDTH]);
    let whole = n / WIDTH * WIDTH;
    // SAFETY: the caller passes `n` readable elements, `step` bytes apart.
    unsafe {
        let at = |i: usize| cast::<T, f64>(*x.add(i * step).cast::<T>()) - shift;
        if step == size_of::<T>() {
            let x = x.cast::<T>();
            for i in (0..whole).step_by(WIDTH) {
                for l in 0..WIDTH {
                    let d = cast::<T, f64>(*x.add(i + l)) - shift;
                    sums[l] += d;
                    squares[l] += d * d;
                }
            }
        } else {
            for i in (0..whole).step_by(WIDTH) {
                for l in 0..WIDTH {
                    let d = at(i + l);
                    sums[l] += d;
                    squares[l] += d * d;
                }
            }
        }
        let mut r = [sums.iter().sum::<f64>(), squares.iter().sum::<f64>()];
        for i in whole..n {
            let d = at(i);
            r[0] += d;
            r[1] += d * d;
        }
        r
    }
}
multiversion! {
    unsafe fn moments<T: Number>(x: *const u8, step: usize, shift: f64, n: usize) -> Moments = moments_body
}

#[inline(always)]
unsafe fn add_moments_body<T: Number, const FMA: bool>(
    x: *const u8,
    step: usize,
    shifts: *const f64,
    sums: *mut f64,
    squares: *mut f64,
    n: usize,
) {
    // SAFETY: the caller passes `n` readable elements, `step` bytes apart, and `n` elements of the other arrays.
    unsafe {
        if step == size_of::<T>() {
            for i in 0..n {
                let d = cast::<T, f64>(*x.cast::<T>().add(i)) - *shifts.add(i);
                *sums.add(i) += d;
                *squares.add(i) += d * d;
            }
        } else {
            for i in 0..n {
                let d = cast::<T, f64>(*x.add(i * step).cast::<T>()) - *shifts.add(i);
                *sums.add(i) += d;
                *squares.add(i) += d * d;
            }
        }
    }
}
multiversion! {
    unsafe fn add_moments<T: Number>(
        x: *const u8, step: usize, shifts: *const f64, sums: *mut f64, squares: *mut f64, n: usize
    ) = add_moments_body
}

/// The spread of elements around their mean, as [`spread`] computes it.
struct Spread<'a> {
    plan: &'a Plan,
    from: RawMut,
    divisor: f64,
    root: bool,
    /// Where the spread and the mean are written.
    to: [RawMut; 2],
}

impl Spread<'_> {
    /// The number from which distances are taken: an element, so that the distances are not large compared to the
    /// spread.
    unsafe fn shift<T: Number>(&self, base: usize) -> f64 {
        // SAFETY: the caller passes the offset of an element.
        let first = cast::<T, f64>(unsafe { *self.from.at(base).cast::<T>() });
        if first.is_finite() { first } else { 0.0 }
    }
    /// [`Moments`] of a part of the reduced range.
    unsafe fn moments<T: Number>(&self, base: usize, start: usize, n: usize, shift: f64) -> Moments {
        let step = self.plan.reduced[0].steps[0];
        let (mut sums, mut squares) = (Cascade::<Sum<f64>>::new(), Cascade::<Sum<f64>>::new());
        runs(&self.plan.reduced, start, n, |offset, m| {
            for i in (0..m).step_by(4 * TILE) {
                // SAFETY: the run lies within the reduced dimensions.
                let part = unsafe {
                    moments::<T>(self.from.at(base + offset[0] + i * step), step, shift, (m - i).min(4 * TILE))
                };
                sums.push(part[0]);
                squares.push(part[1]);
            }
        });
        [sums.finish(), squares.finish()]
    }
    /// Write the results for the moments of all elements.
    unsafe fn finish<T: Number>(&self, offset: usize, shift: f64, [sum, squares]: Moments) {
        let n = self.plan.length as f64;
        let rest = squares - sum * sum / n;
        // Rounding can make it negative. NaN stays.
        let var = if rest < 0.0 { 0.0 } else { rest } / self.divisor;
        let y = if self.root { var.sqrt() } else { var };
        // SAFETY: the offset is that of a result, and each result is written once.
        unsafe {
            self.to[0].at(offset).cast::<T>().write(cast(y));
            self.to[1].at(offset).cast::<T>().write(cast(shift + sum / n));
        }
    }
    fn rows<T: Number>(&self) {
        let (plan, length) = (self.plan, self.plan.length);
        let kept = plan.kept[0];
        // Take distances of `f64` from the mean, so that their squares are as exact as can be.
        let is_exact = T::DTYPE != DType::F64;
        let pieces = if plan.results < 16 { length.div_ceil(PIECE) } else { 1 };
        if pieces > 1 {
            let mut partial = memory::filled([0f64; 2], plan.results * pieces);
            let slots = RawMut(partial.as_mut_ptr().cast());
            let run = |shifts: &[f64]| {
                parallel_for(plan.results * pieces, 1, |range| {
                    for item in range {
                        let (r, piece) = (item / pieces, item % pieces);
                        let (base, start) = (Cursor::new(&plan.kept, r).offset[0], piece * PIECE);
                        // SAFETY: ranges lie within the view, and each slot is written once.
                        unsafe {
                            let v = self.moments::<T>(base, start, PIECE.min(length - start), shifts[r]);
                            slots.at(item * size_of::<Moments>()).cast::<Moments>().write(v);
                        }
                    }
                });
                memory::collect(
                    partial
                        .chunks(pieces)
                        .map(|parts| parts.iter().fold([0.0; 2], |a: Moments, b| [a[0] + b[0], a[1] + b[1]])),
                )
            };
            // SAFETY: the offset is that of the first element of a result.
            let mut shifts: Vec<f64> = memory::collect(
                (0..plan.results).map(|r| unsafe { self.shift::<T>(Cursor::new(&plan.kept, r).offset[0]) }),
            );
            let mut all: Vec<Moments> = run(&shifts);
            if !is_exact {
                shifts.iter_mut().zip(&all).for_each(|(s, m)| *s = centre(*s, m[0] / length as f64));
                all = run(&shifts);
            }
            for (r, m) in all.iter().enumerate() {
                // SAFETY: the offset is that of a result.
                unsafe { self.finish::<T>(Cursor::new(&plan.kept, r).offset[1], shifts[r], *m) };
            }
            return;
        }
        parallel_for(plan.results, (16 * 1024 / length).max(1), |range| {
            runs(&plan.kept, range.start, range.len(), |offset, m| {
                for i in 0..m {
                    let base = offset[0] + i * kept.steps[0];
                    // SAFETY: results and reduced range lie within the views.
                    unsafe {
                        let mut shift = self.shift::<T>(base);
                        let mut m = self.moments::<T>(base, 0, length, shift);
                        if !is_exact {
                            shift = centre(shift, m[0] / length as f64);
                            m = self.moments::<T>(base, 0, length, shift);
                        }
                        self.finish::<T>(offset[1] + i * kept.steps[1], shift, m);
                    }
                }
            });
        });
    }
    /// A kept dimension is innermost: add rows to rows of sums, for strips of the columns.
    fn columns<T: Number>(&self) {
        let (plan, length) = (self.plan, self.plan.length);
        let kept = plan.kept[0];
        let outer: usize = plan.kept[1..].iter().map(|d| d.size).product();
        // The sums of a strip stay in the first-level cache.
        let width = kept.size.min(512);
        let strips = kept.size.div_ceil(width);
        let is_exact = T::DTYPE != DType::F64;
        let place = |item: usize| {
            let first = item % strips * width;
            let at = Cursor::new(&plan.kept, item / strips * kept.size + first).offset;
            (at, width.min(kept.size - first))
        };
        let first_shifts = |item: usize, shifts: &mut [f64]| {
            let (at, m) = place(item);
            for (i, shift) in shifts[..m].iter_mut().enumerate() {
                // SAFETY: the strip lies within the view.
                *shift = unsafe { self.shift::<T>(at[0] + i * kept.steps[0]) };
            }
        };
        // Overwrite the sums of distances and of their squares with those of some rows.
        let fold = |item: usize, start: usize, n: usize, shifts: &[f64], both: &mut [f64]| {
            let (at, m) = place(item);
            both.fill(0.0);
            let (sums, squares) = both.split_at_mut(width);
            runs(&plan.reduced, start, n, |offset, count| {
                for i in 0..count {
                    // SAFETY: the strip lies within the view, and the buffers have `m` elements.
                    unsafe {
                        let x = self.from.at(at[0] + offset[0] + i * plan.reduced[0].steps[0]);
                        let (sums, squares) = (sums.as_mut_ptr(), squares.as_mut_ptr());
                        add_moments::<T>(x, kept.steps[0], shifts.as_ptr(), sums, squares, m);
                    }
                }
            });
        };
        let recentre = |shifts: &mut [f64], both: &[f64]| {
            shifts.iter_mut().zip(both).for_each(|(s, sum)| *s = centre(*s, sum / length as f64));
        };
        let finish = |item: usize, shifts: &[f64], both: &[f64]| {
            let (at, m) = place(item);
            for i in 0..m {
                // SAFETY: the offset is that of a result.
                unsafe { self.finish::<T>(at[1] + i * kept.steps[1], shifts[i], [both[i], both[width + i]]) };
            }
        };
        let items = outer * strips;
        let pieces = if items < 4 && length * width > PIECE { (length / PIECE_ROWS).clamp(1, 8) } else { 1 };
        if pieces > 1 {
            // With few strips, cut the reduced range too.
            let piece = length.div_ceil(pieces);
            let (mut shifts, mut partial) = (memory::filled(0f64, width), memory::filled(0f64, 2 * width * pieces));
            for item in 0..items {
                first_shifts(item, &mut shifts);
                for pass in 0..if is_exact { 1 } else { 2 } {
                    if pass == 1 {
                        recentre(&mut shifts, &partial[..width]);
                    }
                    let slots = RawMut(partial.as_mut_ptr().cast());
                    parallel_for(pieces, 1, |range| {
                        for k in range {
                            let start = (k * piece).min(length);
                            // SAFETY: each piece has its own slots.
                            let both = unsafe {
                                let slot = slots.at(k * 2 * width * size_of::<f64>()).cast::<f64>();
                                std::slice::from_raw_parts_mut(slot, 2 * width)
                            };
                            fold(item, start, piece.min(length - start), &shifts, both);
                        }
                    });
                    let (total, rest) = partial.split_at_mut(2 * width);
                    for part in rest.chunks(2 * width) {
                        total.iter_mut().zip(part).for_each(|(a, b)| *a += b);
                    }
                }
                finish(item, &shifts, &partial);
            }
            return;
        }
        parallel_for(items, (16 * 1024 / (length * width)).max(1), |range| {
            let (mut shifts, mut both) = (memory::filled(0f64, width), memory::filled(0f64, 2 * width));
            for item in range {
                first_shifts(item, &mut shifts);
                fold(item, 0, length, &shifts, &mut both);
                if !is_exact {
                    recentre(&mut shifts, &both[..width]);
                    fold(item, 0, length, &shifts, &mut both);
                }
                finish(item, &shifts, &both);
            }
        });
    }
}

/// The mean, from a shift and the mean of the distances from it. Infinities stay in the distances.
fn centre(shift: f64, by: f64) -> f64 {
    if (shift + by).is_finite() { shift + by } else { shift }
}

/// Compute the variance over the dimensions where `mask` is true, divided by `length - correction`, or its square root,
/// and the mean. Sums are `f64` for all dtypes, so squares of `f32` neither overflow nor vanish. Both outputs have the
/// floating dtype of `x` and the same strides. Of no elements, both are NaN.
///
/// # Errors
/// Fails with [`KernelError::Other`] unless the dtypes are floating point.
pub fn spread(
    x: &View,
    mask: &[bool],
    correction: f64,
    root: bool,
    out: &mut ViewMut,
    mean: &mut ViewMut,
) -> Result<(), KernelError> {
    if !x.dtype().is_float() || x.dtype() != out.dtype() || x.dtype() != mean.dtype() {
        return Err(unsupported("var", x.dtype()));
    }
    debug_assert_eq!(out.strides(), mean.strides());
    let p = plan(x, mask, out);
    let divisor = (p.length as f64 - correction).max(0.0);
    let to = [RawMut(out.ptr()), RawMut(mean.ptr())];
    let spread = Spread { plan: &p, from: RawMut(x.ptr().cast_mut()), divisor, root, to };
    if p.results == 0 {
        return Ok(());
    }
    let kept = p.kept[0];
    let along_kept = kept.size >= 4 && kept.steps[0] != 0 && kept.steps[0] < p.reduced[0].steps[0];
    for_dtype!(x.dtype(), T => {
        if p.length == 0 {
            runs(&p.kept, 0, p.results, |offset, m| {
                for i in 0..m {
                    // SAFETY: the offset is that of a result.
                    unsafe { spread.finish::<T>(offset[1] + i * kept.steps[1], 0.0, [f64::NAN; 2]) };
                }
            });
        } else if along_kept {
            spread.columns::<T>();
        } else {
            spread.rows::<T>();
        }
    });
    Ok(())
}
