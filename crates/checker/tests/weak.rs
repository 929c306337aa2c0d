//! Published defects of memory ordering: each is found under `c11`, and its repaired twin holds in
//! every execution with two preemptions and two stale steps.

use convoy_checker::Property::{self, Assertions, Exclusion, NoDeadlock, NoLostWakeup, Visibility};
use convoy_checker::model::{
    Budget, End, Failure, Instance, Memory, Model, Plain, Report, Scenario, Word, explore,
    explore_weak,
};
use convoy_sync::{Atomic, Platform, Sleep};
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

const BUDGET: Budget = Budget { executions: 400_000, few_preemptions: 0, steps: 1000, seed: 1 };

/// The orderings of a program: as they should be, or weakened.
#[derive(Clone, Copy)]
struct Orders {
    broken: bool,
}

impl Orders {
    /// Returns `order`, or relaxed if this is the defect.
    fn needs(self, order: Ordering) -> Ordering {
        if self.broken { Relaxed } else { order }
    }

    fn fence(self, order: Ordering) {
        if !self.broken {
            Model::fence(order);
        }
    }

    /// Waits until `word` has a value for which `done` holds; without acquire if this is the
    /// defect.
    fn wait(self, word: &Word<u32>, done: impl Fn(u32) -> bool) {
        if self.broken {
            Model::pause_for(word, done);
        } else {
            Model::spin_until(word, done);
        }
    }
}

fn nobody_waits(end: &End) -> Result<(), Failure> {
    if !end.asleep.is_empty() {
        return Err((NoLostWakeup, format!("{:?} sleep", end.asleep)));
    }
    if end.spinning.is_empty() { Ok(()) } else { Err((NoDeadlock, format!("{end:?}"))) }
}

type Body<S> = fn(&S, usize, Orders);

fn scenario<S: Default + 'static>(tasks: usize, body: Body<S>, broken: bool) -> Scenario {
    Scenario::new("defect", [], move || {
        let shared: (S, Body<S>, Orders) = (S::default(), body, Orders { broken });
        Instance::of(
            shared,
            tasks,
            |(shared, body, orders), task| body(shared, task, *orders),
            |_, end| nobody_waits(end),
        )
    })
}

fn explored<S>(tasks: usize, body: Body<S>, memory: Memory, broken: bool) -> Report
where
    S: Default + 'static,
{
    let scenario = scenario(tasks, body, broken);
    match memory {
        Memory::Sc => explore(&scenario, BUDGET),
        weak => explore_weak(&scenario, weak, BUDGET, true),
    }
}

/// Expects that `body` violates `property` if it is broken, under c11 only, and never otherwise.
fn defect<S: Default + 'static>(tasks: usize, property: Property, body: Body<S>) {
    let sound = explored(tasks, body, Memory::Sc, true);
    assert!(sound.violation.is_none(), "an interleaving: {:?}", sound.violation);
    let violation = explored(tasks, body, Memory::C11, true).violation.expect("the defect");
    assert_eq!(violation.property, property, "{violation:?}");
    for memory in [Memory::Tso, Memory::C11] {
        let report = explored(tasks, body, memory, false);
        assert!(report.violation.is_none(), "{memory}: {:?}", report.violation);
        let wide = report.stale.is_none_or(|stale| stale >= 2);
        let reached = report.preemptions.is_none_or(|preemptions| preemptions >= 2) && wide;
        assert!(report.complete || reached, "{memory}: {report:?}");
    }
}

/// A lock of one word, and what it guards.
#[derive(Default)]
struct Guarded {
    word: Word<u32>,
    owner: Word<u32>,
    data: Plain<u32>,
}

impl Guarded {
    fn inside(&self) {
        self.data.set(self.data.get() + 1);
    }

    fn take(&self, order: Ordering) {
        while self.word.swap(1, order) == 1 {
            Model::pause_for(&self.word, |word| word == 0);
        }
    }
}

