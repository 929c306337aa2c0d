//! Locks, their call sites, and properties derived from them.

use serde::{Deserialize, Serialize};

use crate::layout;
use crate::record::element::Element;
use crate::record::origin::Origin;
use crate::record::scheduling::{Held, is_default};
use crate::record::times::{Times, total};

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

    /// Returns the name of the kind in words.
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

/// One lock, or several of the same name: locks in heap objects share their call sites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    /// The variable, or the function that waited longest for it.
    pub name: String,
    /// Kind of the lock.
    pub kind: Kind,
    /// What it is part of.
    #[serde(default = "Origin::unknown")]
    pub origin: Origin,
    /// Number of locks.
    pub instances: u64,
    /// Periods during which threads waited.
    pub waiters: Waiters,
    /// For a semaphore or condition: how often its last taker released it, which makes it a lock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub given_by_owner: u64,
    /// How often another thread released it, which makes it a signal.
    #[serde(default, skip_serializing_if = "is_default")]
    pub given_by_others: u64,
    /// For a semaphore: whether single holds take so much of the run that it is a signal for the
    /// end of its owner. For a condition: whether the threads that it admits wait for events. For a
    /// mutex or semaphore: whether threads take turns under it to wait for clients.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held_for_good: bool,
    /// For a condition: the mutex that threads released while they waited.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mutex: String,
    /// For a kernel lock: the kernel's name of its kind, such as `rwsem`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// For a lock of a runtime or library: Java's monitors, or the function that acquires it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// For a kernel lock: time of waits with a known owner when they began, in seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owners_known_s: f64,
    /// The part of it with that owner off CPU when the wait began, in seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owners_off_s: f64,
    /// Activity of its owners, from kernel events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Its call sites, longest wait time first.
    pub sites: Vec<Site>,
    /// The locks of this name if there are several, longest wait time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<Element>,
}

/// Periods during which a lock had waiters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiters {
    /// Their total length, in seconds.
    pub seconds: f64,
    /// The longest period, in seconds.
    pub longest_s: f64,
    /// When it began, in seconds since the process started.
    pub longest_at_s: f64,
    /// Maximum number of threads that waited at the same time.
    pub most: u64,
}

/// One call site of a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Function, with file and line if the program has them: `Cache::lock (cache.cc:214)`.
    pub place: String,
    /// The operation there: `lock`, `read`, `write`, `wait`, `signal`.
    pub act: String,
    /// Number of calls: acquisitions, waits, signals.
    pub count: u64,
    /// Acquisitions that had to wait.
    #[serde(default, skip_serializing_if = "is_default")]
    pub contended: u64,
    /// Attempts that timed out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: u64,
    /// Of a condition's signals: the number by threads that wait for it, too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_waiters: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of these that come regularly, unlike a main thread that comes once; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub regulars: u64,
    /// Holds in which the owner kept its CPU.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub hold_on: Times,
    /// Holds in which the owner was switched away.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub hold_off: Times,
    /// Waits.
    pub wait: Times,
    /// From the previous release to the request, on the CPU.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub think_on: Times,
    /// The same with a context switch in between.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub think_off: Times,
    /// From a release with waiters until the next owner runs.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub handoff: Times,
    /// From a request until a free lock is acquired: long if its cache line was on another CPU.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub acquire: Times,
    /// Waits for a condition that directly followed another one: the wakeup was futile.
    #[serde(default, skip_serializing_if = "is_default")]
    pub futile: u64,
    /// Those of `futile` before which the thread had released the mutex, and may have worked for
    /// some microseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub returned: u64,
    /// Wakeups that a thread which had waited here passed on to the next waiter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub passed: u64,
    /// The calls that led here, longest wait time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<Stack>,
}

/// The calls that led to a place, and the waiting there. A thread is recorded with those of its
/// first wait at the place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Functions, outermost first, without the place.
    pub callers: Vec<String>,
    /// Time of waits, in seconds.
    pub wait_s: f64,
    /// Numbers of threads that first waited so, if they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<u64>,
}

impl Site {
    /// Names the callers of all waits here.
    pub(crate) fn called_by(&mut self, callers: &[String]) {
        let threads = self.stacks.drain(..).flat_map(|stack| stack.threads).collect();
        if !callers.is_empty() && self.wait.count > 0 {
            let (callers, wait_s) = (callers.to_vec(), self.wait.total_s);
            self.stacks.push(Stack { callers, wait_s, threads });
        }
    }

