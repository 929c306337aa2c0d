//! Results of the users and their parent, for the report.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use convoy_kernel::{Process, World, ZoneStats};
use convoy_machine::{Event, Here, Mode, Watch};
use convoy_workload::api::{Fd, Kernel, Sys};
use convoy_workload::jobs::{Job, JobEnv};
use convoy_workload::rotation::Rotation;
use convoy_workload::user::{Next, user_main};
use serde::{Deserialize, Serialize};

use super::snapshot::Snapshot;
use crate::bulk::{self, BulkUse};
use crate::live::Live;

/// One interval of a run: the activity of the machine and the big kernel lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, seconds from the release of the users.
    pub at_s: f64,
    /// Idle time, percent of all CPUs.
    pub idle_percent: f64,
    /// Context switches per second.
    pub switches_per_s: f64,
    /// Acquisitions of the big kernel lock per second; 0 without such a lock, like the next two
    /// fields.
    pub acquisitions_per_s: f64,
    /// Acquisitions that were handed to a sleeping waiter, per second.
    pub handoffs_per_s: f64,
    /// Share of the interval in which the owner was not on a CPU.
    pub owner_not_running_percent: f64,
    /// Tasks that were queued on a run queue or running at the end of the interval.
    pub runnable: u64,
}

/// Pause between two switches of the console, nanoseconds: how often a person may try.
const CONSOLE_NS: u64 = 1_000_000_000;
/// From the X server's request to the signal of the kernel's worker, nanoseconds (estimate).
const WORKER_NS: u64 = 100_000;
/// From the drawn screen to the key that a person presses then, nanoseconds (estimate). It is not
/// part of the latency.
const REACTION_NS: u64 = 250_000_000;

/// Two pipes between the person and the shell: of keys, and of answers.
#[derive(Clone, Copy)]
pub(super) struct Console {
    key: (Fd, Fd),
    answer: (Fd, Fd),
}

impl Console {
    pub(super) fn new(k: &mut Process) -> Sys<Self> {
        Ok(Self { key: k.pipe()?, answer: k.pipe()? })
    }
}

/// The number of jobs that ends a run while all users are still working.
pub(super) struct Goal {
    /// Jobs of all users together.
    pub(super) jobs: u64,
    /// Descriptor that the user with the last of these jobs uses to notify the parent.
    pub(super) told: Fd,
}

/// Results of the users and the parent, for the report.
#[derive(Default)]
pub(super) struct Board {
    pub(super) t0: Cell<u64>,
    pub(super) ends: RefCell<Vec<u64>>,
    pub(super) done: Cell<u64>,
    pub(super) failed: Cell<u64>,
    pub(super) first_failure: RefCell<Option<String>>,
    pub(super) broken: RefCell<Option<String>>,
    pub(super) released: RefCell<Snapshot>,
    pub(super) ended: RefCell<Snapshot>,
    /// Whether the goal was reached, so that further jobs do not count.
    over: Cell<bool>,
    /// Transfers of the zones up to the release of the users.
    pub(super) zones: RefCell<Vec<ZoneStats>>,
    pub(super) bulk: RefCell<Vec<BulkUse>>,
    pub(super) samples: RefCell<Vec<Sample>>,
    pub(super) console_ms: RefCell<Vec<f64>>,
    /// When the shell answered last, nanoseconds.
    answered: Cell<u64>,
    live: Live,
}

impl Board {
    /// Ends the busy window: the last job that counts has just been done.
    pub(super) fn end(&self, world: &World, cpus: usize) {
        self.over.set(true);
        *self.ended.borrow_mut() = Snapshot::take(world, cpus);
        self.bulk.replace(bulk::since(world, &self.zones.borrow()));
        Here::tell(Event::Measure(false));
    }

    /// The present, or the end of the busy window.
    fn within(&self, k: &mut Process) -> u64 {
        if self.over.get() { self.ended.borrow().now_ns } else { k.now() }
    }

    /// Body of the X server, and of the person who leaves it for a shell on another console, until
    /// the busy window ends. A latency has two parts: from `Ctrl-Alt-F1` to the drawn screen, and
    /// from the key that is pressed there to the shell's answer. A switch that is under way at the
    /// end counts with its part so far.
    pub(super) fn console(&self, k: &mut Process, console: Console) {
        Here::tell(Event::Label { pid: 0, kind: "the X server", number: 0 });
        loop {
            let pressed = k.now() + CONSOLE_NS;
            k.sleep(CONSOLE_NS);
            if self.over.get() {
                break;
            }
            k.request_console();
            k.sleep(WORKER_NS);
            k.release_console();
            let drawn = self.within(k);
            let mut latency = drawn - pressed;
            if !self.over.get() {
                // The sleep ends where an interrupt and the kernel's worker pass on the key.
                k.sleep(REACTION_NS);
                let told =
                    k.write(console.key.1, &[1]).and_then(|_| k.read(console.answer.0, &mut [0]));
                assert!(told.is_ok(), "the shell lives as long as the X server");
                latency += self.answered.get().saturating_sub(drawn + REACTION_NS);
            }
            self.console_ms.borrow_mut().push(latency as f64 / 1e6);
        }
        // The shell sees the end.
        let _told = k.write(console.key.1, &[1]);
    }

