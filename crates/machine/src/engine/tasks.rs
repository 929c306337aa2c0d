//! The coroutines of tasks, and the order in which they left their CPUs.

use super::cpu::{Cpu, Slot, Task};
use crate::memory::LINE;
use convoy_sync::TaskId;
use core::cell::Cell;
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

/// All tasks of the machine.
pub(crate) struct Tasks {
    /// By task, which has the number of its stack.
    pub(super) slots: Box<[Slot]>,
    /// The last task that left its CPU for another task.
    left: Cell<TaskId>,
    /// The task that has just retired; `TaskId::MAX` when none has.
    pub(super) dead: Cell<TaskId>,
    resumes: Cell<u64>,
}

impl Tasks {
    pub(super) fn new(tasks: usize) -> Self {
        Self {
            slots: (0..tasks).map(|_| Slot::new()).collect(),
            left: Cell::new(0),
            dead: Cell::new(TaskId::MAX),
            resumes: Cell::new(0),
        }
    }

    /// Coroutine resumptions so far.
    pub(crate) fn resumes(&self) -> u64 {
        self.resumes.get()
    }

    /// Adds task `id`, which has not started.
    pub(super) fn add(&self, id: TaskId, task: Task, idle: bool) {
        let slot = &self.slots[id as usize];
        slot.yielder.set(core::ptr::null());
        slot.idle.set(idle);
        // SAFETY: the last task of this slot has returned its stack, so its coroutine is gone and
        // nothing refers to the cell.
        unsafe { *slot.task.get() = Some(task) };
    }

    /// `task`, which is the caller, is about to be suspended for another.
    #[inline(always)]
    pub(super) fn leave(&self, task: TaskId) {
        self.slots[task as usize].top.set(top());
        self.slots[self.left.replace(task) as usize].after.set(task);
    }

    /// `task` runs on no CPU from now on.
    pub(super) fn put(&self, task: TaskId) {
        self.slots[task as usize].running.set(false);
    }

    /// Makes `cpu` run `task`, which no CPU runs.
    pub(super) fn assign(&self, cpu: &Cpu, task: TaskId) {
        let slot = &self.slots[task as usize];
        assert!(!slot.running.replace(true), "the scheduler gave task {task} to two CPUs");
        cpu.slot.set(slot);
        cpu.task.set(task);
        cpu.idle.set(slot.idle.get());
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

    /// Resumes the task of `slot`; returns the task that has retired, if it has.
    #[inline(always)]
    pub(super) fn resume(&self, slot: &Slot) -> Option<TaskId> {
        self.resumes.set(self.resumes.get() + 1);
        // SAFETY: no other reference to the coroutine exists: only the CPU in turn runs it, and
        // `bury` drops it only when it has ended.
        let task = unsafe { (*slot.task.get()).as_mut() };
        let result = task.expect("a CPU runs only tasks that have not ended").resume(());
        let dead = self.dead.replace(TaskId::MAX);
        if dead != TaskId::MAX {
            return Some(dead);
        }
        assert!(matches!(result, CoroutineResult::Yield(())), "a task ends through `retire`");
        None
    }

    /// Frees the coroutine of a task that has ended.
    pub(super) fn bury(&self, task: TaskId) {
        let slot = &self.slots[task as usize];
        slot.running.set(false);
        // SAFETY: the coroutine has ended, so nothing else refers to the cell.
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
                // SAFETY: the stack holds no borrow that outlives it: tasks own their data or
                // share them by `Rc`, and leaking those is safe.
                unsafe { task.force_reset() };
            }
        }
    }
}
