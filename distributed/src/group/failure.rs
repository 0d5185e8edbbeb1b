//! What a group does after a fault: it stops, and finds the words for the error.

use super::Group;
use crate::recorder::Recorder;
use crate::request::Request;
use crate::transport::{Fault, Header};
use crate::work::Told;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind};

/// How long a rank whose peer left asks the store for the reason.
pub(super) const REASON_TIME: Duration = Duration::from_secs(2);
/// How long a rank whose time is over waits to hear that its peer waits as well.
const ANSWER_TIME: Duration = Duration::from_millis(300);
/// Ranks that a report of a timeout names.
const REPORTED_RANKS: usize = 16;

impl Group {
    /// Break the group after a fault, and return the error that names it.
    #[cold]
    pub(super) fn fail(&self, fault: Fault, request: &Request, sequence: u64, timeout: Duration) -> Error {
        let own = request.describe(sequence);
        let line = request.line.as_deref().unwrap_or("");
        self.end_waits();
        // If the store fails now, the error has less to say, but it stays the error of the fault.
        let _ = self.meeting.post(&format!("failed/{}", self.rank), &format!("{own}\n{line}"));
        let _ = self.meeting.post("failed", "");
        self.links.lock().close();
        let mut notes = vec![format!("{}, {}: {own}", self.identity(), request.op.name())];
        if let Some(line) = &request.line {
            notes.push(format!("rank {} called it at {line}", self.rank));
        }
        let mut is_origin = true;
        let mut cause = None;
        let is_late = matches!(fault, Fault::Timeout { .. });
        let text = match fault {
            Fault::Mismatch { peer, header } => self.mismatch(peer, header, request, sequence, &mut notes),
            Fault::Timeout { peer } => {
                self.tell_timeout();
                // A peer that has failed as well waited for another rank, which tells what is missing.
                let has_failed = || self.await_text(&format!("failed/{peer}"), ANSWER_TIME).is_some();
                let is_late_too = self.is_waited_in_by(peer) || has_failed();
                let told = if is_late_too { self.await_text("abort", REASON_TIME) } else { None };
                is_origin = told.is_none();
                if let Some(elsewhere) = self.elsewhere(peer) {
                    notes.push(elsewhere);
                }
                notes.push(self.positions());
                told.unwrap_or_else(|| {
                    let (op, peer) = (request.op.name(), self.name_of(peer));
                    format!("{op}: Timed out waiting {} ms for rank {peer}", timeout.as_millis())
                })
            }
            Fault::Died { peer, place } => {
                // A peer that ended after an error has said why.
                let told = self.await_text("abort", Duration::ZERO);
                is_origin = told.is_none();
                told.unwrap_or_else(|| format!("Rank {} ({place}) has died", self.name_of(peer)))
            }
            Fault::Closed { peer } => {
                let (text, told) = self.reason(Some(peer));
                is_origin = !told;
                text
            }
            Fault::Broken => {
                let (text, told) = self.reason(None);
                is_origin = !told;
                text
            }
            Fault::Corrupt { peer } => format!("A message of rank {} has a wrong checksum", self.name_of(peer)),
            Fault::System { text, .. } => text,
            Fault::Other(error) => {
                let text = error.to_string();
                cause = Some(error);
                text
            }
        };
        if is_origin {
            self.post_abort(&format!("{text} ({})", notes.join(", ")));
        }
        // The other ranks do not wait for the disk.
        if is_late && let Ok(path) = Recorder::global().dump(self.ranks[self.rank]) {
            notes.push(format!("the last collectives of this process are in {}", path.display()));
        }
        let error = cause.unwrap_or_else(|| Error::new(ErrorKind::DistBackend, text));
        let error = notes.into_iter().fold(error, Error::note);
        self.break_with(&error);
        error
    }

