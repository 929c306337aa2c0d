//! Measures the waits for a lock while other threads reacquire it immediately after each release.
//!
//! *Hogs* hold the lock for a while, release it and request it again without a pause. *Victims*
//! request it every 200 us and hold it for 1 us. A wait is measured in acquisitions that passed it,
//! which is almost independent of other programs, and in time, which is not.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

use convoy_os::clock::monotonic_ns;

use super::CALIBRATION;
use super::library::Library;
use super::work::{Calibration, churn};
use crate::lock_loop::Guarded;

/// Behaviour of the hogs and victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One hog with critical sections of 400 us, one victim.
    Hog,
    /// Two such hogs, one victim.
    TwoHogs,
    /// One such hog, 200 victims.
    Crowd,
    /// Three hogs that yield the CPU in the middle of critical sections of 10 us, one victim.
    Yields,
    /// One hog with critical sections of 10 us, in one of a hundred of which it sleeps for 1 ms;
    /// one victim.
    Sleeps,
}

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 5] = [Self::Hog, Self::TwoHogs, Self::Crowd, Self::Yields, Self::Sleeps];

    /// Returns its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hog => "hog",
            Self::TwoHogs => "two hogs",
            Self::Crowd => "hog and 200 waiters",
            Self::Yields => "owners that yield",
            Self::Sleeps => "owner that sleeps",
        }
    }

    /// Returns the numbers of hogs and victims.
    const fn threads(self) -> [u32; 2] {
        match self {
            Self::Hog | Self::Sleeps => [1, 1],
            Self::TwoHogs => [2, 1],
            Self::Crowd => [1, 200],
            Self::Yields => [3, 1],
        }
    }

    /// Runs a critical section of a hog that has completed `before` of them.
    fn section(self, before: u64, work: impl Fn(u32)) {
        match self {
            Self::Hog | Self::TwoHogs | Self::Crowd => work(400_000),
            Self::Yields => {
                work(5_000);
                thread::yield_now();
                work(5_000);
            }
            Self::Sleeps => {
                if before.is_multiple_of(100) {
                    thread::sleep(Duration::from_millis(1));
                }
                work(10_000);
            }
        }
    }
}

/// Result of one lock in one shape.
#[derive(Clone, Copy, Debug, Default)]
pub struct HogResult {
    /// Most acquisitions that passed one wait of a victim.
    pub passed_max: u64,
    /// The longest wait of a victim, in nanoseconds.
    pub wait_ns_max: u64,
    /// Acquisitions of all victims per second.
    pub victims_per_s: f64,
    /// Acquisitions of all hogs per second.
    pub hogs_per_s: f64,
}

impl HogResult {
    /// Returns the share of all acquisitions that victims made, 0 to 1.
    pub fn share(&self) -> f64 {
        self.victims_per_s / self.all()
    }

    /// Returns the acquisitions of all threads per second.
    pub fn all(&self) -> f64 {
        self.victims_per_s + self.hogs_per_s
    }
}

/// Sleep of a victim between two acquisitions.
const PAUSE: Duration = Duration::from_micros(200);
/// Time for which a victim holds the lock, nanoseconds.
const VISIT_NS: u32 = 1000;

struct Stage<C> {
    lock: C,
    /// Acquisitions so far; written with the lock held.
    acquisitions: AtomicU64,
    over: AtomicBool,
    calibration: &'static Calibration,
}

impl<C: Guarded> Stage<C> {
    fn work(&self, ns: u32) {
        black_box(churn(black_box(1), self.calibration.steps(ns)));
    }

    /// Acquires the lock once; returns the number of earlier acquisitions.
    fn visit(&self, section: impl FnOnce()) -> u64 {
        self.lock.with(|| {
            // Relaxed: the lock orders it.
            let before = self.acquisitions.load(Relaxed);
            self.acquisitions.store(before + 1, Relaxed);
            section();
            before
        })
    }

    fn hog(&self, shape: Shape) -> u64 {
        let mut done = 0;
        while !self.over.load(Relaxed) {
            self.visit(|| shape.section(done, |ns| self.work(ns)));
            done += 1;
        }
        done
    }

