//! Agreement of ranks about programs with collectives.
//!
//! On accelerators all ranks must launch the same program. Before a launch, the ranks exchange a [`Head`]: a key of
//! the program, a hash of its collectives, and the places where the rank has cut its stream of ops. All see the same
//! heads, so all come to the same decision, without asking again:
//!
//! | ranks have | decision |
//! |---|---|
//! | the same key | launch the program |
//! | the same collectives, other keys | run each collective in a program of its own, whose key follows from it |
//! | collectives that begin alike | run those so, and agree about the rest again |
//! | different first collectives | an error on all ranks |
//!
//! If the collectives differ, a second exchange compares them one by one. If ranks have been split by the same cut
//! twice, all cut there from then on, so that they have the same programs again.
//!
//! The ranks that agree are those of all groups of the partition. A program whose collectives need different ranks to
//! agree is always split.

use crate::group::{Group, ProcessGroup};
use crate::request::Request;
use crate::tensors::{line_of, request};
use crate::transport::mix;
use crate::watch;
use parking_lot::Mutex;
use std::collections::HashMap;
use torchtpu_tensor::comm::{Agreed, Cut, Decision, Disagreement, Proposal, Step};
use torchtpu_tensor::ops::collective::Kind;
use torchtpu_tensor::{Error, Result};

/// Cuts that a head has room for.
const CUTS: usize = 4;
/// Splits by the same cut after which all ranks cut there.
const SPLITS_BEFORE_ADOPTION: u32 = 2;
/// Cuts that are counted. Their number is that of different divergences in the program.
const MAX_COUNTED: usize = 1024;
const WORD: usize = 8;
const HEAD_WORDS: usize = 4 + 2 * CUTS;
/// Longest description or line in the report of a conflict, in bytes.
const TEXT_BYTES: usize = 512;

/// What the other ranks have told.
type Told<T> = std::result::Result<T, Disagreement>;

/// The rounds of one set of ranks.
pub(crate) struct Agreement {
    pub(crate) rounds: ProcessGroup,
    /// How often each cut has split programs. All ranks count alike.
    splits: Mutex<HashMap<Cut, u32>>,
}

/// What ranks exchange about each program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    key: u64,
    is_compiled: bool,
    /// Hash of the collectives, and their number.
    skeleton: u64,
    steps: usize,
    cuts: [Cut; CUTS],
}

/// What must be equal on all ranks about one collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    group: u64,
    sequence: u64,
    fingerprint: u64,
}

/// The ranks that agree about a collective.
struct Domain {
    group: ProcessGroup,
    /// Whether they are all ranks that run its program.
    is_whole: bool,
}

impl Domain {
    fn of(step: &Step) -> Result<Domain> {
        let own = crate::tensors::find(step.ticket.group())?;
        let partition = step.op.group.partition();
        if partition.len() == 1 {
            return Ok(Domain { group: own, is_whole: true });
        }
        let mut ranks: Vec<usize> = partition.iter().flatten().copied().collect();
        ranks.sort_unstable();
        let whole = watch::find(|group| group.covers(&ranks, own.group()));
        let is_whole = whole.is_some();
        Ok(Domain { group: whole.map_or(own, ProcessGroup::of), is_whole })
    }

    fn is(&self, other: &Domain) -> bool {
        std::ptr::eq::<Group>(self.group.group(), other.group.group())
    }
}

/// Agree with the ranks of the first collective about all collectives that need the same ranks.
///
/// # Errors
/// If ranks are about to call different collectives, and as [`ProcessGroup::run`].
pub(crate) fn agree(proposal: &Proposal<'_>) -> Told<Agreed> {
    let Some(first) = proposal.steps.first() else {
        return Err(Error::runtime("a program without collectives needs no agreement").into());
    };
    let domain = Domain::of(first)?;
    let mut together = 1;
    while let Some(step) = proposal.steps.get(together) {
        if step.ticket.group() != proposal.steps[together - 1].ticket.group() && !Domain::of(step)?.is(&domain) {
            break;
        }
        together += 1;
    }
    let steps = &proposal.steps[..together];
    let items = steps.iter().map(Item::of).collect::<Result<Vec<_>>>()?;
    let may_fuse = domain.is_whole && together == proposal.steps.len();
    let mut cuts = [Cut::default(); CUTS];
    cuts.iter_mut().zip(proposal.cuts).for_each(|(cut, &own)| *cut = own);
    let words = items.iter().flat_map(|item| item.words());
    let head = Head {
        key: if may_fuse { proposal.key } else { 0 },
        is_compiled: proposal.is_compiled,
        skeleton: words.fold(0, mix),
        steps: together,
        cuts,
    };
    domain.group.agreement()?.decide(head, &items, steps)
}

