//! The behaviour of a recorded program, the input of its replay.

use crate::away::Away;
use crate::moving::{moved, together};
use crate::others::others_cpus;
use crate::script::{Written, mode, script};
use convoy_record::{Kind, LOCK_OF, Lock, Process, Record, Site, is_passing};
use convoy_runs::replay::{self, Behaviour, Script, Section};
use std::sync::Arc;

/// Share of the acquisitions and of the waiting time below which a lock is left out.
const LITTLE: f64 = 0.001;
/// Largest number of locks of one name that are distinguished.
const INSTANCES: u64 = 64;

/// Returns the process with the most contended locks and its relevant locks, the most contended one
/// first.
pub fn busiest(record: &Record) -> (Option<&Process>, Vec<&Lock>) {
    let process =
        record.processes.iter().max_by_key(|one| one.locks.iter().map(weight).sum::<u64>());
    (process, process.map(kept).unwrap_or_default())
}

/// Returns whether the first of several mutexes has such a large share of the waiting time that it
/// alone limits the program, and can be replaced alone: by the name of its variable, or by its
/// places if all of them are known, since the place of the first acquisition selects the lock.
pub fn is_alone(record: &Record) -> bool {
    fn can_be_named(lock: &Lock) -> bool {
        !lock.name.starts_with(LOCK_OF) || !lock.sites.iter().any(|site| is_passing(&site.place))
    }
    /// Share of all waiting time.
    const MOST: f64 = 0.9;
    let (Some(process), locks) = busiest(record) else { return false };
    let all: f64 = locks.iter().map(|lock| lock.wait_s()).sum();
    let mutexes = process.locks.iter().filter(|lock| lock.kind == Kind::Mutex).count();
    let limits = |lock: &Lock| lock.kind == Kind::Mutex && lock.wait_s() > MOST * all;
    let first = locks.first().is_some_and(|lock| limits(lock) && can_be_named(lock));
    mutexes > 1 && record.program.mutex.is_empty() && first
}

/// Returns the sum of the nanoseconds that threads waited and the number of acquisitions.
fn weight(lock: &Lock) -> u64 {
    let weight = ((lock.wait_s() * 1e9) as u64).saturating_add(lock.count());
    if is_replayed(lock) { weight } else { 0 }
}

/// Returns whether some thread calls a place of the lock twice, so that it is part of a cycle: next
/// to other programs, a call at the end of each thread may be as frequent as others.
fn recurs(lock: &Lock) -> bool {
    lock.sites.iter().any(|site| site.count > site.threads)
}

/// Returns whether the replay has it as a lock: a pool behind a condition is a condition there.
fn is_replayed(lock: &Lock) -> bool {
    lock.is_lock() && !lock.is_pool()
}

/// Returns the relevant locks, the most contended one first.
fn kept(process: &Process) -> Vec<&Lock> {
    let all = || process.locks.iter().filter(|lock| is_replayed(lock) && lock.count() > 0);
    let count = all().map(Lock::count).fold(0, u64::saturating_add);
    let wait_s: f64 = all().map(Lock::wait_s).sum();
    let matters = |lock: &&Lock| {
        let is_frequent = lock.count() as f64 > LITTLE * count as f64 && recurs(lock);
        is_frequent || lock.wait_s() > LITTLE * wait_s
    };
    let mut locks: Vec<&Lock> = all().filter(matters).collect();
    locks.sort_by(|a, b| b.wait_s().total_cmp(&a.wait_s()));
    locks
}

