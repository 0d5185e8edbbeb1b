//! Links through an MPI library, between the processes that `mpiexec` or `srun` started.
//!
//! The library is one with the standard ABI of MPI 5, such as `libmpi_abi.so` of MPICH and of Intel MPI. It is loaded
//! at run time, once in a process. Messages are on a copy of `MPI_COMM_WORLD`, so that they do not meet those of the
//! program. A link is a tag, and a message is cut into chunks:
//!
//! ```text
//! [ header, payload up to 1 MiB ] [ 1 MiB ] ... [ rest ]        an empty message closes the link
//! ```
//!
//! The functions of MPI do not sleep until something arrives, so threads that wait ask again and again.
#![allow(unsafe_code, reason = "the functions of a C library")]

use super::{
    ALIGNMENT, Fault, HEADER_BYTES, Header, Lane, Meeting, Network, Place, Places, Receiver, Sender, Transport,
};
use libloading::Library;
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, Result};

/// Bytes of a payload in one message.
const CHUNK: usize = 1 << 20;
/// Messages of a link that are on their way at once.
const IN_FLIGHT: usize = 2;
/// Sleep between two looks of a thread that waits for long.
const NAP: Duration = Duration::from_micros(20);

// Names and numbers of the standard ABI, chapter 20 of the MPI standard, version 5.0.
const COMM_WORLD: Handle = 0x101;
const ERRORS_RETURN: Handle = 0x143;
const REQUEST_NULL: Handle = 0x180;
const BYTE: Handle = 0x247;
const THREAD_MULTIPLE: c_int = 4096;
const TAG_UB: c_int = 501;
const MAX_ERROR_STRING: usize = 512;

/// An object of MPI: a pointer, or one of the small numbers of the ABI.
type Handle = usize;

/// `MPI_Status`.
#[repr(C)]
#[derive(Default)]
struct Status {
    source: c_int,
    tag: c_int,
    error: c_int,
    internal: [c_int; 5],
}

/// Declares the table of functions and reads it from a library.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        struct Api { $($field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl Api {
            fn of(library: &Library) -> std::result::Result<Api, libloading::Error> {
                // SAFETY: the types are those of the standard ABI, which a library with these names and the file name
                // `libmpi_abi` has.
                unsafe { Ok(Api { $($field: *library.get($name)?,)* }) }
            }
        }
    };
}

functions! {
    initialized = b"MPI_Initialized\0": fn(*mut c_int);
    finalized = b"MPI_Finalized\0": fn(*mut c_int);
    init_thread = b"MPI_Init_thread\0": fn(*mut c_int, *mut c_void, c_int, *mut c_int);
    query_thread = b"MPI_Query_thread\0": fn(*mut c_int);
    finalize = b"MPI_Finalize\0": fn();
    comm_dup = b"MPI_Comm_dup\0": fn(Handle, *mut Handle);
    comm_rank = b"MPI_Comm_rank\0": fn(Handle, *mut c_int);
    comm_size = b"MPI_Comm_size\0": fn(Handle, *mut c_int);
    comm_get_attr = b"MPI_Comm_get_attr\0": fn(Handle, c_int, *mut *const c_int, *mut c_int);
    comm_set_errhandler = b"MPI_Comm_set_errhandler\0": fn(Handle, Handle);
    error_string = b"MPI_Error_string\0": fn(c_int, *mut c_char, *mut c_int);
    bcast = b"MPI_Bcast\0": fn(*mut c_void, c_int, Handle, c_int, Handle);
    isend = b"MPI_Isend\0": fn(*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    test = b"MPI_Test\0": fn(*mut Handle, *mut c_int, *mut Status);
    improbe = b"MPI_Improbe\0": fn(c_int, c_int, Handle, *mut c_int, *mut Handle, *mut Status);
    get_count = b"MPI_Get_count\0": fn(*const Status, Handle, *mut c_int);
    mrecv = b"MPI_Mrecv\0": fn(*mut c_void, c_int, Handle, *mut Handle, *mut Status);
}

/// The MPI library of this process, started.
pub struct Mpi {
    api: Api,
    /// A copy of `MPI_COMM_WORLD` for the messages of links.
    comm: Handle,
    rank: usize,
    size: usize,
    /// Groups that one rank may lead.
    groups: u64,
    /// Groups that this rank has led so far.
    led: AtomicU64,
    /// Whether the program had started MPI before.
    is_foreign: bool,
    /// Code of the library runs until the process ends.
    _library: Library,
}

static MPI: OnceLock<Mpi> = OnceLock::new();

fn open(path: &Path) -> std::result::Result<(Library, Api), libloading::Error> {
    // SAFETY: loading a library runs its start functions. Those of an MPI library make no use of this process.
    let library = unsafe { Library::new(path)? };
    let api = Api::of(&library)?;
    Ok((library, api))
}

/// Return the first of these libraries that can be loaded and has the functions of MPI. Names without a slash are
/// searched for where the system keeps libraries.
pub fn find<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Option<&'a Path> {
    paths.into_iter().find(|path| open(path).is_ok())
}

