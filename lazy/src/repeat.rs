//! Finding where a stream of ops repeats.
//!
//! A training loop says where its steps end; a loop that only computes says nothing. Its segments are cut by size, and
//! with a period that does not divide the size every cut would fall on another op of the loop: a new program each time.
//! So the place of the first such cut is remembered by what stood before it, a hash of the last [`WINDOW`] ops. When
//! the same ops go by again, the distance is the loop's period: the stream is cut there, and from then on each turn is
//! cut at that place, and in equal parts between if it is longer than a segment may be.
//!
//! This works only on a stream that runs free: longer than one full segment without a read, a step boundary or another
//! anchor. In a stream with anchors the cuts are the same in each step anyway, and layers that look alike must not be
//! mistaken for steps.

use crate::cut::CutReason;
use rustc_hash::FxHashMap;

/// How many ops make a place recognisable.
const WINDOW: usize = 32;
/// Segments that a found repeat cuts have at least so many ops: a short loop is fused over several of its turns.
const MIN_SEGMENT: usize = 256;
/// After so many full segments without seeing the place again, the loop is over.
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
    /// When it was last seen, in ops since the anchor.
    seen: usize,
    /// Greatest number of ops in a segment.
    part: usize,
}

impl Repeat {
    /// Takes note of an op; says whether and why the stream, in a segment of `len` ops now, should be cut after it.
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

    /// What stands before the next op: a hash of the last [`WINDOW`] ops and their distance from the anchor.
    pub(crate) fn place(&self) -> u64 {
        crate::form::mix(self.hash, self.run as u64)
    }

    /// The segment was cut where the program itself has a boundary.
    pub(crate) fn anchor(&mut self) {
        *self = Repeat::default();
    }
}

/// Where segments are launched before they are complete, so that the device works while the host records the rest.
///
/// Whether the device idles depends on time, and cuts must not: a segment that is cut here in one step and there in the
/// next is another program each time. So a place is looked at twice, first to learn how long its segment becomes, then
/// to see whether the device idles there while there is as much still to come; that answer stays.
#[derive(Default)]
pub(crate) struct Early {
    places: FxHashMap<u64, Decision>,
    /// The place that the segment now being recorded has passed.
    passed: Option<u64>,
}

enum Decision {
    /// Ops in the segment that passed the place first, where it ended.
    Length {
        at: usize,
        end: usize,
    },
    Cut(bool),
}

/// A program that passes ever new places repeats nowhere.
const MAX_PLACES: usize = 1 << 16;

impl Early {
    /// Takes note of a place; says whether to cut there.
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

    /// The segment ended after `len` ops.
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

    /// Lengths of the segments that a stream of `period` different ops is cut into.
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
            // After the first few, starts fall on few phases of the loop.
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
    fn alike_layers_of_an_anchored_stream_do_not_cut() {
        let mut r = Repeat::default();
        for _ in 0..50 {
            for i in 0..1400u64 {
                assert_eq!(r.push(i % 40 + 1, i as usize + 1, 1500), None);
            }
            r.anchor();
        }
    }
}
