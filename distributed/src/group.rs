//! Process groups: [`ProcessGroup`] runs collectives in the order of their calls, and reports mistakes.
//!
//! A collective that the caller waits for runs on the caller's thread. One that the caller does not wait for runs on
//! the group's worker thread. Each has a sequence number, and the turn passes in its order.
//!
//! The first error breaks the group: its links close, so that ranks that wait for this one notice, and its text goes to
//! the store, so that they can report it. Later calls fail at once.

mod agreeing;
mod failure;
mod leaving;
mod planned;
mod reserved;
mod waiting;

use crate::agree::Agreement;
use crate::algo::{self, Call, Links};
use crate::message::{Messages, Outgoing, Wanted};
use crate::owner::Owner;
use crate::recorder::{Entry, Recorder, State};
use crate::request::{Op, Request};
use crate::store::{Store, check_interrupt};
use crate::tensors::launch_recorded;
use crate::transport::{Fault, Header, Meeting, Network, Transport, Watch, hash_text};
use crate::watch;
use crate::work::{Memory, Promise, Told, Work};
use failure::REASON_TIME;
use parking_lot::Mutex;
use reserved::Turn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};
use torchtpu_tensor::{DType, Error, ErrorKind, Result};
pub(crate) use waiting::Wait;

/// PyTorch's timeout of groups on `gloo`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Set in the tags of messages of this file.
const INTERNAL_TAG: u64 = 1 << 63;

/// How to make a [`ProcessGroup`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the group, the same on all ranks, and unique in the store.
    pub name: String,
    /// Limit of each collective.
    pub timeout: Duration,
    /// The global rank of each rank. Empty: they are equal.
    pub ranks: Vec<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options { name: "0".into(), timeout: DEFAULT_TIMEOUT, ranks: Vec::new() }
    }
}

/// Ranks that do collectives together. Clones are the same group.
#[derive(Clone)]
pub struct ProcessGroup(Arc<Group>);

pub(crate) struct Group {
    pub(crate) name: Arc<str>,
    pub(crate) rank: usize,
    size: usize,
    id: u32,
    ranks: Vec<usize>,
    timeout: Mutex<Duration>,
    pub(crate) meeting: Meeting,
    network: Arc<dyn Network>,
    transport: Arc<dyn Transport>,
    turn: Turn,
    links: Mutex<Links>,
    messages: Mutex<Messages>,
    /// Whether a thread of its own moves the messages of calls that returned before they were done.
    has_driver: AtomicBool,
    message_count: AtomicU64,
    /// The last collective. The recorder may drop its entry, because all groups of the process share it.
    pub(crate) last: Mutex<Option<Entry>>,
    /// When the collective that runs began.
    running_since: Mutex<Option<Instant>>,
    /// The rank that the collective which runs waits for, or [`usize::MAX`].
    awaited: AtomicUsize,
    /// The collective that ended by its timeout, and when.
    timed_out: Mutex<Option<(Instant, Wait)>>,
    pub(crate) broken: AtomicBool,
    failure: Mutex<Option<Told>>,
    worker: Mutex<Option<mpsc::Sender<Job>>>,
    /// Jobs of the worker that have not ended.
    in_flight: AtomicUsize,
    owner: Owner,
    /// Whether the others were told that this rank leaves.
    has_left: AtomicBool,
    children: AtomicU64,
    barriers: AtomicU64,
    /// Until when a timeout does not count: see [`watch`].
    pub(crate) excused_until: Mutex<Option<Instant>>,
    /// The group through which the ranks agree about programs, made at first use.
    agreement: Mutex<Option<Arc<Agreement>>>,
    /// Whether only this rank exists.
    is_planned: bool,
    /// Whether the host has fewer cores than ranks.
    is_crowded: bool,
}

struct Job {
    group: Arc<Group>,
    ticket: u64,
    entry: u64,
    request: Request,
    input: Option<Box<dyn Memory>>,
    output: Box<dyn Memory>,
    promise: Promise,
}

impl ProcessGroup {
    /// Make the group of `size` ranks that meet in `store`. This rank is `rank`. Links are made at first use, so the
    /// call does not wait for the others.
    ///
    /// # Errors
    /// Fails if `rank` or `options.ranks` do not fit `size`, if the operating system refuses a socket, and if the store
    /// fails.
    pub fn new(
        store: Arc<dyn Store>,
        network: Arc<dyn Network>,
        rank: usize,
        size: usize,
        options: Options,
    ) -> Result<ProcessGroup> {
        ProcessGroup::make(store, network, rank, size, options, false)
    }

