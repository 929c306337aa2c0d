//! Rules on waits for a lock, by what its owner does meanwhile.

use std::collections::BTreeMap;

use convoy_record::{Doing, Kind as Primitive, Lock, Origin, Process, Record, Seen, Site, total};

use crate::evidence::{Evidence, FEW_SAMPLES, Holder, call, function, is_of_python, wait_s};
use crate::problem::{Call, Cycle, HogSign, Inversion, Lost, Owner, Problem, Subject, Waited};

/// The owner's activity is the reason if it covers this part of the wait time.
pub(super) const REASON: f64 = 0.3;
/// The same for sleep. Lower, since an owner that is woken also waits for a CPU.
const ASLEEP: f64 = 0.12;
/// The same for goroutines on no thread.
const PARKED: f64 = 0.5;
/// Length in seconds from which a critical section is long: about ten times the cost of a wakeup.
pub(super) const LONG_S: f64 = 50e-6;
/// A writer starves if it waits for at least this many reads.
const OVERTAKEN: f64 = 4.0;
/// Maximum number of locks of a chain that are named.
const LINKS: usize = 3;
/// A place that acquires the lock repeatedly must hold it for at least this part of the run.
const HELD: f64 = 0.05;
/// A thread that holds the lock for this part of the run leaves others little, however soon they
/// acquire it.
const ALWAYS: f64 = 0.8;
/// CPU time in seconds above which a critical section is long, however often its owner is
/// preempted: a third of the time slice of Linux schedulers (3 ms).
const LONG_CPU_S: f64 = 1e-3;
/// Preemption is the reason even for such a critical section if it covers this part of the waiting.
const MOSTLY: f64 = 2.0 / 3.0;

/// Threads wait for a lock that they already own, until a time limit.
pub(crate) fn itself(evidence: &Evidence<'_>) -> Option<Problem> {
    let holder = evidence.holder.as_ref()?;
    let is_own = evidence.lock.kind != Primitive::Semaphore && 2 * holder.own > holder.count;
    is_own.then(|| Problem::Deadlock {
        cycle: Cycle::TimedOut,
        waits: vec![Waited {
            thread: String::new(),
            place: evidence.place.to_owned(),
            subject: evidence.subject(),
            owner: None,
            owner_ended: false,
            held_at: crate::account::known(holder.place),
        }],
        behind: 0,
        longest_s: holder.max_s,
    })
}

/// The lock is handed off to a thread that must wake up first.
pub(crate) fn handed_over(evidence: &Evidence<'_>) -> Option<Problem> {
    let (held_s, off_s) = evidence.lock.held_s(evidence.process.cpu_s);
    let woken_s = evidence.lock.all(|site| &site.handoff).total_s;
    let off = (off_s + woken_s) / (held_s + woken_s).max(f64::MIN_POSITIVE);
    (off >= REASON).then(|| Problem::OwnerPreempted {
        owner: evidence.owner(),
        lost: Lost::HandedOver(off),
        queued: evidence.queued(),
        inversion: None,
    })
}

/// A semaphore, or a condition that the program uses like one, that several threads hold at a
/// time, as a pool of connections.
pub(crate) fn limit(evidence: &Evidence<'_>) -> Option<Problem> {
    let lock = evidence.lock;
    if lock.instances > 1 {
        return None;
    }
    let (held_s, _) = lock.held_s(evidence.process.cpu_s);
    let waiting = evidence.wait_s / evidence.process.seconds.max(f64::MIN_POSITIVE);
    let seconds = match lock.kind {
        Primitive::Semaphore => evidence.process.seconds,
        _ if lock.is_pool() => lock.waiters.seconds,
        _ => return exhausted(evidence, owners_at_once(lock)?, waiting),
    };
    let in_use = lock.left_over().unwrap_or_else(|| held_s / seconds.max(f64::MIN_POSITIVE));
    exhausted(evidence, in_use, waiting)
}

/// Returns how many threads own a word of the program at a time while others wait for it, if they
/// are more than a lock admits: each release ends one hold.
fn owners_at_once(lock: &Lock) -> Option<f64> {
    /// Minimum number of timed holds.
    const FEW: u64 = 10;
    /// Minimum mean number of owners. The holds of a lock cannot overlap.
    const SEVERAL: f64 = 1.5;
    let mut held = lock.all(|site| &site.hold_on);
    held.add(&lock.all(|site| &site.hold_off));
    // A hold may have ended earlier, with a release that woke no thread.
    let is_even = held.percentile_s(50.0)? >= held.mean_s() / 2.0;
    let owned_s = held.mean_s() * lock.given_by_owner as f64;
    let owners = owned_s / lock.waiters.seconds.max(f64::MIN_POSITIVE);
    let is_word = lock.kind == Primitive::Futex && held.count >= FEW && is_even;
    (is_word && owners >= SEVERAL).then_some(owners)
}

