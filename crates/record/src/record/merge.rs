//! Merges locks that have the same name.

use crate::record::element::Element;
use crate::record::{Lock, Site, Times, Waiters, total};

impl Lock {
    /// Returns whether each hold takes much of a run of this many seconds.
    pub(crate) fn is_for_good(&self, seconds: f64) -> bool {
        /// Minimum mean hold time, as a share of the run.
        const MUCH: f64 = 0.1;
        let mut holds = self.all(|site| &site.hold_on);
        holds.add(&self.all(|site| &site.hold_off));
        holds.mean_s() > MUCH * seconds
    }

    /// Adds the numbers of another lock with the same name.
    pub fn join(&mut self, other: Self) {
        self.instances = total([self.instances, other.instances]);
        self.waiters.add(&other.waiters);
        self.given_by_owner = total([self.given_by_owner, other.given_by_owner]);
        self.given_by_others = total([self.given_by_others, other.given_by_others]);
        self.held_for_good |= other.held_for_good;
        self.owners_known_s += other.owners_known_s;
        self.owners_off_s += other.owners_off_s;
        if let Some(held) = &other.held {
            self.held.get_or_insert_default().add(held);
        }
        for site in other.sites {
            match self.sites.iter_mut().find(|one| one.place == site.place && one.act == site.act) {
                Some(known) => known.add(&site),
                None => self.sites.push(site),
            }
        }
        self.elements.extend(other.elements);
    }
}

impl Site {
    /// Adds the numbers of the same place with another lock or in another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count = total([self.count, other.count]);
        self.contended = total([self.contended, other.contended]);
        self.failed = total([self.failed, other.failed]);
        self.threads = total([self.threads, other.threads]);
        self.by_waiters = total([self.by_waiters, other.by_waiters]);
        self.regulars = total([self.regulars, other.regulars]);
        self.hold_on.add(&other.hold_on);
        self.hold_off.add(&other.hold_off);
        self.wait.add(&other.wait);
        self.think_on.add(&other.think_on);
        self.think_off.add(&other.think_off);
        self.handoff.add(&other.handoff);
        self.acquire.add(&other.acquire);
        self.futile = total([self.futile, other.futile]);
        self.returned = total([self.returned, other.returned]);
        self.passed = total([self.passed, other.passed]);
        for stack in &other.stacks {
            match self.stacks.iter_mut().find(|one| one.callers == stack.callers) {
                Some(known) => {
                    known.wait_s += stack.wait_s;
                    known.threads.extend(&stack.threads);
                }
                None => self.stacks.push(stack.clone()),
            }
        }
    }
}

impl Site {
    /// Adds the numbers of the same place under another call stack of the same threads.
    pub(crate) fn add_stack(&mut self, other: &Self) {
        let threads = self.threads.max(other.threads);
        self.add(other);
        self.threads = threads;
    }
}

impl Waiters {
    pub(crate) fn add(&mut self, other: &Self) {
        if other.longest_s > self.longest_s {
            (self.longest_s, self.longest_at_s) = (other.longest_s, other.longest_at_s);
        }
        self.seconds += other.seconds;
        self.most = self.most.max(other.most);
    }
}

/// Sorts locks and their sites by wait time, longest first.
pub(crate) fn sorted(mut locks: Vec<Lock>) -> Vec<Lock> {
    for lock in &mut locks {
        lock.sites
            .sort_by(|a, b| b.wait.total_s.total_cmp(&a.wait.total_s).then(b.count.cmp(&a.count)));
        for site in &mut lock.sites {
            site.stacks.retain(|stack| !stack.callers.is_empty());
            site.stacks.sort_by(|a, b| b.wait_s.total_cmp(&a.wait_s));
            site.stacks.truncate(STACKS);
            site.stacks.iter_mut().for_each(|stack| stack.threads.truncate(STACK_THREADS));
        }
        Element::keep(&mut lock.elements);
    }
    locks.sort_by(|a, b| b.wait_s().total_cmp(&a.wait_s()).then(b.count().cmp(&a.count())));
    locks.iter_mut().skip(WHOLE).flat_map(|lock| &mut lock.sites).for_each(Site::coarsen);
    locks
}

/// Number of locks of a process that keep their whole distributions: ten thousand of them would
/// make a record too long.
const WHOLE: usize = 1000;
/// Maximum number of call stacks of a site, and of threads that are known of each.
const STACKS: usize = 16;
const STACK_THREADS: usize = 64;
/// Maximum number of buckets in the distributions of the other locks.
const COARSE: usize = 8;

impl Site {
    /// Makes the buckets of its distributions fewer and wider.
    fn coarsen(&mut self) {
        let Self { hold_on, hold_off, wait, think_on, think_off, handoff, acquire, .. } = self;
        for times in [hold_on, hold_off, wait, think_on, think_off, handoff, acquire] {
            times.coarsen();
        }
    }
}

impl Times {
    fn coarsen(&mut self) {
        while self.buckets.len() > COARSE {
            let pairs = self.buckets.chunks(2);
            let joined = pairs.map(|pair| (pair[0].0, total(pair.iter().map(|one| one.1))));
            self.buckets = joined.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Process, Record};

    /// All distributions have every bucket that an hour fills.
    fn lock(at: u64) -> Lock {
        let buckets: Vec<(f64, u64)> =
            (0..45).map(|bucket| (f64::from(bucket) * 1234.5, 100_000 + at)).collect();
        let count = buckets.iter().map(|bucket| bucket.1).sum();
        let times = || Times { count, total_s: 12.345, max_s: 0.123_456, buckets: buckets.clone() };
        let site = Site {
            place: "a_function_that_works (file.c:123)".to_owned(),
            act: "lock".to_owned(),
            count,
            threads: 1000,
            hold_on: times(),
            hold_off: times(),
            wait: times(),
            think_on: times(),
            think_off: times(),
            handoff: times(),
            acquire: times(),
            ..Site::default()
        };
        Lock { name: format!("locks+{at:#x}"), instances: 1, sites: vec![site], ..Lock::default() }
    }

    #[test]
    fn ten_thousand_locks_of_an_hour_fit_into_twenty_megabytes() {
        let locks = sorted((0..10_000).map(lock).collect());
        let sum = |lock: &Lock| total(lock.sites[0].wait.buckets.iter().map(|one| one.1));
        assert_eq!(locks[0].sites[0].wait.buckets.len(), 45);
        let last = locks.last().expect("there are many");
        assert!(last.sites[0].wait.buckets.len() <= COARSE);
        assert_eq!(sum(last), last.sites[0].wait.count, "no wait is lost");
        let processes = vec![Process { locks, ..Process::default() }];
        let text = serde_json::to_string(&Record { processes, ..Record::default() });
        let bytes = text.expect("it is text").len();
        assert!(bytes < 20_000_000, "{bytes} bytes");
    }
}
