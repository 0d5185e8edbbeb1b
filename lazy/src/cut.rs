//! The reasons to end a segment.

/// The reason to end a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CutReason {
    /// Debug mode: after every op.
    Debug,
    /// Strict mode: after every op.
    Strict,
    /// The host asked for a value.
    Read,
    /// The host waits for all work.
    Synchronize,
    /// The optimizer finished a step.
    StepBoundary,
    /// The segment reached its greatest number of ops.
    Size,
    /// Pending values would take too much memory.
    Memory,
    /// The stream of ops repeats here.
    RepeatFound,
    /// The program asked for it, or changed the mode.
    Explicit,
    /// Another thread uses a value of this segment.
    OtherThread,
    /// The device would have idled while the rest was recorded.
    Idle,
    /// New programs keep coming, so this one is computed in pieces.
    Piece,
    /// An optimizer made its state in its first step, which is a program of its own.
    MadeInStep,
    /// Other processes may wait for a collective of this segment.
    Collective,
    /// All ranks cut here, since they had different programs before.
    Adopted,
}

impl CutReason {
    /// All of them.
    pub const ALL: [CutReason; 15] = [
        CutReason::Debug,
        CutReason::Strict,
        CutReason::Read,
        CutReason::Synchronize,
        CutReason::StepBoundary,
        CutReason::Size,
        CutReason::Memory,
        CutReason::RepeatFound,
        CutReason::Explicit,
        CutReason::OtherThread,
        CutReason::Idle,
        CutReason::Piece,
        CutReason::MadeInStep,
        CutReason::Collective,
        CutReason::Adopted,
    ];
    /// Return whether the caller goes on recording the same step. It does not wait for values then.
    pub(crate) fn is_inside_step(self) -> bool {
        matches!(self, CutReason::Size | CutReason::Memory | CutReason::RepeatFound | CutReason::Idle)
    }
    /// Return whether the mode made the segment a single op.
    pub(crate) fn is_one_op(self) -> bool {
        matches!(self, CutReason::Strict | CutReason::Debug)
    }
    /// In words, as reports show it.
    pub fn name(self) -> &'static str {
        match self {
            CutReason::Debug => "debug",
            CutReason::Strict => "strict",
            CutReason::Read => "read by host",
            CutReason::Synchronize => "synchronize",
            CutReason::StepBoundary => "step boundary",
            CutReason::Size => "size",
            CutReason::Memory => "memory",
            CutReason::RepeatFound => "repeat found",
            CutReason::Explicit => "explicit",
            CutReason::OtherThread => "used by another thread",
            CutReason::Idle => "device idle",
            CutReason::Piece => "piece of a new program",
            CutReason::MadeInStep => "state made in a step",
            CutReason::Collective => "collective",
            CutReason::Adopted => "adopted by all ranks",
        }
    }
}
