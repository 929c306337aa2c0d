//! The condition variable of glibc from 2.25 to 2.40 (bug 25847) as an external type: a signal is
//! lost. Reported in 2020, found with TLA+ in 2021, fixed in 2.41 (2025).

use std::sync::atomic::Ordering::SeqCst;

use convoy_checker::model::{Instance, Model, Scenario, Word, explore_states, replay};
use convoy_checker::{Budget, Property};
use convoy_sync::{Atomic, Platform, Sleep};

fn sleep(word: &Word<u32>, value: u32) {
    Model::wait(word, value, Sleep::Uninterruptible, None);
}

/// The waiters are in two groups: the waiters of `G1` may take signals, later ones are in `G2`. A
/// signal that finds each waiter of `G1` signalled closes `G1`, and the groups change roles. A
/// waiter that took a signal and then finds its group closed may have taken a signal of a later
/// group, and adds one there. If it had taken its own, that group has one signal too many: more
/// waiters of it wake than were counted, and a later signal goes to a waiter that has already left.
///
/// `REPAIRED` counts the signals of a group from its first position, as 2.41 does: a waiter of
/// another group has another number, and takes none.
struct Condition<const REPAIRED: bool> {
    /// Position of the next waiter times 2, and the index of `G2`.
    next: Word<u32>,
    /// Position of the first waiter of `G1` times 2, and the index of `G2`.
    start: Word<u32>,
    /// Size of `G1` when it became `G1`. Only one thread signals here, so the signallers' lock is
    /// left out.
    size_then: Word<u32>,
    /// Threads that may sleep on `signals`, times 2. Odd if a thread waits until there are none.
    sleepers: [Word<u32>; 2],
    /// Signals that can be taken, times 2. Odd if the group is closed.
    signals: [Word<u32>; 2],
    /// Number of waiters of the group that were not signalled.
    left: [Word<u32>; 2],
}

impl<const REPAIRED: bool> Condition<REPAIRED> {
    fn new() -> Self {
        let two = || [Word::new(0), Word::new(0)];
        let (next, start, size_then) = (Word::new(0), Word::new(0), Word::new(0));
        Self { next, start, size_then, sleepers: two(), signals: two(), left: two() }
    }

    fn wait(&self, mutex: &Mutex) {
        let came = self.next.fetch_add(2, SeqCst);
        mutex.unlock();
        let (at, position) = ((came & 1) as usize, came >> 1);
        if REPAIRED {
            self.wait_for_own(at, position);
        } else {
            self.wait_for_any(at, position);
        }
        mutex.lock();
    }

    fn wait_for_own(&self, at: usize, position: u32) {
        loop {
            let signals = self.signals[at].load(SeqCst);
            let start = self.start.load(SeqCst) >> 1;
            if position < start {
                return;
            }
            if signals.wrapping_sub(start).cast_signed() <= 0 {
                sleep(&self.signals[at], signals);
            } else if self.signals[at]
                .compare_exchange(signals, signals - 1, SeqCst, SeqCst)
                .is_ok()
            {
                return;
            }
        }
    }

    fn wait_for_any(&self, at: usize, position: u32) {
        let is_closed = || position < self.start.load(SeqCst) >> 1;
        let mut signals = self.signals[at].load(SeqCst);
        loop {
            while signals == 0 {
                self.sleepers[at].fetch_add(2, SeqCst);
                let over = self.signals[at].load(SeqCst) & 1 != 0 || is_closed();
                if !over {
                    sleep(&self.signals[at], 0);
                }
                if self.sleepers[at].fetch_sub(2, SeqCst) == 3 {
                    Model::wake(&raw const self.sleepers[at], usize::MAX);
                }
                if over {
                    return;
                }
                signals = self.signals[at].load(SeqCst);
            }
            if signals & 1 != 0 {
                return;
            }
            match self.signals[at].compare_exchange(signals, signals - 2, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(now) => signals = now,
            }
        }
        let start = self.start.load(SeqCst);
        if position < start >> 1 && (start & 1 ^ 1) as usize == at {
            self.give_back(at, start);
        }
    }

    /// Adds a signal again, because the signal that was taken may have belonged to the present
    /// group.
    fn give_back(&self, at: usize, start: u32) {
        let mut signals = self.signals[at].load(SeqCst);
        while self.start.load(SeqCst) == start {
            if signals & 1 != 0 {
                break;
            }
            match self.signals[at].compare_exchange(signals, signals + 2, SeqCst, SeqCst) {
                Ok(_) => {
                    Model::wake(&raw const self.signals[at], 1);
                    break;
                }
                Err(now) => signals = now,
            }
        }
    }