    /// Returns the callers under which a thread waited here, or else those that all recorded waits
    /// have in common, outermost first.
    pub fn callers(&self, thread: u64) -> &[String] {
        if let Some(own) = self.stacks.iter().find(|stack| stack.threads.contains(&thread)) {
            return &own.callers;
        }
        let Some((first, rest)) = self.stacks.split_first() else { return &[] };
        let common = |other: &Stack| {
            let pairs = first.callers.iter().rev().zip(other.callers.iter().rev());
            pairs.take_while(|(one, two)| one == two).count()
        };
        let least = rest.iter().map(common).min().unwrap_or(first.callers.len());
        &first.callers[first.callers.len() - least..]
    }
}

impl Lock {
    /// Returns one distribution over all call sites.
    pub fn all(&self, of: impl Fn(&Site) -> &Times) -> Times {
        let mut all = Times::default();
        self.sites.iter().for_each(|site| all.add(of(site)));
        all
    }

    /// Returns the time that threads waited for it, in seconds.
    pub fn wait_s(&self) -> f64 {
        self.sites.iter().map(|site| site.wait.total_s).sum()
    }

    /// Returns the number of acquisitions; for a condition variable, that of waits, or if it is a
    /// lock, the number of releases if that is greater.
    pub fn count(&self) -> u64 {
        let of = |is_signal: bool| {
            let sites = self.sites.iter().filter(|site| (site.act == "signal") == is_signal);
            total(sites.map(|site| site.count))
        };
        if self.is_built() { of(true).max(of(false)) } else { of(false) }
    }

    /// Returns whether it has an owner, so that a waiter waits for another thread's critical
    /// section. A semaphore that is posted by other threads than its takers is a signal. A
    /// condition is a lock if its last waiter signals it, after it has left and entered the
    /// critical section of the mutex again.
    pub fn is_lock(&self) -> bool {
        /// Minimum share of the releases that are made by the owner.
        const OWNER: f64 = 2.0 / 3.0;
        /// Minimum number of releases by the owner for each instance: fewer may be chance, because
        /// threads that signal each other once that they have started look the same.
        const AGAIN: u64 = 3;
        /// Minimum part of the time with waiters that a condition which admits one thread is held.
        const OCCUPIED: f64 = 0.5;
        let all = total([self.given_by_owner, self.given_by_others]);
        let is_owned = all > 0 && self.given_by_owner as f64 >= OWNER * all as f64;
        match self.kind {
            _ if !self.kernel.is_empty() => true,
            Kind::Mutex | Kind::Condition | Kind::Semaphore if self.held_for_good => false,
            Kind::Mutex | Kind::Rwlock | Kind::Spinlock => true,
            Kind::Barrier => false,
            Kind::Semaphore if self.is_held_once() => false,
            Kind::Condition if self.is_pool() => true,
            Kind::Condition => {
                let is_again = self.given_by_owner / AGAIN >= self.instances;
                // A timer that checks for work from time to time waits alone.
                let waiting = self.sites.iter().filter(|site| site.wait.count > 0);
                let threads = total(waiting.clone().map(|site| site.threads));
                // HotSpot's own monitors: its locks are mutexes. Threads that ask for operations of
                // the virtual machine, such as thread dumps, signal each other in turn.
                let is_of_hotspot = self.origin == Origin::JavaVm
                    && waiting.into_iter().any(|site| site.place.contains("PlatformMonitor::wait"));
                !is_of_hotspot
                    && !self.is_bare_condition()
                    && is_again
                    && is_owned
                    && threads / 2 >= self.instances
                    && self.given_by_owner >= self.woken().div_ceil(2)
                    || self.origin != Origin::JavaVm
                        && self.admitted().is_some_and(|threads| threads >= OCCUPIED)
            }
            Kind::Futex => is_owned,
            Kind::Semaphore if all > 0 => is_owned,
            Kind::Semaphore => {
                let held = |site: &Site| total([site.hold_on.count, site.hold_off.count]);
                // A semaphore that no thread posts after it has taken it is a signal.
                let held = total(self.sites.iter().map(held));
                held > 0 && held >= self.contended().div_ceil(2)
            }
        }
    }

