//! Copies between any two layouts and element types, and constant fills.

use crate::convert::{Cast, Number, cast};
use crate::loops::{Loop, Operand, Params, RawMut, run};
use crate::map::loop1;
use crate::threads::{CHEAP_GRAIN, parallel_for};
use crate::{DType, View, ViewMut, for_dtype};

/// A Python number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// `True` or `False`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Scalar {
    /// Convert to a float.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(v) => v as u8 as f64,
            Scalar::Int(v) => v as f64,
            Scalar::Float(v) => v,
        }
    }
    /// Return the bytes of this number as an element of a real dtype, in the first [`DType::size_bytes`] of the array.
    fn to_bytes(self, dtype: DType) -> [u8; 8] {
        fn element<T: Number>(v: Scalar) -> T {
            match v {
                Scalar::Bool(v) => cast(v),
                Scalar::Int(v) => cast(v),
                Scalar::Float(v) => cast(v),
            }
        }
        if dtype.is_stored() {
            return crate::stored::bits(self, dtype).to_le_bytes();
        }
        let mut bytes = [0; 8];
        for_dtype!(dtype, T => {
            // SAFETY: an element has at most eight bytes, and the write need not be aligned.
            unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(element::<T>(self)) }
        });
        bytes
    }
}

/// Set every element of `out` to `value`.
pub fn fill(out: &mut ViewMut, value: Scalar) {
    if out.dtype().is_complex() {
        let strides = crate::complex::doubled(out.strides());
        fill(&mut out.part(0, &strides), value);
        return fill(&mut out.part(1, &strides), Scalar::Int(0));
    }
    #[repr(align(8))]
    struct Aligned([u8; 8]);
    let bytes = Aligned(value.to_bytes(out.dtype()));
    let zeros = [0usize; 16];
    let many;
    let strides = if out.sizes().len() <= 16 {
        &zeros[..out.sizes().len()]
    } else {
        many = vec![0; out.sizes().len()];
        &many[..]
    };
    // SAFETY: all strides are zero, so the view reads only the one element in `bytes`.
    let x = unsafe { View::new(bytes.0.as_ptr(), out.sizes(), strides, out.dtype()) };
    copy_same(&x, out);
}

macro_rules! bit_copies {
    ($($name:ident $t:ty;)*) => {$(
        unsafe fn $name(_: &Params, out: *mut u8, x: &[*const u8; 1], n: usize) {
            // SAFETY: a `Loop` is called with operands of `n` contiguous elements that do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(x[0].cast::<$t>(), out.cast::<$t>(), n) };
        }
    )*};
}
bit_copies! { copy_1 u8; copy_2 u16; copy_4 u32; copy_8 u64; copy_16 [u64; 2]; }

fn copy_same(x: &View, out: &mut ViewMut) {
    if copy_transposed(x, out) {
        return;
    }
    let f: Loop<1> = match out.dtype().size_bytes() {
        // A copy has zeros and ones, as in PyTorch, also of other bytes.
        1 if out.dtype() == DType::Bool => cast_loop(DType::Bool, DType::Bool),
        1 => copy_1,
        2 => copy_2,
        4 => copy_4,
        8 => copy_8,
        16 => copy_16,
        _ => crate::refuse_dtype(out.dtype()),
    };
    // SAFETY: views cover their memory; sizes and dtypes agree.
    unsafe { run(f, &[0.0; 4], out.sizes(), Operand::raw_output(out), [Operand::raw_input(x)]) };
}

/// Return the loop that converts between two element types.
fn cast_loop(from: DType, to: DType) -> Loop<1> {
    for_dtype!(from, A => for_dtype!(to, R => loop1::<A, R, Cast>()))
}

/// Write the elements of `x` to `out`, converting the dtype. Floats become integers by truncation, anything but zero is
/// true, and complex numbers lose their imaginary part to real ones. Sizes are equal. `out` must not partly overlap
/// `x`.
pub fn copy(x: &View, out: &mut ViewMut) {
    debug_assert_eq!(x.sizes(), out.sizes());
    if x.dtype() == out.dtype() {
        return copy_same(x, out);
    }
    if x.dtype().is_stored() || out.dtype().is_stored() {
        return crate::stored::convert(x, out);
    }
    if x.dtype().is_complex() || out.dtype().is_complex() {
        return crate::complex::convert(x, out);
    }
    let f = cast_loop(x.dtype(), out.dtype());
    // SAFETY: views cover their memory; sizes agree, and the loop is made for the two dtypes.
    unsafe { run(f, &[0.0; 4], out.sizes(), Operand::raw_output(out), [Operand::raw_input(x)]) };
}

/// Side of the squares that a transposition moves. Two squares fit the first-level cache at any element size.
const BLOCK: usize = 32;

