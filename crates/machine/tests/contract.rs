//! Every lock on the virtual machine keeps its contract: owners exclude each other, and no task is
//! forgotten. The native and the checked half are in `crates/checker/tests/contract.rs`.

use convoy_catalogue::MACHINES;
use convoy_checker::{Binary, Exclusive, Irq, Raw};
use convoy_machine::{Fifo, Here, Outcome, Preset, Sim, Smp};
use convoy_sync::{
    AdaptiveLock, ArchSemaphore, Compete, Handoff, LookFirst, LookFirstAtLowLoad, LookFirstInTurn,
    Mutex, Opportunistic, PublishedFix, RwLock, RwSemaphore, Semaphore, SpinningMutex, TasLock,
    TicketLock,
};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

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

every_lock!(smp, Smp, virtual_machine);

/// The virtual machine, with fewer CPUs than tasks.
fn virtual_machine<E: Exclusive>(_: bool) {
    struct Room<E> {
        lock: OnceCell<Sim<E>>,
        owners: Cell<u32>,
        readers: Cell<u32>,
        visits: Cell<u32>,
    }
    let room = Rc::new(Room::<E> {
        lock: OnceCell::new(),
        owners: Cell::new(0),
        readers: Cell::new(0),
        visits: Cell::new(0),
    });
    let body = |task: u32| -> Box<dyn FnOnce()> {
        let room = Rc::clone(&room);
        Box::new(move || {
            let lock = room.lock.get_or_init(|| Here::place(E::unlocked()));
            for round in 0..200 {
                let reader = (task + round).is_multiple_of(2);
                lock.enter(reader);
                let shared = reader && E::SHARES;
                let inside = if shared { &room.readers } else { &room.owners };
                inside.set(inside.get() + 1);
                Here::compute(1_000_000);
                let seen = (room.owners.get(), room.readers.get());
                assert!(matches!(seen, (1, 0) | (0, 1..)), "{seen:?} are inside");
                inside.set(inside.get() - 1);
                room.visits.set(room.visits.get() + 1);
                lock.leave(reader);
                Here::compute(u64::from(task + 1) * 700_000);
            }
        })
    };
    let name = MACHINES.names().next().expect("a machine preset is shipped");
    let preset = Preset::named(name).expect("a shipped preset is valid").with_cpus(4);
    let (outcome, machine) =
        Fifo::run(&preset, 1, 1_000_000_000, (0..6).map(body).collect()).expect("address space");
    assert_eq!(outcome, Outcome::Stopped, "a task was forgotten");
    assert_eq!(room.visits.get(), 6 * 200);
    drop(room);
    drop(machine);
}