    fn victim(&self) -> (u64, HogResult) {
        let (mut done, mut result) = (0, HogResult::default());
        while !self.over.load(Relaxed) {
            let (begin, seen) = (monotonic_ns(), self.acquisitions.load(Relaxed));
            let mut end = 0;
            let before = self.visit(|| {
                end = monotonic_ns();
                self.work(VISIT_NS);
            });
            result.wait_ns_max = result.wait_ns_max.max(end - begin);
            result.passed_max = result.passed_max.max(before - seen);
            done += u64::from(!self.over.load(Relaxed));
            thread::sleep(PAUSE);
        }
        (done, result)
    }
}

/// Runs [`hogs`] with a lock of this type.
pub(super) fn run<C: Guarded + Send + Sync + 'static>(shape: Shape, window: Duration) -> HogResult {
    let stage = Arc::new(Stage {
        lock: C::free(None),
        acquisitions: AtomicU64::new(0),
        over: AtomicBool::new(false),
        calibration: CALIBRATION.get_or_init(Calibration::measure),
    });
    let [hogs, victims] = shape.threads();
    let hogs: Vec<_> = (0..hogs)
        .map(|_| {
            let stage = Arc::clone(&stage);
            thread::spawn(move || stage.hog(shape))
        })
        .collect();
    let victims: Vec<_> = (0..victims)
        .map(|_| {
            let stage = Arc::clone(&stage);
            thread::spawn(move || stage.victim())
        })
        .collect();
    thread::sleep(window);
    stage.over.store(true, Relaxed);
    let mut result = HogResult::default();
    for hog in hogs {
        result.hogs_per_s += hog.join().expect("it does not panic") as f64;
    }
    for victim in victims {
        let (done, one) = victim.join().expect("it does not panic");
        result.victims_per_s += done as f64;
        result.passed_max = result.passed_max.max(one.passed_max);
        result.wait_ns_max = result.wait_ns_max.max(one.wait_ns_max);
    }
    result.hogs_per_s /= window.as_secs_f64();
    result.victims_per_s /= window.as_secs_f64();
    result
}

/// Runs `shape` with `lock` for `window`. A wait that has not ended then counts with its whole
/// length.
pub fn hogs(lock: Library, shape: Shape, window: Duration) -> HogResult {
    lock.hogs(shape, window)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many acquisitions may pass a waiter: those that fit into the longest wait that
    /// the mutex documents. The waiter of one hog has a CPU; with two hogs on two CPUs it waits for
    /// one.
    fn bound(shape: Shape, result: &HogResult) -> u64 {
        const TURN_NS: u64 = 400_000;
        let section_s = 1.0 / result.hogs_per_s.max(1.0);
        let after_s = TURN_NS as f64 / 1e9 + 2.0 * section_s;
        let bound_s = convoy_sync::BOUND_NS as f64 / 1e9;
        let wait_s = match shape {
            Shape::Hog => bound_s / 4.0 + after_s,
            _ => bound_s + 2.0 * after_s,
        };
        match shape {
            Shape::Hog | Shape::TwoHogs => (wait_s / section_s).ceil() as u64,
            // The thread may be passed for a part of a turn by each of the threads that waited
            // before it. Locks that allow barging have 13,000 and more.
            Shape::Crowd => 10 * 201,
            // The critical sections that fit into a turn, and one more.
            Shape::Yields | Shape::Sleeps => 200,
        }
    }

    /// A thread that other programs keep from a CPU may be passed during that time, so only one of
    /// several rounds must keep the bound.
    #[test]
    fn hogs_pass_a_waiter_of_ours_a_few_times_only() {
        for shape in Shape::ALL {
            let window = Duration::from_millis(100);
            let rounds = (0..20).map(|_| hogs(Library::Convoy, shape, window));
            let rounds: Vec<HogResult> = rounds.collect();
            let is_kept = rounds.iter().any(|result| result.passed_max <= bound(shape, result));
            assert!(is_kept, "{}: {rounds:?}", shape.name());
        }
    }
}
