//! The engine: coroutines, virtual time, CPUs, interrupts.
//!
//! Each task is a stackful coroutine. The engine always resumes the CPU that is earliest in virtual
//! time (ties: the lower CPU number); a CPU continues without a switch while it is still the
//! earliest, and on lines that it owns it may run ahead by the preset's skew. All state is in
//! `Cell`s because the engine is entered from the coroutines it runs.

mod access;
mod beside;
mod cores;
mod cpu;
mod cpus;
mod ledger;
mod looks;
mod loops;
mod mode;
mod monitor;
mod observe;
mod overflow;
mod requests;
mod run;
mod slice;
mod spin;
mod spinners;
mod tasks;
mod watchdog;

use crate::disk::Disk;
use crate::line::{Lines, mix};
use crate::memory::Region;
use crate::os::Os;
use crate::preset::{Preset, ps};
use crate::rules::{Place, Rules};
use crate::trace::{Event, Record, Tap};
use crate::watch::Watches;
use convoy_sync::{LockEvent, TaskId, Turn};
use core::cell::{Cell, OnceCell};
use cpus::Cpus;
use ledger::Ledger;
pub use mode::{CpuTimes, Mode, Outcome};
use spinners::Spinners;
use std::rc::Rc;
use tasks::Tasks;
use watchdog::Watchdog;

pub(crate) use ledger::Lock;
pub(crate) use looks::Until;
pub(crate) use loops::Pace;

pub(crate) use overflow::{catch, command};
pub use slice::Slice;
pub(crate) use tasks::fetch;

/// `pause` takes about this many cache hits on the processors of 2008; later presets say it.
const SPIN_HINT_HITS: u64 = 8;

/// The running machine. What needs one part of it alone is a function of that part.
pub(crate) struct Engine {
    pub(crate) cpus: Cpus,
    pub(crate) tasks: Tasks,
    pub(crate) spinners: Spinners,
    // Access to memory.
    hit: u64,
    /// A hit by a locked instruction.
    hit_locked: u64,
    /// For each CPU when its last plain store has its line; empty where stores wait for that.
    stored: Box<[Cell<u64>]>,
    requests: requests::Requests,
    /// Lines that a CPU fetches at the same time.
    fill_buffers: usize,
    base: usize,
    pub(crate) lines: Lines,
    pub(crate) region: Rc<Region>,
    /// State of user-mode locks, by task.
    pub(crate) turns: Box<[Cell<Turn>]>,
    pub(crate) marked: monitor::Marked,
    pub(crate) slices: slice::Slices,
    os: OnceCell<Rc<dyn Os>>,
    /// [`Os::engine_idles`].
    idles: Cell<bool>,
    stop: Cell<bool>,
    seed: u64,
    /// One round of a polling loop that is not expressed by `spin_until`.
    pub(crate) spin_hint: u64,
    pub(crate) clock_price: u64,
    interrupt_price: u64,
    pub(crate) watches: Watches,
    pub(crate) disk: Disk,
    pub(crate) tap: Tap,
    pub(crate) ledger: Ledger,
    pub(crate) rules: Rules,
    pub(crate) watchdog: Watchdog,
    pub(crate) beside: beside::Beside,
    pub(crate) observer: observe::Observer,
}

thread_local! {
    /// The engine of this thread; null between machines.
    static ENGINE: Cell<*const Engine> = const { Cell::new(core::ptr::null()) };
}

/// The engine of this thread.
///
/// The reference must not be kept beyond the machine; all callers use it within one call.
#[inline(always)]
pub(crate) fn engine<'a>() -> &'a Engine {
    let engine = ENGINE.get();
    assert!(!engine.is_null(), "this runs only on a virtual machine");
    // SAFETY: `Machine` sets the pointer to its boxed engine and clears it before the box is freed;
    // all state is in cells.
    unsafe { &*engine }
}

pub(crate) fn installed() -> bool {
    !ENGINE.get().is_null()
}

pub(crate) fn set_engine(engine: *const Engine) {
    ENGINE.set(engine);
}

