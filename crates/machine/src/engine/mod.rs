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
mod interrupt;
mod ledger;
mod looks;
mod loops;
mod mode;
mod monitor;
mod observe;
mod overflow;
mod poll;
mod slice;
mod spin;
mod task;
mod threads;
mod time;
mod watchdog;

use crate::disk::Disk;
use crate::line::{Lines, mix};
use crate::memory::Region;
use crate::os::Os;
use crate::preset::{Preset, ps};
use crate::rules::{Place, Rules};
use crate::trace::{Event, Record, Tap};
use crate::tree::Tree;
use crate::watch::Watches;
use convoy_sync::{LockEvent, TaskId, Turn};
use core::cell::{Cell, OnceCell};
use corosensei::Yielder;
pub(crate) use cpu::Cpu;
use cpu::Slot;
use ledger::Ledger;
pub use mode::{CpuTimes, Mode, Outcome};
use std::rc::Rc;
use watchdog::Watchdog;

pub(crate) use ledger::Lock;
pub(crate) use looks::Until;
pub(crate) use loops::Pace;

pub(crate) use overflow::{catch, command};
pub use slice::Slice;
pub(crate) use task::fetch;

/// `pause` takes about this many cache hits on the processors of 2008; later presets say it.
const SPIN_HINT_HITS: u64 = 8;

/// A line that has not moved for this many skews counts as private. With less, CPUs that take a
/// line from each other all the time would each use it for a whole skew at no cost.
const SETTLE_SKEWS: u64 = 10;

