//! The memory orderings of the locks, under loom: every value that the C11 memory model admits,
//! sequentially consistent accesses excepted, in every order with at most [`PREEMPTIONS`]
//! preemptions.
//!
//! `Loom` is one more platform, so the source under test is the one that ships. It needs no
//! `cfg(loom)`: loom's own types are used here and nowhere else. Loom has no futex; sleeping is
//! built on its mutex and condition variable, which order more than a futex promises. So the
//! orderings of the fast paths are checked fully, those of the way into and out of a sleep only as
//! far as no sleep lies between; the checker of `convoy-checker` explores the interleavings there.

use convoy_sync::{
    Access, AdaptiveLock, ArchSemaphore, Atomic, Handoff, InTurn, LockEvent, LookFirst,
    LookFirstInTurn, Mutex, Platform, RawLock, RawSemaphore, RwLock, RwSemaphore, Semaphore, Sleep,
    Spinners, SpinningMutex, TasLock, TaskId, TicketLock, Wake,
};
use loom::cell::UnsafeCell;
use std::sync::atomic::Ordering;

/// Preemptions in one execution; loom's authors found that few bugs need more than two.
const PREEMPTIONS: usize = 2;

loom::lazy_static! {
    /// Where tasks sleep.
    static ref BED: (loom::sync::Mutex<()>, loom::sync::Condvar) =
        (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
}

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(body);
}

/// Loom as a platform; `WEAK` takes every ordering away, to show that loom would notice.
struct Loom<const WEAK: bool>;

struct Word<A, const WEAK: bool>(A);

const fn strength<const WEAK: bool>(order: Ordering) -> Ordering {
    if WEAK { Ordering::Relaxed } else { order }
}

macro_rules! word {
    ($int:ty, $atomic:ty) => {
        impl<const WEAK: bool> Atomic<$int> for Word<$atomic, WEAK> {
            fn new(value: $int) -> Self {
                Self(<$atomic>::new(value))
            }
            fn load(&self, order: Ordering) -> $int {
                self.0.load(strength::<WEAK>(order))
            }
            fn store(&self, value: $int, order: Ordering) {
                self.0.store(value, strength::<WEAK>(order));
            }
            fn swap(&self, value: $int, order: Ordering) -> $int {
                self.0.swap(value, strength::<WEAK>(order))
            }
            fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                let success = strength::<WEAK>(success);
                self.0.compare_exchange(current, new, success, strength::<WEAK>(failure))
            }
            fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_add(value, strength::<WEAK>(order))
            }
            fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_sub(value, strength::<WEAK>(order))
            }
            fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_or(value, strength::<WEAK>(order))
            }
            fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_and(value, strength::<WEAK>(order))
            }
        }
    };
}

word!(u8, loom::sync::atomic::AtomicU8);
word!(u32, loom::sync::atomic::AtomicU32);
word!(usize, loom::sync::atomic::AtomicUsize);

