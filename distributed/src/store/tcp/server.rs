//! The server of a store: one thread that waits for all its connections at once.

use super::super::hash::Table;
use super::wire::{MAGIC, MAX_COMMAND, Message, NOT_READY, Operands, Query, READY, STOP_WAITING, Stop, WAIT_CANCELED};
use crate::owner::Owner;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Replies that wait for a slow reader, in bytes, from which the server stops to read its commands.
const HIGH_WATER: usize = 1024 * 1024;

/// Longest reply, in bytes. A short command that asks for one large value many times would fill the memory.
const MAX_REPLY: usize = 256 * 1024 * 1024;

/// Bytes of one read.
const CHUNK: usize = 64 * 1024;

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// A running server. It ends when it is dropped.
pub(super) struct Server {
    port: u16,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    owner: Owner,
}

impl Server {
    /// Serve the connections of `listener`.
    pub(super) fn start(listener: TcpListener) -> io::Result<Server> {
        let port = listener.local_addr()?.port();
        listener.set_nonblocking(true)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &*stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let events = Events {
            epoll,
            listener,
            connections: HashMap::new(),
            next: FIRST_CONNECTION,
            content: Content::default(),
            work: Vec::new(),
        };
        let thread = thread::Builder::new().name("store-server".into()).spawn(move || events.run())?;
        Ok(Server { port, stop, thread: Some(thread), owner: Owner::new() })
    }

    /// The port that the server listens to.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        // A write of 8 bytes to a fresh event descriptor cannot fail; if it did, joining would wait for ever.
        if rustix::io::write(&*self.stop, &1u64.to_ne_bytes()).is_ok()
            && let Some(thread) = self.thread.take()
        {
            // A panic of the thread has been printed, and its connections are closed.
            let _ = thread.join();
        }
    }
}

struct Events {
    epoll: OwnedFd,
    listener: TcpListener,
    connections: HashMap<u64, Connection>,
    next: u64,
    content: Content,
    /// Connections with commands to carry out or replies to send.
    work: Vec<u64>,
}

/// What clients share.
#[derive(Default)]
struct Content {
    table: Table,
    /// Connections that wait for each key, in the order of their waits.
    waiting: HashMap<Vec<u8>, Vec<u64>>,
    /// Waits by connection. A connection has one at a time.
    waits: HashMap<u64, Wait>,
}

struct Wait {
    keys: Vec<Vec<u8>>,
    /// The number of `keys` that are still absent.
    missing: usize,
}

struct Connection {
    stream: TcpStream,
    /// Bytes of commands that have not been carried out.
    input: Vec<u8>,
    /// Replies to send. The first `sent` bytes were sent already.
    output: Vec<u8>,
    sent: usize,
    is_valid: bool,
    interest: EventFlags,
}

/// Whether a connection goes on.
#[derive(PartialEq, Eq)]
enum State {
    Open,
    Closed,
}

impl Events {
    fn run(mut self) {
        let mut ready = Vec::with_capacity(256);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                // Only a wrong descriptor or a wrong buffer fails otherwise.
                Err(_) => return,
            }
            for event in ready.drain(..) {
                // Copy the fields out: the kernel's structure is packed.
                let (token, flags) = (event.data.u64(), event.flags);
                match token {
                    LISTENER => self.accept(),
                    STOP => return,
                    _ => self.serve(token, flags),
                }
            }
        }
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let token = self.next;
                    let flags = EventFlags::IN;
                    // A connection that cannot be set up is dropped, so its client sees the end at once.
                    let is_set = stream.set_nonblocking(true).is_ok()
                        && stream.set_nodelay(true).is_ok()
                        && epoll::add(&self.epoll, &stream, EventData::new_u64(token), flags).is_ok();
                    if is_set {
                        self.next += 1;
                        self.connections.insert(token, Connection::new(stream, flags));
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted || e.kind() == ErrorKind::ConnectionAborted => {}
                Err(e) => {
                    if e.kind() != ErrorKind::WouldBlock {
                        // No descriptor is free: the client stays in the queue. Do not spin until one is.
                        thread::sleep(std::time::Duration::from_millis(10));
                    }
                    return;
                }
            }
        }
    }

    fn serve(&mut self, token: u64, flags: EventFlags) {
        // An earlier event of the same round may have closed it.
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let mut state = State::Open;
        if connection.interest.contains(EventFlags::IN) {
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                state = connection.receive();
            }
        } else if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            state = State::Closed;
        }
        // Also at the end of the stream: a client may set a key and leave.
        self.work.push(token);
        while let Some(token) = self.work.pop() {
            if self.carry_out(token) == State::Closed || self.send(token) == State::Closed {
                self.close(token);
            }
        }
        if state == State::Closed {
            self.close(token);
        }
    }

    /// Carry out the commands that have arrived whole, while there is room for their replies.
    fn carry_out(&mut self, token: u64) -> State {
        let Some(connection) = self.connections.get_mut(&token) else { return State::Open };
        let input = std::mem::take(&mut connection.input);
        let (mut done, mut state, mut woken) = (0, State::Open, Vec::new());
        while connection.pending() < HIGH_WATER {
            let mut operands = Operands(&input[done..]);
            match self.content.command(&mut operands, token, connection, &mut woken) {
                Ok(()) => done = input.len() - operands.0.len(),
                Err(Stop::Incomplete) => {
                    if input.len() - done > MAX_COMMAND {
                        state = State::Closed;
                    }
                    break;
                }
                Err(Stop::Invalid) => {
                    state = State::Closed;
                    break;
                }
            }
        }
        connection.input = input;
        connection.input.drain(..done);
        if connection.input.is_empty() && connection.input.capacity() > 2 * CHUNK {
            connection.input = Vec::new();
        }
        for waiter in woken {
            if let Some(connection) = self.connections.get_mut(&waiter) {
                connection.output.push(STOP_WAITING);
                self.work.push(waiter);
            }
        }
        state
    }

    /// Send what the kernel takes, and tell it what to report next.
    fn send(&mut self, token: u64) -> State {
        let Some(connection) = self.connections.get_mut(&token) else { return State::Open };
        let was_full = connection.pending() >= HIGH_WATER;
        if connection.send() == State::Closed {
            return State::Closed;
        }
        let is_full = connection.pending() >= HIGH_WATER;
        if was_full && !is_full {
            // Commands that waited for room may have arrived long ago: no event will report them.
            self.work.push(token);
        }
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, !is_full);
        interest.set(EventFlags::OUT, connection.pending() > 0);
        if interest != connection.interest {
            connection.interest = interest;
            let data = EventData::new_u64(token);
            if epoll::modify(&self.epoll, &connection.stream, data, interest).is_err() {
                return State::Closed;
            }
        }
        State::Open
    }

    /// Forget a connection. Closing its descriptor also takes it out of the kernel's list.
    fn close(&mut self, token: u64) {
        self.connections.remove(&token);
        self.content.forget(token);
    }
}

