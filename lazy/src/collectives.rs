//! Launches of programs with collectives: their order, and waits that a user can interrupt.

use crate::failure::Failure;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};
use torchtpu_pjrt::{Buffer, Event};
use torchtpu_tensor::comm::{self, Ticket};

/// The order of the launches of segments with collectives.
struct Order {
    /// The numbers of the segments that were cut and not launched, and the number of the last one.
    waiting: Mutex<(BTreeSet<u64>, u64)>,
    changed: Condvar,
}

static ORDER: Order = Order { waiting: Mutex::new((BTreeSet::new(), 0)), changed: Condvar::new() };

/// The place of a segment in the order, until it is launched or dropped.
pub(crate) struct Turn(u64);

impl Turn {
    /// Take the place after all segments so far. Call this in the order of the cuts.
    pub(crate) fn take() -> Turn {
        let mut waiting = ORDER.waiting.lock();
        waiting.1 += 1;
        let number = waiting.1;
        waiting.0.insert(number);
        Turn(number)
    }

    /// Whether the earlier segments are launched.
    pub(crate) fn has_come(&self) -> bool {
        ORDER.waiting.lock().0.first() == Some(&self.0)
    }

    /// Wait until the earlier segments are launched.
    pub(crate) fn wait(&self) {
        let mut waiting = ORDER.waiting.lock();
        while waiting.0.first().is_some_and(|first| *first < self.0) {
            ORDER.changed.wait(&mut waiting);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        ORDER.waiting.lock().0.remove(&self.0);
        ORDER.changed.notify_all();
    }
}

/// Wait for a buffer that may depend on a collective, and so on other processes. A failure is raised by the read that
/// follows.
///
/// # Errors
/// If the user interrupts the wait, or if the program cannot end.
pub(crate) fn await_buffer(buffer: &Buffer) -> torchtpu_tensor::Result<()> {
    buffer.ready_event().map_or(Ok(()), |event| await_event(&Arc::new(event)))
}

/// Wait for a program that may depend on other processes. Its error stays with its results.
///
/// # Errors
/// If the user interrupts the wait, or if the program cannot end. The groups are broken then. On XLA:CPU the program
/// ends soon.
pub(crate) fn await_event(event: &Arc<Event>) -> torchtpu_tensor::Result<()> {
    let Ok(comm) = comm::get() else { return Ok(()) };
    let (tell, told) = mpsc::channel();
    let asked = event.on_ready(move || {
        // The reader may have been interrupted.
        let _ = tell.send(());
    });
    while asked.is_ok() && told.recv_timeout(SLICE) == Err(mpsc::RecvTimeoutError::Timeout) {
        comm.check_interrupt()?;
    }
    Ok(())
}

/// Return whether a device runs a program whose collectives this process does not run itself.
pub(crate) fn is_device_running() -> bool {
    comm::get().is_ok_and(|comm| comm.is_device_running())
}

/// A launch whose collectives are the compiler's, for the communicator that watches it.
pub(crate) struct Watched(Arc<OnceLock<Option<Arc<Event>>>>);

impl Watched {
    /// Tell the communicator that a program is about to be launched.
    pub(crate) fn begin(tickets: &[Ticket]) -> Watched {
        let ended: Arc<OnceLock<Option<Arc<Event>>>> = Arc::default();
        let known = ended.clone();
        // A launch without an event has failed.
        let has_ended =
            move || known.get().is_some_and(|event| event.as_ref().is_none_or(|e| e.is_ready().unwrap_or(true)));
        if let Ok(comm) = comm::get() {
            comm.note_launch(tickets, Box::new(has_ended));
        }
        Watched(ended)
    }

    /// Set the event of the launched program.
    pub(crate) fn launched(&self, event: Arc<Event>) {
        self.0.get_or_init(|| Some(event));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.get_or_init(|| None);
    }
}

/// Wait for a launch that may depend on other processes.
///
/// # Errors
/// As [`await_event`].
pub(crate) fn poll_until(is_done: impl Fn() -> bool) -> torchtpu_tensor::Result<()> {
    let mut pause = Duration::from_micros(20);
    let mut asked = Instant::now();
    while !is_done() {
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
        if asked.elapsed() >= SLICE
            && let Ok(comm) = comm::get()
        {
            comm.check_interrupt()?;
            asked = Instant::now();
        }
    }
    Ok(())
}

/// Longest time between two looks at a launch.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// Time between two checks for an interrupt.
const SLICE: Duration = Duration::from_millis(100);

/// Tells the ranks that this process compiles a program, until dropped.
pub(crate) struct Compiling;

impl Compiling {
    pub(crate) fn begin() -> Option<Compiling> {
        comm::get().ok()?.note_compiling(true);
        Some(Compiling)
    }
}

impl Drop for Compiling {
    fn drop(&mut self) {
        if let Ok(comm) = comm::get() {
            comm.note_compiling(false);
        }
    }
}

/// Give up collectives that cannot run any more.
pub(crate) fn give_up(tickets: &[Ticket], failure: &Failure) {
    let Ok(comm) = comm::get() else { return };
    tickets.iter().for_each(|&ticket| comm.give_up(ticket, &failure.error()));
}
