//! Every lock of the list on the virtual machine keeps its contract: owners exclude each other, and
//! no task is forgotten. The native and the checked half are in `crates/checker/tests`.

use convoy_catalogue::MACHINES;
use convoy_checker::Irq;
use convoy_machine::{Fifo, Here, Outcome, Preset, Sim, Smp};
use convoy_sync::{
    Lock, LockName, Opportunistic, Promise, TasLock, TicketLock, kernel::Semaphore, with_lock,
};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

#[test]
fn every_lock_keeps_its_contract() {
    for &name in LockName::ALL {
        let shares = name.promises_to(Promise::Shared);
        with_lock!(name, Smp, TicketLock<Smp>, T => virtual_machine::<T>(shares));
    }
}

#[test]
fn so_do_other_ways_to_take_them() {
    virtual_machine::<Irq<Smp, TasLock<Smp>>>(false);
    virtual_machine::<Irq<Smp, TicketLock<Smp>>>(false);
    virtual_machine::<Semaphore<Smp, Opportunistic, TasLock<Smp>>>(false);
}

/// The virtual machine, with fewer CPUs than tasks.
fn virtual_machine<T: Lock>(shares: bool) {
    struct Room<T> {
        lock: OnceCell<Sim<T>>,
        owners: Cell<u32>,
        readers: Cell<u32>,
        visits: Cell<u32>,
    }
    let room = Rc::new(Room::<T> {
        lock: OnceCell::new(),
        owners: Cell::new(0),
        readers: Cell::new(0),
        visits: Cell::new(0),
    });
    let body = |task: u32| -> Box<dyn FnOnce()> {
        let room = Rc::clone(&room);
        Box::new(move || {
            let lock = room.lock.get_or_init(|| Here::place(T::unlocked()));
            for round in 0..200 {
                let shared = shares && (task + round).is_multiple_of(2);
                if shared {
                    lock.acquire_shared();
                } else {
                    lock.acquire();
                }
                let inside = if shared { &room.readers } else { &room.owners };
                inside.set(inside.get() + 1);
                Here::compute(1_000_000);
                let seen = (room.owners.get(), room.readers.get());
                assert!(matches!(seen, (1, 0) | (0, 1..)), "{seen:?} are inside");
                inside.set(inside.get() - 1);
                room.visits.set(room.visits.get() + 1);
                if shared {
                    lock.release_shared();
                } else {
                    lock.release();
                }
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
