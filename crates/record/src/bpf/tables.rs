//! What programs in the kernel count, as words of 64 bits in maps of fixed sizes: what does not fit
//! is counted as lost.

use convoy_host::bpf::{Map, MapKind};
use std::io;

use crate::layout::{BUCKETS, least};
use crate::record::Times;

/// Threads that can be followed at a time.
const THREADS: u32 = 32_768;
/// Processes that can be followed.
const PROCESSES: u32 = 16_384;
/// Pairs of a place and a word that threads wait for.
const WAITS: u32 = 8_192;
/// Words that they wait for.
const WORDS: u32 = 16_384;
/// Places in the kernel that wait, of each process.
const LOCKS: u32 = 8_192;
/// Different stacks of programs, and as many of the kernel.
const STACKS: u32 = 16_384;
/// Pieces of stacks as they lie in memory, for programs without frame pointers.
const PIECES: u32 = 4_096;
/// Frames of a stack.
pub(super) const FRAMES: usize = 32;
/// Bytes of a piece.
pub(super) const PIECE: usize = 2048;

/// A thread.
pub(super) mod thread {
    /// Its process.
    pub(crate) const PROCESS: usize = 0;
    /// Since when it is in futex(2); 0: it is not.
    pub(crate) const SINCE: usize = 1;
    /// For which word.
    pub(crate) const WORD: usize = 2;
    /// From which stack.
    pub(crate) const STACK: usize = 3;
    /// [`RUNNABLE`] then.
    pub(crate) const RUNNABLE_THEN: usize = 4;
    /// The word that it waited for last, which it may own.
    pub(crate) const HELD: usize = 5;
    /// Since when; 0: it has given it up.
    pub(crate) const HELD_SINCE: usize = 6;
    /// From which stack it was waited for.
    pub(crate) const HELD_STACK: usize = 7;
    /// [`PREEMPTED`] then.
    pub(crate) const HELD_PREEMPTED: usize = 8;
    /// [`BLOCKED`] then.
    pub(crate) const HELD_BLOCKED: usize = 9;
    /// [`RUNNABLE`] then.
    pub(crate) const HELD_RUNNABLE: usize = 10;
    /// A wait for a lock of the kernel: see [`super::waiting`].
    pub(crate) const SLEEPS: usize = 11;
    /// One for a spinlock, which may come in the middle of the other.
    pub(crate) const SPINS: usize = 16;
    /// When it lost its CPU; 0: it has one, or nothing is known.
    pub(crate) const OFF: usize = 21;
    /// Whether it could have gone on then.
    pub(crate) const WAS_RUNNABLE: usize = 22;
    /// When it was woken since; 0: it was not.
    pub(crate) const WOKEN: usize = 23;
    /// Time that it waited for a CPU after it had lost one, nanoseconds.
    pub(crate) const PREEMPTED: usize = 24;
    /// Time asleep.
    pub(crate) const BLOCKED: usize = 25;
    /// Time from wakeups to CPUs.
    pub(crate) const RUNNABLE: usize = 26;
    /// Since when it runs; 0: not known.
    pub(crate) const ON: usize = 27;
    /// Time on CPUs.
    pub(crate) const CPU: usize = 28;
    /// How often it lost its CPU.
    pub(crate) const PREEMPTIONS: usize = 29;
    /// How often it went to sleep.
    pub(crate) const SLEEPS_COUNT: usize = 30;
    /// How long its last sleep was, nanoseconds, and when that ended.
    pub(crate) const SLEPT: usize = 31;
    pub(crate) const SLEPT_END: usize = 32;
    pub(crate) const WORDS: usize = 33;
}

/// A wait for a lock of the kernel.
pub(super) mod waiting {
    pub(crate) const SINCE: usize = 0;
    pub(crate) const LOCK: usize = 1;
    /// What the tracepoint says of the lock.
    pub(crate) const FLAGS: usize = 2;
    pub(crate) const RUNNABLE_THEN: usize = 3;
    /// 0: the owner is not known; 1: it ran; 2: it did not.
    pub(crate) const OWNER: usize = 4;
}

/// A process.
pub(super) mod process {
    pub(crate) const PARENT: usize = 0;
    pub(crate) const BEGIN: usize = 1;
    /// 0: it has not ended.
    pub(crate) const END: usize = 2;
    pub(crate) const THREADS: usize = 3;
    pub(crate) const ALIVE: usize = 4;
    /// How often it became another program.
    pub(crate) const PROGRAMS: usize = 5;
    /// Those of threads that have ended: preempted, blocked, runnable, running.
    pub(crate) const PREEMPTED: usize = 6;
    pub(crate) const BLOCKED: usize = 7;
    pub(crate) const RUNNABLE: usize = 8;
    pub(crate) const CPU: usize = 9;
    pub(crate) const PREEMPTIONS: usize = 10;
    pub(crate) const SLEEPS: usize = 11;
    /// Wakeups of its threads by another process, the sleep that they ended, and wakeups
    /// of others by it.
    pub(crate) const BY_OTHERS: usize = 12;
    pub(crate) const ASLEEP_BY_OTHERS: usize = 13;
    pub(crate) const WAKES_OTHERS: usize = 14;
    pub(crate) const WORDS: usize = 15;
}