/// A semaphore with units that several processes hold at a time.
pub(crate) fn limit_of_processes(record: &Record, evidence: &Evidence<'_>) -> Option<Problem> {
    if evidence.process.threads > 1 {
        return None;
    }
    let (mut in_use, mut waiting) = (0.0, 0.0);
    for (process, same) in of_processes(record, evidence.lock) {
        let seconds = process.seconds.max(f64::MIN_POSITIVE);
        in_use += same.held_s(process.cpu_s).0 / seconds;
        waiting += wait_s(process, same) / seconds;
    }
    exhausted(evidence, in_use, waiting)
}

/// Returns the problem of a pool of which this many units are in use on average, if they are
/// several, while this many threads wait for one.
fn exhausted(evidence: &Evidence<'_>, in_use: f64, waiting: f64) -> Option<Problem> {
    /// Minimum mean number of units in use.
    const SEVERAL: f64 = 1.2;
    /// Minimum part of the waiting that the holders sleep in one call.
    const MOSTLY: f64 = 0.5;
    let holder = evidence.holder.as_ref().filter(|holder| holder.asleep > MOSTLY);
    let call = holder.and_then(|holder| holder.call.as_ref()).map(|(call, _)| call.clone());
    let call = call.filter(|call| !is_for_interpreter(evidence, call));
    let hold_s = evidence.hold_s("");
    (in_use > SEVERAL).then_some(Problem::PoolExhausted { in_use, waiting, hold_s, call })
}

/// Returns whether an owner that waits for another thread waits for the interpreter of Python.
fn is_for_interpreter(evidence: &Evidence<'_>, call: &Call) -> bool {
    let Call::OtherThread(Some(name)) = call else { return false };
    let mut locks = evidence.process.locks.iter().filter(|lock| lock.name == *name);
    locks.any(|lock| lock.origin == Origin::PythonInterpreter)
}

/// A writer waits while reader after reader acquires the lock.
pub(crate) fn starvation(evidence: &Evidence<'_>) -> Option<Problem> {
    let (holder, lock) = (evidence.holder.as_ref()?, evidence.lock);
    let reads = lock.sites.iter().filter(|site| site.act == "read");
    let reads = total(reads.map(|site| site.count));
    let hold_s = evidence.hold_s(holder.place);
    let mean_s = holder.wait_s / holder.count.max(1) as f64;
    let writers = lock.sites.iter().filter(|site| site.act == "write");
    let writers_s: f64 = writers.map(|site| site.wait.total_s).sum();
    // A lock that prefers writers makes readers wait instead.
    let is_read = lock.kind == Primitive::Rwlock
        && holder.wanted == "write"
        && 2.0 * writers_s >= lock.wait_s()
        && (holder.act == "read" || holder.place.is_empty() && reads > 0);
    // A reader that has lost its CPU makes a writer wait as long.
    let may_overtake = holder.place.is_empty() || holder.again >= 1.0;
    let is_long = may_overtake && hold_s > 0.0 && mean_s > OVERTAKEN * hold_s;
    let is_long = is_long || holder.again >= OVERTAKEN;
    (is_read && is_long).then(|| Problem::WriterStarvation {
        readers: crate::account::known(holder.place),
        reads,
        longest_s: holder.max_s,
    })
}

