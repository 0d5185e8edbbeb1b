//! Messages with tags between two ranks.
//!
//! They have links of their own, so that a receive that waits does not delay collectives. A message that no receive has
//! asked for yet is kept until one does.

use crate::transport::{Fault, HEADER_BYTES, Header, Lane, Meeting, Receiver, Sender, Transport};
use crate::work::{Memory, Promise};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_tensor::{DType, Error, ErrorKind, Result};

/// Shortest time between two attempts to make missing links. An attempt may ask the store.
const RETRY: Duration = Duration::from_millis(1);

/// A message that leaves.
pub(crate) struct Outgoing {
    pub(crate) tag: u64,
    pub(crate) dtype: DType,
    pub(crate) payload: Vec<u8>,
    pub(crate) deadline: Instant,
    pub(crate) promise: Promise,
}

/// A receive that waits for its message.
pub(crate) struct Wanted {
    /// `None` accepts a message of any rank.
    pub(crate) from: Option<usize>,
    pub(crate) tag: u64,
    pub(crate) dtype: DType,
    pub(crate) output: Box<dyn Memory>,
    pub(crate) deadline: Instant,
    pub(crate) promise: Promise,
}

struct Leaving {
    message: Outgoing,
    header: [u8; HEADER_BYTES],
    at: usize,
}

struct Arriving {
    header: Header,
    payload: Vec<u8>,
    filled: usize,
}

/// The link from one peer, and what came through it.
#[derive(Default)]
struct Source {
    receiver: Option<Box<dyn Receiver>>,
    arriving: Option<Arriving>,
    arrived: VecDeque<(Header, Vec<u8>)>,
    /// Why no more can arrive.
    gone: Option<String>,
    /// Whether the rank has left the group. What it sent before may still arrive.
    has_left: bool,
}

/// The link to one peer, and what has to leave through it.
#[derive(Default)]
struct Target {
    sender: Option<Box<dyn Sender>>,
    leaving: VecDeque<Leaving>,
}

/// The messages of one rank of one group.
pub(crate) struct Messages {
    group: u32,
    rank: usize,
    /// Name of the group and rank, for errors.
    name: String,
    meeting: Meeting,
    transport: Arc<dyn Transport>,
    sources: Vec<Source>,
    targets: Vec<Target>,
    wanted: Vec<Wanted>,
    next_attempt: Instant,
    /// The peer that a receive from any rank looks at first. It changes, so that no peer starves.
    first: usize,
}

impl Messages {
    pub(crate) fn new(group: u32, name: String, meeting: Meeting, transport: Arc<dyn Transport>) -> Messages {
        let (rank, size) = (meeting.rank, meeting.size);
        Messages {
            group,
            rank,
            name,
            meeting,
            transport,
            sources: (0..size).map(|_| Source::default()).collect(),
            targets: (0..size).map(|_| Target::default()).collect(),
            wanted: Vec::new(),
            next_attempt: Instant::now(),
            first: 0,
        }
    }

    pub(crate) fn send(&mut self, to: usize, message: Outgoing) {
        let bytes = message.payload.len() as u64;
        let header = Header { group: self.group, sequence: message.tag, fingerprint: message.dtype as u64, bytes };
        self.targets[to].leaving.push_back(Leaving { message, header: header.encode(), at: 0 });
        self.next_attempt = Instant::now();
    }

    pub(crate) fn receive(&mut self, wanted: Wanted) {
        self.wanted.push(wanted);
        self.next_attempt = Instant::now();
    }

