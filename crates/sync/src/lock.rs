//! What all locks have in common: the trait of short locks, their guards, and the errors of waits.

use crate::event::LockEvent;
use crate::platform::Platform;
use core::fmt;
use core::marker::PhantomData;

/// A short lock: held for a bounded time, never across a sleep. The all-zero image is unlocked.
///
/// Preemption is forbidden while it is held. A lock that interrupt handlers take as well is taken
/// with [`Self::lock_irqsave`] everywhere. A lock without parameters is created by its `Default`.
pub trait RawLock<P: Platform>: Sized + 'static {
    /// Acquires the lock.
    fn lock(&self);

    /// Acquires the lock if it is free. Returns whether it did.
    fn try_lock(&self) -> bool;

    /// Releases the lock.
    ///
    /// # Panics
    ///
    /// May panic when the lock is not held.
    fn unlock(&self);

    /// Returns whether the lock is held. A snapshot.
    fn is_locked(&self) -> bool;

    /// Returns whether there are waiters. Exact when called by the owner, otherwise a snapshot. A
    /// lock with a word that does not show waiters returns false.
    #[inline]
    fn is_contended(&self) -> bool {
        false
    }

    /// Reports the names of its words.
    fn parts(tell: &mut TellPart<'_>) {
        tell(0, format_args!("word"));
    }

    /// Disables interrupts and takes the lock.
    #[inline]
    fn lock_irqsave(&self) -> P::IrqFlags {
        irq_save::<P>(|| self.lock())
    }

    /// Releases the lock and restores the interrupt state.
    #[inline]
    fn unlock_irqrestore(&self, flags: P::IrqFlags) {
        irq_restore::<P>(flags, || self.unlock());
    }

    /// Acquires the lock. The returned guard releases it when dropped.
    #[inline]
    fn guard(&self) -> Guard<'_, P, Self> {
        self.lock();
        Guard { lock: self, platform: PhantomData }
    }

    /// Disables interrupts and takes the lock, both until the guard is dropped.
    #[inline]
    fn guard_irqsave(&self) -> IrqGuard<'_, P, Self> {
        IrqGuard { flags: self.lock_irqsave(), lock: self }
    }
}

/// Guard of a [`RawLock`]. Releases it when dropped.
#[must_use = "the lock is held as long as the guard lives"]
#[derive(Debug)]
pub struct Guard<'a, P: Platform, L: RawLock<P>> {
    lock: &'a L,
    // A guard stays with the task that took the lock.
    platform: PhantomData<(P, *const ())>,
}

impl<P: Platform, L: RawLock<P>> Drop for Guard<'_, P, L> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock();
    }
}

/// Guard of a [`RawLock`] with interrupts disabled. Releases the lock and restores interrupts when
/// dropped.
#[must_use = "the lock is held as long as the guard lives"]
pub struct IrqGuard<'a, P: Platform, L: RawLock<P>> {
    lock: &'a L,
    flags: P::IrqFlags,
}

impl<P: Platform, L: RawLock<P>> Drop for IrqGuard<'_, P, L> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock_irqrestore(self.flags);
    }
}

/// Disables interrupts and takes a short lock, by `take`.
#[inline(always)]
pub(crate) fn irq_save<P: Platform>(take: impl FnOnce()) -> P::IrqFlags {
    let flags = P::irq_save();
    take();
    flags
}

/// Releases a short lock, by `release`, and restores the interrupt state.
#[inline(always)]
pub(crate) fn irq_restore<P: Platform>(flags: P::IrqFlags, release: impl FnOnce()) {
    // Interrupts are still disabled at the end of the preemption guard inside `release`, so this
    // task cannot be preempted there; the extra guard moves that point behind the restoration.
    P::preempt_disable();
    release();
    P::irq_restore(flags);
    P::preempt_enable();
}

/// Reports `lock` as acquired if an attempt has `taken` it; returns whether it has.
#[inline(always)]
pub(crate) fn tell_taken<P: Platform>(lock: &impl Sized, taken: bool) -> bool {
    if taken {
        P::happened(LockEvent::Acquired, lock);
    }
    taken
}

