//! The CPUs in virtual time: which one runs, its clock, and how far it may go before another acts.

use super::cores::{Cores, Threads, works};
use super::cpu::Cpu;
use super::mode::Mode;
use crate::entry::{Hot, Line, quick_since};
use crate::preset::{Preset, ps};
use crate::tree::{Tree, Turn};
use convoy_sync::TaskId;
use core::cell::Cell;
use corosensei::Yielder;

/// A line that has not moved for this many skews counts as private. With less, CPUs that take a
/// line from each other all the time would each use it for a whole skew at no cost.
const SETTLE_SKEWS: u64 = 10;

/// All CPUs, and the state of the running one.
pub(crate) struct Cpus {
    /// Of the running CPU, as the limits, which are times before which no other CPU has to act: in
    /// any case, and when running ahead.
    pub(super) clock: Cell<u64>,
    near: Cell<u64>,
    pub(super) far: Cell<u64>,
    /// The same without the running CPU's own next interrupt.
    pub(super) others_near: Cell<u64>,
    others_far: Cell<u64>,
    running: Cell<usize>,
    /// Its number + 1, as lines name it.
    tag: Cell<u16>,
    /// Its state, in `all`.
    this: Cell<*const Cpu>,
    pub(crate) all: Box<[Cpu]>,
    /// When each acts next.
    pub(super) tree: Tree,
    pub(super) cores: Cores,
    /// What suspends the running task; null while none runs.
    pub(super) yielder: Cell<*const Yielder<(), ()>>,
    /// Hash of the schedule so far.
    pub(crate) hash: Cell<u64>,
    skew: u64,
    /// How long a line must have stayed before run-ahead over it is allowed.
    settle: u64,
}

/// The schedule hash `hash` with `value` added.
#[inline(always)]
pub(super) fn noted(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x100_0000_01b3).rotate_left(23)
}

/// What goes into the schedule hash when it is the turn of `cpu` at `now`, which runs `task`.
#[inline(always)]
pub(super) fn schedule(now: u64, cpu: usize, task: TaskId) -> u64 {
    now ^ (cpu as u64) << 48 ^ u64::from(task) << 24
}

impl Cpus {
    pub(super) fn new(preset: &Preset) -> Self {
        let all: Box<[Cpu]> = (0..preset.topology.cpus).map(|_| Cpu::new()).collect();
        Self {
            clock: Cell::new(0),
            near: Cell::new(u64::MAX),
            far: Cell::new(u64::MAX),
            others_near: Cell::new(u64::MAX),
            others_far: Cell::new(u64::MAX),
            running: Cell::new(0),
            tag: Cell::new(1),
            this: Cell::new(&raw const all[0]),
            tree: Tree::new(all.len()),
            all,
            cores: Cores::new(preset),
            yielder: Cell::new(core::ptr::null()),
            hash: Cell::new(0xcbf2_9ce4_8422_2325),
            skew: ps(preset.skew_ns),
            settle: ps(preset.skew_ns) * SETTLE_SKEWS,
        }
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        self.clock.get()
    }

    /// The number of the running CPU.
    #[inline(always)]
    pub(crate) fn running(&self) -> usize {
        self.running.get()
    }

    #[inline(always)]
    pub(crate) fn this(&self) -> &Cpu {
        // SAFETY: `run` took the pointer from `all`, which never changes its length.
        unsafe { &*self.this.get() }
    }

    /// The core of the running CPU.
    #[inline(always)]
    pub(crate) fn core(&self) -> usize {
        self.cores.of(self.running())
    }

    /// Adds `value` to the schedule hash.
    #[inline]
    pub(crate) fn note(&self, value: u64) {
        self.hash.set(noted(self.hash.get(), value));
    }

    /// `cpu`, number `index`, is the running one, at `now`.
    #[inline(always)]
    pub(super) fn run(&self, cpu: &Cpu, index: usize, now: u64) {
        self.running.set(index);
        self.tag.set(index as u16 + 1);
        self.this.set(cpu);
        self.clock.set(now);
    }

