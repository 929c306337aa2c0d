//! System V shared memory and semaphores.

mod calls;

use crate::lock_rules::LockRules;
use crate::locks::{Field, Guarded, Line, RwSem};
use crate::pages::Pages;
use convoy_machine::{Here, Sim, Smp, Word};
use convoy_sync::{Atomic, Platform};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::SeqCst;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Sets of semaphores, `SEMMNI`.
const SETS: usize = 32_000;
/// Segments, `SHMMNI`.
const SEGMENTS: usize = 32_000;
/// Largest value of a semaphore, `SEMVMX`.
const VALUE_MAX: i32 = 32_767;

/// State of an operation that sleeps in a set's queue.
const WAITING: u32 = 0;
const GRANTED: u32 = 1;
const REMOVED: u32 = 2;

/// All of System V IPC.
pub(crate) struct Ipc {
    hot: Sim<IpcHot>,
    sets: RefCell<BTreeMap<i32, Rc<Set>>>,
    segments: RefCell<BTreeMap<i32, Rc<Segment>>>,
    last_id: Cell<i32>,
}

#[repr(C)]
struct IpcHot {
    /// `rw_mutex` of each type's ids.
    set_ids: Line<RwSem>,
    segment_ids: Line<RwSem>,
}

/// A set of one semaphore.
struct Set {
    /// The set's spinlock and the semaphore's value.
    hot: Sim<Line<Guarded<Field<i32>>>>,
    /// Operations that sleep, the oldest first.
    pending: RefCell<VecDeque<Rc<Pending>>>,
    removed: Cell<bool>,
}

/// An operation that sleeps.
struct Pending {
    delta: i32,
    state: Sim<Word<u32>>,
}

/// A shared memory segment.
struct Segment {
    bytes: usize,
    /// The segment's lock and its count of attaches.
    hot: Sim<Line<Guarded<Field<u32>>>>,
    pages: RefCell<Pages>,
    frames: RefCell<Vec<u32>>,
}

impl Ipc {
    pub(crate) fn new(locks: LockRules) -> Self {
        let hot = IpcHot { set_ids: Line(locks.rwsem()), segment_ids: Line(locks.rwsem()) };
        let hot = Here::place(hot);
        hot.set_ids.name("sem_ids rwsem");
        hot.segment_ids.name("shm_ids rwsem");
        Self { hot, sets: RefCell::default(), segments: RefCell::default(), last_id: Cell::new(0) }
    }

    fn next_id(&self) -> i32 {
        self.last_id.set(self.last_id.get().checked_add(1).unwrap_or(1));
        self.last_id.get()
    }

    fn set(&self, id: i32) -> Sys<Rc<Set>> {
        self.sets.borrow().get(&id).cloned().ok_or(Errno::EINVAL)
    }

    fn segment(&self, id: i32) -> Sys<Rc<Segment>> {
        self.segments.borrow().get(&id).cloned().ok_or(Errno::EINVAL)
    }
}

impl Set {
    /// Adds `delta` if the result is a value; the caller holds the lock.
    fn try_add(&self, delta: i32) -> Sys<bool> {
        let value = self.hot.unlocked();
        let now = value.read().saturating_add(delta);
        if now > VALUE_MAX {
            return Err(Errno::EINVAL);
        }
        if now >= 0 {
            value.write(now);
        }
        Ok(now >= 0)
    }

    /// Removes the oldest sleeping operation that can complete now from the queue, applies its
    /// effect, and returns it. The caller holds the lock.
    fn next_ready(&self) -> Option<Rc<Pending>> {
        let value = self.hot.unlocked();
        let mut pending = self.pending.borrow_mut();
        let ready = |operation: &Rc<Pending>| value.peek() + operation.delta >= 0;
        let at = pending.iter().position(ready)?;
        let operation = pending.remove(at)?;
        value.poke(value.peek() + operation.delta);
        Some(operation)
    }

    fn finish(operation: &Pending, state: u32) {
        operation.state.store(state, SeqCst);
        Smp::wake(&raw const *operation.state, 1);
    }
}