/// Wait until all ranks that agreed about the program that begins with `step` have compiled it.
///
/// # Errors
/// If a rank cannot compile it, and as [`ProcessGroup::run`].
pub(crate) fn await_compiled(step: &Step) -> Told<()> {
    let agreement = Domain::of(step)?.group.agreement()?;
    agreement.gather(step, &[1]).map(drop)
}

impl Agreement {
    pub(crate) fn new(rounds: ProcessGroup) -> Agreement {
        Agreement { rounds, splits: Mutex::default() }
    }

    pub(crate) fn break_with(&self, error: &Error) {
        self.rounds.group().break_with(error);
    }

    /// Return the words of all ranks, which have equally many.
    fn gather(&self, step: &Step, own: &[u64]) -> Told<Vec<Vec<u64>>> {
        let bytes: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).collect();
        let all = self.gather_bytes(step, &bytes)?;
        let words = |block: &[u8]| {
            let words = block.as_chunks::<WORD>().0;
            words.iter().map(|word| u64::from_le_bytes(*word)).collect()
        };
        Ok(all.chunks_exact(bytes.len()).map(words).collect())
    }

    fn gather_bytes(&self, step: &Step, own: &[u8]) -> Told<Vec<u8>> {
        let (rank, size) = (self.rounds.rank(), self.rounds.size());
        let mut all = vec![0; own.len() * size];
        all[rank * own.len()..][..own.len()].copy_from_slice(own);
        let request = described(step)?;
        let group = crate::tensors::find(step.ticket.group())?;
        self.rounds.exchange(group.name(), &request, step.ticket.sequence(), &mut all)?;
        Ok(all)
    }

    fn decide(&self, own: Head, items: &[Item], steps: &[Step]) -> Told<Agreed> {
        let heads = self.gather(&steps[0], &own.encode())?;
        let heads: Vec<Head> = heads.iter().map(|words| Head::decode(words)).collect();
        if heads.iter().all(|h| (h.skeleton, h.steps) == (own.skeleton, own.steps)) {
            if own.key != 0 && heads.iter().all(|h| h.key == own.key) {
                let is_compiled = heads.iter().all(|h| h.is_compiled);
                return Ok(Agreed { decision: Decision::Fused { is_compiled }, cut: None });
            }
            return Ok(Agreed { decision: Decision::Split(own.steps), cut: self.count_split(&heads) });
        }
        let most = heads.iter().map(|h| h.steps).max().unwrap_or(0);
        let least = heads.iter().map(|h| h.steps).min().unwrap_or(0);
        let mut words: Vec<u64> = items.iter().flat_map(Item::words).collect();
        words.resize(most * Item::WORDS, 0);
        let all = self.gather(&steps[0], &words)?;
        let at = |rank: usize, step: usize| &all[rank][step * Item::WORDS..][..Item::WORDS];
        match (0..least).find(|&step| (1..all.len()).any(|rank| at(rank, step) != at(0, step))) {
            // All ranks see it.
            Some(0) => Err(self.conflict(&steps[0]).into()),
            Some(step) => Ok(Agreed { decision: Decision::Split(step), cut: None }),
            None => Ok(Agreed { decision: Decision::Split(least), cut: self.count_split(&heads) }),
        }
    }

    /// Count the first cut in which ranks differ. Return it when all shall cut there.
    fn count_split(&self, heads: &[Head]) -> Option<Cut> {
        if heads.iter().any(|h| h.cuts[0].ops == 0) {
            return None;
        }
        let differs = |i: &usize| heads.iter().any(|h| h.cuts[*i] != heads[0].cuts[*i]);
        let place = (0..CUTS).find(differs)?;
        let cut = heads.iter().map(|h| h.cuts[place]).filter(|cut| cut.ops > 0).min()?;
        let mut splits = self.splits.lock();
        if splits.len() >= MAX_COUNTED {
            splits.clear();
        }
        let count = splits.entry(cut).or_default();
        *count = count.saturating_add(1);
        (*count >= SPLITS_BEFORE_ADOPTION).then_some(cut)
    }

    /// Exchange what the ranks are about to call, and return the error that names it.
    fn conflict(&self, step: &Step) -> Error {
        let report = || -> Told<Vec<u8>> {
            let request = described(step)?;
            let mut own = vec![0; 2 * TEXT_BYTES];
            let call = request.describe(step.ticket.sequence());
            let call = format!("{call} of the groups {:?}", step.op.group.partition());
            let texts = [call, request.line.as_deref().unwrap_or("").to_string()];
            for (block, text) in own.chunks_exact_mut(TEXT_BYTES).zip(&texts) {
                let bytes = &text.as_bytes()[..text.len().min(TEXT_BYTES)];
                block[..bytes.len()].copy_from_slice(bytes);
            }
            self.gather_bytes(step, &own)
        };
        let all = match report() {
            Ok(all) => all,
            Err(disagreement) => return disagreement.error,
        };
        let text = |block: &[u8]| String::from_utf8_lossy(block).trim_end_matches('\0').to_string();
        let calls = all.chunks_exact(2 * TEXT_BYTES);
        let calls = calls.map(|b| (text(&b[..TEXT_BYTES]), text(&b[TEXT_BYTES..])));
        self.rounds.conflict(&calls.collect::<Vec<_>>())
    }
}

