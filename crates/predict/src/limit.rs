//! The lock that limits a program at its recorded point.

use convoy_diagnose::{Diagnosis, Finding, Gap, Problem, Verdict, is_owned, waited_share};
use convoy_record::{Kind, Lock, Process};
use serde::Serialize;

use crate::demands::{Demand, Demands, KernelLock, Named, Station, total_s};

/// Share of the threads' time below which waits do not limit the program.
pub(crate) const WEIGHT: f64 = 0.02;
/// Number of CPUs above which no limit is reported.
const FAR: f64 = 1024.0;

/// Threads that hold a lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holders {
    /// One thread.
    One,
    /// Readers.
    Readers,
    /// Owners of units.
    Units,
}

/// The limit of a program at its recorded point.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "limit", rename_all = "kebab-case")]
pub enum Limit {
    /// A lock.
    Lock {
        /// The lock.
        lock: Named,
        /// Share of the threads' time in which they waited for it.
        waited: f64,
        /// Threads that hold it at the same time.
        holders: Holders,
        /// Mean time from its acquisition to its release, sleep and nested waits included,
        /// microseconds. `None` if it was not timed.
        #[serde(skip_serializing_if = "Option::is_none")]
        hold_us: Option<f64>,
        /// Acquisitions per second that such holds allow.
        #[serde(skip_serializing_if = "Option::is_none")]
        per_s: Option<f64>,
    },
    /// A pool.
    Pool {
        /// The pool.
        pool: Named,
        /// Number of its units.
        units: u32,
        /// Share of the threads' time in which they waited for it.
        waited: f64,
        /// Mean time for which a thread keeps a unit, microseconds.
        hold_us: f64,
        /// Passes per second that such holds allow.
        per_s: f64,
    },
    /// A lock of the kernel.
    Kernel {
        /// The lock.
        lock: KernelLock,
        /// Share of the threads' time in which they waited for it.
        waited: f64,
    },
    /// Waits that the record does not contain may limit the program.
    Unknown {
        /// The waits.
        gap: Box<Gap>,
    },
    /// No lock.
    Nothing {
        /// Recorded CPUs.
        cpus: u32,
        /// Share of the threads' time in which they waited for locks.
        waited: f64,
        /// The lock that would limit the program first, and the number of CPUs from which on.
        #[serde(skip_serializing_if = "Option::is_none")]
        first: Option<(Named, u32)>,
    },
}

impl Default for Limit {
    fn default() -> Self {
        Self::Nothing { cpus: 0, waited: 0.0, first: None }
    }
}

