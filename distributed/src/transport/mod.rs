//! Links between the ranks of a group.
//!
//! A [`Transport`] makes links, a [`Sender`] or a [`Receiver`] for one peer. A link moves messages in order: a
//! [`Header`] of 32 bytes, then the payload. No method of a link waits except `wait`, so that [`exchange`] can send and
//! receive at once, with one peer or with two.
//!
//! Four transports: [`shm`] between processes of a host, [`tcp`] between hosts, [`mpi`] between processes that an MPI
//! launcher has started, and [`memory`] between the threads of one process, for tests. [`Hosts`] uses the first two, by
//! the place of each peer.

pub mod memory;
pub mod mpi;
pub mod shm;
pub mod tcp;

use crate::reduce::Combine;
use crate::store::{Store, check_interrupt};
use parking_lot::Mutex;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// Bytes of an encoded [`Header`].
pub const HEADER_BYTES: usize = 32;
/// Turns of a loop before a waiting thread sleeps. They take some 20 microseconds.
const SPINS: u32 = 2_000;
/// Turns of the same loop where ranks share cores. In each, the thread gives its core to the rank it may wait for.
const CROWDED_SPINS: u32 = 30;
/// Longest sleep between two looks at the deadline and at the peer.
const SLICE: Duration = Duration::from_millis(50);
/// Chunks of a payload are multiples of these bytes, except the last, so that no element is cut.
pub const ALIGNMENT: usize = 64;

/// What precedes each payload, so that two ranks in different calls notice it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Number of the group, a hash of its name.
    pub group: u32,
    /// Sequence number of the collective, or the tag of a message.
    pub sequence: u64,
    /// Hash of op, dtype and shape, or the dtype of a message.
    pub fingerprint: u64,
    /// Bytes of the payload.
    pub bytes: u64,
}

impl Header {
    /// Return the 32 bytes of the header. The first four are the CRC-32 of the others.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[4..8].copy_from_slice(&self.group.to_le_bytes());
        out[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..24].copy_from_slice(&self.fingerprint.to_le_bytes());
        out[24..32].copy_from_slice(&self.bytes.to_le_bytes());
        let checksum = crc32fast::hash(&out[4..]);
        out[..4].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Return the header, or `None` if the checksum differs.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let (first, sequence, fingerprint) = (word(0), word(8), word(16));
        let header = Header { group: (first >> 32) as u32, sequence, fingerprint, bytes: word(24) };
        (crc32fast::hash(&bytes[4..]) == first as u32).then_some(header)
    }
}

const SEED: u64 = 0x243f_6a88_85a3_08d3;

/// Return the hash of `hash` followed by `word`.
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let mut x = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 32)
}

/// Return a hash of text that is the same in all processes.
pub(crate) fn hash_text(text: &str) -> u64 {
    text.bytes().fold(mix(SEED, text.len() as u64), |hash, byte| mix(hash, u64::from(byte)))
}

/// Why a step of a collective failed.
#[derive(Debug)]
pub enum Fault {
    /// The deadline passed while the rank waited for `peer`.
    Timeout {
        /// The rank waited for.
        peer: usize,
    },
    /// The peer closed its links: its group failed, or it has left.
    Closed {
        /// The rank that closed.
        peer: usize,
    },
    /// The peer's process ended.
    Died {
        /// The rank that died.
        peer: usize,
        /// Its process and host.
        place: String,
    },
    /// The peer is in another call.
    Mismatch {
        /// The rank in another call.
        peer: usize,
        /// The header it sent.
        header: Header,
    },
    /// The checksum of a header is wrong.
    Corrupt {
        /// The rank whose message it is.
        peer: usize,
    },
    /// Another thread marked the group as broken.
    Broken,
    /// The user interrupted the program, or the store failed.
    Other(Error),
    /// The operating system refused a connection or memory.
    System {
        /// The rank that the link leads to.
        peer: usize,
        /// What was refused.
        text: String,
    },
}

impl Fault {
    pub(crate) fn system(peer: usize, what: &str, error: impl fmt::Display) -> Fault {
        Fault::System { peer, text: format!("{what}: {error}") }
    }
}

/// What every wait looks at: the deadline, and whether another thread found the group broken.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// When to give up.
    pub deadline: Instant,
    /// Whether the group is broken.
    pub broken: &'a AtomicBool,
    /// Until when the deadline does not count, because a peer compiles a program.
    pub excused_until: &'a Mutex<Option<Instant>>,
    /// The rank that is waited for, for reports.
    pub awaited: &'a AtomicUsize,
    /// Whether the host has fewer cores than ranks.
    pub is_crowded: bool,
}