    /// The CPU of `turn` is the running one.
    #[inline]
    pub(super) fn begin(&self, turn: Turn) -> &Cpu {
        let this = &self.all[turn.cpu()];
        self.run(this, turn.cpu(), turn.at().max(this.clock.get()));
        self.note(schedule(self.now(), turn.cpu(), this.task.get()));
        this
    }

    /// `ps` picoseconds pass at any speed of the core.
    #[inline(always)]
    pub(super) fn advance(&self, ps: u64) {
        self.clock.set(self.now() + ps);
    }

    /// Kernel instructions that touch no shared line: time passes, nothing else happens.
    #[inline]
    pub(crate) fn pass(&self, ps: u64) {
        self.advance(self.stretched(ps));
    }

    /// Time for `ps` picoseconds of work at full speed that nothing interrupts.
    #[inline(always)]
    pub(super) fn stretched(&self, ps: u64) -> u64 {
        self.cores.stretched(ps, self.running(), &self.all)
    }

    /// Returns whether this CPU may use `line` now without checking the other CPUs: it is the
    /// `holder` of the line and either the earliest CPU, or ahead by less than the skew while the
    /// line has not moved recently. A line that CPUs take from each other is used strictly in turn.
    #[inline(always)]
    pub(super) fn in_turn(&self, line: Line<'_>, holder: u16) -> bool {
        holder == self.tag.get()
            && (self.is_first()
                || self.now() <= self.far.get() && self.now() >= line.busy() + self.settle)
    }

    /// Whether an access to the line of `hot` now costs a hit and changes nothing but the clock.
    /// Does not find it for some nanoseconds after the line has stayed for long enough.
    #[inline(always)]
    pub(super) fn at_once(&self, hot: &Hot) -> bool {
        quick_since(hot, self.tag.get()).is_some_and(|since| {
            self.is_first() || self.now() <= self.far.get() && self.now() >= since + self.settle
        })
    }

    /// Whether no other CPU has to act before this one, nor an interrupt.
    #[inline(always)]
    pub(super) fn is_first(&self) -> bool {
        self.now() <= self.near.get()
    }

    /// Recomputes how far the running CPU may go; `look` is the first look of a spinning one.
    #[inline]
    pub(super) fn limits(&self, look: Turn) {
        let (near, far) = self.limits_by(self.tree.first_other(self.running()).earlier(look));
        self.others_near.set(near);
        self.others_far.set(far);
        self.limit_interrupt();
    }

    /// Returns how far the running CPU may go before `other` has to act: in any case, and when
    /// running ahead.
    #[inline]
    fn limits_by(&self, other: Turn) -> (u64, u64) {
        let first = other.cpu() < self.running();
        (other.at().saturating_sub(u64::from(first)), other.at().saturating_add(self.skew))
    }

    /// The running CPU may not pass `other` either.
    #[inline]
    pub(super) fn limit(&self, other: Turn) {
        let (near, far) = self.limits_by(other);
        self.others_near.set(self.others_near.get().min(near));
        self.others_far.set(self.others_far.get().min(far));
        self.near.set(self.near.get().min(near));
        self.far.set(self.far.get().min(far));
    }

    /// Of the limits, only the interrupt of the running CPU has changed.
    #[inline]
    pub(super) fn limit_interrupt(&self) {
        let irq = self.this().next_interrupt().saturating_sub(1);
        self.near.set(self.others_near.get().min(irq));
        self.far.set(self.others_far.get().min(irq));
    }

    /// All CPUs are later than now: the engine gets control at the next scheduling point.
    pub(super) fn limit_now(&self) {
        self.near.set(0);
        self.far.set(0);
    }

    /// No task runs, so nothing waits for its turn.
    pub(super) fn leave(&self) {
        self.yielder.set(core::ptr::null());
        self.near.set(u64::MAX);
        self.far.set(u64::MAX);
    }

    /// Whether a task runs, which may wait for virtual time.
    #[inline(always)]
    pub(super) fn in_task(&self) -> bool {
        !self.yielder.get().is_null()
    }

    /// Gives `cpu` (not the running one) the key `key`.
    pub(super) fn set_other(&self, cpu: usize, key: u64) {
        debug_assert_ne!(cpu, self.running());
        self.tree.set(cpu, key);
        self.limit(Turn::new(key, cpu));
    }

