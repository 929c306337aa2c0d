//! Counts of the observations of a running process, and their differences: what happened between
//! two moments.

use std::collections::BTreeMap;

use crate::names::stacks::Stacks;
use crate::record::origin::Origin;
use crate::record::{Kind, Site, Times, Waiters};
use crate::sampling::syscall_file::{Asks, Call};

/// A wait for a word, identified by the stack words that point into code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) word: u64,
    pub(crate) asks: Asks,
    /// Address after the system call.
    pub(crate) code: u64,
    pub(crate) codes: Vec<u64>,
}

/// A place with its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Called {
    pub(crate) word: u64,
    pub(crate) kind: Kind,
    pub(crate) act: &'static str,
    pub(crate) place: String,
    pub(crate) origin: Origin,
    /// The libc function that this lock is internal to.
    pub(crate) runtime: String,
}

/// Names of the places of a process, which take long to find.
#[derive(Default)]
pub(crate) struct Named {
    /// The memory map that the names are from.
    pub(crate) maps: String,
    pub(crate) stacks: Option<Stacks>,
    /// Places of waits, in the order of [`Counts::sites`]; `None` for the exit of a thread.
    pub(crate) called: Vec<Option<Called>>,
    /// Places where owners slept, by the index of their stack words.
    pub(crate) sleeps: BTreeMap<usize, Option<String>>,
    /// Names of locks at the time of the last naming, by word.
    pub(crate) locks: BTreeMap<u64, (String, Kind)>,
}

/// Activity of the owner of a word while a thread waited at a place: the place, the owner's system
/// call (`None` if it was running), and the index of its stack words.
pub(crate) type Owned = (usize, Option<i64>, Option<usize>);

/// A wait that has not ended: thread, place, seconds waited so far, and the owner (0 if unknown).
pub(crate) type Unfinished = (u64, usize, f64, u64);

/// Observed state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stay {
    /// It runs, or could run if it had a CPU.
    Runs,
    /// It sleeps outside of system calls.
    Faults,
    /// It sleeps in the system call of this number.
    Sleeps(i64),
    /// It waits at the place with this index.
    Waits(usize),
}

impl Stay {
    /// Returns the state of a thread in a call, at a place if it waits for a word there. `None` if
    /// the thread has ended.
    pub(crate) fn of(call: Option<Call>, place: Option<usize>) -> Option<Self> {
        Some(match (call?, place) {
            (_, Some(place)) => Self::Waits(place),
            (Call::Running, None) => Self::Runs,
            (Call::Faulting, None) => Self::Faults,
            (Call::Asleep { number, .. }, None) => Self::Sleeps(number),
        })
    }
}

#[derive(Clone, Default)]
pub(crate) struct Word {
    pub(crate) waiters: Waiters,
    /// Start of the current period with waiting threads, and when it was last observed, in seconds.
    pub(crate) since: Option<(f64, f64)>,
    /// Time that its owner ran, and time that it did not, while others waited, in seconds.
    pub(crate) held: [f64; 2],
}

impl Word {
    pub(crate) fn wait(&mut self, now: f64, span: f64, count: u64) {
        let (since, _) = *self.since.get_or_insert((now - span, now));
        self.since = Some((since, now));
        self.waiters.seconds += span;
        self.waiters.most = self.waiters.most.max(count);
        if now - since > self.waiters.longest_s {
            self.waiters.longest_s = now - since;
            self.waiters.longest_at_s = since.max(0.0);
        }
    }

    fn since(&self, then: &Self) -> Self {
        let seconds = (self.waiters.seconds - then.waiters.seconds).max(0.0);
        // A period that began earlier is as long as the part of it in this time.
        let longest_s = self.waiters.longest_s.min(seconds);
        Self {
            waiters: Waiters { seconds, longest_s, ..self.waiters },
            since: self.since,
            held: [0, 1].map(|at| (self.held[at] - then.held[at]).max(0.0)),
        }
    }
}

