//! The system calls.

use super::{GRANTED, Pending, REMOVED, SEGMENTS, SETS, Segment, Set, VALUE_MAX, WAITING};
use crate::base::bump;
use crate::costs::spend;
use crate::locks::{Field, Line};
use crate::pages::PAGE;
use crate::process::Process;
use crate::zone::Use;
use convoy_machine::{Here, Smp, Word};
use convoy_sync::{Atomic, Platform, Sleep, Wake};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::SeqCst;
use std::rc::Rc;

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

    /// `semctl(IPC_RMID)`: sleeping tasks wake with an error.
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
            self.world.free_later(1);
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
                Ok(())
            };
            self.mm.fault_file(find, &world.costs)?;
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
        // The segment, its file, its inode and the nodes of its pages.
        world.free_later(3 + segment.pages.borrow().tree_nodes());
        let pages = segment.pages.borrow_mut().remove_from(0);
        self.mm.forget(pages);
        world.zones.free(&segment.frames.take(), &world.costs);
        Ok(())
    }
}
