//! The smallest operating system: one first-come-first-served run queue, no preemption, no ticks.
//!
//! For tests of locks and of the engine itself; the kernels with a history are in crate
//! `convoy-kernel`.

use crate::os::{Interrupt, Os};
use crate::{Here, Machine, Outcome, Preset};
use convoy_sync::{Sleep, TaskId, Wake};
use core::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// Delay between an idle CPU's interrupt and its next look at the run queue, in picoseconds.
const KICK_PS: u64 = 1_000_000;

/// See the module documentation.
#[derive(Default)]
pub struct Fifo {
    ready: RefCell<VecDeque<TaskId>>,
    idle: RefCell<Vec<TaskId>>,
    idle_now: RefCell<BTreeSet<usize>>,
    /// (word, sequence, task) of sleepers with a deadline or without.
    sleepers: RefCell<Vec<Sleeper>>,
    live: Cell<usize>,
}

struct Sleeper {
    word: usize,
    task: TaskId,
    deadline: u64,
    /// The wait has ended; the sleeper takes the record away when it runs.
    done: Option<Wake>,
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
        let machine = Machine::new(preset, seed, bodies.len() + preset.topology.cpus)?;
        let os = Rc::new(Self::default());
        machine.install(os.clone());
        for cpu in 0..machine.cpus() {
            let idle = Here::spawn_idle().expect("room for idle tasks");
            machine.boot(cpu, idle, 0);
        }
        os.live.set(bodies.len());
        for body in bodies {
            os.ready.borrow_mut().push_back(Here::spawn(body).expect("room for the tasks"));
        }
        let outcome = machine.run(limit_ns);
        Ok((outcome, machine))
    }

    fn idle_task() -> TaskId {
        // Idle tasks are spawned first, one for each CPU in order.
        Here::cpu() as TaskId
    }

    fn make_ready(&self, task: TaskId) {
        self.ready.borrow_mut().push_back(task);
        let idle = self.idle_now.borrow_mut().pop_first();
        if let Some(cpu) = idle {
            Here::kick(cpu, Here::now_ps() + KICK_PS);
        }
    }

    /// Ends waits whose deadline has passed and sets the timer for the next one.
    fn expire(&self) {
        let now = Here::now_ps();
        let mut ready = Vec::new();
        for sleeper in self.sleepers.borrow_mut().iter_mut() {
            if sleeper.done.is_none() && sleeper.deadline <= now {
                sleeper.done = Some(Wake::TimedOut);
                ready.push(sleeper.task);
            }
        }
        for task in ready {
            self.make_ready(task);
        }
        self.arm();
    }

    fn arm(&self) {
        let next = self
            .sleepers
            .borrow()
            .iter()
            .filter(|sleeper| sleeper.done.is_none())
            .map(|sleeper| sleeper.deadline)
            .min();
        Here::set_timer(next.unwrap_or(u64::MAX));
    }
}

impl Os for Fifo {
    fn idle(&self) {
        self.idle.borrow_mut().push(Here::task());
        let me = Here::task();
        loop {
            let next = self.ready.borrow_mut().pop_front();
            if let Some(next) = next {
                Here::switch_to(next);
                // Back here: the task has blocked or ended, and put itself where it belongs.
                continue;
            }
            debug_assert_eq!(Here::task(), me);
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
        Here::retire(Self::idle_task());
    }

    fn interrupt(&self, cause: Interrupt) {
        if cause.timer {
            self.expire();
        }
    }

    fn interrupt_return(&self, _: bool) {}

    fn wait(&self, word: usize, holds: &dyn Fn() -> bool, _: Sleep, deadline: Option<u64>) -> Wake {
        let task = Here::task();
        let deadline = deadline.map_or(u64::MAX, |ns| ns.saturating_mul(1000));
        self.sleepers.borrow_mut().push(Sleeper { word, task, deadline, done: None });
        let take = || {
            let mut list = self.sleepers.borrow_mut();
            let at = list.iter().position(|sleeper| sleeper.task == task);
            list.remove(at.expect("a sleeper's record is removed by the sleeper alone")).done
        };
        if !holds() {
            let woken = take();
            if woken.is_some() {
                // Somebody made us ready meanwhile: consume that.
                self.ready.borrow_mut().retain(|&other| other != task);
            }
            return Wake::Woken;
        }
        let pending = self.sleepers.borrow().iter().any(|s| s.task == task && s.done.is_some());
        if pending {
            self.ready.borrow_mut().retain(|&other| other != task);
        } else {
            self.arm();
            Here::switch_to(Self::idle_task());
        }
        take().unwrap_or(Wake::Woken)
    }

    fn wake(&self, word: usize, count: usize) {
        let mut woken = Vec::new();
        for sleeper in self.sleepers.borrow_mut().iter_mut() {
            if woken.len() < count && sleeper.word == word && sleeper.done.is_none() {
                sleeper.done = Some(Wake::Woken);
                woken.push(sleeper.task);
            }
        }
        for task in woken {
            self.make_ready(task);
        }
    }

    fn signal_pending(&self, _: Sleep) -> bool {
        false
    }

    fn on_cpu(&self, task: TaskId) -> bool {
        // Without preemption a task that is neither ready nor asleep runs.
        !self.ready.borrow().contains(&task)
            && !self.sleepers.borrow().iter().any(|sleeper| sleeper.task == task)
    }

    fn need_resched(&self) -> bool {
        false
    }

    fn preempt_point(&self) {}
}
