//! A store in one process that others reach by TCP. Client and server speak PyTorch's protocol.
//!
//! A server is one thread for all its clients. A [`TcpStore`] uses one connection as long as one thread waits at a
//! time. While a thread waits on the connection, calls of other threads open a second one.

mod server;
mod wire;

use self::server::Server;
use self::wire::{
    MAGIC, MAX_COMMAND, MAX_KEY, MAX_KEYS, MAX_VALUE, Message, Query, READY, STOP_WAITING, WAIT_CANCELED,
};
use super::{
    DEFAULT_TIMEOUT, Deadline, SLICE, Store, Timeout, check_interrupt, expect_pairs, queue_empty, wait_timeout,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::{Arc, LazyLock, Weak};
use std::thread;
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// The port of PyTorch's stores.
pub const DEFAULT_PORT: u16 = 29500;

/// A client waits at least this long for a reply that the server can give at once, even if the store's timeout is
/// shorter.
const MIN_REPLY_TIME: Duration = Duration::from_secs(30);

/// Longest wait for one attempt to connect, and between two attempts.
const MAX_ATTEMPT: Duration = Duration::from_secs(3);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Idle connections that a store keeps for the next thread that waits.
const MAX_IDLE: usize = 4;

/// How to make a [`TcpStore`].
pub struct TcpOptions {
    /// The server's port. A server with port 0 takes a free one.
    pub port: u16,
    /// Whether this store runs the server.
    pub is_server: bool,
    /// The number of stores that will connect, if it is known.
    pub workers: Option<usize>,
    /// Whether the server waits, in [`TcpStore::new`], until all `workers` have connected.
    pub wait_for_workers: bool,
    /// Time for connecting, and the store's timeout.
    pub timeout: Duration,
    /// Whether several stores of this process may share the server of a port.
    pub multi_tenant: bool,
    /// A socket for the server that listens already.
    pub listener: Option<TcpListener>,
    /// The rank whose process runs the server, if it is known. Errors name it.
    pub serving_rank: Option<usize>,
}

impl Default for TcpOptions {
    fn default() -> TcpOptions {
        TcpOptions {
            port: DEFAULT_PORT,
            is_server: false,
            workers: None,
            wait_for_workers: true,
            timeout: DEFAULT_TIMEOUT,
            multi_tenant: false,
            serving_rank: None,
            listener: None,
        }
    }
}

/// A store that processes share by TCP.
pub struct TcpStore {
    host: String,
    port: u16,
    workers: Option<usize>,
    timeout: Timeout,
    connection: Mutex<Slot>,
    idle: Mutex<Vec<Client>>,
    server: Option<Arc<Server>>,
    serving_rank: Option<usize>,
}

/// The connection for calls that do not wait.
enum Slot {
    Here(Client),
    /// A thread waits on it. All commands before the wait have been answered.
    Taken,
    /// It failed, with this message.
    Broken(String),
}

impl TcpStore {
    /// Connect to the server at `host`, and run the server first if `options` say so.
    ///
    /// # Errors
    ///
    /// [`DistNetwork`](ErrorKind::DistNetwork) if the server cannot be reached in time, or its port is in use.
    /// [`DistStore`](ErrorKind::DistStore) if workers are missing after the timeout.
    pub fn new(host: &str, mut options: TcpOptions) -> Result<TcpStore> {
        let mut port = options.port;
        let mut server = None;
        if options.is_server {
            match serve(port, options.listener.take(), options.multi_tenant) {
                Ok(running) => {
                    port = running.port();
                    server = Some(running);
                }
                // The agent of torchrun runs the server of its own port.
                Err(_) if agent_serves(port) => {}
                Err(e) => return Err(e),
            }
        }
        let client = Client::connect(host, port, options.timeout, options.serving_rank, false)?;
        let store = TcpStore {
            host: host.to_string(),
            port,
            workers: options.workers,
            timeout: Timeout::new(options.timeout),
            connection: Mutex::new(Slot::Here(client)),
            idle: Mutex::default(),
            server,
            serving_rank: options.serving_rank,
        };
        if options.wait_for_workers {
            store.wait_for_workers()?;
        }
        Ok(store)
    }

    /// Another client of the same server, with connections of its own.
    pub fn another(&self) -> Result<TcpStore> {
        let options = TcpOptions {
            port: self.port,
            wait_for_workers: false,
            timeout: self.timeout(),
            serving_rank: self.serving_rank,
            ..TcpOptions::default()
        };
        TcpStore::new(&self.host, options)
    }

    /// Return the host name that was given.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Return the server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Count this store as connected. The server's store then waits until all workers are. Without a number of workers,
    /// do nothing.
    pub fn wait_for_workers(&self) -> Result<()> {
        // PyTorch's stores count themselves at this key, which has no `/` in front.
        const JOINED: &[u8] = b"init/";
        let Some(workers) = self.workers else { return Ok(()) };
        let add = |amount| self.ask(|client| client.number(Message::query(Query::Add).bytes(JOINED).i64(amount)));
        let mut joined = add(1)?;
        if self.server.is_none() {
            return Ok(());
        }
        let timeout = self.timeout();
        let deadline = Deadline::after(timeout);
        while joined < workers as i64 {
            let Some(slice) = deadline.slice() else {
                let message = format!(
                    "Timed out after {} seconds waiting for clients. {joined}/{workers} clients joined.",
                    timeout.as_secs_f64()
                );
                return Err(Error::new(ErrorKind::DistStore, message));
            };
            thread::sleep(slice.min(Duration::from_millis(10)));
            check_interrupt()?;
            joined = add(0)?;
        }
        Ok(())
    }

    /// Run `f` with the connection for short calls.
    fn ask<R>(&self, f: impl FnOnce(&mut Client) -> Result<R>) -> Result<R> {
        let mut slot = self.connection.lock();
        self.ask_in(&mut slot, f)
    }

    fn ask_in<R>(&self, slot: &mut Slot, f: impl FnOnce(&mut Client) -> Result<R>) -> Result<R> {
        if matches!(slot, Slot::Taken) {
            let idle = self.idle.lock().pop();
            let connect = || Client::connect(&self.host, self.port, self.timeout(), self.serving_rank, true);
            *slot = Slot::Here(idle.map_or_else(connect, Ok)?);
        }
        let client = match slot {
            Slot::Here(client) => client,
            Slot::Broken(message) => return Err(Error::new(ErrorKind::DistNetwork, message.clone())),
            Slot::Taken => unreachable!("the slot was filled above"),
        };
        client.reply_time = self.timeout().max(MIN_REPLY_TIME);
        let result = f(client);
        if client.is_broken {
            let message = result.as_ref().err().map_or_else(String::new, |e| e.message().to_string());
            *slot = Slot::Broken(message);
        }
        result
    }

    /// Run `f` until it returns a value. In between, wait for `keys`. `f` must end with a command that is answered.
    fn when_present<R>(
        &self,
        keys: &[&str],
        deadline: Deadline,
        mut f: impl FnMut(&mut Client) -> Result<Option<R>>,
    ) -> Result<R> {
        loop {
            let mut client = {
                let mut slot = self.connection.lock();
                if let Some(value) = self.ask_in(&mut slot, &mut f)? {
                    return Ok(value);
                }
                match std::mem::replace(&mut *slot, Slot::Taken) {
                    Slot::Here(client) => client,
                    _ => unreachable!("a call has just succeeded on this connection"),
                }
            };
            let result = client.wait(Message::query(Query::Wait).keys(keys), &deadline);
            self.give_back(client, &result);
            if !result? {
                return Err(self.with_missing(keys, deadline.timeout()));
            }
        }
    }

    /// Put a connection back that a thread waited on.
    fn give_back<R>(&self, client: Client, result: &Result<R>) {
        let mut slot = self.connection.lock();
        match (client.is_broken, &*slot) {
            (true, Slot::Taken) => {
                let message = result.as_ref().err().map_or_else(String::new, |e| e.message().to_string());
                *slot = Slot::Broken(message);
            }
            // The connection in the slot will notice a lost server by itself.
            (true, _) => {}
            (false, Slot::Taken) => *slot = Slot::Here(client),
            (false, _) => {
                let mut idle = self.idle.lock();
                if idle.len() < MAX_IDLE {
                    idle.push(client);
                }
            }
        }
    }

    /// The error of a wait that was too long. It names the keys that are absent, if the server still answers.
    #[cold]
    fn with_missing(&self, keys: &[&str], timeout: Duration) -> Error {
        // PyTorch's message shows keys as they are on the wire.
        let shown = |key: &&str| format!("/{key}");
        let is_absent = |key: &&&str| !self.check(&[**key]).unwrap_or(false);
        let absent: Vec<String> = keys.iter().filter(is_absent).map(shown).collect();
        if absent.is_empty() {
            return wait_timeout(timeout, &keys.iter().map(shown).collect::<Vec<_>>());
        }
        wait_timeout(timeout, &absent)
    }
}

/// The form of PyTorch's `repr`.
impl fmt::Display for TcpStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Do not wait: the thread that uses the connection may need the interpreter's lock, which this one may hold.
        match self.connection.try_lock().as_deref() {
            Some(Slot::Here(client)) => write!(f, "TCPStore(client=TCPClient({client}), ")?,
            Some(Slot::Broken(_)) => f.write_str("TCPStore(client=<nullptr>, ")?,
            Some(Slot::Taken) | None => f.write_str("TCPStore(client=<busy>, ")?,
        }
        match &self.server {
            Some(server) => write!(f, "server=TCPServer(port={}))", server.port()),
            None => f.write_str("server=<nullptr>)"),
        }
    }
}

