//! The bytes between a client and a server: PyTorch's protocol, so that its clients and servers work with ours.
//!
//! A command is one byte, then its operands. Integers are little endian, and texts follow their length of 8 bytes.

/// The number that opens each connection, after [`Query::Validate`].
pub(super) const MAGIC: u32 = 0x3C85_F7CE;

/// Longest key, in bytes. PyTorch's server closes a connection that sends a longer one, as ours does.
pub(super) const MAX_KEY: usize = 8 * 1024;

/// Longest value of one command, in bytes, also as PyTorch's.
pub(super) const MAX_VALUE: usize = 8 * 1024 * 1024;

/// Most keys of one command, also as PyTorch's.
pub(super) const MAX_KEYS: usize = 128 * 1024;

/// Longest command, in bytes. It bounds what the server keeps of a command that has not ended yet.
pub(super) const MAX_COMMAND: usize = 64 * 1024 * 1024;

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Query {
    Validate,
    Set,
    CompareSet,
    Get,
    Add,
    Check,
    Wait,
    NumKeys,
    DeleteKey,
    Append,
    MultiGet,
    MultiSet,
    CancelWait,
    Ping,
    QueuePush,
    QueuePop,
    QueueLen,
    ListKeys,
    Barrier,
}

impl Query {
    /// All commands. The index of each is its byte.
    const ALL: [Query; 19] = [
        Query::Validate,
        Query::Set,
        Query::CompareSet,
        Query::Get,
        Query::Add,
        Query::Check,
        Query::Wait,
        Query::NumKeys,
        Query::DeleteKey,
        Query::Append,
        Query::MultiGet,
        Query::MultiSet,
        Query::CancelWait,
        Query::Ping,
        Query::QueuePush,
        Query::QueuePop,
        Query::QueueLen,
        Query::ListKeys,
        Query::Barrier,
    ];

    pub(super) fn from_byte(byte: u8) -> Option<Query> {
        Query::ALL.get(usize::from(byte)).copied()
    }
}

/// The answer to [`Query::Check`] if all keys are present.
pub(super) const READY: u8 = 0;
/// The answer to [`Query::Check`] if a key is absent.
pub(super) const NOT_READY: u8 = 1;
/// The answer to [`Query::Wait`] and [`Query::Barrier`], once the wait is over.
pub(super) const STOP_WAITING: u8 = 0;
/// The answer to [`Query::CancelWait`].
pub(super) const WAIT_CANCELED: u8 = 1;

/// A message that is being put together.
#[derive(Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    pub(super) fn query(query: Query) -> Message {
        Message(vec![query as u8])
    }
    pub(super) fn byte(mut self, value: u8) -> Message {
        self.0.push(value);
        self
    }
    pub(super) fn u32(mut self, value: u32) -> Message {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    pub(super) fn i64(mut self, value: i64) -> Message {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    pub(super) fn bytes(mut self, value: &[u8]) -> Message {
        self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.0.extend_from_slice(value);
        self
    }
    /// A key of the user's, which stands behind `/` on the wire.
    pub(super) fn key(mut self, key: &str) -> Message {
        self.0.extend_from_slice(&(key.len() as u64 + 1).to_le_bytes());
        self.0.push(b'/');
        self.0.extend_from_slice(key.as_bytes());
        self
    }
    pub(super) fn keys(self, keys: &[&str]) -> Message {
        keys.iter().fold(self.i64(keys.len() as i64), |message, key| message.key(key))
    }
}

/// Why a command cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// Its end has not arrived yet.
    Incomplete,
    /// It breaks the protocol, or a limit.
    Invalid,
}

/// The operands of a command, read in order.
pub(super) struct Operands<'a>(pub(super) &'a [u8]);

impl<'a> Operands<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Stop> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Stop::Incomplete)?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Stop::Incomplete)?;
        self.0 = rest;
        Ok(*taken)
    }
    pub(super) fn byte(&mut self) -> Result<u8, Stop> {
        Ok(self.array::<1>()?[0])
    }
    pub(super) fn u32(&mut self) -> Result<u32, Stop> {
        self.array().map(u32::from_le_bytes)
    }
    pub(super) fn i64(&mut self) -> Result<i64, Stop> {
        self.array().map(i64::from_le_bytes)
    }
    /// A length of at most `limit`.
    fn length(&mut self, limit: usize) -> Result<usize, Stop> {
        let length = u64::from_le_bytes(self.array()?);
        usize::try_from(length).ok().filter(|&length| length <= limit).ok_or(Stop::Invalid)
    }
    pub(super) fn key(&mut self) -> Result<&'a [u8], Stop> {
        let length = self.length(MAX_KEY)?;
        self.take(length)
    }
    pub(super) fn value(&mut self) -> Result<&'a [u8], Stop> {
        let length = self.length(MAX_VALUE)?;
        self.take(length)
    }
    pub(super) fn count(&mut self) -> Result<usize, Stop> {
        self.length(MAX_KEYS)
    }
    pub(super) fn keys(&mut self) -> Result<Vec<&'a [u8]>, Stop> {
        let count = self.count()?;
        // Each key takes at least its length of 8 bytes: do not trust the count for the allocation.
        let mut keys = Vec::with_capacity(count.min(self.0.len() / 8));
        for _ in 0..count {
            keys.push(self.key()?);
        }
        Ok(keys)
    }
}
