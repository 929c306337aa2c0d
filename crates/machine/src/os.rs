//! The operating system, as the machine calls it.

use crate::word::Word;
use convoy_sync::{Sleep, TaskId, Wake};

/// The causes of an interrupt, both of which may be true, and the interrupted mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// The CPU's timer has fired; the handler sets it again.
    pub timer: bool,
    /// Another CPU sent an inter-processor interrupt.
    pub ipi: bool,
    /// It interrupted user-mode work.
    pub user: bool,
}

/// What code runs in, as far as interrupts matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent counts")]
pub struct Context {
    /// In the handler of an interrupt.
    pub hardirq: bool,
    /// In the handler of a software interrupt.
    pub softirq: bool,
    /// Software interrupts cannot start here: one runs, or they are disabled.
    pub bh_off: bool,
    /// Interrupts are disabled.
    pub irqs_off: bool,
}

impl Context {
    /// `in_interrupt`: no task runs here, or bottom halves are disabled.
    #[inline]
    #[must_use]
    pub fn in_interrupt(self) -> bool {
        self.hardirq || self.bh_off
    }
}

/// The operating system. All functions run on the coroutine of the task that is current on the
/// calling CPU.
pub trait Os {
    /// The body of an idle task ([`Here::spawn_idle`](crate::Here::spawn_idle)); never returns.
    /// Not called when the engine idles by itself.
    fn idle(&self) {
        unreachable!("the engine idles by itself or the operating system does");
    }

    /// Whether the engine idles by itself: it then asks [`Self::idle_next`] in the place of running
    /// the idle task, which saves the switches to its coroutine. For operating systems with an
    /// [`Self::interrupt`] that does not use simulated memory.
    fn engine_idles(&self) -> bool {
        false
    }

    /// Returns the next task of this idle CPU; if there is none, the CPU waits for an interrupt,
    /// takes it, and asks again.
    fn idle_next(&self) -> Option<TaskId> {
        None
    }

    /// The body of the kernel thread `task` ([`Here::spawn_kthread`](crate::Here::spawn_kthread)).
    fn kthread(&self, task: TaskId) {
        panic!("task {task}: this operating system has no kernel threads");
    }

    /// First thing a new task does, on its own stack: completes the switch to it.
    fn task_start(&self, task: TaskId);

    /// The body of `task` has returned. Must end with [`Here::retire`](crate::Here::retire).
    fn task_end(&self, task: TaskId);

    /// Handles an interrupt, with interrupts disabled. Must not switch tasks.
    fn interrupt(&self, cause: Interrupt);

    /// Called when the handler is done and interrupts are enabled, where a task may be preempted.
    /// `user` is true if user mode was interrupted.
    fn interrupt_return(&self, user: bool);

    /// Puts the current task to sleep on the word at simulated address `word` while `holds` is
    /// true. The task must be findable by [`Self::wake`] before `holds` is evaluated.
    fn wait(
        &self,
        word: usize,
        holds: &dyn Fn() -> bool,
        sleep: Sleep,
        deadline: Option<u64>,
    ) -> Wake;

    /// Wakes up to `count` sleepers of `word`, first come first woken.
    fn wake(&self, word: usize, count: usize);

    /// The system call with which a task in user mode sleeps while `word` holds `expected`
    /// (`FUTEX_WAIT`).
    fn user_wait(
        &self,
        word: &Word<u32>,
        expected: u32,
        sleep: Sleep,
        deadline: Option<u64>,
    ) -> Wake {
        let at = core::ptr::from_ref(word);
        panic!("no futexes: {at:?} shall hold {expected}, {sleep:?} until {deadline:?}");
    }

    /// The system call that wakes up to `count` tasks that sleep on `word` (`FUTEX_WAKE`).
    fn user_wake(&self, word: *const Word<u32>, count: usize) {
        panic!("no futexes: {count} sleepers on {word:?} are wanted");
    }

    /// A system call that does almost no work.
    fn user_call(&self) {
        panic!("this operating system has no such call");
    }

    /// Returns whether tasks in user mode may ask for a longer time slice.
    fn offers_extension(&self) -> bool {
        false
    }

    /// The system call that ends an extension of the time slice (`rseq_slice_yield`).
    fn user_slice_yield(&self) {
        panic!("this operating system extends no time slices");
    }

    /// The system call with which a task in user mode lets others run (`sched_yield`).
    fn user_yield(&self) {
        panic!("this operating system has no sched_yield");
    }

    /// Whether a signal is pending for the current task that ends `sleep`.
    fn signal_pending(&self, sleep: Sleep) -> bool;

    /// Whether a timer or device will make some task ready by itself: without that, a machine on
    /// which no task runs is deadlocked.
    fn expects(&self) -> bool {
        false
    }

    /// Returns the context of the caller, in an operating system with rules for locks in
    /// interrupts: builds with debug assertions check them.
    fn context(&self) -> Option<Context> {
        None
    }

    /// Whether `task` is on a CPU.
    fn on_cpu(&self, task: TaskId) -> bool;

    /// Returns whether the current task should yield its CPU.
    fn need_resched(&self) -> bool;

    /// Tasks that run on the calling CPU or wait for it.
    fn runnable_here(&self) -> u32 {
        1
    }

    /// Tasks that run, want to run, or sleep uninterruptibly, as counted for the load average.
    fn active_tasks(&self) -> u64 {
        0
    }

    /// The depth of disabled preemption has returned to 0 while interrupts are enabled and a
    /// reschedule of this CPU is wanted ([`Here::set_resched`](crate::Here::set_resched)).
    fn preempt_point(&self);
}
