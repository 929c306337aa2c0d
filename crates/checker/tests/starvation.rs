//! Why the mutex of Linux got HANDOFF in 4.10: without it a waiter may be passed by for good.

use convoy_checker::model::{Model, explore, replay};
use convoy_checker::{Budget, Property, starvation};
use convoy_sync::{
    Atomic, Handoff, Lock, NoSpin, Opportunistic, Platform, RawLock, Sleep, TicketLock, kernel,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;

/// Times that a waiter may be woken in vain.
const BOUND: u32 = 1;

const FREE: u32 = 0;
const HELD: u32 = 1;

/// One that waits.
struct Waiter<P: Platform> {
    asleep: P::AtomicU32,
    granted: Cell<bool>,
}

/// The mutex of Linux 4.10 without its spinning: a waiter that was woken in vain asks for a
/// handoff, and the next owner that leaves gives the mutex to it. Without `HANDOFF`, that of 4.9.
struct Mutex<P: Platform, const HANDOFF: bool> {
    word: P::AtomicU32,
    inner: TicketLock<P>,
    waiters: [Waiter<P>; 2],
    queue: RefCell<VecDeque<usize>>,
    asked: Cell<bool>,
}

impl<P: Platform, const HANDOFF: bool> Mutex<P, HANDOFF> {
    fn take(&self) -> bool {
        self.word.compare_exchange(FREE, HELD, SeqCst, SeqCst).is_ok()
    }

    fn wait(&self) {
        let me = P::current() as usize;
        let mine = &self.waiters[me];
        let mut woken = false;
        self.inner.lock();
        self.queue.borrow_mut().push_back(me);
        while !self.take() {
            if HANDOFF && woken && self.queue.borrow().front() == Some(&me) {
                self.asked.set(true);
            }
            mine.asleep.store(1, SeqCst);
            self.inner.unlock();
            P::wait(&mine.asleep, 1, Sleep::Uninterruptible, None);
            self.inner.lock();
            woken = true;
            if mine.granted.replace(false) {
                break;
            }
        }
        self.queue.borrow_mut().retain(|&other| other != me);
        self.asked.set(false);
        self.inner.unlock();
    }
}

impl<P: Platform, const HANDOFF: bool> Lock for Mutex<P, HANDOFF> {
    fn with_units(_: u32) -> Self {
        let waiter = || Waiter { asleep: P::AtomicU32::new(0), granted: Cell::new(false) };
        Self {
            word: P::AtomicU32::new(FREE),
            inner: TicketLock::default(),
            waiters: [waiter(), waiter()],
            queue: RefCell::default(),
            asked: Cell::new(false),
        }
    }
    fn acquire(&self) {
        if !self.take() {
            self.wait();
        }
    }
    fn try_acquire(&self) -> bool {
        self.take()
    }
    fn release(&self) {
        self.inner.lock();
        let first = self.queue.borrow().front().map(|&first| &self.waiters[first]);
        match first {
            Some(first) if self.asked.get() => first.granted.set(true),
            _ => self.word.store(FREE, SeqCst),
        }
        if let Some(first) = first {
            first.asleep.store(0, SeqCst);
            P::wake(&raw const first.asleep, 1);
        }
        self.inner.unlock();
    }
}

/// What an order violates, if one does; that order again gives the same.
fn found<T: Lock>(name: &str) -> Option<Property> {
    let scenario = starvation::<T>(name.to_owned(), "mutex", BOUND);
    let violation = explore(&scenario, Budget::default()).violation?;
    let (_, again) = replay(&scenario, &violation.schedule).expect("its own schedule");
    assert_eq!(again.map(|(property, _)| property), Some(violation.property));
    Some(violation.property)
}

#[test]
fn without_handoff_a_waiter_of_the_mutex_of_linux_is_starved_and_with_it_not() {
    assert_eq!(found::<Mutex<Model, false>>("4.9"), Some(Property::NoStarvation));
    assert_eq!(found::<Mutex<Model, true>>("4.10"), None);
}

#[test]
fn locks_that_anybody_may_take_have_no_bound_and_a_handoff_has() {
    const STARVES: Option<Property> = Some(Property::NoStarvation);
    assert_eq!(found::<kernel::Mutex<Model, NoSpin>>("2.6.25"), STARVES);
    assert_eq!(found::<kernel::Semaphore<Model, Opportunistic>>("opportunistic"), STARVES);
    assert_eq!(found::<kernel::Semaphore<Model, Handoff>>("handoff"), None);
}