/// Makes one attempt at a short lock, by `take`: preemption stays disabled if it succeeds. Returns
/// whether it does.
#[inline(always)]
pub(crate) fn attempt<P: Platform>(lock: &impl Sized, take: impl FnOnce() -> bool) -> bool {
    P::preempt_disable();
    let taken = tell_taken::<P>(lock, take());
    if !taken {
        P::preempt_enable();
    }
    taken
}

/// Callback that receives the offset in bytes and the name of each word of a lock, for reports on
/// their accesses.
pub type TellPart<'a> = dyn FnMut(usize, fmt::Arguments<'_>) + 'a;

/// Reports the words of an inner lock of type `L` at `offset`.
pub(crate) fn inner_parts<P: Platform, L: RawLock<P>>(offset: usize, tell: &mut TellPart<'_>) {
    L::parts(&mut |at, name| tell(offset + at, format_args!("inner {name}")));
}

/// Why a wait ended without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// A signal that the wait admits is pending (`EINTR`).
    Interrupted,
    /// The deadline has passed (`ETIME`).
    TimedOut,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupted => "a signal ended the wait",
            Self::TimedOut => "the deadline ended the wait",
        })
    }
}

impl core::error::Error for WaitError {}

/// What may end a wait before the lock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Any signal.
    Signal,
    /// A fatal signal.
    Kill,
    /// That time, in nanoseconds.
    After(u64),
}

/// What every lock does, whatever its own functions are called: an exclusive lock is a semaphore of
/// one unit, and a reader/writer lock is taken shared as well.
pub trait Lock: 'static {
    /// Returns a lock with `units` free units.
    ///
    /// # Panics
    ///
    /// When the lock has one unit and `units` is another number.
    fn with_units(units: u32) -> Self;

    /// Returns an unlocked lock.
    fn unlocked() -> Self
    where
        Self: Sized,
    {
        Self::with_units(1)
    }

    /// Returns the lock. If it promises a spin limit, a waiter reads the word `looks` times before
    /// it sleeps.
    #[must_use]
    fn spin_limit(self, _looks: u32) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Acquires the lock. Returns when the caller owns it.
    fn acquire(&self);

    /// Acquires the lock again after a wait at a condition that has released it.
    fn acquire_again(&self) {
        self.acquire();
    }

    /// Acquires the lock if it is free. Returns whether it did. Does not wait.
    fn try_acquire(&self) -> bool;

    /// Acquires the lock, unless an event that the lock promises to admit ends the wait.
    ///
    /// # Errors
    ///
    /// [`WaitError`] says which event ended the wait.
    fn acquire_unless(&self, _cancel: Cancel) -> Result<(), WaitError> {
        self.acquire();
        Ok(())
    }

    /// Releases the lock.
    fn release(&self);

    /// Acquires the lock together with other readers if it promises that, otherwise exclusively.
    fn acquire_shared(&self) {
        self.acquire();
    }

    /// Releases a lock that [`Self::acquire_shared`] acquired.
    fn release_shared(&self) {
        self.release();
    }

    /// Returns the number of queued tasks, a snapshot, or 0 if the lock has no visible queue.
    fn waiters(&self) -> usize {
        0
    }

    /// Reports the offset and the name of each of its words.
    fn parts(_tell: &mut TellPart<'_>) {}
}

/// Implements [`Lock`] by functions of a type: `[generics] type, lock try_lock unlock`, for a
/// reader/writer lock also `/ read read_unlock`, and then functions that replace the defaults of
/// the trait.
macro_rules! locks_by {
    ($([$($generics:tt)*] $lock:ty, $take:ident $attempt:ident $release:ident
        $(/ $share:ident $unshare:ident)? { $($more:tt)* })+) => {
        $(impl<$($generics)*> $crate::lock::Lock for $lock {
            fn with_units(units: u32) -> Self {
                assert_eq!(units, 1);
                Self::default()
            }
            #[inline]
            fn acquire(&self) {
                self.$take();
            }
            fn try_acquire(&self) -> bool {
                self.$attempt()
            }
            #[inline]
            fn release(&self) {
                self.$release();
            }
            $(fn acquire_shared(&self) {
                self.$share();
            }
            fn release_shared(&self) {
                self.$unshare();
            })?
            $($more)*
        })+
    };
}
pub(crate) use locks_by;