impl Store for TcpStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        expect_keys("set", &[key])?;
        expect_value("set", value)?;
        self.ask(|client| client.tell(Message::query(Query::Set).key(key).bytes(value)))
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        expect_keys("get", &[key])?;
        self.when_present(&[key], Deadline::after(self.timeout()), |client| {
            // Both questions travel together: an empty answer alone would not say whether the key is present.
            let mut message = Message::query(Query::Check).keys(&[key]);
            message.0.extend_from_slice(&Message::query(Query::Get).key(key).0);
            client.tell(message)?;
            let is_present = client.byte()? == READY;
            let value = client.bytes()?;
            Ok(is_present.then_some(value))
        })
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        expect_keys("add", &[key])?;
        self.ask(|client| client.number(Message::query(Query::Add).key(key).i64(amount)))
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        expect_keys("check", keys)?;
        self.ask(|client| client.check(keys))
    }

    fn wait(&self, keys: &[&str], timeout: Option<Duration>) -> Result<()> {
        expect_keys("wait", keys)?;
        let deadline = Deadline::after(timeout.unwrap_or_else(|| self.timeout()));
        self.when_present(keys, deadline, |client| Ok(client.check(keys)?.then_some(())))
    }

    fn timeout(&self) -> Duration {
        self.timeout.get()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.timeout.set(timeout);
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        expect_keys("compare_set", &[key])?;
        expect_value("compare_set", expected)?;
        expect_value("compare_set", desired)?;
        self.ask(|client| {
            client.tell(Message::query(Query::CompareSet).key(key).bytes(expected).bytes(desired))?;
            client.bytes()
        })
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        expect_keys("delete_key", &[key])?;
        self.ask(|client| Ok(client.number(Message::query(Query::DeleteKey).key(key))? == 1))
    }

    /// Return the number of keys. One of them counts the workers, if their number was given.
    fn num_keys(&self) -> Result<i64> {
        self.ask(|client| client.number(Message::query(Query::NumKeys)))
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        expect_keys("append", &[key])?;
        expect_value("append", value)?;
        self.ask(|client| client.tell(Message::query(Query::Append).key(key).bytes(value)))
    }

    fn multi_get(&self, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
        expect_keys("multi_get", keys)?;
        self.when_present(keys, Deadline::after(self.timeout()), |client| {
            let mut message = Message::query(Query::Check).keys(keys);
            message.0.extend_from_slice(&Message::query(Query::MultiGet).keys(keys).0);
            client.tell(message)?;
            let are_present = client.byte()? == READY;
            let values = keys.iter().map(|_| client.bytes()).collect::<Result<Vec<_>>>()?;
            Ok(are_present.then_some(values))
        })
    }

    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> Result<()> {
        expect_pairs(keys, values)?;
        expect_keys("multi_set", keys)?;
        for value in values {
            expect_value("multi_set", value)?;
        }
        let pairs = keys.iter().zip(values);
        let message = Message::query(Query::MultiSet).i64(keys.len() as i64);
        let message = pairs.fold(message, |message, (key, value)| message.key(key).bytes(value));
        if message.0.len() > MAX_COMMAND {
            let (bytes, most) = (message.0.len(), MAX_COMMAND);
            return Err(Error::value(format!("multi_set: values: {bytes} bytes in all, must be at most {most}")));
        }
        self.ask(|client| client.tell(message))
    }

    fn has_extended_api(&self) -> bool {
        true
    }

    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        expect_keys("queue_push", &[key])?;
        expect_value("queue_push", value)?;
        self.ask(|client| client.tell(Message::query(Query::QueuePush).key(key).bytes(value)))
    }

    fn queue_pop(&self, key: &str, block: bool) -> Result<Vec<u8>> {
        expect_keys("queue_pop", &[key])?;
        let pop = |client: &mut Client| {
            let len = client.number(Message::query(Query::QueuePop).key(key))?;
            if len > 0 { client.bytes().map(Some) } else { Ok(None) }
        };
        if !block {
            return self.ask(pop)?.ok_or_else(|| queue_empty(key));
        }
        // After a wait the value may be gone, taken by another process: `when_present` then waits again.
        self.when_present(&[key], Deadline::after(self.timeout()), pop)
    }

    fn queue_len(&self, key: &str) -> Result<i64> {
        expect_keys("queue_len", &[key])?;
        self.ask(|client| client.number(Message::query(Query::QueueLen).key(key)))
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        self.ask(|client| {
            let len = client.number(Message::query(Query::ListKeys))?;
            let mut keys = Vec::new();
            for _ in 0..len {
                // Keys of users stand behind `/`; the others belong to the stores themselves.
                if let Some(key) = client.bytes()?.strip_prefix(b"/") {
                    keys.push(String::from_utf8_lossy(key).into_owned());
                }
            }
            Ok(keys)
        })
    }

    fn barrier(&self, key: &str, world_size: usize, timeout: Option<Duration>) -> Result<()> {
        expect_keys("barrier", &[key])?;
        let deadline = Deadline::after(timeout.unwrap_or_else(|| self.timeout()));
        let mut client = {
            let mut slot = self.connection.lock();
            // All commands before the barrier must have been answered before another connection may be used.
            self.ask_in(&mut slot, Client::ping)?;
            match std::mem::replace(&mut *slot, Slot::Taken) {
                Slot::Here(client) => client,
                _ => unreachable!("a call has just succeeded on this connection"),
            }
        };
        let result = client.wait(Message::query(Query::Barrier).key(key).i64(world_size as i64), &deadline);
        self.give_back(client, &result);
        if result? {
            return Ok(());
        }
        let message = format!("barrier timeout after {}ms, key: {key}", deadline.timeout().as_millis());
        Err(Error::new(ErrorKind::DistStore, message))
    }
}

