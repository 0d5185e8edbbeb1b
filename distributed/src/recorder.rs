//! The flight recorder: the last collectives of this process, for reports of timeouts.
//!
//! `TORCH_FR_BUFFER_SIZE` sets the number of entries, 1,024 if unset. 0 turns the recorder off.
//! `TORCH_FR_DUMP_TEMP_FILE` is the beginning of the name of the file that a timeout writes. The rank follows it.

use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use torchtpu_tensor::DType;

const DEFAULT_ENTRIES: usize = 1024;
const DEFAULT_FILE: &str = "torchtpu_trace_rank_";

/// How far a collective is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It waits for earlier ones.
    Scheduled,
    /// It runs.
    Started,
    /// It is done.
    Completed,
    /// It failed.
    Failed,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Started => "started",
            State::Completed => "completed",
            State::Failed => "failed",
        }
    }
}

/// One collective or message.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Number of the entry in this process.
    pub id: u64,
    /// Name of the group.
    pub group: Arc<str>,
    /// This rank in the group.
    pub rank: usize,
    /// Number of ranks of the group.
    pub size: usize,
    /// Sequence number in the group. Messages have one of their own.
    pub sequence: u64,
    /// Whether it is a message between two ranks.
    pub is_message: bool,
    /// Name of the op, such as `all_reduce`.
    pub op: &'static str,
    /// Element type.
    pub dtype: DType,
    /// Shape of the input.
    pub shape: Vec<usize>,
    /// Bytes of the input and of the output of this rank.
    pub bytes: [usize; 2],
    /// File and line of the caller, if known.
    pub line: Option<Arc<str>>,
    /// How far it is.
    pub state: State,
    /// Timeout.
    pub timeout: Duration,
    /// When it was called.
    pub created: SystemTime,
    /// When it began to run.
    pub started: Option<SystemTime>,
    /// When it ended.
    pub ended: Option<SystemTime>,
}

impl Entry {
    /// Return the entry with its state in one line.
    pub fn summary(&self) -> String {
        format!("{}, {}", self.call(), self.state.name())
    }

    /// Return the call in one line.
    pub(crate) fn call(&self) -> String {
        let place = self.line.as_deref().map(|l| format!(" at {l}")).unwrap_or_default();
        let number = if self.is_message { "message" } else { "sequence number" };
        format!(
            "{} of {} {:?} ({number} {} of group {}{place})",
            self.op,
            self.dtype.name(),
            self.shape,
            self.sequence,
            self.group
        )
    }

    fn json(&self) -> Value {
        let nanos = |t: Option<SystemTime>| {
            t.and_then(|t| t.duration_since(UNIX_EPOCH).ok()).map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
        };
        let took = self.started.zip(self.ended).and_then(|(a, b)| b.duration_since(a).ok());
        let frames: Vec<Value> = self
            .line
            .iter()
            .map(|l| match l.rsplit_once(':') {
                Some((file, line)) => json!({"name": "", "filename": file, "line": line.parse::<u64>().unwrap_or(0)}),
                None => json!({"name": "", "filename": &**l, "line": 0}),
            })
            .collect();
        json!({
            "record_id": self.id,
            "process_group": [&*self.group, ""],
            "pg_rank": self.rank,
            "pg_size": self.size,
            "collective_seq_id": if self.is_message { 0 } else { self.sequence },
            "p2p_seq_id": if self.is_message { self.sequence } else { 0 },
            "is_p2p": self.is_message,
            "profiling_name": format!("gloo:{}", self.op),
            "input_sizes": [self.shape],
            "input_dtypes": [self.dtype.scalar_type()],
            "input_bytes": self.bytes[0],
            "output_bytes": self.bytes[1],
            "state": self.state.name(),
            "timeout_ms": u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
            "time_created_ns": nanos(Some(self.created)),
            "time_discovered_started_ns": nanos(self.started),
            "time_discovered_completed_ns": nanos(self.ended),
            "duration_ms": took.map(|d| d.as_secs_f64() * 1e3),
            "retired": matches!(self.state, State::Completed | State::Failed),
            "frames": frames,
        })
    }
}

/// The last entries, oldest first.
pub struct Recorder {
    capacity: usize,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    next: u64,
    entries: VecDeque<Entry>,
}

impl Recorder {
    /// Return a recorder of the last `capacity` entries.
    pub fn new(capacity: usize) -> Recorder {
        Recorder { capacity, ring: Mutex::default() }
    }

