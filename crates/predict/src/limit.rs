//! Names the lock that limits a program, in a sentence.

use convoy_record::{Kind, Lock, Process};
use convoy_runs::replay::Behaviour;

use crate::behaviour::busy_s;
use crate::units;

/// Share of the threads' time below which waits do not limit the program.
pub(crate) const WEIGHT: f64 = 0.02;
/// Number of CPUs above which no limit is reported.
const FAR: f64 = 1024.0;

/// Returns a sentence that names the lock that limits the program, or the first lock that would
/// limit it on more CPUs.
pub(crate) fn limit(behaviour: &Behaviour, process: &Process, locks: &[&Lock]) -> String {
    fn of(lock: &Lock) -> String {
        let place = lock.sites.first().map_or("", |site| site.place.as_str());
        if lock.name.contains(place) { String::new() } else { format!(" in {place}") }
    }
    let time_s = f64::from(behaviour.threads) * busy_s(process, locks).max(1e-9);
    let wait_s: f64 = locks.iter().map(|lock| lock.wait_s()).sum();
    let most = locks.iter().max_by(|a, b| a.wait_s().total_cmp(&b.wait_s()));
    if let Some(lock) = most.filter(|_| wait_s > WEIGHT * time_s) {
        let waited = 100.0 * (lock.wait_s() / time_s).min(1.0);
        if holds(behaviour, locks, lock).is_some_and(|(_, is_shared)| is_shared) {
            return format!(
                "Threads spent {waited:.0} % of their time waiting for `{}`{}. {} hold it \
                 together, so only the rows below show whether it limits the program.",
                lock.name,
                of(lock),
                if lock.kind == Kind::Semaphore { "Several threads" } else { "Readers" }
            );
        }
        let rate = rate(behaviour, locks, lock);
        let allows = rate.filter(|rate| rate.is_finite()).map(|rate| {
            format!(
                " Held as long as it was, it allows at most {:.0} acquisitions per second.",
                units::rate(rate)
            )
        });
        return format!(
            "`{}`{} limits the program: threads spent {waited:.0} % of their time waiting for \
             it.{}",
            lock.name,
            of(lock),
            allows.unwrap_or_default()
        );
    }
    let none = format!(
        "No lock limits this program on {} {}: threads spent {} % of their time waiting for locks.",
        behaviour.cpus,
        if behaviour.cpus == 1 { "CPU" } else { "CPUs" },
        match 100.0 * wait_s / time_s {
            ..0.05 => "less than 0.1".to_owned(),
            share => format!("{share:.1}"),
        }
    );
    let first = (0..locks.len())
        .filter(|index| !behaviour.private.contains(index) && is_shared(locks[*index]))
        .filter_map(|index| Some((rate(behaviour, locks, locks[index])?, locks[index])))
        .map(|(rate, lock)| ((rate * share(locks, lock).recip() * behaviour.cpu_ns / 1e9), lock))
        .filter(|(cpus, _)| cpus.is_finite() && *cpus < FAR)
        .min_by(|a, b| a.0.total_cmp(&b.0));
    match first {
        Some((cpus, lock)) => format!(
            "{none} `{}`{} would be the first to, from about {:.0} CPUs on.",
            lock.name,
            of(lock),
            cpus.ceil().max(1.0)
        ),
        None => none,
    }
}

/// Returns whether more than one thread acquires the lock.
fn is_shared(lock: &Lock) -> bool {
    lock.sites.iter().any(|site| site.threads > 1) || lock.sites.len() > 1
}

/// Returns the share of all acquisitions that are of `lock`.
fn share(locks: &[&Lock], lock: &Lock) -> f64 {
    let all: u64 = locks.iter().map(|lock| lock.count()).sum();
    lock.count() as f64 / all.max(1) as f64
}

/// Returns the largest number of acquisitions per second that the locks of this name allow in total
/// with the recorded work of their holds. `None` for a lock with overlapping or untimed holds.
fn rate(behaviour: &Behaviour, locks: &[&Lock], lock: &Lock) -> Option<f64> {
    let (ns, is_shared) = holds(behaviour, locks, lock)?;
    (ns > 0.0 && !is_shared).then(|| lock.instances.max(1) as f64 * 1e9 / ns)
}

/// Returns the mean work while a lock of this name is held, nanoseconds, without sleep, and whether
/// holds overlap.
fn holds(behaviour: &Behaviour, locks: &[&Lock], lock: &Lock) -> Option<(f64, bool)> {
    Some(behaviour.held_ns(locks.iter().position(|one| std::ptr::eq(*one, lock))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::{Site, Times};
    use convoy_runs::replay::{Mode, Section, Span, Spread};

    fn lock(name: &str, wait_s: f64) -> Lock {
        let wait = Times { count: 10, total_s: wait_s, ..Times::default() };
        let site = Site {
            place: "put (queue.c:7)".to_owned(),
            count: 1000,
            threads: 2,
            wait,
            ..Site::default()
        };
        Lock { name: name.to_owned(), instances: 1, sites: vec![site], ..Lock::default() }
    }

    /// Two threads run for one second. Each acquisition uses 4 us of CPU time and holds the lock
    /// for 1 us.
    fn said(lock: &Lock, private: bool) -> String {
        let hold = Span { work: Spread::new(&[(1000.0, 1)], 1000.0), ..Span::default() };
        let section = Section { count: 1000, threads: 2, hold, ..Section::default() };
        let mut behaviour = Behaviour {
            sections: vec![section],
            threads: 2,
            cpus: 2,
            rate: 1e5,
            cpu_ns: 4000.0,
            ..Behaviour::default()
        };
        behaviour.private.extend(private.then_some(0));
        let process = Process { seconds: 1.0, ..Process::default() };
        limit(&behaviour, &process, &[lock])
    }

    #[test]
    fn a_lock_without_waiters_does_not_limit() {
        let text = said(&lock("queue", 0.001), false);
        assert!(text.starts_with("No lock limits this program on 2 CPUs: threads spent 0.1 %"));
        assert!(
            text.ends_with(
                "`queue` in put (queue.c:7) would be the first to, from about 4 CPUs on."
            ),
            "{text}"
        );
    }

    #[test]
    fn a_lock_of_one_thread_will_never_limit() {
        let text = said(&lock("queue", 0.0), true);
        assert!(text.ends_with("waiting for locks."), "{text}");
    }

    #[test]
    fn the_lock_with_the_longest_waits_limits() {
        let text = said(&lock("queue", 0.5), false);
        assert!(
            text.starts_with("`queue` in put (queue.c:7) limits the program: threads spent 25 %"),
            "{text}"
        );
        assert!(text.contains("at most 1000000 acquisitions per second"), "{text}");
    }

    /// A lock that only the writer waited for was reported as the limit, although the readers
    /// scaled.
    #[test]
    fn a_lock_that_readers_hold_together_limits_nothing_by_its_waits_alone() {
        let section = Section { count: 1000, threads: 2, mode: Mode::Read, ..Section::default() };
        let behaviour =
            Behaviour { sections: vec![section], threads: 2, cpus: 2, ..Behaviour::default() };
        let process = Process { seconds: 1.0, ..Process::default() };
        let text = limit(&behaviour, &process, &[&lock("graph", 0.5)]);
        assert!(text.starts_with("Threads spent 25 % of their time waiting for `graph`"), "{text}");
        assert!(!text.contains("limits the program:"), "{text}");
    }
}