impl Watch<'_> {
    /// Fail if waiting for `peer` must end.
    pub fn check(&self, peer: usize) -> std::result::Result<(), Fault> {
        self.awaited.store(peer, Ordering::Relaxed);
        check_interrupt().map_err(Fault::Other)?;
        if self.broken.load(Ordering::Acquire) {
            return Err(Fault::Broken);
        }
        let now = Instant::now();
        if now < self.deadline || self.excused_until.lock().is_some_and(|until| now < until) {
            return Ok(());
        }
        Err(Fault::Timeout { peer })
    }
}

/// The purpose of a link. Links of different lanes do not delay each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Lane {
    /// Collectives, in the order of their sequence numbers.
    Collective,
    /// Messages with tags.
    Message,
}

/// The sending end of a link.
pub trait Sender: Send {
    /// Move bytes of a message without waiting. `at` counts the bytes moved so far, those of the header included. The
    /// message is complete at `HEADER_BYTES + payload.len()`.
    ///
    /// # Errors
    /// Fails if the peer has closed the link or died.
    fn push(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8], at: &mut usize) -> std::result::Result<(), Fault>;

    /// Sleep until `push` can move bytes, or for `at_most`.
    ///
    /// # Errors
    /// Fails if the peer has closed the link or died.
    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault>;

    /// Whether dropping the link now would lose bytes that the peer has not taken.
    fn is_unread(&self) -> bool {
        false
    }
}

/// The receiving end of a link.
pub trait Receiver: Send {
    /// Take the header of the next message, if it has arrived.
    ///
    /// # Errors
    /// Fails if the peer has closed the link or died, or if the header is corrupt.
    fn begin(&mut self) -> std::result::Result<Option<Header>, Fault>;

    /// Hand at most `most` bytes of the payload to `sink`, if some have arrived. Return their number, a multiple of
    /// [`ALIGNMENT`] except at the end of the message. So is `most`.
    ///
    /// # Errors
    /// Fails if the peer has closed the link or died.
    fn pull(&mut self, most: usize, sink: &mut dyn FnMut(&[u8])) -> std::result::Result<usize, Fault>;

    /// Write bytes of the payload that have arrived to `to`, which has room for the rest. Return their number.
    ///
    /// # Errors
    /// Fails if the peer has closed the link or died.
    fn pull_into(&mut self, to: &mut [u8]) -> std::result::Result<usize, Fault> {
        self.pull(to.len(), &mut |chunk| to[..chunk.len()].copy_from_slice(chunk))
    }

    /// Sleep until something arrives, or for `at_most`.
    ///
    /// # Errors
    /// Fails if the peer has closed the link or died.
    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault>;

    /// Turns of a loop before a thread that waits for this link sleeps.
    fn spins(&self) -> u32 {
        SPINS
    }
}

/// Makes the links of one rank of one group. Dropping a link closes it, and the peer notices.
pub trait Transport: Send + Sync {
    /// Return the link that sends to `to`, or `None` if this peer is not there yet.
    ///
    /// # Errors
    /// Fails if the operating system refuses the link.
    fn sender(&self, to: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Sender>>, Fault>;

    /// Return the link that receives from `from`, or `None` if this peer has not made its end yet.
    ///
    /// # Errors
    /// Fails if the operating system refuses the link.
    fn receiver(&self, from: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Receiver>>, Fault>;

    /// Return the process and host of a rank, for messages.
    fn place(&self, _rank: usize) -> Option<String> {
        None
    }

    /// Whether the process of a rank has certainly ended. `false` if it is not known.
    fn is_dead(&self, _rank: usize) -> bool {
        false
    }
}

/// Makes the transport of each group.
pub trait Network: Send + Sync {
    /// Return the transport of the rank and group that `meeting` describes.
    ///
    /// # Errors
    /// Fails if the operating system refuses a socket, or if the store fails.
    fn open(&self, meeting: Meeting) -> Result<Arc<dyn Transport>>;
}

/// Where the ranks of a group find each other: names under a prefix of the store.
#[derive(Clone)]
pub struct Meeting {
    /// The store that all ranks share.
    pub store: Arc<dyn Store>,
    /// Beginning of all keys of the group, unique to it.
    pub prefix: String,
    /// This rank, within the group.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
}

impl Meeting {
    /// Return the full name of a key of the group.
    pub fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// Return the value of a key, or `None` if it is absent. Does not wait.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub fn find(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let key = self.key(name);
        if self.store.check(&[&key])? { self.store.get(&key).map(Some) } else { Ok(None) }
    }

    /// Set a key of the group.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub fn post(&self, name: &str, value: &str) -> Result<()> {
        self.store.set(&self.key(name), value.as_bytes())
    }
}

