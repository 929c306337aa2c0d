//! The seam under a lock: what a lock may ask of the machine it runs on.
//!
//! Every lock of this crate is generic over [`Platform`]. Three machines implement it: `Native`
//! (threads and futex), `Smp` (the virtual machine, crate `convoy-machine`) and `Model` (the
//! checker, crate `convoy-checker`). All functions are associated functions, so a lock has no field
//! for its platform and the native machine code is the one a hand-written lock would have.
//!
//! # Rules that keep one source true on three machines
//!
//! - A scheduling point lies *before* each atomic operation and each call of [`Platform::wait`],
//!   [`Platform::wake`] and [`Platform::spin_until`].
//! - Waiting in a loop is always [`Platform::spin_until`]: on `Smp` and `Model` it means *blocked
//!   until that word changes*, never a loop of events.
//! - No decision may depend on a real address or on the clock of the host.

use crate::quota::Turn;
use core::ops::{BitAnd, BitOr, Deref};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// What a word of a platform holds.
pub trait Integer: Copy + Eq + BitOr<Output = Self> + BitAnd<Output = Self> {
    /// The sum, modulo the size of the type.
    #[must_use]
    fn wrapping_add(self, other: Self) -> Self;
    /// The difference, likewise.
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
integers!(u8, u32, usize);

/// One atomic word of a platform.
///
/// The operations are those of [`core::sync::atomic`]; orderings are honoured by `Native` and by
/// loom, while `Smp` and `Model` execute every operation sequentially consistent. A platform that
/// simulates its words writes the first four and [`Self::modify`]; the words of a language come by
/// [`atomic_words!`](crate::atomic_words).
pub trait Atomic<T: Integer>: Sized {
    /// A word holding `value`.
    fn new(value: T) -> Self;
    /// Reads the word.
    fn load(&self, order: Ordering) -> T;
    /// The value of a word that lies in the line of the word that [`Platform::spin_until`] looks
    /// at, for use in its condition; costs nothing beyond that look and orders nothing.
    #[inline]
    fn peek(&self) -> T {
        self.load(Ordering::Relaxed)
    }
    /// Writes the word.
    fn store(&self, value: T, order: Ordering);
    /// Replaces what the word held by what `change` makes of it, in one step; returns what it held.
    fn modify(&self, order: Ordering, change: impl Fn(T) -> T) -> T;
    /// Writes the word, returns what it held.
    #[inline]
    fn swap(&self, value: T, order: Ordering) -> T {
        self.modify(order, |_| value)
    }
    /// Replaces `current` by `new`, or returns `Err` with what the word holds. The default takes
    /// the word for writing even when it fails, as a locked instruction does.
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
    /// Adds (wrapping), returns what the word held.
    #[inline]
    fn fetch_add(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held.wrapping_add(value))
    }
    /// Subtracts (wrapping), returns what the word held.
    #[inline]
    fn fetch_sub(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held.wrapping_sub(value))
    }
    /// Bitwise or, returns what the word held.
    #[inline]
    fn fetch_or(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held | value)
    }
    /// Bitwise and, returns what the word held.
    #[inline]
    fn fetch_and(&self, value: T, order: Ordering) -> T {
        self.modify(order, |held| held & value)
    }
}

/// What a [`Platform`] is asked that a program in user space cannot know or do: the scheduler and
/// interrupts; with `unobserved`, also that nobody is told of memory and events. Stands among the
/// functions of the implementation, which has no interrupt flags: `type IrqFlags = ()`.
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

