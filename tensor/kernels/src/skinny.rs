//! Products of a few rows with a matrix that is read once, in place.
//!
//! A product of 2 to 16 rows uses each element of the matrix for a few sums, so it costs as much as reading the matrix.
//! Packing the matrix first would read and write it once more. Here a thread walks through the matrix once. It widens a
//! vector of elements, multiplies it by the vectors of all rows, and keeps the sums in registers. Each element of a
//! result is summed in the same order for any number of rows.
//!
//! Columns of the matrix that are contiguous (`[n, k]` weights of a linear layer) give [`dots`]. Contiguous rows
//! (`x @ w`) give [`sums`]. Attention uses both for a few queries.

use crate::cpu::{Level, level};
use crate::matmul::{Mat, MatMut};
use crate::par::{Scratch, Shared};
use crate::real::Float;
use crate::threads::parallel_for;
use crate::{bf16, f16};

/// Largest number of rows.
pub(crate) const MOST_ROWS: usize = 16;
/// Multiple of elements to which rows are padded with zeros: two of the widest vectors.
pub(crate) const PADDED: usize = 32;
/// Number of columns that are computed together.
const WIDTH: usize = 512;
/// Number of products that [`dots`] sums in one vector. Longer sums are added up by parts, so that errors do not grow
/// with their length.
const SUMMED: usize = 4096;
/// The same number for [`product`] by [`sums`], which add one product after the other.
const SUMMED_ROWS: usize = 256;

/// An element of the matrix: a number that vectors widen to `f32`.
pub(crate) trait Narrow: Float<Acc = f32> {
    /// Whether [`Narrow::half`] takes every second element, so that rows are [arranged](arrange).
    const IS_INTERLEAVED: bool;
    /// # Safety
    /// There are `V::N` elements at `p`, and the processor has the instructions of `V`.
    unsafe fn load<V: Vector>(p: *const Self) -> V;
    /// Half of `2 * V::N` elements: the first ones, then the others.
    ///
    /// # Safety
    /// There are `2 * V::N` elements at `p`, and the processor has the instructions of `V`.
    unsafe fn half<V: Vector>(p: *const Self, second: bool) -> V;
}

impl Narrow for bf16 {
    const IS_INTERLEAVED: bool = true;
    #[inline(always)]
    unsafe fn load<V: Vector>(p: *const bf16) -> V {
        // SAFETY: the caller passes `V::N` elements, on a processor with the instructions.
        unsafe { V::load_bf16(p) }
    }
    #[inline(always)]
    unsafe fn half<V: Vector>(p: *const bf16, second: bool) -> V {
        // SAFETY: the caller passes `2 * V::N` elements, on a processor with the instructions.
        unsafe { V::every_second_bf16(p, second) }
    }
}

macro_rules! narrow {
    ($($t:ty: $load:ident;)*) => {$(
        impl Narrow for $t {
            const IS_INTERLEAVED: bool = false;
            #[inline(always)]
            unsafe fn half<V: Vector>(p: *const $t, second: bool) -> V {
                // SAFETY: the caller passes `2 * V::N` elements, on a processor with the instructions.
                unsafe { V::$load(p.add(if second { V::N } else { 0 })) }
            }
            #[inline(always)]
            unsafe fn load<V: Vector>(p: *const $t) -> V {
                // SAFETY: the caller passes `V::N` elements, on a processor with the instructions.
                unsafe { V::$load(p) }
            }
        }
    )*};
}
narrow! { f32: load; f16: load_f16; }

/// Put a padded row of the left operand of [`dots`] into the order in which vectors of `T` are read: of each two
/// vectors, the elements with even positions come first for `bf16`. Widening every second element of a vector takes one
/// instruction, and widening neighbours takes two.
pub(crate) fn arrange<T: Narrow>(row: &mut [f32]) {
    if !T::IS_INTERLEAVED {
        return;
    }
    let lanes = if level() >= Level::Avx512 { 16 } else { 8 };
    for pair in row.chunks_exact_mut(2 * lanes) {
        let mut old = [0.0; PADDED];
        old[..2 * lanes].copy_from_slice(pair);
        for i in 0..lanes {
            (pair[i], pair[lanes + i]) = (old[2 * i], old[2 * i + 1]);
        }
    }
}