/// Returns the behaviour of the process with these locks, and, if `in_order` is set, the result of
/// writing its steps.
pub(crate) fn behaviour(
    record: &Record,
    process: &Process,
    locks: &[&Lock],
    in_order: bool,
) -> (Behaviour, Written) {
    let cpus = record.program.cpus.max(1);
    let away = Away::new(&record.program, process, locks);
    let mut behaviour = Behaviour { cpus, ..Behaviour::default() };
    let all = threads(process, locks);
    for (index, lock) in locks.iter().enumerate() {
        behaviour.locks.push(lock.instances.clamp(1, INSTANCES) as u32);
        if is_private(lock) {
            behaviour.private.insert(index);
        }
        if !is_replaced(lock, locks[0].kind) {
            behaviour.others.insert(index);
        }
        behaviour.kinds.push(replayed(process, lock));
        let sites = lock.sites.iter().filter(|site| site.act != "signal" && site.count > 0);
        behaviour.sections.extend(sites.map(|site| Section {
            lock: index,
            mode: mode(&site.act),
            count: site.count,
            // Locks of one name share their threads, and threads that exited were replaced by
            // others.
            threads: regulars(site).clamp(1, all) as u32,
            hold: away.span(&site.hold_on, &site.hold_off),
            think: away.span(&site.think_on, &site.think_off),
        }));
    }
    let count: u64 = behaviour.sections.iter().map(|one| one.count).sum();
    behaviour.threads = behaviour.sections.iter().map(|one| one.threads).max().unwrap_or(1);
    let seconds = busy_s(process, locks).max(1e-9);
    (behaviour.total, behaviour.rate) = (count, count as f64 / seconds);
    behaviour.cpu_ns = process.cpu_s * 1e9 / count.max(1) as f64;
    let wait_s: f64 = locks.iter().map(|lock| lock.wait_s()).sum();
    let wait_s = wait_s.min(seconds * f64::from(behaviour.threads));
    behaviour.wait_ns = wait_s * 1e9 / count.max(1) as f64;
    let passing_s = |lock: &&Lock| lock.all(|site| &site.handoff).total_s / lock.instances as f64;
    behaviour.passing = locks.iter().map(passing_s).fold(0.0, f64::max) / seconds;
    behaviour.before.clone_from(&behaviour.locks);
    let per_call = |seconds: f64| seconds * 1e9 / count.max(1) as f64;
    behaviour.ready_ns = ready_s(process).map(per_call);
    behaviour.away_ns = away.total_s(locks).map(per_call);
    behaviour.moved = moved(process, locks);
    behaviour.is_disturbed = others_cpus(&record.program).is_some();
    if !in_order {
        return (behaviour, Written::default());
    }
    let mut written = script(process, locks, away);
    if let Some(script) = written.script.take() {
        ordered(&mut behaviour, script, process, locks, seconds);
        let plain: Vec<&Lock> = locks.iter().copied().filter(|lock| !lock.is_built()).collect();
        behaviour.away_ns =
            away.total_s(&plain).map(|seconds| seconds * 1e9 / behaviour.total.max(1) as f64);
        let idle_s = written.idle_s.min(seconds * f64::from(behaviour.threads));
        behaviour.idle_ns = idle_s * 1e9 / (behaviour.rate * seconds);
    }
    (behaviour, written)
}

/// Returns the time for which threads waited for a CPU although they could run, seconds, summed
/// over threads; `None` if it was not recorded. The time from a wakeup to the acquisition of a lock
/// is part of the wait for that lock.
fn ready_s(process: &Process) -> Option<f64> {
    let sites = process.locks.iter().flat_map(|lock| &lock.sites);
    let handoff_s: f64 = sites.map(|site| site.handoff.total_s).sum();
    let seen =
        process.scheduling.map(|seen| seen.preempted_s + (seen.woken_s - handoff_s).max(0.0));
    seen.or(process.ready_s)
}

/// Returns the kind of a recorded lock for the replay. A semaphore that is used as a lock has as
/// many units as were held simultaneously.
fn replayed(process: &Process, lock: &Lock) -> replay::Kind {
    match lock.kind {
        Kind::Rwlock => replay::Kind::RwLock { prefers_writers: false },
        Kind::Spinlock => replay::Kind::Spinlock,
        Kind::Semaphore => replay::Kind::Semaphore { units: together(process, lock) },
        Kind::Mutex | Kind::Condition | Kind::Barrier | Kind::Futex => replay::Kind::Mutex,
    }
}

/// Returns the number of working threads, derived from the relevant places of locks that have their
/// name alone: each of many locks of one name may have different threads.
fn threads(process: &Process, locks: &[&Lock]) -> u64 {
    /// Share of all acquisitions.
    const MUCH: f64 = 0.01;
    let count: u64 = locks.iter().map(|lock| lock.count()).sum();
    let sites = locks.iter().filter(|lock| lock.instances <= 1).flat_map(|lock| &lock.sites);
    let matter =
        sites.filter(|site| site.act != "signal" && site.count as f64 > MUCH * count as f64);
    matter.map(regulars).max().unwrap_or(process.threads).clamp(1, process.threads.max(1))
}

/// Returns the number of threads that call a place regularly; all of its threads if that was not
/// recorded. If a thread waited there, the number is at least two, unless only one thread called
/// the place.
fn regulars(site: &Site) -> u64 {
    match site.regulars {
        0 => site.threads,
        1 if site.contended > 0 => site.threads.min(2),
        regulars => regulars,
    }
}

