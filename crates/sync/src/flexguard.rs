//! [`FlexGuard`]: a lock whose waiters spin unless the scheduler has preempted a critical section.
//!
//! Use it in user space if the scheduler has a monitor of critical sections
//! ([`Platform::monitor`]): waiters react to a preempted owner, not to the time for which they have
//! spun. Not where no scheduler counts: there it is a spinlock of one word, whose waiters never
//! sleep. Not where waits must be bounded.
//!
//! ## States
//!
//! | `word` | `tail` | meaning |
//! |---|---|---|
//! | 0 | | free |
//! | 1 | | owned, no task sleeps |
//! | 2 | | owned, tasks may sleep |
//! | | 0 | no task spins in the queue |
//! | | a task | that task arrived in the queue last |
//!
//! A waiter's [`Marks`](crate::Marks) are its node: `place` is 1 in the queue, 2 once its
//! predecessor has left, 0 outside; `next` is its successor. The *count* is the scheduler's number
//! of preempted critical sections, of this lock and all others.
//!
//! ## Transitions
//!
//! ```text
//! lock    word: 0 -> 1, or else:
//! queue   if the count is 0, tail: any -> me, and if it was a task, its next = me; spin until my
//!         place is 2 or the count is not 0
//! try     word: 0 -> 1, leave the queue, owner; spin while the count and the word are not 0;
//!         if the count is not 0: leave the queue; word: any -> 2, owner if it was 0; sleep while
//!         2; word: any -> 2, owner if it was 0; if the count is 0 again, back to `queue`
//! leave   my place: any -> 0; no successor: tail: me -> 0; otherwise its place: 1 -> 2
//! unlock  word: 1 -> 0, or 2 -> 0 and wake one task
//! ```
//!
//! ## Invariants
//!
//! - I1 At most one task is between `lock` and `unlock`: the queue decides who spins, only the word
//!   decides who owns.
//! - I2 While a task sleeps, the word is 2, or a woken task is on its way to set it to 2 again.
//! - I3 A task that found a predecessor in the queue has its place set to 2 when that one leaves;
//!   a task that found none is the head.
//! - I4 Marks outlive the tasks: a predecessor may write the place of a task that has left the
//!   queue, and that may wait in another one. It then tries to acquire too early, which is
//!   harmless (I1).
//! - I5 A task that others wait for is marked: from before it takes the word or the head of the
//!   queue until after it has released the word.
//!
//! ## Memory ordering
//!
//! The release swap of `unlock` pairs with the acquire operations that take the word. The exchange
//! of `tail` releases the node to the successor, whose store to `next` is acquired by `leave`. The
//! release of a place pairs with the spinner's acquire. Marks are read by the scheduler on the CPU
//! of their task, in its program order.
//!
//! ## Progress and fairness
//!
//! None is promised: a newcomer takes a free word before the head of the queue and before woken
//! tasks. Without preemptions spinners follow each other in order of arrival. A waiter of another
//! lock, or of none, leaves the queue when the count becomes positive, so that preempted owners get
//! CPUs.
//!
//! ## Cost
//!
//! Two lines and a line for each task. Uncontended: one compare-exchange, one swap, and two writes
//! of the task's marks. Contended: as the queued spinlock while the count is 0, as the futex mutex
//! while it is not. Every context switch of the machine runs the monitor.
//!
//! ## Lineage
//!
//! Laforet, Kashyap, Iorgulescu, Lawall and Lozi, "`FlexGuard`: Fast Mutual Exclusion Independent
//! of Subscription", SOSP 2025, with src/flexguard.c and src/flexguard.bpf.c of
//! github.com/vlaforet/flexguard (09fe6c2). Differences: there the monitor knows by labels in the
//! code and saved registers whether a task has just taken the word or the head of the queue; here
//! marks are set before the attempt and withdrawn when it fails, so a task that loses its CPU in
//! between counts needlessly. A place is granted by compare-exchange, so that a task outside of the
//! queue is not marked as its head. A spinner reads the count once in 32 looks, and one that
//! waits for the link of its successor yields from time to time.

