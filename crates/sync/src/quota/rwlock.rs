//! [`QuotaRwLock`]: a reader/writer lock as fair as [`Quota`], to readers and to writers.
//!
//! Use it where readers have long critical sections; below a microsecond, a lock for one owner is
//! as fast. Where most tasks write, use [`Quota`]: a write here has three atomic operations for its
//! two. A reader must not acquire the lock for reading again: a writer may wait between the two.
//!
//! ## States
//!
//! The word holds the number of readers times 4 and two flags; the *door* is a [`Quota`] of one
//! unit.
//!
//! | `WRITER` | `WAITS` | readers | door | meaning |
//! |---|---|---|---|---|
//! | 0 | 0 | any | any | readers enter without the door; its owner may be an upgradable reader |
//! | 1 | any | 0 | the writer's | a writer is inside |
//! | 1 | 0 | some | the writer's | it waits for the readers, awake |
//! | 1 | 1 | some | the writer's | it waits for the readers, maybe asleep |
//!
//! ## Transitions
//!
//! ```text
//! read          no flags: readers += 1        else: take the door, readers += 1, release it
//! read_unlock   readers -= 1; if that leaves WRITER and WAITS alone, wake the writer
//! write         take the door, set WRITER, wait until all readers have left
//! write_unlock  clear the flags, release the door; so does a writer whose wait for readers fails
//! upgradable    take the door, readers += 1               upgradable_unlock  undo both
//! upgrade       readers -= 1 and set WRITER, wait until all readers have left
//! downgrade     clear the flags, readers += 1; then the reader keeps the door, or releases it
//! ```
//!
//! ## Invariants
//!
//! - I1 `WRITER` is set only by the owner of the door, which clears it before it releases the door.
//! - I2 Readers enter only while `WRITER` is clear: without the door they check it in the exchange
//!   that counts them, with the door no other task can set it.
//! - I3 A writer is inside once it saw no readers after it set `WRITER`.
//!
//! ## Memory ordering
//!
//! The release operations of `read_unlock` and `write_unlock` on the word pair with the acquire
//! operations that count a reader, set `WRITER` or see the readers gone.
//!
//! ## Progress and fairness
//!
//! Readers pass waiting writers only until one of these has the door; from then on they queue there
//! in one order with the writers, under the quota of the door. A writer then waits for the readers
//! that are inside, and for no others. So neither kind starves the other.
//!
//! ## Cost
//!
//! 4 bytes and the door: 12 natively. Uncontended: to read one compare-exchange and one
//! subtraction, to write two atomic operations, and one and a store to release.
//!
//! ## Lineage
//!
//! The turnstile of Downey, "The Little Book of Semaphores", 2008, 4.2.3, with readers that pass it
//! while no task waits behind it.

#[cfg(feature = "std")]
use super::Beside;
use super::{Quota, Room, Within};
use crate::lock::WaitError;
#[cfg(feature = "std")]
use crate::native::Native;
use crate::platform::{Atomic, Platform, Sleep, Wake};
use crate::semaphore::RawSemaphore;
use crate::spin::TicketLock;
#[cfg(feature = "std")]
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const WRITER: u32 = 1;
const WAITS: u32 = 2;
const FLAGS: u32 = WRITER | WAITS;
const READER: u32 = 4;

/// Nanoseconds for which a writer spins until the readers have left, before it sleeps: twice the
/// cost of a sleep and a wakeup.
const SPIN_NS: u64 = 20_000;

/// The lock. See the module documentation.
#[repr(C)]
pub struct QuotaRwLock<P: Platform, R: Room<P> = Within<P, TicketLock<P>>> {
    word: P::AtomicU32,
    door: Quota<P, R>,
}

/// The lock of user space.
#[cfg(feature = "std")]
pub type NativeQuotaRwLock = QuotaRwLock<Native, Beside>;

#[cfg(feature = "std")]
impl NativeQuotaRwLock {
    /// Returns a lock of user space.
    pub const fn native() -> Self {
        Self { word: AtomicU32::new(0), door: Quota::native(1) }
    }
}

impl<P: Platform, R: Room<P>> Default for QuotaRwLock<P, R> {
    fn default() -> Self {
        Self { word: P::AtomicU32::new(0), door: Quota::with_count(1) }
    }
}

impl<P: Platform, R: Room<P>> QuotaRwLock<P, R> {
    /// Acquires the lock for reading.
    #[inline]
    pub fn read(&self) {
        let taken = self.read_unless(Sleep::Uninterruptible, None);
        debug_assert!(taken.is_ok(), "nothing ends this wait but the lock");
    }

    /// [`Self::read`], unless a signal that `sleep` admits or `deadline`, in nanoseconds of
    /// [`Platform::now`], ends the wait.
    ///
    /// # Errors
    ///
    /// [`WaitError`]: what ended the wait.
    #[inline]
    pub fn read_unless(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        if self.try_read() { Ok(()) } else { self.read_slow(sleep, deadline) }
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        self.door.down_unless(sleep, deadline)?;
        // The door is ours, so no writer is inside or about to be (I2). Acquire pairs with the
        // release in `write_unlock`.
        self.word.fetch_add(READER, Acquire);
        self.door.up();
        Ok(())
    }