    /// End what waits. A collective that runs finds out why.
    pub(crate) fn end_waits(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// Refuse later calls with this error, and end what waits.
    pub(crate) fn break_with(&self, error: &Error) {
        let told = Told::of(error);
        self.failure.lock().get_or_insert_with(|| told.clone());
        self.broken.store(true, Ordering::Release);
        self.messages.lock().close(|| told.error());
        let agreement = self.agreement.lock().clone();
        if let Some(agreement) = agreement {
            agreement.break_with(error);
        }
    }

    /// Tell the other ranks why this one stops. If the store fails, they say that this one has left.
    pub(crate) fn post_abort(&self, text: &str) {
        let _ = self.meeting.post("abort", text);
        if !self.is_agreement() {
            let _ = self.meeting.post("agreement/abort", text);
        }
    }

    /// Return the value of a key as soon as it is set, or `None` after `time`.
    pub(super) fn await_text(&self, name: &str, time: Duration) -> Option<String> {
        let end = Instant::now() + time;
        loop {
            if let Some(value) = self.meeting.find(name).ok()? {
                return Some(String::from_utf8_lossy(&value).into_owned());
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn mismatch(
        &self,
        peer: usize,
        header: Header,
        request: &Request,
        sequence: u64,
        notes: &mut Vec<String>,
    ) -> String {
        if header.group != self.id {
            return format!("Rank {} sent a message of another group", self.name_of(peer));
        }
        let own = request.describe(sequence);
        // A peer that has no link to this rank notices through its watchdog.
        let theirs = self.await_text(&format!("failed/{peer}"), REASON_TIME * 2);
        let (theirs, line) = theirs.as_deref().and_then(|t| t.split_once('\n')).unwrap_or_default();
        if !line.is_empty() {
            notes.push(format!("rank {peer} called it at {line}"));
        }
        let theirs = if theirs.is_empty() {
            format!("another one (SequenceNumber={}, {} bytes)", header.sequence, header.bytes)
        } else {
            theirs.to_string()
        };
        if header.sequence == sequence && header.fingerprint == request.fingerprint() {
            return format!(
                "Detected mismatch between the sizes of ranks. Rank {} sends {} bytes, but rank {} expects another \
                 number. Both are running collective: {own}",
                self.name_of(peer),
                header.bytes,
                self.name_of(self.rank)
            );
        }
        format!(
            "Detected mismatch between collectives on ranks. Rank {} is running collective: {own}, but Rank {} is \
             running collective: {theirs}.",
            self.name_of(self.rank),
            self.name_of(peer)
        )
    }

    /// Return why a peer closed its links, and whether another rank said so.
    pub(super) fn reason(&self, peer: Option<usize>) -> (String, bool) {
        let end = Instant::now() + REASON_TIME;
        loop {
            if let Ok(Some(text)) = self.meeting.find("abort") {
                return (String::from_utf8_lossy(&text).into_owned(), true);
            }
            if let Some(peer) = peer {
                let name = self.name_of(peer);
                if self.transport.is_dead(peer) {
                    let place = self.transport.place(peer).map(|p| format!(" ({p})")).unwrap_or_default();
                    return (format!("Rank {name}{place} has died"), false);
                }
                if Instant::now() >= end || matches!(self.meeting.find(&format!("left/{peer}")), Ok(Some(_))) {
                    return (format!("Rank {name} has left the group"), false);
                }
            } else if Instant::now() >= end {
                return ("Another thread of this rank stopped the group".into(), false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Return where each rank was when it last told.
    fn positions(&self) -> String {
        let mut text = "last known collective of the ranks".to_string();
        for rank in (0..self.size).filter(|&r| r != self.rank).take(REPORTED_RANKS) {
            let state = self.meeting.find(&format!("state/{rank}")).ok().flatten();
            let state = state.map_or("none".into(), |s| String::from_utf8_lossy(&s).into_owned());
            // Writing to a string cannot fail.
            let _ = write!(text, "; rank {}: {state}", self.name_of(rank));
        }
        if self.size > REPORTED_RANKS + 1 {
            text.push_str("; ...");
        }
        text
    }
}
