//! The order of collectives. A group runs them in the order of their calls. This also holds for a collective that is
//! recorded now and runs later in a compiled program: it takes its turn when it is called.

use super::failure::REASON_TIME;
use super::{Group, ProcessGroup};
use crate::request::Request;
use crate::store::{SLICE, check_interrupt};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// Passes the turn in the order of the tickets. A ticket is a sequence number.
#[derive(Default)]
pub(super) struct Turn {
    tickets: Mutex<Tickets>,
    passed: Condvar,
}

#[derive(Default)]
struct Tickets {
    next: u64,
    /// The ticket whose turn it is.
    current: u64,
    /// Whether the collective of that ticket runs. It has a timeout of its own.
    is_held: bool,
    /// Later tickets that need no turn any more.
    passed: BTreeSet<u64>,
}

impl Tickets {
    /// Let a turn pass.
    fn pass(&mut self, ticket: u64) {
        self.passed.insert(ticket);
        while self.passed.remove(&self.current) {
            self.current += 1;
        }
    }
}

/// Passes the turn on when dropped, also after a panic.
struct Held<'a>(&'a Turn, u64);

/// The end of a wait for a turn.
enum Waited<'a> {
    /// It is this caller's turn.
    Turn(Held<'a>),
    /// The group broke meanwhile.
    Broken,
    /// The turn of this ticket has not passed for too long.
    Late(u64),
    /// The user interrupted the program.
    Interrupted(Error),
}

impl Turn {
    /// Take the next ticket.
    pub(super) fn reserve(&self) -> u64 {
        let mut tickets = self.tickets.lock();
        tickets.next += 1;
        tickets.next - 1
    }

    /// Return the next ticket.
    pub(super) fn next(&self) -> u64 {
        self.tickets.lock().next
    }

    /// Return the ticket whose turn it is.
    pub(super) fn current(&self) -> u64 {
        self.tickets.lock().current
    }

    /// Let the turn of a ticket pass, whether it has come or not.
    fn pass(&self, ticket: u64) {
        self.tickets.lock().pass(ticket);
        self.passed.notify_all();
    }

    /// Whether the turn of a ticket has passed.
    fn has_passed(&self, ticket: u64) -> bool {
        self.tickets.lock().current > ticket
    }

    /// Wait for the turn of a ticket, for at most `patience` in which no collective runs.
    fn wait(&self, ticket: u64, patience: Duration, broken: &AtomicBool) -> Waited<'_> {
        let mut tickets = self.tickets.lock();
        let mut seen = (tickets.current, Instant::now());
        loop {
            if tickets.current == ticket {
                tickets.is_held = true;
                return Waited::Turn(Held(self, ticket));
            }
            if broken.load(Ordering::Acquire) {
                return Waited::Broken;
            }
            if tickets.current != seen.0 || tickets.is_held {
                seen = (tickets.current, Instant::now());
            } else if seen.1.elapsed() > patience {
                return Waited::Late(tickets.current);
            }
            if self.passed.wait_for(&mut tickets, SLICE).timed_out() {
                drop(tickets);
                if let Err(e) = check_interrupt() {
                    return Waited::Interrupted(e);
                }
                tickets = self.tickets.lock();
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.tickets.lock().is_held = false;
        self.0.pass(self.1);
    }
}

impl Group {
    /// Call `work` when it is the turn of a ticket, or with the error of the wait. The turn passes after `work`.
    pub(super) fn in_turn<R>(&self, request: &Request, ticket: u64, work: impl FnOnce(Result<()>) -> R) -> R {
        // An earlier call that has not begun to run may do so until its timeout.
        let usual = *self.timeout.lock();
        let longest = request.timeout.map_or(usual, |own| own.max(usual));
        let patience = longest.saturating_add(2 * REASON_TIME);
        let (mut turn, mut ready) = (None, Ok(()));
        match self.turn.wait(ticket, patience, &self.broken) {
            Waited::Turn(held) => turn = Some(held),
            // `perform` says why.
            Waited::Broken => {}
            Waited::Interrupted(error) => {
                self.stop(&error);
                ready = Err(error);
            }
            Waited::Late(earlier) => {
                let text = format!(
                    "{} timed out after {} ms waiting for an earlier collective of this rank (sequence number \
                     {earlier}), which was recorded and did not run",
                    request.op.name(),
                    patience.as_millis()
                );
                let error = Error::new(ErrorKind::DistBackend, text).note(self.identity());
                self.stop(&error);
                ready = Err(error);
            }
        }
        let result = work(ready);
        drop(turn);
        result
    }

