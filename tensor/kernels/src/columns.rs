//! Sliding blocks of images as columns, and the sums that go back.

use crate::par::Shared;
use crate::real::{Real, for_acc, input, output};
use crate::threads::parallel_for;
use crate::{View, ViewMut};

/// Where the blocks of an image lie; entry 0 is about its height, 1 about its width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Blocks {
    /// Sizes of the image.
    pub image: [usize; 2],
    /// Sizes of a block.
    pub kernel: [usize; 2],
    /// Steps from block to block.
    pub stride: [usize; 2],
    /// Zeros around the image.
    pub pad: [usize; 2],
    /// Steps within a block.
    pub dilation: [usize; 2],
    /// Number of blocks along each dimension.
    pub count: [usize; 2],
}

impl Blocks {
    /// How far the blocks reach along a dimension, padding before the image included.
    pub fn reach(&self, d: usize) -> usize {
        (self.count[d] - 1) * self.stride[d] + (self.kernel[d] - 1) * self.dilation[d] + 1
    }
}

/// Elements of work below which another thread is not worth waking.
const GRAIN: usize = 1 << 14;

/// Calls `f(column, pixel, length)` for runs of block positions whose pixels lie `stride` apart within the image.
#[inline(always)]
fn runs(b: &Blocks, ky: usize, kx: usize, mut f: impl FnMut(usize, usize, usize)) {
    let [h, w] = b.image;
    let shift = (kx * b.dilation[1]) as i64 - b.pad[1] as i64;
    // The first and last blocks whose pixel is in the row.
    let first = ((-shift).max(0) as usize).div_ceil(b.stride[1]);
    let last = (w as i64 - shift).max(0) as usize;
    let last = last.div_ceil(b.stride[1]).min(b.count[1]);
    if first >= last {
        return;
    }
    for oy in 0..b.count[0] {
        let y = (oy * b.stride[0] + ky * b.dilation[0]) as i64 - b.pad[0] as i64;
        if y >= 0 && y < h as i64 {
            let x = ((first * b.stride[1]) as i64 + shift) as usize;
            f(oy * b.count[1] + first, y as usize * w + x, last - first);
        }
    }
}

/// Fills `out`, in pieces of `size` elements that start as zeros: `fill(i, x, piece)` adds what stands in piece `i`, from
/// `work` elements.
fn pieces<A: Real>(x: &View, out: &mut ViewMut, size: usize, work: usize, fill: impl Fn(usize, &[A], &mut [A]) + Sync) {
    let x = input::<A>(x);
    output::<A, _>(out, |out| {
        if out.is_empty() {
            return;
        }
        let count = out.len() / size;
        let to = Shared::new(out);
        parallel_for(count, GRAIN.div_ceil(work.max(1)), |range| {
            for i in range {
                // SAFETY: pieces are disjoint.
                let piece = unsafe { to.slice(i * size, size) };
                piece.fill(A::ZERO);
                fill(i, &x, piece);
            }
        });
    });
}

/// `[n, c, h, w]` to `[n, c * kh * kw, blocks]`; zeros where a block reaches beyond the image.
pub fn im2col(x: &View, b: &Blocks, out: &mut ViewMut) {
    let (plane, blocks) = (b.image[0] * b.image[1], b.count[0] * b.count[1]);
    let each = b.kernel[0] * b.kernel[1];
    for_acc!(x.dtype(), A => pieces::<A>(x, out, blocks, blocks, |row, x, out| {
        let x = &x[row / each * plane..][..plane];
        let k = row % each;
        runs(b, k / b.kernel[1], k % b.kernel[1], |at, pixel, n| {
            for (o, x) in out[at..at + n].iter_mut().zip(x[pixel..].iter().step_by(b.stride[1])) {
                *o = *x;
            }
        });
    }));
}

/// `[n, c * kh * kw, blocks]` to `[n, c, h, w]`: every pixel is the sum of the places where blocks hold it.
pub fn col2im(x: &View, b: &Blocks, out: &mut ViewMut) {
    let (plane, blocks) = (b.image[0] * b.image[1], b.count[0] * b.count[1]);
    let each = b.kernel[0] * b.kernel[1];
    for_acc!(x.dtype(), A => pieces::<A>(x, out, plane, blocks * each, |p, x, out| {
        for k in 0..each {
            let x = &x[(p * each + k) * blocks..][..blocks];
            runs(b, k / b.kernel[1], k % b.kernel[1], |at, pixel, n| {
                for (o, x) in out[pixel..].iter_mut().step_by(b.stride[1]).zip(&x[at..at + n]) {
                    *o += *x;
                }
            });
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_beyond_the_edge_hold_zeros_and_sums_count_them_never() {
        let b = Blocks { image: [2, 3], kernel: [2, 2], stride: [1, 2], pad: [1, 1], dilation: [1, 1], count: [3, 2] };
        let x = [1f32, 2., 3., 4., 5., 6.];
        let mut columns = [0f32; 24];
        im2col(
            &View::of_slice(&x, &[1, 1, 2, 3], &[6, 6, 3, 1]),
            &b,
            &mut ViewMut::of_slice(&mut columns, &[1, 4, 6], &[24, 6, 1]),
        );
        assert_eq!(columns[..6], [0., 0., 0., 2., 0., 5.]);
        assert_eq!(columns[18..], [1., 3., 4., 6., 0., 0.]);
        let mut back = [0f32; 6];
        col2im(
            &View::of_slice(&columns, &[1, 4, 6], &[24, 6, 1]),
            &b,
            &mut ViewMut::of_slice(&mut back, &[1, 1, 2, 3], &[6, 6, 3, 1]),
        );
        assert_eq!(back, [2., 4., 6., 8., 10., 12.]);
    }
}
