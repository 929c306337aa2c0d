//! [`Semaphore`]: permits that tasks of an async runtime wait for.
//!
//! Use it to limit concurrency, or with one permit as a mutex across an `await`. It belongs to no
//! runtime. Do not use it between threads that may sleep: [`crate::Semaphore`] is faster and knows
//! what their turns cost.
//!
//! ## States
//!
//! The word holds the free permits times 2 and the flag `QUEUED`, which changes only under the lock
//! of the queue: set if and only if the queue is not empty.
//!
//! | waiter | meaning |
//! |---|---|
//! | waiting | its task sleeps |
//! | summoned | its task was woken to look for a permit, and has not looked yet |
//! | granted | it was given a permit, and its task was woken to take it |
//!
//! ## Transitions
//!
//! ```text
//! first poll  no flag, permits > 0: take one
//!             else, unless PASSES have gone past the queue: take one past it
//!             else queue at the tail
//! next poll   granted, or a permit is free: leave       else wait in the same place
//! release     permits += 1; if QUEUED: settle
//! drop        leave; a granted permit is free again
//! settle      after every change of the queue: set the flag; if a permit is free, grant it to the
//!             first if PASSES have gone past, else summon another unless as many are summoned
//! ```
//!
//! ## Invariants
//!
//! - I1 Permits held, granted and free are those there were at first, and those added.
//! - I2 While the queue is unlocked, if a permit is free and there are waiters: a waiter is
//!   summoned, or a release that saw `QUEUED` is about to settle. Flag and permits share a word, so
//!   a permit was released either before the flag was set, and the task that set it saw the permit
//!   and settles, or after it. A summoned waiter settles when it is polled or dropped.
//! - I3 No waker is called or dropped under the lock of the queue: either may run a task that drops
//!   its wait for this semaphore.
//!
//! ## Memory ordering
//!
//! The release addition of a permit pairs with the acquire exchange that takes it. The queue is
//! ordered by its lock, and so is a permit that is granted.
//!
//! ## Progress and fairness
//!
//! A task that runs may take a permit past the queue, which saves a switch of tasks; at most
//! [`PASSES`] do so in a row, then the next permit is given to the first. So a waiter with N before
//! it has its permit after at most (N + 1) x ([`PASSES`] + 1) others, whenever its task is polled.
//!
//! ## Cost
//!
//! 40 bytes. Uncontended: one compare-exchange, one addition. A wait costs a place in a tree and
//! three critical sections of the queue's lock.
//!
//! ## Lineage
//!
//! Ours. A count instead of the half a millisecond of `async-lock`, so that no clock decides; the
//! semaphore of `tokio` gives every permit to the first.

use crate::face::Mutex;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire as AcquireOrder, Relaxed, Release};
use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;

const QUEUED: u32 = 1;
const UNIT: u32 = 2;

/// Permits that go past a queue in a row: a switch of tasks is spread over that many.
const PASSES: u32 = 16;

/// A number of permits, each of which one task at a time may have. See the module documentation.
///
/// ```
/// use convoy_sync::future::Semaphore;
///
/// async fn fetch(connections: &Semaphore) {
///     let _permit = connections.acquire().await;
/// }
/// ```
pub struct Semaphore {
    word: AtomicU32,
    queue: Mutex<Queue>,
}

/// The waiters, under the lock.
struct Queue {
    /// By number, which is the order of arrival.
    waiters: BTreeMap<u64, Waiter>,
    /// The number of the next.
    next: u64,
    summoned: u32,
    /// Permits that went past the first.
    passes: u32,
}

struct Waiter {
    waker: Waker,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Summoned,
    Granted,
}

/// A permit of a [`Semaphore`]. Releases it when dropped.
#[must_use = "the permit is held as long as this lives"]
#[derive(Debug)]
pub struct Permit<'a>(&'a Semaphore);

/// A wait for a permit. Dropped, it gives its place in the queue up.
#[must_use = "nobody waits unless it is awaited"]
#[derive(Debug)]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    /// Its number in the queue while it is there.
    number: Option<u64>,
}

impl Queue {
    /// Returns the first waiter without a granted permit.
    fn first(&self) -> Option<u64> {
        let mut waiters = self.waiters.iter();
        waiters.find(|(_, waiter)| waiter.state != State::Granted).map(|(number, _)| *number)
    }

    /// Returns whether a newcomer, or the waiter with that number, may take a permit.
    fn may_take(&self, number: Option<u64>) -> bool {
        self.passes < PASSES || self.first() == number
    }

    /// Records that a newcomer, or the waiter with that number, has taken a permit.
    fn count(&mut self, number: Option<u64>) {
        let first = self.first();
        self.passes = if first.is_none() || first == number { 0 } else { self.passes + 1 };
    }

    /// Removes a waiter: its last state, and its waker, to be dropped outside the lock.
    fn remove(&mut self, number: u64) -> Option<(State, Waker)> {
        let first = self.first() == Some(number);
        let Waiter { state, waker } = self.waiters.remove(&number)?;
        if state == State::Summoned {
            self.summoned -= 1;
        }
        if first {
            self.passes = 0;
        }
        Some((state, waker))
    }
}

