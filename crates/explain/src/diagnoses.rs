//! The diagnoses: each is a rule with its evidence, its cost, a sentence that names the holder, and
//! the cure. The first rule that matches a lock explains why threads waited for it. Of all locks,
//! and of the problems that are visible without waits, the most expensive one comes first.

use convoy_record::account::seconds;
use convoy_record::{
    Account, CONDITION_OF, Doing, HANDOFF, Kind, Lock, Process, Record, Seen, total,
};

use crate::cures::{held, holds};
use crate::deadlock::{cycles, stuck, unreleased};
use crate::evidence::{PYTHON, Subject, is_of_python};
use crate::ill::{Diagnosis, Ill, Reason, percent};
use crate::runtimes::{MONITOR, computes, interpreter, libc, other_runtime, stream};
use crate::{busy, cures, java, processes};

/// The owner's activity is the reason if it covers this part of the wait time.
const REASON: f64 = 0.3;
/// The same for sleep. Lower, since an owner that is woken also waits for a CPU.
const ASLEEP: f64 = 0.12;
/// Length in seconds from which a critical section is long: about ten times the cost of a wakeup.
const LONG_S: f64 = 50e-6;
/// A writer starves if it waits for at least this many reads.
const OVERTAKEN: f64 = 4.0;
/// Maximum number of locks of a chain that are named.
const LINKS: usize = 3;
/// Minimum number of samples that say what owners did.
const FEW: u64 = 5;
/// A place that acquires the lock repeatedly must hold it for at least this part of the run.
const HELD: f64 = 0.05;
/// CPU time in seconds above which a critical section is long, however often its owner is
/// preempted: a third of the time slice of Linux schedulers (3 ms).
const LONG_CPU_S: f64 = 1e-3;
/// Preemption is the reason even for such a critical section if it covers this part of the waiting.
const MOSTLY: f64 = 2.0 / 3.0;

/// Advice on owners without CPUs.
const CONVOY: &str = "Run fewer threads, or shorten the section; `convoy fix` on this record says \
                      which lock helps.";

