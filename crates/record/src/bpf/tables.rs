//! Data that the programs in the kernel count, as 64-bit words in maps of fixed sizes. Entries that
//! do not fit are counted as lost.

use convoy_os::bpf::{Map, MapKind};
use std::io;

use crate::layout::{BUCKETS, least};
use crate::record::Times;

/// Maximum number of threads that can be followed at the same time.
const THREADS: u32 = 32_768;
/// Maximum number of processes that can be followed.
const PROCESSES: u32 = 16_384;
/// Maximum number of pairs of a place and a word that threads wait for.
const WAITS: u32 = 8_192;
/// Maximum number of words that they wait for.
const WORDS: u32 = 16_384;
/// Maximum number of pairs of a process and a place in the kernel where its threads wait.
const LOCKS: u32 = 8_192;
/// Maximum number of distinct stacks of programs; the same applies to the kernel.
const STACKS: u32 = 16_384;
/// Maximum number of copies of stack memory, for programs without frame pointers.
const PIECES: u32 = 4_096;
/// Number of words with a bit for each thread ID: the kernel has at most 2^22.
pub(super) const PASSED: u32 = 1 << 16;
/// Maximum number of frames of a stack.
pub(super) const FRAMES: usize = 32;
/// Size of a copy of stack memory, in bytes.
pub(super) const PIECE: usize = 2048;

/// A thread.
pub(super) mod thread {
    /// Its process.
    pub(crate) const PROCESS: usize = 0;
    /// When its wait in futex(2) began; 0 if it is not in one.
    pub(crate) const SINCE: usize = 1;
    /// The word that it waits for.
    pub(crate) const WORD: usize = 2;
    /// The stack of the wait.
    pub(crate) const STACK: usize = 3;
    /// [`RUNNABLE`] at that time.
    pub(crate) const RUNNABLE_THEN: usize = 4;
    /// The word of its last wait, which it may own.
    pub(crate) const HELD: usize = 5;
    /// Since when it has owned the word; 0 if it has released it.
    pub(crate) const HELD_SINCE: usize = 6;
    /// The stack of that wait.
    pub(crate) const HELD_STACK: usize = 7;
    /// [`PREEMPTED`] at the start of the hold.
    pub(crate) const HELD_PREEMPTED: usize = 8;
    /// [`BLOCKED`] at the start of the hold.
    pub(crate) const HELD_BLOCKED: usize = 9;
    /// [`RUNNABLE`] at the start of the hold.
    pub(crate) const HELD_RUNNABLE: usize = 10;
    /// A wait for a kernel lock: see [`super::waiting`].
    pub(crate) const SLEEPS: usize = 11;
    /// A wait for a spinlock, which may occur during the other wait.
    pub(crate) const SPINS: usize = 16;
    /// When it lost its CPU; 0 if it has one, or if this is unknown. As the times below, it is
    /// weighted if its events are frequent.
    pub(crate) const OFF: usize = 21;
    /// Whether it was runnable then.
    pub(crate) const WAS_RUNNABLE: usize = 22;
    /// When it was woken since then; 0 if it was not.
    pub(crate) const WOKEN: usize = 23;
    /// Time that it waited for a CPU after it had lost one, in nanoseconds.
    pub(crate) const PREEMPTED: usize = 24;
    /// Time asleep.
    pub(crate) const BLOCKED: usize = 25;
    /// Time from wakeups until it got a CPU.
    pub(crate) const RUNNABLE: usize = 26;
    /// Since when it has been running; 0 if unknown.
    pub(crate) const ON: usize = 27;
    /// Time on CPUs.
    pub(crate) const CPU: usize = 28;
    /// Number of times that it lost its CPU.
    pub(crate) const PREEMPTIONS: usize = 29;
    /// Number of times that it went to sleep.
    pub(crate) const SLEEPS_COUNT: usize = 30;
    /// Time asleep in its last call, with the waits for a CPU after it, in nanoseconds; the end of
    /// that; and its time on CPUs then.
    pub(crate) const SLEPT: usize = 31;
    pub(crate) const SLEPT_END: usize = 32;
    pub(crate) const SLEPT_CPU: usize = 33;
    /// Time that reading its stacks in the kernel took, in nanoseconds, and the waits that one of
    /// them represents, less one.
    pub(crate) const STACKS_TOOK: usize = 34;
    pub(crate) const LEFT_OUT: usize = 35;
    /// How its wait in futex(2) ends.
    pub(crate) const ENDED_BY: usize = 36;
    /// The stack pointer at the start of the wait.
    pub(crate) const POINTER: usize = 37;
    /// The window of its last event, if its events are frequent.
    pub(crate) const EPOCH: usize = 38;
    /// The weight of its wait in futex(2).
    pub(crate) const WEIGHT: usize = 39;
    /// The kernel's number of its switches when it fell asleep.
    pub(crate) const SWITCHES: usize = 40;
    /// When it lost its CPU, in time that is not weighted.
    pub(crate) const OFF_AT: usize = 41;
    /// Whether its events are so frequent that they are recorded in windows only.
    pub(crate) const FREQUENT: usize = 42;
    /// The last period in which it lost its CPU, and how often it did so in it.
    pub(crate) const PERIOD: usize = 43;
    pub(crate) const IN_PERIOD: usize = 44;
    pub(crate) const WORDS: usize = 45;
}

