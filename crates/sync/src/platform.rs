//! The interface between a lock and the machine on which it runs.
//!
//! Every lock of this crate is generic over [`Platform`]. Three machines implement it: `Native`
//! (threads and futex), `Smp` (the virtual machine, crate `convoy-machine`) and `Model` (the
//! checker, crate `convoy-checker`). All functions are associated functions, so a lock does not
//! store its platform, and the native machine code equals a hand-written lock's.
//!
//! # Rules that keep one source true on three machines
//!
//! - A scheduling point lies *before* each atomic operation and each call of [`Platform::wait`],
//!   [`Platform::wake`] and [`Platform::spin_until`].
//! - Waiting in a loop is always [`Platform::spin_until`]: on `Smp` and `Model` it means *blocked
//!   until that word changes*, never a loop of events.
//! - No decision may depend on a real address or on the clock of the host.

use crate::monitor::Monitor;
use crate::quota::Turn;
use core::ops::{BitAnd, BitOr, Deref};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

pub use crate::kinds::{Access, Sleep, TaskId, Wake};

/// The integer type of a platform's word.
pub trait Integer: Copy + Eq + BitOr<Output = Self> + BitAnd<Output = Self> {
    /// Returns the sum, modulo the size of the type.
    #[must_use]
    fn wrapping_add(self, other: Self) -> Self;
    /// Returns the difference, likewise.
    #[must_use]
    fn wrapping_sub(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($int:ty),+) => {
        $(impl Integer for $int {
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        })+
    };
}
integers!(u8, u32, u64, usize);

/// One atomic word of a platform.
///
/// The operations of [`core::sync::atomic`]; orderings are honoured by `Native` and `Model`, while
/// `Smp` executes every operation sequentially consistent. A platform that simulates its words
/// implements the first four and [`Self::modify`].
pub trait Atomic<T: Integer>: Sized {
    /// Returns a word holding `value`.
    fn new(value: T) -> Self;
    /// Reads the word.
    fn load(&self, order: Ordering) -> T;
    /// Returns the value of a word in the line of the word that [`Platform::spin_until`] reads, for
    /// use in its condition; it has no further cost and no ordering.
    #[inline]
    fn peek(&self) -> T {
        self.load(Ordering::Relaxed)
    }
    /// Writes the word.
    fn store(&self, value: T, order: Ordering);
    /// Replaces the value by the result of `change`, in one atomic step. Returns the previous
    /// value.
    fn modify(&self, order: Ordering, change: impl Fn(T) -> T) -> T;
    /// Writes the word and returns the previous value.
    #[inline]
    fn swap(&self, value: T, order: Ordering) -> T {
        self.modify(order, |_| value)
    }
    /// Replaces `current` by `new`, or returns `Err` with the current value. The default takes the
    /// word for writing even when it fails, as a locked instruction does.
    #[inline]
    fn compare_exchange(
        &self,
        current: T,
        new: T,
        success: Ordering,
        _failure: Ordering,
    ) -> Result<T, T> {
        let held = self.modify(success, |held| if held == current { new } else { held });
        if held == current { Ok(held) } else { Err(held) }
    }
    /// Adds (wrapping) and returns the previous value.
    #[inline]
    fn fetch_add(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held.wrapping_add(value))
    }
    /// Subtracts (wrapping) and returns the previous value.
    #[inline]
    fn fetch_sub(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held.wrapping_sub(value))
    }
    /// Bitwise or. Returns the previous value.
    #[inline]
    fn fetch_or(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held | value)
    }
    /// Bitwise and. Returns the previous value.
    #[inline]
    fn fetch_and(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held & value)
    }
}

/// Functions of a [`Platform`] that are not available in user space: the scheduler and interrupts;
/// with `unobserved`, also the reports of memory accesses and events. Expands to functions inside
/// the implementation, without interrupt flags: `type IrqFlags = ()`.
#[macro_export]
macro_rules! user_space {
    () => {
        #[inline(always)]
        fn on_cpu(_: $crate::TaskId) -> bool {
            true
        }
        #[inline(always)]
        fn need_resched() -> bool {
            false
        }
        #[inline(always)]
        fn irq_save() {}
        #[inline(always)]
        fn irq_restore((): ()) {}
        #[inline(always)]
        fn preempt_disable() {}
        #[inline(always)]
        fn preempt_enable() {}
    };
    (unobserved) => {
        $crate::user_space!();
        #[inline(always)]
        fn touch<T: ?Sized>(_: &T, _: $crate::Access) {}
        #[inline(always)]
        fn event<T: ?Sized>(_: $crate::LockEvent, _: &T, _: $crate::TaskId) {}
        #[inline(always)]
        fn happened<T: ?Sized>(_: $crate::LockEvent, _: &T) {}
    };
}