/// Implements `Atomic` by the functions of an atomic of the same shape as those of
/// [`core::sync::atomic`]: `atomic_words!([generics] word: int = atomic; order)`, where `word` is
/// `atomic` or dereferences to it, and the function `order` changes each ordering.
#[macro_export]
macro_rules! atomic_words {
    ($generics:tt $($word:ty: $int:ty = $atomic:ty),+; $order:expr) => {
        $($crate::atomic_words! { @word $generics $word, $int, $atomic, $order })+
    };
    (@word [$($generics:tt)*] $word:ty, $int:ty, $atomic:ty, $order:expr) => {
        impl<$($generics)*> $crate::Atomic<$int> for $word {
            #[inline(always)]
            fn new(value: $int) -> Self {
                <$atomic>::new(value).into()
            }
            #[inline(always)]
            fn load(&self, order: Ordering) -> $int {
                <$atomic>::load(self, $order(order))
            }
            #[inline(always)]
            fn store(&self, value: $int, order: Ordering) {
                <$atomic>::store(self, value, $order(order));
            }
            fn modify(&self, order: Ordering, change: impl Fn($int) -> $int) -> $int {
                // Relaxed: what a failed attempt has seen is not used.
                let (success, failure) = ($order(order), Ordering::Relaxed);
                let change = |held| Some(change(held));
                let held = <$atomic>::fetch_update(self, success, failure, change);
                held.expect("the change is never refused")
            }
            #[inline(always)]
            fn swap(&self, value: $int, order: Ordering) -> $int {
                <$atomic>::swap(self, value, $order(order))
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                <$atomic>::compare_exchange(self, current, new, $order(success), $order(failure))
            }
            $crate::atomic_words! { @fetch $int, $atomic, $order;
                fetch_add fetch_sub fetch_or fetch_and }
        }
    };
    (@fetch $int:ty, $atomic:ty, $order:expr; $($fetch:ident)+) => {
        $(#[inline(always)]
        fn $fetch(&self, value: $int, order: Ordering) -> $int {
            <$atomic>::$fetch(self, value, $order(order))
        })+
    };
}

// Those of `core`, for machines whose words they are.
crate::atomic_words! {
    [] AtomicU8: u8 = AtomicU8, AtomicU32: u32 = AtomicU32, AtomicUsize: usize = AtomicUsize;
    core::convert::identity
}

/// How a task sleeps: which signals end the sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// No signal ends it (`TASK_UNINTERRUPTIBLE`).
    Uninterruptible,
    /// Any pending signal ends it (`TASK_INTERRUPTIBLE`).
    Interruptible,
    /// Only a fatal signal ends it (`TASK_KILLABLE`).
    Killable,
}

/// Why [`Platform::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Woken, or the word did not hold the expected value. May be spurious.
    Woken,
    /// A signal that the [`Sleep`] admits is pending.
    Interrupted,
    /// The deadline has passed.
    TimedOut,
}

/// What a caller is about to do with a range of memory, see [`Platform::touch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Starts to use it as private memory of this task: its lines are taken as owned by this CPU,
    /// at no cost. Stack records are touched so, because their last user is an accident of stack
    /// depth.
    Fresh,
}

/// Identity of a task on its platform; dense small numbers on `Smp` and `Model`.
pub type TaskId = u32;

/// Looks at a word between two looks at the clock, where the clock costs little.
pub const LOOKS_PER_CLOCK: u32 = 8;

/// [`Platform::spin_for`], with `looks` at the word between two looks at the clock.
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