/// A wait for a kernel lock.
pub(super) mod waiting {
    pub(crate) const SINCE: usize = 0;
    pub(crate) const LOCK: usize = 1;
    /// Flags of the lock from the tracepoint.
    pub(crate) const FLAGS: usize = 2;
    pub(crate) const RUNNABLE_THEN: usize = 3;
    /// 0: the owner is unknown; 1: it was running; 2: it was not.
    pub(crate) const OWNER: usize = 4;
}

/// A process.
pub(super) mod process {
    pub(crate) const PARENT: usize = 0;
    pub(crate) const BEGIN: usize = 1;
    /// 0 if it has not ended.
    pub(crate) const END: usize = 2;
    pub(crate) const THREADS: usize = 3;
    pub(crate) const ALIVE: usize = 4;
    /// Number of programs that it has executed.
    pub(crate) const PROGRAMS: usize = 5;
    /// Sums over threads that have exited: preempted, blocked, runnable, running.
    pub(crate) const PREEMPTED: usize = 6;
    pub(crate) const BLOCKED: usize = 7;
    pub(crate) const RUNNABLE: usize = 8;
    pub(crate) const CPU: usize = 9;
    pub(crate) const PREEMPTIONS: usize = 10;
    pub(crate) const SLEEPS: usize = 11;
    /// Wakeups of its threads by another process, the sleep time that these ended, and its wakeups
    /// of threads of other processes.
    pub(crate) const BY_OTHERS: usize = 12;
    pub(crate) const ASLEEP_BY_OTHERS: usize = 13;
    pub(crate) const WAKES_OTHERS: usize = 14;
    pub(crate) const WORDS: usize = 15;
}

/// A distribution within a value: three words here, and its buckets at the end of the value.
pub(super) mod times {
    pub(crate) const COUNT: usize = 0;
    pub(crate) const TOTAL: usize = 1;
    pub(crate) const MOST: usize = 2;
}

/// Waits for a word from a place.
pub(super) mod wait {
    use super::BUCKETS;
    /// Distribution.
    pub(crate) const TIMES: usize = 0;
    pub(crate) const FAILED: usize = 3;
    /// Time from wakeups until the threads got a CPU.
    pub(crate) const RUNNABLE: usize = 4;
    /// The threads, with one bit for each thread ID.
    pub(crate) const THREADS: usize = 5;
    pub(crate) const BUCKETS_AT: usize = 9;
    /// Distribution of holds in which the owner kept its CPU.
    pub(crate) const HOLD_ON: usize = BUCKETS_AT + BUCKETS;
    /// Distribution of holds in which the owner lost its CPU.
    pub(crate) const HOLD_OFF: usize = HOLD_ON + 3;
    /// Time in these holds: preempted, asleep, and woken but waiting for a CPU.
    pub(crate) const PREEMPTED: usize = HOLD_OFF + 3;
    pub(crate) const BLOCKED: usize = PREEMPTED + 1;
    pub(crate) const HELD_RUNNABLE: usize = PREEMPTED + 2;
    pub(crate) const HOLD_BUCKETS: usize = PREEMPTED + 3;
    pub(crate) const WORDS: usize = HOLD_BUCKETS + BUCKETS;
}

/// Releases of a word to a waiting goroutine, by stack.
pub(super) mod giver {
    /// Distribution, without buckets, of the time since the previous release or since the wait
    /// began, multiplied by the number of waiting goroutines.
    pub(crate) const TIMES: usize = 0;
    /// The part of it in which the releasing thread slept.
    pub(crate) const SLEPT: usize = 3;
    pub(crate) const WORDS: usize = 4;
}