/// Implements [`Atomic`] for atomics of `core`, for machines whose words they are.
macro_rules! atomic_words {
    ($($word:ty: $int:ty),+) => {
        $(impl Atomic<$int> for $word {
            #[inline(always)]
            fn new(value: $int) -> Self {
                Self::new(value)
            }
            #[inline(always)]
            fn load(&self, order: Ordering) -> $int {
                Self::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $int, order: Ordering) {
                Self::store(self, value, order);
            }
            fn modify(&self, order: Ordering, change: impl Fn($int) -> $int) -> $int {
                // Relaxed: the value that a failed attempt has seen is not used.
                let held = Self::fetch_update(self, order, Ordering::Relaxed, |held| {
                    Some(change(held))
                });
                held.expect("the change is never refused")
            }
            #[inline(always)]
            fn swap(&self, value: $int, order: Ordering) -> $int {
                Self::swap(self, value, order)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                Self::compare_exchange(self, current, new, success, failure)
            }
            atomic_words! { @ $int: fetch_add fetch_sub fetch_or fetch_and }
        })+
    };
    (@ $int:ty: $($fetch:ident)+) => {
        $(#[inline(always)]
        fn $fetch(&self, value: $int, order: Ordering) -> $int {
            Self::$fetch(self, value, order)
        })+
    };
}
atomic_words!(AtomicU8: u8, AtomicU32: u32, AtomicUsize: usize);

/// Reads of a word, or pauses, between two readings of the clock, if the clock is cheap.
pub const LOOKS_PER_CLOCK: u32 = 8;

/// Reads of the first word between two reads of the second in [`Platform::spin_until_either`]: less
/// than a microsecond, and a preempted task is off its CPU for milliseconds.
pub const LOOKS_PER_OTHER: u32 = 32;

/// [`Platform::spin_for`], with `looks` reads of the word between two readings of the clock.
#[inline]
pub fn spin_by_clock<P: Platform>(
    looks: u32,
    word: &P::AtomicU32,
    until: u64,
    done: impl Fn(u32) -> bool,
) -> u32 {
    loop {
        for _ in 0..looks {
            // Relaxed: the caller orders.
            let value = word.load(Ordering::Relaxed);
            if done(value) {
                return value;
            }
            P::spin_hint();
        }
        if P::now() >= until {
            // Relaxed, as above.
            return word.load(Ordering::Relaxed);
        }
    }
}

/// [`Platform::give_way`] of user space: [`Platform::spin_for`] that calls `yield_now` between its
/// looks, except for the first.
#[inline]
pub fn yield_by_clock<P: Platform>(
    word: &P::AtomicU32,
    until: u64,
    done: impl Fn(u32) -> bool,
    yield_now: impl Fn(),
) -> u32 {
    loop {
        if let Some(value) = P::spin_looks(word, LOOKS_PER_CLOCK, &done) {
            return value;
        }
        if P::now() >= until {
            // Relaxed: the caller orders.
            return word.load(Ordering::Relaxed);
        }
        yield_now();
    }
}

