//! Every lock on threads and under the checker keeps its contract: owners exclude each other, no
//! waiter is forgotten, and where that is promised, none is passed.

use convoy_checker::model::{Budget, Instance, Model, Property, Scenario, explore};
use convoy_checker::{Binary, Exclusive, Irq, Raw, SHAPES, Step, exclusion, scenario};
use convoy_sync::{
    AdaptiveLock, ArchSemaphore, Atomic, Compete, Handoff, InTurn, LookFirst, LookFirstAtLowLoad,
    LookFirstInTurn, Mutex, Native, Opportunistic, Platform, PublishedFix, RawSemaphore, RwLock,
    RwSemaphore, Semaphore, SpinPolicy, Spinners, SpinningMutex, TasLock, TicketLock, WaitError,
};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One test for each lock on one platform; the last argument tells whether it is first in, first
/// out. A new lock is one line here, a new platform one line below.
macro_rules! every_lock {
    ($module:ident, $platform:ty, $check:ident) => {
        mod $module {
            use super::*;
            type P = $platform;
            every_lock! { @tests $check
                tas: Raw<P, TasLock<P>>, false;
                tas_irqsave: Irq<P, TasLock<P>>, false;
                ticket: Raw<P, TicketLock<P>>, true;
                ticket_irqsave: Irq<P, TicketLock<P>>, true;
                adaptive: Raw<P, AdaptiveLock<P>>, false;
                mutex: Mutex<P>, false;
                spinning_mutex: SpinningMutex<P, Compete>, false;
                spinning_mutex_look_first: SpinningMutex<P, LookFirst>, false;
                spinning_mutex_at_low_load: SpinningMutex<P, LookFirstAtLowLoad>, false;
                spinning_mutex_in_turn: SpinningMutex<P, LookFirstInTurn>, false;
                rwlock: RwLock<P>, false;
                rwsem: RwSemaphore<P>, false;
                semaphore_handoff: Binary<Semaphore<P, Handoff>>, true;
                semaphore_published_fix: Binary<Semaphore<P, PublishedFix>>, false;
                semaphore_opportunistic: Binary<Semaphore<P, Opportunistic>>, false;
                semaphore_opportunistic_on_tas:
                    Binary<Semaphore<P, Opportunistic, TasLock<P>>>, false;
                semaphore_arch: Binary<ArchSemaphore<P>>, false;
            }
        }
    };
    (@tests $check:ident $($name:ident: $lock:ty, $fifo:expr;)+) => {
        $(#[test]
        fn $name() {
            $check::<$lock>($fifo);
        })+
    };
}

/// Semaphores of user space: their inner lock sleeps, which a kernel with interrupts disabled must
/// not do, so they are not for the virtual machine.
macro_rules! every_native_semaphore {
    ($module:ident, $platform:ty, $check:ident) => {
        mod $module {
            use super::*;
            type P = $platform;
            type Inner = AdaptiveLock<P>;
            every_lock! { @tests $check
                handoff: Binary<Semaphore<P, Handoff, Inner>>, false;
                opportunistic: Binary<Semaphore<P, Opportunistic, Inner>>, false;
                arch: Binary<ArchSemaphore<P, Inner>>, false;
            }
        }
    };
}

every_native_semaphore!(native_semaphores, Native, threads);
every_native_semaphore!(model_semaphores, Model, checked);
every_lock!(native, Native, threads);
every_lock!(model, Model, checked);

/// Threads of the host. Few and short: a ticket lock needs a time slice for each hand-over when
/// its next owner is preempted.
fn threads<E: Exclusive + Sync>(_: bool) {
    let lock = E::unlocked();
    let (owners, readers, visits) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for task in 0..3_u32 {
            let (lock, owners, readers, visits) = (&lock, &owners, &readers, &visits);
            scope.spawn(move || {
                for round in 0..300 {
                    let reader = (task + round).is_multiple_of(2);
                    lock.enter(reader);
                    let shared = reader && E::SHARES;
                    let inside = if shared { readers } else { owners };
                    inside.fetch_add(1, Ordering::Relaxed);
                    let seen = (owners.load(Ordering::Relaxed), readers.load(Ordering::Relaxed));
                    assert!(matches!(seen, (1, 0) | (0, 1..)), "{seen:?} are inside");
                    inside.fetch_sub(1, Ordering::Relaxed);
                    visits.fetch_add(1, Ordering::Relaxed);
                    lock.leave(reader);
                }
            });
        }
    });
    assert_eq!(visits.into_inner(), 900);
}

