//! Futexes and `sched_yield`: the scheduler's system calls for user-mode threads, as of 6.18.
//!
//! A waiter hashes the address to a bucket, announces itself there, takes the bucket's lock, reads
//! the word again, queues, and schedules; a waker that finds no announcement takes no lock, and
//! otherwise goes through the bucket's waiters until it has found enough of its address, and wakes
//! them after the lock is free. Up to 4.1 it woke them while it held the lock ([`FutexWake`]). If
//! these steps last longer than the critical section of a mutex, threads queue for the bucket, and
//! more of them make each step slower. A process with threads has a private hash table of 16
//! buckets (four for each CPU, at least 16; `futex_hash_allocate_default`), so thousands of threads
//! that wait for different words contend for the buckets.

use crate::costs::Costs;
use crate::lock_rules::{FutexWake, LockRules};
use crate::locks::{Count, Line, Spin};
use convoy_machine::{Here, Preset, Sim, Smp, Word};
use convoy_sync::{Access, Atomic, Platform, Sleep, TaskId, Wake};
use core::cell::{Cell, OnceCell, RefCell};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Fewest buckets of a process's table.
const BUCKETS_MIN: usize = 16;
/// Buckets for each CPU.
const BUCKETS_PER_CPU: usize = 4;

/// Lines that a waker takes from the woken task's CPU, and that this CPU takes back when the task
/// sleeps again. Eight of the task: its state, reference count and entry of the list of wakeups;
/// priority and class; the entity's place and times; its statistics (two); the allowed CPUs;
/// `pi_lock`; the flag of its share in the load. Four of its CPU: the running task and the count of
/// runnable ones; the loads; the list of wakeups; the flags of the idle task. Estimate: what
/// `try_to_wake_up` of 3.17 and its callees use, placed on lines from memory, and not measured.
const TASK_LINES: usize = 12;

const AWAKE: u32 = 0;
const QUEUED: u32 = 1;

/// One bucket: its waiters are announced by `waiters` and queued under `lock`.
struct Bucket {
    hot: Sim<Line<(Spin, Count)>>,
    queue: RefCell<VecDeque<Rc<Sleeper>>>,
}

/// The record with which a task waits.
struct Sleeper {
    /// Address of the word it waits for.
    key: Cell<usize>,
    /// [`QUEUED`] until it was woken.
    state: Sim<Line<Word<u32>>>,
    /// Where the records before and after it in the bucket are linked to it.
    links: Sim<Line<Cell<()>>>,
    /// The lines of its task, [`TASK_LINES`] or none.
    task: Vec<Sim<Line<Cell<()>>>>,
}

/// State and prices, in picoseconds, of the threads' system calls.
pub(crate) struct Futexes {
    /// Made when the first thread needs them, as the kernel does.
    buckets: OnceCell<Vec<Bucket>>,
    locks: LockRules,
    cpus: usize,
    /// Lines of a task that a wakeup touches; none if the machine's price of a wakeup was measured
    /// with them.
    task_lines: usize,
    sleepers: RefCell<BTreeMap<TaskId, Rc<Sleeper>>>,
    enter: u64,
    wait: u64,
    wake: u64,
    requeue: u64,
    monitor: u64,
    slice_timer: u64,
}

impl Futexes {
    /// Returns the table of the single process with threads on `machine`.
    pub(crate) fn new(costs: &Costs, locks: LockRules, machine: &Preset) -> Self {
        Self {
            buckets: OnceCell::new(),
            locks,
            cpus: machine.topology.cpus,
            task_lines: if machine.guest_ns.is_some() { 0 } else { TASK_LINES },
            sleepers: RefCell::default(),
            enter: costs.syscall,
            wait: costs.futex_wait,
            wake: costs.futex_wake,
            requeue: costs.sched_yield,
            monitor: costs.monitor,
            slice_timer: costs.slice_timer,
        }
    }

    /// The bucket of `word`. All that a task has on its stack is one line, so that the choice does
    /// not depend on the compiler's frames.
    fn bucket(&self, word: *const Word<u32>) -> &Bucket {
        let buckets = self.buckets.get_or_init(|| self.make_buckets());
        let mixed = (Here::line_of(word) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &buckets[(mixed >> 40) as usize % buckets.len()]
    }

    fn make_buckets(&self) -> Vec<Bucket> {
        let bucket = |_| Bucket {
            // One count always stands for the table, as `Count` counts references.
            hot: Here::place(Line((self.locks.spin(), Count::new(1)))),
            queue: RefCell::default(),
        };
        let count = (BUCKETS_PER_CPU * self.cpus).next_power_of_two().max(BUCKETS_MIN);
        let buckets: Vec<Bucket> = (0..count).map(bucket).collect();
        for bucket in &buckets {
            Here::name(&bucket.hot.0.0, "futex_hash_bucket");
        }
        buckets
    }

    /// The record of the calling task.
    fn mine(&self) -> Rc<Sleeper> {
        let new = || {
            Rc::new(Sleeper {
                key: Cell::new(0),
                state: Here::place(Line(Word::new(AWAKE))),
                links: Here::place(Line(Cell::new(()))),
                task: (0..self.task_lines).map(|_| Here::place(Line(Cell::new(())))).collect(),
            })
        };
        Rc::clone(self.sleepers.borrow_mut().entry(Here::task()).or_insert_with(new))
    }
}

/// Reads and writes a line.
fn update(line: &Sim<Line<Cell<()>>>) {
    Smp::touch(&**line, Access::Read);
    Smp::touch(&**line, Access::Write);
}

impl Sleeper {
    /// Takes the task's lines to this CPU.
    fn update_task(&self) {
        self.task.iter().for_each(update);
    }

