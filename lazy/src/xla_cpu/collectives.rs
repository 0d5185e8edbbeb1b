//! Collectives of programs on XLA:CPU.
//!
//! A program runs a collective by a custom call. The calls of a program are chained by a token, and so are programs:
//! each takes the token that the one before it returns. So the collectives of a process run in the order in which they
//! were recorded, and a program that waits for its turn holds no thread.

use super::kernels;
use crate::collectives::{await_buffer, give_up};
use crate::failure::Failure;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use torchtpu_pjrt::{Buffer, CallFrame, Client, CustomCall, ElementType};
use torchtpu_tensor::comm::Ticket;
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
