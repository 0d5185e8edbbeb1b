//! The interface of collectives between ranks. `torchtpu-distributed` implements it; this crate only names it.
//!
//! A call of a collective [reserves](Communicator::reserve) the next turn of its group, and so takes a [`Ticket`]. The
//! ticket is an operand of the recorded op. A program that runs again has other tickets, and the collectives of a group
//! run in the order of the calls, whichever program or kernel they are in.

use crate::ops::collective::{Collective, Kind};
use crate::{DType, Dims, Error, Held, Place, Result, Scalar, Tensor, backend};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// Ranks that do collectives together.
///
/// Groups are equal if their partitions are: the same program serves both, and each rank of a partition has the same
/// program.
#[derive(Clone)]
pub struct Group(Arc<Members>);

struct Members {
    number: u32,
    size: usize,
    partition: Vec<Vec<usize>>,
    partition_hash: u64,
    is_on_host: bool,
}

impl Group {
    /// Make the group with a number of its own in this process, from 1. `partition` has the global ranks of each group
    /// that was made together with it, this one included. All lists are equally long, and no rank is in two of them.
    ///
    /// # Panics
    /// If the partition is empty or its lists are not equally long.
    pub fn new(number: u32, partition: Vec<Vec<usize>>) -> Group {
        Group::make(number, partition, false)
    }
    /// Make a group as [`Group::new`] does, whose collectives all run on the host. Ranks that are threads of one
    /// process need it: they share a device, and a program that waits for another rank would keep that rank's program
    /// from running.
    ///
    /// # Panics
    /// As [`Group::new`].
    pub fn on_host(number: u32, partition: Vec<Vec<usize>>) -> Group {
        Group::make(number, partition, true)
    }
    fn make(number: u32, partition: Vec<Vec<usize>>, is_on_host: bool) -> Group {
        let size = partition.first().map_or(0, Vec::len);
        assert!(size > 0 && partition.iter().all(|p| p.len() == size), "groups of a partition are equally long");
        let partition_hash = partition.iter().flatten().fold(size as u64, |h, &rank| mix(h, rank as u64));
        Group(Arc::new(Members { number, size, partition, partition_hash, is_on_host }))
    }
    /// Return a hash of the partition, the same in all processes.
    pub fn partition_hash(&self) -> u64 {
        self.0.partition_hash
    }
    /// Return the number of the group in this process.
    pub fn number(&self) -> u32 {
        self.0.number
    }
    /// Return the number of ranks.
    pub fn size(&self) -> usize {
        self.0.size
    }
    /// Whether all collectives run on the host, those of tensors on accelerators too.
    pub fn is_on_host(&self) -> bool {
        self.0.is_on_host
    }
    /// Return the global ranks of all groups of the partition.
    pub fn partition(&self) -> &[Vec<usize>] {
        &self.0.partition
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.partition == other.0.partition
    }
}
impl Eq for Group {}

impl Hash for Group {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.partition.hash(state);
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0.partition)
    }
}

/// The turn of one collective: the number of its group, and its sequence number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(i64);

/// Bits of a ticket that hold the sequence number.
const SEQUENCE_BITS: u32 = 40;

impl Ticket {
    /// The ticket of a collective that needs no turn, because it moves nothing between ranks.
    pub const NONE: Ticket = Ticket(0);

    /// Make the ticket of a turn.
    pub fn new(group: u32, sequence: u64) -> Ticket {
        Ticket(i64::from(group) << SEQUENCE_BITS | sequence as i64 & ((1 << SEQUENCE_BITS) - 1))
    }
    /// Return the number of the group; 0 for [`Ticket::NONE`].
    pub fn group(self) -> u32 {
        (self.0 >> SEQUENCE_BITS) as u32
    }
    /// Return the sequence number.
    pub fn sequence(self) -> u64 {
        (self.0 & ((1 << SEQUENCE_BITS) - 1)) as u64
    }
    /// Return the ticket as an `int64`, which programs carry.
    pub fn to_i64(self) -> i64 {
        self.0
    }
    /// Return the ticket of such an `int64`.
    pub fn from_i64(v: i64) -> Ticket {
        Ticket(v)
    }
    /// Return the ticket as an operand of an op.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn operand(self) -> Result<Tensor> {
        Tensor::number(Scalar::Int(self.0), DType::I64)
    }
}

/// A collective on the bytes of this rank.
pub struct Call<'a> {
    /// The collective.
    pub kind: &'a Kind,
    /// Element type of `x` and `y`.
    pub dtype: DType,
    /// Sizes of `x`.
    pub sizes: Dims,
    /// The elements of this rank, row major. Empty if `y` has them already.
    pub x: &'a [u8],
    /// The result, row major.
    pub y: &'a mut [u8],
}

/// One collective of a recorded program.
#[derive(Clone)]
pub struct Step {
    /// Its turn.
    pub ticket: Ticket,
    /// The collective and its ranks.
    pub op: Collective,
    /// Element type of its operand.
    pub dtype: DType,
    /// Sizes of its operand.
    pub sizes: Dims,
}

