//! Locks that are deliberately wrong, at least one of each family. The checker must catch each of
//! them.

mod mutex;
mod rwlock;
mod word;

use self::mutex::{AsleepBehindSpinner, SilentWaiter};
use self::rwlock::{BlindThief, LateReader};
use self::word::{WRITER, Word, sleep};
use crate::model::Model;
use crate::subject::{Subject, rcu_subject, zone_subject};
use convoy_mm::{Bulk, HoldAll};
use convoy_sync::{
    AdaptiveLock, AtMost, Atomic, Cancel, Lock, Platform, Promise, RawLock, WaitError,
    kernel::Mutex,
};
use std::sync::atomic::Ordering::SeqCst;

/// Returns every deliberately broken subject.
pub(crate) fn subjects() -> Vec<Subject> {
    use Promise::{Bounded, Fifo, Signals, Timeouts, Units};
    let mut all = vec![
        Subject::busted::<Noop>("busted-noop", "spinlock", &[], "Does nothing."),
        Subject::busted::<LoadThenStore>(
            "busted-load-then-store",
            "spinlock",
            &[],
            "Looks first and writes afterwards.",
        ),
        Subject::busted::<UnfairTicket>(
            "busted-unfair-ticket",
            "spinlock",
            &[Fifo],
            "Draws tickets, then lets in the first to arrive.",
        ),
        Subject::busted::<Mutex<Model, SilentWaiter>>(
            "busted-silent-waiter",
            "mutex",
            &[Signals],
            "A waiter trusts that the owner knows of it.",
        ),
        Subject::busted::<Mutex<Model, AsleepBehindSpinner>>(
            "busted-asleep-spinner",
            "mutex",
            &[Signals],
            "Sleeps behind the spinner, which wakes no task.",
        ),
        Subject::busted::<AdaptiveLock<Model, AtMost>>(
            "busted-unbounded",
            "mutex",
            &[Bounded],
            "Lets an owner that comes back pass a sleeper for good.",
        ),
        Subject::busted::<LostWakeup>(
            "busted-lost-wakeup",
            "semaphore",
            &[Units, Signals, Timeouts],
            "Counts its waiter too late: `up` finds none.",
        ),
        Subject::busted::<Cancelled<true, false>>(
            "busted-lose-unit",
            "semaphore",
            &[Units, Signals, Timeouts],
            "A cancelled waiter takes a unit with it.",
        ),
        Subject::busted::<Cancelled<false, true>>(
            "busted-deaf",
            "semaphore",
            &[Units, Signals, Timeouts],
            "No signal and no deadline ends a wait.",
        ),
    ];
    all.push(Subject::busted::<LostWakeup>(
        "busted-glibc-semaphore",
        "glibc",
        &[Units, Signals, Timeouts],
        "`sem_post` that looks for waiters before one counts itself.",
    ));
    all.extend(of_readers());
    all.extend(of_kernels());
    all
}

/// Returns broken reader/writer locks.
fn of_readers() -> Vec<Subject> {
    use Promise::Shared;
    vec![
        Subject::busted::<LateWriter>(
            "busted-late-writer",
            "rwlock",
            &[Shared],
            "A writer looks for readers, then keeps them out.",
        ),
        Subject::busted::<LateReader>(
            "busted-late-reader",
            "rwlock",
            &[Shared],
            "A reader waits for a writer, then looks no more.",
        ),
        Subject::busted::<BlindThief>(
            "busted-blind-thief",
            "rwsem",
            &[Shared],
            "A writer steals it, and does not see readers.",
        ),
        Subject::busted::<ForgetfulWriter>(
            "busted-forgetful-writer",
            "rwsem",
            &[Shared],
            "A writer that leaves wakes one sleeper only.",
        ),
    ]
}

/// Returns broken variants of code that only kernels have.
fn of_kernels() -> Vec<Subject> {
    vec![
        zone_subject::<DoubleUnlock>(
            "busted-double-unlock",
            "Releases the zone lock twice after a batch.",
        )
        .as_busted(),
        rcu_subject::<false>(
            "busted-rcu-preempted",
            "A grace period forgets readers that left their CPU.",
        )
        .as_busted(),
    ]
}

/// A lock that does nothing.
struct Noop;

impl Lock for Noop {
    fn with_units(_: u32) -> Self {
        Self
    }
    fn acquire(&self) {}
    fn try_acquire(&self) -> bool {
        true
    }
    fn release(&self) {}
}

/// A lock that loads its word first and stores to it afterwards.
struct LoadThenStore(Word);

impl Lock for LoadThenStore {
    fn with_units(_: u32) -> Self {
        Self(Word::new(0))
    }
    fn acquire(&self) {
        Model::spin_until(&self.0, |state| state == 0);
        self.0.store(1, SeqCst);
    }
    fn try_acquire(&self) -> bool {
        let free = self.0.load(SeqCst) == 0;
        if free {
            self.0.store(1, SeqCst);
        }
        free
    }
    fn release(&self) {
        self.0.store(0, SeqCst);
    }
}

/// A "ticket" lock that draws tickets and then admits the first task to try.
struct UnfairTicket {
    locked: Word,
    next: Word,
}

impl Lock for UnfairTicket {
    fn with_units(_: u32) -> Self {
        Self { locked: Word::new(0), next: Word::new(0) }
    }
    fn acquire(&self) {
        self.next.fetch_add(1, SeqCst);
        while self.locked.swap(1, SeqCst) == 1 {
            Model::spin_until(&self.locked, |locked| locked == 0);
        }
    }
    fn try_acquire(&self) -> bool {
        self.locked.swap(1, SeqCst) == 0
    }
    fn release(&self) {
        self.locked.store(0, SeqCst);
    }
}

