//! Coroutines: creating, switching, ending, and the loop that resumes them.

use super::cpu::{Cpu, Task};
use super::mode::{Mode, Outcome};
use super::time::schedule;
use super::{Engine, engine};
use crate::line::mix;
use crate::memory::{LINE, Sim};
use crate::trace::Event;
use crate::tree::Turn;
use convoy_sync::TaskId;
use corosensei::CoroutineResult;

/// Lines of its stack that a task uses when it resumes. More would only drive others out of the
/// host's caches (measured: with 10, 6 % less speed at 2000 tasks).
const EXPECTED_LINES: usize = 6;

/// Fetches `lines` lines from `at` on into the caches of the host.
#[inline]
pub(crate) fn fetch(at: *const u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..lines {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, of any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line * LINE).cast()) };
    }
}

/// Where the stack of the caller will end when it is suspended: three words below where it does.
#[inline(always)]
fn top() -> *const u8 {
    #[cfg(target_arch = "x86_64")]
    {
        let top: *const u8;
        // SAFETY: reads a register and does nothing else.
        unsafe {
            core::arch::asm!(
                "lea {}, [rsp - 24]",
                out(reg) top,
                options(nomem, nostack, preserves_flags)
            );
        }
        top
    }
    #[cfg(not(target_arch = "x86_64"))]
    core::ptr::null()
}

impl Engine {
    /// Creates a task that has not started; `None` when every stack is taken.
    pub(crate) fn spawn(&self, body: Box<dyn FnOnce()>, idle: bool) -> Option<TaskId> {
        let stack = self.region.take_stack()?;
        let id = stack.slot() as TaskId;
        self.progress();
        let task = Task::with_stack(stack, move |yielder, ()| {
            let engine = engine();
            engine.yielder.set(yielder);
            engine.slots[id as usize].yielder.set(yielder);
            engine.os().task_start(id);
            body();
            engine.os().task_end(id);
        });
        let slot = &self.slots[id as usize];
        slot.yielder.set(core::ptr::null());
        slot.idle.set(idle);
        // SAFETY: the last task of this slot has given its stack back, so its coroutine is gone and
        // nobody refers to the cell.
        unsafe { *slot.task.get() = Some(task) };
        Some(id)
    }

    /// Gives `cpu` its first task; it starts at time `at`.
    pub(crate) fn boot(&self, cpu: usize, task: TaskId, at: u64) {
        self.assign(&self.cpus[cpu], task);
        self.cpus[cpu].clock.set(at);
        self.cpus[cpu].mode_since.set(at);
        self.tree.set(cpu, at);
    }

    /// Switches the running CPU to `next`; returns when the calling task is switched to again,
    /// maybe elsewhere.
    #[inline]
    pub(crate) fn switch_to(&self, next: TaskId) {
        let prev = self.this().task.get();
        let slot = &self.slots[prev as usize];
        slot.top.set(top());
        self.slots[self.left.replace(prev) as usize].after.set(prev);
        self.change(next);
        self.suspend(self.clock.get());
    }

    /// `next` takes the place of the task of the running CPU.
    fn change(&self, next: TaskId) {
        let cpu = self.this();
        let prev = cpu.task.get();
        self.slots[prev as usize].running.set(false);
        self.tell(|| Event::Switch { prev, next });
        self.assign(cpu, next);
        self.watches.switched(prev, next, self.clock.get());
        self.release_askers(prev);
    }

    /// Runs the idle task of `this`, the CPU in turn. It needs no limits, as nothing that it does
    /// waits for its turn.
    fn idle(&self, this: &Cpu) {
        self.yielder.set(core::ptr::null());
        if this.blocked.replace(false) {
            if self.clock.get() >= Self::next_interrupt(this) {
                self.interrupt();
            }
            self.set_mode(this.idle_mode.get());
        }
        let key = if let Some(next) = self.os().idle_next() {
            self.change(next);
            self.clock.get()
        } else {
            this.idle_mode.set(self.set_mode(Mode::Idle));
            this.blocked.set(true);
            Self::next_interrupt(this)
        };
        this.clock.set(self.clock.get());
        self.tree.set(self.cpu.get(), key);
    }

    /// Prefetches into the host's caches the data of `task`, which will run soon, and of the task
    /// that left its CPU after it, which will probably be next.
    #[inline]
    pub(crate) fn expect(&self, task: TaskId) -> [TaskId; 2] {
        let next = self.slots[task as usize].after.get();
        let slot = &self.slots[next as usize];
        fetch(slot.top.get(), EXPECTED_LINES);
        fetch(slot.yielder.get().cast(), 1);
        let after = slot.after.get();
        fetch((&raw const self.slots[after as usize]).cast(), 1);
        [next, after]
    }

    /// See [`Here::fetch_word`](crate::Here::fetch_word).
    #[inline]
    pub(crate) fn fetch_word(&self, offset: usize) {
        fetch(self.lines.place(offset), 1);
        fetch(core::ptr::without_provenance(self.base.wrapping_add(offset)), 1);
    }