/// A vector of `f32`.
///
/// # Safety
/// All functions need a processor with the instructions of the vector, and pointers to `N` elements.
pub(crate) trait Vector: Copy {
    /// Number of elements.
    const N: usize;
    /// Number of rows whose sums fit in registers, for two columns.
    const ROWS: usize;
    /// Number of sums that fit in registers beside the operands of three columns.
    const SUMS: usize;
    unsafe fn splat(v: f32) -> Self;
    unsafe fn load(p: *const f32) -> Self;
    unsafe fn load_bf16(p: *const bf16) -> Self;
    unsafe fn load_f16(p: *const f16) -> Self;
    /// Every second one of `2 * N` elements, from the first or from the second on.
    unsafe fn every_second_bf16(p: *const bf16, second: bool) -> Self;
    unsafe fn store(self, p: *mut f32);
    /// Return `self * y + z`.
    unsafe fn fused(self, y: Self, z: Self) -> Self;
    /// Return the sum of the elements, which are added in a fixed order.
    unsafe fn sum(self) -> f32;
}

/// A vector for processors without known instructions.
#[derive(Clone, Copy)]
struct Plain([f32; 8]);

impl Vector for Plain {
    const N: usize = 8;
    const ROWS: usize = 4;
    const SUMS: usize = 9;
    #[inline(always)]
    unsafe fn splat(v: f32) -> Plain {
        Plain([v; 8])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Plain {
        // SAFETY: the caller passes eight elements.
        Plain(unsafe { p.cast::<[f32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const bf16) -> Plain {
        // SAFETY: the caller passes eight elements.
        Plain(unsafe { p.cast::<[bf16; 8]>().read_unaligned() }.map(Float::up))
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const f16) -> Plain {
        // SAFETY: the caller passes eight elements.
        Plain(unsafe { p.cast::<[f16; 8]>().read_unaligned() }.map(Float::up))
    }
    #[inline(always)]
    unsafe fn every_second_bf16(p: *const bf16, second: bool) -> Plain {
        // SAFETY: the caller passes sixteen elements.
        let x = unsafe { p.cast::<[bf16; 16]>().read_unaligned() };
        Plain(std::array::from_fn(|i| x[2 * i + second as usize].up()))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller passes room for eight elements.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(self.0) };
    }
    #[inline(always)]
    unsafe fn fused(self, y: Plain, z: Plain) -> Plain {
        Plain(std::array::from_fn(|i| self.0[i] * y.0[i] + z.0[i]))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let x = self.0;
        ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use crate::{bf16, f16};
    use std::arch::x86_64::*;

    /// Eight elements, for AVX2 with FMA and F16C.
    #[derive(Clone, Copy)]
    pub(super) struct Eight(__m256);

    // SAFETY of all functions: the caller has a processor with the instructions, and passes `N` elements.
    impl Vector for Eight {
        const N: usize = 8;
        const ROWS: usize = 4;
        const SUMS: usize = 9;
        #[inline(always)]
        unsafe fn splat(v: f32) -> Eight {
            // SAFETY: see above.
            Eight(unsafe { _mm256_set1_ps(v) })
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Eight {
            // SAFETY: see above.
            Eight(unsafe { _mm256_loadu_ps(p) })
        }
        #[inline(always)]
        unsafe fn load_bf16(p: *const bf16) -> Eight {
            // SAFETY: see above.
            Eight(unsafe {
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))))
            })
        }
        #[inline(always)]
        unsafe fn load_f16(p: *const f16) -> Eight {
            // SAFETY: see above.
            Eight(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) })
        }
        #[inline(always)]
        unsafe fn every_second_bf16(p: *const bf16, second: bool) -> Eight {
            // SAFETY: see above.
            Eight(unsafe {
                let pairs = _mm256_loadu_si256(p.cast());
                _mm256_castsi256_ps(if second {
                    _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff_0000_u32 as i32))
                } else {
                    _mm256_slli_epi32::<16>(pairs)
                })
            })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: see above.
            unsafe { _mm256_storeu_ps(p, self.0) };
        }
        #[inline(always)]
        unsafe fn fused(self, y: Eight, z: Eight) -> Eight {
            // SAFETY: see above.
            Eight(unsafe { _mm256_fmadd_ps(self.0, y.0, z.0) })
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            // SAFETY: see above.
            unsafe {
                let four = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
            }
        }
    }

    /// Sixteen elements, for AVX-512.
    #[derive(Clone, Copy)]
    pub(super) struct Sixteen(__m512);

    impl Vector for Sixteen {
        const N: usize = 16;
        const ROWS: usize = 8;
        const SUMS: usize = 24;
        #[inline(always)]
        unsafe fn splat(v: f32) -> Sixteen {
            // SAFETY: see above.
            Sixteen(unsafe { _mm512_set1_ps(v) })
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Sixteen {
            // SAFETY: see above.
            Sixteen(unsafe { _mm512_loadu_ps(p) })
        }
        #[inline(always)]
        unsafe fn load_bf16(p: *const bf16) -> Sixteen {
            // SAFETY: see above.
            Sixteen(unsafe {
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))))
            })
        }
        #[inline(always)]
        unsafe fn load_f16(p: *const f16) -> Sixteen {
            // SAFETY: see above.
            Sixteen(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) })
        }
        #[inline(always)]
        unsafe fn every_second_bf16(p: *const bf16, second: bool) -> Sixteen {
            // SAFETY: see above.
            Sixteen(unsafe {
                let pairs = _mm512_loadu_si512(p.cast());
                _mm512_castsi512_ps(if second {
                    _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32 as i32))
                } else {
                    _mm512_slli_epi32::<16>(pairs)
                })
            })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: see above.
            unsafe { _mm512_storeu_ps(p, self.0) };
        }
        #[inline(always)]
        unsafe fn fused(self, y: Sixteen, z: Sixteen) -> Sixteen {
            // SAFETY: see above.
            Sixteen(unsafe { _mm512_fmadd_ps(self.0, y.0, z.0) })
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            // SAFETY: see above.
            unsafe { _mm512_reduce_add_ps(self.0) }
        }
    }
}