    /// Returns whether each thread that keeps it takes it once, next to always without waiting:
    /// others wait for the end of what that thread does once, such as its own end, and not for a
    /// critical section.
    fn is_held_once(&self) -> bool {
        /// One acquisition in this number may be contended: a semaphore can get the address of the
        /// previous thread's.
        const RARE: u64 = 20;
        /// Minimum part of the time that it is held: others may lose their CPU with it.
        const LONG: f64 = 1.0 / 3.0;
        fn held_s(site: &Site) -> f64 {
            site.hold_on.total_s + site.hold_off.total_s
        }
        let longest = self.sites.iter().max_by(|a, b| held_s(a).total_cmp(&held_s(b)));
        longest.is_some_and(|site| {
            let is_once = site.count > 0 && site.count <= site.threads;
            let is_free = site.contended.saturating_mul(RARE) <= site.count;
            let is_long = held_s(site) > LONG * self.held_s(0.0).0;
            is_once && is_free && self.contended() > 0 && is_long
        })
    }

    /// Returns how many threads a condition admits at a time, as the condition of a pool of
    /// connections or of a flag does: threads enter the critical section of its mutex, with or
    /// without a wait, and signal it later from another critical section. The number is the mean
    /// between the two while others wait. `None` if its signals come from elsewhere.
    fn admitted(&self) -> Option<f64> {
        /// Minimum number of signals that end such a period, for each instance.
        const AGAIN: u64 = 10;
        let holds = |site: &Site| total([site.hold_on.count, site.hold_off.count]);
        // A thread that never waits may be one that signals for another reason.
        let waiting = self.sites.iter().filter(|site| site.act != "signal");
        let waited = total([total(waiting.map(holds)), self.barged()]);
        let holds = total(self.sites.iter().map(holds));
        let signals = self.sites.iter().filter(|site| site.act == "signal");
        let signals = total(signals.map(|site| site.count));
        let wakes = signals.max(self.woken());
        // A file may contain any numbers.
        let is_returned =
            waited / AGAIN >= self.instances && holds.saturating_mul(3) >= wakes.saturating_mul(2);
        let is_lock = self.kind == Kind::Condition && !self.held_for_good && is_returned;
        let is_lock = is_lock && !self.is_bare_condition();
        (is_lock && self.waiters.most > 1 && self.waiters.seconds > 0.0)
            .then(|| self.held_s(0.0).0 / self.waiters.seconds)
    }

    /// Returns how often a thread that had signalled a condition took the unit again before the
    /// woken thread did, which then waits again without having left the critical section. Each
    /// signal wakes one thread: of the threads that a broadcast wakes, most wait again, too.
    fn barged(&self) -> u64 {
        /// Maximum number of woken threads for each signal.
        const ONE: f64 = 1.2;
        let signals = self.sites.iter().filter(|site| site.act == "signal");
        let signals: Vec<&Site> = signals.collect();
        let holds = signals.iter().map(|site| total([site.hold_on.count, site.hold_off.count]));
        let holds = total(holds);
        let stayed = self.sites.iter().map(|site| site.futile.saturating_sub(site.returned));
        let futile = total(stayed);
        let (woken, signals) = (self.woken(), total(signals.iter().map(|site| site.count)));
        let is_each = woken as f64 <= ONE * signals as f64;
        if is_each && futile >= woken.div_ceil(2) { holds.min(futile) } else { 0 }
    }

    /// Returns whether only the waits for a condition are recorded, and not the mutex that belongs
    /// to it: the program, or the library of its language, calls futex(2) itself.
    fn is_bare_condition(&self) -> bool {
        let origins = [Origin::Futex, Origin::Rust, Origin::Library];
        self.kind == Kind::Condition && origins.contains(&self.origin)
    }

