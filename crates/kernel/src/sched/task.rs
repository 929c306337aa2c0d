//! A task as the scheduler sees it.

use super::entity::Entity;
use convoy_sync::rcu::Reader;
use convoy_sync::{Sleep, TaskId, Wake};
use core::cell::{Cell, RefCell};
use core::cmp::Reverse;
use std::rc::{Rc, Weak};

/// How a task is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// By the class of ordinary tasks.
    Normal {
        /// -20 to 19.
        nice: i8,
    },
    /// `SCHED_FIFO`: until it sleeps or something more urgent comes.
    Fifo {
        /// 1 to 99; greater is more urgent.
        priority: u8,
    },
}

impl Policy {
    /// The priority that the kernel's tools show: 98 for `SCHED_FIFO` 1, 120 for nice 0.
    pub(crate) fn shown(self) -> u8 {
        match self {
            Self::Normal { nice } => 120_u8.wrapping_add_signed(nice),
            Self::Fifo { priority } => 99 - priority,
        }
    }
}

/// Per-task state of real-time tasks.
#[derive(Debug, Default)]
pub(crate) struct RtShare {
    /// Key among the waiting tasks, while it waits.
    pub(crate) key: Cell<Option<(Reverse<u8>, i64)>>,
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Runnable or running.
    Running,
    /// Asleep, or about to be.
    Asleep(Sleep),
    /// Ended.
    Dead,
}

/// A task as the scheduler sees it.
#[derive(Debug)]
pub struct Tcb {
    /// Number on the machine.
    pub id: TaskId,
    /// State.
    pub state: Cell<State>,
    /// CPU of its current or last queue.
    pub cpu: Cell<usize>,
    /// Where it ran before its last wakeup.
    pub(crate) recent_cpu: Cell<usize>,
    /// What its class keeps.
    pub entity: Entity,
    /// It runs on `cpu` only.
    pub bound: Cell<bool>,
    /// How it is scheduled.
    pub(crate) policy: Cell<Policy>,
    pub(crate) rt: RtShare,
    /// On a CPU now.
    pub on_cpu: Cell<bool>,
    /// Depth of the big kernel lock, -1 when not held.
    pub lock_depth: Cell<i32>,
    /// A signal is pending; a fatal one is.
    pub signal: Cell<bool>,
    /// See `signal`.
    pub fatal: Cell<bool>,
    /// Why its last wait ended, while it waits.
    pub(crate) wake: Cell<Option<Wake>>,
    /// Key of its record among the sleepers, while it waits for a word.
    pub(crate) sleep_key: Cell<Option<(usize, u64)>>,
    /// Key of its timer.
    pub(crate) timer_key: Cell<Option<(u64, u64)>>,
    /// CPU that exec balancing sends it to once it is off its present one.
    pub(crate) migrate_to: Cell<Option<usize>>,
    /// Its present sleep counts as load.
    pub(crate) counted_asleep: Cell<bool>,
    /// Its address space: the task that made it.
    pub(crate) space: Cell<TaskId>,
    /// Part of the first-level caches that it uses again after it was away.
    pub(crate) footprint: Cell<f64>,
    /// The CPU that it left last, and how many switches that had made then.
    pub(crate) left: Cell<Option<(usize, u64)>>,
    /// Its parent.
    pub(crate) parent: RefCell<Weak<Tcb>>,
    /// The current preemption is involuntary: the task stays queued whatever its state.
    pub(crate) preempted: Cell<bool>,
    /// It lost its CPU in a critical section, and the monitor counts it.
    pub(crate) counted_critical: Cell<bool>,
    /// It as a reader of RCU, where readers may be preempted.
    pub(crate) reader: Rc<Reader>,
}

impl Tcb {
    /// A task that is about to be queued on `cpu`.
    pub(crate) fn new(id: TaskId, cpu: usize) -> Self {
        Self {
            id,
            state: Cell::new(State::Running),
            cpu: Cell::new(cpu),
            recent_cpu: Cell::new(cpu),
            entity: Entity::default(),
            bound: Cell::new(false),
            policy: Cell::new(Policy::Normal { nice: 0 }),
            rt: RtShare::default(),
            on_cpu: Cell::new(false),
            lock_depth: Cell::new(-1),
            signal: Cell::new(false),
            fatal: Cell::new(false),
            wake: Cell::new(None),
            sleep_key: Cell::new(None),
            timer_key: Cell::new(None),
            migrate_to: Cell::new(None),
            counted_asleep: Cell::new(false),
            space: Cell::new(id),
            footprint: Cell::new(1.0),
            left: Cell::new(None),
            parent: RefCell::default(),
            preempted: Cell::new(false),
            counted_critical: Cell::new(false),
            reader: Reader::new(id),
        }
    }

    /// Real-time priority, 1 to 99, or `None` for an ordinary task.
    pub fn rt_priority(&self) -> Option<u8> {
        match self.policy.get() {
            Policy::Normal { .. } => None,
            Policy::Fifo { priority } => Some(priority),
        }
    }

    /// Whether a pending signal ends `sleep`.
    pub(crate) fn signal_ends(&self, sleep: Sleep) -> bool {
        match sleep {
            Sleep::Uninterruptible => false,
            Sleep::Interruptible => self.signal.get() || self.fatal.get(),
            Sleep::Killable => self.fatal.get(),
        }
    }

    /// Its signals have been delivered.
    pub(crate) fn clear_signal(&self) {
        self.signal.set(false);
        self.fatal.set(false);
    }
}
