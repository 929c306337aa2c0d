//! Threads that take work from a queue and always have some, so that work waits for them.

use convoy_record::{Kind, Lock, Origin, Process, Record, Site, total};
use serde::Serialize;

use crate::account::shorter_s;
use crate::cpus::CpusInUse;
use crate::evidence::function;

/// Minimum part of the time of the threads with work.
const BUSY: f64 = 0.8;
/// Minimum number of works in a second for each thread, so that the pool has existed for most of
/// the run.
const WORKS: f64 = 5.0;
/// A work takes the mutex of its queue twice, or more often; a semaphore once.
const RATIO: u64 = 4;

/// A pool of threads that seldom waited for work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusyPool {
    /// Number of threads.
    pub threads: u64,
    /// Part of their time that they had work.
    pub busy: f64,
    /// The threads of the program that wait for them. `None` for the pool of libuv, whose work is
    /// queued by an event loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<Clients>,
}

/// Threads that wait for the results of a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clients {
    /// Where most of them wait.
    pub place: String,
    /// Mean number of threads that wait for results.
    pub waiting: f64,
}

impl BusyPool {
    /// Returns the first pool of a program whose threads take work all the time and seldom wait for
    /// it.
    pub(crate) fn of(record: &Record) -> Option<Self> {
        let has_cpus = CpusInUse::of(record).has_room();
        record.processes.iter().find_map(|process| {
            let mut queues = process.locks.iter().filter(|lock| {
                let is_queue = matches!(lock.kind, Kind::Condition | Kind::Semaphore);
                let is_of_runtime =
                    matches!(lock.origin, Origin::JavaVm | Origin::PythonInterpreter);
                is_queue && lock.instances <= 1 && !is_of_runtime
            });
            let pool = queues.find_map(|lock| Self::at(process, lock, has_cpus));
            pool.or_else(|| Self::of_python(process).filter(|_| has_cpus))
        })
    }

    /// Returns the pool whose threads wait for work at this condition or semaphore.
    fn at(process: &Process, lock: &Lock, has_cpus: bool) -> Option<Self> {
        let waits = lock.sites.iter().filter(|site| site.wait.count > 0);
        if waits.clone().next().is_none() {
            return Self::without_waits(process, lock).filter(|_| has_cpus);
        }
        let threads = total(waits.clone().map(|site| site.threads));
        let mutex = process.locks.iter().find(|mutex| mutex.name == lock.mutex);
        let pool = Self::new(process, threads, lock.wait_s())?;
        let taken = match lock.kind {
            Kind::Semaphore => lock.count(),
            _ => mutex.map_or(0, Lock::count),
        };
        if (taken as f64) < WORKS * threads as f64 * process.seconds {
            return None;
        }
        let signals = lock.sites.iter().any(|site| is_in(site, "uv_cond_signal"));
        let is_worker =
            waits.max_by_key(|site| site.wait.count).is_some_and(|site| is_in(site, "worker"));
        if signals && threads > 1 && is_worker {
            return Some(pool);
        }
        if !has_cpus || lock.is_lock() {
            return None;
        }
        let results = results(process, lock)?;
        // A thread that waits for a result has queued its work.
        let signals = lock.sites.iter().filter(|site| site.act == "signal");
        let clients = total(signals.map(|site| site.threads));
        if lock.kind == Kind::Condition && (clients as f64) < waiting(process, results).ceil() {
            return None;
        }
        let works = works(results);
        if mutex.is_some_and(|mutex| mutex.sites.iter().all(|site| waits_in(results, site))) {
            return None;
        }
        let is_each = works.saturating_mul(RATIO) >= taken && works <= taken.saturating_mul(RATIO);
        pool.with(process, results).filter(|_| is_each)
    }