    /// Like [`Self::switch_to`], but the calling task ends: it must return from its body or call
    /// [`Self::vanish`].
    pub(crate) fn retire(&self, next: TaskId) {
        let cpu = self.this();
        let prev = cpu.task.get();
        self.tell(|| Event::Switch { prev, next });
        self.progress();
        self.assign(cpu, next);
        self.watches.switched(prev, next, self.clock.get());
        self.dead.set(prev);
        cpu.clock.set(self.clock.get());
        self.tree.set(self.cpu.get(), self.clock.get());
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

    /// Runs until [`Self::stop`] is called, all work is done, or virtual time passes `until`.
    pub(crate) fn run(&self, until: u64) -> Outcome {
        if self.watchdog.start(until) {
            self.stop.set(false);
        }
        let outcome = loop {
            if self.stop.get() {
                break self.watchdog.verdict.get().unwrap_or(Outcome::Stopped);
            }
            // Most looks come before anything else does. Who writes a word goes on at the time at
            // which half of those that spin on it look, so the order within a time matters.
            let first = self.tree.first();
            let stop = until.min(self.watchdog.check_at.get()).min(self.observer.at());
            let limit = first.earlier(Turn::new(stop, 0));
            if let Some(cpu) = self.look_before(limit) {
                self.go_on(cpu);
                continue;
            }
            let look = self.looks.first();
            let looks = look <= first && look.at() <= until;
            let next = if looks {
                self.looks.pop();
                look
            } else {
                first
            };
            if next.at() > until.min(u64::MAX - 1) {
                let never = next.at() == u64::MAX;
                break if never { Outcome::Quiescent } else { Outcome::TimeLimit };
            }
            if next.at() >= self.observer.at() {
                self.observer.look_until(next.at(), &self.clock);
            }
            self.act(next, looks);
        };
        // Whoever looks at simulated memory after the run is on no coroutine that could suspend.
        self.yielder.set(core::ptr::null());
        outcome
    }

    /// Lets the earliest CPU act; with `looks` it reads its spin word again.
    #[inline]
    fn act(&self, turn: Turn, looks: bool) {
        let this = self.begin(turn);
        self.patrol();
        if let Some(spin) = this.spin.get()
            && self.clock.get() < Self::next_interrupt(this)
        {
            if spin.polls {
                let goes_on =
                    if looks { self.look(this, &spin) } else { self.poll_ends(this, turn.cpu()) };
                if !goes_on {
                    return;
                }
            } else {
                self.unlink_spinner(self.lines.at(spin.offset), turn.cpu());
                if !self.look(this, &spin) {
                    return self.tree.set(turn.cpu(), Self::next_interrupt(this));
                }
            }
        }
        self.go_on(this);
    }

    /// The CPU of `turn` is the running one.
    #[inline]
    pub(super) fn begin(&self, turn: Turn) -> &Cpu {
        let (cpu, key) = (turn.cpu(), turn.at());
        let this = &self.cpus[cpu];
        self.cpu.set(cpu);
        self.this.set(this);
        self.clock.set(key.max(this.clock.get()));
        self.note(schedule(self.clock.get(), cpu, this.task.get()));
        this
    }

    /// Resumes the task of the running CPU.
    #[inline]
    fn go_on(&self, this: &Cpu) {
        if this.idle.get() && self.idles.get() {
            self.idle(this);
        } else {
            self.resume(this);
        }
    }

    #[inline]
    fn resume(&self, this: &Cpu) {
        self.limits();
        self.resumes.set(self.resumes.get() + 1);
        // SAFETY: `assign` took the pointer from `slots`, which stay where they are.
        let slot = unsafe { &*this.slot.get() };
        self.yielder.set(slot.yielder.get());
        // SAFETY: nobody else uses the coroutine: no CPU runs it but this one, and `bury` drops it
        // below only, when it has ended.
        let task = unsafe { (*slot.task.get()).as_mut() };
        let result = task.expect("a CPU runs only tasks that have not ended").resume(());
        let dead = self.dead.replace(TaskId::MAX);
        if dead != TaskId::MAX {
            self.bury(dead);
        } else if matches!(result, CoroutineResult::Return(())) {
            unreachable!("a task ends through `retire`");
        }
    }

    /// Makes `cpu` run `task`, which no CPU runs.
    fn assign(&self, cpu: &Cpu, task: TaskId) {
        let slot = &self.slots[task as usize];
        assert!(!slot.running.replace(true), "the scheduler gave task {task} to two CPUs");
        cpu.slot.set(slot);
        cpu.task.set(task);
        cpu.idle.set(slot.idle.get());
    }

    /// Frees the coroutine of a task that has ended.
    fn bury(&self, id: TaskId) {
        self.yielder.set(core::ptr::null());
        self.near.set(u64::MAX);
        self.far.set(u64::MAX);
        let slot = &self.slots[id as usize];
        slot.running.set(false);
        // SAFETY: the coroutine has ended, so nobody else uses the cell.
        let task = unsafe { (*slot.task.get()).take() };
        drop(task);
    }

    /// Frees coroutines that never ended. Their stacks are dropped without unwinding, because a
    /// guard on them would act on a machine that has stopped; their allocations on the host's heap
    /// are leaked.
    pub(crate) fn abandon(&self) {
        for slot in &self.slots {
            // SAFETY: the machine has stopped: no coroutine runs.
            let task = unsafe { (*slot.task.get()).take() };
            if let Some(mut task) = task
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
