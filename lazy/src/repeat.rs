//! Finding where a stream of ops repeats.
//!
//! A training loop says where its steps end; a loop that only computes says nothing. Its segments are cut by size, and with a
//! period that does not divide the size every cut would fall on another op of the loop: a new program each time. So the place
//! of a size cut is remembered by what stood before it, a hash of the last [`WINDOW`] ops, and from then on the stream is cut
//! wherever the same ops have just gone by. The cuts of a periodic stream thereby become periodic after one period.
//!
//! This works only on a stream that runs free: longer than one full segment without a read, a step boundary or another
//! anchor. In a stream with anchors the cuts are the same in each step anyway, and layers that look alike must not be mistaken
//! for steps.

use rustc_hash::FxHashSet;

/// How many ops make a place recognisable.
const WINDOW: usize = 32;
/// Segments that a found repeat cuts have at least so many ops: a short loop is fused over several of its turns.
pub(crate) const MIN_SEGMENT: usize = 256;
const MAX_PLACES: usize = 4096;

pub(crate) struct Repeat {
    window: [u64; WINDOW],
    /// Buzhash of the window: each op rotates it by two bits, so the op that leaves has come full circle.
    hash: u64,
    /// Ops since the last anchor.
    run: usize,
    places: FxHashSet<u64>,
}

impl Default for Repeat {
    fn default() -> Repeat {
        Repeat { window: [0; WINDOW], hash: 0, run: 0, places: FxHashSet::default() }
    }
}

impl Repeat {
    /// Takes note of an op; `true` when the stream, in a segment of `len` ops now, should be cut after it.
    #[inline]
    pub(crate) fn push(&mut self, op: u64, len: usize, max: usize) -> bool {
        let at = self.run % WINDOW;
        self.hash = self.hash.rotate_left(2) ^ op ^ self.window[at];
        self.window[at] = op;
        self.run += 1;
        self.run > max && len >= MIN_SEGMENT.min(max) && self.places.contains(&self.hash)
    }
    /// The segment was cut because of its size.
    pub(crate) fn cut_by_size(&mut self) {
        if self.places.len() == MAX_PLACES {
            self.places.clear();
        }
        self.places.insert(self.hash);
    }
    /// The segment was cut where the program itself has a boundary.
    pub(crate) fn anchor(&mut self) {
        self.window = [0; WINDOW];
        self.hash = 0;
        self.run = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of the segments that a stream of `period` different ops is cut into.
    fn segments(period: u64, ops: u64, max: usize) -> Vec<usize> {
        let (mut r, mut len, mut out) = (Repeat::default(), 0, Vec::new());
        for i in 0..ops {
            len += 1;
            let op = (i % period + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if r.push(op, len, max) {
                out.push(len);
                len = 0;
            } else if len == max {
                r.cut_by_size();
                out.push(len);
                len = 0;
            }
        }
        out
    }

    #[test]
    fn cuts_of_a_periodic_stream_become_periodic() {
        for period in [1u64, 3, 7, 100, 255, 256, 300, 1000, 1499, 1501, 2000, 3700] {
            let s = segments(period, 60 * 1500, 1500);
            // After the first few, starts fall on few phases of the loop.
            let mut start = 0;
            let mut starts = Vec::new();
            for len in &s {
                starts.push((start % period as usize, *len));
                start += len;
            }
            let distinct: std::collections::HashSet<_> = starts[starts.len() / 2..].iter().collect();
            assert!(distinct.len() <= 2 + period as usize / 1000, "period {period}: {distinct:?}");
        }
    }

    #[test]
    fn short_loops_are_fused_over_several_turns() {
        let s = segments(10, 20_000, 1500);
        assert_eq!(s[0], 1500);
        assert!(s[1..].iter().all(|&n| n == 260), "{s:?}");
    }

    #[test]
    fn alike_layers_of_an_anchored_stream_do_not_cut() {
        let mut r = Repeat::default();
        for _ in 0..50 {
            for i in 0..1400u64 {
                assert!(!r.push(i % 40 + 1, i as usize + 1, 1500));
            }
            r.anchor();
        }
    }
}
