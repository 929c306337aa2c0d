//! Where a [`Quota`](super::Quota) has its queue: [`Within`] itself, or elsewhere.

use super::time::{ns_between, stamp};
use crate::lock::{RawLock, TellPart, inner_parts};
use crate::platform::{Access, Atomic, Platform};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Nanoseconds that the first waiter has waited when turns begin, and four times as long as when
/// the lock may be handed to it while it is off its CPU: the default bound. An owner next to
/// computing threads is off its CPU for some 4 ms; if turns or handoffs began then, they would
/// begin each time that it is preempted.
pub const BOUND_NS: u64 = 5_000_000;

/// Waiters that a visitor passes at most: each is a line of another CPU, under the inner lock.
const VISIT_WINDOW: u32 = 16;

/// Nanoseconds after which a summoned waiter does not count any more: a few wakeups, and an eighth
/// longer for each waiter that is summoned. Next to computing threads it may wait for a CPU for
/// milliseconds, and the lock would idle; if all of 2000 threads on one CPU were summoned, they
/// would change places for each critical section.
const SUMMONS_NS: u64 = 20_000;

/// The task to wake once the inner lock is free.
pub(super) type Sleeper<P> = Option<*const <P as Platform>::AtomicU32>;

/// Where a lock has its queue.
pub trait Room<P: Platform>: 'static {
    /// The lock of the queue.
    type Inner: RawLock<P> + Default;

    /// Room for a new lock.
    fn new() -> Self;

    /// Returns the queue; the same at each call.
    fn queue(&self) -> &Within<P, Self::Inner>;

    /// Returns the bound of the lock, see [`BOUND_NS`].
    #[inline]
    fn bound_ns(&self) -> u64 {
        BOUND_NS
    }

    /// Reports the names of the words if this is at `offset` in the lock.
    fn parts(_offset: usize, _tell: &mut TellPart<'_>) {}
}

/// A queue, in the lock unless it is elsewhere.
#[repr(C)]
pub struct Within<P: Platform, L: RawLock<P>> {
    /// Length of the queue; written under the inner lock.
    pub(super) waiting: P::AtomicU32,
    /// When the first waiter became the first, in units of 1024 ns; written under the inner lock.
    claimed: P::AtomicU32,
    /// When the first waiter arrived, likewise.
    arrived: P::AtomicU32,
    /// When the lock was closed last, likewise.
    pub(super) closed: Cell<u32>,
    /// When a waiter was summoned last, likewise.
    pub(super) summons: Cell<u32>,
    pub(super) inner: L,
    /// Waiters that were woken and have neither left nor gone back to sleep.
    pub(super) summoned: Cell<u16>,
    /// Reduction of the number of summoned waiters below the lock's places, because some did not
    /// acquire.
    pub(super) fewer: Cell<u16>,
    pub(super) queue: Queue<P>,
}

// SAFETY: `queue` and the cells are used only while `inner` is held; the words are atomics of
// the platform, which are `Sync` by the bound.
unsafe impl<P: Platform, L: RawLock<P> + Sync> Sync for Within<P, L> where P::AtomicU32: Sync {}
// SAFETY: a queue that can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform, L: RawLock<P> + Send> Send for Within<P, L> where P::AtomicU32: Send {}

impl<P: Platform, L: RawLock<P> + Default> Room<P> for Within<P, L> {
    type Inner = L;

    fn new() -> Self {
        Self {
            waiting: P::AtomicU32::new(0),
            claimed: P::AtomicU32::new(0),
            arrived: P::AtomicU32::new(0),
            closed: Cell::new(0),
            summons: Cell::new(0),
            inner: L::default(),
            summoned: Cell::new(0),
            fewer: Cell::new(0),
            queue: Queue::new(),
        }
    }

    #[inline]
    fn queue(&self) -> &Self {
        self
    }

    fn parts(offset: usize, tell: &mut TellPart<'_>) {
        tell(offset + offset_of!(Self, waiting), format_args!("waiting"));
        tell(offset + offset_of!(Self, claimed), format_args!("claimed"));
        tell(offset + offset_of!(Self, arrived), format_args!("arrived"));
        inner_parts::<P, L>(offset + offset_of!(Self, inner), tell);
    }
}