    /// Returns how many threads a condition admits at a time whose waiters wake each other: the
    /// threads that wait for it at some time, less those that wait. In a pool all threads but the
    /// holders of its units wait, so that this number is steady while any thread waits.
    /// Workers without work all wait, and other threads wake them.
    pub fn left_over(&self) -> Option<f64> {
        /// Minimum number of wakeups by threads that wait for it, too.
        const AGAIN: u64 = 10;
        /// Minimum number of threads that never wait at the same time as all others.
        const SEVERAL: f64 = 2.0;
        /// The mean number exceeds the smallest one by this factor at most.
        const STEADY: f64 = 1.5;
        /// Or the mean number of holders while any thread waits, at least.
        const UNITS: f64 = 1.2;
        /// Each thread that takes units waits at least this often, relative to the others: the
        /// threads for which a full queue has to wait seldom do.
        const SELDOM: f64 = 0.1;
        let waits_of_one = |site: &Site| site.wait.count as f64 / site.threads.max(1) as f64;
        let often = SELDOM * self.sites.iter().map(waits_of_one).fold(0.0, f64::max);
        let waiting =
            self.sites.iter().filter(|site| site.wait.count > 0 && waits_of_one(site) >= often);
        let threads = waiting.clone().map(|site| site.threads).sum::<u64>() as f64;
        let wait_s: f64 = waiting.map(|site| site.wait.total_s).sum();
        let least = threads - self.waiters.most as f64;
        let mean = threads - wait_s / self.waiters.seconds.max(f64::MIN_POSITIVE);
        let [by_waiters, by_others] = if self.is_bare_condition() {
            [self.given_by_owner, self.given_by_others]
        } else {
            let signals = self.sites.iter().filter(|site| site.act == "signal");
            let by_waiters = total(signals.clone().map(|site| site.by_waiters));
            [by_waiters, total(signals.map(|site| site.count)).saturating_sub(by_waiters)]
        };
        let is_returned = by_waiters >= AGAIN && by_waiters / 2 >= by_others;
        let is_pool = self.kind == Kind::Condition && self.instances == 1 && is_returned;
        if !is_pool || least < SEVERAL {
            return None;
        }
        let held = self.sites.iter().flat_map(|site| [site.hold_on.count, site.hold_off.count]);
        let held = total(held);
        let in_use = self.held_s(0.0).0 / self.waiters.seconds.max(f64::MIN_POSITIVE);
        // On a full machine, woken threads that find no unit wait for a CPU.
        let is_held = held >= AGAIN && in_use >= UNITS;
        (mean < STEADY * least).then_some(mean).or_else(|| is_held.then_some(in_use))
    }

    /// Returns whether a condition limits how many threads do something at a time to several.
    pub fn is_pool(&self) -> bool {
        /// Minimum mean number of threads.
        const SEVERAL: f64 = 1.2;
        let admitted = self.left_over().or_else(|| self.admitted());
        self.origin != Origin::JavaVm && admitted.is_some_and(|threads| threads >= SEVERAL)
    }

    /// Returns how many locks could share its acquisitions evenly without one of them getting more
    /// than the busiest of its elements: 1.1 for 16 locks of which one gets nine tenths.
    pub fn even_instances(&self) -> f64 {
        let most = self.instances.max(1) as f64;
        let busiest = self.elements.iter().map(|element| element.count).max().unwrap_or(0);
        if busiest == 0 { most } else { (self.count() as f64 / busiest as f64).clamp(1.0, most) }
    }

    /// Returns the number of waits that a wakeup ended.
    fn woken(&self) -> u64 {
        let waits = total(self.sites.iter().map(|site| site.wait.count));
        waits.saturating_sub(total(self.sites.iter().map(|site| site.failed)))
    }

    /// Returns whether it is a lock that the program has built from a mutex and a condition.
    pub fn is_built(&self) -> bool {
        self.kind == Kind::Condition && !self.is_pool() && self.is_lock()
    }

    /// Returns the number of acquisitions that had to wait.
    pub fn contended(&self) -> u64 {
        let is_condition = self.kind == Kind::Condition && self.is_lock();
        let sites = self.sites.iter();
        total(sites.map(|site| if is_condition { site.wait.count } else { site.contended }))
    }

