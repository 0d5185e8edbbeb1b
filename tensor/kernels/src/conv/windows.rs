//! The windows of a convolution as an operand of a matrix product, packed without writing them out first.
//!
//! A lookup finds the element that a kernel position reads for an output position, for 16 output positions at a time.
//! If these elements are consecutive, as always in a convolution with unit strides, one masked load reads 16 of them,
//! and the mask leaves out the padding. Otherwise they are gathered.

use super::NOTHING;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{Level, level};
use crate::gemm::{Lines, Part};
use crate::memory;
use crate::real::{Float, Real};
#[cfg(target_arch = "x86_64")]
use std::any::TypeId;

/// Number of output positions that are looked up together.
const GROUP: usize = 16;

/// Largest number of elements in an image for which 16 positions of different images are near enough for a gather.
pub(super) const MERGEABLE: usize = i32::MAX as usize / GROUP;

/// The reads of a kernel position for 16 output positions.
#[derive(Clone, Copy)]
struct Group {
    /// Bit `i` is set if position `i` reads an element.
    mask: u16,
    /// Whether position `i` reads `base + i`. Otherwise it reads `base` plus the offsets in the gathers.
    linear: bool,
    base: isize,
    gather: u32,
}

/// Parameters of [`Windows::new`]: sizes along three dimensions, and tables.
pub(super) struct Reads<'a> {
    /// Sizes of the plane that is read.
    pub(super) source: [usize; 3],
    /// Sizes of the plane of positions.
    pub(super) positions: [usize; 3],
    /// For each dimension, the coordinate that is read at `[kernel position][position]`, or [`NOTHING`].
    pub(super) tables: [&'a [u32]; 3],
    /// The kernel positions, in order.
    pub(super) kernel: &'a [[usize; 3]],
}

/// Windows over the planes of a batch. There is one line for each output position of each image. Its elements are
/// ordered by channel, then by kernel position.
pub(super) struct Windows<A> {
    x: *const A,
    /// Distance between channels, in elements.
    channel: usize,
    kernel: usize,
    /// For each kernel position, the groups of one period: an image, or the whole batch if images do not end with a
    /// group.
    groups: Vec<Group>,
    gathers: Vec<[i32; GROUP]>,
    period: usize,
    /// Distance between periods, in elements.
    step: usize,
}

// SAFETY: the memory is only read, and it outlives the product.
unsafe impl<A: Sync> Sync for Windows<A> {}

impl<A: Real> Windows<A> {
    /// Make the windows of `images` images that are `image` elements apart. Their channels are whole planes, starting
    /// at `x`. Several images are allowed only if an image has at most [`MERGEABLE`] elements.
    pub(super) fn new(x: &[A], reads: &Reads, images: usize, image: usize) -> Windows<A> {
        let Reads { source, positions, tables, kernel } = reads;
        let count: usize = positions.iter().product();
        let whole = images == 1 || count.is_multiple_of(GROUP);
        let total = if whole { count } else { count * images };
        let period = total.div_ceil(GROUP);
        let mut groups = memory::with_capacity(period * kernel.len());
        let mut gathers = Vec::new();
        let mut offsets = memory::filled(-1isize, period * GROUP);
        for k in *kernel {
            let row = |d: usize| &tables[d][k[d] * positions[d]..][..positions[d]];
            let (zs, ys, xs) = (row(0), row(1), row(2));
            let mut at = 0;
            for z in zs {
                for y in ys {
                    let line = &mut offsets[at..at + xs.len()];
                    at += xs.len();
                    if *z == NOTHING || *y == NOTHING {
                        line.fill(-1);
                        continue;
                    }
                    let start = (*z as usize * source[1] + *y as usize) * source[2];
                    for (o, x) in line.iter_mut().zip(xs) {
                        *o = if *x == NOTHING { -1 } else { (start + *x as usize) as isize };
                    }
                }
            }
            if !whole {
                for i in count..total {
                    let first = offsets[i % count];
                    offsets[i] = if first < 0 { -1 } else { first + (i / count * image) as isize };
                }
            }
            for lanes in offsets.chunks_exact(GROUP) {
                let next = group(lanes, &mut gathers);
                memory::push(&mut groups, next);
            }
        }
        let step = if whole { image } else { 0 };
        Windows { x: x.as_ptr(), channel: source.iter().product(), kernel: kernel.len(), groups, gathers, period, step }
    }