    /// Returns a pool with threads that never wait for work. Other threads queue the work under a
    /// mutex and signal, and then wait for its result in the same function.
    fn without_waits(process: &Process, queue: &Lock) -> Option<Self> {
        let results = results(process, queue)?;
        let asks =
            queue.sites.iter().find(|site| site.act == "signal" && waits_in(results, site))?;
        let works = works(results);
        let is_each = |site: &Site| {
            works.saturating_mul(RATIO) >= site.count && works <= site.count.saturating_mul(RATIO)
        };
        let mutexes = process.locks.iter().filter(|lock| lock.kind == Kind::Mutex);
        let worker = mutexes.filter(|mutex| mutex.name != results.mutex).find_map(|mutex| {
            let (asking, others): (Vec<&Site>, Vec<&Site>) =
                mutex.sites.iter().partition(|site| waits_in(results, site));
            let worker = others.into_iter().filter(|site| is_each(site)).max_by_key(|it| it.count);
            worker.filter(|_| asking.into_iter().any(is_each))
        })?;
        let locks = process.locks.iter().chain(&process.futexes).flat_map(|lock| &lock.sites);
        let there = locks.filter(|site| function(&site.place) == function(&worker.place));
        let pool = Self::new(process, worker.threads, there.map(|site| site.wait.total_s).sum())?;
        let is_asked = asks.threads as f64 >= waiting(process, results).ceil() && is_each(asks);
        pool.with(process, results).filter(|_| is_asked)
    }

    /// Returns the pool of a `ThreadPoolExecutor` of Python. Its queue is in C, and acquisitions
    /// of its lock are not seen.
    fn of_python(process: &Process) -> Option<Self> {
        let is_result = |site: &Site| is_waited_in(site, "Future.result", "(_base.py:");
        let mut conditions = process.locks.iter().filter(|lock| lock.kind == Kind::Condition);
        let results = conditions.find(|lock| lock.sites.iter().any(is_result))?;
        let sites = process.locks.iter().flat_map(|lock| &lock.sites);
        let waits = sites.filter(|site| is_waited_in(site, "_worker", "(thread.py:"));
        let idle = waits.clone().map(|site| site.threads).max().unwrap_or(0);
        let idle_s = waits.map(|site| site.wait.total_s).sum();
        // Each future has a condition, which several threads of the pool signal in turn.
        let signals = results.sites.iter().filter(|site| site.act == "signal");
        let signals = total(signals.map(|site| site.threads)).div_ceil(results.instances.max(1));
        Self::new(process, idle.max(signals), idle_s)?.with(process, results)
    }

    /// Returns a pool of `threads` that waited for work for `idle_s` seconds, if that is little.
    fn new(process: &Process, threads: u64, idle_s: f64) -> Option<Self> {
        let time_s = threads as f64 * process.seconds;
        let busy = 1.0 - idle_s / time_s.max(f64::MIN_POSITIVE);
        (threads > 0 && busy >= BUSY).then_some(Self { threads, busy, clients: None })
    }

    /// Adds the threads that wait for its results, if clearly more wait than the pool has threads.
    fn with(self, process: &Process, results: &Lock) -> Option<Self> {
        /// Minimum ratio of the mean number of waiting threads to the number of threads.
        const QUEUE: f64 = 1.5;
        /// Minimum mean number of works in the queue.
        const QUEUED: f64 = 2.0;
        let waiting = waiting(process, results);
        let site = results.sites.iter().max_by(|a, b| a.wait.total_s.total_cmp(&b.wait.total_s))?;
        let is_much = works(results) as f64 >= WORKS * self.threads as f64 * process.seconds;
        let threads = self.threads as f64;
        let has_queue = is_much && waiting >= (QUEUE * threads).max(threads + QUEUED);
        let clients = Clients { place: site.place.clone(), waiting };
        has_queue.then_some(Self { clients: Some(clients), ..self })
    }
}

/// The threads that end the waits of more threads for a condition, and seldom wait for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FewWakers {
    /// Where they signal it.
    pub place: String,
    /// Their number.
    pub threads: u64,
    /// Mean number of threads that wait for them.
    pub waiting: f64,
}

