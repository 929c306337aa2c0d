//! The smallest operating system: one first-come-first-served run queue, no preemption, no ticks.
//!
//! For tests of locks and of the engine itself; the kernels with a history are in crate
//! `convoy-kernel`.

use crate::line::mix;
use crate::os::{Interrupt, Os};
use crate::{Here, Machine, Outcome, Preset, Recorder};
use convoy_sync::{Sleep, TaskId, Wake};
use core::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// Delay between an idle CPU's interrupt and its next check of the run queue, in picoseconds.
const KICK_PS: u64 = 1_000_000;

/// Buckets of sleepers, by word.
const BUCKETS: usize = 1024;

/// See the module documentation.
pub struct Fifo {
    ready: RefCell<VecDeque<TaskId>>,
    /// Idle CPUs, a bit each.
    idle_now: Vec<Cell<u64>>,
    /// Sleepers by a hash of their word: the first and the last of a list; within a bucket first
    /// come, first served.
    buckets: Vec<Cell<(TaskId, TaskId)>>,
    /// Their records, by task.
    waits: Box<[Wait]>,
    /// (deadline, task) of sleepers that have one.
    deadlines: RefCell<BTreeSet<(u64, TaskId)>>,
    live: Cell<usize>,
}

/// The last wait of a task.
struct Wait {
    word: Cell<usize>,
    deadline: Cell<u64>,
    /// The next in the bucket.
    next: Cell<TaskId>,
    /// Why it ended.
    ended: Cell<Option<Wake>>,
    /// The task has left its CPU for it.
    off: Cell<bool>,
}

/// The end of a list.
const NOBODY: TaskId = TaskId::MAX;

impl Wait {
    fn new() -> Self {
        Self {
            word: Cell::new(usize::MAX),
            deadline: Cell::new(u64::MAX),
            next: Cell::new(NOBODY),
            ended: Cell::new(Some(Wake::Woken)),
            off: Cell::new(false),
        }
    }
}

impl Fifo {
    /// Runs `bodies` on a machine of `preset` until all have ended, in virtual time up to
    /// `limit_ns`.
    pub fn run(
        preset: &Preset,
        seed: u64,
        limit_ns: u64,
        bodies: Vec<Box<dyn FnOnce()>>,
    ) -> std::io::Result<(Outcome, Machine)> {
        Self::run_recorded(preset, seed, limit_ns, bodies, None)
    }

    /// The same, and `recorder`, if there is one, hears of everything.
    ///
    /// # Errors
    /// The host cannot reserve the memory of the machine.
    pub fn run_recorded(
        preset: &Preset,
        seed: u64,
        limit_ns: u64,
        bodies: Vec<Box<dyn FnOnce()>>,
        recorder: Option<Rc<RefCell<dyn Recorder>>>,
    ) -> std::io::Result<(Outcome, Machine)> {
        let machine = Machine::new(preset, seed, bodies.len() + preset.topology.cpus)?;
        if let Some(recorder) = recorder {
            machine.record(recorder);
        }
        let os = Rc::new(Self {
            ready: RefCell::default(),
            idle_now: vec![Cell::new(0); machine.cpus().div_ceil(64)],
            buckets: vec![Cell::new((NOBODY, NOBODY)); BUCKETS],
            waits: (0..bodies.len() + machine.cpus()).map(|_| Wait::new()).collect(),
            deadlines: RefCell::default(),
            live: Cell::new(bodies.len()),
        });
        machine.install(os.clone());
        for cpu in 0..machine.cpus() {
            let idle = Here::spawn_idle().expect("room for idle tasks");
            machine.boot(cpu, idle, 0);
        }
        for body in bodies {
            os.ready.borrow_mut().push_back(Here::spawn(body).expect("room for the tasks"));
        }
        let outcome = machine.run(limit_ns);
        Ok((outcome, machine))
    }

    /// Returns the next task of this CPU: the first runnable task, or the idle task.
    fn next(&self) -> TaskId {
        // Idle tasks are spawned first, one for each CPU in order.
        self.ready.borrow_mut().pop_front().unwrap_or(Here::cpu() as TaskId)
    }

    fn make_ready(&self, task: TaskId) {
        self.ready.borrow_mut().push_back(task);
        self.expect(task);
        if let Some(at) = self.idle_now.iter().position(|word| word.get() != 0) {
            let word = &self.idle_now[at];
            let cpu = at * 64 + word.get().trailing_zeros() as usize;
            word.set(word.get() & (word.get() - 1));
            Here::kick(cpu, Here::now_ps() + KICK_PS);
        }
    }

    /// Prefetches the data of `task`, which will run soon, and of the task that fell asleep after
    /// it, which will probably be woken next.
    #[inline]
    fn expect(&self, task: TaskId) {
        let [next, after] = Here::expect(task);
        Here::fetch_word(self.waits[next as usize].word.get());
        Here::fetch(&self.waits[after as usize]);
    }

