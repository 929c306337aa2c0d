//! Shared state of real-time tasks: the root domain's structures.
//!
//! Which CPUs have more real-time tasks than they can run (`rto_mask`, `rto_count`), and the CPU
//! priority vectors (`kernel/sched_cpupri.c`): for each priority the CPUs that run at it. They are
//! machine-wide and every change of a CPU's best priority writes two vectors, each under its own
//! lock, with the run queue locked and interrupts off. With the layout of a kernel without lock
//! debugging the vectors of ordinary work and of FIFO priority 1 share one cache line.

use convoy_machine::{Here, Sim, Smp, Word};
use convoy_sync::{Access, Atomic, Platform, RawLock, TicketLock};
use core::cell::Cell;
use core::sync::atomic::Ordering::SeqCst;
use schemars::JsonSchema;
use serde::Deserialize;

/// CPUs of the largest machine.
const CPUS_MAX: usize = 1024;
/// Vectors: idle, ordinary, and one for each real-time priority from 0 to 99.
const VECTORS: usize = 102;
/// The vector of a CPU without real-time tasks.
const ORDINARY: usize = 1;

/// Which of the structures a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// None: real-time tasks move with the balancer only (up to 2.6.24; here not at all).
    None,
    /// The overload mask; a push checks every CPU (2.6.25 and 2.6.26).
    Overload,
    /// The vectors, each with a lock (2.6.27 to 3.1).
    LockedVectors,
    /// The vectors, with atomic counts (from 3.2 on).
    AtomicVectors,
}

/// One priority: 16 bytes, as without lock debugging. The set of CPUs itself follows from
/// [`Root::levels`]; `mask` is its word.
#[derive(Default)]
#[repr(C)]
struct Vector {
    lock: TicketLock<Smp>,
    count: Word<u32>,
    mask: Word<u32>,
}

/// The part of the root domain in simulated memory. The preceding fields place the vectors at byte
/// 56.
#[repr(C, align(64))]
struct Shared {
    references: [Word<usize>; 5],
    rto_mask: Word<usize>,
    rto_count: Word<u32>,
    vectors: [Vector; VECTORS],
    /// Bitmap of vectors that have CPUs.
    active: [Word<usize>; 2],
    cpu_to_pri: [Word<u32>; CPUS_MAX],
}

/// The root domain of the machine.
pub(crate) struct Root {
    shared: Sim<Shared>,
    sharing: Sharing,
    /// Vector of each CPU, and whether it is overloaded: the meaning of the words above.
    levels: Vec<Cell<usize>>,
    overloaded: Vec<Cell<bool>>,
    /// Acquisitions of vector locks, or atomic updates of vectors.
    updates: Cell<u64>,
}

/// Vector of a best real-time priority.
fn level_of(priority: Option<u8>) -> usize {
    priority.map_or(ORDINARY, |priority| usize::from(priority) + 2)
}

impl Root {
    pub(crate) fn new(sharing: Sharing, cpus: usize) -> Self {
        assert!(cpus <= CPUS_MAX, "{cpus} CPUs; at most {CPUS_MAX}");
        let shared = Here::place(Shared {
            references: Default::default(),
            rto_mask: Word::default(),
            rto_count: Word::default(),
            vectors: core::array::from_fn(|level| {
                let count = if level == ORDINARY { cpus as u32 } else { 0 };
                Vector { count: Word::new(count), ..Vector::default() }
            }),
            active: Default::default(),
            cpu_to_pri: core::array::from_fn(|_| Word::default()),
        });
        shared.vectors.iter().for_each(|vector| Here::name(&vector.lock, "cpupri_vec->lock"));
        Self {
            shared,
            sharing,
            levels: vec![Cell::new(ORDINARY); cpus],
            overloaded: vec![Cell::new(false); cpus],
            updates: Cell::new(0),
        }
    }

    /// Acquisitions of vector locks so far, or atomic updates.
    pub(crate) fn updates(&self) -> u64 {
        self.updates.get()
    }

