//! The gradient for the weight, summed over tiles.

use super::{LANES, Layer, POINTS, Run, TAPS, down, multiply, patch, results_back, store, taps_back};
use crate::conv::each_group;
use crate::conv::vector::{Transform, leveled};
use crate::cpu::level;
use crate::gemm::{Multiply, pack};
use crate::par::{Scratch, Shared, parallel_for};
use crate::threads::num_threads;
use std::ops::Range;

/// Elements of planes that are packed with channels as lanes, and the positions of the elements of each tile's
/// `N`-element patch.
struct Patches<const N: usize> {
    /// First element (counted from the start of the channel in the first image), number of elements, and line to pack
    /// them at.
    rows: Vec<(usize, usize, usize)>,
    /// Number of lines. The first line is zeros.
    lines: usize,
    /// For each tile, the line of each element.
    tiles: Vec<[u32; N]>,
}

impl<const N: usize> Patches<N> {
    /// Find the square patches of the tiles of runs: one every two elements, starting at `-low`. Images are `image`
    /// elements apart.
    fn new(runs: &[Run], wide: usize, size: [usize; 2], low: [isize; 2], image: usize) -> Patches<N> {
        let side = N.isqrt();
        let mut patches = Patches { rows: Vec::new(), lines: 1, tiles: Vec::new() };
        // The positions that a range of the grid reads along a dimension.
        let reads = |d: usize, grid: &Range<usize>| {
            let inside = |at: usize| (at as isize - low[d]).clamp(0, size[d] as isize) as usize;
            inside(2 * grid.start)..inside(2 * grid.end + side - 2)
        };
        for run in runs {
            let (ys, xs) = (reads(0, &run.rows), reads(1, &run.columns));
            let first = patches.lines;
            let from = run.image * image + ys.start * size[1] + xs.start;
            if xs.len() == size[1] {
                patches.rows.push((from, ys.len() * xs.len(), first));
            } else {
                patches.rows.extend((0..ys.len()).map(|i| (from + i * size[1], xs.len(), first + i * xs.len())));
            }
            patches.lines += ys.len() * xs.len();
            for tile in run.tiles.clone() {
                let corner = [(2 * (tile / wide)) as isize - low[0], (2 * (tile % wide)) as isize - low[1]];
                patches.tiles.push(std::array::from_fn(|i| {
                    let (y, x) = (corner[0] + (i / side) as isize, corner[1] + (i % side) as isize);
                    let inside = y >= 0 && x >= 0 && ys.contains(&(y as usize)) && xs.contains(&(x as usize));
                    if inside { (first + (y as usize - ys.start) * xs.len() + x as usize - xs.start) as u32 } else { 0 }
                }));
            }
        }
        patches
    }

    /// Pack `valid` channels, `plane` elements apart, as `lanes` lanes.
    fn pack<A: Multiply>(&self, x: &[A], plane: usize, valid: usize, lanes: usize, out: &mut [A]) {
        out[..lanes].fill(A::ZERO);
        for &(from, count, line) in &self.rows {
            // SAFETY: rows lie within their planes, and lines within the buffer.
            unsafe {
                pack::<A>(x.as_ptr().add(from), plane, 1, valid, count, lanes, out.as_mut_ptr().add(line * lanes))
            };
        }
    }
}

leveled! {
    /// Transform patches of lines of `lanes` elements to some rows of their points, `distance` elements apart.
    ///
    /// # Safety
    /// Both buffers have room for `LANES` elements behind their last line.
    fn spread_inputs<V>(
        packed: &[A], lanes: usize, tiles: &[[u32; 16]], rows: Range<usize>, to: *mut A, distance: usize,
    ) {
        for (t, lines) in tiles.iter().enumerate() {
            for lane in (0..lanes).step_by(V::LANES) {
                let packed = packed.as_ptr().add(lane);
                let at = lines.map(|line| packed.add(line as usize * lanes));
                for row in rows.clone() {
                    let (a, b, sum) = [(0, 8, false), (4, 8, true), (8, 4, false), (4, 12, false)][row];
                    let mut columns = [V::splat(A::ZERO); 4];
                    for (j, column) in columns.iter_mut().enumerate() {
                        let (a, b) = (V::load(at[a + j]), V::load(at[b + j]));
                        *column = if sum { a.add(b) } else { a.sub(b) };
                    }
                    let points = patch(columns);
                    store(points, to.add(4 * row * distance + t * lanes + lane), distance);
                }
            }
        }
    }
}