/// The owner sleeps in a system call.
pub(crate) fn asleep(evidence: &Evidence<'_>) -> Option<Problem> {
    let Some(holder) = evidence.seen_holder() else { return asleep_by_kernel(evidence) };
    let (call, place) = holder.call.as_ref()?;
    if *call == Call::GoScheduler && evidence.fills_cpus {
        return None;
    }
    // An owner that waits in futex(2) may just be waiting for this lock again: that is likely if
    // its sections are shorter than a wakeup. An owner in Python waits for the interpreter.
    let is_vague = *call == Call::Futex;
    let is_brief = (f64::MIN_POSITIVE..LONG_S).contains(&evidence.hold_s(holder.place));
    if is_vague && (is_brief || is_of_python(evidence.lock)) {
        return None;
    }
    // Moreover, a known reader is only one of several: it has released the lock and waits for it
    // again.
    if is_vague && evidence.lock.kind == Primitive::Rwlock && holder.act != "write" {
        return None;
    }
    let is_off = holder.ran.is_none_or(|ran| ran < 1.0 - REASON);
    // Locks of one name may wait for each other, and the last of them sleeps.
    let is_chain = holder.other.is_some_and(|other| other.what != evidence.lock.name);
    let least = match call {
        // A goroutine on no thread may be runnable, too, as one to which the lock was handed over.
        Call::GoScheduler => PARKED,
        _ if is_vague => REASON,
        _ => ASLEEP,
    };
    if holder.asleep < least || !is_off || is_chain && holder.asleep < holder.waited {
        return None;
    }
    let owner = evidence.owner();
    // Consumers that take turns at a queue: each owner of the lock waits for the next message.
    let takes_turns = matches!(call, Call::OtherThread(_)) && owner.is_waiting_place;
    let parks = takes_turns || call.waits_for_input() && evidence.is_released_at_once();
    let place = crate::account::known(place);
    Some(Problem::OwnerAsleep { owner, call: call.clone(), place, parks })
}

/// The owner sleeps, according to the kernel alone: it is not known where. Holds that began with a
/// wait were timed.
fn asleep_by_kernel(evidence: &Evidence<'_>) -> Option<Problem> {
    let held = evidence.lock.held.filter(|held| held.count >= FEW_SAMPLES)?;
    let is_asleep = evidence.counts_only_waits() && held.asleep_s >= MOSTLY * held.total_s;
    is_asleep.then(|| Problem::OwnerAsleep {
        owner: evidence.owner(),
        call: Call::Unseen,
        place: None,
        parks: false,
    })
}

/// The owner of a semaphore of several processes sleeps. Processes with one thread wait for each
/// other, and samples of their own holds show the activity of the owner.
pub(crate) fn asleep_in_processes(record: &Record, evidence: &Evidence<'_>) -> Option<Problem> {
    let lock = evidence.lock;
    if evidence.process.threads > 1 || evidence.seen_holder().is_some() {
        return None;
    }
    let (mut off_s, mut run_s, mut looks) = (0.0, 0.0, 0);
    let mut asleep: BTreeMap<&str, (u64, &Seen)> = BTreeMap::new();
    for (process, same) in of_processes(record, lock) {
        off_s += same.all(|site| &site.hold_off).total_s;
        run_s += process.seconds;
        looks += process.looks;
        for seen in process.activity.iter().filter(|seen| seen.doing == Doing::Sleeps) {
            asleep.entry(&seen.what).or_insert((0, seen)).0 += seen.count;
        }
    }
    let (count, sleep) = asleep.into_values().max_by_key(|(count, _)| *count)?;
    let part = count as f64 / looks.max(1) as f64;
    let off = off_s / run_s.max(f64::MIN_POSITIVE);
    // The sleep is in the holds if it takes as long.
    let is_there = (0.5 * part..2.0 * part).contains(&off) && switched(evidence)? >= MOSTLY;
    (count >= FEW_SAMPLES && is_there).then(|| Problem::OwnerAsleep {
        owner: evidence.owner(),
        call: call(sleep),
        place: None,
        parks: false,
    })
}

/// Returns a semaphore of this name in each process with one thread: that thread waits for another
/// process, so the semaphores are one.
fn of_processes<'a>(
    record: &'a Record,
    lock: &'a Lock,
) -> impl Iterator<Item = (&'a Process, &'a Lock)> {
    let processes = record.processes.iter().filter(|process| process.threads <= 1);
    processes.flat_map(|process| process.locks.iter().map(move |other| (process, other))).filter(
        |(_, other)| {
            let is_same = other.name == lock.name && other.kind == lock.kind;
            is_same && other.kind == Primitive::Semaphore && other.instances == 1
        },
    )
}

/// The owner waits for another lock.
pub(crate) fn waits(evidence: &Evidence<'_>) -> Option<Problem> {
    chain(evidence, LINKS)
}

