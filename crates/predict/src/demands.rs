//! The demands of a recorded program on its stations: CPUs, locks, pools and its own threads.
//!
//! They are sums over the recorded run, so that no acquisition has to be a unit of work: a demand
//! is the time for which a station serves the program during one second of the record, which is
//! its utilisation at the recorded point. Throughput is the speed relative to the record. Each
//! demand has a least value, which no program with the recorded counts and times can be below, a
//! middle, and a most.

use convoy_diagnose::{JavaMonitor, KernelSleep, hot_element, is_owned, kernel_sleeps};
use convoy_record::{KernelObject, Kind, Lock, Process, Program, Site, Times, threads};
use convoy_runs::replay::{Class, Step};
use serde::Serialize;

use crate::away::Away;
use crate::doubt::Feature;
use crate::moving::{is_unsized, together};
use crate::others::others_cpus;
use crate::script::{Pool, Written};
use crate::single;

/// A lock or pool, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Named {
    /// Its name; of a family with one hot lock, the name of that lock, as in its finding.
    pub name: String,
    /// The place at which threads waited longest for it, unless its name contains that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Named {
    pub(crate) fn new(lock: &Lock) -> Self {
        let place = lock.sites.first().map(|site| site.place.clone());
        let place = place.filter(|place| !place.is_empty() && !lock.name.contains(place));
        Self { name: hot_element(lock).unwrap_or(&lock.name).to_owned(), place }
    }

    pub(crate) fn of_java(monitor: &JavaMonitor) -> Self {
        Self { name: monitor.class.clone(), place: Some(monitor.place.clone()) }
    }
}

/// A lock of the kernel, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelLock {
    /// What it protects, if the record knows it by samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<KernelObject>,
    /// Its primitive; empty if the record knows it by samples.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub primitive: String,
    /// The system call or the place in the kernel in which threads waited longest for it.
    pub place: String,
}

impl KernelLock {
    pub(crate) fn timed(lock: &Lock) -> Self {
        let place = lock.sites.first().map_or(String::new(), |site| site.place.clone());
        Self { object: None, primitive: lock.kernel.clone(), place }
    }

    pub(crate) fn sampled(object: KernelObject, call: &str) -> Self {
        Self { object: Some(object), primitive: String::new(), place: call.to_owned() }
    }
}

/// A station that limits a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "station", rename_all = "kebab-case")]
pub enum Station {
    /// The CPUs.
    #[default]
    Cpus,
    /// All threads: each of them always works or sleeps.
    Threads,
    /// The threads that call locking functions most often at one place.
    ThreadsAt {
        /// The place.
        place: String,
    },
    /// A lock.
    Lock {
        /// The lock.
        lock: Named,
    },
    /// A pool: a semaphore or condition with several units.
    Pool {
        /// The pool.
        pool: Named,
        /// Number of units.
        units: u32,
    },
    /// A lock of the kernel.
    Kernel {
        /// The lock.
        lock: KernelLock,
    },
}

/// Least, middle and most of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Range {
    pub(crate) least: f64,
    pub(crate) middle: f64,
    pub(crate) most: f64,
}

impl Range {
    /// Returns the range of these values, which may be in any order. Values that are no numbers
    /// count as zero.
    pub(crate) fn new(values: [f64; 3]) -> Self {
        let [least, middle, most] =
            values.map(|value| if value.is_finite() { value.max(0.0) } else { 0.0 });
        let (least, most) = (least.min(most), most.max(least));
        Self { least, middle: middle.clamp(least, most), most }
    }

    /// Returns the range less a part, of which a tenth remains at least.
    pub(crate) fn less(self, part: f64) -> Self {
        let Self { least, middle, most } = self;
        Self::new([least, middle, most].map(|value| (value - part).max(value / 10.0)))
    }
}