    /// Wakes the task, which is no longer queued.
    fn wake(&self) {
        self.update_task();
        self.state.store(AWAKE, SeqCst);
        Smp::wake(&raw const **self.state, 1);
    }
}

impl Bucket {
    /// Takes `sleeper` out of the queue; whether it was there.
    fn remove(&self, sleeper: &Rc<Sleeper>) -> bool {
        let mut queue = self.queue.borrow_mut();
        let at = queue.iter().position(|other| Rc::ptr_eq(other, sleeper));
        at.and_then(|at| queue.remove(at)).is_some()
    }

    /// Removes the first waiter of `key` from the queue, after comparing the waiters before it.
    fn take(&self, key: usize) -> Option<Rc<Sleeper>> {
        let mut at = 0;
        loop {
            // A look may let others run, but they wait for the bucket's lock.
            let sleeper = self.queue.borrow().get(at).cloned()?;
            Smp::touch(&*sleeper.state, Access::Read);
            if sleeper.key.get() == key {
                break;
            }
            at += 1;
        }
        let (taken, next) = {
            let mut queue = self.queue.borrow_mut();
            (queue.remove(at), queue.get(at).cloned())
        };
        taken.iter().chain(&next).for_each(|sleeper| update(&sleeper.links));
        taken
    }

    /// Queues `sleeper`.
    fn add(&self, sleeper: &Rc<Sleeper>) {
        let last = self.queue.borrow().back().cloned();
        if let Some(last) = last {
            update(&last.links);
        }
        update(&sleeper.links);
        self.queue.borrow_mut().push_back(Rc::clone(sleeper));
    }
}

impl Futexes {
    /// Charges the cost of a system call that does almost no work.
    pub(crate) fn pay_call(&self) {
        Here::pass(self.enter);
    }

    /// Charges the cost of `sched_yield` except for yielding the CPU.
    pub(crate) fn pay_yield(&self) {
        Here::pass(self.enter + self.requeue);
    }

    /// Charges the cost of the monitor of critical sections at a context switch.
    pub(crate) fn pay_monitor(&self) {
        Here::pass(self.monitor);
    }

    /// Charges the cost of setting or cancelling the timer of a time-slice extension.
    pub(crate) fn pay_slice_timer(&self) {
        Here::pass(self.slice_timer);
    }

    /// `FUTEX_WAIT`.
    pub(crate) fn wait(
        &self,
        word: &Word<u32>,
        expected: u32,
        sleep: Sleep,
        deadline: Option<u64>,
    ) -> Wake {
        Here::pass(self.enter + self.wait);
        let bucket = self.bucket(word);
        let (lock, waiters) = &bucket.hot.0;
        let sleeper = self.mine();
        waiters.get();
        let queued = lock.hold(|| {
            if word.load(SeqCst) != expected {
                return false;
            }
            sleeper.key.set(Here::address(word));
            sleeper.state.store(QUEUED, Relaxed);
            bucket.add(&sleeper);
            true
        });
        let mut wake = Wake::Woken;
        if queued {
            while sleeper.state.load(SeqCst) == QUEUED && wake == Wake::Woken {
                sleeper.update_task();
                wake = Smp::wait(&sleeper.state, QUEUED, sleep, deadline);
            }
            sleeper.update_task();
            if wake != Wake::Woken && !lock.hold(|| bucket.remove(&sleeper)) {
                // A waker came first, and has told of it.
                wake = Wake::Woken;
                waiters.get();
            }
        }
        if !queued || wake != Wake::Woken {
            let _the_table_remains = waiters.put();
        }
        wake
    }

    /// `FUTEX_WAKE`.
    pub(crate) fn wake(&self, word: *const Word<u32>, count: usize) {
        Here::pass(self.enter + self.wake);
        let bucket = self.bucket(word);
        let (lock, waiters) = &bucket.hot.0;
        let rule = self.locks.futex;
        if rule != FutexWake::Locked && waiters.read() <= 1 {
            return;
        }
        let key = Here::address(word);
        let woken: Vec<Rc<Sleeper>> = lock.hold(|| {
            let mut woken = Vec::new();
            while woken.len() < count
                && let Some(sleeper) = bucket.take(key)
            {
                let _the_table_remains = waiters.put();
                if rule != FutexWake::Unlocked {
                    sleeper.wake();
                }
                woken.push(sleeper);
            }
            woken
        });
        if rule == FutexWake::Unlocked {
            for sleeper in woken {
                sleeper.wake();
            }
        }
    }
}
