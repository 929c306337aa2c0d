//! The smallest operating system: one first-come-first-served run queue, no preemption, no ticks.
//!
//! For tests of locks and of the engine itself; the kernels with a history are in crate
//! `convoy-kernel`.

use crate::line::mix;
use crate::os::{Interrupt, Os};
use crate::{Here, Machine, Outcome, Preset};
use convoy_sync::{Sleep, TaskId, Wake};
use core::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// Delay between an idle CPU's interrupt and its next look at the run queue, in picoseconds.
const KICK_PS: u64 = 1_000_000;

/// Buckets of sleepers, by word.
const BUCKETS: usize = 1024;

/// See the module documentation.
pub struct Fifo {
    ready: RefCell<VecDeque<TaskId>>,
    idle_now: RefCell<BTreeSet<usize>>,
    /// Sleepers by a hash of their word; within a bucket first come, first served.
    buckets: Vec<RefCell<VecDeque<TaskId>>>,
    /// Their records, by task.
    waits: RefCell<Vec<Wait>>,
    /// (deadline, task) of sleepers that have one.
    deadlines: RefCell<BTreeSet<(u64, TaskId)>>,
    live: Cell<usize>,
}

/// The last wait of a task.
#[derive(Clone, Copy)]
struct Wait {
    word: usize,
    deadline: u64,
    /// Why it ended.
    ended: Option<Wake>,
    /// The task has left its CPU for it.
    off: bool,
}

const NO_WAIT: Wait =
    Wait { word: usize::MAX, deadline: u64::MAX, ended: Some(Wake::Woken), off: false };

impl Fifo {
    /// Runs `bodies` on a machine of `preset` until all have ended, in virtual time up to
    /// `limit_ns`.
    pub fn run(
        preset: &Preset,
        seed: u64,
        limit_ns: u64,
        bodies: Vec<Box<dyn FnOnce()>>,
    ) -> std::io::Result<(Outcome, Machine)> {
        let machine = Machine::new(preset, seed, bodies.len() + preset.topology.cpus)?;
        let os = Rc::new(Self {
            ready: RefCell::default(),
            idle_now: RefCell::default(),
            buckets: (0..BUCKETS).map(|_| RefCell::default()).collect(),
            waits: RefCell::new(vec![NO_WAIT; bodies.len() + machine.cpus()]),
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

    /// Who runs next on this CPU: the first that is ready, or the idle task.
    fn next(&self) -> TaskId {
        // Idle tasks are spawned first, one for each CPU in order.
        self.ready.borrow_mut().pop_front().unwrap_or(Here::cpu() as TaskId)
    }

    fn make_ready(&self, task: TaskId) {
        self.ready.borrow_mut().push_back(task);
        let idle = self.idle_now.borrow_mut().pop_first();
        if let Some(cpu) = idle {
            Here::kick(cpu, Here::now_ps() + KICK_PS);
        }
    }

    fn bucket(&self, word: usize) -> &RefCell<VecDeque<TaskId>> {
        &self.buckets[mix(word as u64) as usize % BUCKETS]
    }

    /// Ends the wait of `task`, whose bucket has forgotten it. A task that has not left its CPU yet
    /// finds out by itself.
    fn end(&self, task: TaskId, reason: Wake) {
        let wait = {
            let mut waits = self.waits.borrow_mut();
            let wait = &mut waits[task as usize];
            wait.ended = Some(reason);
            *wait
        };
        if wait.deadline != u64::MAX {
            self.deadlines.borrow_mut().remove(&(wait.deadline, task));
        }
        if wait.off {
            self.make_ready(task);
        }
    }

    /// Ends waits whose deadline has passed and sets the timer for the next one.
    fn expire(&self) {
        loop {
            let first = self.deadlines.borrow().first().copied();
            let Some((_, task)) = first.filter(|first| first.0 <= Here::now_ps()) else { break };
            let word = self.waits.borrow()[task as usize].word;
            self.bucket(word).borrow_mut().retain(|&other| other != task);
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
    fn idle(&self) {
        let me = Here::task();
        loop {
            let next = self.next();
            if next != me {
                Here::switch_to(next);
                // Back here: a task has blocked or ended, and nobody was ready.
                continue;
            }
            self.idle_now.borrow_mut().insert(Here::cpu());
            Here::halt();
            self.idle_now.borrow_mut().remove(&Here::cpu());
        }
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
        self.waits.borrow_mut()[me as usize] = Wait { word, deadline, ended: None, off: false };
        self.bucket(word).borrow_mut().push_back(me);
        if deadline != u64::MAX {
            self.deadlines.borrow_mut().insert((deadline, me));
        }
        let holds = holds();
        let woken = self.waits.borrow()[me as usize].ended;
        if woken.is_none() && holds {
            self.waits.borrow_mut()[me as usize].off = true;
            self.arm();
            Here::switch_to(self.next());
        } else if woken.is_none() {
            self.bucket(word).borrow_mut().retain(|&other| other != me);
            self.end(me, Wake::Woken);
        }
        self.waits.borrow()[me as usize].ended.unwrap_or(Wake::Woken)
    }

    fn wake(&self, word: usize, count: usize) {
        for _ in 0..count {
            let found = {
                let (mut bucket, waits) = (self.bucket(word).borrow_mut(), self.waits.borrow());
                let at = bucket.iter().position(|&task| waits[task as usize].word == word);
                at.and_then(|at| bucket.remove(at))
            };
            let Some(task) = found else { return };
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
        let wait = self.waits.borrow()[task as usize];
        let asleep = wait.off && wait.ended.is_none();
        !asleep && !self.ready.borrow().contains(&task)
    }

    fn need_resched(&self) -> bool {
        false
    }

    fn preempt_point(&self) {}
}
