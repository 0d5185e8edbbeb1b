//! Programs with collectives that a device runs. Their collectives are the compiler's, so this crate only watches them:
//! a program whose other ranks are gone does not end by itself.

use crate::group::ProcessGroup;
use crate::tensors::{find, line_of};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_tensor::Result;
use torchtpu_tensor::comm::Ticket;

/// Time between two looks at the store, so that many ranks do not burden it.
const PERIOD: Duration = Duration::from_secs(2);

/// A program, from its launch until it has ended.
struct Program {
    collectives: Vec<Collective>,
    has_ended: Box<dyn Fn() -> bool + Send + Sync>,
    /// When it was launched, or the program before it ended.
    since: Instant,
}

/// The last collective of a group in a program. It does not own its group: a group that is forgotten has waited for its
/// programs, and must close its links at once.
#[derive(Clone)]
struct Collective {
    ticket: Ticket,
    line: Option<Arc<str>>,
}

impl Collective {
    fn check(&self, with: impl FnOnce(&ProcessGroup) -> Result<()>) -> Result<()> {
        find(self.ticket.group()).map_or(Ok(()), |group| with(&group))
    }
}

#[derive(Default)]
struct Programs {
    /// In the order of their launches, which is that in which the device runs them.
    running: VecDeque<Program>,
    last_look: Option<Instant>,
}

static PROGRAMS: Mutex<Programs> = Mutex::new(Programs { running: VecDeque::new(), last_look: None });

impl Programs {
    fn forget_ended(&mut self) {
        while self.running.front().is_some_and(|program| (program.has_ended)()) {
            self.running.pop_front();
            if let Some(next) = self.running.front_mut() {
                next.since = Instant::now();
            }
        }
    }
}

/// Watch a program with the collectives of these tickets.
pub(crate) fn add(tickets: &[Ticket], has_ended: Box<dyn Fn() -> bool + Send + Sync>) {
    let mut collectives: Vec<Collective> = Vec::new();
    for &ticket in tickets.iter().rev().filter(|&&ticket| ticket != Ticket::NONE) {
        if collectives.iter().all(|c| c.ticket.group() != ticket.group()) {
            collectives.push(Collective { ticket, line: line_of(ticket) });
        }
    }
    let mut programs = PROGRAMS.lock();
    programs.forget_ended();
    programs.running.push_back(Program { collectives, has_ended, since: Instant::now() });
}

/// Return whether a program has not ended.
pub(crate) fn is_running() -> bool {
    let mut programs = PROGRAMS.lock();
    programs.forget_ended();
    !programs.running.is_empty()
}

/// Fail if the program that runs cannot end: if a rank of its groups is gone or has stopped, or after the timeout.
///
/// # Errors
/// `DistBackend`. The groups are broken then.
pub(crate) fn check() -> Result<()> {
    let (collectives, since) = {
        let mut programs = PROGRAMS.lock();
        programs.forget_ended();
        let Some(program) = programs.running.front() else { return Ok(()) };
        let (collectives, since) = (program.collectives.clone(), program.since);
        collectives.iter().try_for_each(|c| c.check(|group| group.group().expect_whole()))?;
        let looked = programs.last_look.map_or(since, |last| last.max(since));
        if looked.elapsed() < PERIOD {
            return Ok(());
        }
        programs.last_look = Some(Instant::now());
        (collectives, since)
    };
    collectives.iter().try_for_each(|c| {
        c.check(|group| group.check_launched(c.ticket.sequence(), c.line.as_deref(), since.elapsed()))
    })
}