/// Returns the reason why threads waited for a lock if this rule applies.
type Rule = fn(&Subject<'_>) -> Option<Reason>;

/// Returns the problems of a recorded program, the most expensive first.
pub fn diagnose(record: &Record) -> Vec<Diagnosis> {
    let mut all: Vec<Diagnosis> = Vec::new();
    for process in &record.processes {
        let cycles = cycles(process);
        all.extend(cycles.iter().map(|cycle| cures::deadlock(process, cycle)));
        if cycles.is_empty() {
            let stuck = cures::stuck(process, &stuck(process));
            all.extend(stuck.or_else(|| cures::unreleased(process, &unreleased(process))));
        }
        all.extend(java::deadlock(process));
        all.extend(java::unmeasured(process));
        let own = process.locks.iter().chain(&process.runtime_locks).chain(&process.futexes);
        all.extend(own.filter_map(|lock| of_lock(record, process, lock)));
        all.extend(busy::of_process(record, process));
        all.extend(processes::file_locks(process));
    }
    let account = Account::new(record);
    let kernel = account.locks.iter().filter(|one| one.pid == 0 && !one.lock.kernel.is_empty());
    let most = record.processes.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    all.extend(kernel.filter_map(|one| cures::kernel(&one.lock, most?, record)));
    all.extend(processes::between(record));
    weigh(&mut all, record);
    let order = |one: &Diagnosis| (one.ill == Ill::Deadlock, one.cost_s);
    all.sort_by(|a, b| {
        let (a, b) = (order(a), order(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    all
}

/// Sets the weight of each diagnosis.
fn weigh(all: &mut [Diagnosis], record: &Record) {
    let busy_s = convoy_record::busy_s(record);
    let cpu_s: f64 = record.processes.iter().map(|process| process.cpu_s).sum();
    for one in all {
        let of_cpu = [Ill::ThunderingHerd, Ill::ReaderCounter, Ill::FalseSharing, Ill::Spinning];
        let time_s = if of_cpu.contains(&one.ill) { cpu_s } else { busy_s };
        one.weight = (one.share.is_some() && time_s > 0.0).then(|| (one.cost_s / time_s).min(1.0));
    }
}

/// Returns the first sentence of the report.
pub fn verdict(record: &Record) -> String {
    let account = Account::new(record);
    if !account.is_finite() {
        return account.verdict;
    }
    let first = diagnose(record).into_iter().find(Diagnosis::is_much);
    match first {
        Some(first) => first.text(),
        None => busy::elsewhere(record, &account),
    }
}

/// Returns why threads waited for a lock, if they did.
fn of_lock(record: &Record, process: &Process, lock: &Lock) -> Option<Diagnosis> {
    if lock.wait_s() <= 0.0 && !process.pending.iter().any(|one| one.lock == lock.name) {
        return None;
    }
    let subject = Subject::new(process, lock);
    if let Some(found) = interpreter(&subject) {
        return Some(found);
    }
    if !lock.is_lock() || subject.wait_s <= 0.0 {
        return None;
    }
    let rules: [Rule; 14] = [
        libc,
        stream,
        other_runtime,
        cures::itself,
        starvation,
        cures::limit,
        computes,
        asleep,
        waits,
        hog,
        spins,
        preempted,
        long,
        short,
    ];
    let hands_over = record.program.policy(lock.kind) == HANDOFF;
    let handed = if hands_over { handed_over(&subject) } else { None };
    let monitor = java::monitors(&subject);
    let (cost, found) =
        monitor.map_or_else(|| (cures::cost(&subject), None), |(cost, why)| (cost, Some(why)));
    let found = found.or(handed).or_else(|| rules.iter().find_map(|rule| rule(&subject)));
    let (ill, why, mut cure) = found.unwrap_or_else(|| contended(&subject));
    let is_known = subject.holder.as_ref().is_some_and(|one| subject.is_of_program(one.place));
    if is_of_python(process, lock) && !is_known {
        cure += PYTHON;
    }
    let sentence = format!("{cost}{why}.");
    Some(Diagnosis {
        ill,
        pid: process.pid,
        lock: lock.name.clone(),
        share: subject.share,
        weight: None,
        cost_s: subject.wait_s,
        sentence,
        cure,
    })
}

/// The lock is handed off to a thread that must wake up first.
fn handed_over(subject: &Subject<'_>) -> Option<Reason> {
    let (held_s, off_s) = subject.lock.held_s(subject.process.cpu_s);
    let woken_s = subject.lock.all(|site| &site.handoff).total_s;
    let off = (off_s + woken_s) / (held_s + woken_s).max(f64::MIN_POSITIVE);
    let why = format!(
        ", which is handed over to a thread that must wake up first: the owner was on no CPU for \
         {} of the time that it was held: a lock convoy",
        percent(off)
    );
    let cure = "Take a lock that a running thread may acquire past those that wait: record without \
                this policy, or `convoy fix` on this record says which one helps.";
    (off >= REASON).then(|| (Ill::OwnerPreempted, why, cure.to_owned()))
}

/// A writer waits while reader after reader acquires the lock.
fn starvation(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref()?;
    let reads = subject.lock.sites.iter().filter(|site| site.act == "read");
    let reads = total(reads.map(|site| site.count));
    let hold_s = subject.hold_s(holder.place);
    let mean_s = holder.wait_s / holder.count.max(1) as f64;
    let writers = subject.lock.sites.iter().filter(|site| site.act == "write");
    let writers_s: f64 = writers.map(|site| site.wait.total_s).sum();
    // A lock that prefers writers makes readers wait instead.
    let is_read = subject.lock.kind == Kind::Rwlock
        && holder.wanted == "write"
        && 2.0 * writers_s >= subject.lock.wait_s()
        && (holder.act == "read" || holder.place.is_empty() && reads > 0);
    let is_long = holder.again >= OVERTAKEN || hold_s > 0.0 && mean_s > OVERTAKEN * hold_s;
    if !is_read || !is_long {
        return None;
    }
    let by = if holder.place.is_empty() {
        "readers".to_owned()
    } else {
        format!("readers in {}", holder.place)
    };
    let why = format!(
        ", because {by} acquire it while others still read ({reads} times in the run): the lock \
         prefers readers, and the writer starves, up to {} at a time",
        seconds(holder.max_s)
    );
    let cure = "Initialise it with PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP \
                (pthread_rwlockattr_setkind_np), or let writers replace the data and readers keep \
                the old (RCU).";
    Some((Ill::WriterStarvation, why, cure.to_owned()))
}

/// The owner sleeps in a system call.
fn asleep(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref()?;
    // An owner that waits in futex(2) may just be waiting for this lock again.
    let is_vague = holder.call.is_some_and(|call| call.what == "futex(2)");
    // Moreover, a known reader is only one of several: it has released the lock and waits for it
    // again.
    if is_vague && subject.lock.kind == Kind::Rwlock && holder.act != "write" {
        return None;
    }
    let least = if is_vague { REASON } else { ASLEEP };
    let call = holder.call.filter(|_| holder.asleep >= least)?;
    let is_off = holder.ran.is_none_or(|ran| ran < 1.0 - REASON);
    // Locks of one name may wait for each other, and the last of them sleeps.
    let is_chain = holder.other.is_some_and(|other| other.what != subject.lock.name);
    if !is_off || is_chain && holder.asleep < holder.waited {
        return None;
    }
    let mut why = format!("{} while {}", holds(subject, holder), doing(call));
    let waits_for_input = call.doing != Doing::Idles && cures::waits_for_input(&call.what);
    if waits_for_input && subject.is_released_at_once() {
        why += "; the waiting threads release it at once";
        return Some((Ill::OwnerAsleep, why, cures::of_parking(&call.what)));
    }
    let cure = match call.doing {
        Doing::Idles => cures::of_call("waits for another thread"),
        _ => cures::of_call(&call.what),
    };
    Some((Ill::OwnerAsleep, why, cure))
}

/// Returns a phrase such as `it sleeps in fdatasync(2)`.
fn doing(call: &Seen) -> String {
    let what = match call.what.as_str() {
        "" => "its memory is read in".to_owned(),
        "futex(2)" => "it waits in futex(2) for something else".to_owned(),
        what if call.doing == Doing::Idles && what.starts_with(CONDITION_OF) => {
            "it waits for another thread".to_owned()
        }
        what if call.doing == Doing::Idles => {
            format!("it waits for another thread (`{what}`)")
        }
        what => format!("it sleeps in {what}"),
    };
    let at = if call.place.is_empty() { String::new() } else { format!(" in {}", call.place) };
    what + &at
}

/// The owner waits for another lock.
fn waits(subject: &Subject<'_>) -> Option<Reason> {
    chain(subject, LINKS)
}

/// Like [`waits`], for a chain with at most this many links.
fn chain(subject: &Subject<'_>, links: usize) -> Option<Reason> {
    let holder = subject.holder.as_ref()?;
    let other = holder.other.filter(|_| holder.waited >= REASON)?;
    if other.what == subject.lock.name {
        return None;
    }
    let others = subject.process.locks.iter().chain(&subject.process.futexes);
    let next = others.into_iter().find(|lock| lock.name == other.what);
    let next = next.map(|lock| Subject::new(subject.process, lock));
    let what = next.as_ref().map_or_else(|| format!("`{}`", other.what), Subject::what);
    let why = format!("{} while it waits in {} for {what}", holds(subject, holder), other.place);
    // All threads of the chain wait for the thread at its end.
    let end = next.as_ref().and_then(|next| {
        asleep(next).or_else(|| chain(next, links.checked_sub(1)?)).or_else(|| long(next))
    });
    let unknown = "Fix the other lock first, or acquire it before this one.";
    let (end, cure) = end.map_or((String::new(), unknown.to_owned()), |(_, end, cure)| (end, cure));
    Some((Ill::OwnerWaits, why + &end, cure))
}

/// Threads spin for a lock of libc whose owner was preempted.
fn spins(subject: &Subject<'_>) -> Option<Reason> {
    if subject.lock.kind != Kind::Spinlock {
        return None;
    }
    let (held_s, off_s) = subject.lock.held_s(subject.process.cpu_s);
    let off = off_s / held_s.max(f64::MIN_POSITIVE);
    let why = if off >= REASON {
        format!(
            ", and spin while they wait; its owner was on no CPU for {} of the time that it was \
             held",
            percent(off)
        )
    } else {
        ", and spin while they wait".to_owned()
    };
    let cure = "Take a mutex, which sleeps until the owner has released it.";
    Some((Ill::Spinning, why, cure.to_owned()))
}

/// The owner was preempted.
fn preempted(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref()?;
    let is_known = holder.ran.is_some() || holder.samples >= FEW;
    if holder.free >= REASON && holder.free > holder.preempted && is_known {
        let why = format!(
            "; during {} of that time it was free, but the thread that was to have it next had no \
             CPU yet: a lock convoy",
            percent(holder.free)
        );
        return Some((Ill::OwnerPreempted, why, CONVOY.to_owned()));
    }
    let held = subject.lock.held.filter(|held| held.total_s > 0.0);
    let lost = match held {
        Some(held) => (held.preempted_s / held.total_s).max(holder.preempted.min(REASON)),
        None => holder.preempted,
    };
    let lost_most = holder.preempted.max(lost);
    let is_long = subject.service_s(holder) > LONG_CPU_S && lost_most < MOSTLY;
    if lost < REASON || holder.ran.is_none() || is_long {
        return None;
    }
    let why = format!(
        "{}; the owner had lost its CPU during {} of that time: a lock convoy",
        holds(subject, holder),
        percent(lost_most)
    );
    Some((Ill::OwnerPreempted, why, CONVOY.to_owned()))
}

/// One place holds the lock most of the time, and acquires it again immediately.
fn hog(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref().filter(|holder| !holder.place.is_empty())?;
    let site =
        subject.lock.sites.iter().find(|site| site.place == holder.place && site.act != "read")?;
    let held_s = site.hold_on.total_s + site.hold_off.total_s;
    let is_other = subject.place != holder.place;
    // A lock that is rarely held may be acquired often while a thread wakes up.
    let is_hog = holder.again >= 1.0 && held_s > HELD * subject.process.seconds;
    if !is_other || !is_hog {
        return None;
    }
    let why = format!(
        ", which {} holds for {} of the run, {} at a time, and acquires again as soon as it has \
         released it, before a thread that waits has woken up",
        holder.place,
        percent((held_s / subject.process.seconds).min(1.0)),
        seconds(subject.hold_s(holder.place))
    );
    let cure = "Release the lock for some time between two sections or hand it over: `convoy with \
                --mutex fair` or `--mutex handoff` tries that.";
    Some((Ill::Hog, why, cure.to_owned()))
}

/// The owner runs for a long time.
fn long(subject: &Subject<'_>) -> Option<Reason> {
    let hold_s = subject.hold_s(subject.holder.as_ref().map_or("", |holder| holder.place));
    if hold_s <= 0.0 {
        return long_by_waits(subject);
    }
    if hold_s < LONG_S {
        return None;
    }
    let lost = subject.holder.as_ref().filter(|holder| holder.preempted >= REASON);
    let lost = lost.map_or(String::new(), |holder| {
        format!("; its owner had no CPU during {} of that time", percent(holder.preempted))
    });
    let why = format!("{}, {} at a time{lost}", held(subject), seconds(hold_s));
    let cure = "Make that section shorter, or split what the lock guards; another lock will not \
                help.";
    Some((Ill::LongSection, why, cure.to_owned()))
}

/// Like [`long`], for an owner that never waits, so that its critical sections are not timed: it
/// runs while other threads wait for a long time.
fn long_by_waits(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref().filter(|holder| !holder.place.is_empty())?;
    let mean_s = holder.wait_s / holder.count.max(1) as f64;
    if holder.could_run < 1.0 - REASON || holder.samples < FEW || mean_s < LONG_S {
        return None;
    }
    let sum = |of: fn(&convoy_record::Site) -> u64| total(subject.lock.sites.iter().map(of));
    let (waits, futile) = (sum(|site| site.wait.count), sum(|site| site.futile));
    if holder.place != subject.place && 2 * futile > waits {
        let why = format!(
            "{} and acquires again as soon as it has released it, before a thread that waits has \
             woken up: {futile} of {waits} wakeups were futile",
            holds(subject, holder)
        );
        let cure = "Release the lock for some time between two sections or hand it over \
                    (`unlock_fair` of parking_lot).";
        return Some((Ill::Hog, why, cure.to_owned()));
    }
    let why = format!(
        "{} while it works: others wait {} at a time",
        holds(subject, holder),
        seconds(mean_s)
    );
    let cure = "Make that section shorter, or release the lock for some time between two sections.";
    Some((Ill::LongSection, why, cure.to_owned()))
}

/// Critical sections are short and frequent.
fn short(subject: &Subject<'_>) -> Option<Reason> {
    let hold_s = subject.hold_s("");
    let count = subject.lock.count();
    if hold_s <= 0.0 || count < 1000 {
        return None;
    }
    // For a lock outside of libc, only critical sections that begin with a wait are timed,
    // and the owner's did not.
    let waits = total(subject.lock.sites.iter().map(|site| site.wait.count)).max(1) as f64;
    let is_timed = subject.holder.as_ref().is_none_or(|holder| holder.ran.is_some());
    if !is_timed && subject.wait_s / waits > 10.0 * LONG_S || unseen_s(subject).is_some() {
        return None;
    }
    let why = format!(
        "{}; it is acquired {count} times, for {} each, and a thread that waits takes longer to \
         wake up than the section takes",
        held(subject),
        seconds(hold_s)
    );
    let cure = "Do more in each section or less often, keep data in each thread, or take a lock \
                that spins first (`convoy fix` on this record tries it).";
    Some((Ill::ShortSections, why, cure.to_owned()))
}

/// Returns how long a lock that only the kernel shows is held at a time by an unknown owner, in
/// seconds, if the known critical sections are too short to explain the waits. The time during
/// which threads wait, divided by all acquisitions, is one critical section plus the wakeup of the
/// next owner.
fn unseen_s(subject: &Subject<'_>) -> Option<f64> {
    let is_known = subject.holder.as_ref().is_some_and(|holder| !holder.place.is_empty());
    if is_known || !subject.process.futexes.iter().any(|lock| std::ptr::eq(lock, subject.lock)) {
        return None;
    }
    let each_s = subject.lock.waiters.seconds / subject.lock.count().max(1) as f64;
    (each_s > LONG_S + 2.0 * subject.hold_s("")).then_some(each_s)
}

/// Threads waited, and the reason is unknown.
fn contended(subject: &Subject<'_>) -> Reason {
    let why = match &subject.holder {
        Some(holder) if !holder.place.is_empty() || holder.ran.is_some() => holds(subject, holder),
        _ => String::new(),
    };
    if let Some(each_s) = unseen_s(subject).filter(|_| why.is_empty()) {
        let why = format!(
            ", which is held for about {} at a time by a thread that is not known, since it does \
             not wait itself",
            seconds(each_s)
        );
        let cure = "Find the long section of this lock: a process that takes the recorder in (one \
                    that keeps its environment) shows its owner.";
        return (Ill::Contended, why, cure.to_owned());
    }
    let is_monitor = subject.lock.name.starts_with("monitor of ");
    let cure =
        if is_monitor { MONITOR } else { "Make the sections of this lock shorter or fewer." };
    (Ill::Contended, why, cure.to_owned())
}
