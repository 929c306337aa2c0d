//! Results that follow from the order of holds: the price of moving data, since a critical section
//! takes longer after another thread held the lock, and the number of threads that hold a semaphore
//! at the same time.
//!
//! The recorded windows cover all threads at the same time, so the previous owner is known for each
//! hold, and holds are separated by whether it was the same thread.

use std::collections::BTreeMap;

use convoy_record::trace::{Strip, Trace, What};
use convoy_record::{Kind, Lock, Process};
use convoy_runs::replay::Moved;

/// Number of holds of either kind below which no price is derived.
const ENOUGH: usize = 30;

/// One hold: its start, nanoseconds since the process began; its length, nanoseconds; its thread;
/// and whether the thread kept its CPU.
struct Hold {
    begin_ns: f64,
    length_ns: f64,
    thread: u64,
    kept_cpu: bool,
}

impl Hold {
    fn end_ns(&self) -> f64 {
        self.begin_ns + self.length_ns
    }
}

/// Returns the price of moved data for each of the kept locks, in order; 0 if the windows have too
/// few holds.
pub(crate) fn moved(process: &Process, kept: &[&Lock]) -> Vec<Moved> {
    let number = |lock: &Lock| process.locks.iter().position(|one| std::ptr::eq(one, lock));
    kept.iter()
        .map(|lock| number(lock).map(|at| of_lock(&process.trace, at as u64)).unwrap_or_default())
        .collect()
}

/// Returns the largest number of threads that held a lock of this name simultaneously in the
/// recorded windows; at least 1, and all threads of the process where the units are not known.
pub(crate) fn together(process: &Process, lock: &Lock) -> u32 {
    let number = process.locks.iter().position(|one| std::ptr::eq(one, lock));
    let most = number.and_then(|at| held_at_once(&process.trace, at as u64));
    let least = if is_unsized(lock) { process.threads as u32 } else { 1 };
    (most.unwrap_or(0) as u32).max(least).max(1)
}

/// Returns whether threads waited for a semaphore so seldom that the number of its units is not
/// known: as many as were ever held at the same time, or any larger number.
pub(crate) fn is_unsized(lock: &Lock) -> bool {
    /// Waits of all acquisitions: with fewer, windows may not show a moment at which a thread
    /// waited, and thus all units held.
    const SELDOM: f64 = 0.01;
    lock.kind == Kind::Semaphore && (lock.contended() as f64) < SELDOM * lock.count() as f64
}

fn held_at_once(trace: &Trace, lock: u64) -> Option<usize> {
    let of_window = |strips: Vec<&Strip>| {
        let all = holds(trace, &strips, lock).into_values();
        all.filter_map(|holds| {
            let now = |at: f64| move |one: &&Hold| one.begin_ns <= at && at < one.end_ns();
            holds.iter().map(|one| holds.iter().filter(now(one.begin_ns)).count()).max()
        })
        .max()
    };
    windows(trace).into_values().filter_map(of_window).max()
}

fn windows(trace: &Trace) -> BTreeMap<u64, Vec<&Strip>> {
    let mut windows: BTreeMap<u64, Vec<&Strip>> = BTreeMap::new();
    for strip in &trace.strips {
        windows.entry(strip.window).or_default().push(strip);
    }
    windows
}

fn of_lock(trace: &Trace, lock: u64) -> Moved {
    let (mut own, mut moved) = (Vec::new(), Vec::new());
    for strips in windows(trace).values() {
        for holds in holds(trace, strips, lock).into_values() {
            for pair in holds.windows(2).filter(|pair| pair[1].kept_cpu) {
                let same = pair[0].thread == pair[1].thread;
                if same { &mut own } else { &mut moved }.push(pair[1].length_ns);
            }
        }
    }
    if own.len() < ENOUGH || moved.len() < ENOUGH {
        return Moved::default();
    }
    let share = moved.len() as f64 / (own.len() + moved.len()) as f64;
    Moved { extra_ns: (median(&mut moved) - median(&mut own)).max(0.0), share }
}

