//! The lock-contention model of `benches/peers` on the virtual machine: a lock that hands off in
//! arrival order, its cache lines, coroutines on CPUs, sleeping and waking.
//!
//! `contention TASKS ACQUISITIONS [CPUS] [queue | mutex | bare]` prints acquisitions per second of
//! the host's CPU: of the handoff semaphore of `convoy-sync`, of its mutex without handoff, or of a
//! minimal lock with a queue of sleeping waiters, like the peers' locks. `bare` is the same model
//! without machine, tasks and locks, a heap of times and a queue of numbers: an upper bound for any
//! simulator.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks")]

use convoy_machine::{Fifo, Here, Preset, Sim, Smp, Word};
use convoy_sync::kernel::{Mutex, Semaphore};
use convoy_sync::{Atomic, Handoff, NoSpin, Platform, RawSemaphore as _, Sleep};
use std::cell::{Cell, OnceCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Picoseconds of one unit of time of the model: a hold is 100 of them.
const UNIT: u64 = 100_000;
const HOLD: u64 = 100 * UNIT;

/// A lock of the model; `task` takes and releases it.
trait Lock {
    fn new(tasks: usize) -> Self;
    fn lock(&self, task: usize);
    fn unlock(&self, task: usize);
}

impl Lock for Sim<Semaphore<Smp, Handoff>> {
    fn new(_: usize) -> Self {
        Here::place(Semaphore::new(1))
    }

    fn lock(&self, _: usize) {
        self.down();
    }

    fn unlock(&self, _: usize) {
        self.up();
    }
}

impl Lock for Sim<Mutex<Smp, NoSpin>> {
    fn new(_: usize) -> Self {
        Here::place(Mutex::default())
    }

    fn lock(&self, _: usize) {
        (**self).lock();
    }

    fn unlock(&self, _: usize) {
        (**self).unlock();
    }
}

/// A task's place in the queue; the words name tasks by number + 1.
#[derive(Default)]
struct Node {
    next: Word<u32>,
    granted: Word<u32>,
}

/// The queue lock of Mellor-Crummey and Scott (1991) with waiters that sleep in the place of
/// spinning.
struct Queue {
    tail: Sim<Word<u32>>,
    nodes: Vec<Sim<Node>>,
}

impl Lock for Queue {
    fn new(tasks: usize) -> Self {
        let nodes = (0..tasks).map(|_| Here::place(Node::default())).collect();
        Self { tail: Here::place(Word::new(0)), nodes }
    }

    fn lock(&self, task: usize) {
        let node = &*self.nodes[task];
        node.next.store(0, Relaxed);
        node.granted.store(0, Relaxed);
        // AcqRel pairs with itself: the predecessor's node is ready, and so is this one.
        let before = self.tail.swap(task as u32 + 1, AcqRel);
        if before != 0 {
            // Release pairs with the acquire in `unlock`.
            self.nodes[before as usize - 1].next.store(task as u32 + 1, Release);
            // Acquire pairs with the release in `unlock`.
            while node.granted.load(Acquire) == 0 {
                Smp::wait(&node.granted, 0, Sleep::Uninterruptible, None);
            }
        }
    }

    fn unlock(&self, task: usize) {
        let node = &*self.nodes[task];
        let mut next = node.next.load(Acquire);
        if next == 0 {
            // Release pairs with the next owner's swap.
            if self.tail.compare_exchange(task as u32 + 1, 0, Release, Relaxed).is_ok() {
                return;
            }
            next = Smp::spin_until(&node.next, |next| next != 0);
        }
        let granted = &self.nodes[next as usize - 1].granted;
        // Release pairs with the acquire in `lock`.
        granted.store(1, Release);
        Smp::wake(granted, 1);
    }
}

struct Model<L> {
    lock: OnceCell<L>,
    tasks: usize,
    left: Cell<u64>,
}

impl<L: Lock> Model<L> {
    fn task(&self, task: usize) {
        let lock = self.lock.get_or_init(|| L::new(self.tasks));
        for turn in 0.. {
            lock.lock(task);
            self.left.set(self.left.get().saturating_sub(1));
            if self.left.get() == 0 {
                Here::stop();
            }
            Here::compute(HOLD);
            lock.unlock(task);
            // Uniform in [0.5, 1.5) * tasks / 10 units.
            let mean = self.tasks as u64 * UNIT / 10;
            Here::compute(mean / 2 + Here::draw((task as u64) << 32 | turn) % mean);
        }
    }
}

/// Seconds for which this thread has had a CPU.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN) / 1e9
}

/// Acquisitions per second of CPU time.
fn rate<L: Lock + 'static>(preset: &Preset, tasks: usize, acquisitions: u64) -> f64 {
    let left = Cell::new(acquisitions);
    let model = Rc::new(Model::<L> { lock: OnceCell::new(), tasks, left });
    let bodies = (0..tasks)
        .map(|task| {
            let model = Rc::clone(&model);
            Box::new(move || model.task(task)) as Box<dyn FnOnce()>
        })
        .collect();
    let begin = cpu_seconds();
    let run = Fifo::run(preset, 1, u64::MAX / 1000, bodies);
    run.expect("address space for the tasks");
    acquisitions as f64 / (cpu_seconds() - begin)
}

/// [`rate`] of the model alone.
fn bare(tasks: usize, acquisitions: u64) -> f64 {
    let begin = cpu_seconds();
    let mut state = 1_u64;
    let mut think = |now: u64| {
        // Marsaglia's xorshift of 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let mean = tasks as u64 * UNIT / 10;
        now + mean / 2 + state % mean
    };
    let mut events: BinaryHeap<_> = (0..tasks).map(|task| Reverse((think(0), task))).collect();
    let (mut owner, mut queue) = (None, VecDeque::new());
    let mut left = acquisitions;
    while left > 0 {
        let Reverse((now, task)) = events.pop().expect("every task has an event or waits");
        // The owner's event is the end of its section, that of others the end of their thinking.
        if owner == Some(task) {
            events.push(Reverse((think(now), task)));
            owner = queue.pop_front();
        } else if owner.is_none() {
            owner = Some(task);
        } else {
            queue.push_back(task);
            continue;
        }
        if let Some(next) = owner {
            left -= 1;
            events.push(Reverse((now + HOLD, next)));
        }
    }
    acquisitions as f64 / (cpu_seconds() - begin)
}

fn main() -> ExitCode {
    let texts: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    let (&[tasks, acquisitions] | &[tasks, acquisitions, _]) = &numbers[..] else {
        eprintln!("usage: contention TASKS ACQUISITIONS [CPUS] [queue | mutex | bare]");
        return ExitCode::from(2);
    };
    let cpus = numbers.get(2).map_or(4, |&cpus| cpus as usize);
    let preset = Preset::named("quad-2008-shared-llc").expect("a shipped preset").with_cpus(cpus);
    let rate = match texts.last().map(String::as_str) {
        Some("bare") => |_: &Preset, tasks, acquisitions| bare(tasks, acquisitions),
        Some("queue") => rate::<Queue>,
        Some("mutex") => rate::<Sim<Mutex<Smp, NoSpin>>>,
        _ => rate::<Sim<Semaphore<Smp, Handoff>>>,
    };
    println!("{:.0}", rate(&preset, tasks as usize, acquisitions));
    ExitCode::SUCCESS
}
