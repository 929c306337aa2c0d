//! Threads of which a program has one, whatever the number of its other threads: a writer that
//! works at intervals, a producer.

use convoy_record::{Kind, Lock, Process, Site};

/// Returns the sites that one thread alone uses, in a program of which other threads share places.
/// Whether more threads would also add one that uses these places is not known.
pub(crate) fn sites<'a>(locks: &[&'a Lock]) -> Vec<&'a Site> {
    let used = || locks.iter().flat_map(|lock| &lock.sites).filter(|site| site.count > 0);
    let is_shared = used().any(|site| site.threads > 1);
    used().filter(|site| is_shared && site.threads == 1).collect()
}

/// Returns a condition that threads signal, but never waited for. With more threads they may have
/// to: it may be a pool of as many units as there were threads.
pub(crate) fn unwaited(process: &Process) -> Option<&Lock> {
    let conditions = process.locks.iter().filter(|lock| lock.kind == Kind::Condition);
    conditions.into_iter().find(|lock| {
        let mut used = lock.sites.iter().filter(|site| site.count > 0).peekable();
        used.peek().is_some() && used.all(|site| site.act == "signal")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(kind: Kind, sites: &[(&str, u64, u64)]) -> Lock {
        let sites = sites.iter().map(|&(act, count, threads)| {
            let (act, place) = (act.to_owned(), act.to_owned());
            Site { act, place, count, threads, ..Site::default() }
        });
        Lock { kind, sites: sites.collect(), ..Lock::default() }
    }

    #[test]
    fn a_writer_next_to_readers_is_single_and_one_of_two_threads_is_not() {
        let table = lock(Kind::Rwlock, &[("read", 100, 2), ("write", 3, 1)]);
        let acts: Vec<&str> = sites(&[&table]).iter().map(|site| site.act.as_str()).collect();
        assert_eq!(acts, ["write"]);
        let pair = lock(Kind::Mutex, &[("lock", 100, 1), ("try", 3, 1)]);
        assert!(sites(&[&pair]).is_empty());
    }

    #[test]
    fn a_condition_without_waits_may_be_a_pool() {
        let process = |lock: Lock| Process { locks: vec![lock], ..Process::default() };
        let signalled = process(lock(Kind::Condition, &[("signal", 100, 2)]));
        assert!(unwaited(&signalled).is_some());
        let waited = process(lock(Kind::Condition, &[("signal", 9, 2), ("wait", 5, 2)]));
        assert!(unwaited(&waited).is_none());
        assert!(unwaited(&process(lock(Kind::Mutex, &[("lock", 100, 2)]))).is_none());
    }
}