/// Sets the script of a behaviour. Its acquisitions are acquisitions of locks that the script
/// takes: in a script, a lock that the program has built is a mutex and a condition.
fn ordered(
    behaviour: &mut Behaviour,
    script: Script,
    process: &Process,
    locks: &[&Lock],
    seconds: f64,
) {
    let plain = || locks.iter().filter(|lock| !lock.is_built());
    // A wait at a condition ends with another acquisition of its mutex, perhaps after a futile
    // wakeup. That acquisition does no work, and how often it happens depends on how threads are
    // woken.
    let conditions = conditions(process);
    let again = |lock: &Lock| waits_within(&conditions, lock).min(lock.count());
    let count: u64 = plain().map(|lock| lock.count() - again(lock)).sum();
    behaviour.total = count;
    let count = count.max(1) as f64;
    behaviour.threads = script.classes.iter().map(|class| class.threads).sum();
    behaviour.rate = count / seconds;
    behaviour.cpu_ns = process.cpu_s * 1e9 / count;
    behaviour.ready_ns = ready_s(process).map(|seconds| seconds * 1e9 / count);
    let is_door = |lock: &&Lock| lock.kind == Kind::Condition;
    let doors = process.locks.iter().filter(is_door).flat_map(|lock| &lock.sites);
    let returns: u64 = doors.filter(|site| site.act == "wait").map(|site| site.wait.count).sum();
    behaviour.returns = returns as f64 / count;
    let wait_s: f64 = plain().map(|lock| lock.wait_s()).sum();
    behaviour.wait_ns = wait_s.min(seconds * f64::from(behaviour.threads)) * 1e9 / count;
    behaviour.script = Some(Arc::new(script));
}

/// Returns the conditions of a process, of which there are few even if it has many locks.
fn conditions(process: &Process) -> Vec<&Lock> {
    process.locks.iter().filter(|lock| lock.kind == Kind::Condition).collect()
}

/// Returns how many waits at conditions released a mutex of this name.
fn waits_within(conditions: &[&Lock], lock: &Lock) -> u64 {
    let is_mutex = lock.kind == Kind::Mutex && lock.is_lock();
    let own = conditions.iter().filter(|one| is_mutex && one.mutex == lock.name);
    own.map(|one| waits_at(one)).sum()
}

/// Returns the condition at which most waits released a mutex of this name; `None` if there were
/// few such waits.
pub(crate) fn waiting_within<'a>(process: &'a Process, lock: &Lock) -> Option<&'a Lock> {
    let own = conditions(process).into_iter().filter(|one| one.mutex == lock.name);
    let most = own.max_by_key(|one| waits_at(one))?;
    (waits_at(most) as f64 > LITTLE * lock.count() as f64).then_some(most)
}

/// Returns how many waits at a condition were recorded.
fn waits_at(condition: &Lock) -> u64 {
    condition.sites.iter().filter(|site| site.act == "wait").map(|site| site.wait.count).sum()
}

/// Returns whether a name has several locks that threads rarely wait for.
fn is_private(lock: &Lock) -> bool {
    lock.instances > 1 && (lock.contended() as f64) < LITTLE * lock.count() as f64
}

/// Returns whether a replacement of locks of the kind `first` also replaces this lock: `--mutex`
/// and `--sem` are separate flags, and a lock that the program has built is not replaced.
fn is_replaced(lock: &Lock, first: Kind) -> bool {
    match first {
        Kind::Condition => lock.kind == Kind::Mutex,
        first => lock.kind == first,
    }
}

