//! Work of a given length, and how cells are run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// Length of one measurement.
pub const WINDOW: Duration = Duration::from_millis(100);

static SPINS_PER_US: OnceLock<f64> = OnceLock::new();
static INITIALISE: AtomicU64 = AtomicU64::new(0);

/// Work for the CPU, which does not end sooner because the thread was preempted.
#[derive(Clone, Copy)]
pub struct Spin(u64);

impl Spin {
    pub fn new(ns: u64) -> Self {
        let per_us = *SPINS_PER_US.get_or_init(|| {
            const SPINS: u64 = 2_000_000;
            let rounds = (0..5).map(|_| {
                let begin = Instant::now();
                Self(SPINS).run();
                begin.elapsed()
            });
            SPINS as f64 / rounds.min().expect("five rounds").as_nanos() as f64 * 1e3
        });
        Self((ns as f64 * per_us / 1e3) as u64)
    }

    pub fn run(self) {
        for spin in 0..self.0 {
            std::hint::black_box(spin);
        }
    }

    /// Sets the work of [`Self::initialise`].
    pub fn set(self) {
        // Relaxed: threads start later.
        INITIALISE.store(self.0, Relaxed);
    }

    /// The function that a `Once` runs; C functions get no argument.
    pub extern "C" fn initialise() {
        // Relaxed: set before the threads started.
        Self(INITIALISE.load(Relaxed)).run();
    }
}

/// The result of one run.
#[derive(Clone, Copy)]
pub struct Run {
    pub per_s: f64,
    pub cpu_ns: f64,
}

/// CPU time of this process.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is a valid place for the result.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "a clock of Linux");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Lets each thread repeat `step`, `steps` times or for one [`WINDOW`].
pub fn run(threads: u32, steps: Option<u64>, step: &(impl Fn(u32, u64) + Sync)) -> Run {
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Barrier::new(threads as usize + 1);
    let (mut begin, mut before) = (Instant::now(), cpu());
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (stop, total, start) = (&stop, &total, &start);
            scope.spawn(move || {
                start.wait();
                let mut done = 0;
                // Relaxed, both: threads are joined before the total is read.
                while steps.map_or_else(|| !stop.load(Relaxed), |steps| done < steps) {
                    step(number, done);
                    done += 1;
                }
                total.fetch_add(done, Relaxed);
            });
        }
        start.wait();
        (begin, before) = (Instant::now(), cpu());
        if steps.is_none() {
            std::thread::sleep(WINDOW);
            stop.store(true, Relaxed);
        }
    });
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), cpu() - before);
    let total = total.into_inner() as f64;
    Run { per_s: total / seconds, cpu_ns: cpu.as_nanos() as f64 / total }
}
