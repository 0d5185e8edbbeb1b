//! The watchdog: one thread that tells the store where this process is, and notices groups that other ranks broke.

use crate::group::{Group, Wait};
use crate::recorder::State;
use crate::transport::shm;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind};

const PERIOD: Duration = Duration::from_millis(500);
/// A collective that runs longer than this, or a message that waits, asks the store whether another rank failed or
/// left.
const PATIENCE: Duration = Duration::from_millis(500);

/// A compilation that takes longer counts as stuck.
const LONGEST_COMPILATION: Duration = Duration::from_secs(2 * 60 * 60);

/// A group, and what the watchdog remembers of it.
#[derive(Clone)]
struct Watched {
    group: Weak<Group>,
    /// The sequence number and state that the store has.
    told: Option<(u64, State)>,
    /// The last sign that each rank gave while it compiled.
    signs: BTreeMap<usize, Vec<u8>>,
    /// The waits that the store has.
    waits: Vec<Wait>,
}

/// The number of programs that this process compiles now, and since when.
static COMPILING: Mutex<(usize, Option<Instant>)> = Mutex::new((0, None));

static GROUPS: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

thread_local! {
    static IS_WATCHDOG: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is the watchdog, which must not wait.
pub(crate) fn is_watchdog() -> bool {
    IS_WATCHDOG.get()
}
static START: Once = Once::new();

/// Watch a group until it is dropped.
pub(crate) fn add(group: &Arc<Group>) {
    GROUPS.lock().push(Watched { group: Arc::downgrade(group), told: None, signs: BTreeMap::new(), waits: Vec::new() });
    START.call_once(|| {
        let run = || {
            IS_WATCHDOG.set(true);
            for turn in 0.. {
                std::thread::sleep(PERIOD);
                look(turn);
            }
        };
        // Without the thread, reports of timeouts say less.
        let _ = std::thread::Builder::new().name("group-watchdog".into()).spawn(run);
    });
}

/// Return a group of this process for which `is_wanted` is true.
pub(crate) fn find(is_wanted: impl Fn(&Group) -> bool) -> Option<Arc<Group>> {
    let groups = GROUPS.lock().clone();
    groups.iter().filter_map(|watched| watched.group.upgrade()).find(|group| is_wanted(group))
}

/// Note that this process begins or ends to compile a program. While it does, other ranks do not count their timeouts.
pub(crate) fn note_compiling(begins: bool) {
    let (count, since) = &mut *COMPILING.lock();
    if begins {
        *count += 1;
        since.get_or_insert_with(Instant::now);
    } else {
        *count = count.saturating_sub(1);
        if *count == 0 {
            *since = None;
        }
    }
}

/// Tell all groups which collectives of this process have waited for longer than `time`.
pub(crate) fn post_waits(time: Duration) {
    /// Held from a look at the waits until the store has them, so that a slow thread does not post an older state.
    static POSTING: Mutex<()> = Mutex::new(());
    let groups: Vec<Arc<Group>> = GROUPS.lock().iter().filter_map(|watched| watched.group.upgrade()).collect();
    for group in groups.iter().filter(|group| !group.is_agreement() && !group.has_left()) {
        let _posting = POSTING.lock();
        let own: Vec<Wait> =
            groups.iter().filter(|other| other.is_of_rank(group)).filter_map(|g| g.wait(time)).collect();
        let is_it = |w: &Watched| std::ptr::eq(w.group.as_ptr(), Arc::as_ptr(group));
        if GROUPS.lock().iter().any(|w| is_it(w) && w.waits != own) {
            group.post_waits(&own);
            if let Some(entry) = GROUPS.lock().iter_mut().find(|w| is_it(w)) {
                entry.waits = own;
            }
        }
    }
}

/// Return the ranks whose signs that they compile have changed since the last look.
fn compiling_ranks(group: &Group, signs: &mut BTreeMap<usize, Vec<u8>>) -> Vec<usize> {
    if !matches!(group.meeting.find("compiling"), Ok(Some(_))) {
        return Vec::new();
    }
    let gives_sign = |&rank: &usize| {
        let Ok(Some(sign)) = group.meeting.find(&format!("compiling/{rank}")) else { return false };
        signs.insert(rank, sign.clone()).is_some_and(|before| before != sign)
    };
    (0..group.meeting.size).filter(|&rank| rank != group.rank).filter(gives_sign).collect()
}

fn look(turn: u64) {
    let watched = {
        let mut groups = GROUPS.lock();
        groups.retain(|watched| watched.group.strong_count() > 0);
        groups.clone()
    };
    let compiles = COMPILING.lock().1.is_some_and(|since| since.elapsed() > PATIENCE);
    post_waits(PATIENCE);
    for Watched { group: weak, told, mut signs, .. } in watched {
        let Some(group) = weak.upgrade() else { continue };
        if compiles {
            // If the store fails, other ranks count their timeouts.
            let _ = group.meeting.post(&format!("compiling/{}", group.rank), &turn.to_string());
            let _ = group.meeting.post("compiling", "");
        }
        let remember = |change: &dyn Fn(&mut Watched)| {
            if let Some(entry) = GROUPS.lock().iter_mut().find(|w| w.group.ptr_eq(&weak)) {
                change(entry);
            }
        };
        if group.running_for().is_some_and(|time| time > PATIENCE && time < LONGEST_COMPILATION) {
            if !compiling_ranks(&group, &mut signs).is_empty() {
                *group.excused_until.lock() = Some(Instant::now() + 4 * PERIOD);
            }
            remember(&|entry| entry.signs.clone_from(&signs));
        }
        if group.has_waited(PATIENCE) {
            if let Some(error) = group.abortion() {
                group.break_with(&error);
            } else if matches!(group.meeting.find("failed"), Ok(Some(_))) {
                // The rank that failed is about to say why. It may wait for the call of this rank to fail, which then
                // finds the words.
                group.end_waits();
            } else if let Some(text) = group.absence() {
                // The waiting call reports the text of the store.
                let _ = group.meeting.post("abort", &text);
                group.break_with(&Error::new(ErrorKind::DistBackend, text));
            } else if let Some(error) = group.host_conflict() {
                group.post_abort(error.message());
                group.break_with(&error);
            }
        }
        group.note_absent_senders();
        if group.has_left() {
            continue;
        }
        let Some(last) = group.last.lock().clone() else { continue };
        let now = Some((last.sequence, last.state));
        if now != told {
            // The store may be gone at the end of a program. Then no rank reads this.
            let _ = group.meeting.post(&format!("state/{}", group.rank), &last.summary());
            remember(&|entry| entry.told = now);
        }
    }
    shm::forget_old_links();
}