    fn make(
        store: Arc<dyn Store>,
        network: Arc<dyn Network>,
        rank: usize,
        size: usize,
        options: Options,
        is_planned: bool,
    ) -> Result<ProcessGroup> {
        if rank >= size {
            return Err(Error::value(format!("ProcessGroup: rank: {rank}, must be less than size {size}")));
        }
        let ranks = if options.ranks.is_empty() { (0..size).collect() } else { options.ranks };
        if ranks.len() != size {
            return Err(Error::value(format!("ProcessGroup: ranks: {} of them, must be {size}", ranks.len())));
        }
        let meeting = Meeting { store, prefix: format!("group/{}", options.name), rank, size };
        let transport = network.open(meeting.clone())?;
        let id = hash_text(&options.name) as u32;
        let told = format!("rank {rank} of group {}", options.name);
        let messages = Mutex::new(Messages::new(id, told, meeting.clone(), transport.clone()));
        let group = Arc::new(Group {
            name: options.name.into(),
            rank,
            size,
            id,
            ranks,
            timeout: Mutex::new(options.timeout),
            meeting,
            network,
            turn: Turn::default(),
            links: Mutex::new(Links::new(rank, size, transport.clone())),
            messages,
            transport,
            has_driver: AtomicBool::new(false),
            message_count: AtomicU64::new(0),
            last: Mutex::new(None),
            running_since: Mutex::new(None),
            awaited: AtomicUsize::new(usize::MAX),
            timed_out: Mutex::new(None),
            broken: AtomicBool::new(false),
            failure: Mutex::new(None),
            worker: Mutex::new(None),
            in_flight: AtomicUsize::new(0),
            owner: Owner::new(),
            has_left: AtomicBool::new(false),
            children: AtomicU64::new(0),
            barriers: AtomicU64::new(0),
            excused_until: Mutex::new(None),
            agreement: Mutex::new(None),
            is_planned,
            is_crowded: waiting::is_crowded(size),
        });
        watch::add(&group);
        Ok(ProcessGroup(group))
    }

    /// Return the name of the group, the same on all ranks.
    pub fn name(&self) -> &str {
        &self.0.name
    }
    /// Return this rank within the group.
    pub fn rank(&self) -> usize {
        self.0.rank
    }
    /// Return the number of ranks.
    pub fn size(&self) -> usize {
        self.0.size
    }
    /// Return the global rank of each rank.
    pub fn ranks(&self) -> &[usize] {
        &self.0.ranks
    }
    /// Return the limit of each collective.
    pub fn timeout(&self) -> Duration {
        *self.0.timeout.lock()
    }
    /// Set the limit of later collectives.
    pub fn set_timeout(&self, timeout: Duration) {
        *self.0.timeout.lock() = timeout;
    }
    /// Return the number of collectives called so far.
    pub fn sequence(&self) -> u64 {
        self.0.turn.next()
    }

    /// Run a collective, and wait for it. [`Op`] says what `input` and `output` are.
    ///
    /// # Errors
    /// Fails if lengths or root do not fit, if another rank is in another call, after the timeout, and if a rank is
    /// gone. All but the first break the group.
    pub fn run(&self, request: &Request, input: &[u8], output: &mut [u8]) -> Result<()> {
        let group = &*self.0;
        group.check(request, input.len(), output.len())?;
        launch_recorded();
        let ticket = group.turn.reserve();
        let entry = group.record(request, ticket, [input.len(), output.len()]);
        group
            .in_turn(request, ticket, |ready| ready.and_then(|()| group.perform(request, ticket, entry, input, output)))
    }