impl Engine {
    pub(crate) fn new(preset: &Preset, seed: u64, tasks: usize) -> std::io::Result<Self> {
        let region = Region::new(tasks)?;
        let count = preset.topology.cpus;
        Ok(Self {
            cpus: Cpus::new(preset),
            tasks: Tasks::new(tasks),
            spinners: Spinners::new(count),
            hit: ps(preset.price_ns.hit),
            hit_locked: ps(preset.price_ns.hit) + ps(preset.price_ns.atomic),
            stored: vec![Cell::new(0); if preset.store_buffer { count } else { 0 }].into(),
            requests: requests::Requests::new(preset.requests_travel),
            fill_buffers: preset.fill_buffers,
            base: region.base(),
            lines: Lines::new(&preset.by_cores(), seed, region.lines(), region.stacks())?,
            region,
            turns: (0..tasks).map(|_| Cell::default()).collect(),
            marked: monitor::Marked::new(tasks),
            slices: slice::Slices::new(tasks),
            os: OnceCell::new(),
            idles: Cell::new(false),
            stop: Cell::new(false),
            seed: mix(seed),
            spin_hint: preset
                .user_ns
                .as_ref()
                .map_or(ps(preset.price_ns.hit) * SPIN_HINT_HITS, |user| ps(user.pause)),
            clock_price: preset.user_ns.as_ref().map_or(0, |user| ps(user.clock)),
            interrupt_price: ps(preset.price_ns.interrupt),
            watches: Watches::default(),
            disk: Disk::new(&preset.disk),
            tap: Tap::default(),
            ledger: Ledger::new(count, tasks),
            rules: Rules::default(),
            watchdog: Watchdog::default(),
            beside: beside::Beside::default(),
            observer: observe::Observer::default(),
        })
    }

    pub(crate) fn install(&self, os: Rc<dyn Os>) {
        self.idles.set(os.engine_idles());
        assert!(self.os.set(os).is_ok(), "a machine has one operating system");
    }

    #[inline]
    pub(crate) fn os(&self) -> &dyn Os {
        &**self.os.get().expect("an operating system is installed before the machine runs")
    }

    /// Sets the mode to which the running CPU's time is accounted; returns the previous mode.
    pub(crate) fn set_mode(&self, mode: Mode) -> Mode {
        let (cpu, now) = (self.cpus.this(), self.cpus.now());
        let old = cpu.mode.replace(mode);
        cpu.account(old, now.saturating_sub(cpu.mode_since.replace(now)));
        self.mode_changed(old, mode);
        old
    }

    /// The mode of the running CPU has changed from `old`.
    pub(super) fn mode_changed(&self, old: Mode, mode: Mode) {
        self.beside.mode_changed(self.cpus.now(), old, mode);
        self.cpus.mode_changed(old, mode);
        self.tell(|| Event::Mode(mode));
    }

    /// Describes the state of every CPU, and every waiting task with its lock and the owner: one
    /// line each.
    pub(crate) fn describe(&self) -> Vec<String> {
        let cpus = self.cpus.all.iter().enumerate();
        let cpus = cpus.filter_map(|(at, cpu)| Some(format!("CPU {at}: {}", cpu.describe()?)));
        let name = |lock: &Lock| {
            let unnamed = || format!("{} {:#x}", lock.type_name(), lock.offset);
            self.watches.name(lock.offset).unwrap_or_else(unnamed)
        };
        cpus.chain(self.ledger.describe(name)).collect()
    }

    /// Checks `event` of the lock of type `kind` at `address` against the [`Rules`].
    pub(crate) fn check_rules(
        &self,
        event: LockEvent,
        address: usize,
        task: TaskId,
        kind: &'static str,
    ) {
        if event != LockEvent::Acquired || task != self.cpus.this().task.get() {
            return;
        }
        let cpu = self.cpus.running();
        let site = self.rules.take_site(cpu);
        let Some(context) = self.os().context() else { return };
        let place = Place { site, task, cpu, at_ns: self.cpus.now() / 1000 };
        self.rules.acquired(context, address, kind, place);
    }

    /// Reports the result of `event` to the recorder, if there is one.
    #[inline(always)]
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        if self.tap.is_on() {
            self.record(event());
        }
    }

    #[cold]
    #[inline(never)]
    fn record(&self, event: Event) {
        let task = self.cpus.this().task.get();
        self.tap.record(&Record { at: self.cpus.now(), cpu: self.cpus.running(), task, event });
    }
}
