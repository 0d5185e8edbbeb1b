//! How a group waits: what it tells other ranks about that, and whether it gives its core away meanwhile.
//!
//! A process tells all its groups which of its collectives wait. A rank whose time is over in one group can then say
//! that its peer waits in another.

use super::Group;
use crate::recorder::{Entry, Recorder};
use crate::watch;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind};

/// Between the parts of a [`Wait`] in its line.
const SEPARATOR: char = '\t';
/// How long a process tells of a collective that ended by its timeout. The time of its peer may end later.
const TOLD_TIME: Duration = Duration::from_secs(60);

/// Whether this host has fewer cores than ranks, if the job has `size`. The launcher may have said how many of them are
/// here.
pub(super) fn is_crowded(size: usize) -> bool {
    let here = std::env::var("LOCAL_WORLD_SIZE").ok().and_then(|n| n.parse().ok()).unwrap_or(size);
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() < here)
}

/// A collective that waits, as other ranks see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    group: String,
    sequence: u64,
    /// Whether ranks wait to agree about a program that has this collective, or the host runs it.
    is_agreement: bool,
    /// The call, and the rank waited for.
    text: String,
}

impl Wait {
    fn line(&self) -> String {
        let Wait { group, sequence, is_agreement, text } = self;
        let parts = [group.clone(), sequence.to_string(), is_agreement.to_string(), text.clone()];
        parts.map(|part| part.replace(['\n', SEPARATOR], " ")).join(&SEPARATOR.to_string())
    }

    fn parse(line: &str) -> Option<Wait> {
        let mut parts = line.split(SEPARATOR);
        let mut next = || parts.next();
        Some(Wait {
            group: next()?.to_string(),
            sequence: next()?.parse().ok()?,
            is_agreement: next()?.parse().ok()?,
            text: next()?.to_string(),
        })
    }
}

impl Group {
    /// Return the collective that runs now.
    fn running(&self) -> Option<Entry> {
        let last = self.last.lock().clone()?;
        let sequence = self.turn.current();
        // Calls that return before their collective is done may have added others.
        if last.sequence == sequence || self.is_agreement() {
            return Some(last);
        }
        let is_it = |e: &Entry| e.group == self.name && e.rank == self.rank && e.sequence == sequence && !e.is_message;
        Recorder::global().entries().into_iter().rev().find(is_it)
    }

    /// Return the collective that has run for longer than `time`, or that ended by its timeout.
    pub(crate) fn wait(&self, time: Duration) -> Option<Wait> {
        if let Some((ended, wait)) = &*self.timed_out.lock() {
            return (ended.elapsed() < TOLD_TIME).then(|| wait.clone());
        }
        let peer = self.awaited.load(Ordering::Relaxed);
        if peer >= self.size || self.running_for().is_none_or(|running| running <= time) {
            return None;
        }
        let entry = self.running()?;
        Some(Wait {
            group: entry.group.to_string(),
            sequence: entry.sequence,
            is_agreement: self.is_agreement(),
            text: format!("{}, for rank {}", entry.call(), self.name_of(peer)),
        })
    }

    /// Whether another group of this process belongs to the same rank of the same job. Threads of a test are ranks too.
    pub(crate) fn is_of_rank(&self, other: &Group) -> bool {
        self.ranks[self.rank] == other.ranks[other.rank]
            && self.meeting.store.identity() == other.meeting.store.identity()
    }

    /// Tell the ranks of this group what this rank waits for, in all its groups.
    pub(crate) fn post_waits(&self, waits: &[Wait]) {
        let lines: Vec<String> = waits.iter().map(Wait::line).collect();
        // If the store fails, reports of timeouts say less.
        let _ = self.meeting.post(&format!("waits/{}", self.rank), &lines.join("\n"));
    }

    /// Return what a rank waits for, as it last told.
    fn waits_of(&self, rank: usize) -> Vec<Wait> {
        let mut meeting = self.meeting.clone();
        // A rank that has never agreed about a program has made only the group of users.
        if let Some(prefix) = meeting.prefix.strip_suffix(super::agreeing::SUFFIX) {
            meeting.prefix = prefix.to_string();
        }
        let text = meeting.find(&format!("waits/{rank}")).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&text).lines().filter_map(Wait::parse).collect()
    }

    /// Tell all groups of this process that a collective of this one ends by its timeout.
    pub(super) fn tell_timeout(&self) {
        let wait = self.wait(Duration::ZERO);
        *self.timed_out.lock() = wait.map(|wait| (Instant::now(), wait));
        watch::post_waits(Duration::ZERO);
    }

    /// Whether a rank waits in this group, as it last told.
    pub(super) fn is_waited_in_by(&self, rank: usize) -> bool {
        self.waits_of(rank).iter().any(|wait| wait.group == self.shown_name())
    }

    /// Return the collectives of other groups that a rank waits in, if there are some.
    pub(super) fn elsewhere(&self, peer: usize) -> Option<String> {
        let waits = self.waits_of(peer);
        let others = waits.iter().filter(|wait| wait.group != self.shown_name());
        let others: Vec<&str> = others.map(|wait| &*wait.text).collect();
        (!others.is_empty()).then(|| {
            format!(
                "rank {} waits in another group: {}. Use groups in the same order on all ranks",
                self.name_of(peer),
                others.join("; ")
            )
        })
    }

    /// Return an error if a collective of a program, about which this rank waits to agree, is one that the awaited rank
    /// runs on the host, or the other way round. They have the same number, so one of the ranks has made a mistake, and
    /// no message tells it.
    pub(crate) fn host_conflict(&self) -> Option<Error> {
        let own = self.wait(Duration::ZERO)?;
        let peer = self.awaited.load(Ordering::Relaxed);
        let is_other = |wait: &Wait| {
            (&wait.group, wait.sequence) == (&own.group, own.sequence) && wait.is_agreement != own.is_agreement
        };
        let theirs = self.waits_of(peer).into_iter().find(is_other)?;
        let place = |wait: &Wait| if wait.is_agreement { "in a program" } else { "on the host" };
        let text = format!(
            "Detected mismatch between collectives on ranks. Rank {} is running collective: {}, {}, but Rank {} is \
             running collective: {}, {}.",
            self.name_of(self.rank),
            own.text,
            place(&own),
            self.name_of(peer),
            theirs.text,
            place(&theirs)
        );
        Some(Error::new(ErrorKind::DistBackend, text).note(self.identity()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_as_it_was_written() {
        let wait = Wait { group: "0".into(), sequence: 7, is_agreement: true, text: "barrier at a b.py:3".into() };
        assert_eq!(Wait::parse(&wait.line()), Some(wait.clone()));
        let odd = Wait { group: "a\tb\n".into(), ..wait };
        assert_eq!(Wait::parse(&odd.line()), Some(Wait { group: "a b ".into(), ..odd }));
    }
}
