//! The record of a run, from which every account, prediction and cure starts.

pub(crate) mod busy_time;
pub(crate) mod causes;
pub(crate) mod element;
pub(crate) mod hotspot;
pub(crate) mod lock;
pub(crate) mod merge;
pub(crate) mod origin;
pub(crate) mod parse;
pub(crate) mod scheduling;
pub(crate) mod thread;
pub(crate) mod times;
pub mod trace;
pub(crate) mod unrecorded;

use std::collections::BTreeMap;

use convoy_os::Disturbance;
use serde::{Deserialize, Serialize};

use crate::java::Java;
use crate::layout::GROWN;
use crate::record::causes::{Cause, Counted, Event, Inversion, Pending, Seen};
use crate::record::hotspot::Hot;
pub(crate) use crate::record::lock::{Kind, Lock, Site, Stack, Waiters};
use crate::record::origin::Scheduler;
use crate::record::scheduling::{Scheduling, is_default};
use crate::record::thread::Thread;
pub(crate) use crate::record::times::{Times, total};
use crate::record::trace::Trace;
use crate::record::unrecorded::{Unloaded, Unrecorded};
use crate::sampling::kernel_waits::KernelWait;

/// Maximum number of threads that a record keeps: those that waited longest.
const KEPT: usize = 256;
/// Maximum length of a name in the kernel, in bytes.
const NAME_BYTES: usize = 15;

/// Version of the record format. Fields may be added, but existing fields keep their meaning.
pub const VERSION: u64 = 1;

/// Recorded use of locks by a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub recorded: u64,
    /// The recorded program.
    pub program: Program,
    /// Processes of the program, in the order in which they began.
    pub processes: Vec<Process>,
    /// Sentences about data that could not be recorded.
    pub unseen: Vec<String>,
}

/// The program as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Command line.
    pub command: Vec<String>,
    /// How the program ended.
    pub ending: String,
    /// Time from start to end, in seconds.
    pub wall_s: f64,
    /// CPU time including children, in seconds.
    pub cpu_s: f64,
    /// Number of CPUs that the program could use.
    pub cpus: u32,
    /// Model of these CPUs.
    pub cpu_model: String,
    /// Number of CPUs that share a core, as the kernel shows them; 0 if it is not known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub threads_per_core: u32,
    /// Kernel of the machine.
    pub kernel: String,
    /// Date and time in UTC.
    pub date: String,
    /// Other activity of the machine during the run.
    pub disturbance: Disturbance,
    /// Replacement policy for `pthread_mutex_t`, by its name in `convoy with`. Empty if there was
    /// none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mutex: String,
    /// Replacement policy for `sem_t`, likewise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sem: String,
    /// Places whose mutexes had a separate policy, each with that policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<(String, String)>,
    /// Whether only contended acquisitions were recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_contended: bool,
    /// Why the waits of the program could not be recorded, so that only its CPU time was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_samples: Option<String>,
    /// Numbers of programs that were started but not recorded, by reason: lack of room, the
    /// directory, a limit, a filter of system calls.
    #[serde(default, skip_serializing_if = "is_default")]
    pub programs_lost: [u64; 4],
    /// Tool whose output was imported. Empty if Convoy recorded the program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Lower quartile, median and upper quartile of the cost of switches and wakeups, measured
    /// right after the run, in nanoseconds, by the key of a machine preset.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices_ns: BTreeMap<String, [f64; 3]>,
}

/// Policy under which a release passes the lock to a waiter, so that the lock is never free while
/// threads wait.
pub const HANDOFF: &str = "handoff";

impl Program {
    /// Returns the mean number of CPUs that other programs used.
    pub fn other_cpus(&self) -> f64 {
        // Records of older versions do not contain how long other programs were watched.
        let seconds = self.disturbance.seconds;
        let seconds = if seconds > 0.0 { seconds } else { self.wall_s };
        self.disturbance.others_s / seconds.max(1e-9)
    }

    /// Returns the replacement policy for libc's locks of this kind without its bound, or an empty
    /// string.
    pub fn policy(&self, kind: Kind) -> &str {
        match kind {
            Kind::Mutex => self.mutex.split(':').next().unwrap_or_default(),
            Kind::Semaphore => &self.sem,
            _ => "",
        }
    }
}

