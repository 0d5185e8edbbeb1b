//! Links between hosts, as TCP connections.
//!
//! Each rank listens on a port of its own, and writes its address to the store. A sender connects at its first message
//! and says who it is by a header. So there is one connection for each direction in use, and none for the others.

use super::{
    ALIGNMENT, Fault, HEADER_BYTES, Header, Lane, Meeting, Network, Place, Places, Receiver, Sender, Transport,
};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind as IoKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// Bytes that a receiver holds before it hands them on.
const BUFFER: usize = 256 << 10;
/// Payloads up to this size leave in one packet with their header.
const SMALL: usize = 16 << 10;
/// Reads of an empty socket before a thread sleeps in `poll`.
const SPINS: u32 = 30;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The first of the times in which a sender tries to connect. Each one is twice as long as the one before.
const FIRST_TRY: Duration = Duration::from_millis(200);
/// Connections that the system holds until this rank accepts them, which it does during collectives only. The standard
/// library asks for 128. The system may hold fewer.
const BACKLOG: i32 = 4096;
/// Time in which a connection must say who it is. Port scanners and health probes say nothing.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that may be silent at a time. A further one takes the place of the oldest.
const MAX_SILENT: usize = 256;

/// TCP for groups on several hosts.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// The address of this host that the other ranks connect to.
    pub address: IpAddr,
}

impl Tcp {
    /// Return the network of this host's address on the way to `peer`, a host and port such as those of the store. No
    /// packet is sent. If there is no way, the address is the loopback one.
    pub fn towards(peer: &str) -> Tcp {
        let find = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
            socket.connect(peer).ok()?;
            Some(socket.local_addr().ok()?.ip())
        };
        Tcp { address: find().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)) }
    }

    pub(crate) fn listen(&self) -> Result<(TcpListener, SocketAddr)> {
        let refused = |e| Error::new(ErrorKind::DistNetwork, format!("cannot listen on {}: {e}", self.address));
        let listener = TcpListener::bind((self.address, 0)).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        rustix::net::listen(&listener, BACKLOG).map_err(|e| refused(e.into()))?;
        let address = listener.local_addr().map_err(refused)?;
        Ok((listener, address))
    }
}

impl Network for Tcp {
    fn open(&self, meeting: Meeting) -> Result<Arc<dyn Transport>> {
        let (listener, address) = self.listen()?;
        let places = Arc::new(Places::publish(meeting, Place::here(Some(address))?)?);
        Ok(Arc::new(TcpTransport::new(listener, places)))
    }
}

pub(crate) struct TcpTransport {
    listener: TcpListener,
    places: Arc<Places>,
    /// Connections that were accepted before this rank asked for them.
    accepted: Mutex<HashMap<(usize, u8), TcpStream>>,
    /// Connections that have not said who they are, the oldest first. Nothing waits for them.
    silent: Mutex<VecDeque<Silent>>,
}

/// A connection that has not said who it is.
struct Silent {
    stream: TcpStream,
    since: Instant,
    hello: [u8; HEADER_BYTES],
    filled: usize,
}

impl Silent {
    /// Read what has arrived of the hello. Return whether the connection may still become one of the group.
    fn listen(&mut self) -> bool {
        while self.filled < HEADER_BYTES {
            match self.stream.read(&mut self.hello[self.filled..]) {
                Ok(0) => return false,
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == IoKind::Interrupted => {}
                Err(e) => return e.kind() == IoKind::WouldBlock && self.since.elapsed() < HELLO_TIMEOUT,
            }
        }
        true
    }
}

impl TcpTransport {
    pub(crate) fn new(listener: TcpListener, places: Arc<Places>) -> TcpTransport {
        TcpTransport { listener, places, accepted: Mutex::default(), silent: Mutex::default() }
    }

