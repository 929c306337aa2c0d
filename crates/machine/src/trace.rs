//! Recording: reports the events of the machine to a recorder.
//!
//! A recorder costs no virtual time and decides nothing, so a run has the same schedule hash with
//! and without one. Without a recorder each such place costs one test of a flag.

use crate::engine::Mode;
use convoy_sync::{LockEvent, TaskId};
use core::cell::{Cell, RefCell};
use std::rc::Rc;

/// Why a task leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It sleeps.
    Asleep,
    /// It is still runnable: another task's turn.
    Runnable,
    /// It has ended.
    Dead,
}

/// One thing that happened. Machine, operating system and load each report their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The CPU's time is accounted to this from now on.
    Mode(Mode),
    /// Why the running task is about to leave the CPU.
    Leave(Leave),
    /// The CPU went from one task to another.
    Switch {
        /// The task that left.
        prev: TaskId,
        /// The task that runs now.
        next: TaskId,
    },
    /// Something happened to a lock.
    Lock {
        /// What.
        event: LockEvent,
        /// Simulated address of the lock.
        lock: usize,
        /// The task that the event is about; the running one unless the event names another.
        task: TaskId,
    },
    /// A lock, or an object with locks inside, got a name.
    Name {
        /// Simulated address.
        lock: usize,
        /// Its size.
        bytes: usize,
        /// The name, which all locks of a kind share.
        name: &'static str,
    },
    /// The CPU had to fetch the cache line of this simulated address from beyond its first level.
    Transfer(usize),
    /// A task was made.
    Born {
        /// The task; the running one made it.
        task: TaskId,
        /// The CPU of its run queue; idle tasks are not in a run queue.
        cpu: Option<usize>,
    },
    /// The name of the task for readers: a process number, and a kind with a number.
    Label {
        /// Process number; 0 leaves it.
        pid: u32,
        /// Such as `user`; nothing leaves it.
        kind: &'static str,
        /// Number among its kind.
        number: u32,
    },
    /// The running task is this kernel thread.
    Kthread {
        /// The name that the kernel's tools show, without the number at its end.
        kind: &'static str,
        /// That number.
        number: Option<u32>,
        /// Its priority as the kernel's tools show it: 0 to 98 for real time, 100 to 139 else.
        priority: u8,
    },
    /// A sleeping task became runnable.
    Wake {
        /// The task; the running one woke it unless an interrupt did.
        task: TaskId,
        /// The CPU of its run queue.
        cpu: usize,
    },
    /// The handler of a software interrupt, by the number and name of its vector, begins on this
    /// CPU; or it ends.
    Softirq(Option<(u32, &'static str)>),
    /// A software interrupt was made pending on this CPU.
    Raise(u32, &'static str),
    /// The scheduler begins (`true`) or ends to change tasks on this CPU.
    Schedule(bool),
    /// The running task entered this system call, or left it.
    Call(Option<&'static str>),
    /// The running task began this job.
    Job(&'static str),
    /// The measured part begins (`true`) or ends.
    Measure(bool),
}

/// An event with its place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Virtual time of the CPU in picoseconds. Records of one CPU are in order; records of two CPUs
    /// may be out of order by one skew.
    pub at: u64,
    /// The CPU.
    pub cpu: usize,
    /// The task that ran there.
    pub task: TaskId,
    /// What happened.
    pub event: Event,
}

/// Listens to a machine.
pub trait Recorder {
    /// One record. Must not use the machine.
    fn record(&mut self, record: &Record);
}

/// Where a machine's recorder hangs.
#[derive(Default)]
pub(crate) struct Tap {
    on: Cell<bool>,
    recorder: RefCell<Option<Rc<RefCell<dyn Recorder>>>>,
}

impl Tap {
    pub(crate) fn attach(&self, recorder: Rc<RefCell<dyn Recorder>>) {
        *self.recorder.borrow_mut() = Some(recorder);
        self.on.set(true);
    }

    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Passes `record` to the recorder.
    pub(crate) fn record(&self, record: &Record) {
        if let Some(recorder) = &*self.recorder.borrow() {
            recorder.borrow_mut().record(record);
        }
    }
}