impl Mpi {
    /// Load the library and start MPI, at the first call. This waits until all processes of `mpiexec` do so.
    ///
    /// # Errors
    /// Fails if the library cannot be loaded, if it does not serve calls of several threads, or if MPI does not start.
    pub fn start(path: &Path) -> Result<&'static Mpi> {
        static STARTING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
        let _starting = STARTING.lock();
        if let Some(mpi) = MPI.get() {
            return Ok(mpi);
        }
        let mpi = Mpi::load(path)?;
        Ok(MPI.get_or_init(|| mpi))
    }

    fn load(path: &Path) -> Result<Mpi> {
        let (library, api) = open(path).map_err(|e| Error::runtime(format!("MPI library {}: {e}", path.display())))?;
        let (mut flag, mut level) = (0, 0);
        // SAFETY: all pointers lead to variables of the types that the ABI states, and null stands for no arguments.
        let codes = unsafe {
            let asked = (api.initialized)(&raw mut flag);
            let started = if flag == 0 {
                (api.init_thread)(null_mut(), null_mut(), THREAD_MULTIPLE, &raw mut level)
            } else {
                (api.query_thread)(&raw mut level)
            };
            [asked, started]
        };
        let is_foreign = flag != 0;
        for code in codes {
            check(&api, "start of MPI", code)?;
        }
        if level < THREAD_MULTIPLE {
            return Err(Error::runtime(
                "MPI was started without MPI_THREAD_MULTIPLE, which process groups need: their threads send and \
                 receive at once",
            ));
        }
        let (mut comm, mut rank, mut size) = (0, 0, 0);
        let mut highest: *const c_int = null_mut();
        // SAFETY: as above. The value of the attribute is a pointer to an integer that lives as long as the library.
        let tags = unsafe {
            check(&api, "MPI_Comm_dup", (api.comm_dup)(COMM_WORLD, &raw mut comm))?;
            check(&api, "MPI_Comm_set_errhandler", (api.comm_set_errhandler)(comm, ERRORS_RETURN))?;
            check(&api, "MPI_Comm_rank", (api.comm_rank)(comm, &raw mut rank))?;
            check(&api, "MPI_Comm_size", (api.comm_size)(comm, &raw mut size))?;
            check(&api, "MPI_Comm_get_attr", (api.comm_get_attr)(comm, TAG_UB, &raw mut highest, &raw mut flag))?;
            // The standard promises this many.
            if flag == 0 || highest.is_null() { 32_767 } else { *highest }
        };
        let (rank, size) = (rank.unsigned_abs() as usize, size.unsigned_abs() as usize);
        let groups = (u64::from(tags.unsigned_abs()) + 1) / LANES / size as u64;
        Ok(Mpi { api, comm, rank, size, groups, led: AtomicU64::new(0), is_foreign, _library: library })
    }

    /// Return the library, if it is started.
    pub fn started() -> Option<&'static Mpi> {
        MPI.get()
    }

    /// Return the rank that `mpiexec` gave this process.
    pub fn rank(&self) -> usize {
        self.rank
    }
    /// Return the number of processes of `mpiexec`.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Return the bytes that rank 0 gives. All ranks call this. The limit is 4,096 bytes.
    ///
    /// # Errors
    /// Fails if MPI fails, or if there are too many bytes.
    pub fn broadcast(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        const LIMIT: usize = 4096;
        let mut buffer = [0; LIMIT + 4];
        if bytes.len() > LIMIT {
            return Err(Error::value(format!("broadcast: {} bytes, must be at most {LIMIT}", bytes.len())));
        }
        buffer[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        buffer[4..4 + bytes.len()].copy_from_slice(bytes);
        // SAFETY: the buffer has as many bytes as the call says.
        let code = unsafe { (self.api.bcast)(buffer.as_mut_ptr().cast(), buffer.len() as c_int, BYTE, 0, self.comm) };
        check(&self.api, "MPI_Bcast", code)?;
        let length = u32::from_le_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]) as usize;
        Ok(buffer[4..4 + length.min(LIMIT)].to_vec())
    }

    fn is_finalized(&self) -> bool {
        let mut flag = 0;
        // SAFETY: the pointer leads to an integer.
        unsafe { (self.api.finalized)(&raw mut flag) };
        flag != 0
    }

    fn done(&self, peer: usize, what: &str, code: c_int) -> std::result::Result<(), Fault> {
        check(&self.api, what, code).map_err(|e| Fault::System { peer, text: e.to_string() })
    }
}

