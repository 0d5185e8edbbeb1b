//! Segments with collectives: when they are launched, and which turns they have.

use super::{Body, Engine, Recording, Segment};
use crate::collectives::{Turn, is_device_running, poll_until};
use crate::cut::CutReason;
use crate::form::Source;
use crate::xla_cpu::collectives::Chain;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Once;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use torchtpu_tensor::DType;
use torchtpu_tensor::comm::Ticket;

/// A thread that launches collectives which were recorded and then left alone. The recording thread may compute on the
/// host, or wait for another process in a way that this library does not see, while other ranks wait for it.
#[derive(Default)]
pub(super) struct Peers {
    /// Whether the thread looks at the streams.
    is_on: AtomicBool,
    is_needed: Mutex<bool>,
    changed: Condvar,
}

static START: Once = Once::new();

/// Time between two looks. A segment that has not grown between two looks is launched.
const PERIOD: Duration = Duration::from_millis(500);

impl Peers {
    /// Note that a collective was recorded. The caller holds the lock of the recording.
    #[inline]
    pub(super) fn watch(&self) {
        if !self.is_on.swap(true, Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        *self.is_needed.lock() = true;
        self.changed.notify_one();
        START.call_once(|| {
            let run = || crate::engine().look_after_peers();
            // Without the thread, peers wait until this process reads a value or waits for them.
            let _ = std::thread::Builder::new().name("torchtpu-peers".into()).spawn(run);
        });
    }
}

/// A segment that is being recorded: its stream, its number, and its number of ops.
type Seen = (usize, u64, usize);

impl Engine {
    fn look_after_peers(&self) {
        let mut seen: Vec<Seen> = Vec::new();
        loop {
            {
                let mut is_needed = self.peers.is_needed.lock();
                while !*is_needed {
                    self.peers.changed.wait(&mut is_needed);
                }
                *is_needed = false;
            }
            loop {
                std::thread::sleep(PERIOD);
                let mut guard = self.recording.lock();
                let now: Vec<Seen> = guard.with_effects();
                let idle: Vec<usize> = now.iter().filter(|s| seen.contains(s)).map(|s| s.0).collect();
                let segments: Vec<Segment> =
                    idle.into_iter().filter_map(|id| self.take(&mut guard, id, CutReason::Collective)).collect();
                seen = now;
                if seen.is_empty() {
                    self.peers.is_on.store(false, Relaxed);
                    break;
                }
                drop(guard);
                for segment in segments {
                    // A read of the values raises the failure.
                    let _ = self.run(segment);
                }
            }
        }
    }

    /// See [`Backend::launch_collectives`](torchtpu_tensor::backend::Backend::launch_collectives).
    pub(crate) fn launch_collectives(&self) {
        if torchtpu_pjrt::is_forked() {
            return;
        }
        let mut guard = self.recording.lock();
        let segments: Vec<Segment> = guard
            .with_effects()
            .into_iter()
            .filter_map(|(id, ..)| self.take(&mut guard, id, CutReason::Collective))
            .collect();
        drop(guard);
        for segment in segments {
            // A read of the values raises the failure.
            let _ = self.run(segment);
        }
    }

    /// See [`Backend::finish_collectives`](torchtpu_tensor::backend::Backend::finish_collectives).
    pub(crate) fn finish_collectives(&self) {
        self.launch_collectives();
        if !torchtpu_pjrt::is_forked() {
            // Another thread may have cut a segment, and not launched it yet.
            let turn = Turn::take();
            let may_come = poll_until(|| turn.has_come()).is_ok();
            if !may_come && is_device_running() {
                return;
            }
            turn.wait();
        }
        self.await_background(false);
        if !torchtpu_pjrt::is_forked() {
            Chain::wait(&self.chain);
        }
    }

    /// Cut the segments of other threads that have collectives, before the current thread records one. The collectives
    /// of a process run in the order in which they were recorded.
    #[cold]
    pub(super) fn cut_others<'a>(
        &'a self,
        mut guard: MutexGuard<'a, Recording>,
        own: usize,
    ) -> MutexGuard<'a, Recording> {
        for (id, ..) in guard.with_effects().into_iter().filter(|s| s.0 != own) {
            if let Some(segment) = self.take(&mut guard, id, CutReason::Collective) {
                // A read of the values raises the failure.
                let _ = MutexGuard::unlocked(&mut guard, || self.run(segment));
            }
        }
        guard
    }
}

impl Recording {
    /// Return the segments that have recorded effects.
    fn with_effects(&self) -> Vec<Seen> {
        let streams = self.streams.iter().enumerate().filter(|(_, s)| s.body.has_effects);
        streams.map(|(id, s)| (id, s.serial, s.body.form.nodes.len())).collect()
    }
}

impl Body {
    /// Return the turns of the collectives. A ticket is the last operand of its op.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        let nodes = (0..self.form.nodes.len()).filter(|&n| self.form.nodes[n].op.facts().has_effects);
        nodes.filter_map(|n| self.ticket(n)).collect()
    }

    /// Return the turn of a collective.
    pub(super) fn ticket(&self, node: usize) -> Option<Ticket> {
        match self.form.inputs_of(node).last()?.source() {
            Source::Number(DType::I64, i) => {
                let bytes = self.numbers[DType::I64 as usize].get(i * size_of::<i64>()..)?.first_chunk()?;
                Some(Ticket::from_i64(i64::from_ne_bytes(*bytes)))
            }
            _ => None,
        }
    }
}