pub(crate) struct Engine {
    // Hot: the running CPU.
    clock: Cell<u64>,
    near: Cell<u64>,
    far: Cell<u64>,
    /// The same without the running CPU's own next interrupt.
    others_near: Cell<u64>,
    others_far: Cell<u64>,
    cpu: Cell<usize>,
    /// Its state, in `cpus`.
    this: Cell<*const Cpu>,
    ops: Cell<u64>,
    hit: u64,
    atomic: u64,
    /// For each CPU when its last plain store has its line; empty where stores wait for that.
    stored: Box<[Cell<u64>]>,
    /// Lines that a CPU fetches at the same time.
    fill_buffers: usize,
    base: usize,
    pub(crate) lines: Lines,
    // Warm.
    tree: Tree,
    /// Where cores have several hardware threads.
    threads: Option<Box<cores::Threads>>,
    looks: looks::Looks,
    /// Where CPUs are that poll in user mode, by CPU.
    polls: Box<[Cell<loops::Poll>]>,
    /// Whether each of their looks is executed, as a reference for tests.
    pub(crate) polls_each: Cell<bool>,
    /// Some condition of a spin has asked whether a task runs.
    asked: Cell<bool>,
    pub(crate) cpus: Box<[Cpu]>,
    yielder: Cell<*const Yielder<(), ()>>,
    /// By task, which has the number of its stack.
    slots: Box<[Slot]>,
    /// State of user-mode locks, by task.
    pub(crate) turns: Box<[Cell<Turn>]>,
    pub(crate) marked: monitor::Marked,
    pub(crate) slices: slice::Slices,
    /// Whether locks of user mode wait without looking for a while, as in a program that knows that
    /// it has one CPU.
    pub(crate) spins_never: Cell<bool>,
    /// The task that was the last to leave its CPU for another.
    left: Cell<TaskId>,
    os: OnceCell<Rc<dyn Os>>,
    /// [`Os::engine_idles`].
    idles: Cell<bool>,
    stop: Cell<bool>,
    /// The task that has just retired; `TaskId::MAX` when none has.
    dead: Cell<TaskId>,
    hash: Cell<u64>,
    resumes: Cell<u64>,
    skew: u64,
    /// How long a line must have stayed before run-ahead over it is allowed.
    settle: u64,
    seed: u64,
    /// One round of a polling loop that is not expressed by `spin_until`.
    spin_hint: u64,
    clock_price: u64,
    pub(crate) interrupt_price: u64,
    pub(crate) region: Rc<Region>,
    pub(crate) watches: Watches,
    pub(crate) disk: Disk,
    pub(crate) tap: Tap,
    pub(crate) ledger: Ledger,
    pub(crate) rules: Rules,
    pub(crate) watchdog: Watchdog,
    beside: beside::Beside,
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
        let cpus: Box<[Cpu]> = (0..count).map(|_| Cpu::new()).collect();
        Ok(Self {
            clock: Cell::new(0),
            near: Cell::new(u64::MAX),
            far: Cell::new(u64::MAX),
            others_near: Cell::new(u64::MAX),
            others_far: Cell::new(u64::MAX),
            cpu: Cell::new(0),
            this: Cell::new(&raw const cpus[0]),
            ops: Cell::new(0),
            hit: ps(preset.price_ns.hit),
            atomic: ps(preset.price_ns.atomic),
            stored: vec![Cell::new(0); if preset.store_buffer { preset.topology.cpus } else { 0 }]
                .into(),
            fill_buffers: preset.fill_buffers,
            base: region.base(),
            lines: Lines::new(&preset.by_cores(), seed, region.lines(), region.stacks())?,
            tree: Tree::new(count),
            threads: cores::Threads::new(preset),
            looks: looks::Looks::new(),
            polls: (0..count).map(|_| Cell::default()).collect(),
            polls_each: Cell::new(false),
            asked: Cell::new(false),
            cpus,
            yielder: Cell::new(core::ptr::null()),
            slots: (0..tasks).map(|_| Slot::new()).collect(),
            turns: (0..tasks).map(|_| Cell::default()).collect(),
            marked: monitor::Marked::new(tasks),
            slices: slice::Slices::new(tasks),
            spins_never: Cell::new(false),
            left: Cell::new(0),
            os: OnceCell::new(),
            idles: Cell::new(false),
            stop: Cell::new(false),
            dead: Cell::new(TaskId::MAX),
            hash: Cell::new(0xcbf2_9ce4_8422_2325),
            resumes: Cell::new(0),
            skew: ps(preset.skew_ns),
            settle: ps(preset.skew_ns) * SETTLE_SKEWS,
            seed: mix(seed),
            spin_hint: preset
                .user_ns
                .as_ref()
                .map_or(ps(preset.price_ns.hit) * SPIN_HINT_HITS, |user| ps(user.pause)),
            clock_price: preset.user_ns.as_ref().map_or(0, |user| ps(user.clock)),
            interrupt_price: ps(preset.price_ns.interrupt),
            region,
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
        let cpu = self.this();
        let now = self.clock.get();
        let old = cpu.mode.replace(mode);
        cpu.account(old, now.saturating_sub(cpu.mode_since.replace(now)));
        self.mode_changed(old, mode);
        self.tell(|| Event::Mode(mode));
        old
    }

    /// Times of `cpu` up to its last change of mode.
    pub(crate) fn times(&self, cpu: usize) -> CpuTimes {
        core::array::from_fn(|mode| self.cpus[cpu].times[mode].get())
    }

    /// The times of `cpu` with the present mode settled up to the clock. Of a CPU that has run
    /// ahead of the clock the times are those that it has settled itself.
    pub(crate) fn times_so_far(&self, cpu: usize) -> CpuTimes {
        let this = &self.cpus[cpu];
        let mut times = self.times(cpu);
        times[this.mode.get() as usize] += self.clock.get().saturating_sub(this.mode_since.get());
        times
    }

    /// Describes the state of every CPU, and every waiting task with its lock and the owner: one
    /// line each.
    pub(crate) fn describe(&self) -> Vec<String> {
        let busy = |(_, cpu): &(usize, &Cpu)| !cpu.idle.get() && !cpu.slot.get().is_null();
        let cpus = self.cpus.iter().enumerate().filter(busy).map(|(index, cpu)| {
            let what = match cpu.spin.get() {
                Some(spin) => format!("spins on the word at {:#x}", spin.offset),
                None => format!("is in mode {:?}", cpu.mode.get()),
            };
            format!("CPU {index}: task {} {what}", cpu.task.get())
        });
        let name = |lock: &Lock| {
            let unnamed = || format!("{} {:#x}", lock.type_name(), lock.offset);
            self.watches.name(lock.offset).unwrap_or_else(unnamed)
        };
        cpus.chain(self.ledger.describe(name)).collect()
    }

    /// `change` more tasks wait for a CPU from now on.
    pub(crate) fn tasks_wait(&self, change: i64) {
        self.beside.tasks_wait(self.clock.get(), change);
    }

    /// CPU time spent spinning that tasks which waited could have had, picoseconds.
    pub(crate) fn spun_beside(&self) -> u64 {
        self.beside.time(self.clock.get())
    }

    /// Checks `event` of the lock of type `kind` at `address` against the [`Rules`].
    pub(crate) fn check_rules(
        &self,
        event: LockEvent,
        address: usize,
        task: TaskId,
        kind: &'static str,
    ) {
        if event != LockEvent::Acquired || task != self.this().task.get() {
            return;
        }
        let site = self.rules.take_site(self.cpu());
        let Some(context) = self.os().context() else { return };
        let place = Place { site, task, cpu: self.cpu(), at_ns: self.now() / 1000 };
        self.rules.acquired(context, address, kind, place);
    }

    /// Whether there is a recorder.
    #[inline(always)]
    pub(crate) fn records(&self) -> bool {
        self.tap.is_on()
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
        let (at, cpu, task) = (self.now(), self.cpu(), self.this().task.get());
        self.tap.record(&Record { at, cpu, task, event });
    }
}
