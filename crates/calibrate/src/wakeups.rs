//! Measures the cost of a context switch, and the latency of a wakeup on a CPU that just became
//! idle, has been idle for long, or is busy. A hypervisor shows in all three.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use convoy_sync::{Native, Platform, Sleep};

use crate::probe::{MachineError, least, pin, start};
use convoy_os::clock::monotonic_ns;

/// Repetitions of one batch: some ten microseconds.
const BATCH: u64 = 64;
/// Batches of which the least counts.
const BATCHES: usize = 300;
/// Steps of one batch of a ring, and batches of which the least counts.
const RING_STEPS: u64 = 4096;
const RING_BATCHES: usize = 50;
/// Wakeups of which the median counts.
pub(crate) const WAKEUPS: u32 = 200;

/// Lower quartile, median and upper quartile.
pub type Quartiles = [f64; 3];

/// Nanoseconds that threads pay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    /// One look of a spinning loop beyond the load.
    pub(crate) pause: f64,
    pub(crate) clock: f64,
    /// `sched_yield` of the only thread of a CPU: the call, and one pass of the scheduler.
    pub(crate) yield_alone: f64,
    /// A switch to another thread, beyond that.
    pub(crate) switch: f64,
    /// A thread wakes another on its CPU through a futex and goes to sleep, one way.
    pub(crate) pass_on: f64,
}

/// What wakeups on another CPU take, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeups {
    /// From the call to the woken thread, on a CPU that just became idle.
    pub(crate) idle: Quartiles,
    /// The call alone.
    pub(crate) call: Quartiles,
    /// As `idle`, for a CPU that idled for milliseconds.
    pub(crate) halted: Quartiles,
    /// As `idle`, for a CPU that ran another thread.
    pub(crate) busy: Quartiles,
}

fn wait(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) == value {
        Native::wait(word, value, Sleep::Uninterruptible, None);
    }
}

fn wake(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    Native::wake(word, 1);
}

/// Measures on CPU `cpu`; `hit` is the load that a look contains.
pub(crate) fn threads(cpu: usize, hit: f64) -> Result<Threads, MachineError> {
    fn yields() -> f64 {
        least(BATCHES, BATCH, || {
            for _ in 0..BATCH {
                std::thread::yield_now();
            }
        })
    }
    pin(cpu)?;
    let word = AtomicU32::new(0);
    let looks = least(BATCHES, BATCH * 16, || {
        for _ in 0..BATCH * 16 {
            black_box(word.load(Ordering::Acquire) == 1);
            std::hint::spin_loop();
        }
    });
    let clock = least(BATCHES, BATCH, || {
        for _ in 0..BATCH {
            black_box(monotonic_ns());
        }
    });
    let yield_alone = yields();
    let end = AtomicBool::new(false);
    let together = std::thread::scope(|scope| {
        // It inherits the CPU.
        start(scope, || {
            while !end.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        })?;
        std::thread::yield_now();
        let together = yields();
        end.store(true, Ordering::Relaxed);
        Ok::<_, MachineError>(together)
    })?;
    // Each of its yields is followed by one of the other thread.
    let switch = (together / 2.0 - yield_alone).max(0.0);
    let pause = (looks - hit).max(0.0);
    Ok(Threads { pause, clock, yield_alone, switch, pass_on: pass_on()? })
}

/// Threads of one CPU, in a ring, wake each the next one and go to sleep: nanoseconds of one step.
/// Each comes back after as many switches as there are threads.
pub(crate) fn ring(cpu: usize, threads: usize) -> Result<f64, MachineError> {
    pin(cpu)?;
    let words: Vec<AtomicU32> = (0..threads).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for at in 1..threads {
            let (mine, next) = (&words[at], &words[(at + 1) % threads]);
            let started = start(scope, move || {
                let mut turn = 0;
                while turn != u32::MAX {
                    wait(mine, turn);
                    turn = mine.load(Ordering::Acquire);
                    wake(next, turn);
                }
            });
            // The threads before it pass the end on to each other.
            started.inspect_err(|_| wake(&words[1], u32::MAX))?;
        }
        let mut turn = 0;
        let rounds = (RING_STEPS / threads as u64).max(1);
        let ns = least(RING_BATCHES, rounds * threads as u64, || {
            for _ in 0..rounds {
                turn += 1;
                wake(&words[1 % threads], turn);
                wait(&words[0], turn - 1);
            }
        });
        wake(&words[1 % threads], u32::MAX);
        wait(&words[0], turn);
        Ok(ns)
    })
}

