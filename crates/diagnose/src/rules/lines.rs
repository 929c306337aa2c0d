//! Rules on cache lines that move between CPUs although no thread waits: counters of readers, and
//! locks that share a line with something else.

use convoy_record::{Hot, Kind as Primitive, Lock, Process, Site, Times, threads, total};

use super::herd::of_cpu;
use super::plain::Plain;
use super::spin::{SAMPLES, SPINS, is_of_libc};
use crate::evidence::named;
use crate::finding::{Finding, Source};
use crate::problem::{Counter, Mover, Problem, Subject};

/// Time in seconds from which an uncontended acquisition had to fetch the cache line from another
/// CPU. With the line in the CPU's own cache it takes 9 to 20 ns. Two threads that shared a line of
/// locks, or a counter of readers, took 33 to 54 ns on a guest of an EPYC.
const FETCHED_S: f64 = 28e-9;
/// An acquisition that took longer than this was interrupted: no line takes so long.
const INTERRUPTED_NS: f64 = 10_000.0;
/// Minimum part of the CPU time that readers of one lock spend on acquiring and releasing it while
/// its line stays in one cache. Twice the limit for spinning, since up to half of a timed
/// acquisition is the timing itself.
const COUNTED: f64 = 0.2;
/// Minimum part of the acquisitions that fetch the line if threads share it. Two threads had 13 %
/// where they ran on one CPU half of the time, and 85 to 87 % where they had two CPUs. A private
/// line had at most 1 %.
const MOVES: f64 = 0.05;

/// Returns the mean time of the uncontended acquisitions that were not interrupted, in seconds, or
/// 0 without any. If any was interrupted, it follows from the buckets: the few milliseconds of a
/// single one are uncertain by more than the sum of all others.
fn fetched_s(acquire: &Times) -> f64 {
    /// Ratio of the middle of a bucket to its lower bound.
    const MIDDLE: f64 = 1.25;
    let kept = acquire.buckets.iter().filter(|(least_ns, _)| *least_ns < INTERRUPTED_NS);
    let count = total(kept.clone().map(|(_, times)| *times));
    if count >= total(acquire.buckets.iter().map(|(_, times)| *times)) {
        return acquire.mean_s();
    }
    let sums_ns = kept.map(|(least_ns, times)| MIDDLE * least_ns * *times as f64);
    sums_ns.sum::<f64>() / count.max(1) as f64 / 1e9
}

/// Returns the part of the uncontended acquisitions that had to fetch the line, and the mean time
/// of these in seconds. Threads that take turns on one CPU need not fetch it.
fn slow(acquire: &Times) -> (f64, f64) {
    /// Lower bound of the bucket that contains such a time.
    const LEAST_NS: f64 = 0.8e9 * FETCHED_S;
    let fetched = LEAST_NS..INTERRUPTED_NS;
    let slow = acquire.buckets.iter().filter(|(least_ns, _)| fetched.contains(least_ns));
    let count = total(slow.clone().map(|(_, count)| *count)) as f64;
    let sum_s: f64 = slow.map(|(least_ns, count)| least_ns * *count as f64 / 1e9).sum();
    (count / acquire.count.max(1) as f64, sum_s / count.max(1.0))
}

/// Returns a finding if the counter of a reader/writer lock moves between CPUs with each reader.
pub(crate) fn readers(process: &Process, lock: &Lock) -> Option<Finding> {
    let reads = || lock.sites.iter().filter(|site| site.act == "read");
    let site = reads().max_by_key(|site| site.count)?;
    let mut acquire = Times::default();
    reads().for_each(|site| acquire.add(&site.acquire));
    let count = total(reads().map(|site| site.count));
    let threads = reads().map(|site| site.threads).max().unwrap_or(0);
    // Locks of one name may be one for each thread: then no line is shared.
    let is_shared = threads >= 2 && lock.instances.max(1) < threads;
    if lock.kind != Primitive::Rwlock || !is_shared {
        return None;
    }
    let each_s = fetched_s(&acquire);
    // The release fetches the line, too.
    let cost_s = 2.0 * each_s * count as f64;
    let share = of_cpu(process, cost_s)?;
    let moves = each_s > FETCHED_S && share > 0.02;
    let is_counted = share >= COUNTED && lock.instances <= 1;
    // Acquisitions take CPU time, so a greater cost is no measurement. Of a program that does
    // nothing else, the clock that times them may add as much again.
    if cost_s > 2.0 * process.cpu_s || !(moves || is_counted) {
        return None;
    }
    let cost_s = cost_s.min(process.cpu_s);
    let plain = Plain {
        pid: process.pid,
        lock: &lock.name,
        share: Some(share),
        cost_s,
        source: Source::Counted,
        observations: acquire.count,
    };
    let place = site.place.clone();
    let counter = Counter::Rwlock { place, count, each_s, moves };
    let finding = plain.finding(Problem::ReaderCounter { counter });
    Some(finding.about(Subject::Variable { name: lock.name.clone(), instances: 1 }, lock.origin))
}