    /// Body of the shell at the other console.
    pub(super) fn shell(&self, k: &mut Process, console: Console) {
        Here::tell(Event::Label { pid: 0, kind: "the shell", number: 0 });
        while k.read(console.key.0, &mut [0]).is_ok() {
            k.answer_enter();
            self.answered.set(self.within(k));
            if k.write(console.answer.1, &[1]).is_err() || self.over.get() {
                break;
            }
        }
    }

    /// Samples the machine at every interval of `every_ns` until the end, outside of virtual time.
    pub(super) fn watch(self: &Rc<Self>, world: &Rc<World>, cpus: usize, every_ns: u64) {
        let (board, world) = (Rc::clone(self), Rc::clone(world));
        let mut last = Snapshot::so_far(&world, cpus);
        Here::observe(every_ns, move |_| {
            if !board.over.get() {
                let next = Snapshot::so_far(&world, cpus);
                let sample = board.sample(&last, &next, cpus, world.sched().rq.runnable());
                board.samples.borrow_mut().push(sample);
                last = next;
            }
        });
    }

    /// Returns the interval from `last` to `next`.
    fn sample(&self, last: &Snapshot, next: &Snapshot, cpus: usize, runnable: u64) -> Sample {
        let span_s = (next.now_ns - last.now_ns) as f64 / 1e9;
        let idle = (next.modes[Mode::Idle as usize] - last.modes[Mode::Idle as usize]) as f64;
        let rate = |field: fn(&Watch) -> u64| {
            let value = |shot: &Snapshot| shot.bkl.as_ref().map_or(0, field);
            (value(next) - value(last)) as f64 / span_s
        };
        Sample {
            at_s: (next.now_ns - self.released.borrow().now_ns) as f64 / 1e9,
            idle_percent: 100.0 * idle / (span_s * 1e12 * cpus as f64),
            switches_per_s: (next.sched.switches - last.sched.switches) as f64 / span_s,
            acquisitions_per_s: rate(|watch| watch.acquisitions),
            handoffs_per_s: rate(|watch| watch.handoffs),
            owner_not_running_percent: rate(|watch| watch.owner_not_running) / 1e10,
            runnable,
        }
    }

    /// Reports the progress of the run: jobs done, and their rate so far in AIM7's unit.
    fn tell(&self, users: u32, jobs_per_user: usize) {
        let (done, all) = (self.done.get(), u64::from(users) * jobs_per_user as u64);
        let seconds = Here::now_ns().saturating_sub(self.t0.get()) as f64 / 1e9;
        let per_min = done as f64 / seconds * 60.0;
        self.live.say(format!(
            "{users} users: {done} of {all} jobs in {seconds:.1} virtual s, {per_min:.0} jobs/min"
        ));
    }

    /// Runs one of `users`, with jobs that each work in one of `places`. Returns whether it reached
    /// `goal`; then it also records the end, which otherwise the parent does.
    pub(super) fn user<K: Kernel>(
        &self,
        k: &mut K,
        users: u32,
        mut env: JobEnv,
        order: &[Job],
        places: &[String],
        goal: Option<&Goal>,
    ) -> bool {
        Here::tell(Event::Label { pid: 0, kind: "user", number: env.user });
        let mut rotation = Rotation::new(&env, places.len());
        for job in order {
            env.directory.clone_from(&places[rotation.take(*job)]);
            Here::tell(Event::Job(job.name()));
            let mut failed = None;
            let done = user_main(k, &env, &[*job], |job| {
                let text = |error| format!("user {}, {}: {error}", env.user, job.job.name());
                failed = job.result.as_ref().err().map(text);
                Next::Continue
            });
            if self.over.get() {
                return false;
            }
            self.done.set(self.done.get() + done);
            self.tell(users, order.len());
            if let Some(text) = failed {
                self.failed.set(self.failed.get() + 1);
                self.first_failure.borrow_mut().get_or_insert(text);
            }
            if goal.is_some_and(|goal| self.done.get() + self.failed.get() >= goal.jobs) {
                self.ends.borrow_mut().push(k.now());
                return true;
            }
        }
        false
    }
}
