//! A loop over pages: the cost that a batch under one zone lock has for its waiters.
//!
//! Every CPU of a virtual machine allocates a batch of pages one by one, uses each for a while, and
//! frees them all. Lists have room for one batch, so each turn moves one batch out of the zone and
//! one back: the pages that cross the zone lock are the used pages, regardless of the batch. The
//! rest of a kernel, ticks and preemption are absent.
//!
//! A wait that starts in the window counts with its whole length, even for a CPU that the lock
//! bypasses until the other CPUs have left.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use convoy_kernel::Moves;
use convoy_machine::{Event, Fifo, Here, Machine, Outcome, Preset, Recorder, Smp};
use convoy_mm::{LockPlace, ORDER_MAX, SetSize, Setup, Temperature, Unlocked, Zone};
use convoy_stats::LogHistogram;
use convoy_sync::{LockName, QueuedLock, RawLock, TasLock, TicketLock};

use crate::lock_loop::{Vary, Work};
use crate::virtual_end::VirtualError;

/// Frames of a small machine's zone: 64 MiB.
const FRAMES_MIN: u32 = 1 << 14;

/// Virtual time after the window, in nanoseconds, in which all CPUs must acquire the lock.
const DRAIN_NS: u64 = 60_000_000_000;

/// Receiver of all events of a loop.
type Listener = Rc<RefCell<dyn Recorder>>;

/// The loop.
#[derive(Clone, Debug)]
pub struct ZoneLoop {
    /// The machine; each of its CPUs takes part.
    pub machine: Preset,
    /// The zone lock: `test-and-set`, `ticket` or `queued`.
    pub lock: LockName,
    /// Policy of the lock while a batch moves.
    pub moves: Moves,
    /// Pages of a batch.
    pub batch: u32,
    /// Whether the zone lock has a separate cache line.
    pub own_line: bool,
    /// Whether the lists of each CPU have a lock, which is held around the zone lock and acquired
    /// once per turn by another CPU that reads the lists; otherwise only disabled interrupts
    /// protect them.
    pub nested: bool,
    /// Mean use of each page, nanoseconds.
    pub outside_ns: u32,
    /// Variation of that time.
    pub think: Vary,
    /// Seed of the draws, and of the machine's perturbation.
    pub seed: u64,
    /// Time before the window, milliseconds.
    pub warmup_ms: u32,
    /// Length of the window, milliseconds.
    pub window_ms: u32,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct ZonePoint {
    /// Pages allocated in the window.
    pub pages: u64,
    /// Length of the window, seconds.
    pub window_s: f64,
    /// Waits for the zone lock, nanoseconds.
    pub waits: LogHistogram,
    /// Holds of the zone lock, nanoseconds.
    pub holds: LogHistogram,
    /// Calls of the allocator, nanoseconds: interrupts are disabled from the first to the last of
    /// them.
    pub calls: LogHistogram,
    /// Waits for the lock of another CPU's lists, in nanoseconds; empty without such a lock.
    pub looks: LogHistogram,
    /// Schedule hash.
    pub hash: u64,
}

impl ZonePoint {
    /// Returns its numbers by their names in reports.
    pub fn metrics(&self) -> [(&'static str, f64); 8] {
        let us = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1e3);
        let mean = |all: &LogHistogram| all.mean().map_or(f64::NAN, |ns| ns / 1e3);
        [
            ("pages_per_s", self.pages as f64 / self.window_s),
            ("wait_mean_us", mean(&self.waits)),
            ("wait_p50_us", us(self.waits.percentile(50.0))),
            ("wait_p99_us", us(self.waits.percentile(99.0))),
            ("wait_max_us", us(self.waits.max())),
            ("hold_mean_us", mean(&self.holds)),
            ("irqs_off_max_us", us(self.calls.max())),
            ("list_wait_mean_us", mean(&self.looks)),
        ]
    }
}

/// Measurements of the CPUs, and the window in which they count.
#[derive(Default)]
struct Account {
    point: RefCell<ZonePoint>,
    begin_ns: u64,
    end_ns: u64,
    taken_ns: Cell<u64>,
    /// Whether the recorder was told that the window has begun and ended.
    told: Cell<(bool, bool)>,
}

impl Account {
    /// Reports the start and the end of the window to a recorder.
    fn tell(&self) {
        let now = Here::now_ns();
        let (begun, ended) = self.told.get();
        if !begun && now >= self.begin_ns {
            Here::tell(Event::Measure(true));
            self.told.set((true, false));
        } else if begun && !ended && now >= self.end_ns {
            Here::tell(Event::Measure(false));
            self.told.set((true, true));
        }
    }

