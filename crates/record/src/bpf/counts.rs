//! The values of the maps at a moment, and the differences of two moments.

use std::collections::BTreeMap;

use super::programs::SUMS;
use super::tables::{Tables, all, bytes, giver, half, lock, process, thread, times, wait, word};
use crate::layout::{BUCKETS, bucket, least};

pub(super) type Entries = BTreeMap<Vec<u8>, Vec<u64>>;

/// A wait that has not ended: its key in the waits, the thread, and the time so far.
#[derive(Clone)]
struct Unfinished {
    place: Vec<u8>,
    thread: u32,
    ns: u64,
    /// The number of waits that it represents.
    weight: u64,
}

/// The values of the maps that count, at a moment.
#[derive(Clone, Default)]
pub(super) struct Counts {
    pub(super) processes: Entries,
    pub(super) waits: Entries,
    pub(super) words: Entries,
    pub(super) givers: Entries,
    pub(super) locks: Entries,
    unfinished: Vec<Unfinished>,
}

impl Counts {
    /// Reads the maps. Sums of running threads and times with waiters include those until now.
    pub(super) fn read(tables: &Tables, now_ns: u64) -> Self {
        let mut counts = Self {
            processes: all(&tables.processes).collect(),
            waits: all(&tables.waits).collect(),
            words: all(&tables.words).collect(),
            givers: all(&tables.givers).collect(),
            locks: all(&tables.locks).collect(),
            unfinished: Vec::new(),
        };
        for (key, value) in all(&tables.threads) {
            counts.add_thread(half(&key, 0), &value, now_ns);
        }
        for (key, value) in &mut counts.words {
            // No thread waits after the end of its process.
            let ended_ns = counts.processes.get(&key[..4]).map_or(0, |sums| sums[process::END]);
            let end_ns = if ended_ns == 0 { now_ns } else { ended_ns.min(now_ns) };
            let (waiters, since) = (value[word::WAITERS] as i64, value[word::SINCE]);
            if waiters > 0 && (1..end_ns).contains(&since) {
                let ns = end_ns - since;
                value[word::TOTAL] += ns;
                if ns > value[word::LONGEST] {
                    (value[word::LONGEST], value[word::LONGEST_AT]) = (ns, since);
                }
            }
        }
        counts
    }

    /// Adds the sums of a running thread to its process, and its wait that has not ended.
    fn add_thread(&mut self, thread: u32, value: &[u64], now_ns: u64) {
        let number = (value[thread::PROCESS] as u32).to_le_bytes();
        if let Some(sums) = self.processes.get_mut(&number[..]) {
            for (from, to) in SUMS {
                sums[to] += value[from];
            }
        }
        let since = value[thread::SINCE];
        if since != 0 && now_ns > since && still_sleeps(thread, value) {
            let stack = value[thread::STACK] as u32;
            let place = [&number[..], &stack.to_le_bytes(), &bytes(&value[thread::WORD..][..1])];
            let place = place.concat();
            let (ns, weight) = (now_ns - since, value[thread::WEIGHT]);
            self.unfinished.push(Unfinished { place, thread, ns, weight });
        }
    }

    /// Returns the counts since the beginning, with the waits that have not ended.
    pub(super) fn whole(&self) -> Self {
        self.since(&Self::default())
    }

    /// Returns the counts between an earlier moment and this one. A wait counts if a part of it is
    /// in this time, with the time of that part; its length in the distribution is its whole length
    /// so far.
    pub(super) fn since(&self, then: &Self) -> Self {
        let mut counts = Self {
            processes: differences(&self.processes, &then.processes, |at| at >= process::PREEMPTED),
            waits: differences(&self.waits, &then.waits, |at| {
                let is_maximum = [wait::TIMES, wait::HOLD_ON, wait::HOLD_OFF]
                    .iter()
                    .any(|first| at == first + times::MOST);
                !is_maximum && !(wait::THREADS..wait::BUCKETS_AT).contains(&at)
            }),
            words: differences(&self.words, &then.words, |at| {
                [word::OWN, word::OTHER, word::TOTAL].contains(&at)
            }),
            givers: differences(&self.givers, &then.givers, |at| at != giver::TIMES + times::MOST),
            locks: differences(&self.locks, &then.locks, |at| {
                at != lock::TIMES + times::MOST && !(lock::ADDRESS..lock::BUCKETS_AT).contains(&at)
            }),
            unfinished: Vec::new(),
        };
        for (key, value) in &mut counts.waits {
            let before = then.waits.get(key);
            longest(value, before, wait::TIMES, wait::BUCKETS_AT);
        }
        for (key, value) in &mut counts.locks {
            longest(value, then.locks.get(key), lock::TIMES, lock::BUCKETS_AT);
        }
        for value in counts.words.values_mut() {
            value[word::LONGEST] = value[word::LONGEST].min(value[word::TOTAL]);
        }
        for wait in &self.unfinished {
            if let Some(value) = counts.waits.get_mut(&wait.place) {
                value[wait::TIMES + times::COUNT] += wait.weight;
                value[wait::TIMES + times::TOTAL] += wait.ns * wait.weight;
                let most = &mut value[wait::TIMES + times::MOST];
                *most = (*most).max(wait.ns);
                value[wait::BUCKETS_AT + bucket(wait.ns)] += wait.weight;
                value[wait::THREADS + (wait.thread >> 6 & 3) as usize] |= 1 << (wait.thread & 63);
            }
        }
        for wait in &then.unfinished {
            if let Some(value) = counts.waits.get_mut(&wait.place) {
                let total = &mut value[wait::TIMES + times::TOTAL];
                *total = total.saturating_sub(wait.ns * wait.weight);
            }
        }
        counts
    }
}

