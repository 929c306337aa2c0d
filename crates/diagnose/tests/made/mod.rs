//! Parts of made-up records.

use convoy_record::{Cause, Doing, Kind, Lock, Process, Program, Record, Seen, Site, Times};

/// Returns `count` times of this length each, in seconds.
pub(crate) fn times(count: u64, each_s: f64) -> Times {
    let total_s = count as f64 * each_s;
    Times { count, total_s, max_s: each_s, buckets: vec![(each_s * 0.8e9, count)] }
}

/// Returns a place where four threads acquire the lock this many times.
pub(crate) fn site(place: &str, act: &str, count: u64) -> Site {
    let threads = 4;
    Site { place: place.to_owned(), act: act.to_owned(), count, threads, ..Site::default() }
}

/// Returns a mutex that `append` waits for 1000 times, 2 ms each, and that `sync` holds for 3 ms.
pub(crate) fn mutex() -> Lock {
    let append = Site { contended: 1000, wait: times(1000, 2e-3), ..site("append", "lock", 2000) };
    let sync = Site { hold_off: times(300, 3e-3), threads: 1, ..site("sync", "lock", 300) };
    let sites = vec![append, sync];
    Lock { name: "log".to_owned(), kind: Kind::Mutex, instances: 1, sites, ..Lock::default() }
}

/// Returns samples that found a thread doing this.
pub(crate) fn seen(doing: Doing, what: &str, count: u64) -> Seen {
    Seen { doing, what: what.to_owned(), count, ..Seen::default() }
}

/// Returns the cause of the waits of `append`: the part of the time that the owner ran, and its
/// sampled activity.
pub(crate) fn cause(ran: f64, owners: Vec<Seen>) -> Cause {
    let of = |text: &str| text.to_owned();
    let (wait_s, measured_s) = (2.0, 1.0);
    let (place, held_at) = (of("append"), of("sync"));
    let (lock, act, held_act) = (of("log"), of("lock"), of("lock"));
    let cause = Cause { lock, place, act, held_at, held_act, count: 1000, ..Cause::default() };
    Cause { wait_s, max_s: 2e-3, measured_s, ran_s: ran, owners, ..cause }
}

/// Returns a process of four threads with this lock.
pub(crate) fn process(lock: Lock, cause: Cause) -> Process {
    let (locks, causes) = (vec![lock], vec![cause]);
    Process { pid: 7, seconds: 1.0, cpu_s: 1.0, threads: 4, locks, causes, ..Process::default() }
}

/// Returns a record of this process.
pub(crate) fn record(process: Process) -> Record {
    let program = Program { wall_s: 1.0, cpus: 2, ..Program::default() };
    Record { program, processes: vec![process], ..Record::default() }
}