impl<P: Platform<AtomicU32 = AtomicU32>> Within<P, TicketLock<P>> {
    /// Returns an empty queue.
    pub(super) const fn empty() -> Self {
        Self {
            waiting: AtomicU32::new(0),
            claimed: AtomicU32::new(0),
            arrived: AtomicU32::new(0),
            closed: Cell::new(0),
            summons: Cell::new(0),
            inner: TicketLock::new(),
            summoned: Cell::new(0),
            fewer: Cell::new(0),
            queue: Queue::new(),
        }
    }
}

impl<P: Platform, L: RawLock<P>> Within<P, L> {
    /// Returns when the first waiter became the first, in units of 1024 ns.
    pub(super) fn claimed(&self) -> u32 {
        // A hint, in the line of the length; under the inner lock it is exact.
        self.claimed.peek()
    }

    /// Returns when the first waiter arrived, in units of 1024 ns.
    pub(super) fn arrived(&self) -> u32 {
        // As in `claimed`.
        self.arrived.peek()
    }

    /// There is another first waiter from now on; the inner lock is held.
    pub(super) fn claim(&self) {
        // SAFETY: the inner lock is held.
        let arrived = unsafe { self.queue.front() }.map(|first| first.arrived.get());
        // Relaxed: the inner lock orders both, and they are hints elsewhere.
        self.claimed.store(stamp::<P>(), Relaxed);
        self.arrived.store(arrived.unwrap_or(0), Relaxed);
    }

    /// Links `waiter` behind those that it does not go before: a visitor if it lets none pass.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push`]; the inner lock is held.
    pub(super) unsafe fn push(&self, waiter: &Waiter<P>) {
        if waiter.urgent.get() || waiter.lets_pass.get() > 0 {
            // SAFETY: the contract is this function's own.
            unsafe { self.queue.push_by_urgency(waiter) };
        } else {
            // SAFETY: as above.
            unsafe { self.queue.push_as_visitor(waiter, VISIT_WINDOW) };
        }
        self.lengthen(1, waiter.is_first());
    }

    /// Links `waiter`, which was in another queue, behind all others. The waiting task has reported
    /// it as fresh memory there.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push`]; the inner lock is held.
    pub(super) unsafe fn append(&self, waiter: &Waiter<P>) {
        P::touch(waiter, Access::Write);
        // SAFETY: the contract is this function's own.
        unsafe { self.queue.append(waiter) };
        self.lengthen(1, waiter.is_first());
    }

    /// Unlinks `waiter`.
    ///
    /// # Safety
    ///
    /// As for [`Queue::remove`]; the inner lock is held.
    pub(super) unsafe fn remove(&self, waiter: &Waiter<P>) {
        let was_first = waiter.is_first();
        // SAFETY: the contract is this function's own.
        unsafe { self.queue.remove(waiter) };
        self.lengthen(u32::MAX, was_first);
    }

    /// Adds to the length of the queue, modulo 2^32; the inner lock is held.
    fn lengthen(&self, change: u32, is_other_first: bool) {
        if is_other_first {
            self.claim();
        }
        // Relaxed: the inner lock orders it, and it is a hint elsewhere.
        self.waiting.store(self.waiting.load(Relaxed).wrapping_add(change), Relaxed);
    }

    /// Called when a summoned waiter leaves or sleeps again; `taken` is whether it got a unit, if
    /// it competed for one. A failure leaves a single place, each success doubles them, so that
    /// releases wake few waiters while critical sections are longer than a wakeup.
    pub(super) fn answer(&self, taken: Option<bool>, places: u32) {
        self.summoned.set(self.summoned.get() - 1);
        match taken {
            Some(true) => self.fewer.set(self.fewer.get() / 2),
            Some(false) => self.fewer.set(places as u16 - 1),
            None => {}
        }
    }

    /// Returns whether `waiter` may be summoned in addition to the others, with this number of
    /// places, or because the last one has waited for a CPU for long.
    pub(super) fn has_place(&self, waiter: &Waiter<P>, places: u32) -> bool {
        let most = if waiter.urgent.get() { 2 * places } else { places };
        let summoned = self.summoned.get();
        u32::from(summoned) < most - u32::from(self.fewer.get())
            || summoned < u16::MAX
                && P::is_late(
                    ns_between(self.summons.get(), stamp::<P>())
                        >= SUMMONS_NS * (1 + u64::from(summoned) / 8),
                )
    }

    /// Releases the inner lock, then wakes `sleeper`: a wakeup is a system call, and other tasks
    /// want the inner lock.
    pub(super) fn unlock(&self, sleeper: Sleeper<P>) {
        self.inner.unlock();
        if let Some(word) = sleeper {
            P::wake(word, 1);
        }
    }
}
