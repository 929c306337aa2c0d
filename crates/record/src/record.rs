//! The record of a run: what is kept, and what every account, prediction and cure starts from.

use std::collections::BTreeMap;

use convoy_workload::disturbance::Disturbance;
use serde::{Deserialize, Serialize};

use crate::causes::{Cause, Counted, Event, Pending, Seen};
pub use crate::join::total;
use crate::scheduling::{Held, Scheduling, is_none, is_zero};
use crate::trace::Trace;
use crate::unrecorded::{Unloaded, Unrecorded};
use crate::{hot::Hot, layout};

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

/// Kinds of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `pthread_mutex_t` or `mtx_t`.
    #[default]
    Mutex,
    /// `pthread_rwlock_t`.
    Rwlock,
    /// `pthread_spinlock_t`.
    Spinlock,
    /// `pthread_barrier_t`.
    Barrier,
    /// `sem_t`.
    Semaphore,
    /// `pthread_cond_t` or `cnd_t`.
    Condition,
    /// A word of a program that calls futex(2) itself.
    Futex,
}

impl Kind {
    /// Of a kind of the layout.
    pub(crate) fn of(kind: u64) -> Self {
        match kind {
            layout::READ | layout::WRITE => Self::Rwlock,
            layout::SPIN => Self::Spinlock,
            layout::BARRIER => Self::Barrier,
            layout::SEMAPHORE => Self::Semaphore,
            layout::CONDITION | layout::SIGNAL => Self::Condition,
            layout::FUTEX => Self::Futex,
            _ => Self::Mutex,
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Rwlock => "rwlock",
            Self::Spinlock => "spinlock",
            Self::Barrier => "barrier",
            Self::Semaphore => "semaphore",
            Self::Condition => "condition variable",
            Self::Futex => "futex",
        }
    }
}

/// One lock, or locks of one name: those of objects on the heap share their call sites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    /// The variable, or the function that waited most for it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// How many there are.
    pub instances: u64,
    /// Times during which some thread waited.
    pub waiters: Waiters,
    /// Of a semaphore or condition: how often its last taker gave it up, which makes it a lock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given_by_owner: u64,
    /// How often another thread did, which makes it a signal.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given_by_others: u64,
    /// Of a semaphore: whether it is held for so much of the run at once that it tells that its
    /// owner has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held_for_good: bool,
    /// Of a condition: the mutex that threads gave up while they waited.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mutex: String,
    /// Of a lock of the kernel: what that calls it, such as `rwsem`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Of a lock of a runtime or library: Java's monitors, or the function that takes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// Of a lock of the kernel: time of waits whose owner was known when they began, seconds.
    #[serde(default, skip_serializing_if = "is_none")]
    pub owners_known_s: f64,
    /// Of these, of waits whose owner was on no CPU then, seconds.
    #[serde(default, skip_serializing_if = "is_none")]
    pub owners_off_s: f64,
    /// What the kernel saw of its owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Where it was called from, the one that waited longest first.
    pub sites: Vec<Site>,
}

/// Times during which a lock had waiters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiters {
    /// All of them, seconds.
    pub seconds: f64,
    /// The longest, seconds.
    pub longest_s: f64,
    /// When it began, seconds after the process.
    pub longest_at_s: f64,
    /// Most threads that waited at once.
    pub most: u64,
}

/// One call site of a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Function, with file and line where the program has them: `Cache::lock (cache.cc:214)`.
    pub place: String,
    /// What is done there: `lock`, `read`, `write`, `wait`, `signal`.
    pub act: String,
    /// Calls: acquisitions, waits, signals.
    pub count: u64,
    /// Acquisitions that had to wait.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contended: u64,
    /// Attempts with a time limit that ran out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Threads.
    pub threads: u64,
    /// Of these, those that come regularly: not a main thread that comes once. 0: not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub regulars: u64,
    /// Holds in which the owner kept its CPU.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub hold_on: Times,
    /// Holds in which it was switched away.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub hold_off: Times,
    /// Waits.
    pub wait: Times,
    /// From the release before to the request, on the CPU.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub think_on: Times,
    /// The same with a switch in between.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub think_off: Times,
    /// From a release with waiters to the next owner running.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub handoff: Times,
    /// From a request to owning a lock that was free: long if its cache line was elsewhere.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub acquire: Times,
    /// Waits for a condition that followed another one at once: the wakeup was in vain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub futile: u64,
    /// Wakeups that a thread which had waited here gave on to the next one that did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub passed: u64,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many; of samples, how many they stand for.
    pub count: u64,
    /// Their sum, seconds.
    pub total_s: f64,
    /// The longest, seconds.
    pub max_s: f64,
    /// Least time of a bucket in nanoseconds, and how many are in it; empty ones are left out.
    pub buckets: Vec<(f64, u64)>,
}