/// The demand on a lock or pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Demand {
    pub(crate) station: Station,
    /// Index of the lock among the locks of the process.
    pub(crate) lock: usize,
    /// Seconds of service in one second of the record.
    pub(crate) service: Range,
    /// CPU time in it.
    pub(crate) work: f64,
    /// CPU time in it of threads of which there is one.
    pub(crate) single: f64,
    /// Sleep in it, and the part of the service that readers need.
    pub(crate) slept: f64,
    pub(crate) read: f64,
    /// Customers that it serves at the same time: at most, and at least.
    pub(crate) servers: [f64; 2],
    /// Acquisitions in one second of the record.
    pub(crate) acquired: f64,
    /// Share of the acquisitions that waited.
    pub(crate) contended: f64,
    /// Whether several threads use it.
    pub(crate) is_shared: bool,
}

/// Threads that use the same places.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Crew {
    pub(crate) place: String,
    /// Share of their time in which they work or sleep.
    pub(crate) busy: f64,
}

impl Demand {
    /// Returns the demand on a station for which this many threads wait on average. With *q* of
    /// them, a queue with exponential times is used for a part of the time of which *q* is the
    /// square over the rest (Lazowska et al., 1984).
    pub(crate) fn queued(station: Station, waiting: f64, servers: f64) -> Self {
        let used = ((waiting * (waiting + 4.0)).sqrt() - waiting) / 2.0;
        Self {
            station,
            lock: usize::MAX,
            service: Range::new([0.0, used, waiting.min(1.0)].map(|part| servers * part)),
            servers: [servers; 2],
            contended: 1.0,
            is_shared: true,
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Demands {
    pub(crate) threads: u32,
    /// Threads that use a lock, also those that seldom got it: without waits, they may work, too.
    pub(crate) users: u32,
    pub(crate) cpus: u32,
    /// CPUs that other programs used.
    pub(crate) others: f64,
    /// CPU time in one second of the record.
    pub(crate) work: Range,
    /// The part of it of threads of which there may be one however many others there are, and the
    /// least number of these threads.
    pub(crate) single: f64,
    pub(crate) singles: u32,
    /// Whether more threads may have to wait for a condition that none waited for.
    pub(crate) is_unwaited: bool,
    /// Sleep of the threads in one second of the record.
    pub(crate) sleep: Range,
    /// Waits of threads for other threads, at conditions that are no pools.
    pub(crate) idle: f64,
    /// Locks and pools.
    pub(crate) stations: Vec<Demand>,
    /// Classes of threads.
    pub(crate) crews: Vec<Crew>,
}

/// Interprets the times of a process.
struct Reader<'a> {
    process: &'a Process,
    away: Away,
    /// Length of the busy part of the run, seconds.
    seconds: f64,
    threads: f64,
    cpus: f64,
    /// Waits for locks, and waits at conditions, of all threads, seconds.
    waits_s: [f64; 2],
}

/// Returns the demands of a process whose working threads are `threads`, in the busy part of its
/// run, which takes `seconds`.
pub(crate) fn demands(
    program: &Program,
    process: &Process,
    written: &Written,
    threads: u32,
    seconds: f64,
) -> Demands {
    let locks: Vec<&Lock> = process.locks.iter().filter(|lock| lock.is_lock()).collect();
    let away = Away::new(program, process, &locks);
    let cpus = program.cpus.max(1);
    let reader = Reader {
        process,
        away,
        seconds: seconds.max(1e-9),
        threads: f64::from(threads),
        cpus: f64::from(cpus),
        waits_s: [true, false].map(|is_owned| waits_s(process, is_owned)),
    };
    let numbered = process.locks.iter().enumerate();
    // The steps of a pool tell its sleep from waits, which its record does not.
    let is_traced = |number: usize| {
        written.pools.iter().any(|pool| pool.lock == number && pool.units.is_some())
    };
    let owned =
        numbered.filter(|(number, lock)| lock.is_lock() && lock.count() > 0 && !is_traced(*number));
    let mut stations: Vec<Demand> =
        owned.filter_map(|(number, lock)| reader.station(number, lock)).collect();
    stations.extend(written.pools.iter().filter_map(|pool| reader.pool(pool)));
    let Process { futexes, runtime_locks, kernel_locks, .. } = process;
    let waits = futexes.iter().chain(runtime_locks).chain(kernel_locks);
    stations.extend(waits.filter_map(|lock| reader.waited(lock)));
    stations.extend(kernel_sleeps(process).iter().map(|sleep| reader.slept_for(sleep)));
    let work = reader.work(&locks);
    let (sleep, idle) = reader.sleep(work, &locks, written);
    let alone = single::sites(&locks);
    let singles = u32::from(!alone.is_empty());
    let single = alone.iter().map(|site| reader.work_of(site)).sum::<f64>() / reader.seconds;
    let others = others_cpus(program).unwrap_or(0.0).min(f64::from(cpus));
    let alive = convoy_record::threads(process).ceil();
    let users = locks.iter().map(|lock| lock.sites.iter().map(|site| site.threads).max());
    let users = users.flatten().max().unwrap_or(0) as f64;
    let users = (users.min(alive) as u32).max(threads);
    Demands {
        threads,
        users,
        cpus,
        others,
        work,
        single,
        singles,
        is_unwaited: single::unwaited(process).is_some(),
        sleep,
        idle,
        stations,
        crews: crews(written),
    }
}

/// Returns the classes of threads whose work and sleep are known, if they need each other: classes
/// that do not may change their shares, so that none limits the others.
fn crews(written: &Written) -> Vec<Crew> {
    let is_coupled = written.has.contains(&Feature::Waits);
    let script = written.script.iter().filter(|_| is_coupled);
    let classes = script.flat_map(|script| &script.classes);
    let known = classes.filter(|class| !class.is_rare && !class.is_guessed);
    let crews = known.map(|class| {
        let busy = own_ns(class) * class.acquired_per_s / 1e9 / f64::from(class.threads.max(1));
        Crew { place: class.place.clone(), busy: if busy.is_finite() { busy } else { 0.0 } }
    });
    crews.collect()
}

/// Returns the work and sleep of a thread of a class per acquisition, nanoseconds.
fn own_ns(class: &Class) -> f64 {
    let (mut time_ns, mut acquired) = (0.0, 0.0);
    for (number, strip) in class.strips.iter().enumerate() {
        let weight = class.weights.get(number).copied().unwrap_or(1.0);
        for step in strip {
            match *step {
                Step::Rest { work_ns, sleep_ns } => time_ns += weight * (work_ns + sleep_ns),
                Step::Lock { .. } | Step::Read { .. } => acquired += weight,
                _ => {}
            }
        }
    }
    if acquired > 0.0 { time_ns / acquired } else { 0.0 }
}

/// Returns the waits for locks or at conditions of a process, seconds.
fn waits_s(process: &Process, is_owned: bool) -> f64 {
    let Process { locks, futexes, runtime_locks, kernel_locks, .. } = process;
    let waited = locks.iter().chain(futexes).chain(runtime_locks).chain(kernel_locks);
    let sleeps = kernel_sleeps(process).into_iter().filter(|_| is_owned);
    let slept_s: f64 = sleeps.map(|sleep| sleep.slept_s).sum();
    slept_s + waited.filter(|lock| lock.is_lock() == is_owned).map(Lock::wait_s).sum::<f64>()
}

/// Returns the recorded time of `count` calls, of which a sample was timed, seconds.
pub(crate) fn total_s(count: u64, on: &Times, off: &Times) -> f64 {
    let timed = (on.count + off.count).max(1) as f64;
    (on.total_s + off.total_s) * count as f64 / timed
}

impl Reader<'_> {
    /// Returns the seconds of work and of sleep of `count` calls with these times.
    fn parts(&self, count: u64, on: &Times, off: &Times) -> [f64; 2] {
        self.away.parts_ns(on, off).map(|ns| ns * count as f64 / 1e9)
    }

    /// Returns the station of a recorded lock. `None` if it cannot limit: one thread alone uses it,
    /// or its holds overlap without limit.
    fn station(&self, number: usize, lock: &Lock) -> Option<Demand> {
        let sites = || lock.sites.iter().filter(|site| site.act != "signal" && site.count > 0);
        let (mut work_s, mut slept_s, mut held_s) = (0.0, 0.0, 0.0);
        let (mut read_s, mut reads) = (0.0, 0.0);
        for site in sites() {
            let count = match lock.kind {
                // Not sampled; and threads that did not wait hold units, too.
                Kind::Condition => site.hold_on.count + site.hold_off.count,
                _ => site.count,
            };
            let recorded_s = total_s(count, &site.hold_on, &site.hold_off);
            if lock.kind == Kind::Rwlock && site.act == "read" {
                (read_s, reads) = (read_s + recorded_s, reads + site.count as f64);
                continue;
            }
            let [work, slept] = self.parts(count, &site.hold_on, &site.hold_off);
            (work_s, slept_s, held_s) = (work_s + work, slept_s + slept, held_s + recorded_s);
        }
        let writes = sites().filter(|site| site.act != "read").map(|site| site.count as f64).sum();
        let writes: f64 = if lock.kind == Kind::Rwlock { writes } else { 0.0 };
        // Each writer may wait for a reader. Of the sleep, nested waits are no part of a hold that
        // other locks do not prolong. The owner of a single lock does not wait for that one.
        let readers_s = if reads > 0.0 { writes * read_s / reads } else { 0.0 };
        let own_s = if lock.instances <= 1 { lock.wait_s() } else { 0.0 };
        let nested_s = self.waits_s.iter().sum::<f64>() - own_s;
        let certain_s = work_s + (slept_s - nested_s.max(0.0)).max(0.0);
        let waiting_s = lock.waiters.seconds.min(self.seconds);
        let units = match lock.kind {
            Kind::Semaphore => {
                let known = f64::from(together(self.process, lock));
                [if is_unsized(lock) { f64::INFINITY } else { known }, known]
            }
            // While threads wait for a pool, its units are all taken.
            Kind::Condition if lock.is_pool() => {
                [(held_s / lock.waiters.seconds).round().clamp(1.0, self.threads); 2]
            }
            _ => self.instances(lock, held_s),
        };
        // Readers share their time.
        let owned_s = if reads > 0.0 { 0.0 } else { self.owned_s(lock) * units[1] };
        let seconds = [
            certain_s.max(owned_s),
            work_s + slept_s + readers_s,
            (held_s + readers_s).max(waiting_s),
        ];
        let threads: u64 = sites().map(|site| site.threads).sum();
        let is_shared = threads > lock.instances.max(1);
        (is_shared || reads > 0.0).then(|| {
            let demand = self.demand(number, lock, seconds, work_s, units);
            let alone = sites().filter(|site| site.threads == 1 && is_shared && site.act != "read");
            let alone = alone.map(|site| {
                self.parts(site.count, &site.hold_on, &site.hold_off).iter().sum::<f64>()
            });
            let single = alone.sum::<f64>() / self.seconds;
            let [slept, read] = [slept_s, readers_s].map(|part_s| {
                // A service that is cut off at the length of the run has the same parts.
                let whole_s = work_s + slept_s + readers_s;
                demand.service.middle * part_s / whole_s.max(f64::MIN_POSITIVE)
            });
            Demand { single, slept, read, ..demand }
        })
    }

    /// Returns the station of a pool. `None` if the number of its units is not known.
    fn pool(&self, pool: &Pool) -> Option<Demand> {
        let lock = &self.process.locks[pool.lock];
        let [recorded, certain] = pool.taken.map(|taken| taken * self.process.seconds);
        let units = pool.units?;
        let certain = certain.max(self.owned_s(lock) * f64::from(units)).min(recorded);
        let seconds = [certain, certain, recorded];
        let demand =
            self.demand(pool.lock, lock, seconds, 0.0, [f64::from(units), f64::from(units)]);
        let slept = demand.service.middle;
        Some(Demand { station: Station::Pool { pool: Named::new(lock), units }, slept, ..demand })
    }

    /// Returns the station of a lock of which only the waits were recorded: it was held, or was
    /// being handed over, while threads waited.
    fn waited(&self, lock: &Lock) -> Option<Demand> {
        let waiting_s = match lock.held {
            Some(held) => held.total_s,
            None if lock.waiters.seconds > 0.0 => lock.waiters.seconds,
            None => lock.wait_s(),
        };
        let held_s = lock.held.map_or(0.0, |held| held.total_s - held.preempted_s - held.woken_s);
        let waiting_s = waiting_s.min(self.seconds);
        let servers = [lock.even_instances(), 1.0];
        let certain_s = self.owned_s(lock).max(held_s).min(waiting_s);
        let seconds = [certain_s, waiting_s / 2.0, waiting_s];
        is_owned(lock).then(|| self.demand(usize::MAX, lock, seconds, 0.0, servers))
    }

    /// Returns the station of a lock of the kernel for which threads were seen asleep.
    fn slept_for(&self, sleep: &KernelSleep) -> Demand {
        let lock = KernelLock::sampled(sleep.object, &sleep.call);
        Demand::queued(Station::Kernel { lock }, sleep.slept_s / self.seconds, 1.0)
    }

    /// Returns the time for which a lock, or all units of a pool, certainly had owners that worked
    /// or slept: while threads wait for it, it has, unless the owner or the next one waits for a
    /// CPU. 0 for several locks.
    fn owned_s(&self, lock: &Lock) -> f64 {
        /// Time from a release until the next owner runs on an idle CPU, and from the call until
        /// the thread sleeps, seconds: an estimate, above what guests on a busy host need.
        const PASSED_S: f64 = 50e-6;
        let waits: u64 = lock.sites.iter().map(|site| site.wait.count).sum();
        match self.ready_s() {
            Some(ready_s) if lock.instances <= 1 => {
                (lock.waiters.seconds - ready_s - waits as f64 * PASSED_S).max(0.0)
            }
            _ => 0.0,
        }
    }

    /// Returns the time for which threads waited for a CPU, seconds.
    fn ready_s(&self) -> Option<f64> {
        let scheduling = self.process.scheduling;
        scheduling.map(|seen| seen.preempted_s + seen.woken_s).or(self.process.ready_s)
    }

    fn demand(
        &self,
        number: usize,
        lock: &Lock,
        seconds: [f64; 3],
        work_s: f64,
        servers: [f64; 2],
    ) -> Demand {
        let count = lock.count() as f64;
        // A station cannot have been used for longer than the run.
        let service =
            seconds.map(|seconds| (seconds / self.seconds).min(servers[0]).min(self.threads));
        let units = if servers[1].is_finite() { servers[1] as u32 } else { u32::MAX };
        let station = match lock.kind {
            _ if !lock.kernel.is_empty() => Station::Kernel { lock: KernelLock::timed(lock) },
            Kind::Semaphore | Kind::Condition if servers[0] > 1.0 => {
                Station::Pool { pool: Named::new(lock), units }
            }
            _ => Station::Lock { lock: Named::new(lock) },
        };
        Demand {
            station,
            lock: number,
            service: Range::new(service),
            work: (work_s / self.seconds).min(service[0].max(service[1])),
            servers,
            acquired: count / self.seconds,
            contended: (lock.contended() as f64 / count.max(1.0)).min(1.0),
            is_shared: true,
            ..Demand::default()
        }
    }

    /// Returns at most and at least how many locks of one name share their acquisitions evenly. A
    /// thread that acquires one of *m* such locks finds it held with a probability of an *m*th of
    /// the locks that the other threads hold.
    fn instances(&self, lock: &Lock, held_s: f64) -> [f64; 2] {
        /// Waits that must be expected for their absence to be evidence.
        const EXPECTED: f64 = 10.0;
        let most = lock.even_instances();
        let held = held_s / self.seconds * (self.threads - 1.0).max(0.0) / self.threads.max(1.0);
        let expected = held * lock.count() as f64;
        let least = if expected / most > EXPECTED {
            (expected / lock.contended().max(1) as f64).clamp(1.0, most)
        } else {
            1.0
        };
        [most, least]
    }

    /// Returns the CPU time of the program in one second of the record. The least is the work in
    /// and between critical sections: the rest may be the price of waiting.
    fn work(&self, locks: &[&Lock]) -> Range {
        // Without its CPU time, the program may have used every CPU.
        let recorded = match self.process.cpu_s / self.seconds {
            cpus if cpus > 0.0 => cpus,
            _ => self.cpus,
        };
        let sites = locks.iter().flat_map(|lock| &lock.sites).filter(|site| site.act != "signal");
        let timed = sites.map(|site| self.work_of(site)).sum::<f64>() / self.seconds;
        let least = if locks.is_empty() { recorded } else { timed.min(recorded) };
        Range::new([least, recorded, recorded])
    }

    /// Returns the work in and between the critical sections of a site, seconds.
    fn work_of(&self, site: &Site) -> f64 {
        let [held, _] = self.parts(site.count, &site.hold_on, &site.hold_off);
        let [between, _] = self.parts(site.count, &site.think_on, &site.think_off);
        held + between
    }

    /// Returns the sleep of the threads in one second of the record, and their waits for other
    /// threads. Sleep is the time that is neither work nor a wait: at most all of it, at least what
    /// both the times of the calls and the kernel have seen of it.
    fn sleep(&self, work: Range, locks: &[&Lock], written: &Written) -> (Range, f64) {
        let scheduling = self.process.scheduling;
        let [waited_s, idle_s] = self.waits_s;
        let ready_s = self.ready_s();
        // Threads that have ended do not sleep, and no thread sleeps longer than the kernel saw.
        let present = self.threads.min(threads(self.process));
        let seen_s = scheduling.map_or(f64::INFINITY, |seen| seen.asleep_s - waited_s - idle_s);
        let rest_s = self.seconds * (present - work.most) - waited_s - idle_s;
        let rest_s = (rest_s - ready_s.unwrap_or(0.0)).min(seen_s);
        let sites = locks.iter().flat_map(|lock| &lock.sites).filter(|site| site.act != "signal");
        let slept = |site: &Site| {
            let [_, held] = self.parts(site.count, &site.hold_on, &site.hold_off);
            let [_, between] = self.parts(site.count, &site.think_on, &site.think_off);
            held + between
        };
        let timed_s = sites.map(slept).sum::<f64>() - waited_s - idle_s;
        // A program without calls that could be timed sleeps as the kernel saw.
        let timed_s = if locks.is_empty() && scheduling.is_some() { seen_s } else { timed_s };
        // Threads of the process that do not work sleep, too: at least the main thread may.
        let idlers = (threads(self.process) - self.threads).max(1.0);
        let least_s = timed_s.min(seen_s - idlers * self.seconds).min(rest_s);
        // Without the waits for CPUs, the rest is not all sleep.
        let middle_s = if ready_s.is_some() { rest_s } else { least_s };
        let sleep = Range::new([least_s, middle_s, rest_s].map(|s| s / self.seconds));
        let pooled = written.pools.iter().filter(|pool| pool.units.is_some());
        let pooled = pooled.map(|pool| &self.process.locks[pool.lock]);
        let pooled_s: f64 = pooled.filter(|lock| !lock.is_lock()).map(Lock::wait_s).sum();
        let idle = ((idle_s - pooled_s).max(0.0) / self.seconds).min(self.threads);
        (sleep, if idle.is_finite() { idle } else { 0.0 })
    }
}