/// Where a rank runs, as it says in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) pid: i32,
    /// Processes with equal texts can open each other's files under `/proc`.
    pub(crate) machine: String,
    pub(crate) host: String,
    pub(crate) address: Option<SocketAddr>,
    /// The number that connections to this rank begin with. Only processes that can read the store know it.
    pub(crate) token: u64,
}

impl Place {
    /// # Errors
    /// Fails if the operating system gives no random numbers.
    pub(crate) fn here(address: Option<SocketAddr>) -> Result<Place> {
        let mut token = [0; 8];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| Error::new(ErrorKind::DistNetwork, format!("no random numbers from the system: {e}")))?;
        let read = |path: &str| std::fs::read_to_string(path).map(|s| s.trim().to_string()).unwrap_or_default();
        let namespace = std::fs::read_link("/proc/self/ns/pid").map(|p| p.display().to_string()).unwrap_or_default();
        let machine = format!("{}/{namespace}", read("/proc/sys/kernel/random/boot_id"));
        Ok(Place {
            pid: std::process::id().cast_signed(),
            machine,
            host: read("/proc/sys/kernel/hostname").replace(char::is_whitespace, "-"),
            address,
            token: u64::from_le_bytes(token),
        })
    }

    fn encode(&self) -> String {
        let address = self.address.map_or("-".to_string(), |a| a.to_string());
        format!("{}\n{}\n{}\n{address}\n{}", self.pid, self.machine, self.host, self.token)
    }

    fn decode(bytes: &[u8]) -> Option<Place> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split('\n');
        Some(Place {
            pid: lines.next()?.parse().ok()?,
            machine: lines.next()?.to_string(),
            host: lines.next()?.to_string(),
            address: lines.next()?.parse().ok(),
            token: lines.next()?.parse().ok()?,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} on {}", self.pid, self.host)
    }
}

/// The places of all ranks, read from the store at first need.
pub(crate) struct Places {
    pub(crate) meeting: Meeting,
    pub(crate) here: Place,
    known: Mutex<Vec<Option<Place>>>,
}

impl Places {
    /// Publish the place of this rank.
    pub(crate) fn publish(meeting: Meeting, here: Place) -> Result<Places> {
        meeting.post(&format!("place/{}", meeting.rank), &here.encode())?;
        let known = Mutex::new(vec![None; meeting.size]);
        Ok(Places { meeting, here, known })
    }

    /// Return the place of a rank, or `None` if the rank has not published it yet.
    pub(crate) fn of(&self, rank: usize) -> std::result::Result<Option<Place>, Fault> {
        if let Some(place) = &self.known.lock()[rank] {
            return Ok(Some(place.clone()));
        }
        let Some(bytes) = self.meeting.find(&format!("place/{rank}")).map_err(Fault::Other)? else { return Ok(None) };
        let place = Place::decode(&bytes)
            .ok_or_else(|| Fault::System { peer: rank, text: "the store holds no valid place of the rank".into() })?;
        self.known.lock()[rank] = Some(place.clone());
        Ok(Some(place))
    }

    pub(crate) fn describe(&self, rank: usize) -> Option<String> {
        self.known.lock()[rank].as_ref().map(Place::to_string)
    }

    /// Whether the process of a rank of this machine has ended.
    pub(crate) fn is_dead(&self, rank: usize) -> bool {
        let known = self.known.lock();
        known[rank].as_ref().is_some_and(|p| p.machine == self.here.machine && shm::Process::open(p.pid).is_none())
    }
}

/// Shared memory within a host, TCP between hosts.
pub struct Hosts {
    /// How to reach this host from the others.
    pub tcp: tcp::Tcp,
}

struct HostsTransport {
    tcp: tcp::TcpTransport,
    shm: shm::ShmTransport,
    places: Arc<Places>,
}

