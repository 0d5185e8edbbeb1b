//! The watchdog: one thread that tells the store where this process is, and notices groups that other ranks broke.

use crate::group::Group;
use crate::recorder::State;
use crate::transport::shm;
use parking_lot::Mutex;
use std::sync::{Arc, Once, Weak};
use std::time::Duration;
use torchtpu_tensor::{Error, ErrorKind};

const PERIOD: Duration = Duration::from_millis(500);
/// A collective that runs longer than this, or a message that waits, asks the store whether another rank failed or
/// left.
const PATIENCE: Duration = Duration::from_millis(500);

/// A group, and the sequence number and state that the store has.
type Watched = (Weak<Group>, Option<(u64, State)>);

static GROUPS: Mutex<Vec<Watched>> = Mutex::new(Vec::new());
static START: Once = Once::new();

/// Watch a group until it is dropped.
pub(crate) fn add(group: &Arc<Group>) {
    GROUPS.lock().push((Arc::downgrade(group), None));
    START.call_once(|| {
        let run = || {
            loop {
                std::thread::sleep(PERIOD);
                look();
            }
        };
        // Without the thread, reports of timeouts say less.
        let _ = std::thread::Builder::new().name("group-watchdog".into()).spawn(run);
    });
}

fn look() {
    let watched = {
        let mut groups = GROUPS.lock();
        groups.retain(|(group, _)| group.strong_count() > 0);
        groups.clone()
    };
    for (weak, told) in watched {
        let Some(group) = weak.upgrade() else { continue };
        if group.has_waited(PATIENCE) {
            if let Ok(Some(text)) = group.meeting.find("abort") {
                group.break_with(&Error::new(ErrorKind::DistBackend, String::from_utf8_lossy(&text)));
            } else if matches!(group.meeting.find("failed"), Ok(Some(_))) {
                // The rank that failed is about to say why. It may wait for the call of this rank to fail.
                group.break_with(&Error::new(ErrorKind::DistBackend, "a collective of another rank failed"));
            } else if let Some(text) = group.absence() {
                // The waiting call reports the text of the store.
                let _ = group.meeting.post("abort", &text);
                group.break_with(&Error::new(ErrorKind::DistBackend, text));
            }
        }
        let Some(last) = group.last.lock().clone() else { continue };
        let now = Some((last.sequence, last.state));
        if now != told {
            // The store may be gone at the end of a program. Then no rank reads this.
            let _ = group.meeting.post(&format!("state/{}", group.rank), &last.summary());
            if let Some(entry) = GROUPS.lock().iter_mut().find(|(g, _)| g.ptr_eq(&weak)) {
                entry.1 = now;
            }
        }
    }
    shm::forget_old_links();
}
