//! The exchange through which ranks agree about programs.
//!
//! It has a group of its own, so that it does not wait for collectives that are running. That group has no name for
//! users: its errors name the group whose programs it is about.

use super::{Group, Options, ProcessGroup};
use crate::agree::Agreement;
use crate::algo::{self, Call};
use crate::recorder::{Entry, State};
use crate::request::Request;
use crate::transport::Header;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use torchtpu_tensor::comm::Disagreement;
use torchtpu_tensor::{Error, ErrorKind, Result};

/// End of the name of such a group.
pub(super) const SUFFIX: &str = "/agreement";
/// Ranks whose lines a conflict names.
const REPORTED_RANKS: usize = 16;

impl Group {
    pub(crate) fn is_agreement(&self) -> bool {
        self.name.ends_with(SUFFIX)
    }

    /// Return the hash of the name.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Return the name for messages.
    pub(super) fn shown_name(&self) -> &str {
        self.name.strip_suffix(SUFFIX).unwrap_or(&self.name)
    }

    /// Whether this is the group of `ranks`, in ascending order, to which the rank of `other` belongs.
    pub(crate) fn covers(&self, ranks: &[usize], other: &Group) -> bool {
        let mut own = self.ranks.clone();
        own.sort_unstable();
        own == ranks
            && !self.is_agreement()
            && self.ranks[self.rank] == other.ranks[other.rank]
            && self.meeting.store.identity() == other.meeting.store.identity()
            && !self.broken.load(Ordering::Acquire)
    }
}

impl ProcessGroup {
    pub(crate) fn of(group: Arc<Group>) -> ProcessGroup {
        ProcessGroup(group)
    }

    pub(crate) fn group(&self) -> &Group {
        &self.0
    }

    /// Return what the ranks of this group agree through.
    pub(crate) fn agreement(&self) -> Result<Arc<Agreement>> {
        let group = &*self.0;
        group.expect_whole()?;
        let mut agreement = group.agreement.lock();
        if let Some(known) = &*agreement {
            known.rounds.set_timeout(self.timeout());
            return Ok(known.clone());
        }
        let name = format!("{}{SUFFIX}", group.name);
        let options = Options { name, timeout: self.timeout(), ranks: group.ranks.clone() };
        let (store, network) = (group.meeting.store.clone(), group.network.clone());
        let rounds = ProcessGroup::new(store, network, group.rank, group.size, options)?;
        Ok(agreement.insert(Arc::new(Agreement::new(rounds))).clone())
    }

    /// Exchange `data` with all ranks. It has one block for each rank, and this rank has filled its own. Errors say
    /// that this rank is about to run `request`, the collective with number `sequence` of the group `of`.
    pub(crate) fn exchange(
        &self,
        of: &str,
        request: &Request,
        sequence: u64,
        data: &mut [u8],
    ) -> std::result::Result<(), Disagreement> {
        let group = &*self.0;
        group.expect_whole()?;
        let round = group.turn.reserve();
        let mut has_begun = false;
        let exchanged = group.in_turn(request, round, |ready| {
            ready?;
            has_begun = true;
            let timeout = *group.timeout.lock();
            let now = Instant::now();
            *group.last.lock() = Some(group.waiting_for(of, request, sequence, timeout));
            *group.running_since.lock() = Some(now);
            // What ranks are about to call is in the blocks, and may differ.
            let header = Header { group: group.id, sequence: round, fingerprint: 0, bytes: 0 };
            let deadline = now.checked_add(timeout).unwrap_or(now + Duration::from_secs(u32::MAX.into()));
            let call = Call { header, watch: group.watch(deadline) };
            let ran = algo::exchange_blocks(&mut group.links.lock(), call, data);
            // The links are unlocked here. The report of a fault tells what ran.
            let result = ran.map_err(|fault| group.fail(fault, request, sequence, timeout));
            *group.running_since.lock() = None;
            result
        });
        // Other ranks may have got all blocks before the fault.
        exchanged.map_err(|error| Disagreement { error, may_others_launch: has_begun })
    }

    /// Break the group because ranks are about to call different collectives. `calls` has the description of each
    /// rank's and its line, which may be empty.
    pub(crate) fn conflict(&self, calls: &[(String, String)]) -> Error {
        let group = &*self.0;
        let own = &calls[group.rank];
        let other = (0..calls.len()).find(|&r| calls[r].0 != own.0);
        let other = other.or_else(|| (0..calls.len()).find(|&r| r != group.rank)).unwrap_or(group.rank);
        let text = format!(
            "Detected mismatch between collectives on ranks. Rank {} is running collective: {}, but Rank {} is \
             running collective: {}.",
            group.name_of(group.rank),
            own.0,
            group.name_of(other),
            calls[other].0
        );
        let lines = calls.iter().enumerate().filter(|(_, (_, line))| !line.is_empty()).take(REPORTED_RANKS);
        let mut error = Error::new(ErrorKind::DistBackend, text).note(group.identity());
        for (rank, (_, line)) in lines {
            error = error.note(format!("rank {rank} called it at {line}"));
        }
        group.break_with(&error);
        error
    }
}

impl Group {
    /// Return the entry of a collective that waits for an agreement.
    fn waiting_for(&self, of: &str, request: &Request, sequence: u64, timeout: Duration) -> Entry {
        Entry {
            id: 0,
            group: of.into(),
            rank: self.rank,
            size: self.size,
            sequence,
            is_message: false,
            op: request.op.name(),
            dtype: request.dtype,
            shape: request.shape.clone(),
            bytes: [0, 0],
            line: request.line.clone(),
            state: State::Scheduled,
            timeout,
            created: SystemTime::now(),
            started: None,
            ended: None,
        }
    }
}
