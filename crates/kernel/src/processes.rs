//! The table of processes, its locks and process numbers; relations between processes, and their
//! controlling terminal.

use crate::lock_rules::{LockRules, PidLock};
use crate::locks::{Count, Field, Guarded, Line, Mutex, ReadWrite};
use crate::signal::rules::SignalRules;
use convoy_machine::{Here, Sim, Word};
use convoy_sync::{Atomic, TaskId};
use convoy_workload::api::{Exit, Pid};
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Process number of the first process, which inherits orphans.
pub(crate) const INIT: Pid = 1;
/// Process numbers wrap at this, as they did by default, or at twice the processes that are allowed
/// (`kernel.pid_max`) when that is more.
const PID_MAX: Pid = 32_768;
/// Process numbers below this are not given out again after the wrap.
const PID_RESERVED: Pid = 300;

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It runs or sleeps.
    Alive,
    /// It has exited and has not been waited for.
    Zombie(Exit),
    /// It was waited for.
    Gone,
}

/// The part of a process that is visible to other processes.
pub(crate) struct Proc {
    pub(crate) pid: Pid,
    /// First frame of its kernel stack; none for the first process, whose stack precedes the
    /// allocator.
    pub(crate) stack: Option<u32>,
    pub(crate) parent: Cell<Pid>,
    /// The machine's task; `None` before it has started and after it has ended.
    pub(crate) task: Cell<Option<TaskId>>,
    pub(crate) life: Cell<Life>,
    pub(crate) children: RefCell<Vec<Rc<Proc>>>,
    pub(crate) hot: Sim<ProcHot>,
}

/// Its part in simulated memory.
pub(crate) struct ProcHot {
    /// `siglock` and the set of pending signals.
    pub(crate) signals: Line<Guarded<Field<u32>>>,
    /// Counts the ends of children: what `wait` sleeps on.
    pub(crate) child_event: Line<Word<u32>>,
    /// `file_lock` and the table of descriptors.
    pub(crate) table: Line<Guarded<Field<u32>>>,
    /// State, list of children, parent: guarded by `tasklist_lock`.
    pub(crate) family: Line<Field<u32>>,
}

impl Proc {
    pub(crate) fn new(locks: LockRules, pid: Pid, parent: Pid, stack: Option<u32>) -> Rc<Self> {
        let hot = ProcHot {
            signals: Line(locks.guarded(Field::new(0))),
            child_event: Line(Word::new(0)),
            table: Line(locks.guarded(Field::new(0))),
            family: Line(Field::new(0)),
        };
        let hot = Here::place(hot);
        hot.signals.name("siglock");
        hot.table.name("file_lock");
        Rc::new(Self {
            pid,
            stack,
            parent: Cell::new(parent),
            task: Cell::new(None),
            life: Cell::new(Life::Alive),
            children: RefCell::default(),
            hot,
        })
    }
}

/// A terminal.
pub(crate) struct Terminal {
    pub(crate) hot: Sim<Line<Field<u32>>>,
    /// Opened files of this terminal: `fork` and `dup` do not add to them.
    pub(crate) files: Cell<u32>,
}

impl Terminal {
    /// Returns a terminal with one open file, of the first process.
    pub(crate) fn new() -> Self {
        Self { hot: Here::place(Line(Field::new(1))), files: Cell::new(1) }
    }
}

/// The locks that all processes share, each in a separate line.
#[repr(C)]
pub(crate) struct ProcessesHot {
    tasklist: Line<ReadWrite>,
    pids: Line<Guarded<Field<u32>>>,
    tty_mutex: Line<Mutex>,
}

impl ProcessesHot {
    /// In simulated memory.
    pub(crate) fn place(locks: LockRules) -> Sim<Self> {
        let hot = Here::place(Self {
            tasklist: Line(locks.read_write()),
            pids: Line(locks.guarded(Field::new(0))),
            tty_mutex: Line(locks.mutex()),
        });
        hot.tasklist.name("tasklist_lock");
        hot.pids.name("pidmap_lock");
        hot.tty_mutex.name("tty_mutex");
        hot
    }
}

/// All processes, zombies included.
pub(crate) struct Processes {
    hot: Sim<ProcessesHot>,
    table: RefCell<BTreeMap<Pid, Rc<Proc>>>,
    last_pid: Cell<Pid>,
    wrap: Pid,
    pid_lock: PidLock,
    /// `user_struct` of the user that all processes belong to: how many signals it has in queues.
    /// The count of references in its line changes directly before or after, so the line moves
    /// once.
    user: Option<Sim<Line<Count>>>,
}

impl Processes {
    /// A table for at most `most` processes around `hot`.
    pub(crate) fn new(
        hot: Sim<ProcessesHot>,
        most: usize,
        pid_lock: PidLock,
        signals: SignalRules,
    ) -> Self {
        let wrap = PID_MAX.max(Pid::try_from(2 * most).unwrap_or(Pid::MAX));
        let user = signals.user_counts.then(|| Here::place(Line(Count::new(0))));
        let last_pid = Cell::new(INIT);
        Self { hot, table: RefCell::default(), last_pid, wrap, pid_lock, user }
    }

    /// A signal gets a place in a queue (`__sigqueue_alloc`), which the user pays for.
    pub(crate) fn signal_queued(&self) {
        if let Some(user) = &self.user {
            user.get();
        }
    }

    /// It has been taken out.
    pub(crate) fn signal_taken(&self) {
        if let Some(user) = &self.user {
            user.put();
        }
    }

    /// `tasklist_lock`, which protects the relations between processes and their exit states.
    pub(crate) fn tasklist(&self) -> &ReadWrite {
        &self.hot.tasklist
    }

    /// The mutex of controlling terminals.
    pub(crate) fn tty_mutex(&self) -> &Mutex {
        &self.hot.tty_mutex
    }

    /// A free process number, by the rule of the period: the next one up, wrapping.
    pub(crate) fn next_pid(&self) -> Pid {
        self.hot.pids.hold(|map| {
            map.write(map.peek().wrapping_add(1));
            let table = self.table.borrow();
            let mut pid = self.last_pid.get() + 1;
            while pid >= self.wrap || table.contains_key(&pid) {
                pid = if pid >= self.wrap { PID_RESERVED } else { pid + 1 };
            }
            self.last_pid.set(pid);
            pid
        })
    }

    /// A process can be found by its number from now on, or its number is free, where that takes
    /// `pidmap_lock` again.
    pub(crate) fn note_pid(&self) {
        if self.pid_lock == PidLock::EachStep {
            self.hot.pids.hold(|map| map.write(map.peek()));
        }
    }

    pub(crate) fn insert(&self, process: &Rc<Proc>) {
        self.table.borrow_mut().insert(process.pid, Rc::clone(process));
    }

    pub(crate) fn remove(&self, pid: Pid) {
        self.table.borrow_mut().remove(&pid);
    }

    pub(crate) fn find(&self, pid: Pid) -> Option<Rc<Proc>> {
        self.table.borrow().get(&pid).cloned()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.table.borrow().len()
    }

    /// Returns the named locks, and whether they are held.
    pub(crate) fn held(&self) -> [(&'static str, bool); 2] {
        let hot = &*self.hot;
        [("pidmap_lock", hot.pids.is_locked()), ("tty_mutex", hot.tty_mutex.is_held())]
    }
}