/// Check that a server will accept `keys`.
fn expect_keys(op: &str, keys: &[&str]) -> Result<()> {
    if keys.len() > MAX_KEYS {
        return Err(Error::value(format!("{op}: keys: {} keys, must be at most {MAX_KEYS}", keys.len())));
    }
    // One byte is for the `/`.
    match keys.iter().find(|key| key.len() >= MAX_KEY) {
        None => Ok(()),
        Some(key) => Err(Error::value(format!("{op}: key: {} bytes, must be at most {}", key.len(), MAX_KEY - 1))),
    }
}

/// Check that a server will accept `value`.
fn expect_value(op: &str, value: &[u8]) -> Result<()> {
    if value.len() <= MAX_VALUE {
        return Ok(());
    }
    Err(Error::value(format!("{op}: value: {} bytes, must be at most {MAX_VALUE}", value.len())))
}

/// Whether the agent of torchrun runs a server at `port`.
fn agent_serves(port: u16) -> bool {
    let is_on = std::env::var("TORCHELASTIC_USE_AGENT_STORE")
        .is_ok_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "t" | "y" | "yes"));
    is_on && std::env::var("MASTER_PORT").is_ok_and(|value| value == port.to_string())
}

/// Servers of this process that stores may share, by port.
static SHARED: LazyLock<Mutex<HashMap<u16, Weak<Server>>>> = LazyLock::new(Mutex::default);