    /// Return the recorder of this process.
    pub fn global() -> &'static Recorder {
        static GLOBAL: OnceLock<Recorder> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            let asked = std::env::var("TORCH_FR_BUFFER_SIZE").ok().and_then(|v| v.trim().parse().ok());
            Recorder::new(asked.unwrap_or(DEFAULT_ENTRIES))
        })
    }

    /// Add an entry, and return its number. `id` of the argument is ignored.
    pub fn add(&self, mut entry: Entry) -> u64 {
        let mut ring = self.ring.lock();
        let id = ring.next;
        ring.next += 1;
        if self.capacity > 0 {
            if ring.entries.len() == self.capacity {
                ring.entries.pop_front();
            }
            entry.id = id;
            ring.entries.push_back(entry);
        }
        id
    }

    /// Change the state of an entry, and note the time.
    pub fn set(&self, id: u64, state: State) {
        let mut ring = self.ring.lock();
        let Some(first) = ring.entries.front().map(|e| e.id) else { return };
        let Some(entry) = id.checked_sub(first).and_then(|at| ring.entries.get_mut(at as usize)) else { return };
        entry.state = state;
        let now = Some(SystemTime::now());
        match state {
            State::Scheduled => {}
            State::Started => entry.started = now,
            State::Completed | State::Failed => entry.ended = now,
        }
    }

    /// Return the entries, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.ring.lock().entries.iter().cloned().collect()
    }

    /// Return an entry, if it is still kept.
    pub fn get(&self, id: u64) -> Option<Entry> {
        let ring = self.ring.lock();
        let first = ring.entries.front()?.id;
        ring.entries.get(id.checked_sub(first)? as usize).cloned()
    }

    /// Return all entries as JSON, with the names of PyTorch's flight recorder.
    pub fn json(&self) -> String {
        let entries: Vec<Value> = self.entries().iter().map(Entry::json).collect();
        json!({"version": "2.10", "entries": entries}).to_string()
    }

    /// Write the entries to the file of a global rank, and return its path.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn dump(&self, rank: usize) -> std::io::Result<PathBuf> {
        let start = std::env::var("TORCH_FR_DUMP_TEMP_FILE").ok().filter(|v| !v.is_empty());
        let start = start.map_or_else(|| std::env::temp_dir().join(DEFAULT_FILE).into_os_string(), Into::into);
        let mut path = start;
        path.push(rank.to_string());
        let path = PathBuf::from(path);
        // A reader sees the old file or the new one, never a part.
        let mut partial = path.clone().into_os_string();
        partial.push(format!(".{}.tmp", std::process::id()));
        std::fs::write(&partial, self.json())?;
        std::fs::rename(&partial, &path)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: u64) -> Entry {
        Entry {
            id: 0,
            group: "0".into(),
            rank: 1,
            size: 2,
            sequence,
            is_message: false,
            op: "all_reduce",
            dtype: DType::F32,
            shape: vec![2, 3],
            bytes: [24, 24],
            line: Some("train.py:12".into()),
            state: State::Scheduled,
            timeout: Duration::from_secs(5),
            created: SystemTime::now(),
            started: None,
            ended: None,
        }
    }

    #[test]
    fn only_the_last_entries_are_kept() {
        let recorder = Recorder::new(3);
        let ids: Vec<u64> = (0..5).map(|i| recorder.add(entry(i))).collect();
        recorder.set(ids[0], State::Failed);
        recorder.set(ids[4], State::Completed);
        let kept: Vec<_> = recorder.entries().iter().map(|e| (e.sequence, e.state)).collect();
        assert_eq!(kept, [(2, State::Scheduled), (3, State::Scheduled), (4, State::Completed)]);
    }

    #[test]
    fn the_dump_has_the_names_of_pytorch() {
        let recorder = Recorder::new(3);
        recorder.set(recorder.add(entry(7)), State::Started);
        let dump: Value = serde_json::from_str(&recorder.json()).expect("the dump is JSON");
        let entry = &dump["entries"][0];
        assert_eq!(entry["collective_seq_id"], 7);
        assert_eq!(entry["state"], "started");
        assert_eq!(entry["input_sizes"], json!([[2, 3]]));
        assert_eq!(entry["frames"][0], json!({"name": "", "filename": "train.py", "line": 12}));
    }
}