/// Prefetch the element at the same place in a later column or row, which the processor does not foresee. The address
/// may lie beyond the matrix.
#[inline(always)]
fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Rows of `f32`, the matrix, and the place of the results. Strides are in elements.
#[derive(Clone, Copy)]
pub(crate) struct Operands<T> {
    /// Number of rows.
    pub(crate) m: usize,
    /// Number of columns of the matrix.
    pub(crate) n: usize,
    /// Number of products in a sum.
    pub(crate) k: usize,
    /// The rows. For [`dots`], they are followed by zeros up to a multiple of [`PADDED`], and [arranged](arrange).
    pub(crate) x: *const f32,
    pub(crate) x_row: usize,
    /// The matrix. Strides of one are left out: [`dots`] reads columns, and [`sums`] reads rows.
    pub(crate) w: *const T,
    pub(crate) w_step: usize,
    pub(crate) y: *mut f32,
    pub(crate) y_row: usize,
}

/// Call a function for the vectors of this processor.
macro_rules! with_vector {
    ($(#[$meta:meta])* $name:ident = $body:ident) => {
        $(#[$meta])*
        pub(crate) unsafe fn $name<T: Narrow>(o: &Operands<T>) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
                unsafe fn v4<T: Narrow>(o: &Operands<T>) {
                    // SAFETY: the caller passes operands of the sizes.
                    unsafe { $body::<x86::Sixteen, T>(o) }
                }
                #[target_feature(enable = "avx2,fma,f16c")]
                unsafe fn v3<T: Narrow>(o: &Operands<T>) {
                    // SAFETY: the caller passes operands of the sizes.
                    unsafe { $body::<x86::Eight, T>(o) }
                }
                match level() {
                    Level::Portable => {}
                    // SAFETY: at this level the processor has AVX2.
                    Level::Avx2 => return unsafe { v3(o) },
                    // SAFETY: at this level the processor has AVX-512.
                    _ => return unsafe { v4(o) },
                }
            }
            // SAFETY: the caller passes operands of the sizes.
            unsafe { $body::<Plain, T>(o) }
        }
    };
}

with_vector! {
    /// Compute `y[i][j] = sum of x[i][p] * w[j][p]`.
    ///
    /// # Safety
    /// The operands have the sizes `m`, `n` and `k`, and the rows their zeros. `y` overlaps neither operand.
    dots = all_dots
}

with_vector! {
    /// Add to `y[i][j]` the sum of `x[i][p] * w[p][j]`.
    ///
    /// # Safety
    /// The operands have the sizes `m`, `n` and `k`. `y` overlaps neither operand.
    sums = all_sums
}

/// Call `$f::<V, T, ROWS, ..>` for the number of rows `$rows`, which is at most eight.
macro_rules! for_rows {
    ($rows:expr, $f:ident, $V:ident, $T:ident, $rest:expr, $args:tt) => {
        match $rows {
            1 => $f::<$V, $T, 1, { $rest }> $args,
            2 => $f::<$V, $T, 2, { $rest }> $args,
            3 => $f::<$V, $T, 3, { $rest }> $args,
            4 => $f::<$V, $T, 4, { $rest }> $args,
            _ if $V::ROWS <= 4 => unreachable!("rows are in groups of up to four"),
            5 => $f::<$V, $T, 5, { $rest }> $args,
            6 => $f::<$V, $T, 6, { $rest }> $args,
            7 => $f::<$V, $T, 7, { $rest }> $args,
            _ => $f::<$V, $T, 8, { $rest }> $args,
        }
    };
}