impl Limit {
    /// Returns the limit of a process with these demands, whose relevant locks are `locks`, in the
    /// busy part of its run, which takes `seconds`: what the first finding of its diagnosis is
    /// about, if threads waited there.
    pub(crate) fn new(
        demands: &Demands,
        diagnosis: &Diagnosis,
        process: &Process,
        locks: &[&Lock],
        seconds: f64,
    ) -> Self {
        let time_s = f64::from(demands.threads.max(1)) * seconds.max(1e-9);
        let first = diagnosis.first();
        if let Some(limit) = first.and_then(|first| found(first, demands, process, seconds)) {
            return limit;
        }
        let quiet = match &diagnosis.verdict {
            Verdict::Quiet(quiet) => Some(quiet),
            _ => None,
        };
        if let Some(gap @ (Gap::JavaWaits { .. } | Gap::Tasks { .. } | Gap::Atomics { .. })) =
            quiet.and_then(|quiet| quiet.gap.as_ref())
        {
            return Self::Unknown { gap: Box::new(gap.clone()) };
        }
        let Process { futexes, runtime_locks, kernel_locks, .. } = process;
        let more = futexes.iter().chain(runtime_locks).chain(kernel_locks);
        let locks: Vec<&Lock> =
            locks.iter().copied().chain(more.filter(|lock| is_owned(lock))).collect();
        let wait_s: f64 = locks.iter().map(|lock| lock.wait_s()).sum();
        let least_s = wait_s.max(WEIGHT * time_s);
        let pools = demands.stations.iter().filter_map(|demand| pool(demand, process, time_s));
        let longest = pools.max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, pool)) = longest.filter(|(wait_s, _)| *wait_s > least_s) {
            return pool;
        }
        let longest = locks.iter().max_by(|a, b| a.wait_s().total_cmp(&b.wait_s()));
        // Waits while the CPUs are in use are no limit.
        let is_harmless = quiet.is_some_and(|quiet| quiet.in_use.is_some());
        if let Some(lock) = longest.filter(|_| wait_s > WEIGHT * time_s && !is_harmless) {
            let waited = waited_share(process, lock);
            let waited = waited.unwrap_or_else(|| (lock.wait_s() / time_s).min(1.0));
            return of_lock(lock, waited, seconds);
        }
        let first = demands.stations.iter().filter_map(|demand| {
            let cpus = demands.work.middle * demand.servers[0] / demand.service.middle;
            let is_near = cpus.is_finite() && cpus < FAR;
            let name = match &demand.station {
                Station::Lock { lock: name } | Station::Pool { pool: name, .. } => name,
                Station::Kernel { .. }
                | Station::Cpus
                | Station::Threads
                | Station::ThreadsAt { .. } => return None,
            };
            is_near.then(|| (name.clone(), cpus.ceil().max(1.0) as u32))
        });
        let first = first.min_by_key(|(_, cpus)| *cpus);
        Self::Nothing { cpus: demands.cpus, waited: (wait_s / time_s).min(1.0), first }
    }

    /// Returns its station; `None` if no lock limits the program.
    pub(crate) fn station(&self) -> Option<Station> {
        match self.clone() {
            Self::Lock { lock, .. } => Some(Station::Lock { lock }),
            Self::Pool { pool, units, .. } => Some(Station::Pool { pool, units }),
            Self::Kernel { lock, .. } => Some(Station::Kernel { lock }),
            Self::Unknown { .. } | Self::Nothing { .. } => None,
        }
    }
}

/// Returns the limit that a finding names, if it is about waits for a lock of this process or of
/// the kernel.
fn found(first: &Finding, demands: &Demands, process: &Process, seconds: f64) -> Option<Limit> {
    let waited = first.share?;
    let kernel = match &first.problem {
        Problem::KernelLock { primitive, place, .. } => {
            Some(KernelLock { object: None, primitive: primitive.clone(), place: place.clone() })
        }
        Problem::KernelWait { object, call } => Some(KernelLock::sampled(*object, call)),
        _ => None,
    };
    if let Some(lock) = kernel {
        return Some(Limit::Kernel { lock, waited });
    }
    if first.kind().costs_cpu() || first.pid != process.pid {
        return None;
    }
    if let Problem::Java { monitor: Some(monitor), .. } = &first.problem {
        let holders = if monitor.units.is_some() { Holders::Units } else { Holders::One };
        let lock = Named::of_java(monitor);
        return Some(Limit::Lock { lock, waited, holders, hold_us: None, per_s: None });
    }
    let Process { locks, futexes, runtime_locks, .. } = process;
    let number = locks.iter().position(|lock| lock.name == first.lock && lock.wait_s() > 0.0);
    let pooled = demands.stations.iter().find(|demand| Some(demand.lock) == number);
    let time_s = f64::from(demands.threads.max(1)) * seconds.max(1e-9);
    if let Some((_, pool)) = pooled.and_then(|demand| pool(demand, process, time_s)) {
        return Some(timed(pool, &first.problem));
    }
    let others = futexes.iter().chain(runtime_locks).find(|lock| lock.name == first.lock);
    number.map(|number| &locks[number]).or(others).map(|lock| of_lock(lock, waited, seconds))
}

/// Returns a pool with the time that a thread keeps a unit according to its finding.
fn timed(pool: Limit, problem: &Problem) -> Limit {
    match (pool, problem) {
        (Limit::Pool { pool, units, waited, .. }, Problem::PoolExhausted { hold_s, .. })
            if *hold_s > 0.0 =>
        {
            let (hold_us, per_s) = (1e6 * hold_s, f64::from(units) / hold_s);
            Limit::Pool { pool, units, waited, hold_us, per_s }
        }
        (pool, _) => pool,
    }
}