/// What a lock may ask of the machine. See the module documentation.
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

    /// Time since an arbitrary start, in nanoseconds, monotonic.
    fn now() -> u64;

    /// A pause between two looks at a word that cannot be expressed by [`Self::spin_until`].
    fn spin_hint();

    /// Spins until `done` holds for the value of `word`; returns that value (loaded with acquire
    /// ordering). `done` uses no words and no other operation of the platform than questions.
    fn spin_until(word: &Self::AtomicU32, done: impl Fn(u32) -> bool) -> u32;

    /// As [`Self::spin_until`] for a word that shall have one value.
    #[inline]
    fn spin_until_is(word: &Self::AtomicU32, value: u32) {
        Self::spin_until(word, |held| held == value);
    }

    /// Looks at `word` until `done` holds for its value, `looks` times at most, with a pause after
    /// each look in vain. Returns that value, whose load orders nothing, or `None` after the last
    /// look. `done` obeys the rules of [`Self::spin_until`].
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

    /// One pause of a loop that tries something at each turn, for which [`Self::spin_until`] would
    /// be too patient. `worthwhile` tells from the value of `word` whether another turn may come to
    /// something; it obeys the rules of [`Self::spin_until`]. The checker blocks until it holds,
    /// because turns in vain change nothing there.
    #[inline]
    fn pause_for(word: &Self::AtomicU32, worthwhile: impl Fn(u32) -> bool) {
        let _turns_cost_time = (word, worthwhile);
        Self::spin_hint();
    }

    /// Spins until `done` holds for the value of `word` or [`Self::now`] has reached `until`;
    /// returns the last value, whose load orders nothing. `done` obeys the rules of
    /// [`Self::spin_until`]. The checker looks once: time passes there whenever it likes.
    fn spin_for(word: &Self::AtomicU32, until: u64, done: impl Fn(u32) -> bool) -> u32 {
        spin_by_clock::<Self>(LOOKS_PER_CLOCK, word, until, done)
    }

    /// What [`Self::set_turn`] left for the calling task; a platform that keeps nothing has a new
    /// turn begin each time, and none ever ends.
    #[inline]
    fn turn() -> Turn {
        Turn::default()
    }

    /// Keeps `turn` for the calling task.
    #[inline]
    fn set_turn(_turn: Turn) {}

    /// Whether a limit of time that a lock sets itself has passed, as the clock says by `passed`.
    /// The checker decides that itself: time passes there whenever it likes.
    #[inline]
    fn is_late(passed: bool) -> bool {
        passed
    }

    /// Whether the calling task has a priority of real time, before which others have to wait.
    #[inline]
    fn is_real_time() -> bool {
        false
    }

    /// Keeps signals from the calling thread until [`Self::admit_signals`]; what were kept before.
    /// For platforms whose handlers take locks.
    fn keep_signals() -> u64 {
        0
    }

    /// Admits all signals but those that were `kept` before.
    fn admit_signals(_kept: u64) {}

    /// Whether the caller is a signal handler that interrupted the calling thread between
    /// [`Self::keep_signals`] and [`Self::admit_signals`], on platforms that let handlers run
    /// there: it must not lock a queue, which its own thread may have locked.
    #[inline]
    fn interrupts_queue() -> bool {
        false
    }

    /// Such a handler gave a unit back and could not wake a waiter: the thread that it interrupted
    /// does so.
    #[inline]
    fn postpone_wakeup() {}

    /// Sleeps while `word` holds `expected`, until [`Self::wake`], a signal admitted by `sleep`, or
    /// `deadline` (in [`Self::now`] nanoseconds). The comparison and the going to sleep are one
    /// step for [`Self::wake`].
    fn wait(word: &Self::AtomicU32, expected: u32, sleep: Sleep, deadline: Option<u64>) -> Wake;

    /// Wakes up to `count` tasks that sleep on `word`, in the order in which they went to sleep.
    /// Only the address counts: whoever was to be woken may have seen the word change, and have
    /// freed it.
    fn wake(word: *const Self::AtomicU32, count: usize);

    /// Whether a signal is pending that would end `sleep` at once.
    fn signal_pending(sleep: Sleep) -> bool;

    /// The calling task.
    fn current() -> TaskId;

    /// The CPU the caller runs on; a hint unless preemption is disabled.
    fn cpu() -> u32;

    /// Whether `task` is on a CPU now; a hint. `true` where the platform cannot know.
    fn on_cpu(task: TaskId) -> bool;

    /// Whether the scheduler wants this CPU for another task.
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

    /// The package of the CPU that runs the calling task; a hint. 0 where the platform cannot know.
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

    /// Tells that the memory behind `start` is used; free natively, priced by cache state on `Smp`.
    fn touch<T: ?Sized>(start: &T, access: Access);

    /// Records `event` of the lock at `lock` for `task` (the caller unless the event names
    /// another).
    fn event<T: ?Sized>(event: crate::LockEvent, lock: &T, task: TaskId);

    /// [`Self::event`] of the calling task. Where events are nothing the task is not asked for,
    /// which would be half of what a lock costs.
    #[inline(always)]
    fn happened<T: ?Sized>(event: crate::LockEvent, lock: &T) {
        Self::event(event, lock, Self::current());
    }
}
