//! The engine: coroutines, virtual time, CPUs, interrupts.
//!
//! Each task is a stackful coroutine. The engine always resumes the CPU that is earliest in virtual time (ties: the
//! lower CPU number); a CPU goes on without a switch while it is still the earliest, and over lines it owns it may run
//! ahead by the preset's skew. All state is in `Cell`s because the engine is entered from the coroutines it runs.

use crate::line::{Lines, mix};
use crate::memory::{PooledStack, Region, Sim};
use crate::os::{Interrupt, Os};
use crate::preset::{Preset, ps};
use crate::tree::Tree;
use crate::watch::Watches;
use convoy_sync::{Access, TaskId};
use core::cell::{Cell, OnceCell, RefCell};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::rc::Rc;

/// `pause` takes about this many cache hits on the processors of the period.
const SPIN_HINT_HITS: u64 = 8;

type Task = Coroutine<(), (), (), PooledStack>;

/// What a CPU is doing, for the accounting of its time.
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
    /// No CPU has anything to do, ever: all tasks have ended, or they wait for each other.
    Quiescent,
    /// The next event lies beyond the limit on virtual time.
    TimeLimit,
}

pub(crate) struct Cpu {
    /// Virtual time when the CPU is not the running one.
    clock: Cell<u64>,
    /// The task whose coroutine this CPU runs.
    pub(crate) task: Cell<TaskId>,
    /// Depth of disabled interrupts.
    irq_off: Cell<u32>,
    /// Depth of disabled preemption.
    pub(crate) preempt_off: Cell<u32>,
    /// When the timer fires.
    timer: Cell<u64>,
    /// When the pending inter-processor interrupt arrives.
    ipi: Cell<u64>,
    /// Blocked inside [`Engine::compute`], [`Engine::halt`] or a spin: an interrupt may end it early.
    blocked: Cell<bool>,
    /// Line offset it spins on; links of the line's list of spinners.
    spin_next: Cell<u16>,
    mode: Cell<Mode>,
    mode_since: Cell<u64>,
    times: Cell<CpuTimes>,
}

struct Slot {
    task: Option<Box<Task>>,
    yielder: *const Yielder<(), ()>,
    /// Ended; its coroutine is freed when it leaves the CPU.
    dead: bool,
}