/// Operations that a lock needs from its machine. See the module documentation.
pub trait Platform: Sized + 'static {
    /// 8-bit word.
    type AtomicU8: Atomic<u8>;
    /// 32-bit word. Only these can be waited for.
    type AtomicU32: Atomic<u32>;
    /// Pointer-sized word.
    type AtomicUsize: Atomic<usize>;
    /// Saved interrupt state.
    type IrqFlags: Copy;
    /// An object in the memory of the machine, see [`Self::place`].
    type Home<T>: Deref<Target = T>;

    /// Returns the time since an arbitrary start, in nanoseconds, monotonic.
    fn now() -> u64;

    /// A fence of [`core::sync::atomic`].
    #[inline(always)]
    fn fence(order: Ordering) {
        core::sync::atomic::fence(order);
    }

    /// A pause between two reads of a word that cannot be expressed by [`Self::spin_until`].
    fn spin_hint();

    /// Spins until `done` holds for the value of `word`. Returns that value (loaded with acquire
    /// ordering). `done` uses no words and no other operation of the platform than questions.
    fn spin_until(word: &Self::AtomicU32, done: impl Fn(u32) -> bool) -> u32;

    /// As [`Self::spin_until`] for a word that shall have one value.
    #[inline]
    fn spin_until_is(word: &Self::AtomicU32, value: u32) {
        Self::spin_until(word, |held| held == value);
    }

    /// Reads `word` until `done` holds for its value, at most `looks` times, with a pause after
    /// each unsuccessful read. Returns that value, loaded without ordering, or `None` after the
    /// last read. `done` obeys the rules of [`Self::spin_until`].
    #[inline]
    fn spin_looks(word: &Self::AtomicU32, looks: u32, done: impl Fn(u32) -> bool) -> Option<u32> {
        for _ in 0..looks {
            // Relaxed: the caller orders.
            let value = word.load(Ordering::Relaxed);
            if done(value) {
                return Some(value);
            }
            Self::spin_hint();
        }
        None
    }

    /// Spins until `done` holds for the values of `word` and `other`. Reads `other`, which orders
    /// nothing, once in [`LOOKS_PER_OTHER`] looks at `word`.
    fn spin_until_either(
        word: &Self::AtomicU32,
        other: &Self::AtomicU32,
        done: impl Fn(u32, u32) -> bool,
    ) {
        loop {
            // Relaxed: see above.
            let beside = other.load(Ordering::Relaxed);
            if Self::spin_looks(word, LOOKS_PER_OTHER, |value| done(value, beside)).is_some() {
                // Acquire pairs with the release store that ended the wait.
                word.load(Ordering::Acquire);
                return;
            }
        }
    }

    /// Returns the monitor of critical sections with the marks of `task`, if the scheduler has one.
    fn monitor<'a>(_task: TaskId) -> Option<Monitor<'a, Self::AtomicU32>> {
        None
    }

    /// Asks the scheduler not to preempt the calling task for a short time, until
    /// [`Self::end_extension`]; nests. Does nothing where the scheduler does not offer it.
    #[inline]
    fn request_extension() {}

    /// Ends one [`Self::request_extension`], and yields the CPU that the task has kept by it.
    #[inline]
    fn end_extension() {}

    /// One pause of a loop that makes an attempt in each iteration, for which [`Self::spin_until`]
    /// would wait too long. `worthwhile` decides from the value of `word` whether another attempt
    /// may succeed; it obeys the rules of [`Self::spin_until`]. The checker blocks until it holds,
    /// because failed attempts have no effect there.
    #[inline]
    fn pause_for(word: &Self::AtomicU32, worthwhile: impl Fn(u32) -> bool) {
        let _turns_cost_time = (word, worthwhile);
        Self::spin_hint();
    }

    /// Spins until `done` holds for the value of `word` or [`Self::now`] has reached `until`.
    /// Returns the last value, loaded without ordering. `done` obeys the rules of
    /// [`Self::spin_until`]. The checker reads the word once: it decides when time passes.
    fn spin_for(word: &Self::AtomicU32, until: u64, done: impl Fn(u32) -> bool) -> u32 {
        spin_by_clock::<Self>(LOOKS_PER_CLOCK, word, until, done)
    }

    /// Spins until [`Self::now`] has reached `until`, and reads no word: other CPUs keep the lines
    /// that they use.
    fn stand_back(until: u64) {
        loop {
            for _ in 0..LOOKS_PER_CLOCK {
                Self::spin_hint();
            }
            if Self::now() >= until {
                return;
            }
        }
    }

    /// [`Self::spin_for`], where the word changes once a task that was just woken has run: lets
    /// that task have this CPU if it waits for it.
    #[inline]
    fn give_way(word: &Self::AtomicU32, until: u64, done: impl Fn(u32) -> bool) -> u32 {
        Self::spin_for(word, until, done)
    }

    /// Returns the turn that [`Self::set_turn`] stored for the calling task. A platform that stores
    /// nothing begins a new turn each time, and no turn ends.
    #[inline]
    fn turn() -> Turn {
        Turn::default()
    }

    /// Keeps `turn` for the calling task.
    #[inline]
    fn set_turn(_turn: Turn) {}

    /// Returns whether a time limit that a lock sets itself has passed, which the clock reports as
    /// `passed`. The checker decides that itself, because it decides when time passes.
    #[inline]
    fn is_late(passed: bool) -> bool {
        passed
    }

    /// Returns whether the calling task has a real-time priority, for which other tasks must wait.
    #[inline]
    fn is_real_time() -> bool {
        false
    }

    /// Keeps signals from the calling thread until [`Self::admit_signals`]; what were kept before.
    /// For platforms with signal handlers that acquire locks.
    fn keep_signals() -> u64 {
        0
    }

    /// Admits all signals but those that were `kept` before.
    fn admit_signals(_kept: u64) {}

    /// Returns whether the caller is a signal handler that interrupted the calling thread between
    /// [`Self::keep_signals`] and [`Self::admit_signals`], on platforms that let handlers run
    /// there: it must not lock a queue, which its own thread may have locked.
    #[inline]
    fn interrupts_queue() -> bool {
        false
    }

    /// Called if such a handler released a unit and could not wake a waiter: the interrupted thread
    /// does so.
    #[inline]
    fn postpone_wakeup() {}

    /// Sleeps while `word` holds `expected`, until [`Self::wake`], a signal admitted by `sleep`, or
    /// `deadline` (in [`Self::now`] nanoseconds). The comparison and the going to sleep are one
    /// step for [`Self::wake`].
    fn wait(word: &Self::AtomicU32, expected: u32, sleep: Sleep, deadline: Option<u64>) -> Wake;

    /// Wakes up to `count` tasks that sleep on `word`, in the order in which they went to sleep.
    /// Only the address counts: the waiter may have seen the word change, and have freed it.
    fn wake(word: *const Self::AtomicU32, count: usize);

    /// Returns whether a pending signal would end `sleep` immediately.
    fn signal_pending(sleep: Sleep) -> bool;

    /// Returns the calling task.
    fn current() -> TaskId;

    /// Returns the CPU that the caller runs on; a hint unless preemption is disabled.
    fn cpu() -> u32;

    /// Returns whether `task` is on a CPU now; a hint. Returns `true` if the platform cannot know.
    fn on_cpu(task: TaskId) -> bool;

    /// Returns whether the scheduler wants this CPU for another task.
    fn need_resched() -> bool;

    /// Tasks that run on this CPU or wait for it, the caller included. 1 where the platform cannot
    /// know.
    #[inline]
    fn runnable_here() -> u32 {
        1
    }

    /// Tasks of the machine that run, want to run, or sleep uninterruptibly, as counted for the
    /// load average: a few seconds old. 0 where the platform cannot know.
    #[inline]
    fn active_tasks() -> u64 {
        0
    }

    /// CPUs of the machine. 1 where the platform cannot know.
    #[inline]
    fn cpus() -> u32 {
        1
    }

    /// Returns the package of the CPU that runs the calling task; a hint. Returns 0 if the platform
    /// cannot know.
    #[inline]
    fn package() -> u32 {
        0
    }

    /// Disables interrupts on this CPU, where there are any.
    fn irq_save() -> Self::IrqFlags;

    /// Restores what [`Self::irq_save`] returned.
    fn irq_restore(flags: Self::IrqFlags);

    /// Forbids involuntary preemption of this task; nests.
    fn preempt_disable();

    /// Ends one [`Self::preempt_disable`].
    fn preempt_enable();

    /// Moves `value` into the memory of the machine, from the start of a cache line where lines are
    /// simulated. For structures that allocate once; no lock does.
    fn place<T>(value: T) -> Self::Home<T>;

    /// Reports an access to the memory behind `start`; free on the native platform, priced by cache
    /// state on `Smp`.
    fn touch<T: ?Sized>(start: &T, access: Access);

    /// Records `event` of the lock at `lock` for `task` (the caller unless the event names
    /// another).
    fn event<T: ?Sized>(event: crate::LockEvent, lock: &T, task: TaskId);

    /// [`Self::event`] of the calling task. On platforms without events the task is not queried,
    /// which would be half the cost of a lock.
    #[inline(always)]
    fn happened<T: ?Sized>(event: crate::LockEvent, lock: &T) {
        Self::event(event, lock, Self::current());
    }
}