/// Returns the holds of each lock of a name in a window, ordered by their start, up to the time at
/// which the first strip ends.
fn holds(trace: &Trace, strips: &[&Strip], lock: u64) -> BTreeMap<u64, Vec<Hold>> {
    let mut found: BTreeMap<u64, Vec<Hold>> = BTreeMap::new();
    let mut seen_until = f64::INFINITY;
    for strip in strips {
        let mut clock = strip.begin_s * 1e9;
        let mut held: BTreeMap<u64, (f64, bool)> = BTreeMap::new();
        for step in &strip.steps {
            let begin = clock + step.gap_ns as f64;
            clock = begin + step.took_ns as f64;
            for hold in held.values_mut() {
                hold.1 &= !step.off;
            }
            let Some(place) = trace.places.get(step.place).filter(|place| place.lock == lock)
            else {
                continue;
            };
            match step.what {
                What::Lock if !step.failed => drop(held.insert(place.instance, (clock, true))),
                What::Unlock => {
                    if let Some((from, kept_cpu)) = held.remove(&place.instance) {
                        let hold = Hold {
                            begin_ns: from,
                            length_ns: begin - from,
                            thread: strip.thread,
                            kept_cpu,
                        };
                        found.entry(place.instance).or_default().push(hold);
                    }
                }
                _ => {}
            }
        }
        seen_until = seen_until.min(clock);
    }
    for holds in found.values_mut() {
        holds.retain(|hold| hold.begin_ns <= seen_until);
        holds.sort_by(|a, b| a.begin_ns.total_cmp(&b.begin_ns));
    }
    found
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::trace::{Place, Step};

    #[test]
    fn holds_of_several_threads_at_once_are_counted() {
        let step = |what, gap_ns| Step { what, gap_ns, ..Step::default() };
        // Each thread holds for 300 of 1000 ns, and begins 100 ns after the previous thread.
        let strip = |thread: u64| {
            let round = [step(What::Lock, 700), step(What::Unlock, 300)];
            let begin_s = thread as f64 * 100e-9;
            Strip { thread, window: 1, begin_s, steps: round.repeat(20), ..Strip::default() }
        };
        let trace = |threads: u64| Trace {
            places: vec![Place::default()],
            strips: (0..threads).map(strip).collect(),
            ..Trace::default()
        };
        assert_eq!(
            [1, 2, 3, 7].map(|threads| held_at_once(&trace(threads), 0)),
            [1, 2, 3, 3].map(Some)
        );
        assert_eq!(held_at_once(&trace(2), 1), None);
        assert_eq!(together(&Process::default(), &Lock::default()), 1);
    }

    /// Two threads hold a lock in turn, each of them twice: for 300 ns after the other thread, then
    /// for 100 ns.
    #[test]
    fn holds_after_another_thread_are_kept_apart() {
        let step = |what, gap_ns| Step { what, gap_ns, ..Step::default() };
        let strip = |thread: u64| {
            let mut steps = Vec::new();
            for turn in 0..100 {
                // A turn takes 2000 ns; the second thread has the second half.
                let wait = if turn == 0 { 1000 * thread } else { 2000 - 100 - 300 - 100 };
                steps.extend([step(What::Lock, wait), step(What::Unlock, 300)]);
                steps.extend([step(What::Lock, 100), step(What::Unlock, 100)]);
            }
            Strip { thread, window: 1, steps, ..Strip::default() }
        };
        let trace = Trace {
            places: vec![Place::default()],
            strips: vec![strip(0), strip(1)],
            ..Trace::default()
        };
        let found = of_lock(&trace, 0);
        assert!((found.extra_ns - 200.0).abs() < 1e-9, "{found:?}");
        assert!((found.share - 0.5).abs() < 0.02, "{found:?}");
        assert_eq!(of_lock(&trace, 1), Moved::default());
    }
}