leveled! {
    /// Like [`spread_inputs`], for the gradients of results.
    ///
    /// # Safety
    /// The same as for [`spread_inputs`].
    fn spread_results<V>(
        packed: &[A], lanes: usize, tiles: &[[u32; 4]], rows: Range<usize>, to: *mut A, distance: usize,
    ) {
        for (t, lines) in tiles.iter().enumerate() {
            for lane in (0..lanes).step_by(V::LANES) {
                let packed = packed.as_ptr().add(lane);
                let at = lines.map(|line| packed.add(line as usize * lanes));
                for row in rows.clone() {
                    let mut columns = [V::splat(A::ZERO); 2];
                    for (j, column) in columns.iter_mut().enumerate() {
                        let (upper, lower) = (V::load(at[j]), V::load(at[2 + j]));
                        *column = match row {
                            0 => upper,
                            1 => upper.add(lower),
                            2 => upper.sub(lower),
                            _ => column.sub(lower),
                        };
                    }
                    let points = results_back(columns);
                    store(points, to.add(4 * row * distance + t * lanes + lane), distance);
                }
            }
        }
    }
}

/// Number of tiles in a chunk for sums over tiles.
const LONG_CHUNK: usize = 128;

/// Return the number of parts of the tiles that are summed separately. It depends only on sizes, so results do not
/// depend on the number of threads.
fn parts(tiles: usize, sums: usize) -> usize {
    /// Smallest number of tiles in a part. `ELEMENTS` is the largest number of elements of all sums.
    const TILES: usize = 512;
    const ELEMENTS: usize = 4 << 20;
    (tiles / TILES).min(ELEMENTS / sums).clamp(1, 16)
}

/// Return the number of tasks that share the 4 rows of points of a part. It is just enough to occupy the threads,
/// because each task packs the part's elements.
fn shares(parts: usize) -> usize {
    let threads = num_threads();
    let even = |n: &usize| (parts * n).is_multiple_of(threads) || parts * n >= 4 * threads;
    [1, 2, 4].into_iter().find(even).unwrap_or(4)
}

pub(in crate::conv) fn weight_grad<A: Transform>(l: &Layer, x: &[A], g: &[A], gw: &mut [A]) {
    let kernels = l.c * l.o * TAPS;
    let gw = Shared::new(gw);
    each_group(l.groups, l.tiles() * POINTS * l.c * l.o, |group, _| {
        // SAFETY: the group is in bounds, and one thread uses it.
        let gw = unsafe { gw.slice(group * kernels, kernels) };
        weight_grad_of_group(l, &x[group * l.c * l.source_plane()..], &g[group * l.o * l.result_plane()..], gw);
    });
}

