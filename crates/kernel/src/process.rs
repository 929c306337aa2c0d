//! Processes: creation, exit, waiting, and relations between processes.

use crate::base::bump;
use crate::costs::spend;
use crate::mappings::Mappings;
use crate::mm::{Fault, Mm};
use crate::processes::{INIT, Life, Proc};
use crate::vfs::{Files, Paths};
use crate::world::World;
use convoy_machine::{Event, Here, Mode, Smp};
use convoy_sync::{Atomic, Platform, Sleep, Wake};
use convoy_workload::Errno;
use convoy_workload::api::{Exit, Pid, Sys};
use core::cell::Cell;
use core::sync::atomic::Ordering::SeqCst;
use std::rc::Rc;

/// Pages that a child writes before it ends or executes a program (measured with a small C
/// program).
const CHILD_COPIES: u32 = 8;
/// Pages that a parent writes after `fork`.
const PARENT_COPIES: u32 = 4;

/// Attempts of the C library to reach the name service cache: one for users and one for groups.
const NAME_SERVICE_TRIES: u32 = 2;

/// Which signals a process catches, and how often it did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handlers {
    pub(crate) caught_set: Cell<u32>,
    pub(crate) caught: Cell<u64>,
}

impl Handlers {
    /// How often the handler has run.
    pub(crate) fn caught(&self) -> u64 {
        self.caught.get()
    }

    /// `exec` resets caught signals.
    pub(crate) fn reset(&self) {
        self.caught_set.set(0);
        self.caught.set(0);
    }
}

/// A process as it sees itself: the virtual kernel's value of [`convoy_workload::Kernel`].
pub struct Process {
    pub(crate) world: Rc<World>,
    pub(crate) me: Rc<Proc>,
    pub(crate) files: Files,
    pub(crate) mm: Mm,
    pub(crate) paths: Paths,
    pub(crate) handlers: Handlers,
    /// The entry of /proc for this process is not cached yet.
    pub(crate) proc_entry_missing: Cell<bool>,
    /// Attempts of the C library to reach the name service cache that are left.
    pub(crate) name_service_tries: Cell<u32>,
}

impl Process {
    /// The kernel that runs it.
    pub fn world(&self) -> &Rc<World> {
        &self.world
    }

    /// The first process of `world`.
    pub(crate) fn first(world: &Rc<World>) -> Self {
        let pid = INIT;
        let me = Proc::new(world.locks, pid, 0, None);
        world.processes.insert(&me);
        Self {
            world: Rc::clone(world),
            files: Files::first(world, &me),
            mm: Mm::new(world.locks, Mappings::first(world.maps.clone())),
            paths: Paths::first(world),
            me,
            handlers: Handlers::default(),
            proc_entry_missing: Cell::new(true),
            name_service_tries: Cell::new(NAME_SERVICE_TRIES),
        }
    }

    /// First step of a process on its own task.
    pub(crate) fn begin(&self) {
        self.me.task.set(Some(Here::task()));
        Here::tell(Event::Label { pid: self.me.pid as u32, kind: "", number: 0 });
    }

    /// Entry of every system call.
    #[inline]
    pub(crate) fn enter(&self, name: &'static str) {
        Here::tell(Event::Call(Some(name)));
        bump(&self.world.counts.calls);
        self.world.sched.end_extension();
        Here::pass(self.world.costs.syscall);
    }

    /// Return to user mode: reschedules if wanted, delivers signals.
    #[inline]
    pub(crate) fn leave(&self) {
        self.world.sched.syscall_return();
        if self.me.hot.signals.unlocked().peek() != 0 {
            self.deliver_signals();
        }
        Here::tell(Event::Call(None));
    }

    /// One system call.
    #[inline]
    pub(crate) fn call<T>(&self, name: &'static str, body: impl FnOnce() -> T) -> T {
        self.enter(name);
        let result = body();
        self.leave();
        result
    }