/// A place in the stream of recorded ops: the number of ops since the last cut, and their hash. The same in all
/// processes that record the same ops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Cut {
    /// Number of ops. 0 is no cut.
    pub ops: u64,
    /// Hash of the ops.
    pub hash: u64,
}

/// A program with collectives that this rank is about to launch.
pub struct Proposal<'a> {
    /// A hash that ranks with the same program share. 0 for a program that must not be launched as one.
    pub key: u64,
    /// Whether this rank has the executable.
    pub is_compiled: bool,
    /// The last cuts of this rank, up to that of the program.
    pub cuts: &'a [Cut],
    /// The collectives, at least one.
    pub steps: &'a [Step],
}

/// What the ranks do with their programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// All have the same program, which is launched.
    Fused {
        /// Whether all ranks have the executable.
        is_compiled: bool,
    },
    /// Each collective is a program of its own. Only so many are run. The ranks agree about the others again.
    Split(usize),
}

/// The result of an agreement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// What to do with the program.
    pub decision: Decision,
    /// Where all ranks cut from now on.
    pub cut: Option<Cut>,
}

/// Why ranks do not agree about a program.
#[derive(Debug)]
pub struct Disagreement {
    /// The reason.
    pub error: Error,
    /// Whether other ranks may have agreed all the same, and launch the program.
    pub may_others_launch: bool,
}

impl From<Error> for Disagreement {
    /// Make a disagreement after which no rank launches the program.
    fn from(error: Error) -> Disagreement {
        Disagreement { error, may_others_launch: false }
    }
}

/// Runs collectives.
pub trait Communicator: Sync + Send {
    /// Reserve the next turn of a group.
    ///
    /// # Errors
    /// `DistBackend` if the group is broken or was destroyed.
    fn reserve(&self, group: &Group) -> Result<Ticket>;
    /// Wait for the turn of a ticket, and run its collective. A ticket is used once.
    ///
    /// # Errors
    /// `DistBackend` if the ranks do not agree, if one is missing or gone, and if an earlier collective of the group
    /// has failed.
    fn run(&self, ticket: Ticket, call: Call<'_>) -> Result<()>;
    /// Break the group of a ticket whose collective will never run, so that no rank waits for it. Do nothing if the
    /// collective has run.
    fn give_up(&self, ticket: Ticket, why: &Error);
    /// Agree with the other ranks about a program, on a device where all ranks must launch the same one.
    ///
    /// # Errors
    /// `DistBackend` if the ranks are about to call different collectives, and as [`Communicator::run`].
    fn agree(&self, proposal: &Proposal<'_>) -> std::result::Result<Agreed, Disagreement>;
    /// Wait until the other ranks have compiled the program that begins with `step`.
    ///
    /// # Errors
    /// `DistBackend` if one cannot compile it, and as [`Communicator::run`].
    fn await_compiled(&self, step: &Step) -> std::result::Result<(), Disagreement>;
    /// Note that a device is about to run a program with the collectives of these tickets. `has_ended` says whether it
    /// has ended since.
    fn note_launch(&self, tickets: &[Ticket], has_ended: Box<dyn Fn() -> bool + Send + Sync>);
    /// Return whether a device runs such a program. A wait for it must [ask](Communicator::check_interrupt) now and
    /// then whether it can end.
    fn is_device_running(&self) -> bool;
    /// Note that a device runs the collective of a ticket without [`Communicator::run`].
    fn was_launched(&self, ticket: Ticket);
    /// Note that this process begins or ends to compile a program. Other ranks may wait for it meanwhile.
    fn note_compiling(&self, begins: bool);
    /// Launch the collectives that are recorded, before this thread waits for other ranks. They may need them.
    fn launch_recorded(&self);
    /// Fail if the user interrupted the program, or if the program of a device cannot end, since other ranks are gone
    /// or late. Break the groups then, so that nothing waits any more.
    ///
    /// # Errors
    /// `Interrupted`, or the exception of the user's handler. `DistBackend` about other ranks.
    fn check_interrupt(&self) -> Result<()>;
}

static COMMUNICATOR: OnceLock<&'static dyn Communicator> = OnceLock::new();

/// Install the communicator. The first one stays.
pub fn install(communicator: &'static dyn Communicator) {
    let _ = COMMUNICATOR.set(communicator);
}

/// Return the communicator.
///
/// # Errors
/// `Value` before one is installed, which the first process group does.
pub fn get() -> Result<&'static dyn Communicator> {
    COMMUNICATOR.get().copied().ok_or_else(|| {
        Error::value("Default process group has not been initialized, please make sure to call init_process_group.")
    })
}

/// Whether a collective on tensors of `device` moves data between processes.
pub fn needs_turn(group: &Group, device: impl Into<Place>) -> bool {
    let place = device.into();
    let runs = match place.held() {
        Held::Memory => true,
        Held::Handle => place.is_dense() && !backend::get().is_ok_and(|b| b.is_planned()),
        Held::Abstract => false,
    };
    group.size() > 1 && runs
}