impl Network for Hosts {
    fn open(&self, meeting: Meeting) -> Result<Arc<dyn Transport>> {
        let listener = self.tcp.listen()?;
        let places = Arc::new(Places::publish(meeting, Place::here(Some(listener.1))?)?);
        let tcp = tcp::TcpTransport::new(listener.0, places.clone());
        Ok(Arc::new(HostsTransport { tcp, shm: shm::ShmTransport::new(places.clone()), places }))
    }
}

impl HostsTransport {
    fn at(&self, peer: usize) -> std::result::Result<Option<&dyn Transport>, Fault> {
        let Some(place) = self.places.of(peer)? else { return Ok(None) };
        Ok(Some(if place.machine == self.places.here.machine { &self.shm } else { &self.tcp }))
    }
}

impl Transport for HostsTransport {
    fn sender(&self, to: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Sender>>, Fault> {
        self.at(to)?.map_or(Ok(None), |t| t.sender(to, lane))
    }
    fn receiver(&self, from: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Receiver>>, Fault> {
        self.at(from)?.map_or(Ok(None), |t| t.receiver(from, lane))
    }
    fn place(&self, rank: usize) -> Option<String> {
        self.places.describe(rank)
    }
    fn is_dead(&self, rank: usize) -> bool {
        self.places.is_dead(rank)
    }
}

/// The payloads of one step of a collective.
pub enum Body<'a> {
    /// Send bytes, and receive others.
    Copy {
        /// Bytes to send.
        send: &'a [u8],
        /// Where the received bytes go.
        receive: &'a mut [u8],
    },
    /// Send bytes, and combine the received elements into others.
    Combine {
        /// Bytes to send.
        send: &'a [u8],
        /// Elements that the received ones are combined into.
        into: &'a mut [u8],
        /// The function.
        with: Combine,
    },
    /// Send elements, and combine the received ones into the same.
    InPlace {
        /// Elements to send and to combine into.
        data: &'a mut [u8],
        /// The function.
        with: Combine,
    },
}

impl Body<'_> {
    fn outgoing(&self) -> &[u8] {
        match self {
            Body::Copy { send, .. } | Body::Combine { send, .. } => send,
            Body::InPlace { data, .. } => data,
        }
    }

    fn incoming_bytes(&self) -> usize {
        match self {
            Body::Copy { receive, .. } => receive.len(),
            Body::Combine { into, .. } => into.len(),
            Body::InPlace { data, .. } => data.len(),
        }
    }

    /// Take bytes from `receiver` after the first `at`. `sent` payload bytes have left this rank.
    fn take(&mut self, receiver: &mut dyn Receiver, at: usize, sent: usize) -> std::result::Result<usize, Fault> {
        match self {
            Body::Copy { receive, .. } => receiver.pull_into(&mut receive[at..]),
            Body::Combine { into, with, .. } => {
                let into = &mut into[at..];
                receiver.pull(into.len(), &mut |chunk| with.apply(&mut into[..chunk.len()], chunk))
            }
            Body::InPlace { data, with } => {
                // Elements that have not been sent yet must keep their values.
                let ready = if sent == data.len() { sent } else { sent / ALIGNMENT * ALIGNMENT };
                let into = &mut data[at..ready.max(at)];
                if into.is_empty() {
                    return Ok(0);
                }
                receiver.pull(into.len(), &mut |chunk| with.apply(&mut into[..chunk.len()], chunk))
            }
        }
    }
}

