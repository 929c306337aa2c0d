//! Where a [`Quota`](super::Quota) has its queue: [`Within`] itself, or elsewhere.

use super::Sleeper;
use crate::lock::{RawLock, TellPart, inner_parts};
use crate::platform::{Atomic, Platform};
use crate::queue::{Queue, Waiter};
use crate::spin::TicketLock;
use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Where a lock has its queue.
pub trait Room<P: Platform>: 'static {
    /// The lock of the queue.
    type Inner: RawLock<P> + Default;

    /// Room for a new lock.
    fn new() -> Self;

    /// The queue; the same at each call.
    fn queue(&self) -> &Within<P, Self::Inner>;

    /// Who is to be summoned next, if anybody sleeps.
    ///
    /// # Safety
    ///
    /// The caller holds the inner lock, and keeps it as long as it uses the result.
    unsafe fn next(&self) -> Option<&Waiter<P>> {
        // SAFETY: the contract is this function's own.
        unsafe { self.queue().queue.find(|waiter| !waiter.is_woken()) }
    }

    /// A waiter that came on that package was summoned; the inner lock is held.
    fn comes(&self, _package: u32) {}

    /// Tells the names of the words if this lies at `offset` of the lock.
    fn parts(_offset: usize, _tell: &mut TellPart<'_>) {}
}

/// A queue, in the lock unless it is elsewhere.
#[repr(C)]
pub struct Within<P: Platform, L: RawLock<P>> {
    /// Length of the queue; written under the inner lock.
    pub(super) waiting: P::AtomicU32,
    pub(super) inner: L,
    pub(super) summoned: Cell<u32>,
    pub(super) queue: Queue<P>,
}

// SAFETY: `queue` and `summoned` are used only while `inner` is held; the word is an atomic of the
// platform, which is `Sync` by the bound.
unsafe impl<P: Platform, L: RawLock<P> + Sync> Sync for Within<P, L> where P::AtomicU32: Sync {}
// SAFETY: what can be moved has no waiters, so it owns no foreign pointer.
unsafe impl<P: Platform, L: RawLock<P> + Send> Send for Within<P, L> where P::AtomicU32: Send {}

impl<P: Platform, L: RawLock<P> + Default> Room<P> for Within<P, L> {
    type Inner = L;

    fn new() -> Self {
        Self {
            waiting: P::AtomicU32::new(0),
            inner: L::default(),
            summoned: Cell::new(0),
            queue: Queue::new(),
        }
    }

    #[inline]
    fn queue(&self) -> &Self {
        self
    }

    fn parts(offset: usize, tell: &mut TellPart<'_>) {
        tell(offset + offset_of!(Self, waiting), format_args!("waiting"));
        inner_parts::<P, L>(offset + offset_of!(Self, inner), tell);
    }
}

impl<P: Platform<AtomicU32 = AtomicU32>> Within<P, TicketLock<P>> {
    /// An empty queue.
    pub(super) const fn empty() -> Self {
        let (waiting, inner) = (AtomicU32::new(0), TicketLock::new());
        Self { waiting, inner, summoned: Cell::new(0), queue: Queue::new() }
    }
}

impl<P: Platform, L: RawLock<P>> Within<P, L> {
    /// Adds to the length of the queue, modulo 2^32; the inner lock is held.
    pub(super) fn lengthen(&self, change: u32) {
        // Relaxed: the inner lock orders it, and it is a hint elsewhere.
        self.waiting.store(self.waiting.load(Relaxed).wrapping_add(change), Relaxed);
    }

    /// The end of an inner section. A wake-up is a system call, and others want the inner lock.
    pub(super) fn unlock(&self, sleeper: Sleeper<P>) {
        self.inner.unlock();
        if let Some(word) = sleeper {
            P::wake(word, 1);
        }
    }
}