impl Connection {
    fn new(stream: TcpStream, interest: EventFlags) -> Connection {
        Connection { stream, input: Vec::new(), output: Vec::new(), sent: 0, is_valid: false, interest }
    }

    /// Bytes of replies that have not been sent.
    fn pending(&self) -> usize {
        self.output.len() - self.sent
    }

    fn receive(&mut self) -> State {
        let start = self.input.len();
        self.input.resize(start + CHUNK, 0);
        let result = loop {
            match self.stream.read(&mut self.input[start..]) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let (read, state) = match result {
            Ok(0) => (0, State::Closed),
            Ok(read) => (read, State::Open),
            Err(e) if e.kind() == ErrorKind::WouldBlock => (0, State::Open),
            Err(_) => (0, State::Closed),
        };
        self.input.truncate(start + read);
        state
    }

    fn send(&mut self) -> State {
        while self.pending() > 0 {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return State::Closed,
                Ok(written) => self.sent += written,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return State::Open,
                Err(_) => return State::Closed,
            }
        }
        self.sent = 0;
        self.output.clear();
        if self.output.capacity() > 2 * CHUNK {
            self.output = Vec::new();
        }
        State::Open
    }

    fn reply(&mut self, message: Message) {
        self.output.extend_from_slice(&message.0);
    }

    fn reply_bytes(&mut self, value: &[u8]) {
        self.output.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.output.extend_from_slice(value);
    }
}