    /// Returns the time that it was held, and the part of it with the owner off CPU, in seconds.
    ///
    /// A hold with a context switch is assumed to need as much time as one without; for the rest
    /// of it, the owner waits for a CPU. But owners cannot have run for longer than their process,
    /// which used `cpu_s` of CPU time (0 if unknown). A hold that was long only because the
    /// hypervisor had the CPU, which is not visible as a switch, must not count as work.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semaphore_that_each_thread_takes_once_is_a_signal_of_its_end() {
        fn lock(count: u64, threads: u64, contended: u64) -> Lock {
            fn times(count: u64) -> Times {
                Times { count, total_s: 5e-3 * count as f64, ..Times::default() }
            }
            let hold_off = times(count);
            let keeps = Site { count, contended, threads, hold_off, ..Site::default() };
            let (count, contended) = (40, 40);
            let joins = Site { count, contended, threads: 1, wait: times(40), ..Site::default() };
            let (kind, given_by_owner) = (Kind::Semaphore, 80);
            Lock { kind, given_by_owner, sites: vec![joins, keeps], ..Lock::default() }
        }
        assert!(!lock(40, 40, 0).is_lock(), "as the lock that Thread.join of Python waits for");
        assert!(lock(40, 4, 0).is_lock());
        assert!(lock(40, 40, 9).is_lock());
    }

    #[test]
    fn threads_that_take_units_again_before_the_woken_ones_share_a_pool() {
        fn times(count: u64, each_s: f64) -> Times {
            Times { count, total_s: each_s * count as f64, ..Times::default() }
        }
        fn pool(signals: u64, futile: u64) -> bool {
            let wait = times(170, 17e-3);
            let waits =
                Site { act: "wait".to_owned(), count: 170, futile, wait, ..Site::default() };
            let (count, hold_off) = (signals, times(signals, 5.6e-3));
            let tells = Site { act: "signal".to_owned(), count, hold_off, ..Site::default() };
            let (kind, sites) = (Kind::Condition, vec![waits, tells]);
            let waiters =
                Waiters { seconds: 5.6e-3 * signals as f64 / 2.0, most: 6, ..Waiters::default() };
            Lock { kind, waiters, instances: 1, sites, ..Lock::default() }.is_pool()
        }
        assert!(pool(170, 160));
        assert!(!pool(170, 20), "the woken threads find what they waited for");
        assert!(!pool(30, 160), "broadcasts");
    }

    #[test]
    fn threads_that_never_all_wait_for_a_condition_of_futex_share_a_pool() {
        /// Twenty threads of which at most `most` wait at the same time, and `waiting` on average.
        fn lock(most: u64, waiting: f64, given: [u64; 2]) -> Lock {
            let wait = Times { count: 1900, total_s: waiting, ..Times::default() };
            let waits = Site { act: "wait".to_owned(), threads: 20, wait, ..Site::default() };
            let (kind, sites, origin) = (Kind::Condition, vec![waits], Origin::Rust);
            let waiters = Waiters { seconds: 1.0, most, ..Waiters::default() };
            let [given_by_owner, given_by_others] = given;
            let lock = Lock { kind, origin, waiters, instances: 1, sites, ..Lock::default() };
            Lock { given_by_owner, given_by_others, ..lock }
        }
        fn pool(most: u64, waiting: f64, given: [u64; 2]) -> Option<f64> {
            lock(most, waiting, given).left_over()
        }
        assert_eq!(pool(16, 15.9, [1900, 0]), Some(20.0 - 15.9));
        assert_eq!(pool(20, 15.9, [1900, 0]), None, "all wait: there is no work");
        assert_eq!(pool(16, 9.0, [1900, 0]), None, "often fewer wait: they find work");
        assert_eq!(pool(16, 15.9, [0, 1900]), None, "other threads bring the work");
        let libc = |by_waiters| {
            let signals =
                Site { act: "signal".to_owned(), count: 90, by_waiters, ..Site::default() };
            let mut lock = lock(16, 15.9, [0, 0]);
            lock.sites.push(signals);
            Lock { origin: Origin::Libc, ..lock }.left_over()
        };
        assert_eq!([libc(80), libc(20)], [Some(20.0 - 15.9), None]);
        let mut queue = lock(16, 15.9, [1900, 0]);
        queue.sites[0].threads = 17;
        let wait = Times { count: 4, total_s: 0.1, ..Times::default() };
        queue.sites.push(Site { threads: 4, wait, ..queue.sites[0].clone() });
        assert_eq!(queue.left_over(), None, "the others make room in a queue");
    }

    #[test]
    fn a_condition_of_hotspot_is_no_lock_although_its_waiters_signal_each_other() {
        fn waits_in(place: &str, origin: Origin) -> Lock {
            let wait = Times { count: 22, total_s: 3.0, ..Times::default() };
            let (place, act) = (place.to_owned(), "wait".to_owned());
            let site = Site { place, act, count: 22, threads: 3, wait, ..Site::default() };
            let kind = Kind::Condition;
            let sites = vec![site];
            Lock { kind, origin, instances: 1, given_by_owner: 22, sites, ..Lock::default() }
        }
        let place = "os::PlatformMonitor::wait+0x60 (libjvm.so)";
        assert!(waits_in("Gate::enter (gate.cc:4)", Origin::Libc).is_lock());
        assert!(waits_in(place, Origin::Libc).is_lock());
        assert!(!waits_in(place, Origin::JavaVm).is_lock());
    }
}
