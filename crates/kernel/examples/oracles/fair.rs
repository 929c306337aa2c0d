//! Tasks of equal weight on one CPU under the fair scheduler: equal shares, turns in order.

use crate::{Row, bare};
use convoy_kernel::KernelPreset;
use convoy_kernel::sched::Sched;
use convoy_machine::{Here, Machine, Outcome, Smp, Word};
use convoy_sync::{Atomic, Platform, Sleep};
use std::cell::Cell;
use std::rc::Rc;

/// Latency period and least slice of 2.6.25 on one CPU, and the tasks that share one period.
const LATENCY_MS: f64 = 20.0;
const SLICE_MS: f64 = 4.0;
const SHARING: usize = 5;

/// Period of the tick of 2.6.23, and its least granularity on one CPU.
const TICK_MS: f64 = 4.0;
const GRANULARITY_MS: f64 = 2.0;

/// From 2.6.25 on a timer of high resolution ends each turn after its slice; in 2.6.23 the first
/// tick does at which the latency over the tasks has passed.
fn turn_ms(kernel: &str, tasks: usize) -> f64 {
    let slice = LATENCY_MS / tasks as f64;
    match kernel {
        "2.6.23" => (slice.max(GRANULARITY_MS) / TICK_MS).ceil() * TICK_MS,
        _ if tasks <= SHARING => slice,
        _ => SLICE_MS,
    }
}

#[derive(Clone, Copy, Default)]
struct Seen {
    least: f64,
    most: f64,
    switches: u64,
    ms: f64,
}

/// Least and most milliseconds that one of `tasks` got in `rounds` of their turns.
fn measure(kernel: &str, tasks: usize, rounds: u32) -> Seen {
    let span_ms = f64::from(rounds) * turn_ms(kernel, tasks) * tasks as f64;
    let kernel = KernelPreset::named(kernel).expect("a shipped preset");
    let preset = bare(1);
    let machine = Machine::new(&preset, 1, tasks + 8).expect("address space");
    let sched = Sched::new(&kernel, &preset);
    let (inner, seen) = (Rc::clone(&sched), Rc::new(Cell::new(Seen::default())));
    let result = Rc::clone(&seen);
    sched.boot(
        &machine,
        Box::new(move || {
            let hogs: Vec<_> = (0..tasks)
                .map(|_| inner.fork_on(0, Box::new(|| Here::user(u64::MAX / 4))).expect("room"))
                .collect();
            let word = Here::place(Word::<u32>::new(0));
            let sleep = |ms: f64| {
                let until = Smp::now() + (ms * 1e6) as u64;
                Smp::wait(&word, 0, Sleep::Uninterruptible, Some(until));
                let times: Vec<u64> = hogs.iter().map(|&hog| inner.rq.cpu_time_ps(hog)).collect();
                (Here::now_ps(), inner.rq.stats(), times)
            };
            let (from, before, start) = sleep(2000.0);
            let (to, after, end) = sleep(span_ms);
            let ran = || end.iter().zip(&start).map(|(end, start)| (end - start) as f64 / 1e9);
            result.set(Seen {
                least: ran().fold(f64::MAX, f64::min),
                most: ran().fold(0.0, f64::max),
                switches: after.since(&before).switches,
                ms: (to - from) as f64 / 1e9,
            });
            Here::stop();
        }),
    );
    assert_eq!(machine.run(u64::MAX / 1000), Outcome::Stopped);
    seen.get()
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    // Five tasks of 2.6.23 would be due a slice of just one tick, which is over or not at its end.
    let cases = [("2.6.23", [2, 7, 20]), ("2.6.25", [2, 5, 20]), ("2.6.26-rc1", [2, 5, 20])];
    for (kernel, lengths) in cases {
        for tasks in lengths {
            let seen = measure(kernel, tasks, 400 / tasks as u32);
            let (turn, share) = (turn_ms(kernel, tasks), seen.ms / tasks as f64);
            let name = format!("{tasks} tasks on one CPU of {kernel}");
            let mean = seen.ms / seen.switches as f64;
            rows.push(Row::new(format!("{name}: turn"), "ms", turn, mean));
            rows.push(Row::new(format!("{name}: share of the last"), "ms", share, seen.least));
            // Equal weights: virtual run time is run time.
            let spread = (seen.most - seen.least).max(turn);
            rows.push(Row::new(format!("{name}: spread, at most a turn"), "ms", turn, spread));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    #[test]
    fn equal_tasks_get_equal_shares_in_turns_of_the_known_length() {
        crate::assert_all(&super::rows());
    }
}