/// Returns whether a thread that fell asleep sleeps since then. If its events are frequent, it may
/// have run since its last event in a window.
fn still_sleeps(thread: u32, value: &[u64]) -> bool {
    let process = value[thread::PROCESS] as u32;
    value[thread::FREQUENT] == 0 || switches(process, thread) == Some(value[thread::SWITCHES])
}

/// Returns how often a thread that still exists has lost its CPU.
fn switches(process: u32, thread: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).ok()?;
    let counts = status.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    counts.map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// Returns the entries with the growth of the values for which `is_count`, and the last state of
/// the others.
fn differences(now: &Entries, then: &Entries, is_count: impl Fn(usize) -> bool) -> Entries {
    let entry = |(key, value): (&Vec<u8>, &Vec<u64>)| {
        let mut value = value.clone();
        if let Some(before) = then.get(key) {
            for (at, (now, then)) in value.iter_mut().zip(before).enumerate() {
                *now = if is_count(at) { now.saturating_sub(*then) } else { *now };
            }
        }
        (key.clone(), value)
    };
    now.iter().map(entry).collect()
}

/// Sets the maximum of a distribution that has grown since `before`: the maximum of all if it is
/// newer, and otherwise the lower bound of the last bucket.
fn longest(value: &mut [u64], before: Option<&Vec<u64>>, at: usize, buckets: usize) {
    let most = at + times::MOST;
    let is_old = before.is_some_and(|before| before[most] == value[most]);
    if is_old {
        let last = value[buckets..buckets + BUCKETS].iter().rposition(|count| *count > 0);
        value[most] = last.map_or(0, least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: u8 = 7;

    /// Counts with finished waits of one place, and unfinished ones.
    fn counts(waits_ns: &[u64], unfinished_ns: &[u64]) -> Counts {
        let mut value = vec![0; wait::WORDS];
        for ns in waits_ns {
            value[wait::TIMES + times::COUNT] += 1;
            value[wait::TIMES + times::TOTAL] += ns;
            value[wait::TIMES + times::MOST] = value[wait::TIMES + times::MOST].max(*ns);
            value[wait::BUCKETS_AT + bucket(*ns)] += 1;
        }
        let unfinished = unfinished_ns.iter();
        let unfinished =
            unfinished.map(|ns| Unfinished { place: vec![PLACE], thread: 3, ns: *ns, weight: 1 });
        Counts {
            waits: Entries::from([(vec![PLACE], value)]),
            unfinished: unfinished.collect(),
            ..Counts::default()
        }
    }

    #[test]
    fn a_window_has_the_parts_of_waits_that_are_in_it() {
        // A wait of 3 s, of which 2 s had passed, and a new one that has not ended.
        let then = counts(&[500, 8000], &[2000]);
        let now = counts(&[500, 8000, 3000], &[750]);
        let value = &now.since(&then).waits[&vec![PLACE]];
        assert_eq!(value[wait::TIMES..][..2], [2, 1750]);
        assert!((2048..=3000).contains(&value[wait::TIMES + times::MOST]), "{value:?}");
        assert_eq!(value[wait::BUCKETS_AT..][..BUCKETS].iter().sum::<u64>(), 2);
        assert_eq!(value[wait::THREADS], 1 << 3);
        let value = &now.whole().waits[&vec![PLACE]];
        assert_eq!(value[wait::TIMES..][..3], [4, 12_250, 8000]);
    }

    #[test]
    fn properties_of_a_process_are_no_counts() {
        let mut value = vec![9; process::WORDS];
        let then = Entries::from([(vec![1], value.clone())]);
        value[process::CPU] = 30;
        let now = Entries::from([(vec![1], value)]);
        let grown = differences(&now, &then, |at| at >= process::PREEMPTED);
        let value = &grown[&vec![1]];
        assert_eq!(
            [process::THREADS, process::CPU, process::SLEEPS].map(|at| value[at]),
            [9, 21, 0]
        );
    }
}