impl Times {
    /// Adds those of another one with the same price of a tick.
    pub fn add(&mut self, other: &Self) {
        self.count = total([self.count, other.count]);
        self.total_s += other.total_s;
        self.max_s = self.max_s.max(other.max_s);
        for &(least, count) in &other.buckets {
            match self.buckets.binary_search_by(|bucket| bucket.0.total_cmp(&least)) {
                Ok(at) => {
                    let sum = &mut self.buckets[at].1;
                    *sum = total([*sum, count]);
                }
                Err(at) => self.buckets.insert(at, (least, count)),
            }
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their mean, seconds; 0 without any.
    pub fn mean_s(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_s / self.count as f64 }
    }

    /// The least time of the bucket that holds this percentile, seconds.
    pub fn percentile_s(&self, percent: f64) -> Option<f64> {
        let rank = percent / 100.0 * self.count as f64;
        let mut below = 0.0;
        let found = self.buckets.iter().find(|bucket| {
            below += bucket.1 as f64;
            below >= rank
        });
        found.map(|bucket| bucket.0 / 1e9)
    }
}

impl Lock {
    /// One distribution over all call sites.
    pub fn all(&self, of: impl Fn(&Site) -> &Times) -> Times {
        let mut all = Times::default();
        self.sites.iter().for_each(|site| all.add(of(site)));
        all
    }

    /// Time that threads waited for it, seconds.
    pub fn wait_s(&self) -> f64 {
        self.sites.iter().map(|site| site.wait.total_s).sum()
    }

    /// Acquisitions; of a condition variable, waits, or if it is a lock, how often it was given up.
    pub fn count(&self) -> u64 {
        let of = |is_signal: bool| {
            let sites = self.sites.iter().filter(|site| (site.act == "signal") == is_signal);
            total(sites.map(|site| site.count))
        };
        if self.is_built() { of(true).max(of(false)) } else { of(false) }
    }

    /// Whether it has an owner, so that a wait for it is a wait for somebody's section. A semaphore
    /// that others post than those who took it is a signal; a condition is a lock if who waited for
    /// it last signals it, after having left and entered the section of the mutex again.
    pub fn is_lock(&self) -> bool {
        /// Of the times that it was given up, at least this part by its owner.
        const OWNER: f64 = 2.0 / 3.0;
        /// How often, of each, a condition is at least given up so that this is no chance: threads
        /// that tell each other once that they have begun look the same.
        const AGAIN: u64 = 3;
        let all = total([self.given_by_owner, self.given_by_others]);
        let is_owned = all > 0 && self.given_by_owner as f64 >= OWNER * all as f64;
        match self.kind {
            _ if !self.kernel.is_empty() => true,
            Kind::Mutex | Kind::Rwlock | Kind::Spinlock => true,
            Kind::Barrier => false,
            Kind::Condition => {
                let is_again = self.given_by_owner / AGAIN >= self.instances;
                // A timer that looks at its work from time to time waits alone.
                let waiting = self.sites.iter().filter(|site| site.wait.count > 0);
                let threads = total(waiting.map(|site| site.threads));
                is_again
                    && is_owned
                    && threads / 2 >= self.instances
                    && self.given_by_owner >= self.woken().div_ceil(2)
            }
            Kind::Semaphore if self.held_for_good => false,
            Kind::Futex => is_owned,
            Kind::Semaphore if all > 0 => is_owned,
            Kind::Semaphore => {
                let held = |site: &Site| total([site.hold_on.count, site.hold_off.count]);
                // One that no thread ever posts after it has taken it is a signal.
                let held = total(self.sites.iter().map(held));
                held > 0 && held >= self.contended().div_ceil(2)
            }
        }
    }

    /// Waits that a wakeup ended.
    fn woken(&self) -> u64 {
        let waits = total(self.sites.iter().map(|site| site.wait.count));
        waits.saturating_sub(total(self.sites.iter().map(|site| site.failed)))
    }

    /// Whether it is a lock that the program has built from a mutex and a condition.
    pub fn is_built(&self) -> bool {
        self.kind == Kind::Condition && self.is_lock()
    }

    /// Acquisitions that had to wait.
    pub fn contended(&self) -> u64 {
        let is_built = self.is_built();
        total(self.sites.iter().map(|site| if is_built { site.wait.count } else { site.contended }))
    }

    /// Time that it was held, and the part of it in which its owner was on no CPU, seconds.
    ///
    /// A hold with a switch in it takes as long as one without would, and the rest of it the owner
    /// waits for a CPU. But owners cannot have run for longer than their process, which took
    /// `cpu_s` (0: not known): a hold that was long only because the hypervisor had the CPU, which
    /// nobody sees as a switch, must not pass for work.
    pub fn held_s(&self, cpu_s: f64) -> (f64, f64) {
        let sites = self.sites.iter();
        let (held, off) = sites.fold((0.0, 0.0), |(held, off), site| {
            let service = site.hold_on.mean_s().min(site.hold_off.mean_s());
            let lost = site.hold_off.total_s - service * site.hold_off.count as f64;
            (held + site.hold_on.total_s + site.hold_off.total_s, off + lost)
        });
        let idle = if cpu_s > 0.0 { held - cpu_s } else { 0.0 };
        (held, f64::max(off, idle))
    }
}