#[inline(always)]
unsafe fn all_dots<V: Vector, T: Narrow>(o: &Operands<T>) {
    // Rows in groups of about the same number.
    let group = o.m.div_ceil(o.m.div_ceil(V::ROWS).max(1)).max(1);
    for first in (0..o.k.max(1)).step_by(SUMMED) {
        let k = SUMMED.min(o.k - first);
        let mut j = 0;
        while j < o.n {
            let columns = match o.n - j {
                3.. if 3 * group <= V::SUMS => 3,
                2.. if 3 * group > V::SUMS => 2,
                _ => 1,
            };
            let mut i = 0;
            while i < o.m {
                let rows = group.min(o.m - i);
                // SAFETY: the rows and columns are within the sizes that the caller passes.
                unsafe {
                    let part = Operands {
                        k,
                        x: o.x.add(i * o.x_row + first),
                        w: o.w.add(j * o.w_step + first),
                        y: o.y.add(i * o.y_row + j),
                        ..*o
                    };
                    match columns {
                        1 => for_rows!(rows, some_dots, V, T, 1, (&part, first > 0)),
                        2 => for_rows!(rows, some_dots, V, T, 2, (&part, first > 0)),
                        _ => for_rows!(rows, some_dots, V, T, 3, (&part, first > 0)),
                    }
                }
                i += rows;
            }
            j += columns;
        }
    }
}

/// The dot products of `R` rows and `C` columns, which are added to the results if `add` is set.
#[inline(always)]
unsafe fn some_dots<V: Vector, T: Narrow, const R: usize, const C: usize>(o: &Operands<T>, add: bool) {
    // SAFETY: the caller passes operands of these sizes; beyond the last whole vector, the columns are copied.
    unsafe {
        let zero = V::splat(0.0);
        let mut acc = [[zero; C]; R];
        let whole = o.k / (2 * V::N) * (2 * V::N);
        let mut p = 0;
        while p < whole {
            for c in 0..C {
                prefetch(o.w.wrapping_add((C + c) * o.w_step + p));
            }
            for second in [false, true] {
                let mut y = [zero; C];
                for c in 0..C {
                    y[c] = T::half(o.w.add(c * o.w_step + p), second);
                }
                for r in 0..R {
                    let x = V::load(o.x.add(r * o.x_row + p + if second { V::N } else { 0 }));
                    for c in 0..C {
                        acc[r][c] = x.fused(y[c], acc[r][c]);
                    }
                }
            }
            p += 2 * V::N;
        }
        if p < o.k {
            for c in 0..C {
                let mut rest = [T::down(0.0); PADDED];
                std::ptr::copy_nonoverlapping(o.w.add(c * o.w_step + p), rest.as_mut_ptr(), o.k - p);
                for second in [false, true] {
                    let y = T::half::<V>(rest.as_ptr(), second);
                    for r in 0..R {
                        let x = V::load(o.x.add(r * o.x_row + p + if second { V::N } else { 0 }));
                        acc[r][c] = x.fused(y, acc[r][c]);
                    }
                }
            }
        }
        for r in 0..R {
            for c in 0..C {
                let at = o.y.add(r * o.y_row + c);
                let sum = acc[r][c].sum();
                *at = if add { *at + sum } else { sum };
            }
        }
    }
}

#[inline(always)]
unsafe fn all_sums<V: Vector, T: Narrow>(o: &Operands<T>) {
    let group = o.m.div_ceil(o.m.div_ceil(V::ROWS).max(1)).max(1);
    let mut p = 0;
    while p < o.k {
        // The rows' elements stay in registers.
        let steps = match o.k - p {
            1 => 1,
            4.. if group <= V::N / 4 => 4,
            _ => 2,
        };
        let mut i = 0;
        while i < o.m {
            let rows = group.min(o.m - i);
            // SAFETY: the rows are within the sizes that the caller passes.
            unsafe {
                let part =
                    Operands { x: o.x.add(i * o.x_row + p), w: o.w.add(p * o.w_step), y: o.y.add(i * o.y_row), ..*o };
                match steps {
                    1 => for_rows!(rows, some_sums, V, T, 1, (&part)),
                    2 => for_rows!(rows, some_sums, V, T, 2, (&part)),
                    _ => for_rows!(rows, some_sums, V, T, 4, (&part)),
                }
            }
            i += rows;
        }
        p += steps;
    }
}