    fn signal(&self) {
        let next = self.next.load(SeqCst);
        let mut first = (next & 1 ^ 1) as usize;
        if self.left[first].load(SeqCst) == 0 && !self.switch(next >> 1, &mut first) {
            return;
        }
        self.signals[first].fetch_add(if REPAIRED { 1 } else { 2 }, SeqCst);
        self.left[first].fetch_sub(1, SeqCst);
        Model::wake(&raw const self.signals[first], 1);
    }

    /// Makes `G2` the new `G1` and returns true if `G2` has waiters.
    fn switch(&self, next: u32, first: &mut usize) -> bool {
        let start = self.start.load(SeqCst) >> 1;
        let end = start + self.size_then.load(SeqCst);
        if next == end {
            return false;
        }
        let old = *first;
        if !REPAIRED {
            self.signals[old].fetch_or(1, SeqCst);
            while self.sleepers[old].load(SeqCst) > 1 {
                let seen = self.sleepers[old].fetch_or(1, SeqCst) | 1;
                if seen > 1 {
                    sleep(&self.sleepers[old], seen);
                }
            }
            self.sleepers[old].store(0, SeqCst);
        }
        *first ^= 1;
        self.start.store(end << 1 | old as u32, SeqCst);
        if REPAIRED {
            self.signals[*first].store(end, SeqCst);
        } else {
            self.signals[old].store(0, SeqCst);
        }
        let size = (self.next.modify(SeqCst, |next| next ^ 1) >> 1) - end;
        self.size_then.store(size, SeqCst);
        self.left[*first].fetch_add(size, SeqCst);
        true
    }
}

/// A mutex that adds little to the search: a waiting task takes no steps.
struct Mutex(Word<u32>);

impl Mutex {
    fn lock(&self) {
        while self.0.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
            Model::spin_until_is(&self.0, 0);
        }
    }

    fn unlock(&self) {
        self.0.store(0, SeqCst);
    }
}

/// Items that each consumer takes.
const CONSUMERS: [u32; 3] = [1, 3, 2];

struct Buffer<const REPAIRED: bool> {
    mutex: Mutex,
    filled: Condition<REPAIRED>,
    /// Items in the buffer, at most one.
    items: Word<u32>,
}

impl<const REPAIRED: bool> Buffer<REPAIRED> {
    fn task(&self, task: usize) {
        match CONSUMERS.get(task) {
            Some(&items) => self.consume(items),
            None => self.produce(),
        }
    }

    fn produce(&self) {
        for _ in 0..CONSUMERS.iter().sum() {
            Model::spin_until_is(&self.items, 0);
            self.mutex.lock();
            self.items.store(1, SeqCst);
            self.mutex.unlock();
            self.filled.signal();
        }
    }

    fn consume(&self, items: u32) {
        for _ in 0..items {
            self.mutex.lock();
            while self.items.load(SeqCst) == 0 {
                self.filled.wait(&self.mutex);
            }
            self.items.store(0, SeqCst);
            self.mutex.unlock();
        }
    }
}

/// Returns a scenario with a buffer of one item, a producer and three consumers.
fn buffer<const REPAIRED: bool>() -> Scenario {
    Scenario::new("condition/buffer", [Property::NoLostWakeup], || {
        let buffer = Buffer::<REPAIRED> {
            mutex: Mutex(Word::new(0)),
            filled: Condition::new(),
            items: Word::new(0),
        };
        Instance::of(buffer, CONSUMERS.len() + 1, Buffer::task, |_, end| {
            let text = format!("tasks {:?} sleep although there is an item", end.asleep);
            if end.asleep.is_empty() { Ok(()) } else { Err((Property::NoLostWakeup, text)) }
        })
    })
}

/// Ten times as many executions as the broken one needs.
const BUDGET: Budget = Budget { executions: 100_000, few_preemptions: 0, steps: 3000, seed: 1 };

#[test]
fn a_signal_of_the_condition_variable_of_glibc_is_lost() {
    let broken = buffer::<false>();
    let found = explore_states(&broken, BUDGET).violation.expect("a signal is lost");
    assert_eq!(found.property, Property::NoLostWakeup, "{:#?}", found.narrative);
    let (_, again) = replay(&broken, &found.schedule).expect("its own schedule");
    assert_eq!(again.map(|(property, _)| property), Some(found.property));
}

#[test]
fn no_signal_of_the_repaired_condition_variable_is_lost() {
    let report = explore_states(&buffer::<true>(), BUDGET);
    assert!(report.violation.is_none(), "{:#?}", report.violation);
}
