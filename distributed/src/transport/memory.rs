//! Links between the threads of one process, as queues. For tests and for groups of one.

use super::{ALIGNMENT, Fault, HEADER_BYTES, Header, Lane, Meeting, Network, Receiver, Sender, Transport};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use torchtpu_tensor::{Error, Result};

type Message = ([u8; HEADER_BYTES], Vec<u8>);

#[derive(Default)]
struct Queue {
    messages: VecDeque<Message>,
    /// Whether the sending or the receiving end was dropped.
    is_closed: bool,
}

#[derive(Default)]
struct Channel {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

impl Channel {
    fn close(&self) {
        self.queue.lock().is_closed = true;
        self.arrived.notify_all();
    }
}

/// Names a channel: sender, receiver, and lane.
type Name = (usize, usize, Lane);

/// The channels of one group.
#[derive(Default)]
struct Room {
    channels: HashMap<Name, Arc<Channel>>,
    /// Ranks that have left. The last one removes the room.
    left: Vec<usize>,
}

/// The network of threads that hold clones of it. Groups whose stores differ may have equal names.
#[derive(Clone, Default)]
pub struct Memory {
    rooms: Arc<Mutex<HashMap<u64, Room>>>,
    next_room: Arc<AtomicU64>,
}

struct MemoryTransport {
    network: Memory,
    meeting: Meeting,
    /// Number of the group's room, which the first rank writes to the store.
    room: u64,
}

impl Network for Memory {
    fn open(&self, meeting: Meeting) -> Result<Arc<dyn Transport>> {
        if meeting.store.add(&meeting.key("room_users"), 1)? == 1 {
            meeting.post("room", &self.next_room.fetch_add(1, Ordering::Relaxed).to_string())?;
        }
        let room = meeting.store.get(&meeting.key("room"))?;
        let room = str::from_utf8(&room).ok().and_then(|room| room.parse().ok());
        let room = room.ok_or_else(|| Error::runtime("the store holds no valid room of the group"))?;
        Ok(Arc::new(MemoryTransport { network: self.clone(), meeting, room }))
    }
}

impl MemoryTransport {
    fn channel(&self, from: usize, to: usize, lane: Lane) -> Arc<Channel> {
        let mut rooms = self.network.rooms.lock();
        let room = rooms.entry(self.room).or_default();
        let channel = room.channels.entry((from, to, lane)).or_default().clone();
        if room.left.contains(&from) {
            channel.close();
        }
        channel
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        let mut rooms = self.network.rooms.lock();
        let room = rooms.entry(self.room).or_default();
        room.left.push(self.meeting.rank);
        let own = room.channels.iter().filter(|((from, ..), _)| *from == self.meeting.rank);
        own.for_each(|(_, channel)| channel.close());
        if room.left.len() == self.meeting.size {
            rooms.remove(&self.room);
        }
    }
}

impl Transport for MemoryTransport {
    fn sender(&self, to: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Sender>>, Fault> {
        Ok(Some(Box::new(End { peer: to, channel: self.channel(self.meeting.rank, to, lane), current: None, at: 0 })))
    }
    fn receiver(&self, from: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Receiver>>, Fault> {
        let channel = self.channel(from, self.meeting.rank, lane);
        Ok(Some(Box::new(End { peer: from, channel, current: None, at: 0 })))
    }
}

/// One end of a channel. `current` and `at` say how far a receiver has read.
struct End {
    peer: usize,
    channel: Arc<Channel>,
    current: Option<Vec<u8>>,
    at: usize,
}

impl Drop for End {
    fn drop(&mut self) {
        self.channel.close();
    }
}

impl Sender for End {
    fn push(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8], at: &mut usize) -> std::result::Result<(), Fault> {
        let mut queue = self.channel.queue.lock();
        if queue.is_closed {
            return Err(Fault::Closed { peer: self.peer });
        }
        queue.messages.push_back((*header, payload.to_vec()));
        drop(queue);
        self.channel.arrived.notify_all();
        *at = HEADER_BYTES + payload.len();
        Ok(())
    }
    fn wait(&mut self, _: Duration) -> std::result::Result<(), Fault> {
        Ok(())
    }
}

impl Receiver for End {
    fn begin(&mut self) -> std::result::Result<Option<Header>, Fault> {
        let mut queue = self.channel.queue.lock();
        let Some((header, payload)) = queue.messages.pop_front() else {
            return if queue.is_closed { Err(Fault::Closed { peer: self.peer }) } else { Ok(None) };
        };
        (self.current, self.at) = (Some(payload), 0);
        Header::decode(&header).map(Some).ok_or(Fault::Corrupt { peer: self.peer })
    }
    fn pull(&mut self, most: usize, sink: &mut dyn FnMut(&[u8])) -> std::result::Result<usize, Fault> {
        let Some(payload) = &self.current else { return Ok(0) };
        // Pieces as small as these let tests see that a payload may arrive in parts.
        let n = most.min(payload.len() - self.at).min(1024 * ALIGNMENT);
        sink(&payload[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault> {
        let mut queue = self.channel.queue.lock();
        if queue.messages.is_empty() && !queue.is_closed {
            self.channel.arrived.wait_for(&mut queue, at_most);
        }
        Ok(())
    }
    fn spins(&self) -> u32 {
        20
    }
}