/// A mutex as a semaphore of one unit, for the shapes with signals. It has no deadlines.
struct OneUnit<S: SpinPolicy>(SpinningMutex<Model, S>);

impl<S: SpinPolicy> RawSemaphore for OneUnit<S> {
    fn with_count(count: u32) -> Self {
        assert_eq!(count, 1);
        Self(SpinningMutex::new())
    }
    fn down(&self) {
        self.0.lock();
    }
    fn down_interruptible(&self) -> Result<(), WaitError> {
        self.0.lock_interruptible()
    }
    fn down_killable(&self) -> Result<(), WaitError> {
        self.0.lock_killable()
    }
    fn down_trylock(&self) -> bool {
        self.0.try_lock()
    }
    fn down_timeout(&self, _: u64) -> Result<(), WaitError> {
        unreachable!("no shape that is used here has a deadline")
    }
    fn up(&self) {
        self.0.unlock();
    }
    fn free_units(&self) -> u32 {
        u32::from(!self.0.is_locked())
    }
    fn waiters(&self) -> usize {
        0
    }
}

fn signals_end_waits_for<S: SpinPolicy>() {
    let budget = Budget { executions: 4000, ..Budget::default() };
    for shape in SHAPES.iter().filter(|shape| ["interrupt", "trylock"].contains(&shape.name)) {
        let untimed = |steps: &&[Step]| !steps.contains(&Step::Timeout);
        assert!(shape.units == 1 && shape.tasks.iter().all(untimed));
        let report = explore(&scenario::<OneUnit<S>>("mutex", shape), budget);
        if let Some(violation) = report.violation {
            panic!("{}: {}\n{}", shape.name, violation.text, violation.narrative.join("\n"));
        }
    }
}

#[test]
fn signals_end_waits_for_a_spinning_mutex() {
    signals_end_waits_for::<Compete>();
    signals_end_waits_for::<LookFirst>();
    signals_end_waits_for::<LookFirstAtLowLoad>();
    signals_end_waits_for::<LookFirstInTurn>();
}

/// Three tasks that spin in turn, one of them twice: never two at a time, and nobody waits for
/// good.
#[test]
fn spinners_take_turns() {
    type Shared = (InTurn<Model>, <Model as Platform>::AtomicU32);
    let build = || {
        let shared: Rc<Shared> = Rc::new((InTurn::new(), Atomic::new(0)));
        let body = |turns: u32| -> Box<dyn FnOnce()> {
            let shared = Rc::clone(&shared);
            Box::new(move || {
                let (spinners, inside) = &*shared;
                for _ in 0..turns {
                    spinners.in_turn(|| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                        inside.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            })
        };
        let all_ended = |end: &convoy_checker::model::End| {
            if end.spinning.is_empty() {
                return Ok(());
            }
            Err((Property::NoDeadlock, format!("{:?} spin forever", end.spinning)))
        };
        Instance { tasks: [2, 1, 1].map(body).into(), verdict: Box::new(all_ended) }
    };
    let scenario = Scenario { name: "turns".to_owned(), build: Box::new(build) };
    let report = explore(&scenario, Budget { executions: 20_000, ..Budget::default() });
    let text = report.violation.map(|found| format!("{}: {}", found.schedule, found.text));
    assert_eq!(text, None);
}

/// Every order of three tasks within the budget.
fn checked<E: Exclusive>(fifo: bool) {
    const WRITERS: &[&[bool]] = &[&[false, false], &[false], &[false]];
    const MIXED: &[&[bool]] = &[&[true, false], &[false], &[true]];
    let budget = Budget { executions: 4000, ..Budget::default() };
    for visits in [WRITERS, MIXED] {
        let report = explore(&exclusion::<E>("contract", visits, fifo), budget);
        if let Some(violation) = report.violation {
            let steps = violation.narrative.join("\n");
            panic!("{}: {}\n{steps}", violation.schedule, violation.text);
        }
        assert!(report.complete || report.explored == budget.executions);
    }
}