impl FewWakers {
    /// Returns the threads that signal a condition for which threads wait in another function. The
    /// conditions of one mutex are one queue: for entries, and for room.
    pub(crate) fn of(process: &Process, longest: &Lock) -> Option<Self> {
        /// Minimum ratio of the mean number of waiting threads to the number of threads.
        const QUEUE: f64 = 1.5;
        let has_mutex = |lock: &&Lock| lock.kind == Kind::Condition && lock.mutex == longest.mutex;
        let queue = process.locks.iter().filter(has_mutex).filter(|_| !longest.mutex.is_empty());
        let sites: Vec<&Site> = queue.flat_map(|lock| &lock.sites).collect();
        let room = longest.sites.iter().max_by(|a, b| a.wait.total_s.total_cmp(&b.wait.total_s))?;
        let wakers = sites
            .iter()
            .filter(|site| site.act == "signal" && function(&site.place) != function(&room.place));
        let waker = wakers.max_by_key(|site| site.count)?;
        let there = sites.iter().filter(|site| function(&site.place) == function(&waker.place));
        let idle_s = there.map(|site| site.wait.total_s).sum();
        let BusyPool { threads, .. } = BusyPool::new(process, waker.threads, idle_s)?;
        let waiting = room.wait.total_s / process.seconds.max(f64::MIN_POSITIVE);
        let wakeups = (WORKS * threads as f64 * process.seconds).max(1.0);
        let is_often = room.wait.count.min(waker.count) as f64 >= wakeups;
        let is_few = is_often && waiting >= QUEUE * threads as f64;
        is_few.then(|| Self { place: waker.place.clone(), threads, waiting })
    }
}

/// Returns whether a site is in a function that waits for results.
fn waits_in(results: &Lock, site: &Site) -> bool {
    let mut waits = results.sites.iter().filter(|wait| wait.wait.count > 0);
    waits.any(|wait| function(&wait.place) == function(&site.place))
}

/// Returns the condition or the like for which threads wait longest, but for `queue`.
fn results<'a>(process: &'a Process, queue: &Lock) -> Option<&'a Lock> {
    let locks = process.locks.iter().chain(&process.futexes).chain(&process.runtime_locks);
    let others = locks.filter(|lock| !std::ptr::eq(*lock, queue) && !lock.is_lock());
    others.max_by(|a, b| waiting(process, a).total_cmp(&waiting(process, b)))
}

/// Returns the number of works that threads waited for.
fn works(results: &Lock) -> u64 {
    total(results.sites.iter().map(|site| site.wait.count))
}

/// Returns the mean number of threads that wait for a result.
fn waiting(process: &Process, results: &Lock) -> f64 {
    /// Part of the run for which no thread waits for a result.
    const LONG: f64 = 0.5;
    let wait_s = shorter_s(results, LONG * process.seconds);
    wait_s / process.seconds.max(f64::MIN_POSITIVE)
}

/// Returns whether threads wait in this function of this file.
fn is_waited_in(site: &Site, function: &str, file: &str) -> bool {
    site.wait.count > 0 && is_in(site, function) && site.place.contains(file)
}