use crate::event::LockEvent;
use crate::lock::{RawLock, TellPart};
use crate::monitor::{Marks, Monitor};
use crate::platform::{Access, Atomic, Platform, Sleep, TaskId};
use core::mem::offset_of;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const FREE: u32 = 0;
const OWNED: u32 = 1;
/// Owned, and tasks may sleep.
const SLEPT_FOR: u32 = 2;

/// Places in the queue: outside, behind a predecessor, and after that one has left.
const AWAY: u32 = 0;
const WAITING: u32 = 1;
const HEAD: u32 = 2;
/// No task, in the queue.
const NOBODY: u32 = 0;

/// A word on a separate line, so that arrivals in the queue do not take the line of the owner.
#[repr(C, align(64))]
struct Line<T>(T);

/// See the module documentation.
#[repr(C)]
pub struct FlexGuard<P: Platform> {
    word: Line<P::AtomicU32>,
    tail: Line<P::AtomicU32>,
}

/// The monitor of a platform.
type Own<'a, P> = Monitor<'a, <P as Platform>::AtomicU32>;

/// Returns the monitor with the marks of the calling task, if there is one.
#[inline]
fn mine<'a, P: Platform>() -> Option<Own<'a, P>> {
    P::monitor(P::current())
}

/// Returns the monitor with the marks of the task with this number in the queue, if it is one.
fn marked<'a, P: Platform>(number: u32) -> Option<Own<'a, P>> {
    P::monitor(number.checked_sub(1)?)
}

/// Returns the number of `task` in the queue.
fn number(task: TaskId) -> u32 {
    task + 1
}

/// Returns whether no critical section is preempted.
#[inline]
fn is_calm<P: Platform>(monitor: &Own<'_, P>) -> bool {
    // Relaxed: the count orders nothing.
    monitor.preempted.load(Relaxed) == 0
}

/// Marks that the calling task enters (1) or leaves (-1) a critical section, or tries to.
#[inline]
fn mark<P: Platform>(monitor: &Own<'_, P>, change: i32) {
    let sections = &monitor.marks.sections;
    P::touch(sections, Access::Write);
    sections.set(sections.get().wrapping_add_signed(change));
}

impl<P: Platform> FlexGuard<P> {
    /// Returns whether other tasks wait for the task with these marks: it is in a critical section,
    /// or the next in its queue. For the scheduler, which has stopped the task.
    pub fn are_critical(marks: &Marks<P::AtomicU32>) -> bool {
        P::touch(&marks.sections, Access::Read);
        // Relaxed: if its predecessor leaves at this moment, the task is not counted.
        marks.sections.get() > 0 || marks.place.load(Relaxed) == HEAD
    }

