//! The record of a run: what is kept, and what every account, prediction and cure starts from.

use std::collections::BTreeMap;

use convoy_workload::disturbance::Disturbance;
use serde::{Deserialize, Serialize};

use crate::causes::{Cause, Counted, Event, Pending, Seen};
use crate::hotspot::Hot;
use crate::layout::GROWN;
pub(crate) use crate::lock::{Kind, Lock, Site, Waiters};
use crate::scheduling::Scheduling;
pub(crate) use crate::times::{Times, total};
use crate::trace::Trace;
use crate::unrecorded::{Unloaded, Unrecorded};

/// Version of the record. Fields may be added; none changes its meaning.
pub const VERSION: u64 = 1;

/// What the locks of a program did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub recorded: u64,
    /// What was run.
    pub program: Program,
    /// Its processes that took part, in the order in which they began.
    pub processes: Vec<Process>,
    /// What could not be seen, in sentences.
    pub unseen: Vec<String>,
}

/// The program as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The command line.
    pub command: Vec<String>,
    /// How it ended.
    pub ending: String,
    /// From its start to its end, seconds.
    pub wall_s: f64,
    /// CPU time, its children included, seconds.
    pub cpu_s: f64,
    /// CPUs that it could use.
    pub cpus: u32,
    /// Their model.
    pub cpu_model: String,
    /// The kernel.
    pub kernel: String,
    /// When, UTC.
    pub date: String,
    /// What else went on.
    pub disturbance: Disturbance,
    /// What stood in place of libc's mutexes, as `convoy with` calls it; empty: nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mutex: String,
    /// The same of its semaphores.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sem: String,
    /// Places whose mutexes had a policy of their own, each with that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<(String, String)>,
    /// Whether only acquisitions that had to wait were recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_contended: bool,
    /// Programs that were started and not recorded: for want of room, of the directory, by a limit,
    /// by a filter of system calls.
    #[serde(default, skip_serializing_if = "is_none_lost")]
    pub programs_lost: [u64; 4],
    /// The tool whose output this was made from; empty: recorded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Lower quartile, median and upper quartile of what switches and wakeups took just afterwards,
    /// nanoseconds, by the key of a machine preset.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices_ns: BTreeMap<String, [f64; 3]>,
}

fn is_none_lost(lost: &[u64; 4]) -> bool {
    *lost == [0; 4]
}

/// A lock that is made over by whoever releases it, and is never free while somebody waits.
pub const HANDOFF: &str = "handoff";

impl Program {
    /// The lock in place of libc's of this kind; empty: none.
    pub fn policy(&self, kind: Kind) -> &str {
        match kind {
            Kind::Mutex => &self.mutex,
            Kind::Semaphore => &self.sem,
            _ => "",
        }
    }
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u64,
    /// That of its parent.
    pub parent: u64,
    /// Its command line.
    pub command: Vec<String>,
    /// From its start to the last look at the clock, seconds.
    pub seconds: f64,
    /// CPU time until then, seconds.
    pub cpu_s: f64,
    /// Whether it ended by itself; if not, it was killed or called `_exit`.
    pub ended: bool,
    /// Threads that used a lock.
    pub threads: u64,
    /// Threads that were not recorded because too many lived at once.
    pub threads_lost: u64,
    /// What else was not recorded.
    #[serde(default, skip_serializing_if = "Unrecorded::is_nothing")]
    pub unrecorded: Unrecorded,
    /// Programs that it started without the recorder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unloaded: Vec<Unloaded>,
    /// Acquisitions for which the tables had no room.
    pub acquisitions_lost: u64,
    /// Mutexes that had a policy of their own.
    #[serde(default)]
    pub chosen: u64,
    /// Whether switches of an owner were seen.
    pub sees_switches: bool,
    /// Files with places in functions without names, and their debug data, which are not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub debug_links: Vec<(String, String)>,
    /// Files that it had mapped and that are gone or other ones now, with their build-ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<(String, String)>,
    /// Length of a phase, seconds.
    pub phase_s: f64,
    /// Time that threads waited in each phase, by when a wait ended, seconds.
    pub phases_wait_s: Vec<f64>,
    /// The same of waits for locks alone, without conditions and barriers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases_lock_s: Vec<f64>,
    /// Its locks, the one waited for longest first.
    pub locks: Vec<Lock>,
    /// What its threads did one after the other, in windows.
    #[serde(default, skip_serializing_if = "Trace::is_empty")]
    pub trace: Trace,
    /// Which places waited for which places, and what the owners did; the most waiting first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Waits one by one: a fair sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Waits that had not ended when the recording did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Pending>,
    /// Whether no thread could run then: all waited for each other without a timeout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stuck: bool,
    /// What its threads were seen doing, most often first; from samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<Seen>,
    /// Where its threads spent CPU time, by samples; the most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot: Vec<Hot>,
    /// All samples of CPU time.
    #[serde(default)]
    pub samples: u64,
    /// Locks that share a cache line with others, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Vec<String>>,
    /// Looks at its threads while it ran; see `activity`.
    #[serde(default)]
    pub looks: u64,
    /// Attempts in vain to acquire a lock (`pthread_mutex_trylock`) by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Counted>,
    /// Calls of `sched_yield` by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yields: Vec<Counted>,
    /// Words for which it waited in futex(2) itself, past the functions of libc that were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub futexes: Vec<Lock>,
    /// Locks that a runtime in it builds of a condition for each thread: only waits are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime_locks: Vec<Lock>,
    /// Locks of the kernel that its threads waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_locks: Vec<Lock>,
    /// What the kernel saw of its threads; none if it did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Time for which its threads could run but had no CPU, seconds, summed over threads, as
    /// sampled from outside; none if the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_s: Option<f64>,
    /// Where its locks are, with their names; only while it is being recorded.
    #[serde(skip)]
    pub addresses: Addresses,
}

/// Names and kinds of locks by where they are.
pub type Addresses = BTreeMap<u64, (String, Kind)>;

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
