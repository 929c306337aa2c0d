//! The locks that ship keep their promises in every order within a budget, and the two published
//! patches are caught. `native.rs` tests the same locks on threads, and
//! `crates/machine/tests/contract.rs` on the virtual machine.

use convoy_checker::model::{
    Budget, Instance, Memory, Model, Orders, Part, Plain, Property, Report, Scenario, Weaker, Word,
    explore, explore_weak,
};
use convoy_checker::{Irq, READERS, WRITERS, select, visits};
use convoy_sync::{
    Access, AdaptiveLock, ArchSemaphore, Atomic, Handoff, HandoffRwSemaphore, Lock, McsQueue,
    Opportunistic, Platform, Promise, QueuedLock, QueuedRwLock, Quota, QuotaCondvar, QuotaRwLock,
    RawLock, RawSemaphore, RwSemaphore, Sleep, SpinPolicy, SpinQueue, SpinRwSemaphore, TasLock,
    TaskId, TicketLock, Within, kernel, kernel::Mutex, kernel::RwLock, kernel::Semaphore,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

const BUDGET: Budget = Budget { executions: 2000, few_preemptions: 0, steps: 3000, seed: 1 };

#[test]
fn what_ships_keeps_its_promises() {
    let all = select(&["all"]).unwrap();
    assert!(all.len() > 17);
    for subject in &all {
        if subject.same_among(&all).is_some() {
            continue;
        }
        let rows = subject.check(BUDGET);
        let broken: Vec<_> = rows.iter().filter(|row| row.violated.is_some()).collect();
        let found: Vec<_> = broken.iter().map(|row| (row.scenario, row.violated)).collect();
        let known: &[_] = match subject.name {
            "published-fix" => &[
                ("two-ups", Some(Property::NoLostWakeup)),
                ("count-2", Some(Property::NoLostWakeup)),
                ("kill", Some(Property::NoLostWakeup)),
                ("timeouts", Some(Property::NoLostWakeup)),
            ],
            "published-release-each" => {
                &[("dry", Some(Property::NoDeadlock)), ("blocks", Some(Property::NoDeadlock))]
            }
            _ => &[],
        };
        let steps = broken.first().map(|row| row.narrative.join("\n")).unwrap_or_default();
        assert_eq!(found, known, "{}\n{steps}", subject.name);
        for row in rows.iter().filter(|row| row.violated.is_none()) {
            assert!(row.exhaustive || row.explored == BUDGET.executions);
            assert!((0.0..=1.0).contains(&row.share) && row.exhaustive == (row.share >= 1.0));
        }
    }
}

/// The spinning reader/writer lock, acquired with interrupts disabled.
#[derive(Default)]
struct IrqRwLock(RwLock<Model>);

impl Lock for IrqRwLock {
    fn with_units(_: u32) -> Self {
        Self::default()
    }
    fn acquire(&self) {
        self.0.write_irqsave();
    }
    fn try_acquire(&self) -> bool {
        self.0.try_write()
    }
    fn release(&self) {
        self.0.write_unlock_irqrestore(());
    }
    fn acquire_shared(&self) {
        self.0.read();
    }
    fn release_shared(&self) {
        self.0.read_unlock();
    }
}

/// Other ways to acquire the listed locks, and other inner locks.
#[test]
fn combinations_beyond_the_list_keep_the_contract() {
    type Inner = AdaptiveLock<Model>;
    keeps::<IrqRwLock>(&[Promise::Shared]);
    keeps::<Irq<Model, TasLock<Model>>>(&[]);
    keeps::<Irq<Model, TicketLock<Model>>>(&[Promise::Fifo]);
    keeps::<Semaphore<Model, Opportunistic, TasLock<Model>>>(&[]);
    keeps::<Semaphore<Model, Handoff, Inner>>(&[]);
    keeps::<Semaphore<Model, Opportunistic, Inner>>(&[]);
    keeps::<ArchSemaphore<Model, Inner>>(&[]);
    keeps::<Quota<Model, Within<Model, Inner>>>(&[]);
    keeps::<Quota<Model, Within<Model, TicketLock<Model>>, 1>>(&[]);
    keeps::<Mutex<Model, convoy_sync::NoSpin, Inner>>(&[]);
    keeps::<kernel::HandoffMutex<Model, Inner, false>>(&[]);
    keeps::<RwSemaphore<Model, Inner>>(&[Promise::Shared]);
    keeps::<SpinRwSemaphore<Model, Inner>>(&[Promise::Shared]);
    keeps::<HandoffRwSemaphore<Model>>(&[Promise::Shared]);
    keeps::<HandoffRwSemaphore<Model, Inner>>(&[Promise::Shared]);
    keeps::<QueuedRwLock<Model, QueuedLock<Model>>>(&[Promise::Shared]);
    keeps::<QuotaRwLock<Model, Within<Model, Inner>>>(&[Promise::Shared]);
}

fn keeps<T: Lock>(promises: &[Promise]) {
    for who in [WRITERS, READERS] {
        let report = explore(&visits::<T>("contract".to_owned(), "lock", who, promises), BUDGET);
        if let Some(violation) = report.violation {
            let steps = violation.narrative.join("\n");
            panic!("{}: {}\n{steps}", violation.schedule, violation.text);
        }
    }
}

/// A waiter sleeps if its CPU is wanted, even if the owner keeps running, and does not spin for an
/// owner that sleeps.
#[test]
fn a_waiter_spins_only_while_the_owner_runs_and_its_cpu_is_its_own() {
    type Rwsem = SpinRwSemaphore<Model>;
    type Late = HandoffRwSemaphore<Model>;
    type HandoffMutex = kernel::HandoffMutex<Model>;
    gives_way::<convoy_sync::SpinOnOwner>();
    gives_way::<convoy_sync::SpinReadFirst>();
    gives_way::<convoy_sync::SpinOne>();
    gives_way::<convoy_sync::SpinMcs>();
    for owner in [Owner::Runs, Owner::Sleeps] {
        does_not_spin(owner, HandoffMutex::new, HandoffMutex::lock, HandoffMutex::lock);
        does_not_spin(owner, Rwsem::new, Rwsem::down_write, Rwsem::down_write);
        does_not_spin(owner, Late::new, Late::down_write, Late::down_write);
    }
}

fn gives_way<S: SpinPolicy>() {
    for owner in [Owner::Runs, Owner::Sleeps] {
        does_not_spin(owner, Mutex::<Model, S>::new, Mutex::lock, Mutex::lock);
    }
}

/// A spinner without a ticket for a ticket lock also stops if its CPU is wanted.
#[test]
fn a_spinner_for_a_ticket_lock_whose_cpu_is_wanted_gives_up() {
    let spins = |lock: &TicketLock<Model>| lock.spin_while_locked(Model::need_resched);
    does_not_spin(Owner::Runs, TicketLock::default, TicketLock::lock, spins);
}

/// Behaviour of an owner that never releases the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It keeps running, and other tasks want the CPU of the waiter.
    Runs,
    Sleeps,
}

