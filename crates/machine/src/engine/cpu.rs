//! A CPU and a task as the engine sees them.

use super::looks::Spin;
use super::mode::{CpuTimes, Mode};
use crate::memory::{LINE, PooledStack};
use convoy_sync::TaskId;
use core::cell::{Cell, UnsafeCell};
use corosensei::{Coroutine, Yielder};

pub(super) type Task = Coroutine<(), (), (), PooledStack>;

/// The fields that a switch between CPUs uses are the first cache line.
#[repr(C, align(64))]
pub(crate) struct Cpu {
    /// Virtual time when the CPU is not the running one.
    pub(super) clock: Cell<u64>,
    /// The record of its task; null until it has one.
    pub(super) slot: Cell<*const Slot>,
    /// When the timer fires.
    pub(super) timer: Cell<u64>,
    /// When the pending inter-processor interrupt arrives.
    pub(super) ipi: Cell<u64>,
    /// The task that this CPU runs.
    pub(crate) task: Cell<TaskId>,
    /// Depth of disabled interrupts.
    pub(super) irq_off: Cell<u32>,
    /// Depth of disabled preemption.
    pub(crate) preempt_off: Cell<u32>,
    /// A reschedule of this CPU is wanted. The operating system's flag, stored here for fast access
    /// when preemption is enabled.
    pub(crate) resched: Cell<bool>,
    /// Next in the line's list of spinners (CPU + 1), and whether this CPU is in that list.
    pub(super) spin_next: Cell<u16>,
    pub(super) linked: Cell<bool>,
    /// Suspended by [`Cpus::block`](super::Cpus::block), or idle: an interrupt may end it early.
    pub(super) blocked: Cell<bool>,
    /// Its task is an idle task.
    pub(super) idle: Cell<bool>,
    pub(super) mode: Cell<Mode>,
    /// The mode that idling interrupts, when the engine idles by itself.
    pub(super) idle_mode: Cell<Mode>,
    pub(super) mode_since: Cell<u64>,
    /// The time of its request for the line that it reads next, while it spins.
    pub(super) asked: Cell<u64>,
    /// Its last look while it spins has left the line in front of its sets.
    pub(super) front: Cell<bool>,
    /// The condition of its spin, while its coroutine is suspended.
    pub(super) spin: Cell<Option<Spin>>,
    /// The task about which the condition of its present or last spin asks whether it runs.
    pub(super) asks: Cell<TaskId>,
    pub(super) times: [Cell<u64>; 5],
}

/// The engine's data of a task, one cache line of the host.
#[repr(align(64))]
pub(super) struct Slot {
    /// Its coroutine, from its start to its end.
    pub(super) task: UnsafeCell<Option<Task>>,
    /// What suspends it; null until it has started.
    pub(super) yielder: Cell<*const Yielder<(), ()>>,
    /// About where its stack ends while it waits to be switched to.
    pub(super) top: Cell<*const u8>,
    /// The task that left its CPU next after this one did.
    pub(super) after: Cell<TaskId>,
    /// Some CPU runs it.
    pub(super) running: Cell<bool>,
    pub(super) idle: Cell<bool>,
}

const _: () = assert!(size_of::<Slot>() == LINE);

impl Slot {
    pub(super) fn new() -> Self {
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
    pub(super) fn new() -> Self {
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

    /// The record of its task, which it must have.
    #[inline(always)]
    pub(super) fn slot(&self) -> &Slot {
        // SAFETY: `Tasks::assign` took the pointer from its slots, which stay where they are.
        unsafe { &*self.slot.get() }
    }

    #[inline]
    pub(super) fn account(&self, mode: Mode, ps: u64) {
        let time = &self.times[mode as usize];
        time.set(time.get() + ps);
    }

    /// Its times up to its last change of mode.
    pub(crate) fn times(&self) -> CpuTimes {
        core::array::from_fn(|mode| self.times[mode].get())
    }

    /// Its times with the present mode settled up to `now`. If it has run ahead of `now`, they are
    /// those that it has settled itself.
    pub(crate) fn times_until(&self, now: u64) -> CpuTimes {
        let mut times = self.times();
        times[self.mode.get() as usize] += now.saturating_sub(self.mode_since.get());
        times
    }

    pub(crate) fn irqs_off(&self) -> bool {
        self.irq_off.get() > 0
    }

    /// When it takes its next interrupt; `u64::MAX` while they are disabled.
    pub(super) fn next_interrupt(&self) -> u64 {
        if self.irqs_off() { u64::MAX } else { self.timer.get().min(self.ipi.get()) }
    }

    /// Describes what its task does, unless it is idle.
    pub(super) fn describe(&self) -> Option<String> {
        if self.idle.get() || self.slot.get().is_null() {
            return None;
        }
        let what = match self.spin.get() {
            Some(spin) => format!("spins on the word at {:#x}", spin.offset),
            None => format!("is in mode {:?}", self.mode.get()),
        };
        Some(format!("task {} {what}", self.task.get()))
    }
}