/// Run a server at `port`, or return the one that runs there.
fn serve(port: u16, listener: Option<TcpListener>, multi_tenant: bool) -> Result<Arc<Server>> {
    if !multi_tenant {
        return start(port, listener).map(Arc::new);
    }
    let mut shared = SHARED.lock();
    if let Some(server) = shared.get(&port).and_then(Weak::upgrade) {
        return Ok(server);
    }
    let server = Arc::new(start(port, listener)?);
    shared.retain(|_, server| server.strong_count() > 0);
    shared.insert(server.port(), Arc::downgrade(&server));
    Ok(server)
}

fn start(port: u16, listener: Option<TcpListener>) -> Result<Server> {
    let listener = match listener {
        Some(listener) => listener,
        // A socket of IPv6 takes connections of IPv4 too, where the system has IPv6.
        None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
            .map_err(|e| {
                let text = "The server socket has failed to listen on any local network address.";
                Error::new(ErrorKind::DistNetwork, format!("{text} port: {port}, error: {e}"))
            })?,
    };
    let server = Server::start(listener).map_err(|e| {
        Error::new(ErrorKind::DistNetwork, format!("The server of a TCPStore cannot start. port: {port}, error: {e}"))
    })?;
    if port != 0 && server.port() != port {
        let message = format!("TCPStore: listener: bound to port {}, must be port {port}", server.port());
        return Err(Error::new(ErrorKind::DistStore, message));
    }
    Ok(server)
}