    /// Return the windows with one line per element.
    pub(super) fn transposed(&self) -> Transposed<'_, A> {
        Transposed(self)
    }

    /// Return the group of the positions `16 * i..` for an element of the windows, and the address of its base.
    #[inline(always)]
    fn group(&self, element: usize, i: usize) -> (&Group, *const A) {
        let (channel, k) = (element / self.kernel, element % self.kernel);
        let g = &self.groups[k * self.period + i % self.period];
        (g, self.x.wrapping_add(i / self.period * self.step + channel * self.channel).wrapping_offset(g.base))
    }

    /// Return one element of the windows at one position.
    #[inline(always)]
    unsafe fn get(&self, element: usize, position: usize) -> A {
        let (g, base) = self.group(element, position / GROUP);
        let lane = position % GROUP;
        if g.mask >> lane & 1 == 0 {
            return A::ZERO;
        }
        let offset = if g.linear { lane as isize } else { self.gathers[g.gather as usize][lane] as isize };
        // SAFETY: the mask has the bit of this element, so it exists.
        unsafe { *base.wrapping_offset(offset) }
    }
}

/// Describe 16 reads. Negative lanes read nothing.
fn group(lanes: &[isize], gathers: &mut Vec<[i32; GROUP]>) -> Group {
    let mut mask = 0u16;
    for (i, &at) in lanes.iter().enumerate() {
        mask |= ((at >= 0) as u16) << i;
    }
    let Some(first) = lanes.iter().position(|&at| at >= 0) else {
        return Group { mask, linear: true, base: 0, gather: 0 };
    };
    let base = lanes[first] - first as isize;
    if lanes.iter().enumerate().all(|(i, &at)| at < 0 || at == base + i as isize) {
        return Group { mask, linear: true, base, gather: 0 };
    }
    let base = lanes[first];
    gathers.push(std::array::from_fn(|i| if lanes[i] < 0 { 0 } else { (lanes[i] - base) as i32 }));
    Group { mask, linear: false, base, gather: gathers.len() as u32 - 1 }
}

impl<A: Real> Lines<A> for Windows<A> {
    unsafe fn pack(&self, part: &Part, out: &mut [A]) {
        #[cfg(target_arch = "x86_64")]
        if TypeId::of::<A>() == TypeId::of::<f32>() && level() >= Level::Avx512 {
            // SAFETY: the caller passes a part within the operand; the processor has the level, and `A` is `f32`.
            return unsafe { x86::pack(&*(self as *const Self).cast(), part, out.as_mut_ptr().cast()) };
        }
        for (d, out) in part.k.clone().zip(out.chunks_exact_mut(part.lanes)) {
            for (i, out) in out.iter_mut().enumerate() {
                // SAFETY: the caller passes a part within the operand.
                *out = if i < part.valid { unsafe { self.get(d, part.first + i) } } else { A::ZERO };
            }
        }
    }
}

/// [`Windows`] with one line per element, along the output positions.
pub(super) struct Transposed<'a, A>(&'a Windows<A>);