    fn has_vectors(&self) -> bool {
        matches!(self.sharing, Sharing::LockedVectors | Sharing::AtomicVectors)
    }

    /// Notes that the best real-time priority of `cpu` is now `priority`. Its queue is locked.
    pub(crate) fn set_priority(&self, cpu: usize, priority: Option<u8>) {
        let (old, new) = (self.levels[cpu].get(), level_of(priority));
        if !self.has_vectors() {
            return self.levels[cpu].set(new);
        }
        self.shared.cpu_to_pri[cpu].load(SeqCst);
        if old == new {
            return;
        }
        // The new vector first: the CPU is always in one.
        self.update(new, 1, || self.levels[cpu].set(new));
        self.update(old, -1, || ());
        self.shared.cpu_to_pri[cpu].store(new as u32, SeqCst);
    }

    /// Changes the count of one vector by one, and its mask and activity with it.
    fn update(&self, level: usize, change: i32, within: impl FnOnce()) {
        let vector = &self.shared.vectors[level];
        let active = &self.shared.active[level / 64];
        self.updates.set(self.updates.get() + 1);
        let bit = 1_usize << (level % 64);
        if self.sharing == Sharing::AtomicVectors {
            vector.mask.fetch_or(0, SeqCst);
            within();
            vector.count.fetch_add(change as u32, SeqCst);
            return;
        }
        vector.lock.lock();
        within();
        vector.mask.fetch_or(0, SeqCst);
        let count = vector.count.peek().wrapping_add(change as u32);
        vector.count.store(count, SeqCst);
        if change > 0 && count == 1 {
            active.fetch_or(bit, SeqCst);
        } else if count == 0 {
            active.fetch_and(!bit, SeqCst);
        }
        vector.lock.unlock();
    }

    /// Notes whether `cpu` has more real-time tasks than it can run. Its queue is locked.
    pub(crate) fn set_overload(&self, cpu: usize, overloaded: bool) {
        if self.sharing == Sharing::None || self.overloaded[cpu].replace(overloaded) == overloaded {
            return;
        }
        self.shared.rto_mask.fetch_or(0, SeqCst);
        let change = if overloaded { 1 } else { u32::MAX };
        self.shared.rto_count.fetch_add(change, SeqCst);
    }

    /// The CPUs that have too many, if any: one read when there are none.
    pub(crate) fn overloaded(&self) -> Vec<usize> {
        if self.sharing == Sharing::None || self.shared.rto_count.load(SeqCst) == 0 {
            return Vec::new();
        }
        self.shared.rto_mask.load(SeqCst);
        (0..self.overloaded.len()).filter(|&cpu| self.overloaded[cpu].get()).collect()
    }

    /// The CPU with the worst priority below `priority`: `prefer` if it is among them, else
    /// `here`, else the first.
    pub(crate) fn lowest(&self, priority: u8, prefer: usize, here: usize) -> Option<usize> {
        if self.sharing == Sharing::None {
            return None;
        }
        if self.has_vectors() {
            Smp::touch(&self.shared.active, Access::Read);
        } else {
            // Without vectors every CPU is looked at.
            for cpu in &self.shared.cpu_to_pri[..self.levels.len()] {
                cpu.load(SeqCst);
            }
        }
        let worst = self.levels.iter().map(Cell::get).min()?;
        if worst >= level_of(Some(priority)) {
            return None;
        }
        if self.has_vectors() {
            self.shared.vectors[worst].mask.load(SeqCst);
        }
        let fits = |cpu: &usize| self.levels[*cpu].get() == worst;
        [prefer, here].into_iter().find(fits).or_else(|| (0..self.levels.len()).find(fits))
    }

    /// Returns the count and the actual number of CPUs of each vector; equal while its lock is
    /// free.
    pub(crate) fn census(&self) -> Vec<(u32, u32)> {
        let of = |level| self.levels.iter().filter(|cpu| cpu.get() == level).count() as u32;
        let counts = self.shared.vectors.iter().map(|vector| vector.count.peek());
        counts.enumerate().map(|(level, count)| (count, of(level))).collect()
    }
}