/// A connection to a server.
struct Client {
    stream: BufReader<TcpStream>,
    peer: String,
    /// See [`TcpOptions::serving_rank`].
    serving_rank: Option<usize>,
    /// Time for an answer that needs no waiting.
    reply_time: Duration,
    /// Whether the connection failed, or an answer is still under way that no call expects.
    is_broken: bool,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = self.stream.get_ref();
        let shown = |address: io::Result<SocketAddr>| match address {
            Ok(address) if address.ip().to_canonical().is_loopback() => format!("[localhost]:{}", address.port()),
            Ok(address) => format!("[{}]:{}", address.ip(), address.port()),
            Err(_) => "<none>".to_string(),
        };
        let (local, remote) = (shown(stream.local_addr()), shown(stream.peer_addr()));
        write!(f, "SocketImpl(fd={}, addr={local}, remote={remote})", stream.as_raw_fd())
    }
}

impl Client {
    /// Connect to a server. It may start later: try again until `timeout` is over. A server that `has_run` and refuses
    /// is gone. A thread that holds the store must not wait for it.
    fn connect(host: &str, port: u16, timeout: Duration, serving_rank: Option<usize>, has_run: bool) -> Result<Client> {
        let deadline = Deadline::after(timeout);
        let mut pause = Duration::from_millis(10);
        loop {
            let error = match Client::try_connect(host, port, &deadline) {
                Ok(client) => return Ok(Client { serving_rank, ..client }),
                Err((e, _)) if e.kind() != ErrorKind::DistNetwork => return Err(e),
                Err((e, Some(io::ErrorKind::ConnectionRefused))) if has_run => {
                    let gone = |rank| format!("TCPStore: {e}: rank {rank}, which served the store, has died or left");
                    let message = serving_rank.map_or_else(|| format!("TCPStore: {e}"), gone);
                    return Err(Error::new(ErrorKind::DistNetwork, message));
                }
                Err((e, _)) => e,
            };
            let again = Instant::now() + pause;
            pause = (pause * 2).min(MAX_PAUSE);
            while let left = again.saturating_duration_since(Instant::now())
                && !left.is_zero()
            {
                let Some(slice) = deadline.slice() else {
                    let message = format!(
                        "The client socket has timed out after {}ms while trying to connect to ({host}, {port}).",
                        timeout.as_millis()
                    );
                    return Err(Error::new(ErrorKind::DistNetwork, message).note(error.message()));
                };
                thread::sleep(left.min(slice));
                check_interrupt()?;
            }
        }
    }

