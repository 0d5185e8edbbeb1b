//! Links between processes of one host, through shared memory.
//!
//! `unsafe` is here and in [`mpi`](super::mpi), nowhere else in the crate.
//!
//! A link is a memory file of the sender, without a name in any folder, so that nothing is left after a crash:
//!
//! ```text
//! file = [ Control, 4 KiB | slot 0 | slot 1 ]      slot = [ header, bytes of the chunk | chunk, at most 1 MiB ]
//! ```
//!
//! The sender writes its process, file number and inode to the store, and the receiver opens the file under `/proc`.
//! The sender fills the slots in turn and counts them in `head`. The receiver reads a slot in place, and counts it in
//! `tail`. A thread that waits spins for some microseconds, then sleeps on the other side's count (a futex). While it
//! sleeps, it looks at the peer's process every 50 ms.
#![allow(unsafe_code, reason = "memory that another process reads and writes")]

use super::{
    ALIGNMENT, Fault, HEADER_BYTES, Header, Lane, Meeting, Network, Place, Places, Receiver, Sender, Transport,
};
use crate::owner::Owner;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, fstat, ftruncate, memfd_create, open};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::futex;

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};
use torchtpu_tensor::Result;

const SLOTS: u32 = 2;
/// Bytes of a payload that one slot holds.
const CHUNK: usize = 1 << 20;
const CONTROL_BYTES: usize = 4096;
/// Bytes before the chunk in a slot: the header of the message and the length of the chunk.
const SLOT_HEAD: usize = 64;
/// Slots begin on pages of their own.
const SLOT_BYTES: usize = CHUNK + 4096;
const FILE_BYTES: usize = CONTROL_BYTES + SLOTS as usize * SLOT_BYTES;

/// What one side tells the other. Each side has cache lines of its own.
#[repr(C, align(128))]
struct Side {
    /// Slots filled by the sender, or read by the receiver. Wraps.
    count: AtomicU32,
    /// Whether the other side sleeps until `count` changes.
    is_watched: AtomicU32,
    /// Whether this side has dropped its end.
    is_closed: AtomicU32,
}

#[repr(C)]
struct Control {
    sender: Side,
    receiver: Side,
}

impl Side {
    /// Publish a new count, and wake the other side if it sleeps.
    fn advance(&self, count: u32) {
        self.count.store(count, Ordering::Release);
        // The other side sets `is_watched`, then reads `count` again. One of the two sees the other's store.
        fence(Ordering::SeqCst);
        if self.is_watched.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.is_watched.store(0, Ordering::Relaxed);
        // The call fails only for wrong arguments. Without a sleeping thread it does nothing.
        let _ = futex::wake(&self.count, futex::Flags::empty(), u32::MAX);
    }

