//! Unrecorded parts of a process, with reasons; and the text for a record with almost no waits.

use serde::{Deserialize, Serialize};

use crate::account::{Account, seconds};
use crate::layout::{
    GROWN, H_CHILDREN_LOST, H_SANDBOXED, H_SHORT, H_THREADS_UNROOMED, H_UNRECORDED,
};
use crate::record::{Process, Record, total};

/// Threads, acquisitions and forked processes that a record lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unrecorded {
    /// Threads for which the directory of the recording had no room.
    pub threads: u64,
    /// Acquisitions of threads that were not recorded, as far as they were counted.
    pub acquisitions: u64,
    /// Acquisitions of recorded threads that were not counted, because there was no room for a
    /// table of their locks and places.
    pub uncounted: u64,
    /// Whether anything had no room in the directory of the recording.
    pub is_short: bool,
    /// Whether it limited its system calls while it was recorded.
    pub is_sandboxed: bool,
    /// Processes that it forked and that were not recorded: for want of room, because they could
    /// not open the directory, and by a limit on memory or files.
    pub children: [u64; 3],
}

impl Unrecorded {
    /// Returns the counts in the header of a file.
    pub(crate) fn of(header: &[u64]) -> Self {
        Self {
            threads: header[H_THREADS_UNROOMED],
            acquisitions: header[H_UNRECORDED],
            uncounted: 0,
            is_short: header[H_SHORT] > 0,
            is_sandboxed: header[H_SANDBOXED] == 1,
            children: [0, 1, 2].map(|why| header[H_CHILDREN_LOST + why]),
        }
    }

    /// Whether all was recorded.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Process {
    /// Adds acquisitions that a thread did not count: either its table of locks and places was
    /// full, or there was no room for one.
    pub(crate) fn add_lost(&mut self, grown: u64, count: u64) {
        let lost = match grown {
            GROWN => &mut self.acquisitions_lost,
            _ => &mut self.unrecorded.uncounted,
        };
        *lost = total([*lost, count]);
    }
}

impl Account {
    /// Returns the first sentence if locks cost little.
    pub fn elsewhere(&self, record: &Record) -> String {
        if let Some(doubt) = doubt(record) {
            return doubt;
        }
        let calls = total(self.locks.iter().map(|one| one.lock.count()));
        match self.condition(record.program.wall_s) {
            _ if calls == 0 => {
                "Nothing was recorded: no thread used a lock that could be seen.".to_owned()
            }
            Some(one) => format!(
                "Locks cost little: threads waited {} for them. They waited longer for work or for \
                 each other, {} on {}, {} times.",
                seconds(self.wait_s),
                seconds(one.lock.wait_s()),
                one.place(),
                one.lock.count()
            ),
            None => format!(
                "Locks cost little: threads waited {} for them in {calls} acquisitions.",
                seconds(self.wait_s)
            ),
        }
    }
}

/// Returns the limits of a record with almost no waits, because much was not recorded.
fn doubt(record: &Record) -> Option<String> {
    /// The unrecorded share, in percent, beyond which the record is not conclusive.
    const MUCH: u64 = 10;
    let all = &record.processes;
    let is_much = |lost: u64, of: u64| lost > 0 && lost.saturating_mul(100) >= of * MUCH;
    let lost = all.iter().map(|one| one.threads_lost).sum();
    let threads = all.iter().map(|one| one.threads).sum();
    if is_much(lost, threads) {
        let all = if lost == threads { "none" } else { "not all" };
        return Some(format!(
            "What locks cost is not known: {all} of the {threads} threads were recorded ({lost} \
             were not)."
        ));
    }
    let children = all.iter().flat_map(|one| one.unrecorded.children).sum();
    let processes = all.len() as u64 + children;
    is_much(children, processes).then(|| {
        format!(
            "What locks cost is not known: {children} of {processes} processes were not recorded."
        )
    })
}