    /// Accept the connections that are there, without waiting, and keep each under its rank and lane once it has said
    /// who it is. Connections of strangers are dropped.
    fn accept(&self) {
        let mut silent = self.silent.lock();
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if silent.len() == MAX_SILENT {
                silent.pop_front();
            }
            silent.push_back(Silent { stream, since: Instant::now(), hello: [0; HEADER_BYTES], filled: 0 });
        }
        for mut connection in std::mem::take(&mut *silent) {
            if !connection.listen() {
                continue;
            }
            if connection.filled < HEADER_BYTES {
                silent.push_back(connection);
            } else if let Some(hello) = Header::decode(&connection.hello)
                && hello.fingerprint == self.places.here.token
                && hello.sequence < self.places.meeting.size as u64
                && set_up(&connection.stream).is_ok()
            {
                self.accepted.lock().insert((hello.sequence as usize, hello.bytes as u8), connection.stream);
            }
        }
    }
}

impl TcpTransport {
    /// Connect to a rank. If strangers fill the queue of its port, it must accept them first, which it does when it
    /// waits for a connection of its own. Both ranks may wait at the same time, so each accepts between its tries.
    fn connect(&self, address: &SocketAddr) -> std::io::Result<TcpStream> {
        let end = Instant::now() + CONNECT_TIMEOUT;
        let mut limit = FIRST_TRY;
        loop {
            self.accept();
            let left = end.saturating_duration_since(Instant::now());
            match TcpStream::connect_timeout(address, limit.min(left).max(Duration::from_millis(1))) {
                Err(e) if e.kind() == IoKind::TimedOut && limit < left => limit *= 2,
                outcome => return outcome,
            }
        }
    }
}

