//! The types of a kernel's locks, `[locks]` of its preset, and its big kernel lock.

use convoy_catalogue::nanoseconds;
use schemars::JsonSchema;
use serde::Deserialize;

/// Policy of the kernel's semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SemaphorePolicy {
    /// The per-architecture semaphore of 2.6.25.
    Arch,
    /// The generic semaphore of 2.6.26-rc1.
    Handoff,
    /// The generic semaphore with the patch of May 2008.
    PublishedFix,
    /// The default of this project.
    Opportunistic,
}

/// Behaviour of a mutex waiter before it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MutexPolicy {
    /// Nothing: up to 2.6.28.
    #[default]
    Sleep,
    /// Spins while the owner runs, each spinner with locked operations: 3.7.
    Spin,
    /// The same, looking first: the first patch of April 2013, in 3.10.
    SpinLookFirst,
    /// The same, and not at high load: the third patch, never merged.
    SpinAtLowLoad,
    /// As `SpinLookFirst`, and no waiter spins while another does: the second patch of the first
    /// series, never merged.
    SpinOne,
    /// As `SpinLookFirst`, and one waiter spins at a time while the others queue: 3.10.
    SpinInTurn,
    /// One word; a waiter that was woken without acquiring the mutex also spins, and receives it by
    /// handoff: 4.10.
    HandOver,
}

/// How a reader/writer semaphore serves its waiters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RwsemPolicy {
    /// It is granted to the first waiter, which sleeps until then: up to 3.9.
    #[default]
    Grant,
    /// Writers spin while a writer runs, and steal it: 3.16 to 4.20.
    Spin,
    /// Readers steal it too, writers also spin for readers, for 25 us at most, and a waiter
    /// receives it by handoff after 4 ms: from 5.11 on.
    HandOver,
}

/// Type of reader/writer spinlocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rwlock {
    /// A counter; a failed attempt undoes its change and retries: up to 3.15.
    #[default]
    Counter,
    /// Waiters queue: from 3.16 on.
    Queued,
}

/// Type of spinlocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spinlock {
    /// Test-and-set, not first come, first served: up to 2.6.24.
    Plain,
    /// First come, first served: from 2.6.25 on (commit 314cdbefd1fd).
    #[default]
    Ticket,
    /// The same; waiters queue, each on a separate line: from 4.2 on.
    Queued,
}

/// How `FUTEX_WAKE` uses the lock of a bucket of waiters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FutexWake {
    /// It always takes the lock, and wakes while it holds it: up to 3.13.
    #[default]
    Locked,
    /// The same, unless no waiter has announced itself: 3.14 to 4.1 (commit b0c29f79ecea).
    Announced,
    /// It wakes after it has released the lock: from 4.2 on (commit 1d0dcb3ad9d3).
    Unlocked,
}

/// The lock that a page fault acquires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultLock {
    /// `mmap_sem` of the address space, shared: up to 6.3.
    #[default]
    MmapSem,
    /// Its mapping, by a count: from 6.4 on.
    Mapping,
}

/// How process numbers are locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PidLock {
    /// A new process takes `pidmap_lock` once: up to 4.14.
    #[default]
    Once,
    /// A new process takes it for its number and again to be found by it, and its parent to free
    /// the number: from 4.15 on (commit 95846ecf9dac).
    EachStep,
}

/// Types of the kernel's locks, and their constructors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockRules {
    /// Semaphores.
    pub semaphore: SemaphorePolicy,
    /// Mutexes; by default 2.6.25's.
    #[serde(default)]
    pub mutex: MutexPolicy,
    /// Spinlocks, those inside sleeping locks too; ticket locks where the file says nothing.
    #[serde(default)]
    pub spinlock: Spinlock,
    /// Reader/writer semaphores; by default 2.6.25's.
    #[serde(default)]
    pub rwsem: RwsemPolicy,
    /// Reader/writer spinlocks; by default 2.6.25's.
    #[serde(default)]
    pub rwlock: Rwlock,
    /// Wakeups of futexes; by default 2.6.25's.
    #[serde(default)]
    pub futex: FutexWake,
    /// The lock that a page fault acquires; by default `mmap_sem`.
    #[serde(default)]
    pub fault: FaultLock,
    /// How process numbers are locked.
    #[serde(default)]
    pub pids: PidLock,
}

/// Type of the big kernel lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BklKind {
    /// The kernel's semaphore, whatever its policy.
    Semaphore,
    /// A spinlock (commit 8e3e076c5a78).
    Spinlock,
    /// There is none (from 2.6.39 on).
    None,
}

/// The big kernel lock's traffic: its call sites, and the parameters that the sources leave open.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct BklTraffic {
    /// Acquisitions for each start of a shell, 2 to 8.
    #[schemars(range(min = 0.0, max = 64.0))]
    pub events_per_shell: f64,
    /// `ioctl` on a terminal takes it, as up to 2.6.25; a start of a shell makes two of them.
    #[serde(default)]
    pub terminal_ioctl: bool,
    /// Hold of a short section (a look-up in /proc, an ioctl), in nanoseconds.
    pub hold_short_ns: f64,
    /// Hold of a tty open or release, in nanoseconds.
    pub hold_tty_ns: f64,
}
