//! The lock-contention model of `benches/peers` on the virtual machine: the semaphore that hands
//! off in arrival order, its cache lines, coroutines on CPUs, sleeping and waking.
//!
//! `contention TASKS ACQUISITIONS [CPUS]` prints acquisitions per second of the host's CPU.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks")]

use convoy_machine::{Fifo, Here, Preset, Sim, Smp};
use convoy_sync::{Handoff, RawSemaphore as _, Semaphore};
use std::cell::{Cell, OnceCell};
use std::process::ExitCode;
use std::rc::Rc;

/// Picoseconds of one unit of time of the model: a hold is 100 of them.
const UNIT: u64 = 100_000;
const HOLD: u64 = 100 * UNIT;

struct Model {
    lock: OnceCell<Sim<Semaphore<Smp, Handoff>>>,
    tasks: u64,
    left: Cell<u64>,
}

impl Model {
    fn task(&self, task: u64) {
        let lock = self.lock.get_or_init(|| Here::place(Semaphore::new(1)));
        for turn in 0.. {
            lock.down();
            self.left.set(self.left.get().saturating_sub(1));
            if self.left.get() == 0 {
                Here::stop();
            }
            Here::compute(HOLD);
            lock.up();
            // Uniform in [0.5, 1.5) * tasks / 10 units.
            let mean = self.tasks * UNIT / 10;
            Here::compute(mean / 2 + Here::draw(task << 32 | turn) % mean);
        }
    }
}

/// Seconds for which this thread has had a CPU.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN) / 1e9
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (&[tasks, acquisitions] | &[tasks, acquisitions, _]) = &numbers[..] else {
        eprintln!("usage: contention TASKS ACQUISITIONS [CPUS]");
        return ExitCode::from(2);
    };
    let cpus = numbers.get(2).map_or(4, |&cpus| cpus as usize);
    let preset = Preset::named("quad-2008-shared-llc").expect("a shipped preset").with_cpus(cpus);
    let model = Rc::new(Model { lock: OnceCell::new(), tasks, left: Cell::new(acquisitions) });
    let bodies = (0..tasks)
        .map(|task| {
            let model = Rc::clone(&model);
            Box::new(move || model.task(task)) as Box<dyn FnOnce()>
        })
        .collect();
    let begin = cpu_seconds();
    let run = Fifo::run(&preset, 1, u64::MAX / 1000, bodies);
    run.expect("address space for the tasks");
    println!("{:.0}", acquisitions as f64 / (cpu_seconds() - begin));
    ExitCode::SUCCESS
}