impl<A: Real> Lines<A> for Transposed<'_, A> {
    unsafe fn pack(&self, part: &Part, out: &mut [A]) {
        #[cfg(target_arch = "x86_64")]
        if TypeId::of::<A>() == TypeId::of::<f32>() && level() >= Level::Avx512 && part.k.start.is_multiple_of(GROUP) {
            // SAFETY: the caller passes a part within the operand; the processor has the level, and `A` is `f32`.
            return unsafe {
                x86::pack_transposed(&*(self.0 as *const Windows<A>).cast(), part, out.as_mut_ptr().cast())
            };
        }
        for (p, out) in part.k.clone().zip(out.chunks_exact_mut(part.lanes)) {
            for (i, out) in out.iter_mut().enumerate() {
                // SAFETY: the caller passes a part within the operand.
                *out = if i < part.valid { unsafe { self.0.get(part.first + i, p) } } else { A::ZERO };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{GROUP, Group, Windows};
    use crate::gemm::Part;
    use crate::gemm::x86_lanes::{mask, put, transpose};
    use std::arch::x86_64::*;

    /// Load 16 reads.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(g: &Group, base: *const f32, gathers: &[[i32; GROUP]]) -> __m512 {
        // SAFETY: the mask has only bits of elements that exist, and nothing else is read.
        unsafe {
            if g.linear {
                return _mm512_maskz_loadu_ps(g.mask, base);
            }
            let at = _mm512_loadu_si512(gathers.get_unchecked(g.gather as usize).as_ptr().cast());
            _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), g.mask, at, base.cast())
        }
    }

    /// # Safety
    /// The same as for [`crate::gemm::Lines::pack`]. The part starts with a group.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn pack(w: &Windows<f32>, part: &Part, out: *mut f32) {
        for lane in (0..part.lanes).step_by(GROUP) {
            let store = mask(part.lanes - lane);
            let valid = mask(part.valid.saturating_sub(lane));
            let i = (part.first + lane) / GROUP;
            let groups = i % w.period;
            let image = w.x.wrapping_add(i / w.period * w.step);
            let (mut channel, mut k) = (part.k.start / w.kernel, part.k.start % w.kernel);
            for step in 0..part.k.len() {
                // SAFETY: the caller passes a part within the operand, and room for it.
                unsafe {
                    let v = if valid == 0 {
                        _mm512_setzero_ps()
                    } else {
                        let g = w.groups.get_unchecked(k * w.period + groups);
                        load(g, image.wrapping_add(channel * w.channel).wrapping_offset(g.base), &w.gathers)
                    };
                    _mm512_mask_storeu_ps(out.add(step * part.lanes + lane), store, v);
                }
                k += 1;
                if k == w.kernel {
                    (channel, k) = (channel + 1, 0);
                }
            }
        }
    }

    /// # Safety
    /// The same as for [`pack`]. The block of positions starts with a group.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn pack_transposed(w: &Windows<f32>, part: &Part, out: *mut f32) {
        for lane in (0..part.lanes).step_by(GROUP) {
            let store = mask(part.lanes - lane);
            let lines = part.valid.saturating_sub(lane).min(GROUP);
            for p in (0..part.k.len()).step_by(GROUP) {
                let mut rows = [_mm512_setzero_ps(); GROUP];
                for i in 0..lines {
                    let (g, base) = w.group(part.first + lane + i, (part.k.start + p) / GROUP);
                    // SAFETY: the caller passes a part within the operand.
                    rows[i] = unsafe { load(g, base, &w.gathers) };
                }
                let count = GROUP.min(part.k.len() - p);
                // SAFETY: the caller passes room for the part.
                unsafe { put(transpose(rows), out.add(p * part.lanes + lane), part.lanes, count, store) };
            }
        }
    }
}

/// Lines whose elements lie in segments `step` elements apart: all elements of one segment, then those of the next.
pub(super) struct Segments<'a, A> {
    x: *const A,
    line: usize,
    elements: Elements<'a>,
    step: usize,
}

/// The elements of a segment.
pub(super) enum Elements<'a> {
    /// Consecutive elements, by number.
    Run(usize),
    /// Elements at the given offsets.
    At(&'a [usize]),
}

// SAFETY: the memory is only read, and it outlives the product.
unsafe impl<A: Sync> Sync for Segments<'_, A> {}

impl<'a, A> Segments<'a, A> {
    /// Return lines that are `line` elements apart.
    pub(super) fn new(x: &'a [A], line: usize, elements: Elements<'a>, step: usize) -> Segments<'a, A> {
        Segments { x: x.as_ptr(), line, elements, step }
    }
}

impl<A: Real + Float<Acc = A>> Lines<A> for Segments<'_, A> {
    unsafe fn pack(&self, part: &Part, out: &mut [A]) {
        let x = self.x.wrapping_add(part.first * self.line);
        let length = match self.elements {
            Elements::Run(length) => length,
            Elements::At(offsets) => {
                for (k, out) in part.k.clone().zip(out.chunks_exact_mut(part.lanes)) {
                    let x = x.wrapping_add(k / offsets.len() * self.step + offsets[k % offsets.len()]);
                    // SAFETY: the caller passes a part within the operand.
                    unsafe { copy_strided(x, self.line, part.valid, out) };
                }
                return;
            }
        };
        let mut at = part.k.start;
        while at < part.k.end {
            let (segment, offset) = (at / length, at % length);
            let count = (length - offset).min(part.k.end - at);
            // SAFETY: the caller passes a part within the operand, and room for it.
            unsafe {
                let x = x.add(segment * self.step + offset);
                let out = out[(at - part.k.start) * part.lanes..].as_mut_ptr();
                crate::gemm::pack::<A>(x, self.line, 1, part.valid, count, part.lanes, out);
            }
            at += count;
        }
    }
}

/// Copy `valid` elements that are `line` elements apart, then write zeros.
///
/// # Safety
/// The elements exist.
#[inline(always)]
unsafe fn copy_strided<A: Real>(x: *const A, line: usize, valid: usize, out: &mut [A]) {
    let (some, rest) = out.split_at_mut(valid);
    for (i, out) in some.iter_mut().enumerate() {
        // SAFETY: the caller passes elements that exist.
        *out = unsafe { *x.add(i * line) };
    }
    rest.fill(A::ZERO);
}