/// Send and receive one message each, at once. `sender` and `receiver` come with the ranks they lead to, which may be
/// equal. `header.bytes` is ignored: each payload has its own length.
///
/// # Errors
/// Fails if the received header is not `header` with the expected length, after the deadline, and if a peer is gone.
pub fn exchange(
    mut sender: Option<(usize, &mut dyn Sender)>,
    mut receiver: Option<(usize, &mut dyn Receiver)>,
    header: Header,
    body: &mut Body<'_>,
    watch: Watch<'_>,
) -> std::result::Result<(), Fault> {
    let out = Header { bytes: body.outgoing().len() as u64, ..header }.encode();
    let to_send = if sender.is_some() { HEADER_BYTES + body.outgoing().len() } else { 0 };
    let expected = Header { bytes: body.incoming_bytes() as u64, ..header };
    let (mut sent, mut taken, mut begun) = (0, 0, receiver.is_none());
    let to_take = if begun { 0 } else { body.incoming_bytes() };
    let spins = receiver.as_ref().map_or(SPINS, |(_, r)| r.spins());
    let spins = if watch.is_crowded { spins.min(CROWDED_SPINS) } else { spins };
    let mut idle = 0;
    loop {
        let mut moved = false;
        if let Some((_, sender)) = &mut sender
            && sent < to_send
        {
            let before = sent;
            sender.push(&out, body.outgoing(), &mut sent)?;
            moved |= sent != before;
        }
        if let Some((peer, receiver)) = &mut receiver {
            if !begun && let Some(header) = receiver.begin()? {
                if header != expected {
                    return Err(Fault::Mismatch { peer: *peer, header });
                }
                (begun, moved) = (true, true);
            }
            if begun && taken < to_take {
                let payload_sent = sent.saturating_sub(HEADER_BYTES);
                let n = body.take(&mut **receiver, taken, payload_sent)?;
                taken += n;
                moved |= n > 0;
            }
        }
        let received = begun && taken == to_take;
        if received && sent == to_send {
            return Ok(());
        }
        if moved {
            idle = 0;
            continue;
        }
        idle += 1;
        if idle < spins {
            if watch.is_crowded {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            continue;
        }
        // The rank that sleeps waits for its receiver, if that is not done: the sender is full then, so that its peer
        // has something to read, and cannot sleep as well.
        match (&mut sender, &mut receiver) {
            (_, Some((peer, receiver))) if !received => {
                watch.check(*peer)?;
                receiver.wait(SLICE)?;
            }
            (Some((peer, sender)), _) => {
                watch.check(*peer)?;
                sender.wait(SLICE)?;
            }
            _ => return Ok(()),
        }
    }
}

/// Repeat `open` until it returns a link. The pauses grow to 50 ms, so that waiting ranks do not flood the store.
pub(crate) fn open_link<T>(
    peer: usize,
    watch: Watch<'_>,
    mut open: impl FnMut() -> std::result::Result<Option<T>, Fault>,
) -> std::result::Result<T, Fault> {
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(link) = open()? {
            return Ok(link);
        }
        watch.check(peer)?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(SLICE);
    }
}

/// Both directions between this rank and a peer.
pub struct Pair {
    /// The peer.
    pub peer: usize,
    /// The sending end.
    pub sender: Box<dyn Sender>,
    /// The receiving end.
    pub receiver: Box<dyn Receiver>,
}

impl Pair {
    /// Make both links to `peer`. Wait until the peer makes its ends.
    ///
    /// # Errors
    /// Fails after the deadline, and if the operating system refuses a link.
    pub fn open(
        transport: &dyn Transport,
        peer: usize,
        lane: Lane,
        watch: Watch<'_>,
    ) -> std::result::Result<Pair, Fault> {
        let sender = open_link(peer, watch, || transport.sender(peer, lane))?;
        let receiver = open_link(peer, watch, || transport.receiver(peer, lane))?;
        Ok(Pair { peer, sender, receiver })
    }

    /// Send one message.
    ///
    /// # Errors
    /// Fails after the deadline, and if the peer is gone.
    pub fn send(&mut self, header: Header, bytes: &[u8], watch: Watch<'_>) -> std::result::Result<(), Fault> {
        let mut body = Body::Copy { send: bytes, receive: &mut [] };
        exchange(Some((self.peer, &mut *self.sender)), None, header, &mut body, watch)
    }

    /// Receive one message with this header.
    ///
    /// # Errors
    /// Fails after the deadline, if the peer is gone, and if the message has another header.
    pub fn recv(&mut self, header: Header, to: &mut [u8], watch: Watch<'_>) -> std::result::Result<(), Fault> {
        let mut body = Body::Copy { send: &[], receive: to };
        exchange(None, Some((self.peer, &mut *self.receiver)), header, &mut body, watch)
    }

    /// Send and receive one message each, at once.
    ///
    /// # Errors
    /// Fails as [`Pair::recv`].
    pub fn exchange(
        &mut self,
        header: Header,
        body: &mut Body<'_>,
        watch: Watch<'_>,
    ) -> std::result::Result<(), Fault> {
        let (sender, receiver) = (&mut *self.sender, &mut *self.receiver);
        exchange(Some((self.peer, sender)), Some((self.peer, receiver)), header, body, watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_a_flipped_bit_is_refused() {
        let header = Header { group: 7, sequence: 41, fingerprint: 0x0123_4567_89ab_cdef, bytes: 64 };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        for bit in 0..HEADER_BYTES * 8 {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&wrong), None, "bit {bit}");
        }
    }
}