    #[inline]
    fn bucket(&self, word: usize) -> &Cell<(TaskId, TaskId)> {
        &self.buckets[mix(word as u64) as usize % BUCKETS]
    }

    /// Appends `task`, which waits for `word` from now on, to its bucket.
    fn enter(&self, task: TaskId, word: usize, deadline: u64) {
        let wait = &self.waits[task as usize];
        wait.word.set(word);
        wait.deadline.set(deadline);
        wait.next.set(NOBODY);
        wait.ended.set(None);
        wait.off.set(false);
        let bucket = self.bucket(word);
        let (first, last) = bucket.get();
        if let Some(last) = self.waits.get(last as usize) {
            last.next.set(task);
            bucket.set((first, task));
        } else {
            bucket.set((task, task));
        }
    }

    /// Takes the first task for which `wanted` holds out of the bucket of `word`.
    #[inline]
    fn leave(&self, word: usize, wanted: impl Fn(TaskId, &Wait) -> bool) -> Option<TaskId> {
        let bucket = self.bucket(word);
        let (first, last) = bucket.get();
        let (mut before, mut task) = (NOBODY, first);
        while !wanted(task, self.waits.get(task as usize)?) {
            (before, task) = (task, self.waits[task as usize].next.get());
        }
        let next = self.waits[task as usize].next.replace(NOBODY);
        if let Some(before) = self.waits.get(before as usize) {
            before.next.set(next);
        }
        let first = if task == first { next } else { first };
        bucket.set((first, if task == last { before } else { last }));
        Some(task)
    }

    /// Ends the wait of `task`, which has been removed from its bucket. A task that has not left
    /// its CPU yet finds out by itself.
    fn end(&self, task: TaskId, reason: Wake) {
        let wait = &self.waits[task as usize];
        wait.ended.set(Some(reason));
        if wait.deadline.get() != u64::MAX {
            self.deadlines.borrow_mut().remove(&(wait.deadline.get(), task));
        }
        if wait.off.get() {
            self.make_ready(task);
        }
    }

    /// Ends expired waits and sets the timer for the next deadline.
    fn expire(&self) {
        loop {
            let first = self.deadlines.borrow().first().copied();
            let Some((_, task)) = first.filter(|first| first.0 <= Here::now_ps()) else { break };
            let word = self.waits[task as usize].word.get();
            self.leave(word, |other, _| other == task);
            self.end(task, Wake::TimedOut);
        }
        self.arm();
    }

    fn arm(&self) {
        if let Some(&(deadline, _)) = self.deadlines.borrow().first() {
            Here::set_timer(deadline);
        }
    }
}

impl Os for Fifo {
    fn engine_idles(&self) -> bool {
        true
    }

    fn idle_next(&self) -> Option<TaskId> {
        let next = self.ready.borrow_mut().pop_front();
        let (word, bit) = (&self.idle_now[Here::cpu() / 64], 1 << (Here::cpu() % 64));
        word.set(if next.is_some() { word.get() & !bit } else { word.get() | bit });
        next
    }

    fn task_start(&self, _: TaskId) {}

    fn task_end(&self, _: TaskId) {
        self.live.set(self.live.get() - 1);
        if self.live.get() == 0 {
            Here::stop();
        }
        Here::retire(self.next());
    }

    fn interrupt(&self, cause: Interrupt) {
        if cause.timer {
            self.expire();
        }
    }

    fn interrupt_return(&self, _: bool) {}

    fn wait(&self, word: usize, holds: &dyn Fn() -> bool, _: Sleep, deadline: Option<u64>) -> Wake {
        let me = Here::task();
        let deadline = deadline.map_or(u64::MAX, |ns| ns.saturating_mul(1000));
        self.enter(me, word, deadline);
        if deadline != u64::MAX {
            self.deadlines.borrow_mut().insert((deadline, me));
        }
        let holds = holds();
        let wait = &self.waits[me as usize];
        let woken = wait.ended.get();
        if woken.is_none() && holds {
            wait.off.set(true);
            self.arm();
            Here::switch_to(self.next());
        } else if woken.is_none() {
            self.leave(word, |other, _| other == me);
            self.end(me, Wake::Woken);
        }
        self.waits[me as usize].ended.get().unwrap_or(Wake::Woken)
    }

    fn wake(&self, word: usize, count: usize) {
        for _ in 0..count {
            let Some(task) = self.leave(word, |_, wait| wait.word.get() == word) else { return };
            self.end(task, Wake::Woken);
        }
    }

    fn expects(&self) -> bool {
        !self.deadlines.borrow().is_empty()
    }

    fn signal_pending(&self, _: Sleep) -> bool {
        false
    }

    fn on_cpu(&self, task: TaskId) -> bool {
        // Without preemption a task that is neither ready nor asleep runs.
        let wait = &self.waits[task as usize];
        let asleep = wait.off.get() && wait.ended.get().is_none();
        !asleep && !self.ready.borrow().contains(&task)
    }

    fn need_resched(&self) -> bool {
        false
    }

    fn preempt_point(&self) {}
}