fn weight_grad_of_group<A: Transform>(l: &Layer, x: &[A], g: &[A], gw: &mut [A]) {
    let kernel = A::kernel(level());
    let (height, width) = (kernel.height(l.o), kernel.width);
    let (strips, panels) = (l.o.div_ceil(height), l.c.div_ceil(width));
    let (rows, columns) = (strips * height, panels * width);
    let (tiles, wide) = (l.tiles(), l.grid()[1]);
    let point = rows * columns;
    let parts = parts(tiles, POINTS * point);
    let mut sums = Scratch::<A>::any(parts * POINTS * point + LANES);
    let to = Shared::new(&mut sums);
    let (x_image, g_image) = (l.groups * l.c * l.source_plane(), l.groups * l.o * l.result_plane());
    let shares = shares(parts);
    parallel_for(parts * shares, 1, |range| {
        let (panel, strip) = (LONG_CHUNK * width + LANES, LONG_CHUNK * height + LANES);
        let mut v = Scratch::<A>::any(POINTS * panels * panel);
        let mut z = Scratch::<A>::any(POINTS * strips * strip);
        for task in range {
            let (part, share) = (task / shares, task % shares);
            let mine = share * 4 / shares..(share + 1) * 4 / shares;
            let (first, end) = (part * tiles / parts, (part + 1) * tiles / parts);
            let sums = to.ptr().wrapping_add(part * POINTS * point);
            for start in (first..end).step_by(LONG_CHUNK) {
                let here = start..(start + LONG_CHUNK).min(end);
                let runs = l.runs(&here);
                let inputs = Patches::<16>::new(&runs, wide, l.source, l.low, x_image);
                let results = Patches::<4>::new(&runs, wide, l.result, [0; 2], g_image);
                let lines = (inputs.lines * width).max(results.lines * height);
                let mut packed = Scratch::<A>::any(lines + LANES);
                for j in 0..panels {
                    let valid = width.min(l.c - j * width);
                    inputs.pack(&x[j * width * l.source_plane()..], l.source_plane(), valid, width, &mut packed);
                    // SAFETY: the buffers have room for these points.
                    unsafe {
                        let to = v.as_mut_ptr().add(j * panel);
                        spread_inputs(&packed, width, &inputs.tiles, mine.clone(), to, panels * panel);
                    }
                }
                for s in 0..strips {
                    let valid = height.min(l.o - s * height);
                    results.pack(&g[s * height * l.result_plane()..], l.result_plane(), valid, height, &mut packed);
                    // SAFETY: the buffers have room for these points.
                    unsafe {
                        let to = z.as_mut_ptr().add(s * strip);
                        spread_results(&packed, height, &results.tiles, mine.clone(), to, strips * strip);
                    }
                }
                // SAFETY: operands and sums have these sizes, and each part has its own sums.
                unsafe {
                    (kernel.enter)();
                    for p in 4 * mine.start..4 * mine.end {
                        for j in 0..panels {
                            let b = v.as_ptr().add((p * panels + j) * panel);
                            for s in 0..strips {
                                let a = z.as_ptr().add((p * strips + s) * strip);
                                let c = sums.add(p * point + s * height * columns + j * width);
                                multiply(kernel, height, here.len(), a, b, start == first, c, columns);
                            }
                        }
                    }
                    (kernel.leave)();
                }
            }
        }
    });
    let gw = Shared::new(gw);
    parallel_for(l.o, (1usize << 12).div_ceil(l.c * parts), |range| {
        for o in range {
            // SAFETY: the row is in bounds, and one thread uses it.
            let gw = unsafe { gw.slice(o * l.c * TAPS, l.c * TAPS) };
            // SAFETY: the sums have room for `LANES` elements behind their last row.
            unsafe { collect_kernels(&sums[o * columns..], point, parts, l.reverse, gw) };
        }
    });
}

leveled! {
    /// Add up the sums of parts for one row of kernels, and transform them.
    ///
    /// # Safety
    /// The sums have room for `LANES` elements behind their last row.
    fn collect_kernels<V>(sums: &[A], distance: usize, parts: usize, reverse: bool, gw: &mut [A]) {
        for (i, gw) in gw.chunks_mut(V::LANES * TAPS).enumerate() {
            let mut points = [[V::splat(A::ZERO); 4]; 4];
            for part in 0..parts {
                for (point, sum) in points.as_flattened_mut().iter_mut().enumerate() {
                    let at = (part * POINTS + point) * distance + i * V::LANES;
                    *sum = sum.add(V::load(sums.as_ptr().add(at)));
                }
            }
            let mut lanes = [[A::ZERO; LANES]; TAPS];
            let rows = points.map(|p| taps_back(p));
 for (i, row) in down(rows, |p| taps_back(p)).into_iter().enumerate() {
                for (j, v) in row.into_iter().enumerate() {
                    v.store(lanes[if reverse { TAPS - 1 - 3 * i - j } else { 3 * i + j }].as_mut_ptr());
                }
            }
            for (lane, gw) in gw.chunks_exact_mut(TAPS).enumerate() {
                for (gw, lanes) in gw.iter_mut().zip(&lanes) {
                    *gw = lanes[lane];
                }
            }
        }
    }
}