/// A word.
pub(super) mod word {
    /// Number of times that a thread which had also waited for it woke another one; and number of
    /// times that other threads woke a waiter, or that all were woken.
    pub(crate) const OWN: usize = 0;
    pub(crate) const OTHER: usize = 1;
    pub(crate) const WAITERS: usize = 2;
    pub(crate) const MOST: usize = 3;
    pub(crate) const SINCE: usize = 4;
    pub(crate) const TOTAL: usize = 5;
    pub(crate) const LONGEST: usize = 6;
    pub(crate) const LONGEST_AT: usize = 7;
    /// The threads that have waited, with one bit for each thread ID.
    pub(crate) const THREADS: usize = 8;
    /// When it was released to a waiting goroutine.
    pub(crate) const RELEASED: usize = 12;
    pub(crate) const WORDS: usize = 13;
}

/// Waits for a lock of the kernel from a place.
pub(super) mod lock {
    use super::BUCKETS;
    /// Distribution.
    pub(crate) const TIMES: usize = 0;
    pub(crate) const RUNNABLE: usize = 3;
    /// Time of waits for a known owner, and the part with that owner off CPU at the start of the
    /// wait.
    pub(crate) const OWNED: usize = 4;
    pub(crate) const OFF: usize = 5;
    /// Address of the first of these locks, and whether there are others.
    pub(crate) const ADDRESS: usize = 6;
    pub(crate) const MANY: usize = 7;
    pub(crate) const THREADS: usize = 8;
    pub(crate) const BUCKETS_AT: usize = 12;
    pub(crate) const WORDS: usize = BUCKETS_AT + BUCKETS;
}

/// The window in which events are recorded: see [`super::gate`].
pub(super) mod gate {
    /// Its number.
    pub(crate) const EPOCH: usize = 0;
    /// Its start and end.
    pub(crate) const OPEN: usize = 1;
    pub(crate) const UNTIL: usize = 2;
    pub(crate) const WEIGHT: usize = 3;
    /// Weighted time at its start.
    pub(crate) const BASE: usize = 4;
    /// The end of the previous window.
    pub(crate) const PREVIOUS: usize = 5;
    /// One of the constants below.
    pub(crate) const STATE: usize = 6;
    pub(crate) const WORDS: usize = 7;
    /// All events are recorded.
    pub(crate) const ALL: u64 = 0;
    /// Frequent events are recorded, too, since this is a window.
    pub(crate) const WINDOW: u64 = 1;
    /// Frequent events are not recorded.
    pub(crate) const BETWEEN: u64 = 2;
}

/// What the events of a CPU cost.
pub(super) mod load {
    /// Switches and wakeups.
    pub(crate) const EVENTS: usize = 0;
    /// Passages of probes.
    pub(crate) const PROBES: usize = 1;
    /// Weighted time of its threads, in nanoseconds.
    pub(crate) const CPU: usize = 2;
    /// Waits in futex(2).
    pub(crate) const WAITS: usize = 3;
    pub(crate) const WORDS: usize = 4;
}

/// Numbers of lost entries.
pub(super) mod lost {
    pub(crate) const THREADS: usize = 0;
    pub(crate) const PROCESSES: usize = 1;
    pub(crate) const WAITS: usize = 2;
    pub(crate) const LOCKS: usize = 3;
    pub(crate) const STACKS: usize = 4;
    pub(crate) const WORDS: usize = 5;
    pub(crate) const NESTED: usize = 6;
    pub(crate) const COUNT: usize = 7;
}

/// Size of a key in bytes. Key of a wait: process and stack, word. Key of a lock: process and
/// flags, stack.
pub(super) const KEY: usize = 16;

/// The maps.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) threads: Map,
    pub(super) processes: Map,
    /// Goroutines, each with the value of a thread.
    pub(super) goroutines: Map,
    pub(super) waits: Map,
    pub(super) words: Map,
    /// Stacks that released a word of Go to waiting goroutines: see [`giver`].
    pub(super) givers: Map,
    pub(super) locks: Map,
    pub(super) stacks: Map,
    pub(super) kernel_stacks: Map,
    pub(super) pieces: Map,
    /// Memory in which a copy of a stack is assembled.
    pub(super) room: Map,
    /// A value of zeros, for new entries.
    pub(super) zeros: Map,
    pub(super) lost: Map,
    /// See [`gate`].
    pub(super) gate: Map,
    /// See [`load`].
    pub(super) load: Map,
    /// A bit for each thread ID; set if its events are not recorded between windows.
    pub(super) passed: Map,
}

