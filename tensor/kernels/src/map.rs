//! Element-wise functions as loops over contiguous elements, compiled for each instruction set.

use crate::loops::{BASELINE_FMA, Loop, Params, TILE, multiversion};

/// An element-wise function of one operand.
pub(crate) trait Map1<A: Copy, R: Copy> {
    /// Whether a version for wider vectors is faster.
    const VECTOR: bool = true;
    fn at<const FMA: bool>(p: &Params, a: A) -> R;
}
/// An element-wise function of two operands.
pub(crate) trait Map2<A: Copy, R: Copy> {
    const VECTOR: bool = true;
    fn at<const FMA: bool>(p: &Params, a: A, b: A) -> R;
}
/// An element-wise function of three operands.
pub(crate) trait Map3<A: Copy, R: Copy> {
    fn at<const FMA: bool>(p: &Params, a: A, b: A, c: A) -> R;
}

#[inline(always)]
unsafe fn map1_body<A: Copy, R: Copy, O: Map1<A, R>, const FMA: bool>(
    p: &Params,
    out: *mut u8,
    x: &[*const u8; 1],
    n: usize,
) {
    let (out, a, p) = (out.cast::<R>(), x[0].cast::<A>(), *p);
    for i in 0..n {
        // SAFETY: a `Loop` is called with operands of `n` contiguous elements.
        unsafe { *out.add(i) = O::at::<FMA>(&p, *a.add(i)) };
    }
}
#[inline(always)]
unsafe fn map2_body<A: Copy, R: Copy, O: Map2<A, R>, const FMA: bool>(
    p: &Params,
    out: *mut u8,
    x: &[*const u8; 2],
    n: usize,
) {
    let (out, a, b, p) = (out.cast::<R>(), x[0].cast::<A>(), x[1].cast::<A>(), *p);
    for i in 0..n {
        // SAFETY: a `Loop` is called with operands of `n` contiguous elements.
        unsafe { *out.add(i) = O::at::<FMA>(&p, *a.add(i), *b.add(i)) };
    }
}
#[inline(always)]
unsafe fn map3_body<A: Copy, R: Copy, O: Map3<A, R>, const FMA: bool>(
    p: &Params,
    out: *mut u8,
    x: &[*const u8; 3],
    n: usize,
) {
    let (out, a, b, c, p) = (out.cast::<R>(), x[0].cast::<A>(), x[1].cast::<A>(), x[2].cast::<A>(), *p);
    for i in 0..n {
        // SAFETY: a `Loop` is called with operands of `n` contiguous elements.
        unsafe { *out.add(i) = O::at::<FMA>(&p, *a.add(i), *b.add(i), *c.add(i)) };
    }
}

multiversion! {
    unsafe fn map1_wide<A: Copy, R: Copy, O: Map1<A, R>>(p: &Params, out: *mut u8, x: &[*const u8; 1], n: usize) =
        map1_body
}
multiversion! {
    unsafe fn map2_wide<A: Copy, R: Copy, O: Map2<A, R>>(p: &Params, out: *mut u8, x: &[*const u8; 2], n: usize) =
        map2_body
}
multiversion! {
    unsafe fn map3_wide<A: Copy, R: Copy, O: Map3<A, R>>(p: &Params, out: *mut u8, x: &[*const u8; 3], n: usize) =
        map3_body
}

/// Return the loop of an element-wise function.
pub(crate) const fn loop1<A: Copy, R: Copy, O: Map1<A, R>>() -> Loop<1> {
    if O::VECTOR { map1_wide::<A, R, O> } else { map1_body::<A, R, O, BASELINE_FMA> }
}
/// Like [`loop1`], for two operands.
pub(crate) const fn loop2<A: Copy, R: Copy, O: Map2<A, R>>() -> Loop<2> {
    if O::VECTOR { map2_wide::<A, R, O> } else { map2_body::<A, R, O, BASELINE_FMA> }
}
/// Like [`loop1`], for three operands.
pub(crate) const fn loop3<A: Copy, R: Copy, O: Map3<A, R>>() -> Loop<3> {
    map3_wide::<A, R, O>
}

/// An element-wise function of `f32` whose vector form `at` is right for most operands. `hard` tells the others, which
/// `exact` computes.
pub(crate) trait Mostly1: Map1<f32, f32> {
    fn hard(a: f32) -> bool;
    fn exact(a: f32) -> f32;
}
/// Like [`Mostly1`], for two operands.
pub(crate) trait Mostly2: Map2<f32, f32> {
    fn hard(a: f32, b: f32) -> bool;
    fn exact(a: f32, b: f32) -> f32;
}

#[inline(always)]
unsafe fn any_hard1<O: Mostly1, const FMA: bool>(a: *const f32, n: usize) -> bool {
    // SAFETY: the caller passes `n` readable elements.
    (0..n).fold(false, |hard, i| hard | O::hard(unsafe { *a.add(i) }))
}
#[inline(always)]
unsafe fn any_hard2<O: Mostly2, const FMA: bool>(a: *const f32, b: *const f32, n: usize) -> bool {
    // SAFETY: the caller passes `n` readable elements of each operand.
    (0..n).fold(false, |hard, i| hard | unsafe { O::hard(*a.add(i), *b.add(i)) })
}
multiversion! { unsafe fn any_hard1_wide<O: Mostly1>(a: *const f32, n: usize) -> bool = any_hard1 }
multiversion! { unsafe fn any_hard2_wide<O: Mostly2>(a: *const f32, b: *const f32, n: usize) -> bool = any_hard2 }

/// The loop of a [`Mostly1`]: compute vectors first, then the hard operands one by one.
pub(crate) unsafe fn mostly1<O: Mostly1>(p: &Params, out: *mut u8, x: &[*const u8; 1], n: usize) {
    let (out, a) = (out.cast::<f32>(), x[0].cast::<f32>());
    for at in (0..n).step_by(TILE) {
        // SAFETY: a `Loop` is called with operands of `n` contiguous elements.
        unsafe {
            let (out, a, n) = (out.add(at), a.add(at), TILE.min(n - at));
            loop1::<f32, f32, O>()(p, out.cast(), &[a.cast()], n);
            if any_hard1_wide::<O>(a, n) {
                for i in (0..n).filter(|&i| O::hard(*a.add(i))) {
                    *out.add(i) = O::exact(*a.add(i));
                }
            }
        }
    }
}
/// Like [`mostly1`], for two operands.
pub(crate) unsafe fn mostly2<O: Mostly2>(p: &Params, out: *mut u8, x: &[*const u8; 2], n: usize) {
    let (out, a, b) = (out.cast::<f32>(), x[0].cast::<f32>(), x[1].cast::<f32>());
    for at in (0..n).step_by(TILE) {
        // SAFETY: a `Loop` is called with operands of `n` contiguous elements.
        unsafe {
            let (out, a, b, n) = (out.add(at), a.add(at), b.add(at), TILE.min(n - at));
            loop2::<f32, f32, O>()(p, out.cast(), &[a.cast(), b.cast()], n);
            if any_hard2_wide::<O>(a, b, n) {
                for i in (0..n).filter(|&i| O::hard(*a.add(i), *b.add(i))) {
                    *out.add(i) = O::exact(*a.add(i), *b.add(i));
                }
            }
        }
    }
}