/// A recorded process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Process ID.
    pub pid: u64,
    /// Process ID of the parent.
    pub parent: u64,
    /// Command line.
    pub command: Vec<String>,
    /// Time from start to the last clock reading, in seconds.
    pub seconds: f64,
    /// CPU time until then, in seconds.
    pub cpu_s: f64,
    /// Whether it exited normally. Otherwise it was killed or called `_exit`.
    pub ended: bool,
    /// Number of threads that used a lock.
    pub threads: u64,
    /// Threads that were not recorded because the limit of live threads was reached.
    pub threads_lost: u64,
    /// Other data that were not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unrecorded: Unrecorded,
    /// Programs that it started without the recorder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unloaded: Vec<Unloaded>,
    /// Acquisitions that were dropped because the tables were full.
    pub acquisitions_lost: u64,
    /// Number of mutexes that had a separate policy.
    #[serde(default)]
    pub chosen: u64,
    /// Whether context switches of owners were visible.
    pub sees_switches: bool,
    /// Files that contain places in functions without names, and the names of their debug data,
    /// which are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub debug_links: Vec<(String, String)>,
    /// Runtimes with tasks whose waits are not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedulers: Vec<Scheduler>,
    /// Mapped files that are gone or have been replaced, with their build IDs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<(String, String)>,
    /// Length of a phase, in seconds.
    pub phase_s: f64,
    /// Wait time of threads in each phase, by the end of each wait, in seconds.
    pub phases_wait_s: Vec<f64>,
    /// The same for waits for locks only, without conditions and barriers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases_lock_s: Vec<f64>,
    /// Locks by decreasing wait time.
    pub locks: Vec<Lock>,
    /// Steps of its threads in order, in windows of the run.
    #[serde(default, skip_serializing_if = "Trace::is_empty")]
    pub trace: Trace,
    /// Waiting places with the places that held the lock, and the activity of the owners; by
    /// decreasing wait time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Sampled waits for owners of lower priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inversions: Vec<Inversion>,
    /// Individual waits: a fair sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Waits that had not ended when the recording ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Pending>,
    /// Whether no thread could run at that time, because all waited for each other without a
    /// timeout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stuck: bool,
    /// Sampled activity of its threads, most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<Seen>,
    /// Sampled sleeps of its threads that may be waits for locks of the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_waits: Vec<KernelWait>,
    /// Sampled places where its threads used CPU time, most samples first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot: Vec<Hot>,
    /// Number of samples of CPU time.
    #[serde(default)]
    pub samples: u64,
    /// Groups of locks that share a cache line, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Vec<String>>,
    /// Number of times that its threads were sampled while it ran; see `activity`.
    #[serde(default)]
    pub looks: u64,
    /// Failed attempts to acquire a lock (`pthread_mutex_trylock`), by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Counted>,
    /// Calls of `sched_yield`, by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yields: Vec<Counted>,
    /// Words on which it waited in futex(2) directly, without the recorded functions of libc.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub futexes: Vec<Lock>,
    /// Locks that a runtime builds from a condition per thread. Only their waits are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime_locks: Vec<Lock>,
    /// Thread dumps of a Java process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub java: Option<Java>,
    /// Kernel locks that its threads waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_locks: Vec<Lock>,
    /// Scheduling of its threads by the kernel, or `None` if it was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Time for which its threads were runnable but had no CPU, in seconds, summed over threads and
    /// sampled from outside. `None` if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_s: Option<f64>,
    /// Its threads, longest wait for locks first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_thread: Vec<Thread>,
    /// Names that the program gave to its threads, by thread ID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thread_names: BTreeMap<u64, String>,
    /// Addresses of its locks, with their names. Not serialized.
    #[serde(skip)]
    pub addresses: Addresses,
}

/// Names and kinds of locks, by address.
pub type Addresses = BTreeMap<u64, (String, Kind)>;

impl Process {
    /// Adds acquisitions that a thread did not count, because its table of locks and places was
    /// full or there was no room for one.
    pub(crate) fn add_lost(&mut self, grown: u64, count: u64) {
        let lost = match grown {
            GROWN => &mut self.acquisitions_lost,
            _ => &mut self.unrecorded.uncounted,
        };
        *lost = total([*lost, count]);
    }

    /// Returns the name that the program gave to a thread.
    pub fn name_of(&self, thread: u64) -> Option<&str> {
        self.thread_names.get(&thread).map(String::as_str)
    }

    /// Returns a thread with its name: `flusher (4711)`, or `4711` without one.
    pub fn label_of(&self, thread: u64) -> String {
        self.name_of(thread).map_or_else(|| thread.to_string(), |name| format!("{name} ({thread})"))
    }

    /// Adds names of threads. A thread has the name of its program until it gets another one.
    pub(crate) fn name_threads(&mut self, names: impl IntoIterator<Item = (u64, String)>) {
        let program = self.command.first().map_or("", String::as_str);
        let program = program.rsplit('/').next().unwrap_or_default();
        let program = &program.as_bytes()[..program.len().min(NAME_BYTES)];
        let is_own = |(_, name): &(u64, String)| !name.is_empty() && name.as_bytes() != program;
        self.thread_names.extend(names.into_iter().filter(is_own));
    }

    pub(crate) fn add_thread(&mut self, thread: Thread) {
        if thread.id != 0 && thread.count > 0 {
            self.by_thread.push(thread);
        }
    }

    /// Keeps the threads that waited longest, longest first.
    pub(crate) fn keep_threads(&mut self) {
        self.by_thread
            .sort_by(|a, b| b.lock_wait_s.total_cmp(&a.lock_wait_s).then(b.count.cmp(&a.count)));
        self.by_thread.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_is_no_name_of_a_thread() {
        let command = vec!["/usr/bin/a_program_with_a_long_name".to_owned()];
        let mut process = Process { command, ..Process::default() };
        let names = [(7, "a_program_with_"), (8, "flusher"), (9, "")];
        process.name_threads(names.map(|(thread, name)| (thread, name.to_owned())));
        assert_eq!([7, 8, 9].map(|thread| process.label_of(thread)), ["7", "flusher (8)", "9"]);
    }
}
