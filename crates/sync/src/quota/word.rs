//! The word of a [`Quota`], its flags, and the length of turns.

use super::room::{Room, Within};
use super::turn::TURN_NS_MAX;
use crate::event::LockEvent;
use crate::platform::{Atomic, Platform};
use crate::spin::TicketLock;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

pub(super) const QUEUED: u32 = 1;
pub(super) const SHORT: u32 = 2;
pub(super) const CLOSED: u32 = 4;
pub(super) const FLAGS: u32 = QUEUED | SHORT | CLOSED;
/// The flags under which a task may take a unit past the queue.
pub(super) const OPEN: u32 = QUEUED | SHORT;
pub(super) const UNIT: u32 = 8;
pub(super) const UNITS_END: u32 = 1 << 29;

/// Waiters that are summoned at a time: one on its way for each CPU of a small machine, and as many
/// to spare. With 1 a CPU idles between two turns; from 8 on waiters are woken without acquiring.
pub(super) const SUMMONED: u32 = 4;

/// Nanoseconds of turns in a row in which each waiter has one.
pub(super) const ROUND_NS: u64 = 200_000_000;

/// Nanoseconds of the shortest turn: below, switches cost more than a sixth.
pub(super) const TURN_NS_MIN: u64 = 60_000;

/// Nanoseconds of the turn of a task that is new to the queue: the shortest. Tasks that come
/// together see few wait as yet and would keep those out for a long turn each; with 2000 threads
/// that start at a time on two CPUs the first then waits for 220 ms instead of 85.
pub(super) const ARRIVAL_NS: u64 = TURN_NS_MIN;

/// Visitors that pass a waiter at most while it waits.
pub(super) const VISITS: u8 = 2;

/// The lock. See the documentation of `quota/mod.rs`.
///
/// Its queue is in `R`; at most `S` waiters are summoned at a time.
#[derive(Debug)]
#[repr(C)]
pub struct Quota<P: Platform, R: Room<P> = Within<P, TicketLock<P>>, const S: u32 = SUMMONED> {
    pub(super) word: P::AtomicU32,
    pub(super) room: R,
}

impl<P: Platform<AtomicU32 = AtomicU32>> Quota<P> {
    /// Returns a lock with `units` free units, fewer than 2^29, and its queue inside: for a
    /// `static`.
    pub const fn new(units: u32) -> Self {
        assert!(units < UNITS_END);
        Self { word: AtomicU32::new(units * UNIT), room: Within::empty() }
    }
}

/// Returns the longest time in which the lock is handed over once, and the quota of a turn, in
/// nanoseconds, while `waiting` tasks wait.
pub(super) fn turn_ns(waiting: u32) -> u64 {
    (ROUND_NS / u64::from(waiting.max(1))).clamp(TURN_NS_MIN, TURN_NS_MAX)
}

impl<P: Platform, R: Room<P>, const S: u32> Quota<P, R, S> {
    /// Takes a free unit if the word shows at most `allowed` of the flags. `seen` is the expected
    /// value of the word.
    #[inline]
    pub(super) fn take(&self, mut seen: u32, allowed: u32) -> bool {
        while seen >= UNIT && seen & FLAGS & !allowed == 0 {
            // Acquire pairs with the release in `up`.
            match self.word.compare_exchange(seen, seen - UNIT, Acquire, Relaxed) {
                Ok(_) => {
                    P::happened(LockEvent::Acquired, self);
                    return true;
                }
                Err(now) => seen = now,
            }
        }
        false
    }
}