/// A distribution in the middle of a value: three words, and buckets at its end.
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
    /// Time from wakeups to CPUs.
    pub(crate) const RUNNABLE: usize = 4;
    /// Which threads, a bit each, by their number.
    pub(crate) const THREADS: usize = 5;
    pub(crate) const BUCKETS_AT: usize = 9;
    /// Distribution of holds in which the owner kept its CPU.
    pub(crate) const HOLD_ON: usize = BUCKETS_AT + BUCKETS;
    /// Of those in which it did not.
    pub(crate) const HOLD_OFF: usize = HOLD_ON + 3;
    /// Time in them: waiting for a CPU that was lost, asleep, on the way to a CPU.
    pub(crate) const PREEMPTED: usize = HOLD_OFF + 3;
    pub(crate) const BLOCKED: usize = PREEMPTED + 1;
    pub(crate) const HELD_RUNNABLE: usize = PREEMPTED + 2;
    pub(crate) const HOLD_BUCKETS: usize = PREEMPTED + 3;
    pub(crate) const WORDS: usize = HOLD_BUCKETS + BUCKETS;
}

/// What released a word to a goroutine that waited.
pub(super) mod giver {
    /// Distribution, without buckets, of the time since the release before, or since the wait
    /// began, times the goroutines that waited.
    pub(crate) const TIMES: usize = 0;
    /// The part of it in which the thread that released it slept.
    pub(crate) const SLEPT: usize = 3;
    pub(crate) const WORDS: usize = 4;
}

/// A word.
pub(super) mod word {
    /// How often one that had waited for it, too, woke another one; and how often others woke
    /// somebody, or all were woken.
    pub(crate) const OWN: usize = 0;
    pub(crate) const OTHER: usize = 1;
    pub(crate) const WAITERS: usize = 2;
    pub(crate) const MOST: usize = 3;
    pub(crate) const SINCE: usize = 4;
    pub(crate) const TOTAL: usize = 5;
    pub(crate) const LONGEST: usize = 6;
    pub(crate) const LONGEST_AT: usize = 7;
    /// Which threads have waited, a bit each, by their number.
    pub(crate) const THREADS: usize = 8;
    /// When it was released to a goroutine that waited.
    pub(crate) const RELEASED: usize = 12;
    pub(crate) const WORDS: usize = 13;
}

/// Waits for a lock of the kernel from a place.
pub(super) mod lock {
    use super::BUCKETS;
    /// Distribution.
    pub(crate) const TIMES: usize = 0;
    pub(crate) const RUNNABLE: usize = 3;
    /// Time of waits whose owner was known when they began, and of those in which it was on no
    /// CPU then.
    pub(crate) const OWNED: usize = 4;
    pub(crate) const OFF: usize = 5;
    /// Where the first of them is, and whether there are others.
    pub(crate) const ADDRESS: usize = 6;
    pub(crate) const MANY: usize = 7;
    pub(crate) const THREADS: usize = 8;
    pub(crate) const BUCKETS_AT: usize = 12;
    pub(crate) const WORDS: usize = BUCKETS_AT + BUCKETS;
}

/// What did not fit.
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

/// Bytes of the key of a wait: process and stack, word. And of a lock: process and flags, stack.
pub(super) const KEY: usize = 16;

/// The maps.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) threads: Map,
    pub(super) processes: Map,
    /// Goroutines, each as a thread.
    pub(super) goroutines: Map,
    pub(super) waits: Map,
    pub(super) words: Map,
    /// Stacks that released a word of Go to goroutines that waited: see [`giver`].
    pub(super) givers: Map,
    pub(super) locks: Map,
    pub(super) stacks: Map,
    pub(super) kernel_stacks: Map,
    pub(super) pieces: Map,
    /// Where a piece is put together.
    pub(super) room: Map,
    /// A value of zeros for each kind.
    pub(super) zeros: Map,
    pub(super) lost: Map,
}

impl Tables {
    pub(super) fn new() -> io::Result<Self> {
        let hash = |name, key, words: usize, entries| {
            Map::new(name, MapKind::Hash, key, words * 8, entries)
        };
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
        })
    }

    /// What did not fit, by [`lost`].
    pub(super) fn losses(&self) -> Vec<u64> {
        let value = self.lost.get(&0_u32.to_le_bytes()).ok().flatten();
        value.map_or_else(|| vec![0; lost::COUNT], |value| words(&value))
    }

    /// The addresses of a stack, the innermost first.
    pub(super) fn stack(map: &Map, number: u32) -> Vec<u64> {
        let value = map.get(&number.to_le_bytes()).ok().flatten().unwrap_or_default();
        words(&value).into_iter().take_while(|address| *address != 0).collect()
    }
}

/// Everything in a map.
pub(super) fn all(map: &Map) -> impl Iterator<Item = (Vec<u8>, Vec<u64>)> {
    let value = |key: Vec<u8>| map.get(&key).ok().flatten().map(|value| (key, words(&value)));
    map.keys().into_iter().filter_map(value)
}

/// The words of a value.
pub(super) fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// A number of 32 bits in a key.
pub(super) fn half(key: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(key[4 * at..4 * at + 4].try_into().expect("four bytes"))
}

/// Threads that have left their bit.
pub(super) fn threads(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// A distribution whose buckets lie at `buckets`; nanoseconds.
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
