//! System V shared memory and semaphores.

use crate::base::bump;
use crate::costs::spend;
use crate::locks::{Field, Guarded, Line, RwSem};
use crate::pages::{PAGE, Pages};
use crate::process::Process;
use crate::zone::Use;
use convoy_machine::{Here, Sim, Smp, Word};
use convoy_sync::{Atomic, Platform, Sleep, Wake};
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
    pub(crate) fn new() -> Self {
        let hot = IpcHot { set_ids: Line(RwSem::new()), segment_ids: Line(RwSem::new()) };
        let hot = Here::place(hot);
        Here::name(&hot.set_ids, "sem_ids rwsem");
        Here::name(&hot.segment_ids, "shm_ids rwsem");
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

    /// The oldest sleeping operation that can go on now, taken off the queue with its effect done.
    /// The caller holds the lock.
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
        Smp::wake(&operation.state, 1);
    }
}

impl Process {
    /// `semget` and `semctl(SETVAL)`.
    pub(crate) fn create_set(&self, value: i32) -> Sys<i32> {
        if !(0..=VALUE_MAX).contains(&value) {
            return Err(Errno::EINVAL);
        }
        let ipc = &self.world.ipc;
        let id = ipc.hot.set_ids.write(|| {
            spend(self.world.costs.ipc_create);
            if ipc.sets.borrow().len() >= SETS {
                return Err(Errno::ENOSPC);
            }
            let hot = Here::place(Line(self.world.locks.guarded(Field::new(0))));
            hot.name("sem lock");
            let set = Rc::new(Set { hot, pending: RefCell::default(), removed: Cell::new(false) });
            let id = ipc.next_id();
            ipc.sets.borrow_mut().insert(id, set);
            Ok(id)
        })?;
        // The second system call sets the value.
        self.enter("semctl");
        let set = ipc.set(id)?;
        set.hot.hold(|held| held.write(value));
        Ok(id)
    }

    /// `semop` with one operation.
    pub(crate) fn operate(&self, id: i32, delta: i32) -> Sys<()> {
        Here::pass(self.world.costs.semop);
        let set = self.world.ipc.set(id)?;
        let queued = set.hot.hold(|_| {
            if set.removed.get() {
                return Err(Errno::EINVAL);
            }
            if set.try_add(delta)? {
                if delta > 0 {
                    while let Some(operation) = set.next_ready() {
                        Set::finish(&operation, GRANTED);
                    }
                }
                return Ok(None);
            }
            let operation = Rc::new(Pending { delta, state: Here::place(Word::new(WAITING)) });
            set.pending.borrow_mut().push_back(Rc::clone(&operation));
            Ok(Some(operation))
        })?;
        match queued {
            None => Ok(()),
            Some(operation) => Self::sleep_on_set(&set, &operation),
        }
    }

    fn sleep_on_set(set: &Set, operation: &Rc<Pending>) -> Sys<()> {
        loop {
            let woken = Smp::wait(&operation.state, WAITING, Sleep::Interruptible, None);
            match operation.state.load(SeqCst) {
                GRANTED => return Ok(()),
                REMOVED => return Err(Errno::EINVAL),
                _ if woken != Wake::Interrupted => {}
                _ => {
                    let given_up = set.hot.hold(|_| {
                        let mut pending = set.pending.borrow_mut();
                        let before = pending.len();
                        pending.retain(|other| !Rc::ptr_eq(other, operation));
                        pending.len() < before
                    });
                    // An operation that is off the queue was done just now.
                    if given_up {
                        return Err(Errno::EINTR);
                    }
                }
            }
        }
    }

    /// `semctl(IPC_RMID)`: whoever sleeps wakes with an error.
    pub(crate) fn remove_set(&self, id: i32) -> Sys<()> {
        let ipc = &self.world.ipc;
        ipc.hot.set_ids.write(|| {
            spend(self.world.costs.ipc_remove);
            let set = ipc.sets.borrow_mut().remove(&id).ok_or(Errno::EINVAL)?;
            set.hot.hold(|_| {
                set.removed.set(true);
                let pending = set.pending.take();
                for operation in pending {
                    Set::finish(&operation, REMOVED);
                }
            });
            Ok(())
        })
    }

    /// `shmget` and `shmat`.
    pub(crate) fn create_segment(&self, bytes: usize) -> Sys<i32> {
        if bytes == 0 {
            return Err(Errno::EINVAL);
        }
        let ipc = &self.world.ipc;
        let id = ipc.hot.segment_ids.write(|| {
            spend(self.world.costs.ipc_create);
            self.world.vfs.make_anonymous(&self.world.costs);
            if ipc.segments.borrow().len() >= SEGMENTS {
                return Err(Errno::ENOSPC);
            }
            let hot = Here::place(Line(self.world.locks.guarded(Field::new(0))));
            hot.name("shm lock");
            let segment =
                Segment { bytes, hot, pages: RefCell::default(), frames: RefCell::default() };
            let id = ipc.next_id();
            ipc.segments.borrow_mut().insert(id, Rc::new(segment));
            Ok(id)
        })?;
        // The second system call attaches it.
        self.enter("shmat");
        let segment = ipc.segment(id)?;
        segment.hot.hold(|attached| attached.write(1));
        self.mm.change_map(self.world.costs.shm_attach);
        Ok(id)
    }

    /// The user program copies `bytes` at `offset` in or out of the segment.
    pub(crate) fn copy_segment(&self, id: i32, offset: usize, bytes: usize) -> Sys<()> {
        let world = &*self.world;
        let segment = world.ipc.segment(id)?;
        let end = offset.checked_add(bytes).filter(|&end| end <= segment.bytes);
        let end = end.ok_or(Errno::EINVAL)?;
        if bytes == 0 {
            return Ok(());
        }
        for page in offset as u64 / PAGE..=(end as u64 - 1) / PAGE {
            let present = segment.pages.borrow().contains(page);
            if present {
                continue;
            }
            bump(&world.counts.faults);
            let frame = world.zones.page(Use::Programs, &world.costs)?;
            segment.frames.borrow_mut().push(frame);
            segment.pages.borrow_mut().insert(page);
            let find = || {
                Here::pass(world.costs.page_zero);
                segment.hot.hold(|attached| attached.write(attached.peek()));
            };
            self.mm.fault_file(find, &world.costs);
        }
        Here::user(world.costs.copy(bytes));
        Ok(())
    }

    /// `shmdt` and `shmctl(IPC_RMID)`.
    pub(crate) fn remove_segment(&self, id: i32) -> Sys<()> {
        let world = &*self.world;
        let segment = world.ipc.segment(id)?;
        self.mm.change_map(world.costs.shm_attach);
        // The second system call removes it.
        self.enter("shmctl");
        world.ipc.hot.segment_ids.write(|| {
            spend(world.costs.ipc_remove);
            world.ipc.segments.borrow_mut().remove(&id).ok_or(Errno::EINVAL)
        })?;
        world.vfs.list_anonymous_inode(false);
        let pages = segment.pages.borrow_mut().remove_from(0);
        self.mm.forget(pages);
        world.zones.free(&segment.frames.take(), &world.costs);
        Ok(())
    }
}