#[test]
fn test_and_set_with_every_ordering_relaxed() {
    defect(3, Visibility, |lock: &Guarded, _, orders: Orders| {
        lock.take(orders.needs(Acquire));
        lock.inside();
        lock.word.store(0, orders.needs(Release));
    });
}

#[test]
fn ticket_lock_with_a_relaxed_load() {
    defect(3, Visibility, |lock: &Guarded, _, orders: Orders| {
        let mine = lock.word.fetch_add(1, Relaxed);
        orders.wait(&lock.owner, |owner| owner == mine);
        lock.inside();
        lock.owner.store(mine + 1, Release);
    });
}

/// A queue lock with records that are numbered from 1.
#[derive(Default)]
struct Queue {
    tail: Word<u32>,
    records: [Record; 3],
    data: Plain<u32>,
}

#[derive(Default)]
struct Record {
    next: Word<u32>,
    locked: Word<u32>,
}

impl Queue {
    /// An MCS lock with these orderings of the exchange of the tail, and of the store and the load
    /// of a link.
    fn mcs(&self, task: usize, [enter, link, follow]: [Ordering; 3]) {
        let (me, number) = (&self.records[task], task as u32 + 1);
        me.next.store(0, Relaxed);
        me.locked.store(1, Relaxed);
        let before = self.tail.swap(number, enter);
        if before != 0 {
            self.records[before as usize - 1].next.store(number, link);
            Model::spin_until(&me.locked, |locked| locked == 0);
        }
        self.data.set(self.data.get() + 1);
        if self.tail.compare_exchange(number, 0, Release, Relaxed).is_ok() {
            return;
        }
        Model::pause_for(&me.next, |next| next != 0);
        let next = me.next.load(follow);
        self.records[next as usize - 1].locked.store(0, Release);
    }
}

const SOUND: Orders = Orders { broken: false };

/// DPDK, reported by Oberhauser and others (`VSync`, ASPLOS 2021): the successor's `locked = 1` may
/// come after the `locked = 0` of the owner, and it waits for ever.
#[test]
fn mcs_lock_of_dpdk_with_a_relaxed_link() {
    defect(2, NoDeadlock, |queue: &Queue, task, orders: Orders| {
        queue.mcs(task, [AcqRel, orders.needs(Release), Acquire]);
    });
}

/// The same from the other side: the owner does not acquire the link.
#[test]
fn mcs_lock_that_follows_the_link_relaxed() {
    defect(2, NoDeadlock, |queue: &Queue, task, orders: Orders| {
        queue.mcs(task, [AcqRel, Release, orders.needs(Acquire)]);
    });
}

/// Linux before 4.16 ("Ensure node is initialised before updating `prev->next`"): the tail is
/// published before the record is, and the initialisation removes the successor's link.
#[test]
fn queued_spinlock_with_a_record_that_is_published_too_early() {
    defect(2, NoDeadlock, |queue: &Queue, task, orders: Orders| {
        queue.mcs(task, [if orders.broken { Acquire } else { AcqRel }, Release, Acquire]);
    });
}

/// A CLH lock as that of seL4: each task spins on the record of its predecessor.
#[test]
fn clh_lock_without_release() {
    defect(3, Visibility, |queue: &Queue, task: usize, orders: Orders| {
        let (me, number) = (&queue.records[task], task as u32 + 1);
        me.locked.store(1, Relaxed);
        let before = queue.tail.swap(number, AcqRel);
        if before != 0 {
            let before = &queue.records[before as usize - 1];
            Model::spin_until(&before.locked, |locked| locked == 0);
        }
        queue.data.set(queue.data.get() + 1);
        me.locked.store(0, orders.needs(Release));
    });
}

/// A sequence lock: two words with equal values.
#[derive(Default)]
struct Sequence {
    number: Word<u32>,
    pair: [Word<u32>; 2],
}

impl Sequence {
    fn write(&self, orders: Orders) {
        self.number.store(1, Relaxed);
        orders.fence(Release);
        self.pair.iter().for_each(|word| word.store(7, Relaxed));
        self.number.store(2, Release);
    }