/// An owner that never releases the lock, and a task that must not be spinning for it at the end.
fn does_not_spin<L: 'static>(owner: Owner, new: fn() -> L, takes: fn(&L), waits_for: fn(&L)) {
    const WAITER: TaskId = 1;
    let scenario = Scenario::new("gives-way", [Property::NoDeadlock], move || {
        let shared = (new(), <Model as Platform>::AtomicU32::new(0));
        let task = move |(lock, never): &(L, <Model as Platform>::AtomicU32), task: usize| {
            if task == WAITER as usize {
                return waits_for(lock);
            }
            takes(lock);
            if owner == Owner::Runs {
                Model::want_cpu_of(WAITER);
                Model::spin_until(never, |never| never == 1);
            }
            Model::wait(never, 0, Sleep::Uninterruptible, None);
        };
        Instance::sharing(shared, 2, task, |_, end| {
            if end.spinning.contains(&WAITER) {
                return Err((Property::NoDeadlock, "it spins".to_owned()));
            }
            Ok(())
        })
    });
    let report = explore(&scenario, BUDGET);
    assert_eq!(report.violation.map(|found| found.narrative.join("\n")), None);
}

/// Three tasks spin in turn, one of them twice: there are never two owners, and no task waits
/// forever.
#[test]
fn spinners_take_turns() {
    type Shared = (McsQueue<Model>, <Model as Platform>::AtomicU32);
    let scenario = Scenario::new("turns", [Property::NoDeadlock], || {
        let shared: Shared = (McsQueue::new(), Atomic::new(0));
        let task = |(spinners, inside): &Shared, task: usize| {
            for _ in 0..[2, 1, 1][task] {
                spinners.at_head(|| {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        };
        Instance::sharing(shared, 3, task, |_, end| {
            if end.spinning.is_empty() {
                return Ok(());
            }
            Err((Property::NoDeadlock, format!("{:?} spin forever", end.spinning)))
        })
    });
    let report = explore(&scenario, Budget { executions: 20_000, ..Budget::default() });
    let text = report.violation.map(|found| format!("{}: {}", found.schedule, found.text));
    assert_eq!(text, None);
}

/// Tasks that wait at a condition variable for a change by task 0.
struct Notified {
    lock: Quota<Model>,
    condvar: QuotaCondvar<Model>,
    done: Plain<u32>,
    /// Task 1 has a deadline.
    late: bool,
    all: bool,
}

impl Notified {
    fn task(&self, task: usize) {
        let Self { lock, condvar, done, late, all } = self;
        lock.down();
        if task == 0 {
            done.set(2);
            if *all {
                condvar.notify_all();
                lock.up();
            } else {
                lock.up();
                condvar.notify_one();
                condvar.notify_one();
            }
            return;
        }
        let deadline = (*late && task == 1).then_some(1);
        while done.get() == 0 && condvar.wait(lock, deadline).is_ok() {}
        done.set(done.get().saturating_sub(1));
        lock.up();
    }
}

/// Returns a scenario in which tasks wait for a change, one of them with a deadline if `late`: all
/// return with the lock, and only after the change.
fn notified(tasks: usize, late: bool, all: bool) -> Scenario {
    Scenario::new("notified", [Property::NoLostWakeup], move || {
        let (lock, condvar) = (Quota::with_count(1), QuotaCondvar::default());
        let shared = Notified { lock, condvar, done: Plain::new(0), late, all };
        Instance::of(shared, tasks, Notified::task, |Notified { lock, .. }, end| {
            let (free, waiters) = (lock.free_units(), RawSemaphore::waiters(lock));
            if !end.asleep.is_empty() || !end.spinning.is_empty() || (free, waiters) != (1, 0) {
                let text = format!("{:?} sleep, {free} free, {waiters} wait", end.asleep);
                return Err((Property::NoLostWakeup, text));
            }
            Ok(())
        })
    })
}

/// Budget of the searches with a condition variable.
const LONG: Budget = Budget { executions: 20_000, ..BUDGET };

#[test]
fn a_condition_variable_forgets_nobody() {
    for (late, all) in [(false, false), (false, true), (true, false), (true, true)] {
        let scenario = notified(3, late, all);
        let weak = explore_weak(&scenario, Memory::C11, LONG, true);
        for report in [explore(&scenario, LONG), weak] {
            let steps = report.violation.map(|violation| violation.narrative.join("\n"));
            assert_eq!(steps, None, "late: {late}, all: {all}");
        }
    }
}

/// Under C11 the lock orders the condition, and the ticket locks order the records of the waiters:
/// a weaker ordering in either is caught.
#[test]
fn a_condition_variable_needs_the_orderings_of_its_locks() {
    let sites = Rc::new(Orders::Recorded(RefCell::default()));
    let report = notified_with(&sites);
    assert!(report.complete && report.violation.is_none(), "{report:?}");
    let Orders::Recorded(sites) = &*sites else { panic!("{sites:?}") };
    let mut needed = Vec::new();
    for &site in sites.borrow().iter() {
        let weaker = site.weaker().next().map(|weakest| Weaker::from([(site, weakest)]));
        let report = weaker.map(|weaker| notified_with(&Rc::new(Orders::Weakened(weaker))));
        if let Some(violation) = report.and_then(|report| report.violation) {
            assert_eq!(violation.property, Property::Visibility, "{site}");
            needed.push((site.file, site.part));
        }
    }
    let (unlocks, locks) = ("crates/sync/src/quota/mod.rs", "crates/sync/src/quota/word.rs");
    let ticket = "crates/sync/src/spin.rs";
    let expected = [
        (unlocks, Part::Modify),
        (locks, Part::Success),
        (ticket, Part::Load),
        (ticket, Part::Store),
    ];
    assert_eq!(needed, expected);
}

/// Explores one waiter and a broadcast under C11.
fn notified_with(orders: &Rc<Orders>) -> Report {
    let scenario = notified(2, false, true).with_orders(Rc::clone(orders));
    explore_weak(&scenario, Memory::C11, LONG, true)
}

/// A lock without a search of its own has the executions of the one that is named.
#[test]
fn a_lock_that_nothing_extends_here_executes_as_the_inner_one() {
    let subjects = select(&["all"]).unwrap();
    let mut count = 0;
    let budget = Budget { executions: 300, ..BUDGET };
    for subject in &subjects {
        if let Some(twin) = subject.same_among(&subjects) {
            let expected = twin.in_every_order().check(budget);
            let expected: Vec<_> = expected.iter().map(|row| row.of(subject)).collect();
            assert_eq!(subject.in_every_order().check(budget), expected);
            count += 1;
        }
    }
    assert_eq!(count, 2);
}

/// A count in a lock that its own word guards, released without making it visible.
struct Counted(Word<u32>, Cell<u32>);

impl Lock for Counted {
    fn with_units(_: u32) -> Self {
        Self(Word::new(0), Cell::new(0))
    }
    fn acquire(&self) {
        while self.0.swap(1, Ordering::Acquire) == 1 {
            Model::spin_until(&self.0, |word| word == 0);
        }
        Model::touch(&self.1, Access::Write);
        self.1.set(self.1.get() + 1);
    }
    fn try_acquire(&self) -> bool {
        self.0.swap(1, Ordering::Acquire) == 0
    }
    fn release(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[test]
fn a_cell_inside_of_a_lock_is_checked_for_races() {
    let scenario = visits::<Counted>("counted".to_owned(), "counted", WRITERS, &[]);
    let violation = explore_weak(&scenario, Memory::C11, BUDGET, false).violation;
    let violation = violation.expect("the release is relaxed");
    assert_eq!(violation.property, Property::Visibility);
    let cell = "counted+4: an earlier access is not visible";
    assert!(violation.narrative.last().is_some_and(|line| line.contains(cell)), "{violation:?}");
}