/// Like [`waits`], for a chain with at most this many links.
fn chain(evidence: &Evidence<'_>, links: usize) -> Option<Problem> {
    let holder = evidence.holder.as_ref()?;
    let other = holder.other.filter(|_| holder.waited >= REASON)?;
    if other.what == evidence.lock.name {
        return None;
    }
    let mut locks = evidence.process.locks.iter().chain(&evidence.process.futexes);
    let next = locks.find(|lock| lock.name == other.what);
    let next = next.map(|lock| Evidence::new(evidence.process, lock));
    let unknown = || Subject::Variable { name: other.what.clone(), instances: 1 };
    // All threads of the chain wait for the thread at its end.
    let end = next.as_ref().and_then(|next| {
        asleep(next).or_else(|| chain(next, links.checked_sub(1)?)).or_else(|| long(next))
    });
    Some(Problem::OwnerWaits {
        owner: evidence.owner(),
        place: other.place.clone(),
        next: next.as_ref().map_or_else(unknown, Evidence::subject),
        end: end.map(Box::new),
    })
}

/// Threads spin for a lock of libc whose owner was preempted.
pub(crate) fn spins(evidence: &Evidence<'_>) -> Option<Problem> {
    if evidence.lock.kind != Primitive::Spinlock {
        return None;
    }
    let (held_s, off_s) = evidence.lock.held_s(evidence.process.cpu_s);
    let off = off_s / held_s.max(f64::MIN_POSITIVE);
    Some(Problem::Spinlock { off: (off >= REASON).then_some(off) })
}

pub(crate) fn preempted(evidence: &Evidence<'_>) -> Option<Problem> {
    let Some(holder) = evidence.seen_holder() else { return woken(evidence) };
    let owner = evidence.owner();
    let is_known = holder.ran.is_some() || holder.samples >= FEW_SAMPLES;
    // Samples that found the owner running explain as much of the time as they are.
    let held = holder.preempted.unwrap_or(0.0).max(holder.could_run);
    if holder.free >= REASON && holder.free > held && is_known {
        let lost = Lost::Free(holder.free);
        let queued = evidence.queued();
        return Some(Problem::OwnerPreempted { owner, lost, queued, inversion: None });
    }
    let lost = holder.preempted.filter(|lost| *lost >= REASON && holder.ran.is_some())?;
    let is_long = evidence.service_s(holder) > LONG_CPU_S && lost < MOSTLY;
    let (lost, inversion) = (Lost::Cpu(lost), inversion(evidence));
    let queued = evidence.queued();
    (!is_long).then_some(Problem::OwnerPreempted { owner, lost, queued, inversion })
}

/// The lock has been released, and the thread that was woken for it has no CPU yet. Of a lock that
/// only the kernel shows, no owner is known, but how long woken threads wait for a CPU is.
///
/// Such a lock is timed from a wait until the owner next wakes a thread, which may be after many
/// critical sections. So their median counts, which is short if most end with a wakeup.
fn woken(evidence: &Evidence<'_>) -> Option<Problem> {
    let wait = evidence.lock.all(|site| &site.wait).total_s;
    let free = evidence.lock.all(|site| &site.handoff).total_s / wait.max(f64::MIN_POSITIVE);
    let held = evidence.lock.all(|site| &site.hold_on);
    let is_short = held.percentile_s(50.0).is_some_and(|median_s| median_s < LONG_S);
    let is_known = evidence.counts_only_waits() && is_short && free >= REASON;
    is_known.then(|| Problem::OwnerPreempted {
        owner: evidence.owner(),
        lost: Lost::Free(free.min(1.0)),
        queued: evidence.queued(),
        inversion: None,
    })
}

/// Returns the threads of the most frequent priority inversion at the lock, if it was sampled often
/// enough.
fn inversion(evidence: &Evidence<'_>) -> Option<Inversion> {
    let Evidence { process, lock, .. } = evidence;
    let inversions = process.inversions.iter();
    let of_lock = inversions.filter(|found| found.lock == lock.name && found.kind == lock.kind);
    let main = of_lock.max_by_key(|found| found.samples)?;
    (main.samples >= FEW_SAMPLES).then(|| Inversion {
        waiter: process.label_of(main.waiter.0),
        waiter_priority: main.waiter.1,
        owner: process.label_of(main.owner.0),
        owner_priority: main.owner.1,
    })
}

/// One place holds the lock for a large part of the run, and acquires it again before a thread that
/// waits has woken up.
pub(crate) fn hog(evidence: &Evidence<'_>) -> Option<Problem> {
    hog_if(evidence, evidence.holder.as_ref()?.again)
}

/// Like [`hog`], if owners have acquired the lock `again` times by the end of a wait, on average.
pub(super) fn hog_if(evidence: &Evidence<'_>, again: f64) -> Option<Problem> {
    // A lock that is rarely held may be acquired often while a thread wakes up.
    holds(evidence).filter(|(_, run_share)| again >= 1.0 && *run_share > HELD).map(|(hog, _)| hog)
}