impl Tables {
    pub(super) fn new() -> io::Result<Self> {
        fn hash(name: &str, key: usize, words: usize, entries: u32) -> Result<Map, io::Error> {
            Map::new(name, MapKind::Hash, key, words * 8, entries)
        }
        let stacks = |name| Map::new(name, MapKind::Stacks, 4, FRAMES * 8, STACKS);
        let most = wait::WORDS.max(lock::WORDS);
        Ok(Self {
            threads: hash("threads", 4, thread::WORDS, THREADS)?,
            processes: hash("processes", 4, process::WORDS, PROCESSES)?,
            goroutines: hash("goroutines", KEY, thread::WORDS, THREADS)?,
            waits: hash("waits", KEY, wait::WORDS, WAITS)?,
            words: hash("words", KEY, word::WORDS, WORDS)?,
            givers: hash("givers", KEY, giver::WORDS, WAITS)?,
            locks: hash("locks", KEY, lock::WORDS, LOCKS)?,
            stacks: stacks("stacks")?,
            kernel_stacks: stacks("kernel_stacks")?,
            pieces: hash("pieces", KEY, 2 + PIECE / 8, PIECES)?,
            room: Map::new("room", MapKind::PerCpuArray, 4, 16 + PIECE, 1)?,
            zeros: Map::new("zeros", MapKind::Array, 4, most * 8, 1)?,
            lost: Map::new("lost", MapKind::Array, 4, lost::COUNT * 8, 1)?,
            gate: Map::new("gate", MapKind::Array, 4, gate::WORDS * 8, 1)?,
            load: Map::new("load", MapKind::PerCpuArray, 4, load::WORDS * 8, 1)?,
            passed: Map::new("passed", MapKind::Array, 4, 8, PASSED)?,
        })
    }

    /// Returns the numbers of lost entries, indexed by [`lost`].
    pub(super) fn losses(&self) -> Vec<u64> {
        let value = self.lost.get(&0_u32.to_le_bytes()).ok().flatten();
        value.map_or_else(|| vec![0; lost::COUNT], |value| words(&value))
    }

    /// Returns the addresses of a stack, innermost first.
    pub(super) fn stack(map: &Map, number: u32) -> Vec<u64> {
        let value = map.get(&number.to_le_bytes()).ok().flatten().unwrap_or_default();
        words(&value).into_iter().take_while(|address| *address != 0).collect()
    }
}

/// Returns all entries of a map.
pub(super) fn all(map: &Map) -> impl Iterator<Item = (Vec<u8>, Vec<u64>)> {
    let value = |key: Vec<u8>| map.get(&key).ok().flatten().map(|value| (key, words(&value)));
    map.keys().into_iter().filter_map(value)
}

/// Returns the words of a value.
pub(super) fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// Returns the value with these words.
pub(super) fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns a 32-bit number in a key.
pub(super) fn half(key: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(key[4 * at..4 * at + 4].try_into().expect("four bytes"))
}

/// Returns the number of threads that have set their bit.
pub(super) fn threads(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Returns a distribution with its buckets at `buckets`. The buckets are in nanoseconds.
pub(super) fn times(value: &[u64], at: usize, buckets: Option<usize>) -> Times {
    let counts = buckets.map_or(&[][..], |first| &value[first..first + BUCKETS]);
    let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let count = value[at + times::COUNT];
    let total_s = value[at + times::TOTAL] as f64 / 1e9;
    let buckets: Vec<(f64, u64)> =
        filled.map(|(bucket, count)| (least(bucket) as f64, *count)).collect();
    Times { count, total_s, max_s: value[at + times::MOST] as f64 / 1e9, buckets }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::bucket;

    #[test]
    fn values_are_read_as_programs_leave_them() {
        let mut value = vec![0; wait::WORDS];
        for ns in [100, 3000, 3000] {
            value[wait::TIMES + times::COUNT] += 1;
            value[wait::TIMES + times::TOTAL] += ns;
            value[wait::TIMES + times::MOST] = ns;
            value[wait::BUCKETS_AT + bucket(ns)] += 1;
        }
        value[wait::THREADS] = 0b101;
        value[wait::THREADS + 3] = 1 << 63;
        let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_le_bytes()).collect();
        let value = words(&bytes);
        let found = times(&value, wait::TIMES, Some(wait::BUCKETS_AT));
        assert_eq!((found.count, found.buckets), (3, vec![(96.0, 1), (2048.0, 2)]));
        assert!((found.total_s - 6.1e-6).abs() < 1e-15 && (found.max_s - 3e-6).abs() < 1e-15);
        assert_eq!(threads(&value[wait::THREADS..][..4]), 3);
        let hold = times(&value, wait::HOLD_ON, Some(wait::HOLD_BUCKETS));
        assert_eq!(hold, Times::default());
        assert_eq!(half(&[1, 0, 0, 0, 2, 1, 0, 0], 1), 258);
    }
}