/// Returns whether a site is in exactly this function.
fn is_in(site: &Site, function: &str) -> bool {
    let rest = site.place.strip_prefix(function);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::{Program, Times};

    /// A queue. Its four threads wait at a place for `idle_s` seconds of 3, `signal` signals it,
    /// and its mutex is acquired `taken` times.
    fn queue(place_of_work: &str, signal: &str, idle_s: f64, taken: u64) -> [Lock; 2] {
        let wait = Times { count: 9, total_s: idle_s, ..Times::default() };
        let (place, act) = (signal.to_owned(), "signal".to_owned());
        let signal = Site { place, act, threads: 16, ..Site::default() };
        let place = place_of_work.to_owned();
        let sites = vec![Site { place, wait, threads: 4, ..Site::default() }, signal];
        let (kind, mutex) = (Kind::Condition, "mutex".to_owned());
        let condition = Lock { kind, mutex: mutex.clone(), sites, ..Lock::default() };
        let sites = vec![Site { count: taken, ..Site::default() }];
        [condition, Lock { name: mutex, kind: Kind::Mutex, sites, ..Lock::default() }]
    }

    fn pool(locks: impl IntoIterator<Item = Lock>) -> Option<BusyPool> {
        let process =
            Process { seconds: 3.0, locks: locks.into_iter().collect(), ..Process::default() };
        let program = Program { cpus: 2, wall_s: 3.0, ..Program::default() };
        BusyPool::of(&Record { program, processes: vec![process], ..Record::default() })
    }

    #[test]
    fn a_pool_of_libuv_whose_threads_always_have_work_is_busy() {
        fn of(idle_s: f64, works: u64) -> Option<BusyPool> {
            pool(queue("worker (threadpool.c:76)", "uv_cond_signal+0x9 (node)", idle_s, works))
        }
        let busy = of(0.12, 370).expect("next to no waits");
        assert!(busy.threads == 4 && (busy.busy - 0.99).abs() < 1e-9, "{busy:?}");
        assert_eq!(of(6.0, 370), None, "half of their time idle");
        assert_eq!(of(0.12, 20), None, "perhaps a pool that began at the end");
    }

    /// Semaphores at which `waiting` threads wait on average, for `works` results in all.
    fn results(waiting: f64, works: u64) -> Lock {
        let wait = Times { count: works, total_s: 3.0 * waiting, ..Times::default() };
        let place = "ask (jobs.c:3)".to_owned();
        let sites = vec![Site { place, count: works, wait, threads: 16, ..Site::default() }];
        Lock { kind: Kind::Semaphore, instances: 16, sites, ..Lock::default() }
    }

    #[test]
    fn a_pool_of_the_program_is_busy_if_more_threads_wait_than_it_has() {
        fn of(waiting: f64, works: u64) -> Option<BusyPool> {
            let queue = queue("work (jobs.c:7)", "post (jobs.c:9)", 0.12, 800);
            pool(queue.into_iter().chain([results(waiting, works)]))
        }
        let clients = of(15.0, 400).and_then(|busy| busy.clients).expect("eleven works wait");
        assert!((clients.waiting - 15.0).abs() < 1e-9 && clients.place == "ask (jobs.c:3)");
        assert_eq!(of(4.0, 400), None, "each work has a thread");
        assert_eq!(of(15.0, 100), None, "threads that wait for something else");
        let [mut condition, mutex] = queue("work (jobs.c:7)", "post (jobs.c:9)", 0.12, 800);
        condition.sites[1].threads = 1;
        assert_eq!(pool([condition, mutex, results(15.0, 400)]), None, "idle threads");
    }

    #[test]
    fn a_pool_is_busy_although_its_threads_never_wait_for_work() {
        fn site(place: &str, act: &str, threads: u64) -> Site {
            let (place, act) = (place.to_owned(), act.to_owned());
            Site { place, act, count: 400, threads, ..Site::default() }
        }
        /// Sixteen threads that queue work in this function, and two that take it.
        fn of(asks: &str, takes: u64) -> Option<BusyPool> {
            let takes = Site { count: takes, ..site("work (jobs.c:7)", "lock", 2) };
            let sites = vec![site(asks, "lock", 16), takes];
            let mutex = Lock { name: "mutex".to_owned(), sites, ..Lock::default() };
            let sites = vec![site(asks, "signal", 16)];
            let condition = Lock { kind: Kind::Condition, sites, ..Lock::default() };
            pool([mutex, condition, results(14.0, 400)])
        }
        let busy = of("ask (jobs.c:1)", 400).expect("it always has work");
        assert!(busy.threads == 2 && busy.clients.is_some(), "{busy:?}");
        assert_eq!(of("post (jobs.c:1)", 400), None, "they need not wait for that work");
        assert_eq!(of("ask (jobs.c:1)", 20), None, "the work is another one");
    }

    #[test]
    fn threads_wait_for_the_few_that_make_room_in_a_queue() {
        fn wait(count: u64, total_s: f64) -> Times {
            Times { count, total_s, ..Times::default() }
        }
        fn site(place: &str, act: &str, threads: u64, wait: Times) -> Site {
            let (place, act) = (place.to_owned(), act.to_owned());
            Site { place, act, count: 600, threads, wait, ..Site::default() }
        }
        fn wakers(threads: u64, idle_s: f64) -> Option<FewWakers> {
            let sites = vec![
                site("push (queue.c:7)", "wait", 6, wait(600, 17.0)),
                site("push (queue.c:9)", "signal", 6, wait(0, 0.0)),
                site("pop (queue.c:17)", "wait", threads, wait(9, idle_s)),
                site("pop (queue.c:19)", "signal", threads, wait(0, 0.0)),
            ];
            let (kind, mutex) = (Kind::Condition, "mutex".to_owned());
            let condition = Lock { kind, mutex, sites, instances: 2, ..Lock::default() };
            let locks = vec![condition];
            let process = Process { seconds: 3.0, locks, ..Process::default() };
            FewWakers::of(&process, &process.locks[0])
        }
        let few = wakers(2, 0.1).expect("two threads for six");
        assert!(few.threads == 2 && few.place == "pop (queue.c:19)" && few.waiting > 5.6);
        assert_eq!([wakers(5, 0.1), wakers(2, 4.0)], [None, None], "as many threads, or idle ones");
    }
}