    /// Adds the time since `from_ns`, if that is in the window.
    fn add(&self, from_ns: u64, of: impl FnOnce(&mut ZonePoint) -> &mut LogHistogram) {
        self.tell();
        if (self.begin_ns..self.end_ns).contains(&from_ns) {
            of(&mut self.point.borrow_mut()).record(Here::now_ns() - from_ns);
        }
    }
}

/// A lock with statistics of waits and holds.
#[repr(C)]
struct Timed<L> {
    lock: L,
    account: Rc<Account>,
}

impl<L: RawLock<Smp>> RawLock<Smp> for Timed<L> {
    #[inline]
    fn lock(&self) {
        let from = Here::now_ns();
        self.lock.lock();
        self.account.add(from, |point| &mut point.waits);
        self.account.taken_ns.set(Here::now_ns());
    }
    fn try_lock(&self) -> bool {
        self.lock.try_lock()
    }
    #[inline]
    fn unlock(&self) {
        self.account.add(self.account.taken_ns.get(), |point| &mut point.holds);
        self.lock.unlock();
    }
    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
    #[inline]
    fn is_contended(&self) -> bool {
        self.lock.is_contended()
    }
}

/// State that all CPUs share.
struct Shared<L: RawLock<Smp>, S: RawLock<Smp>> {
    zone: OnceCell<Zone<Smp, Timed<L>, Moves, S>>,
    account: Rc<Account>,
}

impl ZoneLoop {
    /// The locks that a zone may have.
    pub const LOCKS: [LockName; 3] = [LockName::TestAndSet, LockName::Ticket, LockName::Queued];

    /// Runs the loop.
    ///
    /// # Errors
    /// Returns a [`VirtualError`] if the host has no memory for the machine, or if a CPU never
    /// acquired the lock.
    pub fn run(&self) -> Result<ZonePoint, VirtualError> {
        self.choose(None)
    }

    /// Runs the loop and reports all events to `recorder`, without other changes.
    ///
    /// # Errors
    /// As [`ZoneLoop::run`].
    pub fn record(&self, recorder: Listener) -> Result<ZonePoint, VirtualError> {
        self.choose(Some(recorder))
    }

    fn choose(&self, listener: Option<Listener>) -> Result<ZonePoint, VirtualError> {
        match (self.lock, self.nested) {
            (LockName::TestAndSet, false) => self.execute::<TasLock<Smp>, Unlocked>(listener),
            (LockName::TestAndSet, true) => self.execute::<TasLock<Smp>, TasLock<Smp>>(listener),
            (LockName::Queued, false) => self.execute::<QueuedLock<Smp>, Unlocked>(listener),
            (LockName::Queued, true) => self.execute::<QueuedLock<Smp>, QueuedLock<Smp>>(listener),
            (_, false) => self.execute::<TicketLock<Smp>, Unlocked>(listener),
            (_, true) => self.execute::<TicketLock<Smp>, TicketLock<Smp>>(listener),
        }
    }

    fn execute<L, S>(&self, listener: Option<Listener>) -> Result<ZonePoint, VirtualError>
    where
        L: RawLock<Smp> + Default,
        S: RawLock<Smp> + Default,
    {
        let begin_ns = u64::from(self.warmup_ms) * 1_000_000;
        let end_ns = begin_ns + u64::from(self.window_ms) * 1_000_000;
        let account = Rc::new(Account { begin_ns, end_ns, ..Account::default() });
        let shared: Rc<Shared<L, S>> =
            Rc::new(Shared { zone: OnceCell::new(), account: Rc::clone(&account) });
        let cpus = self.machine.topology.cpus;
        let body = |index: usize| -> Box<dyn FnOnce()> {
            let (shared, this) = (Rc::clone(&shared), self.clone());
            Box::new(move || this.turns(index, &shared))
        };
        let bodies = (0..cpus).map(body).collect();
        let limit_ns = end_ns + DRAIN_NS;
        let (outcome, machine) =
            Fifo::run_recorded(&self.machine, self.seed, limit_ns, bodies, listener)
                .map_err(|source| VirtualError::AddressSpace { tasks: cpus, source })?;
        self.ended(outcome, &machine)?;
        // Objects in simulated memory must be dropped before the machine.
        drop(shared);
        let window_s = f64::from(self.window_ms) / 1e3;
        Ok(ZonePoint { window_s, hash: machine.hash(), ..account.point.take() })
    }

    fn ended(&self, outcome: Outcome, machine: &Machine) -> Result<(), VirtualError> {
        if outcome == Outcome::Stopped {
            return Ok(());
        }
        Err(VirtualError::NoEnd {
            outcome,
            at_s: machine.now_ns() as f64 / 1e9,
            seed: self.seed,
            kernel: format!("the page allocator under {}", self.lock),
            what: machine.explain_no_end(),
        })
    }

