//! Sliding blocks of images as columns (im2col), and the sums that bring columns back to an image (col2im).

use crate::par::Shared;
use crate::real::{Real, for_acc, input, output};
use crate::threads::{GRAIN, parallel_for};
use crate::{View, ViewMut};

/// Positions of the blocks of an image. Entry 0 of each array is the height, entry 1 the width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Blocks {
    /// Sizes of the image, in pixels.
    pub image: [usize; 2],
    /// Sizes of a block, in pixels.
    pub kernel: [usize; 2],
    /// Distance between neighbouring blocks, in pixels.
    pub stride: [usize; 2],
    /// Rows and columns of zeros on each side of the image.
    pub pad: [usize; 2],
    /// Distance between neighbouring pixels of a block.
    pub dilation: [usize; 2],
    /// Number of blocks along each dimension.
    pub count: [usize; 2],
}

impl Blocks {
    /// Return how far the blocks reach along dimension `d`, including the padding before the image.
    pub fn reach(&self, d: usize) -> usize {
        (self.count[d] - 1) * self.stride[d] + (self.kernel[d] - 1) * self.dilation[d] + 1
    }
}

/// Call `f(column, pixel, length)` for runs of block positions whose pixels are inside the image and `stride` apart.
#[inline(always)]
fn runs(b: &Blocks, ky: usize, kx: usize, mut f: impl FnMut(usize, usize, usize)) {
    let [h, w] = b.image;
    let shift = (kx * b.dilation[1]) as i64 - b.pad[1] as i64;
    // The first and the last block whose pixel is inside the row.
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

/// Fill `out` piece by piece. A piece has `size` elements, starts as zeros, and costs `work` operations.
/// `fill(i, x, piece)` adds the values of piece `i`.
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
                // SAFETY: the piece is in bounds, and one thread uses it.
                let piece = unsafe { to.slice(i * size, size) };
                piece.fill(A::ZERO);
                fill(i, &x, piece);
            }
        });
    });
}

/// Copy the blocks of `[n, c, h, w]` to `[n, c * kh * kw, blocks]`. Pixels outside the image are zeros.
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

/// Sum `[n, c * kh * kw, blocks]` to `[n, c, h, w]`: each pixel is the sum of its copies in all blocks.
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
    fn im2col_pads_with_zeros_and_col2im_ignores_padding() {
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