    /// 0 -> 1. Returns whether the lock was free.
    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unlock`. The relaxed look spares an exclusive fetch.
        self.word.0.load(Relaxed) == FREE
            && self.word.0.compare_exchange(FREE, OWNED, Acquire, Relaxed).is_ok()
    }

    /// any -> 2. Returns whether the lock was free. A task that has slept cannot know whether
    /// others still sleep, so it leaves the word at 2 (I2).
    fn take_slept_for(&self) -> bool {
        // Acquire pairs with the release in `unlock`.
        self.word.0.swap(SLEPT_FOR, Acquire) == FREE
    }

    #[cold]
    fn lock_slow(&self, monitor: Option<&Own<'_, P>>) {
        P::happened(LockEvent::Contended, self);
        let Some(monitor) = monitor else {
            while !self.take() {
                P::spin_until_is(&self.word.0, FREE);
            }
            return;
        };
        while !self.lock_by(monitor) {}
    }

    /// Queues if no critical section is preempted, and tries to acquire the lock. Returns whether
    /// it did; if not, no critical section is preempted any more.
    fn lock_by(&self, monitor: &Own<'_, P>) -> bool {
        let mut is_queued = is_calm::<P>(monitor);
        if is_queued {
            self.queue(monitor);
        }
        while !self.take() {
            if is_calm::<P>(monitor) {
                let ends = |word, preempted| word == FREE || preempted != 0;
                P::spin_until_either(&self.word.0, monitor.preempted, ends);
                continue;
            }
            if is_queued {
                self.leave(monitor);
                is_queued = false;
            }
            if self.take_slept_for() {
                return true;
            }
            P::wait(&self.word.0, SLEPT_FOR, Sleep::Uninterruptible, None);
            if self.take_slept_for() {
                return true;
            }
            if is_calm::<P>(monitor) {
                return false;
            }
        }
        if is_queued {
            self.leave(monitor);
        }
        true
    }

    /// Enters the queue. Returns at its head, or when a critical section is preempted.
    fn queue(&self, monitor: &Own<'_, P>) {
        let (marks, me) = (monitor.marks, number(P::current()));
        // Relaxed: the exchange releases both.
        marks.next.store(NOBODY, Relaxed);
        marks.place.store(WAITING, Relaxed);
        // any -> me. Acquire and release: pairs with the exchanges before and after it.
        let before = self.tail.0.swap(me, AcqRel);
        let Some(before) = marked::<P>(before) else { return };
        // Release pairs with the acquire in `leave`.
        before.marks.next.store(me, Release);
        // From here on other tasks wait for this one only if its place is 2 (I5).
        mark::<P>(monitor, -1);
        let ends = |place, preempted| place == HEAD || preempted != 0;
        P::spin_until_either(&marks.place, monitor.preempted, ends);
        mark::<P>(monitor, 1);
    }

    /// Leaves the queue, as its head or not.
    fn leave(&self, monitor: &Own<'_, P>) {
        let (marks, me) = (monitor.marks, number(P::current()));
        // Relaxed: only the scheduler reads it.
        marks.place.store(AWAY, Relaxed);
        // Acquire pairs with the release in `queue`.
        if marks.next.load(Acquire) == NOBODY {
            // me -> 0: no task arrived. Release pairs with the next task's exchange.
            if self.tail.0.compare_exchange(me, NOBODY, Release, Relaxed).is_ok() {
                return;
            }
            P::spin_until(&marks.next, |next| next != NOBODY);
        }
        // Relaxed: acquired above.
        if let Some(next) = marked::<P>(marks.next.load(Relaxed)) {
            // 1 -> 2, unless it has left. Release pairs with the acquire of the spinner.
            let _has_left = next.marks.place.compare_exchange(WAITING, HEAD, Release, Relaxed);
        }
    }
}

impl<P: Platform> Default for FlexGuard<P> {
    fn default() -> Self {
        let line = |value| Line(P::AtomicU32::new(value));
        Self { word: line(FREE), tail: line(NOBODY) }
    }
}

impl<P: Platform> RawLock<P> for FlexGuard<P> {
    #[inline]
    fn lock(&self) {
        let monitor = mine::<P>();
        if let Some(monitor) = &monitor {
            mark::<P>(monitor, 1);
        }
        if !self.take() {
            self.lock_slow(monitor.as_ref());
        }
        P::happened(LockEvent::Acquired, self);
    }

    fn try_lock(&self) -> bool {
        let monitor = mine::<P>();
        if let Some(monitor) = &monitor {
            mark::<P>(monitor, 1);
        }
        let taken = self.take();
        if taken {
            P::happened(LockEvent::Acquired, self);
        } else if let Some(monitor) = &monitor {
            mark::<P>(monitor, -1);
        }
        taken
    }

    #[inline]
    fn unlock(&self) {
        P::happened(LockEvent::Released, self);
        // 1 -> 0 or 2 -> 0. Release pairs with the acquire of the next owner.
        let before = self.word.0.swap(FREE, Release);
        if let Some(monitor) = &mine::<P>() {
            mark::<P>(monitor, -1);
        }
        if before == SLEPT_FOR {
            P::wake(&raw const self.word.0, 1);
        }
    }

    fn is_locked(&self) -> bool {
        // Relaxed: a snapshot orders nothing.
        self.word.0.load(Relaxed) != FREE
    }

    fn parts(tell: &mut TellPart<'_>) {
        tell(0, format_args!("word"));
        tell(offset_of!(Self, tail), format_args!("tail"));
    }
}