    /// `fork`: the child runs `child` and ends with its result.
    pub(crate) fn fork_process(&self, child: Box<dyn FnOnce(&mut Self) -> i32>) -> Sys<Pid> {
        let world = &self.world;
        let costs = &world.costs;
        if world.process_count() >= world.options.processes {
            return Err(Errno::EAGAIN);
        }
        world.work(self.mm.mappings().rest(costs.fork, 2));
        let stack = world.zones.take_stack()?;
        let copy = self.copy(stack).inspect_err(|_| world.zones.free_stack(stack));
        let mut process = copy?;
        let (pid, relative, frames) = (process.me.pid, Rc::clone(&process.me), process.mm.frames());
        let started = world.sched.fork(Box::new(move || {
            process.begin();
            process.copy_pages(CHILD_COPIES);
            process.leave();
            let code = child(&mut process);
            process.finish(Exit::Code(code & 0xff));
        }));
        if started.is_none() {
            self.disown(&relative, &frames);
            return Err(Errno::EAGAIN);
        }
        self.copy_pages(PARENT_COPIES);
        Ok(pid)
    }

    /// A thread of this process (`clone` with a shared address space): runs `body` in user mode and
    /// ends. After a switch it refills `footprint` of the first-level caches. It may use locks over
    /// [`convoy_machine::User`], and make no other system calls.
    ///
    /// # Errors
    ///
    /// [`Errno::EAGAIN`] if the machine has no free stack for another task.
    pub fn thread(&mut self, footprint: f64, body: Box<dyn FnOnce()>) -> Sys<()> {
        self.call("clone", || {
            let world = &self.world;
            world.work(world.costs.thread);
            let started = world.sched.fork(Box::new(move || {
                let mode = Here::set_mode(Mode::User);
                body();
                Here::set_mode(mode);
            }));
            let thread = world.sched.rq.tcb(started.ok_or(Errno::EAGAIN)?);
            thread.space.set(world.sched.rq.current().space.get());
            thread.footprint.set(footprint);
            Ok(())
        })
    }

    /// The child of `fork`, linked into the process table; `stack` is its kernel stack.
    fn copy(&self, stack: u32) -> Sys<Self> {
        let world = &self.world;
        let open = self.files.share();
        let paths = self.paths.copy();
        let mm = self.mm.duplicate(&world.zones, &world.costs).inspect_err(|_| {
            open.iter().flatten().for_each(|file| world.put_file(file));
            paths.release();
        })?;
        let me = Proc::new(world.locks, world.processes.next_pid(), self.me.pid, Some(stack));
        world.processes.note_pid();
        world.processes.tasklist().write_irq(|| {
            me.hot.family.write(1);
            self.me.hot.family.write(self.me.hot.family.peek().wrapping_add(1));
            self.me.hot.signals.hold(|_| ());
            world.processes.insert(&me);
            self.me.children.borrow_mut().push(Rc::clone(&me));
        });
        Ok(Self {
            world: Rc::clone(world),
            mm,
            files: Files::new(world, &me, open),
            paths,
            me,
            handlers: self.handlers.clone(),
            proc_entry_missing: Cell::new(true),
            name_service_tries: self.name_service_tries.clone(),
        })
    }

    /// Undoes the creation of `child`, with `frames` in its address space, because the machine has
    /// no free stack. Its descriptors and its directory are the caller's.
    fn disown(&self, child: &Rc<Proc>, frames: &[u32]) {
        let world = &self.world;
        world.processes.tasklist().write_irq(|| {
            world.processes.remove(child.pid);
            self.me.children.borrow_mut().retain(|other| other.pid != child.pid);
        });
        child.life.set(Life::Gone);
        self.files.put_shared();
        world.put_path(&self.paths.directory());
        world.zones.free(frames, &world.costs);
        child.stack.into_iter().for_each(|stack| world.zones.free_stack(stack));
    }

    /// Writes `pages` pages that are shared since the last `fork`.
    fn copy_pages(&self, pages: u32) {
        for _ in 0..pages {
            bump(&self.world.counts.faults);
            // Without memory the kernel of the period would kill the process; here the write waits
            // for nobody.
            if self.mm.fault(Fault::Copy, &self.world.zones, &self.world.costs).is_err() {
                return;
            }
        }
    }