/// Returns the number of samples at additions whose lines move: a line with a single writer stays
/// in the cache of its CPU.
fn moving(hot: &Hot) -> u64 {
    hot.atomics.saturating_sub(hot.apart)
}

/// Returns a finding if threads add to one counter.
pub(crate) fn additions(process: &Process) -> Option<Finding> {
    let hot = process.hot.iter().filter(|hot| !is_of_libc(hot)).max_by_key(|hot| moving(hot))?;
    let samples = moving(hot);
    let share = samples as f64 / process.samples.max(1) as f64;
    let is_alone = threads(process) < 1.5;
    if samples < SAMPLES || share < SPINS || is_alone {
        return None;
    }
    let plain = Plain {
        pid: process.pid,
        lock: &hot.place,
        share: Some(share),
        cost_s: share * process.cpu_s,
        source: Source::Sampled,
        observations: samples,
    };
    let counter = Counter::Additions { place: hot.place.clone() };
    Some(plain.finding(Problem::ReaderCounter { counter }))
}

/// A lock that only one thread uses, although its line moves.
struct Victim<'a> {
    lock: &'a Lock,
    cost_s: f64,
    /// Number of acquisitions that fetched the line, and the mean time of these in seconds.
    count: f64,
    each_s: f64,
}

fn users(site: &Site) -> u64 {
    if site.regulars > 0 { site.regulars } else { site.threads }
}

impl<'a> Victim<'a> {
    fn new(lock: &'a Lock) -> Option<Self> {
        /// Minimum number of acquisitions: the first one fetches a line that another thread made.
        const MANY: u64 = 10_000;
        let (count, instances) = (lock.count(), lock.instances.max(1));
        // The line of a lock that several threads use has to move.
        let is_private = total(lock.sites.iter().map(users)) <= instances;
        let is_free = (lock.contended() as f64) < 0.01 * count as f64;
        let has_words =
            [Primitive::Mutex, Primitive::Rwlock, Primitive::Spinlock].contains(&lock.kind);
        if !has_words || !is_private || !is_free || count / instances < MANY {
            return None;
        }
        let (part, each_s) = slow(&lock.all(|site| &site.acquire));
        let count = part * count as f64;
        (part >= MOVES).then_some(Self { lock, cost_s: 2.0 * count * each_s, count, each_s })
    }
}

/// Returns whether another lock of the process is typically acquired in less than half of this
/// time.
fn has_faster(process: &Process, slow: &Lock, each_s: f64) -> bool {
    /// Minimum number of timed acquisitions.
    const TIMED: u64 = 100;
    process.locks.iter().filter(|lock| !std::ptr::eq(*lock, slow)).any(|lock| {
        let acquire = lock.all(|site| &site.acquire);
        let median_s = acquire.percentile_s(50.0).unwrap_or(f64::MAX);
        acquire.count >= TIMED && median_s < each_s / 2.0
    })
}

/// Returns a finding if a lock that one thread uses is on a line that other threads write: a line
/// with another lock, or with data.
pub(crate) fn false_sharing(process: &Process) -> Option<Finding> {
    /// Maximum number of locks that are named.
    const NAMED: usize = 4;
    let victims: Vec<Victim<'_>> = process.locks.iter().filter_map(Victim::new).collect();
    let worst = victims.iter().max_by(|a, b| a.cost_s.total_cmp(&b.cost_s))?;
    let name = &worst.lock.name;
    let group = process.neighbours.iter().find(|names| names.contains(name));
    let mut names = group.cloned().unwrap_or_default();
    let has_neighbour = names.len() > 1;
    names.dedup();
    let place = worst.lock.sites.first().map_or("", |site| site.place.as_str()).to_owned();
    let mover = match (has_neighbour, names.as_slice()) {
        (false, _) => Mover::Data { place },
        (true, [_]) => Mover::SameName { place },
        (true, names) => {
            let locks = names.iter().take(NAMED).map(|name| named(name, worst.lock.kind, 1));
            Mover::Locks { locks: locks.collect() }
        }
    };
    // The time of an acquisition depends on the processor, so data on the line of a lock need a
    // lock of the same program that is acquired much faster.
    if matches!(mover, Mover::Data { .. }) && !has_faster(process, worst.lock, worst.each_s) {
        return None;
    }
    let group: Vec<&Victim<'_>> = victims
        .iter()
        .filter(|victim| victim.lock.name == *name || names.contains(&victim.lock.name))
        .collect();
    let cost_s: f64 = group.iter().map(|victim| victim.cost_s).sum();
    let count: f64 = group.iter().map(|victim| victim.count).sum();
    // Acquisitions take CPU time, so a greater cost is no measurement.
    if process.cpu_s > 0.0 && cost_s > process.cpu_s {
        return None;
    }
    let plain = Plain {
        pid: process.pid,
        lock: name,
        share: of_cpu(process, cost_s),
        cost_s,
        source: Source::Estimated,
        observations: count as u64,
    };
    Some(plain.finding(Problem::FalseSharing { mover, count, each_s: worst.each_s }))
}