/// One thread holds the lock nearly always, so that others get little, however soon they wake up.
pub(crate) fn always(evidence: &Evidence<'_>) -> Option<Problem> {
    let holder = evidence.holder.as_ref()?;
    let mut sites = evidence.lock.sites.iter();
    let is_one = sites.any(|site| site.place == holder.place && site.threads == 1);
    holds(evidence).filter(|(_, run_share)| is_one && *run_share > ALWAYS).map(|(hog, _)| hog)
}

/// Returns the holder as a hog, with the part of the run that it holds the lock, if others wait
/// elsewhere.
fn holds(evidence: &Evidence<'_>) -> Option<(Problem, f64)> {
    let holder = evidence.holder.as_ref().filter(|holder| !holder.place.is_empty())?;
    let mut sites = evidence.lock.sites.iter();
    let site = sites.find(|site| site.place == holder.place && site.act != "read")?;
    let held_s = site.hold_on.total_s + site.hold_off.total_s;
    let run_share = held_s / evidence.process.seconds;
    let hold_s = evidence.hold_s(holder.place);
    let sign = HogSign::Holds { run_share: run_share.min(1.0), hold_s };
    let hog = Problem::Hog { owner: evidence.owner(), sign };
    (evidence.place != holder.place).then_some((hog, run_share))
}

/// The owner runs for a long time.
pub(crate) fn long(evidence: &Evidence<'_>) -> Option<Problem> {
    let holder = evidence.holder.as_ref();
    let hold_s = evidence.hold_s(holder.map_or("", |holder| holder.place));
    if hold_s <= 0.0 {
        return long_by_waits(evidence);
    }
    (hold_s >= LONG_S).then(|| Problem::LongSection {
        owner: evidence.owner(),
        hold_s: Some(hold_s),
        wait_s: None,
        off_unexplained: off_unexplained(evidence),
        interpreter: None,
    })
}

/// Returns the part of the wait time that owners were off their CPU, if it is a large one and too
/// little was observed to say why. Without CPU times of owners, timed holds with a switch count.
fn off_unexplained(evidence: &Evidence<'_>) -> Option<f64> {
    let timed = evidence.holder.as_ref().filter(|holder| holder.ran.is_some());
    let off = match (timed, evidence.seen_holder()) {
        (Some(holder), _) => holder.preempted.map_or(holder.off, |_| 0.0),
        (None, Some(holder)) if holder.samples >= FEW_SAMPLES => 0.0,
        _ => switched(evidence)?,
    };
    Some(off).filter(|off| *off >= REASON)
}

/// Returns the part of the timed holds in which the owner was switched away. `None` if no hold was
/// timed.
fn switched(evidence: &Evidence<'_>) -> Option<f64> {
    let off_s = evidence.lock.all(|site| &site.hold_off).total_s;
    let held_s = off_s + evidence.lock.all(|site| &site.hold_on).total_s;
    (held_s > 0.0).then(|| off_s / held_s)
}

/// Like [`long`], for an owner that never waits, so that its critical sections are not timed: it
/// runs while other threads wait for a long time.
fn long_by_waits(evidence: &Evidence<'_>) -> Option<Problem> {
    let holder = evidence.holder.as_ref().filter(|holder| !holder.place.is_empty())?;
    if evidence.is_timed_near(holder) {
        return None;
    }
    let mean_s = holder.wait_s / holder.count.max(1) as f64;
    // A thread that waits for a mutex waits for those before it, too, and each must wake up.
    let queue_s = evidence.lock.waiters.seconds / holder.count.max(1) as f64;
    let is_queue = evidence.lock.kind != Primitive::Rwlock && queue_s > 0.0;
    let each_s = if is_queue { queue_s.min(mean_s) } else { mean_s };
    if holder.could_run < 1.0 - REASON || holder.samples < FEW_SAMPLES || each_s < LONG_CPU_S {
        return None;
    }
    let owner = evidence.owner();
    let wakeups = total(evidence.lock.sites.iter().map(|site| site.wait.count));
    let futile = total(evidence.lock.sites.iter().map(|site| site.futile));
    if holder.place != evidence.place && 2 * futile > wakeups {
        return Some(Problem::Hog { owner, sign: HogSign::Futile { futile, wakeups } });
    }
    Some(Problem::LongSection {
        owner,
        hold_s: None,
        wait_s: Some(mean_s),
        off_unexplained: None,
        interpreter: None,
    })
}