/// End MPI in this process, if this library has started it. All ranks call this, and wait for each other.
///
/// # Errors
/// Fails if MPI fails.
pub fn finalize() -> Result<()> {
    let Some(mpi) = MPI.get() else { return Ok(()) };
    if mpi.is_foreign || mpi.is_finalized() {
        return Ok(());
    }
    // SAFETY: MPI is started, and not ended.
    check(&mpi.api, "MPI_Finalize", unsafe { (mpi.api.finalize)() })
}

fn check(api: &Api, what: &str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let mut buffer = [0u8; MAX_ERROR_STRING];
    let mut length = 0;
    // SAFETY: the buffer has the size that the ABI requires.
    unsafe { (api.error_string)(code, buffer.as_mut_ptr().cast(), &raw mut length) };
    let text = String::from_utf8_lossy(&buffer[..(length.unsigned_abs() as usize).min(MAX_ERROR_STRING)]);
    Err(Error::runtime(format!("{what}: {text} (MPI error {code})")))
}

/// Links of one group to each peer, each with a tag of its own.
const LANES: u64 = 2;

impl Network for &'static Mpi {
    fn open(&self, meeting: Meeting) -> Result<Arc<dyn Transport>> {
        // The first rank of a group counts the groups that it leads, so no two groups of a pair of ranks have one tag.
        if meeting.rank == 0 {
            let number = self.led.fetch_add(1, Ordering::Relaxed);
            if number >= self.groups {
                return Err(Error::runtime(format!("MPI has tags for {} groups of each first rank only", self.groups)));
            }
            meeting.post("mpi/tag", &((self.rank as u64 * self.groups + number) * LANES).to_string())?;
        }
        meeting.post(&format!("mpi/rank/{}", meeting.rank), &self.rank.to_string())?;
        Ok(Arc::new(MpiTransport { mpi: self, places: Places::publish(meeting, Place::here(None)?)? }))
    }
}

struct MpiTransport {
    mpi: &'static Mpi,
    places: Places,
}

impl MpiTransport {
    fn number(&self, peer: usize, name: &str) -> std::result::Result<Option<c_int>, Fault> {
        let Some(bytes) = self.places.meeting.find(name).map_err(Fault::Other)? else { return Ok(None) };
        let number = str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
        let text = || format!("the store holds no number under {name}");
        number.map(Some).ok_or_else(|| Fault::System { peer, text: text() })
    }

