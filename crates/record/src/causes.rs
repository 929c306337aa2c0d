//! Causes of waits: waiting and holding call sites, and the activity of the owners.

use serde::{Deserialize, Serialize};

use crate::record::{Kind, total};

/// Waits at one place for a lock that its owners had acquired at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The lock, by its name.
    pub lock: String,
    /// Its kind.
    pub kind: Kind,
    /// Where threads waited.
    pub place: String,
    /// The operation there: `lock`, `read`, `write`.
    pub act: String,
    /// Where the owner had acquired the lock; empty: not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_at: String,
    /// The operation there; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_act: String,
    /// Waits.
    pub count: u64,
    /// Their time, seconds.
    pub wait_s: f64,
    /// The longest, seconds.
    pub max_s: f64,
    /// Time of those waits during which the CPU time of the owner was read, seconds.
    #[serde(default)]
    pub measured_s: f64,
    /// That CPU time, seconds.
    #[serde(default)]
    pub ran_s: f64,
    /// How often owners had acquired the lock again by the end of the waits.
    #[serde(default)]
    pub again: u64,
    /// Waits of a thread for itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own: u64,
    /// What owners were seen doing while threads waited, most often first; from samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<Seen>,
    /// What owners that had acquired the lock at this place were seen doing while no thread waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<Seen>,
}

/// Observed activities of threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// What.
    pub doing: Doing,
    /// The system call, or the lock or condition, by its name; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Where; empty: not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// How often.
    pub count: u64,
}

/// The call of a goroutine that sleeps without a system call.
pub const PARKED: &str = "Go's runtime (a timer, a channel, input or output)";

/// Activity of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// Runs, or could run if it had a CPU.
    #[default]
    Runs,
    /// As `Runs`, of an owner that slept and was woken since the look before, and was not
    /// preempted.
    Woken,
    /// Sleeps in a system call.
    Sleeps,
    /// Waits for a lock.
    Waits,
    /// Waits for a condition variable, a barrier or a semaphore that is none.
    Idles,
    /// Sleeps outside of system calls: its memory is being read in.
    Faults,
    /// Of an owner: there is none, because the lock is free and its waiter has not run yet.
    Free,
}

/// A wait that had not ended when the recording did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The thread.
    pub thread: u64,
    /// The lock, by its name and its address, which distinguishes locks of one name.
    pub lock: String,
    /// See `lock`.
    pub address: u64,
    /// Its kind.
    pub kind: Kind,
    /// Where the thread waits.
    pub place: String,
    /// The operation there: `lock`, `read`, `write`, `wait`.
    pub act: String,
    /// For how long, seconds.
    pub wait_s: f64,
    /// The thread that owns the lock; 0: not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub owner: u64,
    /// Where that had acquired it; empty: not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub held_at: String,
    /// Whether the owner has ended without releasing it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner_ended: bool,
    /// Whether the wait ends at a time limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed: bool,
}

/// One wait of the sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it began, seconds after the process.
    pub begin_s: f64,
    /// How long it took, seconds.
    pub wait_s: f64,
    /// The cause that it counts under: an index.
    pub cause: usize,
    /// The thread that waited.
    pub thread: u64,
    /// The owner; 0: not known.
    pub owner: u64,
    /// CPU time of the owner during the wait, in seconds.
    pub ran_s: f64,
}

/// A place and how often something happened there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Where.
    pub place: String,
    /// How often.
    pub count: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Cause {
    /// Whether it is about the same lock and places.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.lock.clone(), one.kind, one.place.clone(), one.act.clone());
        of(self) == of(other) && self.held_at == other.held_at && self.held_act == other.held_act
    }

    /// Adds another one of the same lock and places.
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

    /// Samples of its owners.
    pub fn samples(&self) -> u64 {
        total(self.owners.iter().map(|seen| seen.count))
    }
}

/// Adds an observation to all others.
pub(crate) fn add(all: &mut Vec<Seen>, seen: Seen) {
    let same = |one: &&mut Seen| {
        one.doing == seen.doing && one.what == seen.what && one.place == seen.place
    };
    match all.iter_mut().find(same) {
        Some(known) => known.count = total([known.count, seen.count]),
        None => all.push(seen),
    }
}

/// The most frequent first.
pub(crate) fn sort(all: &mut [Seen]) {
    all.sort_by_key(|seen| std::cmp::Reverse(seen.count));
}