/// Return a collective as a request of its group, with the line of its call.
fn described(step: &Step) -> Result<Request> {
    let group = crate::tensors::find(step.ticket.group())?;
    let request = request(&step.op.kind, step.dtype, &step.sizes, &group);
    Ok(Request { line: line_of(step.ticket), ..request })
}

impl Head {
    fn encode(&self) -> [u64; HEAD_WORDS] {
        let mut words = [0; HEAD_WORDS];
        words[..4].copy_from_slice(&[self.key, self.is_compiled.into(), self.skeleton, self.steps as u64]);
        for (words, cut) in words[4..].chunks_exact_mut(2).zip(self.cuts) {
            words.copy_from_slice(&[cut.ops, cut.hash]);
        }
        words
    }

    fn decode(words: &[u64]) -> Head {
        let cut = |i: usize| Cut { ops: words[4 + 2 * i], hash: words[5 + 2 * i] };
        Head {
            key: words[0],
            is_compiled: words[1] != 0,
            skeleton: words[2],
            steps: words[3] as usize,
            cuts: std::array::from_fn(cut),
        }
    }
}

impl Item {
    const WORDS: usize = 3;

    fn of(step: &Step) -> Result<Item> {
        let group = crate::tensors::find(step.ticket.group())?;
        let (kind, ranks) = (&step.op.kind, &step.op.group);
        let request = request(kind, step.dtype, &step.sizes, &group);
        // Groups of one partition have names of their own.
        let name = if ranks.partition().len() == 1 { u64::from(group.group().id()) } else { 0 };
        let fingerprint = match kind {
            // As an exchange of rows, it differs between ranks.
            Kind::Permute { pairs } => {
                let pairs = pairs.iter().flat_map(|p| [p.0 as u64, p.1 as u64]);
                let head = [step.dtype as u64, pairs.clone().count() as u64];
                head.into_iter().chain(pairs).chain(step.sizes.iter().map(|&d| d as u64)).fold(1, mix)
            }
            _ => request.exact_fingerprint(),
        };
        Ok(Item { group: mix(ranks.partition_hash(), name), sequence: step.ticket.sequence(), fingerprint })
    }

    fn words(&self) -> [u64; Item::WORDS] {
        [self.group, self.sequence, self.fingerprint]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let mut cuts = [Cut::default(); CUTS];
        cuts[0] = Cut { ops: 12, hash: 0x1234_5678_9abc_def0 };
        cuts[1] = Cut { ops: 3, hash: 7 };
        let head = Head { key: 5, is_compiled: true, skeleton: u64::MAX, steps: 9, cuts };
        assert_eq!(Head::decode(&head.encode()), head);
    }
}