    /// Break the group, and tell the other ranks why.
    pub(super) fn stop(&self, error: &Error) {
        self.break_with(error);
        self.post_abort(&format!("{}: {}", self.identity(), error.message()));
    }
}

impl ProcessGroup {
    /// Reserve the turn of a collective that runs later. Return its sequence number. Each reserved turn must be
    /// [used](ProcessGroup::run_reserved) or [given up](ProcessGroup::give_up), since later collectives wait for it.
    ///
    /// # Errors
    /// Fails if the group is broken.
    pub fn reserve(&self) -> Result<u64> {
        self.0.expect_whole()?;
        Ok(self.0.turn.reserve())
    }

    /// Run a collective whose turn was reserved.
    ///
    /// # Errors
    /// Fails as [`ProcessGroup::run`].
    pub fn run_reserved(&self, ticket: u64, request: &Request, input: &[u8], output: &mut [u8]) -> Result<()> {
        let group = &*self.0;
        if let Err(error) = group.check(request, input.len(), output.len()) {
            self.give_up(ticket, &error);
            return Err(error);
        }
        let entry = group.record(request, ticket, [input.len(), output.len()]);
        group
            .in_turn(request, ticket, |ready| ready.and_then(|()| group.perform(request, ticket, entry, input, output)))
    }

    /// Note that a device runs a collective whose turn was reserved. Its turn passes.
    pub fn pass(&self, ticket: u64) {
        self.0.turn.pass(ticket);
    }

    /// Fail if the collectives up to `sequence`, which a device has run for `time`, cannot end.
    ///
    /// # Errors
    /// `DistBackend` if a rank is gone or has stopped the group, and after the timeout. The group is broken then.
    pub(crate) fn check_launched(&self, sequence: u64, line: Option<&str>, time: Duration) -> Result<()> {
        let group = &*self.0;
        group.expect_whole()?;
        let timeout = *group.timeout.lock();
        let is_dead = |&rank: &usize| rank != group.rank && group.transport.is_dead(rank);
        let text = if let Some(error) = group.abortion() {
            error.message().to_string()
        } else if let Some(rank) = (0..group.size).find(is_dead) {
            let place = group.transport.place(rank).map_or_else(String::new, |place| format!(" ({place})"));
            format!("Rank {}{place} has died", group.name_of(rank))
        } else if let Some(text) = group.absence_at(sequence) {
            text
        } else if time > timeout {
            format!(
                "Watchdog caught collective operation timeout: a program with collectives, the last with \
                 SeqNum={sequence}, ran on the device for {} milliseconds before timing out.",
                time.as_millis()
            )
        } else {
            return Ok(());
        };
        let mut error = Error::new(ErrorKind::DistBackend, text).note(group.identity());
        if let Some(line) = line {
            error = error.note(format!("rank {} called the last collective of the program at {line}", group.rank));
        }
        group.post_abort(&error.to_string());
        group.break_with(&error);
        Err(error)
    }

    /// Break the group, because a collective whose turn was reserved will not run. Do nothing if it has run.
    pub fn give_up(&self, ticket: u64, why: &Error) {
        let group = &*self.0;
        if group.turn.has_passed(ticket) || group.broken.load(Ordering::Acquire) {
            return;
        }
        let notes = if why.notes().is_empty() { String::new() } else { format!(" ({})", why.notes().join(", ")) };
        let text = format!("a collective (sequence number {ticket}) did not run: {}{notes}", why.message());
        group.stop(&Error::new(ErrorKind::DistBackend, text));
    }
}
