//! The memory orderings of the locks, under loom: every value that the C11 memory model admits,
//! sequentially consistent accesses excepted, in every order with at most [`PREEMPTIONS`]
//! preemptions.
//!
//! `Loom` is one more platform, so the source under test is the shipped source. It needs no
//! `cfg(loom)`: loom's own types are used here and nowhere else. A sleep orders nothing, like a
//! sleep on a futex: it ends when the word is seen to have changed, by a relaxed load. So a wakeup
//! is never missed here; the checker of `convoy-checker` tests that no task sleeps for good.

use convoy_sync::{
    Lock, LockName, McsQueue, Platform, Promise, Quota, QuotaCondvar, Sleep, SpinQueue, TaskId,
    TicketLock, Wake,
};
use convoy_watchdog as _;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize};
use std::sync::atomic::Ordering;

#[path = "loom/beyond.rs"]
mod beyond;

/// Preemptions in one execution; loom's authors found that few bugs need more than two.
const PREEMPTIONS: usize = 2;

fn model(body: impl Fn() + Send + Sync + 'static) {
    model_within(PREEMPTIONS, body);
}

fn model_within(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Loom as a platform; `WEAK` takes every ordering away, to show that loom would notice.
struct Loom<const WEAK: bool>;

struct Word<A, const WEAK: bool>(A);

impl<A, const WEAK: bool> From<A> for Word<A, WEAK> {
    fn from(word: A) -> Self {
        Self(word)
    }
}

impl<A, const WEAK: bool> std::ops::Deref for Word<A, WEAK> {
    type Target = A;
    fn deref(&self) -> &A {
        &self.0
    }
}

const fn strength<const WEAK: bool>(order: Ordering) -> Ordering {
    if WEAK { Ordering::Relaxed } else { order }
}

convoy_sync::atomic_words! {
    [const WEAK: bool] Word<AtomicU8, WEAK>: u8 = AtomicU8, Word<AtomicU32, WEAK>: u32 = AtomicU32,
    Word<AtomicUsize, WEAK>: usize = AtomicUsize;
    strength::<WEAK>
}

impl<const WEAK: bool> Platform for Loom<WEAK> {
    type AtomicU8 = Word<AtomicU8, WEAK>;
    type AtomicU32 = Word<AtomicU32, WEAK>;
    type AtomicUsize = Word<AtomicUsize, WEAK>;
    type IrqFlags = ();
    type Home<T> = Box<T>;

    fn now() -> u64 {
        0
    }
    fn spin_hint() {
        loom::thread::yield_now();
    }
    fn spin_until(word: &Self::AtomicU32, done: impl Fn(u32) -> bool) -> u32 {
        loop {
            let value = word.load(Ordering::Acquire);
            if done(value) {
                return value;
            }
            loom::thread::yield_now();
        }
    }
    fn spin_for(word: &Self::AtomicU32, _: u64, _: impl Fn(u32) -> bool) -> u32 {
        word.load(Ordering::Relaxed)
    }
    fn wait(word: &Self::AtomicU32, expected: u32, _: Sleep, _: Option<u64>) -> Wake {
        while word.load(Ordering::Relaxed) == expected {
            loom::thread::yield_now();
        }
        Wake::Woken
    }
    fn wake(_: *const Self::AtomicU32, _: usize) {}
    fn signal_pending(_: Sleep) -> bool {
        false
    }
    fn current() -> TaskId {
        0
    }
    fn cpu() -> u32 {
        0
    }
    fn place<T>(value: T) -> Box<T> {
        Box::new(value)
    }

    convoy_sync::user_space!(unobserved);
}

struct Guarded<L> {
    lock: L,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is reached only under `lock`; that this suffices is what loom checks here.
unsafe impl<L: Send> Send for Guarded<L> {}
// SAFETY: as above.
unsafe impl<L: Sync> Sync for Guarded<L> {}

impl<L> Guarded<L> {
    fn increment(&self) {
        self.value.with_mut(|value| {
            // SAFETY: the lock is held; loom reports it if another thread may be here.
            unsafe { *value += 1 };
        });
    }

    fn get(&self) -> u32 {
        self.value.with(|value| {
            // SAFETY: as in `increment`.
            unsafe { *value }
        })
    }
}

impl<L: Lock> Guarded<L> {
    /// Increments the value in a critical section, which calls `try_acquire` until it succeeds if
    /// `attempts`.
    fn increment_alone(&self, attempts: bool) {
        if attempts {
            while !self.lock.try_acquire() {
                loom::thread::yield_now();
            }
        } else {
            self.lock.acquire();
        }
        self.increment();
        self.lock.release();
    }
}

/// Two threads take the lock; one of them by `try_acquire` until it succeeds if `attempts`.
fn excludes<T: Lock + Send + Sync>(attempts: bool) {
    model(move || {
        let lock = T::unlocked();
        let guarded = loom::sync::Arc::new(Guarded { lock, value: UnsafeCell::new(0) });
        let shared = loom::sync::Arc::clone(&guarded);
        let thread = loom::thread::spawn(move || shared.increment_alone(attempts));
        guarded.lock.acquire();
        guarded.increment();
        guarded.lock.release();
        thread.join().expect("the thread does not panic");
        guarded.lock.acquire();
        assert_eq!(guarded.get(), 2);
        guarded.lock.release();
    });
}

/// A third thread tries the lock once while its owner leaves and a waiter comes: it may find what
/// the slow path of the owner wrote, with no inner lock and no sleep between them. It spins nowhere
/// and so leaves the lock to the main thread: two that spin would take turns at it for ever here.
/// At a semaphore all calls spin on an inner lock: with two preemptions its three tasks take turns
/// there until loom's bound on the branches of an execution is exceeded, so it gets one.
fn passes_a_waiter<T: Lock + Send + Sync>(preemptions: usize) {
    model_within(preemptions, move || {
        let lock = T::unlocked().spin_limit(1);
        let guarded = loom::sync::Arc::new(Guarded { lock, value: UnsafeCell::new(0) });
        guarded.lock.acquire();
        let other = loom::sync::Arc::clone(&guarded);
        let waits = loom::thread::spawn(move || {
            other.lock.acquire();
            other.increment();
            other.lock.release();
        });
        let other = loom::sync::Arc::clone(&guarded);
        let tries = loom::thread::spawn(move || {
            let taken = other.lock.try_acquire();
            if taken {
                other.increment();
            }
            taken
        });
        guarded.increment();
        guarded.lock.release();
        let taken = tries.join().expect("the thread does not panic");
        if taken {
            guarded.lock.release();
        }
        waits.join().expect("the thread does not panic");
        assert_eq!(guarded.get(), 2 + u32::from(taken));
    });
}

/// A reader and a concurrent writer, which calls `try_acquire` until it succeeds if `attempts`.
fn shares<T: Lock + Send + Sync>(attempts: bool) {
    model(move || {
        let lock = T::unlocked();
        let guarded = loom::sync::Arc::new(Guarded { lock, value: UnsafeCell::new(0) });
        let shared = loom::sync::Arc::clone(&guarded);
        let thread = loom::thread::spawn(move || shared.increment_alone(attempts));
        guarded.lock.acquire_shared();
        let seen = guarded.get();
        guarded.lock.release_shared();
        assert!(seen <= 1);
        thread.join().expect("the thread does not panic");
    });
}

/// Two threads that spin in turn, one of them twice.
fn turns<const WEAK: bool>() {
    model(|| {
        let lock = McsQueue::<Loom<WEAK>>::new();
        let guarded = loom::sync::Arc::new(Guarded { lock, value: UnsafeCell::new(0) });
        let other = loom::sync::Arc::clone(&guarded);
        let thread = loom::thread::spawn(move || other.lock.at_head(|| other.increment()));
        guarded.lock.at_head(|| guarded.increment());
        guarded.lock.at_head(|| guarded.increment());
        thread.join().expect("the thread does not panic");
        assert_eq!(guarded.lock.at_head(|| guarded.get()), 3);
    });
}

/// One waits at a condition variable for what another does, while a third has the lock for a while.
fn notifies<const WEAK: bool>() {
    model_within(1, || {
        let guarded = Guarded { lock: Quota::<Loom<WEAK>>::unlocked(), value: UnsafeCell::new(0) };
        let shared = loom::sync::Arc::new((guarded, QuotaCondvar::<Loom<WEAK>>::default()));
        let other = loom::sync::Arc::clone(&shared);
        let waits = loom::thread::spawn(move || {
            let (guarded, condvar) = &*other;
            guarded.lock.acquire();
            while guarded.get() == 0 {
                assert_eq!(condvar.wait(&guarded.lock, None), Ok(()));
            }
            guarded.lock.release();
        });
        let other = loom::sync::Arc::clone(&shared);
        let tries = loom::thread::spawn(move || {
            if other.0.lock.try_acquire() {
                other.0.increment();
                other.0.lock.release();
                other.1.notify_one();
            }
        });
        let (guarded, condvar) = &*shared;
        guarded.lock.acquire();
        guarded.increment();
        guarded.lock.release();
        condvar.notify_one();
        tries.join().expect("the thread does not panic");
        waits.join().expect("the thread does not panic");
    });
}

fn keeps_order<T: Lock + Send + Sync>(name: LockName) {
    // Of its fences loom sees nothing, and without them a writer can miss its wakeup; the checker
    // explores it.
    let has_fences = name == LockName::RwsemSpinLate;
    excludes::<T>(false);
    match name.family() {
        "mutex" | "rwsem" if !has_fences => passes_a_waiter::<T>(PREEMPTIONS),
        "semaphore" => passes_a_waiter::<T>(1),
        // Only those that sleep: a writer that spins for a lock taken by a third would not end.
        "rwlock" | "glibc" if name.promises_to(Promise::Timeouts) => passes_a_waiter::<T>(1),
        _ => {}
    }
    let others = [LockName::Adaptive, LockName::Rwlock, LockName::QuotaRwlock];
    if name.family() == "spinlock" || others.contains(&name) {
        excludes::<T>(true);
    }
    if name.promises_to(Promise::Shared) && !has_fences {
        shares::<T>(false);
        if others.contains(&name) {
            shares::<T>(true);
        }
    }
}

/// Each lock of the list keeps its sections in order, and does not without its orderings.
macro_rules! tests {
    ({} $($name:ident = $text:literal, $family:literal, $lock:ty, $promises:tt,
        $about:literal;)+) => {
        mod ordered {
            use super::*;
            type P = Loom<false>;
            type L = TicketLock<P>;
            $(#[test]
            fn $name() {
                keeps_order::<$lock>(LockName::$name);
            })+
        }

        mod caught_without_orderings {
            use super::*;
            type P = Loom<true>;
            type L = TicketLock<P>;
            $(#[test]
            #[should_panic(expected = "Causality violation")]
            fn $name() {
                keeps_order::<$lock>(LockName::$name);
            })+
        }
    };
}
convoy_sync::every_lock! { tests {} }

#[test]
fn spinners_in_turn() {
    turns::<false>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn turns_without_orderings_are_caught() {
    turns::<true>();
}

#[test]
fn a_condition_variable_keeps_order() {
    notifies::<false>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_condition_variable_without_orderings_is_caught() {
    notifies::<true>();
}