    /// Begin a collective on the worker thread. [`Work::result`] returns `output`. `input` is `None` if the op has no
    /// input.
    ///
    /// # Errors
    /// Fails if lengths or root do not fit, and if the group is broken. [`Work::wait`] returns the other errors.
    pub fn start(&self, request: Request, input: Option<Box<dyn Memory>>, output: Box<dyn Memory>) -> Result<Work> {
        let group = &self.0;
        let input_bytes = input.as_ref().map_or(0, |i| i.bytes().len());
        group.check(&request, input_bytes, output.bytes().len())?;
        launch_recorded();
        let promise = Promise::new(request.op.name());
        let work = promise.work();
        // The worker gets its jobs in the order of tickets.
        let mut worker = group.worker.lock();
        let jobs = match &*worker {
            Some(jobs) => jobs.clone(),
            None => worker.insert(spawn_worker(&group.name)?).clone(),
        };
        let ticket = group.turn.reserve();
        let entry = group.record(&request, ticket, [input_bytes, output.bytes().len()]);
        let job = Job { group: group.clone(), ticket, entry, request, input, output, promise };
        group.in_flight.fetch_add(1, Ordering::AcqRel);
        if jobs.send(job).is_err() {
            group.in_flight.fetch_sub(1, Ordering::AcqRel);
            return Err(Error::runtime("the worker thread of the group has ended"));
        }
        Ok(work)
    }

    /// Wait until all ranks are here.
    ///
    /// # Errors
    /// Fails as [`ProcessGroup::run`].
    pub fn barrier(&self) -> Result<()> {
        self.run(&Request::new(Op::Barrier, DType::U8, &[]), &[], &mut [])
    }

    /// Send a message, and wait until it has left.
    ///
    /// # Errors
    /// Fails if the rank does not exist, after the timeout, and if the peer is gone.
    pub fn send(&self, to: usize, tag: u32, dtype: DType, bytes: &[u8]) -> Result<()> {
        self.send_tagged(to, tag.into(), dtype, bytes.to_vec(), self.timeout())
    }

    /// Receive a message of rank `from`, or of any rank, and wait for it. Return the rank it came from.
    ///
    /// # Errors
    /// Fails if the rank does not exist, if the message has another dtype or length, after the timeout, and if the peer
    /// is gone.
    pub fn recv(&self, from: Option<usize>, tag: u32, dtype: DType, to: &mut [u8]) -> Result<usize> {
        let (work, memory) = self.recv_tagged(from, tag.into(), dtype, to.len(), self.timeout())?;
        to.copy_from_slice(memory.bytes());
        Ok(work.source().expect("a received message has a source"))
    }

    /// Begin to send a message.
    ///
    /// # Errors
    /// Fails if the rank does not exist. [`Work::wait`] returns the other errors.
    pub fn isend(&self, to: usize, tag: u32, dtype: DType, bytes: Vec<u8>) -> Result<Work> {
        let work = self.post_send(to, tag.into(), dtype, bytes, self.timeout())?;
        self.drive_messages();
        Ok(work)
    }

    /// Begin to receive a message of rank `from`, or of any rank. [`Work::result`] returns `output`.
    ///
    /// # Errors
    /// Fails if the rank does not exist. [`Work::wait`] returns the other errors.
    pub fn irecv(&self, from: Option<usize>, tag: u32, dtype: DType, output: Box<dyn Memory>) -> Result<Work> {
        let work = self.post_recv(from, tag.into(), dtype, output, self.timeout())?;
        self.drive_messages();
        Ok(work)
    }

    fn post_send(&self, to: usize, tag: u64, dtype: DType, payload: Vec<u8>, timeout: Duration) -> Result<Work> {
        let group = &*self.0;
        group.check_peer("send", Some(to))?;
        launch_recorded();
        group.record_message("send", tag, dtype, [payload.len(), 0]);
        let promise = Promise::new("send");
        let work = promise.work();
        if group.is_planned {
            promise.finish(Ok(Box::new(payload)));
            return Ok(work);
        }
        let deadline = Instant::now() + timeout;
        group.messages.lock().send(to, Outgoing { tag, dtype, payload, deadline, promise });
        Ok(work)
    }

    fn post_recv(
        &self,
        from: Option<usize>,
        tag: u64,
        dtype: DType,
        output: Box<dyn Memory>,
        timeout: Duration,
    ) -> Result<Work> {
        let group = &*self.0;
        group.check_peer("recv", from)?;
        if group.is_planned {
            let any = || Error::not_implemented("recv: a planned group has no other rank that sends");
            return Err(from.map_or_else(any, |rank| planned::absent("recv", rank)));
        }
        launch_recorded();
        group.record_message("recv", tag, dtype, [0, output.bytes().len()]);
        let promise = Promise::new("recv");
        let work = promise.work();
        let deadline = Instant::now() + timeout;
        group.messages.lock().receive(Wanted { from, tag, dtype, output, deadline, promise });
        Ok(work)
    }