/// Takes a unit of `count` if one is free. Returns whether it did.
fn take(count: &Word) -> bool {
    let mut seen = count.load(SeqCst);
    while seen > 0 {
        match count.compare_exchange(seen, seen - 1, SeqCst, SeqCst) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

/// A semaphore that counts its waiter too late: a release may find no waiter just before the waiter
/// sleeps.
struct LostWakeup {
    count: Word,
    asleep: Word,
    bell: Word,
}

impl LostWakeup {
    fn take(&self, cancel: Option<Cancel>) -> Result<(), WaitError> {
        while !take(&self.count) {
            self.asleep.fetch_add(1, SeqCst);
            // The release wakes the tasks that are counted as asleep, but no task checks the count
            // again between being counted and going to sleep.
            let slept = sleep(&self.bell, 0, cancel);
            self.asleep.fetch_sub(1, SeqCst);
            slept?;
        }
        Ok(())
    }
}

impl Lock for LostWakeup {
    fn with_units(units: u32) -> Self {
        Self { count: Word::new(units), asleep: Word::new(0), bell: Word::new(0) }
    }
    fn acquire(&self) {
        assert_eq!(self.take(None), Ok(()));
    }
    fn try_acquire(&self) -> bool {
        take(&self.count)
    }
    fn acquire_unless(&self, cancel: Cancel) -> Result<(), WaitError> {
        self.take(Some(cancel))
    }
    fn release(&self) {
        self.count.fetch_add(1, SeqCst);
        if self.asleep.load(SeqCst) > 0 {
            Model::wake(&raw const self.bell, 1);
        }
    }
}

/// A semaphore with wrong cancellation: it `LOSES` a unit that has just arrived, or it is `DEAF` to
/// the signal that should end the wait.
struct Cancelled<const LOSES: bool, const DEAF: bool>(Word);

impl<const LOSES: bool, const DEAF: bool> Lock for Cancelled<LOSES, DEAF> {
    fn with_units(units: u32) -> Self {
        Self(Word::new(units))
    }
    fn acquire(&self) {
        while !take(&self.0) {
            assert_eq!(sleep(&self.0, 0, None), Ok(()));
        }
    }
    fn try_acquire(&self) -> bool {
        take(&self.0)
    }
    fn acquire_unless(&self, cancel: Cancel) -> Result<(), WaitError> {
        while !take(&self.0) {
            if let Err(error) = sleep(&self.0, 0, (!DEAF).then_some(cancel)) {
                if LOSES {
                    take(&self.0);
                }
                return Err(error);
            }
        }
        Ok(())
    }
    fn release(&self) {
        self.0.fetch_add(1, SeqCst);
        Model::wake(&raw const self.0, usize::MAX);
    }
}

/// A reader/writer spinlock with a writer that checks for readers first and excludes them
/// afterwards.
struct LateWriter(Word);

impl Lock for LateWriter {
    fn with_units(_: u32) -> Self {
        Self(Word::new(0))
    }
    fn acquire(&self) {
        Model::spin_until(&self.0, |state| state == 0);
        self.0.fetch_or(WRITER, SeqCst);
    }
    fn try_acquire(&self) -> bool {
        self.0.compare_exchange(0, WRITER, SeqCst, SeqCst).is_ok()
    }
    fn release(&self) {
        self.0.fetch_and(!WRITER, SeqCst);
    }
    fn acquire_shared(&self) {
        while self.0.fetch_add(1, SeqCst) & WRITER != 0 {
            self.0.fetch_sub(1, SeqCst);
            Model::spin_until(&self.0, |state| state & WRITER == 0);
        }
    }
    fn release_shared(&self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A sleeping reader/writer lock in which a releasing writer wakes only one task: a reader woken in
/// this way does not wake others until it releases the lock, and others may sleep although the lock
/// is available.
struct ForgetfulWriter {
    state: Word,
    bell: Word,
}

impl ForgetfulWriter {
    fn take(&self, take: impl Fn() -> bool) {
        loop {
            let seen = self.bell.load(SeqCst);
            if take() {
                return;
            }
            let _woken = sleep(&self.bell, seen, None);
        }
    }

    fn read(&self) -> bool {
        let seen = self.state.load(SeqCst);
        seen & WRITER == 0 && self.state.compare_exchange(seen, seen + 1, SeqCst, SeqCst).is_ok()
    }
}

impl Lock for ForgetfulWriter {
    fn with_units(_: u32) -> Self {
        Self { state: Word::new(0), bell: Word::new(0) }
    }
    fn acquire(&self) {
        self.take(|| self.try_acquire());
    }
    fn try_acquire(&self) -> bool {
        self.state.compare_exchange(0, WRITER, SeqCst, SeqCst).is_ok()
    }
    fn release(&self) {
        self.state.store(0, SeqCst);
        Model::wake(&raw const self.bell, 1);
    }
    fn acquire_shared(&self) {
        self.take(|| self.read());
    }
    fn release_shared(&self) {
        self.state.fetch_sub(1, SeqCst);
        Model::wake(&raw const self.bell, 1);
    }
}

/// A zone policy that releases the lock twice after a batch.
#[derive(Clone, Copy, Default)]
struct DoubleUnlock;

impl<L: RawLock<Model>> Bulk<Model, L> for DoubleUnlock {
    fn run(&self, lock: &L, count: u32, step: impl FnMut() -> bool) -> u32 {
        let done = HoldAll.run(lock, count, step);
        lock.unlock();
        done
    }
}