    /// Everything of `exit` before the last switch.
    pub(crate) fn finish(&self, exit: Exit) {
        let world = &self.world;
        world.work(self.mm.mappings().rest(world.costs.exit, 1));
        self.files.close_all();
        self.paths.release();
        self.mm.release(&world.zones, &world.costs);
        let parent = world.processes.find(self.me.parent.get());
        self.clear_all_signals();
        self.me.task.set(None);
        world.processes.tasklist().write_irq(|| {
            self.give_children_away();
            self.me.hot.family.write(0);
            self.me.life.set(Life::Zombie(exit));
            if let Some(parent) = parent {
                self.notify(&parent);
            }
        });
    }

    /// `SIGCHLD`: ignored by default, but the parent's `wait` must see the end.
    fn notify(&self, parent: &Proc) {
        parent.hot.signals.hold(|_| ());
        parent.hot.child_event.fetch_add(1, SeqCst);
        self.world.sched.sleepers.wake_sync(&parent.hot.child_event, 1);
    }

    /// Orphans become children of the first process.
    fn give_children_away(&self) {
        let orphans = self.me.children.take();
        if orphans.is_empty() {
            return;
        }
        let init = self.world.processes.find(INIT);
        let Some(init) = init else { return };
        for orphan in &orphans {
            orphan.hot.family.write(1);
            orphan.parent.set(INIT);
        }
        let any_ended = orphans.iter().any(|orphan| orphan.life.get() != Life::Alive);
        init.children.borrow_mut().extend(orphans);
        if any_ended {
            self.notify(&init);
        }
    }

    /// Ends the process in the middle of a system call.
    pub(crate) fn die(&self, exit: Exit) -> ! {
        self.finish(exit);
        self.world.sched.exit()
    }

    /// `wait`.
    pub(crate) fn wait_for_child(&self) -> Sys<(Pid, Exit)> {
        let world = &self.world;
        let event = &*self.me.hot.child_event;
        loop {
            let seen = event.load(SeqCst);
            spend(world.costs.wait);
            let ended = world.processes.tasklist().read(|| self.find_ended());
            match ended {
                Some(child) => return Ok(self.reap(&child)),
                None if self.me.children.borrow().is_empty() => return Err(Errno::ECHILD),
                None => {}
            }
            if Smp::wait(event, seen, Sleep::Interruptible, None) == Wake::Interrupted {
                return Err(Errno::EINTR);
            }
        }
    }

    /// Returns the first exited child in order of creation; visits all children before it.
    fn find_ended(&self) -> Option<Rc<Proc>> {
        let (looked_at, found) = {
            let children = self.me.children.borrow();
            let at = children.iter().position(|child| child.life.get() != Life::Alive);
            (at.map_or(children.len(), |at| at + 1), at.map(|at| Rc::clone(&children[at])))
        };
        Here::pass(self.world.costs.wait_child * looked_at as u64);
        let found = found?;
        found.hot.family.read();
        Some(found)
    }

    /// `release_task`: takes an ended child out of the tables.
    fn reap(&self, child: &Rc<Proc>) -> (Pid, Exit) {
        let world = &self.world;
        let Life::Zombie(exit) = child.life.replace(Life::Gone) else {
            unreachable!("only the parent, which is one task, waits for a child");
        };
        world.processes.tasklist().write_irq(|| {
            child.hot.signals.hold(|_| child.hot.family.write(0));
            world.processes.remove(child.pid);
            self.me.children.borrow_mut().retain(|other| other.pid != child.pid);
        });
        world.processes.note_pid();
        // The number, and the task, which frees its credentials after another grace period.
        world.free_later(1);
        if let Some(rcu) = &world.sched.rcu {
            rcu.call(Box::new(|sched| sched.rcu().free()));
        }
        child.stack.into_iter().for_each(|stack| world.zones.free_stack(stack));
        (child.pid, exit)
    }
}
