//! Detection of repetition in a stream of ops.
//!
//! A training loop says where its steps end. Another loop says nothing, so its segments are cut by size. If the period
//! does not divide the size, every cut would fall on another op of the loop, and each segment would be a new program.
//! So the place of the first such cut is remembered as a hash of the last [`WINDOW`] ops before it. When the same ops
//! come again, the distance is the period of the loop. The stream is cut there, and then once per iteration at that
//! place. If an iteration is longer than a segment may be, it is also cut into equal parts.
//!
//! This works only on a stream without anchors for more than one full segment. Anchors are reads, step boundaries and
//! similar cuts. A stream with anchors has the same cuts in each step anyway, and equal layers must not be mistaken for
//! steps.

use crate::cut::CutReason;
use rustc_hash::FxHashMap;

/// Number of ops that identify a place.
const WINDOW: usize = 32;
/// Least number of ops in a segment that a repetition cuts: several iterations of a short loop are fused.
const MIN_SEGMENT: usize = 256;
/// The loop counts as ended after this many full segments in which the place did not come again.
const FORGET_SEGMENTS: usize = 64;

#[derive(Default)]
pub(crate) struct Repeat {
    window: [u64; WINDOW],
    /// Buzhash of the window: each op rotates it by two bits, so the op that leaves has come full circle.
    hash: u64,
    /// Ops since the last anchor.
    run: usize,
    place: Option<Place>,
}

struct Place {
    hash: u64,
    /// The position at which it was last seen, in ops since the anchor.
    seen: usize,
    /// Greatest number of ops in a segment.
    part: usize,
}

impl Repeat {
    /// Record an op. Return the reason to cut the stream after it, if there is one. The segment has `len` ops now.
    #[inline]
    pub(crate) fn push(&mut self, op: u64, len: usize, max: usize) -> Option<CutReason> {
        let at = self.run % WINDOW;
        self.hash = self.hash.rotate_left(2) ^ op ^ self.window[at];
        self.window[at] = op;
        self.run += 1;
        if self.run < max { None } else { self.run_free(len, max) }
    }

    fn run_free(&mut self, len: usize, max: usize) -> Option<CutReason> {
        let Some(place) = &mut self.place else {
            if len < max {
                return None;
            }
            self.place = Some(Place { hash: self.hash, seen: self.run, part: max });
            return Some(CutReason::Size);
        };
        if place.hash == self.hash {
            let period = self.run - place.seen;
            place.seen = self.run;
            if period < MIN_SEGMENT.min(max) {
                return (len >= MIN_SEGMENT.min(max)).then_some(CutReason::RepeatFound);
            }
            place.part = period.div_ceil(period.div_ceil(max));
            return Some(CutReason::RepeatFound);
        }
        if len < place.part.min(max) {
            return None;
        }
        if self.run - place.seen > FORGET_SEGMENTS * max {
            *place = Place { hash: self.hash, seen: self.run, part: max };
        }
        Some(CutReason::Size)
    }

    /// Return the identity of the position before the next op: a hash of the last [`WINDOW`] ops, and the distance from
    /// the anchor.
    pub(crate) fn place(&self) -> u64 {
        crate::form::mix(self.hash, self.run as u64)
    }

    /// Record that the segment was cut where the program itself has a boundary.
    pub(crate) fn anchor(&mut self) {
        *self = Repeat::default();
    }
}

/// The choice of places where segments are launched before they are complete, so that the device works while the host
/// records the rest.
///
/// The idle time of the device varies, and cuts must not: a segment that is cut at different places in different
/// steps would be a new program each time. So a place is examined twice. The first visit measures how long its segment
/// becomes. The second one checks whether the device idles there with as much still to come, and this answer stays.
#[derive(Default)]
pub(crate) struct Early {
    places: FxHashMap<u64, Decision>,
    /// The place that the current segment has passed.
    passed: Option<u64>,
}

enum Decision {
    /// Number of ops at the end of the segment that first passed the place.
    Length {
        at: usize,
        end: usize,
    },
    Cut(bool),
}

/// A program with more places than this never repeats.
const MAX_PLACES: usize = 1 << 16;

impl Early {
    /// Record a place. Return whether to cut there.
    #[cold]
    pub(crate) fn pass(&mut self, place: u64, idle: impl FnOnce() -> bool) -> bool {
        match self.places.get_mut(&place) {
            Some(Decision::Cut(cut)) => *cut,
            Some(decision @ Decision::Length { .. }) => {
                let Decision::Length { at, end } = *decision else { return false };
                let cut = end >= 2 * at && idle();
                *decision = Decision::Cut(cut);
                cut
            }
            None => {
                if self.places.len() >= MAX_PLACES {
                    self.places.clear();
                }
                self.passed = Some(place);
                false
            }
        }
    }

    /// Record that the segment ended after `len` ops.
    #[inline]
    pub(crate) fn ended(&mut self, len: usize, at: usize) {
        if let Some(place) = self.passed.take() {
            self.places.insert(place, Decision::Length { at, end: len });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the lengths of the segments of a stream with `period` different ops.
    fn segments(period: u64, ops: u64, max: usize) -> Vec<usize> {
        let (mut r, mut len, mut out) = (Repeat::default(), 0, Vec::new());
        for i in 0..ops {
            len += 1;
            let op = (i % period + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if r.push(op, len, max).is_some() {
                out.push(len);
                len = 0;
            }
        }
        out
    }

    #[test]
    fn cuts_of_a_periodic_stream_become_periodic() {
        for period in
            [1u64, 3, 7, 100, 255, 256, 300, 750, 751, 1000, 1499, 1500, 1501, 1502, 2000, 2999, 3001, 3700, 9001]
        {
            let s = segments(period, 120 * 1500, 1500);
            // After the first few cuts, segments start at few phases of the loop.
            let mut start = 0;
            let mut starts = Vec::new();
            for len in &s {
                starts.push((start % period as usize, *len));
                start += len;
            }
            let distinct: std::collections::HashSet<_> = starts[starts.len() / 2..].iter().collect();
            assert!(distinct.len() <= 1 + period as usize / 1500, "period {period}: {distinct:?}");
        }
    }

    #[test]
    fn short_loops_are_fused_over_several_turns() {
        let s = segments(10, 20_000, 1500);
        assert_eq!(s[0], 1500);
        assert!(s[1..].iter().all(|&n| n == 260), "{s:?}");
    }

    #[test]
    fn equal_layers_of_an_anchored_stream_do_not_cut() {
        let mut r = Repeat::default();
        for _ in 0..50 {
            for i in 0..1400u64 {
                assert_eq!(r.push(i % 40 + 1, i as usize + 1, 1500), None);
            }
            r.anchor();
        }
    }
}
