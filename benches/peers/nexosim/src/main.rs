//! The lock-contention model on `NeXosim`: one model is the lock, one each task.
//!
//! `peer-nexosim TASKS ACQUISITIONS` prints acquisitions per second of the host's CPU, one thread.

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::Output;
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const HOLD: u64 = 100;

static ACQUISITIONS: AtomicU64 = AtomicU64::new(0);

#[derive(Serialize, Deserialize)]
struct Lock {
    held: bool,
    queue: VecDeque<usize>,
    grant: Vec<Output<()>>,
}

#[Model]
impl Lock {
    async fn acquire(&mut self, task: usize) {
        if self.held {
            self.queue.push_back(task);
        } else {
            self.held = true;
            self.grant[task].send(()).await;
        }
    }

    async fn release(&mut self) {
        match self.queue.pop_front() {
            Some(task) => self.grant[task].send(()).await,
            None => self.held = false,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Task {
    id: usize,
    tasks: u64,
    random: u64,
    acquire: Output<usize>,
    release: Output<()>,
}

#[Model]
impl Task {
    #[nexosim(schedulable)]
    async fn want(&mut self) {
        self.acquire.send(self.id).await;
    }

    async fn granted(&mut self, (): (), cx: &Context<Self>) {
        ACQUISITIONS.fetch_add(1, Relaxed);
        let hold = Duration::from_nanos(HOLD);
        cx.schedule_event(hold, schedulable!(Self::finish), ()).expect("a time to come");
    }

    #[nexosim(schedulable)]
    async fn finish(&mut self, (): (), cx: &Context<Self>) {
        self.release.send(()).await;
        // Uniform in [0.5, 1.5) * tasks / 10.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let think = self.tasks / 20 + (self.random >> 33) % (self.tasks / 10).max(1);
        let think = Duration::from_nanos(think.max(1));
        cx.schedule_event(think, schedulable!(Self::want), ()).expect("a time to come");
    }
}

/// Seconds for which this process has had a CPU.
fn cpu_seconds() -> f64 {
    let mut ns = 0.0;
    for thread in std::fs::read_dir("/proc/self/task").expect("proc is mounted") {
        let path = thread.expect("a thread").path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        ns += text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
    }
    ns / 1e9
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let &[tasks, acquisitions] = &numbers[..] else {
        return Err("usage: peer-nexosim TASKS ACQUISITIONS".into());
    };
    let mut lock = Lock { held: false, queue: VecDeque::new(), grant: Vec::new() };
    let lock_box: Mailbox<Lock> = Mailbox::new();
    let mut bench = SimInit::with_num_threads(1);
    for id in 0..tasks {
        let mailbox = Mailbox::new();
        let random = (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let id = id as usize;
        let (acquire, release) = (Output::default(), Output::default());
        let mut task = Task { id, tasks, random, acquire, release };
        task.acquire.connect(Lock::acquire, &lock_box);
        task.release.connect(Lock::release, &lock_box);
        let mut grant = Output::default();
        grant.connect(Task::granted, &mailbox);
        lock.grant.push(grant);
        bench = bench.add_model(task, mailbox, &format!("task{id}"));
    }
    // All tasks want the lock at the start: the first has it, the others queue.
    lock.queue = (0..tasks as usize).collect();
    let start = nexosim::ports::EventSource::new()
        .connect(Lock::release, lock_box.address())
        .register(&mut bench);
    lock.held = true;
    let mut simulation = bench.add_model(lock, lock_box, "lock").init(MonotonicTime::EPOCH)?;
    simulation.process_event(&start, ())?;
    let begin = cpu_seconds();
    simulation.step_until(Duration::from_nanos(acquisitions * HOLD))?;
    let seconds = cpu_seconds() - begin;
    println!("{:.0}", ACQUISITIONS.load(Relaxed) as f64 / seconds);
    Ok(())
}
