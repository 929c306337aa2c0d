//! Causes of waits: where threads waited, where the owner had acquired the lock, and the activity
//! of the owner.

use serde::{Deserialize, Serialize};

use crate::record::scheduling::is_default;
use crate::record::{Kind, total};

/// Waits at one place for a lock that its owners had acquired at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Name of the lock.
    pub lock: String,
    /// Its kind.
    pub kind: Kind,
    /// Where threads waited.
    pub place: String,
    /// The operation there: `lock`, `read`, `write`.
    pub act: String,
    /// Where the owner had acquired the lock; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_at: String,
    /// The operation there; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_act: String,
    /// Number of waits.
    pub count: u64,
    /// Total time of the waits, in seconds.
    pub wait_s: f64,
    /// The longest wait, in seconds.
    pub max_s: f64,
    /// Time of those waits during which the CPU time of the owner was read, in seconds.
    #[serde(default)]
    pub measured_s: f64,
    /// That CPU time, in seconds.
    #[serde(default)]
    pub ran_s: f64,
    /// Number of times that owners had acquired the lock again by the end of the waits.
    #[serde(default)]
    pub again: u64,
    /// Number of waits of a thread for itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub own: u64,
    /// Activities of owners while threads waited, most frequent first; from samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<Seen>,
    /// Activities of owners that had acquired the lock at this place while no thread waited; from
    /// samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<Seen>,
}

/// Observed activities of threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The activity.
    pub doing: Doing,
    /// Name of the system call, or of the lock or condition; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Where; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Number of observations.
    pub count: u64,
}

/// Shown instead of a system call for a goroutine that sleeps without one.
pub const PARKED: &str = "Go's runtime (a timer, a channel, input or output)";

/// Activity of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// Runs, or could run if it had a CPU.
    #[default]
    Runs,
    /// As `Runs`, for an owner that slept, has been woken since the previous sample, and was not
    /// preempted.
    Woken,
    /// Sleeps in a system call.
    Sleeps,
    /// Waits for a lock.
    Waits,
    /// Waits for a condition variable, a barrier, or a semaphore that is used as a signal.
    Idles,
    /// Sleeps outside of system calls: one of its pages is being read in.
    Faults,
    /// No owner: the lock is free and its waiter has not run yet.
    Free,
}

/// Samples in which a thread waited for an owner of lower real-time priority that could run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inversion {
    /// Name of the lock.
    pub lock: String,
    /// Its kind.
    pub kind: Kind,
    /// The waiting thread, and its priority.
    pub waiter: (u64, u32),
    /// The owner, and its priority; 0 if it has none.
    pub owner: (u64, u32),
    /// Number of samples.
    pub samples: u64,
}

/// A wait that had not ended when the recording ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The thread.
    pub thread: u64,
    /// Name of the lock. The address distinguishes locks with the same name.
    pub lock: String,
    /// See `lock`.
    pub address: u64,
    /// The variable with the offset in it, if that is not the name of the lock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub element: String,
    /// Its kind.
    pub kind: Kind,
    /// Where the thread waits.
    pub place: String,
    /// The operation there: `lock`, `read`, `write`, `wait`.
    pub act: String,
    /// Time waited so far, in seconds.
    pub wait_s: f64,
    /// The thread that owns the lock; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: u64,
    /// Where the owner had acquired it; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_at: String,
    /// Whether the owner has exited without releasing the lock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner_ended: bool,
    /// Whether the wait has a time limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed: bool,
    /// Whether the time of the wait is also among the waits of its lock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
}

/// One sampled wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it began, in seconds since the process started.
    pub begin_s: f64,
    /// Duration of the wait, in seconds.
    pub wait_s: f64,
    /// Index of the cause that it belongs to.
    pub cause: usize,
    /// The thread that waited.
    pub thread: u64,
    /// The owner; 0 if unknown.
    pub owner: u64,
    /// CPU time of the owner during the wait, in seconds.
    pub ran_s: f64,
}

/// A place and how often something happened there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Where.
    pub place: String,
    /// Number of times.
    pub count: u64,
}

impl Cause {
    /// Returns whether both are about the same lock and places.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.lock.clone(), one.kind, one.place.clone(), one.act.clone());
        of(self) == of(other) && self.held_at == other.held_at && self.held_act == other.held_act
    }

    /// Adds the numbers of another cause with the same lock and places.
    pub(crate) fn join(&mut self, other: Self) {
        self.count = total([self.count, other.count]);
        self.wait_s += other.wait_s;
        self.max_s = self.max_s.max(other.max_s);
        self.measured_s += other.measured_s;
        self.ran_s += other.ran_s;
        self.again = total([self.again, other.again]);
        self.own = total([self.own, other.own]);
        for seen in other.owners {
            add(&mut self.owners, seen);
        }
        for seen in other.alone {
            add(&mut self.alone, seen);
        }
    }

    /// Returns the number of samples of its owners.
    pub fn samples(&self) -> u64 {
        total(self.owners.iter().map(|seen| seen.count))
    }
}

/// Adds an observation to those of a cause or process.
pub(crate) fn add(all: &mut Vec<Seen>, seen: Seen) {
    let same = |one: &&mut Seen| {
        one.doing == seen.doing && one.what == seen.what && one.place == seen.place
    };
    match all.iter_mut().find(same) {
        Some(known) => known.count = total([known.count, seen.count]),
        None => all.push(seen),
    }
}

/// Sorts by frequency, most frequent first.
pub(crate) fn sort(all: &mut [Seen]) {
    all.sort_by_key(|seen| std::cmp::Reverse(seen.count));
}