/// Counts of the observations of a process since it was attached.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    /// Number of samples of all threads.
    pub(crate) rounds: u64,
    /// CPU time of the process until the last listing of its threads, in seconds.
    pub(crate) cpu_s: f64,
    /// Waits by place.
    pub(crate) sites: Vec<Site>,
    pub(crate) words: BTreeMap<u64, Word>,
    pub(crate) owned: BTreeMap<Owned, u64>,
    /// Number of samples in which a thread owned a word that others waited for.
    pub(crate) owners: BTreeMap<(u64, u32), u64>,
    /// Number of samples of threads in each state.
    pub(crate) stays: BTreeMap<Stay, u64>,
}

/// The counts at a moment, with the waits that had not ended.
#[derive(Clone, Default)]
pub(crate) struct Moment {
    pub(crate) counts: Counts,
    pub(crate) waiting: Vec<Unfinished>,
    /// Time since the process was attached, in seconds.
    pub(crate) at_s: f64,
}

impl Moment {
    /// Returns the counts between an earlier moment and this one. A wait counts if a part of it is
    /// in this time, with the time of that part; its length in the distribution is its whole length
    /// so far.
    pub(crate) fn since(&self, then: &Self) -> Counts {
        let none = Site::default();
        let mut sites: Vec<Site> = Vec::with_capacity(self.counts.sites.len());
        for (place, now) in self.counts.sites.iter().enumerate() {
            let before = &then.counts.sites.get(place).unwrap_or(&none).wait;
            let is_same = now.wait.count == before.count;
            let wait = if is_same { Times::default() } else { now.wait.since(before) };
            sites.push(Site { wait, threads: now.threads, ..Site::default() });
        }
        for &(_, place, seconds, _) in &self.waiting {
            sites[place].wait.seen(seconds);
        }
        for &(_, place, seconds, _) in &then.waiting {
            let total_s = &mut sites[place].wait.total_s;
            *total_s = (*total_s - seconds).max(0.0);
        }
        let word = Word::default();
        let words = self.counts.words.iter();
        let words =
            words.map(|(key, now)| (*key, now.since(then.counts.words.get(key).unwrap_or(&word))));
        Counts {
            rounds: self.counts.rounds.saturating_sub(then.counts.rounds),
            cpu_s: (self.counts.cpu_s - then.counts.cpu_s).max(0.0),
            sites,
            words: words.collect(),
            owned: differences(&self.counts.owned, &then.counts.owned),
            owners: differences(&self.counts.owners, &then.counts.owners),
            stays: differences(&self.counts.stays, &then.counts.stays),
        }
    }
}

/// Returns the growth of each count; counts that did not grow are left out.
fn differences<K: Copy + Ord>(now: &BTreeMap<K, u64>, then: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let grown = now.iter().filter_map(|(key, count)| {
        let grown = count.saturating_sub(then.get(key).copied().unwrap_or(0));
        (grown > 0).then_some((*key, grown))
    });
    grown.collect()
}

impl Times {
    /// Adds a wait that was seen for this many seconds.
    pub(crate) fn seen(&mut self, seconds: f64) {
        let ns = seconds * 1e9;
        let least = if ns < 1.0 { 0.0 } else { f64::powi(2.0, ns.log2().floor() as i32) };
        self.add(&Self { count: 1, total_s: seconds, max_s: seconds, buckets: vec![(least, 1)] });
    }