    /// Return a connection, or an error and what the system said.
    fn try_connect(
        host: &str,
        port: u16,
        deadline: &Deadline,
    ) -> std::result::Result<Client, (Error, Option<io::ErrorKind>)> {
        let peer = format!("{host}:{port}");
        let failed = |e: io::Error| {
            let message = format!("connecting to {peer} failed: {e}");
            (Error::new(ErrorKind::DistNetwork, message), Some(e.kind()))
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs().map_err(failed)? {
            let time = deadline.left().unwrap_or(MAX_ATTEMPT).clamp(Duration::from_millis(1), MAX_ATTEMPT);
            let stream = match TcpStream::connect_timeout(&address, time) {
                Ok(stream) => stream,
                Err(e) => {
                    last = e;
                    continue;
                }
            };
            stream.set_nodelay(true).map_err(failed)?;
            // A read returns after each slice, so that Ctrl-C is noticed.
            stream.set_read_timeout(Some(SLICE)).map_err(failed)?;
            let reply_time = time.max(Duration::from_secs(1));
            let mut client = Client {
                stream: BufReader::new(stream),
                peer: peer.clone(),
                serving_rank: None,
                reply_time,
                is_broken: false,
            };
            let greeted = client.tell(Message::query(Query::Validate).u32(MAGIC)).and_then(|()| client.ping());
            return greeted.map(|()| client).map_err(|e| (e, None));
        }
        Err(failed(last))
    }

    #[cold]
    fn failed(&mut self, doing: &str, e: &io::Error) -> Error {
        self.is_broken = true;
        let peer = &self.peer;
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        let reason = match (e.kind(), self.serving_rank) {
            (UnexpectedEof | ConnectionReset | BrokenPipe, Some(rank)) => {
                format!("rank {rank}, which served the store, has died or left")
            }
            (UnexpectedEof, None) => "the server has closed the connection".to_string(),
            _ => e.to_string(),
        };
        Error::new(ErrorKind::DistNetwork, format!("TCPStore: {doing} {peer} failed: {reason}"))
    }

    /// Send a command.
    fn tell(&mut self, message: Message) -> Result<()> {
        self.stream.get_mut().write_all(&message.0).map_err(|e| self.failed("sending to", &e))
    }

    /// Wait until bytes of an answer are there. Return whether they are, before `deadline`.
    fn ready(&mut self, deadline: &Deadline) -> Result<bool> {
        loop {
            match self.stream.fill_buf() {
                Ok([]) => return Err(self.failed("receiving from", &io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => return Ok(true),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if deadline.left().is_some_and(|left| left.is_zero()) {
                        return Ok(false);
                    }
                }
                Err(e) => return Err(self.failed("receiving from", &e)),
            }
            check_interrupt()?;
        }
    }

    /// Fill `buffer` with bytes of an answer.
    fn receive(&mut self, mut buffer: &mut [u8]) -> Result<()> {
        let deadline = Deadline::after(self.reply_time);
        while !buffer.is_empty() {
            // An interrupt leaves the rest of the answer on the wire.
            let is_ready = self.ready(&deadline).inspect_err(|_| self.is_broken = true)?;
            if !is_ready {
                return Err(self.failed("receiving from", &io::ErrorKind::TimedOut.into()));
            }
            let ready = self.stream.buffer();
            let len = ready.len().min(buffer.len());
            buffer[..len].copy_from_slice(&ready[..len]);
            buffer = &mut buffer[len..];
            self.stream.consume(len);
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.receive(&mut byte)?;
        Ok(byte[0])
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        const PART: usize = 1 << 20;
        let mut len = [0; 8];
        self.receive(&mut len)?;
        let mut left = u64::from_le_bytes(len);
        let mut value = Vec::new();
        while left > 0 {
            // Part by part: a wrong length must not take memory before its bytes have come.
            let part = left.min(PART as u64) as usize;
            let start = value.len();
            value.resize(start + part, 0);
            self.receive(&mut value[start..])?;
            left -= part as u64;
        }
        Ok(value)
    }

    /// Send a command whose answer is a number, and return it.
    fn number(&mut self, message: Message) -> Result<i64> {
        self.tell(message)?;
        let mut number = [0; 8];
        self.receive(&mut number)?;
        Ok(i64::from_le_bytes(number))
    }

    fn check(&mut self, keys: &[&str]) -> Result<bool> {
        self.tell(Message::query(Query::Check).keys(keys))?;
        Ok(self.byte()? == READY)
    }

    fn ping(&mut self) -> Result<()> {
        let nonce = std::process::id();
        self.tell(Message::query(Query::Ping).u32(nonce))?;
        let mut answer = [0; 4];
        self.receive(&mut answer)?;
        if answer == nonce.to_le_bytes() {
            return Ok(());
        }
        Err(self.failed("receiving from", &io::Error::other("the answer is not that of a TCPStore")))
    }

    /// Send a command that waits. Return whether its answer came before `deadline`.
    fn wait(&mut self, message: Message, deadline: &Deadline) -> Result<bool> {
        self.tell(message)?;
        let is_ready = self.ready(deadline);
        if let Ok(true) = is_ready {
            self.expect(STOP_WAITING)?;
            return Ok(true);
        }
        if self.is_broken {
            return is_ready;
        }
        // Time is over, or the user interrupts: no answer to the wait may come later, between those to other commands.
        self.tell(Message::query(Query::CancelWait))?;
        let was_late = self.byte()? == STOP_WAITING;
        if was_late {
            self.expect(WAIT_CANCELED)?;
        }
        is_ready.map(|_| was_late)
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        let received = self.byte()?;
        if received == byte {
            return Ok(());
        }
        Err(self.failed("receiving from", &io::Error::other(format!("received {received}, expected {byte}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_connection_does_not_wait_for_a_server_that_is_gone() {
        let options = TcpOptions {
            port: 0,
            is_server: true,
            wait_for_workers: false,
            // Without the rule, the test takes as long.
            timeout: Duration::from_secs(300),
            serving_rank: Some(0),
            ..TcpOptions::default()
        };
        let mut store = TcpStore::new("127.0.0.1", options).unwrap();
        // A thread waits on the connection.
        let taken = std::mem::replace(&mut *store.connection.lock(), Slot::Taken);
        store.set("a", b"1").unwrap();
        drop(taken);
        *store.connection.lock() = Slot::Taken;
        store.server = None;
        let error = store.check(&["a"]).unwrap_err();
        assert!(error.message().contains("rank 0, which served the store, has died or left"), "{error}");
    }
}