impl Semaphore {
    /// Returns a semaphore with `permits` free permits, fewer than 2^31.
    pub const fn new(permits: u32) -> Self {
        assert!(permits < 1 << 31);
        let queue = Queue { waiters: BTreeMap::new(), next: 0, summoned: 0, passes: 0 };
        Self { word: AtomicU32::new(permits * UNIT), queue: Mutex::new(queue) }
    }

    /// Takes a free permit if the word shows at most the flags `allowed`. Returns whether it did.
    #[inline]
    fn take(&self, allowed: u32) -> bool {
        // Relaxed: taking the permit is what orders.
        let mut seen = self.word.load(Relaxed);
        while seen >= UNIT && seen & QUEUED & !allowed == 0 {
            // Acquire pairs with the release in `add`.
            match self.word.compare_exchange_weak(seen, seen - UNIT, AcquireOrder, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Acquires a permit as soon as possible.
    pub fn acquire(&self) -> Acquire<'_> {
        Acquire { semaphore: self, number: None }
    }

    /// Acquires a permit if one is free and there are no waiters.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.take(0).then(|| Permit(self))
    }

    /// Adds permits to those there are, also such as [`Permit::keep`] has kept.
    pub fn add(&self, permits: u32) {
        for _ in 0..permits {
            // Release pairs with the acquire in `take`.
            if self.word.fetch_add(UNIT, Release) & QUEUED != 0 {
                let mut queue = self.queue.lock();
                let woken = self.settle(&mut queue);
                drop(queue);
                wake(woken);
            }
        }
    }

    /// Returns the number of free permits; a snapshot.
    pub fn available(&self) -> u32 {
        // Relaxed: a snapshot orders nothing.
        self.word.load(Relaxed) / UNIT
    }

    /// Tasks in the queue; a snapshot.
    pub fn waiters(&self) -> usize {
        self.queue.lock().waiters.len()
    }

    /// The last step under the lock: updates the flag, and returns the waiter to wake (I2).
    fn settle(&self, queue: &mut Queue) -> Option<Waker> {
        // Relaxed: the flag changes under the lock only, and orders nothing.
        let free = if queue.waiters.is_empty() {
            self.word.fetch_and(!QUEUED, Relaxed) / UNIT
        } else {
            self.word.fetch_or(QUEUED, Relaxed) / UNIT
        };
        if free == 0 {
            return None;
        }
        let first = queue.first()?;
        let granted = queue.passes >= PASSES && self.take(QUEUED);
        let waits = |waiter: &&mut Waiter| waiter.state == State::Waiting;
        let (waiter, state) = if granted {
            queue.passes = 0;
            (queue.waiters.get_mut(&first)?, State::Granted)
        } else if queue.summoned < free {
            (queue.waiters.values_mut().find(waits)?, State::Summoned)
        } else {
            return None;
        };
        match (waiter.state, state) {
            (State::Summoned, State::Granted) => queue.summoned -= 1,
            (_, State::Summoned) => queue.summoned += 1,
            _ => {}
        }
        waiter.state = state;
        Some(waiter.waker.clone())
    }

    /// Tries to take a permit with the queue locked, for a newcomer or the waiter with that number.
    /// Returns whether it succeeded, and the previous waker.
    fn look(
        &self,
        queue: &mut Queue,
        number: &mut Option<u64>,
        waker: &Waker,
    ) -> (bool, Option<Waker>) {
        let state = number.and_then(|own| queue.waiters.get(&own)).map(|waiter| waiter.state);
        let granted = state == Some(State::Granted);
        if granted || queue.may_take(*number) && self.take(QUEUED) {
            if !granted {
                queue.count(*number);
            }
            let left = number.take().and_then(|own| queue.remove(own));
            return (true, left.map(|(_, waker)| waker));
        }
        if state == Some(State::Summoned) {
            queue.summoned -= 1;
        }
        let own = *number.get_or_insert_with(|| {
            queue.next += 1;
            queue.next
        });
        let waiter = Waiter { waker: waker.clone(), state: State::Waiting };
        (false, queue.waiters.insert(own, waiter).map(|old| old.waker))
    }
}

/// Wakes a task, with no lock held (I3).
fn wake(woken: Option<Waker>) {
    if let Some(waker) = woken {
        waker.wake();
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Permit<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'a>> {
        let semaphore = self.semaphore;
        if self.number.is_none() && semaphore.take(0) {
            return Poll::Ready(Permit(semaphore));
        }
        let mut queue = semaphore.queue.lock();
        let (taken, left) = semaphore.look(&mut queue, &mut self.number, context.waker());
        let woken = semaphore.settle(&mut queue);
        drop(queue);
        drop(left);
        wake(woken);
        if taken { Poll::Ready(Permit(semaphore)) } else { Poll::Pending }
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut queue = self.semaphore.queue.lock();
        let left = queue.remove(number);
        if left.as_ref().is_some_and(|(state, _)| *state == State::Granted) {
            // Release pairs with the acquire in `take`: the permit's previous holder is ordered,
            // too.
            self.semaphore.word.fetch_add(UNIT, Release);
        }
        let woken = self.semaphore.settle(&mut queue);
        drop(queue);
        drop(left);
        wake(woken);
    }
}

impl Permit<'_> {
    /// Keeps the permit for good: only [`Semaphore::add`] makes up for it.
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.add(1);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish()
    }
}
