//! Rules on threads that spin: in loops of the program, with `sched_yield`, or by repeated attempts
//! to acquire a lock.

use convoy_record::runtimes::runtime;
use convoy_record::{
    Doing, Hot, Kind as Primitive, Origin, Process, Record, is_passing, runnable, threads, total,
};

use super::herd::of_cpu;
use super::plain::Plain;
use crate::evidence::function;
use crate::finding::{Finding, MUCH, Source};
use crate::problem::Problem;

/// Cost of a `sched_yield` call in seconds, without the switch to another thread.
const YIELD_S: f64 = 0.3e-6;
/// Cost of a failed attempt to acquire a lock, in seconds.
const ATTEMPT_S: f64 = 15e-9;
/// Cost of that switch in seconds, if the record contains no price.
const SWITCH_S: f64 = 0.7e-6;
/// Minimum number of CPU-time samples at waiting or adding instructions.
pub(super) const SAMPLES: u64 = 10;
/// Minimum part of all samples at such instructions.
pub(super) const SPINS: f64 = 0.1;
/// Minimum number of calls for a finding.
const MANY: u64 = 1000;
/// Maximum number of calls before each sleep. A thread of libstdc++ makes 4 before it sleeps for an
/// atomic (`__atomic_spin`), a worker of rayon 32 (`ROUNDS_UNTIL_SLEEPY`).
const BEFORE_SLEEP: u64 = 64;
/// Runtime libraries of OpenMP.
const OPENMP: [&str; 3] = ["libgomp", "libomp", "libiomp5"];

/// Returns the part of the CPU-time samples that `count` samples make up.
fn part(count: u64, process: &Process) -> f64 {
    count as f64 / process.samples.max(1) as f64
}

/// Returns whether samples show a loop that waits. A loop that adds to a counter succeeds as often
/// as it fails; a loop that waits for a lock almost never succeeds.
fn is_waiting_loop(hot: &Hot, process: &Process) -> bool {
    let waits = hot.spins >= SAMPLES && hot.spins > 2 * hot.atomics;
    let spins_s = part(hot.count, process) * process.cpu_s;
    let has_waits = is_of_libc(hot) || is_of_library(&hot.place, spins_s, process);
    waits && !has_waits && part(hot.spins, process) >= SPINS
}

/// Returns whether a function belongs to Rust's standard library or another library of locks, or
/// contains such code because the compiler has inlined it: these locks spin before they sleep, and
/// their waits are recorded in another way. Threads spin there for `spins_s` seconds.
fn is_of_library(place: &str, spins_s: f64, process: &Process) -> bool {
    /// Minimum length of the sleeps at a lock, as a part of the spins before them: if threads
    /// nearly always get it while they spin, its sleeps do not show that it limits them.
    const ASLEEP: f64 = 0.25;
    let is_of_rust = place.trim_start_matches(['<', '&']).starts_with("std::");
    let locks = process.locks.iter().chain(&process.futexes);
    locks.filter(|lock| [Primitive::Mutex, Primitive::Rwlock].contains(&lock.kind)).any(|lock| {
        let mut waits = lock.sites.iter().filter(|site| site.wait.total_s > 0.0);
        let is_library = match lock.origin {
            Origin::Rust if is_of_rust => return lock.wait_s() > 0.0,
            Origin::Rust => false,
            Origin::Library => !is_of_rust && is_passing(place),
            _ => return false,
        };
        let is_inlined = waits.any(|site| function(&site.place) == function(place));
        lock.wait_s() > ASLEEP * spins_s && (is_library || is_inlined)
    })
}

/// Returns a finding if threads wait in a loop, according to samples of CPU time, or because they
/// yield their CPU repeatedly.
pub(crate) fn loops(record: &Record, process: &Process) -> Option<Finding> {
    let loops = process.hot.iter().filter(|hot| is_waiting_loop(hot, process));
    let hot = loops.max_by_key(|hot| hot.spins);
    let most = process.yields.first();
    let yields = most.filter(|place| place.count > MANY);
    let calls = total(process.yields.iter().map(|place| place.count));
    let prices = &record.program.prices_ns;
    let switch_s = prices.get("price_ns.switch").map_or(SWITCH_S, |price| price[1] / 1e9);
    let yields_s = calls as f64 * (YIELD_S + switch_s);
    let given_s = given_s(process, calls, record.program.cpus);
    let yields = yields.or_else(|| most.filter(|_| given_s > 0.0));
    let locks = process.locks.iter().chain(&process.futexes);
    let sleeps = total(locks.flat_map(|lock| &lock.sites).map(|site| site.wait.count));
    let is_brief = calls <= BEFORE_SLEEP.saturating_mul(sleeps);
    let yield_cost_s = yields_s.max(given_s);
    let is_dear = !is_brief && yield_cost_s > SPINS * process.seconds;
    let (place, cpu_share, observations) = match (hot, yields) {
        // Most samples of such a loop are at its other instructions.
        (Some(hot), _) => (&hot.place, Some(part(hot.count, process)), hot.count),
        (None, Some(most)) if is_dear => (&most.place, None, calls),
        (None, _) => return None,
    };
    let running = runnable(process).unwrap_or_else(|| threads(process));
    let cpus = record.program.cpus.max(1);
    let plain = Plain {
        pid: process.pid,
        lock: place,
        share: cpu_share.or_else(|| of_cpu(process, yield_cost_s)),
        cost_s: cpu_share.map_or(yield_cost_s, |share| share * process.cpu_s),
        source: if cpu_share.is_some() { Source::Sampled } else { Source::Estimated },
        observations,
    };
    Some(plain.finding(Problem::Spinning {
        place: place.clone(),
        cpu_share,
        yields: yields.map(|most| (calls, most.place.clone())),
        runnable: (running > 1.2 * f64::from(cpus)).then_some(running),
        cpus,
        is_of_openmp: OPENMP.iter().any(|library| place.contains(library)),
    }))
}