pub(crate) struct Engine {
    // Hot: the running CPU.
    clock: Cell<u64>,
    near: Cell<u64>,
    far: Cell<u64>,
    cpu: Cell<usize>,
    ops: Cell<u64>,
    hit: u64,
    atomic: u64,
    base: usize,
    pub(crate) lines: Lines,
    // Warm.
    tree: RefCell<Tree>,
    pub(crate) cpus: Vec<Cpu>,
    yielder: Cell<*const Yielder<(), ()>>,
    slots: RefCell<Vec<Slot>>,
    free_slots: RefCell<Vec<TaskId>>,
    os: OnceCell<Rc<dyn Os>>,
    stop: Cell<bool>,
    hash: Cell<u64>,
    resumes: Cell<u64>,
    skew: u64,
    seed: u64,
    /// One round of a polling loop that is not expressed by `spin_until`.
    spin_hint: u64,
    pub(crate) interrupt_price: u64,
    pub(crate) region: Rc<Region>,
    pub(crate) watches: Watches,
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
    // SAFETY: `Machine` sets the pointer to its boxed engine and clears it before the box is freed; all state is in cells.
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
            clock: Cell::new(0),
            near: Cell::new(u64::MAX),
            far: Cell::new(u64::MAX),
            cpu: Cell::new(0),
            ops: Cell::new(0),
            hit: ps(preset.price_ns.hit),
            atomic: ps(preset.price_ns.atomic),
            base: region.base(),
            lines: Lines::new(preset, seed, region.lines())?,
            tree: RefCell::new(Tree::new(count)),
            cpus: (0..count).map(|_| Cpu::new()).collect(),
            yielder: Cell::new(core::ptr::null()),
            slots: RefCell::default(),
            free_slots: RefCell::default(),
            os: OnceCell::new(),
            stop: Cell::new(false),
            hash: Cell::new(0xcbf2_9ce4_8422_2325),
            resumes: Cell::new(0),
            skew: ps(preset.skew_ns),
            seed: mix(seed),
            spin_hint: ps(preset.price_ns.hit) * SPIN_HINT_HITS,
            interrupt_price: ps(preset.price_ns.interrupt),
            region,
            watches: Watches::default(),
        })
    }

    pub(crate) fn install(&self, os: Rc<dyn Os>) {
        assert!(self.os.set(os).is_ok(), "a machine has one operating system");
    }

    #[inline]
    pub(crate) fn os(&self) -> &dyn Os {
        &**self.os.get().expect("an operating system is installed before the machine runs")
    }

    // ---- time -------------------------------------------------------------------------------------------------

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.get()
    }

    pub(crate) fn spin_hint_price(&self) -> u64 {
        self.spin_hint
    }

    #[inline]
    pub(crate) fn cpu(&self) -> usize {
        self.cpu.get()
    }

    #[inline]
    pub(crate) fn this(&self) -> &Cpu {
        &self.cpus[self.cpu.get()]
    }

    pub(crate) fn ops(&self) -> u64 {
        self.ops.get()
    }

    pub(crate) fn resumes(&self) -> u64 {
        self.resumes.get()
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// Adds `value` to the schedule hash.
    #[inline]
    pub(crate) fn note(&self, value: u64) {
        self.hash.set((self.hash.get() ^ value).wrapping_mul(0x100_0000_01b3).rotate_left(23));
    }

    /// Kernel instructions that touch no shared line: time passes, nothing else happens.
    #[inline]
    pub(crate) fn pass(&self, ps: u64) {
        self.clock.set(self.clock.get() + ps);
    }

    fn next_interrupt(cpu: &Cpu) -> u64 {
        if cpu.irq_off.get() == 0 { cpu.timer.get().min(cpu.ipi.get()) } else { u64::MAX }
    }

    /// Recomputes how far the running CPU may go.
    fn limits(&self) {
        let cpu = self.cpu.get();
        let (other, key) = self.tree.borrow().first_other(cpu);
        let irq = Self::next_interrupt(self.this()).saturating_sub(1);
        let near = if key == u64::MAX || cpu < other { key } else { key.saturating_sub(1) };
        self.near.set(near.min(irq));
        self.far.set(key.saturating_add(self.skew).min(irq));
    }

    /// Gives `cpu` (not the running one) the key `key`.
    fn set_other(&self, cpu: usize, key: u64) {
        debug_assert_ne!(cpu, self.cpu.get());
        self.tree.borrow_mut().set(cpu, key);
        let near = if self.cpu.get() < cpu { key } else { key.saturating_sub(1) };
        self.near.set(self.near.get().min(near));
        self.far.set(self.far.get().min(key.saturating_add(self.skew)));
    }

    /// Leaves the CPU to the others until `key`.
    fn suspend(&self, key: u64) {
        let cpu = self.cpu.get();
        self.cpus[cpu].clock.set(self.clock.get());
        self.tree.borrow_mut().set(cpu, key);
        let yielder = self.yielder.get();
        assert!(!yielder.is_null(), "only a task may wait for virtual time");
        // SAFETY: the yielder belongs to the coroutine we are on (set by `resume`), which is alive while it runs.
        unsafe { (*yielder).suspend(()) };
    }

    /// The running CPU has passed a limit: takes due interrupts and lets earlier CPUs go first.
    #[cold]
    #[inline(never)]
    pub(crate) fn pause(&self) {
        loop {
            if self.clock.get() >= Self::next_interrupt(self.this()) {
                self.interrupt();
                continue;
            }
            self.limits();
            if self.clock.get() <= self.near.get() || self.yielder.get().is_null() {
                return;
            }
            self.suspend(self.clock.get());
        }
    }

    /// Works for `ps` picoseconds; interrupts are taken on time, so a long stretch is one event.
    pub(crate) fn compute(&self, ps: u64) {
        let mut left = ps;
        loop {
            let start = self.clock.get();
            if left <= self.far.get().saturating_sub(start) || self.yielder.get().is_null() {
                self.clock.set(start + left);
                return;
            }
            let irq = Self::next_interrupt(self.this());
            if start >= irq {
                self.interrupt();
                continue;
            }
            self.this().blocked.set(true);
            self.suspend(irq.min(start + left));
            self.this().blocked.set(false);
            left -= (self.clock.get() - start).min(left);
            if self.clock.get() >= Self::next_interrupt(self.this()) {
                self.interrupt();
            }
            if left == 0 {
                return;
            }
        }
    }

    /// Waits for an interrupt and takes it.
    pub(crate) fn halt(&self) {
        let mode = self.set_mode(Mode::Idle);
        let cpu = self.this();
        cpu.blocked.set(true);
        self.suspend(Self::next_interrupt(cpu));
        cpu.blocked.set(false);
        if self.clock.get() >= Self::next_interrupt(cpu) {
            self.interrupt();
        }
        self.set_mode(mode);
    }

    // ---- memory -----------------------------------------------------------------------------------------------

    #[inline(always)]
    pub(crate) fn offset<T: ?Sized>(&self, object: &T) -> usize {
        core::ptr::from_ref(object).cast::<u8>().addr().wrapping_sub(self.base)
    }

    /// One read of the word at `offset`.
    #[inline(always)]
    pub(crate) fn read(&self, offset: usize) {
        self.ops.set(self.ops.get() + 1);
        let owner = self.lines.at(offset).owner.get() as usize;
        if owner == self.cpu.get() + 1 && self.clock.get() <= self.far.get() {
            self.clock.set(self.clock.get() + self.hit);
        } else {
            self.read_slow(offset);
        }
    }

    /// One write, or read-modify-write when `locked`, of the word at `offset`.
    #[inline(always)]
    pub(crate) fn write(&self, offset: usize, locked: bool) {
        self.ops.set(self.ops.get() + 1);
        let owner = self.lines.at(offset).owner.get() as usize;
        let price = self.hit + if locked { self.atomic } else { 0 };
        if owner == self.cpu.get() + 1 && self.clock.get() <= self.far.get() {
            self.clock.set(self.clock.get() + price);
        } else {
            self.write_slow(offset, price);
        }
    }

    /// Waits until this CPU may use the line at `offset`: strictly in turn, unless it owns it.
    fn turn(&self, offset: usize) {
        let line = self.lines.at(offset);
        let owned = line.owner.get() as usize == self.cpu.get() + 1;
        let limit = if owned { self.far.get() } else { self.near.get() };
        if self.clock.get() > limit {
            self.pause();
        }
    }

    #[inline(never)]
    fn read_slow(&self, offset: usize) {
        self.turn(offset);
        let line = self.lines.at(offset);
        let cpu = self.cpu.get();
        if !self.lines.readable(line, cpu) {
            self.clock.set(self.lines.fetch(line, offset, cpu, self.clock.get()));
        }
        self.clock.set(self.clock.get() + self.hit);
    }

    #[inline(never)]
    fn write_slow(&self, offset: usize, price: u64) {
        self.turn(offset);
        let line = self.lines.at(offset);
        let cpu = self.cpu.get();
        if line.owner.get() as usize != cpu + 1 {
            self.clock.set(self.lines.own(line, offset, cpu, self.clock.get()));
        }
        self.clock.set(self.clock.get() + price);
        let mut spinner = line.spinner.replace(0) as usize;
        while spinner != 0 {
            let other = &self.cpus[spinner - 1];
            if spinner - 1 != cpu {
                self.set_other(spinner - 1, other.clock.get().max(self.clock.get()));
            }
            spinner = other.spin_next.replace(0) as usize;
        }
    }

    /// Announces use of `bytes` bytes at `offset`.
    pub(crate) fn touch(&self, offset: usize, bytes: usize, access: Access) {
        let end = offset + bytes.max(1);
        let mut at = offset;
        while at < end {
            match access {
                Access::Read => self.read(at),
                Access::Write => self.write(at, false),
                Access::Fresh => self.lines.adopt(self.lines.at(at), self.cpu.get()),
            }
            at = (at / crate::memory::LINE + 1) * crate::memory::LINE;
        }
    }

    /// Blocks until the line at `offset` is written or an interrupt has been taken.
    pub(crate) fn spin(&self, offset: usize) {
        let mode = self.set_mode(Mode::Spin);
        let line = self.lines.at(offset);
        let index = self.cpu.get();
        let cpu = &self.cpus[index];
        cpu.spin_next.set(line.spinner.replace(index as u16 + 1));
        cpu.blocked.set(true);
        self.suspend(Self::next_interrupt(cpu));
        cpu.blocked.set(false);
        self.unlink_spinner(offset, index as u16 + 1);
        self.set_mode(mode);
        if self.clock.get() >= Self::next_interrupt(cpu) {
            self.interrupt();
        }
    }

    fn unlink_spinner(&self, offset: usize, tag: u16) {
        let mut link = &self.lines.at(offset).spinner;
        while link.get() != 0 && link.get() != tag {
            link = &self.cpus[link.get() as usize - 1].spin_next;
        }
        if link.get() == tag {
            link.set(self.cpus[tag as usize - 1].spin_next.replace(0));
        }
    }

    // ---- interrupts -------------------------------------------------------------------------------------------

    fn interrupt(&self) {
        let cpu = self.this();
        let now = self.clock.get();
        let cause = Interrupt { timer: cpu.timer.get() <= now, ipi: cpu.ipi.get() <= now };
        if cause.timer {
            cpu.timer.set(u64::MAX);
        }
        if cause.ipi {
            cpu.ipi.set(u64::MAX);
        }
        let mode = self.set_mode(Mode::Interrupt);
        self.irq_disable();
        self.pass(self.interrupt_price);
        self.os().interrupt(cause);
        cpu.irq_off.set(cpu.irq_off.get() - 1);
        self.limits();
        self.set_mode(Mode::System);
        self.os().interrupt_return(mode == Mode::User);
        self.set_mode(mode);
    }

    #[inline]
    pub(crate) fn irq_disable(&self) {
        let cpu = self.this();
        cpu.irq_off.set(cpu.irq_off.get() + 1);
        if cpu.irq_off.get() == 1 {
            self.limits();
        }
    }

    #[inline]
    pub(crate) fn irq_enable(&self) {
        let cpu = self.this();
        cpu.irq_off.set(cpu.irq_off.get() - 1);
        if cpu.irq_off.get() == 0 {
            if self.clock.get() >= Self::next_interrupt(cpu) && !self.yielder.get().is_null() {
                self.interrupt();
            }
            self.limits();
        }
    }

    /// Sets the timer of the running CPU to fire at `at` picoseconds; `u64::MAX` stops it.
    pub(crate) fn set_timer(&self, at: u64) {
        self.this().timer.set(at);
        self.limits();
    }

    /// Sends an inter-processor interrupt that arrives at `at`.
    pub(crate) fn kick(&self, cpu: usize, at: u64) {
        let target = &self.cpus[cpu];
        target.ipi.set(target.ipi.get().min(at));
        if cpu == self.cpu.get() {
            self.limits();
        } else if target.blocked.get() && target.irq_off.get() == 0 {
            let key = self.tree.borrow().key(cpu).min(at.max(target.clock.get()));
            self.set_other(cpu, key);
        }
    }

    // ---- accounting -------------------------------------------------------------------------------------------

    /// Changes what the running CPU's time is accounted to; returns the former mode.
    pub(crate) fn set_mode(&self, mode: Mode) -> Mode {
        let cpu = self.this();
        let now = self.clock.get();
        let old = cpu.mode.replace(mode);
        let mut times = cpu.times.get();
        times[old as usize] += now.saturating_sub(cpu.mode_since.replace(now));
        cpu.times.set(times);
        old
    }

    /// Times of `cpu` up to its last change of mode.
    pub(crate) fn times(&self, cpu: usize) -> CpuTimes {
        self.cpus[cpu].times.get()
    }

    // ---- tasks ------------------------------------------------------------------------------------------------

    /// Creates a task that has not started; `None` when every stack is taken.
    pub(crate) fn spawn(&self, body: Box<dyn FnOnce()>) -> Option<TaskId> {
        let stack = self.region.take_stack()?;
        let mut slots = self.slots.borrow_mut();
        let id = self.free_slots.borrow_mut().pop().unwrap_or(slots.len() as TaskId);
        let task = Box::new(Task::with_stack(stack, move |yielder, ()| {
            let engine = engine();
            engine.yielder.set(yielder);
            engine.slots.borrow_mut()[id as usize].yielder = yielder;
            engine.os().task_start(id);
            body();
            engine.os().task_end(id);
        }));
        let slot = Slot { task: Some(task), yielder: core::ptr::null(), dead: false };
        if id as usize == slots.len() {
            slots.push(slot);
        } else {
            slots[id as usize] = slot;
        }
        Some(id)
    }

    /// Gives `cpu` its first task; it starts at time `at`.
    pub(crate) fn boot(&self, cpu: usize, task: TaskId, at: u64) {
        self.cpus[cpu].task.set(task);
        self.cpus[cpu].clock.set(at);
        self.cpus[cpu].mode_since.set(at);
        self.tree.borrow_mut().set(cpu, at);
    }

    /// Switches the running CPU to `next`; returns when the calling task is switched to again, maybe elsewhere.
    pub(crate) fn switch_to(&self, next: TaskId) {
        let cpu = self.this();
        let prev = cpu.task.replace(next);
        self.watches.switched(prev, next, self.clock.get());
        self.suspend(self.clock.get());
    }

    /// Like [`Self::switch_to`], but the calling task ends: it must return from its body or call [`Self::vanish`].
    pub(crate) fn retire(&self, next: TaskId) {
        let cpu = self.this();
        let prev = cpu.task.replace(next);
        self.watches.switched(prev, next, self.clock.get());
        self.slots.borrow_mut()[prev as usize].dead = true;
        cpu.clock.set(self.clock.get());
        self.tree.borrow_mut().set(self.cpu.get(), self.clock.get());
    }

    /// Ends a retired task in the middle of its body; its stack is unwound.
    pub(crate) fn vanish(&self) -> ! {
        self.suspend(self.clock.get());
        unreachable!("a retired task is never resumed")
    }

    pub(crate) fn stop(&self) {
        self.stop.set(true);
        // Everybody is later than now: the engine gets control at the next scheduling point.
        self.near.set(0);
        self.far.set(0);
        self.suspend(self.clock.get());
    }

    /// Runs until somebody calls [`Self::stop`], nothing is left, or virtual time passes `until`.
    pub(crate) fn run(&self, until: u64) -> Outcome {
        loop {
            if self.stop.get() {
                return Outcome::Stopped;
            }
            let (cpu, key) = self.tree.borrow().first();
            if key == u64::MAX {
                return Outcome::Quiescent;
            }
            if key > until {
                return Outcome::TimeLimit;
            }
            self.resume(cpu, key);
        }
    }

    fn resume(&self, cpu: usize, key: u64) {
        self.cpu.set(cpu);
        self.clock.set(key.max(self.cpus[cpu].clock.get()));
        self.limits();
        let id = self.cpus[cpu].task.get();
        self.note(self.clock.get() ^ (cpu as u64) << 48 ^ (id as u64) << 24);
        self.resumes.set(self.resumes.get() + 1);
        let task: *mut Task = {
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[id as usize];
            self.yielder.set(slot.yielder);
            &raw mut **slot.task.as_mut().expect("a CPU runs only tasks that have not ended")
        };
        // SAFETY: the boxed coroutine stays where it is while it runs: a slot is freed only below, when it is not running.
        let result = unsafe { (*task).resume(()) };
        let dead = self.slots.borrow()[id as usize].dead;
        if dead || matches!(result, CoroutineResult::Return(())) {
            self.bury(id);
        }
    }

    /// Frees the coroutine of a task that has ended.
    fn bury(&self, id: TaskId) {
        self.yielder.set(core::ptr::null());
        self.near.set(u64::MAX);
        self.far.set(u64::MAX);
        let task = self.slots.borrow_mut()[id as usize].task.take();
        drop(task);
        self.free_slots.borrow_mut().push(id);
    }

    /// Frees coroutines that never ended. Their stacks are dropped without unwinding, because a guard on them would
    /// act on a machine that no longer runs; what they own on the host's heap is leaked.
    pub(crate) fn abandon(&self) {
        for slot in self.slots.borrow_mut().iter_mut() {
            if let Some(mut task) = slot.task.take()
                && task.started()
                && !task.done()
            {
                // SAFETY: the stack holds no borrow that outlives it: tasks own what they use or
                // share it by `Rc`, and leaking those is safe.
                unsafe { task.force_reset() };
            }
        }
    }

    pub(crate) fn place<T>(&self, value: T) -> Sim<T> {
        Sim::place(&self.region, value)
    }

    /// A deterministic draw keyed by the machine's seed.
    pub(crate) fn draw(&self, key: u64) -> u64 {
        mix(key ^ self.seed)
    }
}

impl Cpu {
    fn new() -> Self {
        Self {
            clock: Cell::new(0),
            task: Cell::new(TaskId::MAX),
            irq_off: Cell::new(0),
            preempt_off: Cell::new(0),
            timer: Cell::new(u64::MAX),
            ipi: Cell::new(u64::MAX),
            blocked: Cell::new(false),
            spin_next: Cell::new(0),
            mode: Cell::new(Mode::System),
            mode_since: Cell::new(0),
            times: Cell::new([0; 5]),
        }
    }

    pub(crate) fn irqs_off(&self) -> bool {
        self.irq_off.get() > 0
    }
}
