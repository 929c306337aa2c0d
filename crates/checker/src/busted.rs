//! Locks that are wrong on purpose. Each must be caught by the checker.

use crate::model::Model;
use convoy_sync::{
    AllAtOnce, Atomic, Platform, RawLock, RawSemaphore, Sleep, SpinPolicy, WaitError, Wake,
};
use std::sync::atomic::Ordering::SeqCst;

/// A lock that does nothing.
#[derive(Debug)]
pub struct NoopLock;

impl RawLock<Model> for NoopLock {
    fn new() -> Self {
        Self
    }
    fn lock(&self) {}
    fn try_lock(&self) -> bool {
        true
    }
    fn unlock(&self) {}
    fn is_locked(&self) -> bool {
        false
    }
}

type Word = <Model as Platform>::AtomicU32;

/// A lock that looks first and writes afterwards.
pub struct LoadThenStoreLock(Word);

impl RawLock<Model> for LoadThenStoreLock {
    fn new() -> Self {
        Self(Word::new(0))
    }
    fn lock(&self) {
        Model::spin_until(&self.0, |state| state == 0);
        self.0.store(1, SeqCst);
    }
    fn try_lock(&self) -> bool {
        let free = self.0.load(SeqCst) == 0;
        if free {
            self.0.store(1, SeqCst);
        }
        free
    }
    fn unlock(&self) {
        self.0.store(0, SeqCst);
    }
    fn is_locked(&self) -> bool {
        self.0.load(SeqCst) == 1
    }
}

/// A "ticket" lock that draws tickets and then lets whoever comes first in.
pub struct UnfairTicketLock {
    locked: Word,
    next: Word,
}

impl RawLock<Model> for UnfairTicketLock {
    fn new() -> Self {
        Self { locked: Word::new(0), next: Word::new(0) }
    }
    fn lock(&self) {
        self.next.fetch_add(1, SeqCst);
        while self.locked.swap(1, SeqCst) == 1 {
            Model::spin_until(&self.locked, |locked| locked == 0);
        }
    }
    fn try_lock(&self) -> bool {
        self.locked.swap(1, SeqCst) == 0
    }
    fn unlock(&self) {
        self.locked.store(0, SeqCst);
    }
    fn is_locked(&self) -> bool {
        self.locked.load(SeqCst) == 1
    }
}

/// A policy of the spinning mutex whose waiters trust that the owner knows of them, because each
/// has once counted itself: not an owner who came after the count was set anew.
#[derive(Debug)]
pub struct SilentWaiter;

impl SpinPolicy for SilentWaiter {
    type Spinners<P: Platform> = AllAtOnce;
    const LOOKS_FIRST: bool = true;

    fn announces(count: i32) -> bool {
        count > 0
    }
}

/// Takes a unit of `count` if there is one.
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

/// Takes a unit of `count`, sleeping while there is none; `None` if it was taken.
fn wait(count: &Word, sleep: Sleep, deadline: Option<u64>) -> Option<WaitError> {
    loop {
        if take(count) {
            return None;
        }
        match Model::wait(count, 0, sleep, deadline) {
            Wake::Woken => {}
            Wake::Interrupted => return Some(WaitError::Interrupted),
            Wake::TimedOut => return Some(WaitError::TimedOut),
        }
    }
}

macro_rules! busted_semaphore {
    ($name:ident) => {
        impl RawSemaphore for $name {
            fn with_count(count: u32) -> Self {
                Self::new(count)
            }
            fn down(&self) {
                assert_eq!(self.take(Sleep::Uninterruptible, None), Ok(()));
            }
            fn down_interruptible(&self) -> Result<(), WaitError> {
                self.take(Sleep::Interruptible, None)
            }
            fn down_killable(&self) -> Result<(), WaitError> {
                self.take(Sleep::Killable, None)
            }
            fn down_trylock(&self) -> bool {
                take(&self.count)
            }
            fn down_timeout(&self, timeout: u64) -> Result<(), WaitError> {
                self.take(Sleep::Uninterruptible, Some(timeout))
            }
            fn up(&self) {
                self.give();
            }
            fn free_units(&self) -> u32 {
                self.count.load(SeqCst)
            }
            fn waiters(&self) -> usize {
                0
            }
        }
    };
}

/// A semaphore that announces its waiter too late: `up` may find nobody to wake just before the
/// waiter goes to sleep.
pub struct LostWakeup {
    count: Word,
    asleep: Word,
    bell: Word,
}

impl LostWakeup {
    fn new(count: u32) -> Self {
        Self { count: Word::new(count), asleep: Word::new(0), bell: Word::new(0) }
    }

    fn take(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        while !take(&self.count) {
            self.asleep.fetch_add(1, SeqCst);
            // The bell rings for those that are counted as asleep, and nobody looks at the count
            // again between the counting and the sleep.
            let wake = Model::wait(&self.bell, 0, sleep, deadline);
            self.asleep.fetch_sub(1, SeqCst);
            match wake {
                Wake::Woken => {}
                Wake::Interrupted => return Err(WaitError::Interrupted),
                Wake::TimedOut => return Err(WaitError::TimedOut),
            }
        }
        Ok(())
    }

    fn give(&self) {
        self.count.fetch_add(1, SeqCst);
        if self.asleep.load(SeqCst) > 0 {
            Model::wake(&self.bell, 1);
        }
    }
}

busted_semaphore!(LostWakeup);

/// A semaphore whose cancelled waiter takes a unit with it if one has just come.
pub struct LoseUnit {
    count: Word,
}

impl LoseUnit {
    fn new(count: u32) -> Self {
        Self { count: Word::new(count) }
    }

    fn take(&self, sleep: Sleep, deadline: Option<u64>) -> Result<(), WaitError> {
        let Some(error) = wait(&self.count, sleep, deadline) else { return Ok(()) };
        take(&self.count);
        Err(error)
    }

    fn give(&self) {
        self.count.fetch_add(1, SeqCst);
        Model::wake(&self.count, usize::MAX);
    }
}

busted_semaphore!(LoseUnit);