    /// Returns the times that were added after `then`, an earlier state of this distribution. The
    /// maximum is exact if it is the maximum of all, and the lower bound of its bucket otherwise.
    pub(crate) fn since(&self, then: &Self) -> Self {
        let before: BTreeMap<u64, u64> =
            then.buckets.iter().map(|(least, count)| (least.to_bits(), *count)).collect();
        let grown = self.buckets.iter().filter_map(|(least, count)| {
            let grown = count.saturating_sub(before.get(&least.to_bits()).copied().unwrap_or(0));
            (grown > 0).then_some((*least, grown))
        });
        let buckets: Vec<(f64, u64)> = grown.collect();
        let longest_s = buckets.last().map_or(0.0, |(least, _)| least / 1e9);
        Self {
            count: self.count.saturating_sub(then.count),
            total_s: (self.total_s - then.total_s).max(0.0),
            max_s: if self.max_s > then.max_s { self.max_s } else { longest_s },
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_belongs_to_the_power_of_two_below_it() {
        let mut times = Times::default();
        times.seen(3e-3);
        times.seen(3e-3);
        assert_eq!(times.buckets, [(2_097_152.0, 2)]);
        assert!((times.total_s - 6e-3).abs() < 1e-12 && times.count == 2);
    }

    fn site(waits_s: &[f64]) -> Site {
        let mut site = Site { threads: 3, ..Site::default() };
        for wait_s in waits_s {
            site.wait.seen(*wait_s);
        }
        site
    }

    fn moment(waits_s: &[f64], waiting: &[Unfinished], rounds: u64) -> Moment {
        let counts = Counts { rounds, sites: vec![site(waits_s)], ..Counts::default() };
        Moment { counts, waiting: waiting.to_vec(), at_s: 0.0 }
    }

    #[test]
    fn a_window_has_the_parts_of_waits_that_are_in_it() {
        // A wait of 3 s, of which 2 s had passed, and a new one that has not ended.
        let then = moment(&[0.5, 0.25], &[(7, 0, 2.0, 0)], 10);
        let now = moment(&[0.5, 0.25, 3.0], &[(8, 0, 0.75, 7)], 25);
        let window = now.since(&then);
        let wait = &window.sites[0].wait;
        assert_eq!((window.rounds, wait.count), (15, 2));
        assert!((wait.total_s - 1.75).abs() < 1e-9, "{wait:?}");
        assert!((wait.max_s - 3.0).abs() < 1e-9, "{wait:?}");
        assert_eq!(wait.buckets.iter().map(|bucket| bucket.1).sum::<u64>(), 2);
        assert_eq!(window.sites[0].threads, 3);
    }

    #[test]
    fn a_wait_through_the_whole_window_counts_once_in_it() {
        let then = moment(&[], &[(7, 0, 2.0, 0)], 10);
        let now = moment(&[], &[(7, 0, 3.0, 0)], 20);
        let wait = &now.since(&then).sites[0].wait;
        assert!(wait.count == 1 && (wait.total_s - 1.0).abs() < 1e-9, "{wait:?}");
    }

    #[test]
    fn a_place_that_is_new_has_all_of_its_waits_in_the_window() {
        let then = Moment::default();
        let now = moment(&[0.5], &[], 4);
        assert_eq!(now.since(&then).sites[0].wait, now.counts.sites[0].wait);
        assert!(now.since(&now).sites[0].wait.is_empty());
    }

    #[test]
    fn the_longest_wait_of_a_window_is_not_that_of_the_past() {
        let then = site(&[8.0]).wait;
        let now = site(&[8.0, 0.5]).wait;
        let max_s = now.since(&then).max_s;
        assert!(max_s > 0.25 && max_s <= 0.5, "{max_s}");
    }

    #[test]
    fn a_period_with_waiters_that_began_earlier_has_its_part_in_the_window() {
        let mut word = Word::default();
        word.wait(1.0, 1.0, 2);
        let then = word.clone();
        word.wait(1.5, 0.5, 4);
        word.held = [0.25, 1.0];
        let window = word.since(&then);
        assert!((window.waiters.seconds - 0.5).abs() < 1e-9);
        assert!((window.waiters.longest_s - 0.5).abs() < 1e-9);
        assert_eq!(window.held.map(|held| held > 0.0), [true, true]);
    }

    #[test]
    fn states_that_no_thread_entered_are_left_out() {
        let then = BTreeMap::from([(Stay::Runs, 4), (Stay::Sleeps(7), 2)]);
        let now = BTreeMap::from([(Stay::Runs, 9), (Stay::Sleeps(7), 2), (Stay::Waits(0), 1)]);
        let grown = differences(&now, &then);
        assert_eq!(grown, BTreeMap::from([(Stay::Runs, 5), (Stay::Waits(0), 1)]));
    }
}
