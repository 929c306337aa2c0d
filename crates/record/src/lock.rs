//! Locks, their call sites, and what can be said of them by these.

use serde::{Deserialize, Serialize};

use crate::layout;
use crate::scheduling::{Held, is_none, is_zero};
use crate::times::{Times, total};

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