/// Two threads of this CPU wake each other in turn.
fn pass_on() -> Result<f64, MachineError> {
    let (there, back) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        start(scope, || {
            let mut turn = 0;
            loop {
                wait(&there, turn);
                turn = there.load(Ordering::Acquire);
                if turn == u32::MAX {
                    return;
                }
                wake(&back, turn);
            }
        })?;
        let mut turn = 0;
        let ns = least(BATCHES, 2 * BATCH, || {
            for _ in 0..BATCH {
                turn += 1;
                wake(&there, turn);
                wait(&back, turn - 1);
            }
        });
        wake(&there, u32::MAX);
        Ok(ns)
    })
}

/// Measures `count` wakeups of each kind by CPU `from` on CPU `to`.
pub(crate) fn wakeups(from: usize, to: usize, count: u32) -> Result<Wakeups, MachineError> {
    pin(from)?;
    let (idle, call) = wakeups_after(to, count, 50_000, false)?;
    let (halted, _) = wakeups_after(to, count, 3_000_000, false)?;
    let (busy, _) = wakeups_after(to, count, 3_000_000, true)?;
    Ok(Wakeups { idle, call, halted, busy })
}

/// Nanoseconds from a call to the woken thread on CPU `to`, and of the call, when the sleeper has
/// slept for `gap` nanoseconds and its CPU idled, or is `busy`.
fn wakeups_after(
    to: usize,
    count: u32,
    gap: u64,
    busy: bool,
) -> Result<(Quartiles, Quartiles), MachineError> {
    let (word, seen) = (AtomicU32::new(0), AtomicU32::new(0));
    let (end, arrived) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let sleeper = start(scope, || -> Result<(), MachineError> {
            let pinned = pin(to);
            let mut turn = 0;
            while turn != u32::MAX {
                wait(&word, turn);
                arrived.store(monotonic_ns(), Ordering::Relaxed);
                turn = word.load(Ordering::Acquire);
                seen.store(turn, Ordering::Release);
            }
            pinned
        })?;
        let spinner = || -> Result<(), MachineError> {
            pin(to)?;
            while !end.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            Ok(())
        };
        let spinner = busy.then(|| start(scope, spinner)).transpose();
        let spinner = spinner.inspect_err(|_| wake(&word, u32::MAX))?;
        let (mut latencies, mut calls) = (Vec::new(), Vec::new());
        for turn in 1..=count {
            let until = monotonic_ns() + gap;
            while monotonic_ns() < until {
                std::hint::spin_loop();
            }
            let asked = monotonic_ns();
            wake(&word, turn);
            calls.push((monotonic_ns() - asked) as f64);
            while seen.load(Ordering::Acquire) != turn {
                std::hint::spin_loop();
            }
            latencies.push(arrived.load(Ordering::Relaxed).saturating_sub(asked) as f64);
        }
        end.store(true, Ordering::Relaxed);
        wake(&word, u32::MAX);
        let ended = sleeper.join().expect("the sleeper does not panic");
        let spun = spinner.map_or(Ok(()), |spinner| spinner.join().expect("no panic"));
        ended.and(spun)?;
        Ok((quartiles(latencies), quartiles(calls)))
    })
}

fn quartiles(mut values: Vec<f64>) -> Quartiles {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|part| values[values.len() * part / 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_wakeups_can_be_measured() {
        let all = convoy_os::clock::usable_cpus();
        let one = threads(all[0], 1.0).unwrap();
        assert!(one.clock > 0.0 && one.yield_alone > 0.0 && one.pass_on > 0.0);
        let (latency, call) = wakeups_after(*all.last().unwrap(), 20, 1000, false).unwrap();
        for [low, median, high] in [latency, call] {
            assert!(0.0 < low && low <= median && median <= high);
        }
    }
}
