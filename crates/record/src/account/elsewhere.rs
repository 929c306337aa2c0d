//! The first sentence about a record with almost no waits.

use crate::account::Account;
use crate::account::text::seconds;
use crate::record::{Record, total};

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

/// Returns a sentence if too much was not recorded to draw a conclusion from a record with almost
/// no waits.
fn doubt(record: &Record) -> Option<String> {
    /// Unrecorded share, in percent, from which the record is not conclusive.
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
    if hides_goroutines(record) {
        return Some(
            "What locks cost is not known: a look from outside does not show goroutines that wait. \
             Record the process as root, or give convoy explain Go's mutex profile \
             (runtime.SetMutexProfileFraction, /debug/pprof/mutex)."
                .to_owned(),
        );
    }
    let children = all.iter().flat_map(|one| one.unrecorded.children);
    let children = total(children.chain(record.program.programs_lost));
    let processes = (all.len() as u64).saturating_add(children);
    is_much(children, processes).then(|| {
        format!(
            "What locks cost is not known: {children} of {processes} processes were not recorded."
        )
    })
}

/// Returns whether a program in Go was recorded without kernel events: its threads sleep in its
/// scheduler, whatever goroutines wait for.
fn hides_goroutines(record: &Record) -> bool {
    let unseen = record.processes.iter().filter(|one| one.scheduling.is_none());
    let mut sites = unseen.flat_map(|one| &one.locks).flat_map(|lock| &lock.sites);
    sites.any(|site| site.place.starts_with("runtime.futexsleep"))
}