    fn send_tagged(&self, to: usize, tag: u64, dtype: DType, payload: Vec<u8>, timeout: Duration) -> Result<()> {
        let work = self.post_send(to, tag, dtype, payload, timeout)?;
        self.0.drive_until(|| work.is_completed())?;
        work.wait(Some(Duration::ZERO))
    }

    fn recv_tagged(
        &self,
        from: Option<usize>,
        tag: u64,
        dtype: DType,
        bytes: usize,
        timeout: Duration,
    ) -> Result<(Work, Box<dyn Memory>)> {
        let work = self.post_recv(from, tag, dtype, Box::new(vec![0u8; bytes]), timeout)?;
        self.0.drive_until(|| work.is_completed())?;
        work.wait(Some(Duration::ZERO))?;
        let memory = work.result().expect("a receive that ended well has its output");
        Ok((work, memory))
    }

    /// Let a thread move messages until none is left.
    fn drive_messages(&self) {
        if self.0.has_driver.swap(true, Ordering::AcqRel) {
            return;
        }
        let group = self.0.clone();
        std::thread::spawn(move || {
            loop {
                // Errors are those of an interrupt, which the main thread raises.
                let _ = group.drive_until(|| group.messages.lock().is_idle());
                group.has_driver.store(false, Ordering::Release);
                // A message that was added before the flag fell needs this thread.
                if group.messages.lock().is_idle() || group.has_driver.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }

    /// Wait until all ranks are here, and name the ranks that are not. Rank 0 finds out, and tells the others. With
    /// `wait_all`, rank 0 waits for all ranks before it fails, else it fails at the first that is late.
    ///
    /// # Errors
    /// Fails on every rank that is here if one is not within `timeout`. The group stays usable.
    pub fn monitored_barrier(&self, timeout: Duration, wait_all: bool) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        if self.is_planned() {
            return self.0.expect_whole();
        }
        let tag = INTERNAL_TAG | self.0.barriers.fetch_add(1, Ordering::Relaxed);
        let millis = timeout.as_millis();
        if rank != 0 {
            self.send_tagged(0, tag, DType::U8, Vec::new(), timeout)?;
            // Rank 0 may need the whole timeout before it answers.
            let patience = timeout + REASON_TIME;
            // One bit for each rank that is missing.
            let answer = self.recv_tagged(Some(0), tag, DType::U8, size, patience);
            let late = answer.map_err(|e| {
                let text = format!("[Rank {rank}]: Rank 0 failed to pass monitoredBarrier in {millis} ms");
                Error::new(ErrorKind::DistBackend, text).note(e.to_string()).note(self.0.identity())
            })?;
            let late: Vec<usize> = (0..size).filter(|&r| late.1.bytes()[r] != 0).collect();
            return if late.is_empty() { Ok(()) } else { Err(self.0.late(&late, millis)) };
        }
        let end = Instant::now() + timeout;
        let mut late = vec![0u8; size];
        for (from, is_late) in late.iter_mut().enumerate().skip(1) {
            let left = end.saturating_duration_since(Instant::now());
            *is_late = self.recv_tagged(Some(from), tag, DType::U8, 0, left).is_err().into();
            if *is_late != 0 && !wait_all {
                break;
            }
        }
        for to in 1..size {
            if late[to] == 0 {
                // A rank that has gone since does not need the answer.
                let _ = self.post_send(to, tag, DType::U8, late.clone(), timeout);
            }
        }
        self.drive_messages();
        let late: Vec<usize> = (0..size).filter(|&r| late[r] != 0).collect();
        if late.is_empty() { Ok(()) } else { Err(self.0.late(&late, millis)) }
    }

    /// Make a group of some of the ranks. All ranks of this group call it with the same `ranks`, those of this group.
    /// Return `None` on the others.
    ///
    /// # Errors
    /// Fails if ranks are doubled or do not exist, and on every rank if the ranks give different lists.
    pub fn new_group(&self, ranks: &[usize], timeout: Option<Duration>) -> Result<Option<ProcessGroup>> {
        self.split_group(std::slice::from_ref(&ranks.to_vec()), timeout)
    }

    /// Split the group. All ranks call it with the same lists of ranks, which do not overlap. Return the group of the
    /// list that has this rank, or `None`.
    ///
    /// # Errors
    /// Fails if lists overlap or name ranks that do not exist, and on every rank if the ranks give different lists.
    pub fn split_group(&self, lists: &[Vec<usize>], timeout: Option<Duration>) -> Result<Option<ProcessGroup>> {
        let mut seen = vec![false; self.size()];
        for &rank in lists.iter().flatten() {
            let Some(seen) = seen.get_mut(rank) else {
                let size = self.size();
                return Err(Error::value(format!("new_group: ranks: rank {rank}, must be less than {size}")));
            };
            if std::mem::replace(seen, true) {
                return Err(Error::value(format!("new_group: ranks: rank {rank} occurs twice")));
            }
        }
        if lists.iter().any(Vec::is_empty) {
            return Err(Error::value("new_group: ranks: an empty list, must have at least one rank"));
        }
        let text = format!("{lists:?}");
        self.run(&Request::new(Op::Agree { text }, DType::U8, &[]), &[], &mut [])?;
        // All ranks have made the same groups so far, else one of these calls had failed.
        let child = self.0.children.fetch_add(1, Ordering::Relaxed);
        for (at, list) in lists.iter().enumerate() {
            let Some(rank) = list.iter().position(|&r| r == self.rank()) else { continue };
            let options = Options {
                name: format!("{}.{child}.{at}", self.name()),
                timeout: timeout.unwrap_or_else(|| self.timeout()),
                ranks: list.iter().map(|&r| self.0.ranks[r]).collect(),
            };
            let (store, network) = (self.0.meeting.store.clone(), self.0.network.clone());
            return ProcessGroup::make(store, network, rank, list.len(), options, self.0.is_planned).map(Some);
        }
        Ok(None)
    }

    /// Break the group: end what waits with an error that says `reason`, on all ranks. Do nothing if it is broken.
    pub fn abort(&self, reason: &str) {
        let group = &*self.0;
        if !group.owner.is_here() || group.failure.lock().is_some() {
            return;
        }
        // A rank that fails because another one did hands on the first cause, and not the way that it came.
        let cause = reason.rfind(ABORTED).map_or(reason, |at| &reason[at + ABORTED.len()..]);
        let text = format!("{}{ABORTED}{cause}", group.identity());
        group.break_with(&Error::new(ErrorKind::DistBackend, text.as_str()));
        group.post_abort(&text);
    }
}

/// Stands between a rank and the reason why it aborted a group.
const ABORTED: &str = " was aborted: ";

fn spawn_worker(name: &str) -> Result<mpsc::Sender<Job>> {
    let (jobs, queue) = mpsc::channel::<Job>();
    let run = move || {
        for job in queue {
            let Job { group, ticket, entry, request, input, mut output, promise } = job;
            let input = input.as_ref().map_or(&[][..], |i| i.bytes());
            // The turn passes after the promise is kept: a later call that ends has seen this one end.
            group.in_turn(&request, ticket, |ready| {
                let result = ready.and_then(|()| group.perform(&request, ticket, entry, input, output.bytes_mut()));
                promise.finish(result.map(|()| output));
            });
            group.in_flight.fetch_sub(1, Ordering::AcqRel);
        }
    };
    let thread = std::thread::Builder::new().name(format!("group-{name}"));
    thread.spawn(run).map_err(|e| Error::runtime(format!("the worker thread of a group cannot start: {e}")))?;
    Ok(jobs)
}

impl Group {
    /// Return group and rank, for messages.
    fn identity(&self) -> String {
        format!("Rank {} of group {}", self.name_of(self.rank), self.shown_name())
    }

    /// Return a rank, with its global rank if that differs.
    fn name_of(&self, rank: usize) -> String {
        match self.ranks.get(rank) {
            Some(&global) if global != rank => format!("{rank} (global rank {global})"),
            _ => rank.to_string(),
        }
    }

    fn late(&self, ranks: &[usize], millis: u128) -> Error {
        let names: Vec<String> = ranks.iter().map(|&r| self.name_of(r)).collect();
        let noun = if ranks.len() == 1 { "Rank" } else { "Ranks" };
        let text = match millis {
            // No rank had time to come.
            0 if self.rank == 0 => "Rank 0 timed out in monitoredBarrier after 0 ms".to_owned(),
            _ => format!("{noun} {} failed to pass monitoredBarrier in {millis} ms", names.join(", ")),
        };
        let error = Error::new(ErrorKind::DistBackend, format!("[Rank {}]: {text}", self.rank));
        if self.rank == 0 {
            return error.note(self.identity());
        }
        // PyTorch's words for the ranks that rank 0 has told.
        error.note(format!(
            "Rank {} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank \
             0",
            self.rank
        ))
    }

    fn check(&self, request: &Request, input: usize, output: usize) -> Result<()> {
        request.check(self.rank, self.size, input, output)?;
        request.combine()?;
        self.expect_whole()
    }

    fn watch(&self, deadline: Instant) -> Watch<'_> {
        self.awaited.store(usize::MAX, Ordering::Relaxed);
        Watch {
            deadline,
            broken: &self.broken,
            excused_until: &self.excused_until,
            awaited: &self.awaited,
            is_crowded: self.is_crowded,
        }
    }

    /// Whether a collective has run for longer than `time`, or a message waits.
    pub(crate) fn has_waited(&self, time: Duration) -> bool {
        self.running_since.lock().is_some_and(|start| start.elapsed() > time) || !self.messages.lock().is_idle()
    }

    /// How long the collective that runs has been running.
    pub(crate) fn running_for(&self) -> Option<Duration> {
        self.running_since.lock().map(|start| start.elapsed())
    }

    /// Return a text that names a rank that has left before the collective that runs, if there is one.
    pub(crate) fn absence(&self) -> Option<String> {
        let running = self.running_since.lock().map(|_| self.turn.current())?;
        self.absence_at(running)
    }

    /// Return a text that names a rank that has left before the collective `running`, if there is one.
    fn absence_at(&self, running: u64) -> Option<String> {
        self.meeting.find("left").ok()??;
        (0..self.size).filter(|&rank| rank != self.rank).find_map(|rank| {
            let called = self.meeting.find(&format!("left/{rank}")).ok()??;
            let called: u64 = std::str::from_utf8(&called).ok()?.parse().ok()?;
            (called <= running).then(|| format!("Rank {} has left the group", self.name_of(rank)))
        })
    }

    /// Return the error with which a rank has stopped the group, if one has.
    pub(crate) fn abortion(&self) -> Option<Error> {
        let text = self.meeting.find("abort").ok()??;
        Some(Error::new(ErrorKind::DistBackend, String::from_utf8_lossy(&text)))
    }

    /// Tell the receives that wait which ranks have left.
    pub(crate) fn note_absent_senders(&self) {
        let awaited = self.messages.lock().awaited();
        if awaited.is_empty() || !matches!(self.meeting.find("left"), Ok(Some(_))) {
            return;
        }
        for rank in awaited {
            if matches!(self.meeting.find(&format!("left/{rank}")), Ok(Some(_))) {
                self.messages.lock().note_left(rank);
            }
        }
    }

    /// Fail if the group is broken.
    pub(crate) fn expect_whole(&self) -> Result<()> {
        if !self.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        let known = self.failure.lock().as_ref().map(|told| told.message().to_string());
        let told = || self.abortion().map(|error| error.message().to_string());
        let reason = known.or_else(told).unwrap_or_else(|| "another rank stopped it".into());
        let name = self.shown_name();
        let text = format!("The process group {name} is broken, because an earlier call failed: {reason}");
        Err(Error::new(ErrorKind::DistBackend, text).note("make a new group, or restart the processes"))
    }

    fn check_peer(&self, op: &str, peer: Option<usize>) -> Result<()> {
        self.expect_whole()?;
        match peer {
            Some(peer) if peer >= self.size => {
                Err(Error::value(format!("{op}: rank: {peer}, must be less than {}", self.size)))
            }
            Some(peer) if peer == self.rank => {
                Err(Error::value(format!("{op}: rank: {peer} is this rank, must be another one")))
            }
            _ => Ok(()),
        }
    }

    fn record(&self, request: &Request, sequence: u64, bytes: [usize; 2]) -> u64 {
        let entry = Entry {
            id: 0,
            group: self.name.clone(),
            rank: self.rank,
            size: self.size,
            sequence,
            is_message: false,
            op: request.op.name(),
            dtype: request.dtype,
            shape: request.shape.clone(),
            bytes,
            line: request.line.clone(),
            state: State::Scheduled,
            timeout: request.timeout.unwrap_or_else(|| *self.timeout.lock()),
            created: SystemTime::now(),
            started: None,
            ended: None,
        };
        *self.last.lock() = Some(entry.clone());
        Recorder::global().add(entry)
    }

    /// Note how far a collective is.
    fn set_state(&self, entry: u64, sequence: u64, state: State) {
        Recorder::global().set(entry, state);
        if let Some(last) = self.last.lock().as_mut().filter(|last| last.sequence == sequence) {
            last.state = state;
        }
        *self.running_since.lock() = (state == State::Started).then(Instant::now);
    }

    fn record_message(&self, op: &'static str, tag: u64, dtype: DType, bytes: [usize; 2]) {
        if tag & INTERNAL_TAG != 0 {
            return;
        }
        let sequence = self.message_count.fetch_add(1, Ordering::Relaxed);
        let shape = vec![bytes.iter().sum::<usize>() / dtype.size_bytes()];
        let id = Recorder::global().add(Entry {
            id: 0,
            group: self.name.clone(),
            rank: self.rank,
            size: self.size,
            sequence,
            is_message: true,
            op,
            dtype,
            shape,
            bytes,
            line: None,
            state: State::Scheduled,
            timeout: *self.timeout.lock(),
            created: SystemTime::now(),
            started: None,
            ended: None,
        });
        Recorder::global().set(id, State::Started);
    }

    /// Move messages until `is_done`. Spin first, then sleep for longer and longer.
    fn drive_until(&self, is_done: impl Fn() -> bool) -> Result<()> {
        let mut idle = 0u32;
        while !is_done() {
            let moved = self.messages.lock().progress();
            if moved {
                idle = 0;
                continue;
            }
            idle = idle.saturating_add(1);
            if idle < 200 {
                std::hint::spin_loop();
                continue;
            }
            check_interrupt()?;
            if self.broken.load(Ordering::Acquire) {
                self.messages.lock().close(|| self.expect_whole().err().unwrap_or_else(|| Error::runtime("broken")));
            }
            std::thread::sleep(Duration::from_micros(u64::from(idle.min(1_000))));
        }
        Ok(())
    }

    /// Run a collective whose turn it is.
    fn perform(&self, request: &Request, sequence: u64, entry: u64, input: &[u8], output: &mut [u8]) -> Result<()> {
        let timeout = request.timeout.unwrap_or_else(|| *self.timeout.lock());
        self.set_state(entry, sequence, State::Started);
        let result = self.expect_whole().and_then(|()| {
            let header = Header { group: self.id, sequence, fingerprint: request.fingerprint(), bytes: 0 };
            let call = Call { header, watch: self.watch(leaving::deadline(timeout)) };
            let combine = request.combine()?;
            if self.is_planned {
                return self.perform_planned(request, combine, input, output);
            }
            let ran = run(&mut self.links.lock(), call, request, combine, input, output);
            ran.map_err(|fault| self.fail(fault, request, sequence, timeout))
        });
        self.set_state(entry, sequence, if result.is_ok() { State::Completed } else { State::Failed });
        result
    }
}

/// Run the algorithm of a request.
fn run(
    links: &mut Links,
    call: Call,
    request: &Request,
    combine: Option<(crate::reduce::ReduceOp, crate::reduce::Combine)>,
    input: &[u8],
    output: &mut [u8],
) -> std::result::Result<(), Fault> {
    let dtype = request.dtype;
    match (&request.op, combine) {
        (Op::AllReduce(_), Some((op, with))) => algo::all_reduce(links, call, op, dtype, with, output),
        (Op::Reduce(_, root), Some((op, with))) => algo::reduce(links, call, *root, op, dtype, with, output),
        (Op::ReduceScatter(_), Some((op, with))) => algo::reduce_scatter(links, call, op, dtype, with, input, output),
        (Op::Broadcast { root }, _) => algo::broadcast(links, call, *root, dtype, output),
        (Op::AllGather, _) => algo::all_gather(links, call, input, output),
        (Op::Gather { root }, _) => algo::gather(links, call, *root, input, output),
        (Op::Scatter { root }, _) => algo::scatter(links, call, *root, input, output),
        (Op::AllToAll { sent, received }, _) => {
            let bytes = |rows: &[usize]| rows.iter().map(|n| n * request.row_bytes()).collect::<Vec<_>>();
            algo::all_to_all(links, call, &bytes(sent), &bytes(received), input, output)
        }
        (Op::Barrier | Op::Agree { .. }, _) => algo::barrier(links, call),
        (Op::AllReduce(_) | Op::Reduce(..) | Op::ReduceScatter(_), None) => {
            unreachable!("a reduction has its function")
        }
    }
}