/// Returns the pool of a station with the time that threads waited for it, seconds.
fn pool(demand: &Demand, process: &Process, time_s: f64) -> Option<(f64, Limit)> {
    let Station::Pool { pool, units } = &demand.station else { return None };
    let lock = process.locks.get(demand.lock)?;
    let wait_s = lock.wait_s();
    let hold_s = demand.service.most / demand.acquired;
    let waited = waited_share(process, lock).unwrap_or_else(|| (wait_s / time_s).min(1.0));
    let limit = Limit::Pool {
        pool: pool.clone(),
        units: *units,
        waited,
        hold_us: 1e6 * hold_s,
        per_s: f64::from(*units) / hold_s,
    };
    (hold_s > 0.0).then_some((wait_s, limit))
}

fn of_lock(lock: &Lock, waited: f64, seconds: f64) -> Limit {
    let sites = || lock.sites.iter().filter(|site| site.act != "signal");
    let is_read = sites().any(|site| site.act == "read");
    let holders = match lock.kind {
        Kind::Semaphore => Holders::Units,
        _ if is_read => Holders::Readers,
        _ => Holders::One,
    };
    let held_s: f64 = sites().map(|site| total_s(site.count, &site.hold_on, &site.hold_off)).sum();
    let count = lock.count().max(1) as f64;
    let instances = lock.instances.max(1) as f64;
    // A lock cannot have been held for longer than the run.
    let hold_s = (held_s / count).min(instances * seconds / count);
    let hold_s = Some(hold_s).filter(|hold_s| *hold_s > 0.0);
    let allows = hold_s.filter(|_| holders == Holders::One);
    let allows = allows.map(|hold_s| lock.even_instances() / hold_s);
    Limit::Lock {
        lock: Named::new(lock),
        waited,
        holders,
        hold_us: hold_s.map(|hold_s| 1e6 * hold_s),
        per_s: allows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demands::demands;
    use crate::script::Written;
    use convoy_record::{Element, KernelObject, KernelWait, Program, Record, Site, Times};

    fn times(count: u64, each_us: f64) -> Times {
        let total_s = count as f64 * each_us / 1e6;
        Times { count, total_s, buckets: vec![(each_us * 1e3, count)], ..Times::default() }
    }

    fn site(wait_s: f64) -> Site {
        Site {
            place: "put (queue.c:7)".to_owned(),
            act: "lock".to_owned(),
            count: 1000,
            threads: 2,
            hold_on: times(1000, 1.0),
            wait: Times { count: 10, total_s: wait_s, ..Times::default() },
            ..Site::default()
        }
    }

    /// Two threads run for one second. Each acquisition uses 4 us of CPU time.
    fn limit(sites: Vec<Site>) -> Limit {
        let lock = Lock { name: "queue".to_owned(), instances: 1, sites, ..Lock::default() };
        let process =
            Process { seconds: 1.0, cpu_s: 0.004, locks: vec![lock], ..Process::default() };
        limit_of(process, 2)
    }

    fn limit_of(process: Process, threads: u32) -> Limit {
        let program = Program { cpus: 2, ..Program::default() };
        let demands = demands(&program, &process, &Written::default(), threads, 1.0);
        let record = Record { program, processes: vec![process], ..Record::default() };
        let process = &record.processes[0];
        let locks: Vec<&Lock> = process.locks.iter().collect();
        Limit::new(&demands, &Diagnosis::new(&record), process, &locks, 1.0)
    }

    #[test]
    fn a_lock_without_waiters_would_limit_from_the_cpus_that_fill_it() {
        let queue = Named { name: "queue".to_owned(), place: Some("put (queue.c:7)".to_owned()) };
        let first = Some((queue, 4));
        assert_eq!(limit(vec![site(0.001)]), Limit::Nothing { cpus: 2, waited: 0.0005, first });
        let alone = Site { threads: 1, ..site(0.0) };
        assert_eq!(limit(vec![alone]), Limit::Nothing { cpus: 2, waited: 0.0, first: None });
    }

    /// Half of the holds sleep for 799 us.
    #[test]
    fn a_lock_allows_what_whole_holds_leave_and_not_the_work_in_them() {
        let sleeps = Site { hold_on: times(500, 1.0), hold_off: times(500, 799.0), ..site(0.5) };
        let Limit::Lock { waited, hold_us, per_s, .. } = limit(vec![sleeps]) else {
            panic!("threads waited")
        };
        assert!((waited - 0.25).abs() < 1e-9);
        assert!((hold_us.expect("timed") - 400.0).abs() < 1e-6, "{hold_us:?}");
        assert!((per_s.expect("one holder") - 2500.0).abs() < 1e-6, "{per_s:?}");
    }

    /// Sixteen locks in one array, of which one gets nine acquisitions of ten.
    #[test]
    fn a_hot_element_limits_as_a_lock_does() {
        let name = "shards+0x280".to_owned();
        let elements = vec![Element { name, count: 900, wait_s: 0.45, ..Element::default() }];
        let name = "shards".to_owned();
        let lock =
            Lock { name, instances: 16, elements, sites: vec![site(0.5)], ..Lock::default() };
        let process = Process { seconds: 1.0, cpu_s: 0.004, threads: 2, ..Process::default() };
        let limit = limit_of(Process { locks: vec![lock], ..process }, 2);
        let Limit::Lock { lock, hold_us: Some(hold_us), per_s: Some(per_s), .. } = limit else {
            panic!("{limit:?}")
        };
        assert_eq!(lock.name, "shards+0x280", "the lock that `explain` names");
        assert!((per_s * hold_us / 1e6 - 1000.0 / 900.0).abs() < 1e-6, "{per_s} {hold_us}");
    }

    /// Two of four threads wait. `explain` divides by the time of these two as well.
    #[test]
    fn a_share_is_a_part_of_the_time_of_the_waiting_threads() {
        let lock = Lock { instances: 1, sites: vec![site(0.5)], ..Lock::default() };
        let process = Process { seconds: 1.0, cpu_s: 0.004, threads: 4, ..Process::default() };
        let process = Process { locks: vec![lock], ..process };
        let limit = limit_of(process, 4);
        let Limit::Lock { waited, .. } = limit else { panic!("{limit:?}") };
        assert!((waited - 0.25).abs() < 1e-9, "{waited}");
    }

    /// A lock that only the writer waited for was reported as the limit, although the readers
    /// scaled.
    #[test]
    fn a_lock_that_readers_hold_together_has_no_rate() {
        let read = Site { act: "read".to_owned(), ..site(0.5) };
        let Limit::Lock { holders, per_s, .. } = limit(vec![read]) else {
            panic!("threads waited")
        };
        assert_eq!((holders, per_s), (Holders::Readers, None));
    }

    /// Two threads of which one waits for the lock of a file, seen in each second look.
    #[test]
    fn a_lock_of_the_kernel_limits_if_the_diagnosis_says_so() {
        let wait = KernelWait {
            call: "write(2)".to_owned(),
            object: KernelObject::File,
            place: String::new(),
            samples: 50,
        };
        let process = Process {
            seconds: 1.0,
            cpu_s: 1.0,
            threads: 2,
            looks: 100,
            kernel_waits: vec![wait],
            ..Process::default()
        };
        let lock = KernelLock::sampled(KernelObject::File, "write(2)");
        let demand = demands(&Program::default(), &process, &Written::default(), 2, 1.0);
        let used = demand.stations[0].service.middle;
        // A half in the queue is a half of use: 0.5^2 / (1 - 0.5).
        assert!((used - 0.5).abs() < 1e-9, "{used}");
        let Limit::Kernel { lock: limit, waited } = limit_of(process, 2) else { panic!("waits") };
        assert_eq!(limit, lock);
        assert!(waited > 0.2, "{waited}");
    }
}