fn set_up(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

impl Transport for TcpTransport {
    fn sender(&self, to: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Sender>>, Fault> {
        let Some(place) = self.places.of(to)? else { return Ok(None) };
        let Some(address) = place.address else {
            return Err(Fault::System { peer: to, text: format!("rank {to} ({place}) has no address") });
        };
        let refused = |e: std::io::Error| match e.kind() {
            // The rank has published its address, so it has listened before.
            IoKind::ConnectionRefused | IoKind::ConnectionReset | IoKind::BrokenPipe => Fault::Closed { peer: to },
            _ => Fault::system(to, &format!("connection to {address}"), e),
        };
        let mut stream = self.connect(&address).map_err(refused)?;
        let rank = self.places.meeting.rank as u64;
        let hello = Header { group: 0, sequence: rank, fingerprint: place.token, bytes: lane as u64 };
        stream.write_all(&hello.encode()).and_then(|()| set_up(&stream)).map_err(refused)?;
        Ok(Some(Box::new(TcpSender { peer: to, stream, small: Vec::new() })))
    }

    fn receiver(&self, from: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Receiver>>, Fault> {
        let known = || self.accepted.lock().remove(&(from, lane as u8));
        let found = known().or_else(|| {
            self.accept();
            known()
        });
        Ok(found.map(|stream| -> Box<dyn Receiver> {
            Box::new(TcpReceiver { peer: from, stream, buffer: vec![0; BUFFER], filled: 0, at: 0, left: 0 })
        }))
    }

    fn place(&self, rank: usize) -> Option<String> {
        self.places.describe(rank)
    }

    fn is_dead(&self, rank: usize) -> bool {
        self.places.is_dead(rank)
    }
}

/// Return the number of bytes that moved, 0 if none can move now.
fn moved(peer: usize, result: std::io::Result<usize>) -> std::result::Result<usize, Fault> {
    match result {
        Ok(0) => Err(Fault::Closed { peer }),
        Ok(n) => Ok(n),
        Err(e) => match e.kind() {
            IoKind::WouldBlock | IoKind::Interrupted => Ok(0),
            IoKind::ConnectionReset | IoKind::BrokenPipe | IoKind::ConnectionAborted => Err(Fault::Closed { peer }),
            _ => Err(Fault::system(peer, "connection", e)),
        },
    }
}

fn sleep(stream: &TcpStream, events: PollFlags, at_most: Duration) {
    let limit = Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: at_most.subsec_nanos().into() };
    // Every way to return, an error included, leads to another read or write.
    let _ = poll(&mut [PollFd::new(stream, events)], Some(&limit));
}

struct TcpSender {
    peer: usize,
    stream: TcpStream,
    /// A header and its payload, if they leave together.
    small: Vec<u8>,
}

impl Sender for TcpSender {
    fn push(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8], at: &mut usize) -> std::result::Result<(), Fault> {
        let total = HEADER_BYTES + payload.len();
        if *at == total {
            return Ok(());
        }
        let written = if payload.len() <= SMALL {
            if *at == 0 {
                self.small.clear();
                self.small.extend_from_slice(header);
                self.small.extend_from_slice(payload);
            }
            self.stream.write(&self.small[*at..])
        } else if *at < HEADER_BYTES {
            self.stream.write(&header[*at..])
        } else {
            self.stream.write(&payload[*at - HEADER_BYTES..])
        };
        *at += moved(self.peer, written)?;
        Ok(())
    }

    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault> {
        sleep(&self.stream, PollFlags::OUT, at_most);
        Ok(())
    }
}

struct TcpReceiver {
    peer: usize,
    stream: TcpStream,
    /// `buffer[at..filled]` has arrived and is not handed on.
    buffer: Vec<u8>,
    filled: usize,
    at: usize,
    /// Bytes of the current payload that are not handed on.
    left: usize,
}

impl TcpReceiver {
    /// Read what has arrived, as far as the buffer has room. Bytes of the next message may be among it.
    fn fill(&mut self) -> std::result::Result<(), Fault> {
        if self.at > 0 {
            self.buffer.copy_within(self.at..self.filled, 0);
            (self.filled, self.at) = (self.filled - self.at, 0);
        }
        if self.filled < self.buffer.len() {
            self.filled += moved(self.peer, self.stream.read(&mut self.buffer[self.filled..]))?;
        }
        Ok(())
    }

    /// Like [`TcpReceiver::fill`]. If bytes are there already, the end of the connection is left for later.
    fn fill_or_keep(&mut self) -> std::result::Result<(), Fault> {
        let held = self.filled - self.at;
        match self.fill() {
            Err(_) if held > 0 => Ok(()),
            result => result,
        }
    }
}

impl Receiver for TcpReceiver {
    fn begin(&mut self) -> std::result::Result<Option<Header>, Fault> {
        if self.filled - self.at < HEADER_BYTES {
            self.fill()?;
        }
        if self.filled - self.at < HEADER_BYTES {
            return Ok(None);
        }
        let bytes = std::array::from_fn(|i| self.buffer[self.at + i]);
        let header = Header::decode(&bytes).ok_or(Fault::Corrupt { peer: self.peer })?;
        self.at += HEADER_BYTES;
        self.left = header.bytes as usize;
        Ok(Some(header))
    }

    fn pull(&mut self, most: usize, sink: &mut dyn FnMut(&[u8])) -> std::result::Result<usize, Fault> {
        let most = most.min(self.left);
        // Combining few elements at a time is slow. No element needs more than 16 bytes of alignment.
        let wanted = most.min(BUFFER);
        if self.filled - self.at < wanted || !self.at.is_multiple_of(16) {
            self.fill_or_keep()?;
        }
        let held = (self.filled - self.at).min(most);
        let n = if held == self.left { held } else { held / ALIGNMENT * ALIGNMENT };
        if n > 0 {
            sink(&self.buffer[self.at..self.at + n]);
            self.at += n;
            self.left -= n;
        }
        Ok(n)
    }

    fn pull_into(&mut self, to: &mut [u8]) -> std::result::Result<usize, Fault> {
        let held = (self.filled - self.at).min(self.left);
        let n = if held > 0 {
            to[..held].copy_from_slice(&self.buffer[self.at..self.at + held]);
            self.at += held;
            held
        } else if self.left > 0 {
            let most = self.left.min(to.len());
            moved(self.peer, self.stream.read(&mut to[..most]))?
        } else {
            0
        };
        self.left -= n;
        Ok(n)
    }

    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault> {
        // Bytes in the buffer may be fewer than a header or an element, so they are no reason to return.
        sleep(&self.stream, PollFlags::IN, at_most);
        Ok(())
    }

    fn spins(&self) -> u32 {
        SPINS
    }
}