    /// Acquires the lock for reading if no writer owns it or is about to. Returns whether it did.
    #[inline]
    pub fn try_read(&self) -> bool {
        // Relaxed: the exchange is what orders.
        let mut seen = self.word.load(Relaxed);
        while seen & FLAGS == 0 {
            // Acquire pairs with the release in `write_unlock`.
            match self.word.compare_exchange(seen, seen + READER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Releases a lock acquired by [`Self::read`].
    #[inline]
    pub fn read_unlock(&self) {
        // Release pairs with the acquire of the writer that sees the readers gone.
        if self.word.fetch_sub(READER, Release) == READER | FLAGS {
            P::wake(&raw const self.word, 1);
        }
    }

    /// Acquires the lock exclusively.
    #[inline]
    pub fn write(&self) {
        let taken = self.write_unless(Sleep::Uninterruptible, None);
        debug_assert!(taken.is_ok(), "nothing ends this wait but the lock");
    }

    /// [`Self::write`], unless a signal that `sleep` admits or `deadline`, in nanoseconds of
    /// [`Platform::now`], ends the wait.
    ///
    /// # Errors
    ///
    /// [`WaitError`]: what ended the wait.
    pub fn write_unless(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        self.door.down_unless(sleep, deadline)?;
        // Acquire pairs with the releases of the previous owners. `WRITER` is not set (I1).
        if self.word.fetch_add(WRITER, Acquire) < READER {
            return Ok(());
        }
        let waited = self.wait_for_readers(sleep, deadline);
        if waited.is_err() {
            // Release, as in `write_unlock`; readers may be inside.
            self.word.fetch_and(!FLAGS, Release);
            self.door.up();
        }
        waited
    }

    /// Waits until the readers that entered before `WRITER` was set have left.
    #[cold]
    #[inline(never)]
    fn wait_for_readers(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        P::spin_for(&self.word, P::now() + SPIN_NS, |word| word < READER);
        loop {
            // Acquire pairs with the release in `read_unlock`.
            let seen = self.word.fetch_or(WAITS, Acquire) | WAITS;
            if seen < READER {
                return Ok(());
            }
            match P::wait(&self.word, seen, sleep, deadline) {
                Wake::Woken => {}
                Wake::TimedOut => return Err(WaitError::TimedOut),
                Wake::Interrupted => return Err(WaitError::Interrupted),
            }
        }
    }

    /// Acquires the lock for writing if it is free. Returns whether it did.
    pub fn try_write(&self) -> bool {
        self.door.down_trylock() && self.enter_or_leave()
    }

    /// With the door held: becomes the writer if no reader is inside, otherwise releases the door.
    /// Returns whether it became the writer.
    fn enter_or_leave(&self) -> bool {
        // Acquire pairs with the releases of the previous owners.
        let free = self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok();
        if !free {
            self.door.up();
        }
        free
    }

    /// Releases a lock acquired by [`Self::write`].
    #[inline]
    pub fn write_unlock(&self) {
        // No task changes the word (I2). Release pairs with the acquire of the next owner.
        self.word.store(0, Release);
        self.door.up();
    }

    /// Acquires the lock for reading, with the right to [`Self::upgrade`]: excludes writers and
    /// other upgradable readers.
    pub fn upgradable(&self) {
        self.door.down();
        // As in `read_slow`: Acquire pairs with the release in `write_unlock`.
        self.word.fetch_add(READER, Acquire);
    }

    /// [`Self::upgradable`] if it need not wait. Returns whether it did.
    pub fn try_upgradable(&self) -> bool {
        let taken = self.door.down_trylock();
        if taken {
            // Acquire, as in `upgradable`.
            self.word.fetch_add(READER, Acquire);
        }
        taken
    }

    /// Releases a lock acquired by [`Self::upgradable`].
    pub fn upgradable_unlock(&self) {
        // No writer waits for the readers, because this task owns the door.
        self.read_unlock();
        self.door.up();
    }

    /// Turns an [upgradable](Self::upgradable) lock into a [write](Self::write) lock. Waits until
    /// the other readers have left.
    pub fn upgrade(&self) {
        // Acquire pairs with the releases of the previous owners.
        if self.word.fetch_add(WRITER.wrapping_sub(READER), Acquire) != READER {
            let waited = self.wait_for_readers(Sleep::Uninterruptible, None);
            debug_assert!(waited.is_ok(), "nothing ends this wait but the readers");
        }
    }

    /// [`Self::upgrade`] if there are no other readers. Returns whether it succeeded.
    pub fn try_upgrade(&self) -> bool {
        // Acquire, as in `upgrade`.
        self.word.compare_exchange(READER, WRITER, Acquire, Relaxed).is_ok()
    }

    /// Turns a [write](Self::write) lock into an [upgradable](Self::upgradable) lock.
    pub fn downgrade_to_upgradable(&self) {
        // No reader can have entered. Release pairs with the acquire of the readers that enter
        // next.
        self.word.store(READER, Release);
    }

    /// Turns an [upgradable](Self::upgradable) lock into a [read](Self::read) lock.
    pub fn upgradable_to_read(&self) {
        self.door.up();
    }

    /// Turns a [write](Self::write) lock into a [read](Self::read) lock.
    pub fn downgrade(&self) {
        self.downgrade_to_upgradable();
        self.upgradable_to_read();
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_to_read_does_not_pass_a_writer_that_waits() {
        let lock = NativeQuotaRwLock::native();
        lock.read();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lock.write();
                lock.write_unlock();
            });
            // Relaxed: only reads the flag.
            while lock.word.load(Relaxed) & WAITS == 0 {
                std::thread::yield_now();
            }
            assert!(!lock.try_read());
            lock.read_unlock();
        });
        assert!(lock.try_read());
    }
}