/// Add the products of `R` rows and `Q` rows of the matrix to the results.
#[inline(always)]
unsafe fn some_sums<V: Vector, T: Narrow, const R: usize, const Q: usize>(o: &Operands<T>) {
    // SAFETY: the caller passes operands of these sizes.
    unsafe {
        let mut x = [[V::splat(0.0); Q]; R];
        for r in 0..R {
            for q in 0..Q {
                x[r][q] = V::splat(*o.x.add(r * o.x_row + q));
            }
        }
        let whole = o.n / V::N * V::N;
        let mut j = 0;
        while j < whole {
            let mut y = [V::splat(0.0); Q];
            for q in 0..Q {
                prefetch(o.w.wrapping_add((Q + q) * o.w_step + j));
                y[q] = T::load(o.w.add(q * o.w_step + j));
            }
            for r in 0..R {
                let at = o.y.add(r * o.y_row + j);
                let mut sum = V::load(at);
                for q in 0..Q {
                    sum = x[r][q].fused(y[q], sum);
                }
                sum.store(at);
            }
            j += V::N;
        }
        for j in whole..o.n {
            for r in 0..R {
                let at = o.y.add(r * o.y_row + j);
                for q in 0..Q {
                    *at += *o.x.add(r * o.x_row + q) * (*o.w.add(q * o.w_step + j)).up();
                }
            }
        }
    }
}

/// Whether [`product`] computes a product of these sizes. Columns or rows of the matrix must be contiguous.
pub(crate) fn is_skinny<T>(m: usize, n: usize, k: usize, b: Mat<T>) -> bool {
    (2..=MOST_ROWS).contains(&m) && n > 1 && k > 1 && (b.row() == 1 || b.col() == 1)
}

/// Compute `c = alpha * a @ b + beta * c` for `[m, k] @ [k, n]`. Does not read `c` if `beta` is zero.
///
/// # Safety
/// The matrices have the sizes, [`is_skinny`] holds, and `c` overlaps neither operand.
pub(crate) unsafe fn product<T: Narrow>(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: Mat<T>,
    b: Mat<T>,
    beta: f32,
    c: MatMut<f32>,
    parallel: bool,
) {
    let row = k.next_multiple_of(PADDED);
    let mut x = Scratch::<f32>::filled(m * row, 0.0);
    for i in 0..m {
        for p in 0..k {
            // SAFETY: `(i, p)` is a position within `a`.
            x[i * row + p] = unsafe { *a.element(i, p) }.up();
        }
        if b.row() == 1 {
            arrange::<T>(&mut x[i * row..][..row]);
        }
    }
    let x = Shared::new(&mut x);
    let grain = if parallel { (1usize << 16).div_ceil(k).next_multiple_of(96) } else { n };
    parallel_for(n, grain, |range| {
        let most = m * WIDTH.min(range.len());
        let mut part = Scratch::<f32>::any(most);
        let mut total = Scratch::<f32>::any(if b.row() == 1 || k <= SUMMED_ROWS { 0 } else { most });
        for start in range.clone().step_by(WIDTH) {
            let width = WIDTH.min(range.end - start);
            let o = Operands {
                m,
                n: width,
                k,
                x: x.ptr().cast_const(),
                x_row: row,
                w: std::ptr::null::<T>(),
                w_step: 0,
                y: part.as_mut_ptr(),
                y_row: width,
            };
            // SAFETY: the columns are within the matrices, and only this range writes them in `c`.
            unsafe {
                if b.row() == 1 {
                    dots(&Operands { w: b.element(0, start), w_step: b.col(), ..o });
                } else {
                    for first in (0..k).step_by(SUMMED_ROWS) {
                        part[..m * width].fill(0.0);
                        let (k, x) = (SUMMED_ROWS.min(k - first), o.x.add(first));
                        sums(&Operands { k, x, w: b.element(first, start), w_step: b.row(), ..o });
                        if first == 0 {
                            total.iter_mut().zip(&*part).for_each(|(t, p)| *t = *p);
                        } else {
                            total.iter_mut().zip(&*part).for_each(|(t, p)| *t += *p);
                        }
                    }
                }
                let sums: &[f32] = if total.is_empty() { &part } else { &total };
                for i in 0..m {
                    for j in 0..width {
                        let (at, sum) = (c.element(i, start + j), alpha * sums[i * width + j]);
                        *at = if beta == 0.0 { sum } else { sum + beta * *at };
                    }
                }
            }
        }
    });
}
