//! Kernel presets: which scheduler, semaphore, big kernel lock and paths a run has; read from
//! `kernels/*.toml`.

use crate::rcu::RcuRules;
use crate::sched::rules::SchedRules;
use crate::softirq::SoftirqRules;
use crate::vfs::VfsRules;
use convoy_catalogue::{CatalogueError, Entry, Fault, KERNELS, Shelf, nanoseconds};
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

/// What a waiter of a mutex does before it sleeps.
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
    /// As `SpinLookFirst`, and one waiter spins at a time while the others queue: 3.10.
    SpinInTurn,
}

/// What the big kernel lock is made of.
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

/// Preemption model of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preempt {
    /// `CONFIG_PREEMPT_NONE`: at sleeps, on return to user mode, in `cond_resched`.
    None,
    /// `CONFIG_PREEMPT_VOLUNTARY`: also at every `might_sleep`.
    Voluntary,
    /// `CONFIG_PREEMPT`: anywhere outside spinlocks and interrupts.
    Full,
}

/// What a spinlock is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spinlock {
    /// Test-and-set, not first come, first served: up to 2.6.24.
    Plain,
    /// First come, first served: from 2.6.25 on (commit 314cdbefd1fd).
    #[default]
    Ticket,
}

/// What the locks of the kernel are; also what makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockRules {
    /// Semaphores.
    pub semaphore: SemaphorePolicy,
    /// Mutexes; those of 2.6.25 where the file says nothing.
    #[serde(default)]
    pub mutex: MutexPolicy,
    /// Spinlocks, those inside sleeping locks too; ticket locks where the file says nothing.
    #[serde(default)]
    pub spinlock: Spinlock,
}

/// What the zone lock does while a batch of pages moves between a CPU's list and the zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ZonePolicy {
    /// It is held for the whole batch, as every kernel does.
    #[default]
    HoldAll,
    /// It is released after each page: the patch of 2007 without its hole.
    ReleaseEach,
    /// It is released between two pages when somebody waits: the patch as integrated with ticket
    /// locks in January 2008.
    ReleaseContended,
}

/// The page-frame allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZoneRules {
    /// Policy of the zone lock.
    pub lock: ZonePolicy,
    /// The zone lock has a cache line of its own, instead of one with the lists of small orders.
    pub own_line: bool,
    /// A 32-bit kernel: memory above 880 MiB is a zone of its own (`HighMem`), from which pages of
    /// programs and files are taken first. What lies below the first 16 MiB (`DMA`) is left alone.
    pub highmem: bool,
}

/// Build configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent options of the build")]
pub struct Config {
    /// Ticks a second: 100, 250, 300 or 1000.
    #[schemars(range(min = 100, max = 1000))]
    pub hz: u32,
    /// Preemption model.
    pub preempt: Preempt,
    /// `CONFIG_NO_HZ`: an idle CPU stops its tick.
    pub no_hz: bool,
    /// `CONFIG_FAIR_GROUP_SCHED` by user, and one user runs everything. In 2.6.26-rc1 the load of a
    /// CPU, for balancing and for wakeups, is then the group's share on that CPU instead of the sum
    /// of its tasks; 2.6.25 keeps the sum.
    pub group_sched: bool,
    /// `CONFIG_SCHED_HRTICK` with active high-resolution timers: a slice ends exactly.
    pub hrtick: bool,
    /// The CPUs' ticks are spread over half a period (2.6.23 to 2.6.35); otherwise they fall
    /// together.
    #[serde(default = "yes")]
    pub skew_tick: bool,
}

const fn yes() -> bool {
    true
}

/// The big kernel lock's traffic: what its call sites are, and what the sources leave open.
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

/// Instruction cost of scheduler paths beyond their priced memory operations, in nanoseconds on the
/// 2008 machine.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct SchedCosts {
    /// One pass of `schedule` without the switch itself.
    pub schedule: f64,
    /// One `try_to_wake_up`.
    pub wake: f64,
    /// The work of a tick.
    pub tick: f64,
    /// Looking at one CPU while balancing.
    pub balance_cpu: f64,
    /// Moving one task between run queues.
    pub pull: f64,
}

/// A kernel preset.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelPreset {
    /// What titles call it.
    #[serde(skip)]
    pub name: String,
    /// Rules of the scheduler.
    pub sched: SchedRules,
    /// What its locks are.
    pub locks: LockRules,
    /// Big kernel lock.
    pub bkl: BklKind,
    /// Build configuration.
    pub config: Config,
    /// Big kernel lock traffic.
    pub bkl_traffic: BklTraffic,
    /// Scheduler path costs.
    pub sched_ns: SchedCosts,
    /// Page-frame allocator; one zone whose lock is held for a batch where the file says nothing.
    #[serde(default)]
    pub zone: ZoneRules,
    /// Locks of names, inodes and pages; those of 2.6.16 to 2.6.35 where the file says nothing.
    #[serde(default)]
    pub vfs: VfsRules,
    /// Software interrupts; those of 2.6.25 where the file says nothing.
    #[serde(default)]
    pub softirq: SoftirqRules,
    /// RCU; there is none where the file says nothing.
    #[serde(default)]
    pub rcu: Option<RcuRules>,
}

impl Entry for KernelPreset {
    const SHELF: &'static Shelf = &KERNELS;

    fn check(&self) -> Result<(), Fault> {
        if ![100, 250, 300, 1000].contains(&self.config.hz) {
            let hz = f64::from(self.config.hz);
            return Err(Fault::range("config.hz", hz, "100, 250, 300 or 1000"));
        }
        self.sched.check()
    }

    fn set_name(&mut self, label: String) {
        self.name = label;
    }
}

impl KernelPreset {
    /// A shipped kernel; a leading `v` of the name is ignored.
    ///
    /// # Errors
    /// [`CatalogueError::Unknown`].
    pub fn named(name: &str) -> Result<Self, CatalogueError> {
        convoy_catalogue::load(name, &[]).map(|loaded| loaded.value)
    }
}

#[cfg(test)]
mod tests;