/// Copy square by square if the innermost dimensions of `x` and `out` differ, so that both are accessed along cache
/// lines. Return whether it copied.
fn copy_transposed(x: &View, out: &mut ViewMut) -> bool {
    let n = out.numel();
    if n < 4 * BLOCK * BLOCK || x.ptr() == out.ptr().cast_const() {
        return false;
    }
    let size = out.dtype().size_bytes();
    let mut dims: Vec<crate::loops::Dim<2>> = out
        .sizes()
        .iter()
        .zip(x.strides().iter().zip(out.strides()))
        .map(|(&n, (&a, &b))| crate::loops::Dim { size: n, steps: [a * size, b * size] })
        .collect();
    crate::loops::simplify(&mut dims);
    if dims.len() < 2 || dims[0].steps[1] != size || dims[0].steps[0] == size || dims[0].steps[0] == 0 {
        return false;
    }
    let Some(across) = dims.iter().position(|d| d.steps[0] == size) else { return false };
    if dims[0].size < BLOCK || dims[across].size < BLOCK / 2 {
        return false;
    }
    let (rows, cols) = (dims[across], dims[0]);
    let rest: Vec<_> = dims.iter().enumerate().filter(|(i, _)| *i != 0 && *i != across).map(|(_, d)| *d).collect();
    let outer: usize = rest.iter().map(|d| d.size).product();
    let strips = rows.size.div_ceil(BLOCK);
    let (from, to) = (RawMut(x.ptr().cast_mut()), RawMut(out.ptr()));
    let is_bool = out.dtype() == DType::Bool;
    let grain = (CHEAP_GRAIN / (BLOCK * cols.size)).max(1);
    parallel_for(outer * strips, grain, |range| {
        for item in range {
            let (mut flat, strip) = (item / strips, item % strips);
            let mut offset = [0, 0];
            for d in &rest {
                let i = flat % d.size;
                flat /= d.size;
                offset[0] += i * d.steps[0];
                offset[1] += i * d.steps[1];
            }
            let first = strip * BLOCK;
            let height = BLOCK.min(rows.size - first);
            for left in (0..cols.size).step_by(BLOCK) {
                let width = BLOCK.min(cols.size - left);
                // SAFETY: the square lies within both views, and one thread writes the strip.
                unsafe {
                    let from = from.at(offset[0] + first * size + left * cols.steps[0]);
                    let to = to.at(offset[1] + first * rows.steps[1] + left * size);
                    match size {
                        1 if is_bool => {
                            square(from, cols.steps[0], to, rows.steps[1], height, width, |v: u8| (v != 0) as u8)
                        }
                        1 => square(from, cols.steps[0], to, rows.steps[1], height, width, |v: u8| v),
                        2 => square(from, cols.steps[0], to, rows.steps[1], height, width, |v: u16| v),
                        4 => square(from, cols.steps[0], to, rows.steps[1], height, width, |v: u32| v),
                        8 => square(from, cols.steps[0], to, rows.steps[1], height, width, |v: u64| v),
                        16 => square(from, cols.steps[0], to, rows.steps[1], height, width, |v: [u64; 2]| v),
                        _ => crate::refuse_dtype(out.dtype()),
                    }
                }
            }
        }
    });
    true
}

/// Move a square through a buffer, so that each cache line of the strided side is touched once. `written` is applied to
/// each element.
///
/// # Safety
/// Both sides have `height` x `width` elements at the given steps, in bytes.
#[inline(always)]
unsafe fn square<T: Copy + Default>(
    from: *const u8,
    from_step: usize,
    to: *mut u8,
    to_step: usize,
    height: usize,
    width: usize,
    written: impl Fn(T) -> T,
) {
    let mut buffer = [[T::default(); BLOCK]; BLOCK];
    // SAFETY: the caller passes squares of `height` x `width` elements on both sides.
    unsafe {
        if height == BLOCK && width == BLOCK {
            // With constant bounds, the compiler turns this loop into loads of whole lines and shuffles.
            let mut lines = [[T::default(); BLOCK]; BLOCK];
            for c in 0..BLOCK {
                lines[c] = from.add(c * from_step).cast::<[T; BLOCK]>().read_unaligned();
            }
            for r in 0..BLOCK {
                for c in 0..BLOCK {
                    buffer[r][c] = written(lines[c][r]);
                }
                to.add(r * to_step).cast::<[T; BLOCK]>().write_unaligned(buffer[r]);
            }
            return;
        }
        for c in 0..width {
            let line = from.add(c * from_step).cast::<T>();
            for r in 0..height {
                buffer[r][c] = written(*line.add(r));
            }
        }
        for r in 0..height {
            std::ptr::copy_nonoverlapping(buffer[r].as_ptr(), to.add(r * to_step).cast::<T>(), width);
        }
    }
}