/// Returns the time for which the threads worked, seconds. For a program whose threads often
/// waited, it is the time from the first to the last wait that ended, without startup and shutdown.
/// Only waits for locks are used if there are enough of them: at a barrier threads also wait before
/// they work.
pub(crate) fn busy_s(process: &Process, locks: &[&Lock]) -> f64 {
    /// Mean number of waits per phase above which waits are frequent enough.
    const OFTEN: u64 = 10;
    let waited = |wait_s: &f64| *wait_s > 0.0;
    let count = |is_built: bool| -> u64 {
        let of = locks.iter().filter(|lock| is_built || !lock.is_built());
        of.map(|lock| lock.contended()).sum()
    };
    let is_often = |is_built: bool, phases: &[f64]| count(is_built) > OFTEN * phases.len() as u64;
    let of_locks = &process.phases_lock_s;
    let is_enough = !of_locks.is_empty() && is_often(false, of_locks);
    let phases = if is_enough { of_locks } else { &process.phases_wait_s };
    match (phases.iter().position(waited), phases.iter().rposition(waited)) {
        (Some(first), Some(last)) if is_often(true, phases) => {
            (last - first + 1) as f64 * process.phase_s
        }
        _ => process.seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::Times;

    /// A mutex of this name. Threads waited `wait_s` for it at its first place.
    fn mutex(name: &str, wait_s: f64, places: &[&str]) -> Lock {
        let site = |(index, place): (usize, &&str)| Site {
            place: (*place).to_owned(),
            count: 10,
            wait: Times {
                count: 1,
                total_s: if index == 0 { wait_s } else { 0.0 },
                ..Times::default()
            },
            ..Site::default()
        };
        let sites = places.iter().enumerate().map(site).collect();
        Lock { name: name.to_owned(), sites, ..Lock::default() }
    }

    fn record(first: Lock, second_s: f64) -> Record {
        let locks = vec![first, mutex("other", second_s, &["note (orders.c:40)"])];
        Record { processes: vec![Process { locks, ..Process::default() }], ..Record::default() }
    }

    #[test]
    fn a_lock_stands_alone_if_it_limits_and_all_its_places_are_known() {
        let places = ["find (cache.c:12)", "fill (cache.c:30)"];
        let alone = |lock, second_s| is_alone(&record(lock, second_s));
        assert!(alone(mutex("lock of find (cache.c:12)", 1.0, &places), 0.01));
        assert!(!alone(mutex("lock of find (cache.c:12)", 1.0, &places), 0.5));
        // A caller that is not among the recorded places may also acquire it.
        let places = ["Shard::Lookup+0x2f (db)", "port::Mutex::Lock+0x8 (db)"];
        assert!(!alone(mutex("lock of Shard::Lookup+0x2f (db)", 1.0, &places), 0.01));
        assert!(alone(mutex("shard", 1.0, &places), 0.01), "its variable names it");
    }

    #[test]
    fn many_locks_that_nobody_waits_for_are_private() {
        fn of(instances: u64, contended: u64) -> bool {
            let mut lock = Lock { instances, ..mutex("one", 0.0, &["here"]) };
            (lock.sites[0].count, lock.sites[0].contended) = (10_000, contended);
            is_private(&lock)
        }
        assert!(of(600, 3));
        assert!(!of(600, 300) && !of(1, 3));
    }

    #[test]
    fn threads_that_seldom_come_and_locks_of_their_own_make_no_workers() {
        let site = |count, threads, regulars| Site { count, threads, regulars, ..Site::default() };
        let hot = Lock { instances: 1, sites: vec![site(9000, 6, 4)], ..Lock::default() };
        let own = Lock { instances: 400, sites: vec![site(900, 450, 430)], ..Lock::default() };
        let process = Process { threads: 9, ..Process::default() };
        assert_eq!(threads(&process, &[&hot, &own]), 4);
        assert_eq!(threads(&process, &[&own]), 9, "no place tells");
        let mut mostly_one =
            Lock { instances: 1, sites: vec![site(9000, 3, 1)], ..Lock::default() };
        assert_eq!(threads(&process, &[&mostly_one]), 1);
        mostly_one.sites[0].contended = 40;
        assert_eq!(threads(&process, &[&mostly_one]), 2, "somebody waited");
        let older = Lock { instances: 1, sites: vec![site(9000, 6, 0)], ..Lock::default() };
        assert_eq!(threads(&process, &[&older]), 6, "a record that does not tell");
    }

    #[test]
    fn waits_at_conditions_are_told_from_acquisitions() {
        let wait = Times { count: 30, ..Times::default() };
        let site = Site { act: "wait".to_owned(), count: 40, wait, ..Site::default() };
        let condition = Lock {
            name: "items".to_owned(),
            kind: Kind::Condition,
            mutex: "queue".to_owned(),
            sites: vec![site],
            ..Lock::default()
        };
        let (queue, other) = (mutex("queue", 0.0, &["here"]), mutex("other", 0.0, &["there"]));
        let process = Process { locks: vec![condition], ..Process::default() };
        assert_eq!(waits_within(&conditions(&process), &queue), 30);
        assert_eq!(waits_within(&conditions(&process), &other), 0);
    }

    #[test]
    fn a_policy_is_for_locks_of_one_kind() {
        let of = |kind| Lock { kind, ..mutex("one", 1.0, &["here"]) };
        assert!(is_replaced(&of(Kind::Mutex), Kind::Mutex));
        assert!(!is_replaced(&of(Kind::Semaphore), Kind::Mutex));
        assert!(is_replaced(&of(Kind::Semaphore), Kind::Semaphore));
        assert!(is_replaced(&of(Kind::Mutex), Kind::Condition), "the mutex inside of a flag");
        assert!(!is_replaced(&of(Kind::Condition), Kind::Condition));
    }
}