    /// The running CPU acts next at `key`, with its clock as it is.
    #[inline(always)]
    pub(super) fn set_next(&self, key: u64) {
        self.this().clock.set(self.now());
        self.tree.set(self.running(), key);
    }

    /// Leaves the CPU to the others until `key`.
    ///
    /// Inlined, because the host's processor mispredicts a return after the switch: it has not seen
    /// the matching call.
    #[inline(always)]
    pub(super) fn suspend(&self, key: u64) {
        self.set_next(key);
        let yielder = self.yielder.get();
        assert!(!yielder.is_null(), "only a task may wait for virtual time");
        // SAFETY: the yielder belongs to the coroutine we are on (set by `resume`), which is alive
        // while it runs.
        unsafe { (*yielder).suspend(()) };
    }

    /// The same, but an interrupt or a change of speed may end it early.
    #[inline(always)]
    pub(super) fn block(&self, key: u64) {
        let cpu = self.this();
        cpu.blocked.set(true);
        self.suspend(key);
        cpu.blocked.set(false);
    }

    #[inline]
    pub(crate) fn irq_disable(&self) {
        let cpu = self.this();
        let depth = cpu.irq_off.get();
        cpu.irq_off.set(depth + 1);
        if depth == 0 {
            self.near.set(self.others_near.get());
            self.far.set(self.others_far.get());
        }
    }

    /// Sets the timer of the running CPU to fire at `at` picoseconds; `u64::MAX` stops it.
    pub(crate) fn set_timer(&self, at: u64) {
        self.this().timer.set(at);
        self.limit_interrupt();
    }

    /// Sends an inter-processor interrupt that arrives at `at`.
    pub(crate) fn kick(&self, cpu: usize, at: u64) {
        let target = &self.all[cpu];
        target.ipi.set(target.ipi.get().min(at));
        if cpu == self.running() {
            self.limit_interrupt();
        } else if target.blocked.get() && target.irq_off.get() == 0 {
            let key = self.tree.key(cpu).min(at.max(target.clock.get()));
            self.set_other(cpu, key);
        }
    }

    /// The running CPU, `cpu`, waits for the next write of `line`.
    #[inline]
    pub(super) fn link(&self, line: Line<'_>, cpu: &Cpu) {
        cpu.spin_next.set(line.spinner.replace(self.running() as u16 + 1));
        cpu.linked.set(true);
        if self.cores.threads().is_some() {
            // A sibling that has the line must see the spinner when it writes.
            line.set_quick(0);
        }
    }

    /// CPU `index` does not wait for `line` any more, if it did.
    #[inline]
    pub(super) fn unlink(&self, line: Line<'_>, index: usize) {
        if self.all[index].linked.replace(false) {
            self.unlink_linked(line, index);
        }
    }

    #[cold]
    fn unlink_linked(&self, line: Line<'_>, index: usize) {
        let tag = index as u16 + 1;
        let mut link = &line.spinner;
        while link.get() != tag {
            link = &self.all[link.get() as usize - 1].spin_next;
        }
        link.set(self.all[index].spin_next.replace(0));
    }

    /// See [`Cores::mark`]; the running CPU has just used `line`.
    #[inline(always)]
    pub(super) fn mark(&self, line: Line<'_>, before: u16) {
        self.cores.mark(line, before, self.running(), self.now());
    }

    /// The running CPU's mode has changed from `old`: its siblings may be faster or slower now.
    #[inline]
    pub(super) fn mode_changed(&self, old: Mode, mode: Mode) {
        if let Some(threads) = self.cores.threads()
            && works(old) != works(mode)
        {
            self.share_core(threads);
        }
    }

    #[cold]
    fn share_core(&self, threads: &Threads) {
        let now = self.now();
        for sibling in threads.siblings(self.running(), self.all.len()) {
            let (cpu, stretch) = (&self.all[sibling], &threads.stretches[sibling]);
            if stretch.active.get() {
                debug_assert!(cpu.blocked.get(), "a stretch of a CPU that works");
                stretch.advance(now);
                stretch.speed.set(threads.speed(sibling, &self.all));
                let end = stretch.end().max(cpu.clock.get());
                self.set_other(sibling, end.min(cpu.next_interrupt()));
            }
        }
    }
}