    /// Return the end of a link, or `None` if the peer has not said its rank yet.
    fn end(&self, peer: usize, lane: Lane) -> std::result::Result<Option<End>, Fault> {
        let Some(rank) = self.number(peer, &format!("mpi/rank/{peer}"))? else { return Ok(None) };
        let Some(tag) = self.number(peer, "mpi/tag")? else { return Ok(None) };
        // Later questions about a dead process need its place.
        self.places.of(peer)?;
        Ok(Some(End { mpi: self.mpi, peer, rank, tag: tag + lane as c_int }))
    }
}

impl Transport for MpiTransport {
    fn sender(&self, to: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Sender>>, Fault> {
        Ok(self.end(to, lane)?.map(|end| Box::new(MpiSender { end, flying: VecDeque::new(), cut: 0 }) as _))
    }

    fn receiver(&self, from: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Receiver>>, Fault> {
        let receiver = |end| Box::new(MpiReceiver { end, buffer: Vec::new(), at: 0, left: 0 }) as _;
        Ok(self.end(from, lane)?.map(receiver))
    }

    fn place(&self, rank: usize) -> Option<String> {
        self.places.describe(rank)
    }

    fn is_dead(&self, rank: usize) -> bool {
        self.places.is_dead(rank)
    }
}

/// Where a link leads.
struct End {
    mpi: &'static Mpi,
    peer: usize,
    /// Rank of the peer among the processes of `mpiexec`.
    rank: c_int,
    tag: c_int,
}

/// A message on its way, which MPI reads until it is sent.
struct Flying {
    request: Handle,
    bytes: Vec<u8>,
    /// Bytes of the link's message that are in it.
    counts: usize,
}

struct MpiSender {
    end: End,
    flying: VecDeque<Flying>,
    /// Bytes of the current message that are handed to MPI.
    cut: usize,
}

impl MpiSender {
    /// Return whether the oldest message is sent.
    fn is_first_sent(&mut self) -> std::result::Result<bool, Fault> {
        let Some(first) = self.flying.front_mut() else { return Ok(false) };
        let (mut flag, mut status) = (0, Status::default());
        // SAFETY: the request is of `MPI_Isend`, and is not freed before `flag` is set.
        let code = unsafe { (self.end.mpi.api.test)(&raw mut first.request, &raw mut flag, &raw mut status) };
        self.end.mpi.done(self.end.peer, "MPI_Test", code)?;
        Ok(flag != 0)
    }

    fn send(&mut self, bytes: Vec<u8>, counts: usize) -> std::result::Result<(), Fault> {
        let mut request = REQUEST_NULL;
        let End { mpi, peer, rank, tag } = self.end;
        // SAFETY: the bytes stay where they are, and unchanged, until the request is complete: see `Flying`.
        let code = unsafe {
            let (start, count) = (bytes.as_ptr().cast(), bytes.len() as c_int);
            (mpi.api.isend)(start, count, BYTE, rank, tag, mpi.comm, &raw mut request)
        };
        self.flying.push_back(Flying { request, bytes, counts });
        mpi.done(peer, "MPI_Isend", code)
    }
}

impl Sender for MpiSender {
    fn push(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8], at: &mut usize) -> std::result::Result<(), Fault> {
        if *at == 0 && self.flying.is_empty() {
            self.cut = 0;
        }
        let total = HEADER_BYTES + payload.len();
        while self.cut < total && self.flying.len() < IN_FLIGHT {
            let mut bytes = Vec::new();
            let from = self.cut.saturating_sub(HEADER_BYTES);
            let to = payload.len().min(from + CHUNK);
            if self.cut == 0 {
                bytes.extend_from_slice(header);
            }
            bytes.extend_from_slice(&payload[from..to]);
            let counts = bytes.len();
            self.cut += counts;
            self.send(bytes, counts)?;
        }
        // A message counts once MPI no longer needs this process to move it: a rank that computes does not move it.
        while self.is_first_sent()? {
            let sent = self.flying.pop_front();
            *at += sent.map_or(0, |s| s.counts);
        }
        Ok(())
    }

    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault> {
        let end = Instant::now() + at_most;
        while Instant::now() < end && !self.is_first_sent_or_none()? {
            std::thread::sleep(NAP);
        }
        Ok(())
    }
}

impl MpiSender {
    /// Return whether the next `push` moves something. A message that is found sent stays the first one: asking again
    /// for a complete request says the same.
    fn is_first_sent_or_none(&mut self) -> std::result::Result<bool, Fault> {
        Ok(self.flying.is_empty() || self.is_first_sent()?)
    }
}

impl Drop for MpiSender {
    fn drop(&mut self) {
        if self.end.mpi.is_finalized() {
            self.flying.drain(..).for_each(|f| std::mem::forget(f.bytes));
            return;
        }
        // An empty message that cannot be sent leaves the peer to its timeout.
        let _ = self.send(Vec::new(), 0);
        while matches!(self.is_first_sent(), Ok(true)) {
            self.flying.pop_front();
        }
        // MPI may still read what is not sent.
        self.flying.drain(..).for_each(|f| std::mem::forget(f.bytes));
    }
}

struct MpiReceiver {
    end: End,
    /// The last message. `buffer[at..]` is not handed on.
    buffer: Vec<u8>,
    at: usize,
    /// Bytes of the current payload that are not handed on.
    left: usize,
}

impl MpiReceiver {
    /// Take the next message, if it has arrived, once the last one is handed on.
    fn fill(&mut self) -> std::result::Result<(), Fault> {
        if self.at < self.buffer.len() {
            return Ok(());
        }
        let End { mpi, peer, rank, tag } = self.end;
        let (mut flag, mut message, mut count, mut status) = (0, 0, 0, Status::default());
        // SAFETY: all pointers lead to variables of the types that the ABI states.
        let code = unsafe { (mpi.api.improbe)(rank, tag, mpi.comm, &raw mut flag, &raw mut message, &raw mut status) };
        mpi.done(peer, "MPI_Improbe", code)?;
        if flag == 0 {
            return Ok(());
        }
        // SAFETY: the status is that of the message.
        mpi.done(peer, "MPI_Get_count", unsafe { (mpi.api.get_count)(&raw const status, BYTE, &raw mut count) })?;
        self.buffer.resize(count.unsigned_abs() as usize, 0);
        self.at = 0;
        // SAFETY: the buffer has room for the message, which was matched and is taken once.
        let code = unsafe {
            let to = self.buffer.as_mut_ptr().cast();
            (mpi.api.mrecv)(to, count, BYTE, &raw mut message, &raw mut status)
        };
        mpi.done(peer, "MPI_Mrecv", code)?;
        if count == 0 { Err(Fault::Closed { peer }) } else { Ok(()) }
    }
}

impl Receiver for MpiReceiver {
    fn begin(&mut self) -> std::result::Result<Option<Header>, Fault> {
        self.fill()?;
        let Some(bytes) = self.buffer[self.at..].first_chunk() else {
            return if self.at < self.buffer.len() { Err(Fault::Corrupt { peer: self.end.peer }) } else { Ok(None) };
        };
        let header = Header::decode(bytes).ok_or(Fault::Corrupt { peer: self.end.peer })?;
        self.at += HEADER_BYTES;
        self.left = header.bytes as usize;
        Ok(Some(header))
    }

    fn pull(&mut self, most: usize, sink: &mut dyn FnMut(&[u8])) -> std::result::Result<usize, Fault> {
        if self.left == 0 {
            return Ok(0);
        }
        self.fill()?;
        let held = (self.buffer.len() - self.at).min(self.left).min(most);
        let n = if held == self.left { held } else { held / ALIGNMENT * ALIGNMENT };
        if n > 0 {
            sink(&self.buffer[self.at..self.at + n]);
            self.at += n;
            self.left -= n;
        }
        Ok(n)
    }

    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault> {
        let end = Instant::now() + at_most;
        loop {
            self.fill()?;
            if self.at < self.buffer.len() || Instant::now() >= end {
                return Ok(());
            }
            std::thread::sleep(NAP);
        }
    }
}
