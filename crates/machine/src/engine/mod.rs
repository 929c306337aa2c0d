//! The engine: coroutines, virtual time, CPUs, interrupts.
//!
//! Each task is a stackful coroutine. The engine always resumes the CPU that is earliest in virtual
//! time (ties: the lower CPU number); a CPU continues without a switch while it is still the
//! earliest, and on lines that it owns it may run ahead by the preset's skew. All state is in
//! `Cell`s because the engine is entered from the coroutines it runs.

mod access;
mod beside;
mod interrupt;
mod overflow;
mod poll;
mod spin;
mod task;
mod threads;
mod time;
mod watchdog;

use crate::disk::Disk;
use crate::line::{Lines, mix};
use crate::memory::{LINE, PooledStack, Region};
use crate::os::Os;
use crate::preset::{Preset, ps};
use crate::rules::Rules;
use crate::trace::{Event, Tap};
use crate::tree::Tree;
use crate::watch::Watches;
use convoy_sync::{TaskId, Turn};
use core::cell::{Cell, OnceCell, UnsafeCell};
use corosensei::{Coroutine, Yielder};
use std::rc::Rc;
use watchdog::{Ledger, Watchdog};

pub(crate) use poll::Pace;
pub(crate) use spin::Until;
pub(crate) use watchdog::Lock;

pub(crate) use overflow::{catch, command};
pub(crate) use task::fetch;

/// `pause` takes about this many cache hits on the processors of 2008; later presets say it.
const SPIN_HINT_HITS: u64 = 8;

/// A line that has not moved for this many skews counts as private. With less, CPUs that take a
/// line from each other all the time would each use it for a whole skew at no cost.
const SETTLE_SKEWS: u64 = 10;

type Task = Coroutine<(), (), (), PooledStack>;

/// State of a CPU, for the accounting of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// User-mode work of a task.
    User,
    /// Kernel work.
    System,
    /// Spinning on a lock word.
    Spin,
    /// Interrupt handlers.
    Interrupt,
    /// Nothing to run.
    Idle,
}

impl Mode {
    /// Every mode, in the order of [`CpuTimes`].
    pub const ALL: [Self; 5] = [Self::User, Self::System, Self::Spin, Self::Interrupt, Self::Idle];
}

/// Picoseconds by [`Mode`], indexed by `Mode as usize`.
pub type CpuTimes = [u64; 5];

/// Why [`Machine::run`](crate::Machine::run) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// [`Here::stop`](crate::Here::stop) was called.
    Stopped,
    /// Deadlock. No CPU will make progress: all tasks have exited, or they wait or spin for each
    /// other; or some tasks wait for each other in a cycle while others work.
    Quiescent,
    /// CPUs use memory and no task gets anywhere.
    Livelock,
    /// The next event lies beyond the limit on virtual time.
    TimeLimit,
}

/// The fields that a switch between CPUs uses are the first cache line.
#[repr(C, align(64))]
pub(crate) struct Cpu {
    /// Virtual time when the CPU is not the running one.
    clock: Cell<u64>,
    /// The record of its task; null until it has one.
    slot: Cell<*const Slot>,
    /// When the timer fires.
    timer: Cell<u64>,
    /// When the pending inter-processor interrupt arrives.
    ipi: Cell<u64>,
    /// The task that this CPU runs.
    pub(crate) task: Cell<TaskId>,
    /// Depth of disabled interrupts.
    irq_off: Cell<u32>,
    /// Depth of disabled preemption.
    pub(crate) preempt_off: Cell<u32>,
    /// A reschedule of this CPU is wanted. The operating system's flag, stored here for fast access
    /// when preemption is enabled.
    pub(crate) resched: Cell<bool>,
    /// Next in the line's list of spinners (CPU + 1), and whether this CPU is in that list.
    spin_next: Cell<u16>,
    linked: Cell<bool>,
    /// Blocked inside [`Engine::compute`], [`Engine::halt`] or a spin: an interrupt may end it
    /// early.
    blocked: Cell<bool>,
    /// Its task is an idle task.
    idle: Cell<bool>,
    mode: Cell<Mode>,
    /// The mode that idling interrupts, when the engine idles by itself.
    idle_mode: Cell<Mode>,
    mode_since: Cell<u64>,
    /// The time of its request for the line that it reads next, while it spins.
    asked: Cell<u64>,
    /// Its last look while it spins has left the line in front of its sets.
    front: Cell<bool>,
    /// The condition of its spin, while its coroutine is suspended.
    spin: Cell<Option<spin::Spin>>,
    /// The task about which the condition of its present or last spin asks whether it runs.
    asks: Cell<TaskId>,
    times: [Cell<u64>; 5],
}

/// The engine's data of a task, one cache line of the host.
#[repr(align(64))]
struct Slot {
    /// Its coroutine, from its start to its end.
    task: UnsafeCell<Option<Task>>,
    /// What suspends it; null until it has started.
    yielder: Cell<*const Yielder<(), ()>>,
    /// About where its stack ends while it waits to be switched to.
    top: Cell<*const u8>,
    /// The task that left its CPU next after this one did.
    after: Cell<TaskId>,
    /// Some CPU runs it.
    running: Cell<bool>,
    idle: Cell<bool>,
}

const _: () = assert!(size_of::<Slot>() == LINE);

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
    threads: Option<Box<threads::Threads>>,
    looks: spin::Looks,
    /// Where CPUs are that poll in user mode, by CPU.
    polls: Box<[Cell<poll::Poll>]>,
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
    watchdog: Watchdog,
    beside: beside::Beside,
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
            threads: threads::Threads::new(preset),
            looks: spin::Looks::new(),
            polls: (0..count).map(|_| Cell::default()).collect(),
            polls_each: Cell::new(false),
            asked: Cell::new(false),
            cpus,
            yielder: Cell::new(core::ptr::null()),
            slots: (0..tasks).map(|_| Slot::new()).collect(),
            turns: (0..tasks).map(|_| Cell::default()).collect(),
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
}

impl Slot {
    fn new() -> Self {
        Self {
            task: UnsafeCell::new(None),
            yielder: Cell::new(core::ptr::null()),
            top: Cell::new(core::ptr::null()),
            after: Cell::new(0),
            running: Cell::new(false),
            idle: Cell::new(false),
        }
    }
}

impl Cpu {
    fn new() -> Self {
        Self {
            clock: Cell::new(0),
            task: Cell::new(TaskId::MAX),
            slot: Cell::new(core::ptr::null()),
            irq_off: Cell::new(0),
            preempt_off: Cell::new(0),
            timer: Cell::new(u64::MAX),
            ipi: Cell::new(u64::MAX),
            resched: Cell::new(false),
            blocked: Cell::new(false),
            asked: Cell::new(0),
            front: Cell::new(false),
            spin: Cell::new(None),
            asks: Cell::new(TaskId::MAX),
            spin_next: Cell::new(0),
            linked: Cell::new(false),
            idle: Cell::new(false),
            mode: Cell::new(Mode::System),
            idle_mode: Cell::new(Mode::System),
            mode_since: Cell::new(0),
            times: Default::default(),
        }
    }

    #[inline]
    fn account(&self, mode: Mode, ps: u64) {
        let time = &self.times[mode as usize];
        time.set(time.get() + ps);
    }

    pub(crate) fn irqs_off(&self) -> bool {
        self.irq_off.get() > 0
    }
}
