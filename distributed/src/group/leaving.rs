//! How a rank leaves a group: what it has started ends first, and its peers take what it sent. A rank sends without
//! waiting for the receiver, so without this its last message could be lost with its process.

use super::{Group, ProcessGroup};
use crate::store::check_interrupt;
use crate::watch;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use torchtpu_tensor::Result;

/// Sleep between two looks at the links.
const PAUSE: Duration = Duration::from_millis(1);
/// The key that counts the ranks that have left.
const LEAVING: &str = "leaving";
/// Time between two questions to the store.
const ASK: Duration = Duration::from_millis(100);

/// Return the time after `limit`, which may be longer than the clock can tell.
pub(super) fn deadline(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + Duration::from_secs(u32::MAX.into()))
}

impl ProcessGroup {
    /// Wait until the works of this rank have ended, then tell the other ranks that this one leaves. Return the ranks
    /// that are still waited for after `limit`. If there are none, no collective may be called any more. A process that
    /// leaves several groups calls this for all of them before [`ProcessGroup::leave`].
    ///
    /// # Errors
    /// Fails if the user interrupts the program. The group is left then.
    pub fn finish(&self, limit: Duration) -> Result<Vec<usize>> {
        let awaited = self.0.finish(deadline(limit)).inspect_err(|_| self.0.say_farewell())?;
        if awaited.is_empty() {
            self.0.say_farewell();
        }
        Ok(awaited)
    }

    /// [`ProcessGroup::finish`], then wait until the other ranks have taken the messages of this one, have left, or
    /// have ended. Return the ranks that are still waited for after `limit`. A group that is broken is left at once.
    ///
    /// # Errors
    /// Fails if the user interrupts the program. The group is left then.
    pub fn leave(&self, limit: Duration) -> Result<Vec<usize>> {
        let end = deadline(limit);
        let awaited = self.finish(limit)?;
        if awaited.is_empty() { self.0.linger(end) } else { Ok(awaited) }
    }