/// Critical sections are short and frequent.
pub(crate) fn short(evidence: &Evidence<'_>) -> Option<Problem> {
    /// Minimum number of acquisitions.
    const FREQUENT: u64 = 1000;
    /// Minimum number of timed critical sections of a lock whose waits alone are counted.
    const TIMED: u64 = 20;
    let lock = evidence.lock;
    let hold_s = evidence.hold_s("");
    let holds = lock.sites.iter().flat_map(|site| [site.hold_on.count, site.hold_off.count]);
    let count = (!evidence.counts_only_waits()).then(|| lock.count());
    let is_frequent = match count {
        Some(count) => count >= FREQUENT,
        None => total(holds) >= TIMED,
    };
    if hold_s <= 0.0 || !is_frequent {
        return None;
    }
    // For a lock outside of libc, only critical sections that begin with a wait are timed, and the
    // owner's did not. Sections of another function are alike only if waits are short, too.
    let waits = total(lock.sites.iter().map(|site| site.wait.count)).max(1) as f64;
    let holder = evidence.holder.as_ref();
    let is_timed =
        holder.is_none_or(|holder| holder.ran.is_some() || evidence.is_timed_near(holder));
    if !is_timed && evidence.wait_s / waits > 10.0 * LONG_S || unseen_s(evidence).is_some() {
        return None;
    }
    Some(Problem::ShortSections { owner: evidence.owner(), count, hold_s })
}

/// Returns how long a lock that only the kernel shows is held at a time by an unknown owner, in
/// seconds, if the known critical sections are too short to explain the waits. The time during
/// which threads wait, divided by all acquisitions, is one critical section plus the wakeup of the
/// next owner. Of a lock whose waits alone are counted the number of acquisitions is not known.
/// Samples miss short waits, so their mean is too long.
fn unseen_s(evidence: &Evidence<'_>) -> Option<f64> {
    let lock = evidence.lock;
    let holder = evidence.holder.as_ref();
    let is_known = holder.is_some_and(|holder| !holder.place.is_empty());
    let is_sampled = lock.all(|site| &site.handoff).count == 0;
    if is_known || is_sampled || !evidence.counts_only_waits() {
        return None;
    }
    let each_s = lock.waiters.seconds / lock.count().max(1) as f64;
    // Holds that began with a wait were timed: they are a sample of all holds.
    let hold_s = evidence.hold_s("");
    let is_unseen = hold_s <= 0.0 || evidence.owner_sleeps_or_waits();
    (is_unseen && each_s > LONG_S + 2.0 * hold_s).then_some(each_s)
}

impl Evidence<'_> {
    /// Returns the holder, if it was sampled or its time was measured.
    pub(super) fn seen_holder(&self) -> Option<&Holder<'_>> {
        let holder = self.holder.as_ref();
        holder.filter(|holder| holder.ran.is_some() || holder.samples > 0)
    }

    /// Returns whether holds in the function of the holder were timed.
    fn is_timed_near(&self, holder: &Holder<'_>) -> bool {
        let timed = |site: &&Site| site.hold_on.count + site.hold_off.count > 0;
        let mut sites = self.lock.sites.iter().filter(timed);
        sites.any(|site| function(&site.place) == function(holder.place))
    }

    /// Returns whether only waits for the lock are counted, not its acquisitions.
    fn counts_only_waits(&self) -> bool {
        self.process.futexes.iter().any(|futex| std::ptr::eq(futex, self.lock))
    }

    /// Returns whether samples found the owner asleep or waiting.
    fn owner_sleeps_or_waits(&self) -> bool {
        self.process.causes.iter().any(|cause| {
            let is_this = cause.lock == self.lock.name && cause.kind == self.lock.kind;
            let is_off = |doing| matches!(doing, Doing::Sleeps | Doing::Waits | Doing::Faults);
            is_this && cause.owners.iter().any(|seen| is_off(seen.doing))
        })
    }
}

/// Threads waited, and the reason is unknown.
pub(crate) fn contended(evidence: &Evidence<'_>) -> Problem {
    let holder = evidence.holder.as_ref();
    let holder = holder.filter(|holder| !holder.place.is_empty() || holder.ran.is_some());
    let owner: Option<Owner> = holder.map(|_| evidence.owner());
    let unseen_s = unseen_s(evidence).filter(|_| owner.is_none());
    let is_timed = evidence.hold_s(holder.map_or("", |holder| holder.place)) > 0.0;
    Problem::Contended { owner, unseen_s, is_timed }
}