/// Returns the time that threads waited for a CPU because they had given it away with
/// `sched_yield`, in seconds, if most of the times that they lost one are such calls. Next to other
/// programs each of a few calls costs a time slice of all threads that share the CPU.
fn given_s(process: &Process, calls: u64, cpus: u32) -> f64 {
    /// Minimum number of calls.
    const SOME: u64 = 100;
    /// Time slice of Linux schedulers, in seconds.
    const SLICE_S: f64 = 3e-3;
    let (part, ready_s) = match (&process.scheduling, process.ready_s) {
        (Some(switches), _) => {
            (calls as f64 / switches.preemptions.max(1) as f64, switches.preempted_s)
        }
        // Without kernel events, the switches are not counted.
        (None, Some(ready_s)) if ready_s > 0.0 => {
            let sharing = runnable(process).unwrap_or(0.0) / f64::from(cpus.max(1));
            (calls as f64 * sharing * SLICE_S / ready_s, ready_s)
        }
        _ => return 0.0,
    };
    if calls < SOME || part < 0.5 { 0.0 } else { part.min(1.0) * ready_s }
}

/// Returns a finding if threads repeatedly try to acquire a lock that another thread owns.
pub(crate) fn attempts(process: &Process) -> Option<Finding> {
    let busiest = process.attempts.first()?;
    let count = total(process.attempts.iter().map(|place| place.count));
    let cost_s = count as f64 * ATTEMPT_S;
    let share = of_cpu(process, cost_s)?;
    let plain = Plain {
        pid: process.pid,
        lock: &busiest.place,
        share: Some(share),
        cost_s,
        source: Source::Estimated,
        observations: count,
    };
    let place = busiest.place.clone();
    (count > MANY && share >= SPINS).then(|| plain.finding(Problem::Attempts { place, count }))
}

/// Returns a finding if threads repeatedly try to acquire a lock of another thread, and sleep
/// for some time after each attempt. Its cost is an upper bound: other threads may sleep, too.
pub(crate) fn polls(process: &Process) -> Option<Finding> {
    /// Calls that sleep for some time.
    const CALLS: [&str; 2] = ["clock_nanosleep(2)", "nanosleep(2)"];
    /// Minimum number of failed attempts, and of these for each acquisition there: a thread that
    /// has other work tries again later.
    const SOME: u64 = 100;
    const AGAIN: u64 = 2;
    /// Shortest sleep in seconds: the timer slack of Linux.
    const LEAST_S: f64 = 50e-6;
    let busiest = process.attempts.first()?;
    let sites = process.locks.iter().flat_map(|lock| &lock.sites);
    let sites = sites.filter(|site| function(&site.place) == function(&busiest.place));
    let (mut acquired, mut waited, mut off_s) = (0, 0, 0.0);
    for site in sites {
        acquired = total([acquired, site.count]);
        waited = total([waited, site.wait.count]);
        off_s += site.hold_off.total_s;
    }
    let slept = process
        .activity
        .iter()
        .filter(|seen| seen.doing == Doing::Sleeps && CALLS.contains(&seen.what.as_str()));
    // One thread may sleep all the time, until the program ends.
    let slept = total(slept.map(|seen| seen.count)).saturating_sub(process.looks);
    let slept_s = slept as f64 / process.looks.max(1) as f64 * process.seconds;
    let cost_s = slept_s - off_s;
    let (place, count) = (busiest.place.clone(), busiest.count);
    let sleeps = process.scheduling.as_ref().map_or(u64::MAX, |switches| switches.sleeps);
    let is_often = count >= SOME && count >= AGAIN.saturating_mul(acquired);
    // A thread that tries several times before it waits does not sleep between the attempts.
    let may_sleep = slept_s >= LEAST_S * count as f64 && sleeps >= count && 10 * waited <= acquired;
    // Other threads sleep for some time, too.
    let share = (cost_s / (threads(process) * process.seconds)).min(1.0);
    if !is_often || !may_sleep || share < MUCH {
        return None;
    }
    let plain = Plain {
        pid: process.pid,
        lock: &busiest.place,
        share: Some(share),
        cost_s,
        source: Source::Estimated,
        observations: count,
    };
    Some(plain.finding(Problem::Polls { place, count }))
}

/// Returns whether a function belongs to libc. Waits for libc's internal locks are recorded in
/// another way.
pub(super) fn is_of_libc(hot: &Hot) -> bool {
    const LIBRARIES: [&str; 3] = ["libc", "libpthread", "ld-linux-x86-64"];
    const FUNCTIONS: [&str; 6] = ["pthread_", "lll_", "sem_", "new_sem_", "mtx_", "cnd_"];
    let place = &hot.place;
    let name = place.trim_start_matches('_');
    let function = name.split([' ', '+']).next().unwrap_or(name);
    let is_in_library = LIBRARIES.iter().any(|library| {
        hot.library.strip_prefix(*library).is_some_and(|rest| rest.starts_with(['.', '-']))
    });
    is_in_library
        || FUNCTIONS.iter().any(|begin| name.starts_with(begin))
        || runtime(function).is_some()
        || place.contains("(libc")
        || place.contains("(libpthread")
}