    /// Give up this handle of the group when the works of this rank have ended. If there is no other handle, leave.
    ///
    /// # Errors
    /// Fails if the user interrupts the program. The group is left then.
    pub fn release(self) -> Result<()> {
        let end = deadline(self.timeout());
        self.0.finish(end).inspect_err(|_| self.0.say_farewell())?;
        // A thread that has ended the last work, or the watchdog, may hold the group for a moment.
        let moment = deadline(ASK);
        while Arc::strong_count(&self.0) > 1 {
            if Instant::now() >= moment {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        self.0.say_farewell();
        self.0.linger(end).map(|_| ())
    }
}

impl Group {
    /// Wait until the works of this rank have ended. Return the ranks that are still waited for at `end`.
    ///
    /// # Errors
    /// Fails if the user interrupts the program.
    fn finish(&self, end: Instant) -> Result<Vec<usize>> {
        while self.is_busy() {
            if Instant::now() >= end {
                return Ok(self.awaited());
            }
            check_interrupt()?;
            std::thread::sleep(PAUSE);
        }
        Ok(Vec::new())
    }

    /// Return the ranks that works of this rank wait for.
    fn awaited(&self) -> Vec<usize> {
        let one = self.awaited.load(Ordering::Relaxed);
        if one < self.size {
            return vec![one];
        }
        let unsent = self.unsent();
        let others = (0..self.size).filter(|&rank| rank != self.rank);
        if unsent.is_empty() { others.collect() } else { unsent }
    }

    /// Whether works of this rank have not ended. A fork has none: the threads of its parent are not there.
    fn is_busy(&self) -> bool {
        let may_end = self.owner.is_here() && !self.broken.load(Ordering::Acquire);
        may_end && (self.in_flight.load(Ordering::Acquire) > 0 || !self.unsent().is_empty())
    }

    /// Return the ranks that messages of this rank have to leave for.
    fn unsent(&self) -> Vec<usize> {
        self.messages.lock().unsent()
    }

    /// Tell the other ranks that this one leaves, also the group that agrees about programs.
    fn say_farewell(&self) {
        if !self.owner.is_here() || self.is_planned || self.broken.load(Ordering::Acquire) {
            return;
        }
        if self.has_left.swap(true, Ordering::AcqRel) {
            return;
        }
        // Without the keys, waiting ranks find the same by the closed links, only later.
        let _ = self.meeting.post(&format!("left/{}", self.rank), &self.turn.next().to_string());
        let _ = self.meeting.post("left", "");
        let agreement = self.agreement.lock().clone();
        if let Some(agreement) = agreement {
            agreement.rounds.0.say_farewell();
        } else if !self.is_agreement() {
            // A rank that never agreed about a program will not do so either.
            let _ = self.meeting.post(&format!("agreement/left/{}", self.rank), "0");
            let _ = self.meeting.post("agreement/left", "");
        }
        if matches!(self.meeting.store.add(&self.meeting.key(LEAVING), 1), Ok(n) if n == self.size as i64) {
            self.forget_keys();
        }
    }

    /// Delete what the ranks have told each other. The last rank that leaves calls this. What stays is the count of
    /// ranks that have left.
    fn forget_keys(&self) {
        let of_rank = |rank: usize| {
            ["place", "left", "waits", "state", "agreement/left"].into_iter().map(move |name| format!("{name}/{rank}"))
        };
        let all = ["left", "agreement/left"].map(String::from);
        for name in all.into_iter().chain((0..self.size).flat_map(of_rank)) {
            if self.meeting.store.delete_key(&self.meeting.key(&name)).is_err() {
                return;
            }
        }
    }

    /// Whether a rank has left. If all have, their own keys are gone.
    fn is_left_by(&self, rank: usize) -> bool {
        let is_set = |name: &str| matches!(self.meeting.find(name), Ok(Some(_)));
        let all = || self.meeting.find(LEAVING).ok().flatten().is_some_and(|n| n == self.size.to_string().as_bytes());
        is_set(&format!("left/{rank}")) || all()
    }

    /// Whether this rank has told the others that it leaves.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Wait until the other ranks have taken the messages of this one, have left, or have ended. Return the ranks that
    /// are still waited for at `end`.
    ///
    /// # Errors
    /// Fails if the user interrupts the program.
    fn linger(&self, end: Instant) -> Result<Vec<usize>> {
        let mut asked = Instant::now();
        loop {
            let mut unread = self.unread();
            if unread.is_empty() {
                return Ok(unread);
            }
            let now = Instant::now();
            if now >= end || now >= asked + ASK {
                asked = now;
                if self.is_stopped() {
                    return Ok(Vec::new());
                }
                // A store that fails has no news.
                unread.retain(|&rank| !self.is_left_by(rank));
                if unread.is_empty() || now >= end {
                    return Ok(unread);
                }
            }
            check_interrupt()?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Return the ranks that have not taken all messages of this one. There are none in a fork, and while another
    /// thread runs a collective: it ends with the process.
    fn unread(&self) -> Vec<usize> {
        if !self.owner.is_here() || self.broken.load(Ordering::Acquire) {
            return Vec::new();
        }
        let Some(links) = self.links.try_lock() else { return Vec::new() };
        let mut ranks: Vec<usize> = links.unread().chain(self.messages.lock().unread()).collect();
        drop(links);
        let agreement = self.agreement.lock().clone();
        ranks.extend(agreement.map(|agreement| agreement.rounds.0.unread()).unwrap_or_default());
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Whether a rank has failed.
    fn is_stopped(&self) -> bool {
        ["abort", "failed"].iter().any(|key| matches!(self.meeting.find(key), Ok(Some(_))))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if *self.has_left.get_mut() {
            return;
        }
        self.say_farewell();
        if !watch::is_watchdog() {
            let end = deadline(*self.timeout.get_mut());
            // An interrupt ends the wait.
            let _ = self.linger(end);
        }
    }
}
