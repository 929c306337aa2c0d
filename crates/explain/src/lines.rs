//! Cache lines that move between CPUs although no thread waits: counters of readers, and locks that
//! share a line with something else.

use convoy_record::account::seconds;
use convoy_record::{Kind, LOCK_OF, Lock, Process, Site, Times, total};

use crate::herds::of_cpu;
use crate::ill::{Diagnosis, Ill, percent};

/// Time in seconds from which an uncontended acquisition had to fetch the cache line from another
/// CPU. With the line in the CPU's own cache it takes 9 to 20 ns. Two threads that shared a line of
/// locks, or a counter of readers, took 33 to 54 ns on a guest of an EPYC.
const FETCHED_S: f64 = 28e-9;
/// Minimum part of the CPU time that readers of one lock spend on acquiring and releasing it while
/// its line stays in one cache. Twice the limit for spinning, since up to half of a timed
/// acquisition is the timing itself.
const COUNTED: f64 = 0.2;
/// Minimum part of the acquisitions that fetch the line if threads share it. Two threads had 13 %
/// where they ran on one CPU half of the time, and 85 to 87 % where they had two CPUs. A private
/// line had at most 1 %.
const MOVES: f64 = 0.05;
/// Returns the mean time of uncontended acquisitions in seconds, or 0 without any.
fn fetched_s(of: &Times) -> f64 {
    if of.count == 0 { 0.0 } else { of.mean_s() }
}

/// Returns the part of the uncontended acquisitions that had to fetch the line, and the mean time
/// of these in seconds. Threads that take turns on one CPU need not fetch it.
fn slow(of: &Times) -> (f64, f64) {
    /// Lower bound of the bucket that contains such a time.
    const LEAST_NS: f64 = 0.8e9 * FETCHED_S;
    let slow = of.buckets.iter().filter(|(least, _)| *least >= LEAST_NS);
    let count = total(slow.clone().map(|(_, count)| *count)) as f64;
    let sum: f64 = slow.map(|(least, count)| least * *count as f64 / 1e9).sum();
    (count / of.count.max(1) as f64, sum / count.max(1.0))
}

/// Returns a diagnosis if the counter of a reader/writer lock moves between CPUs with each reader.
pub(crate) fn readers(process: &Process, lock: &Lock) -> Option<Diagnosis> {
    let reads = lock.sites.iter().filter(|site| site.act == "read");
    let site = reads.clone().max_by_key(|site| site.count)?;
    let mut acquire = Times::default();
    reads.clone().for_each(|site| acquire.add(&site.acquire));
    let count = total(reads.clone().map(|site| site.count));
    let threads = reads.map(|site| site.threads).max().unwrap_or(0);
    let each_s = fetched_s(&acquire);
    // The release fetches the line, too.
    let cost_s = 2.0 * each_s * count as f64;
    let share = of_cpu(process, cost_s)?;
    let moves = each_s > FETCHED_S && share > 0.02;
    // Locks of the same name may be one per thread.
    let is_counted = share >= COUNTED && lock.instances <= 1;
    if lock.kind != Kind::Rwlock || threads < 2 || !(moves || is_counted) {
        return None;
    }
    let line = if moves {
        "whose cache line moves between CPUs"
    } else {
        "whose cache line would move between CPUs if they ran on several"
    };
    Some(Diagnosis {
        ill: Ill::ReaderCounter,
        pid: process.pid,
        lock: lock.name.clone(),
        share: Some(share),
        weight: None,
        cost_s,
        sentence: format!(
            "Readers of `{}` in {} do not wait, but spend {} of the CPU time to acquire and \
             release it: each of {count} acquisitions takes {} because all of them write one \
             counter, {line}.",
            lock.name,
            site.place,
            percent(share),
            seconds(each_s)
        ),
        cure: "Read without a lock: let writers replace the data and readers follow a pointer \
               (RCU, an atomic pointer, a sequence lock), or give each thread or CPU a copy."
            .to_owned(),
    })
}

/// A lock that only one thread uses, although its line moves.
struct Victim<'a> {
    lock: &'a Lock,
    cost_s: f64,
    /// Number of acquisitions that fetched the line, and the mean time of these in seconds.
    count: f64,
    each_s: f64,
}

impl<'a> Victim<'a> {
    fn of(lock: &'a Lock) -> Option<Self> {
        /// Minimum number of acquisitions: the first one fetches a line that another thread made.
        const MANY: u64 = 10_000;
        let users = |site: &Site| if site.regulars > 0 { site.regulars } else { site.threads };
        let (count, instances) = (lock.count(), lock.instances.max(1));
        // The line of a lock that several threads use has to move.
        let is_private = total(lock.sites.iter().map(users)) <= instances;
        let is_free = (lock.contended() as f64) < 0.01 * count as f64;
        let has_words = [Kind::Mutex, Kind::Rwlock, Kind::Spinlock].contains(&lock.kind);
        if !has_words || !is_private || !is_free || count / instances < MANY {
            return None;
        }
        let (part, each_s) = slow(&lock.all(|site| &site.acquire));
        let count = part * count as f64;
        (part >= MOVES).then_some(Self { lock, cost_s: 2.0 * count * each_s, count, each_s })
    }
}

/// Returns a diagnosis if a lock that one thread uses is on a line that other threads write: a line
/// with another lock, or with data.
pub(crate) fn false_sharing(process: &Process) -> Option<Diagnosis> {
    let victims: Vec<Victim<'_>> = process.locks.iter().filter_map(Victim::of).collect();
    let worst = victims.iter().max_by(|a, b| a.cost_s.total_cmp(&b.cost_s))?;
    let name = &worst.lock.name;
    let groups = process.neighbours.iter();
    let mut names = groups.clone().find(|names| names.contains(name)).cloned().unwrap_or_default();
    let has_neighbour = names.len() > 1;
    names.dedup();
    let is_one =
        |victim: &&Victim<'_>| victim.lock.name == *name || names.contains(&victim.lock.name);
    let own = || victims.iter().filter(is_one);
    let cost_s: f64 = own().map(|victim| victim.cost_s).sum();
    let count: f64 = own().map(|victim| victim.count).sum();
    let place = worst.lock.sites.first().map_or("", |site| site.place.as_str());
    let quoted = |name: &String| match name.strip_prefix(LOCK_OF) {
        Some(place) => format!("the lock of {place}"),
        None => format!("`{name}`"),
    };
    let what = match (has_neighbour, names.as_slice()) {
        (true, [_]) => format!("The locks that threads acquire in {place} share cache lines"),
        (true, names) => {
            let list: Vec<String> = names.iter().take(4).map(quoted).collect();
            format!("The locks {} share a cache line", list.join(" and "))
        }
        (false, _) => {
            format!(
                "The lock that one thread acquires in {place} shares a cache line with data \
                     that other threads write"
            )
        }
    };
    let cure = if has_neighbour {
        "Align each of them to 64 bytes (alignas, __attribute__((aligned)), CachePadded)."
    } else {
        "Keep the data of other threads 64 bytes away from it (alignas, \
         __attribute__((aligned)), CachePadded)."
    };
    Some(Diagnosis {
        ill: Ill::FalseSharing,
        pid: process.pid,
        lock: name.clone(),
        share: of_cpu(process, cost_s),
        weight: None,
        cost_s,
        sentence: format!(
            "{what}: threads do not wait for each other, but {count:.0} acquisitions took {} each \
             because the line moves between CPUs.",
            seconds(worst.each_s)
        ),
        cure: cure.to_owned(),
    })
}