    /// Whether nothing has to leave, and no receive waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.targets.iter().all(|t| t.leaving.is_empty())
    }

    /// Return the ranks that closing now would lose bytes for.
    pub(crate) fn unread(&self) -> Vec<usize> {
        let is_unread = |t: &Target| t.sender.as_ref().is_some_and(|s| s.is_unread());
        (0..self.targets.len()).filter(|&rank| is_unread(&self.targets[rank])).collect()
    }

    /// Return the ranks that messages have to leave for.
    pub(crate) fn unsent(&self) -> Vec<usize> {
        (0..self.targets.len()).filter(|&rank| !self.targets[rank].leaving.is_empty()).collect()
    }

    /// Return the ranks from which messages are awaited. Ranks that are known to have left are not among them.
    pub(crate) fn awaited(&self) -> Vec<usize> {
        let waits = |rank: usize| self.wanted.iter().any(|w| w.from.is_none_or(|from| from == rank));
        (0..self.sources.len()).filter(|&r| r != self.rank && !self.sources[r].has_left && waits(r)).collect()
    }

    /// Note that a rank has left the group.
    pub(crate) fn note_left(&mut self, rank: usize) {
        self.sources[rank].has_left = true;
        self.next_attempt = Instant::now();
    }

    /// Close all links, and end everything that waits with `error`.
    pub(crate) fn close(&mut self, error: impl Fn() -> Error) {
        for target in &mut self.targets {
            target.sender = None;
            target.leaving.drain(..).for_each(|l| l.message.promise.finish(Err(error())));
        }
        for source in &mut self.sources {
            source.receiver = None;
        }
        self.wanted.drain(..).for_each(|w| w.promise.finish(Err(error())));
    }

    /// Move what can be moved without waiting. Return whether something moved.
    pub(crate) fn progress(&mut self) -> bool {
        let may_open = Instant::now() >= self.next_attempt;
        let mut moved = false;
        for to in 0..self.targets.len() {
            moved |= self.push(to, may_open);
        }
        let from_any = self.wanted.iter().any(|w| w.from.is_none());
        for from in 0..self.sources.len() {
            if from_any && from != self.rank || self.wanted.iter().any(|w| w.from == Some(from)) {
                moved |= self.pull(from, may_open);
            }
        }
        moved |= self.deliver();
        let now = Instant::now();
        if may_open {
            self.next_attempt = now + RETRY;
        }
        if !moved {
            self.expire(now);
        }
        moved
    }

    fn push(&mut self, to: usize, may_open: bool) -> bool {
        let target = &mut self.targets[to];
        if target.leaving.is_empty() {
            return false;
        }
        let mut moved = false;
        let mut run = || -> std::result::Result<(), Fault> {
            if target.sender.is_none() && may_open {
                target.sender = self.transport.sender(to, Lane::Message)?;
            }
            let Some(sender) = &mut target.sender else { return Ok(()) };
            while let Some(leaving) = target.leaving.front_mut() {
                let before = leaving.at;
                sender.push(&leaving.header, &leaving.message.payload, &mut leaving.at)?;
                moved |= leaving.at != before;
                if leaving.at < HEADER_BYTES + leaving.message.payload.len() {
                    if leaving.at == before {
                        // The peer may be gone. A wait of no time says so.
                        sender.wait(Duration::ZERO)?;
                    }
                    return Ok(());
                }
                if let Some(done) = target.leaving.pop_front() {
                    done.message.promise.finish(Ok(Box::new(done.message.payload)));
                }
            }
            Ok(())
        };
        if let Err(fault) = run() {
            let text = self.describe(fault);
            let target = &mut self.targets[to];
            target.sender = None;
            for leaving in target.leaving.drain(..) {
                let tag = leaving.message.tag;
                leaving.message.promise.finish(Err(failed(format!("send to rank {to} with tag {tag}: {text}"))));
            }
            moved = true;
        }
        moved
    }

    fn pull(&mut self, from: usize, may_open: bool) -> bool {
        let source = &mut self.sources[from];
        if source.gone.is_some() {
            return false;
        }
        let mut moved = false;
        let mut run = || -> std::result::Result<(), Fault> {
            if source.receiver.is_none() && may_open {
                source.receiver = self.transport.receiver(from, Lane::Message)?;
            }
            let Some(receiver) = &mut source.receiver else {
                // A rank that has sent something has made its end.
                return if source.has_left && may_open { Err(Fault::Closed { peer: from }) } else { Ok(()) };
            };
            loop {
                if source.arriving.is_none() {
                    let Some(header) = receiver.begin()? else {
                        // The peer may be gone. A wait of no time says so.
                        return receiver.wait(Duration::ZERO);
                    };
                    moved = true;
                    if header.group != self.group {
                        return Err(Fault::Mismatch { peer: from, header });
                    }
                    let payload = vec![0; header.bytes as usize];
                    source.arriving = Some(Arriving { header, payload, filled: 0 });
                }
                if let Some(mut arriving) = source.arriving.take() {
                    while arriving.filled < arriving.payload.len() {
                        let n = match receiver.pull_into(&mut arriving.payload[arriving.filled..]) {
                            Ok(0) => receiver.wait(Duration::ZERO).map(|()| 0)?,
                            other => other?,
                        };
                        moved |= n > 0;
                        arriving.filled += n;
                        if n == 0 {
                            source.arriving = Some(arriving);
                            return Ok(());
                        }
                    }
                    source.arrived.push_back((arriving.header, arriving.payload));
                }
            }
        };
        if let Err(fault) = run() {
            let text = self.describe(fault);
            let source = &mut self.sources[from];
            source.receiver = None;
            source.gone = Some(text);
            moved = true;
        }
        moved
    }

    /// Hand messages that have arrived to the receives that want them.
    fn deliver(&mut self) -> bool {
        let (size, own) = (self.sources.len(), self.rank);
        let mut moved = false;
        let mut at = 0;
        while at < self.wanted.len() {
            let (from, tag) = (self.wanted[at].from, self.wanted[at].tag);
            let accepts = |k: usize| from.map_or(k != own, |f| f == k);
            let mut order = (0..size).map(|k| (k + self.first) % size).filter(|&k| accepts(k));
            let found = order.find_map(|k| {
                let at = self.sources[k].arrived.iter().position(|(header, _)| header.sequence == tag)?;
                self.sources[k].arrived.remove(at).map(|message| (k, message))
            });
            if let Some((k, (header, payload))) = found {
                self.first = (k + 1) % size;
                finish(self.wanted.remove(at), k, header, &payload);
                moved = true;
                continue;
            }
            // A receive from one rank fails if the rank is gone, one from any rank if all are.
            let gone = (0..size).filter(|&k| accepts(k)).map(|k| (k, self.sources[k].gone.as_ref()));
            let gone: Option<Vec<String>> = gone.map(|(k, g)| g.map(|g| format!("rank {k}: {g}"))).collect();
            if let Some(gone) = gone {
                let wanted = self.wanted.remove(at);
                let text = format!("recv with tag {tag}: {} ({})", gone.join(", "), self.name);
                wanted.promise.finish(Err(failed(text)));
                moved = true;
                continue;
            }
            at += 1;
        }
        moved
    }

    /// End what has waited too long.
    fn expire(&mut self, now: Instant) {
        for wanted in self.wanted.extract_if(.., |w| now >= w.deadline) {
            let from = wanted.from.map_or("any rank".to_string(), |r| format!("rank {r}"));
            let text = format!("Timed out waiting for a message from {from} with tag {} ({})", wanted.tag, self.name);
            wanted.promise.finish(Err(failed(text)));
        }
        for (to, target) in self.targets.iter_mut().enumerate() {
            // A message that has begun to leave must leave whole.
            while target
                .leaving
                .back()
                .is_some_and(|l| now >= l.message.deadline && (l.at == 0 || target.sender.is_none()))
                && let Some(late) = target.leaving.pop_back()
            {
                let (tag, name) = (late.message.tag, &self.name);
                let text = format!("Timed out waiting for rank {to} to take a message with tag {tag} ({name})");
                late.message.promise.finish(Err(failed(text)));
            }
        }
    }

    fn describe(&self, fault: Fault) -> String {
        // A rank that stops the group says why before it ends.
        let told = || self.meeting.find("abort").ok()?.map(|text| String::from_utf8_lossy(&text).into_owned());
        match fault {
            Fault::Closed { .. } | Fault::Died { .. } if let Some(text) = told() => text,
            Fault::Closed { peer } if self.transport.is_dead(peer) => {
                let place = self.transport.place(peer).map(|p| format!(" ({p})")).unwrap_or_default();
                format!("the rank{place} has died")
            }
            Fault::Closed { .. } => "the rank has left the group".into(),
            Fault::Died { place, .. } => format!("the rank ({place}) has died"),
            Fault::Corrupt { .. } => "a message has a wrong checksum".into(),
            Fault::System { text, .. } => text,
            Fault::Other(error) => error.to_string(),
            Fault::Mismatch { .. } => "a message belongs to another group".into(),
            Fault::Timeout { .. } | Fault::Broken => "the group is broken".into(),
        }
    }
}

fn failed(text: String) -> Error {
    Error::new(ErrorKind::DistBackend, text)
}

/// End a receive with its message, if lengths and dtypes agree.
fn finish(mut wanted: Wanted, from: usize, header: Header, payload: &[u8]) {
    wanted.promise.set_source(from);
    let expected = wanted.output.bytes().len();
    let result: Result<Box<dyn Memory>> = if payload.len() == expected && header.fingerprint == wanted.dtype as u64 {
        wanted.output.bytes_mut().copy_from_slice(payload);
        Ok(wanted.output)
    } else {
        let sent = DType::ALL.into_iter().find(|&d| d as u64 == header.fingerprint).map_or("?", DType::name);
        Err(failed(format!(
            "recv: message from rank {from} with tag {} has {} bytes of {sent}, must be {expected} bytes of {}",
            wanted.tag,
            payload.len(),
            wanted.dtype.name()
        )))
    };
    wanted.promise.finish(result);
}