    fn read(&self, orders: Orders) {
        let before = self.number.load(Acquire);
        let [one, other] = [0, 1].map(|word: usize| self.pair[word].load(Relaxed));
        orders.fence(Acquire);
        if before & 1 == 0 && self.number.load(Relaxed) == before {
            assert_eq!(one, other, "a torn pair");
        }
    }
}

#[test]
fn seqlock_reader_without_barrier() {
    defect(
        2,
        Assertions,
        |lock: &Sequence, task, orders| {
            if task == 0 { lock.write(SOUND) } else { lock.read(orders) }
        },
    );
}

#[test]
fn seqlock_writer_without_barrier() {
    defect(
        2,
        Assertions,
        |lock: &Sequence, task, orders| {
            if task == 0 { lock.write(orders) } else { lock.read(SOUND) }
        },
    );
}

/// Two flags.
#[derive(Default)]
struct Flags {
    raised: [Word<u32>; 2],
    inside: Word<u32>,
    data: Plain<u32>,
}

/// An attempt to enter that fails if the other task is there.
#[test]
fn dekker_trylock_with_release_and_acquire_only() {
    defect(2, Exclusion, |lock: &Flags, task: usize, orders: Orders| {
        let (store, load) = if orders.broken { (Release, Acquire) } else { (SeqCst, SeqCst) };
        lock.raised[task].store(1, store);
        if lock.raised[1 - task].load(load) == 0 {
            if lock.inside.swap(1, Relaxed) == 1 {
                Model::fail(Exclusion, "two are inside".to_owned());
            }
            lock.data.set(lock.data.get() + 1);
        }
    });
}

/// Something that is published.
#[derive(Default)]
struct Published {
    flag: Word<u32>,
    lock: Word<u32>,
    data: Plain<u32>,
}

#[test]
fn double_checked_initialisation_with_a_relaxed_check() {
    defect(2, Visibility, |once: &Published, _, orders: Orders| {
        if once.flag.load(orders.needs(Acquire)) == 0 {
            while once.lock.swap(1, Acquire) == 1 {
                Model::pause_for(&once.lock, |lock| lock == 0);
            }
            if once.flag.load(Relaxed) == 0 {
                once.data.set(7);
                once.flag.store(1, Release);
            }
            once.lock.store(0, Release);
        }
        once.data.get();
    });
}

/// A reader that becomes the writer once the other reader has left.
#[test]
fn reader_writer_lock_with_a_relaxed_upgrade() {
    defect(2, Visibility, upgrade);
}

fn upgrade(lock: &Published, task: usize, orders: Orders) {
    // Both are readers at the start: 2.
    lock.data.get();
    if task == 0 {
        Model::pause_for(&lock.flag, |left| left == 1);
        lock.flag.compare_exchange(1, 8, orders.needs(Acquire), Relaxed).expect("the last reader");
        lock.data.set(7);
    } else {
        lock.flag.fetch_add(1, Release);
    }
}

/// The releaser looks for sleepers without a barrier after its store: it sees none, and the sleeper
/// saw the lock held.
#[test]
fn futex_lock_that_counts_its_sleepers_without_a_barrier() {
    defect(2, NoLostWakeup, |lock: &Guarded, _, orders: Orders| {
        while lock.word.swap(1, Acquire) == 1 {
            lock.owner.fetch_add(1, Relaxed);
            Model::wait(&lock.word, 1, Sleep::Uninterruptible, None);
            lock.owner.fetch_sub(1, Relaxed);
        }
        lock.inside();
        lock.word.store(0, Release);
        orders.fence(SeqCst);
        if lock.owner.load(Relaxed) > 0 {
            Model::wake(&raw const lock.word, 1);
        }
    });
}

/// References to an object, the last of which frees it.
#[test]
fn reference_count_that_is_dropped_without_acquire() {
    defect(2, Visibility, |shared: &Published, task, orders: Orders| {
        shared.data.get();
        // Two references: the second to leave finds 1.
        if shared.flag.fetch_add(1, Release) == 1 {
            orders.fence(Acquire);
            shared.data.set(task as u32);
        }
    });
}