impl<const WEAK: bool> Platform for Loom<WEAK> {
    type AtomicU8 = Word<loom::sync::atomic::AtomicU8, WEAK>;
    type AtomicU32 = Word<loom::sync::atomic::AtomicU32, WEAK>;
    type AtomicUsize = Word<loom::sync::atomic::AtomicUsize, WEAK>;
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
    fn wait(word: &Self::AtomicU32, expected: u32, _: Sleep, _: Option<u64>) -> Wake {
        let bed = BED.0.lock().expect("nobody panics while holding it");
        if word.load(Ordering::Relaxed) == expected {
            drop(BED.1.wait(bed).expect("nobody panics while holding it"));
        }
        Wake::Woken
    }
    fn wake(_: &Self::AtomicU32, _: usize) {
        // Everybody, since the condition variable is shared: the others wake spuriously.
        let bed = BED.0.lock().expect("nobody panics while holding it");
        BED.1.notify_all();
        drop(bed);
    }
    fn signal_pending(_: Sleep) -> bool {
        false
    }
    fn current() -> TaskId {
        0
    }
    fn cpu() -> u32 {
        0
    }
    fn on_cpu(_: TaskId) -> bool {
        true
    }
    fn need_resched() -> bool {
        false
    }
    fn irq_save() {}
    fn irq_restore((): ()) {}
    fn preempt_disable() {}
    fn preempt_enable() {}
    fn place<T>(value: T) -> Box<T> {
        Box::new(value)
    }
    fn touch<T: ?Sized>(_: &T, _: Access) {}
    fn event<T: ?Sized>(_: LockEvent, _: &T, _: TaskId) {}
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

/// A sleeping lock with one owner as a [`RawLock`], for [`excludes`].
macro_rules! sleeping {
    ($name:ident, $lock:ty, $new:expr, $lock_it:ident, $try_it:ident, $unlock_it:ident) => {
        struct $name<const WEAK: bool>($lock);
        impl<const WEAK: bool> RawLock<Loom<WEAK>> for $name<WEAK> {
            fn new() -> Self {
                Self($new)
            }
            fn lock(&self) {
                self.0.$lock_it();
            }
            fn try_lock(&self) -> bool {
                self.0.$try_it()
            }
            fn unlock(&self) {
                self.0.$unlock_it();
            }
            fn is_locked(&self) -> bool {
                false
            }
        }
    };
}

sleeping!(Sleeping, Mutex<Loom<WEAK>>, Mutex::new(), lock, try_lock, unlock);
sleeping!(
    Spinning,
    SpinningMutex<Loom<WEAK>, LookFirst>,
    SpinningMutex::new(),
    lock,
    try_lock,
    unlock
);
sleeping!(
    SpinningInTurn,
    SpinningMutex<Loom<WEAK>, LookFirstInTurn>,
    SpinningMutex::new(),
    lock,
    try_lock,
    unlock
);
sleeping!(Arch, ArchSemaphore<Loom<WEAK>>, ArchSemaphore::new(1), down, down_trylock, up);
sleeping!(Counting, Semaphore<Loom<WEAK>>, Semaphore::new(1), down, down_trylock, up);
sleeping!(HandedOff, Semaphore<Loom<WEAK>, Handoff>, Semaphore::new(1), down, down_trylock, up);

/// Two threads take the lock; one of them by `try_lock` until it succeeds if `attempts`.
fn excludes<L, const WEAK: bool>(attempts: bool)
where
    L: RawLock<Loom<WEAK>> + Send + Sync,
{
    model(move || {
        let guarded = loom::sync::Arc::new(Guarded { lock: L::new(), value: UnsafeCell::new(0) });
        let other = loom::sync::Arc::clone(&guarded);
        let thread = loom::thread::spawn(move || {
            if attempts {
                while !other.lock.try_lock() {
                    loom::thread::yield_now();
                }
            } else {
                other.lock.lock();
            }
            other.increment();
            other.lock.unlock();
        });
        guarded.lock.lock();
        guarded.increment();
        guarded.lock.unlock();
        thread.join().expect("the thread does not panic");
        guarded.lock.lock();
        assert_eq!(guarded.get(), 2);
        guarded.lock.unlock();
    });
}

/// Two threads that spin in turn, one of them twice.
fn turns<const WEAK: bool>() {
    model(|| {
        let lock = InTurn::<Loom<WEAK>>::new();
        let guarded = loom::sync::Arc::new(Guarded { lock, value: UnsafeCell::new(0) });
        let other = loom::sync::Arc::clone(&guarded);
        let thread = loom::thread::spawn(move || other.lock.in_turn(|| other.increment()));
        guarded.lock.in_turn(|| guarded.increment());
        guarded.lock.in_turn(|| guarded.increment());
        thread.join().expect("the thread does not panic");
        assert_eq!(guarded.lock.in_turn(|| guarded.get()), 3);
    });
}

fn sleeping_reader_and_writer<const WEAK: bool>() {
    model(|| {
        let lock = RwSemaphore::<Loom<WEAK>>::new();
        let guarded = loom::sync::Arc::new(Guarded { lock, value: UnsafeCell::new(0) });
        let other = loom::sync::Arc::clone(&guarded);
        let thread = loom::thread::spawn(move || {
            other.lock.down_write();
            other.increment();
            other.lock.up_write();
        });
        guarded.lock.down_read();
        let seen = guarded.get();
        guarded.lock.up_read();
        assert!(seen <= 1);
        thread.join().expect("the thread does not panic");
    });
}

fn readers_and_a_writer<const WEAK: bool>() {
    model(|| {
        let lock = RwLock::<Loom<WEAK>>::new();
        let guarded = loom::sync::Arc::new(Guarded { lock, value: UnsafeCell::new(0) });
        let other = loom::sync::Arc::clone(&guarded);
        let thread = loom::thread::spawn(move || {
            other.lock.write();
            other.increment();
            other.lock.write_unlock();
        });
        guarded.lock.read();
        let seen = guarded.get();
        guarded.lock.read_unlock();
        assert!(seen <= 1);
        thread.join().expect("the thread does not panic");
    });
}

#[test]
fn test_and_set() {
    excludes::<TasLock<Loom<false>>, false>(false);
    excludes::<TasLock<Loom<false>>, false>(true);
}

#[test]
fn ticket() {
    excludes::<TicketLock<Loom<false>>, false>(false);
    excludes::<TicketLock<Loom<false>>, false>(true);
}

#[test]
fn reader_writer() {
    readers_and_a_writer::<false>();
}

#[test]
fn adaptive() {
    excludes::<AdaptiveLock<Loom<false>>, false>(false);
}

#[test]
fn mutex() {
    excludes::<Sleeping<false>, false>(false);
}

#[test]
fn spinning_mutex() {
    excludes::<Spinning<false>, false>(false);
}

#[test]
fn spinning_mutex_in_turn() {
    excludes::<SpinningInTurn<false>, false>(false);
}

#[test]
fn spinners_in_turn() {
    turns::<false>();
}

#[test]
fn semaphore_arch() {
    excludes::<Arch<false>, false>(false);
}

#[test]
fn semaphore_opportunistic() {
    excludes::<Counting<false>, false>(false);
}

#[test]
fn semaphore_handoff() {
    excludes::<HandedOff<false>, false>(false);
}

#[test]
fn sleeping_reader_writer() {
    sleeping_reader_and_writer::<false>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_mutex_without_orderings_is_caught() {
    excludes::<Sleeping<true>, true>(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_spinning_mutex_without_orderings_is_caught() {
    excludes::<Spinning<true>, true>(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn turns_without_orderings_are_caught() {
    turns::<true>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn an_arch_semaphore_without_orderings_is_caught() {
    excludes::<Arch<true>, true>(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_sleeping_reader_writer_lock_without_orderings_is_caught() {
    sleeping_reader_and_writer::<true>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_test_and_set_lock_without_orderings_is_caught() {
    excludes::<TasLock<Loom<true>>, true>(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_ticket_lock_without_orderings_is_caught() {
    excludes::<TicketLock<Loom<true>>, true>(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_reader_writer_lock_without_orderings_is_caught() {
    readers_and_a_writer::<true>();
}