impl Content {
    /// Carry out one command of `connection`. `woken` gets the connections whose wait is over.
    fn command(
        &mut self,
        operands: &mut Operands<'_>,
        token: u64,
        connection: &mut Connection,
        woken: &mut Vec<u64>,
    ) -> Result<(), Stop> {
        let query = Query::from_byte(operands.byte()?).ok_or(Stop::Invalid)?;
        if !connection.is_valid && query != Query::Validate {
            return Err(Stop::Invalid);
        }
        match query {
            Query::Validate => {
                if operands.u32()? != MAGIC {
                    return Err(Stop::Invalid);
                }
                connection.is_valid = true;
            }
            Query::Ping => {
                let nonce = operands.u32()?;
                connection.reply(Message::default().u32(nonce));
            }
            Query::Set => {
                let (key, value) = (operands.key()?, operands.value()?);
                self.table.set(key, value);
                self.wake(key, woken);
            }
            Query::CompareSet => {
                let (key, expected, desired) = (operands.key()?, operands.value()?, operands.value()?);
                let (value, is_set) = self.table.compare_set(key, expected, desired);
                if is_set {
                    self.wake(key, woken);
                }
                connection.reply_bytes(&value);
            }
            Query::Get => {
                let key = operands.key()?;
                connection.reply_bytes(self.table.get(key).unwrap_or_default());
            }
            Query::Add => {
                let (key, amount) = (operands.key()?, operands.i64()?);
                // The protocol has no reply for a value that is no number, so the connection ends.
                let sum = self.table.add(key, amount).map_err(|_| Stop::Invalid)?;
                self.wake(key, woken);
                connection.reply(Message::default().i64(sum));
            }
            Query::Check => {
                let keys = operands.keys()?;
                let are_present = keys.iter().all(|key| self.table.contains(key));
                connection.reply(Message::default().byte(if are_present { READY } else { NOT_READY }));
            }
            Query::Wait => {
                let keys = operands.keys()?;
                self.wait(&keys, token, connection)?;
            }
            Query::NumKeys => {
                connection.reply(Message::default().i64(self.table.len() as i64));
            }
            Query::DeleteKey => {
                let was_present = self.table.delete(operands.key()?);
                connection.reply(Message::default().i64(was_present.into()));
            }
            Query::Append => {
                let (key, value) = (operands.key()?, operands.value()?);
                self.table.append(key, value);
                self.wake(key, woken);
            }
            Query::MultiGet => {
                let keys = operands.keys()?;
                let lengths = keys.iter().map(|key| 8 + self.table.get(key).map_or(0, <[u8]>::len));
                if lengths.sum::<usize>() > MAX_REPLY {
                    return Err(Stop::Invalid);
                }
                for key in keys {
                    connection.reply_bytes(self.table.get(key).unwrap_or_default());
                }
            }
            Query::MultiSet => {
                let mut pairs = Vec::new();
                for _ in 0..operands.count()? {
                    pairs.push((operands.key()?, operands.value()?));
                }
                for (key, value) in pairs {
                    self.table.set(key, value);
                    self.wake(key, woken);
                }
            }
            Query::CancelWait => {
                self.forget(token);
                connection.reply(Message::default().byte(WAIT_CANCELED));
            }
            Query::QueuePush => {
                let (key, value) = (operands.key()?, operands.value()?);
                self.table.push(key, value);
                self.wake_one(key, woken);
            }
            Query::QueuePop => {
                let key = operands.key()?;
                connection.reply(Message::default().i64(self.table.queue_len(key) as i64));
                if let Some(value) = self.table.pop(key) {
                    connection.reply_bytes(&value);
                }
            }
            Query::QueueLen => {
                let len = self.table.queue_len(operands.key()?);
                connection.reply(Message::default().i64(len as i64));
            }
            Query::ListKeys => {
                let keys = self.table.keys();
                connection.reply(Message::default().i64(keys.len() as i64));
                for key in keys {
                    connection.reply_bytes(key);
                }
            }
            Query::Barrier => {
                let (key, world_size) = (operands.key()?, operands.i64()?);
                let count = self.table.add(key, 1).map_err(|_| Stop::Invalid)?;
                if count >= world_size {
                    self.wake(key, woken);
                    connection.output.push(STOP_WAITING);
                } else {
                    self.enlist(&[key], token)?;
                }
            }
        }
        Ok(())
    }

    /// Answer now if all `keys` are present, else once they are.
    fn wait(&mut self, keys: &[&[u8]], token: u64, connection: &mut Connection) -> Result<(), Stop> {
        let missing: Vec<&[u8]> = keys.iter().copied().filter(|key| !self.table.contains(key)).collect();
        if missing.is_empty() {
            connection.output.push(STOP_WAITING);
            return Ok(());
        }
        self.enlist(&missing, token)
    }

    fn enlist(&mut self, keys: &[&[u8]], token: u64) -> Result<(), Stop> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        for key in &keys {
            self.waiting.entry(key.clone()).or_default().push(token);
        }
        let wait = Wait { missing: keys.len(), keys };
        // The replies to two waits at a time could not be told apart.
        if self.waits.insert(token, wait).is_some() { Err(Stop::Invalid) } else { Ok(()) }
    }

    /// Note that `key` is present. Connections that waited for nothing else go to `woken`.
    fn wake(&mut self, key: &[u8], woken: &mut Vec<u64>) {
        for token in self.waiting.remove(key).unwrap_or_default() {
            let Some(wait) = self.waits.get_mut(&token) else { continue };
            wait.missing -= 1;
            if wait.missing == 0 {
                self.waits.remove(&token);
                woken.push(token);
            }
        }
    }

    /// Wake the first connection that waits for the queue `key` alone: the others would find the queue empty.
    fn wake_one(&mut self, key: &[u8], woken: &mut Vec<u64>) {
        let Some(waiting) = self.waiting.get(key) else { return };
        let first = waiting.iter().find(|token| self.waits.get(token).is_some_and(|wait| wait.missing == 1));
        if let Some(&token) = first {
            self.forget(token);
            woken.push(token);
        }
    }

    /// Forget the wait of a connection.
    fn forget(&mut self, token: u64) {
        for key in self.waits.remove(&token).map(|wait| wait.keys).unwrap_or_default() {
            if let Some(waiting) = self.waiting.get_mut(&key) {
                waiting.retain(|&waiter| waiter != token);
                if waiting.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
    }
}