    /// Sleep until `count` is not `seen`, or for `at_most`.
    fn sleep(&self, seen: u32, at_most: Duration) {
        self.is_watched.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Acquire) == seen && self.is_closed.load(Ordering::Acquire) == 0 {
            let limit = timespec(at_most);
            // Every way to return, an error included, leads to another look at `count`.
            let _ = futex::wait(&self.count, futex::Flags::empty(), seen, Some(&limit));
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}

/// A mapping of a link's file.
struct Region {
    start: NonNull<u8>,
}

// SAFETY: the mapping belongs to the region, and its bytes are shared by atomics only.
unsafe impl Send for Region {}

impl Region {
    fn map(file: &OwnedFd) -> rustix::io::Result<Region> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an unused range of addresses.
        let start = unsafe { mmap(null_mut(), FILE_BYTES, flags, MapFlags::SHARED, file, 0)? };
        Ok(Region { start: NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)? })
    }

    fn control(&self) -> &Control {
        const { assert!(size_of::<Control>() <= CONTROL_BYTES) };
        // SAFETY: the mapping begins with a `Control`, is aligned to a page, and lives as long as `self`. All bits are
        // valid for atomics, which is all that a `Control` holds.
        unsafe { self.start.cast().as_ref() }
    }

    fn slot(&self, count: u32) -> *mut u8 {
        let at = CONTROL_BYTES + (count % SLOTS) as usize * SLOT_BYTES;
        // SAFETY: slot `count % SLOTS` lies within the mapping.
        unsafe { self.start.as_ptr().add(at) }
    }

    /// Write a chunk, with its header and length, to a slot that the receiver has read.
    fn write(&self, count: u32, header: &[u8; HEADER_BYTES], chunk: &[u8]) {
        assert!(chunk.len() <= CHUNK);
        let slot = self.slot(count);
        // SAFETY: header, length and chunk fit into the slot, as asserted. The receiver does not touch it before `head`
        // passes it, and the bytes to copy are not in the mapping: no reference to it is ever handed out for writing.
        unsafe {
            slot.copy_from_nonoverlapping(header.as_ptr(), HEADER_BYTES);
            slot.add(HEADER_BYTES).cast::<u32>().write(chunk.len() as u32);
            slot.add(SLOT_HEAD).copy_from_nonoverlapping(chunk.as_ptr(), chunk.len());
        }
    }

    /// Return the header and the chunk of a slot that the sender has filled.
    fn read(&self, count: u32) -> ([u8; HEADER_BYTES], &[u8]) {
        let slot = self.slot(count);
        // SAFETY: the slot is within the mapping, and the length is cut to its size. The sender does not write the slot
        // before `tail` passes it, which only the caller does, and only without the result of this call: it needs the
        // region mutable then.
        unsafe {
            let header = slot.cast::<[u8; HEADER_BYTES]>().read();
            let bytes = slot.add(HEADER_BYTES).cast::<u32>().read() as usize;
            (header, std::slice::from_raw_parts(slot.add(SLOT_HEAD), bytes.min(CHUNK)))
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map`, and no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), FILE_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A handle of a process of this host, which says when the process has ended.
pub(crate) struct Process(OwnedFd);

impl Process {
    /// Return the handle, or `None` if there is no such process.
    pub(crate) fn open(pid: i32) -> Option<Process> {
        let process = Process(pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?);
        (!process.has_ended()).then_some(process)
    }

    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|n| n > 0)
    }
}

/// Shared memory for groups whose ranks are all on one host.
pub struct Shm;

impl Network for Shm {
    fn open(&self, meeting: Meeting) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(ShmTransport::new(Arc::new(Places::publish(meeting, Place::here(None)?)?))))
    }
}

pub(crate) struct ShmTransport {
    places: Arc<Places>,
}

impl ShmTransport {
    pub(crate) fn new(places: Arc<Places>) -> ShmTransport {
        ShmTransport { places }
    }

    /// Return the place and process of a peer, or `None` if the peer is not there yet.
    fn peer(&self, peer: usize) -> std::result::Result<Option<(Place, Process)>, Fault> {
        let Some(place) = self.places.of(peer)? else { return Ok(None) };
        if place.machine != self.places.here.machine {
            let text = format!("rank {peer} ({place}) is on another host, or in another container");
            return Err(Fault::System { peer, text });
        }
        let process = Process::open(place.pid).ok_or_else(|| Fault::Died { peer, place: place.to_string() })?;
        Ok(Some((place, process)))
    }
}

fn name(lane: Lane, from: usize, to: usize) -> String {
    format!("shm/{}/{from}-{to}", lane as u8)
}

impl Transport for ShmTransport {
    fn sender(&self, to: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Sender>>, Fault> {
        let Some((place, process)) = self.peer(to)? else { return Ok(None) };
        let refused = |e| Fault::system(to, "shared memory", e);
        let file = memfd_create("torchtpu", MemfdFlags::CLOEXEC).map_err(refused)?;
        ftruncate(&file, FILE_BYTES as u64).map_err(refused)?;
        let region = Region::map(&file).map_err(refused)?;
        let meeting = &self.places.meeting;
        let inode = fstat(&file).map_err(refused)?.st_ino;
        let value = format!("{} {} {inode}", self.places.here.pid, file.as_raw_fd());
        meeting.post(&name(lane, meeting.rank, to), &value).map_err(Fault::Other)?;
        let end = End { peer: to, place, process, region, count: 0, owner: Owner::new() };
        Ok(Some(Box::new(ShmSender { end, file: Some(file) })))
    }

    fn receiver(&self, from: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Receiver>>, Fault> {
        let Some((place, process)) = self.peer(from)? else { return Ok(None) };
        let meeting = &self.places.meeting;
        let Some(value) = meeting.find(&name(lane, from, meeting.rank)).map_err(Fault::Other)? else {
            return if process.has_ended() {
                Err(Fault::Died { peer: from, place: place.to_string() })
            } else {
                Ok(None)
            };
        };
        let text = String::from_utf8_lossy(&value);
        let (path, inode) = text.rsplit_once(' ').unwrap_or_default();
        let path = format!("/proc/{}", path.replace(' ', "/fd/"));
        let file = open(&*path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        // After a close, the number may lead to another file.
        let is_link = |file: &OwnedFd| fstat(file).is_ok_and(|s| s.st_ino.to_string() == inode);
        let Some(file) = file.ok().filter(is_link) else {
            // The sender has closed the link already, or it has ended.
            return Err(if process.has_ended() {
                Fault::Died { peer: from, place: place.to_string() }
            } else {
                Fault::Closed { peer: from }
            });
        };
        let region = Region::map(&file).map_err(|e| Fault::system(from, "shared memory", e))?;
        // A link is opened once. If its key stays, nothing reads it.
        let _ = meeting.store.delete_key(&meeting.key(&name(lane, from, meeting.rank)));
        let end = End { peer: from, place, process, region, count: 0, owner: Owner::new() };
        Ok(Some(Box::new(ShmReceiver { end, at: 0 })))
    }

    fn place(&self, rank: usize) -> Option<String> {
        self.places.describe(rank)
    }

    fn is_dead(&self, rank: usize) -> bool {
        self.places.is_dead(rank)
    }
}

struct End {
    peer: usize,
    place: Place,
    process: Process,
    region: Region,
    /// Slots filled or read by this end.
    count: u32,
    owner: Owner,
}

impl End {
    /// Fail if the other side has dropped its end, or if its process has ended.
    #[cold]
    fn check(&self, other: &Side) -> std::result::Result<(), Fault> {
        if self.process.has_ended() {
            return Err(Fault::Died { peer: self.peer, place: self.place.to_string() });
        }
        if other.is_closed.load(Ordering::Acquire) != 0 { Err(Fault::Closed { peer: self.peer }) } else { Ok(()) }
    }
}

fn close(side: &Side) {
    side.is_closed.store(1, Ordering::Release);
    fence(Ordering::SeqCst);
    side.wake();
}

struct ShmSender {
    end: End,
    /// The receiver may open it at any time. `None` only while dropped.
    file: Option<OwnedFd>,
}

/// Files of closed links whose receivers have not read everything, and when each link closed.
static UNREAD: Mutex<Vec<(Instant, OwnedFd)>> = Mutex::new(Vec::new());
/// How long a receiver may open a link that is closed.
const UNREAD_TIME: Duration = Duration::from_secs(10);

/// Drop the files that no receiver has opened in time. The watchdog calls it.
pub(crate) fn forget_old_links() {
    UNREAD.lock().retain(|(closed, _)| closed.elapsed() < UNREAD_TIME);
}

impl Drop for ShmSender {
    fn drop(&mut self) {
        if !self.end.owner.is_here() {
            return;
        }
        let is_unread = self.is_unread();
        close(&self.end.region.control().sender);
        // A rank that fails after a collective must not fail a slower rank that is still in it.
        if is_unread && let Some(file) = self.file.take() {
            UNREAD.lock().push((Instant::now(), file));
        }
    }
}

impl Sender for ShmSender {
    fn push(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8], at: &mut usize) -> std::result::Result<(), Fault> {
        let control = self.end.region.control();
        let total = HEADER_BYTES + payload.len();
        if *at < total && self.end.count.wrapping_sub(control.receiver.count.load(Ordering::Acquire)) < SLOTS {
            let done = at.saturating_sub(HEADER_BYTES);
            let chunk = &payload[done..payload.len().min(done + CHUNK)];
            self.end.region.write(self.end.count, header, chunk);
            self.end.count = self.end.count.wrapping_add(1);
            control.sender.advance(self.end.count);
            *at = HEADER_BYTES + done + chunk.len();
        }
        Ok(())
    }

    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault> {
        let receiver = &self.end.region.control().receiver;
        let seen = receiver.count.load(Ordering::Acquire);
        if self.end.count.wrapping_sub(seen) < SLOTS {
            return Ok(());
        }
        self.end.check(receiver)?;
        receiver.sleep(seen, at_most);
        Ok(())
    }

    fn is_unread(&self) -> bool {
        let receiver = &self.end.region.control().receiver;
        receiver.count.load(Ordering::Acquire) != self.end.count && self.end.check(receiver).is_ok()
    }
}

struct ShmReceiver {
    end: End,
    /// Bytes of the current chunk that were read.
    at: usize,
}

impl Drop for ShmReceiver {
    fn drop(&mut self) {
        if self.end.owner.is_here() {
            close(&self.end.region.control().receiver);
        }
    }
}

impl ShmReceiver {
    fn is_filled(&self) -> bool {
        self.end.region.control().sender.count.load(Ordering::Acquire) != self.end.count
    }

    /// Give the slot back to the sender.
    fn release(&mut self) {
        self.at = 0;
        self.end.count = self.end.count.wrapping_add(1);
        self.end.region.control().receiver.advance(self.end.count);
    }
}

impl Receiver for ShmReceiver {
    fn begin(&mut self) -> std::result::Result<Option<Header>, Fault> {
        if !self.is_filled() {
            return Ok(None);
        }
        let (header, chunk) = self.end.region.read(self.end.count);
        let header = Header::decode(&header).ok_or(Fault::Corrupt { peer: self.end.peer })?;
        if chunk.is_empty() {
            self.release();
        }
        Ok(Some(header))
    }

    fn pull(&mut self, most: usize, sink: &mut dyn FnMut(&[u8])) -> std::result::Result<usize, Fault> {
        if !self.is_filled() {
            return Ok(0);
        }
        let (_, chunk) = self.end.region.read(self.end.count);
        let left = &chunk[self.at.min(chunk.len())..];
        let n = if left.len() <= most { left.len() } else { most / ALIGNMENT * ALIGNMENT };
        sink(&left[..n]);
        let is_read = n == left.len();
        self.at += n;
        if is_read {
            self.release();
        }
        Ok(n)
    }

    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault> {
        if self.is_filled() {
            return Ok(());
        }
        let sender = &self.end.region.control().sender;
        let checked = self.end.check(sender);
        // The sender may have filled a slot before it closed or ended.
        if self.is_filled() {
            return Ok(());
        }
        checked?;
        sender.sleep(self.end.count, at_most);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_seen_before_its_parent_waits() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("`sleep` runs");
        let process = Process::open(child.id().cast_signed()).expect("the child runs");
        assert!(!process.has_ended());
        child.kill().expect("the child can be killed");
        while !process.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Process::open(child.id().cast_signed()).is_none());
        child.wait().expect("the child ends");
    }
}
