//! Collectives of programs on XLA:CPU.
//!
//! A program runs a collective by a custom call. The calls of a program are chained by a token, and so are programs:
//! each takes the token that the one before it returns. So the collectives of a process run in the order in which they
//! were recorded, and a program that waits for its turn holds no thread.

use crate::failure::Failure;
use crate::kernels;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};
use torchtpu_pjrt::{Buffer, CallFrame, Client, CustomCall, ElementType, Event};
use torchtpu_tensor::comm::{self, Ticket};
use torchtpu_tensor::ops::collective;

struct Collectives;

impl CustomCall for Collectives {
    const TARGET: &'static str = collective::TARGET;

    fn call(mut frame: CallFrame<'_>) -> Result<(), String> {
        let ([x, ticket, _], [y, token]) = (&frame.operands[..], &mut frame.results[..]) else {
            return Err("a collective has three operands and two results".to_string());
        };
        token.bytes.fill(0);
        let ticket = i64::from_ne_bytes(ticket.bytes.try_into().map_err(|_| "the ticket is no int64")?);
        let (dtype, sizes) = (kernels::dtype(x.element_type)?, kernels::sizes(x.dims)?);
        let result = collective::run(frame.kernel, frame.numbers, ticket, dtype, sizes, x.bytes, y.bytes);
        result.map_err(|e| keep(Failure::of(&e)))
    }
}

/// Register the collectives with the plugin of a cpu client. A plugin without FFI refuses the programs that call them.
pub(crate) fn register(client: &Client) {
    let _ = client.register_custom_call::<Collectives>();
}

/// The last failures of collectives. The plugin passes only a text to the readers of a program's results, which is not
/// the whole error.
static FAILURES: Mutex<BTreeMap<u64, Failure>> = Mutex::new(BTreeMap::new());
const MAX_FAILURES: usize = 64;
const MARK: &str = "torchtpu collective failure ";

static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Whether a collective of a program has ever failed in this process.
pub(crate) fn has_failed() -> bool {
    HAS_FAILED.load(Relaxed)
}

/// Keep a failure, and return the text that finds it.
fn keep(failure: Failure) -> String {
    HAS_FAILED.store(true, Relaxed);
    let mut failures = FAILURES.lock();
    let number = failures.keys().next_back().map_or(0, |n| n + 1);
    let text = format!("{MARK}{number}: {}", failure.message);
    failures.insert(number, failure);
    if failures.len() > MAX_FAILURES {
        failures.pop_first();
    }
    text
}

/// Return the failure of a collective that an error of the plugin tells of.
pub(crate) fn find_failure(text: &str) -> Option<Failure> {
    let number = text.split_once(MARK)?.1.split(':').next()?.parse().ok()?;
    FAILURES.lock().get(&number).cloned()
}

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

/// The token of the last launched program with collectives.
#[derive(Default)]
pub(crate) struct Chain {
    last: Mutex<Option<Arc<Buffer>>>,
    /// A token that depends on nothing.
    first: Mutex<Option<Arc<Buffer>>>,
}

impl Chain {
    /// Return the token for the next program. A program that has ended, well or not, needs no successor.
    pub(crate) fn token(&self, client: &Arc<Client>) -> torchtpu_pjrt::Result<Arc<Buffer>> {
        if let Some(last) = &*self.last.lock()
            && !last.is_ready().unwrap_or(true)
        {
            return Ok(last.clone());
        }
        let mut first = self.first.lock();
        if let Some(token) = &*first {
            return Ok(token.clone());
        }
        let token = Arc::new(client.buffer_from_host(&0i32.to_ne_bytes(), ElementType::S32, &[])?);
        *first = Some(token.clone());
        Ok(token)
    }

    /// Set the token of the program that was launched last.
    pub(crate) fn set(&self, token: Buffer) {
        *self.last.lock() = Some(Arc::new(token));
    }

    /// Return whether a launched program with collectives has not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.last.lock().as_ref().is_some_and(|last| !last.is_ready().unwrap_or(true))
    }

    /// Wait until the collectives of all launched programs have run, or the user interrupts.
    pub(crate) fn wait(&self) {
        let last = self.last.lock().clone();
        if let Some(last) = last {
            // A read of the program's results raises its error. After an interrupt the groups are broken.
            let _ = await_buffer(&last);
        }
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

/// Give up the collectives of a launched program if the program fails before it reaches them.
pub(crate) fn watch(token: &Buffer, tickets: Vec<Ticket>) {
    let Ok(event) = token.ready_event() else { return };
    let event = Arc::new(event);
    let ended = event.clone();
    let told = event.on_ready(move || {
        if let Err(e) = ended.await_ready() {
            give_up(&tickets, &Failure::device("executing on device tpu", &e));
        }
    });
    // Without a callback, the other ranks find out by their timeout.
    drop(told);
}