    fn zone<L, S>(&self, account: &Rc<Account>) -> Zone<Smp, Timed<L>, Moves, S>
    where
        L: RawLock<Smp> + Default,
        S: RawLock<Smp> + Default,
    {
        let cpus = self.machine.topology.cpus;
        // Pages that each CPU has and pages that its list may hold.
        let used = 2 * self.batch * cpus as u32;
        let frames = used.max(FRAMES_MIN).next_multiple_of(1 << ORDER_MAX);
        let setup = Setup {
            size: SetSize::single(self.batch),
            lock: if self.own_line { LockPlace::OwnLine } else { LockPlace::BesideLists },
            ..Setup::new(frames, cpus, self.moves)
        };
        let zone =
            Zone::with_locks(setup, || Timed { lock: L::default(), account: Rc::clone(account) });
        Here::name(&zone.lock().lock, "zone->lock");
        zone
    }

    /// Runs one CPU, from its start to the end of the window.
    fn turns<L, S>(&self, index: usize, shared: &Shared<L, S>)
    where
        L: RawLock<Smp> + Default,
        S: RawLock<Smp> + Default,
    {
        let zone = shared.zone.get_or_init(|| self.zone(&shared.account));
        let account = &*shared.account;
        Here::tell(Event::Label { pid: index as u32 + 1, kind: "loop", number: index as u32 });
        let mut outside = Work::new(self.think, self.outside_ns, self.seed, index as u32);
        let mut mine = Vec::with_capacity(self.batch as usize);
        while Here::now_ns() < account.end_ns {
            while mine.len() < self.batch as usize && Here::now_ns() < account.end_ns {
                let from = Here::now_ns();
                let page = zone.allocate(Temperature::Hot);
                account.add(from, |point| {
                    point.pages += 1;
                    &mut point.calls
                });
                mine.push(page.expect("there are frames for all CPUs"));
                Here::user(u64::from(outside.draw()) * 1000);
            }
            for page in mine.drain(..) {
                let from = Here::now_ns();
                zone.free(page, Temperature::Hot);
                account.add(from, |point| &mut point.calls);
            }
            if self.nested {
                let from = Here::now_ns();
                zone.count_lists((index + 1) % self.machine.topology.cpus);
                account.add(from, |point| &mut point.looks);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_kernel::ZonePolicy;
    use std::num::NonZeroU32;

    fn cell(lock: LockName, policy: ZonePolicy, batch: u32, cpus: usize) -> ZonePoint {
        let moves = Moves { policy, every: NonZeroU32::MIN, page_ps: 192_000 };
        let cell = ZoneLoop {
            machine: Preset::named("bus32-2007").unwrap().with_cpus(cpus),
            lock,
            moves,
            batch,
            own_line: false,
            nested: false,
            outside_ns: 20_000,
            think: Vary::Exponential,
            seed: 1,
            warmup_ms: 20,
            window_ms: 60,
        };
        cell.run().unwrap()
    }

    fn of(point: &ZonePoint, key: &str) -> f64 {
        point.metrics().iter().find(|metric| metric.0 == key).unwrap().1
    }

    #[test]
    fn the_hold_time_is_affine_in_the_batch() {
        let holds = [1, 7, 31, 127, 511].map(|batch| {
            let point = cell(LockName::Ticket, ZonePolicy::HoldAll, batch, 1);
            (f64::from(batch), of(&point, "hold_mean_us"))
        });
        let (first, last) = (holds[1], holds[4]);
        let slope = (last.1 - first.1) / (last.0 - first.0);
        assert!(slope > 0.0);
        for (batch, hold) in holds {
            let line = first.1 + slope * (batch - first.0);
            assert!((hold / line - 1.0).abs() < 0.05, "{batch}: {hold} us, {line}");
        }
    }

    #[test]
    fn release_if_contended_helps_under_first_come_locks_only() {
        use LockName::{Queued, TestAndSet, Ticket};
        let wait = |lock, policy| of(&cell(lock, policy, 63, 6), "wait_p99_us");
        for lock in [Ticket, Queued] {
            let (all, some) =
                (wait(lock, ZonePolicy::HoldAll), wait(lock, ZonePolicy::ReleaseContended));
            assert!(some < 0.7 * all, "{lock}: {some} us of {all}");
        }
        // The word of this lock does not contain whether a CPU waits.
        let hashes = [ZonePolicy::HoldAll, ZonePolicy::ReleaseContended]
            .map(|policy| cell(TestAndSet, policy, 63, 6).hash);
        assert_eq!(hashes[0], hashes[1]);
    }

    #[test]
    fn lists_with_a_lock_are_looked_at_from_other_cpus() {
        let moves = Moves { policy: ZonePolicy::HoldAll, every: NonZeroU32::MIN, page_ps: 192_000 };
        let mut cell = ZoneLoop {
            machine: Preset::named("bus8-2007").unwrap(),
            lock: LockName::Ticket,
            moves,
            batch: 31,
            own_line: true,
            nested: true,
            outside_ns: 10_000,
            think: Vary::Exponential,
            seed: 1,
            warmup_ms: 5,
            window_ms: 20,
        };
        let nested = cell.run().unwrap();
        assert!(of(&nested, "list_wait_mean_us") > 0.0);
        cell.nested = false;
        assert!(of(&cell.run().unwrap(), "list_wait_mean_us").is_nan());
    }
}
